/* Options that do nothing are refused, because who writes one believes that it does something. What
 * an option needs is a row of the command's table, so that the check, its message and --help say
 * the same. A recipe is written for more than one combination (an ablation switches a part off on
 * the command line), so its keys may stand idle, and are told. */
#include "base/base.h"
#include "base/options_idle.h"
#include <stdlib.h>

struct table {
	const char *command;
	const struct option_def *defs;
	size_t count;
	const void *settings;
	const char *word;
};

/* A part of a condition, or a name of a list: from *at up to the separator, which is stepped over.
 * False at the end. */
static bool part_next(const char **at, const char *separator, struct slice *out)
{
	if (!**at) return false;
	const char *end = strstr(*at, separator);
	out->data = *at;
	out->len = end ? (size_t)(end - *at) : strlen(*at);
	*at += out->len + (end ? strlen(separator) : 0);
	return true;
}

static const struct option_def *option_named(const struct table *t, struct slice name)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->defs[i].type != OPTION_NEEDS && slice_is(name, t->defs[i].name)) return &t->defs[i];
	return NULL;
}

/* ---- conditions ---- */

static bool option_is_on(const struct table *t, const struct option_def *d)
{
	const void *at = (const char *)t->settings + d->offset;
	switch (d->type) {
	case OPTION_BOOL: return *(const bool *)at;
	case OPTION_INT: return *(const int64_t *)at != 0;
	case OPTION_FLOAT: return *(const double *)at != 0;
	case OPTION_STR: return *(const char *const *)at && **(const char *const *)at;
	case OPTION_LIST: return ((const struct option_list *)at)->count > 0;
	case OPTION_NEEDS: break;
	}
	return false;
}

static double option_number(const struct table *t, const struct option_def *d)
{
	const void *at = (const char *)t->settings + d->offset;
	return d->type == OPTION_INT ? (double)*(const int64_t *)at : *(const double *)at;
}

static bool option_text_is(const struct table *t, const struct option_def *d, struct slice want)
{
	const char *text = *(const char *const *)((const char *)t->settings + d->offset);
	bool is_prefix = want.len && want.data[want.len - 1] == '*';
	if (is_prefix) want.len--;
	return text && !strncmp(text, want.data, want.len) && (is_prefix || !text[want.len]);
}

/* An atom's option, comparison and right side; a table that lacks the option never has it set. */
struct atom {
	struct slice name;
	char compare; /* 0: none; '>', '=' or '!' for != */
	struct slice value;
};

static struct atom atom_of(struct slice part)
{
	size_t n = 0;
	while (n < part.len && part.data[n] != '>' && part.data[n] != '=' && (part.data[n] != '!' || n == 0)) n++;
	struct atom a = {.name = {part.data, n}};
	if (n == part.len) return a;
	a.compare = part.data[n];
	n += a.compare == '!' ? 2 : 1;
	a.value = (struct slice){part.data + n, part.len - n};
	return a;
}

static bool atom_holds(const struct table *t, struct slice part)
{
	const struct slice rest = {part.data + 1, part.len - 1};
	char name[64];
	if (*part.data == '@') return t->word && slice_is(rest, t->word);
	if (*part.data == '!') {
		const struct option_def *d = option_named(t, rest);
		return !d || !option_is_on(t, d);
	}
	if (*part.data == '$') {
		snprintf(name, sizeof name, "%.*s", (int)rest.len, rest.data);
		return getenv(name) != NULL;
	}
	struct atom a = atom_of(part);
	const struct option_def *d = option_named(t, a.name);
	if (!d) return false;
	switch (a.compare) {
	case '>': return option_number(t, d) > strtod(a.value.data, NULL);
	case '=': return option_text_is(t, d, a.value);
	case '!': return !option_text_is(t, d, a.value);
	default: return option_is_on(t, d);
	}
}

static bool condition_holds(const struct table *t, const char *condition)
{
	struct slice part;
	bool is_negative = *condition == '!'; /* then all have to hold */
	if (*condition == '#') return false;
	while (part_next(&condition, " | ", &part))
		if (atom_holds(t, part) != is_negative) return !is_negative;
	return is_negative;
}

/* Whether a condition is about positional words and this command was given none that the table
 * knows: a word that is missing or wrong is the command's own to name. */
static bool is_about_no_word(const struct table *t, const char *condition)
{
	struct slice part;
	if (*condition != '@') return false;
	for (size_t i = 0; t->word && i < t->count; i++) {
		const char *at = t->defs[i].help;
		if (t->defs[i].type != OPTION_NEEDS || *at != '@') continue;
		while (part_next(&at, " | ", &part))
			if (slice_is((struct slice){part.data + 1, part.len - 1}, t->word)) return false;
	}
	return true;
}

/* ---- words ---- */

/* "--num_turns above 1 or --device cuda" */
static void condition_put(const char *command, const char *condition, struct str *out)
{
	struct slice part;
	int verb = (int)strcspn(command, " "); /* of "tasks list|show" the first word */
	for (int n = 0; part_next(&condition, " | ", &part); n++) {
		struct atom a = atom_of(part);
		int value = (int)a.value.len;
		if (n) str_puts(out, " or ");
		if (value && a.value.data[value - 1] == '*') value--;
		if (*part.data == '@') str_printf(out, "`hone %.*s %.*s`", verb, command, (int)part.len - 1, part.data + 1);
		else if (*part.data == '$') str_printf(out, "%.*s", (int)part.len, part.data);
		else str_printf(out, "--%.*s", (int)a.name.len - (*part.data == '!'), a.name.data + (*part.data == '!'));
		if (a.compare)
			str_printf(out, "%s%.*s",
				a.compare == '>'       ? " above "
					: a.compare == '=' ? " "
									   : " other than ",
				value, a.value.data);
	}
}

static int refuse(const struct table *t, const struct option_def *d, const char *condition, struct err *err)
{
	struct str needs = {0};
	if (*condition == '#')
		return err_set(err, ERR_USAGE, "--%s does nothing here (%s): leave it out", d->name, condition + 1);
	condition_put(t->command, condition, &needs);
	if (*condition == '!')
		err_set(err, ERR_USAGE, "--%s does nothing beside %s: leave one of them out", d->name, needs.data);
	else if (*condition == '@')
		err_set(err, ERR_USAGE, "--%s is for %s and does nothing here: leave it out", d->name, needs.data);
	else
		err_set(
			err, ERR_USAGE, "--%s does nothing without %s: add that, or leave --%s out", d->name, needs.data, d->name);
	str_release(&needs);
	return ERR_USAGE;
}

int options_idle(const char *command, const struct option_def *defs, size_t count, const void *settings,
	const uint8_t *given, const char *word, struct err *err)
{
	struct table t = {command, defs, count, settings, word};
	struct str idle = {0};
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		if (defs[i].type != OPTION_NEEDS || is_about_no_word(&t, defs[i].help)) continue;
		if (condition_holds(&t, defs[i].help)) continue;
		/* Of the row's options those that somebody set to something. */
		const char *names = defs[i].name;
		for (struct slice name; !rc && part_next(&names, " ", &name);) {
			const struct option_def *d = option_named(&t, name);
			if (!d || !option_is_on(&t, d)) continue;
			if (given[d - defs] == GIVEN_LINE) rc = refuse(&t, d, defs[i].help, err);
			if (given[d - defs] == GIVEN_RECIPE) str_printf(&idle, "%s%s", idle.len ? ", " : "", d->name);
		}
	}
	if (!rc && idle.len) log_info("keys of the recipe that do nothing in this combination: %s", idle.data);
	str_release(&idle);
	return rc;
}

void options_needs_print(const char *command, const struct option_def *defs, size_t count)
{
	bool is_first = true;
	for (size_t i = 0; i < count; i++) {
		const struct option_def *d = &defs[i];
		struct str line = {0};
		struct slice name;
		if (d->type != OPTION_NEEDS) continue;
		/* "only with --num_turns above 1: turn_template, turn_gamma" */
		if (*d->help == '#') str_puts(&line, d->help + 1);
		else condition_put(command, d->help, &line);
		const char *names = d->name;
		printf("%s%s %s:", is_first ? "\nrefused on the command line where they would do nothing:\n" : "",
			*d->help == '!'       ? "not beside"
				: *d->help == '@' ? "only for"
				: *d->help == '#' ? "never,"
								  : "only with",
			line.data);
		for (int n = 0; part_next(&names, " ", &name); n++) printf("%s %.*s", n ? "," : "", (int)name.len, name.data);
		putchar('\n');
		is_first = false;
		str_release(&line);
	}
}
