/* gpu_decode: how long a decode step takes beside its reading, on the backend that --device of hone
 * names "cuda": random weights of a named shape (Qwen3-8B, SmolLM2-135M, the demo's model) with an
 * adapter of rank 16, the stages in the order of the model's walk, one region a step, the host
 * looking once a step; then with eight steps in a region.
 *
 * The reading is what a step has to read (weights, the context's keys and values) over the rate at
 * which this device copies, measured in the same run, bytes read and written counted. It is not the
 * floor of `hone bench gpu`, which counts the multiplying in place of the weights' reading where
 * that takes longer (on an H200 from 170 to 200 rows on): up to there the two are the same.
 * Then the stages one by one: a region holds one stage of all layers, each with its own
 * weights, so that no cache helps.
 *
 * "prefill" instead of batches: 8,192 prompt tokens over pages, 8 prompts of 1,024 and 4 of 2,048,
 * in one pass without a region; TFLOP/s of the projections' and attention's products.
 *
 * usage: gpu_decode [8b|smollm2|demo] [BATCH...|prefill]     (8b; 1 64 256, smollm2 256, demo 1024)
 * environment: INVARIANT=1 for the row-independent kernels, HONE_CUDA_LIBS
 * (folder with cuBLASLt) */
#include "stage_world.h"

#define STEPS 20
#define INSIDE 8   /* steps of a region, where there are several */
#define PREFILL 8192

struct model { /* a shape, the context that its row of the table of speeds names, and batches */
	const char *name;
	struct shape s;
	int context;
	int batches[4];
};
static const struct model models[] = {
	{"8b",
		{.layers = 36, .C = 4096, .I = 12288, .NH = 32, .NKV = 8, .HD = 128, .V = 151936, .r = 16, .positions = 4096},
		640, {1, 64, 256}},
	{"smollm2",
		{.layers = 30, .C = 576, .I = 1536, .NH = 9, .NKV = 3, .HD = 64, .V = 49152, .r = 16, .positions = 2048}, 320,
		{256}},
	{"demo", {.layers = 4, .C = 192, .I = 512, .NH = 6, .NKV = 2, .HD = 32, .V = 1024, .r = 16, .positions = 1536}, 300,
		{1024}},
};
static int context;       /* tokens of a sequence */
static int context_pages; /* of a sequence, with room for what is decoded */

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

/* TB/s of a copy, read and written: of one half of the pages' memory, or of 4 GiB
 * of it, into the other. */
static double copy_rate(const struct decoder *d)
{
	int64_t half = MIN((int64_t)d->s.layers * d->kv_pages * page_elems(d), (int64_t)1 << 30) / 8 * 8;
	double best = 0;
	enum { COPIES = 8 }; /* between two waits, as `hone bench gpu` */
	for (int k = 0; k < 5; k++) {
		wait(d);
		uint64_t start = clock_ns();
		for (int copy = 0; copy < COPIES; copy++)
			d->ops->pages_copy(d->ops->ctx, d->kv, 1, 0, half, &(int32_t){1}, &(int32_t){0}, 1);
		wait(d);
		best = fmax(best, COPIES * (double)half * 4 / (double)(clock_ns() - start) / 1e3);
	}
	return best;
}

/* `sequences` of `rows` rows each, which end the context; one token of each is drawn. */
static void rows_put(struct decoder *d, int sequences, int rows, int end, int *T, int *n)
{
	int all = sequences * rows, pages = context_pages;
	int32_t *ids = xcalloc((size_t)all, 4), *pos = xcalloc((size_t)all, 4), *sequence = xcalloc((size_t)all, 4),
			*table = xcalloc((size_t)(sequences * pages), 4), *at = xcalloc((size_t)sequences, 4);
	struct ops_draw *draw = xcalloc((size_t)sequences, sizeof *draw);
	for (int t = 0; t < all; t++) ids[t] = t % d->s.V, pos[t] = end - rows + t % rows, sequence[t] = t / rows;
	for (int i = 0; i < sequences; i++) {
		at[i] = i * rows + rows - 1;
		draw[i] = (struct ops_draw){.temperature = 1, .top_p = 1, .seed = 1, .stream = (uint64_t)i};
		for (int p = 0; p < pages; p++) table[i * pages + p] = p * sequences + i;
	}
	*T = d->ops->batch_put(d->ops->ctx, d->batch,
		&(struct ops_rows){
			.T = all, .S = sequences, .ids = ids, .pos = pos, .sequence = sequence, .table = table, .pages = pages});
	*n = d->ops->batch_want(d->ops->ctx, d->batch, &(struct ops_want){.n = sequences, .at = at, .draw = draw});
	free(ids), free(pos), free(sequence), free(table), free(at), free(draw);
}

static double median(double *times, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && times[j] < times[j - 1]; j--) {
			double t = times[j];
			times[j] = times[j - 1], times[j - 1] = t;
		}
	return times[n / 2];
}

/* us of a region that holds this stage of every layer (STAGE_COUNT: everything of a
 * step but the layers). */
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

/* ms of STEPS regions of `inside` steps each, sorted; the host sends the rows and waits for
 * the tokens each time. */
static void steps_time(struct decoder *d, int batch, int inside, double times[STEPS])
{
	struct ops *o = d->ops;
	int T, n;
	/* The first four are not counted, since the region is recorded in them. */
	for (int k = -4; k < STEPS; k++) {
		uint64_t start = clock_ns();
		rows_put(d, batch, 1, context, &T, &n);
		if (o->begin(o->ctx, (uint64_t)(16 * batch + inside))) {
			for (int i = 0; i < inside; i++) decoder_walk(d, T, n, i);
			o->end(o->ctx);
		}
		wait(d);
		if (k >= 0) times[k] = (double)(clock_ns() - start) / 1e6;
	}
	median(times, STEPS);
}

/* Parameters of the layers' projections. */
static double layer_weights(const struct shape *s)
{
	double Q = s->NH * s->HD, KV = s->NKV * s->HD, C = s->C, I = s->I;
	return s->layers * (C * (Q + 2 * KV) + Q * C + 3 * C * I);
}

static void bench(struct decoder *d, int batch, double rate)
{
	const struct shape *s = &d->s;
	int T, n;
	double weights = 2 * (layer_weights(s) + (double)s->C * s->V),
		   kv = 2.0 * 2 * s->layers * s->NKV * s->HD * context * batch;
	/* What a step cannot do without reading: all weights once, and each sequence's context. */
	double reading_ms = (weights + kv) / rate / 1e9, times[STEPS];
	for (int inside = 1; inside <= INSIDE; inside += INSIDE - 1) {
		steps_time(d, batch, inside, times);
		double ms = times[STEPS / 2] / inside;
		printf(
			"batch %4d  %7.3f ms a step, %d in a region (median of %d, %.3f to %.3f)  reading %6.3f ms  %5.1f %% of it "
			" %8.0f tok/s\n",
			batch, ms, inside, STEPS, times[0] / inside, times[STEPS - 1] / inside, reading_ms, 100 * reading_ms / ms,
			batch / ms * 1e3);
	}
	/* Then the stages one by one. */
	rows_put(d, batch, 1, context, &T, &n);
	for (int stage = 0; stage <= STAGE_COUNT; stage++)
		printf("  %-8s %9.1f us\n", stage < STAGE_COUNT ? stage_names[stage] : "rest", stage_us(d, stage, T, n, batch));
	fflush(stdout);
}

static void prefill(struct decoder *d, int sequences)
{
	const struct shape *s = &d->s;
	int length = PREFILL / sequences, T, n;
	double times[STEPS / 4], visible = (double)sequences * length * (length + 1) / 2;
	/* The products of the projections, of the positions that attention sees, and of
	 * the heads' last rows. */
	double flop = 2.0 * PREFILL * layer_weights(s) + 4.0 * s->layers * s->NH * s->HD * visible +
		2.0 * sequences * s->C * s->V;
	for (int k = -2; k < STEPS / 4; k++) {
		rows_put(d, sequences, length, length, &T, &n);
		wait(d);
		uint64_t start = clock_ns();
		decoder_walk(d, T, n, 0);
		wait(d);
		if (k >= 0) times[k] = (double)(clock_ns() - start) / 1e6;
	}
	double ms = median(times, STEPS / 4);
	printf("prefill of %d prompts of %d tokens: %.2f ms (%.2f to %.2f)  %.0f TFLOP/s  %.0f tok/s\n", sequences, length,
		ms, times[0], times[STEPS / 4 - 1], flop / ms / 1e9, PREFILL / ms * 1e3);
	for (int stage = 0; stage < STAGE_COUNT; stage++)
		printf("  %-8s %9.1f us\n", stage_names[stage], stage_us(d, stage, T, n, PREFILL + sequences));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct err err;
	struct ops *o;
	const struct model *m = &models[0];
	const char *invariant = getenv("INVARIANT");
	int batches[16] = {0}, nbatches = 0, most = 8, rows = 0, first = 1;
	/* A shape's name, if there is one, then what is to be measured. */
	for (size_t i = 0; argc > 1 && i < ARRAY_LEN(models); i++)
		if (!strcmp(argv[1], models[i].name)) m = &models[i], first = 2;
	bool is_prefill = argc > first && !strcmp(argv[first], "prefill");
	for (int i = first; i < argc && nbatches < 16 && !is_prefill; i++) batches[nbatches++] = atoi(argv[i]);
	for (int i = 0; first == argc && i < 4 && m->batches[i]; i++) batches[nbatches++] = m->batches[i];
	for (int i = 0; i < nbatches; i++) {
		if (batches[i] <= 0)
			return fprintf(stderr, "usage: gpu_decode [8b|smollm2|demo] [BATCH...|prefill], found \"%s\"\n",
					   argv[first + i]),
				   2;
		most = MAX(most, batches[i]);
	}
	/* Everything is made for the largest batch. */
	rows = is_prefill ? PREFILL : most;
	context = is_prefill ? PREFILL / 4 : m->context;
	context_pages = context / OPS_PAGE + 2;

	struct ops_options options = {.adapter_columns = 64,
		.batch_invariant = invariant && *invariant == '1',
		.cuda_libs = getenv("HONE_CUDA_LIBS")};
	if (ops_open("cuda", &options, &o, &err)) return fprintf(stderr, "%s\n", err.text), 1;
	struct decoder d;
	uint64_t start = clock_ns();
	/* Weights and pages hold noise, as unlike zeros as a model's are. */
	noise_make((int64_t)m->s.V * m->s.C);
	decoder_make(&d, o, &m->s, rows, most, context_pages, most * context_pages, noise_linear);
	int64_t kv = 2 * (int64_t)m->s.layers * d.kv_pages * page_elems(&d) / 2;
	for (int64_t at = 0; at < kv; at += noise_count / 2)
		o->put_f32(o->ctx, (struct f32 *)((float *)(void *)d.kv + at), (const float *)(void *)noise,
			MIN(noise_count / 2, kv - at));
	wait(&d);
	printf("%s: weights and pages are there after %.1f s\n", m->name, (double)(clock_ns() - start) / 1e9);
	double rate = copy_rate(&d);
	printf("copy %.2f TB/s%s\n", rate, options.batch_invariant ? "; batch_invariant" : "");
	for (int i = 0; i < nbatches; i++) bench(&d, batches[i], rate);
	for (int sequences = 8; is_prefill && sequences >= 4; sequences /= 2) prefill(&d, sequences);
	decoder_free(&d);
	ops_free(o);
	return 0;
}
