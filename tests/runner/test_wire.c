/* Messages between supervisor and runner, field by field: each text below has another value in
 * every field, and is the same once it was read and written again. Then one field at a time is
 * changed: what the reader holds within its bounds, and what it refuses, on both sides of each
 * bound. */
#include "runner/runner.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define OUTPUTS 2
#define BINARY_BYTES 100

static const char TRIAL[] =
	"{'inputs':[{'name':'','offset':64,'bytes':10,'may_change':true,'for_const':false,'read_offset':-1},"
	"{'name':'','offset':128,'bytes':20,'may_change':false,'for_const':true,'read_offset':3}],"
	"'params':[{'name':'fc.weight','offset':7,'bytes':8,'may_change':false,'for_const':false,'read_offset':256}],"
	"'output_offsets':[0,4096],'want_cost':true,'crosswise':false,'unchecked':false,'overlapped':false,'timed':false,"
	"'deadline_ms':77,'compiled':['c'],'gpu':'H200','shared':[111,222],'want_coverage':true,'is_search':true,'want_"
	"missed':true,"
	"'aim':{'sides':[[5,1,0.5,true],[6,4,null,false]],'replays':9,'programs':11},'want_turned':true,'may_be_given':13,'"
	"seed':17}";
static const char RESULT[] =
	"{'coverage':{'sides':12,'taken':11,'sites':[[1,2,3,4,1,5,6,7.5,8.5,null,10.5,11.5,12.5,'mask',true,[0.5,-13.5],"
	"true],"
	"[21,22,23,24,2,3,2,1.5,2.5,3.5,4.5,5.5,null,'x',false,[],false]],'placed':[[-1,31,4,32,33,3],[2,34,8,-35,0,31]],"
	"'missed':[[1,41,4,42,43],[-1,44,2,45,-1]],'small':[0.25,0.5],"
	"'gate_line':41,'gate_matters':true},'fault':{'code':'slow','text':'took long','line':5,'row':6},"
	"'has_lineage':true,'lineage':4,'lineage_output':1,'unwritten':18,'first_unwritten':19,"
	"'costs':[[3,0,1,2,3,4,5,6,7,8,{'programs':9,'dot_by':{'half':11}},12,0.25,'1053'],"
	"[4,2,11,12,13,14,15,16,17,0,{},0,0.0,'']],'lines':[[9,10,11,12],[13,14,15,16]],'touched':[[14,15],[16,17]],"
	"'run_ns':123,'memory_bytes':124,'untimed':'none'}";
static const char DEVICE[] = "{'name':'NVIDIA H200','uuid':'GPU-1','capability':90,'sms':132,'shared_bytes':232448,"
							 "'memory_bytes':150000000000,'driver':13000,'clock_khz':1980,'memory_clock_khz':3201}";
static const char BINARIES[] =
	"[{'name':'k','offset':5,'bytes':90,'num_warps':4,'shared_bytes':6,'global_scratch_bytes':7,"
	"'profile_scratch_bytes':8,'args':['*f32','i32'],'tensor_maps':[{'swizzle':3,'elem_size':2,'elem_type':6,"
	"'block_size':[16,64],'fp4_padded':false},{'swizzle':1,'elem_size':4,'elem_type':7,'block_size':[1],"
	"'fp4_padded':true}]},{'name':'l','offset':0,'bytes':100,'num_warps':64,'shared_bytes':0,"
	"'global_scratch_bytes':0,'profile_scratch_bytes':0,'args':[],'tensor_maps':[]}]";
static const char FAULT[] = "{'code':'race','text':'two rows','line':3,'row':-1}";

static int trial_again(const json_t *o, json_t **out, struct err *err)
{
	struct runner_trial t;
	int rc = runner_trial_parse(o, OUTPUTS, &t, err);
	if (rc) return rc;
	*out = runner_trial_json(&t, OUTPUTS);
	runner_trial_release(&t);
	return 0;
}

static int result_again(const json_t *o, json_t **out, struct err *err)
{
	struct runner_result r;
	int rc = runner_result_parse(o, &r, err);
	if (rc) return rc;
	*out = runner_result_json(&r);
	runner_result_release(&r);
	return 0;
}

static int device_again(const json_t *o, json_t **out, struct err *err)
{
	struct runner_device d;
	int rc = runner_device_parse(o, &d, err);
	if (!rc) *out = runner_device_json(&d);
	return rc;
}

static int binaries_again(const json_t *o, json_t **out, struct err *err)
{
	struct runner_binaries b = {0};
	int rc = runner_binaries_parse(o, BINARY_BYTES, &b, err);
	if (!rc) *out = runner_binaries_json(b.binaries, b.count);
	free(b.binaries);
	return rc;
}

static int fault_again(const json_t *o, json_t **out, struct err *err)
{
	struct runner_fault f;
	int rc = runner_fault_parse(o, &f, err);
	if (!rc) *out = runner_fault_json(&f);
	return rc;
}

static const struct message {
	const char *text;
	int (*again)(const json_t *o, json_t **out, struct err *err);
} trial = {TRIAL, trial_again}, result = {RESULT, result_again}, device = {DEVICE, device_again},
  binaries = {BINARIES, binaries_again}, fault = {FAULT, fault_again};

/* The text with one place changed, read as JSON; quotes are doubled ones. */
static json_t *json_of(const char *text, const char *from, const char *to)
{
	struct str s = {0};
	struct err err = {0};
	json_t *o = NULL;
	const char *at = from ? strstr(text, from) : text;
	if (!at) fail_msg("no %s in %s", from, text);
	str_printf(&s, "%.*s%s%s", (int)(at - text), text, from ? to : "", at + (from ? strlen(from) : 0));
	for (char *p = s.data; *p; p++) *p = *p == '\'' ? '"' : *p;
	if (json_parse(s.data, s.len, "message", &o, &err)) fail_msg("%s", err.text);
	str_release(&s);
	return o;
}

/* With `from` for `to` the message is what it is with `from` for `then`; where that
 * is NULL it is refused. */
static void expect(const struct message *m, const char *from, const char *to, const char *then)
{
	json_t *o = json_of(m->text, from, to), *want = then ? json_of(m->text, from, then) : NULL, *found = NULL;
	struct err err = {0};
	int rc = m->again(o, &found, &err);
	if (!rc != !!then || (then && !json_equal(found, want)))
		fail_msg("%s for %s: code %d, %s%s", to, from, rc, err.text, found ? json_dumps(found, 0) : "");
	json_decref(o);
	json_decref(want);
	json_decref(found);
}

static void test_again(void **state)
{
	const struct message *const all[] = {&trial, &result, &device, &binaries, &fault};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) expect(all[i], "{", "{", "{");
	/* Each of the questions of a trial alone. */
	static const char *const flags[] = {"'crosswise':", "'unchecked':", "'overlapped':", "'timed':"};
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		char from[40], to[40];
		snprintf(from, sizeof from, "%sfalse", flags[i]);
		snprintf(to, sizeof to, "%strue", flags[i]);
		expect(&trial, from, to, to);
	}
	expect(&trial, "'want_cost':true", "'want_cost':false", "'want_cost':false");
	/* What was not asked for is left out; without a place to go contents go nowhere. */
	static const char *const absent[] = {"'compiled':['c'],", "'gpu':'H200',", "'shared':[111,222],",
		"'want_coverage':true,", "'aim':{'sides':[[5,1,0.5,true],[6,4,null,false]],'replays':9,'programs':11},",
		"'want_turned':true,", "'may_be_given':13,"};
	for (size_t i = 0; i < ARRAY_LEN(absent); i++) expect(&trial, absent[i], "", "");
	expect(&trial, ",'seed':17", "", "");
	expect(&trial, ",'read_offset':3", "", ",'read_offset':-1");
	/* No coverage and no fault. */
	struct runner_result none = {.place.output = -1}, back;
	struct err err = {0};
	json_t *o = runner_result_json(&none);
	assert_int_equal(runner_result_parse(o, &back, &err), 0);
	assert_true(!back.has_fault && !back.has_lineage && !back.coverage.sites && back.place.output == -1);
	runner_result_release(&back);
	json_decref(o);
}

static void test_bounds(void **state)
{
	/* Of a trial. */
	expect(&trial, "'offset':64", "'offset':0", "'offset':0");
	expect(&trial, "'offset':64", "'offset':-1", NULL);
	expect(&trial, "'offset':64", "'offset':2305843009213693951", "'offset':2305843009213693951");
	expect(&trial, "'offset':64", "'offset':2305843009213693952", NULL);
	expect(&trial, "'bytes':8", "'bytes':0", "'bytes':0");
	expect(&trial, "'bytes':8", "'bytes':-1", NULL);
	expect(&trial, "'bytes':8", "'bytes':2305843009213693952", NULL);
	expect(&trial, "'read_offset':256", "'read_offset':-2", NULL);
	expect(&trial, "'name':'fc.weight'", "'name':3", NULL);
	expect(&trial, "'may_change':true", "'may_change':1", NULL);
	expect(&trial, "'for_const':true", "'for_const':1", NULL);
	static const char *const flags[] = {"'want_cost':true", "'crosswise':false", "'unchecked':false",
		"'overlapped':false", "'timed':false", "'want_coverage':true", "'want_turned':true"};
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		char to[40];
		snprintf(to, sizeof to, "%.*s3", (int)(strchr(flags[i], ':') + 1 - flags[i]), flags[i]);
		expect(&trial, flags[i], to, NULL);
	}
	expect(&trial, "'deadline_ms':77", "'deadline_ms':0", "'deadline_ms':0");
	expect(&trial, "'deadline_ms':77", "'deadline_ms':-1", NULL);
	expect(&trial, "'deadline_ms':77", "'deadline_ms':2147483648", NULL);
	expect(&trial, "'gpu':'H200'", "'gpu':1", NULL);
	expect(&trial, "[0,4096]", "[0]", NULL);
	expect(&trial, "[0,4096]", "[0,1,2]", NULL);
	/* Of a fault: what is longer than its place is cut. */
	expect(&fault, "'line':3", "'line':-1", "'line':-1");
	expect(&fault, "'line':3", "'line':-2", NULL);
	expect(&fault, "'line':3", "'line':2147483647", "'line':2147483647");
	expect(&fault, "'line':3", "'line':2147483648", NULL);
	expect(&fault, "'row':-1", "'row':-2", NULL);
	expect(&fault, "'row':-1", "'row':2147483648", NULL);
	expect(&fault, "'code':'race'", "'code':1", NULL);
	expect(&fault, "'text':'two rows'", "'text':1", NULL);
	expect(&fault, "'race'", "'0123456789012345678901234567890123'", "'0123456789012345678901234567890'");
	/* Of a device. */
	static const struct {
		const char *from;
		const char *below;
		const char *least;
		const char *most;
		const char *above;
	} rows[] = {
		{"90", "-1", "0", "999", "1000"},
		{"132", "-1", "0", "65536", "65537"},
		{"232448", "-1", "0", "2147483647", "2147483648"},
		{"150000000000", "-1", "0", "2305843009213693951", "2305843009213693952"},
		{"13000", "-1", "0", "2147483647", "2147483648"},
		{"1980", "-1", "0", "2147483647", "2147483648"},
		{"3201", "-1", "0", "2147483647", "2147483648"},
		{"'NVIDIA H200'", "1", "''", "'x'", "null"},
		{"'GPU-1'", "1", "''", "'x'", "null"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		expect(&device, rows[i].from, rows[i].below, NULL);
		expect(&device, rows[i].from, rows[i].least, rows[i].least);
		expect(&device, rows[i].from, rows[i].most, rows[i].most);
		expect(&device, rows[i].from, rows[i].above, NULL);
	}
}

static void test_bounds_of_binaries(void **state)
{
	static const struct {
		const char *from;
		const char *bad[2];
		const char *good[2];
	} rows[] = {
		{"'offset':5", {"'offset':-1", "'offset':11"}, {"'offset':0", "'offset':10"}},
		{"'offset':0", {"'offset':101", "'offset':1"}, {"'offset':0", "'offset':0"}},
		{"'bytes':90", {"'bytes':0", "'bytes':96"}, {"'bytes':1", "'bytes':95"}},
		{"'num_warps':4", {"'num_warps':0", "'num_warps':65"}, {"'num_warps':1", "'num_warps':64"}},
		{"'shared_bytes':6", {"'shared_bytes':-1", "'shared_bytes':2147483648"},
			{"'shared_bytes':0", "'shared_bytes':2147483647"}},
		{"'global_scratch_bytes':7", {"'global_scratch_bytes':-1", "'global_scratch_bytes':2147483648"},
			{"'global_scratch_bytes':0", "'global_scratch_bytes':2147483647"}},
		{"'profile_scratch_bytes':8", {"'profile_scratch_bytes':-1", "'profile_scratch_bytes':2147483648"},
			{"'profile_scratch_bytes':0", "'profile_scratch_bytes':2147483647"}},
		{"'swizzle':3", {"'swizzle':-1", "'swizzle':17"}, {"'swizzle':0", "'swizzle':16"}},
		{"'elem_size':2", {"'elem_size':0", "'elem_size':17"}, {"'elem_size':1", "'elem_size':16"}},
		{"'elem_type':6", {"'elem_type':-1", "'elem_type':64"}, {"'elem_type':0", "'elem_type':63"}},
		{"[16,64]", {"[]", "[1,1,1,1,1,1]"}, {"[1]", "[1,2,3,4,5]"}},
		{"[16,64]", {"[0]", "[1,65537]"}, {"[65536]", "[1,65536]"}},
		{"'fp4_padded':true", {"'fp4_padded':1", "'fp4_padded':'x'"}, {"'fp4_padded':false", "'fp4_padded':true"}},
		{"'name':'k'", {"'name':1", "'nam':'k'"}, {"'name':''", "'name':'kk'"}},
		{"'i32'", {"3", "null"}, {"''", "'i64'"}},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (int k = 0; k < 2; k++) {
			expect(&binaries, rows[i].from, rows[i].bad[k], NULL);
			expect(&binaries, rows[i].from, rows[i].good[k], rows[i].good[k]);
		}
	/* As many arguments and maps as there is room for, and one more. */
	for (int what = 0; what < 2; what++) {
		int most = what ? TAPE_ARGS_MAX / 3 : TAPE_ARGS_MAX;
		struct str list = {0};
		for (int over = 0; over < 2; over++) {
			str_clear(&list);
			for (int i = 0; i < most + over; i++)
				str_printf(&list, "%s%s", i ? "," : "[",
					what ? "{'swizzle':1,'elem_size':1,'elem_type':1,'block_size':[1],'fp4_padded':false}" : "'i32'");
			str_puts(&list, "]");
			char *to = xasprintf("'%s':%s", what ? "tensor_maps" : "args", list.data);
			expect(&binaries, what ? "'tensor_maps':[]" : "'args':[]", to, over ? NULL : to);
			free(to);
		}
		str_release(&list);
	}
	struct runner_binaries out = {0};
	struct err err = {0};
	json_t *list = json_array(), *one = json_of(BINARIES, NULL, NULL);
	for (int i = 0; i < TAPE_KERNELS_MAX; i++) json_array_append(list, json_array_get(one, 0));
	assert_int_equal(runner_binaries_parse(list, BINARY_BYTES, &out, &err), 0);
	assert_int_equal(out.count, TAPE_KERNELS_MAX);
	free(out.binaries);
	json_array_append(list, json_array_get(one, 0));
	assert_int_equal(runner_binaries_parse(list, BINARY_BYTES, &out, &err), ERR_LIMIT);
	json_decref(list);
	json_decref(one);
}

/* A runner's answer: what a verdict rests on is refused, the rest is held within its bounds. */
static void test_bounds_of_results(void **state)
{
	static const struct {
		const char *from;
		const char *to;
		const char *then;
	} rows[] = {
		{"'has_lineage':true", "'has_lineage':1", NULL},
		{"'lineage':4", "'lineage':0", "'lineage':0"},
		{"'lineage':4", "'lineage':-1", NULL},
		{"'lineage':4", "'lineage':5", NULL},
		{"'lineage_output':1", "'lineage_output':-1", "'lineage_output':-1"},
		{"'lineage_output':1", "'lineage_output':-2", NULL},
		{"'lineage_output':1", "'lineage_output':64", "'lineage_output':64"},
		{"'lineage_output':1", "'lineage_output':65", NULL},
		{"'unwritten':18", "'unwritten':-1", NULL},
		{"'unwritten':18", "'unwritten':0", "'unwritten':0"},
		{"'first_unwritten':19", "'first_unwritten':-1", NULL},
		{"'first_unwritten':19", "'first_unwritten':0", "'first_unwritten':0"},
		{"'run_ns':123", "'run_ns':-1", NULL},
		{"'run_ns':123", "'run_ns':0", "'run_ns':0"},
		{"'memory_bytes':124", "'memory_bytes':-1", NULL},
		{"'memory_bytes':124", "'memory_bytes':0", "'memory_bytes':0"},
		{"'unwritten':18", "'unwritten':4611686018427387904", NULL},
		{"'first_unwritten':19", "'first_unwritten':4611686018427387904", NULL},
		{"'run_ns':123", "'run_ns':4611686018427387904", NULL},
		{"'memory_bytes':124", "'memory_bytes':4611686018427387904", NULL},
		{"'untimed':'none'", "'untimed':3", NULL},
		{"'untimed':'none'", "'untimed':'a\\u001bb'", "'untimed':'a?b'"},
		{"'row':6", "'row':-2", NULL},
		{"{'code':'slow','text':'took long','line':5,'row':6}", "null", "null"},
		/* Sites. */
		{"'taken':11", "'taken':13", "'taken':12"},
		{"'taken':11", "'taken':-1", "'taken':0"},
		{"'gate_line':41", "'gate_line':-1", "'gate_line':0"},
		{"'gate_line':41", "'gate_line':4294967297", "'gate_line':2147483647"},
		{"[1,2,3,4,1,5,6,", "[-1,-1,-1,-1,-1,-1,-1,", "[0,0,0,0,0,0,0,"},
		{"[1,2,3,4,1,5,6,", "[4294967296,999,4294967296,4294967296,999,9,9,",
			"[2147483647,127,2147483647,2147483647,SITES,7,7,"},
		{"7.5,8.5,null,10.5,11.5,12.5,", "'a','b','c','d','e','f',", "null,null,null,null,null,null,"},
		{"'mask',true", "'m\\u0007',1", "'m?',false"},
		{"'mask',true", "'01234567890123456789012345678901',null", "'0123456789012345678901234567890',false"},
		{"'mask',true", "7,true", "'',true"},
		{"[0.5,-13.5]", "[1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5,9.5]", "[1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5]"},
		{"[-1,31,4,32,33,3]", "[-7,-1,9,-3,-5,-1]", "[-1,0,8,-3,-5,0]"},
		{"[-1,31,4,32,33,3]", "[4294967296,0,-1,3,5,4294967296]", "[2147483647,0,0,3,5,31]"},
		/* Costs. */
		{"[3,0,1,2,3,4,5,6,7,8,", "[-1,-1,-1,-2,-3,-4,-5,-6,-7,-8,", "[0,0,0,0,0,0,0,0,0,0,"},
		{"[3,0,1,2,", "[4097,99,1,2,", "[4096,5,1,2,"},
		{"7,8,{'programs'", "7,4294967296,{'programs'", "7,2147483647,{'programs'"},
		{"12,0.25,'1053'", "-12,-0.25,''", "0,0.0,''"},
		{"12,0.25,'1053'", "1,'x',2", "1,0.0,''"},
		{"[[9,10,11,12],", "[[-9,-10,-11,-12],", "[[0,0,0,0],"},
		{"[[9,10,11,12],", "[[4294967296,1,2,3],", "[[2147483647,1,2,3],"},
		{"[[14,15],", "[[-14,-15],", "[[0,0],"},
		{"[[14,15],", "[[-14,'x'],", "[[0,0],"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		/* The last kind of a site has the number of the kinds. */
		char then[120] = "", *kinds;
		snprintf(then, sizeof then, "%s", rows[i].then ? rows[i].then : "");
		if ((kinds = strstr(then, "SITES"))) snprintf(kinds, 20, "%d,7,7,", SITE_KIND_COUNT - 1);
		expect(&result, rows[i].from, rows[i].to, rows[i].then ? then : NULL);
	}
	/* Of no sides none was taken. */
	expect(&result, "'sides':12,'taken':11", "'sides':-1,'taken':11", "'sides':0,'taken':0");
	expect(&result, "'sides':12,'taken':11", "'sides':4294967296,'taken':4294967296",
		"'sides':2147483647,'taken':2147483647");
}

/* Lists end where their room does. */
static void test_long_lists(void **state)
{
	static const struct {
		const char *path[2];
		const char *row;
		int most;
	} rows[] = {
		{{"coverage", "sites"}, "[1]", RUNNER_SITES_MAX},
		{{"coverage", "placed"}, "[1]", RUNNER_PLACED_MAX},
		{{"costs"}, "[1]", TAPE_ROWS_MAX},
		{{"touched"}, "[1,2]", TAPE_BUFFERS_MAX},
		{{"lines"}, "[1]", 65536},
	};
	struct err err = {0};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		json_t *o = json_of(RESULT, NULL, NULL), *found = NULL, *list = json_array(), *row;
		assert_int_equal(json_parse(rows[i].row, strlen(rows[i].row), "row", &row, &err), 0);
		for (int k = 0; k <= rows[i].most; k++) json_array_append(list, row);
		json_t *in = rows[i].path[1] ? json_object_get(o, rows[i].path[0]) : o;
		const char *name = rows[i].path[rows[i].path[1] ? 1 : 0];
		json_object_set_new(in, name, list);
		assert_int_equal(result_again(o, &found, &err), 0);
		in = rows[i].path[1] ? json_object_get(found, rows[i].path[0]) : found;
		assert_int_equal(json_array_size(json_object_get(in, name)), rows[i].most);
		json_decref(row);
		json_decref(o);
		json_decref(found);
	}
	/* And what is aimed at. */
	json_t *o = json_of(TRIAL, NULL, NULL), *found = NULL, *sides = json_array();
	for (int k = 0; k <= RUNNER_AIMS_MAX; k++) json_array_append_new(sides, json_pack("[i, i, f]", k, 1, 0.5));
	json_object_set_new(json_object_get(o, "aim"), "sides", sides);
	assert_int_equal(trial_again(o, &found, &err), 0);
	assert_int_equal(json_array_size(json_object_get(json_object_get(found, "aim"), "sides")), RUNNER_AIMS_MAX);
	json_decref(o);
	json_decref(found);
}

/* Clocks by name, and what an output takes. */
static void test_small(void **state)
{
	static const char *const names[RUNNER_CLOCK_COUNT] = {"span", "wall", "paper", "empty", "control", "end"};
	for (int i = 0; i < RUNNER_CLOCK_COUNT; i++) {
		enum runner_clock c = RUNNER_CLOCK_COUNT;
		assert_string_equal(runner_clock_name((enum runner_clock)i), names[i]);
		assert_int_equal(runner_clock_find(names[i], &c), 0);
		assert_int_equal(c, i);
	}
	assert_int_equal(runner_clock_find("noon", &(enum runner_clock){0}), ERR_NOT_FOUND);
	assert_int_equal(runner_clock_find(NULL, &(enum runner_clock){0}), ERR_NOT_FOUND);
	const int64_t elements[] = {0, 1, 16, 17, 32}, bytes[] = {0, 64, 64, 128, 128};
	for (size_t i = 0; i < ARRAY_LEN(elements); i++) {
		struct tape_view v = {.dtype = DTYPE_F32, .ndim = 1, .shape = {elements[i]}, .stride = {1}};
		assert_int_equal(runner_output_bytes(&v), bytes[i]);
	}
}

static void test_values(void **state)
{
	struct runner_given inputs[2] =
		{
			{.offset = 64, .bytes = 10, .may_change = true},
			{.offset = 128, .bytes = 20},
		},
						params[1] = {{.name = "fc.weight", .bytes = 7}};
	struct runner_trial t =
							{
								.ninputs = 2,
								.inputs = inputs,
								.nparams = 1,
								.params = params,
								.output_offset = {64, 4096},
								.want_cost = true,
								.is_overlapped = true,
								.is_timed = true,
								.deadline_ms = 77,
							},
						u;
	struct err err = {0};
	json_t *o = runner_trial_json(&t, 2);
	assert_int_equal(runner_trial_parse(o, 2, &u, &err), 0);
	assert_true(u.ninputs == 2 && u.inputs[0].may_change && !u.inputs[1].may_change && u.inputs[1].offset == 128 &&
		u.output_offset[1] == 4096 && u.deadline_ms == 77 && u.want_cost && u.is_overlapped && u.is_timed);
	assert_string_equal(u.params[0].name, "fc.weight");
	runner_trial_release(&u);
	assert_int_equal(runner_trial_parse(o, 3, &u, &err), ERR_FORMAT);
	json_object_set_new(o, "inputs", json_object());
	assert_int_equal(runner_trial_parse(o, 2, &u, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "trial.inputs"));
	json_decref(o);

	struct runner_row_cost cost = {
		.row = 3,
		.kind = TAPE_COPY,
		.programs = 1,
		.bytes = 2,
		.sectors = 3,
		.flops = 4,
		.special = 5,
		.dot_flops = 6,
		.footprint_bytes = 7,
		.kernel = 8,
		.counts = {.programs = 9, .path_cycles_max = 10, .dot_by[VM_DOT_HALF] = 11},
		.sampled = 12,
		.error = 0.25,
		.reached = (char[]){"1053"},
	};
	struct runner_touched touched[2] = {{14, 15}, {16, 17}};
	struct runner_site site = {.id = 1,
		.kernel = 2,
		.line = 3,
		.column = 4,
		.kind = 1,
		.is_equality = true,
		.is_one_value = true,
		.wanted = 5,
		.taken = 6,
		.low = 7,
		.high = 8,
		.constant = 9,
		.least = 10,
		.most = 11,
		.nearest = 12,
		.nfixed = 2,
		.fixed = {0.5, -13},
		.what = "mask"};
	struct runner_missed missed = {.input = -1, .param_offset = 64, .element = 1777, .size = 4, .line = 12};
	struct runner_line_cost line = {9, 10, 11, 12};
	struct runner_result r =
							 {
								 .has_fault = true,
								 .fault = {.code = "timeout", .text = "slow", .line = 5, .row = 6},
								 .lineage = TAPE_LINEAGE_OUTPUT_UNWRITTEN,
								 .place = {.output = 1, .unwritten = 18, .first = 19},
								 .ncosts = 1,
								 .costs = &cost,
								 .nlines = 1,
								 .lines = &line,
								 .run_ns = 123,
								 .has_lineage = true,
								 .memory_bytes = 4,
								 .untimed = "none",
								 .ntouched = 2,
								 .touched = touched,
								 .coverage = {.sides = 9,
									 .taken = 8,
									 .nsites = 1,
									 .sites = &site,
									 .nmissed = 1,
									 .missed = &missed,
									 .nsmall = 1,
									 .small = {1e-12}},
							 },
						 s;
	o = runner_result_json(&r);
	assert_int_equal(runner_result_parse(o, &s, &err), 0);
	assert_true(s.has_fault && !strcmp(s.fault.code, "timeout") && s.fault.row == 6 && s.lineage == r.lineage &&
		s.place.output == 1 && s.place.unwritten == 18 && s.place.first == 19 && s.run_ns == 123 && s.has_lineage);
	assert_true(s.memory_bytes == 4 && !strcmp(s.untimed, "none"));
	const struct runner_row_cost *c = s.costs;
	assert_true(s.ncosts == 1 && c->row == 3 && c->kind == TAPE_COPY && c->programs == 1 && c->bytes == 2 &&
		c->sectors == 3 && c->flops == 4 && c->special == 5 && c->dot_flops == 6 && c->footprint_bytes == 7 &&
		c->kernel == 8 && c->counts.programs == 9 && c->counts.path_cycles_max == 10 &&
		c->counts.dot_by[VM_DOT_HALF] == 11 && c->sampled == 12 && c->error == 0.25 && !strcmp(c->reached, "1053"));
	assert_true(s.ntouched == 2 && s.touched[0].read == 14 && s.touched[0].written == 15 && s.touched[1].read == 16 &&
		s.touched[1].written == 17);
	const struct runner_site *at = s.coverage.sites;
	assert_true(s.coverage.sides == 9 && s.coverage.taken == 8 && s.coverage.nsites == 1 && at->id == 1 &&
		at->kernel == 2 && at->line == 3 && at->column == 4 && at->kind == 1 && at->is_equality && at->is_one_value &&
		at->wanted == 5 && at->taken == 6 && at->low == 7 && at->high == 8 && at->constant == 9 && at->least == 10 &&
		at->most == 11 && at->nearest == 12 && at->nfixed == 2 && at->fixed[0] == 0.5 && at->fixed[1] == -13);
	assert_string_equal(at->what, "mask");
	const struct runner_missed *left = s.coverage.missed;
	assert_true(s.coverage.nmissed == 1 && left->input == -1 && left->element == 1777 && left->size == 4 &&
		left->line == 12 && left->param_offset == 64 && s.coverage.nsmall == 1 && s.coverage.small[0] == 1e-12);
	assert_true(s.nlines == 1 && s.lines[0].line == 9 && s.lines[0].bytes == 10 && s.lines[0].sectors == 11 &&
		s.lines[0].flops == 12);
	runner_result_release(&s);
	/* What a runner that was taken over might say. */
	json_object_set_new(o, "lineage", json_integer(99));
	assert_int_not_equal(runner_result_parse(o, &s, &err), 0);
	json_decref(o);
	o = json_object();
	assert_int_not_equal(runner_result_parse(o, &s, &err), 0);
	json_decref(o);
}

/* Texts with a candidate's names, of which the end was cut within a letter, travel all the same;
 * and what a runner says cannot move a terminal's cursor. */
static void test_texts_of_faults(void **state)
{
	struct runner_fault f = {.code = "argument", .row = -1}, back;
	struct err err = {0};
	for (size_t cut = 0; cut < 4; cut++) {
		memset(f.text, 'x', cut);
		f.text[cut] = 0;
		while (strlen(f.text) < sizeof f.text - 4) strcat(f.text, "\xd1\x8f");
		strncat(f.text, "\xf0\x9f\x90\x8d", sizeof f.text - 1 - strlen(f.text));
		json_t *o = runner_fault_json(&f);
		assert_non_null(o);
		assert_int_equal(runner_fault_parse(o, &back, &err), 0);
		assert_memory_equal(back.text, f.text, sizeof f.text - 8);
		json_decref(o);
	}
	json_t *o = json_pack("{s:s, s:s, s:i, s:i}", "code", "a\x1b[2J", "text", "b\x1b]0;c\x07", "line", 1, "row", 2);
	assert_int_equal(runner_fault_parse(o, &back, &err), 0);
	assert_string_equal(back.code, "a?[2J");
	assert_string_equal(back.text, "b?]0;c?");
	json_decref(o);
}

/* A result is held to its tape: each place in it may be the tape's last one, and none behind it. */
static void test_result_is_of_its_tape(void **state)
{
	const struct tape t = {.nrows = 4, .nkernels = 3, .nbuffers = 2, .noutputs = 2}, empty = {0};
	for (int over = 0; over < 2; over++)
		for (int what = 0; what < 6; what++) {
			struct runner_row_cost cost = {.row = what == 0 ? 3 + over : 0, .kind = TAPE_LAUNCH};
			struct runner_site site = {.kernel = what == 2 ? 2 + over : 0};
			struct runner_touched touched[3] = {{0}};
			struct runner_result r = {.ncosts = 1, .costs = &cost, .touched = touched, .place.output = -1};
			struct err err = {0};
			r.coverage.nsites = 1, r.coverage.sites = &site;
			if (what == 1) cost.kernel = 2 + over;
			if (what == 3) r.ntouched = 2 + over;
			if (what == 4) r.place.output = 1 + over;
			if (what == 5) r.has_fault = true, r.fault.row = 3 + over;
			assert_int_equal(runner_result_check(&r, &t, &err), over ? ERR_FORMAT : 0);
			assert_true(!over || strstr(err.text, "the runner's answer speaks of"));
		}
	/* Of a tape without anything nothing can be said; a row that moves has no kernel. */
	struct runner_row_cost cost = {.kind = TAPE_LAUNCH};
	struct runner_result r = {.ncosts = 1, .costs = &cost, .place.output = -1}, nothing = {.place.output = -1};
	struct err err = {0};
	assert_int_equal(runner_result_check(&r, &empty, &err), ERR_FORMAT);
	assert_int_equal(runner_result_check(&nothing, &empty, &err), 0);
	cost = (struct runner_row_cost){.kind = TAPE_COPY, .kernel = 9};
	assert_int_equal(runner_result_check(&r, &t, &err), 0);
}

static void one_again(void *ctx)
{
	const struct message *m = ctx;
	json_t *o = json_of(m->text, NULL, NULL), *found = NULL, *bad;
	struct err err = {0};
	assert_int_equal(m->again(o, &found, &err), 0);
	json_decref(o);
	json_decref(found);
	/* Refused at its last field. */
	if (m == &trial) {
		bad = json_of(TRIAL, "[0,4096]", "[0]");
		assert_int_not_equal(m->again(bad, &found, &err), 0);
		json_decref(bad);
	} else if (m == &binaries) {
		bad = json_of(BINARIES, "'fp4_padded':true", "'fp4_padded':1");
		assert_int_not_equal(m->again(bad, &found, &err), 0);
		json_decref(bad);
	}
}

static void test_leaves_nothing(void **state)
{
	const struct message *const all[] = {&trial, &result, &device, &binaries, &fault};
	for (size_t i = 0; i < ARRAY_LEN(all); i++) leaves_nothing(one_again, (void *)(uintptr_t)all[i]);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_bounds_of_binaries),
		cmocka_unit_test(test_bounds_of_results),
		cmocka_unit_test(test_long_lists),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_texts_of_faults),
		cmocka_unit_test(test_result_is_of_its_tape),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
