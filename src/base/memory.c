/* Allocation that cannot fail without saying so, and arenas.
 *
 * An arena is a list of blocks, the current one first; each block is one 64-byte aligned allocation
 * with its header in the first 64 bytes. Memory is zeroed when it is handed out, not when a block
 * is made: after a reset the block is dirty anyway, and one rule is easier to trust. HONE_POISON
 * builds fill what a reset takes back, so that a stale view shows. */
#include "base/base.h"
#include <stdlib.h>

#define ARENA_ALIGN 64
#define ARENA_BLOCK_MIN (64 * 1024)
#define ARENA_BLOCK_GROWTH_MAX ((size_t)64 * 1024 * 1024)
#define ARENA_POISON 0xdd

static void *must(void *p, size_t bytes)
{
	CHECKF(p,
		"out of memory: %zu bytes (%.1f MiB) were asked for; use a smaller batch or context, or a machine with more "
		"memory",
		bytes, (double)bytes / (1 << 20));
	return p;
}

size_t size_mul(size_t a, size_t b)
{
	size_t out;
	CHECKF(!__builtin_mul_overflow(a, b, &out), "%zu * %zu does not fit a size", a, b);
	return out;
}

void *xmalloc(size_t bytes) { return must(malloc(bytes ? bytes : 1), bytes); }

void *xcalloc(size_t count, size_t size)
{
	size_t bytes = size_mul(count, size);
	return must(calloc(bytes ? bytes : 1, 1), bytes);
}

void *xrealloc(void *p, size_t bytes) { return must(realloc(p, bytes ? bytes : 1), bytes); }

char *xstrndup(const char *s, size_t len)
{
	len = strnlen(s, len);
	char *copy = xmalloc(len + 1);
	memcpy(copy, s, len);
	copy[len] = 0;
	return copy;
}

char *xstrdup(const char *s) { return xstrndup(s, strlen(s)); }

static size_t format_len(const char *fmt, va_list ap)
{
	va_list copy;
	va_copy(copy, ap);
	int len = vsnprintf(NULL, 0, fmt, copy);
	va_end(copy);
	CHECKF(len >= 0, "format \"%s\" failed", fmt);
	return (size_t)len;
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	size_t len = format_len(fmt, ap);
	char *text = xmalloc(len + 1);
	vsnprintf(text, len + 1, fmt, ap);
	va_end(ap);
	return text;
}

/* ---- arena ---- */

struct arena_block {
	struct arena_block *next;
	size_t cap;  /* bytes, without the header's 64 */
	size_t used; /* bytes handed out, likewise */
};
_Static_assert(sizeof(struct arena_block) <= ARENA_ALIGN, "the header fits in front of the first allocation");

static uint8_t *block_data(struct arena_block *b) { return (uint8_t *)b + ARENA_ALIGN; }

static size_t round_up(size_t bytes)
{
	CHECKF(bytes <= SIZE_MAX / 2, "arena allocation of %zu bytes", bytes);
	return (bytes + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
}

static struct arena_block *block_add(struct arena *a, size_t bytes)
{
	size_t cap = a->blocks ? MIN(a->blocks->cap * 2, ARENA_BLOCK_GROWTH_MAX) : ARENA_BLOCK_MIN;
	cap = round_up(MAX(cap, bytes));
	struct arena_block *b = must(aligned_alloc(ARENA_ALIGN, ARENA_ALIGN + cap), cap);
	*b = (struct arena_block){.next = a->blocks, .cap = cap};
	a->blocks = b;
	return b;
}

void *arena_alloc(struct arena *a, size_t bytes)
{
	size_t need = round_up(bytes ? bytes : 1);
	struct arena_block *b = a->blocks;
	if (!b || b->cap - b->used < need) b = block_add(a, need);
	uint8_t *p = block_data(b) + b->used;
	b->used += need;
	a->used_bytes += need;
	return memset(p, 0, need);
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	len = strnlen(s, len);
	char *copy = arena_alloc(a, len + 1);
	memcpy(copy, s, len);
	return copy;
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = a->blocks;
	for (struct arena_block *b = a->blocks; b; b = b->next)
		if (b->cap > keep->cap) keep = b;
	for (struct arena_block *b = a->blocks, *next; b; b = next) {
		next = b->next;
		if (b != keep) free(b);
	}
	if (keep) {
#ifdef HONE_POISON
		memset(block_data(keep), ARENA_POISON, keep->used);
#endif
		keep->used = 0;
		keep->next = NULL;
	}
	*a = (struct arena){.blocks = keep};
}

void arena_release(struct arena *a)
{
	for (struct arena_block *b = a->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct arena){0};
}
