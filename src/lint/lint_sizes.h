/* lint_sizes: the numbers that a candidate compares something with, wherever that something may
 * be a size: comparisons, bounds of loops, minima and maxima, remainders and bits in
 * conditions, keys of tables, and the last number of a type that an index is narrowed to. What
 * is compared is not known from a text (a size, an index, a datum): whoever knows more leaves
 * out what does not concern him.
 *
 * Names that are bound to whole numbers anywhere in the source count as these numbers. Where the
 * size stands in sums, products, quotients or shifts with numbers, the number is the one that the
 * size itself would be compared with. */
#ifndef HONE_LINT_SIZES_H
#define HONE_LINT_SIZES_H
#include <stddef.h>
#include <stdint.h>

#define LINT_SIZES_MAX 64

/* number: the size at which something may change: an order changes next to it, an equality at it
 * alone, a whole quotient or a table's length beyond it; the remainder by `modulus`; bits that are
 * looked at; PAIR: no number, two sizes are compared with each other; HIDDEN: a number that the
 * text does not tell, in host code. */
enum lint_size_kind {
	LINT_SIZE_ORDER,
	LINT_SIZE_EQUAL,
	LINT_SIZE_BEYOND,
	LINT_SIZE_REST,
	LINT_SIZE_BITS,
	LINT_SIZE_PAIR,
	LINT_SIZE_HIDDEN
};
struct lint_size {
	enum lint_size_kind kind;
	int64_t number;
	int64_t modulus;
	int line;   /* of the comparison, from 1 */
	int column; /* from 0, in bytes */
};
struct lint_sizes {
	int count; /* of list */
	int more;  /* that found no room */
	struct lint_size list[LINT_SIZES_MAX];
};
/* ERR_OK, also where the source has errors; ERR_INFRA as lint_source. */
int lint_sizes(const char *src, size_t len, struct lint_sizes *out);
#endif
