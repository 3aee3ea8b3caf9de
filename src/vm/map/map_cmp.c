/* Comparisons to i1, and select. */
#include "vm/map/map.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include <math.h>

#define LOOP _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#define COMPARE(name, T, expr) \
	static void name(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		uint8_t *d = vd; const T *a = va, *b = vb; \
		if (splat & 1) { const T x = a[0]; for (int64_t i = 0; i < n; i++) { const T y = b[i]; d[i] = (expr); } } \
		else if (splat & 2) { const T y = b[0]; for (int64_t i = 0; i < n; i++) { const T x = a[i]; d[i] = (expr); } } \
		else for (int64_t i = 0; i < n; i++) { const T x = a[i], y = b[i]; d[i] = (expr); } \
	}

#define INT_COMPARES(bits) \
	COMPARE(eq_##bits, uint##bits##_t, x == y) COMPARE(ne_##bits, uint##bits##_t, x != y) \
	COMPARE(slt_##bits, int##bits##_t, x < y) COMPARE(sle_##bits, int##bits##_t, x <= y) \
	COMPARE(sgt_##bits, int##bits##_t, x > y) COMPARE(sge_##bits, int##bits##_t, x >= y) \
	COMPARE(ult_##bits, uint##bits##_t, x < y) COMPARE(ule_##bits, uint##bits##_t, x <= y) \
	COMPARE(ugt_##bits, uint##bits##_t, x > y) COMPARE(uge_##bits, uint##bits##_t, x >= y)
INT_COMPARES(8)
INT_COMPARES(16)
INT_COMPARES(32)
INT_COMPARES(64)

/* o: false when an operand is a NaN; u: true then. */
#define FLOAT_COMPARES(T, s) \
	COMPARE(oeq_##s, T, x == y) COMPARE(ogt_##s, T, x > y) COMPARE(oge_##s, T, x >= y) COMPARE(olt_##s, T, x < y) \
	COMPARE(ole_##s, T, x <= y) \
	COMPARE(one_##s, T, (x < y) | (x > y)) COMPARE(ord_##s, T, (x == x) & (y == y)) \
	COMPARE(ueq_##s, T, !((x < y) | (x > y))) \
	COMPARE(ugt_##s, T, !(x <= y)) COMPARE(uge_##s, T, !(x < y)) COMPARE(ult_##s, T, !(x >= y)) \
	COMPARE(ule_##s, T, !(x > y)) \
	COMPARE(une_##s, T, x != y) COMPARE(uno_##s, T, (x != x) | (y != y))
FLOAT_COMPARES(float, f32)
FLOAT_COMPARES(double, f64)

static void always(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat)
{
	memset(vd, 1, (size_t)n);
}
static void never(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat)
{
	memset(vd, 0, (size_t)n);
}

/* For i1 the signed orders are the unsigned ones turned round: true is -1. */
#define INT_ROW(p, i1) {#p, {i1, p##_8, p##_16, p##_32, p##_64}}
static const struct {
	const char *name;
	map_fn *fn[5];
} int_rows[] = {
	INT_ROW(eq, eq_8),
	INT_ROW(ne, ne_8),
	INT_ROW(slt, ugt_8),
	INT_ROW(sle, uge_8),
	INT_ROW(sgt, ult_8),
	INT_ROW(sge, ule_8),
	INT_ROW(ult, ult_8),
	INT_ROW(ule, ule_8),
	INT_ROW(ugt, ugt_8),
	INT_ROW(uge, uge_8),
};
#define FLOAT_ROW(p) {#p, {p##_f32, p##_f64}}
static const struct {
	const char *name;
	map_fn *fn[2];
} float_rows[] = {
	FLOAT_ROW(oeq),
	FLOAT_ROW(ogt),
	FLOAT_ROW(oge),
	FLOAT_ROW(olt),
	FLOAT_ROW(ole),
	FLOAT_ROW(one),
	FLOAT_ROW(ord),
	FLOAT_ROW(ueq),
	FLOAT_ROW(ugt),
	FLOAT_ROW(uge),
	FLOAT_ROW(ult),
	FLOAT_ROW(ule),
	FLOAT_ROW(une),
	FLOAT_ROW(uno),
	{"true", {always, always}},
	{"false", {never, never}},
};

map_fn *map_cmpi_kernel(struct slice predicate, enum elem e)
{
	for (size_t i = 0; i < ARRAY_LEN(int_rows); i++)
		if (slice_is(predicate, int_rows[i].name))
			return e <= ELEM_I64 ? int_rows[i].fn[e] : e == ELEM_PTR ? int_rows[i].fn[ELEM_I64] : NULL;
	return NULL;
}

map_fn *map_cmpf_kernel(struct slice predicate, enum elem e)
{
	for (size_t i = 0; i < ARRAY_LEN(float_rows); i++)
		if (slice_is(predicate, float_rows[i].name)) return elem_is_float(e) ? float_rows[i].fn[e == ELEM_F64] : NULL;
	return NULL;
}

int map_cmp_orders(struct slice predicate)
{
	static const struct {
		const char *name;
		int orders;
	} rows[] = {{"eq", MAP_EQUAL}, {"gt", MAP_GREATER}, {"ge", MAP_GREATER | MAP_EQUAL}, {"lt", MAP_LESS},
		{"le", MAP_LESS | MAP_EQUAL}, {"ne", MAP_LESS | MAP_GREATER}};
	if (slice_is(predicate, "true")) return MAP_LESS | MAP_EQUAL | MAP_GREATER | MAP_UNORDERED;
	if (slice_is(predicate, "ord")) return MAP_LESS | MAP_EQUAL | MAP_GREATER;
	if (slice_is(predicate, "uno")) return MAP_UNORDERED;
	/* Of floats, o: false where an operand is a NaN, u: true there. Of integers, s and u are signed
	 * and unsigned, and equality has neither. */
	size_t head = predicate.len == 3;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (predicate.len == head + 2 && !memcmp(predicate.data + head, rows[i].name, 2))
			return rows[i].orders | (head && predicate.data[0] == 'u' ? MAP_UNORDERED : 0);
	return 0;
}

/* Both as i1 (the math dialect) and as i32 (libdevice). */
#define CLASS(name, T, D, expr) \
	static void name(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ D *d = vd; const T *a = va; for (int64_t i = 0; i < n; i++) { const T x = a[i]; d[i] = (expr) != 0; } }
#define CLASSES(T, s, D, w) \
	CLASS(isnan_##s##_##w, T, D, x != x) CLASS(isinf_##s##_##w, T, D, isinf(x)) \
	CLASS(finite_##s##_##w, T, D, isfinite(x)) \
	CLASS(normal_##s##_##w, T, D, isnormal(x)) CLASS(signbit_##s##_##w, T, D, signbit(x))
CLASSES(float, f32, uint8_t, i1)
CLASSES(float, f32, int32_t, i32)
CLASSES(double, f64, uint8_t, i1)
CLASSES(double, f64, int32_t, i32)

map_fn *map_class_kernel(const char *predicate, enum elem e, enum elem result)
{
#define CLASS_ROW(name, fn) {name, {{fn##_f32_i1, fn##_f32_i32}, {fn##_f64_i1, fn##_f64_i32}}}
	static const struct {
		const char *name;
		map_fn *fn[2][2];
	} rows[] = {
		CLASS_ROW("isnan", isnan),
		CLASS_ROW("isinf", isinf),
		CLASS_ROW("isfinite", finite),
		CLASS_ROW("isnormal", normal),
		CLASS_ROW("signbit", signbit),
	};
	if ((result != ELEM_I1 && result != ELEM_I32) || !elem_is_float(e)) return NULL;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, predicate)) return rows[i].fn[e == ELEM_F64][result == ELEM_I32];
	return NULL;
}

int map_class_of(const char *predicate)
{
	static const char *const names[MAP_CLASS_COUNT] = {"isnan", "isinf", "isfinite", "isnormal", "signbit"};
	int i = 0;
	while (i < MAP_CLASS_COUNT && strcmp(names[i], predicate)) i++;
	return i;
}

/* d may be x or y; the mask is a byte per element. */
#define SELECT(bits) \
	static void select_##bits(void *vd, const void *va, const void *vb, const void *vc, int64_t n, unsigned splat) \
	{ \
		typedef uint##bits##_t T; \
		T *d = vd; const uint8_t *m = va; const T *x = vb, *y = vc; \
		if ((splat & 6) == 6) { const T p = x[0], q = y[0]; LOOP d[i] = m[i] ? p : q; } \
		else if (splat & 2) { const T p = x[0]; LOOP d[i] = m[i] ? p : y[i]; } \
		else if (splat & 4) { const T q = y[0]; LOOP d[i] = m[i] ? x[i] : q; } \
		else LOOP { const T p = x[i], q = y[i]; d[i] = m[i] ? p : q; } \
	}
SELECT(8)
SELECT(16)
SELECT(32)
SELECT(64)

map_fn *map_select_kernel(size_t bytes)
{
	return bytes == 1 ? select_8 : bytes == 2 ? select_16 : bytes == 4 ? select_32 : select_64;
}
