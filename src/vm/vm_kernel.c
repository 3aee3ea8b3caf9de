/* A kernel: text in, lowered programs out, and what a caller may ask about it. */
#include "vm/check/check.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/exec/exec.h"
#include "vm/lower/lower.h"
#include "vm/meter/depend.h"
#include "vm/meter/meter.h"
#include <stdlib.h>

static void program_release(struct vm_program *p)
{
	free(p->instrs);
	free(p->ids);
	free(p->values);
	free(p->consts);
	free(p->lines);
	vm_plan_release(p);
}

void vm_kernel_free(struct vm_kernel *k)
{
	if (!k) return;
	program_release(&k->program);
	program_release(&k->contracted);
	ttir_release(&k->module);
	arena_release(&k->arena);
	free(k->text);
	free(k);
}

/* What LLVM leaves open gives a pattern: compiled code stores whatever lies in a register. */
static void undefined_put(struct vm_program *p, struct arena *arena)
{
	bool *is_open = xcalloc((size_t)p->ninstrs + 1, sizeof *is_open);
	vm_undefined_find(p, is_open);
	for (int i = 0; i < p->ninstrs; i++) {
		struct vm_instr *in = &p->instrs[i];
		if (!is_open[i]) continue;
		uint8_t *bits = arena_alloc(arena, 8);
		vm_pattern((enum elem)in->result_elem, bits);
		vm_instr_set(in, OP_POISON);
		in->extra = bits;
		in->rule = NULL;
		in->map_op = -1;
		in->number = NUMBER_NONE;
	}
	free(is_open);
}

int vm_kernel_create(const char *ttir, size_t len, struct vm_kernel **out, struct err *err)
{
	if (len > TTIR_TEXT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "ttir text has %zu bytes, at most %zu are read", len, TTIR_TEXT_BYTES_MAX);
	struct vm_kernel *k = xcalloc(1, sizeof *k);
	k->text = xmalloc(len + 1);
	memcpy(k->text, ttir, len);
	k->text[len] = 0;
	int rc = ttir_parse(k->text, len, &k->module, err);
	if (!rc) rc = lower_kernel(k, &k->program, false, err);
	if (!rc) rc = lower_kernel(k, &k->contracted, true, err);
	if (rc) {
		vm_kernel_free(k);
		return rc;
	}
	undefined_put(&k->program, &k->arena);
	undefined_put(&k->contracted, &k->arena);
	vm_plan_make(k, &k->program);
	vm_plan_make(k, &k->contracted);
	*out = k;
	return 0;
}

const char *vm_kernel_name(const struct vm_kernel *k) { return k->name; }
int vm_kernel_nargs(const struct vm_kernel *k) { return k->nargs; }

const char *vm_kernel_arg_type(const struct vm_kernel *k, int i)
{
	CHECKF(i >= 0 && i < k->nargs, "argument %d of %d", i, k->nargs);
	return k->arg_type_text[i];
}

bool vm_kernel_arg_is_pointer(const struct vm_kernel *k, int i)
{
	CHECKF(i >= 0 && i < k->nargs, "argument %d of %d", i, k->nargs);
	return vm_arg_is_pointer(k, i);
}

bool vm_kernel_arg_is_descriptor(const struct vm_kernel *k, int i)
{
	CHECKF(i >= 0 && i < k->nargs, "argument %d of %d", i, k->nargs);
	return k->arg_is_descriptor[i];
}

bool vm_kernel_arg_may_be_written(const struct vm_kernel *k, int i)
{
	const struct vm_plan *plan = &k->program.plan;
	return plan->writes_anywhere || i >= 128 || (plan->written[i / 64] >> (i % 64) & 1);
}

bool vm_kernel_arg_may_be_early(const struct vm_kernel *k, int i, bool is_write)
{
	const struct vm_roots *r = is_write ? &k->program.plan.early_writes : &k->program.plan.early_reads;
	return r->from_memory || i >= 128 || (r->args[i / 64] >> (i % 64) & 1);
}

bool vm_kernel_may_skip_wait(const struct vm_kernel *k) { return k->program.plan.may_skip_wait; }
bool vm_kernel_triggers_early(const struct vm_kernel *k) { return k->program.plan.triggers_early; }
bool vm_kernel_triggers(const struct vm_kernel *k)
{
	return strstr(k->text, "griddepcontrol.launch_dependents") != NULL;
}

bool vm_kernel_uses_tf32(const struct vm_kernel *k, int *line)
{
	if (line) *line = k->tf32_line;
	return k->uses_tf32;
}

bool vm_kernel_sums_fp8(const struct vm_kernel *k, int *line)
{
	if (line) *line = k->fp8_line;
	return k->sums_fp8;
}

bool vm_kernel_narrows(const struct vm_kernel *k, int *line)
{
	int at = k->program.plan.narrow_instr;
	if (line) *line = at >= 0 ? k->program.locs[k->program.instrs[at].loc].line : -1;
	return at >= 0;
}

bool vm_kernel_cost_depends_on_data(const struct vm_kernel *k, int *line)
{
	struct vm_dependence d;
	vm_dependence_make(&k->program, &d);
	int at = d.data_instr;
	vm_dependence_release(&d);
	if (line) *line = at >= 0 ? k->program.locs[k->program.instrs[at].loc].line : -1;
	return at >= 0;
}

bool vm_kernel_may_depend_on_order(const struct vm_kernel *k, int *line)
{
	int atomic = k->program.plan.order_instr;
	if (line) *line = k->order_line;
	if (line && !k->may_depend_on_order && atomic >= 0) *line = k->program.locs[k->program.instrs[atomic].loc].line;
	return k->may_depend_on_order || atomic >= 0;
}
