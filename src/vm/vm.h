/* vm: executes Triton's own IR (TTIR text, Triton 3.6) on the CPU; checks memory; counts cost.
 *
 * vm_kernel_create parses the text (hostile: anything malformed is an error with line and column,
 * an operation that is not known is ERR_UNSUPPORTED with its name, source line and kernel; nothing
 * is guessed) and lowers it once to a compact typed instruction list over block values. vm_launch
 * runs a grid over buffers. Semantics are those of the GPU: integer arithmetic wraps, fp operations
 * are IEEE single operations (no contraction unless asked), tf32 dot truncates operands, bf16 and
 * fp16 round to nearest even, masked-off loads without `other` are undefined in Triton: here they
 * are filled with NaN or a pattern.
 *
 * Every access is bounds-checked against the buffer that the pointer's high bits name (tape.h); the
 * first fault stops the launch with source location, program id, operand index and what was
 * allowed.
 *
 * Checks beyond that (races between programs, overflow that reaches an address, notes) are asked
 * for by vm_launch_options.checks:
 *
 *     struct vm_launch_options o = {..., .checks = VM_CHECK_ALL, .findings_max = 64};
 *     struct vm_report r;
 *     vm_launch(k, &o, &r, &err);
 *     for (int i = 0; i < r.nfindings; i++) print(r.findings[i]);
 *     vm_report_release(&r);
 *
 * which is ERR_MISMATCH when an error is among the findings and 0 when they are notes alone. There
 * is one finding for each kind and place, in the order in which they were met.
 *
 * Threading: a kernel is immutable after create and may be launched from several threads; a launch
 * uses the pool it is given. A launch with checks runs its programs one after another on the
 * calling thread, so that what it finds never depends on threads. */
#ifndef HONE_VM_H
#define HONE_VM_H
#include "base/base.h"
#include "cost/cost.h"
#include "field/field.h"
#include "ttir/ttir.h"

struct vm_kernel;
int vm_kernel_create(const char *ttir, size_t len, struct vm_kernel **out, struct err *err);
void vm_kernel_free(struct vm_kernel *k);
const char *vm_kernel_name(const struct vm_kernel *k);
int vm_kernel_nargs(const struct vm_kernel *k);
/* Textual type of argument i as in the IR ("!tt.ptr<f32>", "i32"); whether it is a pointer. */
const char *vm_kernel_arg_type(const struct vm_kernel *k, int i);
bool vm_kernel_arg_is_pointer(const struct vm_kernel *k, int i); /* a descriptor made on the host too: its base */
bool vm_kernel_arg_is_descriptor(const struct vm_kernel *k, int i);
/* Whether some store of the kernel may go through argument i; and what it does about programmatic
 * dependent launch (griddepcontrol): whether it may read or write through argument i before it
 * waits for the launches in front of it, or end without; whether it may let the next one start
 * early, and that before it has waited itself. */
bool vm_kernel_arg_may_be_written(const struct vm_kernel *k, int i);
bool vm_kernel_arg_may_be_early(const struct vm_kernel *k, int i, bool is_write);
bool vm_kernel_may_skip_wait(const struct vm_kernel *k);
bool vm_kernel_triggers(const struct vm_kernel *k);
bool vm_kernel_triggers_early(const struct vm_kernel *k);
/* tf32 use: true when some tt.dot on fp32 operands has inputPrecision tf32 (the strict precision
 * rule needs it); *line is its source line. */
bool vm_kernel_uses_tf32(const struct vm_kernel *k, int *line);
/* Whether some tt.dot on fp8 operands leaves its sums in the tensor core
 * (maxNumImpreciseAcc), which Hopper's keep with fewer digits than fp32; the vm's sums are
 * fp32. *line is its source line. */
bool vm_kernel_sums_fp8(const struct vm_kernel *k, int *line);

/* Whether fp32 or fp64 is rounded to fp16, bf16 or fp8 (by a cast, or by cutting an fp32 pattern)
 * and what comes of it is stored: not what only comparisons see, nor the parts of a split product.
 * *line is the first's source line. */
bool vm_kernel_narrows(const struct vm_kernel *k, int *line);

/* Whether what a launch costs may depend on the values that it reads: some address, mask, branch or
 * trip count does. *line is the first's source line. */
bool vm_kernel_cost_depends_on_data(const struct vm_kernel *k, int *line);

/* Whether some result may depend on an order that Triton leaves open: a tt.reduce by a region that
 * is no single known operation, inline assembly on several elements at once, tt.cat, a reshape that
 * may reorder; an atomic whose result is used, that exchanges or compares, or that changes what
 * another kind of atomic changes too. *line is the first's source line. */
bool vm_kernel_may_depend_on_order(const struct vm_kernel *k, int *line);

/* Memory the launch may touch. address is tape_buffer_address(b); data has `bytes` bytes. origin
 * (may be NULL) has one tag per byte (enum tape_origin): a load of a byte tagged NONE is
 * VM_FAULT_UNINITIALISED, a store tags KERNEL. is_read_only: a store is a fault.
 *
 * period (a power of two; 0: none): memory by offset, for launches whose values do not matter.
 * `data` has four periods: what is read at an offset is the first two's at its remainder, what is
 * written goes to the last two and is never read. Bounds are those of `bytes` all the same. origin
 * is NULL then. vm_pattern_fill makes the first two.
 *
 * read, written (both or neither; NULL: nobody asks): a launch leaves 1 for each byte that it reads
 * or writes, and nothing else there. An atomic does both. used (of all buffers of a launch or of
 * none; with want_cost) is wide enough for all bytes that the programs
 * which ran read, and wrote. */
struct vm_followed;
struct vm_range {
	int64_t from; /* bytes; nothing: from >= to */
	int64_t to;
};
struct vm_buffer {
	uint64_t address;
	int64_t bytes;
	uint8_t *data;
	uint8_t *origin;
	uint8_t *read;           // (bytes)
	uint8_t *written;        // (bytes)
	struct vm_range *used;   // (2): of reads, of writes; or NULL
	bool is_read_only;
	int64_t period;
	struct vm_followed *followed; /* NULL: nobody asks what of it is used */
};
#define VM_PERIOD_BYTES ((int64_t)8 << 20)
void vm_pattern_fill(uint8_t *data, int64_t period); /* finite and not zero in every type, and different by offset */

/* A launch of which a sample of programs runs (want_cost, without checks): the report's counts are
 * those of the whole grid. Programs whose ways through branches and loops are alike stand for each
 * other, and their counts are scaled; the grid's corners run always, and everything runs where that
 * is little work. What the values in memory are does not matter: a launch whose addresses, masks or
 * branches depend on what it reads is ERR_UNSUPPORTED, with the place. */
struct vm_sample_options {
	uint64_t seed;
	int64_t all_work; /* element operations of a launch up to which everything runs; 0: 2^28 */
	int64_t work_max; /* of a sample, beyond which nothing runs; 0: 2^33 */
};

enum vm_fault {
	VM_FAULT_NONE,
	VM_FAULT_OUT_OF_BOUNDS,
	VM_FAULT_MISALIGNED,
	VM_FAULT_UNINITIALISED,
	VM_FAULT_READ_ONLY,
	VM_FAULT_DIVISION_BY_ZERO,
	VM_FAULT_ASSERT,
	VM_FAULT_TIMEOUT,
	VM_FAULT_ARGUMENT,
	VM_FAULT_UNSUPPORTED,
	VM_FAULT_RACE,
	VM_FAULT_INDEX_OVERFLOW,
	VM_FAULT_CO_RESIDENCY,
	VM_FAULT_ORDER,
	VM_FAULT_COUNT
};
const char *vm_fault_name(enum vm_fault f); /* "out-of-bounds", ... : reason codes */

/* ---- checks ---- */

/* Shadow memory of a launch: 4 bytes, or 8, for each element of a buffer that the kernel writes.
 * Where that is not enough, or there are more programs or atomics than can be told apart, races are
 * not looked for to the end: a note says so, or, where the launch stops at its first error, it is
 * VM_FAULT_UNSUPPORTED. */
#define VM_SHADOW_BYTES_MAX ((size_t)2 << 30)

enum vm_check_bits {
	VM_CHECK_RACE = 1,     /* write-write and read-write conflicts between programs; notes: the same value written by
							  several, dead stores */
	VM_CHECK_OVERFLOW = 2, /* integer arithmetic that wraps and whose result is part of an address that is used */
	VM_CHECK_DIVISION = 4, /* lanes divided by zero that reach a store or an address */
	VM_CHECK_NOTES = 8,    /* masks, idle programs, uncoalesced access */
	VM_CHECK_ORDER = 16, /* reductions whose function does not commute or associate, and whose result reaches a store or
							an address */
	VM_CHECK_ALL = 31
};
enum vm_note {
	VM_NOTE_NONE,
	VM_NOTE_MASK_ALWAYS,
	VM_NOTE_MASK_NEVER,
	VM_NOTE_DEAD_STORE,
	VM_NOTE_IDLE_PROGRAMS,
	VM_NOTE_UNCOALESCED,
	VM_NOTE_SAME_VALUE,
	VM_NOTE_UNCHECKED,
	VM_NOTE_COUNT
};
const char *vm_note_name(enum vm_note n); /* "mask-always-true", ... */

/* One thing found at one place of the source. Numbers that do not apply are -1, texts that are not
 * known "". All texts are copies. */
struct vm_finding {
	enum vm_fault fault;
	enum vm_note note; /* an error has a fault, a note has a note; the other is NONE */
	char file[128];
	int line;
	int column;
	char expression[64]; /* the variable that the source assigns here, as the IR names it */
	uint32_t program[3];
	int64_t element;  /* where it was met first: program, and index in its block */
	int64_t times;    /* elements or accesses that it was found at, over the whole launch */
	int64_t programs; /* in so many programs */
	int buffer;       /* memory: number of the buffer */
	int argument;     /* memory: the kernel's argument that holds its address */
	char name[64];    /* memory: that argument's name */
	int64_t offset;   /* memory: of the access, in bytes from the buffer's start */
	int64_t bytes;    /* memory: that the buffer has: [0, bytes) is allowed */
	int other_line;   /* a race: the earlier access; -1 where there is none */
	int other_column;
	uint32_t other_program[3];
	char text[320]; /* one line without place: "load of element 17 (4 bytes) at offset 4096 of x_ptr, which has 4096
					   bytes" */
};

/* ---- coverage: which sides of its comparisons on data a kernel took ---- */

/* What a site looks at. A comparison's and a minimum's d is the first operand less the second; an
 * end's d is the operand itself; a truth's is 1 and -1; of a sum, how much of the larger operand
 * the smaller is, in powers of two above VM_TERM; of a step (a float cut to a whole number, a
 * quotient or shift of whole numbers), how far from another result than the first, below 0; of a
 * pole, how far an operand is from where the operation gives no finite number (check_pole.c). */
#define VM_TERM 0x1p-8 /* a smaller share of a sum counts for nothing */
#define VM_SITE_TABLE(X) \
	X(SITE_COMPARE, "comparison") X(SITE_EXTREME, "minimum or maximum") X(SITE_CLAMP, "clamp") X(SITE_SIGN, "sign") \
	X(SITE_END, "range end") X(SITE_SELECT, "select") X(SITE_MASK, "mask") X(SITE_BRANCH, "branch") \
	X(SITE_DIGITS, "lost digits") X(SITE_GATE, "gate") X(SITE_TERM, "sum") \
	X(SITE_STEP, "step") X(SITE_POLE, "pole")
#define X(e, t) e,
enum vm_site_kind { VM_SITE_TABLE(X) SITE_KIND_COUNT };
#undef X
/* Whether a site has one side, which ordinary numbers take at once: what is
 * told is that none did. */
static inline bool vm_site_is_quiet(enum vm_site_kind k) { return k == SITE_TERM || k == SITE_STEP || k == SITE_POLE; }
enum vm_side { SIDE_BELOW = 1, SIDE_EQUAL = 2, SIDE_ABOVE = 4 };

/* What a comparison's operands were, where it was looked at: by operand, the
 * same looks in each trial. */
#define VM_FIXED_LOOKS 64
#define VM_FIXED_MAX 8
struct vm_fixed {
	int64_t looks; /* in this launch */
	int nnow;      /* numbers, since the last vm_coverage_begin */
	int n;         /* over all launches */
	bool varies[2];
	double numbers[2][VM_FIXED_LOOKS];
};
/* What a gate is watched as. */
enum vm_gate_number {
	GATE_BITS,      /* mixed bits */
	GATE_ZERO,      /* a product that is 0 */
	GATE_JOINED,    /* such a product in front of a sum */
	GATE_EXTREME,   /* a minimum or maximum with a constant */
	GATE_SAME,      /* one number, made of two that change */
	GATE_PLACE,     /* what a block gives at places that change */
	GATE_WHOLE,     /* a reduction of few elements */
	GATE_NONE_LEFT, /* a reduction, or a vanishing function, that was 0 */
	GATE_LOOP,      /* a loop that is never entered */
	GATE_SWAP       /* a compare-and-swap that never stores */
};
/* One instruction that looks at data: values that were loaded, or come of such. Its sides: d below
 * `low`, d equal to 0, d above `high`. `taken` is over all launches; least, most and nearest (of
 * |d|) are over those since the last vm_coverage_begin, infinite where nothing was seen.
 * `constant`: the other operand, where the program text fixes it; else NaN. */
struct vm_site {
	enum vm_site_kind kind;
	const char *what; /* the operation: "math.exp"; lives as long as the program */
	int line;
	int column;
	bool by_size;        /* an end: d is the operand's magnitude */
	bool is_equality;    /* a comparison by == or != */
	bool first_is_known; /* of a sum: the operand is a constant */
	bool second_is_known;
	double usual;     /* of a sum: the mean of its larger operand, where that was most, in its first trial */
	bool has_usual;   /* that trial is over */
	bool is_told;     /* it was open at the end of some trial */
	uint8_t wanted;   /* enum vm_side, or'ed: the sides that it has */
	uint8_t taken;    /* of those, the ones that were taken where it shows */
	int64_t shown[3]; /* lanes that took each side so: below, equal, above; over all launches */
	double low;
	double high;
	double constant;
	double least;
	double most;
	double nearest;
	/* Of SITE_DIGITS, whose only side is that digits were lost: over all
	 * launches, but for lanes_now. */
	int lanes;           /* that were looked at */
	int lanes_now;       /* since the last vm_coverage_begin */
	int same;            /* whose last digits are `last` */
	int kept;            /* that have digits of their own to the end */
	uint64_t last;       /* last bits of the first lane */
	uint64_t leading;    /* classes of leading digits that were seen, a bit each */
	uint64_t former;     /* the lane before, as bits */
	uint64_t repeated;   /* what two lanes in a row gave first: padding, or a relu's zeros */
	int taken_back;      /* is_beside_data: where little of the first operand is left */
	bool is_beside_data; /* a constant beside a sum of data */
	/* Of a result that comes of mixed data, whatever the kind (vm_coverage_gates). */
	bool is_gate;
	uint8_t results;       /* that were seen over all launches: none, one, 2: several */
	int few;               /* of an exponential: lanes in which it did not vanish, as long as they are few */
	int64_t vanished;      /* likewise: in which it did */
	uint64_t result;       /* the one */
	int64_t seen;          /* GATE_PLACE, _WHOLE, _NONE_LEFT: looks at other operands than the look before had */
	uint64_t looked;       /* likewise: the last look's operands, as a hash */
	bool is_new;           /* likewise: the present look counts in `seen` */
	uint8_t turn;          /* enum vm_turn */
	bool is_bounded;       /* a comparison with an end of its range: it says nothing */
	bool is_decided;       /* by what launches left in memory (vm_coverage_held): nor does it */
	enum elem result_elem; /* and its type */
	uint8_t number;        /* enum vm_gate_number */
	uint8_t moved;         /* number: 3: its operands were seen to change; a factor that was not 0 sets its bit */
	bool has_operands;     /* number: `first` holds its first operands, or an extreme's distance between them */
	bool is_minimum;       /* an extreme of whole numbers, with a constant */
	bool was_entered;      /* a loop that is turned: it is in its only turn */
	double first[2];
	double distance; /* of a step: the first result */
	bool has_first;  /* of a step: there was one */
	bool has_digits; /* of a step: it becomes a site of lost digits once another result was seen */
	/* A pole: the instruction that it is of, and where its operand meets it. */
	int instr;
	uint8_t operand;       /* VM_POLE_PRODUCT: of both together */
	int8_t way;            /* -1: at `constant` and below, 1: at it and above */
	int32_t pole;          /* of an end: its instruction's pole, which is looked at with it; -1: none */
	int nfrom;             /* operands that are mixed too */
	int from[3];           /* site of each; -1: not watched */
	struct vm_fixed fixed; /* a comparison without a constant that is still open */
};
struct vm_coverage;
/* One for each kernel that is to be followed, which outlives it. A launch that is given one runs
 * its programs on one thread. */
struct vm_coverage *vm_coverage_create(const struct vm_kernel *k);
void vm_coverage_free(struct vm_coverage *c);
void vm_coverage_begin(struct vm_coverage *c);
/* Before each launch of several. is_search: its inputs were made to take some side, so that one
 * lane that takes it is enough. */
void vm_coverage_row(struct vm_coverage *c, bool is_search);
int vm_coverage_sites(struct vm_coverage *c, const struct vm_site **out);
/* Before each launch too: numbers that it is given, of which poles may be bounded. */
struct vm_arg;
void vm_coverage_args(struct vm_coverage *c, const struct vm_kernel *k, const struct vm_arg *args, int nargs);
/* What launches left in a buffer, as far as their programs alone say. */
enum vm_held_state { HELD_NOTHING, HELD_NUMBERS, HELD_ANYTHING };
struct vm_held {
	enum vm_held_state state;
	enum elem elem; /* HELD_NUMBERS: their type; none is below lo or above hi */
	double lo;
	double hi;
	bool may_be_nan;
	uint16_t mix; /* what data went through that launches stored there, whatever the state (check_gate.c) */
};
/* Before each launch too: held[i] is of the buffer that argument i points into, NULL where it is no
 * pointer, and becomes what the buffer may hold when the launch has ended. Whether anything did
 * not hold that before. */
bool vm_coverage_held(struct vm_coverage *c, struct vm_held *const *held, int nargs);
/* Different numbers that one operand of a comparison was in all trials, though the other's were
 * not; how many there are. */
int vm_site_fixed(const struct vm_site *s, double out[VM_FIXED_MAX]);
const char *vm_site_kind_name(enum vm_site_kind kind);
/* Gates: results of mixed data (products and bits of it, so that no search comes nearer to a value)
 * that were the same in all lanes of all launches, though what they are made of was not. How many,
 * and the line of the first. */
int vm_coverage_gates(struct vm_coverage *c, int *line);
/* From here on launches run as if each gate had another result: the other bit, or the least other
 * number; all bits turned. */
enum vm_turn { TURN_NONE, TURN_LEAST, TURN_ALL };
void vm_coverage_turn(struct vm_coverage *c, enum vm_turn turn);

/* ---- aim: how far each lane of one site is from a side, and what it hangs on ---- */

/* One lane of one turn of a program at the site, in the order in which launches run: row is the
 * caller's name of the launch. address: of an element that the lane was computed from, drawn by lot
 * among all of them, as the caller calls it; 0: not drawn. far: 0 where the side was taken,
 * infinite where the lane was not met. bits: of an integer comparison, in which bits its operands
 * differ. */
struct vm_aim_lane {
	int row;
	int64_t program;
	int64_t turn;
	int64_t lane;
	uint64_t address;
	enum elem elem; /* that lies there */
	double far;
	uint64_t bits;
};
struct vm_aim;
/* Of an open site of a coverage and one of its sides; NULL where nothing can be said of it. A
 * launch that is given one runs its programs on one thread. */
struct vm_aim *vm_aim_create(const struct vm_kernel *k, const struct vm_coverage *c, int site, enum vm_side side);
void vm_aim_free(struct vm_aim *a);
/* Before the launches of one run. lot: draws an element for each lane, of another kind for another
 * last byte; 0: none is drawn. choose: so many lanes are chosen anew, by that lot; 0: the same as
 * before are looked at again. */
void vm_aim_begin(struct vm_aim *a, uint64_t lot, int choose);
/* Before the next launch; rows rise. launched, on_tape: where its buffers lie in it, and what the
 * caller calls these addresses; both live until it ended. False: the launch says nothing, and
 * is not given the aim. */
bool vm_aim_row(struct vm_aim *a, const struct vm_kernel *k, int row, const uint64_t *launched, const uint64_t *on_tape,
	int nbuffers);
/* The chosen lanes, in order; valid until the next begin. */
struct vm_aim_lane *vm_aim_lanes(struct vm_aim *a, int *n);

/* ---- missed: what a kernel could use of its buffers and does not ---- */

/* An element that a launch left out, as the caller names its address, and the line that did so. */
struct vm_missed_at {
	uint64_t name;
	int size;
	int line;
};
/* What is kept of a buffer over all launches of a trial. */
struct vm_followed {
	uint64_t name;      /* what the caller calls the buffer's first byte */
	uint8_t *is_read;   // (bytes): some load has read it
	struct vm_missed_at
		*made_of;   // (bytes), at an element's first: one that was read for what stands there; NULL: given
	int size;       /* of the smallest element that was read; 0: none was */
	int line;       /* of the last load */
};
struct vm_missed;
/* Of one launch, whose programs run on one thread then. keeps_made: some of its
 * buffers have made_of. */
struct vm_missed *vm_missed_create(const struct vm_kernel *k, bool keeps_made);
void vm_missed_free(struct vm_missed *m);
/* After the launch: elements that an index singles out after they were read, or that a load leaves
 * out which reads nearly all others. The list is the launch's. */
int vm_missed_list(const struct vm_missed *m, const struct vm_missed_at **out);
/* Small numbers that are no data and were added to it, or compared with it as a bound. */
#define VM_SMALL_MAX 4
int vm_missed_small(const struct vm_missed *m, const double **out);
/* An element of a followed buffer, or what it was made of; size 0: not known. */
struct vm_missed_at vm_followed_at(const struct vm_followed *f, int64_t offset, int size, int line);

/* Pointer, or base of a descriptor: address in i; integers in i; floats in f. nan_padding: of a
 * descriptor, what lies outside is NaN, not 0. */
struct vm_arg {
	int64_t i;
	double f;
	bool nan_padding;
};
/* Programs that ended, over as many launches as it is given to: what tells a slow kernel from one
 * that does not end. */
struct vm_progress {
	int64_t ended;
	uint64_t longest_ns;
	uint64_t spent_ns; /* by all of them */
	uint64_t begun_ns; /* vm_launch's own: when the running one began */
};
#define VM_STEADY 8 /* times as long as any that ended: a program that takes no longer may end as well */
struct vm_launch_options {
	uint32_t grid[3];
	const struct vm_arg *args;
	int nargs;
	struct vm_buffer *buffers;
	int nbuffers;                 /* sorted by address */
	struct pool *pool;            /* NULL: the calling thread alone */
	uint64_t deadline_ns;         /* absolute; 0: none. Checked inside loops too. */
	struct vm_progress *progress; /* NULL: nobody asks */
	bool want_cost;
	/* want_cost: of the same IR (cost.h); NULL: 4 warps, row-major blocks, 32 KiB of L1 */
	const struct vm_compiled *compiled;
	FILE *print; /* where tt.print writes, programs in order then; NULL: nowhere */
	/* A masked-off load without `other` gives 0, as NVIDIA's code makes it, and not a pattern. */
	bool undefined_is_zero;
	/* Addresses that name no buffer are looked up among the buffers' data, which rise with their
	 * addresses then: for kernels that read pointers from memory. */
	bool has_host_pointers;
	/* Buffers were allocated in multiples of this many bytes: a load beyond a buffer's end and
	 * within that gives 0 and the launch goes on (report.is_passed_over). 0, or with checks: such a
	 * load is a fault like any other. */
	int64_t load_granule;
	/* What Triton leaves open (vm_kernel_may_depend_on_order) is done in another order than usual:
	 * a GPU has an order of its own, so what is right must not depend on it (docs/vm.md). */
	bool crosswise;
	/* Not 0, and some result may depend on who comes first at an atomic: programs take turns there,
	 * drawn from this seed. Without checks and costs. */
	uint64_t schedule;
	bool fma_contract;                      /* contract mulf+addf with one use as ptxas does; default false */
	const struct vm_sample_options *sample; /* NULL: every program runs. With want_cost, without checks */
	unsigned checks;              /* enum vm_check_bits, or'ed; 0: only the faults that every launch looks for */
	int num_warps;                /* checks: of a block; 0: 4 */
	int num_ctas;                 /* checks: blocks of a cluster that make one program; 0: 1 */
	struct vm_coverage *coverage; /* of this kernel, or NULL; not with fma_contract */
	struct vm_aim *aim;           /* likewise */
	struct vm_missed *missed;     /* likewise */
	int64_t programs_max;         /* the grid's first programs alone run; 0: all of them */
	/* With checks. 0: the launch stops at its first error and no list is kept. Else errors are
	 * passed over where that is possible (a lane is left out), so that one run lists many. */
	int findings_max;
};
struct vm_report {
	enum vm_fault fault;
	/* "out-of-bounds store: kernel.py:12:5 ... program (3,0,0), element 17, offset 4096 of buffer 2
	 * (4096 bytes)" */
	char text[512];
	int line;
	int column;
	uint32_t program[3];
	int64_t element;
	const char *file;     /* of line and column; lives as long as the kernel */
	const char *access;   /* "load", "store", ...; NULL when the fault is no access. The four below are set with it. */
	int buffer;           /* index into the launch's buffers; -1: the address is in none */
	bool is_slow;         /* of a timeout: with `progress`, programs were ending */
	bool is_passed_over;  /* the fault stopped nothing (load_granule): vm_launch returns 0 */
	int64_t offset;       /* of the access in the buffer; may be negative or beyond the end */
	int64_t access_bytes; /* of one element */
	int64_t address;
	struct vm_cost cost;
	int64_t sampled; /* programs that ran for these counts; all of them without sample */
	/* want_cost: which instructions ran in some program, and what those comparisons gave that
	 * follow from no data, a character for each; heap, freed by vm_report_release. NULL: too many
	 * to tell. */
	char *reached;
	/* want_cost: distinct bytes read and written of each of the launch's buffers, in pairs; heap,
	 * freed by vm_report_release. */
	int64_t *touched;
	double sample_error; /* relative standard error of the least certain of the counts that time is made of; 0: exact */
	int nlines;
	struct vm_line_cost *lines; /* want_cost: heap, freed by vm_report_release */
	int nfindings;
	struct vm_finding *findings; /* checks: heap, freed by vm_report_release */
	int64_t findings_dropped;    /* errors and notes at places beyond findings_max */
};
/* 0 when it ran without fault; ERR_MISMATCH when a fault was found (report says which); ERR_RANGE
 * for arguments that do not fit. */
int vm_launch(const struct vm_kernel *k, const struct vm_launch_options *o, struct vm_report *report, struct err *err);
void vm_report_release(struct vm_report *r);
/* Whether a launch went no way that another one of an equal program did not go; false
 * where that is not known. */
bool vm_reached_within(const char *reached, const char *others);

/* ---- a launch on exact values (field.h), for proofs ----
 *
 * Floats are field values, integers and pointers what they always are. Every float that a buffer
 * holds is one value beside the buffer's bytes; bytes that were written as integers, or came with
 * the tape, are read as constants. The buffer's origin tags tell which: NONE where a value stands,
 * or nothing. */
struct vm_exact_buffer {
	enum elem elem;             /* type of the values; ELEM_COUNT: there are none yet */
	struct field_value *values; /* (bytes / size of elem), heap: made by the first store, or by the caller */
	uint8_t *is_set;            /* (bytes / size of elem), heap: a value stands there */
};
/* Gives a buffer room for values of one type; what stood there is gone. */
void vm_exact_buffer_set(struct vm_exact_buffer *b, enum elem e, int64_t bytes);
void vm_exact_buffer_release(struct vm_exact_buffer *b);

enum vm_exact_end {
	VM_EXACT_DONE,
	VM_EXACT_UNDECIDED, /* an interval did not decide: draw other inputs */
	VM_EXACT_OUTSIDE,   /* an operation that has no reading on exact values */
	VM_EXACT_FAULT      /* what vm_launch would have found too, and a deadline */
};
/* Which ways the comparisons, maxima and minima of one line went. */
struct vm_exact_side {
	int line;
	unsigned orders; /* MAP_LESS, MAP_EQUAL, ... (1, 2, 4, 8), or'ed */
};
#define VM_EXACT_SIDES_MAX 256
struct vm_exact_options {
	uint32_t grid[3];
	const struct vm_arg *args;
	int nargs;
	struct vm_buffer *buffers;        /* with origin tags */
	int nbuffers;                     /* sorted by address */
	struct vm_exact_buffer **exact;   // (nbuffers)
	struct field *field;
	uint64_t deadline_ns;
};
struct vm_exact_report {
	enum vm_exact_end end;
	char text[512]; /* of what ended it, with its place */
	int line;
	int nsides; /* added to by each launch, so that a caller may gather several */
	struct vm_exact_side sides[VM_EXACT_SIDES_MAX];
};
/* 0 when it ran, ERR_MISMATCH with report->end otherwise; ERR_RANGE for
 * arguments that do not fit. */
int vm_exact_launch(
	const struct vm_kernel *k, const struct vm_exact_options *o, struct vm_exact_report *report, struct err *err);
#endif
