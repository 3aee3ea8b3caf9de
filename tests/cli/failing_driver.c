/* A driver that is there and does not start: cuInit gives FAKE_INIT (802: the machine's fabric is
 * not up, 999: unknown). test_no_gpu.py compiles it as libcuda.so.1. */
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuInit(unsigned flags) { return atoi(getenv("FAKE_INIT")); }
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }

/* All other functions are found, and fail alike. */
static int fails(void) { return atoi(getenv("FAKE_INIT")); }

int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status);
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *status)
{
	union {
		int (*function)(void);
		int (*init)(unsigned);
		int (*version)(int *);
		int (*find)(const char *, void **, int, unsigned long long, int *);
		void *object;
	} at = {fails};
	if (!strcmp(name, "cuInit")) at.init = cuInit;
	if (!strcmp(name, "cuDriverGetVersion")) at.version = cuDriverGetVersion;
	if (!strcmp(name, "cuGetProcAddress")) at.find = cuGetProcAddress_v2;
	*out = at.object;
	if (status) *status = 0;
	return 0;
}
