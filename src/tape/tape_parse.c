/* tape_parse: hostile text to a validated struct tape (docs/tape-format.md): buffers, kernels and
 * the whole. What they are made of is read in tape_fields.c, rows in tape_rows.c.
 *
 * One function per object of the format. Each takes `what`, the object's path (rows[3].dst), for
 * messages, and fails at the first thing that is not exactly as documented: unknown keys too, so
 * that a tape means one thing only. Strings are not copied: the tape keeps the JSON alive. */
#include "tape/tape_internal.h"
#include "base/base.h"
#include <stdlib.h>

#define TTIR_BYTES_MAX ((size_t)16 << 20)
#define SOURCE_BYTES_MAX ((size_t)4 << 20)

/* ---- buffers ---- */

static int read_const(struct tape *t, const json_t *o, const char *what, struct tape_buffer *b, struct err *err)
{
	const json_t *data = json_object_get(o, "data");
	if (!json_is_string(data)) return err_set(err, ERR_FORMAT, "tape: %s.data: expected a string", what);
	if ((uint64_t)b->bytes > json_string_length(data))
		return err_set(err, ERR_FORMAT, "tape: %s.data: too short for %lld bytes", what, (long long)b->bytes);
	uint8_t *bytes = arena_alloc(&t->arena, (size_t)b->bytes);
	if (!tape_base64_decode(json_string_value(data), json_string_length(data), bytes, (size_t)b->bytes))
		return err_set(err, ERR_FORMAT, "tape: %s.data: expected base64 of %lld bytes", what, (long long)b->bytes);
	b->data = bytes;
	return json_object_get(o, "name") ? tape_get_name(o, what, "name", &b->name, err) : 0;
}

static int read_buffer(struct tape *t, const json_t *o, const char *what, struct tape_buffer *b, struct err *err)
{
	static const char *const kinds[TAPE_BUFFER_KIND_COUNT] = {"input", "param", "const", "temp"};
	static const char *const keys[TAPE_BUFFER_KIND_COUNT][5] = {{"kind", "bytes", "input", NULL},
		{"kind", "bytes", "name", NULL}, {"kind", "bytes", "data", "name", NULL}, {"kind", "bytes", NULL}};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "tape: %s: expected an object", what);
	const char *kind;
	int64_t input;
	/* The kind comes first, because it decides which keys the object may have. */
	int rc = tape_get_name(o, what, "kind", &kind, err), k = 0;
	if (rc) return rc;
	while (k < TAPE_BUFFER_KIND_COUNT && strcmp(kind, kinds[k])) k++;
	if (k == TAPE_BUFFER_KIND_COUNT)
		return err_set(err, ERR_FORMAT, "tape: %s.kind: \"%.40s\" is no kind of buffer", what, kind);
	b->kind = (enum tape_buffer_kind)k;
	rc = tape_check_object(o, what, keys[k], err);
	if (!rc) rc = tape_get_int(o, what, "bytes", 0, TAPE_BUFFER_BYTES_MAX, &b->bytes, err);
	if (rc) return rc;
	/* What the kind brings with it; a temporary buffer has no more than its size. */
	switch (b->kind) {
	case TAPE_INPUT:
		rc = tape_get_int(o, what, "input", 0, TAPE_BUFFERS_MAX - 1, &input, err);
		if (!rc) b->input = (int)input;
		return rc;
	case TAPE_PARAM: return tape_get_name(o, what, "name", &b->name, err);
	case TAPE_CONST: return read_const(t, o, what, b, err);
	default: return 0;
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One buffer per input and per parameter: two buffers for the same thing would make two truths. */
static int check_buffers(struct tape *t, struct err *err)
{
	bool seen[TAPE_BUFFERS_MAX] = {0};
	const char *names[TAPE_BUFFERS_MAX];
	size_t nnames = 0;
	int64_t total = 0;
	for (int i = 0; i < t->nbuffers; i++) {
		const struct tape_buffer *b = &t->buffers[i];
		total += b->bytes;
		if (total > TAPE_TOTAL_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "tape: buffers[%d]: all buffers together exceed %lld bytes", i,
				(long long)TAPE_TOTAL_BYTES_MAX);
		if (b->kind == TAPE_INPUT && seen[b->input])
			return err_set(err, ERR_FORMAT, "tape: buffers[%d].input: %d appears twice", i, b->input);
		if (b->kind == TAPE_INPUT) seen[b->input] = true;
		if (b->kind == TAPE_PARAM) names[nnames++] = b->name;
	}
	qsort(names, nnames, sizeof(*names), compare_names);
	for (size_t i = 1; i < nnames; i++)
		if (!strcmp(names[i - 1], names[i]))
			return err_set(err, ERR_FORMAT, "tape: buffers: parameter \"%.100s\" appears twice", names[i]);
	return 0;
}

/* ---- kernels ---- */

/* An option that is left out at its default: two texts for one meaning would be two tapes. */
static int get_flag(const json_t *o, const char *what, const char *field, bool written, bool *out, struct err *err)
{
	const json_t *v = json_object_get(o, field);
	*out = v != NULL;
	if (!v || (written ? json_is_true(v) : json_is_false(v))) return 0;
	return err_set(
		err, ERR_FORMAT, "tape: %s.%s: expected %s, or no such key", what, field, written ? "true" : "false");
}

/* Printable words with one space between two: what ptxas gets as arguments. Which words it may get
 * is the compile worker's rule. */
static int read_ptx_options(const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	if (!json_object_get(o, "ptx_options")) return 0;
	int rc = tape_get_name(o, what, "ptx_options", &k->ptx_options, err);
	if (rc) return rc;
	size_t len = strlen(k->ptx_options);
	const char *s = k->ptx_options;
	bool is_good = len <= TAPE_PTX_OPTIONS_BYTES_MAX && s[0] != ' ' && s[len - 1] != ' ' && !strstr(s, "  ");
	for (size_t i = 0; i < len; i++) is_good &= (unsigned char)s[i] < 0x7f;
	return is_good
		? 0
		: err_set(err, ERR_FORMAT, "tape: %s.ptx_options: expected ASCII words with one space between two, %d bytes",
			  what, TAPE_PTX_OPTIONS_BYTES_MAX);
}

static int read_options(const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	int64_t warps, stages, ctas, registers = 0;
	int rc = tape_get_int(o, what, "num_warps", 1, 64, &warps, err);
	if (!rc) rc = tape_get_int(o, what, "num_stages", 0, 64, &stages, err);
	if (!rc) rc = tape_get_int(o, what, "num_ctas", 1, 16, &ctas, err);
	if (!rc && json_object_get(o, "maxnreg")) rc = tape_get_int(o, what, "maxnreg", 1, 255, &registers, err);
	if (!rc) rc = get_flag(o, what, "enable_fp_fusion", false, &k->no_fp_fusion, err);
	if (!rc) rc = get_flag(o, what, "enable_reflect_ftz", false, &k->no_reflect_ftz, err);
	if (!rc) rc = get_flag(o, what, "launch_cooperative_grid", true, &k->is_cooperative, err);
	if (!rc) rc = get_flag(o, what, "launch_pdl", true, &k->is_pdl, err);
	if (!rc) rc = read_ptx_options(o, what, k, err);
	if (rc) return rc;
	if (warps & (warps - 1))
		return err_set(
			err, ERR_RANGE, "tape: %s.num_warps: expected a power of two, found %lld", what, (long long)warps);
	k->num_warps = (int)warps;
	k->num_stages = (int)stages;
	k->num_ctas = (int)ctas;
	k->maxnreg = (int)registers;
	return 0;
}

static int read_kernel(struct tape *t, const json_t *o, const char *what, struct tape_kernel *k, struct err *err)
{
	static const char *const keys[] = {"name", "ttir", "num_warps", "num_stages", "num_ctas", "maxnreg",
		"enable_fp_fusion", "enable_reflect_ftz", "launch_cooperative_grid", "launch_pdl", "ptx_options", "configs",
		"source", NULL};
	int64_t configs;
	/* Name and options are checked before the long texts. */
	int rc = tape_check_object(o, what, keys, err);
	if (!rc) rc = tape_get_name(o, what, "name", &k->name, err);
	if (!rc) rc = read_options(o, what, k, err);
	if (!rc && json_object_get(o, "configs")) rc = tape_get_int(o, what, "configs", 1, 1 << 20, &configs, err);
	if (rc) return rc;
	/* The texts stay where the JSON holds them: only their lengths are checked here. */
	const json_t *ttir = json_object_get(o, "ttir");
	if (!json_is_string(ttir)) return err_set(err, ERR_FORMAT, "tape: %s.ttir: expected a string", what);
	k->ttir = json_string_value(ttir);
	k->ttir_len = json_string_length(ttir);
	if (k->ttir_len == 0 || k->ttir_len > TTIR_BYTES_MAX)
		return err_set(
			err, ERR_LIMIT, "tape: %s.ttir: expected 1 .. %zu bytes, found %zu", what, TTIR_BYTES_MAX, k->ttir_len);
	const json_t *source = json_object_get(o, "source");
	if (source && (!json_is_string(source) || json_string_length(source) > SOURCE_BYTES_MAX))
		return err_set(
			err, ERR_FORMAT, "tape: %s.source: expected a string of at most %zu bytes", what, SOURCE_BYTES_MAX);
	k->source = json_string_value(source);
	/* The hash is the key of the compile cache: all that the code depends on, and not the
	 * source. */
	char options[64];
	int len = snprintf(options, sizeof(options), "%d,%d,%d,%d,%d,%d,%d,%d", k->num_warps, k->num_stages, k->num_ctas,
		k->maxnreg, k->no_fp_fusion, k->no_reflect_ftz, k->is_cooperative, k->is_pdl);
	const char *ptx = k->ptx_options ? k->ptx_options : "";
	const struct slice parts[] = {{k->ttir, k->ttir_len}, {options, (size_t)len}, {ptx, strlen(ptx)}};
	k->hash = hash_parts(parts, ARRAY_LEN(parts));
	return 0;
}

/* ---- the whole ---- */

static int read_tape(struct tape *t, struct err *err)
{
	static const char *const keys[] = {"version", "buffers", "kernels", "rows", "outputs", "tuple", "form", NULL};
	const json_t *buffers, *kernels, *rows, *outputs, *tuple = json_object_get(t->json, "tuple");
	int64_t version;
	/* Form and lengths first: the memory below is taken by the numbers that were checked here. */
	int rc = tape_check_object(t->json, "", keys, err);
	if (!rc) rc = tape_get_int(t->json, "", "version", TAPE_VERSION, TAPE_VERSION, &version, err);
	if (!rc) rc = tape_get_array(t->json, "", "buffers", 0, TAPE_BUFFERS_MAX, &buffers, err);
	if (!rc) rc = tape_get_array(t->json, "", "kernels", 0, TAPE_KERNELS_MAX, &kernels, err);
	if (!rc) rc = tape_get_array(t->json, "", "rows", 0, TAPE_ROWS_MAX, &rows, err);
	if (!rc) rc = tape_get_array(t->json, "", "outputs", 1, TAPE_OUTPUTS_MAX, &outputs, err);
	if (!rc && !json_is_boolean(tuple)) rc = err_set(err, ERR_FORMAT, "tape: tuple: expected true or false");
	const json_t *form = json_object_get(t->json, "form");
	if (!rc && form && !json_is_string(form)) rc = err_set(err, ERR_FORMAT, "tape: form: expected a text");
	if (rc) return rc;
	t->nbuffers = (int)json_array_size(buffers);
	t->nkernels = (int)json_array_size(kernels);
	t->nrows = (int)json_array_size(rows);
	t->buffers = arena_alloc(&t->arena, (size_t)t->nbuffers * sizeof(*t->buffers));
	t->kernels = arena_alloc(&t->arena, (size_t)t->nkernels * sizeof(*t->kernels));
	t->rows = arena_alloc(&t->arena, (size_t)t->nrows * sizeof(*t->rows));
	/* Buffers, then kernels, then rows: each refers to what was read before it. */
	for (int i = 0; i < t->nbuffers && !rc; i++)
		rc = read_buffer(
			t, json_array_get(buffers, (size_t)i), tape_path_at("", "buffers", i).text, &t->buffers[i], err);
	if (!rc) rc = check_buffers(t, err);
	for (int i = 0; i < t->nkernels && !rc; i++)
		rc = read_kernel(
			t, json_array_get(kernels, (size_t)i), tape_path_at("", "kernels", i).text, &t->kernels[i], err);
	for (int i = 0; i < t->nrows && !rc; i++)
		rc = tape_read_row(t, json_array_get(rows, (size_t)i), tape_path_at("", "rows", i).text, &t->rows[i], err);
	if (!rc) rc = tape_check_order(t, err);
	return rc ? rc : tape_read_views(t, outputs, "", "outputs", &t->noutputs, &t->outputs, err);
}

/* IR text without locations: "#loc" lines and loc(...) with what it encloses; strings are kept
 * whole inside it. */
static json_t *ir_without_locations(const char *text, size_t len)
{
	struct str out = {0};
	for (size_t i = 0; i < len; i++) {
		/* A line that defines a location goes whole, all other text stays. */
		bool line_start = !i || text[i - 1] == '\n';
		if (line_start && !strncmp(text + i, "#loc", 4)) {
			while (i < len && text[i] != '\n') i++;
			continue;
		}
		if (strncmp(text + i, " loc(", 5)) {
			str_putc(&out, text[i]);
			continue;
		}
		/* A location goes as far as its own closing bracket; one inside a string closes nothing. */
		int depth = 0;
		for (i += 4; i < len; i++) {
			if (text[i] == '"')
				for (i++; i < len && text[i] != '"'; i++) i += text[i] == '\\';
			if (i >= len) break; /* a string without an end */
			depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
			if (!depth) break;
		}
	}
	json_t *o = json_stringn(out.data ? out.data : "", out.len);
	str_release(&out);
	return o;
}

/* Gives the buffers that a part of a row or an output names their numbers, in the order in
 * which they are named. */
static void buffers_number(json_t *part, int *number, int *count)
{
	json_t *v, *of = json_object_get(part, "buffer");
	const char *key;
	size_t i;
	if (json_is_integer(of)) {
		json_int_t b = json_integer_value(of);
		if (number[b] < 0) number[b] = (*count)++;
		json_integer_set(of, number[b]);
	}
	/* A view inside a descriptor inside an argument. */
	json_object_foreach(part, key, v) buffers_number(v, number, count);
	json_array_foreach(part, i, v) buffers_number(v, number, count);
}

/* When a buffer was made says nothing about what is computed: buffers are numbered by their first
 * use, those that nobody uses behind them. */
static void buffers_by_use(const struct tape *t, json_t *copy)
{
	static const char *const parts[] = {"dst", "src", "args", "reads", "writes"};
	json_t *buffers = json_object_get(copy, "buffers"), *sorted = json_array(), *row;
	int *number = xcalloc((size_t)t->nbuffers + 1, sizeof *number), count = 0;
	size_t i;
	for (int b = 0; b < t->nbuffers; b++) number[b] = -1;
	json_array_foreach(json_object_get(copy, "rows"), i, row)
	{
		for (size_t p = 0; p < ARRAY_LEN(parts); p++) buffers_number(json_object_get(row, parts[p]), number, &count);
	}
	buffers_number(json_object_get(copy, "outputs"), number, &count);
	for (int b = 0; b < t->nbuffers; b++) {
		if (number[b] < 0) number[b] = count++;
		json_array_append_new(sorted, json_null());
	}
	for (int b = 0; b < t->nbuffers; b++) json_array_set(sorted, (size_t)number[b], json_array_get(buffers, (size_t)b));
	json_object_set_new(copy, "buffers", sorted);
	free(number);
}

struct sha256_hex tape_program_hash(const struct tape *t)
{
	json_t *copy = json_deep_copy(t->json), *o;
	size_t i;
	buffers_by_use(t, copy);
	json_array_foreach(json_object_get(copy, "rows"), i, o) json_object_del(o, "line");
	json_array_foreach(json_object_get(copy, "kernels"), i, o)
	{
		json_object_del(o, "configs");
		json_object_del(o, "source");
		json_object_set_new(o, "ttir", ir_without_locations(t->kernels[i].ttir, t->kernels[i].ttir_len));
	}
	char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS);
	struct sha256_hex hash = hash_bytes(text ? text : "", text ? strlen(text) : 0);
	free(text);
	json_decref(copy);
	return hash;
}

static int hash_canonical(struct tape *t, struct err *err)
{
	char *text = json_dumps(t->json, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17));
	if (!text) return err_set(err, ERR_FORMAT, "tape: the values cannot be written back as JSON");
	t->hash = hash_bytes(text, strlen(text));
	free(text);
	return 0;
}

int tape_parse(const char *text, size_t len, struct tape **out, struct err *err)
{
	if (len > TAPE_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "tape: %zu bytes of text, the limit is %zu", len, TAPE_BYTES_MAX);
	int rc = tape_text_check(text, len, err);
	if (rc) return rc;
	struct tape *t = xcalloc(1, sizeof(*t));
	rc = json_parse(text, len, "tape", &t->json, err);
	if (!rc) rc = read_tape(t, err);
	if (!rc) rc = hash_canonical(t, err);
	if (rc) {
		tape_free(t);
		return rc;
	}
	*out = t;
	return 0;
}
