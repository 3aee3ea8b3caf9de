/* Numbers that are one and the same whatever memory holds (src/vm/check/check_range.c). A row is a
 * few operations on %x, a number that is read, and whether what they make as %r is such a number:
 * by hand, over all finite x. */
#include "body_kernel.h"
#include "vm/check/check.h"
#include "vm/core/program.h"

#define HEAD BODY_HEAD("f32") \
	"%zero = arith.constant 0.0 : f32\n%one = arith.constant 1.0 : f32\n%two = arith.constant 2.0 : f32\n" \
	"%far = arith.constant 9.0 : f32\n%izero = arith.constant 0 : i32\n%ione = arith.constant 1 : i32\n" \
	"%eight = arith.constant 8 : i32\n%x = tt.load %a : !tt.ptr<f32>\n"
#define END "tt.store %b, %r : !tt.ptr<f32>\n"
#define ONE(r, op, x) "%" r " = math." op " %" x " : f32\n"
#define TWO(r, op, x, y) "%" r " = arith." op " %" x ", %" y " : f32\n"
#define MIN0(x) TWO("r", "minnumf", x, "zero")
#define MAX0(x) TWO("r", "maxnumf", x, "zero")
#define SQUARE TWO("s", "mulf", "x", "x")
#define OF_ABS ONE("m", "absf", "x")
#define IF(truth) "%r = arith.select %" truth ", %one, %two : f32\n"

static const struct {
	const char *body;
	bool is_still;
} rows[] = {
	/* Positive by what made it. */
	{ONE("e", "exp", "x") MIN0("e"), true},
	{ONE("e", "exp2", "x") MIN0("e"), true},
	{SQUARE MIN0("s"), true},
	{OF_ABS MIN0("m"), true},
	{OF_ABS TWO("d", "addf", "one", "m") TWO("q", "divf", "one", "d") MIN0("q"), true},
	{OF_ABS TWO("d", "addf", "one", "m") TWO("q", "divf", "x", "d") MIN0("q"), false},
	{TWO("n", "subf", "zero", "x") TWO("s", "mulf", "n", "x") ONE("e", "exp", "s") MIN0("e"), true},
	{ONE("e", "exp", "x") TWO("d", "addf", "one", "e") ONE("l", "log", "d") MIN0("l"), true},
	{ONE("e", "exp", "x") TWO("d", "addf", "one", "e") ONE("l", "log", "d") TWO("n", "subf", "zero", "l") MAX0("n"),
		true},
	{ONE("t", "tanh", "x") TWO("p", "addf", "t", "two") MIN0("p"), true},
	{ONE("t", "tanh", "x") TWO("p", "addf", "t", "one") MIN0("p"), false}, /* a GPU's may be below -1 */
	{ONE("s", "sin", "x") TWO("p", "addf", "s", "two") MIN0("p"), true},
	{ONE("e", "erf", "x") TWO("r", "minnumf", "e", "two"), false},
	{ONE("e", "erf", "x") TWO("r", "maxnumf", "e", "two"), true},
	/* Powers of one number vanish and overflow at different numbers, and even ones have a sign. */
	{SQUARE OF_ABS TWO("t", "mulf", "s", "m") MIN0("t"), true},
	{SQUARE TWO("t", "mulf", "s", "x") ONE("m", "absf", "t") MIN0("m"), true},
	{SQUARE TWO("t", "mulf", "s", "x") TWO("f", "mulf", "x", "t") MIN0("f"), true},
	{SQUARE TWO("t", "mulf", "s", "x") TWO("f", "mulf", "x", "t") MAX0("f"), false},
	{SQUARE TWO("t", "mulf", "s", "x") MIN0("t"), false},
	{SQUARE OF_ABS TWO("h", "mulf", "far", "m") TWO("t", "mulf", "s", "h") MIN0("t"), true},
	{SQUARE OF_ABS TWO("t", "mulf", "s", "m") "%n = arith.negf %t : f32\n" MAX0("n"), true},
	{SQUARE OF_ABS TWO("t", "mulf", "s", "m") "%n = arith.negf %t : f32\n" MIN0("n"), false},
	{SQUARE "%low = arith.constant -3.0 : f32\n" TWO("h", "mulf", "x", "low") TWO("t", "mulf", "h", "x") MAX0("t"),
		true},
	/* Of two numbers one may vanish where the other overflows, and constants bring one there. */
	{SQUARE "%y = tt.load %b : !tt.ptr<f32>\n" ONE("m", "absf", "y") TWO("t", "mulf", "s", "m") MIN0("t"), false},
	{SQUARE "%tiny = arith.constant 1.0e-30 : f32\n" OF_ABS TWO("h", "mulf", "tiny", "m") TWO("t", "mulf", "s", "h")
			MIN0("t"),
		false},
	{SQUARE "%g = scf.for %i = %izero to %eight step %ione iter_args(%acc = %s) -> (f32) : i32 {\n"
			"%next = arith.mulf %acc, %x : f32\nscf.yield %next : f32\n}\n" ONE("m", "absf", "g") MIN0("m"),
		false},
	/* Not by anything but the inputs. */
	{MIN0("x"), false},
	{TWO("p", "addf", "x", "far") MIN0("p"), false},
	{ONE("l", "log", "x") TWO("r", "minnumf", "l", "far"), false},
	{TWO("d", "subf", "x", "x") TWO("r", "mulf", "d", "zero"), false},
	/* A window of what is no number: 0 * (1 / (x - 9)) at 9, and where a
	 * quotient's divisor may be 0. */
	{TWO("d", "subf", "x", "far") TWO("q", "divf", "one", "d") TWO("r", "mulf", "q", "zero"), false},
	{TWO("d", "subf", "x", "far") TWO("m", "mulf", "d", "d") TWO("q", "divf", "one", "m") MIN0("q"), false},
	{SQUARE TWO("p", "mulf", "s", "s") TWO("d", "subf", "p", "p") ONE("m", "absf", "d") MIN0("m"), false},
	{ONE("q", "rsqrt", "x") TWO("r", "minnumf", "q", "zero"), false},
	{ONE("q", "sqrt", "x") TWO("r", "minimumf", "q", "zero"), false}, /* of a negative x it is none */
	/* Truths, and what they choose. */
	{ONE("e", "exp", "x") "%t = arith.cmpf olt, %e, %zero : f32\n" IF("t"), true},
	{ONE("e", "exp", "x") "%t = arith.cmpf ole, %e, %zero : f32\n" IF("t"), false},
	{ONE("e", "exp", "x") "%t = arith.cmpf oge, %e, %zero : f32\n" IF("t"), true},
	{ONE("l", "log", "x") "%t = arith.cmpf ueq, %l, %l : f32\n" IF("t"), false},
	{ONE("l", "log", "x") "%t = arith.cmpf uno, %l, %l : f32\n" IF("t"), false},
	{SQUARE "%t = arith.cmpf olt, %s, %zero : f32\n%u = arith.cmpf olt, %x, %zero : f32\n"
			"%v = arith.andi %t, %u : i1\n" IF("v"),
		true},
	{SQUARE "%t = arith.cmpf olt, %s, %zero : f32\n%u = arith.cmpf olt, %x, %zero : f32\n"
			"%v = arith.ori %t, %u : i1\n" IF("v"),
		false},
	{"%t = arith.cmpf olt, %x, %zero : f32\n%g = arith.sitofp %t : i1 to f32\n" MIN0("g"), false},
	{"%t = arith.cmpf olt, %x, %zero : f32\n%g = arith.uitofp %t : i1 to f32\n" MIN0("g"), true},
	/* Narrow numbers, and ones that grow too large for them. */
	{OF_ABS "%h = arith.truncf %m : f32 to f16\n%w = arith.extf %h : f16 to f32\n" MIN0("w"), true},
	{"%h = arith.truncf %x : f32 to f16\n%w = arith.extf %h : f16 to f32\n" TWO("d", "subf", "w", "w")
			ONE("m", "absf", "d") MIN0("m"),
		false},
	/* Loops: what only grows stays positive, what comes and goes does not. */
	{OF_ABS "%g = scf.for %i = %izero to %eight step %ione iter_args(%acc = %zero) -> (f32) : i32 {\n"
			"%next = arith.addf %acc, %m : f32\nscf.yield %next : f32\n}\n" MIN0("g"),
		true},
	{OF_ABS "%g = scf.for %i = %izero to %eight step %ione iter_args(%acc = %zero) -> (f32) : i32 {\n"
			"%next = arith.subf %acc, %m : f32\nscf.yield %next : f32\n}\n" MIN0("g"),
		false},
	/* Branches meet. */
	{OF_ABS "%t = arith.cmpf olt, %x, %zero : f32\n%g = scf.if %t -> (f32) {\nscf.yield %m : f32\n} else {\n"
			"scf.yield %one : f32\n}\n" MIN0("g"),
		true},
	{OF_ABS "%t = arith.cmpf olt, %x, %zero : f32\n%g = scf.if %t -> (f32) {\nscf.yield %m : f32\n} else {\n"
			"scf.yield %x : f32\n}\n" MIN0("g"),
		false},
};

/* What launches before the reader store at %b, which it has as %a, and what
 * the reader then stores. */
static const struct {
	const char *writers[2];
	const char *reader;
	bool is_still;
} through_memory[] = {
	{{ONE("r", "exp", "x") END}, MIN0("x"), true},
	{{TWO("r", "mulf", "x", "two") END}, MIN0("x"), false},
	{{SQUARE TWO("r", "addf", "s", "one") END}, TWO("d", "subf", "x", "one") MIN0("d"), true},
	{{SQUARE TWO("r", "addf", "s", "one") END}, TWO("d", "subf", "x", "two") MIN0("d"), false},
	/* Both launches leave something there. */
	{{ONE("r", "exp", "x") END, ONE("r", "absf", "x") END}, MIN0("x"), true},
	{{ONE("r", "exp", "x") END, TWO("r", "mulf", "x", "two") END}, MIN0("x"), false},
	{{TWO("r", "mulf", "x", "two") END, ONE("r", "exp", "x") END}, MIN0("x"), false},
	/* A launch reads what it has stored itself: what grows has no end, what does not has one. */
	{{ONE("r", "exp", "x") END
		 "%y = tt.load %b : !tt.ptr<f32>\n" TWO("q", "addf", "y", "one") "tt.store %b, %q : !tt.ptr<f32>\n"},
		MIN0("x"), false},
	{{ONE("r", "exp", "x") END
		 "%y = tt.load %b : !tt.ptr<f32>\n" ONE("q", "absf", "y") "tt.store %b, %q : !tt.ptr<f32>\n"},
		MIN0("x"), true},
	/* Bits of another type, beside numbers and alone; a choice of two places. */
	{{"%bi = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<i32>\ntt.store %bi, %ione : !tt.ptr<i32>\n"}, MIN0("x"), false},
	{{ONE("r", "exp", "x") END "%bi = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<i32>\n"
							   "tt.store %bi, %ione : !tt.ptr<i32>\n"},
		MIN0("x"), false},
	{{ONE("r", "exp", "x") END "%t = arith.cmpf olt, %x, %zero : f32\n%p = arith.select %t, %a, %b : !tt.ptr<f32>\n"
							   "tt.store %p, %x : !tt.ptr<f32>\n"},
		MIN0("x"), false},
	/* It may be no number. */
	{{ONE("r", "log", "x") END}, TWO("d", "subf", "x", "x") MIN0("d"), false},
};

/* Whether the number that the kernel stores is still; held: of its arguments, or NULL. */
static bool stored_is_still(const struct vm_kernel *k, const struct vm_held *held)
{
	const struct vm_program *p = &k->program;
	struct vm_roots *roots = vm_roots_find(k, p);
	bool *still = xcalloc((size_t)p->nvalues + 1, sizeof *still), is = false;
	int stores = 0;
	vm_still_find(p, roots, held, still);
	free(roots);
	for (int i = 0; i < p->ninstrs; i++) {
		if (p->instrs[i].op != OP_STORE) continue;
		is = still[p->ids[p->instrs[i].src + 1]];
		stores++;
	}
	free(still);
	assert_int_equal(stores, 1);
	return is;
}

static void test_still(void **state)
{
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct vm_kernel *k;
		struct err err = {0};
		char *text = xasprintf("%s%s%s%s", HEAD, rows[i].body, END, TAIL);
		if (vm_kernel_create(text, strlen(text), &k, &err)) fail_msg("%s: %s", rows[i].body, err.text);
		bool is = stored_is_still(k, NULL);
		if (is != rows[i].is_still) print_message("# row %zu: %s\n", i, rows[i].body);
		bad += is != rows[i].is_still;
		vm_kernel_free(k);
		free(text);
	}
	assert_int_equal(bad, 0);
}

static struct vm_kernel *kernel_of(const char *body, const char *end)
{
	struct vm_kernel *k;
	struct err err = {0};
	char *text = xasprintf("%s%s%s%s", HEAD, body, end, TAIL);
	if (vm_kernel_create(text, strlen(text), &k, &err)) fail_msg("%s: %s", body, err.text);
	free(text);
	return k;
}

static void test_through_memory(void **state)
{
	enum { ARGS = 4 };
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(through_memory); i++) {
		struct vm_held given = {.state = HELD_ANYTHING}, made = {.state = HELD_NOTHING};
		for (int w = 0; w < 2 && through_memory[i].writers[w]; w++) {
			struct vm_kernel *k = kernel_of(through_memory[i].writers[w], "");
			struct vm_coverage *c = vm_coverage_create(k);
			vm_coverage_held(c, (struct vm_held *const[]){&given, &made, &given, NULL}, ARGS);
			/* What was said once is not said again. */
			bad += vm_coverage_held(c, (struct vm_held *const[]){&given, &made, &given, NULL}, ARGS);
			vm_coverage_free(c);
			vm_kernel_free(k);
		}
		struct vm_kernel *reader = kernel_of(through_memory[i].reader, END);
		bool is = stored_is_still(reader, (struct vm_held[ARGS]){made});
		if (is != through_memory[i].is_still) print_message("# row %zu: %s\n", i, through_memory[i].reader);
		bad += is != through_memory[i].is_still;
		vm_kernel_free(reader);
	}
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_still), cmocka_unit_test(test_through_memory)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
