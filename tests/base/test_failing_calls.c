/* Files of the room: whichever call of the machine fails, it is said. */
#include "../failing_calls.h"
#include "base/base.h"

static char *path;

static int write_whole(void *ctx, struct err *err) { return file_write_atomic(path, "1234567890", 10, err); }

static int read_whole(void *ctx, struct err *err)
{
	struct str text = {0};
	int rc = file_read(path, 100, &text, err);
	if (!rc) assert_string_equal(text.data, "1234567890");
	/* What could not be read is not half there. */
	else assert_int_equal(text.len, 0);
	str_release(&text);
	return rc;
}

static int map_whole(void *ctx, struct err *err)
{
	struct file_map m;
	int rc = file_map_open(path, &m, err);
	if (!rc) assert_memory_equal(m.data, "1234567890", 10);
	file_map_close(&m);
	return rc;
}

static int count_name(const char *name, void *ctx) { return ++*(int *)ctx, 0; }

static int list_folder(void *ctx, struct err *err)
{
	int names = 0, rc = dir_each(failing_folder, count_name, &names, err);
	if (!rc) assert_int_equal(names, 1);
	return rc;
}

static int make_folders(void *ctx, struct err *err)
{
	char *deep = path_join(failing_folder, "a/b/c"), *top = path_join(failing_folder, "a");
	int rc = dir_make(deep, err), failing = calls_left;
	calls_left = 0;
	dir_remove(top, NULL);
	calls_left = failing;
	free(deep);
	free(top);
	return rc;
}

/* Rows of JSON, plain or packed by the name's ending. */
static int write_rows(void *to, struct err *err)
{
	struct str text = {0};
	json_t *row = json_pack("{s:i}", "n", 1);
	for (int i = 0; i < 3; i++) jsonl_put(&text, row);
	int rc = jsonl_write(to, &text, err);
	json_decref(row);
	str_release(&text);
	return rc;
}

static int count_row(void *ctx, const json_t *row, const char *where, struct err *err) { return ++*(int *)ctx, 0; }

static int read_rows(void *from, struct err *err)
{
	int rows = 0, rc = jsonl_each(from, 100, count_row, &rows, err);
	if (!rc) assert_int_equal(rows, 3);
	return rc;
}

static int read_json(void *from, struct err *err)
{
	json_t *o = NULL;
	int rc = json_load(from, 100, &o, err);
	assert_true(rc || json_is_integer(o));
	json_decref(o);
	return rc;
}

static void test_rows(void **state)
{
	char *plain = path_join(failing_folder, "rows.jsonl"), *packed = path_join(failing_folder, "rows.jsonl.gz");
	each_call_fails("plain rows", write_rows, plain, 6);
	each_call_fails("packed rows", write_rows, packed, 6);
	each_call_fails("reading rows", read_rows, plain, 2);
	each_call_fails("reading packed rows", read_rows, packed, 2);
	each_call_fails("JSON", read_json, path, 2);
	free(plain);
	free(packed);
	free(path);
}

static void test_calls(void **state)
{
	path = path_join(failing_folder, "file");
	each_call_fails("writing", write_whole, NULL, 6);
	each_call_fails("reading", read_whole, NULL, 2);
	each_call_fails("mapping", map_whole, NULL, 2);
	each_call_fails("listing", list_folder, NULL, 1);
	each_call_fails("folders", make_folders, NULL, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_calls), cmocka_unit_test(test_rows)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, failing_set_up, failing_tear_down);
}
