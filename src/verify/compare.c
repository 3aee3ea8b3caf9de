/* compare: scaled errors, calibrated bounds and the sentence that says what is wrong.
 *
 * Why |r| + mean|r| as the scale: relative error alone is unbounded where r crosses zero, absolute
 * error alone accepts zeros for a softmax over many columns (values near 4e-6). The mean is what an
 * average element weighs, so zeros have a scaled error near 1/2 at any output magnitude.
 *
 * Why rows and columns: one mean for all excuses whatever is small as a whole. A cumulative product
 * over 4,000 columns is next to nothing in 94 % of them, and zeros there would pass. What is usual
 * at an element is taken from its row and its column (a product of vectors has exactly that form),
 * never above the output's mean, and never so far below it that honest rounding of larger terms
 * shows: the smallest share is taken at which the reference itself stays well inside its bound.
 *
 * Why the floors: fp32 5e-5 lies between honest fp32 arithmetic (another summation order,
 * approximate exp and division: up to about 1e-5) and the rounding of fp16 or tf32 (2^-11 = 4.9e-4
 * of an element, about half of that in scaled error). Half formats: four units of their own last
 * place.
 *
 * Why a few elements may be one step off where all values are a half format's: the reference rounds
 * to it (`x.half()...float()`), and a value within honest rounding of the middle between two steps
 * goes to either. An error of 1e-5, which fp32's floor allows, turns one element in 25 around; the
 * approximate exp of a GPU one in a thousand. */
#include "verify/compare.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include <math.h>
#include <stdlib.h>

#define REFERENCE_FACTOR 8.0
#define AVERAGED_MIN 8     /* a row or column of fewer elements has no usual size */
#define CALM 0.25          /* of the floor: the reference's error up to which a share of the mean is taken */
/* Where inputs are odd (saturated functions, equal elements) the orders of rounding of two honest
 * programs differ by more than the reference's own error shows: so many times more. Where it has no
 * error but the last rounding, nothing was left to an order. */
#define ODD_FACTOR 16.0
/* Two operands rounded to 11 bits: 2^-10 of a typical product, a few times that in the worst of
 * many elements. */
#define TF32_FLOOR 5e-3
#define FLIPS_MAX 64       /* one element of so many may be a half format's next value, where all are its values */
#define LAST_PLACE_MIN 4   /* one of so many uses that format's last place; else the values are coarser still */
#define NO_FP64_FACTOR 4.0 /* without an fp64 value the plain one stands in, and its own error is not known */

static const struct {
	enum dtype dtype;
	double floor;       /* least tolerance, as a scaled error */
	double usable;      /* largest error of the reference with which a hidden trial still tells right from wrong */
	double rounding;    /* half a unit in the last place: what is left of an exact result */
	double kernelbench; /* atol and rtol of its check */
} PRECISION[] = {
	{DTYPE_F64, 1e-10, 1e-9, 0x1p-53, 1e-4},
	{DTYPE_F32, 5e-5, 2e-4, 0x1p-24, 1e-4},
	{DTYPE_F16, 2e-3, 1e-2, 0x1p-11, 1e-2},
	{DTYPE_BF16, 1.6e-2, 5e-2, 0x1p-8, 1e-2},
	{DTYPE_F8E4M3, 0.13, 0.2, 0x1p-4, 1e-2},
	{DTYPE_F8E5M2, 0.26, 0.4, 0x1p-3, 1e-2},
};

static size_t precision_of(enum dtype t)
{
	for (size_t i = 0; i < ARRAY_LEN(PRECISION); i++)
		if (PRECISION[i].dtype == t) return i;
	return 1; /* integers never ask */
}

int64_t compare_elements(const struct compare_output *o)
{
	int64_t n = 1;
	for (int i = 0; i < o->ndim; i++) n *= o->shape[i];
	return n;
}

static inline double value_at(enum dtype t, const uint8_t *base, int64_t i)
{
	if (t == DTYPE_F32) {
		float v;
		memcpy(&v, base + 4 * i, 4);
		return v;
	}
	return dtype_load(t, base, i);
}

/* fmax and fmin of numbers, but inline: of a NaN b the answer is a. */
static inline double larger(double a, double b) { return b > a ? b : a; }
static inline double smaller(double a, double b) { return b < a ? b : a; }

static inline double scaled(double y, double r, double scale)
{
	/* Divided before it is asked: which elements are exact no processor guesses. Size 0: r and all
	 * others are 0, so any other value is infinitely wrong. */
	double distance = fabs(y - r), share = distance / (fabs(r) + scale);
	return distance == 0 ? 0 : share;
}

static const double SHARES[] = {0.002, 0.02, 0.2, 1.0};

/* The usual size at a place. */
static inline double scale_in(const struct compare_bound *b, int64_t row, int64_t column)
{
	if (b->share_min >= 1) return b->scale;
	double share = (b->rows ? b->rows[row] : 1) * (b->columns ? b->columns[column] : 1);
	return smaller(b->scale, b->scale * larger(b->share_min, share));
}

static inline double scale_at(const struct compare_bound *b, int64_t i)
{
	return b->share_min >= 1 ? b->scale : scale_in(b, i / b->ncolumns, i % b->ncolumns);
}

/* Means over rows and columns, as shares of the whole's. */
static void regions_measure(const struct compare_output *o, int64_t n, struct compare_bound *out)
{
	int64_t columns = o->ndim ? o->shape[o->ndim - 1] : 1, rows = columns ? n / columns : 0;
	out->ncolumns = MAX(columns, 1);
	if (!(out->scale > 0) || !isfinite(out->scale)) return;
	if (columns >= AVERAGED_MIN && rows > 1) out->rows = xcalloc((size_t)rows, sizeof *out->rows);
	if (rows >= AVERAGED_MIN && columns > 1) out->columns = xcalloc((size_t)columns, sizeof *out->columns);
	for (int64_t i = 0; i < n; i++) {
		double r = fabs(o->exact[i]);
		if (!isfinite(r)) continue;
		if (out->rows) out->rows[i / columns] += r / (double)columns / out->scale;
		if (out->columns) out->columns[i % columns] += r / (double)rows / out->scale;
	}
}

/* The largest scaled error of the reference itself. */
static double reference_error(const struct compare_output *o, int64_t n, const struct compare_bound *b)
{
	double worst = 0;
	for (int64_t i = 0; i < n; i++) {
		double f = value_at(o->dtype, o->plain, i), r = o->exact[i];
		if (isfinite(f) && isfinite(r)) worst = larger(worst, scaled(f, r, scale_at(b, i)));
	}
	return worst;
}

/* What a tolerance is at least. */
static double floor_of(enum dtype t, bool has_exact, bool is_coarse)
{
	double floor = PRECISION[precision_of(t)].floor * (has_exact ? 1 : NO_FP64_FACTOR);
	return is_coarse && t == DTYPE_F32 ? fmax(floor, TF32_FLOOR) : floor;
}

double compare_tolerance(enum dtype t, bool has_exact, bool is_coarse, double reference_error)
{
	/* An ill-conditioned reference may not buy an unlimited bound. */
	return fmax(
		floor_of(t, has_exact, is_coarse), REFERENCE_FACTOR * fmin(reference_error, PRECISION[precision_of(t)].usable));
}

/* What is right where inputs are odd, as a scaled error. */
static double tolerance_of_odd(enum dtype t, bool is_known, const struct compare_bound *b)
{
	if (!is_known) return ODD_FACTOR * b->tolerance;
	double more = fmax(b->reference_error - PRECISION[precision_of(t)].rounding, 0);
	return fmax(b->tolerance, ODD_FACTOR * REFERENCE_FACTOR * fmin(more, PRECISION[precision_of(t)].usable));
}

json_t *compare_rules_json(bool has_dot, bool tf32)
{
	json_t *shares = json_array(), *floors = json_object(), *usable = json_object();
	for (size_t i = 0; i < ARRAY_LEN(SHARES); i++) json_array_append_new(shares, json_real(SHARES[i]));
	for (size_t i = 0; i < ARRAY_LEN(PRECISION); i++) {
		json_object_set_new(floors, dtype_name(PRECISION[i].dtype), json_real(PRECISION[i].floor));
		json_object_set_new(usable, dtype_name(PRECISION[i].dtype), json_real(PRECISION[i].usable));
	}
	return json_pack("{s:o, s:f, s:i, s:o, s:o, s:b, s:i, s:i}", "shares", shares, "calm", CALM, "averaged_min",
		AVERAGED_MIN, "floors", floors, "usable", usable, "coarse", has_dot && tf32, "flips", FLIPS_MAX, "last_place",
		LAST_PLACE_MIN);
}

static int class_of(double v) { return isnan(v) ? 3 : isinf(v) ? (v > 0 ? 1 : 2) : 0; }

void compare_calibrate(const struct compare_output *o, bool has_dot, bool tf32, struct compare_bound *out)
{
	*out = (struct compare_bound){.is_usable = true, .share_min = 1, .ncolumns = 1};
	if (!dtype_is_float(o->dtype)) return;
	int64_t n = compare_elements(o), finite = 0;
	double sum = 0;
	/* the mean of what is finite */
	for (int64_t i = 0; i < n; i++) {
		double f = value_at(o->dtype, o->plain, i), r = o->exact ? o->exact[i] : f;
		if (!isfinite(f) || !isfinite(r)) {
			out->nonfinite++;
			out->torn += class_of(f) != class_of(r);
			continue;
		}
		sum += fabs(r);
		finite++;
	}
	out->scale = finite ? sum / (double)finite : 0;
	size_t p = precision_of(o->dtype);
	double floor = PRECISION[p].floor * (o->exact ? 1 : NO_FP64_FACTOR);
	/* tf32 rounds operands, so its error follows the largest terms and not the
	 * result's row or column */
	bool is_coarse = o->dtype == DTYPE_F32 && tf32 && has_dot;
	if (o->exact && !is_coarse) regions_measure(o, n, out);
	/* the smallest regions under which the reference itself is calm */
	for (size_t i = 0; o->exact && i < ARRAY_LEN(SHARES); i++) {
		if (SHARES[i] < 1 && !out->rows && !out->columns) continue;
		out->share_min = SHARES[i];
		out->reference_error = reference_error(o, n, out);
		if (out->reference_error <= CALM * floor) break;
	}
	out->tolerance = compare_tolerance(o->dtype, o->exact != NULL, tf32 && has_dot, out->reference_error);
	out->odd_tolerance = tolerance_of_odd(o->dtype, o->exact && !is_coarse, out);
	out->odd_on_gpu = ODD_FACTOR * out->tolerance;
	out->is_usable = out->torn == 0 && isfinite(out->scale) && out->reference_error <= PRECISION[p].usable;
}

void compare_bound_release(struct compare_bound *b)
{
	free(b->rows);
	free(b->columns);
	b->rows = b->columns = NULL;
	b->share_min = 1;
}

bool compare_sees(const struct compare_output *o, const struct compare_bound *b, int64_t i)
{
	if (!dtype_is_float(o->dtype)) return true;
	double r = o->exact ? o->exact[i] : value_at(o->dtype, o->plain, i);
	return r == 0 || !isfinite(r) || scaled(0, r, scale_at(b, i)) > b->tolerance;
}

/* Rounding that a row of an ill-conditioned result has, whoever computes it: as many times the
 * reference's own sensitivity as an honest order of sums may differ by, and never more than a small
 * part of the output's usual size. An output that is zero throughout has none (x - mean(x) where
 * all elements are one number): there the sensitivity alone counts. */
#define NOISE_FACTOR 8
#define NOISE_MAX 10 /* floors of the dtype, of the mean size */
static double noise_in(const struct compare_output *o, const struct compare_bound *b, int64_t row)
{
	if (!o->noise || !isfinite(b->scale)) return 0;
	double noise = NOISE_FACTOR * o->noise[row];
	return b->scale == 0 ? noise : fmin(noise, NOISE_MAX * PRECISION[precision_of(o->dtype)].floor * b->scale);
}

/* Of numbers that are not all finite: infinity where finiteness differs from what both references
 * allow. */
static double odd_error(double y, double r, double f, double scale)
{
	if (isfinite(r) && isfinite(f)) return INFINITY;
	if (class_of(y) == class_of(f) && !isfinite(f)) return 0;
	if (class_of(y) == class_of(r) && !isfinite(r) && isfinite(f)) return 0;
	double finite = isfinite(r) ? r : f;
	return isfinite(y) && isfinite(finite) ? scaled(y, finite, scale) : INFINITY;
}

/* The scaled error of y. */
static inline double element_error(double y, double r, double f, double scale)
{
	return isfinite(r) && isfinite(f) && isfinite(y) ? scaled(y, r, scale) : odd_error(y, r, f, scale);
}

static int64_t int_at(enum dtype t, const uint8_t *base, int64_t i)
{
	int64_t v = 0;
	size_t size = dtype_bytes(t);
	memcpy(&v, base + (size_t)i * size, size);
	/* A truth value is a byte of 0 or 1: any other is true to one operator and a number to the
	 * next. */
	if (t == DTYPE_BOOL) return v & 0xff;
	int shift = 64 - 8 * (int)size;
	bool is_signed = t == DTYPE_I8 || t == DTYPE_I16 || t == DTYPE_I32;
	return is_signed ? (int64_t)((uint64_t)v << shift) >> shift : v;
}

static void value_text(enum dtype t, const uint8_t *base, const double *exact, int64_t i, char *text, size_t len)
{
	double v = !dtype_is_float(t) ? 0 : exact ? exact[i] : value_at(t, base, i);
	if (isnan(v)) snprintf(text, len, "nan"); /* its sign means nothing */
	else if (dtype_is_float(t)) snprintf(text, len, "%.7g", v);
	else snprintf(text, len, "%lld", (long long)int_at(t, base, i));
}

/* The first wrong element between those beside it in its row, up to two on each side: a shift, a
 * lost mask and a wrong formula look different there. */
static void neighbours_text(const struct compare_output *o, const uint8_t *found, int64_t bad, char *text, size_t len)
{
	enum { BESIDE = 2 };
	int64_t columns = o->ndim > 0 ? o->shape[o->ndim - 1] : 1, column = bad % columns;
	int64_t from = bad - MIN(column, BESIDE), to = bad + MIN(columns - 1 - column, BESIDE);
	size_t used = 0;
	if (from == to) return;
	for (int side = 0; side < 2; side++)
		for (int64_t i = from; i <= to && used < len; i++) {
			char value[48];
			value_text(o->dtype, side ? found : o->plain, side ? NULL : o->exact, i, value, sizeof value);
			used += (size_t)snprintf(text + used, len - used, "%s%s",
				i > from    ? " "
					: !side ? "; around it in its row, expected "
							: ", found ",
				value);
		}
}

static void sentence(
	const struct compare_output *o, const struct compare_bound *b, const uint8_t *found, struct compare_result *out)
{
	char at[160], expected[48], got[48];
	int64_t n = compare_elements(o), bad = out->first_bad;
	tape_index_text(o->ndim, o->shape, bad, at, sizeof at);
	value_text(o->dtype, o->plain, o->exact, bad, expected, sizeof expected);
	value_text(o->dtype, found, NULL, bad, got, sizeof got);
	int used = snprintf(out->text, sizeof out->text,
		"%lld of %lld elements differ (%.3g %%); first at %s: expected %s, found %s; largest absolute error %.3g, "
		"relative %.3g, scaled %.3g (bound %.3g)",
		(long long)out->mismatches, (long long)n, 100.0 * (double)out->mismatches / (double)n, at, expected, got,
		out->abs_max, out->rel_max, out->error_max, b->tolerance);
	if (out->found_nan)
		used += snprintf(out->text + used, sizeof out->text - (size_t)used, "; %lld found values are NaN",
			(long long)out->found_nan);
	if (out->found_zero == n)
		used += snprintf(out->text + used, sizeof out->text - (size_t)used, "; every found value is 0");
	neighbours_text(o, found, bad, out->text + used, sizeof out->text - (size_t)used);
}

static void compare_floats(
	const struct compare_output *o, const struct compare_bound *b, const uint8_t *found, struct compare_result *out)
{
	int64_t n = compare_elements(o);
	double close = PRECISION[precision_of(o->dtype)].kernelbench, tolerance = b->tolerance;
	/* Sums of our own, put into `out` at the end: a loop that stores nothing keeps all it reads in
	 * registers. The place is counted along: two divisions of whole numbers took as long as all the
	 * rest of an element. */
	int64_t row = 0, column = 0, mismatches = 0, first_bad = -1, nans = 0, zeros = 0, unlike = 0;
	double error_max = 0, abs_max = 0, rel_max = 0, noise = n ? noise_in(o, b, 0) : 0;
	for (int64_t i = 0; i < n; i++) {
		double y = value_at(o->dtype, found, i), f = value_at(o->dtype, o->plain, i), r = o->exact ? o->exact[i] : f;
		double distance = fabs(y - r), error = element_error(y, r, f, scale_in(b, row, column));
		bool is_finite = isfinite(y) && isfinite(r);
		if (is_finite && isfinite(f) && distance <= noise) error = smaller(tolerance, error);
		/* what a person is told, and KernelBench's own check */
		nans += isnan(y);
		zeros += y == 0;
		unlike += y != f && !(fabs(y - f) <= close + close * fabs(f));
		if (is_finite) {
			abs_max = larger(abs_max, distance);
			/* divided only where it is the largest so far */
			if (distance > rel_max * fabs(r) && r != 0) rel_max = larger(rel_max, distance / fabs(r));
		}
		/* what decides */
		error_max = larger(error_max, error);
		if (!(error <= tolerance) && mismatches++ == 0) first_bad = i;
		if (++column == b->ncolumns) {
			column = 0;
			if (++row < n / b->ncolumns) noise = noise_in(o, b, row);
		}
	}
	*out = (struct compare_result){.kernelbench = unlike == 0,
		.error_max = error_max,
		.abs_max = abs_max,
		.rel_max = rel_max,
		.mismatches = mismatches,
		.first_bad = first_bad,
		.found_nan = nans,
		.found_zero = zeros};
}

/* A few elements are one step away in the half format whose values alone the reference has. */
static const enum dtype NARROW[] = {DTYPE_F16, DTYPE_BF16};

static float rounded(enum dtype narrow, double v)
{
	return narrow == DTYPE_F16 ? f16_to_f32(f32_to_f16((float)v)) : bf16_to_f32(f32_to_bf16((float)v));
}

/* Both are the format's, with no other of its values between them. */
static bool is_next(enum dtype narrow, double y, double r)
{
	uint16_t a = narrow == DTYPE_F16 ? f32_to_f16((float)y) : f32_to_bf16((float)y);
	uint16_t b = narrow == DTYPE_F16 ? f32_to_f16((float)r) : f32_to_bf16((float)r);
	return rounded(narrow, y) == y && rounded(narrow, r) == r && (a ^ b) < 0x8000 && abs(a - b) == 1;
}

/* The reference rounds to this format at its end. Whole numbers (places, counts) and steps of
 * somebody's own are among its values too, but they do not use its last place, or are whole. */
static bool rounds_to(const struct compare_output *o, enum dtype narrow, int64_t n)
{
	int64_t fine = 0;
	for (int64_t i = 0; i < n; i++) {
		double r = o->exact[i];
		if (rounded(narrow, r) != r) return false;
		uint16_t bits = narrow == DTYPE_F16 ? f32_to_f16((float)r) : f32_to_bf16((float)r);
		fine += (bits & 1) && r != floor(r);
	}
	return fine > 0 && fine >= n / LAST_PLACE_MIN;
}

static bool are_flips(
	const struct compare_output *o, const struct compare_bound *b, const uint8_t *found, int64_t count)
{
	int64_t n = compare_elements(o);
	if (o->dtype != DTYPE_F32 || !o->exact || count > MAX(1, n / FLIPS_MAX)) return false;
	for (size_t k = 0; k < ARRAY_LEN(NARROW); k++) {
		if (!rounds_to(o, NARROW[k], n)) continue;
		bool all = true;
		for (int64_t i = 0; i < n && all; i++) {
			double y = value_at(o->dtype, found, i), r = o->exact[i];
			double error = element_error(y, r, value_at(o->dtype, o->plain, i), scale_at(b, i));
			all = error <= b->tolerance || is_next(NARROW[k], y, r);
		}
		if (all) return true;
	}
	return false;
}

static void compare_integers(const struct compare_output *o, const uint8_t *found, struct compare_result *out)
{
	int64_t n = compare_elements(o);
	for (int64_t i = 0; i < n; i++) {
		int64_t y = int_at(o->dtype, found, i), f = int_at(o->dtype, o->plain, i);
		out->found_zero += y == 0;
		if (y == f) continue;
		double distance = fabs((double)y - (double)f);
		out->abs_max = fmax(out->abs_max, distance);
		out->rel_max = fmax(out->rel_max, f ? distance / fabs((double)f) : INFINITY);
		out->error_max = INFINITY;
		out->kernelbench = false;
		if (out->mismatches++ == 0) out->first_bad = i;
	}
}

void compare_run(
	const struct compare_output *o, const struct compare_bound *b, const uint8_t *found, struct compare_result *out)
{
	*out = (struct compare_result){.first_bad = -1, .kernelbench = true};
	if (dtype_is_float(o->dtype)) compare_floats(o, b, found, out);
	else compare_integers(o, found, out);
	if (out->mismatches && are_flips(o, b, found, out->mismatches)) {
		out->mismatches = 0;
		out->first_bad = -1;
		out->error_max = smaller(out->error_max, b->tolerance);
	}
	out->is_equal = out->mismatches == 0;
	if (!out->is_equal) sentence(o, b, found, out);
}
