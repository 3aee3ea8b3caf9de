/* measure: what a series of measured times says. Medians, because a machine's delays are all on one side;
 * intervals from order statistics, which hold whatever the times' distribution. */
#ifndef HONE_MEASURE_H
#define HONE_MEASURE_H
#include "verify/verdict.h"

/* The median of n values, and the order statistics between which the true median lies in 95 of 100 cases: ranks
 * n / 2 -+ 0.98 sqrt(n), from the binomial of 1 / 2. Sorts x. NaN without values. */
struct verdict_measure measure_median(double *x, int n);
/* Of two independent measures: their quotient, and the widest that the intervals allow. */
struct verdict_measure measure_quotient(struct verdict_measure above, struct verdict_measure below);
#endif
