/* Real intervals with outward rounding: ends that a double cannot hold move one step out. */
#ifndef HONE_FIELD_INTERVAL_H
#define HONE_FIELD_INTERVAL_H
#include <float.h>
#include <math.h>

struct interval {
	double lo;
	double hi;
};
/* At least one unit in the last place, and at most two: cheaper than nextafter. */
static inline double step_down(double x) { return isfinite(x) ? x - (fabs(x) * 0x1p-52 + 0x1p-1074) : x; }
static inline double step_up(double x) { return isfinite(x) ? x + (fabs(x) * 0x1p-52 + 0x1p-1074) : x; }

/* What a sum of two doubles lost (Knuth's two-sum); 0: nothing, so that
 * whole numbers stay exact. */
static inline double sum_error(double a, double b, double s)
{
	double part = s - a;
	return (a - (s - part)) + (b - part);
}

/* Of a number that is finite: beyond what doubles hold, it lies between the largest of them and
 * infinity. */
static inline struct interval interval_finite(struct interval i)
{
	return (struct interval){i.lo == INFINITY ? DBL_MAX : i.lo, i.hi == -INFINITY ? -DBL_MAX : i.hi};
}

static inline struct interval interval_add(struct interval a, struct interval b)
{
	struct interval r = {a.lo + b.lo, a.hi + b.hi};
	if (sum_error(a.lo, b.lo, r.lo) != 0) r.lo = step_down(r.lo);
	if (sum_error(a.hi, b.hi, r.hi) != 0) r.hi = step_up(r.hi);
	return r;
}

static inline struct interval interval_mul(struct interval a, struct interval b)
{
	double w = a.lo * b.lo;
	if (a.lo == a.hi && b.lo == b.hi) {
		bool is_exact = isfinite(w) && fma(a.lo, b.lo, -w) == 0 && (w != 0 || a.lo == 0 || b.lo == 0);
		return is_exact ? (struct interval){w, w} : (struct interval){step_down(w), step_up(w)};
	}
	double x = a.lo * b.hi, y = a.hi * b.lo, z = a.hi * b.hi;
	struct interval r = {fmin(fmin(w, x), fmin(y, z)), fmax(fmax(w, x), fmax(y, z))};
	if (isnan(w) || isnan(x) || isnan(y) || isnan(z)) return (struct interval){-INFINITY, INFINITY};
	return (struct interval){step_down(r.lo), step_up(r.hi)};
}

static inline struct interval interval_div(struct interval a, struct interval b)
{
	if (b.lo <= 0 && b.hi >= 0) return (struct interval){-INFINITY, INFINITY};
	double w = a.lo / b.lo, x = a.lo / b.hi, y = a.hi / b.lo, z = a.hi / b.hi;
	if (isnan(w) || isnan(x) || isnan(y) || isnan(z)) return (struct interval){-INFINITY, INFINITY};
	if (a.lo == a.hi && b.lo == b.hi && isfinite(w) && fma(w, b.lo, -a.lo) == 0) return (struct interval){w, w};
	return (struct interval){step_down(fmin(fmin(w, x), fmin(y, z))), step_up(fmax(fmax(w, x), fmax(y, z)))};
}

/* Around a result of the C library, which is wrong by a few units in the last place. */
static inline struct interval interval_about(double lo, double hi)
{
	if (isnan(lo) || isnan(hi)) return (struct interval){-INFINITY, INFINITY};
	for (int i = 0; i < 4; i++) {
		lo = step_down(lo);
		hi = step_up(hi);
	}
	return (struct interval){lo, hi};
}
#endif
