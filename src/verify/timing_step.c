/* timing_step: how long a right candidate takes on the GPU, and how long the
 * reference takes beside it.
 *
 * All that is timed in one session is timed turn by turn, with the GPU's lock held alone: the
 * machine's state drifts, and it does so for both. A turn is the candidate, each reference, each
 * reference backwards, the candidate, so that every pair of neighbours has the same distance in
 * time. The runner asks for the next question whenever it has answered one (struct runner_asker);
 * between two of its answers the references, each in a process of its own, have their turn.
 *
 * References that were timed before on the same GPU need no session, as long as the runner's
 * control, timed with the candidate, is within 1 % of what it was in theirs; where it is not,
 * they are timed again. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/gpu_lock.h"
#include "verify/measure.h"
#include "verify/reference.h"
#include <math.h>
#include <stdlib.h>

#define CONTROLS 5
#define EMPTIES 5
#define WALLS 5
#define QUESTION_MS 20000
#define SLACK 16.0        /* as of a guided trial: data and sizes are checked here, not honesty */
#define TF32_FLOOR 2e-2
#define LAST (-1)

/* One answer to come: of the candidate's runner, or of a reference. */
struct slot {
	int who; /* CANDIDATE, or enum verdict_reference_kind */
	enum runner_clock question;
};
enum { CANDIDATE = REFERENCE_COUNT, WHO_COUNT };
struct session {
	struct grading *g;
	const struct oracle_trial *trial;
	struct reference *running[REFERENCE_COUNT]; /* NULL: not in this session, or lost */
	struct verdict_reference *facts;            /* (REFERENCE_COUNT): of the record */
	int nslots;
	int at;      /* the slot that is next */
	int pending; /* the slot whose answer the runner is asked for; LAST: none */
	struct slot *slots;
	double *seconds; /* (nslots): answers; NaN: none */
};

static void slot_add(struct session *s, int who, enum runner_clock question)
{
	s->slots = xrealloc(s->slots, size_mul((size_t)s->nslots + 1, sizeof *s->slots));
	s->slots[s->nslots++] = (struct slot){who, question};
}

/* What is asked, in order. */
static void plan(struct session *s, int repeats)
{
	for (int i = 0; i < CONTROLS; i++) slot_add(s, CANDIDATE, RUNNER_CONTROL);
	for (int i = 0; i < EMPTIES; i++) slot_add(s, CANDIDATE, RUNNER_EMPTY);
	for (int i = 0; i < (repeats + 1) / 2; i++) {
		slot_add(s, CANDIDATE, RUNNER_SPAN);
		for (int k = 0; k < REFERENCE_COUNT; k++)
			if (s->running[k]) slot_add(s, k, RUNNER_SPAN);
		for (int k = REFERENCE_COUNT - 1; k >= 0; k--)
			if (s->running[k]) slot_add(s, k, RUNNER_SPAN);
		slot_add(s, CANDIDATE, RUNNER_SPAN);
	}
	for (int i = 0; i < WALLS; i++)
		for (int who = 0; who < WHO_COUNT; who++)
			if (who == CANDIDATE || s->running[who]) slot_add(s, who, RUNNER_WALL);
	for (int who = 0; who < WHO_COUNT; who++)
		if (who == CANDIDATE || s->running[who]) slot_add(s, who, RUNNER_PAPER);
	s->seconds = xcalloc((size_t)s->nslots, sizeof *s->seconds);
	for (int i = 0; i < s->nslots; i++) s->seconds[i] = NAN;
	s->pending = LAST;
}

/* A reference that is of no more use: its answers so far are no series. */
static void reference_drop(struct session *s, int kind)
{
	reference_end(s->running[kind]);
	s->running[kind] = NULL;
	for (int i = 0; i < s->nslots && s->seconds; i++)
		if (s->slots[i].who == kind) s->seconds[i] = NAN;
}

static int next(void *ctx, int64_t ns, enum runner_clock *question, struct err *err)
{
	struct session *s = ctx;
	if (s->pending != LAST) s->seconds[s->pending] = 1e-9 * (double)ns;
	s->pending = LAST;
	for (; s->at < s->nslots; s->at++) {
		struct slot slot = s->slots[s->at];
		if (slot.who == CANDIDATE) {
			s->pending = s->at++;
			*question = slot.question;
			return 0;
		}
		struct verdict_reference *v = &s->facts[slot.who];
		int64_t took = 0;
		if (!s->running[slot.who]) continue;
		int rc = reference_time(s->running[slot.who], slot.question, &took, v->why, sizeof v->why, err);
		if (rc == ERR_MISMATCH) reference_drop(s, slot.who);
		else if (rc) return rc;
		else s->seconds[s->at] = 1e-9 * (double)took;
	}
	*question = RUNNER_END;
	return 0;
}

/* ---- what a session's answers say ---- */

static int series(const struct session *s, int who, enum runner_clock question, double *out)
{
	int n = 0;
	for (int i = 0; i < s->nslots; i++)
		if (s->slots[i].who == who && s->slots[i].question == question && isfinite(s->seconds[i]))
			out[n++] = s->seconds[i];
	return n;
}

static struct verdict_measure measured(const struct session *s, int who, enum runner_clock question)
{
	double *x = xcalloc((size_t)s->nslots + 1, sizeof *x);
	int n = series(s, who, question, x);
	struct verdict_measure m = question == RUNNER_SPAN ? measure_middle(x, n) : measure_median(x, n);
	free(x);
	return m;
}

/* The i-th span of a reference and the i-th of the candidate belong to one half of one turn. */
static struct verdict_measure paired(const struct session *s, int kind, int *pairs)
{
	double *above = xcalloc((size_t)s->nslots + 1, sizeof *above),
		   *below = xcalloc((size_t)s->nslots + 1, sizeof *below);
	int n = series(s, kind, RUNNER_SPAN, above), m = series(s, CANDIDATE, RUNNER_SPAN, below);
	*pairs = n == m ? n : 0;
	for (int i = 0; i < *pairs; i++) above[i] /= below[i];
	struct verdict_measure out = measure_middle(above, *pairs);
	free(above);
	free(below);
	return out;
}

static void candidate_keep(const struct session *s, const struct runner_result *r)
{
	struct verdict_device *d = &s->g->v->device;
	double *x = xcalloc((size_t)s->nslots + 1, sizeof *x);
	d->timed = series(s, CANDIDATE, RUNNER_SPAN, x);
	free(x);
	struct verdict_measure span = measured(s, CANDIDATE, RUNNER_SPAN);
	d->time_s = span.value;
	d->time_low_s = span.low;
	d->time_high_s = span.high;
	d->wall_s = measured(s, CANDIDATE, RUNNER_WALL).value;
	d->paper_s = measured(s, CANDIDATE, RUNNER_PAPER).value;
	d->empty_s = measured(s, CANDIDATE, RUNNER_EMPTY).value;
	d->control_s = measured(s, CANDIDATE, RUNNER_CONTROL).value;
	d->memory_bytes = r->memory_bytes;
	snprintf(d->untimed, sizeof d->untimed, "%s", r->untimed);
}

/* Of a reference that is still there when the session ends. */
static void reference_keep(const struct session *s, int kind)
{
	struct verdict_reference *v = &s->facts[kind];
	struct verdict_measure span = measured(s, kind, RUNNER_SPAN);
	if (!isfinite(span.value)) return;
	v->is_timed = true;
	v->time_s = span;
	v->wall_s = measured(s, kind, RUNNER_WALL).value;
	v->paper_s = measured(s, kind, RUNNER_PAPER).value;
}

/* A reference's speedups, of whatever there is of both. s: the session in which it was
 * timed; NULL: another one's. */
static void speedup_set(const struct session *s, struct verdict_device *d, int kind)
{
	struct verdict_measure own = {d->time_s, d->time_low_s, d->time_high_s}, none = {NAN, NAN, NAN};
	struct verdict_reference *v = &d->references[kind];
	v->speedup = none;
	v->speedup_wall = v->speedup_paper = NAN;
	v->pairs = 0;
	if (!v->is_timed || !v->agrees || !d->timed) return;
	if (s && s->running[kind]) v->speedup = paired(s, kind, &v->pairs);
	if (!v->pairs) v->speedup = measure_quotient(v->time_s, own);
	v->speedup_wall = v->wall_s / d->wall_s;
	v->speedup_paper = v->paper_s / d->paper_s;
}

/* ---- one session ---- */

/* Their forwards run on the GPU before and after the window too: beside others' work, not
 * beside others' timings. */
static int lock_shared(const struct session *s, int *lock, struct err *err)
{
	*lock = -1;
	return gpu_lock_for(s->g, false, lock, err);
}

static int references_start(struct session *s, unsigned mask, struct err *err)
{
	struct verify_shared *shared = s->g->s;
	int lock, rc = mask ? lock_shared(s, &lock, err) : 0;
	if (rc || !mask) return rc;
	struct reference_options o = {.zygote = shared->timer,
		.limits = {shared->level, 0, 0},
		.device = s->g->on->device.uuid,
		.timeout_ms = shared->limits.oracle_timeout_ms,
		.question_ms = QUESTION_MS,
		.njobs = &s->g->on->njobs};
	/* All start side by side, since compiling takes seconds; then each is waited for. */
	for (int k = 0; k < REFERENCE_COUNT && !rc; k++) {
		if (!(mask & 1u << k)) continue;
		s->facts[k] = (struct verdict_reference){.error_max = NAN, .agrees = true};
		rc = reference_start(&o, k, &s->g->oracle->variants[0], s->trial, &s->running[k], err);
	}
	for (int k = 0; k < REFERENCE_COUNT && !rc; k++) {
		struct verdict_reference *v = &s->facts[k];
		struct reference_facts facts = {0};
		if (!s->running[k]) continue;
		rc = reference_ready(s->running[k], &facts, v->why, sizeof v->why, err);
		v->is_gated = facts.is_gated;
		v->memory_bytes = facts.memory_bytes;
		if (!rc && facts.has_draws) snprintf(v->why, sizeof v->why, "forward draws at random: not compared");
		/* One that cannot be timed leaves its reason in the record and the others their turn. */
		if (rc == ERR_MISMATCH) {
			reference_drop(s, k);
			rc = 0;
		}
	}
	gpu_lock_release(lock);
	return rc;
}

/* What the references' timed forwards returned. */
static int references_check(struct session *s, struct err *err)
{
	int rc = 0;
	for (int k = 0; k < REFERENCE_COUNT && !rc; k++) {
		struct verdict_reference *v = &s->facts[k];
		if (!s->running[k] || v->why[0]) continue;
		rc = reference_check(s->running[k], SLACK, k == REFERENCE_TF32 ? TF32_FLOOR : 0, &v->agrees, &v->error_max,
			v->why, sizeof v->why, err);
		if (rc == ERR_MISMATCH) {
			v->agrees = false;
			rc = 0;
		}
	}
	return rc;
}

/* The references' part of the record, where all went well, and the end of their processes, which
 * the GPU feels too. What they say of their times counts where what they returned is right. */
static int references_finish(struct session *s, int rc, struct err *err)
{
	bool is_any = false;
	int lock = -1;
	for (int k = 0; k < REFERENCE_COUNT; k++) is_any |= s->running[k] != NULL;
	if (is_any && !rc) rc = lock_shared(s, &lock, err);
	for (int k = 0; k < REFERENCE_COUNT && !rc; k++)
		if (s->running[k]) reference_keep(s, k);
	if (!rc) rc = references_check(s, err);
	for (int k = 0; k < REFERENCE_COUNT && !rc; k++) speedup_set(s, &s->g->v->device, k);
	for (int k = 0; k < REFERENCE_COUNT; k++) reference_end(s->running[k]);
	gpu_lock_release(lock);
	return rc;
}

/* Somebody else who computed meanwhile spoils the times. */
static int others_judge(struct grading *g, const struct gpu_seen *seen, struct err *err)
{
	g->v->device.others = seen->others;
	if (seen->activity <= 0) return 0;
	return err_set(err, ERR_INFRA, "another process used the GPU while it was timed: %s", seen->text);
}

/* Times the candidate, with the references of the mask beside it. GRADE_ON
 * with the record filled. */
static int session_run(
	struct grading *g, const struct trace *stock, const struct oracle_trial *t, unsigned mask, struct err *err)
{
	struct verdict_device *d = &g->v->device;
	struct session s = {.g = g, .trial = t, .facts = d->references, .pending = LAST};
	struct attempt_result r;
	struct runner_asker asker = {next, &s};
	struct attempt a = {.trace = stock, .trial = t, .asker = &asker};
	int rc = references_start(&s, mask, err);
	if (!rc) rc = gpu_start(g, stock, err);
	/* The window: the runner asks for one question after another, and the references have
	 * their turns in between. */
	if (!rc) plan(&s, g->s->time_repeats);
	if (!rc) rc = gpu_replay(g, &a, &r, err);
	if (!rc) {
		candidate_keep(&s, &r.result);
		char text[512] = "";
		double worst = NAN;
		rc = d->timed ? others_judge(g, &r.seen, err) : 0;
		if (!rc && gpu_outputs_differ(t, &r, &worst, text, sizeof text)) {
			d->disagreements++;
			rc = grade_end(g, VERDICT_WRONG, STAGE_RECHECK, "gpu-unstable", 0,
				"right in single replays on the GPU and wrong after timed ones: %s", text);
		}
		attempt_release(&r);
	}
	rc = references_finish(&s, rc, err);
	free(s.slots);
	free(s.seconds);
	return rc;
}

/* ---- references that were timed before ---- */

static struct sha256_hex key_of(const struct grading *g, int kind)
{
	const struct oracle_variant *stock = &g->oracle->variants[0];
	return reference_key(stock->source, json_object_get(stock->job, "inputs"), (enum verdict_reference_kind)kind,
		&g->on->device, g->s->versions);
}

/* Whether references' times may come from others' sessions. */
static bool is_shared(const struct grading *g) { return !g->s->is_paired && !g->is_final; }

/* Those of the mask that nobody timed yet, or whose session's control was another than now_s (NaN:
 * any will do); the others' records are filled. */
static unsigned references_find(struct grading *g, unsigned mask, double now_s, struct verdict_reference *out)
{
	unsigned missing = 0;
	for (int k = 0; k < REFERENCE_COUNT; k++) {
		struct sha256_hex key = key_of(g, k);
		struct verdict_reference found;
		if (!(mask & 1u << k)) continue;
		if (is_shared(g) && reference_cache_get(g->s->references, &key, now_s, &found)) {
			out[k] = found;
			out[k].is_cached = true;
		} else {
			missing |= 1u << k;
		}
	}
	return missing;
}

/* While one thread times a reference, others wait for it: each would start a process of its own, on
 * the same GPU, whose start and end are in the control's time of everybody else, who then find
 * their references stale. In the kinds' order, so that no two wait for each other. Returns those
 * that are to be released. */
static unsigned references_claim(struct grading *g, unsigned mask)
{
	unsigned claimed = 0;
	for (int k = 0; k < REFERENCE_COUNT; k++) {
		struct sha256_hex key = key_of(g, k);
		if (is_shared(g) && mask & 1u << k && reference_cache_claim(g->s->references, &key)) claimed |= 1u << k;
	}
	return claimed;
}

static void references_release(struct grading *g, unsigned mask)
{
	for (int k = 0; k < REFERENCE_COUNT; k++) {
		struct sha256_hex key = key_of(g, k);
		if (mask & 1u << k) reference_cache_release(g->s->references, &key);
	}
}

static void references_put(struct grading *g, unsigned mask)
{
	const struct verdict_device *d = &g->v->device;
	for (int k = 0; k < REFERENCE_COUNT; k++) {
		struct sha256_hex key = key_of(g, k);
		if (mask & 1u << k && d->references[k].is_timed)
			reference_cache_put(g->s->references, &key, &d->references[k], d->control_s);
	}
}

/* A session that times the references of the mask, and keeps what they took. */
static int references_time(
	struct grading *g, const struct trace *stock, const struct oracle_trial *t, unsigned mask, struct err *err)
{
	int rc = session_run(g, stock, t, mask, err);
	if (!rc && g->v->device.timed) references_put(g, mask);
	return rc;
}

/* The candidate's session, with those references of the mask in it that nobody timed. */
static int first_session(struct grading *g, const struct trace *stock, const struct oracle_trial *t, unsigned mask,
	unsigned *cached, struct err *err)
{
	struct verdict_reference *references = g->v->device.references;
	unsigned missing = references_find(g, mask, NAN, references), claimed = references_claim(g, missing);
	if (missing) missing = references_find(g, mask, NAN, references);
	/* What turned out to be there is nobody's to wait for. */
	references_release(g, claimed & ~missing);
	int rc = references_time(g, stock, t, missing, err);
	references_release(g, claimed & missing);
	*cached = mask & ~missing;
	return rc;
}

/* The candidate's own session told whether what was measured earlier still holds. Where it does
 * not, somebody else may have found so before and timed the reference again. */
static int second_session(
	struct grading *g, const struct trace *stock, const struct oracle_trial *t, unsigned cached, struct err *err)
{
	struct verdict_device *d = &g->v->device;
	unsigned stale = references_find(g, cached, d->control_s, d->references), claimed = references_claim(g, stale);
	if (stale) stale = references_find(g, cached, d->control_s, d->references);
	references_release(g, claimed & ~stale);
	int rc = stale ? references_time(g, stock, t, stale, err) : 0;
	references_release(g, claimed & stale);
	for (int k = 0; k < REFERENCE_COUNT && !stale; k++)
		if (cached & 1u << k) speedup_set(NULL, d, k);
	return rc;
}

/* ---- the floor ---- */

/* What no kernel that reads and writes as much and multiplies as much can
 * beat, and what sets it. */
static void floor_set(const struct grading *g, const struct tape *stock, struct verdict_device *d)
{
	const struct gpu_peaks *p = &g->on->peaks;
	const struct runner_result *r = &g->judged;
	double bytes = 0, products[VM_DOT_COUNT] = {0};
	if (!(p->copy_bytes > 0) || !r->touched) return;
	/* What was given and is read comes from memory; what is written may stay in the
	 * cache, up to its size. */
	double written = 0;
	for (int b = 0; b < MIN(r->ntouched, stock->nbuffers); b++) {
		if (stock->buffers[b].kind != TAPE_TEMP) bytes += (double)r->touched[b].read;
		for (int i = 0; i < stock->noutputs; i++)
			if (stock->outputs[i].buffer == b) {
				written += (double)r->touched[b].written;
				break;
			}
	}
	bytes += fmax(0, written - (double)g->s->gpu.l2_bytes);
	d->floor_rate = p->copy_bytes;
	d->floor_s = bytes / d->floor_rate;
	snprintf(d->floor_by, sizeof d->floor_by, "memory");
	for (int i = 0; i < r->ncosts; i++)
		for (int unit = 0; unit < VM_DOT_COUNT; unit++) products[unit] += (double)r->costs[i].counts.dot_by[unit];
	const struct {
		enum vm_dot unit;
		double rate;
		const char *name;
	} units[] = {{VM_DOT_FMA, p->fp32_flops, "fp32"}, {VM_DOT_TF32, p->tf32_flops, "tf32"},
		{VM_DOT_HALF, p->bf16_flops, "bf16"}};
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (!(units[i].rate > 0) || products[units[i].unit] / units[i].rate <= d->floor_s) continue;
		d->floor_rate = units[i].rate;
		d->floor_s = products[units[i].unit] / d->floor_rate;
		snprintf(d->floor_by, sizeof d->floor_by, "%s", units[i].name);
	}
}

/* ---- the step ---- */

int timing_step(struct grading *g, const struct trace *stock, struct err *err)
{
	const struct oracle_trial *t = oracle_first_trial(g->oracle);
	struct verdict_device *d = &g->v->device;
	g->v->stage = STAGE_TIMING;
	if (!t) return GRADE_ON;
	unsigned mask = !g->s->timer ? 0 : g->is_final ? g->s->final_mask : g->s->reference_mask, cached = 0;
	int rc = first_session(g, stock, t, mask, &cached, err);
	if (!rc && d->timed && cached) rc = second_session(g, stock, t, cached, err);
	floor_set(g, stock->tape, d);
	return rc;
}
