/* The machine's core: buffers, forms of values and the instruction loop.
 *
 * Buffers come from lists by power-of-two size, last in first out, so that a chain of operations
 * keeps working in the same cache lines. An AddressSanitizer build allocates each at its exact size
 * instead, so that a write past a block is seen. */
#include "vm/vm_check.h"
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define EXACT_BUFFERS 1
#else
#define EXACT_BUFFERS 0
#endif

/* ---- buffers ---- */

static int size_class_of(size_t bytes)
{
	int k = 0;
	while (((size_t)64 << k) < bytes) k++;
	return k;
}

struct vm_buf *vm_buf_get(struct vm_ctx *c, const struct vm_instr *in, size_t bytes)
{
	int k = size_class_of(bytes);
	struct vm_buf *b = c->free_bufs[k];
	if (b && !EXACT_BUFFERS) {
		c->free_bufs[k] = b->next;
		b->refs = 1;
		return b;
	}
	size_t size = EXACT_BUFFERS ? MAX(bytes, 1) : (size_t)64 << k;
	if (c->arena_bytes + ((size_t)64 << k) > VM_ARENA_BYTES_MAX) {
		vm_fault(
			c, in, VM_FAULT_UNSUPPORTED, -1, "blocks alive at once need more than %zu MiB", VM_ARENA_BYTES_MAX >> 20);
		return NULL;
	}
	b = aligned_alloc(64, (sizeof *b + size + 63) / 64 * 64);
	CHECKF(b, "%zu bytes", size);
	*b = (struct vm_buf){.refs = 1, .size_class = k};
#ifdef HONE_POISON
	memset(b->data, 0xa5, size);
#endif
	c->arena_bytes += (size_t)64 << k;
	return b;
}

void vm_buf_put(struct vm_ctx *c, struct vm_buf *b)
{
	if (!b || --b->refs) return;
	if (EXACT_BUFFERS) {
		c->arena_bytes -= (size_t)64 << b->size_class;
		free(b);
		return;
	}
	b->next = c->free_bufs[b->size_class];
	c->free_bufs[b->size_class] = b;
}

void vm_value_clear(struct vm_ctx *c, struct vm_value *v)
{
	if (v->buf) vm_buf_put(c, v->buf);
	v->buf = NULL;
}

void vm_value_share(struct vm_ctx *c, struct vm_value *to, const struct vm_value *from)
{
	if (from->buf) from->buf->refs++;
	struct vm_value copy = *from;
	vm_value_clear(c, to);
	*to = copy;
}

void vm_kill(struct vm_ctx *c, const struct vm_instr *in)
{
	for (uint64_t k = in->kill; k; k &= k - 1) {
		struct vm_value *v = &c->values[vm_src(c, in, __builtin_ctzll(k))];
		if (v->buf) vm_value_clear(c, v);
	}
}

/* ---- elements ---- */

#define FILL(T) do { T x; memcpy(&x, bits, sizeof x); T *p = d; for (int64_t i = 0; i < n; i++) p[i] = x; } while (0)
void vm_fill(void *d, const void *bits, size_t elem_size, int64_t n)
{
	switch (elem_size) {
	case 1: memset(d, *(const uint8_t *)bits, (size_t)n); return;
	case 2: FILL(uint16_t); return;
	case 4: FILL(uint32_t); return;
	default: FILL(uint64_t); return;
	}
}
#undef FILL

#define ROW(T) do { T *p = d; T x = (T)base, s = (T)step; for (int64_t i = 0; i < n; i++) p[i] = (T)(x + (T)i * s); } while (0)
static void fill_row(void *d, size_t elem_size, int64_t base, int64_t step, int64_t n)
{
	switch (elem_size) {
	case 1: ROW(uint8_t); return;
	case 2: ROW(uint16_t); return;
	case 4: ROW(uint32_t); return;
	default: ROW(uint64_t); return;
	}
}
#undef ROW

static void expand_affine(const struct vm_value_info *info, const struct affine *a, uint8_t *d)
{
	size_t size = elem_bytes(info->elem);
	int last = info->ndim - 1;
	int64_t row = info->shape[last], index[VM_LAZY_DIMS] = {0};
	for (int64_t at = 0; at < info->count; at += row) {
		int64_t base = a->base;
		for (int k = 0; k < last; k++) base += index[k] * a->stride[k];
		fill_row(d + (size_t)at * size, size, base, a->stride[last], row);
		for (int k = last - 1; k >= 0 && ++index[k] == info->shape[k]; k--) index[k] = 0;
	}
}

static void expand_box(const struct vm_value_info *info, const struct box *b, uint8_t *d)
{
	int last = info->ndim - 1;
	int64_t row = info->shape[last], index[VM_LAZY_DIMS] = {0};
	for (int64_t at = 0; at < info->count; at += row) {
		bool inside = true;
		for (int k = 0; k < last; k++) inside &= index[k] >= b->lo[k] && index[k] < b->hi[k];
		memset(d + at, 0, (size_t)row);
		if (inside && b->hi[last] > b->lo[last]) memset(d + at + b->lo[last], 1, (size_t)(b->hi[last] - b->lo[last]));
		for (int k = last - 1; k >= 0 && ++index[k] == info->shape[k]; k--) index[k] = 0;
	}
}

const void *vm_dense(struct vm_ctx *c, const struct vm_instr *in, int value, int64_t n)
{
	struct vm_value *v = &c->values[value];
	if (v->buf) return v->buf->data;
	const struct vm_value_info *info = &c->program->values[value];
	struct vm_buf *b = vm_buf_get(c, in, (size_t)n * elem_bytes(info->elem));
	if (!b) return NULL;
	if (v->form == FORM_SPLAT) {
		CHECK(n == info->count); /* never over lanes, whose number changes */
		vm_fill(b->data, v->splat, elem_bytes(info->elem), n);
	} else if (v->form == FORM_AFFINE) {
		expand_affine(info, &v->affine, b->data);
	} else {
		expand_box(info, &v->box, b->data);
	}
	v->buf = b;
	return b->data;
}

void *vm_result(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n)
{
	int id = vm_dst(c, in, i);
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_DENSE;
	v->buf = vm_buf_get(c, in, (size_t)n * elem_bytes(c->program->values[id].elem));
	if (v->buf) return v->buf->data;
	v->form = FORM_SPLAT;
	return NULL;
}

void vm_result_splat(struct vm_ctx *c, const struct vm_instr *in, int i, const void *bits)
{
	int id = vm_dst(c, in, i);
	struct vm_value *v = &c->values[id];
	vm_value_clear(c, v);
	v->form = FORM_SPLAT;
	v->splat_int = 0;
	memcpy(v->splat, bits, elem_bytes(c->program->values[id].elem));
}

/* ---- the loop ---- */

static int check_clock(struct vm_ctx *c, const struct vm_instr *in)
{
	c->fuel = VM_FUEL;
	if (c->deadline_ns && clock_ns() > c->deadline_ns)
		return vm_fault(c, in, VM_FAULT_TIMEOUT, -1, "the deadline passed");
	return 0;
}

int vm_run(struct vm_ctx *c, const struct vm_instr *from, const struct vm_instr *to)
{
	const struct vm_instr *outer = c->next;
	for (const struct vm_instr *in = from; in != to; in = c->next) {
		c->next = in + 1;
		c->fuel -= in->weight;
		if (c->fuel < 0 && check_clock(c, in)) return 1;
		if (c->watch && (c->is_tainted || c->watch[in - c->program->instrs]))
			vm_taint_step(c, in, c->watch[in - c->program->instrs]);
		if (in->exec(c, in)) return 1;
		if (c->want_cost) vm_cost_step(c, in);
	}
	c->next = outer;
	return 0;
}

int exec_nothing(struct vm_ctx *c, const struct vm_instr *in) { return 0; }

/* ---- control ---- */

/* All moves at once. A source that dies here gives its reference away; otherwise the buffer is
 * shared. */
int exec_move(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_value some[16], *tmp = in->nsrc > (int)ARRAY_LEN(some) ? xmalloc((size_t)in->nsrc * sizeof *tmp) : some;
	for (int i = 0; i < in->nsrc; i++) {
		struct vm_value *v = &c->values[vm_src(c, in, i)];
		tmp[i] = *v;
		if (i < 64 && in->kill >> i & 1) v->buf = NULL;
		else if (v->buf) v->buf->refs++;
	}
	for (int i = 0; i < in->ndst; i++) {
		struct vm_value *v = &c->values[vm_dst(c, in, i)];
		vm_value_clear(c, v);
		*v = tmp[i];
	}
	if (tmp != some) free(tmp);
	return 0;
}

int exec_jump(struct vm_ctx *c, const struct vm_instr *in)
{
	c->next = c->program->instrs + in->target;
	if (c->next <= in && c->program->has_atomics) return vm_spin_check(c, in);
	return 0;
}

int exec_jump_unless(struct vm_ctx *c, const struct vm_instr *in)
{
	if (!c->values[vm_src(c, in, 0)].splat[0]) c->next = c->program->instrs + in->target;
	return 0;
}

static int64_t scalar_int(const struct vm_ctx *c, int value)
{
	int64_t x = c->values[value].splat_int;
	int shift = 64 - 8 * (int)elem_bytes(c->program->values[value].elem);
	return (int64_t)((uint64_t)x << shift) >> shift;
}

/* for (i; i < upper; ...): leaves the loop when i >= upper */
int exec_loop_test(struct vm_ctx *c, const struct vm_instr *in)
{
	if (scalar_int(c, vm_src(c, in, 0)) >= scalar_int(c, vm_src(c, in, 1))) c->next = c->program->instrs + in->target;
	return 0;
}

int exec_return(struct vm_ctx *c, const struct vm_instr *in)
{
	c->next = c->program->instrs + c->program->ninstrs;
	return 0;
}

int exec_program_id(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_result_splat(c, in, 0, &c->id[in->imm[0]]);
	return 0;
}

int exec_num_programs(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_result_splat(c, in, 0, &c->grid[in->imm[0]]);
	return 0;
}

int exec_poison(struct vm_ctx *c, const struct vm_instr *in)
{
	vm_result_splat(c, in, 0, in->extra);
	return 0;
}

int exec_assert(struct vm_ctx *c, const struct vm_instr *in)
{
	int id = vm_src(c, in, 0);
	int64_t n = c->values[id].form == FORM_SPLAT ? 1 : in->n;
	const uint8_t *ok = n == 1 ? c->values[id].splat : vm_dense(c, in, id, n);
	if (!ok) return 1;
	for (int64_t i = 0; i < n; i++)
		if (!ok[i])
			return vm_fault(
				c, in, VM_FAULT_ASSERT, i, "element %lld: \"%.160s\"", (long long)i, (const char *)in->extra);
	vm_kill(c, in);
	return 0;
}

/* ---- one running program's state ---- */

void vm_ctx_init(struct vm_ctx *c, const struct vm_kernel *k, const struct vm_program *p)
{
	*c = (struct vm_ctx){.kernel = k, .program = p, .fuel = VM_FUEL};
	c->values = xcalloc((size_t)p->nvalues + 1, sizeof *c->values);
	for (int i = 0; i < p->nvalues; i++) c->values[i].form = FORM_SPLAT;
	for (int i = 0; i < p->nconsts; i++) {
		const struct vm_const *k0 = &p->consts[i];
		struct vm_value *v = &c->values[k0->value];
		memcpy(v->splat, k0->bits, sizeof v->splat);
		if (!k0->data) continue;
		size_t bytes = (size_t)p->values[k0->value].count * elem_bytes(p->values[k0->value].elem);
		v->buf = aligned_alloc(64, (sizeof *v->buf + bytes + 63) / 64 * 64);
		CHECKF(v->buf, "%zu bytes", bytes);
		*v->buf = (struct vm_buf){.refs = 1, .size_class = size_class_of(bytes)};
		memcpy(v->buf->data, k0->data, bytes);
		v->form = FORM_DENSE;
	}
}

void vm_ctx_release(struct vm_ctx *c)
{
	for (int i = 0; i < c->program->nvalues; i++) vm_value_clear(c, &c->values[i]);
	for (size_t k = 0; k < ARRAY_LEN(c->free_bufs); k++)
		for (struct vm_buf *b = c->free_bufs[k], *next; b; b = next) {
			next = b->next;
			free(b);
		}
	free(c->values);
}
