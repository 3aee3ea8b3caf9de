/* PTX instructions: what each one does to the registers of one lane. Floats are computed in double
 * and rounded to the type once; fma on f32 is fmaf. */
#include "vm/ptx/ptx.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/map/map.h"
#include <math.h>

static const struct ptx_type types[] = {
	{"b8", 'b', 8, 1, 0},
	{"b16", 'b', 16, 1, 0},
	{"b32", 'b', 32, 1, 0},
	{"b64", 'b', 64, 1, 0},
	{"u8", 'u', 8, 1, 0},
	{"u16", 'u', 16, 1, 0},
	{"u32", 'u', 32, 1, 0},
	{"u64", 'u', 64, 1, 0},
	{"s8", 's', 8, 1, 0},
	{"s16", 's', 16, 1, 0},
	{"s32", 's', 32, 1, 0},
	{"s64", 's', 64, 1, 0},
	{"f16", 'f', 16, 1, ELEM_F16},
	{"f16x2", 'f', 16, 2, ELEM_F16},
	{"bf16", 'f', 16, 1, ELEM_BF16},
	{"bf16x2", 'f', 16, 2, ELEM_BF16},
	{"f32", 'f', 32, 1, ELEM_F32},
	{"tf32", 'f', 32, 1, ELEM_F32},
	{"f64", 'f', 64, 1, ELEM_F64},
	{"e4m3x2", 'f', 8, 2, ELEM_F8E4M3},
	{"e5m2x2", 'f', 8, 2, ELEM_F8E5M2},
	{"pred", 'p', 1, 1, 0},
};

const struct ptx_type *ptx_type_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (!strcmp(types[i].name, name)) return &types[i];
	return NULL;
}

unsigned ptx_modifier_find(const char *name)
{
	static const struct {
		const char *name;
		unsigned bit;
	} rows[] = {
		{"rn", PTX_RN},
		{"rni", PTX_RNI},
		{"rzi", PTX_RZI},
		{"rmi", PTX_RMI},
		{"rpi", PTX_RPI},
		{"rz", PTX_RZ},
		{"rna", PTX_RNA},
		{"ftz", PTX_FTZ},
		{"sat", PTX_SAT},
		{"satfinite", PTX_SATFINITE},
		{"approx", PTX_APPROX},
		{"full", PTX_FULL},
		{"lo", PTX_LO},
		{"hi", PTX_HI},
		{"wide", PTX_WIDE},
		{"NaN", PTX_NAN},
		{"xorsign", PTX_XORSIGN_ABS},
		{"abs", PTX_XORSIGN_ABS},
		{"l", PTX_LEFT},
		{"r", PTX_RIGHT},
		{"wrap", PTX_WRAP},
		{"clamp", PTX_CLAMP},
	};
	/* "abs" is the second half of ".xorsign.abs". */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, name)) return rows[i].bit;
	return 0;
}

/* ---- elements ---- */

static uint64_t low_bits(uint64_t v, int bits) { return bits < 64 ? v & (((uint64_t)1 << bits) - 1) : v; }
static int64_t extend(uint64_t v, int bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }
static uint64_t element(const struct ptx_type *t, uint64_t reg, int lane)
{
	return low_bits(reg >> (lane * t->bits), t->bits);
}
static uint64_t integer(const struct ptx_type *t, uint64_t reg)
{
	return t->kind == 's' ? (uint64_t)extend(reg, t->bits) : low_bits(reg, t->bits);
}

/* With .ftz a subnormal fp32 is a zero of its sign, read as well as written. */
static double flush(const struct ptx_instr *in, const struct ptx_type *t, double x)
{
	return (in->modifiers & PTX_FTZ) && t->elem == ELEM_F32 && fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

static double decode(const struct ptx_instr *in, const struct ptx_type *t, uint64_t bits)
{
	double d;
	float f;
	if (t->elem == ELEM_F64) {
		memcpy(&d, &bits, sizeof d);
		return d;
	}
	if (t->elem == ELEM_F32) memcpy(&f, &bits, sizeof f);
	else map_widen(t->elem, &f, &bits, 1);
	return flush(in, t, f);
}

static uint64_t encode(const struct ptx_instr *in, const struct ptx_type *t, double x)
{
	uint64_t bits = 0;
	if (in->modifiers & PTX_SAT) x = x > 0 ? fmin(x, 1) : 0;
	float f = (float)x;
	if (t->elem == ELEM_F64) memcpy(&bits, &x, sizeof x);
	else if (t->elem == ELEM_F32) {
		f = (float)flush(in, t, f);
		memcpy(&bits, &f, sizeof f);
	} else if (in->narrow) in->narrow(&bits, &x, NULL, NULL, 1, 0);
	else map_narrow(t->elem, &bits, &f, 1);
	return bits;
}

/* ---- one result of the type of its sources ---- */

static void eval_row(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	const struct ptx_type *t = in->type;
	r[0] = 0;
	if (t->kind != 'f') {
		uint64_t v[3];
		for (int i = 0; i < 3; i++)
			v[i] = i >= in->nsources ? 0 : i == 2 && (in->modifiers & PTX_WIDE) ? x[i] : integer(t, x[i]);
		r[0] = low_bits(in->row->ints(in, v[0], v[1], v[2]), in->modifiers & PTX_WIDE ? 2 * t->bits : t->bits);
		return;
	}
	for (int lane = 0; lane < t->lanes; lane++) {
		double v[3];
		for (int i = 0; i < 3; i++) v[i] = i < in->nsources ? decode(in, t, element(t, x[i], lane)) : 0;
		r[0] |= encode(in, t, in->row->floats(in, v[0], v[1], v[2])) << (lane * t->bits);
	}
}

#define INT_OP(name, expression) \
	static uint64_t name(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c) \
	{ \
		const struct ptx_type *t = in->type; \
		(void)t; (void)a; (void)b; (void)c; \
		return (uint64_t)(expression); \
	}
INT_OP(int_add, a + b)
INT_OP(int_sub, a - b)
INT_OP(int_and, a &b)
INT_OP(int_or, a | b)
INT_OP(int_xor, a ^ b)
INT_OP(int_not, ~a)
INT_OP(int_neg, 0 - a)
INT_OP(int_abs, (int64_t)a < 0 ? 0 - a : a)
INT_OP(int_min, t->kind == 's' ? ((int64_t)a < (int64_t)b ? a : b) : MIN(a, b))
INT_OP(int_max, t->kind == 's' ? ((int64_t)a > (int64_t)b ? a : b) : MAX(a, b))
INT_OP(int_shl, b < t->bits ? a << b : 0)
INT_OP(int_popc, __builtin_popcountll(a))
INT_OP(int_clz, a ? __builtin_clzll(a) - (64 - t->bits) : t->bits)
INT_OP(int_cnot, a == 0)
INT_OP(int_sad, c + (t->kind == 's' ? ((int64_t)a < (int64_t)b ? b - a : a - b) : MAX(a, b) - MIN(a, b)))
INT_OP(int_div,
	b == 0               ? UINT64_MAX
		: t->kind == 's' ? ((int64_t)b == -1 ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b))
						 : a / b)
INT_OP(int_rem, b == 0 ? a : t->kind == 's' ? ((int64_t)b == -1 ? 0 : (uint64_t)((int64_t)a % (int64_t)b)) : a % b)

static uint64_t int_shr(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	(void)c;
	b = in->type->kind == 's' ? low_bits(b, in->type->bits) : b;
	if (in->type->kind == 's') return (uint64_t)((int64_t)a >> MIN(b, 63));
	return b < in->type->bits ? a >> b : 0;
}

static uint64_t int_mul(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	(void)c;
	if (!(in->modifiers & PTX_HI)) return a * b;
	if (in->type->kind == 's') return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> in->type->bits);
	return (uint64_t)((unsigned __int128)a * b >> in->type->bits);
}

static uint64_t int_mad(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	return int_mul(in, a, b, 0) + c;
}

static uint64_t int_brev(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t r = 0;
	(void)b;
	(void)c;
	for (int i = 0; i < in->type->bits; i++) r |= (a >> i & 1) << (in->type->bits - 1 - i);
	return r;
}

/* Position of the highest bit that is not the sign's. */
static uint64_t int_bfind(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	(void)b;
	(void)c;
	a = in->type->kind == 's' && (int64_t)a < 0 ? ~a : a;
	return a ? (uint64_t)(63 - __builtin_clzll(a)) : UINT64_MAX;
}

/* Position of the c-th set bit of a, counted from bit b on: upwards, or downwards where c is
 * negative; with 0, b itself if it is set. */
static uint64_t int_fns(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	int64_t at = extend(b, 32), nth = extend(c, 32), step = nth < 0 ? -1 : 1, left = nth ? nth * step : 1;
	(void)in;
	for (; at >= 0 && at < 32; at += nth ? step : 32)
		if ((a >> at & 1) && --left == 0) return (uint64_t)at;
	return UINT64_MAX;
}

/* Of the lowest 24 bits of each. */
static uint64_t int_mul24(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	const struct ptx_type word = {"", in->type->kind, 24, 1, 0};
	uint64_t product = integer(&word, a) * integer(&word, b);
	(void)c;
	return in->modifiers & PTX_HI ? product >> 16 : product;
}

static uint64_t int_mad24(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	return int_mul24(in, a, b, 0) + c;
}

/* Field of c bits from bit b on. */
static uint64_t int_bfe(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c)
{
	int at = (int)(b & 0xff), len = (int)(c & 0xff), bits = in->type->bits;
	bool is_signed = in->type->kind == 's';
	if (len == 0) return 0;
	if (is_signed) return (uint64_t)(extend((uint64_t)((int64_t)a >> MIN(at, 63)), MIN(len, MAX(bits - at, 1))));
	return at >= bits ? 0 : low_bits(low_bits(a, bits) >> at, MIN(len, 63));
}

/* What an approximation promises is its error and no value, so it is as wrong as PTX lets it be.
 * Neighbours err to one side, as a table's do: a sum does not average that away. */
static double off_by(double y, double a, double error)
{
	float f = (float)a;
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	bool is_below = (bits >> 18) * 0x9e3779b1u >> 31;
	return is_below ? y - error : y + error;
}

static double approximate_tanh(const struct ptx_instr *in, double a)
{
	double y = tanh(a),
		   error = in->type->elem == ELEM_F16 ? fmin(0x1p-11, 0x1p-10 * fabs(y))
		: in->type->elem == ELEM_BF16         ? 0x1p-8 * fabs(y)
											  : 0x1p-11 * fabs(y);
	return isfinite(a) ? off_by(y, a, fmin(error, 1 - fabs(y))) : y;
}

/* The angle is divided by a whole turn first, in fp32: what is left of it has no more digits than
 * that. */
#define TURNS_50 314.15926535897932
static double approximate_turn(double y, double a)
{
	double z = off_by(y, a, fmax(fmin(0x1p-21, 0x1p-14 * fabs(y)), 0x1p-14 * fabs(a) / TURNS_50));
	return isfinite(a) && a != 0 ? fmax(fmin(z, 1), -1) : y;
}

static double approximate_ex2(const struct ptx_instr *in, double a)
{
	double y = exp2(a);
	return in->type->elem == ELEM_F32 || !isfinite(y)
		? y
		: off_by(y, a, y * (in->type->elem == ELEM_F16 ? 0x1p-10 : 0x1p-7));
}

static double approximate_lg2(double a)
{
	double y = log2(a);
	return a > 0.5 && a < 2 && a != 1 ? off_by(y, a, 0x1p-22) : y;
}

/* Of fp64 an approximation has the upper half alone. */
static double approximate_f64(const struct ptx_instr *in, double y, double a)
{
	bool is_rough = in->type->elem == ELEM_F64 && (in->modifiers & PTX_APPROX) && isfinite(y);
	return is_rough ? off_by(y, a, 0x1p-20 * fabs(y)) : y;
}

#define FLOAT_OP(name, expression) \
	static double name(const struct ptx_instr *in, double a, double b, double c) \
	{ \
		(void)in; (void)a; (void)b; (void)c; \
		return expression; \
	}
FLOAT_OP(float_add, a + b)
FLOAT_OP(float_sub, a - b)
FLOAT_OP(float_mul, a *b)
FLOAT_OP(float_div, (in->modifiers & PTX_APPROX) && fabs(b) > 0x1p126 && isfinite(a) ? copysign(0, a / b) : a / b)
FLOAT_OP(float_fma, in->type->elem == ELEM_F32 ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c))
FLOAT_OP(float_neg, -a)
FLOAT_OP(float_abs, fabs(a))
FLOAT_OP(float_rcp, approximate_f64(in, 1 / a, a))
FLOAT_OP(float_sqrt, sqrt(a))
FLOAT_OP(float_rsqrt, approximate_f64(in, 1 / sqrt(a), a))
FLOAT_OP(float_ex2, approximate_ex2(in, a))
FLOAT_OP(float_lg2, approximate_lg2(a))
FLOAT_OP(float_sin, approximate_turn(sin(a), a))
FLOAT_OP(float_cos, approximate_turn(cos(a), a))
FLOAT_OP(float_tanh, approximate_tanh(in, a))
FLOAT_OP(float_copysign, copysign(b, a))

static double float_choose(const struct ptx_instr *in, double a, double b, bool want_max)
{
	if (isnan(a) || isnan(b)) return (in->modifiers & PTX_NAN) ? NAN : isnan(a) ? b : a;
	double x = in->modifiers & PTX_XORSIGN_ABS ? fabs(a) : a, y = in->modifiers & PTX_XORSIGN_ABS ? fabs(b) : b;
	bool is_first = x == y ? signbit(x) != want_max : (x < y) != want_max;
	double r = is_first ? x : y;
	return in->modifiers & PTX_XORSIGN_ABS ? (signbit(a) != signbit(b) ? -r : r) : r;
}
FLOAT_OP(float_min, float_choose(in, a, b, false))
FLOAT_OP(float_max, float_choose(in, a, b, true))

/* ---- comparison and choice ---- */

enum { LESS = 1, EQUAL = 2, GREATER = 4, UNORDERED = 8 };
static const struct {
	const char *name;
	int holds;
	const char *kinds;
} compares[] = {
	{"eq", EQUAL, "busf"},
	{"ne", LESS | GREATER, "busf"},
	{"lt", LESS, "usf"},
	{"le", LESS | EQUAL, "usf"},
	{"gt", GREATER, "usf"},
	{"ge", GREATER | EQUAL, "usf"},
	{"lo", LESS, "u"},
	{"ls", LESS | EQUAL, "u"},
	{"hi", GREATER, "u"},
	{"hs", GREATER | EQUAL, "u"},
	{"equ", EQUAL | UNORDERED, "f"},
	{"neu", LESS | GREATER | UNORDERED, "f"},
	{"ltu", LESS | UNORDERED, "f"},
	{"leu", LESS | EQUAL | UNORDERED, "f"},
	{"gtu", GREATER | UNORDERED, "f"},
	{"geu", GREATER | EQUAL | UNORDERED, "f"},
	{"num", LESS | EQUAL | GREATER, "f"},
	{"nan", UNORDERED, "f"},
};

int ptx_compare_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(compares); i++)
		if (!strcmp(compares[i].name, name)) return (int)i;
	return -1;
}

bool ptx_compare_fits(int compare, const struct ptx_type *t)
{
	return strchr(compares[compare].kinds, t->kind) != NULL;
}

static int order(const struct ptx_instr *in, uint64_t a, uint64_t b)
{
	const struct ptx_type *t = in->type;
	if (t->kind == 'f') {
		double x = decode(in, t, a), y = decode(in, t, b);
		return isnan(x) || isnan(y) ? UNORDERED : x < y ? LESS : x > y ? GREATER : EQUAL;
	}
	if (t->kind == 's') return extend(a, t->bits) < extend(b, t->bits) ? LESS : a == b ? EQUAL : GREATER;
	return a < b ? LESS : a == b ? EQUAL : GREATER;
}

/* Two results: of two lanes, or the second is the first's opposite. */
static void eval_setp(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	for (int lane = 0; lane < in->type->lanes; lane++)
		r[lane] = (compares[in->compare].holds &
					  order(in, element(in->type, x[0], lane), element(in->type, x[1], lane))) != 0;
	if (in->type->lanes == 1) r[1] = !r[0];
}

static void eval_selp(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	r[0] = low_bits(x[2] & 1 ? x[0] : x[1], in->type->bits * in->type->lanes);
}

/* ---- moves and permutations ---- */

/* A vector on one side: its elements share the register of the other side, the first in the lowest
 * bits. */
static void eval_mov(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	int bits = in->type->bits * in->type->lanes;
	if (in->nresults > 1) {
		for (int i = 0; i < in->nresults; i++) r[i] = low_bits(x[0] >> (i * bits / in->nresults), bits / in->nresults);
		return;
	}
	r[0] = 0;
	for (int i = 0; i < in->nsources; i++) r[0] |= low_bits(x[i], bits / in->nsources) << (i * bits / in->nsources);
}

static void eval_prmt(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	uint64_t bytes = low_bits(x[0], 32) | x[1] << 32;
	(void)in;
	r[0] = 0;
	for (int i = 0; i < 4; i++) {
		int pick = (int)(x[2] >> (4 * i) & 15);
		uint64_t byte = bytes >> (8 * (pick & 7)) & 0xff;
		if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
		r[0] |= byte << (8 * i);
	}
}

/* Any function of three bits: bit i of the table is its value where i = 4a + 2b + c. */
static void eval_lop3(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	(void)in;
	r[0] = 0;
	for (int i = 0; i < 8; i++)
		if (x[3] >> i & 1) r[0] |= (i & 4 ? x[0] : ~x[0]) & (i & 2 ? x[1] : ~x[1]) & (i & 1 ? x[2] : ~x[2]);
	r[0] = low_bits(r[0], 32);
}

static void eval_shf(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	uint64_t both = low_bits(x[0], 32) | x[1] << 32,
			 by = in->modifiers & PTX_CLAMP ? MIN(low_bits(x[2], 32), 32) : x[2] & 31;
	r[0] = low_bits(in->modifiers & PTX_LEFT ? both << by >> 32 : both >> by, 32);
}

static void eval_bfi(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	int bits = in->type->bits, at = (int)(x[2] & 0xff), len = (int)(x[3] & 0xff);
	uint64_t field = at >= bits ? 0 : low_bits(low_bits(UINT64_MAX, MIN(len, 64)) << at, bits);
	r[0] = low_bits((x[1] & ~field) | ((at < 64 ? x[0] << at : 0) & field), bits);
}

/* ---- conversions ---- */

static double rounded(unsigned modifiers, double x)
{
	return modifiers & PTX_RNI ? nearbyint(x)
		: modifiers & PTX_RZI  ? trunc(x)
		: modifiers & PTX_RMI  ? floor(x)
		: modifiers & PTX_RPI  ? ceil(x)
							   : x;
}

static uint64_t saturate(const struct ptx_type *t, double x)
{
	double high = ldexp(1, t->kind == 's' ? t->bits - 1 : t->bits), low = t->kind == 's' ? -high : 0;
	if (isnan(x)) return 0;
	if (x >= high) return t->kind == 's' ? low_bits(UINT64_MAX, t->bits - 1) : low_bits(UINT64_MAX, t->bits);
	if (x <= low) return t->kind == 's' ? (uint64_t)1 << (t->bits - 1) : 0;
	return low_bits(t->kind == 's' ? (uint64_t)(int64_t)x : (uint64_t)x, t->bits);
}

static uint64_t convert_int(const struct ptx_instr *in, uint64_t v)
{
	const struct ptx_type *t = in->type;
	bool is_signed = in->from->kind == 's';
	if (t->kind == 'f') {
		if (t->elem != ELEM_F32) return encode(in, t, is_signed ? (double)(int64_t)v : (double)v);
		return encode(in, t, is_signed ? (float)(int64_t)v : (float)v);
	}
	if (in->modifiers & PTX_SAT) return saturate(t, is_signed ? (double)(int64_t)v : (double)v);
	return low_bits(v, t->bits);
}

/* To the nearest with 10 bits of mantissa, halves away from zero. */
static uint64_t to_tf32(uint64_t bits)
{
	bool is_finite = (bits & 0x7f800000) != 0x7f800000;
	return is_finite ? low_bits(bits + 0x1000, 32) & ~(uint64_t)0x1fff : bits;
}

static uint64_t convert_float(const struct ptx_instr *in, uint64_t bits)
{
	const struct ptx_type *t = in->type;
	double x = decode(in, in->from, bits);
	if (t->kind != 'f') return saturate(t, rounded(in->modifiers, x));
	if (in->modifiers & PTX_RNA) return to_tf32(bits);
	if ((in->modifiers & PTX_RZ) && t->bits == 16) {
		float f = (float)x;
		uint64_t r = 0;
		bool strips;
		map_cast_kernel("rtz", ELEM_F32, t->elem, &strips)(&r, &f, NULL, NULL, 1, 0);
		return r;
	}
	return encode(in, t, rounded(in->modifiers, x));
}

/* Two elements come from one register of two, or from two registers of one: the first is the upper
 * half. */
static void eval_cvt(const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	r[0] = 0;
	for (int lane = 0; lane < in->type->lanes; lane++) {
		uint64_t v = in->from->lanes == 2 ? element(in->from, x[0], lane) : x[in->nsources == 2 && lane == 0 ? 1 : 0];
		uint64_t one = in->from->kind == 'f' ? convert_float(in, low_bits(v, in->from->bits))
											 : convert_int(in, integer(in->from, v));
		r[0] |= one << (lane * in->type->bits);
	}
}

/* ---- the table ---- */

#define ROUNDING (PTX_RN | PTX_FTZ | PTX_SAT)
#define TO_INTEGER (PTX_RNI | PTX_RZI | PTX_RMI | PTX_RPI)
static const struct ptx_row rows[] = {
	{"mov", eval_mov, -1, "", 0, NULL, NULL, 0, 0},
	{"add", eval_row, 2, "usf", ROUNDING, int_add, float_add, 1, 0},
	{"sub", eval_row, 2, "usf", ROUNDING, int_sub, float_sub, 1, 0},
	{"mul", eval_row, 2, "usf", ROUNDING | PTX_LO | PTX_HI | PTX_WIDE, int_mul, float_mul, 1, 0},
	{"mad", eval_row, 3, "usf", ROUNDING | PTX_LO | PTX_HI | PTX_WIDE, int_mad, float_fma, 2, 0},
	{"mul24", eval_row, 2, "us", PTX_LO | PTX_HI, int_mul24, NULL, 0, 0},
	{"mad24", eval_row, 3, "us", PTX_LO | PTX_HI, int_mad24, NULL, 0, 0},
	{"sad", eval_row, 3, "us", 0, int_sad, NULL, 0, 0},
	{"fma", eval_row, 3, "f", ROUNDING, NULL, float_fma, 2, 0},
	{"div", eval_row, 2, "usf", ROUNDING | PTX_APPROX | PTX_FULL, int_div, float_div, 1, 1},
	{"rem", eval_row, 2, "us", 0, int_rem, NULL, 0, 0},
	{"neg", eval_row, 1, "sf", PTX_FTZ, int_neg, float_neg, 1, 0},
	{"abs", eval_row, 1, "sf", PTX_FTZ, int_abs, float_abs, 1, 0},
	{"min", eval_row, 2, "usf", PTX_FTZ | PTX_NAN | PTX_XORSIGN_ABS, int_min, float_min, 1, 0},
	{"max", eval_row, 2, "usf", PTX_FTZ | PTX_NAN | PTX_XORSIGN_ABS, int_max, float_max, 1, 0},
	{"copysign", eval_row, 2, "f", 0, NULL, float_copysign, 1, 0},
	{"rcp", eval_row, 1, "f", ROUNDING | PTX_APPROX, NULL, float_rcp, 1, 1},
	{"sqrt", eval_row, 1, "f", ROUNDING | PTX_APPROX, NULL, float_sqrt, 1, 1},
	{"rsqrt", eval_row, 1, "f", PTX_FTZ | PTX_APPROX, NULL, float_rsqrt, 1, 1},
	{"ex2", eval_row, 1, "f", PTX_FTZ | PTX_APPROX, NULL, float_ex2, 1, 1},
	{"lg2", eval_row, 1, "f", PTX_FTZ | PTX_APPROX, NULL, float_lg2, 1, 1},
	{"sin", eval_row, 1, "f", PTX_FTZ | PTX_APPROX, NULL, float_sin, 1, 1},
	{"cos", eval_row, 1, "f", PTX_FTZ | PTX_APPROX, NULL, float_cos, 1, 1},
	{"tanh", eval_row, 1, "f", PTX_APPROX, NULL, float_tanh, 1, 1},
	{"and", eval_row, 2, "bp", 0, int_and, NULL, 0, 0},
	{"or", eval_row, 2, "bp", 0, int_or, NULL, 0, 0},
	{"xor", eval_row, 2, "bp", 0, int_xor, NULL, 0, 0},
	{"not", eval_row, 1, "bp", 0, int_not, NULL, 0, 0},
	{"shl", eval_row, 2, "b", 0, int_shl, NULL, 0, 0},
	{"shr", eval_row, 2, "bus", 0, int_shr, NULL, 0, 0},
	{"popc", eval_row, 1, "b", 0, int_popc, NULL, 0, 0},
	{"clz", eval_row, 1, "b", 0, int_clz, NULL, 0, 0},
	{"cnot", eval_row, 1, "b", 0, int_cnot, NULL, 0, 0},
	{"bfind", eval_row, 1, "us", 0, int_bfind, NULL, 0, 0},
	{"fns", eval_row, 3, "b", 0, int_fns, NULL, 0, 0},
	{"brev", eval_row, 1, "b", 0, int_brev, NULL, 0, 0},
	{"bfe", eval_row, 3, "us", 0, int_bfe, NULL, 0, 0},
	{"bfi", eval_bfi, 4, "b", 0, NULL, NULL, 0, 0},
	{"prmt", eval_prmt, 3, "b", 0, NULL, NULL, 0, 0},
	{"lop3", eval_lop3, 4, "b", 0, NULL, NULL, 0, 0},
	{"shf", eval_shf, 3, "b", PTX_LEFT | PTX_RIGHT | PTX_WRAP | PTX_CLAMP, NULL, NULL, 0, 0},
	{"setp", eval_setp, 2, "busf", PTX_FTZ, NULL, NULL, 0, 0},
	{"selp", eval_selp, 3, "busf", 0, NULL, NULL, 0, 0},
	{"cvt", eval_cvt, -1, "usf", ROUNDING | TO_INTEGER | PTX_RZ | PTX_RNA | PTX_SATFINITE, NULL, NULL, 0, 0},
	{"griddepcontrol", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"bar", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"barrier", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"membar", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"fence", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"prefetch", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"prefetchu", NULL, -2, "", 0, NULL, NULL, 0, 0},
	{"nanosleep", NULL, -2, "", 0, NULL, NULL, 0, 0},
};

/* What is more than one instruction, of 32 bits, as SASS of sm_90 has it: exact quotients and
 * roots, whole-number division, and what the hardware lacks. is_float: of floats; exact:
 * without .approx and .full. */
static const struct {
	const char *name;
	bool is_float;
	bool exact;
	struct ptx_cost cost;
} costs[] = {
	{"div", false, false, {14, 12, 2, 0}}, {"rem", false, false, {14, 13, 2, 0}}, {"div", true, true, {12, 6, 1, 0}},
	{"div", true, false, {2, 2, 1, 0}}, {"rcp", true, true, {8, 4, 1, 0}}, {"sqrt", true, true, {7, 4, 1, 0}},
	{"sqrt", true, false, {2, 1, 1, 0}}, {"rsqrt", true, false, {2, 1, 1, 0}}, {"mul", false, false, {2, 0, 0, 0}},
	{"mad", false, false, {2, 0, 0, 0}}, {"mul24", false, false, {2, 2, 0, 0}}, {"mad24", false, false, {2, 2, 0, 0}},
	{"sad", false, false, {0, 3, 0, 0}}, {"popc", false, false, {0, 0, 1, 0}}, {"brev", false, false, {0, 0, 1, 0}},
	{"clz", false, false, {0, 1, 1, 0}}, {"bfind", false, false, {0, 0, 1, 0}}, {"bfe", false, false, {0, 4, 0, 0}},
	{"bfi", false, false, {0, 4, 0, 0}}, {"fns", false, false, {0, 160, 32, 0}}, /* a loop over the bits */
};
#define F64_QUOTIENT 10   /* Newton's steps, as for divisions elsewhere (meter_plan.c) */

struct ptx_cost ptx_cost_of(const struct ptx_instr *in)
{
	bool is_float = in->type && in->type->kind == 'f', is_wide = in->type && in->type->bits == 64;
	bool exact = !(in->modifiers & (PTX_APPROX | PTX_FULL));
	bool converts = !strcmp(in->row->name, "cvt") && in->from && in->from->kind != 'p';
	struct ptx_cost c = {.alu = 1};
	if (converts) c = (struct ptx_cost){.special = 1};
	else if (in->row->special) c = (struct ptx_cost){.special = in->row->special};
	else if (in->row->flops) c = (struct ptx_cost){.fma = 1};
	bool is_found = false;
	for (size_t i = 0; i < ARRAY_LEN(costs) && !is_found; i++) {
		is_found = !strcmp(costs[i].name, in->row->name) && costs[i].is_float == is_float && (!costs[i].exact || exact);
		if (is_found) c = costs[i].cost;
	}
	/* Twice as wide: whole numbers are two of everything and a carry, or three products. fp64 has
	 * pipes of its own, and of a quotient a first guess. */
	if (is_wide && !is_float) c = (struct ptx_cost){3 * c.fma, 2 * c.alu, c.special, 0};
	if (is_wide && is_float && in->row->flops) {
		c.f64 = is_found && exact ? F64_QUOTIENT : 1;
		c.fma = 2 * c.f64;
		c.alu = is_found;
	}
	return c;
}

const struct ptx_row *ptx_row_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, name)) return &rows[i];
	return NULL;
}
