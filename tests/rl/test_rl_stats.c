/* Statistics and advantages of the loop, against brute force and hand-worked values. */
#include "rl/rl_internal.h"
#include "../ranks/rank_world.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

/* Pairs that mostly agree: the spread of the differences is far below that of either side, so an
 * unpaired resampling would be wide by several times. */
enum { N = 400 };
static double pair_sides(double *a, double *b)
{
	double mean = 0;
	for (int i = 0; i < N; i++) {
		a[i] = rng_uniform(1, 2, (uint64_t)i) < 0.6;
		b[i] = rng_uniform(1, 3, (uint64_t)i) < 0.1 ? 1 - a[i] : a[i];
		mean += (a[i] - b[i]) / N;
	}
	return mean;
}

/* The interval of a difference with known mean and spread: each end stands 1.96 s / sqrt(n) from
 * the mean within the bootstrap's own error (10,000 draws: about 2 % of the half width; the grid of
 * 1 / 400 another 4 %; allowed 10 %, where 5 % instead of 2.5 % would be 16 % off). */
static void test_bootstrap(void **state)
{
	double a[N], b[N], low, mean, high, ss = 0, want = pair_sides(a, b);
	bootstrap_paired(a, b, NULL, N, 5, &low, &mean, &high);
	for (int i = 0; i < N; i++) ss += (a[i] - b[i] - want) * (a[i] - b[i] - want);
	double half = 1.96 * sqrt(ss / (N - 1) / N);
	assert_true(fabs(mean - want) < 1e-9);
	assert_true(fabs(mean - low - half) < 0.1 * half);
	assert_true(fabs(high - mean - half) < 0.1 * half);
	bootstrap_paired(a, a, NULL, N, 5, &low, &mean, &high);
	assert_true(low == 0 && mean == 0 && high == 0);
}

/* Four tasks of every structure that answer alike are one observation, not four: the interval is
 * that of N / 4 differences, twice as wide as if the tasks were drawn. */
static void test_bootstrap_draws_structures(void **state)
{
	double a[N], b[N], low, mean, high, ss = 0, want = 0;
	int cluster[N];
	pair_sides(a, b);
	for (int i = 0; i < N; i++) {
		cluster[i] = i / 4;
		a[i] = a[i / 4 * 4];
		b[i] = b[i / 4 * 4];
		want += (a[i] - b[i]) / N;
	}
	for (int i = 0; i < N; i += 4) ss += (a[i] - b[i] - want) * (a[i] - b[i] - want);
	double half = 1.96 * sqrt(ss / (N / 4 - 1) / (N / 4));
	bootstrap_paired(a, b, cluster, N, 5, &low, &mean, &high);
	assert_true(fabs(mean - want) < 1e-9);
	assert_true(fabs((high - low) / 2 - half) < 0.1 * half);
}

static void test_clusters(void **state)
{
	const struct task t[5] = {{.name = "a", .structure = "s"}, {.name = "b", .structure = ""},
		{.name = "c", .structure = "s"}, {.name = "d", .structure = "r"}, {.name = "e", .structure = ""}};
	const struct task *tasks[5] = {&t[0], &t[1], &t[2], &t[3], &t[4]};
	int cluster[5];
	assert_int_equal(tasks_clusters(tasks, 5, cluster), 4);
	assert_int_equal(cluster[0], cluster[2]);
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < i; k++) assert_int_equal(cluster[i] == cluster[k], i == 2 && k == 0);
}

static struct prompt_row row = {.text = ""};
static const struct prompt_set prompts = {.rows = &row, .count = 1};

static struct rollout graded(enum verdict_class class, double speedup)
{
	return (struct rollout){.verdict = {.class = class, .speedup_fused = speedup, .cost_s = 1}};
}

/* n groups of K. */
static int advantages(struct rollout *r, int n, int K, const char *rule, enum advantage_type type)
{
	int sizes[8];
	for (int g = 0; g < n; g++) sizes[g] = K;
	/* What stands behind the answers is none of them. */
	struct rollout more[64];
	for (int i = 0; i < n * K; i++) more[i] = r[i];
	memset(&more[n * K], 0x5a, sizeof more[0]);
	const struct advantage_options o = {
		.rule = reward_rule_find(rule), .type = type, .weight = 1, .negative_weight = 1};
	int dropped = rollouts_advantages(more, sizes, n, &o, &prompts, NULL);
	const uint8_t *behind = (const uint8_t *)&more[n * K];
	for (size_t i = 0; i < sizeof more[0]; i++) assert_int_equal(behind[i], 0x5a);
	for (int i = 0; i < n * K; i++) r[i] = more[i];
	return dropped;
}

/* Leave-one-out over rewards {1, 0, 0, 1}: a pass sees 1 - 1/3, a failure 0 - 2/3. */
static void test_advantages_uniform(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_INVALID, 1), graded(VERDICT_GENUINE, 1)};
	int dropped = advantages(r, 1, 4, "frontend", ADVANTAGE_LEAVE_ONE_OUT);
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
	int dropped = advantages(r, 1, 2, "hrd", ADVANTAGE_LEAVE_ONE_OUT);
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
	advantages(r, 1, 4, "frontend", ADVANTAGE_LEAVE_ONE_OUT);
	assert_true(r[1].is_dropped);
	assert_true(r[1].advantage_code == 0);
	assert_true(fabs(r[0].advantage_code - 1) < 1e-12);
	assert_true(fabs(r[2].advantage_code + 0.5) < 1e-12);
}

static void test_no_variance(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_WRONG, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_GENUINE, 1), graded(VERDICT_GENUINE, 1)};
	int dropped = advantages(r, 2, 2, "frontend", ADVANTAGE_LEAVE_ONE_OUT);
	assert_int_equal(dropped, 2);
	for (int i = 0; i < 4; i++) assert_true(r[i].advantage_code == 0);
}

/* Every row of the reward table can be asked for, and nothing else: the message about an unknown
 * name lists the table. */
static void test_reward_choices(void **state)
{
	struct reward_rule rule;
	struct str listed = {0};
	struct err err = {0};
	(void)state;
	assert_int_equal(reward_rule_set(&rule, "nothing", -1, -1, -1, &err), ERR_USAGE);
	for (size_t i = 0; i < rl_option_count; i++)
		for (const char *c = strcmp(rl_option_defs[i].name, "reward") ? "" : rl_option_defs[i].choices; *c; c++)
			str_printf(&listed, *c == '|' ? ", " : "%c", *c);
	assert_string_equal(strstr(err.text, "known are ") + strlen("known are "), listed.data);
	str_release(&listed);
}

/* Groups of different sizes, a weight of negatives, and the batch's scale: rewards 1 0 | 1 1 0 0,
 * mean 1/2 in both; std over the six 0.5477 (3 of 6: sqrt(1.5 / 5)). */
static void test_advantages_of_sizes(void **state)
{
	struct rollout r[6] = {graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_GENUINE, 1),
		graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_WRONG, 1)};
	const int sizes[3] = {2, 4, 0};
	bool varies[3];
	struct advantage_options o = {
		.rule = reward_rule_find("frontend"), .type = ADVANTAGE_BATCH, .weight = 1, .negative_weight = 0.25};
	assert_int_equal(rollouts_advantages(r, sizes, 2, &o, &prompts, varies), 0);
	assert_true(varies[0] && varies[1]);
	double unit = 0.5 / (sqrt(1.5 / 5) + 1e-4);
	for (int i = 0; i < 6; i++) {
		double want = r[i].verdict.class == VERDICT_GENUINE ? unit : -0.25 * unit;
		if (fabs(r[i].advantage_code - want) > 1e-12) fail_msg("%d: %g, expected %g", i, r[i].advantage_code, want);
	}
	o.type = ADVANTAGE_LEAVE_ONE_OUT; /* groups are apart: 1 - 0 in the first, 1 - 1/3 in the second */
	rollouts_advantages(r, sizes, 2, &o, &prompts, NULL);
	assert_true(fabs(r[0].advantage_code - 1) < 1e-12 && fabs(r[2].advantage_code - 2. / 3) < 1e-12);
	o.weight = 0; /* groups vary all the same: filters and metrics go on */
	assert_int_equal(rollouts_advantages(r, sizes, 2, &o, &prompts, varies), 0);
	for (int i = 0; i < 6; i++) assert_true(r[i].advantage_code == 0 && r[i].advantage_plan == 0);
}

/* The last 4 of 10 tokens cost up to 0.5: none at 6, a quarter at 7, all at 10. */
static void test_overlong(void **state)
{
	const struct advantage_options o = {.rule = reward_rule_find("frontend"),
		.type = ADVANTAGE_RAW,
		.weight = 1,
		.negative_weight = 1,
		.max_completion_length = 10,
		.overlong_buffer_len = 4,
		.overlong_penalty_factor = 0.5};
	const double want[] = {1, 1 - 0.125, 0.5};
	const int lengths[] = {6, 7, 10};
	for (int i = 0; i < 3; i++) {
		struct rollout r = graded(VERDICT_GENUINE, 1);
		r.completion.count = lengths[i];
		rollouts_advantages(&r, (int[]){1}, 1, &o, &prompts, NULL);
		assert_true(fabs(r.advantage_code - want[i]) < 1e-12);
	}
}

/* Every epoch is a permutation of its own, of which whole chunks are taken. */
static void test_epochs(void **state)
{
	enum { PROMPTS = 23, GROUPS = 4, STEPS = 5 };
	int order[3][STEPS * GROUPS];
	for (int e = 0; e < 3; e++) {
		int seen[PROMPTS] = {0};
		for (int s = 0; s < STEPS; s++) epoch_prompts(7, PROMPTS, e * STEPS + s, GROUPS, order[e] + s * GROUPS);
		for (int i = 0; i < STEPS * GROUPS; i++) assert_int_equal(seen[order[e][i]]++, 0);
	}
	for (int e = 1; e < 3; e++) {
		int same = 0;
		for (int i = 0; i < STEPS * GROUPS; i++) same += order[e][i] == order[e - 1][i];
		assert_true(same < 8); /* of 20; by chance about one */
	}
	int other[GROUPS];
	epoch_prompts(8, PROMPTS, 0, GROUPS, other);
	assert_true(memcmp(other, order[0], sizeof other) != 0);
}

/* One step in numbers: rewards 1 0 0 1 0 have mean 0.4 and, with n - 1, std 0.5477. */
static void test_step_metrics(void **state)
{
	static int32_t circles[40], plain[4] = {1, 2, 3, 4};
	static float logprobs[40];
	for (int i = 0; i < 40; i++) logprobs[i] = -0.5f;
	/* Two groups of three: every class once or more, one answer in circles, one ill formed, one
	 * dropped. */
	struct rollout r[6] = {graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_WRONG, 1),
		graded(VERDICT_GENUINE, 1), graded(VERDICT_CHEAT, 1), graded(VERDICT_INFRA, 1)};
	static const char *const texts[6] = {"good", "bad", "bad", "good", "good", "x"};
	for (int i = 0; i < 6; i++) {
		r[i].completion = (struct completion){
			.tokens = i == 1 ? circles : plain, .logprobs = logprobs, .count = i == 1 ? 40 : 4};
		r[i].answer.well_formed = i != 2;
		r[i].text = (char *)(uintptr_t)texts[i];
		r[i].text_len = strlen(texts[i]);
		r[i].is_dropped = i == 5;
		r[i].reward = (struct reward){r[i].verdict.class == VERDICT_GENUINE, r[i].verdict.class == VERDICT_GENUINE};
	}
	snprintf(r[4].verdict.reason, sizeof r[4].verdict.reason, "no-jit");
	struct rl_options o;
	rl_options_default(&o);
	o.num_iterations = 2;
	int sizes[2] = {3, 3};
	const struct step_batch b = {.r = r, .sizes = sizes, .n = 6, .groups = 2, .flat = 1};
	const struct update_stats u = {
		.loss = {.clip_low = 3, .clip_high = 1, .entropy = 20, .rows = 10}, .completion_tokens = 50};
	json_t *m = step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, &u);
	const struct {
		const char *key;
		double want;
	} expected[] = {{"reward", 0.4}, {"reward_std", sqrt(0.3)}, {"genuine", 0.4}, {"dropped", 1},
		{"completions/malformed_ratio", 0.2}, {"completions/degenerate_ratio", 0.2}, {"hack", 0.2},
		{"hack/no-jit", 0.2}, {"completions/mean_length", 56. / 5}, {"entropy", 0.5}, {"entropy/trained", 2},
		{"frac_reward_zero_std", 0.5}, {"discoveries", 0.5}, /* the first group's commonest answer is "bad" */
		{"clip_ratio/low_mean", 0.03}, {"clip_ratio/high_mean", 0.01}}; /* of 50 tokens, twice */
	/* Every expectation was worked out by hand from the rows above. */
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		const json_t *v = json_object_get(m, expected[i].key);
		if (!v || fabs(json_number_value(v) - expected[i].want) > 1e-12)
			fail_msg("%s: %g, expected %g", expected[i].key, json_number_value(v), expected[i].want);
	}
	json_decref(m);
}

/* Two tasks x two samples, one infra: rates are over counted answers, pass@1 over tasks. */
static void test_summary(void **state)
{
	struct rollout r[4] = {
		graded(VERDICT_GENUINE, 4), graded(VERDICT_GENUINE, 1), graded(VERDICT_WRONG, 1), graded(VERDICT_INFRA, 1)};
	r[3].is_dropped = true;
	int ks[] = {1, 2};
	json_t *s = rollouts_summary(r, &prompts, 2, 2, ks, 2), *pass = json_object_get(s, "pass");
	assert_int_equal(json_integer_value(json_object_get(s, "answers")), 3);
	assert_int_equal(json_integer_value(json_object_get(s, "dropped")), 1);
	assert_true(fabs(json_real_value(json_object_get(pass, "pass@1")) - 0.5) < 1e-12);
	/* The second task has one verdict only: it says nothing about two tries. */
	assert_true(fabs(json_real_value(json_object_get(pass, "pass@2")) - 1.0) < 1e-12);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(s, "pass_tasks"), "pass@1")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(s, "pass_tasks"), "pass@2")), 1);
	assert_true(fabs(json_real_value(json_object_get(s, "genuine")) - 2.0 / 3) < 1e-12);
	assert_true(fabs(json_real_value(json_object_get(s, "speedup_geomean")) - 2.0) < 1e-12);
	json_decref(s);
}

/* A genuine answer without a time, or with one of other sizes than the given kernel's, says nothing
 * about speed: it is not a speedup of one. */
static void test_summary_leaves_out_what_has_no_speedup(void **state)
{
	struct rollout r[2] = {graded(VERDICT_GENUINE, 4), graded(VERDICT_GENUINE, NAN)};
	struct prompt_row given = {.text = "", .kernel = (char[]){"k"}, .profile = {.cost_s = 6, .cost_size = "2^20"}};
	const struct prompt_set kernels = {.rows = &given, .count = 1};
	for (int k = 0; k < 2; k++) {
		if (k) {
			r[0].verdict.cost_s = 2;
			r[1].verdict.cost_s = 1;
			snprintf(r[0].verdict.cost_size, sizeof r[0].verdict.cost_size, "2^20");
			snprintf(r[1].verdict.cost_size, sizeof r[1].verdict.cost_size, "judged");
		}
		json_t *s = rollouts_summary(r, k ? &kernels : &prompts, 1, 2, NULL, 0);
		assert_true(fabs(json_real_value(json_object_get(s, "genuine")) - 1) < 1e-12);
		assert_true(fabs(json_real_value(json_object_get(s, "speedup_geomean")) - (k ? 3 : 4)) < 1e-12);
		assert_true(fabs(json_real_value(json_object_get(s, "speedup_mean")) - (k ? 3 : 4)) < 1e-12);
		json_decref(s);
	}
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

/* What a rank has seen of an update: every figure of its own. */
static struct update_stats figures_of(int rank)
{
	double x = rank + 1;
	return (struct update_stats){.loss = {.loss = x,
									 .clip_low = 2 * x,
									 .clip_high = 3 * x,
									 .kl = 4 * x,
									 .entropy = 5 * x,
									 .logprob_diff_sum = 6 * x,
									 .ratio_max_dev = 7 * x,
									 .logprob_diff_max = 8 / x,
									 .rows = 10 + rank},
		.tokens = 20 + rank,
		.tokens_apart = 30 + rank,
		.weight_sum = 9 * x,
		.weight_min = 10 * x,
		.weight_max = 11 / x,
		.fit_tokens = 40 + rank,
		.fit_loss = 12 * x,
		.updates = 5,
		.counted = 6};
}

static int figures_join(int rank, void *ctx)
{
	struct update_stats u = figures_of(rank);
	const struct loss_stats *l = &u.loss;
	const struct ranks_options meet = RANKS_DEFAULTS;
	struct ranks *ranks;
	struct err err = {0};
	NEED(!ranks_open(&meet, &ranks, &err), "%s", err.text);
	NEED(!update_stats_join(ranks, &u, &err), "%s", err.text);
	/* Ranks 0, 1 and 2 have 1, 2 and 3 times the figures: sums are 6 times those of rank 0. */
	NEED(l->loss == 6 && l->clip_low == 12 && l->clip_high == 18 && l->kl == 24 && l->entropy == 30, "%g", l->loss);
	NEED(l->logprob_diff_sum == 36 && u.weight_sum == 54 && u.fit_loss == 72, "%g", u.weight_sum);
	NEED(l->rows == 33 && u.tokens == 63 && u.tokens_apart == 93 && u.fit_tokens == 123, "%d", (int)u.tokens);
	/* The outermost, whichever rank has it. */
	NEED(l->ratio_max_dev == 21 && l->logprob_diff_max == 8, "%g", l->ratio_max_dev);
	NEED(u.weight_min == 10 && u.weight_max == 11, "%g to %g", u.weight_min, u.weight_max);
	/* What every rank counts by itself stays. */
	NEED(u.updates == 5 && u.counted == 6, "%d", u.updates);
	ranks_close(ranks, NULL);
	return 0;
}

/* Each rank has the figures of its own share of an update's sequences; joined they are the
 * update's, and the same on all ranks. */
static void test_figures_of_all_ranks(void **state)
{
	int status[3];
	ranks_run(3, figures_join, NULL, status);
	for (int k = 0; k < 3; k++) assert_int_equal(status[k], 0);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_reward_choices(NULL);
	test_bootstrap(NULL);
	test_bootstrap_draws_structures(NULL);
	test_clusters(NULL);
	test_advantages_uniform(NULL);
	test_advantages_split(NULL);
	test_infra_is_dropped(NULL);
	test_no_variance(NULL);
	test_advantages_of_sizes(NULL);
	test_overlong(NULL);
	test_epochs(NULL);
	test_step_metrics(NULL);
	test_summary(NULL);
	test_any_bytes_are_recorded(NULL);
	test_figures_of_all_ranks(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reward_choices),
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_bootstrap_draws_structures),
		cmocka_unit_test(test_clusters),
		cmocka_unit_test(test_advantages_uniform),
		cmocka_unit_test(test_advantages_split),
		cmocka_unit_test(test_infra_is_dropped),
		cmocka_unit_test(test_no_variance),
		cmocka_unit_test(test_advantages_of_sizes),
		cmocka_unit_test(test_overlong),
		cmocka_unit_test(test_epochs),
		cmocka_unit_test(test_step_metrics),
		cmocka_unit_test(test_summary),
		cmocka_unit_test(test_summary_leaves_out_what_has_no_speedup),
		cmocka_unit_test(test_any_bytes_are_recorded),
		cmocka_unit_test(test_figures_of_all_ranks),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
