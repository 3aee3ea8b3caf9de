/* Composed tasks and their reference answers, as text. What the answers compute is checked by
 * test_answers.py, which has this program print them (`test_task_answers --dump SEED COUNT
 * LEVEL_MIN LEVEL_MAX`: one JSON object a line with the task and every answer in every style), and
 * by test_families.py (`--rungs SEED COUNT RUNGS`: every choice). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "task/task.h"
#include "task/task_graph.h"
#include "../leaks.h"
#include <math.h>

static int dump(int argc, char **argv)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = (uint64_t)strtoull(argv[2], NULL, 10),
		.count[TASK_TRAIN] = atoi(argv[3]),
		.count[TASK_TEST] = atoi(argv[3]) / 8,
		.level_min = atoi(argv[4]),
		.level_max = atoi(argv[5])};
	/* Tasks by seed, count and levels, as the Python side asked. */
	if (task_synth(&o, &set, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	/* Each in every style, first the good answers, then the slow ones; a row of JSON for each. */
	for (size_t i = 0; i < set.count; i++)
		for (int k = 0; k < 2 * task_answer_styles(); k++) {
			const struct task *t = &set.tasks[i];
			struct str plan = {0}, code = {0};
			bool is_slow = k >= task_answer_styles();
			int style = k % task_answer_styles(),
				rc = is_slow ? task_answer_slow(t, style, &plan, &code, &err)
							 : task_answer_choice(t, style, 0, &plan, &code, &err);
			if (rc) {
				fprintf(stderr, "%s\n", err.text);
				return 1;
			}
			json_t *row = json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:b, s:s, s:s}", "name", t->name, "level", t->level,
				"structure", t->structure, "split", t->split, "source", t->source, "style", style, "slow", is_slow,
				"plan", plan.data, "code", code.data);
			json_dumpf(row, stdout, JSON_COMPACT);
			putchar('\n');
			json_decref(row);
			str_release(&plan);
			str_release(&code);
		}
	task_set_release(&set);
	return 0;
}

/* Tasks of rungs, in one style after the other and in every choice. */
static int dump_rungs(char **argv)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {
		.seed = (uint64_t)strtoull(argv[2], NULL, 10), .count[TASK_TRAIN] = atoi(argv[3]), .rungs = argv[4]};
	if (task_synth(&o, &set, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	/* Choices are counted until ERR_RANGE says that there are no more; the styles take turns. */
	for (size_t i = 0; i < set.count; i++)
		for (int choice = 0;; choice++) {
			const struct task *t = &set.tasks[i];
			struct str plan = {0}, code = {0};
			int style = (int)((i + (size_t)choice) % (size_t)task_answer_styles()),
				rc = task_answer_choice(t, style, choice, &plan, &code, &err);
			if (!rc) {
				json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s}", "name", t->name, "rung", t->rung,
					"structure", t->structure, "source", t->source, "style", style, "choice", choice, "plan", plan.data,
					"code", code.data);
				json_dumpf(row, stdout, JSON_COMPACT);
				putchar('\n');
				json_decref(row);
			}
			str_release(&plan);
			str_release(&code);
			if (rc == ERR_RANGE && choice > 0) break;
			if (rc) {
				fprintf(stderr, "%s\n", err.text);
				return 1;
			}
		}
	task_set_release(&set);
	return 0;
}

static void same_options_same_bytes(void **state)
{
	struct err err = {0};
	struct task_set a, b, c;
	struct task_synth_options o = {
		.seed = 11, .count[TASK_TRAIN] = 40, .count[TASK_TEST] = 10, .level_min = 1, .level_max = 3};
	assert_int_equal(task_synth(&o, &a, &err), 0);
	assert_int_equal(task_synth(&o, &b, &err), 0);
	o.seed = 12;
	assert_int_equal(task_synth(&o, &c, &err), 0);
	assert_int_equal(a.count, 50);
	int same = 0;
	for (size_t i = 0; i < a.count; i++) {
		assert_string_equal(a.tasks[i].source, b.tasks[i].source);
		assert_string_equal(a.tasks[i].structure, b.tasks[i].structure);
		assert_int_equal(task_check(&a.tasks[i], &err), 0);
		same += !strcmp(a.tasks[i].source, c.tasks[i].source);
	}
	assert_true(same < 5);
	task_set_release(&a);
	task_set_release(&b);
	task_set_release(&c);
}

/* Held-out structures appear in no training task, also across seeds; sources are distinct. */
static void splits_share_nothing(void **state)
{
	struct err err = {0};
	struct task_set s[2];
	struct task_synth_options o = {.seed = 1, .count = {200, 30, 40}, .level_min = 1, .level_max = 2};
	/* Two sets of different seeds. */
	assert_int_equal(task_synth(&o, &s[0], &err), 0);
	o.seed = 2;
	assert_int_equal(task_synth(&o, &s[1], &err), 0);
	int train = 0, held = 0;
	/* A held-out structure of the first against every training task of both. */
	for (size_t i = 0; i < s[0].count; i++) {
		const struct task *a = &s[0].tasks[i];
		if (!strcmp(a->split, "train")) {
			train++;
			continue;
		}
		assert_true(!strcmp(a->split, "dev") || !strcmp(a->split, "test"));
		held++;
		for (int k = 0; k < 2; k++)
			for (size_t j = 0; j < s[k].count; j++)
				if (!strcmp(s[k].tasks[j].split, "train") && !strcmp(s[k].tasks[j].structure, a->structure))
					fail_msg("%s is in both splits", a->structure);
	}
	/* The counts are those that were asked for, and no two sources are equal. */
	assert_int_equal(train, 200);
	assert_int_equal(held, 70);
	for (size_t i = 0; i < s[0].count; i++)
		for (size_t j = 0; j < i; j++) assert_string_not_equal(s[0].tasks[i].hash.text, s[0].tasks[j].hash.text);
	task_set_release(&s[0]);
	task_set_release(&s[1]);
}

/* The digest of tasks and of their answers in every style, fast and slow, in every choice. */
static struct sha256_hex digest_of(const struct task_synth_options *o)
{
	struct err err = {0};
	struct task_set set;
	struct str all = {0};
	if (task_synth(o, &set, &err)) fail_msg("%s", err.text);
	for (size_t i = 0; i < set.count; i++) {
		const struct task *t = &set.tasks[i];
		str_printf(&all, "%s\n%s\n%s\n%s\n%d\n", t->name, t->source, t->structure, t->split, t->level);
		for (int k = 0, rc = 0; !rc && k < (o->rungs ? 4 : 2) * task_answer_styles(); k++) {
			int style = k % task_answer_styles(), choice = k / task_answer_styles();
			rc = o->rungs ? task_answer_choice(t, style, choice, &all, &all, &err)
				: choice  ? task_answer_slow(t, style, &all, &all, &err)
						  : task_answer_choice(t, style, 0, &all, &all, &err);
			if (rc && !(o->rungs && rc == ERR_RANGE)) fail_msg("%s: %s", t->name, err.text);
		}
	}
	struct sha256_hex h = hash_bytes(all.data, all.len);
	str_release(&all);
	task_set_release(&set);
	return h;
}

/* A row of a file holds its task's seed, and has its answers only as long as that seed gives the
 * very same text: files of tasks and pairs outlive the program that wrote them. Whoever changes the
 * composer or the answers on purpose changes these lines with it, and says in CHANGELOG.md that
 * such files are to be written anew. */
static void what_was_composed_is_composed_again(void **state)
{
	/* Graphs cost less than answers: so many of each level and each rung that a chance which is
	 * another by one in a hundred gives another graph somewhere. */
	enum { SEEDS = 800 };
	static struct task_graph g;
	struct str graphs = {0};
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		for (int kind = 0; kind < 8; kind++) {
			if (kind < 3) graph_compose(&g, kind + 1, seed);
			else graph_compose_rung(&g, kind - 3, seed);
			graph_structure(&g, &graphs);
			for (int i = 0; i < g.ndims; i++) str_printf(&graphs, " %s=%d", g.dims[i].name, g.dims[i].value);
			str_puts(&graphs, "\n");
		}
	assert_string_equal(
		hash_bytes(graphs.data, graphs.len).text, "0e26047aa9aa3918a1a4182fa6c81c653aab0ff55965027449f70f692e766091");
	str_release(&graphs);

	struct task_synth_options o = {.seed = 21, .count = {120, 4, 8}, .level_min = 1, .level_max = 3},
							  ladder = {.seed = 22, .count[TASK_TRAIN] = 25, .rungs = "T0,T1,T2,T3,T4"};
	assert_string_equal(digest_of(&o).text, "de28c1cd3b40aa2b1cda4cf2b81f6fc7354a4c9d83f92754ff9444003030c8d9");
	assert_string_equal(digest_of(&ladder).text, "da66666d97a267fc196c029837919378ce9310c09770320451a64027040ca478");
}

/* Where values of a rung's graphs are checked no size is a multiple of a block, and those that a
 * product's tiles walk are larger than a tile: at the task's own sizes masks cut and loops go on,
 * and that has to have been seen. */
static void judged_sizes_leave_rests(void **state)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 3, .count[TASK_TRAIN] = 400, .rungs = "T0,T1,T2,T3,T4"};
	int sizes = 0, tiled = 0;
	if (task_synth(&o, &set, &err)) fail_msg("%s", err.text);
	for (size_t i = 0; i < set.count; i++) {
		const struct task *t = &set.tasks[i];
		const char *at = strstr(t->source, TASK_JUDGED_AT);
		bool is_product = !strncmp(t->structure, "mm:", 3);
		/* Families state their sizes themselves. */
		if (!is_product && strncmp(t->structure, "chain:", 6) && strncmp(t->structure, "ew:", 3) &&
			strncmp(t->structure, "row:", 4))
			continue;
		assert_non_null(at);
		char name[32];
		int value, len;
		for (at += strlen(TASK_JUDGED_AT); sscanf(at, "%31[A-Z]=%d%n", name, &value, &len) == 2;
			at += len + 2 * (at[len] == ',')) {
			assert_int_equal(value % 2, 1);
			sizes++;
			if (!is_product || !strcmp(name, "D")) continue;
			assert_true(value > 64);
			tiled++;
		}
	}
	assert_true(sizes > 200 && tiled > 80);
	task_set_release(&set);
}

static int lines_of(const char *text)
{
	int n = 0;
	for (; *text; text++) n += *text == '\n';
	return n;
}

/* Short and regular: what a small model has to read and write. */
static void texts_stay_short(void **state)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 5, .count[TASK_TRAIN] = 300, .level_min = 1, .level_max = 1};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	for (size_t i = 0; i < set.count; i++) {
		struct str plan = {0}, code = {0};
		assert_int_equal(task_answer_choice(&set.tasks[i], 0, 0, &plan, &code, &err), 0);
		assert_in_range(lines_of(set.tasks[i].source), 14, 22);
		assert_in_range(lines_of(code.data), 20, 32);
		assert_in_range(plan.len, 60, 400);
		str_release(&plan);
		str_release(&code);
	}
	task_set_release(&set);
}

/* What an operator over a row gives, by its definition: of 1, 2, 4, 9 the mean is 4, the
 * deviations -3, -2, 0, 5. */
static void operators_over_rows(void **state)
{
	static const double row[4] = {1, 2, 4, 9};
	static const struct {
		const char *name;
		int n;
		double expected[4];
	} cases[] = {{"sum", 1, {16}}, {"mean", 1, {4}}, {"amax", 1, {9}}, {"amin", 1, {1}}, {"var", 1, {38.0 / 4}},
		{"norm", 1, {10.099504938362077}}, {"layer_norm", 4, {-0.97332801, -0.64888534, 0, 1.62221335}},
		{"l1_norm", 4, {1.0 / 16, 2.0 / 16, 4.0 / 16, 9.0 / 16}},
		{"softmax", 4, {0.000332805, 0.000904658, 0.006684569, 0.992077968}}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		double out[4] = {0};
		op_get(cases[i].name)->eval_row(row, 4, out);
		for (int k = 0; k < cases[i].n; k++)
			if (!(fabs(out[k] - cases[i].expected[k]) < 1e-6))
				fail_msg("%s[%d]: expected %.9g, found %.9g", cases[i].name, k, cases[i].expected[k], out[k]);
	}
}

static void strangers_get_no_answer(void **state)
{
	struct err err = {0};
	struct str plan = {0}, code = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 6, .count[TASK_TRAIN] = 2, .level_min = 2, .level_max = 2};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	struct task t = set.tasks[0];
	t.seed = set.tasks[1].seed;
	assert_int_equal(task_answer_choice(&t, 0, 0, &plan, &code, &err), ERR_NOT_FOUND);
	t.seed = 0;
	assert_int_equal(task_answer_choice(&t, 0, 0, &plan, &code, &err), ERR_NOT_FOUND);
	t.seed = UINT64_MAX;
	assert_int_equal(task_answer_choice(&t, 0, 0, &plan, &code, &err), ERR_NOT_FOUND);
	t = set.tasks[0];
	t.level = 77;
	assert_int_equal(task_answer_choice(&t, 0, 0, &plan, &code, &err), ERR_NOT_FOUND);
	t = set.tasks[0];
	t.structure = (char *)"";
	assert_int_equal(task_answer_choice(&t, 0, 0, &plan, &code, &err), ERR_NOT_FOUND);
	assert_int_equal(task_answer_choice(&set.tasks[0], -1, 0, &plan, &code, &err), ERR_RANGE);
	assert_int_equal(task_answer_choice(&set.tasks[0], task_answer_styles(), 0, &plan, &code, &err), ERR_RANGE);
	assert_int_equal(code.len, 0);
	task_set_release(&set);
}

static void operators_are_kept_to(void **state)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {
		.seed = 4,
		.count[TASK_TRAIN] = 30,
		.count[TASK_DEV] = 5,
		.level_min = 1,
		.level_max = 1,
		.operators = "relu6,tanh,neg,abs,sin",
		.operators_min = 2,
	};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	assert_int_equal(set.count, 35);
	for (size_t i = 0; i < set.count; i++) {
		assert_non_null(strchr(set.tasks[i].structure, ','));
		char *list = xstrdup(set.tasks[i].structure + strlen("chain:")), *rest = list;
		for (char *name; (name = strsep(&rest, ","));)
			assert_true(!strcmp(name, "relu6") || !strcmp(name, "tanh") || !strcmp(name, "neg") ||
				!strcmp(name, "abs") || !strcmp(name, "sin"));
		free(list);
	}
	task_set_release(&set);
}

#define RUNGS "T0,T1,T2,T3,T4"

/* Every rung has its share, says so, and is judged at stated sizes; no structure is in two splits,
 * whatever the seed. */
static void rungs_share_no_structure(void **state)
{
	struct err err = {0};
	struct task_set s[2];
	for (int k = 0; k < 2; k++) {
		struct task_synth_options o = {.seed = 20 + (uint64_t)k, .count = {300, 20, 30}, .rungs = RUNGS};
		assert_int_equal(task_synth(&o, &s[k], &err), 0);
		assert_int_equal(s[k].count, 350);
	}
	int rungs[5] = {0};
	for (size_t i = 0; i < s[0].count; i++) {
		const struct task *a = &s[0].tasks[i];
		rungs[a->rung[1] - '0']++;
		assert_non_null(strstr(a->source, "\n" TASK_JUDGED_AT));
		assert_string_equal(a->split, task_split_name(task_split_of(a->structure)));
		for (int k = 0; k < 2; k++)
			for (size_t j = 0; j < s[k].count; j++)
				if (!strcmp(s[k].tasks[j].structure, a->structure)) assert_string_equal(s[k].tasks[j].split, a->split);
	}
	for (int r = 0; r < 5; r++) assert_int_equal(rungs[r], 70);
	for (int k = 0; k < 2; k++) task_set_release(&s[k]);
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Of 500 answers at least 400 differ (measured: 2,000 a rung give 80 to 99 % distinct ones);
 * choices of one task differ in plan and code, and the first is the best by the family's rule. */
static void answers_of_rungs_differ(void **state)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 8, .count[TASK_TRAIN] = 500, .rungs = RUNGS};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	char **texts = xcalloc(set.count, sizeof *texts);
	size_t distinct = 1, chosen = 0;
	for (size_t i = 0; i < set.count; i++) {
		struct str plan = {0}, code = {0}, plans[2] = {{0}}, codes[2] = {{0}};
		int style = (int)(i % (size_t)task_answer_styles());
		assert_int_equal(task_answer_choice(&set.tasks[i], style, 0, &plan, &code, &err), 0);
		assert_int_equal(task_answer_choice(&set.tasks[i], style, 0, &plans[0], &codes[0], &err), 0);
		assert_string_equal(plan.data, plans[0].data);
		assert_string_equal(code.data, codes[0].data);
		/* Templates that were not expanded would show. */
		assert_null(strchr(code.data, '$'));
		if (!task_answer_choice(&set.tasks[i], style, 1, &plans[1], &codes[1], &err)) {
			chosen++;
			assert_string_not_equal(plans[0].data, plans[1].data);
			assert_string_not_equal(codes[0].data, codes[1].data);
		}
		texts[i] = xasprintf("%s\n%s", plan.data, code.data);
		for (int k = 0; k < 2; k++) {
			str_release(&plans[k]);
			str_release(&codes[k]);
		}
		str_release(&plan);
		str_release(&code);
	}
	qsort(texts, set.count, sizeof *texts, by_text);
	for (size_t i = 1; i < set.count; i++) distinct += strcmp(texts[i - 1], texts[i]) != 0;
	assert_true(distinct >= 400);
	assert_true(chosen >= 100);
	for (size_t i = 0; i < set.count; i++) free(texts[i]);
	free(texts);
	task_set_release(&set);
}

static int count_of(const struct task_set *set, const char *text)
{
	int n = 0;
	for (size_t i = 0; i < set->count; i++) n += strstr(set->tasks[i].source, text) != NULL;
	return n;
}

/* References of rungs are written in many manners, so that no single one is what a model learns to
 * read; those of levels in one. What a name means is never lost: a size that is used is defined,
 * and nothing is called F that was not imported. */
static void rungs_are_written_in_many_manners(void **state)
{
	static const char *const MARKS[] = {"    \"\"\"", "\n\n\nclass ", "FEATURES = ", "forward(self, input",
		"        return y\n", "dim=1)", "dim=-1)", "torch.randn(BATCH, ROWS, COLS)", ") * 2.0", ".pow(2).mean(",
		"F.softmax(", ".softmax(dim"};
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 5, .count[TASK_TRAIN] = 600, .rungs = "T2"},
							  levels = {.seed = 5, .count[TASK_TRAIN] = 200, .level_min = 2, .level_max = 2};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(MARKS); i++)
		if (count_of(&set, MARKS[i]) < 3 || count_of(&set, MARKS[i]) > 500)
			fail_msg("%d of %zu sources have \"%s\"", count_of(&set, MARKS[i]), set.count, MARKS[i]);
	/* Every source in itself: what it says of sizes and of F. */
	for (size_t i = 0; i < set.count; i++) {
		const char *source = set.tasks[i].source, *at = strstr(source, TASK_JUDGED_AT);
		char name[32], definition[48];
		int len;
		bool imports = strstr(source, "functional as F\n") != NULL;
		assert_true(imports || (!strstr(source, " F.") && !strstr(source, "(F.") && !strstr(source, "-F.")));
		for (at += strlen(TASK_JUDGED_AT); sscanf(at, "%31[A-Z]=%*d%n", name, &len) == 1;
			at += len + 2 * (at[len] == ',')) {
			snprintf(definition, sizeof definition, "\n%s = ", name);
			assert_non_null(strstr(source, definition));
		}
	}
	task_set_release(&set);
	/* What levels compose has one manner: files of theirs are as they were. */
	assert_int_equal(task_synth(&levels, &set, &err), 0);
	assert_int_equal(count_of(&set, "    \"\"\"") + count_of(&set, "\n\n\n"), 0);
	assert_int_equal(count_of(&set, "functional as F\n"), (int)set.count);
	task_set_release(&set);
}

/* The sizes decide: short, middling and long rows get other answers first. */
static void choices_follow_sizes(void **state)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = 3, .count[TASK_TRAIN] = 600, .rungs = "T2"};
	int many = 0, held = 0, walked = 0;
	assert_int_equal(task_synth(&o, &set, &err), 0);
	/* The softmax tasks, by the length of their rows; the plan's words tell which answer it is. */
	for (size_t i = 0; i < set.count; i++) {
		const struct task *t = &set.tasks[i];
		struct str plan = {0}, code = {0};
		if (strncmp(t->structure, "row_softmax:", 12) != 0) continue;
		/* The length is the last of the sizes, whatever it is called. */
		const char *last = strstr(t->source, "\nclass ");
		while (*last != '=') last--;
		int n = atoi(last + 1);
		assert_int_equal(task_answer_choice(t, 0, 0, &plan, &code, &err), 0);
		bool is_many = strstr(plan.data, "rows at once") != NULL,
			 is_held = strstr(plan.data, "one block of the next") != NULL;
		assert_int_equal(is_many, n <= 256);
		assert_int_equal(is_held, n > 256 && n <= 8192);
		many += is_many;
		held += is_held;
		walked += !is_many && !is_held;
		str_release(&plan);
		str_release(&code);
	}
	/* All three ways occurred. */
	assert_true(many > 0 && held > 0 && walked > 0);
	task_set_release(&set);
}

static void bad_options_are_refused(void **state)
{
	struct err err = {0};
	struct task_set set;
	const struct task_synth_options BAD[] = {
		{.count[TASK_TRAIN] = 1, .level_min = 0, .level_max = 1},
		{.count[TASK_TRAIN] = 1, .level_min = 2, .level_max = 1},
		{.count[TASK_TRAIN] = 1, .level_min = 1, .level_max = 4},
		{.count[TASK_TRAIN] = -1, .level_min = 1, .level_max = 1},
		{.count[TASK_TRAIN] = 2000000, .level_min = 1, .level_max = 1},
		{.count = {0, -1, 2}, .level_min = 1, .level_max = 1},
		{.count[TASK_TRAIN] = 1, .level_min = 1, .level_max = 1, .operators = "relu,rel"},
		{.count[TASK_TRAIN] = 1, .level_min = 1, .level_max = 1, .operators = "relu,,abs"},
		{.count[TASK_TRAIN] = 1, .level_min = 1, .level_max = 1, .operators_min = 4},
		{.count[TASK_TRAIN] = 1, .rungs = "T5"},
		{.count[TASK_TRAIN] = 1, .rungs = "T1,T1"},
		{.count[TASK_TRAIN] = 1, .rungs = "T1," RUNGS},
		{.count[TASK_TRAIN] = 1, .rungs = "T1", .operators = "relu"},
	};
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) assert_true(task_synth(&BAD[i], &set, &err) < 0);
}

/* Level 1 has at most three operators: twenty million draws would find
 * nothing, and are not made. */
static void an_empty_space_is_given_up(void **state)
{
	struct err err = {0};
	struct task_set set;
	const struct task_synth_options o = {
		.count[TASK_TRAIN] = 100000, .level_min = 1, .level_max = 1, .operators_min = 4};
	assert_int_equal(task_synth(&o, &set, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text,
		"found 0 of 100000 training, 0 of 0 dev and 0 of 0 test tasks, and the last 20000 of 20000 draws gave no new "
		"one"));
}

/* Tasks of every level and rung, and each of their answers. */
static void everything(void *ctx)
{
	static const struct task_synth_options ways[] = {
		{.seed = 1, .count = {[TASK_TRAIN] = 12, [TASK_TEST] = 1}, .level_min = 1, .level_max = 3},
		{.seed = 2, .count = {[TASK_TRAIN] = 12}, .rungs = "T2"}};
	for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
		struct err err = {0};
		struct task_set set;
		if (task_synth(&ways[w], &set, &err)) continue;
		for (size_t i = 0; i < set.count; i++)
			for (int k = 0; k < 4 * task_answer_styles(); k++) {
				struct str plan = {0}, code = {0};
				int style = k % task_answer_styles(), kind = k / task_answer_styles();
				if (kind == 3) task_answer_slow(&set.tasks[i], style, &plan, &code, &err);
				else task_answer_choice(&set.tasks[i], style, kind, &plan, &code, &err);
				str_release(&plan);
				str_release(&code);
			}
		task_set_release(&set);
	}
}

static void nothing_is_left(void **state) { leaves_nothing(everything, NULL); }

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "--dump")) return dump(argc, argv);
	if (argc == 5 && !strcmp(argv[1], "--rungs")) return dump_rungs(argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_options_same_bytes),
		cmocka_unit_test(splits_share_nothing),
		cmocka_unit_test(what_was_composed_is_composed_again),
		cmocka_unit_test(judged_sizes_leave_rests),
		cmocka_unit_test(texts_stay_short),
		cmocka_unit_test(operators_over_rows),
		cmocka_unit_test(strangers_get_no_answer),
		cmocka_unit_test(operators_are_kept_to),
		cmocka_unit_test(rungs_share_no_structure),
		cmocka_unit_test(answers_of_rungs_differ),
		cmocka_unit_test(rungs_are_written_in_many_manners),
		cmocka_unit_test(choices_follow_sizes),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(an_empty_space_is_given_up),
		cmocka_unit_test(nothing_is_left),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
