/* Rewards are checked against values worked out by hand from docs/rewards.md, row by row: a changed
 * constant or a swapped plan/code column fails. */
#include "agent/agent.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static struct verdict verdict_of(enum verdict_class class, double speedup, double cost_s)
{
	return (struct verdict){.class = class, .stage = STAGE_DONE, .speedup_fused = speedup, .cost_s = cost_s};
}

static void expect(const char *rule, enum verdict_class class, double speedup, double plan, double code)
{
	struct verdict v = verdict_of(class, speedup, 1e-5);
	struct reward_input in = {.verdict = &v};
	struct reward r = {NAN, NAN};
	const struct reward_rule *row = reward_rule_find(rule);
	assert_non_null(row);
	assert_true(reward_compute(row, &in, &r));
	if (fabs(r.plan - plan) > 1e-12 || fabs(r.code - code) > 1e-12)
		fail_msg("%s: plan %g code %g, expected %g %g", rule, r.plan, r.code, plan, code);
}

/* All of the table: test_names holds this list against what the message
 * about an unknown one says. */
static const char *const NAMES[] = {
	"frontend", "hrd", "uniform", "paper-frontend", "paper-midend", "tritonrl", "kevin", "midend", "stock"};

static void test_names(void **state)
{
	struct reward_rule rule;
	struct err err = {0};
	struct str want = {0};
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) str_printf(&want, "%s%s", i ? ", " : "", NAMES[i]);
	assert_int_equal(reward_rule_set(&rule, "nothing", -1, -1, -1, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "nothing is unknown"));
	assert_string_equal(strstr(err.text, "known are ") + strlen("known are "), want.data);
	str_release(&want);
}

static void test_table(void **state)
{
	expect("frontend", VERDICT_GENUINE, 2.0, 1, 1);
	expect("frontend", VERDICT_PARTIAL, 2.0, 0, 0);
	expect("frontend", VERDICT_CHEAT, 9.0, 0, 0);
	expect("hrd", VERDICT_GENUINE, 2.0, 2, 1);
	expect("hrd", VERDICT_GENUINE, 7.0, 3, 1);
	expect("hrd", VERDICT_WRONG, 7.0, 0, 0);
	expect("uniform", VERDICT_GENUINE, 0.5, 0.8, 0.8);
	expect("uniform", VERDICT_GENUINE, 50, 3.3, 3.3);
	expect("paper-frontend", VERDICT_GENUINE, 5, 1, 1);
	expect("paper-frontend", VERDICT_WRONG, 5, -10, -10);
	expect("paper-midend", VERDICT_GENUINE, 5, 6, 6);
	expect("paper-midend", VERDICT_INVALID, 5, -10, -10);
	expect("tritonrl", VERDICT_GENUINE, 5, 2, 1);
	expect("kevin", VERDICT_GENUINE, 5, 5.3, 5.3);
}

/* The row that pays for KernelBench's own check does so for a cheat too, and not for what
 * that check never saw. */
static void test_stock(void **state)
{
	for (int c = 0; c < VERDICT_CLASS_COUNT; c++)
		for (int check = -1; check <= 1; check++) {
			struct verdict v = verdict_of((enum verdict_class)c, 2.0, 1e-5);
			struct reward_input in = {.verdict = &v};
			struct reward r = {NAN, NAN};
			v.kernelbench = check;
			assert_int_equal(reward_compute(reward_rule_find("stock"), &in, &r), c != VERDICT_INFRA);
			if (c != VERDICT_INFRA) assert_true(r.plan == (check == 1) && r.code == (check == 1));
		}
}

/* Whatever is not genuine earns what failure earns, at any speed. */
static void test_only_genuine_pays(void **state)
{
	for (int c = 0; c < VERDICT_CLASS_COUNT; c++) {
		if (c == VERDICT_GENUINE || c == VERDICT_INFRA) continue;
		for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
			double failure = strncmp(NAMES[i], "paper", 5) ? 0 : -10;
			expect(NAMES[i], (enum verdict_class)c, 5, failure, failure);
		}
	}
}

static void test_noise_band(void **state)
{
	expect("uniform", VERDICT_GENUINE, 1.019, 1.3, 1.3);
	expect("uniform", VERDICT_GENUINE, 0.981, 1.3, 1.3);
	expect("uniform", VERDICT_GENUINE, 1.03, 1.33, 1.33);
}

static void test_baseline_replaces_the_reference(void **state)
{
	struct verdict v = verdict_of(VERDICT_GENUINE, 0.5, 1e-5);
	struct verdict baseline = {.cost_s = 2.5e-5};
	struct reward_input in = {.verdict = &v, .baseline = &baseline};
	assert_true(fabs(reward_speedup(reward_rule_find("uniform"), &in) - 2.5) < 1e-12);
	/* but not in the paper's ratio, which has no noise band either */
	assert_true(reward_speedup(reward_rule_find("paper-midend"), &in) == 0.5);
	v.speedup_fused = 1.01;
	assert_true(reward_speedup(reward_rule_find("paper-midend"), &in) == 1.01);
	assert_true(reward_speedup(reward_rule_find("uniform"), &(struct reward_input){.verdict = &v}) == 1);
}

static void test_infra_is_no_reward(void **state)
{
	struct verdict v = verdict_of(VERDICT_INFRA, 1, 1e-5);
	struct reward_input in = {.verdict = &v};
	struct reward r;
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) assert_false(reward_compute(reward_rule_find(NAMES[i]), &in, &r));
}

static void test_no_candidate_is_failure(void **state)
{
	struct reward_input in = {.verdict = NULL};
	struct reward r;
	assert_true(reward_compute(reward_rule_find("paper-frontend"), &in, &r));
	assert_true(r.code == -10);
}

static void test_non_finite_speedup_never_pays(void **state)
{
	double bad[] = {NAN, INFINITY, -INFINITY, -1};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct verdict v = verdict_of(VERDICT_GENUINE, bad[i], 1e-5);
		struct reward_input in = {.verdict = &v};
		assert_true(reward_speedup(reward_rule_find("kevin"), &in) == 0);
	}
}

/* A recipe's constants: C + 0.1 C s is uniform with beta 1 and alpha 0.1; a clip
 * of 1.5; hrd's weight. */
static void test_constants_from_the_recipe(void **state)
{
	struct verdict v = verdict_of(VERDICT_GENUINE, 2, 1e-5);
	struct reward_input in = {.verdict = &v};
	struct reward_rule rule;
	struct reward r;
	struct err err = {0};
	assert_int_equal(reward_rule_set(&rule, "uniform", 0.1, 1, -1, &err), 0);
	assert_true(reward_compute(&rule, &in, &r) && fabs(r.code - 1.2) < 1e-12 && r.plan == r.code);
	assert_int_equal(reward_rule_set(&rule, "uniform", -1, -1, 1.5, &err), 0);
	assert_true(reward_compute(&rule, &in, &r) && fabs(r.code - 1.8) < 1e-12);
	assert_int_equal(reward_rule_set(&rule, "hrd", 1, -1, 0, &err), 0);
	v.speedup_fused = 50;
	assert_true(reward_compute(&rule, &in, &r) && r.plan == 50 && r.code == 1 && rule.alpha == 1);
	assert_int_equal(reward_rule_set(&rule, "frontend", 0.5, -1, -1, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "reward_alpha"));
	assert_int_equal(reward_rule_set(&rule, "hrd", -1, 0.3, -1, &err), ERR_USAGE);
	assert_int_equal(reward_rule_set(&rule, "speed", -1, -1, -1, &err), ERR_USAGE);
	assert_true(reward_rule_find("hrd")->alpha == 0.1); /* the table itself stays */
}

static void test_unknown_rule(void **state) { assert_null(reward_rule_find("speed")); }

/* Measured times in place of the cost model's, whose own are another number here. */
static void test_measured(void **state)
{
	struct reward_rule rule = *reward_rule_find("uniform"), paper = *reward_rule_find("paper-midend");
	struct verdict v = verdict_of(VERDICT_GENUINE, 9.0, 1e-5), b = verdict_of(VERDICT_GENUINE, 9.0, 1e-5);
	struct verdict_reference *r = &v.device.references[REFERENCE_EAGER];
	struct reward_input in = {.verdict = &v}, over = {.verdict = &v, .baseline = &b};
	rule.is_measured = paper.is_measured = true;
	snprintf(v.device.name, sizeof v.device.name, "NVIDIA H200");
	snprintf(b.device.name, sizeof b.device.name, "NVIDIA H200");
	assert_true(reward_speedup(&rule, &in) == 0); /* nobody timed it */
	*r = (struct verdict_reference){
		.is_timed = true, .agrees = true, .speedup = {1.5, 1.4, 1.6}, .speedup_paper = 1.25};
	assert_true(reward_speedup(&rule, &in) == 1.5);
	assert_true(reward_speedup(&paper, &in) == 1.25 && reward_speedup(&paper, &over) == 1.25);
	/* A difference that the interval does not show is none; one that it shows
	 * counts, however small. */
	r->speedup = (struct verdict_measure){1.01, 0.99, 1.03};
	assert_true(reward_speedup(&rule, &in) == 1);
	r->speedup = (struct verdict_measure){1.01, 1.005, 1.015};
	assert_true(reward_speedup(&rule, &in) == 1.01);
	/* Against the kernel that was given: by the reference beside each. */
	r->speedup = (struct verdict_measure){3, 2.9, 3.1};
	assert_true(reward_speedup(&rule, &over) == 0);
	b.device.references[REFERENCE_EAGER].speedup = (struct verdict_measure){1.5, 1.4, 1.6};
	assert_true(reward_speedup(&rule, &over) == 2);
	b.device.references[REFERENCE_EAGER].speedup = (struct verdict_measure){2.9, 2.8, 3.2};
	assert_true(reward_speedup(&rule, &over) == 1);
	/* Kernels slower than their reference compare as well; a given one without a time does not. The
	 * ends of the interval belong to it: lowest over highest, and the other way round. */
	static const struct {
		struct verdict_measure given;
		struct verdict_measure found;
		double expected;
	} rows[] = {
		{{0.5, 0.4, 0.6}, {1.25, 1.2, 1.3}, 2.5},
		{{0.5, 0.25, 0.75}, {0.25, 0.125, 0.375}, 1},
		{{0.5, 0.4375, 0.5625}, {0.125, 0.0625, 0.1875}, 0.25},
		{{0.5, 0, 0.6}, {3, 2.9, 3.1}, 0},
		{{0.5, -1, 0.6}, {3, 2.9, 3.1}, 0},
		{{1, 1, 2}, {2, 2, 4}, 1},
		{{1, 1, 2}, {2.5, 2.25, 4}, 2.5},
		{{1, 0.5, 1}, {0.5, 0.25, 0.5}, 1},
		{{1, 0.5, 1}, {0.5, 0.25, 0.375}, 0.5},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		b.device.references[REFERENCE_EAGER].speedup = rows[i].given;
		r->speedup = rows[i].found;
		double found = reward_speedup(&rule, &over);
		if (found != rows[i].expected) fail_msg("row %zu: %g, not %g", i, found, rows[i].expected);
	}
	b.device.references[REFERENCE_EAGER].speedup = (struct verdict_measure){1.5, 1.4, 1.6};
	snprintf(b.device.name, sizeof b.device.name, "NVIDIA A100");
	assert_true(reward_speedup(&rule, &over) == 0);
	r->agrees = false;
	assert_true(reward_speedup(&rule, &in) == 0);
}

/* No row but the paper's pays a mid-end for a kernel that is slower than the one it was given, or
 * whose time does not compare with that one's; keeping it is paid as before. A cheat that stock's
 * check passes is paid by stock alone, at any speed. */
static void test_no_row_pays_a_regression(void **state)
{
	struct verdict given = verdict_of(VERDICT_GENUINE, 2.0, 1e-6), slower = verdict_of(VERDICT_GENUINE, 1.9, 1.1e-6),
				   kept = verdict_of(VERDICT_GENUINE, 2.0, 1e-6), other = verdict_of(VERDICT_GENUINE, 9.0, 1e-7);
	snprintf(other.cost_size, sizeof other.cost_size, "stock");
	slower.kernelbench = kept.kernelbench = other.kernelbench = 1;
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
		const struct reward_rule *row = reward_rule_find(NAMES[i]);
		bool pays = !strcmp(NAMES[i], "paper-midend");
		const struct verdict *found[] = {&slower, &other, &kept};
		for (size_t k = 0; k < ARRAY_LEN(found); k++) {
			struct reward_input in = {.verdict = found[k], .baseline = &given};
			struct reward r;
			assert_true(reward_compute(row, &in, &r));
			bool is_paid = r.plan > row->failure && r.code > row->failure;
			if (is_paid != (pays || found[k] == &kept)) fail_msg("%s, case %zu: %g %g", NAMES[i], k, r.plan, r.code);
		}
	}
	struct verdict cheat = verdict_of(VERDICT_CHEAT, 1.0, 1e-3);
	struct reward_input in = {.verdict = &cheat, .baseline = &given};
	struct reward r;
	cheat.kernelbench = 1;
	assert_true(reward_compute(reward_rule_find("stock"), &in, &r) && r.code == 1);
}

/* What a mid-end earns: 0.1 for keeping, nothing for a regression or a failure, and the mean of
 * what it gained over the kernel that was given and against the reference. */
static void test_midend_gain(void **state)
{
	const struct reward_rule *row = reward_rule_find("midend");
	struct verdict given = verdict_of(VERDICT_GENUINE, 0.5, 2e-6);
	const struct {
		double speedup, cost_s, want;
	} cases[] = {
		{0.5, 2e-6, 0.1},                   /* the same again */
		{0.505, 1.98e-6, 0.1},              /* inside the noise band */
		{0.4, 2.5e-6, 0},                   /* slower */
		{1.0, 1e-6, 0.1 + 0.5 * (1 + 0.5)}, /* twice as fast: 1 over the kernel, 0.5 against the reference */
		{50, 2e-8, 0.1 + 0.5 * (9 + 9.5)},  /* both clipped at 10 */
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct verdict v = verdict_of(VERDICT_GENUINE, cases[i].speedup, cases[i].cost_s);
		struct reward_input in = {.verdict = &v, .baseline = &given};
		struct reward r;
		assert_true(reward_compute(row, &in, &r));
		if (fabs(r.code - cases[i].want) > 1e-9 || r.plan != r.code)
			fail_msg("case %zu: %g, expected %g", i, r.code, cases[i].want);
	}
	struct verdict wrong = verdict_of(VERDICT_WRONG, 9, 1e-7);
	struct reward_input in = {.verdict = &wrong, .baseline = &given};
	struct reward r;
	assert_true(reward_compute(row, &in, &r) && r.code == 0);
	/* Times at different sizes do not compare, and then nothing was gained for certain. */
	struct verdict sized = verdict_of(VERDICT_GENUINE, 5, 1e-7);
	snprintf(sized.cost_size, sizeof sized.cost_size, "stock");
	in.verdict = &sized;
	assert_true(reward_compute(row, &in, &r) && r.code == 0);
	/* Nor do times of two cards: on a faster one the same kernel would be a gain. Records of before
	 * cards were named say nothing about it. */
	struct verdict other = verdict_of(VERDICT_GENUINE, 5, 1e-7);
	snprintf(other.gpu, sizeof other.gpu, "H200");
	in.verdict = &other;
	assert_true(reward_compute(row, &in, &r) && r.code > 0);
	snprintf(given.gpu, sizeof given.gpu, "A100");
	assert_true(reward_compute(row, &in, &r) && r.code == 0 && isnan(midend_speedup(&given, &other)));
	/* Nor is it against a kernel whose time nobody predicted: five times the reference is no
	 * gain over that kernel. */
	struct verdict untimed = verdict_of(VERDICT_GENUINE, 0.5, NAN), fast = verdict_of(VERDICT_GENUINE, 5, 1e-7);
	in = (struct reward_input){.verdict = &fast, .baseline = &untimed};
	assert_true(reward_compute(row, &in, &r) && r.code == 0 && isnan(midend_speedup(&untimed, &fast)));
}

static void test_midend_change(void **state)
{
	const struct verdict given = {.launches = 3, .bytes = 1000, .programs = 30, .cost_s = 2e-6};
	const struct {
		struct verdict found;
		enum midend_change want;
	} cases[] = {
		{{.launches = 1, .bytes = 300, .programs = 10, .cost_s = 1e-6}, CHANGE_FUSED},
		{{.launches = 3, .bytes = 800, .programs = 10, .cost_s = 1e-6}, CHANGE_PASSES},
		{{.launches = 3, .bytes = 990, .programs = 10, .cost_s = 1e-6}, CHANGE_BLOCKS},
		{{.launches = 3, .bytes = 1000, .programs = 30, .cost_s = 1e-6}, CHANGE_OTHER},
		{{.launches = 3, .bytes = 1000, .programs = 30, .cost_s = 1.99e-6}, CHANGE_NONE},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(midend_change(&given, &cases[i].found), cases[i].want);
	assert_string_equal(midend_change_name(CHANGE_PASSES), "fewer_passes");
	assert_true(midend_speedup(&given, &cases[0].found) == 2 && midend_speedup(&given, &cases[4].found) == 1);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_no_row_pays_a_regression(NULL);
	test_midend_gain(NULL);
	test_midend_change(NULL);
	test_names(NULL);
	test_table(NULL);
	test_stock(NULL);
	test_only_genuine_pays(NULL);
	test_noise_band(NULL);
	test_measured(NULL);
	test_baseline_replaces_the_reference(NULL);
	test_infra_is_no_reward(NULL);
	test_no_candidate_is_failure(NULL);
	test_non_finite_speedup_never_pays(NULL);
	test_constants_from_the_recipe(NULL);
	test_unknown_rule(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_row_pays_a_regression),
		cmocka_unit_test(test_midend_gain),
		cmocka_unit_test(test_midend_change),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_stock),
		cmocka_unit_test(test_only_genuine_pays),
		cmocka_unit_test(test_noise_band),
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_baseline_replaces_the_reference),
		cmocka_unit_test(test_infra_is_no_reward),
		cmocka_unit_test(test_no_candidate_is_failure),
		cmocka_unit_test(test_non_finite_speedup_never_pays),
		cmocka_unit_test(test_constants_from_the_recipe),
		cmocka_unit_test(test_unknown_rule),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
