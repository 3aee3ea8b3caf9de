/* cost_layout: which elements of a block one instruction of a warp touches, as the compiler's TTGIR
 * says. Private to the room.
 *
 * Every layout becomes linear: the element that register r of lane l of warp w holds has the flat
 * index  reg(r) ^ lane(l) ^ warp(w), each the XOR of one base per set bit. Blocks and layouts are
 * powers of two, so blocked, sliced and mma layouts are all of this form. */
#ifndef HONE_COST_LAYOUT_H
#define HONE_COST_LAYOUT_H
#include "base/base.h"
#include "cost/cost.h"

#define LAYOUT_DIMS 5
#define LAYOUT_BITS 20           /* of a block's index: blocks have at most 2^20 elements */
#define LAYOUT_LANE_BITS 5

enum cost_site_kind {
	COST_SITE_LOAD,
	COST_SITE_STORE,
	COST_SITE_ATOMIC,
	COST_SITE_CONVERT,
	COST_SITE_DOT,
	COST_SITE_REDUCE,
	COST_SITE_SCAN,
	COST_SITE_GATHER,
	COST_SITE_MAP, /* element-wise, on a block that a reduction or an expand_dims lays out: threads may hold copies */
	COST_SITE_KINDS
};
struct cost_bases {
	int n;
	int32_t at[LAYOUT_BITS][LAYOUT_DIMS];
};
struct cost_layout {
	int ndim;
	struct cost_bases reg;  /* what each register bit of a thread adds */
	struct cost_bases lane; /* each bit of the lane */
	struct cost_bases warp; /* each bit of the warp */
	int mma_version;        /* 2, 3 or 5 of a tensor-core layout, else 0 */
};
struct cost_site {
	enum cost_site_kind kind;
	int line;
	int column;
	int ndim;
	int32_t shape[LAYOUT_DIMS];
	int layout;        /* into layouts; -1: not known */
	bool is_async;     /* copied to shared memory behind the program's back: a load that a pipelined loop waits for
						  iterations later */
	bool is_bulk;      /* by the unit that copies boxes of a tensor, which has no order with what threads store */
	bool is_scattered; /* into shared memory that is transposed for a 32-bit wgmma operand: one element after another,
						  all lanes in one bank */
	bool is_depth_first[2]; /* of a dot on the fp32 pipes: neighbours of this operand in shared memory lie along K */
	int elem_bits;
};
struct vm_layouts {
	int nlayouts;
	struct cost_layout *layouts;
	int nsites;
	int sites_cap;
	struct cost_site *sites;
	int stages;
};

/* First site of this kind, position and shape; without one of that shape the first at the position;
 * NULL when there is none. */
const struct cost_site *cost_site_find(
	const struct vm_layouts *l, enum cost_site_kind kind, int line, int column, int ndim, const int32_t *shape);

/* A layout laid over a block: flat element indices. Registers that repeat elements are left out;
 * warps that do count in warp_copies. */
struct cost_lanes {
	int nreg;                 /* bits of the register number */
	int nwarp;                /* bits of the warp number */
	int32_t reg[LAYOUT_BITS]; /* base of register bit b */
	int32_t warp[LAYOUT_BITS];
	int32_t lane[32]; /* element of lane l where register and warp are 0 */
	int warp_copies;  /* warps that hold the same elements */
};
/* false: the layout does not cover the shape (not a power of two, too many elements). layout NULL:
 * row-major, 16 bytes a thread, `warps` warps. */
bool cost_lanes_of(const struct cost_layout *layout, int ndim, const int32_t *shape, int elem_bytes, int warps,
	struct cost_lanes *out);

/* A reduction along one axis of a block with this layout, for each operand (cost_reduce.c). */
struct cost_reduce {
	int64_t results; /* that a thread holds when it has combined its own elements */
	int steps;       /* shuffles that combine a warp's lanes */
	int warps_along; /* warps that hold parts of the same results */
	int64_t rounds;  /* turns in which all threads together combine the warps' results; 0 when there is one warp along
						the axis */
	int64_t wavefronts; /* cycles of shared memory, with 4-byte values */
};
bool cost_reduce_of(
	const struct cost_layout *layout, int ndim, const int32_t *shape, int axis, int warps, struct cost_reduce *out);

/* A tl.dot on the fp32 pipes whose result has this layout over this block: turns of shared memory
 * in which the program's threads read both operands (cost_dot.c). site: how these lie there; NULL:
 * the left one along K, the right one not. depth: K. */
int64_t cost_dot_turns(const struct cost_site *site, const struct cost_layout *layout, int ndim, const int32_t *shape,
	int64_t depth, int elem_bytes, int warps);

/* Layout of one line's attribute, "#ttg.blocked<{...}>" and the like; 0 when understood. Exposed
 * for tests. */
int cost_layout_parse(struct slice text, struct cost_layout *out);
#endif
