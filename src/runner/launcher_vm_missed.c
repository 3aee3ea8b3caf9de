/* launcher_vm_missed: which elements of what was given the launches of a tape leave
 * out: a launch by itself (vm.h, missed), and all of them together, through whole
 * copies and small temporaries. */
#include "runner/launcher_vm.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <stdlib.h>

#define MADE_BYTES_MAX 65536 /* of a temporary of which it is kept what stores were made of */
#define MADE_MAX 16          /* such temporaries of a tape */
#define UNREAD_MAX 32        /* elements of a buffer that are reported */

/* Whether several launches use a buffer, so that one may read what another made. */
static bool is_shared(const struct tape *t, int buffer)
{
	int launches = 0;
	for (int i = 0; i < t->nrows && launches < 2; i++) {
		bool uses = false;
		for (int a = 0; t->rows[i].kind == TAPE_LAUNCH && a < t->rows[i].nargs; a++)
			uses |= tape_arg_has_buffer(&t->rows[i].args[a]) && t->rows[i].args[a].buffer == buffer;
		launches += uses;
	}
	return launches > 1;
}

/* What was given and stays is followed, and small temporaries between launches, which lead back to
 * it. */
void launcher_vm_follow(struct launcher_vm *v)
{
	const struct tape *t = v->tape;
	v->followed = xcalloc((size_t)t->nbuffers + 1, sizeof *v->followed);
	for (int b = 0, made = 0; b < t->nbuffers; b++) {
		struct vm_followed *f = &v->followed[b];
		bool is_made = t->buffers[b].kind == TAPE_TEMP && t->buffers[b].bytes <= MADE_BYTES_MAX && made < MADE_MAX &&
			is_shared(t, b);
		if (!v->memory[b].is_read_only && !is_made) continue;
		*f = (struct vm_followed){.name = tape_buffer_address(b)};
		f->is_read = xcalloc((size_t)t->buffers[b].bytes + 1, 1);
		if (is_made) f->made_of = xcalloc((size_t)t->buffers[b].bytes + 1, sizeof *f->made_of);
		made += is_made;
		v->memory[b].followed = f;
	}
}

void launcher_vm_follow_end(struct launcher_vm *v)
{
	for (int b = 0; v->followed && b < v->nbuffers; b++) {
		free(v->followed[b].is_read);
		free(v->followed[b].made_of);
		v->memory[b].followed = NULL;
	}
	free(v->followed);
	v->followed = NULL;
}

/* A whole copy is what it is a copy of; anything else that a row moves is not followed. */
void launcher_vm_follow_move(struct launcher_vm *v, const struct tape_row *row)
{
	const struct tape_view *from = &row->src, *to = &row->dst;
	struct vm_followed *f = &v->followed[to->buffer];
	int64_t bytes = v->tape->buffers[to->buffer].bytes;
	bool is_whole = row->kind == TAPE_COPY && from->dtype == to->dtype && !from->offset_bytes && !to->offset_bytes &&
		tape_view_is_contiguous(from) && tape_view_is_contiguous(to) && v->followed[from->buffer].is_read &&
		!v->followed[from->buffer].made_of && bytes == v->tape->buffers[from->buffer].bytes &&
		tape_view_elements(to) * (int64_t)dtype_bytes(to->dtype) == bytes;
	free(f->made_of);
	free(f->is_read);
	*f = (struct vm_followed){.name = 0};
	v->memory[to->buffer].followed = NULL;
	if (!is_whole) return;
	f->name = v->followed[from->buffer].name;
	f->is_read = xcalloc((size_t)bytes + 1, 1);
	v->memory[to->buffer].followed = f;
}

static void missed_add(struct runner_coverage *out, struct vm_missed_at at)
{
	if (!at.size || out->nmissed == RUNNER_MISSED_MAX) return;
	for (int i = 0; i < out->nmissed; i++)
		if (out->missed[i].name == at.name) return;
	if (!out->missed) out->missed = xcalloc(RUNNER_MISSED_MAX, sizeof *out->missed);
	out->missed[out->nmissed++] = (struct runner_missed){.name = at.name, .size = at.size, .line = at.line};
}

static void small_add(struct runner_coverage *out, double x)
{
	bool is_new = out->nsmall < VM_SMALL_MAX;
	for (int i = 0; i < out->nsmall; i++) is_new &= out->small[i] != x;
	if (is_new) out->small[out->nsmall++] = x;
}

void launcher_vm_missed_report(const struct vm_missed *missed, struct runner_coverage *out)
{
	const struct vm_missed_at *elements = NULL;
	const double *small = NULL;
	int nelements = vm_missed_list(missed, &elements), nsmall = vm_missed_small(missed, &small);
	for (int i = 0; i < nelements; i++) missed_add(out, elements[i]);
	for (int i = 0; i < nsmall; i++) small_add(out, small[i]);
}

void launcher_vm_unread_report(const struct launcher_vm *v, struct runner_coverage *out)
{
	for (int b = 0; b < v->nbuffers; b++) {
		const struct vm_followed *f = &v->followed[b];
		int64_t size = f->size, n = size ? v->tape->buffers[b].bytes / size : 0, left = 0;
		for (int64_t i = 0; i < n; i++) left += !f->is_read[i * size];
		int64_t stride = MAX((left + UNREAD_MAX - 1) / UNREAD_MAX, 1), at = 0;
		for (int64_t i = 0; i < n && left; i++)
			if (!f->is_read[i * size] && at++ % stride == 0)
				missed_add(out, vm_followed_at(f, i * size, (int)size, f->line));
	}
}
