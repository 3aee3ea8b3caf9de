/* Movement rows against torch (tests/ref/movement_oracle.py): every pair of types, strided and
 * expanded views; and the origin tags that travel along. */
#include "runner/movement.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static json_t *cases;

static int load(void **state)
{
	const char *build = getenv("BUILD");
	char command[512];
	char *path = path_join(build ? build : "build/release", "ref/movement.json");
	struct err err = {0};
	snprintf(command, sizeof command,
		"test -s %s || env LD_PRELOAD= build/venv/bin/python tests/ref/movement_oracle.py %s", path, path);
	int rc = system(command) ? -1 : json_load(path, (size_t)64 << 20, &cases, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	free(path);
	return rc;
}

static int unload(void **state)
{
	json_decref(cases);
	return 0;
}

static uint8_t *unhex(const json_t *text, size_t *bytes)
{
	const char *s = json_string_value(text);
	*bytes = strlen(s) / 2;
	uint8_t *out = xmalloc(*bytes + 1);
	for (size_t i = 0; i < *bytes; i++) {
		unsigned v = 0;
		assert_int_equal(sscanf(s + 2 * i, "%2x", &v), 1);
		out[i] = (uint8_t)v;
	}
	return out;
}

static struct tape_view view_of(const json_t *o, int buffer)
{
	struct tape_view v = {.buffer = buffer, .offset_bytes = json_integer_value(json_object_get(o, "offset"))};
	assert_int_equal(dtype_from_name(json_string_value(json_object_get(o, "dtype")), &v.dtype), 0);
	v.ndim = (int)json_array_size(json_object_get(o, "shape"));
	for (int i = 0; i < v.ndim; i++) {
		v.shape[i] = json_integer_value(json_array_get(json_object_get(o, "shape"), (size_t)i));
		v.stride[i] = json_integer_value(json_array_get(json_object_get(o, "stride"), (size_t)i));
	}
	return v;
}

static void test_against_torch(void **state)
{
	for (size_t c = 0; c < json_array_size(cases); c++) {
		const json_t *o = json_array_get(cases, c), *value = json_object_get(o, "value");
		size_t bytes = 0, source_bytes = 0, expected_bytes = 0;
		struct tape_view dst = view_of(json_object_get(o, "dst"), 0);
		bool computes = false; /* truncation and comparison are no movement */
		uint8_t *to = unhex(json_object_get(o, "dst_before"), &bytes),
				*expected = unhex(json_object_get(o, "expected"), &expected_bytes);
		struct memory_view m = {to, xcalloc(bytes, 1)};
		if (value) {
			movement_fill(&dst, m, json_number_value(value), (int64_t)json_number_value(value));
		} else {
			struct tape_view src = view_of(json_object_get(o, "src"), 1);
			uint8_t *from = unhex(json_object_get(o, "src_data"), &source_bytes);
			struct memory_view s = {from, xmalloc(source_bytes)};
			memset(s.origin, TAPE_ORIGIN_KERNEL, source_bytes);
			movement_copy(&dst, m, &src, s);
			computes = dtype_is_float(src.dtype) && !dtype_is_float(dst.dtype);
			free(s.origin);
			free(from);
		}
		if (memcmp(to, expected, bytes)) {
			size_t at = 0;
			while (to[at] == expected[at]) at++;
			char *text = json_dumps(o, JSON_COMPACT);
			fail_msg("case %zu differs at byte %zu: %02x, torch has %02x; %s", c, at, to[at], expected[at], text);
		}
		/* What was written is tagged, what was not is not. */
		for (size_t i = 0; i < bytes; i++)
			if (m.origin[i] != TAPE_ORIGIN_NONE)
				assert_int_equal(m.origin[i],
					value          ? TAPE_ORIGIN_GIVEN
						: computes ? TAPE_ORIGIN_LIBRARY
								   : TAPE_ORIGIN_KERNEL);
		int64_t tagged = 0;
		for (size_t i = 0; i < bytes; i++) tagged += m.origin[i] != TAPE_ORIGIN_NONE;
		assert_int_equal(tagged, tape_view_elements(&dst) * (int64_t)dtype_bytes(dst.dtype));
		free(m.origin);
		free(to);
		free(expected);
	}
}

/* x[1:] = x[:-1] in one buffer: the source is read before anything is written. */
static void test_overlap(void **state)
{
	int32_t data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	uint8_t origin[32] = {0};
	struct memory_view m = {(uint8_t *)data, origin};
	struct tape_view dst = {.dtype = DTYPE_I32, .ndim = 1, .offset_bytes = 4, .shape = {7}, .stride = {1}}, src = dst;
	src.offset_bytes = 0;
	movement_copy(&dst, m, &src, m);
	const int32_t expected[8] = {0, 0, 1, 2, 3, 4, 5, 6};
	assert_memory_equal(data, expected, sizeof data);
}

/* A cast of an element whose bytes have several origins keeps the least trusted; a float beyond an
 * integer's range saturates and NaN becomes 0. */
static void test_origins_and_range(void **state)
{
	float from[4] = {1e30f, -1e30f, __builtin_nanf(""), 3.9f};
	uint8_t from_origin[16], to_origin[32] = {0};
	int64_t to[4] = {9, 9, 9, 9};
	memset(from_origin, TAPE_ORIGIN_KERNEL, sizeof from_origin);
	from_origin[5] = TAPE_ORIGIN_GIVEN;
	from_origin[9] = TAPE_ORIGIN_LIBRARY;
	from_origin[13] = TAPE_ORIGIN_NONE;
	struct tape_view dst = {.dtype = DTYPE_I64, .ndim = 1, .shape = {4}, .stride = {1}}, src = dst;
	src.dtype = DTYPE_F32;
	movement_copy(
		&dst, (struct memory_view){(uint8_t *)to, to_origin}, &src, (struct memory_view){(uint8_t *)from, from_origin});
	assert_true(to[0] == INT64_MAX && to[1] == INT64_MIN && to[2] == 0 && to[3] == 3);
	const uint8_t truncated[4] = {TAPE_ORIGIN_LIBRARY, TAPE_ORIGIN_LIBRARY, TAPE_ORIGIN_LIBRARY, TAPE_ORIGIN_NONE};
	for (int i = 0; i < 32; i++) assert_int_equal(to_origin[i], truncated[i / 8]);
	/* Another float format is the same value, unless no kernel ever saw it; a plain copy changes
	 * nothing. */
	dst.dtype = DTYPE_F64;
	movement_copy(
		&dst, (struct memory_view){(uint8_t *)to, to_origin}, &src, (struct memory_view){(uint8_t *)from, from_origin});
	const uint8_t widened[4] = {TAPE_ORIGIN_KERNEL, TAPE_ORIGIN_LIBRARY, TAPE_ORIGIN_LIBRARY, TAPE_ORIGIN_NONE};
	for (int i = 0; i < 32; i++) assert_int_equal(to_origin[i], widened[i / 8]);
	dst.dtype = DTYPE_F32;
	movement_copy(
		&dst, (struct memory_view){(uint8_t *)to, to_origin}, &src, (struct memory_view){(uint8_t *)from, from_origin});
	assert_memory_equal(to_origin, from_origin, sizeof from_origin);
}

static void test_gather(void **state)
{
	int16_t data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, out[6];
	struct tape_view v = {.dtype = DTYPE_I16, .ndim = 2, .offset_bytes = 2, .shape = {3, 2}, .stride = {1, 4}};
	movement_gather(&v, (const uint8_t *)data, (uint8_t *)out);
	const int16_t expected[6] = {1, 5, 2, 6, 3, 7};
	assert_memory_equal(out, expected, sizeof out);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_against_torch(NULL);
	test_overlap(NULL);
	test_origins_and_range(NULL);
	test_gather(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_torch),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_origins_and_range),
		cmocka_unit_test(test_gather),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, load, unload);
}
