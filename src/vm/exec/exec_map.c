/* Element-wise instructions over values of any form: lazily where a rule applies, on one element
 * when all operands are splats, else over buffers. 16- and 8-bit floats run the f32 kernel on
 * strips that are converted on the way in and out: one rounding per operation, as the hardware does
 * (f32 has more than twice their precision, so rounding twice gives the same: Figueroa 1995). */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/map/map.h"
#include "vm/meter/meter.h"

struct operands {
	const void *p[3];
	unsigned splat;
	struct vm_buf *temp[3];
};

/* A kernel takes at most two operands with splats; of three, splats are
 * expanded into a temporary. */
static int operand_get(struct vm_ctx *c, const struct vm_instr *in, int i, int64_t n, struct operands *o)
{
	int id = vm_src(c, in, i);
	struct vm_value *v = &c->values[id];
	if (v->form != FORM_SPLAT) {
		o->p[i] = vm_dense(c, in, id, n);
		return o->p[i] ? 0 : 1;
	}
	if (in->nsrc < 3 || n == 1) {
		o->p[i] = v->splat;
		o->splat |= 1u << i;
		return 0;
	}
	size_t size = elem_bytes(c->program->values[id].elem);
	o->temp[i] = vm_buf_get(c, in, (size_t)n * size);
	if (!o->temp[i]) return 1;
	vm_fill(o->temp[i]->data, v->splat, size, n);
	o->p[i] = o->temp[i]->data;
	return 0;
}

/* The buffer of a dying dense operand of the right size becomes the result's. */
static struct vm_buf *steal(struct vm_ctx *c, const struct vm_instr *in)
{
	size_t size = elem_bytes((enum elem)in->result_elem);
	for (int i = 0; i < in->nsrc; i++) {
		struct vm_value *v = &c->values[vm_src(c, in, i)];
		if (!(in->kill >> i & 1) || v->form != FORM_DENSE || v->buf->refs != 1 ||
			elem_bytes(c->program->values[vm_src(c, in, i)].elem) != size)
			continue;
		struct vm_buf *b = v->buf;
		v->buf = NULL;
		v->form = FORM_SPLAT;
		return b;
	}
	return NULL;
}

static void run_narrow(const struct vm_instr *in, void *d, const struct operands *o, int64_t n)
{
	float strip[3][VM_STRIP], out[VM_STRIP];
	enum elem e = (enum elem)in->elem, re = (enum elem)in->result_elem;
	size_t size = elem_bytes(e), rsize = elem_bytes(re);
	for (int i = 0; i < in->nsrc; i++)
		if (o->splat >> i & 1) map_widen(e, strip[i], o->p[i], 1);
	for (int64_t at = 0; at < n; at += VM_STRIP) {
		int64_t m = MIN(n - at, VM_STRIP);
		for (int i = 0; i < in->nsrc; i++)
			if (!(o->splat >> i & 1)) map_widen(e, strip[i], (const uint8_t *)o->p[i] + (size_t)at * size, m);
		uint8_t *to = (uint8_t *)d + (size_t)at * rsize;
		in->kernel(elem_is_narrow(re) ? (void *)out : (void *)to, strip[0], strip[1], strip[2], m, o->splat);
		if (elem_is_narrow(re)) map_narrow(re, to, out, m);
	}
}

void vm_map_narrow(const struct vm_instr *in, void *d, const void *a, const void *b, int64_t n)
{
	struct operands o = {.p = {a, b}};
	struct vm_instr two = *in;
	two.nsrc = 2;
	two.result_elem = in->elem;
	run_narrow(&two, d, &o, n);
}

static int run_dense(struct vm_ctx *c, const struct vm_instr *in, int64_t n, bool narrow)
{
	struct operands o = {.splat = 0};
	int rc = 0;
	for (int i = 0; i < in->nsrc && !rc; i++) rc = operand_get(c, in, i, n, &o);
	if (!rc) {
		struct vm_buf *b = steal(c, in);
		if (!b) b = vm_buf_get(c, in, (size_t)n * elem_bytes((enum elem)in->result_elem));
		if (b) {
			if (narrow) run_narrow(in, b->data, &o, n);
			else in->kernel(b->data, o.p[0], o.p[1], o.p[2], n, o.splat);
			vm_value_dense(c, vm_dst(c, in, 0), b);
		} else {
			rc = 1;
		}
	}
	for (int i = 0; i < 3; i++) vm_buf_put(c, o.temp[i]);
	if (!rc) vm_kill(c, in);
	return rc;
}

static void run_splat(struct vm_ctx *c, const struct vm_instr *in, bool narrow)
{
	struct operands o = {.splat = 0};
	uint64_t bits = 0;
	for (int i = 0; i < in->nsrc; i++) o.p[i] = c->values[vm_src(c, in, i)].splat;
	if (narrow) run_narrow(in, &bits, &o, 1);
	else in->kernel(&bits, o.p[0], o.p[1], o.p[2], 1, 0);
	vm_result_splat(c, in, 0, &bits);
}

int exec_map(struct vm_ctx *c, const struct vm_instr *in)
{
	int64_t n = in->n ? in->n : c->lanes;
	if (c->want_cost) vm_cost_map(c, in, n);
	bool all_splat = true;
	for (int i = 0; i < in->nsrc; i++) all_splat &= c->values[vm_src(c, in, i)].form == FORM_SPLAT;
	bool narrow = in->imm[0];
	if (all_splat) {
		run_splat(c, in, narrow);
		return 0;
	}
	if (in->rule && in->rule(c, in)) {
		vm_kill(c, in);
		return 0;
	}
	return run_dense(c, in, n, narrow);
}

/* Integer division: a scalar divisor of zero is a fault. In a block the lane may be masked off
 * later, as it is on the GPU, where the instruction does not trap: the kernels give what the
 * hardware gives. */
int exec_divide(struct vm_ctx *c, const struct vm_instr *in)
{
	const struct vm_value *v = &c->values[vm_src(c, in, 1)];
	if (v->form == FORM_SPLAT) {
		uint64_t bits = 0;
		memcpy(&bits, v->splat, elem_bytes((enum elem)in->elem));
		if (!bits) return vm_fault(c, in, VM_FAULT_DIVISION_BY_ZERO, -1, "integer division, the divisor is 0");
	}
	return exec_map(c, in);
}

/* select(mask, x, y): a mask that is the same everywhere shares x or y. */
int exec_select(struct vm_ctx *c, const struct vm_instr *in)
{
	int64_t n = in->n ? in->n : c->lanes;
	struct vm_value *mask = &c->values[vm_src(c, in, 0)];
	/* The same everywhere: one operand, in whatever form it has. */
	if (mask->form == FORM_SPLAT) {
		struct vm_value picked = c->values[vm_src(c, in, mask->splat[0] ? 1 : 2)];
		if (picked.buf) picked.buf->refs++;
		vm_kill(c, in);
		struct vm_value *r = &c->values[vm_dst(c, in, 0)];
		vm_value_clear(c, r);
		*r = picked;
		return 0;
	}
	/* Else element by element; a splat among x and y stays one element. */
	struct operands o = {.splat = 0};
	o.p[0] = vm_dense(c, in, vm_src(c, in, 0), n);
	if (!o.p[0]) return 1;
	for (int i = 1; i < 3; i++) {
		struct vm_value *v = &c->values[vm_src(c, in, i)];
		if (v->form == FORM_SPLAT) {
			o.p[i] = v->splat;
			o.splat |= 1u << i;
			continue;
		}
		o.p[i] = vm_dense(c, in, vm_src(c, in, i), n);
		if (!o.p[i]) return 1;
	}
	struct vm_buf *b = vm_buf_get(c, in, (size_t)n * elem_bytes((enum elem)in->result_elem));
	if (!b) return 1;
	in->kernel(b->data, o.p[0], o.p[1], o.p[2], n, o.splat);
	vm_value_dense(c, vm_dst(c, in, 0), b);
	vm_kill(c, in);
	return 0;
}
