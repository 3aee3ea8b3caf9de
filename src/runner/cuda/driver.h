/* driver: the part of CUDA's driver interface that the runner uses, opened at run time: one binary
 * for machines with and without a GPU, and no header of CUDA needed to build it. Declared here are
 * the types, numbers and functions as the interface documents them (CUDA 12.0 and later; the
 * interface keeps them for all later versions); tests/runner/test_driver.c compares each with
 * NVIDIA's own header.
 *
 *   struct cu cu;
 *   if (cu_open(&cu, text, sizeof text)) puts(text);      no driver, too old, or a function missing
 *   cu.Init(0);
 * Every function returns a cu_result: 0 is success. cu_name gives its name for messages. */
#ifndef HONE_DRIVER_H
#define HONE_DRIVER_H
#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef uint64_t cu_address;
typedef uint64_t cu_allocation; /* memory that is mapped where somebody wants it */
typedef struct cu_context_opaque *cu_context;
typedef struct cu_module_opaque *cu_module;
typedef struct cu_function_opaque *cu_function;
typedef struct cu_stream_opaque *cu_stream;
typedef struct cu_event_opaque *cu_event;

/* Results that mean something to the runner. */
enum {
	CU_OK = 0,
	CU_INVALID_VALUE = 1,
	CU_OUT_OF_MEMORY = 2,
	CU_NO_DEVICE = 100,
	CU_INVALID_DEVICE = 101,
	CU_INVALID_IMAGE = 200,
	CU_NO_BINARY_FOR_GPU = 209,
	CU_ECC_UNCORRECTABLE = 214,
	CU_INVALID_PTX = 218,
	CU_NO_JIT_COMPILER = 221,
	CU_UNSUPPORTED_PTX = 222,
	CU_JIT_DISABLED = 223,
	CU_NOT_FOUND = 500,
	CU_NOT_READY = 600,
	CU_ILLEGAL_ADDRESS = 700,
	CU_LAUNCH_OUT_OF_RESOURCES = 701,
	CU_LAUNCH_TIMEOUT = 702,
	CU_ASSERT = 710,
	CU_HARDWARE_STACK_ERROR = 714,
	CU_ILLEGAL_INSTRUCTION = 715,
	CU_MISALIGNED_ADDRESS = 716,
	CU_INVALID_ADDRESS_SPACE = 717,
	CU_INVALID_PC = 718,
	CU_LAUNCH_FAILED = 719,
	CU_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
	CU_INVALID_CLUSTER_SIZE = 912,
};
enum {
	CU_CONTEXT_BLOCKING = 4,
	CU_STREAM_ALONE = 1,
	CU_EVENT_TIMED = 0,
	CU_EVENT_UNTIMED = 2,
	CU_CACHE_SHARED = 1,
	CU_WAIT_AT_LEAST = 0,
	CU_LOCATION_DEVICE = 1,
	CU_HANDLE_DESCRIPTOR = 1,
	CU_ACCESS_READ = 1,
	CU_ACCESS_BOTH = 3,
};
enum cu_device_attribute {
	CU_DEVICE_CLOCK_RATE = 13,
	CU_DEVICE_MULTIPROCESSOR_COUNT = 16,
	CU_DEVICE_MEMORY_CLOCK_RATE = 36,
	CU_DEVICE_L2_CACHE_SIZE = 38,
	CU_DEVICE_CAPABILITY_MAJOR = 75,
	CU_DEVICE_CAPABILITY_MINOR = 76,
	CU_DEVICE_SHARED_PER_BLOCK_OPTIN = 97,
};
enum cu_function_attribute {
	CU_FUNC_SHARED_SIZE_BYTES = 1,
	CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
	CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
};
enum cu_launch_attribute_id {
	CU_LAUNCH_COOPERATIVE = 2,
	CU_LAUNCH_CLUSTER_DIMENSION = 4,
	CU_LAUNCH_CLUSTER_SCHEDULING = 5,
	CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};
enum { CU_CLUSTER_SCHEDULING_SPREAD = 1 };
enum {
	CU_MAP_INTERLEAVE_NONE = 0,
	CU_MAP_L2_PROMOTION_128B = 2,
	CU_MAP_FILL_ZERO = 0,
	CU_MAP_FILL_NAN = 1,
};

struct cu_uuid {
	unsigned char bytes[16];
};
struct cu_launch_attribute {
	int id;
	char pad[4];
	union {
		char bytes[64];
		int number;
		unsigned dim[3];
	} value;
};
struct cu_launch_config {
	unsigned grid[3];
	unsigned block[3];
	unsigned shared_bytes;
	cu_stream stream;
	struct cu_launch_attribute *attributes;
	unsigned nattributes;
};
/* Who may do what with mapped memory. */
struct cu_access {
	int location; /* CU_LOCATION_DEVICE */
	int device;
	int flags;
};
struct cu_tensor_map {
	_Alignas(64) uint64_t opaque[16];
};

/* name, version of the interface that brought the form declared here, parameters */
#define CU_FUNCTIONS(X) \
	X(Init, 2000, (unsigned flags)) \
	X(DriverGetVersion, 2020, (int *version)) \
	X(GetErrorName, 6000, (cu_result r, const char **name)) \
	X(DeviceGet, 2000, (cu_device *d, int ordinal)) \
	X(DeviceGetCount, 2000, (int *count)) \
	X(DeviceGetName, 2000, (char *name, int len, cu_device d)) \
	X(DeviceGetAttribute, 2000, (int *value, int attribute, cu_device d)) \
	X(DeviceTotalMem, 3020, (size_t *bytes, cu_device d)) \
	X(DeviceGetUuid, 11040, (struct cu_uuid *uuid, cu_device d)) \
	X(DevicePrimaryCtxRetain, 7000, (cu_context *c, cu_device d)) \
	X(DevicePrimaryCtxSetFlags, 11000, (cu_device d, unsigned flags)) \
	X(CtxSetCurrent, 4000, (cu_context c)) \
	X(CtxSynchronize, 2000, (void)) \
	X(ModuleLoadData, 2000, (cu_module *m, const void *image)) \
	X(ModuleUnload, 2000, (cu_module m)) \
	X(ModuleGetFunction, 2000, (cu_function *f, cu_module m, const char *name)) \
	X(FuncGetAttribute, 2020, (int *value, int attribute, cu_function f)) \
	X(FuncSetAttribute, 9000, (cu_function f, int attribute, int value)) \
	X(FuncSetCacheConfig, 3000, (cu_function f, int config)) \
	X(LaunchKernelEx, 11060, (const struct cu_launch_config *c, cu_function f, void **params, void **extra)) \
	X(MemAlloc, 3020, (cu_address *p, size_t bytes)) \
	X(MemFree, 3020, (cu_address p)) \
	X(MemcpyHtoD, 3020, (cu_address to, const void *from, size_t bytes)) \
	X(MemcpyDtoH, 3020, (void *to, cu_address from, size_t bytes)) \
	X(MemcpyDtoDAsync, 3020, (cu_address to, cu_address from, size_t bytes, cu_stream s)) \
	X(MemcpyDtoHAsync, 3020, (void *to, cu_address from, size_t bytes, cu_stream s)) \
	X(MemsetD8Async, 3020, (cu_address to, unsigned char value, size_t count, cu_stream s)) \
	X(MemsetD16Async, 3020, (cu_address to, unsigned short value, size_t count, cu_stream s)) \
	X(MemsetD32Async, 3020, (cu_address to, unsigned value, size_t count, cu_stream s)) \
	X(StreamCreate, 2000, (cu_stream *s, unsigned flags)) \
	X(StreamDestroy, 4000, (cu_stream s)) \
	X(StreamQuery, 2000, (cu_stream s)) \
	X(StreamWaitEvent, 3020, (cu_stream s, cu_event e, unsigned flags)) \
	X(EventCreate, 2000, (cu_event *e, unsigned flags)) \
	X(EventDestroy, 4000, (cu_event e)) \
	X(EventRecord, 2000, (cu_event e, cu_stream s)) \
	X(EventElapsedTime, 2000, (float *ms, cu_event from, cu_event to))
/* Not in every driver: NULL where it is missing. */
#define CU_OPTIONAL_FUNCTIONS(X) \
	X(FuncGetParamInfo, 12040, (cu_function f, size_t i, size_t *offset, size_t *bytes)) \
	X(StreamWaitValue32, 11070, (cu_stream s, cu_address p, uint32_t value, unsigned flags)) \
	X(StreamWriteValue32, 11070, (cu_stream s, cu_address p, uint32_t value, unsigned flags)) \
	X(MemImportFromShareableHandle, 10020, (cu_allocation * h, void *descriptor, int type)) \
	X(MemAddressReserve, 10020, (cu_address *p, size_t bytes, size_t alignment, cu_address at, uint64_t flags)) \
	X(MemAddressFree, 10020, (cu_address p, size_t bytes)) \
	X(MemMap, 10020, (cu_address p, size_t bytes, size_t offset, cu_allocation h, uint64_t flags)) \
	X(MemUnmap, 10020, (cu_address p, size_t bytes)) \
	X(MemSetAccess, 10020, (cu_address p, size_t bytes, const struct cu_access *a, size_t count)) \
	X(MemRelease, 10020, (cu_allocation h)) \
	X(TensorMapEncodeTiled, 12000, (struct cu_tensor_map *m, int type, uint32_t rank, void *address, \
		const uint64_t *sizes, const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides, \
		int interleave, int swizzle, int l2_promotion, int fill))

#define X(name, version, parameters) cu_result(*name) parameters;
struct cu {
	void *library;
	CU_FUNCTIONS(X) CU_OPTIONAL_FUNCTIONS(X)
};
#undef X

/* 0, or -1 with a sentence in text. The library stays open for the life of the process. */
int cu_open(struct cu *cu, char *text, size_t len);
const char *cu_name(const struct cu *cu, cu_result r); /* "CUDA_ERROR_ILLEGAL_ADDRESS" */
#endif
