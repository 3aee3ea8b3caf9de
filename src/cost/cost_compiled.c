/* What the compile worker says about a kernel: see cost.h. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

#define WARPS_MAX 32
#define REGISTERS_MAX 255
#define BYTES_MAX 1e9

struct vm_binary vm_binary_default(int warps)
{
	return (struct vm_binary){.warps = MAX(MIN(warps, WARPS_MAX), 1), .registers = 32};
}

/* A count of the result between 0 and max; 0 when it is none. */
static double count_of(const json_t *result, const char *name, double max)
{
	double v = json_number_value(json_object_get(result, name));
	return isfinite(v) && v > 0 ? fmin(v, max) : 0;
}

struct vm_binary vm_binary_of(const json_t *result)
{
	double warps = count_of(result, "num_warps", WARPS_MAX), registers = count_of(result, "registers", REGISTERS_MAX);
	struct vm_binary b = vm_binary_default(warps > 0 ? (int)warps : 4);
	if (registers > 0) b.registers = (int)registers;
	b.stack_bytes = (int)count_of(result, "stack_bytes", BYTES_MAX);
	b.local_bytes = (int64_t)count_of(result, "spills", BYTES_MAX);
	b.shared_bytes = (int64_t)count_of(result, "shared_bytes", BYTES_MAX);
	return b;
}

int vm_compiled_create(const json_t *result, const struct vm_gpu *gpu, struct vm_compiled **out, struct err *err)
{
	const json_t *ttgir = json_object_get(result, "ttgir");
	struct vm_compiled *c = xcalloc(1, sizeof *c);
	c->binary = vm_binary_of(result);
	c->l1_bytes = vm_cost_l1_bytes(&c->binary, gpu);
	int rc = json_is_string(ttgir)
		? vm_layouts_create(json_string_value(ttgir), json_string_length(ttgir), &c->layouts, err)
		: 0;
	if (rc) free(c);
	else *out = c;
	return rc;
}

void vm_compiled_free(struct vm_compiled *c)
{
	if (!c) return;
	vm_layouts_free(c->layouts);
	free(c);
}
