/* stage_memory: memory, weights in and out, KV pages. elem and f32 are float and the device is the
 * host, so a weight's master is the weight itself, or there is none. */
#include <stdlib.h>
#include <unistd.h>
#include "ops_cpu.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tensor/tensor.h"

#define ALIGNMENT 256

void *cpu_alloc(struct ops_context *c, size_t bytes)
{
	size_t rounded = (MAX(bytes, 1) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	void *p = aligned_alloc(ALIGNMENT, rounded);
	CHECKF(p, "out of memory: %zu bytes for a tensor", bytes);
	memset(p, 0, rounded);
	return p;
}

static void release(struct ops_context *c, void *p) { free(p); }

static void memory(struct ops_context *c, size_t *free_bytes, size_t *total_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	*free_bytes = (size_t)sysconf(_SC_AVPHYS_PAGES) * page;
	*total_bytes = (size_t)sysconf(_SC_PHYS_PAGES) * page;
	if (c->memory_cap) *free_bytes = MIN(*free_bytes, c->memory_cap), *total_bytes = MIN(*total_bytes, c->memory_cap);
}

static void zero(struct ops_context *c, void *p, size_t bytes)
{
	if (bytes) memset(p, 0, bytes);
}

static size_t weight_count(const struct ops_weight *w)
{
	CHECKF(w->ld == w->cols, "a weight of %d columns with %lld elements from row to row", w->cols, (long long)w->ld);
	CHECK(!w->master || (const void *)w->master == (const void *)w->w);
	return size_mul((size_t)w->rows, (size_t)w->cols);
}

static void put(struct ops_context *c, struct ops_weight *w, const void *host, enum dtype dtype)
{
	struct tensor_info t = {
		.name = "weight", .dtype = dtype, .data = host, .bytes = size_mul(weight_count(w), dtype_bytes(dtype))};
	tensor_to_f32(&t, FLOATS(w->w));
}

static void get(struct ops_context *c, float *host, const struct ops_weight *w)
{
	memcpy(host, w->w, weight_count(w) * sizeof *host);
}

static void floats_move(void *to, const void *from, int64_t n)
{
	if (n > 0) memcpy(to, from, (size_t)n * sizeof(float));
}
static void put_f32(struct ops_context *c, struct f32 *to, const float *host, int64_t n) { floats_move(to, host, n); }
static void get_f32(struct ops_context *c, float *host, const struct f32 *from, int64_t n)
{
	floats_move(host, from, n);
}
static void get_elem(struct ops_context *c, float *host, const struct elem *from, int64_t n)
{
	floats_move(host, from, n);
}
static void get_i32(struct ops_context *c, int32_t *host, const struct i32 *from, int64_t n)
{
	if (n > 0) memcpy(host, from, (size_t)n * sizeof *host);
}

/* Nothing goes on beside the host here: the values are kept until they are asked for. */
static void fetch_f32(struct ops_context *c, int slot, const struct f32 *from, int64_t n)
{
	CHECK(slot >= 0 && slot < OPS_FETCHES && n >= 0 && n <= OPS_FETCH_MAX);
	if (n > c->fetched_n[slot]) c->fetched[slot] = xrealloc(c->fetched[slot], (size_t)n * sizeof(float));
	c->fetched_n[slot] = MAX(c->fetched_n[slot], n);
	floats_move(c->fetched[slot], from, n);
}
static void fetched_f32(struct ops_context *c, int slot, float *host, int64_t n)
{
	CHECK(slot >= 0 && slot < OPS_FETCHES && n <= c->fetched_n[slot]);
	floats_move(host, c->fetched[slot], n);
}

static void pages_copy(struct ops_context *c, struct elem *kv, int planes, int64_t plane, int64_t page,
	const int32_t *dst, const int32_t *src, int n)
{
	for (int p = 0; p < planes; p++) {
		float *pages = FLOATS(kv) + p * plane;
		for (int i = 0; i < n; i++) memcpy(pages + dst[i] * page, pages + src[i] * page, (size_t)page * sizeof *pages);
	}
}

static void prepare(struct ops_context *c, struct ops_linear *l)
{
	for (int i = 0; i < l->parts; i++) c->f.prepare(c, CONST_FLOATS(l->w[i].w), l->w[i].rows, l->in);
}

static void forget(struct ops_context *c, struct ops_linear *l)
{
	for (int i = 0; i < l->parts; i++) c->f.forget(c, CONST_FLOATS(l->w[i].w));
}

/* ---- memory of the thin products ---- */

void thin_release(struct ops_context *c)
{
	free(c->thin.x);
	free(c->thin.h);
	free(c->thin.dh);
	c->thin.x = c->thin.h = c->thin.dh = NULL;
}

void thin_reserve(struct ops_context *c, int rows, int in, int r)
{
	struct thin *t = &c->thin;
	if (rows <= t->rows && in <= t->in && r <= t->r) return;
	t->rows = MAX(t->rows, rows);
	t->in = MAX(t->in, in);
	t->r = MAX(t->r, r);
	thin_release(c);
	size_t n = (size_t)t->rows * sizeof(float);
	if (t->in) t->x = cpu_alloc(c, size_mul(n, (size_t)t->in));
	if (!t->r) return;
	t->h = cpu_alloc(c, size_mul(n, (size_t)t->r));
	t->dh = cpu_alloc(c, size_mul(n, (size_t)t->r));
}

/* There are no tail columns: B is read where it lies. What a linear will need is known here. */
static void bind(struct ops_context *c, struct ops_linear *l, const struct ops_lora *lora)
{
	if (lora) thin_reserve(c, 0, lora->dropout > 0 ? l->in : 0, lora->r);
}

/* One machine computes one way, whatever it is asked first. */
static json_t *choices(struct ops_context *c) { return NULL; }
static int choices_set(struct ops_context *c, const json_t *file, struct err *err)
{
	return err_set(err, ERR_MISMATCH, "the algorithms of its products were chosen on a GPU, this device is cpu");
}

void stage_memory_entries(struct ops *t)
{
	t->alloc = cpu_alloc;
	t->release = release;
	t->memory = memory;
	t->zero = zero;
	t->put = put;
	t->get = get;
	t->put_f32 = put_f32;
	t->get_f32 = get_f32;
	t->get_elem = get_elem;
	t->get_i32 = get_i32;
	t->fetch_f32 = fetch_f32;
	t->fetched_f32 = fetched_f32;
	t->pages_copy = pages_copy;
	t->prepare = prepare;
	t->forget = forget;
	t->bind = bind;
	t->choices = choices;
	t->choices_set = choices_set;
}
