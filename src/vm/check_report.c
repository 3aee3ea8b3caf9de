/* The list of findings, one for each kind and place, and the life of what checks keep. */
#include "vm/vm_check.h"
#include <stdlib.h>

#define FINDINGS_MAX 4096

const char *vm_note_name(enum vm_note n)
{
	static const char *const names[VM_NOTE_COUNT] = {
		"none",
		"mask-always-true",
		"mask-never-true",
		"dead-store",
		"idle-programs",
		"uncoalesced",
		"same-value",
		"unchecked",
	};
	CHECKF((unsigned)n < VM_NOTE_COUNT, "note %d", (int)n);
	return names[n];
}

struct vm_check *vm_check_create(const struct vm_kernel *kernel, const struct vm_program *p,
	const struct vm_launch_options *o, const struct vm_memory *m)
{
	struct vm_check *k = xcalloc(1, sizeof *k);
	k->checks = o->checks;
	k->goes_on = o->findings_max > 0;
	k->findings_max = MIN(MAX(o->findings_max, 0), FINDINGS_MAX);
	k->findings = xcalloc((size_t)k->findings_max + 1, sizeof *k->findings);
	k->keys = xcalloc((size_t)k->findings_max + 1, sizeof *k->keys);
	k->programs = (int64_t)o->grid[0] * o->grid[1] * o->grid[2];
	if (o->checks & VM_CHECK_RACE) vm_race_create(k, kernel, p, o, m);
	if (o->checks & (VM_CHECK_OVERFLOW | VM_CHECK_DIVISION | VM_CHECK_ORDER))
		k->taints = xcalloc((size_t)p->nvalues + 1, sizeof *k->taints);
	if (o->checks & VM_CHECK_NOTES) k->uses = xcalloc((size_t)p->ninstrs + 1, sizeof *k->uses);
	return k;
}

void vm_check_free(struct vm_check *k, const struct vm_program *p, const struct vm_memory *m)
{
	if (!k) return;
	vm_race_free(k, m);
	for (int i = 0; k->taints && i < p->nvalues; i++) free(k->taints[i].lanes);
	free(k->taints);
	free(k->uses);
	free(k->findings);
	free(k->keys);
	free(k);
}

void vm_check_program(struct vm_ctx *c, int64_t number)
{
	struct vm_check *k = c->check;
	if (k->uses && number > 0) k->idle_programs += !k->is_active;
	k->is_active = false;
	k->program = number;
	k->first = MAX(k->nrecords, 1u);
	if (k->order.is_on) vm_order_program(&k->order);
	if (c->is_tainted) vm_taint_clear(c);
}

void vm_check_program_id(const struct vm_ctx *c, int64_t number, uint32_t id[3])
{
	id[0] = (uint32_t)(number % c->grid[0]);
	id[1] = (uint32_t)(number / c->grid[0] % c->grid[1]);
	id[2] = (uint32_t)(number / c->grid[0] / c->grid[1]);
}

/* ---- findings ---- */

static struct vm_finding *finding_new(
	struct vm_ctx *c, const struct vm_instr *in, const struct finding_key *key, int64_t element, const char *text)
{
	struct vm_check *k = c->check;
	const struct vm_source *at = &c->program->locs[in->loc];
	if (k->nfindings == k->findings_max) {
		k->dropped++;
		return NULL;
	}
	k->keys[k->nfindings] = *key;
	struct vm_finding *f = &k->findings[k->nfindings++];
	*f = (struct vm_finding){.fault = (enum vm_fault)key->fault,
		.note = (enum vm_note)key->note,
		.line = at->line,
		.column = at->column,
		.element = element,
		.buffer = -1,
		.argument = -1,
		.offset = -1,
		.bytes = -1,
		.other_line = -1,
		.other_column = -1};
	snprintf(f->file, sizeof f->file, "%.127s", at->file);
	snprintf(f->expression, sizeof f->expression, "%.63s", at->name);
	snprintf(f->text, sizeof f->text, "%.319s", text);
	memcpy(f->program, c->id, sizeof f->program);
	return f;
}

static struct vm_finding *finding_add(struct vm_ctx *c, const struct vm_instr *in, enum vm_fault fault,
	enum vm_note note, int64_t element, const char *text)
{
	struct vm_check *k = c->check;
	struct finding_key key = {in->loc, (uint8_t)fault, (uint8_t)note, -1};
	int i = k->nfindings - 1;
	while (i >= 0 && (k->keys[i].loc != key.loc || k->keys[i].fault != key.fault || k->keys[i].note != key.note)) i--;
	struct vm_finding *f = i >= 0 ? &k->findings[i] : finding_new(c, in, &key, element, text);
	k->last = f;
	if (!f) return NULL;
	f->times++;
	i = (int)(f - k->findings);
	if (k->keys[i].last_program != k->program) f->programs++;
	k->keys[i].last_program = k->program;
	return f;
}

int vm_fault(struct vm_ctx *c, const struct vm_instr *in, enum vm_fault fault, int64_t element, const char *fmt, ...)
{
	struct vm_report *r = c->report;
	const struct vm_source *at = &c->program->locs[in->loc];
	char what[320];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (c->check) finding_add(c, in, fault, VM_NOTE_NONE, element, what);
	if (r->fault != VM_FAULT_NONE) return 1; /* passed over before: the first one stays */
	r->fault = fault;
	r->file = at->file;
	r->access = NULL;
	r->line = at->line;
	r->column = at->column;
	memcpy(r->program, c->id, sizeof r->program);
	r->element = element;
	const char *base = strrchr(at->file, '/');
	snprintf(r->text, sizeof r->text, "%s: %.120s:%d:%d in %.80s, program (%u,%u,%u): %.256s", vm_fault_name(fault),
		base ? base + 1 : at->file, at->line, at->column, c->kernel->name, c->id[0], c->id[1], c->id[2], what);
	return 1;
}

struct vm_finding *vm_check_note(
	struct vm_ctx *c, const struct vm_instr *in, enum vm_note note, int64_t element, const char *fmt, ...)
{
	char what[320];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (!c->check->findings_max) return NULL;
	return finding_add(c, in, VM_FAULT_NONE, note, element, what);
}

static int argument_of(const struct vm_ctx *c, uint64_t index)
{
	for (int i = 0; i < c->kernel->nargs; i++)
		if (vm_kernel_arg_is_pointer(c->kernel, i) && (uint64_t)c->args[i].i >> TAPE_ADDRESS_SHIFT == index) return i;
	return -1;
}

const char *vm_check_buffer_name(const struct vm_ctx *c, uint64_t index, char text[96])
{
	int arg = argument_of(c, index);
	if (arg >= 0) snprintf(text, 96, "%.60s", vm_kernel_arg_name(c->kernel, arg));
	else snprintf(text, 96, "buffer %llu", (unsigned long long)index - 1);
	return text;
}

void vm_check_where(struct vm_ctx *c, uint64_t index, int64_t offset)
{
	struct vm_finding *f = c->check ? c->check->last : NULL;
	if (!f || f->times > 1) return;
	const struct vm_buffer *b = vm_buffer_at(c->memory, index);
	if (!b) return;
	f->buffer = (int)index - 1;
	f->argument = argument_of(c, index);
	f->offset = offset;
	f->bytes = b->bytes;
	char name[96];
	snprintf(f->name, sizeof f->name, "%.63s", vm_check_buffer_name(c, index, name));
}

/* ---- the end ---- */

void vm_check_finish(struct vm_ctx *c, struct vm_report *r, bool was_stopped)
{
	struct vm_check *k = c->check;
	if (k->uses && !was_stopped) vm_notes_finish(c);
	if (k->is_incomplete && !k->goes_on && !was_stopped)
		vm_fault(c, c->program->instrs, VM_FAULT_UNSUPPORTED, -1, "races cannot be looked for to the end: %s",
			k->incomplete_why);
	else if (k->is_incomplete)
		vm_check_note(c, c->program->instrs, VM_NOTE_UNCHECKED, -1, "races were not looked for to the end: %s",
			k->incomplete_why);
	r->nfindings = k->nfindings;
	r->findings = k->findings;
	r->findings_dropped = k->dropped;
	k->findings = NULL;
}
