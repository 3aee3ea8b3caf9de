/* batch: what the host says of a step, at addresses that stay, and regions of calls that are
 * recorded once (CUDA graphs) and then replayed.
 *
 * A batch is one block on the device and two pinned ones of the same form: what is sent next is
 * written while the last copy may still be on its way. Rows are rounded up to one of few sizes, so
 * that few regions are recorded; no size exceeds the one given at create. */
#include "ops_cuda_internal.h"

/* ---- carving ---- */

struct carve {
	char *base;
	size_t used;
};
static void *carve(struct carve *c, size_t bytes)
{
	void *p = c->base + c->used;
	c->used += bytes;
	return p;
}

/* The fields in the block at base; what batch_want sends stands behind want_at. */
static size_t view_carve(const struct ops_batch *b, struct batch_view *v, char *base, size_t *want_at)
{
	struct carve c = {base, 0};
	v->pages = b->pages;
	v->chunks = cuda_batch_chunks(b->pages);
	/* The sizes are those of memory plans (cuda_figures.h), one field behind the other. What a step
	 * wants of its rows begins at want and is sent apart from them. */
	void *fields[CUDA_BATCH_FIELDS];
	for (int f = 0; f < CUDA_BATCH_FIELDS; f++) {
		if (f == CUDA_BATCH_WANT) *want_at = c.used;
		fields[f] = carve(&c, cuda_batch_field((enum cuda_batch_field)f, b->T, b->S, b->pages, b->n, b->draws));
	}
	v->head = (int32_t *)fields[CUDA_BATCH_HEAD];
	v->ids = (int32_t *)fields[CUDA_BATCH_IDS];
	v->pos = (int32_t *)fields[CUDA_BATCH_POS];
	v->sequence = (const int32_t *)fields[CUDA_BATCH_SEQUENCE];
	v->start = (const int32_t *)fields[CUDA_BATCH_START];
	v->table = (const int32_t *)fields[CUDA_BATCH_TABLE];
	v->want = (int32_t *)fields[CUDA_BATCH_WANT];
	v->at = (const int32_t *)fields[CUDA_BATCH_AT];
	v->target = (const int32_t *)fields[CUDA_BATCH_TARGET];
	v->temperature = (const float *)fields[CUDA_BATCH_TEMPERATURE];
	v->from = (const int32_t *)fields[CUDA_BATCH_FROM];
	v->left = (int32_t *)fields[CUDA_BATCH_LEFT];
	v->stop = (const int32_t *)fields[CUDA_BATCH_STOP];
	v->draw = (struct ops_draw *)fields[CUDA_BATCH_DRAW];
	return c.used;
}

static struct ops_batch *batch_create(struct ops_context *c, int T, int S, int pages, int n, int draws)
{
	CHECK(T > 0 && S > 0 && pages >= 0 && n >= 0 && draws >= 0);
	struct ops_batch *b = (struct ops_batch *)xcalloc(1, sizeof *b);
	b->T = T, b->S = S, b->pages = pages, b->n = n, b->draws = draws;
	b->bytes = view_carve(b, &b->view, NULL, &b->want_at);
	b->device = (char *)c->table.alloc(c, b->bytes);
	CUDA_CHECK(cudaHostAlloc((void **)&b->host, 2 * b->bytes, cudaHostAllocDefault));
	memset(b->host, 0, 2 * b->bytes);
	view_carve(b, &b->view, b->device, &b->want_at);
	b->start = (int32_t *)xcalloc((size_t)S + 1, sizeof *b->start);
	for (int i = 0; i < 2; i++) {
		CUDA_CHECK(cudaEventCreateWithFlags(&b->sent[i], cudaEventDisableTiming));
		CUDA_CHECK(cudaEventCreateWithFlags(&b->want_sent[i], cudaEventDisableTiming));
	}
	return b;
}

static void batch_free(struct ops_context *c, struct ops_batch *b)
{
	if (!b) return;
	c->table.release(c, b->device);
	CUDA_CHECK(cudaFreeHost(b->host));
	for (int i = 0; i < 2; i++) {
		CUDA_CHECK(cudaEventDestroy(b->sent[i]));
		CUDA_CHECK(cudaEventDestroy(b->want_sent[i]));
	}
	free(b->start);
	free(b);
}

/* ---- sending ---- */

/* Few sizes, none wasting more than a quarter: products over the surplus cost bandwidth
 * nothing and arithmetic little.
 */
static int rounded_rows(int rows, int most)
{
	int step = rows <= 4 ? 1 : rows <= 64 ? 8 : rows <= 256 ? 32 : rows <= 1024 ? 64 : 128;
	return MIN((rows + step - 1) / step * step, most);
}

static void rows_check(const struct ops_batch *b, const struct ops_rows *r)
{
	CHECKF(r->T > 0 && r->T <= b->T && r->S > 0 && r->S <= b->S && r->pages <= b->pages,
		"%d rows of %d, %d sequences of %d, %d pages of %d", r->T, b->T, r->S, b->S, r->pages, b->pages);
	CHECK(!r->table || r->pages > 0);
	CHECKF(!r->follows, "sequences that follow another: attention on this backend does not know them");
	for (int t = 0; t < r->T; t++) {
		int s = r->sequence[t], last = t ? r->sequence[t - 1] : 0;
		CHECKF(
			s >= 0 && s < r->S && s >= last, "row %d is of sequence %d of %d, the row before of %d", t, s, r->S, last);
		CHECKF(r->pos[t] >= 0 && (!r->table || r->pos[t] < r->pages * OPS_PAGE),
			"row %d has position %d, its pages hold %d", t, r->pos[t], r->pages * OPS_PAGE);
		CHECKF(!t || s != last || r->pos[t] == r->pos[t - 1] + 1, "row %d: positions of sequence %d do not rise by one",
			t, s);
	}
}

/* First rows of sequences. */
static void starts_fill(struct ops_batch *b, const struct ops_rows *r, int32_t *start)
{
	int t = 0;
	b->is_decode = true;
	for (int s = 0; s < r->S; s++) {
		start[s] = t;
		while (t < r->T && r->sequence[t] == s) t++;
		b->is_decode = b->is_decode && t - start[s] <= 1;
	}
	start[r->S] = t;
}

static int batch_put(struct ops_context *c, struct ops_batch *b, const struct ops_rows *r)
{
	rows_check(b, r);
	/* Two halves of host memory take turns. This one was sent before the last call's, and may be
	 * written once its copy is over. */
	int half = b->half;
	b->half = !half;
	CUDA_CHECK(cudaEventSynchronize(b->sent[half]));
	struct batch_view v;
	size_t want_at;
	char *base = b->host + (size_t)half * b->bytes;
	view_carve(b, &v, base, &want_at);
	int T = rounded_rows(r->T, b->T), rest = T - r->T;
	b->rows = r->T, b->sequences = r->S, b->is_packed = !r->table;
	c->is_paged = !b->is_packed;

	/* The rows come first. The surplus rows behind them are of no sequence (-1), with token 0 at
	 * position 0, and harmless. */
	memcpy(v.ids, r->ids, (size_t)r->T * sizeof *r->ids);
	memcpy(v.pos, r->pos, (size_t)r->T * sizeof *r->pos);
	memcpy((int32_t *)v.sequence, r->sequence, (size_t)r->T * sizeof *r->sequence);
	memset(v.ids + r->T, 0, (size_t)rest * sizeof *v.ids);
	memset(v.pos + r->T, 0, (size_t)rest * sizeof *v.pos);
	memset((int32_t *)v.sequence + r->T, 0xff, (size_t)rest * sizeof *v.sequence);
	starts_fill(b, r, (int32_t *)v.start);
	memcpy(b->start, v.start, ((size_t)r->S + 1) * sizeof *b->start);
	v.head[HEAD_ROWS] = r->T;
	v.head[HEAD_SEQUENCES] = r->S;

	/* Page lists have as many columns as the largest table. They lie last, so that only those of
	 * the sequences in use are sent. */
	size_t end = (size_t)((char *)v.table - base);
	if (r->table) {
		for (int s = 0; s < r->S; s++)
			memcpy((int32_t *)v.table + (size_t)s * (size_t)b->pages, r->table + (size_t)s * (size_t)r->pages,
				(size_t)r->pages * sizeof(int32_t));
		end = (size_t)((char *)((int32_t *)v.table + (size_t)r->S * (size_t)b->pages) - base);
	}
	CUDA_CHECK(cudaMemcpyAsync(b->device, base, end, cudaMemcpyHostToDevice, c->stream));
	CUDA_CHECK(cudaEventRecord(b->sent[half], c->stream));
	/* A graph is recorded for a shape. Which kernels and grids a decode step has follows from T
	 * alone; any other batch is told apart by its sequences too. */
	c->shape = (uint64_t)b->is_packed | (uint64_t)b->is_decode << 1;
	if (!b->is_decode) c->shape |= (uint64_t)(T > r->T) << 2 | (uint64_t)r->S << 3;
	return T;
}

static int batch_want(struct ops_context *c, struct ops_batch *b, const struct ops_want *w)
{
	CHECKF(w->n >= 0 && w->n <= b->n, "%d wanted rows of %d", w->n, b->n);
	/* Two halves of host memory take turns: this one may be written once the copy made from it
	 * before is over. */
	int half = b->want_half, n = rounded_rows(w->n, b->n);
	b->want_half = !half;
	CUDA_CHECK(cudaEventSynchronize(b->want_sent[half]));
	struct batch_view v;
	size_t want_at;
	char *base = b->host + (size_t)half * b->bytes;
	view_carve(b, &v, base, &want_at);
	int draws = !w->draw ? 0 : w->from ? w->draws : w->n;
	CHECKF(draws >= 0 && draws <= b->draws, "%d draws of %d", draws, b->draws);
	b->wanted = w->n;
	b->drawn = rounded_rows(draws, b->draws);
	v.want[WANT_DRAWS] = draws;
	v.want[WANT_MOVES_ON] = !w->from;
	CHECKF(w->nstop >= 0 && w->nstop <= OPS_STOPS_MAX, "%d stop tokens, at most %d", w->nstop, OPS_STOPS_MAX);
	v.want[WANT_STOPS] = w->nstop;
	for (int i = 0; i < w->nstop; i++) ((int32_t *)v.stop)[i] = w->stop[i];
	int32_t *at = (int32_t *)v.at, *target = (int32_t *)v.target;
	float *temperature = (float *)v.temperature;
	/* Rows behind the wanted ones make the count a rounded one. They ask for something harmless
	 * that is valid everywhere. */
	for (int i = 0; i < n; i++) {
		bool is_wanted = i < w->n;
		CHECKF(
			!is_wanted || (w->at[i] >= 0 && w->at[i] < b->rows), "wanted row %d is row %d of %d", i, w->at[i], b->rows);
		at[i] = is_wanted ? w->at[i] : 0;
		target[i] = is_wanted && w->target ? w->target[i] : 0;
		temperature[i] = is_wanted && w->temperature ? w->temperature[i] : 1.0f;
		CHECKF(temperature[i] > 0, "temperature %g", (double)temperature[i]);
	}
	/* Draws, rounded up likewise: how many there are decides the grid of sample. */
	int32_t *from = (int32_t *)v.from;
	for (int i = 0; i < b->drawn; i++) {
		struct ops_draw none = {};
		none.top_p = 1;
		v.draw[i] = i < draws ? w->draw[i] : none;
		from[i] = i < draws ? (w->from ? w->from[i] : i) : 0;
		v.left[i] = i < draws && w->left ? w->left[i] : INT32_MAX;
		CHECKF(from[i] >= 0 && from[i] < MAX(w->n, 1), "draw %d is from row %d of %d", i, from[i], w->n);
	}
	c->shape = (c->shape & 0xffffffffu) | (uint64_t)b->drawn << 32;
	/* Only the part in use travels. The event tells when this half may be written again. */
	size_t end = (size_t)((char *)(v.draw + b->drawn) - base);
	CUDA_CHECK(
		cudaMemcpyAsync(b->device + b->want_at, base + want_at, end - want_at, cudaMemcpyHostToDevice, c->stream));
	CUDA_CHECK(cudaEventRecord(b->want_sent[half], c->stream));
	return n;
}

/* ---- regions ---- */

static void region_drop(struct region *r)
{
	if (r->exec) CUDA_CHECK(cudaGraphExecDestroy(r->exec));
	r->exec = NULL;
	r->state = REGION_NEW;
}

void regions_forget(struct ops_context *c)
{
	for (int i = 0; i < c->nregions; i++) region_drop(&c->regions[i]);
}

static struct region *region_of(struct ops_context *c, uint64_t key)
{
	struct region *oldest = &c->regions[0];
	for (int i = 0; i < c->nregions; i++) {
		if (c->regions[i].key == key) return &c->regions[i];
		if (c->regions[i].used < oldest->used) oldest = &c->regions[i];
	}
	struct region *r = c->nregions < GRAPHS_MAX ? &c->regions[c->nregions++] : oldest;
	region_drop(r);
	r->key = key;
	return r;
}

/* The first time the calls simply run: kernels are loaded, products choose their algorithms,
 * scratch grows. The second time they are recorded. From then on they are replayed. */
static bool region_begin(struct ops_context *c, uint64_t key)
{
	CHECKF(!c->region, "a region begins inside another");
	settle(c);
	struct region *r = region_of(c, key * 0x9e3779b97f4a7c15u + c->shape);
	r->used = ++c->begins;
	if (r->state == REGION_RECORDED) {
		CUDA_CHECK(cudaGraphLaunch(r->exec, c->stream));
		return false;
	}
	c->region = r;
	if (r->state == REGION_WARM) {
		CUDA_CHECK(cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
		c->is_recording = true;
	}
	return true;
}

static void region_end(struct ops_context *c)
{
	struct region *r = c->region;
	CHECKF(r, "a region ends that did not begin");
	settle(c);
	c->region = NULL;
	if (!c->is_recording) {
		r->state = REGION_WARM;
		return;
	}
	cudaGraph_t graph;
	c->is_recording = false;
	CUDA_CHECK(cudaStreamEndCapture(c->stream, &graph));
	CUDA_CHECK(cudaGraphInstantiate(&r->exec, graph, 0));
	CUDA_CHECK(cudaGraphDestroy(graph));
	r->state = REGION_RECORDED;
	CUDA_CHECK(cudaGraphLaunch(r->exec, c->stream));
}

void cuda_batch_entries(struct ops *t)
{
	t->batch_create = batch_create;
	t->batch_free = batch_free;
	t->batch_put = batch_put;
	t->batch_want = batch_want;
	t->begin = region_begin;
	t->end = region_end;
}
