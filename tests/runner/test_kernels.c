/* The launcher's own kernels as text: NVIDIA's assembler, which comes with Triton, takes them for
 * each generation of cards that hone runs on. What they do is seen on a GPU (tests/gpu/moves.c). */
#include "runner/cuda/kernels.h"
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static void test_assembles(void **state)
{
	static const char *const cards[] = {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100"};
	char text[] = "/tmp/hone-ptx-XXXXXX";
	int fd = mkstemp(text);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, cuda_own_ptx, strlen(cuda_own_ptx)), strlen(cuda_own_ptx));
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(cards); i++) {
		char command[512];
		snprintf(command, sizeof command,
			"env LD_PRELOAD= build/venv/lib/python3*/site-packages/triton/backends/nvidia/bin/ptxas -arch=%s %s -o "
			"/dev/null",
			cards[i], text);
		if (system(command)) fail_msg("ptxas refuses the launcher's kernels for %s", cards[i]);
	}
	unlink(text);
}

/* Each type has a code of its own, and the 8-bit floats have none. */
static void test_codes(void **state)
{
	bool seen[256] = {false};
	for (int t = 0; t < DTYPE_COUNT; t++) {
		uint8_t code = cuda_cast_codes[t];
		assert_int_equal(code == 0, t == DTYPE_F8E4M3 || t == DTYPE_F8E5M2);
		if (code && seen[code]) fail_msg("%s has the code of another type", dtype_name((enum dtype)t));
		seen[code] = true;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_assembles), cmocka_unit_test(test_codes)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
