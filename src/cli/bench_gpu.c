/* hone bench gpu: what the engine makes of a GPU. Models of random weights and true shapes, an adapter
 * of rank 16 always on, through the same calls that generation and training make; each figure beside
 * the ceiling that this device shows in the same run, and beside the bar that the project holds it to.
 *
 *   ceilings   bytes a second of a copy, read and written; arithmetic a second of one large product,
 *              sustained (its rate falls when the card is warm)
 *   decode     a step of so many sequences with so much context: its floor is what it has to read,
 *              weights and keys and values, over the copy's rate
 *   prefill    a forward pass over packed prompts, beside the product's rate
 *   train      a step of GRPO over packed sequences: forward, head, backward, AdamW; with a reference
 *              the base's forward pass and log-probabilities before it
 *   rollout    8 prompts x 8 answers of --answer tokens by the engine, and one update on them
 *   invariant  decode with batch_invariant, beside the decode above
 *
 * Bars are of a full 8B on one H200; a slice of its layers (--layers) or other sizes have none. */
#include "cli/bench.h"
#include "base/base.h"
#include "base/dtype.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "train/train.h"
#include "verify/measure.h"

#include <math.h>
#include <stdlib.h>

#define RANK 16
#define BATCHES_MAX 8
#define ROWS_MAX 32
#define SEQUENCE 1024     /* tokens of a packed sequence */
#define HEAD_ROWS 2048    /* of logits held at once in training */
#define NOISE_BLOCK (1 << 22)
/* Sizes that the bars are of, beside the shapes' own. */
#define TOKENS 16384
#define PREFILL 8192
#define ANSWER 1024

struct gpu_options {
	const char *device, *cuda_libs, *memory, *shapes, *parts, *batches;
	int64_t layers, context, tokens, prefill, answer, repeats;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct gpu_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, device, "where to measure: cuda or cuda:N; cpu tells no more than that it runs", NULL),
	O(OPTION_STR, cuda_libs, "folder with CUDA's libraries; default: where Python's or the system's lie", NULL),
	O(OPTION_STR, memory, "most memory that the device may give, as 24GiB; default: what it has", NULL),
	O(OPTION_STR, shapes, "comma list of 8b (Qwen3-8B), 135m (SmolLM2), demo (1.8 M)", NULL),
	O(OPTION_STR, parts,
		"comma list of decode, prefill, train, rollout, invariant; default: all of an 8b, decode of the others", NULL),
	O(OPTION_STR, batches, "comma list of sequences decoded at once; default: the shape's", NULL),
	O(OPTION_INT, layers, "layers of the model; 0: the shape's", "0 to 1024"),
	O(OPTION_INT, context, "tokens of each sequence when it is decoded; 0: the shape's", "0 to 1048576"),
	O(OPTION_INT, tokens, "packed tokens of a training step", "2 to 4194304"),
	O(OPTION_INT, prefill, "packed tokens of a prefill", "2 to 4194304"),
	O(OPTION_INT, answer, "tokens of an answer in the rollout", "1 to 1048576"),
	O(OPTION_INT, repeats, "steps that the median is of; training takes a quarter of them", "1 to 1000000"),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
};

/* ---- shapes and bars ---- */

#define PARTS "decode,prefill,train,rollout,invariant"

enum bar_of { BAR_SHARE /* of the ceiling */, BAR_RATE, BAR_SECONDS /* at most */ };
struct bar {
	const char *key; /* of the figure */
	enum bar_of of;
	double must, goal;
};
struct shape {
	const char *name;
	int hidden, intermediate, layers, heads, kv_heads, head_dim, vocab;
	bool is_tied, qk_norm;
	int context, batches[BATCHES_MAX];
	const char *parts; /* without --parts */
	struct bar bars[10];
};
static const struct shape shapes[] = {
	{"8b", 4096, 12288, 36, 32, 8, 128, 151936, false, true, 640, {1, 64, 256}, PARTS,
		{{"decode_1", BAR_SHARE, 0.75, 0.84}, {"decode_64", BAR_SHARE, 0.75, 0.84},
			{"decode_256", BAR_SHARE, 0.75, 0.84}, {"invariant_64", BAR_SHARE, 0.80, 0.95},
			{"prefill", BAR_RATE, 520e12, 600e12}, {"train_reference", BAR_RATE, 10e3, 12.5e3},
			{"train", BAR_RATE, 14e3, 17.5e3}, {"rollout", BAR_SECONDS, 14, 11.5}}},
	{"135m", 576, 1536, 30, 9, 3, 64, 49152, true, false, 320, {256}, "decode",
		{{"decode_256", BAR_RATE, 100e3, 180e3}}},
	{"demo", 192, 512, 4, 6, 2, 32, 1024, true, true, 300, {1024}, "decode", {{"decode_1024", BAR_RATE, 2e6, 5e6}}},
};

static struct model_config config_of(const struct shape *s, const struct gpu_options *o)
{
	return (struct model_config){
		.vocab_size = s->vocab,
		.hidden_size = s->hidden,
		.num_hidden_layers = o->layers ? (int)o->layers : s->layers,
		.num_attention_heads = s->heads,
		.num_key_value_heads = s->kv_heads,
		.head_dim = s->head_dim,
		.intermediate_size = s->intermediate,
		.max_position_embeddings = 1 << 20,
		.rms_norm_eps = 1e-6,
		.rope_theta = 1e6,
		.tie_word_embeddings = s->is_tied,
		.qk_norm = s->qk_norm,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
}

/* ---- figures ---- */

struct figure {
	char key[32], title[80];
	double value;     /* tok/s, FLOP/s or seconds */
	const char *unit; /* in which it is printed */
	double scale;     /* value in that unit */
	double ceiling;   /* in the value's own; 0: none is known */
	const char *ceiling_is;
	double low, high; /* ms of the fastest and the slowest repeat */
	const struct bar *bar;
};

struct bench {
	const struct gpu_options *o;
	const struct shape *shape;
	struct model_config c;
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	uint16_t *noise; /* as many bf16 as the largest parameter has */
	int64_t noise_count;
	double copy, product; /* bytes and FLOP a second */
	struct figure figures[ROWS_MAX];
	int count;
};

static struct figure *figure_add(struct bench *b, const char *key, const char *title, double value, const char *unit,
	double scale, double ceiling, const char *ceiling_is)
{
	CHECK(b->count < ROWS_MAX);
	struct figure *f = &b->figures[b->count++];
	const struct gpu_options *o = b->o;
	bool is_whole = b->c.num_hidden_layers == b->shape->layers && !o->context && o->tokens == TOKENS &&
		o->prefill == PREFILL && o->answer == ANSWER;
	*f = (struct figure){.value = value, .unit = unit, .scale = scale, .ceiling = ceiling, .ceiling_is = ceiling_is};
	snprintf(f->key, sizeof f->key, "%s", key);
	snprintf(f->title, sizeof f->title, "%s", title);
	for (size_t i = 0; is_whole && i < ARRAY_LEN(b->shape->bars) && b->shape->bars[i].key; i++)
		if (!strcmp(b->shape->bars[i].key, key)) f->bar = &b->shape->bars[i];
	return f;
}

/* Seconds of a repeat: the median; the ends go into the figure's row. */
static double median(double *seconds, int n) { return measure_median(seconds, n).value; }

static double now(void) { return 1e-9 * (double)clock_ns(); }

static void wait(struct bench *b, const struct f32 *of)
{
	float x;
	b->ops->get_f32(b->ops->ctx, &x, of, 1);
}

/* ---- ceilings ---- */

static double copy_rate(struct bench *b)
{
	enum { PAGE = 32768, REPEATS = 5 };
	struct ops *o = b->ops;
	size_t bytes = o->host_memory ? (size_t)64 << 20 : (size_t)4 << 30;
	int64_t pages = (int64_t)(bytes / PAGE / (size_t)o->elem_bytes);
	int n = (int)(pages / 2);
	int32_t *dst = xcalloc((size_t)n, sizeof *dst), *src = xcalloc((size_t)n, sizeof *src);
	struct elem *block = o->alloc(o->ctx, bytes);
	double best = 0;
	for (int i = 0; i < n; i++) dst[i] = 2 * i, src[i] = 2 * i + 1;
	for (int k = 0; k < REPEATS; k++) {
		wait(b, (struct f32 *)(void *)block);
		double begin = now();
		o->pages_copy(o->ctx, block, 1, 0, PAGE, dst, src, n);
		wait(b, (struct f32 *)(void *)block);
		best = fmax(best, 2.0 * n * PAGE * o->elem_bytes / (now() - begin));
	}
	o->release(o->ctx, block);
	free(dst);
	free(src);
	return best;
}

/* A large product again and again: half a second to get warm, one that counts. */
static double product_rate(struct bench *b)
{
	struct ops *o = b->ops;
	int side = o->host_memory ? 256 : 8192, T = 2 * side, calls = 0;
	int64_t ld = side + o->tail;
	double rate = 0;
	struct ops_linear l = {.in = side, .out = side, .parts = 1};
	size_t bytes = (size_t)side * (size_t)ld * (size_t)o->elem_bytes;
	struct elem *x = o->alloc(o->ctx, 2 * bytes), *w = o->alloc(o->ctx, bytes), *y = o->alloc(o->ctx, 2 * bytes);
	l.w[0] = (struct ops_weight){.rows = side, .cols = side, .ld = ld, .w = w};
	/* Noise, since a product of zeros takes less power. */
	CHECK((int64_t)side * side <= b->noise_count);
	o->put(o->ctx, &l.w[0], b->noise, DTYPE_BF16);
	for (int half = 0; half < 2; half++) {
		struct ops_weight rows = {
			.rows = side, .cols = side, .ld = ld, .w = ops_elem_at(o, x, (int64_t)half * side * ld)};
		o->put(o->ctx, &rows, b->noise, DTYPE_BF16);
	}
	for (int round = 0; round < 2; round++) {
		calls = 0;
		double begin = now(), seconds = round ? 1.0 : 0.5;
		do {
			for (int i = 0; i < 16; i++, calls++) o->linear(o->ctx, y, x, &l, NULL, NULL, T);
			wait(b, (struct f32 *)(void *)y);
		} while (now() - begin < seconds);
		rate = 2.0 * T * side * side * calls / (now() - begin);
	}
	o->release(o->ctx, x);
	o->release(o->ctx, w);
	o->release(o->ctx, y);
	return rate;
}

/* ---- the model ---- */

static void noise_make(struct bench *b)
{
	int64_t n = MAX((int64_t)b->c.vocab_size * b->c.hidden_size, (int64_t)b->c.intermediate_size * b->c.hidden_size);
	b->noise_count = MAX(n, (int64_t)8192 * 8192);
	b->noise = xmalloc(size_mul((size_t)b->noise_count, sizeof *b->noise));
	for (int64_t i = 0; i < MIN(NOISE_BLOCK, b->noise_count); i++)
		b->noise[i] = f32_to_bf16(0.02f * rng_normal(1, 1, (uint64_t)i));
	for (int64_t at = NOISE_BLOCK; at < b->noise_count; at += NOISE_BLOCK)
		memcpy(b->noise + at, b->noise, (size_t)MIN(NOISE_BLOCK, b->noise_count - at) * sizeof *b->noise);
}

static const void *noise_of(void *ctx, const struct param *p, enum dtype *dtype)
{
	struct bench *b = ctx;
	CHECK(p->count <= b->noise_count);
	*dtype = DTYPE_BF16;
	return b->noise;
}

static int model_make(struct bench *b, bool is_invariant, struct err *err)
{
	struct device_options d = {.device = b->o->device,
		.cuda_libs = b->o->cuda_libs,
		.memory = b->o->memory,
		.batch_invariant = is_invariant,
		.new_rank = RANK};
	struct adapter_options ao = {.r = RANK, .lora_alpha = 2 * RANK, .seed = 1};
	int rc = device_open(&d, &b->ops, err);
	if (rc) return rc;
	rc = model_create_from(&b->c, noise_of, b, b->ops, &b->m, err);
	return rc ? rc : adapter_create(b->m, &ao, &b->a, err);
}

static void model_drop(struct bench *b)
{
	adapter_free(b->a);
	model_free(b->m);
	ops_free(b->ops);
	b->a = NULL, b->m = NULL, b->ops = NULL;
}

/* ---- decode ---- */

static int context_of(const struct bench *b) { return b->o->context ? (int)b->o->context : b->shape->context; }

/* Seconds in which the copy's rate moves what a step of so many sequences reads. */
static double decode_floor(const struct bench *b, int batch)
{
	const struct model_config *c = &b->c;
	int64_t embeddings = c->tie_word_embeddings ? 0 : (int64_t)c->vocab_size * c->hidden_size;
	double keys = 2.0 * c->num_hidden_layers * c->num_key_value_heads * c->head_dim * context_of(b) * batch;
	return ((double)(model_config_params(c) - embeddings) + keys) * b->ops->elem_bytes / b->copy;
}

/* Steps of sequences that all have this context; their newest token's place is written again and again. */
static double decode_seconds(struct bench *b, int batch, double *low, double *high)
{
	int context = context_of(b), pages = (context + OPS_PAGE - 1) / OPS_PAGE, repeats = (int)b->o->repeats;
	size_t n = (size_t)batch;
	int32_t *ids = xcalloc(n, 4), *pos = xcalloc(n, 4), *row = xcalloc(n, 4), *drawn = xcalloc(n, 4),
			*table = xcalloc(n * (size_t)pages, 4);
	float *logprob = xcalloc(n, sizeof *logprob);
	struct ops_draw *draw = xcalloc(n, sizeof *draw);
	double *seconds = xcalloc((size_t)repeats, sizeof *seconds);
	struct step_options so = {.rows = batch, .sequences = batch, .pages = pages, .wanted = batch};
	struct kv *kv = kv_create(b->m, batch * pages);
	struct step *step = step_create(b->m, &so);
	struct ops_rows rows = {
		.T = batch, .S = batch, .ids = ids, .pos = pos, .sequence = row, .table = table, .pages = pages};
	struct ops_want want = {.n = batch, .at = row, .draw = draw};
	for (int i = 0; i < batch; i++) {
		ids[i] = i % b->c.vocab_size, pos[i] = context - 1, row[i] = i;
		draw[i] = (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 1, .stream = (uint64_t)i};
		for (int p = 0; p < pages; p++) table[i * pages + p] = p * batch + i;
	}
	/* The first steps load kernels and record the region. */
	for (int k = -4; k < repeats; k++) {
		double begin = now();
		step_run(step, kv, b->a, &rows, &want, drawn, logprob);
		if (k >= 0) seconds[k] = now() - begin;
	}
	double middle = median(seconds, repeats);
	*low = seconds[0], *high = seconds[repeats - 1];
	step_free(step);
	kv_free(kv);
	void *arrays[] = {ids, pos, row, drawn, table, logprob, draw, seconds};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
	return middle;
}

static int batches_of(const struct bench *b, int out[BATCHES_MAX], struct err *err)
{
	int n = 0;
	const char *s = b->o->batches;
	if (!s) {
		memcpy(out, b->shape->batches, sizeof b->shape->batches);
		return 0;
	}
	for (char *end; *s; s = *end ? end + 1 : end) {
		long value = strtol(s, &end, 10);
		if (end == s || (*end && *end != ',') || value < 1 || value > 65536 || n == BATCHES_MAX)
			return err_set(err, ERR_USAGE, "--batches \"%.40s\": expected up to %d numbers of 1 to 65536",
				b->o->batches, BATCHES_MAX);
		out[n++] = (int)value;
	}
	if (n < BATCHES_MAX) out[n] = 0;
	return 0;
}

static int bench_decode(struct bench *b, struct err *err)
{
	int batches[BATCHES_MAX] = {0}, rc = batches_of(b, batches, err);
	for (int i = 0; i < BATCHES_MAX && batches[i] && !rc; i++) {
		char key[32], title[80];
		double low, high, seconds = decode_seconds(b, batches[i], &low, &high);
		snprintf(key, sizeof key, "decode_%d", batches[i]);
		snprintf(title, sizeof title, "decode, batch %d, context %d", batches[i], context_of(b));
		struct figure *f = figure_add(b, key, title, batches[i] / seconds, "tok/s", 1,
			batches[i] / decode_floor(b, batches[i]), "of what copying allows");
		f->low = low, f->high = high;
	}
	return rc;
}

/* ---- packed passes ---- */

struct packed_tokens {
	int T, S, n;
	int32_t *ids, *pos, *start;
	struct head_row *rows; /* (n) */
	struct batch batch;
};

/* Sequences of SEQUENCE tokens, the last one with the rest; three of four tokens are completions. */
static struct packed_tokens packed_make(const struct bench *b, int T)
{
	int length = MIN(SEQUENCE, T);
	struct packed_tokens p = {.T = T, .S = (T + length - 1) / length};
	p.ids = xcalloc((size_t)T, 4);
	p.pos = xcalloc((size_t)T, 4);
	p.start = xcalloc((size_t)p.S + 1, 4);
	p.rows = xcalloc((size_t)T, sizeof *p.rows);
	for (int t = 0; t < T; t++) {
		p.ids[t] = (int32_t)(rng_u32(2, 0, (uint64_t)t) % (uint32_t)b->c.vocab_size);
		p.pos[t] = t % length;
		if (t % 4 != 3 && t % length < length - 1 && t < T - 1)
			p.rows[p.n++] = (struct head_row){
				.at = t, .target = (int32_t)(rng_u32(2, 0, (uint64_t)t + 1) % (uint32_t)b->c.vocab_size)};
	}
	for (int s = 0; s <= p.S; s++) p.start[s] = MIN(s * length, T);
	p.batch = (struct batch){p.ids, {p.T, p.S, p.start, p.pos, NULL}};
	return p;
}

static void packed_release(struct packed_tokens *p)
{
	free(p->ids);
	free(p->pos);
	free(p->start);
	free(p->rows);
}

/* FLOP of a forward pass's blocks: products with the weights, and attention's two over the keys that each row sees. */
static double forward_flops(const struct bench *b, const struct packed_tokens *p)
{
	const struct model_config *c = &b->c;
	double C = c->hidden_size, Q = (double)c->num_attention_heads * c->head_dim,
		   KV = (double)c->num_key_value_heads * c->head_dim, keys = 0;
	for (int t = 0; t < p->T; t++) keys += p->pos[t] + 1;
	return c->num_hidden_layers * (2.0 * p->T * (C * (2 * Q + 2 * KV) + 3 * C * c->intermediate_size) + 4 * Q * keys);
}

static void gradient_of_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	for (int i = 0; i < n; i++) g[i] = (i % 2 ? 1e-4f : -1e-4f) * logprob[i] / *(const float *)ctx;
}

static int bench_prefill(struct bench *b, struct err *err)
{
	struct packed_tokens t = packed_make(b, (int)b->o->prefill);
	struct pass_options po = {.max_tokens = t.T, .head_rows = 1};
	struct pass *p = NULL;
	int n = (int)MAX(b->o->repeats / 4, 1), rc = pass_create(b->m, &po, &p, err);
	double *seconds = xcalloc((size_t)n, sizeof *seconds);
	/* The first pass only warms up; the last row's log-probability is what the host waits for. */
	for (int k = -1; k < n && !rc; k++) {
		float logprob;
		double begin = now();
		pass_forward(p, b->a, &t.batch, 0);
		pass_logprobs(p, t.rows, 1, 1, &logprob, NULL); /* waits */
		if (k >= 0) seconds[k] = now() - begin;
	}
	if (!rc) {
		char title[80];
		double middle = median(seconds, n), flops = forward_flops(b, &t);
		snprintf(title, sizeof title, "prefill, %d packed tokens", t.T);
		struct figure *f = figure_add(
			b, "prefill", title, flops / middle, "TFLOP/s", 1e-12, b->product, "of the product's rate");
		f->low = seconds[0], f->high = seconds[n - 1];
	}
	free(seconds);
	pass_free(p);
	packed_release(&t);
	return rc;
}

/* ---- training ---- */

struct trainer {
	struct pass *pass;
	struct optimizer *optimizer;
	struct packed_tokens t;
	float *logprob, count;
};

static int trainer_open(struct bench *b, struct trainer *r, struct err *err)
{
	int n;
	*r = (struct trainer){.t = packed_make(b, (int)b->o->tokens)};
	struct pass_options po = {.max_tokens = r->t.T, .head_rows = MIN(r->t.T, HEAD_ROWS), .backward = true};
	struct optimizer_options oo = {.learning_rate = 1e-6,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.max_grad_norm = 1,
		.lr_scheduler_type = "constant"};
	r->count = (float)r->t.n;
	r->logprob = xcalloc((size_t)MAX(r->t.n, 1), sizeof *r->logprob);
	model_enable_grad(b->m, b->a);
	struct param *params = adapter_params(b->a, &n);
	/* As a run does: what does not fit whole keeps less for the backward pass. */
	po.recompute = pass_bytes(b->ops, &b->c, &po) > model_memory(b->m);
	r->optimizer = optimizer_create(b->ops, params, n, &oo);
	return pass_create(b->m, &po, &r->pass, err);
}

static void trainer_close(struct trainer *r)
{
	pass_free(r->pass);
	optimizer_free(r->optimizer);
	packed_release(&r->t);
	free(r->logprob);
}

static double train_step(struct bench *b, struct trainer *r, bool has_reference)
{
	double begin = now();
	if (has_reference) {
		pass_forward(r->pass, NULL, &r->t.batch, 0);
		pass_logprobs(r->pass, r->t.rows, r->t.n, 1, r->logprob, NULL);
	}
	pass_forward(r->pass, b->a, &r->t.batch, 0);
	pass_backward(r->pass, r->t.rows, r->t.n, 1, gradient_of_loss, &r->count);
	optimizer_step(r->optimizer);
	wait(b, adapter_params(b->a, &(int){0})->w.master);
	return now() - begin;
}

static void bench_train(struct bench *b, struct trainer *r, bool has_reference)
{
	int n = (int)MAX(b->o->repeats / 4, 1);
	double *seconds = xcalloc((size_t)n, sizeof *seconds);
	char title[80];
	for (int k = -1; k < n; k++) {
		double s = train_step(b, r, has_reference);
		if (k >= 0) seconds[k] = s;
	}
	/* Of the arithmetic: a forward pass each, two products in backward where the weights are frozen one, and the head.
	 */
	double head = 2.0 * r->t.n * (double)b->c.hidden_size * b->c.vocab_size, passes = has_reference ? 3 : 2,
		   flops = passes * (forward_flops(b, &r->t) + head), middle = median(seconds, n);
	snprintf(title, sizeof title, "GRPO step, %d packed tokens%s", r->t.T, has_reference ? ", reference" : ", beta 0");
	struct figure *f = figure_add(b, has_reference ? "train_reference" : "train", title, r->t.T / middle, "tok/s", 1,
		r->t.T / (flops / b->product), "of the product's rate");
	f->low = seconds[0], f->high = seconds[n - 1];
	free(seconds);
}

/* 8 prompts x 8 answers, then as many training steps' passes as their tokens fill, and the optimiser's. */
static int bench_rollout(struct bench *b, struct trainer *r, struct err *err)
{
	enum { PROMPTS = 8, ANSWERS = 8, PROMPT = 256 };
	int answer = (int)b->o->answer, active, total = PROMPTS * ANSWERS * (PROMPT + answer);
	struct engine_options eo = {.max_sequences = PROMPTS * ANSWERS, .max_context = PROMPT + answer};
	struct engine *e;
	int32_t prompt[PROMPT];
	int rc = engine_create(b->m, &eo, &e, err);
	if (rc) return rc;
	/* All prompts are there from the start; generating ends when the last answer has its tokens. */
	double begin = now();
	for (int i = 0; i < PROMPTS && !rc; i++) {
		for (int t = 0; t < PROMPT; t++)
			prompt[t] = (int32_t)(rng_u32(3, (uint64_t)i, (uint64_t)t) % (uint32_t)b->c.vocab_size);
		struct request q = {.id = i,
			.prompt = prompt,
			.nprompt = PROMPT,
			.num_samples = ANSWERS,
			.sampling = {.temperature = 1, .top_p = 1, .seed = (uint64_t)i},
			.max_new_tokens = answer,
			.adapter = b->a};
		rc = engine_submit(e, &q, err);
	}
	do engine_step(e, &active);
	while (active && !rc);
	double generated = now();
	for (struct completion c; engine_take(e, &c);) completion_release(&c);
	engine_free(e);
	/* The update: packed passes over as many tokens, one step of the optimiser, and a look at what it wrote. */
	double passes = now();
	for (int done = 0; done < total && !rc; done += r->t.T) {
		pass_forward(r->pass, b->a, &r->t.batch, 0);
		pass_backward(r->pass, r->t.rows, r->t.n, 1, gradient_of_loss, &r->count);
	}
	optimizer_step(r->optimizer);
	wait(b, adapter_params(b->a, &(int){0})->w.master);
	if (!rc) {
		char title[80];
		double update = now() - passes;
		snprintf(title, sizeof title, "64 x %d tokens %.1f s, one update %.1f s", answer, generated - begin, update);
		figure_add(b, "rollout", title, generated - begin + update, "s", 1, 0, "");
	}
	return rc;
}

/* ---- what is printed ---- */

static bool is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *s = list; *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ','))
		if (strcspn(s, ",") == len && !memcmp(s, name, len)) return true;
	return false;
}

static double share_of(const struct figure *f) { return f->ceiling > 0 ? f->value / f->ceiling : 0; }

static void print(const struct bench *b)
{
	printf("%s: %.3f billion parameters in %d layers, adapter of rank %d; copy %.2f TB/s, product %.0f TFLOP/s\n",
		b->shape->name, (double)model_config_params(&b->c) * 1e-9, b->c.num_hidden_layers, RANK, b->copy * 1e-12,
		b->product * 1e-12);
	for (int i = 0; i < b->count; i++) {
		const struct figure *f = &b->figures[i];
		const struct bar *bar = f->bar;
		printf("  %-40s %10.1f %-7s", f->title, f->value * f->scale, f->unit);
		if (f->ceiling > 0) printf(" %5.1f %% %s", 100 * share_of(f), f->ceiling_is);
		if (f->high > 0) printf(" (%.2f to %.2f ms)", 1e3 * f->low, 1e3 * f->high);
		if (bar && bar->of == BAR_SHARE) printf("; must %.0f %%, goal %.0f %%", 100 * bar->must, 100 * bar->goal);
		else if (bar) printf("; must %g, goal %g", bar->must * f->scale, bar->goal * f->scale);
		printf("\n");
	}
}

static json_t *shape_json(const struct bench *b)
{
	json_t *j = json_pack("{s:s, s:i, s:f, s:f}", "shape", b->shape->name, "layers", b->c.num_hidden_layers,
			   "copy_bytes_per_s", b->copy, "product_flop_per_s", b->product),
		   *rows = json_object();
	for (int i = 0; i < b->count; i++) {
		const struct figure *f = &b->figures[i];
		json_t *row = json_pack("{s:f, s:s}", "value", f->value * f->scale, "unit", f->unit);
		if (f->ceiling > 0)
			json_object_update_new(
				row, json_pack("{s:f, s:f}", "ceiling", f->ceiling * f->scale, "share", share_of(f)));
		if (f->high > 0)
			json_object_update_new(row, json_pack("{s:f, s:f}", "low_ms", 1e3 * f->low, "high_ms", 1e3 * f->high));
		if (f->bar) {
			double by = f->bar->of == BAR_SHARE ? 1 : f->scale;
			json_object_update_new(row,
				json_pack("{s:s, s:f, s:f}", "bar_of", f->bar->of == BAR_SHARE ? "share" : "value", "must",
					f->bar->must * by, "goal", f->bar->goal * by));
		}
		json_object_set_new(rows, f->key, row);
	}
	json_object_set_new(j, "figures", rows);
	return j;
}

/* ---- one shape ---- */

/* The same steps by a backend in which a row's bits are its own, beside those of the fast one. */
static int bench_invariant(struct bench *b, struct err *err)
{
	enum { BATCH = 64 };
	double fast = 0, low, high;
	for (int i = 0; i < b->count; i++)
		if (!strcmp(b->figures[i].key, "decode_64")) fast = b->figures[i].value;
	if (!fast) fast = BATCH / decode_seconds(b, BATCH, &low, &high);
	model_drop(b);
	int rc = model_make(b, true, err);
	if (rc) return rc;
	double seconds = decode_seconds(b, BATCH, &low, &high);
	struct figure *f = figure_add(
		b, "invariant_64", "decode, batch 64, batch_invariant", BATCH / seconds, "tok/s", 1, fast, "of fast mode");
	f->low = low, f->high = high;
	return 0;
}

static bool is_wanted(const struct bench *b, const char *part)
{
	return is_listed(b->o->parts ? b->o->parts : b->shape->parts, part);
}

static int bench_training(struct bench *b, struct err *err)
{
	struct trainer r;
	int rc = trainer_open(b, &r, err);
	if (!rc && is_wanted(b, "train")) {
		bench_train(b, &r, true);
		bench_train(b, &r, false);
	}
	if (!rc && is_wanted(b, "rollout")) rc = bench_rollout(b, &r, err);
	trainer_close(&r);
	return rc;
}

static int bench_shape(const struct gpu_options *o, const struct shape *s, json_t *all, struct err *err)
{
	struct bench b = {.o = o, .shape = s, .c = config_of(s, o)};
	bool trains = is_wanted(&b, "train") || is_wanted(&b, "rollout");
	noise_make(&b);
	int rc = model_make(&b, false, err);
	if (!rc) {
		b.copy = copy_rate(&b);
		b.product = product_rate(&b);
	}
	if (!rc && is_wanted(&b, "decode")) rc = bench_decode(&b, err);
	if (!rc && is_wanted(&b, "prefill")) rc = bench_prefill(&b, err);
	if (!rc && trains) rc = bench_training(&b, err);
	if (!rc && is_wanted(&b, "invariant")) rc = bench_invariant(&b, err);
	if (!rc && !o->json) print(&b);
	if (!rc) json_array_append_new(all, shape_json(&b));
	fflush(stdout);
	model_drop(&b);
	free(b.noise);
	return rc;
}

/* Every name of a comma list is one of those known. */
static int list_check(const char *option, const char *list, const char *known, struct err *err)
{
	char name[32];
	for (const char *s = list; *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ',')) {
		snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(s, ","), 31), s);
		if (!is_listed(known, name))
			return err_set(err, ERR_USAGE, "--%s \"%s\": expected a comma list of %s", option, name, known);
	}
	return 0;
}

int bench_gpu(int argc, char **argv)
{
	struct gpu_options o = {
		.device = "cuda", .shapes = "8b,135m,demo", .tokens = 16384, .prefill = 8192, .answer = 1024, .repeats = 20};
	struct err err = {0};
	int npos,
		rc = options_parse("bench gpu",
			"generate and train with random models of true shapes on a GPU, each figure beside the ceiling that the "
			"device "
			"shows in the same run and the bar that it is held to",
			defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc) return rc > 0 ? 0 : cli_fail("bench", &err);
	if (npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = list_check("shapes", o.shapes, "8b,135m,demo", &err);
	if (!rc && o.parts) rc = list_check("parts", o.parts, PARTS, &err);
	json_t *all = json_array();
	for (size_t i = 0; i < ARRAY_LEN(shapes) && !rc; i++)
		if (is_listed(o.shapes, shapes[i].name)) rc = bench_shape(&o, &shapes[i], all, &err);
	if (!rc && o.json) {
		json_dumpf(all, stdout, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
		putchar('\n');
	}
	json_decref(all);
	return rc ? cli_fail("bench", &err) : 0;
}
