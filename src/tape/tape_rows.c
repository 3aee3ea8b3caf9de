/* tape_rows: the rows of a tape (docs/tape-format.md, "row"): launches with their arguments, fills,
 * copies, library calls, events. */
#include "tape/tape_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include <limits.h>

#define LIBRARY_VIEWS_MAX 512

/* What the driver would refuse in a tensor map: checked here, so that it is never asked. */
static int check_descriptor(const char *what, const struct tape_view *v, struct err *err)
{
	int64_t size = (int64_t)dtype_bytes(v->dtype);
	if (v->ndim < 1 || v->ndim > TAPE_DESCRIPTOR_DIMS_MAX)
		return err_set(
			err, ERR_RANGE, "tape: %s: expected 1 to %d dimensions, found %d", what, TAPE_DESCRIPTOR_DIMS_MAX, v->ndim);
	if (v->offset_bytes % 16)
		return err_set(
			err, ERR_RANGE, "tape: %s.offset: expected a multiple of 16, found %lld", what, (long long)v->offset_bytes);
	for (int i = 0; i < v->ndim; i++) {
		if (v->shape[i] < 1 || v->shape[i] > INT32_MAX)
			return err_set(err, ERR_RANGE, "tape: %s.shape[%d]: expected 1 .. %d, found %lld", what, i, INT32_MAX,
				(long long)v->shape[i]);
		bool is_last = i == v->ndim - 1;
		if (is_last ? v->stride[i] != 1 : v->stride[i] % (16 / (size > 16 ? 16 : size)))
			return err_set(err, ERR_RANGE, "tape: %s.stride[%d]: expected %s, found %lld", what, i,
				is_last ? "1" : "steps of 16 bytes", (long long)v->stride[i]);
	}
	return 0;
}

static int read_descriptor(struct tape *t, const json_t *o, const char *what, struct tape_arg *a, struct err *err)
{
	static const char *const keys[] = {"view", "block", "padding", NULL};
	const json_t *block;
	const char *padding;
	struct tape_descriptor *d = arena_alloc(&t->arena, sizeof *d);
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_read_view(t, json_object_get(o, "view"), tape_path_at(what, "view", -1).text, &d->view, err);
	if (!rc) rc = check_descriptor(tape_path_at(what, "view", -1).text, &d->view, err);
	if (!rc) rc = tape_get_array(o, what, "block", (size_t)d->view.ndim, (size_t)d->view.ndim, &block, err);
	if (!rc) rc = tape_get_name(o, what, "padding", &padding, err);
	if (rc) return rc;
	for (int i = 0; i < d->view.ndim; i++) {
		json_int_t n = json_integer_value(json_array_get(block, (size_t)i));
		if (n < 1 || n > (1 << 20) || (n & (n - 1)))
			return err_set(err, ERR_RANGE, "tape: %s.block[%d]: expected a power of two up to 2^20", what, i);
		d->block[i] = (int32_t)n;
	}
	d->nan_padding = !strcmp(padding, "nan");
	if (!d->nan_padding && strcmp(padding, "zero"))
		return err_set(err, ERR_FORMAT, "tape: %s.padding: expected \"zero\" or \"nan\"", what);
	*a = (struct tape_arg){
		.kind = TAPE_ARG_DESCRIPTOR, .buffer = d->view.buffer, .offset_bytes = d->view.offset_bytes, .descriptor = d};
	return 0;
}

/* An element of a parameter or constant, whose floating value the launch is given. */
static int read_value(struct tape *t, const json_t *o, const char *what, struct tape_arg *a, struct err *err)
{
	static const char *const keys[] = {"buffer", "offset", "dtype", NULL};
	int64_t buffer;
	const char *name;
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_int(o, what, "buffer", 0, t->nbuffers - 1, &buffer, err);
	if (!rc) rc = tape_get_name(o, what, "dtype", &name, err);
	if (rc) return rc;
	if (dtype_from_name(name, &a->dtype) || !dtype_is_float(a->dtype))
		return err_set(err, ERR_FORMAT, "tape: %s.dtype: \"%.40s\" is no floating type", what, name);
	/* What an input holds is open until the kernel runs. */
	enum tape_buffer_kind kind = t->buffers[buffer].kind;
	if (kind != TAPE_PARAM && kind != TAPE_CONST)
		return err_set(err, ERR_FORMAT, "tape: %s.buffer: a value is a parameter's or a constant's", what);
	int64_t size = (int64_t)dtype_bytes(a->dtype);
	rc = tape_get_int(o, what, "offset", 0, t->buffers[buffer].bytes - size, &a->offset_bytes, err);
	if (!rc && a->offset_bytes % size)
		return err_set(err, ERR_FORMAT, "tape: %s.offset: %lld is no multiple of %lld", what,
			(long long)a->offset_bytes, (long long)size);
	a->kind = TAPE_ARG_VALUE;
	a->buffer = (int)buffer;
	return rc;
}

static int read_arg(struct tape *t, const json_t *o, const char *what, struct tape_arg *a, struct err *err)
{
	static const char *const keys[] = {"buffer", "offset", "int", "float", "descriptor", "value", NULL};
	int64_t buffer;
	int rc = tape_check_object(o, what, keys, err);
	if (rc) return rc;
	/* The keys say which form it is; their number is checked too, so that no two forms are
	 * mixed. */
	size_t n = json_object_size(o);
	const json_t *f = json_object_get(o, "float");
	*a = (struct tape_arg){0};
	if (n == 2 && json_object_get(o, "buffer")) {
		a->kind = TAPE_ARG_POINTER;
		rc = tape_get_int(o, what, "buffer", 0, t->nbuffers - 1, &buffer, err);
		if (!rc) rc = tape_get_int(o, what, "offset", 0, t->buffers[buffer].bytes, &a->offset_bytes, err);
		if (!rc) a->buffer = (int)buffer;
		return rc;
	}
	if (n == 1 && json_object_get(o, "int")) {
		a->kind = TAPE_ARG_INT;
		return tape_get_int(o, what, "int", INT64_MIN, INT64_MAX, &a->i, err);
	}
	if (n == 1 && f) {
		a->kind = TAPE_ARG_FLOAT;
		return tape_read_double(f, tape_path_at(what, "float", -1).text, &a->f, err);
	}
	if (n == 1 && json_object_get(o, "descriptor"))
		return read_descriptor(t, json_object_get(o, "descriptor"), tape_path_at(what, "descriptor", -1).text, a, err);
	if (n == 1 && json_object_get(o, "value"))
		return read_value(t, json_object_get(o, "value"), tape_path_at(what, "value", -1).text, a, err);
	return err_set(err, ERR_FORMAT,
		"tape: %s: expected {\"buffer\", \"offset\"}, {\"int\"}, {\"float\"}, {\"value\"} or {\"descriptor\"}", what);
}

static int read_launch(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "kernel", "grid", "args", "allocator", NULL};
	static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535};
	const json_t *grid, *args;
	int64_t kernel;
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_int(o, what, "kernel", 0, t->nkernels - 1, &kernel, err);
	if (!rc) rc = tape_get_array(o, what, "grid", 3, 3, &grid, err);
	if (!rc) rc = tape_get_array(o, what, "args", 0, TAPE_ARGS_MAX, &args, err);
	/* Like an option, it is left out where it is not so: two texts for one meaning would be two
	 * tapes. */
	const json_t *allocator = json_object_get(o, "allocator");
	if (!rc && allocator && !json_is_true(allocator))
		rc = err_set(err, ERR_FORMAT, "tape: %s.allocator: expected true, or nothing", what);
	if (rc) return rc;
	r->has_allocator = allocator != NULL;
	r->kernel = (int)kernel;
	/* Each axis of the grid has a limit of its own. */
	for (int i = 0; i < 3; i++) {
		const json_t *g = json_array_get(grid, (size_t)i);
		if (!json_is_integer(g)) return err_set(err, ERR_FORMAT, "tape: %s.grid[%d]: expected an integer", what, i);
		int64_t n = json_integer_value(g);
		if (n < 1 || n > grid_max[i])
			return err_set(err, ERR_RANGE, "tape: %s.grid[%d]: expected 1 .. %lld, found %lld", what, i,
				(long long)grid_max[i], (long long)n);
		r->grid[i] = (uint32_t)n;
	}
	r->nargs = (int)json_array_size(args);
	r->args = arena_alloc(&t->arena, (size_t)r->nargs * sizeof(*r->args));
	/* A descriptor is several arguments of the IR, so the widths are added up, not the entries. */
	int width = 0;
	for (int i = 0; i < r->nargs && !rc; i++) {
		rc = read_arg(t, json_array_get(args, (size_t)i), tape_path_at(what, "args", i).text, &r->args[i], err);
		if (!rc) width += tape_arg_width(&r->args[i]);
	}
	if (!rc && width > TAPE_ARGS_MAX)
		rc = err_set(err, ERR_LIMIT, "tape: %s.args: %d arguments of the IR, at most %d", what, width, TAPE_ARGS_MAX);
	return rc;
}

/* The value must be one of the type's: a fill of 300 into int8 has no meaning. */
static int read_fill_int(const json_t *v, const char *what, struct tape_row *r, struct err *err)
{
	static const struct {
		enum dtype type;
		int64_t min;
		int64_t max;
	} ranges[] = {{DTYPE_I8, INT8_MIN, INT8_MAX}, {DTYPE_I16, INT16_MIN, INT16_MAX}, {DTYPE_I32, INT32_MIN, INT32_MAX},
		{DTYPE_I64, INT64_MIN, INT64_MAX}, {DTYPE_U8, 0, UINT8_MAX}, {DTYPE_U16, 0, UINT16_MAX},
		{DTYPE_U32, 0, UINT32_MAX}, {DTYPE_U64, INT64_MIN, INT64_MAX}, {DTYPE_BOOL, 0, 1}};
	if (!json_is_integer(v))
		return err_set(err, ERR_FORMAT, "tape: %s.value: expected an integer for %s", what, dtype_name(r->dst.dtype));
	r->fill_int = json_integer_value(v);
	r->fill = (double)r->fill_int;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
		if (ranges[i].type == r->dst.dtype && (r->fill_int < ranges[i].min || r->fill_int > ranges[i].max))
			return err_set(err, ERR_RANGE, "tape: %s.value: %lld does not fit %s", what, (long long)r->fill_int,
				dtype_name(r->dst.dtype));
	return 0;
}

static int read_fill(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "dst", "value", NULL};
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_read_target(t, json_object_get(o, "dst"), tape_path_at(what, "dst", -1).text, &r->dst, err);
	if (rc) return rc;
	const json_t *value = json_object_get(o, "value");
	if (!dtype_is_float(r->dst.dtype)) return read_fill_int(value, what, r, err);
	return tape_read_double(value, tape_path_at(what, "value", -1).text, &r->fill, err);
}

static int read_copy(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "dst", "src", NULL};
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_read_target(t, json_object_get(o, "dst"), tape_path_at(what, "dst", -1).text, &r->dst, err);
	if (!rc) rc = tape_read_view(t, json_object_get(o, "src"), tape_path_at(what, "src", -1).text, &r->src, err);
	if (rc) return rc;
	if (r->dst.ndim != r->src.ndim || memcmp(r->dst.shape, r->src.shape, sizeof(r->dst.shape)))
		return err_set(err, ERR_FORMAT, "tape: %s: dst and src have different shapes", what);
	return 0;
}

/* Every {"view": i} inside a library row's arguments names one of its reads. */
static int check_view_references(const json_t *v, const char *what, int nreads, struct err *err)
{
	int rc = 0;
	size_t i;
	const char *key;
	json_t *item;
	if (json_is_array(v)) {
		json_array_foreach((json_t *)v, i, item) if ((rc = check_view_references(item, what, nreads, err))) return rc;
	} else if (json_is_object(v)) {
		const json_t *view = json_object_get(v, "view");
		if (view && (!json_is_integer(view) || json_integer_value(view) < 0 || json_integer_value(view) >= nreads))
			return err_set(err, ERR_RANGE, "tape: %s.args: \"view\" must be 0 .. %d", what, nreads - 1);
		json_object_foreach(
			(json_t *)v, key, item) if ((rc = check_view_references(item, what, nreads, err))) return rc;
	}
	return 0;
}

static int read_library(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "name", "reads", "writes", "args", NULL};
	const json_t *reads, *writes;
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_name(o, what, "name", &r->op, err);
	if (!rc) rc = tape_get_array(o, what, "reads", 0, LIBRARY_VIEWS_MAX, &reads, err);
	if (!rc) rc = tape_get_array(o, what, "writes", 0, LIBRARY_VIEWS_MAX, &writes, err);
	if (!rc) rc = tape_read_views(t, reads, what, "reads", &r->nreads, &r->reads, err);
	if (!rc) rc = tape_read_views(t, writes, what, "writes", &r->nwrites, &r->writes, err);
	if (rc) return rc;
	r->op_args = json_object_get(o, "args");
	if (!json_is_object(r->op_args)) return err_set(err, ERR_FORMAT, "tape: %s.args: expected an object", what);
	return check_view_references(r->op_args, what, r->nreads, err);
}

/* record and wait. That a wait names an event which was recorded is tape_check_order's. */
static int read_event(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static const char *const keys[] = {"op", "line", "stream", "event", NULL};
	int64_t event;
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_int(o, what, "event", 0, TAPE_EVENTS_MAX - 1, &event, err);
	if (!rc) r->event = (int)event;
	return rc;
}

int tape_read_row(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err)
{
	static int (*const readers[TAPE_ROW_KIND_COUNT])(struct tape *, const json_t *, const char *, struct tape_row *,
		struct err *) = {read_launch, read_fill, read_copy, read_library, read_event, read_event};
	static const char *const ops[TAPE_ROW_KIND_COUNT] = {"launch", "fill", "copy", "library", "record", "wait"};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "tape: %s: expected an object", what);
	const char *op;
	int64_t line, stream = 0;
	int kind = 0, rc = tape_get_name(o, what, "op", &op, err);
	if (!rc) rc = tape_get_int(o, what, "line", 0, INT_MAX, &line, err);
	if (!rc && json_object_get(o, "stream"))
		rc = tape_get_int(o, what, "stream", 1, TAPE_STREAMS_MAX - 1, &stream, err);
	if (rc) return rc;
	while (kind < TAPE_ROW_KIND_COUNT && strcmp(op, ops[kind])) kind++;
	if (kind == TAPE_ROW_KIND_COUNT)
		return err_set(err, ERR_FORMAT, "tape: %s.op: \"%.40s\" is no kind of row", what, op);
	r->kind = (enum tape_row_kind)kind;
	r->line = (int)line;
	r->stream = (int)stream;
	return readers[kind](t, o, what, r, err);
}

/* Streams and events are numbered by first use, so that equal orders are equal texts; a wait for
 * what nobody recorded would order nothing. */
int tape_check_order(struct tape *t, struct err *err)
{
	t->nstreams = 1;
	for (int i = 0; i < t->nrows; i++) {
		const struct tape_row *r = &t->rows[i];
		if (r->stream > t->nstreams)
			return err_set(err, ERR_RANGE, "tape: rows[%d].stream: %d is used before %d", i, r->stream, t->nstreams);
		t->nstreams = MAX(t->nstreams, r->stream + 1);
		if (!tape_row_is_order(r->kind)) continue;
		if (r->event > t->nevents - (r->kind == TAPE_WAIT))
			return err_set(err, ERR_RANGE, "tape: rows[%d].event: %d was not recorded before", i, r->event);
		t->nevents = MAX(t->nevents, r->event + 1);
	}
	return 0;
}
