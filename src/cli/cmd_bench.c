/* hone bench: how fast this machine runs hone, beside transformers on the same model, threads and
 * sizes, in the same minutes. `hone bench text` is bench_text.c, `hone bench rl` bench_rl.c, `hone
 * bench verify` bench_verify.c.
 *
 * `hone bench cpu` makes a random Qwen3 of about 5 M parameters in a temporary folder, measures
 * training (forward, backward, AdamW over packed sequences) and generation, then lets
 * bench/peers/cpu_peer.py do the same, and alternates the two --rounds times: a busy machine then
 * hurts both. Each figure is the best of its repeats. With --model DIR the model is that folder's:
 * opening it is timed, generation measured, training left out. */
#include "cli/bench.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/text.h"
#include "infer/infer.h"
#include "ops/cpu_figures.h"
#include "train/train.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* Values of the options below, whose help says what each is. */
struct bench_options {
	int64_t threads;
	int64_t rounds;
	int64_t sequences;
	int64_t length;
	int64_t train_steps;
	int64_t prompt_length;
	int64_t max_new_tokens;
	int64_t hidden_size;
	int64_t num_hidden_layers;
	int64_t vocab_size;
	const char *model;
	const char *python;
	const char *peer;
	bool batch_invariant;
	bool cpu_time;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct bench_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, model, "model folder; default: a random model made for the occasion", NULL),
	O(OPTION_INT, threads, "threads on both sides; 0: cores", "0 to 4096"),
	O(OPTION_INT, rounds, "alternations of hone and peer", "1 to 1000"),
	O(OPTION_INT, sequences, "sequences per training step", "1 to 4096"),
	O(OPTION_INT, length, "tokens per training sequence", "2 to 2048"),
	O(OPTION_INT, train_steps, "training steps per round", "1 to 1000000"),
	O(OPTION_INT, prompt_length, "prompt tokens of a generated sequence", "1 to 1048576"),
	O(OPTION_INT, max_new_tokens, "tokens generated per sequence", "1 to 1048576"),
	O(OPTION_INT, hidden_size, "of the random model", "8 to 8192"),
	O(OPTION_INT, num_hidden_layers, "of the random model", "1 to 1024"),
	O(OPTION_INT, vocab_size, "of the random model", "2 to 1048576"),
	O(OPTION_STR, python, "Python that has what the peer's script needs; empty: no peer", NULL),
	O(OPTION_STR, peer,
		"the peer's script: bench/peers/cpu_peer.py (transformers) or bench/peers/llama_peer.py (llama.cpp)", NULL),
	O(OPTION_BOOL, batch_invariant, "hone's row-independent kernels", NULL),
	O(OPTION_BOOL, cpu_time,
		"count processor seconds instead of wall clock: for --threads 1 on a machine that others use too", NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
	OPTIONS_NEED("hidden_size num_hidden_layers vocab_size sequences length train_steps", "!model"),
	OPTIONS_NEED("peer", "python"),
};

enum figure { FIGURE_TRAIN, FIGURE_GENERATE_16, FIGURE_GENERATE_1, FIGURE_COUNT };
static const struct {
	const char *key;   /* in --json */
	const char *title; /* for people */
	int batch;         /* sequences generated at once; 0: training */
} figures[FIGURE_COUNT] = {
	{"train", "training", 0},
	{"generate_16", "generation, batch 16", 16},
	{"generate_1", "generation, batch 1", 1},
};

struct bench {
	const struct bench_options *o;
	struct ops *ops;
	struct model *model;   /* that is trained; NULL with --model */
	struct model *sampler; /* the same weights, never trained */
	int vocab_size;
	char dir[64];              /* of the random model */
	double weights_ms;         /* to open those of --model */
	double tokenizer_ms;       /* likewise */
	double hone[FIGURE_COUNT]; /* tokens a second, in the best round */
	double peer[FIGURE_COUNT]; /* likewise */
	char peer_name[32];
};

static bool is_measured(const struct bench *b, enum figure f) { return figures[f].batch || !b->o->model; }

static void minus_mean_logprob(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	for (int i = 0; i < n; i++) g[i] = -1.0f / *(const float *)ctx;
}

/* ---- hone's side ---- */

static double bench_train(struct bench *b, struct err *err)
{
	const struct bench_options *o = b->o;
	int S = (int)o->sequences, L = (int)o->length, T = S * L, nrows = S * (L - 1), nparams;
	int32_t *ids = xcalloc((size_t)T, sizeof *ids), *pos = xcalloc((size_t)T, sizeof *pos),
			*start = xcalloc((size_t)S + 1, sizeof *start);
	struct head_row *rows = xcalloc((size_t)nrows, sizeof *rows);
	/* Random tokens: speed does not depend on which. */
	for (int t = 0; t < T; t++) {
		ids[t] = (int32_t)(rng_u32(1, 0, (uint64_t)t) % (uint32_t)o->vocab_size);
		pos[t] = t % L;
	}
	/* The sequences are packed behind one another; each token but a sequence's last predicts its
	 * next. */
	for (int s = 0, n = 0; s < S; s++) {
		start[s + 1] = (s + 1) * L;
		for (int t = s * L; t < (s + 1) * L - 1; t++) rows[n++] = (struct head_row){.at = t, .target = ids[t + 1]};
	}
	struct batch batch = {ids, {T, S, start, pos, NULL}};
	/* A full step: forward, loss, backward, and an update of all weights. */
	struct pass_options po = {.max_tokens = T, .backward = true};
	struct pass *pass = NULL;
	double best = INFINITY;
	model_enable_grad(b->model, NULL);
	struct param *params = model_params(b->model, &nparams);
	struct optimizer_options oo = {
		.learning_rate = 1e-4,
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.weight_decay = 0.01,
		.lr_scheduler_type = "constant",
	};
	struct optimizer *optimizer = optimizer_create(b->ops, params, nparams, &oo);
	int rc = pass_create(b->model, &po, &pass, err);
	float count = (float)nrows;
	/* One step more than asked for: the first is a warm-up, and the peer leaves out its first
	 * one too. */
	for (int64_t step = 0; !rc && step <= o->train_steps; step++) {
		double begin = bench_seconds(o->cpu_time);
		pass_forward(pass, NULL, &batch, 0);
		pass_backward(pass, rows, nrows, 1, minus_mean_logprob, &count);
		optimizer_step(optimizer);
		if (step) best = fmin(best, bench_seconds(o->cpu_time) - begin);
	}
	optimizer_free(optimizer);
	pass_free(pass);
	free(rows);
	free(start);
	free(pos);
	free(ids);
	return rc ? rc : T / best;
}

static double bench_generate(struct bench *b, int batch, struct err *err)
{
	const struct bench_options *o = b->o;
	int n = (int)o->prompt_length, active;
	struct engine_options eo = {.max_sequences = batch, .max_context = n + (int)o->max_new_tokens};
	struct engine *e;
	int rc = engine_create(b->sampler, &eo, &e, err);
	if (rc) return rc;
	double best = 0;
	int32_t *prompt = xcalloc((size_t)n, sizeof *prompt);
	/* The better of two repeats counts, as on the peer's side. */
	for (int repeat = 0; repeat < 2 && !rc; repeat++) {
		double begin = bench_seconds(o->cpu_time);
		int64_t before = engine_tokens_generated(e);
		for (int i = 0; i < batch && !rc; i++) {
			for (int t = 0; t < n; t++)
				prompt[t] = (int32_t)(rng_u32(2, (uint64_t)i, (uint64_t)t) % (uint32_t)b->vocab_size);
			struct request r = {
				.id = i,
				.prompt = prompt,
				.nprompt = n,
				.num_samples = 1,
				.sampling = {.temperature = 1, .top_p = 1, .seed = (uint64_t)i},
				.max_new_tokens = (int)o->max_new_tokens,
			};
			rc = engine_submit(e, &r, err);
		}
		/* A model of --model may end a text early, so the tokens that really came are counted. */
		do engine_step(e, &active);
		while (active);
		best = fmax(best, (double)(engine_tokens_generated(e) - before) / (bench_seconds(o->cpu_time) - begin));
		/* Completions are taken after the clock was read; their texts are of no interest here. */
		for (struct completion c; engine_take(e, &c);) completion_release(&c);
	}
	free(prompt);
	engine_free(e);
	return rc ? rc : best;
}

static int bench_hone(struct bench *b, struct err *err)
{
	for (int f = 0; f < FIGURE_COUNT; f++) {
		if (!is_measured(b, f)) continue;
		double rate = figures[f].batch ? bench_generate(b, figures[f].batch, err) : bench_train(b, err);
		if (rate < 0) return (int)rate;
		b->hone[f] = fmax(b->hone[f], rate);
	}
	return 0;
}

/* ---- the peer's ---- */

static int run_peer(struct bench *b, json_t **out, struct err *err)
{
	const struct bench_options *o = b->o;
	char numbers[6][24];
	const int64_t values[6] = {o->threads > 0 ? o->threads : cpu_count(), o->sequences, o->length,
		b->model ? o->train_steps : 0, o->prompt_length, o->max_new_tokens};
	for (int i = 0; i < 6; i++) snprintf(numbers[i], sizeof numbers[i], "%lld", (long long)values[i]);
	char *argv[] = {(char *)o->python, (char *)o->peer, o->model ? (char *)o->model : b->dir, "--threads", numbers[0],
		"--sequences", numbers[1], "--length", numbers[2], "--train_steps", numbers[3], "--prompt", numbers[4],
		"--new_tokens", numbers[5], "--batches", "16,1", o->cpu_time ? "--cpu_time" : NULL, NULL};
	return bench_peer_run(argv, out, err);
}

static int bench_peer(struct bench *b, struct err *err)
{
	json_t *result = NULL;
	const char *name = NULL;
	int rc = run_peer(b, &result, err);
	if (!rc) rc = json_get_str(result, "the peer's answer", "name", &name, err);
	if (!rc) snprintf(b->peer_name, sizeof b->peer_name, "%s", name);
	for (int f = 0; f < FIGURE_COUNT && !rc; f++) {
		if (!is_measured(b, f)) continue;
		double rate = 0;
		rc = json_opt_num(result, "the peer's answer", figures[f].key, &rate, err);
		b->peer[f] = fmax(b->peer[f], rate);
	}
	json_decref(result);
	return rc;
}

/* ---- the command ---- */

/* Three times, of which the last two find the files in the page cache. */
static int open_folder(struct bench *b, struct err *err)
{
	int rc = ops_cpu_create(
		&(struct ops_options){.threads = (int)b->o->threads, .batch_invariant = b->o->batch_invariant}, &b->ops, err);
	b->weights_ms = b->tokenizer_ms = INFINITY;
	for (int repeat = 0; repeat < 3 && !rc; repeat++) {
		struct tokenizer *t = NULL;
		model_free(b->sampler);
		b->sampler = NULL;
		double begin = bench_seconds(b->o->cpu_time);
		rc = model_open(b->o->model, b->ops, &b->sampler, err);
		double between = bench_seconds(b->o->cpu_time);
		if (!rc) rc = tokenizer_open(b->o->model, &t, err);
		b->weights_ms = fmin(b->weights_ms, 1e3 * (between - begin));
		b->tokenizer_ms = fmin(b->tokenizer_ms, 1e3 * (bench_seconds(b->o->cpu_time) - between));
		tokenizer_free(t);
	}
	if (rc) return rc;
	b->vocab_size = model_config(b->sampler)->vocab_size;
	fprintf(stderr, "model: %s, %.2f M parameters; %s\n", b->o->model,
		(double)model_config_params(model_config(b->sampler)) * 1e-6, ops_gemm_name(b->ops));
	return 0;
}

static int make_folder(struct bench *b, struct err *err)
{
	const struct bench_options *o = b->o;
	/* Without an end-of-sequence id all generated sequences have their full length. */
	struct model_config c = {
		.vocab_size = (int)o->vocab_size,
		.hidden_size = (int)o->hidden_size,
		.num_hidden_layers = (int)o->num_hidden_layers,
		.num_attention_heads = 4,
		.num_key_value_heads = 2,
		.head_dim = (int)o->hidden_size / 4,
		.intermediate_size = 3 * (int)o->hidden_size,
		.max_position_embeddings = 2048,
		.rms_norm_eps = 1e-6,
		.rope_theta = 1e6,
		.tie_word_embeddings = true,
		.qk_norm = true,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1,
	};
	struct ops_options oo = {.threads = (int)o->threads, .batch_invariant = o->batch_invariant};
	b->vocab_size = c.vocab_size;
	/* The four heads share the hidden size, and a head's dimension has to be even. */
	if (o->hidden_size % 8)
		return err_set(err, ERR_USAGE, "--hidden_size %lld: expected a multiple of 8", (long long)o->hidden_size);
	int rc = bench_folder_make(b->dir, sizeof b->dir, err);
	if (!rc) rc = ops_cpu_create(&oo, &b->ops, err);
	/* One seed gives both models the same weights: the first is trained, the other only
	 * generates. What is saved is what the peer opens. */
	if (!rc) rc = model_create(&c, 1, b->ops, &b->model, err);
	if (!rc) rc = model_create(&c, 1, b->ops, &b->sampler, err);
	if (!rc) rc = model_save(b->model, b->dir, err);
	if (!rc)
		fprintf(stderr, "model: %.2f M parameters, hidden %d, %d layers, vocabulary %d; %s\n",
			(double)model_config_params(&c) * 1e-6, c.hidden_size, c.num_hidden_layers, c.vocab_size,
			ops_gemm_name(b->ops));
	return rc;
}

static void bench_close(struct bench *b)
{
	model_free(b->sampler);
	model_free(b->model);
	ops_free(b->ops);
	if (*b->dir) dir_remove(b->dir, NULL);
}

static void bench_print(const struct bench *b, bool has_peer)
{
	json_t *all = json_object();
	/* Only a folder of --model was timed at its opening; the random model was made here. */
	if (b->o->model) {
		double both_ms = b->weights_ms + b->tokenizer_ms;
		double packed = (double)ops_prepared_bytes(b->ops);
		json_object_update_new(all,
			json_pack("{s:f, s:f, s:f}", "open_weights_ms", b->weights_ms, "open_tokenizer_ms", b->tokenizer_ms,
				"packed_bytes", packed));
		if (!b->o->json) {
			printf("%-22s %9.1f ms      weights %.1f ms, tokenizer %.1f ms\n", "opening the folder", both_ms,
				b->weights_ms, b->tokenizer_ms);
			printf("%-22s %9.0f MB      of %.0f MB as fp32\n", "weights as read", packed * 1e-6,
				4e-6 * (double)model_config_params(model_config(b->sampler)));
		}
	}
	/* The object is filled without --json too: the text's last line reads from it. */
	for (int f = 0; f < FIGURE_COUNT; f++) {
		if (!is_measured(b, f)) continue;
		double ratio = has_peer ? b->hone[f] / b->peer[f] : 0;
		json_t *row = json_pack("{s:f}", "hone", b->hone[f]);
		if (has_peer) json_object_update_new(row, json_pack("{s:f, s:f}", b->peer_name, b->peer[f], "ratio", ratio));
		json_object_set_new(all, figures[f].key, row);
		if (b->o->json) continue;
		if (has_peer)
			printf("%-22s %9.0f tok/s   %s %9.0f tok/s   %5.2fx\n", figures[f].title, b->hone[f], b->peer_name,
				b->peer[f], ratio);
		else printf("%-22s %9.0f tok/s\n", figures[f].title, b->hone[f]);
	}
	/* Last the rate of one large product, which is the ceiling of the others. */
	json_object_set_new(all, "gemm_gflops", json_real(ops_gemm_gflops(b->ops)));
	json_object_set_new(all, "gemm", json_string(ops_gemm_name(b->ops)));
	if (b->o->json) {
		json_dumpf(all, stdout, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
		putchar('\n');
	} else {
		printf("%-22s %9.0f GFLOP/s (%s)\n", "1024^3 product", json_real_value(json_object_get(all, "gemm_gflops")),
			ops_gemm_name(b->ops));
	}
	json_decref(all);
}

static int bench_cpu(const struct bench_options *o, struct err *err)
{
	struct bench b = {.o = o};
	bool has_peer = *o->python;
	int rc = o->model ? open_folder(&b, err) : make_folder(&b, err);
	for (int64_t round = 0; round < o->rounds && !rc; round++) {
		rc = bench_hone(&b, err);
		if (!rc && has_peer) rc = bench_peer(&b, err);
	}
	if (!rc) bench_print(&b, has_peer);
	bench_close(&b);
	return rc;
}

int cmd_bench(int argc, char **argv)
{
	struct bench_options o = {
		.rounds = 2,
		.sequences = 8,
		.length = 256,
		.train_steps = 5,
		.prompt_length = 64,
		.max_new_tokens = 128,
		.hidden_size = 256,
		.num_hidden_layers = 5,
		.vocab_size = 4096,
		.python = "build/venv/bin/python",
		.peer = "bench/peers/cpu_peer.py",
	};
	struct err err = {0};
	/* These have options of their own, so they parse the command line themselves. */
	if (argc > 1 && !strcmp(argv[1], "text")) return bench_text(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "rl")) return bench_rl(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "gpu")) return bench_gpu(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "verify")) return bench_verify(argc - 1, argv + 1);
	int npos,
		rc = options_parse("bench",
			"cpu: train and generate with a random model of about 5 M parameters, or generate with --model, beside "
			"transformers; text: the tokenizer "
			"(hone bench text --help); rl: steps of reinforcement learning (hone bench rl --help); gpu: an 8B's shape "
			"and small ones on a GPU beside its ceilings (hone bench gpu --help); verify: verdicts a second (hone "
			"bench verify --help)",
			defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc) return rc > 0 ? 0 : cli_fail("bench", &err);
	/* What is left of the line names the one measurement that is made here. */
	if (npos != 1 || strcmp(argv[1], "cpu"))
		return cli_fail("bench",
			(err_set(&err, ERR_USAGE,
				 "expected `hone bench cpu`, `hone bench text`, `hone bench rl`, `hone bench gpu` or `hone bench "
				 "verify`"),
				&err));
	rc = bench_cpu(&o, &err);
	return rc ? cli_fail("bench", &err) : 0;
}
