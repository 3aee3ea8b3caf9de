/* hone report: one HTML file about the runs in a store. */
#include "cli/cli.h"
#include "base/base.h"
#include "report/report.h"
#include "store/store.h"

/* Values of the options below, whose help says what each is. */
struct report_settings {
	const char *store;
	const char *out;
	const char *title;
	const char *tables;
	int64_t samples;
	int64_t steps;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct report_settings, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, store, "SQLite file of the runs, or a folder that holds it as hone.db", NULL),
	O(OPTION_STR, out, "HTML file to write", NULL),
	O(OPTION_STR, title, "heading", NULL),
	O(OPTION_STR, tables, "JSON file with extra tables: [{title, columns, rows}]", NULL),
	O(OPTION_INT, samples, "answers shown per shown step", "0 to 2147483647"),
	O(OPTION_INT, steps, "steps whose answers are shown", "0 to 2147483647"),
};

static int tables_check(const json_t *tables, const char *path, struct err *err)
{
	bool is_good = json_is_array(tables);
	size_t i, k;
	json_t *t, *row;
	json_array_foreach(tables, i, t)
	{
		is_good &= json_is_array(json_object_get(t, "columns")) && json_is_array(json_object_get(t, "rows"));
		json_array_foreach(json_object_get(t, "rows"), k, row) is_good &= json_is_array(row);
	}
	return is_good
		? 0
		: err_set(err, ERR_FORMAT,
			  "%s: expected [{\"title\": text, \"columns\": [text, ...], \"rows\": [[cell, ...], ...]}, ...]", path);
}

int cmd_report(int argc, char **argv)
{
	struct report_settings o = {.out = "report.html", .title = "hone", .samples = 4, .steps = 6};
	struct err err = {0};
	struct store *s = NULL;
	json_t *tables = NULL;
	int npos,
		rc = options_parse("report", "write one HTML file about the runs in a store", defs, ARRAY_LEN(defs), &o, argc,
			argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc && !o.store)
		rc = err_set(
			&err, ERR_USAGE, "--store is missing: name a run's folder or its SQLite file (<output_dir>/hone.db)");
	if (!rc) rc = cli_out_check(o.out, CLI_OUT_FILE, &err);
	/* Extra tables are read and checked before anything is written. */
	if (!rc && o.tables) rc = json_load(o.tables, 1 << 24, &tables, &err);
	if (!rc && o.tables) rc = tables_check(tables, o.tables, &err);
	/* A report about a new, empty store would say nothing. */
	if (!rc && (rc = store_open_existing(o.store, &s, &err))) err_prefix(&err, "--store");
	struct report_options ro = {
		.title = o.title, .samples_per_step_max = (int)o.samples, .steps_shown_max = (int)o.steps};
	if (!rc) rc = report_write(s, NULL, 0, tables, &ro, o.out, &err);
	if (!rc) printf("%s\n", o.out);
	store_close(s);
	json_decref(tables);
	return rc ? cli_fail("report", &err) : 0;
}
