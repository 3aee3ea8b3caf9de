/* The report over a store made here, with text that wants out of its element: nothing of
 * it may become markup, every chart of a metric that is there appears, and tags nest. */
#include "report/report.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include "../leaks.h"

#define HOSTILE "</pre></td></title><script>alert(\"1\")</script><img src=x onerror='y'>&amp;"

struct fixture {
	char dir[64];
	char *store_path, *html_path;
	struct store *store;
	struct str html;
};

/* Metrics of TRL's names that the report draws, as `hone rl` and `hone sft` write them, and their
 * headings. */
static const struct {
	const char *metric, *heading;
} drawn[] = {
	{"reward", "reward (mean)"},
	{"genuine", "pass rate"},
	{"reward_std", "reward (standard deviation)"},
	{"speedup", "model speedup"},
	{"completions/mean_length", "answer length"},
	{"completions/clipped_ratio", "cut by length"},
	{"entropy", "entropy"},
	{"kl", "KL to the reference"},
	{"sampling/trained_logp_difference/mean", "log-probabilities (mean)"},
	{"sampling/trained_logp_difference/max", "log-probabilities (max)"},
	{"frac_reward_zero_std", "without variance"},
	{"loss", "loss"},
	{"eval_loss", "held-out loss"},
	{"grad_norm", "gradient norm"},
	{"learning_rate", "learning rate"},
	{"step_time", "seconds per step"},
};
enum { STEPS = 12, SAMPLES = 3 };

static json_t *metrics_of(int step)
{
	json_t *m = json_pack("{s:i}", "step", step);
	/* null: a number that was not finite */
	for (size_t i = 0; i < ARRAY_LEN(drawn); i++)
		json_object_set_new(m, drawn[i].metric, step % 5 == 0 ? json_null() : json_real(step * 0.25));
	return m;
}

static json_t *sample_of(int step, int i)
{
	static const char *const verdicts[] = {"genuine", "wrong", "<b>invalid"};
	return json_pack("{s:s, s:s, s:{s:s, s:s, s:s}}", "task", HOSTILE, "answer",
		step == 1 ? HOSTILE : "plan\n```python\nx < 1 & y\n```\n", "verdict", "verdict", verdicts[i % 3], "reason",
		i ? HOSTILE : "", "detail", HOSTILE);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);
	struct err err = {0};
	int64_t run;
	strcpy(f->dir, "/tmp/hone-test-report-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	f->store_path = path_join(f->dir, "hone.db");
	f->html_path = path_join(f->dir, "report.html");
	/* A store with one run whose every text is hostile. */
	json_t *config = json_pack("{s:s, s:i}", HOSTILE, HOSTILE, "seed", 3);
	int rc = store_open(f->store_path, &f->store, &err);
	if (!rc) rc = store_run_open(f->store, "runs/" HOSTILE, config, &run, &err);
	for (int s = 1; !rc && s <= STEPS; s++) {
		json_t *m = metrics_of(s);
		rc = store_metrics_put(f->store, run, s, m, &err);
		json_decref(m);
		for (int i = 0; !rc && i < SAMPLES; i++) {
			json_t *row = sample_of(s, i);
			rc = store_sample_put(f->store, run, s, i, row, &err);
			json_decref(row);
		}
	}
	json_decref(config);
	if (rc) fail_msg("%s", err.text);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	store_close(f->store);
	dir_remove(f->dir, NULL);
	str_release(&f->html);
	free(f->store_path);
	free(f->html_path);
	free(f);
	return 0;
}

static void write_report(struct fixture *f, const json_t *tables, int samples, int steps)
{
	struct err err = {0};
	struct report_options o = {.title = "t " HOSTILE, .samples_per_step_max = samples, .steps_shown_max = steps};
	if (report_write(f->store, NULL, 0, tables, &o, f->html_path, &err)) fail_msg("%s", err.text);
	if (file_read(f->html_path, 1 << 24, &f->html, &err)) fail_msg("%s", err.text);
}

static int count_of(const char *text, const char *part)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, part)); p++) n++;
	return n;
}

static void write_again(void *fixture)
{
	struct fixture *f = fixture;
	str_release(&f->html);
	write_report(f, NULL, 3, 6);
}

static void test_leaves_nothing(void **state) { leaves_nothing(write_again, *state); }

static void test_nothing_escapes(void **state)
{
	struct fixture *f = *state;
	json_t *tables = json_pack(
		"[{s:s, s:[s,s], s:[[s,f],[s,i]]}]", "title", HOSTILE, "columns", HOSTILE, "n", "rows", HOSTILE, 0.5, "b", 3);
	write_report(f, tables, 3, 6);
	json_decref(tables);
	assert_null(strcasestr(f->html.data, "<script"));
	assert_null(strcasestr(f->html.data, "<img"));
	assert_null(strstr(f->html.data, "<b>invalid"));
	assert_non_null(strstr(f->html.data, "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;"));
	assert_non_null(strstr(f->html.data, "&amp;amp;")); /* what was an entity in the text stays those characters */
	assert_null(strstr(f->html.data, "http"));          /* no network: one file that needs nothing else */
}

static void test_charts_are_there(void **state)
{
	struct fixture *f = *state;
	write_report(f, NULL, 3, 6);
	for (size_t i = 0; i < ARRAY_LEN(drawn); i++) {
		char *caption = strstr(f->html.data, drawn[i].heading);
		if (!caption) fail_msg("no chart for %s", drawn[i].metric);
	}
	assert_int_equal(count_of(f->html.data, "<svg"), (int)ARRAY_LEN(drawn));
	assert_null(strstr(f->html.data, "nan"));
	assert_null(strstr(f->html.data, "inf\""));
}

/* A metric that is nowhere has no chart: an empty frame would say that it was measured. */
static void test_no_empty_chart(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t"};
	int64_t run;
	json_t *config = json_object(), *m = json_pack("{s:i, s:f, s:n}", "step", 1, "loss", 1.5, "reward");
	if (store_run_open(f->store, "second", config, &run, &err) || store_metrics_put(f->store, run, 1, m, &err))
		fail_msg("%s", err.text);
	if (report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
	assert_int_equal(count_of(f->html.data, "<svg"), 1);
	assert_null(strstr(f->html.data, "&lt;script")); /* the other run was not asked for */
	json_decref(config);
	json_decref(m);
}

static void test_samples_are_bounded(void **state)
{
	struct fixture *f = *state;
	write_report(f, NULL, 2, 3);
	int shown = count_of(f->html.data, "<pre>");
	assert_true(shown >= 2 * 2 && shown <= 2 * (3 + 2)); /* first and last step, and every STEPS / 3rd */
	write_report(f, NULL, 0, 3);
	assert_int_equal(count_of(f->html.data, "<pre>"), 0);
}

/* Every element that is opened is closed by its own end tag, in order; elements without an end tag
 * are left out. */
static void test_tags_nest(void **state)
{
	struct fixture *f = *state;
	static const char *const single[] = {"!doctype", "meta", "path", "line", "circle", "rect", "polyline"};
	char stack[64][24];
	int depth = 0;
	write_report(f, NULL, 3, 6);
	for (const char *p = f->html.data; (p = strchr(p, '<')); p++) {
		bool is_end = p[1] == '/';
		char name[24];
		size_t n = strcspn(p + 1 + is_end, " >/");
		assert_true(n > 0 && n < sizeof name);
		snprintf(name, sizeof name, "%.*s", (int)n, p + 1 + is_end);
		bool skip = false;
		for (size_t i = 0; i < ARRAY_LEN(single); i++) skip |= !strcmp(single[i], name);
		if (skip) continue;
		if (!is_end) {
			assert_true(depth < 64);
			strcpy(stack[depth++], name);
		} else if (!depth || strcmp(stack[--depth], name)) {
			fail_msg("</%s> at byte %td closes %s", name, p - f->html.data, stack[depth]);
		}
	}
	assert_int_equal(depth, 0);
}

/* The settings of a run, each a row of two cells; the headings of a page in their order. */
static void test_settings_and_headings(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t"};
	int64_t run;
	json_t *config = json_pack("{s:i, s:s, s:[i], s:f}", "seed", 3, "model", "a<b", "list", 7, "epsilon", 0.1);
	int rc = store_run_open(f->store, "plain", config, &run, &err);
	if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
	assert_non_null(strstr(f->html.data,
		"<details><summary>Settings of "
		"plain</summary><table><tr><td>epsilon</td><td>0.1</td></tr><tr><td>list</td><td>[7]</td></tr><tr><td>model</"
		"td>"
		"<td>&quot;a&lt;b&quot;</td></tr><tr><td>seed</td><td>3</td></tr></table></details>\n"));
	json_decref(config);
	str_clear(&f->html);
	write_report(f, NULL, 3, 6);
	/* A whole page: each heading once, in this order, and no other. */
	static const char *const headings[] = {
		"<h2>Over steps</h2>\n", "<h2>Failure reasons</h2>\n", "<h2>Sample answers</h2>\n"};
	const char *at = f->html.data;
	for (size_t i = 0; i < ARRAY_LEN(headings); i++) {
		at = strstr(at, headings[i]);
		if (!at) fail_msg("%s is missing, or not in its place", headings[i]);
		assert_int_equal(count_of(f->html.data, headings[i]), 1);
	}
	assert_int_equal(count_of(f->html.data, "<h2>"), ARRAY_LEN(headings));
}

/* Shares of answers by tenth of the steps, each cell by hand: 12 steps fall into tenths 1 1
 * 2 3 4 5 6 6 7 8 9 10. */
static void test_reasons(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t", .samples_per_step_max = 1, .steps_shown_max = 2};
	int64_t run;
	json_t *config = json_object(), *m = json_pack("{s:f}", "loss", 1.5);
	int rc = store_run_open(f->store, "second", config, &run, &err);
	for (int step = 1; !rc && step <= 12; step++) {
		rc = store_metrics_put(f->store, run, step, m, &err);
		/* Step 6 gave no answers; the first two steps are one tenth: one of
		 * four answers is genuine. */
		for (int i = 0; !rc && step != 6 && i < 2; i++) {
			json_t *row = json_pack("{s:s, s:s, s:{s:s}}", "task", "T", "answer", "A", "verdict", "verdict",
				(step == 1 || step == 12) && i == 0 ? "genuine" : "wrong");
			rc = store_sample_put(f->store, run, step, i, row, &err);
			json_decref(row);
		}
	}
	if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
#define CELL(x) "<td class=\"n\">" x "</td>"
	assert_non_null(strstr(f->html.data,
		"<th>10 %</th><th>20 %</th><th>30 %</th><th>40 %</th><th>50 %</th><th>60 %</th><th>70 %</th><th>80 "
		"%</th><th>90 %"
		"</th><th>100 %</th></tr>"));
	assert_non_null(strstr(f->html.data,
		"<tr><td>genuine</td>" CELL("0.250") CELL("0.000") CELL("0.000") CELL("0.000") "<td></td>" CELL("0.000")
			CELL("0.000") CELL("0.000") CELL("0.000") CELL("0.500") "</tr>"));
	assert_non_null(strstr(f->html.data,
		"<tr><td>wrong</td>" CELL("0.750") CELL("1.000") CELL("1.000") CELL("1.000") "<td></td>" CELL("1.000")
			CELL("1.000") CELL("1.000") CELL("1.000") CELL("0.500") "</tr>"));
	/* First step, last step and every sixth, of which the sixth has no answers. */
	assert_int_equal(count_of(f->html.data, "<details><summary>step "), 2);
	assert_non_null(strstr(f->html.data,
		"<details><summary>step 1, answer 0, T: <b class=\"genuine\">genuine</b> </summary><pre>A</pre></details>"));
	assert_non_null(strstr(f->html.data, "<details><summary>step 12, answer 0, T: <b class=\"genuine\">"));
	json_decref(config);
	json_decref(m);
}

/* Two runs in one report: a line each in a chart of both, their settings and
 * answers under their names. */
static void test_two_runs(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	int64_t run;
	json_t *config = json_object(), *m = json_pack("{s:f}", "loss", 7.0);
	if (store_run_open(f->store, "second", config, &run, &err) || store_metrics_put(f->store, run, 1, m, &err))
		fail_msg("%s", err.text);
	write_report(f, NULL, 1, 3);
	assert_int_equal(count_of(f->html.data, "<svg"), (int)ARRAY_LEN(drawn));
	assert_int_equal(count_of(f->html.data, "<path"), (int)ARRAY_LEN(drawn) + 1);
	assert_non_null(strstr(f->html.data, ">second</span> last 7 &nbsp; "));
	assert_non_null(strstr(f->html.data, "Settings of second"));
	json_decref(config);
	json_decref(m);
}

/* Answers without a single metric: no chart, and the steps are of a run
 * whose length nobody knows. */
static void test_samples_alone(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t", .samples_per_step_max = 9};
	int64_t run;
	json_t *config = json_object(),
		   *row = json_pack("{s:s, s:{s:s, s:s}}", "answer", "A", "verdict", "verdict", "wrong", "reason", "late");
	int rc = store_run_open(f->store, "second", config, &run, &err);
	for (int step = 1; !rc && step <= 3; step++) rc = store_sample_put(f->store, run, step, 0, row, &err);
	if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
	assert_int_equal(count_of(f->html.data, "<svg"), 0);
	assert_int_equal(count_of(f->html.data, "<pre>A"), 3);
	assert_int_equal(count_of(f->html.data, "<b class=\"other\">wrong</b> late"), 3);
	assert_int_equal(count_of(f->html.data, "<tr><td>wrong/late</td>"), 1);
	assert_int_equal(count_of(f->html.data, "<p>"), 0);
	json_decref(config);
	json_decref(row);
}

/* Times of answers that a GPU timed stand beside the predicted ones of the same sizes; others have
 * none. Ratios 0.5, 1, 2 and 4: the median is the third of four, the ends of nine tenths are the
 * first and the last. One predicted time is longer than the others, which are the same: of
 * the pairs with it two are in order and one was measured as the same, tau-b 2 / sqrt(3 *
 * 5). Of the three speedups 2, 3, 4 that were measured as 2, 5, 4 two pairs are in order
 * and one is not: tau 1/3. */
static void test_times(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t"};
	static const double predicted[] = {4e-6, 1e-6, 1e-6, 1e-6, 1e-6}, measured[] = {4e-6, 4e-6, 0.5e-6, 2e-6};
	int64_t run;
	json_t *config = json_object();
	int rc = store_run_open(f->store, "timed", config, &run, &err);
	/* Six answers: four with both times, one that no GPU timed and one without a prediction. The
	 * first three have speedups beside. */
	for (int i = 0; !rc && i < 6; i++) {
		static const double predicted_speedup[] = {2, 3, 4}, measured_speedup[] = {2, 5, 4};
		json_t *row = json_pack("{s:{s:s, s:f, s:{s:o, s:o}}}", "verdict", "verdict", "genuine", "cost_s", 1.0,
			"device", "predicted_s", i == 5 ? json_null() : json_real(predicted[i]), "time_s",
			i == 4 ? json_null() : json_real(i == 5 ? 1e-6 : measured[i]));
		json_t *device = json_object_get(json_object_get(row, "verdict"), "device");
		if (i < 3) {
			json_object_set_new(device, "eager_predicted_s", json_real(predicted_speedup[i] * predicted[i]));
			json_object_set_new(device, "references",
				json_pack("{s:{s:[f, f, f]}}", "eager", "speedup", measured_speedup[i], 1.0, 9.0));
		}
		rc = store_sample_put(f->store, run, 1, i, row, &err);
		json_decref(row);
	}
	if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
	/* One picture with four points, and the line of figures that the comment above works out. */
	assert_int_equal(count_of(f->html.data, "<svg"), 1);
	assert_int_equal(count_of(f->html.data, "<circle"), 4);
	assert_int_equal(count_of(f->html.data, "<h2>Predicted and measured times</h2>\n"), 1);
	assert_non_null(strstr(f->html.data, ">timed</span> 4 &nbsp; "));
	assert_non_null(strstr(f->html.data,
		"<tr><td>timed</td>" CELL("4") CELL("2") CELL("0.5") CELL("4") CELL("0.516") CELL("0.333") "</tr></table>"));
	json_decref(config);
}

/* The ends of nine tenths, where they are not the first and the last: of forty times one, two,
 * three microseconds and so on that were predicted as one the third and the third from the end. */
static void test_many_times(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t"};
	int64_t run;
	json_t *config = json_object();
	int rc = store_run_open(f->store, "forty", config, &run, &err);
	for (int i = 0; !rc && i < 40; i++) {
		json_t *row = json_pack("{s:{s:s, s:f, s:{s:f, s:f}}}", "verdict", "verdict", "genuine", "cost_s", 1.0,
			"device", "predicted_s", 1e-6, "time_s", (i * 7 % 40 + 1) * 1e-6);
		rc = store_sample_put(f->store, run, 1, i, row, &err);
		json_decref(row);
	}
	if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
		file_read(f->html_path, 1 << 24, &f->html, &err))
		fail_msg("%s", err.text);
	assert_non_null(strstr(f->html.data, "<tr><td>forty</td>" CELL("40") CELL("21") CELL("3") CELL("38")));
	json_decref(config);
}

/* The order of two answers is one pair: in order, against it, or none where a side is equal. */
static void test_two_times(void **state)
{
	static const struct {
		double measured;
		double predicted;
		const char *cells;
	} cases[] = {{3e-6, 2e-6, CELL("2") CELL("1.5") CELL("1") CELL("1.5") CELL("1.000")},
		{0.5e-6, 2e-6, CELL("2") CELL("1") CELL("0.25") CELL("1") CELL("-1.000")},
		{1e-6, 2e-6, CELL("2") CELL("1") CELL("0.5") CELL("1") "<td></td>"},
		{2e-6, 1e-6, CELL("2") CELL("2") CELL("1") CELL("2") "<td></td>"}};
	struct fixture *f = *state;
	struct report_options o = {.title = "t"};
	json_t *config = json_object();
	/* The first answer of each run took the microsecond that was predicted. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		int64_t run;
		char name[8];
		snprintf(name, sizeof name, "two%zu", i);
		int rc = store_run_open(f->store, name, config, &run, &err);
		for (int k = 0; !rc && k < 2; k++) {
			json_t *row = json_pack("{s:{s:s, s:f, s:{s:f, s:f}}}", "verdict", "verdict", "genuine", "cost_s", 1.0,
				"device", "predicted_s", k ? cases[i].predicted : 1e-6, "time_s", k ? cases[i].measured : 1e-6);
			rc = store_sample_put(f->store, run, 1, k, row, &err);
			json_decref(row);
		}
		str_clear(&f->html);
		if (rc || report_write(f->store, &run, 1, NULL, &o, f->html_path, &err) ||
			file_read(f->html_path, 1 << 24, &f->html, &err))
			fail_msg("%s", err.text);
		char *line = xasprintf("<tr><td>%s</td>%s<td></td></tr>", name, cases[i].cells);
		if (!strstr(f->html.data, line)) fail_msg("%s: %s", line, strstr(f->html.data, "<tr><td>two"));
		free(line);
	}
	json_decref(config);
}

/* Numbers to the right with four digits, strings escaped, anything else an empty cell. */
static void test_table(void **state)
{
	struct fixture *f = *state;
	json_t *tables = json_pack(
		"[{s:s, s:[s,n], s:[[s,f,n],[i]]}, {}]", "title", "T<", "columns", "c<", "rows", "r<", 1.23456, 7);
	write_report(f, tables, 0, 1);
	json_decref(tables);
	assert_non_null(strstr(f->html.data,
		"<h2>T&lt;</h2><table><tr><th>c&lt;</th><th></th></tr><tr><td>r&lt;</td>" CELL(
			"1.235") "<td></td></tr><tr>" CELL("7") "</tr></table>\n<h2>Table</h2><table><tr></tr></table>\n"));
}

static void test_no_run(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct report_options o = {.title = "t"};
	int64_t none = 99;
	assert_int_equal(report_write(f->store, &none, 1, NULL, &o, f->html_path, &err), ERR_NOT_FOUND);
	assert_false(path_exists(f->html_path));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {T(test_nothing_escapes), T(test_charts_are_there), T(test_no_empty_chart),
		T(test_samples_are_bounded), T(test_tags_nest), T(test_settings_and_headings), T(test_reasons),
		T(test_two_runs), T(test_samples_alone), T(test_times), T(test_many_times), T(test_two_times), T(test_table),
		T(test_no_run), T(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
