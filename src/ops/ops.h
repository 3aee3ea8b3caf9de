/* ops: one table of tensor operations; cpu/ implements it. The model is written once over this
 * table.
 *
 * Tensors here are plain contiguous row-major arrays in the backend's memory (fp32 on the CPU);
 * each parameter's comment gives its shape:
 *   T tokens of a packed batch   S sequences   C hidden size   V vocabulary   NH query heads   NKV
 *   key/value heads   HD head size   I MLP size   R adapter rank
 * Entries check nothing but CHECK()ed sizes; they allocate nothing: scratch belongs to the context,
 * sized by ops_*_create.
 *
 * Determinism: results do not depend on the number of threads or on timing (fixed chunks, fixed
 * reduction order). With batch_invariant the value of a row of any operation does not depend on
 * which other rows are in the batch or how many: products are row-independent, attention walks keys
 * in the same blocks of OPS_KV_BLOCK from position 0 in both packed and paged form. The CPU backend
 * works that way always.
 *
 * A backend is used from one thread at a time. */
#ifndef HONE_OPS_H
#define HONE_OPS_H
#include "base/base.h"

#define OPS_KV_BLOCK 32   /* keys per block of attention's online softmax, and tokens per KV page */

struct ops_context;
enum ops_accumulate { OPS_SET = 0, OPS_ADD = 1 }; /* out = value, or out += value */

struct ops_packed { /* S sequences side by side: sequence s is rows start[s]..start[s+1] */
	int T, S;
	const int32_t *start; /* (S + 1) */
	const int32_t *pos;   /* (T) position of each token in its sequence: 0, 1, ... */
};
struct ops_paged { /* rows of a generation step: row t is the token at pos[t] of the sequence whose pages are table[t]
					*/
	int T;
	const int32_t *pos; /* (T) */
	const int32_t
		*slot; /* (T) where this token's key and value are written: page * OPS_KV_BLOCK + pos % OPS_KV_BLOCK */
	const int32_t *const *table; /* (T) pointers to page lists; page p of a sequence holds positions p*OPS_KV_BLOCK.. */
};
struct ops_adamw {
	float lr, beta1, beta2, eps, weight_decay;
	int64_t step; /* from 1 */
};

struct ops {
	const char *name; /* "cpu" */
	struct ops_context *ctx;
	void *(*alloc)(struct ops_context *, size_t bytes); /* 64-byte aligned, zeroed */
	void (*release)(struct ops_context *, void *p);
	void (*upload)(struct ops_context *, void *dst, const void *host, size_t bytes);
	void (*download)(struct ops_context *, void *host, const void *src, size_t bytes);
	void (*zero)(struct ops_context *, void *p, size_t bytes);
	void (*copy)(struct ops_context *, void *dst, const void *src, size_t bytes);

	/* out (M, N) = alpha * A B (+ out). A is (M, K), or (K, M) when a_transposed; B is (K, N), or
	 * (N, K) when b_transposed. linear y = x W^T: matmul(y, x, W, T, out, in, false, true). */
	void (*matmul)(struct ops_context *, float *out, const float *a, const float *b, int M, int N, int K,
		bool a_transposed, bool b_transposed, float alpha, enum ops_accumulate acc);
	/* b (N, K) will be the transposed second operand of many products and does not change until
	 * forget: the backend may keep a copy in the order it reads. No bit of a result changes. forget
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
	void (*rmsnorm_backward)(struct ops_context *, float *dx /* (M, N) per acc */, float *dw /* (N) += or NULL */,
		const float *dy, const float *x, const float *w, const float *rstd, int M, int N, enum ops_accumulate acc);

	/* Half-split rotation in place (pairs i, i + HD/2); table holds cos then sin: (P, 2, HD/2).
	 * inverse: backward. x rows have stride NH * HD. */
	void (*rope)(struct ops_context *, float *x /* (T, NH, HD) */, const float *table, const int32_t *pos /* (T) */,
		int T, int NH, int HD, bool inverse);

	/* Causal attention inside each sequence, scale 1/sqrt(HD), query head h uses kv head h / (NH /
	 * NKV). lse (T, NH) is kept for backward. */
	void (*attention)(struct ops_context *, float *out /* (T, NH, HD) */, float *lse /* (T, NH) or NULL */,
		const float *q /* (T, NH, HD) */, const float *k /* (T, NKV, HD) */, const float *v /* (T, NKV, HD) */,
		const struct ops_packed *b, int NH, int NKV, int HD);
	void (*attention_backward)(struct ops_context *, float *dq, float *dk, float *dv /* all set */, const float *dout,
		const float *out, const float *lse, const float *q, const float *k, const float *v, const struct ops_packed *b,
		int NH, int NKV, int HD);
	/* Pages of one layer: each OPS_KV_BLOCK * NKV * HD floats, arranged as the backend likes;
	 * copying a page copies its content. kv_write stores this step's keys and values;
	 * attention_paged reads positions 0..pos[t]. */
	void (*kv_write)(struct ops_context *, float *kpages, float *vpages, const float *k /* (T, NKV, HD) */,
		const float *v /* (T, NKV, HD) */, const struct ops_paged *b, int NKV, int HD);
	void (*attention_paged)(struct ops_context *, float *out /* (T, NH, HD) */, const float *q /* (T, NH, HD) */,
		const float *kpages, const float *vpages, const struct ops_paged *b, int NH, int NKV, int HD);

	void (*silu_mul)(
		struct ops_context *, float *out /* (T, I) */, const float *gate, const float *up, int64_t n /* T * I */);
	void (*silu_mul_backward)(struct ops_context *, float *dgate, float *dup, const float *dout, const float *gate,
		const float *up, int64_t n);
	void (*add)(struct ops_context *, float *out, const float *a, const float *b, int64_t n);
	void (*axpy)(struct ops_context *, float *y, const float *x, float alpha, int64_t n); /* y += alpha x */
	void (*scale)(struct ops_context *, float *x, float alpha, int64_t n);
	/* Inverted dropout with a mask that is a function of (seed, stream, element index) alone: the
	 * backward pass calls it again on the gradient. */
	void (*dropout)(
		struct ops_context *, float *out, const float *x, float p, uint64_t seed, uint64_t stream, int64_t n);

	/* Rows of logits (N, V) are divided by temperature; logprob of target, entropy and log-sum-exp
	 * per row (entropy may be NULL). */
	void (*logprob)(struct ops_context *, float *logprob /* (N) */, float *entropy /* (N) or NULL */,
		float *lse /* (N) */, const float *logits, const int32_t *targets /* (N) */, float temperature, int N, int V);
	/* logits become d loss / d logits in place: g[n] * (onehot - softmax) / temperature, where g =
	 * d loss / d logprob. */
	void (*logprob_backward)(struct ops_context *, float *logits, const float *lse, const int32_t *targets,
		const float *g /* (N) */, float temperature, int N, int V);

	/* Decoupled weight decay as torch.optim.AdamW, fp32 state. */
	void (*adamw)(
		struct ops_context *, float *p, const float *grad, float *m, float *v, int64_t n, const struct ops_adamw *o);
	double (*sum_squares)(struct ops_context *, const float *x, int64_t n); /* fixed order */
	double (*sum)(struct ops_context *, const float *x, int64_t n);
};

struct ops_options {
	int threads;          /* 0: the cores this process may use */
	bool batch_invariant; /* see above: always so on the CPU */
	bool avx2_only; /* leave AVX-512 alone where the processor has it: for tests and comparisons; results differ in the
					   last bits */
};
/* CPU backend: fp32, its own matrix products, AVX2 or AVX-512 by CPUID. */
int ops_cpu_create(const struct ops_options *o, struct ops **out, struct err *err);
void ops_free(struct ops *ops);
/* What the copies of prepare take. Each is in the smallest form that gives back the same bits: 4 or
 * 8 bits and a factor for every 32 of a row where all weights are such products (out of GGUF
 * files), bf16 or fp16 where all are, else fp32. */
size_t ops_prepared_bytes(const struct ops *ops);
#define OPS_PREPARED_BYTES_MAX ((size_t)2 << 30)   /* of one backend; what is beyond is packed when it is used */
/* For doctor and bench: the instruction set of the products ("AVX-512"); measured GFLOP/s of a
 * 1024^3 product. */
const char *ops_gemm_name(const struct ops *ops);
double ops_gemm_gflops(struct ops *ops);
#endif
