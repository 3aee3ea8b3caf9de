/* replay: a tape's rows, one after another, over memory that is made anew for each trial.
 *
 * What is the same for every launcher is here: which rows run, which piece of the given data
 * belongs to which buffer, what may not change, deadlines. Inputs, parameters and constants are
 * given; temporaries start as bytes of 0xff (NaN in every float format, -1 in every integer), so
 * that a value nobody wrote is loud in a comparison. Library rows on the data path are computed by
 * whoever the caller names (struct launcher_library), and refuse the tape where there is nobody;
 * dead ones are skipped together with the launches that only they feed. */
#include "runner/replay.h"
#include "runner/aim.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define TURNED_SHARE 1e-4 /* of two values that are called equal */
#define TURNED_SHARE_NARROW 2e-2 /* of fewer than 32 bits */

struct replay {
	struct launcher *launcher;
	struct tape *tape;
	bool *on_path;      /* (tape->nrows) */
	bool *is_skipped;   /* (tape->nrows): dead library rows and what they feed */
	int32_t *given;     /* (tape->nbuffers): index into the trial's inputs or parameters, -1 */
	bool *is_read_only; /* (tape->nbuffers) */
	bool *has_value;    /* (tape->nbuffers): some launch is given an element of it as a number */
	/* Rows that nothing orders share a buffer: whether they share bytes is asked of each
	 * replay. NULL: none do. */
	struct row_used *used;
	struct row_kernel *order; /* (tape->nkernels) */
	uint8_t *uses;            /* (tape->nkernels, TAPE_ARGS_MAX): of order */
};

int launcher_fault(struct runner_fault *f, const char *code, int row, int line, const char *text)
{
	*f = (struct runner_fault){.row = row, .line = line};
	snprintf(f->code, sizeof f->code, "%s", code);
	snprintf(f->text, sizeof f->text, "%s", text);
	return ERR_MISMATCH;
}

static int bad_tape(struct runner_fault *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int bad_tape(struct runner_fault *f, const char *fmt, ...)
{
	va_list ap;
	launcher_fault(f, "bad-tape", -1, 0, "");
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return ERR_MISMATCH;
}

static void release_tape(struct replay *r)
{
	free(r->on_path);
	free(r->is_skipped);
	free(r->given);
	free(r->is_read_only);
	free(r->has_value);
	row_used_free(r->used);
	free(r->order);
	free(r->uses);
	tape_free(r->tape);
	r->tape = NULL;
	r->used = NULL;
	r->order = NULL;
	r->uses = NULL;
	r->on_path = r->is_skipped = r->is_read_only = r->has_value = NULL;
	r->given = NULL;
}

/* Dead library rows do not run, nor does a launch that uses a buffer which one of them wrote: its
 * addresses might be garbage. */
static int rows_prepare(struct replay *r, struct runner_fault *fault)
{
	const struct tape *t = r->tape;
	r->on_path = xcalloc((size_t)t->nrows + 1, sizeof *r->on_path);
	r->is_skipped = xcalloc((size_t)t->nrows + 1, sizeof *r->is_skipped);
	/* Rows on the path to an output always run. */
	tape_data_path(t, r->on_path);
	bool *tainted = xcalloc((size_t)t->nbuffers + 1, sizeof *tainted);
	int rc = 0;
	for (int i = 0; i < t->nrows && !rc; i++) {
		const struct tape_row *row = &t->rows[i];
		bool uses_taint = false;
		/* A destination of more elements than its buffer holds (stride 0) has no meaning in torch
		 * and could run for ever. */
		if ((row->kind == TAPE_FILL || row->kind == TAPE_COPY) &&
			tape_view_elements(&row->dst) > t->buffers[row->dst.buffer].bytes / (int64_t)dtype_bytes(row->dst.dtype))
			rc = bad_tape(fault, "rows[%d].dst has more elements than its buffer", i);
		/* A row is skipped when it uses what a skipped one should have written; then its own writes
		 * are tainted too. */
		for (int a = 0; row->kind == TAPE_LAUNCH && a < row->nargs; a++)
			uses_taint |= tape_arg_has_buffer(&row->args[a]) && tainted[row->args[a].buffer];
		uses_taint |= row->kind == TAPE_COPY && tainted[row->src.buffer];
		if (row->kind != TAPE_LIBRARY && !uses_taint) continue;
		if (r->on_path[i]) continue; /* and so is what feeds it */
		r->is_skipped[i] = true;
		for (int w = 0; row->kind == TAPE_LIBRARY && w < row->nwrites; w++) tainted[row->writes[w].buffer] = true;
		for (int a = 0; row->kind == TAPE_LAUNCH && a < row->nargs; a++)
			if (tape_arg_has_buffer(&row->args[a])) tainted[row->args[a].buffer] = true;
		if (row->kind == TAPE_COPY) tainted[row->dst.buffer] = true;
	}
	free(tainted);
	return rc;
}

static int race_fault(const struct tape *t, const struct row_race *race, struct runner_fault *fault)
{
	const struct tape_row *row = &t->rows[race->row];
	char text[400], where[64] = "";
	if (race->at >= 0) snprintf(where, sizeof where, " (byte %lld of a buffer)", (long long)race->at);
	/* A row that races with what comes after forward has no other row. */
	if (race->other < 0)
		snprintf(text, sizeof text,
			"candidate.py:%d: this writes to what forward returns on a stream of its own, and nothing makes the "
			"stream of forward's caller wait for it",
			row->line);
	else if (race->is_next_call)
		snprintf(text, sizeof text,
			"candidate.py:%d: where forward is called again behind itself, on what it returned, nothing orders this "
			"after candidate.py:%d of the call before, which uses the same memory%s: a dependent launch (launch_pdl) "
			"uses it before it waits, or one in between never waits for what is in front of it",
			row->line, t->rows[race->other].line, where);
	else
		snprintf(text, sizeof text,
			"candidate.py:%d: nothing orders this after candidate.py:%d, which uses the same memory%s: they are on two "
			"streams without an event between, or a dependent launch (launch_pdl) uses it before it waits",
			row->line, t->rows[race->other].line, where);
	return launcher_fault(fault, "race", race->row, row->line, text);
}

/* Rows that a GPU may run in either order, though it matters. Where it matters only if they use the
 * same bytes of a buffer, that is asked of each replay. */
static int order_check(struct replay *r, struct runner_fault *fault)
{
	const struct tape *t = r->tape;
	struct launcher *l = r->launcher;
	if (!l->kernel_order) return 0;
	/* Of each kernel: through which arguments it may write, and whether it waits for the one before
	 * it. The launcher knows, which has lowered it. */
	r->order = xcalloc((size_t)t->nkernels + 1, sizeof *r->order);
	r->uses = xcalloc(((size_t)t->nkernels + 1) * TAPE_ARGS_MAX, sizeof *r->uses);
	for (int k = 0; k < t->nkernels; k++) l->kernel_order(l, k, r->uses + (size_t)k * TAPE_ARGS_MAX, &r->order[k]);
	struct row_race race = row_race_find(t, r->order, r->is_skipped, NULL);
	if (race.row < 0) return 0;
	if (race.other < 0 || !l->used || !l->follow_used(l)) return race_fault(t, &race, fault);
	r->used = row_used_create(t->nrows);
	return 0;
}

/* The same of the bytes that rows_run has just seen. */
static int used_check(const struct replay *r, struct runner_fault *fault)
{
	if (!r->used) return 0;
	struct row_race race = row_race_find(r->tape, r->order, r->is_skipped, r->used);
	return race.row < 0 ? 0 : race_fault(r->tape, &race, fault);
}

int replay_reload(struct replay *r, struct tape *t, const struct runner_binaries *binaries, struct runner_fault *fault)
{
	static const struct runner_binaries none = {0};
	release_tape(r);
	r->tape = t;
	int rc = rows_prepare(r, fault);
	if (!rc) rc = r->launcher->load(r->launcher, t, r->is_skipped, binaries ? binaries : &none, fault);
	if (!rc) rc = order_check(r, fault);
	r->given = xcalloc((size_t)t->nbuffers + 1, sizeof *r->given);
	r->is_read_only = xcalloc((size_t)t->nbuffers + 1, sizeof *r->is_read_only);
	r->has_value = xcalloc((size_t)t->nbuffers + 1, sizeof *r->has_value);
	for (int b = 0; b < t->nbuffers; b++) r->has_value[b] = tape_has_value_of(t, b);
	if (rc) release_tape(r);
	return rc;
}

int replay_create(struct tape *t, struct launcher *l, const struct runner_binaries *binaries, struct replay **out,
	struct runner_fault *fault)
{
	struct replay *r = xcalloc(1, sizeof *r);
	r->launcher = l;
	int rc = replay_reload(r, t, binaries, fault);
	if (rc) replay_free(r);
	else *out = r;
	return rc;
}

void replay_free(struct replay *r)
{
	if (!r) return;
	r->launcher->destroy(r->launcher);
	release_tape(r);
	free(r);
}

int replay_reset(struct replay *r, struct runner_fault *fault)
{
	release_tape(r);
	if (!r->launcher->reset) return launcher_fault(fault, "bad-tape", -1, 0, "this launcher serves one candidate");
	return r->launcher->reset(r->launcher, fault);
}

const struct tape *replay_tape(const struct replay *r) { return r->tape; }

int replay_line(const struct replay *r, enum runner_question question)
{
	int line = r->launcher->line_of(r->launcher, r->on_path, question);
	/* the host's casts are rows of their own */
	for (int i = 0; i < r->tape->nrows && line < 0 && question == RUNNER_NARROW; i++) {
		const struct tape_row *row = &r->tape->rows[i];
		if (row->kind != TAPE_COPY || !r->on_path[i]) continue;
		enum dtype from = row->src.dtype, to = row->dst.dtype;
		bool is_wide = from == DTYPE_F32 || from == DTYPE_F64;
		if (is_wide && dtype_is_float(to) && dtype_bytes(to) < 4) line = MAX(row->line, 0);
	}
	return line;
}

bool replay_is_spent(const struct replay *r) { return r->launcher->is_spent(r->launcher); }

/* Which piece of the given data belongs to each buffer; a tape that asks for what does not exist,
 * or in another size, was not made by our tracer. */
static int given_match(struct replay *r, const struct runner_trial *trial, struct runner_fault *fault)
{
	for (int b = 0; b < r->tape->nbuffers; b++) {
		const struct tape_buffer *tb = &r->tape->buffers[b];
		const struct runner_given *g = NULL;
		r->given[b] = -1;
		/* The index is the tape's word, so it is checked before it is used. */
		if (tb->kind == TAPE_INPUT) {
			if (tb->input < 0 || tb->input >= trial->ninputs)
				return bad_tape(
					fault, "buffer %d is input %d, the task has %d tensor inputs", b, tb->input, trial->ninputs);
			g = &trial->inputs[r->given[b] = tb->input];
		} else if (tb->kind == TAPE_PARAM) {
			/* A parameter is found by name; what is given for constants is not meant here. */
			for (int p = 0; p < trial->nparams && !g; p++)
				if (!trial->params[p].for_const && !strcmp(trial->params[p].name, tb->name))
					g = &trial->params[r->given[b] = p];
			if (!g)
				return bad_tape(fault, "buffer %d is parameter %.200s, which the reference does not have", b, tb->name);
		} else if (tb->kind == TAPE_CONST && tb->name && tb->name[0]) {
			/* Finding none is no fault: the constant keeps the tape's own data then. */
			for (int p = 0; p < trial->nparams && !g; p++)
				if (trial->params[p].for_const && !strcmp(trial->params[p].name, tb->name))
					g = &trial->params[r->given[b] = p];
		}
		if (g && g->bytes != tb->bytes)
			return bad_tape(fault, "buffer %d (%s) has %lld bytes, the reference's has %lld", b,
				tb->kind == TAPE_INPUT ? "input" : tb->name, (long long)tb->bytes, (long long)g->bytes);
	}
	return 0;
}

static const struct runner_given *given_of(const struct replay *r, const struct runner_trial *trial, int b)
{
	if (r->given[b] < 0) return NULL;
	return r->tape->buffers[b].kind == TAPE_INPUT ? &trial->inputs[r->given[b]] : &trial->params[r->given[b]];
}

static int memory_fill(
	struct replay *r, const struct runner_trial *trial, const struct replay_given *given, struct runner_fault *fault)
{
	int rc = 0;
	for (int b = 0; b < r->tape->nbuffers && !rc; b++) {
		const struct tape_buffer *tb = &r->tape->buffers[b];
		const struct runner_given *g = given_of(r, trial, b);
		const uint8_t *data = g && given->shared ? NULL
			: g                                  ? given->data + g->offset
			: tb->kind == TAPE_CONST             ? tb->data
												 : NULL;
		/* What the host reads for an argument is there before the first row, and stays. */
		bool has_value = r->has_value[b];
		if (has_value && g && g->may_change)
			return launcher_fault(fault, "unsupported", -1, 0,
				"a launch is given the value of a parameter that the reference itself writes to");
		r->is_read_only[b] = has_value || (g && !g->may_change);
		if (g && given->shared)
			rc = r->launcher->buffer_set_shared(r->launcher, b, g->offset, r->is_read_only[b], fault);
		else rc = r->launcher->buffer_set(r->launcher, b, data, r->is_read_only[b], fault);
	}
	return rc;
}

_Static_assert(TAPE_DIMS_MAX <= COST_COPY_DIMS, "a copy has no more dimensions than one that costs");

static struct vm_cost copy_counts(const struct tape_row *row)
{
	struct cost_copy c = {.ndim = row->dst.ndim,
		.to_size = (int)dtype_bytes(row->dst.dtype),
		.from_size = (int)dtype_bytes(row->src.dtype)};
	for (int i = 0; i < c.ndim; i++) {
		c.shape[i] = row->dst.shape[i];
		c.to_step[i] = row->dst.stride[i] * c.to_size;
		c.from_step[i] = row->src.stride[i] * c.from_size;
	}
	return cost_copy_counts(&c);
}

void launcher_cost_add(struct runner_result *out, int row, const struct tape_row *tr, const struct vm_cost *c)
{
	struct runner_row_cost *to = &out->costs[out->ncosts++];
	*to = (struct runner_row_cost){.row = row, .kind = tr->kind};
	if (c) {
		to->kernel = tr->kernel;
		to->counts = *c;
		to->programs = c->programs;
		to->bytes = c->load_bytes + c->store_bytes;
		to->sectors = c->load_sectors + c->store_sectors;
		to->flops = c->flops;
		to->special = c->special;
		to->dot_flops = c->dot_flops;
		to->footprint_bytes = c->footprint_bytes;
		return;
	}
	to->bytes = tape_view_elements(&tr->dst) * (int64_t)dtype_bytes(tr->dst.dtype);
	if (tr->kind == TAPE_COPY) to->bytes += tape_view_elements(&tr->src) * (int64_t)dtype_bytes(tr->src.dtype);
	to->footprint_bytes = to->bytes;
	to->sectors = (to->bytes + 31) / 32;
	if (tr->kind == TAPE_COPY) to->counts = copy_counts(tr);
}

/* A row of the host's, no launch, that writes to what the reference leaves alone. */
static int target_check(const struct replay *r, int index, struct runner_fault *fault)
{
	const struct tape_row *row = &r->tape->rows[index];
	bool is_library = row->kind == TAPE_LIBRARY;
	int targets = is_library ? row->nwrites : row->kind == TAPE_FILL || row->kind == TAPE_COPY;
	for (int i = 0; i < targets; i++) {
		int to = is_library ? row->writes[i].buffer : row->dst.buffer;
		if (!r->is_read_only[to]) continue;
		bool is_input = r->tape->buffers[to].kind == TAPE_INPUT;
		char text[256];
		snprintf(text, sizeof text, "candidate.py:%d: %.100s writes to %s %d, which the reference leaves alone",
			row->line,
			is_library                   ? row->op
				: row->kind == TAPE_FILL ? "a fill"
										 : "a copy",
			is_input ? "input" : "parameter buffer", is_input ? r->tape->buffers[to].input : to);
		return launcher_fault(fault, is_input ? "input-modified" : "param-modified", index, row->line, text);
	}
	return 0;
}

static int outputs_write(struct replay *r, const struct runner_trial *trial, bool is_shared, uint8_t *outputs,
	int64_t outputs_bytes, struct runner_fault *fault)
{
	int rc = 0;
	for (int i = 0; i < r->tape->noutputs && !rc; i++) {
		const struct tape_view *v = &r->tape->outputs[i];
		int64_t bytes = tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype);
		CHECKF(trial->output_offset[i] >= 0 && bytes <= outputs_bytes - trial->output_offset[i],
			"output %d does not fit its memory", i);
		if (is_shared) rc = r->launcher->output_share(r->launcher, i, trial->output_offset[i], fault);
		else rc = r->launcher->output_read(r->launcher, i, outputs + trial->output_offset[i], fault);
	}
	return rc;
}

/* Parameters whose last contents are asked for; those that the tape does not have
 * are as they were given. */
static void params_write(struct replay *r, const struct runner_trial *trial, const struct replay_given *given,
	uint8_t *outputs, int64_t outputs_bytes)
{
	for (int p = 0; p < trial->nparams && r->launcher->buffer_read; p++) {
		const struct runner_given *g = &trial->params[p];
		int found = -1;
		if (g->read_offset < 0) continue;
		CHECKF(g->bytes <= outputs_bytes - g->read_offset, "parameter %d does not fit its memory", p);
		for (int b = 0; b < r->tape->nbuffers && found < 0; b++)
			if (r->tape->buffers[b].kind != TAPE_INPUT && r->given[b] == p) found = b;
		if (found >= 0) r->launcher->buffer_read(r->launcher, found, outputs + g->read_offset);
		else if (g->bytes) memcpy(outputs + g->read_offset, given->data + g->offset, (size_t)g->bytes);
	}
}

/* All rows in order, up to the first fault; a race between two of them is one. */
static int rows_run(
	struct replay *r, const struct launcher_trial *how, struct runner_result *out, struct runner_fault *fault)
{
	int rc = 0;
	if (r->used) row_used_clear(r->used);
	for (int i = 0; i < r->tape->nrows && !rc; i++) {
		if (r->is_skipped[i]) continue;
		if (how->deadline_ns && clock_ns() > how->deadline_ns)
			rc = launcher_fault(
				fault, RUNNER_SLOW, i, r->tape->rows[i].line, "the replay's time was spent before this row");
		if (!rc && r->tape->rows[i].kind == TAPE_LIBRARY && !how->library)
			rc = launcher_fault(fault, "library-row", i, r->tape->rows[i].line, r->tape->rows[i].op);
		if (!rc) rc = target_check(r, i, fault);
		if (!rc) rc = r->launcher->row_run(r->launcher, i, how, out, fault);
		if (!rc && r->used) row_used_take(r->used, r->tape, i, r->launcher);
	}
	return rc ? rc : used_check(r, fault);
}

/* Whether two outputs differ by more than roundings of another order of the same sums. */
static bool outputs_differ(const struct tape *t, const struct runner_trial *trial, const uint8_t *a, const uint8_t *b)
{
	for (int i = 0; i < t->noutputs; i++) {
		enum dtype d = t->outputs[i].dtype;
		int64_t n = tape_view_elements(&t->outputs[i]), size = (int64_t)dtype_bytes(d), at = trial->output_offset[i];
		double share = size < 4 ? TURNED_SHARE_NARROW : TURNED_SHARE;
		for (int64_t k = 0; k < n; k++) {
			if (!memcmp(a + at + k * size, b + at + k * size, (size_t)size)) continue;
			double x = dtype_load(d, a + at, k), y = dtype_load(d, b + at, k);
			if (!dtype_is_float(d) || !(fabs(x - y) <= share * (fabs(x) + fabs(y)))) return true;
		}
	}
	return false;
}

/* The trial once more for each way to turn the gates that are left: whether any output hangs on
 * them. A fault there is another outcome too. */
static void gates_turn(struct replay *r, const struct runner_trial *trial, const struct replay_given *given,
	const uint8_t *outputs, int64_t outputs_bytes, const struct launcher_trial *how, struct runner_coverage *out)
{
	struct runner_result nothing = {0};
	struct launcher_trial again = *how;
	uint8_t *other = xmalloc((size_t)outputs_bytes);
	again.want_cost = false;
	memcpy(other, outputs, (size_t)outputs_bytes);
	for (enum vm_turn turn = TURN_LEAST; turn <= TURN_ALL && !out->gate_matters; turn++) {
		struct runner_fault fault;
		r->launcher->turn(r->launcher, turn);
		int rc = memory_fill(r, trial, given, &fault);
		if (!rc) rc = rows_run(r, &again, &nothing, &fault);
		if (!rc) rc = outputs_write(r, trial, false, other, outputs_bytes, &fault);
		out->gate_matters = rc || outputs_differ(r->tape, trial, outputs, other);
	}
	r->launcher->turn(r->launcher, TURN_NONE);
	runner_result_release(&nothing);
	free(other);
}

/* Addresses of what launches did not use as elements of what the trial was given; others go. */
static void missed_name(const struct replay *r, const struct runner_trial *trial, struct runner_coverage *c)
{
	int kept = 0;
	for (int i = 0; i < c->nmissed; i++) {
		struct runner_missed m = c->missed[i];
		int b = (int)(m.name >> TAPE_ADDRESS_SHIFT) - 1;
		int64_t offset = (int64_t)(m.name & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
		if (b < 0 || b >= r->tape->nbuffers || r->given[b] < 0) continue;
		bool is_input = r->tape->buffers[b].kind == TAPE_INPUT;
		m.input = is_input ? r->given[b] : -1;
		m.param_offset = is_input ? 0 : trial->params[r->given[b]].offset;
		m.element = offset / m.size;
		c->missed[kept++] = m;
	}
	c->nmissed = kept;
}

void replay_run(struct replay *r, const struct runner_trial *trial, const struct replay_given *given, uint8_t *outputs,
	int64_t outputs_bytes, struct runner_result *out)
{
	*out = (struct runner_result){.place = {.output = -1}};
	struct launcher *l = r->launcher;
	uint64_t start = clock_ns();
	struct launcher_trial how = {.library = given->library,
		.is_unchecked = trial->is_unchecked,
		.want_cost = trial->want_cost,
		.compiled = trial->compiled,
		.gpu = trial->gpu,
		.crosswise = trial->crosswise,
		.is_overlapped = trial->is_overlapped,
		.may_be_given = trial->may_be_given,
		.want_coverage = trial->want_coverage,
		.is_search = trial->is_search,
		.want_missed = trial->want_missed};
	if (how.want_cost) out->costs = xcalloc((size_t)r->tape->nrows + 1, sizeof *out->costs);

	/* Memory is filled, then rows run in the tape's order. */
	int rc = given_match(r, trial, &out->fault);
	bool is_filled = false, is_shared = given->shared != NULL;
	if (!rc && is_shared && !l->share)
		rc = launcher_fault(&out->fault, "unshared", -1, 0, "this launcher has no memory that others share");
	if (!rc && is_shared) rc = l->share(l, given->shared, &out->fault);
	if (!rc) {
		rc = memory_fill(r, trial, given, &out->fault);
		is_filled = !rc;
	}
	/* What is given takes the machine's time to copy: the rows' own begins here. */
	if (trial->deadline_ms > 0) how.deadline_ns = deadline_in_ms(trial->deadline_ms);
	if (!rc && given->begun) given->begun();
	if (!rc) rc = rows_run(r, &how, out, &out->fault);

	/* Memory beside the buffers is looked at also after a fault: what it tells comes first. */
	struct runner_fault last = {0};
	if (is_filled && !l->is_spent(l) && l->finish(l, &how, out, &last)) {
		bool is_first = !rc || !strcmp(last.code, "canary");
		rc = ERR_MISMATCH;
		if (is_first) out->fault = last;
	}
	missed_name(r, trial, &out->coverage);
	/* Timing repeats the rows, so it comes after the checked run and is checked like it. */
	if (!rc && trial->is_timed && given->clock && l->time) {
		rc = l->time(l, r->is_skipped, given->clock, out, &out->fault);
		how.deadline_ns = 0; /* all questions are answered, and nothing is queued */
		if (!rc) rc = l->finish(l, &how, out, &out->fault);
	}
	if (!rc) rc = outputs_write(r, trial, is_shared, outputs, outputs_bytes, &out->fault);
	if (!rc && !is_shared) params_write(r, trial, given, outputs, outputs_bytes);
	if (is_shared && l->unshare) l->unshare(l);
	out->has_fault = rc != 0;
	out->run_ns = (int64_t)(clock_ns() - start);
	/* The trial is over: its inputs are changed from here on. */
	if (!rc && trial->want_turned && out->coverage.gate_line && l->turn)
		gates_turn(r, trial, given, outputs, outputs_bytes, &how, &out->coverage);
	struct aim_place aim = {l, r->tape, r->is_skipped, r->is_read_only, r->given, how.deadline_ns};
	if (!rc && trial->naims && l->aim) aim_search(&aim, trial, &out->coverage);
}

/* A place outside of its buffer, whatever is read; or rows that meet. */
static bool is_certain(const struct runner_fault *f)
{
	return !strcmp(f->code, "out-of-bounds") || !strcmp(f->code, "misaligned") || !strcmp(f->code, "race");
}

void replay_price(struct replay *r, const struct runner_trial *trial, struct runner_result *out)
{
	uint64_t start = clock_ns();
	struct launcher_trial how = {.want_cost = true,
		.compiled = trial->compiled,
		.gpu = trial->gpu,
		.seed = trial->seed,
		.deadline_ns = trial->deadline_ms > 0 ? deadline_in_ms(trial->deadline_ms) : 0};
	*out = (struct runner_result){.place = {.output = -1}};
	out->costs = xcalloc((size_t)r->tape->nrows + 1, sizeof *out->costs);
	out->has_fault = rows_run(r, &how, out, &out->fault) != 0;
	/* What did not run uses all that it is handed. */
	if (out->has_fault && r->used && !is_certain(&out->fault)) {
		struct row_race race = row_race_find(r->tape, r->order, r->is_skipped, NULL);
		race_fault(r->tape, &race, &out->fault);
	}
	out->run_ns = (int64_t)(clock_ns() - start);
}
