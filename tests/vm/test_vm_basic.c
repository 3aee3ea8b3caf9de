/* The thinnest path: parse, lower and launch small kernels, and what a caller can ask about a
 * kernel. Their texts are what Triton 3.6 prints. */
#include "body_kernel.h"
#include "../leaks.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define ADD_TTIR \
"#loc = loc(\"k.py\":1:0)\n" \
"module {\n" \
"  tt.func public @add(%x: !tt.ptr<f32> loc(\"x\"(#loc)), %y: !tt.ptr<f32> loc(\"y\"(#loc)), " \
"%o: !tt.ptr<f32> loc(\"o\"(#loc)), " \
"%n: i32 loc(\"n\"(#loc))) attributes {noinline = false} {\n" \
"    %cst = arith.constant dense<0.000000e+00> : tensor<128xf32> loc(#loc1)\n" \
"    %c128_i32 = arith.constant 128 : i32 loc(#loc1)\n" \
"    %p = tt.get_program_id x : i32 loc(#loc1)\n" \
"    %i = arith.muli %p, %c128_i32 : i32 loc(#loc1)\n" \
"    %i_0 = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32> loc(#loc1)\n" \
"    %i_1 = tt.splat %i : i32 -> tensor<128xi32> loc(#loc1)\n" \
"    %i_2 = arith.addi %i_1, %i_0 : tensor<128xi32> loc(#loc1)\n" \
"    %m = tt.splat %n : i32 -> tensor<128xi32> loc(#loc1)\n" \
"    %m_3 = arith.cmpi slt, %i_2, %m : tensor<128xi32> loc(#loc1)\n" \
"    %0 = tt.splat %o : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc1)\n" \
"    %1 = tt.addptr %0, %i_2 : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc1)\n" \
"    %2 = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc1)\n" \
"    %3 = tt.addptr %2, %i_2 : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc1)\n" \
"    %4 = tt.load %3, %m_3 : tensor<128x!tt.ptr<f32>> loc(#loc2)\n" \
"    %5 = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>> loc(#loc1)\n" \
"    %6 = tt.addptr %5, %i_2 : tensor<128x!tt.ptr<f32>>, tensor<128xi32> loc(#loc1)\n" \
"    %7 = tt.load %6, %m_3, %cst : tensor<128x!tt.ptr<f32>> loc(#loc2)\n" \
"    %8 = arith.addf %4, %7 : tensor<128xf32> loc(#loc1)\n" \
"    tt.store %1, %8, %m_3 : tensor<128x!tt.ptr<f32>> loc(#loc3)\n" \
"    tt.return loc(#loc1)\n" \
"  } loc(#loc)\n" \
"} loc(#loc)\n" \
"#loc1 = loc(\"k.py\":2:4)\n#loc2 = loc(\"k.py\":3:4)\n#loc3 = loc(\"k.py\":4:4)\n"

#define N 300

struct fixture {
	struct vm_kernel *k;
	float x[N], y[N], o[N + 4];
	uint8_t origin[(N + 4) * 4];
	struct vm_buffer buffers[3];
	struct vm_arg args[4];
	struct vm_launch_options options;
};

static void fixture_open(struct fixture *f)
{
	struct err err = {0};
	memset(f, 0, sizeof *f);
	if (vm_kernel_create(ADD_TTIR, sizeof ADD_TTIR - 1, &f->k, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < N; i++) {
		f->x[i] = (float)i;
		f->y[i] = 0.5f * (float)i;
	}
	void *data[3] = {f->x, f->y, f->o};
	for (int b = 0; b < 3; b++) {
		f->buffers[b] = (struct vm_buffer){.address = tape_buffer_address(b), .bytes = N * 4, .data = data[b]};
		f->args[b].i = (int64_t)tape_buffer_address(b);
	}
	f->args[3].i = N;
	f->options = (struct vm_launch_options){
		.grid = {3, 1, 1}, .args = f->args, .nargs = 4, .buffers = f->buffers, .nbuffers = 3};
}

static void test_add(void **state)
{
	struct fixture f;
	struct vm_report r;
	struct err err = {0};
	fixture_open(&f);
	for (int i = 0; i < 4; i++) f.o[N + i] = 77;
	if (vm_launch(f.k, &f.options, &r, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < N; i++) assert_true(f.o[i] == 1.5f * (float)i);
	for (int i = 0; i < 4; i++) assert_true(f.o[N + i] == 77);
	vm_report_release(&r);
	vm_kernel_free(f.k);
}

static void test_out_of_bounds(void **state)
{
	struct fixture f;
	struct vm_report r;
	struct err err = {0};
	fixture_open(&f);
	f.args[3].i = N + 1;
	f.buffers[0].bytes = f.buffers[1].bytes = N * 4 + 4; /* the loads are fine; y is followed by o in this struct */
	assert_int_equal(vm_launch(f.k, &f.options, &r, &err), ERR_MISMATCH);
	assert_int_equal(r.fault, VM_FAULT_OUT_OF_BOUNDS);
	assert_int_equal(r.line, 4);
	assert_int_equal(r.program[0], 2);
	assert_int_equal(r.element, N - 256);
	vm_report_release(&r);
	vm_kernel_free(f.k);
}

/* Loads in the rest of a buffer's last granule are noted and stop nothing, where that is asked for;
 * beyond it, and where they are not aligned, they stop as ever, and a store always does. */
static void test_load_granule(void **state)
{
	static const struct {
		int64_t granule, bytes; /* of the first buffer, of which N * 4 are read */
		int64_t off;            /* of its address */
		int64_t written;        /* bytes of the last buffer */
		int rc;
	} cases[] = {
		{0, N * 4 - 4, 0, N * 4, ERR_MISMATCH},
		{32, N * 4 - 4, 0, N * 4, 0},
		{32, N * 4 - 12, 0, N * 4, 0},
		{32, N * 4 / 32 * 32, 0, N * 4, ERR_MISMATCH},
		{16, N * 4 - 16, 0, N * 4, ERR_MISMATCH},
		{32, N * 4 - 4, 2, N * 4, ERR_MISMATCH},
		{32, N * 4, 0, N * 4 - 4, ERR_MISMATCH},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		struct vm_report r;
		struct err err = {0};
		fixture_open(&f);
		f.options.load_granule = cases[i].granule;
		f.buffers[0].bytes = cases[i].bytes;
		f.buffers[2].bytes = cases[i].written;
		f.args[0].i += cases[i].off;
		int rc = vm_launch(f.k, &f.options, &r, &err);
		if (rc != cases[i].rc) fail_msg("case %zu: %d: %s", i, rc, r.text);
		bool is_noted = !rc && cases[i].granule;
		assert_true(r.is_passed_over == is_noted);
		if (is_noted) assert_true(r.fault == VM_FAULT_OUT_OF_BOUNDS && r.line == 3);
		/* What was there is added as it is. */
		for (int k = 0; k < (int)(cases[i].bytes / 4) && !rc; k++) assert_true(f.o[k] == 1.5f * (float)k);
		vm_report_release(&r);
		vm_kernel_free(f.k);
	}
}

static void test_describe(void **state)
{
	struct fixture f;
	fixture_open(&f);
	assert_string_equal(vm_kernel_name(f.k), "add");
	assert_int_equal(vm_kernel_nargs(f.k), 4);
	assert_string_equal(vm_kernel_arg_type(f.k, 0), "!tt.ptr<f32>");
	assert_string_equal(vm_kernel_arg_type(f.k, 3), "i32");
	assert_true(vm_kernel_arg_is_pointer(f.k, 2));
	assert_false(vm_kernel_arg_is_pointer(f.k, 3));
	vm_kernel_free(f.k);
}

static void test_cost(void **state)
{
	struct fixture f;
	struct vm_report r;
	struct err err = {0};
	fixture_open(&f);
	f.options.want_cost = true;
	if (vm_launch(f.k, &f.options, &r, &err)) fail_msg("%s", err.text);
	assert_int_equal(r.cost.programs, 3);
	assert_int_equal(r.cost.load_bytes, 2 * N * 4);
	assert_int_equal(r.cost.store_bytes, N * 4);
	assert_int_equal(r.cost.load_sectors, 2 * ((N * 4 + 31) / 32));
	assert_int_equal(r.cost.flops, 3 * 128);
	assert_int_equal(r.cost.footprint_bytes, 3 * ((N * 4 + 31) / 32) * 32);
	assert_int_equal(r.nlines, 3);
	vm_report_release(&r);
	vm_kernel_free(f.k);
}

static void test_threads(void **state)
{
	struct fixture f;
	struct vm_report r;
	struct err err = {0};
	fixture_open(&f);
	f.options.pool = pool_create(2);
	if (vm_launch(f.k, &f.options, &r, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < N; i++) assert_true(f.o[i] == 1.5f * (float)i);
	pool_free(f.options.pool);
	vm_report_release(&r);
	vm_kernel_free(f.k);
}

/* Each program of a grid adds 1 at a place of its own, and keeps what it found there;
 * in order, and in turns. */
static void test_places_in_a_grid(void **state)
{
	enum { X = 2, Y = 3, Z = 5, PLACES = X * Y * Z };
	int32_t data[3][PLACES];
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"),
		"%x = tt.get_program_id x : i32\n%y = tt.get_program_id y : i32\n%z = tt.get_program_id z : i32\n"
		"%c2 = arith.constant 2 : i32\n%c3 = arith.constant 3 : i32\n%one = arith.constant 1 : i32\n"
		"%t = arith.constant true\n%zy = arith.muli %z, %c3 : i32\n%rows = arith.addi %zy, %y : i32\n"
		"%row = arith.muli %rows, %c2 : i32\n%at = arith.addi %row, %x : i32\n"
		"%p = tt.addptr %c, %at : !tt.ptr<i32>, i32\n%q = tt.addptr %b, %at : !tt.ptr<f32>, i32\n"
		"%old = tt.atomic_rmw add, acq_rel, gpu, %p, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
		"%v = arith.sitofp %old : i32 to f32\ntt.store %q, %v : !tt.ptr<f32>\n",
		data, sizeof data[0], sizeof data[0], 0);
	for (uint64_t schedule = 0; schedule < 3; schedule++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {
			.grid = {X, Y, Z}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3, .schedule = schedule};
		memset(data, 0, sizeof data);
		if (vm_launch(b.k, &o, &r, &err)) fail_msg("schedule %d: %s", (int)schedule, err.text);
		for (int i = 0; i < PLACES; i++) assert_int_equal(data[2][i], 1);
		vm_report_release(&r);
	}
	vm_kernel_free(b.k);
}

/* In turns a program may be stopped between two atomics, so that who came first at one place comes
 * later at another; in order nobody is. */
static void test_turns(void **state)
{
	enum { PROGRAMS = 4 };
	int32_t data[3][2 * PROGRAMS];
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"),
		"%x = tt.get_program_id x : i32\n%one = arith.constant 1 : i32\n%t = arith.constant true\n"
		"%two = tt.addptr %c, %one : !tt.ptr<i32>, i32\n"
		"%first = tt.atomic_rmw add, acq_rel, gpu, %c, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
		"%second = tt.atomic_rmw add, acq_rel, gpu, %two, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
		"%d = arith.subi %first, %second : i32\n%v = arith.sitofp %d : i32 to f32\n"
		"%q = tt.addptr %b, %x : !tt.ptr<f32>, i32\ntt.store %q, %v : !tt.ptr<f32>\n",
		data, sizeof data[0], sizeof data[0], 0);
	bool differs[8] = {false}, any = false;
	for (uint64_t schedule = 0; schedule < ARRAY_LEN(differs); schedule++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {.grid = {PROGRAMS, 1, 1},
			.args = b.args,
			.nargs = 4,
			.buffers = b.buffers,
			.nbuffers = 3,
			.schedule = schedule};
		memset(data, 0, sizeof data);
		if (vm_launch(b.k, &o, &r, &err)) fail_msg("schedule %d: %s", (int)schedule, err.text);
		vm_report_release(&r);
		/* Whatever the order, each has counted at both places. */
		assert_true(data[2][0] == PROGRAMS && data[2][1] == PROGRAMS);
		for (int i = 0; i < PROGRAMS; i++) differs[schedule] |= data[1][i] != 0;
		any |= differs[schedule];
	}
	assert_true(any && !differs[0]);
	vm_kernel_free(b.k);
}

/* Who first stands before a store behind an atomic sleeps there, whichever of the residents it is,
 * until all others have gone on: it comes last to what follows. */
static void test_who_sleeps(void **state)
{
	enum { PROGRAMS = 4 };
	int32_t data[3][2 * PROGRAMS];
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"),
		"%x = tt.get_program_id x : i32\n%one = arith.constant 1 : i32\n%t = arith.constant true\n"
		"%two = tt.addptr %c, %one : !tt.ptr<i32>, i32\n"
		"%ai = tt.bitcast %a : !tt.ptr<f32> -> !tt.ptr<i32>\n%bi = tt.bitcast %b : !tt.ptr<f32> -> !tt.ptr<i32>\n"
		"%p = tt.addptr %ai, %x : !tt.ptr<i32>, i32\n%q = tt.addptr %bi, %x : !tt.ptr<i32>, i32\n"
		"%first = tt.atomic_rmw add, acq_rel, gpu, %c, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
		"tt.store %p, %first : !tt.ptr<i32>\n"
		"%second = tt.atomic_rmw add, acq_rel, gpu, %two, %one, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"
		"tt.store %q, %second : !tt.ptr<i32>\n",
		data, sizeof data[0], sizeof data[0], 0);
	bool was_first[PROGRAMS] = {false};
	for (uint64_t schedule = 1; schedule < 30; schedule++) {
		struct vm_report r;
		struct err err = {0};
		struct vm_launch_options o = {.grid = {PROGRAMS, 1, 1},
			.args = b.args,
			.nargs = 4,
			.buffers = b.buffers,
			.nbuffers = 3,
			.schedule = schedule};
		memset(data, 0, sizeof data);
		if (vm_launch(b.k, &o, &r, &err)) fail_msg("schedule %d: %s", (int)schedule, err.text);
		vm_report_release(&r);
		for (int i = 0; i < PROGRAMS; i++) {
			was_first[i] |= data[0][i] == 0;
			if (data[0][i] == 0) assert_int_equal(data[1][i], PROGRAMS - 1);
		}
	}
	/* The schedules begin with each of them. */
	for (int i = 0; i < PROGRAMS; i++) assert_true(was_first[i]);
	vm_kernel_free(b.k);
}

/* An atomic without a mask works on all lanes, and a compare-and-swap stores where it finds what it
 * expects and nowhere else. */
static void test_atomics(void **state)
{
	int32_t data[3][4] = {{0}, {0}, {7, 5, 5, 0}};
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"),
		"%i = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>\n"
		"%s = tt.splat %c : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>\n"
		"%p = tt.addptr %s, %i : tensor<2x!tt.ptr<i32>>, tensor<2xi32>\n"
		"%five = arith.constant dense<5> : tensor<2xi32>\n%nine = arith.constant dense<9> : tensor<2xi32>\n"
		"%x = tt.atomic_cas acq_rel, gpu, %p, %five, %nine : (tensor<2x!tt.ptr<i32>>, tensor<2xi32>, "
		"tensor<2xi32>) -> tensor<2xi32>\n"
		"%y = tt.atomic_rmw add, acq_rel, gpu, %p, %five : (tensor<2x!tt.ptr<i32>>, tensor<2xi32>) -> tensor<2xi32>\n",
		data, sizeof data[0], sizeof data[0], 0);
	struct vm_report r;
	struct err err = {0};
	struct vm_launch_options o = {.grid = {1, 1, 1}, .args = b.args, .nargs = 4, .buffers = b.buffers, .nbuffers = 3};
	if (vm_launch(b.k, &o, &r, &err)) fail_msg("%s", err.text);
	/* 7 stayed and became 12; 5 became 9 and then 14; the others are beyond the block. */
	assert_true(data[2][0] == 12 && data[2][1] == 14 && data[2][2] == 5 && data[2][3] == 0);
	vm_report_release(&r);
	vm_kernel_free(b.k);
}

/* Names of libdevice: a function of both types, a type in front of a rounding, a fast form; and
 * what only looks like one. */
static void test_libdevice_names(void **state)
{
	static const struct {
		const char *symbol;
		bool is_double;
		bool is_known;
	} rows[] = {{"__nv_expf", false, true}, {"__nv_exp", true, true}, {"__nv_fast_expf", false, true},
		{"__nv_frcp_rn", false, true}, {"__nv_drcp_rn", true, true}, {"__nv_expf", true, false},
		{"__nv_qexp", true, false}, {"__nv_fexp", false, false}, {"__nv_qrcp_rn", false, false},
		{"__nv_fexp_rn", false, false}, {"__nv_fast_", false, false}, {"__nv_", true, false},
		{"__nw_expf", false, false}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *type = rows[i].is_double ? "f64" : "f32";
		struct str text = {0};
		struct vm_kernel *k = NULL;
		struct err err = {0};
		/* A kernel of that one call. */
		str_printf(&text,
			"%s%%x = arith.constant 1.0 : %s\n%%y = tt.extern_elementwise %%x {libname = \"\", libpath = "
			"\"\", pure = true, symbol = \"%s\"} : (%s) -> %s\n" TAIL,
			BODY_HEAD("i32"), type, rows[i].symbol, type, type);
		int rc = vm_kernel_create(text.data, text.len, &k, &err);
		if (rc != (rows[i].is_known ? 0 : ERR_UNSUPPORTED)) fail_msg("%s of %s: %s", rows[i].symbol, type, err.text);
		if (!rc) vm_kernel_free(k);
		str_release(&text);
	}
}

/* A kernel of one call of libdevice with n operands of a type; the code of its making. */
static int libdevice_call(const char *symbol, const char *type, int n, struct err *err)
{
	struct str text = {0};
	struct vm_kernel *k = NULL;
	bool is_int = *type == 'i';
	str_printf(&text, "%s%%x = arith.constant %s : %s\n%%y = tt.extern_elementwise ", BODY_HEAD("i32"),
		is_int ? "1" : "1.0", type);
	for (int i = 0; i < n; i++) str_puts(&text, i ? ", %x" : "%x");
	str_printf(&text, " {libname = \"\", libpath = \"\", pure = true, symbol = \"%s\"} : (", symbol);
	for (int i = 0; i < n; i++) str_printf(&text, "%s%s", i ? ", " : "", type);
	str_printf(&text, ") -> %s\n" TAIL, type);
	int rc = vm_kernel_create(text.data, text.len, &k, err);
	if (!rc) vm_kernel_free(k);
	str_release(&text);
	return rc;
}

/* Each function of libdevice that a kernel may call takes as many operands as CUDA's manual says,
 * and no other number of them. */
static void test_libdevice_operands(void **state)
{
	static const struct {
		const char *type;
		int n;
		const char *names; /* behind __nv_ */
	} rows[] = {
		{"f32", 1,
			"erff erfcf erfinvf normcdff expf exp2f exp10f expm1f logf log2f log10f log1pf sinf cosf tanf sinhf coshf "
			"tanhf asinf acosf atanf asinhf acoshf atanhf cbrtf rcbrtf sqrtf fsqrt_rn rsqrtf frsqrt_rn frcp_rn fabsf "
			"floorf ceilf truncf rintf nearbyintf roundf saturatef lgammaf tgammaf logbf sinpif cospif j0f j1f y0f y1f "
			"fast_expf fast_exp10f fast_sinf fast_cosf fast_tanf fast_log2f fast_logf fast_log10f"},
		{"f32", 2,
			"powf atan2f hypotf fdimf fmodf remainderf nextafterf copysignf fadd_rn fsub_rn fmul_rn fdiv_rn fdividef "
			"fmaxf fminf fast_fdividef fast_powf"},
		{"f32", 3, "fmaf fmaf_rn"},
		{"f64", 1, "exp log sin fabs floor rint drcp_rn dsqrt_rn tgamma"},
		{"f64", 2, "pow atan2 dadd_rn dsub_rn dmul_rn ddiv_rn fmax fmin"},
		{"f64", 3, "fma fma_rn"},
		{"i32", 1, "abs popc clz ffs brev"},
		{"i32", 2, "mulhi umulhi"},
		{"i64", 1, "llabs brevll"},
		{"i64", 2, "mul64hi umul64hi"},
	};
	/* Each name with one, two and three operands. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (const char *p = rows[i].names; *p; p += strspn(p, " ")) {
			char symbol[48];
			int len = (int)strcspn(p, " ");
			snprintf(symbol, sizeof symbol, "__nv_%.*s", len, p);
			for (int n = 1; n <= 3; n++) {
				struct err err = {0};
				int rc = libdevice_call(symbol, rows[i].type, n, &err);
				if (rc != (n == rows[i].n ? 0 : ERR_UNSUPPORTED))
					fail_msg("%s of %d %s: %d: %s", symbol, n, rows[i].type, rc, err.text);
			}
			p += len;
		}
}

/* Launches leave no memory behind, whatever their checks kept to the end: sums that wrap in some
 * lanes, in a program that goes on and in one that ends with a fault. */
static void launch_all(void *ctx)
{
	int32_t data[3][8] = {{0}};
	struct body_kernel b = body_kernel_make(BODY_HEAD("i32"),
		"%i = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>\n"
		"%most = arith.constant dense<2147483647> : tensor<8xi32>\n"
		"%wrapped = arith.addi %i, %most : tensor<8xi32>\n%no = arith.constant dense<false> : tensor<8xi1>\n"
		"%cs = tt.splat %c : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>\n"
		"%cp = tt.addptr %cs, %wrapped : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
		"tt.store %cp, %i, %no : tensor<8x!tt.ptr<i32>>\n"
		"%p = tt.addptr %c, %n : !tt.ptr<i32>, i32\ntt.store %p, %n : !tt.ptr<i32>\n",
		data, sizeof data[0], sizeof data[0], 0);
	struct vm_report r;
	struct err err = {0};
	struct vm_launch_options o = {.grid = {2, 1, 1},
		.args = b.args,
		.nargs = 4,
		.buffers = b.buffers,
		.nbuffers = 3,
		.checks = VM_CHECK_ALL,
		.findings_max = 8};
	/* Without a fault, and with one. */
	for (int is_outside = 0; is_outside < 2; is_outside++) {
		b.args[3].i = is_outside ? 8 : 7;
		assert_int_equal(vm_launch(b.k, &o, &r, &err), is_outside ? ERR_MISMATCH : 0);
		vm_report_release(&r);
	}
	vm_kernel_free(b.k);
	test_add(NULL);
	test_out_of_bounds(NULL);
	test_libdevice_names(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(launch_all, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_out_of_bounds),
		cmocka_unit_test(test_load_granule),
		cmocka_unit_test(test_describe),
		cmocka_unit_test(test_cost),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_places_in_a_grid),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_who_sleeps),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_libdevice_names),
		cmocka_unit_test(test_libdevice_operands),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
