/* Types and attributes of the IR text, and the small steps that every
 * parsing function is made of. */
#include "ttir/ttir_internal.h"
#include "base/base.h"

struct elem_row {
	const char *text; /* as the IR spells it */
	uint8_t bytes;    /* of one element */
	bool is_int;
	bool is_float;
};
#define X(e, text, bytes, i, f) [e] = {text, bytes, i, f},
static const struct elem_row elems[ELEM_COUNT] = {ELEM_TABLE(X)};
#undef X

size_t elem_bytes(enum elem e) { return elems[e].bytes; }
bool elem_is_int(enum elem e) { return elems[e].is_int; }
bool elem_is_float(enum elem e) { return elems[e].is_float; }
bool elem_is_narrow(enum elem e) { return elems[e].is_float && elems[e].bytes < 4; }
bool elem_is_wide(enum elem e) { return elems[e].is_float && elems[e].bytes >= 4; }
const char *elem_name(enum elem e) { return elems[e].text; }

/* ---- steps ---- */

int parse_fail(struct parser *p, int code, const char *fmt, ...)
{
	if (p->code) return p->code;
	char text[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	int line, column;
	lexer_position(&p->lx, p->lx.tok_start, &line, &column);
	p->code = err_set(p->err, code, "ttir:%d:%d: %s", line, column, text);
	return p->code;
}

bool parse_is(const struct parser *p, char punct) { return p->lx.kind == TOKEN_PUNCT && p->lx.punct == punct; }
bool parse_is_word(const struct parser *p, const char *word)
{
	return p->lx.kind == TOKEN_WORD && slice_is(p->lx.tok, word);
}

bool parse_accept(struct parser *p, char punct)
{
	if (!parse_is(p, punct)) return false;
	lexer_next(&p->lx);
	return true;
}

int parse_expect(struct parser *p, char punct)
{
	if (parse_accept(p, punct)) return 0;
	int len = (int)MIN(p->lx.tok.len, 40);
	return parse_fail(p, ERR_FORMAT, "expected '%c', found '%.*s'", punct, len, p->lx.tok.data);
}

int parse_enter(struct parser *p)
{
	if (++p->depth > TTIR_DEPTH_MAX) return parse_fail(p, ERR_LIMIT, "nested more than %d deep", TTIR_DEPTH_MAX);
	return 0;
}

int parse_count(struct parser *p, int *out)
{
	if (p->lx.kind != TOKEN_NUMBER || p->lx.tok.len > 9 || p->lx.tok.data[0] == '-')
		return parse_fail(p, ERR_FORMAT, "expected a small number");
	*out = 0;
	for (size_t i = 0; i < p->lx.tok.len; i++) {
		if (p->lx.tok.data[i] < '0' || p->lx.tok.data[i] > '9')
			return parse_fail(p, ERR_FORMAT, "expected a small number");
		*out = *out * 10 + (p->lx.tok.data[i] - '0');
	}
	lexer_next(&p->lx);
	return 0;
}

void *parse_grow(struct parser *p, void *list, int count, size_t item_bytes)
{
	if (count >= TTIR_LIST_MAX) {
		parse_fail(p, ERR_LIMIT, "more than %d items in one list", TTIR_LIST_MAX);
		return NULL;
	}
	bool is_full = count == 0 || (count >= 4 && (count & (count - 1)) == 0);
	if (!is_full) return list;
	void *bigger = arena_alloc(&p->m->arena, (size_t)MAX(count * 2, 4) * item_bytes);
	if (count) memcpy(bigger, list, (size_t)count * item_bytes);
	return bigger;
}

/* ---- types ---- */

static bool type_equal(const struct ttir_type *a, const struct ttir_type *b)
{
	return a->kind == b->kind && a->elem == b->elem && a->inner == b->inner && a->ndim == b->ndim &&
		!memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof a->shape[0]);
}

int ttir_type_intern(struct ttir_module *m, const struct ttir_type *t)
{
	uint32_t h = (uint32_t)t->kind * 31 + (uint32_t)t->elem * 7 + (uint32_t)t->inner * 131;
	for (int i = 0; i < t->ndim; i++) h = h * 33 + (uint32_t)t->shape[i];
	int *bucket = &m->type_buckets[(h ^ h >> 8) & 255];
	for (int i = *bucket; i; i = m->types[i].next)
		if (type_equal(&m->types[i], t)) return i;
	if (m->ntypes == 0) m->ntypes = 1; /* id 0 ends a chain */
	if (m->ntypes >= TTIR_TYPES_MAX) return ERR_LIMIT;
	m->types[m->ntypes] = *t;
	m->types[m->ntypes].next = *bucket;
	*bucket = m->ntypes;
	return m->ntypes++;
}

int ttir_type_scalar(struct ttir_module *m, enum elem e)
{
	struct ttir_type t = {.kind = TYPE_SCALAR, .elem = e, .count = 1};
	return ttir_type_intern(m, &t);
}

void ttir_type_text(const struct ttir_module *m, int type, struct str *out)
{
	const struct ttir_type *t = &m->types[type];
	if (t->kind == TYPE_TENSOR) {
		str_puts(out, "tensor<");
		for (int i = 0; i < t->ndim; i++) str_printf(out, "%dx", t->shape[i]);
		ttir_type_text(m, t->inner, out);
		str_putc(out, '>');
	} else if (t->elem == ELEM_PTR) {
		str_puts(out, t->kind == TYPE_DESC ? "!tt.tensordesc<" : "!tt.ptr<");
		ttir_type_text(m, t->inner, out);
		str_putc(out, '>');
	} else {
		str_puts(out, elem_name(t->elem));
	}
}

static int intern_or_fail(struct parser *p, const struct ttir_type *t)
{
	int id = ttir_type_intern(p->m, t);
	return id < 0 ? parse_fail(p, ERR_LIMIT, "more than %d different types", TTIR_TYPES_MAX) : id;
}

/* Dimensions are scanned from the text: "128x!tt.ptr" is one word and a half to the lexer.
 * Dimensions are powers of two, as Triton's own verifier demands; reductions rely on it. */
static int parse_dims(struct parser *p, struct ttir_type *t)
{
	const char *s = p->lx.tok_start;
	t->count = 1;
	while (s < p->lx.end && *s >= '0' && *s <= '9') {
		int64_t dim = 0;
		for (; s < p->lx.end && *s >= '0' && *s <= '9'; s++) dim = MIN(dim * 10 + (*s - '0'), TTIR_ELEMENTS_MAX + 1);
		if (t->ndim == TTIR_DIMS_MAX)
			return parse_fail(p, ERR_LIMIT, "tensor of more than %d dimensions", TTIR_DIMS_MAX);
		if (dim > TTIR_ELEMENTS_MAX)
			return parse_fail(p, ERR_LIMIT, "tensor of more than %lld elements", (long long)TTIR_ELEMENTS_MAX);
		if (dim == 0 || (dim & (dim - 1)))
			return parse_fail(p, ERR_RANGE, "tensor dimension is not a power of two, as Triton demands");
		if (dim * t->count > TTIR_ELEMENTS_MAX)
			return parse_fail(p, ERR_LIMIT, "tensor of more than %lld elements", (long long)TTIR_ELEMENTS_MAX);
		t->shape[t->ndim++] = (int32_t)dim;
		t->count *= dim;
		if (s >= p->lx.end || *s != 'x') return parse_fail(p, ERR_FORMAT, "expected 'x' after a tensor dimension");
		s++;
	}
	if (t->ndim == 0) return parse_fail(p, ERR_FORMAT, "tensor without dimensions");
	p->lx.at = s;
	lexer_next(&p->lx);
	return 0;
}

static int parse_tensor(struct parser *p)
{
	struct ttir_type t = {.kind = TYPE_TENSOR};
	if (!parse_is(p, '<')) return parse_expect(p, '<');
	lexer_next(&p->lx);
	if (parse_dims(p, &t)) return p->code;
	t.inner = parse_type(p);
	if (p->code) return p->code;
	if (p->m->types[t.inner].kind != TYPE_SCALAR)
		return parse_fail(p, ERR_FORMAT, "tensor of something that is not a scalar");
	t.elem = p->m->types[t.inner].elem;
	if (parse_is(p, ',')) return parse_fail(p, ERR_UNSUPPORTED, "tensor layout: this is TTGIR, expected TTIR");
	if (parse_expect(p, '>')) return p->code;
	return intern_or_fail(p, &t);
}

/* After !tt.ptr or !tt.tensordesc, or where the pretty form left these words out. */
static int parse_pointer(struct parser *p, bool is_desc)
{
	struct ttir_type t = {.elem = ELEM_PTR, .count = 1};
	if (parse_expect(p, '<')) return p->code;
	t.inner = parse_type(p);
	if (p->code) return p->code;
	if (!is_desc && parse_accept(p, ',')) {
		if (p->lx.kind != TOKEN_NUMBER || !slice_is(p->lx.tok, "1"))
			return parse_fail(p, ERR_UNSUPPORTED, "pointer in an address space other than 1");
		lexer_next(&p->lx);
	}
	if (parse_expect(p, '>')) return p->code;
	bool is_tensor = p->m->types[t.inner].kind == TYPE_TENSOR;
	if (is_desc != is_tensor && is_desc)
		return parse_fail(p, ERR_FORMAT, "tensor descriptor of something that is not a tensor");
	if (p->m->types[t.inner].kind == TYPE_BLOCK_PTR || p->m->types[t.inner].kind == TYPE_DESC)
		return parse_fail(p, ERR_UNSUPPORTED, "pointer to a block pointer");
	t.kind = is_desc ? TYPE_DESC : is_tensor ? TYPE_BLOCK_PTR : TYPE_SCALAR;
	return intern_or_fail(p, &t);
}

static int parse_named_type(struct parser *p)
{
	struct slice name = p->lx.tok;
	if (slice_is(name, "tensor")) {
		lexer_next(&p->lx);
		return parse_tensor(p);
	}
	struct ttir_type t = {.kind = TYPE_SCALAR, .count = 1};
	/* descriptors say whether their integers have a sign ("si32"), which no operation on them asks
	 * for */
	if (name.len > 2 && (name.data[0] == 's' || name.data[0] == 'u') && name.data[1] == 'i')
		name = (struct slice){name.data + 1, name.len - 1};
	for (int e = 0; e < ELEM_PTR; e++)
		if (slice_is(name, elems[e].text)) {
			t.elem = (enum elem)e;
			lexer_next(&p->lx);
			return intern_or_fail(p, &t);
		}
	if (slice_is(name, "index")) { /* 64 bits on every target */
		t.elem = ELEM_I64;
		lexer_next(&p->lx);
		return intern_or_fail(p, &t);
	}
	return parse_fail(p, ERR_UNSUPPORTED, "type '%.*s'", (int)MIN(name.len, 60), name.data);
}

/* The id of the type that stands here, or a negative code. What it is shows in its first token: a
 * word (i32, tensor<...>), !tt.ptr, !tt.tensordesc, or, where Triton's short form leaves the name
 * out, '<'. */
int parse_type(struct parser *p)
{
	if (p->code || parse_enter(p)) return p->code;
	int id;
	if (p->lx.kind == TOKEN_WORD) {
		id = parse_named_type(p);
	} else if (p->lx.kind == TOKEN_BANG && (slice_is(p->lx.tok, "tt.ptr") || slice_is(p->lx.tok, "tt.tensordesc"))) {
		bool is_desc = slice_is(p->lx.tok, "tt.tensordesc");
		lexer_next(&p->lx);
		id = parse_pointer(p, is_desc);
	} else if (parse_is(p, '<')) {
		id = parse_pointer(p, false);
	} else if (p->lx.kind == TOKEN_BANG) {
		id = parse_fail(p, ERR_UNSUPPORTED, "type '!%.*s'", (int)MIN(p->lx.tok.len, 60), p->lx.tok.data);
	} else {
		id = parse_fail(p, ERR_FORMAT, "expected a type, found '%.*s'", (int)MIN(p->lx.tok.len, 40), p->lx.tok.data);
	}
	p->depth--;
	return id;
}

/* ---- attributes ---- */

static int64_t number_as_int(struct slice s)
{
	uint64_t v = 0;
	bool is_negative = s.len && s.data[0] == '-';
	for (size_t i = is_negative; i < s.len && s.data[i] >= '0' && s.data[i] <= '9'; i++)
		v = v * 10 + (uint64_t)(s.data[i] - '0');
	return (int64_t)(is_negative ? 0 - v : v);
}

static int parse_dense_items(struct parser *p, struct ttir_attr *a, int64_t *cap)
{
	if (parse_enter(p)) return p->code;
	if (parse_accept(p, '[')) {
		while (!p->code && !parse_is(p, ']')) {
			if (parse_dense_items(p, a, cap)) break;
			if (!parse_accept(p, ',')) break;
		}
		parse_expect(p, ']');
	} else if (p->lx.kind == TOKEN_NUMBER || parse_is_word(p, "true") || parse_is_word(p, "false")) {
		if (a->nitems >= TTIR_ELEMENTS_MAX) return parse_fail(p, ERR_LIMIT, "dense constant of too many elements");
		if (a->nitems == *cap) {
			*cap = MAX(*cap * 4, 4);
			struct slice *bigger = arena_alloc(&p->m->arena, (size_t)*cap * sizeof *bigger);
			if (a->nitems) memcpy(bigger, a->items, (size_t)a->nitems * sizeof *bigger);
			a->items = bigger;
		}
		a->items[a->nitems++] = p->lx.tok;
		lexer_next(&p->lx);
	} else {
		parse_fail(p, ERR_FORMAT, "expected a number in a dense constant");
	}
	p->depth--;
	return p->code;
}

static int parse_dense(struct parser *p, struct ttir_attr *a)
{
	a->kind = ATTR_DENSE;
	if (parse_expect(p, '<')) return p->code;
	if (p->lx.kind == TOKEN_STRING) {
		a->text = p->lx.tok;
		lexer_next(&p->lx);
	} else {
		int64_t cap = 0;
		if (parse_dense_items(p, a, &cap)) return p->code;
	}
	return parse_expect(p, '>');
}

/* array<i32: 1, 0>, and the empty array<i32>. */
static int parse_array(struct parser *p, struct ttir_attr *a)
{
	a->kind = ATTR_INTS;
	if (parse_expect(p, '<')) return p->code;
	if (parse_type(p) < 0) return p->code;
	if (!parse_accept(p, ':')) return parse_expect(p, '>');
	while (!p->code && !parse_is(p, '>')) {
		if (p->lx.kind != TOKEN_NUMBER && p->lx.kind != TOKEN_WORD)
			return parse_fail(p, ERR_FORMAT, "expected a number in an array");
		a->ints = parse_grow(p, a->ints, a->nitems, sizeof *a->ints);
		if (p->code) return p->code;
		a->ints[a->nitems++] = parse_is_word(p, "true") ? 1 : number_as_int(p->lx.tok);
		lexer_next(&p->lx);
		if (!parse_accept(p, ',')) break;
	}
	return parse_expect(p, '>');
}

/* Something whose meaning is not needed, [..], {..}, #tt.x<..>: skipped with balanced brackets. */
static int skip_balanced(struct parser *p, struct ttir_attr *a)
{
	a->kind = ATTR_OTHER;
	int level = 0;
	do {
		if (p->lx.kind == TOKEN_END || p->lx.kind == TOKEN_BAD)
			return parse_fail(p, ERR_FORMAT, "attribute has no end");
		if (p->lx.kind == TOKEN_PUNCT && strchr("([{<", p->lx.punct)) level++;
		if (p->lx.kind == TOKEN_PUNCT && strchr(")]}>", p->lx.punct)) level--;
		if (level < 0) return parse_fail(p, ERR_FORMAT, "unbalanced brackets in an attribute");
		lexer_next(&p->lx);
	} while (level > 0 || parse_is(p, '<'));
	return p->code;
}

int parse_attr_value(struct parser *p, struct ttir_attr *a)
{
	a->type = -1;
	a->text = p->lx.tok;
	/* By its first token: a number, a text, a word with or without something in angle brackets.
	 * What nobody asks for is skipped as far as its brackets balance. */
	if (p->lx.kind == TOKEN_NUMBER) {
		a->kind = ATTR_NUMBER;
		a->i = number_as_int(p->lx.tok);
		lexer_next(&p->lx);
	} else if (p->lx.kind == TOKEN_STRING) {
		a->kind = ATTR_STRING;
		lexer_next(&p->lx);
	} else if (parse_is_word(p, "true") || parse_is_word(p, "false")) {
		a->kind = ATTR_BOOL;
		a->i = parse_is_word(p, "true");
		lexer_next(&p->lx);
	} else if (parse_is_word(p, "dense")) {
		lexer_next(&p->lx);
		return parse_dense(p, a);
	} else if (parse_is_word(p, "array")) {
		lexer_next(&p->lx);
		return parse_array(p, a);
	} else if (p->lx.kind == TOKEN_WORD || p->lx.kind == TOKEN_SYMBOL) {
		a->kind = ATTR_KEYWORD;
		lexer_next(&p->lx);
		if (parse_is(p, '<')) return skip_balanced(p, a);
	} else {
		return skip_balanced(p, a);
	}
	return p->code;
}

static int parse_attr_entry(struct parser *p, struct ttir_attr *a)
{
	if (p->lx.kind != TOKEN_WORD && p->lx.kind != TOKEN_STRING)
		return parse_fail(p, ERR_FORMAT, "expected the name of an attribute");
	a->key = p->lx.tok;
	a->type = -1;
	lexer_next(&p->lx);
	if (!parse_accept(p, '=')) return 0; /* unit attribute */
	if (parse_attr_value(p, a)) return p->code;
	if (parse_accept(p, ':')) a->type = parse_type(p);
	return p->code;
}

int parse_attr_dict(struct parser *p, struct ttir_op *op)
{
	if (parse_enter(p) || parse_expect(p, '{')) return p->code;
	while (!p->code && !parse_is(p, '}')) {
		struct ttir_attr a = {.kind = ATTR_UNIT};
		if (parse_attr_entry(p, &a)) return p->code;
		if (op) {
			op->attrs = parse_grow(p, op->attrs, op->nattrs, sizeof a);
			if (p->code) return p->code;
			op->attrs[op->nattrs++] = a;
		}
		if (!parse_accept(p, ',')) break;
	}
	p->depth--;
	return parse_expect(p, '}');
}
