/* hone merge: W + scaling B A into a copy of the weights, as a model folder that other programs
 * load; without an adapter the weights as they are, in another type or in shards. hone itself never
 * runs merged weights. */
#include "cli/cli.h"
#include "base/base.h"
#include "base/dtype.h"
#include "model/model.h"
#include "ops/ops.h"

/* Values of the options below, whose help says what each is. */
struct merge_options {
	const char *model;
	const char *adapter;
	const char *out;
	const char *dtype;
	int64_t max_shard_mb;
	int64_t threads;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct merge_options, field), help, choices }
static const struct option_def defs[] = {
	O(OPTION_STR, model, "model folder that the adapter was trained on", NULL),
	O(OPTION_STR, adapter, "PEFT adapter folder; default: none, the weights as they are", NULL),
	O(OPTION_STR, out, "folder to write: config.json, safetensors and the tokenizer's files", NULL),
	O(OPTION_STR, dtype, "type of the written weights; the sum is made in float32 and rounded once",
		"float32|bfloat16|float16"),
	O(OPTION_INT, max_shard_mb, "most megabytes of weights in one file; more are written as shards with an index",
		"1 to 1000000"),
	O(OPTION_INT, threads, "threads; 0: cores", "0 to 4096"),
};

int cmd_merge(int argc, char **argv)
{
	struct merge_options o = {.dtype = "float32", .max_shard_mb = MODEL_SHARD_BYTES / 1000 / 1000};
	struct export_options export = {0};
	struct err err = {0};
	struct ops *ops = NULL;
	struct model *m = NULL;
	struct adapter *a = NULL;
	int npos;
	int rc = options_parse("merge", "merge an adapter into its model's weights, for export", defs, ARRAY_LEN(defs), &o,
		argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc && (!o.model || !o.out)) rc = err_set(&err, ERR_USAGE, "--model and --out are needed");
	/* Writing into either source folder would overwrite what is being read. */
	if (!rc && (path_is_same(o.model, o.out) || (o.adapter && path_is_same(o.adapter, o.out))))
		rc = err_set(&err, ERR_USAGE, "--out %s is the folder of the model or of the adapter; choose another", o.out);
	if (!rc) rc = cli_out_check(o.out, CLI_OUT_FOLDER, &err);
	/* The option's table has admitted no other name, so an unknown type would be our own
	 * mistake. */
	if (!rc) {
		CHECK(!dtype_from_name(o.dtype, &export.dtype));
		export.shard_bytes = o.max_shard_mb * 1000 * 1000;
	}
	if (!rc) rc = ops_cpu_create(&(struct ops_options){.threads = (int)o.threads}, &ops, &err);
	if (!rc) rc = model_open(o.model, ops, &m, &err);
	if (!rc && o.adapter) rc = adapter_open(m, o.adapter, &a, &err);
	/* The folder is made and claimed only when both sources have been opened. */
	if (!rc) rc = dir_claim(o.out, &err);
	if (!rc) rc = model_export(m, a, o.out, &export, &err);
	if (!rc) rc = model_copy_tokenizer(o.model, o.out, &err);
	if (!rc) printf("%s\n", o.out);
	adapter_free(a);
	model_free(m);
	ops_free(ops);
	return rc ? cli_fail("merge", &err) : 0;
}
