/* calibrate: measuring a GPU's peaks in a timer's job (worker/timer.py) and
 * keeping them in a file. */
#include "verify/calibrate.h"
#include "base/base.h"
#include "runner/runner.h"
#include "sandbox/sandbox.h"
#include "verify/gpu_lock.h"
#include "verify/runner_pool.h"
#include "verify/verify_internal.h"
#include "verify/worker.h"
#include <stdlib.h>

#define VERSION 1
#define MEASURE_MS 180000
#define READY_MS 180000
#define LOCK_MS 60000
#define FILE_BYTES_MAX ((size_t)64 << 10)
#define RUNNER_BYTES ((int64_t)1 << 30)

static const struct {
	const char *name;
	size_t offset;
} RATES[] = {{"copy_bytes_s", offsetof(struct gpu_peaks, copy_bytes)},
	{"fp32_flops_s", offsetof(struct gpu_peaks, fp32_flops)}, {"tf32_flops_s", offsetof(struct gpu_peaks, tf32_flops)},
	{"bf16_flops_s", offsetof(struct gpu_peaks, bf16_flops)}};

static double *rate(struct gpu_peaks *p, size_t i) { return (double *)(void *)((char *)p + RATES[i].offset); }

/* All of them, positive and finite. */
static int rates_read(const json_t *o, struct gpu_peaks *out, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(RATES) && !rc; i++) {
		double v = json_number_value(json_object_get(o, RATES[i].name));
		if (!(v > 0 && v < 1e18))
			rc = err_set(err, ERR_FORMAT, "%s: expected a rate above 0, found %g", RATES[i].name, v);
		*rate(out, i) = v;
	}
	return rc;
}

/* ---- the file ---- */

char *gpu_peaks_path(const char *uuid)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	if (cache && cache[0] == '/') return xasprintf("%s/hone/%s.json", cache, uuid);
	return home && home[0] == '/' ? xasprintf("%s/.cache/hone/%s.json", home, uuid) : NULL;
}

static json_t *machine_json(const struct gpu_identity *d)
{
	return json_pack("{s:i, s:s, s:i, s:i, s:i}", "version", VERSION, "name", d->name, "driver", d->driver, "clock_khz",
		d->clock_khz, "memory_clock_khz", d->memory_clock_khz);
}

int gpu_peaks_load(const struct gpu_identity *gpu, struct gpu_peaks *out, struct err *err)
{
	char *path = gpu_peaks_path(gpu->uuid);
	struct str text = {0};
	json_t *o = NULL, *machine = machine_json(gpu);
	*out = (struct gpu_peaks){0};
	int rc = !path || !path_exists(path) ? err_set(err, ERR_NOT_FOUND, "never measured; run hone doctor --calibrate")
										 : file_read(path, FILE_BYTES_MAX, &text, err);
	if (!rc) rc = json_parse(text.data, text.len, path, &o, err);
	if (!rc && !json_equal(json_object_get(o, "machine"), machine))
		rc = err_set(err, ERR_MISMATCH, "measured with another driver or other clocks; run hone doctor --calibrate");
	if (!rc) rc = rates_read(json_object_get(o, "rates"), out, err);
	if (rc) *out = (struct gpu_peaks){0};
	json_decref(o);
	json_decref(machine);
	str_release(&text);
	free(path);
	return rc;
}

int gpu_peaks_save(const struct gpu_identity *gpu, const struct gpu_peaks *peaks, struct err *err)
{
	char *path = gpu_peaks_path(gpu->uuid);
	if (!path) return err_set(err, ERR_IO, "no folder for the GPU's figures: neither XDG_CACHE_HOME nor HOME is set");
	struct gpu_peaks p = *peaks;
	json_t *rates = json_object();
	for (size_t i = 0; i < ARRAY_LEN(RATES); i++) json_object_set_new(rates, RATES[i].name, json_real(*rate(&p, i)));
	json_t *o = json_pack("{s:o, s:o}", "machine", machine_json(gpu), "rates", rates);
	char *text = json_dumps(o, JSON_INDENT(1) | JSON_SORT_KEYS), *slash = strrchr(path, '/');
	*slash = 0;
	int rc = dir_make(path, err);
	*slash = '/';
	if (!rc) rc = file_write_atomic(path, text, strlen(text), err);
	free(text);
	json_decref(o);
	free(path);
	return rc;
}

/* ---- measuring ---- */

struct gpu_identity gpu_identity_of(const struct runner_device *d)
{
	struct gpu_identity i = {.driver = d->driver, .clock_khz = d->clock_khz, .memory_clock_khz = d->memory_clock_khz};
	snprintf(i.name, sizeof i.name, "%s", d->name);
	snprintf(i.uuid, sizeof i.uuid, "%s", d->uuid);
	return i;
}

static int measure(struct zygote *z, const char *uuid, int level, struct gpu_peaks *out, struct err *err)
{
	struct job_limits limits = {level, 0, MEASURE_MS / 1000};
	struct job job;
	struct str text = {0};
	json_t *o = NULL;
	int lock = -1, rc = zygote_ready(z, READY_MS, NULL, err);
	if (!rc) rc = gpu_lock_take(NULL, uuid, true, LOCK_MS, &lock, err);
	if (rc) return rc;
	rc = job_start(z, &limits, json_pack("{s:b, s:s}", "calibrate", 1, "device", uuid), &job, err);
	if (!rc) {
		uint64_t deadline = clock_ns() + MEASURE_MS * UINT64_C(1000000);
		rc = job_next(&job, FILE_BYTES_MAX, &text, NULL, NULL, deadline, err);
		job_end(&job);
	}
	gpu_lock_release(lock);
	if (!rc) rc = json_parse(text.data, text.len, "the timer's answer", &o, err);
	const char *fault = json_string_value(json_object_get(json_object_get(o, "fault"), "text"));
	if (!rc && fault) rc = err_set(err, ERR_INFRA, "measuring the GPU: %.600s", fault);
	if (!rc) rc = rates_read(json_object_get(o, "rates"), out, err);
	json_decref(o);
	str_release(&text);
	return rc;
}

int gpu_peaks_measure(
	const char *root, const char *device, struct gpu_peaks *out, struct gpu_identity *gpu, struct err *err)
{
	struct verify_options o = {.root = root, .device = device};
	struct verify_places places = {0};
	struct runner_pool *pool = NULL;
	struct zygote *z = NULL;
	struct runner_device facts = {0};
	char name[16], text[512] = "";
	struct device_list list;
	int level = sandbox_level_probe(text, sizeof text), rc = setup_devices(device, &list, err);
	if (!rc && list.count != 1)
		rc = err_set(err, ERR_USAGE, "device: expected cuda or cuda:N, found \"%s\"", device ? device : "");
	if (!rc) rc = setup_places(&o, &places, err);
	snprintf(name, sizeof name, "cuda:%d", list.numbers[0]);
	struct runner_pool_options p = {
		.path = places.runner, .device = name, .level = level, .memory_bytes = RUNNER_BYTES, .spare = 1};
	/* Which GPU it is, by a runner; the code that measures is ours, in the
	 * sandbox that a GPU allows. */
	if (!rc) rc = runner_pool_create(&p, &pool, &facts, err);
	if (rc && !(rc == ERR_USAGE) && places.runner && level == SANDBOX_FULL) {
		p.level = level = SANDBOX_LSM;
		rc = runner_pool_create(&p, &pool, &facts, err);
	}
	*gpu = gpu_identity_of(&facts);
	if (!rc) rc = zygote_create(places.root, places.library, "timer", false, &z, err);
	if (!rc) rc = measure(z, facts.uuid, level, out, err);
	if (!rc) rc = gpu_peaks_save(gpu, out, err);
	zygote_free(z);
	runner_pool_free(pool);
	setup_places_release(&places);
	return rc;
}
