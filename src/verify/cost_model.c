/* cost_model: both sides of a speedup by the cost room's estimate. The candidate's
 * launches have counts; the reference's operators, and rows of a tape that only move data, cost
 * what PyTorch's own operators were timed to take. */
#include "verify/cost_model.h"
#include "base/base.h"
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
		/* A movement row is a copy kernel of torch: it runs as the reference's do.
		 * A fill has no counts. */
		double time = r->kind == TAPE_LAUNCH ? vm_estimate(&r->counts, &binary, gpu).time_s
											 : cost_copy_s("clone", "", &r->counts, &moved, gpu);
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

/* Numbers of a list that has n; false: it has another length, or one is below `least`. */
static bool sizes_of(const json_t *list, size_t n, int64_t least, int64_t *out)
{
	if (json_array_size(list) != n) return false;
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		if (!json_is_integer(v) || json_integer_value(v) < least || json_integer_value(v) > COST_COPY_MAX) return false;
		out[i] = json_integer_value(v);
	}
	return true;
}

/* Of a copy that is not straight: {"shape", "to", "from", "sizes"}. */
static bool copy_of(const json_t *o, struct cost_copy *out)
{
	const json_t *shape = json_object_get(o, "shape");
	size_t n = json_array_size(shape);
	int64_t sizes[2];
	*out = (struct cost_copy){.ndim = (int)n};
	if (n < 1 || n > COST_COPY_DIMS || !sizes_of(shape, n, 1, out->shape) ||
		!sizes_of(json_object_get(o, "to"), n, 0, out->to_step) ||
		!sizes_of(json_object_get(o, "from"), n, 0, out->from_step) ||
		!sizes_of(json_object_get(o, "sizes"), 2, 1, sizes))
		return false;
	out->to_size = (int)MIN(sizes[0], 64), out->from_size = (int)MIN(sizes[1], 64);
	return true;
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
		struct cost_copy copy;
		if (copy_of(json_object_get(o, "copy"), &copy)) {
			struct vm_cost counts = cost_copy_counts(&copy);
			*eager_s += cost_copy_s(name ? name : "", "", &counts, &l, gpu);
		} else {
			*eager_s += cost_operator_s(name ? name : "", form ? form : "", &l, dot, gpu);
		}
	}
	json_array_foreach(fused, i, o)
	{
		struct cost_launch l = launch_of(o);
		*fused_s += cost_launch_s(&l, dot, gpu);
	}
}
