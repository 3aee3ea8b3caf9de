/* kernels: the launcher's own code on the GPU, as PTX text that the driver compiles when it is
 * first needed. Written for sm_80, so every card of the table takes it. Kernels of 256 threads that
 * walk their work in steps of the whole grid. */
#ifndef HONE_CUDA_KERNELS_H
#define HONE_CUDA_KERNELS_H
#include "tape/tape.h"
#include <stdint.h>

#define CUDA_OWN_THREADS 256

/* hone_move's one parameter: element i of the row, counted row-major over shape, goes
 * from src to dst as bits. Sizes and steps of dimensions in order; steps are bytes. src
 * 0: a fill with `value`. */
struct cuda_move {
	uint64_t dst;
	uint64_t src;
	uint64_t count;
	uint64_t value;
	uint64_t size; /* of an element: 1, 2, 4 or 8 */
	uint64_t ndim;
	uint64_t shape[TAPE_DIMS_MAX];
	uint64_t dst_step[TAPE_DIMS_MAX];
	uint64_t src_step[TAPE_DIMS_MAX];
};

extern const char cuda_own_ptx[];
#endif
