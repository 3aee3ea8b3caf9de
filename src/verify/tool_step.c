/* tool_step: a right candidate's kernels under developers' tools of the CUDA toolkit, each in a
 * runner of its own: compute-sanitizer, whose findings cost the verdict, and Nsight Compute, whose
 * counters stand beside the vm's costs.
 *
 * A tool starts the runner and watches it, so the two share a sandbox of namespaces alone
 * (sandbox_enter_tool). The runner's allocations are exact: no canary hides an access beside a
 * buffer, and memory that nobody wrote is left so.
 */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "runner/runner.h"
#include "verify/gpu_lock.h"
#include "verify/runner_pool.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define READY_MS 60000  /* a tool takes its time to start */
#define LOAD_MS 60000
#define TRIAL_MS 120000 /* and slows kernels a hundred times and more */
#define ENDS_MS 30000
#define LOCK_MS 120000
#define COUNTERS_MS 600000 /* others' kernels under Nsight Compute come first, some seconds each */
#define SAID_MAX ((size_t)8 << 20)

char *tool_find(const char *name)
{
	static const char *const folders[] = {"/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/bin"};
	const char *path = getenv("PATH");
	for (const char *p = path ? path : ""; *p;) {
		size_t len = strcspn(p, ":");
		char *at = xasprintf("%.*s/%s", (int)len, p, name);
		if (at[0] == '/' && access(at, X_OK) == 0) return at;
		free(at);
		p += len + (p[len] == ':');
	}
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		char *at = path_join(folders[i], name);
		if (access(at, X_OK) == 0) return at;
		free(at);
	}
	return NULL;
}

/* The first trial in a runner under a tool. 0 with what the tool printed; ERR_MISMATCH where
 * the tool did not work, with why. What became of the trial is for the tool to say: a runner
 * that it stopped is no fault. */
static int run(struct grading *g, const struct trace *tr, const char *const *words, struct str *said, char *why,
	size_t len, struct err *err)
{
	struct runner r = {.fd = -1};
	struct compiled c = {.fd = -1};
	struct runner_loaded loaded;
	struct runner_fault fault = {0};
	struct attempt a = {.trace = tr, .trial = &g->oracle->trials[0], .deadline_ms = TRIAL_MS};
	struct attempt_result result;
	struct err local = {0};
	int lock = -1, alone = -1, out = memfd_create("tool", MFD_CLOEXEC), rc = compile_binaries(g, tr->tape, &c, err);
	if (!rc && out < 0) rc = err_set(err, ERR_INFRA, "no memory file for a tool's words: %s", strerror(errno));
	/* Counters are one reader's at a time. Nsight Compute's own lock lies in a folder
	 * that its sandbox hides. */
	char counters[96];
	snprintf(counters, sizeof counters, "%.60s-counters", g->on->device.uuid);
	if (!rc && words[0] == g->s->profiler) rc = gpu_lock_take(NULL, counters, true, COUNTERS_MS, &alone, err);
	if (!rc) rc = gpu_lock_take(NULL, g->on->device.uuid, false, LOCK_MS, &lock, err);
	int started = rc ? rc : runner_start_under(g->on->runners, words, out, READY_MS, &r, &local);
	/* From here on the tool's own words count. */
	if (!rc && !started) {
		struct runner_load l = {
			.tape = tr->text.data, .len = tr->text.len, .count = c.count, .binaries = c.binaries, .binaries_fd = c.fd};
		int ran = runner_load(&r, &l, deadline_in_ms(LOAD_MS), &loaded, &fault, &local);
		if (!ran && !attempt_run(g, &r, &a, &result, &local)) attempt_release(&result);
		runner_end_under(g->on->runners, &r, ENDS_MS);
	}
	gpu_lock_release(lock);
	gpu_lock_release(alone);
	compiled_release(&c);
	/* All that it printed, up to a bound. */
	off_t size = out < 0 ? 0 : lseek(out, 0, SEEK_END);
	for (off_t at = 0; !rc && at < MIN(size, (off_t)SAID_MAX);) {
		char part[4096];
		ssize_t n = pread(out, part, sizeof part, at);
		if (n <= 0) break;
		str_append(said, part, (size_t)n);
		at += n;
	}
	if (out >= 0) close(out);
	if (!rc && started) {
		const char *words_of_tool = said->len ? said->data : "";
		snprintf(why, len, "%.150s: %.*s", local.text, (int)MIN(said->len, (size_t)80), words_of_tool);
		text_make_printable(why);
		rc = ERR_MISMATCH;
	}
	return rc;
}

/* ---- compute-sanitizer ---- */

/* "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)" has its errors in the bracket, the
 * others' "ERROR SUMMARY: 3 errors" in front. -1: there is no summary. */
int sanitizer_errors(const char *said)
{
	const char *at = strstr(said, "SUMMARY: ");
	for (const char *next = at; next; next = strstr(next + 1, "SUMMARY: ")) at = next;
	if (!at) return -1;
	const char *end = at + strcspn(at, "\n"), *bracket = memchr(at, '(', (size_t)(end - at));
	return (int)MIN(strtol(bracket ? bracket + 1 : at + 9, NULL, 10), 1000000);
}

/* The first finding: its line and the one with the place. */
void sanitizer_text(const char *said, char *text, size_t len)
{
	static const char MARK[] = "========= ";
	size_t used = 0;
	int lines = 0;
	text[0] = 0;
	for (const char *p = said; p && *p && lines < 2 && used < len; p = strchr(p, '\n'), p += p != NULL) {
		int n = (int)strcspn(p, "\n"), skip = (int)sizeof MARK - 1;
		bool is_said = !strncmp(p, MARK, sizeof MARK - 1) && n > skip && strncmp(p + skip, "COMPUTE-SANITIZER", 17);
		if (!is_said || memmem(p, (size_t)n, "SUMMARY", 7)) continue;
		while (skip < n && p[skip] == ' ') skip++;
		if (skip == n) continue;
		used += (size_t)snprintf(text + used, len - used, "%s%.*s", lines ? " " : "", n - skip, p + skip);
		lines++;
	}
	text_make_printable(text);
}

static bool is_sampled(const struct grading *g, double share)
{
	struct slice parts[] = {{"sanitize", 8}, {g->source, g->source_len}};
	struct sha256_hex h = hash_parts(parts, ARRAY_LEN(parts));
	return hash_share(&h) < share;
}

int sanitize_step(struct grading *g, const struct trace *stock, struct err *err)
{
	struct verdict_device *d = &g->v->device;
	int rc = 0, found = -1;
	if (!g->is_final && !is_sampled(g, g->s->sanitize_share)) return 0;
	/* Who asked for a share was told when the verifier was made. */
	if (!g->s->sanitizer) {
		snprintf(d->sanitizer, sizeof d->sanitizer, "compute-sanitizer was not found");
		return 0;
	}
	/* One tool after another, each over the whole replay; the first finding is the verdict. */
	for (int k = 0; k < SANITIZER_COUNT && !rc && found < 0; k++) {
		const char *words[] = {g->s->sanitizer, "--tool", verdict_sanitizer_name(k), "--print-limit", "4",
			"--report-api-errors", "no", NULL};
		struct str said = {0};
		char why[240] = "";
		rc = run(g, stock, words, &said, why, sizeof why, err);
		int errors = rc ? -1 : sanitizer_errors(said.data ? said.data : "");
		d->sanitized[k] = errors;
		if (rc == ERR_MISMATCH) snprintf(d->sanitizer, sizeof d->sanitizer, "%.230s", why);
		else if (!rc && errors < 0) snprintf(d->sanitizer, sizeof d->sanitizer, "%s said nothing", words[2]);
		if (errors > 0) {
			sanitizer_text(said.data, d->sanitizer, sizeof d->sanitizer);
			found = k;
		}
		if (rc == ERR_MISMATCH) rc = 0;
		str_release(&said);
	}
	if (rc || found < 0) return rc;
	return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "gpu-sanitizer", 0, "compute-sanitizer's %s, %d %s: %s",
		verdict_sanitizer_name((enum verdict_sanitizer)found), d->sanitized[found],
		plural(d->sanitized[found], "error", "errors"), d->sanitizer);
}

/* ---- Nsight Compute ---- */

/* The fields of one line of comma-separated values, quotes taken off in
 * place; how many there are. */
static int fields_split(char *line, char **fields, int max)
{
	int n = 0;
	for (char *p = line; *p && n < max;) {
		char *end;
		if (*p == '"') {
			fields[n++] = ++p;
			end = p + strcspn(p, "\"");
			p = *end ? end + 1 : end;
			*end = 0;
		} else {
			fields[n++] = p;
			p += strcspn(p, ",");
		}
		if (*p == ',') *p++ = 0;
	}
	return n;
}

/* "1,234.5": groups of digits have commas between. */
static double number_read(const char *text)
{
	char plain[64];
	size_t n = 0;
	for (; *text && n + 1 < sizeof plain; text++)
		if (*text != ',') plain[n++] = *text;
	plain[n] = 0;
	char *end = plain;
	double v = strtod(plain, &end);
	return n && !*end ? v : NAN;
}

int profile_read(char *said, struct verdict_profile *out, int max)
{
	enum { FIELDS = 32 };
	char *fields[FIELDS], *save = NULL;
	int count = 0, id = -1, name = -1, metric = -1, value = -1, ids[VERDICT_PROFILE_MAX];
	for (char *line = strtok_r(said, "\r\n", &save); line; line = strtok_r(NULL, "\r\n", &save)) {
		if (line[0] != '"') continue;
		int n = fields_split(line, fields, FIELDS);
		/* The first line of values names the columns. */
		if (value < 0) {
			for (int i = 0; i < n; i++) {
				if (!strcmp(fields[i], "ID")) id = i;
				if (!strcmp(fields[i], "Kernel Name")) name = i;
				if (!strcmp(fields[i], "Metric Name")) metric = i;
				if (!strcmp(fields[i], "Metric Value")) value = i;
			}
			if (id < 0 || name < 0 || metric < 0 || value < 0) return 0;
			continue;
		}
		/* The launcher's own kernels are nobody's to profile. */
		if (n <= MAX(MAX(id, name), MAX(metric, value)) || !strncmp(fields[name], "hone_", 5)) continue;
		int launch = atoi(fields[id]), at = 0;
		while (at < count && ids[at] != launch) at++;
		if (at == max) continue;
		if (at == count) {
			ids[count++] = launch;
			out[at] = (struct verdict_profile){0};
			snprintf(out[at].kernel, sizeof out[at].kernel, "%.60s", fields[name]);
			text_make_printable(out[at].kernel);
			for (int k = 0; k < COUNTER_COUNT; k++) out[at].counters[k] = NAN;
		}
		for (int k = 0; k < COUNTER_COUNT; k++)
			if (!strcmp(fields[metric], verdict_counter_metric(k))) out[at].counters[k] = number_read(fields[value]);
	}
	return count;
}

int profile_step(struct grading *g, const struct trace *stock, struct err *err)
{
	struct verdict_device *d = &g->v->device;
	struct str metrics = {0}, said = {0};
	if (!g->s->profiler) return 0;
	for (int k = 0; k < COUNTER_COUNT; k++) str_printf(&metrics, "%s%s", k ? "," : "", verdict_counter_metric(k));
	/* Clocks as they are, caches cold, as our own times are. */
	const char *words[] = {g->s->profiler, "--csv", "--print-units", "base", "--clock-control", "none",
		"--cache-control", "all", "--metrics", metrics.data, NULL};
	char why[sizeof d->unprofiled] = "";
	int rc = run(g, stock, words, &said, why, sizeof why, err);
	/* Where the driver keeps counters for its administrator it says so in words. */
	if (!rc && said.data && strstr(said.data, "ERR_NVGPUCTRPERM"))
		snprintf(why, sizeof why, "the driver allows counters to its administrator alone (ERR_NVGPUCTRPERM)");
	if (!rc && !why[0]) d->nprofiles = profile_read(said.data ? said.data : why, d->profiles, VERDICT_PROFILE_MAX);
	if (!rc && !why[0] && !d->nprofiles) snprintf(why, sizeof why, "Nsight Compute saw no kernel");
	snprintf(d->unprofiled, sizeof d->unprofiled, "%s", why);
	str_release(&metrics);
	str_release(&said);
	return rc == ERR_MISMATCH ? 0 : rc;
}
