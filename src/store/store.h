/* store: SQLite (WAL) file that keeps what must not be lost and what is dear to compute: runs,
 * metrics, samples, and a key-value cache. Several threads may use one struct store: a mutex inside
 * lets one call run at a time. Every write is durable when the call returns (synchronous=FULL), but
 * between store_begin and store_commit. */
#ifndef HONE_STORE_H
#define HONE_STORE_H
#include "base/base.h"

struct store;
/* Makes the file where it is absent. A schema of another version is refused;
 * the message names both. */
int store_open(const char *path, struct store **out, struct err *err);
/* The store of a run's folder, or the one of that name, to be read. ERR_NOT_FOUND where there is
 * none: nothing is made. Where it cannot be written, writing into it fails. */
int store_open_existing(const char *from, struct store **out, struct err *err);
void store_close(struct store *s);
int store_begin(struct store *s, struct err *err);  /* other threads wait until the commit */
int store_commit(struct store *s, struct err *err); /* a commit that fails takes all back */

/* Cache: (kind, key) -> bytes. The rooms that use it have a kind each: "verdict", "compile" and
 * "reference" are the verifier's, "tune" is that of `hone tune`. */
int store_get(struct store *s, const char *kind, const char *key, struct str *out, struct err *err); /* ERR_NOT_FOUND */
int store_put(struct store *s, const char *kind, const char *key, const void *data, size_t len, struct err *err);

/* Runs: config is the recorded settings. A run is known by the real path of
 * its folder; opening it again gives the same id. */
int store_run_open(struct store *s, const char *name, const json_t *config, int64_t *run, struct err *err);
/* One row per (run, step): replaced when written again (a resumed run repeats its last step).
 * Values are TRL's metric names. */
int store_metrics_put(struct store *s, int64_t run, int64_t step, const json_t *values, struct err *err);
/* One row per (run, step, index): prompt name, answer, verdict, rewards. */
int store_sample_put(struct store *s, int64_t run, int64_t step, int64_t index, const json_t *sample, struct err *err);
/* Drops metrics and samples with step > last: what a resumed run will do again. */
int store_run_truncate(struct store *s, int64_t run, int64_t last_step, struct err *err);
/* Calls fn for each row in (step, index) order. */
typedef int store_row_fn(int64_t step, int64_t index, const json_t *row, void *ctx);
int store_metrics_each(struct store *s, int64_t run, store_row_fn *fn, void *ctx, struct err *err);
int store_samples_each(struct store *s, int64_t run, store_row_fn *fn, void *ctx, struct err *err);
int store_runs(struct store *s, json_t **out, struct err *err); /* array of {id, name, created, config} */
#endif
