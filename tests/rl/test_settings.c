/* What a second start of a run is compared with: the settings that its folder remembers, one by
 * one, and what the refusal says. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], *run;

static int folder_make(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-settings-XXXXXX");
	if (!mkdtemp(folder)) return -1;
	run = path_join(folder, "run");
	struct err err = {0};
	return dir_make(run, &err);
}

static int folder_remove(void **state)
{
	free(run);
	return dir_remove(folder, NULL);
}

static json_t *json_of(const char *text)
{
	json_t *o = json_loads(text, JSON_DECODE_ANY, NULL);
	if (!o) fail_msg("%s", text);
	return o;
}

/* A run that was started with `was` and has a step behind it, and a second start with `is`. */
static int settle(const char *was, const char *is, struct err *err)
{
	json_t *first = json_of(was), *second = json_of(is);
	*err = (struct err){0};
	assert_int_equal(rl_settings_settle(run, 0, first, err), 0);
	int rc = rl_settings_settle(run, 1, second, err);
	json_decref(first);
	json_decref(second);
	return rc;
}

static void test_each_setting(void **state)
{
	static const struct {
		const char *was;
		const char *is;
		const char *said; /* NULL: the run goes on */
	} cases[] = {
		{"{\"seed\": 1}", "{\"seed\": 1}", NULL},
		{"{\"seed\": 1}", "{\"seed\": 2}", "started with seed 1, now it is 2;"},
		{"{\"beta\": 0.5}", "{\"beta\": 0.25}", "started with beta 0.5, now it is 0.25;"},
		/* An option that the run did not know, unset and set; one that is known no more. */
		{"{}", "{\"min_p\": null}", NULL},
		{"{}", "{\"min_p\": 0.5}", "started with min_p absent, now it is 0.5;"},
		{"{\"old\": 1}", "{}", NULL},
		{"{\"min_p\": 0.5}", "{\"min_p\": null}", "started with min_p 0.5, now it is null;"},
		/* Hashes by what they are of, and where one of the two has none. */
		{"{\"prompts\": \"a\"}", "{\"prompts\": \"b\"}",
			"with prompts (hash of the rendered tasks) \"a\", now it is \"b\""},
		{"{\"dev\": \"a\"}", "{\"dev\": \"b\"}", "with dev (hash of the rendered dev tasks) \"a\""},
		{"{\"turns\": \"a\"}", "{\"turns\": \"b\"}", "with turns (hash of the text of turn_template) \"a\""},
		{"{\"pairs\": \"a\"}", "{\"pairs\": \"b\"}", "with pairs (hash of the rows of replay_pairs) \"a\""},
		{"{\"weights\": \"a\"}", "{\"weights\": \"b\"}",
			"with weights (hash of the model and adapter at the start) \"a\""},
		{"{\"ranks\": 1}", "{\"ranks\": 2}", "with ranks (processes of the job) 1, now it is 2"},
		{"{\"dev\": \"a\"}", "{}", "\"a\", now it is absent"},
		{"{}", "{\"dev\": \"a\"}", "absent, now it is \"a\""},
		{"{\"dev\": \"a\"}", "{\"dev\": \"a\"}", NULL},
		/* An option says more than the hash that it changes. */
		{"{\"prompts\": \"a\", \"weights\": \"c\", \"tasks\": \"x\"}",
			"{\"prompts\": \"b\", \"weights\": \"d\", \"tasks\": \"y\"}", "with tasks \"x\", now it is \"y\""},
		{"{\"prompts\": \"a\", \"weights\": \"c\"}", "{\"prompts\": \"b\", \"weights\": \"d\"}", "with prompts "},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err;
		int rc = settle(cases[i].was, cases[i].is, &err);
		if (rc != (cases[i].said ? ERR_MISMATCH : 0) || (cases[i].said && !strstr(err.text, cases[i].said)))
			fail_msg("row %zu: %d, %s", i, rc, err.text);
		if (rc) assert_true(strstr(err.text, run) == err.text && strstr(err.text, "choose another --output_dir"));
	}
}

/* A folder or file may be written in several ways; another one with the same name is another. */
static void test_paths(void **state)
{
	struct err err;
	char *here = path_join(folder, "here"), *link = path_join(folder, "link"), *other = path_join(folder, "other");
	char *inside = path_join(other, "here"), *before = getcwd(NULL, 0);
	assert_int_equal(dir_make(here, &err), 0);
	assert_int_equal(dir_make(inside, &err), 0);
	assert_int_equal(symlink("here", link), 0);
	assert_int_equal(chdir(folder), 0);
	const struct {
		const char *was;
		const char *is;
		bool goes_on;
	} cases[] = {
		{"here", here, true},
		{here, "here", true},
		{"here", "./here", true},
		{"link", "other/../here", true},
		{"here", "other", false},
		{"here", inside, false},
		{"gone", "./gone", false},
		{"gone", "gone", true},
		{"here", "gone", false},
		{"gone", "here", false},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		/* As one path, and in a list behind another. */
		for (int is_list = 0; is_list < 2; is_list++) {
			const char *begin = is_list ? "[\"other\", \"" : "\"", *end = is_list ? "\"]" : "\"";
			char *was = xasprintf("{\"p\": %s%s%s}", begin, cases[i].was, end);
			char *is = xasprintf("{\"p\": %s%s%s}", begin, cases[i].is, end);
			int rc = settle(was, is, &err);
			if (rc != (cases[i].goes_on ? 0 : ERR_MISMATCH)) fail_msg("row %zu: %d, %s", i, rc, err.text);
			free(was);
			free(is);
		}
	}
	assert_int_equal(settle("{\"p\": [\"here\"]}", "{\"p\": [\"here\", \"here\"]}", &err), ERR_MISMATCH);
	assert_int_equal(settle("{\"p\": \"here\"}", "{\"p\": [\"here\"]}", &err), ERR_MISMATCH);
	assert_int_equal(chdir(before), 0);
	free(here);
	free(link);
	free(other);
	free(inside);
	free(before);
}

/* Where no step was done the settings are written anew; a folder of others is told from one. */
static void test_folders(void **state)
{
	struct err err = {0};
	char *path = path_join(run, "settings.json");
	json_t *j = json_of("{\"seed\": 5}"), *kept = NULL;
	assert_int_equal(rl_settings_settle(run, 0, j, &err), 0);
	assert_int_equal(json_load(path, 1 << 20, &kept, &err), 0);
	assert_true(json_equal(kept, j));
	json_decref(kept);
	assert_int_equal(unlink(path), 0);
	/* By a folder's checkpoints, of which there are none. */
	assert_int_equal(rl_settings_settle(run, -1, j, &err), 0);
	assert_true(path_exists(path));
	/* So many steps of a policy outside, without a file: nothing to compare with. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rl_settings_settle(run, 3, j, &err), 0);
	assert_true(path_exists(path));
	json_decref(j);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_setting), cmocka_unit_test(test_paths), cmocka_unit_test(test_folders)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
