/* The store: what is written to it is there, versions are checked, and where nothing can be written
 * it is read all the same. */
#include "store/store_internal.h"
#include "store_folder.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../leaks.h"

static void test_cache_keeps_bytes(void **state)
{
	char *path = path_join(folder, "cache.db");
	struct store *s = open_or_fail(path);
	struct err err = {0};
	struct str out = {0};
	assert_int_equal(store_get(s, "verdict", "k", &out, &err), ERR_NOT_FOUND);
	const char bytes[] = {0, 1, 'x', 0, (char)0xff};
	assert_int_equal(store_put(s, "verdict", "k", bytes, sizeof bytes, &err), 0);
	assert_int_equal(store_put(s, "compile", "k", "", 0, &err), 0);
	assert_int_equal(store_get(s, "verdict", "k", &out, &err), 0);
	assert_int_equal(out.len, sizeof bytes);
	assert_memory_equal(out.data, bytes, sizeof bytes);
	assert_int_equal(store_get(s, "compile", "k", &out, &err), 0);
	assert_int_equal(out.len, 0);
	assert_int_equal(store_put(s, "verdict", "k", "new", 3, &err), 0);
	store_close(s);
	s = open_or_fail(path);
	assert_int_equal(store_get(s, "verdict", "k", &out, &err), 0);
	assert_string_equal(out.data, "new");
	store_close(s);
	str_release(&out);
	free(path);
}

/* What SQLite does not take is told in its words. The value is too large for any database, so
 * that none of it is read. */
static void test_values_of_two_gigabytes(void **state)
{
	char *path = path_join(folder, "large.db");
	struct store *s = open_or_fail(path);
	struct err err = {0};
	assert_int_equal(store_put(s, "verdict", "k", "", 2000000000, &err), ERR_IO);
	if (!strstr(err.text, "large.db") || !strstr(err.text, "too big")) fail_msg("%s", err.text);
	store_close(s);
	free(path);
}

/* Reads a store as a user who may write neither its folder nor the file: 0, or a number for what
 * went otherwise. */
static int read_as_other(const char *from, const char *path)
{
	struct store *s = NULL, *again = NULL;
	struct err err = {0};
	struct str out = {0};
	if (!geteuid() && (setgid(65534) || setuid(65534))) return 1;
	if (store_open_existing(from, &s, &err)) return 2;
	if (store_get(s, "verdict", "k", &out, &err) || strcmp(out.data, "kept")) return 3;
	/* Writing fails by name, and a store that is to be written does not open there. */
	if (store_put(s, "verdict", "k", "other", 5, &err) != ERR_IO || !strstr(err.text, "readonly")) return 4;
	if (store_open(path, &again, &err) != ERR_IO || !strstr(err.text, "-lock: ")) return 5;
	store_close(s);
	str_release(&out);
	/* Nothing is left on the heap by it. */
	long blocks = 0;
	for (int i = 0; i < 4; i++) {
		if (store_open_existing(from, &s, &err)) return 6;
		store_close(s);
		if (i == 1) blocks = live_blocks;
	}
	return live_blocks == blocks ? 0 : 7;
}

/* A store is read where nothing can be written, whatever letters its path has: closed, and with
 * rows that a writer has not yet folded in. Nothing appears beside it. */
static void test_read_only(void **state)
{
	static const char *const names[] = {"plain", "a b?c#d%41&e", "r\xc3\xa9"};
	struct err err = {0};
	assert_int_equal(chmod(folder, 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *place = path_join(folder, names[i]), *path = path_join(place, "hone.db"),
			 *wal = xasprintf("%s-wal", path), *lock = xasprintf("%s-lock", path);
		assert_int_equal(dir_make(place, &err), 0);
		for (int is_open = 0; is_open < 2; is_open++) {
			struct store *s = open_or_fail(path);
			assert_int_equal(store_put(s, "verdict", "k", "kept", 4, &err), 0);
			if (!is_open) store_close(s);
			assert_int_equal(path_exists(wal), is_open);
			unlink(lock);
			/* Both ways to name it; the folder, the file or both are not to be written. */
			for (int k = 0; k < 4; k++) {
				assert_int_equal(chmod(path, k == 2 ? 0666 : 0444), 0);
				assert_int_equal(chmod(place, k == 3 ? 0777 : 0555), 0);
				pid_t pid = fork();
				int status = 0;
				if (!pid) _exit(read_as_other(k == 1 ? path : place, k == 3 ? "/proc/none.db" : path));
				assert_int_equal(waitpid(pid, &status, 0), pid);
				if (!WIFEXITED(status) || WEXITSTATUS(status)) fail_msg("%s, %d: status %x", names[i], is_open, status);
			}
			assert_int_equal(path_exists(wal), is_open);
			assert_false(path_exists(lock));
			assert_int_equal(chmod(place, 0755), 0);
			assert_int_equal(chmod(path, 0644), 0);
			if (is_open) store_close(s);
		}
		free(place);
		free(path);
		free(wal);
		free(lock);
	}
	/* What is no store of this version is refused there too, and one of which SQLite cannot
	 * read the tables. */
	char *other = path_join(folder, "plain/other.db"), *empty = path_join(folder, "plain/empty.db"),
		 *broken = path_join(folder, "plain/broken.db"), *place = path_join(folder, "plain");
	sql(other, "CREATE TABLE other (x); PRAGMA application_id = 3");
	sql(empty, "");
	store_close(open_or_fail(broken));
	sql(broken, "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'no table' WHERE name = 'runs'");
	assert_int_equal(chmod(place, 0555), 0);
	pid_t pid = fork();
	int status = 0;
	if (!pid) {
		struct store *s = NULL;
		if (!geteuid() && (setgid(65534) || setuid(65534))) _exit(1);
		bool ok = store_open_existing(other, &s, &err) == ERR_FORMAT && strstr(err.text, "application id 3");
		ok = ok && store_open_existing(empty, &s, &err) == ERR_FORMAT;
		ok = ok && store_open_existing(broken, &s, &err) == ERR_IO && strstr(err.text, "count(*)");
		_exit(ok ? 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(chmod(place, 0755), 0);
	free(other);
	free(empty);
	free(broken);
	free(place);
}

static void test_runs_metrics_and_samples(void **state)
{
	char *path = path_join(folder, "runs.db");
	struct store *s = open_or_fail(path);
	struct err err = {0};
	int64_t run = 0, again = 0, other = 0;
	json_t *config = json_pack("{s:i}", "lr", 1);
	/* A run is known by its name. */
	assert_int_equal(store_run_open(s, "a", config, &run, &err), 0);
	assert_int_equal(store_run_open(s, "a", config, &again, &err), 0);
	assert_int_equal(store_run_open(s, "b", config, &other, &err), 0);
	json_decref(config);
	assert_int_equal(run, again);
	assert_int_not_equal(run, other);

	/* Rows go in backwards and come out in order; each run sees its own. */
	for (int step = 3; step >= 0; step--) {
		put_row(s, run, step, -1, 10 * step);
		put_row(s, run, step, 1, step);
		put_row(s, run, step, 0, step);
	}
	put_row(s, run, 2, -1, 99); /* a resumed run repeats its last step */
	put_row(s, other, 3, -1, 5);
	struct seen seen = {0};
	assert_int_equal(store_metrics_each(s, run, remember, &seen, &err), 0);
	assert_int_equal(seen.count, 4);
	assert_int_equal(seen.step[2], 2);
	assert_int_equal(seen.value[2], 99);

	/* A run that resumes after step 1 forgets the later rows, and no other run does. */
	assert_int_equal(store_run_truncate(s, run, 1, &err), 0);
	seen = (struct seen){0};
	assert_int_equal(store_samples_each(s, run, remember, &seen, &err), 0);
	assert_int_equal(seen.count, 4);
	assert_int_equal(seen.step[3], 1);
	assert_int_equal(seen.index[2], 0);
	assert_int_equal(seen.index[3], 1);
	seen = (struct seen){0};
	assert_int_equal(store_metrics_each(s, other, remember, &seen, &err), 0);
	assert_int_equal(seen.count, 1);

	/* What the file no longer takes is an error of the one who writes. */
	sql(path, "DROP TABLE samples");
	json_t *row = json_object();
	err = (struct err){0};
	assert_int_not_equal(store_sample_put(s, run, 9, 0, row, &err), 0);
	assert_non_null(strstr(err.text, "samples"));
	assert_int_not_equal(store_run_truncate(s, run, 0, &err), 0);
	json_decref(row);

	/* The list of runs has both. */
	json_t *runs = NULL;
	assert_int_equal(store_runs(s, &runs, &err), 0);
	assert_int_equal(json_array_size(runs), 2);
	static const char *const names[] = {"a", "b"};
	const int64_t ids[] = {run, other};
	for (size_t i = 0; i < 2; i++) {
		const json_t *o = json_array_get(runs, i);
		assert_int_equal(json_integer_value(json_object_get(o, "id")), ids[i]);
		assert_string_equal(json_string_value(json_object_get(o, "name")), names[i]);
		assert_true(json_is_object(json_object_get(o, "config")));
		/* In UTC, of this hour, and not of another field. */
		struct tm tm = {0};
		const char *created = json_string_value(json_object_get(o, "created")),
				   *end = created ? strptime(created, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;
		assert_true(end && !*end && llabs((long long)(time(NULL) - timegm(&tm))) < 3600);
		assert_int_equal(json_object_size(o), 4);
	}
	json_decref(runs);
	store_close(s);
	free(path);
}

static void test_other_versions_and_files_are_refused(void **state)
{
	char *path = path_join(folder, "version.db");
	store_close(open_or_fail(path));
	/* A file of a later version: the refusal names both. */
	sql(path, "PRAGMA user_version = 77");
	struct store *s = NULL;
	struct err err = {0};
	assert_int_equal(store_open(path, &s, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "77"));
	assert_non_null(strstr(err.text, "version 1"));
	free(path);

	/* A database of another program. */
	path = path_join(folder, "foreign.db");
	sql(path, "CREATE TABLE t (a)");
	struct str before = {0}, after = {0};
	assert_int_equal(file_read(path, 1 << 20, &before, &err), 0);
	assert_int_equal(store_open(path, &s, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "another program"));
	/* Its bytes stay, the mode of its journal among them. */
	assert_int_equal(file_read(path, 1 << 20, &after, &err), 0);
	assert_int_equal(after.len, before.len);
	assert_memory_equal(after.data, before.data, before.len);
	str_release(&before);
	str_release(&after);
	free(path);

	/* No database at all. */
	path = path_join(folder, "text.db");
	assert_int_equal(
		file_write_atomic(path,
			"this is a text file, and longer than a header of SQLite would be ........................................",
			100, &err),
		0);
	char *lock = path_join(folder, "text.db-lock");
	assert_int_equal(store_open(path, &s, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "not an SQLite file"));
	assert_false(path_exists(lock)); /* nothing is made beside it */
	free(lock);
	free(path);
	assert_int_equal(store_open(folder, &s, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "found a folder"));

	/* A folder that is not there. */
	path = path_join(folder, "no/such/folder.db");
	assert_int_equal(store_open(path, &s, &err), ERR_IO);
	assert_non_null(strstr(err.text, "folder.db"));
	free(path);
}

/* Who reads a run names its folder or its file; where neither has a store,
 * nothing is left behind. */
static void test_existing(void **state)
{
	char *run = path_join(folder, "run"), *stage = path_join(run, "frontend"), *file = path_join(run, "hone.db"),
		 *lock = path_join(run, "frontend-lock"), *no = path_join(folder, "nowhere");
	struct store *s = NULL;
	struct err err = {0};
	assert_int_equal(dir_make(stage, &err), 0);
	store_close(open_or_fail(file));
	const char *const there[] = {run, file};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open_existing(there[i], &s, &err), 0);
		store_close(s);
	}
	const char *const absent[] = {stage, no};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_open_existing(absent[i], &s, &err), ERR_NOT_FOUND);
		assert_non_null(strstr(err.text, absent[i]));
	}
	assert_false(path_exists(lock) || path_exists(no));
	free(run);
	free(stage);
	free(file);
	free(lock);
	free(no);
}

/* A commit that SQLite refuses takes all of its transaction back, and the next one begins anew. */
static void test_commit_that_fails(void **state)
{
	char *path = path_join(folder, "refused.db");
	struct store *s = open_or_fail(path);
	struct str out = {0};
	struct err err = {0};
	for (int is_bad = 1; is_bad >= 0; is_bad--) {
		assert_int_equal(store_begin(s, &err), 0);
		assert_int_equal(store_put(s, "compile", "a", "1", 1, &err), 0);
		/* A metric of a run that is not there, which only the commit looks at. */
		if (is_bad) {
			assert_int_equal(store_exec(s, &err, "PRAGMA defer_foreign_keys = ON", ""), 0);
			assert_int_equal(store_exec(s, &err, "INSERT INTO metrics VALUES (99, 1, 'x')", ""), 0);
		}
		assert_int_equal(store_commit(s, &err), is_bad ? ERR_IO : 0);
		if (is_bad && !strstr(err.text, "refused.db: COMMIT: FOREIGN KEY")) fail_msg("%s", err.text);
		assert_int_equal(store_get(s, "compile", "a", &out, NULL), is_bad ? ERR_NOT_FOUND : 0);
	}
	store_close(s);
	str_release(&out);
	free(path);
}

static void use_store(void *path)
{
	struct store *s = open_or_fail(path);
	struct err err = {0};
	struct str out = {0};
	int64_t run;
	int rows = 0;
	json_t *runs = NULL, *config = json_pack("{s:i}", "lr", 1);
	assert_int_equal(store_put(s, "verdict", "k", "data", 4, &err), 0);
	assert_int_equal(store_get(s, "verdict", "k", &out, &err), 0);
	assert_int_equal(store_get(s, "verdict", "none", &out, &err), ERR_NOT_FOUND);
	assert_int_equal(store_run_open(s, "a", config, &run, &err), 0);
	for (int step = 0; step < 3; step++) put_row(s, run, step, -1, step);
	put_row(s, run, 2, 0, 7);
	assert_int_equal(store_metrics_each(s, run, stop_at_two, &rows, &err), 5); /* the third row is not asked for */
	assert_int_equal(rows, 2);
	assert_int_equal(store_samples_each(s, run, stop_at_two, &(int){0}, &err), 0);
	assert_int_equal(store_run_truncate(s, run, 1, &err), 0);
	assert_int_equal(store_runs(s, &runs, &err), 0);
	json_decref(runs);
	json_decref(config);
	str_release(&out);
	store_close(s);
}

static void refuse_store(void *path)
{
	struct store *s = NULL;
	struct err err = {0};
	assert_int_not_equal(store_open(path, &s, &err), 0);
}

static void test_leaves_nothing(void **state)
{
	char *path = path_join(folder, "leaks.db"), *bad = path_join(folder, "bad.db");
	leaves_nothing(use_store, path);
	sql(bad, "CREATE TABLE other (x); PRAGMA application_id = 3");
	leaves_nothing(refuse_store, bad);
	leaves_nothing(refuse_store, folder);
	free(path);
	free(bad);
}

/* Where nothing is at the standard input a file that is looked at may get its number, and is let go
 * all the same. */
static void test_without_standard_input(void **state)
{
	char *path = path_join(folder, "input.db");
	store_close(open_or_fail(path));
	int kept = dup(0);
	close(0);
	store_close(open_or_fail(path));
	int lowest = dup(kept);
	if (lowest != 0) dup2(kept, 0);
	close(kept);
	assert_int_equal(lowest, 0);
	free(path);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cache_keeps_bytes),
		cmocka_unit_test(test_values_of_two_gigabytes),
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_runs_metrics_and_samples),
		cmocka_unit_test(test_existing),
		cmocka_unit_test(test_other_versions_and_files_are_refused),
		cmocka_unit_test(test_without_standard_input),
		cmocka_unit_test(test_commit_that_fails),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
