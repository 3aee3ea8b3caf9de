/* Charts as inline SVG: no script, no network, prints well. Ticks are the range's ends and middle:
 * the value of interest is read from the legend. */
#include "report/chart.h"
#include "base/base.h"

#include <math.h>

enum { WIDTH = 420, HEIGHT = 200, LEFT = 58, RIGHT = 10, TOP = 10, BOTTOM = 24 };
static const char *const colours[] = {"#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a"};

void html_escape(struct str *out, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];
		if (c == '<') str_puts(out, "&lt;");
		else if (c == '>') str_puts(out, "&gt;");
		else if (c == '&') str_puts(out, "&amp;");
		else if (c == '"') str_puts(out, "&quot;");
		else if (c < 32 && c != '\n' && c != '\t') str_puts(out, "&#xFFFD;");
		else str_putc(out, (char)c);
	}
}

struct range {
	double x0; /* smallest, in the data's unit; 1: largest */
	double x1;
	double y0;
	double y1;
};

static struct range range_of(const struct chart_series *s, size_t count)
{
	struct range r = {INFINITY, -INFINITY, INFINITY, -INFINITY};
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < s[i].count; k++) {
			struct chart_point p = s[i].points[k];
			if (!isfinite(p.y)) continue;
			r = (struct range){fmin(r.x0, p.x), fmax(r.x1, p.x), fmin(r.y0, p.y), fmax(r.y1, p.y)};
		}
	if (!isfinite(r.x0)) return (struct range){0, 1, 0, 1};
	if (r.x1 == r.x0) r.x1 = r.x0 + 1;
	if (r.y1 == r.y0) {
		r.y0 -= 0.5;
		r.y1 += 0.5;
	}
	return r;
}

static double at_x(const struct range *r, double x)
{
	return LEFT + (x - r->x0) / (r->x1 - r->x0) * (WIDTH - LEFT - RIGHT);
}
static double at_y(const struct range *r, double y)
{
	return HEIGHT - BOTTOM - (y - r->y0) / (r->y1 - r->y0) * (HEIGHT - TOP - BOTTOM);
}

static void put_axes(struct str *out, const struct range *r)
{
	for (int i = 0; i <= 2; i++) {
		double y = r->y0 + (r->y1 - r->y0) * i / 2, x = r->x0 + (r->x1 - r->x0) * i / 2;
		str_printf(out,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/><text x=\"%d\" y=\"%.1f\" "
			"text-anchor=\"end\">%.3g</text>",
			LEFT, WIDTH - RIGHT, at_y(r, y), at_y(r, y), LEFT - 5, at_y(r, y) + 3, y);
		str_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%.6g</text>", at_x(r, x), HEIGHT - 8,
			i == 0       ? "start"
				: i == 1 ? "middle"
						 : "end",
			x);
	}
}

static void put_line(struct str *out, const struct range *r, const struct chart_series *s, const char *colour)
{
	bool is_down = false;
	str_puts(out, "<path fill=\"none\" stroke-width=\"1.5\" stroke=\"");
	str_printf(out, "%s\" d=\"", colour);
	for (size_t i = 0; i < s->count; i++) {
		struct chart_point p = s->points[i];
		if (!isfinite(p.y)) {
			is_down = false;
			continue;
		}
		str_printf(out, "%c%.1f %.1f", is_down ? 'L' : 'M', at_x(r, p.x), at_y(r, p.y));
		is_down = true;
	}
	str_puts(out, "\"/>");
	for (size_t i = 0; s->count <= 60 && i < s->count; i++) /* few points: show them, a lone one draws no line */
		if (isfinite(s->points[i].y))
			str_printf(out, "<circle r=\"1.6\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\"/>", colour, at_x(r, s->points[i].x),
				at_y(r, s->points[i].y));
}

static void figure_open(struct str *out, const char *title)
{
	str_puts(out, "<figure><figcaption>");
	html_escape(out, title, strlen(title));
	str_printf(out, "</figcaption><svg viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">", WIDTH, HEIGHT,
		WIDTH, HEIGHT);
}

void chart_pairs_svg(struct str *out, const char *title, const struct chart_series *series, size_t count)
{
	struct range r = range_of(series, count);
	r.x0 = r.y0 = fmin(r.x0, r.y0);
	r.x1 = r.y1 = fmax(r.x1, r.y1);
	figure_open(out, title);
	put_axes(out, &r);
	str_printf(out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>", at_x(&r, r.x0),
		at_y(&r, r.y0), at_x(&r, r.x1), at_y(&r, r.y1));
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < series[i].count; k++)
			if (isfinite(series[i].points[k].x) && isfinite(series[i].points[k].y))
				str_printf(out, "<circle r=\"1.6\" fill=\"%s\" cx=\"%.1f\" cy=\"%.1f\"/>",
					colours[i % ARRAY_LEN(colours)], at_x(&r, series[i].points[k].x), at_y(&r, series[i].points[k].y));
	str_puts(out, "</svg><p class=\"legend\">");
	for (size_t i = 0; i < count; i++) {
		if (!series[i].count) continue;
		str_printf(out, "<span style=\"color:%s\">", colours[i % ARRAY_LEN(colours)]);
		html_escape(out, series[i].name, strlen(series[i].name));
		str_printf(out, "</span> %zu &nbsp; ", series[i].count);
	}
	str_puts(out, "</p></figure>\n");
}

void chart_svg(struct str *out, const char *title, const struct chart_series *series, size_t count)
{
	struct range r = range_of(series, count);
	figure_open(out, title);
	put_axes(out, &r);
	for (size_t i = 0; i < count; i++) put_line(out, &r, &series[i], colours[i % ARRAY_LEN(colours)]);
	str_puts(out, "</svg><p class=\"legend\">");
	for (size_t i = 0; i < count; i++) {
		if (!series[i].count) continue;
		str_printf(out, "<span style=\"color:%s\">", colours[i % ARRAY_LEN(colours)]);
		html_escape(out, series[i].name, strlen(series[i].name));
		str_printf(out, "</span> last %.4g &nbsp; ", series[i].points[series[i].count - 1].y);
	}
	str_puts(out, "</p></figure>\n");
}
