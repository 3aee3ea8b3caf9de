/* What the compile worker says about a kernel: see cost.h. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <stdlib.h>

#define WARPS_MAX 32
#define REGISTERS_MAX 255
#define BYTES_MAX 1e9
#define JOINED_MAX 4096
#define JOINED_BYTES_MAX 32 /* of one lane of one instruction */

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

static int int_at(const json_t *row, size_t i)
{
	json_int_t v = json_integer_value(json_array_get(row, i));
	return v > 0 && v < INT32_MAX ? (int)v : 0;
}

static void joined_take(const json_t *list, struct vm_compiled *c)
{
	size_t n = MIN(json_array_size(list), (size_t)JOINED_MAX);
	c->joined = xcalloc(n + 1, sizeof *c->joined);
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(list, i);
		c->joined[c->njoined++] = (struct vm_joined){int_at(row, 0), int_at(row, 1), int_at(row, 2)};
	}
}

int vm_joined_bytes(const struct vm_compiled *c, int line, int column)
{
	for (int i = 0; i < c->njoined; i++)
		if (c->joined[i].line == line && c->joined[i].column == column)
			return MIN(c->joined[i].bytes, JOINED_BYTES_MAX);
	return 0;
}

int vm_compiled_create(const json_t *result, const struct vm_gpu *gpu, struct vm_compiled **out, struct err *err)
{
	const json_t *ttgir = json_object_get(result, "ttgir");
	struct vm_compiled *c = xcalloc(1, sizeof *c);
	c->binary = vm_binary_of(result);
	c->l1_bytes = vm_cost_l1_bytes(&c->binary, gpu);
	c->resident = gpu->sms * MAX(vm_gpu_fit(gpu, c->binary.warps, c->binary.registers, c->binary.shared_bytes), 1);
	int rc = json_is_string(ttgir)
		? vm_layouts_create(json_string_value(ttgir), json_string_length(ttgir), &c->layouts, err)
		: 0;
	joined_take(json_object_get(result, "joined"), c);
	if (rc) vm_compiled_free(c);
	else *out = c;
	return rc;
}

void vm_compiled_free(struct vm_compiled *c)
{
	if (!c) return;
	vm_layouts_free(c->layouts);
	free(c->joined);
	free(c);
}

bool vm_assembler_is_usual(const char *ptx_options)
{
	/* What is asked for anyway, messages, and what the counts have: registers, and
	 * products that are not fused. Any other word may slow what is counted by any factor
	 * (-O0), or move it (-dlcm=cg). */
	static const char *const harmless[] = {"-O3", "-O2", "--opt-level=3", "--opt-level=2", "-w", "--disable-warnings",
		"--warn-on-spills", "--fmad=true", "--fmad=false", "--maxrregcount=", "-dlcm=ca", "--def-load-cache=ca",
		"-dscm=wb", "--def-store-cache=wb", "--allow-expensive-optimizations=true", "--preserve-relocs"};
	for (const char *word = ptx_options; word && *word;) {
		size_t len = strcspn(word, " ");
		bool is_known = false;
		for (size_t i = 0; i < ARRAY_LEN(harmless); i++) {
			size_t n = strlen(harmless[i]);
			bool takes_number = harmless[i][n - 1] == '=';
			is_known |= (takes_number ? len > n : len == n) && !strncmp(word, harmless[i], n);
		}
		if (!is_known) return false;
		word += len + (word[len] == ' ');
	}
	return true;
}
