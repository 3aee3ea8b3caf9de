/* Answers in IR: what a head says at given sizes, what is refused with its line, and that the tapes
 * of an answer give the answer back. */
#include "tape/tape.h"
#include "tape/tape_ir.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define MODULE(name) "module {\n  tt.func public @" name "(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) " \
	"attributes {noinline = false} {\n    %c1024_i32 = arith.constant 1024 : i32\n    %y = scf.for %i = %a to %b " \
	"step %c " \
	"-> (i32) : i32 {\n      scf.yield %i : i32\n    }\n    tt.return\n  }\n}\n"
static const char ADD[] = "// input x0 f32[M, N]\n// input x1 f32[M, N]\n// param p2 fc.bias f32[N]\n"
						  "// output y3 f32[M, N]\n// temp t4 f32[M * N]\n// fill y3 0\n"
						  "// launch add[cdiv(M * N, 1024)](x0, x1, t4, M * N, 0.5) warps=8\n"
						  "// launch bias[M, 7](t4, p2, y3, N) stages=2\n" MODULE("add") MODULE("bias");

/* Two inputs [m, n] and a parameter [n]; step: of the first input's rows, 0: dense. */
struct given {
	struct tape_ir_tensor inputs[2];
	struct tape_ir_tensor param;
	struct tape_ir_sizes sizes;
};
static void given_make(struct given *g, int64_t m, int64_t n, int64_t step)
{
	struct tape_ir_tensor t = {.dtype = DTYPE_F32, .ndim = 2, .shape = {m, n}, .stride = {n, 1}};
	*g = (struct given){
		.inputs = {t, t}, .param = {.name = "fc.bias", .dtype = DTYPE_F32, .ndim = 1, .shape = {n}, .stride = {1}}};
	if (step) g->inputs[0].stride[0] = step;
	g->sizes = (struct tape_ir_sizes){2, g->inputs, 1, &g->param};
}

static int read_text(const char *text, const struct given *g, struct tape **t, int *line, struct err *err)
{
	struct str tape = {0};
	int rc = tape_ir_read(text, strlen(text), &g->sizes, &tape, line, err);
	if (!rc) rc = tape_parse(tape.data, tape.len, t, err);
	str_release(&tape);
	return rc;
}

static struct tape *read_good(const char *text, const struct given *g)
{
	struct tape *t = NULL;
	struct err err = {0};
	int line = 0;
	if (read_text(text, g, &t, &line, &err)) fail_msg("%s", err.text);
	return t;
}

static void test_head(void **state)
{
	struct given g;
	given_make(&g, 3, 1000, 0);
	struct tape *t = read_good(ADD, &g);
	assert_int_equal(t->nbuffers, 5);
	assert_int_equal(t->buffers[1].bytes, 12000);
	assert_string_equal(t->buffers[2].name, "fc.bias");
	assert_int_equal(t->buffers[2].bytes, 4000);
	assert_int_equal(t->buffers[4].bytes, 12000);
	assert_int_equal(t->noutputs, 1);
	assert_int_equal(t->outputs[0].buffer, 3);
	assert_int_equal(t->outputs[0].shape[1], 1000);
	assert_int_equal(t->rows[0].kind, TAPE_FILL);
	const struct tape_row *add = &t->rows[1], *bias = &t->rows[2];
	assert_int_equal(add->line, 7);
	assert_int_equal(add->grid[0], 3); /* 3,000 elements in blocks of 1,024 */
	assert_int_equal(add->nargs, 5);
	assert_int_equal(add->args[2].buffer, 4);
	assert_int_equal(add->args[3].i, 3000);
	assert_true(add->args[4].kind == TAPE_ARG_FLOAT && add->args[4].f == 0.5);
	assert_int_equal(bias->grid[0], 3);
	assert_int_equal(bias->grid[1], 7);
	assert_int_equal(t->kernels[add->kernel].num_warps, 8);
	assert_int_equal(t->kernels[add->kernel].num_stages, 3);
	assert_int_equal(t->kernels[bias->kernel].num_stages, 2);
	assert_string_equal(t->kernels[bias->kernel].name, "bias");
	/* Operations have the answer's lines; what opens a region has none yet. The second
	 * module begins at line 18. */
	const char *ir = t->kernels[bias->kernel].ttir;
	assert_non_null(strstr(ir, "arith.constant 1024 : i32 loc(\"candidate.py\":20:1)\n"));
	assert_non_null(strstr(ir, "-> (i32) : i32 {\n"));
	assert_non_null(strstr(ir, "} loc(\"candidate.py\":23:1)\n"));
	tape_free(t);
}

static void test_other_sizes(void **state)
{
	struct given g;
	struct tape *t = NULL;
	struct err err = {0};
	int line = 0;
	given_make(&g, 5, 2048, 0);
	t = read_good(ADD, &g);
	assert_int_equal(t->rows[1].grid[0], 10);
	assert_int_equal(t->rows[1].args[3].i, 5 * 2048);
	tape_free(t);
	/* A number in the head is a size that the answer is for. */
	static const char fixed[] =
		"// input x0 f32[M, 16]\n// input x1 f32[M, 16]\n// output y f32[M]\n// launch k[1](y)\n" MODULE("k");
	given_make(&g, 3, 16, 0);
	tape_free(read_good(fixed, &g));
	given_make(&g, 3, 17, 0);
	assert_int_equal(read_text(fixed, &g, &t, &line, &err), ERR_RANGE);
	assert_int_equal(line, 1);
	assert_non_null(strstr(err.text, "line 1: it is for the size 16 in dimension 1, here it is 17"));
	/* So is a name that two dimensions have. */
	static const char square[] =
		"// input x0 f32[M, M]\n// input x1 f32[M, M]\n// output y f32[M]\n// launch k[1](y)\n" MODULE("k");
	assert_int_equal(read_text(square, &g, &t, &line, &err), ERR_RANGE);
	given_make(&g, 16, 16, 0);
	tape_free(read_good(square, &g));
}

/* What the caller has with other strides is copied, and the kernel gets the copy. */
static void test_strided(void **state)
{
	struct given g;
	given_make(&g, 3, 8, 20);
	struct tape *t = read_good("// input x0 f32[M, N]\n// input x1 f32[M, N]\n// output y f32[M, N]\n"
							   "// launch k[1](x0 + N, x1, y)\n" MODULE("k"),
		&g);
	assert_int_equal(t->buffers[0].bytes, (2 * 20 + 8) * 4);
	assert_int_equal(t->rows[0].kind, TAPE_COPY);
	assert_int_equal(t->rows[0].src.buffer, 0);
	assert_int_equal(t->rows[0].src.stride[0], 20);
	assert_int_equal(t->rows[1].args[0].buffer, t->rows[0].dst.buffer);
	assert_int_equal(t->rows[1].args[0].offset_bytes, 32);
	assert_int_equal(t->rows[1].args[1].buffer, 1);
	tape_free(t);
}

static void test_expressions(void **state)
{
	static const struct {
		const char *text;
		int64_t value;
	} rows[] = {{"M + N * 2", 19}, {"(M + N) * 2", 24}, {"N - M - 1", 1}, {"N - (M - 1)", 3}, {"-M + 20", 15},
		{"N / 2", 3}, {"(M - N) / 2", -1}, {"(M - N) % 3", 1}, {"cdiv(N, 2)", 4}, {"cdiv(M - N, 3)", 0},
		{"min(M, N) + max(M, N)", 12}, {"next_pow2(M) * 100 + next_pow2(1)", 801}, {"9223372036854775807", INT64_MAX}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct given g;
		given_make(&g, 5, 7, 0);
		char *text = xasprintf(
			"// input x0 f32[M, N]\n// input x1 f32[M, N]\n// output y f32[M]\n// launch k[1](y, %s)\n%s", rows[i].text,
			MODULE("k"));
		struct tape *t = read_good(text, &g);
		if (t->rows[0].args[1].i != rows[i].value)
			fail_msg("%s is %lld", rows[i].text, (long long)t->rows[0].args[1].i);
		tape_free(t);
		free(text);
	}
}

/* As many signs as an answer likes: they take no stack. */
static void test_many_signs(void **state)
{
	enum { SIGNS = 1000001 };
	struct given g;
	char *signs = xmalloc(SIGNS + 1);
	given_make(&g, 5, 7, 0);
	memset(signs, '-', SIGNS);
	signs[SIGNS] = 0;
	char *text = xasprintf(
		"// input x0 f32[M, N]\n// input x1 f32[M, N]\n// output y f32[M]\n// launch k[1](y, %sM)\n%s", signs,
		MODULE("k"));
	struct tape *t = read_good(text, &g);
	assert_int_equal(t->rows[0].args[1].i, -5);
	tape_free(t);
	free(text);
	free(signs);
}

#define TWO "// input x0 f32[M, N]\n// input x1 f32[M, N]\n"
static void test_refusals(void **state)
{
	static const struct {
		const char *text;
		const char *said;
	} rows[] = {
		{"// hello\n" MODULE("k"), "line 1: expected input, param"},
		{"// input x0 f16[M, N]\n" MODULE("k"), "line 1: the input is float32"},
		{"// input x0 f31[M, N]\n" MODULE("k"), "line 1: f31 is no element type"},
		{TWO "// input x2 f32[M]\n" MODULE("k"), "line 3: forward is given 2 tensors"},
		{"// input x0 f32[M, N]\n// output y f32[M]\n" MODULE("k"), "the head has 1 inputs"},
		{TWO MODULE("k"), "the head has no output"},
		{TWO "// output x1 f32[M]\n" MODULE("k"), "line 3: x1 is named twice"},
		{TWO "// param p bias f32[M]\n" MODULE("k"), "line 3: the module has no parameter \"bias\""},
		{TWO "// output y f32[Q]\n" MODULE("k"), "line 3: Q is no size"},
		{TWO "// output y f32[M * x0]\n" MODULE("k"), "x0 is no size"},
		{TWO "// output y f32[M - 9]\n" MODULE("k"), "more elements than a buffer may have"},
		{TWO "// output y f32[M\n" MODULE("k"), "line 3: expected ','"},
		{TWO "// output y f32[M]\n// launch q[1](y)\n" MODULE("k"), "line 4: no module below has a public function @q"},
		{TWO "// output y f32[M]\n// launch k[1](y, z)\n" MODULE("k"), "line 4: z is no size"},
		{TWO "// output y f32[M]\n// launch k[1](y + 99)\n" MODULE("k"), "lies outside of it"},
		{TWO "// output y f32[M]\n// launch k[1](y) threads=4\n" MODULE("k"), "threads is no option"},
		{TWO "// output y f32[M]\n// launch k[1, 1, 1, 1](y)\n" MODULE("k"), "expected ']'"},
		{TWO "// output y f32[M]\n// launch k[M / 0](y)\n" MODULE("k"), "division by zero"},
		{TWO "// output y f32[M]\n// launch k[9223372036854775807 + M](y)\n" MODULE("k"), "more than 64 bits"},
		{TWO "// output y f32[M]\n// fill z 0\n" MODULE("k"), "z is no memory"},
		{TWO "// output y f32[M]\n// fill y 0 1\n" MODULE("k"), "behind the line's end"},
		{TWO "// output y f32[M]\n// launch k[1](y)\n", "no module stands behind the head"},
		{TWO "// output y f32[M]\n// launch k[1](y)\nimport torch\n" MODULE("k"),
			"line 5: expected a line of the head, or a module"},
		{TWO "// output y f32[M]\n// launch k[1](y)\n" MODULE("k") MODULE("k"), "line 14: a second @k"},
		{TWO "// output y f32[M]\n// launch k[1](y)\nmodule {\n}\n", "line 5: this module has no \"tt.func public"},
		{TWO "// output y f32[M]\n// launch k[1](y)\nmodule {\n  tt.func public @k() {\n    tt.return loc(\"x\":1:1)\n "
			 " }\n}\n",
			"line 7: locations are not written"},
		{TWO "// output y f32[M]\n// launch k[1](y)\nmodule {\n  tt.func public @k(%x: i32 loc (\"x\":1:1)) {\n    "
			 "tt.return\n  }\n}\n",
			"line 6: locations are not written"},
		{TWO "// output y f32[0, 4611686018427387904, 4]\n" MODULE("k"), "more elements than a buffer may have"},
	};
	/* The line that is returned is the one that the message begins with. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct given g;
		struct tape *t = NULL;
		struct err err = {0};
		int line = 0;
		given_make(&g, 3, 4, 0);
		int rc = read_text(rows[i].text, &g, &t, &line, &err);
		if (rc != ERR_FORMAT || !strstr(err.text, rows[i].said))
			fail_msg("row %zu: code %d, \"%s\", expected \"%s\"", i, rc, err.text, rows[i].said);
		char where[16];
		snprintf(where, sizeof where, "line %d: ", line);
		assert_memory_equal(err.text, where, strlen(where));
	}
}

/* Launches and fills are bounded together. */
static void test_many_fills(void **state)
{
	struct given g;
	struct tape *t = NULL;
	struct err err = {0};
	struct str text = {0};
	int line = 0;
	given_make(&g, 3, 4, 0);
	str_puts(&text, TWO "// output y f32[M]\n");
	for (int i = 0; i < 257; i++) str_puts(&text, "// fill y 0.5\r\n");
	str_puts(&text, MODULE("k"));
	assert_int_equal(read_text(text.data, &g, &t, &line, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "line 260: more than 256 launches and fills"));
	str_release(&text);
}

/* A comment may stand behind an operation, and slashes in a string. */
static void test_comments(void **state)
{
	struct given g;
	given_make(&g, 3, 4, 0);
	struct tape *t = read_good(TWO
		"//\n// output y f32[M]\n// launch k[1](y)\n\nmodule {\n  tt.func public @k(%x: i32) "
		"attributes {noinline = false} {\n  ^bb1(%a: i32):  // no predecessors\n    "
		"tt.print \"a // b\" : %x : i32 // said\n\n    tt.return\n  }\n}\n",
		&g);
	assert_non_null(strstr(t->kernels[0].ttir, "\n  ^bb1(%a: i32):\n"));
	assert_non_null(strstr(t->kernels[0].ttir, "\n    tt.print \"a // b\" : %x : i32 loc(\"candidate.py\":10:1)\n"));
	assert_non_null(strstr(t->kernels[0].ttir, "\n    tt.return loc(\"candidate.py\":12:1)\n"));
	tape_free(t);
}

static void test_is(void **state)
{
	assert_true(tape_ir_is(ADD, strlen(ADD)));
	assert_true(tape_ir_is("\n  // input", 11));
	assert_false(tape_ir_is("/", 1));
	assert_false(tape_ir_is("# // input", 10));
	assert_false(tape_ir_is("", 0));
}

/* Tapes at three sizes give back the answer that they came from; one alone gives numbers. */
static void test_write(void **state)
{
	struct given g[3];
	struct tape_ir_seen seen[3];
	struct str out = {0};
	struct err err = {0};
	const int64_t m[] = {3, 2, 5}, n[] = {1500, 1200, 2000};
	for (int i = 0; i < 3; i++) {
		given_make(&g[i], m[i], n[i], 0);
		seen[i] = (struct tape_ir_seen){g[i].sizes, read_good(ADD, &g[i])};
	}
	assert_int_equal(tape_ir_write(seen, 3, &out, &err), 0);
	/* Divisors of integers are no part of it; there are none in ADD. */
	if (strncmp(out.data, ADD, strchr(ADD, 'y') - ADD)) fail_msg("%s", out.data);
	/* The second module's text has the same lines in other places, which is
	 * nothing that the text shows. */
	assert_string_equal(strstr(out.data, "module {"), strstr(ADD, "module {"));
	for (int i = 0; i < 3; i++) {
		struct tape *again = read_good(out.data, &g[i]);
		assert_string_equal(tape_program_hash(again).text, tape_program_hash(seen[i].tape).text);
		tape_free(again);
	}
	assert_non_null(strstr(out.data, "// launch add[cdiv(M * N, 1024)](x0, x1, t4, M * N, 0.5) warps=8\n"));
	str_clear(&out);
	assert_int_equal(tape_ir_write(seen, 1, &out, &err), 0);
	assert_non_null(strstr(out.data, "// input x0 f32[3, 1500]\n"));
	assert_non_null(strstr(out.data, "// launch add[5](x0, x1, t4, 4500, 0.5) warps=8\n"));
	/* Other kernels at the last size: there is no form for all three, and none is made of two. */
	static const char OTHER[] = "// input x0 f32[M, N]\n// input x1 f32[M, N]\n// output y2 f32[M]\n"
								"// launch k[1](y2)\n" MODULE("k");
	tape_free((struct tape *)(uintptr_t)seen[2].tape);
	seen[2].tape = read_good(OTHER, &g[2]);
	str_clear(&out);
	assert_int_equal(tape_ir_write(seen, 3, &out, &err), 0);
	assert_non_null(strstr(out.data, "// input x0 f32[3, 1500]\n"));
	for (int i = 0; i < 3; i++) tape_free((struct tape *)(uintptr_t)seen[i].tape);
	str_release(&out);
}

/* An integer's divisor follows from one size and is wrong at others; a pointer's stays.
 * Locations and their table go.
 */
static void test_write_strips(void **state)
{
	/* A kernel with locations everywhere, one of them a name with a bracket, on a tape of one
	 * launch. */
	static const char text[] =
		"#loc = loc(\\\"f.py\\\":1:1)\\nmodule {\\n  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = "
		"16 : i32} loc(\\\"x\\\"(#loc)), %n: i32 {tt.divisibility = 16 : i32} loc(\\\"n(\\\"(#loc))) attributes "
		"{noinline = false} {\\n    tt.return loc(#loc2)\\n  } loc(#loc)\\n} loc(#loc)\\n#loc2 = loc(unknown)\\n";
	char *tape = xasprintf(
		"{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", "
		"\"bytes\": 64}], \"kernels\": [{\"name\": \"k\", \"ttir\": \"%s\", \"num_warps\": 4, \"num_stages\": 3, "
		"\"num_ctas\": 1, \"configs\": 1}], \"rows\": [{\"op\": \"launch\", \"line\": 9, \"kernel\": 0, \"grid\": "
		"[1, 1, 1], \"args\": [{\"buffer\": 1, \"offset\": 0}, {\"int\": 16}]}], \"outputs\": [{\"buffer\": 1, "
		"\"offset\": 0, \"dtype\": \"float32\", \"shape\": [16], \"stride\": [1]}], \"tuple\": false}",
		text);
	struct tape *t = NULL;
	struct err err = {0};
	struct str out = {0};
	if (tape_parse(tape, strlen(tape), &t, &err)) fail_msg("%s", err.text);
	/* Written from one trace: the integer's divisor goes, since 16 is this size's. */
	struct tape_ir_tensor x = {.dtype = DTYPE_F32, .ndim = 1, .shape = {16}, .stride = {1}};
	struct tape_ir_seen seen = {{1, &x, 0, NULL}, t};
	assert_int_equal(tape_ir_write(&seen, 1, &out, &err), 0);
	assert_string_equal(out.data,
		"// input x0 f32[16]\n// output y1 f32[16]\n// launch k[1](y1, 16)\nmodule {\n  tt.func public @k(%x: "
		"!tt.ptr<f32> "
		"{tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {\n    tt.return\n  }\n}\n");
	tape_free(t);
	str_release(&out);
	free(tape);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_head(NULL);
	test_other_sizes(NULL);
	test_strided(NULL);
	test_expressions(NULL);
	test_many_signs(NULL);
	test_refusals(NULL);
	test_many_fills(NULL);
	test_comments(NULL);
	test_is(NULL);
	test_write(NULL);
	test_write_strips(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_head), cmocka_unit_test(test_other_sizes),
		cmocka_unit_test(test_strided), cmocka_unit_test(test_expressions), cmocka_unit_test(test_many_signs),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_many_fills), cmocka_unit_test(test_comments),
		cmocka_unit_test(test_is), cmocka_unit_test(test_write), cmocka_unit_test(test_write_strips),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
