/* Whose dropout mask is whose: each step, each micro-batch and each rank has one of its own, in
 * updates of reinforcement and in supervised ones between them. */
#include "update_world.h"
#include "../ranks/rank_world.h"

/* Two equal answers with opposite advantages, a micro-batch each: without dropout, or with one mask
 * for both, their gradients cancel but for rounding. */
static void test_dropout_masks(void **state)
{
	struct fixture *f = *state;
	struct rollout keep[2] = {f->rollouts[0], f->rollouts[1]};
	f->rollouts[1] = f->rollouts[0];
	f->rollouts[0].advantage_plan = f->rollouts[0].advantage_code = 1;
	f->rollouts[1].advantage_plan = f->rollouts[1].advantage_code = -1;
	struct updater_options o = {.max_tokens = PROMPT + f->rollouts[0].completion.count, .apart = true};
	struct open off = open_updater(f, o, 0, 0);
	double without = run(f, &off, 2).grad_norm;
	close_updater(&off);
	o.dropout_seed = 7;
	struct open on = open_updater(f, o, 0, 0);
	double pair = run(f, &on, 2).grad_norm, a = run(f, &on, 1).grad_norm, b = run(f, &on, 1).grad_norm;
	close_updater(&on);
	f->rollouts[0] = keep[0];
	f->rollouts[1] = keep[1];
	if (!(without < 1e-6)) fail_msg("without dropout: norm %g", without);
	if (!(pair > 1e-2 * a)) fail_msg("micro-batches share a mask: norm %g", pair);
	if (!(a > 0 && fabs(a - b) > 1e-6 * a)) fail_msg("steps share a mask: norms %g and %g", a, b);
}

/* Two equal examples of a supervised update, a micro-batch each: under one mask their mean loss is
 * that of one, but for rounding. And the next step has a mask of its own. */
static void test_fit_masks(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	const struct completion *c = &f->rollouts[2].completion;
	int32_t ids[PROMPT + ANSWER];
	memcpy(ids, f->row.ids.data, PROMPT * sizeof *ids);
	memcpy(ids + PROMPT, c->tokens, (size_t)c->count * sizeof *ids);
	const struct sft_example e[2] = {{ids, PROMPT + c->count, PROMPT}, {ids, PROMPT + c->count, PROMPT}};
	const struct sft_example *const list[2] = {&e[0], &e[1]};
	/* One example and both, without dropout and with it; then one again, a step further. */
	struct update_stats one = {0}, pair = {0}, next = {0}, plain[2] = {0};
	for (int drops = 0; drops < 2; drops++) {
		struct updater_options o = {.max_tokens = e[0].count, .apart = true, .dropout_seed = drops ? 7 : 0};
		struct open x = open_updater(f, o, 0, 0), y = open_updater(f, o, 0, 0);
		if (updater_fit(x.updater, list, 1, 1, 1, drops ? &one : &plain[0], &err)) fail_msg("%s", err.text);
		if (updater_fit(y.updater, list, 2, 1, 1, drops ? &pair : &plain[1], &err)) fail_msg("%s", err.text);
		if (drops && updater_fit(x.updater, list, 1, 1, 1, &next, &err)) fail_msg("%s", err.text);
		close_updater(&x);
		close_updater(&y);
	}
	assert_true(fabs(plain[0].fit_loss - plain[1].fit_loss) < 1e-6 * plain[0].fit_loss);
	double least = 1e-4 * one.fit_loss;
	if (!(fabs(pair.fit_loss - one.fit_loss) > least)) fail_msg("micro-batches share a mask: loss %g", pair.fit_loss);
	if (!(fabs(next.fit_loss - one.fit_loss) > least)) fail_msg("steps share a mask: loss %g", next.fit_loss);
}

/* A rank of two: of two equal answers, and of two equal examples, it has one. */
static int masks_of_a_rank(int rank, void *ctx)
{
	struct fixture *f = ctx;
	const struct ranks_options meet = RANKS_DEFAULTS;
	struct updater_options o = {.apart = true, .dropout_seed = 7};
	struct err err = {0};
	NEED(!ranks_open(&meet, &o.ranks, &err), "%s", err.text);
	/* Opposite advantages: under one mask the two gradients cancel but for rounding. */
	f->rollouts[1] = f->rollouts[0];
	f->rollouts[0].advantage_plan = f->rollouts[0].advantage_code = 1;
	f->rollouts[1].advantage_plan = f->rollouts[1].advantage_code = -1;
	struct open x = open_updater(f, o, 0, 0);
	double pair = run(f, &x, 2).grad_norm, one = run(f, &x, 1).grad_norm;
	NEED(pair > 1e-2 * one, "answers of two ranks share a mask: norm %g of %g", pair, one);

	/* Equal examples: under one mask both ranks have the same loss. */
	const struct completion *c = &f->rollouts[0].completion;
	int32_t ids[PROMPT + ANSWER];
	memcpy(ids, f->row.ids.data, PROMPT * sizeof *ids);
	memcpy(ids + PROMPT, c->tokens, (size_t)c->count * sizeof *ids);
	const struct sft_example e[2] = {{ids, PROMPT + c->count, PROMPT}, {ids, PROMPT + c->count, PROMPT}};
	const struct sft_example *const list[2] = {&e[0], &e[1]};
	struct update_stats fit = {0};
	NEED(!updater_fit(x.updater, list, 2, 1, 1, &fit, &err), "%s", err.text);
	double apart = rank ? -fit.fit_loss : fit.fit_loss;
	NEED(!ranks_add(o.ranks, &apart, 1, &err), "%s", err.text);
	NEED(fabs(apart) > 1e-4 * fit.fit_loss, "examples of two ranks share a mask: loss %g", fit.fit_loss);
	close_updater(&x);
	ranks_close(o.ranks, NULL);
	return 0;
}

static void test_masks_of_ranks(void **state)
{
	int status[2];
	ranks_run(2, masks_of_a_rank, *state, status);
	for (int k = 0; k < 2; k++) assert_int_equal(status[k], 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_dropout_masks),
		T(test_fit_masks),
		T(test_masks_of_ranks),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
