/* Files of tensors, read and written: whichever call of the machine fails, it is said. */
#include "../failing_calls.h"
#include "tensor/tensor.h"

static const float VALUES[6] = {0, 1, 2, 3, 4, 5};
static const struct tensor_info TENSORS[] = {
	{"a", DTYPE_F32, 2, {2, 3}, VALUES, 24}, {"b", DTYPE_F32, 1, {6}, VALUES, 24}};
static char *file;

static int write_file(void *ctx, struct err *err) { return safetensors_write(file, TENSORS, 2, NULL, err); }

static void fill(void *ctx, size_t i, void *out) { memcpy(out, VALUES, sizeof VALUES); }

static int write_filled(void *ctx, struct err *err)
{
	return safetensors_write_filled(file, TENSORS, 2, NULL, fill, NULL, err);
}

/* One file, or two with an index. */
static int write_folder(void *shard_bytes, struct err *err)
{
	return safetensors_write_folder(failing_folder, TENSORS, 2, NULL, *(int64_t *)shard_bytes, NULL, NULL, err);
}

static int read_back(void *at, struct err *err)
{
	struct safetensors *s = NULL;
	int rc = safetensors_open(at, &s, err);
	if (!rc) assert_int_equal(safetensors_count(s), 2);
	safetensors_close(s);
	return rc;
}

static void test_calls(void **state)
{
	int64_t whole = 0, halves = 24;
	file = path_join(failing_folder, "file.safetensors");
	each_call_fails("a file", write_file, NULL, 6);
	each_call_fails("a file of tensors that are made", write_filled, NULL, 6);
	each_call_fails("reading a file", read_back, file, 2);
	assert_int_equal(unlink(file), 0);
	each_call_fails("a folder", write_folder, &whole, 6);
	each_call_fails("reading a folder", read_back, failing_folder, 2);
	each_call_fails("a folder of shards", write_folder, &halves, 18);
	each_call_fails("reading shards", read_back, failing_folder, 4);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
