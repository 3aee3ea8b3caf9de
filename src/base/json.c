/* JSON by jansson, read strictly: duplicate keys and NUL inside strings are refused, nesting is
 * bounded by jansson (2,048), errors name the file, line and column. The field readers make a
 * missing or wrong field as informative as a syntax error. */
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

int json_parse(const char *text, size_t len, const char *what, json_t **out, struct err *err)
{
	json_error_t e;
	*out = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	if (*out) return 0;
	/* What jansson says of characters is about its own switches. */
	const char *character = strstr(e.text, "JSON_ALLOW_NUL") ? "an escaped NUL, which no text may hold"
		: strstr(e.text, "invalid Unicode")                  ? "half of a surrogate pair, which is no character"
															 : NULL;
	/* Of a text of one line, which mostly is a row of a file that `what` has the line
	 * of, the column alone. */
	char line[32] = "";
	if (memchr(text, '\n', len)) snprintf(line, sizeof line, "line %d, ", e.line);
	return err_set(err, ERR_FORMAT, "%s: %scolumn %d: %s%s", what, line, e.column, character ? character : e.text,
		character ? "; take it out" : "");
}

int json_load(const char *path, size_t bytes_max, json_t **out, struct err *err)
{
	struct str text = {0};
	*out = NULL;
	int rc = file_read(path, bytes_max, &text, err);
	if (!rc) rc = json_parse(text.data, text.len, path, out, err);
	str_release(&text);
	return rc;
}

int json_save(const char *path, const json_t *value, struct err *err)
{
	char *text = json_dumps(value, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	if (!text) return err_set(err, ERR_FORMAT, "%s: the value cannot be written as JSON", path);
	size_t len = strlen(text);
	text[len++] = '\n'; /* over the terminator: the length is passed along */
	int rc = file_write_atomic(path, text, len, err);
	free(text);
	return rc;
}

static const char *type_name(const json_t *v)
{
	if (!v) return "nothing";
	switch (json_typeof(v)) {
	case JSON_OBJECT: return "an object";
	case JSON_ARRAY: return "an array";
	case JSON_STRING: return "a string";
	case JSON_INTEGER: return "an integer";
	case JSON_REAL: return "a real number";
	case JSON_TRUE:
	case JSON_FALSE: return "a boolean";
	default: return "null";
	}
}

static int wrong_type(const json_t *v, const char *what, const char *field, const char *expected, struct err *err)
{
	return err_set(err, ERR_FORMAT, "%s: field \"%s\": expected %s, found %s", what, field, expected, type_name(v));
}

/* null counts as absent: that is how Hugging Face's configurations write "not set". */
static json_t *field_of(const json_t *o, const char *field)
{
	json_t *v = json_object_get(o, field);
	return json_is_null(v) ? NULL : v;
}

int json_get_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	const json_t *v = json_object_get(o, field);
	if (!json_is_integer(v)) return wrong_type(v, what, field, "an integer", err);
	int64_t n = json_integer_value(v);
	if (n < min || n > max)
		return err_set(err, ERR_RANGE, "%s: field \"%s\": expected %lld .. %lld, found %lld", what, field,
			(long long)min, (long long)max, (long long)n);
	*out = n;
	return 0;
}

int json_get_str(const json_t *o, const char *what, const char *field, const char **out, struct err *err)
{
	const json_t *v = json_object_get(o, field);
	if (!json_is_string(v)) return wrong_type(v, what, field, "a string", err);
	*out = json_string_value(v);
	return 0;
}

int json_opt_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err)
{
	return field_of(o, field) ? json_get_int(o, what, field, min, max, out, err) : 0;
}

int json_opt_num(const json_t *o, const char *what, const char *field, double *out, struct err *err)
{
	const json_t *v = field_of(o, field);
	if (!v) return 0;
	if (!json_is_number(v)) return wrong_type(v, what, field, "a number", err);
	*out = json_number_value(v);
	return 0;
}

int json_opt_bool(const json_t *o, const char *what, const char *field, bool *out, struct err *err)
{
	const json_t *v = field_of(o, field);
	if (!v) return 0;
	if (!json_is_boolean(v)) return wrong_type(v, what, field, "true or false", err);
	*out = json_is_true(v);
	return 0;
}

int json_opt_str(const json_t *o, const char *what, const char *field, const char **out, struct err *err)
{
	return field_of(o, field) ? json_get_str(o, what, field, out, err) : 0;
}

double json_real_or(const json_t *v, double absent) { return json_is_number(v) ? json_number_value(v) : absent; }
json_t *json_finite(double x) { return isfinite(x) ? json_real(x) : json_null(); }
