/* map: the element-wise operations, one row each. Private to the room.
 *
 * A row says what the IR calls the operation, how many operands it has, which element types it
 * takes (I: integers, F: floats) and what it costs. The kernels are in map_int.c, map_float.c and
 * map_math.c; casts and comparisons have tables of their own in map_cast.c. */
#ifndef HONE_VM_MAP_H
#define HONE_VM_MAP_H
#include "base/base.h"
#include "ttir/ttir.h"

/* MAP_DIVSI to MAP_FLOORDIVSI are the divisions. */
/*        id            IR name               operands  class  flops  special */
#define MAP_INT_TABLE(X) \
	X(MAP_ADDI,       "arith.addi",         2, 'I', 0, 0) X(MAP_SUBI,       "arith.subi",         2, 'I', 0, 0) \
	X(MAP_MULI,       "arith.muli",         2, 'I', 0, 0) X(MAP_DIVSI,      "arith.divsi",        2, 'I', 0, 0) \
	X(MAP_DIVUI,      "arith.divui",        2, 'I', 0, 0) X(MAP_REMSI,      "arith.remsi",        2, 'I', 0, 0) \
	X(MAP_REMUI,      "arith.remui",        2, 'I', 0, 0) X(MAP_CEILDIVSI,  "arith.ceildivsi",    2, 'I', 0, 0) \
	X(MAP_CEILDIVUI,  "arith.ceildivui",    2, 'I', 0, 0) X(MAP_FLOORDIVSI, "arith.floordivsi",   2, 'I', 0, 0) \
	X(MAP_ANDI,       "arith.andi",         2, 'I', 0, 0) X(MAP_ORI,        "arith.ori",          2, 'I', 0, 0) \
	X(MAP_XORI,       "arith.xori",         2, 'I', 0, 0) X(MAP_SHLI,       "arith.shli",         2, 'I', 0, 0) \
	X(MAP_SHRSI,      "arith.shrsi",        2, 'I', 0, 0) X(MAP_SHRUI,      "arith.shrui",        2, 'I', 0, 0) \
	X(MAP_MAXSI,      "arith.maxsi",        2, 'I', 0, 0) X(MAP_MAXUI,      "arith.maxui",        2, 'I', 0, 0) \
	X(MAP_MINSI,      "arith.minsi",        2, 'I', 0, 0) X(MAP_MINUI,      "arith.minui",        2, 'I', 0, 0) \
	X(MAP_MULHIUI,    "tt.mulhiui",         2, 'I', 0, 0) X(MAP_MULHISI,    "mulhisi",            2, 'I', 0, 0) \
	X(MAP_IPOWI,      "math.ipowi",         2, 'I', 0, 0) \
	X(MAP_ABSI,       "math.absi",          1, 'I', 0, 0) X(MAP_CTPOP,      "math.ctpop",         1, 'I', 0, 0) \
	X(MAP_CTLZ,       "math.ctlz",          1, 'I', 0, 0) X(MAP_CTTZ,       "math.cttz",          1, 'I', 0, 0) \
	X(MAP_BREV,       "brev",               1, 'I', 0, 0) X(MAP_FFS,        "ffs",                1, 'I', 0, 0)

#define MAP_FLOAT_TABLE(X) \
	X(MAP_ADDF,       "arith.addf",         2, 'F', 1, 0) X(MAP_SUBF,       "arith.subf",         2, 'F', 1, 0) \
	X(MAP_MULF,       "arith.mulf",         2, 'F', 1, 0) X(MAP_DIVF,       "arith.divf",         2, 'F', 1, 1) \
	X(MAP_PRECISE_DIVF, "tt.precise_divf",  2, 'F', 1, 1) X(MAP_REMF,       "arith.remf",         2, 'F', 1, 1) \
	X(MAP_MAXIMUMF,   "arith.maximumf",     2, 'F', 1, 0) X(MAP_MINIMUMF,   "arith.minimumf",     2, 'F', 1, 0) \
	X(MAP_MAXNUMF,    "arith.maxnumf",      2, 'F', 1, 0) X(MAP_MINNUMF,    "arith.minnumf",      2, 'F', 1, 0) \
	X(MAP_COPYSIGN,   "math.copysign",      2, 'F', 1, 0) X(MAP_NEGF,       "arith.negf",         1, 'F', 1, 0) \
	X(MAP_ABSF,       "math.absf",          1, 'F', 1, 0) X(MAP_CEIL,       "math.ceil",          1, 'F', 1, 0) \
	X(MAP_FLOOR,      "math.floor",         1, 'F', 1, 0) X(MAP_ROUND,      "math.round",         1, 'F', 1, 0) \
	X(MAP_ROUNDEVEN,  "math.roundeven",     1, 'F', 1, 0) X(MAP_TRUNC,      "math.trunc",         1, 'F', 1, 0) \
	X(MAP_SQRT,       "math.sqrt",          1, 'F', 1, 1) X(MAP_PRECISE_SQRT, "tt.precise_sqrt",  1, 'F', 1, 1) \
	X(MAP_RSQRT,      "math.rsqrt",         1, 'F', 1, 1) X(MAP_SATURATE,   "saturate",           1, 'F', 1, 0) \
	X(MAP_FMA,        "math.fma",           3, 'F', 2, 0) X(MAP_CLAMPF,     "clampf",             3, 'F', 2, 0) \
	X(MAP_CLAMPF_NAN, "clampf nan",         3, 'F', 2, 0) X(MAP_FMS,      "a*b-c",              3, 'F', 2, 0) \
	X(MAP_FNMA,       "c-a*b",              3, 'F', 2, 0)

/* Transcendental: f32 and f64 kernels come from one expression each in map_math.c. */
#define MAP_MATH_TABLE(X) \
	X(MAP_EXP,        "math.exp",           1, 'F', 1, 1) X(MAP_EXP2,       "math.exp2",          1, 'F', 1, 1) \
	X(MAP_EXPM1,      "math.expm1",         1, 'F', 1, 1) X(MAP_LOG,        "math.log",           1, 'F', 1, 1) \
	X(MAP_LOG2,       "math.log2",          1, 'F', 1, 1) X(MAP_LOG10,      "math.log10",         1, 'F', 1, 1) \
	X(MAP_LOG1P,      "math.log1p",         1, 'F', 1, 1) X(MAP_SIN,        "math.sin",           1, 'F', 1, 1) \
	X(MAP_COS,        "math.cos",           1, 'F', 1, 1) X(MAP_TAN,        "math.tan",           1, 'F', 1, 1) \
	X(MAP_SINH,       "math.sinh",          1, 'F', 1, 1) X(MAP_COSH,       "math.cosh",          1, 'F', 1, 1) \
	X(MAP_TANH,       "math.tanh",          1, 'F', 1, 1) X(MAP_ASIN,       "math.asin",          1, 'F', 1, 1) \
	X(MAP_ACOS,       "math.acos",          1, 'F', 1, 1) X(MAP_ATAN,       "math.atan",          1, 'F', 1, 1) \
	X(MAP_ASINH,      "math.asinh",         1, 'F', 1, 1) X(MAP_ACOSH,      "math.acosh",         1, 'F', 1, 1) \
	X(MAP_ATANH,      "math.atanh",         1, 'F', 1, 1) X(MAP_ERF,        "math.erf",           1, 'F', 1, 1) \
	X(MAP_ERFC,       "math.erfc",          1, 'F', 1, 1) X(MAP_CBRT,       "math.cbrt",          1, 'F', 1, 1) \
	X(MAP_EXP10,      "exp10",              1, 'F', 1, 1) X(MAP_LGAMMA,     "lgamma",             1, 'F', 1, 1) \
	X(MAP_TGAMMA,     "tgamma",             1, 'F', 1, 1) X(MAP_ERFINV,     "erfinv",             1, 'F', 1, 1) \
	X(MAP_NORMCDF,    "normcdf",            1, 'F', 1, 1) X(MAP_LOGB,       "logb",               1, 'F', 1, 1) \
	X(MAP_SINPI,      "sinpi",              1, 'F', 1, 1) X(MAP_COSPI,      "cospi",              1, 'F', 1, 1) \
	X(MAP_RCBRT,      "rcbrt",              1, 'F', 1, 1) X(MAP_RCP,        "rcp",                1, 'F', 1, 1) \
	X(MAP_J0,         "j0",                 1, 'F', 1, 1) X(MAP_J1,         "j1",                 1, 'F', 1, 1) \
	X(MAP_Y0,         "y0",                 1, 'F', 1, 1) X(MAP_Y1,         "y1",                 1, 'F', 1, 1) \
	X(MAP_POWF,       "math.powf",          2, 'F', 1, 1) X(MAP_ATAN2,      "math.atan2",         2, 'F', 1, 1) \
	X(MAP_HYPOT,      "hypot",              2, 'F', 1, 1) X(MAP_FDIM,       "fdim",               2, 'F', 1, 0) \
	X(MAP_NEXTAFTER,  "nextafter",          2, 'F', 1, 0) X(MAP_REMAINDER,  "remainder",          2, 'F', 1, 1) \
	X(MAP_LDEXP,      "ldexp",              2, 'F', 1, 0)

#define MAP_TABLE(X) MAP_INT_TABLE(X) MAP_FLOAT_TABLE(X) MAP_MATH_TABLE(X)
#define X(id, ...) id,
enum map_op { MAP_TABLE(X) MAP_COUNT };
#undef X
struct map_row {
	const char *name;
	uint8_t nsrc;
	char class;
	uint8_t flops;
	uint8_t special;
};
extern const struct map_row map_rows[MAP_COUNT];

/* d and the sources are arrays of n elements; bit i of splat says that source i is one element that
 * stands for all. d may be the same array as a source, never one that overlaps it otherwise. Not
 * every source is a splat. */
typedef void map_fn(void *d, const void *a, const void *b, const void *c, int64_t n, unsigned splat);

/* Kernel for operands of type e; NULL when there is none. 16- and 8-bit floats are computed by the
 * f32 kernel on converted strips. */
map_fn *map_kernel(enum map_op op, enum elem e);
map_fn *map_int_kernel(enum map_op op, enum elem e);
extern map_fn *const map_float_kernels[MAP_COUNT][2]; /* arithmetic and rounding, by f32 and f64; NULL: others */

/* Comparison to i1. Predicates are named as in the IR. */
map_fn *map_cmpi_kernel(struct slice predicate, enum elem e);
map_fn *map_cmpf_kernel(struct slice predicate, enum elem e);
/* The orders of two floats for which a predicate holds, or'ed; 0 for a predicate that is not known
 * too. */
enum map_orders { MAP_LESS = 1, MAP_EQUAL = 2, MAP_GREATER = 4, MAP_UNORDERED = 8 };
int map_cmp_orders(struct slice predicate);
enum map_class { MAP_ISNAN, MAP_ISINF, MAP_ISFINITE, MAP_ISNORMAL, MAP_SIGNBIT, MAP_CLASS_COUNT };
int map_class_of(const char *predicate); /* enum map_class, or MAP_CLASS_COUNT */
/* isnan, isinf, isfinite, isnormal, signbit: i1 or i32. */
map_fn *map_class_kernel(const char *predicate, enum elem e, enum elem result);
/* select(mask, x, y) of an element of `bytes` bytes. */
map_fn *map_select_kernel(size_t bytes);

/* d[i] = convert(a[i]); kind is the IR's operation without dialect: extsi, extui, trunci, sitofp,
 * uitofp, fptosi, fptoui, extf, truncf, or rtz (truncf toward zero). NULL when there is none.
 * strips: the kernel expects f32 in place of a narrow float. */
map_fn *map_cast_kernel(const char *kind, enum elem from, enum elem to, bool *strips);
/* Strips of 16- and 8-bit floats to f32 and back (round to nearest even; 8-bit formats saturate as
 * the hardware's conversion does). */
void map_widen(enum elem e, float *d, const void *a, int64_t n);
void map_narrow(enum elem e, void *d, const float *a, int64_t n);
#endif
