/* Whether a tape at larger sizes is the judged program: rows and buffers of tapes by hand, and
 * loops of host code that make more turns; texts of kernels that differ in numbers alone, and in
 * more. */
#include "verify/same_program.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define BUFFERS 26
#define ROWS_MAX 32
#define INPUTS 3 /* the buffers a, b and c; the others are made by forward */

/* ---- tapes ---- */

static const char *const KERNELS[] = {
	"tt.func public @k(%x: !tt.ptr<f32>) {\n  tt.return\n}\n",
	"tt.func public @l(%x: !tt.ptr<f32>) {\n  %v = tt.load %x : !tt.ptr<f32>\n  tt.return\n}\n",
};
struct made {
	struct tape tape;
	struct tape_buffer buffers[BUFFERS];
	struct tape_row rows[ROWS_MAX];
	struct tape_arg args[ROWS_MAX][4];
	struct tape_kernel kernels[2];
	struct tape_view output;
};

/* "Kad Lde": a launch of K over the buffers a and d, then one of L over d and e. "Cde": a copy into
 * d of e. The last buffer of the last row is returned. */
static struct made *tape_of(const char *text)
{
	struct made *m = calloc(1, sizeof *m);
	struct tape *t = &m->tape;
	*t = (struct tape){.nbuffers = BUFFERS,
		.buffers = m->buffers,
		.rows = m->rows,
		.nkernels = 2,
		.kernels = m->kernels,
		.noutputs = 1,
		.outputs = &m->output};
	for (int i = 0; i < 2; i++)
		m->kernels[i] = (struct tape_kernel){.ttir = KERNELS[i], .ttir_len = strlen(KERNELS[i])};
	for (int i = 0; i < BUFFERS; i++)
		m->buffers[i] = (struct tape_buffer){.kind = i < INPUTS ? TAPE_INPUT : TAPE_TEMP, .input = i, .bytes = 4};
	/* Each word is a row: its kind, then its buffers. */
	while (*text) {
		struct tape_row *r = &m->rows[t->nrows];
		assert_true(t->nrows < ROWS_MAX);
		r->kind = *text == 'C' ? TAPE_COPY : TAPE_LAUNCH;
		r->kernel = *text++ == 'L';
		r->args = m->args[t->nrows++];
		for (; *text && *text != ' '; text++) {
			r->args[r->nargs++] = (struct tape_arg){.kind = TAPE_ARG_POINTER, .buffer = *text - 'a'};
			m->output.buffer = *text - 'a';
		}
		if (r->kind == TAPE_COPY) {
			r->dst.buffer = r->args[0].buffer;
			r->src.buffer = r->args[1].buffer;
		}
		text += *text == ' ';
	}
	return m;
}

enum is { OTHER, SAME, MORE_TURNS };
static void compared(const char *judged, const char *large, enum is wanted)
{
	struct made *a = tape_of(judged), *b = tape_of(large);
	struct same_program s;
	bool is_same = same_program(&a->tape, &b->tape, &s);
	enum is is = !is_same ? OTHER : s.has_turns ? MORE_TURNS : SAME;
	if (is != wanted) fail_msg("%s, and %s: %d, wanted %d (%s)", judged, large, is, wanted, s.why);
	assert_true(is_same || s.why[0]);
	/* Each row stands for one of its kind. */
	for (int i = 0; is_same && i < b->tape.nrows; i++) assert_int_equal(a->rows[s.row[i]].kernel, b->rows[i].kernel);
	same_program_release(&s);
	free(a);
	free(b);
}

static void test_rows(void **state)
{
	compared("Kad Lde", "Kad Lde", SAME);
	compared("Kad Lde", "Kax Lxy", SAME); /* buffers have other numbers */
	compared("Kad Lde", "Kad Kde", OTHER);
	compared("Kad Lde", "Kbd Lde", OTHER); /* another input */
	compared("Kad Lbe Kdef", "Kad Lbe Kedf", OTHER);
	compared("Kad Lde", "Kad Lee", OTHER); /* one buffer in the place of two */
	compared("Kad Ldd", "Kad Lde", OTHER); /* two in the place of one */
	compared("Kad Lde", "Kad", OTHER);
	compared("Kad", "Kad Lde", OTHER);
	compared("Kad Lde Cfe", "Kad Lde Cfe", SAME);
	compared("Kad Lde Cfe", "Kad Lde Cfd", OTHER);
}

static void test_turns(void **state)
{
	compared("Kad Kad", "Kad Kad Kad Kad", MORE_TURNS);
	compared("Kad", "Kad Kad", OTHER); /* that it is a loop was not judged */
	compared("Kad Kad Kad", "Kad", OTHER);
	compared("Kad Kad", "Kad Kad Lad", OTHER);
	compared("Kad Kad", "Kad Kad Kbd", OTHER);
	/* a state that each turn makes of the last one's */
	compared("Kade Kaef Kafg Lgh", "Kade Kaef Kafg Kagi Kaij Ljk", MORE_TURNS);
	compared("Kade Kaef Kafg Lgh", "Kade Kaef Kafg Kagi Kaij Lak", OTHER);
	/* and the states behind each other afterwards */
	compared("Kade Kaef Kafg Cxe Cxf Cxg", "Kade Kaef Kafg Kagh Cxe Cxf Cxg Cxh", MORE_TURNS);
	/* two buffers in turn */
	compared("Kade Kaed Kade Kaed Ldf", "Kade Kaed Kade Kaed Kade Kaed Ldf", MORE_TURNS);
	/* loops in loops, and one behind another */
	compared("Kad Kad Lde Kad Kad Lde", "Kad Kad Kad Lde Kad Kad Kad Lde Kad Kad Kad Lde", MORE_TURNS);
	compared("Kad Kad Lbe Lbe", "Kad Kad Kad Lbe Lbe Lbe Lbe", MORE_TURNS);
	compared("Kad Kad Lbe Lbe", "Kad Kad Kad Lbe", OTHER);
}

/* ---- texts ---- */

static void texts(const char *judged, const char *large, bool wanted)
{
	struct made *a = tape_of("Kad"), *b = tape_of("Kad");
	struct same_program s;
	a->kernels[0] = (struct tape_kernel){.ttir = judged, .ttir_len = strlen(judged)};
	b->kernels[0] = (struct tape_kernel){.ttir = large, .ttir_len = strlen(large)};
	bool is_same = same_program(&a->tape, &b->tape, &s);
	if (is_same != wanted) fail_msg("%s\nand\n%s\nare %s", judged, large, is_same ? "the same" : "not the same");
	same_program_release(&s);
	free(a);
	free(b);
}

#define FUNC "tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc(\"x\"(#loc)), %n: i32) {\n"
#define RANGE(name, end) \
	"  %" name " = tt.make_range {end = " end " : i32, start = 0 : i32} : tensor<" end "xi32> loc(#loc3)\n"
#define SPLAT(end) "  %p = tt.splat %x : !tt.ptr<f32> -> tensor<" end "x!tt.ptr<f32>>\n"
#define MATH(op, type) "  %s = arith." op " %i, %j : tensor<" type "xi32>\n"
#define STORE(type) "  tt.store %p, %s : tensor<" type "x!tt.ptr<f32>>\n"
#define LOOP "  scf.for %t = %n to %n step %n : i32 {\n"

static void test_texts(void **state)
{
	const char *base = FUNC RANGE("i", "64") RANGE("j", "32") SPLAT("64") MATH("subi", "64") STORE("64") "}\n";
	texts(base, FUNC RANGE("i", "128") RANGE("j", "256") SPLAT("128") MATH("subi", "128") STORE("128") "}\n", true);
	/* other names; no hint about the argument */
	texts(base,
		"tt.func public @k_2(%arg0: !tt.ptr<f32> loc(\"x\"(#loc7)), %n: i32) {\n" RANGE("j", "8")
			RANGE("i", "8") "  %q = tt.splat %arg0 : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n" MATH(
				"subi", "8") "  tt.store %q, %s : tensor<8x!tt.ptr<f32>>\n}\n",
		true);
	/* equal blocks are one */
	texts(
		base, FUNC RANGE("i", "64") SPLAT("64") "  %s = arith.subi %i, %i : tensor<64xi32>\n" STORE("64") "}\n", true);
	/* another operation, another order of operands, another type, twice the store */
	texts(base, FUNC RANGE("i", "64") RANGE("j", "32") SPLAT("64") MATH("addi", "64") STORE("64") "}\n", false);
	const char *mixed = FUNC RANGE("i", "64") "  %j = tt.load %x : i32\n" SPLAT("64") MATH("subi", "64")
		STORE("64") "}\n";
	texts(mixed, FUNC RANGE("i", "32") "  %j = tt.load %x : i32\n" SPLAT("32") MATH("subi", "32") STORE("32") "}\n",
		true);
	texts(mixed, FUNC RANGE("j", "64") "  %i = tt.load %x : i32\n" SPLAT("64") MATH("subi", "64") STORE("64") "}\n",
		false);
	texts(base, FUNC RANGE("i", "64") RANGE("j", "32") SPLAT("64") MATH("subi", "64") STORE("64") STORE("64") "}\n",
		false);
	texts("  %s = tt.reduce %x {axis = 0 : i32} : f32\n", "  %s = tt.reduce %x {axis = 1 : i32} : f32\n", false);
	texts("  %s = tt.load %x : f32\n", "  %s = tt.load %x : f16\n", false);
	texts("  %c = arith.constant 5 : i32\n  tt.store %x, %c : i32\n",
		"  %d = arith.constant 7 : i32\n  tt.store %x, %d : i32\n", true);
	/* behind the loop, and in it */
	texts(FUNC LOOP SPLAT("8") STORE("8") "  }\n}\n", FUNC LOOP SPLAT("16") STORE("16") "  }\n}\n", true);
	texts(FUNC LOOP SPLAT("8") STORE("8") "  }\n}\n", FUNC LOOP SPLAT("8") "  }\n" STORE("8") "}\n", false);
	/* one of two results */
	texts("  %r:2 = tt.call @f(%x) : f32\n  tt.store %x, %r#0 : f32\n",
		"  %r:2 = tt.call @f(%x) : f32\n  tt.store %x, %r#1 : f32\n", false);
}

static void everything(void *ctx)
{
	(void)ctx;
	test_rows(NULL);
	test_turns(NULL);
	test_texts(NULL);
}
static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_turns),
		cmocka_unit_test(test_texts), cmocka_unit_test(test_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
