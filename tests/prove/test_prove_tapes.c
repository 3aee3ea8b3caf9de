/* Proofs of tapes: rows that move what a launch made, tapes that only move numbers, and what a
 * proof says on its way to the supervisor. */
#include "prove/prove.h"
#include "base/base.h"
#include "tape/tape.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "small_kernel.h"

/* A tape of rows given as text, over x, y, and three more buffers; the output is buffer `out`. */
static struct tape *rows_tape(const char *rows, int out)
{
	char *ir = xasprintf(KERNEL, "%ov = arith.mulf %xv, %yv : tensor<16xf32>\n");
	json_t *o = json_pack("{s:i, s:[{s:s, s:i, s:i}, {s:s, s:i, s:i}, {s:s, s:i}, {s:s, s:i}, {s:s, s:i}], "
						  "s:[{s:s, s:s, s:i, s:i, s:i}], s:[{s:i, s:i, s:s, s:[i], s:[i]}], s:b}",
		"version", TAPE_VERSION, "buffers", "kind", "input", "bytes", 4 * N, "input", 0, "kind", "input", "bytes",
		4 * N, "input", 1, "kind", "temp", "bytes", 4 * N, "kind", "temp", "bytes", 4 * N, "kind", "temp", "bytes",
		4 * N, "kernels", "name", "k", "ttir", ir, "num_warps", 4, "num_stages", 3, "num_ctas", 1, "outputs", "buffer",
		out, "offset", 0, "dtype", "float32", "shape", N, "stride", 1, "tuple", 0);
	struct err err = {0};
	json_t *list = NULL;
	struct tape *t = NULL;
	if (json_parse(rows, strlen(rows), "rows", &list, &err)) fail_msg("%s", err.text);
	json_object_set_new(o, "rows", list);
	char *text = json_dumps(o, JSON_COMPACT);
	if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s", err.text);
	free(text);
	free(ir);
	json_decref(o);
	return t;
}

#define VIEW(buffer) "{\"buffer\": " #buffer ", \"offset\": 0, \"dtype\": \"float32\", \"shape\": [21], " \
	"\"stride\": [1]}"
#define LAUNCH(to) "{\"op\": \"launch\", \"line\": 1, \"kernel\": 0, \"grid\": [2, 1, 1], \"args\": [" \
	"{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, \"offset\": 0}, {\"buffer\": " #to ", \"offset\": 0}, " \
	"{\"int\": 21}]}"
#define COPY(to, from) "{\"op\": \"copy\", \"line\": 2, \"dst\": " VIEW(to) ", \"src\": " VIEW(from) "}"

#define LAUNCH_OF(from, to) "{\"op\": \"launch\", \"line\": 1, \"kernel\": 0, \"grid\": [2, 1, 1], \"args\": [" \
	"{\"buffer\": " #from ", \"offset\": 0}, {\"buffer\": 1, \"offset\": 0}, {\"buffer\": " #to \
	", \"offset\": 0}, {\"int\": 21}]}"
#define HALF_OF(buffer) "{\"op\": \"fill\", \"line\": 3, \"dst\": {\"buffer\": " #buffer ", \"offset\": 10, " \
	"\"dtype\": \"int16\", \"shape\": [1], \"stride\": [1]}, \"value\": 0}"

/* Rows that move what a launch made, rows that nothing depends on, and a
 * buffer that nobody wrote. */
static void rows_around_a_launch(void **state)
{
	static const struct {
		const char *rows;
		int out;
		enum prove_answer answer;
		const char *says;
	} tapes[] = {
		/* The launch alone; its result moved on; moved twice, with the first place overwritten
		 * behind that; a copy that nothing depends on; an output that is a copy of the input; an
		 * output that nobody wrote. */
		{"[" LAUNCH(2) "]", 2, PROVE_PROVED, ""},
		{"[" LAUNCH(2) ", " COPY(3, 2) "]", 3, PROVE_PROVED, ""},
		{"[" LAUNCH(2) ", " COPY(3, 2) ", " COPY(4, 3) ", " COPY(3, 0) "]", 4, PROVE_PROVED, ""},
		{"[" COPY(3, 0) ", " LAUNCH(2) "]", 2, PROVE_PROVED, ""},
		{"[" LAUNCH(2) ", " COPY(3, 0) "]", 3, PROVE_NOT_PROVED, ""},
		{"[" LAUNCH(2) "]", 4, PROVE_NOT_PROVED, "nobody wrote"},
		/* half of a float written over: in an output, and where another launch reads it */
		{"[" LAUNCH(2) ", " HALF_OF(2) "]", 2, PROVE_OUTSIDE, "2 bytes were written as bits"},
		{"[" LAUNCH(3) ", " HALF_OF(3) ", " LAUNCH_OF(3, 2) "]", 2, PROVE_OUTSIDE, "2 bytes were written as bits"},
		{"[" HALF_OF(2) ", " LAUNCH(2) "]", 2, PROVE_PROVED, ""},
	};
	float given[2 * N];
	struct err err = {0};
	for (int i = 0; i < 2 * N; i++) given[i] = 0.2f + rng_uniform(3, 1, (uint64_t)i);
	for (size_t i = 0; i < ARRAY_LEN(tapes); i++) {
		struct prove_result r;
		struct tape *t = rows_tape(tapes[i].rows, tapes[i].out);
		json_t *graph = graph_make(MAP("mul", "0, 1"), &err);
		struct prove_draw d = {.graph = graph, .given = (const uint8_t *)given, .given_bytes = sizeof given};
		if (prove_run(t, &d, 1, &(struct prove_options){.seed = 5}, &r, &err)) fail_msg("%s", err.text);
		if (r.answer != tapes[i].answer || !strstr(r.text, tapes[i].says))
			fail_msg("tape %zu: %s: %s", i, prove_answer_name(r.answer), r.text);
		json_decref(graph);
		tape_free(t);
	}
}

/* Buffers of 256 MiB in all are proved about, and of one byte more they are not. Neither is touched
 * here: the kernel is cut off, and that is said where the buffers pass. */
static void memory_is_bounded(void **state)
{
	float given[2 * N] = {0};
	struct err err = {0};
	for (int more = 0; more < 2; more++) {
		struct prove_result r;
		struct tape *t = rows_tape("[" LAUNCH(2) "]", 2);
		json_t *graph = graph_make(MAP("mul", "0, 1"), &err);
		struct prove_draw d = {.graph = graph, .given = (const uint8_t *)given, .given_bytes = sizeof given};
		t->kernels[0].ttir_len = 9;
		t->buffers[3].bytes = ((int64_t)128 << 20) - 3 * (4 * N);
		t->buffers[4].bytes = ((int64_t)128 << 20) + more;
		if (prove_run(t, &d, 1, &(struct prove_options){.seed = 5}, &r, &err)) fail_msg("%s", err.text);
		if (r.answer != PROVE_OUTSIDE || !strstr(r.text, "buffers have more than 256 MiB") != !more)
			fail_msg("%d: %s: %s", more, prove_answer_name(r.answer), r.text);
		json_decref(graph);
		tape_free(t);
	}
}

/* A text that names what a candidate named travels though its end was cut within a letter, and
 * cannot move a terminal's cursor. */
static void texts_travel(void **state)
{
	struct prove_result r = {.answer = PROVE_OUTSIDE}, back;
	struct err err = {0};
	for (size_t i = 0; i + 2 < sizeof r.text; i += 2) memcpy(r.text + i, "\xd1\x8f", 2);
	r.text[1] = 'x'; /* half a letter at both ends */
	r.text[sizeof r.text - 2] = '\xd1';
	json_t *o = prove_result_json(&r);
	assert_non_null(o);
	assert_int_equal(prove_result_parse(o, &back, &err), 0);
	assert_true(!strncmp(back.text, "?x\xd1\x8f", 4) && back.text[sizeof back.text - 2] == '?');
	json_object_set_new(o, "text", json_string("a\x1b[2J"));
	assert_int_equal(prove_result_parse(o, &back, &err), 0);
	assert_string_equal(back.text, "a?[2J");
	json_decref(o);
}

/* A tape without a launch: memory of `from` is filled with a number and copied to memory of `to`,
 * of two rows of three, which is returned `returns` times. */
static struct tape *moves_tape(const char *from, const char *value, const char *to, const char *shape, int returns)
{
	struct tape *t = NULL;
	struct err err = {0};
	struct str text = {0};
	static const char view[] =
		"{\"buffer\": %d, \"offset\": 0, \"dtype\": \"%s\", \"shape\": [%s], \"stride\": [%d, 1]}";
	/* Views that are dense: a row as long as the shape's second number. */
	int across = shape[3] - '0';
	str_printf(&text,
		"{\"version\": %d, \"buffers\": [{\"kind\": \"temp\", \"bytes\": 48}, {\"kind\": \"temp\", "
		"\"bytes\": 48}], \"kernels\": [], \"rows\": [{\"op\": \"fill\", \"line\": 3, \"dst\": ",
		TAPE_VERSION);
	str_printf(&text, view, 0, from, shape, across);
	str_printf(&text, ", \"value\": %s}, {\"op\": \"copy\", \"line\": 4, \"dst\": ", value);
	str_printf(&text, view, 1, to, shape, across);
	str_puts(&text, ", \"src\": ");
	str_printf(&text, view, 0, from, shape, across);
	str_puts(&text, "}], \"outputs\": [");
	for (int i = 0; i < returns; i++) {
		str_puts(&text, i ? ", " : "");
		str_printf(&text, view, 1, to, shape, across);
	}
	str_puts(&text, "], \"tuple\": false}");
	if (tape_parse(text.data, text.len, &t, &err)) fail_msg("%s: %s", text.data, err.text);
	str_release(&text);
	return t;
}

/* What rows that move memory make of numbers, and what is said of each difference. */
static void numbers_that_move(void **state)
{
	static const struct {
		const char *from, *value, *to, *shape;
		int returns;
		const char *reference; /* the number that the reference has in all places */
		enum prove_answer answer;
		const char *says;
	} rows[] = {
		{"int64", "7", "int64", "2, 3", 1, "7", PROVE_PROVED, "outputs int64[2, 3]"},
		{"float32", "1.5", "float32", "2, 3", 1, "1.5", PROVE_PROVED, "outputs float32[2, 3]"},
		{"float32", "1.5", "float64", "2, 3", 1, "1.5", PROVE_PROVED, "outputs float64[2, 3]"},
		{"float64", "0.1", "float32", "2, 3", 1, "0.1", PROVE_PROVED, "outputs float32[2, 3]"},
		{"float32", "1.75", "int64", "2, 3", 1, "1", PROVE_PROVED, "outputs int64[2, 3]"},
		{"float32", "-1.75", "int32", "2, 3", 1, "-1", PROVE_PROVED, "outputs int32[2, 3]"},
		{"float64", "0.25", "bool", "2, 3", 1, "1", PROVE_PROVED, "outputs bool[2, 3]"},
		{"float32", "0.0", "bool", "2, 3", 1, "0", PROVE_PROVED, "outputs bool[2, 3]"},
		{"int16", "-3", "int64", "2, 3", 1, "-3", PROVE_PROVED, "outputs int64[2, 3]"},
		{"uint8", "200", "int32", "2, 3", 1, "200", PROVE_PROVED, "outputs int32[2, 3]"},
		{"int8", "-56", "int8", "2, 3", 1, "-56", PROVE_PROVED, "outputs int8[2, 3]"},
		{"bool", "1", "int32", "2, 3", 1, "1", PROVE_PROVED, "outputs int32[2, 3]"},
		{"int8", "-1", "float32", "2, 3", 1, "-1", PROVE_PROVED, "outputs float32[2, 3]"},
		{"uint16", "65535", "float32", "2, 3", 1, "65535", PROVE_PROVED, "outputs float32[2, 3]"},
		{"bool", "1", "float64", "2, 3", 1, "1", PROVE_PROVED, "outputs float64[2, 3]"},
		{"int64", "7", "int64", "2, 3", 1, "8", PROVE_NOT_PROVED, "output 0 at [0, 0] is 7, the reference's 8"},
		{"float32", "1.5", "float32", "2, 3", 1, "1.25", PROVE_NOT_PROVED,
			"output 0 at [0, 0] is another expression: about 1.5 there, the reference's about 1.25"},
		{"float32", "1e30", "int64", "2, 3", 1, "1", PROVE_OUTSIDE,
			"a copy of a float to an integer that cannot hold it"},
		{"int64", "7", "int64", "3, 2", 1, "7", PROVE_NOT_PROVED,
			"output 0 is int64[3, 2], the reference's is int64[2, 3]"},
		{"int64", "7", "int64", "2, 3", 2, "7", PROVE_NOT_PROVED, "the candidate returns 2 tensors, the reference 1"},
	};
	static const int32_t places[6] = {0};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prove_result r;
		struct err err = {0};
		json_t *graph = NULL;
		bool is_float = rows[i].to[0] == 'f';
		/* The reference: one number, as an integer where it has to be, taken to all places. */
		char *text = xasprintf(
			"{\"nodes\": [{\"kind\": \"number\", \"count\": 1, \"value\": %s, \"bits\": 53}, {\"kind\": \"map\", "
			"\"count\": 1, \"op\": \"%s\", \"sources\": [0]}, {\"kind\": \"take\", \"count\": 6, \"sources\": [%d], "
			"\"at\": 0, \"width\": 4, \"fill\": -1}], \"outputs\": [{\"node\": 2, \"dtype\": \"%s\", \"shape\": [2, "
			"3]}], "
			"\"inputs\": [], \"params\": []}",
			rows[i].reference, is_float ? "neg" : "to_int", !is_float, rows[i].to);
		if (json_parse(text, strlen(text), "graph", &graph, &err)) fail_msg("%s: %s", text, err.text);
		struct tape *t = moves_tape(rows[i].from, rows[i].value, rows[i].to, rows[i].shape, rows[i].returns);
		struct prove_draw d = {.graph = graph, .tables = (const uint8_t *)places, .table_bytes = sizeof places};
		if (prove_run(t, &d, 1, &(struct prove_options){.seed = 5}, &r, &err)) fail_msg("row %zu: %s", i, err.text);
		/* The answer and all of its words. */
		if (r.answer != rows[i].answer || strcmp(r.text, rows[i].says))
			fail_msg("row %zu: %s: %s", i, prove_answer_name(r.answer), r.text);
		json_decref(graph);
		tape_free(t);
		free(text);
	}
}

/* An answer goes out and comes back with every field; what another process says wrongly is
 * refused. */
static void results_come_back(void **state)
{
	static const char *const names[] = {"proved", "not proved", "refuted", "outside"};
	struct prove_result back;
	struct err err = {0};
	for (int a = 0; a < PROVE_ANSWER_COUNT; a++) {
		bool is_proved = a == PROVE_PROVED;
		struct prove_result r = {.answer = (enum prove_answer)a,
			.text = "words",
			.line = 12,
			.rounds = 3,
			.undecided = 4,
			.elements = 5000000000,
			.degree = 6.5,
			.bound = 1e-17,
			.is_theorem = true,
			.nsides = 2,
			.sides = {{7, "less, greater"}, {0, "equal"}},
			.seconds = 0.25};
		json_t *o = prove_result_json(&r);
		assert_string_equal(json_string_value(json_object_get(o, "answer")), names[a]);
		assert_true(json_number_value(json_object_get(o, "seconds")) == 0.25);
		/* What only a proof has is there only then. */
		assert_int_equal(json_object_size(o), is_proved ? 11 : 8);
		assert_int_equal(prove_result_parse(o, &back, &err), 0);
		assert_int_equal(back.answer, a);
		assert_string_equal(back.text, "words");
		assert_true(back.line == 12 && back.rounds == 3 && back.undecided == 4 && back.elements == 5000000000);
		assert_true(back.degree == (is_proved ? 6.5 : 0) && back.bound == (is_proved ? 1e-17 : 0));
		assert_int_equal(back.is_theorem, is_proved);
		assert_true(back.nsides == 2 && back.sides[0].line == 7 && back.sides[1].line == 0);
		assert_string_equal(back.sides[0].text, "less, greater");
		assert_string_equal(back.sides[1].text, "equal");
		/* A conjecture says so; a line that is none is 0. */
		if (is_proved) json_object_set_new(o, "guarantee", json_string("conjecture"));
		json_object_set_new(json_array_get(json_object_get(o, "one_sided"), 0), "line", json_integer(-1));
		json_object_set_new(
			json_array_get(json_object_get(o, "one_sided"), 1), "line", json_integer((json_int_t)1 << 31));
		assert_int_equal(prove_result_parse(o, &back, &err), 0);
		assert_true(!back.is_theorem && back.sides[0].line == 0 && back.sides[1].line == 0);
		json_decref(o);
	}
	/* More sides than there is room for are cut. */
	struct prove_result r = {.answer = PROVE_OUTSIDE, .nsides = PROVE_SIDES_MAX};
	json_t *o = prove_result_json(&r), *sides = json_object_get(o, "one_sided");
	json_array_append(sides, json_array_get(sides, 0));
	assert_int_equal(prove_result_parse(o, &back, &err), 0);
	assert_int_equal(back.nsides, PROVE_SIDES_MAX);
	/* Each field that has to be there, taken away or out of its range. */
	static const char *const needed[] = {"answer", "text", "line", "rounds", "undecided", "elements"};
	for (size_t i = 0; i < ARRAY_LEN(needed); i++) {
		json_t *kept = json_incref(json_object_get(o, needed[i]));
		json_object_set_new(o, needed[i], json_integer(-1));
		assert_true(prove_result_parse(o, &back, &err) < 0);
		assert_non_null(strstr(err.text, needed[i]));
		json_object_set_new(o, needed[i], kept);
	}
	json_object_set_new(o, "answer", json_string("maybe"));
	assert_int_equal(prove_result_parse(o, &back, &err), ERR_FORMAT);
	assert_string_equal(err.text, "proof: no such answer: maybe");
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rows_around_a_launch), cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(numbers_that_move), cmocka_unit_test(texts_travel), cmocka_unit_test(results_come_back)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
