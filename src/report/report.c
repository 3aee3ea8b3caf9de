/* The report is written in one go from the store: settings, charts (a table says
 * which metrics), failure reasons over steps, answers with verdicts, extra tables. */
#include "report/report.h"
#include "base/base.h"
#include "report/chart.h"
#include "store/store.h"

#include <math.h>
#include <stdlib.h>

static const struct {
	const char *metric; /* a name of the store's metrics */
	const char *title;
} charts[] = {
	{"reward", "reward (mean)"},
	{"genuine", "pass rate: share of genuine answers"},
	{"reward_std", "reward (standard deviation)"},
	{"speedup", "model speedup of genuine answers"},
	{"completions/mean_length", "answer length, tokens (mean)"},
	{"eval/genuine", "dev tasks solved greedily inside the run"},
	{"midend/faster", "share of genuine answers that are faster than the kernel given"},
	{"midend/slower", "share of genuine answers that are slower"},
	{"midend/speedup_geomean", "speedup over the kernel given (geometric mean)"},
	{"turns/solved", "share of episodes with a genuine answer"},
	{"turns/2/genuine", "share of second turns that are genuine"},
	{"turns/mean", "turns of an episode (mean)"},
	{"discoveries", "share of groups whose commonest answer fails and another succeeds"},
	{"completions/clipped_ratio", "share of answers cut by length"},
	{"completions/malformed_ratio", "share of answers without plan and code block"},
	{"completions/degenerate_ratio", "share of answers that go in circles"},
	{"hack", "share of answers that cheat"},
	{"prompts/solved", "structures that are solved nearly always"},
	{"prompts/hopeless", "structures that are hardly ever solved"},
	{"replay/unique", "unique genuine answers in the buffer"},
	{"replay/loss", "log-loss on the buffer"},
	{"levels/1/rate", "success rate on level 1"},
	{"levels/2/rate", "success rate on level 2"},
	{"levels/3/rate", "success rate on level 3"},
	{"entropy", "entropy, nats per token (estimated by the sampled ones)"},
	{"kl", "KL to the reference policy"},
	{"sampling/trained_logp_difference/mean", "sampler-trainer gap of log-probabilities (mean)"},
	{"sampling/trained_logp_difference/max", "sampler-trainer gap of log-probabilities (max)"},
	{"frac_reward_zero_std", "share of groups without variance"},
	{"loss", "loss"},
	{"eval_loss", "held-out loss"},
	{"grad_norm", "gradient norm"},
	{"learning_rate", "learning rate"},
	{"step_time", "seconds per step"},
};

static const char style[] =
	"body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1320px;padding:0 1em;color:#1f2328}"
	"h1{font-size:1.5em}h2{margin-top:2em;border-bottom:1px solid #d0d7de}"
	"figure{display:inline-block;margin:.5em;vertical-align:top}figcaption{font-weight:600}.legend{margin:0;font-size:"
	"12px}"
	"svg text{font:10px system-ui;fill:#57606a}.grid{stroke:#d8dee4}"
	"table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #d0d7de;padding:.2em .6em;text-align:left}"
	"td.n{text-align:right;font-variant-numeric:tabular-nums}"
	"pre{background:#f6f8fa;padding:.8em;overflow:auto;font-size:12px}details{margin:.4em 0}summary{cursor:pointer}"
	".genuine{color:#1a7f37}.other{color:#d1242f}";

struct run_data {
	int64_t id;
	const char *name;
	const json_t *config;
	json_t *metrics; /* array of {step, values} in step order */
	json_t *samples; /* array of {step, index, sample} that are shown */
	json_t *reasons; /* step -> {reason -> count} */
	size_t ntimes;
	struct chart_point *times; /* of each timed verdict: logarithms of predicted and measured microseconds */
	size_t nspeedups;
	/* Of those whose reference was timed too: logarithms of both speedups against eager. */
	struct chart_point *speedups;
	const struct report_options *o;
	int64_t last_step;   /* of the run */
	int64_t shown_every; /* steps between two whose samples are shown */
};

/* ---- reading ---- */

static int add_metrics(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct run_data *d = ctx;
	d->last_step = MAX(d->last_step, step);
	return json_array_append_new(d->metrics, json_pack("{s:I, s:O}", "step", (json_int_t)step, "values", row));
}

static bool is_step_shown(const struct run_data *d, int64_t step)
{
	return step == 1 || step == d->last_step || step % d->shown_every == 0;
}

#define TIMES_MAX 20000 /* dots: more show nothing more */
static void point_add(struct chart_point **points, size_t *n, double predicted, double measured)
{
	*points = xrealloc(*points, size_mul(*n + 1, sizeof **points));
	(*points)[(*n)++] = (struct chart_point){log10(predicted), log10(measured)};
}

/* Both times are of the sizes that were judged and timed. */
static void times_add(struct run_data *d, const json_t *verdict)
{
	const json_t *device = json_object_get(verdict, "device"),
				 *eager = json_object_get(json_object_get(device, "references"), "eager");
	double predicted = json_number_value(json_object_get(device, "predicted_s")),
		   measured = json_number_value(json_object_get(device, "time_s")),
		   eager_predicted = json_number_value(json_object_get(device, "eager_predicted_s")),
		   speedup = json_number_value(json_array_get(json_object_get(eager, "speedup"), 0));
	if (!(predicted > 0) || !(measured > 0) || d->ntimes == TIMES_MAX) return;
	point_add(&d->times, &d->ntimes, predicted * 1e6, measured * 1e6);
	if (eager_predicted > 0 && speedup > 0)
		point_add(&d->speedups, &d->nspeedups, eager_predicted / predicted, speedup);
}

static int add_sample(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct run_data *d = ctx;
	const json_t *v = json_object_get(row, "verdict");
	const char *class = json_string_value(json_object_get(v, "verdict")),
			   *reason = json_string_value(json_object_get(v, "reason"));
	char step_key[32], key[128];
	snprintf(step_key, sizeof step_key, "%lld", (long long)step);
	snprintf(key, sizeof key, "%s%s%s", class ? class : "?", reason && *reason ? "/" : "", reason ? reason : "");
	json_t *of_step = json_object_get(d->reasons, step_key);
	if (!of_step) json_object_set_new(d->reasons, step_key, of_step = json_object());
	times_add(d, v);
	json_object_set_new(of_step, key, json_integer(json_integer_value(json_object_get(of_step, key)) + 1));
	if (is_step_shown(d, step) && index < d->o->samples_per_step_max)
		json_array_append_new(d->samples,
			json_pack("{s:I, s:I, s:O}", "step", (json_int_t)step, "index", (json_int_t)index, "sample", row));
	return 0;
}

static int run_read(struct store *s, struct run_data *d, struct err *err)
{
	d->metrics = json_array();
	d->samples = json_array();
	d->reasons = json_object();
	int rc = store_metrics_each(s, d->id, add_metrics, d, err);
	d->shown_every = MAX(1, d->last_step / MAX(1, d->o->steps_shown_max));
	return rc ? rc : store_samples_each(s, d->id, add_sample, d, err);
}

/* ---- writing ---- */

static void put_text(struct str *out, const char *text) { html_escape(out, text, strlen(text)); }

static size_t series_of(const struct run_data *d, const char *metric, struct chart_point *points)
{
	size_t n = 0, i;
	json_t *row;
	json_array_foreach(d->metrics, i, row)
	{
		json_t *v = json_object_get(json_object_get(row, "values"), metric);
		if (json_is_number(v))
			points[n++] = (struct chart_point){
				(double)json_integer_value(json_object_get(row, "step")), json_number_value(v)};
	}
	return n;
}

static void put_charts(struct str *out, const struct run_data *runs, size_t count)
{
	struct chart_series *series = xcalloc(MAX(count, 1), sizeof *series);
	struct chart_point **points = xcalloc(MAX(count, 1), sizeof *points);
	for (size_t r = 0; r < count; r++) points[r] = xcalloc(json_array_size(runs[r].metrics) + 1, sizeof **points);
	str_puts(out, "<h2>Over steps</h2>\n");
	for (size_t c = 0; c < ARRAY_LEN(charts); c++) {
		size_t used = 0;
		for (size_t r = 0; r < count; r++) {
			size_t n = series_of(&runs[r], charts[c].metric, points[r]);
			if (n) series[used++] = (struct chart_series){runs[r].name, points[r], n};
		}
		if (used) chart_svg(out, charts[c].title, series, used);
	}
	for (size_t r = 0; r < count; r++) free(points[r]);
	free(points);
	free(series);
}

/* Kendall's tau-b of at most TAU_MAX pairs, the first ones: 1 where the model orders them as
 * the GPU does, 0 by chance.
 */
#define TAU_MAX 4000
static double tau_b(const struct chart_point *points, size_t count)
{
	double sum = 0, x_pairs = 0, y_pairs = 0;
	for (size_t i = 0; i < MIN(count, TAU_MAX); i++)
		for (size_t k = 0; k < i; k++) {
			int x = (points[i].x > points[k].x) - (points[i].x < points[k].x),
				y = (points[i].y > points[k].y) - (points[i].y < points[k].y);
			sum += x * y;
			x_pairs += x != 0;
			y_pairs += y != 0;
		}
	return x_pairs > 0 && y_pairs > 0 ? sum / sqrt(x_pairs * y_pairs) : NAN;
}

static void put_tau(struct str *out, const struct chart_point *points, size_t count)
{
	double tau = tau_b(points, count);
	if (isnan(tau)) str_puts(out, "<td></td>");
	else str_printf(out, "<td class=\"n\">%.3f</td>", tau);
}

/* Predicted beside measured times: what the cost model is worth on this machine, in
 * every run that measures. */
static void put_times(struct str *out, const struct run_data *runs, size_t count)
{
	struct chart_series *series = xcalloc(MAX(count, 1), sizeof *series);
	const struct run_data **timed = xcalloc(MAX(count, 1), sizeof(struct run_data *));
	size_t used = 0;
	for (size_t r = 0; r < count; r++)
		if (runs[r].ntimes) {
			timed[used] = &runs[r];
			series[used++] = (struct chart_series){runs[r].name, runs[r].times, runs[r].ntimes};
		}
	/* Nothing is drawn where no run has timed verdicts. */
	if (used) {
		str_puts(out, "<h2>Predicted and measured times</h2>\n");
		chart_pairs_svg(out, "log10 of microseconds: predicted to the right, measured upwards", series, used);
		str_puts(out,
			"<table><tr><th>run</th><th>timed verdicts</th><th>measured / predicted, median</th><th>from</th>"
			"<th>to (nine tenths)</th><th>Kendall's tau of the times</th><th>of the speedups against eager</th></tr>");
	}
	/* How far the cost model is off, by run: median and the middle nine tenths. */
	for (size_t r = 0; r < used; r++) {
		size_t n = series[r].count;
		double *ratio = xcalloc(n, sizeof *ratio);
		for (size_t i = 0; i < n; i++) ratio[i] = pow(10, series[r].points[i].y - series[r].points[i].x);
		doubles_sort(ratio, n);
		str_puts(out, "<tr><td>");
		put_text(out, series[r].name);
		str_printf(out,
			"</td><td class=\"n\">%zu</td><td class=\"n\">%.3g</td><td class=\"n\">%.3g</td><td "
			"class=\"n\">%.3g</td>",
			n, ratio[n / 2], ratio[n / 20], ratio[n - 1 - n / 20]);
		put_tau(out, timed[r]->times, timed[r]->ntimes);
		put_tau(out, timed[r]->speedups, timed[r]->nspeedups);
		str_puts(out, "</tr>");
		free(ratio);
	}
	if (used) str_puts(out, "</table>\n");
	free(timed);
	free(series);
}

static void put_config(struct str *out, const struct run_data *d)
{
	const char *key;
	json_t *value;
	str_puts(out, "<details><summary>Settings of ");
	put_text(out, d->name);
	str_puts(out, "</summary><table>");
	json_object_foreach((json_t *)d->config, key, value)
	{
		char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_AS_WRITTEN);
		str_puts(out, "<tr><td>");
		put_text(out, key);
		str_puts(out, "</td><td>");
		put_text(out, text ? text : "");
		str_puts(out, "</td></tr>");
		free(text);
	}
	str_puts(out, "</table></details>\n");
}

/* Reasons by tenth of the run: shares of answers. */
enum { BUCKETS = 10 };
static void put_reasons(struct str *out, const struct run_data *d)
{
	json_t *table = json_object(), *counts, *value; /* reason -> [count per bucket] */
	double totals[BUCKETS] = {0};
	const char *step_key, *key;
	/* Counts of all steps of a tenth are added up, each reason in a row of its own. */
	json_object_foreach(d->reasons, step_key, counts)
	{
		int b = (int)MIN(BUCKETS - 1, (atoll(step_key) - 1) * BUCKETS / MAX(1, d->last_step));
		json_object_foreach(counts, key, value)
		{
			json_t *row = json_object_get(table, key);
			if (!row) {
				json_object_set_new(table, key, row = json_array());
				for (int i = 0; i < BUCKETS; i++) json_array_append_new(row, json_integer(0));
			}
			json_integer_set(json_array_get(row, (size_t)b),
				json_integer_value(json_array_get(row, (size_t)b)) + json_integer_value(value));
			totals[b] += (double)json_integer_value(value);
		}
	}
	/* A run without verdicts gets no table at all. A tenth without answers has no shares: empty
	 * cells. */
	if (json_object_size(table)) {
		str_puts(out, "<h3>Verdicts over the run (share of answers, by tenth of the steps): ");
		put_text(out, d->name);
		str_puts(out, "</h3><table><tr><th>verdict/reason</th>");
		for (int b = 0; b < BUCKETS; b++) str_printf(out, "<th>%d %%</th>", (b + 1) * 100 / BUCKETS);
		str_puts(out, "</tr>");
		json_object_foreach(table, key, value)
		{
			str_puts(out, "<tr><td>");
			put_text(out, key);
			str_puts(out, "</td>");
			for (size_t b = 0; b < BUCKETS; b++) {
				double n = (double)json_integer_value(json_array_get(value, b));
				if (totals[b] > 0) str_printf(out, "<td class=\"n\">%.3f</td>", n / totals[b]);
				else str_puts(out, "<td></td>");
			}
			str_puts(out, "</tr>");
		}
		str_puts(out, "</table>\n");
	}
	json_decref(table);
}

static void put_sample(struct str *out, const json_t *row)
{
	const json_t *s = json_object_get(row, "sample"), *v = json_object_get(s, "verdict"),
				 *answer = json_object_get(s, "answer");
	const char *class = json_string_value(json_object_get(v, "verdict")),
			   *reason = json_string_value(json_object_get(v, "reason")),
			   *detail = json_string_value(json_object_get(v, "detail"));
	const char *task = json_string_value(json_object_get(s, "task"));
	/* The summary line has the verdict, so that samples can be scanned without being opened. */
	bool is_genuine = class && !strcmp(class, "genuine");
	str_printf(out, "<details><summary>step %lld, answer %lld, ",
		(long long)json_integer_value(json_object_get(row, "step")),
		(long long)json_integer_value(json_object_get(row, "index")));
	put_text(out, task ? task : "");
	str_printf(out, ": <b class=\"%s\">", is_genuine ? "genuine" : "other");
	put_text(out, class ? class : "?");
	str_puts(out, "</b> ");
	put_text(out, reason ? reason : "");
	str_puts(out, "</summary>");
	if (detail && *detail) {
		str_puts(out, "<p>");
		put_text(out, detail);
		str_puts(out, "</p>");
	}
	/* The answer goes by its length, not as a C string: what a model wrote may hold any byte. */
	str_puts(out, "<pre>");
	html_escape(out, answer ? json_string_value(answer) : "", answer ? json_string_length(answer) : 0);
	str_puts(out, "</pre></details>\n");
}

static void put_table(struct str *out, const json_t *table)
{
	const char *title = json_string_value(json_object_get(table, "title"));
	size_t i, k;
	json_t *row, *cell;
	/* The heads of the columns come first; every text is escaped, as a table comes from outside. */
	str_puts(out, "<h2>");
	put_text(out, title ? title : "Table");
	str_puts(out, "</h2><table><tr>");
	json_array_foreach(json_object_get(table, "columns"), k, cell)
	{
		str_puts(out, "<th>");
		put_text(out, json_is_string(cell) ? json_string_value(cell) : "");
		str_puts(out, "</th>");
	}
	str_puts(out, "</tr>");
	/* Numbers are set to the right with four digits; a cell of any other type stays empty. */
	json_array_foreach(json_object_get(table, "rows"), i, row)
	{
		str_puts(out, "<tr>");
		json_array_foreach(row, k, cell)
		{
			if (json_is_number(cell)) str_printf(out, "<td class=\"n\">%.4g</td>", json_number_value(cell));
			else {
				str_puts(out, "<td>");
				put_text(out, json_is_string(cell) ? json_string_value(cell) : "");
				str_puts(out, "</td>");
			}
		}
		str_puts(out, "</tr>");
	}
	str_puts(out, "</table>\n");
}

static void put_runs(struct str *out, const struct run_data *runs, size_t count)
{
	for (size_t r = 0; r < count; r++) put_config(out, &runs[r]);
	put_charts(out, runs, count);
	put_times(out, runs, count);
	str_puts(out, "<h2>Failure reasons</h2>\n");
	for (size_t r = 0; r < count; r++) put_reasons(out, &runs[r]);
	str_puts(out, "<h2>Sample answers</h2>\n");
	for (size_t r = 0; r < count; r++) {
		size_t i;
		json_t *row;
		if (!json_array_size(runs[r].samples)) continue;
		str_puts(out, "<h3>");
		put_text(out, runs[r].name);
		str_puts(out, "</h3>\n");
		json_array_foreach(runs[r].samples, i, row) put_sample(out, row);
	}
}

static bool is_wanted(int64_t id, const int64_t *runs, size_t count)
{
	for (size_t i = 0; runs && i < count; i++)
		if (runs[i] == id) return true;
	return runs == NULL;
}

int report_write(struct store *s, const int64_t *wanted, size_t nwanted, const json_t *tables,
	const struct report_options *o, const char *path, struct err *err)
{
	json_t *list = NULL, *row;
	int rc = store_runs(s, &list, err);
	if (rc) return rc;
	struct run_data *runs = xcalloc(json_array_size(list) + 1, sizeof *runs);
	size_t count = 0, i;
	/* The wanted runs are read whole; after an error the rest of the list is only stepped over. */
	json_array_foreach(list, i, row)
	{
		int64_t id = json_integer_value(json_object_get(row, "id"));
		const char *name = json_string_value(json_object_get(row, "name"));
		if (rc || !is_wanted(id, wanted, nwanted)) continue;
		runs[count] = (struct run_data){
			.id = id, .name = name ? name : "run", .config = json_object_get(row, "config"), .o = o};
		rc = run_read(s, &runs[count++], err);
	}
	if (!rc && count == 0)
		rc = err_set(err, ERR_NOT_FOUND, "the store holds no run to report on; `hone sft` and `hone rl` write them");
	if (!rc) {
		/* The page is built in memory and written in one go, so that no half report is left
		 * behind. */
		struct str out = {0};
		str_puts(&out, "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>");
		put_text(&out, o->title);
		str_printf(&out, "</title><style>%s</style><h1>", style);
		put_text(&out, o->title);
		str_puts(&out, "</h1>\n");
		json_array_foreach(tables, i, row) put_table(&out, row);
		put_runs(&out, runs, count);
		str_puts(&out, "</html>\n");
		rc = file_write_atomic(path, out.data, out.len, err);
		str_release(&out);
	}
	/* Name and config belong to the list of runs, so only what was read for each run is given
	 * back. */
	for (i = 0; i < count; i++) {
		json_decref(runs[i].metrics);
		json_decref(runs[i].samples);
		json_decref(runs[i].reasons);
		free(runs[i].times);
		free(runs[i].speedups);
	}
	free(runs);
	json_decref(list);
	return rc;
}
