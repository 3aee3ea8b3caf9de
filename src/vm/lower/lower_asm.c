/* tt.elementwise_inline_asm: PTX over the elements of blocks.
 *
 * `packed_element` neighbours are handed to the text at once: elements of less than 32 bits share a
 * register as far as they fit, wider ones have one each. Which elements are handed over together is
 * open; crosswise they are far apart. Results come first among the operands $0, $1, ..., as the
 * constraints say. */
#include "vm/lower/lower.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/program.h"
#include "vm/ptx/ptx.h"
#include <ctype.h>
#include <stdlib.h>

/* The text without MLIR's escapes: \0A, \22, \\. */
static char *unescape(struct arena *arena, struct slice s)
{
	char *out = arena_alloc(arena, s.len + 1), *to = out;
	for (size_t i = 0; i < s.len; i++) {
		if (s.data[i] != '\\' || i + 1 >= s.len) {
			*to++ = s.data[i];
			continue;
		}
		char digits[3] = {s.data[i + 1], i + 2 < s.len ? s.data[i + 2] : 0, 0};
		if (isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1])) {
			*to++ = (char)strtol(digits, NULL, 16);
			i += 2;
		} else {
			*to++ = digits[0];
			i++;
		}
	}
	*to = 0;
	return out;
}

static int add_slots(struct lowerer *lo, struct asm_block *b, bool is_result, int operand, enum elem e)
{
	if (e == ELEM_I1) return lower_fail(lo, ERR_UNSUPPORTED, "inline assembly on i1");
	int per = MIN(elem_bytes(e) < 4 ? 4 / (int)elem_bytes(e) : 1, b->pack);
	for (int first = 0; first < b->pack; first += per) {
		if (b->nslots == ASM_SLOTS_MAX)
			return lower_fail(lo, ERR_LIMIT, "inline assembly with more than %d registers", ASM_SLOTS_MAX);
		b->slots[b->nslots] = (struct asm_slot){is_result, operand, b->nslots, first, MIN(per, b->pack - first)};
		b->nslots++;
	}
	return 0;
}

/* "=r,=&f,r,0,n": one for each slot, results first; a number ties an input to a result's register.
 * Clobbers are of no interest. */
static int constraints(struct lowerer *lo, struct asm_block *b, struct slice s)
{
	int n = 0;
	for (size_t at = 0; at <= s.len; at++) {
		while (at < s.len && s.data[at] == ' ') at++;
		size_t end = at;
		while (end < s.len && s.data[end] != ',') end++;
		if (end > at && s.data[at] != '~') {
			bool is_result = s.data[at] == '=';
			if (n == b->nslots || b->slots[n].is_result != is_result) break;
			if (isdigit((unsigned char)s.data[at])) b->slots[n].reg = s.data[at] - '0';
			if (b->slots[n].reg >= b->nslots) break;
			n++;
		}
		at = end;
		if (at >= s.len)
			return n == b->nslots
				? 0
				: lower_fail(lo, ERR_FORMAT, "inline assembly has %d registers, its constraints name %d", b->nslots, n);
	}
	return lower_fail(lo, ERR_FORMAT, "inline assembly's constraints '%.*s' do not fit its %d registers",
		(int)MIN(s.len, 60), s.data, b->nslots);
}

static int find_slots(struct lowerer *lo, const struct ttir_op *op, struct asm_block *b, const int *src, int *dst)
{
	for (int i = 0; i < op->nresult_types; i++) {
		int type = op->types[op->nuses + i];
		if (op->nuses && lower_same_shape(lo, lower_info(lo, src[0])->type, lower_type(lo, type)->elem) != type)
			return lower_fail(lo, ERR_FORMAT, "inline assembly changes the shape");
		dst[i] = lower_result(lo, op, i, type);
		if (dst[i] < 0 || add_slots(lo, b, true, i, lower_info(lo, dst[i])->elem)) return lo->code;
	}
	for (int i = 0; i < op->nuses; i++) {
		const struct vm_value_info info = *lower_info(lo, src[i]);
		if (lower_written(lo, op, i, info.type)) return lo->code;
		if (info.count != lower_info(lo, src[0])->count)
			return lower_fail(lo, ERR_FORMAT, "operands of inline assembly have different shapes");
		if (add_slots(lo, b, false, i, info.elem)) return lo->code;
	}
	return 0;
}

int lower_asm_of(struct lowerer *lo, const struct ttir_op *op, const char *text, const int *src)
{
	int dst[1];
	char why[256] = "";
	struct asm_block *b = arena_alloc(&lo->k->arena, sizeof *b);
	*b = (struct asm_block){.pack = 1};
	if (find_slots(lo, op, b, src, dst)) return lo->code;
	CHECKF(!ptx_parse(text, b->nslots, &lo->k->arena, &b->code, why, sizeof why), "%s: %s", text, why);
	struct vm_instr *in = lower_emit(lo, OP_INLINE_ASM, dst, 1, src, op->nuses);
	if (!in) return lo->code;
	in->extra = b;
	in->weight *= b->code.ninstrs;
	in->flops = (uint8_t)b->code.flops;
	in->special = (uint8_t)b->code.special;
	return 0;
}

int lower_inline_asm(struct lowerer *lo, const struct ttir_op *op, const struct lower_row *row)
{
	const struct ttir_attr *names = lower_attr(op, "constraints");
	int64_t pack;
	int src[64], dst[64];
	char why[256] = "";
	if (op->nliterals != 1 || op->literals[0].kind != ATTR_STRING || !names || names->kind != ATTR_STRING ||
		op->nuses > 64 || op->nresult_types > 64 || op->ntypes != op->nuses + op->nresult_types || !op->nresult_types)
		return lower_fail(lo, ERR_FORMAT, "%s needs a text, constraints, operands and results with types", row->name);
	/* Operands, and how many neighbours the text gets at once; in a region, where lanes are
	 * pairs, one alone. */
	if (lower_uses(lo, op, 0, op->nuses, src) || lower_attr_int(lo, op, "packed_element", 1, ASM_PACK_MAX, &pack))
		return lo->code;
	if (lo->in_region && pack > 1)
		return lower_fail(lo, ERR_UNSUPPORTED, "inline assembly on packed elements in a combine region");
	/* Which elements go to which register, then the text itself. */
	struct asm_block *b = arena_alloc(&lo->k->arena, sizeof *b);
	*b = (struct asm_block){.pack = (int)pack};
	if (find_slots(lo, op, b, src, dst) || constraints(lo, b, names->text)) return lo->code;
	int code = ptx_parse(
		unescape(&lo->k->arena, op->literals[0].text), b->nslots, &lo->k->arena, &b->code, why, sizeof why);
	if (code) return lower_fail(lo, code, "%s: %s", row->name, why);
	const struct ttir_attr *pure = lower_attr(op, "pure");
	bool stays = !lo->in_region && pure && pure->kind == ATTR_BOOL && !pure->i; /* else the compiler may drop it */
	/* Which elements are packed together is open: the order may matter. */
	struct vm_instr *in = lower_emit(lo, OP_INLINE_ASM, dst, op->nresult_types, src, op->nuses);
	if (!in) return lo->code;
	in->extra = b;
	in->imm[0] = (stays && b->code.waits ? ASM_WAITS : 0) | (b->code.triggers ? ASM_TRIGGERS : 0);
	if (pack > 1) lower_note_order(lo);
	in->weight *= MAX(b->code.ninstrs, 1);
	in->flops = (uint8_t)MIN(b->code.flops, 255);
	in->special = (uint8_t)MIN(b->code.special, 255);
	return 0;
}
