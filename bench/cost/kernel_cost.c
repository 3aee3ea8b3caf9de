/* Cost of a list of launches on the vm, as JSON: used by cost_compare.py.
 *     kernel_cost SPEC.json
 *     kernel_cost --again PREDICTED.json     the predictions anew from the counts in --predict's
 *     file: for work on the formula
 * The spec: {"buffers": [{"bytes": N, "file": PATH or absent for zeros}], "launches": [{"ttir",
 * "compiled": PATH (the compile worker's result), "grid": [x, y, z], "args": [{"buffer": I} or
 * {"int": N} or {"float": X}]}], "outputs": [{"buffer": I, "file": PATH}]}. */
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <stdlib.h>

#define BUFFERS_MAX 32
#define ARGS_MAX 64
#define FILE_BYTES_MAX ((size_t)1 << 30)

struct memory {
	int n;
	struct vm_buffer buffers[BUFFERS_MAX];
};

static int load_buffers(const json_t *list, struct memory *m, struct err *err)
{
	size_t i;
	json_t *o;
	json_array_foreach(list, i, o)
	{
		struct str data = {0};
		const char *file = json_string_value(json_object_get(o, "file"));
		if (m->n == BUFFERS_MAX) return err_set(err, ERR_LIMIT, "more than %d buffers", BUFFERS_MAX);
		struct vm_buffer *b = &m->buffers[m->n];
		*b = (struct vm_buffer){
			.address = tape_buffer_address(m->n), .bytes = json_integer_value(json_object_get(o, "bytes"))};
		b->data = xcalloc((size_t)b->bytes + 64, 1);
		m->n++;
		int rc = file ? file_read(file, FILE_BYTES_MAX, &data, err) : 0;
		if (!rc && file && (int64_t)data.len != b->bytes)
			rc = err_set(err, ERR_FORMAT, "%s has %zu bytes, expected %lld", file, data.len, (long long)b->bytes);
		if (!rc && file) memcpy(b->data, data.data, data.len);
		str_release(&data);
		if (rc) return rc;
	}
	return 0;
}

static int read_named(const json_t *o, const char *key, struct str *out, struct err *err)
{
	const char *path;
	int rc = json_get_str(o, "launch", key, &path, err);
	return rc ? rc : file_read(path, FILE_BYTES_MAX, out, err);
}

static int load_args(const json_t *list, struct vm_arg *args)
{
	size_t i;
	json_t *o;
	int n = 0;
	json_array_foreach(list, i, o)
	{
		if (n == ARGS_MAX) break;
		struct vm_arg *a = &args[n++];
		*a = (struct vm_arg){.i = 0};
		if (json_object_get(o, "buffer"))
			a->i = (int64_t)tape_buffer_address((int)json_integer_value(json_object_get(o, "buffer")));
		else if (json_object_get(o, "int")) a->i = json_integer_value(json_object_get(o, "int"));
		else a->f = json_number_value(json_object_get(o, "float"));
	}
	return n;
}

static int run_launch(const json_t *o, struct memory *m, struct pool *pool, json_t *out, struct err *err)
{
	struct str ttir = {0}, text = {0};
	struct vm_kernel *k = NULL;
	struct vm_compiled *compiled = NULL;
	const struct vm_gpu *gpu = vm_gpu_find("H200");
	struct vm_report report = {.fault = VM_FAULT_NONE};
	struct vm_arg args[ARGS_MAX];
	json_t *result = NULL;
	/* The kernel, lowered, and what the compiler made of it. */
	int rc = read_named(o, "ttir", &ttir, err);
	if (!rc) rc = read_named(o, "compiled", &text, err);
	if (!rc) rc = json_parse(text.data, text.len, "compiled", &result, err);
	if (!rc) rc = vm_kernel_create(ttir.data, ttir.len, &k, err);
	if (!rc) rc = vm_compiled_create(result, gpu, &compiled, err);
	if (!rc) {
		/* Every program runs, counted: no sample. */
		struct vm_launch_options lo = {
			.args = args,
			.nargs = load_args(json_object_get(o, "args"), args),
			.buffers = m->buffers,
			.nbuffers = m->n,
			.pool = pool,
			.want_cost = true,
			.compiled = compiled,
		};
		for (size_t d = 0; d < 3; d++)
			lo.grid[d] = (uint32_t)json_integer_value(json_array_get(json_object_get(o, "grid"), d));
		rc = vm_launch(k, &lo, &report, err);
	}
	if (!rc) {
		/* The counts for the caller, a table for whoever looks on. */
		struct str table = {0};
		struct vm_launch_cost cost = {report.cost, report.nlines, report.lines};
		json_array_append_new(out, vm_cost_json(vm_kernel_name(k), &cost, &compiled->binary));
		vm_cost_table(&table, vm_kernel_name(k), &cost, &compiled->binary, gpu);
		fputs(table.data, stderr);
		str_release(&table);
	}
	vm_report_release(&report);
	vm_compiled_free(compiled);
	vm_kernel_free(k);
	json_decref(result);
	str_release(&ttir);
	str_release(&text);
	return rc;
}

static int again(const char *path, struct err *err)
{
	json_t *all, *task, *variant, *launch;
	const char *name, *label;
	size_t i;
	int rc = json_load(path, FILE_BYTES_MAX, &all, err);
	if (rc) return rc;
	/* Each launch of each variant of each task. */
	json_object_foreach(all, name, task) json_object_foreach(task, label, variant)
		json_array_foreach(json_object_get(variant, "launches"), i, launch)
	{
		const json_t *r = json_object_get(launch, "resources");
		struct vm_cost c;
		struct vm_binary b = {
			.warps = (int)json_integer_value(json_object_get(r, "warps")),
			.registers = (int)json_integer_value(json_object_get(r, "registers")),
			.stack_bytes = (int)json_integer_value(json_object_get(r, "stack_bytes")),
			.local_bytes = json_integer_value(json_object_get(r, "local_bytes")),
			.shared_bytes = json_integer_value(json_object_get(r, "shared_bytes")),
		};
		/* From its counts and resources alone: nothing is compiled or run. */
		vm_counts_parse(json_object_get(launch, "counts"), &c);
		json_object_set_new(launch, "predicted", vm_predicted_json(&c, &b));
	}
	json_dumpf(all, stdout, JSON_COMPACT);
	json_decref(all);
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = {0};
	json_t *spec = NULL, *o, *out = json_array();
	struct memory m = {.n = 0};
	size_t i;
	if (argc == 3 && !strcmp(argv[1], "--again")) {
		int code = again(argv[2], &err);
		if (code) fprintf(stderr, "%s\n", err.text);
		return code ? 1 : 0;
	}
	if (argc != 2) {
		fprintf(stderr, "usage: kernel_cost SPEC.json\n");
		return 2;
	}
	/* The buffers live through all launches, as they would on the GPU. */
	int rc = json_load(argv[1], FILE_BYTES_MAX, &spec, &err);
	if (!rc) rc = load_buffers(json_object_get(spec, "buffers"), &m, &err);
	struct pool *pool = pool_create(0);
	json_array_foreach(json_object_get(spec, "launches"), i, o) if (!rc) rc = run_launch(o, &m, pool, out, &err);
	/* What the launches left behind, for whoever compares it. */
	json_array_foreach(json_object_get(spec, "outputs"), i, o)
	{
		const struct vm_buffer *b = &m.buffers[json_integer_value(json_object_get(o, "buffer")) % BUFFERS_MAX];
		if (!rc) rc = file_write_atomic(json_string_value(json_object_get(o, "file")), b->data, (size_t)b->bytes, &err);
	}
	if (rc) fprintf(stderr, "%s\n", err.text);
	else json_dumpf(out, stdout, JSON_COMPACT);
	for (int b = 0; b < m.n; b++) free(m.buffers[b].data);
	pool_free(pool);
	json_decref(spec);
	json_decref(out);
	return rc ? 1 : 0;
}
