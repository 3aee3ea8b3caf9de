/* one_device: answers torch's question "which CUDA device is current?" in a process that has no
 * GPU.
 *
 * While a candidate is traced its tensors say that they are on cuda:0. torch guards indexing,
 * contiguous() and the like with a switch to the tensor's device and back, deep in C++ where no
 * Python hook reaches, and asks the driver for it. These are those functions of c10
 * (libc10_cuda.so, called through its PLT): loaded before torch with RTLD_GLOBAL they come first.
 * Device 0 is current, and every switch is a switch to it. Part of libhone_sandbox.so, for the
 * workers only; the names are C++'s, mangled.
 *
 * Autograd's graph notes the stream that each operator ran on: the default one. A backward pass
 * over such a graph would need a driver; tracer_tensor.py refuses it before it begins. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* c10::cuda::CUDAStream, which is returned in two registers. */
struct one_stream {
	int8_t device_type;  /* 1: CUDA */
	int8_t device_index; /* 0 */
	int64_t id;          /* 0: the default stream */
};

int one_device_get(signed char *device) __asm__("_ZN3c104cuda9GetDeviceEPa");
int one_device_set(signed char device, bool force) __asm__("_ZN3c104cuda9SetDeviceEab");
int one_device_set_maybe(signed char device) __asm__("_ZN3c104cuda14MaybeSetDeviceEa");
signed char one_device_exchange(signed char device) __asm__("_ZN3c104cuda14ExchangeDeviceEa");
signed char one_device_exchange_maybe(signed char device) __asm__("_ZN3c104cuda19MaybeExchangeDeviceEa");
signed char one_device_current(void) __asm__("_ZN3c104cuda14current_deviceEv");
struct one_stream one_device_stream(signed char device) __asm__("_ZN3c104cuda20getCurrentCUDAStreamEa");
struct one_stream one_device_default_stream(signed char device) __asm__("_ZN3c104cuda20getDefaultCUDAStreamEa");
void one_device_set_stream(struct one_stream stream) __asm__("_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE");
void one_device_check(int error, const char *file, const char *function, unsigned line, bool assertions) __asm__(
	"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb");

int one_device_get(signed char *device)
{
	*device = 0;
	return 0;
}
int one_device_set(signed char device, bool force) { return 0; }
int one_device_set_maybe(signed char device) { return 0; }
signed char one_device_exchange(signed char device) { return 0; }
signed char one_device_exchange_maybe(signed char device) { return 0; }
signed char one_device_current(void) { return 0; }

struct one_stream one_device_stream(signed char device) { return (struct one_stream){.device_type = 1}; }
struct one_stream one_device_default_stream(signed char device) { return (struct one_stream){.device_type = 1}; }
void one_device_set_stream(struct one_stream stream) {}

/* c10's own check counts the devices first, even when there is nothing to report. A real error goes
 * to it: it throws, and the candidate gets its exception. */
void one_device_check(int error, const char *file, const char *function, unsigned line, bool assertions)
{
	typedef void check_fn(int, const char *, const char *, unsigned, bool);
	if (error == 0) return;
	void *c10 = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
	check_fn *check = c10 ? (check_fn *)dlsym(c10, "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb") : NULL;
	if (!check || check == one_device_check) abort();
	check(error, file, function, line, assertions);
}
