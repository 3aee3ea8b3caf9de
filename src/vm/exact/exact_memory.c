/* Loads, stores and atomics of floats.
 *
 * The engine's own check of an access (vm_access) decides bounds, alignment and what may be
 * written; where a value lies is then its place in the buffer. A byte whose origin is known holds
 * an integer's or a constant's bits; where a float was stored the origin is NONE again, so that
 * an integer read there is the engine's fault of uninitialised memory. */
#include "vm/exact/exact.h"
#include "base/base.h"
#include "field/field.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"

struct place {
	struct vm_exact_buffer *exact;
	const struct vm_buffer *buffer;
	int64_t offset; /* in the buffer, in bytes */
	int64_t slot;   /* index into exact's values */
};

/* Bounds, alignment, permission: the engine's. Origin is looked at here. */
static bool find(struct exact *e, const struct vm_instr *in, int64_t address, size_t size, int64_t element,
	bool is_write, struct place *out)
{
	struct vm_ctx *c = &e->c;
	const struct vm_buffer *b = vm_buffer_at(c->memory, (uint64_t)address >> TAPE_ADDRESS_SHIFT);
	int64_t offset = (int64_t)((uint64_t)address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
	bool is_plain = b && offset + (int64_t)size <= b->bytes && (uint64_t)address % size == 0 &&
		!(is_write && b->is_read_only);
	/* only a fault goes through the engine's door: it writes the message */
	if (!is_plain)
		return vm_access(c, in, address, size, element, !is_write, is_write) &&
			!exact_stop(e, in, VM_EXACT_FAULT, "an access");
	*out = (struct place){e->memory[b - c->memory->buffers], b, offset, offset / (int64_t)size};
	return true;
}

/* How many of a float's bytes hold an integer's or a constant's bits. */
static size_t bytes_of_bits(const struct place *p, size_t size)
{
	size_t n = 0;
	for (size_t i = 0; i < size; i++) n += p->buffer->origin[p->offset + (int64_t)i] != TAPE_ORIGIN_NONE;
	return n;
}

static int load_one(struct exact *e, const struct vm_instr *in, int64_t address, enum elem elem, int64_t element,
	struct field_value *out)
{
	struct place p;
	size_t size = elem_bytes(elem);
	if (!find(e, in, address, size, element, false, &p)) return 1;
	size_t bits = bytes_of_bits(&p, size);
	if (bits == size) {
		*out = exact_constant(e, elem, p.buffer->data + p.offset);
		return 0;
	}
	if (bits) return exact_stop(e, in, VM_EXACT_OUTSIDE, "a float of which %zu bytes were written as bits", bits);
	if (p.exact->elem == elem && p.exact->is_set[p.slot]) {
		*out = p.exact->values[p.slot];
		return 0;
	}
	if (p.exact->elem != ELEM_COUNT && p.exact->elem != elem)
		return exact_stop(
			e, in, VM_EXACT_OUTSIDE, "floats of %s read as %s", elem_name(p.exact->elem), elem_name(elem));
	return exact_stop(e, in, VM_EXACT_FAULT, "a load of memory that nobody wrote (element %lld)", (long long)element);
}

static int store_one(struct exact *e, const struct vm_instr *in, int64_t address, enum elem elem, int64_t element,
	const struct field_value *v)
{
	struct place p;
	size_t size = elem_bytes(elem);
	if (!find(e, in, address, size, element, true, &p)) return 1;
	if (p.exact->elem == ELEM_COUNT) vm_exact_buffer_set(p.exact, elem, p.buffer->bytes);
	if (p.exact->elem != elem)
		return exact_stop(
			e, in, VM_EXACT_OUTSIDE, "floats of %s over floats of %s", elem_name(elem), elem_name(p.exact->elem));
	p.exact->values[p.slot] = *v;
	p.exact->is_set[p.slot] = 1;
	memset(p.buffer->origin + p.offset, TAPE_ORIGIN_NONE, size);
	return 0;
}

/* What nobody defined: another value in each lane and each draw, of either sign and any size, so
 * that an output that depends on it, or on what it is compared with, differs
 * from the reference's. */
static struct field_value undefined(struct exact *e)
{
	double x = (double)rng_next(&e->rng) * 0x1p-31 - 1;
	struct field_value v = field_input(e->f, ldexp(x, (int)(rng_next(&e->rng) % 60) - 30));
	v.flags |= FIELD_UNDEFINED;
	return v;
}

struct access {
	struct exact_ints pointer; /* (n) */
	struct exact_ints mask;    /* (n) */
	bool has_mask;
	int64_t n; /* elements */
	enum elem elem;
};

/* mask: index of the operand, which may be absent. */
static bool access_of(struct exact *e, const struct vm_instr *in, int mask, int value, struct access *out)
{
	const struct vm_value_info *info = &e->c.program->values[value];
	*out = (struct access){.n = info->count, .elem = info->elem, .has_mask = in->nsrc > mask};
	if (!exact_ints_of(e, in, vm_src(&e->c, in, 0), out->n, &out->pointer)) return false;
	return !out->has_mask || exact_ints_of(e, in, vm_src(&e->c, in, mask), out->n, &out->mask);
}

static bool is_on(const struct access *a, int64_t i) { return !a->has_mask || exact_int_at(&a->mask, i, false); }

int exact_load(struct exact *e, const struct vm_instr *in)
{
	struct access a;
	struct exact_block *other = in->nsrc > 2 ? exact_source(e, in, 2) : NULL;
	int dst = vm_dst(&e->c, in, 0);
	if (!access_of(e, in, 1, dst, &a)) return 1;
	struct exact_block *b = exact_block_new(e, in, a.n);
	int rc = !b;
	for (int64_t i = 0; i < a.n && !rc; i++) {
		if (is_on(&a, i)) rc = load_one(e, in, exact_int_at(&a.pointer, i, true), a.elem, i, &b->v[i]);
		else b->v[i] = other ? *exact_at(other, i) : undefined(e);
	}
	if (rc) {
		exact_block_put(e, b);
		return 1;
	}
	if (in->imm[3] & ORDER_VOLATILE) {
		e->c.polls++;
		e->c.polled = in;
	}
	exact_set(e, dst, b);
	exact_kill(e, in);
	return 0;
}

int exact_store(struct exact *e, const struct vm_instr *in)
{
	struct access a;
	const struct exact_block *v = exact_source(e, in, 1);
	if (!access_of(e, in, 2, vm_src(&e->c, in, 1), &a)) return 1;
	e->c.version++;
	for (int64_t i = 0; i < a.n; i++)
		if (is_on(&a, i) && store_one(e, in, exact_int_at(&a.pointer, i, true), a.elem, i, exact_at(v, i))) return 1;
	exact_kill(e, in);
	return 0;
}

/* Additions meet in any order. The old values are what memory held in this one: a result that
 * depends on them depends on the order, and differs from a reference that does not. */
int exact_atomic(struct exact *e, const struct vm_instr *in)
{
	struct access a;
	const struct exact_block *v = exact_source(e, in, 1);
	int dst = vm_dst(&e->c, in, 0);
	if (in->imm[0] != RMW_ADD_FLOAT)
		return exact_stop(e, in, VM_EXACT_OUTSIDE, "an atomic on floats that does not add");
	if (!access_of(e, in, 2, vm_src(&e->c, in, 1), &a)) return 1;
	/* Lane by lane, since several may add to one place. */
	struct exact_block *old = exact_block_new(e, in, a.n);
	int rc = !old;
	for (int64_t i = 0; i < a.n && !rc; i++) {
		int64_t address = exact_int_at(&a.pointer, i, true);
		old->v[i] = field_integer(e->f, 0);
		if (!is_on(&a, i)) continue;
		rc = load_one(e, in, address, a.elem, i, &old->v[i]);
		if (rc) break;
		struct field_value sum = field_add(e->f, old->v[i], *exact_at(v, i));
		rc = store_one(e, in, address, a.elem, i, &sum);
	}
	if (rc) {
		exact_block_put(e, old);
		return 1;
	}
	/* As the engine does after an atomic: the result is there, and what this was the last use of
	 * may go. */
	e->c.polls++;
	e->c.polled = in;
	e->c.version++;
	exact_set(e, dst, old);
	exact_kill(e, in);
	return 0;
}
