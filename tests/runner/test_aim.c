/* The search inside a trial's inputs for elements that bring a comparison to a side that no trial
 * took (src/runner/aim.h): which elements it places, with which bits, how near to what they were,
 * with how many replays, and that a trial with them takes the side. */
#include "runner/launcher.h"
#include "runner/replay.h"
#include "vm/vm.h"
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define N 16
#define MIB ((int64_t)1 << 20)
#define AT(n) " loc(\"k.py\":" #n ":1)\n"
/* The comparison that is aimed at stands in line 5; its operands are %v, the input's elements, and
 * what the body makes. */
#define CONSTANT(name, value, type) "%" name " = arith.constant dense<" value "> : tensor<16x" type ">\n"
#define COMPARE_F(how, a, b, type) "%m = arith.cmpf " how ", " a ", " b " : tensor<16x" type ">" AT(5)
#define COMPARE_I(how, a, b, type) "%m = arith.cmpi " how ", " a ", " b " : tensor<16x" type ">" AT(5)
/* %u is the elements from the last to the first. */
#define REVERSED(type) "%l = arith.constant dense<15> : tensor<16xi32>\n%j = arith.subi %l, %i : tensor<16xi32>\n" \
	"%up = tt.addptr %xs, %j : tensor<16x!tt.ptr<" type ">>, tensor<16xi32>\n" \
	"%u = tt.load %up : tensor<16x!tt.ptr<" type ">>\n"

/* How the one buffer that elements are placed in reaches the kernel. */
enum way { AS_INPUT, AS_PARAM, MAY_CHANGE };

struct trial_of {
	const char *type;  /* in the IR */
	const char *dtype; /* on the tape */
	int size;          /* of an element */
	const char *body;  /* makes %m of %v */
	enum way way;
};

/* The tape's text: one launch, which loads the elements and stores whether the comparison holds. */
static char *tape_text(const struct trial_of *t)
{
	/* The kernel around the body, then the buffer that is searched and the row that reads it. */
	char *kernel = xasprintf("module {\n  tt.func public @k(%%x: !tt.ptr<%s>, %%y: !tt.ptr<i32>) {\n"
							 "%%i = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
							 "%%xs = tt.splat %%x : !tt.ptr<%s> -> tensor<16x!tt.ptr<%s>>\n"
							 "%%xp = tt.addptr %%xs, %%i : tensor<16x!tt.ptr<%s>>, tensor<16xi32>\n"
							 "%%ys = tt.splat %%y : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>\n"
							 "%%yp = tt.addptr %%ys, %%i : tensor<16x!tt.ptr<i32>>, tensor<16xi32>\n"
							 "%%v = tt.load %%xp : tensor<16x!tt.ptr<%s>>\n%s"
							 "%%r = arith.extui %%m : tensor<16xi1> to tensor<16xi32>\n"
							 "tt.store %%yp, %%r : tensor<16x!tt.ptr<i32>>\ntt.return\n  }\n}\n",
		t->type, t->type, t->type, t->type, t->type, t->body);
	char *from = t->way == AS_PARAM ? xasprintf("{\"kind\": \"param\", \"bytes\": %d, \"name\": \"w\"}", N * t->size)
									: xasprintf("{\"kind\": \"input\", \"bytes\": %d, \"input\": 0}", N * t->size);
	json_t *o = json_pack(
		"{s:i, s:[o, o], s:[{s:s, s:s, s:i, s:i, s:i}], s:[{s:s, s:i, s:i, s:[i, i, i], s:[{s:i, s:i}, "
		"{s:i, s:i}]}], s:[{s:i, s:i, s:s, s:[i], s:[i]}], s:b}",
		"version", 2, "buffers", json_loads(from, 0, NULL), json_pack("{s:s, s:i}", "kind", "temp", "bytes", 4 * N),
		"kernels", "name", "k", "ttir", kernel, "num_warps", 1, "num_stages", 1, "num_ctas", 1, "rows", "op", "launch",
		"line", 7, "kernel", 0, "grid", 1, 1, 1, "args", "buffer", 0, "offset", 0, "buffer", 1, "offset", 0, "outputs",
		"buffer", 1, "offset", 0, "dtype", "int32", "shape", N, "stride", 1, "tuple", 0);
	assert_non_null(o);
	char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	free(kernel);
	free(from);
	return text;
}

#define OFFSET 64 /* of the elements in what a trial is given */
static uint8_t given_bytes[OFFSET + 8 * N];
static int32_t output[N];

/* One trial on `r`, which searches for `aims` where there are any. */
static void trial_run(struct replay *r, const struct trial_of *t, const struct runner_aim *aims, int naims, int replays,
	struct runner_result *out)
{
	struct runner_given given = {
		.name = "w", .offset = OFFSET, .bytes = N * t->size, .read_offset = -1, .may_change = t->way == MAY_CHANGE};
	bool is_param = t->way == AS_PARAM;
	struct runner_trial trial = {.ninputs = !is_param,
		.inputs = &given,
		.nparams = is_param,
		.params = &given,
		.want_coverage = true,
		.is_search = true, /* as the supervisor's, whose inputs were searched: one lane takes a side */
		.is_unchecked = true,
		.naims = naims,
		.aim_replays = replays,
		.aim_programs = 1,
		.deadline_ms = 60000};
	for (int i = 0; i < naims; i++) trial.aims[i] = aims[i];
	replay_run(r, &trial, &(struct replay_given){given_bytes, sizeof given_bytes, NULL, NULL, NULL, NULL},
		(uint8_t *)output, sizeof output, out);
	if (out->has_fault) fail_msg("%s", out->fault.text);
}

/* Counts what runs: a tape has one row. */
static int nruns;
static int (*row_run)(struct launcher *l, int row, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault);
static int row_count(struct launcher *l, int row, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault)
{
	nruns++;
	return row_run(l, row, trial, out, fault);
}

static struct replay *replay_of_text(char *text)
{
	struct replay *r = NULL;
	struct tape *tape = NULL;
	struct err err = {0};
	struct runner_fault fault = {0};
	struct launcher *l = launcher_vm_create(MIB);
	row_run = l->row_run;
	l->row_run = row_count;
	nruns = 0;
	if (tape_parse(text, strlen(text), &tape, &err)) fail_msg("%s", err.text);
	if (replay_create(tape, l, NULL, &r, &fault)) fail_msg("%s", fault.text);
	free(text);
	return r;
}

static struct replay *replay_of(const struct trial_of *t) { return replay_of_text(tape_text(t)); }

static const struct runner_site *site_of(const struct runner_result *r, int line)
{
	for (int i = 0; i < r->coverage.nsites; i++)
		if (r->coverage.sites[i].line == line) return &r->coverage.sites[i];
	return NULL;
}

/* Looks at the trial, aims at a side of line 5's site, and gives back what was placed. The input is
 * as it was afterwards. */
static struct runner_coverage search(const struct trial_of *t, enum vm_side side, int replays)
{
	struct runner_result seen, found;
	struct replay *r = replay_of(t);
	trial_run(r, t, NULL, 0, 0, &seen);
	const struct runner_site *s = site_of(&seen, 5);
	assert_non_null(s);
	assert_true(s->wanted & side && !(s->taken & side));
	struct runner_aim aim = {.site = s->id, .side = side, .constant = s->constant};
	trial_run(r, t, &aim, 1, replays, &found);
	runner_result_release(&seen);
	struct runner_coverage c = found.coverage;
	free(found.coverage.sites);
	c.sites = NULL;
	found.coverage = (struct runner_coverage){0};
	runner_result_release(&found);
	replay_free(r);
	return c;
}

/* Whether a trial of its own, with the placed elements in its input, takes the side. */
static bool takes(const struct trial_of *t, const struct runner_coverage *c, enum vm_side side)
{
	uint8_t before[sizeof given_bytes];
	struct runner_result out;
	struct replay *r = replay_of(t);
	memcpy(before, given_bytes, sizeof before);
	for (int i = 0; i < c->nplaced; i++)
		memcpy(given_bytes + OFFSET + c->placed[i].element * t->size, &c->placed[i].bits, (size_t)t->size);
	trial_run(r, t, NULL, 0, 0, &out);
	const struct runner_site *s = site_of(&out, 5);
	bool is_taken = s->taken & side;
	runner_result_release(&out);
	replay_free(r);
	memcpy(given_bytes, before, sizeof before);
	return is_taken;
}

/* Elements of each type: values of both signs around 1, whole numbers from -40 to 110. */
static void given_fill(const struct trial_of *t)
{
	memset(given_bytes, 0x11, sizeof given_bytes);
	for (int i = 0; i < N; i++) {
		uint8_t *at = given_bytes + OFFSET + i * t->size;
		float f = (i % 2 ? -1.0f : 1.0f) * (0.5f + (float)i * 0.0625f);
		double d = f;
		int64_t n = i * 10 - 40;
		uint32_t wide;
		memcpy(&wide, &f, 4);
		if (!strcmp(t->type, "f32")) memcpy(at, &f, 4);
		else if (!strcmp(t->type, "f64")) memcpy(at, &d, 8);
		else if (!strcmp(t->type, "bf16")) memcpy(at, (uint8_t *)&wide + 2, 2);
		else if (!strcmp(t->type, "f16")) {
			/* 0.5 to 1.4375 has few enough digits: bits by hand */
			uint16_t h = (uint16_t)((wide >> 31) << 15 | ((wide >> 23 & 255) - 112) << 10 | (wide >> 13 & 1023));
			memcpy(at, &h, 2);
		} else memcpy(at, &n, (size_t)t->size);
	}
}

static double value_of(const struct trial_of *t, uint64_t bits)
{
	double d;
	float f;
	uint32_t w = (uint32_t)bits;
	if (!strcmp(t->type, "f64")) return memcpy(&d, &bits, 8), d;
	if (!strcmp(t->type, "f16"))
		return ldexp((double)(1024 + (bits & 1023)), (int)(bits >> 10 & 31) - 25) * (bits >> 15 ? -1 : 1);
	if (!strcmp(t->type, "bf16")) w <<= 16;
	memcpy(&f, &w, 4);
	if (t->type[0] != 'i') return f;
	return (double)((int64_t)(bits << (64 - 8 * t->size)) >> (64 - 8 * t->size));
}

#define F32 "f32", "float32", 4
#define F64 "f64", "float64", 8
#define F16 "f16", "float16", 2
#define BF16 "bf16", "bfloat16", 2
#define I8 "i8", "int8", 1
#define I16 "i16", "int16", 2
#define I32 "i32", "int32", 4
#define I64 "i64", "int64", 8

/* The three sides of a constant; `next` is as near as the search comes to it. */
#define FLOAT_CASES(name, type, next) \
	{"beyond " name, {type, CONSTANT("c", "100.5", name) COMPARE_F("ogt", "%v", "%c", name), AS_INPUT}, SIDE_ABOVE, \
		100.5, next, 46}, \
	{"below " name, {type, CONSTANT("c", "-100.5", name) COMPARE_F("olt", "%v", "%c", name), AS_INPUT}, SIDE_BELOW, \
		-(next), -100.5, 22}, \
	{"equal " name, {type, CONSTANT("c", "100.5", name) COMPARE_F("oeq", "%v", "%c", name), AS_INPUT}, SIDE_EQUAL, \
		100.5, 100.5, 45}
/* Equality by itself, behind bits that are turned, and behind 5 v + 4. */
#define INTEGER_CASES(name, type, odd_replays) \
	{"equal " name, {type, CONSTANT("c", "77", name) COMPARE_I("eq", "%v", "%c", name), AS_INPUT}, SIDE_EQUAL, 77, 77, \
		28}, \
	{"xor " name, \
		{type, CONSTANT("c", "8", name) CONSTANT("w", "90", name) "%u = arith.xori %v, %w : tensor<16x" name ">\n" \
			COMPARE_I("eq", "%u", "%c", name), AS_INPUT}, \
		SIDE_EQUAL, 82, 82, 35}, \
	{"odd " name, \
		{type, CONSTANT("c", "49", name) CONSTANT("w", "5", name) CONSTANT("e", "4", name) \
			"%p = arith.muli %v, %w : tensor<16x" name ">\n%u = arith.addi %p, %e : tensor<16x" name ">\n" \
			COMPARE_I("eq", "%u", "%c", name), AS_INPUT}, \
		SIDE_EQUAL, 9, 9, odd_replays}

/* A product of ones and of 64 rows, of which the elements are the first and the others are masked:
 * of a column no lane but one is made of an element. */
#define FEW_OF_A_PRODUCT \
	"%j = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>\n" \
	"%n = arith.constant dense<16> : tensor<1024xi32>\n%k = arith.cmpi slt, %j, %n : tensor<1024xi32>\n" \
	"%js = tt.splat %x : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>\n" \
	"%jp = tt.addptr %js, %j : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>\n" \
	"%z = arith.constant dense<0.0> : tensor<1024xf32>\n" \
	"%w = tt.load %jp, %k, %z : tensor<1024x!tt.ptr<f32>>\n" \
	"%rows = tt.reshape %w : tensor<1024xf32> -> tensor<64x16xf32>\n" \
	"%ones = arith.constant dense<1.0> : tensor<16x64xf32>\n%none = arith.constant dense<0.0> : tensor<16x16xf32>\n" \
	"%d = tt.dot %ones, %rows, %none, inputPrecision = ieee : tensor<16x64xf32> * tensor<64x16xf32> -> " \
	"tensor<16x16xf32>\n%c = arith.constant dense<100.5> : tensor<16x16xf32>\n" \
	"%far = arith.cmpf ogt, %d, %c : tensor<16x16xf32>" AT(5) \
	"%m = \"tt.reduce\"(%far) <{axis = 0 : i32}> ({\n^bb0(%p: i1, %q: i1):\n%o = arith.ori %p, %q : i1\n" \
	"tt.reduce.return %o : i1\n}) : (tensor<16x16xi1>) -> tensor<16xi1>\n"

/* Each way to a side, and each type: one element is placed, the others stay what they were, and it
 * lies between `low` and `high`: a constant itself, or as near to it as twelve halvings of what
 * lies between the element and what was found bring it. The search is the same every time, so the
 * number of its replays is too: one that takes another way there shows it. */
static void test_one_element(void **state)
{
	static const struct {
		const char *what;
		struct trial_of t;
		enum vm_side side;
		double low;
		double high;
		int replays;
	} cases[] = {
		FLOAT_CASES("f32", F32, 100.64),
		FLOAT_CASES("f64", F64, 100.64),
		FLOAT_CASES("f16", F16, 100.5625),
		FLOAT_CASES("bf16", BF16, 101),
		INTEGER_CASES("i8", I8, 46),
		INTEGER_CASES("i16", I16, 51),
		INTEGER_CASES("i32", I32, 67),
		INTEGER_CASES("i64", I64, 100),
		{"-39 of -40 to 110", {I32, CONSTANT("c", "-39", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT},
			SIDE_EQUAL, -39, -39, 23},
		{"109 of -40 to 110", {I32, CONSTANT("c", "109", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT},
			SIDE_EQUAL, 109, 109, 34},
		{"far", {F32, CONSTANT("c", "1.0e9", "f32") COMPARE_F("ogt", "%v", "%c", "f32"), AS_INPUT}, SIDE_ABOVE,
			1000000000, 1010000000, 613},
		{"square",
			{F32,
				CONSTANT("c", "1.0e9", "f32") "%u = arith.mulf %v, %v : tensor<16xf32>\n" COMPARE_F(
					"ogt", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_ABOVE, -31700, -31622, 46},
		{"equal square",
			{F32,
				CONSTANT("c", "11.390625", "f32") "%u = arith.mulf %v, %v : tensor<16xf32>\n" COMPARE_F(
					"oeq", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_EQUAL, -3.375, -3.375, 77},
		{"equal cube",
			{F32,
				CONSTANT("c", "11.390625", "f32") "%w = arith.mulf %v, %v : tensor<16xf32>\n%u = arith.mulf %w, %v : "
												  "tensor<16xf32>\n" COMPARE_F("oeq", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_EQUAL, 2.25, 2.25, 77},
		{"third",
			{F32,
				CONSTANT("c", "11.7", "f32") CONSTANT(
					"w", "0.37", "f32") "%u = arith.mulf %v, %w : tensor<16xf32>\n" COMPARE_F("oeq", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_EQUAL, 31.6216, 31.6217, 74},
		{"no constant",
			{F32,
				REVERSED("f32") CONSTANT("w", "0.37", "f32") "%z = arith.addf %u, %w : tensor<16xf32>\n" COMPARE_F(
					"oeq", "%v", "%z", "f32"),
				AS_INPUT},
			SIDE_EQUAL, 0.25, 0.26, 74},
		/* None of so many is set beyond four times the constant; that of the last pass may be. */
		{"beyond the bound",
			{F32,
				CONSTANT("c", "1.0e5", "f32") CONSTANT(
					"w", "0.22", "f32") "%u = arith.mulf %v, %w : tensor<16xf32>\n" COMPARE_F("ogt", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_ABOVE, 454545, 460000, 618},
		{"param", {F32, CONSTANT("c", "100.5", "f32") COMPARE_F("ogt", "%v", "%c", "f32"), AS_PARAM}, SIDE_ABOVE, 100.5,
			100.64, 46},
		{"few of a product", {F32, FEW_OF_A_PRODUCT, AS_INPUT}, SIDE_ABOVE, 100.5, 100.64, 45},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct trial_of *t = &cases[i].t;
		given_fill(t);
		/* What was placed, by its value, and where it says that it belongs. */
		struct runner_coverage c = search(t, cases[i].side, 2000);
		int count = nruns - 2; /* two trials */
		bool ok = c.nplaced == 1 && takes(t, &c, cases[i].side);
		double x = c.nplaced ? value_of(t, c.placed[0].bits) : NAN;
		bool is_param = t->way == AS_PARAM;
		ok = ok && x >= cases[i].low && x <= cases[i].high && c.placed[0].size == t->size &&
			c.placed[0].input == (is_param ? -1 : 0) && c.placed[0].param_offset == (is_param ? OFFSET : 0);
		free(c.placed);
		if (!ok || count != cases[i].replays)
			print_message("# %s: %d placed, %.17g, after %d replays\n", cases[i].what, c.nplaced, x, count);
		bad += !ok || count != cases[i].replays;
	}
	assert_int_equal(bad, 0);
}

/* Conditions on two elements are met one after the other: the first comes as near as the second
 * lets it, and both stay. */
static void test_two_elements(void **state)
{
	static const struct trial_of both = {F32,
		REVERSED("f32") "%z = arith.minimumf %v, %u : tensor<16xf32>\n" CONSTANT("c", "50.0", "f32")
			COMPARE_F("ogt", "%z", "%c", "f32"),
		AS_INPUT};
	given_fill(&both);
	struct runner_coverage c = search(&both, SIDE_ABOVE, 2000);
	assert_int_equal(c.nplaced, 2);
	assert_int_equal(c.placed[0].element + c.placed[1].element, N - 1);
	for (int i = 0; i < 2; i++) {
		double x = value_of(&both, c.placed[i].bits);
		assert_true(x > 50 && x < 51);
	}
	assert_true(takes(&both, &c, SIDE_ABOVE));
	free(c.placed);
}

/* %n is how many elements are above 0.6: seven of the sixteen are. */
#define COUNTED(wanted) \
	CONSTANT("least", "0.6", "f32") CONSTANT("c", wanted, "i32") \
	"%b = arith.cmpf ogt, %v, %least : tensor<16xf32>" AT(4) \
	"%e = arith.extui %b : tensor<16xi1> to tensor<16xi32>\n" \
	"%t = \"tt.reduce\"(%e) <{axis = 0 : i32}> ({\n^bb0(%p: i32, %q: i32):\n%z = arith.addi %p, %q : i32\n" \
	"tt.reduce.return %z : i32\n}) : (tensor<16xi32>) -> i32\n%n = tt.splat %t : i32 -> tensor<16xi32>\n" \
	COMPARE_I("eq", "%n", "%c", "i32")

/* A count rises and falls by as many elements as it lacks, and by no more. */
static void test_counts(void **state)
{
	static const struct {
		struct trial_of trial;
		int placed;
	} cases[] = {{{F32, COUNTED("1"), AS_INPUT}, 6}, {{F32, COUNTED("15"), AS_INPUT}, 8}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		given_fill(&cases[i].trial);
		struct runner_coverage c = search(&cases[i].trial, SIDE_EQUAL, 1000);
		assert_int_equal(c.nplaced, cases[i].placed);
		assert_true(takes(&cases[i].trial, &c, SIDE_EQUAL));
		free(c.placed);
	}
}

/* %s is the sum of the elements, -0.5 at first; %b and %d tell whether it is above 100 and below
 * 100.5. */
#define SUMMED \
	"%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%p: f32, %q: f32):\n%z = arith.addf %p, %q : f32\n" \
	"tt.reduce.return %z : f32\n}) : (tensor<16xf32>) -> f32\n" \
	"%low = arith.constant 100.0 : f32\n%high = arith.constant 100.5 : f32\n" \
	"%b = arith.cmpf ogt, %s, %low : f32" AT(3)
#define BELOW(line) "%d = arith.cmpf olt, %s, %high : f32" AT(line)

/* Both masks of a select within a select at once; and a comparison in a branch that the trial does
 * not take, which brings the program there first. */
static void test_windows_of_a_sum(void **state)
{
	static const struct {
		struct trial_of trial;
		enum vm_side side;
	} cases[] = {
		{{F32,
			 SUMMED BELOW(4)
				 CONSTANT("w", "2.0", "f32") "%bs = tt.splat %b : i1 -> tensor<16xi1>\n%ds = tt.splat %d : i1 -> "
											 "tensor<16xi1>\n"
											 "%e = arith.select %ds, %w, %v : tensor<16xi1>, tensor<16xf32>" AT(
												 4) "%f = arith.select %bs, %e, %v : tensor<16xi1>, "
													"tensor<16xf32>" AT(5) "%m = arith.cmpf oeq, %f, %w : "
																		   "tensor<16xf32>" AT(6),
			 AS_INPUT},
			SIDE_ABOVE},
		{{F32,
			 SUMMED "%m = scf.if %b -> (tensor<16xi1>) {\n" BELOW(
				 5) "%ds = tt.splat %d : i1 -> tensor<16xi1>\nscf.yield %ds : tensor<16xi1>\n} else {\n"
					"%f = arith.constant dense<false> : tensor<16xi1>\nscf.yield %f : tensor<16xi1>\n}" AT(4),
			 AS_INPUT},
			SIDE_BELOW},
	};
	/* What is placed brings the sum into the window, in a trial of its own as well. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		given_fill(&cases[i].trial);
		struct runner_coverage c = search(&cases[i].trial, cases[i].side, 1000);
		assert_int_not_equal(c.nplaced, 0);
		assert_true(takes(&cases[i].trial, &c, cases[i].side));
		free(c.placed);
	}
}

/* Two sides of two sites in one search: an element each, and the second search leaves the first
 * one's alone. The second site looks at the first half of the elements. */
static void test_two_aims(void **state)
{
	static const struct trial_of two = {F32,
		CONSTANT("c", "100.5", "f32") COMPARE_F(
			"ogt", "%v", "%c", "f32") "%e = arith.constant dense<-7.25> : tensor<8xf32>\n"
									  "%h = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
									  "%hs = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>\n"
									  "%hp = tt.addptr %hs, %h : tensor<8x!tt.ptr<f32>>, tensor<8xi32>\n"
									  "%hv = tt.load %hp : tensor<8x!tt.ptr<f32>>\n"
									  "%o = arith.cmpf olt, %hv, %e : tensor<8xf32>" AT(
										  6) "%g = arith.extui %o : tensor<8xi1> to tensor<8xi32>\n"
											 "%gs = tt.splat %y : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
											 "%gp = tt.addptr %gs, %h : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
											 "tt.store %gp, %g : tensor<8x!tt.ptr<i32>>\n",
		AS_INPUT};
	struct runner_result seen, found;
	struct runner_aim aims[2];
	given_fill(&two);
	struct replay *r = replay_of(&two);
	trial_run(r, &two, NULL, 0, 0, &seen);
	for (int i = 0; i < 2; i++) {
		const struct runner_site *s = site_of(&seen, 5 + i);
		assert_non_null(s);
		aims[i] = (struct runner_aim){.site = s->id, .side = i ? SIDE_BELOW : SIDE_ABOVE, .constant = s->constant};
	}
	trial_run(r, &two, aims, 2, 2000, &found);
	/* The search is behind the trial: what was written is of the elements as they were given. */
	for (int i = 0; i < N; i++) assert_int_equal(output[i], 0);
	const struct runner_placed *placed = found.coverage.placed;
	assert_int_equal(found.coverage.nplaced, 2);
	assert_int_not_equal(placed[0].element, placed[1].element);
	/* In the order of their first touch, which is the elements'. */
	double y = value_of(&two, placed[0].bits), x = value_of(&two, placed[1].bits);
	assert_true(x > 100.5 && x < 100.64 && y < -7.25 && y > -7.27);
	runner_result_release(&seen);
	runner_result_release(&found);
	replay_free(r);
}

/* Two sides of one comparison, which the same elements could take: the second search leaves the
 * first one's element alone. */
static void test_same_elements(void **state)
{
	static const struct trial_of one = {
		F32, CONSTANT("c", "100.5", "f32") COMPARE_F("ogt", "%v", "%c", "f32"), AS_INPUT};
	static const struct trial_of other = {F32,
		CONSTANT("c", "100.5", "f32") COMPARE_F("ogt", "%v", "%c", "f32")
			CONSTANT("e", "-100.5", "f32") "%o = arith.cmpf olt, %v, %e : tensor<16xf32>" AT(
				6) "%g = arith.extui %o : tensor<16xi1> to tensor<16xi32>\ntt.store %yp, %g : "
				   "tensor<16x!tt.ptr<i32>>\n",
		AS_INPUT};
	struct runner_result seen, found;
	given_fill(&one);
	struct replay *r = replay_of(&other);
	trial_run(r, &other, NULL, 0, 0, &seen);
	/* Both in one search, of which neither loses its side. */
	const struct runner_site *first = site_of(&seen, 5), *second = site_of(&seen, 6);
	assert_true(first && second);
	const struct runner_aim aims[2] = {
		{first->id, SIDE_ABOVE, first->constant, false}, {second->id, SIDE_BELOW, second->constant, false}};
	trial_run(r, &other, aims, 2, 2000, &found);
	assert_int_equal(found.coverage.nplaced, 2);
	assert_int_not_equal(found.coverage.placed[0].element, found.coverage.placed[1].element);
	assert_true(takes(&one, &found.coverage, SIDE_ABOVE));
	runner_result_release(&seen);
	runner_result_release(&found);
	replay_free(r);
}

/* Of two aims each has half of the replays, and the second what the first left. */
static void test_shares(void **state)
{
	static const struct trial_of one = {F32,
		CONSTANT("c", "100.5", "f32") COMPARE_F("ogt", "%v", "%c", "f32") CONSTANT(
			"e", "0.0", "f32") "%q = arith.mulf %v, %v : tensor<16xf32>\n%o = arith.cmpf olt, %q, %e : "
							   "tensor<16xf32>" AT(6) "%g = arith.extui %o : tensor<16xi1> to tensor<16xi32>\ntt.store "
													  "%yp, %g : tensor<16x!tt.ptr<i32>>\n",
		AS_INPUT};
	struct runner_result seen, found;
	given_fill(&one);
	struct replay *r = replay_of(&one);
	trial_run(r, &one, NULL, 0, 0, &seen);
	const struct runner_site *first = site_of(&seen, 5), *second = site_of(&seen, 6);
	assert_true(first && second);
	/* No square is below 0: that search spends all that it has, the other one 46. */
	const struct runner_aim aims[2] = {
		{first->id, SIDE_ABOVE, first->constant, false}, {second->id, SIDE_BELOW, NAN, false}};
	for (int k = 0; k < 2; k++) {
		const struct runner_aim both[2] = {aims[k], aims[!k]};
		int before = nruns;
		trial_run(r, &one, both, 2, 400, &found);
		assert_int_equal(nruns - before - 1, k ? 246 : 400);
		assert_int_equal(found.coverage.nplaced, 1);
		runner_result_release(&found);
	}
	runner_result_release(&seen);
	replay_free(r);
}

/* The pole of line 5; its sites there are more than one. */
static const struct runner_site *pole_of(const struct runner_result *r)
{
	for (int i = 0; i < r->coverage.nsites; i++)
		if (r->coverage.sites[i].line == 5 && r->coverage.sites[i].kind == SITE_POLE) return &r->coverage.sites[i];
	return NULL;
}

/* A pole is met exactly, and by a second number than the first one: each is named by its search. */
static void test_poles(void **state)
{
	static const struct {
		struct trial_of t;
		double first;  /* one of the two; likewise the next */
		double second; /* NaN: there is one alone */
	} cases[] = {
		{{F32,
			 CONSTANT("c", "0.7", "f32") CONSTANT("one", "1.0",
				 "f32") "%d = arith.subf %v, %c : tensor<16xf32>\n"
						"%e = arith.mulf %d, %v : tensor<16xf32>\n%q = arith.divf %one, %e : tensor<16xf32>" AT(
							5) "%m = arith.cmpf une, %q, %q : tensor<16xf32>\n",
			 AS_INPUT},
			0, (double)0.7f},
		{{F32,
			 CONSTANT("c", "0.7", "f32") "%d = arith.subf %v, %c : tensor<16xf32>\n"
										 "%a = math.absf %d : tensor<16xf32>\n%q = math.rsqrt %a : tensor<16xf32>" AT(
											 5) "%m = arith.cmpf une, %q, %q : tensor<16xf32>\n",
			 AS_INPUT},
			(double)0.7f, NAN},
		/* Where the vm stops at a division of all lanes by zero, that is where it has to be. */
		{{I32,
			 "%one = arith.constant 1 : i32\n%e = tt.load %x : !tt.ptr<i32>\n%q = arith.divsi %one, %e : i32" AT(
				 5) "%qs = tt.splat %q : i32 -> tensor<16xi32>\n%m = arith.cmpi ne, %qs, %v : tensor<16xi32>\n",
			 AS_INPUT},
			0, NAN},
	};
	int bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct trial_of t = cases[i].t;
		struct runner_result seen, found;
		given_fill(&t);
		struct replay *r = replay_of(&t);
		trial_run(r, &t, NULL, 0, 0, &seen);
		const struct runner_site *s = pole_of(&seen);
		assert_non_null(s);
		struct runner_aim aim = {.site = s->id, .side = SIDE_EQUAL, .constant = s->constant, .is_pole = true};
		trial_run(r, &t, &aim, 1, 2000, &found);
		double at[2] = {NAN, NAN};
		for (int k = 0; k < found.coverage.nplaced; k++)
			at[found.coverage.placed[k].aim / RUNNER_AIMS_MAX] = value_of(&t, found.coverage.placed[k].bits);
		bool is_both = !isnan(cases[i].second), ok = found.coverage.nplaced == 1 + is_both;
		for (int k = 0; k < 1 + is_both; k++) ok &= at[k] == cases[i].first || at[k] == cases[i].second;
		if (!ok || (is_both && at[0] == at[1]))
			print_message("# %zu: %d placed, %.9g, %.9g\n", i, found.coverage.nplaced, at[0], at[1]);
		bad += !ok || (is_both && at[0] == at[1]);
		runner_result_release(&seen);
		runner_result_release(&found);
		replay_free(r);
	}
	assert_int_equal(bad, 0);
}

/* Where no element may be another, or none that the input has room for would do, nothing is placed,
 * and the search ends within the replays that it was given. */
static void test_nothing_is_placed(void **state)
{
	static const struct {
		const char *what;
		struct trial_of t;
		enum vm_side side;
		int replays;
		int runs;
	} cases[] = {
		{"the reference changes it",
			{F32, CONSTANT("c", "100.5", "f32") COMPARE_F("ogt", "%v", "%c", "f32"), MAY_CHANGE}, SIDE_ABOVE, 2000, 3},
		{"above what is seen", {I32, CONSTANT("c", "111", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT},
			SIDE_EQUAL, 2000, 1330},
		{"below what is seen", {I32, CONSTANT("c", "-41", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT},
			SIDE_EQUAL, 2000, 1324},
		{"few replays", {I32, CONSTANT("c", "111", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT}, SIDE_EQUAL,
			100, 100},
		{"fewer than the last pass has",
			{I32, CONSTANT("c", "111", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT}, SIDE_EQUAL, 10, 10},
		{"none", {I32, CONSTANT("c", "111", "i32") COMPARE_I("eq", "%v", "%c", "i32"), AS_INPUT}, SIDE_EQUAL, 0, 0},
		{"of a type that has no order here",
			{"f8E5M2", "float8_e5m2", 1,
				CONSTANT("c", "40000.0", "f32") "%u = tt.fp_to_fp %v : tensor<16xf8E5M2> -> tensor<16xf32>\n" COMPARE_F(
					"ogt", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_ABOVE, 2000, 3},
		{"no number",
			{F32,
				CONSTANT("c", "0.0", "f32") "%u = arith.mulf %v, %v : tensor<16xf32>\n" COMPARE_F(
					"olt", "%u", "%c", "f32"),
				AS_INPUT},
			SIDE_BELOW, 2000, 828},
		/* Each turn brings the sum nearer, and there are no more than eight of the same lanes. */
		{"a sum of more than all",
			{I32,
				"%s = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%p: i32, %q: i32):\n"
				"%z = arith.addi %p, %q : i32\ntt.reduce.return %z : i32\n}) : (tensor<16xi32>) -> i32\n"
				"%n = tt.splat %s : i32 -> tensor<16xi32>\n" CONSTANT("c", "1761", "i32")
					COMPARE_I("sge", "%n", "%c", "i32"),
				AS_INPUT},
			SIDE_EQUAL, 20000, 2205},
	};
	int bad = 0;
	/* All rows are told, so that a change of the search shows whole. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		given_fill(&cases[i].t);
		struct runner_coverage c = search(&cases[i].t, cases[i].side, cases[i].replays);
		int count = nruns - 2;
		bad += c.nplaced || count != cases[i].runs;
		if (c.nplaced || count != cases[i].runs)
			print_message("# %s: %d placed after %d replays\n", cases[i].what, c.nplaced, count);
		free(c.placed);
	}
	assert_int_equal(bad, 0);
}

/* A kernel that a tape has under two numbers is one: its comparisons are told once, with what both
 * launches took. */
static void test_kernels_of_one_text(void **state)
{
	static const struct trial_of t = {F32, CONSTANT("c", "1.0", "f32") COMPARE_F("ogt", "%v", "%c", "f32"), AS_INPUT};
	struct runner_result once, twice;
	char *text = tape_text(&t);
	json_t *o = json_loads(text, 0, NULL), *kernels = json_object_get(o, "kernels"), *rows = json_object_get(o, "rows");
	json_array_append_new(kernels, json_deep_copy(json_array_get(kernels, 0)));
	json_array_append_new(rows, json_deep_copy(json_array_get(rows, 0)));
	json_object_set_new(json_array_get(rows, 1), "kernel", json_integer(1));
	/* The tape with one launch, and the one with the same launch of a second number. */
	given_fill(&t);
	struct replay *r = replay_of_text(text);
	trial_run(r, &t, NULL, 0, 0, &once);
	replay_free(r);
	r = replay_of_text(json_dumps(o, JSON_COMPACT));
	trial_run(r, &t, NULL, 0, 0, &twice);
	replay_free(r);
	const struct runner_site *a = site_of(&once, 5), *b = site_of(&twice, 5);
	assert_true(once.coverage.nsites > 0 && a && b);
	/* Nothing of this kernel hangs on a gate. */
	assert_int_equal(once.coverage.gate_line, 0);
	assert_int_equal(twice.coverage.nsites, once.coverage.nsites);
	assert_int_equal(twice.coverage.sides, once.coverage.sides);
	assert_int_equal(twice.coverage.taken, once.coverage.taken);
	assert_int_equal(b->taken, a->taken);
	json_decref(o);
	runner_result_release(&once);
	runner_result_release(&twice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_element), cmocka_unit_test(test_two_elements),
		cmocka_unit_test(test_counts), cmocka_unit_test(test_windows_of_a_sum), cmocka_unit_test(test_two_aims),
		cmocka_unit_test(test_same_elements), cmocka_unit_test(test_shares), cmocka_unit_test(test_poles),
		cmocka_unit_test(test_nothing_is_placed), cmocka_unit_test(test_kernels_of_one_text)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
