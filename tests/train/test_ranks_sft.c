/* Supervised training by several ranks, beside a loop of this test's own that adds the
 * ranks' gradients on the host in rank order: equal bits. A killed rank, going on after it,
 * another number of ranks. */
#include "sft_run_ref.h"
#include "../model/host_values.h"
#include "../ranks/rank_world.h"
#include "ops/ops.h"
#include "ranks/ranks.h"
#include "train/train_internal.h"

#include <signal.h>
#include <sys/mman.h>

enum { STEPS = 7, WORLD = 3, ACCUMULATION = 6 };
static const struct ranks_options meet = {.transport = "auto", .timeout_s = 60};

struct job {
	const char *dir;
	bool with_adapter;
	float dropout;
	int kill_at;       /* rank 0 kills rank 1 at this step; 0: nobody is killed */
	const char *fails; /* what rank 0's error is to say; NULL: none */
	int fail_code;
};
static pid_t *rank_pids; /* shared by all processes */

static void setup_make(struct sft_setup *s, const struct job *j)
{
	struct err err = {0};
	sft_setup_make(s, false);
	struct adapter_options o = {.r = 4, .lora_alpha = 8, .lora_dropout = j->dropout, .seed = 2};
	if (j->with_adapter) CHECKF(!adapter_create(s->m, &o, &s->a, &err), "%s", err.text);
}

static struct sft_options options_of(const struct job *j)
{
	struct sft_options o = sft_options_make(j->dir);
	o.gradient_accumulation_steps = ACCUMULATION;
	o.max_tokens = 60;
	o.num_train_epochs = 0;
	o.max_steps = STEPS;
	return o;
}

/* ---- the oracle ---- */

struct own_loss {
	double scale;
};

static void own_gradient(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	const struct own_loss *l = ctx;
	for (int i = 0; i < n; i++) g[i] = -(float)l->scale;
}

static struct param *params_of(struct sft_setup *s, int *n)
{
	return s->a ? adapter_params(s->a, n) : model_params(s->m, n);
}

static int64_t values_count(struct sft_setup *s)
{
	int n;
	int64_t total = 0;
	struct param *p = params_of(s, &n);
	for (int i = 0; i < n; i++) total += p[i].count;
	return total;
}

/* Gradients of all parameters to the host, or from it. */
static void gradients_move(struct sft_setup *s, float *host, bool to_host)
{
	int n;
	struct param *p = params_of(s, &n);
	for (int i = 0; i < n; host += p[i++].count) {
		if (to_host) s->ops->get_f32(s->ops->ctx, host, p[i].w.grad, p[i].count);
		else s->ops->put_f32(s->ops->ctx, p[i].w.grad, host, p[i].count);
	}
}

/* The whole run in one process: each share's gradients from zero, then their sum.
 * `out` gets the parameters. */
static void oracle(const struct job *j, int world, float *out)
{
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = options_of(j);
	struct pass *pass;
	struct epoch_plan plan = {0};
	struct sft_batch b;
	int n, epoch = 0;
	setup_make(&s, j);
	assert_int_equal(
		pass_create(s.m, &(struct pass_options){.max_tokens = o.max_tokens, .backward = true}, &pass, &err), 0);
	model_enable_grad(s.m, s.a);
	struct param *params = params_of(&s, &n);
	int64_t count = values_count(&s);
	float *sum = xcalloc((size_t)count, sizeof *sum), *part = xcalloc((size_t)count, sizeof *part);
	struct optimizer_options oo = o.optimizer;
	oo.max_steps = STEPS;
	struct optimizer *opt = optimizer_create(s.ops, params, n, &oo);
	sft_batch_init(&b, o.max_tokens);
	epoch_plan_make(&plan, s.d->examples, EXAMPLES, o.max_tokens, true, o.seed, epoch);
	for (int step = 0, first = 0; step < STEPS; step++) {
		if ((size_t)first >= plan.nmicro) {
			epoch_plan_make(&plan, s.d->examples, EXAMPLES, o.max_tokens, true, o.seed, ++epoch);
			first = 0;
		}
		int end = (int)MIN((size_t)(first + ACCUMULATION), plan.nmicro), rows = 0;
		for (size_t k = plan.micro[first]; k < plan.micro[end]; k++)
			rows += sft_example_rows(&s.d->examples[plan.order[k]]);
		struct own_loss loss = {1.0 / rows};
		for (int rank = 0; rank < world; rank++) {
			/* The share of ranks.h: n * rank / world on. */
			int size = end - first, from = first + size * rank / world, to = first + size * (rank + 1) / world;
			params_zero_grad(s.ops, params, n);
			for (int i = from; i < to; i++) {
				sft_batch_pack(&b, s.d->examples, plan.order + plan.micro[i], plan.micro[i + 1] - plan.micro[i]);
				pass_forward(pass, s.a, &(struct batch){b.ids, {b.T, b.S, b.start, b.pos, NULL}}, 0);
				pass_backward(pass, b.rows, b.n, 1, own_gradient, &loss);
			}
			gradients_move(&s, part, true);
			for (int64_t i = 0; i < count; i++) sum[i] = rank ? sum[i] + part[i] : part[i];
		}
		gradients_move(&s, sum, false);
		optimizer_step(opt);
		first = end;
	}
	for (int i = 0; i < n; out += params[i++].count) param_get(s.ops, &params[i], out);
	free(sum);
	free(part);
	epoch_plan_release(&plan);
	sft_batch_release(&b);
	optimizer_free(opt);
	pass_free(pass);
	sft_setup_release(&s);
}

/* ---- a rank ---- */

static int on_metrics(void *ctx, int64_t step, const json_t *metrics)
{
	const struct job *j = ctx;
	if (j->kill_at && step == j->kill_at) kill(rank_pids[1], SIGKILL);
	return 0;
}

static char *values_path(const struct job *j, int rank) { return xasprintf("%s.rank-%d", j->dir, rank); }

static int rank_main(int rank, void *ctx)
{
	struct job *j = ctx;
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = options_of(j);
	rank_pids[rank] = getpid();
	setup_make(&s, j);
	NEED(!ranks_open(&meet, &o.ranks, &err), "%s", err.text);
	int rc = ranks_join(o.ranks, s.ops, &err);
	if (!rc)
		rc = sft_run(s.m, s.a, s.d->examples, EXAMPLES, s.d->examples + EXAMPLES, HELDOUT, &o, on_metrics, j, &err);
	if (!rc) rc = ranks_meet(o.ranks, &err);
	ranks_close(o.ranks, rc ? &err : NULL);
	if (j->fails) {
		NEED(rc == j->fail_code && strstr(err.text, j->fails), "%d: %s", rc, err.text);
		return 0;
	}
	NEED(!rc, "%s", err.text);
	/* What this rank has learned, for the test to compare. */
	int n;
	struct str bytes = {0};
	struct param *p = params_of(&s, &n);
	for (int i = 0; i < n; i++) {
		float *host = xmalloc((size_t)p[i].count * sizeof *host);
		param_get(s.ops, &p[i], host);
		str_append(&bytes, host, (size_t)p[i].count * sizeof *host);
		free(host);
	}
	char *path = values_path(j, rank);
	NEED(!file_write_atomic(path, bytes.data, bytes.len, &err), "%s", err.text);
	sft_setup_release(&s);
	return 0;
}

static void run_all(struct job *j, int world, int *status)
{
	ranks_run(world, rank_main, j, status);
	for (int k = 0; k < world; k++) assert_int_equal(status[k], j->kill_at && k == 1 ? 128 + SIGKILL : 0);
}

static void values_check(const struct job *j, int world, const float *expected, int64_t count)
{
	struct err err = {0};
	for (int k = 0; k < world; k++) {
		struct str bytes = {0};
		char *path = values_path(j, k);
		assert_int_equal(file_read(path, 1 << 28, &bytes, &err), 0);
		assert_int_equal(bytes.len, (size_t)count * sizeof *expected);
		assert_memory_equal(bytes.data, expected, bytes.len);
		str_release(&bytes);
		free(path);
	}
}

/* Three ranks, an adapter and all weights: the bits of sums in rank order; and those
 * of one process differ. */
static void test_order(void **state)
{
	int status[3];
	struct job j = {.dir = sft_folder("ranks-order"), .with_adapter = true};
	struct sft_setup s;
	for (int which = 0; which < 2; which++) {
		j.with_adapter = which == 0;
		j.dir = sft_folder("ranks-order");
		setup_make(&s, &j);
		int64_t count = values_count(&s);
		sft_setup_release(&s);
		float *expected = xcalloc((size_t)count, sizeof *expected), *alone = xcalloc((size_t)count, sizeof *alone);
		run_all(&j, WORLD, status);
		oracle(&j, WORLD, expected);
		values_check(&j, WORLD, expected, count);
		oracle(&j, 1, alone);
		double worst = 0, largest = 0;
		for (int64_t i = 0; i < count; i++) {
			worst = fmax(worst, fabs((double)alone[i] - expected[i]));
			largest = fmax(largest, fabs((double)alone[i]));
		}
		/* Another order of three additions: other bits, and near: AdamW moves a weight by at most
		 * lr a step, whichever way rounding turns a gradient next to zero. */
		assert_true(worst > 0 && worst <= 2 * STEPS * 5e-3 && largest > worst);
		free(expected);
		free(alone);
	}
}

/* Gradients that lie one behind the other travel as one: beside a rank that gathers, the other one
 * sums the whole of an adapter's in a single round. Were they to go one by one, the two would be at
 * other rounds, and the first sum a mismatch. */
static int gather_one(int rank, void *ctx)
{
	struct job *j = ctx;
	struct sft_setup s;
	struct ranks *ranks;
	struct err err = {0};
	int n;
	/* Whole numbers, of which sums are exact: rank 1's are greater by 1. */
	setup_make(&s, j);
	NEED(!ranks_open(&meet, &ranks, &err) && !ranks_join(ranks, s.ops, &err), "%s", err.text);
	model_enable_grad(s.m, s.a);
	struct param *p = params_of(&s, &n);
	int64_t count = values_count(&s);
	float *host = xcalloc((size_t)count, sizeof *host);
	for (int64_t i = 0; i < count; i++) host[i] = (float)(i % 100 + rank);
	gradients_move(&s, host, false);
	struct optimizer_options o = {.learning_rate = 1e-3, .lr_scheduler_type = "constant"};
	struct optimizer *opt = optimizer_create(s.ops, p, n, &o);
	/* Rank 0 gathers as a step does, rank 1 sums from the first gradient on. */
	NEED(n > 1, "%d parameters", n);
	int rc = rank ? ranks_sum(ranks, s.ops, p[0].w.grad, count, &err) : optimizer_gather(opt, ranks, &err);
	NEED(!rc, "%s", err.text);
	gradients_move(&s, host, true);
	for (int64_t i = 0; i < count; i++) NEED(host[i] == (float)(2 * (i % 100) + 1), "%lld: %g", (long long)i, host[i]);
	ranks_close(ranks, NULL);
	optimizer_free(opt);
	free(host);
	sft_setup_release(&s);
	return 0;
}

static void test_one_round(void **state)
{
	int status[2];
	struct job j = {.dir = sft_folder("ranks-round"), .with_adapter = true};
	ranks_run(2, gather_one, &j, status);
	for (int k = 0; k < 2; k++) assert_int_equal(status[k], 0);
}

/* Rank 1 is killed: rank 0 says who, and what it saved is whole; all go on from there, to the bytes
 * of a run that was never stopped. */
static void test_killed(void **state)
{
	int status[3];
	struct job whole = {.dir = sft_folder("ranks-whole"), .with_adapter = true, .dropout = 0.1f};
	struct job j = {.dir = sft_folder("ranks-killed"),
		.with_adapter = true,
		.dropout = 0.1f,
		.kill_at = 5,
		.fails = "rank 1 of 3 (",
		.fail_code = ERR_CHILD};
	run_all(&whole, 3, status);
	run_all(&j, 3, status);
	struct listing l = {0};
	struct err err = {0};
	assert_int_equal(dir_each(j.dir, listing_add, &l, &err), 0);
	assert_int_equal(l.n, 1);
	assert_string_equal(l.names[0], "checkpoint-3");
	j.kill_at = 0;
	j.fails = NULL;
	run_all(&j, 3, status);
	assert_true(folders_equal(whole.dir, j.dir));
	/* Another number of ranks would be another run. */
	struct sft_setup s;
	struct sft_options o = options_of(&j);
	setup_make(&s, &j);
	assert_int_equal(sft_setup_run(&s, &o, NULL, NULL, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "ranks 3, now it is 1"));
	sft_setup_release(&s);
}

/* Rank 1 is gone from the first held-out answer on. */
static double (*own_sum_squares)(struct ops_context *, struct ops_weight *const *, int);
static bool has_stepped;

static double squares_then_held_out(struct ops_context *c, struct ops_weight *const *w, int n)
{
	has_stepped = true;
	return own_sum_squares(c, w, n);
}

static void (*own_logprob)(
	struct ops_context *, struct f32 *, const struct f32 *, const struct ops_batch *, int, int, int);

static void logprob_or_end(struct ops_context *c, struct f32 *out, const struct f32 *logits, const struct ops_batch *b,
	int first, int n, int V)
{
	if (has_stepped) _exit(0);
	own_logprob(c, out, logits, b, first, n, V);
}

static int metrics_count(void *ctx, int64_t step, const json_t *metrics) { return (*(int *)ctx)++, 0; }

/* What held-out answers would have said is not known then, so nobody is told of the step. */
static int leaves_held_out(int rank, void *ctx)
{
	const struct job *j = ctx;
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = options_of(j);
	int told = 0;
	o.eval_steps = 1;
	setup_make(&s, j);
	own_sum_squares = s.ops->sum_squares;
	own_logprob = s.ops->logprob;
	if (rank == 1) {
		s.ops->sum_squares = squares_then_held_out;
		s.ops->logprob = logprob_or_end;
	}
	NEED(!ranks_open(&meet, &o.ranks, &err), "%s", err.text);
	int rc = sft_run(
		s.m, s.a, s.d->examples, EXAMPLES, s.d->examples + EXAMPLES, HELDOUT, &o, metrics_count, &told, &err);
	NEED(rank != 1 && rc == ERR_CHILD && strstr(err.text, "rank 1 of 3 ("), "%d: %s", rc, err.text);
	NEED(told == 0, "%d metrics", told);
	ranks_close(o.ranks, &err);
	sft_setup_release(&s);
	return 0;
}

static void test_gone_at_held_out(void **state)
{
	int status[3];
	struct job j = {.dir = sft_folder("ranks-held-out"), .with_adapter = true};
	ranks_run(3, leaves_held_out, &j, status);
	for (int k = 0; k < 3; k++) assert_int_equal(status[k], 0);
}

/* Refusals come on all ranks, by message. */
static int refused(int rank, void *ctx)
{
	struct job *j = ctx;
	struct sft_setup s;
	struct err err = {0};
	struct sft_options o = options_of(j);
	setup_make(&s, j);
	NEED(!ranks_open(&meet, &o.ranks, &err), "%s", err.text);
	if (j->kill_at) o.optimizer.learning_rate *= 1 + rank; /* here: settings that differ */
	else o.gradient_accumulation_steps = 4;
	int rc = sft_run(s.m, s.a, s.d->examples, EXAMPLES, s.d->examples + EXAMPLES, HELDOUT, &o, NULL, NULL, &err);
	NEED(rc == j->fail_code && strstr(err.text, j->fails), "%d: %s", rc, err.text);
	ranks_close(o.ranks, &err);
	sft_setup_release(&s);
	return 0;
}

static void test_refused(void **state)
{
	int status[3];
	struct job j = {.dir = sft_folder("ranks-refused"),
		.fails = "gradient_accumulation_steps 4 with 3 ranks",
		.fail_code = ERR_USAGE};
	ranks_run(3, refused, &j, status);
	for (int k = 0; k < 3; k++) assert_int_equal(status[k], 0);
	j = (struct job){
		.dir = j.dir, .kill_at = 1, .fails = "settings of rank 1 and of rank 0", .fail_code = ERR_MISMATCH};
	ranks_run(3, refused, &j, status);
	for (int k = 0; k < 3; k++) assert_int_equal(status[k], 0);
}

int main(void)
{
	rank_pids = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_one_round),
		cmocka_unit_test(test_killed), cmocka_unit_test(test_gone_at_held_out), cmocka_unit_test(test_refused)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
