/* Statistics and advantages of the loop, against brute force and hand-worked values. */
#include "eval/eval.h"
#include "rl/rl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double choose(int n, int k)
{
	double c = 1;
	for (int i = 0; i < k; i++) c = c * (n - i) / (i + 1);
	return k > n ? 0 : c;
}

/* Chen et al. 2021: 1 - C(n - c, k) / C(n, k). Both sides are sums of a few products of doubles:
 * 1e-12 is thousands of ulps. */
static void test_pass_at_k(void **state)
{
	for (int n = 1; n <= 16; n++)
		for (int c = 0; c <= n; c++)
			for (int k = 1; k <= n; k++) {
				double want = 1 - choose(n - c, k) / choose(n, k);
				if (fabs(pass_at_k(n, c, k) - want) > 1e-12)
					fail_msg("n %d c %d k %d: %g, expected %g", n, c, k, pass_at_k(n, c, k), want);
			}
}

/* The interval of a difference with known mean and spread: its half width is 1.96 s /
 * sqrt(n) within the bootstrap's own error (10,000 draws: about 2 %, allowed 10 %). */
static void test_bootstrap(void **state)
{
	enum { N = 400 };
	double a[N], b[N], low, mean, high, ss = 0;
	for (int i = 0; i < N; i++) {
		a[i] = rng_uniform(1, 2, (uint64_t)i) < 0.7;
		b[i] = rng_uniform(1, 3, (uint64_t)i) < 0.6;
	}
	bootstrap_paired(a, b, N, 5, &low, &mean, &high);
	double want = 0;
	for (int i = 0; i < N; i++) want += (a[i] - b[i]) / N;
	for (int i = 0; i < N; i++) ss += (a[i] - b[i] - want) * (a[i] - b[i] - want);
	double half = 1.96 * sqrt(ss / (N - 1) / N);
	assert_true(fabs(mean - want) < 1e-9);
	assert_true(fabs((high - low) / 2 - half) < 0.1 * half);
	bootstrap_paired(a, a, N, 5, &low, &mean, &high);
	assert_true(low == 0 && mean == 0 && high == 0);
}

static struct prompt_row row = {.text = ""};
static const struct prompt_set prompts = {&row, 1, 0, 0};

static struct rollout graded(enum verdict_class class, double speedup)
{
	return (struct rollout){.verdict = {.class = class, .speedup = speedup, .cost_s = 1}};
}

/* Leave-one-out over rewards {1, 0, 0, 1}: a pass sees 1 - 1/3, a failure 0 - 2/3. */
static void test_advantages_uniform(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_INVALID, 1), graded(VERDICT_GENUINE, 1)};
	int dropped;
	rollouts_advantages(r, 1, 4, reward_rule_find("frontend"), ADVANTAGE_LEAVE_ONE_OUT, &prompts, &dropped);
	assert_int_equal(dropped, 0);
	for (int i = 0; i < 4; i++) {
		double want = i == 0 || i == 3 ? 2.0 / 3 : -2.0 / 3;
		assert_true(fabs(r[i].advantage_code - want) < 1e-12);
		assert_true(r[i].advantage_plan == r[i].advantage_code);
	}
}

/* hrd: plan and code have groups of their own; plan's is weighted by alpha = 0.1. Speedups 2 and 1
 * of two genuine answers: plan rewards 2, 1; code 1, 1. */
static void test_advantages_split(void **state)
{
	struct rollout r[2] = {graded(VERDICT_GENUINE, 2), graded(VERDICT_GENUINE, 1)};
	int dropped;
	rollouts_advantages(r, 1, 2, reward_rule_find("hrd"), ADVANTAGE_LEAVE_ONE_OUT, &prompts, &dropped);
	assert_int_equal(dropped, 0); /* code has no variance, plan has */
	assert_true(fabs(r[0].advantage_plan - 0.1) < 1e-12 && fabs(r[1].advantage_plan + 0.1) < 1e-12);
	assert_true(r[0].advantage_code == 0 && r[1].advantage_code == 0);
}

/* A sample whose verdict was an infrastructure fault does not count: the others' advantages are
 * those of a group of three. */
static void test_infra_is_dropped(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_GENUINE, 1), graded(VERDICT_INFRA, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_WRONG, 1)};
	int dropped;
	rollouts_advantages(r, 1, 4, reward_rule_find("frontend"), ADVANTAGE_LEAVE_ONE_OUT, &prompts, &dropped);
	assert_true(r[1].is_dropped);
	assert_true(r[1].advantage_code == 0);
	assert_true(fabs(r[0].advantage_code - 1) < 1e-12);
	assert_true(fabs(r[2].advantage_code + 0.5) < 1e-12);
}

static void test_no_variance(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_WRONG, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_GENUINE, 1), graded(VERDICT_GENUINE, 1)};
	int dropped;
	rollouts_advantages(r, 2, 2, reward_rule_find("frontend"), ADVANTAGE_LEAVE_ONE_OUT, &prompts, &dropped);
	assert_int_equal(dropped, 2);
	for (int i = 0; i < 4; i++) assert_true(r[i].advantage_code == 0);
}

/* Two tasks x two samples, one infra: rates are over counted answers, pass@1 over tasks. */
static void test_summary(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_GENUINE, 4), graded(VERDICT_WRONG, 1), graded(VERDICT_GENUINE, 1), graded(VERDICT_INFRA, 1)};
	r[3].is_dropped = true;
	int ks[] = {1, 2};
	json_t *s = rollouts_summary(r, &prompts, 2, 2, ks, 2), *pass = json_object_get(s, "pass");
	assert_int_equal(json_integer_value(json_object_get(s, "answers")), 3);
	assert_int_equal(json_integer_value(json_object_get(s, "dropped")), 1);
	assert_true(fabs(json_real_value(json_object_get(pass, "pass@1")) - 0.75) < 1e-12);
	assert_true(fabs(json_real_value(json_object_get(pass, "pass@2")) - 1.0) < 1e-12);
	assert_true(fabs(json_real_value(json_object_get(s, "genuine")) - 2.0 / 3) < 1e-12);
	assert_true(fabs(json_real_value(json_object_get(s, "speedup_geomean")) - 2.0) < 1e-12);
	json_decref(s);
}

/* A model may write any bytes; what the store keeps must be read back. */
static void test_any_bytes_are_recorded(void **state)
{
	row.task = (struct task){.name = "t", .structure = "", .split = ""};
	char text[] = "a\0b\xff";
	struct rollout r = graded(VERDICT_WRONG, 1);
	r.text = text;
	r.text_len = 4;
	struct err err = {0};
	json_t *back = NULL, *j = rollout_json(&r, &prompts);
	char *line = json_dumps(j, JSON_COMPACT);
	assert_non_null(line);
	if (json_parse(line, strlen(line), "row", &back, &err)) fail_msg("%s", err.text);
	assert_string_equal(json_string_value(json_object_get(back, "answer")),
		"a\xef\xbf\xbd"
		"b\xef\xbf\xbd");
	free(line);
	json_decref(j);
	json_decref(back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pass_at_k),
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_advantages_uniform),
		cmocka_unit_test(test_advantages_split),
		cmocka_unit_test(test_infra_is_dropped),
		cmocka_unit_test(test_no_variance),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_any_bytes_are_recorded),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
