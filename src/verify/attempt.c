/* attempt: one trial handed to a runner, and its outputs mapped when it has answered. */
#include "verify/attempt.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/compare.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void params_stand_in(const struct tape *t, const json_t *state, const struct runner_given *params, int nparams, int *of)
{
	bool *is_taken = xcalloc((size_t)nparams + 1, sizeof *is_taken);
	for (int b = 0; b < t->nbuffers; b++)
		for (int p = 0; p < nparams && t->buffers[b].kind == TAPE_PARAM; p++)
			is_taken[p] |= !strcmp(t->buffers[b].name, params[p].name);
	for (int b = 0; b < t->nbuffers; b++) {
		const struct tape_buffer *tb = &t->buffers[b];
		of[b] = -1;
		if (tb->kind != TAPE_CONST || !tb->name || !tb->name[0]) continue;
		struct sha256_hex hash = hash_bytes(tb->data, (size_t)tb->bytes);
		for (int p = 0; p < nparams && of[b] < 0; p++) {
			const char *want = json_string_value(json_object_get(json_object_get(state, params[p].name), "sha256"));
			if (is_taken[p] || params[p].bytes != tb->bytes || !want || strcmp(want, hash.text)) continue;
			is_taken[p] = true;
			of[b] = p;
		}
	}
	free(is_taken);
}

/* Returns how many names of constants that stand for a parameter were added to `params`. */
static int params_pair(
	const struct tape *t, const struct oracle_data *d, const struct oracle_trial *trial, struct runner_given *params)
{
	int *of = xcalloc((size_t)t->nbuffers + 1, sizeof *of), added = 0;
	params_stand_in(t, oracle_variant_of(d, trial)->state, trial->params, trial->nparams, of);
	for (int b = 0; b < t->nbuffers; b++) {
		if (of[b] < 0) continue;
		params[added] = trial->params[of[b]];
		params[added].name = t->buffers[b].name;
		params[added++].for_const = true;
	}
	free(of);
	return added;
}

bool params_are_seeded(const struct tape *t, const struct oracle_data *d)
{
	const struct oracle_trial *trial = &d->trials[0];
	int named = 0;
	for (int b = 0; b < t->nbuffers; b++)
		named += t->buffers[b].kind == TAPE_CONST && t->buffers[b].name && t->buffers[b].name[0];
	struct runner_given *pairs = xcalloc((size_t)named + 1, sizeof *pairs);
	int paired = params_pair(t, d, trial, pairs);
	free(pairs);
	return paired < named;
}

static bool is_given(const struct oracle_trial *t, const struct runner_given *g, const void *bytes, size_t size)
{
	return (size_t)g->bytes == size && t->given && !memcmp(t->given + g->offset, bytes, size);
}

static size_t output_bytes(const struct oracle_trial *t, int output)
{
	return (size_t)compare_elements(&t->outputs[output]) * dtype_bytes(t->outputs[output].dtype);
}

/* Whether something that the trials are given holds the reference's output in all of them: input or
 * parameter number k, or, for k = -1, what its output was in the first trial of the same sizes. */
static bool is_always_given(const struct oracle_data *d, int output, bool is_param, int k)
{
	const struct oracle_trial *first[ORACLE_VARIANTS_MAX] = {0};
	bool was_compared = false;
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (!t->counts) continue;
		if (output >= t->noutputs || !t->outputs[output].plain || !output_bytes(t, output)) return false;
		const struct oracle_trial *f = first[t->variant];
		const void *plain = t->outputs[output].plain;
		size_t size = output_bytes(t, output);
		bool same = k < 0 ? !f || (output_bytes(f, output) == size && !memcmp(f->outputs[output].plain, plain, size))
			: is_param    ? k < t->nparams && is_given(t, &t->params[k], plain, size)
						  : k < t->ninputs && is_given(t, &t->inputs[k], plain, size);
		if (!same) return false;
		was_compared |= f != NULL;
		first[t->variant] = f ? f : t;
	}
	return was_compared;
}

/* Whether the reference hands on a view of what it was given (a transposed input, a slice), at the
 * task's own sizes and strides; elsewhere the same text may have to copy. */
static bool is_passed(const struct oracle_data *d, int output)
{
	bool any = false;
	for (int i = 0; i < d->ntrials; i++) {
		const struct oracle_trial *t = &d->trials[i];
		if (!t->counts || t->variant) continue;
		if (output >= t->noutputs || !t->outputs[output].is_passed) return false;
		any = true;
	}
	return any;
}

uint64_t attempt_given(const struct oracle_data *d, int noutputs)
{
	uint64_t mask = 0;
	for (int i = 0; i < noutputs; i++) {
		bool found = is_passed(d, i) || is_always_given(d, i, false, -1);
		for (int k = 0; k < d->trials[0].ninputs && !found; k++) found = is_always_given(d, i, false, k);
		for (int k = 0; k < d->trials[0].nparams && !found; k++) found = is_always_given(d, i, true, k);
		if (found) mask |= (uint64_t)1 << i;
	}
	return mask;
}

/* Nothing that is given is protected: inputs as a copy, parameters in place. */
static struct runner_given *given_free(struct runner_trial *t)
{
	struct runner_given *inputs = xcalloc((size_t)t->ninputs + 1, sizeof *inputs);
	if (t->ninputs) memcpy(inputs, t->inputs, (size_t)t->ninputs * sizeof *inputs);
	for (int i = 0; i < t->ninputs; i++) inputs[i].may_change = true;
	for (int i = 0; i < t->nparams; i++) t->params[i].may_change = true;
	return inputs;
}

/* One replay of one trial by one runner. The outputs' memory is made here, sealed in size, and read
 * only after the runner answered. */
int attempt_run(
	struct grading *g, struct runner *runner, const struct attempt *a, struct attempt_result *out, struct err *err)
{
	const struct trace *tr = a->trace;
	const struct oracle_trial *t = a->trial;
	struct runner_trial rt = {.ninputs = t->ninputs,
		.inputs = t->inputs,
		.want_cost = a->want_cost,
		.crosswise = a->is_crosswise,
		.is_unchecked = a->is_unchecked,
		.is_overlapped = a->is_overlapped,
		.may_be_given = a->may_be_given,
		.want_coverage = a->want_coverage,
		.is_search = t->is_guided,
		.want_missed = a->want_missed,
		.is_timed = a->asker != NULL,
		.deadline_ms = a->deadline_ms ? a->deadline_ms : g->s->limits.replay_timeout_ms,
		.compiled = a->want_cost ? g->compiled : NULL,
		.gpu = g->s->gpu.name};
	if (a->aims) {
		rt.naims = a->aims->naims;
		rt.aim_replays = a->aims->aim_replays;
		rt.aim_programs = a->aims->aim_programs;
		memcpy(rt.aims, a->aims->aims, sizeof rt.aims);
		rt.want_turned = a->aims->want_turned;
	}
	*out = (struct attempt_result){.bytes = 64};
	/* The reference's parameters, and those that the candidate calls otherwise. */
	rt.params = xcalloc((size_t)(t->nparams + tr->tape->nbuffers) + 1, sizeof *rt.params);
	memcpy(rt.params, t->params, (size_t)t->nparams * sizeof *rt.params);
	rt.nparams = t->nparams + params_pair(tr->tape, g->oracle, t, rt.params + t->nparams);
	/* Where each output is to lie, and behind them the buffers that are looked at. */
	for (int i = 0; i < tr->tape->noutputs; i++) {
		rt.output_offset[i] = out->offset[i] = out->bytes;
		out->bytes += runner_output_bytes(&tr->tape->outputs[i]);
	}
	out->state = state_ask(t, rt.params, rt.nparams, &out->bytes);
	int fd = memfd_make("outputs", (size_t)out->bytes, err);
	if (fd < 0) {
		free(rt.params);
		attempt_release(out);
		return err_set(err, ERR_INFRA, "no memory for %lld bytes of outputs", (long long)out->bytes);
	}

	/* An unchecked run may write where it likes; the answer has ATTEMPT_GRACE_MS to arrive. */
	if (a->is_unchecked) rt.inputs = given_free(&rt);
	uint64_t deadline = deadline_in_ms(rt.deadline_ms + ATTEMPT_GRACE_MS);
	struct runner_data data = {t->given_fd, fd, runner == &g->runner && g->library ? &g->computes : NULL, a->asker};
	int rc = runner_try(runner, &rt, tr->tape->noutputs, &data, deadline, &out->result, err);
	if (!rc) rc = runner_result_check(&out->result, tr->tape, err);
	if (a->is_unchecked) free(rt.inputs);
	free(rt.params);
	/* The runner has answered: what it wrote is mapped for reading. */
	if (!rc) {
		void *outputs = mmap(NULL, (size_t)out->bytes, PROT_READ, MAP_SHARED, fd, 0);
		if (outputs == MAP_FAILED)
			rc = err_set(err, ERR_INFRA, "mapping %lld bytes of outputs: %s", (long long)out->bytes, strerror(errno));
		else out->outputs = outputs;
	}
	close(fd);
	if (rc) attempt_release(out);
	return rc;
}

void attempt_release(struct attempt_result *r)
{
	if (r->outputs) munmap((void *)(uintptr_t)r->outputs, (size_t)r->bytes);
	runner_result_release(&r->result);
	free(r->state);
	*r = (struct attempt_result){0};
}
