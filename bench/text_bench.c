/* How fast the tokenizer encodes (or trains) on one core; bench/text_bench.py drives it beside Hugging Face's.
 *
 *   text_bench encode TOKENIZER.json DOCUMENTS PASSES       prints {"tokens", "bytes", "seconds": best pass, "hash": of all ids}
 *   text_bench train OUT.json DOCUMENTS VOCAB_SIZE
 *
 * DOCUMENTS holds texts with a NUL after each. */
#include "text/text.h"
#include <stdlib.h>

static size_t split_documents(const struct str *file, struct slice **out)
{
	size_t count = 0, n = 0;
	for (size_t i = 0; i < file->len; i++)
		count += !file->data[i];
	*out = xcalloc(count + 1, sizeof(**out));
	for (size_t at = 0; n < count; n++) {
		(*out)[n] = (struct slice){file->data + at, strlen(file->data + at)};
		at += (*out)[n].len + 1;
	}
	return count;
}

static int encode(const char *path, const struct slice *docs, size_t count, int passes, struct err *err)
{
	struct tokenizer *t;
	int rc = tokenizer_open(path, &t, err);
	if (rc)
		return rc;
	struct ids ids = {0};
	size_t bytes = 0;
	double best = 1e30;
	for (size_t i = 0; i < count; i++)
		bytes += docs[i].len;
	for (int pass = 0; pass < passes && !rc; pass++) {
		uint64_t start = clock_ns();
		ids.count = 0;
		for (size_t i = 0; i < count && !rc; i++)
			rc = tokenizer_encode(t, docs[i].data, docs[i].len, true, &ids, err);
		double seconds = (double)(clock_ns() - start) / 1e9;
		best = MIN(best, seconds);
	}
	if (!rc)
		printf("{\"tokens\": %zu, \"bytes\": %zu, \"seconds\": %.6f, \"hash\": \"%s\"}\n", ids.count, bytes, best, hash_bytes(ids.data, ids.count * sizeof(*ids.data)).text);
	ids_release(&ids);
	tokenizer_free(t);
	return rc;
}

static int train(const char *path, const struct slice *docs, size_t count, int vocab_size, struct err *err)
{
	struct bpe_train_options o = {.vocab_size = vocab_size};
	uint64_t start = clock_ns();
	int rc = tokenizer_train(docs, count, &o, path, err);
	if (!rc)
		printf("{\"seconds\": %.6f}\n", (double)(clock_ns() - start) / 1e9);
	return rc;
}

int main(int argc, char **argv)
{
	bool is_train = argc == 5 && !strcmp(argv[1], "train");
	if (argc != 5 || (!is_train && strcmp(argv[1], "encode"))) {
		fprintf(stderr, "usage: text_bench encode TOKENIZER.json DOCUMENTS PASSES | text_bench train OUT.json DOCUMENTS VOCAB_SIZE\n");
		return 2;
	}
	struct err err = {0};
	struct str file = {0};
	struct slice *docs = NULL;
	int rc = file_read(argv[3], (size_t)1 << 30, &file, &err), n = atoi(argv[4]);
	if (!rc) {
		size_t count = split_documents(&file, &docs);
		rc = is_train ? train(argv[2], docs, count, n, &err) : encode(argv[2], docs, count, n, &err);
	}
	if (rc)
		fprintf(stderr, "text_bench: %s\n", err.text);
	free(docs);
	str_release(&file);
	return rc ? 1 : 0;
}
