/* What a mid-end's answers are worth: every answer counts, whatever stands before it; the fastest
 * of a kernel says by how much and by which change. */
#include "rl/rl_internal.h"
#include "base/base.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static struct verdict answer(enum verdict_class class, double cost_us, int launches, int64_t bytes, int64_t programs)
{
	return (struct verdict){
		.class = class, .cost_s = cost_us * 1e-6, .launches = launches, .bytes = bytes, .programs = programs};
}

static void expect(const json_t *o, const char *key, double expected)
{
	double found = json_number_value(json_object_get(o, key));
	if (!(fabs(found - expected) <= 1e-9 * fmax(1, fabs(expected))))
		fail_msg("%s: %.12g, expected %.12g", key, found, expected);
}

static void expect_change(const json_t *o, const char *name, int kernels, double speedup)
{
	const json_t *change = json_object_get(json_object_get(o, "changes"), name);
	assert_non_null(change);
	expect(change, "kernels", kernels);
	expect(change, "speedup_geomean", speedup);
}

static void test_summary(void **state)
{
	enum { KERNELS = 4, K = 5 };
	struct prompt_row rows[KERNELS];
	struct rollout r[KERNELS * K];
	static char *const structures[KERNELS] = {(char *)"a", (char *)"b", (char *)"b", (char *)"c"};
	memset(rows, 0, sizeof rows);
	memset(r, 0, sizeof r);
	/* Each kernel given takes 8 us in 2 launches of 4 programs. */
	for (int i = 0; i < KERNELS; i++) {
		rows[i].task = (struct task){.name = (char *)"t", .source = (char *)"", .structure = structures[i]};
		rows[i].profile = answer(VERDICT_GENUINE, 8, 2, 1000, 4);
		for (int k = 0; k < K; k++) r[i * K + k].verdict = answer(VERDICT_WRONG, 1, 1, 1, 1);
	}
	/* The first: a slower answer, one that was lost, two faster ones, the second of which fuses. */
	r[0].verdict = answer(VERDICT_GENUINE, 16, 2, 1000, 4);
	r[1].verdict = answer(VERDICT_GENUINE, 0.1, 1, 10, 4);
	r[1].is_dropped = true;
	r[2].verdict = answer(VERDICT_GENUINE, 4, 2, 500, 4);
	r[3].verdict = answer(VERDICT_GENUINE, 2, 1, 1000, 4);
	r[4].verdict = answer(VERDICT_GENUINE, 3, 2, 1000, 8);
	/* The second: one that cannot be compared, one within the noise, one in other blocks. */
	r[5].verdict = answer(VERDICT_GENUINE, 1, 1, 1000, 4);
	strcpy(r[5].verdict.cost_size, "stock");
	r[6].verdict = answer(VERDICT_GENUINE, 7.9, 2, 1000, 4);
	r[7].verdict = answer(VERDICT_GENUINE, 4, 2, 1000, 8);
	/* The third: fewer passes. To the last nothing right was answered: it stays as it was. */
	r[10].verdict = answer(VERDICT_GENUINE, 1, 2, 500, 4);
	struct prompt_set prompts = {.rows = rows, .count = KERNELS, .refused = 3};
	json_t *o = midend_summary(r, &prompts, K, 1);
	expect(o, "kernels", KERNELS);
	expect(o, "structures", 3);
	expect(o, "refused_prompts", 3);
	expect(o, "answers", KERNELS * K - 1);
	expect(o, "genuine", 8.0 / 19);
	expect(o, "faster", 5.0 / 19);
	expect(o, "slower", 1.0 / 19);
	expect(o, "untimed", 1);
	expect(o, "speedup_geomean", pow(4 * 2 * 8, 1.0 / 4));
	expect_change(o, "fused", 1, 4);
	expect_change(o, "reblocked", 1, 2);
	expect_change(o, "fewer_passes", 1, 8);
	expect_change(o, "other", 0, 0);
	expect_change(o, "none", 1, 1);
	/* The interval is of whole structures: a gains 4, b 2 and 8, c nothing. */
	double low = json_number_value(json_object_get(o, "low")), high = json_number_value(json_object_get(o, "high"));
	assert_true(low >= 1 - 1e-9 && low < 2 && high > 3.5 && high <= 4 + 1e-9);
	json_decref(o);
	/* Of nothing there is nothing to say. */
	prompts = (struct prompt_set){.count = 0};
	o = midend_summary(r, &prompts, K, 1);
	expect(o, "kernels", 0);
	expect(o, "speedup_geomean", 0);
	expect(o, "low", 0);
	expect(o, "high", 0);
	expect(o, "genuine", 0);
	json_decref(o);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx) { test_summary(NULL); }

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_summary), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
