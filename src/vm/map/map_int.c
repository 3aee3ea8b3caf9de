/* Kernels of the integer operations. Arithmetic wraps; shifts by the width or more give what PTX
 * gives (0, or the sign); INT_MIN / -1 wraps. A block lane divided by zero gives what an H200
 * gives: all ones, quotient and remainder alike, of which the routine for 64 bits sets the lower 32
 * alone where the dividend has no more. */
#include "vm/map/map.h"
#include "base/base.h"
#include "ttir/ttir.h"

/* Each body exists for both signednesses of one width: S and U are the types, x and y the operands
 * as U. */
#define BY_ZERO(x) ((U)(BITS == 64 && (uint64_t)(x) >> 32 == 0 ? UINT32_MAX : UINT64_MAX))
#define BINARY_INT(X) \
	X(addi, x + y) X(subi, x - y) X(muli, (U)((uint64_t)x * y)) \
	X(divsi, (U)(y == 0 ? (S)BY_ZERO(x) : (S)y == -1 ? (S)(0 - x) : (S)((S)x / (S)y))) \
	X(divui, (U)(y == 0 ? BY_ZERO(x) : (U)(x / y))) \
	X(remsi, (U)(y == 0 ? (S)BY_ZERO(x) : (S)y == -1 ? 0 : (S)((S)x % (S)y))) \
	X(remui, (U)(y == 0 ? BY_ZERO(x) : (U)(x % y))) \
	X(ceildivsi, y == 0 ? (U)-1 : (S)y == -1 ? (U)(0 - x) : \
		(U)((S)x / (S)y + ((S)x % (S)y != 0 && ((S)x < 0) == ((S)y < 0)))) \
	X(ceildivui, (U)(y == 0 ? (U)-1 : (U)(x / y + (x % y != 0)))) \
	X(floordivsi, y == 0 ? (U)-1 : (S)y == -1 ? (U)(0 - x) : \
		(U)((S)x / (S)y - ((S)x % (S)y != 0 && ((S)x < 0) != ((S)y < 0)))) \
	X(andi, x & y) X(ori, x | y) X(xori, x ^ y) \
	X(shli, (U)(y >= BITS ? 0 : (U)(x << (y & (BITS - 1))))) X(shrui, (U)(y >= BITS ? 0 : (U)(x >> (y & (BITS - 1))))) \
	X(shrsi, (U)((S)x >> (y >= BITS ? BITS - 1 : y))) \
	X(maxsi, (S)x > (S)y ? x : y) X(maxui, x > y ? x : y) X(minsi, (S)x < (S)y ? x : y) X(minui, x < y ? x : y) \
	X(mulhiui, (U)(((W)x * (W)y) >> BITS)) X(mulhisi, (U)(((SW)(S)x * (SW)(S)y) >> BITS)) \
	X(ipowi, (U)power_int((int64_t)(S)x, (int64_t)(S)y))
#define UNARY_INT(X) \
	X(absi, (S)x < 0 ? (U)(0 - x) : x) X(ctpop, (U)__builtin_popcountll(x)) \
	X(ctlz, (U)(x ? __builtin_clzll(x) - (64 - BITS) : BITS)) X(cttz, (U)(x ? __builtin_ctzll(x) : BITS)) \
	X(brev, (U)(reverse_bits(x) >> (64 - BITS))) X(ffs, (U)(x ? __builtin_ctzll(x) + 1 : 0))

static int64_t power_int(int64_t base, int64_t exponent)
{
	if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
	uint64_t r = 1, b = (uint64_t)base;
	for (; exponent; exponent >>= 1, b *= b)
		if (exponent & 1) r *= b;
	return (int64_t)r;
}

static uint64_t reverse_bits(uint64_t x)
{
	uint64_t r = 0;
	for (int i = 0; i < 64; i++, x >>= 1) r = r << 1 | (x & 1);
	return r;
}

#define LOOP _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#define BINARY(name, expr) \
	static void FN(name)(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		U *d = vd; const U *a = va, *b = vb; \
		if (splat & 1) { const U x = a[0]; LOOP { const U y = b[i]; d[i] = (U)(expr); } } \
		else if (splat & 2) { const U y = b[0]; LOOP { const U x = a[i]; d[i] = (U)(expr); } } \
		else LOOP { const U x = a[i], y = b[i]; d[i] = (U)(expr); } \
	}
#define UNARY(name, expr) \
	static void FN(name)(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		U *d = vd; const U *a = va; \
		LOOP { const U x = a[i]; d[i] = (U)(expr); } \
	}

#define BITS 8
#define U uint8_t
#define S int8_t
#define W uint16_t
#define SW int16_t
#define FN(name) name##_8
BINARY_INT(BINARY)
UNARY_INT(UNARY)
#undef BITS
#undef U
#undef S
#undef W
#undef SW
#undef FN
#define BITS 16
#define U uint16_t
#define S int16_t
#define W uint32_t
#define SW int32_t
#define FN(name) name##_16
BINARY_INT(BINARY)
UNARY_INT(UNARY)
#undef BITS
#undef U
#undef S
#undef W
#undef SW
#undef FN
#define BITS 32
#define U uint32_t
#define S int32_t
#define W uint64_t
#define SW int64_t
#define FN(name) name##_32
BINARY_INT(BINARY)
UNARY_INT(UNARY)
#undef BITS
#undef U
#undef S
#undef W
#undef SW
#undef FN
#define BITS 64
#define U uint64_t
#define S int64_t
#define W unsigned __int128
#define SW __int128
#define FN(name) name##_64
BINARY_INT(BINARY)
UNARY_INT(UNARY)

#define ROW(id, fn) [id] = {fn##_8, fn##_16, fn##_32, fn##_64}
static map_fn *const kernels[MAP_COUNT][4] = {
	ROW(MAP_ADDI, addi),
	ROW(MAP_SUBI, subi),
	ROW(MAP_MULI, muli),
	ROW(MAP_DIVSI, divsi),
	ROW(MAP_DIVUI, divui),
	ROW(MAP_REMSI, remsi),
	ROW(MAP_REMUI, remui),
	ROW(MAP_CEILDIVSI, ceildivsi),
	ROW(MAP_CEILDIVUI, ceildivui),
	ROW(MAP_FLOORDIVSI, floordivsi),
	ROW(MAP_ANDI, andi),
	ROW(MAP_ORI, ori),
	ROW(MAP_XORI, xori),
	ROW(MAP_SHLI, shli),
	ROW(MAP_SHRSI, shrsi),
	ROW(MAP_SHRUI, shrui),
	ROW(MAP_MAXSI, maxsi),
	ROW(MAP_MAXUI, maxui),
	ROW(MAP_MINSI, minsi),
	ROW(MAP_MINUI, minui),
	ROW(MAP_MULHIUI, mulhiui),
	ROW(MAP_MULHISI, mulhisi),
	ROW(MAP_IPOWI, ipowi),
	ROW(MAP_ABSI, absi),
	ROW(MAP_CTPOP, ctpop),
	ROW(MAP_CTLZ, ctlz),
	ROW(MAP_CTTZ, cttz),
	ROW(MAP_BREV, brev),
	ROW(MAP_FFS, ffs),
};

/* i1 is a byte of 0 or 1; these operations keep it so. Signed order of i1 is -1 < 0, so the signed
 * maximum of two is their conjunction. */
static const struct {
	enum map_op op;
	map_fn *fn;
} kernels_i1[] = {
	{MAP_ADDI, xori_8},
	{MAP_SUBI, xori_8},
	{MAP_MULI, andi_8},
	{MAP_ANDI, andi_8},
	{MAP_ORI, ori_8},
	{MAP_XORI, xori_8},
	{MAP_MAXUI, ori_8},
	{MAP_MINUI, andi_8},
	{MAP_MAXSI, andi_8},
	{MAP_MINSI, ori_8},
};

map_fn *map_int_kernel(enum map_op op, enum elem e)
{
	if (e == ELEM_I1) {
		for (size_t i = 0; i < ARRAY_LEN(kernels_i1); i++)
			if (kernels_i1[i].op == op) return kernels_i1[i].fn;
		return NULL;
	}
	return e >= ELEM_I8 && e <= ELEM_I64 ? kernels[op][e - ELEM_I8] : NULL;
}
