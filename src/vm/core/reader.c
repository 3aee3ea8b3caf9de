/* A value as doubles, a strip at a time, whatever its type. */
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"

bool vm_reader_make(struct vm_ctx *c, const struct vm_instr *in, int operand, int64_t n, struct vm_reader *r)
{
	int id = vm_src(c, in, operand);
	const struct vm_value *v = &c->values[id];
	r->elem = c->program->values[id].elem;
	r->is_splat = v->form == FORM_SPLAT;
	r->data = r->is_splat ? v->splat : vm_dense(c, in, id, n);
	return r->data != NULL;
}

static void read_ints(const uint8_t *data, enum elem e, int64_t n, double *out)
{
	size_t size = elem_bytes(e);
	int shift = e == ELEM_I1 ? 0 : 64 - 8 * (int)size;
	for (int64_t i = 0; i < n; i++) {
		int64_t bits = 0;
		memcpy(&bits, data + (size_t)i * size, size);
		out[i] = (double)((int64_t)((uint64_t)bits << shift) >> shift);
	}
}

const double *vm_reader_strip(struct vm_reader *r, int64_t at, int64_t m)
{
	float wide[VM_STRIP];
	const uint8_t *from = r->data + (r->is_splat ? 0 : (size_t)at * elem_bytes(r->elem));
	int64_t n = r->is_splat ? 1 : m;
	if (r->is_splat && at) return r->strip; /* as it was read the first time */
	if (r->elem == ELEM_F64) {
		memcpy(r->strip, from, (size_t)n * sizeof *r->strip);
	} else if (elem_is_float(r->elem)) {
		const float *f = (const void *)from;
		if (r->elem != ELEM_F32) {
			map_widen(r->elem, wide, from, n);
			f = wide;
		}
		for (int64_t i = 0; i < n; i++) r->strip[i] = (double)f[i];
	} else {
		read_ints(from, r->elem, n, r->strip);
	}
	for (int64_t i = 1; r->is_splat && i < VM_STRIP; i++) r->strip[i] = r->strip[0];
	return r->strip;
}
