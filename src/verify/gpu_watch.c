/* gpu_watch: NVML's lists of processes and its samples of their use, and whose processes they are
 * (gpu_watch.h). */
#include "verify/gpu_watch.h"
#include "base/base.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX 128
#define SAMPLES_MAX 256
#define PARENTS_MAX 64
#define SAMPLE_MS 300 /* the driver has a sample each 200 ms (measured on an H200) */
#define NAP_MS 10

/* As NVML's header has them. */
struct nvml_process {
	unsigned pid;
	unsigned long long memory; /* bytes */
	unsigned gpu_instance;
	unsigned compute_instance;
};
struct nvml_sample {
	unsigned pid;
	unsigned long long time_us; /* since 1970 */
	unsigned sm;                /* percent, as the next three */
	unsigned memory;
	unsigned encoder;
	unsigned decoder;
};
typedef struct nvml_device_opaque *nvml_device;

struct gpu_watch {
	void *library;
	nvml_device device;
	pthread_mutex_t lock;
	unsigned long long newest_us; /* sample that any window saw: older ones are not asked for when one begins */
	int (*init)(void);
	int (*by_uuid)(const char *uuid, nvml_device *d);
	int (*compute)(nvml_device d, unsigned *count, struct nvml_process *list);
	int (*graphics)(nvml_device d, unsigned *count, struct nvml_process *list);
	int (*samples)(nvml_device d, struct nvml_sample *list, unsigned *count, unsigned long long since_us);
};

/* A data pointer into a function pointer, as dlsym's manual has it. */
static bool function_get(void *library, const char *name, void *member)
{
	void *address = dlsym(library, name);
	memcpy(member, &address, sizeof address);
	return address != NULL;
}

struct gpu_watch *gpu_watch_open(const char *library, const char *uuid, char *text, size_t len)
{
	struct gpu_watch *w = xcalloc(1, sizeof *w);
	pthread_mutex_init(&w->lock, NULL);
	w->library = dlopen(library ? library : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!w->library) {
		snprintf(text, len, "%s", dlerror());
		gpu_watch_close(w);
		return NULL;
	}
	bool has_all = function_get(w->library, "nvmlInit_v2", &w->init) &&
		function_get(w->library, "nvmlDeviceGetHandleByUUID", &w->by_uuid) &&
		function_get(w->library, "nvmlDeviceGetComputeRunningProcesses_v3", &w->compute) &&
		function_get(w->library, "nvmlDeviceGetGraphicsRunningProcesses_v3", &w->graphics) &&
		function_get(w->library, "nvmlDeviceGetProcessUtilization", &w->samples);
	int rc = has_all ? w->init() : -1;
	if (!rc) rc = w->by_uuid(uuid, &w->device);
	if (!rc) return w;
	snprintf(text, len, has_all ? "NVIDIA's management library answers error %d" : "it lacks a function (%d)", rc);
	gpu_watch_close(w);
	return NULL;
}

void gpu_watch_close(struct gpu_watch *w)
{
	if (!w) return;
	pthread_mutex_destroy(&w->lock);
	/* The library stays open: it may have threads. */
	free(w);
}

/* The samples newer than since_us; 0 where the GPU has none to give. */
static unsigned samples_take(struct gpu_watch *w, unsigned long long since_us, struct nvml_sample *list)
{
	unsigned count = SAMPLES_MAX;
	return w->samples(w->device, list, &count, since_us) ? 0 : MIN(count, SAMPLES_MAX);
}

static unsigned long long newest_of(const struct nvml_sample *list, unsigned n)
{
	unsigned long long newest = 0;
	for (unsigned i = 0; i < n; i++) newest = MAX(newest, list[i].time_us);
	return newest;
}

/* By the clock of the samples. */
static unsigned long long now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000;
}

void gpu_watch_begin(struct gpu_watch *w, struct gpu_window *out)
{
	*out = (struct gpu_window){0};
	if (!w) return;
	struct nvml_sample list[SAMPLES_MAX];
	pthread_mutex_lock(&w->lock);
	unsigned n = samples_take(w, w->newest_us, list);
	w->newest_us = MAX(w->newest_us, newest_of(list, n));
	out->since_us = w->newest_us;
	pthread_mutex_unlock(&w->lock);
}

/* Whatever else is hone's on this machine takes the same lock before it computes
 * beside somebody's timing. */
static bool is_named_hone(const char *name, size_t len)
{
	return (len == 4 && !strncmp(name, "hone", 4)) || (len == 11 && !strncmp(name, "hone-runner", 11));
}

/* A process by its parents: 1 of ours, 0 another's, -1 not to be found here. */
static int is_ours(unsigned pid)
{
	unsigned self = (unsigned)getpid();
	for (int depth = 0; depth < PARENTS_MAX && pid > 0; depth++) {
		char path[64];
		struct str text = {0};
		if (pid == self) return 1;
		snprintf(path, sizeof path, "/proc/%u/stat", pid);
		if (file_read(path, 4096, &text, NULL)) return depth ? 0 : -1;
		/* "pid (name) state parent": the name may hold anything, a bracket included. */
		const char *begin = strchr(text.data, '('), *end = strrchr(text.data, ')');
		bool is_hone = begin && end > begin && is_named_hone(begin + 1, (size_t)(end - begin - 1));
		unsigned parent = 0;
		if (!end || sscanf(end + 1, " %*c %u", &parent) != 1) parent = 0;
		str_release(&text);
		if (is_hone) return 1;
		pid = parent;
	}
	return 0;
}

static unsigned processes(struct gpu_watch *w, struct nvml_process *list)
{
	unsigned n = PROCESSES_MAX, more = PROCESSES_MAX;
	if (w->compute(w->device, &n, list)) n = 0;
	n = MIN(n, PROCESSES_MAX);
	more = PROCESSES_MAX - n;
	if (!more || w->graphics(w->device, &more, list + n)) more = 0;
	return MIN(n + more, PROCESSES_MAX);
}

void gpu_watch_end(struct gpu_watch *w, const struct gpu_window *window, int nown, struct gpu_seen *out)
{
	*out = (struct gpu_seen){.others = -1, .activity = -1};
	if (!w) return;
	struct nvml_process list[PROCESSES_MAX];
	unsigned long long end_us = now_us();

	/* Whose they are. Those that nobody here knows are ours as long as ours are missing. */
	unsigned n = processes(w, list);
	int ours = 0, unknown = 0;
	out->others = out->activity = 0;
	for (unsigned i = 0; i < n; i++) {
		int whose = is_ours(list[i].pid);
		ours += whose == 1;
		unknown += whose < 0;
		out->others += whose == 0;
	}
	int left_over = MAX(0, unknown - MAX(0, nown - ours));
	out->others += left_over;

	/* A timing is shorter than the time between two samples, so what somebody else did in it is in
	 * the first sample behind it. Where nobody else is there, nothing is waited for. */
	struct nvml_sample samples[SAMPLES_MAX];
	unsigned nsamples = samples_take(w, window->since_us, samples);
	for (int ms = 0; ms < SAMPLE_MS && out->others && newest_of(samples, nsamples) < end_us; ms += NAP_MS) {
		nanosleep(&(struct timespec){.tv_nsec = NAP_MS * 1000000L}, NULL);
		nsamples = samples_take(w, window->since_us, samples);
	}

	/* What computed in the window. A process that cannot be told from ours is not charged. */
	for (unsigned i = 0; i < nsamples; i++) {
		const struct nvml_sample *s = &samples[i];
		int whose = s->sm && s->time_us > window->since_us ? is_ours(s->pid) : 1;
		if (whose == 1 || (whose < 0 && (unsigned)left_over < (unsigned)unknown)) continue;
		out->activity++;
		snprintf(out->text, sizeof out->text, "process %u (%u %% of the multiprocessors)", s->pid, s->sm);
	}
}
