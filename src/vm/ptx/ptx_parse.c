/* PTX text to instructions, and running them.
 *
 * Names live in scopes { }; a declaration `.reg .b32 a<4>` makes a0 to a3. Constants and what the
 * program is (%ctaid, %smid) become registers that are set before the first instruction. Predicates
 * guard instructions: @p, @!p. */
#include "vm/ptx/ptx.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/map/map.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define NAMES_MAX 256
#define DEPTH_MAX 16
#define WORD_MAX 64

struct ptx_name {
	char text[WORD_MAX];
	int first; /* register's number */
	int count; /* registers: the name with a number behind it, 0 to count - 1; 0: the name itself is one */
};
struct operands {
	int n;
	int16_t reg[PTX_SOURCES_MAX + PTX_RESULTS_MAX];
};
struct ptx_parser {
	const char *at;
	int nargs; /* operands of the block, $0 to $(nargs - 1) */
	int code;  /* 0, or of the first error */
	struct ptx_program *out;
	int nnames;
	struct ptx_name names[NAMES_MAX];
	int depth;            /* of braces */
	int scope[DEPTH_MAX]; /* names that there were at each brace */
	struct ptx_instr instrs[PTX_INSTRS_MAX];
	struct ptx_preset presets[PTX_REGISTERS_MAX];
	char *why;
	size_t why_len;
};

static int fail(struct ptx_parser *p, int code, const char *what, const char *word)
{
	/* What the vm lacks is said with what it has, since another way to write it exists. */
	const char *hint = code == ERR_UNSUPPORTED ? ": assembly may work on registers alone, without memory, jumps and "
												 "thread numbers (use tl.load, tl.store, tl.program_id)"
											   : "";
	if (!p->code) snprintf(p->why, p->why_len, "%s '%.60s' in inline assembly%s", what, word, hint);
	p->code = p->code ? p->code : code;
	return p->code;
}

/* ---- words ---- */

static void skip_blank(struct ptx_parser *p)
{
	for (;;) {
		while (isspace((unsigned char)*p->at)) p->at++;
		if (!strncmp(p->at, "//", 2)) {
			while (*p->at && *p->at != '\n') p->at++;
		} else if (!strncmp(p->at, "/*", 2)) {
			const char *end = strstr(p->at + 2, "*/");
			p->at = end ? end + 2 : p->at + strlen(p->at);
		} else {
			return;
		}
	}
}

static bool accept(struct ptx_parser *p, char c)
{
	skip_blank(p);
	if (*p->at != c) return false;
	p->at++;
	return true;
}

static int expect(struct ptx_parser *p, char c)
{
	if (accept(p, c)) return p->code;
	char text[2] = {c, 0};
	return fail(p, ERR_FORMAT, "expected", text);
}

static bool is_word_char(char c) { return isalnum((unsigned char)c) || (c && strchr("_%$.:", c)); }

/* A name, a number or a mnemonic with its suffixes. */
static int word(struct ptx_parser *p, char out[WORD_MAX])
{
	int n = 0;
	skip_blank(p);
	if (*p->at == '-') out[n++] = *p->at++;
	while (is_word_char(*p->at) && n < WORD_MAX - 1) out[n++] = *p->at++;
	out[n] = 0;
	if (n == 0) return fail(p, ERR_FORMAT, "expected a name or number before", *p->at ? p->at : "the end");
	return is_word_char(*p->at) ? fail(p, ERR_LIMIT, "too long a word", out) : p->code;
}

/* ---- registers ---- */

static int new_register(struct ptx_parser *p, int count)
{
	if (p->out->nregs + count > PTX_REGISTERS_MAX) {
		fail(p, ERR_LIMIT, "too many registers at", p->at);
		return 0;
	}
	p->out->nregs += count;
	return p->out->nregs - count;
}

static int preset(struct ptx_parser *p, int special, uint64_t value)
{
	int reg = new_register(p, 1);
	if (!p->code) p->out->presets[p->out->npresets++] = (struct ptx_preset){reg, special, value};
	return reg;
}

static int find_name(const struct ptx_parser *p, const char *text)
{
	for (int i = p->nnames - 1; i >= 0; i--) {
		const struct ptx_name *n = &p->names[i];
		size_t len = strlen(n->text);
		if (!n->count && !strcmp(n->text, text)) return n->first;
		if (!n->count || strncmp(n->text, text, len) || !isdigit((unsigned char)text[len])) continue;
		char *end;
		long k = strtol(text + len, &end, 10);
		if (!*end && k < n->count) return n->first + (int)k;
	}
	return -1;
}

static int special_register(const char *text)
{
	static const struct {
		const char *name;
		int special;
	} rows[] = {{"%ctaid.x", PTX_CTAID}, {"%ctaid.y", PTX_CTAID + 1}, {"%ctaid.z", PTX_CTAID + 2},
		{"%nctaid.x", PTX_NCTAID}, {"%nctaid.y", PTX_NCTAID + 1}, {"%nctaid.z", PTX_NCTAID + 2}, {"%smid", PTX_SMID},
		{"%nsmid", PTX_NSMID}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (!strcmp(rows[i].name, text)) return rows[i].special;
	return -1;
}

/* 12, -3, 0x1f, 0b101, 20., 0f3f800000 (bits of f32), 0d... (of f64). A decimal with a point has
 * the type of the instruction. As ptxas has it, floats of 32 and 64 bits take the last three kinds
 * alone, those of 16 bits none, and integers the others. */
static int constant(struct ptx_parser *p, const char *text, const struct ptx_type *type)
{
	const char *digits = text[0] == '-' ? text + 1 : text;
	char *end;
	uint64_t v;
	bool is_binary = !strncmp(digits, "0b", 2) || !strncmp(digits, "0B", 2),
		 is_hex = !strncmp(digits, "0x", 2) || !strncmp(digits, "0X", 2);
	bool is_bits = !is_hex && digits[0] == '0' && strchr("fFdD", digits[1]) && digits[1],
		 is_float = is_bits || strchr(digits, '.');
	/* Which kinds a type takes. */
	if (is_float != (type->kind == 'f') || (is_float && type->bits < 32))
		return fail(p, ERR_FORMAT, "a constant that the instruction does not take:", text);
	/* Its value, by how it is written. */
	if (is_bits) {
		v = strtoull(digits + 2, &end, 16);
	} else if (strchr(digits, '.')) {
		double d = strtod(text, &end);
		float f = (float)d;
		v = 0;
		if (type->elem == ELEM_F64) memcpy(&v, &d, sizeof d);
		else memcpy(&v, &f, sizeof f);
	} else {
		v = strtoull(is_binary ? digits + 2 : digits, &end, is_binary ? 2 : 0);
		if (text[0] == '-') v = 0 - v;
		if (*end == 'U') end++;
	}
	if (*end) return fail(p, ERR_FORMAT, "no number:", text);
	return preset(p, PTX_CONSTANT, v);
}

static int register_of(struct ptx_parser *p, const char *text, const struct ptx_type *type)
{
	int reg = find_name(p, text), special = special_register(text);
	if (reg >= 0) return reg;
	if (special >= 0) return preset(p, special, 0);
	if (text[0] == '$') {
		char *end;
		long k = strtol(text + 1, &end, 10);
		if (!isdigit((unsigned char)text[1]) || *end || k >= p->nargs) return fail(p, ERR_FORMAT, "no operand", text);
		return (int)k;
	}
	if (!strcmp(text, "_")) return new_register(p, 1);
	if (text[0] == '%') return fail(p, ERR_UNSUPPORTED, "register", text);
	if (isdigit((unsigned char)text[0]) || text[0] == '-') return constant(p, text, type);
	return fail(p, ERR_FORMAT, "no register", text);
}

/* ---- statements ---- */

/* .reg .b32 a, b<4>; */
static int declaration(struct ptx_parser *p)
{
	char text[WORD_MAX];
	if (word(p, text)) return p->code;
	if (strcmp(text, ".reg")) return fail(p, ERR_UNSUPPORTED, "directive", text);
	if (word(p, text)) return p->code;
	if (text[0] != '.' || !ptx_type_find(text + 1)) return fail(p, ERR_UNSUPPORTED, "type", text);
	do {
		struct ptx_name n = {.count = 0};
		if (word(p, n.text)) return p->code;
		if (accept(p, '<')) {
			if (word(p, text) || expect(p, '>')) return p->code;
			n.count = atoi(text);
			if (n.count < 1 || n.count > PTX_REGISTERS_MAX) return fail(p, ERR_LIMIT, "number of registers", text);
		}
		n.first = new_register(p, MAX(n.count, 1));
		if (p->nnames == NAMES_MAX) return fail(p, ERR_LIMIT, "too many names at", n.text);
		p->names[p->nnames++] = n;
	} while (!p->code && accept(p, ','));
	return p->code ? p->code : expect(p, ';');
}

/* "cvt.rn.f16x2.f32": a row of the table, its modifiers, and one type, or two of a conversion. */
static int mnemonic(struct ptx_parser *p, const char *text, struct ptx_instr *in)
{
	char copy[WORD_MAX], *rest = copy, *part;
	const struct ptx_type *found[3] = {NULL};
	int ntypes = 0;
	snprintf(copy, sizeof copy, "%s", text);
	/* The first part names the row, the others are its modifiers and types in any order. */
	in->row = ptx_row_find(strsep(&rest, "."));
	in->compare = -1;
	bool is_known = in->row;
	if (is_known && in->row->nsources == -2) return p->code;
	bool is_conversion = is_known && !strcmp(in->row->name, "cvt"),
		 is_comparison = is_known && !strcmp(in->row->name, "setp");
	while (is_known && (part = strsep(&rest, "."))) {
		unsigned bit = ptx_modifier_find(part);
		const struct ptx_type *t = ptx_type_find(part);
		int compare = is_comparison && in->compare < 0 ? ptx_compare_find(part) : -1;
		if (t && ntypes < 2) found[ntypes++] = t;
		else if (compare >= 0) in->compare = compare;
		else if (bit & in->row->modifiers) in->modifiers |= bit;
		else is_known = false;
	}
	/* Exactly the types that it needs, and a comparison where there must be one. */
	if (!is_known || ntypes != 1 + is_conversion || is_comparison != (in->compare >= 0))
		return fail(p, ERR_UNSUPPORTED, "instruction", text);
	in->type = found[0];
	if (is_comparison && !ptx_compare_fits(in->compare, in->type))
		return fail(p, ERR_FORMAT, "a comparison that its type does not have:", text);
	in->from = found[ntypes - 1];
	bool strips;
	if (in->type->kind == 'f' && in->type->bits == 16)
		in->narrow = map_cast_kernel("truncf", ELEM_F64, in->type->elem, &strips);
	return !*in->row->kinds || (strchr(in->row->kinds, in->type->kind) && strchr(in->row->kinds, in->from->kind))
		? p->code
		: fail(p, ERR_UNSUPPORTED, "instruction", text);
}

/* One operand: a register or constant, {a, b, ...}, or a|b. */
static int operand(struct ptx_parser *p, struct operands *o, const struct ptx_type *type)
{
	char text[WORD_MAX], close = accept(p, '{') ? '}' : 0;
	if (accept(p, '[')) return fail(p, ERR_UNSUPPORTED, "memory", p->at);
	do {
		if (o->n == (int)ARRAY_LEN(o->reg)) return fail(p, ERR_LIMIT, "too many operands at", p->at);
		if (word(p, text)) return p->code;
		o->reg[o->n++] = (int16_t)register_of(p, text, type);
	} while (!p->code && (close ? accept(p, ',') : accept(p, '|')));
	return close ? expect(p, close) : p->code;
}

static bool fits(const struct ptx_instr *in)
{
	int bits = in->type->bits * in->type->lanes;
	if (!strcmp(in->row->name, "cvt"))
		return in->nresults == 1 && in->nsources == (in->type->lanes > in->from->lanes ? 2 : 1) &&
			in->type->lanes >= in->from->lanes;
	if (in->row->nsources < 0)
		return (in->nresults == 1 || in->nsources == 1) && in->nsources > 0 && bits % in->nresults == 0 &&
			bits % in->nsources == 0;
	return in->nsources == in->row->nsources && in->nresults <= (in->compare >= 0 ? 2 : 1);
}

#define SLEEP_NS_MAX 1e6 /* of one nanosleep */
static void waits(struct ptx_parser *p, const char *name, const char *text)
{
	struct ptx_waits *w = &p->out->waits_for;
	bool is_fence = !strcmp(name, "membar") || !strcmp(name, "fence");
	w->count++;
	w->barriers += !strcmp(name, "bar") || !strcmp(name, "barrier");
	/* Of one block alone it is a fence between its threads, which costs no more than its slot. */
	w->system_fences += is_fence && strstr(text, ".sys");
	w->fences += is_fence && !strstr(text, ".sys") && !strstr(text, ".cta") && !strstr(text, ".proxy");
	if (strcmp(name, "nanosleep")) return;
	/* A constant, or a register. */
	skip_blank(p);
	char *end = NULL;
	double ns = isdigit((unsigned char)*p->at) ? (double)strtoull(p->at, &end, 0) : 0;
	w->is_open |= !end;
	w->sleep_ns += fmin(ns, SLEEP_NS_MAX);
}

static int instruction(struct ptx_parser *p, const char *text, int guard, bool guard_is_not)
{
	if (p->out->ninstrs == PTX_INSTRS_MAX) return fail(p, ERR_LIMIT, "too many instructions at", text);
	struct ptx_instr *in = &p->out->instrs[p->out->ninstrs];
	struct operands o = {.n = 0};
	*in = (struct ptx_instr){.guard = guard, .guard_is_not = guard_is_not};
	if (mnemonic(p, text, in)) return p->code;
	/* What only orders, announces or waits is skipped whole. */
	if (in->row->nsources == -2) {
		waits(p, in->row->name, text);
		p->out->triggers |= !strcmp(text, "griddepcontrol.launch_dependents");
		p->out->waits |= guard < 0 && !strcmp(text, "griddepcontrol.wait");
		while (*p->at && *p->at != ';') p->at++;
		return expect(p, ';');
	}
	/* Results first, then sources. */
	if (operand(p, &o, in->type)) return p->code;
	in->nresults = o.n;
	while (accept(p, ','))
		if (operand(p, &o, in->from)) return p->code;
	in->nsources = o.n - in->nresults;
	if (in->nresults > PTX_RESULTS_MAX || in->nsources > PTX_SOURCES_MAX || !fits(in))
		return fail(p, ERR_UNSUPPORTED, "operands of", text);
	memcpy(in->results, o.reg, (size_t)in->nresults * sizeof o.reg[0]);
	memcpy(in->sources, o.reg + in->nresults, (size_t)in->nsources * sizeof o.reg[0]);
	if (in->type->kind == 'f') {
		p->out->flops += in->row->flops * in->type->lanes;
		p->out->special += in->row->special * in->type->lanes;
	}
	p->out->ninstrs++;
	return expect(p, ';');
}

static int statement(struct ptx_parser *p)
{
	char text[WORD_MAX];
	int guard = -1;
	if (accept(p, ';')) return p->code;
	if (accept(p, '{')) {
		if (p->depth == DEPTH_MAX) return fail(p, ERR_LIMIT, "too deep a nesting at", p->at);
		p->scope[p->depth++] = p->nnames;
		return p->code;
	}
	if (accept(p, '}')) {
		if (!p->depth) return fail(p, ERR_FORMAT, "unexpected", "}");
		p->nnames = p->scope[--p->depth];
		return p->code;
	}
	bool is_guarded = accept(p, '@'), is_not = is_guarded && accept(p, '!');
	if (is_guarded) {
		if (word(p, text)) return p->code;
		guard = register_of(p, text, ptx_type_find("pred"));
	} else if (*p->at == '.') {
		return declaration(p);
	}
	return p->code || word(p, text) ? p->code : instruction(p, text, guard, is_not);
}

static void *kept(struct arena *arena, const void *p, size_t bytes)
{
	return memcpy(arena_alloc(arena, MAX(bytes, 1)), p, bytes);
}

int ptx_parse(const char *text, int nargs, struct arena *arena, struct ptx_program *out, char *why, size_t why_len)
{
	struct ptx_parser *p = xcalloc(1, sizeof *p);
	p->at = text;
	p->nargs = out->nregs = nargs;
	p->out = out;
	p->why = why;
	p->why_len = why_len;
	out->instrs = p->instrs;
	out->presets = p->presets;
	for (skip_blank(p); *p->at && !p->code; skip_blank(p)) statement(p);
	if (p->depth) fail(p, ERR_FORMAT, "expected", "}");
	out->instrs = kept(arena, p->instrs, (size_t)out->ninstrs * sizeof *out->instrs);
	out->presets = kept(arena, p->presets, (size_t)out->npresets * sizeof *out->presets);
	int code = p->code;
	free(p);
	return code;
}

/* ---- running ---- */

#define SMS 132   /* %nsmid: of an H200, as elsewhere in hone */

/* Nobody knows which SM a program runs on, and several share one: what is taken for a program's
 * number is not found here either. */
static uint64_t sm_of(uint64_t number)
{
	uint64_t h = (number + 1) * 0x9e3779b97f4a7c15u;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
	return (h ^ h >> 31) % SMS;
}

void ptx_preset(const struct ptx_program *p, uint64_t *regs, const uint32_t id[3], const uint32_t grid[3])
{
	uint64_t number = id[0] + (uint64_t)grid[0] * (id[1] + (uint64_t)grid[1] * id[2]);
	for (int i = 0; i < p->npresets; i++) {
		const struct ptx_preset *s = &p->presets[i];
		uint64_t v = s->value;
		if (s->special >= PTX_CTAID && s->special < PTX_NCTAID) v = id[s->special - PTX_CTAID];
		if (s->special >= PTX_NCTAID && s->special < PTX_SMID) v = grid[s->special - PTX_NCTAID];
		if (s->special == PTX_SMID) v = sm_of(number);
		if (s->special == PTX_NSMID) v = SMS;
		for (int lane = 0; lane < PTX_LANES; lane++) regs[(size_t)s->reg * PTX_LANES + (size_t)lane] = v;
	}
}

/* An addition of floats: what is joined with a product has that as its first operand. */
static bool is_sum(const struct ptx_instr *in)
{
	const char *name = in->row->name;
	bool is_float = in->type && in->type->kind == 'f' && in->type->lanes == 1 && in->type->bits >= 32;
	return is_float && in->nresults == 1 &&
		(!strcmp(name, "add") || !strcmp(name, "sub") || (ptx_still_is_joined(in) && in->nsources == 3));
}

static bool is_fixed(const struct ptx_program *p, int reg)
{
	bool is = false;
	for (int i = 0; i < p->npresets; i++) is |= p->presets[i].reg == reg && p->presets[i].special == PTX_CONSTANT;
	for (int i = 0; i < p->ninstrs; i++)
		for (int k = 0; k < p->instrs[i].nresults; k++) is &= p->instrs[i].results[k] != reg;
	return is;
}

int ptx_sums(const struct ptx_program *p, bool *known)
{
	int n = 0;
	for (int i = 0; i < p->ninstrs; i++) {
		const struct ptx_instr *in = &p->instrs[i];
		if (!is_sum(in)) continue;
		bool first = known && is_fixed(p, in->sources[0]), second = known && is_fixed(p, in->sources[1]);
		bool is_joined = in->nsources == 3;
		if (known) known[2 * n] = is_joined ? first && second : first;
		if (known) known[2 * n + 1] = is_joined ? is_fixed(p, in->sources[2]) : second;
		n++;
	}
	return n;
}

static double number_of(const struct ptx_instr *in, uint64_t bits)
{
	float f;
	double d;
	memcpy(&d, &bits, sizeof d);
	memcpy(&f, &bits, sizeof f);
	return in->type->bits == 64 ? d : (double)f;
}

void ptx_run(
	const struct ptx_program *p, uint64_t *regs, int lanes, struct ptx_still *still, bool is_turned, double *sums)
{
	double *sum = sums;
	for (const struct ptx_instr *in = p->instrs; in < p->instrs + p->ninstrs; in++) {
		double *own = sum && is_sum(in) ? sum : NULL;
		if (own) sum += 2 * PTX_LANES;
		for (int lane = 0; lane < lanes; lane++) {
			uint64_t x[PTX_SOURCES_MAX], r[PTX_RESULTS_MAX];
			if (own) own[lane] = own[PTX_LANES + lane] = NAN;
			if (in->guard >= 0 && (regs[(size_t)in->guard * PTX_LANES + (size_t)lane] & 1) == in->guard_is_not)
				continue;
			for (int i = 0; i < in->nsources; i++) x[i] = regs[(size_t)in->sources[i] * PTX_LANES + (size_t)lane];
			if (own) {
				bool is_joined = in->nsources == 3;
				own[lane] = number_of(in, x[0]) * (is_joined ? number_of(in, x[1]) : 1);
				own[PTX_LANES + lane] = number_of(in, x[is_joined ? 2 : 1]);
			}
			in->row->eval(in, x, r);
			if (still && !is_turned) ptx_still_look(&still[in - p->instrs], in, x, r);
			else if (still && still[in - p->instrs].turn) ptx_still_turn(&still[in - p->instrs], in, x, r);
			for (int i = 0; i < in->nresults; i++) regs[(size_t)in->results[i] * PTX_LANES + (size_t)lane] = r[i];
		}
	}
}
