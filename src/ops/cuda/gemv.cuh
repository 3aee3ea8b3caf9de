/* gemv: what the kernels of a few rows times a matrix have in common (linear.cu, stream.cu). */
#ifndef HONE_CUDA_GEMV_CUH
#define HONE_CUDA_GEMV_CUH
#include "cuda_device.cuh"

#define STREAM_ROWS 2             /* of x, at most */
#define STREAM_WEIGHTS (1 << 21)  /* elements of W from which on it pays */
#define STREAM_SHARED (224 << 10) /* bytes of a block, at most */

struct gemv_thin {            /* the tail's columns of x, as products of x with rows of A */
	int blocks;               /* the first ones, which make it; 0: it stands, or is not read */
	int columns;              /* r * parts */
	int r;                    /* rank */
	int tail;                 /* spare columns behind a row of x */
	float scaling;            /* of the thin product */
	const bf16 *a[OPS_PARTS]; /* each part's A (r, in), NULL: not adapted */
	int64_t ld[OPS_PARTS];    /* elements from a row of a to the next */
	unsigned *arrived;        /* blocks that have stored theirs */
};
struct gemv {         /* y = x w^T + bias + add */
	const bf16 *x;    /* (rows, K; row stride x_ld) */
	const bf16 *w;    /* (N, K; row stride w_ld) */
	const bf16 *bias; /* (N) or NULL */
	const bf16 *add;  /* (rows, N; row stride y_ld) or NULL */
	void *y;          /* (rows, N; row stride y_ld) */
	int64_t x_ld;     /* elements from a row of x to the next */
	int64_t w_ld;     /* elements from a row of w to the next */
	int64_t y_ld;     /* elements from a row of y, and of add, to the next */
	int N;            /* columns of y */
	int K;            /* terms of a sum */
	bool is_f32;      /* y is fp32, else bf16 */
	int in;           /* columns of x that stand: all K, or those before the tail */
	struct gemv_thin thin;
};

/* Row n of W, or (THIN) of the parts' A one behind the other; some row where there is none. */
template <bool THIN> static __device__ __forceinline__ const bf16 *gemv_row(const struct gemv &g, int n)
{
	if (!THIN) return g.w + (int64_t)min(n, g.N - 1) * g.w_ld;
	n = min(n, g.thin.columns - 1);
	int part = n / g.thin.r;
	return g.thin.a[part] ? g.thin.a[part] + (n - part * g.thin.r) * g.thin.ld[part] : g.w;
}

/* Column n of the tail, behind row m of x. */
static __device__ __forceinline__ void thin_store(const struct gemv &g, int m, int n, float v)
{
	if (n >= g.thin.columns) return;
	((bf16 *)g.x)[m * g.x_ld + g.in + n] = __float2bfloat16_rn(g.thin.a[n / g.thin.r] ? v * g.thin.scaling : 0.0f);
}

/* The columns of the tail that no adapter uses. */
template <int M> static __device__ __forceinline__ void rest_clear(const struct gemv &g, int thread, int threads)
{
	int rest = g.thin.tail - g.thin.columns;
	for (int i = thread; i < M * rest; i += threads)
		((bf16 *)g.x)[i / rest * g.x_ld + g.in + g.thin.columns + i % rest] = __float2bfloat16_rn(0.0f);
}

static __device__ __forceinline__ void thin_meet(const struct gemv &g)
{
	unsigned arrived;
	for (;;) {
		asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(g.thin.arrived) : "memory");
		if (arrived >= (unsigned)g.thin.blocks) return;
		__nanosleep(20);
	}
}

template <int M> static __device__ __forceinline__ void gemv_store(const struct gemv &g, int m, int n, float v)
{
	if (n >= g.N) return;
	if (g.bias) v += __bfloat162float(g.bias[n]);
	if (g.add) v += __bfloat162float(g.add[m * g.y_ld + n]);
	if (g.is_f32) ((float *)g.y)[m * g.y_ld + n] = v;
	else ((bf16 *)g.y)[m * g.y_ld + n] = __float2bfloat16_rn(v);
}

/* Whether this product is made by stream.cu; thin.blocks is any number but 0 where
 * the tail is to be made. */
bool stream_takes(const struct ops_context *, const struct gemv *, int M);
void stream_run(struct ops_context *, struct gemv *, int M);
#endif
