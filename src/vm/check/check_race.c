/* Shadow memory: for each cell of a buffer that the kernel writes, the last write and a read since.
 * Two accesses of different programs to one cell, one of them a write, not both atomic, and neither
 * ordered before the other by atomics (check_order.c), are a race: the GPU may run them in any
 * order.
 *
 * Programs run one after another, so whoever touched a cell before the running program is in the
 * cell. The first reader is kept; others leave a flag. A cell is as large as the smallest element
 * that was used in its buffer, so that neighbours of 2 bytes never look like one place. */
#include "vm/check/check.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include <stdlib.h>

/* ---- life ---- */

void vm_race_create(struct vm_check *k, const struct vm_kernel *kernel, const struct vm_program *p,
	const struct vm_launch_options *o, const struct vm_memory *m)
{
	k->is_tracked = xcalloc((size_t)m->index_max + 1, sizeof *k->is_tracked);
	k->shadows = xcalloc((size_t)m->index_max + 1, sizeof *k->shadows);
	k->record_of = xcalloc((size_t)p->ninstrs + 1, sizeof *k->record_of);
	k->spreads = xcalloc((size_t)p->ninstrs + 1, sizeof *k->spreads);
	/* Which buffers some store may reach: the others need no shadow. */
	bool writes_anywhere = p->plan.writes_anywhere || kernel->nargs > TAPE_ARGS_MAX;
	for (int i = 0; i < MIN(kernel->nargs, TAPE_ARGS_MAX); i++) {
		uint64_t index = (uint64_t)o->args[i].i >> TAPE_ADDRESS_SHIFT;
		if (!(p->plan.written[i / 64] >> (i % 64) & 1)) continue;
		if (!vm_arg_is_pointer(kernel, i)) writes_anywhere = true; /* an address that came as a number */
		else if (index <= m->index_max) k->is_tracked[index] = true;
	}
	for (uint64_t b = 0; b <= m->index_max && writes_anywhere; b++) k->is_tracked[b] = true;
	k->first = k->nrecords = 1; /* record 0: nobody */
	k->threads = (int64_t)32 * (o->num_warps > 0 ? o->num_warps : 4) * MAX(o->num_ctas, 1);
	k->is_cluster = o->num_ctas > 1;
	k->loop = (struct check_loop){0};
	bool has_room = k->programs <= CHECK_ORDER_PROGRAMS_MAX;
	k->order.is_on = p->plan.has_acquire && has_room;
	if (k->order.is_on) k->order.known = xcalloc((size_t)k->programs + 1, sizeof *k->order.known);
	if ((p->plan.has_acquire && !has_room) || k->programs >= (int64_t)UINT32_MAX) {
		k->is_incomplete = true;
		k->incomplete_why = "too many programs";
	}
}

void vm_race_free(struct vm_check *k, const struct vm_memory *m)
{
	for (uint64_t b = 0; k->shadows && b <= m->index_max; b++) free(k->shadows[b].groups);
	for (int i = 0; i < k->nslabs; i++) free(k->slabs[i]);
	free(k->slabs);
	free(k->shadows);
	free(k->is_tracked);
	free(k->records);
	free(k->record_of);
	free(k->lane_of);
	free(k->spreads);
	free(k->order.nodes);
	free(k->order.mark);
	free(k->order.places);
	free(k->order.known);
}

/* ---- cells ---- */

/* Eight at a time: filling and comparing cells is most of what checking costs. */
typedef uint32_t cells8 __attribute__((vector_size(32), aligned(4), may_alias));

static void fill(uint32_t *x, uint32_t value, int n)
{
	int i = 0;
	cells8 value8 = value - (cells8){0};
	for (; i + 8 <= n; i += 8) *(cells8 *)(x + i) = value8;
	for (; i < n; i++) x[i] = value;
}

static bool take_bytes(struct vm_check *k, size_t bytes)
{
	if (bytes > VM_SHADOW_BYTES_MAX - k->shadow_bytes) return false;
	k->shadow_bytes += bytes;
	return true;
}

static struct check_group *groups_new(struct vm_check *k, int64_t bytes, int shift)
{
	int64_t groups = (bytes >> shift) / CHECK_GROUP + 1;
	return take_bytes(k, (size_t)groups * sizeof(struct check_group))
		? calloc((size_t)groups, sizeof(struct check_group))
		: NULL;
}

static struct check_cells *cells_new(struct vm_check *k)
{
	if (k->ncells == (int64_t)k->nslabs * CHECK_SLAB) {
		size_t bytes = CHECK_SLAB * sizeof(struct check_cells);
		struct check_cells *slab = take_bytes(k, bytes) ? malloc(bytes) : NULL;
		if (!slab) return NULL;
		k->slabs = xrealloc(k->slabs, ((size_t)k->nslabs + 1) * sizeof *k->slabs);
		k->slabs[k->nslabs++] = slab;
	}
	int64_t at = k->ncells++;
	return &k->slabs[at / CHECK_SLAB][at % CHECK_SLAB];
}

static bool no_room(struct vm_check *k, struct check_shadow *s)
{
	s->is_full = true;
	k->is_incomplete = true;
	k->incomplete_why = "a buffer is too large";
	return false;
}

/* The group's cells, which it gets now if it has none. */
static struct check_cells *cells_of(struct vm_check *k, struct check_shadow *s, struct check_group *g)
{
	if (g->cells) return g->cells;
	g->cells = cells_new(k);
	if (!g->cells) {
		no_room(k, s);
		return NULL;
	}
	fill(g->cells->writer, g->writer, CHECK_GROUP);
	fill(g->cells->reader, g->reader, CHECK_GROUP);
	return g->cells;
}

/* Each cell becomes 1 << by cells. */
static bool shadow_split(struct vm_check *k, struct check_shadow *s, int64_t bytes, int by)
{
	struct check_shadow fine = {.shift = s->shift - by, .groups = groups_new(k, bytes, s->shift - by)};
	int64_t groups = fine.groups ? (bytes >> fine.shift) / CHECK_GROUP + 1 : 0;
	bool has_room = fine.groups;
	for (int64_t i = 0; i < groups && has_room; i++) {
		const struct check_group *from = &s->groups[i >> by];
		struct check_group *to = &fine.groups[i];
		to->writer = from->writer;
		to->reader = from->reader;
		if (!from->cells) continue;
		has_room = cells_of(k, &fine, to) != NULL;
		for (int64_t j = 0; j < CHECK_GROUP && has_room; j++) {
			int64_t at = (i * CHECK_GROUP + j) >> by & (CHECK_GROUP - 1);
			to->cells->writer[j] = from->cells->writer[at];
			to->cells->reader[j] = from->cells->reader[at];
		}
	}
	free(s->groups);
	*s = fine;
	return has_room || no_room(k, s);
}

/* The buffer's shadow, with cells of at most `size` bytes. */
static bool shadow_get(struct vm_check *k, struct check_shadow *s, int64_t bytes, size_t size)
{
	int shift = __builtin_ctzll(size);
	if (s->is_full) return false;
	if (!s->groups) {
		s->shift = shift;
		s->groups = groups_new(k, bytes, shift);
		if (!s->groups) return no_room(k, s);
	}
	return shift >= s->shift || shadow_split(k, s, bytes, s->shift - shift);
}

/* ---- records ---- */

static uint32_t record_get(struct vm_ctx *c, const struct vm_instr *in, enum check_kind kind)
{
	struct vm_check *k = c->check;
	int64_t instr = in - c->program->instrs;
	uint32_t id = k->record_of[instr];
	const struct check_record *r = &k->records[id];
	/* the same access again, as far as anyone can tell */
	uint32_t turn = k->code.has_pipeline ? c->turns : 0;
	if (id >= k->first && r->stamp == k->order.nnodes && r->epoch == k->epoch && r->block == k->block.hash &&
		r->turn == turn && !k->block.may_overlap && (kind != CHECK_READ || r->collectives == c->collectives))
		return id;
	/* A new record. Where there is no room the search is incomplete, and says so. */
	if (k->nrecords >= CHECK_RECORDS_MAX) {
		k->is_incomplete = true;
		k->incomplete_why = "too many accesses";
		return 0;
	}
	if (k->nrecords >= k->records_cap) {
		k->records_cap = MAX(k->records_cap * 2, 1024u);
		k->records = xrealloc(k->records, (size_t)k->records_cap * sizeof *k->records);
	}
	/* Volatile accesses may meet, and so may atomics, unless their order is
	 * within a block alone. */
	bool is_atomic = (kind == CHECK_ATOMIC || (in->imm[3] & ORDER_VOLATILE)) && !(in->imm[3] & ORDER_LOCAL);
	k->records[k->nrecords] = (struct check_record){.block = k->block.hash,
		.program = (uint32_t)k->found.program,
		.instr = (uint32_t)instr,
		.stamp = k->order.nnodes,
		.epoch = k->epoch,
		.collectives = c->collectives,
		.turn = turn,
		.threads = k->code.threads,
		.is_atomic = is_atomic,
		.is_write = kind != CHECK_READ,
		.is_bulk = k->code.is_bulk,
		.lanes = k->block.lanes,
		.is_single = kind != CHECK_READ && k->block.lanes == 1};
	return k->record_of[instr] = k->nrecords++;
}

/* ---- what is found ---- */

static void describe_other(struct vm_ctx *c, const struct check_record *r)
{
	struct vm_finding *f = c->check->found.last;
	if (!f || f->times > 1) return;
	const struct vm_source *at = &c->program->locs[c->program->instrs[r->instr].loc];
	f->other_line = at->line;
	f->other_column = at->column;
	vm_check_program_id(c, r->program, f->other_program);
}

static const char *verb(enum check_kind kind, bool is_write)
{
	return kind == CHECK_ATOMIC ? "atomic access" : is_write ? "store" : "load";
}

static int race(struct vm_ctx *c, const struct vm_instr *in, uint32_t other, enum check_kind kind, int64_t element,
	uint64_t index, int64_t offset)
{
	const struct check_record *r = &c->check->records[other];
	const struct vm_source *at = &c->program->locs[c->program->instrs[r->instr].loc];
	uint32_t id[3];
	char name[96], why[160];
	vm_check_program_id(c, r->program, id);
	snprintf(why, sizeof why, "nothing orders the two programs");
	if (kind == CHECK_READ && c->check->code.ahead && vm_order_knows(c->check, r))
		snprintf(why, sizeof why,
			"the pipeline of its loop loads it up to %d turns ahead of the atomic that orders the two programs",
			c->check->code.ahead);
	vm_fault(c, in, VM_FAULT_RACE, element,
		"%s of element %lld at offset %lld of %s: program (%u,%u,%u) %s it at line %d, and %s",
		verb(kind, kind != CHECK_READ), (long long)element, (long long)offset, vm_buffer_name(c, index, name), id[0],
		id[1], id[2], r->is_write ? r->is_atomic ? "changes" : "stores to" : "reads", at->line, why);
	vm_finding_where(c, index, offset);
	describe_other(c, r);
	return !c->check->goes_on;
}

/* Two lanes of one program. */
static int lane_race(struct vm_ctx *c, const struct vm_instr *in, uint32_t other, enum check_kind kind, int64_t element,
	uint64_t index, int64_t offset)
{
	const struct check_record *r = &c->check->records[other];
	const struct vm_source *at = &c->program->locs[c->program->instrs[r->instr].loc];
	char name[96];
	vm_fault(c, in, VM_FAULT_RACE, element,
		"%s of element %lld at offset %lld of %s: the same program %s it at line %d, and nothing orders the threads of "
		"a program but %s",
		verb(kind, kind != CHECK_READ), (long long)element, (long long)offset, vm_buffer_name(c, index, name),
		r->is_write ? r->is_atomic ? "changes" : "stores to" : "reads", at->line,
		c->check->is_cluster
			? "a scalar atomic whose result is used: it is a cluster (num_ctas), and tl.debug_barrier() "
			  "holds the threads of one block"
			: "tl.debug_barrier()");
	vm_finding_where(c, index, offset);
	describe_other(c, r);
	return !c->check->goes_on;
}

static void same_value(
	struct vm_ctx *c, const struct vm_instr *in, uint32_t other, int64_t element, uint64_t index, int64_t offset)
{
	char name[96];
	const struct check_record *r = &c->check->records[other];
	uint32_t id[3];
	vm_check_program_id(c, r->program, id);
	if (!vm_note(c, in, VM_NOTE_SAME_VALUE, element, "program (%u,%u,%u) also stores this value to offset %lld of %s",
			id[0], id[1], id[2], (long long)offset, vm_buffer_name(c, index, name)))
		return;
	vm_finding_where(c, index, offset);
	describe_other(c, r);
}

static void dead_store(struct vm_ctx *c, uint32_t record, int64_t element, uint64_t index, int64_t offset)
{
	char name[96];
	const struct vm_instr *earlier = &c->program->instrs[c->check->records[record].instr];
	if (vm_note(c, earlier, VM_NOTE_DEAD_STORE, element,
			"what is stored to offset %lld of %s is stored over before anything reads it", (long long)offset,
			vm_buffer_name(c, index, name)))
		vm_finding_where(c, index, offset);
}

/* ---- one cell ---- */

struct visit {
	struct vm_ctx *c;
	const struct vm_instr *in;
	struct check_shadow *s;
	uint32_t record;
	enum check_kind kind;
	uint64_t index;
};
struct cell {
	uint32_t *writer; /* record of the last write, and of the first read since; 0: none */
	uint32_t *reader;
	int64_t offset; /* in the buffer, in bytes */
};

static bool is_other(const struct vm_check *k, uint32_t record) { return record && record < k->first; }

/* The innermost loop around an instruction: the one that is pipelined. Under a condition another
 * loop may lie inside all the same. */
static const struct check_loop *loop_around(struct vm_check *k, const struct vm_program *p, const struct vm_instr *in)
{
	struct check_loop *l = &k->loop;
	const struct vm_instr *first = p->instrs, *last = first + p->ninstrs;
	if (l->of == in) return l;
	*l = (struct check_loop){.of = in};
	for (const struct vm_instr *i = in; i < last && !l->end; i++)
		if (i->op == OP_JUMP && first + i->target <= in) l->end = i;
	for (const struct vm_instr *i = l->end ? first + l->end->target : last; i < l->end; i++)
		l->has_inner |= i->op == OP_JUMP && first + i->target <= i;
	return l;
}

/* A load that the compiled code makes turns of its loop ahead of its place comes before what the
 * loop did meanwhile: a pipeline does not ask whether addresses are the same. A loop that is
 * entered anew begins behind all that it did before. Among turns of an inner loop its own are not
 * told apart: then all that it did counts. */
static bool is_ahead(const struct visit *v, uint32_t turn, uint32_t instr)
{
	struct vm_ctx *c = v->c;
	uint32_t since = c->turns - turn, ahead = (uint32_t)c->check->code.ahead;
	if (!ahead || v->kind != CHECK_READ) return false;
	const struct check_loop *l = loop_around(c->check, c->program, v->in);
	const struct vm_instr *first = c->program->instrs, *at = first + instr;
	if (!l->end || at < first + l->end->target || at > l->end) return false;
	return l->has_inner || (since <= ahead && since <= (c->jumped == l->end ? c->turns - c->entered : 0));
}

/* The running program's last atomic whose order an access is made in. */
static uint32_t own_atomic(const struct visit *v)
{
	const struct check_order *o = &v->c->check->order;
	uint32_t own = o->own;
	while (own && is_ahead(v, o->nodes[own].turn, o->nodes[own].instr)) own = o->nodes[own].previous_own;
	return own;
}

/* The running program's access and an earlier one do not get along. */
static bool conflicts(const struct visit *v, uint32_t other)
{
	struct vm_check *k = v->c->check;
	if (!is_other(k, other)) return false;
	const struct check_record *r = &k->records[other];
	/* What a unit of its own stores is on its way still when the program releases: the compiler
	 * waits until it was read from shared memory, and no longer. */
	bool is_on_its_way = r->is_bulk && r->is_write;
	return !(r->is_atomic && k->records[v->record].is_atomic) && (is_on_its_way || !vm_order_knew(k, r, own_atomic(v)));
}

/* Whether blocks of more lanes are made of what a load gave: then threads that do not store to its
 * place need it too. */
static bool spreads(const struct visit *v, uint32_t instr)
{
	uint8_t *known = &v->c->check->spreads[instr];
	const struct vm_program *p = v->c->program;
	if (*known) return *known == 2;
	bool *marked = xcalloc((size_t)p->nvalues + 1, sizeof *marked);
	int own = p->ids[p->instrs[instr].dst];
	marked[own] = true;
	vm_flow_forward(p, marked);
	*known = 1;
	for (int i = 0; i < p->nvalues; i++)
		if (marked[i] && p->values[i].count > p->values[own].count) *known = 2;
	free(marked);
	return *known == 2;
}

/* The running program's access and an earlier one of its own, perhaps by another lane. Which thread
 * has which lane is the compiler's choice, so lanes are ordered by barriers alone; but equal blocks
 * of pointers with equal layouts, as far as compiled code says, have one thread for both lanes. A
 * block of fewer lanes than threads is loaded by several threads and stored by one of them: its own
 * load may come before that store, the others' behind it. Between a load and a store lies an order
 * too where the lanes exchanged values in between, since what is stored may wait for what was
 * loaded. */
static bool lanes_conflict(const struct visit *v, uint32_t own)
{
	const struct vm_check *k = v->c->check;
	if (own < k->first || own == v->record) return false;
	const struct check_record *a = &k->records[own], *b = &k->records[v->record];
	bool is_load = v->kind == CHECK_READ;
	/* A unit of its own fetches it: what threads stored is not on its way
	 * there yet, barrier or not. */
	if (is_load && a->is_write && k->code.is_bulk) return true;
	/* And what it stores is on its way beside what threads store, before or
	 * behind. Its sums commute. */
	if (a->is_write && (a->is_bulk || (b->is_write && b->is_bulk)))
		return !(a->is_atomic && b->is_atomic && a->is_bulk == b->is_bulk);
	/* A barrier in the loop would have kept it from being pipelined; an atomic for which all
	 * threads wait does not. */
	if (is_load && a->is_write && is_ahead(v, a->turn, a->instr)) return true;
	if (a->epoch != b->epoch || (a->is_atomic && b->is_atomic)) return false;
	if (a->block == b->block) {
		/* What was loaded by one thread and is stored by another went from one to the other. */
		bool is_moved = a->threads && b->threads && a->threads != b->threads;
		if (!a->is_write)
			return k->block.lanes < k->threads && a->collectives == v->c->collectives && !b->is_atomic &&
				spreads(v, a->instr);
		return is_moved || (is_load && k->block.lanes < k->threads);
	}
	if (a->is_single && b->is_single) return false;
	return a->is_write || a->collectives == v->c->collectives;
}

/* The write in a cell that an access has to be ordered with: the last, or what an atomic of the
 * running program came on top of. */
static uint32_t writer_of(const struct visit *v, uint32_t w)
{
	const struct vm_check *k = v->c->check;
	if (!(w & CHECK_MANY)) return w;
	w &= ~CHECK_MANY;
	return is_other(k, w) ? w : k->records[w].covers;
}

/* Of two reads by the running program, the one that fewer accesses of others are ordered with: the
 * later, unless it alone is atomic. */
static uint32_t later_reader(const struct visit *v, uint32_t r)
{
	const struct check_record *records = v->c->check->records;
	return records[v->record].is_atomic && !records[r].is_atomic ? r : v->record;
}

static int visit_read(const struct visit *v, const struct cell *cell, int64_t element)
{
	struct vm_check *k = v->c->check;
	uint32_t r = *cell->reader & ~CHECK_MANY, w = writer_of(v, *cell->writer);
	int rc = conflicts(v, w) ? race(v->c, v->in, w, v->kind, element, v->index, cell->offset)
		: lanes_conflict(v, *cell->writer & ~CHECK_MANY)
		? lane_race(v->c, v->in, *cell->writer & ~CHECK_MANY, v->kind, element, v->index, cell->offset)
		: 0;
	if (!r) *cell->reader = v->record;
	else if (!is_other(k, r)) *cell->reader = later_reader(v, r) | (*cell->reader & CHECK_MANY);
	else *cell->reader = vm_order_knows(k, &k->records[r]) ? v->record | CHECK_MANY : *cell->reader | CHECK_MANY;
	return rc;
}

/* What the cell holds after the running program's write. An atomic leaves a plain store of its own
 * program in the cell, which is the stricter of the two, and remembers that it came on top of
 * another's. */
static uint32_t new_writer(const struct visit *v, uint32_t w)
{
	struct vm_check *k = v->c->check;
	if (v->kind != CHECK_ATOMIC || !w) return v->record;
	bool is_mine = (w & ~CHECK_MANY) >= k->first;
	if (is_mine && !k->records[w & ~CHECK_MANY].is_atomic) return w;
	if (is_mine && (w & CHECK_MANY)) k->records[v->record].covers = k->records[w & ~CHECK_MANY].covers;
	if (is_mine) return v->record | (w & CHECK_MANY);
	if (vm_order_knows(k, &k->records[w & ~CHECK_MANY])) return v->record;
	k->records[v->record].covers = w & ~CHECK_MANY;
	return v->record | CHECK_MANY;
}

static int visit_write(const struct visit *v, const struct cell *cell, int64_t element, bool is_same)
{
	struct vm_check *k = v->c->check;
	uint32_t w = writer_of(v, *cell->writer), r = *cell->reader & ~CHECK_MANY;
	int rc = 0;
	if (conflicts(v, w)) {
		bool is_benign = is_same && !k->records[w].is_atomic && v->kind == CHECK_WRITE;
		if (!is_benign) rc = race(v->c, v->in, w, v->kind, element, v->index, cell->offset);
		else if (k->checks & VM_CHECK_NOTES) same_value(v->c, v->in, w, element, v->index, cell->offset);
	} else if (conflicts(v, r)) {
		rc = race(v->c, v->in, r, v->kind, element, v->index, cell->offset);
	} else if (!is_same && lanes_conflict(v, *cell->writer & ~CHECK_MANY)) {
		rc = lane_race(v->c, v->in, *cell->writer & ~CHECK_MANY, v->kind, element, v->index, cell->offset);
	} else if (!is_same && lanes_conflict(v, r)) {
		rc = lane_race(v->c, v->in, r, v->kind, element, v->index, cell->offset);
	} else if (w >= k->first && !r && v->kind == CHECK_WRITE && (k->checks & VM_CHECK_NOTES)) {
		dead_store(v->c, w, element, v->index, cell->offset);
	}
	*cell->writer = new_writer(v, *cell->writer);
	/* A plain read before an atomic of one's own still minds the atomics of others, which the
	 * atomic does not. */
	bool stays = v->kind == CHECK_ATOMIC && r && !is_other(k, r) && !k->records[r].is_atomic;
	if (!stays) *cell->reader = 0;
	return rc;
}

/* ---- rows ---- */

/* Records that the running program may replace without a look at each: nobody else's (or nobody's
 * at all: only_empty), and none with a flag. */
static bool is_plain(const struct vm_check *k, const uint32_t *x, int n, bool only_empty)
{
	uint32_t others = only_empty ? UINT32_MAX - 1 : k->first - 1, found = 0;
	int i = 0;
	cells8 found8 = {0};
	for (; i + 8 <= n; i += 8) {
		cells8 v = *(const cells8 *)(x + i);
		found8 |= (cells8)(v - 1 < others) | v >> 31;
	}
	for (int j = 0; j < 8; j++) found |= found8[j];
	for (; i < n; i++) found |= (x[i] - 1 < others) | x[i] >> 31;
	return !found;
}

/* No record of the running program among n is in conflict with its access. Most rows hold one
 * record or none. */
static bool lanes_agree(const struct visit *v, const uint32_t *x, int n)
{
	uint32_t fine = 0;
	for (int i = 0; i < n; i++) {
		if (x[i] == 0 || x[i] == fine) continue;
		if (lanes_conflict(v, x[i] & ~CHECK_MANY)) return false;
		fine = x[i];
	}
	return true;
}

/* An atomic access does not simply take the place of a plain one, and a store that might make an
 * earlier one dead is noted: cell by cell. */
static bool are_plain(const struct visit *v, const uint32_t *writer, const uint32_t *reader, int n)
{
	const struct vm_check *k = v->c->check;
	if (v->kind == CHECK_ATOMIC || k->records[v->record].is_atomic) return false;
	if (!lanes_agree(v, writer, n) || (v->kind != CHECK_READ && !lanes_agree(v, reader, n))) return false;
	return is_plain(k, writer, n, v->kind != CHECK_READ && (k->checks & VM_CHECK_NOTES)) &&
		is_plain(k, reader, n, false);
}

/* n cells of one group, from cell `at` on. False: to be looked at one by one. */
static bool fast_cells(const struct visit *v, struct check_group *g, int at, int n)
{
	bool is_read = v->kind == CHECK_READ;
	if (!g->cells && n == CHECK_GROUP) {
		if (!are_plain(v, &g->writer, &g->reader, 1)) return false;
		if (!is_read) g->writer = v->record;
		g->reader = is_read ? v->record : 0;
		return true;
	}
	struct check_cells *c = cells_of(v->c->check, v->s, g);
	if (!c || !are_plain(v, c->writer + at, c->reader + at, n)) return false;
	if (!is_read) fill(c->writer + at, v->record, n);
	fill(c->reader + at, is_read ? v->record : 0, n);
	return true;
}

/* Each cell of an element. */
static int visit_element(const struct visit *v, int64_t offset, size_t size, int64_t element, bool is_same)
{
	for (size_t j = 0; j < size; j += (size_t)1 << v->s->shift) {
		int64_t at = (offset + (int64_t)j) >> v->s->shift;
		struct check_cells *c = cells_of(v->c->check, v->s, &v->s->groups[at / CHECK_GROUP]);
		if (!c) return 0;
		struct cell cell = {&c->writer[at % CHECK_GROUP], &c->reader[at % CHECK_GROUP], offset};
		int rc = v->kind == CHECK_READ ? visit_read(v, &cell, element) : visit_write(v, &cell, element, is_same);
		if (rc) return rc;
	}
	return 0;
}

/* Elements [from, to) of a row, one by one. */
static int visit_elements(const struct visit *v, const struct check_row *row, const struct vm_buffer *b, size_t size,
	int64_t from, int64_t to)
{
	int64_t start = row->address - (int64_t)(v->index << TAPE_ADDRESS_SHIFT);
	for (int64_t i = from; i < to; i++) {
		int64_t offset = start + i * row->step;
		bool is_same = row->value && !memcmp(b->data + offset, row->value + i * row->value_step, size);
		int rc = visit_element(v, offset, size, row->element + i * row->element_step, is_same);
		if (rc) return rc;
	}
	return 0;
}

/* ---- blocks ---- */

void vm_race_block_affine(struct vm_check *k, const struct affine *a, const struct vm_value_info *info)
{
	int64_t size = (int64_t)elem_bytes(info->elem), reach = size;
	uint64_t h = vm_hash_step((uint64_t)info->count, (uint64_t)a->base);
	k->block = (struct check_block){.lanes = info->count};
	/* dimensions by rising stride: each has to step over all that the smaller ones reach */
	bool done[VM_LAZY_DIMS] = {false};
	for (int round = 0; round < info->ndim; round++) {
		int next = -1;
		for (int d = 0; d < info->ndim; d++)
			if (!done[d] && (next < 0 || llabs(a->stride[d]) < llabs(a->stride[next]))) next = d;
		done[next] = true;
		if (info->shape[next] == 1) continue;
		k->block.may_overlap |= llabs(a->stride[next]) < reach;
		reach += llabs(a->stride[next]) * (info->shape[next] - 1);
	}
	for (int d = 0; d < info->ndim; d++)
		if (info->shape[d] > 1) h = vm_hash_step(vm_hash_step(h, (uint64_t)a->stride[d]), (uint64_t)info->shape[d]);
	k->block.hash = vm_hash_step(h, (uint64_t)size);
}

/* Whether addresses that were spelt out have one stride a dimension, and which. */
static bool is_affine(const int64_t *address, const struct vm_value_info *info, struct affine *a)
{
	if (info->ndim > VM_LAZY_DIMS) return false;
	*a = (struct affine){.base = address[0]};
	int64_t step = 1;
	for (int d = info->ndim - 1; d >= 0; step *= info->shape[d--])
		if (info->shape[d] > 1) a->stride[d] = address[step] - address[0];
	for (int64_t i = 1; i < info->count; i++) {
		int64_t at = a->base, rest = i;
		for (int d = info->ndim - 1; d >= 0; rest /= info->shape[d--]) at += rest % info->shape[d] * a->stride[d];
		if (address[i] != at) return false;
	}
	return true;
}

void vm_race_block(struct vm_check *k, const int64_t *address, const struct vm_value_info *info)
{
	/* An affine block whose mask is none is spelt out, and the same block all the same. */
	struct affine a;
	if (is_affine(address, info, &a)) {
		vm_race_block_affine(k, &a, info);
	} else {
		uint64_t h = vm_hash_step((uint64_t)info->count, (uint64_t)address[0]);
		for (int64_t i = 1; i < info->count; i++) h = vm_hash_step(h, (uint64_t)address[i]);
		k->block = (struct check_block){.hash = vm_hash_step(h, elem_bytes(info->elem)), .lanes = info->count};
	}
	k->block.may_overlap = info->count > 1;
}

int vm_race_lanes(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask,
	const uint8_t *value, int64_t n, size_t size)
{
	struct vm_check *k = c->check;
	/* A hash table from address to its first lane, at least twice as large as needed: probes stay
	 * short. */
	int64_t slots = 16;
	while (slots < 2 * n) slots *= 2;
	if (slots > k->lane_slots) {
		k->lane_of = xrealloc(k->lane_of, (size_t)slots * sizeof *k->lane_of);
		k->lane_slots = slots;
	}
	memset(k->lane_of, 0xff, (size_t)slots * sizeof *k->lane_of); /* -1: empty */
	for (int64_t i = 0; i < n; i++) {
		if (mask && !mask[i]) continue;
		int64_t at = (int64_t)(vm_hash_step(0, (uint64_t)address[i]) & (uint64_t)(slots - 1));
		while (k->lane_of[at] >= 0 && address[k->lane_of[at]] != address[i]) at = (at + 1) & (slots - 1);
		if (k->lane_of[at] < 0) {
			k->lane_of[at] = i;
			continue;
		}
		/* The same value twice is harmless; what lies in no buffer is the access's own fault. */
		int64_t first = k->lane_of[at];
		uint64_t index = (uint64_t)address[i] >> TAPE_ADDRESS_SHIFT;
		if (!memcmp(value + first * (int64_t)size, value + i * (int64_t)size, size) || !vm_buffer_at(c->memory, index))
			continue;
		/* One finding per store is enough, so the search ends with it. */
		char name[96];
		int64_t offset = address[i] - (int64_t)(index << TAPE_ADDRESS_SHIFT);
		vm_fault(c, in, VM_FAULT_RACE, i,
			"store of element %lld at offset %lld of %s: element %lld of the same store has this address and another "
			"value, and either may come last",
			(long long)i, (long long)offset, vm_buffer_name(c, index, name), (long long)first);
		vm_finding_where(c, index, offset);
		return !k->goes_on;
	}
	return 0;
}

int vm_race_row(
	struct vm_ctx *c, const struct vm_instr *in, const struct check_row *row, size_t size, enum check_kind kind)
{
	struct vm_check *k = c->check;
	uint64_t index = (uint64_t)row->address >> TAPE_ADDRESS_SHIFT;
	const struct vm_buffer *b = vm_buffer_at(c->memory, index);
	CHECKF(b, "address 0x%llx is in no buffer", (unsigned long long)row->address);
	if (!k->is_tracked[index] && kind == CHECK_READ) return 0;
	k->is_tracked[index] = true;
	struct visit v = {c, in, &k->shadows[index], 0, kind, index};
	if (k->is_incomplete || !shadow_get(k, v.s, b->bytes, size)) return 0;
	v.record = record_get(c, in, kind);
	if (!v.record) return 0;
	if (row->step != (int64_t)size) return visit_elements(&v, row, b, size, 0, row->n);
	/* Contiguous: group by group. An aligned element never straddles two. */
	int64_t per = (int64_t)size >> v.s->shift,
			first = (row->address - (int64_t)(index << TAPE_ADDRESS_SHIFT)) >> v.s->shift, end = first + row->n * per;
	for (int64_t cell = first, n; cell < end && !k->is_incomplete; cell += n) {
		int64_t at = cell % CHECK_GROUP;
		n = MIN(CHECK_GROUP - at, end - cell);
		if (fast_cells(&v, &v.s->groups[cell / CHECK_GROUP], (int)at, (int)n)) continue;
		int rc = visit_elements(&v, row, b, size, (cell - first) / per, (cell - first + n) / per);
		if (rc) return rc;
	}
	return 0;
}
