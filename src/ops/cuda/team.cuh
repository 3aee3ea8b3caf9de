/* team: the blocks that make a row together and look into each other's shared memory: a cluster on
 * Hopper, on other cards a block by itself. */
#ifndef HONE_CUDA_TEAM_CUH
#define HONE_CUDA_TEAM_CUH
#include "ops_cuda_internal.h"
#include <cooperative_groups.h>

#if HOPPER_CODE
typedef cooperative_groups::cluster_group team;
static __device__ __forceinline__ team team_own(void) { return cooperative_groups::this_cluster(); }
#else
struct team {
	static __device__ __forceinline__ unsigned num_blocks(void) { return 1; }
	static __device__ __forceinline__ unsigned block_rank(void) { return 0; }
	static __device__ __forceinline__ void sync(void) { __syncthreads(); }
	template <typename T> static __device__ __forceinline__ T *map_shared_rank(T *p, int) { return p; }
};
static __device__ __forceinline__ team team_own(void) { return team(); }
#endif
#endif
