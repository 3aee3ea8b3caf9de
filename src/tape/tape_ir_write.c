/* tape_ir_write: the answer in IR that tapes of one program at several sizes come from. Dimensions
 * that move together get a name, and each number of the tapes (a grid, an argument, a buffer's
 * size) becomes an expression of these names that has its value at all sizes. What was found so is
 * a guess: the verifier judges the answer like any other. */
#include "tape/tape_ir.h"
#include "base/base.h"
#include "base/dtype.h"
#include <stdlib.h>

#define SEEN_MAX 8      /* sets of sizes */
#define NAMES_MAX 8     /* sizes that vary */
#define BLOCK_MAX ((int64_t)1 << 20)

static const char NAMES[NAMES_MAX][2] = {"M", "N", "K", "L", "P", "Q", "R", "S"};

struct writer {
	const struct tape_ir_seen *seen;
	int count; /* that are looked at */
	int nnames;
	int64_t values[NAMES_MAX][SEEN_MAX];
	struct str texts[TAPE_KERNELS_MAX]; /* kernels without locations */
	struct str *out;
	struct err *err;
};

static int cannot(struct writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int cannot(struct writer *w, const char *fmt, ...)
{
	char text[300];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(w->err, ERR_MISMATCH, "%s", text);
}

/* ---- kernels ---- */

/* Behind a location's closing bracket; its strings may hold brackets. */
static const char *loc_end(const char *p, const char *end)
{
	int depth = 0;
	bool in_string = false;
	for (; p < end; p++) {
		if (in_string && *p == '\\') p++;
		else if (*p == '"') in_string = !in_string;
		else if (!in_string && *p == '(') depth++;
		else if (!in_string && *p == ')' && --depth == 0) return p + 1;
	}
	return end;
}

/* Triton's text without locations, their table, and the divisors of integers: those follow from
 * sizes, and other sizes of the same program have other ones. */
static void strip(const struct tape_kernel *k, struct str *out)
{
	static const char divisor[] = " {tt.divisibility = 16 : i32}", loc[] = " loc(";
	const char *end = k->ttir + k->ttir_len;
	for (const char *at = k->ttir, *next; at < end; at = next) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		next = nl ? nl + 1 : end;
		if (*at == '#') continue;
		size_t before = out->len;
		bool in_string = false;
		for (const char *p = at; p < next;) {
			size_t left = (size_t)(next - p);
			if (*p == '"') in_string = !in_string;
			if (!in_string && left > sizeof loc && !memcmp(p, loc, sizeof loc - 1)) p = loc_end(p + 4, next);
			else if (!in_string && left > sizeof divisor && !memcmp(p, divisor, sizeof divisor - 1) && p - at > 3 &&
				p[-3] == 'i')
				p += sizeof divisor - 1;
			else str_putc(out, *p++);
		}
		/* A line that was nothing but a location. */
		bool is_blank = true;
		for (size_t i = before; i < out->len; i++) is_blank &= out->data[i] == ' ' || out->data[i] == '\n';
		if (is_blank) out->len = before;
	}
	str_putc(out, 0);
	out->len--;
}

/* Whether a kernel is the same at all sizes; the first one's text stays. */
static bool kernels_same(struct writer *w)
{
	const struct tape *first = w->seen[0].tape;
	bool same = true;
	for (int k = 0; k < first->nkernels; k++) strip(&first->kernels[k], &w->texts[k]);
	for (int s = 1; s < w->count; s++) {
		const struct tape *t = w->seen[s].tape;
		same &= t->nkernels == first->nkernels && t->nrows == first->nrows && t->nbuffers == first->nbuffers &&
			t->noutputs == first->noutputs;
		for (int k = 0; same && k < t->nkernels; k++) {
			struct str text = {0};
			strip(&t->kernels[k], &text);
			same &= !strcmp(text.data, w->texts[k].data) && t->kernels[k].num_warps == first->kernels[k].num_warps &&
				t->kernels[k].num_stages == first->kernels[k].num_stages &&
				t->kernels[k].num_ctas == first->kernels[k].num_ctas;
			str_release(&text);
		}
	}
	return same;
}

/* ---- sizes and expressions ---- */

/* The product of a set of named sizes at each of the sizes seen. */
static void product_of(const struct writer *w, unsigned set, int64_t *out)
{
	for (int s = 0; s < w->count; s++) {
		out[s] = 1;
		for (int n = 0; n < w->nnames; n++)
			if (set >> n & 1) out[s] *= w->values[n][s];
	}
}

static void product_text(const struct writer *w, unsigned set, struct str *out)
{
	bool is_first = true;
	for (int n = 0; n < w->nnames; n++)
		if (set >> n & 1) {
			str_printf(out, "%s%s", is_first ? "" : " * ", NAMES[n]);
			is_first = false;
		}
}

static bool all_equal(const struct writer *w, const int64_t *a, const int64_t *b)
{
	return !memcmp(a, b, (size_t)w->count * sizeof *a);
}

static bool is_constant(const struct writer *w, const int64_t *v)
{
	for (int s = 1; s < w->count; s++)
		if (v[s] != v[0]) return false;
	return true;
}

/* The block size that gives these quotients, rounded up, and that the kernel's text has,
 * where there is one. 0: none.
 */
static int64_t block_of(const struct writer *w, const int64_t *of, const int64_t *quotients, const struct str *kernel)
{
	for (int64_t c = 2; c <= BLOCK_MAX; c *= 2) {
		bool fits = true;
		char word[32];
		for (int s = 0; s < w->count; s++) fits &= (of[s] + c - 1) / c == quotients[s];
		snprintf(word, sizeof word, "constant %lld ", (long long)c);
		if (fits && (!kernel || strstr(kernel->data, word))) return c;
	}
	return 0;
}

/* A product in blocks, rounded up, perhaps times another one: the most names first, since
 * blocks mostly cut up all. */
static bool explain_blocks(const struct writer *w, const int64_t *v, const struct str *kernel, struct str *out)
{
	int64_t p[SEEN_MAX], q[SEEN_MAX], rest[SEEN_MAX];
	unsigned sets = 1u << w->nnames;
	for (int size = w->nnames; size >= 1; size--)
		for (unsigned set = 1; set < sets; set++)
			for (unsigned times = 0; times < sets; times++) {
				if (__builtin_popcount(set) != size || set & times) continue;
				product_of(w, set, p);
				product_of(w, times, q);
				bool divides = true;
				for (int s = 0; s < w->count; s++) divides &= q[s] > 0 && v[s] % q[s] == 0;
				for (int s = 0; s < w->count && divides; s++) rest[s] = v[s] / q[s];
				int64_t c = divides ? block_of(w, p, rest, kernel) : 0;
				if (!c) continue;
				if (times) product_text(w, times, out), str_puts(out, " * ");
				str_puts(out, "cdiv(");
				product_text(w, set, out);
				return str_printf(out, ", %lld)", (long long)c), true;
			}
	return false;
}

/* An expression that is each value at its sizes: a product of names; of a grid, one in blocks
 * that its kernel has, also where few sizes make it look like a constant; a number; a product
 * with a factor; one in any blocks; a power of two, a sum with a number. False: none of these
 * is. kernel: of a grid. */
static bool explain(const struct writer *w, const int64_t *v, const struct str *kernel, struct str *out)
{
	int64_t p[SEEN_MAX];
	unsigned sets = 1u << w->nnames;
	for (unsigned set = 1; set < sets; set++) {
		product_of(w, set, p);
		if (all_equal(w, p, v)) return product_text(w, set, out), true;
	}
	if (kernel && explain_blocks(w, v, kernel, out)) return true;
	if (is_constant(w, v)) return str_printf(out, "%lld", (long long)v[0]), true;
	/* The fewest names first. */
	for (int size = 1; size <= w->nnames; size++)
		for (unsigned set = 1; set < sets; set++) {
			if (__builtin_popcount(set) != size) continue;
			product_of(w, set, p);
			bool is_multiple = v[0] > p[0] && p[0] > 0 && v[0] % p[0] == 0;
			for (int s = 0; s < w->count; s++) is_multiple &= v[s] == v[0] / MAX(p[0], 1) * p[s];
			if (is_multiple)
				return product_text(w, set, out), str_printf(out, " * %lld", (long long)(v[0] / p[0])), true;
		}
	if (explain_blocks(w, v, NULL, out)) return true;
	for (int n = 0; n < w->nnames; n++) {
		bool is_power = true, is_sum = true;
		for (int s = 0; s < w->count; s++) {
			int64_t x = 1;
			while (x < w->values[n][s]) x *= 2;
			is_power &= x == v[s];
			is_sum &= v[s] - w->values[n][s] == v[0] - w->values[n][0];
		}
		int64_t d = v[0] - w->values[n][0];
		if (is_power) return str_printf(out, "next_pow2(%s)", NAMES[n]), true;
		if (is_sum) return str_printf(out, "%s %c %lld", NAMES[n], d < 0 ? '-' : '+', (long long)llabs(d)), true;
	}
	return false;
}

/* The name of a dimension that varies; dimensions that move together have one.
 * NULL: there are too many. */
static const char *dimension(struct writer *w, const int64_t *v)
{
	for (int n = 0; n < w->nnames; n++)
		if (all_equal(w, w->values[n], v)) return NAMES[n];
	if (w->nnames == NAMES_MAX) return NULL;
	memcpy(w->values[w->nnames], v, (size_t)w->count * sizeof *v);
	return NAMES[w->nnames++];
}

static void type_text(enum dtype t, struct str *out)
{
	for (const char *p = dtype_safetensors_name(t); *p; p++)
		str_putc(out, (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p));
}

/* "f32[M, 64]" of something given. */
static int given_text(struct writer *w, const struct tape_ir_tensor *const *t)
{
	type_text(t[0]->dtype, w->out);
	str_putc(w->out, '[');
	for (int d = 0; d < t[0]->ndim; d++) {
		int64_t v[SEEN_MAX] = {0};
		for (int s = 0; s < w->count; s++) {
			if (t[s]->ndim != t[0]->ndim) return cannot(w, "a tensor has other dimensions at other sizes");
			v[s] = t[s]->shape[d];
		}
		const char *name = is_constant(w, v) ? NULL : dimension(w, v);
		if (name) str_printf(w->out, "%s%s", d ? ", " : "", name);
		else if (is_constant(w, v)) str_printf(w->out, "%s%lld", d ? ", " : "", (long long)v[0]);
		else return cannot(w, "more than %d sizes vary", NAMES_MAX);
	}
	str_puts(w->out, "]\n");
	return 0;
}

/* ---- the head ---- */

/* What a buffer of the first tape is called: x0 an input, p3 a parameter, y3 an
 * output, t3 other memory. */
static void buffer_name(const struct tape *t, int b, char *out, size_t len)
{
	bool is_output = false;
	for (int i = 0; i < t->noutputs; i++) is_output |= t->outputs[i].buffer == b;
	const struct tape_buffer *own = &t->buffers[b];
	if (own->kind == TAPE_INPUT) snprintf(out, len, "x%d", own->input);
	else snprintf(out, len, "%c%d", own->kind == TAPE_PARAM ? 'p' : is_output ? 'y' : 't', b);
}

static int put_explained(struct writer *w, const int64_t *v, const struct str *kernel, const char *what)
{
	return explain(w, v, kernel, w->out) ? 0 : cannot(w, "%s follows from no expression of the sizes", what);
}

static const struct tape_ir_tensor *find_param(const struct tape_ir_sizes *z, const char *name)
{
	for (int i = 0; i < z->nparams; i++)
		if (!strcmp(z->params[i].name, name)) return &z->params[i];
	return NULL;
}

static int given_lines(struct writer *w)
{
	const struct tape_ir_tensor *t[SEEN_MAX];
	const struct tape *first = w->seen[0].tape;
	int rc = 0;
	/* Inputs, in forward's order: their shapes at all sizes that were seen give each
	 * dimension its expression. */
	for (int i = 0; i < w->seen[0].sizes.ninputs && !rc; i++) {
		for (int s = 0; s < w->count; s++) {
			if (w->seen[s].sizes.ninputs != w->seen[0].sizes.ninputs) return cannot(w, "other inputs at other sizes");
			t[s] = &w->seen[s].sizes.inputs[i];
		}
		str_printf(w->out, "// input x%d ", i);
		rc = given_text(w, t);
	}
	/* Parameters that the tape uses, by the reference's names. A constant's bytes
	 * have no place in a head. */
	for (int b = 0; b < first->nbuffers && !rc; b++) {
		if (first->buffers[b].kind == TAPE_CONST)
			return cannot(w, "a constant of %lld bytes", (long long)first->buffers[b].bytes);
		if (first->buffers[b].kind != TAPE_PARAM) continue;
		for (int s = 0; s < w->count; s++) {
			t[s] = find_param(&w->seen[s].sizes, first->buffers[b].name);
			if (!t[s]) return cannot(w, "the reference has no parameter %.60s", first->buffers[b].name);
		}
		str_printf(w->out, "// param p%d %s ", b, first->buffers[b].name);
		rc = given_text(w, t);
	}
	return rc;
}

/* Memory that is returned, in order, with its shape; then what is left, as numbers of 4
 * bytes where it is so many. */
static int memory_lines(struct writer *w)
{
	const struct tape *first = w->seen[0].tape;
	int rc = 0;
	/* Outputs: each has memory of its own, at every size that was seen. */
	for (int i = 0; i < first->noutputs && !rc; i++) {
		const struct tape_view *v = &first->outputs[i];
		char name[16];
		buffer_name(first, v->buffer, name, sizeof name);
		for (int j = 0; j < i; j++)
			if (first->outputs[j].buffer == v->buffer) return cannot(w, "two outputs lie in one buffer");
		str_printf(w->out, "// output %s ", name);
		type_text(v->dtype, w->out);
		str_putc(w->out, '[');
		for (int s = 0; s < w->count; s++) {
			const struct tape_view *o = &w->seen[s].tape->outputs[i];
			const struct tape_buffer *b = &w->seen[s].tape->buffers[o->buffer];
			if (o->buffer != v->buffer || b->kind != TAPE_TEMP || o->offset_bytes || !tape_view_is_contiguous(o) ||
				o->ndim != v->ndim || b->bytes != tape_view_elements(o) * (int64_t)dtype_bytes(o->dtype))
				return cannot(w, "output %d is not memory of its own, dense and whole", i);
		}
		for (int d = 0; d < v->ndim && !rc; d++) {
			int64_t n[SEEN_MAX] = {0};
			for (int s = 0; s < w->count; s++) n[s] = w->seen[s].tape->outputs[i].shape[d];
			if (d) str_puts(w->out, ", ");
			rc = put_explained(w, n, NULL, "an output's size");
		}
		str_puts(w->out, "]\n");
	}
	/* Temporary memory, whose type the tape does not know: as many words as it has. */
	for (int b = 0; b < first->nbuffers && !rc; b++) {
		char name[16];
		buffer_name(first, b, name, sizeof name);
		if (name[0] != 't') continue;
		int64_t n[SEEN_MAX] = {0};
		bool is_words = true;
		for (int s = 0; s < w->count; s++) {
			n[s] = w->seen[s].tape->buffers[b].bytes;
			is_words &= n[s] % 4 == 0 && w->seen[s].tape->buffers[b].kind == TAPE_TEMP;
		}
		if (!is_words) return cannot(w, "memory whose bytes are no multiple of 4");
		for (int s = 0; s < w->count; s++) n[s] /= 4;
		str_printf(w->out, "// temp %s f32[", name);
		rc = put_explained(w, n, NULL, "the size of memory");
		str_puts(w->out, "]\n");
	}
	return rc;
}

/* The bytes of an element, as the head declares the buffer. */
static int64_t element_bytes(const struct writer *w, int b)
{
	const struct tape *t = w->seen[0].tape;
	const struct tape_ir_sizes *z = &w->seen[0].sizes;
	if (t->buffers[b].kind == TAPE_INPUT) return (int64_t)dtype_bytes(z->inputs[t->buffers[b].input].dtype);
	if (t->buffers[b].kind == TAPE_PARAM) return (int64_t)dtype_bytes(find_param(z, t->buffers[b].name)->dtype);
	for (int i = 0; i < t->noutputs; i++)
		if (t->outputs[i].buffer == b) return (int64_t)dtype_bytes(t->outputs[i].dtype);
	return 4;
}

static int arg_text(struct writer *w, int row, int arg)
{
	const struct tape_arg *a = &w->seen[0].tape->rows[row].args[arg];
	int64_t n[SEEN_MAX] = {0}, size = tape_arg_has_buffer(a) ? element_bytes(w, a->buffer) : 1;
	char name[16];
	bool same = true, is_zero = true;
	/* The same argument on all tapes; only whole numbers and offsets may follow from sizes. */
	for (int s = 0; s < w->count; s++) {
		const struct tape_arg *b = &w->seen[s].tape->rows[row].args[arg];
		same &= b->kind == a->kind && (a->kind != TAPE_ARG_POINTER || b->buffer == a->buffer) &&
			(a->kind != TAPE_ARG_FLOAT || b->f == a->f);
		n[s] = a->kind == TAPE_ARG_POINTER ? b->offset_bytes / size : b->i;
		same &= a->kind != TAPE_ARG_POINTER || b->offset_bytes % size == 0;
		is_zero &= n[s] == 0;
	}
	if (!same || a->kind == TAPE_ARG_DESCRIPTOR || a->kind == TAPE_ARG_VALUE)
		return cannot(w, "an argument that the form has no word for");
	/* A float shows a point or an exponent, so that it reads as one. */
	if (a->kind == TAPE_ARG_FLOAT) {
		char text[40];
		snprintf(text, sizeof text, "%.17g", a->f);
		str_printf(w->out, "%s%s", text, strpbrk(text, ".einf") ? "" : ".0");
		return 0;
	}
	if (a->kind == TAPE_ARG_INT) return put_explained(w, n, NULL, "an argument");
	buffer_name(w->seen[0].tape, a->buffer, name, sizeof name);
	str_puts(w->out, name);
	if (is_zero) return 0;
	str_puts(w->out, " + ");
	return put_explained(w, n, NULL, "an offset");
}

static int launch_text(struct writer *w, int row)
{
	const struct tape_row *r = &w->seen[0].tape->rows[row];
	const struct tape_kernel *k = &w->seen[0].tape->kernels[r->kernel];
	int axes = 1, rc = 0;
	/* Options that the form has no word for would be lost. */
	if (k->maxnreg || k->no_fp_fusion || k->no_reflect_ftz || k->ptx_options || k->is_cooperative || k->is_pdl)
		return cannot(w, "an option of %.60s", k->name);
	/* Trailing axes of one program are left out, where that holds at all sizes. */
	for (int s = 0; s < w->count; s++)
		for (int a = 1; a < 3; a++)
			if (w->seen[s].tape->rows[row].grid[a] > 1) axes = MAX(axes, a + 1);
	str_printf(w->out, "// launch %s[", k->name);
	for (int a = 0; a < axes && !rc; a++) {
		int64_t n[SEEN_MAX] = {0};
		for (int s = 0; s < w->count; s++) n[s] = w->seen[s].tape->rows[row].grid[a];
		if (a) str_puts(w->out, ", ");
		rc = put_explained(w, n, &w->texts[r->kernel], "a grid");
	}
	str_puts(w->out, "](");
	for (int a = 0; a < r->nargs && !rc; a++) {
		if (a) str_puts(w->out, ", ");
		rc = arg_text(w, row, a);
	}
	str_putc(w->out, ')');
	/* What Triton's defaults are is not said. */
	if (k->num_warps != 4) str_printf(w->out, " warps=%d", k->num_warps);
	if (k->num_stages != 3) str_printf(w->out, " stages=%d", k->num_stages);
	if (k->num_ctas != 1) str_printf(w->out, " ctas=%d", k->num_ctas);
	str_putc(w->out, '\n');
	return rc;
}

static int fill_text(struct writer *w, int row)
{
	const struct tape_row *r = &w->seen[0].tape->rows[row];
	const struct tape_buffer *b = &w->seen[0].tape->buffers[r->dst.buffer];
	char name[16];
	for (int s = 0; s < w->count; s++) {
		const struct tape_row *o = &w->seen[s].tape->rows[row];
		const struct tape_view *v = &o->dst;
		if (v->offset_bytes || v->buffer != r->dst.buffer || !tape_view_is_contiguous(v) || o->fill != r->fill ||
			tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype) != w->seen[s].tape->buffers[v->buffer].bytes)
			return cannot(w, "a fill of a part of memory");
	}
	buffer_name(w->seen[0].tape, r->dst.buffer, name, sizeof name);
	/* Other memory is declared as f32, and 0 is the one value whose bytes are
	 * the same in every type. */
	if (r->fill != 0 && (name[0] == 't' || !dtype_is_float(r->dst.dtype) || b->kind != TAPE_TEMP))
		return cannot(w, "a fill with %g", r->fill);
	str_printf(w->out, "// fill %s %.17g\n", name, r->fill);
	return 0;
}

static int answer_write(struct writer *w)
{
	const struct tape *first = w->seen[0].tape;
	bool is_used[TAPE_KERNELS_MAX] = {0};
	int rc = given_lines(w);
	if (!rc) rc = memory_lines(w);
	for (int i = 0; i < first->nrows && !rc; i++) {
		const struct tape_row *r = &first->rows[i];
		for (int s = 1; s < w->count; s++)
			if (w->seen[s].tape->rows[i].kind != r->kind || w->seen[s].tape->rows[i].nargs != r->nargs)
				return cannot(w, "other rows at other sizes");
		if (r->stream || tape_row_is_order(r->kind)) return cannot(w, "streams");
		if (r->kind == TAPE_LAUNCH) rc = launch_text(w, i), is_used[r->kernel] = true;
		else if (r->kind == TAPE_FILL) rc = fill_text(w, i);
		else return cannot(w, "a %s", r->kind == TAPE_COPY ? "copy" : "library row");
	}
	for (int k = 0; k < first->nkernels && !rc; k++)
		for (int j = 0; j < k; j++)
			if (!strcmp(first->kernels[k].name, first->kernels[j].name) && is_used[k] && is_used[j])
				return cannot(w, "%.60s is launched in two forms", first->kernels[k].name);
	for (int k = 0; k < first->nkernels && !rc; k++)
		if (is_used[k]) str_append(w->out, w->texts[k].data, w->texts[k].len);
	return rc;
}

int tape_ir_write(const struct tape_ir_seen *seen, int count, struct str *out, struct err *err)
{
	struct writer *w = xcalloc(1, sizeof *w);
	int rc = ERR_MISMATCH;
	*w = (struct writer){.seen = seen, .count = MIN(count, SEEN_MAX), .err = err};
	struct str text = {0};
	w->out = &text;
	if (!kernels_same(w)) w->count = 1;
	/* Where the sizes have no common form, the first ones alone have one: all
	 * numbers are themselves. */
	while (rc == ERR_MISMATCH && w->count >= 1) {
		w->nnames = 0;
		str_clear(&text);
		rc = answer_write(w);
		w->count = w->count > 1 ? 1 : 0;
	}
	if (!rc) str_append(out, text.data, text.len);
	for (int k = 0; k < TAPE_KERNELS_MAX; k++) str_release(&w->texts[k]);
	str_release(&text);
	free(w);
	return rc;
}
