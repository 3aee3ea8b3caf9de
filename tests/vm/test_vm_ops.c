/* Operations of arith, math, cf and scf that Triton's frontend does not write, or whose corner
 * cases it hides: kernels by hand, values from C. */
#include "base/dtype.h"
#include "tape/tape.h"
#include "vm/core/program.h"
#include "vm/vm.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define N 16

/* Runs `body` over %x and %y (blocks of N of type `in`), which leaves %r, a block of type `out`. */
static void run(const char *in, const char *out, const char *body, const void *x, const void *y, size_t in_bytes,
	void *r, size_t out_bytes)
{
	struct vm_kernel *k;
	struct vm_report report;
	struct err err = {0};
	struct str t = {0};
	/* The kernel: x and y are loaded, `body` runs, r is stored. */
	str_printf(&t,
		"module { tt.func public @k(%%a: !tt.ptr<%s>, %%b: !tt.ptr<%s>, %%c: !tt.ptr<%s>) {\n"
		"%%i = tt.make_range {end = %d : i32, start = 0 : i32} : tensor<%dxi32>\n",
		in, in, out, N, N);
	static const char names[] = "abc";
	for (int i = 0; i < 3; i++) {
		const char *e = i < 2 ? in : out;
		str_printf(&t,
			"%%%cs = tt.splat %%%c : !tt.ptr<%s> -> tensor<%dx!tt.ptr<%s>>\n%%%cp = tt.addptr %%%cs, %%i : "
			"tensor<%dx!tt.ptr<%s>>, tensor<%dxi32>\n",
			names[i], names[i], e, N, e, names[i], names[i], N, e, N);
	}
	str_printf(&t,
		"%%x = tt.load %%ap : tensor<%dx!tt.ptr<%s>>\n%%y = tt.load %%bp : tensor<%dx!tt.ptr<%s>>\n%s\ntt.store %%cp, "
		"%%r : tensor<%dx!tt.ptr<%s>>\n"
		"tt.return } }",
		N, in, N, in, body, N, out);
	if (vm_kernel_create(t.data, t.len, &k, &err)) fail_msg("%s in %s", err.text, body);
	/* One program; an absent y is x again. */
	uint8_t *data[3] = {xmalloc(in_bytes), xmalloc(in_bytes), r};
	memcpy(data[0], x, in_bytes);
	memcpy(data[1], y ? y : x, in_bytes);
	struct vm_buffer buffers[3];
	struct vm_arg args[3];
	for (int i = 0; i < 3; i++) {
		buffers[i] = (struct vm_buffer){
			.address = tape_buffer_address(i), .bytes = (int64_t)(i < 2 ? in_bytes : out_bytes), .data = data[i]};
		args[i] = (struct vm_arg){.i = (int64_t)tape_buffer_address(i)};
	}
	struct vm_launch_options o = {.grid = {1, 1, 1}, .args = args, .nargs = 3, .buffers = buffers, .nbuffers = 3};
	if (vm_launch(k, &o, &report, &err)) fail_msg("%s in %s", err.text, body);
	vm_report_release(&report);
	vm_kernel_free(k);
	str_release(&t);
	free(data[0]);
	free(data[1]);
}

#define RUN(in, out, body, x, y, r) run(in, out, body, x, y, sizeof x, r, sizeof r)
#define T "tensor<16x"

static const int32_t ints[N] = {0, 1, -1, 2, -2, 7, -7, INT32_MAX, INT32_MIN, 100, -100, 31, 32, 33, 5, 123456};
static const int32_t other[N] = {3, -1, -1, 0, 3, -2, 2, 2, -1, 7, 7, 33, 1, -40, 31, 1000};
static const float floats[N] = {
	0, -0.0f, 1, -1, 0.5f, -1.5f, 2.5f, -2.5f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 3.7f, 1e-40f, 100};
static const float others[N] = {-0.0f, 0, NAN, 2, 3, 0.25f, -1, 2, 1e30f, 7, 1, INFINITY, NAN, 3.7f, 0, -3};

static void test_integers(void **state)
{
	int32_t r[N];
	/* Division rounds up, down and to zero; by zero all bits are set, in
	 * quotients and remainders. */
	RUN("i32", "i32", "%r = arith.ceildivsi %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++) {
		int64_t a = ints[i], b = other[i];
		int64_t want = b == 0 ? -1 : (int32_t)(uint32_t)(a / b + (a % b != 0 && (a < 0) == (b < 0)));
		assert_int_equal(r[i], (int32_t)want);
	}
	RUN("i32", "i32", "%r = arith.floordivsi %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++) {
		int64_t a = ints[i], b = other[i];
		assert_int_equal(r[i], b == 0 ? -1 : (int32_t)(uint32_t)(a / b - (a % b != 0 && (a < 0) != (b < 0))));
	}
	RUN("i32", "i32", "%r = arith.remsi %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], other[i] == 0 ? -1 : (int32_t)((int64_t)ints[i] % other[i]));
	/* Of 64 bits only the lower half where the dividend has no more, as on an H200. */
	static const int64_t wide[N] = {7, -7, 1ll << 40, 0, UINT32_MAX, 1ll << 32}, nothing[N] = {0};
	static const char *const divisions[] = {"divsi", "divui", "remsi", "remui"};
	int64_t q[N];
	for (size_t k = 0; k < ARRAY_LEN(divisions); k++) {
		char body[80];
		snprintf(body, sizeof body, "%%r = arith.%s %%x, %%y : " T "i64>", divisions[k]);
		RUN("i64", "i64", body, wide, nothing, q);
		for (int i = 0; i < N; i++) assert_true(q[i] == ((uint64_t)wide[i] >> 32 ? -1 : (int64_t)UINT32_MAX));
	}
	/* A histogram looks at as many bits as name its bins, and a warp's lanes. */
	static const int32_t counted[N] = {0, 15, 16, 31, 32, 35, -1, -32, -17, 1 << 20, 7, 7, 47, 48, 64 + 9, INT32_MIN};
	static const int32_t want[N] = {[0] = 5, [3] = 1, [7] = 2, [9] = 1, [15] = 3};
	RUN("i32", "i32", "%r = tt.histogram %x : " T "i32> -> " T "i32>", counted, counted, r);
	assert_memory_equal(r, want, sizeof want);
	/* Shifts by 32 and more. */
	RUN("i32", "i32", "%r = arith.shli %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++)
		assert_int_equal(r[i], (uint32_t)other[i] > 31 ? 0 : (int32_t)((uint32_t)ints[i] << other[i]));
	RUN("i32", "i32", "%r = arith.shrsi %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], ints[i] >> ((uint32_t)other[i] > 31 ? 31 : other[i]));
	/* High halves of products, signed and not; carries. */
	RUN("i32", "i32", "%l, %r = arith.mulsi_extended %x, %y : " T "i32>", ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], (int32_t)((int64_t)ints[i] * other[i] >> 32));
	RUN("i32", "i32", "%q:2 = arith.mului_extended %x, %y : " T "i32>\n%r = arith.xori %q#0, %q#1 : " T "i32>", ints,
		other, r);
	for (int i = 0; i < N; i++) {
		uint64_t p = (uint64_t)(uint32_t)ints[i] * (uint32_t)other[i];
		assert_int_equal(r[i], (int32_t)((uint32_t)p ^ (uint32_t)(p >> 32)));
	}
	RUN("i32", "i32",
		"%s, %c2 = arith.addui_extended %x, %y : " T "i32>, " T "i1>\n%r = arith.extui %c2 : " T "i1> to " T "i32>",
		ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], (uint64_t)(uint32_t)ints[i] + (uint32_t)other[i] > UINT32_MAX);
	RUN("i32", "i32",
		"%p = math.ipowi %x, %y : " T "i32>\n%t = math.ctlz %x : " T "i32>\n%u = math.cttz %y : " T
		"i32>\n%v = arith.addi %t, %u : " T "i32>\n"
		"%r = arith.addi %p, %v : " T "i32>",
		ints, other, r);
	for (int i = 0; i < N; i++) {
		/* Powers, as defined for negative exponents, and counts of zero bits. */
		uint32_t p = 1;
		if (other[i] < 0) p = ints[i] == 1 ? 1 : ints[i] == -1 ? (other[i] & 1 ? (uint32_t)-1 : 1) : 0;
		else
			for (int k = 0; k < other[i]; k++) p *= (uint32_t)ints[i];
		int lz = ints[i] ? __builtin_clz((uint32_t)ints[i]) : 32,
			tz = other[i] ? __builtin_ctz((uint32_t)other[i]) : 32;
		assert_int_equal(r[i], (int32_t)(p + (uint32_t)(lz + tz)));
	}
}

static void test_bools(void **state)
{
	int32_t r[N];
	/* signed order of i1: true is -1 */
	RUN("i32", "i32",
		"%z = arith.constant dense<0> : " T "i32>\n%p = arith.cmpi sgt, %x, %z : " T
		"i32>\n%q = arith.cmpi sgt, %y, %z : " T "i32>\n"
		"%l = arith.cmpi slt, %p, %q : " T "i1>\n"
		"%u = arith.cmpi ult, %p, %q : " T "i1>\n%a1 = arith.addi %p, %q : " T "i1>\n%m = arith.extsi %l : " T
		"i1> to " T "i32>\n%n = arith.extui %u : " T "i1> to " T "i32>\n"
		"%o = arith.extui %a1 : " T "i1> to " T "i32>\n%four = arith.constant dense<4> : " T
		"i32>\n%o4 = arith.muli %o, %four : " T "i32>\n"
		"%two = arith.constant dense<2> : " T "i32>\n"
		"%n2 = arith.muli %n, %two : " T "i32>\n%s = arith.addi %m, %n2 : " T "i32>\n%r = arith.addi %s, %o4 : " T
		"i32>",
		ints, other, r);
	for (int i = 0; i < N; i++) {
		int p = ints[i] > 0, q = other[i] > 0;
		assert_int_equal(r[i], -(p && !q) + 2 * (!p && q) + 4 * (p ^ q));
	}
	RUN("i32", "i32",
		"%t = arith.trunci %x : " T "i32> to " T "i1>\n%f = arith.sitofp %t : " T "i1> to " T
		"f32>\n%g = arith.uitofp %t : " T "i1> to " T "f32>\n%h = arith.subf %g, %f : " T
		"f32>\n%r = arith.fptosi %h : " T "f32> to " T "i32>",
		ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], 2 * (ints[i] & 1));
}

static void expect_float(const char *body, float (*f)(float, float), double ulps)
{
	float r[N];
	RUN("f32", "f32", body, floats, others, r);
	for (int i = 0; i < N; i++) {
		float want = f(floats[i], others[i]);
		bool same = isnan(want) ? isnan(r[i]) : r[i] == want && (want != 0 || signbit(r[i]) == signbit(want));
		/* Beside zero there is nothing near: a tolerance would pass the other sign. */
		bool is_near = want != 0 && fabs((double)r[i] - (double)want) <= ulps * ldexp(fabs((double)want), -23);
		if (!same && !is_near)
			fail_msg("%s of %g and %g is %.9g, expected %.9g", body, (double)floats[i], (double)others[i], (double)r[i],
				(double)want);
	}
}

static float c_max(float a, float b)
{
	return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
static float c_min(float a, float b)
{
	return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
static float c_maximum(float a, float b) { return isnan(a) || isnan(b) ? NAN : c_max(a, b); }
static float c_minimum(float a, float b) { return isnan(a) || isnan(b) ? NAN : c_min(a, b); }
static float c_roundeven(float a, float b) { return rintf(a); }
static float c_round(float a, float b) { return roundf(a); }
static float c_trunc(float a, float b) { return truncf(a); }
static float c_fpowi(float a, float b) { return a * a * a; }
static float c_sincos(float a, float b) { return (float)sin(a) - (float)cos(a); }
static float c_clamp(float a, float b) { return c_min(c_max(a, -1), 2); }
static float c_classes(float a, float b)
{
	return (float)(isnan(a) + 2 * (isinf(a) != 0) + 4 * isfinite(a) + 8 * isnormal(a));
}
static float c_une(float a, float b)
{
	int never = !(a < b || a > b || isnan(a) || isnan(b) || a == b);
	return (float)((a != b) + 2 * never + 4 * !isunordered(a, b) + 8 * (isunordered(a, b) || a < b));
}

#define CLASS_BITS "%k1 = math.isnan %x : " T "f32>\n%k2 = math.isinf %x : " T "f32>\n" \
	"%k3 = math.isfinite %x : " T "f32>\n%k4 = math.isnormal %x : " T "f32>\n"
#define WEIGH "%u1 = arith.uitofp %k1 : " T "i1> to " T "f32>\n%u2 = arith.uitofp %k2 : " T "i1> to " T "f32>\n" \
	"%u3 = arith.uitofp %k3 : " T "i1> to " T \
	"f32>\n%u4 = arith.uitofp %k4 : " T "i1> to " T "f32>\n" \
	"%w2 = arith.constant dense<2.0> : " T "f32>\n%w4 = arith.constant dense<4.0> : " T "f32>\n" \
	"%w8 = arith.constant dense<0x41000000> : " T "f32>\n" \
	"%m2 = arith.mulf %u2, %w2 : " T "f32>\n%m3 = arith.mulf %u3, %w4 : " T "f32>\n" \
	"%m4 = arith.mulf %u4, %w8 : " T "f32>\n%s1 = arith.addf %u1, %m2 : " T "f32>\n" \
	"%s2 = arith.addf %s1, %m3 : " T "f32>\n%r = arith.addf %s2, %m4 : " T "f32>"

static void test_floats(void **state)
{
	expect_float("%r = arith.maxnumf %x, %y : " T "f32>", c_max, 0);
	expect_float("%r = arith.minnumf %x, %y : " T "f32>", c_min, 0);
	expect_float("%r = arith.maximumf %x, %y : " T "f32>", c_maximum, 0);
	expect_float("%r = arith.minimumf %x, %y : " T "f32>", c_minimum, 0);
	expect_float("%r = arith.remf %x, %y : " T "f32>", fmodf, 0);
	expect_float("%r = math.copysign %x, %y : " T "f32>", copysignf, 0);
	expect_float("%r = math.roundeven %x : " T "f32>", c_roundeven, 0);
	expect_float("%r = math.round %x : " T "f32>", c_round, 0);
	expect_float("%r = math.trunc %x : " T "f32>", c_trunc, 0);
	expect_float("%r = math.atan2 %x, %y : " T "f32>", atan2f, 1);
	expect_float("%r = math.powf %x, %y : " T "f32>", powf, 1);
	expect_float("%n = arith.constant dense<3> : " T "i32>\n%r = math.fpowi %x, %n : " T "f32>, " T "i32>", c_fpowi, 2);
	expect_float("%lo = arith.constant dense<-1.0> : " T "f32>\n%hi = arith.constant dense<2.0> : " T
				 "f32>\n%r = math.clampf %x to [%lo, %hi] : " T "f32>",
		c_clamp, 0);
	expect_float("%s, %c2 = math.sincos %x : " T "f32>\n%r = arith.subf %s, %c2 : " T "f32>", c_sincos, 4);
	expect_float(CLASS_BITS WEIGH, c_classes, 0);
	expect_float("%k1 = arith.cmpf une, %x, %y : " T "f32>\n%k2 = arith.cmpf false, %x, %y : " T
				 "f32>\n%k3 = arith.cmpf ord, %x, %y : " T "f32>\n"
				 "%k4 = arith.cmpf ult, %x, %y : " T "f32>\n" WEIGH,
		c_une, 0);
}

static void test_conversions(void **state)
{
	static const float wide[N] = {3e9f, -3e9f, 2147483648.0f, -2147483648.0f, 2147483520.0f, NAN, INFINITY, -INFINITY,
		-0.99f, 0.99f, 255.9f, -1, 4294967296.0f, 65536, 1e20f, -1e20f};
	int32_t s[N];
	uint32_t u[N];
	int64_t l[N];
	RUN("f32", "i32", "%r = arith.fptosi %x : " T "f32> to " T "i32>", wide, wide, s);
	RUN("f32", "i32", "%r = arith.fptoui %x : " T "f32> to " T "i32>", wide, wide, u);
	RUN("f32", "i64", "%r = arith.fptosi %x : " T "f32> to " T "i64>", wide, wide, l);
	for (int i = 0; i < N; i++) {
		double x = isnan(wide[i]) ? 0 : wide[i];
		assert_int_equal(s[i], x >= 0x1p31 ? INT32_MAX : x < -0x1p31 ? INT32_MIN : (int32_t)x);
		assert_true(u[i] == (x >= 0x1p32 ? UINT32_MAX : x < 0 ? 0 : (uint32_t)x));
		assert_true(l[i] == (x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x));
	}
	/* 8 bits are the lower half of what saturates at 16 */
	int16_t s16[N];
	uint16_t u16[N];
	int8_t s8[N];
	uint8_t u8[N];
	RUN("f32", "i16", "%r = arith.fptosi %x : " T "f32> to " T "i16>", wide, wide, s16);
	RUN("f32", "i16", "%r = arith.fptoui %x : " T "f32> to " T "i16>", wide, wide, u16);
	RUN("f32", "i8", "%r = arith.fptosi %x : " T "f32> to " T "i8>", wide, wide, s8);
	RUN("f32", "i8", "%r = arith.fptoui %x : " T "f32> to " T "i8>", wide, wide, u8);
	for (int i = 0; i < N; i++) {
		double x = isnan(wide[i]) ? 0 : wide[i];
		int16_t s_want = x >= 0x1p15 ? INT16_MAX : x < -0x1p15 ? INT16_MIN : (int16_t)x;
		uint16_t u_want = x >= 0x1p16 ? UINT16_MAX : x < 0 ? 0 : (uint16_t)x;
		assert_int_equal(s16[i], s_want);
		assert_int_equal(u16[i], u_want);
		assert_int_equal(s8[i], (int8_t)s_want);
		assert_int_equal(u8[i], (uint8_t)u_want);
	}
	/* rounded once: halfway cases that two roundings get wrong */
	static const double halves[N] = {1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-11 - 0x1p-40, 1 + 0x1p-11, 1 + 3 * 0x1p-11,
		65519.999999, 65520, -65519.999999, 0x1p-25 + 0x1p-60, 0x1p-25, 1e300, -1e300, NAN, 1 + 0x1p-8 + 0x1p-40,
		1 + 0x1p-8, 0x1.fefffffp0, 3.4e38};
	uint16_t h[N], b[N];
	RUN("f64", "f16", "%r = arith.truncf %x : " T "f64> to " T "f16>", halves, halves, h);
	RUN("f64", "bf16", "%r = arith.truncf %x : " T "f64> to " T "bf16>", halves, halves, b);
	static const uint16_t want_h[N] = {0x3c01, 0x3c00, 0x3c00, 0x3c02, 0x7bff, 0x7c00, 0xfbff, 0x0001, 0x0000, 0x7c00,
		0xfc00, 0x7e00, 0x3c04, 0x3c04, 0x3ffc, 0x7c00};
	static const uint16_t want_b[N] = {0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x4780, 0x4780, 0xc780, 0x3300, 0x3300, 0x7f80,
		0xff80, 0x7fc0, 0x3f81, 0x3f80, 0x3fff, 0x7f80};
	for (int i = 0; i < N; i++) {
		if (h[i] != want_h[i] && i != 11) fail_msg("f16 of %.17g is %04x, expected %04x", halves[i], h[i], want_h[i]);
		if (b[i] != want_b[i] && i != 11) fail_msg("bf16 of %.17g is %04x, expected %04x", halves[i], b[i], want_b[i]);
	}
	static const int64_t longs[N] = {(1ll << 53) + 1, -(1ll << 53) - 1, (1ll << 40) + (1ll << 32) + 1,
		(1ll << 40) + (1ll << 32), INT64_MAX, INT64_MIN, 0, 1, -1, 257, 258, 259, 65535, 1ll << 62, -5,
		12345678901234567};
	RUN("i64", "bf16", "%r = arith.sitofp %x : " T "i64> to " T "bf16>", longs, longs, b);
	assert_int_equal(b[2], 0x5381); /* just above halfway: up; through f32 it would tie to even and stay */
	assert_int_equal(b[3], 0x5380);
	assert_int_equal(b[9], 0x4380);
	assert_int_equal(b[11], 0x4382);
	float f[N];
	RUN("f32", "f32",
		"%h = tt.fp_to_fp %x, rounding = rtz : " T "f32> -> " T "f16>\n%r = arith.extf %h : " T "f16> to " T "f32>",
		wide, wide, f);
	assert_true(f[0] == 65504 && f[8] == -0.98974609375f);
}

static void test_constants(void **state)
{
	int32_t r[N], x[N] = {0};
	RUN("i32", "i32",
		"%r = arith.constant dense<[0, -1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 2147483647, -2147483648]> : " T
		"i32>",
		x, x, r);
	assert_int_equal(r[1], -1);
	assert_int_equal(r[14], INT32_MAX);
	assert_int_equal(r[15], INT32_MIN);
	RUN("i32", "i32",
		"%r = arith.constant dense<\"0x00000000010000000200000003000000040000000500000006000000070000000"
		"8000000090000000A0000000B0000000C0000000D0000000E000000FFFFFFFF\"> : " T "i32>",
		x, x, r);
	for (int i = 0; i < 15; i++) assert_int_equal(r[i], i);
	assert_int_equal(r[15], -1);
	RUN("i32", "i32",
		"%m = arith.constant dense<[true, false, true, false, true, false, true, false, true, false, true, false, "
		"true, false, true, false]> : " T "i1>\n%k = arith.constant dense<5> : " T
		"i32>\n%r = arith.select %m, %k, %i : " T "i1>, " T "i32>",
		x, x, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], i % 2 ? i : 5);
}

/* cf.switch, scf.execute_region, block arguments that exchange values, and a loop made of branches.
 */
static void test_control(void **state)
{
	int32_t r[N], x[N] = {0};
	x[0] = 7;
	RUN("i32", "i32",
		"%u = tt.load %a : !tt.ptr<i32>\n%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\n%f = "
		"arith.constant 100 : i32\n"
		"cf.br ^head(%c0, %c1, %u : i32, i32, i32)\n^head(%p: i32, %q: i32, %n: i32):\n%go = arith.cmpi sgt, %n, %c0 : "
		"i32\ncf.cond_br %go, ^body, ^out\n"
		"^body:\n%s = arith.addi %p, %q : i32\n%n1 = arith.subi %n, %c1 : i32\ncf.br ^head(%q, %s, %n1 : i32, i32, "
		"i32)\n"
		"^out:\n%v = scf.execute_region -> i32 {\n%d = arith.addi %p, %f : i32\nscf.yield %d : i32\n}\ncf.switch %u : "
		"i32, [\ndefault: ^end(%c0 : i32),\n"
		"6: ^end(%c1 : i32),\n7: ^end(%v : i32)\n]\n"
		"^end(%w: i32):\n%r = tt.splat %w : i32 -> " T "i32>",
		x, x, r);
	assert_int_equal(r[3], 113); /* fibonacci(7) + 100 */
	x[0] = 6;
	RUN("i32", "i32",
		"%u = tt.load %a : !tt.ptr<i32>\n%c0 = arith.constant 0 : i32\n%c1 = arith.constant 1 : i32\ncf.switch %u : "
		"i32, [\n"
		"default: ^end(%c0 : i32),\n6: ^end(%c1 : i32)\n]\n^end(%w: i32):\n%r = tt.splat %w : i32 -> " T "i32>",
		x, x, r);
	assert_int_equal(r[0], 1);
}

/* bf16 and f16: each operation is one rounding of the exact result. */
static void test_narrow(void **state)
{
	uint16_t x[N], y[N], r[N];
	for (int i = 0; i < N; i++) {
		x[i] = f32_to_bf16(1.0f + (float)i / 7);
		y[i] = f32_to_bf16(3.3f - (float)i);
	}
	RUN("bf16", "bf16", "%r = arith.mulf %x, %y : " T "bf16>", x, y, r);
	for (int i = 0; i < N; i++) assert_int_equal(r[i], f32_to_bf16(bf16_to_f32(x[i]) * bf16_to_f32(y[i])));
	RUN("bf16", "bf16", "%e = math.exp %x : " T "bf16>\n%r = arith.divf %e, %y : " T "bf16>", x, y, r);
	for (int i = 0; i < N; i++)
		assert_int_equal(
			r[i], f32_to_bf16(bf16_to_f32(f32_to_bf16((float)exp(bf16_to_f32(x[i])))) / bf16_to_f32(y[i])));
	for (int i = 0; i < N; i++) {
		x[i] = f32_to_f16(1.0f + (float)i / 7);
		y[i] = f32_to_f16(3.3f - (float)i);
	}
	RUN("f16", "f16", "%r = math.fma %x, %y, %x : " T "f16>", x, y, r);
	for (int i = 0; i < N; i++)
		assert_int_equal(r[i], f32_to_f16(fmaf(f16_to_f32(x[i]), f16_to_f32(y[i]), f16_to_f32(x[i]))));
}

/* What a masked-off load without `other` holds is NaN or a pattern, never what was there before. */
static void test_masked_off(void **state)
{
	float r[N];
	RUN("f32", "f32",
		"%k = arith.constant dense<4> : " T "i32>\n%m = arith.cmpi slt, %i, %k : " T "i32>\n%r = tt.load %ap, %m : " T
		"!tt.ptr<f32>>",
		others, others, r);
	for (int i = 0; i < N; i++) assert_true(i < 4 ? !memcmp(&r[i], &others[i], 4) : isnan(r[i]));
	RUN("f32", "f32",
		"%k = arith.constant dense<0.0> : " T "f32>\n%m = arith.cmpf olt, %x, %k : " T "f32>\n%r = tt.load %ap, %m : " T
		"!tt.ptr<f32>>",
		others, others, r);
	for (int i = 0; i < N; i++) assert_true(others[i] < 0 ? r[i] == others[i] : isnan(r[i]));
}

/* A cast of floats that have no place in the type, whatever memory holds, gives a pattern and not
 * what the processor happens to do; one that may have a place is cast. */
static void test_casts_without_a_place(void **state)
{
	static const struct {
		const char *body;
		bool is_open;
	} rows[] = {
		{"%k = arith.constant dense<2.147483648e9> : " T "f32>\n%m = arith.maxnumf %x, %k : " T "f32>", true},
		{"%k = arith.constant dense<2.0e9> : " T "f32>\n%m = arith.maxnumf %x, %k : " T "f32>", false},
		{"%k = arith.constant dense<-2.2e9> : " T "f32>\n%m = arith.minnumf %x, %k : " T "f32>", true},
		{"%k = arith.constant dense<-2.0e9> : " T "f32>\n%m = arith.minnumf %x, %k : " T "f32>", false},
	};
	uint8_t open[8];
	vm_pattern(ELEM_I32, open);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int32_t r[N];
		char *body = xasprintf("%s\n%%r = arith.fptosi %%m : " T "f32> to " T "i32>", rows[i].body);
		RUN("f32", "i32", body, floats, floats, r);
		/* The first number is 0: it becomes the bound, which has a place or has none. */
		if (!memcmp(r, open, 4) != rows[i].is_open) fail_msg("row %zu: %d", i, r[0]);
		free(body);
	}
}

/* A block of pointers into two buffers: elements of every size are read one by one, the last
 * ones of each buffer too. */
static void test_pointers_into_two_buffers(void **state)
{
	static const char *const types[] = {"i8", "i16", "i32", "i64"};
	for (size_t k = 0; k < ARRAY_LEN(types); k++) {
		size_t bytes = (size_t)1 << k;
		uint8_t x[8 * N], y[8 * N], r[8 * N];
		for (size_t i = 0; i < sizeof x; i++) {
			x[i] = (uint8_t)i;
			y[i] = (uint8_t)~i;
		}
		char *body = xasprintf("%%k = arith.constant dense<8> : " T "i32>\n%%m = arith.cmpi slt, %%i, %%k : " T "i32>\n"
							   "%%p = arith.select %%m, %%bp, %%ap : " T "i1>, " T "!tt.ptr<%s>>\n"
							   "%%r = tt.load %%p : " T "!tt.ptr<%s>>",
			types[k], types[k]);
		run(types[k], types[k], body, x, y, N * bytes, r, N * bytes);
		assert_memory_equal(r, y, 8 * bytes);
		assert_memory_equal(r + 8 * bytes, x + 8 * bytes, 8 * bytes);
		free(body);
	}
}

/* A mask that is the same everywhere was written out for one block; a larger block that it is
 * broadcast to must not get those bytes. */
static void test_broadcast_of_written_out_splat(void **state)
{
	int32_t r[N];
	RUN("i32", "i32",
		"%t = arith.constant true\n%m = tt.splat %t : i1 -> " T "i1>\n%f = arith.constant dense<15> : " T
		"i32>\n%j = arith.xori %i, %f : " T "i32>\n"
		"%p = tt.addptr %as, %j : " T "!tt.ptr<i32>>, " T "i32>\n%g = tt.load %p, %m : " T "!tt.ptr<i32>>\n"
		"%m1 = tt.expand_dims %m {axis = 1 : i32} : " T "i1> -> " T "1xi1>\n%m2 = tt.broadcast %m1 : " T "1xi1> -> " T
		"4096xi1>\n"
		"%p1 = tt.expand_dims %p {axis = 1 : i32} : " T "!tt.ptr<i32>> -> " T "1x!tt.ptr<i32>>\n"
		"%p2 = tt.broadcast %p1 : " T "1x!tt.ptr<i32>> -> " T "4096x!tt.ptr<i32>>\n%z = arith.constant dense<0> : " T
		"4096xi32>\n"
		"%w = tt.load %p2, %m2, %z : " T "4096x!tt.ptr<i32>>\n%s = \"tt.reduce\"(%w) <{axis = 1 : i32}> ({\n^bb0(%u: "
		"i32, %v: i32):\n%q = arith.addi %u, %v : i32\n"
		"tt.reduce.return %q : i32\n}) : (" T "4096xi32>) -> " T "i32>\n%r = arith.addi %s, %g : " T "i32>",
		ints, other, r);
	for (int i = 0; i < N; i++) assert_int_equal((uint32_t)r[i], 4097 * (uint32_t)ints[15 - i]);
}

/* Products of blocks of which neither, one or both have a scale behind them: ones of fp8 or bf16
 * with K = 32, so that each sum is 32 times the scales, 2 and 4. */
static void test_scales(void **state)
{
	for (int k = 0; k < 4; k++) {
		bool is_left = k & 1, is_right = k & 2;
		float expected = 32.0f * (is_left ? 2 : 1) * (is_right ? 4 : 1);
		const char *a = is_left ? "tensor<4x32xf8E4M3FN>, tensor<4x1xi8>" : "tensor<4x32xbf16>",
				   *b = is_right ? "tensor<32x4xf8E5M2>, tensor<4x1xi8>" : "tensor<32x4xbf16>";
		struct str body = {0};
		float r[N];
		str_printf(&body,
			"%%two = arith.constant dense<-128> : tensor<4x1xi8>\n%%four = arith.constant dense<-127> : "
			"tensor<4x1xi8>\n%%oneA = arith.constant dense<1.0> : tensor<4x32x%s>\n"
			"%%oneB = arith.constant dense<1.0> : tensor<32x4x%s>\n%%z = arith.constant dense<0.0> : tensor<4x4xf32>\n",
			is_left ? "f8E4M3FN" : "bf16", is_right ? "f8E5M2" : "bf16");
		str_printf(&body,
			"%%d = tt.dot_scaled %%oneA%s, %%oneB%s, %%z lhs = %s rhs = %s {fastMath = false} : %s * %s -> "
			"tensor<4x4xf32>\n%%r = tt.reshape %%d : tensor<4x4xf32> -> tensor<16xf32>",
			is_left ? " scale %two" : "", is_right ? " scale %four" : "", is_left ? "e4m3" : "bf16",
			is_right ? "e5m2" : "bf16", a, b);
		RUN("f32", "f32", body.data, floats, NULL, r);
		for (int i = 0; i < N; i++)
			if (r[i] != expected) fail_msg("scales %d: %g, expected %g", k, r[i], expected);
		str_release(&body);
	}
}

/* Sums and largest elements of all that stands in front, forward and backward: along the whole
 * block, and along each axis of the block as 4 x 4. */
static void test_scans(void **state)
{
	static const struct {
		const char *op;
		int axis; /* -1: the block as it is */
		bool is_reverse;
	} cases[] = {{"addi", -1, false}, {"addi", -1, true}, {"maxsi", -1, false}, {"addi", 0, false}, {"addi", 1, true}};
	int32_t x[N], r[N], expected[N];
	for (int i = 0; i < N; i++) x[i] = (i * 7 + 3) % 11 - 4;
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		int axis = cases[k].axis, inner = axis == 0 ? 4 : 1, len = axis < 0 ? N : 4;
		const char *type = axis < 0 ? "tensor<16xi32>" : "tensor<4x4xi32>";
		struct str body = {0};
		str_printf(&body, "%%s0 = tt.reshape %%x : tensor<16xi32> -> %s\n", type);
		str_printf(&body,
			"%%s1 = \"tt.scan\"(%%s0) <{axis = %d : i32, reverse = %s}> ({\n^bb0(%%u: i32, %%v: i32):\n%%q = arith.%s "
			"%%u, %%v : i32\ntt.scan.return %%q : i32\n}) : (%s) -> %s\n",
			MAX(axis, 0), cases[k].is_reverse ? "true" : "false", cases[k].op, type, type);
		str_printf(&body, "%%r = tt.reshape %%s1 : %s -> tensor<16xi32>", type);
		/* One after the other, as the definition says. */
		for (int i = 0; i < N; i++) {
			int place = i / inner % len, step = cases[k].is_reverse ? inner : -inner;
			expected[i] = x[i];
			for (int n = cases[k].is_reverse ? len - 1 - place : place, at = i + step; n > 0; n--, at += step)
				expected[i] = cases[k].op[0] == 'a' ? expected[i] + x[at] : MAX(expected[i], x[at]);
		}
		RUN("i32", "i32", body.data, x, NULL, r);
		for (int i = 0; i < N; i++)
			if (r[i] != expected[i])
				fail_msg("%s axis %d: element %d is %d, expected %d", cases[k].op, axis, i, r[i], expected[i]);
		str_release(&body);
	}
}

/* What each atomic on whole numbers leaves in memory and gives back, where the mask holds;
 * elsewhere memory is as it was. Both signs stand on both sides. */
static int32_t c_atomic(const char *op, int32_t a, int32_t b)
{
	uint32_t ua = (uint32_t)a, ub = (uint32_t)b;
	if (!strcmp(op, "and")) return a & b;
	if (!strcmp(op, "or")) return a | b;
	if (!strcmp(op, "xor")) return a ^ b;
	if (!strcmp(op, "add")) return (int32_t)(ua + ub);
	if (!strcmp(op, "max")) return MAX(a, b);
	if (!strcmp(op, "min")) return MIN(a, b);
	if (!strcmp(op, "umax")) return (int32_t)MAX(ua, ub);
	if (!strcmp(op, "umin")) return (int32_t)MIN(ua, ub);
	return b; /* exch */
}
static void test_atomics(void **state)
{
	static const char *const ops[] = {"and", "or", "xor", "add", "max", "min", "umax", "umin", "exch"};
	for (size_t k = 0; k < ARRAY_LEN(ops); k++)
		for (int gives = 0; gives < 2; gives++) {
			int32_t r[N];
			char body[900];
			/* Every second lane takes part; its old value, or what memory
			 * holds then, is the result. */
			snprintf(body, sizeof body,
				"%%two = arith.constant dense<2> : " T "i32>\n%%odd = arith.remsi %%i, %%two : " T "i32>\n"
				"%%zero = arith.constant dense<0> : " T "i32>\n%%m = arith.cmpi ne, %%odd, %%zero : " T "i32>\n"
				"%%old = tt.atomic_rmw %s, relaxed, gpu, %%ap, %%y, %%m : (" T "!tt.ptr<i32>>, " T "i32>, " T
				"i1>) -> " T "i32>\n%%now = tt.load %%ap : " T "!tt.ptr<i32>>\n"
				"%%given = arith.select %%m, %%old, %%zero : " T "i1>, " T "i32>\n"
				"%%r = arith.addi %s, %%zero : " T "i32>",
				ops[k], gives ? "%given" : "%now");
			RUN("i32", "i32", body, ints, other, r);
			for (int i = 0; i < N; i++) {
				int32_t now = i % 2 ? c_atomic(ops[k], ints[i], other[i]) : ints[i];
				int32_t want = !gives ? now : i % 2 ? ints[i] : 0;
				if (r[i] != want) fail_msg("%s of %d and %d: %d, expected %d", ops[k], ints[i], other[i], r[i], want);
			}
		}
}

/* Pairs (a, b) before (c, d) give (a c, b c + d), from either end: both operands go one way. */
static void test_scans_of_pairs(void **state)
{
	int32_t x[N], y[N], r[N];
	for (int i = 0; i < N; i++) {
		x[i] = i % 5 - 2 ? i % 5 - 2 : 3;
		y[i] = (i * 7 + 3) % 11 - 4;
	}
	for (int is_reverse = 0; is_reverse < 2; is_reverse++) {
		char body[640];
		snprintf(body, sizeof body,
			"%%s:2 = \"tt.scan\"(%%x, %%y) <{axis = 0 : i32, reverse = %s}> ({\n"
			"^bb0(%%u: i32, %%v: i32, %%w: i32, %%z: i32):\n%%p = arith.muli %%u, %%w : i32\n"
			"%%m = arith.muli %%v, %%w : i32\n%%q = arith.addi %%m, %%z : i32\ntt.scan.return %%p, %%q : i32, i32\n"
			"}) : (" T "i32>, " T "i32>) -> (" T "i32>, " T "i32>)\n%%r = arith.subi %%s#0, %%s#1 : " T "i32>",
			is_reverse ? "true" : "false");
		RUN("i32", "i32", body, x, y, r);
		uint32_t p = 1, q = 0;
		for (int n = 0; n < N; n++) {
			int i = is_reverse ? N - 1 - n : n;
			p *= (uint32_t)x[i];
			q = q * (uint32_t)x[i] + (uint32_t)y[i];
			if (r[i] != (int32_t)(p - q)) fail_msg("reverse %d: element %d is %d", is_reverse, i, r[i]);
		}
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_bools),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_conversions),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_masked_off),
		cmocka_unit_test(test_casts_without_a_place),
		cmocka_unit_test(test_pointers_into_two_buffers),
		cmocka_unit_test(test_broadcast_of_written_out_splat),
		cmocka_unit_test(test_scales),
		cmocka_unit_test(test_scans),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_scans_of_pairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
