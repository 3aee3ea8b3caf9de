/* Losses, advantages, schedules and ten AdamW steps of the whole model against torch, transformers
 * and peft (fixtures: tests/ref/model_oracle.py). */
#include <stdarg.h>
#include <stddef.h>
#include "../model/model_ref.h"
#include "../leaks.h"
#include "train/train.h"

static double number(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static struct optimizer_options adamw_options(const struct ref *r, const char *schedule)
{
	const json_t *o = json_object_get(r->meta, "adamw");
	return (struct optimizer_options){number(o, "learning_rate"), number(o, "adam_beta1"), number(o, "adam_beta2"),
		number(o, "adam_epsilon"), number(o, "weight_decay"), number(o, "max_grad_norm"), schedule,
		(int64_t)number(o, "warmup_steps"), (int64_t)number(o, "max_steps")};
}

/* Ten steps: losses, norms, rates, and every weight after them. Loss tolerance: the forward's.
 * Weights: an update is lr m / (sqrt(v) + eps), whose slope in the gradient is at most lr / eps
 * (torch's eps here is 1e-3 to keep it small); a gradient error of tol max|g| <= tol max_grad_norm
 * therefore moves a weight by at most steps lr tol max_grad_norm / eps, plus one rounding of the
 * weight per step. */
static void steps_case(const char *name)
{
	struct ops *ops = ref_ops(false);
	struct ref r;
	ref_open(&r, name);
	struct model *m = ref_model(&r, ops, "hf");
	struct pass *p = ref_pass(m, r.T, 0, true);
	struct optimizer_options oo = adamw_options(&r, "linear");
	int n;
	model_enable_grad(m, NULL);
	struct param *params = model_params(m, &n);
	struct optimizer *o = optimizer_create(ops, params, n, &oo);
	const json_t *losses = json_object_get(r.meta, "step_losses"), *norms = json_object_get(r.meta, "step_norms"),
				 *lrs = json_object_get(r.meta, "step_lrs");
	double tolerance = ref_tolerance(model_config(m), r.T, true);
	size_t steps = json_array_size(losses);
	assert_int_equal(steps, 10);
	/* One step as training does it, against torch's loss, norm and rate. */
	for (size_t i = 0; i < steps; i++) {
		struct ref_loss loss = {.r = &r};
		double lr = optimizer_lr(o, optimizer_steps(o));
		pass_forward(p, NULL, &r.batch, 0);
		pass_backward(p, r.rows, r.n, r.temperature, ref_loss_fn, &loss);
		double norm = optimizer_step(o), want_loss = json_number_value(json_array_get(losses, i)),
			   want_norm = json_number_value(json_array_get(norms, i)),
			   want_lr = json_number_value(json_array_get(lrs, i));
		if (fabs(loss.loss - want_loss) > tolerance * want_loss)
			fail_msg("%s step %zu: loss %.9g, expected %.9g", name, i, loss.loss, want_loss);
		if (fabs(norm - want_norm) > tolerance * want_norm)
			fail_msg("%s step %zu: norm %.9g, expected %.9g", name, i, norm, want_norm);
		assert_true(fabs(lr - want_lr) <= 1e-15);
	}
	/* The weights after the last step, within the bound of the comment above. */
	double moved = (double)steps * oo.learning_rate * tolerance * oo.max_grad_norm / oo.adam_epsilon;
	for (int i = 0; i < n; i++) {
		char key[256];
		double largest = 0;
		for (int64_t k = 0; k < params[i].count; k++) largest = fmax(largest, fabs(host_values(&params[i])[k]));
		snprintf(key, sizeof key, "final.%s", params[i].name);
		assert_true(ref_equal(
			&r, key, host_values(&params[i]), params[i].count, moved / largest + (double)steps * ldexp(1, -24)));
	}
	optimizer_free(o);
	pass_free(p);
	model_free(m);
	ref_close(&r);
	ops_free(ops);
}
static void test_adamw_steps(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(ref_cases); i++) steps_case(ref_cases[i]);
}

/* By the clock: with steps of equal length the rate falls as if their number had been known. */
static void test_paced_schedule(void **state)
{
	struct ops *ops = ref_ops(false);
	struct optimizer *o = optimizer_create(
		ops, NULL, 0, &(struct optimizer_options){.learning_rate = 1, .lr_scheduler_type = "linear"});
	for (int k = 0; k < 10; k++) {
		optimizer_pace(o, k / 10.0);
		assert_true(fabs(optimizer_lr(o, k) - (1 - k / 10.0)) < 1e-12);
		optimizer_step(o);
	}
	optimizer_pace(o, 1.5);
	assert_true(optimizer_lr(o, 10) == 0);
	/* An end that lies far away leaves the rate at its top, however far it is. */
	for (double spent = 1e-6; spent > 0; spent *= 1e-3) {
		optimizer_pace(o, spent);
		assert_true(optimizer_lr(o, 10) > 0.999 && optimizer_lr(o, 10) <= 1);
	}
	optimizer_free(o);
	ops_free(ops);
}

static void test_schedules(void **state)
{
	struct ref r;
	ref_open(&r, "tied");
	const json_t *all = json_object_get(r.meta, "schedules"), *list;
	const char *name;
	struct ops *ops = ref_ops(false);
	json_object_foreach((json_t *)(uintptr_t)all, name, list)
	{
		struct optimizer *o = optimizer_create(ops, NULL, 0,
			&(struct optimizer_options){
				.learning_rate = 1, .lr_scheduler_type = name, .warmup_steps = 4, .max_steps = 17});
		for (size_t k = 0; k < json_array_size(list); k++) {
			/* past the end cosines rise again in transformers; here they stay at 0 */
			double want = k <= 17 || strcmp(name, "cosine") ? json_number_value(json_array_get(list, k)) : 0;
			if (fabs(optimizer_lr(o, (int64_t)k) - want) > 1e-12)
				fail_msg("%s step %zu: %.12g, expected %.12g", name, k, optimizer_lr(o, (int64_t)k), want);
		}
		optimizer_free(o);
	}
	assert_int_equal(json_object_size(all), 4);
	ops_free(ops);
	ref_close(&r);
}

/* At the ends, where one step more or less is all: no warmup, one of a step, a schedule that is
 * nothing but warmup, and what lies behind the last step. */
static void test_ends_of_schedules(void **state)
{
	static const struct {
		const char *name;
		int64_t warmup, total, step;
		double rate;
	} rows[] = {{"linear", 0, 1, 0, 1}, {"linear", 0, 1, 1, 0}, {"linear", 1, 2, 0, 0}, {"linear", 1, 2, 1, 1},
		{"linear", 1, 2, 2, 0}, {"linear", 4, 4, 3, 0.75}, {"linear", 4, 4, 4, 0}, {"linear", 0, 4, 9, 0},
		{"cosine", 0, 1, 0, 1}, {"cosine", 0, 1, 1, 0}, {"cosine", 1, 2, 1, 1}, {"cosine", 4, 4, 2, 0.5},
		{"cosine", 4, 4, 4, 1}, {"cosine", 0, 2, 1, 0.5}, {"cosine", 0, 2, 9, 0}, {"constant", 4, 4, 0, 1},
		{"constant_with_warmup", 1, 4, 0, 0}, {"constant_with_warmup", 1, 4, 1, 1},
		{"constant_with_warmup", 0, 4, 0, 1}};
	struct ops *ops = ref_ops(false);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct optimizer *o = optimizer_create(ops, NULL, 0,
			&(struct optimizer_options){.learning_rate = 2,
				.lr_scheduler_type = rows[i].name,
				.warmup_steps = rows[i].warmup,
				.max_steps = rows[i].total});
		double found = optimizer_lr(o, rows[i].step);
		if (fabs(found - 2 * rows[i].rate) > 1e-12) fail_msg("row %zu (%s): %.12g", i, rows[i].name, found);
		optimizer_free(o);
	}
	ops_free(ops);
}

/* ---- reinforcement learning losses ---- */

struct rl {
	struct loss_options o;
	struct loss_row *rows;
	double loss;
	float *g;
};

static void rl_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct rl *l = ctx;
	for (int i = 0; i < n; i++) {
		l->loss += loss_row_value(&l->o, &l->rows[begin + i], logprob[i], &g[i]);
		l->g[begin + i] = g[i];
	}
}

static double logprob_of(const struct ref *r, const char *key, int i)
{
	float *v = xcalloc((size_t)r->n, sizeof *v);
	tensor_to_f32(safetensors_find(r->expected, key), v);
	double x = v[i];
	free(v);
	return x;
}

static void rl_rows(const struct ref *r, struct rl *l, bool is_weighted)
{
	const char *const keys[] = {"rl.old", "rl.ref", "rl.adv", "rl.weight"};
	float *v[4];
	int n, lengths[16] = {0}, S = 0, index[16];
	double sums[16] = {0};
	int32_t *seq = ref_ints(json_object_get(r->meta, "rl_seq"), &n);
	assert_int_equal(n, r->n);
	/* What the reference drew for each row: old and reference
	 * log-probabilities, advantage, weight. */
	for (int k = 0; k < 4; k++) {
		v[k] = xcalloc((size_t)n, sizeof(float));
		tensor_to_f32(safetensors_find(r->expected, keys[k]), v[k]);
	}
	for (int i = 0; i < n; i++) { /* rows come sequence by sequence; those without rows do not exist */
		if (i == 0 || seq[i] != seq[i - 1]) index[S++] = seq[i];
		lengths[S - 1]++;
		sums[S - 1] += logprob_of(r, "lora.logprob", i) - v[0][i];
	}
	float per_sequence[16];
	/* Rows with the normaliser and the ratio of their sequence. */
	loss_normalisers(l->o.type, lengths, S, (int)number(r->meta, "rl_max_completion"), per_sequence);
	for (int i = 0; i < n; i++) {
		int s = 0;
		while (index[s] != seq[i]) s++;
		l->rows[i] = (struct loss_row){.at = r->rows[i].at,
			.target = r->rows[i].target,
			.old_logprob = v[0][i],
			.ref_logprob = v[1][i],
			.advantage = v[2][i],
			.normaliser = per_sequence[s],
			.weight = is_weighted ? v[3][i] : 1,
			.sequence_ratio = (float)exp(sums[s] / lengths[s])};
	}
	for (int k = 0; k < 4; k++) free(v[k]);
	free(seq);
}

static void rl_case(
	struct ref *r, struct model *m, struct adapter *a, struct pass *p, const char *kind, const json_t *o)
{
	struct rl l = {.rows = xcalloc((size_t)r->n, sizeof *l.rows), .g = xcalloc((size_t)r->n, sizeof *l.g)};
	/* The options with which the fixture was computed. */
	assert_int_equal(loss_type_from_name(json_string_value(json_object_get(o, "loss_type")), &l.o.type, NULL), 0);
	l.o.epsilon = (float)number(o, "epsilon");
	l.o.epsilon_high = (float)number(o, "epsilon_high");
	l.o.beta = (float)number(o, "beta");
	l.o.delta = (float)number(o, "delta");
	double tolerance = ref_tolerance(model_config(m), r->T, true),
		   want = number(json_object_get(r->meta, "rl_loss"), kind);
	char key[256];
	int n, held = 0;
	struct param *params = adapter_params(a, &n);
	rl_rows(r, &l, json_is_true(json_object_get(o, "weighted")));
	/* Loss, the gradient in the log-probabilities, and that of the adapter. */
	params_zero_grad(model_ops(m), params, n);
	pass_forward(p, a, &r->batch, 0);
	pass_backward(p, r->rows, r->n, r->temperature, rl_loss, &l);
	if (fabs(l.loss - want) > tolerance * fmax(1, fabs(want)))
		fail_msg("%s: loss %.9g, expected %.9g", kind, l.loss, want);
	snprintf(key, sizeof key, "rl.dlp.%s", kind);
	assert_true(ref_equal(r, key, l.g, r->n, tolerance));
	snprintf(key, sizeof key, "rl.grad.%s.", kind);
	assert_int_equal(ref_grads_differ(r, params, n, key, tolerance), 0);
	/* Both sides of the clip must occur in the rows for the comparison to say anything. */
	struct loss_options no_kl = l.o;
	no_kl.beta = 0;
	for (int i = 0; i < r->n; i++) { /* the fixture reaches both branches: without KL a row held back has no slope */
		float g, lp = (float)logprob_of(r, "lora.logprob", i);
		loss_row_value(&no_kl, &l.rows[i], lp, &g);
		held += l.o.type == LOSS_CISPO ? lp - l.rows[i].old_logprob > logf(l.o.epsilon_high) : g == 0;
		if (l.o.delta == 0 && l.o.type != LOSS_CISPO)
			assert_int_equal(loss_row_clip(&no_kl, &l.rows[i], lp) != 0, g == 0);
	}
	if (!(held > 0 && held < r->n)) fail_msg("%s: %d of %d rows are held back", kind, held, r->n);
	free(l.rows);
	free(l.g);
}

static void test_rl_losses(void **state)
{
	for (size_t c = 0; c < 2; c++) {
		struct ops *ops = ref_ops(false);
		struct ref r;
		const char *kind;
		json_t *o;
		ref_open(&r, ref_cases[c]);
		struct model *m = ref_model(&r, ops, "hf");
		struct adapter *a = ref_adapter(&r, m);
		struct pass *p = ref_pass(m, r.T, 0, true);
		model_enable_grad(m, a);
		json_object_foreach(json_object_get(r.meta, "rl"), kind, o) rl_case(&r, m, a, p, kind, o);
		assert_int_equal(json_object_size(json_object_get(r.meta, "rl")), 7);
		pass_free(p);
		adapter_free(a);
		model_free(m);
		ref_close(&r);
		ops_free(ops);
	}
}

/* Value and slope of single rows: both sides of both clips for both signs, against differences.
 * (f(x+h) - f(x-h)) / 2h in fp32 has error eps |f| / h + h^2: h = 1e-2 gives about 1e-4. */
static void test_loss_row_slope(void **state)
{
	const float A[] = {-2, -0.5f, 0, 0.5f, 2}, shift[] = {-0.7f, -0.1f, 0, 0.1f, 0.7f};
	for (enum loss_type t = 0; t < LOSS_TYPE_COUNT; t++) {
		/* gspo's ratio and cispo's factor are constants of the row: there is no difference
		 * to take of them alone */
		if (t == LOSS_GSPO || t == LOSS_CISPO) continue;
		for (size_t i = 0; i < ARRAY_LEN(A); i++)
			for (size_t k = 0; k < ARRAY_LEN(shift); k++) {
				struct loss_options o = {t, 0.2f, 0.28f, 0.3f, 1.6f};
				struct loss_row r = {0, 0, -1.5f, -1.2f, A[i], 0.25f, 0.7f, 1};
				float g, unused, lp = -1.5f + shift[k], h = 1e-2f;
				loss_row_value(&o, &r, lp, &g);
				double slope = ((double)loss_row_value(&o, &r, lp + h, &unused) -
								   loss_row_value(&o, &r, lp - h, &unused)) /
					(2 * (double)h);
				if (fabs(slope - g) > 2e-4)
					fail_msg("loss %d A %g shift %g: slope %g, differences %g", (int)t, A[i], shift[k], g, slope);
			}
	}
}

/* Which clip holds back, by hand: the upper one gains (A > 0, ratio above), the lower one losses
 * (A < 0, ratio below); nothing else. */
static void test_loss_row_clip(void **state)
{
	const struct loss_options o = {LOSS_DAPO, 0.2f, 0.28f, 0, 0};
	const struct {
		float A, rho;
		int clip;
	} cases[] = {{1, 1.3f, 1}, {1, 1.2f, 0}, {1, 0.5f, 0}, {-1, 0.7f, -1}, {-1, 0.9f, 0}, {-1, 1.9f, 0}, {0, 3, 0}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct loss_row r = {.old_logprob = -1, .advantage = cases[i].A, .weight = 1};
		assert_int_equal(loss_row_clip(&o, &r, -1 + logf(cases[i].rho)), cases[i].clip);
	}
	/* delta bounds the ratio of a gain from above, also below 1: the value is that of
	 * the bound, its slope 0. */
	const struct loss_options bounded = {.type = LOSS_DAPO, .epsilon = 0.2f, .epsilon_high = 0.28f, .delta = 0.9f};
	struct loss_row gain = {.old_logprob = -1, .advantage = 2, .weight = 1, .normaliser = 1};
	float slope = 7, value = loss_row_value(&bounded, &gain, -1 + logf(0.95f), &slope);
	assert_true(fabsf(value + 2 * 0.9f) < 1e-6f && slope == 0);
	value = loss_row_value(&bounded, &gain, -1 + logf(0.85f), &slope);
	assert_true(fabsf(value + 2 * 0.85f) < 1e-6f && fabsf(slope + 2 * 0.85f) < 1e-6f);
	/* What has no clip is never held back; gspo looks at the sequence's ratio. */
	const struct loss_options sft = {LOSS_SFT, 0.2f, 0.28f, 0, 0}, cispo = {LOSS_CISPO, 0.2f, 0.28f, 0, 0},
							  gspo = {LOSS_GSPO, 0.2f, 0.28f, 0, 0};
	struct loss_row r = {.old_logprob = -1, .advantage = 1, .weight = 1, .sequence_ratio = 1};
	assert_int_equal(loss_row_clip(&sft, &r, 1), 0);
	assert_int_equal(loss_row_clip(&cispo, &r, 1), 0);
	assert_int_equal(loss_row_clip(&gspo, &r, 1), 0);
	r.sequence_ratio = 2;
	assert_int_equal(loss_row_clip(&gspo, &r, -1), 1);
}

/* Normalisers by hand, with a sequence whose tokens do not count (length 0): it is still one of the
 * sequences. */
static void test_normalisers(void **state)
{
	const int lengths[4] = {2, 0, 6, 4};
	const double want[LOSS_TYPE_COUNT][4] = {
		[LOSS_SFT] = {1. / 12, 0, 1. / 12, 1. / 12},
		[LOSS_GRPO] = {1. / 8, 0, 1. / 24, 1. / 16},
		[LOSS_DR_GRPO] = {1. / 40, 0, 1. / 40, 1. / 40},
		[LOSS_DAPO] = {1. / 12, 0, 1. / 12, 1. / 12},
		[LOSS_BNPO] = {1. / 12, 0, 1. / 12, 1. / 12},
		[LOSS_GSPO] = {1. / 8, 0, 1. / 24, 1. / 16},
		[LOSS_CISPO] = {1. / 12, 0, 1. / 12, 1. / 12},
	};
	for (enum loss_type t = 0; t < LOSS_TYPE_COUNT; t++) {
		float n[4];
		loss_normalisers(t, lengths, 4, 10, n);
		for (int i = 0; i < 4; i++) assert_true(fabs(n[i] - want[t][i]) < 1e-8);
	}
}

static void name_losses(void *ctx)
{
	struct err err = {0};
	enum loss_type t;
	loss_type_from_name("cispo", &t, &err);
	loss_type_from_name("ppo", &t, &err);
}

static void test_loss_names(void **state)
{
	struct err err = {0};
	enum loss_type t;
	static const char *const names[LOSS_TYPE_COUNT] = {"sft", "grpo", "dr_grpo", "dapo", "bnpo", "gspo", "cispo"};
	for (enum loss_type i = 0; i < LOSS_TYPE_COUNT; i++) {
		assert_int_equal(loss_type_from_name(names[i], &t, &err), 0);
		assert_int_equal(t, i);
	}
	assert_int_equal(loss_type_from_name("ppo", &t, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "ppo"));
	leaves_nothing(name_losses, NULL);
}

/* ---- advantages, by hand ---- */

static void test_advantages(void **state)
{
	double a[4];
	const double r[4] = {1, 0, 0, 3}; /* mean 1, deviations 0 -1 -1 2, s = sqrt(6 / 3) */
	/* One group by each formula, worked out by hand. */
	assert_true(group_advantages(ADVANTAGE_MEAN, r, 4, a));
	assert_true(a[0] == 0 && a[1] == -1 && a[2] == -1 && a[3] == 2);
	assert_true(group_advantages(ADVANTAGE_LEAVE_ONE_OUT, r, 4, a));
	for (int i = 0; i < 4; i++) assert_true(fabs(a[i] - (r[i] - (4 - r[i]) / 3)) < 1e-15);
	assert_true(group_advantages(ADVANTAGE_MEAN_STD, r, 4, a));
	assert_true(fabs(a[3] - 2 / (sqrt(2) + 1e-4)) < 1e-15);
	assert_true(fabs(a[3] * sqrt(2) - 2) < 1e-3); /* n - 1, not n: that would be 2 / sqrt(1.5) */
	assert_true(group_advantages(ADVANTAGE_BATCH, r, 4, a) && a[3] == 2);
	const double batch[6] = {1, 0, NAN, 0, 3, 1}; /* mean 1, squares 0 1 1 4 0, s = sqrt(6 / 4) */
	assert_true(fabs(advantages_batch_scale(batch, 6) - 1 / (sqrt(1.5) + 1e-4)) < 1e-12);
	const double success[4] = {0, 0, 1, 0}; /* mean 1/4: a lone success weighs 3, each failure 1 */
	assert_true(group_advantages(ADVANTAGE_MAXRL, success, 4, a));
	assert_true(fabs(a[2] - 3) < 1e-12 && fabs(a[0] + 1) < 1e-12);
	/* What was dropped counts in no mean, and has advantage zero. */
	const double dropped[4] = {1, NAN, 0, NAN};
	assert_true(group_advantages(ADVANTAGE_LEAVE_ONE_OUT, dropped, 4, a));
	assert_true(a[0] == 1 && a[1] == 0 && a[2] == -1 && a[3] == 0);
	/* A group that teaches nothing says so, and its advantages are zero. */
	const double equal[4] = {0.1, 0.1, NAN, 0.1}, lone[2] = {5, NAN};
	for (enum advantage_type t = 0; t < ADVANTAGE_RAW; t++) {
		assert_false(group_advantages(t, equal, 4, a));
		assert_true(a[0] == 0 && a[1] == 0 && a[2] == 0 && a[3] == 0);
		assert_false(group_advantages(t, lone, 2, a));
	}
	/* Raw rewards need no group. */
	assert_true(group_advantages(ADVANTAGE_RAW, lone, 2, a));
	assert_true(a[0] == 5 && a[1] == 0);
	const double zeros[2] = {0, NAN};
	assert_false(group_advantages(ADVANTAGE_RAW, zeros, 2, a));
	/* Names. */
	enum advantage_type t;
	assert_int_equal(advantage_type_from_name("loo", &t, NULL), 0);
	assert_int_equal(advantage_type_from_name("none", &t, NULL), ERR_USAGE);
}

/* A gradient that is not finite changes nothing but the schedule. */
static void test_nonfinite_gradient(void **state)
{
	struct ops *ops = ref_ops(false);
	float data[2] = {1, 2}, grad[2] = {NAN, 1};
	uint64_t changes = 0;
	struct param p = {.name = "w",
		.ndim = 1,
		.shape = {2},
		.count = 2,
		.w = {1, 2, 2, (struct elem *)data, (struct f32 *)data, (struct f32 *)grad, NULL, NULL},
		.changes = &changes};
	/* One weight of two elements under a constant rate. */
	struct optimizer *o = optimizer_create(ops, &p, 1,
		&(struct optimizer_options){.learning_rate = 0.1,
			.adam_beta1 = 0.9,
			.adam_beta2 = 0.999,
			.adam_epsilon = 1e-8,
			.max_grad_norm = 1,
			.lr_scheduler_type = "constant"});
	/* The step says NaN, clears the gradient and moves nothing. */
	assert_true(isnan(optimizer_step(o)));
	assert_true(data[0] == 1 && data[1] == 2 && grad[0] == 0 && grad[1] == 0 && optimizer_steps(o) == 1);
	assert_int_equal(changes, 0);
	/* The next gradient is taken as if there had been none before. */
	grad[0] = grad[1] = 0.3f;
	assert_true(fabs(optimizer_step(o) - 0.3f * sqrt(2)) < 1e-7);
	assert_int_equal(changes, 1);            /* whoever keeps a copy of the weights has to look again */
	assert_true(fabs(data[0] - 0.9) < 1e-6); /* the first real update moves by lr sign(g) */
	optimizer_free(o);
	ops_free(ops);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_adamw_steps),
		cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_ends_of_schedules),
		cmocka_unit_test(test_paced_schedule),
		cmocka_unit_test(test_rl_losses),
		cmocka_unit_test(test_loss_row_slope),
		cmocka_unit_test(test_loss_row_clip),
		cmocka_unit_test(test_normalisers),
		cmocka_unit_test(test_loss_names),
		cmocka_unit_test(test_advantages),
		cmocka_unit_test(test_nonfinite_gradient),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
