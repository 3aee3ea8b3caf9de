/* Reading tree-sitter's trees: a pre-order walk that knows the classes and functions around a node,
 * and small questions about nodes. */
#include "lint/lint_internal.h"
#include "base/base.h"

int name_set_find(const struct name_set *s, struct slice name)
{
	for (int i = 0; i < s->count; i++)
		if (slice_same(s->names[i], name)) return i;
	return -1;
}

void name_set_add(struct name_set *s, struct slice name, int line)
{
	if (s->count == LINT_NAMES_MAX || name_set_find(s, name) >= 0) return;
	s->lines[s->count] = line;
	s->uses[s->count] = 0;
	s->names[s->count++] = name;
}

struct slice node_text(const struct walk *w, TSNode n)
{
	if (ts_node_is_null(n)) return (struct slice){"", 0};
	uint32_t a = ts_node_start_byte(n), b = ts_node_end_byte(n);
	CHECK(a <= b && b <= w->len);
	return (struct slice){w->src + a, b - a};
}

bool node_is(TSNode n, const char *type) { return !ts_node_is_null(n) && !strcmp(ts_node_type(n), type); }
TSNode node_field(TSNode n, const char *field)
{
	return ts_node_child_by_field_name(n, field, (uint32_t)strlen(field));
}
int node_line(TSNode n) { return (int)ts_node_start_point(n).row + 1; }
bool slice_in(struct slice s, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (slice_is(s, list[i])) return true;
	return false;
}

TSNode node_terminal(TSNode n)
{
	if (node_is(n, "call")) n = node_field(n, "function");
	if (node_is(n, "attribute")) n = node_field(n, "attribute");
	return n;
}

void walk_begin(struct walk *w, TSTree *tree, const char *src, size_t len)
{
	memset(w, 0, sizeof *w);
	w->src = src;
	w->len = len;
	w->cursor = ts_tree_cursor_new(ts_tree_root_node(tree));
}

void walk_end(struct walk *w) { ts_tree_cursor_delete(&w->cursor); }

static void leave(struct walk *w)
{
	while (w->nscopes > 0 && w->scopes[w->nscopes - 1].depth >= w->depth) w->nscopes--;
	if (w->import_depth >= w->depth) w->import_depth = 0;
}

static void enter(struct walk *w)
{
	TSNode n = ts_tree_cursor_current_node(&w->cursor);
	bool is_function = node_is(n, "function_definition"), is_class = node_is(n, "class_definition");
	if (!w->import_depth && (node_is(n, "import_statement") || node_is(n, "import_from_statement"))) {
		w->import_depth = w->depth;
		w->import_is_from = node_is(n, "import_from_statement");
	}
	if ((!is_function && !is_class) || w->nscopes == LINT_SCOPES_MAX) return;
	struct slice name = node_text(w, node_field(n, "name"));
	w->scopes[w->nscopes++] = (struct scope){.kind = is_class ? SCOPE_CLASS : SCOPE_FUNCTION,
		.depth = w->depth,
		.is_init = is_function && slice_is(name, "__init__")};
}

bool walk_next(struct walk *w)
{
	if (ts_tree_cursor_goto_first_child(&w->cursor)) w->depth++;
	else
		while (!ts_tree_cursor_goto_next_sibling(&w->cursor)) {
			if (!ts_tree_cursor_goto_parent(&w->cursor)) return false;
			w->depth--;
		}
	leave(w);
	enter(w);
	return true;
}

bool walk_in_host_code(const struct walk *w)
{
	bool in_function = false;
	for (int i = 0; i < w->nscopes; i++) {
		if (w->scopes[i].is_init || w->scopes[i].is_jit) return false;
		in_function |= w->scopes[i].kind == SCOPE_FUNCTION;
	}
	return in_function;
}
