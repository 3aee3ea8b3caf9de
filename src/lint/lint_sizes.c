/* Two walks over one tree: the first binds names to numbers, three times over, so that a name may
 * stand for another; the second looks at whatever decides something. Texts are hostile: recursion
 * has a depth, lists have an end. */
#include "lint/lint_sizes.h"
#include "base/base.h"
#include "lint/lint_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_TIMEOUT_US 5000000
#define DEPTH_MAX 24
#define VALUES_MAX 6 /* numbers that one expression may be */
#define BOUND_MAX 128
#define FUNCTIONS_MAX 64
#define POSITIONS_MAX 128
#define ROUNDS 3
#define NUMBER_MAX 1e15

const TSLanguage *tree_sitter_python(void);

/* What an expression may be: a few numbers. */
struct values {
	int count;
	double list[VALUES_MAX];
};
struct sizes {
	struct walk w;
	struct lint_sizes *out;
	int nbound;
	struct {
		struct slice name;
		struct values values;
	} bound[BOUND_MAX];
	int npositions;
	struct slice positions[POSITIONS_MAX]; /* names that an index was given to */
	int nrelated;
	struct slice related[BOUND_MAX]; /* names of sizes */
	int round;                       /* of the walk */
	int nfunctions;
	struct {
		struct slice name;
		TSNode parameters;
	} functions[FUNCTIONS_MAX];
	int depth;  /* of the functions that call themselves, all of them together */
	int line;   /* of what is being looked at, from 1 */
	int column; /* likewise, from 0, in bytes */
};

static void value_add(struct values *v, double x)
{
	if (!isfinite(x) || fabs(x) > NUMBER_MAX || v->count == VALUES_MAX) return;
	for (int i = 0; i < v->count; i++)
		if (v->list[i] == x) return;
	v->list[v->count++] = x;
}

/* ---- numbers ---- */

static struct values number_of(struct slice text)
{
	char digits[64];
	size_t n = 0;
	struct values v = {0};
	for (size_t i = 0; i < text.len && n + 1 < sizeof digits; i++)
		if (text.data[i] != '_') digits[n++] = text.data[i];
	digits[n] = 0;
	/* Python's 0b and 0o are nothing that strtod knows. */
	bool is_binary = n > 2 && digits[0] == '0' && strchr("bB", digits[1]),
		 is_octal = n > 2 && digits[0] == '0' && strchr("oO", digits[1]);
	char *end = digits;
	double x = is_binary || is_octal ? (double)strtoll(digits + 2, &end, is_binary ? 2 : 8) : strtod(digits, &end);
	if (n && *end == 0) value_add(&v, x);
	return v;
}

static double combined(char op, bool is_double, double a, double b)
{
	switch (op) {
	case '+': return a + b;
	case '-': return a - b;
	case '*': return is_double ? pow(a, b) : a * b;
	case '/': return b == 0 ? NAN : is_double ? floor(a / b) : a / b;
	case '%': return b == 0 ? NAN : a - b * floor(a / b);
	case '<': return is_double && fabs(b) < 60 ? a * exp2(b) : NAN;
	case '>': return is_double && fabs(b) < 60 ? floor(a / exp2(b)) : NAN;
	default: return NAN;
	}
}

/* Of a tree with errors any part may be missing. */
static uint32_t child_count(TSNode n) { return ts_node_is_null(n) ? 0 : ts_node_named_child_count(n); }

static TSNode unwrapped(TSNode n)
{
	while (node_is(n, "parenthesized_expression") && child_count(n) == 1) n = ts_node_named_child(n, 0);
	return n;
}

/* The only argument of a call; null where there are others. */
static TSNode argument_alone(TSNode call)
{
	TSNode list = node_field(call, "arguments");
	TSNode none = {0};
	return node_is(list, "argument_list") && child_count(list) == 1 ? ts_node_named_child(list, 0) : none;
}

static struct values values_of(struct sizes *s, TSNode n);
static bool is_size_source(struct sizes *s, TSNode n);

static struct values values_binary(struct sizes *s, TSNode n)
{
	struct values a = values_of(s, node_field(n, "left")), b = values_of(s, node_field(n, "right")), v = {0};
	struct slice op = node_text(&s->w, node_field(n, "operator"));
	for (int i = 0; i < a.count && op.len; i++)
		for (int k = 0; k < b.count; k++) value_add(&v, combined(op.data[0], op.len == 2, a.list[i], b.list[k]));
	return v;
}

/* What stands between the quotes of a plain text. */
static struct slice string_inside(struct sizes *s, TSNode n)
{
	struct slice text = {"", 0};
	for (uint32_t i = 0; i < child_count(n); i++)
		if (node_is(ts_node_named_child(n, i), "string_content")) text = node_text(&s->w, ts_node_named_child(n, i));
	return text;
}

/* constexpr(26), int(26), int("26"): what wraps a number is taken for it; len("abc"), len((1, 2,
 * 3)) and ord("a") are numbers too. */
static struct values values_call(struct sizes *s, TSNode n)
{
	TSNode inner = unwrapped(argument_alone(n));
	struct slice name = node_text(&s->w, node_terminal(n));
	TSNode list = node_field(n, "arguments");
	bool is_text = node_is(inner, "string"), is_list = node_is(inner, "list") || node_is(inner, "tuple");
	struct values v = {0};
	if (is_size_source(s, n) && !is_text && !is_list) return v; /* x.size(1) is not 1 */
	/* The number of an axis is none of a size. */
	if (slice_is(name, "program_id") || slice_is(name, "num_programs")) return v;
	if (slice_is(name, "len") && is_text) value_add(&v, (double)string_inside(s, inner).len);
	else if (slice_is(name, "len") && is_list) value_add(&v, child_count(inner));
	else if (slice_is(name, "int") && child_count(list) == 2 && node_is(ts_node_named_child(list, 0), "string")) {
		char digits[32] = "", *end = digits;
		struct slice text = string_inside(s, ts_node_named_child(list, 0));
		struct values base = values_of(s, ts_node_named_child(list, 1));
		memcpy(digits, text.data, MIN(text.len, sizeof digits - 1));
		long long x = base.count && base.list[0] >= 2 && base.list[0] <= 36 ? strtoll(digits, &end, (int)base.list[0])
																			: 0;
		if (end != digits) value_add(&v, (double)x);
	} else if (slice_is(name, "ord") && is_text && string_inside(s, inner).len == 1)
		value_add(&v, (unsigned char)string_inside(s, inner).data[0]);
	else return values_of(s, inner);
	return v;
}

static struct values values_below(struct sizes *s, TSNode n)
{
	struct values v = {0};
	if (node_is(n, "integer") || node_is(n, "float")) return number_of(node_text(&s->w, n));
	/* A name or an attribute, whoever's, by its last word. */
	if (node_is(n, "identifier") || node_is(n, "attribute")) {
		struct slice name = node_text(&s->w, node_terminal(n));
		for (int i = 0; i < s->nbound; i++)
			if (slice_same(s->bound[i].name, name)) return s->bound[i].values;
	} else if (node_is(n, "binary_operator")) {
		return values_binary(s, n);
	} else if (node_is(n, "unary_operator")) {
		struct values a = values_of(s, node_field(n, "argument"));
		struct slice op = node_text(&s->w, node_field(n, "operator"));
		for (int i = 0; i < a.count; i++)
			value_add(&v, slice_is(op, "-") ? -a.list[i] : slice_is(op, "+") ? a.list[i] : NAN);
	} else if (node_is(n, "call")) {
		return values_call(s, n);
	} else if (node_is(n, "string")) {
		return number_of(string_inside(s, n));
	} else if (node_is(n, "conditional_expression") && child_count(n) == 3) {
		struct values a = values_of(s, ts_node_named_child(n, 0)), b = values_of(s, ts_node_named_child(n, 2));
		for (int i = 0; i < a.count; i++) value_add(&v, a.list[i]);
		for (int i = 0; i < b.count; i++) value_add(&v, b.list[i]);
	}
	return v;
}

/* The numbers that an expression of numbers and bound names may be; none where
 * anything else is in it. */
static struct values values_of(struct sizes *s, TSNode n)
{
	struct values v = {0};
	n = unwrapped(n);
	if (ts_node_is_null(n) || s->depth > DEPTH_MAX) return v;
	s->depth++;
	v = values_below(s, n);
	s->depth--;
	return v;
}

/* ---- positions: numbers that grow with a size ---- */

/* Whether an expression is made of program numbers, lanes or what counts them. What is
 * read from memory is none. */
static bool is_position(struct sizes *s, TSNode n)
{
	static const char *const SOURCES[] = {"program_id", "num_programs", "arange", "argmax", "argmin"};
	static const char *const DATA[] = {
		"load", "atomic_add", "atomic_cas", "atomic_xchg", "dot", "gather", "sort", "rand"};
	if (ts_node_is_null(n)) return false;
	if (node_is(n, "identifier")) {
		struct slice name = node_text(&s->w, n);
		for (int i = 0; i < s->npositions; i++)
			if (slice_same(s->positions[i], name)) return true;
		return false;
	}
	if (node_is(n, "call")) {
		struct slice name = node_text(&s->w, node_terminal(n));
		if (slice_in(name, SOURCES, ARRAY_LEN(SOURCES))) return true;
		if (slice_in(name, DATA, ARRAY_LEN(DATA))) return false;
	}
	bool found = false;
	uint32_t count = s->depth < DEPTH_MAX ? MIN(child_count(n), 16u) : 0;
	s->depth++;
	for (uint32_t i = 0; i < count && !found; i++) found = is_position(s, ts_node_named_child(n, i));
	s->depth--;
	return found;
}

/* left takes a position, if right is one. */
static void position_bind(struct sizes *s, TSNode left, TSNode right)
{
	if (!node_is(left, "identifier") || is_position(s, left) || s->npositions == POSITIONS_MAX) return;
	if (is_position(s, right)) s->positions[s->npositions++] = node_text(&s->w, left);
}

/* ---- first walk: what names may be ---- */

/* x.shape[0], x.size(0), x.numel(), len(x): where sizes come from. */
static bool is_size_source(struct sizes *s, TSNode n)
{
	static const char *const CALLS[] = {"size", "numel", "len"};
	if (node_is(n, "subscript"))
		return slice_is(node_text(&s->w, node_terminal(node_field(n, "value"))), "shape") ||
			is_size_source(s, node_field(n, "value"));
	if (node_is(n, "call")) return slice_in(node_text(&s->w, node_terminal(n)), CALLS, ARRAY_LEN(CALLS));
	return node_is(n, "attribute") && slice_is(node_text(&s->w, node_terminal(n)), "shape");
}

/* A name that stands for a size, also where it is a parameter that is given one. */
static void relate(struct sizes *s, TSNode left, TSNode right)
{
	right = unwrapped(right);
	if (!node_is(left, "identifier") || s->nrelated == BOUND_MAX) return;
	bool is_size = !ts_node_is_null(right) && is_size_source(s, right);
	struct slice name = node_text(&s->w, left), from = node_text(&s->w, right);
	for (int i = 0; i < s->nrelated; i++) {
		if (slice_same(s->related[i], name)) return;
		is_size |= node_is(right, "identifier") && slice_same(s->related[i], from);
	}
	if (is_size) s->related[s->nrelated++] = name;
}

static void bind(struct sizes *s, TSNode left, TSNode right)
{
	if (ts_node_is_null(right) || !(node_is(left, "identifier") || node_is(left, "attribute"))) return;
	relate(s, left, right);
	struct slice name = node_text(&s->w, node_terminal(left));
	struct values v = values_of(s, right);
	int at = 0;
	position_bind(s, left, right);
	while (at < s->nbound && !slice_same(s->bound[at].name, name)) at++;
	if (!v.count || at == BOUND_MAX) return;
	if (at == s->nbound) {
		s->bound[at].name = name;
		s->bound[at].values = (struct values){0};
		s->nbound++;
	}
	for (int i = 0; i < v.count; i++) value_add(&s->bound[at].values, v.list[i]);
}

/* What a function of the source is called with, or a kernel launched, by position. */
static void bind_arguments(struct sizes *s, TSNode call)
{
	TSNode callee = node_field(call, "function"), list = node_field(call, "arguments");
	if (node_is(callee, "subscript")) callee = node_field(callee, "value");
	struct slice name = node_text(&s->w, node_terminal(callee));
	int at = 0;
	while (at < s->nfunctions && !slice_same(s->functions[at].name, name)) at++;
	if (at == s->nfunctions || !node_is(list, "argument_list")) return;
	TSNode parameters = s->functions[at].parameters;
	uint32_t self = child_count(parameters) && slice_is(node_text(&s->w, ts_node_named_child(parameters, 0)), "self");
	/* An argument too many has no parameter, and binds nothing. */
	for (uint32_t i = 0; i < child_count(list); i++) {
		TSNode p = ts_node_named_child(parameters, i + self);
		/* n, n: tl.constexpr, n=1 */
		if (node_is(p, "typed_parameter")) p = ts_node_named_child(p, 0);
		if (node_is(p, "default_parameter") || node_is(p, "typed_default_parameter")) p = node_field(p, "name");
		bind(s, p, ts_node_named_child(list, i));
	}
}

static void bind_all(struct sizes *s, TSNode n)
{
	if (node_is(n, "call")) bind_arguments(s, n);
	if (node_is(n, "function_definition") && s->round == 0 && s->nfunctions < FUNCTIONS_MAX) {
		s->functions[s->nfunctions].name = node_text(&s->w, node_field(n, "name"));
		s->functions[s->nfunctions++].parameters = node_field(n, "parameters");
	}
	if (node_is(n, "keyword_argument") || node_is(n, "default_parameter") || node_is(n, "typed_default_parameter")) {
		bind(s, node_field(n, "name"), node_field(n, "value"));
	} else if (node_is(n, "named_expression")) {
		bind(s, node_field(n, "name"), node_field(n, "value"));
	} else if (node_is(n, "assignment")) {
		TSNode left = node_field(n, "left"), right = node_field(n, "right");
		bind(s, left, right);
		/* A, B = 1, 2 */
		uint32_t count = child_count(left);
		/* rows, cols = x.shape */
		for (uint32_t i = 0; i < count && node_is(left, "pattern_list") && is_size_source(s, unwrapped(right)); i++)
			relate(s, ts_node_named_child(left, i), right);
		if (!(node_is(left, "pattern_list") || node_is(left, "tuple_pattern")) || child_count(right) != count) return;
		for (uint32_t i = 0; i < count; i++) bind(s, ts_node_named_child(left, i), ts_node_named_child(right, i));
	}
}

/* ---- second walk: what decides ---- */

static void size_add(struct sizes *s, enum lint_size_kind kind, double number, double modulus)
{
	if (!isfinite(number) || fabs(number) > NUMBER_MAX || !(fabs(modulus) <= NUMBER_MAX)) return;
	struct lint_size z = {kind, (int64_t)floor(number), (int64_t)modulus, s->line, s->column};
	/* No size is 0, and nothing changes below it. */
	if (z.number < 0 || (z.number == 0 && kind != LINT_SIZE_REST)) return;
	struct lint_sizes *o = s->out;
	for (int i = 0; i < o->count; i++)
		if (o->list[i].kind == kind && o->list[i].number == z.number && o->list[i].modulus == z.modulus &&
			o->list[i].line == z.line && o->list[i].column == z.column)
			return;
	if (o->count == LINT_SIZES_MAX) o->more++;
	else o->list[o->count++] = z;
}

/* Ranks, strides and bytes of an element are no sizes. */
static bool is_no_size(struct sizes *s, TSNode n)
{
	static const char *const NAMES[] = {"dim", "ndim", "stride", "element_size", "itemsize", "dtype", "device", "len",
		"data_ptr", "storage_offset", "get_device_capability", "type", "__version__"};
	if (node_is(n, "subscript")) n = node_field(n, "value");
	return slice_in(node_text(&s->w, node_terminal(n)), NAMES, ARRAY_LEN(NAMES));
}

static bool has_name(struct sizes *s, TSNode n)
{
	if (node_is(n, "identifier")) return true;
	bool found = false;
	uint32_t count = s->depth > DEPTH_MAX ? 0 : MIN(child_count(n), 16u);
	s->depth++;
	for (uint32_t i = 0; i < count && !found; i++) found = has_name(s, ts_node_named_child(n, i));
	s->depth--;
	return found;
}

/* `n` is compared with v: what stands in it beside a size is taken off, step by step. */
static void invert(struct sizes *s, TSNode n, enum lint_size_kind kind, double v);
static bool is_related(struct sizes *s, TSNode n);

static void invert_binary(struct sizes *s, TSNode n, enum lint_size_kind kind, double v)
{
	TSNode left = node_field(n, "left"), right = node_field(n, "right");
	struct slice op = node_text(&s->w, node_field(n, "operator"));
	struct values a = values_of(s, left), b = values_of(s, right);
	bool is_left = b.count > 0, is_double = op.len == 2;
	const struct values *c = is_left ? &b : &a;
	TSNode rest = is_left ? left : right;
	char sign = op.len ? op.data[0] : 0;
	/* Both sides have sizes in them, or the number is divided: the comparison's
	 * own number has to do. */
	if (!c->count || (!is_left && strchr("/%<>", sign))) {
		size_add(s, kind, v, 0);
		if (is_related(s, left) && is_related(s, right)) size_add(s, LINT_SIZE_PAIR, 1, 0);
		return;
	}
	for (int i = 0; i < c->count; i++) {
		double k = c->list[i];
		if (sign == '+') invert(s, rest, kind, v - k);
		else if (sign == '-') invert(s, rest, kind, is_left ? v + k : k - v);
		else if (sign == '*' && !is_double) invert(s, rest, kind, v / k);
		else if (sign == '/' || (sign == '>' && is_double)) {
			/* A whole quotient is v from v * k on, and more from (v + 1) * k on. */
			double by = sign == '>' ? exp2(k) : k;
			invert(s, rest, kind, v * by);
			if (is_double) invert(s, rest, LINT_SIZE_ORDER, (v + 1) * by);
		} else if (sign == '<' && is_double) invert(s, rest, kind, v / exp2(k));
		else if (sign == '%' && k >= 2) size_add(s, LINT_SIZE_REST, v, k);
		else if (sign == '&') size_add(s, LINT_SIZE_BITS, k, 0);
		else if (sign == '^' && fabs(v) < 1e9 && fabs(k) < 1e9)
			invert(s, rest, LINT_SIZE_EQUAL, (double)((int64_t)v ^ (int64_t)k));
		else size_add(s, kind, v, 0);
	}
}

/* Of len(str(n)), n.bit_length() and logarithms of n: what they count the
 * powers of; 0: another call. */
static double growth_of(struct sizes *s, TSNode n, struct slice name)
{
	TSNode inner = unwrapped(argument_alone(n));
	bool is_digits = slice_is(name, "len") && node_is(inner, "call") &&
		slice_is(node_text(&s->w, node_terminal(inner)), "str");
	return is_digits || slice_is(name, "log10") ? 10 : slice_is(name, "bit_length") || slice_is(name, "log2") ? 2 : 0;
}

static TSNode growth_argument(struct sizes *s, TSNode n)
{
	TSNode inner = unwrapped(argument_alone(n)), callee = node_field(n, "function");
	if (node_is(inner, "call") && slice_is(node_text(&s->w, node_terminal(inner)), "str")) return argument_alone(inner);
	return ts_node_is_null(inner) && node_is(callee, "attribute") ? node_field(callee, "object") : inner;
}

static void invert_below(struct sizes *s, TSNode n, enum lint_size_kind kind, double v)
{
	bool is_growth = node_is(n, "call") && growth_of(s, n, node_text(&s->w, node_terminal(n))) > 0;
	if (!is_growth && is_no_size(s, n)) return;
	TSNode list = node_is(n, "call") ? node_field(n, "arguments") : (TSNode){0};
	if (node_is(n, "binary_operator")) {
		invert_binary(s, n, kind, v);
	} else if (node_is(n, "unary_operator")) {
		invert(s, node_field(n, "argument"), kind, slice_is(node_text(&s->w, node_field(n, "operator")), "-") ? -v : v);
	} else if (node_is(list, "argument_list") && (child_count(list) > 0 || is_growth)) {
		struct slice name = node_text(&s->w, node_terminal(n));
		uint32_t count = MIN(child_count(list), 8u);
		struct values by = count > 1 ? values_of(s, ts_node_named_child(list, 1)) : (struct values){0};
		double base = growth_of(s, n, name);
		if (base > 0 && fabs(v) < 40) {
			/* Digits, bits and logarithms change at powers. */
			for (int more = 0; more < 2; more++)
				invert(s, unwrapped(growth_argument(s, n)), kind, pow(base, v - 1 + more));
			return;
		}
		bool is_cdiv = slice_is(name, "cdiv");
		/* cdiv(n, k) is above v from v * k on; of other functions the number itself is
		 * tried on each argument. */
		for (int i = 0; is_cdiv && i < by.count; i++) {
			invert(s, ts_node_named_child(list, 0), LINT_SIZE_ORDER, v * by.list[i]);
			invert(s, ts_node_named_child(list, 0), LINT_SIZE_ORDER, (v - 1) * by.list[i]);
		}
		bool is_any = is_cdiv;
		for (uint32_t i = 0; !is_cdiv && i < count; i++) {
			TSNode argument = ts_node_named_child(list, i);
			if (!has_name(s, argument)) continue;
			is_any = true;
			invert(s, argument, kind, v);
		}
		if (!is_any) size_add(s, kind, v, 0);
	} else {
		size_add(s, kind, v, 0);
	}
}

static void invert(struct sizes *s, TSNode n, enum lint_size_kind kind, double v)
{
	n = unwrapped(n);
	if (ts_node_is_null(n) || s->depth > DEPTH_MAX) return;
	s->depth++;
	invert_below(s, n, kind, v);
	s->depth--;
}

static bool is_related_below(struct sizes *s, TSNode n)
{
	if (node_is(n, "identifier")) {
		struct slice name = node_text(&s->w, n);
		for (int i = 0; i < s->nrelated; i++)
			if (slice_same(s->related[i], name)) return true;
		return false;
	}
	if (node_is(n, "tuple") || node_is(n, "list")) {
		uint32_t count = MIN(child_count(n), 8u), related = 0;
		for (uint32_t i = 0; i < count; i++) related += is_related(s, ts_node_named_child(n, i));
		return count > 1 && related == count;
	}
	if (node_is(n, "binary_operator")) {
		TSNode l = node_field(n, "left"), r = node_field(n, "right");
		bool is_left = is_related(s, l), is_right = is_related(s, r);
		return (is_left && is_right) || (is_left && values_of(s, r).count) || (is_right && values_of(s, l).count);
	}
	return is_size_source(s, n);
}

/* Whether all names in an expression stand for sizes, and there is one. */
static bool is_related(struct sizes *s, TSNode n)
{
	n = unwrapped(n);
	if (s->depth > DEPTH_MAX || ts_node_is_null(n)) return false;
	s->depth++;
	bool is_one = is_related_below(s, n);
	s->depth--;
	return is_one;
}

/* Whether the function around is one of Triton's. */
static bool is_in_kernel(struct sizes *s, TSNode n)
{
	for (int depth = 0; !ts_node_is_null(n) && depth < 200; depth++, n = ts_node_parent(n)) {
		if (!node_is(n, "decorated_definition")) continue;
		for (uint32_t i = 0; i < child_count(n); i++) {
			TSNode d = ts_node_named_child(n, i);
			struct slice text = node_is(d, "decorator") ? node_text(&s->w, d) : (struct slice){"", 0};
			if (text.len >= 3 && memmem(text.data, text.len, "jit", 3)) return true;
		}
	}
	return false;
}

/* Two operands of which one may be a number. */
static void pair(struct sizes *s, TSNode a, TSNode b, enum lint_size_kind kind)
{
	struct values va = values_of(s, a), vb = values_of(s, b);
	/* What is a number by its name may be something else elsewhere. */
	for (int i = 0; i < vb.count && has_name(s, a); i++) invert(s, a, kind, vb.list[i]);
	for (int i = 0; i < va.count && has_name(s, b); i++) invert(s, b, kind, va.list[i]);
	/* Neither is one: two sizes beside each other. */
	if (!va.count && !vb.count && is_related(s, a) && is_related(s, b) &&
		!slice_same(node_text(&s->w, a), node_text(&s->w, b)))
		size_add(s, LINT_SIZE_PAIR, 1, 0);
	/* One is a size and nobody knows what the other is: in host code, since in a
	 * kernel it is an index. */
	bool is_hidden = !va.count && !vb.count && is_related(s, a) != is_related(s, b);
	TSNode other = unwrapped(is_related(s, a) ? b : a);
	if (is_hidden && !is_no_size(s, other) && !is_in_kernel(s, other)) size_add(s, LINT_SIZE_HIDDEN, 1, 0);
}

/* a < b <= c, a in (1, 2), a in range(1, 2): operands with the words between them. */
static void compare(struct sizes *s, TSNode n)
{
	uint32_t count = MIN(ts_node_child_count(n), 32u);
	TSNode before = {0};
	struct slice op = {"", 0};
	for (uint32_t i = 0; i < count; i++) {
		TSNode child = ts_node_child(n, i);
		if (!ts_node_is_named(child)) {
			op = node_text(&s->w, child);
			continue;
		}
		bool is_order = op.len && strchr("<>", op.data[0]) && !slice_is(op, "<>");
		bool is_in = op.len && op.data[op.len - 1] == 'n';
		TSNode among = is_in && node_is(child, "call") ? node_field(child, "arguments") : child;
		uint32_t members = is_in ? MIN(child_count(among), 16u) : 0;
		if (!ts_node_is_null(before) && !is_in) pair(s, before, child, is_order ? LINT_SIZE_ORDER : LINT_SIZE_EQUAL);
		for (uint32_t k = 0; k < members && !ts_node_is_null(before); k++)
			pair(s, before, ts_node_named_child(among, k), LINT_SIZE_EQUAL);
		before = child;
	}
}

/* What is true where it is not 0: only sums and the like say more than a name. */
static void truth(struct sizes *s, TSNode n)
{
	n = unwrapped(n);
	if (node_is(n, "not_operator")) n = unwrapped(node_field(n, "argument"));
	if (node_is(n, "binary_operator")) invert(s, n, LINT_SIZE_EQUAL, 0);
}

/* An index that is kept in a narrower type is another one from some size on. */
static void narrowed(struct sizes *s, TSNode call)
{
	/* The largest whole number up to which a type has all. */
	static const struct {
		const char *name;
		double last;
	} TYPES[] = {
		{"int8", 127}, {"uint8", 255}, {"int16", 32767}, {"uint16", 65535}, {"float16", 2048}, {"bfloat16", 256}};
	TSNode callee = node_field(call, "function"), list = node_field(call, "arguments");
	bool is_method = slice_is(node_text(&s->w, node_terminal(call)), "to") && node_is(callee, "attribute");
	uint32_t at = is_method ? 0 : 1;
	if (!node_is(list, "argument_list") || child_count(list) <= at) return;
	TSNode what = is_method ? node_field(callee, "object") : ts_node_named_child(list, 0);
	/* Not where the call begins: there what is narrowed may have a place of its own. */
	s->column = (int)ts_node_start_point(list).column;
	struct slice type = node_text(&s->w, node_terminal(ts_node_named_child(list, at)));
	for (size_t i = 0; i < ARRAY_LEN(TYPES); i++)
		if (slice_is(type, TYPES[i].name) && is_position(s, what)) invert(s, what, LINT_SIZE_BEYOND, TYPES[i].last);
}

static void call(struct sizes *s, TSNode n)
{
	static const char *const EXTREMES[] = {"min", "max", "minimum", "maximum", "clamp", "clip"},
							 *const LOOPS[] = {"range", "static_range"};
	struct slice name = node_text(&s->w, node_terminal(n));
	TSNode list = node_field(n, "arguments");
	uint32_t count = node_is(list, "argument_list") ? MIN(child_count(list), 8u) : 0;
	/* sorted((a, b)), max([a, b]) */
	TSNode alone = unwrapped(argument_alone(n));
	if ((slice_is(name, "sorted") || slice_in(name, EXTREMES, ARRAY_LEN(EXTREMES))) && is_related(s, alone) &&
		(node_is(alone, "tuple") || node_is(alone, "list")))
		size_add(s, LINT_SIZE_PAIR, 1, 0);
	/* Each argument beside each other one. */
	for (uint32_t i = 0; i < count && slice_in(name, EXTREMES, ARRAY_LEN(EXTREMES)); i++)
		for (uint32_t k = i + 1; k < count; k++)
			pair(s, ts_node_named_child(list, i), ts_node_named_child(list, k), LINT_SIZE_ORDER);
	/* A loop runs where its end is above its start. */
	if (slice_in(name, LOOPS, ARRAY_LEN(LOOPS))) {
		if (count == 1 && node_is(unwrapped(ts_node_named_child(list, 0)), "binary_operator"))
			invert(s, ts_node_named_child(list, 0), LINT_SIZE_ORDER, 0);
		if (count > 1) pair(s, ts_node_named_child(list, 0), ts_node_named_child(list, 1), LINT_SIZE_ORDER);
	}
	if (slice_is(name, "where") && count) truth(s, ts_node_named_child(list, 0));
	if (slice_is(name, "to") || slice_is(name, "cast")) narrowed(s, n);
}

/* Where nothing is compared: a whole quotient is 0 up to a size, and a list of k
 * equal elements ends there. */
static void arithmetic(struct sizes *s, TSNode n)
{
	TSNode left = unwrapped(node_field(n, "left")), right = unwrapped(node_field(n, "right"));
	struct slice op = node_text(&s->w, node_field(n, "operator"));
	struct values k = values_of(s, right);
	bool is_list = node_is(left, "list") || node_is(left, "tuple") || node_is(left, "string");
	for (int i = 0; i < k.count && op.len; i++) {
		if (slice_is(op, "*") && is_list) size_add(s, LINT_SIZE_BEYOND, k.list[i], 0);
		if (slice_is(op, "//") && has_name(s, left)) invert(s, left, LINT_SIZE_BEYOND, k.list[i]);
		if (slice_is(op, ">>") && has_name(s, left)) invert(s, left, LINT_SIZE_BEYOND, exp2(k.list[i]));
	}
}

static void look(struct sizes *s, TSNode n)
{
	TSPoint at = ts_node_start_point(n);
	s->line = (int)at.row + 1;
	s->column = (int)at.column;
	if (node_is(n, "comparison_operator")) compare(s, n);
	else if (node_is(n, "binary_operator")) arithmetic(s, n);
	else if (node_is(n, "call")) call(s, n);
	else if (node_is(n, "if_statement") || node_is(n, "elif_clause") || node_is(n, "while_statement"))
		truth(s, node_field(n, "condition"));
	else if (node_is(n, "conditional_expression") && child_count(n) == 3) truth(s, ts_node_named_child(n, 1));
	else if (node_is(n, "assert_statement") && child_count(n)) truth(s, ts_node_named_child(n, 0));
	else if (node_is(n, "keyword_argument") && slice_is(node_text(&s->w, node_field(n, "name")), "mask"))
		truth(s, node_field(n, "value"));
	else if (node_is(n, "pair") || node_is(n, "case_pattern")) {
		/* A table's keys and the patterns of a match are what something is equal to. */
		TSNode key = node_is(n, "pair") ? node_field(n, "key")
			: child_count(n)            ? ts_node_named_child(n, 0)
										: (TSNode){0};
		struct values v = values_of(s, key);
		for (int i = 0; i < v.count; i++) size_add(s, LINT_SIZE_EQUAL, v.list[i], 0);
	}
}

int lint_sizes(const char *src, size_t len, struct lint_sizes *out)
{
	*out = (struct lint_sizes){0};
	if (len > LINT_SOURCE_BYTES_MAX) return ERR_OK;
	TSParser *parser = ts_parser_new();
	bool ready = ts_parser_set_language(parser, tree_sitter_python());
	ts_parser_set_timeout_micros(parser, PARSE_TIMEOUT_US);
	TSTree *tree = ready ? ts_parser_parse_string(parser, NULL, src, (uint32_t)len) : NULL;
	struct sizes *s = xcalloc(1, sizeof *s);
	s->out = out;
	/* Names first, so that one may be used above the place that binds it. */
	for (int round = 0; tree && round <= ROUNDS; round++) {
		s->round = round;
		walk_begin(&s->w, tree, src, len);
		do {
			TSNode n = ts_tree_cursor_current_node(&s->w.cursor);
			if (round < ROUNDS) bind_all(s, n);
			else look(s, n);
		} while (walk_next(&s->w));
		walk_end(&s->w);
	}
	free(s);
	ts_tree_delete(tree);
	ts_parser_delete(parser);
	return tree ? ERR_OK : ERR_INFRA;
}
