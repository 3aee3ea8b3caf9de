/* The backend's space: what a kernel's text says may vary, and nothing else. The text is a
 * model's, so every line of the declaration is checked; whether a point is right and what it costs
 * is for the verifier to say. */
#include "agent/agent.h"
#include "base/base.h"

#include <ctype.h>
#include <stdlib.h>

#define DECLARATION "# tune:"

static size_t line_length(const char *p) { return strcspn(p, "\n"); }

/* A name of Python's at p; its length, 0: there is none, or it is too long. */
static size_t name_length(const char *p)
{
	size_t n = 0;
	if (!isalpha((unsigned char)*p) && *p != '_') return 0;
	while (isalnum((unsigned char)p[n]) || p[n] == '_') n++;
	return n < sizeof((struct tune_knob *)0)->name ? n : 0;
}

static const char *blanks_skip(const char *p) { return p + strspn(p, " \t"); }

/* A whole number above 0; NULL when there is none at p. */
static const char *number_read(const char *p, int64_t *out)
{
	char *end;
	if (!isdigit((unsigned char)*p)) return NULL;
	long long n = strtoll(p, &end, 10);
	*out = n;
	return n > 0 && n <= INT32_MAX && !isalnum((unsigned char)*end) && *end != '_' ? end : NULL;
}

static int value_index(const struct tune_knob *k, int64_t value)
{
	for (int i = 0; i < k->count; i++)
		if (k->values[i] == value) return i;
	return -1;
}

/* "NAME = 64 | 128" behind the mark, up to the end of the line. */
static int knob_read(const char *p, int line, const struct tune_space *s, struct tune_knob *k, struct err *err)
{
	*k = (struct tune_knob){.given = -1};
	p = blanks_skip(p);
	size_t n = name_length(p);
	memcpy(k->name, p, n);
	for (int i = 0; i < s->count; i++)
		if (!strcmp(s->knobs[i].name, k->name))
			return err_set(err, ERR_FORMAT, "line %d: %s is declared twice", line, k->name);
	p = blanks_skip(p + n);
	/* The values, each behind = or |. */
	for (char mark = '='; n && *p == mark; mark = '|') {
		int64_t value;
		if (k->count == TUNE_VALUES_MAX)
			return err_set(err, ERR_LIMIT, "line %d: more than %d values", line, TUNE_VALUES_MAX);
		p = number_read(blanks_skip(p + 1), &value);
		if (p && value_index(k, value) >= 0) p = NULL;
		if (!p) break;
		k->values[k->count++] = value;
		p = blanks_skip(p);
	}
	if (n && p && k->count && (*p == '\n' || *p == '\r' || !*p)) return 0;
	return err_set(err, ERR_FORMAT,
		"line %d: expected \"" DECLARATION " NAME = 64 | 128 | ...\" with whole numbers above 0, each once", line);
}

/* The one line "NAME = VALUE" of the module. */
static int assignment_find(const char *source, struct tune_knob *k, struct err *err)
{
	size_t n = strlen(k->name);
	int line = 1, first = 0;
	for (const char *p = source; *p; p += line_length(p) + (p[line_length(p)] == '\n'), line++) {
		int64_t value;
		if (strncmp(p, k->name, n)) continue;
		const char *at = blanks_skip(p + n);
		if (*at != '=' || at[1] == '=') continue;
		at = blanks_skip(at + 1);
		const char *end = number_read(at, &value);
		/* Behind it a comment at most: a value that is computed is not ours to replace. */
		const char *behind = end ? blanks_skip(end) : NULL;
		if (end && *behind && !strchr("#\r\n", *behind)) end = NULL;
		if (first)
			return err_set(err, ERR_FORMAT, "%s: expected one line \"%s = VALUE\", found lines %d and %d", k->name,
				k->name, first, line);
		if (end) k->given = value_index(k, value);
		if (!end || k->given < 0)
			return err_set(err, ERR_FORMAT, "%s: line %d: expected one of the declared values, found \"%.*s\"", k->name,
				line, (int)MIN(strcspn(at, "\r\n"), 60), at);
		first = line;
		k->begin = (size_t)(at - source);
		k->end = (size_t)(end - source);
	}
	if (k->given >= 0) return 0;
	return err_set(err, ERR_FORMAT, "%s: is declared, but no line \"%s = VALUE\" gives it a value", k->name, k->name);
}

int tune_space_parse(const char *source, struct tune_space *out, struct err *err)
{
	struct tune_space s = {.points = 1};
	int line = 1, rc = 0;
	/* The declarations, then the values that the text has. */
	for (const char *p = source; *p && !rc; p += line_length(p) + (p[line_length(p)] == '\n'), line++) {
		if (strncmp(p, DECLARATION, strlen(DECLARATION))) continue;
		if (s.count == TUNE_KNOBS_MAX)
			return err_set(err, ERR_LIMIT, "line %d: more than %d parameters", line, TUNE_KNOBS_MAX);
		rc = knob_read(p + strlen(DECLARATION), line, &s, &s.knobs[s.count], err);
		s.count++;
	}
	if (!rc && !s.count)
		rc = err_set(err, ERR_FORMAT, "nothing is declared: expected lines \"" DECLARATION " NAME = 64 | 128 | ...\"");
	for (int i = 0; i < s.count && !rc; i++) {
		rc = assignment_find(source, &s.knobs[i], err);
		s.given += rc ? 0 : s.knobs[i].given * s.points;
		s.points *= s.knobs[i].count;
		if (!rc && s.points > TUNE_POINTS_MAX)
			rc = err_set(err, ERR_LIMIT, "more than %d points; declare fewer values", TUNE_POINTS_MAX);
	}
	if (!rc) *out = s;
	return rc;
}

/* Which value a point has of a parameter. */
static int index_at(const struct tune_space *s, int64_t point, int knob)
{
	for (int i = 0; i < knob; i++) point /= s->knobs[i].count;
	return (int)(point % s->knobs[knob].count);
}

void tune_render(const char *source, const struct tune_space *s, int64_t point, struct str *out)
{
	size_t at = 0, end = strlen(source);
	/* Parameters in the order of their assignments. */
	while (at < end) {
		int next = -1;
		for (int i = 0; i < s->count; i++)
			if (s->knobs[i].begin >= at && (next < 0 || s->knobs[i].begin < s->knobs[next].begin)) next = i;
		size_t upto = next < 0 ? end : s->knobs[next].begin;
		str_append(out, source + at, upto - at);
		if (next < 0) break;
		str_printf(out, "%lld", (long long)s->knobs[next].values[index_at(s, point, next)]);
		at = s->knobs[next].end;
	}
}

void tune_point_put(const struct tune_space *s, int64_t point, struct str *out)
{
	for (int i = 0; i < s->count; i++)
		str_printf(
			out, "%s%s=%lld", i ? " " : "", s->knobs[i].name, (long long)s->knobs[i].values[index_at(s, point, i)]);
}

/* The value that an answer gives a parameter last: its index, -1 none, -2 one
 * that is not declared. */
static int named_value(const struct tune_knob *k, const char *answer)
{
	size_t n = strlen(k->name);
	int found = -1;
	for (const char *p = answer; (p = strstr(p, k->name)) != NULL; p += n) {
		bool is_word = p == answer || (!isalnum((unsigned char)p[-1]) && p[-1] != '_');
		const char *at = blanks_skip(p + n);
		int64_t value;
		if (!is_word || *at != '=') continue;
		if (!number_read(blanks_skip(at + 1), &value)) continue;
		int index = value_index(k, value);
		found = index < 0 ? -2 : index;
	}
	return found;
}

int64_t tune_point_parse(const struct tune_space *s, const char *answer)
{
	int64_t point = 0, scale = 1;
	bool any = false;
	for (int i = 0; i < s->count; scale *= s->knobs[i++].count) {
		int index = named_value(&s->knobs[i], answer);
		if (index == -2) return -1;
		any |= index >= 0;
		point += scale * (index >= 0 ? index : s->knobs[i].given);
	}
	return any ? point : -1;
}
