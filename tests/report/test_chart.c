/* Charts to the character: where each point lands in the frame, by hand. The plot is 352 wide from
 * 58 and 166 high down to 176. */
#include "report/chart.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include "../leaks.h"

static void expect_chart(const char *title, const struct chart_series *series, size_t count, const char *expected)
{
	struct str out = {0};
	chart_svg(&out, title, series, count);
	assert_string_equal(out.data, expected);
	str_release(&out);
}

#define HEAD "<svg viewBox=\"0 0 420 200\" width=\"420\" height=\"200\" role=\"img\">"
#define GRID(y) "<line x1=\"58\" x2=\"410\" y1=\"" y "\" y2=\"" y "\" class=\"grid\"/>"
#define Y_TEXT(y, value) "<text x=\"53\" y=\"" y "\" text-anchor=\"end\">" value "</text>"
#define X_TEXT(x, anchor, value) "<text x=\"" x "\" y=\"192\" text-anchor=\"" anchor "\">" value "</text>"
#define LINE(colour, d) "<path fill=\"none\" stroke-width=\"1.5\" stroke=\"" colour "\" d=\"" d "\"/>"
#define DOT(colour, x, y) "<circle r=\"1.6\" fill=\"" colour "\" cx=\"" x "\" cy=\"" y "\"/>"
#define NAME(colour, name, last) "<span style=\"color:" colour "\">" name "</span> last " last " &nbsp; "
#define BLUE "#1f6feb"
#define RED "#d1242f"
#define GREEN "#1a7f37"

/* Pairs share one range: 0 to 2 is the plot's width and height, and the line
 * of equals its diagonal. */
static void test_pairs(void **state)
{
	const struct chart_point a[] = {{0, 1}, {1, 2}, {NAN, 1}};
	const struct chart_series series[] = {{"<a>", a, 3}, {"none", a, 0}, {"c", a + 1, 1}};
	struct str out = {0};
	chart_pairs_svg(&out, "t", series, 3);
	assert_string_equal(out.data,
		"<figure><figcaption>t</figcaption>" HEAD                                        /**/
			GRID("176.0") Y_TEXT("179.0", "0") X_TEXT("58.0", "start", "0")              /**/
		GRID("93.0") Y_TEXT("96.0", "1") X_TEXT("234.0", "middle", "1")                  /**/
		GRID("10.0") Y_TEXT("13.0", "2") X_TEXT("410.0", "end", "2")                     /**/
		"<line x1=\"58.0\" y1=\"176.0\" x2=\"410.0\" y2=\"10.0\" class=\"grid\"/>"       /**/
		DOT(BLUE, "58.0", "93.0") DOT(BLUE, "234.0", "10.0") DOT(GREEN, "234.0", "10.0") /**/
		"</svg><p class=\"legend\"><span style=\"color:" BLUE "\">&lt;a&gt;</span> 3 &nbsp; <span style=\"color:" GREEN
		"\">c</span> 1 &nbsp; "
		"</p></figure>\n");
	str_release(&out);
}

/* Steps 1 to 5 are 88 apart, values 0 to 2 are 83 apart; a point that is not finite breaks the line
 * and has no dot; a series without points has no name in the legend, but keeps its colour. */
static void test_two_series(void **state)
{
	const struct chart_point a[] = {{1, 0}, {2, NAN}, {3, 1}, {5, 2}}, b[] = {{1, 2}, {2, 1.5}};
	const struct chart_series series[] = {{"<a>", a, 4}, {"none", a, 0}, {"b", b, 2}};
	expect_chart("t & u", series, 3,
		"<figure><figcaption>t &amp; u</figcaption>" HEAD                                /**/
			GRID("176.0") Y_TEXT("179.0", "0") X_TEXT("58.0", "start", "1")              /**/
		GRID("93.0") Y_TEXT("96.0", "1") X_TEXT("234.0", "middle", "3")                  /**/
		GRID("10.0") Y_TEXT("13.0", "2") X_TEXT("410.0", "end", "5")                     /**/
		LINE(BLUE, "M58.0 176.0M234.0 93.0L410.0 10.0")                                  /**/
		DOT(BLUE, "58.0", "176.0") DOT(BLUE, "234.0", "93.0") DOT(BLUE, "410.0", "10.0") /**/
		LINE(RED, "") LINE("#1a7f37", "M58.0 10.0L146.0 51.5")                           /**/
		DOT("#1a7f37", "58.0", "10.0") DOT("#1a7f37", "146.0", "51.5")                   /**/
		"</svg><p class=\"legend\">" NAME(BLUE, "&lt;a&gt;", "2") NAME("#1a7f37", "b", "1.5") "</p></figure>\n");
}

/* One point: its step at the left, with the next one at the right; its value in
 * the middle of one unit. */
static void test_one_point(void **state)
{
	const struct chart_point p = {7, 4};
	expect_chart("", &(struct chart_series){"p", &p, 1}, 1,
		"<figure><figcaption></figcaption>" HEAD                              /**/
			GRID("176.0") Y_TEXT("179.0", "3.5") X_TEXT("58.0", "start", "7") /**/
		GRID("93.0") Y_TEXT("96.0", "4") X_TEXT("234.0", "middle", "7.5")     /**/
		GRID("10.0") Y_TEXT("13.0", "4.5") X_TEXT("410.0", "end", "8")        /**/
		LINE(BLUE, "M58.0 93.0") DOT(BLUE, "58.0", "93.0")                    /**/
		"</svg><p class=\"legend\">" NAME(BLUE, "p", "4") "</p></figure>\n");
}

/* Nothing finite: the frame goes from 0 to 1 both ways. */
static void test_nothing_finite(void **state)
{
	const struct chart_point p[] = {{7, NAN}, {8, INFINITY}};
	expect_chart("", &(struct chart_series){"p", p, 2}, 1,
		"<figure><figcaption></figcaption>" HEAD                            /**/
			GRID("176.0") Y_TEXT("179.0", "0") X_TEXT("58.0", "start", "0") /**/
		GRID("93.0") Y_TEXT("96.0", "0.5") X_TEXT("234.0", "middle", "0.5") /**/
		GRID("10.0") Y_TEXT("13.0", "1") X_TEXT("410.0", "end", "1")        /**/
		LINE(BLUE, "") "</svg><p class=\"legend\">" NAME(BLUE, "p", "inf") "</p></figure>\n");
}

/* Dots up to 60 points; the seventh series begins the colours anew. */
static void test_many(void **state)
{
	struct chart_point points[61];
	struct chart_series series[7];
	for (int i = 0; i < 61; i++) points[i] = (struct chart_point){i, i};
	for (int i = 0; i < 7; i++) series[i] = (struct chart_series){"s", points, i == 6 ? 61 : 60};
	struct str out = {0};
	chart_pairs_svg(&out, "", series, 7);
	int pairs = 0;
	for (const char *p = out.data; (p = strstr(p, "\"" BLUE "\"")); p++) pairs++;
	assert_int_equal(pairs, 60 + 61);
	assert_non_null(strstr(out.data, "color:" BLUE "\">s</span> 61 "));
	str_clear(&out);
	chart_svg(&out, "", series, 7);
	int dots = 0, blue = 0;
	for (const char *p = out.data; (p = strstr(p, "<circle")); p++) dots++;
	for (const char *p = out.data; (p = strstr(p, "color:" BLUE)); p++) blue++;
	assert_int_equal(dots, 6 * 60);
	assert_int_equal(blue, 2);
	str_release(&out);
}

static void test_escape(void **state)
{
	const char text[] = "a<b>&\"'\t\n\x1f\x20\x00z\xc3\xa4";
	struct str out = {0};
	html_escape(&out, text, sizeof text - 1);
	assert_string_equal(out.data, "a&lt;b&gt;&amp;&quot;'\t\n&#xFFFD;\x20&#xFFFD;z\xc3\xa4");
	str_release(&out);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_pairs(NULL);
	test_two_series(NULL);
	test_one_point(NULL);
	test_nothing_finite(NULL);
	test_many(NULL);
	test_escape(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs), cmocka_unit_test(test_two_series),
		cmocka_unit_test(test_one_point), cmocka_unit_test(test_nothing_finite), cmocka_unit_test(test_many),
		cmocka_unit_test(test_escape), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
