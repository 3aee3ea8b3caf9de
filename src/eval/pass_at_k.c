/* The unbiased estimator of pass@k. */
#include "eval/eval.h"

double pass_at_k(int n, int c, int k)
{
	/* C(n - c, k) / C(n, k) as a product that cannot overflow; where fewer than k are wrong, one
	 * factor is 0. */
	double miss = 1.0;
	for (int i = n - c + 1; i <= n; i++) miss *= 1.0 - (double)k / i;
	return 1.0 - miss;
}
