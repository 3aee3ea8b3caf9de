/* chart: small charts as inline SVG, one series per run: lines over steps, and pairs of numbers. */
#ifndef HONE_CHART_H
#define HONE_CHART_H
#include "base/base.h"

struct chart_point {
	double x;
	double y;
};
struct chart_series {
	const char *name;
	const struct chart_point *points;
	size_t count;
};
/* Appends one <figure>: title, axes with the range, a line per series (non-finite points break the
 * line), final values in the legend. */
void chart_svg(struct str *out, const char *title, const struct chart_series *series, size_t count);
/* The same of pairs whose x and y are of one kind: a dot each, one range for both axes, and the
 * line on which they are equal. The legend has how many there are. */
void chart_pairs_svg(struct str *out, const char *title, const struct chart_series *series, size_t count);
void html_escape(struct str *out, const char *text, size_t len);
#endif
