/* The candidate: its tape's rows on exact values.
 *
 * Each buffer has its bytes with origin tags, as a replay has them, and beside them exact values
 * where floats stand (vm.h). Rows run in the list's order, which every order of streams allows. */
#include "prove/prove_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "field/field.h"
#include "prove/prove.h"
#include "runner/launcher.h"
#include "runner/movement.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

struct tape_side {
	const struct tape *t;
	struct vm_kernel **kernels; /* (nkernels) */
	bool *on_path;              /* (nrows) */
	struct vm_buffer *buffers;  /* (nbuffers) */
	struct vm_exact_buffer *exact;
	struct vm_exact_buffer **exact_list;
	struct vm_exact_report report;
};

int prove_stop_at(struct prove_stop *s, enum prove_end end, int line, const char *fmt, ...)
{
	va_list ap;
	s->end = end;
	s->line = line;
	va_start(ap, fmt);
	vsnprintf(s->text, sizeof s->text, fmt, ap);
	va_end(ap);
	return 1;
}

const struct vm_exact_report *tape_side_report(const struct tape_side *s) { return &s->report; }

/* ---- what is made once ---- */

void tape_side_free(struct tape_side *s)
{
	if (!s) return;
	for (int k = 0; k < s->t->nkernels; k++) vm_kernel_free(s->kernels[k]);
	for (int b = 0; b < s->t->nbuffers; b++) {
		vm_exact_buffer_release(&s->exact[b]);
		free(s->buffers[b].data);
		free(s->buffers[b].origin);
	}
	free(s->kernels);
	free(s->on_path);
	free(s->buffers);
	free(s->exact);
	free(s->exact_list);
	free(s);
}

static int kernels_make(struct tape_side *s, struct prove_stop *stop)
{
	for (int r = 0; r < s->t->nrows; r++) {
		const struct tape_row *row = &s->t->rows[r];
		if (!s->on_path[r]) continue;
		if (row->kind == TAPE_LIBRARY)
			return prove_stop_at(stop, PROVE_LEFT, row->line, "candidate.py:%d: torch's %.100s", row->line, row->op);
		if (row->kind != TAPE_LAUNCH || s->kernels[row->kernel]) continue;
		const struct tape_kernel *k = &s->t->kernels[row->kernel];
		struct err err = {0};
		if (vm_kernel_create(k->ttir, k->ttir_len, &s->kernels[row->kernel], &err))
			return prove_stop_at(stop, PROVE_LEFT, row->line, "%.600s", err.text);
	}
	return 0;
}

int tape_side_create(const struct tape *t, struct tape_side **out, struct prove_stop *stop)
{
	struct tape_side *s = xcalloc(1, sizeof *s);
	int64_t bytes = 0;
	s->t = t;
	s->kernels = xcalloc((size_t)t->nkernels + 1, sizeof *s->kernels);
	s->on_path = xcalloc((size_t)t->nrows + 1, sizeof *s->on_path);
	s->buffers = xcalloc((size_t)t->nbuffers + 1, sizeof *s->buffers);
	s->exact = xcalloc((size_t)t->nbuffers + 1, sizeof *s->exact);
	s->exact_list = xcalloc((size_t)t->nbuffers + 1, sizeof *s->exact_list);
	/* A float takes up to 33 bytes for each of its own: bounded before anything is allocated. */
	for (int b = 0; b < t->nbuffers; b++) {
		s->exact[b].elem = ELEM_COUNT;
		s->exact_list[b] = &s->exact[b];
		bytes += t->buffers[b].bytes * 16;
		if (bytes > PROVE_BYTES_MAX) {
			int rc = prove_stop_at(stop, PROVE_LEFT, 0, "the tape's buffers have more than %lld MiB",
				(long long)(PROVE_BYTES_MAX / 16 >> 20));
			tape_side_free(s);
			return rc;
		}
	}
	for (int b = 0; b < t->nbuffers; b++) {
		size_t n = (size_t)t->buffers[b].bytes;
		/* Bytes as the vm sees them, and beside each where it comes from. */
		uint8_t *data = aligned_alloc(256, (n + 256) / 256 * 256);
		CHECKF(data, "%zu bytes", n);
		s->buffers[b] = (struct vm_buffer){
			.address = tape_buffer_address(b), .bytes = (int64_t)n, .data = data, .origin = xcalloc(n + 1, 1)};
	}
	/* Which rows the outputs depend on, and each kernel lowered once. */
	tape_data_path(t, s->on_path);
	int rc = kernels_make(s, stop);
	if (rc) tape_side_free(s);
	else *out = s;
	return rc;
}

/* ---- buffers of a round ---- */

static enum elem elem_of(enum dtype d)
{
	static const uint8_t elems[DTYPE_COUNT] = {[DTYPE_F32] = ELEM_F32,
		[DTYPE_F64] = ELEM_F64,
		[DTYPE_F16] = ELEM_F16,
		[DTYPE_BF16] = ELEM_BF16,
		[DTYPE_F8E4M3] = ELEM_F8E4M3,
		[DTYPE_F8E5M2] = ELEM_F8E5M2};
	return dtype_is_float(d) ? (enum elem)elems[d] : ELEM_COUNT;
}

static const struct prove_leaf *leaf_of(
	const struct tape_side *s, int b, const struct prove_leaves *leaves, const struct prove_options *o)
{
	const struct tape_buffer *tb = &s->t->buffers[b];
	const char *name = tb->kind == TAPE_PARAM ? tb->name : o->const_names ? o->const_names[b] : NULL;
	if (tb->kind == TAPE_INPUT) return tb->input < leaves->ninputs ? &leaves->inputs[tb->input] : NULL;
	for (int p = 0; name && p < leaves->nparams; p++)
		if (!strcmp(leaves->params[p].memory.name, name)) return &leaves->params[p];
	return NULL;
}

static int buffer_fill(struct tape_side *s, int b, const struct prove_draw *d, const struct prove_leaves *leaves,
	const struct prove_options *o, struct prove_stop *stop)
{
	const struct tape_buffer *tb = &s->t->buffers[b];
	struct vm_buffer *to = &s->buffers[b];
	const struct prove_leaf *leaf = leaf_of(s, b, leaves, o);
	/* As at the start of a replay: nothing of the round before, and no byte that was written. */
	vm_exact_buffer_release(&s->exact[b]);
	memset(to->data, LAUNCHER_UNWRITTEN, (size_t)tb->bytes);
	memset(to->origin, tb->kind == TAPE_TEMP || leaf ? TAPE_ORIGIN_NONE : TAPE_ORIGIN_GIVEN, (size_t)tb->bytes);
	/* Memory of the candidate's own: its constants have contents, temporaries none. */
	if (!leaf && (tb->kind == TAPE_INPUT || tb->kind == TAPE_PARAM))
		return prove_stop_at(
			stop, PROVE_FAULT, 0, "the tape uses an input or parameter that the reference does not have");
	if (!leaf) {
		if (tb->data) memcpy(to->data, tb->data, (size_t)tb->bytes);
		return 0;
	}
	if (leaf->memory.bytes != tb->bytes)
		return prove_stop_at(stop, PROVE_FAULT, 0, "a buffer of %lld bytes, the reference's has %lld",
			(long long)tb->bytes, (long long)leaf->memory.bytes);
	/* What the reference has too: integers as they are, floats as the round's values. */
	enum dtype dtype;
	if (!leaf->is_float) {
		memcpy(to->data, d->given + leaf->memory.offset, (size_t)tb->bytes);
		memset(to->origin, TAPE_ORIGIN_GIVEN, (size_t)tb->bytes);
		return 0;
	}
	CHECKF(dtype_from_name(leaf->memory.dtype, &dtype) == 0, "dtype %s", leaf->memory.dtype);
	vm_exact_buffer_set(&s->exact[b], elem_of(dtype), tb->bytes);
	memcpy(s->exact[b].values, leaf->values, (size_t)leaf->count * sizeof *leaf->values);
	memset(s->exact[b].is_set, 1, (size_t)leaf->count);
	return 0;
}

/* ---- rows that move ---- */

/* Byte offsets of a view's elements, row-major. */
struct walk {
	const struct tape_view *v;
	int64_t size;                 /* bytes of an element */
	int64_t offset;               /* of the element the walk stands at, in bytes */
	int64_t index[TAPE_DIMS_MAX]; /* its place in the view */
};

static struct walk walk_of(const struct tape_view *v)
{
	return (struct walk){.v = v, .size = (int64_t)dtype_bytes(v->dtype), .offset = v->offset_bytes};
}

static void walk_next(struct walk *w)
{
	for (int d = w->v->ndim - 1; d >= 0; d--) {
		w->offset += w->v->stride[d] * w->size;
		if (++w->index[d] < w->v->shape[d]) return;
		w->offset -= w->v->stride[d] * w->size * w->v->shape[d];
		w->index[d] = 0;
	}
}

/* How many of the bytes hold an integer's or a constant's bits. */
static int64_t bytes_of_bits(const struct vm_buffer *b, int64_t offset, int64_t size)
{
	int64_t n = 0;
	for (int64_t i = 0; i < size; i++) n += b->origin[offset + i] != TAPE_ORIGIN_NONE;
	return n;
}

static bool is_written(const struct vm_buffer *b, int64_t offset, int64_t size)
{
	return bytes_of_bits(b, offset, size) == size;
}

/* A float where a walk stands: a value, or bits that are a constant. */
static int float_read(
	struct tape_side *s, struct field *f, const struct walk *w, struct field_value *out, struct prove_stop *stop)
{
	static const int significand[DTYPE_COUNT] = {
		[DTYPE_F32] = 24, [DTYPE_F64] = 53, [DTYPE_F16] = 11, [DTYPE_BF16] = 8, [DTYPE_F8E4M3] = 4, [DTYPE_F8E5M2] = 3};
	const struct vm_buffer *b = &s->buffers[w->v->buffer];
	const struct vm_exact_buffer *e = &s->exact[w->v->buffer];
	int64_t bits = bytes_of_bits(b, w->offset, w->size);
	if (bits && bits < w->size)
		return prove_stop_at(stop, PROVE_LEFT, 0, "a float of which %lld bytes were written as bits", (long long)bits);
	if (bits) {
		*out = field_constant(f, dtype_load(w->v->dtype, b->data + w->offset, 0), significand[w->v->dtype]);
		return 0;
	}
	if (e->elem != ELEM_COUNT && e->elem != elem_of(w->v->dtype))
		return prove_stop_at(
			stop, PROVE_LEFT, 0, "floats of %s read as %s", elem_name(e->elem), dtype_name(w->v->dtype));
	if (e->elem == ELEM_COUNT || !e->is_set[w->offset / w->size])
		return prove_stop_at(stop, PROVE_FAULT, 0, "memory is read that nobody wrote");
	*out = e->values[w->offset / w->size];
	return 0;
}

static int float_write(struct tape_side *s, const struct walk *w, const struct field_value *v, struct prove_stop *stop)
{
	struct vm_exact_buffer *e = &s->exact[w->v->buffer];
	struct vm_buffer *b = &s->buffers[w->v->buffer];
	if (e->elem == ELEM_COUNT) vm_exact_buffer_set(e, elem_of(w->v->dtype), b->bytes);
	if (e->elem != elem_of(w->v->dtype))
		return prove_stop_at(
			stop, PROVE_LEFT, 0, "floats of %s over floats of %s", dtype_name(w->v->dtype), elem_name(e->elem));
	e->values[w->offset / w->size] = *v;
	e->is_set[w->offset / w->size] = 1;
	memset(b->origin + w->offset, TAPE_ORIGIN_NONE, (size_t)w->size);
	return 0;
}

/* The integer that a copy casts a float to; bool is x != 0. */
static int cast_to_int(
	struct field *f, const struct field_value *v, bool is_bool, int64_t *out, struct prove_stop *stop)
{
	struct field_value zero = field_integer(f, 0);
	enum field_order order = field_compare(v, &zero);
	double lo = trunc(v->lo), hi = trunc(v->hi);
	if (is_bool && order != FIELD_UNDECIDED) {
		*out = order != FIELD_EQUAL;
		return 0;
	}
	if (isnan(lo) || fabs(lo) >= 0x1p63 || isinf(hi))
		return prove_stop_at(stop, PROVE_LEFT, 0, "a copy of a float to an integer that cannot hold it");
	if (is_bool || lo != hi)
		return prove_stop_at(stop, PROVE_UNDECIDED, 0, "a copy to integers is not decided by the real values");
	*out = (int64_t)lo;
	return 0;
}

static int64_t int_read(enum dtype t, const uint8_t *p)
{
	uint64_t v = 0;
	int bits = 8 * (int)dtype_bytes(t);
	bool is_signed = t == DTYPE_I8 || t == DTYPE_I16 || t == DTYPE_I32 || t == DTYPE_I64;
	memcpy(&v, p, dtype_bytes(t));
	if (t == DTYPE_BOOL) return v != 0;
	return is_signed ? (int64_t)(v << (64 - bits)) >> (64 - bits) : (int64_t)v;
}

static int copy_ints_from_floats(
	struct tape_side *s, struct field *f, const struct tape_row *row, struct prove_stop *stop)
{
	struct walk from = walk_of(&row->src), to = walk_of(&row->dst);
	int64_t n = tape_view_elements(&row->src);
	for (int64_t i = 0; i < n; i++, walk_next(&from), walk_next(&to)) {
		struct field_value v;
		int64_t whole = 0;
		if (float_read(s, f, &from, &v, stop) || cast_to_int(f, &v, row->dst.dtype == DTYPE_BOOL, &whole, stop))
			return 1;
		struct vm_buffer *b = &s->buffers[row->dst.buffer];
		memcpy(b->data + to.offset, &whole, (size_t)to.size);
		memset(b->origin + to.offset, TAPE_ORIGIN_LIBRARY, (size_t)to.size);
	}
	return 0;
}

static int copy_floats(struct tape_side *s, struct field *f, const struct tape_row *row, struct prove_stop *stop)
{
	int64_t n = tape_view_elements(&row->src);
	struct field_value *all = xmalloc(size_mul((size_t)n + 1, sizeof *all));
	struct walk from = walk_of(&row->src), to = walk_of(&row->dst);
	bool is_int = !dtype_is_float(row->src.dtype);
	int rc = 0;
	/* everything is read before anything is written: the views may overlap */
	for (int64_t i = 0; i < n && !rc; i++, walk_next(&from)) {
		const struct vm_buffer *b = &s->buffers[row->src.buffer];
		if (!is_int) rc = float_read(s, f, &from, &all[i], stop);
		else if (!is_written(b, from.offset, from.size))
			rc = prove_stop_at(stop, PROVE_LEFT, row->line, "bits of floats read as integers");
		else all[i] = field_integer(f, int_read(row->src.dtype, b->data + from.offset));
	}
	for (int64_t i = 0; i < n && !rc; i++, walk_next(&to)) rc = float_write(s, &to, &all[i], stop);
	free(all);
	return rc;
}

static int row_copy(struct tape_side *s, struct field *f, const struct tape_row *row, struct prove_stop *stop)
{
	bool from_float = dtype_is_float(row->src.dtype), to_float = dtype_is_float(row->dst.dtype);
	if (to_float) return copy_floats(s, f, row, stop);
	if (from_float) return copy_ints_from_floats(s, f, row, stop);
	struct walk w = walk_of(&row->src);
	for (int64_t i = 0; i < tape_view_elements(&row->src); i++, walk_next(&w))
		if (!is_written(&s->buffers[row->src.buffer], w.offset, w.size))
			return prove_stop_at(
				stop, PROVE_LEFT, row->line, "a copy of integers that nobody wrote, or of floats' bits");
	movement_copy(&row->dst, (struct memory_view){s->buffers[row->dst.buffer].data, s->buffers[row->dst.buffer].origin},
		&row->src, (struct memory_view){s->buffers[row->src.buffer].data, s->buffers[row->src.buffer].origin});
	return 0;
}

static int row_fill(struct tape_side *s, struct field *f, const struct tape_row *row, struct prove_stop *stop)
{
	const struct vm_buffer *b = &s->buffers[row->dst.buffer];
	if (!dtype_is_float(row->dst.dtype)) {
		movement_fill(&row->dst, (struct memory_view){b->data, b->origin}, row->fill, row->fill_int);
		return 0;
	}
	/* As its type holds it, like any constant. */
	bool is_double = row->dst.dtype == DTYPE_F64;
	struct field_value v = field_constant(f, is_double ? row->fill : (double)(float)row->fill, is_double ? 53 : 24);
	struct walk w = walk_of(&row->dst);
	for (int64_t i = 0; i < tape_view_elements(&row->dst); i++, walk_next(&w))
		if (float_write(s, &w, &v, stop)) return 1;
	return 0;
}

/* ---- launches ---- */

/* A launch reaches its own arguments' buffers alone. */
static int row_launch(
	struct tape_side *s, struct field *f, const struct tape_row *row, uint64_t deadline_ns, struct prove_stop *stop)
{
	const struct vm_kernel *k = s->kernels[row->kernel];
	struct vm_arg args[2 * TAPE_ARGS_MAX + 1];
	struct vm_buffer own[TAPE_ARGS_MAX];
	struct vm_exact_buffer *exact[TAPE_ARGS_MAX];
	uint64_t address[TAPE_ARGS_MAX] = {0};
	int n = 0, first = (int)(f->seed % 7), step = 2 + (int)((f->seed >> 8) % 7);
	for (int a = 0; a < row->nargs; a++)
		if (row->args[a].kind == TAPE_ARG_VALUE)
			return prove_stop_at(stop, PROVE_LEFT, row->line, "a launch is given a parameter's value as a number");
	/* At other places in each round: a distance between two buffers is no number
	 * that a kernel may know. */
	for (int b = 0; b < s->t->nbuffers && n < TAPE_ARGS_MAX; b++) {
		bool is_own = false;
		for (int a = 0; a < row->nargs; a++) {
			if (!tape_arg_has_buffer(&row->args[a]) || row->args[a].buffer != b) continue;
			address[a] = tape_buffer_address(first + n * step) + (uint64_t)row->args[a].offset_bytes;
			is_own = true;
		}
		if (!is_own) continue;
		own[n] = s->buffers[b];
		own[n].address = tape_buffer_address(first + n * step);
		exact[n++] = s->exact_list[b];
	}
	/* The launch itself. */
	struct err err = {0};
	int nargs = launcher_arguments(k, row, address, NULL, args, &err);
	if (nargs < 0) return prove_stop_at(stop, PROVE_FAULT, row->line, "%s", err.text);
	struct vm_exact_options o = {.args = args,
		.nargs = nargs,
		.buffers = own,
		.nbuffers = n,
		.exact = exact,
		.field = f,
		.deadline_ns = deadline_ns};
	memcpy(o.grid, row->grid, sizeof o.grid);
	if (!vm_exact_launch(k, &o, &s->report, &err)) return 0;
	/* Why it ended, in the words of a proof. */
	static const enum prove_end ends[] = {[VM_EXACT_DONE] = PROVE_FAULT,
		[VM_EXACT_UNDECIDED] = PROVE_UNDECIDED,
		[VM_EXACT_OUTSIDE] = PROVE_LEFT,
		[VM_EXACT_FAULT] = PROVE_FAULT};
	return prove_stop_at(stop, ends[s->report.end], s->report.line, "%.600s", err.text);
}

/* ---- outputs ---- */

static int output_take(
	struct tape_side *s, struct field *f, const struct tape_view *v, struct prove_output *out, struct prove_stop *stop)
{
	struct walk w = walk_of(v);
	out->count = tape_view_elements(v);
	out->is_float = dtype_is_float(v->dtype);
	out->ndim = v->ndim;
	memcpy(out->shape, v->shape, sizeof out->shape);
	snprintf(out->dtype, sizeof out->dtype, "%s", dtype_name(v->dtype));
	if (out->is_float) out->values = xmalloc(size_mul((size_t)out->count + 1, sizeof *out->values));
	else out->ints = xmalloc(size_mul((size_t)out->count + 1, sizeof *out->ints));
	for (int64_t i = 0; i < out->count; i++, walk_next(&w)) {
		const struct vm_buffer *b = &s->buffers[v->buffer];
		if (out->is_float && float_read(s, f, &w, &out->values[i], stop)) return 1;
		if (out->is_float) continue;
		if (!is_written(b, w.offset, w.size))
			return prove_stop_at(stop, PROVE_FAULT, 0, "an output that nobody wrote as integers");
		out->ints[i] = int_read(v->dtype, b->data + w.offset);
	}
	return 0;
}

int tape_side_run(struct tape_side *s, const struct prove_draw *d, struct field *f, const struct prove_leaves *leaves,
	const struct prove_options *o, struct prove_outputs *out, struct prove_stop *stop)
{
	int rc = 0;
	*out = (struct prove_outputs){.n = 0};
	for (int b = 0; b < s->t->nbuffers && !rc; b++) rc = buffer_fill(s, b, d, leaves, o, stop);
	for (int r = 0; r < s->t->nrows && !rc; r++) {
		const struct tape_row *row = &s->t->rows[r];
		if (!s->on_path[r] || tape_row_is_order(row->kind)) continue;
		if (row->kind == TAPE_LAUNCH) rc = row_launch(s, f, row, o->deadline_ns, stop);
		else if (row->kind == TAPE_FILL) rc = row_fill(s, f, row, stop);
		else rc = row_copy(s, f, row, stop);
	}
	for (; out->n < s->t->noutputs && !rc; out->n++)
		rc = output_take(s, f, &s->t->outputs[out->n], &out->outputs[out->n], stop);
	return rc;
}
