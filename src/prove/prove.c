/* Rounds of a proof: leaves, both sides, and what they agree in. */
#include "prove/prove.h"
#include "base/base.h"
#include "base/dtype.h"
#include "field/field.h"
#include "prove/prove_internal.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define ROUNDS_MAX 32
#define AGREEMENTS 2          /* rounds that count for each element of an output */
#define FIELD_SIZE 0x1p29     /* both primes are larger */
#define BOUND_MAX 1e-6        /* a larger chance proves nothing */

const char *prove_answer_name(enum prove_answer a)
{
#define X(id, text) text,
	static const char *const names[] = {PROVE_ANSWER_TABLE(X)};
#undef X
	return names[a];
}

/* ---- leaves ---- */

static int leaf_make(const struct prove_draw *d, const struct prove_memory *m, int64_t fixed, struct field *f,
	struct prove_leaf *out, int64_t *room, struct err *err)
{
	enum dtype dtype;
	*out = (struct prove_leaf){.memory = *m};
	if (dtype_from_name(m->dtype, &dtype))
		return err_set(err, ERR_FORMAT, "the reference has a tensor of %.40s", m->dtype);
	out->is_float = dtype_is_float(dtype);
	out->count = m->bytes / (int64_t)dtype_bytes(dtype);
	if (!out->is_float) return 0;
	/* Several leaves may name one memory: what counts is how much they take together. */
	*room -= out->count * (int64_t)sizeof *out->values;
	if (*room < 0)
		return err_set(err, ERR_LIMIT, "inputs and parameters need more than %lld MiB of exact values",
			(long long)(PROVE_BYTES_MAX >> 20));
	if (fixed >= 0 && out->count > d->table_bytes - fixed)
		return err_set(err, ERR_FORMAT, "the table of an input's constants is not there");
	out->values = xmalloc(size_mul((size_t)out->count + 1, sizeof *out->values));
	for (int64_t i = 0; i < out->count; i++) {
		double x = dtype_load(dtype, d->given + m->offset, i);
		out->values[i] = fixed >= 0 && d->tables[fixed + i] ? field_constant(f, x, 24) : field_input(f, x);
	}
	return 0;
}

static int memory_read(
	const struct prove_draw *d, const json_t *o, bool is_param, struct prove_memory *out, struct err *err)
{
	int rc = is_param ? json_get_str(o, "parameter", "name", &out->name, err) : 0;
	if (!rc) rc = json_get_str(o, "memory", "dtype", &out->dtype, err);
	if (!rc) rc = json_get_int(o, "memory", "offset", 0, d->given_bytes, &out->offset, err);
	if (!rc) rc = json_get_int(o, "memory", "bytes", 0, d->given_bytes - (rc ? 0 : out->offset), &out->bytes, err);
	return rc;
}

/* Where the table of an input's constant elements lies, by the step that
 * reads the input; -1: none. */
static int64_t fixed_of(const struct prove_draw *d, size_t index)
{
	size_t i;
	json_t *n;
	json_array_foreach(json_object_get(d->graph, "nodes"), i, n)
	{
		const char *kind = json_string_value(json_object_get(n, "kind"));
		json_int_t at = json_integer_value(json_object_get(n, "fixed"));
		if (kind && !strcmp(kind, "input") && json_integer_value(json_object_get(n, "index")) == (json_int_t)index)
			return at < 0 || at > d->table_bytes ? -1 : at;
	}
	return -1;
}

/* A parameter of two names lies in one place, and has one value. */
static void share_tied(struct prove_leaf *params, int at)
{
	struct prove_leaf *l = &params[at];
	for (int p = 0; p < at && l->is_float && l->count; p++)
		if (params[p].is_float && params[p].count == l->count && params[p].memory.offset == l->memory.offset &&
			!strcmp(params[p].memory.dtype, l->memory.dtype)) {
			memcpy(l->values, params[p].values, (size_t)l->count * sizeof *l->values);
			return;
		}
}

static int list_make(const struct prove_draw *d, const json_t *list, bool is_param, struct field *f,
	struct prove_leaf **out, int *count, int64_t *room, struct err *err)
{
	size_t n = json_array_size(list);
	int rc = json_is_array(list) && n <= TAPE_BUFFERS_MAX
		? 0
		: err_set(err, ERR_FORMAT, "the reference has %zu inputs or parameters", n);
	if (rc) return rc;
	*out = xcalloc(n + 1, sizeof **out);
	for (size_t i = 0; i < n && !rc; i++) {
		struct prove_memory m = {.name = NULL};
		rc = memory_read(d, json_array_get(list, i), is_param, &m, err);
		if (!rc) rc = leaf_make(d, &m, is_param ? -1 : fixed_of(d, i), f, &(*out)[i], room, err);
		if (!rc && is_param) share_tied(*out, (int)i);
		*count = (int)i + 1;
	}
	return rc;
}

static int leaves_make(const struct prove_draw *d, struct field *f, struct prove_leaves *out, struct err *err)
{
	int64_t room = PROVE_BYTES_MAX;
	*out = (struct prove_leaves){.ninputs = 0};
	int rc = list_make(d, json_object_get(d->graph, "inputs"), false, f, &out->inputs, &out->ninputs, &room, err);
	return rc ? rc
			  : list_make(d, json_object_get(d->graph, "params"), true, f, &out->params, &out->nparams, &room, err);
}

static void leaves_release(struct prove_leaves *l)
{
	for (int i = 0; i < l->ninputs; i++) free(l->inputs[i].values);
	for (int i = 0; i < l->nparams; i++) free(l->params[i].values);
	free(l->inputs);
	free(l->params);
	*l = (struct prove_leaves){.ninputs = 0};
}

static void outputs_release(struct prove_outputs *o)
{
	for (int i = 0; i < TAPE_OUTPUTS_MAX; i++) {
		free(o->outputs[i].values);
		free(o->outputs[i].ints);
	}
	*o = (struct prove_outputs){.n = 0};
}

/* ---- what two sides agree in ---- */

struct proof {
	struct prove_result *out;
	uint8_t *agreed[TAPE_OUTPUTS_MAX]; /* rounds that count, of each element */
	bool is_settled;
};

static void shape_text(const struct prove_output *o, struct str *out)
{
	str_printf(out, "%s[", o->dtype);
	for (int d = 0; d < o->ndim; d++) str_printf(out, "%s%lld", d ? ", " : "", (long long)o->shape[d]);
	str_putc(out, ']');
}

static void settle(struct proof *p, enum prove_answer a, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void settle(struct proof *p, enum prove_answer a, int line, const char *fmt, ...)
{
	va_list ap;
	p->is_settled = true;
	p->out->answer = a;
	p->out->line = line;
	va_start(ap, fmt);
	vsnprintf(p->out->text, sizeof p->out->text, fmt, ap);
	va_end(ap);
	text_make_printable(p->out->text);
}

static bool shapes_agree(struct proof *p, const struct prove_outputs *want, const struct prove_outputs *found)
{
	if (want->n != found->n)
		settle(p, PROVE_NOT_PROVED, 0, "the candidate returns %d %s, the reference %d", found->n,
			plural(found->n, "tensor", "tensors"), want->n);
	for (int i = 0; i < want->n && !p->is_settled; i++) {
		const struct prove_output *a = &want->outputs[i], *b = &found->outputs[i];
		struct str x = {0}, y = {0};
		shape_text(a, &x);
		shape_text(b, &y);
		if (strcmp(x.data, y.data) || a->is_float != b->is_float || a->count != b->count)
			settle(p, PROVE_NOT_PROVED, 0, "output %d is %s, the reference's is %s", i, y.data, x.data);
		str_release(&x);
		str_release(&y);
	}
	return !p->is_settled;
}

static void float_compare(struct proof *p, const struct field *f, int i, const struct prove_output *a,
	const struct prove_output *b, int64_t k)
{
	const struct field_value *x = &a->values[k], *y = &b->values[k];
	char place[160];
	switch (field_agree(x, y)) {
	/* A draw in which a root was taken of no square says nothing about this element. */
	case FIELD_SILENT: return;
	/* One agreement more. The sum of both degrees bounds that of their difference, and so the
	 * chance that unequal ones agree; behind an exponential, a logarithm, a root or a random
	 * function there is no such bound. */
	case FIELD_SAME: {
		struct prove_result *r = p->out;
		p->agreed[i][k] = (uint8_t)MIN(p->agreed[i][k] + 1, AGREEMENTS);
		r->degree = fmax(r->degree, (double)x->degree + (double)y->degree);
		if ((x->flags | y->flags) & (FIELD_EXP | FIELD_BEYOND)) r->is_theorem = false;
		return;
	}
	/* A value without a residue can be compared with nothing: the proof ends and names the
	 * operation that lost it. */
	case FIELD_NOTHING:
		settle(p, PROVE_OUTSIDE, 0,
			"'%s' of a value without the residue that it needs (two exponentials, or two logarithms, one upon the "
			"other)",
			f->lost ? f->lost : "an operation");
		return;
	default: break;
	}
	/* They differ at a random point, so they are no equal expressions. */
	tape_index_text(a->ndim, a->shape, k, place, sizeof place);
	settle(p, PROVE_NOT_PROVED, 0,
		"output %d at %s is another expression: about %.9g there, the reference's about %.9g", i, place,
		(y->lo + y->hi) / 2, (x->lo + x->hi) / 2);
}

/* Whether one more round may be needed. */
static bool outputs_compare(
	struct proof *p, const struct field *f, const struct prove_outputs *want, const struct prove_outputs *found)
{
	bool is_open = false;
	if (!shapes_agree(p, want, found)) return false;
	p->out->elements = 0;
	for (int i = 0; i < want->n && !p->is_settled; i++) {
		/* How often each element agreed is kept over the rounds: some points are silent about some
		 * elements, and AGREEMENTS points have to speak about each. */
		const struct prove_output *a = &want->outputs[i], *b = &found->outputs[i];
		if (!p->agreed[i]) p->agreed[i] = xcalloc((size_t)a->count + 1, 1);
		p->out->elements += a->count;
		p->out->is_floating |= a->is_float;
		for (int64_t k = 0; k < a->count && !p->is_settled; k++) {
			/* Floats are compared as expressions; integers are computed exactly on both sides, so
			 * that equal is equal. */
			char place[160];
			if (a->is_float) {
				float_compare(p, f, i, a, b, k);
			} else if (a->ints[k] == b->ints[k]) {
				p->agreed[i][k] = (uint8_t)MIN(p->agreed[i][k] + 1, AGREEMENTS);
			} else {
				tape_index_text(a->ndim, a->shape, k, place, sizeof place);
				settle(p, PROVE_NOT_PROVED, 0, "output %d at %s is %lld, the reference's %lld", i, place,
					(long long)b->ints[k], (long long)a->ints[k]);
			}
			is_open |= p->agreed[i][k] < AGREEMENTS;
		}
	}
	return is_open;
}

/* ---- rounds ---- */

static void settle_stop(struct proof *p, const struct prove_stop *s)
{
	if (s->end == PROVE_UNDECIDED) p->out->undecided++;
	else settle(p, s->end == PROVE_LEFT ? PROVE_OUTSIDE : PROVE_NOT_PROVED, s->line, "%s", s->text);
}

/* One round at one real point. 0 or a negative code; *is_open: some element needs another. */
static int round_run(struct proof *p, struct tape_side *side, const struct prove_draw *d, const struct prove_options *o,
	int number, bool *is_open, bool *is_undecided, struct err *err)
{
	struct field *f = xmalloc(sizeof *f);
	struct prove_leaves leaves;
	struct prove_outputs *want = xcalloc(1, sizeof *want), *found = xcalloc(1, sizeof *found);
	struct prove_stop stop = {.end = PROVE_DONE};
	/* New primes and residues; then the reference, the tape, and what they agree in. */
	field_init(f, o->seed + (uint64_t)number);
	int rc = leaves_make(d, f, &leaves, err);
	if (!rc) rc = graph_run(d, f, &leaves, o->deadline_ns, want, &stop, err);
	if (!rc) rc = tape_side_run(side, d, f, &leaves, o, found, &stop);
	if (!rc) {
		*is_open = outputs_compare(p, f, want, found);
		p->out->rounds++;
	}
	/* A side that stopped settles the answer, unless it only wants another point. */
	*is_undecided = rc == 1 && stop.end == PROVE_UNDECIDED;
	if (rc == 1) {
		settle_stop(p, &stop);
		if (*is_undecided) snprintf(p->out->text, sizeof p->out->text, "%s", stop.text);
		rc = 0;
	}
	leaves_release(&leaves);
	outputs_release(want);
	outputs_release(found);
	free(want);
	free(found);
	field_release(f);
	free(f);
	return rc;
}

static void sides_take(struct prove_result *out, const struct vm_exact_report *r)
{
	static const char *const names[] = {"less", "equal", "greater", "unordered"};
	for (int i = 0; i < r->nsides && out->nsides < PROVE_SIDES_MAX; i++) {
		unsigned o = r->sides[i].orders;
		if ((o & 1) && (o & 4)) continue; /* both ways */
		struct prove_side *s = &out->sides[out->nsides++];
		*s = (struct prove_side){.line = r->sides[i].line};
		for (int k = 0; k < 4; k++)
			if (o >> k & 1)
				snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), "%s%s", s->text[0] ? ", " : "",
					names[k]);
	}
}

static void settle_proved(struct proof *p, const struct tape *t)
{
	struct str shapes = {0};
	struct prove_result *r = p->out;
	for (int i = 0; i < t->noutputs; i++) {
		const struct tape_view *v = &t->outputs[i];
		str_printf(&shapes, "%s%s[", i ? ", " : "", dtype_name(v->dtype));
		for (int d = 0; d < v->ndim; d++) str_printf(&shapes, "%s%lld", d ? ", " : "", (long long)v->shape[d]);
		str_putc(&shapes, ']');
	}
	r->bound = fmin(1, pow(fmin(1, r->degree / FIELD_SIZE), AGREEMENTS));
	if (r->bound > BOUND_MAX) {
		settle(p, PROVE_NOT_PROVED, 0, "expressions of degree %.3g: different ones agree with a chance of up to %.2g",
			r->degree, r->bound);
		str_release(&shapes);
		return;
	}
	settle(p, PROVE_PROVED, 0, "outputs %.900s", shapes.data ? shapes.data : "");
	str_release(&shapes);
}

int prove_run(const struct tape *t, const struct prove_draw *draws, int ndraws, const struct prove_options *o,
	struct prove_result *out, struct err *err)
{
	uint64_t start = clock_ns();
	*out = (struct prove_result){.answer = PROVE_NOT_PROVED, .is_theorem = true};
	struct proof p = {.out = out};
	struct tape_side *side = NULL;
	struct prove_stop stop = {.end = PROVE_DONE};
	bool usable[PROVE_DRAWS_MAX], is_open = true;
	for (int i = 0; i < ndraws; i++) usable[i] = true;
	int rc = 0, left = ndraws;
	/* The kernels lowered for the exact engine; a tape with one that it does not know ends here. */
	if (tape_side_create(t, &side, &stop)) settle_stop(&p, &stop);
	/* Round after round, at the real points in turn, until each element has agreed often enough and
	 * each point has been looked at. A point where a branch cannot be decided is left out. */
	for (int round = 0; round < ROUNDS_MAX && !rc && !p.is_settled && left && (is_open || round < ndraws); round++) {
		int d = round % ndraws;
		bool is_undecided = false;
		if (!usable[d]) continue;
		rc = round_run(&p, side, &draws[d], o, round, &is_open, &is_undecided, err);
		if (is_undecided) {
			usable[d] = false;
			left--;
		}
	}
	/* What it came to: no usable point, an element that never spoke often enough, or a proof. */
	if (!rc && !p.is_settled && !left) {
		char why[sizeof out->text];
		snprintf(why, sizeof why, "%s", out->text);
		settle(&p, PROVE_NOT_PROVED, 0, "no point of %d decides all branches: %.900s", ndraws, why);
	} else if (!rc && !p.is_settled && is_open) {
		settle(&p, PROVE_NOT_PROVED, 0,
			"some element depends on so many roots that none of %d rounds took all of squares", ROUNDS_MAX);
	} else if (!rc && !p.is_settled) {
		settle_proved(&p, t);
	}
	/* The candidate's lines are worth telling after any end. */
	if (side) sides_take(out, tape_side_report(side));
	tape_side_free(side);
	for (int i = 0; i < TAPE_OUTPUTS_MAX; i++) free(p.agreed[i]);
	out->seconds = (double)(clock_ns() - start) * 1e-9;
	return rc;
}

json_t *prove_result_json(const struct prove_result *r)
{
	json_t *sides = json_array();
	char text[sizeof r->text]; /* may name what a candidate named, cut within a letter: no JSON */
	snprintf(text, sizeof text, "%s", r->text);
	text_make_printable(text);
	for (int i = 0; i < r->nsides; i++)
		json_array_append_new(sides, json_pack("{s:i, s:s}", "line", r->sides[i].line, "orders", r->sides[i].text));
	json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:f, s:o}", "answer", prove_answer_name(r->answer), "text",
		text, "line", r->line, "rounds", r->rounds, "undecided", r->undecided, "elements", (json_int_t)r->elements,
		"seconds", r->seconds, "one_sided", sides);
	if (r->answer == PROVE_PROVED) {
		json_object_set_new(o, "degree", json_real(r->degree));
		json_object_set_new(o, "bound", json_real(r->bound));
		json_object_set_new(o, "guarantee", json_string(r->is_theorem ? "theorem" : "conjecture"));
	}
	return o;
}

int prove_result_parse(const json_t *o, struct prove_result *out, struct err *err)
{
	const char *answer = "", *text = "";
	int64_t line = 0, rounds = 0, undecided = 0;
	*out = (struct prove_result){.answer = PROVE_ANSWER_COUNT};
	int rc = json_get_str(o, "proof", "answer", &answer, err);
	if (!rc) rc = json_get_str(o, "proof", "text", &text, err);
	if (!rc) rc = json_get_int(o, "proof", "line", 0, INT32_MAX, &line, err);
	if (!rc) rc = json_get_int(o, "proof", "rounds", 0, INT32_MAX, &rounds, err);
	if (!rc) rc = json_get_int(o, "proof", "undecided", 0, INT32_MAX, &undecided, err);
	if (!rc) rc = json_get_int(o, "proof", "elements", 0, INT64_MAX, &out->elements, err);
	if (rc) return rc;
	for (int a = 0; a < PROVE_ANSWER_COUNT; a++)
		if (!strcmp(answer, prove_answer_name((enum prove_answer)a))) out->answer = (enum prove_answer)a;
	if (out->answer == PROVE_ANSWER_COUNT) return err_set(err, ERR_FORMAT, "proof: no such answer: %.40s", answer);
	snprintf(out->text, sizeof out->text, "%s", text);
	text_make_printable(out->text);
	out->line = (int)line;
	out->rounds = (int)rounds;
	out->undecided = (int)undecided;
	/* What only a proof has. */
	const char *guarantee = json_string_value(json_object_get(o, "guarantee"));
	out->degree = json_number_value(json_object_get(o, "degree"));
	out->bound = json_number_value(json_object_get(o, "bound"));
	out->is_theorem = guarantee && !strcmp(guarantee, "theorem");
	const json_t *sides = json_object_get(o, "one_sided");
	for (size_t i = 0; i < json_array_size(sides) && out->nsides < PROVE_SIDES_MAX; i++) {
		const json_t *side = json_array_get(sides, i);
		const char *orders = json_string_value(json_object_get(side, "orders"));
		json_int_t at = json_integer_value(json_object_get(side, "line"));
		struct prove_side *to = &out->sides[out->nsides++];
		to->line = at > 0 && at <= INT32_MAX ? (int)at : 0;
		snprintf(to->text, sizeof to->text, "%s", orders ? orders : "");
		text_make_printable(to->text);
	}
	return 0;
}
