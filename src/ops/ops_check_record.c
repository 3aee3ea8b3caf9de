/* The record keeps hashes alone: a call is its name and a hash of its arguments, and who a row was
 * written for is a hash of the linear's and the adapter's pointers and sizes. B is hashed by its
 * values, because learning changes them in place. */
#include "ops/ops_check_record.h"
#include "base/base.h"
#include <stdlib.h>

void record_init(struct check_record *c) { *c = (struct check_record){.current = -1}; }

static void regions_forget(struct check_record *c)
{
	for (int i = 0; i < c->nregions; i++) {
		free(c->regions[i].calls);
		free(c->regions[i].names);
	}
	c->nregions = 0;
}

void record_release(struct check_record *c)
{
	regions_forget(c);
	free(c->regions);
	free(c->tails);
}

void record_forget(struct check_record *c, const char *from, const char *to)
{
	regions_forget(c);
	for (int k = c->ntails; k-- > 0;) {
		const char *of = c->tails[k].of;
		if (of >= from && of < to) c->tails[k] = c->tails[--c->ntails];
	}
}

/* ---- regions ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9E3779B97F4A7C15u;
	return h ^ h >> 29;
}

void record_call(struct check_record *c, const char *name, const uint64_t *args, size_t n)
{
	if (c->current < 0) return;
	struct region *r = &c->regions[c->current];
	uint64_t h = 1;
	for (size_t i = 0; i < n; i++) h = mix(h, args[i]);
	if (c->is_new) {
		if (r->count == r->cap) {
			r->cap = MAX(64, 2 * r->cap);
			r->calls = xrealloc(r->calls, (size_t)r->cap * sizeof *r->calls);
			r->names = xrealloc(r->names, (size_t)r->cap * sizeof *r->names);
		}
		r->names[r->count] = name;
		r->calls[r->count++] = h;
		return;
	}
	CHECKF(c->at < r->count, "region %016llx: call %d is %s, the first time there were %d calls",
		(unsigned long long)r->key, c->at, name, r->count);
	CHECKF(!strcmp(r->names[c->at], name) && r->calls[c->at] == h,
		"region %016llx: call %d is %s, the first time it was %s; or its pointers or sizes differ",
		(unsigned long long)r->key, c->at, name, r->names[c->at]);
	c->at++;
}

void record_outside(const struct check_record *c, const char *name)
{
	CHECKF(c->current < 0, "%s stands inside a region that repeats", name);
}

void record_begin(struct check_record *c, uint64_t key)
{
	record_outside(c, "begin");
	int i = 0;
	while (i < c->nregions && c->regions[i].key != key) i++;
	c->is_new = i == c->nregions;
	if (c->is_new) {
		if (c->nregions == c->regions_cap) {
			c->regions_cap = MAX(16, 2 * c->regions_cap);
			c->regions = xrealloc(c->regions, (size_t)c->regions_cap * sizeof *c->regions);
		}
		c->regions[c->nregions++] = (struct region){.key = key};
	}
	c->current = i;
	c->at = 0;
}

void record_end(struct check_record *c)
{
	CHECK(c->current >= 0);
	const struct region *r = &c->regions[c->current];
	CHECKF(c->is_new || c->at == r->count, "region %016llx: %d calls, the first time there were %d",
		(unsigned long long)r->key, c->at, r->count);
	c->current = -1;
}

uint64_t hash_linear(const struct ops_linear *l)
{
	uint64_t h = mix(N(l->in), N(l->out));
	for (int i = 0; i < l->parts; i++) h = mix(mix(h, P(l->w[i].w)), P(l->bias[i].w));
	return h;
}
uint64_t hash_lora(const struct ops_lora *l)
{
	uint64_t h = l ? mix(N(l->r), l->seed) : 0;
	for (int i = 0; l && i < OPS_PARTS; i++) h = mix(mix(h, P(l->a[i].w)), P(l->b[i].w));
	return h;
}
uint64_t hash_next(const struct ops_next *n) { return n ? mix(hash_linear(n->linear), hash_lora(n->lora)) : 0; }
uint64_t hash_heads(const struct ops_heads *h)
{
	return mix(mix(mix(N(h->NH), N(h->NKV)), P(h->rope)), h->q_norm ? P(h->q_norm->w) : 0);
}

/* Of B's values: learning changes them. */
static uint64_t hash_values(const struct ops_lora *l)
{
	uint64_t h = l ? 1 : 0;
	for (int i = 0; l && i < OPS_PARTS; i++)
		for (int64_t k = 0; l->b[i].w && k < (int64_t)l->b[i].rows * l->b[i].cols; k++) {
			uint32_t bits;
			memcpy(&bits, (const float *)l->b[i].w + k, sizeof bits);
			h = mix(h, bits);
		}
	return h;
}

/* ---- tails ---- */

static struct tail *tail_at(struct check_record *c, const void *of)
{
	for (int i = 0; i < c->ntails; i++)
		if (c->tails[i].of == of) return &c->tails[i];
	if (c->ntails == c->tails_cap) {
		c->tails_cap = MAX(64, 2 * c->tails_cap);
		c->tails = xrealloc(c->tails, (size_t)c->tails_cap * sizeof *c->tails);
	}
	c->tails[c->ntails] = (struct tail){.of = of};
	return &c->tails[c->ntails++];
}

void tail_write(struct check_record *c, const void *x, const struct ops_next *next)
{
	tail_at(c, x)->hash = hash_next(next);
}

void tail_bind(struct check_record *c, const struct ops_linear *l, const struct ops_lora *lora)
{
	tail_at(c, l)->hash = hash_values(lora);
}

void tail_read(struct check_record *c, const void *x, const struct ops_linear *l, const struct ops_lora *lora)
{
	CHECKF(tail_at(c, x)->hash == hash_next(&(struct ops_next){l, lora}),
		"linear: its input was written for another linear or adapter");
	CHECKF(tail_at(c, l)->hash == hash_values(lora), "linear: the adapter's B, as it is now, was not bound to it");
}
