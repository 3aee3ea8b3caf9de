/* cpu_figures: what is known of the CPU backend alone: the shapes that its operations are made for,
 * and what doctor and bench ask; ops is of ops_cpu_create. */
#ifndef HONE_CPU_FIGURES_H
#define HONE_CPU_FIGURES_H
#include "ops/ops.h"
#include <stdint.h>

#define CPU_HEAD_MAX 256  /* elements of a head, an even number: scratch of attention */
#define CPU_GROUP_MAX 128 /* query heads of a key head: rows of a block of queries */
#define CPU_LIMITS {2, CPU_HEAD_MAX, CPU_GROUP_MAX, INT32_MAX, 1, INT32_MAX, 1, INT32_MAX}

/* What the copies of prepare take. Each is in the smallest form that gives back the same bits: 4 or
 * 8 bits and a factor for every 32 of a row where all weights are such products (out of GGUF
 * files), bf16 or fp16 where all are, else fp32. */
size_t ops_prepared_bytes(const struct ops *ops);
#define OPS_PREPARED_BYTES_MAX ((size_t)2 << 30)   /* of one backend; what is beyond is packed when it is used */
/* The instruction set of the products ("AVX-512"); measured GFLOP/s of a 1024^3 product. */
const char *ops_gemm_name(const struct ops *ops);
double ops_gemm_gflops(struct ops *ops);
#endif
