/* ops_cpu: the CPU backend from inside. Two layers: the small operations, which know float arrays
 * and nothing of a model (one file a family: matmul.c, norm.c, ...), and the stages of ops.h
 * (stage_*.c), which call them one after the other.
 *
 * A family fills its entries of struct cpu_ops through ISA(<family>_entries); its file is compiled
 * once for AVX2 and once for AVX-512 (simd.h says how). Arrays of the small operations are
 * contiguous and row-major, with the letters of ops.h:
 *   T tokens   S sequences   C hidden size   V vocabulary   NH query heads   NKV key/value heads
 *   HD head size   I MLP size   R adapter rank
 * They check nothing but sizes and allocate nothing: scratch belongs to the context. Here every row
 * is independent of the others in every operation, and attention walks keys in blocks of OPS_PAGE
 * from position 0 in both forms: the backend is always batch-invariant. */
#ifndef HONE_OPS_CPU_H
#define HONE_OPS_CPU_H
#include "base/base.h"
#include "ops/cpu_figures.h"
#include "ops/ops.h"

#define HEAD_DIM_MAX CPU_HEAD_MAX     /* of one attention head */
#define SCRATCH_FLOATS (192 * 1024)   /* per thread: attention_backward needs most */
#define PARTIALS_MAX 1024             /* chunks of a reduction over a flat array */

/* elem and f32 are float here. */
#define FLOATS(p) ((float *)(p))
#define CONST_FLOATS(p) ((const float *)(p))

/* S sequences side by side: sequence s is rows start[s]..start[s+1]. One that follows another
 * begins behind a row of it, at a position above 0, and its past is that row's (ops_rows). A family
 * is a sequence that follows none and those behind it that follow one of the family. */
struct ops_packed {
	int T;                   /* rows */
	int S;                   /* sequences */
	int F;                   /* families */
	const int32_t *start;    /* (S + 1) */
	const int32_t *pos;      /* (T) position of each token in its sequence: 0, 1, ... */
	const int32_t *sequence; /* (T) */
	const int32_t *follows;  /* (S) row of the batch; -1: none */
	const int32_t *family;   /* (F + 1) first sequence of each family */
};
struct ops_paged { /* rows of a generation step: row t is the token at pos[t] of the sequence with pages table[t] */
	int T;
	const int32_t *pos;          /* (T) */
	const int32_t *slot;         /* (T) where its key and value are written: page * OPS_PAGE + pos % OPS_PAGE */
	const int32_t *const *table; /* (T) page lists; page p of a sequence holds positions p * OPS_PAGE.. */
};

/* ---- the small operations ---- */

struct cpu_ops {
	struct ops_context *ctx;

	/* out (M, N) = alpha * A B (+ out). A is (M, K), or (K, M) when a_transposed; B is (K, N), or
	 * (N, K) when b_transposed. linear y = x W^T: matmul(y, x, W, T, out, in, false, true). */
	void (*matmul)(struct ops_context *, float *out, const float *a, const float *b, int M, int N, int K,
		bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc);
	/* b (N, K) will be the transposed second operand of many products and does not change until
	 * forget: a copy in the order that products read is kept. No bit of a result changes. forget
	 * knows any pointer. */
	void (*prepare)(struct ops_context *, const float *b, int N, int K);
	void (*forget)(struct ops_context *, const float *b);
	void (*bias_add)(struct ops_context *, float *x /* (M, N) */, const float *bias /* (N) */, int M, int N);
	void (*bias_backward)(struct ops_context *, float *dbias /* (N) += */, const float *dy /* (M, N) */, int M, int N);

	void (*embed)(struct ops_context *, float *out /* (T, C) */, const float *table /* (V, C) */,
		const int32_t *ids /* (T) */, int T, int C);
	void (*embed_backward)(struct ops_context *, float *dtable /* (V, C) += */, const float *dout /* (T, C) */,
		const int32_t *ids, int T, int C, int V);

	/* y = x * rsqrt(mean(x^2) + eps) * w, row by row; rstd is kept for backward. Also used per head
	 * with (T * NH, HD). */
	void (*rmsnorm)(struct ops_context *, float *y /* (M, N) */, float *rstd /* (M) or NULL */,
		const float *x /* (M, N) */, const float *w /* (N) */, float eps, int M, int N);
	void (*rmsnorm_backward)(struct ops_context *, float *dx /* (M, N) per acc; may be dy */,
		float *dw /* (N) += or NULL */, const float *dy, const float *x, const float *w, const float *rstd, int M,
		int N, enum ops_accumulate acc);

	/* Half-split rotation (pairs i, i + HD/2); out may be x. table holds cos then sin: (P, 2,
	 * HD/2). inverse: backward. Rows have stride NH * HD. */
	void (*rope)(struct ops_context *, float *out, const float *x /* (T, NH, HD) */, const float *table,
		const int32_t *pos /* (T) */, int T, int NH, int HD, bool inverse);

	/* Causal attention inside each sequence, scale 1/sqrt(HD), query head h uses kv head h / (NH /
	 * NKV). lse (T, NH) is kept for backward. */
	void (*attention)(struct ops_context *, float *out /* (T, NH, HD) */, float *lse /* (T, NH) or NULL */,
		const float *q /* (T, NH, HD) */, const float *k /* (T, NKV, HD) */, const float *v /* (T, NKV, HD) */,
		const struct ops_packed *b, int NH, int NKV, int HD);
	void (*attention_backward)(struct ops_context *, float *dq, float *dk, float *dv /* all set */, const float *dout,
		const float *out, const float *lse, const float *q, const float *k, const float *v, const struct ops_packed *b,
		int NH, int NKV, int HD);
	/* Pages of one layer: each OPS_PAGE * NKV * HD floats, arranged as attention.c says. kv_write
	 * stores this step's keys and values; attention_paged reads positions 0..pos[t]. */
	void (*kv_write)(struct ops_context *, float *kpages, float *vpages, const float *k /* (T, NKV, HD) */,
		const float *v /* (T, NKV, HD) */, const struct ops_paged *b, int NKV, int HD);
	void (*attention_paged)(struct ops_context *, float *out /* (T, NH, HD) */, const float *q /* (T, NH, HD) */,
		const float *kpages, const float *vpages, const struct ops_paged *b, int NH, int NKV, int HD);

	void (*silu_mul)(
		struct ops_context *, float *out /* (T, I) */, const float *gate, const float *up, int64_t n /* T * I */);
	void (*silu_mul_backward)(struct ops_context *, float *dgate, float *dup, const float *dout, const float *gate,
		const float *up, int64_t n);
	void (*axpy)(struct ops_context *, float *y, const float *x, float alpha, int64_t n); /* y += alpha x */
	void (*scale)(struct ops_context *, float *x, float alpha, int64_t n);
	/* Inverted dropout with a mask that is a function of (seed, stream, element index) alone: the
	 * backward pass calls it again on the gradient. */
	void (*dropout)(
		struct ops_context *, float *out, const float *x, float p, uint64_t seed, uint64_t stream, int64_t n);

	/* Rows of logits (V) are divided by temperature; logprob of target, entropy and log-sum-exp of
	 * each target's row (entropy may be NULL): its own, or from[n]. */
	void (*logprob)(struct ops_context *, float *logprob /* (N) */, float *entropy /* (N) or NULL */,
		float *lse /* (N) */, const float *logits, const int32_t *from /* (N) or NULL */,
		const int32_t *targets /* (N) */, float temperature, int N, int V);
	/* logits become d loss / d logits in place: g[n] * (onehot - softmax) / temperature, where g =
	 * d loss / d logprob. */
	void (*logprob_backward)(struct ops_context *, float *logits, const float *lse, const int32_t *targets,
		const float *g /* (N) */, float temperature, int N, int V);

	/* Decoupled weight decay as torch.optim.AdamW, fp32 state; grad_scale is left to the caller. */
	void (*adamw)(
		struct ops_context *, float *p, const float *grad, float *m, float *v, int64_t n, const struct ops_adamw *o);
	double (*sum_squares)(struct ops_context *, const float *x, int64_t n); /* fixed order */
};

#define FAMILIES(X) X(matmul) X(panels) X(norm) X(rope) X(attention) X(attention_backward) X(mlp) X(head) X(optim)
#define X(family) void family##_entries_avx2(struct cpu_ops *t); void family##_entries_avx512(struct cpu_ops *t);
FAMILIES(X)
#undef X

/* A row of logits (V) as draws see it that differ in their own number alone; it lies in scratch,
 * which is reset and does not grow once it holds 3 V floats. */
struct sampled_row {
	const float *logits;
	int V;
	bool is_greedy;      /* or no token weighs anything */
	int32_t likeliest;   /* token */
	float top;           /* its logit */
	float inverse;       /* 1 / temperature */
	const float *e;      /* (V) weights relative to the largest */
	const double *spans; /* their sums, span by span */
	double sum;          /* of all weights */
	double left;         /* the weight of what log-probabilities are relative to */
	const int32_t *ids;  /* (count) what top_k, top_p and min_p leave, heaviest first; NULL: all tokens */
	int count;
	double weight; /* of them */
};
struct sampled_row sampled_row(const float *logits, int V, const struct ops_draw *d, struct arena *scratch);
/* *logprob is of the drawn token under softmax(logits / temperature), of softmax(logits) when
 * greedy, and of what was left when min_p is on. u in [0, 1) stands for the draw's own number. */
int32_t sampled_draw(const struct sampled_row *r, float u, float *logprob);

/* ---- the context ---- */

/* A second operand packed once for all of its products: panels of NR columns, each (K, NR) in one
 * of the forms of panels.h. */
struct prepared {
	const float *b;
	int N; /* columns of the operand */
	int K; /* rows of it */
	const struct panel_form *form;
	uint8_t *panels;
	size_t panel_bytes;
};

struct thin {  /* memory of the adapters' thin products; grows in batch_create and bind */
	int rows;  /* of the largest batch */
	int in;    /* largest of the bound adapters; 0 while none has dropout */
	int r;     /* largest of the bound adapters */
	float *x;  /* (rows, in) dropped-out input */
	float *h;  /* (rows, r) */
	float *dh; /* (rows, r) */
};

struct ops_context {
	struct pool *pool;
	int threads;
	bool avx512;
	size_t memory_cap; /* of what plans may count on; 0: none */
	float *scratch;    /* (threads, SCRATCH_FLOATS) */
	double partials[PARTIALS_MAX];
	struct prepared *prepared;
	int nprepared;
	size_t prepared_bytes;
	struct cpu_ops f; /* the chosen copy of the small operations */
	struct thin thin;
	struct arena *samplers; /* (threads) for a vocabulary of sampler_V: grow at the first draw from a larger one */
	int sampler_V;
	float *fetched[OPS_FETCHES]; /* (fetched_n) values that were fetched, as they were then */
	int64_t fetched_n[OPS_FETCHES];
};

struct ops_batch {
	int T_max;     /* of rows */
	int S_max;     /* of sequences */
	int pages_max; /* of a sequence */
	int n_max;     /* of wanted rows */
	int draws_max; /* of tokens to draw */
	/* rows, from batch_put */
	int T;
	int S;
	int pages;
	int F;                 /* families */
	int32_t *ids;          /* (T) */
	int32_t *pos;          /* (T) */
	int32_t *start;        /* (S + 1) first row of each sequence */
	int32_t *sequence;     /* (T) */
	int32_t *follows;      /* (S) row that the sequence comes behind; -1: none */
	int32_t *family;       /* (F + 1) first sequence of each family (struct ops_packed) */
	int32_t *table;        /* (S, pages) */
	const int32_t **lists; /* (T) the row of table that row t reads */
	int32_t *slot;         /* (T) where its key and value go; -1: behind the last page */
	/* wanted rows, from batch_want */
	int n;
	int32_t *at;        /* (n) */
	int32_t *target;    /* (n) */
	float *temperature; /* (n), 1 where the caller gave none */
	float *logprob;     /* (n) columns that the small operations read and write */
	float *entropy;     /* (n) */
	float *lse;         /* (n) */
	/* tokens to draw, from batch_want too */
	int draws;
	bool moves_on; /* one draw a row: sample moves the batch one token on */
	int32_t *left; /* (draws_max) tokens that a row may still draw, where it does */
	int32_t stop[OPS_STOPS_MAX];
	int nstop;
	struct ops_draw *draw;
	int32_t *from;            /* (draws) wanted row of each */
	float *drawn_logprob;     /* (draws) columns */
	float *drawn_lse;         /* (draws) */
	float *drawn_temperature; /* (draws) */
};

static inline float *scratch_of(const struct ops_context *c, int thread)
{
	return c->scratch + (size_t)thread * SCRATCH_FLOATS;
}
/* Rows per chunk so that a chunk is worth waking a thread for; depends on sizes alone. */
static inline int64_t rows_grain(int64_t row_cost)
{
	return row_cost >= 16384 ? 1 : 16384 / (row_cost > 0 ? row_cost : 1);
}

/* ---- the stages: each file fills its entries of the table ---- */

void stage_memory_entries(struct ops *t);
void stage_batch_entries(struct ops *t);
void stage_forward_entries(struct ops *t);
void stage_backward_entries(struct ops *t);
void stage_head_entries(struct ops *t);
void stage_optim_entries(struct ops *t);

/* What the stages share. */
void *cpu_alloc(struct ops_context *c, size_t bytes);
void batch_slot_set(struct ops_batch *b, int t);
struct ops_packed batch_packed(const struct ops_batch *b);
struct ops_paged batch_paged(const struct ops_batch *b);
void thin_reserve(struct ops_context *c, int rows, int in, int r);
void thin_release(struct ops_context *c);
/* x, or its dropped-out form in the context's memory: mask of part `part`. */
const float *thin_input(struct ops_context *c, const struct ops_lora *l, int part, const float *x, int T, int in);
#endif
