/* The manner of a module: people who mean the same module write different texts. They name sizes
 * and arguments as they like, return a result at once or name it first, call torch.sum(x) or
 * x.sum(), scale their inputs, import what they use. A model that has seen one manner alone reads
 * nothing but that one. So the reference of a rung's task is printed in the generator's manner and
 * then, text to text, in another one that means the same; answers do not follow it, since nothing
 * of it is theirs to follow. */
#include "task/task_family.h"
#include "base/base.h"

#define MANNER_STREAM 0x6d616e6e6572
#define NAMES_MAX 5

/* The next place of a word; NULL: there is none. What stands behind a dot is no word of its own. */
static const char *word_find(const char *from, const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *p = strstr(from, word); p; p = strstr(p + 1, word))
		if ((p == text || (!family_is_name_byte(p[-1]) && p[-1] != '.')) && !family_is_name_byte(p[n])) return p;
	return NULL;
}

static bool has_word(const struct str *s, const char *word) { return word_find(s->data, s->data, word) != NULL; }

/* Every place of a word, or of any text. */
static void replace(struct str *s, const char *from, const char *to, bool is_word)
{
	struct str out = {0};
	const char *at = s->data, *p;
	while ((p = is_word ? word_find(at, s->data, from) : strstr(at, from))) {
		str_append(&out, at, (size_t)(p - at));
		str_puts(&out, to);
		at = p + strlen(from);
	}
	str_puts(&out, at);
	str_release(s);
	*s = out;
}

/* ---- names ---- */

/* What the generator calls a thing, and what others do. Names of sizes are also, in small letters,
 * those of the constructor's arguments. */
static const char *const NAMES[][NAMES_MAX] = {
	{"ROWS", "BATCH", "SAMPLES", "M", NULL},
	{"COLS", "FEATURES", "CLASSES", "DIM", "WIDTH"},
	{"DEPTH", "CHANNELS", "STEPS", "CLASSES", "ROWS"},
	{"SAMPLES", "ROWS", "BATCH", NULL},
	{"PLANES", "CHANNELS", "FILTERS", NULL},
	{"HALF", "HIDDEN", "DIM", NULL},
	{"x", "input", "inp", "hidden", "data"},
	{"z", "other", "target", "residual", "y2"},
	{"seen", "mask", "keep", "valid", NULL},
	{"label", "target", "labels", NULL},
	{"a", "left", "first", "value", NULL},
	{"b", "right", "second", "gate", NULL},
	{"window", "kernel", "size", "kernel_size", NULL},
	{"pad", "padding", "border", NULL},
};

static void small(const char *name, char out[32])
{
	snprintf(out, 32, "%s", name);
	for (char *c = out; *c; c++)
		if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
}

/* Every other name stays; a new one must not be there, whatever it means there. */
static void names_draw(struct str *s, struct rng *r)
{
	for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
		const char *from = NAMES[i][0], *to = NAMES[i][1 + rng_below(r, NAMES_MAX - 1)];
		char small_from[32], small_to[32];
		bool is_kept = rng_below(r, 2);
		if (is_kept || !to || !has_word(s, from)) continue;
		small(from, small_from);
		small(to, small_to);
		if (has_word(s, to) || has_word(s, small_to)) continue;
		replace(s, from, to, true);
		replace(s, small_from, small_to, true);
	}
}

/* ---- calls ---- */

static const struct {
	const char *from;
	const char *to;
} CALLS[] = {
	{"torch.softmax(x, ", "F.softmax(x, "},
	{"torch.softmax(x, ", "x.softmax("},
	{"torch.log_softmax(x, ", "F.log_softmax(x, "},
	{"torch.log_softmax(x, ", "x.log_softmax("},
	{"torch.sum(x, ", "x.sum("},
	{"torch.mean(x, ", "x.mean("},
	{"torch.mean(x * x, ", "x.pow(2).mean("},
	{"torch.amax(x, ", "x.amax("},
	{"torch.amin(x, ", "x.amin("},
	{"torch.argmax(x, ", "x.argmax("},
	{"torch.cumsum(x, ", "x.cumsum("},
	{"torch.relu(", "F.relu("},
	{"torch.sigmoid(x)", "x.sigmoid()"},
	{"torch.tanh(x)", "x.tanh()"},
	{"torch.abs(x)", "x.abs()"},
	{"float(\"-inf\")", "-1e9"},
	{"((x - z) * (x - z))", "(x - z).pow(2)"},
	{"(torch.exp(a) * (a - b)).sum(", "torch.sum(torch.exp(a) * (a - b), "},
	{"(torch.exp(b) * (b - a)).sum(", "torch.sum(torch.exp(b) * (b - a), "},
	{"log_softmax(x / 1.0, ", "log_softmax(x, "},
	{"log_softmax(z / 1.0, ", "log_softmax(z, "},
};

static void calls_draw(struct str *s, struct rng *r)
{
	for (size_t i = 0; i < ARRAY_LEN(CALLS); i++)
		if (rng_below(r, 3) == 0) replace(s, CALLS[i].from, CALLS[i].to, false);
}

/* ---- dimensions ---- */

/* How many sizes the tensors of get_inputs have, where all have as many and are drawn alike; else
 * 0. */
static int dimensions(const struct str *s)
{
	const char *p = strstr(s->data, "    return [torch.randn(");
	const char *end = p ? strchr(p, '\n') : NULL;
	int all = 0;
	while (p && (p = strstr(p, "torch.")) && p < end) {
		if (strncmp(p, "torch.randn(", 12) != 0) return 0;
		int count = 1;
		for (p += 12; *p != ')' && p < end; p++) count += *p == ',';
		if (all && count != all) return 0;
		all = count;
	}
	return all;
}

/* A dimension more before the rows, where the last one is what the module works on: rows are its
 * product then. */
static void leading_draw(struct str *s, struct rng *r)
{
	static const int COUNTS[] = {2, 3, 4, 8, 16, 32};
	int count = COUNTS[rng_below(r, ARRAY_LEN(COUNTS))], rows = 0;
	const char *at = strstr(s->data, "\nROWS = ");
	if (rng_below(r, 3) != 0 || dimensions(s) != 2 || !at || has_word(s, "BATCH")) return;
	rows = atoi(at + strlen("\nROWS = "));
	if (rows < 4 * count) return;
	/* The sizes, the inputs, and where they are judged. */
	char *before = xasprintf("\nROWS = %d\n", rows),
		 *after = xasprintf("\nBATCH = %d\nROWS = %d\n", count, rows / count);
	replace(s, before, after, false);
	replace(s, "torch.randn(ROWS, ", "torch.randn(BATCH, ROWS, ", false);
	replace(s, TASK_JUDGED_AT, TASK_JUDGED_AT "BATCH=3, ", false);
	free(before);
	free(after);
}

static void last_dimension_draw(struct str *s, struct rng *r)
{
	int ndim = dimensions(s);
	bool is_counted = rng_below(r, 2);
	if (ndim == 2 && is_counted) replace(s, "dim=-1", "dim=1", false);
}

/* ---- statements ---- */

/* "y = E" and "return y" become "return E". */
static void return_draw(struct str *s, struct rng *r)
{
	static const char RETURN[] = "\n        return y\n", Y[] = "\n        y = ";
	const char *end = strstr(s->data, RETURN), *start = end;
	if (rng_below(r, 2) == 0 || !end) return;
	while (start > s->data && start[-1] != '\n') start--;
	if (--start <= s->data || strncmp(start, Y, strlen(Y)) != 0) return;
	struct str out = {0};
	str_append(&out, s->data, (size_t)(start - s->data));
	str_puts(&out, "\n        return ");
	str_append(&out, start + strlen(Y), (size_t)(end - start) - strlen(Y));
	str_puts(&out, end + strlen(RETURN) - 1);
	str_release(s);
	*s = out;
}

/* Whether a text can be an argument without parentheses: one call, or one name. */
static bool is_one_term(const char *text, size_t len)
{
	int depth = 0;
	for (size_t i = 0; i < len; i++) {
		depth += (text[i] == '(') - (text[i] == ')');
		if (!depth && !family_is_name_byte(text[i]) && text[i] != '.' && text[i] != ')') return false;
	}
	return true;
}

/* The first line of forward "v = E" whose v the next line alone reads, and once; its pieces. */
struct nested {
	const char *line; /* with its indentation */
	struct slice name;
	struct slice value;
	const char *next;  /* the line below */
	const char *place; /* of the name in it */
};
static bool nested_find(const char *text, struct nested *out)
{
	const char *line = strstr(text, "def forward(");
	while (line && (line = strchr(line, '\n'))) {
		line++;
		size_t n = strspn(line, " "), len = strcspn(line, "\n");
		const char *name = line + n, *equals = strstr(line, " = "), *next = line + len + 1;
		if (n != 8 || strspn(next, " ") != 8) continue;
		if (!equals || equals > line + len || strcspn(name, " ,(.") != (size_t)(equals - name)) continue;
		char word[32];
		snprintf(word, sizeof word, "%.*s", (int)(equals - name), name);
		/* Read once below, and never again: it is assigned anew, or this was the end. */
		const char *value = strstr(next, " = "), *end = next + strcspn(next, "\n");
		bool is_again = !strncmp(next + 8, word, strlen(word)) && next[8 + strlen(word)] == ' ';
		if (is_again) value = MIN(value, end);
		else value = next;
		const char *place = word_find(value, text, word), *other = place ? word_find(place + 1, text, word) : NULL;
		if (!place || place > end || (other && other < end) || (other && !is_again)) continue;
		*out = (struct nested){
			line, {name, (size_t)(equals - name)}, {equals + 3, (size_t)(line + len - equals - 3)}, next, place};
		return true;
	}
	return false;
}

/* "x = f(x)" and "x = g(x)" become "x = g(f(x))", once or not at all. */
static void nesting_draw(struct str *s, struct rng *r)
{
	struct nested n;
	if (rng_below(r, 3) != 0 || !nested_find(s->data, &n)) return;
	char behind = n.place[n.name.len];
	bool is_argument = (n.place[-1] == '(' || n.place[-2] == ',') && (behind == ')' || behind == ',');
	bool is_all = behind == '\n' && (n.place[-2] == '=' || n.place[-2] == 'n'); /* "y = x", "return x" */
	bool is_bare = is_argument || is_all || is_one_term(n.value.data, n.value.len);
	struct str out = {0};
	str_append(&out, s->data, (size_t)(n.line - s->data));
	str_append(&out, n.next, (size_t)(n.place - n.next));
	str_printf(&out, "%s%.*s%s", is_bare ? "" : "(", (int)n.value.len, n.value.data, is_bare ? "" : ")");
	str_puts(&out, n.place + n.name.len);
	str_release(s);
	*s = out;
}

/* Inputs that are wider, narrower or off centre, never beyond three times what the graph's
 * soundness was tried at. */
static void scale_draw(struct str *s, struct rng *r)
{
	static const char *const SCALES[] = {" * 2.0", " * 3.0", " * 0.5", " + 0.5", " * 1.5 + 0.3", " - 0.4"};
	const char *scale = SCALES[rng_below(r, ARRAY_LEN(SCALES))];
	const char *p = strstr(s->data, "    return [torch.randn(");
	if (rng_below(r, 3) != 0 || !p) return;
	const char *close = strchr(p, ')');
	struct str out = {0};
	str_append(&out, s->data, (size_t)(close + 1 - s->data));
	str_puts(&out, scale);
	str_puts(&out, close + 1);
	str_release(s);
	*s = out;
}

/* A small constant of forward becomes one of the module. */
static void constant_draw(struct str *s, struct rng *r)
{
	static const char *const EPS[] = {"1e-5", "1e-6", "1e-3", "1e-2"};
	bool is_kept = rng_below(r, 2);
	for (size_t i = 0; !is_kept && i < ARRAY_LEN(EPS); i++) {
		if (!has_word(s, EPS[i])) continue;
		char *named = xasprintf("\nEPS = %s\n\nclass ", EPS[i]);
		replace(s, EPS[i], "EPS", true);
		replace(s, "\n\nclass ", named, false);
		free(named);
		return;
	}
}

/* ---- layout ---- */

static void layout_draw(struct str *s, const char *says, struct rng *r)
{
	bool is_documented = rng_below(r, 4) == 0, is_wide = rng_below(r, 2), is_pruned = rng_below(r, 3) != 0;
	if (is_documented && says) {
		char first = *says >= 'a' && *says <= 'z' ? (char)(*says - 'a' + 'A') : *says;
		char *head = xasprintf("class Model(nn.Module):\n    \"\"\"%c%s.\"\"\"\n\n", first, says + 1);
		replace(s, "class Model(nn.Module):\n", head, false);
		free(head);
	}
	if (is_wide) {
		replace(s, "\n\nclass ", "\n\n\nclass ", false);
		replace(s, "\n\ndef ", "\n\n\ndef ", false);
	}
	if (is_pruned && !strstr(s->data, " F.") && !strstr(s->data, "(F.") && !strstr(s->data, "-F."))
		replace(s, "import torch.nn.functional as F\n", "", false);
}

void manner_draw(struct str *source, const char *says, bool has_rows, uint64_t seed)
{
	struct rng r = {.seed = seed, .stream = MANNER_STREAM};
	/* Calls and dimensions are known by the generator's names, so names come behind them; what is
	 * said in words comes last, where no name is looked for any more. */
	if (has_rows) leading_draw(source, &r);
	calls_draw(source, &r);
	last_dimension_draw(source, &r);
	return_draw(source, &r);
	nesting_draw(source, &r);
	scale_draw(source, &r);
	constant_draw(source, &r);
	names_draw(source, &r);
	layout_draw(source, says, &r);
}
