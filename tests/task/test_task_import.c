/* Problem ids, rows of KernelBench's dataset, smaller sizes, and files that only look like
 * somebody's task set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "task/task.h"
#include "task/task_graph.h"
#include "../leaks.h"

#define GOOD "class Model:\n    pass\ndef get_inputs():\n    return []\ndef get_init_inputs():\n    return []\n"
#define ESCAPED "class Model:\\n    pass\\ndef get_inputs():\\n    return []\\ndef get_init_inputs():\\n" \
	"    return []\\n"

static char folder[64];

static int setup(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-test-import-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	struct err err;
	return dir_remove(folder, &err);
}

static char *place(const char *name, const char *text)
{
	struct err err = {0};
	char *path = path_join(folder, name);
	if (text) assert_int_equal(file_write_atomic(path, text, strlen(text), &err), 0);
	return path;
}

static void names_give_problem_ids(void **state)
{
	static const struct {
		const char *name;
		int64_t id;
	} cases[] = {
		{"19_ReLU", 19},
		{"100_HingeLoss", 100},
		{"a/level1/7_x", 7},
		{"ReLU", 0},
		{"19ReLU", 0},
		{"19", 0},
		{"_19", 0},
		{"19_a/ReLU", 0},
		{"1234567890_x", 0},
	};
	/* A file of one row with that name. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		struct task_set set;
		char *row = xasprintf("{\"name\": \"%s\", \"source\": \"" ESCAPED "\"}\n", cases[i].name),
			 *path = place("one.jsonl", row);
		assert_int_equal(task_set_load(path, &set, &err), 0);
		assert_int_equal(set.tasks[0].problem_id, cases[i].id);
		task_set_release(&set);
		free(row);
		free(path);
	}
}

static void dataset_rows_are_named_as_files(void **state)
{
	struct err err = {0};
	struct task_set set, again;
	char *path = place("rows.jsonl",
			 "{\"code\": \"" ESCAPED "\", \"level\": 2, \"name\": \"1_Conv2D (3x3)\", \"problem_id\": 41}\n"
			 "{\"code\": \"" ESCAPED "\", \"level\": 1, \"name\": \"1_Conv2D\", \"extra\": [1]}\n"),
		 *copy = place("copy.jsonl.gz", NULL);
	/* A row of KernelBench's dataset has the name that its file would have. */
	assert_int_equal(task_set_load(path, &set, &err), 0);
	assert_int_equal(set.count, 2);
	assert_string_equal(set.tasks[0].name, "level2/1_Conv2D__3x3_");
	assert_int_equal(set.tasks[0].level, 2);
	assert_int_equal(set.tasks[0].problem_id, 41); /* the column, not the name */
	assert_string_equal(set.tasks[1].name, "level1/1_Conv2D");
	assert_int_equal(set.tasks[1].problem_id, 1);
	/* Saved and loaded again, names and ids are the same. */
	assert_int_equal(task_set_save(copy, &set, &err), 0);
	assert_int_equal(task_set_load(copy, &again, &err), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(again.tasks[i].name, set.tasks[i].name);
		assert_int_equal(again.tasks[i].problem_id, set.tasks[i].problem_id);
	}
	task_set_release(&set);
	task_set_release(&again);
	free(path);
	free(copy);
}

static void bad_rows_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"{\"code\": \"" ESCAPED "\", \"name\": \"1_a\"}\n", "level"},
		{"{\"code\": \"" ESCAPED "\", \"level\": 0, \"name\": \"1_a\"}\n", "level"},
		{"{\"code\": \"" ESCAPED "\", \"level\": 1}\n", "name"},
		{"{\"code\": 3, \"level\": 1, \"name\": \"1_a\"}\n", "code"},
		{"{\"code\": \"x = 1\", \"level\": 1, \"name\": \"1_a\"}\n", "class Model"},
		{"{\"code\": \"" ESCAPED "\", \"level\": 1, \"name\": \"1_a\", \"problem_id\": -1}\n", "problem_id"},
		{"{\"code\": \"" ESCAPED "\", \"level\": 1, \"name\": \"1_a\"}\n{\"code\": \"" ESCAPED
		 "\", \"level\": 1, \"name\": \"1_a\"}\n",
			"two tasks are named level1/1_a"},
		{"{\"code\": \"" ESCAPED "\", \"level\": 1, \"name\": \"\"}\n", "name"},
	};
	/* The message names the file and what is wrong with the row. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		struct task_set set;
		char *path = place("bad.jsonl", cases[i].text);
		assert_int_not_equal(task_set_import(path, &set, &err), 0);
		if (!strstr(err.text, cases[i].expected) || !strstr(err.text, "bad.jsonl"))
			fail_msg("case %zu: %s", i, err.text);
		free(path);
	}
}

/* The reader's process refuses; nothing crashes, nothing is left of the set. */
static void files_that_look_like_sets_are_refused(void **state)
{
	static const struct {
		const char *name, *text, *expected;
	} cases[] = {
		{"rows.json", "[{\"file\": \"a.py\"}]", "folder"},
		{"cut.json", "  [1, 2", "folder"},
		{"junk.parquet", "PAR1 and then nothing of the kind", "pa"},
		{"empty.parquet", "", "pa"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		struct task_set set;
		char *path = place(cases[i].name, cases[i].text);
		assert_int_equal(task_set_import(path, &set, &err), ERR_FORMAT);
		if (!strstr(err.text, cases[i].expected) || !strstr(err.text, cases[i].name))
			fail_msg("%s: %s", cases[i].name, err.text);
		assert_null(set.tasks);
		free(path);
	}
}

static int count_fds(const char *name, void *ctx)
{
	(void)name;
	++*(int *)ctx;
	return 0;
}

/* A reader that cannot be started is an error, and its pipes are closed. */
static void a_reader_that_is_not_there(void **state)
{
	struct err err = {0};
	struct task_set set;
	char *path = place("rows.parquet", "PAR1");
	int before = 0, after = 0;
	setenv("HONE_PYTHON", "/no/such/python", 1);
	assert_int_equal(dir_each("/proc/self/fd", count_fds, &before, &err), 0);
	assert_int_not_equal(task_set_import(path, &set, &err), 0);
	assert_int_equal(dir_each("/proc/self/fd", count_fds, &after, &err), 0);
	unsetenv("HONE_PYTHON");
	assert_int_equal(after, before);
	free(path);
}

/* A row that is none is named by its place among those that the reader found, from 1 on. */
static void rows_are_counted_from_one(void **state)
{
	struct err err = {0};
	struct task_set set;
	char *path = place("counted.parquet", "PAR1"),
		 *reader = place(
			 "reader.sh", "#!/bin/sh\nprintf '%s\\n' '{\"name\": \"1_a\", \"source\": \"" ESCAPED "\"}' 7\n");
	assert_int_equal(chmod(reader, 0755), 0);
	setenv("HONE_PYTHON", reader, 1);
	assert_int_equal(task_set_import(path, &set, &err), ERR_FORMAT);
	unsetenv("HONE_PYTHON");
	if (!strstr(err.text, "counted.parquet: row 2: expected an object")) fail_msg("%s", err.text);
	free(reader);
	free(path);
}

static struct task task_of(const char *source)
{
	return (struct task){.source = xstrdup(source), .hash = task_source_hash(source, strlen(source))};
}

static void sizes_are_halved_where_they_stand(void **state)
{
	struct task t = task_of("N = 4096 * 2\nM, K = 1024, 7\nP = 1_000\neps = 1e-5\nbig = 0x1000\n"
							"huge = 10000000000000000000000\nscale = 4096.0\nname = "
							"\"4096\"  # 4096\nshape = (\n    512,\n"
							"    64)\nclass Model:\n    def f(self, n=4096):\n"
							"        k = 4096\ndef get_inputs():\n    x = 300\n    return [rand(N, 128)]\ndef "
							"get_init_inputs():\n    return [4096]\ndef other():\n    y = 4096\n");
	struct sha256_hex before = t.hash;
	assert_true(task_shrink(&t, 64));
	/* Left alone are strings, comments, floats, hexadecimal numbers, numbers that no size has and
	 * code that is not about sizes. 1000 halves to 500, 250, 125, 63. */
	assert_string_equal(t.source,
		"# Sizes over 64 were halved until they fit.\nN = 64 * 2\nM, K = 64, 7\nP = 63\neps = 1e-5\nbig = "
		"0x1000\nhuge = 10000000000000000000000\nscale = 4096.0\n"
		"name = \"4096\"  # 4096\nshape = (\n    64,\n    64)\n"
		"class Model:\n    def f(self, n=4096):\n        k = 4096\ndef get_inputs():\n    x = 38\n    return [rand(N, "
		"64)]\ndef get_init_inputs():\n"
		"    return [64]\ndef other():\n    y = 4096\n");
	assert_string_not_equal(t.hash.text, before.text);
	assert_string_equal(t.hash.text, task_source_hash(t.source, strlen(t.source)).text);
	assert_false(task_shrink(&t, 64));
	free(t.source);
}

static void shrinking_survives_anything(void **state)
{
	static const char *const texts[] = {"", "=", "N = 99999999999999999999999", "N = 999999999999999999",
		"N = 5 = 1000", "def get_inputs(", "N = \"\"\"1000", "1000 = 1000", "N = 1000\\\n", "\tN = 1000"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct task t = task_of(texts[i]);
		task_shrink(&t, 1);
		assert_false(task_shrink(&t, 1)); /* nothing over it is left */
		free(t.source);
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	sizes_are_halved_where_they_stand(NULL);
	shrinking_survives_anything(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_give_problem_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(dataset_rows_are_named_as_files, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_rows_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(files_that_look_like_sets_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_that_is_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(rows_are_counted_from_one, setup, teardown),
		cmocka_unit_test(sizes_are_halved_where_they_stand),
		cmocka_unit_test(shrinking_survives_anything),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
