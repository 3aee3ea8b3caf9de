/* The estimator of pass@k against its definition. */
#include "eval/eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double choose(int n, int k)
{
	double c = 1;
	for (int i = 0; i < k; i++) c = c * (n - i) / (i + 1);
	return k > n ? 0 : c;
}

/* Chen et al. 2021: 1 - C(n - c, k) / C(n, k). Both sides are sums of a few products of doubles:
 * 1e-12 is thousands of ulps. */
static void test_pass_at_k(void **state)
{
	for (int n = 1; n <= 16; n++)
		for (int c = 0; c <= n; c++)
			for (int k = 1; k <= n; k++) {
				double want = 1 - choose(n - c, k) / choose(n, k);
				if (fabs(pass_at_k(n, c, k) - want) > 1e-12)
					fail_msg("n %d c %d k %d: %g, expected %g", n, c, k, pass_at_k(n, c, k), want);
			}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_pass_at_k)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
