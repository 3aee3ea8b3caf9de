/* Policies outside for tests: a question, its answer, a folder of roles. */
#ifndef HONE_TESTS_POLICY_OUTSIDE_CASE_H
#define HONE_TESTS_POLICY_OUTSIDE_CASE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "policy/policy.h"
#include "base/base.h"

static inline void ask(struct outside *x, int64_t id, const char *text)
{
	struct chat_message m = {"user", text};
	struct outside_request r = {
		.id = id, .task = "t", .stage = "frontend", .sample = (int)id, .messages = &m, .count = 1, .seed = UINT64_MAX};
	struct err err = {0};
	if (outside_submit(x, &r, &err)) fail_msg("%s", err.text);
}

static inline int take(struct outside *x, struct outside_answer *a, struct err *err)
{
	bool is_there;
	int rc = outside_take(x, -1, &is_there, a, err);
	assert_true(rc || is_there);
	return rc;
}

/* A folder of roles: name and text in turn, NULL at the end; caller frees. */
static inline char *roles_folder(const char *const *files)
{
	char *folder = xasprintf("%s/roles-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	struct err err = {0};
	assert_non_null(mkdtemp(folder));
	for (; *files; files += 2) {
		char *path = xasprintf("%s/%s.txt", folder, files[0]);
		assert_int_equal(file_write_atomic(path, files[1], strlen(files[1]), &err), 0);
		free(path);
	}
	return folder;
}

static inline void folder_remove(char *folder)
{
	assert_int_equal(dir_remove(folder, NULL), 0);
	free(folder);
}
#endif
