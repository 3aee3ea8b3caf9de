/* The linter's rules on small sources; every prefix and random damage of a source (no crash, no
 * endless work); deep nesting. `test_lint --files` reads paths from stdin and prints one line of
 * JSON a file, for test_lint_corpus.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include "lint/lint.h"

#define HEAD "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"
#define KERNEL "@triton.jit\ndef k(x_ptr, n, BLOCK: tl.constexpr):\n    tl.store(x_ptr + tl.arange(0, BLOCK), 0.0)\n"
#define MODEL "class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x, 3, BLOCK=16)\n" \
	"        return x\n"

static struct lint_report lint_text(const char *src)
{
	struct lint_report r;
	assert_int_equal(lint_source(src, strlen(src), &r), 0);
	return r;
}

static bool has(const struct lint_report *r, enum lint_code code)
{
	for (int i = 0; i < r->count; i++)
		if (r->findings[i].code == code) return true;
	return false;
}

static void expect_clean(const char *src)
{
	struct lint_report r = lint_text(src);
	if (r.errors)
		fail_msg(
			"%s: %s line %d in\n%s", lint_code_name(r.findings[0].code), r.findings[0].text, r.findings[0].line, src);
}

static void legal_forms_pass(void **state)
{
	static const char *const FORMS[] = {
		HEAD KERNEL MODEL,
		HEAD "@triton.autotune(configs=[triton.Config({'BLOCK': 64})], key=['n'])\n@triton.heuristics({'E': lambda a: "
			 "True})\n" KERNEL MODEL,
		"import triton as t\nimport triton.language as tl\n@t.jit\ndef k(p): pass\nclass ModelNew:\n    def "
		"forward(self, x):\n        k[lambda m: (1,)](x)\n",
		"from triton import jit\n@jit\ndef k(p): pass\nclass ModelNew:\n    def forward(self, x):\n        k.run(x, "
		"grid=(1,), warmup=False)\n",
		"from triton import jit as compile_it\n@compile_it\ndef k(p): pass\nclass ModelNew:\n    def forward(self, "
		"x):\n        k[1,](x)\n",
		"import triton\njit = triton.jit\n@jit\ndef k(p): pass\nclass ModelNew:\n    def forward(self, x):\n        "
		"k[(1,)](x)\n",
		"import triton\nj = triton.jit\n@j\ndef k(p): pass\nclass ModelNew:\n    def forward(self, x):\n        "
		"k[(1,)](x)\n",
		"import triton\n@triton.jit(do_not_specialize=['n'])\ndef k(p, n): pass\nclass ModelNew:\n    def "
		"forward(self, x):\n        g = k\n"
		"        g[(1,)](x, 1)\n",
		"import triton\ndef body(p): pass\nk = triton.jit(body)\nclass ModelNew:\n    def forward(self, x):\n        "
		"k[(1,)](x)\n",
		"import triton\nclass ModelNew:\n    @staticmethod\n    @triton.jit\n    def k(p): pass\n    def forward(self, "
		"x):\n        self.k[(1,)](x)\n",
		"import triton\ndef make():\n    @triton.jit\n    def k(p): pass\n    return k\nclass ModelNew:\n    def "
		"__init__(self):\n        self.k = make()\n"
		"    def forward(self, x):\n        self.k[(1,)](x)\n",
		"import triton\n@triton.jit\ndef k(p): pass\nclass Impl:\n    def forward(self, x): k[(1,)](x)\nModelNew = "
		"Impl\n",
		"import triton\n@triton.jit\ndef k(p): pass\nclass ModelNew:\n    def forward(self, x): "
		"globals()['k'][(1,)](x)\n",
		"import triton\nif True:\n    @triton.jit\n    def k(p): pass\n    class ModelNew:\n        def forward(self, "
		"x): k[(1,)](x)\n",
		HEAD "@triton.jit\ndef f(x):\n    return x @ x\n" KERNEL "@triton.jit\ndef g(x):\n    return f(x)\n" MODEL,
	};
	for (size_t i = 0; i < ARRAY_LEN(FORMS); i++) expect_clean(FORMS[i]);
	struct lint_report r = lint_text(FORMS[0]);
	assert_int_equal(r.notes, 0);
	/* of a kernel that is written twice there is one name, and it is referred to */
	r = lint_text(HEAD KERNEL KERNEL MODEL);
	assert_false(has(&r, LINT_JIT_IDLE));
	/* legal Python that the grammar does not know */
	static const char *const GAPS[] = {"def f(a):\n    return *[a], a\n", "a = b, *(1,)\n", "a = *[], b\n",
		"for i in a, *{1}: pass\n", "x[a, *[1]]\n"};
	for (size_t i = 0; i < ARRAY_LEN(GAPS); i++) {
		r = lint_text(GAPS[i]);
		if (r.errors || !has(&r, LINT_SYNTAX_DOUBT)) fail_msg("%s: %d errors", GAPS[i], r.errors);
	}
}

static void hopeless_ones_are_named(void **state)
{
	struct {
		const char *src;
		enum lint_code code;
		int line;
	} BAD[] = {
		{HEAD KERNEL "class ModelNew(nn.Module):\n    def forward(self, x:\n        return x\n", LINT_SYNTAX, 9},
		{HEAD KERNEL MODEL "x = = 3\n", LINT_SYNTAX, 12},
		{"```python\n" HEAD KERNEL MODEL "```\n", LINT_SYNTAX, 1},
		{HEAD KERNEL MODEL "x = 3 *(4\n", LINT_SYNTAX, 12},
		{HEAD KERNEL MODEL "x = *", LINT_SYNTAX, 12},
		{HEAD KERNEL "class Model(nn.Module):\n    def forward(self, x):\n        k[(1,)](x, 3, 16)\n",
			LINT_NO_MODEL_NEW, 0},
		{HEAD "# class ModelNew\ns = 'class ModelNew'\n" KERNEL "k[(1,)]()\n", LINT_NO_MODEL_NEW, 0},
		{HEAD "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n", LINT_NO_JIT, 0},
		{HEAD "# @triton.jit\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return "
			  "torch.jit.script(f)(x)\n",
			LINT_NO_JIT, 0},
		{"from triton import jit\nclass ModelNew:\n    pass\n", LINT_NO_JIT, 0},
		{HEAD KERNEL "class ModelNew(nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n",
			LINT_JIT_UNUSED, 6},
		{"", LINT_NO_MODEL_NEW, 0},
	};
	/* The first finding is the expected one, at its line. */
	for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
		struct lint_report r = lint_text(BAD[i].src);
		if (!r.errors || r.findings[0].code != BAD[i].code || r.findings[0].line != BAD[i].line)
			fail_msg("source %zu: expected %s in line %d, found %d errors, %s in line %d: %s", i,
				lint_code_name(BAD[i].code), BAD[i].line, r.errors,
				r.count ? lint_code_name(r.findings[0].code) : "nothing", r.findings[0].line, r.findings[0].text);
	}
	/* A source over the limit is named for its size. */
	char *big = xmalloc(LINT_SOURCE_BYTES_MAX + 1);
	memset(big, '\n', LINT_SOURCE_BYTES_MAX + 1);
	struct lint_report r;
	assert_int_equal(lint_source(big, LINT_SOURCE_BYTES_MAX + 1, &r), 0);
	assert_true(has(&r, LINT_TOO_LARGE));
	free(big);
}

static void notes_name_lines(void **state)
{
	struct {
		const char *src;
		enum lint_code code;
		int line;
	} NOTED[] = {
		{"class ModelNew(nn.Module):\n    def forward(self, x):\n        try:\n            return k[(1,)](x, 3, 16)\n  "
		 "      except Exception:\n"
		 "            return x\n",
			LINT_TRY, 10},
		{"class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x, 3, 16)\n        return "
		 "torch.relu(x)\n",
			LINT_TORCH_COMPUTE, 11},
		{"class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x, 3, 16)\n        return "
		 "x.softmax(-1)\n",
			LINT_TORCH_COMPUTE, 11},
		{"def launch(x):\n    k[(1,)](x)\n    return F.linear(x, x)\nclass ModelNew:\n    pass\n", LINT_TORCH_COMPUTE,
			10},
		{"class ModelNew(nn.Module):\n    def __init__(self):\n        self.fc = nn.Linear(3, 3)\n    def "
		 "forward(self, x):\n        k[(1,)](x)\n"
		 "        return self.fc(x)\n",
			LINT_MODULE_CALL, 13},
		{"class ModelNew(nn.Module):\n    def forward(self, x):\n        k[(1,)](x)\n        return x @ x\n",
			LINT_MATMUL_SIGN, 11},
		{"import os.path\nk\nclass ModelNew: pass\n", LINT_IMPORT, 8},
		{"from ctypes import c_int\nk\nclass ModelNew: pass\n", LINT_IMPORT, 8},
		{"k\nclass ModelNew:\n    def forward(self):\n        exec('x')\n", LINT_DYNAMIC, 11},
		{"k\nclass ModelNew(Model): pass\n", LINT_INHERITS_MODEL, 9},
		{"@triton.jit\ndef idle(p): pass\n" MODEL, LINT_JIT_IDLE, 9},
	};
	for (size_t i = 0; i < ARRAY_LEN(NOTED); i++) {
		char *src = xasprintf("%s%s%s", HEAD, KERNEL, NOTED[i].src);
		struct lint_report r = lint_text(src);
		bool found = false;
		for (int j = 0; j < r.count; j++)
			found |= r.findings[j].code == NOTED[i].code && r.findings[j].line == NOTED[i].line;
		if (!found || r.errors)
			fail_msg("source %zu: expected the note %s in line %d and no error; %s: %s", i,
				lint_code_name(NOTED[i].code), NOTED[i].line, r.count ? lint_code_name(r.findings[0].code) : "-",
				r.findings[0].text);
		free(src);
	}
	/* what is honest is not noted */
	struct lint_report r = lint_text(HEAD "import math\nfrom triton.language.extra import libdevice\n" KERNEL
										  "class ModelNew(nn.Module):\n    def __init__(self):\n"
										  "        super().__init__()\n        self.fc = nn.Linear(3, 3)\n        "
										  "self.scale = torch.exp(torch.zeros(3))\n    def forward(self, x):\n"
										  "        y = torch.empty_like(x)\n        s = math.sqrt(x.shape[-1])\n       "
										  " k[(triton.cdiv(x.numel(), 16),)](x, y, self.fc.weight, s)\n"
										  "        return y.view(-1)\n");
	assert_int_equal(r.errors + r.notes, 0);
}

static void findings_are_bounded_and_ordered(void **state)
{
	struct str src = {0};
	str_puts(&src, HEAD);
	for (int i = 0; i < 300; i++) str_puts(&src, "try:\n    pass\nexcept E:\n    pass\n");
	struct lint_report r = lint_text(src.data);
	assert_int_equal(r.notes, 300);
	assert_int_equal(r.errors, 2);
	assert_int_equal(r.count, LINT_FINDINGS_MAX);
	assert_true(lint_is_error(r.findings[0].code) && lint_is_error(r.findings[1].code));
	for (int i = 3; i < r.count; i++) assert_true(r.findings[i].line > r.findings[i - 1].line);
	str_release(&src);
}

static void any_bytes_are_legal(void **state)
{
	const char *all = HEAD KERNEL MODEL
		"s = f'{x!r:>{w}}' rb'\\x00' '''a\nb'''\n\ttry:\n  match x:\n   case [a, *b]: lambda: (yield)\n@a.b(c)\n"
		"async def f(*, a=1, **k) -> int: await x\n";
	size_t len = strlen(all);
	struct lint_report r;
	for (size_t n = 0; n <= len; n++) assert_int_equal(lint_source(all, n, &r), 0);
	char noise[900];
	for (uint32_t seed = 0; seed < 1500; seed++) {
		size_t n = len;
		memcpy(noise, all, len);
		for (uint32_t e = 0; e < 1 + seed % 40; e++) {
			size_t at = rng_u32(seed, 0, e) % n;
			uint32_t pick = rng_u32(seed, 1, e);
			noise[at] = pick % 3 ? all[pick / 3 % len] : (char)(pick >> 8);
		}
		assert_int_equal(lint_source(noise, n, &r), 0);
		for (int i = 0; i < r.count; i++)
			for (const char *c = r.findings[i].text; *c; c++) assert_true(*c >= 32 && *c < 127);
	}
}

/* Nesting costs heap, never stack. */
static void deep_nesting_is_survived(void **state)
{
	static const char *const UNITS[] = {"(", "[", "f(", "not ", "-", "lambda: ", "x if y else ", "{1:", "f'{",
		"if x:\n ", "@a\n", "x.", "class A:\n def f(self):\n  "};
	struct lint_report r;
	for (size_t u = 0; u < ARRAY_LEN(UNITS); u++) {
		struct str src = {0};
		while (src.len + 16 < LINT_SOURCE_BYTES_MAX / 8) str_puts(&src, UNITS[u]);
		int rc = lint_source(src.data, src.len, &r);
		assert_true(rc == 0 || rc == ERR_INFRA);
		str_release(&src);
	}
	struct str src = {0};
	for (int i = 0; i < 60000; i++) str_putc(&src, '(');
	str_putc(&src, '1');
	for (int i = 0; i < 60000; i++) str_putc(&src, ')');
	assert_int_equal(lint_source(src.data, src.len, &r), 0);
	assert_false(has(&r, LINT_SYNTAX));
	str_release(&src);
}

static json_t *lint_json(const struct lint_report *r)
{
	json_t *findings = json_array();
	for (int i = 0; i < r->count; i++) {
		const struct lint_finding *f = &r->findings[i];
		json_array_append_new(findings,
			json_pack("{s:s, s:i, s:i, s:s}", "code", lint_code_name(f->code), "line", f->line, "column", f->column,
				"text", f->text));
	}
	return json_pack("{s:i, s:i, s:o}", "errors", r->errors, "notes", r->notes, "findings", findings);
}

/* What --files prints for each path on stdin, an object a line: tests in Python read it. */
static int lint_files(void)
{
	char path[4096];
	while (fgets(path, sizeof path, stdin)) {
		path[strcspn(path, "\n")] = 0;
		struct str text = {0};
		struct err err = {0};
		struct lint_report r;
		if (file_read(path, (size_t)1 << 26, &text, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		int rc = lint_source(text.data ? text.data : "", text.len, &r);
		json_t *o = lint_json(&r);
		json_object_set_new(o, "path", json_string(path));
		json_object_set_new(o, "rc", json_integer(rc));
		json_dumpf(o, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(o);
		str_release(&text);
	}
	return 0;
}

/* What computes is of interest where the host runs it: in functions, and in a class within one; not
 * where a module is loaded. */
static void host_code(void **state)
{
	static const struct {
		const char *text;
		bool is_noted;
	} rows[] = {
		{"y = torch.matmul(a, b)\n", false},
		{"class A:\n    y = torch.matmul(a, b)\n", false},
		{"def f(a, b):\n    return torch.matmul(a, b)\n", true},
		{"def f(a, b):\n    class A:\n        y = torch.matmul(a, b)\n", true},
		{"def f(a, b):\n    pass\ny = torch.matmul(a, b)\n", false},
		{"class A:\n    def __init__(self, a, b):\n        self.y = torch.matmul(a, b)\n", false},
		{"class A:\n    def g(self, a, b):\n        self.y = torch.matmul(a, b)\n", true},
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		char text[2048];
		snprintf(text, sizeof text, HEAD KERNEL MODEL "%s", rows[i].text);
		struct lint_report r = lint_text(text);
		if (has(&r, LINT_TORCH_COMPUTE) != rows[i].is_noted) fail_msg("%s", rows[i].text);
	}
}

/* What verdicts call each code. */
static void names(void **state)
{
	static const char *const NAMES[] = {"too-large", "syntax-error", "no-model-new", "no-jit", "jit-unused",
		"syntax-doubt", "try-except", "torch-compute", "module-call", "matmul-operator", "suspicious-import",
		"dynamic-code", "inherits-model", "jit-idle"};
	assert_int_equal(ARRAY_LEN(NAMES), LINT_CODE_COUNT);
	for (int i = 0; i < LINT_CODE_COUNT; i++) {
		assert_string_equal(lint_code_name((enum lint_code)i), NAMES[i]);
		assert_int_equal(lint_is_error((enum lint_code)i), i < 5);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--files")) return lint_files();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(host_code),
		cmocka_unit_test(legal_forms_pass),
		cmocka_unit_test(hopeless_ones_are_named),
		cmocka_unit_test(notes_name_lines),
		cmocka_unit_test(findings_are_bounded_and_ordered),
		cmocka_unit_test(any_bytes_are_legal),
		cmocka_unit_test(deep_nesting_is_survived),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
