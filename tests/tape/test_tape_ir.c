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
static const char ADD[] = "// input x0 f32[M, N]\n// input x1 f32[M, N]\n// param p2 fc.0.bias f32[N]\n"
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
		.inputs = {t, t}, .param = {.name = "fc.0.bias", .dtype = DTYPE_F32, .ndim = 1, .shape = {n}, .stride = {1}}};
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
	assert_string_equal(t->buffers[2].name, "fc.0.bias");
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
		{TWO "// output y f32[M]\n// launch k[1](y + M / 0)\n" MODULE("k"), "division by zero"},
		{TWO "// output y f32[M]\n// launch k[1](M / 0)\n" MODULE("k"), "division by zero"},
		{TWO "// output y f32[M]\n// launch k[1](y) threads=4\n" MODULE("k"), "threads is no option"},
		{TWO "// output y f32[M]\n// launch k[1, 1, 1, 1](y)\n" MODULE("k"), "expected ']'"},
		{TWO "// output y f32[M]\n// launch k[M / 0](y)\n" MODULE("k"), "division by zero"},
		{TWO "// output y f32[M]\n// launch k[9223372036854775807 + M](y)\n" MODULE("k"), "more than 64 bits"},
		{TWO "// output y f32[M]\n// launch k[(-9223372036854775807 - 1) / -1](y)\n" MODULE("k"), "more than 64 bits"},
		{TWO "// output y f32[M]\n// launch k[(-9223372036854775807 - 1) % -1](y)\n" MODULE("k"), "more than 64 bits"},
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

/* Each form that a number can have comes back from three sizes as it was written; a product before
 * a power or a sum, the fewest names first, blocks that the kernel has before others. */
static void test_write_forms(void **state)
{
	static const char *const args[] = {"M", "M * N", "M * 3", "N * 7", "M * N * 2", "cdiv(N, 64)", "cdiv(M * N, 256)",
		"M * cdiv(N, 256)", "next_pow2(N)", "next_pow2(M)", "M + 7", "N - 2", "N + 1", "12", "0", "-5", "x0 + N",
		"x1 + 8", "2.0", "1.0000000000000001e-05", "1e+22", "-0.5", "inf"};
	static const char *const grids[] = {"cdiv(M, 1024)", "2, cdiv(M, 1024), 3", "M, N", "cdiv(M, 1024), cdiv(N, 1024)",
		"cdiv(N, 1024), cdiv(M, 1024), M * 2"};
	struct given g[3];
	struct tape_ir_seen seen[3];
	struct str text = {0}, out = {0};
	struct err err = {0};
	const int64_t m[] = {3, 2, 5}, n[] = {1500, 900, 2100};
	/* One answer with a launch for each grid and all arguments in each. */
	str_printf(&text,
		"%s// param p2 fc.0.bias f32[N]\n// output y3 f16[M, N, 5]\n// temp t4 f32[M * 6]\n// fill y3 0.5\n",
		"// input x0 f32[M, N]\n// input x1 f32[M, N]\n");
	for (size_t i = 0; i < ARRAY_LEN(grids); i++) {
		str_printf(&text, "// launch k[%s](y3, p2, t4 + 2, y3 + 6", grids[i]);
		for (size_t a = 0; a < ARRAY_LEN(args); a++) str_printf(&text, ", %s", args[a]);
		str_printf(
			&text, ")%s\n", (const char *const[]){"", " warps=8", " stages=1", " ctas=2", " warps=1 stages=5"}[i]);
	}
	str_puts(&text, "// fill t4 0\n");
	/* Each launch has options of its own, and so a kernel: one form of each name can be said. */
	struct tape *whole[3];
	for (int i = 0; i < 3; i++) {
		given_make(&g[i], m[i], n[i], 0);
		char *first = text.data, *answer;
		for (int k = 0; (first = strstr(first, "launch k[")); k++) first[7] = (char)('a' + k);
		answer = xasprintf("%s%s%s%s%s%s", text.data, MODULE("a"), MODULE("b"), MODULE("c"), MODULE("d"), MODULE("e"));
		whole[i] = read_good(answer, &g[i]);
		seen[i] = (struct tape_ir_seen){g[i].sizes, whole[i]};
		free(answer);
	}
	if (tape_ir_write(seen, 3, &out, &err)) fail_msg("%s", err.text);
	/* Line by line, up to the modules. */
	const char *want = text.data, *found = out.data;
	while (*want) {
		size_t a = strcspn(want, "\n") + 1, b = strcspn(found, "\n") + 1;
		if (a != b || memcmp(want, found, a)) fail_msg("expected %.*sfound %.*s", (int)a, want, (int)b, found);
		want += a;
		found += b;
	}
	assert_memory_equal(found, "module {", 8);
	for (int i = 0; i < 3; i++) tape_free(whole[i]);
	str_release(&text);
	str_release(&out);
}

/* A dimension of each of eight sizes has a name; a ninth has none, and the
 * answer is for one size. */
static void test_write_names(void **state)
{
	for (int ndim = 8; ndim <= 9; ndim++) {
		struct tape_ir_tensor x[2];
		struct tape_ir_seen seen[2];
		struct tape *t[2];
		struct str out = {0}, tape = {0};
		struct err err = {0};
		int line = 0;
		for (int i = 0; i < 2; i++) {
			x[i] = (struct tape_ir_tensor){.dtype = DTYPE_I8, .ndim = ndim};
			/* Sizes that pair off otherwise for each dimension. */
			static const int64_t other[9] = {1, 2, 3, 1, 2, 3, 1, 2, 3}, pairs[9] = {2, 3, 1, 3, 1, 2, 4, 4, 4};
			for (int d = 0; d < ndim; d++) x[i].shape[d] = i ? pairs[d] : other[d];
			for (int d = ndim - 1, step = 1; d >= 0; step *= (int)x[i].shape[d--]) x[i].stride[d] = step;
			struct tape_ir_sizes sizes = {1, &x[i], 0, NULL};
			char text[200] = "// input x0 i8[";
			for (int d = 0; d < ndim; d++) snprintf(text + strlen(text), 8, "%s%c", d ? ", " : "", 'a' + d);
			char *answer = xasprintf("%s]\n// output y1 f32[1]\n// launch k[1](y1)\n%s", text, MODULE("k"));
			int rc = tape_ir_read(answer, strlen(answer), &sizes, &tape, &line, &err);
			if (!rc) rc = tape_parse(tape.data, tape.len, &t[i], &err);
			if (rc) fail_msg("%s", err.text);
			seen[i] = (struct tape_ir_seen){sizes, t[i]};
			free(answer);
			str_clear(&tape);
		}
		if (tape_ir_write(seen, 2, &out, &err)) fail_msg("%s", err.text);
		const char *want = ndim == 8 ? "// input x0 i8[M, N, K, L, P, Q, R, S]\n"
									 : "// input x0 i8[1, 2, 3, 1, 2, 3, 1, 2, 3]\n";
		if (strncmp(out.data, want, strlen(want))) fail_msg("%s", out.data);
		for (int i = 0; i < 2; i++) tape_free(t[i]);
		str_release(&out);
		str_release(&tape);
	}
}

/* What the form has no word for is named, and with it the first that is so. */
static void test_write_cannot(void **state)
{
	struct given g;
	struct err err = {0};
	struct str out = {0};
	struct tape *t = NULL;
	given_make(&g, 3, 1500, 0);
	static const char text[] = "// input x0 f32[M, N]\n// input x1 f32[M, N]\n// param p2 fc.0.bias f32[N]\n"
							   "// output y3 f32[M, N]\n// output y4 i32[M]\n// temp t5 f32[M]\n// fill y3 0\n"
							   "// launch add[2](x0, x1, t5, M * N, 0.5)\n// launch bias[M, 7](t5, y4)\n" MODULE("add")
								   MODULE("bias");
#define CANNOT(change, said) \
	do { \
		t = read_good(text, &g); \
		struct tape_kernel *k = t->kernels; \
		struct tape_row *r = t->rows; \
		(void)k, (void)r; \
		change; \
		struct tape_ir_seen seen = {g.sizes, t}; \
		str_clear(&out); \
		err = (struct err){0}; \
		int rc = tape_ir_write(&seen, 1, &out, &err); \
		const char *want = said; \
		if (rc != (want ? ERR_MISMATCH : 0) || (want && (!strstr(err.text, want) || out.len))) \
			fail_msg("%s: code %d, %s", #change, rc, err.text); \
		tape_free(t); \
	} while (0)
	CANNOT(, NULL);
	/* Options of a kernel. */
	CANNOT(k[0].maxnreg = 1, "an option of add");
	CANNOT(k[1].no_fp_fusion = true, "an option of bias");
	CANNOT(k[0].no_reflect_ftz = true, "an option of add");
	CANNOT(k[0].ptx_options = "-O1", "an option of add");
	CANNOT(k[0].is_cooperative = true, "an option of add");
	CANNOT(k[0].is_pdl = true, "an option of add");
	CANNOT(k[1].name = "add", "add is launched in two forms");
	CANNOT((k[1].name = "add", r[2].kernel = 0), NULL);
	/* Rows. */
	CANNOT(r[1].stream = 1, "streams");
	CANNOT(r[0].kind = TAPE_RECORD, "streams");
	CANNOT(r[0].kind = TAPE_COPY, "a copy");
	CANNOT(r[0].kind = TAPE_LIBRARY, "a library row");
	CANNOT(r[0].dst.offset_bytes = 4, "a fill of a part of memory");
	CANNOT(r[0].dst.shape[0] = 2, "a fill of a part of memory");
	CANNOT(r[0].dst.stride[0] = 2, "a fill of a part of memory");
	CANNOT(r[0].fill = 1.5, NULL);
	CANNOT((r[0].fill = 1.5, r[0].dst.dtype = DTYPE_I32), "a fill with 1.5");
	CANNOT((r[0].fill = 1.5, r[0].dst.buffer = 0), "a fill with 1.5");
	CANNOT((r[0].fill = 1.5, r[0].dst.buffer = 5, r[0].dst.shape[0] = 3), "a fill with 1.5");
	CANNOT((r[0].dst.buffer = 5, r[0].dst.shape[0] = 3), NULL);
	/* Arguments. */
	CANNOT(r[1].args[0].kind = TAPE_ARG_VALUE, "an argument that the form has no word for");
	CANNOT(r[1].args[0].kind = TAPE_ARG_DESCRIPTOR, "an argument that the form has no word for");
	CANNOT(r[1].args[0].offset_bytes = 6, "an argument that the form has no word for");
	/* Memory. */
	CANNOT(t->buffers[2].kind = TAPE_CONST, "a constant of 6000 bytes");
	CANNOT(t->buffers[2].name = "other", "the reference has no parameter other");
	CANNOT(t->buffers[5].bytes = 13, "memory whose bytes are no multiple of 4");
	CANNOT(t->outputs[1].buffer = 3, "two outputs lie in one buffer");
	CANNOT(t->outputs[0].offset_bytes = 4, "output 0 is not memory of its own");
	CANNOT(t->outputs[1].stride[0] = 2, "output 1 is not memory of its own");
	CANNOT(t->outputs[1].shape[0] = 2, "output 1 is not memory of its own");
	CANNOT(t->outputs[1].buffer = 2, "output 1 is not memory of its own");
	CANNOT(t->buffers[4].bytes = 16, "output 1 is not memory of its own");
#undef CANNOT
	str_release(&out);
}

/* Where the second size's tape is another program, in whatever, the answer
 * is for the first alone. */
static void test_write_differs(void **state)
{
	struct given g[2];
	struct err err = {0};
	struct str out = {0};
	given_make(&g[0], 3, 1500, 0);
	given_make(&g[1], 2, 900, 0);
#define OTHER(change, is_other) \
	do { \
		struct tape *first = read_good(ADD, &g[0]), *t = read_good(ADD, &g[1]); \
		struct tape_kernel *k = t->kernels; \
		struct tape_row *r = t->rows; \
		struct tape_ir_tensor x[2] = {g[1].inputs[0], g[1].inputs[1]}; \
		struct tape_ir_seen seen[2] = {{g[0].sizes, first}, {{2, x, 1, &g[1].param}, t}}; \
		(void)k, (void)r; \
		change; \
		str_clear(&out); \
		if (tape_ir_write(seen, 2, &out, &err)) fail_msg("%s: %s", #change, err.text); \
		const char *want = is_other ? "// input x0 f32[3, 1500]\n" : "// input x0 f32[M, N]\n"; \
		if (strncmp(out.data, want, strlen(want))) fail_msg("%s:\n%s", #change, out.data); \
		tape_free(first); \
		tape_free(t); \
	} while (0)
	/* Unchanged it is the same program; then options, numbers of parts, rows,
	 * memory, what is given. */
	OTHER(, false);
	OTHER(k[0].num_warps = 2, true);
	OTHER(k[1].num_stages = 4, true);
	OTHER(k[0].num_ctas = 2, true);
	OTHER(k[1].ttir_len--, true);
	OTHER(t->nkernels--, true);
	OTHER(t->nrows--, true);
	OTHER(t->nbuffers--, true);
	OTHER(t->noutputs--, true);
	OTHER(r[1].kind = TAPE_FILL, true);
	OTHER(r[1].nargs--, true);
	OTHER(r[1].grid[0] = 77, true);
	OTHER(r[1].grid[1] = 2, true);
	OTHER(r[1].args[0].kind = TAPE_ARG_INT, true);
	OTHER(r[1].args[0].buffer = 1, true);
	OTHER(r[1].args[0].offset_bytes = 1, true);
	OTHER(r[1].args[3].i++, true);
	OTHER(r[1].args[4].f = 0.25, true);
	OTHER(r[0].fill = 1, true);
	OTHER(r[0].dst.buffer = 4, true);
	OTHER(t->outputs[0].buffer = 4, true);
	OTHER(t->outputs[0].ndim = 1, true);
	OTHER(t->buffers[4].bytes -= 2, true);
	OTHER(x[0].ndim = 1, true);
	OTHER(seen[1].sizes.ninputs = 1, true);
	OTHER(seen[1].sizes.nparams = 0, true);
#undef OTHER
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
	test_write_forms(NULL);
	test_write_names(NULL);
	test_write_cannot(NULL);
	test_write_differs(NULL);
	test_write_strips(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_head), cmocka_unit_test(test_other_sizes),
		cmocka_unit_test(test_strided), cmocka_unit_test(test_expressions), cmocka_unit_test(test_many_signs),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_many_fills), cmocka_unit_test(test_comments),
		cmocka_unit_test(test_is), cmocka_unit_test(test_write), cmocka_unit_test(test_write_forms),
		cmocka_unit_test(test_write_names), cmocka_unit_test(test_write_cannot), cmocka_unit_test(test_write_differs),
		cmocka_unit_test(test_write_strips), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
