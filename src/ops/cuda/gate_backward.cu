/* gate_backward: gradients of act = silu(gate) * up. Eight elements a thread,
 * read once, written once. */
#include "cuda_device.cuh"

#define THREADS 256

/* With s = sigmoid(g): silu(g) = g s, silu'(g) = s (1 + g (1 - s)). */
static __global__ void __launch_bounds__(THREADS)
	gate_backward_kernel(bf16 *dgu, const bf16 *dact, int64_t dact_ld, const bf16 *gu, int I, int64_t pieces)
{
	grid_begin();
	int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x;
	if (at >= pieces) return;
	int64_t t = at / (I / 8);
	int column = (int)(at % (I / 8)) * 8;
	const bf16 *row = gu + t * 2 * I + column;
	float gate[8], up[8], d[8], dgate[8], dup[8];
	unpack8(gate, load8(row));
	unpack8(up, load8(row + I));
	unpack8(d, load8(dact + t * dact_ld + column));
#pragma unroll
	for (int i = 0; i < 8; i++) {
		float s = 1.0f / (1.0f + __expf(-gate[i]));
		dgate[i] = d[i] * up[i] * s * fmaf(gate[i], 1.0f - s, 1.0f);
		dup[i] = d[i] * gate[i] * s;
	}
	store8(dgu + t * 2 * I + column, pack8(dgate));
	store8(dgu + t * 2 * I + I + column, pack8(dup));
}

static void gate_backward(
	struct ops_context *c, struct elem *dgu, const struct elem *dact, const struct elem *gu, int I, int T)
{
	CHECKF(I % 8 == 0, "an MLP of %d columns; the CUDA backend takes multiples of 8", I);
	int64_t pieces = (int64_t)T * (I / 8);
	if (!pieces) return;
	cuda_launch(c, {dim3((unsigned)((pieces + THREADS - 1) / THREADS)), dim3(THREADS), 0, 0}, gate_backward_kernel,
		elems(dgu), elems(dact), (int64_t)I + c->tail, elems(gu), I, pieces);
}

void cuda_gate_backward_entries(struct ops *t) { t->gate_backward = gate_backward; }
