/* libFuzzer entry of JSON and JSON Lines. First byte even: the rest is one JSON text; what is
 * accepted is written out and read back equal, and its fields can be asked for. Odd: the rest is a
 * JSON Lines file, plain or gzip. */
#include "fuzz.h"

static void fields_read(const json_t *o)
{
	struct err err = {0};
	int64_t i;
	double x;
	bool b;
	const char *s;
	if (!json_is_object(o)) return;
	for (void *at = json_object_iter((json_t *)o); at; at = json_object_iter_next((json_t *)o, at)) {
		const char *key = json_object_iter_key(at);
		int rc[] = {json_get_int(o, "fuzz", key, -5, 5, &i, &err), json_opt_int(o, "fuzz", key, -5, 5, &i, &err),
			json_opt_num(o, "fuzz", key, &x, &err), json_opt_bool(o, "fuzz", key, &b, &err),
			json_get_str(o, "fuzz", key, &s, &err), json_opt_str(o, "fuzz", key, &s, &err)};
		for (size_t k = 0; k < ARRAY_LEN(rc); k++) CHECK(rc[k] <= 0);
	}
}

static void fuzz_text(const char *text, size_t len)
{
	struct err err = {0};
	json_t *value, *again;
	int rc = json_parse(text, len, "fuzz", &value, &err);
	if (rc) {
		refusal_check(rc, &err);
		return;
	}
	fields_read(value);
	char *written = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
	CHECK(written && !json_parse(written, strlen(written), "fuzz", &again, &err) && json_equal(value, again));
	free(written);
	json_decref(again);
	json_decref(value);
}

static int row(void *ctx, const json_t *o, const char *where, struct err *err)
{
	CHECK(json_is_object(o) && where[0]);
	fields_read(o);
	return 0;
}

static void fuzz_lines(const char *text, size_t len)
{
	struct err err = {0};
	char path[64];
	int fd = input_file(text, len, path), rc = jsonl_each(path, 1 << 16, row, NULL, &err);
	if (rc) refusal_check(rc, &err);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len) return 0;
	(data[0] % 2 ? fuzz_lines : fuzz_text)((const char *)data + 1, len - 1);
	return 0;
}
