/* gpu_uuid: how a GPU's UUID is written, by all who name one: locks between processes, NVIDIA's
 * management library, and CUDA_VISIBLE_DEVICES of a process that is to see it alone. In a header of
 * its own because the CUDA plugin writes it too. */
#ifndef HONE_GPU_UUID_H
#define HONE_GPU_UUID_H
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* As the driver's own tools write it: groups of 4, 2, 2, 2 and 6 bytes behind "GPU-", or "MIG-"
 * where the device is a part of a GPU, whose name says so ("NVIDIA A100-SXM4-40GB MIG 1g.5gb"). */
static inline void gpu_uuid_text(const unsigned char bytes[16], const char *name, char *out, size_t len)
{
	size_t used = (size_t)snprintf(out, len, "%s", strstr(name, " MIG ") ? "MIG-" : "GPU-");
	for (int i = 0; i < 16 && used < len; i++)
		used += (size_t)snprintf(
			out + used, len - used, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
}
#endif
