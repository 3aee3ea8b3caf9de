/* Inline assembly over the elements of blocks, lane by lane (lower_asm.c says what belongs
 * together). */
#include "vm/exec/exec.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/check/check.h"
#include "vm/core/program.h"
#include "vm/core/state.h"
#include "vm/meter/meter.h"
#include "vm/ptx/ptx.h"
#include <stdlib.h>

struct asm_array {
	uint8_t *data;
	size_t size;
	bool is_splat;
};

/* How n elements lie in packs. */
struct pack {
	int64_t step; /* elements from one pack to the next */
	int64_t next; /* from one element of a pack to its next */
	int64_t n;
};

/* What a register holds that nothing wrote yet: anything, and something else in each lane. A GPU
 * promises no value, so none may do. */
static void scramble(uint64_t *regs, int n)
{
	for (int i = 0; i < n; i++) regs[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
}

/* Elements of packs [at, at + lanes) into a slot's register, or back. What is beyond the last
 * element is 0. */
static void move_slot(
	const struct asm_slot *s, const struct asm_array *a, uint64_t *reg, const struct pack *packs, int64_t at, int lanes)
{
	for (int lane = 0; lane < lanes; lane++) {
		uint64_t bits = s->is_result ? reg[lane] : 0;
		for (int k = 0; k < s->count; k++) {
			int64_t element = (at + lane) * packs->step + (s->first + k) * packs->next;
			if (element >= packs->n) break;
			uint8_t *p = a->data + (a->is_splat ? 0 : (size_t)element * a->size);
			uint64_t one = 0;
			if (s->is_result) {
				one = bits >> (8 * a->size * (size_t)k);
				memcpy(p, &one, a->size);
			} else {
				memcpy(&one, p, a->size);
				bits |= one << (8 * a->size * (size_t)k);
			}
		}
		reg[lane] = bits;
	}
}

/* All operands' elements to their registers, or all results' back. */
static void move_slots(const struct asm_block *b, bool is_result, const struct asm_array *arrays, uint64_t *regs,
	const struct pack *packs, int64_t at, int lanes)
{
	for (int i = 0; i < b->nslots; i++) {
		const struct asm_slot *s = &b->slots[i];
		if (s->is_result == is_result) move_slot(s, &arrays[s->operand], regs + s->reg * PTX_LANES, packs, at, lanes);
	}
}

/* What the text adds, for who watches terms. All heap. */
struct sums {
	int n; /* additions; 0: nobody watches */
	bool *known;
	double *numbers;
	int64_t npairs;
	struct vm_sum_pair *pairs;
};

static void sums_make(struct sums *s, const struct ptx_program *p, int64_t packs)
{
	s->n = ptx_sums(p, NULL);
	s->known = xmalloc(2 * (size_t)s->n + 1);
	ptx_sums(p, s->known);
	s->numbers = xmalloc(size_mul((size_t)s->n * 2 * PTX_LANES + 1, sizeof *s->numbers));
	s->pairs = xmalloc(size_mul((size_t)packs * (size_t)s->n + 1, sizeof *s->pairs));
}

static void sums_take(struct sums *s, const struct pack *packs, int64_t at, int lanes)
{
	for (int lane = 0; lane < lanes; lane++)
		for (int k = 0; k < s->n; k++) {
			const double *x = s->numbers + (size_t)k * 2 * PTX_LANES + lane;
			s->pairs[s->npairs++] = (struct vm_sum_pair){.x = {x[0], x[PTX_LANES]},
				.is_known = {s->known[2 * k], s->known[2 * k + 1]},
				.term = 2 * k,
				.number = k,
				.source = {SUM_ANY, SUM_ANY},
				.element = MIN((at + lane) * packs->step, packs->n - 1)};
		}
}

static void run_packs(struct vm_ctx *c, const struct vm_instr *in, uint64_t *regs, const struct asm_array *results,
	const struct asm_array *operands, int64_t n)
{
	const struct asm_block *b = in->extra;
	struct vm_coverage *coverage = c->coverage;
	struct ptx_still *still = coverage ? coverage->texts[in - c->program->instrs] : NULL;
	int64_t count = (n + b->pack - 1) / b->pack;
	struct pack packs = {c->crosswise ? 1 : b->pack, c->crosswise ? count : 1, n};
	struct sums sums = {.n = 0};
	if (vm_sum_wants_pairs(c, in)) sums_make(&sums, &b->code, count);
	for (int64_t at = 0; at < count; at += PTX_LANES) {
		int lanes = (int)MIN(count - at, PTX_LANES);
		scramble(regs, b->code.nregs * PTX_LANES);
		ptx_preset(&b->code, regs, c->id, c->grid);
		move_slots(b, false, operands, regs, &packs, at, lanes);
		ptx_run(&b->code, regs, lanes, still, still && coverage->is_turned, sums.numbers);
		if (sums.n) sums_take(&sums, &packs, at, lanes);
		move_slots(b, true, results, regs, &packs, at, lanes);
	}
	if (sums.n) vm_sum_pairs(c, in, sums.pairs, sums.npairs);
	free(sums.known);
	free(sums.numbers);
	free(sums.pairs);
}

int exec_inline_asm(struct vm_ctx *c, const struct vm_instr *in)
{
	const struct asm_block *b = in->extra;
	int64_t n = in->n ? in->n : c->lanes;
	struct asm_array results[64], operands[64];
	uint64_t scalars[64];
	if (c->want_cost) vm_cost_map(c, in, n);
	/* Operands as arrays, or one element that stands for all. */
	for (int i = 0; i < in->nsrc; i++) {
		int id = vm_src(c, in, i);
		struct vm_value *v = &c->values[id];
		bool is_splat = v->form == FORM_SPLAT;
		operands[i] = (struct asm_array){
			is_splat ? v->splat : (uint8_t *)vm_dense(c, in, id, n), elem_bytes(c->program->values[id].elem), is_splat};
		if (!operands[i].data) return 1;
	}
	/* Registers of as many lanes as run at a time; results go straight to their blocks, a scalar
	 * by way of a word. */
	struct vm_buf *regs = vm_buf_get(c, in, (size_t)b->code.nregs * PTX_LANES * sizeof(uint64_t));
	bool is_scalar = n == 1 && !c->program->values[vm_dst(c, in, 0)].ndim, failed = !regs;
	for (int i = 0; i < in->ndst && !failed; i++) {
		scalars[i] = 0;
		results[i] = (struct asm_array){is_scalar ? (uint8_t *)&scalars[i] : vm_result(c, in, i, n),
			elem_bytes(c->program->values[vm_dst(c, in, i)].elem), false};
		failed = !results[i].data;
	}
	if (!failed) run_packs(c, in, (uint64_t *)regs->data, results, operands, n);
	for (int i = 0; i < in->ndst && !failed && is_scalar; i++) vm_result_splat(c, in, i, &scalars[i]);
	vm_buf_put(c, regs);
	if (!failed) vm_kill(c, in);
	return failed;
}
