/* hone bench gpu: what the engine makes of a GPU. Models of random weights and true shapes, an
 * adapter of rank 16 always on, through the same calls that generation and training make; each
 * figure beside the ceiling that this device shows in the same run, and beside the bar that
 * the project holds it to.
 *
 *   ceilings   bytes a second of a copy, read and written; arithmetic a second of one large
 *              product, sustained (its rate falls when the card is warm) and at its fastest
 *   decode     a step of so many sequences with so much context, beside its floor: for the products
 *              the longer of reading the weights, at the copy's rate, and multiplying by them, at
 *              the product's fastest; then reading keys and values, at the copy's rate
 *   prefill    a forward pass over packed prompts, beside the product's rate
 *   train      a step of GRPO over packed sequences: forward, head, backward, AdamW; with a
 *              reference the base's forward pass and log-probabilities before it
 *   rollout    8 prompts x 8 answers of --answer tokens by the engine, and one update on them
 *   invariant  decode with batch_invariant, beside the decode above
 *   load       weights of these shapes in a safetensors file, bf16: opened until the device has
 *              them; the second time, when the system has the file in memory
 *   ranks      the rollout of one process beside that of several, each with its own GPU and as many
 *              answers, whose gradients are summed: what is lost to waiting and to the sum
 *
 * Bars are of the shapes as they are, on an H200; a slice of the layers (--layers) or other sizes
 * have none. */
#include "cli/bench_gpu.h"
#include "base/base.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "model/model.h"
#include "ranks/ranks.h"

#include <stdarg.h>
#include <stdlib.h>

/* Sizes that the bars are of, beside the shapes' own. */
#define TOKENS 16384
#define PREFILL 8192
#define ANSWER 1024

#define O(type, field, help, choices) { #field, type, offsetof(struct gpu_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, device, "where to measure: cuda or cuda:N; cpu tells no more than that it runs", NULL),
	O(OPTION_STR, cuda_libs, "folder with CUDA's libraries; default: where Python's or the system's lie", NULL),
	O(OPTION_STR, memory, "most memory that the device may give, as 24GiB; default: what it has", NULL),
	O(OPTION_STR, cuda_card,
		"hold the GPU to what this card has (a100, rtx4090, ...): kernels, shared memory and memory", NULL),
	O(OPTION_STR, shapes, "comma list of demo (1.8 M), 135m (SmolLM2), 8b (Qwen3-8B)", NULL),
	O(OPTION_STR, parts,
		"comma list of decode, prefill, train, rollout, invariant, load, ranks; default: all of an 8b, decode of the "
		"others",
		NULL),
	O(OPTION_STR, batches, "comma list of sequences decoded at once; default: the shape's", NULL),
	O(OPTION_INT, layers, "layers of the model; 0: the shape's", "0 to 1024"),
	O(OPTION_INT, context, "tokens of each sequence when it is decoded; 0: the shape's", "0 to " GPU_CONTEXT_TEXT),
	O(OPTION_INT, tokens, "packed tokens of a training step", PASS_TOKENS_RANGE),
	O(OPTION_INT, prefill, "packed tokens of a prefill", PASS_TOKENS_RANGE),
	O(OPTION_INT, answer, "tokens of an answer in the rollout", "1 to " GPU_CONTEXT_TEXT),
	O(OPTION_INT, repeats, "steps that the median is of; prefill and training take a quarter of them", "1 to 1000000"),
	O(OPTION_INT, ranks, "processes of the part ranks, each with a GPU", "2 to 64"),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
};

/* ---- shapes and bars ---- */

#define PARTS "decode,prefill,train,rollout,invariant,load,ranks"

/* The quick ones first: a run that is ended early has them. */
static const struct shape shapes[] = {
	{"demo", 192, 512, 4, 6, 2, 32, 1024, true, true, 300, {1024}, "decode", {{"decode_1024", BAR_RATE, 2e6, 5e6}}},
	{"135m", 576, 1536, 30, 9, 3, 64, 49152, true, false, 320, {256}, "decode",
		{{"decode_256", BAR_RATE, 100e3, 180e3}}},
	{"8b", 4096, 12288, 36, 32, 8, 128, 151936, false, true, 640, {1, 64, 256}, PARTS,
		{{"decode_1", BAR_SHARE, 0.75, 0.84}, {"decode_64", BAR_SHARE, 0.75, 0.84},
			{"decode_256", BAR_SHARE, 0.75, 0.84}, {"invariant_64", BAR_SHARE, 0.80, 0.95},
			{"prefill", BAR_RATE, 520e12, 600e12}, {"train_reference", BAR_RATE, 10e3, 12.5e3},
			{"train", BAR_RATE, 14e3, 17.5e3}, {"rollout", BAR_SECONDS, 14, 11.5}, {"load", BAR_SECONDS, 3, 1.5},
			{"ranks", BAR_SHARE, 0.85, 0.95}}},
};

/* ---- figures ---- */

struct figure *gpu_figure_add(struct gpu_bench *b, const char *key, const char *title, double value, const char *unit,
	double scale, double ceiling, const char *ceiling_is)
{
	CHECK(b->count < GPU_FIGURES_MAX);
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

void gpu_skip(struct gpu_bench *b, const char *fmt, ...)
{
	va_list ap;
	CHECK(b->nskipped < GPU_SKIPS_MAX);
	va_start(ap, fmt);
	vsnprintf(b->skipped[b->nskipped++], sizeof b->skipped[0], fmt, ap);
	va_end(ap);
}

/* ---- what is printed ---- */

static double share_of(const struct figure *f) { return f->ceiling > 0 ? f->value / f->ceiling : 0; }

static bool prints(const struct gpu_bench *b) { return !b->o->json && ranks_rank(b->ranks) == 0; }

/* What has been measured since the last time: a run that is ended early has told what it had. */
void gpu_tell(struct gpu_bench *b)
{
	if (!prints(b)) return;
	if (!b->told && !b->copy) printf("%s: adapter of rank %d\n", b->shape->name, GPU_RANK);
	else if (!b->told)
		printf("%s: %.3f billion parameters in %d layers, adapter of rank %d; copy %.2f TB/s, product %.0f "
			   "TFLOP/s, %.0f at its fastest\n",
			b->shape->name, (double)model_config_params(&b->c) * 1e-9, b->c.num_hidden_layers, GPU_RANK,
			b->copy * 1e-12, b->product * 1e-12, b->product_peak * 1e-12);
	for (int i = b->told ? b->told - 1 : 0; i < b->count; i++) {
		const struct figure *f = &b->figures[i];
		const struct bar *bar = f->bar;
		printf("  %-40s %10.1f %-7s", f->title, f->value * f->scale, f->unit);
		if (f->ceiling > 0) printf(" %5.1f %% %s", 100 * share_of(f), f->ceiling_is);
		if (f->high > 0) printf(" (%.2f to %.2f ms)", 1e3 * f->low, 1e3 * f->high);
		if (bar && bar->of == BAR_SHARE) printf("; must %.0f %%, goal %.0f %%", 100 * bar->must, 100 * bar->goal);
		else if (bar) printf("; must %g, goal %g", bar->must * f->scale, bar->goal * f->scale);
		printf("\n");
	}
	b->told = b->count + 1;
	fflush(stdout);
}

static void tell_end(const struct gpu_bench *b, double seconds)
{
	if (!prints(b)) return;
	for (int i = 0; i < b->nskipped; i++) printf("  skipped: %s\n", b->skipped[i]);
	if (b->nskipped) printf("  %d skipped\n", b->nskipped);
	printf("  measured in %.0f s\n", seconds);
	fflush(stdout);
}

static json_t *shape_json(const struct gpu_bench *b)
{
	json_t *j = json_pack("{s:s, s:i, s:f, s:f, s:f}", "shape", b->shape->name, "layers", b->c.num_hidden_layers,
			   "copy_bytes_per_s", b->copy, "product_flop_per_s", b->product, "product_peak_flop_per_s",
			   b->product_peak),
		   *rows = json_object();
	for (int i = 0; i < b->count; i++) {
		const struct figure *f = &b->figures[i];
		json_t *row = json_pack("{s:f, s:s}", "value", f->value * f->scale, "unit", f->unit);
		/* What a row has beside its value: the ceiling of this run, the spread, the bar. */
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
	/* What was not measured stands by name, so that its absence is no success. */
	json_t *skipped = json_array();
	for (int i = 0; i < b->nskipped; i++) json_array_append_new(skipped, json_string(b->skipped[i]));
	json_object_set_new(j, "skipped", skipped);
	return j;
}

/* ---- the command ---- */

/* What all shapes have shown. */
struct shown {
	json_t *shapes;
	int figures;
	int skips;
	char why[GPU_SKIP_TEXT]; /* of the last skip */
};

static int bench_shape(
	const struct gpu_options *o, const struct shape *s, struct ranks *ranks, struct shown *all, struct err *err)
{
	struct gpu_bench b = {.o = o, .shape = s, .c = gpu_config(s, o), .ranks = ranks};
	uint64_t begin = clock_ns();
	int rc = gpu_parts_run(&b, err);
	if (rc) return rc;
	gpu_tell(&b);
	tell_end(&b, (double)(clock_ns() - begin) * 1e-9);
	json_array_append_new(all->shapes, shape_json(&b));
	all->figures += b.count;
	all->skips += b.nskipped;
	if (b.nskipped) snprintf(all->why, sizeof all->why, "%s", b.skipped[b.nskipped - 1]);
	return 0;
}

/* Every name of a comma list is one of those known. */
static int list_check(const char *option, const char *list, const char *known, struct err *err)
{
	char name[32];
	if (!*list) return err_set(err, ERR_USAGE, "--%s is empty: expected a comma list of %s", option, known);
	for (const char *s = list; *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ',')) {
		snprintf(name, sizeof name, "%.*s", (int)MIN(strcspn(s, ","), 31), s);
		if (!gpu_is_listed(known, name))
			return err_set(err, ERR_USAGE, "--%s \"%s\": expected a comma list of %s", option, name, known);
	}
	return 0;
}

int bench_gpu(int argc, char **argv)
{
	struct gpu_options o = {.device = "cuda",
		.shapes = "demo,135m,8b",
		.tokens = 16384,
		.prefill = 8192,
		.answer = 1024,
		.repeats = 20,
		.ranks = 2};
	struct err err = {0};
	int npos,
		rc = options_parse("bench gpu",
			"generate and train with random models of true shapes on a GPU, each figure beside the ceiling that the "
			"device shows in the same run and the bar that it is held to",
			defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc) return rc > 0 ? 0 : cli_fail("bench", &err);
	if (npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = list_check("shapes", o.shapes, "demo,135m,8b", &err);
	if (!rc && o.parts) rc = list_check("parts", o.parts, PARTS, &err);
	/* Started by torchrun or srun it is one of several, as the part ranks starts them. */
	struct ranks *ranks = NULL;
	if (!rc) rc = ranks_open(&(struct ranks_options)RANKS_DEFAULTS, &ranks, &err);
	struct shown all = {.shapes = json_array()};
	for (size_t i = 0; i < ARRAY_LEN(shapes) && !rc; i++)
		if (gpu_is_listed(o.shapes, shapes[i].name)) rc = bench_shape(&o, &shapes[i], ranks, &all, &err);
	if (!rc && o.json && ranks_rank(ranks) == 0) {
		json_dumpf(all.shapes, stdout, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
		putchar('\n');
	}
	json_decref(all.shapes);
	/* Who waits for figures is told that there are none. */
	if (!rc && !all.figures && all.skips)
		rc = err_set(&err, ERR_NOT_FOUND, "nothing was measured, %d skipped; %s", all.skips, all.why);
	ranks_close(ranks, rc ? &err : NULL);
	return rc ? cli_fail("bench", &err) : 0;
}
