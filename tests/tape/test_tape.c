/* The tape's parser, views and lineage. Called with file names it is a checker for scripts instead:
 * one line a file, "ok HASH LINEAGE" or "CODE TEXT". */
#include "tape/tape_internal.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define VIEW(b, off, dt, shape, stride) "{\"buffer\": " #b ", \"offset\": " #off ", \"dtype\": \"" dt \
	"\", \"shape\": " shape ", \"stride\": " stride "}"
#define V4 VIEW(1, 0, "float32", "[4]", "[1]")

static const char HEAD[] = "{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 16, \"input\": 0}, "
						   "{\"kind\": \"temp\", \"bytes\": 16},"
						   "{\"kind\": \"param\", \"bytes\": 8, \"name\": \"w\"}, {\"kind\": \"const\", \"bytes\": 4, "
						   "\"data\": \"AQIDBA==\"}],"
						   "\"kernels\": [{\"name\": \"k\", \"ttir\": \"module {}\", \"num_warps\": 4, \"num_stages\": "
						   "3, \"num_ctas\": 1}], \"rows\": [";
static const char TAIL[] = "], \"outputs\": [" V4 "], \"tuple\": false}";
static const char LAUNCH[] = "{\"op\": \"launch\", \"line\": 3, \"kernel\": 0, \"grid\": [2, 1, 1], \"args\": "
							 "[{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, "
							 "\"offset\": 0}, {\"int\": 7}, {\"float\": \"-inf\"}]}";

static int parse(const char *rows, struct tape **t, struct err *err)
{
	char *text = xasprintf("%s%s%s", HEAD, rows, TAIL);
	int rc = tape_parse(text, strlen(text), t, err);
	free(text);
	return rc;
}

static struct tape *parse_good(const char *rows)
{
	struct tape *t = NULL;
	struct err err = {0};
	if (parse(rows, &t, &err)) fail_msg("%s", err.text);
	return t;
}

static void test_good_tape(void **state)
{
	struct tape *t = parse_good(LAUNCH);
	assert_int_equal(t->nbuffers, 4);
	assert_string_equal(t->buffers[2].name, "w");
	assert_memory_equal(t->buffers[3].data, "\1\2\3\4", 4);
	assert_int_equal(t->rows[0].nargs, 4);
	assert_int_equal(t->rows[0].args[2].i, 7);
	assert_true(t->rows[0].args[3].f < -1e300);
	assert_int_equal(t->rows[0].grid[0], 2);
	assert_int_equal(tape_buffer_address(1), (uint64_t)2 << 40);
	tape_free(t);
}

/* The hash ignores white space and the order of keys, and nothing else. */
static void test_hash(void **state)
{
	struct tape *a = parse_good(LAUNCH), *b, *c;
	b = parse_good("{\"line\":3,  \"op\": \"launch\", \"grid\": [2, 1, 1], \"kernel\": 0, \"args\": [{\"offset\": 0, "
				   "\"buffer\": 0}, {\"buffer\": 1, "
				   "\"offset\": 0}, {\"int\": 7}, {\"float\": \"-inf\"}]}");
	c = parse_good("{\"op\": \"launch\", \"line\": 3, \"kernel\": 0, \"grid\": [3, 1, 1], \"args\": [{\"buffer\": 0, "
				   "\"offset\": 0}, {\"buffer\": 1, "
				   "\"offset\": 0}, {\"int\": 7}, {\"float\": \"-inf\"}]}");
	assert_string_equal(a->hash.text, b->hash.text);
	assert_string_not_equal(a->hash.text, c->hash.text);
	tape_free(a);
	tape_free(b);
	tape_free(c);
}

#define FILL(view, value) "{\"op\": \"fill\", \"line\": 0, \"dst\": " view ", \"value\": " value "}"
#define COPY(dst, src) "{\"op\": \"copy\", \"line\": 0, \"dst\": " dst ", \"src\": " src "}"
#define LAUNCH_ARGS(grid, args) "{\"op\": \"launch\", \"line\": 0, \"kernel\": 0, \"grid\": " grid \
	", \"args\": [" args "]}"
#define LIBRARY(args) "{\"op\": \"library\", \"line\": 0, \"name\": \"aten::mm\", \"reads\": [" V4 \
	"], \"writes\": [" V4 "], \"args\": " args "}"

#define ORDER(op, fields) "{\"op\": \"" op "\", \"line\": 0, " fields "}"
#define DESCRIPTOR_ARG(off, dt, shape, stride, block, padding) "{\"descriptor\": {\"view\": " \
	VIEW(0, off, dt, shape, stride) \
	", \"block\": " block ", \"padding\": \"" padding "\"}}"
#define DESCRIPTOR(off, dt, shape, stride, block, padding) LAUNCH_ARGS("[1, 1, 1]", \
	DESCRIPTOR_ARG(off, dt, shape, stride, block, padding))

#define VALUE(b, off, dt) "{\"value\": {\"buffer\": " #b ", \"offset\": " #off ", \"dtype\": \"" dt "\"}}"

/* A number that the host reads of a parameter or constant: no memory that the launch reaches. */
static void test_values(void **state)
{
	struct tape *t = parse_good(LAUNCH_ARGS(
		"[1, 1, 1]", VALUE(2, 4, "float32") ", " VALUE(3, 2, "bfloat16") ", {\"buffer\": 1, \"offset\": 0}"));
	const struct tape_arg *a = t->rows[0].args;
	assert_true(a[0].kind == TAPE_ARG_VALUE && a[0].buffer == 2 && a[0].offset_bytes == 4 && a[0].dtype == DTYPE_F32);
	assert_false(tape_arg_has_buffer(&a[0]));
	assert_int_equal(tape_arg_width(&a[0]), 1);
	const float data[2] = {0, -2.5f};
	assert_true(tape_arg_value(&a[0], (const uint8_t *)data) == -2.5);
	assert_true(tape_has_value_of(t, 2) && tape_has_value_of(t, 3) && !tape_has_value_of(t, 1));
	tape_free(t);
}

/* Streams and events: the order between rows; a descriptor stands for 1 + 2 n of the IR's
 * arguments. */
static void test_order_and_descriptors(void **state)
{
	struct tape *t = parse_good(FILL(V4, "1") ", " ORDER("record", "\"event\": 0") ", " ORDER("wait",
		"\"stream\": 1, \"event\": 0") ", "
									   "{\"op\": \"fill\", \"line\": 0, \"stream\": 1, \"dst\": " V4
									   ", \"value\": 0}, " ORDER("record", "\"stream\": 1, \"event\": 1") ", " ORDER(
										   "wait", "\"event\": 1") ", " LAUNCH_ARGS("[1, 1, 1]",
										   DESCRIPTOR_ARG(
											   0, "bfloat16", "[1, 8]", "[8, 1]", "[16, 64]", "nan") ", {\"int\": 3}"));
	assert_int_equal(t->nstreams, 2);
	assert_int_equal(t->nevents, 2);
	assert_int_equal(t->rows[3].stream, 1);
	assert_int_equal(t->rows[2].kind, TAPE_WAIT);
	const struct tape_row *r = &t->rows[6];
	assert_int_equal(r->nargs, 2);
	assert_int_equal(r->args[0].kind, TAPE_ARG_DESCRIPTOR);
	assert_int_equal(tape_arg_width(&r->args[0]), 5);
	assert_int_equal(r->args[0].descriptor->block[1], 64);
	assert_true(r->args[0].descriptor->nan_padding);
	/* The data path goes through the descriptor's buffer, and not through rows of order. */
	bool on_path[7];
	tape_data_path(t, on_path);
	assert_true(on_path[0] && on_path[3] && !on_path[6] && !on_path[1] && !on_path[5]);
	tape_free(t);
}

static const struct {
	const char *row;
	int code;
	const char *field;
} BAD_ROWS[] = {
	{"{\"op\": \"jump\", \"line\": 0}", ERR_FORMAT, "rows[0].op"},
	{"{\"op\": \"launch\", \"line\": -1}", ERR_RANGE, "rows[0].line"},
	{"7", ERR_FORMAT, "rows[0]"},
	{LAUNCH_ARGS("[0, 1, 1]", ""), ERR_RANGE, "rows[0].grid[0]"},
	{LAUNCH_ARGS("[1, 65536, 1]", ""), ERR_RANGE, "rows[0].grid[1]"},
	{LAUNCH_ARGS("[1, 1]", ""), ERR_LIMIT, "rows[0].grid"},
	{LAUNCH_ARGS("[1, 1, 1.5]", ""), ERR_FORMAT, "rows[0].grid[2]"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"buffer\": 4, \"offset\": 0}"), ERR_RANGE, "rows[0].args[0].buffer"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"buffer\": 0, \"offset\": 17}"), ERR_RANGE, "rows[0].args[0].offset"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"buffer\": 0, \"offset\": -1}"), ERR_RANGE, "rows[0].args[0].offset"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"int\": 1, \"float\": 1}"), ERR_FORMAT, "rows[0].args[0]"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"int\": 1.0}"), ERR_FORMAT, "rows[0].args[0].int"},
	{LAUNCH_ARGS("[1, 1, 1]", "{\"float\": \"infinity\"}"), ERR_FORMAT, "rows[0].args[0].float"},
	{"{\"op\": \"launch\", \"line\": 0, \"kernel\": 1, \"grid\": [1,1,1], \"args\": []}", ERR_RANGE, "rows[0].kernel"},
	{"{\"op\": \"launch\", \"line\": 0, \"kernel\": 0, \"grid\": [1,1,1], \"args\": [], \"more\": 1}", ERR_FORMAT,
		"rows[0]"},
	{FILL(VIEW(9, 0, "float32", "[4]", "[1]"), "0"), ERR_RANGE, "rows[0].dst.buffer"},
	{FILL(VIEW(1, 0, "float33", "[4]", "[1]"), "0"), ERR_FORMAT, "rows[0].dst.dtype"},
	{FILL(VIEW(1, 0, "float32", "[5]", "[1]"), "0"), ERR_RANGE, "rows[0].dst"},
	{FILL(VIEW(1, 4, "float32", "[4]", "[1]"), "0"), ERR_RANGE, "rows[0].dst"},
	{FILL(VIEW(1, 2, "float32", "[3]", "[1]"), "0"), ERR_RANGE, "rows[0].dst.offset"},
	{FILL(VIEW(1, 0, "float32", "[2]", "[4]"), "0"), ERR_RANGE, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[2]", "[-1]"), "0"), ERR_RANGE, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[-2]", "[1]"), "0"), ERR_RANGE, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[2]", "[0]"), "0"), ERR_RANGE, "stride[0] is 0"},
	{FILL(VIEW(1, 0, "float32", "[2, 2]", "[1]"), "0"), ERR_FORMAT, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[2, 3]", "[1, 1]"), "0"), ERR_RANGE, "more elements than buffer 1"},
	{FILL(VIEW(1, 0, "float32", "[4611686018427387904, 4]", "[1, 1]"), "0"), ERR_LIMIT, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[3]", "[9223372036854775807]"), "0"), ERR_LIMIT, "rows[0].dst"},
	{FILL(VIEW(1, 0, "float32", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", "[1,1,1,1,1,1,1,1,1,1,1,1,1]"), "0"), ERR_LIMIT,
		"rows[0].dst.shape"},
	{FILL(VIEW(1, 0, "int8", "[4]", "[1]"), "300"), ERR_RANGE, "rows[0].value"},
	{FILL(VIEW(1, 0, "int32", "[4]", "[1]"), "1.5"), ERR_FORMAT, "rows[0].value"},
	{FILL(VIEW(1, 0, "bool", "[4]", "[1]"), "2"), ERR_RANGE, "rows[0].value"},
	{FILL(V4, "\"x\""), ERR_FORMAT, "rows[0].value"},
	{COPY(V4, VIEW(0, 0, "float32", "[2, 2]", "[2, 1]")), ERR_FORMAT, "different shapes"},
	{COPY(V4, VIEW(0, 0, "float32", "[3]", "[1]")), ERR_FORMAT, "different shapes"},
	{COPY("[]", V4), ERR_FORMAT, "rows[0].dst"},
	{LIBRARY("{\"args\": [{\"view\": 1}]}"), ERR_RANGE, "\"view\""},
	{LIBRARY("{\"args\": [[{\"view\": -1}]]}"), ERR_RANGE, "\"view\""},
	{LIBRARY("[]"), ERR_FORMAT, "rows[0].args"},
	{ORDER("record", "\"stream\": 0, \"event\": 0"), ERR_RANGE, "rows[0].stream"},
	{ORDER("record", "\"stream\": 64, \"event\": 0"), ERR_RANGE, "rows[0].stream"},
	{ORDER("record", "\"stream\": 2, \"event\": 0"), ERR_RANGE, "rows[0].stream"},
	{ORDER("record", "\"event\": 1"), ERR_RANGE, "rows[0].event"},
	{ORDER("record", "\"event\": 1024"), ERR_RANGE, "rows[0].event"},
	{ORDER("record", "\"event\": 0, \"kernel\": 0"), ERR_FORMAT, "rows[0]"},
	{ORDER("wait", "\"event\": 0"), ERR_RANGE, "rows[0].event"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(0, 0, "float32")), ERR_FORMAT, "a parameter's or a constant's"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(1, 0, "float32")), ERR_FORMAT, "a parameter's or a constant's"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(4, 0, "float32")), ERR_RANGE, "value.buffer"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(2, 0, "int32")), ERR_FORMAT, "value.dtype"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(2, 8, "float32")), ERR_RANGE, "value.offset"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(2, -4, "float32")), ERR_RANGE, "value.offset"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(2, 2, "float32")), ERR_FORMAT, "value.offset"},
	{LAUNCH_ARGS("[1, 1, 1]", VALUE(3, 0, "float64")), ERR_RANGE, "value.offset"},
	{DESCRIPTOR(0, "float32", "[2]", "[1]", "[3]", "zero"), ERR_RANGE, "descriptor.block[0]"},
	{DESCRIPTOR(0, "float32", "[2]", "[1]", "[2, 2]", "zero"), ERR_LIMIT, "descriptor.block"},
	{DESCRIPTOR(0, "float32", "[2]", "[1]", "[2]", "none"), ERR_FORMAT, "descriptor.padding"},
	{DESCRIPTOR(0, "float32", "[2]", "[2]", "[2]", "zero"), ERR_RANGE, "view.stride[0]"},
	{DESCRIPTOR(0, "float32", "[1, 2]", "[2, 1]", "[1, 2]", "zero"), ERR_RANGE, "view.stride[0]"},
	{DESCRIPTOR(4, "float32", "[2]", "[1]", "[2]", "zero"), ERR_RANGE, "view.offset"},
	{DESCRIPTOR(0, "float32", "[5]", "[1]", "[2]", "zero"), ERR_RANGE, "view"},
	{DESCRIPTOR(0, "float32", "[0]", "[1]", "[2]", "zero"), ERR_RANGE, "view.shape[0]"},
	{DESCRIPTOR(0, "float32", "[1,1,1,1,1,1]", "[4,4,4,4,4,1]", "[1,1,1,1,1,1]", "zero"), ERR_RANGE, "dimensions"},
};

static void test_bad_rows(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(BAD_ROWS); i++) {
		struct tape *t = NULL;
		struct err err = {0};
		int rc = parse(BAD_ROWS[i].row, &t, &err);
		if (rc != BAD_ROWS[i].code || !strstr(err.text, BAD_ROWS[i].field) || t)
			fail_msg(
				"case %zu: expected %d and \"%s\", got %d: %s", i, BAD_ROWS[i].code, BAD_ROWS[i].field, rc, err.text);
	}
}

#define OUT "\"outputs\": [{\"buffer\": 0, \"offset\": 0, \"dtype\": \"uint8\", \"shape\": [], " \
	"\"stride\": []}], \"tuple\": true}"
#define BUFFERS(list) "{\"version\": 2, \"buffers\": [" list "], \"kernels\": [], \"rows\": [], " OUT
#define KERNEL_HEAD "{\"version\": 2, \"buffers\": [{\"kind\": \"temp\", \"bytes\": 1}], \"kernels\": [{"
#define KERNEL_TAIL "}], \"rows\": [], " OUT
#define KERNEL(fields) KERNEL_HEAD fields KERNEL_TAIL
#define GOOD_KERNEL "\"name\": \"k\", \"ttir\": \"x\", \"num_warps\": 4, \"num_stages\": 3, \"num_ctas\": 1"

static const struct {
	const char *text;
	int code;
	const char *field;
} BAD_TAPES[] = {
	{"", ERR_FORMAT, "tape"},
	{"[]", ERR_FORMAT, "text"},
	{"null", ERR_FORMAT, "text"},
	{"{}", ERR_FORMAT, "version"},
	{"{\"version\": 1}", ERR_RANGE, "version"},
	{"{\"version\": 2, \"version\": 2}", ERR_FORMAT, "tape"},
	{BUFFERS(""), ERR_RANGE, "outputs[0].buffer"},
	{BUFFERS("{\"kind\": \"temp\", \"bytes\": 0}"), ERR_RANGE, "outputs[0]"},
	{BUFFERS("{\"kind\": \"heap\", \"bytes\": 1}"), ERR_FORMAT, "buffers[0].kind"},
	{BUFFERS("{\"kind\": \"temp\", \"bytes\": -1}"), ERR_RANGE, "buffers[0].bytes"},
	{BUFFERS("{\"kind\": \"temp\", \"bytes\": 1, \"name\": \"x\"}"), ERR_FORMAT, "buffers[0]"},
	{BUFFERS("{\"kind\": \"param\", \"bytes\": 1}"), ERR_FORMAT, "buffers[0].name"},
	{BUFFERS("{\"kind\": \"param\", \"bytes\": 1, \"name\": \"a\\u0007\"}"), ERR_FORMAT, "buffers[0].name"},
	{BUFFERS("{\"kind\": \"param\", \"bytes\": 1, \"name\": \"a\"}, {\"kind\": \"temp\", \"bytes\": 1}, {\"kind\": "
			 "\"param\", \"bytes\": 1, \"name\": \"a\"}"),
		ERR_FORMAT, "appears twice"},
	{BUFFERS("{\"kind\": \"input\", \"bytes\": 1, \"input\": 0}, {\"kind\": \"input\", \"bytes\": 1, \"input\": 0}"),
		ERR_FORMAT, "buffers[1].input"},
	{BUFFERS("{\"kind\": \"const\", \"bytes\": 3, \"data\": \"AQI=\"}"), ERR_FORMAT, "buffers[0].data"},
	{BUFFERS("{\"kind\": \"const\", \"bytes\": 1, \"data\": \"AR==\"}"), ERR_FORMAT, "buffers[0].data"},
	{BUFFERS("{\"kind\": \"const\", \"bytes\": 3, \"data\": \"A=ID\"}"), ERR_FORMAT, "buffers[0].data"},
	{BUFFERS("{\"kind\": \"const\", \"bytes\": 68719476736, \"data\": \"AQI=\"}"), ERR_FORMAT, "buffers[0].data"},
	{BUFFERS("{\"kind\": \"temp\", \"bytes\": 68719476737}"), ERR_RANGE, "buffers[0].bytes"},
	{BUFFERS("{\"kind\": \"temp\", \"bytes\": 68719476736}, {\"kind\": \"temp\", \"bytes\": 68719476736}, {\"kind\": "
			 "\"temp\", \"bytes\": 1}"),
		ERR_LIMIT, "buffers[2]"},
	{KERNEL("\"name\": \"k\", \"ttir\": \"\", \"num_warps\": 4, \"num_stages\": 3, \"num_ctas\": 1"), ERR_LIMIT,
		"kernels[0].ttir"},
	{KERNEL("\"name\": \"k\", \"ttir\": \"x\", \"num_warps\": 3, \"num_stages\": 3, \"num_ctas\": 1"), ERR_RANGE,
		"kernels[0].num_warps"},
	{KERNEL("\"name\": \"k\", \"ttir\": \"x\", \"num_warps\": 4, \"num_stages\": 3, \"num_ctas\": 1, \"configs\": 0"),
		ERR_RANGE, "kernels[0].configs"},
	{KERNEL("\"name\": \"\", \"ttir\": \"x\", \"num_warps\": 4, \"num_stages\": 3, \"num_ctas\": 1"), ERR_LIMIT,
		"kernels[0].name"},
	{KERNEL(GOOD_KERNEL ", \"maxnreg\": 0"), ERR_RANGE, "kernels[0].maxnreg"},
	{KERNEL(GOOD_KERNEL ", \"maxnreg\": 256"), ERR_RANGE, "kernels[0].maxnreg"},
	{KERNEL(GOOD_KERNEL ", \"enable_fp_fusion\": true"), ERR_FORMAT, "kernels[0].enable_fp_fusion"},
	{KERNEL(GOOD_KERNEL ", \"enable_reflect_ftz\": 0"), ERR_FORMAT, "kernels[0].enable_reflect_ftz"},
	{KERNEL(GOOD_KERNEL ", \"launch_cooperative_grid\": false"), ERR_FORMAT, "kernels[0].launch_cooperative_grid"},
	{KERNEL(GOOD_KERNEL ", \"launch_pdl\": null"), ERR_FORMAT, "kernels[0].launch_pdl"},
	{KERNEL(GOOD_KERNEL ", \"ptx_options\": \"\""), ERR_LIMIT, "kernels[0].ptx_options"},
	{KERNEL(GOOD_KERNEL ", \"ptx_options\": \"-O1  -w\""), ERR_FORMAT, "kernels[0].ptx_options"},
	{KERNEL(GOOD_KERNEL ", \"ptx_options\": \" -O1\""), ERR_FORMAT, "kernels[0].ptx_options"},
	{KERNEL(GOOD_KERNEL ", \"ptx_options\": \"-O1 \""), ERR_FORMAT, "kernels[0].ptx_options"},
	{KERNEL(GOOD_KERNEL ", \"ptx_options\": \"\u00e9\""), ERR_FORMAT, "kernels[0].ptx_options"},
	{KERNEL(GOOD_KERNEL ", \"ir_override\": \"x\""), ERR_FORMAT, "unknown key"},
};

/* Each option that reaches code or launch makes another kernel. */
static void test_kernel_options(void **state)
{
	static const char *const more[] = {"", ", \"maxnreg\": 64", ", \"enable_fp_fusion\": false",
		", \"enable_reflect_ftz\": false", ", \"launch_cooperative_grid\": true", ", \"launch_pdl\": true",
		", \"ptx_options\": \"-O1 -w\""};
	struct sha256_hex seen[ARRAY_LEN(more)];
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		char *text = xasprintf("%s%s%s", KERNEL_HEAD GOOD_KERNEL, more[i], KERNEL_TAIL);
		struct tape *t = NULL;
		struct err err = {0};
		if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s: %s", more[i], err.text);
		const struct tape_kernel *k = &t->kernels[0];
		assert_int_equal(k->maxnreg, i == 1 ? 64 : 0);
		assert_true(k->no_fp_fusion == (i == 2) && k->no_reflect_ftz == (i == 3));
		assert_true(k->is_cooperative == (i == 4) && k->is_pdl == (i == 5) && (k->ptx_options != NULL) == (i == 6));
		seen[i] = k->hash;
		for (size_t j = 0; j < i; j++) assert_string_not_equal(seen[i].text, seen[j].text);
		tape_free(t);
		free(text);
	}
}

/* Each number of a kernel on both sides of its bounds. */
static void test_kernel_bounds(void **state)
{
	static const struct {
		const char *field;
		int least;
		int most;
	} fields[] = {{"num_warps", 1, 64}, {"num_stages", 0, 64}, {"num_ctas", 1, 16}, {"maxnreg", 1, 255}};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const int values[] = {fields[i].least - 1, fields[i].least, fields[i].most, fields[i].most + 1};
		for (size_t k = 0; k < ARRAY_LEN(values); k++) {
			struct tape *t = NULL;
			struct err err = {0};
			json_t *o = NULL;
			assert_int_equal(json_parse(KERNEL(GOOD_KERNEL), strlen(KERNEL(GOOD_KERNEL)), "tape", &o, &err), 0);
			json_t *kernel = json_array_get(json_object_get(o, "kernels"), 0);
			json_object_set_new(kernel, fields[i].field, json_integer(values[k]));
			char *text = json_dumps(o, 0);
			/* The least and the most are taken, what is beside them is refused by name. */
			bool is_within = k == 1 || k == 2;
			int rc = tape_parse(text, strlen(text), &t, &err);
			if (rc != (is_within ? 0 : ERR_RANGE) || (rc && !strstr(err.text, fields[i].field)))
				fail_msg("%s %d: code %d, %s", fields[i].field, values[k], rc, err.text);
			tape_free(t);
			free(text);
			json_decref(o);
		}
	}
}

static void test_bad_tapes(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(BAD_TAPES); i++) {
		struct tape *t = NULL;
		struct err err = {0};
		int rc = tape_parse(BAD_TAPES[i].text, strlen(BAD_TAPES[i].text), &t, &err);
		if (rc != BAD_TAPES[i].code || !strstr(err.text, BAD_TAPES[i].field) || t)
			fail_msg(
				"case %zu: expected %d and \"%s\", got %d: %s", i, BAD_TAPES[i].code, BAD_TAPES[i].field, rc, err.text);
	}
}

static void repeat(struct str *s, const char *text, int count)
{
	for (int i = 0; i < count; i++) str_puts(s, text);
}

/* Sizes at which a naive parser takes gigabytes, or its stack. */
static void test_huge_text(void **state)
{
	static const struct {
		const char *unit;
		int count;
		int code;
	} cases[] = {{"[", 10 << 20, ERR_LIMIT}, {"{\"a\":", 2 << 20, ERR_LIMIT}, {"[],", 3 << 20, ERR_LIMIT},
		{"{\"op\":\"fill\"},", 1 << 20, ERR_LIMIT}, {"\"", 1 << 20, ERR_FORMAT}, {"0,", 5 << 20, ERR_LIMIT}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tape *t = NULL;
		struct err err = {0};
		struct str s = {0};
		str_puts(&s, HEAD);
		repeat(&s, cases[i].unit, cases[i].count);
		assert_int_equal(tape_parse(s.data, s.len, &t, &err), cases[i].code);
		assert_null(t);
		str_release(&s);
	}
}

static void test_too_many_rows(void **state)
{
	struct str s = {0};
	for (int i = 0; i <= TAPE_ROWS_MAX; i++) str_printf(&s, "%s%s", i ? "," : "", FILL(V4, "1"));
	struct tape *t = NULL;
	struct err err = {0};
	assert_int_equal(parse(s.data, &t, &err), ERR_LIMIT);
	assert_non_null(strstr(err.text, "rows"));
	str_release(&s);
}

static void test_view_questions(void **state)
{
	struct tape_view v = {.dtype = DTYPE_F32, .ndim = 3, .shape = {2, 1, 3}, .stride = {3, 77, 1}};
	assert_int_equal(tape_view_elements(&v), 6);
	assert_true(tape_view_is_contiguous(&v));
	v.stride[0] = 4;
	assert_false(tape_view_is_contiguous(&v));
	v.shape[2] = 0;
	assert_int_equal(tape_view_elements(&v), 0);
	assert_true(tape_view_is_contiguous(&v));
}

/* ---- lineage ---- */

static enum tape_lineage lineage_of(const char *rows, int *row)
{
	struct tape *t = parse_good(rows);
	enum tape_lineage l = tape_lineage_static(t, row);
	tape_free(t);
	return l;
}

#define LIB(read, write) "{\"op\": \"library\", \"line\": 0, \"name\": \"aten::relu\", \"reads\": [" read \
	"], \"writes\": [" write "], \"args\": {}}"
#define IN VIEW(0, 0, "float32", "[4]", "[1]")
#define W VIEW(2, 0, "float32", "[2]", "[1]")
#define LAUNCH_ON(a, b) LAUNCH_ARGS("[1, 1, 1]", "{\"buffer\": " #a ", \"offset\": 0}, {\"buffer\": " #b \
	", \"offset\": 0}")

static void test_lineage_static(void **state)
{
	int row = -1;
	assert_int_equal(lineage_of("", &row), TAPE_LINEAGE_NO_LAUNCH);
	assert_int_equal(lineage_of(LIB(IN, V4), &row), TAPE_LINEAGE_NO_LAUNCH);
	assert_int_equal(lineage_of(LAUNCH_ON(0, 1), &row), TAPE_LINEAGE_OK);
	assert_int_equal(lineage_of(FILL(V4, "0") "," LAUNCH_ON(0, 1) "," LIB(V4, V4), &row), TAPE_LINEAGE_LIBRARY);
	assert_int_equal(row, 2);
	/* A library row beside the data path is nobody's work. */
	assert_int_equal(lineage_of(LIB(IN, W) "," LAUNCH_ON(0, 1), &row), TAPE_LINEAGE_OK);
	assert_int_equal(lineage_of(LAUNCH_ON(0, 1) "," LIB(V4, W), &row), TAPE_LINEAGE_OK);
	/* The launch reads what the library wrote. */
	assert_int_equal(lineage_of(LIB(IN, W) "," LAUNCH_ON(2, 1), &row), TAPE_LINEAGE_LIBRARY);
	assert_int_equal(row, 0);
	/* ... also when it is given the buffer's address as a number: (2 + 1) << 40. */
	assert_int_equal(
		lineage_of(
			LIB(IN, W) "," LAUNCH_ARGS("[1, 1, 1]", "{\"int\": 3298534883328}, {\"buffer\": 1, \"offset\": 0}"), &row),
		TAPE_LINEAGE_LIBRARY);
	/* A launch that has no part in the result does not count. */
	assert_int_equal(lineage_of(LAUNCH_ON(2, 3) "," COPY(V4, IN), &row), TAPE_LINEAGE_NO_LAUNCH);
	assert_string_equal(tape_lineage_reason(TAPE_LINEAGE_LIBRARY), "library-row");
}

static void test_data_path(void **state)
{
	struct tape *t = parse_good(FILL(W, "1") "," LAUNCH_ON(0, 1) "," COPY(V4, IN) "," FILL(W, "2"));
	bool on_path[4];
	tape_data_path(t, on_path);
	assert_false(on_path[0]);
	assert_true(on_path[1]);
	assert_true(on_path[2]);
	assert_false(on_path[3]);
	tape_free(t);
}

/* What each kind of row reads leads back to who wrote it. */
static void test_data_path_of_kinds(void **state)
{
	static const struct {
		const char *rows;
		bool on_path[2];
	} cases[] = {{LAUNCH_ON(3, 0) "," COPY(V4, IN), {true, true}}, {LAUNCH_ON(3, 0) "," LIB(IN, V4), {true, true}},
		{LAUNCH_ON(3, 0) "," LAUNCH_ON(0, 1), {true, true}}, {LAUNCH_ON(3, 0) "," FILL(V4, "1"), {false, true}},
		{LAUNCH_ON(3, 0) "," COPY(IN, V4), {false, false}}, {LAUNCH_ON(3, 0) "," LIB(V4, W), {false, false}},
		{COPY(IN, V4) "," COPY(V4, IN), {true, true}}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct tape *t = parse_good(cases[i].rows);
		bool on_path[2];
		tape_data_path(t, on_path);
		for (int r = 0; r < 2; r++)
			if (on_path[r] != cases[i].on_path[r]) fail_msg("case %zu, row %d: %d", i, r, on_path[r]);
		tape_free(t);
	}
}

static void test_lineage_outputs(void **state)
{
	struct tape *t = parse_good(LAUNCH_ON(0, 1));
	uint8_t given[16], tags[16];
	memset(given, TAPE_ORIGIN_GIVEN, sizeof(given));
	memset(tags, TAPE_ORIGIN_KERNEL, sizeof(tags));
	uint8_t *origin[4] = {given, tags, given, given};
	struct tape_place place = {.output = -1};
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OK);
	tags[15] = TAPE_ORIGIN_NONE;
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OUTPUT_UNWRITTEN);
	assert_true(place.output == 0 && place.unwritten == 1 && place.first == 3);
	tags[15] = TAPE_ORIGIN_LIBRARY;
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_LIBRARY);
	tags[15] = TAPE_ORIGIN_GIVEN; /* a padded border */
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OK);
	memset(tags, TAPE_ORIGIN_GIVEN, sizeof(tags));
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL);
	assert_int_equal(tape_lineage_outputs(t, origin, 2, &place), TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL);
	assert_int_equal(tape_lineage_outputs(t, origin, 1, &place), TAPE_LINEAGE_OK);
	/* An output that nobody wrote is named before one that no kernel did. */
	struct tape_view *one = t->outputs;
	struct tape_view two[2] = {one[0], one[0]};
	two[0].buffer = 0;
	memset(tags, TAPE_ORIGIN_NONE, sizeof(tags));
	t->outputs = two;
	t->noutputs = 2;
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OUTPUT_UNWRITTEN);
	assert_int_equal(place.output, 1);
	memset(tags, TAPE_ORIGIN_KERNEL, sizeof(tags));
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL);
	assert_int_equal(place.output, 0);
	t->outputs = one;
	t->noutputs = 1;
	/* A strided view is judged by its own elements. */
	memset(tags, TAPE_ORIGIN_NONE, sizeof(tags));
	memset(tags + 4, TAPE_ORIGIN_KERNEL, 4);
	memset(tags + 12, TAPE_ORIGIN_KERNEL, 4);
	t->outputs[0] = (struct tape_view){
		.buffer = 1, .offset_bytes = 4, .dtype = DTYPE_F32, .ndim = 2, .shape = {1, 2}, .stride = {4, 2}};
	assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OK);
	/* Elements that nobody wrote are counted one by one in rows that lie side by side: a whole
	 * row, and one of each row. */
	struct tape_view rows = {
		.buffer = 1, .offset_bytes = 0, .dtype = DTYPE_F32, .ndim = 2, .shape = {2, 2}, .stride = {2, 1}};
	for (int whole = 0; whole < 2; whole++) {
		t->outputs[0] = rows;
		memset(tags, TAPE_ORIGIN_KERNEL, sizeof(tags));
		memset(tags + (whole ? 8 : 4), TAPE_ORIGIN_NONE, 4);
		memset(tags + 12, TAPE_ORIGIN_NONE, 4);
		assert_int_equal(tape_lineage_outputs(t, origin, 0, &place), TAPE_LINEAGE_OUTPUT_UNWRITTEN);
		assert_int_equal(place.unwritten, 2);
		assert_int_equal(place.first, whole ? 2 : 1);
	}
	tape_free(t);
}

static int check_file(const char *path)
{
	struct str text = {0};
	struct err err = {0};
	struct tape *t = NULL;
	int row = -1, rc = file_read(path, TAPE_BYTES_MAX, &text, &err);
	if (!rc) rc = tape_parse(text.data, text.len, &t, &err);
	if (rc) printf("%d %s\n", rc, err.text);
	else printf("ok %s %s\n", t->hash.text, tape_lineage_reason(tape_lineage_static(t, &row)));
	tape_free(t);
	str_release(&text);
	return rc;
}

/* A kernel's text may end inside the string of a location, or behind a backslash: what stands in
 * front of the location counts. */
static void test_hash_of_cut_locations(void **state)
{
	static const char *const ends[] = {"", " loc(", " loc(\\\"", " loc(\\\"a\\\\", " loc(\\\"a\\\\\\\""};
	struct sha256_hex first = {""};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		struct tape *t = NULL;
		struct err err = {0};
		char *with = xasprintf("module {}%s", ends[i]), *text = xasprintf("%s%s%s", HEAD, LAUNCH, TAIL),
			 *at = strstr(text, "module {}"), *whole = xasprintf("%.*s%s%s", (int)(at - text), text, with, at + 9);
		if (tape_parse(whole, strlen(whole), &t, &err)) fail_msg("%s: %s", with, err.text);
		if (!i) first = tape_program_hash(t);
		assert_string_equal(tape_program_hash(t).text, first.text);
		tape_free(t);
		free(with);
		free(text);
		free(whole);
	}
}

/* Operands of a library row lie behind one another, each from a multiple of 64 bytes on. */
static void test_library_layout(void **state)
{
	struct tape_view reads[2] = {{.dtype = DTYPE_F32, .ndim = 2, .shape = {3, 7}}, {.dtype = DTYPE_I8, .ndim = 0}},
					 writes[2] = {
						 {.dtype = DTYPE_F16, .ndim = 1, .shape = {32}}, {.dtype = DTYPE_F64, .ndim = 1, .shape = {9}}};
	struct tape_row r = {.kind = TAPE_LIBRARY, .nreads = 2, .reads = reads, .nwrites = 2, .writes = writes};
	static const int64_t expected[4] = {0, 128, 192, 256};
	int64_t offset[4];
	assert_int_equal(tape_library_layout(&r, offset), 256 + 128);
	assert_memory_equal(offset, expected, sizeof offset);
	assert_int_equal(tape_library_layout(&r, NULL), 256 + 128);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_good_tape(NULL);
	test_library_layout(NULL);
	test_hash_of_cut_locations(NULL);
	test_hash(NULL);
	test_values(NULL);
	test_order_and_descriptors(NULL);
	test_bad_rows(NULL);
	test_kernel_options(NULL);
	test_bad_tapes(NULL);
	test_huge_text(NULL);
	test_too_many_rows(NULL);
	test_view_questions(NULL);
	test_lineage_static(NULL);
	test_data_path(NULL);
	test_lineage_outputs(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

/* Shapes and places as texts, cut where there is no more room. */
static void test_index_texts(void **state)
{
	static const int64_t shape[3] = {2, 3, 4}, empty[2] = {3, 0};
	static const struct {
		int64_t element;
		const char *text;
	} places[] = {{0, "[0, 0, 0]"}, {3, "[0, 0, 3]"}, {4, "[0, 1, 0]"}, {12, "[1, 0, 0]"}, {23, "[1, 2, 3]"}};
	char text[32];
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		tape_index_text(3, shape, places[i].element, text, sizeof text);
		assert_string_equal(text, places[i].text);
	}
	tape_index_text(2, empty, 5, text, sizeof text);
	assert_string_equal(text, "[0, 0]");
	tape_dims_text(0, shape, text, sizeof text);
	assert_string_equal(text, "[]");
	tape_dims_text(1, shape, text, sizeof text);
	assert_string_equal(text, "[2]");
	/* Whatever the room is, nothing is written beside it. */
	static const char whole[] = "[2, 3, 4]";
	for (size_t room = 1; room <= sizeof whole; room++) {
		memset(text, 'x', sizeof text);
		tape_dims_text(3, shape, text, room);
		assert_int_equal(strlen(text), room - 1);
		assert_memory_equal(text, whole, room - 1);
		assert_int_equal(text[room], 'x');
	}
}

int main(int argc, char **argv)
{
	/* With files as arguments it looks at those: tests in Python hand over what a tracer
	 * recorded. */
	if (argc > 1) {
		int bad = 0;
		for (int i = 1; i < argc; i++) bad |= check_file(argv[i]) != 0;
		return bad;
	}
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_tape),
		cmocka_unit_test(test_library_layout),
		cmocka_unit_test(test_hash_of_cut_locations),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_order_and_descriptors),
		cmocka_unit_test(test_bad_rows),
		cmocka_unit_test(test_kernel_options),
		cmocka_unit_test(test_kernel_bounds),
		cmocka_unit_test(test_bad_tapes),
		cmocka_unit_test(test_huge_text),
		cmocka_unit_test(test_too_many_rows),
		cmocka_unit_test(test_view_questions),
		cmocka_unit_test(test_index_texts),
		cmocka_unit_test(test_lineage_static),
		cmocka_unit_test(test_data_path),
		cmocka_unit_test(test_data_path_of_kinds),
		cmocka_unit_test(test_lineage_outputs),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
