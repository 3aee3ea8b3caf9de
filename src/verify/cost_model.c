/* cost_model: both sides of a speedup by the vm's estimate. The candidate has counts; for the
 * reference's operators, and for rows of a tape that only move data, the counts of a well-made
 * kernel are written down from what they must do. */
#include "verify/cost_model.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include <math.h>

#define ELEMENTS_PER_PROGRAM 1024      /* of a library's element-wise kernel */
#define BYTES_PER_ELEMENT 8            /* read and written */
#define PATH_CYCLES 400                /* of its programs: one load from L2, arithmetic, one store */
#define READ_SHARE (2.0 / 3)           /* of a launch's bytes */
#define HALF_FLOPS_PER_CYCLE 4096      /* what a tensor cycle of vm_cost stands for */

enum cost_dot cost_dot_of(enum dtype task, bool tf32)
{
	if (task == DTYPE_F32 || task == DTYPE_F64) return tf32 && task == DTYPE_F32 ? COST_DOT_TF32 : COST_DOT_FP32;
	return COST_DOT_HALF;
}

static int64_t count(double v) { return (int64_t)fmin(fmax(ceil(v), 0), 1e17); }

static struct vm_cost well_made(const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	double programs = fmax(ceil(l->bytes / BYTES_PER_ELEMENT / ELEMENTS_PER_PROGRAM), 1),
		   fp32_dot = dot == COST_DOT_FP32 ? l->dot_flops : 0;
	if (l->dot_flops > 0)
		programs = ceil(programs / gpu->sms) * gpu->sms; /* a library's product is cut to fill the GPU */
	double tensor = dot == COST_DOT_FP32 ? 0 : l->dot_flops / HALF_FLOPS_PER_CYCLE * (dot == COST_DOT_TF32 ? 2 : 1);
	return (struct vm_cost){
		.programs = count(programs),
		.footprint_bytes = count(l->bytes),
		.footprint_read = count(l->bytes * READ_SHARE),
		.l2_sectors = count(l->bytes / 32),
		.load_lines = count(l->bytes / 128 * READ_SHARE),
		.missed_lines = count(l->bytes / 128 * READ_SHARE),
		.store_lines = count(l->bytes / 128 * (1 - READ_SHARE)),
		.fma_instrs = count(l->flops / 32 + fp32_dot / 64),
		.other_instrs = count(l->bytes / 512 + fp32_dot / 256),
		.special_instrs = count(l->special / 32),
		.tensor_cycles = count(tensor),
		.path_cycles = count(programs * PATH_CYCLES),
		.path_trips = count(programs),
		.path_cycles_max = PATH_CYCLES,
	};
}

double cost_launch_s(const struct cost_launch *l, enum cost_dot dot, const struct vm_gpu *gpu)
{
	struct vm_cost c = well_made(l, dot, gpu);
	struct vm_binary binary = vm_binary_default(4);
	return vm_estimate(&c, &binary, gpu).time_s;
}

double cost_candidate_s(const struct runner_row_cost *rows, int n, const struct vm_binary *binaries, int nbinaries,
	const struct vm_gpu *gpu)
{
	double sum = 0;
	for (int i = 0; i < n; i++) {
		const struct runner_row_cost *r = &rows[i];
		struct vm_binary binary = r->kernel >= 0 && r->kernel < nbinaries ? binaries[r->kernel] : vm_binary_default(4);
		struct cost_launch moved = {.bytes = (double)r->footprint_bytes};
		/* A movement row is a copy kernel of torch: it runs as the reference's do. */
		sum += r->kind == TAPE_LAUNCH ? vm_estimate(&r->counts, &binary, gpu).time_s
									  : cost_launch_s(&moved, COST_DOT_FP32, gpu);
	}
	return sum;
}

static double field(const json_t *o, const char *name)
{
	double v = json_number_value(json_object_get(o, name));
	return isfinite(v) && v > 0 ? v : 0;
}

static double launches_s(const json_t *list, enum cost_dot dot, const struct vm_gpu *gpu)
{
	double sum = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		struct cost_launch l = {field(o, "bytes"), field(o, "flops"), field(o, "special"), field(o, "dot_flops")};
		sum += cost_launch_s(&l, dot, gpu);
	}
	return json_array_size(list) ? sum : NAN;
}

double cost_reference_s(
	const json_t *cost, enum cost_dot dot, const struct vm_gpu *gpu, double *eager_s, double *fused_s)
{
	*eager_s = launches_s(json_object_get(cost, "eager"), dot, gpu);
	*fused_s = launches_s(json_object_get(cost, "fused"), dot, gpu);
	return fmin(*eager_s, *fused_s);
}

struct vm_binary cost_binary(const json_t *result)
{
	struct vm_binary b = vm_binary_default((int)fmin(fmax(field(result, "num_warps"), 1), 32));
	if (field(result, "registers") > 0) b.registers = (int)fmin(field(result, "registers"), 255);
	b.shared_bytes = (int64_t)fmin(field(result, "shared_bytes"), 1e9);
	b.local_bytes = (int64_t)fmin(field(result, "spills"), 1e9); /* ptxas counts bytes of stores and of loads */
	b.stack_bytes = (int)(b.local_bytes / 2);
	return b;
}
