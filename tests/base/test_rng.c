/* Random numbers and hashes: known answers, and the distributions' first moments. */
#include "base_test.h"
#include <math.h>

/* The known answers of Salmon et al.'s Random123 for philox4x32-10: counter words 0-1 are our
 * index, 2-3 the stream, the key is the seed. */
static void philox_known_answers(void **state)
{
	static const struct {
		uint64_t seed, stream, index;
		uint32_t v[4];
	} rows[] = {
		{0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88, {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rng_block b = rng_philox(rows[i].seed, rows[i].stream, rows[i].index);
		assert_memory_equal(b.v, rows[i].v, sizeof(b.v));
	}
}

static void sequence_equals_the_function(void **state)
{
	struct rng r = {.seed = 5, .stream = 9, .index = 100};
	for (uint64_t i = 0; i < 50; i++) assert_int_equal(rng_next(&r), rng_u32(5, 9, 100 + i));
	assert_int_equal(r.index, 150);
	struct rng u = {.seed = 5, .stream = 9};
	assert_true(rng_next_uniform(&u) == rng_uniform(5, 9, 0));
}

/* Mean of n uniforms has standard deviation 1 / sqrt(12 n), of n normals 1 / sqrt(n), of n squared
 * normals sqrt(2 / n). Seeds are fixed, so the test cannot flicker; six standard deviations is what
 * a wrong formula misses by far. */
static void moments(void **state)
{
	enum { N = 200000 };
	double sum = 0, normal = 0, square = 0;
	for (uint64_t i = 0; i < N; i++) {
		float u = rng_uniform(1, 2, i), z = rng_normal(1, 3, i);
		assert_true(u >= 0 && u < 1);
		assert_true(isfinite(z));
		sum += u;
		normal += z;
		square += (double)z * z;
	}
	assert_true(fabs(sum / N - 0.5) < 6 / sqrt(12.0 * N));
	assert_true(fabs(normal / N) < 6 / sqrt(N));
	assert_true(fabs(square / N - 1) < 6 * sqrt(2.0 / N));
}

/* Box and Muller's transform of the first two words of the known answers above. */
static void normals_are_the_transform(void **state)
{
	static const struct {
		uint64_t seed;
		uint64_t stream;
		uint64_t index;
		double first;
		double second;
	} rows[] = {
		{0, 0, 0, 0x6627e8d5, 0xe169c58d},
		{UINT64_MAX, UINT64_MAX, UINT64_MAX, 0x408f276d, 0x41c83b0e},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		double u = (rows[i].first + 1) / 4294967296.0, turn = rows[i].second / 4294967296.0;
		float z = rng_normal(rows[i].seed, rows[i].stream, rows[i].index);
		assert_true(fabs(z - sqrt(-2 * log(u)) * cos(2 * M_PI * turn)) < 1e-6);
	}
}

static void below_is_in_range_and_even(void **state)
{
	struct rng r = {.seed = 3};
	static const uint32_t sizes[] = {1, 2, 3, 7, 1000, 0x80000001, UINT32_MAX};
	for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
		for (int i = 0; i < 1000; i++) assert_true(rng_below(&r, sizes[s]) < sizes[s]);
	enum { N = 70000, CELLS = 7 };
	int seen[CELLS] = {0};
	for (int i = 0; i < N; i++) seen[rng_below(&r, CELLS)]++;
	/* Binomial(N, 1/7): standard deviation sqrt(N 6/49) = 93; six of them. */
	for (int c = 0; c < CELLS; c++) assert_true(abs(seen[c] - N / CELLS) < 6 * 93);
	/* For n = 2^31 + 1 the plain high product would give every result but one with probability
	 * 2^-31, low half and high half alike; a missing rejection shows only in which draws are taken:
	 * nearly half of them are rejected, so about 2 N words are used. */
	struct rng big = {.seed = 4};
	for (int i = 0; i < 10000; i++) rng_below(&big, 0x80000001u);
	assert_true(big.index > 19000 && big.index < 21000);
}

/* Each item at each place: of 5 items in 50,000 orders about 10,000 times, within six standard
 * deviations of 89; and the items are what they were. */
static void shuffle_is_fair(void **state)
{
	enum { N = 5, ROUNDS = 50000 };
	struct rng r = {.seed = 5};
	int seen[N][N] = {{0}};
	for (int k = 0; k < ROUNDS; k++) {
		int64_t items[N];
		int all = 0;
		for (int i = 0; i < N; i++) items[i] = i;
		rng_shuffle(&r, items, N, sizeof *items);
		for (int i = 0; i < N; i++) {
			all |= 1 << items[i];
			seen[items[i]][i]++;
		}
		assert_int_equal(all, (1 << N) - 1);
	}
	for (int i = 0; i < N; i++)
		for (int k = 0; k < N; k++) assert_true(abs(seen[i][k] - ROUNDS / N) < 6 * 89);
	rng_shuffle(&r, NULL, 0, sizeof(int));
}

static void do_below_zero(void)
{
	struct rng r = {0};
	rng_below(&r, 0);
}

static void below_zero_aborts(void **state) { assert_true(aborts(do_below_zero)); }

/* FIPS 180-4 examples and the million a's. */
static void sha256_known_answers(void **state)
{
	assert_string_equal(hash_bytes("", 0).text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_string_equal(hash_bytes(NULL, 0).text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	assert_string_equal(hash_bytes("abc", 3).text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(hash_bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56).text,
		"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	char *million = xmalloc(1000000);
	memset(million, 'a', 1000000);
	assert_string_equal(
		hash_bytes(million, 1000000).text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(million);
}

static void parts_are_not_a_concatenation(void **state)
{
	struct slice a[] = {{"ab", 2}, {"c", 1}}, b[] = {{"a", 1}, {"bc", 2}}, c[] = {{"abc", 3}},
				 d[] = {{"abc", 3}, {NULL, 0}};
	struct sha256_hex h[] = {
		hash_parts(a, 2), hash_parts(b, 2), hash_parts(c, 1), hash_parts(d, 2), hash_parts(NULL, 0)};
	for (size_t i = 0; i < ARRAY_LEN(h); i++)
		for (size_t j = i + 1; j < ARRAY_LEN(h); j++) assert_string_not_equal(h[i].text, h[j].text);
	/* The length is 8 little-endian bytes. */
	assert_string_equal(hash_parts(c, 1).text, hash_bytes("\3\0\0\0\0\0\0\0abc", 11).text);
}

/* "ba7816bf...", by the example above. */
static void a_place_is_the_first_bits(void **state)
{
	struct sha256_hex h = hash_bytes("abc", 3);
	assert_int_equal(hash_place(&h, UINT32_MAX), 0xba7816bf);
	assert_true(hash_share(&h) == 0xba7816bf / 4294967296.0);
	assert_int_equal(hash_place(&h, 4096), 0x6bf);
	assert_int_equal(hash_place(&h, 1000), 0xba7816bf % 1000);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(philox_known_answers),
	cmocka_unit_test(sequence_equals_the_function),
	cmocka_unit_test(moments),
	cmocka_unit_test(normals_are_the_transform),
	cmocka_unit_test(below_is_in_range_and_even),
	cmocka_unit_test(shuffle_is_fair),
	cmocka_unit_test(below_zero_aborts),
	cmocka_unit_test(sha256_known_answers),
	cmocka_unit_test(parts_are_not_a_concatenation),
	cmocka_unit_test(a_place_is_the_first_bits),
};
TAP_MAIN(tests)
