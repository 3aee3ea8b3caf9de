/* Conversions to and from the formats of one byte: every number of them, and what lies between two
 * neighbours. The values are written down from the formats' definition. */
#include "base/dtype.h"
#include <math.h>
#include <setjmp.h>
#include <cmocka.h>

struct format {
	int mantissa, bias; /* bits; of the exponent */
	int end;            /* the first code that is no number; its value is the next step */
	uint8_t (*from)(float x);
	float (*to)(uint8_t x);
};
static const struct format e4m3 = {3, 7, 0x7f, f32_to_f8e4m3, f8e4m3_to_f32};
static const struct format e5m2 = {2, 15, 0x7c, f32_to_f8e5m2, f8e5m2_to_f32};

static float value_of(const struct format *f, int code)
{
	int exponent = code >> f->mantissa, digits = code & ((1 << f->mantissa) - 1);
	if (exponent) digits += 1 << f->mantissa;
	return ldexpf((float)digits, MAX(exponent, 1) - f->bias - f->mantissa);
}

static void converts(void **state)
{
	const struct format *f = *state;
	for (int code = 0; code < f->end; code++) {
		float x = value_of(f, code), half_way = (x + value_of(f, code + 1)) / 2;
		/* Half way between two numbers the even code wins. */
		const struct {
			float x;
			int want;
		} cases[] = {{x, code}, {half_way, code + code % 2}, {nextafterf(half_way, 0), code},
			{nextafterf(half_way, INFINITY), code + 1}};
		for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
			int plus = f->from(cases[i].x), minus = f->from(-cases[i].x);
			if (plus != cases[i].want || minus != (plus | 0x80))
				fail_msg("%a is 0x%02x, its negative 0x%02x, expected 0x%02x", (double)cases[i].x, plus, minus,
					cases[i].want);
		}
		if (f->to((uint8_t)code) != x || f->to((uint8_t)(code | 0x80)) != -x)
			fail_msg("0x%02x is %a, expected %a", code, (double)f->to((uint8_t)code), (double)x);
	}
}

/* From fp64 a number is rounded once: what lies next to the middle of two neighbours, by less than
 * fp32 can tell or by a part of its step, goes to the nearer one. */
static void rounds_once(void **state)
{
	static const struct {
		enum dtype type;
		int end; /* the first code that is no number */
	} rows[] = {{DTYPE_F16, 0x7c00}, {DTYPE_BF16, 0x7f80}, {DTYPE_F8E4M3, 0x7f}, {DTYPE_F8E5M2, 0x7c}};
	for (size_t r = 0; r < ARRAY_LEN(rows); r++)
		for (int code = 0; code + 1 < rows[r].end; code++) {
			/* Two neighbours, and the fp32 step behind their middle. */
			uint16_t codes[2] = {(uint16_t)code, (uint16_t)(code + 1)}, stored = 0;
			bool is_byte = dtype_bytes(rows[r].type) == 1;
			double low = is_byte ? dtype_load(rows[r].type, &(uint8_t){(uint8_t)code}, 0)
								 : dtype_load(rows[r].type, codes, 0),
				   high = is_byte ? dtype_load(rows[r].type, &(uint8_t){(uint8_t)(code + 1)}, 0)
								  : dtype_load(rows[r].type, codes, 1),
				   middle = low + (high - low) / 2, step = (double)nextafterf((float)middle, (float)high) - middle;
			const struct {
				double x;
				int want;
			} cases[] = {{low, code}, {middle, code + code % 2}, {nextafter(middle, low), code},
				{nextafter(middle, high), code + 1}, {middle - 0.75 * step, code}, {middle + 0.75 * step, code + 1}};
			for (size_t i = 0; i < ARRAY_LEN(cases); i++)
				for (int sign = 1; sign >= -1; sign -= 2) {
					int want = cases[i].want | (sign < 0 ? is_byte ? 0x80 : 0x8000 : 0);
					stored = 0;
					dtype_store(rows[r].type, &stored, 0, sign * cases[i].x);
					if (stored != want)
						fail_msg("%s: %a is 0x%04x, expected 0x%04x", dtype_name(rows[r].type), sign * cases[i].x,
							stored, want);
				}
		}
}

/* f8E4M3 has no infinity: what is too large for it is not a number, as when torch casts. */
static void what_is_no_number(void **state)
{
	assert_int_equal(f32_to_f8e4m3(NAN), 0x7f);
	assert_int_equal(f32_to_f8e4m3(INFINITY), 0x7f);
	assert_int_equal(f32_to_f8e4m3(480), 0x7f);
	assert_int_equal(f32_to_f8e4m3(-1e30f), 0xff);
	assert_int_equal(f32_to_f8e5m2(NAN), 0x7f);
	assert_int_equal(f32_to_f8e5m2(INFINITY), 0x7c);
	assert_int_equal(f32_to_f8e5m2(65536), 0x7c);
	assert_int_equal(f32_to_f8e5m2(-1e30f), 0xfc);
	assert_true(isnan(f8e4m3_to_f32(0x7f)) && isnan(f8e5m2_to_f32(0x7f)));
	assert_true(f8e5m2_to_f32(0x7c) == INFINITY && f8e5m2_to_f32(0xfc) == -INFINITY);
}

/* The whole table, and names both ways. */
static void names_and_sizes(void **state)
{
	static const struct {
		enum dtype type;
		const char *torch, *safetensors;
		size_t bytes;
		bool is_float;
	} rows[] = {{DTYPE_F32, "float32", "F32", 4, true}, {DTYPE_F64, "float64", "F64", 8, true},
		{DTYPE_F16, "float16", "F16", 2, true}, {DTYPE_BF16, "bfloat16", "BF16", 2, true},
		{DTYPE_F8E4M3, "float8_e4m3fn", "F8_E4M3", 1, true}, {DTYPE_F8E5M2, "float8_e5m2", "F8_E5M2", 1, true},
		{DTYPE_I8, "int8", "I8", 1, false}, {DTYPE_I16, "int16", "I16", 2, false},
		{DTYPE_I32, "int32", "I32", 4, false}, {DTYPE_I64, "int64", "I64", 8, false},
		{DTYPE_U8, "uint8", "U8", 1, false}, {DTYPE_U16, "uint16", "U16", 2, false},
		{DTYPE_U32, "uint32", "U32", 4, false}, {DTYPE_U64, "uint64", "U64", 8, false},
		{DTYPE_BOOL, "bool", "BOOL", 1, false}};
	/* Each type has its row here, and each name leads back to its type. */
	assert_int_equal(ARRAY_LEN(rows), DTYPE_COUNT);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum dtype found = DTYPE_COUNT;
		assert_string_equal(dtype_name(rows[i].type), rows[i].torch);
		assert_string_equal(dtype_safetensors_name(rows[i].type), rows[i].safetensors);
		assert_int_equal(dtype_bytes(rows[i].type), rows[i].bytes);
		assert_int_equal(dtype_is_float(rows[i].type), rows[i].is_float);
		assert_int_equal(dtype_from_name(rows[i].torch, &found), 0);
		assert_int_equal(found, rows[i].type);
		found = DTYPE_COUNT;
		assert_int_equal(dtype_from_safetensors(rows[i].safetensors, &found), 0);
		assert_int_equal(found, rows[i].type);
	}
	enum dtype kept = DTYPE_I16;
	assert_int_equal(dtype_from_name("F32", &kept), ERR_NOT_FOUND);
	assert_int_equal(dtype_from_safetensors("float32", &kept), ERR_NOT_FOUND);
	assert_int_equal(kept, DTYPE_I16);
}

/* Element 1 of three, set and read again: its own bytes and no others, integers towards zero, and
 * what an integer type cannot hold. */
static void elements(void **state)
{
	static const struct {
		enum dtype type;
		double set;
		uint64_t bits; /* of the element */
		double read;
	} rows[] = {{DTYPE_F32, 0.1, 0x3dcccccd, (double)0.1f}, {DTYPE_F64, 0.1, 0x3fb999999999999a, 0.1},
		{DTYPE_F16, -1.5, 0xbe00, -1.5}, {DTYPE_BF16, -1.5, 0xbfc0, -1.5}, {DTYPE_F8E4M3, -1.5, 0xbc, -1.5},
		{DTYPE_F8E5M2, -1.5, 0xbe, -1.5}, {DTYPE_I8, -3.9, 0xfd, -3}, {DTYPE_U8, 250.9, 250, 250},
		{DTYPE_I16, -300.9, 0xfed4, -300}, {DTYPE_U16, 65535, 65535, 65535}, {DTYPE_I32, -70000.9, 0xfffeee90, -70000},
		{DTYPE_U32, 4294967295.0, 0xffffffff, 4294967295.0}, {DTYPE_I64, -0x1p60, 0xf000000000000000, -0x1p60},
		{DTYPE_I64, NAN, 0, 0}, {DTYPE_I64, 0x1p63, INT64_MAX, 0x1p63},
		{DTYPE_I64, -0x1p64, 0x8000000000000000, -0x1p63},
		{DTYPE_I64, 0x1.fffffffffffffp62, 0x7ffffffffffffc00, 0x1.fffffffffffffp62},
		{DTYPE_I64, -0x1p63, 0x8000000000000000, -0x1p63}, {DTYPE_U64, 0x1p63, 0x8000000000000000, 0x1p63},
		{DTYPE_U64, 0x1.8p63, 0xc000000000000000, 0x1.8p63}, {DTYPE_U64, 0x1p64, UINT64_MAX, 0x1p64},
		{DTYPE_U64, 7.9, 7, 7}, {DTYPE_U64, NAN, 0, 0}, {DTYPE_BOOL, 0.5, 1, 1}, {DTYPE_BOOL, 0, 0, 0},
		{DTYPE_BOOL, NAN, 1, 1}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t held[24], want[24];
		size_t bytes = dtype_bytes(rows[i].type);
		memset(held, 0xa5, sizeof held);
		memset(want, 0xa5, sizeof want);
		memcpy(want + bytes, &rows[i].bits, bytes);
		dtype_store(rows[i].type, held, 1, rows[i].set);
		if (memcmp(held, want, sizeof held)) fail_msg("%s, %a", dtype_name(rows[i].type), rows[i].set);
		double read = dtype_load(rows[i].type, held, 1);
		if (read != rows[i].read) fail_msg("%s, %a: read %a", dtype_name(rows[i].type), rows[i].set, read);
	}
	/* Any byte but 0 is true. */
	assert_true(dtype_load(DTYPE_BOOL, &(uint8_t){2}, 0) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		{"f8e4m3", converts, NULL, NULL, (void *)(uintptr_t)&e4m3},
		{"f8e5m2", converts, NULL, NULL, (void *)(uintptr_t)&e5m2},
		cmocka_unit_test(rounds_once),
		cmocka_unit_test(what_is_no_number),
		cmocka_unit_test(names_and_sizes),
		cmocka_unit_test(elements),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
