/* What `--emit` writes: judged genuine itself, the same program when it is emitted again, without
 * the candidate's host code, and refused where it was not made for. */
#include "base/base.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

/* Streams with events, a descriptor made on the host, keyword arguments with random draws, a table
 * for each size, a name that hides an import, annotations that name what is not emitted, functions
 * of a library's, a kernel whose name begins with an underscore; and a workspace that the host code
 * keeps. */
static const struct {
	const char *task;
	const char *candidate;
} CASES[] = {
	{"tests/known_good/two_streams_joined_by_events/task.py",
		"tests/known_good/two_streams_joined_by_events/candidate.py"},
	{"tests/known_good/host_tensor_descriptor_matmul/task.py",
		"tests/known_good/host_tensor_descriptor_matmul/candidate.py"},
	{"tests/known_good/keywords_cuda_and_draws/task.py", "tests/known_good/keywords_cuda_and_draws/candidate.py"},
	{"tests/known_good/lazy_torch_table/task.py", "tests/known_good/lazy_torch_table/candidate.py"},
	{"tests/known_good/constexpr_global/task.py", "tests/known_good/constexpr_global/candidate.py"},
	{"tests/known_good/many_imports_and_versions/task.py", "tests/known_good/many_imports_and_versions/candidate.py"},
	{"tests/known_good/inductor_welford_layernorm/task.py", "tests/known_good/inductor_welford_layernorm/candidate.py"},
	{"tests/known_good/rotary_pairs_in_place_half_tables/task.py",
		"tests/known_good/rotary_pairs_in_place_half_tables/candidate.py"},
	{"tests/exploits/workspace_kept/task.py", "tests/exploits/workspace_kept/twin.py"},
};
enum { COUNT = ARRAY_LEN(CASES), KEPT = COUNT - 1 };
static const char CHEAT[] = "tests/exploits/ir_edited_text";

static char folder[64] = "/tmp/hone-emit-XXXXXX";
static struct task_set tasks[COUNT];
static struct store *store;
static struct verifier *verifier;

static int set_up(void **state)
{
	struct err err = {0};
	struct verify_options o = {.threads = 2, .seed = 7, .trace_timeout_ms = 60000, .replay_timeout_ms = 60000};
	if (!mkdtemp(folder)) return -1;
	char *path = path_join(folder, "kept.db");
	int rc = store_open(path, &store, &err);
	o.store = store;
	if (!rc) rc = verifier_create(&o, &verifier, &err);
	for (size_t i = 0; i < COUNT && !rc; i++) rc = task_set_load(CASES[i].task, &tasks[i], &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	free(path);
	return rc;
}

static int tear_down(void **state)
{
	verifier_free(verifier);
	store_close(store);
	for (size_t i = 0; i < COUNT; i++) task_set_release(&tasks[i]);
	return dir_remove(folder, NULL);
}

/* The file that case i writes at its first or second turn. */
static char *module_path(size_t i, int turn) { return xasprintf("%s/%zu_%d.py", folder, i, turn); }

static struct str text_of(const char *path)
{
	struct str text = {0};
	struct err err = {0};
	if (file_read(path, (size_t)1 << 24, &text, &err)) fail_msg("%s", err.text);
	return text;
}

static void submit(const struct task *task, const char *candidate, const char *emit, int64_t id)
{
	struct err err = {0};
	struct str source = text_of(candidate);
	struct verify_request r = {.task = task, .source = source.data, .source_len = source.len, .emit = emit, .id = id};
	if (verifier_submit(verifier, &r, &err)) fail_msg("%s", err.text);
	str_release(&source);
}

static int64_t collect(struct verdict *out)
{
	struct err err = {0};
	int64_t id;
	if (verifier_collect(verifier, 600000, &id, out, &err)) fail_msg("%s", err.text);
	return id;
}

/* At the first turn candidates are emitted, at the second what they were emitted as: one entry a
 * judged set of inputs, so that under the same seed the module is genuine at all of them, and
 * emitted itself. */
static void test_emitted(void **state)
{
	int failed = 0;
	for (int turn = 0; turn < 2; turn++) {
		for (size_t i = 0; i < COUNT; i++) {
			char *from = turn ? module_path(i, 0) : xstrdup(CASES[i].candidate), *to = module_path(i, turn);
			submit(tasks[i].tasks, from, to, (int64_t)i);
			free(from);
			free(to);
		}
		for (size_t i = 0; i < COUNT; i++) {
			struct verdict d;
			int64_t id = collect(&d);
			char *to = module_path((size_t)id, turn), *says = xasprintf("; emitted to %s for ", to);
			bool is_right = d.class == VERDICT_GENUINE && strstr(d.detail, says) && path_exists(to);
			if (!is_right) print_error("%s, turn %d: %s: %s\n", CASES[id].candidate, turn, d.reason, d.detail);
			failed += !is_right;
			free(says);
			free(to);
		}
	}
	assert_int_equal(failed, 0);
}

/* Of the host code nothing is left, and other inputs than the judged ones are refused. */
static void test_for_its_inputs_alone(void **state)
{
	struct verdict d;
	char *module = module_path(KEPT, 0);
	struct str text = text_of(module), task = text_of(CASES[KEPT].task);
	assert_non_null(strstr(text.data, "class ModelNew"));
	assert_null(strstr(text.data, "self.ws"));
	/* The same task, of other sizes. */
	char *rows = strstr(task.data, "M = 6");
	assert_non_null(rows);
	rows[4] = '7';
	struct task other = {.name = (char *)(uintptr_t)"other", .source = task.data};
	other.hash = hash_bytes(task.data, strlen(task.data));
	submit(&other, module, NULL, 0);
	collect(&d);
	if (d.class == VERDICT_GENUINE || !strstr(d.detail, "made for the inputs")) fail_msg("%s: %s", d.reason, d.detail);
	str_release(&text);
	str_release(&task);
	free(module);
}

/* A verdict that is known, in this process or in its store, is no module: it is made again. */
static void test_known_is_written_again(void **state)
{
	struct verdict d;
	char *module = module_path(KEPT, 0);
	struct str before = text_of(module);
	assert_int_equal(unlink(module), 0);
	submit(tasks[KEPT].tasks, CASES[KEPT].candidate, module, 0);
	collect(&d);
	assert_false(d.cached);
	struct str after = text_of(module);
	assert_string_equal(before.data, after.data);
	str_release(&before);
	str_release(&after);
	/* Without a file it is a verdict like any other, which does not speak of one. */
	submit(tasks[KEPT].tasks, CASES[KEPT].candidate, NULL, 0);
	collect(&d);
	assert_int_equal(d.class, VERDICT_GENUINE);
	assert_null(strstr(d.detail, "emitted"));
	free(module);
}

/* A cheat is not emitted, and nothing is left of an attempt. */
static void test_cheat(void **state)
{
	struct task_set set = {0};
	struct err err = {0};
	struct verdict d;
	char *task = path_join(CHEAT, "task.py"), *candidate = path_join(CHEAT, "candidate.py"),
		 *module = module_path(COUNT, 0);
	if (task_set_load(task, &set, &err)) fail_msg("%s", err.text);
	submit(set.tasks, candidate, module, 0);
	collect(&d);
	assert_int_equal(d.class, VERDICT_CHEAT);
	assert_null(strstr(d.detail, "emitted"));
	assert_false(path_exists(module));
	task_set_release(&set);
	free(task);
	free(candidate);
	free(module);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emitted),
		cmocka_unit_test(test_for_its_inputs_alone),
		cmocka_unit_test(test_known_is_written_again),
		cmocka_unit_test(test_cheat),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("emit", tests, set_up, tear_down);
}
