/* What the files of this room share: the model's and the adapter's insides, the walk over blocks,
 * and the table that carves activations. */
#ifndef HONE_MODEL_INTERNAL_H
#define HONE_MODEL_INTERNAL_H
#include "model/model.h"

#define ADAPTER_RANK_MAX 256   /* bounds the scratch of every pass and step, which exist before adapters do */

/* ---- weights ---- */

enum proj { PROJ_Q, PROJ_K, PROJ_V, PROJ_O, PROJ_GATE, PROJ_UP, PROJ_DOWN, PROJ_COUNT };
struct proj_def {
	const char *name, *parent;
};
extern const struct proj_def proj_defs[PROJ_COUNT];
struct proj_shape {
	int out, in;
};
struct proj_shape proj_shape(const struct model_config *c, enum proj p);

struct layer {
	const struct param *norm1, *norm2;      /* (C) */
	const struct param *q_norm, *k_norm;    /* (HD), NULL without qk_norm */
	const struct param *weight[PROJ_COUNT]; /* (out, in) */
	const struct param *bias[PROJ_COUNT];   /* (out), q, k and v alone, NULL without attention_bias */
};

struct model {
	struct model_config config;
	struct ops *ops;
	char *dir; /* where it was opened from, NULL when created: the default base_model of adapters */
	struct param *params;
	int nparams;
	int64_t count; /* of all values */
	float *block,
		*grads; /* (count): params in table order without gaps; block NULL while mapped, grads NULL until enabled */
	struct safetensors *mapped; /* params are views of its tensors */
	struct layer *layers;
	const struct param *embed, *norm, *head; /* head == embed when tied */
	float *rope;
	int rope_positions; /* (rope_positions, 2, HD/2) */
};

struct model *model_alloc(
	const struct model_config *c, struct ops *ops /* NULL: for its table alone */); /* no weights yet */
int model_config_check(
	const struct model_config *c, const char *what, struct err *err); /* of values that another file gave */
/* Absent, null, false, 0 or empty: a switch that is off in a config written by others. */
bool json_is_off(const json_t *v);
/* The weights in a block of their own, which params (the model's table or a copy of it) then point
 * into. */
float *model_copy(const struct model *m, struct param *params);
void model_ensure_rope(struct model *m, int positions);
/* Total of counts, and data or grad pointers into a block in table order. */
int64_t params_count(const struct param *params, int n);
void params_carve(struct param *params, int n, float *data);
void params_carve_grads(struct param *params, int n, float *grads); /* NULL: frozen */
/* params_load from a file that is open already; path is for messages. */
int params_read(
	struct ops *ops, struct param *params, int count, const struct safetensors *s, const char *path, struct err *err);

/* ---- adapters ---- */

struct lora {
	const struct param *a; /* (R, in) */
	const struct param *b; /* (out, R) */
};
struct adapter {
	struct model *model;
	int r;
	double alpha, dropout, scaling;
	bool is_rslora; /* scaling alpha / sqrt(r) */
	bool targets[PROJ_COUNT];
	struct param *params;
	int nparams;
	int64_t count;
	float *block, *grads; /* (count) */
	struct lora *lora;    /* (layers, PROJ_COUNT); a and b NULL where not targeted */
};
/* Weights uninitialised. */
struct adapter *adapter_alloc(
	struct model *m, int r, double alpha, double dropout, bool is_rslora, const bool *targets);
const struct lora *adapter_lora(
	const struct adapter *a, int layer, enum proj p); /* NULL when a is NULL or p is not targeted */

/* ---- activations ---- */

struct acts {               /* of one block */
	float *x_in;            /* (T, C) */
	float *n1, *rstd1;      /* (T, C), (T) */
	float *q_raw, *k_raw;   /* (T, NH, HD), (T, NKV, HD): before q/k norm; == q, k without qk_norm */
	float *rstd_q, *rstd_k; /* (T, NH), (T, NKV) */
	float *q, *k, *v;       /* (T, NH, HD), (T, NKV, HD) x 2: after rope */
	float *att, *lse;       /* (T, NH, HD), (T, NH) */
	float *x_mid;           /* (T, C) */
	float *n2, *rstd2;      /* (T, C), (T) */
	float *gate, *up, *act; /* (T, I) */
};

/* Which per-token width an activation has. */
enum width { WIDTH_1, WIDTH_C, WIDTH_Q, WIDTH_KV, WIDTH_NH, WIDTH_NKV, WIDTH_I, WIDTH_R, WIDTH_IN_MAX, WIDTH_COUNT };
void widths_fill(const struct model_config *c, int64_t width[WIDTH_COUNT]);
struct act_def {
	size_t offset;
	enum width width;
};
extern const struct act_def act_defs[]; /* of struct acts */
extern const int act_def_count;
/* Bytes of all entries for T tokens, each rounded up to 64; with base also stores the pointers into
 * *out, a struct of float pointers. */
size_t acts_carve(const struct act_def *defs, int ndefs, const int64_t *width, int64_t T, void *out, char *base);
/* Without qk_norm the raw projections are the vectors themselves. */
void acts_alias(const struct model_config *c, struct acts *a);

/* ---- the walk ---- */

/* Attention is the one step in which training and generation differ. */
struct walk;
typedef void attend_fn(struct walk *w, int layer, const struct acts *a);
struct walk {
	struct model *model;
	struct adapter *adapter; /* NULL: the base policy */
	int T;
	const int32_t *pos; /* (T) */
	float dropout;
	uint64_t dropout_seed;   /* 0: none */
	float *lora_x;           /* (T, IN_MAX): dropped-out input */
	float *lora_h, *lora_dh; /* (T, R) */
	attend_fn *attend;
	void *ctx;
};
/* x_out may be a->x_in (and a->x_mid too) when nothing is kept for backward. */
void walk_block(struct walk *w, int layer, const struct acts *a, float *x_out);
void walk_linear(struct walk *w, int layer, enum proj p, float *y /* (T, out) per acc */, const float *x /* (T, in) */,
	enum ops_accumulate acc);
/* Adds weight gradients; dx (T, in) may be NULL when nothing below it learns. */
void walk_linear_backward(struct walk *w, int layer, enum proj p, const float *dy /* (T, out) */, const float *x,
	float *dx, enum ops_accumulate acc);

struct grads {                 /* scratch of the backward walk */
	float *dx;                 /* (T, C): of the residual stream */
	float *dn;                 /* (T, C): of a norm's output */
	float *dq, *dk, *dv;       /* (T, NH, HD), (T, NKV, HD) x 2 */
	float *datt, *dk_raw;      /* (T, NH, HD): also q before its norm, (T, NKV, HD) */
	float *dgate, *dup, *dact; /* (T, I) */
};
/* dx: in, the gradient of the block's output; out, of its input. */
void walk_block_backward(
	struct walk *w, int layer, const struct acts *a, const struct ops_packed *b, const struct grads *g);

struct head { /* the last norm's output to logits, a chunk of rows at a time */
	int rows_max;
	float *x, *dx;                      /* (rows_max, C) */
	float *logits;                      /* (rows_max, V) */
	float *logprob, *entropy, *lse, *g; /* (rows_max) */
	int32_t *at, *target;               /* (rows_max) */
	float *host;                        /* (4, rows_max): what the callback sees */
	float *host_logits;                 /* (V): for hits */
	uint8_t *hits;                      /* caller's, or NULL */
};

struct pass {
	struct model *model;
	struct pass_options options;
	char *block; /* all activations */
	struct acts *layers;
	int nlayers_held;          /* one per layer with backward, else one for all */
	float *x_last, *rstd_last; /* (T, C), (T): input of the final norm */
	float *hidden, *dhidden;   /* (T, C) */
	struct grads grads;
	struct walk walk;
	int32_t *ids, *pos, *start; /* (max_tokens), (max_tokens), (max_tokens + 1): the batch last walked */
	struct ops_packed packed;
	struct head head;
};
void head_logits(const struct model *m, float *logits /* (n, V) */, const float *x /* (n, C) */, int n);
#endif
