/* A launch's cost as a table for people and as JSON. */
#include "cost/cost.h"
#include "base/base.h"
#include <stdlib.h>

struct field {
	const char *name;
	size_t at;
};
#define FIELD(f) {#f, offsetof(struct vm_cost, f)}
static const struct field fields[] = {FIELD(programs), FIELD(load_bytes), FIELD(store_bytes), FIELD(load_sectors),
	FIELD(store_sectors), FIELD(l2_sectors), FIELD(footprint_bytes), FIELD(requests), FIELD(load_lines),
	FIELD(store_lines), FIELD(missed_lines), FIELD(footprint_read), FIELD(flops), FIELD(flops_half),
	FIELD(flops_double), FIELD(int_ops), FIELD(special), FIELD(dot_flops), FIELD(fma_instrs), FIELD(f64_instrs),
	FIELD(alu_instrs), FIELD(special_instrs), FIELD(other_instrs), FIELD(tensor_cycles), FIELD(shared_bytes),
	FIELD(atomics), FIELD(atomic_hot), FIELD(steps), FIELD(steps_once), FIELD(path_cycles), FIELD(path_trips),
	FIELD(path_cycles_max), FIELD(l1_cycles_max), FIELD(shared_bytes_max), FIELD(atomics_max),
#define X(id, why) {"untimed_" #id, offsetof(struct vm_cost, untimed[VM_UNTIMED_##id])},
	VM_UNTIMED_TABLE(X)
#undef X
};
static const char *const dot_units[VM_DOT_COUNT] = {[VM_DOT_FMA] = "the fp32 or fp64 pipes: no tensor cores",
	[VM_DOT_TF32] = "tensor cores (tf32)",
	[VM_DOT_HALF] = "tensor cores (16-bit)",
	[VM_DOT_BYTE] = "tensor cores (8-bit)"};
static const char *const dot_names[VM_DOT_COUNT] = {
	[VM_DOT_FMA] = "fma", [VM_DOT_TF32] = "tf32", [VM_DOT_HALF] = "half", [VM_DOT_BYTE] = "byte"};

static int64_t value_of(const struct vm_cost *c, const struct field *f)
{
	return *(const int64_t *)((const char *)c + f->at);
}

json_t *vm_counts_json(const struct vm_cost *c)
{
	json_t *o = json_object(), *dot = json_object();
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (value_of(c, &fields[i])) json_object_set_new(o, fields[i].name, json_integer(value_of(c, &fields[i])));
	for (int d = 0; d < VM_DOT_COUNT; d++)
		if (c->dot_by[d]) json_object_set_new(dot, dot_names[d], json_integer(c->dot_by[d]));
	if (json_object_size(dot)) json_object_set(o, "dot_by", dot);
	json_decref(dot);
	return o;
}

static int64_t count_of(const json_t *o, const char *name)
{
	json_int_t v = json_integer_value(json_object_get(o, name));
	return MAX(v, 0);
}

void vm_counts_parse(const json_t *o, struct vm_cost *out)
{
	const json_t *dot = json_object_get(o, "dot_by");
	*out = (struct vm_cost){.programs = 0};
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		*(int64_t *)((char *)out + fields[i].at) = count_of(o, fields[i].name);
	for (int d = 0; d < VM_DOT_COUNT; d++) out->dot_by[d] = count_of(dot, dot_names[d]);
}

static json_t *estimate_json(const struct vm_estimate *e)
{
	json_t *parts = json_object();
	for (int i = 0; i < VM_LIMIT_COUNT; i++)
		json_object_set_new(parts, vm_limit_name((enum vm_limit)i), json_real(e->part_s[i]));
	return json_pack("{s:f, s:s, s:i, s:f, s:f, s:I, s:I, s:I, s:o}", "time_s", e->time_s, "limit",
		vm_limit_name(e->limit), "blocks_per_sm", e->blocks_per_sm, "occupancy", e->occupancy, "waves", e->waves,
		"dram_bytes", (json_int_t)e->dram_bytes, "l2_bytes", (json_int_t)e->l2_bytes, "spill_bytes",
		(json_int_t)e->spill_bytes, "parts_s", parts);
}

json_t *vm_predicted_json(const struct vm_cost *cost, const struct vm_binary *b)
{
	json_t *predicted = json_object();
	for (int i = 0; i < VM_GPU_COUNT; i++) {
		struct vm_estimate e = vm_estimate(cost, b, &vm_gpus[i]);
		json_object_set_new(predicted, vm_gpus[i].name, estimate_json(&e));
	}
	return predicted;
}

json_t *vm_cost_json(const char *kernel, const struct vm_launch_cost *r, const struct vm_binary *b)
{
	json_t *lines = json_array();
	for (int i = 0; i < r->nlines; i++) {
		json_t *o = vm_counts_json(&r->lines[i].cost);
		json_object_set_new(o, "line", json_integer(r->lines[i].line));
		json_array_append_new(lines, o);
	}
	json_t *resources = json_pack("{s:i, s:i, s:i, s:I, s:I}", "warps", b->warps, "registers", b->registers,
		"stack_bytes", b->stack_bytes, "local_bytes", (json_int_t)b->local_bytes, "shared_bytes",
		(json_int_t)b->shared_bytes);
	const char *why = vm_cost_untimed(&r->cost);
	json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:o}", "kernel", kernel, "counts", vm_counts_json(&r->cost),
		"resources", resources, "lines", lines, "predicted", vm_predicted_json(&r->cost, b));
	if (why) json_object_set_new(o, "not_predicted", json_string(why));
	return o;
}

/* 1234567 as "1.23 M". */
static const char *short_number(double v, char text[24])
{
	static const char *const units[] = {"", " k", " M", " G", " T", " P"};
	size_t u = 0;
	for (; v >= 1000 && u + 1 < ARRAY_LEN(units); u++) v /= 1000;
	snprintf(text, 24, v == (double)(int64_t)v || v >= 100 ? "%.0f%s" : "%.2f%s", v, units[u]);
	return text;
}

static int by_sectors(const void *a, const void *b)
{
	const struct vm_cost *x = &((const struct vm_line_cost *)a)->cost, *y = &((const struct vm_line_cost *)b)->cost;
	int64_t s = x->load_sectors + x->store_sectors, t = y->load_sectors + y->store_sectors;
	if (s != t) return s < t ? 1 : -1;
	return ((const struct vm_line_cost *)a)->line - ((const struct vm_line_cost *)b)->line;
}

static void line_rows(struct str *out, const struct vm_launch_cost *r)
{
	struct vm_line_cost *lines = xcalloc((size_t)r->nlines + 1, sizeof *lines);
	memcpy(lines, r->lines, (size_t)r->nlines * sizeof *lines);
	qsort(lines, (size_t)r->nlines, sizeof *lines, by_sectors);
	str_printf(out, "  %6s %10s %10s %9s %10s %10s %10s %10s\n", "line", "bytes", "sectors", "used", "flops", "special",
		"dot flops", "atomics");
	for (int i = 0; i < r->nlines; i++) {
		const struct vm_cost *c = &lines[i].cost;
		char t[6][24], used[24] = "";
		double bytes = (double)(c->load_bytes + c->store_bytes), sectors = (double)(c->load_sectors + c->store_sectors);
		if (sectors > 0) snprintf(used, sizeof used, "%.0f %%", 100 * bytes / (32 * sectors));
		str_printf(out, "  %6d %10s %10s %9s %10s %10s %10s %10s\n", lines[i].line, short_number(bytes, t[0]),
			short_number(sectors, t[1]), used, short_number((double)c->flops, t[2]),
			short_number((double)c->special, t[3]), short_number((double)c->dot_flops, t[4]),
			short_number((double)c->atomics, t[5]));
	}
	free(lines);
}

void vm_cost_table(struct str *out, const char *kernel, const struct vm_launch_cost *r, const struct vm_binary *b,
	const struct vm_gpu *gpu)
{
	struct vm_estimate e = vm_estimate(&r->cost, b, gpu);
	const struct vm_cost *c = &r->cost;
	char t[4][24];
	/* Time and what limits it; what the SMs hold; bytes; products; the other GPUs; lines. */
	const char *why = vm_cost_untimed(c);
	str_printf(out, "%s: %.2f us on %s, limited by %s\n", kernel, e.time_s * 1e6, gpu->name, vm_limit_name(e.limit));
	if (why) str_printf(out, "  no time is predicted: %s; what is said here is too little\n", why);
	str_printf(out, "  programs %lld of %d %s, %d registers, %lld bytes of shared memory, %d bytes of stack; ",
		(long long)c->programs, b->warps, plural(b->warps, "warp", "warps"), b->registers, (long long)b->shared_bytes,
		b->stack_bytes);
	str_printf(out, "%d %s on an SM (occupancy %.0f %%), %.2f waves\n", e.blocks_per_sm,
		plural(e.blocks_per_sm, "program", "programs"), 100 * e.occupancy, e.waves);
	str_printf(out, "  bytes asked for %s, through L2 %s, distinct %s",
		short_number((double)(c->load_bytes + c->store_bytes), t[0]), short_number((double)e.l2_bytes, t[1]),
		short_number((double)e.dram_bytes, t[2]));
	if (e.dram_bytes > 0)
		str_printf(out, " (each used %.1f times)", (double)(c->load_bytes + c->store_bytes) / (double)e.dram_bytes);
	if (e.spill_bytes) str_printf(out, ", spilled %s", short_number((double)e.spill_bytes, t[3]));
	for (int d = 0; d < VM_DOT_COUNT; d++)
		if (c->dot_by[d])
			str_printf(out, "\n  tl.dot: %s flops on %s", short_number((double)c->dot_by[d], t[0]), dot_units[d]);
	str_puts(out, "\n ");
	for (int i = 0; i < VM_LIMIT_COUNT; i++)
		if (e.part_s[i] > 0)
			str_printf(out, " %s %.2f us%s", vm_limit_name((enum vm_limit)i), e.part_s[i] * 1e6,
				i + 1 < VM_LIMIT_COUNT ? "," : "");
	str_puts(out, "\n  predicted:");
	for (int i = 0; i < VM_GPU_COUNT; i++) {
		struct vm_estimate x = vm_estimate(c, b, &vm_gpus[i]);
		str_printf(out, "%s %s %.2f us (%s)", i ? "," : "", vm_gpus[i].name, x.time_s * 1e6, vm_limit_name(x.limit));
	}
	str_puts(out, "\n");
	line_rows(out, r);
}
