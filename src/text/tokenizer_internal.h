/* tokenizer_internal: what the tokenizer's files share.
 *
 *   text -> added tokens cut out (added) -> NFC (nfc) -> stages: digits, regular expression (split)
 *   -> words -> ids (bpe over maps)
 *
 * Words are raw bytes all the way. The alphabet in which tokenizer.json spells bytes (a printable
 * character for each of the 256) is undone when the file is read and appears again only when a
 * trained tokenizer is written. */
#ifndef HONE_TEXT_TOKENIZER_INTERNAL_H
#define HONE_TEXT_TOKENIZER_INTERNAL_H
#include "base/base.h"
#include "text/text.h"
#include <stdatomic.h>

#define TOKENIZER_IDS_MAX (1 << 21)
#define TOKENIZER_FILE_BYTES_MAX ((size_t)256 << 20)
#define TOKENIZER_TEXT_BYTES_MAX (64 << 20)    /* one call; a single word of that size takes 44 times as much scratch */
#define TOKENIZER_TOKEN_BYTES_MAX 4096
#define TOKENIZER_STAGES_MAX 8
#define TOKENIZER_AFFIX_MAX 16                 /* ids that a post-processor puts before a text, or behind it */

/* ---- the byte alphabet ---- */

#define ALPHABET_END 324                       /* one more than the largest character */
uint32_t alphabet_char(uint8_t byte); /* the character that stands for a byte */
/* Turns a token's spelling into bytes; false when it has a character outside the alphabet (then it
 * cannot come from text). */
bool alphabet_decode(const char *spelling, size_t len, struct str *out);
void alphabet_encode(const char *bytes, size_t len, struct str *out);

/* ---- maps: filled at open, then read only ---- */

/* Bytes of a word -> id. A slot carries what a lookup compares, so that a miss costs one cache
 * line. */
struct word_slot {
	uint32_t hash;
	uint32_t offset; /* of the bytes, in the pool that all words share */
	uint32_t len;
	int32_t id; /* < 0: the slot is free */
};
struct word_map {
	struct word_slot *slots;
	uint32_t mask;  /* slots - 1; their number is a power of two */
	uint32_t count; /* of those that are taken */
};
void word_map_reserve(struct word_map *m, size_t count);
void word_map_insert(struct word_map *m, const char *pool, uint32_t offset, uint32_t len, int32_t id);
const struct word_slot *word_map_find(const struct word_map *m, const char *pool, const char *p, size_t len);

/* Two ids -> rank of their merge and the id that it gives. */
struct merge_slot {
	int32_t left; /* < 0: the slot is free */
	int32_t right;
	uint32_t rank; /* place in the list of merges: lower ones go first */
	int32_t id;
};
struct merge_map {
	struct merge_slot *slots;
	uint32_t shift; /* that leaves a slot's number of a hash */
	uint32_t mask;  /* slots - 1 */
	uint32_t count; /* of those that are taken */
};
void merge_map_reserve(struct merge_map *m, size_t count);
/* Of two equal pairs the one put later counts. */
void merge_map_put(struct merge_map *m, int32_t left, int32_t right, uint32_t rank, int32_t id);

static inline const struct merge_slot *merge_map_find(const struct merge_map *m, int32_t left, int32_t right)
{
	uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
	for (uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> m->shift);; i = (i + 1) & m->mask) {
		const struct merge_slot *s = &m->slots[i];
		if (s->left == left && s->right == right) return s;
		if (s->left < 0) return NULL;
	}
}

/* ---- splitting ---- */

/* One of the regular expressions of the known families, as the switches in which they differ. */
struct split_rules {
	const char *pattern; /* as tokenizer.json spells it */
	bool wide; /* Qwen's and Llama's shape: any character may lead letters, newlines have alternatives of their own */
	unsigned letters; /* classes that count as letters */
	int digits_max;   /* digits in one word; 0: any number, with a leading space */
};
const struct split_rules *split_rules_find(const char *pattern);
const struct split_rules *split_rules_gpt2(void);
const struct split_rules *split_rules_qwen(void);

enum stage_kind { STAGE_SPLIT, STAGE_DIGITS, STAGE_PREFIX_SPACE };
struct stage {
	enum stage_kind kind;
	const struct split_rules *rules;
	bool individual_digits;
};
typedef void word_fn(void *ctx, const char *word, size_t len);
void stages_run(const struct stage *stages, int count, const char *text, size_t len, word_fn *fn, void *ctx);

/* ---- NFC as tokenizers computes it ---- */

bool nfc_is_plain(const char *text, size_t len); /* certainly NFC already */
void nfc_append(struct str *out, const char *text, size_t len);

/* ---- added tokens ---- */

struct added {
	int32_t id;
	bool single_word; /* only where no letter stands beside it */
	bool lstrip;      /* it takes the white space before it */
	bool rstrip;      /* and behind it */
};
struct added_edge {
	uint32_t key;   /* parent << 8 | byte */
	uint32_t child; /* 0: free */
};
struct added_set {
	struct added *items;
	int count;
	struct added_edge *edges; /* hash table over a trie's edges */
	uint32_t mask;            /* slots of edges - 1 */
	uint32_t nedges;
	int32_t *node_item; /* (nnodes): item that ends at a node, or -1 */
	uint32_t nnodes;
	uint32_t nodes_cap;
	bool first[256];
};
void added_insert(struct added_set *s, const struct added *item, const char *content, size_t len);
/* Leftmost longest match at or after `from`: item index and bounds, or -1. */
int added_find(const struct added_set *s, const char *text, size_t len, size_t from, size_t *begin, size_t *end);
void added_release(struct added_set *s);

/* ---- the tokenizer ---- */

enum { TOKEN_PRESENT = 1, TOKEN_ADDED = 2, TOKEN_SPECIAL = 4 };
/* Whether a token's bytes, as a word, encode to it alone. It is found out in encoding, by several
 * threads at once: all find the same. */
enum { WHOLE_UNKNOWN, WHOLE_YES, WHOLE_NO };
struct token {
	uint32_t offset; /* of its bytes, in pool */
	uint32_t len;
	uint8_t flags;
	_Atomic uint8_t whole;
};

struct tokenizer {
	struct str pool;
	struct token *tokens; /* (ntokens) */
	int ntokens;
	int tokens_cap;
	struct word_map words;
	struct merge_map merges;
	int32_t byte_id[256]; /* -1: no token */
	int32_t unk_id;       /* -1: bytes without a token vanish */
	bool fuse_unk;
	bool ignore_merges;
	bool nfc;
	struct stage stages[TOKENIZER_STAGES_MAX];
	int nstages;
	struct added_set added_raw;        /* looked for before NFC */
	struct added_set added_normalized; /* looked for after it */
	int32_t prefix[TOKENIZER_AFFIX_MAX];
	int32_t suffix[TOKENIZER_AFFIX_MAX];
	int nprefix;
	int nsuffix;
};

/* Scratch of one call, so that words cost no allocation. */
struct bpe_node;
struct bpe {
	const struct tokenizer *t;
	struct ids *out;
	struct bpe_node *nodes;
	uint64_t *heap;
	size_t cap;
};
/* Appends the ids of one word by merging alone. */
void bpe_merge_word(struct bpe *b, const char *word, size_t len);
void bpe_release(struct bpe *b);

/* ---- reading the long lists of a file (tokenizer_scan.c) ---- */

struct scan {
	const char *p;
	const char *end;
};
/* Each skips white space and moves on when it returns true; where after false does not matter, but
 * scan_id stays. */
bool scan_char(struct scan *s, char c);
bool scan_string(struct scan *s, struct str *out);  /* appends what it spells */
bool scan_id(struct scan *s, int32_t *out);         /* of 0 to TOKENIZER_IDS_MAX - 1, plainly written */
bool scan_value(struct scan *s, struct slice *out); /* any one, by its brackets: it need not be JSON */
/* model.vocab and model.merges with their brackets; without data where they are no object and no
 * list. */
struct scan_lists {
	struct slice vocab;
	struct slice merges;
};
/* Finds them in a file's text; rest is the text with both empty. */
void scan_lists_cut(struct slice text, struct scan_lists *l, struct str *rest);

/* tokenizer_pipeline.c: normaliser, pre-tokenizer, post-processor and decoder of the
 * file. The post-processor's ids are not checked against the vocabulary here. */
int pipeline_load(struct tokenizer *t, const json_t *root, const char *path, struct err *err);
/* Refuses keys of o that are not among names (NULL-terminated). */
int pipeline_check_keys(const json_t *o, const char *what, const char *const *names, struct err *err);
const char *pipeline_json_kind(const json_t *v); /* "a string", for messages */
#endif
