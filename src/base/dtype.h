/* Element types, shared by tensors on disk, tapes and the vm. One table: name as torch prints it,
 * as safetensors writes it, as Triton's IR writes it. */
#ifndef HONE_DTYPE_H
#define HONE_DTYPE_H
#include "base/base.h"

/*        enum           torch            safetensors  ttir       bytes  float? signed? */
#define DTYPE_TABLE(X) \
	X(DTYPE_F32,     "float32",        "F32",       "f32",        4, 1, 1) \
	X(DTYPE_F64,     "float64",        "F64",       "f64",        8, 1, 1) \
	X(DTYPE_F16,     "float16",        "F16",       "f16",        2, 1, 1) \
	X(DTYPE_BF16,    "bfloat16",       "BF16",      "bf16",       2, 1, 1) \
	X(DTYPE_F8E4M3,  "float8_e4m3fn",  "F8_E4M3",   "f8E4M3FN",   1, 1, 1) \
	X(DTYPE_F8E5M2,  "float8_e5m2",    "F8_E5M2",   "f8E5M2",     1, 1, 1) \
	X(DTYPE_I8,      "int8",           "I8",        "i8",         1, 0, 1) \
	X(DTYPE_I16,     "int16",          "I16",       "i16",        2, 0, 1) \
	X(DTYPE_I32,     "int32",          "I32",       "i32",        4, 0, 1) \
	X(DTYPE_I64,     "int64",          "I64",       "i64",        8, 0, 1) \
	X(DTYPE_U8,      "uint8",          "U8",        "i8",         1, 0, 0) \
	X(DTYPE_U16,     "uint16",         "U16",       "i16",        2, 0, 0) \
	X(DTYPE_U32,     "uint32",         "U32",       "i32",        4, 0, 0) \
	X(DTYPE_U64,     "uint64",         "U64",       "i64",        8, 0, 0) \
	X(DTYPE_BOOL,    "bool",           "BOOL",      "i1",         1, 0, 0)
#define X(e, ...) e,
enum dtype { DTYPE_TABLE(X) DTYPE_COUNT };
#undef X

size_t dtype_bytes(enum dtype t);
bool dtype_is_float(enum dtype t);
const char *dtype_name(enum dtype t); /* torch's name */
const char *dtype_safetensors_name(enum dtype t);
int dtype_from_name(const char *name, enum dtype *out); /* torch's; ERR_NOT_FOUND */
int dtype_from_safetensors(const char *name, enum dtype *out);
/* Scalar conversions, round to nearest even; NaN stays NaN. What is out of f8E4M3's range becomes
 * NaN, as when torch casts, and does not saturate. */
uint16_t f32_to_bf16(float x);
float bf16_to_f32(uint16_t x);
uint16_t f32_to_f16(float x);
float f16_to_f32(uint16_t x);
uint8_t f32_to_f8e4m3(float x);
float f8e4m3_to_f32(uint8_t x);
uint8_t f32_to_f8e5m2(float x);
float f8e5m2_to_f32(uint8_t x);
/* Element i of an array of t as double / set from double (integers truncate toward zero, bool is x
 * != 0). */
double dtype_load(enum dtype t, const void *base, int64_t i);
void dtype_store(enum dtype t, void *base, int64_t i, double value);
#endif
