/* A driver without a GPU, for tests of the CUDA launcher: the functions that driver.h declares,
 * over the host's memory. Built as libcuda.so.1 (by its soname), so that the launcher finds it as
 * it finds the real one once a test has opened it.
 *
 * A binary is an ELF magic number followed by the name of what its kernel does; a launch does that
 * with the parameters that it was given:
 *   add     (x, y, n, scratch, scratch): y[i] = x[i] + 1 for floats
 *   beyond  the same, and one more element of y
 *   spoil   the same, and x[0] = 7
 *   echo    (out, a, b, c, d ...): each parameter's 8 bytes to out, and the
 *           launch's shape behind them
 *   fault   CUDA_ERROR_ILLEGAL_ADDRESS at the next wait; hang: never done
 *   break   as add, and from then on the memory does not keep what is written to it
 * After fake_takes_ptx(1) the launcher's own PTX is taken too: hone_read and hone_spin do nothing,
 * hone_move moves as its parameter says, and hone_cast turns floats into doubles so. Then there are
 * gates, and a clock: a thousandth of a millisecond for each launch since the event before;
 * fake_gate tells whether a launch found the gate open that it should have waited behind. Memory
 * that another process shares is a file: what is imported is its descriptor. fake_mapped counts the
 * mappings there are, fake_read_only those that were made for reading alone. fake_left counts the
 * buffers that were freed with something in them; fake_loaded the modules there are. What cannot be
 * told apart from the real driver by the launcher is left out. */
#include "runner/cuda/driver.h"
#include "runner/cuda/kernels.h"
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FLUSH_BYTES ((size_t)2 << 20)

struct cu_module_opaque {
	char name[32];
};
static int state;     /* what StreamQuery answers */
static int allocated; /* blocks */
static int loaded;    /* modules */
static int left;      /* buffers freed with something in them */
static bool is_broken;
static bool takes_ptx, is_gated;
static int launches;     /* since the last reset */
static int early;        /* launches while nothing held them back, by an event that was recorded behind a gate */
static int at_event[64]; /* launches when an event was recorded */
static int nevents;
static int mapped, read_only; /* shared memory */
/* A lost context takes its memory and modules with it: they are kept in
 * reach, and go at the reset. */
static void *held[1024];
static void *hold(void *p)
{
	for (int i = 0; i < 1024; i++)
		if (!held[i]) return held[i] = p;
	abort();
}
static void let_go(void *p)
{
	for (int i = 0; i < 1024; i++)
		if (held[i] == p) held[i] = NULL;
	free(p);
}
int fake_loaded(void);
int fake_loaded(void) { return loaded; }
int fake_left(void);
int fake_left(void) { return left; }
int fake_allocated(void);
int fake_allocated(void) { return allocated; }
void fake_takes_ptx(int yes);
void fake_takes_ptx(int yes) { takes_ptx = yes; }
int fake_launches(void);
int fake_launches(void) { return launches; }
int fake_ungated(void);
int fake_ungated(void) { return early; }
void fake_reset(void);
void fake_reset(void)
{
	state = CU_OK;
	is_broken = takes_ptx = is_gated = false;
	allocated = loaded = left = launches = early = nevents = mapped = 0;
	for (int i = 0; i < 1024; i++) let_go(held[i]);
}

/* The call of this number, from 1, answers with an error in place of what it does; all behind it
 * too where the error lasts, as that of a lost context does. */
static int calls, fails_at;
static cu_result fails_with;
static bool fails_on;
static int stuck; /* memory freed behind a gate that nobody opened: a real driver would never come back */
int fake_calls(void);
int fake_calls(void) { return calls; }
int fake_stuck(void);
int fake_stuck(void) { return stuck; }
void fake_fail(int at, int result, int lasts);
void fake_fail(int at, int result, int lasts)
{
	calls = stuck = 0;
	fails_at = at;
	fails_with = result;
	fails_on = lasts;
}
#define MAY_FAIL() \
	do { \
		if (++calls == fails_at || (fails_on && calls > fails_at)) return fails_with; \
	} while (0)

static cu_result Init(unsigned flags)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result DriverGetVersion(int *v)
{
	MAY_FAIL();
	*v = 13000;
	return CU_OK;
}
static cu_result GetErrorName(cu_result r, const char **name)
{
	*name = r == CU_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_OTHER";
	return CU_OK;
}
static cu_result DeviceGet(cu_device *d, int n)
{
	MAY_FAIL();
	*d = n;
	return n == 0 ? CU_OK : CU_INVALID_DEVICE;
}
static cu_result DeviceGetCount(int *n)
{
	MAY_FAIL();
	*n = 1;
	return CU_OK;
}
static cu_result DeviceGetName(char *name, int len, cu_device d)
{
	MAY_FAIL();
	strncpy(name, "Fake H200", (size_t)len);
	return CU_OK;
}
static cu_result DeviceGetAttribute(int *v, int a, cu_device d)
{
	MAY_FAIL();
	*v = a == CU_DEVICE_CAPABILITY_MAJOR        ? 9
		: a == CU_DEVICE_SHARED_PER_BLOCK_OPTIN ? 232448
		: a == CU_DEVICE_MULTIPROCESSOR_COUNT   ? 132
												: 0;
	return CU_OK;
}
static cu_result DeviceTotalMem(size_t *n, cu_device d)
{
	MAY_FAIL();
	*n = (size_t)1 << 37;
	return CU_OK;
}
static cu_result DevicePrimaryCtxRetain(cu_context *c, cu_device d)
{
	MAY_FAIL();
	*c = (cu_context)&state;
	return CU_OK;
}
static cu_result DevicePrimaryCtxSetFlags(cu_device d, unsigned f)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result CtxSetCurrent(cu_context c)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result CtxSynchronize(void)
{
	MAY_FAIL();
	return state;
}
static cu_result ModuleLoadData(cu_module *m, const void *image)
{
	MAY_FAIL();
	bool is_ptx = memcmp(image, "\177ELF", 4);
	if (is_ptx && !takes_ptx) return CU_INVALID_PTX; /* no compiler for PTX here: the host moves */
	*m = hold(calloc(1, sizeof **m));
	loaded += !is_ptx;
	if (!is_ptx) strncpy((*m)->name, (const char *)image + 4, sizeof(*m)->name - 1);
	return CU_OK;
}
static cu_result ModuleUnload(cu_module m)
{
	MAY_FAIL();
	let_go(m);
	loaded--;
	return CU_OK;
}
static cu_result ModuleGetFunction(cu_function *f, cu_module m, const char *name)
{
	MAY_FAIL();
	*f = (cu_function)m;
	if (!strncmp(name, "hone_", 5)) { /* of the launcher's own module: a function is a module of its name */
		struct cu_module_opaque *own = hold(calloc(1, sizeof *own));
		strncpy(own->name, name, sizeof own->name - 1);
		*f = (cu_function)own;
	}
	return strcmp(name, "missing") ? CU_OK : CU_NOT_FOUND;
}
static cu_result FuncGetAttribute(int *v, int a, cu_function f)
{
	MAY_FAIL();
	*v = 0;
	return CU_OK;
}
static cu_result FuncSetAttribute(cu_function f, int a, int v)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result FuncSetCacheConfig(cu_function f, int c)
{
	MAY_FAIL();
	return CU_OK;
}

static void echo(const struct cu_launch_config *c, void **p)
{
	uint64_t *out = *(uint64_t **)p[0];
	size_t n = 0;
	for (; p[n + 1]; n++) memcpy(&out[n], p[n + 1], 8);
	const uint64_t shape[] = {c->grid[0], c->grid[1], c->grid[2], c->block[0], c->shared_bytes, c->nattributes,
		c->nattributes ? (uint64_t)c->attributes[0].id : 0, 0x5eed};
	memcpy(&out[n], shape, sizeof shape);
}

static cu_result LaunchKernelEx(const struct cu_launch_config *c, cu_function f, void **p, void **extra)
{
	MAY_FAIL();
	const char *name = ((cu_module)f)->name;
	launches++;
	early += !is_gated;
	/* The launcher's own kernels first: what it compares with, and what it moves with. */
	if (!strcmp(name, "hone_differ")) {
		size_t bytes = 16 * *(uint64_t *)p[2];
		if (memcmp(*(void **)p[0], *(void **)p[1], bytes)) **(uint32_t **)p[3] = 1;
	} else if (!strcmp(name, "hone_move") || !strcmp(name, "hone_cast")) {
		const struct cuda_move *m = p[0];
		bool casts = !strcmp(name, "hone_cast");
		if (casts && (m->from != cuda_cast_codes[DTYPE_F32] || m->to != cuda_cast_codes[DTYPE_F64]))
			return CU_INVALID_VALUE;
		for (uint32_t i = 0; i < m->count; i++) {
			uint32_t rest = i;
			uint64_t to = m->dst, from = m->src;
			for (uint32_t d = m->ndim; d-- > 0;) {
				uint32_t quotient = ((uint32_t)((uint64_t)rest * m->magic[d] >> 32) + rest) >> m->shift[d];
				uint32_t at = rest - quotient * m->shape[d];
				to += at * m->dst_step[d], from += at * m->src_step[d], rest = quotient;
			}
			if (casts) *(double *)(uintptr_t)to = *(float *)(uintptr_t)from;
			else memcpy((void *)(uintptr_t)to, m->src ? (const void *)(uintptr_t)from : &m->value, m->size);
		}
		/* Then kernels of a candidate, by name: faults of every kind, and sums that are right or
		 * not. */
	} else if (!strncmp(name, "hone_", 5)) return CU_OK;
	else if (!strcmp(name, "fault")) state = CU_ILLEGAL_ADDRESS;
	else if (!strcmp(name, "hang")) state = CU_NOT_READY;
	else if (!strcmp(name, "echo")) echo(c, p);
	else {
		is_broken = !strcmp(name, "break");
		float *x = *(float **)p[0], *y = *(float **)p[1];
		int n = *(int *)p[2] + !strcmp(name, "beyond");
		for (int i = 0; i < n; i++) y[i] = x[i] + 1;
		if (!strcmp(name, "spoil")) x[0] = 7;
	}
	return CU_OK;
}
static cu_result MemAlloc(cu_address *p, size_t n)
{
	MAY_FAIL();
	*p = (cu_address)(uintptr_t)hold(aligned_alloc(512, (n + 511) / 512 * 512));
	allocated++;
	return *p ? CU_OK : CU_OUT_OF_MEMORY;
}
static cu_result MemFree(cu_address p)
{
	MAY_FAIL();
	stuck += is_gated;
	/* A buffer lies between two canaries of 4,096 bytes; all else is smaller. */
	left += malloc_usable_size((void *)(uintptr_t)p) > 8192 && ((unsigned char *)(uintptr_t)p)[4096] != 0xff;
	let_go((void *)(uintptr_t)p);
	allocated--;
	return CU_OK;
}
static cu_result MemcpyHtoD(cu_address to, const void *from, size_t n)
{
	MAY_FAIL();
	memcpy((void *)(uintptr_t)to, from, n);
	return CU_OK;
}
static cu_result MemcpyDtoH(void *to, cu_address from, size_t n)
{
	MAY_FAIL();
	memcpy(to, (void *)(uintptr_t)from, n);
	return CU_OK;
}
static cu_result MemcpyDtoDAsync(cu_address to, cu_address from, size_t n, cu_stream s)
{
	MAY_FAIL();
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
	return CU_OK;
}
static cu_result MemcpyDtoHAsync(void *to, cu_address from, size_t n, cu_stream s)
{
	MAY_FAIL();
	return MemcpyDtoH(to, from, n);
}
static cu_result MemsetD8Async(cu_address to, unsigned char v, size_t n, cu_stream s)
{
	MAY_FAIL();
	/* What fills a cache is large, and nobody looks at it. */
	memset((void *)(uintptr_t)to, is_broken ? 0 : v, n > FLUSH_BYTES ? FLUSH_BYTES : n);
	return CU_OK;
}
static cu_result MemsetD16Async(cu_address to, unsigned short v, size_t n, cu_stream s)
{
	MAY_FAIL();
	for (size_t i = 0; i < n; i++) memcpy((char *)(uintptr_t)to + 2 * i, &v, 2);
	return CU_OK;
}
static cu_result MemsetD32Async(cu_address to, unsigned v, size_t n, cu_stream s)
{
	MAY_FAIL();
	for (size_t i = 0; i < n; i++) memcpy((char *)(uintptr_t)to + 4 * i, &v, 4);
	return CU_OK;
}
static cu_result StreamCreate(cu_stream *s, unsigned f)
{
	MAY_FAIL();
	*s = (cu_stream)&state;
	return CU_OK;
}
static cu_result StreamDestroy(cu_stream s)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result StreamQuery(cu_stream s)
{
	MAY_FAIL();
	return state;
}
static cu_result StreamWaitEvent(cu_stream s, cu_event e, unsigned f)
{
	MAY_FAIL();
	return e ? CU_OK : CU_INVALID_VALUE;
}
static cu_result EventCreate(cu_event *e, unsigned f)
{
	MAY_FAIL();
	*e = (cu_event)&at_event[nevents++ % 64];
	return CU_OK;
}
static cu_result EventDestroy(cu_event e)
{
	MAY_FAIL();
	return CU_OK;
}
static cu_result EventRecord(cu_event e, cu_stream s)
{
	MAY_FAIL();
	if (!e) return CU_INVALID_VALUE;
	*(int *)e = launches;
	return CU_OK;
}
static cu_result EventElapsedTime(float *ms, cu_event a, cu_event b)
{
	MAY_FAIL();
	*ms = 1e-3f * (float)(*(int *)b - *(int *)a);
	return CU_OK;
}
static cu_result StreamWaitValue32(cu_stream s, cu_address p, uint32_t value, unsigned flags)
{
	MAY_FAIL();
	if (*(uint32_t *)(uintptr_t)p >= value) return CU_INVALID_VALUE; /* a gate that is open holds nothing back */
	is_gated = true;
	early = 0;
	return CU_OK;
}
static cu_result StreamWriteValue32(cu_stream s, cu_address p, uint32_t value, unsigned flags)
{
	MAY_FAIL();
	*(uint32_t *)(uintptr_t)p = value;
	is_gated = false;
	return CU_OK;
}
static cu_result DeviceGetUuid(struct cu_uuid *u, cu_device d)
{
	MAY_FAIL();
	/* As the real one: which card number 0 is, is for the environment to say. Here it is the last
	 * of the list, so that a list shows whether it came whole. */
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	if (visible && strrchr(visible, ',')) visible = strrchr(visible, ',') + 1;
	for (int i = 0; i < 16; i++) u->bytes[i] = (unsigned char)(0x10 * i + i);
	u->bytes[0] = (unsigned char)(visible ? atoi(visible) : 0);
	return CU_OK;
}

/* ---- shared memory ---- */

int fake_mapped(void);
int fake_mapped(void) { return mapped; }
int fake_read_only(void);
int fake_read_only(void) { return read_only; }
static cu_result MemImportFromShareableHandle(cu_allocation *h, void *descriptor, int type)
{
	MAY_FAIL();
	struct stat st;
	*h = (cu_allocation)(uintptr_t)descriptor + 1;
	return fstat((int)(uintptr_t)descriptor, &st) ? CU_INVALID_VALUE : CU_OK;
}
static cu_result MemAddressReserve(cu_address *p, size_t n, size_t alignment, cu_address at, uint64_t flags)
{
	MAY_FAIL();
	void *place = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*p = (cu_address)(uintptr_t)place;
	return place == MAP_FAILED ? CU_OUT_OF_MEMORY : CU_OK;
}
static cu_result MemAddressFree(cu_address p, size_t n)
{
	MAY_FAIL();
	return munmap((void *)(uintptr_t)p, n) ? CU_INVALID_VALUE : CU_OK;
}
static cu_result MemMap(cu_address p, size_t n, size_t offset, cu_allocation h, uint64_t flags)
{
	MAY_FAIL();
	struct stat st;
	if (fstat((int)h - 1, &st) || (size_t)st.st_size < n) return CU_INVALID_VALUE;
	mapped++;
	return mmap((void *)(uintptr_t)p, n, PROT_NONE, MAP_SHARED | MAP_FIXED, (int)h - 1, 0) == MAP_FAILED
		? CU_INVALID_VALUE
		: CU_OK;
}
static cu_result MemUnmap(cu_address p, size_t n)
{
	MAY_FAIL();
	mapped--;
	return mmap((void *)(uintptr_t)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED
		? CU_INVALID_VALUE
		: CU_OK;
}
static cu_result MemSetAccess(cu_address p, size_t n, const struct cu_access *a, size_t count)
{
	MAY_FAIL();
	read_only += a->flags == CU_ACCESS_READ;
	return mprotect((void *)(uintptr_t)p, n, a->flags == CU_ACCESS_READ ? PROT_READ : PROT_READ | PROT_WRITE)
		? CU_INVALID_VALUE
		: CU_OK;
}
static cu_result MemRelease(cu_allocation h)
{
	MAY_FAIL();
	return CU_OK;
}

cu_result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status);
cu_result cuGetProcAddress_v2(const char *name, void **out, int version, uint64_t flags, int *status)
{
#define X(function, number, parameters) {"cu" #function, (void *)function, number},
	static const struct {
		const char *name;
		void *address;
		int version;
	} table[] = {CU_FUNCTIONS(X) X(StreamWaitValue32, 11070, ) X(StreamWriteValue32, 11070, )
			X(MemImportFromShareableHandle, 10020, ) X(MemAddressReserve, 10020, ) X(MemAddressFree, 10020, )
				X(MemMap, 10020, ) X(MemUnmap, 10020, ) X(MemSetAccess, 10020, ) X(MemRelease, 10020, )};
#undef X
	*out = NULL;
	*status = 1;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!strcmp(table[i].name, name) && table[i].version == version) {
			*out = table[i].address;
			*status = 0;
		}
	return CU_OK;
}
