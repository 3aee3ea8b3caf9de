/* ops_open: a backend by the name of its device. CUDA lies in a library of its own beside the
 * program, opened when it is asked for: hone runs where there is no GPU and nothing of NVIDIA's. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#include "ops/ops.h"
#include "base/base.h"
#include "cost/cost.h"
#include "ops/cpu_figures.h"
#include "ops/cuda_figures.h"
#include "ops/ops_check.h"

#define CUDA_LIBRARY "libhone_cuda.so"
#define CUDA_SYMBOL "hone_cuda_open"
#define CUDA_DEVICE_MAX 1023

/* abi: HONE_OPS_ABI of the caller; a library made from another ops.h refuses. */
typedef int cuda_open_fn(const char *abi, int device, const struct ops_options *, struct ops **out, struct err *err);

/* The first of: the program's folder, the folder above (tests lie in folders below it), and so on
 * up to three. */
static void *cuda_library(char *error, size_t len)
{
	char folder[4096];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
	folder[MAX(n, 0)] = 0;
	for (int up = 0; up < 3; up++) {
		char *slash = strrchr(folder, '/');
		if (!slash) break;
		*slash = 0;
		char *path = path_join(folder, CUDA_LIBRARY);
		bool exists = path_exists(path);
		void *library = exists ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
		if (exists && !library) snprintf(error, len, "%s", dlerror());
		free(path);
		if (exists) return library;
	}
	snprintf(error, len,
		"it is not beside the program; make builds it in hone's sources where there is an nvcc of CUDA 13, which "
		"tools/setup.sh --cuda fetches");
	return NULL;
}

static int cuda_open(int device, const struct ops_options *o, struct ops **out, struct err *err)
{
	char why[512];
	void *library = cuda_library(why, sizeof why);
	if (!library)
		return err_set(err, ERR_NOT_FOUND, "--device cuda needs " CUDA_LIBRARY ": %s; or take --device cpu", why);
	union {
		void *object;
		cuda_open_fn *fn;
	} open = {dlsym(library, CUDA_SYMBOL)}; /* ISO C has no cast from object to function pointers */
	if (!open.object)
		return err_set(err, ERR_MISMATCH, CUDA_LIBRARY " does not export " CUDA_SYMBOL "; build it again");
	return open.fn(HONE_OPS_ABI, device, o, out, err); /* stays open: its code runs until the program ends */
}

int ops_card_find(const char *name, struct ops_card *out, struct err *err)
{
	*out = (struct ops_card){0};
	if (!name || !*name) return 0;
	const struct vm_gpu *g = vm_gpu_find(name);
	if (!g) {
		struct str names = {0};
		for (int i = 0; i < VM_GPU_COUNT; i++) str_printf(&names, "%s%s", i ? ", " : "", vm_gpus[i].name);
		int rc = err_set(err, ERR_USAGE, "--cuda_card \"%.40s\" is unknown; expected one of %s", name, names.data);
		str_release(&names);
		return rc;
	}
	snprintf(out->name, sizeof out->name, "%s", g->name);
	out->capability = g->capability, out->sms = g->sms, out->shared_bytes = (int)g->shared_bytes;
	out->memory_bytes = g->memory_bytes;
	return 0;
}

/* The N of cuda:N; 0 of cuda. */
static bool cuda_number(const char *device, int *number)
{
	char *end = NULL;
	*number = 0;
	if (!strcmp(device, "cuda")) return true;
	if (strncmp(device, "cuda:", 5) || device[5] < '0' || device[5] > '9') return false;
	long n = strtol(device + 5, &end, 10);
	*number = (int)MIN(n, CUDA_DEVICE_MAX);
	return n <= CUDA_DEVICE_MAX && !*end;
}

static int device_unknown(const char *device, struct err *err)
{
	return err_set(
		err, ERR_USAGE, "--device \"%.40s\" is unknown; expected cpu, cuda or cuda:N with the GPU's number", device);
}

int ops_open(const char *device, const struct ops_options *o, struct ops **out, struct err *err)
{
	int number;
	*out = NULL;
	if (!strcmp(device, "cpu")) return ops_cpu_create(o, out, err);
	if (!strcmp(device, "check")) return ops_check_create(o, out, err);
	return cuda_number(device, &number) ? cuda_open(number, o, out, err) : device_unknown(device, err);
}

int ops_describe(const char *device, const struct ops_options *o, struct ops *out, struct err *err)
{
	static const struct ops_limits cpu_limits = CPU_LIMITS, cuda_limits = CUDA_LIMITS;
	bool is_cpu = !strcmp(device, "cpu"), is_check = !strcmp(device, "check");
	int number;
	if (!is_cpu && !is_check && !cuda_number(device, &number)) return device_unknown(device, err);
	*out = (struct ops){.name = is_cpu ? "cpu"
			: is_check                 ? "check"
									   : "cuda",
		.elem_bytes = is_cpu || is_check ? sizeof(float) : sizeof(uint16_t),
		.tail = is_cpu || is_check ? 0 : o->adapter_columns,
		.host_memory = is_cpu,
		.batch_invariant = is_cpu || is_check || o->batch_invariant,
		.limits = is_cpu || is_check ? &cpu_limits : &cuda_limits};
	return 0;
}

void ops_free(struct ops *ops)
{
	if (ops) ops->close(ops);
}

struct elem *ops_elem_at(const struct ops *ops, const struct elem *p, int64_t elements)
{
	return (struct elem *)((uintptr_t)p + (uintptr_t)(elements * ops->elem_bytes));
}
