/* launch_limits: launches that a driver refuses, refused here by name. The vm runs any grid with
 * any number of warps; a GPU has so many threads in a block, registers for them, blocks in a
 * cluster, and, for a grid that runs at once, places on its multiprocessors. Triton's launcher asks
 * the host for the scratch memory that a kernel needs (descriptors made on the device), and refuses
 * where no allocator was set. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"

#define BLOCK_THREADS_MAX 1024
#define CLUSTER_MAX 16              /* with the attribute that Triton's launcher sets */
#define WARP 32

int launch_limits_check(struct grading *g, const struct tape *t, int kernel, const json_t *result)
{
	const struct tape_kernel *k = &t->kernels[kernel];
	int warps = (int)json_integer_value(json_object_get(result, "num_warps")),
		registers = (int)json_integer_value(json_object_get(result, "registers"));
	int64_t shared = json_integer_value(json_object_get(result, "shared_bytes")),
			scratch = json_integer_value(json_object_get(result, "global_scratch_bytes"));
	/* Warp specialisation makes more warps than the tape's, so the compiled count goes first. */
	if (warps <= 0) warps = k->num_warps;
	/* Each launch is looked at by itself, because a refusal names its line and its grid. */
	for (int i = 0; i < t->nrows; i++) {
		const struct tape_row *row = &t->rows[i];
		if (row->kind != TAPE_LAUNCH || row->kernel != kernel) continue;
		if (warps * WARP > BLOCK_THREADS_MAX)
			return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, "too-many-threads", row->line,
				"kernel %.100s (launched at candidate.py:%d) has %d warps, that is %d threads; a GPU's block has at "
				"most %d",
				k->name, row->line, warps, warps * WARP, BLOCK_THREADS_MAX);
		if (scratch > 0 && !row->has_allocator && strstr(k->ttir, "tt.make_tensor_descriptor"))
			return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, "no-allocator", row->line,
				"kernel %.100s (launched at candidate.py:%d) needs %lld bytes of scratch memory for each program, "
				"which descriptors made on the device lie in, and Triton's launcher has no allocator to ask: call "
				"triton.set_allocator before the launch",
				k->name, row->line, (long long)scratch);
		if (k->num_ctas > CLUSTER_MAX)
			return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, "cluster-too-large", row->line,
				"kernel %.100s (launched at candidate.py:%d) has clusters of %d blocks, at most %d are possible",
				k->name, row->line, k->num_ctas, CLUSTER_MAX);
		int64_t fit = vm_gpu_fit(&g->s->gpu, warps, registers, shared);
		if (fit < 1)
			return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, "out-of-resources", row->line,
				"kernel %.100s (launched at candidate.py:%d): %d warps of %d registers a thread and %lld bytes of "
				"shared memory "
				"do not fit on a multiprocessor",
				k->name, row->line, warps, registers, (long long)shared);
		/* A cooperative grid's blocks all run at once, so the card must have places for them. */
		int64_t blocks = (int64_t)row->grid[0] * row->grid[1] * row->grid[2] * k->num_ctas;
		if (k->is_cooperative && blocks > fit * g->s->gpu.sms)
			return grade_end(g, VERDICT_INVALID, STAGE_COMPILE, "grid-not-resident", row->line,
				"kernel %.100s (launched at candidate.py:%d) is launched as a cooperative grid of %lld blocks, which "
				"all run at "
				"once; %lld fit on the %s",
				k->name, row->line, (long long)blocks, (long long)(fit * g->s->gpu.sms), g->s->gpu.name);
	}
	return GRADE_ON;
}
