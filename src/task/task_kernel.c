/* Prints one launch's Triton kernel. Three index spaces share one body printer: flat blocks over
 * all elements, one program a row, tiles of a matrix product. They differ in how a value is
 * addressed and which lanes are valid. */
#include "task/task_graph.h"
#include "base/base.h"

void style_pointer(const struct answer_style *style, const char *name, struct str *out)
{
	char text[2 * GRAPH_NAME_BYTES];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof text, style->ptr, name); /* the form comes from our own style table */
#pragma GCC diagnostic pop
	str_puts(out, text);
}

static bool is_scalar(const struct task_graph *g, const struct segment *s, int node)
{
	return s->kind == SEGMENT_ROW && access_of(g, &s->space, node) == ACCESS_ROWS;
}

static void signature_print(const struct task_graph *g, const struct segment *s, const struct answer_style *style,
	const char *name, struct str *out)
{
	str_printf(out, "@triton.jit\ndef %s(", name);
	for (int i = 0; i < s->nreads; i++) {
		style_pointer(style, g->nodes[s->reads[i]].name, out);
		str_puts(out, ", ");
	}
	style_pointer(style, "out", out);
	if (s->kind == SEGMENT_MATMUL) str_puts(out, ", M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):\n");
	else
		str_printf(out, "%s%s, %s: tl.constexpr):\n", s->kind == SEGMENT_FLAT ? ", n" : "",
			s->reads_cols ? ", cols" : "", style->block);
}

/* Address of a value's element and the mask of a load or store, after "ptr". */
static void place_print(const struct segment *s, const struct answer_style *style, enum access access, struct str *out)
{
	const char *offs = style->offs, *mask = style->mask;
	if (s->kind == SEGMENT_FLAT) {
		static const char *const PICK[] = {[ACCESS_FULL] = "", [ACCESS_COLS] = " % cols", [ACCESS_ROWS] = " // cols"};
		str_printf(out, " + %s%s, mask=%s", offs, PICK[access], mask);
	} else if (s->kind == SEGMENT_ROW) {
		if (access == ACCESS_ROWS) {
			str_puts(out, " + row");
			return;
		}
		str_printf(out, "%s + %s, mask=%s", access == ACCESS_FULL ? " + row * cols" : "", offs, mask);
	} else if (access == ACCESS_FULL) str_printf(out, " + rm[:, None] * N + rn[None, :], mask=%s", mask);
	else if (access == ACCESS_COLS) str_puts(out, " + rn[None, :], mask=rn[None, :] < N");
	else str_puts(out, " + rm[:, None], mask=rm[:, None] < M");
}

static void load_print(
	const struct task_graph *g, const struct segment *s, const struct answer_style *style, int node, struct str *out)
{
	enum access access = access_of(g, &s->space, node);
	str_printf(out, "    %s = tl.load(", g->nodes[node].name);
	style_pointer(style, g->nodes[node].name, out);
	place_print(s, style, access, out);
	str_printf(out, "%s)\n", is_scalar(g, s, node) ? "" : style->other);
}

static void statements_print(const struct task_graph *g, const struct answer_style *style, int node, struct str *out)
{
	const struct node *n = &g->nodes[node];
	struct str text = {0};
	if (!strstr(n->op->triton, "$o")) str_printf(&text, "%s = ", n->name);
	template_expand(&text, n->op->triton, g, node, style->mask);
	str_puts(out, "    ");
	for (size_t i = 0; i < text.len; i++) {
		str_putc(out, text.data[i]);
		if (text.data[i] == '\n') str_puts(out, "    ");
	}
	str_putc(out, '\n');
	str_release(&text);
}

static void body_print(
	const struct task_graph *g, const struct segment *s, const struct answer_style *style, int first, struct str *out)
{
	for (int i = first; i <= s->last; i++)
		if (g->nodes[i].role == NODE_OP) statements_print(g, style, i, out);
	str_puts(out, "    tl.store(");
	style_pointer(style, "out", out);
	enum access access = is_scalar(g, s, s->last) ? ACCESS_ROWS : ACCESS_FULL;
	struct str place = {0};
	place_print(s, style, access, &place);
	/* tl.store wants the value between address and mask */
	char *mask = strstr(place.data, ", mask=");
	if (mask) *mask = 0;
	str_printf(out, "%s, %s%s%s)\n", place.data, g->nodes[s->last].name, mask ? ", " : "", mask ? mask + 2 : "");
	str_release(&place);
}

static void flat_print(
	const struct task_graph *g, const struct segment *s, const struct answer_style *style, struct str *out)
{
	str_printf(out, "    %s = tl.program_id(0) * %s + tl.arange(0, %s)\n", style->offs, style->block, style->block);
	str_printf(out, "    %s = %s < n\n", style->mask, style->offs);
	for (int i = 0; i < s->nreads; i++) load_print(g, s, style, s->reads[i], out);
	body_print(g, s, style, s->first, out);
}

static void row_print(
	const struct task_graph *g, const struct segment *s, const struct answer_style *style, struct str *out)
{
	str_printf(out, "    row = tl.program_id(0)\n    %s = tl.arange(0, %s)\n    %s = %s < cols\n", style->offs,
		style->block, style->mask, style->offs);
	for (int i = 0; i < s->nreads; i++) load_print(g, s, style, s->reads[i], out);
	body_print(g, s, style, s->first, out);
}

static void matmul_print(
	const struct task_graph *g, const struct segment *s, const struct answer_style *style, struct str *out)
{
	const struct node *n = &g->nodes[s->first];
	/* A program makes one tile of the result and walks along K; masks stand for sizes that do not
	 * divide. */
	str_puts(out,
		"    rm = tl.program_id(0) * BM + tl.arange(0, BM)\n    rn = tl.program_id(1) * BN + tl.arange(0, BN)\n"
		"    acc = tl.zeros((BM, BN), dtype=tl.float32)\n    for start in range(0, K, BK):\n        rk = start + "
		"tl.arange(0, BK)\n        lhs = tl.load(");
	style_pointer(style, g->nodes[n->args[0]].name, out);
	str_puts(out,
		" + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)\n        rhs = "
		"tl.load(");
	style_pointer(style, g->nodes[n->args[1]].name, out);
	/* A transposed operand is stored (N, K), so that its two strides change places. */
	str_puts(out, n->transposed ? " + rn[None, :] * K + rk[:, None]" : " + rk[:, None] * N + rn[None, :]");
	str_puts(out,
		", mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)\n        acc += tl.dot(lhs, rhs, "
		"input_precision=\"ieee\")\n");
	/* The third operand, when there is one, is a row that is added to every row of the tile. */
	if (n->nargs > 2) {
		str_printf(out, "    %s = tl.load(", g->nodes[n->args[2]].name);
		style_pointer(style, g->nodes[n->args[2]].name, out);
		str_printf(
			out, " + rn, mask=rn < N, other=0.0)\n    %s = acc + %s[None, :]\n", n->name, g->nodes[n->args[2]].name);
	} else str_printf(out, "    %s = acc\n", n->name);
	/* What was fused behind the product works on the same tile, under one mask for both edges. */
	str_printf(out, "    %s = (rm[:, None] < M) & (rn[None, :] < N)\n", style->mask);
	for (int i = n->nargs; i < s->nreads; i++) load_print(g, s, style, s->reads[i], out);
	body_print(g, s, style, s->first + 1, out);
}

void kernel_print(const struct task_graph *g, const struct segment *s, const struct answer_style *style,
	const char *name, struct str *out)
{
	signature_print(g, s, style, name, out);
	if (s->kind == SEGMENT_FLAT) flat_print(g, s, style, out);
	else if (s->kind == SEGMENT_ROW) row_print(g, s, style, out);
	else matmul_print(g, s, style, out);
}
