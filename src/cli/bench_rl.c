/* hone bench rl: where a step of reinforcement learning spends its time, and what it saves to
 * run equal prefixes once. Takes what `hone rl` takes; --max_steps is the number of steps
 * measured. The learning rate is 0, so every run samples the same answers from the same weights,
 * and the long way (a row for every answer, every answer trained whole) stands beside the new
 * one in the same minutes.
 *
 * Each way first runs with a store of its own, so that verdicts are really made: a whole step. Then
 * it runs, in turn with the other, --rounds times with that store, which knows all verdicts: the
 * best of the rounds is the time of generation and update alone. That both ways have drawn the same
 * tokens is checked by what they publish of them. */
#include "cli/bench.h"
#include "base/base.h"
#include "ops/ops.h"
#include "rl/rl.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct bench_rl_options {
	struct rl_options rl; /* the first field: its table's offsets hold here too */
	int64_t rounds;
	bool cpu_time;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct bench_rl_options, field), help, choices }
static const struct option_def own_defs[] = {
	O(OPTION_INT, rounds, "alternations of the long way and the new one, verdicts known", "1 to 1000"),
	O(OPTION_BOOL, cpu_time,
		"count this process's seconds (verdicts are made in others) instead of wall clock: for a machine that "
		"others use too",
		NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
	OPTIONS_NEED(
		"learning_rate max_seconds save_steps save_total_limit eval_steps eval_limit eval_patience guard "
		"guard_patience guard_gap guard_kl guard_degenerate guard_hack guard_truncation guard_format guard_collapse "
		"output_dir",
		"#steps are timed at learning rate 0, and nothing of them is kept"),
};

/* Sums over the steps of one run. */
struct split {
	int steps;
	double answers;
	double tokens;   /* of the answers */
	double generate; /* seconds, as the next four */
	double idle;
	double verdicts;
	double update;
	double whole;               /* of the steps */
	double distinct_generation; /* each step's share of the answers' tokens left when equal beginnings count once */
	double distinct_update;     /* likewise, of the prompts' and answers' tokens that train */
	double dropped;             /* answers that were left out */
	double logprob;             /* of all sampled tokens: whether two runs drew the same */
	double made;                /* verdicts that were made */
	double verdict_step[VERIFY_STEP_COUNT]; /* thread seconds of the verifier's steps */
};
enum way { LONG_WAY, NEW_WAY, WAYS };
static const char *const way_names[WAYS] = {"long", "new"};

static double number(const json_t *m, const char *key) { return json_number_value(json_object_get(m, key)); }

static int add_step(void *ctx, int64_t step, const json_t *m)
{
	struct split *s = ctx;
	double answers = number(m, "answers"), tokens = answers * number(m, "completions/mean_length");
	s->steps++;
	s->answers += answers;
	s->tokens += tokens;
	s->generate += number(m, "timing_s/generate");
	s->idle += number(m, "timing_s/idle");
	s->verdicts += number(m, "timing_s/verdicts");
	s->update += number(m, "timing_s/update");
	s->whole += number(m, "step_time");
	s->distinct_generation += number(m, "distinct/generation");
	s->distinct_update += number(m, "distinct/update");
	s->dropped += number(m, "dropped");
	s->logprob += tokens * number(m, "entropy");
	s->made += number(m, RL_VERDICT_STEP "made");
	for (enum verify_step i = 0; i < VERIFY_STEP_COUNT; i++) {
		char key[96];
		snprintf(key, sizeof key, RL_VERDICT_STEP "%s", verify_step_name(i));
		s->verdict_step[i] += number(m, key);
	}
	return 0;
}

static int run_way(
	const struct bench_rl_options *o, const char *dir, enum way way, int64_t round, struct split *out, struct err *err)
{
	char name[64];
	struct rl_options r = o->rl;
	/* Nothing of the run stays, and nothing of it depends on the run before. */
	snprintf(name, sizeof name, "%s-%lld", way_names[way], (long long)round);
	char *folder = path_join(dir, name);
	snprintf(name, sizeof name, "%s.db", way_names[way]);
	char *store = path_join(dir, name);
	r.output_dir = folder;
	r.store = store;
	r.apart = way == LONG_WAY;
	*out = (struct split){0};
	int rc = rl_run(&r, add_step, out, err);
	if (!rc) dir_remove(folder, NULL);
	free(folder);
	free(store);
	return rc;
}

/* Seconds in which no verdict was waited for. */
static double without_verdicts(const struct split *s) { return s->generate + s->update; }

static bool is_same(const struct split *a, const struct split *b)
{
	return a->tokens == b->tokens && a->logprob == b->logprob;
}

/* A row's bits are its own where elements are floats. On a GPU they depend on the rows beside it,
 * and answers without a verdict are in no sum. */
static int check_same(const struct bench_rl_options *o, const struct split *a, const struct split *b, struct err *err)
{
	struct ops ops;
	struct ops_options none = {0};
	int rc = ops_describe(o->rl.policy.device, &none, &ops, err);
	if (rc || is_same(a, b) || a->dropped > 0 || b->dropped > 0 || ops.elem_bytes < (int)sizeof(float)) return rc;
	return err_set(err, ERR_MISMATCH,
		"the long way drew %.0f tokens of log-probability %.9g, the new one %.0f of %.9g: they should be the same",
		a->tokens, -a->logprob, b->tokens, -b->logprob);
}

static json_t *split_json(const struct split *whole, const struct split *known)
{
	double n = whole->steps;
	return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step_s", whole->whole / n,
		"generate_s", whole->generate / n, "idle_s", whole->idle / n, "update_s", whole->update / n,
		"verdicts_thread_s", whole->verdicts / n, "whole_answers_per_s", whole->answers / whole->whole,
		"known_generate_s", known->generate / n, "known_update_s", known->update / n, "tokens_per_s",
		known->tokens / known->generate, "answers_per_s", known->answers / without_verdicts(known), "answers",
		known->answers / n);
}

static void print(const struct split *whole, const struct split *known)
{
	double n = known->steps, share = known[NEW_WAY].distinct_generation / n;
	printf("%-34s %10s %10s\n", "a step, seconds", "long way", "new");
	/* Where a step's seconds go, both ways side by side: with verdicts that are computed, then with
	 * verdicts from the store, which leaves generation and update alone. */
	const struct {
		const char *name;
		double value[WAYS];
	} rows[] = {
		{"whole", {whole[0].whole, whole[1].whole}},
		{"  generation", {whole[0].generate, whole[1].generate}},
		{"  idle: verdicts waited for", {whole[0].idle, whole[1].idle}},
		{"  update", {whole[0].update, whole[1].update}},
		{"  verification, beside, thread s", {whole[0].verdicts, whole[1].verdicts}},
		{"verdicts known: generation", {known[0].generate, known[1].generate}},
		{"verdicts known: update", {known[0].update, known[1].update}},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		printf("%-34s %10.3f %10.3f\n", rows[i].name, rows[i].value[0] / n, rows[i].value[1] / n);
	/* A verdict is made once for equal answers. */
	printf("of %.1f verdicts, ms each\n", whole[NEW_WAY].made / n);
	for (enum verify_step i = 0; i < VERIFY_STEP_COUNT; i++) {
		printf("  %-32s", verify_step_name(i));
		for (enum way w = 0; w < WAYS; w++)
			printf(" %10.1f", whole[w].made > 0 ? 1e3 * whole[w].verdict_step[i] / whole[w].made : 0);
		putchar('\n');
	}
	/* The rates, and how many times faster the new way is. What verdicts cost
	 * is in the last alone. */
	printf("%-34s %10.0f %10.0f   %5.2fx\n", "tokens generated a second", known[0].tokens / known[0].generate,
		known[1].tokens / known[1].generate, known[0].generate / known[1].generate);
	printf("%-34s %10.1f %10.1f   %5.2fx\n", "answers a second, without verdicts",
		known[0].answers / without_verdicts(&known[0]), known[1].answers / without_verdicts(&known[1]),
		without_verdicts(&known[0]) / without_verdicts(&known[1]));
	printf("%-34s %10.1f %10.1f   %5.2fx\n", "answers a second, whole", whole[0].answers / whole[0].whole,
		whole[1].answers / whole[1].whole, whole[0].whole / whole[1].whole);
	/* What sharing could give at most, and whether the comparison was one: both ways have to have
	 * drawn the same answers. */
	printf("distinct tokens: generation %.1f %%, update %.1f %%; 0.7 / share of generation = %.2f\n", 100 * share,
		100 * known[NEW_WAY].distinct_update / n, 0.7 / share);
	printf("%.0f answers, %.0f tokens a step; both ways drew %s\n", known[1].answers / n, known[1].tokens / n,
		is_same(&known[0], &known[1]) ? "the same" : "other answers, or some had no verdict");
}

static int measure(const struct bench_rl_options *o, struct err *err)
{
	struct split whole[WAYS] = {{0}}, known[WAYS] = {{0}};
	char dir[64];
	int rc = bench_folder_make(dir, sizeof dir, err);
	if (rc) return rc;
	/* Round 0 fills the store with verdicts and gives the times of whole steps; the later ones find
	 * every verdict known, and the best of them counts. The two ways take turns, so that a machine
	 * that is busy for a while hurts both. */
	for (int64_t round = 0; !rc && round <= o->rounds; round++)
		for (enum way w = 0; !rc && w < WAYS; w++) {
			struct split s;
			rc = run_way(o, dir, w, round, &s, err);
			if (rc) break;
			if (round == 0) whole[w] = s;
			else if (round == 1 || without_verdicts(&s) < without_verdicts(&known[w])) known[w] = s;
			if (w == NEW_WAY) rc = check_same(o, &whole[LONG_WAY], &s, err);
		}
	dir_remove(dir, NULL);
	if (rc) return rc;
	/* As a table for people, or as one object. */
	if (!o->json) {
		print(whole, known);
		return 0;
	}
	json_t *j = json_pack("{s:o, s:o, s:f, s:f}", "long", split_json(&whole[LONG_WAY], &known[LONG_WAY]), "new",
		split_json(&whole[NEW_WAY], &known[NEW_WAY]), "distinct_generation",
		known[NEW_WAY].distinct_generation / known[NEW_WAY].steps, "distinct_update",
		known[NEW_WAY].distinct_update / known[NEW_WAY].steps);
	json_dumpf(j, stdout, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(j);
	return 0;
}

static double processor_seconds(void) { return bench_seconds(true); }

int bench_rl(int argc, char **argv)
{
	struct bench_rl_options o = {.rounds = 2};
	struct err err = {0};
	/* The options of hone rl, with those of the measurement behind them. */
	size_t own = ARRAY_LEN(own_defs);
	struct option_def *defs = xcalloc(rl_option_count + own, sizeof *defs);
	memcpy(defs, rl_option_defs, rl_option_count * sizeof *defs);
	memcpy(defs + rl_option_count, own_defs, sizeof own_defs);
	rl_options_default(&o.rl);
	o.rl.max_steps = 2;
	int npos,
		rc = options_parse("bench rl",
			"time steps of reinforcement learning, and what running equal prefixes once saves; options are those of "
			"hone rl, with learning rate 0, --max_steps steps, and nothing kept",
			defs, rl_option_count + own, &o, argc, argv, &npos, &err);
	free(defs);
	if (rc) return rc > 0 ? 0 : cli_fail("bench", &err);
	/* What would make the runs differ, or is no part of a step. */
	o.rl.optimizer.learning_rate = 0;
	o.rl.max_seconds = 0;
	o.rl.save_steps = o.rl.eval_steps = 0;
	o.rl.guard = "off";
	o.rl.output_dir = NULL;
	if (o.cpu_time) o.rl.clock = processor_seconds;
	/* What a user may say to hone rl and cannot mean here. */
	if (npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	else if (o.rl.dry_run || o.rl.store)
		rc = err_set(&err, ERR_USAGE, "--dry_run and --store do not go with hone bench rl: it has stores of its own");
	else if (o.rl.max_steps < 1) rc = err_set(&err, ERR_USAGE, "--max_steps: expected at least 1");
	if (!rc) rc = measure(&o, &err);
	return rc ? cli_fail("bench", &err) : 0;
}
