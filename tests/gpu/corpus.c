/* corpus: grades every candidate under a folder on one device with one verifier, all cores at work.
 *
 *   corpus DEVICE SANDBOX FOLDER LOG [SHARE [untimed] [live] [seed=N] [CARD]]
 *
 * <folder>/<name>/candidate.py is graded against <folder>/<name>/task.py, and so is twin.py where
 * there is one: the honest twin of an exploit. A case without expect.txt has to be genuine, with
 * the GPU's word in the record, and so has one whose file says genuine/ok (the honest twin of an
 * exploit); any other gets a verdict that the file lists, and never genuine. TAP on standard
 * output, one JSON object a candidate in LOG, and a summary in comments: how often vm and GPU
 * disagree, how far kernels repeat themselves, how long it took.
 *
 * SHARE of the right ones runs under compute-sanitizer. untimed: nothing is timed, so others may
 * compute on the GPU. live: the files of genuine ones are run for real as well, and have to give
 * what is right (those that draw at random are left out). seed: of the hidden inputs, for runs that
 * are to see others than the last.
 *
 * CARD (a100, rtx4090, ...): kernels are compiled for that card and held to it (--gpu), untimed.
 * What is honest is genuine then too, or refused by the card's name for shared memory that it
 * lacks, or for numbers of 8 bits. */
#include "base/base.h"
#include "cost/cost.h"
#include "task/task.h"
#include "verify/verify.h"
#include <math.h>
#include <stdlib.h>

#define CASES_MAX 4096
#define SOURCE_MAX ((size_t)4 << 20)
#define COLLECT_MS 300000

struct item {
	char *name;
	struct str expect;
	struct verdict verdict;
};
struct run {
	const char *folder;
	struct verifier *verifier;
	bool is_live;
	const struct vm_gpu *card; /* that kernels are held to; NULL: the device's own */
	int count;
	struct item items[CASES_MAX];
};

static char *path_in(const char *folder, const char *name, const char *file)
{
	return xasprintf("%s/%s/%s", folder, name, file);
}

/* One file of a case; without `expect` it has to be genuine. */
static int file_submit(struct run *r, const char *name, const char *file, const char *expect, struct err *err)
{
	char *task = path_in(r->folder, name, "task.py"), *candidate = path_in(r->folder, name, file);
	struct task_set tasks = {0};
	struct str source = {0};
	int rc = 0;
	/* A folder without the file is no case. */
	if (path_exists(candidate)) {
		CHECKF(r->count < CASES_MAX, "more than %d candidates in %s", CASES_MAX, r->folder);
		struct item *item = &r->items[r->count];
		rc = task_set_load(task, &tasks, err);
		if (!rc) rc = file_read(candidate, SOURCE_MAX, &source, err);
		if (!rc && expect && path_exists(expect)) rc = file_read(expect, 4096, &item->expect, err);
		struct verify_request request = {
			.task = tasks.tasks, .source = source.data ? source.data : "", .source_len = source.len, .id = r->count};
		if (!rc) rc = verifier_submit(r->verifier, &request, err);
		if (rc) fprintf(stderr, "%s: %s\n", name, err->text);
		item->name = expect ? xstrdup(name) : xasprintf("%s, its twin", name);
		r->count++;
	}
	task_set_release(&tasks);
	str_release(&source);
	free(task);
	free(candidate);
	return rc;
}

static int submit(const char *name, void *ctx)
{
	struct run *r = ctx;
	struct err err = {0};
	char *expect = path_in(r->folder, name, "expect.txt");
	int rc = file_submit(r, name, "candidate.py", expect, &err);
	if (!rc) rc = file_submit(r, name, "twin.py", NULL, &err);
	free(expect);
	return rc;
}

static int collect(struct run *r, struct err *err)
{
	int rc = 0;
	for (int i = 0; i < r->count && !rc; i++) {
		struct verdict d;
		int64_t id = 0;
		rc = verifier_collect(r->verifier, COLLECT_MS, &id, &d, err);
		if (!rc) r->items[id].verdict = d;
	}
	return rc;
}

/* The GPU passed every trial that the vm passed, and said how far it repeats itself. */
static bool device_agrees(const struct verdict *v, bool is_cuda)
{
	const struct verdict_device *d = &v->device;
	return !is_cuda ||
		(d->trials + d->vm_trials == v->trials && !d->trials_failed && !d->disagreements &&
			d->repeat != REPEAT_UNKNOWN);
}

static bool is_listed(const struct item *item)
{
	char found[128], *words = xstrdup(item->expect.data), *save = NULL;
	snprintf(found, sizeof found, "%s/%s", verdict_class_name(item->verdict.class), item->verdict.reason);
	bool listed = false;
	for (char *w = strtok_r(words, " \n\t", &save); w; w = strtok_r(NULL, " \n\t", &save)) listed |= !strcmp(w, found);
	free(words);
	return listed && item->verdict.class != VERDICT_GENUINE;
}

/* An honest kernel that asks for what the card lacks, and is told so. */
static bool is_beyond_card(const char *name, const struct verdict *v, const struct vm_gpu *card)
{
	char fits_not[128];
	if (!card) return false;
	/* Before 9.0 Triton cuts fp32 to fp16 on its way to 8 bits, so this one really
	 * gives other numbers there. */
	if (!strcmp(name, "fp8_product") && card->capability == 89) return !strcmp(v->reason, "gpu-mismatch");
	snprintf(fits_not, sizeof fits_not, "does not fit on the %s", card->name);
	return v->class == VERDICT_INVALID &&
		(strstr(v->detail, fits_not) || (card->capability < 89 && strstr(v->detail, "fp8e4nv")));
}

static double times[CASES_MAX];

static int times_sort(const struct run *r)
{
	for (int i = 0; i < r->count; i++) times[i] = r->items[i].verdict.seconds;
	doubles_sort(times, (size_t)r->count);
	return r->count;
}

static int report(const struct run *r, bool is_cuda, FILE *log)
{
	int failed = 0, repeats[VERDICT_REPEAT_COUNT] = {0}, disagreements = 0, trials = 0, sanitized = 0, in_full = 0,
		live = 0, beyond = 0;
	double seconds = 0;
	for (int i = 0; i < r->count; i++) {
		/* One line a candidate; an exploit may be refused in any way that its file lists. */
		const struct item *item = &r->items[i];
		const struct verdict *v = &item->verdict;
		bool is_honest = !item->expect.data || strstr(item->expect.data, "genuine/ok");
		bool is_beyond = is_honest && is_beyond_card(item->name, v, r->card);
		bool ok = is_honest ? is_beyond ||
				(v->class == VERDICT_GENUINE && device_agrees(v, is_cuda) &&
					(!r->is_live || !v->device.live[0] || !strcmp(v->device.live, "right")))
							: is_listed(item);
		printf("%s %d - %s\n", ok ? "ok" : "not ok", i + 1, item->name);
		if (!ok)
			printf("# %s/%s at %s: %.700s %s %s\n", verdict_class_name(v->class), v->reason,
				verdict_stage_name(v->stage), v->detail, v->device.live, v->device.live_why);
		if (is_beyond) printf("# not for the %s: %.300s\n", r->card->name, v->detail);
		beyond += is_beyond;
		failed += !ok;
		repeats[v->device.repeat]++;
		disagreements += v->device.disagreements;
		trials += v->device.trials;
		seconds += v->device.seconds;
		sanitized += v->device.sanitized[0] >= 0 || v->device.sanitizer[0];
		in_full += v->device.sanitized[SANITIZER_COUNT - 1] >= 0;
		live += v->device.live[0] != 0;
		/* The whole record goes to the log. */
		json_t *o = verdict_json(v);
		json_object_set_new(o, "name", json_string(item->name));
		json_object_set_new(o, "honest", json_boolean(is_honest));
		json_dumpf(o, log, JSON_COMPACT | JSON_SORT_KEYS);
		fputc('\n', log);
		json_decref(o);
	}
	/* Sums for whoever compares machines. */
	int settled = times_sort(r);
	if (settled)
		printf("# seconds a verdict: median %.3f, ninth decile %.3f, longest %.3f\n", times[settled / 2],
			times[settled * 9 / 10], times[settled - 1]);
	printf("1..%d\n# %d failed; on the GPU %d trials in %.2f s, %d disagreements", r->count, failed, trials, seconds,
		disagreements);
	for (int i = 0; i < VERDICT_REPEAT_COUNT; i++)
		printf("; %s %d", verdict_repeat_name((enum verdict_repeat)i), repeats[i]);
	printf("\n");
	if (sanitized) printf("# %d ran under compute-sanitizer, in full %d\n", sanitized, in_full);
	if (r->card) printf("# %d of the honest ones need more than the %s has\n", beyond, r->card->name);
	if (r->is_live) printf("# %d files were run for real\n", live);
	return failed != 0;
}

static bool has_word(int argc, char **argv, const char *word)
{
	bool has = false;
	for (int i = 6; i < argc; i++) has |= !strcmp(argv[i], word);
	return has;
}

int main(int argc, char **argv)
{
	if (argc < 5 || argc > 10) {
		fprintf(stderr, "usage: corpus DEVICE SANDBOX FOLDER LOG [SHARE [untimed] [live] [seed=N] [CARD]]\n");
		return 2;
	}
	struct err err = {0};
	struct run *r = xcalloc(1, sizeof *r);
	r->folder = argv[3];
	/* Wide deadlines: other work may share the machine. */
	struct verify_options o = {.device = argv[1],
		.sandbox = argv[2],
		.allow_unsandboxed = true,
		.seed = 20240917,
		.trace_timeout_ms = 60000,
		.replay_timeout_ms = 30000,
		.sanitize_share = argc > 5 ? atof(argv[5]) : 0,
		.skip_timing = has_word(argc, argv, "untimed"),
		.live = has_word(argc, argv, "live")};
	r->is_live = o.live;
	for (int i = 6; i < argc; i++)
		if (!strncmp(argv[i], "seed=", 5)) o.seed = strtoull(argv[i] + 5, NULL, 10);
	for (int i = 6; i < argc && !r->card; i++) r->card = vm_gpu_find(argv[i]);
	if (r->card) o.gpu = r->card->name, o.skip_timing = true;
	FILE *log = fopen(argv[4], "w");
	CHECKF(log, "cannot write %s", argv[4]);
	uint64_t start = clock_ns();
	/* All candidates are handed over, then all verdicts collected. */
	int rc = verifier_create(&o, &r->verifier, &err);
	if (!rc) rc = dir_each(r->folder, submit, r, &err);
	if (!rc && !r->count) rc = err_set(&err, ERR_NOT_FOUND, "there is no candidate in %s", r->folder);
	if (!rc) rc = collect(r, &err);
	double seconds = (double)(clock_ns() - start) * 1e-9;
	if (rc) {
		printf("Bail out! %s\n", err.text);
		return 1;
	}
	rc = report(r, !strncmp(argv[1], "cuda", 4), log);
	printf("# %d candidates in %.1f s\n", r->count, seconds);
	fclose(log);
	verifier_free(r->verifier);
	return rc;
}
