/* avx512: the second copy of every family, compiled for x86-64-v4 (tools/ops.mk); simd.h turns to
 * 16 lanes and the entry functions take the suffix _avx512. One file and not seven, so that the
 * list of families stands in two places only: here and in ops_cpu.h. */
#include "matmul.c"
#include "panels.c"
#include "norm.c"
#include "rope.c"
#include "attention.c"
#include "attention_backward.c"
#include "mlp.c"
#include "head.c"
#include "optim.c"
