/* launcher_vm_coverage: which sides of their comparisons the launches of a trial took, and what is
 * asked of one such site: an aim at it, and its gate turned (vm.h). */
#include "runner/launcher_vm.h"
#include "base/base.h"
#include "tape/tape.h"
#include "vm/vm.h"

#define RUNNER_SITE_STRIDE 65536 /* between the sites of two kernels */

struct vm_coverage *launcher_vm_coverage(struct launcher_vm *v, int kernel)
{
	struct cached_kernel *c = &v->cached[v->cached_of[kernel]];
	if (!c->coverage) c->coverage = vm_coverage_create(c->kernel);
	return c->coverage;
}

/* Temporaries that launches alone write; what torch or the host writes, or
 * gives, may be anything. */
static void held_create(struct launcher_vm *v)
{
	const struct tape *t = v->tape;
	v->held = xcalloc((size_t)t->nbuffers + 1, sizeof *v->held);
	v->held_at = xcalloc((size_t)t->nrows + 1, sizeof *v->held_at);
	v->held_changes = 1;
	bool has_library = false;
	for (int i = 0; i < t->nrows; i++) has_library |= t->rows[i].kind == TAPE_LIBRARY;
	for (int b = 0; b < t->nbuffers; b++)
		if (t->buffers[b].kind != TAPE_TEMP || has_library) v->held[b].state = HELD_ANYTHING;
	for (int i = 0; i < t->nrows; i++)
		if (t->rows[i].kind == TAPE_FILL || t->rows[i].kind == TAPE_COPY)
			v->held[t->rows[i].dst.buffer].state = HELD_ANYTHING;
}

void launcher_vm_hold(struct launcher_vm *v, int row, struct vm_coverage *c, const struct vm_arg *args, int nargs,
	const uint64_t *address, const int *ids, int n)
{
	struct vm_held *held[2 * TAPE_ARGS_MAX + 1] = {0};
	const struct vm_kernel *kernel = v->kernels[v->tape->rows[row].kernel];
	if (!v->held) held_create(v);
	/* The same again, and the same comes of it. */
	if (v->held_at[row] == v->held_changes) return;
	/* A copy is of what it was copied from. */
	for (int i = 0; i < v->tape->nrows; i++)
		if (v->tape->rows[i].kind == TAPE_COPY)
			v->held[v->tape->rows[i].dst.buffer].mix |= v->held[v->tape->rows[i].src.buffer].mix;
	for (int i = 0; i < nargs; i++)
		for (int b = 0; b < n && vm_kernel_arg_is_pointer(kernel, i); b++)
			if (address[b] >> TAPE_ADDRESS_SHIFT == (uint64_t)args[i].i >> TAPE_ADDRESS_SHIFT)
				held[i] = &v->held[ids[b]];
	v->held_changes += vm_coverage_held(c, held, nargs);
	v->held_at[row] = v->held_changes;
}

static void site_report(const struct vm_site *s, int id, int kernel, struct runner_coverage *out)
{
	struct runner_site *to = &out->sites[out->nsites++];
	*to = (struct runner_site){.id = id,
		.kernel = kernel,
		.line = s->line,
		.column = s->column,
		.kind = s->kind,
		.is_equality = s->is_equality,
		.is_one_value = s->is_gate && s->results == 1,
		.wanted = s->wanted,
		.taken = s->taken,
		.low = s->low,
		.high = s->high,
		.constant = s->constant,
		.least = s->least,
		.most = s->most,
		.nearest = s->nearest};
	to->nfixed = vm_site_fixed(s, to->fixed);
	snprintf(to->what, sizeof to->what, "%s", s->what);
}

void launcher_vm_coverage_report(struct launcher_vm *v, struct runner_coverage *out)
{
	out->sites = xcalloc(RUNNER_SITES_MAX, sizeof *out->sites);
	for (int k = 0; k < v->tape->nkernels; k++) {
		bool is_first = true;
		for (int before = 0; before < k; before++) is_first &= v->cached_of[before] != v->cached_of[k];
		struct vm_coverage *c = v->cached[v->cached_of[k]].coverage;
		const struct vm_site *sites = NULL;
		int n = is_first && c ? vm_coverage_sites(c, &sites) : 0, gate_line = 0;
		if (n && vm_coverage_gates(c, &gate_line)) out->gate_line = MAX(gate_line, 1);
		for (int i = 0; i < n; i++) {
			uint8_t taken = sites[i].taken & sites[i].wanted;
			/* Lost digits are no side that anybody searches for: told where there are any. */
			if (sites[i].kind == SITE_DIGITS) {
				if (taken && out->nsites < RUNNER_SITES_MAX) site_report(&sites[i], k * RUNNER_SITE_STRIDE + i, k, out);
				continue;
			}
			/* Nor is a sum's term, unless it counted for nothing, or a step that
			 * left its first result. */
			if (vm_site_is_quiet(sites[i].kind)) {
				bool is_told = sites[i].wanted && (!taken || sites[i].is_told);
				if (is_told && out->nsites < RUNNER_SITES_MAX)
					site_report(&sites[i], k * RUNNER_SITE_STRIDE + i, k, out);
				continue;
			}
			out->sides += __builtin_popcount(sites[i].wanted);
			out->taken += __builtin_popcount(taken);
			if (sites[i].wanted && out->nsites < RUNNER_SITES_MAX)
				site_report(&sites[i], k * RUNNER_SITE_STRIDE + i, k, out);
		}
		if (n) vm_coverage_begin(c);
	}
}

struct vm_aim *launcher_vm_aim(struct launcher *l, int site, enum vm_side side)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	int kernel = site / RUNNER_SITE_STRIDE;
	if (kernel >= v->tape->nkernels) return NULL;
	struct cached_kernel *c = &v->cached[v->cached_of[kernel]];
	return c->coverage ? vm_aim_create(c->kernel, c->coverage, site % RUNNER_SITE_STRIDE, side) : NULL;
}

void launcher_vm_turn(struct launcher *l, enum vm_turn turn)
{
	struct launcher_vm *v = (struct launcher_vm *)l;
	for (int k = 0; k < v->tape->nkernels; k++) {
		struct vm_coverage *c = v->cached[v->cached_of[k]].coverage;
		if (c) vm_coverage_turn(c, turn);
	}
}
