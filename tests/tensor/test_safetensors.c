/* safetensors against the package's files (tests/ref/tensor_oracle.py), and against broken ones:
 * each refusal, every truncation, random corruption. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"
#include "tensor/tensor.h"

static char *folder; /* $BUILD/ref/tensor */

static char *in_folder(const char *name) { return path_join(folder, name); }

static struct safetensors *open_ok(const char *name)
{
	struct safetensors *s = NULL;
	struct err err = {0};
	char *path = in_folder(name);
	if (safetensors_open(path, &s, &err)) fail_msg("%s", err.text);
	free(path);
	return s;
}

static double value(int i) { return (i * 7) % 9 - 4; }

static void test_all_dtypes(void **state)
{
	struct safetensors *s = open_ok("all.safetensors");
	struct err err = {0};
	const struct tensor_info *t;
	/* A tensor of every dtype and three odd ones, listed by name. */
	assert_int_equal(safetensors_count(s), DTYPE_COUNT + 3);
	for (size_t i = 1; i < safetensors_count(s); i++)
		assert_true(strcmp(safetensors_at(s, i - 1)->name, safetensors_at(s, i)->name) < 0);
	/* Each value by dtype_load, and by tensor_to_f32 where it is a float. */
	for (int d = 0; d < DTYPE_COUNT; d++) {
		assert_int_equal(safetensors_get(s, dtype_name(d), 2, (int64_t[]){3, 5}, &t, &err), 0);
		assert_int_equal(t->dtype, d);
		for (int i = 0; i < 15; i++) {
			double want = value(i);
			if (d >= DTYPE_U8) want = fabs(want);
			if (dtype_is_float(d)) want /= 4;
			if (d == DTYPE_BOOL) want = want != 0;
			assert_true(dtype_load(d, t->data, i) == want);
		}
		if (!dtype_is_float(d)) continue;
		float out[16];
		memset(out, 0xff, sizeof out); /* NaN, not what the dtype before left there */
		tensor_to_f32(t, out);
		assert_true(isnan(out[15])); /* nothing is written behind the last */
		for (int i = 0; i < 15; i++) assert_true(out[i] == (float)value(i) / 4);
	}
	/* A tensor of no dimension, one of no bytes, a name that needs escapes. */
	assert_int_equal(safetensors_get(s, "scalar", 0, NULL, &t, &err), 0);
	assert_true(*(const float *)t->data == 2.5f);
	assert_int_equal(safetensors_get(s, "nothing", 3, (int64_t[]){4, 0, 3}, &t, &err), 0);
	assert_int_equal(t->bytes, 0);
	assert_non_null(safetensors_find(s, "weird \"n\xc3\xa4me\" \\ /.."));
	/* What is not there, and what is there in another shape. */
	assert_null(safetensors_find(s, "absent"));
	assert_int_equal(safetensors_get(s, "absent", 0, NULL, &t, &err), ERR_NOT_FOUND);
	assert_int_equal(safetensors_get(s, "float32", 2, (int64_t[]){5, 3}, &t, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "expected shape (5, 3), found (3, 5)"));
	safetensors_close(s);
	safetensors_close(open_ok("empty.safetensors"));
	safetensors_close(NULL);
}

static void test_shards(void **state)
{
	static const char *const ways[] = {"sharded", "sharded/model.safetensors.index.json"};
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		struct safetensors *s = open_ok(ways[i]);
		assert_int_equal(safetensors_count(s), 3);
		assert_true(((const float *)safetensors_find(s, "b.weight")->data)[5] == 5);
		assert_true(((const float *)safetensors_find(s, "c")->data)[1] == 9);
		safetensors_close(s);
	}
}

/* ---- files made here ---- */

static char *write_bytes(const char *name, const void *data, size_t len)
{
	char *path = in_folder(name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, len, f), len);
	fclose(f);
	return path;
}

static int open_header(const char *header, size_t data_bytes, struct err *err)
{
	struct str s = {0};
	uint64_t n = strlen(header);
	str_append(&s, &n, 8);
	str_puts(&s, header);
	for (size_t i = 0; i < data_bytes; i++) str_putc(&s, 'x');
	char *path = write_bytes("made.safetensors", s.data, s.len);
	struct safetensors *out = NULL;
	int rc = safetensors_open(path, &out, err);
	safetensors_close(rc ? NULL : out);
	str_release(&s);
	free(path);
	return rc;
}

static void test_refusals(void **state)
{
	static const struct {
		const char *header;
		size_t data_bytes;
		int code;
		const char *text;
	} cases[] = {
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  ", 8, 0,
			""}, /* 54 bytes and two spaces: aligned, and right */
		{"[]", 0, ERR_FORMAT, "not a JSON object"},
		{" {}", 0, ERR_FORMAT, "not a JSON object"},
		{"{\"a\":1,}", 0, ERR_FORMAT, "not a JSON object"},
		{"", 0, ERR_FORMAT, "not a JSON object"},
		{"{\"a\":3}", 0, ERR_FORMAT, "dtype"},
		{"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, ERR_UNSUPPORTED, "'F4'"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":3,\"data_offsets\":[0,1]}}", 1, ERR_FORMAT, "shape"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, ERR_FORMAT, "dimension 0"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, ERR_FORMAT, "dimension 0"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, ERR_LIMIT,
			"9 dimensions"},
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, ERR_RANGE,
			"overflows"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[0,9223372036854775807,9223372036854775807],\"data_offsets\":[0,0]}}", 0,
			0, ""},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, ERR_FORMAT, "data_offsets"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", 1, ERR_RANGE, "outside"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 1, ERR_RANGE, "cut off"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", 1, ERR_MISMATCH, "need 2 bytes"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, ERR_FORMAT, "gap"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 2, ERR_FORMAT, "belong to no tensor"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
		 "offsets\":[1,3]}}",
			3, ERR_FORMAT, "overlap"},
		{"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
		 "offsets\":[1,2]}}",
			2, ERR_FORMAT, "duplicate"},
		{"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} ", 4, ERR_FORMAT, "aligned"},
		{"{\"__metadata__\":{\"a\":1}}", 0, ERR_FORMAT, "not a string"},
		{"{\"__metadata__\":[]}", 0, ERR_FORMAT, "not an object"},
	};
	/* Each header with that many bytes of data after it. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		int rc = open_header(cases[i].header, cases[i].data_bytes, &err);
		if (rc != cases[i].code || !strstr(err.text, cases[i].text))
			fail_msg("%s: got %d \"%s\", expected %d with \"%s\"", cases[i].header, rc, err.text, cases[i].code,
				cases[i].text);
	}
}

static void test_header_length(void **state)
{
	static const uint64_t lengths[] = {1, 100u * 1024 * 1024 + 1, UINT64_MAX, 1ull << 63};
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		char *path = write_bytes("made.safetensors", &lengths[i], 8);
		struct safetensors *s;
		struct err err = {0};
		assert_true(safetensors_open(path, &s, &err) < 0);
		assert_non_null(strstr(err.text, "made.safetensors"));
		free(path);
	}
	struct safetensors *s;
	struct err err = {0};
	assert_int_equal(safetensors_open("/nonexistent/x", &s, &err), ERR_IO);
	assert_int_equal(safetensors_open("tests", &s, &err), ERR_NOT_FOUND);
}

#define ONE "model-00001-of-00002.safetensors"
#define TWO "model-00002-of-00002.safetensors"

static void test_index_refusals(void **state)
{
	static const struct {
		const char *json, *text;
	} cases[] = {
		{"{\"weight_map\":{\"a\":\"../all.safetensors\"}}", "plain file name"},
		{"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "plain file name"},
		{"{\"weight_map\":{\"a\":\"..\"}}", "plain file name"},
		{"{\"weight_map\":{\"a\":3}}", "not a string"},
		{"{\"weight_map\":{}}", "at least one"},
		{"{}", "weight_map"},
		{"{\"weight_map\":{\"a\":\"absent.safetensors\"}}", "absent.safetensors"},
		{"{\"weight_map\":{\"a\":\"" ONE "\",\"b.weight\":\"" ONE "\",\"z\":\"" ONE "\"}}", "'z' is in the index"},
		{"{\"weight_map\":{\"a\":\"" ONE "\"}}", "the index lists 1"},
		{"{\"weight_map\":{\"a\":\"" ONE "\",\"b.weight\":\"" TWO "\",\"c\":\"" TWO "\"}}", "where the index puts it"},
		{"not json", "made.index.json"},
	};
	/* Each index beside the good shards. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *path = write_bytes("sharded/made.index.json", cases[i].json, strlen(cases[i].json));
		struct safetensors *s;
		struct err err = {0};
		int rc = safetensors_open(path, &s, &err);
		if (rc >= 0 || !strstr(err.text, cases[i].text))
			fail_msg("%s: got %d \"%s\", expected \"%s\"", cases[i].json, rc, err.text, cases[i].text);
		free(path);
	}
}

/* A cut file is never accepted; a corrupted one is accepted or refused, and what is accepted can be
 * read to the last byte. */
static void test_truncation_and_corruption(void **state)
{
	struct str whole = {0};
	struct err err = {0};
	char *source = in_folder("all.safetensors");
	assert_int_equal(file_read(source, 1 << 20, &whole, &err), 0);
	struct safetensors *s;
	/* Every length that is too short. */
	for (size_t len = 0; len < whole.len; len++) {
		char *path = write_bytes("cut.safetensors", whole.data, len);
		if (safetensors_open(path, &s, &err) == 0) fail_msg("accepted %zu of %zu bytes", len, whole.len);
		free(path);
	}
	/* Bytes are bent in the header's first part half of the time, and there into what JSON is made
	 * of, so that many files get past the first check. */
	struct rng g = {1, 2, 3};
	volatile unsigned total = 0;
	int accepted = 0;
	for (int round = 0; round < 3000; round++) {
		char *copy = memcpy(malloc(whole.len), whole.data, whole.len);
		for (uint32_t flips = 1 + rng_below(&g, 3); flips; flips--) {
			size_t at = rng_below(&g, 2) ? rng_below(&g, (uint32_t)whole.len) : rng_below(&g, 1200);
			copy[at] = rng_below(&g, 2) ? (char)rng_next(&g) : "0123456789[]{},:\"FUI"[rng_below(&g, 20)];
		}
		char *path = write_bytes("bent.safetensors", copy, whole.len);
		if (safetensors_open(path, &s, &err) == 0) {
			accepted++;
			for (size_t i = 0; i < safetensors_count(s); i++)
				for (size_t b = 0; b < safetensors_at(s, i)->bytes; b++)
					total += ((const uint8_t *)safetensors_at(s, i)->data)[b];
			safetensors_close(s);
		}
		free(path);
		free(copy);
	}
	/* Both ways were taken. */
	assert_true(accepted > 10 && accepted < 2990);
	str_release(&whole);
	free(source);
}

static int files_in(const char *name, void *ctx) { return str_printf(ctx, " %s", name), 0; }

static void test_write(void **state)
{
	static const float x[6] = {0, 1, 2, 3, 4, 5};
	static const uint8_t bytes[3] = {1, 2, 3};
	static const uint16_t half[1] = {0x3f80};
	static const double doubles[2] = {0.5, -0.5};
	const struct tensor_info tensors[] = {
		{"bytes", DTYPE_U8, 1, {3}, bytes, 3},
		{"x.weight", DTYPE_F32, 2, {2, 3}, x, 24},
		{"halves", DTYPE_BF16, 1, {1}, half, 2},
		{"none", DTYPE_F32, 2, {0, 7}, NULL, 0},
		{"doubles", DTYPE_F64, 1, {2}, doubles, 16},
	};
	char *path = in_folder("written.safetensors"), command[1024];
	struct err err = {0};
	json_t *metadata = json_pack("{s:s}", "extra", "yes");
	if (safetensors_write(path, tensors, ARRAY_LEN(tensors), metadata, &err)) fail_msg("%s", err.text);
	/* Read back by our own reader, then by the safetensors package. */
	struct safetensors *s = open_ok("written.safetensors");
	for (size_t i = 0; i < ARRAY_LEN(tensors); i++) {
		const struct tensor_info *t;
		assert_int_equal(safetensors_get(s, tensors[i].name, tensors[i].ndim, tensors[i].shape, &t, &err), 0);
		assert_int_equal(t->dtype, tensors[i].dtype);
		if (t->bytes) assert_memory_equal(t->data, tensors[i].data, t->bytes);
	}
	safetensors_close(s);
	snprintf(
		command, sizeof command, "env LD_PRELOAD= build/venv/bin/python tests/ref/tensor_oracle.py --check %s", path);
	assert_int_equal(system(command), 0);
	assert_int_equal(safetensors_write("/nonexistent/x.safetensors", tensors, 1, NULL, &err), ERR_NOT_FOUND);
	/* What cannot take its place is not said to be written, and leaves nothing beside it. */
	char *taken = in_folder("taken.safetensors");
	struct str left = {0};
	assert_int_equal(dir_make(taken, &err), 0);
	assert_int_equal(safetensors_write(taken, tensors, 1, NULL, &err), ERR_IO);
	assert_int_equal(dir_each(folder, files_in, &left, &err), 0);
	assert_null(strstr(left.data, ".tmp"));
	str_release(&left);
	free(taken);
	json_decref(metadata);
	free(path);
}

/* ---- folders ---- */

/* What the tensors hold, made when it is asked for: in their order, each once. */
struct maker {
	const struct tensor_info *tensors;
	size_t made;
};
static void make_tensor(void *ctx, size_t i, void *out)
{
	struct maker *m = ctx;
	assert_int_equal(i, m->made++);
	if (m->tensors[i].bytes) memcpy(out, m->tensors[i].data, m->tensors[i].bytes);
}

/* Five tensors of 40, 24, 100, 8 and 0 bytes under every limit: what is read back is what was
 * given, no file holds more than the limit unless it holds one tensor, and nothing of an earlier
 * folder stays. */
static void test_write_folder(void **state)
{
	static float values[43];
	const struct tensor_info tensors[] = {
		{"a", DTYPE_F32, 1, {10}, values, 40},
		{"b.weight", DTYPE_F32, 2, {2, 3}, values + 10, 24},
		{"c", DTYPE_F32, 1, {25}, values + 16, 100},
		{"d", DTYPE_F32, 1, {2}, values + 41, 8},
		{"e", DTYPE_F32, 2, {0, 7}, NULL, 0},
	};
#define FOUR_FILES " model-00001-of-00004.safetensors model-00002-of-00004.safetensors " \
	"model-00003-of-00004.safetensors model-00004-of-00004.safetensors" \
	" model.safetensors.index.json"
	static const struct {
		int64_t limit;
		const char *files;
	} cases[] = {
		{0, " model.safetensors"},
		{1, FOUR_FILES},
		{64,
			" model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors "
			"model.safetensors.index.json"},
		{63, FOUR_FILES},
		{108, " model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
		{171, " model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json"},
		{172, " model.safetensors"},
	};
	struct err err = {0};
	char *dir = in_folder("out");
	for (int i = 0; i < 43; i++) values[i] = (float)i;
	assert_int_equal(dir_remove(dir, &err), 0);
	assert_int_equal(dir_make(dir, &err), 0);
	/* Each limit writes over what the one before left: the list of files
	 * must be exactly its own. */
	for (size_t c = 0; c < 2 * ARRAY_LEN(cases); c++) {
		size_t i = c / 2;
		struct str files = {0};
		struct maker maker = {.tensors = tensors};
		/* Shards of other models, the one that is alone too. */
		free(write_bytes("out/model-00001-of-00001.safetensors", "x", 1));
		free(write_bytes("out/model-00007-of-00009.safetensors", "x", 1));
		if (safetensors_write_folder(
				dir, tensors, ARRAY_LEN(tensors), NULL, cases[i].limit, c % 2 ? make_tensor : NULL, &maker, &err))
			fail_msg("%s", err.text);
		assert_int_equal(maker.made, c % 2 ? ARRAY_LEN(tensors) : 0);
		assert_int_equal(dir_each(dir, files_in, &files, &err), 0);
		assert_string_equal(files.data, cases[i].files);
		str_release(&files);
		struct safetensors *s = open_ok("out");
		assert_int_equal(safetensors_count(s), ARRAY_LEN(tensors));
		for (size_t k = 0; k < ARRAY_LEN(tensors); k++) {
			const struct tensor_info *t;
			assert_int_equal(safetensors_get(s, tensors[k].name, tensors[k].ndim, tensors[k].shape, &t, &err), 0);
			if (t->bytes) assert_memory_equal(t->data, tensors[k].data, t->bytes);
		}
		safetensors_close(s);
	}
	assert_int_equal(safetensors_write_folder("/nonexistent", tensors, ARRAY_LEN(tensors), NULL, 1, NULL, NULL, &err),
		ERR_NOT_FOUND);
	free(dir);
}

/* All 256 bytes of both 8-bit formats as torch converts them: exactly; NaNs are NaNs. */
static void test_f8(void **state)
{
	static const char *const names[] = {"float8_e4m3fn", "float8_e5m2"};
	struct safetensors *s = open_ok("f8.safetensors");
	for (size_t d = 0; d < ARRAY_LEN(names); d++) {
		char name[64];
		float out[256];
		memset(out, 0, sizeof out);
		const struct tensor_info *t = safetensors_find(s, names[d]);
		snprintf(name, sizeof name, "%s.f32", names[d]);
		const float *want = safetensors_find(s, name)->data;
		tensor_to_f32(t, out);
		int nans = 0;
		for (int i = 0; i < 256; i++) {
			nans += isnan(out[i]) != 0;
			if (isnan(want[i]) ? !isnan(out[i]) : memcmp(&out[i], &want[i], 4))
				fail_msg("%s 0x%02x: %a, expected %a", names[d], i, out[i], want[i]);
		}
		assert_int_equal(nans, d == 0 ? 2 : 6);
	}
	safetensors_close(s);
}

static int make_fixtures(void **state)
{
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release", "ref/tensor");
	char command[1024];
	snprintf(command, sizeof command,
		"test -s %s/f8.safetensors || env LD_PRELOAD= build/venv/bin/python tests/ref/tensor_oracle.py %s", folder,
		folder);
	return system(command);
}
static int release(void **state)
{
	free(folder);
	return 0;
}

/* A name that two files of a folder hold, whichever the index means. */
static void test_twice(void **state)
{
	static const float x[2] = {1, 2};
	const struct tensor_info one[] = {{"a", DTYPE_F32, 1, {2}, x, 8}},
							 two[] = {{"a", DTYPE_F32, 1, {2}, x, 8}, {"b", DTYPE_F32, 1, {2}, x, 8}};
	struct err err = {0};
	char *dir = in_folder("twice"), *first = path_join(dir, "1.safetensors"), *second = path_join(dir, "2.safetensors"),
		 *index = path_join(dir, "model.safetensors.index.json");
	static const char map[] = "{\"weight_map\": {\"a\": \"1.safetensors\", \"b\": \"2.safetensors\"}}";
	struct safetensors *s = NULL;
	if (dir_make(dir, &err) || safetensors_write(first, one, 1, NULL, &err) ||
		safetensors_write(second, two, 2, NULL, &err) || file_write_atomic(index, map, sizeof map - 1, &err))
		fail_msg("%s", err.text);
	assert_int_equal(safetensors_open(index, &s, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "tensor 'a' occurs in two files"));
	free(dir), free(first), free(second), free(index);
}

static void open_and_close(void *name) { safetensors_close(open_ok(name)); }

static void open_in_vain(void *name)
{
	struct safetensors *s = NULL;
	struct err err = {0};
	char *path = in_folder(name);
	assert_int_not_equal(safetensors_open(path, &s, &err), 0);
	free(path);
}

static void test_leaves_nothing(void **state)
{
	leaves_nothing(open_and_close, (void *)(uintptr_t)"all.safetensors");
	leaves_nothing(open_in_vain, (void *)(uintptr_t)"absent.safetensors");
	leaves_nothing(open_in_vain, (void *)(uintptr_t)".");
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_dtypes),
		cmocka_unit_test(test_shards),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_header_length),
		cmocka_unit_test(test_index_refusals),
		cmocka_unit_test(test_truncation_and_corruption),
		cmocka_unit_test(test_write),
		cmocka_unit_test(test_write_folder),
		cmocka_unit_test(test_f8),
		cmocka_unit_test(test_twice),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, make_fixtures, release);
}
