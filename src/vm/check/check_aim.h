/* aim: for one site and one of its sides, how far each lane is from it, and one loaded element that
 * the lane was computed from.
 *
 * Beside the values that lead to the site run shadows of two kinds. An *origin* is the address of
 * one element that a lane was made of: a load is its own, and where an operation has several
 * operands, or a reduction many lanes, a lot says which is kept; another lot keeps another. *Far*
 * belongs to bits: how much the operands of a comparison would have to change for the bit to be the
 * other (Korel 1990); it is above 0 where the bit is false. `and` adds what its false sides lack,
 * `or` takes the nearest, a cast to a number keeps it, and a sum or maximum of such numbers has
 * that of the lane which is easiest to turn. So a mask made of several comparisons has a slope that
 * a search can descend, where its value has two steps.
 *
 * Origins go through memory as well: what a launch stored has the origin of what was stored, so a
 * kernel may look at what an earlier one made. What leads through branches is not followed: a
 * branch is a site of its own. But where a program does not come to the site, since it took the
 * other way at a branch in front of it, it is as far as that branch's condition is from turning,
 * and farther than any that comes there.
 *
 *   check_aim.c         an aim's life, values along operations, the look at the site's lanes
 *   check_aim_origin.c  the element that a lane was made of
 *   check_aim_far.c     how far bits are from turning
 *
 * Private to these; check.h has what launches call, vm.h what a search does. */
#ifndef HONE_VM_CHECK_AIM_H
#define HONE_VM_CHECK_AIM_H
#include "vm/check/check.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/vm.h"

#define ELEM_SHIFT 56     /* an origin has its element's type above the address */
#define AIM_KERNELS_MAX 16 /* of a tape, that are followed */
#define NAMED_MAX 16       /* numbers of a kernel's text that may be places of rows */
#define GUARDS_MAX 4
#define GUARD_FAR 0x1p30 /* what each branch that was not taken adds: farther than any lane at the site */
#define MEMORY_MAX ((int64_t)1 << 22) /* elements that launches stored */

struct aim_shadow {
	int64_t n;        /* lanes; 1: one for all */
	uint64_t *origin; /* (n); NULL: none has one */
	double *far;      /* (n); NULL: not known */
};
/* One kernel's part: the aim's own, or one whose stores are followed. */
struct aim_kernel {
	const struct vm_program *p;
	bool *is_needed;              // (nvalues): the site's operands come of it
	bool *is_drawn;               // (nvalues): or what is stored does
	struct aim_shadow *shadows;   // (nvalues)
	int nnamed;
	int64_t named[NAMED_MAX]; /* whole numbers of the text that may be places */
};
/* Open hash from an address of the tape to the origin of what was stored there. */
struct aim_memory {
	int64_t n;
	int64_t cap; /* a power of two */
	uint64_t *address;
	uint64_t *origin;
};
/* A branch that leads to the site where its condition is `wanted`. */
struct aim_guard {
	int instr;
	bool wanted;
};
struct vm_aim {
	const struct vm_program *p; /* of the running launch; likewise the next two */
	bool *is_needed;
	struct aim_shadow *shadows;
	int running; /* which of these kernels */
	int nkernels;
	struct aim_kernel kernels[AIM_KERNELS_MAX]; /* the first is the site's */
	struct aim_memory memory;
	int nbuffers;             /* of the running launch */
	const uint64_t *launched; /* (nbuffers): their addresses there, and on the tape */
	const uint64_t *on_tape;
	int instr; /* the site's */
	enum vm_site_kind kind;
	bool first_is_known; /* as a vm_site's */
	bool second_is_known;
	double usual;
	double from;                  /* of a step: the result that is left */
	const struct vm_joint *joint; /* of two masks that decide together; else NULL */
	struct vm_sum sum;            /* of a sum of many, as it was; no terms: it is none */
	int owner;                    /* tt.map_elementwise whose region the site stands in; -1: none */
	int nguards;
	struct aim_guard guards[GUARDS_MAX]; /* branches that the site stands in, the innermost first */
	int operand;                         /* of a truth: its bits; of a pole, what meets it */
	struct vm_site pole;                 /* as the site was */
	enum vm_side side;
	uint64_t lot;     /* by which origins are kept; 0: none are, distances alone */
	uint64_t weights; /* the last lot, until the next; 0: all sides of a mask count alike */
	int choose;       /* lanes to choose now; 0: those that were are looked at */
	int64_t met;      /* lanes that could be chosen so far */
	int row;          /* of the tape that runs; likewise the next */
	int64_t program;
	int64_t turn; /* how often this program came to the site */
	int nlanes;
	int cursor; /* the next lane that is looked for */
	struct vm_aim_lane *lanes;
};

/* Numbers of an instruction's values. */
static inline int aim_src(const struct vm_aim *a, const struct vm_instr *in, int i) { return a->p->ids[in->src + i]; }
static inline int aim_dst(const struct vm_aim *a, const struct vm_instr *in, int i) { return a->p->ids[in->dst + i]; }
/* Lots: bits without order, of a number, and of one choice at a lane. */
static inline uint64_t aim_mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
	return x ^ (x >> 32);
}
static inline uint64_t aim_draw(const struct vm_aim *a, const struct vm_instr *in, int64_t lane, int number)
{
	uint64_t place = aim_mix((uint64_t)(in - a->p->instrs) * 8 + (uint64_t)number) + aim_mix((uint64_t)a->program);
	return aim_mix(a->lot + place + (uint64_t)lane * 0x632be59bd9b4e019u);
}
/* Of a lane; 0: it has none. Who asks for a distance knows that there is one. */
static inline uint64_t aim_origin_at(const struct aim_shadow *s, int64_t i)
{
	return !s->origin ? 0 : s->origin[s->n == 1 ? 0 : i];
}
static inline double aim_far_at(const struct aim_shadow *s, int64_t i) { return s->far[s->n == 1 ? 0 : i]; }
static inline bool aim_is_store(const struct vm_instr *in) { return in->op == OP_STORE || in->op == OP_ATOMIC_RMW; }

/* ---- check_aim.c ---- */

/* Lane i of the result is lane first + i * step of the other. */
void aim_shadow_copy(struct aim_shadow *to, const struct aim_shadow *from, int64_t first, int64_t step);

/* ---- check_aim_origin.c ---- */

/* Of `count` operands from `first` on, one by lot. */
uint64_t aim_origin_of(const struct vm_aim *a, const struct vm_instr *in, int first, int count, int64_t lane);
/* Origins of a result, by kind of operation: lane by lane; of what was stored; of a product; of any
 * element; of two that are put together. */
void aim_origins_map(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to);
void aim_origins_store(struct vm_ctx *c, const struct vm_instr *in);
void aim_origins_load(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to);
void aim_origins_dot(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to);
void aim_origins_any(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to);
void aim_origins_pair(const struct vm_aim *a, const struct vm_instr *in, struct aim_shadow *to);
/* Of what lies at an address of the running launch. */
uint64_t aim_origin_stored(const struct vm_aim *a, uint64_t address, enum elem e);
/* Both kinds of shadows. */
void aim_shadow_reduce(struct vm_ctx *c, const struct vm_instr *in, int operand, struct aim_shadow *to);
void aim_memory_clear(struct aim_memory *m);

/* ---- check_aim_far.c ---- */

/* Of the orders `less`, `equal` and `greater` of a difference the nearest that is asked for. */
double aim_far_of_orders(double d, int orders);
/* n lanes; false after a fault. bits: where the operands differ, or NULL. */
bool aim_compare_far(struct vm_ctx *c, const struct vm_instr *in, int orders, int64_t n, double *far, uint64_t *bits);
bool aim_bits_far(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n, double *far);
/* Of a joint's two masks at lane i; to: of the second. Who is false is who is followed. */
double aim_joint_far(const struct vm_aim *a, bool to, int64_t i);
uint64_t aim_joint_origin(const struct vm_aim *a, const struct vm_instr *in, bool to, int64_t i);
/* Of a result: `and`, `or`, `xor` and a choice of bits; a choice between a number and 0. */
void aim_logic_make(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to);
void aim_far_of_choice(struct vm_ctx *c, const struct vm_instr *in, struct aim_shadow *to);
bool aim_is_compare(const struct vm_instr *in);
bool aim_is_logic(const struct vm_instr *in);
#endif
