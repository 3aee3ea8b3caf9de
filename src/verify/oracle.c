/* oracle: the conversation with the oracle worker and the checks on what it says.
 *
 * The order of trials matters: the first failing one names the verdict. Stock inputs with the
 * seed's own parameters come first (KernelBench's check), then the same inputs with other
 * parameters, then other distributions, then other sizes. */
#include "verify/oracle.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "task/task.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX ((size_t)16 << 20)
#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define NAMES_MAX 4096
#define WALL_TIMES 10 /* of the processor time that a reference may take: it waits for a busy machine so long */
#define LOOK_MS 250   /* how often a silent reference is looked at */

enum { SIZES_STOCK, SIZES_SMALLER, SIZES_LARGER, STRIDED, SIZES_BUILT }; /* as worker/oracle.py, VARIANTS */

static const struct {
	const char *distribution;
	int variant;
	bool random_params;
} TRIALS[] = {
	{"stock", SIZES_STOCK, false},
	{"stock", SIZES_STOCK, true},
	{"sign-mixed", SIZES_STOCK, true},
	{"sign-mixed", SIZES_SMALLER, true},
	{"heavy-tail", SIZES_STOCK, true},
	{"rows", SIZES_STOCK, true},
	{"large", SIZES_STOCK, true},
	{"negative", SIZES_STOCK, true},
	{"sign-mixed", SIZES_LARGER, true},
	{"defaults", SIZES_STOCK, true},
	{"near-one", SIZES_STOCK, true},
	{"sign-mixed", STRIDED, true},
	{"sign-mixed", SIZES_BUILT, true},
	{"scaled-down", SIZES_STOCK, true},
	{"shifted", SIZES_STOCK, true},
	{"edge", SIZES_STOCK, true},
	{"stock", SIZES_SMALLER, true},
	{"scaled-up", SIZES_STOCK, true},
};

/* Trial seeds come from the verifier's secret and the task, so that nobody who lacks the secret can
 * know an input. */
uint64_t oracle_trial_seed(uint64_t secret, const struct task *task, int index)
{
	uint64_t at = 0;
	for (int i = 0; i < 16; i++) at = at * 31 + (uint64_t)task->hash.text[i];
	struct rng_block b = rng_philox(secret, at, (uint64_t)index);
	return ((uint64_t)b.v[0] << 20 ^ b.v[1]) & 0x7fffffffffffu;
}

json_t *oracle_job(const struct task *task, const struct oracle_options *o)
{
	json_t *trials = json_array();
	for (int i = 0; i < o->num_trials; i++) {
		size_t at = (size_t)i < ARRAY_LEN(TRIALS) ? (size_t)i : 1 + (size_t)i % (ARRAY_LEN(TRIALS) - 1);
		json_array_append_new(trials,
			json_pack("{s:I, s:s, s:i, s:s}", "seed", (json_int_t)oracle_trial_seed(o->seed, task, i), "distribution",
				TRIALS[at].distribution, "shape_variant", TRIALS[at].variant, "parameters",
				TRIALS[at].random_params ? "random" : "initial"));
	}
	for (int i = o->num_trials; i < o->num_trials + o->num_checks; i++)
		json_array_append_new(trials,
			json_pack("{s:I, s:s, s:i, s:s, s:b}", "seed", (json_int_t)oracle_trial_seed(o->seed, task, i),
				"distribution", "stock", "shape_variant", SIZES_STOCK, "parameters", "initial", "check", 1));
	return json_pack("{s:s, s:i, s:o, s:s, s:i, s:I, s:s, s:b}", "source", task->source, "init_seed", ORACLE_INIT_SEED,
		"trials", trials, "precision", o->tf32 ? "tf32" : "strict", "work_ms", o->work_ms, "memory_bytes",
		(json_int_t)o->limits.memory_bytes, "cost_size", o->cost_size ? o->cost_size : "", "spare", o->is_spare);
}

int oracle_given_read(
	const json_t *list, int64_t bytes, bool is_named, struct runner_given **out, int *count, struct err *err)
{
	size_t n = json_array_size(list);
	if (!json_is_array(list) || n > NAMES_MAX)
		return err_set(
			err, ERR_FORMAT, "oracle's trial: expected an array of at most %d inputs or parameters", NAMES_MAX);
	*out = xcalloc(n + 1, sizeof **out);
	for (size_t i = 0; i < n; i++) {
		const json_t *e = json_array_get(list, i);
		struct runner_given *g = &(*out)[i];
		const char *dtype = "";
		int rc = is_named ? json_get_str(e, "parameter", "name", &g->name, err) : 0;
		if (!rc) rc = json_get_int(e, "given", "offset", 0, bytes, &g->offset, err);
		if (!rc) rc = json_get_int(e, "given", "bytes", 0, bytes - g->offset, &g->bytes, err);
		if (!rc) rc = json_opt_bool(e, "given", "changes", &g->may_change, err);
		if (!rc) rc = json_opt_str(e, "given", "dtype", &dtype, err);
		if (rc) return rc;
		if (dtype_from_name(dtype, &g->dtype)) g->dtype = DTYPE_COUNT;
	}
	*count = (int)n;
	return 0;
}

static int output_read(const json_t *e, struct oracle_trial *t, struct compare_output *out, struct err *err)
{
	const char *name = "";
	const json_t *shape = json_object_get(e, "shape");
	int64_t plain = 0, exact = -1, noise = -1, elements = 1;
	/* What compare cannot handle is refused first, by a message about the task. */
	int rc = json_get_str(e, "output", "dtype", &name, err);
	if (!rc && dtype_from_name(name, &out->dtype))
		rc = err_set(err, ERR_UNSUPPORTED, "the reference returns %.60s, which cannot be compared", name);
	if (!rc && json_array_size(shape) > TAPE_DIMS_MAX)
		rc = err_set(err, ERR_LIMIT, "the reference returns a tensor of %zu dimensions, at most %d are supported",
			json_array_size(shape), TAPE_DIMS_MAX);
	if (rc) return rc;
	/* A size is checked before it is multiplied in, so that the product cannot overflow. */
	for (out->ndim = 0; out->ndim < (int)json_array_size(shape); out->ndim++) {
		int64_t size = json_integer_value(json_array_get(shape, (size_t)out->ndim));
		if (size < 0 || (size && elements > t->expected_bytes / size))
			return err_set(err, ERR_FORMAT, "oracle's output shape does not fit its data");
		elements *= out->shape[out->ndim] = size;
	}
	/* Both parts must lie in the mapping, aligned for doubles: compare reads them in place. */
	rc = json_get_int(e, "output", "plain", 0, t->expected_bytes, &plain, err);
	if (!rc) rc = json_get_int(e, "output", "exact", -1, t->expected_bytes, &exact, err);
	if (!rc) rc = json_opt_int(e, "output", "noise", -1, t->expected_bytes, &noise, err);
	int64_t columns = out->ndim ? out->shape[out->ndim - 1] : 1, rows = columns ? elements / columns : 0;
	if (!rc && noise >= 0 && (rows * 8 > t->expected_bytes - noise || noise % 8))
		rc = err_set(err, ERR_FORMAT, "oracle's noise does not lie in its memory");
	if (!rc &&
		(elements * (int64_t)dtype_bytes(out->dtype) > t->expected_bytes - plain ||
			(exact >= 0 && elements * 8 > t->expected_bytes - exact) || plain % 8 || (exact >= 0 && exact % 8)))
		rc = err_set(err, ERR_FORMAT, "oracle's outputs do not lie in their memory");
	if (rc) return rc;
	out->is_passed = json_is_true(json_object_get(e, "passed"));
	out->plain = t->expected + plain;
	out->noise = noise >= 0 ? (const double *)(const void *)(t->expected + noise) : NULL;
	out->exact = exact >= 0 ? (const double *)(const void *)(t->expected + exact) : NULL;
	return 0;
}

static int after_read(const json_t *list, struct oracle_trial *t, struct err *err)
{
	size_t n = json_array_size(list);
	if (n > (size_t)t->nparams) return err_set(err, ERR_FORMAT, "oracle's trial: more buffers changed than there are");
	t->after = xcalloc(n + 1, sizeof *t->after);
	for (size_t i = 0; i < n; i++) {
		const json_t *e = json_array_get(list, i);
		struct oracle_after *to = &t->after[i];
		int64_t param = 0;
		int rc = json_get_int(e, "buffer", "param", 0, t->nparams - 1, &param, err);
		if (!rc) rc = output_read(e, t, &to->want, err);
		if (rc) return rc;
		to->param = (int)param;
		if (compare_elements(&to->want) * (int64_t)dtype_bytes(to->want.dtype) != t->params[param].bytes)
			return err_set(err, ERR_FORMAT, "oracle's trial: a buffer has another size after forward");
		t->nafter++;
	}
	return 0;
}

/* A sealed memfd cannot change or shrink under our mapping. */
static int fd_check(int fd, int64_t *bytes, struct err *err)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS_NEEDED) != SEALS_NEEDED || fstat(fd, &st))
		return err_set(err, ERR_FORMAT, "oracle's data is not in a sealed memfd");
	*bytes = st.st_size;
	return 0;
}

static int map_fd(int fd, int64_t bytes, uint8_t **out, struct err *err)
{
	if (bytes == 0) return 0;
	void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return err_set(
			err, ERR_INFRA, "mapping %lld bytes of the oracle's data: %s", (long long)bytes, strerror(errno));
	*out = p;
	return 0;
}

/* What a trial's message says, over its two pieces of memory. On failure the caller releases
 * what was taken so far. */
int oracle_trial_read(const json_t *o, int given_fd, int expected_fd, struct oracle_trial *t, struct err *err)
{
	const json_t *outputs = json_object_get(o, "outputs");
	/* The given data stay as a descriptor, for runners; both are mapped and their sizes are the
	 * mapping's, not the message's. */
	t->given_fd = fcntl(given_fd, F_DUPFD_CLOEXEC, 3);
	int rc = t->given_fd < 0 ? err_set(err, ERR_INFRA, "no descriptor for a trial's data: %s", strerror(errno))
							 : fd_check(t->given_fd, &t->given_bytes, err);
	if (!rc) rc = fd_check(expected_fd, &t->expected_bytes, err);
	if (!rc) rc = map_fd(t->given_fd, t->given_bytes, &t->given, err);
	if (!rc) rc = map_fd(expected_fd, t->expected_bytes, &t->expected, err);
	/* Every place that the message names has to lie in them. */
	if (!rc) rc = oracle_given_read(json_object_get(o, "inputs"), t->given_bytes, false, &t->inputs, &t->ninputs, err);
	if (!rc) rc = oracle_given_read(json_object_get(o, "params"), t->given_bytes, true, &t->params, &t->nparams, err);
	if (!rc && (!json_is_array(outputs) || json_array_size(outputs) > TAPE_OUTPUTS_MAX))
		rc = err_set(err, ERR_FORMAT, "the reference returns %zu tensors, at most %d are supported",
			json_array_size(outputs), TAPE_OUTPUTS_MAX);
	if (rc) return rc;
	t->outputs = xcalloc(json_array_size(outputs) + 1, sizeof *t->outputs);
	t->bounds = xcalloc(json_array_size(outputs) + 1, sizeof *t->bounds);
	for (; !rc && t->noutputs < (int)json_array_size(outputs); t->noutputs++)
		rc = output_read(json_array_get(outputs, (size_t)t->noutputs), t, &t->outputs[t->noutputs], err);
	return rc ? rc : after_read(json_object_get(o, "after"), t, err);
}

/* Bounds are set when the cost is known, since they depend on whether the task has matrix products.
 */
void oracle_trial_calibrate(const struct oracle_data *d, struct oracle_trial *t, bool tf32)
{
	for (int i = 0; i < t->nafter; i++) compare_calibrate(&t->after[i].want, d->has_dot, tf32, &t->after[i].bound);
	for (int j = 0; j < t->noutputs; j++) {
		compare_calibrate(&t->outputs[j], d->has_dot, tf32, &t->bounds[j]);
		/* A stock trial says less than others where the error is large, and nothing
		 * where the reference itself would be wrong: a mean of what was normalised is
		 * nothing but its roundings. */
		const struct compare_bound *b = &t->bounds[j];
		bool is_noise = b->nonfinite == 0 && b->reference_error > b->tolerance;
		bool is_told = t->is_stock ? !is_noise : b->is_usable;
		if (t->counts && !t->is_edge && !is_told) {
			t->counts = false;
			snprintf(t->why, sizeof t->why, "the reference's own error there is %.2g", b->reference_error);
		}
	}
}

static int trial_take(
	const json_t *o, const struct oracle_options *opt, const int *fds, int nfds, struct oracle_data *d, struct err *err)
{
	int64_t index = 0, variant = 0;
	bool is_edge = false;
	const char *distribution = "", *skipped = NULL;
	int rc = json_get_int(o, "trial", "index", 0, opt->num_trials + opt->num_checks - 1, &index, err);
	if (!rc) rc = json_opt_int(o, "trial", "variant", 0, d->nvariants - 1, &variant, err);
	if (!rc) rc = json_opt_bool(o, "trial", "edge", &is_edge, err);
	if (!rc) rc = json_get_str(o, "trial", "distribution", &distribution, err);
	if (!rc) rc = json_opt_str(o, "trial", "skipped", &skipped, err);
	/* Trials come in the order in which they were asked for: TRIALS says what each of them is. */
	if (!rc && index != d->ntrials)
		rc = err_set(err, ERR_FORMAT, "oracle's trial %lld comes as number %d", (long long)index, d->ntrials);
	if (rc) return rc;
	struct oracle_trial *t = &d->trials[d->ntrials++];
	bool is_check = index >= opt->num_trials;
	/* Behind the table's end its rows come again without the first, as in job_json. Stock and
	 * random are taken from the table and not from the message. */
	size_t at = is_check                    ? 0
		: (size_t)index < ARRAY_LEN(TRIALS) ? (size_t)index
											: 1 + (size_t)index % (ARRAY_LEN(TRIALS) - 1);
	*t = (struct oracle_trial){.given_fd = -1,
		.variant = (int)variant,
		.is_check = is_check,
		.is_edge = is_edge,
		.is_random_params = TRIALS[at].random_params,
		.is_wide = TRIALS[at].random_params && !strcmp(TRIALS[at].distribution, "near-one"),
		.is_stock = TRIALS[at].variant == SIZES_STOCK && !strcmp(TRIALS[at].distribution, "stock")};
	snprintf(t->distribution, sizeof t->distribution, "%s", distribution);
	/* A trial may be left out with a reason, but not a stock one, which is KernelBench's check. */
	if (skipped) {
		snprintf(t->why, sizeof t->why, "%s", skipped);
		return t->is_stock && !is_check ? err_set(err, ERR_FORMAT, "a stock trial was skipped: %s", skipped) : 0;
	}
	t->counts = !is_edge && !is_check;
	if (is_check) snprintf(t->why, sizeof t->why, "for KernelBench's own verdict alone");
	if (nfds != 2) return err_set(err, ERR_FORMAT, "oracle's trial came with %d descriptors", nfds);
	rc = oracle_trial_read(o, fds[0], fds[1], t, err);
	d->bytes += t->given_bytes + t->expected_bytes;
	return rc;
}

/* Constants of the task that were changed. is_judged: the sizes at which all is judged, in
 * place of the task's own. */
static void changed_text(const json_t *changed, bool is_judged, char *text, size_t len)
{
	const char *name;
	json_t *value;
	size_t used = 0;
	json_object_foreach((json_t *)(uintptr_t)changed, name, value)
	{
		long long before = (long long)json_integer_value(json_array_get(value, 0)),
				  after = (long long)json_integer_value(json_array_get(value, 1));
		if (used >= len) return;
		used += is_judged
			? (size_t)snprintf(
				  text + used, len - used, "%s%.40s %lld, stock %lld", used ? "; " : "", name, after, before)
			: (size_t)snprintf(text + used, len - used, "%s%.40s %lld -> %lld", used ? ", " : "", name, before, after);
	}
}

int oracle_variant_read(const json_t *o, struct oracle_variant *out, struct err *err)
{
	const json_t *job = json_object_get(o, "job");
	*out = (struct oracle_variant){job, json_object_get(job, "state"), json_is_true(json_object_get(job, "training")),
		json_string_value(json_object_get(o, "kind")), json_string_value(json_object_get(o, "source")), ""};
	if (!json_is_array(json_object_get(job, "init_args")) || !json_is_object(out->state) || !out->kind ||
		!out->source || !json_is_array(json_object_get(job, "inputs")))
		return err_set(err, ERR_FORMAT, "a variant of the oracle's is incomplete");
	changed_text(json_object_get(o, "changed"), !strcmp(out->kind, "stock"), out->changed, sizeof out->changed);
	return 0;
}

const struct oracle_trial *oracle_first_trial(const struct oracle_data *d)
{
	for (int i = 0; i < d->ntrials; i++)
		if (d->trials[i].counts && d->trials[i].variant == 0) return &d->trials[i];
	return NULL;
}

const struct oracle_trial *oracle_hidden_trial(const struct oracle_data *d)
{
	/* Of the first trials the last that counts: its values and parameters are hidden. */
	enum { LAST = 2 };
	for (int i = MIN(d->ntrials - 1, LAST); i >= 0; i--)
		if (d->trials[i].counts && d->trials[i].variant == 0) return &d->trials[i];
	return NULL;
}

const struct oracle_variant *oracle_variant_of(const struct oracle_data *d, const struct oracle_trial *t)
{
	return t->sized ? t->sized : &d->variants[t->variant];
}

static int task_take(json_t *o, struct oracle_data *d, struct err *err)
{
	const json_t *variants = json_object_get(o, "variants");
	size_t n = json_array_size(variants);
	if (n < 1 || n > ORACLE_VARIANTS_MAX || d->task)
		return err_set(err, ERR_FORMAT, "oracle's task message has %zu variants", n);
	d->task = json_incref(o);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++)
		rc = oracle_variant_read(json_array_get(variants, i), &d->variants[d->nvariants++], err);
	return rc;
}

static void cost_take(json_t *o, struct oracle_data *d)
{
	json_decref(d->cost);
	d->cost = json_incref(o);
	const json_t *eager = json_object_get(o, "eager");
	d->narrows = json_is_true(json_object_get(o, "narrows"));
	d->rounds = json_is_true(json_object_get(o, "rounds"));
	for (size_t i = 0; i < json_array_size(eager); i++)
		d->has_dot |= json_integer_value(json_object_get(json_array_get(eager, i), "dot_flops")) > 0;
}

/* Sizes at which costs are predicted. What is not as it should be is no more
 * than a reason not to. */
static void priced_take(json_t *o, struct oracle_data *d)
{
	const json_t *job = json_object_get(o, "job");
	bool is_whole = json_is_array(json_object_get(job, "init_args")) && json_is_array(json_object_get(job, "inputs")) &&
		json_is_object(json_object_get(job, "state"));
	json_decref(d->priced);
	d->priced = is_whole || json_is_true(json_object_get(o, "same")) || json_is_string(json_object_get(o, "why"))
		? json_incref(o)
		: json_pack("{s:s}", "why", "the oracle describes no other sizes");
	changed_text(json_object_get(o, "changed"), true, d->priced_at, sizeof d->priced_at);
}

static int fault_take(const json_t *o, struct oracle_fault *fault, struct err *err)
{
	const char *code = "", *text = "";
	int64_t line = 0;
	int rc = json_get_str(o, "fault", "code", &code, err);
	if (!rc) rc = json_get_str(o, "fault", "text", &text, err);
	if (!rc) rc = json_opt_int(o, "fault", "line", 0, INT32_MAX, &line, err);
	if (rc) return rc;
	if (!strcmp(code, ORACLE_FAULT_OURS))
		return err_set(err, ERR_INFRA, "our own code around the task's reference failed: %.600s", text);
	snprintf(fault->code, sizeof fault->code, "%s", strncmp(code, "task-", 5) ? "task-broken" : code);
	snprintf(fault->text, sizeof fault->text, "%s", text);
	fault->line = (int)line;
	return ERR_MISMATCH;
}

static enum dtype task_dtype(const struct oracle_data *d)
{
	for (int i = 0; i < d->ntrials; i++)
		for (int j = 0; j < d->trials[i].noutputs; j++)
			if (dtype_is_float(d->trials[i].outputs[j].dtype)) return d->trials[i].outputs[j].dtype;
	return DTYPE_F32;
}

/* One message: 1 when it was the last. */
static int message_take(const struct str *text, const int *fds, int nfds, const struct oracle_options *o,
	struct oracle_data *d, struct oracle_fault *fault, struct err *err)
{
	json_t *m = NULL;
	int rc = json_parse(text->data, text->len, "oracle's message", &m, err);
	if (rc) return rc;
	json_array_append_new(d->messages, m);
	json_t *task = json_object_get(m, "task"), *trial = json_object_get(m, "trial"), *cost = json_object_get(m, "cost");
	if (json_object_get(m, "fault")) return fault_take(json_object_get(m, "fault"), fault, err);
	if (task) return task_take(task, d, err);
	if (trial) return trial_take(trial, o, fds, nfds, d, err);
	if (cost) cost_take(cost, d);
	if (json_object_get(m, "priced")) priced_take(json_object_get(m, "priced"), d);
	if (!json_is_true(json_object_get(m, "done"))) return 0;
	return d->task && d->cost && d->ntrials == o->num_trials + o->num_checks
		? 1
		: err_set(err, ERR_FORMAT, "the oracle ended early");
}

/* The processor time is a limit of the process's own (the system ends it there), so that a
 * loaded machine gives the same answer as an idle one; the wall clock is for references
 * that wait for something. */
struct job_limits oracle_limits(const struct oracle_options *o, uint64_t *deadline)
{
	struct job_limits l = o->limits;
	l.cpu_s = (o->timeout_ms + 999) / 1000;
	*deadline = deadline_in_ms((int64_t)o->timeout_ms * WALL_TIMES);
	return l;
}

int oracle_next(struct job *j, const struct oracle_options *o, size_t bytes_max, struct str *out, int *fds, int *nfds,
	uint64_t deadline, struct err *err)
{
	int64_t cpu = job_cpu_ms(j), asleep = job_asleep_ms(j);
	/* It is looked at now and then until it speaks; a message that has begun is read as a whole. */
	for (;;) {
		uint64_t look = clock_ns() + LOOK_MS * 1000000u;
		int rc = job_poll(j, MIN(look, deadline), err);
		if (!rc) return job_next(j, bytes_max, out, fds, nfds, deadline, err);
		if (rc != ERR_TIMEOUT) return rc;
		if (clock_ns() >= deadline)
			return err_set(err, ERR_TIMEOUT, "it took longer than %lld ms by the clock, ten times what it may compute",
				(long long)o->timeout_ms * WALL_TIMES);
		if (!o->silent_ms) continue;
		if (job_cpu_ms(j) - cpu > o->silent_ms)
			return err_set(err, ERR_TIMEOUT,
				"it hangs: it computed for %d ms without a result, where all trials together may take %d ms",
				o->silent_ms, o->timeout_ms);
		if (job_asleep_ms(j) - asleep > o->silent_ms)
			return err_set(
				err, ERR_TIMEOUT, "it hangs: it slept for %d ms, waiting for what does not come", o->silent_ms);
	}
}

static int took_too_long(const char *how, struct oracle_fault *fault)
{
	snprintf(fault->code, sizeof fault->code, "task-timeout");
	snprintf(fault->text, sizeof fault->text, "the task's reference gave no results: %.300s", how);
	return ERR_MISMATCH;
}

/* How a reference that gave no result ended. */
static int broken(
	struct job *j, const struct oracle_options *o, const char *what, struct oracle_fault *fault, struct err *err)
{
	char status[64] = "closed its socket";
	job_wait(j, 1000);
	if (job_check_entered(j, err)) return ERR_INFRA;
	if (job_is_out_of_time(j)) {
		snprintf(status, sizeof status, "all trials took longer than %d ms to compute", o->timeout_ms);
		return took_too_long(status, fault);
	}
	if (j->ended) child_status_text(j->status, status, sizeof status);
	snprintf(fault->code, sizeof fault->code, "%s", "task-broken");
	snprintf(fault->text, sizeof fault->text, "the task's reference gave no result: %s (%.300s)", status, what);
	return ERR_MISMATCH;
}

int oracle_run(struct zygote *z, const struct task *task, const struct oracle_options *o, struct oracle_data **out,
	struct oracle_fault *fault, struct err *err)
{
	CHECKF(o->num_trials >= 1 && o->num_checks >= 0 && o->num_trials + o->num_checks <= ORACLE_TRIALS_MAX,
		"%d and %d trials", o->num_trials, o->num_checks);
	struct job job;
	uint64_t deadline;
	struct job_limits limits = oracle_limits(o, &deadline);
	int rc = job_start(z, &limits, oracle_job(task, o), &job, err);
	if (rc) return rc;
	struct oracle_data *d = xcalloc(1, sizeof *d);
	d->messages = json_array();
	struct str text = {0};
	while (rc == 0) {
		int fds[WORKER_FDS_MAX], nfds = WORKER_FDS_MAX;
		struct err local = {0};
		rc = oracle_next(&job, o, MESSAGE_BYTES_MAX, &text, fds, &nfds, deadline, &local);
		if (rc && err) *err = local;
		/* The process had the reference's code in it, so its end or a broken message is the task's
		 * fault, unless broken finds one of the infrastructure. */
		if (rc == ERR_CHILD || rc == ERR_LIMIT || rc == ERR_IO) {
			rc = broken(&job, o, err ? err->text : "", fault, err);
			break;
		} else if (rc == ERR_TIMEOUT) {
			rc = took_too_long(local.text, fault);
			break;
		} else if (rc) {
			break;
		}
		rc = message_take(&text, fds, nfds, o, d, fault, err);
		for (int i = 0; i < nfds; i++) close(fds[i]);
		/* A message that makes no sense is the task's fault too, not the infrastructure's. */
		if (rc < 0 && rc != ERR_MISMATCH && rc != ERR_INFRA) {
			snprintf(fault->code, sizeof fault->code, "task-unsupported");
			snprintf(fault->text, sizeof fault->text, "%s", err ? err->text : "");
			rc = ERR_MISMATCH;
		}
	}
	job_end(&job);
	str_release(&text);
	if (rc != 1) {
		oracle_data_free(d);
		return rc;
	}
	/* The cost has come by now, and with it what the bounds depend on. */
	for (int i = 0; i < d->ntrials; i++) oracle_trial_calibrate(d, &d->trials[i], o->tf32);
	d->dtype = task_dtype(d);
	d->null_kernel = oracle_null_kernel(d);
	*out = d;
	return 0;
}

void oracle_trial_release(struct oracle_trial *t)
{
	if (t->given_fd >= 0) close(t->given_fd);
	if (t->given) munmap(t->given, (size_t)t->given_bytes);
	if (t->expected) munmap(t->expected, (size_t)t->expected_bytes);
	free(t->inputs);
	free(t->params);
	for (int j = 0; j < t->noutputs && t->bounds; j++) compare_bound_release(&t->bounds[j]);
	for (int i = 0; i < t->nafter; i++) compare_bound_release(&t->after[i].bound);
	free(t->after);
	free(t->outputs);
	free(t->bounds);
	json_decref(t->message);
	*t = (struct oracle_trial){.given_fd = -1};
}

void oracle_data_free(struct oracle_data *d)
{
	if (!d) return;
	for (int i = 0; i < d->ntrials; i++) oracle_trial_release(&d->trials[i]);
	json_decref(d->task);
	json_decref(d->cost);
	json_decref(d->priced);
	json_decref(d->messages);
	free(d);
}
