/* libhone_vm.so: the vm for a Python process (vm_driver.py, ctypes). What is exported begins with
 * hone_vm_; the rest of the library is hidden.
 *
 * A launch hands over one array of 64-bit words: for each argument of the IR's function its value
 * (floats as bits of a double), and for a pointer three words: address, first byte and size of the
 * storage it lies in; for a descriptor a fourth, 1 when its padding is NaN. Storages become the
 * buffers of the launch, so a kernel may touch what the tensor's storage has and nothing else.
 *
 * Threading: launches may come from several threads; one of them at a time has the pool, the others
 * run on their own thread alone. */
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <pthread.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))
EXPORT int hone_vm_gpu(const char *name);
EXPORT void hone_vm_threads(int threads);
EXPORT const char *hone_vm_report(void);
EXPORT struct vm_kernel *hone_vm_kernel_create(const char *ttir, size_t len);
EXPORT void hone_vm_kernel_free(struct vm_kernel *k);
EXPORT int hone_vm_kernel_nargs(const struct vm_kernel *k);
EXPORT const char *hone_vm_kernel_arg_type(const struct vm_kernel *k, int i);
EXPORT struct vm_compiled *hone_vm_compiled_create(const char *result, size_t len);
EXPORT double hone_vm_operator_s(const char *name, const char *form, double bytes, double flops, double special,
	double dot_flops, double extent, int dot);
EXPORT int hone_vm_launch(const struct vm_kernel *k, const struct vm_compiled *compiled, const int64_t *words,
	uint32_t x, uint32_t y, uint32_t z, int flags, int nhost, const int64_t *host);

#define FIRST_BUFFER 256             /* above index 128 no synthetic address can be one of a Linux process */
#define BUFFERS_MAX (TAPE_BUFFERS_MAX - FIRST_BUFFER)
#define POOL_PROGRAMS_MIN 2
#define FINDINGS_MAX 64
/* PyTorch's allocator for CUDA takes memory from the device in multiples of this and
 * cuts tensors from it. */
#define CUDA_GRANULE (2 << 20)
enum { FLAG_COST = 1, FLAG_CHECK = 2, FLAG_CUDA = 4, FLAG_FMA = 8 };

/* What the last launch of this thread found, as JSON. */
static _Thread_local struct str report_text;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pool;
static const struct vm_gpu *gpu; /* whose time is predicted */
static int pool_size;

/* The card whose time is predicted, before the first launch; -1: none of the table. */
int hone_vm_gpu(const char *name)
{
	gpu = vm_gpu_find(name);
	return gpu ? 0 : -1;
}
void hone_vm_threads(int threads) { pool_size = threads; }
const char *hone_vm_report(void) { return report_text.data ? report_text.data : "{}"; }

static void drop_pool_in_child(void)
{
	pool = NULL; /* its threads did not survive the fork */
	pthread_mutex_init(&pool_lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, drop_pool_in_child); }

static void set_report(json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);
	str_clear(&report_text);
	str_puts(&report_text, text ? text : "{}");
	free(text);
	json_decref(o);
}

static void report_error(const struct err *err)
{
	set_report(json_pack("{s:s, s:s}", "error", err_name(err->code), "text", err->text));
}

struct vm_kernel *hone_vm_kernel_create(const char *ttir, size_t len)
{
	struct vm_kernel *k = NULL;
	struct err err = {0};
	if (vm_kernel_create(ttir, len, &k, &err)) report_error(&err);
	return k;
}

/* What the compile worker said about a kernel, as JSON; lives as long as the process. */
struct vm_compiled *hone_vm_compiled_create(const char *result, size_t len)
{
	struct vm_compiled *c = NULL;
	struct err err = {0};
	json_t *o = NULL;
	int rc = json_parse(result, len, "the compile's result", &o, &err);
	if (!rc) rc = vm_compiled_create(o, gpu, &c, &err);
	if (rc) report_error(&err);
	json_decref(o);
	return c;
}

void hone_vm_kernel_free(struct vm_kernel *k) { vm_kernel_free(k); }
int hone_vm_kernel_nargs(const struct vm_kernel *k) { return vm_kernel_nargs(k); }
const char *hone_vm_kernel_arg_type(const struct vm_kernel *k, int i) { return vm_kernel_arg_type(k, i); }

/* Predicted seconds of an operator of PyTorch, as the verifier predicts the reference's; name NULL:
 * of a well-made launch. form: as cost_operator_s takes it. dot: enum cost_dot. */
double hone_vm_operator_s(const char *name, const char *form, double bytes, double flops, double special,
	double dot_flops, double extent, int dot)
{
	struct cost_launch l = {
		.bytes = bytes, .flops = flops, .special = special, .dot_flops = dot_flops, .extent = extent};
	enum cost_dot unit = (enum cost_dot)MIN(MAX(dot, 0), COST_DOT_COUNT - 1);
	return name ? cost_operator_s(name, form, &l, unit, gpu) : cost_launch_s(&l, unit, gpu);
}

/* ---- reports ---- */

static void add_fault(json_t *o, const struct vm_report *r, const struct vm_launch_options *l)
{
	json_object_update_new(o,
		json_pack("{s:s, s:s, s:s, s:i, s:i, s:[i,i,i], s:I}", "fault", vm_fault_name(r->fault), "text", r->text,
			"file", r->file ? r->file : "", "line", r->line, "column", r->column, "program", (int)r->program[0],
			(int)r->program[1], (int)r->program[2], "element", (json_int_t)r->element));
	if (!r->access) return;
	json_object_update_new(o,
		json_pack("{s:s, s:I, s:I, s:I}", "access", r->access, "offset", (json_int_t)r->offset, "access_bytes",
			(json_int_t)r->access_bytes, "address", (json_int_t)r->address));
	if (r->buffer < 0 || r->buffer >= l->nbuffers) return;
	const struct vm_buffer *b = &l->buffers[r->buffer];
	json_object_update_new(
		o, json_pack("{s:I, s:I}", "storage", (json_int_t)(intptr_t)b->data, "storage_bytes", (json_int_t)b->bytes));
}

static json_t *finding_json(const struct vm_finding *f)
{
	bool is_error = f->fault != VM_FAULT_NONE;
	return json_pack("{s:s, s:b, s:s, s:i, s:i, s:s, s:s, s:[i,i,i], s:I, s:I, s:I}", "kind",
		is_error ? vm_fault_name(f->fault) : vm_note_name(f->note), "is_error", is_error, "file", f->file, "line",
		f->line, "column", f->column, "expression", f->expression, "text", f->text, "program", (int)f->program[0],
		(int)f->program[1], (int)f->program[2], "element", (json_int_t)f->element, "times", (json_int_t)f->times,
		"programs", (json_int_t)f->programs);
}

static void add_cost(json_t *o, const struct vm_report *r, const struct vm_launch_options *l)
{
	struct vm_binary binary = l->compiled ? l->compiled->binary : vm_binary_of(NULL);
	json_t *lines = json_array();
	for (int i = 0; i < r->nlines; i++)
		json_array_append_new(
			lines, json_pack("{s:i, s:o}", "line", r->lines[i].line, "cost", vm_counts_json(&r->lines[i].cost)));
	json_object_update_new(o,
		json_pack("{s:o, s:o, s:f}", "cost", vm_counts_json(&r->cost), "lines", lines, "predicted_s",
			vm_estimate(&r->cost, &binary, gpu).time_s));
}

static void report_launch(const struct vm_report *r, const struct vm_launch_options *l)
{
	json_t *o = json_object(), *findings = json_array();
	if (r->fault != VM_FAULT_NONE) add_fault(o, r, l);
	for (int i = 0; i < r->nfindings; i++) json_array_append_new(findings, finding_json(&r->findings[i]));
	json_object_set_new(o, "findings", findings);
	if (r->is_passed_over) json_object_set_new(o, "passed_over", json_true());
	if (l->want_cost && (r->fault == VM_FAULT_NONE || r->is_passed_over)) add_cost(o, r, l);
	set_report(o);
}

/* ---- launches ---- */

static int by_data(const void *a, const void *b)
{
	const struct vm_buffer *x = a, *y = b;
	return x->data < y->data ? -1 : x->data > y->data;
}

/* Adds a storage unless it is there. */
static int add_storage(struct vm_buffer *buffers, int *n, int64_t base, int64_t bytes)
{
	for (int i = 0; i < *n; i++) {
		if ((int64_t)(intptr_t)buffers[i].data != base) continue;
		buffers[i].bytes = MAX(buffers[i].bytes, bytes);
		return 0;
	}
	if (*n == BUFFERS_MAX || bytes < 0) return -1;
	buffers[(*n)++] = (struct vm_buffer){.data = (uint8_t *)(intptr_t)base, .bytes = bytes};
	return 0;
}

static uint64_t synthetic(const struct vm_buffer *buffers, int n, int64_t address, int64_t base)
{
	for (int i = 0; i < n; i++)
		if ((int64_t)(intptr_t)buffers[i].data == base)
			return buffers[i].address +
				(address ? (uint64_t)(address - base) : 0); /* torch gives an empty view the address 0 */
	return (uint64_t)address;
}

static int words_of(const struct vm_kernel *k, int i)
{
	return vm_kernel_arg_is_descriptor(k, i) ? 4 : vm_kernel_arg_is_pointer(k, i) ? 3 : 1;
}

static bool set_arguments(const struct vm_kernel *k, const int64_t *words, struct vm_buffer *buffers, int *n,
	struct vm_arg *args, int nhost, const int64_t *host)
{
	const int64_t *w = words;
	int nargs = vm_kernel_nargs(k);
	for (int i = 0; i < nargs; w += words_of(k, i++))
		if (vm_kernel_arg_is_pointer(k, i) && add_storage(buffers, n, w[1], w[2])) return false;
	for (int i = 0; i < nhost; i++)
		if (add_storage(buffers, n, host[2 * i], host[2 * i + 1])) break;
	if (nhost) qsort(buffers, (size_t)*n, sizeof *buffers, by_data);
	for (int i = 0; i < *n; i++) buffers[i].address = tape_buffer_address(FIRST_BUFFER + i);
	w = words;
	for (int i = 0; i < nargs; w += words_of(k, i++)) {
		args[i] = (struct vm_arg){.i = *w, .nan_padding = vm_kernel_arg_is_descriptor(k, i) && w[3]};
		if (vm_kernel_arg_is_pointer(k, i)) args[i].i = (int64_t)synthetic(buffers, *n, w[0], w[1]);
		else memcpy(&args[i].f, w, sizeof args[i].f);
	}
	return true;
}

static int run(const struct vm_kernel *k, struct vm_launch_options *o)
{
	struct vm_report report;
	struct err err = {0};
	bool is_wide = (uint64_t)o->grid[0] * o->grid[1] * o->grid[2] >= POOL_PROGRAMS_MIN && pool_size != 1;
	bool has_pool = is_wide && !pthread_mutex_trylock(&pool_lock);
	if (has_pool && !pool) pool = pool_create(pool_size);
	if (has_pool) o->pool = pool;
	int rc = vm_launch(k, o, &report, &err);
	if (has_pool) pthread_mutex_unlock(&pool_lock);
	if (rc && report.fault == VM_FAULT_NONE) report_error(&err);
	else if (rc || report.is_passed_over || o->want_cost || o->checks) report_launch(&report, o);
	vm_report_release(&report);
	return rc ? rc : report.is_passed_over;
}

/* host: nhost pairs of first byte and size, storages that the kernel may reach through pointers in
 * memory. 0 when it ran without fault, 1 when it ran and a load was passed over (FLAG_CUDA),
 * negative when it did not; the report says why not, with FLAG_COST what it cost (compiled: of the
 * same kernel, or NULL), with FLAG_CHECK
 * what else was found. */
int hone_vm_launch(const struct vm_kernel *k, const struct vm_compiled *compiled, const int64_t *words, uint32_t x,
	uint32_t y, uint32_t z, int flags, int nhost, const int64_t *host)
{
	/* A script launches thousands of times: the usual numbers of arguments and storages need no
	 * allocation. */
	int nargs = vm_kernel_nargs(k), n = 0, room = MIN(nargs + nhost, BUFFERS_MAX) + 1;
	struct vm_buffer few[32], *buffers = room <= (int)ARRAY_LEN(few) ? few : xcalloc((size_t)room, sizeof *buffers);
	struct vm_arg some[64], *args = nargs <= (int)ARRAY_LEN(some) ? some : xcalloc((size_t)nargs, sizeof *args);
	int rc = -1;
	/* The flags of the Python side become the options of a launch. */
	if (set_arguments(k, words, buffers, &n, args, nhost, host)) {
		struct vm_launch_options o = {
			.grid = {x, y, z},
			.args = args,
			.nargs = nargs,
			.buffers = buffers,
			.nbuffers = n,
			.want_cost = flags & FLAG_COST,
			.fma_contract = flags & FLAG_FMA,
			.undefined_is_zero = true,
			.has_host_pointers = nhost > 0,
			.print = stderr,
			.compiled = compiled,
			.load_granule = flags & FLAG_CUDA ? CUDA_GRANULE : 0,
			.checks = flags & FLAG_CHECK ? VM_CHECK_ALL : 0,
			.findings_max = flags & FLAG_CHECK ? FINDINGS_MAX : 0,
		};
		rc = run(k, &o);
	} else {
		report_error(&(struct err){ERR_LIMIT, "more storages than a launch can have"});
	}
	if (buffers != few) free(buffers);
	if (args != some) free(args);
	return rc;
}
