/* replay: a tape's rows, one after another, over memory that is made anew for each trial.
 *
 * Every buffer stands between two canaries. Inputs, parameters and constants are copied in and
 * tagged GIVEN; temporaries start as bytes of 0xff (NaN in every float format, -1 in every integer)
 * tagged NONE, so that a value nobody wrote is loud in a comparison and a fault in a load. Library
 * rows on the data path stop the replay; dead ones are skipped together with the launches that only
 * they feed. */
#include "runner/replay.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/movement.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <stdlib.h>

#define CANARY_BYTES 256
#define CANARY 0xa5
#define UNWRITTEN 0xff
#define DISTANCE_MIN 3   /* between two buffers of a launch, in steps of a buffer's room */
#define DISTANCES 5

struct cached_kernel {
	struct sha256_hex hash;
	struct vm_kernel *kernel;
};
struct replay {
	struct tape *tape;
	int64_t memory_bytes;
	int ncached;
	struct cached_kernel *cached;
	struct vm_kernel **kernels; /* (tape->nkernels), owned by cached */
	bool *on_path;              /* (tape->nrows) */
	bool *is_skipped;           /* (tape->nrows): dead library rows and what they feed */
	uint8_t **blocks;           /* (tape->nbuffers): canary, data, canary */
	uint8_t **origin;           /* (tape->nbuffers) */
	struct vm_buffer *memory;   /* (tape->nbuffers) */
	int32_t *given;             /* (tape->nbuffers): index into the trial's inputs or parameters, -1 */
	int trials;                 /* so far */
};

static int fault_set(struct runner_fault *f, const char *code, int row, int line, const char *text)
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
	fault_set(f, "bad-tape", -1, 0, "");
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return ERR_MISMATCH;
}

static uint8_t *buffer_data(const struct replay *r, int b) { return r->blocks[b] + CANARY_BYTES; }

static void release_tape(struct replay *r)
{
	for (int b = 0; r->tape && b < r->tape->nbuffers; b++) {
		if (r->blocks) free(r->blocks[b]);
		if (r->origin) free(r->origin[b]);
	}
	free(r->kernels);
	free(r->on_path);
	free(r->is_skipped);
	free(r->blocks);
	free(r->origin);
	free(r->memory);
	free(r->given);
	tape_free(r->tape);
	r->tape = NULL;
	r->kernels = NULL;
	r->on_path = r->is_skipped = NULL;
	r->blocks = r->origin = NULL;
	r->memory = NULL;
	r->given = NULL;
}

static int kernels_prepare(struct replay *r, struct runner_fault *fault)
{
	const struct tape *t = r->tape;
	r->kernels = xcalloc((size_t)t->nkernels + 1, sizeof *r->kernels);
	for (int k = 0; k < t->nkernels; k++) {
		const struct tape_kernel *tk = &t->kernels[k];
		for (int i = 0; i < r->ncached && !r->kernels[k]; i++)
			if (!strcmp(r->cached[i].hash.text, tk->hash.text)) r->kernels[k] = r->cached[i].kernel;
		if (r->kernels[k]) continue;
		struct err err = {0};
		struct vm_kernel *made = NULL;
		int rc = vm_kernel_create(tk->ttir, tk->ttir_len, &made, &err);
		if (rc) return fault_set(fault, rc == ERR_UNSUPPORTED ? "unsupported-op" : "bad-ir", -1, 0, err.text);
		r->cached = xrealloc(r->cached, size_mul((size_t)r->ncached + 1, sizeof *r->cached));
		r->cached[r->ncached++] = (struct cached_kernel){tk->hash, made};
		r->kernels[k] = made;
	}
	return 0;
}

/* Dead library rows do not run, nor does a launch that uses a buffer which one of them wrote: its
 * addresses might be garbage. */
static int rows_prepare(struct replay *r, struct runner_fault *fault)
{
	const struct tape *t = r->tape;
	r->on_path = xcalloc((size_t)t->nrows + 1, sizeof *r->on_path);
	r->is_skipped = xcalloc((size_t)t->nrows + 1, sizeof *r->is_skipped);
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
		for (int a = 0; row->kind == TAPE_LAUNCH && a < row->nargs; a++)
			uses_taint |= row->args[a].kind == TAPE_ARG_POINTER && row->args[a].buffer >= 0 &&
				tainted[row->args[a].buffer];
		uses_taint |= row->kind == TAPE_COPY && tainted[row->src.buffer];
		if (row->kind != TAPE_LIBRARY && !uses_taint) continue;
		if (r->on_path[i]) {
			if (row->kind == TAPE_LIBRARY) {
				rc = fault_set(fault, "library-row", i, row->line, row->op);
				break;
			}
			continue; /* cannot be: what feeds a row on the path is on the path */
		}
		r->is_skipped[i] = true;
		for (int w = 0; row->kind == TAPE_LIBRARY && w < row->nwrites; w++) tainted[row->writes[w].buffer] = true;
		for (int a = 0; row->kind == TAPE_LAUNCH && a < row->nargs; a++)
			if (row->args[a].kind == TAPE_ARG_POINTER && row->args[a].buffer >= 0) tainted[row->args[a].buffer] = true;
		if (row->kind == TAPE_COPY) tainted[row->dst.buffer] = true;
	}
	free(tainted);
	return rc;
}

static int memory_prepare(struct replay *r, struct runner_fault *fault)
{
	const struct tape *t = r->tape;
	int64_t total = 0;
	for (int b = 0; b < t->nbuffers; b++) {
		total += 2 * t->buffers[b].bytes + 2 * CANARY_BYTES;
		if (total > r->memory_bytes) {
			char text[256];
			snprintf(text, sizeof text,
				"the tape's buffers with their origin tags need more than the replay's bound of %lld MiB (buffer %d "
				"has %lld bytes)",
				(long long)(r->memory_bytes >> 20), b, (long long)t->buffers[b].bytes);
			return fault_set(fault, "memory", -1, 0, text);
		}
	}
	size_t n = (size_t)t->nbuffers + 1;
	r->blocks = xcalloc(n, sizeof *r->blocks);
	r->origin = xcalloc(n, sizeof *r->origin);
	r->memory = xcalloc(n, sizeof *r->memory);
	r->given = xcalloc(n, sizeof *r->given);
	for (int b = 0; b < t->nbuffers; b++) {
		size_t bytes = (size_t)t->buffers[b].bytes, rounded = (bytes + 2 * CANARY_BYTES + 255) / 256 * 256;
		r->blocks[b] = aligned_alloc(256, rounded);
		CHECKF(r->blocks[b], "no memory for a buffer of %zu bytes", bytes);
		r->origin[b] = xmalloc(bytes ? bytes : 1);
		r->memory[b] = (struct vm_buffer){
			tape_buffer_address(b), t->buffers[b].bytes, buffer_data(r, b), r->origin[b], false};
	}
	return 0;
}

int replay_reload(struct replay *r, struct tape *t, struct runner_fault *fault)
{
	release_tape(r);
	r->tape = t;
	int rc = rows_prepare(r, fault);
	if (!rc) rc = kernels_prepare(r, fault);
	if (!rc) rc = memory_prepare(r, fault);
	if (rc) release_tape(r);
	return rc;
}

int replay_create(struct tape *t, int64_t memory_bytes, struct replay **out, struct runner_fault *fault)
{
	struct replay *r = xcalloc(1, sizeof *r);
	r->memory_bytes = memory_bytes;
	int rc = replay_reload(r, t, fault);
	if (rc) replay_free(r);
	else *out = r;
	return rc;
}

void replay_free(struct replay *r)
{
	if (!r) return;
	release_tape(r);
	for (int i = 0; i < r->ncached; i++) vm_kernel_free(r->cached[i].kernel);
	free(r->cached);
	free(r);
}

const struct tape *replay_tape(const struct replay *r) { return r->tape; }

/* Of the first launch on the data path whose kernel `has` something: the line of it. */
static int line_on_path(const struct replay *r, bool (*has)(const struct vm_kernel *k, int *line))
{
	for (int i = 0; i < r->tape->nrows; i++) {
		int line = 0;
		if (r->tape->rows[i].kind == TAPE_LAUNCH && r->on_path[i] && has(r->kernels[r->tape->rows[i].kernel], &line))
			return MAX(line, 0);
	}
	return -1;
}

int replay_tf32_line(const struct replay *r) { return line_on_path(r, vm_kernel_uses_tf32); }

/* A kernel's narrowing, or a row that casts what is wide to what is not. */
int replay_narrow_line(const struct replay *r)
{
	int line = line_on_path(r, vm_kernel_narrows);
	for (int i = 0; i < r->tape->nrows && line < 0; i++) {
		const struct tape_row *row = &r->tape->rows[i];
		if (row->kind != TAPE_COPY || !r->on_path[i]) continue;
		enum dtype from = row->src.dtype, to = row->dst.dtype;
		bool is_wide = from == DTYPE_F32 || from == DTYPE_F64;
		if (is_wide && dtype_is_float(to) && dtype_bytes(to) < 4) line = MAX(row->line, 0);
	}
	return line;
}

int replay_order_line(const struct replay *r) { return line_on_path(r, vm_kernel_may_depend_on_order); }

/* Which piece of the given data belongs to each buffer; a tape that asks for what does not exist,
 * or in another size, was not made by our tracer. */
static int given_match(struct replay *r, const struct runner_trial *trial, struct runner_fault *fault)
{
	for (int b = 0; b < r->tape->nbuffers; b++) {
		const struct tape_buffer *tb = &r->tape->buffers[b];
		const struct runner_given *g = NULL;
		r->given[b] = -1;
		if (tb->kind == TAPE_INPUT) {
			if (tb->input < 0 || tb->input >= trial->ninputs)
				return bad_tape(
					fault, "buffer %d is input %d, the task has %d tensor inputs", b, tb->input, trial->ninputs);
			g = &trial->inputs[r->given[b] = tb->input];
		} else if (tb->kind == TAPE_PARAM) {
			for (int p = 0; p < trial->nparams && !g; p++)
				if (!trial->params[p].for_const && !strcmp(trial->params[p].name, tb->name))
					g = &trial->params[r->given[b] = p];
			if (!g)
				return bad_tape(fault, "buffer %d is parameter %.200s, which the reference does not have", b, tb->name);
		} else if (tb->kind == TAPE_CONST && tb->name && tb->name[0]) {
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

static void memory_fill(struct replay *r, const struct runner_trial *trial, const struct replay_given *given)
{
	for (int b = 0; b < r->tape->nbuffers; b++) {
		const struct tape_buffer *tb = &r->tape->buffers[b];
		const struct runner_given *g = given_of(r, trial, b);
		size_t bytes = (size_t)tb->bytes;
		memset(r->blocks[b], CANARY, CANARY_BYTES);
		memset(buffer_data(r, b) + bytes, CANARY, CANARY_BYTES);
		if (g) memcpy(buffer_data(r, b), given->data + g->offset, bytes);
		else if (tb->kind == TAPE_CONST) memcpy(buffer_data(r, b), tb->data, bytes);
		else memset(buffer_data(r, b), UNWRITTEN, bytes);
		memset(r->origin[b], tb->kind == TAPE_TEMP ? TAPE_ORIGIN_NONE : TAPE_ORIGIN_GIVEN, bytes);
		r->memory[b].is_read_only = g && !g->may_change;
	}
}

static void cost_add(struct runner_result *out, int row, const struct tape_row *tr, const struct vm_cost *c)
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
}

static void lines_add(struct runner_result *out, const struct vm_report *report)
{
	for (int i = 0; i < report->nlines; i++) {
		const struct vm_line_cost *l = &report->lines[i];
		int at = 0;
		while (at < out->nlines && out->lines[at].line != l->line) at++;
		if (at == out->nlines) {
			out->lines = xrealloc(out->lines, size_mul((size_t)out->nlines + 1, sizeof *out->lines));
			out->lines[out->nlines++] = (struct runner_line_cost){.line = l->line};
		}
		out->lines[at].bytes += l->cost.load_bytes + l->cost.store_bytes;
		out->lines[at].sectors += l->cost.load_sectors + l->cost.store_sectors;
		out->lines[at].flops += l->cost.flops + l->cost.dot_flops;
	}
}

/* A store into memory that must not change is the vm's read-only fault; the reason code says what
 * that memory was. */
static const char *fault_code(const struct replay *r, const struct vm_report *report, const struct tape_row *row)
{
	if (report->fault != VM_FAULT_READ_ONLY) return vm_fault_name(report->fault);
	for (int a = 0; a < row->nargs; a++)
		if (row->args[a].kind == TAPE_ARG_POINTER && row->args[a].buffer >= 0 &&
			r->memory[row->args[a].buffer].is_read_only && r->tape->buffers[row->args[a].buffer].kind == TAPE_INPUT)
			return "input-modified";
	return "param-modified";
}

/* What a launch may touch: the buffers of its arguments. They lie at other distances from each other, and in another
 * order, in each trial: a pointer that is computed from another buffer's by a number reaches nothing. */
struct reach {
	int n;
	int ids[TAPE_ARGS_MAX];                  /* buffers of the tape, rising */
	struct vm_buffer buffers[TAPE_ARGS_MAX]; /* by rising address */
	uint64_t address[TAPE_ARGS_MAX];         /* of ids[i] in this launch */
};

static int reach_find(const struct reach *own, int buffer)
{
	int at = 0;
	while (at < own->n && own->ids[at] < buffer) at++;
	return at;
}

static void reach_make(const struct replay *r, const struct tape_row *row, struct reach *own)
{
	own->n = 0;
	for (int a = 0; a < row->nargs; a++) {
		if (row->args[a].kind != TAPE_ARG_POINTER || row->args[a].buffer < 0) continue;
		int at = reach_find(own, row->args[a].buffer);
		if (at < own->n && own->ids[at] == row->args[a].buffer) continue;
		memmove(own->ids + at + 1, own->ids + at, (size_t)(own->n++ - at) * sizeof *own->ids);
		own->ids[at] = row->args[a].buffer;
	}
	int distance = DISTANCE_MIN + r->trials % DISTANCES;
	bool is_reversed = r->trials & 1;
	for (int i = 0; i < own->n; i++) {
		int at = is_reversed ? own->n - 1 - i : i;
		own->address[i] = tape_buffer_address(at * distance + r->trials % distance);
		own->buffers[at] = r->memory[own->ids[i]];
		own->buffers[at].address = own->address[i];
	}
}

static int row_launch(
	struct replay *r, int index, const struct runner_trial *trial, uint64_t deadline_ns, struct runner_result *out)
{
	const struct tape_row *row = &r->tape->rows[index];
	struct vm_arg args[TAPE_ARGS_MAX];
	struct reach own;
	reach_make(r, row, &own);
	for (int a = 0; a < row->nargs; a++) {
		const struct tape_arg *ta = &row->args[a];
		args[a] = (struct vm_arg){.i = ta->i, .f = ta->f};
		if (ta->kind == TAPE_ARG_POINTER)
			args[a].i = ta->buffer < 0
				? 0
				: (int64_t)(own.address[reach_find(&own, ta->buffer)] + (uint64_t)ta->offset_bytes);
	}
	struct vm_launch_options o = {.args = args,
		.nargs = row->nargs,
		.buffers = own.buffers,
		.nbuffers = own.n,
		.deadline_ns = deadline_ns,
		.want_cost = trial->want_cost,
		.num_warps = r->tape->kernels[row->kernel].num_warps,
		/* the first replay looked for races; the second is in another order, as far as any is left open */
		.checks = trial->crosswise ? 0 : VM_CHECK_RACE,
		.schedule = trial->crosswise ? (uint64_t)r->trials : 0,
		.crosswise = trial->crosswise};
	memcpy(o.grid, row->grid, sizeof o.grid);
	struct vm_report report = {0};
	struct err err = {0};
	int rc = vm_launch(r->kernels[row->kernel], &o, &report, &err);
	if (rc && report.fault != VM_FAULT_NONE)
		fault_set(&out->fault, fault_code(r, &report, row), index, report.line, report.text);
	else if (rc)
		fault_set(&out->fault, rc == ERR_UNSUPPORTED ? "unsupported-op" : "argument", index, row->line, err.text);
	else if (trial->want_cost) cost_add(out, index, row, &report.cost);
	if (!rc && trial->want_cost) lines_add(out, &report);
	vm_report_release(&report);
	out->has_fault = rc != 0;
	return rc;
}

static int row_move(struct replay *r, int index, bool want_cost, struct runner_result *out)
{
	const struct tape_row *row = &r->tape->rows[index];
	int to = row->dst.buffer;
	if (r->memory[to].is_read_only) {
		bool is_input = r->tape->buffers[to].kind == TAPE_INPUT;
		char text[128];
		snprintf(text, sizeof text, "candidate.py:%d: a %s writes to %s %d, which the reference leaves alone",
			row->line, row->kind == TAPE_FILL ? "fill" : "copy", is_input ? "input" : "parameter buffer",
			is_input ? r->tape->buffers[to].input : to);
		out->has_fault = true;
		return fault_set(&out->fault, is_input ? "input-modified" : "param-modified", index, row->line, text);
	}
	struct memory_view dst = {buffer_data(r, to), r->origin[to]};
	if (row->kind == TAPE_FILL) movement_fill(&row->dst, dst, row->fill, row->fill_int);
	else
		movement_copy(&row->dst, dst, &row->src,
			(struct memory_view){buffer_data(r, row->src.buffer), r->origin[row->src.buffer]});
	if (want_cost) cost_add(out, index, row, NULL);
	return 0;
}

static bool canaries_hold(const struct replay *r)
{
	for (int b = 0; b < r->tape->nbuffers; b++) {
		const uint8_t *before = r->blocks[b], *after = buffer_data(r, b) + r->tape->buffers[b].bytes;
		for (int i = 0; i < CANARY_BYTES; i++)
			if (before[i] != CANARY || after[i] != CANARY) return false;
	}
	return true;
}

static void outputs_write(
	const struct replay *r, const struct runner_trial *trial, uint8_t *outputs, int64_t outputs_bytes)
{
	for (int i = 0; i < r->tape->noutputs; i++) {
		const struct tape_view *v = &r->tape->outputs[i];
		int64_t bytes = tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype);
		CHECKF(trial->output_offset[i] >= 0 && bytes <= outputs_bytes - trial->output_offset[i],
			"output %d does not fit its memory", i);
		movement_gather(v, buffer_data(r, v->buffer), outputs + trial->output_offset[i]);
	}
}

void replay_run(struct replay *r, const struct runner_trial *trial, const struct replay_given *given, uint8_t *outputs,
	int64_t outputs_bytes, struct runner_result *out)
{
	*out = (struct runner_result){.lineage_output = -1};
	if (given_match(r, trial, &out->fault)) {
		out->has_fault = true;
		return;
	}
	uint64_t start = clock_ns(),
			 deadline = trial->deadline_ms > 0 ? start + (uint64_t)trial->deadline_ms * 1000000u : 0;
	memory_fill(r, trial, given);
	r->trials++;
	if (trial->want_cost) out->costs = xcalloc((size_t)r->tape->nrows + 1, sizeof *out->costs);
	for (int i = 0; i < r->tape->nrows && !out->has_fault; i++) {
		if (r->is_skipped[i]) continue;
		if (deadline && clock_ns() > deadline) {
			out->has_fault = true;
			fault_set(&out->fault, vm_fault_name(VM_FAULT_TIMEOUT), i, r->tape->rows[i].line,
				"the replay's time was spent before this row");
		} else if (r->tape->rows[i].kind == TAPE_LAUNCH) {
			row_launch(r, i, trial, deadline, out);
		} else {
			row_move(r, i, trial->want_cost, out);
		}
	}
	if (!canaries_hold(r)) {
		out->has_fault = true;
		fault_set(&out->fault, "canary", -1, 0, "memory beside a buffer changed although every access was checked");
	}
	if (!out->has_fault) {
		out->lineage = tape_lineage_outputs(r->tape, r->origin, &out->lineage_output);
		outputs_write(r, trial, outputs, outputs_bytes);
	}
	out->run_ns = (int64_t)(clock_ns() - start);
}
