/* driver: opening libcuda.so.1 and asking it for its functions by name and version, so that each
 * has the form that driver.h declares, whatever newer forms the driver has beside it. */
#include "runner/cuda/driver.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER_MIN "525 (CUDA 12.0)"

typedef cu_result get_address_fn(const char *name, void **out, int version, uint64_t flags, int *status);

/* A data pointer into a function pointer, as dlsym's manual has it. */
static void function_set(void *member, void *address) { memcpy(member, &address, sizeof address); }

int cu_open(struct cu *cu, char *text, size_t len)
{
#define X(function, number, parameters) {"cu" #function, number, offsetof(struct cu, function)},
	static const struct entry {
		const char *name;
		int version;
		size_t offset;
	} needed[] = {CU_FUNCTIONS(X)}, optional[] = {CU_OPTIONAL_FUNCTIONS(X)};
#undef X
	memset(cu, 0, sizeof *cu);
	/* Where the loader knows it; else where containers and WSL put it. */
	static const char *const places[] = {
		"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"};
	for (size_t i = 0; !cu->library && i < sizeof places / sizeof *places; i++) {
		cu->library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
		if (i == 0 && !cu->library) snprintf(text, len, "no NVIDIA driver: %s", dlerror());
	}
	if (!cu->library) return -1;
	/* The driver's own look-up knows versions, which dlsym does not. */
	get_address_fn *get_address = NULL;
	function_set(&get_address, dlsym(cu->library, "cuGetProcAddress_v2"));
	if (!get_address) {
		snprintf(text, len, "the NVIDIA driver is too old: version %s or later is needed", DRIVER_MIN);
		return -1;
	}

	/* Status is 0 where the function exists in this version. */
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		void *address = NULL;
		int status = 1;
		if (get_address(needed[i].name, &address, needed[i].version, 0, &status) || status || !address) {
			snprintf(
				text, len, "the NVIDIA driver has no %s; version %s or later is needed", needed[i].name, DRIVER_MIN);
			return -1;
		}
		function_set((char *)cu + needed[i].offset, address);
	}
	/* Without these something is missing, which is said where it is asked for. */
	for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
		void *address = NULL;
		int status = 1;
		if (!get_address(optional[i].name, &address, optional[i].version, 0, &status) && !status && address)
			function_set((char *)cu + optional[i].offset, address);
	}
	return 0;
}

const char *cu_name(const struct cu *cu, cu_result r)
{
	const char *name = NULL;
	return cu->GetErrorName && cu->GetErrorName(r, &name) == 0 && name ? name : "an unknown CUDA error";
}
