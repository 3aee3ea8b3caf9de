/* Flow over the flat program: which values may be used before they are defined (refused), which
 * operand dies at which instruction, and the joining of multiplications and additions into fma.
 *
 * Liveness is the textbook backward data flow over basic blocks, on bit sets of those values only
 * that cross a block boundary. A combine region follows its instruction and is a loop from the
 * outside: reduce -> region or after; end of region -> region or after. */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/lower/lower.h"
#include "vm/map/map.h"
#include <stdlib.h>

#define FLOW_BITS_MAX ((size_t)1 << 26)
#define FLOW_SWEEPS_MAX 1000   /* a structured program needs its loop depth + 2 */

struct flow_block {
	int first;   /* instruction */
	int end;     /* the one behind the last */
	int next[2]; /* blocks that may follow; -1: none */
};
struct flow {
	struct vm_program *p;
	int nblocks;
	struct flow_block *blocks; /* (nblocks) */
	int *block_of;             /* instruction -> block */
	int *global;               /* value -> index among values that cross blocks, or -1 */
	int nglobals;
	int *value_of; /* (nglobals) the inverse of global */
	size_t words;  /* of a set of such values, a bit each */
	uint64_t *in;  /* (nblocks, words) live at the block's begin; likewise the next three: */
	uint64_t *out; /* at its end */
	uint64_t *use; /* read in it before they are set there */
	uint64_t *def; /* set in it */
};

static bool is_region(const struct vm_instr *in)
{
	return in->op == OP_REDUCE || in->op == OP_SCAN || in->op == OP_MAP_REGION;
}
static bool ends_block(const struct vm_instr *in)
{
	return in->op == OP_JUMP || in->op == OP_JUMP_UNLESS || in->op == OP_LOOP_TEST || in->op == OP_RETURN ||
		in->op == OP_REGION_END || is_region(in);
}

static void find_blocks(struct flow *f)
{
	struct vm_program *p = f->p;
	/* A block begins at the first instruction, behind each one that may leave the straight line,
	 * and wherever a jump leads. */
	bool *leader = xcalloc((size_t)p->ninstrs + 2, 1);
	leader[0] = true;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		if (!ends_block(in)) continue;
		leader[i + 1] = true;
		if (in->target >= 0) leader[in->target] = true;
	}
	/* Cut the list at the leaders. */
	f->block_of = xcalloc((size_t)p->ninstrs + 1, sizeof *f->block_of);
	f->blocks = xcalloc((size_t)p->ninstrs + 1, sizeof *f->blocks);
	for (int i = 0; i < p->ninstrs; i++) {
		if (leader[i]) f->blocks[f->nblocks++] = (struct flow_block){i, i, {-1, -1}};
		f->blocks[f->nblocks - 1].end = i + 1;
		f->block_of[i] = f->nblocks - 1;
	}
	/* Where each block goes on: to the next one, to its last instruction's target, to both or to
	 * neither. The end of a region goes back to the region's start (the next pair) or to what
	 * follows it. */
	for (int b = 0; b < f->nblocks; b++) {
		const struct vm_instr *last = &p->instrs[f->blocks[b].end - 1];
		int after = f->blocks[b].end < p->ninstrs ? f->block_of[f->blocks[b].end] : -1;
		int target = last->target >= 0 && last->target < p->ninstrs ? f->block_of[last->target] : -1;
		if (last->op == OP_RETURN) continue;
		if (last->op == OP_REGION_END) f->blocks[b].next[0] = f->block_of[last->imm[0]];
		else if (last->op != OP_JUMP) f->blocks[b].next[0] = after;
		if (ends_block(last)) f->blocks[b].next[1] = target;
	}
	free(leader);
}

/* A value is global when some use is in another block than its definition, or before it. */
static void find_globals(struct flow *f, const bool *pinned)
{
	struct vm_program *p = f->p;
	/* A use of a value that the same block defined before it needs no set: mark_kills sees it on
	 * its way through the block. Every other use, and so every one that is reached with the
	 * value not yet defined, gives the value a bit. Constants and arguments are always there:
	 * they have none. */
	int *defined_in = xcalloc((size_t)p->nvalues + 1, sizeof *defined_in);
	f->global = xcalloc((size_t)p->nvalues + 1, sizeof *f->global);
	for (int v = 0; v < p->nvalues; v++) {
		f->global[v] = -1;
		defined_in[v] = -1;
	}
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		for (int s = 0; s < in->nsrc; s++) {
			int v = p->ids[in->src + s];
			if (!pinned[v] && f->global[v] < 0 && defined_in[v] != f->block_of[i]) f->global[v] = f->nglobals++;
		}
		for (int d = 0; d < in->ndst; d++) defined_in[p->ids[in->dst + d]] = f->block_of[i];
	}
	/* The inverse, for walking over a set. */
	f->words = ((size_t)f->nglobals + 63) / 64;
	f->value_of = xcalloc(f->words * 64 + 1, sizeof *f->value_of);
	for (int v = 0; v < p->nvalues; v++)
		if (f->global[v] >= 0) f->value_of[f->global[v]] = v;
	free(defined_in);
}

static void block_sets(struct flow *f, int b)
{
	struct vm_program *p = f->p;
	uint64_t *use = f->use + (size_t)b * f->words, *def = f->def + (size_t)b * f->words;
	for (int i = f->blocks[b].first; i < f->blocks[b].end; i++) {
		const struct vm_instr *in = &p->instrs[i];
		for (int s = 0; s < in->nsrc; s++) {
			int g = f->global[p->ids[in->src + s]];
			if (g >= 0 && !(def[g / 64] >> (g % 64) & 1)) use[g / 64] |= 1ull << (g % 64);
		}
		for (int d = 0; d < in->ndst; d++) {
			int g = f->global[p->ids[in->dst + d]];
			if (g >= 0) def[g / 64] |= 1ull << (g % 64);
		}
	}
}

static bool block_update(struct flow *f, int b)
{
	uint64_t *in = f->in + (size_t)b * f->words, *out = f->out + (size_t)b * f->words;
	const uint64_t *use = f->use + (size_t)b * f->words, *def = f->def + (size_t)b * f->words;
	bool changed = false;
	/* Live at the end: what either successor needs at its start. Live at the start: what the
	 * block uses before it defines it, and what passes through. */
	for (size_t w = 0; w < f->words; w++) {
		uint64_t o = 0;
		for (int n = 0; n < 2; n++)
			if (f->blocks[b].next[n] >= 0) o |= f->in[(size_t)f->blocks[b].next[n] * f->words + w];
		uint64_t i = use[w] | (o & ~def[w]);
		changed |= o != out[w] || i != in[w];
		out[w] = o;
		in[w] = i;
	}
	return changed;
}

static void set_live_out(struct flow *f, int b, bool *live, bool on)
{
	const uint64_t *out = f->out + (size_t)b * f->words;
	for (size_t w = 0; w < f->words; w++)
		for (uint64_t bits = out[w]; bits; bits &= bits - 1)
			live[f->value_of[w * 64 + (size_t)__builtin_ctzll(bits)]] = on;
}

/* Bits of operands that are not live after their instruction. The end of a region keeps its
 * operands: the reduction reads them. */
static void mark_kills(struct flow *f, int b, bool *live)
{
	struct vm_program *p = f->p;
	set_live_out(f, b, live, true);
	for (int i = f->blocks[b].end - 1; i >= f->blocks[b].first; i--) {
		struct vm_instr *in = &p->instrs[i];
		for (int d = 0; d < in->ndst; d++) live[p->ids[in->dst + d]] = false;
		for (int s = 0; s < in->nsrc; s++) {
			int v = p->ids[in->src + s];
			if (!live[v] && s < 64 && in->op != OP_REGION_END) in->kill |= 1ull << s;
			live[v] = true;
		}
	}
	for (int i = f->blocks[b].first; i < f->blocks[b].end; i++)
		for (int s = 0; s < p->instrs[i].nsrc; s++) live[p->ids[p->instrs[i].src + s]] = false;
	set_live_out(f, b, live, false);
}

static int liveness(struct flow *f, const bool *pinned, struct err *err, const char *name)
{
	struct vm_program *p = f->p;
	find_globals(f, pinned);
	/* Four bit sets for each block. */
	if (f->words * 64 * (size_t)f->nblocks > FLOW_BITS_MAX)
		return err_set(err, ERR_LIMIT, "kernel %s: %d values cross %d blocks: too much control flow", name, f->nglobals,
			f->nblocks);
	size_t bytes = MAX(f->words * (size_t)f->nblocks, 1) * sizeof(uint64_t);
	f->in = xcalloc(1, bytes);
	f->out = xcalloc(1, bytes);
	f->use = xcalloc(1, bytes);
	f->def = xcalloc(1, bytes);
	for (int b = 0; b < f->nblocks; b++) block_sets(f, b);
	/* Backwards over the blocks until nothing changes: the sets only grow. */
	int sweeps = 0;
	for (bool changed = true; changed; sweeps++) {
		changed = false;
		if (sweeps > FLOW_SWEEPS_MAX) return err_set(err, ERR_LIMIT, "kernel %s: control flow too tangled", name);
		for (int b = f->nblocks - 1; b >= 0; b--) changed |= block_update(f, b);
	}
	/* What is live where the kernel starts is used before anything defines it. */
	for (size_t w = 0; w < f->words && f->nblocks; w++)
		if (f->in[w]) return err_set(err, ERR_FORMAT, "kernel %s: a value may be used before it is defined", name);
	/* Operands that die; constants and arguments never do, they serve the next program too. */
	bool *live = xcalloc((size_t)p->nvalues + 1, 1);
	for (int b = 0; b < f->nblocks; b++) mark_kills(f, b, live);
	for (int i = 0; i < p->ninstrs; i++)
		for (int s = 0; s < MIN(p->instrs[i].nsrc, 64); s++)
			if (pinned[p->ids[p->instrs[i].src + s]]) p->instrs[i].kill &= ~(1ull << s);
	free(live);
	return 0;
}

/* ---- mulf + addf -> fma ---- */

static bool contract_side(struct flow *f, int i, int side, const int *uses, const int *def_at)
{
	struct vm_program *p = f->p;
	struct vm_instr *in = &p->instrs[i];
	int v = p->ids[in->src + side], at = def_at[v];
	/* Only a product of the same block whose sole use this is may go: nobody else sees its
	 * rounding. */
	if (at < 0 || f->block_of[at] != f->block_of[i] || uses[v] != 1 || p->instrs[at].map_op != MAP_MULF) return false;
	struct vm_instr *mul = &p->instrs[at];
	int a = p->ids[mul->src], b = p->ids[mul->src + 1], c = p->ids[in->src + 1 - side];
	enum map_op op = in->map_op == MAP_ADDF ? MAP_FMA : side == 0 ? MAP_FMS : MAP_FNMA;
	/* The sum becomes the fused operation on the factors and the other operand. */
	if (p->nids + 3 > p->ids_cap) {
		p->ids_cap = MAX(p->ids_cap * 2, 1024);
		p->ids = xrealloc(p->ids, size_mul((size_t)p->ids_cap, sizeof *p->ids));
	}
	in->src = p->nids;
	in->nsrc = 3;
	p->ids[p->nids++] = a;
	p->ids[p->nids++] = b;
	p->ids[p->nids++] = c;
	in->map_op = op;
	in->flops = 2;
	in->kernel = map_kernel(op, (enum elem)in->elem);
	/* The product stays in its place and does nothing, so that no jump has to move. */
	mul->nsrc = mul->ndst = 0;
	vm_instr_set(mul, OP_NOTHING);
	mul->map_op = -1;
	return true;
}

static void contract_all(struct flow *f)
{
	struct vm_program *p = f->p;
	int *uses = xcalloc((size_t)p->nvalues + 1, sizeof *uses),
		*def_at = xcalloc((size_t)p->nvalues + 1, sizeof *def_at);
	for (int v = 0; v < p->nvalues; v++) def_at[v] = -1;
	for (int i = 0; i < p->ninstrs; i++) {
		for (int s = 0; s < p->instrs[i].nsrc; s++) uses[p->ids[p->instrs[i].src + s]]++;
		for (int d = 0; d < p->instrs[i].ndst; d++) def_at[p->ids[p->instrs[i].dst + d]] = i;
	}
	for (int i = 0; i < p->ninstrs; i++) {
		if (p->instrs[i].map_op != MAP_ADDF && p->instrs[i].map_op != MAP_SUBF) continue;
		if (!contract_side(f, i, 0, uses, def_at)) contract_side(f, i, 1, uses, def_at);
	}
	free(uses);
	free(def_at);
}

int vm_flow(struct vm_kernel *k, struct vm_program *p, bool contract, struct err *err)
{
	struct flow f = {.p = p};
	bool *pinned = xcalloc((size_t)p->nvalues + 1, 1);
	for (int i = 0; i < p->nconsts; i++) pinned[p->consts[i].value] = true;
	for (int i = 0; i < k->nargs; i++) pinned[k->arg_values[i]] = true;
	find_blocks(&f);
	if (contract) contract_all(&f);
	int rc = liveness(&f, pinned, err, k->name);
	free(pinned);
	free(f.blocks);
	free(f.block_of);
	free(f.global);
	free(f.value_of);
	free(f.in);
	free(f.out);
	free(f.use);
	free(f.def);
	return rc;
}
