/* What a kernel could use of its inputs and does not: elements that a load leaves out which reads
 * nearly all others of their buffer, and lanes that an index singles out, by a select, a factor or
 * a branch, after they were loaded.
 *
 * Neither is an error: a bound, a causal mask or an empty part do so. But a maximum or a long sum
 * hardly shows one element less, whatever the others are, so whoever asks makes just these elements
 * large and looks at the outputs.
 *
 * A *join* is an instruction at which numbers that come of indices meet data. Among the lanes of
 * one such operand most have one value; the others are singled out. Of a scalar it is the programs,
 * or the turns of a loop, whose value is the rarer of two. From a lane of the data beside it the
 * instructions lead back to a load, whose last addresses and mask are kept. What was stored in a
 * buffer that only the launches share leads further back, to what that was made of.
 *
 * Small constants beside data (an epsilon) are told as well: where all data is large they are used
 * as little as an element that is left out. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20) /* of all loads of a launch together */
#define NEARLY(read, all) ((read) > (all) / 4 * 3)
#define PICKS 8         /* elements that are kept of one reason */
#define SEEN_MAX 64     /* lanes of either kind that are asked at one execution of a join */
#define STEPS_MAX 64    /* back to a load */
#define REDUCED_LOTS 4  /* lanes of a reduction that are asked for one */
#define JOIN_SOURCES 3
#define JOIN_USES 8 /* values of a branch */
#define SMALL 2e-3  /* largest epsilon that anybody adds */

/* Which elements of one buffer one load has read. */
struct missed_map {
	int instr;
	uint64_t index;
	const struct vm_buffer *buffer; /* NULL: nobody follows it */
	int shift;
	int64_t n;
	uint8_t *is_read;   // (n); NULL: no room, the buffer's account alone is kept
};
/* Some of many, each with the same chance (Vitter 1985). */
struct missed_pick {
	int64_t met;
	int n;
	struct vm_missed_at at[PICKS];
};
struct missed_join {
	int instr;
	int nuses; /* values whose lanes may be lost */
	int32_t uses[JOIN_USES];
	uint8_t by;                /* operands that come of indices, a bit each */
	int nvalues[JOIN_SOURCES]; /* different ones that a scalar operand had; 3: more than two */
	uint64_t values[JOIN_SOURCES][2];
	int64_t met[JOIN_SOURCES][2];
	struct missed_pick sides[JOIN_SOURCES][2]; /* where it had the first, and the second */
	struct missed_pick alone;                  /* lanes that both neighbours differ from */
	struct missed_pick few;                    /* lanes of another value than most */
};
struct vm_missed {
	const struct vm_program *p;
	int32_t *join_of;   // (ninstrs): into joins, or -1
	int njoins;
	struct missed_join *joins;
	int32_t *maker;          // (nvalues): the last instruction that makes it from data; else any; -1: none
	bool *is_data;           // (nvalues)
	bool *is_kept;           // (ninstrs): a load that a join may lead back to
	bool keeps_made;         /* some buffer wants to know what stores were made of */
	struct vm_value *kept;   // (2 * ninstrs): addresses and mask of each such load
	int nmaps;
	int32_t *map_at;   // (ninstrs): the map that each load used last, or -1
	struct missed_map *maps;
	size_t bytes;
	uint64_t lots;
	bool *is_sum;   // (ninstrs): data and something else are added, or the larger is taken, before a steep function
	int nsmall;
	double small[VM_SMALL_MAX];
	int nlist;
	struct vm_missed_at *list;
};

/* ---- which instructions are joins ---- */

/* What comes of the program's place, of ranges and of what loops count. */
static bool *index_find(const struct vm_program *p, const bool *is_data)
{
	bool *is_index = xcalloc((size_t)p->nvalues + 1, sizeof *is_index);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		bool is_source = in->op == OP_RANGE || in->op == OP_PROGRAM_ID || in->op == OP_MOVE;
		for (int d = 0; is_source && d < in->ndst; d++)
			is_index[dst_id(p, in, d)] = in->op != OP_MOVE || !is_data[dst_id(p, in, d)];
	}
	vm_flow_forward(p, is_index);
	for (int v = 0; v < p->nvalues; v++) is_index[v] &= !is_data[v];
	return is_index;
}

/* Behind a move, which has several makers, the one that brings data counts. */
static void makers_find(struct vm_missed *m)
{
	const struct vm_program *p = m->p;
	memset(m->maker, 0xff, ((size_t)p->nvalues + 1) * sizeof *m->maker);
	for (int i = 0; i < p->ninstrs; i++)
		for (int d = 0; d < p->instrs[i].ndst; d++) {
			const struct vm_instr *in = &p->instrs[i];
			int32_t *maker = &m->maker[dst_id(p, in, d)];
			if (*maker < 0 || in->op != OP_MOVE || m->is_data[src_id(p, in, d)]) *maker = i;
		}
}

/* Marks what comes to a function that is steep at zero: a root, a logarithm, a divisor. */
static bool *steep_find(const struct vm_program *p)
{
	static const struct {
		int16_t op;
		int operand;
	} steep[] = {{MAP_SQRT, 0}, {MAP_PRECISE_SQRT, 0}, {MAP_RSQRT, 0}, {MAP_RCP, 0}, {MAP_LOG, 0}, {MAP_LOG2, 0},
		{MAP_LOG10, 0}, {MAP_DIVF, 1}, {MAP_PRECISE_DIVF, 1}, {MAP_POWF, 0}};
	bool *is_steep = xcalloc((size_t)p->nvalues + 1, sizeof *is_steep);
	for (int i = 0; i < p->ninstrs; i++)
		for (size_t k = 0; k < ARRAY_LEN(steep); k++)
			if (p->instrs[i].op == OP_MAP && p->instrs[i].map_op == steep[k].op)
				is_steep[src_id(p, &p->instrs[i], steep[k].operand)] = true;
	/* Backwards until nothing is new: loops lead round. */
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = p->ninstrs - 1; i >= 0; i--) {
			const struct vm_instr *in = &p->instrs[i];
			bool any = false;
			for (int d = 0; d < in->ndst; d++) any |= is_steep[dst_id(p, in, d)];
			for (int s = 0; any && s < in->nsrc; s++) {
				changed |= !is_steep[src_id(p, in, s)];
				is_steep[src_id(p, in, s)] = true;
			}
		}
	}
	return is_steep;
}

static bool is_sum(const struct vm_missed *m, const struct vm_instr *in)
{
	static const int16_t ops[] = {MAP_ADDF, MAP_SUBF, MAP_FMA, MAP_FMS, MAP_MAXIMUMF, MAP_MAXNUMF, MAP_MINIMUMF,
		MAP_MINNUMF, MAP_CLAMPF, MAP_CLAMPF_NAN};
	int ndata = 0;
	bool is_listed = false;
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) is_listed |= in->map_op == ops[i];
	for (int s = 0; s < in->nsrc; s++) ndata += m->is_data[src_id(m->p, in, s)];
	return in->op == OP_MAP && is_listed && ndata && ndata < in->nsrc;
}

static bool joins_lanes(const struct vm_instr *in)
{
	bool is_compare = in->op == OP_MAP && in->map_op < 0 && in->result_elem == ELEM_I1 && in->elem != ELEM_I1;
	return in->n && in->nsrc >= 2 && in->nsrc <= JOIN_SOURCES && !is_compare &&
		(in->op == OP_MAP || in->op == OP_SELECT || in->op == OP_DIVIDE);
}

/* Data that the instructions from..to use and do not make themselves. */
static void branch_uses(struct vm_missed *m, int from, int to, struct missed_join *j)
{
	const struct vm_program *p = m->p;
	for (int i = from; i < to; i++)
		for (int s = 0; s < p->instrs[i].nsrc && j->nuses < JOIN_USES; s++) {
			int v = src_id(p, &p->instrs[i], s);
			bool is_new = m->is_data[v] && m->maker[v] < from;
			for (int k = 0; k < j->nuses; k++) is_new &= j->uses[k] != v;
			if (is_new) j->uses[j->nuses++] = v;
		}
}

static void joins_find(struct vm_missed *m)
{
	const struct vm_program *p = m->p;
	bool *is_index = index_find(p, m->is_data);
	for (int i = 0; i < p->ninstrs; i++) {
		const struct vm_instr *in = &p->instrs[i];
		struct missed_join j = {.instr = i};
		m->join_of[i] = -1;
		if (joins_lanes(in)) {
			for (int s = 0; s < in->nsrc; s++) {
				int v = src_id(p, in, s);
				if (is_index[v]) j.by |= (uint8_t)(1 << s);
				else if (m->is_data[v]) j.uses[j.nuses++] = v;
			}
		} else if (in->op == OP_JUMP_UNLESS && is_index[src_id(p, in, 0)] && in->target > i) {
			/* What is there for one side, and behind it for the other. */
			const struct vm_instr *last = &p->instrs[in->target - 1];
			j.by = 1;
			branch_uses(m, i + 1, in->target, &j);
			if (last->op == OP_JUMP && last->target > in->target) branch_uses(m, in->target, last->target, &j);
		}
		if (!j.by || !j.nuses) continue;
		m->joins = xrealloc(m->joins, size_mul((size_t)m->njoins + 1, sizeof *m->joins));
		m->join_of[i] = m->njoins;
		m->joins[m->njoins++] = j;
	}
	free(is_index);
}

struct vm_missed *vm_missed_create(const struct vm_kernel *k, bool keeps_made)
{
	const struct vm_program *p = &k->program;
	struct vm_missed *m = xcalloc(1, sizeof *m);
	m->p = p;
	m->keeps_made = keeps_made;
	m->is_data = vm_data_find(p);
	m->join_of = xcalloc((size_t)p->ninstrs + 1, sizeof *m->join_of);
	m->maker = xmalloc(size_mul((size_t)p->nvalues + 1, sizeof *m->maker));
	m->is_kept = xcalloc((size_t)p->ninstrs + 1, sizeof *m->is_kept);
	m->kept = xcalloc(2 * (size_t)p->ninstrs + 1, sizeof *m->kept);
	for (int i = 0; i < 2 * p->ninstrs; i++) m->kept[i].form = FORM_SPLAT;
	m->map_at = xmalloc(size_mul((size_t)p->ninstrs + 1, sizeof *m->map_at));
	memset(m->map_at, 0xff, ((size_t)p->ninstrs + 1) * sizeof *m->map_at);
	m->is_sum = xcalloc((size_t)p->ninstrs + 1, sizeof *m->is_sum);
	makers_find(m);
	joins_find(m);
	bool *is_steep = steep_find(p);
	for (int i = 0; i < p->ninstrs; i++)
		m->is_sum[i] = is_sum(m, &p->instrs[i]) && is_steep[dst_id(p, &p->instrs[i], 0)];
	free(is_steep);
	for (int i = 0; i < p->ninstrs; i++) m->is_kept[i] = p->instrs[i].op == OP_LOAD && (m->njoins || keeps_made);
	return m;
}

void vm_missed_free(struct vm_missed *m)
{
	if (!m) return;
	for (int i = 0; i < m->nmaps; i++) free(m->maps[i].is_read);
	free(m->maps);
	free(m->map_at);
	free(m->joins);
	free(m->join_of);
	free(m->maker);
	free(m->is_data);
	free(m->is_kept);
	free(m->is_sum);
	free(m->kept);
	free(m->list);
	free(m);
}

void vm_missed_release(struct vm_ctx *c)
{
	for (int i = 0; i < 2 * c->program->ninstrs; i++) vm_value_clear(c, &c->missed->kept[i]);
}

/* ---- loads ---- */

static struct missed_map *map_of(struct vm_ctx *c, int instr, uint64_t address, size_t size)
{
	struct vm_missed *m = c->missed;
	uint64_t index = address >> TAPE_ADDRESS_SHIFT;
	/* Mostly it is the one that this load used last; a text may have thousands of loads. */
	struct missed_map *last = m->map_at[instr] < 0 ? NULL : &m->maps[m->map_at[instr]];
	if (last && last->index == index) return last;
	for (int i = 0; last && i < m->nmaps; i++)
		if (m->maps[i].instr == instr && m->maps[i].index == index) return &m->maps[m->map_at[instr] = i];
	m->maps = xrealloc(m->maps, size_mul((size_t)m->nmaps + 1, sizeof *m->maps));
	m->map_at[instr] = m->nmaps;
	struct missed_map *map = &m->maps[m->nmaps++];
	const struct vm_buffer *b = vm_buffer_at(c->memory, index);
	*map = (struct missed_map){.instr = instr, .index = index, .shift = __builtin_ctzll(size)};
	if (!b || !b->followed) return map;
	map->buffer = b;
	map->n = b->bytes >> map->shift;
	if ((size_t)map->n > MAPS_BYTES_MAX - m->bytes) return map;
	m->bytes += (size_t)map->n;
	/* Lots follow the data, which no candidate knows. */
	uint64_t bits = 0;
	memcpy(&bits, b->data + b->bytes / 2, (size_t)MIN(b->bytes - b->bytes / 2, (int64_t)sizeof bits));
	m->lots ^= bits;
	map->is_read = xcalloc((size_t)map->n + 1, 1);
	return map;
}

/* A value's elements, or its one with step 0; NULL after a fault. */
static const void *lanes_of(
	struct vm_ctx *c, const struct vm_instr *in, struct vm_value *v, int value, int64_t n, int64_t *step)
{
	*step = v->form != FORM_SPLAT;
	return *step ? vm_dense(c, in, value, n) : v->splat;
}

void vm_missed_load(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n, size_t size)
{
	struct vm_missed *m = c->missed;
	int instr = (int)(in - c->program->instrs), pointer = vm_src(c, in, 0);
	int64_t step, mask_step = 0;
	const int64_t *address = lanes_of(c, in, &c->values[pointer], pointer, n, &step);
	const uint8_t *on = mask < 0 ? NULL : lanes_of(c, in, &c->values[mask], mask, n, &mask_step);
	if (!address || (mask >= 0 && !on)) return;
	struct missed_map *map = NULL;
	for (int64_t i = 0; i < n; i++) {
		if (on && !on[i * mask_step]) continue;
		uint64_t a = (uint64_t)address[i * step];
		if (!map || a >> TAPE_ADDRESS_SHIFT != map->index) map = map_of(c, instr, a, size);
		int64_t at = (int64_t)(a & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1)) >> map->shift;
		if (map->is_read && at < map->n) map->is_read[at] = 1;
		else if (at < map->n) memset(map->buffer->followed->is_read + (at << map->shift), 1, size);
		if (!step) break;
	}
	if (!m->is_kept[instr]) return;
	vm_value_share(c, &m->kept[2 * instr], &c->values[pointer]);
	if (mask >= 0) vm_value_share(c, &m->kept[2 * instr + 1], &c->values[mask]);
}

/* ---- back to a load ---- */

struct trail {
	struct vm_ctx *c;
	int steps; /* left */
	struct vm_missed_at found;
};

static uint64_t lot(struct vm_missed *m)
{
	m->lots = m->lots * 6364136223846793005u + 1442695040888963407u;
	return m->lots >> 33;
}

/* An element of a kept value; its form may be any. */
static int64_t kept_at(const struct vm_value *v, const struct vm_value_info *info, int64_t lane)
{
	if (v->form == FORM_SPLAT) return info->elem == ELEM_I1 ? v->splat[0] : v->splat_int;
	if (v->form == FORM_DENSE) return vm_int_at(info->elem == ELEM_PTR ? ELEM_I64 : info->elem, v->buf->data, lane);
	int64_t sum = v->form == FORM_AFFINE ? v->affine.base : 1;
	for (int d = info->ndim - 1; d >= 0; d--) {
		int64_t at = lane % info->shape[d];
		lane /= info->shape[d];
		if (v->form == FORM_AFFINE) sum += at * v->affine.stride[d];
		else sum &= at >= v->box.lo[d] && at < v->box.hi[d];
	}
	return sum;
}

static bool load_lead(struct trail *t, const struct vm_instr *in, int64_t lane)
{
	const struct vm_missed *m = t->c->missed;
	const struct vm_program *p = m->p;
	const struct vm_value *kept = &m->kept[2 * (in - p->instrs)];
	int pointer = src_id(p, in, 0);
	if (in->nsrc > 1 && !kept_at(&kept[1], &p->values[src_id(p, in, 1)], lane)) return false;
	uint64_t address = (uint64_t)kept_at(&kept[0], &p->values[pointer], lane);
	const struct vm_buffer *b = vm_buffer_at(t->c->memory, address >> TAPE_ADDRESS_SHIFT);
	int64_t offset = (int64_t)(address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
	if (!b || !b->followed || offset >= b->bytes) return false;
	const struct vm_followed *f = b->followed;
	t->found = f->made_of ? f->made_of[offset]
						  : (struct vm_missed_at){.name = f->name + (uint64_t)offset,
								.size = (int)elem_bytes((enum elem)in->result_elem)};
	t->found.line = p->locs[in->loc].line;
	return t->found.size != 0;
}

/* A lane of the result as one of the first operand. order: of dimensions that changed places. */
static int64_t lane_strided(
	const struct vm_value_info *from, const struct vm_value_info *to, const int32_t *order, int64_t lane)
{
	int64_t at[TTIR_DIMS_MAX] = {0}, out = 0;
	for (int d = to->ndim - 1; d >= 0; d--) {
		at[order ? order[d] : d] = lane % to->shape[d];
		lane /= to->shape[d];
	}
	for (int d = 0; d < from->ndim; d++) out = out * from->shape[d] + (from->shape[d] == 1 ? 0 : at[d]);
	return out;
}

static bool lead(struct trail *t, int value, int64_t lane);

static bool reduce_lead(struct trail *t, const struct vm_instr *in, int64_t lane)
{
	const struct region_shape *s = in->extra;
	for (int i = 0; i < REDUCED_LOTS; i++) {
		int64_t j = (int64_t)(lot(t->c->missed) % (uint64_t)s->len);
		if (lead(t, src_id(t->c->missed->p, in, 0), (lane / s->inner * s->len + j) * s->inner + lane % s->inner))
			return true;
	}
	return false;
}

/* An element of a row or of a column. */
static bool dot_lead(struct trail *t, const struct vm_instr *in, int64_t lane)
{
	const struct vm_program *p = t->c->missed->p;
	int64_t m = in->imm[1], n = in->imm[2], k = in->imm[3];
	int64_t batch = lane / (m * n), row = lane / n % m, column = lane % n;
	int64_t at = (int64_t)(lot(t->c->missed) % (uint64_t)k);
	return lot(t->c->missed) & 1 ? lead(t, src_id(p, in, 0), (batch * m + row) * k + at)
								 : lead(t, src_id(p, in, 1), (batch * k + at) * n + column);
}

/* Follows one lane back; true where a load is found whose lane was read. */
static bool lead(struct trail *t, int value, int64_t lane)
{
	const struct vm_missed *m = t->c->missed;
	const struct vm_program *p = m->p;
	const struct vm_instr *in = m->maker[value] < 0 ? NULL : &p->instrs[m->maker[value]];
	if (!in || !m->is_data[value] || t->steps-- <= 0) return false;
	const struct vm_value_info *to = &p->values[value];
	const struct vm_value_info *from = in->nsrc ? &p->values[src_id(p, in, 0)] : NULL;
	int d = 0;
	while (d < in->ndst && dst_id(p, in, d) != value) d++;
	switch (in->op) {
	case OP_LOAD: return load_lead(t, in, lane);
	case OP_REDUCE: return reduce_lead(t, in, lane);
	case OP_DOT: return dot_lead(t, in, lane);
	case OP_MOVE: return lead(t, src_id(p, in, d), lane);
	case OP_RESHAPE:
	case OP_BITCAST: return lead(t, src_id(p, in, 0), lane);
	case OP_SPLAT:
	case OP_UNSPLAT: return lead(t, src_id(p, in, 0), 0);
	case OP_BROADCAST: return lead(t, src_id(p, in, 0), lane_strided(from, to, NULL, lane));
	case OP_TRANS: return lead(t, src_id(p, in, 0), lane_strided(from, to, in->extra, lane));
	case OP_MAP:
	case OP_DIVIDE:
	case OP_SELECT:
	case OP_SCAN:
		/* What was added last stands last, mostly: a sum before it would lead round its loop. */
		for (int s = in->nsrc - 1; s >= 0; s--)
			if (lead(t, src_id(p, in, s), lane)) return true;
		return false;
	default: return false;
	}
}

/* ---- joins ---- */

static void pick(struct vm_missed *m, struct missed_pick *to, const struct vm_missed_at *at)
{
	for (int i = 0; i < to->n; i++)
		if (to->at[i].name == at->name) return;
	int64_t place = to->n < PICKS ? to->n++ : (int64_t)(lot(m) % (uint64_t)(to->met + 1));
	to->met++;
	if (place < PICKS) to->at[place] = *at;
}

/* One lane of all data that meets at a join. */
static void pick_lane(struct vm_ctx *c, const struct missed_join *j, int64_t lane, struct missed_pick *to)
{
	const struct vm_program *p = c->missed->p;
	for (int u = 0; u < j->nuses; u++) {
		struct trail t = {.c = c, .steps = STEPS_MAX};
		int64_t count = p->values[j->uses[u]].count;
		if (lead(&t, j->uses[u], count > 1 ? lane % count : 0)) pick(c->missed, to, &t.found);
	}
}

/* A scalar, or a block of one number: one lane of the side that it stands for. */
static void scalar_look(struct vm_ctx *c, const struct vm_instr *in, struct missed_join *j, int s)
{
	uint64_t bits = 0;
	int value = vm_src(c, in, s), side = 0;
	memcpy(&bits, c->values[value].splat, elem_bytes(c->program->values[value].elem));
	while (side < MIN(j->nvalues[s], 2) && j->values[s][side] != bits) side++;
	if (side == j->nvalues[s] || j->nvalues[s] > 2) j->nvalues[s] = MIN(j->nvalues[s] + 1, 3);
	if (j->nvalues[s] > 2) return;
	j->values[s][side] = bits;
	j->met[s][side]++;
	int64_t lanes = 1;
	for (int u = 0; u < j->nuses; u++) lanes = MAX(lanes, c->program->values[j->uses[u]].count);
	pick_lane(c, j, (int64_t)(lot(c->missed) % (uint64_t)lanes), &j->sides[s][side]);
}

/* The value of more than half of n elements (Boyer and Moore 1991); -1: there is none. */
static int64_t majority(const uint8_t *d, size_t size, int64_t n)
{
	int64_t at = 0, votes = 0, count = 0;
	for (int64_t i = 0; i < n; i++) {
		if (!votes) at = i;
		votes += !votes || !memcmp(d + (size_t)i * size, d + (size_t)at * size, size) ? 1 : -1;
	}
	for (int64_t i = 0; i < n; i++) count += !memcmp(d + (size_t)i * size, d + (size_t)at * size, size);
	return 2 * count > n ? at : -1;
}

static void block_look(struct vm_ctx *c, const struct vm_instr *in, struct missed_join *j, int s)
{
	int value = vm_src(c, in, s);
	size_t size = elem_bytes(c->program->values[value].elem);
	const uint8_t *d = vm_dense(c, in, value, in->n);
	int64_t most = d ? majority(d, size, in->n) : -1, seen[2] = {0};
	for (int64_t i = 0; i < in->n && most >= 0; i++) {
		const uint8_t *own = d + (size_t)i * size;
		if (!memcmp(own, d + (size_t)most * size, size)) continue;
		bool is_alone = (i == 0 || memcmp(own - size, own, size)) && (i + 1 == in->n || memcmp(own + size, own, size));
		if (seen[is_alone]++ < SEEN_MAX) pick_lane(c, j, i, is_alone ? &j->alone : &j->few);
	}
}

/* Once: what is no data is the same in all programs, or comes of indices. */
static void sum_look(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_missed *m = c->missed;
	m->is_sum[in - m->p->instrs] = false;
	for (int s = 0; s < in->nsrc; s++) {
		int value = vm_src(c, in, s);
		if (m->is_data[value] || c->values[value].form != FORM_SPLAT) continue;
		double x = fabs(vm_float_of((enum elem)in->elem, c->values[value].splat));
		bool is_new = x > 0 && x <= SMALL && m->nsmall < VM_SMALL_MAX;
		for (int i = 0; i < m->nsmall; i++) is_new &= m->small[i] != x;
		if (is_new) m->small[m->nsmall++] = x;
	}
}

void vm_missed_step(struct vm_ctx *c, const struct vm_instr *in)
{
	struct vm_missed *m = c->missed;
	int32_t at = m->join_of[in - m->p->instrs];
	if (m->is_sum[in - m->p->instrs]) sum_look(c, in);
	if (at < 0) return;
	struct missed_join *j = &m->joins[at];
	for (int s = 0; s < in->nsrc; s++) {
		int value = vm_src(c, in, s);
		enum form form = c->values[value].form;
		if (!(j->by >> s & 1) || form == FORM_AFFINE) continue;
		if (form == FORM_BOX && vm_box_is_full(&c->values[value].box, &m->p->values[value])) continue;
		if (form == FORM_SPLAT) scalar_look(c, in, j, s);
		else block_look(c, in, j, s);
	}
}

/* ---- stores into what launches share ---- */

void vm_missed_store(struct vm_ctx *c, const struct vm_instr *in, int mask, int64_t n)
{
	struct vm_missed *m = c->missed;
	if (!m->keeps_made) return;
	int pointer = vm_src(c, in, 0);
	int64_t step, mask_step = 0;
	const int64_t *address = lanes_of(c, in, &c->values[pointer], pointer, n, &step);
	const uint8_t *on = mask < 0 ? NULL : lanes_of(c, in, &c->values[mask], mask, n, &mask_step);
	if (!address || (mask >= 0 && !on)) return;
	for (int64_t i = 0; i < n; i++) {
		if (on && !on[i * mask_step]) continue;
		uint64_t a = (uint64_t)address[i * step];
		const struct vm_buffer *b = vm_buffer_at(c->memory, a >> TAPE_ADDRESS_SHIFT);
		int64_t offset = (int64_t)(a & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
		if (!b || !b->followed || !b->followed->made_of) return;
		struct trail t = {.c = c, .steps = STEPS_MAX};
		if (offset < b->bytes && lead(&t, vm_src(c, in, 1), i)) b->followed->made_of[offset] = t.found;
	}
}

/* ---- what the launch missed ---- */

static void list_add(struct vm_missed *m, struct vm_missed_at at)
{
	if (!at.size) return;
	for (int i = 0; i < m->nlist; i++)
		if (m->list[i].name == at.name) return;
	m->list = xrealloc(m->list, size_mul((size_t)m->nlist + 1, sizeof *m->list));
	m->list[m->nlist++] = at;
}

static void picks_add(struct vm_missed *m, const struct missed_pick *from)
{
	for (int i = 0; i < from->n; i++) list_add(m, from->at[i]);
}

struct vm_missed_at vm_followed_at(const struct vm_followed *f, int64_t offset, int size, int line)
{
	struct vm_missed_at at = {.name = f->name + (uint64_t)offset, .size = size};
	if (f->made_of) at = f->made_of[offset];
	at.line = line;
	return at;
}

/* What one load read goes to the buffer's account; where it read nearly all, the rest is missed. */
static void map_end(struct vm_missed *m, const struct missed_map *map)
{
	if (!map->buffer) return;
	struct vm_followed *f = map->buffer->followed;
	int line = m->p->locs[m->p->instrs[map->instr].loc].line;
	int64_t size = (int64_t)1 << map->shift, read = 0;
	for (int64_t i = 0; i < map->n && map->is_read; i++) {
		read += map->is_read[i];
		if (map->is_read[i]) memset(f->is_read + i * size, 1, (size_t)size);
	}
	f->line = line;
	f->size = f->size ? MIN(f->size, (int)size) : (int)size;
	if (read == map->n || !NEARLY(read, map->n)) return;
	int64_t left = map->n - read, stride = (left + PICKS - 1) / PICKS, at = (int64_t)(lot(m) % (uint64_t)stride);
	for (int64_t i = 0; i < map->n; i++)
		if (!map->is_read[i] && at++ % stride == 0) list_add(m, vm_followed_at(f, i * size, (int)size, line));
}

void vm_missed_end(struct vm_missed *m)
{
	for (int i = 0; i < m->njoins; i++) picks_add(m, &m->joins[i].alone);
	for (int i = 0; i < m->nmaps; i++) map_end(m, &m->maps[i]);
	for (int i = 0; i < m->njoins; i++) {
		const struct missed_join *j = &m->joins[i];
		for (int s = 0; s < JOIN_SOURCES; s++)
			for (int side = 0; side < 2 && j->nvalues[s] == 2; side++)
				if (j->met[s][side] <= j->met[s][1 - side]) picks_add(m, &j->sides[s][side]);
		picks_add(m, &j->few);
	}
}

int vm_missed_small(const struct vm_missed *m, const double **out)
{
	*out = m->small;
	return m->nsmall;
}

int vm_missed_list(const struct vm_missed *m, const struct vm_missed_at **out)
{
	*out = m->list;
	return m->nlist;
}
