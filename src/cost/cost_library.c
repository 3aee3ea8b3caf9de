/* Launches of a library: the counts of a well-made kernel, written down from what it must do. */
#include "cost/cost.h"
#include "base/dtype.h"
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
