/* product: dense products by cuBLASLt, which is opened at run time: bf16 operands, fp32 sums.
 *
 * The algorithm of a shape is the first one that the library's heuristic names, never one that
 * was timed: the same shapes get the same algorithms in every run, so a resumed run repeats its
 * bits. With batch_invariant no algorithm may split K over blocks, and each has to give, row by
 * row, the bits of a first one that was chosen for the same matrix: those that do not are passed
 * over. Where a number of rows has no such algorithm, its product is made in blocks of as many
 * rows as that first one was chosen for; a matrix for which even those have none is multiplied
 * by our plain kernel, whatever the number of rows. */
#include "product.cuh"

/* ---- the shape of a product ---- */

/* Of p and of every p + i * step. */
static int alignment_of(const void *p, int64_t step_bytes)
{
	int bytes = 256;
	while (bytes > 1 && ((uintptr_t)p | (uintptr_t)step_bytes) % (uintptr_t)bytes) bytes /= 2;
	return bytes;
}

static struct shape shape_of(const struct product *p)
{
	struct shape s = {};
	s.M = p->M, s.N = p->N, s.K = p->K;
	s.a_transposed = p->a_transposed, s.b_transposed = p->b_transposed, s.is_f32 = p->is_f32;
	s.has_c = p->beta != 0, s.has_bias = p->bias != NULL;
	s.lda = p->lda, s.ldb = p->ldb, s.ldc = p->ldc, s.ldd = p->ldd;
	s.batch = MAX(p->batch, 1);
	if (s.batch > 1) s.a_step = p->a_step, s.b_step = p->b_step, s.d_step = p->d_step;
	s.alignment_a = alignment_of(p->a, s.a_step * 2), s.alignment_b = alignment_of(p->b, s.b_step * 2);
	s.alignment_d = alignment_of(p->d, s.d_step * (s.is_f32 ? 4 : 2));
	s.alignment_c = s.has_c ? alignment_of(p->c, 0) : s.alignment_d;
	if (!s.has_c) s.ldc = s.ldd;
	return s;
}
/* ---- the library takes 16-byte rows; what else there is goes through this ---- */

struct plain {
	const bf16 *a;    /* op(a) is (M, K) */
	const bf16 *b;    /* op(b) is (K, N) */
	const bf16 *bias; /* (N) or NULL */
	const void *c;    /* (M, N; row stride ldc) */
	void *d;          /* (M, N; row stride ldd) */
	int64_t a_row;    /* elements of a from m to m + 1 */
	int64_t a_col;    /* elements of a from k to k + 1 */
	int64_t b_row;    /* elements of b from k to k + 1 */
	int64_t b_col;    /* elements of b from n to n + 1 */
	int64_t ldc;      /* elements from a row of c to the next */
	int64_t ldd;      /* elements from a row of d to the next */
	int M;            /* rows of d */
	int N;            /* columns of d */
	int K;            /* terms of a sum */
	float alpha;      /* of the product */
	float beta;       /* of c, which is not read where it is 0 */
	bool is_f32;      /* c and d are fp32, else bf16 */
};

#define PLAIN_TILE 32

static __global__ void plain_kernel(struct plain p)
{
	__shared__ float a[PLAIN_TILE][PLAIN_TILE + 1], b[PLAIN_TILE][PLAIN_TILE + 1];
	int x = (int)threadIdx.x, y = (int)threadIdx.y, n = (int)blockIdx.x * PLAIN_TILE + x,
		m0 = (int)blockIdx.y * PLAIN_TILE;
	float sum[4] = {};
	grid_begin();
	/* Tiles of both operands go through shared memory as fp32. What lies outside the matrices is 0
	 * and adds nothing. */
	for (int k0 = 0; k0 < p.K; k0 += PLAIN_TILE) {
		for (int i = 0; i < 4; i++) {
			int r = y + i * 8;
			a[r][x] = m0 + r < p.M && k0 + x < p.K ? __bfloat162float(p.a[(m0 + r) * p.a_row + (k0 + x) * p.a_col])
												   : 0.0f;
			b[r][x] = k0 + r < p.K && n < p.N ? __bfloat162float(p.b[(k0 + r) * p.b_row + n * p.b_col]) : 0.0f;
		}
		__syncthreads();
		/* A thread owns four rows of one column, so the element of b is used four times. */
		for (int k = 0; k < PLAIN_TILE; k++)
			for (int i = 0; i < 4; i++) sum[i] = fmaf(a[y + i * 8][k], b[k][x], sum[i]);
		__syncthreads();
	}
	/* With beta 0 c is not read: it may hold anything. */
	for (int i = 0; i < 4; i++) {
		int m = m0 + y + i * 8;
		if (m >= p.M || n >= p.N) continue;
		float v = p.alpha * sum[i];
		if (p.beta != 0)
			v += p.beta *
				(p.is_f32 ? ((const float *)p.c)[m * p.ldc + n] : __bfloat162float(((const bf16 *)p.c)[m * p.ldc + n]));
		if (p.bias) v += __bfloat162float(p.bias[n]);
		if (p.is_f32) ((float *)p.d)[m * p.ldd + n] = v;
		else ((bf16 *)p.d)[m * p.ldd + n] = __float2bfloat16_rn(v);
	}
}

static void plain_product(struct ops_context *c, const struct product *p)
{
	struct plain q = {(const bf16 *)p->a, (const bf16 *)p->b, p->bias, p->c, p->d, p->a_transposed ? 1 : p->lda,
		p->a_transposed ? p->lda : 1, p->b_transposed ? 1 : p->ldb, p->b_transposed ? p->ldb : 1, p->ldc, p->ldd, p->M,
		p->N, p->K, p->alpha, p->beta, p->is_f32};
	static_assert(PLAIN_TILE >= CUDA_TILE_ROWS, "as the limits say");
	dim3 grid((unsigned)((p->N + PLAIN_TILE - 1) / PLAIN_TILE), (unsigned)((p->M + PLAIN_TILE - 1) / PLAIN_TILE));
	cuda_launch(c, {grid, dim3(PLAIN_TILE, 8), 0, 0}, plain_kernel, q);
}

static void plain_batch(struct ops_context *c, const struct product *p)
{
	struct product one = *p;
	for (int i = 0; i < MAX(p->batch, 1); i++) {
		one.a = (const bf16 *)p->a + i * p->a_step, one.b = (const bf16 *)p->b + i * p->b_step;
		one.d = (char *)p->d + i * p->d_step * (p->is_f32 ? 4 : 2);
		plain_product(c, &one);
	}
}
/* ---- running ---- */

static uint64_t shape_hash(const struct shape *s)
{
	const unsigned char *p = (const unsigned char *)s;
	uint64_t h = 0xcbf29ce484222325u;
	for (size_t i = 0; i < sizeof *s; i++) h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

struct plan **plan_place(const struct lt *lt, const struct shape *s)
{
	uint64_t at = shape_hash(s) % (uint64_t)lt->places;
	while (lt->plans[at] && memcmp(&lt->plans[at]->shape, s, sizeof *s)) at = (at + 1) % (uint64_t)lt->places;
	return &lt->plans[at];
}

struct plan *plan_add(struct lt *lt, const struct shape *s)
{
	if (2 * (lt->nplans + 1) > lt->places) {
		struct lt larger = {};
		larger.places = 2 * lt->places;
		larger.plans = (struct plan **)xcalloc((size_t)larger.places, sizeof *larger.plans);
		for (int i = 0; i < lt->places; i++)
			if (lt->plans[i]) *plan_place(&larger, &lt->plans[i]->shape) = lt->plans[i];
		free(lt->plans);
		lt->plans = larger.plans, lt->places = larger.places;
	}
	struct plan *p = (struct plan *)xcalloc(1, sizeof *p);
	p->shape = *s;
	lt->nplans++;
	return *plan_place(lt, s) = p;
}

static bool rows_are_aligned(const struct shape *s)
{
	return s->lda % 8 == 0 && s->ldb % 8 == 0 && s->alignment_a >= 16 && s->alignment_b >= 16;
}

static struct plan *plan_of(struct ops_context *, const struct shape *);

/* Who makes products of this shape under batch_invariant. It has to be settled by the matrix alone
 * whether it is the library or the plain kernel, since their bits differ; so the product of
 * BLOCK_ROWS rows settles it for all. */
static enum way invariant_way(
	struct ops_context *c, struct plan *p, const cublasLtMatmulHeuristicResult_t *found, int n)
{
	struct shape block = block_shape(&p->shape);
	bool is_block = !memcmp(&block, &p->shape, sizeof block);
	if (!is_block && plan_of(c, &block)->way == WAY_PLAIN) return WAY_PLAIN;
	if (invariant_choose(c, p, found, n)) return WAY_LIBRARY;
	return is_block ? WAY_PLAIN : WAY_BLOCKS;
}

static void plan_make(struct ops_context *c, struct plan *p)
{
	struct lt *lt = c->lt;
	const struct shape *s = &p->shape;
	cublasLtMatmulHeuristicResult_t found[CANDIDATES];
	bool is_invariant = c->batch_invariant && !s->a_transposed; /* a sum over rows depends on them anyway */
	p->way = WAY_PLAIN;
	/* given both, the library rounds to an element between residual stream and
	 * bias; no model has both */
	if (!rows_are_aligned(s) || (s->has_c && s->has_bias)) return;
	plan_describe(lt, p);
	/* With c the algorithms that do not split K were faster (down at 256 rows); where rows are too
	 * few for them, linear cuts K itself. */
	bool is_split_allowed = !c->batch_invariant && (!s->has_c || s->is_f32);
	int n = heuristic(lt, p, is_split_allowed, c->batch_invariant ? CANDIDATES : 1, found);
	CHECKF(!c->batch_invariant || !c->is_recording, "a product (%d, %d, %d) is met first while a region is recorded",
		s->M, s->N, s->K);
	if (is_invariant) {
		p->way = invariant_way(c, p, found, n);
	} else if (n) {
		p->way = WAY_LIBRARY;
		p->algo = found[0].algo;
	}
}

static struct plan *plan_of(struct ops_context *c, const struct shape *s)
{
	struct plan *p = *plan_place(c->lt, s);
	if (p) return p;
	p = plan_add(c->lt, s);
	plan_make(c, p);
	return p;
}

static void library_product(struct ops_context *c, const struct plan *plan, const struct product *p)
{
	struct lt *lt = c->lt;
	if (p->bias)
		LT_CHECK(lt->MatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof p->bias));
	const void *add = p->beta != 0 ? p->c : p->d;
	LT_CHECK(lt->Matmul(lt->handle, plan->desc, &p->alpha, p->b, plan->a, p->a, plan->b, &p->beta, add, plan->c, p->d,
		plan->d, &plan->algo, c->workspace, LT_WORKSPACE_BYTES, c->stream));
}

/* ---- products in blocks of rows ---- */

struct move {             /* (planes, rows, halves) of 16-bit values: elements, or the halves of floats */
	uint16_t *to;         /* (planes, rows, halves) */
	const uint16_t *from; /* the same */
	int64_t to_ld;        /* 16-bit values from a row to the next, */
	int64_t to_step;      /* and from a plane to the next */
	int64_t from_ld;      /* the same of from */
	int64_t from_step;    /* and of its planes */
	int halves;           /* of a row */
};

#define MOVE_THREADS 256

/* Block (pieces of a row, rows, planes). */
static __global__ void __launch_bounds__(MOVE_THREADS) move_kernel(const struct move m)
{
	grid_begin();
	int i = (int)(blockIdx.x * MOVE_THREADS + threadIdx.x);
	if (i < m.halves)
		m.to[blockIdx.z * m.to_step + blockIdx.y * m.to_ld + i] =
			m.from[blockIdx.z * m.from_step + blockIdx.y * m.from_ld + i];
}

static void move_rows(struct ops_context *c, const struct move *m, int rows, int planes)
{
	dim3 grid((unsigned)((m->halves + MOVE_THREADS - 1) / MOVE_THREADS), (unsigned)rows, (unsigned)planes);
	cuda_launch(c, {grid, dim3(MOVE_THREADS), 0, 0}, move_kernel, *m);
}

/* At least so many bytes for rows of a and d. */
static char *block_room(struct ops_context *c, size_t bytes)
{
	struct lt *lt = c->lt;
	if (bytes <= lt->room_bytes) return (char *)lt->room;
	CHECKF(!c->is_recording, "a recorded region needs %zu bytes for rows of a product, its first run %zu", bytes,
		lt->room_bytes);
	regions_forget(c); /* what was recorded may name the room that goes */
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	block_release(c, lt->room);
	lt->room = device_block(c, bytes);
	lt->room_bytes = bytes;
	CUDA_CHECK(cudaMemsetAsync(lt->room, 0, bytes, c->stream));
	return (char *)lt->room;
}

size_t product_room(const struct ops_context *c) { return c->lt->room_bytes; }

/* BLOCK_ROWS rows at a time, of which the last block may have fewer: what stands behind them in the
 * room is of earlier products, and a row's result does not depend on it. */
static void blocks_product(struct ops_context *c, const struct shape *s, const struct product *p)
{
	struct shape b = block_shape(s);
	const struct plan *plan = plan_of(c, &b);
	if (plan->way != WAY_LIBRARY) { /* choices of another run that do not fit together */
		plain_batch(c, p);
		return;
	}
	int wide = s->is_f32 ? 2 : 1; /* 16-bit values of one of c and d */
	int64_t K = (int64_t)s->K * s->batch;
	char *room = block_room(c, cuda_block_bytes(K, s->N, s->batch));
	struct product block = *p;
	block.M = BLOCK_ROWS, block.a = room, block.lda = b.lda, block.a_step = b.a_step;
	block.c = block.d = room + cuda_block_input(K), block.ldc = block.ldd = b.ldd, block.d_step = b.d_step;
	/* Each block's rows of a, and of c, come into the room; their results go where they belong. */
	for (int first = 0; first < p->M; first += BLOCK_ROWS) {
		int rows = MIN(BLOCK_ROWS, p->M - first);
		struct move a = {
			(uint16_t *)room, (const uint16_t *)p->a + first * p->lda, b.lda, b.a_step, p->lda, s->a_step, s->K};
		struct move add = {(uint16_t *)block.d, (const uint16_t *)p->c + first * s->ldc * wide, b.ldd * wide, 0,
			s->ldc * wide, 0, s->N * wide};
		struct move out = {(uint16_t *)p->d + first * p->ldd * wide, (const uint16_t *)block.d, p->ldd * wide,
			s->d_step * wide, b.ldd * wide, b.d_step * wide, s->N * wide};
		move_rows(c, &a, rows, s->batch);
		if (s->has_c) move_rows(c, &add, rows, 1);
		library_product(c, plan, &block);
		move_rows(c, &out, rows, s->batch);
	}
}

void cuda_product(struct ops_context *c, const struct product *p)
{
	CHECK(p->M >= 0 && p->N > 0 && p->K > 0);
	if (!p->M) return;
	settle(c);
	struct shape s = shape_of(p);
	const struct plan *plan = plan_of(c, &s);
	switch (plan->way) {
	case WAY_LIBRARY: library_product(c, plan, p); break;
	case WAY_BLOCKS: blocks_product(c, &s, p); break;
	case WAY_PLAIN: plain_batch(c, p); break;
	}
}
void cuda_product_entries(struct ops *t)
{
	t->choices = product_choices;
	t->choices_set = product_choices_set;
}
