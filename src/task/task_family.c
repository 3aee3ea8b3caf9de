/* Draws tasks from a family and prints them: reference, structure, plan and candidate are all
 * expansions of the family's text with one draw, so they cannot drift apart. */
#include "task/task_family.h"
#include "base/base.h"
#include <math.h>

#define CHAIN_ATTEMPTS_MAX 2000
#define ELEMENTS_LOG2_MIN 22.0
#define ELEMENTS_LOG2_SPAN 2.0

/* ---- drawing ---- */

/* Operators that a chain may have, by what its variable holds. A result that hardly varies would
 * let a constant pass for right, and one that shows how terms cancelled would fail honest kernels:
 *   signed    around zero
 *   positive  shares of one and their logarithms: nothing saturates, zero stays zero
 *   wide      sums of many terms and losses, of any size: nothing saturates, nothing is inverted
 *   exact     values whose order decides: nothing is rounded */
static const struct {
	const char *class;
	const char *operators; /* names, with commas between */
} CLASSES[] = {
	{"signed",
		"relu,sigmoid,tanh,gelu,silu,elu,leaky_relu,softplus,mish,hardtanh,hardswish,hardsigmoid,softsign,softshrink,"
		"square,abs,neg,sin,cos,clamp,add_c,rsub_c,mul_c,div_c,exp_neg_abs,gauss,log1p_abs,sqrt_abs,recip_abs,erf,"
		"logsigmoid,celu,selu"},
	{"positive", "neg,mul_c,div_c,square,log1p_abs,sin,softsign,leaky_relu,abs"},
	{"wide", "leaky_relu,abs,neg,mul_c,div_c,add_c,sub_c,rsub_c"},
	{"exact", "abs,neg"},
};

static const char *class_operators(struct slice class)
{
	for (size_t i = 0; i < ARRAY_LEN(CLASSES); i++)
		if (slice_is(class, CLASSES[i].class)) return CLASSES[i].operators;
	CHECKF(false, "no class of chains named %.*s", (int)class.len, class.data);
	return NULL;
}

static int words_in(struct slice list, const char *ends)
{
	int n = 0;
	while (list.len) {
		template_word(&list, ends);
		n++;
	}
	return n;
}

static struct slice nth_word(struct slice list, const char *ends, int n)
{
	while (n-- > 0) template_word(&list, ends);
	return template_word(&list, ends);
}

/* One input and a few operators on it, in place; drawn anew until each of
 * them changes something. */
static void chain_draw(const struct family_chain *c, struct rng *r, uint64_t seed, struct task_graph *g)
{
	const char *operators = class_operators(c->class);
	struct slice list = {operators, strlen(operators)};
	char variable[GRAPH_NAME_BYTES];
	int choices = words_in(list, ","), count = c->low + (int)rng_below(r, (uint32_t)(c->high - c->low + 1));
	snprintf(variable, sizeof variable, "%.*s", (int)c->variable.len, c->variable.data);
	for (int attempt = 0; attempt < CHAIN_ATTEMPTS_MAX; attempt++) {
		memset(g, 0, sizeof *g);
		g->family = "chain";
		int dim = graph_dim(g, "N", 256, 256), at = graph_input(g, variable, shape_of(1, &dim));
		for (int i = 0; i < count; i++) {
			const struct op_def *op = op_find(nth_word(list, ",", (int)rng_below(r, (uint32_t)choices)));
			at = graph_op_draw(g, r, op, at);
			memcpy(g->nodes[at].name, variable, sizeof variable);
		}
		if (count == 0 || graph_is_sound(g, seed)) return;
	}
	CHECKF(false, "no sound chain of %d operators", count);
}

void family_compose(const struct family *f, uint64_t seed, struct family_task *out)
{
	struct rng r = {.seed = seed, .stream = 0x66616d696c79};
	double product = 1.0, wanted = pow(2.0, ELEMENTS_LOG2_MIN + ELEMENTS_LOG2_SPAN * (double)rng_next_uniform(&r));
	*out = (struct family_task){.family = f};
	/* The size that fills comes last, since it follows from the others. */
	for (int fill = 0; fill < 2; fill++)
		for (int i = 0; i < f->ndims; i++) {
			const struct family_dim *d = &f->dims[i];
			if ((d->low == 0) != fill) continue;
			out->sizes[i] = fill ? MAX(2, (int)(wanted / product)) : size_draw(&r, d->low, d->high);
			product *= out->sizes[i];
		}
	for (int i = 0; i < f->npicks; i++) out->rows[i] = (int)rng_below(&r, (uint32_t)f->picks[i].nrows);
	for (int i = 0; i < f->nconsts; i++) {
		struct slice values = f->consts[i].values;
		out->consts[i] = nth_word(values, " ", (int)rng_below(&r, (uint32_t)words_in(values, " ")));
	}
	for (int i = 0; i < f->nchains; i++) chain_draw(&f->chains[i], &r, seed, &out->chains[i]);
}

/* ---- expanding ---- */

struct expansion {
	const struct family_task *task;
	const struct family_answer *answer; /* NULL: the reference is printed */
	int number;                         /* of the style */
};

bool family_is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static struct slice name_at(const char *p, const char *end)
{
	const char *q = p;
	while (q < end && family_is_name_byte(*q)) q++;
	return (struct slice){p, (size_t)(q - p)};
}

static void put(struct str *out, struct slice s) { str_append(out, s.data, s.len); }

static int dim_find(const struct family *f, struct slice name)
{
	for (int i = 0; i < f->ndims; i++)
		if (slice_same(f->dims[i].name, name)) return i;
	return -1;
}

static void expand(const struct expansion *e, struct slice text, struct str *out);

/* $name or $name.field. */
static void value_print(const struct expansion *e, struct slice name, struct slice field, struct str *out)
{
	const struct family *f = e->task->family;
	/* A size; a constant; in an answer, a tuned value; a row of a pick. */
	int dim = dim_find(f, name);
	if (dim >= 0) {
		str_printf(out, "%d", e->task->sizes[dim]);
		return;
	}
	for (int i = 0; i < f->nconsts; i++)
		if (slice_same(f->consts[i].name, name)) {
			put(out, e->task->consts[i]);
			return;
		}
	for (int i = 0; e->answer && i < e->answer->ntunes; i++)
		if (slice_same(e->answer->tunes[i].name, name)) {
			struct slice values = e->answer->tunes[i].values;
			put(out, nth_word(values, " ", e->number % words_in(values, " ")));
			return;
		}
	for (int i = 0; i < f->npicks; i++) {
		const struct family_pick *p = &f->picks[i];
		if (!slice_same(p->name, name)) continue;
		int at = 0;
		while (field.len && at < p->nfields && !slice_same(p->fields[at], field)) at++;
		CHECKF(at < p->nfields, "family %.*s: no field %.*s of %.*s", (int)f->name.len, f->name.data, (int)field.len,
			field.data, (int)name.len, name.data);
		/* Texts of rows may name constants and other picks in turn. */
		expand(e, nth_word(p->rows[e->task->rows[i]], "|", field.len ? at + 1 : 0), out);
		return;
	}
	CHECKF(false, "family %.*s: nothing is named %.*s", (int)f->name.len, f->name.data, (int)name.len, name.data);
}

/* The operators of a chain, one statement a line, behind the indentation of the line that named it.
 */
static void chain_print(const struct expansion *e, struct slice indent, struct slice name, struct str *out)
{
	const struct family *f = e->task->family;
	int c = 0;
	while (c < f->nchains && !slice_same(f->chains[c].name, name)) c++;
	CHECKF(c < f->nchains, "family %.*s: no chain %.*s", (int)f->name.len, f->name.data, (int)name.len, name.data);
	const struct task_graph *g = &e->task->chains[c];
	for (int i = 1; i < g->count; i++) {
		const struct node *n = &g->nodes[i];
		put(out, indent);
		str_printf(out, "%s = ", n->name);
		/* A reference takes torch's spelling (no mask), an answer Triton's. */
		template_expand(out, e->answer ? n->op->triton : n->op->torch[n->spelling], g, i, e->answer ? "" : NULL);
		str_putc(out, '\n');
	}
}

/* The constructor, where it takes anything: sizes and constants, in small letters. */
static void init_print(const struct expansion *e, struct str *out)
{
	struct str names = {0};
	expand(e, e->task->family->init, &names);
	for (char *c = names.data; c && *c; c++)
		if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
	if (names.len) {
		str_printf(out, "    def __init__(self, %s):\n        super().__init__()\n", names.data);
		expand(e, e->task->family->params, out);
		str_putc(out, '\n');
	}
	str_release(&names);
}

/* What the constructor is given: sizes by their names, constants by their values. */
static void init_values(const struct expansion *e, struct str *out)
{
	const struct family *f = e->task->family;
	struct str names = {0};
	expand(e, f->init, &names);
	struct slice rest = {names.data, names.len};
	for (int n = 0; rest.len; n++) {
		struct slice name = template_word(&rest, ",");
		for (int i = 0; i < f->nconsts; i++)
			if (slice_same(f->consts[i].name, name)) name = e->task->consts[i];
		str_printf(out, "%s%.*s", n ? ", " : "", (int)name.len, name.data);
	}
	str_release(&names);
}

static void method_print(const struct expansion *e, struct str *out)
{
	init_print(e, out);
	str_puts(out, "    def forward(self, ");
	expand(e, e->task->family->args, out);
	str_puts(out, "):\n");
}

/* A line that begins with @ stands for a chain, or for the head of ModelNew. */
static void at_line(const struct expansion *e, struct slice indent, struct slice name, struct str *out)
{
	if (!slice_is(name, "model")) {
		chain_print(e, indent, name, out);
		return;
	}
	str_puts(out, "class ModelNew(nn.Module):\n");
	/* Parameters are the task's own, so their text knows no tuned values. */
	method_print(e, out);
}

static void expand(const struct expansion *e, struct slice text, struct str *out)
{
	const char *p = text.data, *end = text.data + text.len;
	bool at_start = true;
	while (p < end) {
		const char *q = p;
		while (at_start && q < end && *q == ' ') q++;
		struct slice name = q + 1 < end && *q == '@' ? name_at(q + 1, end) : (struct slice){0};
		/* At the left edge stand Python's own decorators, and the head of the model. */
		if (at_start && name.len && (q > p || slice_is(name, "model"))) {
			at_line(e, (struct slice){p, (size_t)(q - p)}, name, out);
			p = name.data + name.len + 1;
			continue;
		}
		/* A value. What follows it on the line is no left edge any more. */
		if (*p == '$') {
			struct slice field = {0};
			name = name_at(p + 1, end);
			p = name.data + name.len;
			if (p + 1 < end && *p == '.' && family_is_name_byte(p[1])) {
				field = name_at(p + 1, end);
				p = field.data + field.len;
			}
			value_print(e, name, field, out);
			at_start = false;
			continue;
		}
		/* Everything else is Python and copied. */
		at_start = *p == '\n';
		str_putc(out, *p++);
	}
}

/* ---- the reference ---- */

/* Lines of blanks alone, which an empty text left, and empty lines at the end. */
static void blank_lines_cut(struct str *s)
{
	size_t kept = 0;
	for (size_t i = 0, next; i < s->len; i = next) {
		const char *end = memchr(s->data + i, '\n', s->len - i);
		next = end ? (size_t)(end - s->data) + 1 : s->len;
		size_t blanks = strspn(s->data + i, " ");
		if (blanks && s->data[i + blanks] == '\n') continue;
		memmove(s->data + kept, s->data + i, next - i);
		kept += next - i;
	}
	s->len = kept;
	s->data[kept] = 0;
	while (s->len > 1 && s->data[s->len - 1] == '\n' && s->data[s->len - 2] == '\n') s->data[--s->len] = 0;
}

/* The task as a module: sizes as constants, Model, what forward and its constructor are given, and
 * the smaller sizes at which values are judged. */
void family_source(const struct family_task *t, struct str *out)
{
	const struct family *f = t->family;
	struct expansion e = {.task = t};
	str_puts(out, "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n");
	for (int i = 0; i < f->ndims; i++)
		str_printf(out, "%.*s = %d\n", (int)f->dims[i].name.len, f->dims[i].name.data, t->sizes[i]);
	str_puts(out, "\nclass Model(nn.Module):\n");
	method_print(&e, out);
	expand(&e, f->forward, out);
	blank_lines_cut(out);
	str_puts(out, "\ndef get_inputs():\n    return [");
	expand(&e, f->inputs, out);
	str_puts(out, "]\n\ndef get_init_inputs():\n    return [");
	init_values(&e, out);
	str_puts(out, "]\n" TASK_JUDGED_AT);
	for (int i = 0; i < f->ndims; i++)
		str_printf(out, "%s%.*s=%d", i ? ", " : "", (int)f->dims[i].name.len, f->dims[i].name.data, f->dims[i].judged);
	str_putc(out, '\n');
}

void family_says(const struct family_task *t, struct str *out)
{
	struct expansion e = {.task = t};
	expand(&e, t->family->words, out);
}

/* "mid_softmax:softmax,pre(relu),post(tanh,mul_c)": rows that were picked, then the chains.
 * Constants and sizes are left out. */
void family_structure(const struct family_task *t, struct str *out)
{
	const struct family *f = t->family;
	int parts = 0;
	put(out, f->name);
	for (int i = 0; i < f->npicks; i++) {
		str_putc(out, parts++ ? ',' : ':');
		put(out, nth_word(f->picks[i].rows[t->rows[i]], "|", 0));
	}
	for (int i = 0; i < f->nchains; i++) {
		const struct task_graph *g = &t->chains[i];
		if (g->count < 2) continue;
		str_putc(out, parts++ ? ',' : ':');
		put(out, f->chains[i].name);
		for (int n = 1; n < g->count; n++) str_printf(out, "%c%s", n == 1 ? '(' : ',', g->nodes[n].op->name);
		str_putc(out, ')');
	}
	if (!parts) str_puts(out, ":plain");
}

/* ---- answers ---- */

/* A product of sizes, "ROWS*COLS". */
static double product_of(const struct family_task *t, struct slice names)
{
	double v = 1.0;
	while (names.len) {
		struct slice name = template_word(&names, "*");
		int dim = dim_find(t->family, name);
		CHECKF(dim >= 0, "family %.*s: no size %.*s", (int)t->family->name.len, t->family->name.data, (int)name.len,
			name.data);
		v *= t->sizes[dim];
	}
	return v;
}

/* "COLS <= 4096 and ROWS*COLS > 2". */
static bool holds(const struct family_task *t, struct slice when)
{
	bool all = true;
	while (when.len) {
		double left = product_of(t, template_word(&when, " "));
		struct slice op = template_word(&when, " "), bound = template_word(&when, " ");
		char text[32];
		snprintf(text, sizeof text, "%.*s", (int)bound.len, bound.data);
		double right = atof(text);
		all &= slice_is(op, "<=") ? left <= right
			: slice_is(op, ">=")  ? left >= right
			: slice_is(op, "<")   ? left < right
								  : left > right;
		if (when.len) template_word(&when, " "); /* "and" */
	}
	return all;
}

/* The first whose condition holds; where none does, the first without one. */
static int best_answer(const struct family_task *t)
{
	const struct family *f = t->family;
	for (int i = 0; i < f->nanswers; i++)
		if (f->answers[i].when.len && holds(t, f->answers[i].when)) return i;
	for (int i = 0; i < f->nanswers; i++)
		if (!f->answers[i].when.len) return i;
	return 0;
}

const struct family_answer *family_choice(const struct family_task *t, int choice)
{
	const struct family *f = t->family;
	int best = best_answer(t);
	if (choice < 0 || choice >= f->nanswers) return NULL;
	if (choice == 0) return &f->answers[best];
	return &f->answers[choice - 1 < best ? choice - 1 : choice];
}

static void chain_words(const struct task_graph *g, const char *lead, struct str *out)
{
	for (int i = 1; i < g->count; i++) str_printf(out, "%s%s", i == 1 ? lead : ", ", g->nodes[i].op->words);
	if (g->count > 1) str_putc(out, '.');
}

void family_plan(const struct family_task *t, int number, int choice, struct str *out)
{
	struct expansion e = {.task = t, .answer = family_choice(t, choice), .number = number};
	const struct family *f = t->family;
	family_says(t, out);
	str_puts(out, ": ");
	expand(&e, e.answer->plan, out);
	/* Why an answer is best is said where it is. */
	if (choice == 0 && e.answer->because.len) {
		str_putc(out, ' ');
		expand(&e, e.answer->because, out);
	}
	for (int i = 0; i < f->nchains; i++)
		chain_words(&t->chains[i],
			slice_is(f->chains[i].name, "pre") ? " First, in registers: " : " Then, in registers: ", out);
}

/* Spells identifiers anew by style: offs, ok, BLOCK, out, and pointers. */
static void identifier_print(struct slice name, const struct answer_style *style, struct str *out)
{
	const struct {
		const char *from; /* in the template */
		const char *to;
	} RENAMES[] = {{"offs", style->offs}, {"ok", style->mask}, {"BLOCK", style->block}, {"out", style->out}};
	for (size_t i = 0; i < ARRAY_LEN(RENAMES); i++)
		if (slice_is(name, RENAMES[i].from)) {
			str_puts(out, RENAMES[i].to);
			return;
		}
	if (name.len > 4 && !memcmp(name.data + name.len - 4, "_ptr", 4)) {
		char base[GRAPH_NAME_BYTES];
		snprintf(base, sizeof base, "%.*s", (int)name.len - 4, name.data);
		style_pointer(style, base, out);
	} else put(out, name);
}

void family_code(const struct family_task *t, const struct answer_style *style, int number, int choice, struct str *out)
{
	struct expansion e = {.task = t, .answer = family_choice(t, choice), .number = number};
	struct str text = {0};
	expand(&e, e.answer->code, &text);
	blank_lines_cut(&text);
	for (size_t i = 0; i < text.len;) {
		struct slice name = name_at(text.data + i, text.data + text.len);
		if (name.len && (i == 0 || text.data[i - 1] != '.')) identifier_print(name, style, out);
		else if (name.len) put(out, name);
		else str_putc(out, text.data[i]);
		i += name.len ? name.len : 1;
	}
	str_release(&text);
}
