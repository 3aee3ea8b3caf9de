/* Layouts from a TTGIR, coalescing by them, resources from a cubin, and the predicted time: against
 * values made by hand. */
#include "cost/cost_layout.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define TEXT(s) (struct slice){s, sizeof s - 1}
#define BLOCKED_ROWS "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], " \
	"order = [1, 0]}>"
#define BLOCKED_COLS "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [2, 2], " \
	"order = [0, 1]}>"
#define LINEAR "#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], " \
	"warp = [[16, 0], [0, 0]], block = []}>"
#define MMA "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 1], instrShape = [16, 8]}>"

/* ---- layouts ---- */

static struct cost_lanes lanes_of(const char *text, int rows, int cols, int elem_bytes, int warps)
{
	struct cost_layout layout;
	struct cost_lanes lanes;
	int32_t shape[2] = {rows, cols};
	if (text) assert_int_equal(cost_layout_parse((struct slice){text, strlen(text)}, &layout), 0);
	assert_true(cost_lanes_of(text ? &layout : NULL, 2, shape, elem_bytes, warps, &lanes));
	return lanes;
}

static void test_blocked(void **state)
{
	/* 16 x 64: a lane holds four neighbours, 16 lanes a row, two rows a warp; four warps hold 8
	 * rows, so one more register bit takes the other 8 */
	struct cost_lanes l = lanes_of(BLOCKED_ROWS, 16, 64, 4, 4);
	assert_int_equal(l.nreg, 3);
	assert_int_equal(l.reg[0], 1);
	assert_int_equal(l.reg[1], 2);
	assert_int_equal(l.reg[2], 8 * 64);
	assert_int_equal(l.lane[1], 4);
	assert_int_equal(l.lane[15], 60);
	assert_int_equal(l.lane[16], 64);
	assert_int_equal(l.nwarp, 2);
	assert_int_equal(l.warp[0], 2 * 64);
	assert_int_equal(l.warp[1], 4 * 64);
	assert_int_equal(l.warp_copies, 1);
	/* order [0, 1]: lanes run down a column */
	l = lanes_of(BLOCKED_COLS, 64, 8, 4, 4);
	assert_int_equal(l.lane[1], 8);
	assert_int_equal(l.lane[31], 31 * 8);
	assert_int_equal(l.warp[0], 32 * 8);
	assert_int_equal(l.warp[1], 1);
	assert_int_equal(l.nreg, 2);
	/* a block of 2 rows has no use for three of the four warps' rows beyond the first warp: they
	 * repeat */
	l = lanes_of(BLOCKED_ROWS, 2, 64, 4, 4);
	assert_int_equal(l.nwarp, 0);
	assert_int_equal(l.warp_copies, 4);
}

static void test_linear_and_mma(void **state)
{
	/* the linear text is mma's own layout written out, with a second warp bit that repeats */
	struct cost_lanes a = lanes_of(LINEAR, 32, 8, 4, 4), b = lanes_of(MMA, 32, 8, 4, 2);
	assert_int_equal(a.warp_copies, 2);
	assert_memory_equal(a.lane, b.lane, sizeof a.lane);
	assert_int_equal(a.lane[3], 6);
	assert_int_equal(a.lane[4], 8);
	assert_int_equal(a.reg[1], 8 * 8);
	assert_int_equal(b.reg[1], 8 * 8);
	assert_int_equal(a.warp[0], 16 * 8);
	assert_int_equal(b.warp[0], 16 * 8);
	/* without a layout: row-major, 16 bytes a lane */
	struct cost_lanes d = lanes_of(NULL, 8, 64, 2, 2);
	assert_int_equal(d.nreg, 3);
	assert_int_equal(d.lane[1], 8);
}

static void test_bad_layouts(void **state)
{
	static const char *const bad[] = {
		"#ttg.blocked<{sizePerThread = [3], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
		"#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [16], warpsPerCTA = [4], order = [0]}>",
		"#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [7]}>",
		"#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>",
		"#ttg.blocked<{sizePerThread = [999999999999999999999], threadsPerWarp = [32], warpsPerCTA = [4], order = "
		"[0]}>",
		"#ttg.linear<{register = [[", "#ttg.nvidia_mma<{versionMajor = 3", ""};
	struct cost_layout layout;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (!cost_layout_parse((struct slice){bad[i], strlen(bad[i])}, &layout)) fail_msg("taken: %s", bad[i]);
	/* bases that repeat each other cannot make more instructions than the block has elements */
	struct cost_lanes same = lanes_of("#ttg.linear<{register = [[0, 1], [0, 1], [0, 3]], lane = [[0, 1], [0, 2], [0, "
									  "4], [0, 8], [0, 16]], warp = [[1, 0], [1, "
									  "0], [1, 0], [1, 1], [3, 0]]}>",
		4, 32, 4, 4);
	assert_true(same.nreg + same.nwarp <= 2);
	int32_t odd[1] = {48};
	struct cost_lanes lanes;
	/* a register base that is a sum of two bits, one of them a lane's: the other half of the block
	 * all the same */
	struct cost_lanes half = lanes_of(
		"#ttg.linear<{register = [[1, 1]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = []}>", 2, 32, 4, 1);
	assert_int_equal(half.nreg, 1);
	assert_int_equal(half.reg[0], 33);
	/* swizzled warps: the first is new, the second the sum of it and a lane's bit */
	half = lanes_of(
		"#ttg.linear<{register = [], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[1, 3], [1, 0]]}>", 4,
		32, 4, 4);
	assert_int_equal(half.nwarp, 1);
	assert_int_equal(half.warp_copies, 2);
	assert_int_equal(half.nreg, 1);
	assert_int_equal(half.reg[0], 64);
	assert_false(cost_lanes_of(NULL, 1, odd, 4, 4, &lanes));
}

/* Whatever bases a text gives, registers, warps and lanes together reach every element, each as
 * often as any other. */
static void test_cover(void **state)
{
	enum { ROWS = 16, COLS = 32, COUNT = ROWS * COLS };
	for (int trial = 0; trial < 2000; trial++) {
		struct str text = {0};
		static const char *const keys[] = {"register = [", "], lane = [", "], warp = ["};
		str_printf(&text, "#ttg.linear<{");
		/* Bases at random: up to five registers, five lanes, up to three warps. */
		for (int k = 0; k < 3; k++) {
			str_printf(&text, "%s", keys[k]);
			for (int b = 0; b < (k == 1 ? 5 : k == 0 ? trial % 6 : trial % 4); b++) {
				uint32_t r = rng_u32(7, (uint64_t)trial, (uint64_t)(8 * k + b));
				str_printf(&text, "%s[%u, %u]", b ? ", " : "", (r >> 16) % (ROWS + 4),
					(r & 0xffff) % (COLS + 4)); /* some beyond the block */
			}
		}
		str_printf(&text, "]}>");
		/* Every element that some register of some lane of some warp holds. */
		struct cost_lanes l = lanes_of(text.data, ROWS, COLS, 4, 4);
		int times[COUNT] = {0}, reached = 0;
		for (int i = 0; i < 1 << (l.nreg + l.nwarp); i++)
			for (int lane = 0; lane < 32; lane++) {
				int32_t at = l.lane[lane];
				for (int b = 0; b < l.nreg + l.nwarp; b++)
					at ^= i >> b & 1 ? b < l.nreg ? l.reg[b] : l.warp[b - l.nreg] : 0;
				assert_true(at >= 0 && at < COUNT);
				reached += !times[at]++;
			}
		/* All of them, equally often. */
		if (reached != COUNT) fail_msg("%s reaches %d of %d", text.data, reached, COUNT);
		for (int i = 1; i < COUNT; i++)
			if (times[i] != times[0])
				fail_msg("%s: element %d %d times, element 0 %d times", text.data, i, times[i], times[0]);
		str_release(&text);
	}
}

/* ---- coalescing: a 32 x 32 block of f32 from a row-major matrix of 1024 columns ---- */

#define MATRIX_COLS 1024
#define TTIR "module {\n  tt.func public @k(%a: !tt.ptr<f32>) {\n" \
	"%i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>\n" \
	"%r = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>\n" \
	"%c = tt.expand_dims %i {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>\n" \
	"%w = arith.constant dense<1024> : tensor<32x1xi32>\n" \
	"%rw = arith.muli %r, %w : tensor<32x1xi32>\n" \
	"%rb = tt.broadcast %rw : tensor<32x1xi32> -> tensor<32x32xi32>\n" \
	"%cb = tt.broadcast %c : tensor<1x32xi32> -> tensor<32x32xi32> loc(\"k.py\":7:3)\n" \
	"%o = arith.addi %rb, %cb : tensor<32x32xi32>\n" \
	"%p = tt.splat %a : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>\n" \
	"%q = tt.addptr %p, %o : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>\n" \
	"%v = tt.load %q : tensor<32x32x!tt.ptr<f32>> loc(\"k.py\":5:3)\n" \
	" tt.store %q, %v : tensor<32x32x!tt.ptr<f32>> loc(\"k.py\":6:3)\n    tt.return\n" \
	"  } loc(\"k.py\":1:0)\n}\n"
#define TTGIR(layout) "#b = " layout "\n#loc = loc(\"k.py\":1:0)\nmodule {\n" \
	"  %v = tt.load %q : tensor<32x32x!tt.ptr<f32>, #b> loc(#loc2)\n" \
	"  tt.store %q, %v : tensor<32x32x!tt.ptr<f32>, #b> loc(callsite(#loc3 at #loc2))\n}\n#loc1 = loc(unknown)\n" \
	"#loc2 = loc(\"k.py\":5:3)\n" \
	"#loc3 = loc(\"k.py\":6:3)\n"

static uint8_t matrix[32 * MATRIX_COLS * 4];

static struct vm_cost cost_of(const char *ttir, const char *ttgir, int warps)
{
	struct err err = {0};
	struct vm_kernel *k;
	struct vm_compiled compiled = {.binary = vm_binary_default(warps)}; /* with the vm's own size of L1 */
	struct vm_report r;
	struct vm_buffer buffer = {.address = tape_buffer_address(0), .bytes = sizeof matrix, .data = matrix};
	struct vm_arg arg = {.i = (int64_t)buffer.address};
	/* One program of the kernel, with the layouts of its compiled form. */
	if (vm_kernel_create(ttir, strlen(ttir), &k, &err) ||
		vm_layouts_create(ttgir, strlen(ttgir), &compiled.layouts, &err))
		fail_msg("%s", err.text);
	struct vm_launch_options o = {
		.grid = {1, 1, 1},
		.args = &arg,
		.nargs = 1,
		.buffers = &buffer,
		.nbuffers = 1,
		.want_cost = true,
		.compiled = &compiled,
	};
	if (vm_launch(k, &o, &r, &err)) fail_msg("%s", err.text);
	struct vm_cost c = r.cost;
	vm_report_release(&r);
	vm_layouts_free(compiled.layouts);
	vm_kernel_free(k);
	return c;
}

static struct vm_cost cost_with(const char *ttgir, int warps) { return cost_of(TTIR, ttgir, warps); }

static void test_coalescing(void **state)
{
	/* rows: a lane takes 16 bytes, 8 lanes a row of 128: 4 rows = 16 sectors in 4 lines for each of
	 * 8 requests */
	struct vm_cost c = cost_with(
		TTGIR("#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"),
		4);
	assert_int_equal(c.load_sectors, 32 * 4);
	assert_int_equal(c.load_lines, 32);
	assert_int_equal(c.store_lines, 32);
	assert_int_equal(c.requests, 8 + 8);
	assert_int_equal(c.l2_sectors, 128 + 128);
	/* columns: each of 32 lanes in its own row: 32 sectors and lines a request; a sector
	 * is asked for by 8 requests, which L1 answers after the first; stores all go on */
	c = cost_with(
		TTGIR("#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]}>"),
		4);
	assert_int_equal(c.load_sectors, 32 * 32);
	assert_int_equal(c.load_lines, 32 * 32);
	assert_int_equal(c.requests, 32 + 32);
	assert_int_equal(c.l2_sectors, 128 + 32 * 32);
	assert_int_equal(c.load_bytes, 4096);
	/* both touch the same bytes */
	assert_int_equal(c.footprint_bytes, 2 * 4096);
}

/* A change of layout counts twice its bytes, at most a block's; a shape whose bytes are beyond any
 * integer is such a block. */
static void test_conversion(void **state)
{
	static const struct {
		const char *type;
		int64_t bytes;
	} rows[] = {{"tensor<32x32xf32, #b>", 4096}, {"tensor<65536x65536x65536x8192xf32, #b>", 1 << 20},
		{"tensor<2147483647x2147483647x2147483647x2147483647x2147483647xi64, #b>", 1 << 20}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str text = {0};
		str_printf(&text, "%s %%z = ttg.convert_layout %%v : %s -> %s loc(#loc2)\n", TTGIR(BLOCKED_ROWS), rows[i].type,
			rows[i].type);
		struct vm_cost c = cost_with(text.data, 4);
		if (c.shared_bytes != 2 * rows[i].bytes) fail_msg("%s: %lld bytes", rows[i].type, (long long)c.shared_bytes);
		str_release(&text);
	}
	/* One that stands where the program only broadcasts is as dear, and a fence like any other. */
	static const char text[] = TTGIR(BLOCKED_ROWS) "  %z = ttg.convert_layout %c : tensor<1x32xi32, #b> -> "
												   "tensor<1x32xi32, #b> loc(\"k.py\":7:3)\n";
	struct vm_cost without = cost_with(TTGIR(BLOCKED_ROWS), 4), with = cost_with(text, 4);
	assert_int_equal(with.shared_bytes, 2 * 32 * 4);
	assert_int_equal(without.shared_bytes, 0);
	assert_true(with.path_cycles >= without.path_cycles + 100); /* a barrier, out and back */
}

/* What a reduction along lanes and warps leaves lies in many threads, each of which computes it: 32
 * functions of 32 elements are one instruction of a warp where each thread has its own, and 32 of
 * each of four warps where each thread holds all. */
#define SLICED "#ttg.slice<{dim = 1, parent = #b}>"
static void test_copies(void **state)
{
	static const char ttir[] = "module {\n  tt.func public @k(%a: !tt.ptr<f32>) {\n"
							   "%i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>\n"
							   "%f = arith.sitofp %i : tensor<32xi32> to tensor<32xf32>\n"
							   "%e = math.exp %f : tensor<32xf32> loc(\"k.py\":5:3)\n"
							   "    tt.return\n  } loc(\"k.py\":1:0)\n}\n";
	static const char wide[] =
		"#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 4], "
		"order = [1, 0]}>\n#loc = loc(\"k.py\":1:0)\nmodule {\n"
		"  %e = math.exp %f : tensor<32xf32, " SLICED "> loc(#loc1)\n}\n"
		"#loc1 = loc(\"k.py\":5:3)\n";
	static const char tall[] =
		"#b = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], "
		"order = [1, 0]}>\n#loc = loc(\"k.py\":1:0)\nmodule {\n"
		"  %e = math.exp %f : tensor<32xf32, " SLICED "> loc(#loc1)\n}\n"
		"#loc1 = loc(\"k.py\":5:3)\n";
	int64_t unknown = cost_of(ttir, TTGIR(BLOCKED_ROWS), 4).special_instrs;
	assert_int_equal(cost_of(ttir, tall, 4).special_instrs, unknown);
	/* The cast is one instruction of each warp in all of them. */
	assert_int_equal(cost_of(ttir, wide, 4).special_instrs - unknown, 4 * (32 - 1));
}

/* A product whose result is too small for the program's warps is computed by several of them: two
 * warps have 16 x 8 each, of eight four have the same. */
static void test_small_dot(void **state)
{
	static const char ttir[] = "module {\n  tt.func public @k(%a: !tt.ptr<f32>) {\n"
							   "%x = arith.constant dense<1.0> : tensor<16x16xf16>\n"
							   "%z = arith.constant dense<0.0> : tensor<16x16xf32>\n"
							   "%d = tt.dot %x, %x, %z : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32> "
							   "loc(\"k.py\":5:3)\n"
							   "    tt.return\n  } loc(\"k.py\":1:0)\n}\n";
	int64_t cycles[2];
	for (int i = 0; i < 2; i++) {
		char *ttgir = xasprintf("#m = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, %d], "
								"instrShape = [16, 8]}>\n#loc = loc(\"k.py\":1:0)\nmodule {\n"
								"  %%d = tt.dot %%x, %%y, %%z : tensor<16x16xf16, #x> * tensor<16x16xf16, #y> -> "
								"tensor<16x16xf32, #m> loc(#loc1)\n}\n#loc1 = loc(\"k.py\":5:3)\n",
			i ? 8 : 2);
		cycles[i] = cost_of(ttir, ttgir, i ? 8 : 2).tensor_cycles;
		free(ttgir);
	}
	/* 8,192 flops at 0.6 of 4,096 a cycle are 3.3 cycles. */
	assert_int_equal(cycles[0], 4);
	assert_int_equal(cycles[1], 14);
}

/* ---- reductions ---- */

#define REDUCE "\"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y : f32\n" \
	"tt.reduce.return %z : f32\n})"

static struct cost_reduce reduce_of(const char *text, int rows, int cols, int axis, int warps)
{
	struct cost_layout layout;
	struct cost_reduce r;
	assert_int_equal(cost_layout_parse((struct slice){text, strlen(text)}, &layout), 0);
	assert_true(cost_reduce_of(&layout, 2, (int32_t[]){rows, cols}, axis, warps, &r));
	return r;
}

static void test_reduce(void **state)
{
	/* 16 x 256 over rows, a lane holds 8 columns of each of its rows, four warps hold four rows at
	 * a time. Lane l writes results 8 l + j of warp w at word 4 (8 l + j) + w: all in one bank, 32
	 * turns, and reads them back like that; in between 1024 words in 8 rounds of 128 threads, out
	 * and back. In PTX (Triton 3.6) these are 8, 8 + 8 and 8 accesses of each warp; an H200 counted
	 * 2344 turns of a program that does this and a little more. */
	struct cost_reduce r = reduce_of(
		"#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>", 16,
		256, 0, 4);
	assert_int_equal(r.results, 8);
	assert_int_equal(r.steps, 0);
	assert_int_equal(r.warps_along, 4);
	assert_int_equal(r.rounds, 8);
	assert_int_equal(r.wavefronts, 4 * (2 * 8 * 32 + 2 * 8));
	/* one column a lane: words 4 apart, 4 turns */
	r = reduce_of(
		"#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>", 16,
		256, 0, 4);
	assert_int_equal(r.wavefronts, 4 * (2 * 8 * 4 + 2 * 8));
	/* over columns: 16 lanes a row combine in four steps, no warp meets another */
	r = reduce_of(BLOCKED_ROWS, 16, 64, 1, 4);
	assert_int_equal(r.results, 2);
	assert_int_equal(r.steps, 4);
	assert_int_equal(r.warps_along, 1);
	assert_int_equal(r.wavefronts, 0);
}

/* 32 x 32 over rows: all 32 lanes of a warp in a column, two warps a column. 16 results, 5 steps of
 * shuffles, a cycle each, and shared memory. */
static void test_reduce_cost(void **state)
{
	struct str ttir = {0}, ttgir = {0};
	const char *store = strstr(TTIR, " tt.store");
	str_printf(&ttir, "%.*s%%s = %s : (tensor<32x32xf32>) -> tensor<32xf32> loc(\"k.py\":7:3)\n%s", (int)(store - TTIR),
		TTIR, REDUCE, store);
	for (int with = 0; with < 2; with++) {
		str_clear(&ttgir);
		str_printf(&ttgir, "%s", TTGIR(BLOCKED_COLS));
		if (with)
			str_printf(&ttgir,
				"%%s = %s : (tensor<32x32xf32, #b>) -> tensor<32xf32, #ttg.slice<{dim = 0, parent = #b}>> loc(#loc4)\n",
				REDUCE);
		str_printf(&ttgir, "#loc4 = loc(\"k.py\":7:3)\n");
		int64_t shared = cost_of(ttir.data, ttgir.data, 4).shared_bytes;
		struct cost_reduce r = reduce_of(BLOCKED_COLS, 32, 32, 0, 4);
		int64_t shuffles = r.results * r.steps + r.rounds * (r.warps_along > 1);
		if (with) assert_int_equal(shared, 128 * (r.wavefronts + 4 * shuffles));
		else assert_int_not_equal(shared, 128 * (r.wavefronts + 4 * shuffles));
	}
	str_release(&ttir);
	str_release(&ttgir);
}

/* A copy into shared memory that is transposed for a 32-bit operand of wgmma, and its buffers. */
static void test_async_copy(void **state)
{
	const char *text = "#b = " BLOCKED_ROWS
					   "\n#s = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 32}>\n"
					   "#loc = loc(\"k.py\":1:0)\n"
					   "%x = ttg.local_alloc : () -> !ttg.memdesc<3x32x32xf32, #s, #smem, mutable> loc(#loc2)\n"
					   "%y = ttg.async_copy_global_to_local %p, %x mask %m {contiguity = 4 : i32} : "
					   "tensor<32x32x!tt.ptr<f32>, #b> -> <32x32xf32, #s, #smem, mutable> loc(#loc2)\n"
					   "%z = ttg.async_copy_global_to_local %p, %x : tensor<32x32x!tt.ptr<f32>, #b> -> <32x32xf32, "
					   "#plain, #smem, mutable> loc(#loc2)\n"
					   "#loc2 = loc(\"k.py\":5:3)\n";
	struct vm_layouts *l;
	struct err err = {0};
	assert_int_equal(vm_layouts_create(text, strlen(text), &l, &err), 0);
	assert_int_equal(l->stages, 3);
	assert_int_equal(l->nsites, 2);
	assert_true(
		l->sites[0].is_async && l->sites[0].is_scattered && l->sites[0].line == 5 && l->sites[0].shape[1] == 32);
	assert_true(l->sites[1].is_async && !l->sites[1].is_scattered);
	vm_layouts_free(l);
}

/* ---- what the compile worker says ---- */

static void test_compiled(void **state)
{
	struct err err = {0};
	struct vm_compiled *c;
	json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:i, s:s}", "num_warps", 8, "registers", 40, "stack_bytes", 96,
		"spills", 12, "shared_bytes", 2048, "ttgir", TTGIR(BLOCKED_ROWS));
	if (vm_compiled_create(o, vm_gpu_find("H200"), &c, &err)) fail_msg("%s", err.text);
	assert_int_equal(c->binary.warps, 8);
	assert_int_equal(c->binary.registers, 40);
	assert_int_equal(c->binary.stack_bytes, 96);
	assert_int_equal(c->binary.local_bytes, 12);
	assert_int_equal(c->binary.shared_bytes, 2048);
	/* 256 threads of 40 registers: 6 programs by registers, 8 by threads; each has its shared
	 * memory and 1 KiB of the system's in a sixth of 256 KiB. */
	assert_int_equal(c->l1_bytes, (256 << 10) / 6 - 2048 - 1024);
	assert_int_equal(c->layouts->nsites, 2);
	vm_compiled_free(c);
	json_decref(o);
}

/* Numbers of any size and things that are no numbers. */
static void test_hostile_compiled(void **state)
{
	static const char *const texts[] = {"null", "{}", "[]",
		"{\"num_warps\": 1e300, \"registers\": -5, \"spills\": \"x\", \"shared_bytes\": 1e99, \"stack_bytes\": [], "
		"\"ttgir\": 7}",
		"{\"num_warps\": 0.5, \"registers\": 99999, \"spills\": 9007199254740993, \"ttgir\": \"\\u0000#b\"}"};
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct err err = {0};
		struct vm_compiled *c;
		json_t *o = json_loads(texts[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
		assert_non_null(o);
		assert_int_equal(vm_compiled_create(o, vm_gpu_find("A100"), &c, &err), 0);
		assert_in_range(c->binary.warps, 1, 32);
		assert_in_range(c->binary.registers, 1, 255);
		assert_true(c->binary.stack_bytes >= 0 && c->binary.local_bytes >= 0 && c->binary.shared_bytes >= 0);
		assert_true(c->l1_bytes >= 2048);
		vm_compiled_free(c);
		json_decref(o);
	}
}

static void test_hostile_text(void **state)
{
	const char *text = TTGIR(BLOCKED_ROWS);
	size_t len = strlen(text);
	struct err err = {0};
	struct vm_layouts *l;
	for (size_t n = 0; n < len; n++) {
		char *cut = xmalloc(n + 1);
		memcpy(cut, text, n);
		assert_int_equal(vm_layouts_create(cut, n, &l, &err), 0);
		vm_layouts_free(l);
		static const char marks[] = "#<>[](),\"9\n";
		for (size_t m = 0; n && m < sizeof marks - 1; m++) {
			char *changed = xmalloc(len);
			memcpy(changed, text, len);
			changed[n] = marks[m];
			assert_int_equal(vm_layouts_create(changed, len, &l, &err), 0);
			vm_layouts_free(l);
			free(changed);
		}
		free(cut);
	}
	/* locations that name each other */
	const char *loop =
		"#loc = loc(\"k.py\":1:0)\n#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(callsite(#loc1 at #loc2))\n"
		" tt.load %q : tensor<32x!tt.ptr<f32>, #b> loc(#loc1)\n";
	assert_int_equal(vm_layouts_create(loop, strlen(loop), &l, &err), 0);
	assert_int_equal(l->nsites, 0);
	vm_layouts_free(l);
}

/* ---- the estimate ---- */

static const struct vm_cost base_cost = {
	.programs = 4096,
	.footprint_bytes = 64 << 20,
	.footprint_read = 32 << 20,
	.l2_sectors = 2 << 20,
	.load_lines = 1 << 19,
	.store_lines = 1 << 18,
	.fma_instrs = 1 << 20,
	.alu_instrs = 1 << 20,
	.special_instrs = 1 << 18,
	.other_instrs = 1 << 20,
	.tensor_cycles = 1 << 18,
	.shared_bytes = 1 << 24,
	.atomics = 1 << 12,
	.atomic_hot = 4,
	.path_cycles = 4096ll * 3000,
	.path_trips = 4096,
	.path_cycles_max = 3000,
	.l1_cycles_max = 1 << 8,
	.shared_bytes_max = 1 << 12,
	.atomics_max = 1,
	.steps = 1 << 20,
	.steps_once = 1 << 20,
};

/* More of anything never makes a launch faster, on any GPU; much more of it becomes the limit that
 * it stands for. (Not l2_sectors: for the same footprint they say that more loads find their data
 * in L2.) */
static void test_monotonic(void **state)
{
	static const struct {
		size_t at;
		enum vm_limit limit;
	} rows[] = {
		{offsetof(struct vm_cost, footprint_bytes), VM_LIMIT_DRAM},
		{offsetof(struct vm_cost, load_lines), VM_LIMIT_L1},
		{offsetof(struct vm_cost, store_lines), VM_LIMIT_L1},
		{offsetof(struct vm_cost, fma_instrs), VM_LIMIT_ISSUE},
		{offsetof(struct vm_cost, alu_instrs), VM_LIMIT_ISSUE},
		{offsetof(struct vm_cost, other_instrs), VM_LIMIT_ISSUE},
		{offsetof(struct vm_cost, special_instrs), VM_LIMIT_SPECIAL},
		{offsetof(struct vm_cost, tensor_cycles), VM_LIMIT_TENSOR},
		{offsetof(struct vm_cost, shared_bytes), VM_LIMIT_SHARED},
		{offsetof(struct vm_cost, atomic_hot), VM_LIMIT_ATOMIC},
		{offsetof(struct vm_cost, path_cycles), VM_LIMIT_LATENCY},
		{offsetof(struct vm_cost, path_cycles_max), VM_LIMIT_LATENCY},
		{offsetof(struct vm_cost, l1_cycles_max), VM_LIMIT_L1},
		{offsetof(struct vm_cost, shared_bytes_max), VM_LIMIT_SHARED},
		{offsetof(struct vm_cost, atomics_max), VM_LIMIT_ATOMIC},
	};
	/* Each count of an ordinary launch is doubled 24 times, on each GPU. */
	struct vm_binary b = vm_binary_default(4);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int g = 0; g < VM_GPU_COUNT; g++) {
			struct vm_cost c = base_cost;
			struct vm_estimate e = vm_estimate(&c, &b, &vm_gpus[g]);
			double last = e.time_s;
			for (int step = 0; step < 24; step++) {
				*(int64_t *)((char *)&c + rows[i].at) *= 2;
				e = vm_estimate(&c, &b, &vm_gpus[g]);
				if (!(e.time_s >= last * 0.999))
					fail_msg("count %zu doubled on %s: %g s after %g s", i, vm_gpus[g].name, e.time_s, last);
				last = e.time_s;
			}
			/* By now it is the only one that matters. */
			if (e.limit != rows[i].limit)
				fail_msg("count %zu on %s: limited by %s", i, vm_gpus[g].name, vm_limit_name(e.limit));
		}
}

static void test_resources(void **state)
{
	const struct vm_gpu *h = vm_gpu_find("h200"), *none = vm_gpu_find("H201");
	assert_non_null(h);
	assert_null(none);
	struct vm_binary b = {.warps = 4, .registers = 32};
	assert_int_equal(vm_estimate(&base_cost, &b, h).blocks_per_sm, 16); /* 2048 threads */
	assert_true(vm_estimate(&base_cost, &b, h).occupancy == 1);
	b.registers = 65;
	assert_int_equal(vm_estimate(&base_cost, &b, h).blocks_per_sm, 7); /* 72 x 128 of 65536 */
	b.shared_bytes = 100 << 10;
	assert_int_equal(vm_estimate(&base_cost, &b, h).blocks_per_sm, 2);
	b = (struct vm_binary){.warps = 1, .registers = 16};
	assert_int_equal(vm_estimate(&base_cost, &b, h).blocks_per_sm, 32);
	assert_int_equal(vm_estimate(&base_cost, &b, vm_gpu_find("L40S")).blocks_per_sm, 24);
	/* An SM has 1 KiB more than a block may ask for, and each block takes 1 KiB beside its own. */
	static const struct {
		const char *gpu;
		int warps;
		int registers;
		int64_t shared_bytes;
		int64_t fit;
	} fits[] = {{"H200", 4, 32, 227 << 10, 1}, {"H200", 4, 32, (227 << 10) + 1, 0}, {"H200", 4, 32, INT64_MAX, 0},
		{"H200", 4, 32, -1024, 16}, {"H200", 4, 32, 113 << 10, 2}, {"H200", 4, 32, (113 << 10) + 1, 1},
		{"H200", 4, 32, 75 << 10, 3}, {"A100", 4, 32, 81 << 10, 2}, {"RTX 4090", 4, 32, 49 << 10, 2},
		{"RTX 4090", 8, 32, 0, 6}, {"H200", 32, 64, 0, 1}, {"H200", 32, 65, 0, 0}, {"H200", 4, 128, 0, 4},
		{"H200", 4, 129, 0, 3}, {"H200", 1, 1, 0, 32}};
	for (size_t i = 0; i < ARRAY_LEN(fits); i++) {
		h = vm_gpu_find(fits[i].gpu);
		int64_t fit = vm_gpu_fit(h, fits[i].warps, fits[i].registers, fits[i].shared_bytes);
		if (fit != fits[i].fit) fail_msg("row %zu: %d blocks fit", i, (int)fit);
		b = (struct vm_binary){
			.warps = fits[i].warps, .registers = fits[i].registers, .shared_bytes = fits[i].shared_bytes};
		assert_int_equal(vm_estimate(&base_cost, &b, h).blocks_per_sm, fit ? fit : 1);
	}
	h = vm_gpu_find("H200");
	/* spilling costs time; twice the DRAM bandwidth does not make anything slower */
	struct vm_binary spilled = {.warps = 4, .registers = 32, .stack_bytes = 4096, .local_bytes = 16384},
					 whole = {.warps = 4, .registers = 32};
	assert_true(vm_estimate(&base_cost, &spilled, h).time_s > 2 * vm_estimate(&base_cost, &whole, h).time_s);
	assert_true(
		vm_estimate(&base_cost, &whole, vm_gpu_find("H100")).time_s > vm_estimate(&base_cost, &whole, h).time_s);
}

static void test_output(void **state)
{
	struct vm_line_cost line = {.line = 12, .cost = {.load_bytes = 4096, .load_sectors = 512, .flops = 1024}};
	struct vm_launch_cost r = {.cost = base_cost, .nlines = 1, .lines = &line};
	r.cost.dot_by[VM_DOT_TF32] = 5000;
	struct vm_binary b = vm_binary_default(4);
	struct vm_cost back;
	struct str text = {0};
	json_t *o = vm_cost_json("k", &r, &b), *counts = json_object_get(o, "counts");
	vm_counts_parse(counts, &back);
	assert_memory_equal(&back, &r.cost, sizeof back);
	assert_true(
		json_number_value(json_object_get(json_object_get(json_object_get(o, "predicted"), "A100"), "time_s")) > 0);
	vm_counts_parse(NULL, &back);
	assert_int_equal(back.programs, 0);
	vm_cost_table(&text, "k", &r, &b, vm_gpu_find("H200"));
	assert_non_null(strstr(text.data, "limited by"));
	assert_non_null(strstr(text.data, "5 k flops on tensor cores (tf32)"));
	assert_non_null(strstr(text.data, "25 %")); /* 4096 bytes in 512 sectors */
	str_release(&text);
	json_decref(o);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_linear_and_mma),
		cmocka_unit_test(test_bad_layouts),
		cmocka_unit_test(test_cover),
		cmocka_unit_test(test_coalescing),
		cmocka_unit_test(test_conversion),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_small_dot),
		cmocka_unit_test(test_reduce),
		cmocka_unit_test(test_reduce_cost),
		cmocka_unit_test(test_async_copy),
		cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_hostile_compiled),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_monotonic),
		cmocka_unit_test(test_resources),
		cmocka_unit_test(test_output),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
