/* rebuild_cache: kernels whose IR a clean process found to be their source's (rebuild_step.c).
 *
 * An IR depends on its recipe and on the text up to the statement behind the kernel's last function,
 * which the clean process names as a line; so a text that begins with the same lines, and claims the
 * same IR for the same recipe, need not be asked about again: the same source at other sizes, or the
 * same kernel under other host code. For such a text the IR itself is kept too, and given to its
 * tracer beforehand: by the same recipe the front end would make the same again. What the tracer
 * says stays a claim. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <pthread.h>
#include <stdlib.h>

#define KNOWN 8192             /* claims; power of two */
#define HEADS 512              /* beginnings of texts whose kernels are kept; power of two */
#define HEAD_KERNELS 16
#define HEAD_BYTES_MAX ((size_t)128 << 10) /* of recipes and IR behind one beginning */
#define HEADS_PER_TEXT 16      /* beginnings of one text that are looked at in full */

/* A kernel that was found right: what is claimed, and the lines of text that it was found right with. */
struct known {
	struct sha256_hex claim;
	struct sha256_hex text;
	int until; /* lines; 0: all */
};
/* The beginning of a text, and the kernels that were made of it. */
struct head {
	uint64_t sum; /* of its bytes: where it lies in the table, and a first comparison */
	int until;    /* lines; 0: all of a text */
	struct sha256_hex text;
	struct sha256_hex who;      /* card and versions */
	char *recipe[HEAD_KERNELS]; /* (count) heap */
	char *ttir[HEAD_KERNELS];   /* (count) heap */
	int count;
	size_t bytes;
};
struct rebuild_cache {
	struct known known[KNOWN];
	struct head heads[HEADS];
	pthread_mutex_t lock;
};

struct rebuild_cache *rebuild_cache_create(void)
{
	struct rebuild_cache *c = xcalloc(1, sizeof *c);
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

static void head_release(struct head *h)
{
	for (int i = 0; i < h->count; i++) {
		free(h->recipe[i]);
		free(h->ttir[i]);
	}
	*h = (struct head){0};
}

void rebuild_cache_free(struct rebuild_cache *c)
{
	if (!c) return;
	for (int i = 0; i < HEADS; i++) head_release(&c->heads[i]);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- claims ---- */

static struct sha256_hex who_of(const struct grading *g)
{
	char arch[16];
	snprintf(arch, sizeof arch, "%d", g->s->gpu.capability);
	struct slice parts[] = {{arch, strlen(arch)}, {g->s->versions, strlen(g->s->versions)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* What a kernel's rightness depends on beside the text: what the tape claims, and who checks it. */
static struct sha256_hex claim_of(const struct grading *g, const struct tape_kernel *k)
{
	struct sha256_hex who = who_of(g);
	struct slice parts[] = {{who.text, strlen(who.text)}, {k->hash.text, strlen(k->hash.text)},
		{k->name, strlen(k->name)}, {k->source, strlen(k->source)}};
	return hash_parts(parts, ARRAY_LEN(parts));
}

/* The bytes of the candidate's first `until` lines, their ends included; 0: of all. */
static size_t head_len(const struct grading *g, int until)
{
	size_t len = until ? 0 : g->source_len;
	for (int line = 0; line < until && len < g->source_len; line++) {
		const char *end = memchr(g->source + len, '\n', g->source_len - len);
		len = end ? (size_t)(end - g->source) + 1 : g->source_len;
	}
	return len;
}

/* Direct-mapped: a collision only evicts. */
static struct known *slot(struct rebuild_cache *c, const struct sha256_hex *key)
{
	unsigned at = 0;
	for (int i = 0; i < 8; i++)
		at = at * 16 + (unsigned)(key->text[i] <= '9' ? key->text[i] - '0' : key->text[i] - 'a' + 10);
	return &c->known[at % KNOWN];
}

bool rebuild_is_known(const struct grading *g, const struct tape_kernel *k)
{
	struct rebuild_cache *c = g->s->rebuilds;
	struct sha256_hex claim = claim_of(g, k);
	pthread_mutex_lock(&c->lock);
	struct known e = *slot(c, &claim);
	pthread_mutex_unlock(&c->lock);
	if (strcmp(e.claim.text, claim.text)) return false;
	struct sha256_hex text = hash_bytes(g->source, head_len(g, e.until));
	return !strcmp(e.text.text, text.text);
}

/* ---- beginnings of texts ---- */

static uint64_t sum_more(uint64_t sum, unsigned char byte) { return (sum ^ byte) * 0x100000001b3u; }

static struct head *head_slot(struct rebuild_cache *c, uint64_t sum) { return &c->heads[(sum ^ sum >> 32) % HEADS]; }

/* With the lock: one more kernel behind a beginning, where there is room. */
static void head_add(struct head *h, const struct tape_kernel *k)
{
	size_t bytes = strlen(k->source) + k->ttir_len;
	if (memchr(k->ttir, 0, k->ttir_len)) return; /* it goes into a text */
	if (h->count == HEAD_KERNELS || h->bytes + bytes > HEAD_BYTES_MAX) return;
	for (int i = 0; i < h->count; i++)
		if (!strcmp(h->recipe[i], k->source)) return;
	h->recipe[h->count] = xstrdup(k->source);
	h->ttir[h->count++] = xstrndup(k->ttir, k->ttir_len);
	h->bytes += bytes;
}

void rebuild_known_add(const struct grading *g, const struct tape_kernel *k, int until)
{
	struct rebuild_cache *c = g->s->rebuilds;
	size_t len = head_len(g, until);
	struct known e = {.claim = claim_of(g, k), .text = hash_bytes(g->source, len), .until = until};
	uint64_t sum = 0;
	for (size_t i = 0; i < len; i++) sum = sum_more(sum, (unsigned char)g->source[i]);
	struct sha256_hex who = who_of(g);
	pthread_mutex_lock(&c->lock);
	*slot(c, &e.claim) = e;
	/* Another beginning in the same place gives way. */
	struct head *h = head_slot(c, sum);
	if (h->sum != sum || h->until != until || strcmp(h->text.text, e.text.text) || strcmp(h->who.text, who.text)) {
		head_release(h);
		*h = (struct head){.sum = sum, .until = until, .text = e.text, .who = who};
	}
	head_add(h, k);
	pthread_mutex_unlock(&c->lock);
}

/* The kernels of one beginning of the text, if it is one that is kept. */
static bool head_take(const struct grading *g, uint64_t sum, size_t len, int until, json_t *out)
{
	struct rebuild_cache *c = g->s->rebuilds;
	pthread_mutex_lock(&c->lock);
	struct head *h = head_slot(c, sum);
	bool is_near = h->count && h->sum == sum && h->until == until;
	if (is_near) {
		/* The sum is quick and says nothing: the hashes do. */
		struct sha256_hex text = hash_bytes(g->source, len), who = who_of(g);
		bool is_same = !strcmp(text.text, h->text.text) && !strcmp(who.text, h->who.text);
		for (int i = 0; i < h->count && is_same; i++)
			json_array_append_new(out, json_pack("[s, s]", h->recipe[i], h->ttir[i]));
	}
	pthread_mutex_unlock(&c->lock);
	return is_near;
}

json_t *rebuild_known_kernels(const struct grading *g)
{
	json_t *out = json_array();
	uint64_t sum = 0;
	int line = 0, looked = 0;
	/* A beginning ends with the first line of a top-level statement, so only at such lines one is looked for; and at
	 * the text's end. */
	for (size_t i = 0, start = 0; i < g->source_len && looked < HEADS_PER_TEXT; i++) {
		sum = sum_more(sum, (unsigned char)g->source[i]);
		if (i + 1 == g->source_len) looked += head_take(g, sum, i + 1, 0, out);
		if (g->source[i] != '\n') continue;
		line++;
		if (!strchr(" \t\n#)]}", g->source[start])) looked += head_take(g, sum, i + 1, line, out);
		start = i + 1;
	}
	return out;
}
