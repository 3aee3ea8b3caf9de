/* ptx: PTX that kernels write as inline assembly. Private to the room.
 *
 * A text becomes a list of instructions over registers of 64 bits, which is run for many lanes at a
 * time, one instruction after another. What works on registers alone is there (the table is in
 * ptx_ops.c): moves, integer and floating-point arithmetic, comparisons with predicates,
 * conversions, permutations. Memory, jumps, and what depends on which thread asks are refused by
 * name. Instructions that only order, announce or wait (griddepcontrol, bar, fence, nanosleep) do
 * nothing, as barriers do elsewhere in the vm; what they cost is told (waits_for).
 * Approximate instructions are as far off as PTX lets them be, where that is more than a few
 * units in the last place of fp32. */
#ifndef HONE_VM_PTX_H
#define HONE_VM_PTX_H
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/map/map.h"

#define PTX_LANES 64
#define PTX_REGISTERS_MAX 512
#define PTX_INSTRS_MAX 512
#define PTX_SOURCES_MAX 8
#define PTX_RESULTS_MAX 4

enum ptx_modifier {
	PTX_RN = 1,
	PTX_RNI = 1 << 1,
	PTX_RZI = 1 << 2,
	PTX_RMI = 1 << 3,
	PTX_RPI = 1 << 4,
	PTX_RZ = 1 << 5,
	PTX_RNA = 1 << 6,
	PTX_FTZ = 1 << 7,
	PTX_SAT = 1 << 8,
	PTX_SATFINITE = 1 << 9,
	PTX_APPROX = 1 << 10,
	PTX_LO = 1 << 11,
	PTX_HI = 1 << 12,
	PTX_WIDE = 1 << 13,
	PTX_NAN = 1 << 14,
	PTX_XORSIGN_ABS = 1 << 15,
	PTX_LEFT = 1 << 16,
	PTX_RIGHT = 1 << 17,
	PTX_WRAP = 1 << 18,
	PTX_CLAMP = 1 << 19,
	PTX_FULL = 1 << 20
};

/* kind: b(its), u(nsigned), s(igned), f(loat), p(redicate). A register holds `lanes` elements of
 * `bits` bits; elem: of floats. */
struct ptx_type {
	const char *name;
	char kind;
	uint8_t bits;
	uint8_t lanes;
	enum elem elem;
};

struct ptx_instr;
typedef void ptx_eval(const struct ptx_instr *in, const uint64_t *x, uint64_t *r);
struct ptx_row;
struct ptx_instr {
	const struct ptx_row *row;
	const struct ptx_type *type;
	const struct ptx_type *from; /* source of a conversion, else as type */
	unsigned modifiers;
	int compare;    /* setp: what ptx_compare_find gave; -1: none */
	map_fn *narrow; /* f64 to the type, where it is a float of 16 bits */
	int nresults;
	int nsources;
	int guard; /* register of a predicate, -1 without */
	bool guard_is_not;
	int16_t results[PTX_RESULTS_MAX]; /* registers */
	int16_t sources[PTX_SOURCES_MAX]; /* registers */
};

/* kinds: types it takes, "" for any; nsources -1: any number of operands, -2: does nothing. */
struct ptx_row {
	const char *name;
	ptx_eval *eval;
	int nsources;
	const char *kinds;
	unsigned modifiers;
	uint64_t (*ints)(const struct ptx_instr *in, uint64_t a, uint64_t b, uint64_t c);
	double (*floats)(const struct ptx_instr *in, double a, double b, double c);
	uint8_t flops;
	uint8_t special;
};
const struct ptx_row *ptx_row_find(const char *name);
const struct ptx_type *ptx_type_find(const char *name);
int ptx_compare_find(const char *name); /* -1: none */
bool ptx_compare_fits(int compare, const struct ptx_type *t);
unsigned ptx_modifier_find(const char *name); /* 0: none */

enum ptx_special { PTX_CONSTANT, PTX_CTAID, PTX_NCTAID = PTX_CTAID + 3, PTX_SMID = PTX_NCTAID + 3, PTX_NSMID };
struct ptx_preset { /* a register that holds a constant, or what the program is */
	int reg;
	int special; /* enum ptx_special */
	uint64_t value;
};
/* What a text waits for, whatever its registers hold. */
struct ptx_waits {
	int count;    /* instructions that only order, announce or wait */
	int barriers; /* of them: those that all threads of a program meet at */
	int fences;
	int system_fences;
	double sleep_ns; /* all together */
	bool is_open;    /* some sleep is as long as a register says */
};
/* Instructions of the machine, by pipe; f64: of fma, each of which is two there. */
struct ptx_cost {
	int fma;
	int alu;
	int special;
	int f64;
};
struct ptx_cost ptx_cost_of(const struct ptx_instr *in);
struct ptx_program {
	int nregs;
	int ninstrs;
	int npresets;
	struct ptx_instr *instrs;
	struct ptx_preset *presets;
	int flops; /* of one run, with all lanes of its registers */
	int special;
	bool waits; /* for the launches in front of this one (griddepcontrol.wait), whatever the registers hold */
	struct ptx_waits waits_for;
	bool triggers; /* lets the launch behind this one start (griddepcontrol.launch_dependents) */
};

/* Registers [0, nargs) are the operands $0, $1, ... ERR_UNSUPPORTED or ERR_FORMAT with why. */
int ptx_parse(const char *text, int nargs, struct arena *arena, struct ptx_program *out, char *why, size_t why_len);
/* What is known of one instruction's results over all runs (ptx_still.c); needed 0: it is not
 * watched. turn: from here on it gives another result, in one of two ways. */
struct ptx_still {
	uint8_t needed;
	uint8_t moved;
	uint8_t results; /* that were seen: none, one, 2: several */
	uint8_t turn;
	uint64_t first[2];
	uint64_t result;
};
struct ptx_still *ptx_still_make(const struct ptx_program *p); /* (ninstrs), heap */
bool ptx_still_is(const struct ptx_program *p, const struct ptx_still *all, int i);
bool ptx_still_is_joined(const struct ptx_instr *in); /* a product and a sum */
void ptx_still_look(struct ptx_still *s, const struct ptx_instr *in, const uint64_t *x, const uint64_t *r);
void ptx_still_turn(const struct ptx_still *s, const struct ptx_instr *in, const uint64_t *x, uint64_t *r);

/* regs: (nregs, PTX_LANES). */
void ptx_preset(const struct ptx_program *p, uint64_t *regs, const uint32_t id[3], const uint32_t grid[3]);
/* still: (ninstrs) or NULL; is_turned: nothing is recorded there, and some results are turned.
 * sums: (ptx_sums, 2, PTX_LANES) or NULL: gets the operands of additions of floats of 32 and 64
 * bits, NaN where one was not made. */
void ptx_run(
	const struct ptx_program *p, uint64_t *regs, int lanes, struct ptx_still *still, bool is_turned, double *sums);
/* How many such additions a text has; known: (n, 2) or NULL: which operands
 * the text itself fixes. */
int ptx_sums(const struct ptx_program *p, bool *known);

/* ---- what an instruction with inline assembly carries ---- */

#define ASM_SLOTS_MAX 128
#define ASM_PACK_MAX 32

/* A register of the text and the elements in it: `count` from number `first` of each pack, of one
 * result or operand. */
struct asm_slot {
	bool is_result;
	int operand;
	int reg;
	int first;
	int count;
};
struct asm_block {
	struct ptx_program code;
	int pack; /* elements that one run of the text takes */
	int nslots;
	struct asm_slot slots[ASM_SLOTS_MAX];
};
#endif
