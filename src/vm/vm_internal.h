/* vm_internal: the lowered program and the state of one running program. Private to the room.
 *
 * Lowering turns the tree into a flat list of instructions over values. A value is a scalar or a
 * block; at run time it has one of these forms:
 *   dense   a buffer of elements, reference-counted, immutable once two values share it (so moves
 *   and reshapes never copy)
 *   splat   one element that stands for all; every scalar is a splat
 *   affine  integers and pointers base + sum(index[d] * stride[d]), what make_range, splat,
 *   broadcast and addptr make: nothing is stored, and
 *           a load through such a pointer is a check of two corners and a memcpy of rows
 *   box     an i1 block that is true inside a box lo <= index < hi: what comparing an affine block
 *   with a scalar makes
 * Affine and box values are turned into buffers only where an operation needs elements; they keep
 * their form beside the buffer.
 *
 * Which operand dies at which instruction is computed once (vm_flow.c); dying operands give their
 * buffers to the result. */
#ifndef HONE_VM_INTERNAL_H
#define HONE_VM_INTERNAL_H
#include "vm/vm.h"
#include "vm/vm_map.h"

#define VM_LAZY_DIMS 4                            /* affine and box blocks have at most this many dimensions */
#define VM_INSTRS_MAX 200000
#define VM_VALUES_MAX 200000
#define VM_INLINE_DEPTH_MAX 24
#define VM_ARENA_BYTES_MAX ((size_t)1 << 29)      /* block buffers of one running program */
#define VM_STRIP 512                              /* elements converted at a time */
#define VM_FUEL ((int64_t)1 << 18)                /* element operations between two looks at the clock; a scalar one takes as long as hundreds in a block */

enum form { FORM_DENSE, FORM_SPLAT, FORM_AFFINE, FORM_BOX };
struct vm_buf {
	struct vm_buf *next;
	int32_t refs, size_class;
	uint8_t pad[48];
	uint8_t data[];
}; /* data is 64-byte aligned */
struct affine {
	int64_t base, stride[VM_LAZY_DIMS];
};
struct box {
	int32_t lo[VM_LAZY_DIMS], hi[VM_LAZY_DIMS];
};
struct vm_value {
	enum form form;
	struct vm_buf *buf; /* dense; other forms: the elements once something needed them */
	union {
		uint8_t splat[8];
		int64_t splat_int;
		struct affine affine;
		struct box box;
	};
};

struct vm_ctx;
struct vm_instr;
typedef int vm_exec(
	struct vm_ctx *c, const struct vm_instr *in); /* 0, or non-zero when the program stops with a fault */
typedef bool vm_affine_rule(struct vm_ctx *c, const struct vm_instr *in); /* true: done, the result is lazy */

struct vm_instr {
	vm_exec *exec;
	map_fn *kernel;
	vm_affine_rule *rule;
	uint64_t kill;    /* bit i: source i is not used after this */
	int64_t n;        /* elements of the result's block; 0 inside a region that runs over lanes */
	int64_t weight;   /* element operations, for the fuel */
	int32_t dst, src; /* into vm_program.ids */
	int16_t ndst, nsrc;
	int32_t target;            /* instruction to go to; of a reduction: after its region */
	int32_t loc;               /* into vm_program.locs */
	int32_t line_row;          /* into vm_program.lines */
	uint8_t elem, result_elem; /* of source 0 and of result 0 */
	uint8_t flops, special;    /* per element */
	int16_t map_op;            /* enum map_op of a map, else -1 */
	int32_t imm[4];
	const void *extra; /* operation's own parameters, in the program's arena */
};

struct print_shape {
	const char *prefix;
	int operand, count;
	bool is_hex, is_signed;
}; /* of tt.print: which of its operands this is */
struct region_shape {
	int64_t outer, len, inner;
}; /* a block around the axis of a reduction */
struct vm_value_info {
	int type;
	enum elem elem;
	int ndim;
	int64_t count;
	const int32_t *shape;
};
struct vm_source {
	const char *file;
	int line, column;
	const char *name;
}; /* name: the variable that is assigned there, or "" */
struct vm_const {
	int value;
	uint8_t bits[8];
	const uint8_t *data;
}; /* data: count elements, or NULL for a splat */

struct vm_program {
	int ninstrs, instrs_cap;
	struct vm_instr *instrs;
	int nids, ids_cap;
	int32_t *ids;
	int nvalues, values_cap;
	struct vm_value_info *values;
	int nconsts, consts_cap;
	struct vm_const *consts;
	int nlocs;
	struct vm_source *locs;
	int nlines;
	int *lines;
	bool has_atomics, has_prints; /* atomics or volatile loads: programs run one after another */
	struct vm_plan {              /* for launches with checks (check_plan.c) */
		uint8_t *watch;           // (ninstrs): WATCH_ bits
		uint64_t written[2];
		bool writes_anywhere; /* arguments whose buffers some store may reach; or any buffer at all */
		bool has_acquire;     /* some atomic's result is used, so that it can order anything */
	} plan;
};
enum {
	ORDER_ACQUIRE = 1,
	ORDER_RELEASE = 2,
	ORDER_LOCAL = 4,
	ORDER_VOLATILE = 8
}; /* imm[3] of loads and atomics; local: within a program only */

struct vm_kernel {
	struct arena arena;
	char *text;
	struct ttir_module module;
	const char *name;
	int nargs;
	const int *arg_types;
	const char **arg_type_text, **arg_names;
	int *arg_values;
	bool *arg_is_descriptor;
	struct vm_program program, contracted; /* contracted: with mulf + addf joined into fma */
	bool uses_tf32;
	int tf32_line;
	bool may_depend_on_order;
	int order_line;
};

struct vm_memory {
	uint64_t index_max;
	const struct vm_buffer **by_index; /* of an address: by_index[address >> TAPE_ADDRESS_SHIFT] */
	const struct vm_buffer *buffers;
	int nbuffers;
	bool has_host_pointers;
};

/* The buffer with addresses of this index (address >> TAPE_ADDRESS_SHIFT), or NULL. */
static inline const struct vm_buffer *vm_buffer_at(const struct vm_memory *m, uint64_t index)
{
	return index <= m->index_max ? m->by_index[index] : NULL;
}

struct vm_check;
struct vm_spin {
	const struct vm_instr *jump;
	uint64_t version, polls, hash;
	int64_t turns;
};
#define VM_SPINS 8

struct vm_ctx {
	const struct vm_kernel *kernel;
	const struct vm_program *program;
	const struct vm_instr *next; /* instruction to run after the current one */
	struct vm_value *values;
	int64_t lanes; /* elements of a region's values */
	uint32_t id[3], grid[3];
	const struct vm_arg *args;
	const struct vm_memory *memory;
	uint64_t deadline_ns;
	int64_t fuel;
	struct vm_buf *free_bufs[32];
	size_t arena_bytes;
	bool want_cost, undefined_is_zero, crosswise;
	FILE *print;
	struct vm_cost *cost; /* per line row; NULL unless want_cost */
	uint8_t *const *read_map,
		*const *write_map;  /* one byte per 32-byte granule of each buffer index; NULL unless want_cost */
	struct vm_meter *meter; /* NULL unless want_cost */
	struct vm_report *report, *passed_over; /* passed_over: the first load in the rest of a buffer's granule */
	int64_t load_granule;
	struct vm_check *check;  /* NULL unless the launch has checks */
	const uint8_t *watch;    /* of the program's plan; NULL unless the launch follows lanes (overflow, division) */
	bool is_tainted;         /* some lane is being followed: every instruction is looked at */
	uint64_t version, polls; /* how often memory changed, and how often an atomic looked at it */
	const struct vm_instr *polled; /* the last that did */
	struct vm_spin spins[VM_SPINS];
};

/* ---- running (exec_core.c) ---- */

static inline int32_t vm_src(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return c->program->ids[in->src + i];
}
static inline int32_t vm_dst(const struct vm_ctx *c, const struct vm_instr *in, int i)
{
	return c->program->ids[in->dst + i];
}
int vm_fault(struct vm_ctx *c, const struct vm_instr *in, enum vm_fault fault, int64_t element, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* A buffer of at least `bytes`, refs 1, contents undefined; NULL after a fault when the arena is
 * full. */
struct vm_buf *vm_buf_get(struct vm_ctx *c, const struct vm_instr *in, size_t bytes);
void vm_buf_put(struct vm_ctx *c, struct vm_buf *b);
void vm_value_clear(struct vm_ctx *c, struct vm_value *v);
void vm_value_share(struct vm_ctx *c, struct vm_value *to, const struct vm_value *from);
/* The value's elements; splat, affine and box values get a buffer beside their form. NULL after a
 * fault. n: elements. */
const void *vm_dense(struct vm_ctx *c, const struct vm_instr *in, int value, int64_t n);
void vm_kill(struct vm_ctx *c, const struct vm_instr *in);
/* New buffer for result i of count elements; the value becomes dense. */
void *vm_result(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n);
void vm_result_splat(struct vm_ctx *c, const struct vm_instr *in, int i, const void *bits);
bool vm_affine_of(
	const struct vm_ctx *c, int value, struct affine *a); /* integers and pointers that are splat or affine */
/* Makes result 0 affine (a splat when all strides are zero) if every element fits its type; false:
 * not done. */
bool vm_result_affine(struct vm_ctx *c, const struct vm_instr *in, const struct affine *a);
bool vm_affine_range(const struct vm_value_info *info, const struct affine *a, int64_t *min, int64_t *max);
/* d, contiguous of the given shape, from s with strides in elements (0 repeats). */
void vm_copy_strided(
	uint8_t *d, const int32_t *shape, int ndim, const uint8_t *s, const int64_t *stride, size_t elem_size);
void vm_fill(void *d, const void *bits, size_t elem_size, int64_t n);
/* A kernel may have read an address from memory, where the host put it: such an address becomes
 * that of the buffer it lies in. */
int64_t vm_address(const struct vm_ctx *c, int64_t address);
/* Where an element lives, after all checks; NULL after a fault. A write tags its origin. */
uint8_t *vm_access(struct vm_ctx *c, const struct vm_instr *in, int64_t address, size_t size, int64_t element,
	bool is_read, bool is_write);
int vm_run(struct vm_ctx *c, const struct vm_instr *from, const struct vm_instr *to);
int vm_spin_check(struct vm_ctx *c,
	const struct vm_instr *jump); /* check_spin.c: at a jump backwards; a fault when the loop can never end */
/* d = kernel(a, b) on narrow floats, by converted strips. */
void vm_map_narrow(const struct vm_instr *in, void *d, const void *a, const void *b, int64_t n);
void vm_ctx_init(struct vm_ctx *c, const struct vm_kernel *k, const struct vm_program *p);
void vm_ctx_release(struct vm_ctx *c);
void vm_cost_map(struct vm_ctx *c, const struct vm_instr *in, int64_t n);
void vm_cost_access(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n,
	size_t size, bool is_store);
struct vm_cost *vm_cost_row(struct vm_ctx *c, const struct vm_instr *in);
/* The cost model's view of a launch (shared by its threads) and of one running program. step is
 * called after each instruction. */
struct vm_cost_plans;
struct vm_cost_plans *vm_cost_plans_create(
	const struct vm_program *p, const struct vm_launch_options *o, const struct vm_memory *memory);
void vm_cost_plans_free(struct vm_cost_plans *plans);
struct vm_meter *vm_meter_create(struct vm_cost_plans *plans);
void vm_meter_free(struct vm_meter *m);
void vm_cost_program_begin(struct vm_ctx *c);
void vm_cost_program_end(struct vm_ctx *c);
void vm_cost_step(struct vm_ctx *c, const struct vm_instr *in);
void vm_cost_atomic(
	struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n);
/* Adds what only the whole launch shows: L2 traffic, contention and paths of one thread's meter.
 * footprint: bytes read of each buffer index. */
void vm_meter_gather(const struct vm_meter *m, struct vm_cost *to);
void vm_cost_l2(
	struct vm_meter *const *meters, int nmeters, uint64_t index_max, const int64_t *footprint, struct vm_cost *to);

vm_exec exec_nothing, exec_map, exec_select, exec_divide, exec_inline_asm;
vm_exec exec_bitcast, exec_addptr, exec_splat, exec_unsplat, exec_range, exec_broadcast, exec_reshape, exec_trans,
	exec_cat, exec_join, exec_split, exec_histogram;
vm_exec exec_move, exec_jump, exec_jump_unless, exec_loop_test, exec_return, exec_program_id, exec_num_programs,
	exec_assert, exec_poison, exec_print;
vm_exec exec_load, exec_store, exec_gather, exec_atomic_rmw, exec_atomic_cas;
vm_exec exec_block_ptr, exec_advance, exec_block_address, exec_row_address;
vm_exec exec_reduce, exec_scan, exec_map_region, exec_region_begin, exec_region_end, exec_dot, exec_scale;
vm_affine_rule rule_add, rule_sub, rule_mul, rule_cast, rule_rem, rule_div, rule_and, rule_cmp, rule_addptr;

/* ---- lowering (lower_*.c) ---- */

struct lower_name {
	struct slice name;
	int func;
	int value, count;
	int shadowed;
	int next;
};
struct lower_label {
	struct slice name;
	int func;
	int target;
	int nargs;
	const int *args;
}; /* jumps name a label by its number until vm_flow */
struct lowerer {
	struct vm_kernel *k;
	struct ttir_module *m;
	struct vm_program *p;
	struct err *err;
	int code;
	const struct ttir_op *op; /* being lowered: for messages */
	struct slice kernel_file;
	int func, nfuncs, depth, inline_depth; /* scope tag; how many functions were entered */
	int nnames, names_cap;
	struct lower_name *names;
	int buckets[1024];
	const int *return_values;
	const struct ttir_func
		*in_func; /* function being inlined and where tt.return puts its results; NULL in the kernel itself */
	int return_label;
	int nlabels, labels_cap;
	struct lower_label *labels;
	int first_label, last_label; /* blocks of the function being lowered */
	int *loc_of;                 /* cache: ttir loc -> vm loc */
	bool in_region;              /* inside a combine region: values run over lanes */
};
struct lower_row {
	const char *name;
	int (*lower)(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row);
	const char *attrs;
	int min_uses, max_uses, nresults, arg;
};

int lower_fail(struct lowerer *lo, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int lower_value_new(struct lowerer *lo, int type);                               /* value id, or a negative code */
int lower_use(struct lowerer *lo, const struct ttir_use *u);                     /* value id, or a negative code */
int lower_result(struct lowerer *lo, const struct ttir_op *op, int i, int type); /* makes and binds flat result i */
int lower_bind(struct lowerer *lo, struct slice name, int value, int count);
struct vm_instr *lower_emit(
	struct lowerer *lo, vm_exec *exec, const int *dst, int ndst, const int *src, int nsrc); /* NULL after an error */
struct ttir_type *lower_type(const struct lowerer *lo, int type);
struct vm_value_info *lower_info(const struct lowerer *lo, int value);
int lower_same_shape(struct lowerer *lo, int type, enum elem e); /* the type of that shape with scalar elements e */
int lower_written(struct lowerer *lo, const struct ttir_op *op, int i, int expected); /* checks written type i */
const struct ttir_attr *lower_attr(const struct ttir_op *op, const char *key);
int lower_attr_int(
	struct lowerer *lo, const struct ttir_op *op, const char *key, int64_t min, int64_t max, int64_t *out);
int lower_const(struct lowerer *lo, int value, const void *bits);
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
int lower_region_args(struct lowerer *lo, const struct ttir_block *b, const int *args, int nargs);
int lower_region_begin(struct lowerer *lo, const struct ttir_region *r, const int *args, int nargs,
	const char *terminator, struct lower_scope *scope);
int lower_region_values(
	struct lowerer *lo, const struct lower_scope *scope, int first, int count, const int *types_of, int *out);
void lower_region_end(struct lowerer *lo, const struct lower_scope *scope);
int lower_uses(struct lowerer *lo, const struct ttir_op *op, int first, int count, int *out);
void lower_pattern(enum elem e, uint8_t bits[8]); /* what poison and masked-off loads hold */
int lower_kernel(struct vm_kernel *k, struct vm_program *p, bool contract, struct err *err);
int vm_flow(struct vm_kernel *k, struct vm_program *p, bool contract,
	struct err *err); /* checks definedness, finds dying operands */

/* ---- pieces of element-wise lowering (lower_elementwise.c) that lower_extern.c shares; op's
 * operands and results are lo->op's ---- */

int lower_same_types(struct lowerer *lo, const int *v, int n);
int lower_no_kernel(struct lowerer *lo, enum elem e); /* fails with the operation's name and the type */
struct vm_instr *lower_emit_map(
	struct lowerer *lo, vm_exec *exec, map_fn *kernel, const int *src, int nsrc, int result_type, int result_index);
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
	lower_print, lower_ignore, lower_unsplat;
lower_fn lower_make_tensor_ptr, lower_advance, lower_make_descriptor, lower_descriptor_load, lower_descriptor_store,
	lower_descriptor_gather, lower_descriptor_scatter, lower_descriptor_reduce;
lower_fn lower_dot, lower_dot_scaled, lower_reduce, lower_scan, lower_map_elementwise;
lower_fn lower_for, lower_if, lower_while, lower_execute_region, lower_br, lower_cond_br, lower_switch, lower_return,
	lower_call;
#endif
