/* program: a lowered kernel. Private to the vm room.
 *
 * Lowering turns the tree into a flat list of instructions over values; a value is a scalar or a
 * block. Which operand dies at which instruction is computed once (lower/vm_flow.c); dying operands
 * give their buffers to the result. A kernel is immutable once it is made. */
#ifndef HONE_VM_PROGRAM_H
#define HONE_VM_PROGRAM_H
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/map/map.h"
#include "vm/vm.h"

#define VM_INSTRS_MAX 200000
#define VM_VALUES_MAX 200000

/* What an instruction does, and the engine's function that does it (exec/). */
#define VM_OP_TABLE(X) \
	X(OP_NOTHING, exec_nothing) X(OP_MAP, exec_map) X(OP_SELECT, exec_select) \
	X(OP_DIVIDE, exec_divide) X(OP_INLINE_ASM, exec_inline_asm) X(OP_BITCAST, exec_bitcast) \
	X(OP_ADDPTR, exec_addptr) X(OP_SPLAT, exec_splat) X(OP_UNSPLAT, exec_unsplat) \
	X(OP_RANGE, exec_range) X(OP_BROADCAST, exec_broadcast) X(OP_RESHAPE, exec_reshape) \
	X(OP_TRANS, exec_trans) X(OP_CAT, exec_cat) X(OP_JOIN, exec_join) \
	X(OP_SPLIT, exec_split) X(OP_HISTOGRAM, exec_histogram) X(OP_MOVE, exec_move) \
	X(OP_JUMP, exec_jump) X(OP_JUMP_UNLESS, exec_jump_unless) X(OP_LOOP_TEST, exec_loop_test) \
	X(OP_RETURN, exec_return) X(OP_PROGRAM_ID, exec_program_id) X(OP_NUM_PROGRAMS, exec_num_programs) \
	X(OP_ASSERT, exec_assert) X(OP_POISON, exec_poison) X(OP_PRINT, exec_print) \
	X(OP_LOAD, exec_load) X(OP_STORE, exec_store) X(OP_GATHER, exec_gather) \
	X(OP_ATOMIC_RMW, exec_atomic_rmw) X(OP_ATOMIC_CAS, exec_atomic_cas) X(OP_BLOCK_PTR, exec_block_ptr) \
	X(OP_ADVANCE, exec_advance) X(OP_BLOCK_ADDRESS, exec_block_address) X(OP_ROW_ADDRESS, exec_row_address) \
	X(OP_REDUCE, exec_reduce) X(OP_SCAN, exec_scan) X(OP_MAP_REGION, exec_map_region) \
	X(OP_REGION_BEGIN, exec_region_begin) X(OP_REGION_END, exec_region_end) X(OP_DOT, exec_dot) \
	X(OP_SCALE, exec_scale) X(OP_BARRIER, exec_barrier)
#define X(op, function) op,
enum vm_op { VM_OP_TABLE(X) OP_COUNT };
#undef X

/* What a map without a number of its own (map_op) does to floats: for engines that do not compute
 * with its kernel. */
enum vm_number {
	NUMBER_NONE,
	NUMBER_MAP,         /* imm[1]: enum map_op */
	NUMBER_COMPARE,     /* imm[2]: MAP_LESS, MAP_EQUAL, ...: of which orders it is true */
	NUMBER_CLASS,       /* imm[2]: enum map_class */
	NUMBER_CAST,        /* between floats */
	NUMBER_FROM_SIGNED, /* integer to float */
	NUMBER_FROM_UNSIGNED,
	NUMBER_TO_SIGNED, /* float to integer, toward zero */
	NUMBER_TO_UNSIGNED
};

struct vm_ctx;
struct vm_instr;
/* 0, or non-zero when the program stops with a fault. */
typedef int vm_exec(struct vm_ctx *c, const struct vm_instr *in);
typedef bool vm_affine_rule(struct vm_ctx *c, const struct vm_instr *in); /* true: done, the result is lazy */

struct vm_instr {
	enum vm_op op;
	vm_exec *exec;
	map_fn *kernel;
	vm_affine_rule *rule;
	uint64_t kill;  /* bit i: source i is not used after this */
	int64_t n;      /* elements of the result's block; 0 inside a region that runs over lanes */
	int64_t weight; /* element operations, for the fuel */
	int32_t dst;    /* into vm_program.ids */
	int32_t src;    /* into vm_program.ids */
	int16_t ndst;
	int16_t nsrc;
	int32_t target;      /* instruction to go to; of a reduction: after its region */
	int32_t loc;         /* into vm_program.locs */
	int32_t line_row;    /* into vm_program.lines */
	uint8_t elem;        /* of source 0 */
	uint8_t result_elem; /* of result 0 */
	uint8_t flops;       /* per element */
	uint8_t special;     /* per element */
	int16_t map_op;      /* enum map_op of a map, else -1 */
	uint8_t number;      /* enum vm_number */
	int32_t imm[4];
	const void *extra; /* operation's own parameters, in the program's arena */
};

struct print_shape { /* one operand of tt.print */
	const char *prefix;
	int operand; /* which it is */
	int count;   /* operands of the tt.print */
	bool is_hex;
	bool is_signed;
};
struct region_shape { /* a block around the axis of a reduction */
	int64_t outer;
	int64_t len;
	int64_t inner;
};
struct vm_value_info {
	int type;
	enum elem elem;
	int ndim;
	int64_t count;
	const int32_t *shape;
};
struct vm_source {
	const char *file;
	int line;
	int column;
	const char *name; /* the variable that is assigned there, or "" */
};
struct vm_const {
	int value;
	uint8_t bits[8];
	const uint8_t *data; /* count elements, or NULL for a splat */
};

/* Arguments that a value can come from; from_memory: or a value that was read. */
struct vm_roots {
	uint64_t args[2];
	bool from_memory;
};

struct vm_program {
	int ninstrs;
	int instrs_cap;
	struct vm_instr *instrs;
	int nids;
	int ids_cap;
	int32_t *ids;
	int nvalues;
	int values_cap;
	struct vm_value_info *values;
	int nconsts;
	int consts_cap;
	struct vm_const *consts;
	int nlocs;
	struct vm_source *locs;
	int nlines;
	int *lines;
	bool has_hints; /* tl.multiple_of, max_contiguous, max_constancy: what the compiler knows of addresses may be false
					 */
	bool has_atomics; /* atomics or volatile loads: programs run one after another */
	bool has_prints;
	struct vm_plan {      /* for launches with checks (check_plan.c) */
		uint8_t *watch;   // (ninstrs): WATCH_ bits
		uint64_t written[2];
		bool writes_anywhere;         /* arguments whose buffers some store may reach; or any buffer at all */
		struct vm_roots early_reads;  /* what may be read before griddepcontrol.wait (check_early.c) */
		struct vm_roots early_writes; /* what may be written there */
		bool may_skip_wait;           /* some way to the kernel's end leads past no wait */
		bool triggers_early;          /* some way to griddepcontrol.launch_dependents does */
		int order_instr;              /* the first atomic by which a result may depend on who comes first; -1: none */
		int narrow_instr;             /* the first that rounds fp32 to less, where that reaches memory; -1: none */
		bool has_acquire;             /* some atomic's result is used, so that it can order anything */
	} plan;
};
/* Of imm[0] of an atomic (lower_memory.c, rmw_names). */
enum { RMW_ADD_FLOAT = 4, RMW_EXCHANGE = 9 };

/* imm[3] of loads and atomics; local: within a program only; meets: a scalar atomic whose result is
 * used, so that all threads of the program wait for it; unseen: an atomic whose result nobody uses;
 * uncached: a load that passes L1 by. */
enum {
	ORDER_ACQUIRE = 1,
	ORDER_RELEASE = 2,
	ORDER_LOCAL = 4,
	ORDER_VOLATILE = 8,
	ORDER_MEETS = 16,
	ORDER_UNSEEN = 32,
	ORDER_SYSTEM = 64,
	ORDER_UNCACHED = 128
};

enum {
	ASM_WAITS = 1,
	ASM_TRIGGERS = 2
}; /* imm[0] of inline assembly: that it waits for the launches in front, lets those behind start (griddepcontrol) */

struct vm_kernel {
	struct arena arena;
	char *text;
	struct ttir_module module;
	const char *name;
	int nargs;
	const int *arg_types;
	const char **arg_type_text; /* (nargs) */
	const char **arg_names;     /* (nargs) */
	int *arg_values;
	bool *arg_is_descriptor;
	int64_t *arg_divisibility; /* promised by the IR; 0: nothing */
	struct vm_program program;
	struct vm_program contracted; /* with mulf + addf joined into fma */
	bool uses_tf32;
	bool sums_fp8;
	int tf32_line;
	int fp8_line;
	bool may_depend_on_order;
	int order_line;
};

static inline bool vm_arg_is_pointer(const struct vm_kernel *k, int i)
{
	return k->module.types[k->arg_types[i]].elem == ELEM_PTR;
}
/* Values that an instruction reads, and that it gives. */
static inline int src_id(const struct vm_program *p, const struct vm_instr *in, int i) { return p->ids[in->src + i]; }
static inline int dst_id(const struct vm_program *p, const struct vm_instr *in, int i) { return p->ids[in->dst + i]; }
/* Steps of a value's dimensions in row-major order, in elements. */
void vm_row_major(const struct vm_value_info *info, int64_t *stride);
/* What poison and masked-off loads hold. */
void vm_pattern(enum elem e, uint8_t bits[8]);

/* Marks, of (nvalues), all that comes of what is marked (flow.c). */
void vm_flow_forward(const struct vm_program *p, bool *marked);
/* The first instruction that gives a value; NULL: it is an argument or a constant. */
const struct vm_instr *vm_first_maker_of(const struct vm_program *p, int value);
#endif
