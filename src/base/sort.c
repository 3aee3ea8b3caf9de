/* Sorting numbers. */
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

static int rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	/* Every comparison with NaN is false, which would leave qsort without an order. */
	if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
	return (x > y) - (x < y);
}

void doubles_sort(double *x, size_t n) { qsort(x, n, sizeof *x, rising); }
