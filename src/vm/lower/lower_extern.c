/* Lowering of tt.extern_elementwise: libdevice functions by symbol name. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"
#include "vm/map/map.h"

struct symbol {
	const char *name;
	int nsrc;
	int op;
};
static const struct symbol symbols[] = {
	{"erf", 1, MAP_ERF},
	{"erfc", 1, MAP_ERFC},
	{"erfinv", 1, MAP_ERFINV},
	{"normcdf", 1, MAP_NORMCDF},
	{"exp", 1, MAP_EXP},
	{"exp2", 1, MAP_EXP2},
	{"exp10", 1, MAP_EXP10},
	{"expm1", 1, MAP_EXPM1},
	{"log", 1, MAP_LOG},
	{"log2", 1, MAP_LOG2},
	{"log10", 1, MAP_LOG10},
	{"log1p", 1, MAP_LOG1P},
	{"sin", 1, MAP_SIN},
	{"cos", 1, MAP_COS},
	{"tan", 1, MAP_TAN},
	{"sinh", 1, MAP_SINH},
	{"cosh", 1, MAP_COSH},
	{"tanh", 1, MAP_TANH},
	{"asin", 1, MAP_ASIN},
	{"acos", 1, MAP_ACOS},
	{"atan", 1, MAP_ATAN},
	{"asinh", 1, MAP_ASINH},
	{"acosh", 1, MAP_ACOSH},
	{"atanh", 1, MAP_ATANH},
	{"cbrt", 1, MAP_CBRT},
	{"rcbrt", 1, MAP_RCBRT},
	{"sqrt", 1, MAP_SQRT},
	{"sqrt_rn", 1, MAP_SQRT},
	{"rsqrt", 1, MAP_RSQRT},
	{"rsqrt_rn", 1, MAP_RSQRT},
	{"rcp_rn", 1, MAP_RCP},
	{"fabs", 1, MAP_ABSF},
	{"abs", 1, MAP_ABSI},
	{"llabs", 1, MAP_ABSI},
	{"floor", 1, MAP_FLOOR},
	{"ceil", 1, MAP_CEIL},
	{"trunc", 1, MAP_TRUNC},
	{"rint", 1, MAP_ROUNDEVEN},
	{"nearbyint", 1, MAP_ROUNDEVEN},
	{"round", 1, MAP_ROUND},
	{"saturate", 1, MAP_SATURATE},
	{"lgamma", 1, MAP_LGAMMA},
	{"tgamma", 1, MAP_TGAMMA},
	{"logb", 1, MAP_LOGB},
	{"sinpi", 1, MAP_SINPI},
	{"cospi", 1, MAP_COSPI},
	{"j0", 1, MAP_J0},
	{"j1", 1, MAP_J1},
	{"y0", 1, MAP_Y0},
	{"y1", 1, MAP_Y1},
	{"pow", 2, MAP_POWF},
	{"atan2", 2, MAP_ATAN2},
	{"hypot", 2, MAP_HYPOT},
	{"fdim", 2, MAP_FDIM},
	{"fmod", 2, MAP_REMF},
	{"remainder", 2, MAP_REMAINDER},
	{"nextafter", 2, MAP_NEXTAFTER},
	{"copysign", 2, MAP_COPYSIGN},
	{"fma", 3, MAP_FMA},
	{"fma_rn", 3, MAP_FMA},
	{"add_rn", 2, MAP_ADDF},
	{"sub_rn", 2, MAP_SUBF},
	{"mul_rn", 2, MAP_MULF},
	{"div_rn", 2, MAP_DIVF},
	{"fdivide", 2, MAP_DIVF},
	{"fmax", 2, MAP_MAXNUMF},
	{"fmin", 2, MAP_MINNUMF},
	{"mulhi", 2, MAP_MULHISI},
	{"umulhi", 2, MAP_MULHIUI},
	{"mul64hi", 2, MAP_MULHISI},
	{"umul64hi", 2, MAP_MULHIUI},
	{"popc", 1, MAP_CTPOP},
	{"popcll", 1, MAP_CTPOP},
	{"clz", 1, MAP_CTLZ},
	{"clzll", 1, MAP_CTLZ},
	{"ffs", 1, MAP_FFS},
	{"ffsll", 1, MAP_FFS},
	{"brev", 1, MAP_BREV},
	{"brevll", 1, MAP_BREV},
};

/* "__nv_fast_expf" -> "exp": without the prefix and the f that says f32; "__nv_fadd_rn",
 * "__nv_dadd_rn" -> "add_rn"; "__nv_fmaf_rn" -> "fma_rn". */
static const struct symbol *find_symbol(struct slice s, enum elem e)
{
	char name[48];
	if (s.len < 6 || s.len >= sizeof name || memcmp(s.data, "__nv_", 5)) return NULL;
	const char *from = s.data + 5;
	size_t len = s.len - 5;
	if (len > 5 && !memcmp(from, "fast_", 5)) {
		from += 5;
		len -= 5;
	}
	for (int form = 0; form < 4; form++) {
		size_t n = form == 1 ? len - 1 : len, skip = form == 2 ? 1 : 0;
		if (form == 1 && (from[len - 1] != 'f' || e != ELEM_F32)) continue;
		if (form == 2 && (len < 4 || memcmp(from + len - 3, "_rn", 3) || (from[0] != 'f' && from[0] != 'd'))) continue;
		if (form == 3 && (len < 5 || memcmp(from + len - 4, "f_rn", 4) || e != ELEM_F32)) continue;
		if (form == 3) snprintf(name, sizeof name, "%.*s_rn", (int)(len - 4), from);
		else snprintf(name, sizeof name, "%.*s", (int)(n - skip), from + skip);
		for (size_t i = 0; i < ARRAY_LEN(symbols); i++)
			if (!strcmp(symbols[i].name, name)) return &symbols[i];
	}
	return NULL;
}

/* Predicates to i32, by the comparisons that define them. */
static map_fn *predicate_kernel(struct slice s, enum elem e, int *class)
{
	static const struct {
		const char *f32; /* the symbol */
		const char *f64;
		const char *predicate;
	} rows[] = {{"__nv_isnanf", "__nv_isnand", "isnan"}, {"__nv_isinff", "__nv_isinfd", "isinf"},
		{"__nv_finitef", "__nv_isfinited", "isfinite"}, {"__nv_signbitf", "__nv_signbitd", "signbit"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (!slice_is(s, e == ELEM_F64 ? rows[i].f64 : rows[i].f32)) continue;
		*class = map_class_of(rows[i].predicate);
		return elem_is_narrow(e) ? NULL : map_class_kernel(rows[i].predicate, e, ELEM_I32);
	}
	return NULL;
}

/* Rounded to an integer first, then converted. */
struct rounding {
	const char *symbol;
	enum map_op op;
};
static const struct rounding roundings[] = {
	{"__nv_float2int_rn", MAP_ROUNDEVEN},
	{"__nv_float2int_rd", MAP_FLOOR},
	{"__nv_float2int_ru", MAP_CEIL},
	{"__nv_double2int_rn", MAP_ROUNDEVEN},
	{"__nv_double2int_rd", MAP_FLOOR},
	{"__nv_double2int_ru", MAP_CEIL},
	{"__nv_float2ll_rn", MAP_ROUNDEVEN},
	{"__nv_double2ll_rn", MAP_ROUNDEVEN},
	{"__nv_llrintf", MAP_ROUNDEVEN},
	{"__nv_llrint", MAP_ROUNDEVEN},
	{"__nv_llroundf", MAP_ROUND},
	{"__nv_llround", MAP_ROUND},
};

static int lower_rounding(struct lowerer *lo, const struct rounding *r, int src, int type)
{
	const struct vm_value_info from = *lower_info(lo, src);
	if (!lower_cast_is_legal("fptosi", from.elem, lower_type(lo, type)->elem) || elem_is_narrow(from.elem))
		return lower_no_kernel(lo, from.elem);
	int whole = lower_value_new(lo, from.type);
	struct vm_instr *in = whole < 0 ? NULL : lower_emit(lo, OP_MAP, &whole, 1, &src, 1);
	if (!in) return lo->code;
	in->kernel = map_kernel(r->op, from.elem);
	in->number = NUMBER_MAP;
	in->imm[1] = (int32_t)r->op;
	return lower_emit_cast(lo, "fptosi", whole, type);
}

static const char *conversion_kind(struct slice s)
{
	static const struct {
		const char *symbol;
		const char *kind; /* the cast that it is */
	} rows[] = {
		{"__nv_float2int_rz", "fptosi"},
		{"__nv_float2uint_rz", "fptoui"},
		{"__nv_float2ll_rz", "fptosi"},
		{"__nv_double2int_rz", "fptosi"},
		{"__nv_double2ll_rz", "fptosi"},
		{"__nv_int2float_rn", "sitofp"},
		{"__nv_uint2float_rn", "uitofp"},
		{"__nv_ll2float_rn", "sitofp"},
		{"__nv_int2double_rn", "sitofp"},
		{"__nv_double2float_rn", "truncf"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (slice_is(s, rows[i].symbol)) return rows[i].kind;
	return NULL;
}

static const char *const same_bits[] = {"__nv_float_as_int", "__nv_int_as_float", "__nv_double_as_longlong",
	"__nv_longlong_as_double", "__nv_float_as_uint", "__nv_uint_as_float"};

/* Of a float and a whole number. */
static const struct {
	const char *symbol;
	enum map_op op;
} scaled[] = {
	{"__nv_powif", MAP_POWF},
	{"__nv_powi", MAP_POWF},
	{"__nv_ldexpf", MAP_LDEXP},
	{"__nv_ldexp", MAP_LDEXP},
	{"__nv_scalbnf", MAP_LDEXP},
	{"__nv_scalbn", MAP_LDEXP},
};

/* Instructions that are far off from what they are called, as PTX. */
static const struct {
	const char *symbol;
	int nsrc;
	const char *text;
} far_off[] = {
	{"__nv_fast_sinf", 1, "sin.approx.ftz.f32 $0, $1;"},
	{"__nv_fast_cosf", 1, "cos.approx.ftz.f32 $0, $1;"},
	{"__nv_fast_tanf", 1,
		"{ .reg .f32 s, c; sin.approx.ftz.f32 s, $1; cos.approx.ftz.f32 c, $1; div.approx.ftz.f32 $0, s, c; }"},
	{"__nv_fast_dividef", 2, "div.approx.ftz.f32 $0, $1, $2;"},
	{"__nv_fast_log2f", 1, "lg2.approx.ftz.f32 $0, $1;"},
	{"__nv_fast_logf", 1, "{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.ftz.f32 $0, t, 0f3F317218; }"},
	{"__nv_fast_log10f", 1, "{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.ftz.f32 $0, t, 0f3E9A209B; }"},
	{"__nv_fast_powf", 2, "{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.ftz.f32 t, t, $2; ex2.approx.ftz.f32 $0, t; }"},
};

int lower_extern(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_attr *symbol = lower_attr(op, "symbol");
	/* Operands and a result of one shape; the symbol says the rest. */
	int src[3];
	if (!symbol || symbol->kind != ATTR_STRING || op->ntypes != op->nuses + 1)
		return lower_fail(lo, ERR_FORMAT, "tt.extern_elementwise needs a symbol and types");
	if (lower_uses(lo, op, 0, op->nuses, src)) return lo->code;
	for (int i = 0; i < op->nuses; i++)
		if (lower_written(lo, op, i, lower_info(lo, src[i])->type)) return lo->code;
	const struct vm_value_info a = *lower_info(lo, src[0]);
	int result = op->types[op->nuses];
	if (lower_same_shape(lo, a.type, lower_type(lo, result)->elem) != result)
		return lower_fail(lo, ERR_FORMAT, "tt.extern_elementwise changes the shape");
	/* Symbols are of five kinds. Conversions are casts of the IR. */
	const char *kind = conversion_kind(symbol->text);
	if (kind && op->nuses == 1 && lower_cast_is_legal(kind, a.elem, lower_type(lo, result)->elem))
		return lower_emit_cast(lo, kind, src[0], result);
	/* The same bits under another type. */
	for (size_t i = 0; i < ARRAY_LEN(same_bits); i++)
		if (op->nuses == 1 && slice_is(symbol->text, same_bits[i])) return lower_emit_alias(lo, src[0], result);
	/* Conversions and arithmetic with a rounding of their own. */
	for (size_t i = 0; i < ARRAY_LEN(roundings); i++)
		if (op->nuses == 1 && slice_is(symbol->text, roundings[i].symbol))
			return lower_rounding(lo, &roundings[i], src[0], result);
	for (size_t i = 0; i < ARRAY_LEN(scaled); i++)
		if (op->nuses == 2 && slice_is(symbol->text, scaled[i].symbol) && result == a.type)
			return lower_float_with_int(lo, src, scaled[i].op);
	/* isnan and its kind give an i32. */
	int class = MAP_CLASS_COUNT;
	map_fn *predicate = op->nuses == 1 ? predicate_kernel(symbol->text, a.elem, &class) : NULL;
	if (predicate && lower_type(lo, result)->elem == ELEM_I32) {
		struct vm_instr *in = lower_emit_map(lo, OP_MAP, predicate, src, 1, result, 0);
		if (!in) return lo->code;
		in->number = NUMBER_CLASS;
		in->imm[2] = class;
		return 0;
	}
	/* What libdevice makes of instructions that are far off. */
	for (size_t i = 0; i < ARRAY_LEN(far_off); i++)
		if (op->nuses == far_off[i].nsrc && slice_is(symbol->text, far_off[i].symbol) && a.elem == ELEM_F32)
			return lower_asm_of(lo, op, far_off[i].text, src);
	/* All others are element-wise operations of the tables. */
	const struct symbol *s = find_symbol(symbol->text, a.elem);
	if (!s || s->nsrc != op->nuses || result != a.type || !map_kernel((enum map_op)s->op, a.elem))
		return lower_fail(
			lo, ERR_UNSUPPORTED, "tt.extern_elementwise of '%.*s'", (int)MIN(symbol->text.len, 60), symbol->text.data);
	if (lower_same_types(lo, src, op->nuses)) return lo->code;
	lower_emit_op(lo, (enum map_op)s->op, src, op->nuses, 0);
	return lo->code;
}
