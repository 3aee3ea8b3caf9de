/* What each kind of step computes: input, param, number, floats, ints (leaves); take (elements by a
 * table of places), map (element-wise), reduce, scan, order (positions in sorted order), pick
 * (elements of a row by such positions), dot, scatter (sums at places). Each checks its sizes,
 * places and names before it reads an element: the list is hostile. */
#include "base/base.h"
#include "field/field.h"
#include "prove/prove.h"
#include "prove/prove_graph.h"
#include "prove/prove_internal.h"
#include <math.h>
#include <stdlib.h>

/* ---- leaves ---- */

static int copy_leaf(struct graph *g, struct node *n, const struct prove_leaf *l)
{
	if (!l->is_float || l->count != n->count) return graph_bad(g, "a leaf that does not have the memory's elements");
	if (node_room(g, n, true)) return 1;
	memcpy(n->f, l->values, (size_t)n->count * sizeof *n->f);
	return 0;
}

static int step_input(struct graph *g, struct node *n)
{
	int64_t index, fixed;
	int rc = node_number(g, n, "index", 0, MAX(g->leaves->ninputs - 1, 0), &index);
	if (!rc && index >= g->leaves->ninputs) rc = graph_bad(g, "an input that is not there");
	if (!rc) rc = node_number(g, n, "fixed", -1, MAX(g->d->table_bytes - n->count, -1), &fixed);
	if (!rc) rc = copy_leaf(g, n, &g->leaves->inputs[index]);
	return rc;
}

static int step_param(struct graph *g, struct node *n)
{
	const char *name = NULL;
	int rc = json_get_str(n->json, "step", "name", &name, g->err);
	if (rc) return rc;
	for (int p = 0; p < g->leaves->nparams; p++)
		if (!strcmp(g->leaves->params[p].memory.name, name)) return copy_leaf(g, n, &g->leaves->params[p]);
	return graph_bad(g, "a parameter that is not there");
}

static int step_number(struct graph *g, struct node *n)
{
	const json_t *v = json_object_get(n->json, "value");
	int64_t bits;
	int rc = node_number(g, n, "bits", 1, 53, &bits);
	if (rc) return rc;
	if (n->count != 1) return graph_bad(g, "a number of %lld elements", (long long)n->count);
	double x = json_is_string(v) ? strtod(json_string_value(v), NULL) : json_number_value(v);
	if (node_room(g, n, true)) return 1;
	n->f[0] = field_constant(g->field, bits == 24 ? (double)(float)x : x, (int)bits);
	return 0;
}

static const uint8_t *memory_of(struct graph *g, const struct node *n, int64_t count, int64_t size)
{
	int64_t at;
	if (count > g->d->table_bytes / size || node_number(g, n, "at", 0, g->d->table_bytes - count * size, &at)) {
		graph_bad(g, "its table does not lie in the tables' memory");
		return NULL;
	}
	return g->d->tables + at;
}

static int step_constants(struct graph *g, struct node *n)
{
	bool is_float = !strcmp(json_string_value(json_object_get(n->json, "kind")), "floats");
	int64_t bits = 53;
	const uint8_t *from = memory_of(g, n, n->count, 8);
	if (!from || (is_float && node_number(g, n, "bits", 1, 53, &bits))) return ERR_FORMAT;
	if (node_room(g, n, is_float)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		double x;
		memcpy(is_float ? (void *)&x : (void *)&n->i[k], from + k * 8, 8);
		if (is_float) n->f[k] = field_constant(g->field, x, (int)bits);
	}
	return 0;
}

/* ---- take ---- */

/* A take of a take is written out, so that none looks through two tables. */
static int written_out(struct graph *g, struct node *n)
{
	struct node own = *n;
	own.is_take = false;
	own.f = NULL;
	own.i = NULL;
	if (node_room(g, &own, n->is_float)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		const struct node *from = n;
		int64_t place;
		take_look(g, n, k, &from, &place);
		if (n->is_float) own.f[k] = *node_float(g, from, place);
		else own.i[k] = node_int(g, from, place);
	}
	*n = own;
	return 0;
}

int step_take(struct graph *g, struct node *n)
{
	/* How wide a place is written, and the node that stands where the table says -1. */
	int64_t width, fill, total = 0;
	bool is_deep = false;
	int rc = node_number(g, n, "width", 4, 8, &width);
	if (!rc) rc = node_number(g, n, "fill", -1, g->at - 1, &fill);
	if (rc) return rc;
	if (width != 4 && width != 8) return graph_bad(g, "places of %lld bytes", (long long)width);
	if (!n->nsources) return graph_bad(g, "a take of nothing");
	/* Sources count as one row of elements; all are of one kind. */
	n->is_float = node_source(g, n, 0)->is_float;
	for (int s = 0; s < n->nsources; s++) {
		if (node_wants(g, n, s, n->is_float, -1)) return ERR_FORMAT;
		total += node_source(g, n, s)->count;
		is_deep |= node_source(g, n, s)->is_take;
	}
	n->fill = (int)fill;
	if (fill >= 0 && (g->nodes[fill].is_float != n->is_float || g->nodes[fill].count != 1))
		return graph_bad(g, "what fills a take does not fit it");
	n->width = (int)width;
	n->table = memory_of(g, n, n->count, width);
	if (!n->table) return ERR_FORMAT;
	/* every place is looked at once, here */
	for (int64_t k = 0; k < n->count; k++) {
		int64_t p = take_place(n, k);
		if (p >= total || (p < 0 && fill < 0))
			return graph_bad(g, "place %lld of %lld elements", (long long)p, (long long)total);
	}
	/* A view of views would cost a walk at each reading, so that one is written out. */
	n->is_take = true;
	return is_deep || n->nsources > 8 ? written_out(g, n) : graph_spend(g, n->count);
}

/* ---- map ---- */

enum map_form { FORM_FIELD, FORM_COMPARE, FORM_CLASS, FORM_WHERE, FORM_TO_FLOAT, FORM_TO_INT, FORM_INTS };
enum { LT = 1, EQ = 2, GT = 4, UN = 8 };
static const struct {
	const char *name;
	enum map_form form;
	int value; /* orders of a comparison; which class; which operation on integers */
	int nsources;
} forms[] = {
	{"lt", FORM_COMPARE, LT, 2},
	{"le", FORM_COMPARE, LT | EQ, 2},
	{"gt", FORM_COMPARE, GT, 2},
	{"ge", FORM_COMPARE, GT | EQ, 2},
	{"eq", FORM_COMPARE, EQ, 2},
	{"ne", FORM_COMPARE, LT | GT | UN, 2},
	{"isnan", FORM_CLASS, 0, 1},
	{"isinf", FORM_CLASS, 1, 1},
	{"isfinite", FORM_CLASS, 2, 1},
	{"where", FORM_WHERE, 0, 3},
	{"to_float", FORM_TO_FLOAT, 0, 1},
	{"to_int", FORM_TO_INT, 0, 1},
	{"and", FORM_INTS, '&', 2},
	{"or", FORM_INTS, '|', 2},
	{"xor", FORM_INTS, '^', 2},
	{"not", FORM_INTS, '!', 1},
	{"int add", FORM_INTS, '+', 2},
	{"int sub", FORM_INTS, '-', 2},
	{"int mul", FORM_INTS, '*', 2},
	{"int lt", FORM_INTS, '<', 2},
	{"int le", FORM_INTS, 'l', 2},
	{"int gt", FORM_INTS, '>', 2},
	{"int ge", FORM_INTS, 'g', 2},
	{"int eq", FORM_INTS, '=', 2},
	{"int ne", FORM_INTS, 'n', 2},
};

static int64_t on_integers(int op, int64_t a, int64_t b)
{
	switch (op) {
	case '&': return a & b;
	case '|': return a | b;
	case '^': return a ^ b;
	case '!': return !a;
	case '+': return (int64_t)((uint64_t)a + (uint64_t)b);
	case '-': return (int64_t)((uint64_t)a - (uint64_t)b);
	case '*': return (int64_t)((uint64_t)a * (uint64_t)b);
	case '<': return a < b;
	case 'l': return a <= b;
	case '>': return a > b;
	case 'g': return a >= b;
	case '=': return a == b;
	default: return a != b;
	}
}

static int to_int(struct graph *g, const struct field_value *a, int64_t *out)
{
	double lo = trunc(a->lo), hi = trunc(a->hi);
	if (field_is_nan(a) || field_is_infinite(a) || fabs(lo) >= 0x1p63)
		return prove_stop_at(g->stop, PROVE_LEFT, 0, "the reference: a float as an integer that cannot hold it");
	if (lo != hi) return graph_undecided(g, "a rounding to an integer");
	*out = (int64_t)lo;
	return 0;
}

static int map_floats(struct graph *g, struct node *n, enum field_op op)
{
	int operands = field_op_operands(op);
	for (int s = 0; s < operands; s++)
		if (node_wants(g, n, s, true, n->count)) return ERR_FORMAT;
	if (node_room(g, n, true)) return 1;
	const struct node *a = node_source(g, n, 0), *b = operands > 1 ? node_source(g, n, 1) : NULL;
	for (int64_t k = 0; k < n->count; k++) {
		if (graph_spend(g, 4)) return 1;
		if (field_apply(g->field, op, node_float(g, a, k), b ? node_float(g, b, k) : NULL, &n->f[k]))
			return graph_undecided(g, field_op_name(op));
	}
	return 0;
}

/* One element of a map that is no operation of the field room. */
static int map_one(struct graph *g, struct node *n, size_t form, int64_t k)
{
	static const int orders[] = {[FIELD_LESS] = LT, [FIELD_EQUAL] = EQ, [FIELD_GREATER] = GT, [FIELD_UNORDERED] = UN};
	const struct node *a = node_source(g, n, 0), *b = n->nsources > 1 ? node_source(g, n, 1) : NULL;
	const struct field_value *x;
	enum field_order order;
	/* map_check has seen to it that each form's sources are of its kinds. */
	switch (forms[form].form) {
	case FORM_COMPARE:
		order = field_compare(node_float(g, a, k), node_float(g, b, k));
		if (order == FIELD_UNDECIDED) return graph_undecided(g, "a comparison");
		n->i[k] = (forms[form].value & orders[order]) != 0;
		return 0;
	case FORM_CLASS:
		x = node_float(g, a, k);
		n->i[k] = forms[form].value == 0 ? field_is_nan(x)
			: forms[form].value == 1     ? field_is_infinite(x)
										 : !field_is_nan(x) && !field_is_infinite(x);
		return 0;
	case FORM_WHERE:
		if (n->is_float) n->f[k] = *node_float(g, node_source(g, n, node_int(g, a, k) ? 1 : 2), k);
		else n->i[k] = node_int(g, node_source(g, n, node_int(g, a, k) ? 1 : 2), k);
		return 0;
	case FORM_TO_FLOAT:
		n->f[k] = a->is_float ? *node_float(g, a, k) : field_integer(g->field, node_int(g, a, k));
		return 0;
	case FORM_TO_INT: return to_int(g, node_float(g, a, k), &n->i[k]);
	default: n->i[k] = on_integers(forms[form].value, node_int(g, a, k), b ? node_int(g, b, k) : 0); return 0;
	}
}

/* Which kinds of sources each form has; the result's kind. */
static int map_check(struct graph *g, struct node *n, size_t form, bool *is_float)
{
	enum map_form f = forms[form].form;
	if (n->nsources != forms[form].nsources) return graph_bad(g, "%d sources for '%s'", n->nsources, forms[form].name);
	for (int s = 0; s < n->nsources; s++) {
		bool wanted = f == FORM_COMPARE || f == FORM_CLASS || f == FORM_TO_INT ||
			(f == FORM_TO_FLOAT && node_source(g, n, 0)->is_float) ||
			(f == FORM_WHERE && s && node_source(g, n, 1)->is_float);
		if (node_wants(g, n, s, wanted, n->count)) return ERR_FORMAT;
	}
	*is_float = f == FORM_TO_FLOAT || (f == FORM_WHERE && node_source(g, n, 1)->is_float);
	return 0;
}

static int step_map(struct graph *g, struct node *n)
{
	const char *op = NULL;
	bool is_float = false;
	int rc = json_get_str(n->json, "step", "op", &op, g->err);
	if (rc) return rc;
	for (int f = 0; f < FIELD_OP_COUNT; f++)
		if (!strcmp(field_op_name((enum field_op)f), op)) return map_floats(g, n, (enum field_op)f);
	size_t form = 0;
	while (form < ARRAY_LEN(forms) && strcmp(forms[form].name, op)) form++;
	if (form == ARRAY_LEN(forms)) return graph_bad(g, "an operation '%.40s' that is not known", op);
	rc = map_check(g, n, form, &is_float);
	if (!rc) rc = node_room(g, n, is_float);
	for (int64_t k = 0; k < n->count && !rc; k++) {
		rc = graph_spend(g, 1);
		if (!rc) rc = map_one(g, n, form, k);
	}
	return rc;
}

/* ---- rows ---- */

/* Rows of the source: `length` elements each; all but pick have one for each
 * result or for each row. */
static int rows_of(struct graph *g, const struct node *n, int64_t *length)
{
	int rc = node_number(g, n, "length", 0, PROVE_ELEMENTS_MAX, length);
	if (!rc && n->nsources < 1) rc = graph_bad(g, "no source");
	return rc;
}

static const struct {
	const char *name;
	enum field_op op;
	bool is_position;   /* the result is where, not what */
	bool wants_greater; /* of the compared: the larger one */
} folds[] = {
	{"sum", FIELD_ADD, false, false},
	{"prod", FIELD_MUL, false, false},
	{"max", FIELD_MAX, false, true},
	{"min", FIELD_MIN, false, false},
	{"argmax", FIELD_MAX, true, true},
	{"argmin", FIELD_MIN, true, false},
};

static int fold_of(struct graph *g, const struct node *n, size_t *out)
{
	const char *op = NULL;
	int rc = json_get_str(n->json, "step", "op", &op, g->err);
	if (rc) return rc;
	for (*out = 0; *out < ARRAY_LEN(folds); ++*out)
		if (!strcmp(folds[*out].name, op)) return 0;
	return 0;
}

/* The first position of the largest, or least, element of a row. */
static int position_of(
	struct graph *g, const struct node *a, int64_t first, int64_t length, bool wants_greater, int64_t *out)
{
	int64_t best = 0;
	for (int64_t l = 1; l < length; l++) {
		enum field_order order = field_compare(node_float(g, a, first + l), node_float(g, a, first + best));
		if (order == FIELD_UNDECIDED) return graph_undecided(g, "the place of a maximum");
		if (order == (wants_greater ? FIELD_GREATER : FIELD_LESS)) best = l;
	}
	*out = best;
	return 0;
}

static int reduce_floats(struct graph *g, struct node *n, size_t fold, int64_t length)
{
	const struct node *a = node_source(g, n, 0);
	bool is_position = folds[fold].is_position;
	if (!length && fold > 1) return graph_bad(g, "a maximum of nothing");
	if (node_room(g, n, !is_position)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		if (graph_spend(g, 2 * length + 1)) return 1;
		if (is_position) {
			if (position_of(g, a, k * length, length, folds[fold].wants_greater, &n->i[k])) return 1;
			continue;
		}
		struct field_value r = length ? *node_float(g, a, k * length) : field_integer(g->field, fold == 1);
		for (int64_t l = 1; l < length; l++)
			if (field_apply(g->field, folds[fold].op, &r, node_float(g, a, k * length + l), &r))
				return graph_undecided(g, folds[fold].name);
		n->f[k] = r;
	}
	return 0;
}

static int reduce_integers(struct graph *g, struct node *n, int64_t length)
{
	const char *op = json_string_value(json_object_get(n->json, "op"));
	bool is_any = !strcmp(op, "any"), is_all = !strcmp(op, "all");
	if (!is_any && !is_all && strcmp(op, "int sum")) return graph_bad(g, "a reduction '%.40s' of integers", op);
	if (node_room(g, n, false)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		int64_t r = is_all;
		if (graph_spend(g, length + 1)) return 1;
		for (int64_t l = 0; l < length; l++) {
			int64_t x = node_int(g, node_source(g, n, 0), k * length + l);
			r = is_any ? r || x : is_all ? r && x : (int64_t)((uint64_t)r + (uint64_t)x);
		}
		n->i[k] = r;
	}
	return 0;
}

static int step_reduce(struct graph *g, struct node *n)
{
	int64_t length;
	size_t fold;
	int rc = rows_of(g, n, &length);
	if (!rc) rc = fold_of(g, n, &fold);
	if (rc) return rc;
	const struct node *a = node_source(g, n, 0);
	if (length && (n->count > PROVE_ELEMENTS_MAX / length || a->count != n->count * length))
		return graph_bad(g, "rows that do not fit their source");
	if (!a->is_float) return reduce_integers(g, n, length);
	if (fold == ARRAY_LEN(folds)) return graph_bad(g, "a reduction of floats that is not known");
	return reduce_floats(g, n, fold, length);
}

static int step_scan(struct graph *g, struct node *n)
{
	int64_t length;
	size_t fold;
	int rc = rows_of(g, n, &length);
	if (!rc) rc = fold_of(g, n, &fold);
	if (!rc) rc = node_wants(g, n, 0, true, -1);
	if (rc) return rc;
	const struct node *a = node_source(g, n, 0);
	if (a->count != n->count || (n->count && (!length || n->count % length)) || fold >= 4)
		return graph_bad(g, "a scan that does not fit its source");
	if (node_room(g, n, true)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		if (graph_spend(g, 2)) return 1;
		if (k % length == 0) n->f[k] = *node_float(g, a, k);
		else if (field_apply(g->field, folds[fold].op, &n->f[k - 1], node_float(g, a, k), &n->f[k]))
			return graph_undecided(g, folds[fold].name);
	}
	return 0;
}

/* Positions of a row in sorted order, equal elements in theirs (merge sort). */
static int sort_row(
	struct graph *g, const struct node *a, int64_t first, int64_t n, bool descending, int64_t *order, int64_t *spare)
{
	for (int64_t i = 0; i < n; i++) order[i] = i;
	for (int64_t width = 1; width < n; width *= 2) {
		for (int64_t lo = 0; lo < n; lo += 2 * width) {
			int64_t mid = MIN(lo + width, n), hi = MIN(lo + 2 * width, n), i = lo, j = mid;
			for (int64_t k = lo; k < hi; k++) {
				bool takes_second = i >= mid;
				if (i < mid && j < hi) {
					enum field_order o = field_compare(
						node_float(g, a, first + order[j]), node_float(g, a, first + order[i]));
					if (o == FIELD_UNDECIDED) return graph_undecided(g, "an order");
					takes_second = o == (descending ? FIELD_GREATER : FIELD_LESS);
				}
				spare[k] = takes_second ? order[j++] : order[i++];
			}
		}
		memcpy(order, spare, (size_t)n * sizeof *order);
	}
	return 0;
}

static int step_order(struct graph *g, struct node *n)
{
	int64_t length;
	int rc = rows_of(g, n, &length);
	if (!rc) rc = node_wants(g, n, 0, true, -1);
	if (rc) return rc;
	const struct node *a = node_source(g, n, 0);
	if (a->count != n->count || (n->count && (!length || n->count % length)))
		return graph_bad(g, "an order that does not fit its source");
	if (node_room(g, n, false)) return 1;
	int64_t *spare = xmalloc(size_mul((size_t)MIN(length, n->count) + 1, sizeof *spare));
	bool descending = json_is_true(json_object_get(n->json, "descending"));
	for (int64_t at = 0; at < n->count && !rc; at += length) {
		rc = graph_spend(g, 16 * length);
		if (!rc) rc = sort_row(g, a, at, length, descending, n->i + at, spare);
	}
	free(spare);
	return rc;
}

/* out[r, c] = source[r, index[r, c]] */
static int step_pick(struct graph *g, struct node *n)
{
	int64_t length, picked;
	int rc = rows_of(g, n, &length);
	if (!rc) rc = node_number(g, n, "picked", 1, PROVE_ELEMENTS_MAX, &picked);
	if (!rc) rc = node_wants(g, n, 1, false, -1);
	if (rc) return rc;
	const struct node *a = node_source(g, n, 0), *index = node_source(g, n, 1);
	if (index->count != n->count || n->count % picked || !length || n->count / picked > PROVE_ELEMENTS_MAX / length ||
		a->count != n->count / picked * length)
		return graph_bad(g, "a pick that does not fit its sources");
	if (node_room(g, n, a->is_float)) return 1;
	for (int64_t k = 0; k < n->count; k++) {
		int64_t i = node_int(g, index, k), at = k / picked * length + i;
		if (i < 0 || i >= length)
			return graph_bad(g, "a pick of element %lld of %lld", (long long)i, (long long)length);
		if (a->is_float) n->f[k] = *node_float(g, a, at);
		else n->i[k] = node_int(g, a, at);
	}
	return graph_spend(g, n->count);
}

/* ---- products and scattered sums ---- */

static int step_dot(struct graph *g, struct node *n)
{
	/* Four sizes, two sources of floats. */
	int64_t batch, m, k, cols;
	int rc = node_number(g, n, "batch", 0, PROVE_ELEMENTS_MAX, &batch);
	if (!rc) rc = node_number(g, n, "m", 0, PROVE_ELEMENTS_MAX, &m);
	if (!rc) rc = node_number(g, n, "k", 0, PROVE_ELEMENTS_MAX, &k);
	if (!rc) rc = node_number(g, n, "n", 0, PROVE_ELEMENTS_MAX, &cols);
	if (!rc) rc = node_wants(g, n, 0, true, -1);
	if (!rc) rc = node_wants(g, n, 1, true, -1);
	if (rc) return rc;
	const struct node *a = node_source(g, n, 0), *b = node_source(g, n, 1);
	/* sizes are at most 2^31, so two of them multiply without overflow */
	int64_t left, right, all;
	if (__builtin_mul_overflow(batch * m, k, &left) || __builtin_mul_overflow(batch * cols, k, &right) ||
		__builtin_mul_overflow(batch * m, cols, &all) || a->count != left || b->count != right || n->count != all)
		return graph_bad(g, "a product that does not fit its sources");
	/* The products element by element; fuel is spent for each, so that no graph runs for ever. */
	if (node_room(g, n, true)) return 1;
	for (int64_t o = 0; o < n->count; o++) {
		int64_t at = o / (m * cols), i = o / cols % m, j = o % cols;
		struct field_value sum = field_integer(g->field, 0);
		if (graph_spend(g, 4 * k + 1)) return 1;
		for (int64_t l = 0; l < k; l++)
			sum = field_add(g->field, sum,
				field_mul(
					g->field, *node_float(g, a, (at * m + i) * k + l), *node_float(g, b, (at * k + l) * cols + j)));
		n->f[o] = sum;
	}
	return 0;
}

static int step_scatter(struct graph *g, struct node *n)
{
	int64_t scattered;
	int rc = node_number(g, n, "scattered", 0, PROVE_ELEMENTS_MAX, &scattered);
	if (!rc) rc = node_wants(g, n, 0, true, n->count);
	if (!rc) rc = node_wants(g, n, 1, true, scattered);
	const uint8_t *places = rc ? NULL : memory_of(g, n, scattered, 8);
	if (!places) return ERR_FORMAT;
	if (node_room(g, n, true)) return 1;
	for (int64_t k = 0; k < n->count; k++) n->f[k] = *node_float(g, node_source(g, n, 0), k);
	for (int64_t k = 0; k < scattered; k++) {
		int64_t p;
		memcpy(&p, places + k * 8, 8);
		if (p < 0 || p >= n->count)
			return graph_bad(g, "a sum at place %lld of %lld", (long long)p, (long long)n->count);
		n->f[p] = field_add(g->field, n->f[p], *node_float(g, node_source(g, n, 1), k));
	}
	return graph_spend(g, scattered);
}

/* ---- steps by their names ---- */

static const struct {
	const char *kind;
	step_fn *run;
} kinds[] = {
	{"input", step_input},
	{"param", step_param},
	{"number", step_number},
	{"floats", step_constants},
	{"ints", step_constants},
	{"take", step_take},
	{"map", step_map},
	{"reduce", step_reduce},
	{"scan", step_scan},
	{"order", step_order},
	{"pick", step_pick},
	{"dot", step_dot},
	{"scatter", step_scatter},
};

step_fn *step_find(const char *kind)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kinds[i].kind, kind)) return kinds[i].run;
	return NULL;
}
