/* A YAML mapping as JSON. libyaml delivers events; this file builds the value with an explicit
 * stack and resolves plain scalars by the core schema of YAML 1.2: `no` and `1_000` are strings
 * here, `1e-6` is a number. Anchors, aliases and tags are refused by name: recipes are plain data,
 * and an alias can stand for a million copies. */
#include "base/base.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <yaml.h>

enum { DEPTH_MAX = 64, YAML_BYTES_MAX = 4 << 20 };

/* One open mapping or list; key is the mapping's key that waits for its value. */
struct level {
	json_t *node;
	char *key;
};
struct builder {
	const char *path;
	struct level stack[DEPTH_MAX];
	int depth;
	json_t *root;
	struct err *err;
};

static int fail(struct builder *b, int code, const yaml_event_t *e, const char *text)
{
	return err_set(
		b->err, code, "%s: line %zu, column %zu: %s", b->path, e->start_mark.line + 1, e->start_mark.column + 1, text);
}

static bool one_of(const char *s, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(s, *names)) return true;
	return false;
}

/* [-+]? [0-9]+ | 0x.. | 0o.. */
static bool is_int(const char *s, int *base, const char **digits)
{
	bool sign = *s == '-' || *s == '+';
	*base = 10;
	*digits = s;
	if (!sign && s[0] == '0' && (s[1] == 'x' || s[1] == 'o')) {
		*base = s[1] == 'x' ? 16 : 8;
		*digits = s + 2;
	}
	const char *p = *digits + sign;
	size_t n = strspn(p, *base == 16 ? "0123456789abcdefABCDEF" : *base == 8 ? "01234567" : "0123456789");
	return n && !p[n];
}

/* [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )? */
static bool is_real(const char *s)
{
	static const char digits[] = "0123456789";
	if (*s == '-' || *s == '+') s++;
	size_t whole = strspn(s, digits), frac = 0;
	s += whole;
	if (*s == '.') {
		frac = strspn(++s, digits);
		s += frac;
	}
	if (!whole && !frac) return false;
	if (*s == 'e' || *s == 'E') {
		s++;
		if (*s == '-' || *s == '+') s++;
		size_t n = strspn(s, digits);
		if (!n) return false;
		s += n;
	}
	return !*s;
}

static int plain_scalar(struct builder *b, const yaml_event_t *e, const char *s, json_t **out)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL},
							 *const trues[] = {"true", "True", "TRUE", NULL},
							 *const falses[] = {"false", "False", "FALSE", NULL},
							 *const specials[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
								 "-.INF", ".nan", ".NaN", ".NAN", NULL};
	int base;
	const char *digits;
	if (one_of(s, nulls)) *out = json_null();
	else if (one_of(s, trues)) *out = json_true();
	else if (one_of(s, falses)) *out = json_false();
	else if (one_of(s, specials)) return fail(b, ERR_UNSUPPORTED, e, "infinities and NaN are not supported");
	else if (is_int(s, &base, &digits)) {
		errno = 0;
		long long n = strtoll(digits, NULL, base);
		if (errno) return fail(b, ERR_RANGE, e, "integer does not fit 64 bits");
		*out = json_integer(n);
	} else if (is_real(s)) {
		double x = strtod(s, NULL);
		if (!isfinite(x)) return fail(b, ERR_RANGE, e, "number does not fit a double");
		*out = json_real(x);
	} else *out = json_string(s);
	return 0;
}

/* A quoted scalar is a string whatever it spells; a plain one may be a number, a bool or null. */
static int scalar(struct builder *b, const yaml_event_t *e, json_t **out)
{
	const char *s = (const char *)e->data.scalar.value;
	if (strlen(s) != e->data.scalar.length) return fail(b, ERR_UNSUPPORTED, e, "NUL in a string is not supported");
	if (e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) *out = json_string(s);
	else {
		int rc = plain_scalar(b, e, s, out);
		if (rc) return rc;
	}
	return *out ? 0 : fail(b, ERR_FORMAT, e, "string is not valid UTF-8");
}

/* Puts a finished or just opened value into the innermost level; takes the reference over. */
static int add_value(struct builder *b, const yaml_event_t *e, json_t *value)
{
	if (!b->depth) {
		if (json_is_object(value)) {
			b->root = value;
			return 0;
		}
		json_decref(value);
		return fail(b, ERR_FORMAT, e, "expected a mapping (name: value) at the top");
	}
	struct level *top = &b->stack[b->depth - 1];
	if (json_is_array(top->node)) json_array_append_new(top->node, value);
	else {
		json_object_set_new(top->node, top->key, value);
		free(top->key);
		top->key = NULL;
	}
	return 0;
}

static bool expects_key(const struct builder *b)
{
	return b->depth && json_is_object(b->stack[b->depth - 1].node) && !b->stack[b->depth - 1].key;
}

static int add_key(struct builder *b, const yaml_event_t *e)
{
	if (e->type != YAML_SCALAR_EVENT) return fail(b, ERR_UNSUPPORTED, e, "only plain names can be keys");
	const char *key = (const char *)e->data.scalar.value;
	if (strlen(key) != e->data.scalar.length) return fail(b, ERR_UNSUPPORTED, e, "NUL in a key is not supported");
	struct level *top = &b->stack[b->depth - 1];
	if (json_object_get(top->node, key)) {
		char text[256];
		snprintf(text, sizeof(text), "key \"%s\" stands here twice", key);
		return fail(b, ERR_FORMAT, e, text);
	}
	top->key = xstrdup(key);
	return 0;
}

static int open_level(struct builder *b, const yaml_event_t *e, json_t *node)
{
	int rc = b->depth < DEPTH_MAX ? add_value(b, e, node)
								  : (json_decref(node), fail(b, ERR_LIMIT, e, "nested deeper than 64 levels"));
	if (!rc) b->stack[b->depth++] = (struct level){.node = node};
	return rc;
}

static bool has_tag_or_anchor(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT: return e->data.scalar.tag || e->data.scalar.anchor;
	case YAML_SEQUENCE_START_EVENT: return e->data.sequence_start.tag || e->data.sequence_start.anchor;
	case YAML_MAPPING_START_EVENT: return e->data.mapping_start.tag || e->data.mapping_start.anchor;
	default: return e->type == YAML_ALIAS_EVENT;
	}
}

static int take_event(struct builder *b, const yaml_event_t *e)
{
	if (has_tag_or_anchor(e))
		return fail(b, ERR_UNSUPPORTED, e, "anchors, aliases and tags are not supported; write the value out");
	if (e->type == YAML_DOCUMENT_START_EVENT && b->root)
		return fail(b, ERR_UNSUPPORTED, e, "expected one document in the file, found a second");
	bool is_value = e->type == YAML_SCALAR_EVENT || e->type == YAML_SEQUENCE_START_EVENT ||
		e->type == YAML_MAPPING_START_EVENT;
	if (is_value && expects_key(b)) return add_key(b, e);
	json_t *value = NULL;
	int rc;
	switch (e->type) {
	case YAML_MAPPING_START_EVENT: return open_level(b, e, json_object());
	case YAML_SEQUENCE_START_EVENT: return open_level(b, e, json_array());
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT: b->depth--; return 0;
	case YAML_SCALAR_EVENT: rc = scalar(b, e, &value); return rc ? rc : add_value(b, e, value);
	default: return 0;
	}
}

static int build(struct builder *b, const struct str *text)
{
	yaml_parser_t parser;
	CHECK(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)text->data, text->len);
	int rc = 0;
	for (bool end = false; !end && !rc;) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parser, &event)) {
			rc = err_set(b->err, ERR_FORMAT, "%s: line %zu, column %zu: %s", b->path, parser.problem_mark.line + 1,
				parser.problem_mark.column + 1, parser.problem ? parser.problem : "malformed YAML");
			break;
		}
		rc = take_event(b, &event);
		end = event.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return rc;
}

int yaml_load(const char *path, json_t **out, struct err *err)
{
	*out = NULL;
	struct str text = {0};
	struct builder b = {.path = path, .err = err};
	int rc = file_read(path, YAML_BYTES_MAX, &text, err);
	if (!rc) rc = build(&b, &text);
	str_release(&text);
	for (int i = 0; i < b.depth; i++) free(b.stack[i].key);
	if (rc) {
		json_decref(b.root);
		return rc;
	}
	*out = b.root ? b.root : json_object(); /* an empty file or comments alone */
	return 0;
}
