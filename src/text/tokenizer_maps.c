/* The tokenizer's hash tables and the byte alphabet. Open addressing at a load of at most one half:
 * no deletion, no growth while encoding. */
#include "text/tokenizer_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>

/* ---- the byte alphabet ---- GPT-2's: bytes that print as one Latin-1 character stand for
 * themselves, the others take the characters from U+0100 on in order. */

static bool prints(unsigned byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

uint32_t alphabet_char(uint8_t byte)
{
	if (prints(byte)) return byte;
	uint32_t n = 0;
	for (unsigned b = 0; b < byte; b++) n += !prints(b);
	return 256 + n;
}

static int alphabet_byte(uint32_t c)
{
	if (c < 256) return prints(c) ? (int)c : -1;
	/* The 68 others are 0-32, 127-160 and 173. */
	uint32_t n = c - 256;
	if (n < 33) return (int)n;
	if (n < 67) return (int)(n - 33 + 127);
	return n == 67 ? 173 : -1;
}

bool alphabet_decode(const char *spelling, size_t len, struct str *out)
{
	size_t start = out->len;
	for (size_t i = 0; i < len;) {
		uint32_t c;
		i += utf8_next((const uint8_t *)spelling + i, &c);
		int byte = alphabet_byte(c);
		if (byte < 0) {
			out->len = start;
			return false;
		}
		str_putc(out, (char)byte);
	}
	return true;
}

void alphabet_encode(const char *bytes, size_t len, struct str *out)
{
	for (size_t i = 0; i < len; i++) {
		char c[4];
		str_append(out, c, utf8_put(alphabet_char((uint8_t)bytes[i]), c));
	}
}

/* ---- words ---- */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	unsigned __int128 m = (unsigned __int128)a * b;
	return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static inline uint64_t read64(const char *p)
{
	uint64_t v;
	memcpy(&v, p, 8);
	return v;
}
static inline uint64_t read32(const char *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}

/* After wyhash: 16 bytes a product of 128 bits; a shorter rest is read so that its ends overlap. */
static uint32_t word_hash(const char *p, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15u, a, b = 0;
	for (; len > 16; p += 16, len -= 16)
		h = mix(h ^ read64(p) ^ 0xa0761d6478bd642fu, read64(p + 8) ^ 0xe7037ed1a0b428dbu);
	if (len >= 8) {
		a = read64(p);
		b = read64(p + len - 8);
	} else if (len >= 4) {
		a = read32(p);
		b = read32(p + len - 4);
	} else {
		a = len ? (uint64_t)(uint8_t)p[0] | (uint64_t)(uint8_t)p[len / 2] << 8 | (uint64_t)(uint8_t)p[len - 1] << 16
				: 0;
	}
	h = mix(h ^ a ^ 0xa0761d6478bd642fu, b ^ 0xe7037ed1a0b428dbu);
	return (uint32_t)(h ^ h >> 32);
}

static size_t table_size(size_t count)
{
	size_t size = 16;
	while (size < count * 2) size *= 2;
	return size;
}

static void word_map_place(struct word_map *m, struct word_slot slot)
{
	uint32_t i = slot.hash & m->mask;
	while (m->slots[i].id >= 0) i = (i + 1) & m->mask;
	m->slots[i] = slot;
}

void word_map_reserve(struct word_map *m, size_t count)
{
	size_t size = table_size(count), old_size = m->slots ? (size_t)m->mask + 1 : 0;
	if (size <= old_size) return;
	struct word_slot *old = m->slots;
	m->slots = xmalloc(size_mul(size, sizeof(*m->slots)));
	for (size_t i = 0; i < size; i++) m->slots[i].id = -1;
	m->mask = (uint32_t)(size - 1);
	for (size_t i = 0; i < old_size; i++)
		if (old[i].id >= 0) word_map_place(m, old[i]);
	free(old);
}

void word_map_insert(struct word_map *m, const char *pool, uint32_t offset, uint32_t len, int32_t id)
{
	word_map_reserve(m, (size_t)m->count + 1);
	word_map_place(
		m, (struct word_slot){.hash = word_hash(pool + offset, len), .offset = offset, .len = len, .id = id});
	m->count++;
}

const struct word_slot *word_map_find(const struct word_map *m, const char *pool, const char *p, size_t len)
{
	if (!m->slots) return NULL;
	uint32_t hash = word_hash(p, len);
	for (uint32_t i = hash & m->mask;; i = (i + 1) & m->mask) {
		const struct word_slot *s = &m->slots[i];
		if (s->id < 0) return NULL;
		if (s->hash == hash && s->len == len && !memcmp(pool + s->offset, p, len)) return s;
	}
}

/* ---- merges ---- */

static void merge_map_place(struct merge_map *m, struct merge_slot slot)
{
	uint64_t key = (uint64_t)(uint32_t)slot.left << 32 | (uint32_t)slot.right;
	uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> m->shift);
	while (m->slots[i].left >= 0) i = (i + 1) & m->mask;
	m->slots[i] = slot;
}

void merge_map_reserve(struct merge_map *m, size_t count)
{
	size_t size = table_size(count), old_size = m->slots ? (size_t)m->mask + 1 : 0;
	if (size <= old_size) return;
	struct merge_slot *old = m->slots;
	m->slots = xmalloc(size_mul(size, sizeof(*m->slots)));
	for (size_t i = 0; i < size; i++) m->slots[i].left = m->slots[i].right = -1;
	m->mask = (uint32_t)(size - 1);
	m->shift = 64 - (uint32_t)__builtin_ctzll(size);
	for (size_t i = 0; i < old_size; i++)
		if (old[i].left >= 0) merge_map_place(m, old[i]);
	free(old);
}

void merge_map_put(struct merge_map *m, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
	struct merge_slot slot = {.left = left, .right = right, .rank = rank, .id = id},
					  *s = (struct merge_slot *)merge_map_find(m, left, right);
	if (s) {
		*s = slot;
		return;
	}
	merge_map_reserve(m, (size_t)++m->count);
	merge_map_place(m, slot);
}
