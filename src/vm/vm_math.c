/* See vm_math.h. First form: libm in double, rounded once. */
#include "vm/vm_math.h"
#include <math.h>

#define BLOCK(f) void vm_math_##f(float *d, const float *a, int64_t n) { for (int64_t i = 0; i < n; i++) d[i] = (float)f((double)a[i]); }
BLOCK(exp) BLOCK(exp2) BLOCK(expm1) BLOCK(log) BLOCK(log2) BLOCK(log10) BLOCK(log1p) BLOCK(sin) BLOCK(cos) BLOCK(tanh) BLOCK(erf)
