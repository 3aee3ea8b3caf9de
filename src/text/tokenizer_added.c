/* Added tokens: strings that are tokens wherever they stand in the text. A byte trie finds the
 * leftmost longest; its edges live in one hash table, so thousands of tokens with a common start
 * cost no more than one. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include <stdlib.h>

static uint32_t edge_slot(const struct added_set *s, uint32_t key)
{
	uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & s->mask;
	while (s->edges[i].child && s->edges[i].key != key) i = (i + 1) & s->mask;
	return i;
}

static void grow_edges(struct added_set *s)
{
	uint32_t old_size = s->edges ? s->mask + 1 : 0, size = old_size ? old_size * 2 : 64;
	struct added_edge *old = s->edges;
	s->edges = xcalloc(size, sizeof(*s->edges));
	s->mask = size - 1;
	for (uint32_t i = 0; i < old_size; i++)
		if (old[i].child) s->edges[edge_slot(s, old[i].key)] = old[i];
	free(old);
}

static uint32_t new_node(struct added_set *s)
{
	if (s->nnodes == s->nodes_cap) {
		s->nodes_cap = s->nodes_cap ? s->nodes_cap * 2 : 64;
		s->node_item = xrealloc(s->node_item, size_mul(s->nodes_cap, sizeof(*s->node_item)));
	}
	s->node_item[s->nnodes] = -1;
	return s->nnodes++;
}

void added_insert(struct added_set *s, const struct added *item, const char *content, size_t len)
{
	CHECK(len > 0);
	if (!s->nnodes) new_node(s);
	s->items = xrealloc(s->items, size_mul((size_t)s->count + 1, sizeof(*s->items)));
	s->items[s->count] = *item;
	s->first[(uint8_t)content[0]] = true;
	uint32_t node = 0;
	for (size_t i = 0; i < len; i++) {
		if (!s->edges || s->nedges * 2 > s->mask) grow_edges(s);
		uint32_t key = node << 8 | (uint8_t)content[i], slot = edge_slot(s, key);
		if (!s->edges[slot].child) {
			s->edges[slot] = (struct added_edge){key, new_node(s)};
			s->nedges++;
		}
		node = s->edges[slot].child;
	}
	s->node_item[node] = s->count++;
}

int added_find(const struct added_set *s, const char *text, size_t len, size_t from, size_t *begin, size_t *end)
{
	if (!s->count) return -1;
	for (size_t i = from; i < len; i++) {
		if (!s->first[(uint8_t)text[i]]) continue;
		uint32_t node = 0;
		int best = -1;
		for (size_t j = i; j < len; j++) {
			node = s->edges[edge_slot(s, node << 8 | (uint8_t)text[j])].child;
			if (!node) break;
			if (s->node_item[node] >= 0) {
				best = s->node_item[node];
				*end = j + 1;
			}
		}
		if (best >= 0) {
			*begin = i;
			return best;
		}
	}
	return -1;
}

void added_release(struct added_set *s)
{
	free(s->items);
	free(s->edges);
	free(s->node_item);
	*s = (struct added_set){0};
}
