/* Where NVIDIA's libraries are looked for, over a tree of folders with a library in one of them
 * at a time: a folder that was named, the program's own, those of a Python's packages. The
 * Python is the one that runs candidates, also where nobody named it: `make` and `hone` on a GPU
 * are all that a clone needs. */
#include "base/base.h"
#include "ops/cuda/libraries.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"

#define NAME "libhone_none.so.7" /* no machine has it on the loader's path */
#define PACKAGES "venv/lib/python3.12/site-packages/nvidia/none/lib"
static const char *const names[] = {"libhone_none.so.8", NAME, NULL};
static char root[] = "/tmp/hone-libraries-XXXXXX";
static char *fake; /* any library: the tests' NCCL */

static char *under(const char *folder) { return path_join(root, folder); }

/* The library stands in this folder alone. */
static void stands_in(const char *folder)
{
	struct err err = {0};
	assert_int_equal(dir_remove(root, &err), 0);
	char *dir = under(folder), *file = path_join(dir, NAME), *real = path_real(fake);
	assert_int_equal(dir_make(dir, &err), 0);
	assert_int_equal(symlink(real, file), 0);
	free(real);
	free(file);
	free(dir);
}

/* Whether it is found with these, and where it was looked for before. */
static bool is_found(const char *named, bool only_named, const char *own, struct str *tried)
{
	char *folders[2] = {named ? under(named) : NULL, own ? under(own) : NULL};
	const struct library_places p = {.names = names,
		.named = folders[0],
		.beside = "../beside",
		.only_named = only_named,
		.own = folders[1],
		.packages = "nvidia/none/lib"};
	str_clear(tried);
	void *library = library_open(&p, tried);
	if (library) dlclose(library);
	for (int i = 0; i < 2; i++) free(folders[i]);
	return library;
}

static bool says(const struct str *tried, const char *text) { return tried->data && strstr(tried->data, text); }

static void use_places(void *unused)
{
	struct str tried = {0};
	struct err err = {0};
	char *python = under("venv/bin/python"), *bin = under("venv/bin"), *named = under("named");
	setenv("HONE_PYTHON", python, 1);
	stands_in("named");
	assert_true(is_found("named", false, NULL, &tried) && is_found("named", true, NULL, &tried));
	assert_true(says(&tried, "/named/libhone_none.so.8") && !says(&tried, "/named/" NAME));
	assert_false(is_found(NULL, false, NULL, &tried));
	stands_in("beside");
	assert_int_equal(dir_make(named, &err), 0);
	assert_true(is_found("named", true, NULL, &tried) && says(&tried, "/named/" NAME));
	stands_in("own");
	assert_true(is_found(NULL, false, "own", &tried));
	/* A folder that was named is not passed over by who says so. */
	assert_true(is_found("named", false, "own", &tried));
	assert_false(is_found("named", true, "own", &tried));
	assert_true(says(&tried, "/named/" NAME) && !says(&tried, "/own/"));
	stands_in(PACKAGES);
	assert_int_equal(dir_make(bin, &err), 0);
	assert_true(is_found(NULL, false, "own", &tried) && says(&tried, "/own/" NAME));
	assert_false(is_found("named", true, NULL, &tried));
	/* What is there and does not load is no absent one. */
	stands_in("broken");
	char *broken = under("broken"), *file = path_join(broken, NAME);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(file_write_atomic(file, "text", 4, &err), 0);
	assert_false(is_found("broken", true, NULL, &tried));
	assert_true(says(&tried, "/broken/" NAME " (does not load: ") && says(&tried, "file too short)"));
	assert_false(says(&tried, "libhone_none.so.8 (does"));
	free(file);
	free(broken);
	/* A Python without such packages is named. */
	setenv("HONE_PYTHON", "/nowhere/bin/python", 1);
	assert_false(is_found(NULL, false, NULL, &tried));
	assert_true(says(&tried, "the packages of /nowhere/bin/python, which have no nvidia/none/lib"));
	free(named);
	free(bin);
	free(python);
	str_release(&tried);
}
static void test_places(void **state) { leaves_nothing(use_places, NULL); }

/* Nobody named a Python: the one that make setup made is it. This program, in a tree with such a
 * one, says whether it finds the library there. */
static void test_own_python(void **state)
{
	struct err err = {0};
	stands_in("build/" PACKAGES);
	char *self = path_real("/proc/self/exe"), *dir = under("build/release/tests/ops"), *program = path_join(dir, "t"),
		 *bin = under("build/venv/bin"), *python = path_join(bin, "python"),
		 *command = xasprintf("cp '%s' '%s' && env -u HONE_PYTHON '%s' find", self, program, program);
	assert_int_equal(dir_make(dir, &err), 0);
	assert_int_equal(dir_make(bin, &err), 0);
	assert_int_equal(file_write_atomic(python, "", 0, &err), 0);
	assert_int_equal(system(command), 0);
	assert_int_equal(unlink(python), 0);
	assert_int_not_equal(system(command), 0);
	char *all[] = {self, dir, program, bin, python, command};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) free(all[i]);
}

int main(int argc, char **argv)
{
	struct err err = {0};
	if (argc > 1) {
		const struct library_places p = {.names = names, .packages = "nvidia/none/lib"};
		struct str tried = {0};
		return library_open(&p, &tried) ? 0 : 1;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_own_python)};
	const char *build = getenv("BUILD");
	fake = xasprintf("%s/tests/ops/libnccl.so.2", build ? build : "build/release");
	CHECKF(mkdtemp(root), "no folder in /tmp");
	cmocka_set_message_output(CM_OUTPUT_TAP);
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	dir_remove(root, &err);
	free(fake);
	return rc;
}
