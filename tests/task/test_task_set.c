/* Task sets on disk, the source hash, task_check: round trips, and every kind of bad row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <unistd.h>
#include "task/task.h"
#include "task/task_graph.h"
#include "../leaks.h"

#define GOOD "class Model:\n    pass\ndef get_inputs():\n    return []\ndef get_init_inputs():\n    return []\n"

static char folder[64];

static int setup(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-test-task-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	struct err err;
	return dir_remove(folder, &err);
}

static char *place(const char *name) { return path_join(folder, name); }

static void write_text(const char *name, const char *text, size_t len)
{
	struct err err = {0};
	char *path = place(name);
	assert_int_equal(file_write_atomic(path, text, len, &err), 0);
	free(path);
}

static bool same_hash(const char *a, const char *b)
{
	return !strcmp(task_source_hash(a, strlen(a)).text, task_source_hash(b, strlen(b)).text);
}

static void hash_ignores_layout_and_comments(void **state)
{
	assert_true(same_hash("x = 1  # note\n", "\n\nx=1\n"));
	assert_true(same_hash("if a:\n    b()\n", "if a :\n\tb( )   # c\n\n"));
	assert_true(same_hash("f(a,\n  b)\n", "f(a, b)"));
	assert_true(same_hash("a = 1 + \\\n  2\n", "a = 1 + 2\n"));
	assert_true(same_hash("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"));
	assert_true(same_hash("if a:\n    b()\n    c()\n", "if a:\n    b()\n    \\\nc()\n"));
	assert_false(same_hash("x = 1\n", "x = 2\n"));
	assert_false(same_hash("ab = 1\n", "a b = 1\n"));
	assert_false(same_hash("x = 1\ny = 2\n", "x = 1 y = 2\n"));
	assert_false(same_hash("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()\n"));
	assert_false(same_hash("x = 'a # b'\n", "x = 'a # c'\n"));
	assert_false(same_hash("x = 'a b'\n", "x = 'ab'\n"));
	assert_false(same_hash("s = \"\"\"# a\n\"\"\"\n", "s = \"\"\"# b\n\"\"\"\n"));
	assert_false(same_hash("s = r'\\' # a'\n", "s = r'\\' # b'\n"));
	assert_true(same_hash("x = 1e-5\n", "x = 1e-5 # n"));
	assert_false(same_hash("x = 1e-5\n", "x = 1e - 5\n"));
	assert_true(same_hash("f(b'x')\n", "f( b'x' )\n"));
}

/* Any bytes: no crash, and the hash stays a function of the bytes. Every prefix of a source with
 * all kinds of tokens, and random bytes. */
static void hash_survives_anything(void **state)
{
	const char *all = "def f(x, *, y=1.5e-3):\n\t'''doc # not\n '' ''' # yes\n\treturn [x, rb'\\'\"', f\"{x!r:>{y}}\", "
					  "0xfe, .5, x if y else \\\n z]\n@d\n"
					  "class A: pass\n";
	for (size_t n = 0; n <= strlen(all); n++) task_source_hash(all, n);
	char noise[200];
	for (uint32_t seed = 0; seed < 3000; seed++) {
		size_t n = rng_u32(seed, 0, 999) % sizeof noise;
		for (size_t i = 0; i < n; i++)
			noise[i] = seed % 2 ? (char)rng_u32(seed, 1, i) : all[rng_u32(seed, 1, i) % strlen(all)];
		assert_string_equal(task_source_hash(noise, n).text, task_source_hash(noise, n).text);
	}
}

static void check_wants_the_three_names(void **state)
{
	struct err err = {0};
	struct task t = {.name = (char *)"t", .source = (char *)GOOD};
	assert_int_equal(task_check(&t, &err), 0);
	t.source = (char *)"class Model:\n    def get_inputs(self): pass\ndef get_init_inputs(): pass\n";
	assert_int_equal(task_check(&t, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "get_inputs"));
	t.source = (char *)"class ModelNew: pass\n# class Model\ns = 'class Model'\ndef get_inputs(): pass\ndef "
					   "get_init_inputs(): pass\n";
	assert_int_equal(task_check(&t, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "class Model"));
	/* Model may be another class by that name, but at the top level alone. */
	t.source = (char *)"class Norm: pass\nModel = Norm\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n";
	assert_int_equal(task_check(&t, &err), 0);
	t.source = (char *)"class Norm:\n    Model = 3\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n";
	assert_int_equal(task_check(&t, &err), ERR_FORMAT);
	t.source = (char *)GOOD "s = '\xff'\n";
	assert_int_equal(task_check(&t, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "UTF-8"));
	struct str big = {0};
	str_puts(&big, GOOD);
	while (big.len <= TASK_SOURCE_BYTES_MAX) str_puts(&big, "x = 1\n");
	t.source = big.data;
	assert_int_equal(task_check(&t, &err), ERR_LIMIT);
	str_release(&big);
}

static void sets_equal(const struct task_set *a, const struct task_set *b)
{
	assert_int_equal(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		assert_string_equal(a->tasks[i].name, b->tasks[i].name);
		assert_string_equal(a->tasks[i].source, b->tasks[i].source);
		assert_string_equal(a->tasks[i].structure, b->tasks[i].structure);
		assert_string_equal(a->tasks[i].split, b->tasks[i].split);
		assert_int_equal(a->tasks[i].level, b->tasks[i].level);
		assert_true(a->tasks[i].seed == b->tasks[i].seed);
		assert_string_equal(a->tasks[i].hash.text, b->tasks[i].hash.text);
	}
}

static void every_form_round_trips(void **state)
{
	static const char *const FORMS[] = {"a.jsonl", "a.jsonl.gz", "tree"};
	struct err err = {0};
	struct task_set set, back;
	struct task_synth_options o = {
		.seed = 3, .count[TASK_TRAIN] = 20, .count[TASK_TEST] = 4, .level_min = 1, .level_max = 3};
	assert_int_equal(task_synth(&o, &set, &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) {
		char *path = place(FORMS[i]);
		assert_int_equal(task_set_save(path, &set, &err), 0);
		assert_int_equal(task_set_load(path, &back, &err), 0);
		sets_equal(&set, &back);
		task_set_release(&back);
		free(path);
	}
	task_set_release(&set);
}

static void folders_give_names_and_levels(void **state)
{
	struct err err = {0};
	struct task_set set;
	char *kb = place("kb"), *one = place("kb/level2"), *two = place("kb/level1"), *hidden = place("kb/__pycache__");
	assert_int_equal(dir_make(one, &err) | dir_make(two, &err) | dir_make(hidden, &err), 0);
	/* Three tasks, one with a name that needs cleaning, and two files that are none. */
	write_text("kb/level2/7_Fused.py", GOOD, strlen(GOOD));
	write_text("kb/level1/19_ReLU.py", GOOD, strlen(GOOD));
	write_text("kb/level2/8 a\xc3\xa9 (2).py", GOOD, strlen(GOOD));
	write_text("kb/readme.txt", "no task", 7);
	write_text("kb/__pycache__/x.py", "no task", 7);
	/* Sorted by name; the level is the folder's. */
	assert_int_equal(task_set_load(kb, &set, &err), 0);
	assert_int_equal(set.count, 3);
	assert_string_equal(set.tasks[0].name, "level1/19_ReLU");
	assert_int_equal(set.tasks[0].level, 1);
	assert_string_equal(set.tasks[1].name, "level2/7_Fused");
	assert_int_equal(set.tasks[1].level, 2);
	assert_string_equal(set.tasks[2].name, "level2/8_a____2_");
	task_set_release(&set);
	/* A file by itself has no folder in its name. */
	char *file = path_join(two, "19_ReLU.py");
	assert_int_equal(task_set_load(file, &set, &err), 0);
	assert_string_equal(set.tasks[0].name, "19_ReLU");
	task_set_release(&set);
	free(file);
	free(kb);
	free(one);
	free(two);
	free(hidden);
}

static void bad_rows_name_file_and_line(void **state)
{
	struct {
		const char *row, *says;
	} BAD[] = {
		{"{\"name\": \"a\"", "bad.jsonl:2"},
		{"[]", "expected an object"},
		{"{\"source\": \"x\"}", "name"},
		{"{\"name\": \"b\"}", "source"},
		{"{\"name\": \"../b\", \"source\": \"SRC\"}", "task name"},
		{"{\"name\": \"b/.c\", \"source\": \"SRC\"}", "task name"},
		{"{\"name\": \"b\", \"source\": \"x = 1\"}", "class Model"},
		{"{\"name\": \"b\", \"source\": 3}", "source"},
		{"{\"name\": \"b\", \"source\": \"SRC\", \"level\": 12}", "level"},
		{"{\"name\": \"b\", \"source\": \"SRC\", \"seed\": -1}", "seed"},
		{"{\"name\": \"b\", \"source\": \"SRC\", \"split\": \"heldout\"}", "split"},
		{"{\"name\": \"b\", \"source\": \"SRC\", \"structure\": \"chain:a0\", \"split\": \"train\"}",
			"belongs to test"},
		{"{\"name\": \"b\", \"source\": \"SRC\", \"structure\": \"chain:a0\", \"split\": \"hand\"}", "belongs to test"},
		{"{\"name\": \"a\", \"source\": \"SRC\"}", "two tasks are named a"},
		{"{\"name\": \"b\", \"source\": \"a\\u0000b\"}", "bad.jsonl:2"},
	};
	const char *source = "class Model: pass\\ndef get_inputs(): pass\\ndef get_init_inputs(): pass\\n";
	char *path = place("bad.jsonl");
	/* Each bad row stands second, after a good one; SRC in it is a good source. */
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		struct str text = {0};
		struct err err = {0};
		struct task_set set;
		str_printf(&text, "{\"name\": \"a\", \"source\": \"%s\"}\n", source);
		const char *mark = strstr(BAD[i].row, "SRC");
		if (mark) str_printf(&text, "%.*s%s%s\n", (int)(mark - BAD[i].row), BAD[i].row, source, mark + 3);
		else str_printf(&text, "%s\n", BAD[i].row);
		write_text("bad.jsonl", text.data, text.len);
		assert_true(task_set_load(path, &set, &err) < 0);
		assert_int_equal(set.count, 0);
		if (!strstr(err.text, BAD[i].says) || !strstr(err.text, "bad.jsonl")) fail_msg("row %zu: %s", i, err.text);
		str_release(&text);
	}
	struct err err = {0};
	struct task_set set;
	/* A NUL inside of a row, and no file. */
	write_text("bad.jsonl", "{\"name\": \"a\0b\"}\n", 17);
	assert_true(task_set_load(path, &set, &err) < 0);
	free(path);
	assert_int_equal(task_set_load("/no/such/file", &set, &err), ERR_NOT_FOUND);
}

/* Places of these names (the first 32 bits of their SHA-256 over 2^32, by Python's hashlib):
 * 0.0049, 0.0651, 0.0800, 0.0971, 0.1 and more. */
static void splits_follow_the_hash(void **state)
{
	assert_int_equal(task_split_of("chain:a0"), TASK_TEST);
	assert_int_equal(task_split_of("chain:a65"), TASK_TEST);
	assert_int_equal(task_split_of("chain:a39"), TASK_DEV);
	assert_int_equal(task_split_of("chain:a192"), TASK_DEV);
	assert_int_equal(task_split_of("relu"), TASK_TRAIN);
	const char *split;
	struct err err = {0};
	assert_int_equal(task_split_settle("chain:a39", "", "row", &split, &err), 0);
	assert_string_equal(split, "dev"); /* a row without a label gets its structure's */
	assert_int_equal(task_split_settle("", "hand", "row", &split, &err), 0);
	assert_string_equal(split, "hand");
	assert_int_equal(task_split_settle("chain:a39", "test", "row 7", &split, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "row 7"));
	/* Shares of many: 20,000 draws stand within four standard errors (0.0072 and 0.0048). */
	int count[TASK_SPLIT_COUNT] = {0};
	for (int i = 0; i < 20000; i++) {
		char name[32];
		snprintf(name, sizeof name, "chain:%d", i);
		count[task_split_of(name)]++;
	}
	assert_true(abs(count[TASK_TEST] - 1400) < 144 && abs(count[TASK_DEV] - 600) < 96);
}

static void cut_gzip_is_an_error(void **state)
{
	struct err err = {0};
	struct str bytes = {0};
	struct task_set set, back;
	struct task_synth_options o = {.seed = 9, .count[TASK_TRAIN] = 30, .level_min = 1, .level_max = 1};
	char *path = place("cut.jsonl.gz");
	assert_int_equal(task_synth(&o, &set, &err), 0);
	assert_int_equal(task_set_save(path, &set, &err), 0);
	assert_int_equal(file_read(path, 1 << 20, &bytes, &err), 0);
	for (size_t n = 1; n < bytes.len; n += 97) {
		write_text("cut.jsonl.gz", bytes.data, n);
		if (task_set_load(path, &back, &err) == 0)
			fail_msg("%zu of %zu bytes were taken for a whole set", n, bytes.len);
	}
	str_release(&bytes);
	task_set_release(&set);
	free(path);
}

static void names_that_leave_the_folder_are_not_saved(void **state)
{
	struct err err = {0};
	struct task t = {.name = (char *)"../evil", .source = (char *)GOOD, .structure = (char *)"", .split = (char *)""};
	struct task_set set = {.tasks = &t, .count = 1};
	char *path = place("out");
	assert_int_equal(task_set_save(path, &set, &err), ERR_FORMAT);
	free(path);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	hash_ignores_layout_and_comments(NULL);
	hash_survives_anything(NULL);
	check_wants_the_three_names(NULL);
	every_form_round_trips(NULL);
	folders_give_names_and_levels(NULL);
	bad_rows_name_file_and_line(NULL);
	splits_follow_the_hash(NULL);
	cut_gzip_is_an_error(NULL);
	names_that_leave_the_folder_are_not_saved(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash_ignores_layout_and_comments),
		cmocka_unit_test(hash_survives_anything),
		cmocka_unit_test(check_wants_the_three_names),
		cmocka_unit_test(every_form_round_trips),
		cmocka_unit_test(folders_give_names_and_levels),
		cmocka_unit_test(bad_rows_name_file_and_line),
		cmocka_unit_test(splits_follow_the_hash),
		cmocka_unit_test(cut_gzip_is_an_error),
		cmocka_unit_test(names_that_leave_the_folder_are_not_saved),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
