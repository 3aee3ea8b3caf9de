/* parity: what a device computes for one training problem, as a safetensors file: for parity.py,
 * which holds it against transformers and peft.
 *
 * usage: parity DEVICE FOLDER OUT
 * FOLDER holds model/, adapter/ and problem.json, as parity.py writes them. HONE_CUDA_LIBS names
 * the folder with cuBLASLt, HONE_CUDA_CARD what the GPU is held to (--cuda_card).
 *
 * OUT: logits (n, V) of the wanted rows; logprob (n) of their targets; loss and norm (steps), the
 * loss -sum(weight * logprob) before each step and the gradient's norm; grad.NAME of each adapter
 * tensor before the first step and step.NAME after the last one. For each objective K of
 * reinforcement learning: objective.K its loss, objective.K.NAME the gradients. */
#include "model/model.h"
#include "model/model_internal.h"
#include "ops/ops.h"
#include "tensor/tensor.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>

struct problem {
	json_t *json;
	int32_t *ids, *pos, *start;
	int T, S, n, steps;
	struct head_row *rows;
	float *weights; /* (n) */
	double loss;    /* of this step so far */
	struct optimizer_options adamw;
	struct head_row *tokens; /* (ntokens) completions, for the objectives */
	struct loss_row *terms;  /* (ntokens) */
	int32_t *sequence;       /* (ntokens) */
	int ntokens;
	struct loss_options options; /* the objective's */
};

static void fail(const struct err *err)
{
	fprintf(stderr, "parity: %s\n", err->text);
	exit(1);
}

static int32_t *ints(const json_t *list, int *n)
{
	*n = (int)json_array_size(list);
	int32_t *v = xcalloc((size_t)MAX(*n, 1), sizeof *v);
	for (int i = 0; i < *n; i++) v[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
	return v;
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static void problem_open(struct problem *p, const char *folder)
{
	struct err err = {0};
	char *path = path_join(folder, "problem.json");
	*p = (struct problem){0};
	if (json_load(path, 1 << 26, &p->json, &err)) fail(&err);
	free(path);
	p->ids = ints(json_object_get(p->json, "ids"), &p->T);
	p->start = ints(json_object_get(p->json, "start"), &p->S);
	p->S--;
	p->pos = xcalloc((size_t)p->T, sizeof *p->pos);
	for (int s = 0; s < p->S; s++)
		for (int t = p->start[s]; t < p->start[s + 1]; t++) p->pos[t] = t - p->start[s];
	/* A row: where, which target, which weight in the loss. */
	const json_t *rows = json_object_get(p->json, "rows"), *adamw = json_object_get(p->json, "adamw");
	p->n = (int)json_array_size(rows);
	p->rows = xcalloc((size_t)p->n, sizeof *p->rows);
	p->weights = xcalloc((size_t)p->n, sizeof *p->weights);
	for (int i = 0; i < p->n; i++) {
		const json_t *row = json_array_get(rows, (size_t)i);
		p->rows[i] = (struct head_row){.at = (int32_t)json_integer_value(json_array_get(row, 0)),
			.target = (int32_t)json_integer_value(json_array_get(row, 1))};
		p->weights[i] = (float)json_number_value(json_array_get(row, 2));
	}
	/* A token: where, which target, of which sequence, its log-probabilities of old
	 * and of the reference. */
	const json_t *tokens = json_object_get(p->json, "tokens"), *advantages = json_object_get(p->json, "advantages");
	p->ntokens = (int)json_array_size(tokens);
	p->tokens = xcalloc((size_t)p->ntokens, sizeof *p->tokens);
	p->terms = xcalloc((size_t)p->ntokens, sizeof *p->terms);
	p->sequence = xcalloc((size_t)p->ntokens, sizeof *p->sequence);
	for (int i = 0; i < p->ntokens; i++) {
		const json_t *t = json_array_get(tokens, (size_t)i);
		p->tokens[i] = (struct head_row){.at = (int32_t)json_integer_value(json_array_get(t, 0)),
			.target = (int32_t)json_integer_value(json_array_get(t, 1))};
		p->sequence[i] = (int32_t)json_integer_value(json_array_get(t, 2));
		p->terms[i] = (struct loss_row){.old_logprob = (float)json_number_value(json_array_get(t, 3)),
			.ref_logprob = (float)json_number_value(json_array_get(t, 4)),
			.advantage = (float)json_number_value(json_array_get(advantages, (size_t)p->sequence[i])),
			.weight = 1};
	}
	p->steps = (int)number(p->json, "steps");
	p->adamw = (struct optimizer_options){.learning_rate = number(adamw, "lr"),
		.adam_beta1 = number(adamw, "beta1"),
		.adam_beta2 = number(adamw, "beta2"),
		.adam_epsilon = number(adamw, "eps"),
		.weight_decay = number(adamw, "weight_decay"),
		.max_grad_norm = number(adamw, "max_grad_norm"),
		.lr_scheduler_type = "constant"};
}

static void weighted_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct problem *p = ctx;
	(void)entropy;
	for (int i = 0; i < n; i++) {
		p->loss -= (double)p->weights[begin + i] * logprob[i];
		g[i] = -p->weights[begin + i];
	}
}

/* The objective's options, and the number that each token's loss is multiplied by. */
static void objective_open(struct problem *p, const json_t *o)
{
	struct err err = {0};
	int S = (int)json_array_size(json_object_get(p->json, "advantages"));
	int *lengths = xcalloc((size_t)S, sizeof *lengths);
	float *normalisers = xcalloc((size_t)S, sizeof *normalisers);
	p->options = (struct loss_options){.epsilon = (float)number(o, "epsilon"),
		.epsilon_high = (float)number(o, "epsilon_high"),
		.beta = (float)number(o, "beta"),
		.delta = (float)number(o, "delta")};
	if (loss_type_from_name(json_string_value(json_object_get(o, "loss_type")), &p->options.type, &err)) fail(&err);
	for (int i = 0; i < p->ntokens; i++) lengths[p->sequence[i]]++;
	loss_normalisers(p->options.type, lengths, S, (int)number(o, "max_completion_length"), normalisers);
	for (int i = 0; i < p->ntokens; i++) p->terms[i].normaliser = normalisers[p->sequence[i]];
	free(lengths), free(normalisers);
}

static void objective_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct problem *p = ctx;
	(void)entropy;
	for (int i = 0; i < n; i++) p->loss += loss_row_value(&p->options, &p->terms[begin + i], logprob[i], &g[i]);
}

/* ---- what is written ---- */

struct results {
	struct tensor_info *t;
	size_t count;
};

static float *result_add(struct results *r, const char *prefix, const char *name, int64_t rows, int64_t cols)
{
	r->t = xrealloc(r->t, (r->count + 1) * sizeof *r->t);
	struct tensor_info *t = &r->t[r->count++];
	float *data = xcalloc((size_t)(rows * cols), sizeof *data);
	*t = (struct tensor_info){.name = xasprintf("%s%s", prefix, name),
		.dtype = DTYPE_F32,
		.ndim = 2,
		.shape = {rows, cols},
		.data = data,
		.bytes = (size_t)(rows * cols) * sizeof *data};
	return data;
}

/* Loss and gradients of every objective; no gradient is left behind. */
static void objectives_run(struct problem *p, struct results *r, struct ops *ops, struct pass *pass, struct adapter *a,
	const struct batch *batch, struct param *params, int count)
{
	const json_t *all = json_object_get(p->json, "objectives");
	for (size_t k = 0; k < json_array_size(all); k++) {
		char name[32];
		snprintf(name, sizeof name, "objective.%zu", k);
		p->loss = 0;
		objective_open(p, json_array_get(all, k));
		pass_forward(pass, a, batch, 0);
		pass_backward(pass, p->tokens, p->ntokens, 1, objective_loss, p);
		*result_add(r, name, "", 1, 1) = (float)p->loss;
		strcat(name, ".");
		for (int i = 0; i < count; i++) {
			ops->get_f32(
				ops->ctx, result_add(r, name, params[i].name, params[i].count, 1), params[i].w.grad, params[i].count);
			ops->zero(ops->ctx, params[i].w.grad, (size_t)params[i].count * sizeof(float));
		}
	}
}

int main(int argc, char **argv)
{
	struct err err = {0};
	struct problem p;
	struct results r = {0};
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	struct pass *pass;
	int rank, count;
	if (argc != 4) return fprintf(stderr, "usage: parity DEVICE FOLDER OUT\n"), 2;
	char *model = path_join(argv[2], "model"), *folder = path_join(argv[2], "adapter");
	problem_open(&p, argv[2]);
	/* The device, the model, its adapter, as a training run has them. */
	if (adapter_rank(folder, &rank, &err)) fail(&err);
	struct device_options d = {
		.device = argv[1], .cuda_libs = getenv("HONE_CUDA_LIBS"), .card = getenv("HONE_CUDA_CARD"), .new_rank = rank};
	if (device_open(&d, &ops, &err) || model_open(model, ops, &m, &err) || adapter_open(m, folder, &a, &err))
		fail(&err);
	model_enable_grad(m, a);
	struct param *params = adapter_params(a, &count);
	struct pass_options po = {.max_tokens = p.T + 7, .head_rows = 64, .backward = true}; /* chunks, with a rest */
	if (pass_create(m, &po, &pass, &err)) fail(&err);
	struct optimizer *optimizer = optimizer_create(ops, params, count, &p.adamw);
	struct batch batch = {p.ids, {p.T, p.S, p.start, p.pos, NULL}};
	int V = model_config(m)->vocab_size;

	/* Logits and log-probabilities before any step. */
	int32_t *at = xcalloc((size_t)p.n, sizeof *at);
	for (int i = 0; i < p.n; i++) at[i] = p.rows[i].at;
	pass_forward(pass, a, &batch, 0);
	pass_logits(pass, at, p.n, result_add(&r, "logits", "", p.n, V));
	pass_logprobs(pass, p.rows, p.n, 1, result_add(&r, "logprob", "", p.n, 1), NULL);
	objectives_run(&p, &r, ops, pass, a, &batch, params, count);
	float *losses = result_add(&r, "loss", "", p.steps, 1), *norms = result_add(&r, "norm", "", p.steps, 1);
	for (int step = 0; step < p.steps; step++) {
		p.loss = 0;
		pass_forward(pass, a, &batch, 0);
		pass_backward(pass, p.rows, p.n, 1, weighted_loss, &p);
		for (int i = 0; i < count && !step; i++)
			ops->get_f32(ops->ctx, result_add(&r, "grad.", params[i].name, params[i].count, 1), params[i].w.grad,
				params[i].count);
		losses[step] = (float)p.loss;
		norms[step] = (float)optimizer_step(optimizer);
	}
	for (int i = 0; i < count; i++)
		param_get(ops, &params[i], result_add(&r, "step.", params[i].name, params[i].count, 1));
	if (safetensors_write(argv[3], r.t, r.count, NULL, &err)) fail(&err);
	optimizer_free(optimizer);
	pass_free(pass);
	adapter_free(a);
	model_free(m);
	ops_free(ops);
	return 0;
}
