/* exact: the engine over exact values. Private to the vm room.
 *
 * Integers, pointers, control and everything lazy about them run on the engine of exec/, whose
 * context is the first member of ours. An instruction with a float among its operands or results
 * has a function here instead, and floats have blocks of field values beside
 * the context's values. */
#ifndef HONE_VM_EXACT_H
#define HONE_VM_EXACT_H
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "field/field.h"

#define EXACT_BYTES_MAX ((int64_t)3 << 30) /* of all blocks of a running program */

struct exact_block {
	int32_t refs;
	int64_t n; /* 1: stands for all elements */
	struct field_value v[];
};
struct exact {
	struct vm_ctx c;
	struct field *f;
	struct exact_block **blocks;       // (values of the program): of floats
	struct vm_exact_buffer **memory;   // (buffers of the launch)
	struct vm_exact_report *out;
	int64_t bytes;
	struct rng rng; /* real values of what is undefined */
};

typedef int exact_fn(struct exact *e, const struct vm_instr *in);
exact_fn exact_map, exact_select, exact_load, exact_store, exact_atomic, exact_reduce, exact_scan, exact_map_region,
	exact_dot, exact_scale, exact_permute, exact_split, exact_reshape, exact_bitcast;

/* Stops the program: 1. */
int exact_stop(struct exact *e, const struct vm_instr *in, enum vm_exact_end end, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
int exact_run(struct exact *e, const struct vm_instr *from, const struct vm_instr *to);
/* A block of n values, refs 1; NULL after a stop when there is no room. */
struct exact_block *exact_block_new(struct exact *e, const struct vm_instr *in, int64_t n);
void exact_block_put(struct exact *e, struct exact_block *b);
/* The value's block becomes b, whose reference is taken over. */
void exact_set(struct exact *e, int value, struct exact_block *b);
/* Releases what dies at this instruction, of both kinds. */
void exact_kill(struct exact *e, const struct vm_instr *in);
bool exact_is_float(const struct exact *e, int value);
/* A float's bits as the constant that they are. */
struct field_value exact_constant(struct exact *e, enum elem elem, const void *bits);
/* What an order of two floats says of a line; nothing where nobody defined one of them. */
void exact_note_side(struct exact *e, const struct vm_instr *in, const struct field_value *a,
	const struct field_value *b, enum field_order order);

/* An integer operand, element by element. */
struct exact_ints {
	const uint8_t *data;
	int64_t step; /* 0: one element for all */
	enum elem elem;
};
/* false after a stop. */
bool exact_ints_of(struct exact *e, const struct vm_instr *in, int value, int64_t n, struct exact_ints *out);
int64_t exact_int_at(const struct exact_ints *i, int64_t at, bool is_signed);

static inline struct exact_block *exact_source(const struct exact *e, const struct vm_instr *in, int i)
{
	return e->blocks[vm_src(&e->c, in, i)];
}
static inline const struct field_value *exact_at(const struct exact_block *b, int64_t i)
{
	return &b->v[b->n == 1 ? 0 : i];
}
/* One operation of the maps on up to three floats; 0 or 1 after a stop. */
int exact_apply(struct exact *e, const struct vm_instr *in, int map_op, const struct field_value *const x[3],
	struct field_value *out);
#endif
