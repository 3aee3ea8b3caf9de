/* The loop, moves, blocks, and a whole launch. */
#include "vm/exact/exact.h"
#include "base/base.h"
#include "field/field.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/exec/exec.h"
#include "vm/map/map.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- ends ---- */

int exact_stop(struct exact *e, const struct vm_instr *in, enum vm_exact_end end, const char *fmt, ...)
{
	const struct vm_source *at = &e->c.program->locs[in->loc];
	struct vm_exact_report *r = e->out;
	va_list ap;
	if (r->end != VM_EXACT_DONE) return 1;
	r->end = end;
	r->line = at->line;
	int n = snprintf(r->text, sizeof r->text, "%s:%d in %s, program (%u,%u,%u): ", at->file, at->line,
		e->c.kernel->name, e->c.id[0], e->c.id[1], e->c.id[2]);
	va_start(ap, fmt);
	if (n >= 0 && (size_t)n < sizeof r->text) vsnprintf(r->text + n, sizeof r->text - (size_t)n, fmt, ap);
	va_end(ap);
	return 1;
}

void exact_note_side(struct exact *e, const struct vm_instr *in, const struct field_value *a,
	const struct field_value *b, enum field_order order)
{
	if ((a->flags | b->flags) & FIELD_UNDEFINED) return;
	static const unsigned bits[] = {[FIELD_LESS] = MAP_LESS,
		[FIELD_EQUAL] = MAP_EQUAL,
		[FIELD_GREATER] = MAP_GREATER,
		[FIELD_UNORDERED] = MAP_UNORDERED};
	struct vm_exact_report *r = e->out;
	int line = e->c.program->locs[in->loc].line, i = r->nsides - 1;
	while (i >= 0 && r->sides[i].line != line) i--;
	if (i < 0) {
		if (r->nsides == VM_EXACT_SIDES_MAX) return;
		r->sides[i = r->nsides++] = (struct vm_exact_side){line, 0};
	}
	r->sides[i].orders |= bits[order];
}

/* ---- blocks ---- */

struct exact_block *exact_block_new(struct exact *e, const struct vm_instr *in, int64_t n)
{
	int64_t bytes = (int64_t)sizeof(struct exact_block) + n * (int64_t)sizeof(struct field_value);
	if (e->bytes + bytes > EXACT_BYTES_MAX) {
		exact_stop(e, in, VM_EXACT_OUTSIDE, "blocks of more than %lld MiB of exact values",
			(long long)(EXACT_BYTES_MAX >> 20));
		return NULL;
	}
	struct exact_block *b = xmalloc((size_t)bytes);
	b->refs = 1;
	b->n = n;
	e->bytes += bytes;
	return b;
}

void exact_block_put(struct exact *e, struct exact_block *b)
{
	if (!b || --b->refs) return;
	e->bytes -= (int64_t)sizeof *b + b->n * (int64_t)sizeof *b->v;
	free(b);
}

void exact_set(struct exact *e, int value, struct exact_block *b)
{
	exact_block_put(e, e->blocks[value]);
	e->blocks[value] = b;
}

void exact_kill(struct exact *e, const struct vm_instr *in)
{
	for (uint64_t k = in->kill; k; k &= k - 1) {
		int value = vm_src(&e->c, in, __builtin_ctzll(k));
		if (e->blocks[value]) exact_set(e, value, NULL);
	}
	vm_kill(&e->c, in);
}

bool exact_is_float(const struct exact *e, int value)
{
	const struct vm_value_info *info = &e->c.program->values[value];
	enum type_kind kind = e->c.kernel->module.types[info->type].kind;
	return (kind == TYPE_SCALAR || kind == TYPE_TENSOR) && elem_is_float(info->elem);
}

struct field_value exact_constant(struct exact *e, enum elem elem, const void *bits)
{
	static const int significand[ELEM_COUNT] = {
		[ELEM_F8E4M3] = 4, [ELEM_F8E5M2] = 3, [ELEM_F16] = 11, [ELEM_BF16] = 8, [ELEM_F32] = 24, [ELEM_F64] = 53};
	return field_constant(e->f, vm_float_of(elem, bits), significand[elem]);
}

/* ---- integers ---- */

bool exact_ints_of(struct exact *e, const struct vm_instr *in, int value, int64_t n, struct exact_ints *out)
{
	const struct vm_value *v = &e->c.values[value];
	enum elem elem = e->c.program->values[value].elem;
	bool is_splat = v->form == FORM_SPLAT;
	const void *data = is_splat ? v->splat : vm_dense(&e->c, in, value, n);
	*out = (struct exact_ints){data, is_splat ? 0 : (int64_t)elem_bytes(elem), elem};
	return data;
}

int64_t exact_int_at(const struct exact_ints *i, int64_t at, bool is_signed)
{
	uint64_t x = 0;
	int bits = i->elem == ELEM_I1 ? 1 : 8 * (int)elem_bytes(i->elem);
	memcpy(&x, i->data + at * i->step, elem_bytes(i->elem));
	if (bits == 64) return (int64_t)x;
	return is_signed ? (int64_t)(x << (64 - bits)) >> (64 - bits) : (int64_t)(x & (((uint64_t)1 << bits) - 1));
}

/* ---- instructions ---- */

/* All moves at once, of both kinds. */
static int move(struct exact *e, const struct vm_instr *in)
{
	struct exact_block **taken = xcalloc((size_t)in->nsrc + 1, sizeof *taken);
	for (int i = 0; i < in->nsrc; i++) {
		taken[i] = exact_source(e, in, i);
		if (taken[i]) taken[i]->refs++;
	}
	int rc = exec_move(&e->c, in);
	for (uint64_t k = in->kill; k; k &= k - 1) exact_set(e, vm_src(&e->c, in, __builtin_ctzll(k)), NULL);
	for (int i = 0; i < in->ndst; i++) exact_set(e, vm_dst(&e->c, in, i), taken[i]);
	free(taken);
	return rc;
}

/* Pointers and mask are the engine's; the padding is 0 or NaN. */
static int block_address(struct exact *e, const struct vm_instr *in)
{
	int padding = vm_dst(&e->c, in, 2);
	if (in->exec(&e->c, in)) return 1;
	struct exact_block *b = exact_block_new(e, in, 1);
	if (!b) return 1;
	b->v[0] = e->c.values[padding].splat_int ? field_nan() : field_integer(e->f, 0);
	exact_set(e, padding, b);
	return 0;
}

static int inline_asm(struct exact *e, const struct vm_instr *in)
{
	return exact_stop(e, in, VM_EXACT_OUTSIDE, "inline assembly");
}

static int nothing(struct exact *e, const struct vm_instr *in)
{
	exact_kill(e, in);
	return 0;
}

/* What an instruction with floats does here; NULL: nothing that a proof knows. */
static exact_fn *const table[OP_COUNT] = {
	[OP_MAP] = exact_map,
	[OP_SELECT] = exact_select,
	[OP_INLINE_ASM] = inline_asm,
	[OP_BITCAST] = exact_bitcast,
	[OP_SPLAT] = exact_reshape,
	[OP_UNSPLAT] = exact_reshape,
	[OP_RESHAPE] = exact_reshape,
	[OP_BROADCAST] = exact_permute,
	[OP_TRANS] = exact_permute,
	[OP_CAT] = exact_permute,
	[OP_JOIN] = exact_permute,
	[OP_GATHER] = exact_permute,
	[OP_SPLIT] = exact_split,
	[OP_MOVE] = move,
	[OP_PRINT] = nothing,
	[OP_LOAD] = exact_load,
	[OP_STORE] = exact_store,
	[OP_ATOMIC_RMW] = exact_atomic,
	[OP_BLOCK_ADDRESS] = block_address,
	[OP_ROW_ADDRESS] = block_address,
	[OP_REDUCE] = exact_reduce,
	[OP_SCAN] = exact_scan,
	[OP_MAP_REGION] = exact_map_region,
	[OP_DOT] = exact_dot,
	[OP_SCALE] = exact_scale,
};

static bool has_floats(const struct exact *e, const struct vm_instr *in)
{
	for (int i = 0; i < in->nsrc; i++)
		if (exact_is_float(e, vm_src(&e->c, in, i))) return true;
	for (int i = 0; i < in->ndst; i++)
		if (exact_is_float(e, vm_dst(&e->c, in, i))) return true;
	return false;
}

static int check_clock(struct exact *e, const struct vm_instr *in)
{
	e->c.fuel = VM_FUEL / 16; /* an exact operation takes as long as a dozen others */
	if (e->c.deadline_ns && clock_ns() > e->c.deadline_ns)
		return exact_stop(e, in, VM_EXACT_FAULT, "the deadline passed");
	return 0;
}

int exact_run(struct exact *e, const struct vm_instr *from, const struct vm_instr *to)
{
	struct vm_ctx *c = &e->c;
	const struct vm_instr *outer = c->next;
	for (const struct vm_instr *in = from; in != to; in = c->next) {
		c->next = in + 1;
		c->fuel -= in->weight;
		if (c->fuel < 0 && check_clock(e, in)) return 1;
		/* Assembly may compute with bits of floats that it is given as integers: never. */
		if (in->op != OP_INLINE_ASM && !has_floats(e, in)) {
			if (in->exec(c, in)) return 1;
		} else if (!table[in->op]) {
			return exact_stop(e, in, VM_EXACT_OUTSIDE, "an operation on floats that no exact reading is known of");
		} else if (table[in->op](e, in)) {
			return 1;
		}
	}
	c->next = outer;
	return 0;
}

/* ---- a launch ---- */

void vm_exact_buffer_set(struct vm_exact_buffer *b, enum elem e, int64_t bytes)
{
	size_t n = (size_t)bytes / elem_bytes(e);
	vm_exact_buffer_release(b);
	b->elem = e;
	b->values = xmalloc(size_mul(n + 1, sizeof *b->values));
	b->is_set = xcalloc(n + 1, 1);
}

void vm_exact_buffer_release(struct vm_exact_buffer *b)
{
	free(b->values);
	free(b->is_set);
	*b = (struct vm_exact_buffer){.elem = ELEM_COUNT};
}

static int set_memory(const struct vm_exact_options *o, struct vm_memory *m, struct err *err)
{
	uint64_t last = 0;
	for (int i = 0; i < o->nbuffers; i++) {
		uint64_t index = o->buffers[i].address >> TAPE_ADDRESS_SHIFT;
		if (o->buffers[i].address != index << TAPE_ADDRESS_SHIFT || index <= last || index > TAPE_BUFFERS_MAX ||
			!o->buffers[i].origin)
			return err_set(err, ERR_RANGE, "buffer %d of an exact launch has no origin tags, or is out of order", i);
		last = index;
	}
	*m = (struct vm_memory){.index_max = last, .buffers = o->buffers, .nbuffers = o->nbuffers};
	m->by_index = xcalloc((size_t)last + 1, sizeof *m->by_index);
	for (int i = 0; i < o->nbuffers; i++) m->by_index[o->buffers[i].address >> TAPE_ADDRESS_SHIFT] = &o->buffers[i];
	return 0;
}

static struct exact_block *block_of_constants(struct exact *e, enum elem elem, const uint8_t *data, int64_t n)
{
	static const struct vm_instr none = {.op = OP_NOTHING};
	struct exact_block *b = exact_block_new(e, &none, n);
	for (int64_t i = 0; b && i < n; i++) b->v[i] = exact_constant(e, elem, data + (size_t)i * elem_bytes(elem));
	return b;
}

/* Constants of the program and floats among the launch's arguments. */
static int set_values(struct exact *e, const struct vm_exact_options *o)
{
	const struct vm_kernel *k = e->c.kernel;
	const struct vm_program *p = e->c.program;
	/* Floats of the program text. */
	for (int i = 0; i < p->nconsts && e->out->end == VM_EXACT_DONE; i++) {
		const struct vm_const *c = &p->consts[i];
		if (!exact_is_float(e, c->value)) continue;
		exact_set(e, c->value,
			block_of_constants(
				e, p->values[c->value].elem, c->data ? c->data : c->bits, c->data ? p->values[c->value].count : 1));
	}
	/* Arguments are rounded to their type, as the launch rounds them, before they are read as
	 * constants. */
	for (int i = 0; i < k->nargs; i++) {
		enum elem elem = k->module.types[k->arg_types[i]].elem;
		int value = k->arg_values[i];
		uint8_t bits[8] = {0};
		bool strips;
		if (elem == ELEM_F64) memcpy(bits, &o->args[i].f, 8);
		else if (elem_is_float(elem))
			map_cast_kernel("truncf", ELEM_F64, elem, &strips)(bits, &o->args[i].f, NULL, NULL, 1, 0);
		if (elem_is_float(elem)) {
			exact_set(e, value, block_of_constants(e, elem, bits, 1));
			continue;
		}
		/* Integers and pointers are the engine's own. */
		int64_t v = elem == ELEM_I1 ? o->args[i].i & 1 : o->args[i].i;
		memcpy(e->c.values[value].splat, &v, elem_bytes(elem));
	}
	return e->out->end != VM_EXACT_DONE;
}

/* The engine's own faults become this report's. Integers that are no integers' bytes are bits of
 * data. */
static void take_fault(struct exact *e, const struct vm_report *r)
{
	if (e->out->end != VM_EXACT_DONE) return;
	bool is_data = r->fault == VM_FAULT_UNINITIALISED && r->buffer >= 0 && e->memory[r->buffer]->elem != ELEM_COUNT;
	e->out->end = is_data || r->fault == VM_FAULT_UNSUPPORTED ? VM_EXACT_OUTSIDE : VM_EXACT_FAULT;
	e->out->line = r->line;
	snprintf(
		e->out->text, sizeof e->out->text, "%s%.480s", is_data ? "bits of floats read as integers: " : "", r->text);
}

int vm_exact_launch(
	const struct vm_kernel *k, const struct vm_exact_options *o, struct vm_exact_report *report, struct err *err)
{
	if (o->nargs != k->nargs)
		return err_set(
			err, ERR_RANGE, "launch of %s: %d arguments given, the kernel takes %d", k->name, o->nargs, k->nargs);
	struct vm_memory memory;
	int rc = set_memory(o, &memory, err);
	if (rc) return rc;
	/* A context of the engine, with one block list beside it. */
	struct vm_report faults = {.fault = VM_FAULT_NONE}, passed_over = {.fault = VM_FAULT_NONE};
	struct exact *e = xcalloc(1, sizeof *e);
	vm_ctx_init(&e->c, k, &k->program);
	memcpy(e->c.grid, o->grid, sizeof e->c.grid);
	e->c.args = o->args;
	e->c.memory = &memory;
	e->c.deadline_ns = o->deadline_ns;
	e->c.report = &faults;
	e->c.passed_over = &passed_over;
	e->f = o->field;
	e->memory = o->exact;
	e->out = report;
	e->rng = (struct rng){.seed = o->field->seed, .stream = 17};
	e->blocks = xcalloc((size_t)k->program.nvalues + 1, sizeof *e->blocks);
	report->end = VM_EXACT_DONE;
	bool stopped = set_values(e, o);
	/* Programs one after another. */
	const struct vm_instr *first = k->program.instrs;
	int64_t programs = (int64_t)o->grid[0] * o->grid[1] * o->grid[2];
	for (int64_t i = 0; i < programs && !stopped; i++) {
		e->c.id[0] = (uint32_t)(i % o->grid[0]);
		e->c.id[1] = (uint32_t)(i / o->grid[0] % o->grid[1]);
		e->c.id[2] = (uint32_t)(i / o->grid[0] / o->grid[1]);
		stopped = exact_run(e, first, first + k->program.ninstrs);
	}
	/* The engine's own faults (a bad address, an assert) end it as well. */
	if (faults.fault != VM_FAULT_NONE) take_fault(e, &faults);
	for (int i = 0; i < k->program.nvalues; i++) exact_block_put(e, e->blocks[i]);
	free(e->blocks);
	vm_ctx_release(&e->c);
	free(memory.by_index);
	free(e);
	return report->end == VM_EXACT_DONE ? 0 : err_set(err, ERR_MISMATCH, "%s", report->text);
}
