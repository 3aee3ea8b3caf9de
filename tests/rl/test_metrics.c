/* A step in numbers: every metric of every kind of run, against values worked out by hand from a
 * few answers, and no metric beside them. */
#include "rl/rl_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int32_t circles[40], plain[5] = {1, 2, 3, 4, 5}, other[3] = {1, 2, 9};
static float logprobs[40];

/* An answer of so many tokens that ended by itself. */
static struct rollout answer(enum verdict_class class, double reward, const int32_t *tokens, int count)
{
	return (struct rollout){.verdict = {.class = class, .speedup_fused = 2, .cost_s = 1},
		.reward = {.plan = reward / 2, .code = reward},
		.answer = {.well_formed = true},
		.completion = {.tokens = (int32_t *)(uintptr_t)tokens, .logprobs = logprobs, .count = count}};
}

static void say(struct rollout *r, const char *text)
{
	r->text = (char *)(uintptr_t)text;
	r->text_len = strlen(text);
}

/* Two groups. The first: right; wrong, in circles and cut; wrong without a form. The second: right,
 * a cheat, and one whose verdict is missing. */
static struct rollout r[6];
static int sizes[2] = {3, 3};
static struct prompt_row rows[2] = {{.text = ""}, {.text = ""}};
static const struct prompt_set prompts = {.rows = rows, .count = 2};
static struct step_batch batch_make(void)
{
	for (int i = 0; i < 40; i++) logprobs[i] = i < 5 ? -0.25f : -0.5f;
	r[0] = answer(VERDICT_GENUINE, 1, plain, 5);
	r[1] = answer(VERDICT_WRONG, 0, circles, 40);
	r[2] = answer(VERDICT_WRONG, 0, other, 3);
	r[3] = answer(VERDICT_GENUINE, 1, plain, 4);
	r[4] = answer(VERDICT_CHEAT, -1, plain, 4);
	r[5] = answer(VERDICT_INFRA, 7, circles, 40);
	static const char *const texts[6] = {"good", "bad", "bad", "good", "good", "x"};
	for (int i = 0; i < 6; i++) say(&r[i], texts[i]);
	r[1].completion.finish = FINISH_LENGTH;
	r[2].answer.well_formed = false;
	r[5].is_dropped = true;
	for (int i = 3; i < 6; i++) r[i].prompt = 1;
	snprintf(r[4].verdict.reason, sizeof r[4].verdict.reason, "no-jit");
	return (struct step_batch){.r = r, .sizes = sizes, .n = 6, .groups = 2, .flat = 1, .kept = 3, .rounds = 4};
}

static const struct update_stats update = {.loss = {.loss = 0.75,
											   .clip_low = 3,
											   .clip_high = 1,
											   .entropy = 20,
											   .kl = 5,
											   .logprob_diff_sum = 2.5,
											   .logprob_diff_max = 1.5,
											   .ratio_max_dev = 9,
											   .rows = 10},
	.grad_norm = 1.25,
	.counted = 77,
	.sequences = 78,
	.updates = 79,
	.completion_tokens = 50,
	.tokens = 90,
	.tokens_apart = 120,
	.fit_tokens = 30,
	.weight_sum = 8,
	.weight_min = 0.5,
	.weight_max = 2,
	.fit_updates = 2,
	.fit_examples = 6,
	.fit_loss = 3,
	.fit_norm = 5,
	.not_finite = 11,
	.spikes = 12};

/* Every metric is one of `want`, a JSON object, and every one of these is there; to 1e-9, since the
 * values by hand have as many digits. */
static void compare(json_t *m, const char *want)
{
	struct err err = {0};
	json_t *expected = NULL, *v;
	const char *key;
	int bad = 0;
	if (json_parse(want, strlen(want), "metrics", &expected, &err)) fail_msg("%s", err.text);
	json_object_foreach(m, key, v)
	{
		const json_t *w = json_object_get(expected, key);
		bool same = w && json_is_null(v) == json_is_null(w) && fabs(json_number_value(v) - json_number_value(w)) < 1e-9;
		if (!same) print_message("# %s: %.17g, not %.17g\n", key, json_number_value(v), w ? json_number_value(w) : NAN);
		bad += !same;
	}
	json_object_foreach(expected, key, v)
	{
		if (!json_object_get(m, key)) print_message("# %s is missing\n", key);
		bad += !json_object_get(m, key);
	}
	json_decref(expected);
	json_decref(m);
	assert_int_equal(bad, 0);
}

/* Of the five that count: rewards 1 0 0 1 -1, whose squares sum to 3. The whole batch has 96
 * tokens; of the first group's an answer shares its first two with an earlier one, and the row
 * behind. */
#define ANSWERS "\"reward\": 0.2, \"reward_std\": 0.8366600265340756, \"rewards/frontend/mean\": 0.2, " \
	"\"rewards/frontend/std\": 0.8366600265340756, \"speedup\": 2, \"genuine\": 0.4, \"paid\": 0.4, " \
	"\"completions/min_length\": 3, \"completions/max_length\": 40, \"completions/mean_length\": 11.2, " \
	"\"completions/mean_terminated_length\": 4, \"completions/clipped_ratio\": 0.2, " \
	"\"completions/malformed_ratio\": 0.2, \"completions/degenerate_ratio\": 0.2, \"hack\": 0.2, " \
	"\"hack/no-jit\": 0.2, \"dropped\": 1, \"answers\": 6, \"frac_reward_zero_std\": 0.5, \"discoveries\": 0.5"

static void test_answers(void **state)
{
	struct rl_options o;
	rl_options_default(&o);
	const struct step_batch b = batch_make();
	compare(step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, NULL), "{" ANSWERS "}");
	/* Further rounds of generation are told where there may be any. */
	o.filter_groups = true;
	compare(
		step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, NULL), "{" ANSWERS ", \"num_gen_batches\": 4}");
}

/* What training adds, with each option that adds something and without it. Log-probabilities of the
 * five sum to -22.75 over 56 tokens; 87 of the 96 tokens have a past of their own. */
#define TRAINED "\"entropy\": 0.40625, \"loss\": 0.75, \"grad_norm\": 1.25, \"entropy/trained\": 2, " \
	"\"clip_ratio/low_mean\": 0.03, \"clip_ratio/high_mean\": 0.01, " \
	"\"sampling/trained_logp_difference/mean\": 0.25, \"sampling/trained_logp_difference/max\": 1.5, " \
	"\"guard/not_finite\": 11, \"guard/spikes\": 12, \"distinct/generation\": 0.90625, \"distinct/update\": 0.5"
#define WEIGHTS "\"sampling/importance_sampling_ratio/mean\": 0.8, " \
	"\"sampling/importance_sampling_ratio/min\": 0.5, \"sampling/importance_sampling_ratio/max\": 2"

static void test_training(void **state)
{
	static const struct {
		const char *mode;
		double beta;
		int64_t replay;
		int64_t rows;
		const char *want;
	} cases[] = {
		{"off", 0, 0, 10, "{" ANSWERS ", " TRAINED "}"},
		{"token_truncate", 0, 0, 10, "{" ANSWERS ", " TRAINED ", " WEIGHTS "}"},
		{"off", 0.1, 0, 10, "{" ANSWERS ", " TRAINED ", \"kl\": 0.5}"},
		{"off", 0, 3, 10,
			"{" ANSWERS ", " TRAINED ", \"replay/loss\": 1.5, \"replay/grad_norm\": 2.5, \"replay/examples\": 6}"},
	};
	struct rl_options o;
	rl_options_default(&o);
	o.num_iterations = 2;
	const struct step_batch b = batch_make();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		o.importance_sampling_mode = cases[i].mode;
		o.beta = cases[i].beta;
		o.replay_updates = cases[i].replay;
		compare(step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, &update), cases[i].want);
	}
	/* Of one token that trained there are weights. */
	struct update_stats one = {.loss = {.rows = 1}, .weight_sum = 2, .weight_min = 2, .weight_max = 2};
	o.importance_sampling_mode = "token_truncate";
	json_t *m = step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, &one);
	assert_true(json_number_value(json_object_get(m, "sampling/importance_sampling_ratio/mean")) == 2);
	json_decref(m);
	/* Where nothing trained there are no weights, and means are 0; what is no number is null. */
	struct update_stats none = {.loss = {.loss = NAN}, .grad_norm = INFINITY};
	o.beta = 0;
	o.replay_updates = 0;
	compare(step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, &none),
		"{" ANSWERS ", \"entropy\": 0.40625, \"loss\": null, \"grad_norm\": null, \"entropy/trained\": 0, "
		"\"clip_ratio/low_mean\": 0, \"clip_ratio/high_mean\": 0, \"sampling/trained_logp_difference/mean\": 0, "
		"\"sampling/trained_logp_difference/max\": 0, \"guard/not_finite\": 0, \"guard/spikes\": 0, "
		"\"distinct/generation\": 0.90625, \"distinct/update\": 0}");
}

/* Nobody has a verdict: counts are 0 and not beside the numbers that there are. */
static void test_nothing_counts(void **state)
{
	struct rl_options o;
	rl_options_default(&o);
	struct step_batch b = batch_make();
	for (int i = 0; i < 6; i++) {
		r[i].is_dropped = true;
		r[i].text = NULL; /* as of a policy outside that gave no answer */
	}
	b.groups = 0;
	compare(step_metrics(&o, reward_rule_find("hrd"), &prompts, &b, NULL),
		"{\"reward\": 0, \"reward_std\": 0, \"rewards/hrd/mean\": 0, \"rewards/hrd/std\": 0, \"rewards/plan/mean\": 0, "
		"\"rewards/code/mean\": 0, \"speedup\": 0, \"genuine\": 0, \"paid\": 0, \"completions/min_length\": 0, "
		"\"completions/max_length\": 0, \"completions/mean_length\": 0, \"completions/mean_terminated_length\": 0, "
		"\"completions/clipped_ratio\": 0, \"completions/malformed_ratio\": 0, \"completions/degenerate_ratio\": 0, "
		"\"hack\": 0, \"dropped\": 6, \"answers\": 6, \"frac_reward_zero_std\": 0, \"discoveries\": 0}");
}

/* A mid-end's answers beside the kernel that each was given: fused into fewer launches, fewer
 * bytes, other blocks, other in no way that is seen, slower, as fast within the noise, of other
 * sizes, and a wrong one that would have been fast. */
static void test_midend(void **state)
{
	static const struct {
		double cost_s;
		int launches;
		int64_t bytes;
		int64_t programs;
		const char *size;
		enum verdict_class class;
	} found[] = {{4, 1, 1000, 64, "", VERDICT_GENUINE}, {2, 2, 900, 32, "", VERDICT_GENUINE},
		{4, 2, 1000, 32, "", VERDICT_GENUINE}, {2, 2, 1000, 64, "", VERDICT_GENUINE},
		{16, 1, 10, 1, "", VERDICT_GENUINE}, {7.95, 2, 1000, 64, "", VERDICT_GENUINE},
		{1, 1, 1, 1, "2^20", VERDICT_GENUINE}, {1, 1, 1, 1, "", VERDICT_WRONG}};
	enum { ANSWERS_OF_IT = ARRAY_LEN(found) };
	struct rollout given[ANSWERS_OF_IT];
	struct rl_options o;
	rl_options_default(&o);
	o.stage = "midend";
	rows[0].kernel = (char *)(uintptr_t)"k";
	rows[0].profile = (struct verdict){
		.class = VERDICT_GENUINE, .cost_s = 8, .launches = 2, .bytes = 1000, .programs = 64};
	for (int i = 0; i < ANSWERS_OF_IT; i++) {
		given[i] = answer(found[i].class, 0, plain, 5);
		given[i].verdict.cost_s = found[i].cost_s;
		given[i].verdict.launches = found[i].launches;
		given[i].verdict.bytes = found[i].bytes;
		given[i].verdict.programs = found[i].programs;
		snprintf(given[i].verdict.cost_size, sizeof given[i].verdict.cost_size, "%s", found[i].size);
	}
	int size = ANSWERS_OF_IT;
	const struct step_batch b = {.r = given, .sizes = &size, .n = size, .groups = 1};
	json_t *m = step_metrics(&o, reward_rule_find("midend"), &prompts, &b, NULL);
	/* Six can be compared: 2, 4, 2, 4, 1/2 and 1 times as fast, whose product is 32. */
	static const struct {
		const char *key;
		double want;
	} expected[] = {{"midend/faster", 4.0 / 6}, {"midend/slower", 1.0 / 6},
		{"midend/speedup_geomean", 1.78179743628067854}, {"midend/fused", 0.25}, {"midend/fewer_passes", 0.25},
		{"midend/reblocked", 0.25}, {"midend/other", 0.25}};
	int count = 0;
	const char *key;
	json_t *v;
	json_object_foreach(m, key, v) count += !strncmp(key, "midend/", 7);
	assert_int_equal(count, ARRAY_LEN(expected));
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		double x = json_number_value(json_object_get(m, expected[i].key));
		if (!(fabs(x - expected[i].want) < 1e-12)) fail_msg("%s: %.17g", expected[i].key, x);
	}
	json_decref(m);
	rows[0] = (struct prompt_row){.text = ""};
}

/* Episodes of up to three turns to two prompts: solved at once; solved by the second turn, and
 * again by the third; never solved; and one whose second answer has no verdict. */
static void test_turns(void **state)
{
	static const struct {
		int prompt;
		int sample;
		int turn;
		enum verdict_class class;
		bool is_dropped;
	} written[] = {{0, 0, 0, VERDICT_GENUINE, false}, {0, 1, 0, VERDICT_WRONG, false}, {1, 0, 0, VERDICT_WRONG, false},
		{1, 1, 0, VERDICT_WRONG, false}, {0, 1, 1, VERDICT_GENUINE, false}, {1, 0, 1, VERDICT_WRONG, false},
		{1, 1, 1, VERDICT_GENUINE, true}, {0, 1, 2, VERDICT_GENUINE, false}, {1, 0, 2, VERDICT_WRONG, false}};
	enum { WRITTEN = ARRAY_LEN(written) };
	struct rollout all[WRITTEN];
	int each[3] = {4, 3, 2};
	struct rl_options o;
	rl_options_default(&o);
	o.num_turns = 3;
	/* Group behind group: all first turns, then the second ones, then the third. */
	for (int i = 0; i < WRITTEN; i++) {
		all[i] = answer(written[i].class, 0, plain, 5);
		all[i].prompt = written[i].prompt;
		all[i].sample = written[i].sample;
		all[i].turn = written[i].turn;
		all[i].is_dropped = written[i].is_dropped;
	}
	const struct step_batch b = {.r = all, .sizes = each, .n = WRITTEN, .groups = 3};
	json_t *m = step_metrics(&o, reward_rule_find("frontend"), &prompts, &b, NULL);
	static const struct {
		const char *key;
		double want;
	} expected[] = {{"turns/mean", 9.0 / 4}, {"turns/solved", 0.5}, {"turns/1/answers", 4}, {"turns/1/genuine", 0.25},
		{"turns/2/answers", 2}, {"turns/2/genuine", 0.5}, {"turns/3/answers", 2}, {"turns/3/genuine", 0.5}};
	int count = 0;
	const char *key;
	json_t *v;
	json_object_foreach(m, key, v) count += !strncmp(key, "turns/", 6);
	assert_int_equal(count, ARRAY_LEN(expected));
	for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
		double x = json_number_value(json_object_get(m, expected[i].key));
		if (!(fabs(x - expected[i].want) < 1e-12)) fail_msg("%s: %.17g", expected[i].key, x);
	}
	json_decref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_training),
		cmocka_unit_test(test_nothing_counts), cmocka_unit_test(test_midend), cmocka_unit_test(test_turns)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
