/* What the files of this room share: the model's and the adapter's insides, the walk over blocks,
 * and the table that carves activations. */
#ifndef HONE_MODEL_INTERNAL_H
#define HONE_MODEL_INTERNAL_H
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

#define ADAPTER_RANK_MAX 256   /* bounds the memory plan, which exists before adapters do */

/* ---- weights ---- */

enum proj { PROJ_Q, PROJ_K, PROJ_V, PROJ_O, PROJ_GATE, PROJ_UP, PROJ_DOWN, PROJ_COUNT };
struct proj_def {
	const char *name;   /* "q_proj" */
	const char *parent; /* the module that holds it: "self_attn" */
};
extern const struct proj_def proj_defs[PROJ_COUNT];
struct proj_shape {
	int out;
	int in;
};
struct proj_shape proj_shape(const struct model_config *c, enum proj p);

/* Projections that read one input are one linear of parts. */
enum linear { LINEAR_QKV, LINEAR_O, LINEAR_GU, LINEAR_DOWN, LINEAR_COUNT };
struct linear_def {
	enum proj first; /* its parts are this one and those behind it */
	int parts;
};
extern const struct linear_def linear_defs[LINEAR_COUNT];

struct layer {
	struct param *norm1;              /* (C) before attention */
	struct param *norm2;              /* (C) before the feed-forward part */
	struct param *q_norm;             /* (HD), NULL without qk_norm */
	struct param *k_norm;             /* as q_norm */
	struct param *weight[PROJ_COUNT]; /* (out, in) */
	struct param *bias[PROJ_COUNT];   /* (out), q, k and v alone, NULL without attention_bias */
	/* what stages are given: filled from the parameters by model_link */
	struct ops_linear linear[LINEAR_COUNT];
	struct ops_heads heads;
};

struct model {
	struct model_config config;
	struct ops *ops;
	char *dir; /* where it was opened from, NULL when created: the default base_model of adapters */
	struct param *params;
	int nparams;
	int64_t count; /* of all values */
	/* All of the weights: in table order, on the host without gaps. NULL while params are views of
	 * source. */
	void *block;
	struct f32 *masters;        /* (count) where the backend's elements are shorter; NULL until enabled */
	struct f32 *grads;          /* (count); NULL until enabled */
	struct safetensors *source; /* the file: params are views of its tensors, or masters may be filled from it again */
	uint64_t seed;              /* of the weights when there is no file */
	bool is_frozen;             /* the weights are from neither and are not trained */
	struct layer *layers;
	struct param *embed;
	struct param *norm;
	struct param *head; /* embed when tied */
	struct ops_linear head_linear;
	struct f32 *rope; /* (rope_positions, 2, HD/2) */
	int rope_positions;
	uint64_t changes;          /* counts writes to the weights */
	bool is_prepared;          /* the backend keeps copies of its own (model_prepare) */
	uint64_t prepared_changes; /* of the weights that it copied */
	uint64_t serial_last;      /* of what was made over this model: adapters, steps, pages */
	uint64_t bound_serial;     /* of the adapter whose B lies in the weights' tail columns; 0: none */
	uint64_t bound_changes;    /* of that adapter, as they were then */
};

/* A model without weights. */
struct model *model_alloc(const struct model_config *c, struct ops *ops /* NULL: for its table alone */);
/* Whether values that another file gave make a model. */
int model_config_check(const struct model_config *c, const char *what, struct err *err);
/* Absent, null, false, 0 or empty: a switch that is off in a config written by others. */
bool json_is_off(const json_t *v);
void model_ensure_rope(struct model *m, int positions);
/* Before a pass or a step: what the backend keeps of the weights in its own order is of these
 * weights, and the adapter's B (NULL: none) stands in their tail columns. */
void model_bind(struct model *m, const struct adapter *a);

/* Bytes of the working weights, and their pointers into a block of so many. On the host without
 * gaps, elsewhere each begins at a multiple of 256 bytes. */
size_t params_bytes(const struct ops *ops, const struct param *params, int n);
void params_carve(const struct ops *ops, struct param *params, int n, void *block);
/* Masters, without gaps in table order; NULL: frozen. On the host masters are the weights. */
void params_carve_masters(const struct ops *ops, struct param *params, int n, struct f32 *masters);
/* params_load from a file that is open already; path is for messages. */
int params_read(
	struct ops *ops, struct param *params, int count, const struct safetensors *s, const char *path, struct err *err);

static inline struct f32 *f32_at(struct f32 *p, int64_t values)
{
	return (struct f32 *)((uintptr_t)p + (uintptr_t)values * sizeof(float));
}

/* ---- adapters ---- */

struct adapter {
	struct model *model;
	int r;
	double alpha;
	double dropout;
	double scaling;
	bool is_rslora; /* scaling alpha / sqrt(r) */
	bool targets[PROJ_COUNT];
	struct param *params;
	int nparams;
	int64_t count;
	void *block;            /* the working copies */
	struct f32 *masters;    /* (count); NULL on the host */
	struct f32 *grads;      /* (count); NULL until enabled */
	struct param **a;       /* (layers, PROJ_COUNT) of (R, in); NULL where not targeted */
	struct param **b;       /* (layers, PROJ_COUNT) of (out, R) */
	struct ops_lora *loras; /* (layers, LINEAR_COUNT): the stages' view */
	uint64_t serial;        /* of this adapter among all */
	uint64_t changes;       /* of its values so far */
};
/* Weights uninitialised. */
int adapter_alloc(struct model *m, int r, double alpha, double dropout, bool is_rslora, const bool *targets,
	struct adapter **out, struct err *err);
/* Of a comma list of projections; NULL: all. */
int targets_parse(const char *list, bool targets[PROJ_COUNT], struct err *err);
/* NULL when a is NULL or adapts no part of the linear. */
struct ops_lora *adapter_lora(const struct adapter *a, int layer, enum linear l);
/* Masks of the next passes; 0: no dropout. a may be NULL. */
void adapter_dropout(struct adapter *a, uint64_t seed);
void adapter_link(struct adapter *a);

/* ---- activations ---- */

int pass_head_rows(const struct model_config *c, const struct pass_options *o); /* of a chunk's logits */

struct acts {            /* of one block */
	struct elem *x_in;   /* (T, C) */
	struct elem *n1;     /* (T, C + tail) */
	struct f32 *rstd1;   /* (T) */
	struct elem *qkv;    /* (T, Q + 2 KV) */
	struct elem *q;      /* (T, Q) after norm and rotation; qkv itself without qk_norm */
	struct elem *k;      /* (T, KV), as q */
	struct f32 *rstd_qk; /* (T, NH + NKV) */
	struct elem *att;    /* (T, Q + tail) */
	struct f32 *lse;     /* (T, NH) */
	struct elem *x_mid;  /* (T, C) */
	struct elem *n2;     /* (T, C + tail) */
	struct f32 *rstd2;   /* (T) */
	struct elem *gu;     /* (T, 2 I) */
	struct elem *act;    /* (T, I + tail) */
};

/* Which per-token width an activation has, and what it is made of. */
enum width { WIDTH_1, WIDTH_C, WIDTH_Q, WIDTH_KV, WIDTH_QKV, WIDTH_NH, WIDTH_HEADS, WIDTH_I, WIDTH_2I, WIDTH_COUNT };
enum act_kind { ACT_ELEM, ACT_TAIL /* elements, and the backend's tail behind each row */, ACT_F32 };
struct act_def {
	size_t offset;
	enum width width;
	enum act_kind kind;
};
extern const struct act_def act_defs[]; /* of struct acts */
int act_def_count(const struct model_config *c);
void widths_fill(const struct model_config *c, int64_t width[WIDTH_COUNT]);
/* Bytes of all entries for T tokens, each rounded up to 256; with base also stores the pointers
 * into *out, a struct of pointers. ops NULL: as on the CPU. */
size_t acts_carve(const struct ops *ops, const struct act_def *defs, int ndefs, const int64_t *width, int64_t T,
	void *out, char *base);
/* Without qk_norm the rotated vectors lie in qkv. */
void acts_alias(const struct model_config *c, struct acts *a);
static inline size_t elem_bytes_of(const struct ops *ops) { return ops ? (size_t)ops->elem_bytes : sizeof(float); }
static inline int tail_of(const struct ops *ops) { return ops ? ops->tail : 0; }

/* ---- weights of a seed ---- */

/* What no model can be: heads that do not divide, and the like. */
int model_shape_check(const struct model_config *c, struct err *err);
struct draw {
	const struct model *m;
	struct pool *pool; /* threads that draw; no value depends on them */
};
/* Values of parameter i, (count) fp32, by the model's seed; ctx: a struct draw. */
void param_draw(void *ctx, size_t i, void *out);

/* ---- the walk ---- */

struct walk {
	struct model *model;
	struct adapter *adapter; /* NULL: the base policy */
	struct ops_batch *batch;
	int T;               /* as batch_put gave it */
	bool recomputes;     /* backward makes the outputs of norms and gates again: layers share their memory */
	const struct kv *kv; /* pages; NULL: a packed pass. Attention is the one step in which they differ */
};
struct elem *kv_layer(const struct kv *kv, int layer, int which); /* 0 keys, 1 values */
/* x_out may be a->x_in (and a->x_mid too) when nothing is kept for backward. */
void walk_block(const struct walk *w, int layer, const struct acts *a, struct elem *x_out);

struct grads {         /* scratch of the backward walk */
	struct elem *dx;   /* (T, C): of the residual stream */
	struct elem *dn;   /* (T, C + tail): of a norm's output */
	struct elem *dqkv; /* (T, Q + 2 KV) */
	struct elem *dq;   /* (T, Q); dqkv itself without qk_norm */
	struct elem *dk;   /* (T, KV), as dq */
	struct elem *datt; /* (T, Q + tail) */
	struct elem *dgu;  /* (T, 2 I) */
	struct elem *dact; /* (T, I + tail) */
};
/* dx: in, the gradient of the block's output; out, of its input. */
void walk_block_backward(const struct walk *w, int layer, const struct acts *a, const struct grads *g);

#define HEAD_BUFFERS 2
struct head_buffer {    /* of one chunk */
	struct elem *x;     /* (rows_max, C) */
	struct f32 *logits; /* (rows_max, V) */
	struct f32 *out;    /* (rows_max, OPS_FIGURES) */
};
struct head {      /* the last norm's output to logits, a chunk of rows at a time */
	int rows_max;  /* of a chunk */
	int group_max; /* rows that the batch knows at once: whole chunks */
	int buffers;   /* 2: the next chunk's logits are under way while the host looks at one's */
	struct head_buffer buffer[HEAD_BUFFERS]; /* of chunk k: k % buffers */
	struct elem *dx;                         /* (rows_max, C) */
	/* on the host */
	float *figures; /* (rows_max, OPS_FIGURES): out */
	float *logprob; /* (rows_max) what the callback sees, as the next two */
	float *entropy;
	float *g;
	int32_t *at;        /* (group_max) */
	int32_t *target;    /* (group_max) */
	float *temperature; /* (group_max) */
	uint8_t *hits;      /* caller's, or NULL */
	float min_p;        /* pass_min_p */
	float *host_logits; /* (rows_max, V) with min_p alone */
};

struct pass {
	struct model *model;
	struct pass_options options;
	char *block; /* all activations */
	struct acts *layers;
	int nlayers_held;      /* one per layer with backward, else one for all */
	struct elem *x_last;   /* (T, C): input of the final norm */
	struct f32 *rstd_last; /* (T) */
	struct elem *hidden;   /* (T, C + tail) */
	struct elem *dhidden;  /* (T, C + tail) */
	struct grads grads;
	struct walk walk;
	int32_t *sequence;     /* (max_tokens) */
	int T;                 /* tokens of the batch last walked */
	uint64_t dropout_seed; /* of that pass */
	struct head head;
};
/* Full logits of rows of the batch, on the host: tests look at them, the program never does. */
void pass_logits(struct pass *p, const int32_t *at, int n, float *logits /* (n, V) */);
#endif
