/* ops: the stages of a decoder block, forward and backward, in one table. cpu/ and cuda/ implement
 * it; the model is walked once over it and knows nothing of either.
 *
 * Letters in shapes: T rows (tokens) of a batch, S sequences, n rows whose logits are wanted, C
 * hidden size, V vocabulary, I MLP size, NH query heads, NKV key/value heads, HD head size,
 * Q = NH * HD, KV = NKV * HD, R adapter rank.
 *
 * Memory. Three types stand for backend memory. They have no definition, so the host can neither
 * read nor index them:
 *   struct elem   what the backend computes with: fp32 on the CPU, bf16 on a GPU
 *                 (activations, working weights, KV pages)
 *   struct f32    fp32: statistics, logits, master weights, gradients, moments
 *   struct i32    int32
 * Plain float * and int32_t * are host memory, everywhere. A host array handed to a kernel, or
 * device memory read by a loop, does not compile. All memory is allocated by alloc at create;
 * stages allocate nothing. How q, k and v lie inside qkv, gate and up inside gu, and a page inside
 * itself is the backend's business (sizes are given here, order is not). Without a norm of the
 * heads q and k are qkv itself, dq and dk are dqkv: the vectors are rotated where they lie.
 *
 * Tail. An activation that a projection reads has `tail` spare elements behind each row. Who writes
 * the row also writes the projection's thin product h = scaling * drop(x) A^T there (zeros without
 * adapter), so that y = [x h] [W B]^T is one product. tail is 0 on the CPU, which makes the two
 * thin products inside linear. W keeps B in tail columns of its own (bind).
 *
 * Determinism. No result depends on the number of threads or on timing. With batch_invariant the
 * value of a row does not depend on the other rows or on T, in packed and paged form alike; the CPU
 * always works that way. A backend is used from one thread at a time.
 *
 * Errors. Entries check sizes with CHECK; what can fail for a user (memory, a missing device) fails
 * in ops_open and at create, by message. */
#ifndef HONE_OPS_H
#define HONE_OPS_H
#include "base/base.h"
#include "base/dtype.h"

#define OPS_PAGE 32   /* tokens of a KV page */
#define OPS_PARTS 3   /* projections that read one input: q, k, v; gate, up */
#define OPS_FETCHES 2
#define OPS_STOPS_MAX 16 /* tokens that end a row */
#define OPS_FETCH_MAX (1 << 20)
#define OPS_RANKS_ID 128 /* bytes by which the devices of a job find each other */

struct elem;
struct f32;
struct i32;
/* Columns of logprob's result, one row a wanted one. */
enum ops_figure {
	FIGURE_LOGPROB, /* of the target, at the row's temperature */
	FIGURE_ENTROPY, /* of all tokens, likewise */
	FIGURE_LOG_SUM, /* log-sum-exp of logits / temperature */
	FIGURE_IS_HIT,  /* 1: no logit is larger than the target's; else 0 */
	OPS_FIGURES
};

struct ops_context;
struct ops_batch;                         /* what batch_put sent: fixed addresses in backend memory */
enum ops_accumulate { OPS_SET, OPS_ADD }; /* out = value, or out += value */

/* ---- what the host says of a batch ---- */

struct ops_rows {
	int T;                   /* rows */
	int S;                   /* sequences */
	const int32_t *ids;      /* (T) token */
	const int32_t *pos;      /* (T) its position in its sequence */
	const int32_t *sequence; /* (T) 0..S-1, never falling: rows of one sequence lie side by side, in rising positions */
	const int32_t *table;    /* (S, pages) page p of a sequence holds its positions p * OPS_PAGE..; NULL: a packed
								pass without pages, in which every sequence begins at position 0 */
	int pages;               /* columns of table */
	/* (S) Packed passes of a table with `follows` alone; NULL: no sequence follows another. The row
	 * of the batch that a sequence's first row comes behind, -1: none. Its rows see that row and
	 * what that row sees as their own past, so that a beginning which several sequences share is
	 * run once. A sequence that follows has a row of an earlier sequence of its family: those
	 * behind the last one that follows none. */
	const int32_t *follows;
};

/* How one token is drawn: temperature, then top_k, top_p on what it left (as transformers does),
 * then min_p (tokens under min_p times the largest probability go). u = rng_uniform(seed, stream,
 * index) picks from what is left. */
struct ops_draw {
	float temperature; /* 0: greedy */
	int top_k;         /* 0: off */
	float top_p;       /* 1: off */
	float min_p;       /* 0: off */
	uint64_t seed;
	uint64_t stream;
	uint64_t index;
};

/* Rows of the batch whose logits are wanted. */
struct ops_want {
	int n;
	const int32_t *at;           /* (n) row of the batch */
	const int32_t *target;       /* (n) whose log-probability logprob gives; NULL: none */
	const float *temperature;    /* (n) by which logprob divides logits; NULL: 1 */
	const struct ops_draw *draw; /* (draws) for sample; NULL: none */
	const int32_t *from; /* (draws) wanted row, 0..n-1, whose logits each is drawn from; NULL: one a row, in order */
	int draws;           /* with `from`: how many; without it there are n */
	/* Without `from`, where several steps stand in one region: */
	const int32_t *left; /* (n) tokens that each row may still draw; NULL: no limit */
	const int32_t *stop; /* (nstop) tokens behind which a row draws no more */
	int nstop;
};

/* ---- weights ---- */

struct ops_weight { /* a matrix (rows, cols); a vector is (1, cols) */
	int rows;
	int cols;
	int64_t ld;         /* elements from row to row of w */
	struct elem *w;     /* what products read; on the CPU it may lie in a mapped file */
	struct f32 *master; /* (rows, cols) without gaps; NULL: frozen. On the CPU it is w */
	struct f32 *grad;   /* (rows, cols) without gaps; NULL: frozen */
	struct f32 *m;      /* first moments, shaped as grad; NULL without an optimiser */
	struct f32 *v;      /* second moments, as m */
};

struct ops_linear { /* up to OPS_PARTS projections of one input */
	int in;         /* columns of each part */
	int out;        /* rows of all parts together */
	int parts;
	struct ops_weight w[OPS_PARTS];    /* (out_i, in) */
	struct ops_weight bias[OPS_PARTS]; /* (1, out_i); w NULL: none */
	void *prepared;                    /* the backend's own, by prepare and bind; NULL at create */
};

struct ops_lora {                   /* the adapter of one linear */
	struct ops_weight a[OPS_PARTS]; /* (R, in); w NULL: part not adapted */
	struct ops_weight b[OPS_PARTS]; /* (out_i, R) */
	int r;
	float scaling;
	float dropout;
	uint64_t seed;   /* 0: no dropout */
	uint64_t stream; /* part i draws its mask from (seed, stream + i, element of the (T, in) input) */
};

struct ops_next { /* the projection that will read a stage's output; lora NULL: base policy */
	const struct ops_linear *linear;
	const struct ops_lora *lora;
};

struct ops_heads {
	int NH;  /* heads of queries */
	int NKV; /* heads of keys and values */
	int HD;  /* elements of a head */
	float eps;
	const struct ops_weight *q_norm; /* (1, HD); NULL: none */
	const struct ops_weight *k_norm; /* (1, HD); NULL: none */
	const struct f32 *rope;          /* (positions, 2, HD / 2): cosines, then sines */
};

struct ops_held {   /* what stages keep of a device's memory between calls: it serves whichever comes next, and grows */
	size_t scratch; /* bytes for a stage's own use */
	size_t rows;    /* bytes for products in blocks of rows (batch_invariant) */
};

struct ops_adamw {
	float lr;
	float beta1;
	float beta2;
	float eps;
	float weight_decay;
	float grad_scale; /* gradients are multiplied by it first: clipping */
	int64_t step;     /* from 1 */
};

/* ---- the table ---- */

/* Shapes that a backend's kernels are made for; models of others are refused
 * when they are opened. */
struct ops_limits {
	int head_step;   /* of which the elements of a head are a multiple, */
	int head_max;    /* and their most */
	int group_max;   /* query heads that share a key head, at most */
	int vocab_max;   /* tokens */
	int hidden_step; /* of which the hidden size and the MLP's are multiples, */
	int hidden_max;  /* and the hidden size's most */
	int tile_rows;   /* rows of a pass or a step that work together, at least: a tile, */
	int tiles_max;   /* and the most of them at once, of which each sequence has one more than its rows fill */
};
struct ops {
	const char *name; /* "cpu", "cuda": for people, never compared */
	char uuid[48];    /* of a GPU, as its driver prints it (base/gpu_uuid.h): for locks between processes; "" there is
						 none */
	struct ops_context *ctx;
	int elem_bytes;                  /* 4 or 2 */
	int tail;                        /* spare elements behind a projection's input */
	bool host_memory;                /* elem is float in host memory, and may be mapped */
	bool follows;                    /* attend and attend_backward know sequences that follow another (ops_rows) */
	bool batch_invariant;            /* see above */
	const struct ops_limits *limits; /* NULL: any shape */

	/* ---- memory ---- */
	/* 256-byte aligned and zeroed; ends the program when there is none. */
	void *(*alloc)(struct ops_context *, size_t bytes);
	void (*release)(struct ops_context *, void *); /* NULL is fine */
	void (*memory)(struct ops_context *, size_t *free_bytes, size_t *total_bytes);
	/* NULL: stages keep nothing. memory counts it as taken. */
	void (*held)(struct ops_context *, struct ops_held *out);
	void (*zero)(struct ops_context *, void *, size_t bytes);
	/* w from `rows` rows of host values, rounded once; and master where there is one. */
	void (*put)(struct ops_context *, struct ops_weight *, const void *host, enum dtype);
	/* Values of the master where there is one, else of w; waits. */
	void (*get)(struct ops_context *, float *host /* (rows, cols) */, const struct ops_weight *);
	void (*put_f32)(struct ops_context *, struct f32 *, const float *host, int64_t n);
	void (*get_f32)(struct ops_context *, float *host, const struct f32 *, int64_t n); /* waits */
	/* Waits; for tests and debugging. */
	void (*get_elem)(struct ops_context *, float *host, const struct elem *, int64_t n);
	void (*get_i32)(struct ops_context *, int32_t *host, const struct i32 *, int64_t n); /* waits */
	/* get_f32 in two halves, so that the host can work while the device does: fetch takes the
	 * values as they are behind all calls so far and does not wait; fetched waits for them, not
	 * for what was asked since. slot: 0 or 1, one fetch at a time in each. At most
	 * OPS_FETCH_MAX values. */
	void (*fetch_f32)(struct ops_context *, int slot, const struct f32 *, int64_t n);
	void (*fetched_f32)(struct ops_context *, int slot, float *host, int64_t n);
	/* For each of n pairs copies a page in all planes: plane p of kv begins p * plane
	 * elements in, its page i another i * page elements in. No destination is a source
	 * or another destination. */
	void (*pages_copy)(struct ops_context *, struct elem *kv, int planes, int64_t plane, int64_t page,
		const int32_t *dst, const int32_t *src, int n);
	/* The weights are frozen until forget: the backend may keep a copy in the order it reads. No
	 * bit of a result changes. */
	void (*prepare)(struct ops_context *, struct ops_linear *);
	void (*forget)(struct ops_context *, struct ops_linear *);
	/* B into the tail columns of W; lora NULL: zeros there. Called when the adapter of the next
	 * steps is another, or has learned. */
	void (*bind)(struct ops_context *, struct ops_linear *, const struct ops_lora *);

	/* ---- a batch, and regions that repeat ---- */
	/* T, S, ...: the largest that a step will have. */
	struct ops_batch *(*batch_create)(struct ops_context *, int T, int S, int pages, int n, int draws);
	void (*batch_free)(struct ops_context *, struct ops_batch *);
	/* Sends the rows; returns the T that stages are to be called with: rounded up by the
	 * backend, but never above batch_create's; the surplus rows are harmless. Host arrays are
	 * free to change at return. */
	int (*batch_put)(struct ops_context *, struct ops_batch *, const struct ops_rows *);
	int (*batch_want)(struct ops_context *, struct ops_batch *, const struct ops_want *); /* the same for n */
	/* Calls that are the same each time but for what the batch holds stand between begin and end.
	 * begin gives false when the backend has replayed what it recorded under this key: then the
	 * calls, and end, are skipped. */
	bool (*begin)(struct ops_context *, uint64_t key);
	void (*end)(struct ops_context *);

	/* ---- forward; T is what batch_put returned, n what batch_want returned ---- */
	void (*embed)(struct ops_context *, struct elem *x /* (T, C) */, const struct ops_weight *table /* (V, C) */,
		const struct ops_batch *, int T);
	/* y = x * rstd * w, rstd = rsqrt(mean(x^2) + eps); with next also the thin
	 * product behind the row. */
	void (*norm)(struct ops_context *, struct elem *y /* (T, C + tail) */, struct f32 *rstd /* (T) or NULL */,
		const struct elem *x /* (T, C) */, const struct ops_weight *w /* (1, C) */, float eps, int T,
		const struct ops_next *);
	/* y = x W^T + bias + scaling * drop(x) A^T B^T (+ add). add may be y: the residual stream. */
	void (*linear)(struct ops_context *, struct elem *y /* (T, out) */, const struct elem *x /* (T, in + tail) */,
		const struct ops_linear *, const struct ops_lora *, const struct elem *add /* (T, out) or NULL */, int T);
	/* Norm and rotation of the heads; without a norm q and k are qkv. With pages it also stores
	 * this step's keys and values at each row's position. */
	void (*heads)(struct ops_context *, struct elem *q /* (T, Q) */, struct elem *k /* (T, KV) */,
		struct f32 *rstd /* (T, NH + NKV) or NULL */, struct elem *qkv /* (T, Q + 2 KV) */, struct elem *kpages,
		struct elem *vpages /* (pages, OPS_PAGE * KV) or NULL */, const struct ops_heads *, const struct ops_batch *,
		int T);
	/* Causal attention inside each sequence of a packed pass, scale 1 / sqrt(HD); query head h
	 * reads key head h / (NH / NKV). v is read from qkv. */
	void (*attend)(struct ops_context *, struct elem *att /* (T, Q + tail) */, struct f32 *lse /* (T, NH) or NULL */,
		const struct elem *q, const struct elem *k, const struct elem *qkv, const struct ops_heads *,
		const struct ops_batch *, int T, const struct ops_next *);
	/* The same over pages: a row reads positions 0..pos of its sequence. */
	void (*attend_paged)(struct ops_context *, struct elem *att /* (T, Q + tail) */, const struct elem *q,
		const struct elem *kpages, const struct elem *vpages, const struct ops_heads *, const struct ops_batch *, int T,
		const struct ops_next *);
	/* In a batch of pages, from which nothing is computed backward, gu is spent: it may hold
	 * anything from here on. */
	void (*gate)(struct ops_context *, struct elem *act /* (T, I + tail) = silu(gate) * up */,
		const struct elem *gu /* (T, 2 I) */, int I, int T, const struct ops_next *);

	/* ---- the head: rows first..first + n of the wanted ones ---- */
	void (*gather)(struct ops_context *, struct elem *out /* (n, C) */, const struct elem *x /* (T, C + x_tail) */,
		int C, int x_tail, const struct ops_batch *, int first, int n);
	void (*logits)(struct ops_context *, struct f32 *logits /* (n, V) */, const struct elem *x /* (n, C) */,
		const struct ops_linear *head, int n);
	/* out: a row's columns are enum ops_figure. */
	void (*logprob)(struct ops_context *, struct f32 *out /* (n, OPS_FIGURES) */, const struct f32 *logits,
		const struct ops_batch *, int first, int n, int V);
	/* Draws the tokens that batch_want asked for; n is of the rows. A row from which several are
	 * drawn gives each the token that it would give it alone. With one draw a row (`from` NULL) it
	 * also moves the batch one token on (ids, pos and the draws' index), so that k steps may stand
	 * in one region. A row that has drawn its last token (`left`, `stop`) stays where it is and
	 * draws -1 from then on. logprob is of the drawn token, by logprob's arithmetic: under
	 * softmax(logits / temperature) of the full vocabulary (temperature 1 when greedy), of what was
	 * left when min_p is on. Room for the draws of batch_create. */
	void (*sample)(struct ops_context *, struct i32 *drawn /* (draws) */, struct f32 *logprob /* (draws) */,
		const struct f32 *logits /* (n, V) */, struct ops_batch *, int n, int V);

	/* ---- backward: gradients of weights are added where grad is not NULL ---- */
	/* logits become d loss / d logits = g * (onehot - softmax) / temperature, in place (as
	 * elem, row stride V * 4 / elem_bytes); then dx, and the head's gradient. out is
	 * logprob's. g is on the host. */
	void (*head_backward)(struct ops_context *, struct elem *dx /* (n, C) */, struct f32 *logits, const struct f32 *out,
		const float *g /* (n) */, const struct elem *x /* (n, C) */, struct ops_linear *head, const struct ops_batch *,
		int first, int n, int V);
	void (*scatter)(struct ops_context *, struct elem *dx /* (T, C + dx_tail) += */, const struct elem *d /* (n, C) */,
		int C, int dx_tail, const struct ops_batch *, int first, int n);
	void (*linear_backward)(struct ops_context *, struct elem *dx /* (T, in + tail) per acc, or NULL */,
		const struct elem *dy /* (T, out) */, const struct elem *x /* (T, in + tail) */, struct ops_linear *,
		struct ops_lora *, int T, enum ops_accumulate);
	void (*gate_backward)(struct ops_context *, struct elem *dgu /* (T, 2 I) */,
		const struct elem *dact /* (T, I + tail) */, const struct elem *gu, int I, int T);
	void (*attend_backward)(struct ops_context *, struct elem *dq, struct elem *dk,
		struct elem *dqkv /* dv is written there */, const struct elem *datt /* (T, Q + tail) */,
		const struct elem *att /* (T, Q + tail) */, const struct f32 *lse, const struct elem *q, const struct elem *k,
		const struct elem *qkv, const struct ops_heads *, const struct ops_batch *, int T);
	/* dqkv's q and k parts, from dq and dk; the norms' gradients. */
	void (*heads_backward)(struct ops_context *, struct elem *dqkv, const struct elem *dq, const struct elem *dk,
		const struct elem *qkv, const struct f32 *rstd, struct ops_heads *, const struct ops_batch *, int T);
	void (*norm_backward)(struct ops_context *, struct elem *dx /* (T, C) per acc */,
		const struct elem *dy /* (T, C + tail) */, const struct elem *x /* (T, C) */, struct ops_weight *w,
		const struct f32 *rstd, int T, enum ops_accumulate);
	void (*embed_backward)(struct ops_context *, struct ops_weight *table, const struct elem *dx /* (T, C) */,
		const struct ops_batch *, int T);

	/* ---- choices ---- */
	/* What the device's libraries chose among ways of computing the same (the algorithms of
	 * products), as JSON for a file; NULL where nothing is chosen. choices_set takes such a file's
	 * before anything is computed, so that a run goes on with its own bits; ERR_MISMATCH where the
	 * device or a library is another than the one that chose. */
	json_t *(*choices)(struct ops_context *);
	int (*choices_set)(struct ops_context *, const json_t *, struct err *);

	/* ---- optimiser ---- */
	/* Of all gradients together, in a fixed order; waits. */
	double (*sum_squares)(struct ops_context *, struct ops_weight *const *, int n);
	/* torch.optim.AdamW with decoupled decay (none on vectors: rows == 1), on master; w
	 * follows; clears grad. */
	void (*adamw)(struct ops_context *, struct ops_weight *const *, int n, const struct ops_adamw *);

	/* ---- ranks: processes with a device each that add up their values (room ranks). NULL where
	 * the devices have no way of their own to each other ---- */
	/* Finds the library that they talk by; id, where it is not NULL, becomes
	 * that of a group to come. */
	int (*ranks_id)(struct ops_context *, void *id /* OPS_RANKS_ID bytes, or NULL */, struct err *);
	/* Waits for all, as ranks_sum does; both ask is_lost meanwhile, which says in err who is gone,
	 * and give up then. */
	int (*ranks_join)(struct ops_context *, const void *id, int rank, int count,
		bool (*is_lost)(void *ctx, struct err *), void *ctx, struct err *);
	/* values become v0 + v1 + ..., added in the order of ranks. */
	int (*ranks_sum)(struct ops_context *, struct f32 *values, int64_t n, bool (*is_lost)(void *ctx, struct err *),
		void *ctx, struct err *);

	void (*close)(struct ops *); /* frees the table and its context: ops_free */
};

/* A card that a GPU is held to: no more of it is used than the card has, and no kernel that
 * the card could not run. */
struct ops_card {
	char name[32];
	int capability; /* 80: compute capability 8.0; 0: no card, the GPU as it is */
	int sms;
	int shared_bytes; /* that a block may have */
	int64_t memory_bytes;
};
int ops_card_find(const char *name, struct ops_card *out, struct err *err); /* "a100", "rtx4090"; NULL: no card */

struct ops_options {
	int threads;          /* CPU: 0: the cores this process may use */
	bool batch_invariant; /* see above: always so on the CPU */
	bool avx2_only;       /* CPU: leave AVX-512 alone: for tests and comparisons; results differ in the last bits */
	int adapter_columns;  /* CUDA's tail; 0: none. A multiple of 64 that holds r of every part */
	size_t memory_cap;    /* bytes that a device may give in all, its driver's and libraries' share included; 0: what it
							 has */
	struct ops_card card; /* CUDA: what the GPU is held to, its memory aside, which is memory_cap's */
	const char *cuda_libs; /* CUDA: folder with cuBLASLt; NULL: beside the program, HONE_PYTHON's, the loader's path */
	bool poison_scratch;   /* CUDA: what a stage takes from scratch memory is NaN before: for tests */
};
int ops_cpu_create(const struct ops_options *, struct ops **out, struct err *);
/* device: "cpu", "cuda", "cuda:1". CUDA comes from libhone_cuda.so beside the program. */
int ops_open(const char *device, const struct ops_options *, struct ops **out, struct err *);
void ops_free(struct ops *);
/* What ops_open would give as far as sizes go: name, elem_bytes, tail, host_memory,
 * batch_invariant, limits, and no functions. For memory plans, where the device need not be. */
int ops_describe(const char *device, const struct ops_options *, struct ops *out, struct err *err);
struct elem *ops_elem_at(const struct ops *, const struct elem *, int64_t elements); /* an address further on */
#endif
