/* Reference answers: a plan and a candidate file, printed from the task's graph. The graph is
 * composed again from (level, seed) and must print the very source that the task holds, so a row
 * whose seed lies gets no answer. Styles differ in block size, names, masks and grid form; the slow
 * form has one launch per operator and small blocks. All of them are meant to be right for any
 * sizes: nothing but block sizes is a number. */
#include "task/task_family.h"
#include "base/base.h"

static const struct answer_style STYLES[] = {
	{"fused_kernel", "offs", "mask", "BLOCK", "out", "%s_ptr", "", GRID_TUPLE, 1024, 0, 32, 32, 32, false, false},
	{"kernel", "idx", "mask", "BLOCK_SIZE", "out", "%s_ptr", ", other=0.0", GRID_LAMBDA, 512, 0, 16, 32, 32, false,
		false},
	{"model_kernel", "offsets", "valid", "BLOCK", "result", "%s_ptr", "", GRID_INLINE, 2048, 0, 32, 64, 32, true,
		false},
	{"forward_kernel", "i", "mask", "SIZE", "out", "p_%s", ", other=0.0", GRID_TUPLE, 256, 0, 16, 16, 32, false, false},
	{"fused_kernel", "idx", "keep", "BLOCK", "result", "%s_ptr", "", GRID_LAMBDA, 4096, 8, 64, 64, 32, false, false},
	{"task_kernel", "offs", "mask", "BLOCK_SIZE", "out", "%s_ptr", ", other=0.0", GRID_INLINE, 1024, 4, 64, 32, 64,
		true, false},
};

int task_answer_styles(void) { return (int)ARRAY_LEN(STYLES); }

/* ---- names of launches and of values on the host ---- */

struct answer {
	const struct task_graph *g;
	struct answer_style style;
	struct segment segments[GRAPH_NODES_MAX];
	int count;
	char names[GRAPH_NODES_MAX][2 * GRAPH_NAME_BYTES]; /* of the kernel that a segment launches */
	bool shares[GRAPH_NODES_MAX];                      /* the same kernel text as an earlier segment */
};

static void host_name(const struct answer *a, int node, char *out, size_t size)
{
	const struct node *n = &a->g->nodes[node];
	int s = 0;
	if (n->role == NODE_PARAM) {
		snprintf(out, size, "%s", n->host);
		return;
	}
	if (n->role == NODE_INPUT) {
		snprintf(out, size, "%s", n->name);
		return;
	}
	while (a->segments[s].last != node) s++;
	if (s == a->count - 1) snprintf(out, size, "%s", a->style.out);
	else snprintf(out, size, "t%d", s + 1);
}

static void base_name(const struct answer *a, int s, char *out, size_t size)
{
	const struct segment *seg = &a->segments[s];
	static const char *const BY_KIND[] = {
		[SEGMENT_FLAT] = "elementwise", [SEGMENT_ROW] = "row", [SEGMENT_MATMUL] = "matmul"};
	if (a->count == 1) snprintf(out, size, "%s", a->style.kernel);
	else if (a->style.is_slow) snprintf(out, size, "%.36s_kernel", a->g->nodes[seg->first].op->name);
	else snprintf(out, size, "%s_kernel", BY_KIND[seg->kind]);
}

/* Two launches share a kernel when its text is the same but for the name; otherwise a number keeps
 * the names apart. */
static void answer_names(struct answer *a)
{
	struct str texts[GRAPH_NODES_MAX] = {{0}};
	for (int s = 0; s < a->count; s++) {
		char base[2 * GRAPH_NAME_BYTES - 4];
		int same = 0;
		base_name(a, s, base, sizeof base);
		kernel_print(a->g, &a->segments[s], &a->style, base, &texts[s]);
		snprintf(a->names[s], sizeof a->names[s], "%s", base);
		for (int e = 0; e < s; e++) {
			if (strncmp(a->names[e], base, strlen(base)) != 0) continue;
			same++;
			if (strcmp(texts[e].data, texts[s].data) != 0) continue;
			a->shares[s] = true;
			memcpy(a->names[s], a->names[e], sizeof a->names[s]);
			break;
		}
		if (same && !a->shares[s]) snprintf(a->names[s], sizeof a->names[s], "%s%d", base, same + 1);
	}
	for (int s = 0; s < a->count; s++) str_release(&texts[s]);
}

/* ---- ModelNew.forward ---- */

static int full_read(const struct answer *a, const struct segment *s)
{
	for (int i = 0; i < s->nreads; i++)
		if (access_of(a->g, &s->space, s->reads[i]) == ACCESS_FULL) return s->reads[i];
	CHECKF(false, "a launch that reads no whole tensor");
	return -1;
}

static void call_print(
	const struct answer *a, int s, const char *grid, const char *sizes, const char *block, struct str *out)
{
	const struct segment *seg = &a->segments[s];
	char name[3 * GRAPH_NAME_BYTES];
	str_printf(out, "        %s[%s](", a->names[s], grid);
	for (int i = 0; i < seg->nreads; i++) {
		host_name(a, seg->reads[i], name, sizeof name);
		str_printf(out, "%s, ", name);
	}
	host_name(a, seg->last, name, sizeof name);
	str_printf(out, "%s, %s, %s", name, sizes, block);
	if (a->style.warps && seg->kind != SEGMENT_MATMUL) str_printf(out, ", num_warps=%d", a->style.warps);
	str_puts(out, ")\n");
}

static void flat_launch(const struct answer *a, int s, struct str *out)
{
	const struct segment *seg = &a->segments[s];
	const struct answer_style *y = &a->style;
	char ref[3 * GRAPH_NAME_BYTES], res[3 * GRAPH_NAME_BYTES], grid[96], sizes[96], block[64];
	host_name(a, full_read(a, seg), ref, sizeof ref);
	host_name(a, seg->last, res, sizeof res);
	str_printf(out, "        %s = torch.empty_like(%s)\n        n = %s.numel()\n", res, ref, ref);
	snprintf(sizes, sizeof sizes, seg->reads_cols ? "n, %.40s.shape[-1]" : "n", ref);
	snprintf(block, sizeof block, "%s=%d", y->block, y->block_size);
	if (y->grid == GRID_LAMBDA)
		str_printf(out, "        grid = lambda meta: (triton.cdiv(n, meta[\"%s\"]),)\n", y->block);
	if (y->grid == GRID_TUPLE) str_printf(out, "        grid = (triton.cdiv(n, %d),)\n", y->block_size);
	snprintf(grid, sizeof grid, y->grid == GRID_INLINE ? "(triton.cdiv(n, %d),)" : "grid", y->block_size);
	call_print(a, s, grid, sizes, block, out);
}

static void row_launch(const struct answer *a, int s, struct str *out)
{
	const struct segment *seg = &a->segments[s];
	const struct node *last = &a->g->nodes[seg->last];
	char ref[3 * GRAPH_NAME_BYTES], res[3 * GRAPH_NAME_BYTES], block[96];
	host_name(a, full_read(a, seg), ref, sizeof ref);
	host_name(a, seg->last, res, sizeof res);
	str_printf(out, "        cols = %s.shape[-1]\n        rows = %s.numel() // cols\n", ref, ref);
	if (shape_equal(&last->shape, &seg->space)) str_printf(out, "        %s = torch.empty_like(%s)\n", res, ref);
	else
		str_printf(out, "        %s = %s.new_empty(%s.shape[:-1]%s)\n", res, ref, ref,
			last->shape.ndim == seg->space.ndim ? " + (1,)" : "");
	snprintf(block, sizeof block, "%s=triton.next_power_of_2(cols)", a->style.block);
	call_print(a, s, "(rows,)", "cols", block, out);
}

static void matmul_launch(const struct answer *a, int s, struct str *out)
{
	const struct segment *seg = &a->segments[s];
	const struct node *n = &a->g->nodes[seg->first];
	const struct answer_style *y = &a->style;
	char lhs[3 * GRAPH_NAME_BYTES], rhs[3 * GRAPH_NAME_BYTES], res[3 * GRAPH_NAME_BYTES], block[96], grid[96];
	host_name(a, n->args[0], lhs, sizeof lhs);
	host_name(a, n->args[1], rhs, sizeof rhs);
	host_name(a, seg->last, res, sizeof res);
	str_printf(out, "        M, K = %s.shape\n        N = %s.shape[%d]\n        %s = %s.new_empty((M, N))\n", lhs, rhs,
		!n->transposed, res, lhs);
	snprintf(block, sizeof block, "BM=%d, BN=%d, BK=%d", y->tile_m, y->tile_n, y->tile_k);
	snprintf(grid, sizeof grid, "(triton.cdiv(M, %d), triton.cdiv(N, %d))", y->tile_m, y->tile_n);
	if (y->grid != GRID_INLINE) {
		if (y->grid == GRID_LAMBDA)
			str_puts(out, "        grid = lambda meta: (triton.cdiv(M, meta[\"BM\"]), triton.cdiv(N, meta[\"BN\"]))\n");
		else str_printf(out, "        grid = %s\n", grid);
		snprintf(grid, sizeof grid, "grid");
	}
	call_print(a, s, grid, "M, N, K", block, out);
}

static void model_print(const struct answer *a, struct str *out)
{
	typedef void launch_fn(const struct answer *a, int s, struct str *out);
	static launch_fn *const LAUNCH[] = {
		[SEGMENT_FLAT] = flat_launch, [SEGMENT_ROW] = row_launch, [SEGMENT_MATMUL] = matmul_launch};
	str_puts(out, "class ModelNew(nn.Module):\n");
	graph_init_method(a->g, out);
	str_puts(out, "    def forward(self, ");
	graph_forward_args(a->g, out);
	str_puts(out, "):\n");
	for (int i = 0; i < a->g->count && a->style.contiguous; i++)
		if (a->g->nodes[i].role == NODE_INPUT)
			str_printf(out, "        %s = %s.contiguous()\n", a->g->nodes[i].name, a->g->nodes[i].name);
	for (int s = 0; s < a->count; s++) LAUNCH[a->segments[s].kind](a, s, out);
	str_printf(out, "        return %s\n", a->style.out);
}

/* A candidate file: what its text needs imported, then the text. */
static void file_print(const struct str *body, struct str *out)
{
	str_puts(out, "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n");
	if (strstr(body->data, "libdevice.")) str_puts(out, "from triton.language.extra import libdevice\n");
	str_putc(out, '\n');
	str_append(out, body->data, body->len);
}

static void code_print(const struct answer *a, struct str *out)
{
	struct str body = {0};
	for (int s = 0; s < a->count; s++) {
		if (a->shares[s]) continue;
		kernel_print(a->g, &a->segments[s], &a->style, a->names[s], &body);
		str_putc(&body, '\n');
	}
	model_print(a, &body);
	file_print(&body, out);
	str_release(&body);
}

/* ---- the plan ---- */

/* "the bias, ReLU and add": operators of nodes [first, last] after an optional first word. */
static void words_print(const struct task_graph *g, int first, int last, const char *lead, struct str *out)
{
	int total = lead != NULL, done = total;
	for (int i = first; i <= last; i++) total += g->nodes[i].role == NODE_OP;
	str_puts(out, lead ? lead : total == 0 ? "nothing more" : "");
	for (int i = first; i <= last; i++) {
		if (g->nodes[i].role != NODE_OP) continue;
		str_printf(out, "%s%s", done == 0 ? "" : done == total - 1 ? " and " : ", ", g->nodes[i].op->words);
		done++;
	}
}

/* How a plan is worded, by the kernel's form. */
struct plan_forms {
	const char *flat;
	const char *row;
	const char *matmul;
};
/* %s: operators, %d: block or tiles. Three wordings, taken in turn by style. */
static const struct plan_forms FUSED_FORMS[] = {
	{"Fuse %s into one element-wise kernel. Each program takes %d flat elements and masks the tail.",
		"One program per row: load the row into a block of next_power_of_2(cols), compute %s in registers, store once.",
		"Tile the product %d x %d with a K loop of %d in fp32; the epilogue does %s before the only store."},
	{"Element-wise work: %s. One load, one store, blocks of %d elements with a mask.",
		"Row-wise work: %s. Each program holds a whole row, padded to a power of two and masked.",
		"Matrix product in tiles of %d x %d, K steps of %d, fp32 accumulator; then %s on the tile."},
	{"Compute %s in registers, %d elements per program, tail masked, so memory is read and written once.",
		"Compute %s on one row per program, reductions masked to the valid columns, one pass over memory.",
		"Block the product by %d x %d and K by %d, keep fp32 precision, and fuse %s into the store."},
};

static void plan_segment(const struct answer *a, const struct plan_forms *forms, int s, struct str *out)
{
	const struct segment *seg = &a->segments[s];
	const struct answer_style *y = &a->style;
	struct str words = {0};
	bool is_product = seg->kind == SEGMENT_MATMUL;
	words_print(a->g, seg->first + is_product, seg->last,
		is_product && a->g->nodes[seg->first].nargs > 2 ? "the bias" : NULL, &words);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	/* forms are the constants above */
	if (seg->kind == SEGMENT_FLAT) str_printf(out, forms->flat, words.data, y->block_size);
	else if (seg->kind == SEGMENT_ROW) str_printf(out, forms->row, words.data);
	else str_printf(out, forms->matmul, y->tile_m, y->tile_n, y->tile_k, words.data);
#pragma GCC diagnostic pop
	str_release(&words);
}

static void plan_print(const struct answer *a, int style, struct str *out)
{
	const struct plan_forms *forms = &FUSED_FORMS[(size_t)style % ARRAY_LEN(FUSED_FORMS)];
	if (a->style.is_slow) {
		str_puts(out, "One launch per operator: ");
		words_print(a->g, 0, a->g->count - 1, NULL, out);
		str_printf(out, ". Small blocks of %d elements.", a->style.block_size);
		return;
	}
	if (a->count > 1) str_printf(out, "%s launches. ", a->count == 2 ? "Two" : a->count == 3 ? "Three" : "Several");
	for (int s = 0; s < a->count; s++) {
		if (s) str_putc(out, ' ');
		plan_segment(a, forms, s, out);
	}
}

/* ---- entry points ---- */

static void graph_answer(const struct task_graph *g, int style, bool is_slow, struct str *plan, struct str *code)
{
	struct answer *a = xcalloc(1, sizeof *a);
	a->g = g;
	a->style = STYLES[style];
	/* The slow answer keeps the style's names but takes small blocks and small tiles. */
	if (is_slow) {
		a->style.is_slow = true;
		a->style.block_size = style % 2 ? 128 : 64;
		a->style.tile_m = a->style.tile_n = a->style.tile_k = 16;
		a->style.warps = 0;
	}
	a->count = graph_segments(g, is_slow, a->segments);
	answer_names(a);
	plan_print(a, style, plan);
	code_print(a, code);
	free(a);
}

static void family_answer_print(const struct family_task *t, int style, int choice, struct str *plan, struct str *code)
{
	struct str body = {0};
	family_plan(t, style, choice, plan);
	family_code(t, &STYLES[style], style, choice, &body);
	file_print(&body, code);
	str_release(&body);
}

/* A graph that prints another source than the task's would give the answer to another task. */
static bool is_source_of(const struct composed *c, const struct task *t)
{
	struct str source = {0};
	composed_source(c, &source);
	bool same = !strcmp(
		task_source_hash(source.data, source.len).text, task_source_hash(t->source, strlen(t->source)).text);
	str_release(&source);
	return same;
}

/* What the task was composed from is not stored with it: level or rung, and the seed, compose it
 * again. Which of the two it was, the source tells. */
static bool compose_again(const struct composer_room *room, const struct task *t, struct composed *out)
{
	*out = (struct composed){.is_graph = true, .level = t->level};
	graph_compose(&out->graph, t->level, t->seed);
	if (is_source_of(out, t)) return true;
	int rung = t->rung ? rung_find((struct slice){t->rung, strlen(t->rung)}) : -1;
	if (rung < 0) return false;
	rung_compose(room, rung, t->seed, out);
	return is_source_of(out, t);
}

#define CHOICE_SLOW (-1)

static int answer(const struct task *t, int style, int choice, struct str *plan, struct str *code, struct err *err)
{
	int rc = ERR_OK;
	if (style < 0 || style >= task_answer_styles())
		return err_set(err, ERR_RANGE, "answer style %d: expected 0 to %d", style, task_answer_styles() - 1);
	if (!t->seed || !t->structure || !*t->structure || t->level < 1 || t->level > 3)
		return err_set(
			err, ERR_NOT_FOUND, "task %s was not composed by hone: no reference answer exists for it", t->name);
	struct composer_room *room = composer_open();
	struct composed *c = xmalloc(sizeof *c);
	int choices = 1;
	if (!compose_again(room, t, c))
		rc = err_set(err, ERR_NOT_FOUND,
			"task %s: level %d, rung \"%s\" and seed %llu compose another source than the task's; its reference answer "
			"is unknown",
			t->name, t->level, t->rung ? t->rung : "", (unsigned long long)t->seed);
	while (!rc && !c->is_graph && family_choice(&c->family, choices)) choices++;
	if (!rc && choice >= choices)
		rc = err_set(err, ERR_RANGE, "task %s: choice %d: expected 0 to %d", t->name, choice, choices - 1);
	if (!rc && c->is_graph) graph_answer(&c->graph, style, choice == CHOICE_SLOW, plan, code);
	else if (!rc) family_answer_print(&c->family, style, choice == CHOICE_SLOW ? choices - 1 : choice, plan, code);
	free(c);
	composer_close(room);
	return rc;
}

int task_answer_choice(const struct task *t, int style, int choice, struct str *plan, struct str *code, struct err *err)
{
	if (choice < 0) return err_set(err, ERR_RANGE, "task %s: choice %d: expected 0 or more", t->name, choice);
	return answer(t, style, choice, plan, code, err);
}
int task_answer_slow(const struct task *t, int style, struct str *plan, struct str *code, struct err *err)
{
	return answer(t, style, CHOICE_SLOW, plan, code, err);
}
