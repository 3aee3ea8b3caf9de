/* gpu_cause: why a trial is right on the vm and wrong on a GPU, where the kernel
 * may be right all the same.
 *
 * Two causes are known in which an honest kernel and the IR part on a GPU: subnormal inputs, which
 * libraries for GPUs take for zero, and contraction, where a product and a sum are rounded once.
 * Neither is believed because it might be: the same trial is run again without the cause, and has
 * to be right then. What a kernel could make of a cause (it tells it that it runs on a GPU) is kept
 * small: both hold for inputs alone that no task's own data are like. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "verify/oracle.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Magnitudes that the ordinary trials stay below (heavy-tail ends at 50): a kernel for which
 * contraction matters there is wrong for whoever runs it. */
#define CONTRACTED_FROM 64.0
/* Recipes under which a kernel as it is compiled has to be right, all inputs times one of these:
 * beyond 88, where an exponential overflows, and small enough that what a product's rounding leaves
 * behind is below the bound. The first with which the reference is exact decides: where inputs are
 * multiplied with each other it is one of the later. */
static const double CONTRACTED_SCALES[] = {64, 16, 4};
#define CONTRACTED_SLACK 16 /* of that trial's bound: what is left over grows with the numbers, and not at once */
#define CONTRACTED_NUMBER 500 /* of that trial's seed, beside the guided search's */
/* Weights drawn far from their beginning make large numbers of inputs near one (scores of hundreds
 * in front of an exponential). There is no trial beside that one in which such weights have to be
 * right, so what contraction leaves over may only be this many of the bound. */
#define CONTRACTED_NEAR 16
/* Vm and GPU may each be off by the bound, to either side. */
#define APART 2.0

bool gpu_cause_flush(enum dtype dtype, uint8_t *data, int64_t bytes)
{
	bool found = false;
	/* Half precision's subnormal numbers are ordinary ones in fp32, in which kernels compute. */
	for (int64_t i = 0; dtype == DTYPE_F32 && i < bytes / 4; i++) {
		uint32_t v;
		memcpy(&v, data + 4 * i, 4);
		if (v & 0x7f800000u || !(v & 0x7fffffu)) continue;
		v &= 0x80000000u;
		memcpy(data + 4 * i, &v, 4);
		found = true;
	}
	for (int64_t i = 0; dtype == DTYPE_BF16 && i < bytes / 2; i++) {
		uint16_t v;
		memcpy(&v, data + 2 * i, 2);
		if (v & 0x7f80u || !(v & 0x7fu)) continue;
		v &= 0x8000u;
		memcpy(data + 2 * i, &v, 2);
		found = true;
	}
	return found;
}

double gpu_cause_largest(const struct oracle_trial *t)
{
	double largest = 0;
	for (int i = 0; i < t->ninputs; i++) {
		const struct runner_given *g = &t->inputs[i];
		if (!t->given || g->dtype == DTYPE_COUNT || !dtype_is_float(g->dtype)) continue;
		int64_t n = g->bytes / (int64_t)dtype_bytes(g->dtype);
		for (int64_t k = 0; k < n; k++) {
			double v = fabs(dtype_load(g->dtype, t->given + g->offset, k));
			if (isfinite(v)) largest = fmax(largest, v);
		}
	}
	return largest;
}

/* The trial with zeros for its subnormal inputs, in memory of its own; false where it has none. */
static bool flushed_make(const struct oracle_trial *t, struct oracle_trial *out, int *rc, struct err *err)
{
	*out = *t;
	out->given_fd = -1;
	out->given = NULL;
	if (!t->given) return false;
	int fd = memfd_make("given", (size_t)t->given_bytes, err);
	void *p = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)t->given_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		*rc = err_set(
			err, ERR_INFRA, "no memory for %lld bytes of inputs: %s", (long long)t->given_bytes, strerror(errno));
		if (fd >= 0) close(fd);
		return false;
	}
	memcpy(p, t->given, (size_t)t->given_bytes);
	out->given_fd = fd;
	out->given = p;
	bool found = false;
	for (int i = 0; i < t->ninputs; i++)
		found |= gpu_cause_flush(t->inputs[i].dtype, out->given + t->inputs[i].offset, t->inputs[i].bytes);
	return found;
}

static void flushed_release(struct oracle_trial *t)
{
	if (t->given) munmap(t->given, (size_t)t->given_bytes);
	if (t->given_fd >= 0) close(t->given_fd);
}

/* Whether the GPU's outputs are the vm's, within the bounds of a trial whose
 * inputs hardly differ. */
static bool is_as_vm(const struct oracle_trial *t, const struct attempt_result *vm, const struct attempt_result *gpu)
{
	bool same = true;
	for (int i = 0; i < t->noutputs && same; i++) {
		struct compare_output want = t->outputs[i];
		struct compare_bound bound = gpu_bound(t, i);
		struct compare_result c;
		int64_t n = compare_elements(&want);
		double *exact = NULL;
		want.plain = vm->outputs + vm->offset[i];
		bound.tolerance *= APART;
		if (dtype_is_float(want.dtype)) {
			exact = xcalloc((size_t)n + 1, sizeof *exact);
			for (int64_t k = 0; k < n; k++) exact[k] = dtype_load(want.dtype, want.plain, k);
			want.exact = exact;
		}
		compare_run(&want, &bound, gpu->outputs + gpu->offset[i], &c);
		same = c.is_equal;
		free(exact);
	}
	return same;
}

/* Whether all outputs are within so many of their bounds. */
static bool is_near(const struct oracle_trial *t, const struct attempt_result *r, double times)
{
	bool is_all = true;
	for (int i = 0; i < t->noutputs && is_all; i++) {
		struct compare_bound bound = gpu_bound(t, i);
		struct compare_result c;
		bound.tolerance *= times;
		compare_run(&t->outputs[i], &bound, r->outputs + r->offset[i], &c);
		is_all = c.is_equal;
	}
	return is_all;
}

/* With zeros for the subnormal inputs vm and GPU have to agree: the vm is right on the trial
 * itself, and what it gives for the changed one stands for what is expected. */
static int subnormals_judge(struct grading *g, const struct attempt *a, bool *is_cause, struct err *err)
{
	struct oracle_trial flushed;
	struct attempt changed = *a;
	struct attempt_result vm, gpu;
	int rc = 0;
	if (!flushed_make(a->trial, &flushed, &rc, err)) {
		flushed_release(&flushed);
		return rc;
	}
	changed.trial = &flushed;
	rc = attempt_run(g, &g->runner, &changed, &vm, err);
	if (rc) {
		flushed_release(&flushed);
		return err_set(err, ERR_INFRA, "the runner was lost on inputs without subnormal numbers: %.300s", err->text);
	}
	if (!vm.result.has_fault && !(rc = gpu_replay(g, &changed, &gpu, err))) {
		*is_cause = is_as_vm(&flushed, &vm, &gpu);
		attempt_release(&gpu);
	}
	attempt_release(&vm);
	flushed_release(&flushed);
	return rc;
}

/* The kernels as they are compiled, on ordinary numbers times a scale: once for each variant. */
static int scaled_judge(
	struct grading *g, const struct attempt *a, bool *is_right, char *why, size_t len, struct err *err)
{
	int8_t *known = &g->is_right_scaled[a->trial->variant];
	struct oracle_session *session = NULL;
	struct oracle_trial t;
	struct attempt_result r;
	struct err local = {0};
	double worst = NAN;
	char text[512];
	*is_right = *known > 0;
	if (*known) return 0;
	*known = -1;
	int rc = oracle_session_start(g->s->oracles, g->task, g->oracle, a->trial->variant, &session, err);
	if (rc) return rc;
	/* A reference that cannot say what is expected excuses nobody. */
	bool has_counted = false;
	snprintf(why, len, "; contraction does not excuse it: the reference is not exact on large numbers");
	for (size_t k = 0; k < ARRAY_LEN(CONTRACTED_SCALES) && !rc && !has_counted; k++) {
		json_t *edits = json_pack("[{s:s, s:f}]", "op", "scale", "by", CONTRACTED_SCALES[k]);
		if (oracle_session_trial(session, CONTRACTED_NUMBER + (int)k, edits, &t, &local)) break;
		struct attempt scaled = *a;
		scaled.trial = &t;
		has_counted = t.counts && t.ninputs == a->trial->ninputs;
		for (int i = 0; i < t.noutputs; i++) t.bounds[i].odd_on_gpu *= CONTRACTED_SLACK;
		if (has_counted && !(rc = gpu_replay(g, &scaled, &r, err))) {
			*is_right = !gpu_outputs_differ(&t, &r, &worst, text, sizeof text);
			snprintf(why, len, "; contraction does not excuse it: wrong on ordinary numbers times %g too: %.200s",
				CONTRACTED_SCALES[k], text);
			attempt_release(&r);
		}
		oracle_trial_release(&t);
	}
	if (rc >= 0 && oracle_session_fault(session, err)) rc = ERR_INFRA;
	oracle_session_end(session);
	*known = *is_right ? 1 : -1;
	return rc;
}

/* A compiler may round a product and a sum in one step. Where a kernel subtracts from x * y what
 * was computed as x * y, the difference is then not zero but what the product's rounding left over,
 * which among magnitudes of 2^24 is a large number: kernels that are right as they are written (an
 * attention that takes its row's maximum off) go wrong there. Such a trial is repeated with kernels
 * compiled as they are written; it has to be right then, and the kernels as a user would run them
 * have to be right on large numbers that leave less over. */
static int contraction_judge(struct grading *g, const struct attempt *a, const struct attempt_result *found,
	bool *is_cause, double *worst, char *why, size_t len, struct err *err)
{
	struct attempt_result r;
	char text[512];
	bool is_right = false, is_wide = a->trial->is_wide && a->trial->nparams;
	if (gpu_cause_largest(a->trial) < CONTRACTED_FROM) {
		if (!is_wide) return 0;
		snprintf(why, len, "; contraction does not excuse it: off by more than %d bounds", CONTRACTED_NEAR);
		if (!is_near(a->trial, found, CONTRACTED_NEAR)) return 0;
	}
	int rc = scaled_judge(g, a, &is_right, why, len, err);
	if (rc || !is_right) return rc;
	g->is_uncontracted = true;
	rc = gpu_start(g, a->trace, err);
	if (!rc) rc = gpu_replay(g, a, &r, err);
	g->is_uncontracted = false;
	if (rc) return rc;
	*is_cause = !gpu_outputs_differ(a->trial, &r, worst, text, sizeof text);
	snprintf(why, len, "; contraction does not excuse it: wrong without it too: %.200s", text);
	attempt_release(&r);
	/* What follows runs what a user would run. */
	return gpu_start(g, a->trace, err);
}

int gpu_cause_judge(struct grading *g, const struct attempt *a, const struct attempt_result *found, double *worst,
	char *why, size_t len, struct err *err)
{
	bool is_cause = false;
	if (len) *why = 0;
	struct verdict_device *d = &g->v->device;
	/* A task's own inputs have no second chance. */
	if (a->trial->is_stock) return GRADE_END;
	int rc = a->trial->is_guided ? subnormals_judge(g, a, &is_cause, err) : 0;
	d->subnormal += !rc && is_cause;
	if (rc || is_cause) return rc;
	rc = contraction_judge(g, a, found, &is_cause, worst, why, len, err);
	d->contracted += !rc && is_cause;
	return rc ? rc : is_cause ? GRADE_ON : GRADE_END;
}
