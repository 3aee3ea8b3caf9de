/* How the answers were sampled, and what the trainer makes of it: temperatures by token, min_p, and
 * where the code's temperature begins. */
#include "update_world.h"

/* Answers drawn anew under other sampling, in place of the fixture's. */
static void sample_again(
	struct fixture *f, struct sampling sampling, float (*temperature_at)(void *, int64_t, int, const int32_t *, int))
{
	struct engine *e;
	struct err err = {0};
	struct completion c;
	struct engine_options o = {.max_sequences = 4, .max_context = PROMPT + ANSWER};
	struct request q = {.prompt = f->row.ids.data,
		.nprompt = PROMPT,
		.num_samples = K,
		.sampling = sampling,
		.max_new_tokens = ANSWER,
		.adapter = f->adapter,
		.temperature_at = temperature_at};
	rollouts_release(f->rollouts, K);
	if (engine_create(f->model, &o, &e, &err) || engine_submit(e, &q, &err)) fail_msg("%s", err.text);
	for (int active = 1; active;) engine_step(e, &active);
	while (engine_take(e, &c))
		f->rollouts[c.sample] = (struct rollout){
			.sample = c.sample, .completion = c, .advantage_plan = c.sample - 2.5, .advantage_code = c.sample - 2.5};
	engine_free(e);
}

static float warm_then_cold(void *ctx, int64_t id, int sample, const int32_t *tokens, int count)
{
	return count < 3 ? 1.5f : 0.6f + 0.1f * (float)sample;
}

/* A temperature for each token, which the sampler records and the trainer divides by: the gap is
 * rounding (test_sampler_gap), where one temperature for all would be far off. */
static void test_temperature_by_token(void **state)
{
	struct fixture *f = *state;
	sample_again(f, (struct sampling){.temperature = 1, .top_p = 1, .seed = 12}, warm_then_cold);
	for (int k = 0; k < K; k++)
		for (int i = 0; i < f->rollouts[k].completion.count; i++)
			assert_true(f->rollouts[k].completion.temperatures[i] == warm_then_cold(NULL, 0, k, NULL, i));
	struct open x = open_updater(f, (struct updater_options){.num_iterations = 2}, 0, 0);
	struct update_stats s = run(f, &x, K);
	close_updater(&x);
	assert_true(s.loss.logprob_diff_max < 1e-5 && s.loss.ratio_max_dev == 0);
	for (int k = 0; k < K; k++) {
		free(f->rollouts[k].completion.temperatures);
		f->rollouts[k].completion.temperatures = NULL;
	}
	struct open y = open_updater(f, (struct updater_options){0}, 0, 0);
	assert_true(run(f, &y, K).loss.logprob_diff_max > 0.1);
	close_updater(&y);
}

/* min_p: sampler and trainer speak of the same renormalised distribution. */
static void test_min_p(void **state)
{
	struct fixture *f = *state;
	sample_again(f, (struct sampling){.temperature = 0.5f, .top_p = 1, .min_p = 0.5f, .seed = 13}, NULL);
	struct updater_options o = {.min_p = 0.5f, .num_iterations = 2};
	struct open x, y;
	for (int k = 0; k < K; k++) {
		struct completion *c = &f->rollouts[k].completion;
		c->temperatures = xcalloc((size_t)c->count, sizeof *c->temperatures);
		for (int i = 0; i < c->count; i++) c->temperatures[i] = 0.5f;
	}
	x = open_updater(f, o, 0, 0);
	struct update_stats with = run(f, &x, K);
	close_updater(&x);
	y = open_updater(f, (struct updater_options){0}, 0, 0);
	struct update_stats without = run(f, &y, K);
	close_updater(&y);
	/* One sum over what is left in place of one over all: a few roundings of numbers near 1. */
	assert_true(with.loss.logprob_diff_max < 1e-5 && with.loss.ratio_max_dev == 0);
	assert_true(without.loss.logprob_diff_max > 0.5);
}

static void ones(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	for (int i = 0; i < n; i++) g[i] = 1;
}

/* The gradient of renormalised log-probabilities against differences: (f(x + h) - f(x - h)) / 2h of
 * a sum of fp32 numbers near 10 has an error of about 1e-6 / h + h^2: h = 1e-2 and 1e-3 relative to
 * slopes of order 1. */
static void test_min_p_gradient(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct pass *pass;
	int32_t ids[PROMPT], pos[PROMPT], start[2] = {0, PROMPT};
	struct head_row rows[PROMPT - 1];
	float logprob[PROMPT - 1];
	for (int i = 0; i < PROMPT; i++) {
		ids[i] = f->row.ids.data[i];
		pos[i] = i;
	}
	for (int i = 0; i < PROMPT - 1; i++)
		rows[i] = (struct head_row){.at = i, .target = ids[i + 1], .temperature = 0.4f + 0.1f * (float)i};
	struct batch b = {ids, {PROMPT, 1, start, pos, NULL}};
	if (pass_create(f->model, &(struct pass_options){.max_tokens = PROMPT, .backward = true}, &pass, &err))
		fail_msg("%s", err.text);
	pass_min_p(pass, 0.3f);
	int n, checked = 0;
	struct param *p = adapter_params(f->adapter, &n);
	params_zero_grad(f->ops, p, n);
	pass_forward(pass, f->adapter, &b, 0);
	pass_backward(pass, rows, PROMPT - 1, 1, ones, NULL);
	for (int i = 0; i < n; i += 5) {
		float *grad = xcalloc((size_t)p[i].count, sizeof *grad), *value = host_values(&p[i]), keep = value[1];
		double side[2];
		grads_get(f->ops, &p[i], grad);
		for (int k = 0; k < 2; k++) {
			value[1] = keep + (k ? -1e-2f : 1e-2f);
			pass_forward(pass, f->adapter, &b, 0);
			pass_logprobs(pass, rows, PROMPT - 1, 1, logprob, NULL);
			side[k] = 0;
			for (int r = 0; r < PROMPT - 1; r++) side[k] += logprob[r];
		}
		value[1] = keep;
		double slope = (side[0] - side[1]) / 2e-2;
		/* where a token enters or leaves what is left, the sum has a step and no slope */
		if (fabs(slope) < 20) {
			if (fabs(slope - grad[1]) > 3e-3 + 1e-2 * fabs(slope))
				fail_msg("%s: gradient %g, differences %g", p[i].name, grad[1], slope);
			checked++;
		}
		free(grad);
	}
	assert_true(checked > 2);
	pass_free(pass);
}

/* Where the code's temperature begins: with the third backtick of a line that opens a block. */
static void test_span(void **state)
{
	static const struct {
		const char *text;
		bool is_code;
	} cases[] = {{"", false}, {"Use `x` and ``` in a line", false}, {"plan\n```", true}, {"plan\n  ```python\n", true},
		{"```python", true}, {"plan\n``", false}, {"plan\n`` `", false}, {"a\nb ```\n", false}, {"a\n\t````\nx", true}};
	/* A tokenizer so small that the backticks are tokens of their own. */
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref"), *path = path_join(dir, "rl-span.json");
	struct slice training = {"plan\n```python\n", 15};
	struct bpe_train_options o = {.vocab_size = 262};
	struct err err = {0};
	struct tokenizer *t;
	if (dir_make(dir, &err) || tokenizer_train(&training, 1, &o, path, &err) || tokenizer_open(path, &t, &err))
		fail_msg("%s", err.text);
	/* Asked after each token, as the sampler does, and once for the whole: the same answer. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ids ids = {0};
		struct span_state whole = {0}, growing = {0};
		bool at_end = false;
		if (*cases[i].text && tokenizer_encode(t, cases[i].text, strlen(cases[i].text), true, &ids, &err))
			fail_msg("%s", err.text);
		for (int n = 0; n <= (int)ids.count; n++) at_end = span_is_code(&growing, t, ids.data, n);
		assert_int_equal(at_end, cases[i].is_code);
		assert_int_equal(span_is_code(&whole, t, ids.data, (int)ids.count), cases[i].is_code);
		ids_release(&ids);
	}
	tokenizer_free(t);
	free(path);
	free(dir);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_temperature_by_token),
		T(test_min_p),
		T(test_min_p_gradient),
		T(test_span),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
