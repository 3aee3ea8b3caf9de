/* cost_model: both sides of a speedup by the cost room's estimate. The candidate's
 * launches have counts; the reference's operators, and rows of a tape that only move data, cost
 * what PyTorch's own operators were timed to take. */
#include "verify/cost_model.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include <math.h>

double cost_candidate_s(
	const struct runner_row_cost *rows, int n, const json_t *compiled, const struct vm_gpu *gpu, double *error)
{
	double sum = 0, off = 0;
	for (int i = 0; i < n; i++) {
		const struct runner_row_cost *r = &rows[i];
		struct vm_binary binary = vm_binary_of(json_array_get(compiled, (size_t)r->kernel));
		struct cost_launch moved = {.bytes = (double)r->footprint_bytes};
		/* A movement row is a copy kernel of torch: it runs as the reference's do. */
		double time = r->kind == TAPE_LAUNCH ? vm_estimate(&r->counts, &binary, gpu).time_s
											 : cost_operator_s("clone", "", &moved, COST_DOT_FP32, gpu);
		/* No part of a launch's time grows faster than its counts do. */
		sum += time;
		off += time * r->error;
	}
	*error = sum > 0 ? off / sum : 0;
	return sum;
}

const char *cost_candidate_limit(
	const struct runner_row_cost *rows, int n, const json_t *compiled, const struct vm_gpu *gpu)
{
	double time_s[VM_LIMIT_COUNT] = {0};
	int most = VM_LIMIT_LAUNCH;
	for (int i = 0; i < n; i++) {
		if (rows[i].kind != TAPE_LAUNCH) continue;
		struct vm_binary binary = vm_binary_of(json_array_get(compiled, (size_t)rows[i].kernel));
		struct vm_estimate e = vm_estimate(&rows[i].counts, &binary, gpu);
		time_s[e.limit] += e.time_s;
	}
	for (int l = 0; l < VM_LIMIT_COUNT; l++)
		if (time_s[l] > time_s[most]) most = l;
	return vm_limit_name((enum vm_limit)most);
}

static double field(const json_t *o, const char *name)
{
	double v = json_number_value(json_object_get(o, name));
	return isfinite(v) && v > 0 ? v : 0;
}

static struct cost_launch launch_of(const json_t *o)
{
	return (struct cost_launch){.bytes = field(o, "bytes"),
		.flops = field(o, "flops"),
		.special = field(o, "special"),
		.dot_flops = field(o, "dot_flops"),
		.extent = field(o, "extent"),
		.warm = fmin(field(o, "warm"), 1),
		.since = field(o, "since")};
}

void cost_reference_s(const json_t *cost, enum cost_dot dot, const struct vm_gpu *gpu, double *eager_s, double *fused_s)
{
	const json_t *eager = json_object_get(cost, "eager"), *fused = json_object_get(cost, "fused"), *o;
	size_t i;
	*eager_s = json_array_size(eager) ? 0 : NAN;
	*fused_s = json_array_size(fused) ? 0 : NAN;
	/* Eager is what PyTorch's own kernels take; fused what a compiler could reach at best. */
	json_array_foreach(eager, i, o)
	{
		struct cost_launch l = launch_of(o);
		const char *name = json_string_value(json_object_get(o, "name"));
		const char *form = json_string_value(json_object_get(o, "form"));
		*eager_s += cost_operator_s(name ? name : "", form ? form : "", &l, dot, gpu);
	}
	json_array_foreach(fused, i, o)
	{
		struct cost_launch l = launch_of(o);
		*fused_s += cost_launch_s(&l, dot, gpu);
	}
}
