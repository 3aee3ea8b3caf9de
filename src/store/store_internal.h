/* store_internal: what store.c (opening, transactions, cache) and store_runs.c (runs, metrics,
 * samples) share. */
#ifndef HONE_STORE_INTERNAL_H
#define HONE_STORE_INTERNAL_H
#include "base/base.h"
#include "store/store.h"
#include <pthread.h>
#include <sqlite3.h>

struct store {
	sqlite3 *db;
	pthread_mutex_t lock;
	char *path;
	bool is_written; /* else it was opened to be read alone */
};

void store_lock(struct store *s);
void store_unlock(struct store *s);
/* Error text names the file, what was attempted and SQLite's own words. Returns ERR_IO. */
int store_fail(struct store *s, const char *what, struct err *err);

/* One statement: parameters are bound in order by the format's letters: i int64_t, t const char *,
 * b (const void *, size_t) as a blob. */
int store_prepare(struct store *s, sqlite3_stmt **st, struct err *err, const char *sql, const char *format, ...);
/* Runs a statement that returns no rows. */
int store_exec(struct store *s, struct err *err, const char *sql, const char *format, ...);
#endif
