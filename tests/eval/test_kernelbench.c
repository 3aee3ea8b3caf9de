/* Run folders and KernelBench's results, times and analysis, without a verdict being
 * made: numbers by hand. */
#include "eval/eval.h"

#include <math.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];

#define TASK(name_, level_, id) {.name = (char *)(uintptr_t)name_, .level = level_, .problem_id = id}
static struct task tasks[] = {TASK("level1/3_Relu", 1, 3), TASK("level1/12_Twice", 1, 12), TASK("level1/7_Half", 1, 7),
	TASK("level1/9_Sum", 1, 9), TASK("level2/3_Square", 2, 3), TASK("mine", 0, 0)};
static const struct task_set set = {tasks, ARRAY_LEN(tasks)};

static void write_file(const char *name, const char *text)
{
	struct err err = {0};
	char *path = path_join(folder, name);
	if (file_write_atomic(path, text, strlen(text), &err)) fail_msg("%s", err.text);
	free(path);
}

static int folder_make(void **state)
{
	strcpy(folder, "/tmp/hone-test-eval-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}
static int folder_remove(void **state) { return dir_remove(folder, NULL); }

/* ---- run folders ---- */

static void expect_refused(int level, int code, const char *words)
{
	struct run_folder r;
	struct err err = {0};
	assert_int_equal(run_folder_open(folder, level, &set, "set", &r, &err), code);
	if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
	run_folder_release(&r);
}

static void test_run_folder(void **state)
{
	struct run_folder r;
	struct err err = {0};
	expect_refused(0, ERR_NOT_FOUND, "no file level_L_problem_P_sample_S_kernel.py");
	/* Names that are not quite a kernel's. */
	static const char *const others[] = {"level_1_problem_3_sample_0_kernel.pyc", "level_1_problem_3_kernel.py", "x.py",
		"level_1_problem__sample_0_kernel.py", "xlevel_1_problem_3_sample_0_kernel.py",
		"level_1_problem_1234567890_sample_0_kernel.py", "level_1_problem_3_sample_0.py"};
	for (size_t i = 0; i < ARRAY_LEN(others); i++) write_file(others[i], "");
	/* And one that is a folder. */
	char *place = path_join(folder, "level_1_problem_3_sample_1_kernel.py");
	assert_int_equal(dir_make(place, &err), 0);
	free(place);
	expect_refused(0, ERR_NOT_FOUND, "no file");
	write_file("level_1_problem_99_sample_0_kernel.py", "");
	expect_refused(0, ERR_MISMATCH, "no kernel belongs to a task of set");
	/* In the order of their numbers, not of their names. */
	write_file("level_1_problem_12_sample_10_kernel.py", "");
	write_file("level_1_problem_12_sample_2_kernel.py", "");
	write_file("level_1_problem_3_sample_7_kernel.py", "");
	assert_int_equal(run_folder_open(folder, 0, &set, "set", &r, &err), 0);
	static const struct {
		int problem, sample;
		const struct task *task;
	} rows[] = {{3, 7, &tasks[0]}, {12, 2, &tasks[1]}, {12, 10, &tasks[1]}, {99, 0, NULL}};
	assert_int_equal(r.count, ARRAY_LEN(rows));
	assert_true(r.level == 1 && r.unmatched == 1 && r.unreadable == 0 && r.infra == 0);
	for (size_t i = 0; i < r.count; i++)
		assert_true(r.files[i].problem_id == rows[i].problem && r.files[i].sample_id == rows[i].sample &&
			r.files[i].task == rows[i].task && r.files[i].level == 1);
	run_folder_release(&r);
	/* Another level stands beside it: it has to be chosen. */
	write_file("level_2_problem_3_sample_0_kernel.py", "");
	expect_refused(0, ERR_USAGE, "choose one with --level");
	assert_int_equal(run_folder_open(folder, 2, &set, "set", &r, &err), 0);
	assert_true(r.count == 1 && r.files[0].task == &tasks[4] && r.level == 2);
	run_folder_release(&r);
	expect_refused(3, ERR_NOT_FOUND, "of that --level");
	/* One problem and sample twice; one number for two tasks. */
	write_file("level_2_problem_03_sample_00_kernel.py", "");
	expect_refused(2, ERR_FORMAT, "are the same problem and sample");
	tasks[4].problem_id = 12, tasks[4].level = 1;
	expect_refused(1, ERR_USAGE, "are both problem 12 of level 1");
	tasks[4].problem_id = 3, tasks[4].level = 2;
}

/* The list ends where its count says, though there are files beyond. */
static void test_rows(void **state)
{
	struct run_file files[4] = {{.path = (char *)(uintptr_t)"a", .level = 1, .problem_id = 3, .task = &tasks[0]},
		{.path = (char *)(uintptr_t)"b", .level = 1, .problem_id = 8, .verdict = {.class = VERDICT_INFRA}},
		{.path = (char *)(uintptr_t)"c", .level = 1, .problem_id = 12, .sample_id = 2, .task = &tasks[1]},
		{.path = (char *)(uintptr_t)"d", .task = &tasks[2], .verdict = {.class = VERDICT_INVALID, .reason = "beyond"}}};
	for (int i = 0; i < 3; i += 2) {
		files[i].verdict.class = VERDICT_WRONG;
		strcpy(files[i].verdict.reason, "mismatch");
	}
	/* What did not fail counts no reason, and the fourth file is beyond the list. */
	struct run_folder r = {.files = files, .count = 3};
	json_t *reasons = run_folder_reasons(&r), *expected = json_pack("{s:i}", "wrong/mismatch", 2);
	assert_true(json_equal(reasons, expected));
	json_decref(reasons);
	json_decref(expected);
	/* A file without a task has no row; the others stand in their order. */
	struct str out = {0};
	run_folder_rows(&r, &out);
	json_error_t e;
	json_t *first = json_loads(out.data, JSON_DISABLE_EOF_CHECK, &e),
		   *second = json_loads(strchr(out.data, '\n'), JSON_DISABLE_EOF_CHECK, &e);
	assert_string_equal(json_string_value(json_object_get(first, "task")), "level1/3_Relu");
	assert_string_equal(json_string_value(json_object_get(second, "file")), "c");
	assert_int_equal(json_integer_value(json_object_get(second, "sample")), 2);
	assert_int_equal(json_integer_value(json_object_get(second, "problem_id")), 12);
	int lines = 0;
	for (const char *p = out.data; (p = strchr(p, '\n')); p++) lines++;
	assert_int_equal(lines, 2);
	json_decref(first);
	json_decref(second);
	str_release(&out);
}

/* ---- grading: a verifier that says back what it was given, the last one first ---- */

static int64_t submitted[8];
static int nsubmitted, nasked;

int verifier_submit(struct verifier *v, const struct verify_request *r, struct err *err)
{
	if (r->source_len == 4) return err_set(err, ERR_INFRA, "full");
	submitted[nsubmitted++] = r->id;
	nasked++;
	return 0;
}
int verifier_collect(struct verifier *v, int timeout_ms, int64_t *id, struct verdict *out, struct err *err)
{
	if (!nsubmitted) return err_set(err, ERR_INFRA, "nothing to wait for");
	*id = submitted[--nsubmitted];
	*out = (struct verdict){.class = *id == 2 ? VERDICT_INFRA : VERDICT_GENUINE, .launches = (int)*id + 1};
	return 0;
}

static void test_grade(void **state)
{
	struct run_folder r;
	struct err err = {0};
	json_t *results = json_object();
	write_file("level_1_problem_3_sample_0_kernel.py", "x");
	write_file("level_1_problem_3_sample_1_kernel.py", "");
	write_file("level_1_problem_7_sample_0_kernel.py", "x");
	write_file("level_1_problem_9_sample_0_kernel.py", "x");
	write_file("level_1_problem_12_sample_0_kernel.py", "x");
	write_file("level_1_problem_99_sample_0_kernel.py", "x");
	assert_int_equal(run_folder_open(folder, 0, &set, "set", &r, &err), 0);
	unlink(r.files[3].path); /* that of problem 9 */
	/* All four that were judged are counted for who waits. */
	char *said = path_join(folder, "said");
	int log = open(said, O_RDWR | O_CREAT | O_TRUNC, 0600), was = dup(STDERR_FILENO);
	struct str lines = {0};
	assert_true(log >= 0 && was >= 0 && dup2(log, STDERR_FILENO) >= 0);
	int rc = run_folder_grade(&r, NULL, results, &err);
	assert_true(dup2(was, STDERR_FILENO) >= 0 && !close(log) && !close(was));
	assert_int_equal(rc, 0);
	assert_int_equal(file_read(said, 1 << 16, &lines, &err), 0);
	if (!strstr(lines.data, "eval 4/4 kernels")) fail_msg("%s", lines.data);
	str_release(&lines);
	unlink(said);
	free(said);
	assert_int_equal(nasked, 4);
	assert_true(r.unreadable == 1 && r.infra == 1 && !r.files[3].task);
	static const bool graded[] = {true, true, false, false, true, false};
	for (size_t i = 0; i < r.count; i++) {
		assert_int_equal(r.files[i].is_graded, graded[i]);
		if (graded[i]) assert_int_equal(r.files[i].verdict.launches, i + 1);
	}
	/* In the order of the files; none for what could not be judged. */
	assert_int_equal(json_object_size(results), 2);
	assert_int_equal(json_array_size(json_object_get(results, "3")), 2);
	json_t *second = json_array_get(json_object_get(results, "3"), 1);
	assert_int_equal(json_integer_value(json_object_get(second, "sample_id")), 1);
	assert_int_equal(json_array_size(json_object_get(results, "12")), 1);
	run_folder_release(&r);
	json_object_clear(results);
	/* One that is not taken ends it. */
	write_file("level_1_problem_3_sample_1_kernel.py", "full");
	nasked = 0;
	assert_int_equal(run_folder_open(folder, 0, &set, "set", &r, &err), 0);
	assert_int_equal(run_folder_grade(&r, NULL, results, &err), ERR_INFRA);
	assert_int_equal(nasked, 1);
	assert_int_equal(json_object_size(results), 0);
	nsubmitted = 0;
	run_folder_release(&r);
	json_decref(results);
}

/* ---- results ---- */

static json_t *text_json(const char *text)
{
	json_error_t e;
	json_t *o = json_loads(text, 0, &e);
	if (!o) fail_msg("%s", e.text);
	return o;
}

#define ENTRY(sample, right, ms) \
	"{\"sample_id\": " #sample ", \"compiled\": true, \"correctness\": " right ", \"runtime\": " ms "}"

static void test_entries(void **state)
{
	json_t *results = json_object();
	struct verdict v = {.class = VERDICT_GENUINE, .compiled = true, .trials = 5, .trials_failed = 0};
	kernelbench_add(results, 12, 0, &v);
	v.class = VERDICT_WRONG, v.trials_failed = 2;
	kernelbench_add(results, 12, 3, &v);
	v.trials = 0, v.compiled = false;
	kernelbench_add(results, 3, 0, &v);
	assert_int_equal(json_object_size(results), 2);
	assert_int_equal(json_array_size(json_object_get(results, "12")), 2);
	json_t *wrong = json_array_get(json_object_get(results, "12"), 1),
		   *none = json_array_get(json_object_get(results, "3"), 0);
	assert_true(json_is_true(json_object_get(json_array_get(json_object_get(results, "12"), 0), "correctness")));
	assert_int_equal(json_integer_value(json_object_get(wrong, "sample_id")), 3);
	assert_true(
		json_is_true(json_object_get(wrong, "compiled")) && json_is_false(json_object_get(wrong, "correctness")));
	assert_true(json_number_value(json_object_get(wrong, "runtime")) == -1);
	json_t *metadata = json_object_get(wrong, "metadata");
	assert_string_equal(json_string_value(json_object_get(metadata, "correctness_trials")), "(3 / 5)");
	assert_string_equal(json_string_value(json_object_get(metadata, "device")), "cpu");
	assert_null(json_object_get(json_object_get(none, "metadata"), "correctness_trials"));
	/* Times: of the same problem and sample, where they are times. */
	json_t *measured = text_json("{\"12\": [" ENTRY(3, "true", "2.5") ", " ENTRY(0, "true", "-1") "], \"4\": [" ENTRY(
		0, "true", "1") "], \"3\": [" ENTRY(1, "true", "1") "]}");
	assert_int_equal(kernelbench_take_times(results, measured), 1);
	assert_true(json_number_value(json_object_get(wrong, "runtime")) == 2.5);
	json_decref(measured);
	json_decref(results);
}

static int load(const char *text, struct err *err)
{
	json_t *out = NULL;
	write_file("results.json", text);
	char *path = path_join(folder, "results.json");
	int rc = kernelbench_results_load(path, &out, err);
	assert_int_equal(rc == 0, out != NULL);
	json_decref(out);
	free(path);
	return rc;
}

static void test_load(void **state)
{
	struct err err = {0};
	assert_int_equal(load("{}", &err), 0);
	assert_int_equal(load("{\"3\": [" ENTRY(0, "true", "1") "]}", &err), 0);
	assert_int_not_equal(load("[]", &err), 0);
	assert_non_null(strstr(err.text, "expected an object of problem ids"));
	assert_int_not_equal(load("{\"3\": {}}", &err), 0);
	assert_non_null(strstr(err.text, "problem 3: expected a list"));
	assert_int_not_equal(load("{\"3\": [7]}", &err), 0);
	assert_int_not_equal(load("{\"3\": [{\"sample_id\": -1}]}", &err), 0);
	assert_int_not_equal(load("{\"3\": [{\"sample_id\": 0, \"compiled\": 1}]}", &err), 0);
	assert_int_not_equal(load("{\"3\": [{\"sample_id\": 0, \"correctness\": 1}]}", &err), 0);
	assert_int_not_equal(load("{\"3\": [{\"sample_id\": 0, \"runtime\": \"x\"}]}", &err), 0);
}

/* A folder without results or with hone's own may be written; others' results may not be. */
static void test_folder_check(void **state)
{
	struct err err = {0};
	char *path = path_join(folder, "eval_results.json");
	assert_int_equal(kernelbench_folder_check(folder, &err), 0);
	write_file("eval_results.json", "{}");
	assert_int_equal(kernelbench_folder_check(folder, &err), 0);
	write_file("eval_results.json", "{\"3\": [{\"sample_id\": 0, \"metadata\": {\"hone\": {}}}]}");
	assert_int_equal(kernelbench_folder_check(folder, &err), 0);
	write_file("eval_results.json",
		"{\"3\": [{\"sample_id\": 0, \"metadata\": {}}, {\"sample_id\": 1, \"metadata\": {\"hone\": {}}}]}");
	assert_int_equal(kernelbench_folder_check(folder, &err), ERR_USAGE);
	write_file("eval_results.json", "[]");
	assert_int_equal(kernelbench_folder_check(folder, &err), ERR_FORMAT);
	unlink(path);
	free(path);
}

static int baseline(const char *text, int level, json_t **out)
{
	struct err err = {0};
	write_file("times.json", text);
	char *path = path_join(folder, "times.json");
	int rc = kernelbench_baseline_load(path, level, out, &err);
	free(path);
	return rc;
}

static void test_baseline(void **state)
{
	json_t *out = NULL;
	assert_int_equal(baseline("{\"level1\": {\"3_Relu.py\": {\"mean\": 2}}, \"level2\": {}}", 1, &out), 0);
	assert_int_equal(json_object_size(out), 1);
	json_decref(out);
	assert_int_equal(baseline("{\"level1\": {}}", 2, &out), ERR_FORMAT);
	assert_int_equal(baseline("{\"level1\": {\"a\": {\"mean\": 2}, \"b\": {\"mean\": 0}}}", 1, &out), ERR_FORMAT);
	assert_null(out);
}

static void test_level(void **state)
{
	struct err err = {0};
	int level = 7;
	const struct task *one[] = {&tasks[0], &tasks[1]}, *two[] = {&tasks[0], &tasks[4]},
					  *none[] = {&tasks[0], &tasks[5]};
	assert_int_equal(kernelbench_level(one, 2, &level, &err), 0);
	assert_int_equal(level, 1);
	assert_int_equal(kernelbench_level(two, 2, &level, &err), ERR_USAGE);
	assert_int_equal(kernelbench_level(none, 2, &level, &err), ERR_USAGE);
	assert_int_equal(kernelbench_level(one, 0, &level, &err), 0);
	assert_int_equal(level, 0);
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* Four problems of level 1: 3 is right in 2 ms where PyTorch takes 4, 12 right in 3 of 2,
 * 7 wrong, 9 not tried. */
static void test_analysis(void **state)
{
	json_t *results = text_json("{\"3\": [" ENTRY(1, "false", "-1") ", " ENTRY(0, "true", "2") "], \"12\": [" ENTRY(
		0, "true", "3") "], \"7\": [" ENTRY(0, "false", "1") "]}");
	json_t *times = text_json(
		"{\"3_Relu.py\": {\"mean\": 4}, \"12_Twice.py\": {\"mean\": 2}, \"9_Sum.py\": {\"mean\": 1}}");
	json_t *a = kernelbench_analysis(results, &set, 1, times, false);
	assert_true(number(a, "total_count") == 4 && number(a, "total_eval") == 3 && number(a, "compiled_count") == 3);
	assert_true(number(a, "correct_count") == 2 && number(a, "baseline_count") == 3 && number(a, "timed_count") == 2);
	assert_true(number(a, "compilation_rate") == 0.75 && number(a, "correctness_rate") == 0.5);
	/* sqrt(4/2 * 2/3); of three problems with a baseline one is faster than 0.8 and
	 * 1.5 times, none than 2. */
	assert_true(fabs(number(a, "geo_mean_speedup") - sqrt(4.0 / 3)) < 1e-12);
	static const struct {
		const char *p;
		int faster;
	} rows[] = {{"0.0", 2}, {"0.5", 2}, {"0.8", 1}, {"1.0", 1}, {"1.5", 1}, {"2.0", 0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_true(fabs(number(json_object_get(a, "fast_p"), rows[i].p) - rows[i].faster / 3.0) < 1e-12);
	json_decref(a);
	/* A right kernel without a time: no speedup is made of the rest. */
	json_object_set_new(json_array_get(json_object_get(results, "12"), 0), "runtime", json_real(-1));
	a = kernelbench_analysis(results, &set, 1, times, false);
	assert_true(number(a, "timed_count") == 1 && json_is_null(json_object_get(a, "fast_p")) &&
		json_is_null(json_object_get(a, "geo_mean_speedup")));
	json_decref(a);
	a = kernelbench_analysis(results, &set, 1, NULL, false);
	assert_true(number(a, "baseline_count") == 0 && json_is_null(json_object_get(a, "fast_p")));
	json_decref(a);
	json_decref(times);
	json_decref(results);
}

/* Of a GPU: 3 is right in 20 us where eager takes 50, 12 right at smaller sizes, 7
 * wrong whatever its time. */
static struct verdict timed(const char *sizes)
{
	struct verdict v = {.class = VERDICT_GENUINE, .reason = "ok", .compiled = true, .kernelbench = 1};
	struct verdict_device *d = &v.device;
	strcpy(v.sizes, sizes);
	strcpy(d->name, "NVIDIA H200");
	d->driver = 13000;
	d->timed = 30;
	d->time_s = 20e-6, d->time_low_s = 19e-6, d->time_high_s = 21e-6;
	d->references[REFERENCE_EAGER] = (struct verdict_reference){
		.is_timed = true, .time_s = {50e-6, 49e-6, 51e-6}, .speedup = {2.5, 2.4, 2.6}, .pairs = 30};
	return v;
}

static void test_own_times(void **state)
{
	struct verdict right = timed(""), small = timed("batch 2, stock 10"), wrong = timed("");
	wrong.class = VERDICT_WRONG, wrong.kernelbench = 0, wrong.device.timed = 0;
	strcpy(wrong.reason, "race");
	wrong.device.references[REFERENCE_EAGER] = (struct verdict_reference){0};
	struct run_file files[] = {{.path = (char *)(uintptr_t)"a",
								   .level = 1,
								   .problem_id = 3,
								   .task = &tasks[0],
								   .is_graded = true,
								   .verdict = right},
		{.path = (char *)(uintptr_t)"b",
			.level = 1,
			.problem_id = 7,
			.task = &tasks[2],
			.is_graded = true,
			.verdict = wrong},
		{.path = (char *)(uintptr_t)"c",
			.level = 1,
			.problem_id = 12,
			.sample_id = 1,
			.task = &tasks[1],
			.is_graded = true,
			.verdict = small}};
	struct run_folder r = {.files = files, .count = 2, .level = 1};
	json_t *results = json_object();
	for (int i = 0; i < 2; i++) kernelbench_add(results, files[i].problem_id, 0, &files[i].verdict);
	const json_t *entry = json_array_get(json_object_get(results, "3"), 0);
	assert_true(fabs(number(entry, "runtime") - 0.02) < 1e-12);
	assert_true(fabs(number(json_object_get(entry, "runtime_stats"), "high") - 0.021) < 1e-12);
	assert_true(number(json_array_get(json_object_get(results, "7"), 0), "runtime") == -1);
	/* A time of nothing at all is none, nor is one at other sizes, however short their name is. */
	struct verdict at_once = timed(""), other = timed("4");
	json_t *others = json_object();
	at_once.device.time_s = 0;
	kernelbench_add(others, 5, 0, &at_once);
	assert_true(number(json_array_get(json_object_get(others, "5"), 0), "runtime") == -1);
	kernelbench_add(others, 6, 0, &other);
	assert_true(number(json_array_get(json_object_get(others, "6"), 0), "runtime") == -1);
	json_decref(others);
	/* Times of elsewhere do not take their place. */
	json_t *theirs = text_json("{\"3\": [" ENTRY(0, "true", "9") "]}");
	assert_int_equal(kernelbench_take_times(results, theirs), 0);
	/* The wrong one counts among the problems and is never faster. */
	json_t *own = run_folder_references(&r), *a = kernelbench_analysis(results, &set, 1, own, true);
	assert_int_equal(json_object_size(own), 1);
	assert_true(fabs(number(json_object_get(own, "3_Relu.py"), "mean") - 0.05) < 1e-12);
	assert_true(number(a, "baseline_count") == 2 && number(json_object_get(a, "fast_p"), "2.0") == 0.5);
	assert_true(fabs(number(a, "geo_mean_speedup") - 2.5) < 1e-12);
	json_decref(a);
	/* One that is right at other sizes has a time in the table, and no
	 * speedup is made of the rest. */
	r.count = 3;
	kernelbench_add(results, 12, 0, &small);
	a = kernelbench_analysis(results, &set, 1, own, true);
	assert_true(json_is_null(json_object_get(a, "fast_p")) && number(a, "correct_count") == 2);
	json_decref(a);
	struct str lines = {0};
	run_folder_table(&r, theirs, &lines);
	static const char *const rows[] = {"problem sample  hone                          its check"
									   "       kernel        eager  speedup  its run     its time",
		"      3      0  genuine/ok                    passes   "
		"     20.00 us     50.00 us    2.50x  correct   9000.00 us",
		"      7      0  wrong/race                    fails    "
		"            -            -        -  -                  -",
		"     12      1  genuine/ok                    passes   "
		"     20.00 us     50.00 us    2.50x  -                  -  at batch 2, stock 10"};
	const char *p = lines.data;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++, p = strchr(p, '\n') + 1)
		if (strncmp(p, rows[i], strlen(rows[i])) || p[strlen(rows[i])] != '\n') fail_msg("%s\n%s", rows[i], p);
	/* Without a GPU there are no times to tell. */
	for (int i = 0; i < 3; i++) files[i].verdict.device.timed = 0;
	lines.len = 0;
	run_folder_table(&r, NULL, &lines);
	assert_null(strstr(lines.data, " us"));
	json_decref(run_folder_references(&r));
	assert_null(run_folder_references(&r));
	str_release(&lines);
	json_decref(theirs);
	json_decref(own);
	json_decref(results);
}

/* A file of baseline times is written beside, and again; one that hone did not write stays. */
static void test_own_baseline(void **state)
{
	struct verdict v = timed("");
	struct err err = {0};
	json_t *results = json_object(), *analysis = NULL, *found = NULL;
	struct kernelbench_times t = {.own = json_object()};
	char *dir = path_join(folder, "own"), *path = xasprintf("%s/own/" KERNELBENCH_BASELINE, folder);
	/* Written twice: the second time the file is there, and is hone's own. */
	kernelbench_add(results, 3, 0, &v);
	kernelbench_add_reference(t.own, &tasks[0], &v);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kernelbench_write(dir, results, &set, 1, &t, &analysis, &err), 0);
		json_decref(analysis);
		assert_int_equal(json_load(path, 1 << 20, &found, &err), 0);
		const json_t *row = json_object_get(json_object_get(found, "level1"), "3_Relu.py");
		assert_true(number(row, "num_trials") == 30);
		/* What says that the row is hone's, so that a later run may write over it. */
		assert_string_equal(
			json_string_value(json_object_get(row, "hone")), "its eager reference, timed beside a kernel");
		json_decref(found);
	}
	/* Somebody else's in its place: it has other keys, and stays. */
	static const char THEIRS[] = "{\"level1\": {\"3_Relu.py\": {\"mean\": 1.5}}}";
	assert_int_equal(file_write_atomic(path, THEIRS, strlen(THEIRS), &err), 0);
	assert_int_equal(kernelbench_write(dir, results, &set, 1, &t, &analysis, &err), 0);
	assert_int_equal(json_load(path, 1 << 20, &found, &err), 0);
	assert_true(number(json_object_get(json_object_get(found, "level1"), "3_Relu.py"), "mean") == 1.5);
	json_decref(found);
	json_decref(analysis);
	json_decref(results);
	kernelbench_times_release(&t);
	free(path);
	free(dir);
}

/* Everything that is written, read back: pass@k of 4 and 2 samples with 1 and 2 right ones,
 * the baseline's rows of what was graded, and a baseline that lies where it would be
 * written stays as it is. */
static void test_write(void **state)
{
	struct err err = {0};
	json_t *results = text_json("{\"3\": [" ENTRY(0, "true", "2") ", " ENTRY(1, "false", "1") ", " ENTRY(2, "false",
		"1") ", " ENTRY(3, "false", "1") "], \"12\": [" ENTRY(0, "true", "3") ", " ENTRY(1, "true", "3") "]}");
	write_file("times.json", "{\"level1\": {\"3_Relu.py\": {\"mean\": 4}, \"9_Sum.py\": {\"mean\": 1}}}");
	char *times = path_join(folder, "times.json"), *dir = path_join(folder, "out"),
		 *here = path_join(dir, KERNELBENCH_BASELINE), *pass = path_join(dir, "pass_at_k_results.json"),
		 *again = path_join(dir, "eval_results.json");
	struct kernelbench_times t;
	json_t *analysis = NULL, *o = NULL;
	assert_int_equal(kernelbench_times_load(dir, NULL, times, 1, &t, &err), 0);
	assert_true(!t.measured && t.baseline && !t.is_baseline_here);
	assert_int_equal(kernelbench_write(dir, results, &set, 1, &t, &analysis, &err), 0);
	kernelbench_times_release(&t);
	assert_true(number(analysis, "correct_count") == 2);
	json_decref(analysis);
	assert_int_equal(json_load(again, 1 << 20, &o, &err), 0);
	assert_true(json_equal(o, results));
	json_decref(o);
	assert_int_equal(json_load(here, 1 << 20, &o, &err), 0);
	json_t *expected = text_json("{\"level1\": {\"3_Relu.py\": {\"mean\": 4}}}");
	assert_true(json_equal(o, expected));
	json_decref(o);
	json_decref(expected);
	assert_int_equal(json_load(pass, 1 << 20, &o, &err), 0);
	expected = text_json(
		"{\"averages\": {\"avg_pass@1\": 0.625, \"avg_pass@2\": 0.75}, \"metadata\": {\"total_problems\": 2, "
		"\"problems_with_samples\": 2, \"total_evaluated_samples\": 6, \"total_correct_samples\": 3, "
		"\"pass@1_count\": 2, \"pass@2_count\": 2}, \"problems\": {\"3\": {\"total_samples\": 4, "
		"\"correct_samples\": 1, \"pass@1\": 0.25, \"pass@2\": 0.5}, \"12\": {\"total_samples\": 2, "
		"\"correct_samples\": 2, \"pass@1\": 1.0, \"pass@2\": 1.0}}}");
	assert_true(json_equal(o, expected));
	json_decref(o);
	json_decref(expected);
	/* The results just written are others' by their missing mark. */
	assert_int_equal(kernelbench_times_load(dir, NULL, NULL, 1, &t, &err), ERR_USAGE);
	unlink(again);
	assert_int_equal(kernelbench_times_load(dir, NULL, here, 1, &t, &err), 0);
	assert_true(t.is_baseline_here);
	kernelbench_times_release(&t);
	/* Where nothing can be written, nothing is said to be. */
	unlink(here);
	char *below = path_join(times, "out");
	analysis = NULL;
	t = (struct kernelbench_times){0};
	assert_int_not_equal(kernelbench_write(below, results, &set, 1, &t, &analysis, &err), 0);
	assert_null(analysis);
	free(below);
	json_decref(results);
	free(times), free(dir), free(here), free(pass), free(again);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_remove)
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {T(test_run_folder), T(test_rows), T(test_grade), T(test_entries), T(test_load),
		T(test_folder_check), T(test_baseline), T(test_level), T(test_analysis), T(test_own_times),
		T(test_own_baseline), T(test_write)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
