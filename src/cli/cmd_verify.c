/* hone verify: grades candidates for one task. Several candidates (a folder) are told in the order
 * of their names, as JSON one object a line; the exit status (SUMMARY) is that of the worst. */
#include "cli/cli.h"
#include "base/base.h"
#include "store/store.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SOURCE_BYTES_MAX ((size_t)64 << 20)   /* what is read; what is judged is bounded by the verifier */

#define SUMMARY \
	"grade a candidate kernel against its task\n" \
	"Exit status: 0 when it is genuine, 1 for another verdict, 2 for wrong usage or a file that cannot be read\n" \
	"or written, 3 when nobody could be judged (infra); of several candidates the largest"

/* Values of the options below, whose help says what each is. */
struct verify_settings {
	const char *task;
	const char *candidate;
	const char *device;
	const char *gpu;
	const char *precision;
	const char *sandbox;
	const char *store;
	const char *root;
	const char *emit;
	const char *cost_size;
	const char *references;
	const char *comparison;
	int64_t threads;
	int64_t num_correct_trials;
	int64_t num_perf_trials;
	int64_t seed;
	int64_t trace_timeout_ms;
	int64_t compile_timeout_ms;
	int64_t replay_timeout_ms;
	int64_t oracle_timeout_ms;
	int64_t oracle_work_ms;
	bool allow_unsandboxed;
	bool skip_compile;
	bool skip_timing;
	bool live;
	bool audit;
	bool json;
	bool sanitize;
	bool profile;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct verify_settings, field), help, choices }
static const struct option_def DEFS[] = {
	O(OPTION_STR, task, "KernelBench-style file with Model, get_inputs, get_init_inputs", NULL),
	O(OPTION_STR, candidate, "file that defines ModelNew, or a folder of such files", NULL),
	O(OPTION_STR, device, "cpu: the vm alone; cuda, cuda:N, cuda:N,M: with those GPUs", NULL),
	O(OPTION_STR, gpu, "card that kernels are compiled for and time is predicted of; the device's own, else H200",
		NULL),
	O(OPTION_STR, precision, "strict refuses tf32 in fp32 tasks", "strict|tf32"),
	O(OPTION_STR, sandbox, "level; the strongest that works when empty", NULL),
	O(OPTION_BOOL, allow_unsandboxed, "accept level none", NULL),
	O(OPTION_STR, store, "SQLite file that keeps verdicts and compiled kernels", NULL),
	O(OPTION_STR, root, "folder with worker/; found from this program when empty", NULL),
	O(OPTION_INT, threads, "processors that grading keeps busy; 0: cores", "0 to 4096"),
	O(OPTION_INT, num_correct_trials, "trials, stock and hidden; 0: 16", "0 to 32"),
	O(OPTION_INT, num_perf_trials, "timed replays on a GPU; 0: 30", "0 to 1000"),
	O(OPTION_BOOL, skip_timing, "no timed replays on a GPU", NULL),
	O(OPTION_BOOL, live,
		"on a GPU, run files that cannot be traced, and those of genuine candidates, for real: never more than partial",
		NULL),
	O(OPTION_BOOL, sanitize,
		"on a GPU, run what is right under compute-sanitizer too: memcheck, racecheck, initcheck; findings are wrong",
		NULL),
	O(OPTION_BOOL, profile,
		"on a GPU, run what is right under Nsight Compute: its counters stand beside the vm's costs by line", NULL),
	O(OPTION_STR, references,
		"on a GPU, PyTorch's ways to run the reference that are timed beside the candidate: eager, tf32, compile with "
		"commas between, or none",
		NULL),
	O(OPTION_STR, comparison,
		"paired: references are timed turn by turn with each candidate; cached: once, as long as the GPU's control "
		"agrees",
		"paired|cached"),
	O(OPTION_INT, seed, "of the hidden inputs; 0: random", NULL),
	O(OPTION_INT, trace_timeout_ms, "for import, constructor and forward each; 0: 20000", "0 to 2147483647"),
	O(OPTION_INT, compile_timeout_ms, "processor time for a candidate's kernels together; 0: 60000", "0 to 2147483647"),
	O(OPTION_INT, replay_timeout_ms, "for one trial; 0: 20000", "0 to 2147483647"),
	O(OPTION_INT, oracle_timeout_ms, "processor time of the reference, over all trials; 0: 120000", "0 to 2147483647"),
	O(OPTION_INT, oracle_work_ms, "nominal time of the reference, by which sizes are chosen; 0: a 24th of the former",
		"0 to 2147483647"),
	O(OPTION_STR, cost_size,
		"sizes of the predicted time: judged, as values are; stock, the task's own; a number: elements of the largest "
		"input at least",
		NULL),
	O(OPTION_BOOL, skip_compile, "leave the compile stage out; never genuine then", NULL),
	O(OPTION_STR, emit,
		"write what was judged genuine to this file, as a module of its own for exactly the judged shapes; FILE.ttir: "
		"as an answer in IR",
		NULL),
	O(OPTION_BOOL, audit, "judge the task instead: does its reference run, does it tell right from wrong", NULL),
	O(OPTION_BOOL, json, "print JSON", NULL),
	OPTIONS_NEED("num_perf_trials skip_timing live sanitize profile references comparison", "device=cuda*"),
	OPTIONS_NEED("num_perf_trials references comparison", "!skip_timing"),
};

struct file_list {
	char **paths;
	size_t count;
	const char *folder;
};

static int add_python_file(const char *name, void *ctx)
{
	struct file_list *l = ctx;
	if (text_ends_in(name, ".py")) {
		l->paths = xrealloc(l->paths, size_mul(l->count + 1, sizeof *l->paths));
		l->paths[l->count++] = path_join(l->folder, name);
	}
	return 0;
}

static int candidates_find(const char *path, struct file_list *out, struct err *err)
{
	struct stat st;
	*out = (struct file_list){.folder = path};
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
		int rc = dir_each(path, add_python_file, out, err);
		return rc ? rc : out->count ? 0 : err_set(err, ERR_USAGE, "--candidate %s: the folder has no .py file", path);
	}
	out->paths = xcalloc(1, sizeof *out->paths);
	out->paths[out->count++] = xstrdup(path);
	return 0;
}

static void candidates_release(struct file_list *l)
{
	for (size_t i = 0; i < l->count; i++) free(l->paths[i]);
	free(l->paths);
}

static void print_line(const struct str *source, int line)
{
	const char *p = source->data ? source->data : "";
	for (int at = 1; at < line && *p; p++) at += *p == '\n';
	char text[201];
	snprintf(text, sizeof text, "%.*s", (int)strcspn(p, "\n"), p);
	text_make_printable(text);
	if (*p) printf("%6d | %s\n", line, text);
}

/* A text of a record, in which the candidate is called candidate.py, under the candidate's own
 * path: editors and terminals follow it. */
static void print_named(const char *text, size_t len, const char *path)
{
	static const char called[] = "candidate.py:";
	const size_t n = sizeof called - 1;
	for (const char *p = text, *end = text + len; p < end;) {
		if ((size_t)(end - p) > n && !memcmp(p, called, n) && p[n] >= '0' && p[n] <= '9') {
			printf("%s:", path);
			p += n;
		} else putchar(*p++);
	}
}

/* A detail can hold a candidate's own words: each of its lines is marked, so that none can pass for
 * one of ours. */
static void print_detail(const char *detail, const char *path)
{
	for (const char *p = detail; *p;) {
		size_t len = strcspn(p, "\n");
		fputs(p == detail ? "  " : "  | ", stdout);
		print_named(p, len, path);
		putchar('\n');
		p += len + (p[len] == '\n');
	}
}

/* The candidate's time on a GPU, what could not be beaten, and each reference beside it. */
static void print_times(const struct verdict_device *d)
{
	if (d->stock_trials)
		printf("  at the task's own sizes %d %s on the GPU, inputs and fp64 reference made there: largest "
			   "scaled error %.2g\n",
			d->stock_trials, plural(d->stock_trials, "trial agrees", "trials agree"), d->stock_error_max);
	if (d->stock_why[0]) printf("  at the task's own sizes, on the GPU, not judged: %s\n", d->stock_why);
	if (d->untimed[0]) printf("  not timed on the GPU: %s\n", d->untimed);
	if (!d->timed) return;
	printf("  on the GPU %.2f us with cold caches (95 %%: %.2f to %.2f; %d replays; nothing: %.2f us); wall clock %.2f "
		   "us, warm %.2f us; %.1f MiB\n",
		d->time_s * 1e6, d->time_low_s * 1e6, d->time_high_s * 1e6, d->timed, d->empty_s * 1e6, d->wall_s * 1e6,
		d->paper_s * 1e6, (double)d->memory_bytes / (1 << 20));
	/* What bounds and what may have disturbed the time, then the references in the
	 * order of their kinds. */
	if (isfinite(d->floor_s))
		printf("  the floor by this GPU's measured peaks (%s, %.4g T%s/s when it was judged): %.2f us, %.0f %% of the "
			   "time\n",
			d->floor_by, d->floor_rate * 1e-12, strcmp(d->floor_by, "memory") ? "FLOP" : "B", d->floor_s * 1e6,
			100 * d->floor_s / d->time_s);
	if (d->others > 0)
		printf(
			"  %d %s on the GPU\n", d->others, plural(d->others, "process of others was", "processes of others were"));
	for (int k = 0; k < REFERENCE_COUNT; k++) {
		const struct verdict_reference *r = &d->references[k];
		const char *name = verdict_reference_name((enum verdict_reference_kind)k);
		if (r->is_timed)
			printf(
				"  %s %.2f us: speedup %.3f (95 %%: %.3f to %.3f; %s), by the wall clock %.3f, as papers measure %.3f; "
				"%.1f MiB%s\n",
				name, r->time_s.value * 1e6, r->speedup.value, r->speedup.low, r->speedup.high,
				r->pairs           ? "paired"
					: r->is_cached ? "timed earlier"
								   : "one series after another",
				r->speedup_wall, r->speedup_paper, (double)r->memory_bytes / (1 << 20),
				r->is_gated ? "" : "; with gaps in which the GPU waits for the host");
		if (r->why[0]) printf("  %s: %s\n", name, r->why);
	}
}

/* What compute-sanitizer found, and how far it came. */
static void print_sanitizer(const struct verdict_device *d)
{
	bool has_run = d->sanitizer[0];
	for (int k = 0; k < SANITIZER_COUNT; k++) has_run |= d->sanitized[k] >= 0;
	if (!has_run) return;
	printf("  compute-sanitizer:");
	for (int k = 0; k < SANITIZER_COUNT; k++) {
		const char *name = verdict_sanitizer_name((enum verdict_sanitizer)k);
		if (d->sanitized[k] < 0) printf(" %s not run%s", name, k + 1 < SANITIZER_COUNT ? "," : "");
		else
			printf(" %s %d %s%s", name, d->sanitized[k], plural(d->sanitized[k], "error", "errors"),
				k + 1 < SANITIZER_COUNT ? "," : "");
	}
	printf("%s%s\n", d->sanitizer[0] ? ": " : "", d->sanitizer);
}

/* The counters of each launch; then what the vm counted, line by line, which the counters
 * are to be read beside. */
static void print_profile(const struct verdict *v, const struct str *source)
{
	const struct verdict_device *d = &v->device;
	if (d->unprofiled[0]) printf("  no counters: %s\n", d->unprofiled);
	if (!d->nprofiles && !d->unprofiled[0]) return;
	/* A kernel a block: where its time may go, and what its warps waited for. */
	double seconds = 0;
	for (int i = 0; i < d->nprofiles; i++) {
		const double *c = d->profiles[i].counters;
		seconds += c[COUNTER_TIME] * 1e-9;
		printf("  %s: %.2f us; DRAM %.3f MB read, %.3f written (%.0f %% of its rate); L2 %.3f MB; %.0f registers; %.0f "
			   "%% of "
			   "the warps, %.0f %% of the multiprocessors' rate\n",
			d->profiles[i].kernel, c[COUNTER_TIME] * 1e-3, c[COUNTER_DRAM_READ] * 1e-6, c[COUNTER_DRAM_WRITE] * 1e-6,
			c[COUNTER_DRAM_USE], c[COUNTER_L2] * 1e-6, c[COUNTER_REGISTERS], c[COUNTER_OCCUPANCY], c[COUNTER_SM_USE]);
		printf("    cycles waited for an instruction: memory %.1f, shared memory %.1f, barriers %.1f, arithmetic %.1f, "
			   "full queues %.1f, fixed latency %.1f\n",
			c[COUNTER_STALL_MEMORY], c[COUNTER_STALL_SHARED], c[COUNTER_STALL_BARRIER], c[COUNTER_STALL_MATH],
			c[COUNTER_STALL_QUEUE], c[COUNTER_STALL_WAIT]);
	}
	if (d->nprofiles) printf("  all launches %.2f us; predicted %.2f us\n", seconds * 1e6, v->cost_s * 1e6);
	/* Counters know kernels and the vm knows lines: together they say which line to change. */
	printf("  by the vm, line by line: bytes, sectors of 32 bytes, operations\n");
	for (int i = 0; i < v->nlines; i++) {
		printf("    %12lld %10lld %12lld", (long long)v->lines[i].bytes, (long long)v->lines[i].sectors,
			(long long)v->lines[i].flops);
		print_line(source, v->lines[i].line);
	}
}

/* The judgement and, for what is not genuine, where and why it ended. */
static void print_judgement(const char *path, const struct str *source, const struct verdict *v)
{
	printf("%s: %s", path, verdict_class_name(v->class));
	if (v->class != VERDICT_GENUINE) printf(" (%s, at stage %s)", v->reason, verdict_stage_name(v->stage));
	putchar('\n');
	print_detail(v->detail, path);
	if (v->line > 0) print_line(source, v->line);
}

/* The cost model's figures are NaN where there are none. */
static void print_cost(const struct verdict *v)
{
	if (isfinite(v->speedup_eager))
		printf("  cost model: %.3g us; PyTorch's operators %.3g us (speedup %.2f), fused %.3g us (speedup %.2f); %d "
			   "%s, %lld %s, %lld %s\n",
			v->cost_s * 1e6, v->eager_cost_s * 1e6, v->speedup_eager, v->fused_cost_s * 1e6, v->speedup_fused,
			v->launches, plural(v->launches, "launch", "launches"), (long long)v->programs,
			plural(v->programs, "program", "programs"), (long long)v->bytes, plural(v->bytes, "byte", "bytes"));
	if (v->not_predicted[0])
		printf("  no time is predicted%s%s: %s\n", v->cost_size[0] ? " at " : "", v->cost_size, v->not_predicted);
	else if (v->cost_size[0])
		printf("  times at sizes %s; sampled programs: standard error %.2g %%\n", v->cost_size, 100 * v->cost_error);
}

/* How often and where it was tried, and what the trials did not reach. */
static void print_trials(const struct verdict *v, const char *path)
{
	if (v->trials) {
		printf("  %d %s, %d failed", v->trials, plural(v->trials, "trial", "trials"), v->trials_failed);
		/* Where the first trial ended at a fault nothing was compared. */
		if (isfinite(v->tolerance)) printf("; scaled error %.3g, bound %.3g", v->error_max, v->tolerance);
		putchar('\n');
	}
	if (v->fp8_line)
		printf("  %s:%d: a sum of fp8 products, which Hopper's tensor cores keep with fewer digits than fp32; "
			   "pass max_num_imprecise_acc=0 for fp32 sums\n",
			path, v->fp8_line);
	if (v->state[0]) printf("  buffers that the reference changes: %s\n", v->state);
	if (v->edge[0]) printf("  on NaN, infinities and denormals (not judged): %s\n", v->edge);
	/* Who was found wrong is not asked what else could have been tried. */
	if (v->class != VERDICT_GENUINE && v->class != VERDICT_PARTIAL) return;
	if (v->sides) {
		printf("  sides of comparisons on data: %d of %d taken", v->sides_taken, v->sides);
		if (v->guided) printf(", after %d guided %s", v->guided, plural(v->guided, "trial", "trials"));
		putchar('\n');
	}
	if (v->sized) printf("  %d %s at sizes that the candidate names\n", v->sized, plural(v->sized, "trial", "trials"));
	for (int i = 0; i < v->nunreached; i++) printf("    %s:%d: %s\n", path, v->unreached[i].line, v->unreached[i].text);
	if (v->unreached_more) printf("    and %d more\n", v->unreached_more);
}

/* Which configurations the times, and everything else, are of. */
static void print_tuned(const struct verdict_device *d)
{
	for (int i = 0; i < d->ntuned; i++) {
		const struct verdict_tuned *t = &d->tuned[i];
		printf("  autotuner of %s: configuration %d of %d", t->label, t->chosen + 1, t->configs);
		if (isfinite(t->first_s))
			printf(", %.2f us; %.2f us with the first%s", t->chosen_s * 1e6, t->first_s * 1e6,
				t->is_kept ? " (an earlier verdict's choice)" : "");
		putchar('\n');
	}
}

/* What a person wants to know, in the order they want it. */
static void print_text(const char *path, const struct str *source, const struct verdict *v)
{
	print_judgement(path, source, v);
	print_cost(v);
	print_trials(v, path);
	/* Only a real GPU has a driver; the vm leaves it 0. */
	if (v->device.driver)
		printf("  %s, driver for CUDA %d.%d: %d %s, %d failed; scaled error %.3g; repeats: %s; %d %s "
			   "with the vm\n",
			v->device.name, v->device.driver / 1000, v->device.driver % 1000 / 10, v->device.trials,
			plural(v->device.trials, "trial", "trials"), v->device.trials_failed, v->device.error_max,
			verdict_repeat_name(v->device.repeat), v->device.disagreements,
			plural(v->device.disagreements, "disagreement", "disagreements"));
	if (v->device.live[0])
		printf("  its file, run for real: %s%s%s\n", v->device.live, v->device.live_why[0] ? ": " : "",
			v->device.live_why);
	print_tuned(&v->device);
	print_times(&v->device);
	print_sanitizer(&v->device);
	print_profile(v, source);
	printf("  sandbox %s; %.3f s%s%s\n", v->sandbox, v->seconds, v->cached ? "; from the cache" : "",
		v->params_seeded ? "; parameters: seeded" : "");
}

static int status_of(const struct verdict *v)
{
	if (v->is_not_emitted) return 2;
	return v->class == VERDICT_GENUINE ? 0 : v->class == VERDICT_INFRA ? 3 : 1;
}

/* One line. With `path` the record says which candidate it is of; bytes that
 * are no text become '?'. */
static void print_json(const char *path, const struct verdict *v)
{
	json_t *o = verdict_json(v);
	if (path) {
		char *name = xstrdup(path);
		text_make_printable(name);
		json_object_set_new(o, "candidate", json_string(name));
		free(name);
	}
	char *text = json_dumps(o, JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
	puts(text);
	free(text);
	json_decref(o);
}

static int grade_all(struct verifier *v, const struct task *task, const struct file_list *files,
	const struct verify_settings *s, struct err *err)
{
	struct str *sources = xcalloc(files->count, sizeof *sources);
	int rc = 0, worst = 0;
	/* All candidates are handed in before a verdict is waited for, so they are graded side by
	 * side. */
	for (size_t i = 0; i < files->count && !rc; i++) {
		rc = file_read(files->paths[i], SOURCE_BYTES_MAX, &sources[i], err);
		struct verify_request r = {.task = task,
			.source = sources[i].data ? sources[i].data : "",
			.source_len = sources[i].len,
			.emit = s->emit,
			.id = (int64_t)i};
		if (!rc) rc = verifier_submit(v, &r, err);
	}
	/* Verdicts come in the order in which they finish; each waits until those of the
	 * files before it were told. */
	struct verdict **done = xcalloc(files->count, sizeof *done);
	size_t told = 0;
	while (told < files->count && !rc) {
		struct verdict *d = xcalloc(1, sizeof *d);
		int64_t id = 0;
		rc = verifier_collect(v, -1, &id, d, err);
		if (rc) free(d);
		else done[id] = d;
		for (; told < files->count && done[told]; told++) {
			worst = MAX(worst, status_of(done[told]));
			if (s->json) print_json(files->count > 1 ? files->paths[told] : NULL, done[told]);
			else print_text(files->paths[told], &sources[told], done[told]);
		}
	}
	for (size_t i = 0; i < files->count; i++) free(done[i]);
	free(done);
	for (size_t i = 0; i < files->count; i++) str_release(&sources[i]);
	free(sources);
	return rc ? rc : worst;
}

static int audit(struct verifier *v, const struct task *task, struct err *err)
{
	json_t *o = NULL;
	int rc = verifier_audit(v, task, &o, err);
	if (rc) return rc;
	char *text = json_dumps(o, JSON_SORT_KEYS | JSON_REAL_PRECISION(9) | JSON_INDENT(1));
	puts(text);
	free(text);
	int status = json_is_true(json_object_get(o, "runs")) && json_is_true(json_object_get(o, "discriminates")) ? 0 : 1;
	json_decref(o);
	return status;
}

static int settings_check(const struct verify_settings *s, int npos, char **argv, struct err *err)
{
	if (npos)
		return err_set(err, ERR_USAGE, "unexpected argument \"%s\"; candidates are named with --candidate", argv[1]);
	if (!s->task) return err_set(err, ERR_USAGE, "--task is missing; expected a KernelBench-style Python file");
	struct stat st;
	if (s->emit && s->candidate && stat(s->candidate, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(
			err, ERR_USAGE, "--emit writes one module; expected one candidate, found the folder %s", s->candidate);
	if (s->emit && s->audit)
		return err_set(err, ERR_USAGE, "--emit writes a candidate's module; --audit judges no candidate");
	/* Asked before the long part, whose result would have no place to go. */
	if (s->emit && file_check_writable(s->emit, err)) return ERR_USAGE;
	if (!s->candidate && !s->audit)
		return err_set(
			err, ERR_USAGE, "--candidate is missing; expected a Python file that defines ModelNew (or --audit)");
	return 0;
}

/* Negative: an error; else the exit status. */
static int run(const struct verify_settings *s, struct err *err)
{
	struct task_set tasks = {0};
	struct file_list files = {0};
	struct store *store = NULL;
	struct verifier *v = NULL;
	int rc = task_set_load(s->task, &tasks, err);
	/* A candidate answers one task; which one of a larger set would be a guess. */
	if (!rc && tasks.count != 1)
		rc = err_set(err, ERR_USAGE, "--task %s: expected one task, found %zu", s->task, tasks.count);
	if (!rc && s->candidate) rc = candidates_find(s->candidate, &files, err);
	if (!rc && s->store) rc = store_open(s->store, &store, err);
	/* What the options say goes to the verifier as it is. */
	struct verify_options o = {
		.root = s->root,
		.device = s->device,
		.gpu = s->gpu,
		.precision = s->precision,
		.sandbox = s->sandbox,
		.allow_unsandboxed = s->allow_unsandboxed,
		.threads = (int)s->threads,
		.num_correct_trials = (int)s->num_correct_trials,
		.num_perf_trials = (int)s->num_perf_trials,
		.skip_timing = s->skip_timing,
		.live = s->live,
		.sanitize_share = s->sanitize ? 1 : 0,
		.profile = s->profile,
		.references = s->references,
		.comparison = s->comparison,
		.seed = (uint64_t)s->seed,
		.trace_timeout_ms = (int)s->trace_timeout_ms,
		.compile_timeout_ms = (int)s->compile_timeout_ms,
		.replay_timeout_ms = (int)s->replay_timeout_ms,
		.oracle_timeout_ms = (int)s->oracle_timeout_ms,
		.oracle_work_ms = (int)s->oracle_work_ms,
		.skip_compile = s->skip_compile,
		.cost_size = s->cost_size,
		.store = store,
	};
	/* By default no more threads than there are candidates, since each grades one. */
	if (!o.threads) o.threads = MIN((int)MAX(files.count, 1), cpu_count());
	if (!rc) rc = verifier_create(&o, &v, err);
	if (!rc) rc = s->audit ? audit(v, &tasks.tasks[0], err) : grade_all(v, &tasks.tasks[0], &files, s, err);
	verifier_free(v);
	store_close(store);
	candidates_release(&files);
	task_set_release(&tasks);
	return rc;
}

int cmd_verify(int argc, char **argv)
{
	struct verify_settings s = {.device = "cpu",
		.precision = "strict",
		.cost_size = "judged",
		.references = "eager,tf32,compile",
		.comparison = "paired"};
	struct err err = {0};
	int npos = 0, rc = options_parse("verify", SUMMARY, DEFS, ARRAY_LEN(DEFS), &s, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc) rc = settings_check(&s, npos, argv, &err);
	if (!rc) rc = run(&s, &err);
	return rc >= 0 ? rc : cli_fail_judging("verify", &err);
}
