/* Turns: values and advantages against a formula written out by hand, order, the best answer so
 * far, the tokens that a turn appends, episodes in one engine that do not mix, and chains that stop
 * where they should. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "text/text.h"
#include "verify/verdict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct prompt_row rows[2] = {{.text = ""}, {.text = ""}};
static const struct prompt_set prompts = {.rows = rows, .count = 2};

static struct rollout answer(int prompt, int sample, int turn, enum verdict_class class)
{
	return (struct rollout){.prompt = prompt,
		.sample = sample,
		.turn = turn,
		.is_dropped = class == VERDICT_INFRA,
		.completion = {.count = 10},
		.verdict = {.class = class, .speedup_fused = 1, .cost_s = 1, .fused_cost_s = 2}};
}

static struct rollout absent(int prompt, int sample, int turn)
{
	return (struct rollout){.prompt = prompt, .sample = sample, .turn = turn, .is_absent = true};
}

/* Two prompts, three episodes of up to three turns each, as the collector leaves them. */
enum { N = 2, K = 3, T = 3 };
static void episodes_make(struct rollout r[N * K * T])
{
	const enum verdict_class W = VERDICT_WRONG, G = VERDICT_GENUINE, I = VERDICT_INFRA, none = VERDICT_CLASS_COUNT;
	const enum verdict_class what[N][K][T] = {
		{{W, W, G}, {G, none, none}, {W, G, none}}, {{W, I, none}, {G, none, none}, {W, W, W}}};
	for (int p = 0; p < N; p++)
		for (int s = 0; s < K; s++)
			for (int t = 0; t < T; t++)
				r[(p * K + s) * T + t] = what[p][s][t] == none ? absent(p, s, t) : answer(p, s, t, what[p][s][t]);
}

static void test_order(void **state)
{
	struct rollout r[N * K * T];
	int sizes[N * T], total;
	episodes_make(r);
	/* first turns, second turns, third turns of a prompt; nothing that is absent */
	assert_int_equal(turns_order(r, N, K, T, sizes, &total), 6);
	const int want[6] = {3, 2, 1, 3, 2, 1};
	assert_memory_equal(sizes, want, sizeof want);
	assert_int_equal(total, 12);
	const int order[12][3] = {{0, 0, 0}, {0, 1, 0}, {0, 2, 0}, {0, 0, 1}, {0, 2, 1}, {0, 0, 2}, {1, 0, 0}, {1, 1, 0},
		{1, 2, 0}, {1, 0, 1}, {1, 2, 1}, {1, 2, 2}};
	for (int i = 0; i < 12; i++)
		assert_true(r[i].prompt == order[i][0] && r[i].sample == order[i][1] && r[i].turn == order[i][2]);
}

/* gamma 0.5; leave-one-out inside each turn of each prompt. Prompt 0: first turns are
 * worth 0 + 0.25, 1 and 0 + 0.5; second turns 0 + 0.5 and 1; the third is alone. Prompt 1:
 * the first episode's second turn had no verdict, so its first turn has no value; the
 * others are worth 1 and 0. */
static void test_values(void **state)
{
	struct rollout r[N * K * T];
	int sizes[N * T], total;
	bool varies[N * T];
	const struct advantage_options o = {.rule = reward_rule_find("frontend"),
		.type = ADVANTAGE_LEAVE_ONE_OUT,
		.weight = 1,
		.negative_weight = 1,
		.turn_gamma = 0.5};
	episodes_make(r);
	int groups = turns_order(r, N, K, T, sizes, &total);
	assert_int_equal(rollouts_advantages(r, sizes, groups, &o, &prompts, varies), 3);
	const double values[12] = {0.25, 1, 0.5, 0.5, 1, 1, NAN, 1, 0, NAN, 0, 0};
	const double want[12] = {0.25 - 0.75, 1 - 0.375, 0.5 - 0.625, -0.5, 0.5, 0, 0, 1, -1, 0, 0, 0};
	for (int i = 0; i < 12; i++) {
		assert_true(isnan(values[i]) ? isnan(r[i].value.code) : fabs(r[i].value.code - values[i]) < 1e-12);
		assert_true(fabs(r[i].advantage_code - want[i]) < 1e-12 && r[i].advantage_plan == r[i].advantage_code);
	}
	const bool teaches[6] = {true, true, false, true, false, false};
	assert_memory_equal(varies, teaches, sizeof teaches);
}

static void test_best(void **state)
{
	struct rollout e[4] = {answer(0, 0, 0, VERDICT_WRONG), answer(0, 0, 1, VERDICT_GENUINE),
		answer(0, 0, 2, VERDICT_GENUINE), answer(0, 0, 3, VERDICT_CHEAT)};
	assert_int_equal(episode_best(e, 4), 1); /* of equal ones the first */
	e[2].verdict.cost_s = 0.5;
	assert_int_equal(episode_best(e, 4), 2);
	e[1].verdict.cost_s = NAN; /* a time goes before none, in either order */
	assert_int_equal(episode_best(e, 4), 2);
	e[1].verdict.cost_s = 1;
	e[2].verdict.cost_s = NAN;
	assert_int_equal(episode_best(e, 4), 1);
	e[1].verdict.class = e[2].verdict.class = VERDICT_INVALID;
	assert_int_equal(episode_best(e, 4), 3); /* none: the last word */
	e[3].is_dropped = true;
	assert_int_equal(episode_best(e, 4), 2);
	assert_int_equal(episode_best(e, 1), 0);
}

/* ---- the tokens of a turn ---- */

#define ENDS "<|im_end|>"
static struct policy policy_make(char **path)
{
	const char *build = getenv("BUILD");
	const char *special[] = {"<|im_start|>", ENDS};
	struct bpe_train_options o = {.vocab_size = 260, .special_tokens = special, .nspecial = 2};
	struct slice training = {"class", 5};
	struct err err = {0};
	struct policy p = {0};
	char *dir = path_join(build ? build : "build/release", "ref/rl-turns");
	*path = path_join(dir, "tokenizer.json");
	assert_int_equal(dir_make(dir, &err), 0);
	if (tokenizer_train(&training, 1, &o, *path, &err)) fail_msg("%s", err.text);
	if (tokenizer_open(*path, &p.tokenizer, &err)) fail_msg("%s", err.text);
	assert_int_equal(chat_template_find("chatml", NULL, &p.chat, &err), 0);
	assert_int_equal(chat_end_id(p.chat, p.tokenizer, &p.stop_id, &err), 0);
	free(dir);
	return p;
}

static void test_tokens(void **state)
{
	char *path, source[] = "```python\nx = 1\ny = 2\n```\n";
	struct policy p = policy_make(&path);
	struct turn_options o = {.most = 3, .max_feedback = 400, .template_text = "<{{feedback}}>", .template_name = "t"};
	int32_t read[3] = {1, 2, 3}, tokens[2] = {7, p.stop_id};
	struct prompt_row prompt = {.task = {.name = (char *)"t", .source = (char *)""}, .ids = {.data = read, .count = 3}};
	struct rollout r = answer(0, 4, 0, VERDICT_WRONG), next, third;
	struct err err = {0};
	struct str text = {0};
	r.completion = (struct completion){.tokens = tokens, .count = 2};
	r.text = source;
	r.text_len = strlen(source);
	r.answer = answer_parse(source, r.text_len);
	r.verdict.line = 2;
	snprintf(r.verdict.reason, sizeof r.verdict.reason, "mismatch");
	snprintf(r.verdict.detail, sizeof r.verdict.detail, "3 elements " ENDS " \xff differ");
	/* What the verdict quotes is text: its control tokens are letters, its
	 * broken bytes are marked. */
	if (turn_begin(&o, &p, &prompt, &r, &next, &err)) fail_msg("%s", err.text);
	assert_true(next.prompt == 0 && next.sample == 4 && next.turn == 1);
	assert_string_equal(next.feedback,
		"<Verdict: wrong (stage format, mismatch).\n3 elements " ENDS " \xef\xbf\xbd differ\n  2 | y = 2>");
	/* Token for token: what the turn before read, what it wrote, and the
	 * message in the chat form. */
	const int32_t begin[5] = {1, 2, 3, 7, p.stop_id};
	assert_memory_equal(next.context.data, begin, sizeof begin);
	tokenizer_decode(p.tokenizer, next.context.data + 5, next.context.count - 5, false, &text);
	assert_memory_equal(text.data, "\n<|im_start|>user\n<Verdict", 26);
	assert_string_equal(text.data + text.len - 34, ">" ENDS "\n<|im_start|>assistant\n");
	int ends = 0;
	for (size_t i = 5; i < next.context.count; i++) ends += next.context.data[i] == p.stop_id;
	assert_int_equal(ends, 1);
	/* The turn behind it begins with all of that. */
	size_t whole = next.context.count;
	next.completion = r.completion;
	next.text = source;
	next.verdict = r.verdict;
	assert_int_equal(turn_begin(&o, &p, &prompt, &next, &third, &err), 0);
	assert_memory_equal(third.context.data, next.context.data, whole * sizeof(int32_t));
	assert_true(third.turn == 2 && third.context.data[whole] == 7 && third.context.data[whole + 1] == p.stop_id);
	next.completion = (struct completion){0};
	next.text = NULL;
	rollouts_release(&next, 1);
	rollouts_release(&third, 1);
	/* An answer that was cut has no end token: the turn brings it. */
	r.completion.count = 1;
	assert_int_equal(turn_begin(&o, &p, &prompt, &r, &next, &err), 0);
	assert_true(next.context.count == whole && next.context.data[3] == 7 && next.context.data[4] == p.stop_id);
	rollouts_release(&next, 1);
	/* Too long: whole lines go, from the end; then it is refused. */
	o.max_feedback = (int)whole - 10;
	assert_int_equal(turn_begin(&o, &p, &prompt, &r, &next, &err), 0);
	assert_true(next.context.count < whole && !strstr(next.feedback, "y = 2") && strstr(next.feedback, "3 elements"));
	rollouts_release(&next, 1);
	o.max_feedback = 16;
	assert_int_equal(turn_begin(&o, &p, &prompt, &r, &next, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "--max_feedback_length is 16"));
	rollouts_release(&next, 1);
	/* Before a run it is asked of each task: what a turn has without feedback, behind an answer
	 * that brings no end of its own, is the least, to the token. */
	struct prompt_row two[] = {prompt, prompt};
	two[1].task.name = (char *)"second";
	two[1].task.source = (char *)"longer";
	struct prompt_set both = {.rows = two, .count = 2};
	o.template_text = "<{{feedback}}>{{task}}";
	struct prompt_set second = {.rows = two + 1, .count = 1};
	int needed = 0;
	o.max_feedback = 1;
	assert_int_equal(turns_check(&o, &p, &second, &err), ERR_LIMIT);
	assert_int_equal(sscanf(strstr(err.text, "a turn has"), "a turn has %d", &needed), 1);
	o.max_feedback = needed;
	assert_int_equal(turns_check(&o, &p, &both, &err), 0);
	r.completion.count = 1;
	r.verdict.detail[0] = 0;
	o.max_feedback = needed - 1;
	assert_int_equal(turns_check(&o, &p, &both, &err), ERR_LIMIT);
	if (!strstr(err.text, "task second: --turn_template t: ") || !strstr(err.text, "raise it"))
		fail_msg("%s", err.text);
	assert_int_equal(turn_begin(&o, &p, &two[1], &r, &next, &err), ERR_LIMIT);
	rollouts_release(&next, 1);
	o.max_feedback = needed;
	if (turn_begin(&o, &p, &two[1], &r, &next, &err)) fail_msg("%s", err.text);
	assert_int_equal(next.context.count, 3 + 1 + needed);
	rollouts_release(&next, 1);
	/* Of a policy outside bytes are counted. */
	o.max_feedback = 7;
	assert_int_equal(turns_check(&o, NULL, &both, &err), ERR_LIMIT);
	o.max_feedback = 8;
	assert_int_equal(turns_check(&o, NULL, &both, &err), 0);
	o.template_text = "<{{feedback}}>";
	/* A policy outside reads the message alone. */
	o.max_feedback = 400;
	assert_int_equal(turn_begin(&o, NULL, &prompt, &r, &next, &err), 0);
	assert_true(next.context.count == 0 && strstr(next.feedback, "mismatch"));
	rollouts_release(&next, 1);
	str_release(&text);
	tokenizer_free(p.tokenizer);
	free(path);
}

/* ---- episodes in an engine ---- */

enum { PLACES = 3, SAMPLES = 2, TURNS = 2, PROMPT = 5, ANSWER = 6 };

/* A random model over the tokenizer's own tokens: nothing that it writes is an answer, so every
 * episode goes on, and no verifier is needed. */
static void engine_make(struct policy *p, struct engine **e)
{
	const struct model_config config = {.vocab_size = 260,
		.hidden_size = 32,
		.num_hidden_layers = 1,
		.num_attention_heads = 2,
		.num_key_value_heads = 1,
		.head_dim = 16,
		.intermediate_size = 48,
		.max_position_embeddings = 512,
		.rms_norm_eps = 1e-6,
		.rope_theta = 1e4,
		.tie_word_embeddings = true,
		.qk_norm = true,
		.bos_token_id = -1,
		.eos_token_id = -1,
		.pad_token_id = -1};
	struct engine_options o = {.max_sequences = 4, .max_context = 512};
	struct err err = {0};
	if (ops_cpu_create(&(struct ops_options){.threads = 1}, &p->ops, &err) ||
		model_create(&config, 7, p->ops, &p->model, &err) || engine_create(p->model, &o, e, &err))
		fail_msg("%s", err.text);
}

/* The episodes of these prompts, numbered from id_base on as parts of a larger batch are. */
static void episodes_collect(
	const struct author *a, const struct prompt_set *set, const int *index, int n, int64_t id_base, struct rollout *out)
{
	struct err err = {0};
	struct rollout_options o = {.num_samples = SAMPLES,
		.id_base = id_base,
		.sampling = {.temperature = 1, .top_p = 1, .seed = 5},
		.turns = {.most = TURNS, .max_feedback = 400, .template_text = "<{{feedback}}>", .template_name = "t"},
		.max_new_tokens = ANSWER};
	if (rollouts_collect(a, NULL, set, index, n, &o, out, NULL, &err)) fail_msg("%s", err.text);
}

/* Draws are functions of (seed, request, sample, position) and a row of a batch is computed alone:
 * an episode has the same tokens beside others as it has where its prompt stands by itself. A later
 * turn that went to another prompt or sample would have others, and another beginning. */
static void test_episodes_do_not_mix(void **state)
{
	char *path;
	struct policy p = policy_make(&path);
	struct engine *e;
	struct prompt_row row[PLACES] = {0};
	const struct prompt_set set = {.rows = row, .count = PLACES};
	const int index[PLACES] = {0, 1, 2};
	struct rollout all[PLACES * SAMPLES * TURNS], alone[SAMPLES * TURNS];
	engine_make(&p, &e);
	struct author author = {.policy = &p, .engine = e};
	for (int i = 0; i < PLACES; i++) {
		row[i].task = (struct task){.name = (char *)"t", .source = (char *)""};
		for (int k = 0; k < PROMPT; k++) ids_push(&row[i].ids, 20 * (i + 1) + k);
	}
	episodes_collect(&author, &set, index, PLACES, 0, all);
	for (int place = 0; place < PLACES; place++) {
		episodes_collect(&author, &set, &index[place], 1, place, alone);
		for (int k = 0; k < SAMPLES * TURNS; k++) {
			const struct rollout *x = &all[place * SAMPLES * TURNS + k], *y = &alone[k];
			assert_true(x->prompt == place && x->sample == k / TURNS && x->turn == k % TURNS);
			assert_int_equal(x->completion.count, ANSWER);
			assert_memory_equal(x->completion.tokens, y->completion.tokens, ANSWER * sizeof(int32_t));
			if (x->turn == 0) continue;
			/* What a second turn reads: the prompt, the first answer, and what was said of it. */
			assert_int_equal(x->context.count, y->context.count);
			assert_memory_equal(x->context.data, row[place].ids.data, PROMPT * sizeof(int32_t));
			assert_memory_equal(x->context.data + PROMPT, x[-1].completion.tokens, ANSWER * sizeof(int32_t));
		}
		rollouts_release(alone, SAMPLES * TURNS);
	}
	rollouts_release(all, PLACES * SAMPLES * TURNS);
	for (int i = 0; i < PLACES; i++) ids_release(&row[i].ids);
	engine_free(e);
	model_free(p.model);
	ops_free(p.ops);
	tokenizer_free(p.tokenizer);
	free(path);
}

static void test_summary(void **state)
{
	struct rollout r[N * K * T];
	struct chain chains[N * K];
	episodes_make(r);
	for (int p = 0; p < N; p++) rows[p].task = (struct task){.name = (char *)(p ? "b" : "a"), .structure = (char *)""};
	episode_chains(r, &prompts, N, K, T, false, chains);
	/* The first answer counts on both sides; what the episode wrote is the budget. */
	assert_true(
		chains[0].tokens == 10 && chains[0].tokens_budget == 30 && chains[0].answers == 1 && !chains[0].is_solved);
	assert_true(chains[1].tokens_budget == 10 && chains[1].is_solved && chains[1].sample == 1 + K);
	for (int i = 0; i < N * K; i++)
		while (chains[i].tokens < chains[i].tokens_budget && !chains[i].is_solved)
			chain_add(&chains[i], &r[i == 5 ? 3 : 0], &prompts); /* the last chain finds one, the others fail again */
	json_t *s = turns_summary(r, chains, &prompts, N, K, T, 1);
	const json_t *turn = json_object_get(s, "by_turn"), *d = json_object_get(s, "difference");
	const double solved[T] = {2 / 6.0, 3 / 6.0, 4 / 6.0};
	for (int t = 0; t < T; t++) {
		const json_t *row = json_array_get(turn, (size_t)t);
		assert_true(fabs(json_number_value(json_object_get(row, "solved")) - solved[t]) < 1e-12);
		assert_int_equal(json_integer_value(json_object_get(row, "turn")), t + 1);
	}
	assert_true(json_number_value(json_object_get(json_object_get(s, "best_of"), "solved")) == 0.5);
	assert_true(fabs(json_number_value(json_object_get(json_object_get(s, "refined"), "tokens")) - 20) < 1e-12);
	assert_true(fabs(json_number_value(json_object_get(d, "solved")) - (4 / 6.0 - 0.5)) < 1e-12);
	json_decref(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_values),
		cmocka_unit_test(test_best), cmocka_unit_test(test_tokens), cmocka_unit_test(test_episodes_do_not_mix),
		cmocka_unit_test(test_summary)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
