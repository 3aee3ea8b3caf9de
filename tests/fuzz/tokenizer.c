/* libFuzzer entry of the tokenizer. First byte even: the rest is a tokenizer.json. Odd: the rest is
 * text for a tokenizer trained here; encoding must refuse it or give the bytes back. */
#include "fuzz.h"
#include "text/text.h"

static void encode_anything(const struct tokenizer *t)
{
	static const char text[] = "def f(x):\n\treturn 'll <|im_end|> \xce\xa9 1234 e\xcc\x81";
	struct ids ids = {0};
	struct str back = {0};
	struct err err;
	CHECK(!tokenizer_encode(t, text, sizeof(text) - 1, true, &ids, &err));
	tokenizer_decode(t, ids.data, ids.count, true, &back);
	ids_release(&ids);
	str_release(&back);
}

static void fuzz_file(const char *data, size_t len)
{
	struct err err = {0};
	struct tokenizer *t = NULL;
	char path[64];
	int fd = input_file(data, len, path);
	int rc = tokenizer_open(path, &t, &err);
	CHECK(rc == 0 || (rc < 0 && !t && strstr(err.text, path)));
	if (!rc) encode_anything(t);
	tokenizer_free(t);
	close(fd);
}

static struct tokenizer *trained(void)
{
	static struct tokenizer *t;
	struct slice text = {"the kernel loads the tile, then the kernel stores the tile\n", 59};
	struct bpe_train_options o = {.vocab_size = 290};
	struct err err = {0};
	char path[] = "/tmp/fuzz_tokenizer_XXXXXX";
	if (t) return t;
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	close(fd);
	CHECKF(!tokenizer_train(&text, 1, &o, path, &err) && !tokenizer_open(path, &t, &err), "%s", err.text);
	unlink(path);
	return t;
}

static void fuzz_text(const char *data, size_t len)
{
	struct ids ids = {0};
	struct str back = {0};
	struct err err = {0};
	if (!tokenizer_encode(trained(), data, len, true, &ids, &err)) {
		tokenizer_decode(trained(), ids.data, ids.count, false, &back);
		CHECK(back.len == len && (!len || !memcmp(back.data, data, len)));
	}
	ids_release(&ids);
	str_release(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len) return 0;
	if (data[0] % 2) fuzz_text((const char *)data + 1, len - 1);
	else fuzz_file((const char *)data + 1, len - 1);
	return 0;
}
