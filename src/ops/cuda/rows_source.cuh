/* rows_source: where the rows come from that a projection reads: norm, gate, attention's rows or
 * parts of them, eight columns at a time; for the kernels of rows.cu and rows_few.cu. */
#ifndef HONE_CUDA_ROWS_SOURCE_CUH
#define HONE_CUDA_ROWS_SOURCE_CUH
#include "attention_step.cuh"
#include "cuda_device.cuh"
#include "rows_many.cuh"

/* ---- the thin product's side ---- */

struct thin_part {
	const bf16 *a; /* (r, in), NULL: not adapted */
	int64_t ld;    /* elements from a row of a to the next */
};
struct thin {
	struct thin_part part[OPS_PARTS]; /* each part's A */
	int r;                            /* rank */
	int used;        /* columns with an adapter behind them, r * parts: the rest of the tail is zeros */
	int columns;     /* of the tail; 0: leave it alone */
	int group;       /* of them, multiplied at once; 0: none has an adapter */
	float scaling;   /* of the thin product */
	float p;         /* dropout */
	uint64_t seed;   /* of dropout's draws */
	uint64_t stream; /* of those of part 0; part i draws from stream + i */
};

/* ---- sources: where the rows come from ---- */

struct rows_args {
	bf16 *y;                 /* (T, width + tail) */
	int64_t y_ld;            /* elements from a row of y to the next */
	float *rstd;             /* norm */
	const bf16 *x;           /* norm: (T, width); gate: (T, 2 width) */
	struct sums sums;        /* of a norm whose x is still to be added up */
	const bf16 *w;           /* norm: (width) */
	float eps;               /* of the norm */
	const float *partial;    /* merge: (T, chunks, NH, HD + 2): o, m, l */
	const int32_t *pos;      /* merge: (T) */
	const int32_t *sequence; /* merge: (T), -1: a surplus row */
	int chunks;              /* merge: most chunks of keys that a row has */
	int HD;                  /* merge: columns of a head */
	float scale_log2;        /* merge: log2(e) / sqrt(HD) */
	int T;                   /* rows */
	int width;               /* columns of a row */
	int slice;               /* columns of a block */
	int rows;                /* of a cluster at a time */
	int held;                /* rows of the tile: 8 or ROWS; those from `rows` on are zeros */
	bool is_early;           /* A is fetched before the rows, while the kernel ahead may still run */
	unsigned *arrived;       /* rows_few: a counter to clear (struct thin_wait), or NULL */
	struct thin thin;        /* what is written behind the rows */
};

#define MERGE_STEP 4   /* chunks read side by side */

enum source { SOURCE_NORM, SOURCE_SUMS /* norm of what waits */, SOURCE_GATE, SOURCE_MERGE, SOURCE_PLAIN };
static __host__ __device__ constexpr bool is_norm(enum source s) { return s == SOURCE_NORM || s == SOURCE_SUMS; }

/* Eight columns of a row of attention: partials of chunks of keys, folded in order. */
static __device__ __forceinline__ void merge8(float out[8], const struct rows_args &a, int row, int column)
{
	int NH = a.width / a.HD, head = column / a.HD, d = column % a.HD;
	int64_t step = (int64_t)NH * (a.HD + 2);
	const float *from = a.partial + (int64_t)row * a.chunks * step + (int64_t)head * (a.HD + 2);
	/* Chunks of keys up to the row's own position; a row that no sequence has gets zeros. */
	int n = a.sequence[row] < 0 ? 0 : a.pos[row] / CHUNK + 1;
	float M = -INFINITY, L = 0;
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = 0;
	/* Several chunks are read before the first one is folded, so that their loads overlap. */
	for (int j0 = 0; j0 < n; j0 += MERGE_STEP, from += MERGE_STEP * step) {
		float2 o[MERGE_STEP][4], ml[MERGE_STEP];
#pragma unroll
		for (int j = 0; j < MERGE_STEP; j++) {
			if (j0 + j >= n) break;
			ml[j] = *(const float2 *)(from + j * step + a.HD);
#pragma unroll
			for (int i = 0; i < 4; i++) o[j][i] = *(const float2 *)(from + j * step + d + 2 * i);
		}
		/* Then they are folded one by one, in order: each has its own maximum, and the larger one
		 * sets the unit of both. */
#pragma unroll
		for (int j = 0; j < MERGE_STEP; j++) {
			if (j0 + j >= n) break;
			float m = ml[j].x, l = ml[j].y, M1 = fmaxf(M, m), shift = shift_of(M1, a.scale_log2);
			float keep = shift_factor(M, M1, a.scale_log2, shift), take = shift_factor(m, M1, a.scale_log2, shift);
#pragma unroll
			for (int i = 0; i < 4; i++) {
				out[2 * i] = fmaf(o[j][i].x, take, __fmul_rn(out[2 * i], keep));
				out[2 * i + 1] = fmaf(o[j][i].y, take, __fmul_rn(out[2 * i + 1], keep));
			}
			L = fmaf(l, take, __fmul_rn(L, keep));
			M = M1;
		}
	}
	/* The sum divides once, at the end. */
	float inverse = n ? __frcp_rn(L) : 0.0f;
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] = __fmul_rn(out[i], inverse);
}

/* Eight columns of the residual stream, from sums over ranges of K: the arithmetic
 * of ranges_add_kernel. */
static __device__ __forceinline__ bf16x8 sums8(const struct sums &s, int row, int column)
{
	constexpr int STEP = 4;
	/* The stream's own eight, then a few ranges at a time: their loads are under way together. */
	int64_t at = (int64_t)row * s.N + column, step = (int64_t)s.T * s.N;
	bf16x8 stream = load8(s.y + at);
	float out[8], old[8];
	for (int r0 = 0; r0 < s.ranges; r0 += STEP) {
		float4 v[STEP][2];
#pragma unroll
		/* Added in the order of the ranges, whatever the step is. */
		for (int r = 0; r < STEP; r++) {
			if (r0 + r >= s.ranges) break;
			const float4 *from = (const float4 *)(s.part + (r0 + r) * step + at);
			v[r][0] = from[0], v[r][1] = from[1];
		}
#pragma unroll
		for (int r = 0; r < STEP; r++) {
			if (r0 + r >= s.ranges) break;
			float now[8] = {v[r][0].x, v[r][0].y, v[r][0].z, v[r][0].w, v[r][1].x, v[r][1].y, v[r][1].z, v[r][1].w};
#pragma unroll
			for (int i = 0; i < 8; i++) out[i] = r0 + r ? out[i] + now[i] : now[i];
		}
	}
	/* The stream goes last. */
	unpack8(old, stream);
#pragma unroll
	for (int i = 0; i < 8; i++) out[i] += old[i];
	return pack8(out);
}

struct eight { /* what eight columns are made of */
	bf16x8 x;  /* the input's, which is all of it but for a gate's */
	bf16x8 up; /* a gate's other half */
};

template <enum source SOURCE>
static __device__ __forceinline__ struct eight eight_load(const struct rows_args &a, int row, int column)
{
	struct eight p;
	if (SOURCE == SOURCE_NORM) p.x = load8(a.x + (int64_t)row * a.width + column);
	if (SOURCE == SOURCE_SUMS) p.x = sums8(a.sums, row, column);
	if (SOURCE == SOURCE_PLAIN) p.x = load8(a.y + (int64_t)row * a.y_ld + column);
	if (SOURCE == SOURCE_MERGE) {
		float out[8];
		merge8(out, a, row, column);
		p.x = pack8(out);
	}
	if (SOURCE == SOURCE_GATE) {
		p.x = load8(a.x + (int64_t)row * 2 * a.width + column);
		p.up = load8(a.x + (int64_t)row * 2 * a.width + a.width + column);
	}
	return p;
}

template <enum source SOURCE> static __device__ __forceinline__ bf16x8 eight_value(const struct eight &p)
{
	float gate[8], up[8];
	if (SOURCE != SOURCE_GATE) return p.x;
	unpack8(gate, p.x);
	unpack8(up, p.up);
#pragma unroll
	for (int i = 0; i < 8; i++) gate[i] = silu(gate[i]) * up[i];
	return pack8(gate);
}

/* Blocks of a cluster and columns of each, by the width alone; the sum of squares of a row is made
 * in that order by whoever makes it. */
#define CLUSTER_MAX 8
#define SLICE_MIN 512   /* columns worth a block of their own */
#define ROW_LANES 16    /* that share a row of a slice */
static inline void rows_slices(struct rows_args *a, int *cluster)
{
	*cluster = 1;
	while (*cluster < CLUSTER_MAX && a->width > *cluster * SLICE_MIN) *cluster *= 2;
	a->slice = (a->width + *cluster * 32 - 1) / (*cluster * 32) * 32;
}

#define ROWS_FEW_COLUMNS 4096   /* of a row that it takes */
/* false: too wide, or too many rows; nothing was done. Rows alone, without the thin product. */
bool cuda_rows_few(struct ops_context *, enum source, const struct rows_args *, int cluster);
/* The tail of rows that stand (thin_few.cu). false: not this form, or with
 * dropout; nothing was done. */
bool cuda_thin_few(struct ops_context *, const struct rows_args *);
#endif
