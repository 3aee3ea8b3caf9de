/* Supervised fine-tuning: packing and order, learning, evaluation, stopping at the held-out
 * minimum, checkpoints, and continuing: same bytes as an uninterrupted run. */
#include "sft_run_ref.h"
#include "model/model_internal.h"
#include "train/train_internal.h"
#include "../model/host_values.h"

static void evaluate(struct model *m, struct adapter *a, const struct sft_example *examples, size_t n, int max_tokens,
	double *loss, double *accuracy)
{
	struct err err = {0};
	struct pass *p;
	if (pass_create(m, &(struct pass_options){.max_tokens = max_tokens}, &p, &err)) fail_msg("%s", err.text);
	if (sft_evaluate(p, a, NULL, examples, n, max_tokens, loss, accuracy, &err)) fail_msg("%s", err.text);
	pass_free(p);
}

/* ---- packing ---- */

static void test_plan(void **state)
{
	struct sft_case d;
	struct epoch_plan p = {0}, q = {0};
	sft_data_make(&d);
	/* Every example once, in micro-batches that are as full as the order allows. */
	for (int64_t epoch = 0; epoch < 3; epoch++) {
		bool seen[EXAMPLES] = {false};
		epoch_plan_make(&p, d.examples, EXAMPLES, 100, true, 5, epoch);
		for (size_t m = 0; m < p.nmicro; m++) {
			int tokens = 0;
			for (size_t k = p.micro[m]; k < p.micro[m + 1]; k++) {
				assert_false(seen[p.order[k]]);
				seen[p.order[k]] = true;
				tokens += d.examples[p.order[k]].count;
			}
			assert_true(tokens > 0 && tokens <= 100);
			if (m + 1 < p.nmicro)
				assert_true(
					tokens + d.examples[p.order[p.micro[m + 1]]].count > 100); /* greedy: the next one did not fit */
		}
		for (int i = 0; i < EXAMPLES; i++) assert_true(seen[i]);
		/* The same epoch has the same order, the next one another. */
		epoch_plan_make(&q, d.examples, EXAMPLES, 100, true, 5, epoch);
		assert_memory_equal(p.order, q.order, EXAMPLES * sizeof *p.order);
		epoch_plan_make(&q, d.examples, EXAMPLES, 100, true, 5, epoch + 1);
		assert_memory_not_equal(p.order, q.order, EXAMPLES * sizeof *p.order);
	}
	epoch_plan_release(&p);
	epoch_plan_release(&q);
}

/* Of the shortest examples a micro-batch has no more than a pass takes sequences. */
static void test_many_sequences(void **state)
{
	enum { N = 2 * PASS_SEQUENCES_MAX + 1 };
	struct epoch_plan p = {0};
	struct sft_example *examples = xcalloc(N, sizeof *examples);
	for (int i = 0; i < N; i++) examples[i].count = 2;
	epoch_plan_make(&p, examples, N, PASS_TOKENS_MAX, false, 0, 0);
	assert_int_equal(p.nmicro, 3);
	assert_true(p.micro[1] == PASS_SEQUENCES_MAX && p.micro[2] == 2 * PASS_SEQUENCES_MAX && p.micro[3] == N);
	epoch_plan_release(&p);
	free(examples);
}

/* Packing does not change what is computed: evaluation packed wide equals evaluation one by one up
 * to rounding of sums of the same numbers in other orders. */
static void test_packing_changes_nothing(void **state)
{
	struct sft_setup s;
	double loss[2], accuracy[2];
	sft_setup_make(&s, false);
	evaluate(s.m, NULL, s.d->examples, EXAMPLES, EXAMPLE_MAX, &loss[0], &accuracy[0]);
	evaluate(s.m, NULL, s.d->examples, EXAMPLES, 500, &loss[1], &accuracy[1]);
	assert_true(fabs(loss[0] - loss[1]) <= 2 * ldexp(1, -24) * sqrt(61) * 16 * loss[0]);
	assert_true(accuracy[0] == accuracy[1]);
	assert_true(fabs(loss[0] - log(61)) < 0.1); /* a fresh model knows nothing */
	sft_setup_release(&s);
}

/* Accuracy and loss by hand from full logits. */
static void test_evaluate_by_hand(void **state)
{
	struct sft_setup s;
	struct err err = {0};
	struct pass *p;
	double loss, accuracy, sum = 0;
	int rows = 0, correct = 0;
	sft_setup_make(&s, true);
	evaluate(s.m, s.a, s.d->examples, 3, 90, &loss, &accuracy);
	assert_int_equal(pass_create(s.m, &(struct pass_options){.max_tokens = 64}, &p, &err), 0);
	/* The same three examples, one at a time; the logits of row k - 1 are for token k. */
	for (int i = 0; i < 3; i++) {
		const struct sft_example *e = &s.d->examples[i];
		int32_t pos[EXAMPLE_MAX], start[2] = {0, e->count};
		static float logits[EXAMPLE_MAX * 61];
		for (int k = 0; k < e->count; k++) pos[k] = k;
		pass_forward(p, s.a, &(struct batch){e->ids, {e->count, 1, start, pos, NULL}}, 0);
		pass_logits(p, pos, e->count, logits);
		for (int k = e->completion_begin; k < e->count; k++, rows++) {
			const float *row = logits + (k - 1) * 61;
			/* The softmax's denominator and the largest logit of the row. */
			double total = 0;
			int best = 0;
			for (int j = 0; j < 61; j++) {
				total += exp(row[j]);
				if (row[j] > row[best]) best = j;
			}
			sum += log(total) - row[e->ids[k]];
			correct += best == e->ids[k];
		}
	}
	assert_true(fabs(sum / rows - loss) < 1e-5);
	assert_true(accuracy == (double)correct / rows);
	pass_free(p);
	sft_setup_release(&s);
}

/* ---- runs ---- */

struct record {
	double loss[200], eval[200];
	int64_t steps, stop_at;
	int evals;
};
static int record_metrics(void *ctx, int64_t step, const json_t *m)
{
	struct record *r = ctx;
	assert_true(step < 200);
	r->steps = step;
	r->loss[step] = json_number_value(json_object_get(m, "loss"));
	assert_true(json_is_real(json_object_get(m, "grad_norm")) && json_is_real(json_object_get(m, "learning_rate")) &&
		json_is_integer(json_object_get(m, "num_tokens")));
	if (json_object_get(m, "eval_loss")) r->eval[r->evals++] = json_number_value(json_object_get(m, "eval_loss"));
	return step == r->stop_at;
}

static void run_once(const char *dir, bool with_adapter, int64_t stop_at, struct record *r)
{
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = sft_options_make(dir);
	sft_setup_make(&s, with_adapter);
	*r = (struct record){.stop_at = stop_at};
	if (sft_setup_run(&s, &o, record_metrics, r, &err)) fail_msg("%s", err.text);
	sft_setup_release(&s);
}

/* Learns the pattern; a run in three parts (stopped off and on a save step) writes the same last
 * checkpoint and the same losses. */
static void continue_case(bool with_adapter)
{
	char *whole = sft_folder("whole"), *parts = sft_folder("parts");
	struct record a, b;
	run_once(whole, with_adapter, -1, &a);
	assert_true(
		a.eval[a.evals - 1] < (with_adapter ? 1 : 0.95) * a.eval[0]); /* an adapter can do little on a base of noise */
	run_once(parts, with_adapter, 4, &b);
	assert_true(b.steps == 4);
	run_once(parts, with_adapter, 9, &b);
	assert_true(b.steps == 9);
	run_once(parts, with_adapter, -1, &b);
	assert_true(b.steps == a.steps);
	for (int64_t i = 10; i <= a.steps; i++) assert_true(a.loss[i] == b.loss[i]);
	char *x = xasprintf("%s/checkpoint-%lld", whole, (long long)a.steps),
		 *y = xasprintf("%s/checkpoint-%lld", parts, (long long)a.steps);
	assert_true(folders_equal(x, y));
	run_once(parts, with_adapter, -1, &b); /* a finished run has nothing left to do */
	assert_true(b.steps == 0);
	free(x);
	free(y);
	free(whole);
	free(parts);
}
static void test_continue_weights(void **state) { continue_case(false); }
static void test_continue_adapter(void **state) { continue_case(true); }

/* As many checkpoints stay as are asked for, the newest. */
static void test_limits_of_checkpoints(void **state)
{
	struct err err = {0};
	for (int keep = 1; keep <= 3; keep++) {
		struct sft_setup s;
		struct listing l = {0};
		char *dir = sft_folder("kept_some");
		struct sft_options o = sft_options_make(dir);
		o.save_total_limit = keep;
		sft_setup_make(&s, true);
		if (sft_setup_run(&s, &o, NULL, NULL, &err)) fail_msg("%s", err.text);
		sft_setup_release(&s);
		assert_int_equal(dir_each(dir, listing_add, &l, &err), 0);
		assert_int_equal(l.n, keep);
		free(dir);
	}
}

static void test_checkpoints_kept(void **state)
{
	struct err err = {0};
	struct listing l = {0};
	struct record r;
	char *dir = sft_folder("kept");
	run_once(dir, false, -1, &r);
	assert_int_equal(dir_each(dir, listing_add, &l, &err), 0);
	assert_int_equal(l.n, 2); /* save_total_limit */
	/* Leftovers of a kill and foreign names are not checkpoints. */
	char *tmp = path_join(dir, "checkpoint-99999.tmp"), *odd = path_join(dir, "checkpoint-old");
	assert_int_equal(dir_make(tmp, &err), 0);
	assert_int_equal(dir_make(odd, &err), 0);
	run_once(dir, false, -1, &r);
	assert_true(r.steps == 0);
	free(tmp);
	free(odd);
	free(dir);
}

/* Other settings are refused by name; another number of checkpoints to keep is none of them. */
static void test_settings_must_match(void **state)
{
	struct sft_setup s;
	struct err err = {0};
	char *dir = sft_folder("settings");
	struct record r;
	run_once(dir, false, 3, &r);
	struct sft_options o = sft_options_make(dir);
	sft_setup_make(&s, false);
	o.optimizer.learning_rate *= 2;
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "learning_rate"));

	/* Each start is one of its own: a refused one has read the checkpoint's weights. */
	sft_setup_release(&s);
	sft_setup_make(&s, false);
	o = sft_options_make(dir);
	s.d->ids[4][2] ^= 1;
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "examples"));

	sft_setup_release(&s);
	sft_setup_make(&s, false);
	o.save_total_limit = 7;
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), 0);
	sft_setup_release(&s);
	free(dir);
}

/* A rate far too high makes the held-out loss turn: the run stops, and the weights left are those
 * of the best evaluation. */
static void test_stop_at_minimum(void **state)
{
	struct sft_setup s;
	struct err err = {0};
	struct record r = {.stop_at = -1};
	char *dir = sft_folder("minimum");
	struct sft_options o = sft_options_make(dir);
	double loss, accuracy, best = INFINITY;
	o.optimizer.learning_rate = 0.05;
	o.optimizer.lr_scheduler_type = "constant";
	o.num_train_epochs = 30;
	o.eval_steps = 2;
	o.stop_at_eval_minimum = true;
	o.patience = 3;
	/* Without patience it would run for thirty epochs. */
	sft_setup_make(&s, false);
	if (sft_setup_run(&s, &o, record_metrics, &r, &err)) fail_msg("%s", err.text);
	assert_true(r.evals > 3 && r.steps < 150);
	/* Which evaluation was the best. */
	int at = 0;
	for (int i = 0; i < r.evals; i++)
		if (r.eval[i] < best) {
			best = r.eval[i];
			at = i;
		}
	assert_int_equal(at, r.evals - 1 - 3); /* patience evaluations without improvement came after it */
	/* The weights that are left give exactly its loss. */
	evaluate(s.m, NULL, s.d->examples + EXAMPLES, HELDOUT, o.max_tokens, &loss, &accuracy);
	assert_true(loss == best);
	sft_setup_release(&s);
	free(dir);
}

/* One more step of the run in `dir`, begun from the same start: with a held-out example that
 * changed, where asked for.
 */
static int minimum_goes_on(const struct sft_options *o, bool changes, struct err *err)
{
	struct sft_setup s;
	sft_setup_make(&s, false);
	if (changes) s.d->ids[EXAMPLES][3] = (s.d->ids[EXAMPLES][3] + 1) % 61;
	int rc = sft_setup_run(&s, o, NULL, NULL, err);
	sft_setup_release(&s);
	return rc;
}

/* The best weights are the best by one measure: a run is not continued with other
 * held-out examples, evaluations or patience than chose them so far, nor to a minimum
 * that it did not look for. */
static void test_minimum_settings(void **state)
{
	struct err err = {0};
	char *dir = sft_folder("minimum_settings");
	struct sft_options o = sft_options_make(dir);
	o.optimizer.lr_scheduler_type = "constant";
	o.num_train_epochs = 0;
	o.max_steps = 4;
	o.eval_steps = 2;
	o.stop_at_eval_minimum = true;
	o.patience = 3;
	/* Four steps, then a fifth under other settings, one at a time; under the same it goes on. */
	assert_int_equal(minimum_goes_on(&o, false, &err), 0);
	o.max_steps = 5;
	assert_int_equal(minimum_goes_on(&o, true, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "held-out examples"));
	o.patience = 4;
	assert_int_equal(minimum_goes_on(&o, false, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "patience 3, eval_steps 2"));
	o.patience = 3;
	o.eval_steps = 1;
	assert_int_equal(minimum_goes_on(&o, false, &err), ERR_MISMATCH);
	o.eval_steps = 2;
	o.stop_at_eval_minimum = false;
	assert_int_equal(minimum_goes_on(&o, false, &err), ERR_MISMATCH);
	o.stop_at_eval_minimum = true;
	assert_int_equal(minimum_goes_on(&o, false, &err), 0);
	free(dir);
}

static void test_limits(void **state)
{
	struct sft_setup s;
	struct err err = {0};
	char *dir = sft_folder("limits");
	/* Nothing says when to end: refused. */
	struct sft_options o = sft_options_make(dir);
	sft_setup_make(&s, false);
	o.max_tokens = 20; /* an example does not fit: refused, never cut */
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "max_tokens 20"));
	o = sft_options_make(dir);
	o.num_train_epochs = 0;
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), ERR_USAGE);
	o.optimizer.lr_scheduler_type = "constant";
	o.max_seconds = 1e-9; /* the time is over before the first step */
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), 0);
	o = sft_options_make(dir);
	/* Each of the limits ends a run by itself. */
	char *short_dir = sft_folder("limits_epochs");
	o = sft_options_make(short_dir);
	o.num_train_epochs = 0.5; /* part of an epoch is an end too */
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), 0);
	o.num_train_epochs = 1;
	int64_t whole = sft_total_steps(s.d->examples, EXAMPLES, &o);
	o.num_train_epochs = 0.5;
	assert_int_equal(sft_total_steps(s.d->examples, EXAMPLES, &o), (whole + 1) / 2);
	free(short_dir);
	o = sft_options_make(dir);
	o.max_steps = 2;
	struct record r = {.stop_at = -1};
	assert_int_equal(sft_setup_run(&s, &o, record_metrics, &r, &err), 0);
	assert_true(r.steps == 2);
	sft_setup_release(&s);
	free(dir);
}

/* "3a 5e": the steps whose metrics are told, with the accuracy of the step and with the held-out
 * rows. */
static int record_steps(void *ctx, int64_t step, const json_t *m)
{
	bool has_accuracy = json_object_get(m, "mean_token_accuracy"), has_eval = json_object_get(m, "eval_loss");
	str_printf(ctx, " %lld%s%s", (long long)step, has_accuracy ? "a" : "", has_eval ? "e" : "");
	return 0;
}

/* Steps are told of every so often, where held-out rows are looked at, and the last one. */
static void test_what_is_told(void **state)
{
	static const struct {
		int logging_steps, eval_steps;
		const char *told;
	} rows[] = {{3, 5, " 3a 5e 6a 7ae"}, {0, 0, " 1a 2a 3a 4a 5a 6a 7ae"}, {7, 9, " 7ae"}, {9, 2, " 2e 4e 6e 7ae"}};
	struct sft_setup s;
	sft_setup_make(&s, false);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		struct str told = {0};
		char *dir = sft_folder("told");
		struct sft_options o = sft_options_make(dir);
		o.max_steps = 7;
		o.logging_steps = rows[i].logging_steps;
		o.eval_steps = rows[i].eval_steps;
		if (sft_setup_run(&s, &o, record_steps, &told, &err)) fail_msg("%s", err.text);
		assert_string_equal(told.data, rows[i].told);
		str_release(&told);
		free(dir);
	}
	sft_setup_release(&s);
}

/* Gradient norms by step, of runs that do not move the weights. */
struct norms {
	double loss[16], norm[16];
	int64_t steps;
};
static int record_norms(void *ctx, int64_t step, const json_t *m)
{
	struct norms *r = ctx;
	assert_true(step < 16);
	r->steps = step;
	r->loss[step] = json_number_value(json_object_get(m, "loss"));
	r->norm[step] = json_number_value(json_object_get(m, "grad_norm"));
	return 0;
}

static struct norms run_still(
	struct sft_setup *s, const struct sft_example *e, size_t n, int max_tokens, int accumulation, int64_t steps)
{
	struct err err = {0};
	struct norms r = {0};
	char *dir = sft_folder("still");
	struct sft_options o = sft_options_make(dir);
	o.optimizer.learning_rate = 0;
	o.max_tokens = max_tokens;
	o.gradient_accumulation_steps = accumulation;
	o.num_train_epochs = 0;
	o.max_steps = steps;
	if (sft_run(s->m, s->a, e, n, NULL, 0, &o, record_norms, &r, &err)) fail_msg("%s", err.text);
	free(dir);
	return r;
}

/* However a step's examples are spread over micro-batches, its loss and gradient are means over all
 * of its completion tokens. Six examples of 5 to 40 tokens: the first micro-batch alone has a very
 * different number of them. Sums of the same numbers in another order: 1e-5. */
static void test_accumulation_normalises_by_all(void **state)
{
	struct sft_setup s;
	double loss, accuracy;
	sft_setup_make(&s, false);
	evaluate(s.m, NULL, s.d->examples, 6, 256, &loss, &accuracy);
	struct norms one = run_still(&s, s.d->examples, 6, 256, 1, 1),
				 six = run_still(&s, s.d->examples, 6, EXAMPLE_MAX, 6, 1);
	assert_true(fabs(one.loss[1] - loss) < 1e-5 * loss && fabs(six.loss[1] - loss) < 1e-5 * loss);
	assert_true(fabs(one.norm[1] - six.norm[1]) < 1e-4 * one.norm[1]);
	sft_setup_release(&s);
}

/* One example again and again at rate 0: nothing but its dropout mask can change. Steps have masks
 * of their own, and so have the micro-batches of one step: with one mask for both, two equal
 * micro-batches would give the gradient of one. */
static void test_dropout_masks(void **state)
{
	struct sft_setup s;
	sft_setup_make(&s, true);
	int n; /* B of a new adapter is 0, and A's gradient, which dropout acts on, with it */
	struct param *p = adapter_params(s.a, &n);
	for (int i = 0; i < n; i++)
		for (int64_t k = 0; k < p[i].count; k++)
			host_values(&p[i])[k] = 0.1f * rng_normal(21, (uint64_t)i, (uint64_t)k);
	struct sft_example twice[2] = {s.d->examples[0], s.d->examples[0]};
	int tokens = twice[0].count;
	struct norms steps = run_still(&s, twice, 1, tokens, 1, 4), pair = run_still(&s, twice, 2, tokens, 2, 1);
	for (int i = 2; i <= 4; i++)
		for (int k = 1; k < i; k++) assert_true(fabs(steps.norm[i] - steps.norm[k]) > 1e-5 * steps.norm[k]);
	assert_true(fabs(pair.norm[1] - steps.norm[1]) > 1e-5 * steps.norm[1]);
	sft_setup_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_many_sequences),
		cmocka_unit_test(test_packing_changes_nothing),
		cmocka_unit_test(test_evaluate_by_hand),
		cmocka_unit_test(test_continue_weights),
		cmocka_unit_test(test_continue_adapter),
		cmocka_unit_test(test_checkpoints_kept),
		cmocka_unit_test(test_limits_of_checkpoints),
		cmocka_unit_test(test_settings_must_match),
		cmocka_unit_test(test_stop_at_minimum),
		cmocka_unit_test(test_minimum_settings),
		cmocka_unit_test(test_accumulation_normalises_by_all),
		cmocka_unit_test(test_dropout_masks),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_what_is_told),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
