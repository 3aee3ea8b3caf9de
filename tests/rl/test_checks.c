/* Settings of a run that go together and those that do not, both sides of each bound, with what the
 * refusal says; and chains of answers in numbers. */
#include "rl/rl_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* One option with another value than its default. */
struct set {
	size_t at;
	char type; /* of the field: i, f, b or s */
	double number;
	const char *text;
};
#define INT(field, v) {offsetof(struct rl_options, field), 'i', v, NULL}
#define FLOAT(field, v) {offsetof(struct rl_options, field), 'f', v, NULL}
#define BOOL(field, v) {offsetof(struct rl_options, field), 'b', v, NULL}
#define TEXT(field, v) {offsetof(struct rl_options, field), 's', 0, v}
#define OUTSIDE TEXT(policy.policy_command, "./policy")

struct check_case {
	struct set sets[5];
	const char *said; /* NULL: they go together */
};

static void set_all(struct rl_options *o, const struct set *sets)
{
	rl_options_default(o);
	o->policy.model = "m";
	o->tasks = "t";
	o->output_dir = "out";
	for (int i = 0; i < 5 && sets[i].type; i++) {
		char *at = (char *)o + sets[i].at;
		int64_t n = (int64_t)sets[i].number;
		bool b = n;
		if (sets[i].type == 'i') memcpy(at, &n, sizeof n);
		if (sets[i].type == 'f') memcpy(at, &sets[i].number, sizeof sets[i].number);
		if (sets[i].type == 'b') memcpy(at, &b, sizeof b);
		if (sets[i].type == 's') memcpy(at, &sets[i].text, sizeof sets[i].text);
	}
}

static void check_all(
	const struct check_case *cases, size_t count, int (*check)(const struct rl_options *, struct err *))
{
	int bad = 0;
	for (size_t i = 0; i < count; i++) {
		struct rl_options o;
		struct err err = {0};
		set_all(&o, cases[i].sets);
		int rc = check(&o, &err);
		bool ok = cases[i].said ? rc == ERR_USAGE && strstr(err.text, cases[i].said) : rc == 0;
		if (!ok) print_message("# row %zu: %d, %s\n", i, rc, err.text);
		bad += !ok;
	}
	assert_int_equal(bad, 0);
}

static int options_check(const struct rl_options *o, struct err *err)
{
	struct loop l = {.o = o};
	return rl_options_check(&l, err);
}

static void test_what_a_run_needs(void **state)
{
	static const struct check_case cases[] = {
		{{{0}}, NULL},
		{{TEXT(policy.model, NULL)}, "--model is missing"},
		{{TEXT(tasks, NULL)}, "--tasks is missing"},
		{{TEXT(output_dir, NULL)}, "--output_dir is missing"},
		{{TEXT(output_dir, NULL), BOOL(dry_run, 1)}, NULL},
		{{TEXT(policy.adapter, "a"), BOOL(policy.use_peft, 0)}, "exclude each other"},
		{{TEXT(policy.adapter, "a")}, NULL},
		{{BOOL(policy.use_peft, 0)}, NULL},
		{{INT(max_steps, 0)}, "the run would never end"},
		{{INT(max_steps, 0), INT(max_seconds, 1)}, NULL},
		{{INT(max_steps, 1), INT(max_seconds, 0)}, NULL},
		/* Groups. */
		{{INT(generation_batch_size, 8)}, NULL},
		{{INT(generation_batch_size, 7)}, "--generation_batch_size 7: expected a multiple of num_generations (8)"},
		{{INT(generation_batch_size, 12)}, "--generation_batch_size 12: expected a multiple of num_generations (8)"},
		{{INT(generation_batch_size, 4)}, "a multiple of"},
		{{INT(num_generations_first, 7)}, NULL},
		{{INT(num_generations_first, 8)}, "--num_generations_first 8: expected less than num_generations (8)"},
		{{INT(steps_per_generation, 64)}, NULL},
		{{INT(steps_per_generation, 65)}, "--steps_per_generation 65: expected at most generation_batch_size (64)"},
		{{INT(num_turns, 2)}, NULL},
		{{INT(num_turns, 2), INT(num_generations_first, 1)}, "--num_turns 2 with --num_generations_first: groups"},
		{{INT(num_turns, 2), BOOL(filter_groups, 1)}, "--num_turns 2 with --filter_groups: groups"},
		{{BOOL(filter_groups, 1), INT(num_generations_first, 1)}, NULL},
		{{FLOAT(policy_weight, 0)}, "nothing would train"},
		{{FLOAT(policy_weight, 0), INT(replay_updates, 1)}, NULL},
	};
	check_all(cases, ARRAY_LEN(cases), options_check);
}

static void test_learning(void **state)
{
	static const struct check_case cases[] = {
		{{TEXT(reward, "no such")}, "no such"},
		{{TEXT(advantage, "no such")}, "no such"},
		{{TEXT(loss_type, "no such")}, "no such"},
		{{TEXT(importance_sampling_mode, "no such")}, "no such"},
		{{TEXT(level_weights, "one")}, "one"},
		{{TEXT(reward, "midend")}, "--reward midend pays for what is gained over a kernel that was given"},
		{{TEXT(reward, "midend"), TEXT(stage, "midend")}, NULL},
		{{TEXT(reward_time, "measured")}, "found \"cpu\""},
		{{TEXT(reward_time, "measured"), TEXT(verify_device, "cuda:1")}, NULL},
		{{TEXT(advantage, "maxrl")}, NULL},
		{{TEXT(advantage, "maxrl"), TEXT(reward, "paper-frontend")}, "--reward paper-frontend pays -10 for failure"},
		{{TEXT(advantage, "maxrl"), INT(overlong_buffer_len, 1)},
			"pays 0 for failure, and --overlong_buffer_len takes"},
		{{TEXT(reward, "paper-frontend")}, NULL},
		/* Bounds of the loss. */
		{{TEXT(loss_type, "cispo"), FLOAT(epsilon_high, 0.99)}, "--epsilon_high 0.99: of --loss_type cispo"},
		{{TEXT(loss_type, "cispo"), FLOAT(epsilon_high, 1)}, NULL},
		{{FLOAT(delta, 1.5), FLOAT(epsilon_high, 0.5)}, "--delta 1.5: expected more than 1 + epsilon_high = 1.5, or 0"},
		{{FLOAT(delta, 1.6), FLOAT(epsilon_high, 0.5)}, NULL},
		{{FLOAT(delta, 7), FLOAT(epsilon_high, 5), TEXT(loss_type, "cispo")},
			"--delta 7 with --loss_type cispo, whose ratio has one cap, --epsilon_high 5"},
		{{FLOAT(guard_kl, 0.25)}, "--guard_kl 0.25 with --beta 0"},
		{{FLOAT(guard_kl, 0.25), FLOAT(beta, 0.1)}, NULL},
		{{FLOAT(beta, 0.1)}, NULL},
		/* How answers are drawn. */
		{{FLOAT(min_p, 0.25)}, NULL},
		{{FLOAT(min_p, 0.25), INT(top_k, 5)}, "--min_p 0.25 with --top_k 5 and --top_p 1"},
		{{FLOAT(min_p, 0.25), FLOAT(top_p, 0.5)}, "--min_p 0.25 with --top_k 0 and --top_p 0.5"},
		{{INT(top_k, 5), FLOAT(top_p, 0.5)}, NULL},
		{{FLOAT(temperature_code, SAMPLING_TEMPERATURE_MIN / 2)}, "expected 0 (as --temperature) or at least"},
		{{FLOAT(temperature_code, SAMPLING_TEMPERATURE_MIN)}, NULL},
		{{INT(overlong_buffer_len, 8192)}, NULL},
		{{INT(overlong_buffer_len, 8193)}, "--overlong_buffer_len 8193: expected at most max_completion_length (8192)"},
	};
	check_all(cases, ARRAY_LEN(cases), options_check);
}

/* A policy outside is asked and not trained: each option that would is refused by its name. */
static void test_outside(void **state)
{
	static const struct check_case cases[] = {
		{{OUTSIDE, TEXT(policy.model, NULL)}, NULL},
		{{OUTSIDE, BOOL(dry_run, 1)}, "--dry_run: a policy outside"},
		{{OUTSIDE, INT(replay_updates, 1)}, "--replay_updates: a policy outside"},
		{{OUTSIDE, INT(eval_steps, 1)}, "--eval_steps: a policy outside"},
		{{OUTSIDE, FLOAT(temperature_code, 1)}, "--temperature_code: a policy outside"},
		{{OUTSIDE, FLOAT(min_p, 0.5)}, "--min_p: a policy outside"},
		{{OUTSIDE, INT(top_k, 1)}, "--top_k: a policy outside"},
		{{OUTSIDE, FLOAT(top_p, 0.5)}, "--top_p: a policy outside"},
		{{OUTSIDE, TEXT(tasks, NULL)}, "--tasks is missing"},
	};
	check_all(cases, ARRAY_LEN(cases), options_check);
}

/* What becomes of the names: types, and each number where the learning reads it. */
static void test_what_is_set(void **state)
{
	static const struct set sets[5] = {TEXT(reward, "paper-frontend"), TEXT(advantage, "batch"),
		TEXT(loss_type, "gspo"), FLOAT(policy_weight, 0.25), FLOAT(overlong_penalty_factor, 0.75)};
	struct rl_options o;
	struct err err = {0};
	struct loop l = {.o = &o};
	set_all(&o, sets);
	o.negative_weight = 0.5;
	o.overlong_buffer_len = 16;
	o.max_completion_length = 99;
	o.turn_gamma = 0.125;
	if (rl_options_check(&l, &err)) fail_msg("%s", err.text);
	const struct advantage_options *a = &l.advantage;
	assert_true(a->rule == &l.rule && a->type == ADVANTAGE_BATCH && a->weight == 0.25 && a->negative_weight == 0.5);
	assert_true(a->max_completion_length == 99 && a->overlong_buffer_len == 16 && a->overlong_penalty_factor == 0.75);
	assert_true(a->turn_gamma == 0.125 && l.update.loss.type == LOSS_GSPO && !l.rule.is_measured);
	assert_string_equal(l.rule.name, "paper-frontend");
	assert_true(l.rule.failure == -10);
	o.reward_time = "measured";
	o.verify_device = "cuda";
	assert_int_equal(rl_options_check(&l, &err), 0);
	assert_true(l.rule.is_measured);
}

/* An episode's tokens, and whether a model knows as many positions. */
static void test_episodes_fit(void **state)
{
	static const struct set sets[5] = {INT(num_turns, 3), INT(max_completion_length, 100), INT(max_feedback_length, 7)};
	struct rl_options o;
	struct err err = {0};
	set_all(&o, sets);
	assert_int_equal(rl_episode_tokens(&o), 3 * 100 + 2 * 7);
	o.num_turns = 1;
	assert_int_equal(rl_episode_tokens(&o), 100);
	assert_int_equal(rl_positions_check(10, 100, 1, 110, &err), 0);
	assert_int_equal(rl_positions_check(10, 100, 1, 109, &err), ERR_LIMIT);
	assert_string_equal(err.text,
		"the longest prompt has 10 tokens and an answer up to 100, but the model knows 109 positions; lower "
		"--max_completion_length or --max_prompt_length");
	assert_int_equal(rl_positions_check(10, 100, 2, 109, &err), ERR_LIMIT);
	assert_string_equal(err.text,
		"the longest prompt has 10 tokens and the turns behind it up to 100, but the model knows 109 positions; lower "
		"--max_completion_length, --max_feedback_length, --num_turns or --max_prompt_length");
}

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

/* An answer of `tokens` behind a prompt of seven. */
static struct rollout answer(enum verdict_class class, double cost_s, double reference_s, int tokens)
{
	return (struct rollout){
		.verdict = {.class = class, .cost_s = cost_s, .fused_cost_s = reference_s}, .completion = {.count = tokens}};
}

static void test_chains(void **state)
{
	struct prompt_row rows[2] = {{.task = {.name = (char *)"a", .structure = (char *)"s"}, .ids = {.count = 7}},
		{.task = {.name = (char *)"b", .structure = (char *)"r"}, .ids = {.count = 7}}};
	const struct prompt_set prompts = {.rows = rows, .count = 2};
	struct chain c[4] = {{.prompt = 0}, {.prompt = 1}, {.prompt = 0}, {.prompt = 1}};
	/* Solved twice, the dearer one last; its last answer read a context of its own. */
	struct rollout r = answer(VERDICT_GENUINE, 2, 8, 10);
	chain_add(&c[0], &r, &prompts);
	r = answer(VERDICT_GENUINE, 4, 8, 20);
	r.context.count = 50;
	chain_add(&c[0], &r, &prompts);
	assert_true(c[0].answers == 2 && c[0].tokens == 30 && c[0].tokens_read == 57 && c[0].is_solved);
	assert_true(c[0].cost_s == 2 && c[0].reference_s == 8);
	/* Wrong and fast, dropped, and genuine without a time. */
	r = answer(VERDICT_WRONG, 1, 9, 5);
	chain_add(&c[1], &r, &prompts);
	r = answer(VERDICT_GENUINE, 1, 9, 5);
	r.is_dropped = true;
	chain_add(&c[1], &r, &prompts);
	assert_true(c[1].answers == 2 && c[1].tokens == 10 && !c[1].is_solved && c[1].cost_s == 0 && c[1].reference_s == 0);
	r = answer(VERDICT_GENUINE, NAN, NAN, 5);
	chain_add(&c[2], &r, &prompts);
	assert_true(c[2].is_solved && c[2].cost_s == 0 && c[2].reference_s == 0);
	r = answer(VERDICT_GENUINE, 4, 8, 15);
	chain_add(&c[3], &r, &prompts);
	/* Means over all four; of speed over the two that have a time: 4 and 2 times. */
	json_t *j = chains_json(c, 4);
	assert_true(number(j, "solved") == 0.75 && number(j, "answers") == 6.0 / 4 && number(j, "tokens") == 60.0 / 4);
	assert_true(number(j, "tokens_read") == 85.0 / 4 && fabs(number(j, "speedup_geomean") - sqrt(8)) < 1e-12);
	assert_int_equal(json_object_size(j), 5);
	json_decref(j);
	j = chains_json(c, 0);
	assert_true(number(j, "solved") == 0 && number(j, "speedup_geomean") == 0);
	json_decref(j);
	/* A time without one of the reference's is none to compare. */
	const struct chain alone[2] = {{.cost_s = 2, .reference_s = 6}, {.cost_s = 2}};
	j = chains_json(alone, 2);
	assert_true(fabs(number(j, "speedup_geomean") - 3) < 1e-12);
	json_decref(j);
	/* The first pair: both have a time; the second: the other side alone. */
	const struct chain other[2] = {{.prompt = 0, .is_solved = true, .cost_s = 6}, {.prompt = 1, .is_solved = true}};
	j = chains_paired(c, other, 2, &prompts, 5);
	const json_t *speed = json_object_get(j, "speedup_ratio");
	assert_true(number(j, "solved") == -0.5 && number(j, "structures") == 2);
	assert_true(number(j, "low") == -1 && number(j, "high") == 0);
	assert_true(number(speed, "pairs") == 1 && fabs(number(speed, "value") - 3) < 1e-12);
	assert_true(fabs(number(speed, "low") - 3) < 1e-12 && fabs(number(speed, "high") - 3) < 1e-12);
	json_decref(j);
	/* Where no pair has two times there is no ratio. */
	j = chains_paired(c + 1, other + 1, 1, &prompts, 5);
	assert_null(json_object_get(j, "speedup_ratio"));
	assert_true(number(j, "solved") == -1 && number(j, "structures") == 1);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_a_run_needs), cmocka_unit_test(test_learning),
		cmocka_unit_test(test_outside), cmocka_unit_test(test_what_is_set), cmocka_unit_test(test_episodes_fit),
		cmocka_unit_test(test_chains)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
