/* Stores for tests, in a folder of their own. */
#ifndef HONE_TESTS_STORE_FOLDER_H
#define HONE_TESTS_STORE_FOLDER_H
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include <sqlite3.h>
#include "store/store.h"

static char folder[64];

static inline int folder_make(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-store-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove(void **state) { return dir_remove(folder, NULL); }

static inline struct store *open_or_fail(const char *path)
{
	struct store *s = NULL;
	struct err err = {0};
	if (store_open(path, &s, &err)) fail_msg("%s", err.text);
	return s;
}

struct seen {
	int count;
	int64_t step[16];  /* (count) */
	int64_t index[16]; /* (count) */
	int64_t value[16]; /* (count) */
};

static inline int remember(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct seen *seen = ctx;
	assert_true(seen->count < 16);
	seen->step[seen->count] = step;
	seen->index[seen->count] = index;
	seen->value[seen->count++] = json_integer_value(json_object_get(row, "v"));
	return 0;
}

static inline void put_row(struct store *s, int64_t run, int64_t step, int64_t index, int value)
{
	struct err err = {0};
	json_t *row = json_pack("{s:i}", "v", value);
	int rc = index < 0 ? store_metrics_put(s, run, step, row, &err) : store_sample_put(s, run, step, index, row, &err);
	if (rc) fail_msg("%s", err.text);
	json_decref(row);
}

static inline void sql(const char *path, const char *text)
{
	sqlite3 *db = NULL;
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
}

static inline int stop_at_two(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	return ++*(int *)ctx == 2 ? 5 : 0;
}
#endif
