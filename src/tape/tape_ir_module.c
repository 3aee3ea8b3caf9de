/* tape_ir_module: the modules of an answer in IR. Each operation gets the answer's
 * line as its location. */
#include "tape/tape_ir_internal.h"
#include "base/base.h"

const char *ir_line_end(const char *at, const char *end)
{
	const char *nl = memchr(at, '\n', (size_t)(end - at));
	return nl ? nl : end;
}

/* Where a comment begins, and what comes behind the last character before it, in one line of IR. */
static const char *code_end(const char *at, const char *end)
{
	const char *last = at;
	bool in_string = false;
	for (const char *p = at; p < end; p++) {
		if (in_string && *p == '\\') p++;
		else if (*p == '"') in_string = !in_string;
		else if (!in_string && *p == '/' && p + 1 < end && p[1] == '/') break;
		if (p < end && !strchr(" \t\r", *p)) last = p + 1;
	}
	return MIN(last, end);
}

/* The word loc and a bracket, with or without blanks between them: MLIR reads both. */
static bool has_location(const char *at, const char *end)
{
	for (const char *p = at; p + 3 < end; p++) {
		if (memcmp(p, "loc", 3) || (p > at && ir_is_word(p[-1], false))) continue;
		const char *bracket = p + 3;
		while (bracket < end && (*bracket == ' ' || *bracket == '\t' || *bracket == '\r')) bracket++;
		if (bracket < end && *bracket == '(') return true;
	}
	return false;
}

/* One module, each line that ends an operation with the answer's line behind it. Locations of its
 * own would let an answer say where it is wrong. */
static int module_text(struct reader *r, struct slice source, int first_line, struct str *out)
{
	const char *end = source.data + source.len;
	/* Blank lines in front and between, so that whoever counts lines of the
	 * module counts the answer's. */
	for (r->line = 1; r->line < first_line; r->line++) str_putc(out, '\n');
	for (const char *at = source.data; at < end; r->line++) {
		const char *nl = ir_line_end(at, end), *last = code_end(at, nl);
		if (has_location(at, last))
			return ir_bad(r, ERR_FORMAT, "locations are not written: they are the answer's own lines");
		if (last > at) {
			str_append(out, at, (size_t)(last - at));
			bool is_open = last[-1] == '{' || last[-1] == ':' || last[-1] == ',';
			if (is_open) str_putc(out, '\n');
			else str_printf(out, " loc(\"candidate.py\":%d:1)\n", r->line);
		} else {
			str_putc(out, '\n');
		}
		at = nl + (nl < end);
	}
	return 0;
}

/* The name of the function that is launched, behind "tt.func public @". */
static int module_name(struct reader *r, struct slice text, struct slice *name)
{
	static const char mark[] = "tt.func public @";
	const char *at = memmem(text.data, text.len, mark, sizeof mark - 1), *end = text.data + text.len;
	if (!at) return ir_bad(r, ERR_FORMAT, "this module has no \"tt.func public @NAME\"");
	*name = (struct slice){at + sizeof mark - 1, 0};
	while (name->data + name->len < end && ir_is_word(name->data[name->len], false)) name->len++;
	return name->len && name->len <= NAME_BYTES_MAX ? 0
													: ir_bad(r, ERR_FORMAT, "the public function has no plain name");
}

/* From the first line behind the head: each line that begins with "module" begins another one. */
int ir_modules_read(struct reader *r, const char *at, const char *end, int line, struct arena *arena)
{
	while (at < end) {
		const char *next = ir_line_end(at, end);
		int first = line;
		r->line = line;
		if (end - at < 6 || memcmp(at, "module", 6))
			return ir_bad(
				r, ERR_FORMAT, "expected a line of the head, or a module; found \"%.*s\"", (int)MIN(next - at, 30), at);
		if (r->nmodules == KERNELS_MAX) return ir_bad(r, ERR_FORMAT, "more than %d modules", KERNELS_MAX);
		/* To the next one. */
		const char *from = at;
		do {
			at = next + (next < end);
			line++;
			next = ir_line_end(at, end);
		} while (at < end && (end - at < 6 || memcmp(at, "module", 6)));
		struct module *m = &r->modules[r->nmodules];
		struct str text = {0};
		int rc = module_text(r, (struct slice){from, (size_t)(at - from)}, first, &text);
		if (!rc) {
			m->text = (struct slice){arena_strndup(arena, text.data ? text.data : "", text.len), text.len};
			r->line = first;
			rc = module_name(r, m->text, &m->name);
		}
		str_release(&text);
		for (int i = 0; i < r->nmodules && !rc; i++)
			if (slice_same(r->modules[i].name, m->name))
				rc = ir_bad(r, ERR_FORMAT, "a second @%.*s", (int)m->name.len, m->name.data);
		if (rc) return rc;
		r->nmodules++;
	}
	return r->nmodules ? 0 : ir_bad(r, ERR_FORMAT, "no module stands behind the head");
}
