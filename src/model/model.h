/* model: one decoder block with switches {qkv bias, q/k norm, tied head, head_dim, rope scaling};
 * Qwen3 first. Config, weights and LoRA adapters in Hugging Face's and PEFT's formats; forward and
 * backward written once over ops.h.
 *
 * Ownership: struct model owns the weights (one copy; mapped when a file has fp32, else converted).
 * An adapter is never merged: every projection is y = x W^T + s (x A^T) B^T. struct pass owns
 * activations, allocated at create for a maximal number of packed tokens; forward and backward
 * allocate nothing. Sampler (infer) and trainer call the same walk; they differ in the attention
 * entry alone. */
#ifndef HONE_MODEL_H
#define HONE_MODEL_H
#include "base/base.h"
#include "base/dtype.h"
#include "ops/ops.h"
#include "tensor/tensor.h"

struct model_config {
	int vocab_size;  /* rows of the embedding and of the head */
	int hidden_size; /* C */
	int num_hidden_layers;
	int num_attention_heads;     /* NH */
	int num_key_value_heads;     /* NKV; divides NH */
	int head_dim;                /* HD */
	int intermediate_size;       /* I */
	int max_position_embeddings; /* tokens of the longest sequence */
	double rms_norm_eps;
	double rope_theta;
	bool tie_word_embeddings; /* the head is the embedding */
	bool attention_bias;      /* q, k and v have a bias */
	bool qk_norm;             /* heads of q and k are normed */
	int bos_token_id;         /* -1: none, also of the next two */
	int eos_token_id;
	int pad_token_id;
	int eos_extra[7]; /* further ids that end a sequence (lists in config.json, generation_config.json) */
	int neos_extra;
	double rope_factor; /* Llama 3's stretched frequencies: this and the next three; 0: none */
	double rope_low_freq_factor;
	double rope_high_freq_factor;
	int rope_original_positions; /* for which the frequencies were made */
};
/* Whether the token ends a sequence. */
static inline bool model_config_is_eos(const struct model_config *c, int32_t id)
{
	bool is_eos = id == c->eos_token_id;
	for (int i = 0; i < c->neos_extra; i++) is_eos |= id == c->eos_extra[i];
	return is_eos;
}
/* Reads config.json, in old and new spellings; unknown architectures are refused by name. */
int model_config_load(const char *dir, struct model_config *out, struct err *err);
/* Writes config.json for weights of that type. */
int model_config_save_as(const char *dir, const struct model_config *c, enum dtype dtype, struct err *err);
/* {"bos_token_id", "eos_token_id", "pad_token_id"} as config.json and generation_config.json have
 * them; null for what the model has not. */
json_t *model_config_ends(const struct model_config *c);
int64_t model_config_params(const struct model_config *c);
/* Makes the folder, or takes its config.json away: until the last thing written, a new config.json,
 * it is no model to anyone. */
int model_folder_begin(const char *dir, struct err *err);

/* One named parameter. The table of all of them drives load, save, gradients, optimiser, comparison
 * and printing. */
struct param {
	char name[128];
	int ndim;
	int64_t shape[2];
	int64_t count;
	struct ops_weight w; /* a vector is one row; grad NULL: frozen; w NULL: fp32 alone, in master (moments) */
	uint64_t *changes;   /* of its model or adapter: who writes values adds one */
};
/* Values (count) to the host, and from it, in host order. */
void param_get(struct ops *ops, const struct param *p, float *host);
void param_put(struct ops *ops, struct param *p, const void *host, enum dtype dtype);
/* Value k alone, as products read it: for a look at a few of many. */
float param_value(struct ops *ops, const struct param *p, int64_t k);
/* One safetensors file that holds exactly these tensors under these names, in this order. Loading
 * (from the file, or a folder with its shards) demands the same names and shapes and refuses extra
 * ones. */
int params_save(struct ops *ops, const struct param *params, int count, const char *path, struct err *err);
int params_load(struct ops *ops, struct param *params, int count, const char *path, struct err *err);

/* ---- where it computes ---- */

struct device_options {
	const char *device;    /* cpu, cuda, cuda:N */
	const char *cuda_libs; /* folder with CUDA's libraries; NULL: where they usually lie */
	int threads;           /* of the CPU; 0: cores */
	bool batch_invariant;
	const char *const *adapters; /* (nadapters) folders of the adapters that will be opened; NULL entries: none */
	int nadapters;
	int new_rank;       /* of an adapter that will be created; 0: none */
	const char *memory; /* what the device may give, as "24GiB"; NULL: what it has */
	const char *card;   /* what a GPU is held to, as "a100": kernels, shared memory, memory; NULL: what it is */
};
int device_open(const struct device_options *o, struct ops **out, struct err *err);
/* The same as far as sizes go (ops_describe), on machines without the device too; cap: bytes of
 * `memory`, 0 without it. */
int device_describe(const struct device_options *o, struct ops *out, size_t *cap, struct err *err);
/* Whether the backend's kernels are made for such a model; what: its name in messages. */
int model_limits_check(const struct model_config *c, const struct ops *ops, const char *what, struct err *err);
/* What a plan may count on, asked before anything is allocated: a host's memory; of a device what
 * is free and what it has taken for itself already. */
size_t device_room(struct ops *ops);

struct model;
int model_open(const char *dir, struct ops *ops, struct model **out, struct err *err);
/* Random weights: normal(0, 0.02), norms 1 (o_proj and down_proj scaled by 1/sqrt(2 layers)); pure
 * function of seed. */
int model_create(const struct model_config *c, uint64_t seed, struct ops *ops, struct model **out, struct err *err);
/* The folder that model_save writes of that model, made and written one tensor at a time: the model
 * itself need not fit into memory. */
int model_create_saved(const struct model_config *c, uint64_t seed, const char *dir, struct err *err);
/* Weights that the caller has: fill gives each parameter's, in table order. Only an
 * adapter trains over them. */
typedef const void *model_fill_fn(void *ctx, const struct param *p, enum dtype *dtype);
int model_create_from(
	const struct model_config *c, model_fill_fn *fill, void *ctx, struct ops *ops, struct model **out, struct err *err);
int model_save(const struct model *m, const char *dir, struct err *err); /* model_export of the weights as they are */
/* Copies the files beside the weights that make a folder usable: tokenizer, chat template,
 * generation defaults. Absent ones are skipped. */
int model_copy_tokenizer(const char *from, const char *to, struct err *err);
/* A GGUF file's model (llama, qwen2, qwen3): its configuration, with what the block has no switch
 * for refused by name; and its weights under Hugging Face's names, q and k in Hugging Face's row
 * order, as model.safetensors of F32 (exact) or BF16 (rounded to nearest even), one tensor at a
 * time, with config.json behind them. */
int model_config_from_gguf(const struct gguf *g, struct model_config *out, struct err *err);
int model_save_from_gguf(
	const struct gguf *g, const struct model_config *c, enum dtype dtype, const char *dir, struct err *err);
void model_free(struct model *m);
const struct model_config *model_config(const struct model *m);
struct ops *model_ops(const struct model *m);
struct param *model_params(struct model *m, int *count);

/* LoRA on q,k,v,o,gate,up,down projections (or a subset). A: uniform +-1/sqrt(in), B: zeros.
 * scaling = alpha / r. */
struct adapter_options {
	int r;                      /* rank */
	double lora_alpha;          /* scaling is lora_alpha / r */
	double lora_dropout;        /* share of its input's values that training drops */
	const char *target_modules; /* comma list; NULL: all seven */
	uint64_t seed;              /* of A */
};
struct adapter;
int adapter_create(struct model *m, const struct adapter_options *o, struct adapter **out, struct err *err);
/* Of a PEFT folder. What is not supported is refused by name. */
int adapter_open(struct model *m, const char *dir, struct adapter **out, struct err *err);
/* The rank that a PEFT folder states: a backend wants to know it before it is opened. */
int adapter_rank(const char *dir, int *r, struct err *err);
/* Whether adapter_options' target_modules may be this list. */
int adapter_modules_check(const char *list, struct err *err);
int adapter_save(const struct adapter *a, const char *dir, const char *base_model, struct err *err);
void adapter_free(struct adapter *a);
struct param *adapter_params(struct adapter *a, int *count);
/* A hash of which weights these are: a few values of every tensor, and the adapter's scaling and
 * dropout. Reading all of a large model at every start would be dear, and another model differs
 * everywhere. */
struct sha256_hex weights_fingerprint(struct model *m, struct adapter *a /* or NULL */);
/* Writes config.json and the weights as Hugging Face's programs load them. With an adapter scaling
 * * B A is added into a copy first, in fp32: for others only, hone never runs merged weights. NULL
 * options: fp32, files of at most MODEL_SHARD_BYTES. */
#define MODEL_SHARD_BYTES ((int64_t)5000 * 1000 * 1000)
struct export_options {
	enum dtype dtype;    /* F32, or rounded once to BF16 or F16 */
	int64_t shard_bytes; /* a file's tensors; 0: one file */
};
int model_export(
	const struct model *m, const struct adapter *a, const char *dir, const struct export_options *o, struct err *err);
/* Allocates gradients (zeroed): of the adapter when given, else of all of the model's parameters.
 * params_zero_grad clears. */
void model_enable_grad(struct model *m, struct adapter *a);
/* Lets the backend keep projections and head in its own order too: faster generation for twice
 * their memory. Until the model is freed, or model_enable_grad; weights that have gradients already
 * are kept by a backend in host memory alone, and copied again whenever they have learned. */
void model_prepare(struct model *m);
void params_zero_grad(struct ops *ops, struct param *params, int count);

/* ---- training pass over packed sequences ---- */

struct pass;
#define PASS_TOKENS_MAX 4194304
#define PASS_TOKENS_RANGE "2 to 4194304" /* of options that say how many tokens are packed */
#define PASS_SEQUENCES_MAX 16384         /* of a pass */
struct pass_options {
	int max_tokens; /* PASS_TOKENS_MAX at most */
	int head_rows;  /* rows of logits held at once; 0: about 64 MiB of them */
	bool backward;
	/* Outputs of norms and gates are not kept for the backward pass, which computes them again: the
	 * same bits, in 70 % of the memory of a Qwen3's layers. */
	bool recompute;
};
int pass_create(struct model *m, const struct pass_options *o, struct pass **out, struct err *err);
void pass_free(struct pass *p);
/* For the memory plan; ops NULL: as on the CPU. */
size_t pass_bytes(const struct ops *ops, const struct model_config *c, const struct pass_options *o);
struct packed { /* S sequences side by side: sequence s is rows start[s]..start[s + 1] */
	int T;
	int S;
	const int32_t *start; /* (S + 1) */
	const int32_t *pos;   /* (T) position of each token in its sequence: 0, 1, ...; on from the row that it follows */
	/* (S) the row behind which a sequence goes on, so that a beginning which several share is run
	 * once; -1: none. NULL: none at all. Not every backend can (ops->follows). */
	const int32_t *follows;
};
struct batch {
	const int32_t *ids; /* (T) */
	struct packed packed;
};
/* Runs the blocks; the final norm's output (T, C) stays in the pass. a may be NULL (the reference
 * policy). dropout_seed 0: no dropout. */
void pass_forward(struct pass *p, struct adapter *a, const struct batch *b, uint64_t dropout_seed);
/* A row asks for the log-probability of `target` given the tokens up to and including row `at` of
 * the batch. */
struct head_row {
	int32_t at;
	int32_t target;
	float temperature; /* by which its logits are divided; 0: the call's */
};
/* min_p of all later calls (0: off): tokens that are less likely than min_p times the likeliest one
 * count as impossible, but for the target; log-probabilities are of what is left, and so are their
 * gradients: what a sampler that truncates by min_p draws from. */
void pass_min_p(struct pass *p, float min_p);
/* Fills logprob (n) and entropy (n, may be NULL) of softmax(logits / temperature). */
void pass_logprobs(
	struct pass *p, const struct head_row *rows, int n, float temperature, float *logprob, float *entropy);
/* Fused head and loss: for each chunk of rows, logits, log-probabilities and entropies are
 * computed, loss() fills g[i] = d loss / d logprob of row begin + i, and the chunk's gradient flows
 * back; then the blocks. Gradients are added to the enabled params. Needs options.backward. */
typedef void loss_fn(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g);
void pass_backward(struct pass *p, const struct head_row *rows, int n, float temperature, loss_fn *loss, void *ctx);
/* The next pass_logprobs or pass_backward also stores, per row, whether no other logit is larger
 * than the target's (greedy accuracy). */
void pass_want_hits(struct pass *p, uint8_t *hits /* (n) */);

/* ---- generation step over KV pages ---- */

struct kv; /* pages of all layers: (layers, 2, pages, OPS_PAGE * NKV * HD), a page's inside arranged by the backend */
#define KV_PAGES_MAX (INT32_MAX / OPS_PAGE) /* their tokens are counted in 31 bits */
struct kv *kv_create(struct model *m, int pages);
void kv_free(struct kv *kv);
/* All layers, keys and values: copies on first write of shared pages. No dst is a src or another
 * dst. */
void kv_copy_pages(struct kv *kv, const int32_t *dst, const int32_t *src, int n);
size_t kv_bytes(const struct ops *ops /* NULL: as on the CPU */, const struct model_config *c, int pages);
struct step; /* activations of one generation step */
struct step_options {
	int rows; /* of one step, at most */
	int sequences;
	int pages;  /* of one sequence */
	int wanted; /* rows of logits */
	int draws;  /* tokens drawn from them; 0: as many as wanted */
	int steps;  /* of one call of step_run_many, at most; 0: 1 */
};
struct step *step_create(struct model *m, const struct step_options *o);
/* For the memory plan. */
size_t step_bytes(
	const struct ops *ops /* NULL: as on the CPU */, const struct model_config *c, const struct step_options *o);
void step_free(struct step *s);
/* Runs the rows; rows of one call share one adapter (NULL: none). Keys of earlier rows of the same
 * sequence in the same call are visible: a prompt may be prefilled in one call. With want->draw
 * tokens are drawn, into drawn and logprob: one of each wanted row, or want->draws from the rows
 * that want->from names. Returns the wanted rows' logits (n, V), which belong to s. */
const struct f32 *step_run(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *rows,
	const struct ops_want *want, int32_t *drawn, float *logprob);
/* k steps as one region of the backend: one row a sequence (decoding), one draw a row, each step's
 * tokens the next one's input. want->left says how many tokens each row may draw, for whose
 * positions its pages are there; a row that is over draws -1. drawn and logprob are (k, rows). The
 * tokens and bits of k single steps with the same rows. */
void step_run_many(struct step *s, struct kv *kv, struct adapter *a, const struct ops_rows *rows,
	const struct ops_want *want, int k, int32_t *drawn, float *logprob);
/* Until the device has done all that was asked of it so far: a step that draws
 * nothing is not waited for. */
void step_wait(struct step *s);
/* What may be planned with, in bytes: all memory of a host, what is free on a GPU. */
size_t model_memory(const struct model *m);

/* ---- memory plans: what a run will allocate, line by line, before it does ---- */

#define PLAN_LINES_MAX 24
struct plan_line {
	const char *name;
	size_t bytes;
	char what[160]; /* for people */
};
struct memory_plan {
	struct plan_line lines[PLAN_LINES_MAX];
	int count;
};
void plan_add(struct memory_plan *p, const char *name, size_t bytes, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
size_t plan_total(const struct memory_plan *p);
/* A line each and the total, held against `room` bytes; room_of: "this
 * machine has"; 0: not known. */
void plan_print(const struct memory_plan *p, const char *room_of, size_t room, FILE *out);
/* ERR_LIMIT with the sum by its lines when the total is more than room, where that is known;
 * advice: what to do then. */
int plan_check(const struct memory_plan *p, const char *room_of, size_t room, const char *advice, struct err *err);

/* The largest number from `least` to `most` with which a plan fits, where it does with every
 * smaller one too; less than least: with none. */
typedef bool plan_fits_fn(void *ctx, int64_t number);
int64_t plan_largest(int64_t least, int64_t most, plan_fits_fn *fits, void *ctx);

/* ops of these: of ops_open or ops_describe. */
struct training_plan {
	int adapter_rank;           /* 0: all weights are trained */
	const char *target_modules; /* as in adapter_options */
	bool has_reference;         /* of a KL term */
	bool generates;             /* an engine runs the same model */
	struct pass_options pass;
};
void plan_training(
	struct memory_plan *p, const struct ops *ops, const struct model_config *c, const struct training_plan *t);
/* Values that learn: all weights, or the adapter's. */
int64_t plan_trained(const struct ops *ops, const struct model_config *c, const struct training_plan *t);
struct device_plan {          /* what a device takes beside what it is asked for depends on these; 0: there is none */
	struct pass_options pass; /* max_tokens 0: none */
	int passes;               /* how many there are: 2 with a reference of its own */
	int adapter_rank;
	struct step_options step;
	int kv_pages;
	int ranks; /* processes with a device each, whose gradients are added; 0 and 1: alone */
};
/* Adds nothing on the CPU. */
void plan_device(
	struct memory_plan *p, const struct ops *ops, const struct model_config *c, const struct device_plan *d);
/* Whether the device takes so many rows and sequences in a pass and in a step. */
int plan_rows_check(const struct ops *ops /* NULL: as on the CPU */, const struct model_config *c,
	const struct device_plan *d, struct err *err);
/* Of that what is still to be taken when the device is open and has weights: batches, angles, what
 * stages need beside their arrays and do not hold yet. 0 on the CPU. */
size_t plan_device_bytes(
	const struct ops *ops /* NULL: as on the CPU */, const struct model_config *c, const struct device_plan *d);
#endif
