/* A small trained tokenizer for tests: its file's path and JSON. */
#ifndef HONE_TEXT_FIXTURE_H
#define HONE_TEXT_FIXTURE_H
#include "text/text.h"
#include <stdlib.h>

static const char fixture_text[] =
	"def kernel(x_ptr, y_ptr, n):\n    offs = tl.arange(0, BLOCK)\n    x = tl.load(x_ptr + offs, mask=offs < n)\n"
	"    tl.store(y_ptr + offs, x)\n";

/* Writes NAME below $BUILD/ref and returns its path (caller frees). */
static inline char *fixture_path(const char *name)
{
	struct err err = {0};
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref"), *path = path_join(dir, name);
	int rc = dir_make(dir, &err);
	CHECKF(!rc, "%s", err.text);
	free(dir);
	return path;
}

static inline char *fixture_train(const char *name, int vocab_size, bool nfc)
{
	static const char *const special[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
							 *const plain[] = {"<think>", "</think>"};
	struct bpe_train_options o = {.vocab_size = vocab_size,
		.special_tokens = special,
		.nspecial = 3,
		.plain_tokens = plain,
		.nplain = 2,
		.nfc = nfc};
	struct slice text = {fixture_text, sizeof(fixture_text) - 1};
	struct err err = {0};
	char *path = fixture_path(name);
	int rc = tokenizer_train(&text, 1, &o, path, &err);
	CHECKF(!rc, "%s", err.text);
	return path;
}
#endif
