/* Where the oracle's message says that outputs lie: within their memory, aligned for doubles, or
 * the trial is refused. The reference's process writes these messages, and it is hostile. */
#include "base/base.h"
#include "verify/oracle.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#define BYTES 48 /* four floats, and four doubles behind them */

static int sealed(int64_t bytes)
{
	int fd = memfd_create("trial", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0 && ftruncate(fd, bytes) == 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 0);
	return fd;
}

static void test_outputs_lie_in_their_memory(void **state)
{
	static const struct {
		int size, plain, exact, noise;
		const char *says; /* NULL: it is read */
	} rows[] = {
		{4, 0, 16, -1, NULL},
		{4, 32, 0, -1, NULL},
		{4, 0, -1, -1, NULL},
		{4, 0, 16, 40, NULL},
		{4, 40, 0, -1, "oracle's outputs do not lie in their memory"},
		{4, 0, 24, -1, "oracle's outputs do not lie in their memory"},
		{4, 0, 48, -1, "oracle's outputs do not lie in their memory"},
		{4, 4, 16, -1, "oracle's outputs do not lie in their memory"},
		{4, 0, 12, -1, "oracle's outputs do not lie in their memory"},
		{4, 0, 16, 48, "oracle's noise does not lie in its memory"},
		{4, 0, 16, 36, "oracle's noise does not lie in its memory"},
		{49, 0, -1, -1, "oracle's output shape does not fit its data"},
		{4, 49, -1, -1, "field \"plain\""},
		{4, 0, 49, -1, "field \"exact\""},
	};
	/* Each message with memory of its own: what is refused leaves nothing
	 * that the next one sees. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct oracle_trial t = {.given_fd = -1};
		struct err err = {0};
		int given = sealed(8), expected = sealed(BYTES);
		json_t *o = json_pack("{s:[], s:[], s:[{s:s, s:[i], s:i, s:i, s:i}]}", "inputs", "params", "outputs", "dtype",
			"float32", "shape", rows[i].size, "plain", rows[i].plain, "exact", rows[i].exact, "noise", rows[i].noise);
		assert_non_null(o);
		int rc = oracle_trial_read(o, given, expected, &t, &err);
		bool is_right = rows[i].says ? rc && strstr(err.text, rows[i].says) : !rc;
		if (!is_right) fail_msg("row %zu: %d, %s", i, rc, err.text);
		oracle_trial_release(&t);
		json_decref(o);
		close(given);
		close(expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_outputs_lie_in_their_memory)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
