/* TTGIR's layouts as bases, written down by hand from what Triton's documentation says of each
 * form; which lines of a TTGIR are sites, where they stand and what shape and layout they have. */
#include "cost/cost_layout.h"
#include "cost/cost.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

static struct slice of(const char *text) { return (struct slice){text, strlen(text)}; }

static void expect_bases(const char *what, const struct cost_bases *b, const int32_t (*expected)[LAYOUT_DIMS], int n)
{
	if (b->n != n) fail_msg("%s: %d bases, expected %d", what, b->n, n);
	for (int i = 0; i < n; i++)
		for (int d = 0; d < LAYOUT_DIMS; d++)
			if (b->at[i][d] != expected[i][d])
				fail_msg("%s: base %d is %d along %d, expected %d", what, i, b->at[i][d], d, expected[i][d]);
}

struct form {
	const char *text;
	int ndim, mma;
	int nreg, nlane, nwarp;
	int32_t reg[8][LAYOUT_DIMS], lane[6][LAYOUT_DIMS], warp[4][LAYOUT_DIMS];
};

static void test_forms(void **state)
{
	static const struct form forms[] = {
		/* One dimension: a thread has four neighbours, then lanes, then warps. */
		{"#ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>", 1, 0, 2, 5, 2,
			{{1}, {2}}, {{4}, {8}, {16}, {32}, {64}}, {{128}, {256}}},
		/* Rows side by side: the last dimension is the fastest, and the next takes what is left. */
		{"#ttg.blocked<{sizePerThread = [2, 4], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>", 2, 0,
			3, 5, 1, {{0, 1}, {0, 2}, {1, 0}}, {{0, 4}, {0, 8}, {0, 16}, {2, 0}, {4, 0}}, {{8, 0}}},
		/* Columns: the first is the fastest. */
		{"#ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 2], order = [0, 1]}>", 2, 0,
			2, 5, 1, {{1, 0}, {2, 0}}, {{4, 0}, {8, 0}, {16, 0}, {0, 1}, {0, 2}}, {{0, 4}}},
		/* Linear: the bases as they are written; one that repeats elements is zero. */
		{"#ttg.linear<{register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], "
		 "warp = [[0, 0], [16, 0]], block = []}>",
			2, 0, 2, 5, 2, {{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{0, 0}, {16, 0}}},
		/* mma: 16 x 8 a warp; two neighbours of a row, eight rows of four
		 * threads, then the lower half. */
		{"#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>", 2, 2, 2,
			5, 2, {{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{16, 0}, {0, 8}}},
		/* wgmma: as many columns as the instruction has. */
		{"#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 32, 16]}>", 2, 3,
			4, 5, 2, {{0, 1}, {8, 0}, {0, 8}, {0, 16}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {{16, 0}, {32, 0}}},
	};
	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		const struct form *f = &forms[i];
		struct cost_layout l;
		if (cost_layout_parse(of(f->text), &l)) fail_msg("%s", f->text);
		assert_int_equal(l.ndim, f->ndim);
		assert_int_equal(l.mma_version, f->mma);
		expect_bases(f->text, &l.reg, f->reg, f->nreg);
		expect_bases(f->text, &l.lane, f->lane, f->nlane);
		expect_bases(f->text, &l.warp, f->warp, f->nwarp);
	}
}

/* What is no layout of Triton's is not understood: other than 32 lanes, no powers of two, lists of
 * other lengths, dimensions that are not there, shapes beyond what blocks may have. */
static void test_not_understood(void **state)
{
#define BLOCKED(size, threads, warps, order) \
	"#ttg.blocked<{sizePerThread = " size ", threadsPerWarp = " threads ", warpsPerCTA = " warps ", order = " order "}>"
#define MMA(major, warps, shape) \
	"#ttg.nvidia_mma<{versionMajor = " major ", versionMinor = 0, warpsPerCTA = " warps ", instrShape = " shape "}>"
#define LINEAR(reg, lane, warp) "#ttg.linear<{register = " reg ", lane = " lane ", warp = " warp ", block = []}>"
	static const char *const texts[] = {"", "#", "#ttg.other<{}>", "#ttg.blocked<{}>",
		BLOCKED("[4]", "[16]", "[1]", "[0]"), BLOCKED("[4]", "[64]", "[1]", "[0]"),
		BLOCKED("[3]", "[32]", "[1]", "[0]"), BLOCKED("[0]", "[32]", "[1]", "[0]"),
		BLOCKED("[4, 1]", "[32]", "[1]", "[0]"), BLOCKED("[4]", "[32]", "[1]", "[1]"),
		BLOCKED("[4]", "[32]", "[1]", "[]"), BLOCKED("[4", "[32]", "[1]", "[0]"), BLOCKED("[4]", "[32]", "[1]", "[0"),
		BLOCKED("[4]", "[32]", "[65536]", "[0]"), BLOCKED("[2097152]", "[32]", "[1]", "[0]"),
		MMA("1", "[1, 1]", "[16, 8]"), MMA("6", "[1, 1]", "[16, 8]"), MMA("2", "[1]", "[16, 8]"),
		MMA("2", "[3, 1]", "[16, 8]"), MMA("2", "[1, 128]", "[16, 8]"), MMA("3", "[4, 1]", "[16]"),
		MMA("3", "[4, 1]", "[16, 24, 16]"), MMA("3", "[4, 1]", "[16, 4, 16]"),
		LINEAR("[[1]]", "[[2], [4], [8], [16]]", "[]"), LINEAR("[[1]]", "[[2], [4], [8], [16], [32], [64]]", "[]"),
		LINEAR("[[1, 0]]", "[[2], [4], [8], [16], [32]]", "[]"), LINEAR("[[1]", "[[2], [4], [8], [16], [32", "[]")};
	/* None is understood, though some are one number away from what is. */
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct cost_layout l;
		if (!cost_layout_parse(of(texts[i]), &l)) fail_msg("%s", texts[i]);
	}
	struct cost_layout l;
	assert_int_equal(cost_layout_parse(of(MMA("5", "[64, 64]", "[16, 8, 16]")), &l), 0);
	assert_int_equal(cost_layout_parse(of(BLOCKED("[4]", "[32]", "[1024]", "[0]")), &l), 0);
}

static struct vm_layouts *read_text(const char *text)
{
	struct vm_layouts *l;
	struct err err = {0};
	if (vm_layouts_create(text, strlen(text), &l, &err)) fail_msg("%s", err.text);
	return l;
}

#define ROW BLOCKED("[4]", "[32]", "[4]", "[0]")
#define TILE BLOCKED("[1, 4]", "[4, 8]", "[4, 1]", "[1, 0]")

/* Which lines are sites: each operation of the table, by its whole name; shape and layout are the
 * operand's, of a dot the result's, of a reduction those behind its region. */
static void test_sites(void **state)
{
	static const struct {
		const char *line;
		enum cost_site_kind kind;
		int shape; /* along the first dimension; 0: no site */
		int bits;
		bool has_layout;
	} rows[] = {
		{"%v = tt.load %p, %m : tensor<128x!tt.ptr<f16>, #row> loc(#loc1)", COST_SITE_LOAD, 128, 16, true},
		{"tt.store %p, %v : tensor<64x!tt.ptr<bf16>, #row> loc(#loc1)", COST_SITE_STORE, 64, 16, true},
		{"%o = tt.atomic_rmw fadd, relaxed, gpu, %p, %v : (tensor<32x!tt.ptr<f32>, #row>) -> tensor<32xf32, #row> "
		 "loc(#loc1)",
			COST_SITE_ATOMIC, 32, 32, true},
		{"%o = tt.atomic_cas relaxed, gpu, %p, %c, %v : (tensor<16x!tt.ptr<i64>, #row>) -> tensor<16xi64, #row> "
		 "loc(#loc1)",
			COST_SITE_ATOMIC, 16, 64, true},
		{"%c = ttg.convert_layout %v : tensor<8xi8, #row> -> tensor<8xi8, #tile> loc(#loc1)", COST_SITE_CONVERT, 8, 8,
			true},
		{"ttg.local_store %v, %m : tensor<256xf32, #row> -> !ttg.memdesc<256xf32, #s> loc(#loc1)", COST_SITE_CONVERT,
			256, 32, true},
		{"%a = ttg.local_alloc %v : (tensor<512xf32, #row>) -> !ttg.memdesc<512xf32, #s> loc(#loc1)", COST_SITE_CONVERT,
			512, 32, true},
		{"%d = tt.dot %a, %b, %c : tensor<16x32xf16, #x> * tensor<32x64xf16, #y> -> tensor<16x64xf32, #tile> "
		 "loc(#loc1)",
			COST_SITE_DOT, 16, 32, true},
		{"%d = ttng.warp_group_dot %a, %b, %c : !ttg.memdesc<64x32xf16> * !ttg.memdesc<32x8xf16> -> "
		 "tensor<64x8xf32, #tile> loc(#loc1)",
			COST_SITE_DOT, 64, 32, true},
		{"%g = tt.gather %v[%i] {axis = 0 : i32} : (tensor<64xf32, #row>, tensor<32xi32, #row>) -> tensor<32xf32, "
		 "#row> "
		 "loc(#loc1)",
			COST_SITE_GATHER, 64, 32, true},
		{"%t = ttng.async_tma_copy_global_to_local %d[%i, %j] %m, %b, %p : !tt.tensordesc<tensor<1x32xf32, #s>>, "
		 "!ttg.memdesc<1xi64, #b> -> !ttg.memdesc<1x32xf32, #s> loc(#loc1)",
			COST_SITE_LOAD, 1, 32, false},
		/* No such layout, or one of other dimensions; a block without any. */
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>, #none> loc(#loc1)", COST_SITE_LOAD, 128, 32, false},
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>, #tile> loc(#loc1)", COST_SITE_LOAD, 128, 32, false},
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>> loc(#loc1)", COST_SITE_LOAD, 128, 32, false},
		{"%v = tt.load %p : tensor<4x!tt.ptr<f32>, #ttg.slice<{dim = 0, parent = #tile}>> loc(#loc1)", COST_SITE_LOAD,
			4, 32, true},
		{"%v = tt.load %p : tensor<4x!tt.ptr<f32>, " ROW "> loc(#loc1)", COST_SITE_LOAD, 4, 32, true},
		/* Element by element, where the block is a slice of another one alone. */
		{"%y = math.exp %v : tensor<4xf32, #ttg.slice<{dim = 0, parent = #tile}>> loc(#loc1)", COST_SITE_MAP, 4, 32,
			true},
		{"%y = arith.select %m, %v, %w : tensor<4xi1, #ttg.slice<{dim = 0, parent = #tile}>>, tensor<4xf32, "
		 "#ttg.slice<{dim = 0, parent = #tile}>> loc(#loc1)",
			COST_SITE_MAP, 4, 1, true},
		{"%y = math.exp %v : tensor<4xf32, #row> loc(#loc1)", 0, 0, 0, false},
		{"%y = arith.constant dense<0.0> : tensor<4xf32, #ttg.slice<{dim = 0, parent = #tile}>> loc(#loc1)", 0, 0, 0,
			false},
		{"%y = tt.expand_dims %v {axis = 0 : i32} : tensor<4xf32, #ttg.slice<{dim = 0, parent = #tile}>> -> "
		 "tensor<1x4xf32, #tile> loc(#loc1)",
			0, 0, 0, false},
		/* Names that only begin so, scalars, and lines without a place. */
		{"%v = tt.loader %p : tensor<128x!tt.ptr<f32>, #row> loc(#loc1)", 0, 0, 0, false},
		{"%v = tt.lo %p : tensor<128x!tt.ptr<f32>, #row> loc(#loc1)", 0, 0, 0, false},
		{"%v = tt.load %p : !tt.ptr<f32> loc(#loc1)", 0, 0, 0, false},
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>, #row>", 0, 0, 0, false},
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>, #row> loc(#loc99)", 0, 0, 0, false},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text = xasprintf("#row = %s\n#tile = %s\n#loc = loc(\"k.py\":1:0)\n#loc1 = loc(\"k.py\":7:9)\n    %s\n",
			ROW, TILE, rows[i].line);
		struct vm_layouts *l = read_text(text);
		if (l->nsites != !!rows[i].shape) fail_msg("%d sites: %s", l->nsites, rows[i].line);
		if (l->nsites) {
			const struct cost_site *s = &l->sites[0];
			if (s->kind != rows[i].kind || s->shape[0] != rows[i].shape || s->elem_bits != rows[i].bits ||
				(s->layout >= 0) != rows[i].has_layout || s->line != 7 || s->column != 9)
				fail_msg("kind %d, shape %d, %d bits, layout %d at %d:%d: %s", (int)s->kind, s->shape[0], s->elem_bits,
					s->layout, s->line, s->column, rows[i].line);
		}
		vm_layouts_free(l);
		free(text);
	}
	/* A reduction's types and place stand behind its region. */
	struct vm_layouts *l = read_text(
		"#row = " ROW "\n#loc = loc(\"k.py\":1:0)\n#loc1 = loc(\"k.py\":7:9)\n"
		"%r = \"tt.reduce\"(%v) <{axis = 0 : i32}> ({\n ^bb0(%a: f32, %b: f32):\n"
		" tt.reduce.return %a : f32 loc(#loc)\n}) : (tensor<256xf32, #row>) -> f32 loc(#loc1)\n"
		"}) : (tensor<256xf32, #row>) -> f32 loc(#loc1)\n");
	assert_true(l->nsites == 1 && l->sites[0].kind == COST_SITE_REDUCE && l->sites[0].shape[0] == 256);
	vm_layouts_free(l);
	/* So do a scan's. */
	l = read_text(
		"#row = " ROW "\n#loc = loc(\"k.py\":1:0)\n#loc1 = loc(\"k.py\":7:9)\n"
		"%r = \"tt.scan\"(%v) <{axis = 0 : i32, reverse = false}> ({\n ^bb0(%a: f32, %b: f32):\n"
		" tt.scan.return %a : f32 loc(#loc)\n}) : (tensor<128xf32, #row>) -> tensor<128xf32, #row> loc(#loc1)\n");
	assert_true(l->nsites == 1 && l->sites[0].kind == COST_SITE_SCAN && l->sites[0].shape[0] == 128);
	vm_layouts_free(l);
}

/* The name of a layout may have every letter and digit, and ends where the name does: what another
 * begins with is not it. */
static void test_names(void **state)
{
	struct vm_layouts *l = read_text(
		"#abcxyzABCXYZ.0129_ = " ROW "\n#abcxyzABCXYZ.0129_b = " TILE "\n#loc = loc(\"k.py\":1:0)\n"
		"%v = tt.load %p : tensor<8x!tt.ptr<f32>, #abcxyzABCXYZ.0129_> loc(#loc)\n"
		"%w = tt.load %p : tensor<8x8x!tt.ptr<f32>, #abcxyzABCXYZ.0129_b> loc(#loc)\n"
		"%x = tt.load %p : tensor<16x!tt.ptr<f32>, #abcxyzABCXYZ.0129> loc(#loc)\n");
	assert_int_equal(l->nsites, 3);
	assert_int_equal(l->layouts[l->sites[0].layout].ndim, 1);
	assert_int_equal(l->layouts[l->sites[1].layout].ndim, 2);
	assert_int_equal(l->sites[2].layout, -1);
	/* By place and shape; of another shape the first that stands there. */
	const int32_t one[] = {16}, two[] = {8, 8}, other[] = {64};
	assert_ptr_equal(cost_site_find(l, COST_SITE_LOAD, 1, 0, 1, one), &l->sites[2]);
	assert_ptr_equal(cost_site_find(l, COST_SITE_LOAD, 1, 0, 2, two), &l->sites[1]);
	assert_ptr_equal(cost_site_find(l, COST_SITE_LOAD, 1, 0, 1, other), &l->sites[0]);
	assert_null(cost_site_find(l, COST_SITE_STORE, 1, 0, 1, one));
	assert_null(cost_site_find(l, COST_SITE_LOAD, 2, 0, 1, one));
	assert_null(cost_site_find(l, COST_SITE_LOAD, 1, 1, 1, one));
	vm_layouts_free(l);
}

/* Where an operation stands: the innermost place in the kernel's own file. */
static void test_places(void **state)
{
	static const struct {
		const char *loc;
		int line, column; /* 0: no site */
	} rows[] = {{"loc(\"k.py\":12:34)", 12, 34}, {"loc(\"k.py\":12)", 12, 0}, {"loc(#loc2)", 20, 2},
		{"loc(\"x\"(#loc2))", 20, 2}, {"loc(\"other.py\":5:6)", 5, 6},
		/* A function of the kernel's own file, called from there; one of another file. */
		{"loc(callsite(#loc2 at #loc3))", 20, 2}, {"loc(callsite(#loc4 at #loc3))", 30, 3},
		{"loc(callsite(#loc4 at #loc5))", 30, 3}, {"loc(#loc6)", 20, 2}, {"loc(#loc7)", 0, 0}, {"loc(unknown)", 0, 0},
		{"loc(\"k.py)", 0, 0}, {"loc(callsite(#loc4 at #loc4))", 40, 4}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text = xasprintf("#loc = loc(\"k.py\":1:0)\n#loc2 = loc(\"k.py\":20:2)\n#loc3 = loc(\"k.py\":30:3)\n"
							   "#loc4 = loc(\"lib.py\":40:4)\n#loc5 = loc(callsite(#loc4 at #loc3))\n"
							   "#loc6 = loc(\"y\"(#loc2))\n#loc7 = loc(#loc7)\n"
							   "%%v = tt.load %%p : tensor<8x!tt.ptr<f32>> %s\n",
			rows[i].loc);
		struct vm_layouts *l = read_text(text);
		if (l->nsites != !!rows[i].line) fail_msg("%s: %d sites", rows[i].loc, l->nsites);
		if (l->nsites && (l->sites[0].line != rows[i].line || l->sites[0].column != rows[i].column))
			fail_msg("%s: %d:%d", rows[i].loc, l->sites[0].line, l->sites[0].column);
		vm_layouts_free(l);
		free(text);
	}
}

/* Laid over a block: the bases as flat indices; warps that hold the same elements are counted, and
 * registers beyond the block left out. */
static void test_lanes(void **state)
{
	struct cost_layout l;
	struct cost_lanes lanes;
	assert_int_equal(cost_layout_parse(of(TILE), &l), 0);
	const int32_t block[] = {16, 64};
	assert_true(cost_lanes_of(&l, 2, block, 4, 4, &lanes));
	/* Four neighbours a thread, eight threads a row of 32, four rows; four warps below one another;
	 * the other half of the row is the thread's too. */
	assert_int_equal(lanes.lane[1], 4);
	assert_int_equal(lanes.lane[8], 64);
	assert_int_equal(lanes.lane[31], 7 * 4 + 3 * 64);
	assert_true(lanes.nreg == 3 && lanes.reg[0] == 1 && lanes.reg[1] == 2 && lanes.reg[2] == 32);
	assert_true(lanes.nwarp == 2 && lanes.warp[0] == 4 * 64 && lanes.warp[1] == 8 * 64 && lanes.warp_copies == 1);
	/* A block of four rows: each warp has all of it. */
	const int32_t low[] = {4, 32};
	assert_true(cost_lanes_of(&l, 2, low, 4, 4, &lanes));
	assert_true(lanes.nwarp == 0 && lanes.warp_copies == 4 && lanes.nreg == 2);
	assert_false(cost_lanes_of(&l, 2, (const int32_t[]){12, 64}, 4, 4, &lanes));
	/* Without a layout, or with one of other dimensions: row-major, 16 bytes a thread. */
	assert_true(cost_lanes_of(&l, 1, (const int32_t[]){1024}, 4, 4, &lanes));
	assert_true(lanes.lane[1] == 4 && lanes.warp[0] == 128);
	assert_true(cost_lanes_of(NULL, 1, (const int32_t[]){1024}, 4, 4, &lanes));
	assert_true(lanes.lane[1] == 4 && lanes.reg[0] == 1 && lanes.reg[1] == 2 && lanes.warp[0] == 128);
	assert_true(cost_lanes_of(NULL, 1, (const int32_t[]){1024}, 2, 4, &lanes));
	assert_true(lanes.lane[1] == 8 && lanes.lane[31] == 248 && lanes.warp[1] == 512);
}

/* What stands beside a site's place and shape: copies behind the program's back, by threads or by
 * the unit for boxes; into memory that lies transposed for 32-bit operands; buffers of a loop. */
static void test_marks(void **state)
{
#define COPY "ttg.async_copy_global_to_local %p, %m : tensor<128x!tt.ptr<f32>, #row> -> <128xf32, #"
#define BOX "ttng.async_tma_copy_global_to_local %d[%i] %m, %b, %p : !tt.tensordesc<tensor<32xf32, #s>>, " \
	"!ttg.memdesc<1xi64, #b> -> !ttg.memdesc<32xf32, #"
	static const struct {
		const char *line;
		bool is_async, is_bulk, is_scattered;
		int stages;
	} rows[] = {
		{"%v = tt.load %p : tensor<128x!tt.ptr<f32>, #row> loc(#loc)", false, false, false, 0},
		/* Into plain memory, transposed, of another name, of 16 bits, and not transposed. */
		{COPY "s, #smem> loc(#loc)", true, false, false, 0},
		{COPY "t, #smem> loc(#loc)", true, false, true, 0},
		{COPY "t1, #smem> loc(#loc)", true, false, false, 0},
		{COPY "u, #smem> loc(#loc)", true, false, false, 0},
		{COPY "w, #smem> loc(#loc)", true, false, false, 0},
		{BOX "t, #smem> loc(#loc)", false, true, false, 0},
		{"ttg.local_store %v, %m : tensor<64xf32, #row> -> !ttg.memdesc<64xf32, #t, #smem> loc(#loc)", false, false,
			true, 0},
		{"%a = ttg.local_alloc : () -> !ttg.memdesc<3x64xf32, #s> loc(#loc)\n"
		 "%a = ttg.local_alloc : () -> !ttg.memdesc<2x64xf32, #s> loc(#loc)\n"
		 "tt.store %p, %v : tensor<64x!tt.ptr<f32>, #row> loc(#loc)",
			false, false, false, 3},
		{"%a = ttg.local_alloc : () -> !ttg.memdesc<16x64xf32, #s> loc(#loc)\n"
		 "%a = ttg.local_alloc : () -> !ttg.memdesc<17x64xf32, #s> loc(#loc)\n"
		 "tt.store %p, %v : tensor<64x!tt.ptr<f32>, #row> loc(#loc)",
			false, false, false, 16},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *text = xasprintf("#row = " ROW "\n#s = #ttg.nvmma_shared<{transposed = false, elementBitWidth = 32}>\n"
							   "#t = #ttg.nvmma_shared<{transposed = true, elementBitWidth = 32}>\n"
							   "#u = #ttg.nvmma_shared<{transposed = true, elementBitWidth = 16}>\n"
							   "#w = #ttg.nvmma_shared<{transposed = false, elementBitWidth = 32}>\n"
							   "#loc = loc(\"k.py\":1:0)\n%s\n",
			rows[i].line);
		struct vm_layouts *l = read_text(text);
		if (l->nsites != 1 || l->sites[0].is_async != rows[i].is_async || l->sites[0].is_bulk != rows[i].is_bulk ||
			l->sites[0].is_scattered != rows[i].is_scattered || l->stages != rows[i].stages)
			fail_msg("row %zu: %d sites, async %d, bulk %d, scattered %d, %d stages", i, l->nsites,
				l->nsites && l->sites[0].is_async, l->nsites && l->sites[0].is_bulk,
				l->nsites && l->sites[0].is_scattered, l->stages);
		vm_layouts_free(l);
		free(text);
	}
}

/* As many layouts and bytes as are read, and one more. */
static void test_bounds(void **state)
{
	for (int over = 0; over < 2; over++) {
		struct str s = {0};
		/* Behind the 256th no name is known. */
		str_puts(&s, "#row = " ROW "\n");
		for (int k = 0; k < 255 + over; k++) str_printf(&s, "#l%d = " TILE "\n", k);
		str_printf(
			&s, "#loc = loc(\"k.py\":1:0)\n%%v = tt.load %%p : tensor<4x4x!tt.ptr<f32>, #l%d> loc(#loc)\n", 254 + over);
		struct vm_layouts *l = read_text(s.data);
		assert_int_equal(l->nsites, 1);
		assert_int_equal(l->sites[0].layout >= 0, !over);
		vm_layouts_free(l);
		str_release(&s);
	}
	/* The text's bytes: none of it is read where it is too long. */
	struct vm_layouts *l = (struct vm_layouts *)1;
	struct err err = {0};
	assert_int_equal(vm_layouts_create("", ((size_t)64 << 20) + 1, &l, &err), ERR_LIMIT);
	assert_null(l);
	assert_string_equal(err.text, "the TTGIR has 67108865 bytes, at most 67108864 are read");
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_forms(NULL);
	test_not_understood(NULL);
	test_sites(NULL);
	test_names(NULL);
	test_places(NULL);
	test_lanes(NULL);
	test_marks(NULL);
	test_bounds(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_not_understood),
		cmocka_unit_test(test_sites), cmocka_unit_test(test_names), cmocka_unit_test(test_places),
		cmocka_unit_test(test_lanes), cmocka_unit_test(test_marks), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
