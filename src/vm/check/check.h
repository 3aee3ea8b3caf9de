/* check: what a launch with checks keeps beside its programs. Private to the room; docs/vm.md,
 * section Checks, is the specification.
 *
 *   check_plan.c    once for each lowered program: what is worth watching
 *   check_early.c   once too: what is accessed before a dependent launch waits
 *   check_race.c    shadow memory: who wrote and read each cell last
 *   check_order.c   which accesses of other programs happened before, by way of atomics
 *   check_taint.c   lanes whose value overflowed or was divided by zero, followed to where they are
 *                   used
 *   check_reduce.c  reductions that give another value in another order
 *   check_notes.c   masks, idle programs, coalescing
 *   check_narrow.c  what loses digits on its way to memory, in the program alone
 *   check_digits.c  the same by shifts, large numbers or assembly: looked at while it runs
 *   check_cover.c   which sides of comparisons on data were taken, and a site for each
 *   check_fixed.c   what data is compared with, where the program's text does not say it
 *   check_gate.c    results of mixed data that never changed
 *   check_range.c   numbers that are the same whatever memory holds
 *   check_held.c    what launches leave in memory, and what that decides
 *   check_joint.c   masks that decide together
 *   check_sum.c     reductions, products and other sums of many: which of
 *                   their operands ever counted
 *   check_pole.c    operations that give no finite number at one value of an input
 *   check_aim.c     how far the lanes of one site are from a side, and what they hang on
 *                   (check_aim_far.c, check_aim_origin.c; check_aim.h)
 *   check_missed.c  what of its inputs a kernel does not use
 *   check_report.c  the life of all this
 *   check_spin.c    loops that wait for another program (in every launch) */
#ifndef HONE_VM_CHECK_H
#define HONE_VM_CHECK_H
#include "vm/core/program.h"
#include "vm/core/state.h"

static inline uint64_t vm_hash_step(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

/* ---- shadow memory ---- */

/* One executed memory instruction of one program between two of its atomics. Programs run one after
 * another, so the records of the running program are those from race.first on: a cell is compared
 * with one number. */
struct check_record {
	uint64_t block;       /* the pointer block: its addresses as a hash, equal for equal blocks */
	uint32_t program;     /* number of the program */
	uint32_t instr;       /* index of the instruction */
	uint32_t stamp;       /* atomics of the launch so far */
	uint32_t covers;      /* another program's atomic that this came on top of */
	uint32_t epoch;       /* barriers of the program so far */
	uint32_t collectives; /* exchanges between all threads of the program so far */
	uint32_t turn;        /* of the program's loops, where the compiled code reads ahead in them; else 0 */
	uint64_t threads;     /* which thread has which lane, as a hash; 0: not known */
	bool is_atomic;
	bool is_write;
	bool is_bulk; /* by the unit that copies boxes of a tensor */
	int64_t lanes;
	bool is_single; /* a scalar written by one thread, the same that does the program's scalar atomics */
};
/* The access that is being looked at, as a block. */
struct check_block {
	uint64_t hash;
	int64_t lanes;
	bool may_overlap; /* several lanes may have one address */
};
/* The innermost loop around a memory instruction. */
struct check_loop {
	const struct vm_instr *of;  /* that instruction */
	const struct vm_instr *end; /* the jump back; NULL: it is in no loop */
	bool has_inner;             /* another loop lies inside */
};
#define CHECK_RECORDS_MAX ((uint32_t)1 << 24)
/* Of a reader: other programs read the cell too; of an atomic writer: others changed it before, in
 * no order. */
#define CHECK_MANY 0x80000000u
/* Cells are kept by 64. Most rows cover such a group whole, and then two numbers stand for all of
 * it; only what is touched in parts gets its cells. */
#define CHECK_GROUP 64
#define CHECK_SLAB 1024                   /* groups of cells that are allocated at once */
struct check_cells {
	uint32_t writer[CHECK_GROUP]; /* records; 0: nobody */
	uint32_t reader[CHECK_GROUP];
};
struct check_group {
	struct check_cells *cells; /* NULL where writer and reader stand for all */
	uint32_t writer;
	uint32_t reader;
};
struct check_shadow { /* of one buffer; cells of 1, 2, 4 or 8 bytes: the smallest element that was used */
	struct check_group *groups;
	int shift;
	bool is_full; /* a cell is 1 << shift bytes; is_full: there was no memory for it */
};

/* ---- order by atomics ---- */

/* Each atomic that can order anything is a node; two views of it say what it knows (check_order.c).
 */
struct check_node {
	uint32_t program;
	uint32_t previous_here; /* node before it at its address */
	uint32_t previous_own;  /* node before it of its program */
	uint32_t epoch;         /* barriers of its program before it */
	int64_t lanes;          /* 1: by one thread; more: of a whole block, whose threads release their own */
	uint64_t threads;       /* which thread has which lane, as a hash; 0: not known */
	uint32_t turn;          /* of its program's loops */
	uint32_t instr;         /* index of the instruction */
	bool acquires;
	bool releases;
};
#define CHECK_NODES_MAX ((uint32_t)1 << 23)
#define CHECK_ORDER_PROGRAMS_MAX ((int64_t)1 << 24)
struct check_place {
	uint64_t address;
	uint32_t node;
};
struct check_known {
	uint32_t asker;
	uint32_t node;
};
struct check_order {
	bool is_on;
	uint32_t nnodes;
	uint32_t nodes_cap;
	struct check_node *nodes;
	uint32_t *mark;   // (nodes_cap): asker << 2 | view bits
	uint32_t nplaces;
	uint32_t places_cap;
	struct check_place *places;  /* open hash: last node at an address */
	struct check_known *known;   // (programs): last node of a program that the running one knows of
	uint32_t asker;              /* of the running program: its number */
	uint32_t own;                /* its last node */
	uint32_t from;               /* the node that marks begin at */
	uint32_t cursor;             /* how far down the nodes were looked at */
};

/* ---- taint ---- */

enum { TAINT_OVERFLOW = 1, TAINT_DIVISION = 2, TAINT_ORDER = 4, TAINT_KINDS = 3 };
struct check_taint {
	uint8_t *lanes; /* (count); NULL: `all` stands for each */
	int64_t count;
	uint8_t all;
	int32_t origin[TAINT_KINDS];
};

/* ---- notes ---- */

struct check_use {
	int64_t executed;
	int64_t lanes;
	int64_t active;
	int64_t programs;
	bool is_masked;
	bool is_uncoalesced;
	int64_t stride;
};

struct vm_check {
	unsigned checks;
	bool goes_on; /* findings_max > 0 */
	struct vm_findings found;
	uint64_t nowhere; /* where a left-out lane reads and writes */
	int64_t programs; /* how many there are */
	bool is_incomplete;
	const char *incomplete_why;
	int64_t threads;          /* of a program */
	bool is_cluster;          /* it is several blocks: a barrier holds the threads of one of them alone */
	uint8_t *spreads;         // (ninstrs): more lanes use what a load gave than it has: 0 not known, 1 no, 2 yes
	uint32_t epoch;           /* of the running program */
	struct check_block block; /* of the running access */
	struct vm_code code;      /* likewise */
	struct check_loop loop;   /* around the last access that was asked about */
	int64_t *lane_of;         // (lane_slots): open hash from address to the first lane of a store that has it
	int64_t lane_slots;

	bool *is_tracked;               // (buffer index): some store of the kernel may reach it
	struct check_shadow *shadows;   // (buffer index)
	size_t shadow_bytes;
	int64_t ncells;
	int nslabs;
	struct check_cells **slabs;
	uint32_t nrecords;
	uint32_t records_cap;
	uint32_t first;
	struct check_record *records;
	uint32_t *record_of;   // (ninstrs)
	struct check_order order;

	bool is_tainted;
	struct check_taint *taints;   // (nvalues)

	struct check_use *uses;   // (ninstrs)
	int64_t idle_programs;
	bool is_active;
};

/* ---- check_plan.c ---- */
enum { WATCH_SIGNED = 1, WATCH_UNSIGNED = 2, WATCH_DIVISION = 4 };
void vm_plan_make(const struct vm_kernel *k, struct vm_program *p);
void vm_plan_release(struct vm_program *p);
/* (nvalues), heap: arguments that each value can come from. */
struct vm_roots *vm_roots_find(const struct vm_kernel *k, const struct vm_program *p);

/* ---- check_early.c ---- */
/* roots: (nvalues). */
void vm_early_find(struct vm_program *p, const struct vm_roots *roots);

/* ---- check_narrow.c ---- */
/* Index of the first instruction that rounds a wide float to a narrow one which then reaches
 * memory; -1: none. */
int vm_narrow_find(const struct vm_program *p);
/* Whether what comes of value v is stored as a value. marked: (nvalues),
 * overwritten: what comes of it. */
bool vm_reaches_memory(const struct vm_program *p, int v, bool *marked);

/* ---- check_digits.c ---- */
/* Instructions that could take digits from data on its way to memory; out:
 * (ninstrs). Returns how many. */
int vm_digits_find(const struct vm_program *p, const bool *is_data, int32_t *out);
/* Whether what a value leaves out of what it was made of is computed and stored as well. */
bool vm_has_rest(const struct vm_program *p, int value, const bool *is_data);
/* Looks at what such an instruction has made. */
void vm_digits_step(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s);
/* Whether a sum is one of a constant and a sum of data; of such the operands are looked at too. */
bool vm_digits_sum_of_data(const struct vm_program *p, const struct vm_instr *in, const bool *is_data);
void vm_digits_operands(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s);

/* ---- check_cover.c ---- */
/* (nvalues), heap: what a load or an atomic gave, and all that comes of it. */
bool *vm_data_find(const struct vm_program *p);
/* How much of the larger operand of a sum the smaller is, or of a sixteenth of what the larger is
 * usually: beside a zero (a masked lane, a row of zeros) whatever is left would count. 1 where a
 * constant is the smaller. */
#define VM_FAR 2000 /* of a term, or a number to be cut, that is zero: farther than any that is not */
double vm_term_share(double a, double b, bool first_is_known, bool second_is_known, double usual);
/* What a step makes of its operands (b: the second, or 0), before it is cut, and what it is cut to;
 * how far that is from another result than `from`, -1 where it is another. */
double vm_step_whole(const struct vm_instr *in, double a, double b, double *cut);
double vm_step_far(double x, double cut, double from);
/* Two masks that decide together (check_joint.c). */
enum { JOINT_LOOKS = 1, JOINT_KEEPS = 2 };
struct vm_joint_bits {
	int64_t n; /* 1: one for all; 0: not made yet */
	uint8_t *bits;
};
struct vm_joint {
	int site;
	int instr;    /* before which both are known */
	int masks[2]; /* values */
	bool wanted;  /* what the first has to be */
	bool is_open;
	struct vm_joint_bits kept[2]; /* of the masks, as they were made last */
};
/* A sum of many operands, or one that no instruction of two operands makes (check_sum.c). */
#define SUM_USUAL_MAX 4
#define SUM_SIZES_MAX 8
struct vm_sum {
	int site;
	int instr;
	int64_t nterms;
	int nsizes; /* by scalar arguments: at other sizes another place is padding; the last has all others */
	struct vm_sum_states {
		uint64_t sizes;
		uint8_t *terms;   // (nterms): what was seen of each
		int64_t ncounted;
		int64_t nopen; /* something, and never counted */
		int quiet;     /* looks since anything was new */
		int64_t looks; /* since then */
		bool is_met;   /* in this trial */
	} at[SUM_SIZES_MAX];
	uint8_t *first;   // (nterms): of each, before anything was seen
	bool has_usual;
	double usual[SUM_USUAL_MAX]; /* what the largest operand is in the first trial, by source */
};
/* Two operands of one sum, as it was made. */
struct vm_sum_pair {
	double x[2];
	bool is_known[2]; /* the text's own constant */
	int64_t term;     /* of the first */
	int number;       /* of the addition, where an instruction has several */
	int source[2];    /* where they come from: a source's element, or: */
	int64_t element;
	uint64_t address; /* of what memory held */
};
#define SUM_MEMORY (-1)
#define SUM_ANY (-2) /* any source's element */
/* Numbers between two; none yet where lo > hi. */
struct vm_span {
	double lo;
	double hi;
};
struct ptx_still;
struct vm_coverage {
	int nsites;
	struct vm_site *sites;
	int32_t *at;   // (ninstrs): site that is still open, or -1
	const struct vm_program *program;
	const struct vm_instr *first;
	int ninstrs;
	struct ptx_still **texts;   // (ninstrs): what is known of inline assembly on data, else NULL
	bool is_turned;             /* some gate is: nothing is recorded meanwhile */
	bool is_search;             /* of this launch (vm_coverage_row) */
	int npoles;
	bool is_settled;         /* which poles some input may meet is known, of these numbers: */
	struct vm_span *spans;   // (nvalues): what arguments were in all launches; NULL: there are no poles
	const struct vm_kernel *kernel;
	struct vm_held *held;   // (kernel->nargs): what memory behind each held in all launches
	uint16_t *mix;          // (program->nvalues): what data went through on its way there (check_gate.c)
	bool *is_data;          // (program->nvalues): comes of what was read
	int32_t *maker;         // (program->nvalues): as vm_maker_of has it
	bool is_held_new;       /* since gates were asked whether it decides them */
	int nopen;              /* joints that some side is left of */
	int njoints;
	struct vm_joint *joints;
	uint8_t *joint_marks;   // (ninstrs): JOINT_ bits; NULL: there are no joints
	int nsums;
	struct vm_sum *sums;
	int32_t *sum_at;   // (ninstrs): index of a sum, or -1; NULL: there are none
};
struct vm_site *vm_site_add(
	struct vm_coverage *c, const struct vm_program *p, int i, enum vm_site_kind kind, uint8_t wanted);
/* A number that the program text fixes; NaN for any other value. */
double vm_constant_of(const struct vm_program *p, int value);
/* The value that stands behind changes of shape, and the instruction that made
 * it; maker: (nvalues). */
const struct vm_instr *vm_maker_of(const struct vm_program *p, const int32_t *maker, int *value);
/* Records what an instruction with an open site is about to look at. */
void vm_cover_step(struct vm_ctx *c, const struct vm_instr *in, int site);
/* And what it has made. */
void vm_cover_result(struct vm_ctx *c, const struct vm_instr *in, int site);
/* Marks the sides of a comparison or a truth that its lanes have taken so far. */
void vm_site_close(struct vm_site *s, bool is_search);
/* ---- check_joint.c ---- */
/* Adds a site for each two masks that decide together. */
void vm_joints_find(struct vm_coverage *c, const struct vm_program *p, const int32_t *maker, const bool *is_data);
void vm_joints_free(struct vm_coverage *c);
/* Before an instruction at which joints look; and behind one that makes a mask of theirs. */
void vm_joint_look(struct vm_ctx *c, const struct vm_instr *in);
void vm_joint_keep(struct vm_ctx *c, const struct vm_instr *in);
/* ---- check_sum.c ---- */
/* Adds a site for each sum of many; what a reduction's region does is the reduction's. */
void vm_sums_find(struct vm_coverage *c, const struct vm_program *p, const bool *is_data);
void vm_sums_free(struct vm_coverage *c);
/* A copy of one, and its end. */
struct vm_sum vm_sum_copy(const struct vm_sum *sum);
void vm_sum_release(struct vm_sum *sum);
/* Which are open, of those that the trial met, and the next trial's beginning. */
void vm_sums_close(struct vm_coverage *c);
void vm_sums_begin(struct vm_coverage *c);
/* Before such a sum: what of it counts; and likewise for an aim, whose states the sum has. */
void vm_sum_cover(struct vm_ctx *c, const struct vm_instr *in);
void vm_sum_aim(struct vm_ctx *c, const struct vm_instr *in, struct vm_sum *sum);
/* Whether somebody wants to know the operands of an atomic or of assembly, and what they were: n
 * pairs, in order. */
bool vm_sum_wants_pairs(const struct vm_ctx *c, const struct vm_instr *in);
void vm_sum_pairs(struct vm_ctx *c, const struct vm_instr *in, const struct vm_sum_pair *pairs, int64_t n);
/* ---- check_fixed.c ---- */
/* Looks at the operands of a comparison. */
void vm_fixed_look(struct vm_site *s, const double *a, const double *b, int64_t n);
/* ---- check_range.c ---- */
/* Marks, of (nvalues), the numbers that are one and the same whatever memory holds; roots (nvalues)
 * and held, by argument: whatever of that memory holds. NULL: nothing is known of it. */
void vm_still_find(const struct vm_program *p, const struct vm_roots *roots, const struct vm_held *held, bool *still);
/* What the program may store through each argument, joined to what is held there; held: as
 * vm_coverage_held has it. Whether that is more than before. */
bool vm_stored_find(const struct vm_program *p, const struct vm_roots *roots, struct vm_held *const *held, int nargs);
/* Marks, of (ninstrs), the instructions whose result LLVM leaves open in all lanes, as far as the
 * program alone says so. */
void vm_undefined_find(const struct vm_program *p, bool *is_open);
/* What holds each value for all inputs, when it is a number. spans: of (nvalues), arguments on the
 * way in, all values on the way out. */
void vm_spans_find(const struct vm_program *p, struct vm_span *spans);

/* ---- check_pole.c ---- */
/* Adds a site for each operation on data that gives no finite number somewhere. */
void vm_poles_find(struct vm_coverage *c, const struct vm_program *p, const bool *is_data);
/* What is wanted of a pole: SIDE_EQUAL where some input may meet it, by what arguments were. */
void vm_poles_settle(struct vm_coverage *c);
/* An end's look at its operand, which is the pole's too: from least to most. */
void vm_pole_look(struct vm_coverage *c, const struct vm_site *end);
#define VM_POLE_PRODUCT 255
/* How far an operand, or a product of two, is from it; 0 where it is met. */
double vm_pole_far(const struct vm_site *pole, double a, double b);

/* ---- check_held.c ---- */
/* Joins `by` to what is held behind every argument that a pointer can come from; behind all, where
 * it can come from anywhere. Whether that is more than before. */
bool vm_stored_join(const struct vm_roots *pointer, struct vm_held *const *held, int nargs, struct vm_held by);
/* Marks the gates that are decided by what memory held in all launches so far. */
void vm_gates_decide(struct vm_coverage *c);

/* ---- check_gate.c ---- */
/* Marks the sites of results that mixed data has, and adds those that are no sites yet. */
/* What data went through that is read and stored, by the memory behind each argument: adds gates on
 * what earlier launches mixed. Whether a buffer holds what it did not before. */
bool vm_gates_held(struct vm_coverage *c, const struct vm_roots *roots, struct vm_held *const *held, int nargs);
void vm_gates_find(struct vm_coverage *c, const struct vm_program *p, const int32_t *maker, const bool *is_data);
void vm_gates_free(struct vm_coverage *c);
/* Looks at the operands of one that is watched as a number. */
void vm_gate_look(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s);
/* Whether a compare-and-swap stores, whose two numbers are equal or not. */
bool vm_gate_swap(struct vm_coverage *c, int instr, bool is_equal);
/* Looks at what such an instruction has made, or turns it. */
void vm_gate_step(struct vm_ctx *c, const struct vm_instr *in, struct vm_site *s);

/* ---- check_aim.c ---- */
void vm_aim_program(struct vm_aim *a, int64_t number); /* a program starts */
/* Follows what an instruction is about to do; at the aim's own it looks at the lanes. */
void vm_aim_step(struct vm_ctx *c, const struct vm_instr *in);

/* The sum that the aim is at, where it is this instruction; else NULL. */
struct vm_sum *vm_aim_sum(const struct vm_ctx *c, const struct vm_instr *in);
/* One operand of such a sum, in order, as lane number `lane`; far: NaN where it is none to be
 * chosen. And the end of one look. */
void vm_aim_term(struct vm_ctx *c, const struct vm_instr *in, int64_t lane, double far, int source, int64_t element,
	uint64_t address);
void vm_aim_turn(struct vm_aim *a);

/* ---- check_missed.c ---- */
/* Before a load of n elements, and before a store; mask: its value, or -1. */
void vm_missed_load(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, size_t size);
void vm_missed_store(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n);
/* Looks at the operands of an instruction. */
void vm_missed_step(struct vm_ctx *c, const struct vm_instr *in);
void vm_missed_release(struct vm_ctx *c); /* what it keeps of a context, before that goes */
void vm_missed_end(struct vm_missed *m);  /* the launch ended */

/* ---- check_report.c ---- */
struct vm_check *vm_check_create(const struct vm_kernel *k, const struct vm_program *p,
	const struct vm_launch_options *o, const struct vm_memory *m);
/* Notes about the whole launch, unless it was stopped; gives the list to the report. */
void vm_check_finish(struct vm_ctx *c, struct vm_report *r, bool was_stopped);
void vm_check_free(struct vm_check *k, const struct vm_program *p, const struct vm_memory *m);
void vm_check_program(struct vm_ctx *c, int64_t number); /* a program starts */
void vm_check_program_id(const struct vm_ctx *c, int64_t number, uint32_t id[3]);

/* ---- check_spin.c ---- */

/* Equal for a program that stands where it stood with the same values. */
uint64_t vm_values_hash(const struct vm_ctx *c);
/* Asked at a jump backwards; a fault when the loop can never end. */
int vm_spin_check(struct vm_ctx *c, const struct vm_instr *jump);

/* ---- check_race.c ---- */
enum check_kind { CHECK_READ, CHECK_WRITE, CHECK_ATOMIC };
void vm_race_create(struct vm_check *k, const struct vm_kernel *kernel, const struct vm_program *p,
	const struct vm_launch_options *o, const struct vm_memory *m);
void vm_race_free(struct vm_check *k, const struct vm_memory *m);
/* Before the rows of one access: its pointers as a block. a: an affine pointer of the given shape;
 * else `address`, of info->count elements. */
void vm_race_block_affine(struct vm_check *k, const struct affine *a, const struct vm_value_info *info);
void vm_race_block(struct vm_check *k, const int64_t *address, const struct vm_value_info *info);
/* Lanes of one store that have one address and different values. 1 when the program stops. */
int vm_race_lanes(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask,
	const uint8_t *value, int64_t n, size_t size);
/* n elements of `size` bytes, `step` bytes apart, from address on, all inside their buffer. value:
 * what is stored (step value_step), or NULL. Elements are numbered from `element` by
 * `element_step`. 1 when the program stops. */
struct check_row {
	int64_t address;
	int64_t step;
	int64_t n;
	const uint8_t *value;
	int64_t value_step;
	int64_t element;
	int64_t element_step;
};
int vm_race_row(
	struct vm_ctx *c, const struct vm_instr *in, const struct check_row *row, size_t size, enum check_kind kind);

/* ---- check_order.c ---- */
void vm_order_program(struct check_order *o);
void vm_order_atomic(struct vm_ctx *c, const struct vm_instr *in, uint64_t address, bool acquires, bool releases,
	bool is_write, int64_t lanes);
/* Whether the running program knows of an access: as of its atomic `own`, 0 for none; as of its
 * last. */
bool vm_order_knew(struct vm_check *k, const struct check_record *r, uint32_t own);
bool vm_order_knows(struct vm_check *k, const struct check_record *r);

/* ---- check_taint.c ---- */
void vm_taint_step(struct vm_ctx *c, const struct vm_instr *in, uint8_t watch);
/* Marks lane `lane` of n of result i. */
void vm_taint_mark(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t lane, int64_t n, uint8_t kind);
int vm_taint_use(struct vm_ctx *c, const struct vm_instr *in, int value, int mask, int64_t n, bool is_address);
void vm_taint_clear(struct vm_ctx *c);

/* ---- check_reduce.c ---- */
/* Two results of one reduction, outer * inner elements for each operand, by two orders: marks the
 * lanes that differ by more than rounding explains. */
void vm_reduce_compare(struct vm_ctx *c, const struct vm_instr *in, struct vm_buf *const *a, struct vm_buf *const *b);

/* ---- check_notes.c ---- */
void vm_notes_access(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, size_t size);
void vm_notes_finish(struct vm_ctx *c);
#endif
