/* same_program: see its header. */
#include "verify/same_program.h"
#include "base/base.h"
#include "tape/tape.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts that differ in numbers alone ----
 *
 * Both texts are written anew in one form, which is the same where they differ in numbers alone. In
 * it stand the instructions that read, write or steer, in their order; what is only computed stands
 * in its users as the number of its expression. So it does not matter how often the compiler
 * writes one thing down: of two blocks it makes one where their sizes are equal. */

/* Instructions whose value is their operands' alone. */
static const char *const COMPUTED[] = {"arith.", "math.", "tt.splat ", "tt.expand_dims ", "tt.broadcast ",
	"tt.make_range ", "tt.addptr ", "tt.get_program_id ", "tt.get_num_programs ", "tt.trans ", "tt.reshape ",
	"tt.bitcast "};

struct form {
	json_t *expressions; /* what is computed, as text of one form: its number. Shared by both texts */
	json_t *names;       /* of this text: what stands for each value and function */
	int count;           /* names that stand for no expression */
	struct str text;
};

/* Behind a name (%v_3, @f, @"f<4>"). */
static const char *name_end(const char *p, const char *end)
{
	bool is_quoted = p + 1 < end && p[1] == '"';
	if (is_quoted) {
		const char *close = memchr(p + 2, '"', (size_t)(end - p - 2));
		return close ? close + 1 : end;
	}
	for (p++; p < end && (isalnum((unsigned char)*p) || strchr("_$.-", *p));) p++;
	return p;
}

/* A name gets the next number where it is defined, or met for the first time: both texts define
 * theirs in one order. */
static long long name_number(struct form *f, const char *name, size_t len, bool is_defined)
{
	json_t *known = json_object_getn(f->names, name, len);
	if (known && !is_defined) return json_integer_value(known);
	json_object_setn_new(f->names, name, len, json_integer(--f->count));
	return f->count;
}

/* Whether a line begins with this, or goes on with it at p. */
static bool goes_on(const char *p, const char *end, const char *word)
{
	size_t n = strlen(word);
	return (size_t)(end - p) >= n && !memcmp(p, word, n);
}

/* A constant that is one number: two sizes are one constant where they are equal. p: behind its
 * " = ". */
static bool is_number(const char *p, const char *end)
{
	if (!goes_on(p, end, "arith.constant ")) return false;
	p += sizeof "arith.constant " - 1;
	if (goes_on(p, end, "dense<")) p += sizeof "dense<" - 1;
	const char *first = p;
	while (p < end && (isdigit((unsigned char)*p) || strchr("+-.e", *p))) p++;
	return p > first && p < end && (*p == ' ' || *p == '>');
}

/* Puts digits, and returns what follows them. */
static const char *digits_put(struct form *f, const char *p, const char *end)
{
	const char *first = p;
	while (p < end && isdigit((unsigned char)*p)) p++;
	str_append(&f->text, first, (size_t)(p - first));
	return p;
}

static const char *until_put(struct form *f, const char *p, const char *end, char last)
{
	const char *close = memchr(p, last, (size_t)(end - p)), *next = close ? close + 1 : end;
	str_append(&f->text, p, (size_t)(next - p));
	return next;
}

/* A line in the one form: numbers are left out, but not those that say what is computed: which of
 * several results, the width of a type, an axis, an order of dimensions, text. Hints about
 * arguments, which sizes decide, are left out, and so are places in the source. */
static void line_put(struct form *f, const char *p, const char *end)
{
	while (p < end) {
		/* Hints and places first, then what keeps its digits, names, and all
		 * else without its numbers. */
		if (goes_on(p, end, "tt.divisibility = 16 : i32")) {
			p += sizeof "tt.divisibility = 16 : i32" - 1;
		} else if (goes_on(p, end, "#loc")) {
			for (p++; p < end && isalnum((unsigned char)*p);) p++;
		} else if (goes_on(p, end, "array<i32:")) {
			p = until_put(f, p, end, '>');
		} else if (goes_on(p, end, "axis = ")) {
			p = digits_put(f, p + sizeof "axis = " - 1, end);
		} else if (*p == '%' || *p == '@') {
			const char *next = name_end(p, end);
			bool is_defined = goes_on(next, end, ":") || (goes_on(next, end, " = ") && !goes_on(next, end, " == "));
			str_printf(&f->text, "%%%lld", name_number(f, p, (size_t)(next - p), is_defined));
			p = next;
			if (p < end && *p == '#') p = digits_put(f, p + 1, end);
		} else if (*p == '"') {
			str_append(&f->text, p, 1);
			p = until_put(f, p + 1, end, '"');
		} else if (isalpha((unsigned char)*p)) {
			str_append(&f->text, p, 1);
			p = *p == 'x' ? p + 1 : digits_put(f, p + 1, end);
		} else {
			if (!isdigit((unsigned char)*p) && !strchr(" {},-+._", *p)) str_append(&f->text, p, 1);
			p++;
		}
	}
}

/* One line: of a value that is only computed its name stands for the expression; any other
 * line is put. */
static void line_take(struct form *f, const char *p, const char *end)
{
	const char *name = p, *op = NULL;
	bool is_computed = false;
	while (p < end && *p == ' ') p++;
	if (p == end || *p == '#') return;
	if (*p == '%' && goes_on(name_end(p, end), end, " = ")) {
		name = p;
		p = name_end(p, end);
		op = p + 3;
		for (size_t i = 0; i < ARRAY_LEN(COMPUTED); i++) is_computed |= goes_on(op, end, COMPUTED[i]);
	}
	if (!is_computed) {
		/* The end of a block leaves a line without text: what is in a loop is not behind it. */
		if (!op) name = p;
		line_put(f, name, end);
		str_append(&f->text, "\n", 1);
		return;
	}
	size_t at = f->text.len;
	if (is_number(op, end)) str_append(&f->text, "number", 6);
	else line_put(f, op, end);
	json_t *known = json_object_getn(f->expressions, f->text.data + at, f->text.len - at);
	if (!known) {
		known = json_integer((json_int_t)json_object_size(f->expressions));
		json_object_setn_new(f->expressions, f->text.data + at, f->text.len - at, known);
	}
	json_object_setn_new(f->names, name, (size_t)(p - name), json_integer(json_integer_value(known)));
	f->text.len = at;
}

static void form_make(struct form *f, const struct tape_kernel *k)
{
	const char *end = k->ttir + k->ttir_len;
	f->names = json_object();
	for (const char *p = k->ttir, *next; p < end; p = next) {
		const char *line_end = memchr(p, '\n', (size_t)(end - p));
		next = line_end ? line_end + 1 : end;
		line_take(f, p, line_end ? line_end : end);
	}
	json_decref(f->names);
}

static bool ir_is_alike(const struct tape_kernel *a, const struct tape_kernel *b)
{
	struct form x = {.expressions = json_object()}, y = {.expressions = x.expressions};
	form_make(&x, a);
	form_make(&y, b);
	bool is_alike = x.text.len == y.text.len && !memcmp(x.text.data, y.text.data, x.text.len);
	str_release(&x.text);
	str_release(&y.text);
	json_decref(x.expressions);
	return is_alike;
}

/* ---- rows over the same buffers ---- */

#define BOUND_MAX (2 + 2 * TAPE_ARGS_MAX) /* buffers of one row that are looked at */

struct pairing {
	const struct tape *judged;
	const struct tape *large;
	int *class_of;     /* (judged->nbuffers): another buffer of the same class, or itself: those that turns made at one
						  place */
	bool *is_taken;    /* (judged->nbuffers): some buffer stands for it */
	bool *is_of_turns; /* (judged->nbuffers): of a class's first: several may stand for it */
	int *stands_for;   /* (large->nbuffers) */
	signed char *kernel; /* (judged->nkernels, judged->nkernels + large->nkernels): whether one kernel is alike to
							another of either tape: 1, or -1; 0 not asked yet */
	int bound[BOUND_MAX];
	int nbound;
};

static int class_of(const struct pairing *p, int buffer)
{
	while (p->class_of[buffer] != buffer) buffer = p->class_of[buffer];
	return buffer;
}

/* A buffer of the large tape in the place of a judged one. What is met for the first time stands
 * for it from here on, one for one unless turns made it; undone by unbind. */
static bool bind(struct pairing *p, int judged, int large)
{
	const struct tape_buffer *a = &p->judged->buffers[judged], *b = &p->large->buffers[large];
	int class = class_of(p, judged);
	if (p->stands_for[large] >= 0) return class_of(p, p->stands_for[large]) == class;
	if (a->kind != b->kind || (a->kind == TAPE_INPUT && a->input != b->input) ||
		(a->kind == TAPE_PARAM && strcmp(a->name, b->name) != 0) || p->nbound == BOUND_MAX)
		return false;
	if (!p->is_of_turns[class] && p->is_taken[class]) return false;
	p->stands_for[large] = judged;
	p->is_taken[class] = true;
	p->bound[p->nbound++] = large;
	return true;
}

static void unbind(struct pairing *p)
{
	while (p->nbound) {
		int *large = &p->stands_for[p->bound[--p->nbound]], class = class_of(p, *large);
		p->is_taken[class] = p->is_of_turns[class];
		*large = -1;
	}
}

static bool has_buffer(const struct tape_arg *a) { return tape_arg_has_buffer(a) || a->kind == TAPE_ARG_VALUE; }

/* A judged kernel and one of this tape, which is either of the two. */
static bool kernels_are_alike(struct pairing *p, int judged, const struct tape *t, int other)
{
	size_t both = (size_t)p->judged->nkernels + (size_t)p->large->nkernels;
	size_t at = (size_t)judged * both + (size_t)(t == p->judged ? 0 : p->judged->nkernels) + (size_t)other;
	if (!p->kernel[at]) p->kernel[at] = ir_is_alike(&p->judged->kernels[judged], &t->kernels[other]) ? 1 : -1;
	return p->kernel[at] > 0;
}

/* A row of the large tape in the place of a judged one. Nothing stays bound where it is not. */
static bool row_fits(struct pairing *p, const struct tape_row *a, const struct tape_row *b)
{
	bool is_alike = a->kind == b->kind;
	p->nbound = 0;
	if (is_alike && a->kind == TAPE_LAUNCH) {
		is_alike = a->nargs == b->nargs && kernels_are_alike(p, a->kernel, p->large, b->kernel);
		for (int i = 0; i < a->nargs && is_alike; i++)
			is_alike = a->args[i].kind == b->args[i].kind &&
				(!has_buffer(&a->args[i]) || bind(p, a->args[i].buffer, b->args[i].buffer));
	} else if (is_alike && (a->kind == TAPE_FILL || a->kind == TAPE_COPY)) {
		is_alike = bind(p, a->dst.buffer, b->dst.buffer) &&
			(a->kind == TAPE_FILL || bind(p, a->src.buffer, b->src.buffer));
	} else if (is_alike && a->kind == TAPE_LIBRARY) {
		is_alike = !strcmp(a->op, b->op);
	}
	if (!is_alike) unbind(p);
	return is_alike;
}

/* ---- loops of host code ---- */

/* Two judged buffers at the same place of two turns: the same one, or what each made for itself. */
static bool turns_share(const struct tape *t, int a, int b)
{
	return a == b || (t->buffers[a].kind == TAPE_TEMP && t->buffers[b].kind == TAPE_TEMP);
}

static void class_unite(struct pairing *p, int a, int b)
{
	bool is_taken;
	if ((a = class_of(p, a)) == (b = class_of(p, b))) return;
	is_taken = p->is_taken[a] || p->is_taken[b];
	p->class_of[MAX(a, b)] = MIN(a, b);
	p->is_of_turns[MIN(a, b)] = true;
	p->is_taken[MIN(a, b)] = is_taken;
}

/* The i-th buffer of a row; -1: an argument that is none. */
static int row_buffer(const struct tape_row *r, int i)
{
	if (r->kind == TAPE_LAUNCH) return has_buffer(&r->args[i]) ? r->args[i].buffer : -1;
	return i ? r->src.buffer : r->dst.buffer;
}

/* Two judged rows at the same place of two turns. unites: their buffers are one class from
 * here on. */
static bool turn_rows(struct pairing *p, const struct tape_row *a, const struct tape_row *b, bool unites)
{
	bool is_launch = a->kind == TAPE_LAUNCH;
	int n = is_launch ? a->nargs : a->kind == TAPE_FILL ? 1 : a->kind == TAPE_COPY ? 2 : 0;
	if (a->kind != b->kind || a->kind == TAPE_LIBRARY) return false;
	if (is_launch && (a->nargs != b->nargs || !kernels_are_alike(p, a->kernel, p->judged, b->kernel))) return false;
	for (int i = 0; i < n; i++) {
		int x = row_buffer(a, i), y = row_buffer(b, i);
		if ((is_launch && a->args[i].kind != b->args[i].kind) || (x < 0) != (y < 0)) return false;
		if (x < 0) continue;
		if (!turns_share(p->judged, x, y)) return false;
		if (unites) class_unite(p, x, y);
	}
	return true;
}

static bool turns_are_alike(struct pairing *p, int end, int rows, bool unites)
{
	for (int i = end - rows; i < end; i++)
		if (!turn_rows(p, &p->judged->rows[i - rows], &p->judged->rows[i], unites)) return false;
	return true;
}

/* Where the judged rows end, or go on otherwise, in front of row `at`: the first row of a turn
 * behind which this row of the large tape begins one more; -1: there is no such loop. The shortest
 * turn is taken, so that of loops in loops the innermost goes on. */
static int turn_again(struct pairing *p, int at, const struct tape_row *next)
{
	for (int rows = 1; 2 * rows <= at; rows++) {
		if (p->judged->rows[at - rows].kind != next->kind || !turns_are_alike(p, at, rows, false)) continue;
		turns_are_alike(p, at, rows, true);
		if (row_fits(p, &p->judged->rows[at - rows], next)) return at - rows;
	}
	return -1;
}

static bool differs(struct same_program *s, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool differs(struct same_program *s, int line, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->why, sizeof s->why, fmt, ap);
	va_end(ap);
	s->line = line;
	return false;
}

/* Both tapes row by row; where they part, the large one may be in one more turn of a loop. */
static bool rows_pair(struct pairing *p, struct same_program *s)
{
	const struct tape *judged = p->judged, *large = p->large;
	int at = 0;
	for (int i = 0; i < large->nrows; i++) {
		const struct tape_row *b = &large->rows[i];
		if (at == judged->nrows || !row_fits(p, &judged->rows[at], b)) {
			int again = turn_again(p, at, b);
			if (again < 0)
				return differs(s, b->line,
					"forward does other work there: row %d (candidate.py:%d) is not what was judged", i, b->line);
			s->has_turns = true;
			at = again;
		}
		s->row[i] = at++;
	}
	if (at < judged->nrows)
		return differs(s, judged->rows[at].line,
			"forward does other work there: it ends in front of row %d "
			"(candidate.py:%d) of what was judged",
			at, judged->rows[at].line);
	/* Buffers that no row has, and that sizes do not explain. */
	if (!s->has_turns && judged->nbuffers != large->nbuffers)
		return differs(
			s, 0, "forward does other work there: %d buffers, judged were %d", large->nbuffers, judged->nbuffers);
	return true;
}

bool same_program(const struct tape *judged, const struct tape *large, struct same_program *out)
{
	struct pairing p = {.judged = judged, .large = large};
	size_t njudged = (size_t)judged->nbuffers, nlarge = (size_t)large->nbuffers;
	p.class_of = xcalloc(njudged + 1, sizeof *p.class_of);
	p.is_taken = xcalloc(njudged + 1, sizeof *p.is_taken);
	p.is_of_turns = xcalloc(njudged + 1, sizeof *p.is_of_turns);
	p.stands_for = xcalloc(nlarge + 1, sizeof *p.stands_for);
	p.kernel = xcalloc(
		(size_t)judged->nkernels * ((size_t)judged->nkernels + (size_t)large->nkernels) + 1, sizeof *p.kernel);
	for (int i = 0; i < judged->nbuffers; i++) p.class_of[i] = i;
	for (int i = 0; i < large->nbuffers; i++) p.stands_for[i] = -1;
	/* Row by row; then what forward returns has to be what it was. */
	*out = (struct same_program){.row = xcalloc((size_t)large->nrows + 1, sizeof *out->row), .buffer = p.stands_for};
	bool is_same = rows_pair(&p, out);
	p.nbound = 0;
	if (is_same && judged->noutputs != large->noutputs)
		is_same = differs(
			out, 0, "forward returns %d tensors there, judged were %d", large->noutputs, judged->noutputs);
	for (int i = 0; i < judged->noutputs && is_same; i++)
		if (!bind(&p, judged->outputs[i].buffer, large->outputs[i].buffer))
			is_same = differs(out, 0, "forward returns another buffer there as output %d", i);
	free(p.class_of);
	free(p.is_taken);
	free(p.is_of_turns);
	free(p.kernel);
	return is_same;
}

void same_program_release(struct same_program *s)
{
	free(s->row);
	free(s->buffer);
	*s = (struct same_program){0};
}
