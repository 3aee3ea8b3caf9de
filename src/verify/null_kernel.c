/* null_kernel: the audit of a task. Outputs that no kernel computed are compared as a candidate's
 * would be; a task under which one of them passes every counted trial tells nothing about
 * candidates and is said so. (Softmax over many columns with a loose absolute tolerance passed
 * zeros elsewhere; ELU and hardtanh on positive inputs passed the identity.) */
#include "verify/oracle.h"
#include "base/base.h"
#include "base/dtype.h"
#include <math.h>
#include <stdlib.h>

#define HIDDEN_SHARE 16   /* this part of an output, never seen by any trial, is too much */

/* Fills output `index` of a trial with what the cheat would leave there. `known` is the trial that
 * the cheat was made from. */
typedef void make_fn(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out);

static void make_zeros(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out)
{
	const struct compare_output *o = &t->outputs[index];
	memset(out, 0, (size_t)compare_elements(o) * dtype_bytes(o->dtype));
}

/* The first input's bytes, repeated. Bytes suffice: a first input of
 * another type is no identity. */
static void make_first_input(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out)
{
	const struct compare_output *o = &t->outputs[index];
	size_t bytes = (size_t)compare_elements(o) * dtype_bytes(o->dtype),
		   have = t->ninputs ? (size_t)t->inputs[0].bytes : 0;
	if (!have) {
		memset(out, 0, bytes);
		return;
	}
	for (size_t at = 0; at < bytes; at += have) memcpy(out + at, t->given + t->inputs[0].offset, MIN(have, bytes - at));
}

/* A constant that was right on average once. */
static void make_mean(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out)
{
	const struct compare_output *o = &t->outputs[index], *seen = &known->outputs[index];
	int64_t n = compare_elements(o), have = compare_elements(seen);
	double sum = 0;
	for (int64_t i = 0; i < have; i++) sum += dtype_load(seen->dtype, seen->plain, i);
	for (int64_t i = 0; i < n; i++) dtype_store(o->dtype, out, i, have ? sum / (double)have : 0);
}

/* The first trial's own outputs again, whatever the inputs are. */
static void make_first_outputs(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out)
{
	const struct compare_output *o = &t->outputs[index], *seen = &known->outputs[index];
	int64_t n = compare_elements(o), have = compare_elements(seen);
	for (int64_t i = 0; i < n; i++)
		dtype_store(o->dtype, out, i, have ? dtype_load(seen->dtype, seen->plain, i % have) : 0);
}

/* All right up to the last sixteenth, which nobody wrote. */
static void make_partial(const struct oracle_trial *t, const struct oracle_trial *known, int index, uint8_t *out)
{
	const struct compare_output *o = &t->outputs[index];
	size_t bytes = (size_t)compare_elements(o) * dtype_bytes(o->dtype), left = (bytes + 15) / 16;
	memcpy(out, o->plain, bytes);
	memset(out + bytes - left, 0xff, left);
}

static const struct {
	const char *name;
	make_fn *make;
} NULL_KERNELS[] = {
	{"zeros", make_zeros},
	{"the first input", make_first_input},
	{"a constant", make_mean},
	{"an unfinished output", make_partial},
	{"trial 1's outputs", make_first_outputs},
};

static bool passes(const struct oracle_trial *t, const struct oracle_trial *known, make_fn *make)
{
	for (int i = 0; i < t->noutputs; i++) {
		size_t bytes = (size_t)compare_elements(&t->outputs[i]) * dtype_bytes(t->outputs[i].dtype);
		uint8_t *fake = xmalloc(bytes ? bytes : 1);
		struct compare_result r;
		make(t, known, i, fake);
		compare_run(&t->outputs[i], &t->bounds[i], fake, &r);
		free(fake);
		if (!r.is_equal) return false;
	}
	return true;
}

/* Whether zeros could stand for a sixteenth and more of an output because no counted trial at the
 * first sizes sees them. By chance alone half of a rectifier's elements are zero in a trial, and
 * 2^-k of them in all of k: twice that is no sign of the task. */
static bool hides_elements(const struct oracle_data *d, int index)
{
	int64_t n = compare_elements(&d->trials[0].outputs[index]), hidden = 0, by_chance = 2 * n;
	uint8_t *seen = xcalloc((size_t)n + 1, 1);
	uint8_t *is_small = xcalloc((size_t)n + 1, 1);
	for (int k = 0; k < d->ntrials; k++) {
		const struct oracle_trial *t = &d->trials[k];
		if (!t->counts || t->variant != 0 || t->noutputs <= index || compare_elements(&t->outputs[index]) != n)
			continue;
		by_chance /= 2;
		for (int64_t i = 0; i < n; i++) {
			bool sees = compare_sees(&t->outputs[index], &t->bounds[index], i);
			is_small[i] |= !sees;
			/* a zero of the reference is seen, but says nothing about the
			 * element where it is not zero */
			seen[i] |= sees && dtype_load(t->outputs[index].dtype, t->outputs[index].plain, i) != 0;
		}
	}
	for (int64_t i = 0; i < n; i++) hidden += is_small[i] && !seen[i];
	free(seen);
	free(is_small);
	return hidden > 0 && hidden >= n / HIDDEN_SHARE + by_chance;
}

const char *oracle_null_kernel(const struct oracle_data *d)
{
	bool any_counts = false;
	for (int i = 0; i < d->ntrials; i++) any_counts |= d->trials[i].counts;
	if (!any_counts) return "anything";
	for (int i = 0; i < d->trials[0].noutputs; i++)
		if (hides_elements(d, i)) return "zero where it is small";
	for (size_t k = 0; k < ARRAY_LEN(NULL_KERNELS); k++) {
		/* What repeats the first trial's outputs is right there by its making: the others judge
		 * it, where there are any. */
		bool knows_first = NULL_KERNELS[k].make == make_first_outputs, all = true;
		int judged = 0;
		for (int i = knows_first; i < d->ntrials && all; i++) {
			const struct oracle_trial *t = &d->trials[i];
			if (!t->counts) continue;
			judged++;
			all = t->noutputs == d->trials[0].noutputs && passes(t, &d->trials[0], NULL_KERNELS[k].make);
		}
		if (all && judged) return NULL_KERNELS[k].name;
	}
	return NULL;
}
