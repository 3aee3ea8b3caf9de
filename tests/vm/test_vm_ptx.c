/* Inline assembly: each PTX instruction on a pair of registers beside its value from C, packing of
 * elements, and what is refused by name. */
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static uint32_t F(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

#define N 8
static bool is_crosswise; /* of the next runs */

/* Runs `text` with $0 the result and $1, $2 the operands, on N copies of x and y of `bits` bits. */
static int run(const char *text, const char *constraints, int bits, int pack, const void *x, const void *y, void *r,
	struct err *err)
{
	struct vm_kernel *k;
	struct vm_report report;
	struct str t = {0};
	static const char names[] = "abc";
	size_t bytes = (size_t)N * (size_t)bits / 8;
	/* The kernel: a and b are loaded, the inline assembly runs, its result is stored to c. */
	str_printf(&t,
		"module { tt.func public @k(%%a: !tt.ptr<i%d>, %%b: !tt.ptr<i%d>, %%c: !tt.ptr<i%d>) {\n"
		"%%i = tt.make_range {end = %d : i32, start = 0 : i32} : tensor<%dxi32>\n",
		bits, bits, bits, N, N);
	for (int i = 0; i < 3; i++)
		str_printf(&t,
			"%%%cs = tt.splat %%%c : !tt.ptr<i%d> -> tensor<%dx!tt.ptr<i%d>>\n%%%cp = tt.addptr %%%cs, %%i : "
			"tensor<%dx!tt.ptr<i%d>>, tensor<%dxi32>\n",
			names[i], names[i], bits, N, bits, names[i], names[i], N, bits, N);
	str_printf(&t,
		"%%x = tt.load %%ap : tensor<%dx!tt.ptr<i%d>>\n%%y = tt.load %%bp : tensor<%dx!tt.ptr<i%d>>\n"
		"%%r = tt.elementwise_inline_asm \"%s\" {constraints = \"%s\", packed_element = %d : i32, pure = true} %%x, "
		"%%y : tensor<%dxi%d>, tensor<%dxi%d> -> tensor<%dxi%d>\n"
		"tt.store %%cp, %%r : tensor<%dx!tt.ptr<i%d>>\ntt.return } }",
		N, bits, N, bits, text, constraints, pack, N, bits, N, bits, N, bits, N, bits);
	/* What cannot be parsed is the caller's to expect. */
	int rc = vm_kernel_create(t.data, t.len, &k, err);
	str_release(&t);
	if (rc) return rc;
	struct vm_buffer buffers[3];
	struct vm_arg args[3];
	const void *data[3] = {x, y, r};
	for (int i = 0; i < 3; i++) {
		buffers[i] = (struct vm_buffer){
			.address = tape_buffer_address(i), .bytes = (int64_t)bytes, .data = (uint8_t *)(intptr_t)data[i]};
		args[i] = (struct vm_arg){.i = (int64_t)tape_buffer_address(i)};
	}
	struct vm_launch_options o = {
		.grid = {1, 1, 1}, .args = args, .nargs = 3, .buffers = buffers, .nbuffers = 3, .crosswise = is_crosswise};
	rc = vm_launch(k, &o, &report, err);
	vm_report_release(&report);
	vm_kernel_free(k);
	return rc;
}

static void test_words(void **state)
{
	const struct {
		const char *text;
		uint32_t x, y, want;
	} words[] = {
		{"add.u32 $0, $1, $2;", 0xffffffff, 2, 1},
		{"sub.s32 $0, $1, $2;", 3, 5, 0xfffffffe},
		{"mul.lo.u32 $0, $1, $2;", 0x10001, 0x10001, 0x20001},
		{"mul.hi.s32 $0, $1, $2;", 0x80000000, 4, 0xfffffffe},
		{"mul.hi.u32 $0, $1, $2;", 0x80000000, 4, 2},
		{"mad.lo.u32 $0, $1, $2, 7;", 5, 6, 37},
		{"div.s32 $0, $1, $2;", 0xfffffff9, 2, 0xfffffffd},
		{"rem.u32 $0, $1, $2;", 17, 5, 2},
		{"{ .reg .b64 w; .reg .b32 hi; mul.wide.s32 w, $1, $2; mov.b64 {_, hi}, w; mov.b32 $0, hi; }", 0xffffffff, 3,
			0xffffffff},
		{"and.b32 $0, $1, 0b1100;", 10, 0, 8},
		{"add.s32 $0, $1, -3;", 5, 0, 2},
		{"add.s32 $0, $1, -0x1f;", 0x20, 0, 1},
		{"add.s32 $0, $1, -0b101;", 7, 0, 2},
		{"add.s32 $0, $1, -010;", 9, 0, 1},
		{"add.u32 $0, $1, 3U;", 1, 0, 4},
		{"mul.f32 $0, $1, -2.5;", F(2.0f), 0, F(-5.0f)},
		{"not.b32 $0, $1;", 0xff, 0, 0xffffff00},
		{"shl.b32 $0, $1, $2;", 1, 32, 0},
		{"shr.s32 $0, $1, $2;", 0x80000000, 31, 0xffffffff},
		{"shr.u32 $0, $1, 0x1f;", 0x80000000, 0, 1},
		{"min.s32 $0, $1, $2;", 0xffffffff, 1, 0xffffffff},
		{"min.u32 $0, $1, $2;", 0xffffffff, 1, 1},
		{"popc.b32 $0, $1;", 0xf0f0, 0, 8},
		{"clz.b32 $0, $1;", 0x00010000, 0, 15},
		{"brev.b32 $0, $1;", 1, 0, 0x80000000},
		{"{ .reg .b64 w; .reg .b32 hi; mov.b64 w, {$1, $2}; mad.wide.u32 w, $1, $2, w; mov.b64 {_, hi}, w; mov.b32 $0, "
		 "hi; }",
			0x80000000, 4, 6},
		{"mul24.lo.s32 $0, $1, $2;", 0x00ffffff, 5, 0xfffffffb},
		{"mul24.hi.u32 $0, $1, $2;", 0xff800000, 0x800000, 0x40000000},
		{"mad24.lo.u32 $0, $1, $2, 9;", 0xff000003, 5, 24},
		{"sad.s32 $0, $1, $2, 10;", 0xffffffff, 4, 15},
		{"sad.u32 $0, $1, $2, 10;", 0xffffffff, 4, 5},
		{"cnot.b32 $0, $1;", 0, 0, 1},
		{"bfind.u32 $0, $1;", 0x00ff0000, 0, 23},
		{"bfind.s32 $0, $1;", 0xfffffff0, 0, 3},
		{"bfind.u32 $0, $1;", 0, 0, 0xffffffff},
		{"fns.b32 $0, $1, 0, $2;", 0xb0, 2, 5},
		{"fns.b32 $0, $1, 0, $2;", 0xb0, 4, 0xffffffff},
		{"fns.b32 $0, $1, 31, $2;", 0xb0, 0xffffffff, 7},
		{"fns.b32 $0, $1, $2, 0;", 0xb0, 5, 5},
		{"fns.b32 $0, $1, $2, 0;", 0xb0, 6, 0xffffffff},
		{"prefetch.global.L2 [$1]; mov.b32 $0, $2;", 0, 7, 7},
		{"bfe.u32 $0, $1, 4, 8;", 0xabcdef, 0, 0xde},
		{"bfe.s32 $0, $1, 4, 8;", 0xabcdef, 0, 0xffffffde},
		{"bfi.b32 $0, $1, $2, 8, 4;", 0xff, 0x0, 0xf00},
		{"prmt.b32 $0, $1, $2, 0x5140;", 0x03020100, 0x07060504, 0x05010400},
		{"prmt.b32 $0, $1, $2, 0x9998;", 0x8000, 0, 0xffffff00},
		{"lop3.b32 $0, $1, $2, 0x0f, 0xea;", 0xf0, 0x30, 0x3f},
		{"lop3.b32 $0, $1, $2, 0x0f, 0x96;", 0xff, 0x0f, 0xff},
		{"shf.r.wrap.b32 $0, $1, $2, 8;", 0x12345678, 0xab, 0xab123456},
		{"shf.l.wrap.b32 $0, $1, $2, 8;", 0x12345678, 0xab, 0xab12},
		{"{ .reg .pred p, q; setp.lt.s32 p|q, $1, $2; selp.b32 $0, 11, 22, p; @q add.u32 $0, $0, 100; }", 5, 0xffffffff,
			122},
		{"{ .reg .pred p; setp.lo.u32 p, $1, $2; selp.b32 $0, 1, 0, p; }", 5, 0xffffffff, 1},
		{"{ .reg .b16 a, b; mov.b32 {a, b}, $1; mov.b32 $0, {b, a}; }", 0x11112222, 0, 0x22221111},
		{"{ .reg .b32 t<3>; mov.u32 t2, $1; /* two */ mov.u32 $0, t2; } // done", 9, 0, 9},
		{"cvt.u32.u8 $0, $1;", 0x1ff, 0, 0xff},
		{"cvt.s32.s8 $0, $1;", 0x80, 0, 0xffffff80},
		{"mov.u32 $0, %ctaid.x; griddepcontrol.wait; bar.sync 0;", 1, 1, 0},
		{"add.f32 $0, $1, $2;", F(1.5f), F(2.25f), F(3.75f)},
		{"fma.rn.f32 $0, $1, $2, 0f3f800000;", F(0x1.000002p0f), F(0x1.000002p0f), F(0x1.000002p1f)},
		{"mul.ftz.f32 $0, $1, $2;", F(0x1p-100f), F(0x1p-30f), F(0.0f)},
		{"mul.f32 $0, $1, $2;", F(0x1p-100f), F(0x1p-30f), F(0x1p-130f)},
		{"div.full.f32 $0, $1, $2;", F(1.0f), F(4.0f), F(0.25f)},
		{"ex2.approx.ftz.f32 $0, $1;", F(3.0f), 0, F(8.0f)},
		{"lg2.approx.f32 $0, $1;", F(0.25f), 0, F(-2.0f)},
		{"rsqrt.approx.f32 $0, $1;", F(16.0f), 0, F(0.25f)},
		{"tanh.approx.f32 $0, $1;", F(50.0f), 0, F(1.0f)},
		{"add.sat.f32 $0, $1, $2;", F(0.75f), F(0.5f), F(1.0f)},
		{"min.f32 $0, $1, $2;", F(NAN), F(2.0f), F(2.0f)},
		{"max.f32 $0, $1, $2;", F(2.0f), F(NAN), F(2.0f)},
		{"min.NaN.f32 $0, $1, $2;", F(NAN), F(2.0f), F(NAN)},
		{"max.NaN.f32 $0, $1, $2;", F(2.0f), F(NAN), F(NAN)},
		{"max.xorsign.abs.f32 $0, $1, $2;", F(-3.0f), F(2.0f), F(-3.0f)},
		{"copysign.f32 $0, $1, $2;", F(-1.0f), F(5.0f), F(-5.0f)},
		{"{ .reg .pred p; setp.gtu.f32 p, $1, $2; selp.f32 $0, 1., 0., p; }", F(NAN), F(2.0f), F(1.0f)},
		{"mul.f16x2 $0, $1, $2;", 0x40003c00, 0x42003800, 0x46003800},
		{"fma.rn.bf16x2 $0, $1, $2, $2;", 0x40003f80, 0x40403f00, 0x41103f80},
		{"cvt.rni.s32.f32 $0, $1;", F(2.5f), 0, 2},
		{"cvt.rzi.u32.f32 $0, $1;", F(-7.0f), 0, 0},
		{"cvt.rzi.s32.f32 $0, $1;", F(1e20f), 0, 0x7fffffff},
		{"cvt.rpi.f32.f32 $0, $1;", F(1.25f), 0, F(2.0f)},
		{"cvt.rn.f32.s32 $0, $1;", 0xfffffffd, 0, F(-3.0f)},
		{"cvt.rn.f16x2.f32 $0, $1, $2;", F(1.0f), F(2.0f), 0x3c004000},
		{"cvt.rz.bf16x2.f32 $0, $1, $2;", F(0x1.01ffp0f), F(2.0f), 0x3f804000},
		{"cvt.rna.tf32.f32 $0, $1;", F(0x1.002p0f), 0, F(0x1.004p0f)},
		{"{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, $1, $2; cvt.u32.u16 $0, t; }", F(1e9f), F(1.0f), 0x7e38},
		{"{ .reg .b16 t, a, b; cvt.u16.u32 t, $1; cvt.rn.f16x2.e5m2x2 $0, t; }", 0x3c40, 0, 0x3c004000},
	};
	/* Every element of the block has the same word. */
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		uint32_t x[N], y[N], r[N] = {0};
		struct err err = {0};
		for (int k = 0; k < N; k++) {
			x[k] = words[i].x;
			y[k] = words[i].y;
		}
		if (run(words[i].text, "=r,r,r", 32, 1, x, y, r, &err)) fail_msg("%s in %s", err.text, words[i].text);
		for (int k = 0; k < N; k++)
			if (r[k] != words[i].want)
				fail_msg("%s: element %d is %#x, expected %#x", words[i].text, k, r[k], words[i].want);
	}
}

/* An approximation is off by what PTX lets it be, and by no more: half of that is asked for here,
 * so that a correctly rounded value fails. */
static void test_approximations(void **state)
{
	static const struct {
		const char *text;
		float x;
		double exact;
		double error; /* PTX's */
	} rows[] = {
		{"tanh.approx.f32 $0, $1;", 0.5f, 0.46211715726, 0x1p-11 * 0.4621},
		{"tanh.approx.f32 $0, $1;", -0.75f, -0.63514895238, 0x1p-11 * 0.6351},
		{"sin.approx.f32 $0, $1;", 1.0f, 0.84147098481, 0x1p-21},
		{"cos.approx.ftz.f32 $0, $1;", 4096.0f, 0.80399061349, 0x1p-14 * 4096 / 314.159},
		{"lg2.approx.f32 $0, $1;", 1.0001f, 0.00014428622869, 0x1p-22},
	};
	/* One value in all lanes is enough: neighbours err alike. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = {0};
		float x[N], y[N] = {0}, r[N];
		for (int k = 0; k < N; k++) x[k] = rows[i].x;
		assert_int_equal(run(rows[i].text, "=f,f,f", 32, 1, x, y, r, &err), 0);
		double off = fabs((double)r[0] - rows[i].exact);
		if (off < rows[i].error / 2 || off > rows[i].error * 1.1)
			fail_msg("%s of %g: %.9g, off by %g; expected about %g", rows[i].text, (double)rows[i].x, (double)r[0], off,
				rows[i].error);
	}
	struct err err = {0};
	double x[N] = {3, 3, 3, 3, 3, 3, 3, 3}, y[N] = {0}, r[N];
	assert_int_equal(run("rcp.approx.ftz.f64 $0, $1;", "=d,d,d", 64, 1, x, y, r, &err), 0);
	assert_true(fabs(r[0] * 3 - 1) > 0x1p-21 && fabs(r[0] * 3 - 1) < 0x1.1p-20);
	float zero[N] = {0}, s[N];
	assert_int_equal(run("sin.approx.f32 $0, $1;", "=f,f,f", 32, 1, zero, zero, s, &err), 0);
	assert_true(s[0] == 0);
}

/* Four bytes share a register, of a pack of two elements half of it is used; wider elements have a
 * register each. */
static void test_packs(void **state)
{
	struct err err = {0};
	uint8_t x[N] = {1, 2, 3, 4, 250, 6, 7, 8}, y[N] = {1, 1, 1, 1, 10, 1, 1, 1}, r[N];
	assert_int_equal(run("add.u32 $0, $1, $2;", "=r,r,r", 8, 4, x, y, r, &err), 0);
	static const uint8_t carried[N] = {2, 3, 4, 5, 4, 8, 8, 9};
	assert_memory_equal(r, carried, N);
	assert_int_equal(run("prmt.b32 $0, $1, $2, 0x5410;", "=r,r,r", 8, 2, x, y, r, &err), 0);
	assert_memory_equal(r, x, N);
	uint32_t a[N] = {1, 2, 3, 4, 5, 6, 7, 8}, b[N] = {10, 20, 30, 40, 50, 60, 70, 80}, s[N];
	assert_int_equal(run("add.u32 $0, $2, $5; sub.u32 $1, $3, $4;", "=r,=&r,r,r,r,r", 32, 2, a, b, s, &err), 0);
	for (int i = 0; i < N; i += 2) {
		assert_int_equal(s[i], a[i] + b[i + 1]);
		assert_int_equal(s[i + 1], a[i + 1] - b[i]);
	}
	uint64_t wide[N] = {1ull << 40, 2, 3, 4, 5, 6, 7, 8}, other[N] = {0}, t[N];
	assert_int_equal(run("add.u64 $0, $1, 1;", "=l,l,l", 64, 1, wide, other, t, &err), 0);
	assert_true(t[0] == (1ull << 40) + 1);
	assert_int_equal(run("add.u32 $0, $0, 1;", "=r,0,r", 32, 1, a, b, s, &err),
		0); /* the first operand is in the result's register */
	assert_int_equal(s[3], 5);
}

/* Which elements are packed together is open: the other way, they are half of the block apart. */
static void test_packs_crosswise(void **state)
{
	struct err err = {0};
	uint32_t a[N] = {1, 2, 3, 4, 5, 6, 7, 8}, b[N] = {10, 20, 30, 40, 50, 60, 70, 80}, s[N];
	uint8_t x[N] = {1, 2, 3, 4, 250, 6, 7, 8}, y[N] = {1, 1, 1, 1, 10, 1, 1, 1}, r[N];
	is_crosswise = true;
	int rc = run("add.u32 $0, $2, $5; sub.u32 $1, $3, $4;", "=r,=&r,r,r,r,r", 32, 2, a, b, s, &err);
	int rc_bytes = run("add.u32 $0, $1, $2;", "=r,r,r", 8, 4, x, y, r, &err);
	is_crosswise = false;
	assert_int_equal(rc, 0);
	assert_int_equal(rc_bytes, 0);
	for (int i = 0; i < N / 2; i++) {
		assert_int_equal(s[i], a[i] + b[i + N / 2]);
		assert_int_equal(s[i + N / 2], a[i + N / 2] - b[i]);
	}
	static const uint8_t carried[N] = {2, 3, 4, 5, 4, 7, 9, 9}; /* 250 + 10 carries into the element two further on */
	assert_memory_equal(r, carried, N);
}

/* A register that nothing wrote, also because a predicate was false, holds no value that a kernel
 * could rely on: not 0, and another in each lane. */
static void test_unset(void **state)
{
	static const char *const texts[] = {"{ .reg .u32 t; mov.u32 $0, t; }",
		"{ .reg .pred p; setp.gt.u32 p, $1, 100; @p mov.u32 $0, $1; }",
		"{ .reg .pred p; .reg .u32 t; setp.gt.u32 p, $1, 100; @p mov.u32 t, 7; add.u32 $0, t, 0; }"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		uint32_t x[N] = {1, 2, 3, 4, 5, 6, 7, 8}, r[N] = {0};
		struct err err = {0};
		assert_int_equal(run(texts[i], "=r,r,r", 32, 1, x, x, r, &err), 0);
		for (int k = 0; k < N; k++) {
			assert_true(r[k] != 0 && r[k] != x[k]);
			assert_true(k == 0 || r[k] != r[0]);
		}
	}
	uint32_t x[N] = {0}, r[N];
	struct err err = {0};
	assert_int_equal(run("mov.u32 $0, %smid;", "=r,r,r", 32, 1, x, x, r, &err), 0);
	assert_true(r[0] < 132 && r[0] != 0); /* of program 0: no number to go by */
}

static void test_refused(void **state)
{
	static const struct {
		const char *text, *constraints;
		int code;
		const char *part;
	} rows[] = {
		{"ld.global.u32 $0, [$1];", "=r,r,r", ERR_UNSUPPORTED, "'ld.global.u32'"},
		{"mov.u32 $0, [$1];", "=r,r,r", ERR_UNSUPPORTED, "memory"},
		{"mov.u32 $0, %tid.x;", "=r,r,r", ERR_UNSUPPORTED, "'%tid.x'"},
		{"add.rz.f32 $0, $1, $2;", "=r,r,r", ERR_UNSUPPORTED, "'add.rz.f32'"},
		{"bra end;", "=r,r,r", ERR_UNSUPPORTED, "'bra'"},
		{"again: add.u32 $0, $1, $2;", "=r,r,r", ERR_UNSUPPORTED, "'again:'"},
		{"mov.u32 $0, $1; exit;", "=r,r,r", ERR_UNSUPPORTED, "'exit'"},
		{"mov.u32 $0, $1; trap;", "=r,r,r", ERR_UNSUPPORTED, "'trap'"},
		{"mov.u32 $0, %clock;", "=r,r,r", ERR_UNSUPPORTED, "'%clock'"},
		{"{ .reg .u64 t; mov.u64 t, %clock64; }", "=r,r,r", ERR_UNSUPPORTED, "'%clock64'"},
		{"{ .reg .u64 t; mov.u64 t, %globaltimer; }", "=r,r,r", ERR_UNSUPPORTED, "'%globaltimer'"},
		{"mov.u32 $0, %laneid;", "=r,r,r", ERR_UNSUPPORTED, "'%laneid'"},
		{"st.global.u32 [$1], $2;", "=r,r,r", ERR_UNSUPPORTED, "'st.global.u32'"},
		{"atom.global.add.u32 $0, [$1], 1;", "=r,r,r", ERR_UNSUPPORTED, "'atom.global.add.u32'"},
		{"shfl.sync.bfly.b32 $0, $1, 1, 31, -1;", "=r,r,r", ERR_UNSUPPORTED, "'shfl.sync.bfly.b32'"},
		{"call vprintf;", "=r,r,r", ERR_UNSUPPORTED, "'call'"},
		{".local .b32 t;", "=r,r,r", ERR_UNSUPPORTED, "'.local'"},
		{"{ .reg .b32 t<513>; }", "=r,r,r", ERR_LIMIT, "'513'"},
		{".shared .b8 t;", "=r,r,r", ERR_UNSUPPORTED, "'.shared'"},
		{"setp.lt.and.f32 $0, $1, $2;", "=r,r,r", ERR_UNSUPPORTED, "'setp.lt.and.f32'"},
		{"mov.u32 $0, $3;", "=r,r,r", ERR_FORMAT, "'$3'"},
		{"mov.u32 $0, t;", "=r,r,r", ERR_FORMAT, "'t'"},
		{"mov.u32 $0, 12x;", "=r,r,r", ERR_FORMAT, "'12x'"},
		{"mov.u32 $0, $1", "=r,r,r", ERR_FORMAT, "';'"},
		{"{ mov.u32 $0, $1;", "=r,r,r", ERR_FORMAT, "'}'"},
		{"add.u32 $0, $1;", "=r,r,r", ERR_UNSUPPORTED, "operands"},
		/* As ptxas does. */
		{"{ .reg .pred p; setp.lo.s32 p, $1, $2; }", "=r,r,r", ERR_FORMAT, "'setp.lo.s32'"},
		{"add.f32 $0, $1, 2;", "=r,r,r", ERR_FORMAT, "'2'"},
		{"add.f16x2 $0, $1, 0x3c003c00;", "=r,r,r", ERR_FORMAT, "'0x3c003c00'"},
		{"add.s32 $0, $1, 1.0;", "=r,r,r", ERR_FORMAT, "'1.0'"},
		{"mov.u32 $0, $1;", "=r,r", ERR_FORMAT, "constraints"},
		{"mov.u32 $0, $1;", "=r,r,r,r", ERR_FORMAT, "constraints"},
		{"mov.u32 $0, $1;", "r,r,r", ERR_FORMAT, "constraints"},
		{"mov.u32 $0, $1;", "=r,r,7", ERR_FORMAT, "constraints"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t x[N] = {0}, r[N];
		struct err err = {0};
		int code = run(rows[i].text, rows[i].constraints, 32, 1, x, x, r, &err);
		if (code != rows[i].code || !strstr(err.text, rows[i].part))
			fail_msg("%s: code %d, %s", rows[i].text, code, err.text);
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_words(NULL);
	test_packs(NULL);
	test_packs_crosswise(NULL);
	test_unset(NULL);
	test_refused(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_approximations),
		cmocka_unit_test(test_packs), cmocka_unit_test(test_packs_crosswise), cmocka_unit_test(test_unset),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
