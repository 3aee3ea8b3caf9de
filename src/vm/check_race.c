/* Shadow memory: for each cell of a buffer that the kernel writes, the last write and a read since. Two accesses of different programs to one cell, one of them
 * a write, not both atomic, and neither ordered before the other by atomics (check_order.c), are a race: the GPU may run them in any order.
 *
 * Programs run one after another, so whoever touched a cell before the running program is in the cell. The first reader is kept; others leave
 * a flag. A cell is as large as the smallest element that was used in its buffer, so that neighbours of 2 bytes never look like one place. */
#include "vm/vm_check.h"
#include <stdlib.h>

/* ---- life ---- */

void vm_race_create(struct vm_check *k, const struct vm_kernel *kernel, const struct vm_program *p, const struct vm_launch_options *o,
	const struct vm_memory *m)
{
	k->is_tracked = xcalloc((size_t)m->index_max + 1, sizeof *k->is_tracked);
	k->shadows = xcalloc((size_t)m->index_max + 1, sizeof *k->shadows);
	k->record_of = xcalloc((size_t)p->ninstrs + 1, sizeof *k->record_of);
	for (uint64_t b = 0; b <= m->index_max; b++) k->is_tracked[b] = p->plan.writes_anywhere || kernel->nargs > TAPE_ARGS_MAX;
	for (int i = 0; i < MIN(kernel->nargs, TAPE_ARGS_MAX); i++) {
		uint64_t index = (uint64_t)o->args[i].i >> TAPE_ADDRESS_SHIFT;
		if ((p->plan.written[i / 64] >> (i % 64) & 1) && vm_kernel_arg_is_pointer(kernel, i) && index <= m->index_max) k->is_tracked[index] = true;
	}
	k->first = k->nrecords = 1;   /* record 0: nobody */
	bool has_room = k->programs <= CHECK_ORDER_PROGRAMS_MAX;
	k->order.is_on = p->plan.has_acquire && has_room;
	if (k->order.is_on) k->order.known = xcalloc((size_t)k->programs + 1, sizeof *k->order.known);
	if ((p->plan.has_acquire && !has_room) || k->programs >= (int64_t)UINT32_MAX) {
		k->is_incomplete = true;
		k->incomplete_why = "too many programs";
	}
}

static void shadow_release(struct check_shadow *s)
{
	free(s->writer);
	free(s->reader);
}

void vm_race_free(struct vm_check *k, const struct vm_memory *m)
{
	for (uint64_t b = 0; k->shadows && b <= m->index_max; b++) shadow_release(&k->shadows[b]);
	free(k->shadows);
	free(k->is_tracked);
	free(k->records);
	free(k->record_of);
	free(k->order.nodes);
	free(k->order.mark);
	free(k->order.places);
	free(k->order.known);
}

/* ---- cells ---- */

static uint32_t *cells_new(struct vm_check *k, int64_t cells)
{
	size_t bytes = (size_t)cells * sizeof(uint32_t);
	if (bytes > VM_SHADOW_BYTES_MAX - k->shadow_bytes) return NULL;
	uint32_t *p = calloc((size_t)cells + 1, sizeof *p);
	if (p) k->shadow_bytes += bytes;
	return p;
}

static bool no_room(struct vm_check *k, struct check_shadow *s)
{
	s->is_full = true;
	k->is_incomplete = true;
	k->incomplete_why = "a buffer is too large";
	return false;
}

static uint32_t *split(struct vm_check *k, const uint32_t *old, int64_t cells, int from, int to)
{
	uint32_t *fine = cells_new(k, cells);
	for (int64_t i = 0; fine && i < cells; i++) fine[i] = old[i >> (from - to)];
	return fine;
}

/* The buffer's shadow with cells of at most `size` bytes, and its readers when they are needed. */
static bool shadow_get(struct vm_check *k, struct check_shadow *s, int64_t bytes, size_t size, bool wants_reader)
{
	int shift = __builtin_ctzll(size);
	if (s->is_full) return false;
	if (!s->writer) {
		s->shift = shift;
		s->writer = cells_new(k, (bytes >> shift) + 1);
		if (!s->writer) return no_room(k, s);
	}
	if (shift < s->shift) {
		struct check_shadow fine = {.shift = shift, .writer = split(k, s->writer, (bytes >> shift) + 1, s->shift, shift)};
		if (s->reader) fine.reader = split(k, s->reader, (bytes >> shift) + 1, s->shift, shift);
		bool has_room = fine.writer && (!s->reader || fine.reader);
		shadow_release(s);
		*s = fine;
		if (!has_room) return no_room(k, s);
	}
	if (wants_reader && !s->reader) {
		s->reader = cells_new(k, (bytes >> s->shift) + 1);
		if (!s->reader) return no_room(k, s);
	}
	return true;
}

/* ---- records ---- */

static uint32_t record_get(struct vm_ctx *c, const struct vm_instr *in, enum check_kind kind)
{
	struct vm_check *k = c->check;
	int64_t instr = in - c->program->instrs;
	uint32_t id = k->record_of[instr];
	if (id >= k->first && k->records[id].stamp == k->order.nnodes) return id;
	if (k->nrecords >= CHECK_RECORDS_MAX) {
		k->is_incomplete = true;
		k->incomplete_why = "too many accesses";
		return 0;
	}
	if (k->nrecords >= k->records_cap) {
		k->records_cap = MAX(k->records_cap * 2, 1024u);
		k->records = xrealloc(k->records, (size_t)k->records_cap * sizeof *k->records);
	}
	bool is_atomic = (kind == CHECK_ATOMIC || (in->imm[3] & ORDER_VOLATILE)) && !(in->imm[3] & ORDER_LOCAL);
	k->records[k->nrecords] = (struct check_record){(uint32_t)k->program, (uint32_t)instr, k->order.nnodes, 0, is_atomic, kind != CHECK_READ};
	return k->record_of[instr] = k->nrecords++;
}

/* ---- what is found ---- */

static void describe_other(struct vm_ctx *c, const struct check_record *r)
{
	struct vm_finding *f = c->check->last;
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

static int race(struct vm_ctx *c, const struct vm_instr *in, uint32_t other, enum check_kind kind, int64_t element, uint64_t index, int64_t offset)
{
	const struct check_record *r = &c->check->records[other];
	const struct vm_source *at = &c->program->locs[c->program->instrs[r->instr].loc];
	uint32_t id[3];
	char name[96];
	vm_check_program_id(c, r->program, id);
	vm_fault(c, in, VM_FAULT_RACE, element, "%s of element %lld at offset %lld of %s: program (%u,%u,%u) %s it at line %d, and nothing orders the two programs",
		verb(kind, kind != CHECK_READ), (long long)element, (long long)offset, vm_check_buffer_name(c, index, name), id[0], id[1], id[2],
		r->is_write ? r->is_atomic ? "changes" : "stores to" : "reads", at->line);
	vm_check_where(c, index, offset);
	describe_other(c, r);
	return !c->check->goes_on;
}

static void same_value(struct vm_ctx *c, const struct vm_instr *in, uint32_t other, int64_t element, uint64_t index, int64_t offset)
{
	char name[96];
	const struct check_record *r = &c->check->records[other];
	uint32_t id[3];
	vm_check_program_id(c, r->program, id);
	if (!vm_check_note(c, in, VM_NOTE_SAME_VALUE, element, "program (%u,%u,%u) also stores this value to offset %lld of %s", id[0], id[1], id[2],
		(long long)offset, vm_check_buffer_name(c, index, name))) return;
	vm_check_where(c, index, offset);
	describe_other(c, r);
}

static void dead_store(struct vm_ctx *c, uint32_t record, int64_t element, uint64_t index, int64_t offset)
{
	char name[96];
	const struct vm_instr *earlier = &c->program->instrs[c->check->records[record].instr];
	if (vm_check_note(c, earlier, VM_NOTE_DEAD_STORE, element, "what is stored to offset %lld of %s is stored over before anything reads it", (long long)offset,
		vm_check_buffer_name(c, index, name))) vm_check_where(c, index, offset);
}

/* ---- one cell ---- */

struct visit { struct vm_ctx *c; const struct vm_instr *in; struct check_shadow *s; uint32_t record; enum check_kind kind; uint64_t index; };

static bool is_other(const struct vm_check *k, uint32_t record) { return record && record < k->first; }

/* The running program's access and an earlier one do not get along. */
static bool conflicts(const struct visit *v, uint32_t other)
{
	struct vm_check *k = v->c->check;
	if (!is_other(k, other)) return false;
	const struct check_record *r = &k->records[other];
	return !(r->is_atomic && k->records[v->record].is_atomic) && !vm_order_knows(k, r);
}

/* The write in a cell that an access has to be ordered with: the last, or what an atomic of the running program came on top of. */
static uint32_t writer_of(const struct visit *v, int64_t cell)
{
	const struct vm_check *k = v->c->check;
	uint32_t w = v->s->writer[cell];
	if (!(w & CHECK_MANY)) return w;
	w &= ~CHECK_MANY;
	return is_other(k, w) ? w : k->records[w].covers;
}

static int visit_read(const struct visit *v, int64_t cell, int64_t element)
{
	struct vm_check *k = v->c->check;
	uint32_t *reader = &v->s->reader[cell], r = *reader & ~CHECK_MANY, w = writer_of(v, cell);
	int rc = conflicts(v, w) ? race(v->c, v->in, w, v->kind, element, v->index, cell << v->s->shift) : 0;
	if (!r) *reader = v->record;
	else if (is_other(k, r)) *reader = vm_order_knows(k, &k->records[r]) ? v->record | CHECK_MANY : *reader | CHECK_MANY;
	return rc;
}

/* What the cell holds after the running program's write. An atomic leaves a plain store of its own program in the cell, which is the stricter of the two,
 * and remembers that it came on top of another's. */
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

static int visit_write(const struct visit *v, int64_t cell, int64_t element, bool is_same)
{
	struct vm_check *k = v->c->check;
	uint32_t w = writer_of(v, cell), r = v->s->reader ? v->s->reader[cell] & ~CHECK_MANY : 0;
	int64_t offset = cell << v->s->shift;
	int rc = 0;
	if (conflicts(v, w)) {
		bool is_benign = is_same && !k->records[w].is_atomic && v->kind == CHECK_WRITE;
		if (!is_benign) rc = race(v->c, v->in, w, v->kind, element, v->index, offset);
		else if (k->checks & VM_CHECK_NOTES) same_value(v->c, v->in, w, element, v->index, offset);
	} else if (conflicts(v, r)) {
		rc = race(v->c, v->in, r, v->kind, element, v->index, offset);
	} else if (w >= k->first && !r && v->kind == CHECK_WRITE && (k->checks & VM_CHECK_NOTES)) {
		dead_store(v->c, w, element, v->index, offset);
	}
	v->s->writer[cell] = new_writer(v, v->s->writer[cell]);
	if (r) v->s->reader[cell] = 0;
	return rc;
}

/* ---- rows ---- */

/* Eight cells at a time: these two loops are most of what checking costs. */
typedef uint32_t cells8 __attribute__((vector_size(32), aligned(4), may_alias));

/* Cells that the running program may fill without a look at each: nobody else's (or nobody's at all: only_empty), and none with a flag. */
static bool is_plain(const struct vm_check *k, const uint32_t *x, int64_t n, bool only_empty)
{
	uint32_t others = only_empty ? UINT32_MAX - 1 : k->first - 1, found = 0;
	int64_t i = 0;
	cells8 found8 = {0};
	for (; i + 8 <= n; i += 8) {
		cells8 v = *(const cells8 *)(x + i);
		found8 |= (cells8)(v - 1 < others) | v >> 31;
	}
	for (int j = 0; j < 8; j++) found |= found8[j];
	for (; i < n; i++) found |= (x[i] - 1 < others) | x[i] >> 31;
	return !found;
}

static void fill(uint32_t *x, uint32_t value, int64_t n)
{
	int64_t i = 0;
	cells8 value8 = value - (cells8){0};
	for (; i + 8 <= n; i += 8) *(cells8 *)(x + i) = value8;
	for (; i < n; i++) x[i] = value;
}

static bool fast_row(const struct visit *v, int64_t cell, int64_t n)
{
	const struct vm_check *k = v->c->check;
	uint32_t *w = v->s->writer + cell, *r = v->s->reader ? v->s->reader + cell : NULL;
	if (v->kind == CHECK_READ) {
		if (!is_plain(k, w, n, false) || !is_plain(k, r, n, true)) return false;
		fill(r, v->record, n);
		return true;
	}
	if (!is_plain(k, w, n, (k->checks & VM_CHECK_NOTES) != 0) || (r && !is_plain(k, r, n, false))) return false;
	fill(w, v->record, n);
	if (r) fill(r, 0, n);
	return true;
}

int vm_race_row(struct vm_ctx *c, const struct vm_instr *in, const struct check_row *row, size_t size, enum check_kind kind)
{
	struct vm_check *k = c->check;
	uint64_t index = (uint64_t)row->address >> TAPE_ADDRESS_SHIFT;
	const struct vm_buffer *b = c->memory->by_index[index];
	if (!k->is_tracked[index] && kind == CHECK_READ) return 0;
	k->is_tracked[index] = true;
	struct visit v = {c, in, &k->shadows[index], 0, kind, index};
	if (k->is_incomplete || !shadow_get(k, v.s, b->bytes, size, kind == CHECK_READ)) return 0;
	v.record = record_get(c, in, kind);
	if (!v.record) return 0;
	int64_t start = row->address - (int64_t)(index << TAPE_ADDRESS_SHIFT), per = (int64_t)size >> v.s->shift;
	if (row->step == (int64_t)size && fast_row(&v, start >> v.s->shift, row->n * per)) return 0;
	for (int64_t i = 0; i < row->n; i++) {
		int64_t offset = start + i * row->step, element = row->element + i * row->element_step;
		bool is_same = row->value && !memcmp(b->data + offset, row->value + i * row->value_step, size);
		for (int64_t j = 0; j < per; j++) {
			int64_t cell = (offset >> v.s->shift) + j;
			int rc = kind == CHECK_READ ? visit_read(&v, cell, element) : visit_write(&v, cell, element, is_same);
			if (rc) return rc;
		}
	}
	return 0;
}
