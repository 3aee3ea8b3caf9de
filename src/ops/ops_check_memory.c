/* ops_check_memory: the device "check"'s memory, weights and choices (ops_check.c): the CPU's, with
 * values as a GPU would hold them, and every array held to what was allocated for it. */
#include "ops/ops_check_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include <stdlib.h>

static void *alloc(struct ops_context *ctx, size_t bytes)
{
	struct check *c = check_of(ctx);
	check_outside(c, "alloc");
	if (c->nblocks == c->blocks_cap) {
		c->blocks_cap = MAX(64, 2 * c->blocks_cap);
		c->blocks = xrealloc(c->blocks, (size_t)c->blocks_cap * sizeof *c->blocks);
	}
	char *p = c->inner->alloc(c->ctx, bytes);
	c->blocks[c->nblocks++] = (struct block){p, bytes};
	return p;
}

static void release(struct ops_context *ctx, void *p)
{
	struct check *c = check_of(ctx);
	check_outside(c, "release");
	if (!p) return;
	int i = 0;
	while (i < c->nblocks && c->blocks[i].begin != p) i++;
	CHECKF(i < c->nblocks, "released memory that was not allocated");
	const char *from = p, *to = from + c->blocks[i].bytes;
	c->blocks[i] = c->blocks[--c->nblocks];
	record_forget(&c->record, from, to);
	c->inner->release(c->ctx, p);
}

void check_room(const struct check *c, const char *name, const void *p, int64_t values)
{
	const char *at = p;
	for (int i = 0; i < c->nblocks; i++)
		if (at >= c->blocks[i].begin && at + values * (int64_t)sizeof(float) <= c->blocks[i].begin + c->blocks[i].bytes)
			return;
	CHECKF(false, "%s: %lld values do not lie in memory of alloc", name, (long long)values);
}

static void memory(struct ops_context *ctx, size_t *free_bytes, size_t *total)
{
	struct check *c = check_of(ctx);
	c->inner->memory(c->ctx, free_bytes, total);
}

static void zero(struct ops_context *ctx, void *p, size_t bytes)
{
	struct check *c = check_of(ctx);
	CALL(c, "zero", P(p), bytes);
	c->inner->zero(c->ctx, p, bytes);
}

void check_rounded(float *x, int64_t n)
{
	for (int64_t i = 0; i < n; i++) x[i] = bf16_to_f32(f32_to_bf16(x[i]));
}

static void put(struct ops_context *ctx, struct ops_weight *w, const void *host, enum dtype dtype)
{
	struct check *c = check_of(ctx);
	check_outside(c, "put");
	struct ops_weight plain = *w;
	int64_t n = (int64_t)w->rows * w->cols;
	plain.master = NULL;
	check_room(c, "put", w->w, n);
	c->inner->put(c->ctx, &plain, host, dtype);
	if (w->master) c->inner->put_f32(c->ctx, w->master, (const float *)w->w, n);
	check_rounded((float *)w->w, n);
}

static void get(struct ops_context *ctx, float *host, const struct ops_weight *w)
{
	struct check *c = check_of(ctx);
	check_outside(c, "get");
	const void *from = w->master ? (const void *)w->master : (const void *)w->w;
	c->inner->get_f32(c->ctx, host, from, (int64_t)w->rows * w->cols);
}

static void put_f32(struct ops_context *ctx, struct f32 *to, const float *host, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "put_f32");
	check_room(c, "put_f32", to, n);
	c->inner->put_f32(c->ctx, to, host, n);
}
static void get_f32(struct ops_context *ctx, float *host, const struct f32 *from, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "get_f32");
	check_room(c, "get_f32", from, n);
	c->inner->get_f32(c->ctx, host, from, n);
}
static void get_elem(struct ops_context *ctx, float *host, const struct elem *from, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "get_elem");
	c->inner->get_elem(c->ctx, host, from, n);
}
static void get_i32(struct ops_context *ctx, int32_t *host, const struct i32 *from, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "get_i32");
	check_room(c, "get_i32", from, n);
	c->inner->get_i32(c->ctx, host, from, n);
}

static void fetch_f32(struct ops_context *ctx, int slot, const struct f32 *from, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "fetch_f32");
	check_room(c, "fetch_f32", from, n);
	CHECKF(
		slot >= 0 && slot < OPS_FETCHES && !c->fetches[slot], "fetch_f32: slot %d holds what nobody has taken", slot);
	c->fetches[slot] = true;
	c->inner->fetch_f32(c->ctx, slot, from, n);
}
static void fetched_f32(struct ops_context *ctx, int slot, float *host, int64_t n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "fetched_f32");
	CHECKF(slot >= 0 && slot < OPS_FETCHES && c->fetches[slot], "fetched_f32: nothing was fetched in slot %d", slot);
	c->fetches[slot] = false;
	c->inner->fetched_f32(c->ctx, slot, host, n);
}

static void pages_copy(struct ops_context *ctx, struct elem *kv, int planes, int64_t plane, int64_t page,
	const int32_t *dst, const int32_t *src, int n)
{
	struct check *c = check_of(ctx);
	check_outside(c, "pages_copy");
	check_room(c, "pages_copy", kv, planes * plane);
	for (int i = 0; i < n; i++)
		for (int k = 0; k < n; k++)
			CHECKF(dst[i] != src[k] && (i == k || dst[i] != dst[k]), "pages_copy: page %d is written and %s", dst[i],
				dst[i] == src[k] ? "read" : "written again");
	c->inner->pages_copy(c->ctx, kv, planes, plane, page, dst, src, n);
}

static void prepare(struct ops_context *ctx, struct ops_linear *l)
{
	struct check *c = check_of(ctx);
	check_outside(c, "prepare");
	c->inner->prepare(c->ctx, l);
}
static void forget(struct ops_context *ctx, struct ops_linear *l)
{
	struct check *c = check_of(ctx);
	check_outside(c, "forget");
	c->inner->forget(c->ctx, l);
}
static void bind(struct ops_context *ctx, struct ops_linear *l, const struct ops_lora *lora)
{
	struct check *c = check_of(ctx);
	check_outside(c, "bind");
	tail_bind(&c->record, l, lora);
	c->inner->bind(c->ctx, l, lora);
}

/* A GPU's libraries choose; here the one choice is this table itself. */
static json_t *choices(struct ops_context *ctx)
{
	check_outside(check_of(ctx), "choices");
	return json_pack("{s:s, s:[]}", "library", "check", "products");
}
static int choices_set(struct ops_context *ctx, const json_t *file, struct err *err)
{
	const char *library = json_string_value(json_object_get(file, "library"));
	check_outside(check_of(ctx), "choices_set");
	if (library && !strcmp(library, "check")) return 0;
	return err_set(err, ERR_MISMATCH, "the algorithms of its products were chosen with %.120s, here it is check",
		library ? library : "an unknown library");
}

void check_memory_entries(struct ops *t)
{
	t->alloc = alloc;
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
