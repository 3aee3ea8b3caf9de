/* What data is compared with, where the program text does not say it: an argument of the launch,
 * what is computed of one, an entry of a table. It is the operand whose first lanes, in some of
 * each launch's programs, are the same numbers in all trials while the other operand's are not. */
#include "vm/check/check.h"
#include "base/base.h"
#include <math.h>

#define LANES 8      /* of the first look */
#define STRIDE 31    /* from look to look, so that programs that differ in one lane are told apart */

void vm_fixed_look(struct vm_site *s, const double *a, const double *b, int64_t n)
{
	struct vm_fixed *f = &s->fixed;
	int64_t look = f->looks++;
	/* Few of many: the first two, then each that is a power of two. */
	if (look & (look - 1)) return;
	int64_t lanes = look ? 1 : MIN(n, LANES);
	for (int64_t i = 0; i < lanes && f->nnow < VM_FIXED_LOOKS; i++, f->nnow++) {
		int64_t lane = look ? look * STRIDE % n : i;
		const double now[2] = {a[lane], b[lane]};
		bool is_first = f->nnow == f->n;
		f->n += is_first;
		for (int k = 0; k < 2; k++) {
			if (is_first) f->numbers[k][f->nnow] = now[k];
			else f->varies[k] |= now[k] != f->numbers[k][f->nnow];
		}
	}
}

void vm_coverage_row(struct vm_coverage *c, bool is_search)
{
	c->is_search = is_search;
	for (int i = 0; i < c->nsites; i++) c->sites[i].fixed.looks = 0;
}

int vm_site_fixed(const struct vm_site *s, double out[VM_FIXED_MAX])
{
	const struct vm_fixed *f = &s->fixed;
	int n = 0, k = f->varies[0];
	if (f->varies[0] == f->varies[1]) return 0;
	for (int i = 0; i < f->n && n < VM_FIXED_MAX; i++) {
		bool is_new = isfinite(f->numbers[k][i]);
		for (int j = 0; j < n; j++) is_new &= out[j] != f->numbers[k][i];
		if (is_new) out[n++] = f->numbers[k][i];
	}
	return n;
}
