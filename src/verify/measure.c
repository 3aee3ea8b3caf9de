/* measure: medians, middles and their intervals (measure.h). */
#include "verify/measure.h"
#include "base/base.h"
#include <math.h>

struct verdict_measure measure_median(double *x, int n)
{
	if (n <= 0) return (struct verdict_measure){NAN, NAN, NAN};
	doubles_sort(x, (size_t)n);
	double half = 0.98 * sqrt((double)n);
	int low = (int)floor(n / 2.0 - half), high = (int)ceil(n / 2.0 + half);
	return (struct verdict_measure){(x[(n - 1) / 2] + x[n / 2]) / 2, x[MAX(low, 0)], x[MIN(high, n - 1)]};
}

/* Student's t at 97.5 %, by its expansion around the normal's quantile. */
static double student(int df)
{
	double z = 1.959964, z3 = z * z * z, n = df;
	return z + (z3 + z) / (4 * n) + (5 * z3 * z * z + 16 * z3 + 3 * z) / (96 * n * n);
}

struct verdict_measure measure_middle(double *x, int n)
{
	int cut = n / 10, left = n - 2 * cut;
	double sum = 0, all = 0, spread = 0;
	if (n <= 0) return (struct verdict_measure){NAN, NAN, NAN};
	doubles_sort(x, (size_t)n);
	for (int i = cut; i < n - cut; i++) sum += x[i];
	double middle = sum / left;
	if (left < 3) return (struct verdict_measure){middle, x[0], x[n - 1]};
	/* The dropped ones count as the nearest that stayed. */
	for (int i = 0; i < n; i++) all += x[MIN(MAX(i, cut), n - cut - 1)];
	for (int i = 0; i < n; i++) {
		double d = x[MIN(MAX(i, cut), n - cut - 1)] - all / n;
		spread += d * d;
	}
	double half = student(left - 1) * sqrt(spread / (n - 1)) / ((double)left / n * sqrt((double)n));
	return (struct verdict_measure){middle, middle - half, middle + half};
}

struct verdict_measure measure_quotient(struct verdict_measure above, struct verdict_measure below)
{
	if (!(below.low > 0)) return (struct verdict_measure){NAN, NAN, NAN};
	return (struct verdict_measure){above.value / below.value, above.low / below.high, above.high / below.low};
}
