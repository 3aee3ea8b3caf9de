/* The reference's graph alone: every kind of step and every operation by name, its values against
 * numbers worked out by hand, and what makes no sense, by its whole message. */
#include "base/base.h"
#include "field/field.h"
#include "prove/prove.h"
#include "prove/prove_internal.h"
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

/* What the first steps of every graph here hold; a NaN and infinities are among the floats z. */
static const struct {
	int64_t a[6], b[6];
	double x[6], y[6], z[6], w[6];
	int64_t places[6];
	int32_t narrow[6];
	int64_t wide[3], to[3];
} tables = {{6, -3, 0, 5, INT64_MAX, 2}, {3, -3, 7, 5, 1, -9}, {1, 2, 3, 4, 5, 6}, {2, -1, 0, 3, 1, -2},
	{NAN, INFINITY, -INFINITY, 0, -7.75, 2.5}, {3, 1, 3, -2, 5, -2}, {5, -1, 0, 3, 3, -1}, {0, 5, 2, 2, 1, 4},
	{11, 6, 5}, {4, 0, 4}};
#define FIRST \
	"{\"kind\": \"ints\", \"count\": 6, \"at\": 0}, {\"kind\": \"ints\", \"count\": 6, \"at\": 48}, " \
	"{\"kind\": \"floats\", \"count\": 6, \"at\": 96, \"bits\": 53}, " \
	"{\"kind\": \"floats\", \"count\": 6, \"at\": 144, \"bits\": 53}, " \
	"{\"kind\": \"floats\", \"count\": 6, \"at\": 192, \"bits\": 53}, " \
	"{\"kind\": \"floats\", \"count\": 6, \"at\": 240, \"bits\": 53}, " \
	"{\"kind\": \"number\", \"count\": 1, \"value\": -4, \"bits\": 24}"
enum { FIRST_STEPS = 7 };

#define NOT_WHOLE (INT64_MIN + 1)   /* a float that is no whole number, or not known exactly */

/* Runs the first steps and those of `steps`; the last one's values. */
static int run(const char *steps, int64_t *out, bool *is_float, struct prove_stop *stop, struct err *err)
{
	struct prove_outputs found;
	struct field f;
	json_t *graph = NULL;
	/* As many steps behind the first as there are kinds in the text. */
	int last = FIRST_STEPS - 1;
	long long count = 0;
	for (const char *p = strstr(steps, "\"kind\""); p; p = strstr(p + 1, "\"kind\"")) {
		last++;
		count = atoll(strstr(p, "\"count\": ") + strlen("\"count\": "));
	}
	char *text = xasprintf("{\"nodes\": [" FIRST ", %s], \"outputs\": [{\"node\": %d, \"dtype\": \"float64\", "
						   "\"shape\": [%lld, 1]}]}",
		steps, last, count);
	if (json_parse(text, strlen(text), "graph", &graph, err)) fail_msg("%s: %s", text, err->text);
	struct prove_leaves leaves = {.ninputs = 0};
	struct prove_draw d = {.graph = graph, .tables = (const uint8_t *)&tables, .table_bytes = sizeof tables};
	field_init(&f, 9);
	int rc = graph_run(&d, &f, &leaves, 0, &found, stop, err);
	for (int64_t k = 0; k < count && !rc; k++) {
		const struct prove_output *o = &found.outputs[0];
		*is_float = o->is_float;
		if (!o->is_float) out[k] = o->ints[k];
		else
			out[k] = o->values[k].lo == o->values[k].hi && o->values[k].lo == rint(o->values[k].lo)
				? (int64_t)o->values[k].lo
				: NOT_WHOLE;
	}
	for (int i = 0; i < found.n; i++) {
		free(found.outputs[i].values);
		free(found.outputs[i].ints);
	}
	field_release(&f);
	json_decref(graph);
	free(text);
	return rc;
}

#define MAP(op, sources) "{\"kind\": \"map\", \"count\": 6, \"op\": \"" op "\", \"sources\": [" sources "]}"
#define ROWS(kind, count, op, source) "{\"kind\": \"" kind "\", \"count\": " #count ", \"op\": \"" op \
	"\", \"sources\": [" #source "], \"length\": 3}"
#define TAKE(count, sources, at, width, fill) "{\"kind\": \"take\", \"count\": " #count ", \"sources\": [" sources \
	"], \"at\": " #at ", \"width\": " #width ", \"fill\": " #fill "}"
#define ORDER(descending) "{\"kind\": \"order\", \"count\": 6, \"sources\": [5], \"length\": 6, \"descending\": " \
	descending "}"
#define DOT(count, batch, m, k, n) "{\"kind\": \"dot\", \"count\": " #count ", \"sources\": [2, 3], " \
	"\"batch\": " #batch ", \"m\": " #m ", \"k\": " #k ", \"n\": " #n "}"

#define EMPTY "{\"kind\": \"floats\", \"count\": 0, \"at\": 0, \"bits\": 53}"

static void every_step(void **state)
{
	static const struct {
		const char *steps;
		bool is_float;
		int count;
		int64_t values[6];
	} rows[] = {
		/* what the tables hold, and one number */
		{TAKE(6, "0", 336, 4, -1), false, 6, {6, 2, 0, 0, -3, INT64_MAX}},
		{MAP("int add", "0, 1"), false, 6, {9, -6, 7, 10, INT64_MIN, -7}},
		{MAP("int sub", "0, 1"), false, 6, {3, 0, -7, 0, INT64_MAX - 1, 11}},
		{MAP("int mul", "0, 1"), false, 6, {18, 9, 0, 25, INT64_MAX, -18}},
		{MAP("and", "0, 1"), false, 6, {2, -3, 0, 5, 1, 2}},
		{MAP("or", "0, 1"), false, 6, {7, -3, 7, 5, INT64_MAX, -9}},
		{MAP("xor", "0, 1"), false, 6, {5, 0, 7, 0, INT64_MAX - 1, -11}},
		{MAP("not", "0"), false, 6, {0, 0, 1, 0, 0, 0}},
		{MAP("int lt", "0, 1"), false, 6, {0, 0, 1, 0, 0, 0}},
		{MAP("int le", "0, 1"), false, 6, {0, 1, 1, 1, 0, 0}},
		{MAP("int gt", "0, 1"), false, 6, {1, 0, 0, 0, 1, 1}},
		{MAP("int ge", "0, 1"), false, 6, {1, 1, 0, 1, 1, 1}},
		{MAP("int eq", "0, 1"), false, 6, {0, 1, 0, 1, 0, 0}},
		{MAP("int ne", "0, 1"), false, 6, {1, 0, 1, 0, 1, 1}},
		/* comparisons of floats: x with w, and with what is no number */
		{MAP("lt", "2, 5"), false, 6, {1, 0, 0, 0, 0, 0}},
		{MAP("le", "2, 5"), false, 6, {1, 0, 1, 0, 1, 0}},
		{MAP("gt", "2, 5"), false, 6, {0, 1, 0, 1, 0, 1}},
		{MAP("ge", "2, 5"), false, 6, {0, 1, 1, 1, 1, 1}},
		{MAP("eq", "2, 5"), false, 6, {0, 0, 1, 0, 1, 0}},
		{MAP("ne", "2, 5"), false, 6, {1, 1, 0, 1, 0, 1}},
		{MAP("lt", "4, 2"), false, 6, {0, 0, 1, 1, 1, 1}},
		{MAP("ge", "4, 2"), false, 6, {0, 1, 0, 0, 0, 0}},
		{MAP("ne", "4, 4"), false, 6, {1, 0, 0, 0, 0, 0}},
		{MAP("eq", "4, 4"), false, 6, {0, 1, 1, 1, 1, 1}},
		{MAP("isnan", "4"), false, 6, {1, 0, 0, 0, 0, 0}},
		{MAP("isinf", "4"), false, 6, {0, 1, 1, 0, 0, 0}},
		{MAP("isfinite", "4"), false, 6, {0, 0, 0, 1, 1, 1}},
		/* one element stands for all */
		{MAP("add", "2, 6"), true, 6, {-3, -2, -1, 0, 1, 2}},
		{MAP("sub", "6, 2"), true, 6, {-5, -6, -7, -8, -9, -10}},
		{MAP("where", "0, 2, 3"), true, 6, {1, 2, 0, 4, 5, 6}},
		{MAP("where", "0, 1, 0"), false, 6, {3, -3, 0, 5, 1, -9}},
		{MAP("where", "1, 6, 2"), true, 6, {-4, -4, -4, -4, -4, -4}},
		{MAP("to_float", "1"), true, 6, {3, -3, 7, 5, 1, -9}},
		{MAP("to_float", "3"), true, 6, {2, -1, 0, 3, 1, -2}},
		{MAP("to_int", "3"), false, 6, {2, -1, 0, 3, 1, -2}},
		{TAKE(1, "4", 356, 4, -1) ", {\"kind\": \"map\", \"count\": 1, \"op\": \"to_int\", \"sources\": [7]}", false, 1,
			{-7}},
		{TAKE(1, "4", 340, 4, -1) ", {\"kind\": \"map\", \"count\": 1, \"op\": \"to_int\", \"sources\": [7]}", false, 1,
			{2}},
		/* places in one source and in two, with a filling, and places of places */
		{TAKE(6, "2", 288, 8, 6), true, 6, {6, -4, 1, 4, 4, -4}},
		{TAKE(3, "2, 3", 360, 8, -1), true, 3, {-2, 2, 6}},
		{TAKE(3, "0, 1", 360, 8, -1), false, 3, {-9, 3, 2}},
		{TAKE(6, "2", 288, 8, 6) ", " TAKE(6, "7", 336, 4, -1), true, 6, {6, -4, 1, 1, -4, 4}},
		{TAKE(6, "0", 336, 4, -1) ", " TAKE(6, "7", 336, 4, -1), false, 6, {6, INT64_MAX, 0, 0, 2, -3}},
		{"{\"kind\": \"scatter\", \"count\": 6, \"sources\": [2, 6], \"at\": 384, \"scattered\": 3}", true, 6,
			{-3, 2, 3, 4, -3, 6}},
		/* rows of three */
		{ROWS("reduce", 2, "sum", 3), true, 2, {1, 2}},
		{ROWS("reduce", 2, "prod", 2), true, 2, {6, 120}},
		{ROWS("reduce", 2, "max", 3), true, 2, {2, 3}},
		{ROWS("reduce", 2, "min", 3), true, 2, {-1, -2}},
		{ROWS("reduce", 2, "argmax", 5), false, 2, {0, 1}},
		{ROWS("reduce", 2, "argmin", 5), false, 2, {1, 0}},
		{ROWS("reduce", 2, "any", 0), false, 2, {1, 1}},
		{ROWS("reduce", 2, "all", 0), false, 2, {0, 1}},
		{ROWS("reduce", 2, "int sum", 1), false, 2, {7, -3}},
		{MAP("int lt", "0, 1") ", " ROWS("reduce", 2, "any", 7), false, 2, {1, 0}},
		{MAP("int ge", "0, 1") ", " ROWS("reduce", 2, "all", 7), false, 2, {0, 1}},
		{EMPTY ", {\"kind\": \"reduce\", \"count\": 1, \"op\": \"sum\", \"sources\": [7], \"length\": 0}", true, 1,
			{0}},
		{EMPTY ", {\"kind\": \"reduce\", \"count\": 1, \"op\": \"prod\", \"sources\": [7], \"length\": 0}", true, 1,
			{1}},
		{ROWS("scan", 6, "sum", 3), true, 6, {2, 1, 1, 3, 4, 2}},
		{ROWS("scan", 6, "prod", 2), true, 6, {1, 2, 6, 4, 20, 120}},
		{ROWS("scan", 6, "max", 3), true, 6, {2, 2, 2, 3, 3, 3}},
		{ROWS("scan", 6, "min", 3), true, 6, {2, -1, -1, 3, 1, -2}},
		/* equal ones stay in their order */
		{ORDER("false"), false, 6, {3, 5, 1, 0, 2, 4}},
		{ORDER("true"), false, 6, {4, 0, 2, 1, 3, 5}},
		{ORDER("true") ", {\"kind\": \"pick\", \"count\": 6, \"sources\": [5, 7], \"length\": 6, \"picked\": 6}", true,
			6, {5, 3, 3, 1, -2, -2}},
		{ROWS("reduce", 2, "argmin",
			 5) ", {\"kind\": \"pick\", \"count\": 2, \"sources\": [1, 7], \"length\": 3, \"picked\": 1}",
			false, 2, {-3, 5}},
		/* x as 2 by 3 times y as 3 by 2; x as 3 by 2 times y as 2 by 3; in two batches */
		{DOT(4, 1, 2, 3, 2), true, 4, {5, -1, 14, -1}},
		{DOT(2, 2, 1, 3, 1), true, 2, {0, 5}},
		{DOT(6, 6, 1, 1, 1), true, 6, {2, -2, 0, 12, 5, -12}},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prove_stop stop = {.end = PROVE_DONE};
		struct err err = {0};
		int64_t found[6] = {0};
		bool is_float = rows[i].is_float;
		int rc = run(rows[i].steps, found, &is_float, &stop, &err);
		if (rc) fail_msg("%s: %s%s", rows[i].steps, err.text, stop.text);
		assert_int_equal(is_float, rows[i].is_float);
		/* All elements, each exactly. */
		for (int k = 0; k < rows[i].count; k++)
			if (found[k] != rows[i].values[k])
				fail_msg("%s: element %d is %lld, expected %lld", rows[i].steps, k, (long long)found[k],
					(long long)rows[i].values[k]);
	}
}

/* Six numbers, each one up to what an interval can tell, and six that are one. */
#define ABOUT_ONE MAP("sin", "2") ", " MAP("cos", "2") ", " MAP("mul", "7, 7") ", " MAP("mul", "8, 8") ", " \
	MAP("add", "9, 10") ", " MAP("div", "2, 2") ", "

/* What makes no sense, by its whole message; what the real values do not decide ends the round. */
static void what_ends_a_graph(void **state)
{
#define OF(kind, rest) "{\"kind\": \"" kind "\", \"count\": 6, " rest "}"
	static const struct {
		const char *steps, *says;
	} rows[] = {
		{MAP("no such", "0, 1"), "step 7 of the reference: an operation 'no such' that is not known"},
		{MAP("add", "2"), "step 7 of the reference: 1 sources, expected more"},
		{MAP("add", "0, 2"), "step 7 of the reference: source 0 is of integers"},
		{MAP("lt", "2, 0"), "step 7 of the reference: source 1 is of integers"},
		{MAP("and", "2, 0"), "step 7 of the reference: source 0 is of floats"},
		{MAP("isnan", "0"), "step 7 of the reference: source 0 is of integers"},
		{MAP("to_int", "0"), "step 7 of the reference: source 0 is of integers"},
		{MAP("where", "2, 2, 2"), "step 7 of the reference: source 0 is of floats"},
		{MAP("where", "0, 2, 1"), "step 7 of the reference: source 2 is of integers"},
		{MAP("where", "0, 1"), "step 7 of the reference: 2 sources for 'where'"},
		{MAP("add", "2, 7"), "step 7 of the reference: a source that is not in front of it"},
		{MAP("add", "2, -1"), "step 7 of the reference: a source that is not in front of it"},
		{"{\"kind\": \"map\", \"count\": 5, \"op\": \"add\", \"sources\": [2, 3]}",
			"step 7 of the reference: source 0 has 6 elements, expected 5"},
		{OF("no such", "\"x\": 1"), "step 7 of the reference: a kind 'no such' that is not known"},
		{OF("number", "\"value\": 1, \"bits\": 24"), "step 7 of the reference: a number of 6 elements"},
		{OF("ints", "\"at\": 361"), "step 7 of the reference: its table does not lie in the tables' memory"},
		{OF("floats", "\"at\": 96, \"bits\": 54"), "step: field \"bits\": expected 1 .. 53, found 54"},
		{OF("input", "\"index\": 0, \"fixed\": -1"), "step 7 of the reference: an input that is not there"},
		{OF("param", "\"name\": \"w\""), "step 7 of the reference: a parameter that is not there"},
		{TAKE(6, "2", 288, 6, 6), "step 7 of the reference: places of 6 bytes"},
		{TAKE(6, "2", 288, 8, -1), "step 7 of the reference: place -1 of 6 elements"},
		{TAKE(6, "2", 288, 8, 0), "step 7 of the reference: what fills a take does not fit it"},
		{TAKE(6, "2", 288, 8, 2), "step 7 of the reference: what fills a take does not fit it"},
		{TAKE(6, "", 288, 8, 6), "step 7 of the reference: a take of nothing"},
		{TAKE(6, "2, 0", 288, 8, 6), "step 7 of the reference: source 1 is of integers"},
		{TAKE(3, "2", 360, 8, -1), "step 7 of the reference: place 11 of 6 elements"},
		{ROWS("reduce", 3, "sum", 2), "step 7 of the reference: rows that do not fit their source"},
		{ROWS("reduce", 2, "mean", 2), "step 7 of the reference: a reduction of floats that is not known"},
		{ROWS("reduce", 2, "sum", 0), "step 7 of the reference: a reduction 'sum' of integers"},
		{EMPTY ", {\"kind\": \"reduce\", \"count\": 1, \"op\": \"max\", \"sources\": [7], \"length\": 0}",
			"step 8 of the reference: a maximum of nothing"},
		{"{\"kind\": \"reduce\", \"count\": 2, \"op\": \"sum\", \"sources\": [], \"length\": 3}",
			"step 7 of the reference: no source"},
		{ROWS("scan", 6, "argmax", 2), "step 7 of the reference: a scan that does not fit its source"},
		{ROWS("scan", 3, "sum", 2), "step 7 of the reference: a scan that does not fit its source"},
		{"{\"kind\": \"scan\", \"count\": 6, \"op\": \"sum\", \"sources\": [2], \"length\": 4}",
			"step 7 of the reference: a scan that does not fit its source"},
		{ROWS("scan", 6, "sum", 0), "step 7 of the reference: source 0 is of integers"},
		{"{\"kind\": \"order\", \"count\": 6, \"sources\": [2], \"length\": 5}",
			"step 7 of the reference: an order that does not fit its source"},
		{"{\"kind\": \"pick\", \"count\": 6, \"sources\": [2, 0], \"length\": 6, \"picked\": 4}",
			"step 7 of the reference: a pick that does not fit its sources"},
		{"{\"kind\": \"pick\", \"count\": 6, \"sources\": [2, 0], \"length\": 6, \"picked\": 6}",
			"step 7 of the reference: a pick of element 6 of 6"},
		{MAP("not", "0") ", " MAP("int sub",
			 "7, 0") ", {\"kind\": \"pick\", \"count\": 6, \"sources\": [2, 8], \"length\": 6, \"picked\": 6}",
			"step 9 of the reference: a pick of element -6 of 6"},
		{DOT(6, 1, 2, 3, 2), "step 7 of the reference: a product that does not fit its sources"},
		{DOT(4, 1, 2, 2, 2), "step 7 of the reference: a product that does not fit its sources"},
		{"{\"kind\": \"scatter\", \"count\": 6, \"sources\": [2, 6], \"at\": 360, \"scattered\": 3}",
			"step 7 of the reference: a sum at place 11 of 6"},
		{"{\"kind\": \"scatter\", \"count\": 6, \"sources\": [2, 3], \"at\": 384, \"scattered\": 3}",
			"step 7 of the reference: source 1 has 6 elements, expected 3"},
		{"{\"kind\": \"scatter\", \"count\": 6, \"sources\": [2, 6], \"at\": 392, \"scattered\": 3}",
			"step 7 of the reference: its table does not lie in the tables' memory"},
		/* decided by no real value, or by none that an integer holds */
		{MAP("to_int", "4"), "the reference: a float as an integer that cannot hold it"},
		{MAP("div", "2, 5") ", " MAP("mul", "7, 5") ", " MAP("to_int", "8"),
			"the reference: a rounding to an integer is not decided by the real values"},
		{ABOUT_ONE MAP("lt", "11, 12"), "the reference: a comparison is not decided by the real values"},
		{ABOUT_ONE MAP("max", "11, 12"), "the reference: max is not decided by the real values"},
		{ABOUT_ONE ROWS("reduce", 2, "min", 11), "the reference: min is not decided by the real values"},
		{ABOUT_ONE ROWS("reduce", 2, "argmax", 11),
			"the reference: the place of a maximum is not decided by the real values"},
		{ABOUT_ONE ROWS("scan", 6, "max", 11), "the reference: max is not decided by the real values"},
		{ABOUT_ONE "{\"kind\": \"order\", \"count\": 6, \"sources\": [11], \"length\": 6}",
			"the reference: an order is not decided by the real values"},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prove_stop stop = {.end = PROVE_DONE};
		struct err err = {0};
		int64_t found[6];
		bool is_float;
		/* Either a message about a step, or an end of this round alone. */
		int rc = run(rows[i].steps, found, &is_float, &stop, &err);
		const char *says = rc < 0 ? err.text : stop.text;
		assert_int_equal(rc == 1, stop.end != PROVE_DONE);
		if (!rc || strcmp(says, rows[i].says)) fail_msg("%s: %d: %s", rows[i].steps, rc, says);
	}
}

/* An output may be any step, the first and the last too, and no other number. */
static void any_step_is_an_output(void **state)
{
	static const struct {
		int node;
		const char *says; /* NULL: its first element is `value` */
		int64_t value;
	} rows[] = {{0, NULL, 6}, {1, NULL, 3}, {7, NULL, 9}, {-1, "output: field \"node\": expected 0 .. 7, found -1", 0},
		{8, "output: field \"node\": expected 0 .. 7, found 8", 0}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prove_outputs found = {0};
		struct prove_stop stop = {.end = PROVE_DONE};
		struct prove_leaves leaves = {.ninputs = 0};
		struct err err = {0};
		struct field f;
		json_t *graph = NULL;
		char *text = xasprintf("{\"nodes\": [" FIRST
							   ", " MAP("int add", "0, 1") "], \"outputs\": [{\"node\": %d, "
														   "\"dtype\": \"int64\", \"shape\": [6]}]}",
			rows[i].node);
		if (json_parse(text, strlen(text), "graph", &graph, &err)) fail_msg("%s: %s", text, err.text);
		struct prove_draw d = {.graph = graph, .tables = (const uint8_t *)&tables, .table_bytes = sizeof tables};
		field_init(&f, 9);
		/* Its first element, or what is said of its number. */
		int rc = graph_run(&d, &f, &leaves, 0, &found, &stop, &err);
		if (!rc != !rows[i].says || (rc && !strstr(err.text, rows[i].says))) fail_msg("row %zu: %s", i, err.text);
		if (!rc) assert_int_equal(found.outputs[0].ints[0], rows[i].value);
		for (int k = 0; k < found.n; k++) {
			free(found.outputs[k].values);
			free(found.outputs[k].ints);
		}
		field_release(&f);
		json_decref(graph);
		free(text);
	}
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	every_step(NULL);
	what_ends_a_graph(NULL);
	any_step_is_an_output(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_step), cmocka_unit_test(what_ends_a_graph),
		cmocka_unit_test(any_step_is_an_output), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
