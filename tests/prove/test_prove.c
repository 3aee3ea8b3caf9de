/* Proofs of small kernels against graphs written by hand: equal expressions, planted errors, what
 * is outside, and graphs that make no sense. */
#include "prove/prove.h"
#include "base/base.h"
#include "tape/tape.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "small_kernel.h"
#include "../leaks.h"

static struct tape *tape_make(const char *body, int n)
{
	char *ir = xasprintf(KERNEL, body);
	json_t *view = json_pack(
		"{s:i, s:i, s:s, s:[i], s:[i]}", "buffer", 2, "offset", 0, "dtype", "float32", "shape", N, "stride", 1);
	json_t *o = json_pack("{s:i, s:[{s:s, s:i, s:i}, {s:s, s:i, s:i}, {s:s, s:i}], s:[{s:s, s:s, s:i, s:i, s:i}], "
						  "s:[{s:s, s:i, s:i, s:[i, i, i], "
						  "s:[{s:i, s:i}, {s:i, s:i}, {s:i, s:i}, {s:i}]}], s:[o], s:b}",
		"version", TAPE_VERSION, "buffers", "kind", "input", "bytes", 4 * N, "input", 0, "kind", "input", "bytes",
		4 * N, "input", 1, "kind", "temp", "bytes", 4 * N, "kernels", "name", "k", "ttir", ir, "num_warps", 4,
		"num_stages", 3, "num_ctas", 1, "rows", "op", "launch", "line", 1, "kernel", 0, "grid", 2, 1, 1, "args",
		"buffer", 0, "offset", 0, "buffer", 1, "offset", 0, "buffer", 2, "offset", 0, "int", n, "outputs", view,
		"tuple", 0);
	char *text = json_dumps(o, JSON_COMPACT);
	struct tape *t = NULL;
	struct err err = {0};
	if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s", err.text);
	free(text);
	free(ir);
	json_decref(o);
	return t;
}

static int run(const char *body, const char *steps, int n, struct prove_result *out, struct err *err)
{
	float given[2 * N];
	for (int i = 0; i < 2 * N; i++) given[i] = 0.2f + rng_uniform(3, 1, (uint64_t)i);
	struct tape *t = tape_make(body, n);
	json_t *graph = graph_make(steps, err);
	struct prove_draw d = {.graph = graph, .given = (const uint8_t *)given, .given_bytes = sizeof given};
	struct prove_options o = {.seed = 5};
	int rc = prove_run(t, &d, 1, &o, out, err);
	json_decref(graph);
	tape_free(t);
	return rc;
}

#define NUMBER(v) "{\"kind\": \"number\", \"count\": 1, \"value\": " v ", \"bits\": 24}"
#define DEVICE(name) "%ov = tt.extern_elementwise %xv, %yv {libname = \"\", libpath = \"\", pure = true, " \
	"symbol = \"__nv_" name "f\"} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>\n"
struct proof_case {
	const char *name, *body, *steps;
	enum prove_answer answer;
	bool is_theorem;
};
static const struct proof_case cases[] = {
	{"xy + x", "%a = arith.mulf %xv, %yv" T "%ov = arith.addf %a, %xv" T, MAP("mul", "0, 1") ", " MAP("add", "2, 0"),
		PROVE_PROVED, true},
	{"xy + x as x(y + 1)", "%c = arith.constant dense<1.0>" T "%a = arith.addf %yv, %c" T "%ov = arith.mulf %xv, %a" T,
		MAP("mul", "0, 1") ", " MAP("add", "2, 0"), PROVE_PROVED, true},
	{"a term dropped", "%ov = arith.mulf %xv, %yv" T, MAP("mul", "0, 1") ", " MAP("add", "2, 0"), PROVE_NOT_PROVED,
		false},
	{"minus for plus", "%a = arith.mulf %xv, %yv" T "%ov = arith.subf %a, %xv" T,
		MAP("mul", "0, 1") ", " MAP("add", "2, 0"), PROVE_NOT_PROVED, false},
	{"operands exchanged", "%ov = arith.divf %yv, %xv" T, MAP("div", "0, 1"), PROVE_NOT_PROVED, false},
	{"exp x exp y", "%a = math.exp %xv" T "%b1 = math.exp %yv" T "%ov = arith.mulf %a, %b1" T,
		MAP("add", "0, 1") ", " MAP("exp", "2"), PROVE_PROVED, false},
	{"exp x + exp y", "%a = math.exp %xv" T "%b1 = math.exp %yv" T "%ov = arith.addf %a, %b1" T,
		MAP("add", "0, 1") ", " MAP("exp", "2"), PROVE_NOT_PROVED, false},
	{"exp by exp2", "%c = arith.constant dense<1.44269502>" T "%a = arith.mulf %xv, %c" T "%ov = math.exp2 %a" T,
		MAP("exp", "0"), PROVE_PROVED, false},
	{"log exp x", "%a = math.exp %xv" T "%ov = math.log %a" T, MAP("add", "0, 0") ", " MAP("sub", "2, 0"), PROVE_PROVED,
		false},
	{"sigmoid",
		"%z = arith.constant dense<0.0>" T "%c = arith.constant dense<1.0>" T "%a = arith.subf %z, %xv" T
		"%e = math.exp %a" T "%d = arith.addf %c, %e" T "%ov = arith.divf %c, %d" T,
		MAP("sigmoid", "0"), PROVE_PROVED, false},
	{"sqrt x sqrt y", "%a = math.sqrt %xv" T "%b1 = math.sqrt %yv" T "%ov = arith.mulf %a, %b1" T,
		MAP("mul", "0, 1") ", " MAP("sqrt", "2"), PROVE_PROVED, false},
	{"sqrt x + sqrt y", "%a = math.sqrt %xv" T "%b1 = math.sqrt %yv" T "%ov = arith.addf %a, %b1" T,
		MAP("add", "0, 1") ", " MAP("sqrt", "2"), PROVE_NOT_PROVED, false},
	{"maximum", "%ov = arith.maxnumf %xv, %yv" T, MAP("lt", "0, 1") ", " MAP("where", "2, 1, 0"), PROVE_PROVED, true},
	{"minimum for maximum", "%ov = arith.minnumf %xv, %yv" T, MAP("lt", "0, 1") ", " MAP("where", "2, 1, 0"),
		PROVE_NOT_PROVED, false},
	{"a tenth", "%c = arith.constant dense<1.000000e-01>" T "%ov = arith.mulf %xv, %c" T,
		NUMBER("10.0") ", " MAP("div", "0, 2"), PROVE_PROVED, true},
	{"nearly a tenth", "%c = arith.constant dense<1.001000e-01>" T "%ov = arith.mulf %xv, %c" T,
		NUMBER("10.0") ", " MAP("div", "0, 2"), PROVE_NOT_PROVED, false},
	{"two exponentials", "%a = math.exp %xv" T "%ov = math.exp %a" T, MAP("exp", "0") ", " MAP("exp", "2"),
		PROVE_OUTSIDE, false},
	{"a bitcast",
		"%a = tt.bitcast %xv : tensor<16xf32> -> tensor<16xi32>\n%ov = tt.bitcast %a : tensor<16xi32> -> "
		"tensor<16xf32>\n",
		MAP("add", "0, 1") ", " MAP("sub", "2, 1"), PROVE_OUTSIDE, false},
	{"erf is odd",
		"%z = arith.constant dense<0.0>" T "%a = arith.subf %z, %xv" T "%e = math.erf %a" T "%ov = arith.subf %z, %e" T,
		MAP("erf", "0"), PROVE_PROVED, false},
	{"an order of what nobody defined",
		"%z = arith.constant dense<false> : tensor<16xi1>\n%c = arith.constant dense<-2.0>" T
		"%u = tt.load %xa, %z : tensor<16x!tt.ptr<f32>>\n%g = arith.cmpf ogt, %u, %c" T
		"%ov = arith.select %g, %xv, %yv : tensor<16xi1>, tensor<16xf32>\n",
		MAP("add", "0, 1") ", " MAP("sub", "2, 1"), PROVE_NOT_PROVED, false},
	{"sin for cos", "%ov = math.sin %xv" T, MAP("cos", "0"), PROVE_NOT_PROVED, false},
	{"fdim", DEVICE("fdim"), MAP("fdim", "0, 1"), PROVE_PROVED, true},
	{"fdim for hypot", DEVICE("fdim"), MAP("hypot", "0, 1"), PROVE_NOT_PROVED, false},
};

static void proves(void **state)
{
	const struct proof_case *c = *state;
	struct prove_result r;
	struct err err = {0};
	if (run(c->body, c->steps, N, &r, &err)) fail_msg("%s: %s", c->name, err.text);
	if (r.answer != c->answer) fail_msg("%s: %s: %s", c->name, prove_answer_name(r.answer), r.text);
	if (r.answer != PROVE_PROVED) return;
	assert_int_equal(r.is_theorem, c->is_theorem);
	assert_int_equal(r.elements, N);
	assert_true(r.rounds >= 2 && r.degree > 0 && r.bound > 0 && r.bound < 1e-12);
}

/* The last element is left out by a mask that is one short. */
static void a_mask_too_short(void **state)
{
	struct prove_result r;
	struct err err = {0};
	assert_int_equal(run("%ov = arith.mulf %xv, %yv" T, MAP("mul", "0, 1"), N - 1, &r, &err), 0);
	assert_int_equal(r.answer, PROVE_NOT_PROVED);
}

/* A mask that is one too long leaves the buffer: the fault has its line. */
static void a_mask_too_long(void **state)
{
	struct prove_result r;
	struct err err = {0};
	assert_int_equal(run("%ov = arith.mulf %xv, %yv" T, MAP("mul", "0, 1"), N + 1, &r, &err), 0);
	assert_int_equal(r.answer, PROVE_NOT_PROVED);
	if (!strstr(r.text, "out-of-bounds")) fail_msg("%s", r.text);
}

static void graphs_that_make_no_sense(void **state)
{
	static const char *const steps[] = {
		"{\"kind\": \"map\", \"count\": 21, \"op\": \"add\", \"sources\": [0, 7]}",
		"{\"kind\": \"map\", \"count\": 21, \"op\": \"add\", \"sources\": [0, 2]}",
		"{\"kind\": \"map\", \"count\": 21, \"op\": \"add\", \"sources\": [0]}",
		"{\"kind\": \"map\", \"count\": 22, \"op\": \"add\", \"sources\": [0, 1]}",
		"{\"kind\": \"map\", \"count\": 21, \"op\": \"no such\", \"sources\": [0, 1]}",
		"{\"kind\": \"map\", \"count\": 21, \"sources\": [0, 1]}",
		"{\"kind\": \"map\", \"count\": 21, \"op\": \"and\", \"sources\": [0, 1]}",
		"{\"kind\": \"no such\", \"count\": 21}",
		"{\"kind\": \"input\", \"count\": 21, \"index\": 2, \"fixed\": -1}",
		"{\"kind\": \"input\", \"count\": 20, \"index\": 0, \"fixed\": -1}",
		"{\"kind\": \"input\", \"count\": -1, \"index\": 0, \"fixed\": -1}",
		"{\"kind\": \"param\", \"count\": 21, \"name\": \"w\"}",
		"{\"kind\": \"take\", \"count\": 21, \"sources\": [0], \"at\": 0, \"width\": 4, \"fill\": -1}",
		"{\"kind\": \"take\", \"count\": 0, \"sources\": [0], \"at\": 0, \"width\": 3, \"fill\": -1}",
		"{\"kind\": \"take\", \"count\": 0, \"sources\": [], \"at\": 0, \"width\": 4, \"fill\": -1}",
		"{\"kind\": \"ints\", \"count\": 9223372036854775807, \"at\": 0}",
		"{\"kind\": \"floats\", \"count\": 21, \"at\": 0, \"bits\": 24}",
		"{\"kind\": \"reduce\", \"count\": 3, \"op\": \"sum\", \"sources\": [0], \"length\": 8}",
		"{\"kind\": \"reduce\", \"count\": 21, \"op\": \"max\", \"sources\": [0], \"length\": 0}",
		"{\"kind\": \"reduce\", \"count\": 21, \"op\": \"mean\", \"sources\": [0], \"length\": 1}",
		"{\"kind\": \"scan\", \"count\": 21, \"op\": \"argmax\", \"sources\": [0], \"length\": 21}",
		"{\"kind\": \"scan\", \"count\": 21, \"op\": \"sum\", \"sources\": [0], \"length\": 0}",
		"{\"kind\": \"order\", \"count\": 21, \"sources\": [0], \"length\": 2}",
		"{\"kind\": \"pick\", \"count\": 21, \"sources\": [0, 1], \"length\": 21, \"picked\": 21}",
		"{\"kind\": \"dot\", \"count\": 21, \"sources\": [0, 1], \"batch\": 2147483648, \"m\": 2147483648, \"k\": "
		"2147483648, \"n\": 1}",
		"{\"kind\": \"dot\", \"count\": 441, \"sources\": [0, 1], \"batch\": 1, \"m\": 21, \"k\": 2, \"n\": 21}",
		"{\"kind\": \"scatter\", \"count\": 21, \"sources\": [0, 1], \"at\": 0, \"scattered\": 21}",
	};
	/* Each is refused with a message, and nothing is computed. */
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct prove_result r;
		struct err err = {0};
		int rc = run("%ov = arith.mulf %xv, %yv" T, steps[i], N, &r, &err);
		if (rc >= 0) fail_msg("%s: %s", steps[i], prove_answer_name(r.answer));
		assert_true(err.text[0]);
	}
}

/* A graph given whole, over x and y and with three tables of places: 0 to 19 and one that is
 * outside; 21 times place 0; from byte 168 on, 0 to 20 as 64-bit numbers. */
static int run_graph(const char *body, const char *text, struct prove_result *out, struct err *err)
{
	float given[2 * N];
	struct {
		int32_t places[2 * N];
		int64_t wide[N];
	} tables = {.places = {0}};
	for (int i = 0; i < 2 * N; i++) given[i] = 0.2f + rng_uniform(3, 1, (uint64_t)i);
	for (int i = 0; i < N; i++) {
		tables.places[i] = i < N - 1 ? i : -1;
		tables.wide[i] = i;
	}
	json_t *graph = NULL;
	if (json_parse(text, strlen(text), "graph", &graph, err)) fail_msg("%s", err->text);
	struct tape *t = tape_make(body, N);
	struct prove_draw d = {.graph = graph,
		.given = (const uint8_t *)given,
		.given_bytes = sizeof given,
		.tables = (const uint8_t *)&tables,
		.table_bytes = sizeof tables};
	int rc = prove_run(t, &d, 1, &(struct prove_options){.seed = 5}, out, err);
	json_decref(graph);
	tape_free(t);
	return rc;
}

#define MEMORIES "\"inputs\": [{\"offset\": 0, \"bytes\": 84, \"dtype\": \"float32\"}, {\"offset\": 84, " \
	"\"bytes\": 84, \"dtype\": \"float32\"}]"
#define INPUT(i) "{\"kind\": \"input\", \"count\": 21, \"index\": " #i ", \"fixed\": -1}"
#define OUTPUT(n) "\"outputs\": [{\"node\": " #n ", \"dtype\": \"float32\", \"shape\": [21]}]"

static void expect_answer(const char *body, const char *text, enum prove_answer answer)
{
	struct prove_result r;
	struct err err = {0};
	if (run_graph(body, text, &r, &err)) fail_msg("%s", err.text);
	if (r.answer != answer) fail_msg("%s: %s", prove_answer_name(r.answer), r.text);
}

/* An output that names no step, or says no type, is refused by name. */
static void bad_outputs(void **state)
{
#define ADDED(output) "{\"nodes\": [" INPUT(0) ", " INPUT(1) ", " MAP("add", "0, 1") "], " MEMORIES ", \"outputs\": [" \
	output "], \"params\": []}"
	static const char *const bad[] = {ADDED("{\"node\": 3, \"dtype\": \"float32\", \"shape\": [21]}"),
		ADDED("{\"node\": -1, \"dtype\": \"float32\", \"shape\": [21]}"), ADDED("{\"node\": 2, \"shape\": [21]}"),
		ADDED("{\"dtype\": \"float32\", \"shape\": [21]}")};
	expect_answer(
		"%ov = arith.addf %xv, %yv" T, ADDED("{\"node\": 2, \"dtype\": \"float32\", \"shape\": [21]}"), PROVE_PROVED);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct prove_result r;
		struct err err = {0};
		assert_true(run_graph("%ov = arith.addf %xv, %yv" T, bad[i], &r, &err) < 0);
		if (!strstr(err.text, "output")) fail_msg("%zu: %s", i, err.text);
	}
}

/* A parameter of two names has one value in all of its elements: their difference is zero. */
static void tied_parameters(void **state)
{
#define PARAM(name) "{\"kind\": \"param\", \"count\": 21, \"name\": \"" name "\"}"
#define WEIGHT(name, offset) "{\"name\": \"" name "\", \"offset\": " #offset ", \"bytes\": 84, \"dtype\": \"float32\"}"
#define TIED(offset) "{\"nodes\": [" INPUT(0) ", " INPUT(1) ", " PARAM("a") ", " PARAM("b") ", " \
	MAP("sub", "2, 3") ", " MAP("add", "0, 1") ", " \
	MAP("add", "4, 5") "], " MEMORIES ", " OUTPUT(6) ", \"params\": [" WEIGHT("a", 0) ", " WEIGHT("b", offset) "]}"
	expect_answer("%ov = arith.addf %xv, %yv" T, TIED(0), PROVE_PROVED);
	expect_answer("%ov = arith.addf %xv, %yv" T, TIED(84), PROVE_NOT_PROVED);
}

/* Elements that a task makes as constants: x is 2 everywhere, so that the kernel's 2 y is the
 * reference's x y where the table at `fixed` says that all of x is constant, and there alone. A
 * parameter is never constant, whatever stands in the tables. */
static void constant_elements(void **state)
{
#define FIXED(kind, more) "{\"nodes\": [{\"kind\": \"" kind "\", \"count\": 21, " more "}, " INPUT(1) ", " \
	MAP("mul", "0, 1") "], " MEMORIES ", " OUTPUT(2) ", \"params\": [" WEIGHT("a", 0) "]}"
#define CONSTANT(at) FIXED("input", "\"index\": 0, \"fixed\": " #at)
	static const struct {
		const char *graph;
		int begin; /* of the table, bytes; */
		int end;   /* those between are 1, */
		int bytes; /* of so many */
		enum prove_answer answer;
		const char *error; /* NULL: there is an answer */
	} rows[] = {
		{CONSTANT(0), 0, 21, 21, PROVE_PROVED, NULL},
		{CONSTANT(0), 0, 20, 21, PROVE_NOT_PROVED, NULL},
		{CONSTANT(0), 1, 21, 21, PROVE_NOT_PROVED, NULL},
		{CONSTANT(5), 5, 26, 26, PROVE_PROVED, NULL},
		{CONSTANT(5), 5, 26, 30, PROVE_PROVED, NULL},
		{CONSTANT(5), 4, 25, 30, PROVE_NOT_PROVED, NULL},
		{CONSTANT(5), 5, 25, 25, PROVE_PROVED, "the table of an input's constants is not there"},
		{CONSTANT(25), 0, 25, 25, PROVE_PROVED, "the table of an input's constants is not there"},
		{CONSTANT(26), 0, 25, 25, PROVE_PROVED, "step: field \"fixed\": expected -1 .. 4, found 26"},
		{CONSTANT(-1), 0, 25, 25, PROVE_NOT_PROVED, NULL},
		{FIXED("param", "\"name\": \"a\""), 0, 25, 25, PROVE_NOT_PROVED, NULL},
	};
	float given[2 * N];
	for (int i = 0; i < 2 * N; i++) given[i] = i < N ? 2 : 0.2f + rng_uniform(3, 1, (uint64_t)i);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* Exactly as many bytes as the row says, so that one more would be read beside them. */
		uint8_t *tables = xcalloc((size_t)rows[i].bytes, 1);
		for (int k = rows[i].begin; k < rows[i].end; k++) tables[k] = 1;
		struct prove_result r;
		struct err err = {0};
		json_t *graph = NULL;
		if (json_parse(rows[i].graph, strlen(rows[i].graph), "graph", &graph, &err)) fail_msg("%s", err.text);
		struct tape *t = tape_make("%c = arith.constant dense<2.0>" T "%ov = arith.mulf %yv, %c" T, N);
		struct prove_draw d = {.graph = graph,
			.given = (const uint8_t *)given,
			.given_bytes = sizeof given,
			.tables = tables,
			.table_bytes = rows[i].bytes};
		int rc = prove_run(t, &d, 1, &(struct prove_options){.seed = 5}, &r, &err);
		if (rows[i].error) assert_string_equal(rc ? err.text : "an answer", rows[i].error);
		else if (rc || r.answer != rows[i].answer)
			fail_msg("row %zu: %s", i, rc ? err.text : prove_answer_name(r.answer));
		json_decref(graph);
		tape_free(t);
		free(tables);
	}
}

/* A sorted row holds what the row held: the sums are the same, so that x plus
 * their difference is x. */
static void sorted_rows_keep_their_elements(void **state)
{
#define SUM(of) "{\"kind\": \"reduce\", \"count\": 1, \"op\": \"sum\", \"sources\": [" #of "], \"length\": 21}"
#define SORTED(descending) "{\"nodes\": [" INPUT(0) ", " INPUT(1) \
	", {\"kind\": \"order\", \"count\": 21, \"sources\": [0], \"length\": 21, " \
	"\"descending\": " descending "}, {\"kind\": \"pick\", \"count\": 21, \"sources\": [0, 2], \"length\": 21, " \
	"\"picked\": 21}, " SUM(3) ", " \
	SUM(0) ", {\"kind\": \"map\", \"count\": 1, \"op\": \"sub\", \"sources\": [4, 5]}, {\"kind\": \"take\", " \
	"\"count\": 21, \"sources\": [6], " \
	"\"at\": 84, \"width\": 4, \"fill\": -1}, " MAP("add", "0, 7") "], " MEMORIES ", " OUTPUT(8) ", \"params\": []}"
	static const char same[] = "%z = arith.constant dense<0.0>" T "%ov = arith.addf %xv, %z" T;
	expect_answer(same, SORTED("false"), PROVE_PROVED);
	expect_answer(same, SORTED("true"), PROVE_PROVED);
}

/* A scatter adds its second source to its first one, place by place. */
static void scattered_sums(void **state)
{
#define SCATTERED(from, to) "{\"nodes\": [" INPUT(0) ", " INPUT(1) ", {\"kind\": \"scatter\", \"count\": 21, " \
	"\"sources\": [" #to ", " #from "], \"at\": 168, \"scattered\": 21}], " MEMORIES ", " OUTPUT(2) ", \"params\": []}"
	expect_answer("%ov = arith.addf %xv, %yv" T, SCATTERED(1, 0), PROVE_PROVED);
	expect_answer("%ov = arith.addf %xv, %yv" T, SCATTERED(0, 1), PROVE_PROVED);
	expect_answer("%ov = arith.addf %yv, %yv" T, SCATTERED(1, 1), PROVE_PROVED);
	expect_answer("%ov = arith.addf %xv, %xv" T, SCATTERED(1, 0), PROVE_NOT_PROVED);
}

/* What fills the places outside may be any step, the first one too: here 0, where the kernel has 20
 * elements of x and y's last one, or 0. */
static void fill_is_the_first_step(void **state)
{
#define TAKE(fill) "{\"nodes\": [" NUMBER("0.0") ", " INPUT(0) ", " INPUT(1) \
	", {\"kind\": \"take\", \"count\": 21, \"sources\": [1], \"at\": 0, " \
	"\"width\": 4, \"fill\": " #fill "}], " MEMORIES ", " OUTPUT(3) ", \"params\": []}"
	static const char cut[] =
		"%last = arith.constant dense<20> : tensor<16xi32>\n%in = arith.cmpi slt, %i, %last : tensor<16xi32>\n"
		"%z = arith.constant dense<0.0>" T;
	char *zero = xasprintf("%s%%ov = arith.select %%in, %%xv, %%z : tensor<16xi1>, tensor<16xf32>\n", cut),
		 *other = xasprintf("%s%%ov = arith.select %%in, %%xv, %%yv : tensor<16xi1>, tensor<16xf32>\n", cut);
	struct prove_result r;
	struct err err = {0};
	expect_answer(zero, TAKE(0), PROVE_PROVED);
	expect_answer(other, TAKE(0), PROVE_NOT_PROVED);
	assert_true(run_graph(zero, TAKE(-1), &r, &err) < 0);
	assert_non_null(strstr(err.text, "place -1 of 21 elements"));
	/* It is one element, and of the take's own kind. */
	assert_true(run_graph(zero, TAKE(1), &r, &err) < 0);
	assert_non_null(strstr(err.text, "does not fit"));
	free(zero);
	free(other);
}

/* Long work without a limit of time goes on to its end: 4,001 steps of 21 elements. */
static void long_graphs_end(void **state)
{
	struct str steps = {0};
	struct prove_result r;
	struct err err = {0};
	str_puts(&steps, MAP("add", "0, 1"));
	for (int i = 0; i < 2000; i++)
		str_printf(&steps,
			", {\"kind\": \"map\", \"count\": 21, \"op\": \"sub\", \"sources\": [%d, 1]}, {\"kind\": \"map\", "
			"\"count\": 21, \"op\": \"add\", \"sources\": [%d, 1]}",
			2 * i + 2, 2 * i + 3);
	if (run("%ov = arith.addf %xv, %yv" T, steps.data, N, &r, &err)) fail_msg("%s", err.text);
	if (r.answer != PROVE_PROVED) fail_msg("%s: %s", prove_answer_name(r.answer), r.text);
	str_release(&steps);
}

/* A graph has 65536 steps at most: the two inputs, numbers that nobody uses,
 * and the one that counts. */
static void graphs_are_bounded(void **state)
{
	for (int extra = 0; extra < 2; extra++) {
		struct str steps = {0};
		struct prove_result r;
		struct err err = {0};
		for (int i = 0; i < 65536 - 3 + extra; i++) str_puts(&steps, NUMBER("1.0") ", ");
		str_puts(&steps, MAP("mul", "0, 1"));
		int rc = run("%ov = arith.mulf %xv, %yv" T, steps.data, N, &r, &err);
		if (extra ? rc != ERR_FORMAT || !strstr(err.text, "65537 steps") : rc || r.answer != PROVE_PROVED)
			fail_msg("%d more: %d %s", extra, rc, err.text);
		str_release(&steps);
	}
}

/* x squared again and again: where the fields are too small for the degree,
 * agreement is no proof. */
static void degrees_are_bounded(void **state)
{
	for (int times = 18; times <= 19; times++) {
		struct str steps = {0}, body = {0};
		struct prove_result r;
		struct err err = {0};
		for (int i = 0; i < times; i++) {
			/* steps 0 and 1 are the inputs */
			int from = i ? i + 1 : 0;
			str_printf(&steps, "%s{\"kind\": \"map\", \"count\": 21, \"op\": \"mul\", \"sources\": [%d, %d]}",
				i ? ", " : "", from, from);
			char to[16] = "%ov", of[16] = "%xv";
			if (i + 1 < times) snprintf(to, sizeof to, "%%u%d", i);
			if (i) snprintf(of, sizeof of, "%%u%d", i - 1);
			str_printf(&body, "%s = arith.mulf %s, %s" T, to, of, of);
		}
		if (run(body.data, steps.data, N, &r, &err)) fail_msg("%s", err.text);
		bool is_right = times == 18 ? r.answer == PROVE_PROVED && r.bound > 9e-7 && r.bound < 1e-6
									: r.answer == PROVE_NOT_PROVED && strstr(r.text, "degree 1.05e+06");
		if (!is_right) fail_msg("%d: %s: %s (%g)", times, prove_answer_name(r.answer), r.text, r.bound);
		str_release(&steps);
		str_release(&body);
	}
}

/* Comparisons on data that every point took one way are named with the way. */
static void sides_are_named(void **state)
{
	struct prove_result r;
	struct err err = {0};
#define ABOVE(x) "%c = arith.constant dense<" x ">" T "%l = arith.cmpf olt, %xv, %c" T \
	"%a = arith.select %l, %yv, %xv : tensor<16xi1>, tensor<16xf32>\n%ov = arith.mulf %a, %a" T
	if (run(ABOVE("1.0e+02"), MAP("mul", "1, 1"), N, &r, &err)) fail_msg("%s", err.text);
	assert_int_equal(r.answer, PROVE_PROVED);
	assert_int_equal(r.nsides, 1);
	assert_string_equal(r.sides[0].text, "less");
	if (run(ABOVE("-1.0e+02"), MAP("mul", "0, 0"), N, &r, &err)) fail_msg("%s", err.text);
	assert_int_equal(r.answer, PROVE_PROVED);
	assert_string_equal(r.sides[0].text, "greater");
	if (run("%ov = arith.mulf %xv, %yv" T, MAP("mul", "0, 1"), N, &r, &err)) fail_msg("%s", err.text);
	assert_int_equal(r.nsides, 0);
}

/* Proofs that end in each way leave no memory behind. */
static void all_cases(void *ctx)
{
	struct prove_result r;
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (run(cases[i].body, cases[i].steps, N, &r, &err)) fail_msg("%s: %s", cases[i].name, err.text);
}

static void nothing_is_left(void **state) { leaves_nothing(all_cases, NULL); }

int main(void)
{
	static struct CMUnitTest tests[ARRAY_LEN(cases) + 14];
	size_t n = 0;
	for (; n < ARRAY_LEN(cases); n++)
		tests[n] = (struct CMUnitTest){cases[n].name, proves, NULL, NULL, (void *)(uintptr_t)&cases[n]};
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_mask_too_short);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(a_mask_too_long);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(graphs_that_make_no_sense);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(bad_outputs);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(tied_parameters);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(constant_elements);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(scattered_sums);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(fill_is_the_first_step);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(sorted_rows_keep_their_elements);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(degrees_are_bounded);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(sides_are_named);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(long_graphs_end);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(graphs_are_bounded);
	tests[n++] = (struct CMUnitTest)cmocka_unit_test(nothing_is_left);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return _cmocka_run_group_tests("prove", tests, n, NULL, NULL);
}
