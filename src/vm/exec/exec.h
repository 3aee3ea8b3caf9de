/* exec: the engine: runs a lowered program, one function an instruction. Private to the vm room. */
#ifndef HONE_VM_EXEC_H
#define HONE_VM_EXEC_H
#include "vm/core/program.h"
#include "vm/core/state.h"

/* A kernel may have read an address from memory, where the host put it: such an address becomes
 * that of the buffer it lies in. */
int64_t vm_address(const struct vm_ctx *c, int64_t address);
/* Where an element lives, after all checks; NULL after a fault. A write tags its origin. */
uint8_t *vm_access(struct vm_ctx *c, const struct vm_instr *in, int64_t address, size_t size, int64_t element,
	bool is_read, bool is_write);
/* One instruction; c->next is the one to follow. */
int vm_step(struct vm_ctx *c, const struct vm_instr *in);
int vm_run(struct vm_ctx *c, const struct vm_instr *from, const struct vm_instr *to);
/* Atomics that are on their way arrive: all of them; those that an instruction, which is next, may
 * not overtake. */
void vm_late_arrive(struct vm_ctx *c);
void vm_late_before(struct vm_ctx *c, const struct vm_instr *in);
/* d = kernel(a, b) on narrow floats, by converted strips. */
void vm_map_narrow(const struct vm_instr *in, void *d, const void *a, const void *b, int64_t n);

vm_exec exec_nothing, exec_map, exec_select, exec_divide, exec_inline_asm;
vm_exec exec_bitcast, exec_addptr, exec_splat, exec_unsplat, exec_range, exec_broadcast, exec_reshape, exec_trans,
	exec_cat, exec_join, exec_split, exec_histogram;
vm_exec exec_move, exec_jump, exec_jump_unless, exec_loop_test, exec_return, exec_program_id, exec_num_programs,
	exec_assert, exec_poison, exec_print, exec_barrier;
vm_exec exec_load, exec_store, exec_gather, exec_atomic_rmw, exec_atomic_cas;
vm_exec exec_block_ptr, exec_advance, exec_block_address, exec_row_address;
vm_exec exec_reduce, exec_scan, exec_map_region, exec_region_begin, exec_region_end, exec_dot, exec_scale;
extern vm_exec *const vm_exec_table[OP_COUNT];
static inline void vm_instr_set(struct vm_instr *in, enum vm_op op)
{
	in->op = op;
	in->exec = vm_exec_table[op];
}
vm_affine_rule rule_add, rule_sub, rule_mul, rule_cast, rule_rem, rule_div, rule_and, rule_cmp, rule_addptr;
#endif
