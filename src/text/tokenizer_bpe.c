/* Byte pair merging: of all adjacent pairs that have a merge, the one of lowest rank first, the
 * leftmost on ties, until none is left.
 *
 * Words are short, so the plain way is the fast one: keep the ranks of the pairs in an array, take
 * the smallest, close the gap. That is quadratic, and a word may be as long as the text (a megabyte
 * of letters), so from SHORT_MAX on a heap of pairs takes over. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include <stdlib.h>

#define SHORT_MAX 96
#define NO_RANK UINT32_MAX

/* One symbol of a long word: ids in a doubly linked list over the original positions. */
struct bpe_node {
	int32_t id;
	int32_t pair_id; /* token that it and its next one merge to */
	uint32_t rank;   /* of that merge; NO_RANK: there is none */
	uint32_t prev;
	uint32_t next;
};

/* The ids that the bytes of a word start with; returns their count (at most len). */
static size_t start_ids(const struct tokenizer *t, const char *word, size_t len, int32_t *ids, size_t stride)
{
	size_t n = 0;
	bool unknown = false; /* the last byte was one */
	for (size_t i = 0; i < len; i++) {
		int32_t id = t->byte_id[(uint8_t)word[i]];
		bool known = id >= 0;
		if (!known && (t->unk_id < 0 || (unknown && t->fuse_unk))) {
			unknown = true;
			continue;
		}
		*(int32_t *)(void *)((char *)ids + n++ * stride) = known ? id : t->unk_id;
		unknown = !known;
	}
	return n;
}

static inline void pair_rank(const struct tokenizer *t, int32_t left, int32_t right, uint32_t *rank, int32_t *id)
{
	const struct merge_slot *m = merge_map_find(&t->merges, left, right);
	*rank = m ? m->rank : NO_RANK;
	*id = m ? m->id : -1;
}

static void merge_short(const struct tokenizer *t, const char *word, size_t len, struct ids *out)
{
	int32_t ids[SHORT_MAX], pair_ids[SHORT_MAX];
	uint32_t ranks[SHORT_MAX];
	size_t n = start_ids(t, word, len, ids, sizeof(*ids));
	for (size_t i = 0; i + 1 < n; i++) pair_rank(t, ids[i], ids[i + 1], &ranks[i], &pair_ids[i]);
	while (n > 1) {
		size_t best = 0;
		for (size_t i = 1; i + 1 < n; i++)
			if (ranks[i] < ranks[best]) best = i;
		if (ranks[best] == NO_RANK) break;
		ids[best] = pair_ids[best];
		n--;
		for (size_t i = best + 1; i < n; i++) {
			ids[i] = ids[i + 1];
			ranks[i] = ranks[i + 1];
			pair_ids[i] = pair_ids[i + 1];
		}
		if (best + 1 < n) pair_rank(t, ids[best], ids[best + 1], &ranks[best], &pair_ids[best]);
		if (best > 0) pair_rank(t, ids[best - 1], ids[best], &ranks[best - 1], &pair_ids[best - 1]);
	}
	for (size_t i = 0; i < n; i++) ids_push(out, ids[i]);
}

/* ---- long words: a binary heap of (rank, position); stale entries are skipped ---- */

static void heap_push(uint64_t *heap, size_t *count, uint64_t key)
{
	size_t i = (*count)++;
	for (; i > 0 && key < heap[(i - 1) / 2]; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
	heap[i] = key;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count)
{
	uint64_t top = heap[0], last = heap[--*count];
	size_t i = 0;
	for (size_t child; (child = 2 * i + 1) < *count; i = child) {
		if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
		if (last <= heap[child]) break;
		heap[i] = heap[child];
	}
	heap[i] = last;
	return top;
}

static void rank_node(struct bpe *b, size_t n, uint32_t at, size_t *heap_count)
{
	struct bpe_node *s = b->nodes;
	s[at].rank = NO_RANK;
	if (s[at].next >= n) return;
	pair_rank(b->t, s[at].id, s[s[at].next].id, &s[at].rank, &s[at].pair_id);
	if (s[at].rank != NO_RANK) heap_push(b->heap, heap_count, (uint64_t)s[at].rank << 32 | at);
}

static void reserve(struct bpe *b, size_t len)
{
	if (b->cap >= len) return;
	b->cap = MAX(len, b->cap * 2);
	b->nodes = xrealloc(b->nodes, size_mul(b->cap, sizeof(*b->nodes)));
	/* The pairs of the start and at most two more for each merge. */
	b->heap = xrealloc(b->heap, size_mul(b->cap, 3 * sizeof(*b->heap)));
}

static void merge_long(struct bpe *b, const char *word, size_t len)
{
	CHECKF(len < UINT32_MAX, "a word of %zu bytes", len);
	reserve(b, len);
	struct bpe_node *s = b->nodes;
	size_t n = start_ids(b->t, word, len, &s[0].id, sizeof(*s)), heap_count = 0;
	for (size_t i = 0; i < n; i++) {
		s[i].prev = (uint32_t)i - 1; /* of the first: past any n */
		s[i].next = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < n; i++) rank_node(b, n, (uint32_t)i, &heap_count);
	while (heap_count) {
		uint64_t top = heap_pop(b->heap, &heap_count);
		uint32_t at = (uint32_t)top;
		if (s[at].rank != top >> 32) continue;
		uint32_t gone = s[at].next;
		s[at].id = s[at].pair_id;
		s[at].next = s[gone].next;
		s[gone].rank = NO_RANK;
		if (s[at].next < n) s[s[at].next].prev = at;
		rank_node(b, n, at, &heap_count);
		if (s[at].prev < n) rank_node(b, n, s[at].prev, &heap_count);
	}
	for (size_t i = 0; i < n; i = s[i].next) ids_push(b->out, s[i].id);
}

void bpe_merge_word(struct bpe *b, const char *word, size_t len)
{
	if (len <= SHORT_MAX) merge_short(b->t, word, len, b->out);
	else merge_long(b, word, len);
}

void bpe_release(struct bpe *b)
{
	free(b->nodes);
	free(b->heap);
	b->nodes = NULL;
	b->heap = NULL;
	b->cap = 0;
}
