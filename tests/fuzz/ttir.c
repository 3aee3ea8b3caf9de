/* libFuzzer entry of the vm: any bytes as Triton IR; what is accepted runs over small buffers.
 * tests/vm/test_vm_hostile.c makes the same checks without libFuzzer. */
#include "../vm/hostile_kernel.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	hostile_kernel((const char *)data, len);
	return 0;
}
