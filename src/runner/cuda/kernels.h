/* kernels: the launcher's own code on the GPU, as PTX text that the driver compiles when it is
 * first needed. Written for sm_80, so every card of the table takes it. Kernels of 256 threads;
 * but for hone_move they walk their work in steps of the whole grid. */
#ifndef HONE_CUDA_KERNELS_H
#define HONE_CUDA_KERNELS_H
#include "tape/tape.h"
#include <stdint.h>

#define CUDA_OWN_THREADS 256

/* hone_move's one parameter: element i, counted row-major over shape, goes from src to dst as bits.
 * Steps are bytes. src 0: a fill with `value`. A number n below 2^31 is divided by shape[d] as
 * (n + the upper half of n magic[d]) >> shift[d] (Granlund, Montgomery: Division by invariant
 * integers using multiplication, 1994). */
#define CUDA_MOVE_EACH 4 /* elements of a thread: their loads are under way together */
struct cuda_move {
	uint64_t dst;
	uint64_t src;
	uint64_t value;
	uint32_t count; /* below 2^31 */
	uint32_t size;  /* of an element: 1, 2, 4 or 8 */
	uint32_t ndim;  /* 1 and more */
	uint32_t unused;
	uint32_t shape[TAPE_DIMS_MAX];
	uint32_t magic[TAPE_DIMS_MAX];
	uint32_t shift[TAPE_DIMS_MAX];
	uint64_t dst_step[TAPE_DIMS_MAX];
	uint64_t src_step[TAPE_DIMS_MAX];
};

extern const char cuda_own_ptx[];
#endif
