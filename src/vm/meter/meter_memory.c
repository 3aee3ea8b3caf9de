/* Counting memory traffic for the cost model: only called when a launch asks for it. meter.c
 * counts instructions and the path of dependent ones. */
#include "vm/meter/meter.h"
#include "base/base.h"
#include "cost/cost.h"
#include "cost/cost_layout.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include <math.h>
#include <stdlib.h>

#define SECTOR_BYTES 32
#define LINE_SECTORS 4
#define VECTOR_BYTES_MAX 16
#define LANES 32
#define ADDRESS_MASK (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1)

struct vm_cost *vm_cost_row(struct vm_ctx *c, const struct vm_instr *in) { return &c->cost[in->line_row]; }

void vm_cost_map(struct vm_ctx *c, const struct vm_instr *in, int64_t n)
{
	struct vm_cost *cost = vm_cost_row(c, in);
	cost->flops += in->flops * n;
	cost->special += in->special * n;
}

/* ---- L1: four ways, least recently filled goes ---- */

#define L1_WAYS 4
static bool l1_holds(struct vm_meter *m, int64_t sector)
{
	uint64_t set = ((uint64_t)sector * 0x9e3779b97f4a7c15u) >> 32 & (m->l1_sets - 1);
	struct l1_entry *way = m->l1 + set * L1_WAYS;
	for (int i = 0; i < L1_WAYS; i++)
		if (way[i].sector == sector && way[i].program == m->program) return true;
	for (int i = L1_WAYS - 1; i > 0; i--) way[i] = way[i - 1];
	way[0] = (struct l1_entry){sector, m->program};
	return false;
}

/* ---- one instruction of one warp ---- */

struct touched {           /* by one instruction of one warp */
	int64_t sector[LANES]; /* (count) all different */
	int64_t top;           /* the largest of them */
	int count;
	int lines; /* of LINE_SECTORS, that they lie in */
};

/* Of the sectors only the first `count` are looked at: setting all to zero
 * took as long as the rest. */
static void touched_begin(struct touched *t) { t->top = t->count = t->lines = 0; }

static void touch(struct touched *t, int64_t sector)
{
	bool is_new_line = true;
	/* Lanes mostly read upwards: what is above all before it was not there, and is in no
	 * line but the highest. */
	if (t->count == 0 || sector > t->top) {
		t->lines += t->count == 0 || t->top / LINE_SECTORS != sector / LINE_SECTORS;
		t->sector[t->count++] = t->top = sector;
		return;
	}
	for (int k = t->count - 1; k >= 0; k--) {
		if (t->sector[k] == sector) return;
		is_new_line &= t->sector[k] / LINE_SECTORS != sector / LINE_SECTORS;
	}
	t->sector[t->count++] = sector;
	t->lines += is_new_line;
}

struct access {
	const int64_t *address; /* (n) */
	const uint8_t *mask;    /* (n); NULL: all */
	int64_t n;              /* elements */
	size_t size;            /* of an element, in bytes */
	bool is_store;
	bool is_cached; /* L1 may keep it */
	bool is_beyond; /* it looks beyond L1, whatever is there */
	struct vm_cost *cost;
};

/* Copies: warps that issue the same instruction on the same elements. Returns whether something was
 * not in L1. */
static bool count_touched(struct vm_meter *m, const struct access *a, const struct touched *t, int copies)
{
	bool missed = false;
	if (!t->count) return false;
	a->cost->requests += copies;
	/* What the launch's line counts, its program counts by itself, too. */
	*(a->is_store ? &a->cost->store_lines : &a->cost->load_lines) += (int64_t)copies * t->lines;
	*(a->is_store ? &m->own.store_lines : &m->own.load_lines) += (int64_t)copies * t->lines;
	if (a->is_store) {
		a->cost->store_sectors += t->count;
		a->cost->l2_sectors += t->count;
		m->own.l2_sectors += t->count;
		return false;
	}
	a->cost->load_sectors += (int64_t)copies * t->count;
	struct touched from_l2;
	touched_begin(&from_l2);
	for (int i = 0; i < t->count; i++) {
		if (a->is_cached && l1_holds(m, t->sector[i])) continue;
		missed = true;
		touch(&from_l2, t->sector[i]);
		a->cost->l2_sectors++;
		m->own.l2_sectors++;
		uint64_t index = (uint64_t)t->sector[i] * SECTOR_BYTES >> TAPE_ADDRESS_SHIFT;
		if (index <= m->plans->memory->index_max && !a->is_beyond) m->l2_loads[index]++;
	}
	a->cost->missed_lines += from_l2.lines;
	m->own.missed_lines += from_l2.lines;
	return missed;
}

/* How many low register bits one instruction of a lane covers: neighbours in memory, aligned, at
 * most 16 bytes. Looks at the first instruction's lanes. */
static int vector_bits(const struct cost_lanes *l, const struct access *a)
{
	int bits = 0;
	for (; bits < l->nreg && a->size << (bits + 1) <= VECTOR_BYTES_MAX; bits++)
		for (int i = 0; i < LANES; i++) {
			uint64_t first = (uint64_t)a->address[l->lane[i]],
					 next = (uint64_t)a->address[l->lane[i] ^ l->reg[bits]]; /* of lanes that are off: anything */
			if (next - first != a->size << bits || first % (a->size << (bits + 1))) return bits;
		}
	return bits;
}

static bool any_active(const struct cost_lanes *l, const uint8_t *mask, int32_t at, int vector)
{
	if (!mask) return true;
	for (int v = 0; v < 1 << vector; v++) {
		int32_t e = at;
		for (int b = 0; b < vector; b++) e ^= v >> b & 1 ? l->reg[b] : 0;
		if (mask[e]) return true;
	}
	return false;
}

static bool count_block(struct vm_meter *m, const struct cost_lanes *l, const struct access *a)
{
	int vector = vector_bits(l, a);
	bool missed = false;
	for (int64_t w = 0; w < (int64_t)1 << l->nwarp; w++)
		for (int64_t r = 0; r < (int64_t)1 << (l->nreg - vector); r++) {
			struct touched t;
			int32_t base = 0;
			touched_begin(&t);
			for (int b = 0; b < l->nwarp; b++) base ^= w >> b & 1 ? l->warp[b] : 0;
			for (int b = vector; b < l->nreg; b++) base ^= r >> (b - vector) & 1 ? l->reg[b] : 0;
			for (int i = 0; i < LANES; i++)
				if (any_active(l, a->mask, base ^ l->lane[i], vector))
					touch(&t, a->address[base ^ l->lane[i]] / SECTOR_BYTES);
			missed |= count_touched(m, a, &t, a->is_store ? 1 : l->warp_copies);
		}
	return missed;
}

/* No layout: groups of 32 neighbours, as scalars and odd shapes are. */
static bool count_rows(struct vm_meter *m, const struct access *a)
{
	bool missed = false;
	for (int64_t at = 0; at < a->n; at += LANES) {
		struct touched t;
		touched_begin(&t);
		for (int64_t i = at; i < MIN(at + LANES, a->n); i++)
			if (!a->mask || a->mask[i]) touch(&t, a->address[i] / SECTOR_BYTES);
		missed |= count_touched(m, a, &t, a->n == 1 && !a->is_store ? m->plans->warps : 1);
	}
	return missed;
}

/* The buffer an address lies in; NULL for a host pointer, and for an element out of bounds that was
 * passed over. Both are counted, but in no footprint. */
static const struct vm_buffer *buffer_of(const struct vm_memory *memory, int64_t address)
{
	uint64_t index = (uint64_t)address >> TAPE_ADDRESS_SHIFT;
	const struct vm_buffer *b = vm_buffer_at(memory, index);
	return b && (int64_t)((uint64_t)address & ADDRESS_MASK) < b->bytes ? b : NULL;
}

/* One granule of a sampled program. */
static void touch_own(struct vm_touched *t, int is_store, uint64_t index, int64_t granule, uint8_t *byte)
{
	t->low[is_store][index] = MIN(t->low[is_store][index], granule);
	t->high[is_store][index] = MAX(t->high[is_store][index], granule);
	if (*byte == t->program) return;
	*byte = t->program;
	t->own[is_store][index]++;
}

/* The ends of what the lanes use. */
static void use_range(
	const struct vm_ctx *c, const int64_t *address, const uint8_t *mask, int64_t n, size_t size, bool is_store)
{
	for (int64_t i = 0; i < n; i++) {
		const struct vm_buffer *b = mask && !mask[i] ? NULL : buffer_of(c->memory, address[i]);
		int64_t at = (int64_t)((uint64_t)address[i] & ADDRESS_MASK);
		if (!b) continue;
		b->used[is_store].from = MIN(b->used[is_store].from, at);
		b->used[is_store].to = MAX(b->used[is_store].to, at + (int64_t)size);
	}
}

/* Lanes that one instruction joins lie side by side, from an aligned address on, and one mask
 * stands for them. The compiler joins by what it was told (tl.multiple_of, tl.max_contiguous,
 * tl.max_constancy), and a false word is no error as long as nothing is joined by it. */
static int check_joined(struct vm_ctx *c, const struct vm_instr *in, const struct cost_plan *plan,
	const int64_t *address, const uint8_t *mask, int64_t n, size_t size)
{
	const struct cost_lanes *l = plan->lanes;
	int bits = 0;
	int32_t within = 0;
	while (bits < l->nreg && size << (bits + 1) <= (size_t)plan->joined) within |= l->reg[bits++];
	for (int64_t e = 0; e < n; e++) {
		/* The group's first lane has none of the low register bits, and this one's place is which
		 * it has. */
		int64_t first = e & ~(int64_t)within, place = 0;
		for (int b = 0; b < bits; b++) place |= e & l->reg[b] ? (int64_t)1 << b : 0;
		if (mask && !mask[e] != !mask[first])
			return vm_fault(c, in, VM_FAULT_MISALIGNED, e,
				"the compiled code joins %d elements of %zu bytes into one access here, as tl.max_constancy promises; "
				"their masks are not the same",
				1 << bits, size);
		if (mask && !mask[e]) continue;
		bool is_aligned = address[first] % ((int64_t)size << bits) == 0;
		if (is_aligned && address[e] - address[first] == place * (int64_t)size) continue;
		return vm_fault(c, in, VM_FAULT_MISALIGNED, e,
			"the compiled code joins %d elements of %zu bytes into one access here, as tl.multiple_of or "
			"tl.max_contiguous promise; %s",
			1 << bits, size, is_aligned ? "they do not lie side by side" : "the first is not aligned for that");
	}
	return 0;
}

int vm_cost_access(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n,
	size_t size, bool is_store)
{
	const struct cost_plan *plan = vm_cost_plan(c, in);
	struct vm_meter *m = c->meter;
	/* Volatile loads and atomics are L2's, and so are loads that say so. */
	bool is_beyond = plan->kind == PLAN_ATOMIC ||
		(in->op == OP_LOAD && (in->imm[3] & (ORDER_VOLATILE | ORDER_UNCACHED)));
	struct access a = {address, mask, n, size, is_store, !plan->is_async && !is_beyond, is_beyond, vm_cost_row(c, in)};
	int64_t before = a.cost->requests, active = 0;
	m->missed |= plan->lanes ? count_block(m, plan->lanes, &a) : count_rows(m, &a);
	m->requests += a.cost->requests - before;
	if (c->memory->nbuffers && c->memory->buffers[0].used) use_range(c, address, mask, n, size, is_store);
	uint8_t *const *map = is_store ? c->write_map : c->read_map;
	uint64_t noted = UINT64_MAX; /* the granule of the element before: neighbours share one */
	for (int64_t i = 0; i < n; i++) {
		if (mask && !mask[i]) continue;
		active++;
		if ((uint64_t)address[i] / SECTOR_BYTES == noted || !buffer_of(c->memory, address[i])) continue;
		noted = (uint64_t)address[i] / SECTOR_BYTES;
		uint64_t index = (uint64_t)address[i] >> TAPE_ADDRESS_SHIFT,
				 at = ((uint64_t)address[i] & ADDRESS_MASK) / SECTOR_BYTES;
		if (m->touched) touch_own(m->touched, is_store, index, (int64_t)at, &map[index][at]);
		else __atomic_store_n(&map[index][at], 1, __ATOMIC_RELAXED); /* other threads' programs touch it too */
	}
	*(is_store ? &a.cost->store_bytes : &a.cost->load_bytes) += active * (int64_t)size;
	return plan->joined > (int)size && plan->lanes ? check_joined(c, in, plan, address, mask, n, size) : 0;
}

/* A bank gives one word of 4 bytes a turn, to all lanes that want that one. */
#define BANKS 32
void vm_cost_banks(struct vm_ctx *c, const int64_t *bytes, int n, size_t size)
{
	int64_t words[3 * LANES];
	int turns[BANKS] = {0}, count = 0, most = 0;
	for (int i = 0; i < n; i++)
		for (int64_t w = bytes[i] / 4; w <= (bytes[i] + (int64_t)size - 1) / 4; w++) {
			bool is_new = true;
			for (int k = 0; k < count && is_new; k++) is_new = words[k] != w;
			if (!is_new) continue;
			words[count++] = w;
			turns[w % BANKS]++;
			most = MAX(most, turns[w % BANKS]);
		}
	c->meter->bank_turns += most;
}

/* ---- atomics ---- */

/* Of the time that an operation of L2 takes for a warp's neighbours in 32 bytes (5 ns, cost_gpu.c),
 * as an H200 took them where lanes meet (docs/cost-model.md): each lane on one address, and each of
 * the warp where lanes are operations by themselves. */
#define SAME_ADDRESS_SHARE 0.35
#define LANE_SHARE 0.075
#define LANE_SHARE_DOUBLE 0.116

struct warp_atomics {
	int64_t address[LANES]; /* (count) of lanes that take part */
	int count;
	bool is_apart;  /* integers and doubles: where lanes meet, each is an operation by itself */
	bool is_joined; /* integers: lanes on one address do not wait for each other */
	bool is_double;
};

/* Operations of L2, one behind the other, that a warp's lanes are in the 32
 * bytes of one of them. */
static uint32_t warp_turns(const struct warp_atomics *w, int64_t address)
{
	int most = 1;
	for (int i = 0; i < w->count; i++) {
		if (w->address[i] / SECTOR_BYTES != address / SECTOR_BYTES) continue;
		int same = 0;
		for (int k = 0; k < w->count; k++) same += w->address[k] == w->address[i];
		most = MAX(most, same);
	}
	/* Integers on one address are made one before they leave the SM. */
	if (most == 1 || (w->is_joined && most == w->count)) return 1;
	double same = w->is_joined ? 1 : SAME_ADDRESS_SHARE * most,
		   apart = w->is_apart ? w->count * (w->is_double ? LANE_SHARE_DOUBLE : LANE_SHARE) : 1;
	return (uint32_t)ceil(fmax(same, apart));
}

/* One warp's: each granule that it touches has so many more. */
static void warp_count(struct vm_cost_plans *plans, const struct vm_memory *memory, const struct warp_atomics *w)
{
	struct touched granules;
	touched_begin(&granules);
	for (int i = 0; i < w->count; i++) {
		uint64_t index = (uint64_t)w->address[i] >> TAPE_ADDRESS_SHIFT,
				 granule = ((uint64_t)w->address[i] & ADDRESS_MASK) / SECTOR_BYTES;
		int before = granules.count;
		touch(&granules, w->address[i] / SECTOR_BYTES);
		if (granules.count == before || !buffer_of(memory, w->address[i])) continue;
		if (!plans->atomics[index])
			plans->atomics[index] = xcalloc(
				(size_t)plans->memory->by_index[index]->bytes / SECTOR_BYTES + 1, sizeof **plans->atomics);
		uint32_t *count = &plans->atomics[index][granule], turns = warp_turns(w, w->address[i]);
		*count = *count > UINT32_MAX - turns ? UINT32_MAX : *count + turns;
		plans->atomic_hits[index] += turns;
		plans->atomic_hottest[index] = MAX(plans->atomic_hottest[index], (int64_t)*count);
		plans->atomic_hot = MAX(plans->atomic_hot, (int64_t)*count);
	}
}

/* Neighbours that one thread holds: as many as 16 bytes have, where addresses go up in such steps
 * and there are enough for all threads. A warp's lanes are apart by so many then. */
static int held_together(const int64_t *address, int64_t n, int64_t size, int64_t threads)
{
	int64_t most = MIN(VECTOR_BYTES_MAX / size, n / threads), held = 1;
	while (2 * held <= most) {
		for (int64_t i = 0; i < n; i++)
			if (i % (2 * held) && address[i] != address[i - 1] + size) return (int)held;
		held *= 2;
	}
	return (int)held;
}

/* Called on one thread: a launch with atomics runs its programs in order. */
void vm_cost_atomic(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n)
{
	enum elem e = (enum elem)in->result_elem;
	int64_t size = (int64_t)elem_bytes(e), threads = (int64_t)LANES * MAX(c->meter->plans->warps, 1);
	bool is_float = e == ELEM_F32 || e == ELEM_F64 || size == 2;
	int held = held_together(address, n, size, threads);
	struct warp_atomics w = {
		.is_apart = size == 8 || !is_float, .is_joined = !is_float && in->op == OP_ATOMIC_RMW, .is_double = size == 8};
	for (int64_t i = 0; i < n; i++)
		if (!mask || mask[i]) {
			vm_cost_row(c, in)->atomics++;
			c->meter->own.atomics++;
		}
	/* Floats that a thread holds together are one operation of its lane, others one each. */
	int times = w.is_apart ? held : 1;
	for (int64_t first = 0; first < n; first += (int64_t)held * LANES)
		for (int k = 0; k < times; k++) {
			w.count = 0;
			for (int64_t i = first + k; i < MIN(first + (int64_t)held * LANES, n); i += held)
				if (!mask || mask[i]) w.address[w.count++] = address[i];
			warp_count(c->meter->plans, c->memory, &w);
		}
}
