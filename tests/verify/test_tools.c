/* What is read from the tools of the CUDA toolkit: a sanitizer's summary and first finding, a
 * profiler's table. Their words here are shortened from real runs. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void test_summaries(void **state)
{
	static const struct {
		const char *said;
		int errors;
	} cases[] = {
		{"========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 0},
		{"========= ERROR SUMMARY: 12 errors\n========= ERROR SUMMARY: 4 errors were not printed.\n", 4},
		{"========= ERROR SUMMARY: 1 error\n", 1},
		{"========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0},
		{"========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)\n", 2},
		{"========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)", 0},
		{"========= COMPUTE-SANITIZER\n========= Error: Target application terminated\n", -1},
		{"", -1},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (sanitizer_errors(cases[i].said) != cases[i].errors)
			fail_msg("%s: %d, expected %d", cases[i].said, sanitizer_errors(cases[i].said), cases[i].errors);
}

static void test_findings(void **state)
{
	char text[120];
	sanitizer_text("========= COMPUTE-SANITIZER\nwords of the program\n"
				   "========= Invalid __global__ write of size 4 bytes\n"
				   "=========     at kernel+0x120 in candidate.py:12\n"
				   "=========     by thread (0,0,0) in block (3,0,0)\n========= ERROR SUMMARY: 1 error\n",
		text, sizeof text);
	assert_string_equal(text, "Invalid __global__ write of size 4 bytes at kernel+0x120 in candidate.py:12");
	sanitizer_text("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", text, sizeof text);
	assert_string_equal(text, "");
	/* A long line ends where the room does, and bytes of a name that no
	 * terminal should see are gone. */
	char small[16];
	sanitizer_text("========= Error \033[2J in a kernel with a long name\n========= next\n", small, sizeof small);
	assert_true(strlen(small) < sizeof small && !strchr(small, 27));
}

static void test_tables(void **state)
{
	struct verdict_profile p[2];
	char said[] = "==PROF== Connected to process 7\n"
				  "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
				  "\"0\",\"7\",\"hone_move\",\"gpu__time_duration.sum\",\"ns\",\"2,496\"\n"
				  "\"1\",\"7\",\"kernel, with a comma\",\"gpu__time_duration.sum\",\"ns\",\"3,168\"\n"
				  "\"1\",\"7\",\"kernel, with a comma\",\"dram__bytes_read.sum\",\"byte\",\"1,005,888\"\n"
				  "\"1\",\"7\",\"kernel, with a comma\",\"something.else\",\"byte\",\"5\"\n"
				  "\"2\",\"7\",\"second\",\"lts__t_bytes.sum\",\"byte\",\"n/a\"\n"
				  "\"3\",\"7\",\"third\",\"lts__t_bytes.sum\",\"byte\",\"1\"\n"
				  "\"4\",\"7\"\n\"unfinished";
	/* A number of as many digits as there is room for. */
	char digits[400], zeros[63] = "";
	memset(zeros, '0', sizeof zeros - 1);
	snprintf(digits, sizeof digits,
		"\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n\"0\",\"k\",\"gpu__time_duration.sum\",\"%s7\"\n",
		zeros);
	/* As many launches as there is room for, ours left out. */
	assert_int_equal(profile_read(said, p, 2), 2);
	assert_string_equal(p[0].kernel, "kernel, with a comma");
	assert_true(p[0].counters[COUNTER_TIME] == 3168 && p[0].counters[COUNTER_DRAM_READ] == 1005888);
	assert_true(isnan(p[0].counters[COUNTER_L2]) && isnan(p[1].counters[COUNTER_L2]));
	assert_true(profile_read(digits, p, 2) == 1 && p[0].counters[COUNTER_TIME] == 7);
	char other[] = "\"ID\",\"Name\"\n\"0\",\"x\"\n", nothing[] = "==ERROR== ERR_NVGPUCTRPERM\n";
	assert_int_equal(profile_read(other, p, 2), 0);
	assert_int_equal(profile_read(nothing, p, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_summaries),
		cmocka_unit_test(test_findings),
		cmocka_unit_test(test_tables),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("tools", tests, NULL, NULL);
}
