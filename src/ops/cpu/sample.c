/* sample: tokens from one row of logits; a pure function of the arguments. What all draws of one
 * kind from a row share, its weights and those that survive, is computed once (sampled_row).
 *
 * Weights are e[i] = exp((x[i] - max) / T). Without truncation the draw is inverse transform
 * sampling over token ids in order. With top_k or top_p the survivors are taken in falling order of
 * weight (ties: lower id first), by popping a heap, which costs as much as there are survivors, and
 * allocates nothing as qsort might. top_p keeps the smallest set whose share of what top_k left
 * reaches p; min_p then drops what weighs less than min_p of the heaviest, whose weight is 1. NaN
 * logits weigh nothing; without any finite logit the token is 0 and its log-probability NaN. */
#include <math.h>
#include "ops_cpu.h"

#define SPAN 1024   /* weights added in fp32 lanes before the partial sum goes to fp64 */
#define LANES 16

struct weighted {
	const float *e;
	int32_t *ids;
	int count;
};

/* exp for x <= 0, relative error below 3e-7; 0 below -87. Branch-free, so that the compiler
 * vectorises the loop over it. */
static inline float exp_negative(float x)
{
	float clamped = x > -87.0f ? x : -87.0f;
	float t = clamped * 1.44269504088896341f + 12582912.0f,
		  n = t - 12582912.0f; /* adding 1.5 * 2^23 rounds to a whole number, which sits in t's low bits */
	float r = (clamped - n * 0.693145751953125f) - n * 1.42860682030941723212e-6f;
	float p = 1.9875691500e-4f;
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1.0f;
	uint32_t bits, scale;
	memcpy(&bits, &p, 4);
	memcpy(&scale, &t, 4);
	bits += scale << 23;
	memcpy(&p, &bits, 4);
	return x > -87.0f ? p : 0.0f;
}

static int32_t arg_max(const float *x, int V, float *top)
{
	int32_t best = 0;
	*top = -INFINITY;
	for (int i = 0; i < V; i++)
		if (x[i] > *top) {
			*top = x[i];
			best = i;
		}
	return best;
}

static double span_weights(float *e, const float *x, float top, float inv_temperature, int n)
{
	float lanes[LANES] = {0};
	int i = 0;
	for (int j = 0; j < n; j++) e[j] = exp_negative((x[j] - top) * inv_temperature);
	for (; i + LANES <= n; i += LANES)
		for (int k = 0; k < LANES; k++) lanes[k] += e[i + k];
	for (int k = 0; i < n; i++, k++) lanes[k] += e[i];
	double sum = 0;
	for (int k = 0; k < LANES; k++) sum += lanes[k];
	return sum;
}

/* The first id at which the running sum exceeds u * total; rounding may carry the target past the
 * end, then the last id that weighs anything. */
static int32_t draw_in_order(const float *e, const double *spans, int V, double target)
{
	int base = 0;
	for (; base + SPAN < V && target >= spans[base / SPAN]; base += SPAN) target -= spans[base / SPAN];
	int32_t last = 0;
	for (int i = base; i < V; i++) {
		if (e[i] <= 0) continue;
		last = i;
		if (target < e[i]) return i;
		target -= e[i];
	}
	if (e[last] > 0) return last;
	for (last = base; last > 0 && e[last] <= 0; last--) {}
	return last;
}

/* ---- heap of ids, heaviest first ---- */

static inline bool is_heavier(const float *e, int32_t a, int32_t b) { return e[a] > e[b] || (e[a] == e[b] && a < b); }

static void sift_down(struct weighted *h, int at)
{
	for (;;) {
		int child = 2 * at + 1;
		if (child >= h->count) return;
		if (child + 1 < h->count && is_heavier(h->e, h->ids[child + 1], h->ids[child])) child++;
		if (!is_heavier(h->e, h->ids[child], h->ids[at])) return;
		int32_t t = h->ids[at];
		h->ids[at] = h->ids[child];
		h->ids[child] = t;
		at = child;
	}
}

static int32_t heap_pop(struct weighted *h)
{
	int32_t top = h->ids[0];
	h->ids[0] = h->ids[--h->count];
	sift_down(h, 0);
	return top;
}

/* Fills ids with what top_k and top_p leave, heaviest first; returns how many and their weight. */
static int nucleus(
	const float *e, int V, double sum, const struct ops_draw *s, int32_t *ids, int32_t *heap, double *kept_weight)
{
	int k = s->top_k > 0 ? MIN(s->top_k, V) : V;
	/* Lighter tokens than this cannot belong to the nucleus: all of them together weigh less than 1
	 * - top_p. Only valid while top_k cuts nothing. */
	double floor_weight = k == V && s->top_p < 1 ? (1 - (double)s->top_p) * sum / V : 0;
	if (k == V) floor_weight = fmax(floor_weight, s->min_p); /* what min_p drops lies behind all that it keeps */
	/* A heap gives the heaviest first, so that a small nucleus costs no sort of the vocabulary. */
	struct weighted h = {e, heap, 0};
	for (int32_t i = 0; i < V; i++)
		if (e[i] > 0 && e[i] >= floor_weight) heap[h.count++] = i;
	for (int at = h.count / 2; at-- > 0;) sift_down(&h, at);
	int kept = 0;
	/* Both: the k heaviest, and of them as many as reach the share. */
	if (k < V && s->top_p < 1) { /* the share is of what top_k leaves */
		double weight = 0;
		k = MIN(k, h.count);
		while (kept < k) weight += e[ids[kept++] = heap_pop(&h)];
		*kept_weight = 0;
		int count = 0;
		while (count < kept && *kept_weight < s->top_p * weight) *kept_weight += e[ids[count++]];
		return count;
	}
	*kept_weight = 0;
	while (h.count && kept < k && (s->top_p >= 1 || *kept_weight < s->top_p * sum))
		*kept_weight += e[ids[kept++] = heap_pop(&h)];
	return kept;
}

/* What all three leave. */
static int survivors(
	const float *e, int V, double sum, const struct ops_draw *s, int32_t *ids, int32_t *heap, double *kept_weight)
{
	int count = nucleus(e, V, sum, s, ids, heap, kept_weight), kept = count;
	while (kept > 1 && e[ids[kept - 1]] < s->min_p) kept--;
	if (kept == count) return count;
	*kept_weight = 0;
	for (int i = 0; i < kept; i++) *kept_weight += e[ids[i]];
	return kept;
}

struct sampled_row sampled_row(const float *logits, int V, const struct ops_draw *s, struct arena *scratch)
{
	CHECK(V > 0 && s->temperature >= 0);
	struct sampled_row r = {.logits = logits, .V = V, .inverse = s->temperature > 0 ? 1.0f / s->temperature : 1.0f};
	/* The most likely token is what a greedy request gets, and the answer where no token has a
	 * weight. */
	r.likeliest = arg_max(logits, V, &r.top);
	int nspans = (V + SPAN - 1) / SPAN;
	/* Weights of all tokens relative to the largest, with their sums by spans: drawing then skips
	 * whole spans. */
	arena_reset(scratch);
	float *e = arena_alloc(scratch, size_mul((size_t)V, sizeof *e));
	double *spans = arena_alloc(scratch, size_mul((size_t)nspans, sizeof *spans));
	for (int b = 0; b < nspans; b++)
		r.sum += spans[b] = span_weights(e + b * SPAN, logits + b * SPAN, r.top, r.inverse, MIN(SPAN, V - b * SPAN));
	r.e = e;
	r.spans = spans;
	r.left = r.sum;
	r.is_greedy = !(s->temperature > 0 && r.sum > 0);
	if (r.is_greedy || ((s->top_k <= 0 || s->top_k >= V) && s->top_p >= 1 && s->min_p <= 0)) return r;
	/* Only the survivors are drawn from, heaviest first. Only min_p changes what the
	 * log-probability is relative to; top_k and top_p leave it that of the full vocabulary. */
	int32_t *ids = arena_alloc(scratch, size_mul((size_t)V, sizeof *ids)),
			*heap = arena_alloc(scratch, size_mul((size_t)V, sizeof *heap));
	r.count = survivors(e, V, r.sum, s, ids, heap, &r.weight);
	r.ids = ids;
	if (s->min_p > 0) r.left = r.weight;
	return r;
}

int32_t sampled_draw(const struct sampled_row *r, float u, float *logprob)
{
	int32_t token = r->likeliest;
	if (!r->is_greedy && !r->ids) {
		/* Nothing is cut off, so the ids are walked in their order and nothing has to be sorted. */
		token = draw_in_order(r->e, r->spans, r->V, u * r->sum);
	} else if (!r->is_greedy) {
		/* The last survivor takes what rounding leaves of the target. */
		double target = u * r->weight;
		int i = 0;
		for (; i + 1 < r->count && target >= r->e[r->ids[i]]; i++) target -= r->e[r->ids[i]];
		token = r->ids[i];
	}
	*logprob = r->sum > 0 ? (float)(((double)r->logits[token] - r->top) * r->inverse - log(r->left)) : NAN;
	return token;
}
