/* Guards: rows of metrics in, alarms and stops out. */
#include "rl/rl_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static const struct guard_options usual = {.action = GUARD_STOP,
	.patience = 3,
	.eval_patience = 2,
	.gap = 0.01,
	.hack = 0.2,
	.degenerate = 0.5,
	.clipped = 0.5};

/* Feeds a metric n times; returns whether its alarm is on after the last one. */
static bool feed(struct guard *g, int64_t *step, const char *metric, json_t *value, int n, const char *rule)
{
	bool is_on = false;
	for (int i = 0; i < n; i++) {
		json_t *m = json_pack("{s:f, s:O}", "reward", 0.5, metric, value), *alarms = json_array(), *a;
		size_t k;
		char begins[256];
		guard_add(g, ++*step, m, alarms, begins, sizeof begins);
		is_on = false;
		json_array_foreach(alarms, k, a) is_on |= !strcmp(json_string_value(a), rule);
		json_decref(alarms);
		json_decref(m);
	}
	json_decref(value);
	return is_on;
}

/* Each alarm begins with the third step in a row over its threshold and ends
 * with the first below. */
static void test_alarms(void **state)
{
	const struct {
		const char *rule, *metric;
		double bad, good;
	} cases[] = {{"gap", "sampling/trained_logp_difference/mean", 0.02, 0.009}, {"hack", "hack", 0.3, 0.2},
		{"degenerate", "completions/degenerate_ratio", 0.6, 0.1},
		{"truncation", "completions/clipped_ratio", 0.6, 0.5}};
	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct guard g;
		int64_t step = 0;
		guard_init(&g, &usual);
		assert_false(feed(&g, &step, cases[c].metric, json_real(cases[c].bad), 2, cases[c].rule));
		assert_false(feed(&g, &step, cases[c].metric, json_real(cases[c].good), 1, cases[c].rule));
		assert_false(feed(&g, &step, cases[c].metric, json_real(cases[c].bad), 2, cases[c].rule));
		assert_true(feed(&g, &step, cases[c].metric, json_real(cases[c].bad), 1, cases[c].rule));
		assert_true(feed(&g, &step, cases[c].metric, json_null(), 1, cases[c].rule)); /* not finite */
		assert_false(feed(&g, &step, cases[c].metric, json_real(cases[c].good), 1, cases[c].rule));
		assert_false(g.stops);
	}
	struct guard g; /* thresholds of 0 are off: format and kl here */
	int64_t step = 0;
	guard_init(&g, &usual);
	assert_false(feed(&g, &step, "kl", json_real(1e9), 5, "kl"));
}

/* An alarm is said once, at the step with which it begins, and again when it begins again. */
static void test_said_once(void **state)
{
	static const double values[] = {0.3, 0.3, 0.3, 0.3, 0.3, 0.1, 0.3, 0.3, 0.3, 0.3};
	struct guard g;
	guard_init(&g, &usual);
	for (int i = 0; i < (int)(sizeof values / sizeof *values); i++) {
		char begins[256], words[64];
		json_t *m = json_pack("{s:f, s:f}", "reward", 0.5, "hack", values[i]);
		guard_add(&g, i + 1, m, NULL, begins, sizeof begins);
		snprintf(words, sizeof words, "step %d: guard hack: ", i + 1);
		if (i == 2 || i == 8) assert_memory_equal(begins, words, strlen(words));
		else assert_string_equal(begins, "");
		json_decref(m);
	}
}

static void test_not_finite_and_spikes_stop(void **state)
{
	static const char *const metrics[] = {"guard/not_finite", "guard/spikes"};
	for (int i = 0; i < 2; i++)
		for (int action = GUARD_OFF; action <= GUARD_STOP; action++) {
			struct guard g;
			struct guard_options o = usual;
			int64_t step = 0;
			o.action = (enum guard_action)action;
			guard_init(&g, &o);
			feed(&g, &step, metrics[i], json_integer(1), 2, "");
			feed(&g, &step, metrics[i], json_integer(0), 1, "");
			feed(&g, &step, metrics[i], json_integer(1), 2, "");
			assert_false(g.stops); /* never three in a row */
			bool alarm = feed(&g, &step, metrics[i], json_integer(1), 1, i ? "spikes" : "not-finite");
			assert_int_equal(alarm, action != GUARD_OFF);
			assert_int_equal(g.stops, action == GUARD_STOP);
			if (g.stops) assert_non_null(strstr(g.why, "step 6"));
		}
}

/* A step of so many answers, of which a share is paid; whether the alarm is on. */
static bool paid(struct guard *g, int64_t step, int answers, double share)
{
	json_t *m = json_pack("{s:f, s:i, s:f}", "reward", share, "answers", answers, "paid", share),
		   *alarms = json_array();
	guard_add(g, step, m, alarms, NULL, 0);
	bool is_on = json_array_size(alarms) > 0;
	json_decref(alarms);
	json_decref(m);
	return is_on;
}

/* A policy that one step ruined is paid for hardly anything any more: the run stops at the third
 * such step, whatever its answers look like. A slow decline, a single bad step, a share so small
 * that nothing was to be expected of a step, and a run that never was any better, are none. */
static void test_collapse(void **state)
{
	struct guard_options o = usual;
	struct guard g;
	int64_t step = 0;
	o.collapse = 0.1;
	guard_init(&g, &o);
	for (int i = 0; i < 6; i++) assert_false(paid(&g, ++step, 64, 0.4));
	assert_false(paid(&g, ++step, 64, 0) || paid(&g, ++step, 64, 0));
	assert_false(paid(&g, ++step, 64, 0.4) || paid(&g, ++step, 64, 0) || paid(&g, ++step, 64, 0.03));
	assert_false(g.stops);
	assert_true(paid(&g, ++step, 64, 0));
	assert_true(g.stops && strstr(g.why, "collapse"));
	guard_init(&g, &o);
	for (double share = 0.5; share > 0.06; share *= 0.9) assert_false(paid(&g, ++step, 64, share));
	assert_false(g.stops);
	guard_init(&g, &o);
	for (int i = 0; i < 20; i++) assert_false(paid(&g, ++step, 64, i < 10 ? 0.1 : 0));
	guard_init(&g, &o);
	for (int i = 0; i < 20; i++) assert_false(paid(&g, ++step, 64, 0));
	o.collapse = 0;
	guard_init(&g, &o);
	for (int i = 0; i < 20; i++) assert_false(paid(&g, ++step, 64, i < 10 ? 0.4 : 0));
}

static void evaluate(struct guard *g, int64_t step, double reward, double dev)
{
	json_t *m = json_pack("{s:f, s:f}", "reward", reward, "eval/genuine", dev);
	guard_add(g, step, m, NULL, NULL, 0);
	json_decref(m);
}

/* Dev below its best twice in a row while the reward is above what it was there: a stop. Not when
 * the reward falls too (then both measure the same), nor when dev recovers. */
static void test_dev_falls(void **state)
{
	struct guard g;
	guard_init(&g, &usual);
	evaluate(&g, 1, 0.2, 0.4);
	evaluate(&g, 2, 0.3, 0.5);
	assert_true(guard_is_best(&g, 2));
	evaluate(&g, 3, 0.5, 0.45);
	assert_false(g.stops || guard_is_best(&g, 3));
	evaluate(&g, 4, 0.6, 0.5); /* as good as the best: the count begins again */
	evaluate(&g, 5, 0.7, 0.4);
	assert_false(g.stops);
	evaluate(&g, 6, 0.8, 0.4);
	assert_true(g.stops && g.best_step == 2);
	assert_non_null(strstr(g.why, "dev-falls"));
	guard_init(&g, &usual);
	evaluate(&g, 1, 0.8, 0.5);
	for (int64_t s = 2; s < 10; s++) evaluate(&g, s, 0.8 - 0.05 * (double)s, 0.3);
	assert_false(g.stops);
}

/* Two alarms that begin with one step are both said. */
static void test_said_together(void **state)
{
	struct guard g;
	char begins[512];
	guard_init(&g, &usual);
	for (int i = 1; i <= 3; i++) {
		json_t *m = json_pack("{s:f, s:f, s:f}", "reward", 0.5, "hack", 0.3, "completions/clipped_ratio", 0.6);
		guard_add(&g, i, m, NULL, begins, sizeof begins);
		json_decref(m);
	}
	assert_non_null(strstr(begins, "step 3: guard hack: answers cheat"));
	assert_non_null(strstr(begins, "; guard truncation: answers are cut"));
}

/* A run that is only warned says that dev falls, once, at the evaluation that shows it; the alarm
 * lasts over the steps between evaluations. */
static void test_dev_falls_is_said(void **state)
{
	static const double dev[] = {0.5, 0.4, 0.4, -1, 0.4}; /* -1: a step without evaluation */
	struct guard g;
	struct guard_options o = usual;
	o.action = GUARD_WARN;
	guard_init(&g, &o);
	for (int i = 0; i < 5; i++) {
		char begins[512];
		json_t *m = json_pack("{s:f}", "reward", 0.2 + 0.1 * i), *alarms = json_array();
		if (dev[i] >= 0) json_object_set_new(m, "eval/genuine", json_real(dev[i]));
		guard_add(&g, i + 1, m, alarms, begins, sizeof begins);
		assert_int_equal(json_array_size(alarms), i >= 2);
		if (i == 2) assert_non_null(strstr(begins, "step 3: guard dev-falls: "));
		else assert_string_equal(begins, "");
		json_decref(m);
		json_decref(alarms);
	}
	assert_false(g.stops);
}

/* Without guards the best evaluation is known all the same: best/ is written for it. */
static void test_best_without_guards(void **state)
{
	struct guard g;
	struct guard_options o = usual;
	o.action = GUARD_OFF;
	guard_init(&g, &o);
	evaluate(&g, 1, 0.2, 0.4);
	assert_true(guard_is_best(&g, 1));
	for (int64_t s = 2; s < 6; s++) evaluate(&g, s, 0.3 * (double)s, 0.3);
	assert_true(guard_is_best(&g, 1) && !g.stops);
}

static void test_degenerate(void **state)
{
	int32_t ones[64] = {0}, rising[64], halves[64];
	for (int i = 0; i < 64; i++) {
		rising[i] = i;
		halves[i] = i % 32;
	}
	assert_true(degenerate_share(ones, 64) > 0.95);
	assert_true(degenerate_share(rising, 64) == 0);
	assert_true(degenerate_share(halves, 64) > 0.4 && degenerate_share(halves, 64) < 0.5); /* 25 of 57 windows */
	assert_true(degenerate_share(ones, 5) == 0 && degenerate_share(NULL, 0) == 0);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_alarms(NULL);
	test_said_once(NULL);
	test_not_finite_and_spikes_stop(NULL);
	test_collapse(NULL);
	test_dev_falls(NULL);
	test_said_together(NULL);
	test_dev_falls_is_said(NULL);
	test_best_without_guards(NULL);
	test_degenerate(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alarms),
		cmocka_unit_test(test_said_once),
		cmocka_unit_test(test_not_finite_and_spikes_stop),
		cmocka_unit_test(test_collapse),
		cmocka_unit_test(test_dev_falls),
		cmocka_unit_test(test_said_together),
		cmocka_unit_test(test_dev_falls_is_said),
		cmocka_unit_test(test_best_without_guards),
		cmocka_unit_test(test_degenerate),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
