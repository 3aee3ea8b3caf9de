/* Layouts from a TTGIR text. The text is read line by line, as MLIR prints it: aliases of layouts
 * and locations, and the operations that touch memory. What does not look like one of those is
 * skipped: a layout that is missing costs precision, never correctness. */
#include "cost/cost_layout.h"
#include "base/base.h"
#include <stdlib.h>

#define TTGIR_BYTES_MAX ((size_t)64 << 20)
#define ALIASES_MAX 256
#define LOCS_MAX (1 << 18)
#define SITES_MAX (1 << 16)
#define NEST_MAX 8
#define ORDERS_MAX 16
#define LOC_STEPS 64

/* ---- small readers over a slice ---- */

static struct slice after(struct slice s, size_t n) { return (struct slice){s.data + n, s.len - n}; }

static const char *find(struct slice s, const char *what)
{
	return s.len ? memmem(s.data, s.len, what, strlen(what)) : NULL;
}

static bool skip_to(struct slice *s, const char *what)
{
	const char *at = find(*s, what);
	if (at) *s = after(*s, (size_t)(at - s->data) + strlen(what));
	return at != NULL;
}

static void skip_blanks(struct slice *s)
{
	while (s->len && (*s->data == ' ' || *s->data == ',')) *s = after(*s, 1);
}

static bool read_int(struct slice *s, int64_t *out)
{
	int64_t v = 0;
	size_t n = 0;
	for (; n < s->len && s->data[n] >= '0' && s->data[n] <= '9' && v < INT32_MAX; n++) v = v * 10 + (s->data[n] - '0');
	if (!n || v > INT32_MAX) return false;
	*s = after(*s, n);
	*out = v;
	return true;
}

/* "[1, 4]" behind `key` anywhere in s; the number of integers, -1 when there is no such list. */
static int read_list(struct slice s, const char *key, int64_t *out, int max)
{
	int n = 0;
	if (!skip_to(&s, key) || !skip_to(&s, "[")) return -1;
	while (n < max) {
		skip_blanks(&s);
		if (!read_int(&s, &out[n])) break;
		n++;
	}
	skip_blanks(&s);
	return s.len && *s.data == ']' ? n : -1;
}

static bool is_word_end(char c)
{
	return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.');
}

static size_t word_len(struct slice s)
{
	size_t n = 0;
	while (n < s.len && !is_word_end(s.data[n])) n++;
	return n;
}

static bool starts(struct slice s, const char *what)
{
	return s.len >= strlen(what) && !memcmp(s.data, what, strlen(what));
}

/* ---- layouts ---- */

static int log2_exact(int64_t v)
{
	if (v < 1 || (v & (v - 1))) return -1;
	return __builtin_ctzll((uint64_t)v);
}

static bool add_base(struct cost_bases *b, int dim, int32_t step)
{
	if (b->n >= LAYOUT_BITS) return false;
	memset(b->at[b->n], 0, sizeof b->at[0]);
	b->at[b->n++][dim] = step;
	return true;
}

/* sizePerThread, threadsPerWarp, warpsPerCTA: each takes the next bits of its dimensions, the
 * fastest of `order` first. */
static int parse_blocked(struct slice s, struct cost_layout *out)
{
	static const char *const keys[] = {"sizePerThread", "threadsPerWarp", "warpsPerCTA"};
	struct cost_bases *const part[] = {&out->reg, &out->lane, &out->warp};
	int64_t order[LAYOUT_DIMS], count[LAYOUT_DIMS];
	int32_t used[LAYOUT_DIMS] = {1, 1, 1, 1, 1};
	out->ndim = read_list(s, "order", order, LAYOUT_DIMS);
	if (out->ndim < 1) return -1;
	for (int i = 0; i < out->ndim; i++)
		if (order[i] >= out->ndim) return -1;
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		if (read_list(s, keys[k], count, LAYOUT_DIMS) != out->ndim) return -1;
		for (int i = 0; i < out->ndim; i++) {
			int d = (int)order[i], bits = log2_exact(count[d]);
			if (bits < 0 || bits > LAYOUT_BITS) return -1;
			for (int b = 0; b < bits; b++, used[d] *= 2)
				if (used[d] >= 1 << LAYOUT_BITS || !add_base(part[k], d, used[d])) return -1;
		}
	}
	return out->lane.n == LAYOUT_LANE_BITS ? 0 : -1;
}

/* register = [[0, 1], ...], lane = ..., warp = ...: bases as they are. */
static int parse_linear(struct slice s, struct cost_layout *out)
{
	static const char *const keys[] = {"register = [", "lane = [", "warp = ["};
	struct cost_bases *const part[] = {&out->reg, &out->lane, &out->warp};
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		/* A list of lists of as many numbers as there are dimensions, one list for each bit. */
		struct slice r = s;
		if (!skip_to(&r, keys[k])) return -1;
		for (skip_blanks(&r); r.len && *r.data == '['; skip_blanks(&r)) {
			if (part[k]->n >= LAYOUT_BITS) return -1;
			/* One base: its numbers, of which each has as many as the first. */
			int32_t *base = part[k]->at[part[k]->n];
			int d = 0;
			memset(base, 0, sizeof part[k]->at[0]);
			r = after(r, 1);
			for (int64_t v; d < LAYOUT_DIMS; d++) {
				skip_blanks(&r);
				if (!read_int(&r, &v)) break;
				base[d] = (int32_t)v;
			}
			if (!r.len || *r.data != ']' || (out->ndim && d != out->ndim)) return -1;
			out->ndim = d;
			part[k]->n++;
			r = after(r, 1);
		}
	}
	/* A warp has 32 lanes; a layout of other numbers is not Triton's. */
	return out->lane.n == LAYOUT_LANE_BITS && out->ndim ? 0 : -1;
}

/* Accumulators of mma (16 x 8) and wgmma (16 x n of each warp): a thread has two neighbours in a
 * row, eight rows of four threads, then the lower eight rows. */
static int parse_mma(struct slice s, struct cost_layout *out)
{
	int64_t major, instr[3], warps[LAYOUT_DIMS];
	struct slice v = s;
	if (!skip_to(&v, "versionMajor = ") || !read_int(&v, &major)) return -1;
	int nwarps = read_list(s, "warpsPerCTA", warps, LAYOUT_DIMS), n = read_list(s, "instrShape", instr, 3);
	if (nwarps != 2 || n < 2 || major < 2 || major > 5) return -1;
	int64_t columns = major == 2 ? 8 : instr[1];
	out->ndim = 2;
	out->mma_version = (int)major;
	bool ok = add_base(&out->reg, 1, 1) && add_base(&out->reg, 0, 8);
	for (int32_t c = 8; c < columns && ok; c *= 2) ok = add_base(&out->reg, 1, c);
	ok = ok && add_base(&out->lane, 1, 2) && add_base(&out->lane, 1, 4) && add_base(&out->lane, 0, 1) &&
		add_base(&out->lane, 0, 2) && add_base(&out->lane, 0, 4);
	int rows = log2_exact(warps[0]), cols = log2_exact(warps[1]);
	if (!ok || rows < 0 || cols < 0 || rows > 6 || cols > 6 || log2_exact(columns) < 3) return -1;
	for (int b = 0; b < rows && ok; b++) ok = add_base(&out->warp, 0, 16 << b);
	for (int b = 0; b < cols && ok; b++) ok = add_base(&out->warp, 1, (int32_t)columns << b);
	return ok ? 0 : -1;
}

static void drop_dim(struct cost_bases *b, int dim, int ndim)
{
	for (int i = 0; i < b->n; i++) {
		for (int d = dim; d + 1 < ndim; d++) b->at[i][d] = b->at[i][d + 1];
		b->at[i][ndim - 1] = 0;
	}
}

static int parse_simple(struct slice s, struct cost_layout *out)
{
	static const struct {
		const char *name;
		int (*parse)(struct slice s, struct cost_layout *out);
	} kinds[] = {{"#ttg.blocked<", parse_blocked}, {"#ttg.linear<", parse_linear}, {"#ttg.nvidia_mma<", parse_mma}};
	*out = (struct cost_layout){.ndim = 0};
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++)
		if (starts(s, kinds[k].name)) return kinds[k].parse(s, out);
	return -1;
}

int cost_layout_parse(struct slice text, struct cost_layout *out) { return parse_simple(text, out); }

/* ---- the text ---- */

struct alias {
	struct slice name;
	struct cost_layout layout;
};
enum loc_kind { LOC_TEXT_NONE, LOC_TEXT_FILE, LOC_TEXT_CALL, LOC_TEXT_NAME };
struct loc_text {
	enum loc_kind kind;
	struct slice file;
	int line;
	int column;
	int a; /* number of another location: a call's callee, or what a name stands for; -1: none */
	int b; /* of the place that a call is made from; -1: none */
};
struct shared_order {
	struct slice name;
	int64_t fastest; /* dimension of which neighbours are neighbours in shared memory */
};
struct scan {
	struct vm_layouts *out;
	int ntransposed;
	int nordered;
	int naliases;
	int nlocs;
	const struct op_row *region; /* between the lines of a tt.reduce or tt.scan: which */
	bool is_depth_first[2];      /* of the next dot, as a cost_site's */
	struct slice transposed[NEST_MAX];
	struct slice kernel_file;
	struct shared_order ordered[ORDERS_MAX];
	struct alias *aliases;
	struct loc_text *locs;
};

static int alias_find(const struct scan *sc, struct slice name)
{
	for (int i = 0; i < sc->naliases; i++)
		if (slice_same(sc->aliases[i].name, name)) return i;
	return -1;
}

/* "#blocked", "#ttg.slice<{dim = 1, parent = #blocked}>" nested, or a layout written out. */
static int layout_of_text(const struct scan *sc, struct slice s, struct cost_layout *out, int depth)
{
	if (depth > NEST_MAX) return -1;
	if (starts(s, "#ttg.slice<")) {
		int64_t dim;
		struct slice d = s;
		if (!skip_to(&d, "dim = ") || !read_int(&d, &dim) || !skip_to(&d, "parent = ") ||
			layout_of_text(sc, d, out, depth + 1) || dim >= out->ndim)
			return -1;
		struct cost_bases *const part[] = {&out->reg, &out->lane, &out->warp};
		for (size_t k = 0; k < ARRAY_LEN(part); k++) drop_dim(part[k], (int)dim, out->ndim);
		out->ndim--;
		return out->ndim ? 0 : -1;
	}
	if (!s.len || *s.data != '#') return -1;
	struct slice name = {s.data, 1 + word_len(after(s, 1))};
	int i = alias_find(sc, name);
	if (i < 0) return parse_simple(s, out);
	*out = sc->aliases[i].layout;
	return 0;
}

static int layout_keep(struct vm_layouts *l, const struct cost_layout *layout)
{
	for (int i = 0; i < l->nlayouts; i++)
		if (!memcmp(&l->layouts[i], layout, sizeof *layout)) return i;
	if (l->nlayouts >= ALIASES_MAX) return -1;
	if ((l->nlayouts & (l->nlayouts - 1)) == 0)
		l->layouts = xrealloc(l->layouts, size_mul((size_t)MAX(l->nlayouts * 2, 8), sizeof *l->layouts));
	l->layouts[l->nlayouts] = *layout;
	return l->nlayouts++;
}

/* "#loc" is 0, "#loc7" is 7; -1 otherwise. */
static int loc_number(struct slice s)
{
	int64_t n = 0;
	if (!starts(s, "#loc")) return -1;
	s = after(s, 4);
	if (s.len && *s.data >= '0' && *s.data <= '9' && (!read_int(&s, &n) || n >= LOCS_MAX)) return -1;
	return (int)n;
}

/* What stands inside loc(...). */
static struct loc_text loc_read(struct slice s)
{
	/* Three forms: a call from somewhere, another location, and a file's name with line and
	 * column or a variable's name with its location. */
	struct loc_text l = {.kind = LOC_TEXT_NONE, .a = -1, .b = -1};
	if (starts(s, "callsite(")) {
		struct slice at = s;
		l.a = loc_number(after(s, 9));
		if (skip_to(&at, " at ")) l.b = loc_number(at);
		l.kind = LOC_TEXT_CALL;
	} else if (starts(s, "#loc")) {
		l.a = loc_number(s);
		l.kind = LOC_TEXT_NAME;
	} else if (starts(s, "\"")) {
		const char *end = s.len > 1 ? memchr(s.data + 1, '"', s.len - 1) : NULL;
		if (!end) return l;
		l.file = (struct slice){s.data + 1, (size_t)(end - s.data) - 1};
		struct slice rest = after(s, l.file.len + 2);
		int64_t line = 0, column = 0;
		if (starts(rest, "(")) {
			l.a = loc_number(after(rest, 1));
			l.kind = LOC_TEXT_NAME;
		} else if (starts(rest, ":")) {
			rest = after(rest, 1);
			if (!read_int(&rest, &line)) return l;
			if (starts(rest, ":")) {
				rest = after(rest, 1);
				if (!read_int(&rest, &column)) column = 0;
			}
			l.kind = LOC_TEXT_FILE;
			l.line = (int)line;
			l.column = (int)column;
		}
	}
	return l;
}

/* The innermost place in the kernel's own file, as the vm's lines are chosen. */
static const struct loc_text *loc_resolve(const struct scan *sc, const struct loc_text *l, bool own_only, int *steps)
{
	while (l && --*steps > 0) {
		if (l->kind == LOC_TEXT_FILE) {
			bool is_own = slice_same(l->file, sc->kernel_file);
			return is_own || !own_only ? l : NULL;
		}
		if (l->kind == LOC_TEXT_NONE) return NULL;
		const struct loc_text *a = l->a >= 0 && l->a < sc->nlocs ? &sc->locs[l->a] : NULL,
							  *b = l->b >= 0 && l->b < sc->nlocs ? &sc->locs[l->b] : NULL;
		if (l->kind == LOC_TEXT_CALL) {
			const struct loc_text *inner = own_only ? loc_resolve(sc, a, true, steps) : NULL;
			if (inner) return inner;
			l = b;
		} else {
			l = a;
		}
	}
	return NULL;
}

static void scan_alias(struct scan *sc, struct slice line)
{
	size_t n = 1 + word_len(after(line, 1));
	struct slice name = {line.data, n}, value = after(line, n);
	int loc = loc_number(name);
	if (!starts(value, " = ")) return;
	value = after(value, 3);
	/* A place in the source: its number indexes the table, which grows by doubling. */
	if (loc >= 0) {
		if (!starts(value, "loc(")) return;
		if (loc >= sc->nlocs) {
			int cap = sc->nlocs;
			while (cap <= loc) cap = MAX(cap * 2, 256);
			sc->locs = xrealloc(sc->locs, size_mul((size_t)cap, sizeof *sc->locs));
			memset(sc->locs + sc->nlocs, 0, (size_t)(cap - sc->nlocs) * sizeof *sc->locs);
			sc->nlocs = cap;
		}
		sc->locs[loc] = loc_read(after(value, 4));
		return;
	}
	/* A layout of shared memory: its order, and whether it stands transposed, are kept
	 * beside the layout itself. */
	struct cost_layout layout;
	struct slice order = value;
	if (starts(value, "#ttg.swizzled_shared<") && skip_to(&order, "order = [") && sc->nordered < ORDERS_MAX) {
		struct shared_order *o = &sc->ordered[sc->nordered];
		o->name = name;
		sc->nordered += read_int(&order, &o->fastest);
	}
	if (find(value, "transposed = true") && find(value, "elementBitWidth = 32") && sc->ntransposed < NEST_MAX)
		sc->transposed[sc->ntransposed++] = name;
	if (sc->naliases >= ALIASES_MAX || cost_layout_parse(value, &layout)) return;
	sc->aliases[sc->naliases++] = (struct alias){name, layout};
}

/* "tensor<256x1x!tt.ptr<f32>, #blocked>": shape, element bits and layout; false when it is none. */
static bool tensor_read(
	const struct scan *sc, struct slice s, struct cost_site *site, struct cost_layout *layout, bool *has_layout)
{
	if (!skip_to(&s, "tensor<")) return false;
	site->ndim = 0;
	for (int64_t v; site->ndim < LAYOUT_DIMS; s = after(s, 1)) {
		struct slice before = s;
		if (!read_int(&s, &v) || !s.len || *s.data != 'x') {
			s = before;
			break;
		}
		site->shape[site->ndim++] = (int32_t)v;
	}
	/* What one element is: its bits, or those it points to. */
	struct slice e = s;
	if (starts(e, "!tt.ptr<")) e = after(e, 8);
	size_t skip = starts(e, "bf") ? 2 : starts(e, "f") || starts(e, "i") ? 1 : 0;
	int64_t bits = 0;
	e = after(e, skip);
	if (skip && read_int(&e, &bits)) site->elem_bits = (int)MIN(bits, 64);
	/* Up to the closing bracket; the layout stands behind the first comma of this level. */
	int depth = 1;
	const char *comma = NULL;
	size_t n = 0;
	for (; n < s.len && depth; n++) {
		depth += (s.data[n] == '<') - (s.data[n] == '>' && (!n || s.data[n - 1] != '-'));
		if (s.data[n] == ',' && depth == 1 && !comma) comma = s.data + n;
	}
	*has_layout = false;
	if (!comma || (size_t)(comma - s.data) + 2 > n) return site->ndim > 0;
	struct slice text = {comma + 2, n - (size_t)(comma - s.data) - 2};
	*has_layout = !layout_of_text(sc, text, layout, 0);
	return site->ndim > 0;
}

struct op_row {
	const char *name;
	enum cost_site_kind kind;
	bool is_async;  /* a copy that goes on while the program does */
	bool is_result; /* shape and layout are the result's, not the operand's */
	bool is_bulk;
};
static const struct op_row op_rows[] = {
	{"tt.load", COST_SITE_LOAD, false, false, false},
	{"tt.store", COST_SITE_STORE, false, false, false},
	{"tt.atomic_rmw", COST_SITE_ATOMIC, false, false, false},
	{"tt.atomic_cas", COST_SITE_ATOMIC, false, false, false},
	{"ttg.async_copy_global_to_local", COST_SITE_LOAD, true, false, false},
	{"ttng.async_tma_copy_global_to_local", COST_SITE_LOAD, false, false, true},
	{"ttng.async_tma_copy_local_to_global", COST_SITE_STORE, false, false, true},
	{"ttng.async_tma_reduce", COST_SITE_ATOMIC, false, false, true},
	{"ttg.convert_layout", COST_SITE_CONVERT, false, false, false},
	{"ttg.local_store", COST_SITE_CONVERT, false, false, false},
	{"ttg.local_alloc", COST_SITE_CONVERT, false, false, false},
	{"tt.dot", COST_SITE_DOT, false, true, false},
	{"ttng.warp_group_dot", COST_SITE_DOT, false, true, false},
	{"tt.gather", COST_SITE_GATHER, false, false, false},
};

/* The types and the place of a reduction or scan stand behind its region. */
static const struct op_row *region_of_line(struct scan *sc, struct slice line)
{
	static const struct op_row rows[] = {{"\"tt.reduce\"(", COST_SITE_REDUCE, false, false, false},
		{"\"tt.scan\"(", COST_SITE_SCAN, false, false, false}};
	if (sc->region && starts(line, "})")) {
		const struct op_row *row = sc->region;
		sc->region = NULL;
		return row;
	}
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (find(line, rows[i].name)) sc->region = &rows[i];
	return NULL;
}

/* Element by element, on a slice of another block's layout. Other layouts repeat elements only
 * where a block is smaller than the program's threads. */
static bool is_sliced_map(struct slice op)
{
	static const char *const maps[] = {"math.", "arith.", "tt.extern_elementwise", "tt.elementwise_inline_asm",
		"tt.map_elementwise", "tt.precise_", "tt.fp_to_fp", "tt.clampf", "tt.mulhiui"};
	bool is_map = false;
	for (size_t i = 0; i < ARRAY_LEN(maps); i++) is_map |= starts(op, maps[i]);
	return is_map && !starts(op, "arith.constant") && find(op, "#ttg.slice<");
}

static const struct op_row *op_of_line(struct slice line)
{
	static const struct op_row map = {"", COST_SITE_MAP, false, false, false};
	const char *eq = find(line, " = ");
	struct slice s = line;
	if (starts(s, "%") && eq) s = after(s, (size_t)(eq - s.data) + 3);
	size_t n = word_len(s);
	for (size_t i = 0; i < ARRAY_LEN(op_rows); i++)
		if (n == strlen(op_rows[i].name) && !memcmp(s.data, op_rows[i].name, n)) return &op_rows[i];
	return is_sliced_map(s) ? &map : NULL;
}

static struct slice last_loc(struct slice line)
{
	struct slice found = {line.data, 0}, s = line;
	while (skip_to(&s, " loc(")) found = s;
	return found;
}

/* "... = ttg.local_alloc : () -> !ttg.memdesc<3x64x32xf16, ...": buffers of a pipelined loop. */
static void scan_stages(struct scan *sc, struct slice line)
{
	int64_t n;
	if (skip_to(&line, " = ttg.local_alloc : () -> !ttg.memdesc<") && read_int(&line, &n) && n <= 16)
		sc->out->stages = MAX(sc->out->stages, (int)n);
}

static bool is_scattered(const struct scan *sc, struct slice line)
{
	if (!skip_to(&line, " -> ") || !skip_to(&line, ", ")) return false;
	for (int i = 0; i < sc->ntransposed; i++) {
		struct slice n = sc->transposed[i];
		if (line.len > n.len && !memcmp(line.data, n.data, n.len) && is_word_end(line.data[n.len])) return true;
	}
	return false;
}

/* Of operands that come another way: row-major both. */
static const bool usual_order[2] = {true, false};

/* "... = ttg.local_load %x : !ttg.memdesc<16x32xf32, #shared, ...> -> tensor<16x32xf32,
 * #ttg.dot_op<{opIdx = 0, ...": an operand of the next dot; its K is the last dimension of the left
 * one, the last but one of the right one. */
static void scan_operand(struct scan *sc, struct slice line)
{
	int64_t operand, v;
	struct slice type = line;
	if (!skip_to(&type, " = ttg.local_load ") || !skip_to(&type, "!ttg.memdesc<")) return;
	int ndim = 0;
	for (; read_int(&type, &v) && type.len && *type.data == 'x'; type = after(type, 1)) ndim++;
	struct slice shared = type;
	if (!skip_to(&type, "#ttg.dot_op<{opIdx = ") || !read_int(&type, &operand) || operand < 0 || operand > 1 ||
		!skip_to(&shared, ", "))
		return;
	for (int i = 0; i < sc->nordered; i++) {
		struct slice n = sc->ordered[i].name;
		if (shared.len > n.len && !memcmp(shared.data, n.data, n.len) && is_word_end(shared.data[n.len]))
			sc->is_depth_first[operand] = sc->ordered[i].fastest == ndim - 1 - operand;
	}
}

static void scan_op(struct scan *sc, struct slice line)
{
	scan_stages(sc, line);
	scan_operand(sc, line);
	const struct op_row *row = op_of_line(line);
	if (!row) row = region_of_line(sc, line);
	if (!row || sc->out->nsites >= SITES_MAX) return;
	/* Where it is: in the kernel's own file, or wherever it is. */
	struct slice place = last_loc(line), types = line;
	struct cost_site site = {.kind = row->kind, .layout = -1, .is_async = row->is_async, .is_bulk = row->is_bulk};
	struct cost_layout layout;
	bool has_layout = false;
	struct loc_text inl = loc_read(place);
	int steps = LOC_STEPS, again = LOC_STEPS;
	const struct loc_text *at = loc_resolve(sc, &inl, true, &steps);
	if (!at) at = loc_resolve(sc, &inl, false, &again);
	if (!at || !skip_to(&types, row->is_result ? " -> " : " : ") ||
		!tensor_read(sc, types, &site, &layout, &has_layout))
		return;
	/* Shape and layout are those of the operand, or of the result where the row says so. */
	if (has_layout && layout.ndim == site.ndim) site.layout = layout_keep(sc->out, &layout);
	site.is_scattered = !row->is_bulk && is_scattered(sc, line);
	site.line = at->line;
	site.column = at->column;
	if (row->kind == COST_SITE_DOT) {
		memcpy(site.is_depth_first, sc->is_depth_first, sizeof site.is_depth_first);
		memcpy(sc->is_depth_first, usual_order, sizeof usual_order);
	}
	struct vm_layouts *l = sc->out;
	if (l->nsites == l->sites_cap) {
		l->sites_cap = MAX(l->sites_cap * 2, 64);
		l->sites = xrealloc(l->sites, size_mul((size_t)l->sites_cap, sizeof *l->sites));
	}
	l->sites[l->nsites++] = site;
}

static void each_line(struct scan *sc, const char *text, size_t len, bool ops)
{
	for (size_t at = 0; at < len;) {
		const char *end = memchr(text + at, '\n', len - at);
		size_t n = end ? (size_t)(end - text) - at : len - at;
		struct slice line = {text + at, n};
		while (line.len && *line.data == ' ') line = after(line, 1);
		if (!ops && starts(line, "#")) scan_alias(sc, line);
		if (ops) scan_op(sc, line);
		at += n + 1;
	}
}

int vm_layouts_create(const char *ttgir, size_t len, struct vm_layouts **out, struct err *err)
{
	*out = NULL;
	if (len > TTGIR_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "the TTGIR has %zu bytes, at most %zu are read", len, TTGIR_BYTES_MAX);
	struct vm_layouts *l = xcalloc(1, sizeof *l);
	struct scan sc = {.out = l, .is_depth_first = {true, false}, .aliases = xcalloc(ALIASES_MAX, sizeof *sc.aliases)};
	each_line(&sc, ttgir, len, false);
	if (sc.nlocs) sc.kernel_file = sc.locs[0].file; /* "#loc" is the function's own place */
	each_line(&sc, ttgir, len, true);
	free(sc.aliases);
	free(sc.locs);
	*out = l;
	return 0;
}

void vm_layouts_free(struct vm_layouts *l)
{
	if (!l) return;
	free(l->layouts);
	free(l->sites);
	free(l);
}

const struct cost_site *cost_site_find(
	const struct vm_layouts *l, enum cost_site_kind kind, int line, int column, int ndim, const int32_t *shape)
{
	const struct cost_site *first = NULL;
	for (int i = 0; l && i < l->nsites; i++) {
		const struct cost_site *s = &l->sites[i];
		if (s->kind != kind || s->line != line || s->column != column) continue;
		if (s->ndim == ndim && !memcmp(s->shape, shape, (size_t)ndim * sizeof *shape)) return s;
		if (!first) first = s;
	}
	return first;
}

/* ---- a layout over a block ---- */

/* Row-major, up to 16 bytes a thread: what the compiler chooses for a contiguous block. */
static void default_layout(int ndim, const int32_t *shape, int elem_bytes, int warps, struct cost_layout *out)
{
	int64_t count = 1;
	for (int d = 0; d < ndim; d++) count *= shape[d];
	int64_t each = MAX(MIN(16 / MAX(elem_bytes, 1), count / (32 * MAX(warps, 1))), 1);
	int32_t used[LAYOUT_DIMS] = {1, 1, 1, 1, 1};
	struct {
		struct cost_bases *part;
		int bits;
	} take[] = {{&out->reg, 63 - __builtin_clzll((uint64_t)each)}, {&out->lane, LAYOUT_LANE_BITS},
		{&out->warp, 31 - __builtin_clz((unsigned)MAX(warps, 1))}};
	*out = (struct cost_layout){.ndim = ndim};
	for (size_t k = 0; k < ARRAY_LEN(take); k++)
		for (int b = 0; b < take[k].bits; b++) {
			int d = ndim - 1;
			while (d > 0 && used[d] >= shape[d]) d--;
			add_base(take[k].part, d, used[d] < shape[d] ? used[d] : 0);
			used[d] *= 2;
		}
}

static int32_t flat(const int32_t *base, int ndim, const int32_t *shape)
{
	int32_t at = 0;
	for (int d = 0; d < ndim; d++) {
		if (base[d] >= shape[d]) return 0; /* beyond the block: repeats */
		at = at * shape[d] + base[d];
	}
	return at;
}

/* Whether f is no XOR of the bases before it; it is one of them then. pivot: (bit), the base whose
 * highest bit that is, less the others', or 0. */
static bool is_new(int32_t pivot[LAYOUT_BITS], int32_t f)
{
	for (int b = LAYOUT_BITS - 1; b >= 0; b--) {
		if (!(f >> b & 1)) continue;
		if (!pivot[b]) {
			pivot[b] = f;
			return true;
		}
		f ^= pivot[b];
	}
	return false;
}

bool cost_lanes_of(
	const struct cost_layout *layout, int ndim, const int32_t *shape, int elem_bytes, int warps, struct cost_lanes *out)
{
	struct cost_layout own;
	int64_t count = 1;
	*out = (struct cost_lanes){.warp_copies = 1};
	/* Only blocks whose lengths are powers of two have such a layout. */
	if (ndim < 1 || ndim > LAYOUT_DIMS) return false;
	for (int d = 0; d < ndim; d++) {
		if (log2_exact(shape[d]) < 0) return false;
		count *= shape[d];
		if (count > 1 << LAYOUT_BITS) return false;
	}
	/* A block whose layout is unknown gets the one that a row-major block would have. */
	if (!layout || layout->ndim != ndim) {
		default_layout(ndim, shape, elem_bytes, warps, &own);
		layout = &own;
	}
	/* Bases in the order lane, warp, register. One that is an XOR of earlier ones repeats
	 * elements: of a lane it keeps its place, of a warp it counts as a copy, of a register it is
	 * left out. */
	int32_t lane[LAYOUT_LANE_BITS] = {0}, pivot[LAYOUT_BITS] = {0};
	for (int b = 0; b < layout->lane.n && b < LAYOUT_LANE_BITS; b++) {
		lane[b] = flat(layout->lane.at[b], ndim, shape);
		is_new(pivot, lane[b]);
	}
	for (int b = 0; b < layout->warp.n; b++) {
		int32_t f = flat(layout->warp.at[b], ndim, shape);
		if (is_new(pivot, f))
			out->warp[out->nwarp++] = f; /* so registers and warps together are never more bits than the block has */
		else out->warp_copies *= 2;
	}
	for (int b = 0; b < layout->reg.n; b++) {
		int32_t f = flat(layout->reg.at[b], ndim, shape);
		if (is_new(pivot, f)) out->reg[out->nreg++] = f;
	}
	for (int64_t f = 1; f < count; f *= 2) /* what the layout does not reach is repeated in further registers */
		if (is_new(pivot, (int32_t)f)) out->reg[out->nreg++] = (int32_t)f;
	for (int l = 0; l < 32; l++)
		for (int b = 0; b < LAYOUT_LANE_BITS; b++) out->lane[l] ^= l >> b & 1 ? lane[b] : 0;
	return true;
}
