/* report: one self-contained HTML file (inline SVG and CSS, no script needed, no network) about
 * runs in a store: reward, pass rate, lengths, KL, entropy, sampler-trainer gap, failure reasons
 * over steps, predicted beside measured times, sample answers with their verdicts. Text
 * from models is escaped. */
#ifndef HONE_REPORT_H
#define HONE_REPORT_H
#include "base/base.h"
#include "store/store.h"

struct report_options {
	const char *title;
	int samples_per_step_max; /* answers shown per shown step */
	int steps_shown_max;
};
/* runs: ids of the store, or NULL for all. Extra tables (evaluations before and after) come as
 * JSON: [{"title", "columns": [..], "rows": [[..]]}] or NULL. */
int report_write(struct store *s, const int64_t *runs, size_t count, const json_t *tables,
	const struct report_options *o, const char *path, struct err *err);
#endif
