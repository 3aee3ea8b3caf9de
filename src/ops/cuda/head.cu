/* head: what is made of logits: log-probabilities and the drawn token. A cluster of blocks works on
 * a row, which it holds in shared memory: each block a segment, each warp of it a span, in the
 * order of token ids. The number of blocks follows from V alone, and sums are taken in one order,
 * so a row's figures have the same bits in every batch, and the sampler's log-probabilities those
 * of the trainer. Cards without clusters give a row to one block, which reads a larger vocabulary
 * where it lies: its passes find it in L2.
 *
 * Drawing is done in whole numbers: a token weighs exp((x - max) / T) in units of 2^-40. Whole sums
 * do not depend on their order, so spans can be added up by anybody. Truncation (top_k, top_p)
 * finds the last token that stays by four rounds over the bytes of a key that rises as weights
 * fall; of tokens with equal keys the lower ids stay. */
#include "cuda_device.cuh"
#include "team.cuh"

#define THREADS 512
#define WARPS (THREADS / WARP)
#define CLUSTER_MAX 8
#define ONE_BLOCK_MAX 8192   /* vocabularies that one block takes */
#define UNIT 0x1p40f         /* a weight of 1 */
#define KEY_SCALE 0x1p27f    /* of (max - x) / T: weights of 2^-41 and less are 0, so 28.5 at most */
#define BINS 256

struct row {        /* of logits, as one thread sees it */
	const float *x; /* the block's segment, in shared memory where it is held */
	int base;       /* token id of x[0] */
	int begin;      /* the first of x that this warp looks at */
	int end;        /* the first behind them */
	int lane;       /* this thread's number in its warp */
	int warp;       /* the warp's number in the block */
};

struct shared_row {                    /* one a block; others of the cluster read it */
	float top[WARPS];                  /* each warp's largest logit */
	int top_id[WARPS];                 /* the lowest token that has it */
	float block_top;                   /* the block's */
	int block_top_id;                  /* the block's */
	double sum[WARPS];                 /* of each warp's weights */
	double weighted[WARPS];            /* of each warp's weights times their exponents */
	double block_sum;                  /* the block's */
	double block_weighted;             /* the block's */
	int larger[WARPS];                 /* logits above the target's, in each warp's span */
	int block_larger;                  /* the block's */
	int ties[WARPS];                   /* tokens with the cut's key, in each warp's span */
	unsigned long long mass[WARPS];    /* what each warp's span weighs after truncation */
	unsigned long long block_mass;     /* the block's */
	unsigned count_bin[BINS];          /* the block's tokens by one byte of their keys */
	unsigned long long mass_bin[BINS]; /* what they weigh together */
	unsigned all_count[BINS];          /* the same over the whole cluster */
	unsigned long long all_mass[BINS]; /* what those weigh together */
};

/* HELD: the segment comes into shared memory. What lies behind the vocabulary is no token. */
template <bool HELD>
static __device__ __forceinline__ struct row row_load(team &cluster, float *segment, const float *logits, int V)
{
	/* The blocks share the row, and a block's warps its segment, in equal runs of whole warps. */
	int blocks = (int)cluster.num_blocks(), size = (V + blocks - 1) / blocks, base = (int)cluster.block_rank() * size;
	int count = max(0, min(size, V - base)), span = (size + WARPS * WARP - 1) / (WARPS * WARP) * WARP;
	int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
	if (!HELD) return {logits + base, base, min(warp * span, count), min((warp + 1) * span, count), lane, warp};

	/* Copies of 16 bytes go past the registers. An odd vocabulary's rows do not begin at such a
	 * step, and what is left at a segment's end goes one by one. */
	bool is_aligned = (uintptr_t)(logits + base) % 16 == 0;
	int wide = is_aligned ? count / 4 * 4 : 0;
	for (int i = (int)threadIdx.x * 4; i < wide; i += THREADS * 4)
		copy_16(shared_address(segment + i), logits + base + i, true);
	copies_commit();
	for (int i = wide + (int)threadIdx.x; i < count; i += THREADS) segment[i] = logits[base + i];
	copies_wait();
	__syncthreads();
	return {segment, base, min(warp * span, count), min((warp + 1) * span, count), lane, warp};
}

/* The largest of N lanes' logits, and the lowest id that has it. */
template <int N> static __device__ __forceinline__ void top_of_lanes(float *best, int *at)
{
#pragma unroll
	for (int d = N / 2; d; d /= 2) {
		float other = __shfl_xor_sync(ALL_LANES, *best, d);
		int other_at = __shfl_xor_sync(ALL_LANES, *at, d);
		if (other > *best || (other == *best && other_at < *at)) *best = other, *at = other_at;
	}
}

/* The largest logit and the lowest id that has it; NaN is no logit. */
static __device__ __forceinline__ void row_top(
	team &cluster, struct shared_row *s, const struct row &r, float *top, int *id)
{
	/* Each lane looks at every 32nd logit of its warp's span. Its ids rise, so among equals the
	 * first one stays. */
	float best = -INFINITY;
	int at = INT32_MAX;
#pragma unroll 8
	for (int i = r.begin + r.lane; i < r.end; i += WARP)
		if (r.x[i] > best) best = r.x[i], at = r.base + i;
	top_of_lanes<WARP>(&best, &at);
	if (r.lane == 0) s->top[r.warp] = best, s->top_id[r.warp] = at;
	__syncthreads();
	if (r.warp == 0) {
		best = r.lane < WARPS ? s->top[r.lane] : -INFINITY, at = r.lane < WARPS ? s->top_id[r.lane] : INT32_MAX;
		top_of_lanes<WARPS>(&best, &at);
		if (r.lane == 0) s->block_top = best, s->block_top_id = at;
	}
	cluster.sync();
	/* Every warp reads the results of all blocks, a lane a block: one after the other each would
	 * cost the way there and back. So all threads end with the same answer. */
	best = -INFINITY, at = INT32_MAX;
	if (r.lane < (int)cluster.num_blocks()) {
		const struct shared_row *o = cluster.map_shared_rank(s, r.lane);
		best = o->block_top, at = o->block_top_id;
	}
	top_of_lanes<WARP>(&best, &at);
	*top = best, *id = best > -INFINITY ? at : 0;
}

/* exp((x - top) / T); NaN and infinities weigh nothing. */
static __device__ __forceinline__ float weight_of(float x, float top, float inverse)
{
	float e = expf((x - top) * inverse);
	return e <= 1.0f ? e : 0.0f;
}

static __device__ __forceinline__ double nan_of(void) { return __longlong_as_double(0x7ff8000000000000ll); }

static __device__ __forceinline__ double lanes_sum_double(double x)
{
	for (int d = WARP / 2; d; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
	return x;
}

static __device__ __forceinline__ unsigned long long mass_of(float e) { return (unsigned long long)(e * UNIT); }

/* Sum of weights, and of weights times their exponents: every block gets the same bits. mass (NULL:
 * not wanted): of the lane's tokens that weigh min_p and more. */
static __device__ __forceinline__ void row_sums(team &cluster, struct shared_row *s, const struct row &r, float top,
	float inverse, double *sum, double *weighted, float min_p, unsigned long long *mass)
{
	float e_sum = 0, w_sum = 0;
#pragma unroll 8
	for (int i = r.begin + r.lane; i < r.end; i += WARP) {
		float e = weight_of(r.x[i], top, inverse);
		e_sum = __fadd_rn(e_sum, e);
		if (e > 0) w_sum = __fmaf_rn(e, (r.x[i] - top) * inverse, w_sum);
		if (mass && e >= min_p) *mass += mass_of(e);
	}
	double a = lanes_sum_double(e_sum), b = lanes_sum_double(w_sum);
	if (r.lane == 0) s->sum[r.warp] = a, s->weighted[r.warp] = b;
	__syncthreads();
	if (threadIdx.x == 0) {
		a = b = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++) a += s->sum[w], b += s->weighted[w];
		s->block_sum = a, s->block_weighted = b;
	}
	cluster.sync();
	/* A lane a block, added in the order of blocks. */
	a = b = 0;
	if (r.lane < (int)cluster.num_blocks()) {
		const struct shared_row *o = cluster.map_shared_rank(s, r.lane);
		a = o->block_sum, b = o->block_weighted;
	}
	*sum = *weighted = 0;
#pragma unroll
	for (int i = 0; i < CLUSTER_MAX; i++)
		*sum += __shfl_sync(ALL_LANES, a, i), *weighted += __shfl_sync(ALL_LANES, b, i);
}

/* ---- log-probabilities ---- */

template <bool HELD>
static __global__ void __launch_bounds__(THREADS, 2)
	logprob_kernel(float *out, const float *logits, struct batch_view b, int first, int V)
{
	extern __shared__ __align__(16) float segment[];
	__shared__ struct shared_row shared;
	team cluster = team_own();
	int n = (int)blockIdx.x / (int)cluster.num_blocks();
	grid_begin();
	logits += (int64_t)n * V;
	struct row r = row_load<HELD>(cluster, segment, logits, V);
	float top, inverse = 1.0f / b.temperature[first + n];
	int id;
	double sum, weighted;
	row_top(cluster, &shared, r, &top, &id);
	row_sums(cluster, &shared, r, top, inverse, &sum, &weighted, 0, NULL);

	/* how many logits are larger than the target's */
	float x = logits[b.target[first + n]];
	int larger = 0;
#pragma unroll 8
	for (int i = r.begin + r.lane; i < r.end; i += WARP) larger += r.x[i] > x;
	larger = __reduce_add_sync(ALL_LANES, larger);
	if (r.lane == 0) shared.larger[r.warp] = larger;
	__syncthreads();
	if (threadIdx.x == 0) {
		shared.block_larger = 0;
		for (int w = 0; w < WARPS; w++) shared.block_larger += shared.larger[w];
	}
	cluster.sync();
	if (cluster.block_rank() == 0 && threadIdx.x == 0) {
		for (int i = 1; i < (int)cluster.num_blocks(); i++)
			shared.block_larger += cluster.map_shared_rank(&shared, i)->block_larger;
		double log_sum = log(sum), nan = nan_of();
		float *to = out + (int64_t)n * OPS_FIGURES;
		to[FIGURE_LOGPROB] = (float)(sum > 0 ? ((double)x - top) * inverse - log_sum : nan);
		to[FIGURE_ENTROPY] = (float)(sum > 0 ? log_sum - weighted / sum : nan);
		to[FIGURE_LOG_SUM] = (float)(sum > 0 ? (double)top * inverse + log_sum : nan);
		to[FIGURE_IS_HIT] = shared.block_larger == 0 ? 1.0f : 0.0f;
	}
	cluster.sync();
}

/* ---- drawing ---- */

struct cut { /* what truncation leaves: keys below `key`, and `ties` of those equal to it, lower ids first */
	unsigned key;
	unsigned long long ties;
};

static __device__ __forceinline__ unsigned key_of(float x, float top, float inverse)
{
	return (unsigned)((top - x) * inverse * KEY_SCALE);
}

/* Counts and masses of the tokens whose key begins with prefix, by the next byte; of the
 * whole row, in every block. */
static __device__ __forceinline__ void bins_fill(
	team &cluster, struct shared_row *s, const struct row &r, float top, float inverse, unsigned prefix, int shift)
{
	for (int i = (int)threadIdx.x; i < BINS; i += THREADS) s->count_bin[i] = 0, s->mass_bin[i] = 0;
	__syncthreads();
	for (int i = r.begin + r.lane; i < r.end; i += WARP) {
		unsigned long long mass = mass_of(weight_of(r.x[i], top, inverse));
		if (!mass) continue;
		unsigned key = key_of(r.x[i], top, inverse);
		if (shift < 24 && key >> (shift + 8) != prefix >> (shift + 8)) continue;
		atomicAdd(&s->count_bin[key >> shift & (BINS - 1)], 1u);
		atomicAdd(&s->mass_bin[key >> shift & (BINS - 1)], mass);
	}
	cluster.sync();
	for (int i = (int)threadIdx.x; i < BINS; i += THREADS) {
		unsigned count = 0;
		unsigned long long mass = 0;
		for (int b = 0; b < (int)cluster.num_blocks(); b++) {
			const struct shared_row *o = cluster.map_shared_rank(s, b);
			count += o->count_bin[i], mass += o->mass_bin[i];
		}
		s->all_count[i] = count, s->all_mass[i] = mass;
	}
	cluster.sync();
}

/* The cut behind `wanted` tokens, or behind as many as weigh `wanted`; *left is what stays weighs.
 * Every thread finds the same. */
static __device__ __forceinline__ struct cut cut_find(team &cluster, struct shared_row *s, const struct row &r,
	float top, float inverse, bool by_mass, unsigned long long wanted, unsigned long long *left)
{
	unsigned prefix = 0;
	unsigned long long before = 0, tie_mass = 0, tie_count = 0;
	/* One byte of the key a round, the highest first: a bin holds the tokens whose keys agree so
	 * far. */
	for (int shift = 24; shift >= 0; shift -= 8) {
		bins_fill(cluster, s, r, top, inverse, prefix, shift);
		int bin = 0, last = -1;
		/* Bins are passed, heavier tokens first, until the one in which the wanted count or weight
		 * is reached. */
		for (; bin < BINS; bin++) {
			unsigned long long size = by_mass ? s->all_mass[bin] : s->all_count[bin];
			if (!size) continue;
			last = bin;
			if (wanted <= size) break;
			wanted -= size;
			before += s->all_mass[bin];
		}
		if (bin == BINS) { /* fewer than were wanted: all of them stay */
			*left = before;
			return {0xffffffffu, ~0ull};
		}
		/* The next round looks inside this bin only; after the last one, what remains have equal
		 * keys. */
		prefix |= (unsigned)last << shift;
		tie_mass = s->all_mass[bin], tie_count = s->all_count[bin];
	}
	/* Equal keys mean nearly equal weights, so an average weight tells how many of the ties are
	 * needed. */
	unsigned long long each = max(tie_mass / tie_count, 1ull), ties = by_mass ? (wanted + each - 1) / each : wanted;
	ties = min(ties, tie_count);
	*left = before + ties * each;
	return {prefix, ties};
}

/* Weights of the tokens of a warp's 32 from i on that stay; *ties counts those with the
 * cut's key on the way. */
static __device__ __forceinline__ unsigned long long mass_left(const struct row &r, int i, float top, float inverse,
	struct cut cut, bool is_cut, float min_p, unsigned long long *ties)
{
	float e = i < r.end ? weight_of(r.x[i], top, inverse) : 0.0f;
	unsigned long long mass = e >= min_p ? mass_of(e) : 0;
	if (!is_cut) return mass;
	unsigned key = e > 0 ? key_of(r.x[i], top, inverse) : 0xffffffffu;
	bool is_tie = key == cut.key && mass_of(e) > 0;
	unsigned tied = __ballot_sync(ALL_LANES, is_tie);
	unsigned long long mine = *ties + (unsigned long long)__popc(tied & ((1u << r.lane) - 1));
	*ties += (unsigned long long)__popc(tied);
	return key < cut.key || (is_tie && mine < cut.ties) ? mass : 0;
}

static __device__ __forceinline__ unsigned long long lanes_sum_mass(unsigned long long x)
{
	for (int d = WARP / 2; d; d /= 2) x += __shfl_xor_sync(ALL_LANES, x, d);
	return x;
}

/* Tokens with the cut's key in the spans before this warp's. */
static __device__ __forceinline__ unsigned long long ties_before(
	team &cluster, struct shared_row *s, const struct row &r, float top, float inverse, struct cut cut)
{
	unsigned long long ties = 0, before = 0;
	for (int i = r.begin; i < r.end; i += WARP) mass_left(r, i + r.lane, top, inverse, cut, true, 0.0f, &ties);
	if (r.lane == 0) s->ties[r.warp] = (int)ties;
	cluster.sync();
	for (int b = 0; b <= (int)cluster.block_rank(); b++) {
		const struct shared_row *o = cluster.map_shared_rank(s, b);
		int warps = b == (int)cluster.block_rank() ? r.warp : WARPS;
		for (int w = 0; w < warps; w++) before += (unsigned long long)o->ties[w];
	}
	return before;
}

/* What the warps' spans weigh together, and those before this warp's. */
static __device__ __forceinline__ void masses_gather(team &cluster, struct shared_row *s, const struct row &r,
	unsigned long long mass, unsigned long long *total, unsigned long long *before)
{
	unsigned long long all = 0, own = 0;
	*before = 0;
	if (r.lane == 0) s->mass[r.warp] = mass;
	__syncthreads();
#pragma unroll
	for (int w = 0; w < WARPS; w++) {
		unsigned long long its = s->mass[w];
		if (w < r.warp) *before += its;
		all += its;
	}
	if (threadIdx.x == 0) s->block_mass = all;
	cluster.sync();
	/* A lane a block. */
	if (r.lane < (int)cluster.num_blocks()) own = cluster.map_shared_rank(s, r.lane)->block_mass;
	*total = lanes_sum_mass(own);
	*before += lanes_sum_mass(r.lane < (int)cluster.block_rank() ? own : 0);
}

/* The token is out; its row moves on, unless it was its last. */
static __device__ __forceinline__ void row_advance(struct batch_view b, int n, int token)
{
	int left = b.left[n] - 1;
	for (int i = 0; i < b.want[WANT_STOPS]; i++)
		if (b.stop[i] == token) left = 0;
	b.left[n] = left;
	if (left == 0) return;
	int t = b.at[n];
	b.ids[t] = token;
	b.pos[t]++;
	b.draw[n].index++;
}

static __device__ __forceinline__ void token_store(
	int32_t *drawn, float *logprob, struct batch_view b, int n, int token, double value)
{
	bool moves_on = n < b.want[WANT_DRAWS] && b.want[WANT_MOVES_ON], is_over = moves_on && b.left[n] == 0;
	drawn[n] = is_over ? -1 : token;
	logprob[n] = is_over ? 0.0f : (float)value;
	if (moves_on && !is_over) row_advance(b, n, token);
}

template <bool HELD>
static __global__ void __launch_bounds__(THREADS, 2)
	sample_kernel(int32_t *drawn, float *logprob, const float *logits, struct batch_view b, int V)
{
	extern __shared__ __align__(16) float segment[];
	__shared__ struct shared_row shared;
	team cluster = team_own();
	int n = (int)blockIdx.x / (int)cluster.num_blocks(), rank = (int)cluster.block_rank();
	grid_begin();
	struct row r = row_load<HELD>(cluster, segment, logits + (int64_t)b.from[n] * V, V);
	struct ops_draw draw = b.draw[n];
	float top, inverse = draw.temperature > 0 ? 1.0f / draw.temperature : 1.0f;
	int top_id;
	double sum, weighted;
	row_top(cluster, &shared, r, &top, &top_id);
	unsigned long long mass = 0;
	row_sums(cluster, &shared, r, top, inverse, &sum, &weighted, draw.min_p, &mass);

	/* nothing to draw from, or nothing to draw */
	if (!(sum > 0) || draw.temperature <= 0) {
		if (rank == 0 && threadIdx.x == 0) token_store(drawn, logprob, b, n, top_id, sum > 0 ? -log(sum) : nan_of());
		cluster.sync();
		return;
	}

	/* top_k, then top_p on what it left */
	struct cut cut = {0xffffffffu, ~0ull};
	bool by_count = draw.top_k > 0 && draw.top_k < V, by_mass = draw.top_p < 1, is_cut = by_count || by_mass;
	unsigned long long left = 0;
	if (is_cut)
		cut = cut_find(
			cluster, &shared, r, top, inverse, false, by_count ? (unsigned long long)draw.top_k : ~0ull, &left);
	if (by_mass) {
		unsigned long long wanted = (unsigned long long)ceil((double)draw.top_p * (double)left);
		cut = cut_find(cluster, &shared, r, top, inverse, true, min(max(wanted, 1ull), left), &left);
	}
	unsigned long long before = is_cut ? ties_before(cluster, &shared, r, top, inverse, cut) : 0, ties = before;

	/* what each span weighs, and the span in which the running sum passes u of the whole */
	if (is_cut) mass = 0;
	for (int i = r.begin; i < r.end && is_cut; i += WARP)
		mass += mass_left(r, i + r.lane, top, inverse, cut, true, draw.min_p, &ties);
	mass = lanes_sum_mass(mass);
	unsigned long long total, base;
	masses_gather(cluster, &shared, r, mass, &total, &base);
	unsigned u = philox(draw.seed, draw.stream, draw.index).x >> 8;
	unsigned long long target = (total >> 24) * u + ((total & 0xffffffu) * u >> 24);
	cluster.sync();
	if (target < base || target >= base + mass) return;

	/* this warp's: the token in it */
	ties = before;
	for (int i = r.begin; i < r.end; i += WARP) {
		unsigned long long own = mass_left(r, i + r.lane, top, inverse, cut, is_cut, draw.min_p, &ties), sum_to = own;
		for (int d = 1; d < WARP; d *= 2) {
			unsigned long long lower = __shfl_up_sync(ALL_LANES, sum_to, d);
			if (r.lane >= d) sum_to += lower;
		}
		unsigned passed = __ballot_sync(ALL_LANES, base + sum_to > target);
		if (passed) {
			if (r.lane == __ffs((int)passed) - 1) {
				double all = draw.min_p > 0 ? (double)total / (double)UNIT : sum;
				token_store(
					drawn, logprob, b, n, r.base + i + r.lane, ((double)r.x[i + r.lane] - top) * inverse - log(all));
			}
			return;
		}
		base += __shfl_sync(ALL_LANES, sum_to, WARP - 1);
	}
}

/* ---- entries ---- */

static bool is_held(const struct ops_context *c, int V) { return c->card.is_hopper || V <= ONE_BLOCK_MAX; }

static struct launch head_shape(const struct ops_context *c, int n, int V)
{
	int cluster = V > ONE_BLOCK_MAX && c->card.is_hopper ? CLUSTER_MAX : 1;
	size_t bytes = is_held(c, V) ? (size_t)((V + cluster - 1) / cluster) * sizeof(float) : 0;
	CHECKF(V > 0 && V <= CUDA_VOCAB_MAX, "a vocabulary of %d; the CUDA backend takes at most %d", V, CUDA_VOCAB_MAX);
	return {dim3((unsigned)(n * cluster)), dim3(THREADS), bytes, cluster > 1 ? cluster : 0};
}

static void logprob(struct ops_context *c, struct f32 *out, const struct f32 *logits, const struct ops_batch *b,
	int first, int n, int V)
{
	if (n)
		cuda_launch(c, head_shape(c, n, V), is_held(c, V) ? logprob_kernel<true> : logprob_kernel<false>, floats(out),
			floats(logits), b->view, first, V);
}

static void sample(struct ops_context *c, struct i32 *drawn, struct f32 *logprob, const struct f32 *logits,
	struct ops_batch *b, int n, int V)
{
	if (b->drawn)
		cuda_launch(c, head_shape(c, b->drawn, V), is_held(c, V) ? sample_kernel<true> : sample_kernel<false>,
			ints(drawn), floats(logprob), floats(logits), b->view, V);
}

void cuda_head_entries(struct ops *t)
{
	t->logprob = logprob;
	t->sample = sample;
}
