/* Faults: what a program did that it may not, where, and the list of findings of a launch with
 * checks. Below everything that runs. */
#include "vm/core/state.h"
#include "base/base.h"
#include "tape/tape.h"

/* ---- names ---- */

const char *vm_fault_name(enum vm_fault f)
{
	static const char *const names[VM_FAULT_COUNT] = {
		"none",
		"out-of-bounds",
		"misaligned",
		"uninitialised",
		"read-only",
		"division-by-zero",
		"assert",
		"timeout",
		"argument",
		"unsupported",
		"race",
		"index-overflow",
		"needs-co-residency",
		"order-dependent",
	};
	CHECKF((unsigned)f < VM_FAULT_COUNT, "fault %d", (int)f);
	return names[f];
}

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

/* ---- findings ---- */

static struct vm_finding *finding_new(
	struct vm_ctx *c, const struct vm_instr *in, const struct finding_key *key, int64_t element, const char *text)
{
	struct vm_findings *k = c->found;
	const struct vm_source *at = &c->program->locs[in->loc];
	/* A list that is full counts what it drops. */
	if (k->count == k->max) {
		k->dropped++;
		return NULL;
	}
	k->keys[k->count] = *key;
	struct vm_finding *f = &k->list[k->count++];
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
	/* Copies: a finding outlives the kernel. */
	snprintf(f->file, sizeof f->file, "%.127s", at->file);
	snprintf(f->expression, sizeof f->expression, "%.63s", at->name);
	snprintf(f->text, sizeof f->text, "%.319s", text);
	memcpy(f->program, c->id, sizeof f->program);
	return f;
}

static struct vm_finding *finding_add(struct vm_ctx *c, const struct vm_instr *in, enum vm_fault fault,
	enum vm_note note, int64_t element, const char *text)
{
	struct vm_findings *k = c->found;
	struct finding_key key = {in->loc, (uint8_t)fault, (uint8_t)note, -1};
	int i = k->count - 1;
	while (i >= 0 && (k->keys[i].loc != key.loc || k->keys[i].fault != key.fault || k->keys[i].note != key.note)) i--;
	struct vm_finding *f = i >= 0 ? &k->list[i] : finding_new(c, in, &key, element, text);
	k->last = f;
	if (!f) return NULL;
	f->times++;
	i = (int)(f - k->list);
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
	if (c->found) finding_add(c, in, fault, VM_NOTE_NONE, element, what);
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

struct vm_finding *vm_note(
	struct vm_ctx *c, const struct vm_instr *in, enum vm_note note, int64_t element, const char *fmt, ...)
{
	char what[320];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	if (!c->found->max) return NULL;
	return finding_add(c, in, VM_FAULT_NONE, note, element, what);
}

static int argument_of(const struct vm_ctx *c, uint64_t index)
{
	for (int i = 0; i < c->kernel->nargs; i++)
		if (vm_arg_is_pointer(c->kernel, i) && (uint64_t)c->args[i].i >> TAPE_ADDRESS_SHIFT == index) return i;
	return -1;
}

const char *vm_buffer_name(const struct vm_ctx *c, uint64_t index, char text[96])
{
	int arg = argument_of(c, index);
	if (arg >= 0) snprintf(text, 96, "%.60s", c->kernel->arg_names[arg]);
	else snprintf(text, 96, "buffer %llu", (unsigned long long)index - 1);
	return text;
}

void vm_finding_where(struct vm_ctx *c, uint64_t index, int64_t offset)
{
	struct vm_finding *f = c->found ? c->found->last : NULL;
	if (!f || f->times > 1) return;
	const struct vm_buffer *b = vm_buffer_at(c->memory, index);
	if (!b) return;
	f->buffer = (int)index - 1;
	f->argument = argument_of(c, index);
	f->offset = offset;
	f->bytes = b->bytes;
	char name[96];
	snprintf(f->name, sizeof f->name, "%.63s", vm_buffer_name(c, index, name));
}
