/* What a run learns about its prompts: estimates against brute force, draws against their weights,
 * levels, the buffer, and that a fold over stored rows is the same as the live one. */
#include "rl/rl_history.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PROMPTS = 24, STRUCTURES = 8 };

struct fixture {
	struct tokenizer *tokenizer;
	struct prompt_row rows[PROMPTS];
	struct prompt_set prompts;
};

static char *text(const char *form, int i) { return xasprintf(form, i); }

/* Three tasks to each of eight structures, the last two structures of level 2. */
static int setup(void **state)
{
	static const char *const special[] = {"<|end|>"};
	struct fixture *f = xcalloc(1, sizeof *f);
	struct slice training = {"answer one two", 14};
	struct bpe_train_options o = {.vocab_size = 258, .special_tokens = special, .nspecial = 1};
	struct err err = {0};
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref"), *path = path_join(dir, "rl-history.json");
	if (dir_make(dir, &err) || tokenizer_train(&training, 1, &o, path, &err) ||
		tokenizer_open(path, &f->tokenizer, &err))
		fail_msg("%s", err.text);
	free(path);
	free(dir);
	for (int i = 0; i < PROMPTS; i++) {
		struct prompt_row *r = &f->rows[i];
		r->task = (struct task){.name = text("task-%02d", i), .structure = text("s%d", i % STRUCTURES)};
		r->task.level = i % STRUCTURES < 6 ? 1 : 2;
		for (int k = 0; k < 5; k++) ids_push(&r->ids, 40 + i + k);
	}
	f->prompts = (struct prompt_set){.rows = f->rows, .count = PROMPTS};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	for (int i = 0; i < PROMPTS; i++) {
		free(f->rows[i].task.name);
		free(f->rows[i].task.structure);
		ids_release(&f->rows[i].ids);
	}
	tokenizer_free(f->tokenizer);
	free(f);
	return 0;
}

static const struct history_options usual = {
	.seed = 5, .decay = 0.9, .floor = 0.01, .num_generations = 8, .max_tokens = 64, .stop_id = 256, .vocab_size = 258};

static void add(struct history *h, int64_t step, int prompt, const char *answer, const char *verdict)
{
	struct err err = {0};
	char name[32];
	snprintf(name, sizeof name, "task-%02d", prompt);
	json_t *row = json_pack("{s:s, s:s, s:{s:s}}", "task", name, "answer", answer, "verdict", "verdict", verdict);
	if (history_add(h, step, row, &err)) fail_msg("%s", err.text);
	json_decref(row);
}

/* The chance that K answers differ, by integrating p^K + (1 - p)^K over the Beta's density. The
 * densities have no poles from 1.5 on; 20,000 points of the midpoint rule are good to 1e-6. */
static double promise_by_integral(double a, double b, int K)
{
	double mass = 0, alike = 0;
	for (int i = 0; i < 20000; i++) {
		double p = (i + 0.5) / 20000, w = pow(p, a - 1) * pow(1 - p, b - 1);
		mass += w;
		alike += w * (pow(p, K) + pow(1 - p, K));
	}
	return 1 - alike / mass;
}

static void test_promise(void **state)
{
	struct fixture *f = *state;
	struct history *h = history_create(&usual, &f->prompts, f->tokenizer);
	/* Structure s1 at step 10: three successes, five failures, over two of its tasks. */
	for (int i = 0; i < 8; i++) add(h, 10, i % 2 ? 1 : 9, "x", i < 3 ? "genuine" : "wrong");
	assert_true(fabs(history_promise(h, 10, 17, 0, 0, 8) - promise_by_integral(3.5, 5.5, 8)) < 1e-5);
	/* Four steps later all counts weigh 0.9^4. */
	double left = pow(0.9, 4);
	assert_true(
		fabs(history_promise(h, 14, 1, 0, 0, 8) - promise_by_integral(3 * left + 0.5, 5 * left + 0.5, 8)) < 1e-4);
	/* First answers of a group: mixed is sure; four failures leave the chance of a
	 * success among four more. */
	assert_true(history_promise(h, 10, 1, 1, 4, 4) == 1);
	double none = 1;
	for (int i = 0; i < 4; i++) none *= (9.5 + i) / (13 + i);
	assert_true(fabs(history_promise(h, 10, 1, 0, 4, 4) - (1 - none)) < 1e-12);
	/* An answer without a verdict, and one to a task that is not here, change nothing. */
	double before = history_promise(h, 10, 1, 0, 0, 8);
	add(h, 10, 1, "x", "infra");
	add(h, 10, 99, "x", "genuine");
	assert_true(history_promise(h, 10, 1, 0, 0, 8) == before);
	history_free(h);
}

/* The rest of a group is drawn where it differs with a chance of a quarter; what decides is what
 * the run pays for. A letter each of the first answers: genuine, wrong, dropped, and KernelBench's
 * own check beside them. */
static void test_group_pays(void **state)
{
	static const struct {
		const char *verdicts;
		const char *checks; /* +: passes, -: fails, ?: not known */
		int rest;
		bool pays;
		bool pays_stock;
	} rows[] = {
		/* 1 - 4.5/5 5.5/6 6.5/7 7.5/8 is 0.28, and behind five that failed it is 0.246. */
		{"wwww", "????", 4, true, true},
		{"wwwww", "-----", 4, false, false},
		{"gggg", "++++", 4, true, true},
		{"ggggg", "+++++", 4, false, false},
		/* One that is dropped is none of them, whatever its check says. */
		{"wwdww", "--+--", 4, true, true},
		{"wwwwwd", "-----+", 4, false, false},
		/* They differ already. */
		{"wwwwg", "----+", 4, true, true},
		{"wwwww", "---+-", 4, false, true},
		{"wgwww", "-----", 4, true, false},
		{"ggggg", "?++++", 4, false, true},
	};
	struct fixture *f = *state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int is_stock = 0; is_stock < 2; is_stock++) {
			struct history_options o = usual;
			struct rollout first[8] = {0};
			o.is_stock = is_stock;
			struct history *h = history_create(&o, &f->prompts, f->tokenizer);
			int n = (int)strlen(rows[i].verdicts);
			for (int k = 0; k < n; k++) {
				char v = rows[i].verdicts[k], check = rows[i].checks[k];
				first[k].prompt = 3;
				first[k].is_dropped = v == 'd';
				first[k].verdict.class = v == 'g' ? VERDICT_GENUINE : v == 'd' ? VERDICT_INFRA : VERDICT_WRONG;
				first[k].verdict.kernelbench = check == '+' ? 1 : check == '-' ? 0 : -1;
			}
			bool pays = history_group_pays(h, 1, first, n, rows[i].rest);
			if (pays != (is_stock ? rows[i].pays_stock : rows[i].pays))
				fail_msg("%s %s, stock %d: %d", rows[i].verdicts, rows[i].checks, is_stock, pays);
			history_free(h);
		}
	/* What was solved before and is again has nothing to say; where it fails it may. */
	struct history *h = history_create(&usual, &f->prompts, f->tokenizer);
	for (int i = 0; i < 8; i++) add(h, 1, 3, "x", "genuine");
	struct rollout solved[4] = {0}, failed[4] = {0};
	for (int k = 0; k < 4; k++) {
		solved[k].prompt = failed[k].prompt = 3;
		solved[k].verdict.class = VERDICT_GENUINE;
		failed[k].verdict.class = VERDICT_WRONG;
	}
	assert_false(history_group_pays(h, 1, solved, 4, 4));
	assert_true(history_group_pays(h, 1, failed, 4, 4));
	history_free(h);
}

/* Solved and hopeless structures are drawn rarely, uncertain ones often, and structures of one step
 * differ. */
static void test_draws(void **state)
{
	struct fixture *f = *state;
	struct history *h = history_create(&usual, &f->prompts, f->tokenizer);
	for (int i = 0; i < 60; i++) {
		add(h, 1, 0, "x", "genuine"); /* s0: solved */
		add(h, 1, 1, "x", "wrong");   /* s1: hopeless */
		for (int s = 2; s < STRUCTURES; s++) add(h, 1, s, "x", i % 2 ? "genuine" : "wrong");
	}
	int drawn[STRUCTURES] = {0}, tasks[PROMPTS] = {0};
	for (int step = 0; step < 2000; step++) {
		int index[3];
		/* The step of the fold is fixed, so that nothing decays: rounds are draws of their own. */
		history_draw(h, 1, step, NULL, 0, 3, index);
		for (int i = 0; i < 3; i++) {
			drawn[index[i] % STRUCTURES]++;
			tasks[index[i]]++;
			for (int k = 0; k < i; k++) assert_true(index[i] % STRUCTURES != index[k] % STRUCTURES);
		}
	}
	double promise = history_promise(h, 1, 0, 0, 0, 8);
	assert_true(promise < 0.1 && history_promise(h, 1, 2, 0, 0, 8) > 0.95);
	for (int s = 2; s < STRUCTURES; s++) assert_true(abs(drawn[s] - 960) < 120);
	assert_true(drawn[0] < 240 && drawn[1] < 240 && drawn[0] > 10); /* rarely, but not never */
	for (int t = 0; t < PROMPTS; t++)
		if (t % STRUCTURES > 1) assert_true(tasks[t] > 200); /* all tasks of a structure come */
	/* Equal arguments, equal draws; taken structures do not come while others are left. */
	int a[4], b[4], taken[4] = {2, 3, 4, 5};
	history_draw(h, 7, 0, taken, 4, 4, a);
	history_draw(h, 7, 0, taken, 4, 4, b);
	assert_memory_equal(a, b, sizeof a);
	for (int i = 0; i < 4; i++) assert_true(a[i] % STRUCTURES < 2 || a[i] % STRUCTURES > 5);
	/* More prompts than structures: they come again. */
	int many[20];
	history_draw(h, 7, 1, NULL, 0, 20, many);
	history_free(h);
}

/* 1:0.75,2:0.25; level 2 is admitted when half of level 1's answers are genuine. */
static void test_levels(void **state)
{
	struct fixture *f = *state;
	struct history_options o = usual;
	struct err err = {0};
	assert_int_equal(level_weights_parse("1:0.75,2:0.25", o.level_weights, &err), 0);
	assert_true(o.level_weights[1] == 0.75 && o.level_weights[2] == 0.25 && o.level_weights[0] == 0);
	double unused[LEVELS_MAX];
	assert_int_equal(level_weights_parse("1=0.75", unused, &err), ERR_USAGE);
	assert_int_equal(level_weights_parse("1:-2", unused, &err), ERR_USAGE);
	assert_int_equal(level_weights_parse("12:1", unused, &err), ERR_USAGE);
	/* Shares of levels that have prompts, and some share. */
	assert_int_equal(level_weights_check("1:0.75,2:0.25", o.level_weights, &f->prompts, &err), 0);
	assert_int_equal(level_weights_check(NULL, (double[LEVELS_MAX]){0}, &f->prompts, &err), 0);
	assert_int_equal(level_weights_check("1:0", (double[LEVELS_MAX]){0}, &f->prompts, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "expected a weight above 0"));
	assert_int_equal(level_weights_check("1:1,3:1", (double[LEVELS_MAX]){0, 1, 0, 1}, &f->prompts, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "no task is of level 3"));
	/* Before anything is known. */
	o.level_admission = 0.5;
	struct history *h = history_create(&o, &f->prompts, f->tokenizer);
	int index[1], second = 0;
	for (int round = 0; round < 400; round++) {
		history_draw(h, 1, round, NULL, 0, 1, index);
		assert_true(index[0] % STRUCTURES < 6); /* nothing is known of level 1: level 2 waits */
	}
	/* It waits too where a step asks for more prompts than level 1 has structures, or they were
	 * taken. */
	int many[20], taken[6] = {0, 1, 2, 3, 4, 5};
	for (int round = 0; round < 40; round++) {
		history_draw(h, 1, round, taken, round % 7, 20, many);
		for (int i = 0; i < 20; i++) assert_true(many[i] % STRUCTURES < 6);
	}
	/* Two thirds of level 1 are genuine: level 2 comes as often as its share says. */
	for (int i = 0; i < 30; i++) add(h, 1, i % 6, "x", i % 3 ? "genuine" : "wrong");
	for (int round = 0; round < 2000; round++) {
		history_draw(h, 2, round, NULL, 0, 1, index);
		second += index[0] % STRUCTURES >= 6;
	}
	assert_true(abs(second - 500) < 80); /* four standard errors of 2000 draws at a quarter */
	json_t *m = json_object();
	history_metrics(h, 2, m);
	assert_int_equal(json_integer_value(json_object_get(m, "levels/2/admitted")), 1);
	assert_int_equal(json_integer_value(json_object_get(m, "prompts/tried")), 6);
	json_decref(m);
	history_free(h);
}

/* Unique genuine answers alone, as prompt, text and end, drawn by structure
 * and not by their number. */
static void test_buffer(void **state)
{
	struct fixture *f = *state;
	struct history *h = history_create(&usual, &f->prompts, f->tokenizer);
	const struct sft_example *e[4000];
	char long_answer[128];
	assert_int_equal(history_replay(h, 1, 0, 4, e), 0);
	/* What is kept, and what is not. */
	for (int i = 0; i < 9; i++) {
		char answer[16];
		snprintf(answer, sizeof answer, "one %d", i);
		add(h, 1, 3, answer, "genuine");
		add(h, 2, 3, answer, "genuine"); /* again: already there */
	}
	add(h, 1, 4, "one 0", "genuine"); /* the same text to another task is another answer */
	add(h, 1, 5, "no", "wrong");
	memset(long_answer, 'x', sizeof long_answer - 1);
	long_answer[sizeof long_answer - 1] = 0;
	add(h, 1, 5, long_answer, "genuine");        /* does not fit max_tokens */
	add(h, 1, 5, "cut \xef\xbf\xbd", "genuine"); /* bytes that were no text */
	assert_int_equal(history_unique(h), 10);
	assert_int_equal(history_replay(h, 1, 0, 4000, e), 4000);
	/* Every drawn example is whole. */
	int of_four = 0;
	for (int i = 0; i < 4000; i++) {
		struct str back = {0};
		int prompt = e[i]->ids[0] - 40;
		assert_true(prompt == 3 || prompt == 4);
		of_four += prompt == 4;
		assert_int_equal(e[i]->completion_begin, 5);
		assert_int_equal(e[i]->ids[e[i]->count - 1], 256);
		tokenizer_decode(f->tokenizer, e[i]->ids + 5, (size_t)e[i]->count - 6, false, &back);
		assert_int_equal(strncmp(back.data, "one ", 4), 0);
		str_release(&back);
	}
	assert_true(abs(of_four - 2000) < 130); /* half, though it has one answer of ten */
	const struct sft_example *again[4000], *other[4000];
	/* The same draw gives the same batch, another one another. */
	history_replay(h, 1, 0, 4000, again);
	history_replay(h, 1, 1, 4000, other);
	assert_memory_equal(e, again, sizeof e);
	assert_true(memcmp(e, other, sizeof e) != 0);
	history_free(h);
}

/* An answer is cut by the tokenizer again, which may know tokens that the model does not: they are
 * refused by number, and never reach its table of embeddings. */
static void test_ids_of_another_model(void **state)
{
	struct fixture *f = *state;
	struct history_options o = usual;
	struct err err = {0};
	o.vocab_size = 1;
	struct history *h = history_create(&o, &f->prompts, f->tokenizer);
	json_t *row = json_pack("{s:s, s:s, s:{s:s}}", "task", "task-03", "answer", "one", "verdict", "verdict", "genuine");
	assert_int_equal(history_add(h, 1, row, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "task-03: the tokenizer gives id "));
	assert_int_equal(history_unique(h), 0);
	json_decref(row);
	history_free(h);
}

/* Pairs stand beside the buffer, each as a structure of its own: they are there
 * before any answer is. */
static void test_pairs(void **state)
{
	struct fixture *f = *state;
	static const int32_t ids[3] = {90, 91, 256};
	const struct sft_example pairs[3] = {{ids, 3, 1}, {ids, 3, 1}, {ids, 3, 2}};
	struct history_options o = usual;
	o.pairs = pairs;
	o.npairs = 3;
	struct history *h = history_create(&o, &f->prompts, f->tokenizer);
	const struct sft_example *e[4000];
	assert_int_equal(history_replay(h, 1, 0, 400, e), 400);
	for (int i = 0; i < 400; i++) assert_true(e[i] >= pairs && e[i] < pairs + 3);
	for (int i = 0; i < 9; i++) {
		char answer[16];
		snprintf(answer, sizeof answer, "one %d", i);
		add(h, 1, 3, answer, "genuine");
	}
	assert_int_equal(history_unique(h), 9); /* pairs are no answers */
	assert_int_equal(history_replay(h, 1, 0, 4000, e), 4000);
	int count[4] = {0};
	for (int i = 0; i < 4000; i++) count[e[i] >= pairs && e[i] < pairs + 3 ? e[i] - pairs : 3]++;
	for (int i = 0; i < 4; i++)
		assert_true(abs(count[i] - 1000) < 130); /* a quarter each: nearly five standard errors */
	history_free(h);
}

/* Where KernelBench's check is what is paid, success is its word, whatever the verdict. */
static void test_stock(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *verdict, *check; /* null: it could not be computed */
		bool is_kept;
	} cases[] = {{"cheat", "true", true}, {"genuine", "true", true}, {"genuine", "false", false},
		{"wrong", "null", false}, {"infra", "true", false}};
	struct history_options o = usual;
	struct err err = {0};
	o.is_stock = true;
	struct history *h = history_create(&o, &f->prompts, f->tokenizer);
	/* Each row has an answer of its own: what is kept shows in how many there are. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *text = xasprintf("{\"task\": \"task-03\", \"answer\": \"one %zu\", \"verdict\": {\"verdict\": \"%s\", "
							   "\"kernelbench\": {\"correctness\": %s}}}",
			i, cases[i].verdict, cases[i].check);
		json_t *row = NULL;
		assert_int_equal(json_parse(text, strlen(text), "row", &row, &err), 0);
		int before = history_unique(h);
		assert_int_equal(history_add(h, 1, row, &err), 0);
		assert_int_equal(history_unique(h) - before, cases[i].is_kept);
		json_decref(row);
		free(text);
	}
	history_free(h);
}

/* A run that goes on folds what is stored: all draws are those of the run
 * that was never stopped. */
static void test_fold_again(void **state)
{
	struct fixture *f = *state;
	struct history *h[2];
	for (int k = 0; k < 2; k++) {
		h[k] = history_create(&usual, &f->prompts, f->tokenizer);
		for (int step = 1; step <= 20; step++) {
			int index[4];
			/* The one that was never stopped draws between its steps; draws
			 * leave nothing behind. */
			if (k == 0) history_draw(h[0], step, 0, NULL, 0, 4, index);
			for (int i = 0; i < 16; i++) {
				char answer[16];
				uint32_t u = rng_u32(9, (uint64_t)step, (uint64_t)i);
				snprintf(answer, sizeof answer, "two %u", u % 50);
				add(h[k], step, (int)(u >> 8) % PROMPTS, answer, u % 3 ? "wrong" : "genuine");
			}
		}
	}
	for (int prompt = 0; prompt < PROMPTS; prompt++)
		assert_true(history_promise(h[0], 25, prompt, 0, 0, 8) == history_promise(h[1], 25, prompt, 0, 0, 8));
	int a[6], b[6];
	history_draw(h[0], 21, 0, NULL, 0, 6, a);
	history_draw(h[1], 21, 0, NULL, 0, 6, b);
	assert_memory_equal(a, b, sizeof a);
	const struct sft_example *x[32], *y[32];
	assert_int_equal(history_replay(h[0], 21, 3, 32, x), 32);
	assert_int_equal(history_replay(h[1], 21, 3, 32, y), 32);
	for (int i = 0; i < 32; i++) {
		assert_int_equal(x[i]->count, y[i]->count);
		assert_memory_equal(x[i]->ids, y[i]->ids, (size_t)x[i]->count * sizeof *x[i]->ids);
	}
	history_free(h[0]);
	history_free(h[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_promise),
		cmocka_unit_test(test_group_pays),
		cmocka_unit_test(test_draws),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_buffer),
		cmocka_unit_test(test_ids_of_another_model),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_stock),
		cmocka_unit_test(test_fold_again),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
