/* NVIDIA's management library without a GPU, for tests of gpu_watch: one device, whose processes
 * and samples are what a test says. */
#include <stdio.h>
#include <string.h>

struct process {
	unsigned pid;
	unsigned long long memory;
	unsigned gpu_instance, compute_instance;
};
struct sample {
	unsigned pid;
	unsigned long long time_us;
	unsigned sm, memory, encoder, decoder;
};
static struct process processes[16];
static struct sample samples[16];
static unsigned nprocesses, nsamples, late;

void fake_process(unsigned pid);
void fake_process(unsigned pid) { processes[nprocesses++] = (struct process){.pid = pid, .memory = 1 << 20}; }
void fake_sample(unsigned pid, unsigned long long time_us, unsigned sm);
void fake_sample(unsigned pid, unsigned long long time_us, unsigned sm)
{
	samples[nsamples++] = (struct sample){.pid = pid, .time_us = time_us, .sm = sm};
}
/* The newest sample is there from the next question but n on. */
void fake_late(unsigned n);
void fake_late(unsigned n) { late = n; }
unsigned fake_late_left(void);
unsigned fake_late_left(void) { return late; }
void fake_clear(void);
void fake_clear(void) { nprocesses = nsamples = late = 0; }

int nvmlInit_v2(void);
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **d);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **d)
{
	*d = processes;
	return strcmp(uuid, "GPU-here") ? 6 : 0; /* NVML_ERROR_NOT_FOUND */
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, struct process *list);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, struct process *list)
{
	memcpy(list, processes, nprocesses * sizeof *list);
	*count = nprocesses;
	return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, struct process *list);
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *count, struct process *list)
{
	*count = 0;
	return 0;
}
int nvmlDeviceGetProcessUtilization(void *d, struct sample *list, unsigned *count, unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(void *d, struct sample *list, unsigned *count, unsigned long long since_us)
{
	unsigned n = 0, known = nsamples - (late > 0);
	late -= late > 0;
	for (unsigned i = 0; i < known; i++)
		if (samples[i].time_us > since_us) list[n++] = samples[i];
	*count = n;
	return n ? 0 : 6; /* no newer ones: NVML_ERROR_NOT_FOUND */
}
