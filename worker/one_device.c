/* one_device: answers torch's question "which CUDA device is current?" in a process that has no
 * GPU.
 *
 * While a candidate is traced its tensors say that they are on cuda:0. torch guards indexing,
 * contiguous() and the like with a switch to the tensor's device and back, deep in C++ where no
 * Python hook reaches, and asks the driver for it. These are those functions of c10
 * (libc10_cuda.so, called through its PLT): loaded before torch with RTLD_GLOBAL they come first.
 * Device 0 is current, and every switch is a switch to it. Part of libhone_sandbox.so, for the
 * workers only; the names are C++'s, mangled. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

int one_device_get(signed char *device) __asm__("_ZN3c104cuda9GetDeviceEPa");
int one_device_set(signed char device, bool force) __asm__("_ZN3c104cuda9SetDeviceEab");
int one_device_set_maybe(signed char device) __asm__("_ZN3c104cuda14MaybeSetDeviceEa");
signed char one_device_exchange(signed char device) __asm__("_ZN3c104cuda14ExchangeDeviceEa");
signed char one_device_exchange_maybe(signed char device) __asm__("_ZN3c104cuda19MaybeExchangeDeviceEa");
signed char one_device_current(void) __asm__("_ZN3c104cuda14current_deviceEv");
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
