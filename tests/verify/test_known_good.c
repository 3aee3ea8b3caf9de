/* timeout: 900. Every honest candidate of the share of tests/known_good (graded_folder.h) is
 * genuine. */
#include "graded_folder.h"

static void check(void **state)
{
	const struct graded *g = *state;
	const struct verdict *v = &g->verdict;
	if (v->class != VERDICT_GENUINE)
		fail_msg("%s: %s/%s: %s", g->name, verdict_class_name(v->class), v->reason, v->detail);
	assert_int_equal(v->stage, STAGE_DONE);
	assert_true(v->compiled && v->correct && v->launches > 0 && v->trials > 0);
	assert_true(v->error_max <= v->tolerance);
	for (int i = 0; i < v->nunreached; i++)
		if (strstr(v->unreached[i].text, "not looked for")) fail_msg("%s: %s", g->name, v->unreached[i].text);
	assert_true(v->speedup_eager > 0 && v->speedup_fused > 0);
}

int main(void)
{
	static struct CMUnitTest tests[GRADED_MAX + GRADED_CASES_MORE];
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (graded_run("tests/known_good")) return 1;
	int count = graded_cases(check, 300, tests);
	return _cmocka_run_group_tests("known_good", tests, (size_t)count, NULL, NULL);
}
