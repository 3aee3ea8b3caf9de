/* Shared by lint.c (what is looked for) and lint_tree.c (how a tree is walked and read). */
#ifndef HONE_LINT_INTERNAL_H
#define HONE_LINT_INTERNAL_H
#include "base/base.h"
#include "lint/lint.h"
#include <tree_sitter/api.h>

#define LINT_NAMES_MAX 128
#define LINT_SCOPES_MAX 64

/* Names seen in the source, as views into it. When full, further names are dropped: the rules that
 * read them only become more lenient. */
struct name_set {
	struct slice names[LINT_NAMES_MAX];
	int uses[LINT_NAMES_MAX];
	int lines[LINT_NAMES_MAX];
	int count;
};
int name_set_find(const struct name_set *s, struct slice name); /* index or -1 */
void name_set_add(struct name_set *s, struct slice name, int line);

/* Nested classes and functions around the current node. */
enum scope_kind { SCOPE_CLASS, SCOPE_FUNCTION };
struct scope {
	enum scope_kind kind;
	uint32_t depth;
	bool is_init;
	bool is_jit;
};

struct walk {
	const char *src;
	size_t len;
	TSTreeCursor cursor;
	uint32_t depth;
	struct scope scopes[LINT_SCOPES_MAX];
	int nscopes;
	uint32_t import_depth; /* depth of the import statement that holds the node, or 0 */
	bool import_is_from;
};
void walk_begin(struct walk *w, TSTree *tree, const char *src, size_t len);
/* Pre-order step with an explicit cursor, so that nesting costs no stack; false at the end. */
bool walk_next(struct walk *w);
void walk_end(struct walk *w);
bool walk_in_host_code(const struct walk *w); /* in a function that is neither jitted nor __init__ */

struct slice node_text(const struct walk *w, TSNode n);
bool node_is(TSNode n, const char *type);
TSNode node_field(TSNode n, const char *field);
int node_line(TSNode n);
bool slice_in(struct slice s, const char *const *list, size_t count);
/* The last name of `a`, `a.b`, `a.b(...)`: what a decorator or call is about. */
TSNode node_terminal(TSNode n);
#endif
