/* setup: from a caller's options to what is in force: where the workers lie, which sandbox level,
 * deadlines, bounds. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define WORK_SHARE 24   /* of the reference's deadline: sizes are chosen for nominal rates, a machine may be busy */
#define TRIALS_DEFAULT 16
#define TRIALS_MAX 32
#define TIME_REPEATS_DEFAULT 30
#define TIME_REPEATS_MAX 1000
#define GIB ((int64_t)1 << 30)

/* ---- places ---- */

/* The folder of this executable, or one above it, that has `name`. */
static char *find_above(const char *name, struct err *err)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
	if (n <= 0) {
		err_set(err, ERR_INFRA, "cannot tell where this program lies: %s", strerror(errno));
		return NULL;
	}
	path[n] = 0;
	for (char *slash = strrchr(path, '/'); slash && slash != path; slash = strrchr(path, '/')) {
		*slash = 0;
		char *candidate = path_join(path, name);
		bool found = path_exists(candidate);
		free(candidate);
		if (found) return xstrdup(path);
	}
	err_set(err, ERR_NOT_FOUND,
		"%s was not found in the folder of this program or above it; run `make`, or name the root", name);
	return NULL;
}

int setup_places(const struct verify_options *o, struct verify_places *out, struct err *err)
{
	char *zygote = path_join(o->root ? o->root : "", "worker/zygote.py");
	bool is_there = !o->root || access(zygote, R_OK) == 0;
	free(zygote);
	if (!is_there)
		return err_set(
			err, ERR_NOT_FOUND, "root %s: worker/zygote.py was not found there; name the folder that has it", o->root);
	out->root = o->root ? xstrdup(o->root) : find_above("worker/zygote.py", err);
	char *built = out->root ? find_above("hone-runner", err) : NULL;
	if (!built) return ERR_NOT_FOUND;
	out->runner = path_join(built, "hone-runner");
	out->library = path_join(built, "libhone_sandbox.so");
	free(built);
	return 0;
}

void setup_places_release(struct verify_places *p)
{
	free(p->root);
	free(p->runner);
	free(p->library);
}

/* ---- options ---- */

static int level_choose(const struct verify_options *o, int *level, struct err *err)
{
	char text[512] = "";
	int best = sandbox_level_probe(text, sizeof text), wanted = best;
	if (o->sandbox && o->sandbox[0]) {
		for (wanted = SANDBOX_NONE; wanted <= SANDBOX_FULL && strcmp(sandbox_level_name(wanted), o->sandbox); wanted++)
			continue;
		if (wanted > SANDBOX_FULL)
			return err_set(err, ERR_USAGE, "sandbox: expected full, lsm or none, found \"%s\"", o->sandbox);
		if (wanted > best)
			return err_set(err, ERR_UNSUPPORTED, "sandbox level %s does not work here: %s", o->sandbox, text);
	}
	if (wanted == SANDBOX_NONE && !o->allow_unsandboxed)
		return err_set(err, ERR_USAGE,
			"sandbox: level none runs strangers' code unguarded; say --allow_unsandboxed if that is meant%s%s",
			best == SANDBOX_NONE ? "; others do not work here: " : "", best == SANDBOX_NONE ? text : "");
	*level = wanted;
	return 0;
}

/* One number of a list, which ends at its comma or the text's end; -1: it is none. */
static long device_number(const char **at)
{
	char *end = NULL;
	long n = **at >= '0' && **at <= '9' ? strtol(*at, &end, 10) : -1;
	if (n < 0 || n > 63 || (*end && *end != ',') || (*end && !end[1])) return -1;
	*at = end + (*end == ',');
	return n;
}

int setup_devices(const char *text, struct device_list *out, struct err *err)
{
	*out = (struct device_list){0};
	if (!text || !strcmp(text, "cpu")) return 0;
	bool is_good = !strncmp(text, "cuda", 4) && (!text[4] || text[4] == ':');
	if (is_good && !text[4]) out->count = 1;
	for (const char *at = text + 5; is_good && !out->count && text[4];) {
		int count = 0;
		for (long n; *at && is_good && (n = device_number(&at)) >= 0; out->numbers[count++] = (int)n) {
			is_good = count < VERIFY_GPUS_MAX;
			for (int i = 0; i < count; i++) is_good &= out->numbers[i] != n;
			if (!is_good) break;
		}
		is_good &= !*at && count > 0;
		out->count = count;
	}
	if (is_good) return 0;
	return err_set(err, ERR_USAGE,
		"device: expected cpu, cuda, cuda:0 to cuda:63, or several with commas between (cuda:0,1; at most %d, none "
		"twice), found \"%s\"",
		VERIFY_GPUS_MAX, text);
}

/* The longest name of the table that is a word of the device's. */
static const struct vm_gpu *gpu_of_device(const char *device)
{
	const struct vm_gpu *best = NULL;
	for (int i = 0; i < VM_GPU_COUNT; i++) {
		const char *at = strstr(device, vm_gpus[i].name);
		char after = at ? at[strlen(vm_gpus[i].name)] : 'x';
		if (at && (after == 0 || after == ' ' || after == '-') &&
			(!best || strlen(vm_gpus[i].name) > strlen(best->name)))
			best = &vm_gpus[i];
	}
	return best;
}

int setup_gpu(const char *name, const struct runner_device *device, struct vm_gpu *out, struct err *err)
{
	/* A card that is named goes first, then the one that the device is, then the default. */
	const struct vm_gpu *gpu = device ? gpu_of_device(device->name) : vm_gpu_find(VM_GPU_DEFAULT);
	if (name && name[0]) {
		int rc = vm_gpu_named(name, &gpu, err);
		if (rc) return rc;
	}
	if (!gpu) {
		struct str names = {0};
		vm_gpu_names(&names);
		int rc = err_set(err, ERR_UNSUPPORTED,
			"the device is a \"%s\", which is not in the table of cards (%s); name the nearest of the same compute "
			"capability with --gpu",
			device->name, names.data);
		str_release(&names);
		return rc;
	}
	*out = *gpu;
	if (!device) return 0;
	/* Code for cards before 9.0 can be translated for newer ones; Hopper's own
	 * (sm_90a) runs there alone. */
	bool can_stand = gpu->capability < 90 && device->capability > gpu->capability;
	if (gpu->capability != device->capability && !can_stand)
		return err_set(err, ERR_USAGE, "gpu: kernels for a %s (sm_%d) do not run on the device, a %s (sm_%d)",
			gpu->name, gpu->capability, device->name, device->capability);
	/* The device may have less than the table's card, so the smaller figure holds. */
	out->sms = MIN(out->sms, device->sms);
	out->shared_bytes = MIN(out->shared_bytes, device->shared_bytes);
	out->memory_bytes = MIN(out->memory_bytes, device->memory_bytes);
	return 0;
}

static int options_check(const struct verify_options *o, struct err *err)
{
	struct device_list list;
	int rc = setup_devices(o->device, &list, err);
	if (rc) return rc;
	bool is_cuda = list.count > 0;
	if (is_cuda && o->skip_compile)
		return err_set(err, ERR_USAGE, "device: a GPU runs compiled kernels; skip_compile leaves none");
	if (o->precision && strcmp(o->precision, "strict") && strcmp(o->precision, "tf32"))
		return err_set(err, ERR_USAGE, "precision: expected strict or tf32, found \"%s\"", o->precision);
	/* Words and numbers of the options, then what goes with a GPU alone, then ranges. */
	const char *size = o->cost_size ? o->cost_size : "judged";
	bool is_number = *size && strspn(size, "0123456789") == strlen(size) && strlen(size) <= 12 && atoll(size) > 0;
	if (strcmp(size, "judged") && strcmp(size, "stock") && !is_number)
		return err_set(err, ERR_USAGE, "cost_size: expected judged, stock or a number of elements, found \"%s\"", size);
	if (o->live && !is_cuda)
		return err_set(err, ERR_USAGE, "live: a candidate's file runs on a GPU; name one with device");
	if (!(o->sanitize_share >= 0 && o->sanitize_share <= 1))
		return err_set(err, ERR_USAGE, "sanitize: expected a share from 0 to 1, found %g", o->sanitize_share);
	if ((o->sanitize_share > 0 || o->profile) && !is_cuda)
		return err_set(err, ERR_USAGE, "%s: tools of the CUDA toolkit watch a GPU; name one with device",
			o->profile ? "profile" : "sanitize");
	if (o->comparison && strcmp(o->comparison, "cached") && strcmp(o->comparison, "paired"))
		return err_set(err, ERR_USAGE, "comparison: expected cached or paired, found \"%s\"", o->comparison);
	if (o->num_perf_trials < 0 || o->num_perf_trials > TIME_REPEATS_MAX)
		return err_set(
			err, ERR_USAGE, "num_perf_trials: expected 0 to %d, found %d", TIME_REPEATS_MAX, o->num_perf_trials);
	if (o->num_correct_trials < 0 || o->num_correct_trials > TRIALS_MAX)
		return err_set(
			err, ERR_USAGE, "num_correct_trials: expected 1 to %d, found %d", TRIALS_MAX, o->num_correct_trials);
	return 0;
}

/* "eager,compile" as a set of enum verdict_reference_kind. */
static int references_read(const char *text, unsigned *mask, struct err *err)
{
	*mask = 0;
	for (const char *p = text ? text : ""; *p;) {
		size_t len = strcspn(p, ",");
		int k = 0;
		while (k < REFERENCE_COUNT &&
			(strlen(verdict_reference_name(k)) != len || strncmp(p, verdict_reference_name(k), len)))
			k++;
		if (k == REFERENCE_COUNT && !(len == 4 && !strncmp(p, "none", 4)))
			return err_set(err, ERR_USAGE,
				"references: expected none or words of eager, tf32 and compile with commas between, found \"%s\"",
				text);
		if (k < REFERENCE_COUNT) *mask |= 1u << k;
		p += len + (p[len] == ',');
	}
	return 0;
}

static int or_default(int value, int standard) { return value > 0 ? value : standard; }

/* A task's data needs two descriptors a trial, and each job a few. */
static void descriptors_raise(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < r.rlim_max) {
		r.rlim_cur = MIN(r.rlim_max, (rlim_t)65536);
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* Tools that were asked for and are not there are the machine's fault, and said at once. */
static int tools_find(const struct verify_options *o, struct verify_shared *s, struct err *err)
{
	static const char MISSING[] = "%s: %s was found neither in PATH nor in /usr/local/cuda/bin; it comes with the CUDA "
								  "toolkit";
	struct device_list list;
	if (setup_devices(o->device, &list, err)) return ERR_USAGE;
	s->sanitize_share = o->sanitize_share;
	/* On a GPU it is looked for in any case: a final best runs under it. */
	if (list.count) s->sanitizer = tool_find("compute-sanitizer");
	if (o->sanitize_share > 0 && !s->sanitizer)
		return err_set(err, ERR_USAGE, MISSING, "sanitize", "compute-sanitizer");
	if (!o->profile || (s->profiler = tool_find("ncu"))) return 0;
	free(s->sanitizer);
	return err_set(err, ERR_USAGE, MISSING, "profile", "ncu");
}

int setup_shared(const struct verify_options *o, struct verify_shared *s, struct err *err)
{
	int rc = options_check(o, err);
	if (!rc) rc = references_read(o->references, &s->reference_mask, err);
	if (!rc) rc = references_read(o->final_references, &s->final_mask, err);
	if (!rc) rc = level_choose(o, &s->level, err);
	if (!rc) rc = tools_find(o, s, err);
	if (rc) return rc;
	s->final_mask |= s->reference_mask;
	/* How long a process of each kind may take, and how much memory it may have. */
	s->limits = (struct verify_limits){
		.trace_timeout_ms = or_default(o->trace_timeout_ms, 20000),
		.compile_timeout_ms = or_default(o->compile_timeout_ms, 60000),
		.replay_timeout_ms = or_default(o->replay_timeout_ms, 20000),
		.oracle_timeout_ms = or_default(o->oracle_timeout_ms, 120000),
		.trace_memory_bytes = 4 * GIB,
		.replay_memory_bytes = 4 * GIB,
		.compile_memory_bytes = 8 * GIB,
		.oracle_memory_bytes = 8 * GIB,
		.gpu_memory_bytes = 48 * GIB,
	};
	/* The reference is run for each trial, on a machine that may be busy: its nominal time is a
	 * share of the deadline. */
	s->limits.oracle_work_ms = or_default(o->oracle_work_ms, s->limits.oracle_timeout_ms / WORK_SHARE);
	/* What is done and what is left out. */
	s->tf32 = o->precision && !strcmp(o->precision, "tf32");
	s->skip_compile = o->skip_compile;
	s->screens = o->screens;
	s->skip_replay = o->skip_replay;
	s->num_trials = or_default(o->num_correct_trials, TRIALS_DEFAULT);
	s->time_repeats = o->skip_timing ? 0 : or_default(o->num_perf_trials, TIME_REPEATS_DEFAULT);
	s->is_paired = o->comparison && !strcmp(o->comparison, "paired");
	s->is_live = o->live;
	s->store = o->store;
	/* Each runner and worker holds several descriptors. */
	descriptors_raise();
	return 0;
}
