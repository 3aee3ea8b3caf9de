/* vm_math: transcendental functions of blocks of f32. Private to the room.
 *
 * Each is evaluated in double precision (polynomials after an exact or two-word range reduction)
 * and rounded to float once, in loops that the compiler vectorises. The error is below 0.502 ulp of
 * the exact value for exp, exp2, expm1, log, log2, log10, log1p, tanh, erf, pow, and for sin and
 * cos up to |x| = 2^20 (beyond that libm in double takes over): checked by tests/vm/test_vm_math.c
 * against libm in double. d may be a. */
#ifndef HONE_VM_MATH_H
#define HONE_VM_MATH_H
#include <stdint.h>

void vm_math_exp(float *d, const float *a, int64_t n);
void vm_math_exp2(float *d, const float *a, int64_t n);
void vm_math_expm1(float *d, const float *a, int64_t n);
void vm_math_log(float *d, const float *a, int64_t n);
void vm_math_log2(float *d, const float *a, int64_t n);
void vm_math_log10(float *d, const float *a, int64_t n);
void vm_math_log1p(float *d, const float *a, int64_t n);
void vm_math_sin(float *d, const float *a, int64_t n);
void vm_math_cos(float *d, const float *a, int64_t n);
void vm_math_tanh(float *d, const float *a, int64_t n);
void vm_math_erf(float *d, const float *a, int64_t n);
void vm_math_pow(float *d, const float *x, const float *y, int64_t n); /* d may be x or y */
#endif
