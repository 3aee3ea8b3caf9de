/* gpu_step: the same tape, the same inputs and the same comparison once more, on a GPU. It comes
 * after the vm has passed all trials of a variant, so whatever goes wrong here goes wrong on the
 * GPU alone: the vm missed it, or a kernel does what Triton's IR does not say. Each such trial is
 * counted as a disagreement, and so is one that the vm failed by its values and the GPU passed.
 *
 * Runners are warm: one serves many candidates, one after another, and proves after each that the
 * GPU still answers. A fault, a deadline or a touched canary costs the runner, whether or not its
 * context lived through it. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/gpu_lock.h"
#include <math.h>
#include <stdlib.h>

/* A GPU's time for a trial beside the vm's for the same: enough for what the driver does at a first
 * launch, and so little that a kernel which never ends does not keep the GPU
 * from others for long. */
#define TRIAL_MS 3000
#define TIMES_THE_VM 2
#define LOCK_MS 120000 /* for the GPU's lock: timings of others are in front */

/* Faults of a GPU's runner and what they mean for a verdict. All others are the machine's. */
static const struct {
	const char *code;   /* the runner's */
	const char *reason; /* the verdict's */
	enum verdict_class class;
} FAULTS[] = {
	{"out-of-bounds", "gpu-out-of-bounds", VERDICT_WRONG},
	{"misaligned", "gpu-misaligned", VERDICT_WRONG},
	{"canary", "gpu-out-of-bounds", VERDICT_WRONG},
	{"assert", "gpu-assert", VERDICT_WRONG},
	{"timeout", "timeout-gpu", VERDICT_WRONG},
	{RUNNER_SLOW, "timeout-gpu", VERDICT_WRONG},
	{"gpu-fault", "gpu-fault", VERDICT_WRONG},
	{"input-modified", "input-modified", VERDICT_WRONG},
	{"param-modified", "param-modified", VERDICT_WRONG},
	{"out-of-resources", "out-of-resources", VERDICT_INVALID},
	{"needs-co-residency", "needs-co-residency", VERDICT_INVALID},
	{"memory", "memory-gpu", VERDICT_INVALID},
};

int gpu_fault_end(struct grading *g, const struct runner_fault *f, const struct oracle_trial *t, struct err *err)
{
	char trial[400] = "";
	if (t) attempt_text(g, t, trial, sizeof trial);
	for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++)
		if (!strcmp(FAULTS[i].code, f->code))
			return grade_end(g, FAULTS[i].class, STAGE_CORRECTNESS, FAULTS[i].reason, f->line, "%s%s%.600s", trial,
				trial[0] ? ": " : "", f->text);
	return err_set(err, ERR_INFRA, "the GPU's runner reports %s: %.600s", f->code, f->text);
}

/* The runner's process ended or fell silent. A kernel that never ends shows so where the runner's
 * own deadline did not come to pass; before the first row there was none, and it is the
 * machine that takes its time. */
int gpu_runner_lost(struct grading *g, int rc, struct err *err)
{
	char status[64] = "", said[400];
	bool has_begun = g->gpu_runner.has_begun;
	snprintf(said, sizeof said, "%s", err->text);
	runner_end(g->on->runners, &g->gpu_runner, status, sizeof status, NULL);
	g->has_gpu_runner = false;
	if (rc == ERR_TIMEOUT && has_begun)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "timeout-gpu", 0,
			"on the GPU the kernels did not finish in time, and their runner did not answer");
	return err_set(err, ERR_INFRA, "the GPU's runner was lost%s: %s (%s)",
		rc == ERR_TIMEOUT ? ", which did not answer before any kernel ran" : "", status, said);
}

int gpu_lock_for(struct grading *g, bool alone, int *lock, struct err *err)
{
	const char *gpu = g->on->device.uuid;
	enum verify_step step = g->lap.step;
	times_lap(g, STEP_LOCK);
	int rc = gpu_lock_take(NULL, gpu, alone, 0, lock, err);
	/* Whoever has to wait needs no processor meanwhile. */
	if (rc == ERR_TIMEOUT) {
		seats_leave(&g->s->seats);
		rc = gpu_lock_take(NULL, gpu, alone, LOCK_MS, lock, err);
		seats_return(&g->s->seats);
	}
	times_lap(g, step);
	return rc ? err_set(err, ERR_INFRA, "%.300s", err->text) : 0;
}

/* Whatever a runner does on the GPU beside trials (a context, code and memory that come and go,
 * what is written over) would be in somebody's times as well. */
static int lock_beside_trials(struct grading *g, int *lock, struct err *err)
{
	*lock = -1;
	return g->has_gpu_lock ? 0 : gpu_lock_for(g, false, lock, err);
}

void gpu_runner_done(struct grading *g)
{
	struct err err = {0};
	int lock;
	if (!g->has_gpu_runner) return;
	/* Without the lock it is given back all the same: a time that is off is better than
	 * a runner that is lost. */
	if (lock_beside_trials(g, &lock, &err)) log_warn("verify: %s", err.text);
	runner_give_back(g->on->runners, &g->gpu_runner);
	gpu_lock_release(lock);
	g->has_gpu_runner = false;
}

void gpu_runners_refill(struct verify_gpu *on)
{
	struct err err = {0};
	int lock = -1;
	if (!runner_pool_is_short(on->runners)) return;
	if (gpu_lock_take(NULL, on->device.uuid, false, LOCK_MS, &lock, &err)) return;
	/* Until they have their contexts, since that is what disturbs. */
	runner_pool_refill(on->runners);
	runner_pool_settle(on->runners);
	gpu_lock_release(lock);
}

/* A runner with the tape and its binaries. */
int gpu_start(struct grading *g, const struct trace *tr, struct err *err)
{
	struct compiled c = {.fd = -1};
	struct runner_loaded loaded;
	struct runner_fault fault = {0};
	/* A runner may have to start, and loading disturbs timings: both under the lock. */
	int lock = -1, rc = compile_binaries(g, tr->tape, &c, err);
	if (!rc) rc = lock_beside_trials(g, &lock, err);
	if (!rc && !g->has_gpu_runner) {
		rc = runner_pool_take(g->on->runners, &g->gpu_runner, err);
		g->has_gpu_runner = rc == 0;
	}
	/* What fails here is the candidate's where the runner can say why, else the runner is lost. */
	struct runner_load l = {
		.tape = tr->text.data, .len = tr->text.len, .count = c.count, .binaries = c.binaries, .binaries_fd = c.fd};
	if (!rc) {
		uint64_t deadline = deadline_in_ms(g->s->limits.replay_timeout_ms + ATTEMPT_GPU_GRACE_MS);
		rc = runner_load(&g->gpu_runner, &l, deadline, &loaded, &fault, err);
		g->gpu_runner.is_tainted |= rc != 0;
		g->is_gpu_full = rc == ERR_MISMATCH && !strcmp(fault.code, "no-room");
		/* No kernel of its runs here: what takes long is the machine. */
		if (rc == ERR_MISMATCH && !strcmp(fault.code, "timeout"))
			rc = err_set(err, ERR_INFRA, "the GPU's runner did not load in time: %.600s", fault.text);
		else if (rc == ERR_MISMATCH) rc = gpu_fault_end(g, &fault, NULL, err);
		else if (rc) rc = gpu_runner_lost(g, rc, err);
	}
	gpu_lock_release(lock);
	g->gpu_loaded = rc ? (struct sha256_hex){""} : hash_bytes(tr->text.data, tr->text.len);
	compiled_release(&c);
	return rc;
}

struct compare_bound gpu_bound(const struct oracle_trial *t, int output)
{
	struct compare_bound b = t->bounds[output];
	if (t->is_guided) b.tolerance = MAX(b.tolerance, b.odd_on_gpu);
	return b;
}

/* The worst error and the first text of a difference; 0 when all outputs agree. */
int gpu_outputs_differ(
	const struct oracle_trial *t, const struct attempt_result *r, double *worst, char *text, size_t len)
{
	int differ = 0;
	for (int i = 0; i < t->noutputs; i++) {
		struct compare_bound bound = gpu_bound(t, i);
		struct compare_result c;
		compare_run(&t->outputs[i], &bound, r->outputs + r->offset[i], &c);
		if (!(*worst >= c.error_max)) *worst = c.error_max;
		if (!c.is_equal && !differ++) snprintf(text, len, "output %d: %.400s", i, c.text);
	}
	return differ;
}

/* Bytes of all outputs; the runner leaves what lies between them as it was. */
static bool outputs_are_same(const struct tape *t, const struct attempt_result *a, const struct attempt_result *b)
{
	for (int i = 0; i < t->noutputs; i++) {
		size_t bytes = (size_t)(tape_view_elements(&t->outputs[i]) * (int64_t)dtype_bytes(t->outputs[i].dtype));
		if (memcmp(a->outputs + a->offset[i], b->outputs + b->offset[i], bytes)) return false;
	}
	return true;
}

/* One replay; *r is to be released on 0. GRADE_END for faults. */
int gpu_replay(struct grading *g, const struct attempt *asked, struct attempt_result *r, struct err *err)
{
	struct attempt own = *asked, *a = &own;
	int64_t ms = TRIAL_MS + TIMES_THE_VM * g->vm_ns / 1000000;
	if (!a->asker) a->deadline_ms = (int)MIN(ms, (int64_t)g->s->limits.replay_timeout_ms);
	/* The management library takes milliseconds to answer, so it is asked before the
	 * lock and behind it: the window is the longer for it, and nobody else's timing
	 * waits for the answers. */
	struct gpu_window window;
	struct gpu_seen seen = {.others = -1, .activity = -1};
	enum verify_step step = g->lap.step;
	if (a->asker) {
		times_lap(g, STEP_WATCH);
		gpu_watch_begin(g->on->watch, &window);
		times_lap(g, step);
	}
	int lock = -1, rc = gpu_lock_for(g, a->asker != NULL, &lock, err);
	if (rc) return rc;
	rc = attempt_run(g, &g->gpu_runner, a, r, err);
	/* Ours are counted while none can come or go. One that starts behind the lock has no context
	 * yet when the library answers. */
	int nown = runner_pool_count(g->on->runners) + atomic_load(&g->on->njobs);
	gpu_lock_release(lock);
	if (a->asker) {
		times_lap(g, STEP_WATCH);
		gpu_watch_end(g->on->watch, &window, nown, &seen);
		times_lap(g, step);
	}
	g->gpu_runner.is_tainted |= rc || r->result.has_fault;
	if (rc) return rc == ERR_INFRA ? rc : gpu_runner_lost(g, rc, err);
	g->v->device.seconds += (double)r->result.run_ns * 1e-9;
	r->seen = seen;
	if (!r->result.has_fault) return 0;
	rc = gpu_fault_end(g, &r->result.fault, a->trial, err);
	attempt_release(r);
	return rc;
}

/* The first trial once more, with rows queued on the tape's own streams and nothing waiting between
 * them: what differs from the first replay, which ran row by row, is how far the kernels repeat
 * themselves, and what depends on more than the rows' order shows. */
static int repeat_judge(
	struct grading *g, const struct attempt *first, const struct attempt_result *was, struct err *err)
{
	struct attempt again = *first;
	struct attempt_result r;
	again.is_overlapped = true;
	int rc = gpu_replay(g, &again, &r, err);
	if (rc) return rc;
	char text[512] = "", trial[400];
	double worst = NAN;
	struct verdict_device *d = &g->v->device;
	if (outputs_are_same(first->trace->tape, was, &r)) {
		d->repeat = REPEAT_BITWISE;
	} else if (!gpu_outputs_differ(first->trial, &r, &worst, text, sizeof text)) {
		d->repeat = REPEAT_WITHIN;
	} else {
		d->repeat = REPEAT_UNSTABLE;
		attempt_text(g, first->trial, trial, sizeof trial);
		rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "gpu-unstable", 0,
			"right in one replay on the GPU and wrong in the next, with %s: %s", trial, text);
	}
	attempt_release(&r);
	return rc;
}

static int trial_judge(struct grading *g, const struct attempt *a, bool is_repeated, struct err *err)
{
	struct attempt_result r;
	struct verdict_device *d = &g->v->device;
	char text[512] = "", trial[400], why[320] = "";
	d->trials++;
	double worst = d->error_max, apart = d->error_max;
	int rc = gpu_replay(g, a, &r, err);
	if (!rc && gpu_outputs_differ(a->trial, &r, &worst, text, sizeof text)) {
		/* A cause for which no kernel can help it is looked for; what has none is wrong,
		 * whatever the vm said. */
		rc = gpu_cause_judge(g, a, &r, &apart, why, sizeof why, err);
		attempt_release(&r);
		d->error_max = rc ? worst : apart;
		attempt_text(g, a->trial, trial, sizeof trial);
		if (rc == GRADE_END)
			grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(a->trial, "gpu-mismatch"), 0,
				"right on the vm, but not on the GPU, for %s: %s%s", trial, text, why);
	} else if (!rc) {
		d->error_max = worst;
		if (is_repeated) rc = repeat_judge(g, a, &r, err);
		attempt_release(&r);
	}
	if (rc == GRADE_END) {
		d->trials_failed++;
		d->disagreements++;
	}
	return rc;
}

int gpu_step(struct grading *g, const struct trace *tr, int variant, struct err *err)
{
	int rc = gpu_start(g, tr, err);
	bool is_first = true;
	for (int i = 0; i < g->oracle->ntrials && !rc; i++) {
		const struct oracle_trial *t = &g->oracle->trials[i];
		if (!t->counts || t->variant != variant) continue;
		rc = trial_judge(g, &(struct attempt){.trace = tr, .trial = t}, is_first && variant == 0, err);
		is_first = false;
	}
	return rc;
}

int gpu_guided(struct grading *g, const struct trace *tr, const struct oracle_trial *t, struct err *err)
{
	/* By its text: a tape of other sizes may lie where one lay that is gone. */
	struct sha256_hex text = hash_bytes(tr->text.data, tr->text.len);
	int rc = strcmp(g->gpu_loaded.text, text.text) ? gpu_start(g, tr, err) : GRADE_ON;
	return rc ? rc : trial_judge(g, &(struct attempt){.trace = tr, .trial = t}, false, err);
}

/* ---- when the vm found a difference ---- */

void gpu_second_opinion(struct grading *g, const struct trace *tr, const struct oracle_trial *t)
{
	/* On a record of its own: whatever happens here, the vm's verdict stands. */
	struct verdict *own = xmalloc(sizeof *own);
	*own = *g->v;
	struct grading asked = *g;
	struct err err = {0};
	struct attempt_result r;
	double worst = NAN;
	char text[512];
	asked.v = own;
	int rc = gpu_start(&asked, tr, &err);
	if (!rc) rc = gpu_replay(&asked, &(struct attempt){.trace = tr, .trial = t}, &r, &err);
	/* The runner that was started stays ours, to be ended with the others. */
	g->gpu_runner = asked.gpu_runner;
	g->has_gpu_runner = asked.has_gpu_runner;
	g->gpu_loaded = asked.gpu_loaded;
	/* A machine's fault (negative) is no opinion. */
	if (rc >= 0) {
		bool is_wrong = rc == GRADE_END || gpu_outputs_differ(t, &r, &worst, text, sizeof text);
		g->v->device.trials++;
		g->v->device.trials_failed += is_wrong;
		g->v->device.disagreements += !is_wrong;
		g->v->device.error_max = worst;
		g->v->device.seconds = own->device.seconds;
	}
	if (!rc) attempt_release(&r);
	free(own);
}
