/* A driver's two libraries with one GPU and the version of FAKE_CUDA (12040: CUDA 12.4), for what
 * hone doctor says of a driver that is too old. The GPU is FAKE_GPU of capability FAKE_CAPABILITY
 * (89: 8.9), else an A100. test_hone.sh compiles it as libcuda.so.1 and as libnvidia-ml.so.1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned flags);
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
	const char *told = getenv("FAKE_CUDA");
	*version = told ? atoi(told) : 0;
	return 0;
}
int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int number);
int cuDeviceGet(int *device, int number) { return *device = number, 0; }
int cuDeviceGetName(char *name, int len, int device);
int cuDeviceGetName(char *name, int len, int device)
{
	const char *told = getenv("FAKE_GPU");
	return snprintf(name, (size_t)len, "%s", told ? told : "NVIDIA A100-SXM4-80GB"), 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	const char *told = getenv("FAKE_CAPABILITY");
	int capability = told ? atoi(told) : 80;
	*value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0;
	return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return *bytes = (size_t)80 << 30, 0; }
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return memset(uuid, 7, 16), 0; }

int nvmlInit_v2(void);
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *version, unsigned len);
int nvmlSystemGetDriverVersion(char *version, unsigned len) { return snprintf(version, len, "550.54.15"), 0; }
