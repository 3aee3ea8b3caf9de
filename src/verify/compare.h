/* compare: whether found outputs agree with what the oracle computed. docs/verifier.md gives the
 * reasons behind the numbers.
 *
 * Per element with exact value r (fp64 reference), plain value f (the reference in its own
 * precision) and found value y, the scaled error is
 * |y - r| / (|r| + m) where m is the size that is usual where the element lies: the mean of |r|
 * over the output, made smaller for rows and columns that are small as a whole. The bound is
 * max(floor of the dtype, 8 x the largest scaled error of f). Integers and bools must be equal. NaN
 * never passes as a wildcard: where the reference is finite the found value must be. */
#ifndef HONE_COMPARE_H
#define HONE_COMPARE_H
#include "base/dtype.h"
#include "tape/tape.h"
#include <jansson.h>

struct compare_output {
	enum dtype dtype;
	int ndim;
	int64_t shape[TAPE_DIMS_MAX];
	const double *exact;  /* (elements) fp64 reference; NULL for integers and where fp64 was impossible */
	const uint8_t *plain; /* (elements) of dtype: the reference's own output */
	const double *noise;  /* (rows of the last dimension): how far half a unit in the last place of the inputs moves an
							 element of the row; NULL: not asked for */
	bool is_passed;       /* a view of an input or parameter that the reference leaves alone */
};
int64_t compare_elements(const struct compare_output *o);

struct compare_bound {
	double scale;     /* mean of |r| over the output */
	int64_t ncolumns; /* of the last dimension; element i lies in row i / ncolumns, column i % ncolumns */
	double *rows;     /* mean of |r| over each row, as a share of scale; NULL where there are too few to average over */
	double *columns;  /* the same over each column */
	double share_min; /* no element's m is a smaller share of scale than this; 1: scale alone counts */
	double reference_error; /* largest scaled error of f */
	double tolerance;
	double odd_tolerance; /* where inputs are odd, as a guided trial's are, on the vm */
	double odd_on_gpu;    /* the same on a GPU, whose functions are approximate and whose products are contracted */
	int64_t nonfinite;    /* elements where r or f is not finite */
	int64_t torn;         /* of them: those where r and f are not of one kind */
	bool is_usable;       /* none is torn and f agrees with r well enough: a hidden trial counts only then */
};
/* has_dot and tf32: in tf32 mode an fp32 task with matrix products is allowed tf32's rounding. */
void compare_calibrate(const struct compare_output *o, bool has_dot, bool tf32, struct compare_bound *out);

/* The same rule where somebody else computes it (worker/stock.py): the scaled error that
 * is right, given the reference's own largest, and what else it has to know. is_coarse:
 * tf32's rounding is allowed. */
double compare_tolerance(enum dtype t, bool has_exact, bool is_coarse, double reference_error);
json_t *compare_rules_json(bool has_dot, bool tf32);

void compare_bound_release(struct compare_bound *b);
/* Whether a zero in place of element i would be wrong. An element that is zero counts as seen:
 * anything else there is wrong. */
bool compare_sees(const struct compare_output *o, const struct compare_bound *b, int64_t i);

struct compare_result {
	bool is_equal;
	bool kernelbench; /* torch.allclose(plain, found) with KernelBench's 1e-4 (fp32) or 1e-2 (half) */
	double error_max;
	double abs_max;
	double rel_max;
	int64_t mismatches;
	int64_t first_bad;
	int64_t found_nan;
	int64_t found_zero;
	char text[512]; /* one sentence for people; "" when equal */
};
void compare_run(
	const struct compare_output *o, const struct compare_bound *b, const uint8_t *found, struct compare_result *out);
#endif
