/* libFuzzer entry of the safetensors reader: what it accepts can be read to the last byte,
 * converted and found by name. An input is a whole file when it begins with a zero byte; else its
 * first byte is the number of data bytes behind a header made of the rest, so that the corpus is
 * text and mutations do not break on the length. */
#include "fuzz.h"
#include "tensor/tensor.h"

static void read_everything(const struct safetensors *s)
{
	volatile unsigned total = 0;
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct tensor_info *t = safetensors_at(s, i), *got;
		struct err err;
		CHECK(safetensors_find(s, t->name) == t && !safetensors_get(s, t->name, t->ndim, t->shape, &got, &err) &&
			got == t);
		for (size_t b = 0; b < t->bytes; b++) total += ((const uint8_t *)t->data)[b];
		if (!dtype_is_float(t->dtype)) continue;
		float *out = malloc(t->bytes / dtype_bytes(t->dtype) * sizeof *out + 1);
		tensor_to_f32(t, out);
		free(out);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len == 0) return 0;
	struct str file = {0};
	uint64_t header = len - 1;
	if (data[0]) str_append(&file, &header, 8);
	str_append(&file, data + 1, len - 1);
	for (int i = 0; i < data[0]; i++) str_putc(&file, (char)i);
	struct err err = {0};
	char path[64];
	int fd = input_file(file.data, file.len, path);
	struct safetensors *s;
	int rc = safetensors_open(path, &s, &err);
	if (rc) refusal_check(rc, &err);
	else {
		read_everything(s);
		safetensors_close(s);
	}
	close(fd);
	str_release(&file);
	return 0;
}
