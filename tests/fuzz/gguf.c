/* libFuzzer entry of the GGUF reader: what it accepts can be read to the last byte, unpacked and
 * found by name; what it refuses is refused with a text. */
#include "fuzz.h"
#include "tensor/tensor.h"

static volatile unsigned total; /* keeps the reads from being left out */

static void read_value(const struct gguf *g, const struct gguf_value *v)
{
	struct err err;
	int64_t n = 0;
	double d = 0;
	bool yes = false;
	const char *text = "";
	CHECK(gguf_find(g, v->key) == v);
	gguf_opt_int(g, v->key, INT64_MIN, INT64_MAX, &n, &err);
	gguf_opt_num(g, v->key, &d, &err);
	gguf_opt_bool(g, v->key, &yes, &err);
	gguf_opt_str(g, v->key, &text, &err);
	total += (unsigned)n + (unsigned)yes + (unsigned)strlen(text);
	for (uint64_t i = 0; v->strings && i < v->count; i++)
		for (size_t b = 0; b < v->strings[i].len; b++) total += (unsigned char)v->strings[i].data[b];
	bool is_listed = v->data && v->element != GGUF_F32 && v->element != GGUF_F64 && v->element != GGUF_BOOL;
	for (uint64_t i = 0; is_listed && i < v->count; i++) total += (unsigned)gguf_int_at(v, i);
}

static void read_everything(const struct gguf *g)
{
	for (size_t i = 0; i < gguf_value_count(g); i++) read_value(g, gguf_value_at(g, i));
	for (size_t i = 0; i < gguf_count(g); i++) {
		const struct gguf_tensor *t = gguf_at(g, i);
		CHECK(gguf_tensor_find(g, t->name) == t);
		float *out = malloc(
			(size_t)t->count * sizeof *out); /* bounded by the file: a value takes at least four bits of it */
		CHECK(out);
		gguf_to_f32(t, out);
		total += out[t->count - 1] > 0;
		free(out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = {0};
	struct gguf *g = NULL;
	char path[64];
	int fd = input_file(data, len, path), rc = gguf_open(path, &g, &err);
	if (rc) refusal_check(rc, &err);
	else {
		read_everything(g);
		gguf_close(g);
	}
	close(fd);
	return 0;
}
