/* measure: medians and their intervals (measure.h). */
#include "verify/measure.h"
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

struct verdict_measure measure_median(double *x, int n)
{
	if (n <= 0) return (struct verdict_measure){NAN, NAN, NAN};
	qsort(x, (size_t)n, sizeof *x, compare);
	double half = 0.98 * sqrt((double)n);
	int low = (int)floor(n / 2.0 - half), high = (int)ceil(n / 2.0 + half);
	return (struct verdict_measure){(x[(n - 1) / 2] + x[n / 2]) / 2, x[MAX(low, 0)], x[MIN(high, n - 1)]};
}

struct verdict_measure measure_quotient(struct verdict_measure above, struct verdict_measure below)
{
	if (!(below.low > 0)) return (struct verdict_measure){NAN, NAN, NAN};
	return (struct verdict_measure){above.value / below.value, above.low / below.high, above.high / below.low};
}
