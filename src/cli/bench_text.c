/* hone bench text: how fast the tokenizer encodes on one core, beside Hugging Face's on the same
 * documents and tokenizers, in the same minutes. bench/peers/text_peer.py makes both and does the
 * other side. Rounds alternate; each figure is the best of its passes. The ids of both sides are
 * compared before anything is printed: a speed of something else means nothing. */
#include "cli/bench.h"
#include "base/base.h"
#include "text/text.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>

/* Values of the options below, whose help says what each is. */
struct text_options {
	int64_t rounds;
	int64_t passes;
	int64_t vocab_size;
	int64_t train_vocab_size;
	const char *python;
	const char *peer;
	bool cpu_time;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct text_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_INT, rounds, "alternations of hone and peer", "1 to 1000"),
	O(OPTION_INT, passes, "over the documents, per round and side", "1 to 1000"),
	O(OPTION_INT, vocab_size, "of the tokenizers that are encoded with", "300 to 1048576"),
	O(OPTION_INT, train_vocab_size, "of the tokenizer that is trained; 0: none is", "0 to 1048576"),
	O(OPTION_STR, python, "Python with tokenizers", NULL),
	O(OPTION_STR, peer, "the peer's script", NULL),
	O(OPTION_BOOL, cpu_time, "count processor seconds instead of wall clock: for a machine that others use too", NULL),
	O(OPTION_BOOL, json, "print one JSON object", NULL),
};

struct figure {
	char kind[32];
	double hone;   /* seconds of the fastest round */
	double peer;   /* likewise */
	size_t tokens; /* of all documents */
};
struct text_bench {
	const struct text_options *o;
	char dir[64];
	struct str documents;
	struct slice *docs;
	size_t ndocs;
	size_t bytes; /* of all documents */
	struct figure *figures;
	size_t count;      /* of figures */
	double train_hone; /* seconds of training a tokenizer, once */
	double train_peer;
};

static int peer(struct text_bench *b, const char *what, const char *kind, int64_t number, json_t **out, struct err *err)
{
	char text[24];
	snprintf(text, sizeof text, "%lld", (long long)number);
	char *argv[8] = {(char *)b->o->python, (char *)b->o->peer, (char *)what, b->dir};
	int n = 4;
	if (kind) argv[n++] = (char *)kind;
	argv[n++] = text;
	if (b->o->cpu_time) argv[n++] = "--cpu_time";
	return bench_peer_run(argv, out, err);
}

static void split_documents(struct text_bench *b)
{
	for (size_t i = 0; i < b->documents.len; i++) b->ndocs += !b->documents.data[i];
	b->docs = xcalloc(b->ndocs + 1, sizeof *b->docs);
	for (size_t n = 0, at = 0; n < b->ndocs; n++) {
		b->docs[n] = (struct slice){b->documents.data + at, strlen(b->documents.data + at)};
		at += b->docs[n].len + 1;
		b->bytes += b->docs[n].len;
	}
}

static int prepare(struct text_bench *b, struct err *err)
{
	json_t *made = NULL;
	int rc = bench_folder_make(b->dir, sizeof b->dir, err);
	if (!rc) rc = peer(b, "make", NULL, b->o->vocab_size, &made, err);
	const json_t *kinds = json_object_get(made, "kinds");
	b->count = json_array_size(kinds);
	b->figures = xcalloc(b->count + 1, sizeof *b->figures);
	for (size_t i = 0; i < b->count; i++) {
		const char *kind = json_string_value(json_array_get(kinds, i));
		b->figures[i] = (struct figure){.hone = INFINITY, .peer = INFINITY};
		snprintf(b->figures[i].kind, sizeof b->figures[i].kind, "%s", kind ? kind : "");
	}
	json_decref(made);
	char *path = path_join(b->dir, "documents");
	if (!rc) rc = file_read(path, (size_t)1 << 30, &b->documents, err);
	free(path);
	if (!rc) split_documents(b);
	return rc;
}

static int encode_hone(struct text_bench *b, struct figure *f, struct sha256_hex *hash, struct err *err)
{
	char name[64];
	snprintf(name, sizeof name, "%.40s.json", f->kind);
	char *path = path_join(b->dir, name);
	struct tokenizer *t = NULL;
	struct ids ids = {0};
	int rc = tokenizer_open(path, &t, err);
	for (int64_t pass = 0; pass < b->o->passes && !rc; pass++) {
		double begin = bench_seconds(b->o->cpu_time);
		ids.count = 0;
		for (size_t i = 0; i < b->ndocs && !rc; i++)
			rc = tokenizer_encode(t, b->docs[i].data, b->docs[i].len, true, &ids, err);
		f->hone = fmin(f->hone, bench_seconds(b->o->cpu_time) - begin);
	}
	f->tokens = ids.count;
	*hash = hash_bytes(ids.data ? (const void *)ids.data : "", ids.count * sizeof *ids.data);
	ids_release(&ids);
	tokenizer_free(t);
	free(path);
	return rc;
}

static int encode_peer(struct text_bench *b, struct figure *f, const struct sha256_hex *hash, struct err *err)
{
	json_t *answer = NULL;
	const char *theirs;
	double seconds = 0;
	int rc = peer(b, "encode", f->kind, b->o->passes, &answer, err);
	if (!rc) rc = json_get_str(answer, "the peer's answer", "hash", &theirs, err);
	if (!rc) rc = json_opt_num(answer, "the peer's answer", "seconds", &seconds, err);
	if (!rc && strcmp(theirs, hash->text))
		rc = err_set(err, ERR_MISMATCH, "%s: the ids of hone and tokenizers differ; that is a bug to report", f->kind);
	if (!rc) f->peer = fmin(f->peer, seconds);
	json_decref(answer);
	return rc;
}

static int train(struct text_bench *b, struct err *err)
{
	struct bpe_train_options o = {.vocab_size = (int)b->o->train_vocab_size, .nfc = true};
	char *path = path_join(b->dir, "trained.json");
	json_t *answer = NULL;
	double begin = bench_seconds(b->o->cpu_time);
	int rc = tokenizer_train(b->docs, b->ndocs, &o, path, err);
	b->train_hone = bench_seconds(b->o->cpu_time) - begin;
	if (!rc) rc = peer(b, "train", NULL, b->o->train_vocab_size, &answer, err);
	if (!rc) rc = json_opt_num(answer, "the peer's answer", "seconds", &b->train_peer, err);
	json_decref(answer);
	free(path);
	return rc;
}

static void print(const struct text_bench *b)
{
	json_t *all = json_object();
	double mb = (double)b->bytes * 1e-6;
	for (size_t i = 0; i < b->count; i++) {
		const struct figure *f = &b->figures[i];
		/* Both rates are of the same ids, since encode_peer refuses any that differ. */
		double mine = (double)f->tokens / f->hone, theirs = (double)f->tokens / f->peer;
		json_object_set_new(
			all, f->kind, json_pack("{s:f, s:f, s:f}", "hone", mine, "tokenizers", theirs, "ratio", mine / theirs));
		if (b->o->json) continue;
		printf("%-8s %7.2f M tok/s (%6.1f MB/s)   tokenizers %6.2f M tok/s (%5.1f MB/s)   %6.2fx\n", f->kind,
			mine * 1e-6, mb / f->hone, theirs * 1e-6, mb / f->peer, mine / theirs);
	}
	/* The peer's time stays 0 when no tokenizer was trained (--train_vocab_size 0). */
	if (b->train_peer > 0) {
		double ratio = b->train_peer / b->train_hone;
		json_object_set_new(all, "train_seconds",
			json_pack("{s:f, s:f, s:f}", "hone", b->train_hone, "tokenizers", b->train_peer, "ratio", ratio));
		if (!b->o->json)
			printf("training %lld tokens on %.1f MB: %.2f s   tokenizers %.2f s   %.2fx\n",
				(long long)b->o->train_vocab_size, mb, b->train_hone, b->train_peer, ratio);
	}
	if (b->o->json) {
		json_dumpf(all, stdout, JSON_SORT_KEYS | JSON_REAL_PRECISION(6));
		putchar('\n');
	}
	json_decref(all);
}

/* The last core of those that this process may use, for both sides: a child inherits it. */
static int one_core(struct err *err)
{
	cpu_set_t set;
	int last = CPU_SETSIZE - 1;
	if (sched_getaffinity(0, sizeof set, &set)) return err_set(err, ERR_IO, "sched_getaffinity: %s", strerror(errno));
	while (last > 0 && !CPU_ISSET(last, &set)) last--;
	CPU_ZERO(&set);
	CPU_SET(last, &set);
	return sched_setaffinity(0, sizeof set, &set) ? err_set(err, ERR_IO, "sched_setaffinity: %s", strerror(errno)) : 0;
}

static int measure(struct text_bench *b, struct err *err)
{
	int rc = prepare(b, err);
	for (int64_t round = 0; round < b->o->rounds; round++) {
		for (size_t i = 0; i < b->count && !rc; i++) {
			struct sha256_hex hash;
			rc = encode_hone(b, &b->figures[i], &hash, err);
			if (!rc) rc = encode_peer(b, &b->figures[i], &hash, err);
		}
	}
	return rc || !b->o->train_vocab_size ? rc : train(b, err);
}

int bench_text(int argc, char **argv)
{
	struct text_options o = {.rounds = 2,
		.passes = 3,
		.vocab_size = 30000,
		.train_vocab_size = 2000,
		.python = "build/venv/bin/python",
		.peer = "bench/peers/text_peer.py"};
	struct text_bench b = {.o = &o};
	struct err err = {0};
	static const char summary[] = "tokens per second of the tokenizer beside Hugging Face's, on one core";
	int npos, rc = options_parse("bench text", summary, defs, ARRAY_LEN(defs), &o, argc, argv, &npos, &err);
	if (rc) return rc > 0 ? 0 : cli_fail("bench text", &err);
	if (npos) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = one_core(&err);
	if (!rc) rc = measure(&b, &err);
	if (!rc) print(&b);
	if (*b.dir) dir_remove(b.dir, NULL);
	free(b.figures);
	free(b.docs);
	str_release(&b.documents);
	return rc ? cli_fail("bench text", &err) : 0;
}
