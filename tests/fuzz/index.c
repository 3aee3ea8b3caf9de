/* libFuzzer entry of a folder of shards: the input is model.safetensors.index.json beside two good
 * files of two tensors each. What is accepted are the tensors of one of them or of both. */
#include "fuzz.h"
#include "tensor/tensor.h"

enum { DESCRIPTOR = 500 };
static char folder[] = "/tmp/fuzz_index_XXXXXX";

static void folder_remove(void)
{
	struct err err;
	dir_remove(folder, &err);
}

/* Once. The name does not tell whether it was: mkdtemp may put an X in place of an X. */
static void folder_make(void)
{
	static const float values[4] = {1, 2, 3, 4};
	static bool is_made;
	if (is_made) return;
	is_made = true;
	CHECK(mkdtemp(folder));
	atexit(folder_remove);
	for (int i = 0; i < 2; i++) {
		struct err err = {0};
		const struct tensor_info pair[] = {
			{i ? "c" : "a", DTYPE_F32, 1, {4}, values, 16}, {i ? "d" : "b", DTYPE_F32, 1, {0}, NULL, 0}};
		char *path = xasprintf("%s/%d", folder, i);
		CHECKF(!safetensors_write(path, pair, 2, NULL, &err), "%s", err.text);
		free(path);
	}
	char *link = path_join(folder, "model.safetensors.index.json"), target[64];
	snprintf(target, sizeof target, "/proc/self/fd/%d", DESCRIPTOR);
	CHECK(!symlink(target, link));
	free(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = {0};
	struct safetensors *s;
	char path[64];
	folder_make();
	int fd = input_file(data, len, path);
	CHECK(dup2(fd, DESCRIPTOR) == DESCRIPTOR && !close(fd));
	int rc = safetensors_open(folder, &s, &err);
	if (rc) {
		refusal_check(rc, &err);
		return 0;
	}
	CHECK(safetensors_count(s) == 2 ||
		safetensors_count(s) == 4); /* an index need not name both files, but all that a file holds */
	for (size_t i = 0; i < safetensors_count(s); i++) {
		const struct tensor_info *t = safetensors_at(s, i);
		CHECK(safetensors_find(s, t->name) == t && t->name[0] >= 'a' && t->name[0] <= 'd' && !t->name[1]);
		CHECK(!t->bytes || (t->bytes == 16 && ((const float *)t->data)[3] == 4));
	}
	safetensors_close(s);
	return 0;
}
