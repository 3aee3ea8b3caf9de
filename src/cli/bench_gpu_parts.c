/* What `hone bench gpu` measures: the ceilings of the device, then each part by the calls that
 * generation and training make. */
#include "base/base.h"
#include "base/dtype.h"
#include "cli/bench_gpu.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"
#include "train/train.h"
#include "verify/measure.h"

#include <math.h>
#include <stdlib.h>

#define SEQUENCE 1024     /* tokens of a packed sequence */
#define HEAD_ROWS 2048    /* of logits held at once in training */
#define NOISE_BLOCK (1 << 22)

/* Seconds of a repeat: the median; the ends go into the figure's row. */
static double median(double *seconds, int n) { return measure_median(seconds, n).value; }

static double now(void) { return 1e-9 * (double)clock_ns(); }

static void wait(struct gpu_bench *b, const struct f32 *of)
{
	float x;
	b->ops->get_f32(b->ops->ctx, &x, of, 1);
}

/* ---- ceilings ---- */

static double copy_rate(struct gpu_bench *b)
{
	/* One half of the block into the other as a single page, which is the device's own copy: pages
	 * that blocks of ours copy move 4 % less, and a ceiling that is low makes shares of it high.
	 * Several copies between two waits, since the wait would be 3 % of one alone. */
	enum { REPEATS = 5, COPIES = 8 };
	struct ops *o = b->ops;
	size_t bytes = gpu_copy_bytes(b);
	int64_t half = (int64_t)(bytes / 2 / (size_t)o->elem_bytes);
	struct elem *block = o->alloc(o->ctx, bytes);
	double best = 0;
	for (int k = 0; k < REPEATS; k++) {
		wait(b, (struct f32 *)(void *)block);
		double begin = now();
		for (int copy = 0; copy < COPIES; copy++)
			o->pages_copy(o->ctx, block, 1, 0, half, &(int32_t){1}, &(int32_t){0}, 1);
		wait(b, (struct f32 *)(void *)block);
		best = fmax(best, (double)COPIES * (double)bytes / (now() - begin));
	}
	o->release(o->ctx, block);
	return best;
}

/* A large product again and again: half a second to get warm, one that counts. */
static void product_rates(struct gpu_bench *b)
{
	enum { CALLS = 16 }; /* between two waits: 50 ms of an H200, which a cool card runs at its highest clocks */
	struct ops *o = b->ops;
	int side = gpu_product_side(o), T = 2 * side;
	int64_t ld = side + o->tail;
	double work = 2.0 * T * side * side * CALLS;
	struct ops_linear l = {.in = side, .out = side, .parts = 1};
	size_t bytes = gpu_product_bytes(o);
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
		int turns = 0;
		double begin = now(), last = begin, seconds = round ? 1.0 : 0.5;
		do {
			double from = last;
			for (int i = 0; i < CALLS; i++) o->linear(o->ctx, y, x, &l, NULL, NULL, T);
			wait(b, (struct f32 *)(void *)y);
			last = now();
			b->product_peak = fmax(b->product_peak, work / (last - from));
			turns++;
		} while (last - begin < seconds);
		b->product = work * turns / (last - begin);
	}
	o->release(o->ctx, x);
	o->release(o->ctx, w);
	o->release(o->ctx, y);
}

/* ---- the model ---- */

static void noise_make(struct gpu_bench *b)
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
	struct gpu_bench *b = ctx;
	CHECK(p->count <= b->noise_count);
	*dtype = DTYPE_BF16;
	return b->noise;
}

static int model_make(struct gpu_bench *b, bool is_invariant, struct err *err)
{
	char *device = ranks_device(b->ranks, b->o->device);
	struct device_options d = {.device = device,
		.cuda_libs = b->o->cuda_libs,
		.memory = b->o->memory,
		.card = b->o->cuda_card,
		.batch_invariant = is_invariant,
		.new_rank = GPU_RANK};
	struct adapter_options ao = {.r = GPU_RANK, .lora_alpha = 2 * GPU_RANK, .seed = 1};
	int rc = device_open(&d, &b->ops, err);
	free(device);
	if (!rc) rc = ranks_join(b->ranks, b->ops, err);
	if (rc) return rc;
	rc = model_create_from(&b->c, noise_of, b, b->ops, &b->m, err);
	return rc ? rc : adapter_create(b->m, &ao, &b->a, err);
}

static void model_drop(struct gpu_bench *b)
{
	adapter_free(b->a);
	model_free(b->m);
	ops_free(b->ops);
	b->a = NULL, b->m = NULL, b->ops = NULL;
}

/* ---- decode ---- */

/* Least seconds of a step of so many sequences. Products and attention wait for each other in every
 * layer, so their times add up: the products need the weights to be read, or multiplied by so many
 * rows, whichever takes longer (on an H200 the latter from 170 to 200 rows on); attention needs
 * keys and values to be read. */
static double decode_floor(const struct gpu_bench *b, int batch)
{
	const struct model_config *c = &b->c;
	int64_t embeddings = c->tie_word_embeddings ? 0 : (int64_t)c->vocab_size * c->hidden_size;
	double weights = (double)(model_config_params(c) - embeddings);
	double keys = 2.0 * c->num_hidden_layers * c->num_key_value_heads * c->head_dim * gpu_context(b) * batch;
	return fmax(weights * b->ops->elem_bytes / b->copy, 2 * weights * batch / b->product_peak) +
		keys * b->ops->elem_bytes / b->copy;
}

/* Whether the device has what such steps take, beside the weights that stand there. */
static int decode_check(const struct gpu_bench *b, int batch, struct err *err)
{
	struct step_options so = gpu_decode_step(b, batch);
	int64_t pages = (int64_t)batch * so.pages;
	bool is_counted = pages <= KV_PAGES_MAX;
	struct device_plan d = {.step = so, .kv_pages = is_counted ? (int)pages : 0};
	double mib = 1.0 / (1 << 20), kv = mib * (double)pages * (double)kv_bytes(b->ops, &b->c, 1),
		   step = mib * (double)(step_bytes(b->ops, &b->c, &so) + plan_device_bytes(b->ops, &b->c, &d)),
		   has = mib * (double)model_memory(b->m);
	if (is_counted && kv + step <= has) return 0;
	return err_set(err, ERR_LIMIT,
		"decode, batch %d, context %d: %.0f MiB of keys and values + %.0f MiB of a step = %.0f MiB, but %.0f MiB are "
		"free beside the weights; fewer in --batches, or a shorter --context",
		batch, gpu_context(b), kv, step, kv + step, has);
}

/* Steps of sequences that all have this context, as many in one go as the engine makes; their
 * newest tokens' places are written again and again. */
static double decode_seconds(struct gpu_bench *b, int batch, double *low, double *high)
{
	struct step_options so = gpu_decode_step(b, batch);
	int context = gpu_context(b), repeats = (int)b->o->repeats, k = so.steps, pages = so.pages;
	size_t n = (size_t)batch;
	int32_t *ids = xcalloc(n, 4), *pos = xcalloc(n, 4), *row = xcalloc(n, 4), *drawn = xcalloc(n * (size_t)k, 4),
			*left = xcalloc(n, 4), *table = xcalloc(n * (size_t)pages, 4);
	float *logprob = xcalloc(n * (size_t)k, sizeof *logprob);
	struct ops_draw *draw = xcalloc(n, sizeof *draw);
	double *seconds = xcalloc((size_t)repeats, sizeof *seconds);
	struct kv *kv = kv_create(b->m, batch * pages);
	struct step *step = step_create(b->m, &so);
	struct ops_rows rows = {
		.T = batch, .S = batch, .ids = ids, .pos = pos, .sequence = row, .table = table, .pages = pages};
	struct ops_want want = {.n = batch, .at = row, .draw = draw, .left = k > 1 ? left : NULL};
	for (int i = 0; i < batch; i++) {
		left[i] = INT32_MAX;
		ids[i] = i % b->c.vocab_size, pos[i] = context - 1, row[i] = i;
		draw[i] = (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 1, .stream = (uint64_t)i};
		for (int p = 0; p < pages; p++) table[i * pages + p] = p * batch + i;
	}
	/* The first steps load kernels and record the region. */
	for (int i = -4; i < repeats; i++) {
		double begin = now();
		if (k > 1) step_run_many(step, kv, b->a, &rows, &want, k, drawn, logprob);
		else step_run(step, kv, b->a, &rows, &want, drawn, logprob);
		if (i >= 0) seconds[i] = (now() - begin) / k;
	}
	double middle = median(seconds, repeats);
	*low = seconds[0], *high = seconds[repeats - 1];
	step_free(step);
	kv_free(kv);
	void *arrays[] = {ids, pos, row, drawn, left, table, logprob, draw, seconds};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
	return middle;
}

static int batches_of(const struct gpu_bench *b, int out[GPU_BATCHES_MAX], struct err *err)
{
	int n = 0;
	const char *s = b->o->batches;
	if (!s) {
		memcpy(out, b->shape->batches, sizeof b->shape->batches);
		return 0;
	}
	if (!*s) return err_set(err, ERR_USAGE, "--batches is empty: expected up to %d numbers", GPU_BATCHES_MAX);
	for (char *end; *s; s = *end ? end + 1 : end) {
		long value = strtol(s, &end, 10);
		if (end == s || (*end && *end != ',') || value < 1 || value > 65536 || n == GPU_BATCHES_MAX)
			return err_set(err, ERR_USAGE, "--batches \"%.40s\": expected up to %d numbers of 1 to 65536",
				b->o->batches, GPU_BATCHES_MAX);
		out[n++] = (int)value;
	}
	if (n < GPU_BATCHES_MAX) out[n] = 0;
	return 0;
}

/* What was asked for by name is refused where the device has no room for it; what a shape brings by
 * itself is left out and told, so that a smaller card shows what it can. */
static int left_out(struct gpu_bench *b, const char *named, int rc, struct err *err)
{
	if (rc != ERR_LIMIT || named || !b->m) return rc; /* without a model nothing that follows could go on */
	gpu_skip(b, "%s", err->text);
	*err = (struct err){0};
	return 0;
}

static int bench_decode(struct gpu_bench *b, struct err *err)
{
	int batches[GPU_BATCHES_MAX] = {0}, rc = batches_of(b, batches, err);
	bool fits[GPU_BATCHES_MAX] = {false};
	/* All are looked at before the first one is measured, which may take its time. */
	for (int i = 0; i < GPU_BATCHES_MAX && batches[i] && !rc; i++) {
		rc = decode_check(b, batches[i], err);
		fits[i] = !rc;
		rc = left_out(b, b->o->batches, rc, err);
	}
	for (int i = 0; i < GPU_BATCHES_MAX && batches[i] && !rc; i++) {
		char key[32], title[80];
		if (!fits[i]) continue;
		double low, high, seconds = decode_seconds(b, batches[i], &low, &high);
		snprintf(key, sizeof key, "decode_%d", batches[i]);
		snprintf(title, sizeof title, "decode, batch %d, context %d", batches[i], gpu_context(b));
		struct figure *f = gpu_figure_add(
			b, key, title, batches[i] / seconds, "tok/s", 1, batches[i] / decode_floor(b, batches[i]), "of its floor");
		f->low = low, f->high = high;
	}
	return rc;
}

/* ---- packed passes ---- */

struct packed_tokens {
	int T;                 /* tokens */
	int S;                 /* sequences */
	int n;                 /* rows whose log-probability is asked for */
	int32_t *ids;          /* (T) */
	int32_t *pos;          /* (T) within its sequence */
	int32_t *start;        /* (S + 1) first token of each sequence, and T */
	struct head_row *rows; /* (n) */
	struct batch batch;
};

/* Sequences of SEQUENCE tokens, the last one with the rest; three of four
 * tokens are completions. */
static struct packed_tokens packed_make(const struct gpu_bench *b, int T)
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

/* FLOP of a forward pass's blocks: products with the weights, and attention's two over the
 * keys that each row sees. */
static double forward_flops(const struct gpu_bench *b, const struct packed_tokens *p)
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

static int bench_prefill(struct gpu_bench *b, struct err *err)
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
		struct figure *f = gpu_figure_add(
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
	float *logprob; /* (t.n) of the last pass */
	float count;    /* t.n, by which the loss is divided */
};

static int trainer_open(struct gpu_bench *b, struct trainer *r, struct err *err)
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
	r->optimizer = optimizer_create(b->ops, params, n, &oo);
	po.recompute = gpu_recomputes(b, &po);
	return pass_create(b->m, &po, &r->pass, err);
}

static void trainer_close(struct trainer *r)
{
	pass_free(r->pass);
	optimizer_free(r->optimizer);
	packed_release(&r->t);
	free(r->logprob);
}

static double train_step(struct gpu_bench *b, struct trainer *r, bool has_reference)
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

static void bench_train(struct gpu_bench *b, struct trainer *r, bool has_reference)
{
	int n = (int)MAX(b->o->repeats / 4, 1);
	double *seconds = xcalloc((size_t)n, sizeof *seconds);
	char title[80];
	for (int k = -1; k < n; k++) {
		double s = train_step(b, r, has_reference);
		if (k >= 0) seconds[k] = s;
	}
	/* Of the arithmetic: a forward pass each, two products in backward where the weights are
	 * frozen one, and the head.
	 */
	double head = 2.0 * r->t.n * (double)b->c.hidden_size * b->c.vocab_size, passes = has_reference ? 3 : 2,
		   flops = passes * (forward_flops(b, &r->t) + head), middle = median(seconds, n);
	snprintf(title, sizeof title, "GRPO step, %d packed tokens%s", r->t.T, has_reference ? ", reference" : ", beta 0");
	struct figure *f = gpu_figure_add(b, has_reference ? "train_reference" : "train", title, r->t.T / middle, "tok/s",
		1, r->t.T / (flops / b->product), "of the product's rate");
	f->low = seconds[0], f->high = seconds[n - 1];
	free(seconds);
}

/* All prompts are there from the start; ends when the last answer has its tokens. */
static int rollout_generate(struct gpu_bench *b, struct engine *e, int answer, struct err *err)
{
	int32_t prompt[GPU_PROMPT];
	int active, rc = 0;
	for (int i = 0; i < GPU_PROMPTS && !rc; i++) {
		for (int t = 0; t < GPU_PROMPT; t++)
			prompt[t] = (int32_t)(rng_u32(3, (uint64_t)i, (uint64_t)t) % (uint32_t)b->c.vocab_size);
		struct request q = {.id = i,
			.prompt = prompt,
			.nprompt = GPU_PROMPT,
			.num_samples = GPU_ANSWERS,
			.sampling = {.temperature = 1, .top_p = 1, .seed = (uint64_t)i},
			.max_new_tokens = answer,
			.adapter = b->a};
		rc = engine_submit(e, &q, err);
	}
	do engine_step(e, &active);
	while (active && !rc);
	for (struct completion c; engine_take(e, &c);) completion_release(&c);
	return rc;
}

/* Packed passes over so many tokens, the sum over ranks, one step of the optimiser, and a
 * look at what it wrote. */
static int rollout_update(struct gpu_bench *b, struct trainer *r, int tokens, struct err *err)
{
	for (int done = 0; done < tokens; done += r->t.T) {
		pass_forward(r->pass, b->a, &r->t.batch, 0);
		pass_backward(r->pass, r->t.rows, r->t.n, 1, gradient_of_loss, &r->count);
	}
	int rc = optimizer_gather(r->optimizer, b->ranks, err);
	if (rc) return rc;
	optimizer_step(r->optimizer);
	wait(b, adapter_params(b->a, &(int){0})->w.master);
	return 0;
}

/* 8 prompts x 8 answers, then as many training steps' passes as their tokens fill, and the
 * optimiser's; of several ranks each, and the slowest counts. */
static int bench_rollout(struct gpu_bench *b, struct trainer *r, struct err *err)
{
	int answer = (int)b->o->answer, total = GPU_PROMPTS * GPU_ANSWERS * (GPU_PROMPT + answer);
	struct engine_options eo = gpu_rollout_engine(b);
	struct engine *e;
	char title[80];
	int rc = engine_create(b->m, &eo, &e, err);
	if (rc) return rc;
	/* A short one first: kernels load, regions are recorded. */
	rc = rollout_generate(b, e, MIN(answer, 8), err);
	if (!rc) rc = rollout_update(b, r, 1, err);
	if (!rc) rc = ranks_meet(b->ranks, err);
	double begin = now(), generated = begin;
	if (!rc) rc = rollout_generate(b, e, answer, err);
	generated = now();
	if (!rc) rc = rollout_update(b, r, total, err);
	if (!rc) rc = ranks_meet(b->ranks, err);
	double end = now();
	engine_free(e);
	if (rc) return rc;
	snprintf(
		title, sizeof title, "64 x %d tokens %.1f s, one update %.1f s", answer, generated - begin, end - generated);
	gpu_figure_add(b, "rollout", title, end - begin, "s", 1, 0, "");
	return 0;
}

/* ---- the parts of one shape ---- */

/* The same steps by a backend in which a row's bits are its own, beside those of the fast one. */
static int bench_invariant(struct gpu_bench *b, struct err *err)
{
	enum { BATCH = 64 };
	double fast = 0, low, high;
	for (int i = 0; i < b->count; i++)
		if (!strcmp(b->figures[i].key, "decode_64")) fast = b->figures[i].value;
	int rc = decode_check(b, BATCH, err);
	if (rc) return rc;
	if (!fast) fast = BATCH / decode_seconds(b, BATCH, &low, &high);
	model_drop(b);
	rc = model_make(b, true, err);
	if (!rc) rc = decode_check(b, BATCH, err);
	if (rc) return rc;
	double seconds = decode_seconds(b, BATCH, &low, &high);
	struct figure *f = gpu_figure_add(
		b, "invariant_64", "decode, batch 64, batch_invariant", BATCH / seconds, "tok/s", 1, fast, "of fast mode");
	f->low = low, f->high = high;
	return 0;
}

static int bench_training(struct gpu_bench *b, struct err *err)
{
	struct trainer r;
	int rc = trainer_open(b, &r, err);
	if (!rc && gpu_is_wanted(b, "train")) {
		bench_train(b, &r, true);
		bench_train(b, &r, false);
	}
	if (!rc && gpu_is_wanted(b, "rollout")) rc = bench_rollout(b, &r, err);
	trainer_close(&r);
	return rc;
}

int gpu_parts_run(struct gpu_bench *b, struct err *err)
{
	bool trains = gpu_is_wanted(b, "train") || gpu_is_wanted(b, "rollout");
	if (b->o->parts && !strcmp(b->o->parts, "ranks"))
		return gpu_ranks_run(b, err); /* its processes have models of their own */
	noise_make(b);
	int rc = model_make(b, false, err);
	if (!rc) rc = gpu_ceilings_check(b, err);
	if (!rc) {
		b->copy = copy_rate(b);
		product_rates(b);
	}
	/* Each part's rows are told when it ends. */
	if (!rc && gpu_is_wanted(b, "decode")) rc = bench_decode(b, err);
	if (!rc) gpu_tell(b);
	if (!rc && gpu_is_wanted(b, "prefill")) rc = left_out(b, b->o->parts, bench_prefill(b, err), err);
	if (!rc) gpu_tell(b);
	if (!rc && trains) rc = left_out(b, b->o->parts, bench_training(b, err), err);
	if (!rc) gpu_tell(b);
	if (!rc && gpu_is_wanted(b, "invariant")) rc = left_out(b, b->o->parts, bench_invariant(b, err), err);
	if (!rc) gpu_tell(b);
	char path[64] = "";
	if (!rc && gpu_is_wanted(b, "load")) rc = gpu_load_prepare(b, path, sizeof path, err);
	model_drop(b);
	free(b->noise);
	if (!rc && *path) rc = gpu_load_run(b, path, err);
	if (!rc) gpu_tell(b);
	if (!rc && gpu_is_wanted(b, "ranks") && !b->ranks) rc = gpu_ranks_run(b, err);
	return rc;
}
