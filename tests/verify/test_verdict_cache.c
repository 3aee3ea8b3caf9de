/* Verdicts that need no grading again (src/verify/verdict_cache.h): which ones memory holds, and
 * which ones the store. */
#include "base/base.h"
#include "store/store.h"
#include "verify/verdict_cache.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

enum { COUNT = 16 };

static struct sha256_hex key_of(int number) { return hash_bytes(&number, sizeof number); }

static void keep(struct verdict_cache *c, int number, int line)
{
	struct sha256_hex key = key_of(number);
	struct verdict d = {.class = VERDICT_WRONG, .line = line};
	verdict_cache_keep(c, &key, &d);
}

/* The line of the verdict that is there, -1: none is. */
static int line_of(struct verdict_cache *c, int number)
{
	struct sha256_hex key = key_of(number);
	const struct verdict *d = verdict_cache_find(c, &key);
	return d ? d->line : -1;
}

/* The last COUNT are there, however their keys fall together; one that is kept again has the newer
 * verdict and takes no second place. */
static void the_last_ones_are_there(void **state)
{
	struct verdict_cache *c = verdict_cache_create(COUNT, NULL);
	for (int i = 0; i < 5 * COUNT; i++) {
		assert_int_equal(line_of(c, i), -1);
		keep(c, i, i);
		for (int k = 0; k <= i; k++) assert_int_equal(line_of(c, k), k > i - COUNT ? k : -1);
	}
	for (int again = 0; again < 3 * COUNT; again++) keep(c, 5 * COUNT - 2, 1000 + again);
	assert_int_equal(line_of(c, 5 * COUNT - 2), 1000 + 3 * COUNT - 1);
	for (int k = 4 * COUNT; k < 5 * COUNT; k++)
		if (k != 5 * COUNT - 2) assert_int_equal(line_of(c, k), k);
	verdict_cache_free(c);
	/* One place is a cache too. */
	c = verdict_cache_create(1, NULL);
	keep(c, 1, 1);
	keep(c, 2, 2);
	assert_true(line_of(c, 1) == -1 && line_of(c, 2) == 2);
	verdict_cache_free(c);
}

/* What hangs on the machine of the day is of this process alone; all else comes back from the store
 * under its own key. Without a store nothing does. */
static void the_store_has_what_lasts(void **state)
{
	static const struct {
		enum verdict_class class;
		const char *reason;
		bool lasts;
	} cases[] = {{VERDICT_GENUINE, "ok", true}, {VERDICT_WRONG, "mismatch", true}, {VERDICT_INFRA, "infra", false},
		{VERDICT_INVALID, "timeout", false}, {VERDICT_WRONG, "timeout-launch", false}, {VERDICT_INVALID, "time", true}};
	char *folder = xasprintf("%s/verdicts-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	assert_non_null(mkdtemp(folder));
	char *path = path_join(folder, "store.db");
	struct err err = {0};
	/* Kept by one process, found by the next. */
	for (int run = 0; run < 2; run++) {
		struct store *store;
		if (store_open(path, &store, &err)) fail_msg("%s", err.text);
		struct verdict_cache *c = verdict_cache_create(COUNT, store), *none = verdict_cache_create(COUNT, NULL);
		for (int i = 0; i < (int)ARRAY_LEN(cases); i++) {
			struct verdict d = {.class = cases[i].class, .line = 7 + i, .key = key_of(i)}, back;
			snprintf(d.reason, sizeof d.reason, "%s", cases[i].reason);
			if (!run) verdict_cache_save(c, &d);
			verdict_cache_save(none, &d);
			bool is_there = verdict_cache_load(c, &d.key, &back);
			if (is_there != cases[i].lasts) fail_msg("%s: %d", cases[i].reason, is_there);
			if (is_there) assert_int_equal(back.line, 7 + i);
			assert_false(verdict_cache_load(none, &d.key, &back));
		}
		verdict_cache_free(c);
		verdict_cache_free(none);
		store_close(store);
	}
	assert_int_equal(dir_remove(folder, NULL), 0);
	free(path);
	free(folder);
}

static void nothing_is_left(void **state)
{
	long before = live_blocks;
	struct verdict_cache *c = verdict_cache_create(COUNT, NULL);
	for (int i = 0; i < 3 * COUNT; i++) keep(c, i, i);
	verdict_cache_free(c);
	verdict_cache_free(NULL);
	assert_int_equal(live_blocks, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_ones_are_there),
		cmocka_unit_test(the_store_has_what_lasts),
		cmocka_unit_test(nothing_is_left),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
