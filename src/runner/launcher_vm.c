/* launcher_vm: rows on this processor, by the vm. Every buffer stands between two canaries and has
 * an origin tag for each byte: GIVEN for inputs, parameters and constants, NONE for temporaries, so
 * that a load of what nobody wrote is a fault. */
#include "runner/launcher_vm.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "runner/movement.h"
#include "vm/vm.h"
#include <stdlib.h>

#define CANARY_BYTES 256
#define DISTANCE_MIN 3   /* between two buffers of a launch, in steps of a buffer's room */
#define DISTANCES 5
#define MANY_ROWS 32
#define PRICED_WORK ((int64_t)1 << 33) /* element operations of all rows of a priced tape, where they are many */

static uint8_t *buffer_data(const struct launcher_vm *v, int b) { return v->blocks[b] + CANARY_BYTES; }

static void release_compiled(struct launcher_vm *v)
{
	for (int k = 0; v->compiled && k < v->tape->nkernels; k++) vm_compiled_free(v->compiled[k]);
	free(v->compiled);
	v->compiled = NULL;
}

static void release_tape(struct launcher_vm *v)
{
	v->progress = (struct vm_progress){.ended = 0};
	release_compiled(v);
	launcher_vm_follow_end(v);
	/* What each buffer has, and then what all of them have together. */
	for (int b = 0; b < v->nbuffers; b++) {
		free(v->blocks[b]);
		free(v->origin[b]);
		free(v->memory[b].read);
		free(v->memory[b].written);
	}
	free(v->kernels);
	free(v->cached_of);
	free(v->blocks);
	free(v->origin);
	free(v->memory);
	free(v->held);
	free(v->held_at);
	free(v->ranges);
	v->nbuffers = 0;
	v->kernels = NULL;
	v->cached_of = NULL;
	v->blocks = v->origin = NULL;
	v->memory = NULL;
	v->ranges = NULL;
	v->held = NULL;
	v->held_at = NULL;
	v->tape = NULL;
}

static int kernels_prepare(struct launcher_vm *v, struct runner_fault *fault)
{
	const struct tape *t = v->tape;
	v->kernels = xcalloc((size_t)t->nkernels + 1, sizeof *v->kernels);
	v->cached_of = xcalloc((size_t)t->nkernels + 1, sizeof *v->cached_of);
	for (int k = 0; k < t->nkernels; k++) {
		const struct tape_kernel *tk = &t->kernels[k];
		for (int i = 0; i < v->ncached && !v->kernels[k]; i++) {
			if (strcmp(v->cached[i].hash.text, tk->hash.text)) continue;
			v->kernels[k] = v->cached[i].kernel;
			v->cached_of[k] = i;
		}
		if (v->kernels[k]) continue;
		struct err err = {0};
		struct vm_kernel *made = NULL;
		int rc = vm_kernel_create(tk->ttir, tk->ttir_len, &made, &err);
		if (rc) return launcher_fault(fault, rc == ERR_UNSUPPORTED ? "unsupported-op" : "bad-ir", -1, 0, err.text);
		v->cached = xrealloc(v->cached, size_mul((size_t)v->ncached + 1, sizeof *v->cached));
		v->cached_of[k] = v->ncached;
		v->cached[v->ncached++] = (struct cached_kernel){tk->hash, made, NULL};
		v->kernels[k] = made;
	}
	return 0;
}

static int memory_prepare(struct launcher_vm *v, struct runner_fault *fault)
{
	const struct tape *t = v->tape;
	int64_t total = 0;
	/* The bound is checked before anything is allocated, since the sizes are the tape's word. Each
	 * byte counts twice: an origin tag stands beside it. */
	for (int b = 0; b < t->nbuffers; b++) {
		total += 2 * t->buffers[b].bytes + 2 * CANARY_BYTES;
		if (total > v->memory_bytes) {
			char text[256];
			snprintf(text, sizeof text,
				"the tape's buffers with their origin tags need more than the replay's bound of %lld MiB (buffer %d "
				"has %lld bytes)",
				(long long)(v->memory_bytes >> 20), b, (long long)t->buffers[b].bytes);
			return launcher_fault(fault, "memory", -1, 0, text);
		}
	}
	size_t n = (size_t)t->nbuffers + 1;
	v->blocks = xcalloc(n, sizeof *v->blocks);
	v->origin = xcalloc(n, sizeof *v->origin);
	v->memory = xcalloc(n, sizeof *v->memory);
	v->nbuffers = t->nbuffers;
	/* A block has its two canaries inside and is rounded up to what aligned_alloc takes. Contents
	 * come with each trial, from buffer_set. */
	for (int b = 0; b < t->nbuffers; b++) {
		size_t bytes = (size_t)t->buffers[b].bytes, rounded = (bytes + 2 * CANARY_BYTES + 255) / 256 * 256;
		v->blocks[b] = aligned_alloc(256, rounded);
		CHECKF(v->blocks[b], "no memory for a buffer of %zu bytes", bytes);
		v->origin[b] = xmalloc(bytes ? bytes : 1);
		v->memory[b] = (struct vm_buffer){.address = tape_buffer_address(b),
			.bytes = t->buffers[b].bytes,
			.data = buffer_data(v, b),
			.origin = v->origin[b]};
	}
	return 0;
}

/* All buffers read the same pattern and write nowhere, whatever their sizes are. */
static void memory_by_offset(struct launcher_vm *v)
{
	const struct tape *t = v->tape;
	size_t n = (size_t)t->nbuffers + 1;
	v->blocks = xcalloc(n, sizeof *v->blocks);
	v->origin = xcalloc(n, sizeof *v->origin);
	v->memory = xcalloc(n, sizeof *v->memory);
	v->nbuffers = t->nbuffers;
	for (int b = 0; b < t->nbuffers; b++)
		v->memory[b] = (struct vm_buffer){.address = tape_buffer_address(b),
			.bytes = t->buffers[b].bytes,
			.data = v->pattern,
			.period = VM_PERIOD_BYTES};
}

static int vm_load(struct launcher *l, const struct tape *t, const bool *is_skipped,
	const struct runner_binaries *binaries, struct runner_fault *fault)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	release_tape(v);
	v->tape = t;
	int rc = kernels_prepare(v, fault);
	if (!rc && v->pattern) memory_by_offset(v);
	else if (!rc) rc = memory_prepare(v, fault);
	if (rc) release_tape(v);
	return rc;
}

static int vm_buffer_set(struct launcher *l, int b, const uint8_t *data, bool is_read_only, struct runner_fault *fault)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	const struct tape_buffer *tb = &v->tape->buffers[b];
	size_t bytes = (size_t)tb->bytes;
	memset(v->blocks[b], LAUNCHER_CANARY, CANARY_BYTES);
	memset(buffer_data(v, b) + bytes, LAUNCHER_CANARY, CANARY_BYTES);
	if (data) memcpy(buffer_data(v, b), data, bytes);
	else memset(buffer_data(v, b), LAUNCHER_UNWRITTEN, bytes);
	memset(v->origin[b], tb->kind == TAPE_TEMP ? TAPE_ORIGIN_NONE : TAPE_ORIGIN_GIVEN, bytes);
	v->memory[b].is_read_only = is_read_only;
	if (v->memory[b].read) {
		memset(v->memory[b].read, 0, bytes);
		memset(v->memory[b].written, 0, bytes);
	}
	return 0;
}

/* Two maps of a buffer's size beside its data and its tags, within the same bound; memory by offset
 * has no room for them, and gets ranges. */
static bool vm_follow_used(struct launcher *l)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	int64_t total = 0;
	if (v->pattern) {
		v->ranges = xcalloc(2 * (size_t)v->nbuffers + 2, sizeof *v->ranges);
		for (int i = 0; i < 2 * v->nbuffers; i++) v->ranges[i].from = INT64_MAX;
		for (int b = 0; b < v->nbuffers; b++) v->memory[b].used = v->ranges + 2 * (size_t)b;
		return true;
	}
	for (int b = 0; b < v->nbuffers; b++) total += 4 * v->tape->buffers[b].bytes + 2 * CANARY_BYTES;
	if (total > v->memory_bytes) return false;
	for (int b = 0; b < v->nbuffers; b++) {
		v->memory[b].read = xcalloc((size_t)v->tape->buffers[b].bytes + 1, 1);
		v->memory[b].written = xcalloc((size_t)v->tape->buffers[b].bytes + 1, 1);
	}
	return true;
}

static struct launcher_used vm_used(const struct launcher *l, int b)
{
	const struct launcher_vm *v = (const struct launcher_vm *)l;
	return (struct launcher_used){v->memory[b].read, v->memory[b].written, v->memory[b].used};
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
static const char *fault_code(const struct launcher_vm *v, const struct vm_report *report, const struct tape_row *row)
{
	if (report->is_slow) return RUNNER_SLOW;
	if (report->fault != VM_FAULT_READ_ONLY) return vm_fault_name(report->fault);
	for (int a = 0; a < row->nargs; a++)
		if (tape_arg_has_buffer(&row->args[a]) && v->memory[row->args[a].buffer].is_read_only &&
			v->tape->buffers[row->args[a].buffer].kind == TAPE_INPUT)
			return "input-modified";
	return "param-modified";
}

/* What a launch may touch: the buffers of its arguments. They lie at other distances from each
 * other, and in another order, in each trial: a pointer that is computed from another buffer's by a
 * number reaches nothing. */
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

static void reach_make(const struct launcher_vm *v, const struct tape_row *row, struct reach *own)
{
	own->n = 0;
	/* each buffer once, in order */
	for (int a = 0; a < row->nargs; a++) {
		if (!tape_arg_has_buffer(&row->args[a])) continue;
		int at = reach_find(own, row->args[a].buffer);
		if (at < own->n && own->ids[at] == row->args[a].buffer) continue;
		memmove(own->ids + at + 1, own->ids + at, (size_t)(own->n++ - at) * sizeof *own->ids);
		own->ids[at] = row->args[a].buffer;
	}
	/* places for them in this trial */
	int distance = DISTANCE_MIN + v->trials % DISTANCES;
	bool is_reversed = v->trials & 1;
	for (int i = 0; i < own->n; i++) {
		int at = is_reversed ? own->n - 1 - i : i;
		own->address[i] = tape_buffer_address(at * distance + v->trials % distance);
		own->buffers[at] = v->memory[own->ids[i]];
		own->buffers[at].address = own->address[i];
	}
}

/* A descriptor is its base with sizes and strides behind it. A kernel for cards without tensor maps
 * takes them twice: the compiler's own part (i64, and whether padding is NaN), then the sizes (i32)
 * and strides (i64) that every descriptor has. Returns how many words it wrote. */
static int descriptor_words(uint64_t address, const struct tape_arg *a, bool is_lowered, struct vm_arg *out)
{
	const struct tape_view *v = &a->descriptor->view;
	int n = 0;
	out[n++] = (struct vm_arg){.i = (int64_t)address, .nan_padding = a->descriptor->nan_padding};
	for (int round = is_lowered ? 0 : 1; round < 2; round++) {
		for (int d = 0; d < v->ndim; d++) out[n++] = (struct vm_arg){.i = v->shape[d]};
		for (int d = 0; d < v->ndim; d++) out[n++] = (struct vm_arg){.i = v->stride[d]};
		if (round == 0) out[n++] = (struct vm_arg){.i = a->descriptor->nan_padding};
	}
	return n;
}

/* Whether a launcher passes this on where the IR's function has that type: it makes neither a
 * number of the other kind nor a number of an address. A pointer may be given as a number. */
static bool argument_fits(const struct tape_arg *a, const char *type)
{
	bool is_pointer = !strncmp(type, "!tt.ptr", 7), is_descriptor = !strncmp(type, "!tt.tensordesc", 14),
		 is_float = type[0] == 'f' || type[0] == 'b', is_int = type[0] == 'i';
	switch (a->kind) {
	case TAPE_ARG_POINTER: return is_pointer;
	case TAPE_ARG_INT: return is_int || is_pointer;
	case TAPE_ARG_FLOAT:
	case TAPE_ARG_VALUE: return is_float;
	default: return is_descriptor || is_pointer; /* a descriptor, or the pointer that a lowered one begins with */
	}
}

int launcher_arguments(const struct vm_kernel *k, const struct tape_row *row, const uint64_t *address,
	const double *value, struct vm_arg *args, struct err *err)
{
	static const char *const kinds[] = {"memory", "a whole number", "a float", "a descriptor", "a float"};
	int n = 0;
	for (int a = 0; a < row->nargs; a++) {
		const struct tape_arg *ta = &row->args[a];
		/* Arguments beyond the function's are counted, and refused by the launch. */
		if (n < vm_kernel_nargs(k) && !argument_fits(ta, vm_kernel_arg_type(k, n))) {
			err_set(err, ERR_FORMAT, "launch of %s: argument %d is %s, and the kernel takes %.60s there",
				vm_kernel_name(k), a, kinds[ta->kind], vm_kernel_arg_type(k, n));
			return -1;
		}
		if (ta->kind == TAPE_ARG_DESCRIPTOR) {
			bool is_lowered = n >= vm_kernel_nargs(k) || !vm_kernel_arg_is_descriptor(k, n);
			n += descriptor_words(address[a], ta, is_lowered, args + n);
			continue;
		}
		args[n] = (struct vm_arg){.i = ta->i, .f = ta->f};
		if (ta->kind == TAPE_ARG_POINTER) args[n].i = (int64_t)address[a];
		if (ta->kind == TAPE_ARG_VALUE) args[n].f = value[a];
		n++;
	}
	return n;
}

/* What the host had read of parameters, which no row writes to (replay.c); a number where there is
 * no memory. */
static void row_values(const struct launcher_vm *v, const struct tape_row *row, double *value)
{
	for (int a = 0; a < row->nargs; a++)
		if (row->args[a].kind == TAPE_ARG_VALUE)
			value[a] = v->pattern ? 1 : tape_arg_value(&row->args[a], buffer_data(v, row->args[a].buffer));
}

/* Where each argument points in this launch. */
static void reach_addresses(const struct reach *own, const struct tape_row *row, uint64_t *address)
{
	for (int a = 0; a < row->nargs; a++)
		if (tape_arg_has_buffer(&row->args[a]))
			address[a] = own->address[reach_find(own, row->args[a].buffer)] + (uint64_t)row->args[a].offset_bytes;
}

/* What the compile says about each kernel: here, because its text comes from a compiler that ran on
 * a stranger's IR. A kernel of which it says nothing has the tape's warps. Costs are those of a
 * card, so a trial that asks for them names one: row is what cannot be run without. */
static int compiled_make(struct launcher_vm *v, const struct launcher_trial *trial, int row, struct runner_fault *fault)
{
	const struct vm_gpu *gpu = trial->gpu ? vm_gpu_find(trial->gpu) : NULL;
	if (!gpu) {
		char text[160];
		snprintf(text, sizeof text, "costs are asked for, of a card of the table; the trial names \"%.40s\"",
			trial->gpu ? trial->gpu : "");
		return launcher_fault(fault, "unknown-card", row, v->tape->rows[row].line, text);
	}
	v->compiled = xcalloc((size_t)v->tape->nkernels + 1, sizeof *v->compiled);
	for (int k = 0; k < v->tape->nkernels; k++) {
		json_t *own = json_pack("{s:i}", "num_warps", v->tape->kernels[k].num_warps);
		const json_t *result = json_array_get(trial->compiled, (size_t)k);
		if (!json_is_object(result) || vm_compiled_create(result, gpu, &v->compiled[k], NULL))
			CHECK(vm_compiled_create(own, gpu, &v->compiled[k], NULL) == 0);
		json_decref(own);
	}
	return 0;
}

static void touched_make(const struct launcher_vm *v, struct runner_result *out)
{
	if (!out->touched) out->touched = xcalloc((size_t)v->tape->nbuffers + 1, sizeof *out->touched);
	out->ntouched = v->tape->nbuffers;
}

/* The launch's bytes join those of the rows before it: no more than the buffer has. */
static void touched_add(
	const struct launcher_vm *v, const struct reach *own, const struct vm_report *report, struct runner_result *out)
{
	touched_make(v, out);
	for (int i = 0; i < own->n; i++) {
		int at = 0;
		while (own->buffers[at].address != own->address[i]) at++;
		struct runner_touched *to = &out->touched[own->ids[i]];
		to->read = MIN(to->read + report->touched[2 * at], own->buffers[at].bytes);
		to->written = MIN(to->written + report->touched[2 * at + 1], own->buffers[at].bytes);
	}
}

static void touched_move(const struct launcher_vm *v, const struct tape_row *row, struct runner_result *out)
{
	touched_make(v, out);
	struct runner_touched *to = &out->touched[row->dst.buffer];
	int64_t bytes = tape_view_elements(&row->dst) * (int64_t)dtype_bytes(row->dst.dtype);
	to->written = MIN(to->written + bytes, v->tape->buffers[row->dst.buffer].bytes);
	if (row->kind != TAPE_COPY) return;
	struct runner_touched *from = &out->touched[row->src.buffer];
	bytes = tape_view_elements(&row->src) * (int64_t)dtype_bytes(row->src.dtype);
	from->read = MIN(from->read + bytes, v->tape->buffers[row->src.buffer].bytes);
}

static uint8_t *vm_bytes(struct launcher *l, int buffer) { return buffer_data((struct launcher_vm *)l, buffer); }

static int row_launch(struct launcher_vm *v, int index, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault)
{
	const struct tape_row *row = &v->tape->rows[index];
	const struct vm_kernel *kernel = v->kernels[row->kernel];
	if (trial->want_cost && !v->compiled && compiled_make(v, trial, index, fault)) return ERR_MISMATCH;
	/* A launch reaches its own arguments' buffers alone, at addresses of its own. */
	struct vm_arg args[2 * TAPE_ARGS_MAX + 1]; /* lowered descriptors take twice the tape's words */
	struct reach own;
	uint64_t address[TAPE_ARGS_MAX];
	double value[TAPE_ARGS_MAX];
	reach_make(v, row, &own);
	row_values(v, row, value);
	reach_addresses(&own, row, address);
	struct err misfit = {0};
	int nargs = launcher_arguments(kernel, row, address, value, args, &misfit);
	if (nargs < 0) return launcher_fault(fault, "argument", index, row->line, misfit.text);
	struct vm_launch_options o = {.args = args,
		.nargs = nargs,
		.buffers = own.buffers,
		.nbuffers = own.n,
		.deadline_ns = trial->deadline_ns,
		.progress = &v->progress,
		.want_cost = trial->want_cost,
		.compiled = v->compiled ? v->compiled[row->kernel] : NULL,
		.num_warps = v->tape->kernels[row->kernel].num_warps,
		.num_ctas = v->tape->kernels[row->kernel].num_ctas,
		/* the first replay looked for races; the second is in another order, as
		 * far as any is left open */
		.checks = trial->crosswise || trial->is_unchecked ? 0 : VM_CHECK_RACE,
		.coverage = trial->want_coverage ? launcher_vm_coverage(v, row->kernel) : NULL,
		.programs_max = trial->programs_max,
		.schedule = trial->crosswise ? (uint64_t)v->trials + 1 : 0,
		.crosswise = trial->crosswise};
	memcpy(o.grid, row->grid, sizeof o.grid);
	if (o.coverage) vm_coverage_row(o.coverage, trial->is_search);
	if (o.coverage) vm_coverage_args(o.coverage, kernel, args, o.nargs);
	if (o.coverage) launcher_vm_hold(v, index, o.coverage, args, o.nargs, own.address, own.ids, own.n);
	/* Priced sizes have a pattern instead of data, and a sample of their programs runs; of a loop
	 * of the host's, whose launches are many, each is no longer run as a whole. */
	struct vm_sample_options sample = {.seed = trial->seed + (uint64_t)index};
	if (v->tape->nrows > MANY_ROWS) sample.all_work = PRICED_WORK / v->tape->nrows;
	if (v->pattern) {
		o.sample = &sample;
		o.checks = 0;
	}

	bool keeps_made = false;
	for (int i = 0; v->followed && i < own.n; i++) keeps_made |= v->followed[own.ids[i]].made_of != NULL;
	if (v->followed) o.missed = vm_missed_create(kernel, keeps_made);
	uint64_t on_tape[TAPE_ARGS_MAX];
	for (int i = 0; i < own.n; i++) on_tape[i] = tape_buffer_address(own.ids[i]);
	if (trial->aim && vm_aim_row(trial->aim, kernel, index, own.address, on_tape, own.n)) o.aim = trial->aim;

	/* A fault of the vm has a code and a place of its own; anything else is a launch that does not
	 * fit the kernel. */
	struct vm_report report = {0};
	struct err err = {0};
	int rc = vm_launch(kernel, &o, &report, &err);
	if (rc && report.is_slow)
		snprintf(report.text, sizeof report.text,
			"%lld programs had ended, and more were ending, when the time of the trial was spent: larger blocks make "
			"fewer of them, and --replay_timeout_ms gives them more time",
			(long long)v->progress.ended);
	if (rc && report.fault != VM_FAULT_NONE)
		launcher_fault(fault, fault_code(v, &report, row), index, report.line, report.text);
	else if (rc)
		launcher_fault(fault, rc == ERR_UNSUPPORTED ? "unsupported-op" : "argument", index, row->line, err.text);
	else if (trial->want_cost) {
		bool is_usual = vm_assembler_is_usual(v->tape->kernels[row->kernel].ptx_options);
		report.cost.untimed[VM_UNTIMED_ASSEMBLER] = !is_usual;
		launcher_cost_add(out, index, row, &report.cost);
	}
	/* What it cost, by row and by line. */
	if (!rc && trial->want_cost) {
		struct runner_row_cost *cost = &out->costs[out->ncosts - 1];
		cost->sampled = report.sampled;
		cost->error = report.sample_error;
		cost->reached = report.reached;
		report.reached = NULL;
		touched_add(v, &own, &report, out);
	}
	if (!rc && trial->want_cost) lines_add(out, &report);
	if (!rc && o.missed) launcher_vm_missed_report(o.missed, &out->coverage);
	vm_missed_free(o.missed);
	vm_report_release(&report);
	return rc ? ERR_MISMATCH : 0;
}

/* An operator of torch: its operands go out, somebody else computes it,
 * what it wrote comes back. */
static int row_library(
	struct launcher_vm *v, int index, const struct launcher_library *library, struct runner_fault *fault)
{
	const struct tape_row *row = &v->tape->rows[index];
	int64_t *offset = xcalloc((size_t)(row->nreads + row->nwrites) + 1, sizeof *offset);
	int64_t bytes = tape_library_layout(row, offset);
	CHECKF(library && bytes <= library->bytes, "row %d's operands have no place", index);
	for (int i = 0; i < row->nreads; i++)
		movement_gather(&row->reads[i], buffer_data(v, row->reads[i].buffer), library->memory + offset[i]);
	int rc = library->ask(library, index, fault);
	for (int i = 0; i < row->nwrites && !rc; i++) {
		int b = row->writes[i].buffer;
		movement_scatter(&row->writes[i], (struct memory_view){buffer_data(v, b), v->origin[b]},
			library->memory + offset[row->nreads + i]);
	}
	free(offset);
	return rc;
}

/* Rows of order have nothing to do: the vm runs one row after another in any case. */
static int vm_row_run(struct launcher *l, int index, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	const struct tape_row *row = &v->tape->rows[index];
	if (trial->want_missed && !v->followed) launcher_vm_follow(v);
	if (row->kind == TAPE_LAUNCH) return row_launch(v, index, trial, out, fault);
	if (row->kind == TAPE_LIBRARY) return row_library(v, index, trial->library, fault);
	if (tape_row_is_order(row->kind)) return 0;
	if (trial->want_cost) touched_move(v, row, out);
	if (v->pattern) {
		launcher_cost_add(out, index, row, NULL);
		return 0;
	}
	if (v->followed) launcher_vm_follow_move(v, row);
	int to = row->dst.buffer;
	struct memory_view dst = {buffer_data(v, to), v->origin[to]};
	if (row->kind == TAPE_FILL) movement_fill(&row->dst, dst, row->fill, row->fill_int);
	else
		movement_copy(&row->dst, dst, &row->src,
			(struct memory_view){buffer_data(v, row->src.buffer), v->origin[row->src.buffer]});
	if (trial->want_cost) launcher_cost_add(out, index, row, NULL);
	return 0;
}

static bool canaries_hold(const struct launcher_vm *v)
{
	if (v->pattern) return true;
	for (int b = 0; b < v->nbuffers; b++) {
		const uint8_t *before = v->blocks[b], *after = buffer_data(v, b) + v->tape->buffers[b].bytes;
		for (int i = 0; i < CANARY_BYTES; i++)
			if (before[i] != LAUNCHER_CANARY || after[i] != LAUNCHER_CANARY) return false;
	}
	return true;
}

static int vm_finish(
	struct launcher *l, const struct launcher_trial *trial, struct runner_result *out, struct runner_fault *fault)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	v->trials++;
	release_compiled(v);
	if (trial->want_coverage) launcher_vm_coverage_report(v, &out->coverage);
	if (v->followed) launcher_vm_unread_report(v, &out->coverage);
	launcher_vm_follow_end(v);
	if (!canaries_hold(v))
		return launcher_fault(
			fault, "canary", -1, 0, "memory beside a buffer changed although every access was checked");
	out->has_lineage = true;
	out->lineage = tape_lineage_outputs(v->tape, v->origin, trial->may_be_given, &out->place);
	return 0;
}

static int vm_output_read(struct launcher *l, int i, uint8_t *out, struct runner_fault *fault)
{
	const struct launcher_vm *v = (const struct launcher_vm *)l;
	const struct tape_view *view = &v->tape->outputs[i];
	movement_gather(view, buffer_data(v, view->buffer), out);
	return 0;
}

static void vm_buffer_read(const struct launcher *l, int buffer, uint8_t *out)
{
	const struct launcher_vm *v = (const struct launcher_vm *)l;
	if (v->tape->buffers[buffer].bytes) memcpy(out, buffer_data(v, buffer), (size_t)v->tape->buffers[buffer].bytes);
}

static int vm_line_of(const struct launcher *l, const bool *on_path, enum runner_question question)
{
	static bool (*const has[])(const struct vm_kernel *k, int *line) = {[RUNNER_TF32] = vm_kernel_uses_tf32,
		[RUNNER_ORDER] = vm_kernel_may_depend_on_order,
		[RUNNER_NARROW] = vm_kernel_narrows,
		[RUNNER_DATA] = vm_kernel_cost_depends_on_data,
		[RUNNER_FP8] = vm_kernel_sums_fp8};
	const struct launcher_vm *v = (const struct launcher_vm *)l;
	for (int i = 0; i < v->tape->nrows; i++) {
		int line = 0;
		const struct tape_row *row = &v->tape->rows[i];
		if (row->kind == TAPE_LAUNCH && on_path[i] && has[question](v->kernels[row->kernel], &line))
			return MAX(line, 0);
	}
	return -1;
}

static void vm_kernel_order(const struct launcher *l, int kernel, uint8_t *uses, struct row_kernel *out)
{
	const struct vm_kernel *k = ((const struct launcher_vm *)l)->kernels[kernel];
	*out = (struct row_kernel){.may_skip_wait = vm_kernel_may_skip_wait(k),
		.triggers = vm_kernel_triggers(k),
		.triggers_early = vm_kernel_triggers_early(k),
		.uses = uses,
		.nargs = MIN(vm_kernel_nargs(k), TAPE_ARGS_MAX)};
	for (int i = 0; i < out->nargs; i++) {
		uses[i] = vm_kernel_arg_may_be_written(k, i) ? ROW_WRITES : 0;
		uses[i] |= vm_kernel_arg_may_be_early(k, i, false) ? ROW_READS_EARLY : 0;
		uses[i] |= vm_kernel_arg_may_be_early(k, i, true) ? ROW_WRITES_EARLY : 0;
	}
}

static bool vm_is_spent(const struct launcher *l) { return false; }

static void vm_destroy(struct launcher *l)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	release_tape(v);
	for (int i = 0; i < v->ncached; i++) {
		vm_coverage_free(v->cached[i].coverage);
		vm_kernel_free(v->cached[i].kernel);
	}
	free(v->cached);
	free(v->pattern);
	free(v);
}

struct launcher *launcher_vm_create(int64_t memory_bytes)
{
	struct launcher_vm *v = xcalloc(1, sizeof *v);
	v->base = (struct launcher){.name = "vm",
		.load = vm_load,
		.buffer_set = vm_buffer_set,
		.row_run = vm_row_run,
		.finish = vm_finish,
		.output_read = vm_output_read,
		.buffer_read = vm_buffer_read,
		.line_of = vm_line_of,
		.kernel_order = vm_kernel_order,
		.follow_used = vm_follow_used,
		.used = vm_used,
		.aim = launcher_vm_aim,
		.turn = launcher_vm_turn,
		.bytes = vm_bytes,
		.is_spent = vm_is_spent,
		.destroy = vm_destroy};
	v->memory_bytes = memory_bytes;
	return &v->base;
}

struct launcher *launcher_vm_create_sampling(void)
{
	struct launcher_vm *v = (struct launcher_vm *)launcher_vm_create(0);
	v->pattern = aligned_alloc(256, 4 * (size_t)VM_PERIOD_BYTES);
	CHECKF(v->pattern, "no memory for a pattern of %lld bytes", (long long)(4 * VM_PERIOD_BYTES));
	vm_pattern_fill(v->pattern, VM_PERIOD_BYTES);
	return &v->base;
}
