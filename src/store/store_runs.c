/* store_runs: the runs, their metrics and their samples. Rows are JSON texts with sorted keys, so
 * that equal rows are equal bytes. */
#include "store/store_internal.h"
#include "base/base.h"
#include <stdlib.h>

static char *row_text(const json_t *value)
{
	char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
	CHECKF(text, "a row that is not JSON");
	return text;
}

static int run_find(struct store *s, const char *name, int64_t *run, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(s, &st, err, "SELECT id FROM runs WHERE name = ?", "t", name);
	if (rc) return rc;
	int step = sqlite3_step(st);
	if (step == SQLITE_ROW) *run = sqlite3_column_int64(st, 0);
	else
		rc = step == SQLITE_DONE ? err_set(err, ERR_NOT_FOUND, "store %s: no run %s", s->path, name)
								 : store_fail(s, "reading runs", err);
	sqlite3_finalize(st);
	return rc;
}

int store_run_open(struct store *s, const char *name, const json_t *config, int64_t *run, struct err *err)
{
	char *text = row_text(config);
	store_lock(s);
	/* An existing run keeps the settings it was created with: they are the record of what its first
	 * step used. */
	int rc = store_exec(s, err,
		"INSERT INTO runs (name, created, config) VALUES (?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?) ON CONFLICT "
		"(name) DO NOTHING",
		"tt", name, text);
	if (!rc) rc = run_find(s, name, run, err);
	store_unlock(s);
	free(text);
	return rc;
}

int store_metrics_put(struct store *s, int64_t run, int64_t step, const json_t *values, struct err *err)
{
	char *text = row_text(values);
	store_lock(s);
	int rc = store_exec(s, err,
		"INSERT INTO metrics (run, step, row) VALUES (?, ?, ?) ON CONFLICT (run, step) DO UPDATE SET row = "
		"excluded.row",
		"iit", run, step, text);
	store_unlock(s);
	free(text);
	return rc;
}

int store_sample_put(struct store *s, int64_t run, int64_t step, int64_t index, const json_t *sample, struct err *err)
{
	char *text = row_text(sample);
	store_lock(s);
	int rc = store_exec(s, err,
		"INSERT INTO samples (run, step, idx, row) VALUES (?, ?, ?, ?) ON CONFLICT (run, step, idx) DO UPDATE SET row "
		"= excluded.row",
		"iiit", run, step, index, text);
	store_unlock(s);
	free(text);
	return rc;
}

int store_run_truncate(struct store *s, int64_t run, int64_t last_step, struct err *err)
{
	store_lock(s);
	/* One transaction: a run killed here keeps both or loses both. A savepoint, since the caller
	 * may already be in one; where it cannot be made, there is none to go back to or to release. */
	int rc = store_exec(s, err, "SAVEPOINT truncate_run", "");
	if (!rc) rc = store_exec(s, err, "DELETE FROM metrics WHERE run = ? AND step > ?", "ii", run, last_step);
	if (!rc) rc = store_exec(s, err, "DELETE FROM samples WHERE run = ? AND step > ?", "ii", run, last_step);
	if (rc) sqlite3_exec(s->db, "ROLLBACK TO truncate_run", NULL, NULL, NULL);
	int released = store_exec(s, rc ? NULL : err, "RELEASE truncate_run", "");
	store_unlock(s);
	return rc ? rc : released;
}

static int rows_each(struct store *s, const char *sql, int64_t run, store_row_fn *fn, void *ctx, struct err *err)
{
	store_lock(s);
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(s, &st, err, sql, "i", run);
	int step = SQLITE_DONE;
	while (!rc && (step = sqlite3_step(st)) == SQLITE_ROW) {
		json_t *row = NULL;
		rc = json_parse(
			(const char *)sqlite3_column_text(st, 2), (size_t)sqlite3_column_bytes(st, 2), "stored row", &row, err);
		if (!rc) rc = fn(sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), row, ctx);
		json_decref(row);
	}
	if (!rc && step != SQLITE_DONE) rc = store_fail(s, "reading rows", err);
	sqlite3_finalize(st);
	store_unlock(s);
	return rc;
}

int store_metrics_each(struct store *s, int64_t run, store_row_fn *fn, void *ctx, struct err *err)
{
	return rows_each(s, "SELECT step, 0, row FROM metrics WHERE run = ? ORDER BY step", run, fn, ctx, err);
}

int store_samples_each(struct store *s, int64_t run, store_row_fn *fn, void *ctx, struct err *err)
{
	return rows_each(s, "SELECT step, idx, row FROM samples WHERE run = ? ORDER BY step, idx", run, fn, ctx, err);
}

int store_runs(struct store *s, json_t **out, struct err *err)
{
	store_lock(s);
	sqlite3_stmt *st = NULL;
	json_t *runs = json_array();
	int rc = store_prepare(s, &st, err, "SELECT id, name, created, config FROM runs ORDER BY id", "");
	int step = SQLITE_DONE;
	while (!rc && (step = sqlite3_step(st)) == SQLITE_ROW) {
		json_t *config = NULL;
		rc = json_parse((const char *)sqlite3_column_text(st, 3), (size_t)sqlite3_column_bytes(st, 3),
			"stored settings", &config, err);
		if (!rc)
			json_array_append_new(runs,
				json_pack("{s:I, s:s, s:s, s:o}", "id", (json_int_t)sqlite3_column_int64(st, 0), "name",
					sqlite3_column_text(st, 1), "created", sqlite3_column_text(st, 2), "config", config));
	}
	if (!rc && step != SQLITE_DONE) rc = store_fail(s, "reading runs", err);
	sqlite3_finalize(st);
	store_unlock(s);
	if (rc) json_decref(runs);
	else *out = runs;
	return rc;
}
