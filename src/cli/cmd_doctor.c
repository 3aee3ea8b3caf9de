/* hone doctor: what this machine offers, what is missing, and the command that fixes it. One row a
 * subject; each probe fills its rows and no probe starts Python: the versions are in the names of
 * the dist-info folders. With --calibrate the GPU's peaks are measured first, which does. */
#include "cli/cli.h"
#include "base/base.h"
#include "base/gpu_uuid.h"
#include "ops/cpu_figures.h"
#include "ops/ops.h"
#include "sandbox/sandbox.h"
#include "verify/calibrate.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum state { STATE_OK, STATE_NOTE, STATE_MISSING }; /* NOTE: hone works, with less */
struct row {
	const char *name;
	enum state state;
	char value[512];
	const char *fix;
};
struct report {
	struct row rows[64];
	size_t count;
};

static void add(struct report *r, const char *name, enum state state, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static void add(struct report *r, const char *name, enum state state, const char *fix, const char *fmt, ...)
{
	CHECK(r->count < ARRAY_LEN(r->rows));
	struct row *row = &r->rows[r->count++];
	*row = (struct row){.name = name, .state = state, .fix = fix};
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(row->value, sizeof(row->value), fmt, ap);
	va_end(ap);
}

/* ---- processor ---- */

static void cpu_name(char *name, size_t len)
{
	struct str text = {0};
	snprintf(name, len, "unknown x86-64");
	if (!file_read("/proc/cpuinfo", 16 << 20, &text, NULL)) {
		const char *at = strstr(text.data, "model name"), *colon = at ? strchr(at, ':') : NULL;
		if (colon) snprintf(name, len, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
	}
	str_release(&text);
}

static void probe_cpu(struct report *r)
{
	char name[256];
	cpu_name(name, sizeof(name));
	const char *vectors = __builtin_cpu_supports("x86-64-v4") ? "AVX-512" : "AVX2";
	add(r, "cpu", STATE_OK, NULL, "%s, %s", name, vectors);
	int usable = cpu_count();
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	if (online > usable) add(r, "cores", STATE_OK, NULL, "%d of %ld (affinity mask)", usable, online);
	else add(r, "cores", STATE_OK, NULL, "%d", usable);
	struct sysinfo info;
	if (!sysinfo(&info))
		add(r, "memory", STATE_OK, NULL, "%.1f GiB", (double)info.totalram * info.mem_unit / (1 << 30));
}

static void probe_gemm(struct report *r)
{
	struct ops *ops = NULL;
	struct err err = {0};
	if (ops_cpu_create(&(struct ops_options){0}, &ops, &err)) {
		add(r, "gemm", STATE_MISSING, NULL, "%s", err.text);
		return;
	}
	add(r, "gemm", STATE_OK, NULL, "%s, %.0f GFLOP/s", ops_gemm_name(ops), ops_gemm_gflops(ops));
	ops_free(ops);
}

/* ---- sandbox ---- */

static void probe_sandbox(struct report *r)
{
	char text[400] = "";
	int level = sandbox_level_probe(text, sizeof(text));
	const char *between = text[0] ? "; " : "";
	if (level <= SANDBOX_NONE)
		add(r, "sandbox", STATE_MISSING,
			"use a kernel with Landlock (5.13 or later) and seccomp; hone refuses candidates without it", "%s%s%s",
			sandbox_level_name(level), between, text);
	else
		add(r, "sandbox", level == SANDBOX_FULL ? STATE_OK : STATE_NOTE, NULL, "%s%s%s", sandbox_level_name(level),
			between, text);
}

/* ---- Python ---- */

struct dist {
	const char *name;
	char version[64];
};

static int match_dist(const char *entry, void *ctx)
{
	struct dist *d = ctx;
	size_t len = strlen(d->name), tail = strlen(".dist-info"), all = strlen(entry);
	if (all > len + 1 + tail && !strncmp(entry, d->name, len) && entry[len] == '-' && text_ends_in(entry, ".dist-info"))
		snprintf(d->version, sizeof(d->version), "%.*s", (int)(all - tail - len - 1), entry + len + 1);
	return 0;
}

static int match_python(const char *entry, void *ctx)
{
	if (!strncmp(entry, "python3.", 8)) snprintf(ctx, 64, "%s", entry);
	return 0;
}

/* ENVIRONMENT/bin/python: ENVIRONMENT/lib. The name is taken as it is written: in an environment
 * python is a link to another one, whose packages it does not see. */
static char *packages_of(const char *python)
{
	const char *end = strrchr(python, '/');
	size_t len = end ? (size_t)(end - python) : 0;
	while (len && python[len - 1] != '/') len--;
	return xasprintf("%.*slib", (int)len, python);
}

/* The first folder on the way to `path` that others than its owner may not
 * pass; NULL: none. heap. */
static char *closed_folder(const char *path)
{
	for (const char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		char *folder = xasprintf("%.*s", (int)(at - path), path);
		struct stat s;
		if (!stat(folder, &s) && !(s.st_mode & S_IXOTH)) return folder;
		free(folder);
	}
	return NULL;
}

static bool is_program(const char *path)
{
	struct stat s;
	return !stat(path, &s) && S_ISREG(s.st_mode) && !access(path, X_OK);
}

static void probe_python(struct report *r)
{
	static const char *const names[] = {"torch", "triton", "numpy", "transformers", "peft"};
	static const char fix[] = "make setup, or set HONE_PYTHON to a Python that has it";
	char *python = path_python(), version[64] = "";
	bool is_there = python && is_program(python);
	char *lib = is_there ? packages_of(python) : NULL;
	if (lib) dir_each(lib, match_python, version, NULL);
	if (!version[0]) {
		if (python && !is_there)
			add(r, "python", STATE_MISSING, "make setup, or set HONE_PYTHON to the path of a Python",
				"%s is no program that can be started", python);
		else if (python) add(r, "python", STATE_MISSING, fix, "%s is not an environment with packages", python);
		else add(r, "python", STATE_MISSING, fix, "no build/venv beside the program, and HONE_PYTHON is not set");
		free(lib);
		free(python);
		return;
	}
	free(python);
	/* Started by root, the processes that run candidates are nobody's: packages that only root can
	 * reach are of no use to them. The folder may be a link, so both of its ways are looked at. */
	char *real = geteuid() ? NULL : realpath(lib, NULL), *closed = geteuid() ? NULL : closed_folder(lib);
	if (real && !closed) closed = closed_folder(real);
	if (closed)
		add(r, "python", STATE_MISSING,
			"chmod o+x that folder, install elsewhere (make install PREFIX=), or be another user",
			"%s in %s: candidates never run as root, and others may not pass %s", version + strlen("python"), lib,
			closed);
	else add(r, "python", STATE_OK, NULL, "%s in %s", version + strlen("python"), lib);
	free(closed);
	free(real);
	char *site = xasprintf("%s/%s/site-packages", lib, version);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct dist d = {.name = names[i]};
		dir_each(site, match_dist, &d, NULL);
		add(r, names[i], d.version[0] ? STATE_OK : STATE_MISSING, d.version[0] ? NULL : fix, "%s",
			d.version[0] ? d.version : "not installed");
	}
	free(site);
	free(lib);
}

/* The parts of hone beside this program. */
static void probe_parts(struct report *r)
{
	static const struct {
		const char *name; /* for people */
		const char *file; /* beside this program */
	} parts[] = {{"runner", "hone-runner"}, {"sandbox library", "libhone_sandbox.so"}};
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	exe[MAX(n, 0)] = 0;
	char *slash = strrchr(exe, '/');
	if (slash) *slash = 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		char *path = path_join(exe, parts[i].file);
		bool there = path_exists(path);
		add(r, parts[i].name, there ? STATE_OK : STATE_MISSING, there ? NULL : "make", "%s%s",
			there ? "" : "not found: ", path);
		free(path);
	}
}

/* ---- GPU, by the driver's own library; it stays loaded, because it started threads ---- */

/* The driver's functions: each is named after the one of cuda.h that cuda_load finds for it. */
struct cuda {
	int (*init)(unsigned);
	int (*version)(int *);
	int (*count)(int *);
	int (*device)(int *, int);
	int (*name)(char *, int, int);
	int (*attribute)(int *, int, int);
	int (*memory)(size_t *, int); /* bytes */
	int (*uuid)(unsigned char *, int);
};

enum { CC_CLOCK = 13, CC_MEMORY_CLOCK = 36, CC_MAJOR = 75, CC_MINOR = 76, GPUS_SHOWN_MAX = 8 };

static bool cuda_load(void *lib, struct cuda *c)
{
	const struct {
		const char *name;
		void *at;
	} symbols[] = {{"cuInit", &c->init}, {"cuDriverGetVersion", &c->version}, {"cuDeviceGetCount", &c->count},
		{"cuDeviceGet", &c->device}, {"cuDeviceGetName", &c->name}, {"cuDeviceGetAttribute", &c->attribute},
		{"cuDeviceTotalMem_v2", &c->memory}, {"cuDeviceGetUuid_v2", &c->uuid}};
	for (size_t i = 0; i < ARRAY_LEN(symbols); i++) {
		void *p = dlsym(lib, symbols[i].name);
		if (!p) return false;
		memcpy(symbols[i].at, &p, sizeof(p));
	}
	return true;
}

/* What this GPU can do at most, where it was measured. */
static void add_peaks(struct report *r, const struct cuda *c, int device, const char *name, int driver)
{
	struct gpu_identity gpu = {.driver = driver};
	struct gpu_peaks p;
	struct err err = {0};
	unsigned char id[16] = {0};
	c->uuid(id, device);
	gpu_uuid_text(id, name, gpu.uuid, sizeof gpu.uuid);
	snprintf(gpu.name, sizeof gpu.name, "%.63s", name);
	c->attribute(&gpu.clock_khz, CC_CLOCK, device);
	c->attribute(&gpu.memory_clock_khz, CC_MEMORY_CLOCK, device);
	if (gpu_peaks_load(&gpu, &p, &err)) add(r, "gpu peaks", STATE_NOTE, "hone doctor --calibrate", "%s", err.text);
	else
		add(r, "gpu peaks", STATE_OK, NULL, "copy %.0f GB/s; products: fp32 %.1f, tf32 %.0f, bf16 %.0f TFLOP/s",
			p.copy_bytes * 1e-9, p.fp32_flops * 1e-12, p.tf32_flops * 1e-12, p.bf16_flops * 1e-12);
}

/* The driver's own number, as "580.65.06", which its packages are known by; "" where its
 * library does not tell. */
static void driver_number(char *out, size_t len)
{
	union {
		void *object;
		int (*init)(void);
		int (*version)(char *, unsigned);
	} init = {0}, version = {0};
	void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	*out = 0;
	if (lib) init.object = dlsym(lib, "nvmlInit_v2"), version.object = dlsym(lib, "nvmlSystemGetDriverVersion");
	if (!init.object || !version.object || init.init() || version.version(out, (unsigned)len)) *out = 0;
}

#define DRIVER_CUDA 13000 /* the CUDA that the engine is made with, as the driver counts: 13.0 */
#define DRIVER_NEEDED "NVIDIA's driver 580 or later, which serves CUDA 13"

/* Whether --device cuda works there: by opening it, which says what is missing. */
static void add_engine(struct report *r, int device, int driver)
{
	char name[16];
	struct ops *ops = NULL;
	struct err err = {0};
	snprintf(name, sizeof name, "cuda:%d", device);
	if (driver < DRIVER_CUDA) {
		char number[80];
		driver_number(number, sizeof number);
		add(r, "gpu engine", STATE_NOTE, "install " DRIVER_NEEDED,
			"the driver%s%s serves CUDA %d.%d; --device %s needs one that serves CUDA %d.%d", *number ? " " : "",
			number, driver / 1000, driver % 1000 / 10, name, DRIVER_CUDA / 1000, DRIVER_CUDA % 1000 / 10);
		return;
	}
	if (ops_open(name, &(struct ops_options){0}, &ops, &err)) add(r, "gpu engine", STATE_NOTE, NULL, "%s", err.text);
	else add(r, "gpu engine", STATE_OK, NULL, "--device %s works", name);
	ops_free(ops);
}

static void probe_gpu(struct report *r)
{
	static const char less[] = "none: %s; kernels are verified on the CPU and not timed";
	static const char fix[] = "where there is a GPU: " DRIVER_NEEDED;
	struct cuda c = {0};
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int count = 0, version = 0, rc = 0;
	/* A machine without a GPU can still verify, so nothing that is absent here is an error. */
	if (!lib) add(r, "gpu", STATE_NOTE, fix, less, "libcuda.so.1 was not found");
	else if (!cuda_load(lib, &c)) add(r, "gpu", STATE_NOTE, fix, less, "libcuda.so.1 lacks a function");
	else if ((rc = c.init(0)) || (rc = c.count(&count)) || !count) {
		char text[64];
		snprintf(text, sizeof(text), rc ? "the CUDA driver answers error %d" : "the CUDA driver sees no device", rc);
		add(r, "gpu", STATE_NOTE, fix, less, text);
	}
	if (count) c.version(&version);
	/* The driver gives its version as 1000 * major + 10 * minor. */
	for (int i = 0; i < MIN(count, GPUS_SHOWN_MAX); i++) {
		char name[128] = "?";
		int device = 0, major = 0, minor = 0;
		size_t bytes = 0;
		c.device(&device, i);
		c.name(name, sizeof(name), device);
		c.attribute(&major, CC_MAJOR, device);
		c.attribute(&minor, CC_MINOR, device);
		c.memory(&bytes, device);
		add(r, "gpu", STATE_OK, NULL, "%s, compute capability %d.%d, %.0f GiB, driver for CUDA %d.%d", name, major,
			minor, (double)bytes / (1 << 30), version / 1000, version % 1000 / 10);
		add_peaks(r, &c, device, name, version);
		add_engine(r, i, version);
	}
}

/* ---- output ---- */

static void print_text(const struct report *r)
{
	static const char *const marks[] = {[STATE_OK] = "ok     ", [STATE_NOTE] = "note   ", [STATE_MISSING] = "MISSING"};
	for (size_t i = 0; i < r->count; i++) {
		printf("%s  %-15s %s\n", marks[r->rows[i].state], r->rows[i].name, r->rows[i].value);
		if (r->rows[i].fix) printf("         %-15s fix: %s\n", "", r->rows[i].fix);
	}
}

static void print_json(const struct report *r, bool ok)
{
	static const char *const states[] = {[STATE_OK] = "ok", [STATE_NOTE] = "note", [STATE_MISSING] = "missing"};
	json_t *rows = json_array();
	for (size_t i = 0; i < r->count; i++) {
		const struct row *row = &r->rows[i];
		json_array_append_new(rows,
			json_pack("{s:s, s:s, s:s, s:s?}", "name", row->name, "state", states[row->state], "value", row->value,
				"fix", row->fix));
	}
	json_t *o = json_pack("{s:b, s:s, s:o}", "ok", ok, "version", HONE_VERSION, "rows", rows);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

struct doctor_settings {
	bool json;
	bool calibrate;
	const char *device;
};
static const struct option_def defs[] = {
	{"calibrate", OPTION_BOOL, offsetof(struct doctor_settings, calibrate),
		"measure first what the GPU can do at most (copies, products), and keep it: what kernels' floors are made from",
		NULL},
	{"device", OPTION_STR, offsetof(struct doctor_settings, device), "of --calibrate: cuda, cuda:N", NULL},
	{"json", OPTION_BOOL, offsetof(struct doctor_settings, json), "print one JSON object", NULL},
	OPTIONS_NEED("device", "calibrate")};

int cmd_doctor(int argc, char **argv)
{
	struct doctor_settings o = {.device = "cuda"};
	struct err err = {0};
	int npos,
		rc = options_parse("doctor", "what this machine offers, what is missing and how to get it", defs,
			ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (rc) return cli_fail("doctor", &err);
	struct gpu_peaks peaks;
	struct gpu_identity gpu;
	if (o.calibrate && gpu_peaks_measure(NULL, o.device, &peaks, &gpu, &err)) return cli_fail("doctor", &err);
	static void (*const probes[])(struct report *) = {
		probe_cpu, probe_gemm, probe_gpu, probe_sandbox, probe_parts, probe_python};
	struct report r = {.count = 0};
	for (size_t i = 0; i < ARRAY_LEN(probes); i++) probes[i](&r);
	bool ok = true;
	for (size_t i = 0; i < r.count; i++) ok = ok && r.rows[i].state != STATE_MISSING;
	if (o.json) print_json(&r, ok);
	else print_text(&r);
	return ok ? 0 : 1;
}
