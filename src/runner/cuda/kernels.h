/* kernels: the launcher's own code on the GPU, as PTX text that the driver compiles when it is
 * first needed. Written for sm_80, so every card of the table takes it. Kernels of 256 threads;
 * but for hone_move and hone_cast they walk their work in steps of the whole grid. */
#ifndef HONE_CUDA_KERNELS_H
#define HONE_CUDA_KERNELS_H
#include "base/dtype.h"
#include "tape/tape.h"
#include <stdint.h>

#define CUDA_OWN_THREADS 256

/* The one parameter of hone_move and of hone_cast: element i, counted row-major over shape, goes
 * from src to dst, as bits by hone_move, from one type to the other by hone_cast (as movement.h
 * casts). Steps are bytes. src 0: a fill with `value`, by hone_move alone. A number n below 2^31 is
 * divided by shape[d] as (n + the upper half of n magic[d]) >> shift[d] (Granlund, Montgomery:
 * Division by invariant integers using multiplication, 1994). */
#define CUDA_MOVE_EACH 4 /* elements of a thread: their loads are under way together */
struct cuda_move {
	uint64_t dst;
	uint64_t src;
	uint64_t value;
	uint32_t count; /* below 2^31 */
	uint32_t size;  /* of an element that is written: 1, 2, 4 or 8 */
	uint32_t ndim;  /* 1 and more */
	uint32_t unused;
	uint32_t shape[TAPE_DIMS_MAX];
	uint32_t magic[TAPE_DIMS_MAX];
	uint32_t shift[TAPE_DIMS_MAX];
	uint64_t dst_step[TAPE_DIMS_MAX];
	uint64_t src_step[TAPE_DIMS_MAX];
	uint32_t from; /* hone_cast: the code of src's type */
	uint32_t to;   /* and of dst's */
};
/* Types as hone_cast counts them; 0: one that it does not take, an 8-bit float. */
extern const uint8_t cuda_cast_codes[DTYPE_COUNT];

extern const char cuda_own_ptx[];
#endif
