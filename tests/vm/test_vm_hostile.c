/* Hostile text: every seed of tests/fuzz/ttir/corpus cut at each byte, with bytes flipped, lines
 * deleted, doubled and exchanged, and numbers replaced by extreme ones. Whatever happens,
 * vm_kernel_create returns, and what it accepts runs (with a deadline) without touching memory that
 * is not its own. The sanitizer build of this test is the one that counts. All choices come from
 * fixed seeds. */
#include "hostile_kernel.h"
#include <setjmp.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#define MUTANTS 200
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 20
#else
#define SLOWER 1
#endif

static int accepted, rejected;

static void try_text(const char *text, size_t len)
{
	if (hostile_kernel(text, len)) accepted++;
	else rejected++;
}

static void lines_of(const struct str *s, struct slice *lines, int *n, int max)
{
	*n = 0;
	for (char *p = s->data, *end = s->data + s->len; p < end && *n < max;) {
		char *eol = memchr(p, '\n', (size_t)(end - p));
		char *next = eol ? eol + 1 : end;
		lines[(*n)++] = (struct slice){p, (size_t)(next - p)};
		p = next;
	}
}

static void append_lines(struct str *out, const struct slice *lines, int n)
{
	str_clear(out);
	for (int i = 0; i < n; i++) str_append(out, lines[i].data, lines[i].len);
}

static void flip_bytes(struct str *out, const struct str *s, struct rng *r)
{
	static const char likely[] = "0123456789%#@!<>(){}[]:,=x-\"ifta \n";
	str_clear(out);
	str_append(out, s->data, s->len);
	for (uint32_t k = 0, n = 1 + rng_below(r, 3); k < n; k++)
		out->data[rng_below(r, (uint32_t)out->len)] = rng_below(r, 4) ? likely[rng_below(r, sizeof likely - 1)]
																	  : (char)rng_below(r, 256);
}

static void replace_number(struct str *out, const struct str *s, struct rng *r)
{
	static const char *const numbers[] = {"0", "-1", "1", "2", "2147483647", "-2147483648", "9223372036854775807",
		"1048576", "99999999999999999999", "64", "7", "4096"};
	uint32_t from = rng_below(r, (uint32_t)s->len);
	size_t a = from;
	while (a < s->len && !(s->data[a] >= '0' && s->data[a] <= '9')) a++;
	size_t b = a;
	while (b < s->len && s->data[b] >= '0' && s->data[b] <= '9') b++;
	str_clear(out);
	str_append(out, s->data, a);
	str_puts(out, numbers[rng_below(r, ARRAY_LEN(numbers))]);
	str_append(out, s->data + b, s->len - b);
}

static void move_lines(struct str *out, const struct str *s, struct rng *r, int kind)
{
	static struct slice lines[4096];
	int n;
	lines_of(s, lines, &n, 4000);
	int a = (int)rng_below(r, (uint32_t)n), b = (int)rng_below(r, (uint32_t)n);
	if (kind == 0) {
		memmove(lines + a, lines + a + 1, (size_t)(n - a - 1) * sizeof *lines);
		n--;
	} else if (kind == 1) {
		memmove(lines + a + 1, lines + a, (size_t)(n - a) * sizeof *lines);
		n++;
	} else {
		struct slice t = lines[a];
		lines[a] = lines[b];
		lines[b] = t;
	}
	append_lines(out, lines, n);
}

static int each_seed(void (*fn)(const struct str *s, uint64_t number), int *count);
static void (*seed_fn)(const struct str *, uint64_t);
static int seed_count;

static int one_seed(const char *name, void *ctx)
{
	struct str s = {0};
	struct err err = {0};
	char *path = path_join("tests/fuzz/ttir/corpus", name);
	if (file_read(path, (size_t)1 << 20, &s, &err)) fail_msg("%s", err.text);
	seed_fn(&s, (uint64_t)++seed_count);
	str_release(&s);
	free(path);
	return 0;
}

static int each_seed(void (*fn)(const struct str *s, uint64_t number), int *count)
{
	struct err err = {0};
	seed_fn = fn;
	seed_count = 0;
	int rc = dir_each("tests/fuzz/ttir/corpus", one_seed, NULL, &err);
	*count = seed_count;
	return rc;
}

static void whole(const struct str *s, uint64_t number) { try_text(s->data, s->len); }

static void test_seeds(void **state)
{
	int n;
	accepted = rejected = 0;
	assert_int_equal(each_seed(whole, &n), 0);
	assert_true(n >= 10);
	assert_int_equal(accepted, n);
}

/* Cut at every byte of small seeds, at every seventh of large ones. Where the cut leaves whole
 * functions, the text may still be accepted. */
static void cut(const struct str *s, uint64_t number)
{
	size_t step = s->len > 2500 ? 7 : 1;
	for (size_t len = 0; len < s->len; len += step) try_text(s->data, len);
}

static void test_truncated(void **state)
{
	int n;
	rejected = 0;
	assert_int_equal(each_seed(cut, &n), 0);
	assert_true(rejected > 1000);
}

static void mutate(const struct str *s, uint64_t number)
{
	struct str out = {0};
	for (uint64_t i = 0; i < MUTANTS; i++) {
		struct rng r = {.seed = 42, .stream = number * 1000 + i};
		switch (i % 5) {
		case 0:
		case 1: flip_bytes(&out, s, &r); break;
		case 2: replace_number(&out, s, &r); break;
		default: move_lines(&out, s, &r, (int)rng_below(&r, 3)); break;
		}
		try_text(out.data, out.len);
	}
	str_release(&out);
}

static void test_mutated(void **state)
{
	int n;
	accepted = rejected = 0;
	assert_int_equal(each_seed(mutate, &n), 0);
	print_message("# %d mutants accepted and run, %d rejected\n", accepted, rejected);
	assert_true(accepted > 100 && rejected > 1000);
}

/* Texts that ask for much: each is refused by a named limit. */
static void refuse_repeated(const char *head, const char *piece, int count, const char *tail)
{
	struct str s = {0};
	struct vm_kernel *k = NULL;
	struct err err = {0};
	str_puts(&s, head);
	for (int i = 0; i < count; i++) str_puts(&s, piece);
	str_puts(&s, tail);
	int rc = vm_kernel_create(s.data, s.len, &k, &err);
	if (rc == 0) fail_msg("accepted %d times '%s'", count, piece);
	str_release(&s);
}

static void test_limits(void **state)
{
	refuse_repeated("module { tt.func public @k(%a: ", "!tt.ptr<", 100000, "f32");
	refuse_repeated("module { tt.func public @k() { %x = arith.constant dense<", "[", 100000, "1]> : tensor<1xi32>");
	refuse_repeated("module { tt.func public @k(%c: i1) {", "scf.if %c {", 100000, "");
	refuse_repeated("module { tt.func public @k(%c: i32) {", "%x = arith.addi %c, %c : i32\n", 100000, "tt.return } }");
	refuse_repeated(
		"module { tt.func public @k(%c: i32) { tt.print \"x\" : ", "%c, ", 100000, "%c : i32 tt.return } }");
	refuse_repeated("#l = ", "loc(callsite(", 100000, "unknown");
	refuse_repeated("", "(", 1000000, "");
	refuse_repeated("module { tt.func public @k() attributes {a = ", "[", 1000000, "} { tt.return } }");
}

/* Locations and functions that would take for ever if they were followed without a limit. */
static void test_exponential(void **state)
{
	struct str s = {0};
	str_puts(&s,
		"module { tt.func public @k(%c: i32) { %x = arith.addi %c, %c : i32 loc(#l0)\n tt.call @f0() : () -> ()\n "
		"tt.return } ");
	for (int i = 0; i < 22; i++)
		str_printf(&s, "tt.func private @f%d() { tt.call @f%d() : () -> ()\n tt.call @f%d() : () -> ()\n tt.return } ",
			i, i + 1, i + 1);
	str_puts(&s, "tt.func private @f22() { tt.return } }\n");
	for (int i = 0; i < 60; i++) str_printf(&s, "#l%d = loc(callsite(#l%d at #l%d))\n", i, i + 1, i + 1);
	str_puts(&s, "#l60 = loc(callsite(#l0 at #l60))\n");
	struct vm_kernel *k = NULL;
	struct err err = {0};
	assert_int_equal(vm_kernel_create(s.data, s.len, &k, &err), ERR_LIMIT);
	str_release(&s);
}

/* A loop over scalars: each instruction is one element operation, and the deadline must be seen all
 * the same. Found by fuzzing: a fuel of 2^22 of them took 0.06 s here and seconds under sanitizers.
 * CPU time, because the machine may be busy; the launch's deadline is 2 ms, the rest is what a look
 * at the clock every so often may cost. */
static void test_deadline_of_scalars(void **state)
{
	static const char loop[] =
		"module { tt.func public @k(%a: i32) { %c0 = arith.constant 0 : i32\n %c1 = arith.constant 1 : i32\n"
		" %r = scf.while (%x = %a) : (i32) -> i32 {"
		" %c = arith.cmpi sgt, %x, %c0 : i32\n scf.condition(%c) %x : i32 } do { ^bb0(%y: i32):\n %z = arith.andi %y, "
		"%y : i32\n scf.yield %z : i32 }\n"
		" tt.return } }";
	struct timespec begin, end;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	assert_true(hostile_kernel(loop, sizeof loop - 1));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
	double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
	print_message("# %.3f s\n", seconds);
	assert_true(seconds < 0.03 * SLOWER);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds), cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_mutated), cmocka_unit_test(test_limits), cmocka_unit_test(test_exponential),
		cmocka_unit_test(test_deadline_of_scalars)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
