/* measure: what a series of measured times says. */
#ifndef HONE_MEASURE_H
#define HONE_MEASURE_H
#include "verify/verdict.h"

/* The median of n values, and the order statistics between which the true median lies in 95 of 100
 * cases: ranks n / 2 -+ 0.98 sqrt(n), from the binomial of 1 / 2. Sorts x. NaN without values. */
struct verdict_measure measure_median(double *x, int n);
/* The mean of what is left when a tenth of the values is dropped at each end: a machine's delays
 * are all on one side and rare, so they go; short kernels have two or three usual times a clock's
 * tick or a cache's state apart, between which a median jumps from series to series. The interval
 * is Tukey and McLaughlin's, from the spread of the values with the dropped ones drawn in to the
 * nearest that stayed: it holds the true middle in about 95 of 100 cases. Sorts x. */
struct verdict_measure measure_middle(double *x, int n);
/* Of two independent measures: their quotient, and the widest that the intervals allow. */
struct verdict_measure measure_quotient(struct verdict_measure above, struct verdict_measure below);
#endif
