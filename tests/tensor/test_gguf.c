/* GGUF against gguf-py (tests/ref/gguf_oracle.py): every packing to the bit, every kind of
 * metadata; and broken files: each refusal, every truncation, random corruption. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "tensor/gguf_internal.h"
#include "../leaks.h"

static char *folder; /* $BUILD/ref/gguf */

static char *in_folder(const char *name) { return path_join(folder, name); }

static struct gguf *open_ok(const char *name)
{
	struct gguf *g = NULL;
	struct err err = {0};
	char *path = in_folder(name);
	if (gguf_open(path, &g, &err)) fail_msg("%s", err.text);
	assert_string_equal(gguf_path(g), path);
	free(path);
	return g;
}

/* NaN (an infinite scale times zero) has no one bit pattern; all else is compared as bits. */
static bool is_same(float a, float b) { return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)); }

static void test_packings(void **state)
{
	struct gguf *g = open_ok("types.gguf");
	struct safetensors *want = NULL;
	struct err err = {0};
	char *path = in_folder("want.safetensors");
	if (safetensors_open(path, &want, &err)) fail_msg("%s", err.text);
	/* One tensor of each packing, beside what gguf's own Python package unpacks. */
	assert_int_equal(gguf_count(g), 11);
	assert_int_equal(safetensors_count(want), 11);
	for (size_t i = 0; i < gguf_count(g); i++) {
		const struct gguf_tensor *t = gguf_at(g, i);
		const struct tensor_info *w = safetensors_find(want, t->name);
		assert_string_equal(t->quant->name, t->name);
		assert_ptr_equal(gguf_tensor_find(g, t->name), t);
		assert_non_null(w);
		assert_int_equal(t->ndim, w->ndim);
		assert_memory_equal(t->shape, w->shape, (size_t)t->ndim * sizeof *t->shape);
		assert_int_equal((size_t)t->count * sizeof(float), w->bytes);
		float *out = malloc(w->bytes + sizeof *out);
		/* What is not written stays, and so does one value past the end. */
		for (int64_t k = 0; k <= t->count; k++) out[k] = 12345;
		gguf_to_f32(t, out);
		/* Bit for bit; most values must be more than zeros and NaN for this to say something. */
		int finite = 0;
		for (int64_t k = 0; k < t->count; k++) {
			float expected = ((const float *)w->data)[k];
			finite += isfinite(expected) && expected != 0;
			if (!is_same(out[k], expected))
				fail_msg("%s: value %lld is %a, expected %a", t->name, (long long)k, (double)out[k], (double)expected);
		}
		assert_true(finite > t->count / 2);
		assert_true(out[t->count] == 12345);
		free(out);
	}
	safetensors_close(want);
	gguf_close(g);
	free(path);
}

static void test_metadata(void **state)
{
	static const struct {
		const char *key;
		int64_t value;
	} integers[] = {
		{"one.uint8", 200}, {"one.int8", -100}, {"one.uint16", 60000}, {"one.int16", -30000},
		{"one.uint32", 4000000000}, {"one.int32", -2000000000}, {"one.int64", -(1ll << 62)},
		{"one.uint64", INT64_MAX}, /* 2^63 + 5 saturates */
	};
	struct gguf *g = open_ok("values.gguf");
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(integers); i++) {
		int64_t n = 0;
		assert_int_equal(gguf_get_int(g, integers[i].key, INT64_MIN, INT64_MAX, &n, &err), 0);
		if (n != integers[i].value) fail_msg("%s is %lld", integers[i].key, (long long)n);
	}
	double d = 0;
	assert_int_equal(gguf_opt_num(g, "one.float32", &d, &err), 0);
	assert_true(d == (double)0.1f);
	assert_int_equal(gguf_opt_num(g, "one.float64", &d, &err), 0);
	assert_true(d == 0.1);
	assert_int_equal(gguf_opt_num(g, "one.int16", &d, &err), 0);
	assert_true(d == -30000);
	bool yes = false;
	assert_int_equal(gguf_opt_bool(g, "one.bool", &yes, &err), 0);
	assert_true(yes);
	const char *text = NULL;
	assert_int_equal(gguf_get_str(g, "one.string", &text, &err), 0);
	assert_string_equal(text, "h\xc3\xa4ll\no");
	const struct gguf_value *v = gguf_find(g, "list.int32");
	assert_int_equal(v->count, 3);
	assert_int_equal(gguf_int_at(v, 1), -4);
	v = gguf_find(g, "list.string");
	assert_int_equal(v->count, 3);
	assert_int_equal(v->strings[1].len, 0);
	assert_memory_equal(v->strings[2].data, "xyz", 3);
	v = gguf_find(g, "list.lists");
	assert_true(v->type == GGUF_ARRAY && v->element == GGUF_ARRAY && v->count == 2 && !v->data);
	v = gguf_find(g, "list.bool");
	assert_true(v->element == GGUF_BOOL && v->count == 2 && v->data[0] == 1 && v->data[1] == 0);
	/* All of them, in the order of their keys; each is found by its own. */
	assert_true(gguf_value_count(g) > 12);
	for (size_t i = 0; i < gguf_value_count(g); i++) {
		assert_ptr_equal(gguf_find(g, gguf_value_at(g, i)->key), gguf_value_at(g, i));
		assert_true(!i || strcmp(gguf_value_at(g, i - 1)->key, gguf_value_at(g, i)->key) < 0);
	}
	assert_non_null(strstr(gguf_path(g), "values.gguf"));
	/* The custom alignment of 64 was followed: otherwise opening fails. */
	float b[4];
	gguf_to_f32(gguf_tensor_find(g, "b.weight"), b);
	assert_true(b[3] == 3);
	assert_null(gguf_tensor_find(g, "c.weight"));
	gguf_close(g);
	gguf_close(NULL);
}

static void test_wrong_kinds(void **state)
{
	struct gguf *g = open_ok("values.gguf");
	struct err err = {0};
	int64_t n = 5;
	double d = 5;
	bool yes = false;
	const char *text = "before";
	/* An absent key is an error to `get` and none to `opt`. */
	assert_int_equal(gguf_get_int(g, "absent", 0, 1, &n, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "values.gguf: metadata 'absent' is missing"));
	assert_int_equal(gguf_get_str(g, "absent", &text, &err), ERR_NOT_FOUND);
	assert_int_equal(gguf_opt_int(g, "absent", 0, 1, &n, &err), 0);
	assert_int_equal(gguf_opt_num(g, "absent", &d, &err), 0);
	assert_int_equal(gguf_opt_bool(g, "absent", &yes, &err), 0);
	assert_int_equal(gguf_opt_str(g, "absent", &text, &err), 0);
	/* A value of another kind or outside of the range is an error to both. */
	assert_int_equal(gguf_opt_int(g, "one.uint8", 0, 199, &n, &err), ERR_RANGE);
	assert_non_null(strstr(err.text, "metadata 'one.uint8': expected 0 to 199, found 200"));
	assert_int_equal(gguf_opt_int(g, "one.uint64", 0, INT64_MAX - 1, &n, &err), ERR_RANGE);
	assert_int_equal(gguf_opt_int(g, "one.float32", 0, 1, &n, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "metadata 'one.float32': expected an integer, found float32 value"));
	assert_int_equal(gguf_opt_int(g, "list.int32", 0, 1, &n, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_int(g, "one.bool", 0, 1, &n, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_num(g, "one.string", &d, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_num(g, "infinite", &d, &err), ERR_RANGE);
	assert_int_equal(gguf_opt_bool(g, "one.uint8", &yes, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_str(g, "one.uint8", &text, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_str(g, "list.string", &text, &err), ERR_FORMAT);
	assert_int_equal(gguf_opt_str(g, "nul", &text, &err), ERR_FORMAT);
	/* No refusal touched what it was to fill. */
	assert_true(n == 5 && d == 5 && !yes && !strcmp(text, "before"));
	gguf_close(g);
}

/* ---- files made here ---- */

/* Thousands of files are tried: they live in memory. The path is valid while the descriptor is
 * open. */
struct made {
	int fd;
	char path[32];
};

static struct made make_file(const void *data, size_t len)
{
	struct err err = {0};
	struct made m = {.fd = memfd_make("made", len, &err)};
	assert_true(m.fd >= 0);
	if (len) assert_int_equal(write(m.fd, data, len), len);
	snprintf(m.path, sizeof m.path, "/proc/self/fd/%d", m.fd);
	return m;
}

static void put_number(struct str *s, uint64_t n, int bytes) { str_append(s, &n, (size_t)bytes); }

static void put_string(struct str *s, const char *text)
{
	put_number(s, strlen(text), 8);
	str_puts(s, text);
}

/* A file from words: GGUF, 1:N 4:N 8:N numbers of so many bytes, s:TEXT a string, p:N zeros up to a
 * multiple of N, z:N N zeros. */
static void build(struct str *out, const char *recipe)
{
	char *copy = xstrdup(recipe);
	str_clear(out);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
		uint64_t n = word[1] == ':' ? strtoull(word + 2, NULL, 0) : 0;
		switch (word[0]) {
		case 'G': str_puts(out, word); break;
		case 's': put_string(out, word + 2); break;
		case 'p':
			while (out->len % n) str_putc(out, 0);
			break;
		case 'z':
			while (n--) str_putc(out, 0);
			break;
		default: put_number(out, n, word[0] - '0');
		}
	}
	free(copy);
}

static int open_recipe(const char *recipe, struct err *err)
{
	struct str s = {0};
	struct gguf *g = NULL;
	build(&s, recipe);
	struct made m = make_file(s.data, s.len);
	int rc = gguf_open(m.path, &g, err);
	if (rc) assert_null(g);
	if (rc && strncmp(err->text, m.path, strlen(m.path))) fail_msg("\"%s\" does not name the file", err->text);
	gguf_close(g);
	str_release(&s);
	close(m.fd);
	return rc;
}

#define HEAD(tensors, entries) "GGUF 4:3 8:" #tensors " 8:" #entries " "
#define ONE(name, dim, type, offset) "s:" name " 4:1 8:" #dim " 4:" #type " 8:" #offset " "
#define FILL "z:64"   /* bytes that make a count plausible, so that the check behind it is reached */

static void test_refusals(void **state)
{
	static const struct {
		const char *recipe;
		int code;
		const char *text;
	} cases[] = {
		{HEAD(0, 0), 0, ""},
		{HEAD(0, 0) "p:32", 0, ""},
		{"GGUF 4:2 8:0 8:0", 0, ""},
		{HEAD(1, 0) ONE("a", 4, 0, 0) "p:32 z:16", 0, ""},
		{HEAD(1, 0) ONE("a", 4, 0, 0) "p:32 z:16 p:32", 0, ""},
		{"GGUX 4:3 8:0 8:0", ERR_FORMAT, "header: the file begins with 47 47 55 58"},
		{"GGUF 4:1 8:0 8:0", ERR_UNSUPPORTED, "header: version 1 is not supported"},
		{"GGUF 4:4 8:0 8:0", ERR_UNSUPPORTED, "header: version 4 is not supported"},
		{"GGUF 4:0x3000000 8:0 8:0", ERR_UNSUPPORTED, "header: version 3 in big-endian order"},
		{HEAD(0, 0xffffffffffffffff) FILL, ERR_LIMIT, "header: 18446744073709551615 metadata entries"},
		{HEAD(0, 6) FILL, ERR_LIMIT, "header: 6 metadata entries"},
		{HEAD(0x8000000000000000, 0) FILL, ERR_LIMIT, "header: 9223372036854775808 tensors"},
		{HEAD(2, 0) FILL, ERR_LIMIT, "header: 2 tensors"},
		{HEAD(0, 0) "p:32 z:1", ERR_FORMAT, "bytes after the header belong to no tensor"},
		{HEAD(0, 1) "8:0 " FILL, ERR_LIMIT, "metadata entry 0: a name of 0 bytes"},
		{HEAD(0, 1) "8:0xffffffffffffffff " FILL, ERR_FORMAT,
			"metadata entry 0: 18446744073709551615 bytes are needed"},
		{HEAD(0, 1) "8:1 1:7 " FILL, ERR_FORMAT, "metadata entry 0: byte 0 of its name is 0x07"},
		{HEAD(0, 1) "s:key 4:13 " FILL, ERR_FORMAT, "metadata 'key': value type 13 is not known"},
		{HEAD(0, 1) "s:key 4:10 4:1", ERR_FORMAT, "metadata 'key': 1 values of uint64 do not fit into the 4 bytes"},
		{HEAD(0, 1) "s:key 4:7 1:2", ERR_FORMAT, "metadata 'key': bool 0 is 2"},
		{HEAD(0, 1) "s:key 4:8 8:5 4:0", ERR_FORMAT, "metadata 'key': 5 bytes are needed, the file ends after 4"},
		{HEAD(0, 1) "s:key 4:9 4:4 8:0x4000000000000001 4:0", ERR_FORMAT,
			"metadata 'key': 4611686018427387905 values of uint32 do not fit"},
		{HEAD(0, 1) "s:key 4:9 4:8 8:0x2000000000000001 8:0", ERR_FORMAT,
			"metadata 'key': 2305843009213693953 strings do not fit"},
		{HEAD(0, 1) "s:key 4:9 4:99 8:1 8:0", ERR_FORMAT, "metadata 'key': value type 99"},
		{HEAD(0, 1) "s:key 4:9 4:9 8:0xffffffffffffffff 4:4 8:0", ERR_FORMAT, "metadata 'key': 4 bytes are needed"},
		{HEAD(0, 1) "s:key 4:9 4:9 8:1 4:9 8:1 4:9 8:1 4:9 8:1 4:9 8:1 4:9 8:1", ERR_LIMIT,
			"metadata 'key': lists nested more than 4 deep"},
		{HEAD(0, 2) "s:key 4:0 1:1 s:key 4:0 1:2", ERR_FORMAT, "metadata 'key' occurs twice"},
		{HEAD(0, 1) "s:general.alignment 4:4 4:48", ERR_RANGE,
			"metadata 'general.alignment': expected a power of two, found 48"},
		{HEAD(0, 1) "s:general.alignment 4:4 4:0", ERR_RANGE, "metadata 'general.alignment': expected 1 to"},
		{HEAD(0, 1) "s:general.alignment 4:8 s:32", ERR_FORMAT, "metadata 'general.alignment': expected an integer"},
		{HEAD(1, 0) "8:65 " FILL " z:32", ERR_LIMIT, "tensor 0: a name of 65 bytes"},
		{HEAD(1, 0) "s:a 4:0 8:4 4:0 8:0 " FILL, ERR_LIMIT, "tensor 'a': 0 dimensions"},
		{HEAD(1, 0) "s:a 4:5 " FILL, ERR_LIMIT, "tensor 'a': 5 dimensions"},
		{HEAD(1, 0) ONE("a", 0, 0, 0) FILL, ERR_RANGE, "tensor 'a': a dimension of 0"},
		{HEAD(1, 0) "s:a 4:2 8:0x4000000000000000 8:2 4:0 8:0 " FILL, ERR_RANGE, "tensor 'a': a dimension of 2"},
		{HEAD(1, 0) ONE("a", 0x7fffffffffffffff, 0, 0) FILL, ERR_RANGE,
			"tensor 'a': 9223372036854775807 values are too many"},
		{HEAD(1, 0) ONE("a", 256, 10, 0) FILL, ERR_UNSUPPORTED, "tensor 'a': type Q2_K is not supported"},
		{HEAD(1, 0) ONE("a", 256, 39, 0) FILL, ERR_UNSUPPORTED, "tensor 'a': type MXFP4 is not supported"},
		{HEAD(1, 0) ONE("a", 256, 31, 0) FILL, ERR_UNSUPPORTED, "tensor 'a': type 31 is not known"},
		{HEAD(1, 0) ONE("a", 256, 0xffffffff, 0) FILL, ERR_UNSUPPORTED, "tensor 'a': type 4294967295 is not known"},
		{HEAD(1, 0) ONE("a", 33, 8, 0) FILL, ERR_FORMAT,
			"tensor 'a': rows of 33 values; type Q8_0 needs a multiple of 32"},
		{HEAD(1, 0) ONE("a", 4, 0, 32) "p:32 z:64", ERR_FORMAT,
			"tensor 'a': begins at byte 32 of the data, expected 0"},
		{HEAD(1, 0) ONE("a", 4, 0, 0) "p:32 z:15", ERR_FORMAT,
			"tensor 'a': 16 bytes are needed, the file ends after 15"},
		{HEAD(1, 0) ONE("a", 4, 0, 0), ERR_FORMAT, "padding before the data"},
		{HEAD(1, 0) ONE("a", 4, 0, 0) "p:32 z:33", ERR_FORMAT, "1 bytes after the last tensor belong to none"},
		{HEAD(2, 0) ONE("a", 4, 0, 0) ONE("b", 4, 0, 0) "p:32 z:64", ERR_FORMAT,
			"tensor 'b': begins at byte 0 of the data, expected 32"},
		{HEAD(2, 0) ONE("a", 4, 0, 0) ONE("b", 4, 0, 16) "p:32 z:64", ERR_FORMAT,
			"tensor 'b': begins at byte 16 of the data, expected 32"},
		{HEAD(2, 0) ONE("a", 4, 0, 0) ONE("a", 4, 0, 32) "p:32 z:64", ERR_FORMAT, "tensor 'a' occurs twice"},
	};
	/* Each recipe is a file of one fault; code 0 are the good ones beside
	 * which the fault stands. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err err = {0};
		int rc = open_recipe(cases[i].recipe, &err);
		if (rc != cases[i].code || !strstr(err.text, cases[i].text))
			fail_msg("%s: got %d \"%s\", expected %d with \"%s\"", cases[i].recipe, rc, err.text, cases[i].code,
				cases[i].text);
	}
	struct gguf *g;
	struct err err = {0};
	assert_int_equal(gguf_open("/nonexistent/x.gguf", &g, &err), ERR_NOT_FOUND);
	assert_int_equal(gguf_open("tests", &g, &err), ERR_IO);
}

/* ---- every truncation, random corruption ---- */

/* Reads all that an accepted file hands out; a sanitizer sees what lies outside. */
static void read_everything(const struct gguf *g)
{
	static const char *const keys[] = {
		"n", "words", "numbers", "lists", "yes", "general.architecture", "general.alignment"};
	volatile unsigned total = 0;
	/* Each key by every way of reading it, whatever its kind is. */
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const struct gguf_value *v = gguf_find(g, keys[k]);
		for (uint64_t i = 0; v && v->strings && i < v->count; i++)
			for (size_t b = 0; b < v->strings[i].len; b++) total += (unsigned char)v->strings[i].data[b];
		bool listed = v && v->data && v->element != GGUF_F32 && v->element != GGUF_F64 && v->element != GGUF_BOOL;
		for (uint64_t i = 0; listed && i < v->count; i++) total += (unsigned)gguf_int_at(v, i);
		struct err err;
		int64_t n;
		double d;
		bool yes;
		const char *text;
		gguf_opt_int(g, keys[k], 0, 7, &n, &err);
		gguf_opt_num(g, keys[k], &d, &err);
		gguf_opt_bool(g, keys[k], &yes, &err);
		if (gguf_opt_str(g, keys[k], &text, &err) == 0 && v) total += (unsigned)strlen(text);
	}
	/* Each tensor, unpacked. */
	for (size_t i = 0; i < gguf_count(g); i++) {
		const struct gguf_tensor *t = gguf_at(g, i);
		float *out = malloc(
			(size_t)t->count * sizeof *out); /* bounded by the file: each value takes at least 4 bits of it */
		assert_non_null(out);
		gguf_to_f32(t, out);
		total += out[t->count - 1] > 0;
		free(out);
	}
}

static size_t read_small(struct str *whole)
{
	struct err err = {0};
	char *source = in_folder("small.gguf");
	if (file_read(source, 1 << 16, whole, &err)) fail_msg("%s", err.text);
	free(source);
	return whole->len;
}

static void test_truncation(void **state)
{
	struct str whole = {0};
	size_t len = read_small(&whole), tail = 0;
	struct gguf *g;
	for (size_t cut = 0; cut < len; cut++) {
		struct err err = {0};
		struct made m = make_file(whole.data, cut);
		if (gguf_open(m.path, &g, &err) == 0) {
			tail++; /* the padding behind the last tensor may be missing */
			read_everything(g);
			gguf_close(g);
		} else if (strncmp(err.text, m.path, strlen(m.path)) || !strstr(err.text + strlen(m.path) + 2, ": ")) {
			fail_msg("%zu bytes: \"%s\" does not name file and field", cut, err.text);
		}
		close(m.fd);
	}
	assert_int_equal(tail, 24); /* 'b' has 2 x 20 bytes; 64 - 40 */
	str_release(&whole);
}

static void test_corruption(void **state)
{
	struct str whole = {0};
	size_t len = read_small(&whole);
	struct rng r = {1, 2, 3};
	struct gguf *g;
	int accepted = 0, rounds = 12000;
	for (int round = 0; round < rounds; round++) {
		struct err err = {0};
		char *copy = memcpy(malloc(len), whole.data, len);
		/* One to three bytes are drawn anew, or have a bit flipped, or become 0 or 255. */
		for (uint32_t flips = 1 + rng_below(&r, 3); flips; flips--) {
			size_t at = rng_below(&r, (uint32_t)len);
			uint32_t way = rng_below(&r, 3);
			copy[at] = way == 0 ? (char)rng_next(&r)
				: way == 1      ? (char)(copy[at] ^ 1 << rng_below(&r, 8))
								: (char)(0xff * rng_below(&r, 2));
		}
		struct made m = make_file(copy, len);
		/* Accepted, it can be read to the end; refused, the message names the file. */
		if (gguf_open(m.path, &g, &err) == 0) {
			accepted++;
			read_everything(g);
			gguf_close(g);
		} else if (strncmp(err.text, m.path, strlen(m.path))) {
			fail_msg("round %d: \"%s\" does not name the file", round, err.text);
		}
		close(m.fd);
		free(copy);
	}
	/* Both happen often enough that neither went untested. */
	assert_in_range(accepted, rounds / 50, rounds - rounds / 10);
	str_release(&whole);
}

static int make_fixtures(void **state)
{
	const char *build = getenv("BUILD");
	folder = path_join(build ? build : "build/release", "ref/gguf");
	char command[1024];
	snprintf(command, sizeof command,
		"test %s/small.gguf -nt tests/ref/gguf_oracle.py || env LD_PRELOAD= build/venv/bin/python "
		"tests/ref/gguf_oracle.py %s",
		folder, folder);
	return system(command);
}
static int release(void **state)
{
	free(folder);
	return 0;
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_packings(NULL);
	test_metadata(NULL);
	test_wrong_kinds(NULL);
	test_refusals(NULL);
	test_truncation(NULL);
	test_corruption(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packings),
		cmocka_unit_test(test_metadata),
		cmocka_unit_test(test_wrong_kinds),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_truncation),
		cmocka_unit_test(test_corruption),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, make_fixtures, release);
}
