/* The kernel and the graphs that proofs are made of here: two inputs of N floats, one output. */
#ifndef HONE_TEST_SMALL_KERNEL_H
#define HONE_TEST_SMALL_KERNEL_H
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define N 21   /* not a multiple of the block of 16 */
#define T " : tensor<16xf32>\n"
#define MAP(op, sources) "{\"kind\": \"map\", \"count\": 21, \"op\": \"" op "\", \"sources\": [" sources "]}"

/* x and y in, o out; BODY makes %ov of %xv and %yv. */
static const char KERNEL[] =
	"module {\n"
	"  tt.func public @k(%%x: !tt.ptr<f32>, %%y: !tt.ptr<f32>, %%o: !tt.ptr<f32>, %%n: i32) {\n"
	"    %%pid = tt.get_program_id x : i32\n"
	"    %%b = arith.constant 16 : i32\n"
	"    %%s = arith.muli %%pid, %%b : i32\n"
	"    %%r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>\n"
	"    %%sp = tt.splat %%s : i32 -> tensor<16xi32>\n"
	"    %%i = arith.addi %%sp, %%r : tensor<16xi32>\n"
	"    %%nn = tt.splat %%n : i32 -> tensor<16xi32>\n"
	"    %%m = arith.cmpi slt, %%i, %%nn : tensor<16xi32>\n"
	"    %%xp = tt.splat %%x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
	"    %%xa = tt.addptr %%xp, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
	"    %%xv = tt.load %%xa, %%m : tensor<16x!tt.ptr<f32>>\n"
	"    %%yp = tt.splat %%y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
	"    %%ya = tt.addptr %%yp, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
	"    %%yv = tt.load %%ya, %%m : tensor<16x!tt.ptr<f32>>\n"
	"%s"
	"    %%op = tt.splat %%o : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>\n"
	"    %%oa = tt.addptr %%op, %%i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>\n"
	"    tt.store %%oa, %%ov, %%m : tensor<16x!tt.ptr<f32>>\n"
	"    tt.return\n"
	"  }\n"
	"}\n";

/* Steps 0 and 1 are x and y; `steps` are the JSON of what follows, the last
 * of which is the output. */
static inline json_t *graph_make(const char *steps, struct err *err)
{
	char *text = xasprintf("{\"nodes\": [{\"kind\": \"input\", \"count\": %d, \"index\": 0, \"fixed\": -1}, {\"kind\": "
						   "\"input\", \"count\": %d, "
						   "\"index\": 1, \"fixed\": -1}%s%s], \"inputs\": [{\"offset\": 0, \"bytes\": %d, \"dtype\": "
						   "\"float32\"}, {\"offset\": %d, "
						   "\"bytes\": %d, \"dtype\": \"float32\"}], \"params\": []}",
		N, N, steps[0] ? ", " : "", steps, 4 * N, 4 * N, 4 * N);
	json_t *o = NULL;
	assert_int_equal(json_parse(text, strlen(text), "graph", &o, err), 0);
	free(text);
	json_int_t last = (json_int_t)json_array_size(json_object_get(o, "nodes")) - 1;
	json_object_set_new(o, "outputs", json_pack("[{s:I, s:s, s:[i]}]", "node", last, "dtype", "float32", "shape", N));
	return o;
}
#endif
