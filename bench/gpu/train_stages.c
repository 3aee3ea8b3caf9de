/* train_stages: time of each stage of a LoRA training step on a GPU, at Qwen3-8B's shape with
 * 16 sequences of 1,024 packed tokens, and the rate of steps that they add up to. Stages run
 * on random data, one layer's buffers standing for all 36: weights and activations of a layer
 * are larger than the caches.
 *
 * usage: train_stages [REPEATS [NAME]]
 * With NAME only the stages whose names contain it run, and no sum is printed. HONE_CUDA_LIBS names
 * the folder with cuBLASLt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops/ops.h"

enum {
	C = 4096,
	I = 12288,
	NH = 32,
	NKV = 8,
	HD = 128,
	Q = NH * HD,
	KV = NKV * HD,
	V = 151936,
	LAYERS = 36,
	S = 16,
	LENGTH = 1024,
	T = S * LENGTH,
	WANTED = 12288, /* rows whose logits are asked for: 3 of 4 tokens are completions */
	CHUNK = 2048,   /* of them at a time */
	R = 16,
	TAIL = 64,
	BLOCK = 1 << 20,
};

struct world {
	struct ops *o;
	struct ops_batch *b;
	float *random; /* (BLOCK) on the host */
	struct ops_linear qkv;
	struct ops_linear o_proj;
	struct ops_linear gu;
	struct ops_linear down;
	struct ops_linear head;
	struct ops_lora lora[4]; /* of qkv, o, gate and up, down */
	struct ops_weight norm;
	struct ops_weight q_norm;
	struct ops_weight k_norm;
	struct ops_heads heads;
	/* Of the forward pass. */
	struct elem *x;
	struct elem *n;
	struct elem *qkv_out;
	struct elem *q;
	struct elem *k;
	struct elem *att;
	struct elem *gu_out;
	struct elem *act;
	struct elem *x_out;
	/* Of the backward pass. */
	struct elem *dx;
	struct elem *dn;
	struct elem *dqkv;
	struct elem *dq;
	struct elem *dk;
	struct elem *datt;
	struct elem *dgu;
	struct elem *dact;
	struct elem *gathered;
	struct elem *dgathered;
	struct f32 *rstd;
	struct f32 *rstd_heads;
	struct f32 *lse;
	struct f32 *logits;
	struct f32 *figures;
	float *g; /* (CHUNK) */
	struct ops_weight *learned[LAYERS * 14];
	int nlearned;
};

/* ---- the world ---- */

static struct elem *random_elems(struct world *w, int64_t n, float scale)
{
	struct ops *o = w->o;
	struct elem *p = o->alloc(o->ctx, (size_t)n * (size_t)o->elem_bytes);
	float *block = xcalloc(BLOCK, sizeof *block);
	for (int i = 0; i < BLOCK; i++) block[i] = w->random[i] * scale;
	for (int64_t at = 0; at < n; at += BLOCK) {
		int count = (int)MIN((int64_t)BLOCK, n - at);
		struct ops_weight part = {.rows = 1, .cols = count, .ld = count, .w = ops_elem_at(o, p, at)};
		o->put(o->ctx, &part, block, DTYPE_F32);
	}
	free(block);
	return p;
}

static struct f32 *f32_of(struct world *w, int64_t n, float value)
{
	struct f32 *p = w->o->alloc(w->o->ctx, (size_t)n * sizeof(float));
	float *block = xcalloc(BLOCK, sizeof *block);
	for (int i = 0; i < BLOCK; i++) block[i] = value;
	for (int64_t at = 0; value != 0 && at < n; at += BLOCK)
		w->o->put_f32(w->o->ctx, (struct f32 *)((uintptr_t)p + (uintptr_t)at * sizeof(float)), block,
			MIN((int64_t)BLOCK, n - at));
	free(block);
	return p;
}

static struct ops_weight adapter_matrix(struct world *w, int rows, int cols)
{
	int64_t n = (int64_t)rows * cols;
	return (struct ops_weight){.rows = rows,
		.cols = cols,
		.ld = cols,
		.w = random_elems(w, n, 0.02f),
		.master = f32_of(w, n, 0.01f),
		.grad = f32_of(w, n, 0),
		.m = f32_of(w, n, 0),
		.v = f32_of(w, n, 0)};
}

static struct ops_linear linear_of(struct world *w, struct ops_lora *lora, int in, int parts, const int *out)
{
	struct ops_linear l = {.in = in, .parts = parts};
	for (int i = 0; i < parts; i++) l.out += out[i];
	struct elem *all = random_elems(w, (int64_t)l.out * (in + TAIL), 0.02f);
	*lora = (struct ops_lora){.r = R, .scaling = 2};
	for (int i = 0, at = 0; i < parts; at += out[i++]) {
		l.w[i] = (struct ops_weight){
			.rows = out[i], .cols = in, .ld = in + TAIL, .w = ops_elem_at(w->o, all, (int64_t)at * (in + TAIL))};
		lora->a[i] = adapter_matrix(w, R, in);
		lora->b[i] = adapter_matrix(w, out[i], R);
	}
	w->o->bind(w->o->ctx, &l, lora);
	return l;
}

/* The matrices of all layers, as the optimiser sees them. */
static void learned_make(struct world *w)
{
	static struct ops_weight all[LAYERS * 14];
	static const int in[] = {C, C, C, Q, C, C, I}, out[] = {Q, KV, KV, C, I, I, C};
	for (int i = 0; i < LAYERS * 7; i++) {
		all[2 * i] = adapter_matrix(w, R, in[i % 7]);
		all[2 * i + 1] = adapter_matrix(w, out[i % 7], R);
	}
	w->nlearned = LAYERS * 14;
	for (int i = 0; i < w->nlearned; i++) w->learned[i] = &all[i];
}

static void batch_make(struct world *w)
{
	int32_t *all = xcalloc(3 * T, sizeof *all), *at = xcalloc(2 * WANTED, sizeof *at);
	for (int t = 0; t < T; t++) all[t] = t * 7 % V, all[T + t] = t % LENGTH, all[2 * T + t] = t / LENGTH;
	for (int i = 0; i < WANTED; i++) at[i] = i / 3 * 4 + i % 3, at[WANTED + i] = i * 11 % V;
	w->b = w->o->batch_create(w->o->ctx, T, S, 0, WANTED, WANTED);
	int rows = w->o->batch_put(
		w->o->ctx, w->b, &(struct ops_rows){.T = T, .S = S, .ids = all, .pos = all + T, .sequence = all + 2 * T});
	int wanted = w->o->batch_want(w->o->ctx, w->b, &(struct ops_want){.n = WANTED, .at = at, .target = at + WANTED});
	CHECK(rows == T && wanted == WANTED);
	free(all);
	free(at);
}

static void world_make(struct world *w)
{
	static const int qkv[] = {Q, KV, KV}, c[] = {C}, gu[] = {I, I}, v[] = {V};
	w->random = xcalloc(BLOCK, sizeof *w->random);
	for (int i = 0; i < BLOCK; i++) w->random[i] = rng_normal(1, 1, (uint64_t)i);
	/* One layer's weights with their adapters, and the head. */
	w->qkv = linear_of(w, &w->lora[0], C, 3, qkv);
	w->o_proj = linear_of(w, &w->lora[1], Q, 1, c);
	w->gu = linear_of(w, &w->lora[2], C, 2, gu);
	w->down = linear_of(w, &w->lora[3], I, 1, c);
	w->head = (struct ops_linear){.in = C, .out = v[0], .parts = 1};
	w->head.w[0] = (struct ops_weight){
		.rows = V, .cols = C, .ld = C + TAIL, .w = random_elems(w, (int64_t)V * (C + TAIL), 0.02f)};
	w->norm = (struct ops_weight){.rows = 1, .cols = C, .ld = C, .w = random_elems(w, C, 1)};
	w->q_norm = w->k_norm = (struct ops_weight){.rows = 1, .cols = HD, .ld = HD, .w = random_elems(w, HD, 1)};
	w->heads = (struct ops_heads){NH, NKV, HD, 1e-6f, &w->q_norm, &w->k_norm, f32_of(w, LENGTH * HD, 0.7f)};
	/* Activations and their gradients, elements a row each. */
	struct {
		struct elem **p;
		int64_t n;
	} all[] = {{&w->x, C}, {&w->n, C + TAIL}, {&w->qkv_out, Q + 2 * KV}, {&w->q, Q}, {&w->k, KV}, {&w->att, Q + TAIL},
		{&w->gu_out, 2 * I}, {&w->act, I + TAIL}, {&w->x_out, C}, {&w->dx, C}, {&w->dn, C + TAIL},
		{&w->dqkv, Q + 2 * KV}, {&w->dq, Q}, {&w->dk, KV}, {&w->datt, Q + TAIL}, {&w->dgu, 2 * I}, {&w->dact, I + TAIL},
		{&w->gathered, C}, {&w->dgathered, C}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) *all[i].p = random_elems(w, all[i].n * T, 1);
	/* What is kept in fp32 for the way back, and the head's. */
	w->rstd = f32_of(w, T, 1), w->rstd_heads = f32_of(w, T * (NH + NKV), 1), w->lse = f32_of(w, T * NH, 6);
	w->logits = f32_of(w, (int64_t)CHUNK * V, 1), w->figures = f32_of(w, CHUNK * OPS_FIGURES, 12);
	w->g = xcalloc(CHUNK, sizeof *w->g);
	for (int i = 0; i < CHUNK; i++) w->g[i] = 1e-3f;
	/* What the optimiser goes over, and the batch of packed sequences. */
	learned_make(w);
	batch_make(w);
}

/* ---- stages ---- */

#define O w->o
#define CTX w->o->ctx
static void f_norm(struct world *w)
{
	O->norm(CTX, w->n, w->rstd, w->x, &w->norm, 1e-6f, T, &(struct ops_next){&w->qkv, &w->lora[0]});
}
static void f_qkv(struct world *w) { O->linear(CTX, w->qkv_out, w->n, &w->qkv, &w->lora[0], NULL, T); }
static void f_heads(struct world *w)
{
	O->heads(CTX, w->q, w->k, w->rstd_heads, w->qkv_out, NULL, NULL, &w->heads, w->b, T);
}
static void f_attend(struct world *w)
{
	O->attend(
		CTX, w->att, w->lse, w->q, w->k, w->qkv_out, &w->heads, w->b, T, &(struct ops_next){&w->o_proj, &w->lora[1]});
}
static void f_attend_alone(struct world *w)
{
	O->attend(CTX, w->att, w->lse, w->q, w->k, w->qkv_out, &w->heads, w->b, T, NULL);
}
static void f_o(struct world *w) { O->linear(CTX, w->x_out, w->att, &w->o_proj, &w->lora[1], w->x, T); }
static void f_gu(struct world *w) { O->linear(CTX, w->gu_out, w->n, &w->gu, &w->lora[2], NULL, T); }
static void f_gate(struct world *w)
{
	O->gate(CTX, w->act, w->gu_out, I, T, &(struct ops_next){&w->down, &w->lora[3]});
}
static void f_down(struct world *w) { O->linear(CTX, w->x_out, w->act, &w->down, &w->lora[3], w->x, T); }

static void b_down(struct world *w)
{
	O->linear_backward(CTX, w->dact, w->x, w->act, &w->down, &w->lora[3], T, OPS_SET);
}
static void b_gate(struct world *w) { O->gate_backward(CTX, w->dgu, w->dact, w->gu_out, I, T); }
static void b_gu(struct world *w) { O->linear_backward(CTX, w->dn, w->dgu, w->n, &w->gu, &w->lora[2], T, OPS_SET); }
static void b_norm(struct world *w) { O->norm_backward(CTX, w->dx, w->dn, w->x, &w->norm, w->rstd, T, OPS_ADD); }
static void b_o(struct world *w)
{
	O->linear_backward(CTX, w->datt, w->x, w->att, &w->o_proj, &w->lora[1], T, OPS_SET);
}
static void b_attend(struct world *w)
{
	O->attend_backward(CTX, w->dq, w->dk, w->dqkv, w->datt, w->att, w->lse, w->q, w->k, w->qkv_out, &w->heads, w->b, T);
}
static void b_heads(struct world *w)
{
	O->heads_backward(CTX, w->dqkv, w->dq, w->dk, w->qkv_out, w->rstd_heads, &w->heads, w->b, T);
}
static void b_qkv(struct world *w) { O->linear_backward(CTX, w->dn, w->dqkv, w->n, &w->qkv, &w->lora[0], T, OPS_SET); }
/* The same products without an adapter: what the thin products cost is the difference. */
static void b_down_base(struct world *w) { O->linear_backward(CTX, w->dact, w->x, w->act, &w->down, NULL, T, OPS_SET); }
static void b_gu_base(struct world *w) { O->linear_backward(CTX, w->dn, w->dgu, w->n, &w->gu, NULL, T, OPS_SET); }

static void h_gather(struct world *w) { O->gather(CTX, w->gathered, w->x, C, 0, w->b, 0, CHUNK); }
static void h_logits(struct world *w) { O->logits(CTX, w->logits, w->gathered, &w->head, CHUNK); }
static void h_logprob(struct world *w) { O->logprob(CTX, w->figures, w->logits, w->b, 0, CHUNK, V); }
static void h_backward(struct world *w)
{
	O->head_backward(CTX, w->dgathered, w->logits, w->figures, w->g, w->gathered, &w->head, w->b, 0, CHUNK, V);
}
static void h_scatter(struct world *w) { O->scatter(CTX, w->dx, w->dgathered, C, 0, w->b, 0, CHUNK); }
static void s_squares(struct world *w) { O->sum_squares(CTX, w->learned, w->nlearned); }
static void s_adamw(struct world *w)
{
	O->adamw(CTX, w->learned, w->nlearned, &(struct ops_adamw){1e-6f, 0.9f, 0.999f, 1e-8f, 0, 1, 1});
}
#undef O
#undef CTX

#define PRODUCT(in, out) (2e0 * T * (double)(in) * (double)(out))
#define ELEMS(n) (2.0 * T * (double)(n))
#define ATTENTION (2e0 * S * LENGTH * (LENGTH + 1) / 2 * Q) /* one product over the visible half */

static const struct stage {
	const char *name;
	void (*run)(struct world *);
	double forward;  /* how often in a step: in either policy's forward pass */
	double policy;   /* in that of the trained one alone */
	double backward; /* in the backward pass */
	double flops;    /* of one call; 0: not said */
	double bytes;    /* likewise */
} stages[] = {
	{"norm + thin", f_norm, 2 * LAYERS, 0, 2 * LAYERS, 0, ELEMS(2 * C)},
	{"linear qkv", f_qkv, LAYERS, 0, 0, PRODUCT(C, Q + 2 * KV), 0},
	{"heads", f_heads, LAYERS, 0, 0, 0, ELEMS(2 * (Q + KV))},
	{"attend + thin", f_attend, LAYERS, 0, 0, 2 * ATTENTION, 0},
	{"  attend alone", f_attend_alone, 0, 0, 0, 2 * ATTENTION, 0},
	{"linear o", f_o, LAYERS, 0, 0, PRODUCT(Q, C), 0},
	{"linear gate, up", f_gu, LAYERS, 0, 0, PRODUCT(C, 2 * I), 0},
	{"gate + thin", f_gate, LAYERS, 0, LAYERS, 0, ELEMS(3 * I)},
	{"linear down", f_down, LAYERS, 0, 0, PRODUCT(I, C), 0},
	{"linear_backward down", b_down, 0, 0, LAYERS, PRODUCT(I, C), 0},
	{"  without adapter", b_down_base, 0, 0, 0, PRODUCT(I, C), 0},
	{"gate_backward", b_gate, 0, 0, LAYERS, 0, ELEMS(5 * I)},
	{"linear_backward gate, up", b_gu, 0, 0, LAYERS, PRODUCT(C, 2 * I), 0},
	{"  without adapter", b_gu_base, 0, 0, 0, PRODUCT(C, 2 * I), 0},
	{"norm_backward", b_norm, 0, 0, 2 * LAYERS, 0, ELEMS(4 * C)},
	{"linear_backward o", b_o, 0, 0, LAYERS, PRODUCT(Q, C), 0},
	{"attend_backward", b_attend, 0, 0, LAYERS, 5 * ATTENTION, 0},
	{"heads_backward", b_heads, 0, 0, LAYERS, 0, ELEMS(3 * (Q + KV))},
	{"linear_backward qkv", b_qkv, 0, 0, LAYERS, PRODUCT(C, Q + 2 * KV), 0},
	{"gather", h_gather, WANTED / CHUNK, 0, 0, 0, 4.0 * CHUNK *C},
	{"logits", h_logits, WANTED / CHUNK, 0, 0, 2e0 * CHUNK *C *V, 0},
	{"logprob", h_logprob, WANTED / CHUNK, 0, 0, 0, 4.0 * CHUNK *V},
	{"head_backward", h_backward, 0, 0, WANTED / CHUNK, 2e0 * CHUNK *C *V, 0},
	{"scatter", h_scatter, 0, 0, WANTED / CHUNK, 0, 6.0 * CHUNK *C},
	{"sum of squares", s_squares, 0, 1, 0, 0, 0},
	{"AdamW", s_adamw, 0, 1, 0, 0, 0},
};

static void wait(struct world *w)
{
	float x;
	w->o->get_f32(w->o->ctx, &x, w->rstd, 1);
}

/* ms of one call: the median of five runs of `repeats` calls. */
static double time_of(struct world *w, const struct stage *s, int repeats)
{
	double ms[5];
	for (int i = 0; i < 2; i++) s->run(w);
	for (int k = 0; k < 5; k++) {
		wait(w);
		uint64_t start = clock_ns();
		for (int i = 0; i < repeats; i++) s->run(w);
		wait(w);
		ms[k] = (double)(clock_ns() - start) * 1e-6 / repeats;
		for (int i = k; i > 0 && ms[i] < ms[i - 1]; i--) {
			double keep = ms[i];
			ms[i] = ms[i - 1], ms[i - 1] = keep;
		}
	}
	return ms[2];
}

int main(int argc, char **argv)
{
	static struct world w;
	struct err err;
	int repeats = argc > 1 ? atoi(argv[1]) : 4;
	/* The backend, and data on it. */
	if (ops_open("cuda", &(struct ops_options){.adapter_columns = TAIL, .cuda_libs = getenv("HONE_CUDA_LIBS")}, &w.o,
			&err)) {
		fprintf(stderr, "train_stages: %s\n", err.text);
		return 1;
	}
	world_make(&w);
	double forward = 0, policy = 0, backward = 0;
	printf("%-26s %9s %9s %9s %9s\n", "stage", "ms", "TFLOP/s", "TB/s", "ms a step");
	/* Each stage by itself, and how often a step has it. */
	for (size_t i = 0; i < ARRAY_LEN(stages); i++) {
		const struct stage *s = &stages[i];
		if (argc > 2 && !strstr(s->name, argv[2])) continue;
		double ms = time_of(&w, s, MAX(repeats, 1)), step = ms * (s->forward + s->policy + s->backward);
		printf("%-26s %9.4f %9.1f %9.2f %9.2f\n", s->name, ms, s->flops / ms * 1e-9, s->bytes / ms * 1e-9, step);
		fflush(stdout);
		forward += ms * s->forward, policy += ms * s->policy, backward += ms * s->backward;
	}
	if (argc > 2) return 0;
	/* The step that they add up to, beside what it should be. */
	double alone = forward + policy + backward, reference = alone + forward;
	printf("\n%d packed tokens in %d sequences, %d wanted rows, %d layers, rank %d\n", T, S, WANTED, LAYERS, R);
	printf("forward %.1f ms, backward %.1f ms, optimiser %.1f ms\n", forward, backward, policy);
	printf("a step, beta 0:          %7.1f ms = %7.0f tokens/s   (must 14000, goal 17500)\n", alone, T / alone * 1e3);
	printf("a step, with reference:  %7.1f ms = %7.0f tokens/s   (must 10000, goal 12500)\n", reference,
		T / reference * 1e3);
	printf("attention beside torch's SDPA at this shape: FA2 253 and 152 TFLOP/s, cuDNN 404 and 269 (forward, "
		   "backward)\n");
	return 0;
}
