/* Files and folders: limits, atomic replacement and what is left after a failure, removal of
 * hostile trees. */
#include "base_test.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int count_entry(const char *name, void *ctx)
{
	(*(int *)ctx)++;
	return 0;
}

static int entries(const char *path)
{
	int n = 0;
	assert_int_equal(dir_each(path, count_entry, &n, NULL), 0);
	return n;
}

static void leftovers_go(void **state)
{
	char *dir = scratch_make(), *file = path_join(dir, "a.1.2.tmp"), *folder = path_join(dir, "b.tmp"),
		 *kept = path_join(dir, "c.tmp.json");
	struct err err = {0};
	write_text(file, "half");
	write_text(kept, "whole");
	assert_int_equal(dir_make(folder, &err), 0);
	assert_int_equal(dir_clean(dir, &err), 0);
	assert_int_equal(entries(dir), 1);
	assert_true(path_exists(kept));
	free(file);
	free(folder);
	free(kept);
	scratch_remove(dir);
}

/* A child claims the folder and lives until it is told to go. */
static pid_t claim_in_a_child(const char *dir, int *ready, int *go)
{
	int up[2], down[2];
	assert_int_equal(pipe(up) | pipe(down), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child) {
		char c = dir_claim(dir, NULL) ? 'n' : 'y';
		close(down[1]);
		if (write(up[1], &c, 1) != 1) _exit(1);
		_exit(read(down[0], &c, 1) < 0);
	}
	close(up[1]);
	close(down[0]);
	*ready = up[0];
	*go = down[1];
	return child;
}

static void one_process_claims_a_folder(void **state)
{
	char *top = scratch_make(), *dir = path_join(top, "run"), *half = path_join(dir, "model.safetensors.4711.tmp"),
		 *users = path_join(dir, "notes.tmp"), c = 0;
	struct err err = {0};
	int ready, go;
	pid_t child = claim_in_a_child(dir, &ready, &go);
	assert_int_equal(read(ready, &c, 1), 1);
	assert_int_equal(c, 'y');
	write_text(half, "half");
	write_text(users, "not hone's");

	/* Another process holds it: refused by name, and nothing of it is touched. */
	assert_int_equal(dir_claim(dir, &err), ERR_BUSY);
	assert_non_null(strstr(err.text, dir));
	assert_true(path_exists(half));

	/* The lock goes with its process, however that ends; then leftovers go, and nothing else. */
	close(go);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(dir_claim(dir, &err), 0);
	assert_false(path_exists(half));
	assert_true(path_exists(users));
	assert_int_equal(dir_claim(dir, &err), 0);
	close(ready);
	free(users);
	free(half);
	free(dir);
	scratch_remove(top);
}

static void read_limits_and_missing_files(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f");
	struct str s = {0};
	struct err err = {0};
	assert_int_equal(file_read(path, 100, &s, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, path));
	write_text(path, "12345");
	assert_int_equal(file_read(path, 5, &s, &err), 0);
	assert_string_equal(s.data, "12345");
	assert_int_equal(file_read(path, 4, &s, &err), ERR_LIMIT);
	assert_int_equal(s.len, 0);
	assert_int_equal(file_read(dir, 100, &s, &err), ERR_IO);
	write_text(path, "");
	struct str empty = {0};
	assert_int_equal(file_read(path, 0, &empty, &err), 0);
	assert_string_equal(empty.data, "");
	assert_int_equal(file_read("/proc/self/status", 1 << 20, &s, &err), 0); /* its size says 0 */
	assert_true(s.len > 100);
	str_release(&empty);
	str_release(&s);
	free(path);
	scratch_remove(dir);
}

static void atomic_write_replaces_and_leaves_nothing_beside(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f");
	struct str s = {0};
	write_text(path, "old");
	write_text(path, "newer");
	assert_int_equal(file_read(path, 100, &s, NULL), 0);
	assert_string_equal(s.data, "newer");
	assert_int_equal(entries(dir), 1);
	str_release(&s);
	free(path);
	scratch_remove(dir);
}

static void atomic_write_fails_without_a_trace(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f"), *folder = path_join(dir, "folder"),
		 *slash = path_join(dir, "x/"), *missing = path_join(dir, "no/f");
	struct err err = {0};
	int before = open_descriptors();
	write_text(path, "old");
	assert_int_equal(dir_make(folder, &err), 0);
	char *inside = path_join(folder, "keep");
	write_text(inside, "x");
	assert_int_equal(file_write_atomic(folder, "x", 1, &err), ERR_IO); /* a folder stands there */
	assert_int_equal(file_write_atomic(slash, "x", 1, &err), ERR_USAGE);
	/* As root a rename would put a file in the device's place for everybody:
	 * a pipe stands for one. */
	char *pipe_path = path_join(dir, "pipe");
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	assert_int_equal(file_write_atomic(pipe_path, "x", 1, &err), ERR_IO);
	assert_int_equal(unlink(pipe_path), 0);
	free(pipe_path);
	assert_int_equal(file_write_atomic(missing, "x", 1, &err), ERR_NOT_FOUND);
	assert_int_equal(file_write_atomic("/proc/version", "x", 1, &err) != 0, 1); /* read-only */
	assert_int_equal(entries(dir), 2);

	/* A full disk: the file size limit cuts the write. */
	struct rlimit old, tiny;
	getrlimit(RLIMIT_FSIZE, &old);
	tiny = old;
	tiny.rlim_cur = 10;
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &tiny);
	int rc = file_write_atomic(path, "0123456789abcdef", 16, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(rc, ERR_IO);
	struct str s = {0};
	assert_int_equal(file_read(path, 100, &s, NULL), 0);
	assert_string_equal(s.data, "old");
	assert_int_equal(entries(dir), 2);
	assert_int_equal(open_descriptors(), before);
	str_release(&s);
	free(inside);
	free(missing);
	free(slash);
	free(folder);
	free(path);
	scratch_remove(dir);
}

static void map(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "f");
	struct file_map m;
	struct err err = {0};
	assert_int_equal(file_map_open(path, &m, &err), ERR_NOT_FOUND);
	write_text(path, "mapped");
	assert_int_equal(file_map_open(path, &m, &err), 0);
	assert_int_equal(m.len, 6);
	assert_memory_equal(m.data, "mapped", 6);
	file_map_close(&m);
	file_map_close(&m);
	write_text(path, "");
	assert_int_equal(file_map_open(path, &m, &err), 0);
	assert_int_equal(m.len, 0);
	assert_non_null(m.data);
	file_map_close(&m);
	assert_int_equal(file_map_open(dir, &m, &err), ERR_IO);
	free(path);
	scratch_remove(dir);
}

static void make_with_parents(void **state)
{
	char *dir = scratch_make(), *deep = path_join(dir, "a//b/c/"), *file = path_join(dir, "file"),
		 *under = path_join(dir, "file/x");
	struct err err = {0};
	assert_int_equal(dir_make(deep, &err), 0);
	assert_int_equal(dir_make(deep, &err), 0);
	assert_true(path_exists(deep));
	write_text(file, "x");
	assert_int_equal(dir_make(file, &err), ERR_IO);
	assert_int_equal(dir_make(under, &err), ERR_IO);
	free(under);
	free(file);
	free(deep);
	scratch_remove(dir);
}

static int collect(const char *name, void *ctx)
{
	str_printf(ctx, "%s,", name);
	return strcmp(name, "m") ? 0 : 77;
}

static void each_sorts_and_stops(void **state)
{
	static const char *const names[] = {"z", "B", "a", ".hidden", "10", "9"};
	char *dir = scratch_make();
	struct str seen = {0};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char *path = path_join(dir, names[i]);
		write_text(path, "");
		free(path);
	}
	assert_int_equal(dir_each(dir, collect, &seen, NULL), 0);
	assert_string_equal(seen.data, ".hidden,10,9,B,a,z,");
	char *m = path_join(dir, "m");
	write_text(m, "");
	str_clear(&seen);
	assert_int_equal(dir_each(dir, collect, &seen, NULL), 77);
	assert_string_equal(seen.data, ".hidden,10,9,B,a,m,");
	assert_int_equal(dir_each(m, collect, &seen, NULL), ERR_IO);
	assert_int_equal(dir_each("/nonexistent", collect, &seen, NULL), ERR_NOT_FOUND);
	str_release(&seen);
	free(m);
	scratch_remove(dir);
}

/* 2,000 levels (longer than PATH_MAX), folders without permissions, and a link to a folder that
 * must survive. */
static void remove_hostile_tree(void **state)
{
	char *dir = scratch_make(), *victim = scratch_make(), *kept = path_join(victim, "kept");
	write_text(kept, "x");
	char *real_victim = realpath(victim, NULL);
	assert_non_null(real_victim);
	int before = open_descriptors(), at = open(dir, O_RDONLY | O_DIRECTORY);
	assert_int_equal(symlinkat(real_victim, at, "link"), 0);
	/* Each level is made through its parent's descriptor, since no path is long enough. */
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		assert_int_equal(symlinkat(real_victim, at, "l"), 0);
		int fd = openat(at, "f", O_CREAT | O_WRONLY, 0600), next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		assert_true(fd >= 0 && next >= 0);
		close(fd);
		close(at);
		at = next;
	}
	close(at);
	/* A folder that cannot be listed as it is. */
	char *locked = path_join(dir, "locked/inner");
	assert_int_equal(dir_make(locked, NULL), 0);
	assert_int_equal(chmod(locked, 0), 0);
	free(locked);
	/* All of it goes, no descriptor stays open, and what the links name is still there. */
	scratch_remove(dir);
	assert_int_equal(open_descriptors(), before);
	assert_true(path_exists(kept));
	assert_int_equal(dir_remove("/nonexistent/folder", NULL), 0);
	struct err err = {0};
	assert_int_equal(dir_remove(kept, &err), ERR_IO); /* a file is not a folder */
	free(real_victim);
	free(kept);
	scratch_remove(victim);
}

static void joining(void **state)
{
	static const char *const rows[][3] = {
		{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"a", "/b", "/b"}, {"/", "b", "/b"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *p = path_join(rows[i][0], rows[i][1]);
		assert_string_equal(p, rows[i][2]);
		free(p);
	}
}

static void installed_files_are_found_above_the_program(void **state)
{
	/* A file of the tree is found from the program's place; nothing else is. */
	char *makefile = path_installed("src/base/base.h");
	assert_non_null(makefile);
	free(makefile);
	assert_null(path_installed("no/such/file"));
	char *dir = scratch_make(), *here = path_join(dir, "here");
	static const char *const rows[][2] = {{"", ""}, {"no/such/file", "no/such/file"}, {"/src", "/src"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *found = path_or_installed(rows[i][0]);
		assert_string_equal(found, rows[i][1]);
		free(found);
	}
	/* A file that is there is taken as it is; else the shipped one, also from another folder. */
	write_text(here, "x");
	char *own = path_or_installed(here), *cwd = realpath(".", NULL);
	assert_string_equal(own, here);
	assert_int_equal(chdir(dir), 0);
	char *shipped = path_or_installed("src/base/base.h");
	assert_int_equal(chdir(cwd), 0);
	assert_true(shipped[0] == '/' && path_exists(shipped));
	free(own);
	free(cwd);
	free(shipped);
	free(here);
	scratch_remove(dir);
}

/* Workers have folders of their own, so a Python that is named from here is named in full; the link
 * that it may be stays one. */
static void a_named_python_is_absolute(void **state)
{
	char *dir = scratch_make(), *python = path_join(dir, "python"), *cwd = getcwd(NULL, 0), *found[3];
	static const char *const names[] = {"./python", "elsewhere", "/no/such"};
	assert_int_equal(symlink("/bin/sh", python), 0);
	assert_int_equal(chdir(dir), 0);
	for (int i = 0; i < 3; i++) {
		setenv("HONE_PYTHON", names[i], 1);
		found[i] = path_python();
	}
	unsetenv("HONE_PYTHON");
	assert_int_equal(chdir(cwd), 0);
	assert_true(found[0][0] == '/' && path_is_same(found[0], python) && strstr(found[0], "/python"));
	assert_string_equal(found[1], "elsewhere");
	assert_string_equal(found[2], "/no/such");
	for (int i = 0; i < 3; i++) free(found[i]);
	free(python);
	free(cwd);
	scratch_remove(dir);
}

static void one_thing_under_two_names(void **state)
{
	char *dir = scratch_make(), *odd = xasprintf("%s/./", dir), *file = path_join(dir, "f"),
		 *other = path_join(dir, "g");
	write_text(file, "x");
	assert_true(path_is_same(dir, odd));
	assert_false(path_is_same(dir, file));
	assert_false(path_is_same(file, other)); /* there is no g */
	assert_false(path_is_same(other, other));
	free(odd);
	free(file);
	free(other);
	scratch_remove(dir);
}

static void places_to_write_to(void **state)
{
	char *dir = scratch_make(), *file = path_join(dir, "f"), *under = path_join(file, "g"),
		 *nowhere = path_join(dir, "no/g");
	struct err err = {0};
	assert_int_equal(file_check_writable(file, &err), 0);
	assert_int_equal(file_check_writable("beside", &err), 0);
	write_text(file, "x");
	assert_int_equal(file_check_writable(file, &err), 0);
	assert_int_equal(file_check_writable(dir, &err), ERR_IO);
	assert_non_null(strstr(err.text, "found a folder"));
	assert_int_equal(file_check_writable("/dev/null", &err), ERR_IO);
	assert_non_null(strstr(err.text, "found a device"));
	assert_int_equal(file_check_writable(nowhere, &err), ERR_NOT_FOUND);
	assert_true(file_check_writable(under, &err) < 0);
	assert_int_equal(entries(dir), 1);
	free(file);
	free(under);
	free(nowhere);
	scratch_remove(dir);
}

/* A folder to be made: the nearest one that is there has to be one that may be written. */
static void folders_to_write(void **state)
{
	char *dir = scratch_make(), *file = path_join(dir, "f"), *under = path_join(dir, "f/g/h"),
		 *deep = path_join(dir, "no/such/folder"), *locked = path_join(dir, "locked"),
		 *below = path_join(locked, "x/y");
	struct err err = {0};
	write_text(file, "x");
	assert_int_equal(dir_check_writable(dir, &err), 0);
	assert_int_equal(dir_check_writable(deep, &err), 0);
	assert_int_equal(dir_check_writable("not-made-yet/at/all", &err), 0);
	assert_false(path_exists(deep));
	/* The message names what was asked for, and what stands in its way. */
	char *want = xasprintf("%s: expected a folder to write, found a file", file),
		 *want_under = xasprintf("%s: expected a folder to write, found a file: %s", under, file);
	assert_int_equal(dir_check_writable(file, &err), ERR_IO);
	assert_string_equal(err.text, want);
	assert_int_equal(dir_check_writable(under, &err), ERR_IO);
	assert_string_equal(err.text, want_under);
	assert_int_equal(mkdir(locked, 0500), 0);
	/* Root may write into it all the same. */
	assert_int_equal(dir_check_writable(below, &err) != 0, geteuid() != 0);
	if (geteuid() != 0) assert_non_null(strstr(err.text, "write into this folder"));
	/* The folder that the program stands in, where no part of the path is there. */
	char *home = getcwd(NULL, 0);
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(dir_check_writable("f", &err), ERR_IO);
	assert_int_equal(dir_check_writable("new", &err), 0);
	assert_int_equal(chdir(home), 0);
	char *const made[] = {file, under, deep, locked, below, want, want_under, home};
	for (size_t i = 0; i < ARRAY_LEN(made); i++) free(made[i]);
	scratch_remove(dir);
}

static void real_paths(void **state)
{
	char *dir = scratch_make(), *link = path_join(dir, "link"), *home = getcwd(NULL, 0), *real = path_join(home, dir);
	assert_int_equal(symlink(".", link), 0);
	char *found = path_real(link), *missing = path_real("no/such/../thing");
	assert_string_equal(found, real);
	assert_string_equal(missing, "no/such/../thing");
	char *const made[] = {link, home, real, found, missing};
	for (size_t i = 0; i < ARRAY_LEN(made); i++) free(made[i]);
	scratch_remove(dir);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(leftovers_go),
	cmocka_unit_test(one_process_claims_a_folder),
	cmocka_unit_test(read_limits_and_missing_files),
	cmocka_unit_test(atomic_write_replaces_and_leaves_nothing_beside),
	cmocka_unit_test(atomic_write_fails_without_a_trace),
	cmocka_unit_test(map),
	cmocka_unit_test(make_with_parents),
	cmocka_unit_test(each_sorts_and_stops),
	cmocka_unit_test(remove_hostile_tree),
	cmocka_unit_test(joining),
	cmocka_unit_test(installed_files_are_found_above_the_program),
	cmocka_unit_test(a_named_python_is_absolute),
	cmocka_unit_test(one_thing_under_two_names),
	cmocka_unit_test(places_to_write_to),
	cmocka_unit_test(folders_to_write),
	cmocka_unit_test(real_paths),
};
TAP_MAIN(tests)
