/* Source locations: loc("file":12:5), loc("name"(child)), loc(callsite(a at b)), loc(fused[...]),
 * loc(unknown), and aliases (#loc3), which may be used before they are defined. Chains are walked
 * with a step limit, so that aliases that name each other are harmless. */
#include "ttir/ttir_internal.h"
#include "base/base.h"
#include <stdlib.h>

static int loc_add(struct parser *p, struct ttir_loc loc)
{
	struct ttir_module *m = p->m;
	if (m->nlocs >= TTIR_LOCS_MAX) return parse_fail(p, ERR_LIMIT, "more than %d locations", TTIR_LOCS_MAX);
	if (m->nlocs == m->locs_cap) {
		m->locs_cap = MAX(m->locs_cap * 2, 256);
		m->locs = xrealloc(m->locs, size_mul((size_t)m->locs_cap, sizeof *m->locs));
	}
	m->locs[m->nlocs] = loc;
	return m->nlocs++;
}

static int parse_loc_body(struct parser *p);

/* "file":line:column [to [line]:column], or "name"(child) */
static int parse_loc_string(struct parser *p)
{
	struct ttir_loc loc = {.kind = LOC_NAMED, .file = p->lx.tok, .a = -1, .b = -1};
	lexer_next(&p->lx);
	if (parse_accept(p, ':')) {
		loc.kind = LOC_FILE;
		if (parse_count(p, &loc.line) || parse_expect(p, ':') || parse_count(p, &loc.column)) return p->code;
		if (parse_is_word(p, "to")) {
			int ignored;
			lexer_next(&p->lx);
			if (!parse_is(p, ':') && parse_count(p, &ignored)) return p->code;
			if (parse_expect(p, ':') || parse_count(p, &ignored)) return p->code;
		}
	} else if (parse_accept(p, '(')) {
		loc.a = parse_loc_body(p);
		if (p->code || parse_expect(p, ')')) return p->code;
	}
	return loc_add(p, loc);
}

static int parse_loc_fused(struct parser *p)
{
	struct ttir_loc loc = {.kind = LOC_NAMED, .a = -1, .b = -1};
	lexer_next(&p->lx);
	if (parse_is(p, '<')) {
		struct ttir_attr ignored = {.kind = ATTR_UNIT};
		if (parse_attr_value(p, &ignored)) return p->code;
	}
	if (parse_expect(p, '[')) return p->code;
	while (!p->code && !parse_is(p, ']')) {
		int child = parse_loc_body(p);
		if (loc.a < 0) loc.a = child;
		if (!parse_accept(p, ',')) break;
	}
	if (p->code || parse_expect(p, ']')) return p->code;
	return loc_add(p, loc);
}

static int parse_loc_callsite(struct parser *p)
{
	struct ttir_loc loc = {.kind = LOC_CALLSITE, .a = -1, .b = -1};
	lexer_next(&p->lx);
	if (parse_expect(p, '(')) return p->code;
	loc.a = parse_loc_body(p);
	if (p->code) return p->code;
	if (!parse_is_word(p, "at")) return parse_fail(p, ERR_FORMAT, "expected 'at' in a callsite location");
	lexer_next(&p->lx);
	loc.b = parse_loc_body(p);
	if (p->code || parse_expect(p, ')')) return p->code;
	return loc_add(p, loc);
}

static int parse_loc_body(struct parser *p)
{
	if (p->code || parse_enter(p)) return p->code;
	int id;
	if (p->lx.kind == TOKEN_STRING) {
		id = parse_loc_string(p);
	} else if (p->lx.kind == TOKEN_HASH) {
		id = loc_add(p, (struct ttir_loc){.kind = LOC_ALIAS, .file = p->lx.tok, .a = -1, .b = -1});
		lexer_next(&p->lx);
	} else if (parse_is_word(p, "unknown")) {
		id = loc_add(p, (struct ttir_loc){.kind = LOC_UNKNOWN, .a = -1, .b = -1});
		lexer_next(&p->lx);
	} else if (parse_is_word(p, "callsite")) {
		id = parse_loc_callsite(p);
	} else if (parse_is_word(p, "fused")) {
		id = parse_loc_fused(p);
	} else {
		id = parse_fail(
			p, ERR_FORMAT, "expected a location, found '%.*s'", (int)MIN(p->lx.tok.len, 40), p->lx.tok.data);
	}
	p->depth--;
	return id;
}

int parse_loc(struct parser *p)
{
	if (parse_expect(p, '(')) return p->code;
	int id = parse_loc_body(p);
	if (p->code || parse_expect(p, ')')) return p->code;
	return id;
}

int parse_loc_optional(struct parser *p)
{
	if (p->code || !parse_is_word(p, "loc")) return -1;
	lexer_next(&p->lx);
	return parse_loc(p);
}

void parse_loc_alias(struct parser *p, struct slice name, int loc)
{
	if (p->nalias == p->alias_cap) {
		p->alias_cap = MAX(p->alias_cap * 2, 64);
		p->alias = xrealloc(p->alias, size_mul((size_t)p->alias_cap, sizeof *p->alias));
		p->alias_loc = xrealloc(p->alias_loc, size_mul((size_t)p->alias_cap, sizeof *p->alias_loc));
	}
	p->alias[p->nalias] = name;
	p->alias_loc[p->nalias++] = loc;
}

/* Links every LOC_ALIAS to its definition through an open hash table of the aliases. */
int parse_loc_resolve(struct parser *p)
{
	size_t cap = 64;
	while (cap < (size_t)p->nalias * 2) cap *= 2;
	int *table = xcalloc(cap, sizeof *table);
	for (int i = 0; i < p->nalias; i++) {
		size_t at = slice_hash(p->alias[i], p->m->seed) & (cap - 1);
		while (table[at] && !slice_same(p->alias[table[at] - 1], p->alias[i])) at = (at + 1) & (cap - 1);
		if (!table[at]) table[at] = i + 1;
	}
	for (int i = 0; i < p->m->nlocs; i++) {
		struct ttir_loc *loc = &p->m->locs[i];
		if (loc->kind != LOC_ALIAS) continue;
		for (size_t at = slice_hash(loc->file, p->m->seed) & (cap - 1); table[at]; at = (at + 1) & (cap - 1)) {
			if (slice_same(p->alias[table[at] - 1], loc->file)) {
				loc->a = p->alias_loc[table[at] - 1];
				break;
			}
		}
	}
	free(table);
	return 0;
}
