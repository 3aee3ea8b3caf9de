/* The rules. Two walks over one tree: the first collects what names mean (aliases of jit, jitted
 * functions, modules built in __init__) and finds syntax errors; the second counts uses and writes
 * notes. Rules that reject ask for less than certainty of honesty: `jit` counts wherever it stands
 * outside an import (decorator with or without arguments, alias, call), a jitted function counts as
 * used wherever its name stands again, also as an attribute. */
#include "lint/lint_internal.h"
#include "base/base.h"

#define PARSE_TIMEOUT_US 5000000

const TSLanguage *tree_sitter_python(void);

struct lint {
	struct walk w;
	struct lint_report *out;
	struct name_set jit_aliases; /* names that mean triton.jit */
	struct name_set jitted;  /* functions (or variables) made by it; uses counts other places where the name stands */
	struct name_set modules; /* attributes of self that hold nn.Modules */
	bool has_model_new;      /* a class ModelNew was seen */
	bool uses_jit;           /* triton.jit was */
	bool is_broken;          /* the tree has errors, so what it lacks means nothing */
	bool is_dynamic;       /* names may be looked up by strings: a function that no name refers to may still be used */
	uint32_t ignored_byte; /* `jit` of torch.jit starts here */
};

const char *lint_code_name(enum lint_code c)
{
#define X(e, t, d) t,
	static const char *const NAMES[] = {LINT_CODE_TABLE(X)};
#undef X
	CHECK(c >= 0 && c < LINT_CODE_COUNT);
	return NAMES[c];
}

/* ---- findings ---- */

/* Findings are listed errors first, and within each kind by line; of two on one
 * line the older one first. */
static bool stands_before(const struct lint_finding *a, enum lint_code code, int line)
{
	return lint_is_error(a->code) != lint_is_error(code) ? lint_is_error(a->code) : a->line <= line;
}

/* text is "%s: `snippet`"; what of the snippet is not printable ASCII becomes '?'. A full report
 * drops its last note for an error. */
static void finding_add(
	struct lint_report *r, enum lint_code code, int line, int column, const char *what, struct slice snippet)
{
	*(lint_is_error(code) ? &r->errors : &r->notes) += 1;
	int at = r->count;
	while (at > 0 && !stands_before(&r->findings[at - 1], code, line)) at--;
	if (at == LINT_FINDINGS_MAX) return;
	if (r->count == LINT_FINDINGS_MAX) r->count--;
	memmove(&r->findings[at + 1], &r->findings[at], (size_t)(r->count - at) * sizeof r->findings[0]);
	r->count++;
	struct lint_finding *f = &r->findings[at];
	*f = (struct lint_finding){.code = code, .line = line, .column = column};
	int n = snprintf(f->text, sizeof f->text, "%.*s", snippet.len ? 80 : (int)sizeof f->text - 1, what);
	if (!snippet.len) return;
	n += snprintf(f->text + n, sizeof f->text - (size_t)n, ": `");
	for (size_t i = 0; i < snippet.len && i < 60 && snippet.data[i] != '\n'; i++) {
		char c = snippet.data[i];
		f->text[n++] = c >= 32 && c < 127 ? c : '?';
	}
	f->text[n++] = '`';
	f->text[n] = 0;
}

static void node_finding(struct lint *l, enum lint_code code, TSNode n, const char *what)
{
	finding_add(l->out, code, node_line(n), (int)ts_node_start_point(n).column + 1, what, node_text(&l->w, n));
}

/* ---- first walk: what names mean ---- */

static bool is_jit_name(const struct lint *l, TSNode n)
{
	return !ts_node_is_null(n) &&
		(slice_is(node_text(&l->w, n), "jit") || name_set_find(&l->jit_aliases, node_text(&l->w, n)) >= 0);
}

/* `from triton import jit as j`. */
static void collect_alias(struct lint *l, TSNode n)
{
	struct slice name = node_text(&l->w, node_field(n, "name")), alias = node_text(&l->w, node_field(n, "alias"));
	if (slice_is(name, "jit")) name_set_add(&l->jit_aliases, alias, node_line(n));
	if (slice_is(alias, "ModelNew")) l->has_model_new = true;
}

/* `j = triton.jit`, `k = triton.jit(f)`, `self.fc = nn.Linear(..)`, `ModelNew = ..`. */
static void collect_assignment(struct lint *l, TSNode n)
{
	TSNode left = node_field(n, "left"), right = node_field(n, "right");
	if (ts_node_is_null(right)) return;
	if (slice_is(node_text(&l->w, left), "ModelNew")) l->has_model_new = true;
	if (is_jit_name(l, node_terminal(right)))
		name_set_add(node_is(right, "call") ? &l->jitted : &l->jit_aliases, node_text(&l->w, node_terminal(left)),
			node_line(left));
	bool in_init = l->w.nscopes > 0 && l->w.scopes[l->w.nscopes - 1].is_init;
	if (!in_init || !node_is(right, "call") || !node_is(left, "attribute")) return;
	struct slice callee = node_text(&l->w, node_field(right, "function"));
	bool is_module = (callee.len > 3 && !memcmp(callee.data, "nn.", 3)) ||
		(callee.len > 9 && !memcmp(callee.data, "torch.nn.", 9));
	bool is_parameter = slice_is(callee, "nn.Parameter") || slice_is(callee, "torch.nn.Parameter");
	if (is_module && !is_parameter)
		name_set_add(&l->modules, node_text(&l->w, node_field(left, "attribute")), node_line(left));
}

static void collect_decorated(struct lint *l, TSNode n)
{
	TSNode definition = node_field(n, "definition");
	uint32_t children = MIN(ts_node_named_child_count(n), 32u);
	for (uint32_t i = 0; i < children; i++) {
		TSNode d = ts_node_named_child(n, i);
		if (node_is(d, "decorator") && is_jit_name(l, node_terminal(ts_node_named_child(d, 0))) &&
			node_is(definition, "function_definition"))
			name_set_add(&l->jitted, node_text(&l->w, node_field(definition, "name")), node_line(definition));
	}
}

static void collect(struct lint *l, TSNode n)
{
	if (node_is(n, "aliased_import")) collect_alias(l, n);
	else if (node_is(n, "assignment")) collect_assignment(l, n);
	else if (node_is(n, "decorated_definition")) collect_decorated(l, n);
	else if (node_is(n, "class_definition") || node_is(n, "function_definition"))
		l->has_model_new |= slice_is(node_text(&l->w, node_field(n, "name")), "ModelNew");
	else if (l->w.import_depth && node_is(n, "dotted_name"))
		l->has_model_new |= slice_is(node_text(&l->w, n), "ModelNew");
}

/* The grammar has a gap: a starred display or literal in a tuple without parentheses, `return *[a],
 * b`. A star that no operand stands before and that a bracket or quote follows, on the lines of the
 * error, makes the error a doubt. */
static bool may_be_legal(const struct lint *l, TSNode n)
{
	const char *src = l->w.src, *end = src + l->w.len, *p = src + ts_node_start_byte(n),
			   *stop = src + ts_node_end_byte(n);
	while (p > src && p[-1] != '\n') p--;
	while (stop < end && *stop != '\n') stop++;
	bool operand = false; /* the last token can stand before a binary star */
	for (; p < stop; p++) {
		const char *word = p;
		while (
			p < stop && ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_'))
			p++;
		if (p > word) {
			struct slice w = {word, (size_t)(p-- - word)};
			operand = !slice_is(w, "return") && !slice_is(w, "yield") && !slice_is(w, "in");
		} else if (*p == '*' && !operand && p + 1 < stop && strchr("[({\"'", p[1])) return true;
		else if (*p != ' ' && *p != '\t') operand = strchr(")]}\"'", *p) != NULL && *p;
	}
	return false;
}

static void syntax_finding(struct lint *l, TSNode n)
{
	if (l->is_broken) return; /* what follows the first is mostly its echo */
	l->is_broken = true;
	enum lint_code code = may_be_legal(l, n) ? LINT_SYNTAX_DOUBT : LINT_SYNTAX;
	if (ts_node_is_missing(n)) {
		char what[80];
		snprintf(what, sizeof what, "missing `%.40s`", ts_node_type(n));
		finding_add(l->out, code, node_line(n), (int)ts_node_start_point(n).column + 1, what, (struct slice){"", 0});
	} else if (ts_node_start_byte(n) < l->w.len && l->w.src[ts_node_start_byte(n)] == '`') {
		finding_add(l->out, code, node_line(n), (int)ts_node_start_point(n).column + 1,
			"a Markdown fence is no Python; leave out the lines with backquotes", (struct slice){"", 0});
	} else node_finding(l, code, n, "cannot be parsed");
}

/* ---- second walk: uses and notes ---- */

static const char *const SUSPICIOUS[] = {"ctypes", "cffi", "inspect", "gc", "sys", "os", "subprocess", "threading",
	"multiprocessing", "concurrent", "asyncio", "socket", "signal", "importlib", "builtins", "atexit", "mmap", "pickle",
	"marshal", "tempfile", "shutil", "pathlib", "faulthandler", "resource", "cupy", "numba", "pycuda"};
static const char *const DYNAMIC[] = {
	"exec", "eval", "compile", "__import__", "globals", "locals", "vars", "setattr", "delattr"};
/* Functions of torch and methods of tensors that compute. Allocation, views and casts are not among
 * them. */
static const char *const COMPUTE[] = {"abs", "add", "addmm", "amax", "amin", "argmax", "argmin", "avg_pool1d",
	"avg_pool2d", "baddbmm", "batch_norm", "bmm", "celu", "clamp", "clip", "conv1d", "conv2d", "conv3d",
	"conv_transpose1d", "conv_transpose2d", "cos", "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "div",
	"dot", "einsum", "elu", "embedding", "erf", "exp", "gelu", "group_norm", "hardsigmoid", "hardswish", "hardtanh",
	"instance_norm", "interpolate", "layer_norm", "leaky_relu", "linear", "log", "log1p", "log_softmax", "logsigmoid",
	"logsumexp", "masked_fill", "matmul", "max_pool1d", "max_pool2d", "maximum", "mean", "minimum", "mish", "mm",
	"mse_loss", "mul", "mv", "normalize", "outer", "pow", "prelu", "prod", "relu", "relu6", "rms_norm", "rsqrt",
	"scaled_dot_product_attention", "selu", "sigmoid", "silu", "sin", "softmax", "softplus", "softsign", "sort", "sqrt",
	"square", "std", "sub", "sum", "tanh", "tensordot", "topk", "tril", "triu", "var", "where"};

static void note_call(struct lint *l, TSNode n)
{
	TSNode function = node_field(n, "function"), terminal = node_terminal(function);
	struct slice name = node_text(&l->w, terminal);
	if (node_is(function, "identifier") && slice_in(name, DYNAMIC, ARRAY_LEN(DYNAMIC)))
		node_finding(l, LINT_DYNAMIC, n, "dynamic code");
	if (!walk_in_host_code(&l->w) || !node_is(function, "attribute")) return;
	TSNode object = node_field(function, "object");
	struct slice owner = node_text(&l->w, object);
	if (slice_is(owner, "self")) {
		if (name_set_find(&l->modules, name) >= 0) node_finding(l, LINT_MODULE_CALL, n, "calls an nn.Module");
		return;
	}
	/* `math.sqrt(..)` and `triton.cdiv(..)` compute with numbers */
	bool is_library = slice_is(owner, "math") || slice_is(owner, "triton") || slice_is(owner, "tl") ||
		slice_is(owner, "np");
	if (!is_library && slice_in(name, COMPUTE, ARRAY_LEN(COMPUTE)))
		node_finding(l, LINT_TORCH_COMPUTE, n, "torch computes here");
}

static void note_import(struct lint *l, TSNode n)
{
	struct slice name = node_text(&l->w, n);
	const char *dot = memchr(name.data, '.', name.len);
	if (dot) name.len = (size_t)(dot - name.data);
	if (slice_in(name, SUSPICIOUS, ARRAY_LEN(SUSPICIOUS)))
		node_finding(l, LINT_IMPORT, n, "imports a module that kernels have no use for");
}

static void note_class(struct lint *l, TSNode n)
{
	TSNode bases = node_field(n, "superclasses");
	uint32_t count = ts_node_is_null(bases) ? 0 : MIN(ts_node_named_child_count(bases), 16u);
	for (uint32_t i = 0; i < count && slice_is(node_text(&l->w, node_field(n, "name")), "ModelNew"); i++)
		if (slice_is(node_text(&l->w, ts_node_named_child(bases, i)), "Model"))
			node_finding(l, LINT_INHERITS_MODEL, n, "derives from the reference");
}

static void count_use(struct lint *l, TSNode n)
{
	if (ts_node_start_byte(n) == l->ignored_byte) return;
	int i = name_set_find(&l->jitted, node_text(&l->w, n));
	if (i >= 0) l->jitted.uses[i]++;
	if (!l->w.import_depth && is_jit_name(l, n)) l->uses_jit = true;
	if (slice_is(node_text(&l->w, n), "getattr") || slice_in(node_text(&l->w, n), DYNAMIC, ARRAY_LEN(DYNAMIC)))
		l->is_dynamic = true;
}

static void examine(struct lint *l, TSNode n)
{
	const char *field = ts_tree_cursor_current_field_name(&l->w.cursor);
	struct walk *w = &l->w;
	if (node_is(n, "function_definition") && w->nscopes > 0 && w->scopes[w->nscopes - 1].depth == w->depth)
		w->scopes[w->nscopes - 1].is_jit = name_set_find(&l->jitted, node_text(w, node_field(n, "name"))) >= 0;
	if (node_is(n, "identifier")) count_use(l, n);
	else if (node_is(n, "attribute") && slice_is(node_text(w, n), "torch.jit"))
		l->ignored_byte = ts_node_start_byte(node_field(n, "attribute"));
	else if (node_is(n, "try_statement"))
		finding_add(l->out, LINT_TRY, node_line(n), (int)ts_node_start_point(n).column + 1, "try statement",
			(struct slice){"", 0});
	else if (node_is(n, "call")) note_call(l, n);
	else if (node_is(n, "binary_operator") && node_is(node_field(n, "operator"), "@") && walk_in_host_code(w))
		node_finding(l, LINT_MATMUL_SIGN, n, "matrix product by operator");
	else if (node_is(n, "class_definition")) note_class(l, n);
	else if (node_is(n, "dotted_name") && w->import_depth) {
		/* the module of `import a.b` and of `from a.b import c`, not c */
		bool is_from_name = field && !strcmp(field, "name") && w->import_is_from;
		if (!is_from_name) note_import(l, n);
	}
}

/* What only the whole file tells: what it lacks, and jitted functions that nothing refers to. */
static void whole_findings(struct lint *l)
{
	struct lint_report *r = l->out;
	struct slice none = {"", 0};
	if (l->is_broken) return;
	if (!l->has_model_new)
		finding_add(r, LINT_NO_MODEL_NEW, 0, 0,
			"no class ModelNew; a candidate defines one, made and called as the task's Model is", none);
	if (!l->uses_jit)
		finding_add(r, LINT_NO_JIT, 0, 0,
			"no function decorated with triton.jit; kernels in other languages and torch.compile do not count", none);
	int used = 0;
	/* a definition's own name is one place, so used means two */
	for (int i = 0; i < l->jitted.count; i++) used += l->jitted.uses[i] > 1;
	/* Beside a kernel that is used, or where names are looked up by strings, an idle one is only a
	 * note. */
	enum lint_code code = used || l->is_dynamic ? LINT_JIT_IDLE : LINT_JIT_UNUSED;
	for (int i = 0; i < l->jitted.count; i++)
		if (l->jitted.uses[i] <= 1)
			finding_add(r, code, l->jitted.lines[i], 1, "jitted but never referred to", l->jitted.names[i]);
}

static void lint_tree(struct lint *l, TSTree *tree, const char *src, size_t len)
{
	walk_begin(&l->w, tree, src, len);
	do {
		TSNode n = ts_tree_cursor_current_node(&l->w.cursor);
		if (ts_node_is_error(n) || ts_node_is_missing(n)) syntax_finding(l, n);
		collect(l, n);
	} while (walk_next(&l->w));
	walk_end(&l->w);
	walk_begin(&l->w, tree, src, len);
	l->ignored_byte = UINT32_MAX;
	do examine(l, ts_tree_cursor_current_node(&l->w.cursor));
	while (walk_next(&l->w));
	walk_end(&l->w);
	whole_findings(l);
}

int lint_source(const char *src, size_t len, struct lint_report *out)
{
	memset(out, 0, sizeof *out);
	if (len > LINT_SOURCE_BYTES_MAX) {
		finding_add(out, LINT_TOO_LARGE, 1, 1, "the source is longer than 256 KiB", (struct slice){"", 0});
		return ERR_OK;
	}
	TSParser *parser = ts_parser_new();
	bool ready = ts_parser_set_language(parser, tree_sitter_python());
	ts_parser_set_timeout_micros(parser, PARSE_TIMEOUT_US);
	TSTree *tree = ready ? ts_parser_parse_string(parser, NULL, src, (uint32_t)len) : NULL;
	if (tree) {
		struct lint *l = xcalloc(1, sizeof *l);
		l->out = out;
		lint_tree(l, tree, src, len);
		free(l);
	}
	ts_tree_delete(tree);
	ts_parser_delete(parser);
	return tree ? ERR_OK : ERR_INFRA;
}
