/* Options: one table per command. Settings start as the caller filled them (the defaults), then a
 * recipe is laid over, then the command line, so that what is nearest to the user wins. Strings are
 * kept in one list until the process ends, because settings outlive everything. */
#include "base/base.h"
#include "base/options_idle.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

struct parse {
	const char *command;
	const struct option_def *defs;
	size_t count;
	void *settings;
	uint8_t *given; /* (count) enum option_given; NULL: nobody asks */
	struct err *err;
};

static void mark(const struct parse *p, const struct option_def *d, enum option_given by)
{
	if (p->given) p->given[d - p->defs] = (uint8_t)by;
}

/* ---- strings that live as long as the process ---- */

struct kept {
	struct kept *next;
	char text[];
};
static _Atomic(struct kept *) kept_strings;

static const char *keep(const char *s)
{
	size_t len = strlen(s);
	struct kept *k = xmalloc(sizeof(*k) + len + 1);
	memcpy(k->text, s, len + 1);
	k->next = atomic_load(&kept_strings);
	while (!atomic_compare_exchange_weak(&kept_strings, &k->next, k)) {}
	return k->text;
}

/* ---- names ---- */

static char fold(char c) { return c == '-' ? '_' : c; }

static bool same_name(const char *a, size_t len, const char *b)
{
	size_t i = 0;
	while (i < len && b[i] && fold(a[i]) == fold(b[i])) i++;
	return i == len && !b[i];
}

static const struct option_def *find(const struct parse *p, const char *name, size_t len)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->defs[i].type != OPTION_NEEDS && same_name(name, len, p->defs[i].name)) return &p->defs[i];
	return NULL;
}

int name_distance(const char *a, size_t len, const char *b)
{
	enum { NAME_MAX_LEN = 63 };
	size_t n = strlen(b);
	if (len > NAME_MAX_LEN || n > NAME_MAX_LEN) return NAME_MAX_LEN;
	int row[NAME_MAX_LEN + 1];
	for (size_t j = 0; j <= n; j++) row[j] = (int)j;
	for (size_t i = 1; i <= len; i++) {
		int diagonal = row[0];
		row[0] = (int)i;
		for (size_t j = 1; j <= n; j++) {
			int change = diagonal + (fold(a[i - 1]) != fold(b[j - 1]));
			diagonal = row[j];
			row[j] = MIN(change, MIN(row[j], row[j - 1]) + 1);
		}
	}
	return row[n];
}

static int unknown(const struct parse *p, const char *where, const char *name, size_t len)
{
	const char *best = NULL;
	int best_distance = 1 + (int)len / 2;
	for (size_t i = 0; i < p->count; i++) {
		int d = p->defs[i].type == OPTION_NEEDS ? best_distance : name_distance(name, len, p->defs[i].name);
		if (d < best_distance) {
			best_distance = d;
			best = p->defs[i].name;
		}
	}
	const char *dashes = where[0] ? "" : "--";
	if (best)
		return err_set(p->err, ERR_USAGE, "%s%s%.*s: unknown option; did you mean %s%s?", where, dashes, (int)len, name,
			dashes, best);
	return err_set(p->err, ERR_USAGE, "%s%s%.*s: unknown option; `hone %s --help` lists them", where, dashes, (int)len,
		name, p->command);
}

/* ---- values ---- */

static void *field(const struct parse *p, const struct option_def *d) { return (char *)p->settings + d->offset; }

static bool is_choice(const char *choices, const char *value)
{
	size_t len = strlen(value);
	for (const char *c = choices; c;) {
		size_t n = strcspn(c, "|");
		if (n == len && !memcmp(c, value, n)) return true;
		c = c[n] ? c + n + 1 : NULL;
	}
	return false;
}

/* "MIN to MAX" or "MIN or more". */
static bool is_in_range(const char *range, double x)
{
	char *end;
	double min = strtod(range, &end), max = strncmp(end, " to ", 4) ? INFINITY : strtod(end + 4, NULL);
	return x >= min && x <= max;
}

static const char *expected_of(const struct option_def *d)
{
	switch (d->type) {
	case OPTION_BOOL: return "true or false";
	case OPTION_INT: return "an integer";
	case OPTION_FLOAT: return "a finite number";
	default: return "text";
	}
}

/* quote is "\"" around words from the command line and "" around JSON, which has its own. */
static int wrong_value(
	const struct parse *p, const char *where, const struct option_def *d, const char *value, const char *quote)
{
	const char *dashes = where[0] ? "" : "--", *choices = d->choices ? d->choices : "";
	bool is_text = d->type == OPTION_STR;
	return err_set(p->err, ERR_USAGE, "%s%s%s: expected %s%s%s, found %s%s%s", where, dashes, d->name,
		*choices && is_text ? "one of" : expected_of(d),
		!*choices     ? ""
			: is_text ? " "
					  : ", ",
		choices, quote, value, quote);
}

static int list_add(const struct parse *p, const char *where, const struct option_def *d, const char *value)
{
	struct option_list *l = field(p, d);
	bool is_recipe = where[0];
	if (l->is_recipe && !is_recipe) l->count = 0;
	l->is_recipe = is_recipe;
	if (l->count == OPTION_LIST_MAX)
		return err_set(p->err, ERR_USAGE, "%s%s%s: given more than %d times", where, is_recipe ? "" : "--", d->name,
			OPTION_LIST_MAX);
	l->items[l->count++] = keep(value);
	return 0;
}

static int set_text(const struct parse *p, const char *where, const struct option_def *d, const char *value)
{
	void *at = field(p, d);
	char *end = NULL;
	bool blank = !value[0] || isspace((unsigned char)value[0]);
	/* strtoll and strtod skip leading white space, which is refused here. */
	errno = 0;
	switch (d->type) {
	case OPTION_BOOL:
		if (strcmp(value, "true") && strcmp(value, "false")) return wrong_value(p, where, d, value, "\"");
		*(bool *)at = value[0] == 't';
		return 0;
	case OPTION_INT: {
		long long n = strtoll(value, &end, 10);
		if (blank || *end || errno || (d->choices && !is_in_range(d->choices, (double)n)))
			return wrong_value(p, where, d, value, "\"");
		*(int64_t *)at = n;
		return 0;
	}
	case OPTION_FLOAT: {
		double x = strtod(value, &end);
		if (blank || *end || !isfinite(x) || (d->choices && !is_in_range(d->choices, x)))
			return wrong_value(p, where, d, value, "\"");
		*(double *)at = x;
		return 0;
	}
	case OPTION_STR:
		if (d->choices && !is_choice(d->choices, value)) return wrong_value(p, where, d, value, "\"");
		*(const char **)at = keep(value);
		return 0;
	case OPTION_LIST: return list_add(p, where, d, value);
	case OPTION_NEEDS: break;
	}
	/* All types return above; what comes here is a wrong table, not a wrong command line. */
	CHECKF(false, "option %s has type %d", d->name, (int)d->type);
	return 0;
}

/* ---- recipes ---- */

static int set_json_list(const struct parse *p, const char *where, const struct option_def *d, const json_t *list)
{
	size_t i;
	json_t *v;
	int rc = 0;
	json_array_foreach(list, i, v)
	{
		if (json_is_string(v)) rc = list_add(p, where, d, json_string_value(v));
		else rc = err_set(p->err, ERR_USAGE, "%s%s[%zu]: expected text", where, d->name, i);
		if (rc) break;
	}
	return rc;
}

static int set_json(const struct parse *p, const char *where, const struct option_def *d, const json_t *v)
{
	void *at = field(p, d);
	double x = json_number_value(v);
	bool fits = json_is_number(v) && (!d->choices || is_in_range(d->choices, x));
	if (json_is_null(v)) return 0; /* "not set": the default stays */
	if (d->type == OPTION_BOOL && json_is_boolean(v)) *(bool *)at = json_is_true(v);
	else if (d->type == OPTION_INT && fits && json_is_integer(v)) *(int64_t *)at = json_integer_value(v);
	else if (d->type == OPTION_INT && fits && x == floor(x) && fabs(x) < 0x1p53) *(int64_t *)at = (int64_t)x; /* 1e6 */
	else if (d->type == OPTION_FLOAT && fits) *(double *)at = x;
	else if (d->type == OPTION_LIST && json_is_array(v)) return set_json_list(p, where, d, v);
	else if ((d->type == OPTION_STR || d->type == OPTION_LIST) && json_is_string(v))
		return set_text(p, where, d, json_string_value(v));
	else {
		char *found = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
		char text[80];
		snprintf(text, sizeof(text), "%s", found ? found : "?");
		free(found);
		return wrong_value(p, where, d, text, "");
	}
	return 0;
}

/* A path, here or as it ships with hone, or the bare name of a recipe that does. */
static char *recipe_path(const char *name)
{
	if (path_exists(name) || strpbrk(name, "/.")) return path_or_installed(name);
	char *shipped = xasprintf("recipes/%s.yaml", name), *path = path_installed(shipped);
	free(shipped);
	return path ? path : xstrdup(name);
}

static int apply_recipe(const struct parse *p, const char *option, const char *name)
{
	char *path = recipe_path(name), *where = xasprintf("%s: ", path);
	json_t *recipe = NULL;
	int rc = yaml_load(path, &recipe, p->err);
	if (rc) err_prefix(p->err, "--%s", option);
	const char *key;
	json_t *value;
	json_object_foreach(recipe, key, value)
	{
		const struct option_def *d = find(p, key, strlen(key));
		rc = d ? set_json(p, where, d, value) : unknown(p, where, key, strlen(key));
		if (rc) break;
		if (!json_is_null(value)) mark(p, d, GIVEN_RECIPE);
	}
	json_decref(recipe);
	free(where);
	free(path);
	return rc ? (rc == ERR_USAGE ? rc : (err_set(p->err, ERR_USAGE, "%s", p->err ? p->err->text : ""), ERR_USAGE)) : 0;
}

/* ---- the command line ---- */

static void print_default(const struct option_def *d, const void *at)
{
	switch (d->type) {
	case OPTION_BOOL: printf(" [%s]", *(const bool *)at ? "true" : "false"); break;
	case OPTION_INT: printf(" [%lld]", (long long)*(const int64_t *)at); break;
	case OPTION_FLOAT: printf(" [%g]", *(const double *)at); break;
	case OPTION_LIST:
	case OPTION_NEEDS: break;
	case OPTION_STR:
		if (*(const char *const *)at) printf(" [%s]", *(const char *const *)at);
		break;
	}
}

static void print_help(const struct parse *p, const char *summary)
{
	static const char *const types[] = {[OPTION_BOOL] = "",
		[OPTION_INT] = " N",
		[OPTION_FLOAT] = " X",
		[OPTION_STR] = " TEXT",
		[OPTION_LIST] = " TEXT"};
	printf("hone %s: %s\n\noptions (each is also a recipe key; --no-NAME clears a switch):\n", p->command, summary);
	for (size_t i = 0; i < p->count; i++) {
		const struct option_def *d = &p->defs[i];
		if (d->type == OPTION_NEEDS) continue;
		int width = printf("  --%s%s", d->name, types[d->type]);
		printf("%*s%s", width < 34 ? 34 - width : 2, "", d->help);
		if (d->choices) printf(" (%s)", d->choices);
		print_default(d, field(p, d));
		putchar('\n');
	}
	printf("  --recipe TEXT                   YAML file with option names as keys; path or name of one that ships with "
		   "hone, too\n"
		   "  --help                          print this\n");
	options_needs_print(p->command, p->defs, p->count);
}

/* One option from the command line, split at '='. */
struct arg {
	const char *name;  /* (len) behind the dashes; not ended by a 0 */
	const char *value; /* behind '='; NULL: there is none */
	size_t len;        /* of name */
};

static struct arg split(const char *text)
{
	struct arg a = {.name = text + 2, .len = strcspn(text + 2, "=")};
	if (a.name[a.len]) a.value = a.name + a.len + 1;
	return a;
}

/* The value of option i, from "=value" or the next argument. */
static int value_of(const struct parse *p, const struct arg *a, int argc, char **argv, int *i, const char **out)
{
	*out = a->value;
	if (*out) return 0;
	if (*i + 1 >= argc || !strncmp(argv[*i + 1], "--", 2))
		return err_set(p->err, ERR_USAGE, "--%.*s: expected a value (write --%.*s=VALUE if it begins with --)",
			(int)a->len, a->name, (int)a->len, a->name);
	*out = argv[++*i];
	return 0;
}

static bool is_bool_word(const char *s) { return !strcmp(s, "true") || !strcmp(s, "false"); }

static int apply_arg(const struct parse *p, int argc, char **argv, int *i)
{
	struct arg a = split(argv[*i]);
	const struct option_def *d = find(p, a.name, a.len);
	const char *value;
	if (!d && a.len > 3 && same_name(a.name, 3, "no_")) {
		d = find(p, a.name + 3, a.len - 3);
		if (!d || d->type != OPTION_BOOL) return unknown(p, "", a.name, a.len);
		if (a.value)
			return err_set(p->err, ERR_USAGE, "--%.*s: takes no value, found \"%s\"", (int)a.len, a.name, a.value);
		*(bool *)field(p, d) = false;
		return 0;
	}
	if (!d) return unknown(p, "", a.name, a.len);
	mark(p, d, GIVEN_LINE);
	if (d->type == OPTION_BOOL && !a.value && !(*i + 1 < argc && is_bool_word(argv[*i + 1])))
		return set_text(p, "", d, "true");
	int rc = value_of(p, &a, argc, argv, i, &value);
	return rc ? rc : set_text(p, "", d, value);
}

/* Finds --help and --recipe before anything is applied, so that their place on the line does not
 * matter. */
static int first_pass(const struct parse *p, const char *summary, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			print_help(p, summary);
			return 1;
		}
	}
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		struct arg a = strncmp(argv[i], "--", 2) ? (struct arg){0} : split(argv[i]);
		if (!a.name || !same_name(a.name, a.len, "recipe")) continue;
		const char *name;
		int rc = value_of(p, &a, argc, argv, &i, &name);
		if (!rc) rc = apply_recipe(p, "recipe", name);
		if (rc) return rc;
	}
	return 0;
}

/* The command line behind its recipe; *npos: the positional words, left in argv[1..*npos]. */
static int line_parse(const struct parse *p, int argc, char **argv, int *npos)
{
	int found = 0;
	for (int i = 1; i < argc; i++) {
		char *text = argv[i];
		/* Behind a lone -- everything is positional, whatever it begins with. */
		if (!strcmp(text, "--")) {
			while (++i < argc) argv[1 + found++] = argv[i];
			break;
		}
		if (text[0] != '-' || !text[1]) {
			argv[1 + found++] = text;
			continue;
		}
		if (text[1] != '-')
			return err_set(p->err, ERR_USAGE,
				"%s: unknown option; options begin with --, and positional words that begin with - follow a lone --",
				text);
		struct arg a = split(text);
		/* The recipe was applied in the first pass; only its value has to be stepped over. */
		const char *ignored;
		int rc = same_name(a.name, a.len, "recipe") ? value_of(p, &a, argc, argv, &i, &ignored)
													: apply_arg(p, argc, argv, &i);
		if (rc) return rc;
	}
	*npos = found;
	return 0;
}

int options_parse(const char *command, const char *summary, const struct option_def *defs, size_t count, void *settings,
	int argc, char **argv, int *npos, struct err *err)
{
	struct parse p = {command, defs, count, settings, xcalloc(count + 1, 1), err};
	/* Recipes are applied first, so that what stands on the command line wins over them. */
	int rc = first_pass(&p, summary, argc, argv);
	if (!rc) rc = line_parse(&p, argc, argv, npos);
	if (!rc) rc = options_idle(command, defs, count, settings, p.given, *npos > 0 ? argv[1] : NULL, err);
	free(p.given);
	return rc;
}

int options_recipe(const char *command, const char *option, const struct option_def *defs, size_t count, void *settings,
	const char *recipe, struct err *err)
{
	struct parse p = {command, defs, count, settings, NULL, err};
	return apply_recipe(&p, option, recipe);
}

static json_t *list_json(const struct option_list *l)
{
	json_t *list = json_array();
	for (int i = 0; i < l->count; i++) json_array_append_new(list, json_string(l->items[i]));
	return list;
}

json_t *options_json(const struct option_def *defs, size_t count, const void *settings)
{
	json_t *o = json_object();
	for (size_t i = 0; i < count; i++) {
		if (defs[i].type == OPTION_NEEDS) continue;
		const void *at = (const char *)settings + defs[i].offset;
		const char *text = defs[i].type == OPTION_STR ? *(const char *const *)at : NULL;
		json_t *v = NULL;
		switch (defs[i].type) {
		case OPTION_BOOL: v = json_boolean(*(const bool *)at); break;
		case OPTION_INT: v = json_integer(*(const int64_t *)at); break;
		case OPTION_FLOAT: v = json_real(*(const double *)at); break;
		case OPTION_STR: v = text ? json_string(text) : json_null(); break;
		case OPTION_LIST: v = list_json(at); break;
		case OPTION_NEEDS: break;
		}
		json_object_set_new(o, defs[i].name, v ? v : json_null());
	}
	return o;
}
