/* gpu_decode: how long a decode step takes beside its floor, on the backend that --device of hone names "cuda": random
 * weights of Qwen3-8B's shape with an adapter of rank 16, a context of 640 tokens, the stages in the order of the
 * model's walk, one region a step, the host looking once a step.
 *
 * The floor is what a step has to read (weights, the context's keys and values) over the rate at which this device
 * copies, measured in the same run, bytes read and written counted. Then the stages one by one: a region holds one
 * stage of all layers, each with its own weights, so that no cache helps.
 *
 * usage: gpu_decode [BATCH...]     (1 64 256)
 * environment: LAYERS (36), INVARIANT=1 for the row-independent kernels, HONE_CUDA_LIBS (folder with cuBLASLt) */
#include "stage_world.h"

#define CONTEXT 640
#define STEPS 20

static uint16_t *noise; /* as many elements as the largest matrix has */
static int64_t noise_count;

static void noise_make(int64_t n)
{
	int64_t block = 1 << 22;
	noise = xmalloc((size_t)n * 2);
	noise_count = n;
	for (int64_t i = 0; i < MIN(block, n); i++) noise[i] = f32_to_bf16(0.02f * rng_normal(1, 1, (uint64_t)i));
	for (int64_t at = block; at < n; at += block) memcpy(noise + at, noise, (size_t)MIN(block, n - at) * 2);
}

static void noise_put(struct ops *o, struct ops_weight *w)
{
	CHECK((int64_t)w->rows * w->cols <= noise_count);
	o->put(o->ctx, w, noise, DTYPE_BF16);
}

static void noise_linear(struct ops *o, struct linear *l, int in, const int *out, int parts, int r, uint64_t stream)
{
	*l = (struct linear){.l = {.in = in, .parts = parts}, .lora = {.r = r, .scaling = 2}};
	for (int i = 0; i < parts; i++) l->l.out += out[i];
	int64_t ld = in + (r ? o->tail : 0);
	struct elem *w = elems_alloc(o, l, l->l.out * ld);
	for (int i = 0, at = 0; i < parts; at += out[i++]) {
		l->l.w[i] = (struct ops_weight){.rows = out[i], .cols = in, .ld = ld, .w = ops_elem_at(o, w, at * ld)};
		noise_put(o, &l->l.w[i]);
		if (!r) continue;
		l->lora.a[i] = (struct ops_weight){.rows = r, .cols = in, .ld = in, .w = elems_alloc(o, l, (int64_t)r * in)};
		l->lora.b[i] = (struct ops_weight){
			.rows = out[i], .cols = r, .ld = r, .w = elems_alloc(o, l, (int64_t)out[i] * r)};
		noise_put(o, &l->lora.a[i]);
		noise_put(o, &l->lora.b[i]);
	}
	if (r) o->bind(o->ctx, &l->l, &l->lora);
}

static void wait(const struct decoder *d)
{
	int32_t one;
	d->ops->get_i32(d->ops->ctx, &one, d->drawn, 1);
}

/* TB/s of a copy of pages, read and written. */
static double copy_rate(const struct decoder *d)
{
	int64_t page = 32768, n = 2 * (int64_t)d->s.layers * d->kv_pages * page_elems(d) / page / 2;
	n = MIN(n, 60000);
	int32_t *dst = xcalloc((size_t)n, 4), *src = xcalloc((size_t)n, 4);
	double best = 0;
	for (int64_t i = 0; i < n; i++) dst[i] = (int32_t)(2 * i), src[i] = (int32_t)(2 * i + 1);
	for (int k = 0; k < 5; k++) {
		wait(d);
		uint64_t start = clock_ns();
		d->ops->pages_copy(d->ops->ctx, d->kv, 1, 0, page, dst, src, (int)n);
		wait(d);
		best = fmax(best, (double)n * (double)page * 4 / (double)(clock_ns() - start) / 1e3);
	}
	free(dst), free(src);
	return best;
}

static void rows_put(struct decoder *d, int batch, int pages, int *T, int *n)
{
	int32_t *ids = xcalloc((size_t)batch, 4), *pos = xcalloc((size_t)batch, 4), *sequence = xcalloc((size_t)batch, 4),
			*table = xcalloc((size_t)(batch * pages), 4);
	struct ops_draw *draw = xcalloc((size_t)batch, sizeof *draw);
	for (int i = 0; i < batch; i++) {
		ids[i] = i, pos[i] = CONTEXT - 1, sequence[i] = i;
		draw[i] = (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 1, .stream = (uint64_t)i};
		for (int p = 0; p < pages; p++) table[i * pages + p] = p * batch + i;
	}
	*T = d->ops->batch_put(d->ops->ctx, d->batch,
		&(struct ops_rows){
			.T = batch, .S = batch, .ids = ids, .pos = pos, .sequence = sequence, .table = table, .pages = pages});
	*n = d->ops->batch_want(d->ops->ctx, d->batch, &(struct ops_want){.n = batch, .at = sequence, .draw = draw});
	free(ids), free(pos), free(sequence), free(table), free(draw);
}

/* us of a region that holds this stage of every layer (STAGE_COUNT: everything of a step but the layers). */
static double stage_us(struct decoder *d, int stage, int T, int n, int batch)
{
	struct ops *o = d->ops;
	struct decoder rest = *d;
	double best = 1e30;
	rest.s.layers = 0;
	for (int k = 0; k < 8; k++) {
		wait(d);
		uint64_t start = clock_ns();
		for (int i = 0; i < 4; i++) {
			if (!o->begin(o->ctx, (uint64_t)(1000 * batch + stage + 1))) continue;
			if (stage == STAGE_COUNT) decoder_walk(&rest, T, n, 0);
			else
				for (int l = 0; l < d->s.layers; l++) block_stage(d, l, (enum block_stage)stage, T);
			o->end(o->ctx);
		}
		wait(d);
		if (k > 1) best = fmin(best, (double)(clock_ns() - start) / 1e3 / 4);
	}
	return best;
}

static void bench(struct decoder *d, int batch, double rate)
{
	struct ops *o = d->ops;
	const struct shape *s = &d->s;
	int pages = CONTEXT / OPS_PAGE + 2, T, n;
	double Q = s->NH * s->HD, KV = s->NKV * s->HD, C = s->C, I = s->I;
	double weights = 2 * (s->layers * (C * (Q + 2 * KV) + Q * C + 3 * C * I) + C * s->V),
		   context = 2.0 * 2 * s->layers * KV * CONTEXT * batch;
	/* What a step cannot do without reading: all weights once, and each sequence's context. */
	double floor_ms = (weights + context) / rate / 1e9, times[STEPS];
	/* Whole steps; the first four are not counted, since the region is recorded in them. */
	for (int k = -4; k < STEPS; k++) {
		uint64_t start = clock_ns();
		rows_put(d, batch, pages, &T, &n);
		if (o->begin(o->ctx, (uint64_t)batch)) {
			decoder_walk(d, T, n, 0);
			o->end(o->ctx);
		}
		wait(d);
		if (k >= 0) times[k] = (double)(clock_ns() - start) / 1e6;
	}
	/* The median, which one late step does not move. */
	for (int i = 1; i < STEPS; i++)
		for (int j = i; j > 0 && times[j] < times[j - 1]; j--) {
			double t = times[j];
			times[j] = times[j - 1], times[j - 1] = t;
		}
	double ms = times[STEPS / 2];
	printf("batch %3d  %7.3f ms a step (median of %d, %.3f to %.3f)  floor %6.3f ms  %5.1f %% of it  %8.0f tok/s\n",
		batch, ms, STEPS, times[0], times[STEPS - 1], floor_ms, 100 * floor_ms / ms, batch / ms * 1e3);
	/* Then the stages one by one. */
	rows_put(d, batch, pages, &T, &n);
	for (int stage = 0; stage <= STAGE_COUNT; stage++)
		printf("  %-8s %9.1f us\n", stage < STAGE_COUNT ? stage_names[stage] : "rest", stage_us(d, stage, T, n, batch));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct err err;
	struct ops *o;
	const char *layers = getenv("LAYERS"), *invariant = getenv("INVARIANT");
	struct shape s = {.layers = layers ? atoi(layers) : 36,
		.C = 4096,
		.I = 12288,
		.NH = 32,
		.NKV = 8,
		.HD = 128,
		.V = 151936,
		.r = 16,
		.positions = 4096};
	int batches[16] = {1, 64, 256}, nbatches = 3, most = 0, pages = CONTEXT / OPS_PAGE + 2;
	/* Everything is made for the largest batch. */
	if (argc > 1) nbatches = MIN(argc - 1, 16);
	for (int i = 0; argc > 1 && i < nbatches; i++) batches[i] = atoi(argv[i + 1]);
	for (int i = 0; i < nbatches; i++) most = MAX(most, batches[i]);
	struct ops_options options = {.adapter_columns = 64,
		.batch_invariant = invariant && *invariant == '1',
		.cuda_libs = getenv("HONE_CUDA_LIBS")};
	if (ops_open("cuda", &options, &o, &err)) return fprintf(stderr, "%s\n", err.text), 1;
	struct decoder d;
	uint64_t start = clock_ns();
	/* Weights and pages hold noise, as unlike zeros as a model's are. */
	noise_make((int64_t)s.V * s.C);
	decoder_make(&d, o, &s, most, most, pages, most * pages, noise_linear);
	int64_t kv = 2 * (int64_t)s.layers * d.kv_pages * page_elems(&d) / 2;
	for (int64_t at = 0; at < kv; at += noise_count / 2)
		o->put_f32(o->ctx, (struct f32 *)((float *)(void *)d.kv + at), (const float *)(void *)noise,
			MIN(noise_count / 2, kv - at));
	wait(&d);
	printf("weights and pages are there after %.1f s\n", (double)(clock_ns() - start) / 1e9);
	/* The rate of this device, in this run, makes the floor. */
	double rate = copy_rate(&d);
	printf("copy %.2f TB/s%s\n", rate, options.batch_invariant ? "; batch_invariant" : "");
	for (int i = 0; i < nbatches; i++) bench(&d, batches[i], rate);
	decoder_free(&d);
	ops_free(o);
	return 0;
}
