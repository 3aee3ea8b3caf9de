/* MLIR text to the tree of ttir.h.
 *
 * One routine reads the body of any operation: operands, keywords, attributes and literals up to
 * the colon, then types. That is enough for every pretty form of arith, math, cf, ub and tt,
 * because their variety is in what is written, not in how it nests. An operation ends where
 * something follows that cannot continue it: a result list, a word with a dot in it (the next
 * operation), a label or a closing brace. */
#include "ttir/ttir_internal.h"
#include "base/base.h"
#include <stdlib.h>

static int parse_region(struct parser *p, struct ttir_region *r);

static bool is_op_name(const struct parser *p)
{
	return p->lx.kind == TOKEN_WORD && memchr(p->lx.tok.data, '.', p->lx.tok.len);
}

static int add_use(struct parser *p, struct ttir_op *op, int group)
{
	op->uses = parse_grow(p, op->uses, op->nuses, sizeof *op->uses);
	if (p->code) return p->code;
	op->uses[op->nuses++] = (struct ttir_use){p->lx.tok, MAX(p->lx.value_index, 0), group};
	lexer_next(&p->lx);
	return 0;
}

static int add_type(struct parser *p, struct ttir_op *op)
{
	int id = parse_type(p);
	if (p->code) return p->code;
	op->types = parse_grow(p, op->types, op->ntypes, sizeof *op->types);
	if (p->code) return p->code;
	op->types[op->ntypes++] = id;
	return 0;
}

/* a, b * c -> d; (a, b) -> (c, d); a to b */
static int parse_types(struct parser *p, struct ttir_op *op)
{
	int before_arrow = -1;
	while (!p->code) {
		if (parse_accept(p, '(')) {
			while (!p->code && !parse_is(p, ')')) {
				if (add_type(p, op)) return p->code;
				if (!parse_accept(p, ',')) break;
			}
			if (parse_expect(p, ')')) return p->code;
		} else if (add_type(p, op)) {
			return p->code;
		}
		if (p->lx.kind == TOKEN_ARROW || parse_is_word(p, "to")) {
			before_arrow = op->ntypes;
			lexer_next(&p->lx);
		} else if (!parse_accept(p, ',') && !parse_accept(p, '*')) {
			break;
		}
	}
	op->nresult_types = before_arrow < 0 ? 0 : op->ntypes - before_arrow;
	return p->code;
}

/* ^bb1(%a, %b : i32, f32) */
static int parse_target(struct parser *p, struct ttir_op *op)
{
	op->targets = parse_grow(p, op->targets, op->ntargets, sizeof *op->targets);
	if (p->code) return p->code;
	struct ttir_op holder = {.nuses = 0};
	struct slice label = p->lx.tok;
	lexer_next(&p->lx);
	if (parse_accept(p, '(')) {
		while (!p->code && p->lx.kind == TOKEN_VALUE) {
			if (add_use(p, &holder, 0)) return p->code;
			if (!parse_accept(p, ',')) break;
		}
		if (parse_accept(p, ':') && parse_types(p, &holder)) return p->code;
		if (parse_expect(p, ')')) return p->code;
	}
	op->targets[op->ntargets++] = (struct ttir_target){label, holder.nuses, holder.uses};
	return p->code;
}

static int add_literal(struct parser *p, struct ttir_op *op)
{
	op->literals = parse_grow(p, op->literals, op->nliterals, sizeof *op->literals);
	if (p->code) return p->code;
	struct ttir_attr *a = &op->literals[op->nliterals++];
	memset(a, 0, sizeof *a);
	return parse_attr_value(p, a);
}

/* A keyword, key = value, or word<...> (fastmath<contract>, overflow<nsw>), which promises
 * something that is not relied upon. */
static int parse_keyword(struct parser *p, struct ttir_op *op)
{
	struct slice word = p->lx.tok;
	lexer_next(&p->lx);
	if (parse_accept(p, '=')) {
		op->attrs = parse_grow(p, op->attrs, op->nattrs, sizeof *op->attrs);
		if (p->code) return p->code;
		struct ttir_attr *a = &op->attrs[op->nattrs++];
		memset(a, 0, sizeof *a);
		a->key = word;
		return parse_attr_value(p, a);
	}
	if (parse_is(p, '<') && (slice_is(word, "fastmath") || slice_is(word, "overflow"))) {
		struct ttir_attr ignored = {.kind = ATTR_UNIT};
		return parse_attr_value(p, &ignored);
	}
	op->words = parse_grow(p, op->words, op->nwords, sizeof *op->words);
	if (p->code) return p->code;
	op->words[op->nwords++] = word;
	return 0;
}

static int targets_of(const struct ttir_op *op)
{
	return slice_is(op->name, "cf.br") ? 1 : slice_is(op->name, "cf.cond_br") ? 2 : 0;
}

/* Everything between the name and the location. */
static int parse_body(struct parser *p, struct ttir_op *op)
{
	int group = 0;
	while (!p->code) {
		/* Operands, block targets, symbols, literals: by the first token of each. */
		if (p->lx.kind == TOKEN_VALUE) {
			if (lexer_starts_line(&p->lx)) return p->code; /* results of the next operation */
			add_use(p, op, group);
		} else if (p->lx.kind == TOKEN_LABEL) {
			if (op->ntargets >= targets_of(op)) return p->code;
			parse_target(p, op);
		} else if (p->lx.kind == TOKEN_SYMBOL) {
			op->symbol = p->lx.tok;
			lexer_next(&p->lx);
		} else if (p->lx.kind == TOKEN_STRING || p->lx.kind == TOKEN_NUMBER || parse_is_word(p, "dense") ||
			parse_is_word(p, "true") || parse_is_word(p, "false")) {
			add_literal(p, op);
		} else if (parse_is(p, '[')) {
			/* Brackets part operands into groups; other punctuation says nothing here. */
			group++;
			lexer_next(&p->lx);
		} else if (parse_is(p, ']') || parse_is(p, ',') || parse_is(p, '(') || parse_is(p, ')')) {
			lexer_next(&p->lx);
		} else if (parse_is(p, '{')) {
			parse_attr_dict(p, op);
		} else if (parse_is(p, ':')) {
			/* Types end an operation, with an arrow before those of its results. */
			lexer_next(&p->lx);
			/* tt.print writes ": operands : types" */
			if (p->lx.kind == TOKEN_VALUE) continue;
			return parse_types(p, op);
		} else if (p->lx.kind == TOKEN_ARROW) {
			lexer_next(&p->lx);
			if (parse_types(p, op)) return p->code;
			op->nresult_types = op->ntypes;
			return 0;
		} else if (p->lx.kind == TOKEN_WORD && !is_op_name(p) && !parse_is_word(p, "loc")) {
			parse_keyword(p, op);
		} else {
			return p->code;
		}
	}
	return p->code;
}

/* ---- forms with regions ---- */

static int parse_types_after_arrow(struct parser *p, struct ttir_op *op)
{
	if (p->lx.kind != TOKEN_ARROW) return 0;
	lexer_next(&p->lx);
	int before = op->ntypes;
	if (parse_types(p, op)) return p->code;
	op->nresult_types = op->ntypes - before;
	return 0;
}

/* (%a = %x, %b = %y): names of block arguments with the values they start from, appended to args
 * and op->uses. */
static int parse_carried(struct parser *p, struct ttir_op *op, struct ttir_arg **args, int *nargs)
{
	if (parse_expect(p, '(')) return p->code;
	while (!p->code && p->lx.kind == TOKEN_VALUE) {
		*args = parse_grow(p, *args, *nargs, sizeof **args);
		if (p->code) return p->code;
		(*args)[(*nargs)++] = (struct ttir_arg){p->lx.tok, -1, 0};
		lexer_next(&p->lx);
		if (parse_expect(p, '=')) return p->code;
		if (p->lx.kind != TOKEN_VALUE)
			return parse_fail(p, ERR_FORMAT, "expected the value a loop variable starts from");
		if (add_use(p, op, 1)) return p->code;
		if (!parse_accept(p, ',')) break;
	}
	return parse_expect(p, ')');
}

static int parse_operand(struct parser *p, struct ttir_op *op)
{
	if (p->lx.kind != TOKEN_VALUE)
		return parse_fail(p, ERR_FORMAT, "expected an operand of %.*s", (int)op->name.len, op->name.data);
	return add_use(p, op, 0);
}

static int parse_word_expected(struct parser *p, const char *word)
{
	if (!parse_is_word(p, word))
		return parse_fail(
			p, ERR_FORMAT, "expected '%s', found '%.*s'", word, (int)MIN(p->lx.tok.len, 40), p->lx.tok.data);
	lexer_next(&p->lx);
	return 0;
}

static void set_entry_args(struct ttir_region *r, struct ttir_arg *args, int nargs)
{
	if (!r->first || r->first->nargs) return;
	r->first->args = args;
	r->first->nargs = nargs;
}

/* scf.for %i = %lb to %ub step %st iter_args(%a = %x) -> (type) : i32 { ... }. Carried arguments
 * take the written result types. */
static int parse_for(struct parser *p, struct ttir_op *op)
{
	if (parse_is_word(p, "unsigned")) return parse_fail(p, ERR_UNSUPPORTED, "scf.for with unsigned comparison");
	if (p->lx.kind != TOKEN_VALUE) return parse_fail(p, ERR_FORMAT, "expected the loop variable of scf.for");
	/* The loop variable and its bounds: the first three operands. */
	struct ttir_arg *args = parse_grow(p, NULL, 0, sizeof *args);
	args[0] = (struct ttir_arg){p->lx.tok, -1, 0};
	int nargs = 1;
	lexer_next(&p->lx);
	if (parse_expect(p, '=') || parse_operand(p, op) || parse_word_expected(p, "to") || parse_operand(p, op) ||
		parse_word_expected(p, "step") || parse_operand(p, op))
		return p->code;
	if (parse_is_word(p, "iter_args")) {
		lexer_next(&p->lx);
		if (parse_carried(p, op, &args, &nargs) || parse_types_after_arrow(p, op)) return p->code;
	}
	/* Each carried value has one type, written behind the arrow. */
	if (op->nresult_types != nargs - 1)
		return parse_fail(p, ERR_FORMAT, "scf.for has %d carried values and %d types", nargs - 1, op->nresult_types);
	for (int i = 1; i < nargs; i++) args[i].type = op->types[i - 1];
	/* The variable's type, where it is written; Triton leaves out an index. */
	args[0].type = ttir_type_scalar(p->m, ELEM_I64);
	if (parse_accept(p, ':')) args[0].type = parse_type(p);
	if (p->code || parse_region(p, &op->regions[0])) return p->code;
	op->nregions = 1;
	set_entry_args(&op->regions[0], args, nargs);
	if (parse_is(p, '{')) parse_attr_dict(p, op);
	return p->code;
}

static int parse_if(struct parser *p, struct ttir_op *op)
{
	if (parse_operand(p, op) || parse_types_after_arrow(p, op) || parse_region(p, &op->regions[0])) return p->code;
	op->nregions = 1;
	if (parse_is_word(p, "else")) {
		lexer_next(&p->lx);
		if (parse_region(p, &op->regions[1])) return p->code;
		op->nregions = 2;
	}
	if (parse_is(p, '{')) parse_attr_dict(p, op);
	return p->code;
}

/* scf.while (%a = %x) : (types) -> (types) { ... scf.condition } do { ^bb0(...): ... scf.yield }
 * attributes {...} */
static int parse_while(struct parser *p, struct ttir_op *op)
{
	struct ttir_arg *args = NULL;
	int nargs = 0;
	if (parse_is(p, '(') && parse_carried(p, op, &args, &nargs)) return p->code;
	if (parse_expect(p, ':') || parse_types(p, op)) return p->code;
	if (op->ntypes - op->nresult_types != nargs)
		return parse_fail(
			p, ERR_FORMAT, "scf.while has %d carried values and %d types", nargs, op->ntypes - op->nresult_types);
	for (int i = 0; i < nargs; i++) args[i].type = op->types[i];
	if (parse_region(p, &op->regions[0]) || parse_word_expected(p, "do") || parse_region(p, &op->regions[1]))
		return p->code;
	op->nregions = 2;
	set_entry_args(&op->regions[0], args, nargs);
	if (parse_is_word(p, "attributes")) {
		lexer_next(&p->lx);
		parse_attr_dict(p, op);
	}
	return p->code;
}

/* scf.execute_region -> (types) no_inline { ... } */
static int parse_execute_region(struct parser *p, struct ttir_op *op)
{
	if (parse_types_after_arrow(p, op)) return p->code;
	if (parse_is_word(p, "no_inline")) lexer_next(&p->lx);
	op->nregions = 1;
	return parse_region(p, &op->regions[0]);
}

/* cf.switch %x : i32, [ default: ^bb1(%a : i32), 42: ^bb2 ] */
static int parse_switch(struct parser *p, struct ttir_op *op)
{
	if (parse_operand(p, op) || parse_expect(p, ':') || add_type(p, op) || parse_expect(p, ',') ||
		parse_expect(p, '[') || parse_word_expected(p, "default"))
		return p->code;
	while (!p->code) {
		if (parse_expect(p, ':')) return p->code;
		if (p->lx.kind != TOKEN_LABEL) return parse_fail(p, ERR_FORMAT, "expected a block label in cf.switch");
		if (parse_target(p, op) || !parse_accept(p, ',')) break;
		if (p->lx.kind != TOKEN_NUMBER) return parse_fail(p, ERR_FORMAT, "expected a case of cf.switch");
		add_literal(p, op);
	}
	return parse_expect(p, ']');
}

/* "name"(%a, %b) <{...}> ({ regions }) {...} : (types) -> types */
static int parse_generic(struct parser *p, struct ttir_op *op)
{
	op->is_generic = true;
	if (parse_expect(p, '(')) return p->code;
	while (!p->code && p->lx.kind == TOKEN_VALUE) {
		if (add_use(p, op, 0)) return p->code;
		if (!parse_accept(p, ',')) break;
	}
	if (parse_expect(p, ')')) return p->code;
	if (parse_is(p, '['))
		return parse_fail(
			p, ERR_UNSUPPORTED, "generic form with successors of '%.*s'", (int)op->name.len, op->name.data);
	if (parse_accept(p, '<') && (parse_attr_dict(p, op) || parse_expect(p, '>'))) return p->code;
	if (parse_accept(p, '(')) {
		do {
			if (op->nregions == 2) return parse_fail(p, ERR_UNSUPPORTED, "operation with more than two regions");
			if (parse_region(p, &op->regions[op->nregions])) return p->code;
			op->nregions++;
		} while (parse_accept(p, ','));
		if (parse_expect(p, ')')) return p->code;
	}
	if (parse_is(p, '{') && parse_attr_dict(p, op)) return p->code;
	if (parse_expect(p, ':')) return p->code;
	return parse_types(p, op);
}

/* ---- operations, blocks, regions ---- */

static int parse_results(struct parser *p, struct ttir_op *op)
{
	while (!p->code && p->lx.kind == TOKEN_VALUE) {
		op->results = parse_grow(p, op->results, op->nresults, sizeof *op->results);
		if (p->code) return p->code;
		struct ttir_use *r = &op->results[op->nresults++];
		*r = (struct ttir_use){p->lx.tok, 1, 0};
		lexer_next(&p->lx);
		if (parse_accept(p, ':')) {
			if (parse_count(p, &r->index)) return p->code;
			if (r->index < 1 || r->index > TTIR_LIST_MAX)
				return parse_fail(p, ERR_LIMIT, "an operation of %d results", r->index);
		}
		if (!parse_accept(p, ',')) break;
	}
	return op->nresults ? parse_expect(p, '=') : p->code;
}

static int parse_op(struct parser *p, struct ttir_block *b)
{
	static const struct {
		const char *name;
		int (*parse)(struct parser *, struct ttir_op *);
	} forms[] = {
		{"scf.for", parse_for},
		{"scf.if", parse_if},
		{"scf.while", parse_while},
		{"scf.execute_region", parse_execute_region},
		{"cf.switch", parse_switch},
	};
	/* "%a, %b:2 =", then the name. */
	if (++p->m->nops > TTIR_OPS_MAX) return parse_fail(p, ERR_LIMIT, "more than %d operations", TTIR_OPS_MAX);
	struct ttir_op *op = arena_alloc(&p->m->arena, sizeof *op);
	op->loc = -1;
	if (parse_results(p, op)) return p->code;
	lexer_position(&p->lx, p->lx.tok_start, &op->line, &op->column);
	op->name = p->lx.tok;
	/* A name in quotes has the generic form; a bare one has a form of its own, or the one that
	 * all others share. */
	if (p->lx.kind == TOKEN_STRING) {
		lexer_next(&p->lx);
		op->regions = arena_alloc(&p->m->arena, 2 * sizeof *op->regions);
		if (parse_generic(p, op)) return p->code;
	} else if (is_op_name(p)) {
		int (*parse)(struct parser *, struct ttir_op *) = parse_body;
		for (size_t i = 0; i < ARRAY_LEN(forms); i++)
			if (slice_is(op->name, forms[i].name)) parse = forms[i].parse;
		if (parse != parse_body && parse != parse_switch)
			op->regions = arena_alloc(&p->m->arena, 2 * sizeof *op->regions);
		lexer_next(&p->lx);
		if (parse(p, op)) return p->code;
	} else {
		return parse_fail(
			p, ERR_FORMAT, "expected an operation, found '%.*s'", (int)MIN(p->lx.tok.len, 40), p->lx.tok.data);
	}
	/* Its place in the source, and its place in the block. */
	op->loc = parse_loc_optional(p);
	if (b->last) b->last->next = op;
	else b->first = op;
	b->last = op;
	return p->code;
}

/* {tt.divisibility = 16 : i32}; other attributes of an argument are for passes. */
static int parse_arg_attrs(struct parser *p, struct ttir_arg *a)
{
	struct ttir_op attrs = {.loc = -1};
	if (parse_attr_dict(p, &attrs)) return p->code;
	for (int i = 0; i < attrs.nattrs; i++)
		if (slice_is(attrs.attrs[i].key, "tt.divisibility") && attrs.attrs[i].kind == ATTR_NUMBER)
			a->divisibility = attrs.attrs[i].i;
	return 0;
}

/* (%a: i32 {attrs} loc(..), ...) */
static int parse_args(struct parser *p, struct ttir_arg **args, int *nargs)
{
	if (!parse_accept(p, '(')) return 0;
	while (!p->code && p->lx.kind == TOKEN_VALUE) {
		*args = parse_grow(p, *args, *nargs, sizeof **args);
		if (p->code) return p->code;
		struct ttir_arg *a = &(*args)[(*nargs)++];
		a->name = p->lx.tok;
		lexer_next(&p->lx);
		if (parse_expect(p, ':')) return p->code;
		a->type = parse_type(p);
		if (p->code) return p->code;
		if (parse_is(p, '{') && parse_arg_attrs(p, a)) return p->code;
		parse_loc_optional(p);
		if (!parse_accept(p, ',')) break;
	}
	return parse_expect(p, ')');
}

static int parse_block_body(struct parser *p, struct ttir_block *b)
{
	while (!p->code && !parse_is(p, '}') && p->lx.kind != TOKEN_LABEL) {
		if (p->lx.kind == TOKEN_END) return parse_fail(p, ERR_FORMAT, "the text ends inside a region");
		parse_op(p, b);
	}
	return p->code;
}

static int parse_region(struct parser *p, struct ttir_region *r)
{
	if (parse_enter(p) || parse_expect(p, '{')) return p->code;
	struct ttir_block **tail = &r->first;
	int count = 0;
	do {
		if (++count > TTIR_BLOCKS_MAX)
			return parse_fail(p, ERR_LIMIT, "more than %d blocks in one region", TTIR_BLOCKS_MAX);
		struct ttir_block *b = *tail = arena_alloc(&p->m->arena, sizeof *b);
		tail = &b->next;
		if (p->lx.kind == TOKEN_LABEL) {
			b->label = p->lx.tok;
			lexer_next(&p->lx);
			if (parse_args(p, &b->args, &b->nargs) || parse_expect(p, ':')) return p->code;
		}
		if (parse_block_body(p, b)) return p->code;
	} while (p->lx.kind == TOKEN_LABEL);
	p->depth--;
	return parse_expect(p, '}');
}

/* tt.func public @name(args) -> (types) attributes {...} { body } loc(..) */
static int parse_func(struct parser *p, struct ttir_func *f)
{
	f->loc = -1;
	lexer_next(&p->lx);
	f->is_public = !parse_is_word(p, "private");
	if (p->lx.kind == TOKEN_WORD) lexer_next(&p->lx);
	if (p->lx.kind != TOKEN_SYMBOL) return parse_fail(p, ERR_FORMAT, "expected the name of a function");
	f->name = p->lx.tok;
	lexer_next(&p->lx);
	if (!parse_is(p, '(')) return parse_expect(p, '(');
	/* Results' types are read as an operation's are. */
	if (parse_args(p, &f->args, &f->nargs)) return p->code;
	struct ttir_op holder = {.ntypes = 0};
	if (parse_types_after_arrow(p, &holder)) return p->code;
	f->nresults = holder.ntypes;
	f->results = holder.types;
	if (parse_is_word(p, "attributes")) {
		lexer_next(&p->lx);
		if (parse_attr_dict(p, NULL)) return p->code;
	}
	/* A declaration has no body; an entry block has the function's arguments. */
	if (parse_is(p, '{')) {
		f->has_body = true;
		if (parse_region(p, &f->body)) return p->code;
		set_entry_args(&f->body, f->args, f->nargs);
	}
	f->loc = parse_loc_optional(p);
	return p->code;
}

static int parse_alias(struct parser *p)
{
	struct slice name = p->lx.tok;
	lexer_next(&p->lx);
	if (parse_expect(p, '=')) return p->code;
	if (!parse_is_word(p, "loc"))
		return parse_fail(p, ERR_UNSUPPORTED, "attribute alias '#%.*s' (a layout? expected TTIR, not TTGIR)",
			(int)MIN(name.len, 40), name.data);
	lexer_next(&p->lx);
	int loc = parse_loc(p);
	if (!p->code) parse_loc_alias(p, name, loc); /* as many as there are locations at most */
	return p->code;
}

static int parse_functions(struct parser *p)
{
	struct ttir_func **tail = &p->m->funcs;
	int count = 0;
	while (!p->code && parse_is_word(p, "tt.func")) {
		if (++count > TTIR_FUNCS_MAX) return parse_fail(p, ERR_LIMIT, "more than %d functions", TTIR_FUNCS_MAX);
		struct ttir_func *f = *tail = arena_alloc(&p->m->arena, sizeof *f);
		tail = &f->next;
		parse_func(p, f);
	}
	return p->code;
}

static int parse_module(struct parser *p)
{
	lexer_next(&p->lx);
	while (!p->code && p->lx.kind == TOKEN_HASH) parse_alias(p);
	bool has_module = parse_is_word(p, "module");
	if (has_module) {
		lexer_next(&p->lx);
		if (p->lx.kind == TOKEN_SYMBOL) lexer_next(&p->lx);
		if (parse_is_word(p, "attributes")) {
			lexer_next(&p->lx);
			parse_attr_dict(p, NULL);
		}
		parse_expect(p, '{');
	}
	if (!p->code) parse_functions(p);
	if (has_module && !p->code) {
		parse_expect(p, '}');
		parse_loc_optional(p);
	}
	while (!p->code && p->lx.kind == TOKEN_HASH) parse_alias(p);
	if (!p->code && p->lx.kind != TOKEN_END)
		parse_fail(
			p, ERR_FORMAT, "expected the end of the text, found '%.*s'", (int)MIN(p->lx.tok.len, 40), p->lx.tok.data);
	return p->code;
}

int ttir_parse(const char *text, size_t len, struct ttir_module *m, struct err *err)
{
	if (len > TTIR_TEXT_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "ttir text has %zu bytes, at most %zu are read", len, TTIR_TEXT_BYTES_MAX);
	*m = (struct ttir_module){.ntypes = 0};
	struct sha256_hex hash = hash_bytes(text, len);
	memcpy(&m->seed, hash.text, sizeof m->seed);
	m->types = arena_alloc(&m->arena, TTIR_TYPES_MAX * sizeof *m->types);
	struct parser p = {.lx = {.text = text, .at = text, .end = text + len}, .m = m, .err = err};
	if (!parse_module(&p)) parse_loc_resolve(&p);
	free(p.alias);
	free(p.alias_loc);
	if (p.code) ttir_release(m);
	return p.code;
}

void ttir_release(struct ttir_module *m)
{
	if (!m) return;
	arena_release(&m->arena);
	free(m->locs);
	*m = (struct ttir_module){.ntypes = 0};
}
