/* The update, on a tiny random model: packing does not matter, the ratio of the recomputation is
 * exactly 1, what the sampler recorded is what the trainer recomputes, gradients point the right
 * way. */
#include "update_world.h"

/* One sequence a micro-batch against all in one: the same sums in another order, so equal to a few
 * hundred rounding errors of fp32 (1e-4 relative). */
static void test_packing_does_not_matter(void **state)
{
	struct update_stats one = update(*state, 0, PROMPT + ANSWER, 1, LOSS_GRPO, 0),
						all = update(*state, 0, 512, 1, LOSS_GRPO, 0);
	assert_true(one.grad_norm > 0);
	assert_true(fabs(one.grad_norm - all.grad_norm) < 1e-4 * one.grad_norm);
	assert_true(fabs(one.loss.loss - all.loss.loss) < 1e-4 * fmax(1e-3, fabs(all.loss.loss)));
	assert_int_equal(one.loss.rows, all.loss.rows);
}

/* With lr 0 both iterations see the same weights: the recomputation and the training pass must
 * agree to the last bit. */
static void test_ratio_is_exactly_one(void **state)
{
	for (enum loss_type t = LOSS_GRPO; t < LOSS_TYPE_COUNT; t++) {
		assert_true(update(*state, 0, 64, 1, t, 0).loss.ratio_max_dev == 0);
		assert_true(update(*state, 0, 64, 2, t, 0).loss.ratio_max_dev == 0);
	}
}

static void test_second_iteration_moves(void **state)
{
	assert_true(update(*state, 1e-3, 64, 2, LOSS_DAPO, 0).loss.ratio_max_dev > 0);
}

/* Behind a long step what was paid is likelier, and the upper clip holds it back; what was charged
 * is held by the lower one. */
static void test_clips_by_side(void **state)
{
	struct fixture *f = *state;
	for (int sign = -1; sign <= 1; sign += 2) {
		for (int k = 0; k < K; k++) f->rollouts[k].advantage_plan = f->rollouts[k].advantage_code = (float)sign;
		struct update_stats s = update(f, 0.1, 512, 2, LOSS_GRPO, 0);
		assert_true(sign > 0 ? s.loss.clip_high > 0 : s.loss.clip_low > 0);
		assert_true((sign > 0 ? s.loss.clip_low : s.loss.clip_high) == 0);
	}
}

/* Sampler and trainer run the same walk over fp32; logits of size about 1 over a hidden size of 32
 * differ by reordered sums alone: well below 1e-5. */
static void test_sampler_gap(void **state)
{
	struct update_stats s = update(*state, 0, 512, 1, LOSS_GRPO, 0);
	assert_true(s.loss.logprob_diff_max < 1e-5);
	assert_true(s.loss.rows > 0 && s.loss.logprob_diff_sum / (double)s.loss.rows < 2e-6);
}

/* k3 >= 0, and exactly 0 when policy and reference agree: here the adapter is not zero, so it must
 * be positive. */
static void test_kl_needs_a_reference(void **state)
{
	assert_true(update(*state, 0, 512, 1, LOSS_GRPO, 0.1f).loss.kl > 0);
	assert_true(update(*state, 0, 512, 1, LOSS_GRPO, 0).loss.kl == 0);
}

/* A step on one answer with a positive advantage alone makes it likelier: its log-probabilities
 * leave the recorded ones upwards. */
static void test_direction(void **state)
{
	struct fixture *f = *state;
	/* One step that trains answer 2 alone; the same update without a rate
	 * then sees the new policy. */
	for (int k = 0; k < K; k++) f->rollouts[k].is_dropped = k != 2;
	f->rollouts[2].advantage_plan = f->rollouts[2].advantage_code = 1;
	update(f, 1e-2, 64, 1, LOSS_DAPO, 0);
	struct update_stats after = update(f, 0, 64, 1, LOSS_DAPO, 0);
	assert_true(after.loss.logprob_diff_sum > 0.05);
	struct err err = {0};
	struct pass *pass;
	/* The same by the model itself: the answer's log-probabilities, from a pass of their own. */
	struct pass_options po = {.max_tokens = 64, .head_rows = 64};
	if (pass_create(f->model, &po, &pass, &err)) fail_msg("%s", err.text);
	const struct completion *c = &f->rollouts[2].completion;
	int32_t ids[PROMPT + ANSWER], pos[PROMPT + ANSWER], start[2] = {0, PROMPT + c->count};
	struct head_row rows[ANSWER];
	float logprob[ANSWER];
	for (int i = 0; i < PROMPT + c->count; i++) {
		ids[i] = i < PROMPT ? f->row.ids.data[i] : c->tokens[i - PROMPT];
		pos[i] = i;
	}
	for (int i = 0; i < c->count; i++) rows[i] = (struct head_row){.at = PROMPT + i - 1, .target = c->tokens[i]};
	struct batch b = {ids, {PROMPT + c->count, 1, start, pos, NULL}};
	pass_forward(pass, f->adapter, &b, 0);
	pass_logprobs(pass, rows, c->count, 1, logprob, NULL);
	/* The answer as a whole is likelier than when it was drawn. */
	double before = 0, now = 0;
	for (int i = 0; i < c->count; i++) {
		before += c->logprobs[i];
		now += logprob[i];
	}
	assert_true(now > before + 0.05);
	pass_free(pass);
}

/* Answers that do not train are counted all the same: the rows of a single one that does
 * are divided by all K. A KL weight that is next to nothing, which makes all train,
 * changes no normaliser. */
static void test_normalisers_count_all(void **state)
{
	struct fixture *f = *state;
	for (int k = 1; k < K; k++) f->rollouts[k].advantage_plan = f->rollouts[k].advantage_code = 0;
	for (int with_kl = 0; with_kl < 2; with_kl++)
		for (enum loss_type t = LOSS_GRPO; t < LOSS_TYPE_COUNT; t++) {
			struct open x = open_updater(
				f, (struct updater_options){.loss = {.type = t, .beta = with_kl ? 1e-9f : 0}}, 0, 0);
			struct update_stats s = run(f, &x, K);
			int lengths[K];
			float want[K];
			size_t n;
			for (int k = 0; k < K; k++) lengths[k] = f->rollouts[k].completion.count;
			loss_normalisers(t, lengths, K, ANSWER, want);
			const struct loss_row *rows = updater_rows(x.updater, &n);
			assert_int_equal(s.counted, K);
			assert_int_equal(s.sequences, with_kl ? K : 1);
			assert_true(n > 0 && rows[0].normaliser == want[0]);
			close_updater(&x);
		}
}

/* Four passes over one batch, at rate 0: what is published is that of one
 * pass, not four times it. */
static void test_passes_are_averaged(void **state)
{
	struct update_stats one = update(*state, 0, 512, 1, LOSS_DAPO, 0), four = update(*state, 0, 512, 4, LOSS_DAPO, 0);
	assert_true(fabs(one.loss.loss - four.loss.loss) < 1e-6 * fabs(one.loss.loss) + 1e-9);
	assert_true(fabs(one.grad_norm - four.grad_norm) < 1e-6 * one.grad_norm);
	assert_int_equal(one.loss.rows, four.loss.rows);
	assert_true(fabs(one.loss.logprob_diff_sum - four.loss.logprob_diff_sum) < 1e-9);
	assert_int_equal(four.updates, 4);
}

/* Weights that are no numbers have a gradient that is none: such steps are counted and change no
 * weight. They are no error of the update: the loop's guard decides what becomes of the run. */
static void test_a_norm_that_is_no_number(void **state)
{
	struct fixture *f = *state;
	int n;
	struct param *p = adapter_params(f->adapter, &n);
	float keep = host_values(&p[0])[0], other = host_values(&p[1])[0];
	host_values(&p[0])[0] = NAN;
	struct update_stats s = update(f, 1e-3, 512, 2, LOSS_GRPO, 0);
	assert_true(s.updates == 2 && s.not_finite == 2 && isnan(s.grad_norm));
	assert_true(host_values(&p[1])[0] == other);
	host_values(&p[0])[0] = keep;
}

/* Mini-batches: each answer once a pass, in an order that is drawn anew for every batch; a
 * mini-batch in which nothing trains is a step of the schedule alone. */
static void test_mini_batches(void **state)
{
	struct fixture *f = *state;
	struct open x = open_updater(
		f, (struct updater_options){.steps_per_generation = 3, .num_iterations = 2, .seed = 4}, 0, 60);
	float first[2][K];
	/* Two batches: each has six updates and each token once a pass. `first` holds every answer's
	 * first row in the order of the mini-batches. */
	for (int batch = 0; batch < 2; batch++) {
		struct update_stats s = run(f, &x, K);
		size_t n;
		const struct loss_row *rows = updater_rows(x.updater, &n);
		int tokens = 0, at = 0;
		for (int k = 0; k < K; k++) tokens += f->rollouts[k].completion.count;
		assert_int_equal(s.updates, 6);
		assert_int_equal(n, tokens);
		for (size_t i = 0; i < n; i++)
			if (rows[i].at == PROMPT - 1) first[batch][at++] = rows[i].advantage + (float)rows[i].target;
		assert_int_equal(at, K);
	}
	/* The order is another one in the second batch. */
	assert_true(memcmp(first[0], first[1], sizeof first[0]) != 0);
	assert_int_equal(optimizer_steps(x.optimizer), 12);
	/* One answer that trains: two updates, yet the schedule takes its six steps. */
	for (int k = 1; k < K; k++) f->rollouts[k].advantage_plan = f->rollouts[k].advantage_code = 0;
	assert_int_equal(run(f, &x, K).updates, 2); /* one mini-batch of three, twice */
	assert_int_equal(optimizer_steps(x.optimizer), 18);
	f->rollouts[0].advantage_plan = f->rollouts[0].advantage_code = 0;
	assert_int_equal(run(f, &x, K).updates, 0);
	assert_int_equal(optimizer_steps(x.optimizer), 24); /* the schedule is where its steps say */
	close_updater(&x);
}

/* What is measured of sampler and trainer is of the policy that sampled: at a rate at which a first
 * mini-batch moves the weights far, the gap of the second is rounding all the same. */
static void test_gap_is_of_the_sampling_policy(void **state)
{
	struct fixture *f = *state;
	struct open x = open_updater(
		f, (struct updater_options){.steps_per_generation = 3, .num_iterations = 2, .loss = {.beta = 0.1f}}, 0.05, 0);
	struct update_stats s = run(f, &x, K);
	struct open y = open_updater(f, (struct updater_options){.loss = {.beta = 0.1f}}, 0, 0);
	assert_true(s.updates == 6 && s.loss.ratio_max_dev > 0.1);
	assert_true(s.loss.logprob_diff_max < 1e-5 && s.loss.entropy > 0 && s.loss.kl > 0);
	assert_true(run(f, &y, K).loss.logprob_diff_max > 0.1); /* the weights did move */
	close_updater(&x);
	close_updater(&y);
}

/* Adam's first moments behind one update at rate 0: 0.1 times the gradient. */
static float *update_gradient(struct fixture *f, struct updater_options o, struct rollout *r, int n,
	const struct prompt_set *prompts, struct update_stats *stats, int64_t *count)
{
	struct open x = open_updater(f, o, 0, 0);
	struct err err = {0};
	int nparams;
	struct param *p = adapter_params(f->adapter, &nparams);
	if (updater_run(x.updater, r, n, prompts, NULL, false, stats, &err)) fail_msg("%s", err.text);
	*count = 0;
	for (int i = 0; i < nparams; i++) *count += p[i].count;
	float *g = xcalloc((size_t)*count, sizeof *g), *at = g;
	for (int i = 0; i < nparams; at += p[i++].count)
		f->ops->get_f32(f->ops->ctx, at, x.optimizer->moments[i].w.master, p[i].count);
	close_updater(&x);
	return g;
}

/* Answers with everything that can be shared: equal ones, equal beginnings of any length, one that
 * is another's beginning, temperatures that differ where tokens do not, two prompts in turn. */
enum { SHARED = 16 };
static void shared_answers(struct fixture *f, struct rollout *r, struct completion *own)
{
	for (int i = 0; i < SHARED; i++) {
		const struct completion *base = &f->rollouts[i % 3].completion;
		int count = i == 5 ? 4 : base->count, parts = 2 + i % 4 * 3;
		own[i] = (struct completion){.count = count,
			.finish = FINISH_LENGTH,
			.tokens = xcalloc(ANSWER, sizeof(int32_t)),
			.logprobs = xcalloc(ANSWER, sizeof(float)),
			.temperatures = xcalloc(ANSWER, sizeof(float))};
		for (int k = 0; k < count; k++) {
			own[i].tokens[k] = i >= 8 && k >= parts ? (base->tokens[k] + i) % (VOCAB - 1) : base->tokens[k];
			own[i].logprobs[k] = base->logprobs[k];
			own[i].temperatures[k] = i == 7 && k > 2 ? 0.7f : 1;
		}
		r[i] = (struct rollout){.prompt = i % 2, .sample = i, .completion = own[i]};
		r[i].advantage_plan = r[i].advantage_code = 0.3 * (i % 5) + 0.1;
	}
}

/* What is shared passes through the model once, and nothing else changes: the rows and their
 * log-probabilities to the bit, and the gradient but for the order of its sums. It is a sum
 * over fewer than 300 rows: 2^-24 sqrt(300) is 1e-6 of its length, which is the bound. The
 * length is that of a gradient in which nothing cancels: advantages of both signs leave less of
 * it, and the same error. */
static void test_shared_as_apart(void **state)
{
	struct fixture *f = *state;
	struct rollout r[SHARED];
	struct completion own[SHARED];
	/* Two prompts of the same tokens: what is shared must be told by content. */
	struct prompt_row rows[2] = {f->row, f->row};
	rows[1].ids = (struct ids){0};
	for (int i = 0; i < PROMPT; i++) ids_push(&rows[1].ids, f->row.ids.data[i]); /* equal, and another prompt */
	struct prompt_set prompts = {.rows = rows, .count = 2};
	double longest = 0, worst = 0;
	shared_answers(f, r, own);
	/* Each loss, with and without a reference and weights, with and without small batches, and with
	 * advantages that cancel or do not. */
	for (enum loss_type t = LOSS_GRPO; t < LOSS_TYPE_COUNT; t++)
		for (int kind = 0; kind < 8; kind++) {
			bool cancels = kind >= 4;
			for (int i = 0; cancels && i < SHARED; i += 2)
				r[i].advantage_plan = r[i].advantage_code = -r[i].advantage_code;
			struct updater_options o = {.loss = {.type = t, .beta = kind & 1 ? 0.1f : 0},
				.importance = kind & 1 ? IMPORTANCE_TOKEN_TRUNCATE : IMPORTANCE_OFF,
				.importance_cap = 2,
				.max_tokens = kind & 2 ? 40 : 512};
			struct update_stats once, apart;
			int64_t n;
			/* The gradient with shared prompts, and with every answer by itself. */
			float *got = update_gradient(f, o, r, SHARED, &prompts, &once, &n);
			o.apart = true;
			float *want = update_gradient(f, o, r, SHARED, &prompts, &apart, &n);
			double off = 0, size = 0;
			for (int64_t k = 0; k < n; k++) {
				off += pow((double)got[k] - want[k], 2);
				size += pow(want[k], 2);
			}
			/* Bounded by the length of the gradient in which nothing cancels, as the comment above
			 * says. */
			if (!cancels) longest = sqrt(size);
			worst = fmax(worst, sqrt(off) / longest);
			if (!(sqrt(off) <= 1e-6 * longest))
				fail_msg("loss %d, kind %d: gradients differ by %g", (int)t, kind, sqrt(off) / longest);
			for (int i = 0; cancels && i < SHARED; i += 2)
				r[i].advantage_plan = r[i].advantage_code = -r[i].advantage_code;
			/* All that is reported agrees too, and sharing at least halves the tokens. */
			assert_true(size > 0);
			assert_true(fabs(once.loss.loss - apart.loss.loss) <= 1e-12 + 1e-9 * fabs(apart.loss.loss));
			assert_true(once.loss.entropy == apart.loss.entropy && once.loss.kl == apart.loss.kl);
			assert_true(once.loss.logprob_diff_sum == apart.loss.logprob_diff_sum);
			assert_int_equal(once.loss.rows, apart.loss.rows);
			assert_int_equal(once.tokens_apart, apart.tokens);
			assert_true(2 * once.tokens < apart.tokens || kind & 2);
			free(got), free(want);
		}
	print_message("# shared against apart: gradients differ by at most %.2g of their length\n", worst);
	for (int i = 0; i < SHARED; i++) completion_release(&own[i]);
	ids_release(&rows[1].ids);
}

/* Equal answers train as one with the sum of their advantages: a pair that
 * cancels leaves nothing. */
static void test_equal_answers_add_up(void **state)
{
	struct fixture *f = *state;
	struct rollout r[2] = {f->rollouts[0], f->rollouts[0]};
	struct update_stats stats;
	int64_t n;
	double sum = 0;
	for (int opposite = 0; opposite < 2; opposite++) {
		for (int i = 0; i < 2; i++) r[i].advantage_plan = r[i].advantage_code = opposite && i ? -1 : 1;
		float *g = update_gradient(f, (struct updater_options){0}, r, 2, &f->prompts, &stats, &n);
		for (int64_t k = 0; opposite && k < n; k++) assert_true(g[k] == 0);
		for (int64_t k = 0; !opposite && k < n; k++) sum += fabs((double)g[k]);
		assert_int_equal(stats.tokens, PROMPT + r[0].completion.count);
		assert_int_equal(stats.tokens_apart, 2 * stats.tokens);
		free(g);
	}
	assert_true(sum > 0);
}

/* Which tokens the two advantages go to, with a real tokeniser: the plan's before the fence. */
static void test_plan_and_code_tokens(void **state)
{
	struct fixture *f = *state;
	const char text[] = "Use tiles.\n```python\nx = 1\n```\n";
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref"), *path = path_join(dir, "rl-answer.json");
	static const char *const special[] = {"<|im_end|>"};
	struct slice training = {text, sizeof text - 1};
	struct bpe_train_options o = {.vocab_size = 258, .special_tokens = special, .nspecial = 1};
	struct err err = {0};
	struct tokenizer *t;
	struct ids ids = {0};
	if (dir_make(dir, &err) || tokenizer_train(&training, 1, &o, path, &err) || tokenizer_open(path, &t, &err) ||
		tokenizer_encode(t, text, sizeof text - 1, true, &ids, &err))
		fail_msg("%s", err.text);
	/* The tiny model has fewer tokens than bytes: rate and gradient do not matter here, rows do. */
	struct model_config wide = config;
	wide.vocab_size = 300;
	wide.eos_token_id = 299;
	struct model *m;
	struct adapter *a;
	struct adapter_options ao = {.r = 2, .lora_alpha = 2, .seed = 1};
	if (model_create(&wide, 5, f->ops, &m, &err) || adapter_create(m, &ao, &a, &err)) fail_msg("%s", err.text);
	model_enable_grad(m, a);
	struct fixture g = {.ops = f->ops, .model = m, .adapter = a};
	float *logprobs = xcalloc(ids.count, sizeof *logprobs);
	struct rollout r = {.completion = {.tokens = ids.data, .logprobs = logprobs, .count = (int)ids.count},
		.answer = answer_parse(text, sizeof text - 1),
		.advantage_plan = 0.25,
		.advantage_code = -2};
	struct open x = open_updater(&g, (struct updater_options){0}, 0, 0);
	struct update_stats stats;
	size_t n, plan = 0;
	if (updater_run(x.updater, &r, 1, &f->prompts, t, true, &stats, &err)) fail_msg("%s", err.text);
	const struct loss_row *rows = updater_rows(x.updater, &n);
	assert_int_equal(n, ids.count);
	for (size_t i = 0, at = 0; i < n; i++) {
		struct str one = {0};
		bool is_plan = at < strlen("Use tiles.\n");
		if (rows[i].advantage != (is_plan ? 0.25f : -2))
			fail_msg("token %zu at byte %zu has advantage %g", i, at, rows[i].advantage);
		plan += is_plan;
		tokenizer_decode(t, &ids.data[i], 1, true, &one);
		at += one.len;
		str_release(&one);
	}
	assert_true(plan > 0 && plan < n);
	close_updater(&x);
	adapter_free(a);
	model_free(m);
	tokenizer_free(t);
	ids_release(&ids);
	free(logprobs);
	free(path);
	free(dir);
}

/* The sampler claims probabilities that are lower by exp(0.5) a token: weights are that much, or
 * the cap, or nothing beyond it; of a whole sequence the product. */
static void test_importance_weights(void **state)
{
	struct fixture *f = *state;
	struct rollout *r = &f->rollouts[0];
	for (int k = 1; k < K; k++) f->rollouts[k].is_dropped = true;
	for (int i = 0; i < r->completion.count; i++) r->completion.logprobs[i] -= 0.5f;
	double token = exp(0.5), sequence = exp(0.5 * r->completion.count);
	const struct {
		enum importance_mode mode;
		double cap, want;
	} cases[] = {{IMPORTANCE_OFF, 3, 1}, {IMPORTANCE_TOKEN_TRUNCATE, 3, token}, {IMPORTANCE_TOKEN_TRUNCATE, 1.5, 1.5},
		{IMPORTANCE_TOKEN_MASK, 3, token}, {IMPORTANCE_TOKEN_MASK, 1.5, 0},
		{IMPORTANCE_SEQUENCE_TRUNCATE, 1e9, sequence}, {IMPORTANCE_SEQUENCE_MASK, 1.1, 0}};
	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct open x = open_updater(
			f, (struct updater_options){.importance = cases[c].mode, .importance_cap = cases[c].cap}, 0, 0);
		size_t n;
		run(f, &x, K);
		const struct loss_row *rows = updater_rows(x.updater, &n);
		for (size_t i = 0; i < n; i++)
			if (fabs(rows[i].weight - cases[c].want) > 1e-4 * cases[c].want)
				fail_msg("case %zu row %zu: weight %g, expected %g", c, i, rows[i].weight, cases[c].want);
		close_updater(&x);
	}
}

/* gspo with weights of tokens. An answer's loss is mean_t(w_t) (-s A) with s =
 * exp(mean(lp - old)), so its slope by each token's log-probability is mean_t(w_t) (-s A)
 * / L: every row has the mean. */
static void test_gspo_has_the_mean_weight(void **state)
{
	struct fixture *f = *state;
	struct rollout *r = &f->rollouts[0];
	for (int k = 1; k < K; k++) f->rollouts[k].is_dropped = true;
	/* The sampler claims less at every third token; of the cap of 1.5 the
	 * mask leaves the others. */
	for (int i = 0; i < r->completion.count; i += 3) r->completion.logprobs[i] -= 0.5f;
	int n = r->completion.count, raised = (n + 2) / 3;
	const struct {
		enum importance_mode mode;
		double cap, raised;
	} cases[] = {{IMPORTANCE_TOKEN_TRUNCATE, 3, exp(0.5)}, {IMPORTANCE_TOKEN_TRUNCATE, 1.5, 1.5},
		{IMPORTANCE_TOKEN_MASK, 1.5, 0}};
	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct open x = open_updater(f,
			(struct updater_options){
				.loss.type = LOSS_GSPO, .importance = cases[c].mode, .importance_cap = cases[c].cap},
			0, 0);
		double want = (raised * cases[c].raised + n - raised) / n;
		size_t rows_count;
		run(f, &x, K);
		const struct loss_row *rows = updater_rows(x.updater, &rows_count);
		assert_int_equal(rows_count, n);
		for (size_t i = 0; i < rows_count; i++)
			if (fabs(rows[i].weight - want) > 1e-4 * want)
				fail_msg("case %zu row %zu: weight %g, expected %g", c, i, rows[i].weight, want);
		close_updater(&x);
	}
}

/* After updates of one size a batch that is a thousand times as large is held to max_grad_ratio:
 * the next update's weights move as far as with a norm of the limit. */
static void test_grad_ratio(void **state)
{
	struct fixture *f = *state;
	struct open x = open_updater(f, (struct updater_options){.max_grad_ratio = 5}, 0, 0);
	double usual = 0;
	for (int i = 0; i < 10; i++) {
		struct update_stats s = run(f, &x, K);
		assert_int_equal(s.spikes, 0);
		usual = s.grad_norm;
	}
	for (int k = 0; k < K; k++) f->rollouts[k].advantage_plan = f->rollouts[k].advantage_code *= 1000;
	struct update_stats s = run(f, &x, K);
	assert_int_equal(s.spikes, 1);
	assert_true(s.grad_norm > 500 * usual);
	json_t *state_json = updater_state(x.updater);
	/* The spike enters the mean as the limit, 5 times the mean: (10 + 5) / 11. */
	double mean = json_number_value(json_object_get(state_json, "norm_mean"));
	assert_true(fabs(mean - usual * 15 / 11) < 1e-3 * usual);
	struct open y = open_updater(f, (struct updater_options){.max_grad_ratio = 5}, 0, 0);
	updater_state_set(y.updater, state_json);
	assert_int_equal(run(f, &y, K).spikes, 1); /* a continued run knows the mean */
	json_decref(state_json);
	close_updater(&x);
	close_updater(&y);
}

/* Answers that were cut do not train, and their tokens do not count; the sequences do. */
static void test_overlong_filtering(void **state)
{
	struct fixture *f = *state;
	for (int k = 0; k < K; k++) f->rollouts[k].completion.finish = k == 0 ? FINISH_LENGTH : FINISH_EOS;
	struct open x = open_updater(
		f, (struct updater_options){.mask_truncated_completions = true, .loss = {.type = LOSS_DAPO}}, 0, 0);
	struct update_stats s = run(f, &x, K);
	size_t n;
	int tokens = 0;
	for (int k = 1; k < K; k++) tokens += f->rollouts[k].completion.count;
	const struct loss_row *rows = updater_rows(x.updater, &n);
	assert_int_equal(s.counted, K);
	assert_int_equal(s.sequences, K - 1);
	assert_int_equal(n, tokens);
	assert_true(fabs(rows[0].normaliser - 1.0 / tokens) < 1e-9);
	close_updater(&x);
}

/* A supervised update: the loss is the mean log-loss of the completion's tokens, and falls. */
static void test_fit(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	const struct completion *c = &f->rollouts[2].completion;
	int32_t ids[PROMPT + ANSWER];
	memcpy(ids, f->row.ids.data, PROMPT * sizeof *ids);
	memcpy(ids + PROMPT, c->tokens, (size_t)c->count * sizeof *ids);
	const struct sft_example e = {ids, PROMPT + c->count, PROMPT}, *const list[2] = {&e, &e};
	/* Before the step the loss is what the sampler recorded of these tokens. */
	double want = 0;
	for (int i = 0; i < c->count; i++) want -= c->logprobs[i] / c->count;
	struct open x = open_updater(f, (struct updater_options){0}, 1e-2, 0);
	struct update_stats first = {0}, second = {0};
	if (updater_fit(x.updater, list, 2, 1, 1, &first, &err)) fail_msg("%s", err.text);
	assert_true(fabs(first.fit_loss - want) < 1e-4 * want);
	assert_true(first.fit_norm > 0 && isfinite(first.fit_norm));
	assert_true(first.fit_examples == 2 && first.fit_updates == 1);
	/* Behind it the loss is lower. A look at rate 0 moves no weight, so that the next one sees the
	 * same. */
	updater_fit(x.updater, list, 1, 0, 1, &second, &err); /* rate 0: looks only */
	assert_true(second.fit_loss < first.fit_loss - 0.01);
	struct update_stats third = {0};
	updater_fit(x.updater, list, 1, 1, 1, &third, &err);
	assert_true(fabs(third.fit_loss - second.fit_loss) < 1e-6);
	/* Without examples the schedule goes on all the same. */
	int64_t steps = optimizer_steps(x.optimizer);
	updater_fit(x.updater, list, 0, 1, 1, &third, &err);
	assert_int_equal(optimizer_steps(x.optimizer), steps + 1);
	close_updater(&x);
}

/* An example that was drawn several times passes through the model once, and teaches as often: two
 * copies of it, which are two examples, give the same loss and the same gradient. */
static void test_fit_again(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	int32_t ids[3][PROMPT + ANSWER];
	struct sft_example e[3];
	for (int i = 0; i < 3; i++) {
		const struct completion *c = &f->rollouts[i == 1 ? 1 : 2].completion;
		memcpy(ids[i], f->row.ids.data, PROMPT * sizeof **ids);
		memcpy(ids[i] + PROMPT, c->tokens, (size_t)c->count * sizeof **ids);
		e[i] = (struct sft_example){ids[i], PROMPT + c->count, PROMPT};
	}
	/* e[2] is e[0] again; the other one stands between them. */
	const struct sft_example *const again[] = {&e[0], &e[1], &e[0]}, *const copies[] = {&e[0], &e[1], &e[2]};
	const struct sft_example *const *lists[] = {again, copies, again};
	struct update_stats s[3] = {0};
	for (int i = 0; i < 3; i++) {
		struct open x = open_updater(f, (struct updater_options){.apart = i == 2}, 0, 0);
		if (updater_fit(x.updater, lists[i], 3, 1, 1, &s[i], &err)) fail_msg("%s", err.text);
		close_updater(&x);
	}
	assert_int_equal(s[0].fit_tokens, e[0].count + e[1].count);
	assert_int_equal(s[1].fit_tokens, 2 * e[0].count + e[1].count);
	assert_int_equal(s[2].fit_tokens, s[1].fit_tokens);
	for (int i = 1; i < 3; i++) {
		assert_true(fabs(s[i].fit_loss - s[0].fit_loss) < 1e-6 * s[0].fit_loss);
		assert_true(fabs(s[i].fit_norm - s[0].fit_norm) < 1e-5 * s[0].fit_norm);
	}
}

/* With one update a generation nothing is cut, so nothing is shuffled: the seed of the
 * order changes no bit. */
static void test_one_update_keeps_the_order(void **state)
{
	char seen[2][65];
	for (int round = 0; round < 2; round++) {
		void *inner = NULL;
		setup(&inner);
		struct fixture *f = inner;
		asked = (struct updater_options){.seed = 100 + (uint64_t)round, .steps_per_generation = 1};
		update(f, 1e-2, 1000, 1, LOSS_DAPO, 0);
		snprintf(seen[round], sizeof seen[round], "%s", weights_fingerprint(f->model, f->adapter).text);
		asked = (struct updater_options){0};
		teardown(&inner);
	}
	assert_string_equal(seen[0], seen[1]);
}

static void test_dropped_and_zero_do_not_train(void **state)
{
	struct fixture *f = *state;
	f->rollouts[0].is_dropped = true;
	f->rollouts[1].advantage_plan = f->rollouts[1].advantage_code = 0;
	assert_int_equal(update(f, 0, 64, 1, LOSS_GRPO, 0).sequences, K - 2);
	for (int k = 0; k < K; k++) f->rollouts[k].is_dropped = true;
	struct update_stats s = update(f, 1, 64, 1, LOSS_GRPO, 0);
	assert_int_equal(s.sequences, 0);
	assert_true(s.grad_norm == 0 && s.tokens == 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	/* A test has a model and answers of its own: what it does to them is gone in the next. */
	const struct CMUnitTest tests[] = {
		T(test_packing_does_not_matter),
		T(test_ratio_is_exactly_one),
		T(test_second_iteration_moves),
		T(test_clips_by_side),
		T(test_sampler_gap),
		T(test_kl_needs_a_reference),
		T(test_direction),
		cmocka_unit_test(test_one_update_keeps_the_order),
		T(test_dropped_and_zero_do_not_train),
		T(test_normalisers_count_all),
		T(test_passes_are_averaged),
		T(test_a_norm_that_is_no_number),
		T(test_mini_batches),
		T(test_gap_is_of_the_sampling_policy),
		T(test_shared_as_apart),
		T(test_equal_answers_add_up),
		T(test_plan_and_code_tokens),
		T(test_importance_weights),
		T(test_gspo_has_the_mean_weight),
		T(test_grad_ratio),
		T(test_overlong_filtering),
		T(test_fit),
		T(test_fit_again),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
