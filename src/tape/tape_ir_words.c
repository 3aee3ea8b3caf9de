/* tape_ir_words: words and expressions of an answer in IR. Expressions are computed at once,
 * since all sizes are known.
 */
#include "tape/tape_ir_internal.h"
#include "base/base.h"
#include <ctype.h>

int ir_bad(struct reader *r, int code, const char *fmt, ...)
{
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	return err_set(r->err, code, "line %d: %s", r->line, text);
}

void ir_skip_blanks(struct reader *r)
{
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

bool ir_take(struct reader *r, char c)
{
	ir_skip_blanks(r);
	if (r->at == r->end || *r->at != c) return false;
	r->at++;
	return true;
}

int ir_expect(struct reader *r, char c)
{
	if (ir_take(r, c)) return 0;
	int left = (int)MIN(r->end - r->at, 20);
	return ir_bad(r, ERR_FORMAT, "expected '%c', found \"%.*s\"", c, left, r->at);
}

bool ir_is_word(char c, bool is_first)
{
	return isalpha((unsigned char)c) || c == '_' || (!is_first && isdigit((unsigned char)c));
}

int ir_take_name(struct reader *r, const char *what, struct slice *out)
{
	ir_skip_blanks(r);
	const char *from = r->at;
	while (r->at < r->end && ir_is_word(*r->at, r->at == from)) r->at++;
	*out = (struct slice){from, (size_t)(r->at - from)};
	if (out->len && out->len <= NAME_BYTES_MAX) return 0;
	return ir_bad(r, ERR_FORMAT, "expected %s, found \"%.*s\"", what, (int)MIN(r->end - from, 20), from);
}

struct name *ir_find(struct reader *r, struct slice text)
{
	for (int i = 0; i < r->nnames; i++)
		if (slice_same(r->names[i].text, text)) return &r->names[i];
	return NULL;
}

int ir_add_name(struct reader *r, const struct name *n)
{
	if (ir_find(r, n->text)) return ir_bad(r, ERR_FORMAT, "%.*s is named twice", (int)n->text.len, n->text.data);
	if (r->nnames == NAMES_MAX) return ir_bad(r, ERR_FORMAT, "more than %d names", NAMES_MAX);
	r->names[r->nnames++] = *n;
	return 0;
}

/* ---- expressions: whole numbers and sizes under + - * / %, cdiv, min, max and next_pow2; / rounds
 * down ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/* a op b, where op is one of + - * / %. */
static int combine(struct reader *r, char op, int64_t a, int64_t b, int64_t *out)
{
	bool is_quotient = op == '/' || op == '%';
	if (is_quotient && b == 0) return ir_bad(r, ERR_FORMAT, "division by zero");
	/* The least number divided by -1 is the one quotient that 64 bits cannot hold, and C leaves it
	 * and its rest undefined. */
	bool is_over = is_quotient && b == -1 && a == INT64_MIN;
	if (op == '+') is_over = __builtin_add_overflow(a, b, out);
	else if (op == '-') is_over = __builtin_sub_overflow(a, b, out);
	else if (op == '*') is_over = __builtin_mul_overflow(a, b, out);
	else if (!is_over) *out = op == '/' ? floor_div(a, b) : a - floor_div(a, b) * b;
	return is_over ? ir_bad(r, ERR_FORMAT, "a number of more than 64 bits") : 0;
}

static int call(struct reader *r, struct slice name, int64_t *out)
{
	int64_t a, b = 1;
	bool is_power = slice_is(name, "next_pow2");
	int rc = ir_expect(r, '(');
	if (!rc) rc = ir_expression(r, &a);
	if (!rc && !is_power) rc = ir_expect(r, ',');
	if (!rc && !is_power) rc = ir_expression(r, &b);
	if (!rc) rc = ir_expect(r, ')');
	if (rc) return rc;
	if (slice_is(name, "min")) *out = MIN(a, b);
	else if (slice_is(name, "max")) *out = MAX(a, b);
	else if (is_power) {
		if (a > (int64_t)1 << 40) return ir_bad(r, ERR_FORMAT, "next_pow2 of %lld", (long long)a);
		for (*out = 1; *out < a;) *out *= 2;
	} else {
		/* cdiv: a quotient rounded up. */
		if (b < 1) return ir_bad(r, ERR_FORMAT, "cdiv by %lld", (long long)b);
		*out = floor_div(a, b) + (a % b != 0);
	}
	return 0;
}

static int factor(struct reader *r, int64_t *out)
{
	struct slice name;
	ir_skip_blanks(r);
	/* A number, whose digits may be anybody's: more than 64 bits are refused. */
	if (r->at < r->end && isdigit((unsigned char)*r->at)) {
		for (*out = 0; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
			if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *r->at - '0', out))
				return ir_bad(r, ERR_FORMAT, "a number of more than 64 bits");
		return 0;
	}
	/* Signs, however many there are, in a loop: the answer decides how many. Brackets are
	 * bounded by ir_expression. */
	bool is_negative = false, has_sign = false;
	for (; ir_take(r, '-'); has_sign = true) is_negative = !is_negative;
	if (has_sign) {
		int rc = factor(r, out);
		return rc || !is_negative ? rc : combine(r, '-', 0, *out, out);
	}
	if (ir_take(r, '(')) {
		int rc = ir_expression(r, out);
		return rc ? rc : ir_expect(r, ')');
	}
	/* A function of sizes, or a size by its name. */
	int rc = ir_take_name(r, "a number, a size or an expression of them", &name);
	if (rc) return rc;
	if (slice_is(name, "cdiv") || slice_is(name, "min") || slice_is(name, "max") || slice_is(name, "next_pow2"))
		return call(r, name, out);
	const struct name *n = ir_find(r, name);
	if (!n || n->is_buffer)
		return ir_bad(r, ERR_FORMAT, "%.*s is no size: sizes are the names in the brackets of inputs and parameters",
			(int)name.len, name.data);
	*out = n->value;
	return 0;
}

static int product(struct reader *r, int64_t *out)
{
	int rc = factor(r, out);
	while (!rc) {
		int64_t b;
		char op = ir_take(r, '*') ? '*' : ir_take(r, '/') ? '/' : ir_take(r, '%') ? '%' : 0;
		if (!op) return 0;
		rc = factor(r, &b);
		if (!rc) rc = combine(r, op, *out, b, out);
	}
	return rc;
}

int ir_expression(struct reader *r, int64_t *out)
{
	if (r->nest == NEST_MAX) return ir_bad(r, ERR_FORMAT, "an expression that is nested deeper than %d", NEST_MAX);
	r->nest++;
	int rc = product(r, out);
	while (!rc) {
		int64_t b;
		char op = ir_take(r, '+') ? '+' : ir_take(r, '-') ? '-' : 0;
		if (!op) break;
		rc = product(r, &b);
		if (!rc) rc = combine(r, op, *out, b, out);
	}
	r->nest--;
	return rc;
}
