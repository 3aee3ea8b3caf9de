/* Which instructions of a text always gave one result, though what they were given changed: a
 * comparison of registers that no input turned, a product that was 0. Nobody searches inputs inside
 * of assembly, so these are turned as a whole, as gates are (check/check_gate.c). */
#include "vm/ptx/ptx.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include <stdlib.h>

/* How many of the sources have to change, or, of a product, not to be 0. 0: not watched. Numbers
 * that are no numbers are what an honest kernel asks for in vain. */
static int needed(const struct ptx_instr *in)
{
	const char *name = in->row->name;
	if (in->nresults < 1 || in->nsources < 2) return 0;
	if (!strcmp(name, "setp"))
		return in->compare == ptx_compare_find("nan") || in->compare == ptx_compare_find("num") ? 0 : 1;
	if (!strcmp(name, "min") || !strcmp(name, "max")) return 1;
	return in->row->nsources == 2 || ptx_still_is_joined(in) ? 2 : 0;
}

bool ptx_still_is_joined(const struct ptx_instr *in)
{
	const char *name = in->row->name;
	return !strcmp(name, "mad") || !strcmp(name, "mad24") || !strcmp(name, "fma");
}

static bool is_product(const struct ptx_instr *in) { return !strncmp(in->row->name, "mul", 3); }

struct ptx_still *ptx_still_make(const struct ptx_program *p)
{
	struct ptx_still *all = xcalloc((size_t)p->ninstrs + 1, sizeof *all);
	for (int i = 0; i < p->ninstrs; i++) all[i].needed = (uint8_t)needed(&p->instrs[i]);
	return all;
}

bool ptx_still_is(const struct ptx_program *p, const struct ptx_still *all, int i)
{
	const struct ptx_still *s = &all[i];
	const struct ptx_instr *in = &p->instrs[i];
	int moved = __builtin_popcount(s->moved & 3);
	bool is_zero = !is_product(in) || !(in->type->kind == 'f' ? s->result << (65 - in->type->bits) : s->result);
	return s->needed && s->results == 1 && moved >= s->needed && is_zero;
}

/* Whether the product of the first two sources is 0 in front of the sum. */
static bool is_sum_alone(const struct ptx_instr *in, const uint64_t *x)
{
	uint64_t product[PTX_SOURCES_MAX] = {x[0], x[1]}, r[PTX_RESULTS_MAX];
	in->row->eval(in, product, r);
	return !(in->type->kind == 'f' ? r[0] << (65 - in->type->bits) : r[0]);
}

void ptx_still_look(struct ptx_still *s, const struct ptx_instr *in, const uint64_t *x, const uint64_t *r)
{
	bool is_joined = ptx_still_is_joined(in);
	if (!s->needed || s->results == 2) return;
	for (int i = 0; i < 2; i++) {
		if (!s->results) s->first[i] = x[i];
		bool is_zero = !(in->type->kind == 'f' ? x[i] << (65 - in->type->bits) : x[i]);
		s->moved |= (uint8_t)((is_joined || is_product(in) ? !is_zero : x[i] != s->first[i]) << i);
	}
	if (is_joined) s->results = is_sum_alone(in, x) ? 1 : 2;
	else if (!s->results) s->results = 1;
	else if (r[0] != s->result) s->results = 2;
	if (!is_joined && s->results == 1) s->result = r[0];
}

/* 1 of a type, as bits. */
static uint64_t one(const struct ptx_type *t)
{
	uint64_t bits = t->kind != 'f' ? 1
		: t->bits == 64            ? 0x3ff0000000000000u
		: t->bits == 32            ? 0x3f800000
		: t->elem == ELEM_F16      ? 0x3c00
								   : 0x3f80;
	for (int lane = 1; lane < t->lanes; lane++) bits |= bits << (lane * t->bits);
	return bits;
}

void ptx_still_turn(const struct ptx_still *s, const struct ptx_instr *in, const uint64_t *x, uint64_t *r)
{
	uint64_t by = one(in->type);
	if (s->turn > 1) by |= in->type->kind == 'f' ? by << 1 : (uint64_t)1 << (in->type->bits - 1);
	if (in->compare >= 0) {
		for (int i = 0; i < in->nresults; i++) r[i] ^= 1;
	} else if (ptx_still_is_joined(in)) {
		uint64_t sources[PTX_SOURCES_MAX] = {by, one(in->type), x[2]};
		in->row->eval(in, sources, r);
	} else {
		r[0] ^= by;
	}
}
