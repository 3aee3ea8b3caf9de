/* A sampled launch against the same launch in full, on real memory: equal where programs are
 * regular, within Hoeffding's bound where masks differ from program to program, refused where
 * counts depend on data. */
#include "base/base.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define ARGS_MAX 8
#define BUFFERS_MAX 4

struct launch_case {
	const char *ttir;
	uint32_t grid[3];
	int nbuffers;
	int64_t bytes[BUFFERS_MAX];
	int nints; /* behind the pointers */
	int64_t ints[ARGS_MAX];
};

/* sampled: buffers by offset, of any size; else real ones, with zeros. */
static int run(
	const struct launch_case *c, const struct vm_sample_options *sample, struct vm_report *r, struct err *err)
{
	struct vm_kernel *k = NULL;
	struct vm_buffer buffers[BUFFERS_MAX];
	struct vm_arg args[ARGS_MAX] = {{0}};
	uint8_t *data[BUFFERS_MAX] = {NULL}, *pattern = NULL;
	int nargs = 0;
	if (sample) vm_pattern_fill(pattern = xmalloc(4 * (size_t)VM_PERIOD_BYTES), VM_PERIOD_BYTES);
	/* A sampled launch sees one pattern that repeats, whatever the buffer's size. */
	for (int i = 0; i < c->nbuffers; i++) {
		if (!sample) data[i] = xcalloc((size_t)c->bytes[i] + 1, 1);
		buffers[i] = (struct vm_buffer){.address = tape_buffer_address(i),
			.bytes = c->bytes[i],
			.data = sample ? pattern : data[i],
			.period = sample ? VM_PERIOD_BYTES : 0};
		args[nargs++].i = (int64_t)buffers[i].address;
	}
	for (int i = 0; i < c->nints; i++) args[nargs++].i = c->ints[i];
	/* Cost is counted either way, which is what is compared. */
	*r = (struct vm_report){.fault = VM_FAULT_NONE};
	int rc = vm_kernel_create(c->ttir, strlen(c->ttir), &k, err);
	struct vm_launch_options o = {.grid = {c->grid[0], c->grid[1], c->grid[2]},
		.args = args,
		.nargs = nargs,
		.buffers = buffers,
		.nbuffers = c->nbuffers,
		.want_cost = true,
		.sample = sample};
	if (!rc) rc = vm_launch(k, &o, r, err);
	vm_kernel_free(k);
	for (int i = 0; i < c->nbuffers; i++) free(data[i]);
	free(pattern);
	return rc;
}

#define COUNTS (sizeof(struct vm_cost) / sizeof(int64_t))
static int64_t count_at(const struct vm_cost *c, size_t i)
{
	int64_t counts[COUNTS];
	memcpy(counts, c, sizeof counts);
	return counts[i];
}

/* Runs little enough for a sample, and says how many programs it took. */
static void both(const struct launch_case *c, struct vm_report *full, struct vm_report *sampled)
{
	struct err err = {0};
	struct vm_sample_options sample = {.seed = 7, .all_work = 1};
	if (run(c, NULL, full, &err) || run(c, &sample, sampled, &err)) fail_msg("%s", err.text);
	assert_int_equal(full->sampled, full->cost.programs);
	assert_true(sampled->sampled < full->cost.programs);
}

static void assert_same_counts(const struct launch_case *c)
{
	struct vm_report full, sampled;
	both(c, &full, &sampled);
	for (size_t i = 0; i < COUNTS; i++)
		if (count_at(&full.cost, i) != count_at(&sampled.cost, i))
			fail_msg("count %zu: %lld in full, %lld by a sample of %lld of %lld programs", i,
				(long long)count_at(&full.cost, i), (long long)count_at(&sampled.cost, i), (long long)sampled.sampled,
				(long long)full.cost.programs);
	assert_int_equal(full.nlines, sampled.nlines);
	for (int i = 0; i < full.nlines; i++) {
		assert_int_equal(full.lines[i].line, sampled.lines[i].line);
		assert_memory_equal(&full.lines[i].cost, &sampled.lines[i].cost, sizeof full.lines[i].cost);
	}
	for (int i = 0; i < 2 * c->nbuffers; i++) assert_int_equal(full.touched[i], sampled.touched[i]);
	assert_true(vm_reached_within(sampled.reached, full.reached));
	assert_true(sampled.sample_error == 0);
	vm_report_release(&full);
	vm_report_release(&sampled);
}

/* ---- kernels ---- */

#define HEAD(params) "module {\n  tt.func public @k(" params ") {\n"
#define TAIL "    tt.return\n  } loc(\"k.py\":1:0)\n}\n"
#define BLOCK_ADD(rows) \
	"%pid = tt.get_program_id x : i32\n%c = arith.constant 256 : i32\n%s = arith.muli %pid, %c : i32\n" \
	"%i = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>\n" \
	"%sb = tt.splat %s : i32 -> tensor<256xi32>\n" \
	"%o = arith.addi %sb, %i : tensor<256xi32>\n%nb = tt.splat %n : i32 -> tensor<256xi32>\n" \
	"%m = arith.cmpi slt, %o, %nb : tensor<256xi32>\n" \
	"%x = tt.splat %a : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>\n" \
	"%xp = tt.addptr %x, %o : tensor<256x!tt.ptr<f32>>, tensor<256xi32>\n" \
	"%y = tt.splat %b : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>\n" \
	"%yp = tt.addptr %y, %o : tensor<256x!tt.ptr<f32>>, tensor<256xi32>\n" rows

static const char double_kernel[] = HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32")
	BLOCK_ADD("%v = tt.load %xp, %m : tensor<256x!tt.ptr<f32>> loc(\"k.py\":5:3)\n%w = arith.addf %v, %v : "
			  "tensor<256xf32> loc(\"k.py\":6:3)\n"
			  "tt.store %yp, %w, %m : tensor<256x!tt.ptr<f32>> loc(\"k.py\":7:3)\n") TAIL;

static void test_elementwise(void **state)
{
	int64_t n = 2000 * 256 - 100;
	assert_same_counts(&(struct launch_case){double_kernel, {2000, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
	n = 513 * 256;
	assert_same_counts(&(struct launch_case){double_kernel, {513, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
}

/* Tiles of 32 x 32 of a product, %k of them along K, masked at the edges of a grid of two axes. */
#define TILE(name, type, of) "%" name "s = tt.splat %" of " : " type " -> tensor<32x32x" type ">\n"
static const char tile_kernel[] = HEAD(
	"%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %rows: i32, %cols: i32, %k: i32, "
	"%trips: i32") "%pm = tt.get_program_id x : i32\n%pn = tt.get_program_id y : i32\n%c32 = "
				   "arith.constant 32 : i32\n"
				   "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n%z = "
				   "arith.constant dense<0.0> : tensor<32x32xf32>\n"
				   "%i = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>\n"
				   "%r = tt.expand_dims %i {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>\n"
				   "%l = tt.expand_dims %i {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>\n"
				   "%rb = tt.broadcast %r : tensor<32x1xi32> -> tensor<32x32xi32>\n%lb = "
				   "tt.broadcast %l : tensor<1x32xi32> -> tensor<32x32xi32>\n"
				   "%m0 = arith.muli %pm, %c32 : i32\n%n0 = arith.muli %pn, %c32 : i32\n"
				   "%m0s = tt.splat %m0 : i32 -> tensor<32x32xi32>\n%n0s = tt.splat %n0 : i32 -> "
				   "tensor<32x32xi32>\n"
				   "%m = arith.addi %m0s, %rb : tensor<32x32xi32>\n%nn = arith.addi %n0s, %lb : "
				   "tensor<32x32xi32>\n" TILE("rows", "i32", "rows") TILE("cols", "i32", "cols") TILE("k", "i32", "k")
					   TILE("pa", "!tt.ptr<f32>", "a") TILE("pb", "!tt.ptr<f32>", "b") TILE("pc", "!tt.ptr<f32>",
						   "c") "%mm = arith.cmpi slt, %m, %rowss : tensor<32x32xi32>\n%mn = "
								"arith.cmpi slt, %nn, %colss : tensor<32x32xi32>\n"
								"%acc = scf.for %t = %zero to %trips step %one iter_args(%s = %z) "
								"-> (tensor<32x32xf32>) : i32 {\n"
								"%k0 = arith.muli %t, %c32 : i32\n%k0s = tt.splat %k0 : i32 -> "
								"tensor<32x32xi32>\n"
								"%ka = arith.addi %k0s, %lb : tensor<32x32xi32>\n%kb = arith.addi "
								"%k0s, %rb : tensor<32x32xi32>\n"
								"%ar = arith.muli %m, %ks : tensor<32x32xi32>\n%ao = arith.addi "
								"%ar, %ka : tensor<32x32xi32>\n"
								"%br = arith.muli %kb, %colss : tensor<32x32xi32>\n%bo = "
								"arith.addi %br, %nn : tensor<32x32xi32>\n"
								"%ap = tt.addptr %pas, %ao : tensor<32x32x!tt.ptr<f32>>, "
								"tensor<32x32xi32>\n"
								"%bp = tt.addptr %pbs, %bo : tensor<32x32x!tt.ptr<f32>>, "
								"tensor<32x32xi32>\n"
								"%av = tt.load %ap, %mm, %z : tensor<32x32x!tt.ptr<f32>> "
								"loc(\"k.py\":9:3)\n"
								"%bv = tt.load %bp, %mn, %z : tensor<32x32x!tt.ptr<f32>> "
								"loc(\"k.py\":10:3)\n"
								"%d = tt.dot %av, %bv, %s : tensor<32x32xf32> * tensor<32x32xf32> "
								"-> tensor<32x32xf32> loc(\"k.py\":11:3)\n"
								"scf.yield %d : tensor<32x32xf32>\n}\n"
								"%cr = arith.muli %m, %colss : tensor<32x32xi32>\n%co = "
								"arith.addi %cr, %nn : tensor<32x32xi32>\n"
								"%cp = tt.addptr %pcs, %co : tensor<32x32x!tt.ptr<f32>>, "
								"tensor<32x32xi32>\n%mc = arith.andi %mm, %mn : tensor<32x32xi1>\n"
								"tt.store %cp, %acc, %mc : tensor<32x32x!tt.ptr<f32>> "
								"loc(\"k.py\":12:3)\n" TAIL;

static void test_tiles(void **state)
{
	/* 17 x 19 tiles, the last of each axis cut: rows and columns of whole sectors, so that
	 * all inner ones are alike */
	int64_t rows = 16 * 32 + 7, cols = 18 * 32 + 8, k = 96;
	assert_same_counts(&(struct launch_case){
		tile_kernel, {17, 19, 1}, 3, {4 * rows * k, 4 * k * cols, 4 * rows * cols}, 4, {rows, cols, k, 3}});
}

/* As many turns as the program's number along x says: a triangle. */
#define TURNS(head, bound) head \
	"%zero = arith.constant 0 : i32\n%one = arith.constant 1 : i32\n" \
	"%zf = arith.constant dense<0.0> : tensor<256xf32>\n" bound \
	"%acc = scf.for %t = %zero to %turns step %one iter_args(%s = %zf) -> (tensor<256xf32>) : i32 {\n" \
	"%v = tt.load %xp, %m : tensor<256x!tt.ptr<f32>> loc(\"k.py\":5:3)\n" \
	"%w = arith.addf %s, %v : tensor<256xf32> loc(\"k.py\":6:3)\n" \
	"scf.yield %w : tensor<256xf32>\n}\ntt.store %yp, %acc, %m : tensor<256x!tt.ptr<f32>> loc(\"k.py\":7:3)\n"
static const char triangle_kernel[] = HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32")
	BLOCK_ADD(TURNS("", "%turns = arith.addi %pid, %one : i32\n")) TAIL;

static void test_triangle(void **state)
{
	int64_t n = 25 * 256;
	assert_same_counts(&(struct launch_case){triangle_kernel, {25, 30, 1}, 2, {4 * n, 4 * n}, 1, {n}});
	/* more ways than strata: programs with about as much work stand for each other */
	struct vm_report full, sampled;
	n = 700 * 256;
	both(&(struct launch_case){triangle_kernel, {700, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}}, &full, &sampled);
	double off = fabs((double)sampled.cost.flops / (double)full.cost.flops - 1);
	/* Of a stratum's programs each does between the least and the most of its work: with 56 strata
	 * of equal work, a draw is off by at most the strata's widths together, over two draws each. */
	assert_true(off < 1.0 / 56);
	assert_true(sampled.sample_error > 0 && sampled.sample_error < 1.0 / 56);
	assert_int_equal(full.cost.path_cycles_max, sampled.cost.path_cycles_max);
	vm_report_release(&full);
	vm_report_release(&sampled);
}

/* One program among 4,096 does a hundred times the work of all others together. */
static const char hidden_kernel[] = HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") BLOCK_ADD(TURNS("",
	"%who = arith.constant 777 : i32\n%much = arith.constant 40000 : i32\n%is = arith.cmpi eq, %pid, %who : i32\n"
	"%turns = arith.select %is, %much, %one : i32\n")) TAIL;

static void test_nothing_hides(void **state)
{
	int64_t n = 4096 * 256;
	assert_same_counts(&(struct launch_case){hidden_kernel, {4096, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
}

/* The same program, which asks for its number by inline assembly. */
#define ASKED(head, name) head \
	"%asked = tt.elementwise_inline_asm \"mov.u32 $0, " name ";\" {constraints = \"=r,r\", " \
	"packed_element = 1 : i32, pure = true} %n : i32 -> i32\n"
#define HIDDEN_BY(name) HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") BLOCK_ADD(TURNS(ASKED("", name), \
	"%who = arith.constant 777 : i32\n%much = arith.constant 40000 : i32\n%is = arith.cmpi eq, %asked, %who : i32\n" \
	"%turns = arith.select %is, %much, %one : i32\n")) TAIL

static void test_nothing_hides_in_assembly(void **state)
{
	static const char by_program[] = HIDDEN_BY("%ctaid.x"), by_grid[] = HIDDEN_BY("%nctaid.x"),
					  by_sm[] = HIDDEN_BY("%smid");
	int64_t n = 4096 * 256;
	assert_same_counts(&(struct launch_case){by_program, {4096, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
	/* How many there are is the same for all. */
	assert_same_counts(&(struct launch_case){by_grid, {4096, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
	/* Where a program runs is as open as what stands in memory. */
	struct err err = {0};
	struct vm_report r;
	struct launch_case c = {by_sm, {4096, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}};
	assert_int_equal(run(&c, &(struct vm_sample_options){.seed = 1}, &r, &err), ERR_UNSUPPORTED);
	if (!strstr(err.text, "trip count") || !strstr(err.text, "depends on data")) fail_msg("%s", err.text);
	vm_report_release(&r);
}

/* Rows of 300 floats: 37.5 sectors, so what a row asks for depends on where it begins. */
static const char rows_kernel[] = HEAD(
	"%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") "%pid = tt.get_program_id x : i32\n%s = arith.muli %pid, %n : i32\n"
												   "%i = tt.make_range {end = 512 : i32, start = 0 : i32} : "
												   "tensor<512xi32>\n%sb = tt.splat %s : i32 -> tensor<512xi32>\n"
												   "%o = arith.addi %sb, %i : tensor<512xi32>\n%nb = tt.splat %n : i32 "
												   "-> tensor<512xi32>\n"
												   "%m = arith.cmpi slt, %i, %nb : tensor<512xi32>\n"
												   "%x = tt.splat %a : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>\n%xp = "
												   "tt.addptr %x, %o : tensor<512x!tt.ptr<f32>>, tensor<512xi32>\n"
												   "%y = tt.splat %b : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>>\n%yp = "
												   "tt.addptr %y, %o : tensor<512x!tt.ptr<f32>>, tensor<512xi32>\n"
												   "%v = tt.load %xp, %m : tensor<512x!tt.ptr<f32>> loc(\"k.py\":5:3)\n"
												   "tt.store %yp, %v, %m : tensor<512x!tt.ptr<f32>> "
												   "loc(\"k.py\":7:3)\n" TAIL;

static void test_ragged(void **state)
{
	struct vm_report full, sampled, one;
	int64_t rows = 3001, n = 300;
	struct launch_case c = {rows_kernel, {3001, 1, 1}, 2, {4 * rows * n, 4 * rows * n}, 1, {n}};
	both(&c, &full, &sampled);
	/* What adds up alike in every program is exact, as are bytes that programs share at
	 * the edges of their rows. */
	assert_int_equal(full.cost.load_bytes, sampled.cost.load_bytes);
	assert_int_equal(full.cost.footprint_bytes, sampled.cost.footprint_bytes);
	assert_int_equal(full.cost.other_instrs, sampled.cost.other_instrs);
	/* Sectors of a program lie between those of a row that begins and one that does not begin at a
	 * sector: one more at most. The draws are independent, each from its own part of the grid, so
	 * Hoeffding bounds their sum's deviation: for n draws of N programs by N sqrt(ln(2 / p) / 2
	 * n), here with p = 1e-9. */
	double draws = (double)sampled.sampled - 2, bound = (double)rows * sqrt(log(2e9) / (2 * draws));
	double off = fabs((double)(sampled.cost.load_sectors - full.cost.load_sectors));
	if (off > bound) fail_msg("%g sectors off, bound %g", off, bound);
	assert_true(sampled.sample_error > 0 && sampled.sample_error < 0.01);
	/* another seed, another sample; the same seed, the same */
	struct err err = {0};
	assert_int_equal(run(&c, &(struct vm_sample_options){.seed = 7, .all_work = 1}, &one, &err), 0);
	assert_memory_equal(&one.cost, &sampled.cost, sizeof one.cost);
	vm_report_release(&one);
	/* little work: everything runs, on memory by offset */
	assert_int_equal(run(&c, &(struct vm_sample_options){.seed = 7}, &one, &err), 0);
	assert_memory_equal(&one.cost, &full.cost, sizeof one.cost);
	assert_int_equal(one.sampled, rows);
	assert_true(one.sample_error == 0);
	vm_report_release(&one);
	vm_report_release(&full);
	vm_report_release(&sampled);
}

/* 6 GiB a buffer, of which nothing is allocated. */
static void test_large(void **state)
{
	struct err err = {0};
	struct vm_report r;
	int64_t n = INT64_C(1536) << 20;
	struct launch_case c = {double_kernel, {(uint32_t)(n / 256), 1, 1}, 2, {4 * n, 4 * n}, 1, {n}};
	if (run(&c, &(struct vm_sample_options){.seed = 1}, &r, &err)) fail_msg("%s", err.text);
	assert_int_equal(r.cost.load_bytes, 4 * n);
	assert_int_equal(r.cost.footprint_bytes, 8 * n);
	assert_int_equal(r.touched[3], 4 * n);
	vm_report_release(&r);
	/* and bounds are those of the whole */
	c.bytes[1] -= 4;
	assert_int_equal(run(&c, &(struct vm_sample_options){.seed = 1}, &r, &err), ERR_MISMATCH);
	assert_int_equal(r.fault, VM_FAULT_OUT_OF_BOUNDS);
	vm_report_release(&r);
}

static const char counter_kernel[] = HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") BLOCK_ADD(
	"%t = arith.constant true\n%f = arith.constant 1.0 : f32\n%v = tt.load %xp, %m : tensor<256x!tt.ptr<f32>> "
	"loc(\"k.py\":5:3)\n"
	"%q = tt.atomic_rmw fadd, acq_rel, gpu, %b, %f, %t : (!tt.ptr<f32>, f32, i1) -> f32 loc(\"k.py\":6:3)\n") TAIL;

static void test_atomics(void **state)
{
	int64_t n = 3000 * 256;
	assert_same_counts(&(struct launch_case){counter_kernel, {3000, 1, 1}, 2, {4 * n, 4}, 1, {n}});
}

/* ---- what cannot be told ---- */

static const struct {
	const char *what, *ttir;
} depends[] = {
	{"trip count",
		HEAD("%a: !tt.ptr<i32>, %b: !tt.ptr<f32>, %n: i32") "%zero = arith.constant 0 : i32\n%one = arith.constant 1 : "
															"i32\n%f = arith.constant 1.0 : f32\n"
															"%c = tt.load %a : !tt.ptr<i32> loc(\"k.py\":5:3)\n"
															"%r = scf.for %t = %zero to %c step %one iter_args(%s = "
															"%f) -> (f32) : i32 {\n%w = arith.addf %s, %s : "
															"f32\nscf.yield %w : f32\n}\n"
															"tt.store %b, %r : !tt.ptr<f32> loc(\"k.py\":7:3)\n" TAIL},
	{"a branch",
		HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") "%f = arith.constant 1.0 : f32\n%v = tt.load %a : "
															"!tt.ptr<f32> loc(\"k.py\":5:3)\n%m = arith.cmpf ogt, %v, "
															"%f : f32\n"
															"scf.if %m {\ntt.store %b, %f : !tt.ptr<f32> "
															"loc(\"k.py\":7:3)\n}\n" TAIL},
	{"the mask of a store",
		HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32") "%f = arith.constant 1.0 : f32\n%v = tt.load %a : "
															"!tt.ptr<f32> loc(\"k.py\":5:3)\n%m = arith.cmpf ogt, %v, "
															"%f : f32\n"
															"tt.store %b, %f, %m : !tt.ptr<f32> "
															"loc(\"k.py\":7:3)\n" TAIL},
	{"the address of a load",
		HEAD(
			"%a: !tt.ptr<i32>, %b: !tt.ptr<f32>, %n: i32") "%i = tt.load %a : !tt.ptr<i32> loc(\"k.py\":5:3)\n%p = "
														   "tt.addptr %b, %i : !tt.ptr<f32>, i32\n"
														   "%v = tt.load %p : !tt.ptr<f32> loc(\"k.py\":6:3)\ntt.store "
														   "%b, %v : !tt.ptr<f32> loc(\"k.py\":7:3)\n" TAIL},
	{"the index of a gather",
		HEAD("%a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %n: i32") "%r = tt.make_range {end = 4 : i32, start = 0 : i32} : "
															"tensor<4xi32>\n"
															"%as = tt.splat %a : !tt.ptr<i32> -> "
															"tensor<4x!tt.ptr<i32>>\n"
															"%ap = tt.addptr %as, %r : tensor<4x!tt.ptr<i32>>, "
															"tensor<4xi32>\n"
															"%i = tt.load %ap : tensor<4x!tt.ptr<i32>> "
															"loc(\"k.py\":5:3)\n"
															"%g = tt.gather %r[%i] {axis = 0 : i32} : (tensor<4xi32>, "
															"tensor<4xi32>) -> tensor<4xi32> "
															"loc(\"k.py\":6:3)\n"
															"%bs = tt.splat %b : !tt.ptr<i32> -> "
															"tensor<4x!tt.ptr<i32>>\n"
															"%bp = tt.addptr %bs, %r : tensor<4x!tt.ptr<i32>>, "
															"tensor<4xi32>\n"
															"tt.store %bp, %g : tensor<4x!tt.ptr<i32>> "
															"loc(\"k.py\":7:3)\n" TAIL},
};

static void test_depends_on_data(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(depends); i++) {
		struct err err = {0};
		struct vm_report r;
		struct launch_case c = {depends[i].ttir, {10, 1, 1}, 2, {64, 64}, 1, {1}};
		assert_int_equal(run(&c, &(struct vm_sample_options){.seed = 1}, &r, &err), ERR_UNSUPPORTED);
		if (!strstr(err.text, depends[i].what) || !strstr(err.text, "depends on data")) fail_msg("%s", err.text);
		vm_report_release(&r);
	}
	/* what is only stored or selected by is no matter of costs */
	static const char select[] = HEAD("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %n: i32")
		BLOCK_ADD("%z = arith.constant dense<0.0> : tensor<256xf32>\n%v = tt.load %xp, %m : tensor<256x!tt.ptr<f32>> "
				  "loc(\"k.py\":5:3)\n"
				  "%p = arith.cmpf ogt, %v, %z : tensor<256xf32>\n%w = arith.select %p, %v, %z : tensor<256xi1>, "
				  "tensor<256xf32>\n"
				  "tt.store %yp, %w, %m : tensor<256x!tt.ptr<f32>> loc(\"k.py\":7:3)\n") TAIL;
	int64_t n = 600 * 256;
	assert_same_counts(&(struct launch_case){select, {600, 1, 1}, 2, {4 * n, 4 * n}, 1, {n}});
}

/* A way is another one where an instruction ran, or a comparison gave a result, that the
 * other launch had not. */
static void test_ways(void **state)
{
	assert_true(vm_reached_within("1053", "1053"));
	assert_true(vm_reached_within("1013", "1073"));  /* 3: ran and gave true; 7: both */
	assert_false(vm_reached_within("1053", "1033")); /* 5: gave false */
	assert_false(vm_reached_within("1153", "1053")); /* ran, and did not */
	assert_false(vm_reached_within("105", "1053"));  /* another program */
	assert_false(vm_reached_within(NULL, "1053"));
	assert_false(vm_reached_within("1053", NULL));
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_elementwise), cmocka_unit_test(test_tiles),
		cmocka_unit_test(test_triangle), cmocka_unit_test(test_nothing_hides),
		cmocka_unit_test(test_nothing_hides_in_assembly), cmocka_unit_test(test_ragged), cmocka_unit_test(test_large),
		cmocka_unit_test(test_atomics), cmocka_unit_test(test_depends_on_data), cmocka_unit_test(test_ways)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
