/* lower: from the checked tree to a program. Private to the vm room.
 *
 * One row an operation (lower_table.c) says which function lowers it and how many operands,
 * attributes and results it may have; whatever does not fit is refused by name. vm_flow.c then
 * checks that every value is defined before it is used, and finds where each dies. */
#ifndef HONE_VM_LOWER_H
#define HONE_VM_LOWER_H
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/map/map.h"

#define VM_INLINE_DEPTH_MAX 24

struct lower_name {
	struct slice name;
	int func;
	int value;
	int count;
	int shadowed;
	int next;
};
struct lower_label { /* jumps name it by its number until vm_flow */
	struct slice name;
	int func;
	int target;
	int nargs;
	const int *args;
};
struct lowerer {
	struct vm_kernel *k;
	struct ttir_module *m;
	struct vm_program *p;
	struct err *err;
	int code;
	const struct ttir_op *op; /* being lowered: for messages */
	struct slice kernel_file;
	int func;   /* scope tag */
	int nfuncs; /* how many functions were entered */
	int depth;
	int inline_depth;
	int nnames;
	int names_cap;
	struct lower_name *names;
	int buckets[1024];
	const int *return_values;
	/* Function being inlined and where tt.return puts its results; NULL in the kernel itself. */
	const struct ttir_func *in_func;
	int return_label;
	int nlabels;
	int labels_cap;
	struct lower_label *labels;
	int first_label; /* blocks of the function being lowered: from here */
	int last_label;  /* to here */
	int *loc_of;     /* cache: ttir loc -> vm loc */
	bool in_region;  /* inside a combine region: values run over lanes */
};
struct lower_row {
	const char *name;
	int (*lower)(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row);
	const char *attrs;
	int min_uses;
	int max_uses;
	int nresults;
	int arg;
};

int lower_fail(struct lowerer *lo, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int lower_value_new(struct lowerer *lo, int type);                               /* value id, or a negative code */
int lower_use(struct lowerer *lo, const struct ttir_use *u);                     /* value id, or a negative code */
int lower_result(struct lowerer *lo, const struct ttir_op *op, int i, int type); /* makes and binds flat result i */
int lower_bind(struct lowerer *lo, struct slice name, int value, int count);
/* NULL after an error. */
struct vm_instr *lower_emit(struct lowerer *lo, enum vm_op opcode, const int *dst, int ndst, const int *src, int nsrc);
struct ttir_type *lower_type(const struct lowerer *lo, int type);
struct vm_value_info *lower_info(const struct lowerer *lo, int value);
int lower_same_shape(struct lowerer *lo, int type, enum elem e); /* the type of that shape with scalar elements e */
int lower_written(struct lowerer *lo, const struct ttir_op *op, int i, int expected); /* checks written type i */
const struct ttir_attr *lower_attr(const struct ttir_op *op, const char *key);
int lower_attr_int(
	struct lowerer *lo, const struct ttir_op *op, const char *key, int64_t min, int64_t max, int64_t *out);
int lower_const(struct lowerer *lo, int value, const void *bits);
/* One element of each operand through PTX of our own, which uses $0 for the result. */
int lower_asm_of(struct lowerer *lo, const struct ttir_op *op, const char *text, const int *src);
/* Notes that the result of the last instruction may depend on an order that Triton leaves open. */
void lower_note_order(struct lowerer *lo);
int lower_patch_jumps(struct lowerer *lo);
int lower_block_load(struct lowerer *lo, const struct ttir_op *op, int ptr);
int lower_block_store(struct lowerer *lo, const struct ttir_op *op, const int *src);
int lower_block_ops(struct lowerer *lo, const struct ttir_block *b, const struct ttir_op *until);
int lower_function_blocks(struct lowerer *lo, const struct ttir_func *f);
void lower_scope_close(struct lowerer *lo, int nnames);
/* A region of one block, lowered in place: begin lowers all but the terminator, values reads the
 * terminator's operands, end closes the scope. */
struct lower_scope {
	int nnames;
	const struct ttir_op *end;
};
int lower_region_begin(struct lowerer *lo, const struct ttir_region *r, const int *args, int nargs,
	const char *terminator, struct lower_scope *scope);
int lower_region_values(
	struct lowerer *lo, const struct lower_scope *scope, int first, int count, const int *types_of, int *out);
void lower_region_end(struct lowerer *lo, const struct lower_scope *scope);
int lower_uses(struct lowerer *lo, const struct ttir_op *op, int first, int count, int *out);
int lower_kernel(struct vm_kernel *k, struct vm_program *p, bool contract, struct err *err);
/* Checks that every value is defined where it is read, and finds operands that die there. */
int vm_flow(struct vm_kernel *k, struct vm_program *p, bool contract, struct err *err);

/* ---- pieces of element-wise lowering (lower_elementwise.c) that lower_extern.c shares; op's
 * operands and results are lo->op's ---- */

int lower_same_types(struct lowerer *lo, const int *v, int n);
int lower_no_kernel(struct lowerer *lo, enum elem e); /* fails with the operation's name and the type */
struct vm_instr *lower_emit_map(
	struct lowerer *lo, enum vm_op opcode, map_fn *kernel, const int *src, int nsrc, int result_type, int result_index);
struct vm_instr *lower_emit_op(struct lowerer *lo, enum map_op op, const int *src, int nsrc, int result_index);
bool lower_cast_is_legal(const char *kind, enum elem from, enum elem to);
int lower_emit_cast(struct lowerer *lo, const char *kind, int src, int type);
int lower_emit_alias(struct lowerer *lo, int src, int type); /* the same bits under another type */
int lower_float_with_int(struct lowerer *lo, const int *src, enum map_op op);

const struct lower_row *lower_row_find(struct slice name);
typedef int lower_fn(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row);
lower_fn lower_map, lower_class, lower_sincos, lower_cmp, lower_cast, lower_select, lower_constant, lower_poison,
	lower_clamp, lower_extern, lower_fp_to_fp, lower_bitcast, lower_ptr_int, lower_extended, lower_fpowi,
	lower_inline_asm;
lower_fn lower_splat, lower_range, lower_expand_dims, lower_broadcast, lower_reshape, lower_trans, lower_cat,
	lower_join, lower_split, lower_gather, lower_histogram;
lower_fn lower_program_id, lower_addptr, lower_load, lower_store, lower_atomic_rmw, lower_atomic_cas, lower_assert,
	lower_print, lower_ignore, lower_assume, lower_barrier, lower_unsplat;
lower_fn lower_make_tensor_ptr, lower_advance, lower_make_descriptor, lower_descriptor_load, lower_descriptor_store,
	lower_descriptor_gather, lower_descriptor_scatter, lower_descriptor_reduce;
lower_fn lower_dot, lower_dot_scaled, lower_reduce, lower_scan, lower_map_elementwise;
lower_fn lower_for, lower_if, lower_while, lower_execute_region, lower_br, lower_cond_br, lower_switch, lower_return,
	lower_call;
#endif
