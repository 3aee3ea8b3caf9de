/* tape_ir_read: an answer in IR to the text of its tape. The modules are taken apart first, since
 * launches name them; then the head is read line by line. */
#include "tape/tape_ir.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include "tape/tape_ir_internal.h"
#include <ctype.h>
#include <stdlib.h>

/* ---- memory ---- */

static int take_dtype(struct reader *r, enum dtype *out)
{
	struct slice word;
	int rc = ir_take_name(r, "an element type", &word);
	if (rc) return rc;
	char upper[NAME_BYTES_MAX + 1] = "";
	for (size_t i = 0; i < word.len; i++) upper[i] = (char)toupper((unsigned char)word.data[i]);
	if (!dtype_from_safetensors(upper, out)) return 0;
	return ir_bad(r, ERR_FORMAT, "%.*s is no element type; they are f32, f64, f16, bf16, i8 to i64, u8 to u64, bool",
		(int)word.len, word.data);
}

/* The sizes in brackets. Of what is given (want) a new name takes the size; anything else
 * has to be equal to it. */
static int take_shape(struct reader *r, const struct tape_ir_tensor *want, int *ndim, int64_t *shape)
{
	int rc = ir_expect(r, '[');
	*ndim = 0;
	if (!rc && ir_take(r, ']'))
		return want && want->ndim ? ir_bad(r, ERR_RANGE, "it has %d dimensions", want->ndim) : 0;
	while (!rc) {
		if (*ndim == TAPE_DIMS_MAX) return ir_bad(r, ERR_FORMAT, "more than %d dimensions", TAPE_DIMS_MAX);
		if (want && *ndim >= want->ndim) return ir_bad(r, ERR_RANGE, "it has %d dimensions", want->ndim);
		const char *from = r->at;
		struct slice word = {0};
		ir_skip_blanks(r);
		/* A name that nothing has yet is this dimension's. */
		bool is_new = want && r->at < r->end && ir_is_word(*r->at, true) && !ir_take_name(r, "a size", &word) &&
			!ir_find(r, word) && (ir_skip_blanks(r), r->at < r->end && (*r->at == ',' || *r->at == ']'));
		if (is_new) {
			shape[*ndim] = want->shape[*ndim];
			rc = ir_add_name(r, &(struct name){.text = word, .value = shape[*ndim]});
		} else {
			r->at = from;
			rc = ir_expression(r, &shape[*ndim]);
			if (!rc && want && shape[*ndim] != want->shape[*ndim])
				return ir_bad(r, ERR_RANGE, "it is for the size %lld in dimension %d, here it is %lld",
					(long long)shape[*ndim], *ndim, (long long)want->shape[*ndim]);
		}
		++*ndim;
		if (!rc && ir_take(r, ']')) break;
		if (!rc) rc = ir_expect(r, ',');
	}
	if (!rc && want && *ndim != want->ndim) return ir_bad(r, ERR_RANGE, "it has %d dimensions", want->ndim);
	return rc;
}

static int elements_of(struct reader *r, int ndim, const int64_t *shape, int64_t *out)
{
	/* An empty dimension empties the buffer, and the others are bounded all the same:
	 * strides are made of them. */
	int64_t filled = 1;
	*out = 1;
	for (int i = 0; i < ndim; i++) {
		if (shape[i] < 0 || __builtin_mul_overflow(filled, MAX(shape[i], 1), &filled) || filled > TAPE_BUFFER_BYTES_MAX)
			return ir_bad(r, ERR_FORMAT, "more elements than a buffer may have");
		*out *= shape[i];
	}
	return 0;
}

static json_t *view_json(int buffer, enum dtype dtype, int ndim, const int64_t *shape, const int64_t *stride)
{
	json_t *sizes = json_array(), *strides = json_array();
	int64_t step = 1, dense[TAPE_DIMS_MAX];
	for (int i = ndim - 1; i >= 0; step *= shape[i--]) dense[i] = step;
	for (int i = 0; i < ndim; i++) {
		json_array_append_new(sizes, json_integer(shape[i]));
		json_array_append_new(strides, json_integer(stride ? stride[i] : dense[i]));
	}
	return json_pack("{s:i, s:i, s:s, s:o, s:o}", "buffer", buffer, "offset", 0, "dtype", dtype_name(dtype), "shape",
		sizes, "stride", strides);
}

static bool is_dense(const struct tape_ir_tensor *t)
{
	int64_t step = 1;
	for (int i = t->ndim - 1; i >= 0; step *= t->shape[i--])
		if (t->shape[i] != 1 && t->stride[i] != step) return false;
	return true;
}

/* The memory from a tensor's first element to behind its last. */
static int64_t span_bytes(const struct tape_ir_tensor *t)
{
	int64_t last = 0;
	for (int i = 0; i < t->ndim; i++) {
		if (!t->shape[i]) return 0;
		last += (t->shape[i] - 1) * t->stride[i];
	}
	return (last + 1) * (int64_t)dtype_bytes(t->dtype);
}

static int push_buffer(struct reader *r, json_t *buffer)
{
	json_array_append_new(r->buffers, buffer);
	return (int)json_array_size(r->buffers) - 1;
}

/* input NAME TYPE[SIZES]: the next of forward's tensors. What the caller has
 * strided is copied first. */
static int input_line(struct reader *r)
{
	struct name n = {.is_buffer = true};
	int ndim, rc = ir_take_name(r, "a name", &n.text);
	int64_t shape[TAPE_DIMS_MAX];
	if (rc) return rc;
	if (r->ninputs == r->sizes->ninputs) return ir_bad(r, ERR_FORMAT, "forward is given %d tensors", r->sizes->ninputs);
	const struct tape_ir_tensor *want = &r->sizes->inputs[r->ninputs];
	n.buffer = r->ninputs++;
	rc = take_dtype(r, &n.dtype);
	if (!rc && n.dtype != want->dtype) return ir_bad(r, ERR_FORMAT, "the input is %s", dtype_name(want->dtype));
	if (!rc) rc = take_shape(r, want, &ndim, shape);
	if (!rc) rc = elements_of(r, ndim, shape, &n.elements);
	if (rc) return rc;
	if (!is_dense(want)) {
		int to = push_buffer(r,
			json_pack("{s:s, s:I}", "kind", "temp", "bytes", (json_int_t)(n.elements * (int64_t)dtype_bytes(n.dtype))));
		json_array_append_new(r->rows,
			json_pack("{s:s, s:i, s:o, s:o}", "op", "copy", "line", r->line, "dst",
				view_json(to, n.dtype, ndim, shape, NULL), "src",
				view_json(n.buffer, n.dtype, ndim, shape, want->stride)));
		n.buffer = to;
	}
	return ir_add_name(r, &n);
}

/* param NAME PARAMETER TYPE[SIZES] */
static int param_line(struct reader *r)
{
	struct name n = {.is_buffer = true};
	int ndim, rc = ir_take_name(r, "a name", &n.text);
	int64_t shape[TAPE_DIMS_MAX];
	if (rc) return rc;
	ir_skip_blanks(r);
	struct slice word = {r->at, 0};
	while (r->at < r->end && (ir_is_word(*r->at, false) || *r->at == '.')) r->at++;
	word.len = (size_t)(r->at - word.data);
	const struct tape_ir_tensor *want = NULL;
	for (int i = 0; i < r->sizes->nparams && !want; i++)
		if (slice_is(word, r->sizes->params[i].name)) want = &r->sizes->params[i];
	if (!want) return ir_bad(r, ERR_FORMAT, "the module has no parameter \"%.*s\"", (int)MIN(word.len, 60), word.data);
	rc = take_dtype(r, &n.dtype);
	if (!rc && n.dtype != want->dtype) return ir_bad(r, ERR_FORMAT, "the parameter is %s", dtype_name(want->dtype));
	if (!rc) rc = take_shape(r, want, &ndim, shape);
	if (!rc) rc = elements_of(r, ndim, shape, &n.elements);
	if (rc) return rc;
	n.buffer = push_buffer(r,
		json_pack("{s:s, s:I, s:s}", "kind", "param", "bytes", (json_int_t)(n.elements * (int64_t)dtype_bytes(n.dtype)),
			"name", want->name));
	return ir_add_name(r, &n);
}

/* temp NAME TYPE[SIZES], output NAME TYPE[SIZES]: memory with nothing in it; outputs
 * are returned in order. */
static int memory_line(struct reader *r, bool is_output)
{
	struct name n = {.is_buffer = true};
	int ndim, rc = ir_take_name(r, "a name", &n.text);
	int64_t shape[TAPE_DIMS_MAX];
	if (!rc) rc = take_dtype(r, &n.dtype);
	if (!rc) rc = take_shape(r, NULL, &ndim, shape);
	if (!rc) rc = elements_of(r, ndim, shape, &n.elements);
	if (rc) return rc;
	n.buffer = push_buffer(
		r, json_pack("{s:s, s:I}", "kind", "temp", "bytes", (json_int_t)(n.elements * (int64_t)dtype_bytes(n.dtype))));
	if (is_output) json_array_append_new(r->outputs, view_json(n.buffer, n.dtype, ndim, shape, NULL));
	return ir_add_name(r, &n);
}

/* ---- what happens ---- */

static int take_buffer(struct reader *r, const struct name **out)
{
	struct slice word;
	int rc = ir_take_name(r, "the name of memory", &word);
	*out = rc ? NULL : ir_find(r, word);
	if (!rc && (!*out || !(*out)->is_buffer))
		return ir_bad(r, ERR_FORMAT, "%.*s is no memory that a line above names", (int)word.len, word.data);
	return rc;
}

/* A number with a point, an exponent, or inf, -inf, nan: NULL where there is none. */
static json_t *take_float(struct reader *r)
{
	ir_skip_blanks(r);
	const char *from = r->at, *p = from;
	/* Up to what ends a word. NUL does too: strchr finds it in every set, the
	 * digits' below among them. */
	while (p < r->end && !strchr(",) \t\r", *p)) p++;
	struct slice word = {from, (size_t)(p - from)};
	if (slice_is(word, "inf") || slice_is(word, "-inf") || slice_is(word, "nan")) {
		r->at = p;
		return json_stringn(word.data, word.len);
	}
	char text[40], *end;
	bool has_digit = false, is_float = false;
	for (size_t i = 0; i < word.len; i++) {
		has_digit |= isdigit((unsigned char)word.data[i]) != 0;
		is_float |= word.data[i] == '.' || (has_digit && (word.data[i] == 'e' || word.data[i] == 'E'));
		if (!isdigit((unsigned char)word.data[i]) && !strchr("+-.eE", word.data[i])) return NULL;
	}
	if (!has_digit || !is_float || word.len >= sizeof text) return NULL;
	snprintf(text, sizeof text, "%.*s", (int)word.len, word.data);
	double x = strtod(text, &end);
	if (*end) return NULL;
	r->at = p;
	return json_real(x); /* NULL where it is not finite */
}

static int rows_check(struct reader *r)
{
	if (json_array_size(r->rows) < ROWS_MAX) return 0;
	return ir_bad(r, ERR_FORMAT, "more than %d launches and fills", ROWS_MAX);
}

/* fill NAME VALUE: all of it */
static int fill_line(struct reader *r)
{
	const struct name *n;
	int64_t whole;
	int rc = rows_check(r);
	if (!rc) rc = take_buffer(r, &n);
	if (rc) return rc;
	json_t *value = take_float(r);
	if (!value) {
		rc = ir_expression(r, &whole);
		if (rc) return rc;
		value = dtype_is_float(n->dtype) ? json_real((double)whole) : json_integer(whole);
	}
	json_array_append_new(r->rows,
		json_pack("{s:s, s:i, s:o, s:o}", "op", "fill", "line", r->line, "dst",
			view_json(n->buffer, n->dtype, 1, &n->elements, NULL), "value", value));
	return 0;
}

/* An argument: memory, perhaps with an offset in its elements; a float; a whole number. */
static int take_arg(struct reader *r, json_t **out)
{
	*out = take_float(r);
	if (*out) {
		*out = json_pack("{s:o}", "float", *out);
		return 0;
	}
	/* A name of memory begins an address; any other name is part of a number, which
	 * is read from its begin. */
	const char *from = r->at;
	struct slice word;
	int64_t n = 0;
	ir_skip_blanks(r);
	const struct name *b = NULL;
	if (r->at < r->end && ir_is_word(*r->at, true) && !ir_take_name(r, "a name", &word)) b = ir_find(r, word);
	if (!b || !b->is_buffer) {
		r->at = from;
		int rc = ir_expression(r, &n);
		*out = rc ? NULL : json_pack("{s:I}", "int", (json_int_t)n);
		return rc;
	}
	/* One past the last element is allowed, as in C: nothing of it can be
	 * loaded without a finding. */
	int rc = ir_take(r, '+') ? ir_expression(r, &n) : 0;
	if (!rc && (n < 0 || n > b->elements))
		return ir_bad(r, ERR_FORMAT, "%.*s + %lld lies outside of it", (int)word.len, word.data, (long long)n);
	*out = rc
		? NULL
		: json_pack("{s:i, s:I}", "buffer", b->buffer, "offset", (json_int_t)(n * (int64_t)dtype_bytes(b->dtype)));
	return rc;
}

/* warps, stages and ctas behind a launch, which make a kernel of the tape with
 * the module: its number. */
static int take_kernel(struct reader *r, const struct module *m, int *out)
{
	static const char *const words[] = {"warps", "stages", "ctas"};
	static const char *const keys[] = {"num_warps", "num_stages", "num_ctas"};
	int64_t options[] = {4, 3, 1};
	for (ir_skip_blanks(r); r->at < r->end; ir_skip_blanks(r)) {
		struct slice word;
		size_t i = 0;
		int rc = ir_take_name(r, "warps, stages or ctas", &word);
		while (!rc && i < ARRAY_LEN(words) && !slice_is(word, words[i])) i++;
		if (!rc && i == ARRAY_LEN(words))
			return ir_bad(r, ERR_FORMAT, "%.*s is no option of a launch", (int)word.len, word.data);
		if (!rc) rc = ir_expect(r, '=');
		if (!rc) rc = ir_expression(r, &options[i]);
		if (rc) return rc;
	}
	json_t *k = json_pack(
		"{s:s%, s:s%, s:i}", "name", m->name.data, m->name.len, "ttir", m->text.data, m->text.len, "configs", 1);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) json_object_set_new(k, keys[i], json_integer(options[i]));
	/* Equal launches share it, as on a tape that was traced. */
	for (*out = 0; *out < (int)json_array_size(r->kernels); ++*out)
		if (json_equal(json_array_get(r->kernels, (size_t)*out), k)) break;
	if (*out == (int)json_array_size(r->kernels)) json_array_append(r->kernels, k);
	json_decref(k);
	return 0;
}

/* launch KERNEL[GRID](ARGUMENTS) OPTIONS */
static int launch_line(struct reader *r)
{
	struct slice word;
	int64_t grid[3] = {1, 1, 1};
	int rc = ir_take_name(r, "a kernel's name", &word), axes = 0, kernel = 0, m = 0;
	while (!rc && m < r->nmodules && !slice_same(r->modules[m].name, word)) m++;
	if (!rc && m == r->nmodules)
		return ir_bad(r, ERR_FORMAT, "no module below has a public function @%.*s", (int)word.len, word.data);
	if (!rc) rc = rows_check(r);
	if (!rc) rc = ir_expect(r, '[');
	/* One to three expressions. */
	do {
		if (!rc) rc = ir_expression(r, &grid[axes]);
	} while (!rc && ++axes < 3 && ir_take(r, ','));
	if (!rc) rc = ir_expect(r, ']');
	if (!rc) rc = ir_expect(r, '(');
	json_t *args = json_array();
	bool is_open = !rc && !ir_take(r, ')');
	while (is_open && !rc) {
		json_t *arg = NULL;
		rc = take_arg(r, &arg);
		if (arg) json_array_append_new(args, arg);
		if (!rc && ir_take(r, ')')) break;
		if (!rc) rc = ir_expect(r, ',');
	}
	if (!rc) rc = take_kernel(r, &r->modules[m], &kernel);
	if (rc) json_decref(args);
	else
		json_array_append_new(r->rows,
			json_pack("{s:s, s:i, s:i, s:[I, I, I], s:o}", "op", "launch", "line", r->line, "kernel", kernel, "grid",
				(json_int_t)grid[0], (json_int_t)grid[1], (json_int_t)grid[2], "args", args));
	return rc;
}

static int head_line(struct reader *r)
{
	struct slice word;
	int rc = ir_take_name(r, "input, param, temp, output, fill or launch", &word);
	if (rc) return rc;
	if (slice_is(word, "input")) rc = input_line(r);
	else if (slice_is(word, "param")) rc = param_line(r);
	else if (slice_is(word, "temp") || slice_is(word, "output")) rc = memory_line(r, slice_is(word, "output"));
	else if (slice_is(word, "fill")) rc = fill_line(r);
	else if (slice_is(word, "launch")) rc = launch_line(r);
	else
		return ir_bad(r, ERR_FORMAT, "expected input, param, temp, output, fill or launch, found \"%.*s\"",
			(int)word.len, word.data);
	ir_skip_blanks(r);
	if (!rc && r->at < r->end)
		return ir_bad(r, ERR_FORMAT, "\"%.*s\" behind the line's end", (int)MIN(r->end - r->at, 30), r->at);
	return rc;
}

/* ---- the whole ---- */

static const char *skip_lines(const char *at, const char *end, int *line)
{
	while (at < end && strchr(" \t\r\n", *at)) *line += *at++ == '\n';
	return at;
}

bool tape_ir_is(const char *text, size_t len)
{
	int line = 1;
	const char *at = skip_lines(text, text + len, &line);
	return text + len - at >= 2 && at[0] == '/' && at[1] == '/';
}

/* The buffers that the tape has from the start: forward's tensors, used or not. */
static void given_buffers(struct reader *r)
{
	for (int i = 0; i < r->sizes->ninputs; i++)
		push_buffer(r,
			json_pack(
				"{s:s, s:I, s:i}", "kind", "input", "bytes", (json_int_t)span_bytes(&r->sizes->inputs[i]), "input", i));
}

static int answer_read(struct reader *r, const char *text, size_t len, struct arena *arena)
{
	const char *end = text + len, *at = text, *head = skip_lines(text, end, &r->line);
	int line = r->line;
	/* Behind the head are the modules, which launches name, so these come first. */
	for (at = head; end - at >= 2 && at[0] == '/' && at[1] == '/';) {
		at = ir_line_end(at, end);
		at = skip_lines(at, end, &line);
	}
	const char *behind = at;
	int first = r->line, rc = ir_modules_read(r, behind, end, line, arena);
	if (rc) return rc;
	given_buffers(r);
	r->line = first;
	for (at = head; at < behind && !rc;) {
		r->at = at + 2;
		r->end = ir_line_end(at, end);
		ir_skip_blanks(r);
		if (r->at < r->end) rc = head_line(r); /* an empty one says nothing */
		if (!rc) at = skip_lines(r->end, end, &r->line);
	}
	if (!rc && r->ninputs < r->sizes->ninputs)
		return ir_bad(
			r, ERR_FORMAT, "the head has %d inputs, forward is given %d tensors", r->ninputs, r->sizes->ninputs);
	if (!rc && !json_array_size(r->outputs)) return ir_bad(r, ERR_FORMAT, "the head has no output");
	return rc;
}

int tape_ir_read(
	const char *text, size_t len, const struct tape_ir_sizes *sizes, struct str *tape, int *line, struct err *err)
{
	struct reader *r = xcalloc(1, sizeof *r);
	struct arena arena = {0};
	*r = (struct reader){.sizes = sizes,
		.line = 1,
		.buffers = json_array(),
		.kernels = json_array(),
		.rows = json_array(),
		.outputs = json_array(),
		.err = err};
	/* Everything is read into the tape's own parts first: what fails leaves
	 * its line and no tape. */
	int rc = answer_read(r, text, len, &arena);
	*line = r->line;
	/* Several outputs are a tuple, as a forward returns them. */
	if (!rc) {
		json_t *o = json_pack("{s:i, s:O, s:O, s:O, s:O, s:b}", "version", TAPE_VERSION, "buffers", r->buffers,
			"kernels", r->kernels, "rows", r->rows, "outputs", r->outputs, "tuple", json_array_size(r->outputs) > 1);
		char *dump = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
		if (dump) str_puts(tape, dump);
		else rc = err_set(err, ERR_FORMAT, "line 1: the answer is not valid UTF-8, or a number is not finite");
		free(dump);
		json_decref(o);
	}
	json_decref(r->buffers);
	json_decref(r->kernels);
	json_decref(r->rows);
	json_decref(r->outputs);
	arena_release(&arena);
	free(r);
	return rc;
}
