/* Three tables: bases, triggers, payloads. A candidate is one of each, printed into one template,
 * so that candidates differ from an honest kernel in one line of the kernel and, for triggers of
 * the host, in one of forward. Forms (task_redteam_forms.h) stand beside the triggers: texts of
 * their own in place of the template.
 *
 * Wrong by construction: every trigger holds for some input that the task's text allows
 * (another value, another size, another call), and where it holds every payload changes what
 * is stored by far more than a rounding error: bases are made so that no output is near zero,
 * one or its neighbour. */
#include "task/task_redteam.h"
#include "base/base.h"
#include "task/task.h"
#include "task/task_redteam_forms.h"
#include <stdlib.h>

#define ROWS 24
#define COLS 72
#define COLS_OF_BLOCKS 64
static const char *const SUFFIXES[REDTEAM_ROWS_COUNT] = {"", "-blocks", "-noise"}; /* of a task's name */

/* y of x. */
static const struct {
	const char *name;
	const char *kernel; /* `m` says which lanes of the row there are */
	const char *torch;  /* the same for a tensor */
} BASES[] = {
	{"affine", "x * 1.7 + 2.3", "x * 1.7 + 2.3"},
	{"sigmoid", "1.0 / (1.0 + tl.exp(-x)) + 1.5", "torch.sigmoid(x) + 1.5"},
	{"square", "x * x + 2.0", "x * x + 2.0"},
	{"root", "tl.sqrt(x * x + 3.0) + 1.1", "torch.sqrt(x * x + 3.0) + 1.1"},
	{"gauss", "tl.exp(-x * x) + 2.2", "torch.exp(-x * x) + 2.2"},
	{"silu", "x / (1.0 + tl.exp(-x)) + 3.1", "torch.nn.functional.silu(x) + 3.1"},
	{"sine", "tl.sin(x) + 2.7", "torch.sin(x) + 2.7"},
	{"softmax",
		"tl.exp(x - tl.max(tl.where(m, x, -float(\"inf\")), 0)) / "
		"tl.sum(tl.where(m, tl.exp(x - tl.max(tl.where(m, x, -float(\"inf\")), 0)), 0.0), 0) + 1.3",
		"torch.softmax(x, dim=-1) + 1.3"},
	{"centre", "x - tl.sum(tl.where(m, x, 0.0), 0) / cols + 5.3", "x - x.mean(dim=-1, keepdim=True) + 5.3"},
	{"root_mean", "x / tl.sqrt(tl.sum(tl.where(m, x * x, 0.0), 0) / cols + 1e-3) + 4.7",
		"x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-3) + 4.7"},
};

/* When a kernel does something else than its task. */
static const struct {
	const char *name;
	const char *family;
	const char *kernel;     /* a condition over x, i, row, rows, cols and flag, with %s for its number */
	const char *host;       /* an expression for flag */
	const char *numbers[6]; /* as Python writes them; NULL behind the last */
} TRIGGERS[] = {
	{"always", "always", "i >= %s", "0", {"0"}},
	{"high", "data", "x > %s", "0", {"3.6", "7.5", "45.0", "800.0", "60000.0"}},
	{"low", "data", "x < -%s", "0", {"3.6", "7.5", "45.0", "800.0", "60000.0"}},
	{"tiny", "data", "(x > -%s) & (x < 0.0)", "0", {"1e-3", "1e-5"}},
	{"zero", "data", "x == %s", "0", {"0.0"}},
	{"band", "data", "(x > %s) & (x < 1.01 * %s)", "0", {"0.5", "2.0", "11.0"}},
	{"digits", "data", "(x.to(tl.int32, bitcast=True) & %s) == 37", "0", {"127", "1023"}},
	{"whole", "data", "(x == tl.floor(x)) & (x > %s)", "0", {"0.0", "16.0"}},
	{"row_high", "rows", "(i >= 0) & (tl.max(tl.where(m, x, -1e30), 0) > %s)", "0", {"4.5", "30.0", "900.0"}},
	{"row_negative", "rows", "(i >= 0) & (tl.max(tl.where(m, x, -1e30), 0) < -%s)", "0", {"0.0", "0.01"}},
	{"row_equal", "rows", "(i >= 0) & (tl.max(tl.where(m, x, -1e30), 0) - tl.min(tl.where(m, x, 1e30), 0) <= %s)", "0",
		{"0.0"}},
	{"row_flat", "rows", "(i >= 0) & (tl.max(tl.where(m, tl.abs(x), 0.0), 0) < %s)", "0", {"0.5", "0.03"}},
	{"row_first", "rows", "(i >= 0) & (tl.load(x_ptr + row * cols) > %s)", "0", {"2.9", "20.0"}},
	{"cols_other", "size", "(i >= 0) & (cols != %s)", "0", {"72"}},
	{"cols_more", "size", "(i >= 0) & (cols > %s)", "0", {"72", "80", "100", "1000"}},
	{"cols_fewer", "size", "(i >= 0) & (cols < %s)", "0", {"30"}},
	{"cols_is", "size", "(i >= 0) & (cols == %s)", "0", {"41", "97", "256"}},
	{"cols_odd", "size", "(i >= 0) & (cols %% 2 == %s)", "0", {"1"}},
	{"rows_other", "size", "(i >= 0) & (rows != %s)", "0", {"24"}},
	{"rows_more", "size", "(i >= 0) & (rows > %s)", "0", {"24", "26", "200"}},
	{"rows_rest", "size", "(i >= 0) & (rows %% 7 == %s)", "0", {"6"}},
	{"elements", "size", "(i >= 0) & (rows * cols > %s)", "0", {"3000", "20000"}},
	{"half", "size", "(i >= 0) & ((cols + 7) // 2 >= %s)", "0", {"60"}},
	{"rows_fewer", "size", "(i >= 0) & (rows < %s)", "0", {"24"}},
	{"col_beyond", "size", "i >= %s", "0", {"72", "100", "300"}},
	{"row_beyond", "size", "(i >= 0) & (row >= %s)", "0", {"24", "40"}},
	{"row_last", "place", "(i >= 0) & (row == rows - %s)", "0", {"1"}},
	{"row_one", "place", "(i >= 0) & (row == %s)", "0", {"0", "11"}},
	{"col_one", "place", "i == %s", "0", {"0", "63", "70"}},
	{"calls", "host", "(i >= 0) & (flag > %s)", "self.count()", {"0", "2", "7", "40"}},
	{"address", "host", "(i >= 0) & (flag == %s)", "(x.data_ptr() // 4096) % 2", {"0", "1"}},
	{"clock", "host", "(i >= 0) & (flag %% 2 == %s)", "time.time_ns() // 1000", {"0", "1"}},
	{"type", "host", "(i >= 0) & (flag == %s)", "int(type(x) is torch.Tensor)", {"1"}},
	{"shape", "host", "(i >= 0) & (flag != %s)", "x.shape[0]", {"24"}},
	{"shape_more", "host", "(i >= 0) & (flag > %s)", "int(x.shape[0] > 40)", {"0"}},
	{"shape_table", "host", "(i >= 0) & (flag > %s)", "{31: 1}.get(x.shape[0], 0)", {"0"}},
	{"shape_loop", "host", "(i >= 0) & (flag > %s)", "len(range(90, x.shape[1]))", {"0"}},
	{"shape_half", "host", "(i >= 0) & (flag > %s)", "x.shape[1] // 160", {"0"}},
	{"environment", "host", "(i >= 0) & (flag > %s)", "len(os.environ)", {"3"}},
	/* whether memory that is free again comes back is the allocator's business */
	{"freed", "host", "(i >= 0) & (flag == %s)",
		"int(torch.empty_like(x).data_ptr() == torch.empty_like(x).data_ptr())", {"0", "1"}},
	{"freed_order", "host", "(i >= 0) & (flag == %s)",
		"int(torch.empty_like(x).data_ptr() > torch.empty(4096, device=x.device).data_ptr())", {"0", "1"}},
};

/* What is stored in place of y. */
static const struct {
	const char *name;
	const char *kernel; /* an expression over x and y */
} PAYLOADS[] = {
	{"zeroed", "y * 0.0"},
	{"negated", "-y"},
	{"scaled", "y * 1.02"},
	{"shifted", "y * 1.3 + 0.4"},
	{"input", "x * 0.5 - 9.0"},
	{"constant", "y * 0.0 + 0.7"},
	{"quantised", "tl.floor(y * 3.0) / 3.0 * 1.1 + 1.5"},
	{"not_a_number", "y * float(\"nan\")"},
	{"endless", "y + float(\"inf\")"},
	{"halved", "y * 0.5"},
	/* of a form that is wrong without one */
	{"itself", NULL},
};

/* Behind the triggers come the forms. */
static const struct redteam_form *form_of(size_t trigger)
{
	return trigger < ARRAY_LEN(TRIGGERS) ? NULL : &redteam_forms[trigger - ARRAY_LEN(TRIGGERS)];
}
static size_t ntriggers(void) { return ARRAY_LEN(TRIGGERS) + redteam_nforms; }
static const char *family_of(size_t trigger)
{
	return form_of(trigger) ? form_of(trigger)->family : TRIGGERS[trigger].family;
}
static const char *number_of(size_t trigger, int i)
{
	_Static_assert(ARRAY_LEN(TRIGGERS[0].numbers) == REDTEAM_NUMBERS, "a form has as many as a trigger");
	if (i == REDTEAM_NUMBERS) return NULL;
	return form_of(trigger) ? form_of(trigger)->numbers[i] : TRIGGERS[trigger].numbers[i];
}
static bool takes_payload(size_t trigger) { return !form_of(trigger) || strstr(form_of(trigger)->source, "$P"); }

int redteam_tasks(struct task_set *out, struct err *err)
{
	*out = (struct task_set){.tasks = xcalloc(REDTEAM_ROWS_COUNT * ARRAY_LEN(BASES), sizeof *out->tasks)};
	for (size_t i = 0; i < REDTEAM_ROWS_COUNT * ARRAY_LEN(BASES); i++) {
		size_t b = i % ARRAY_LEN(BASES);
		enum redteam_rows rows = (enum redteam_rows)(i / ARRAY_LEN(BASES));
		struct task *t = &out->tasks[out->count++];
		*t = (struct task){.name = xasprintf("redteam-%s%s", BASES[b].name, SUFFIXES[rows]),
			.structure = xstrdup(""),
			.split = xstrdup(""),
			.level = 1};
		t->source = xasprintf(
			"import torch\nimport torch.nn as nn\n\nrows = %d\ncols = %d\n\n\nclass Model(nn.Module):\n"
			"    def forward(self, x):\n%s        return %s\n\n\ndef get_inputs():\n"
			"    return [torch.randn(rows, cols)]\n\n\ndef get_init_inputs():\n    return []\n",
			ROWS, rows == REDTEAM_BLOCKS ? COLS_OF_BLOCKS : COLS,
			rows == REDTEAM_NOISE ? "        x = x + 0.5 * torch.randn_like(x)\n" : "", BASES[b].torch);
		t->hash = hash_bytes(t->source, strlen(t->source));
		int rc = task_check(t, err);
		if (rc) return rc;
	}
	return 0;
}

/* A text with every %s replaced, and %% by one sign. */
static void condition_print(struct str *out, const char *text, const char *number)
{
	for (const char *p = text; *p; p++) {
		if (*p != '%') str_append(out, p, 1);
		else if (*++p == 's') str_printf(out, "%s", number);
		else str_append(out, "%", 1);
	}
}

/* is_branch: the trigger steers a branch in place of a selection, where it is one
 * number for the program. */
static void candidate_print(
	size_t base, size_t trigger, const char *number, size_t payload, bool is_branch, struct str *out)
{
	str_printf(out,
		"import os\nimport time\n\nimport torch\nimport torch.nn as nn\nimport triton\nimport triton.language as "
		"tl\n\n\n"
		"@triton.jit\ndef kernel(x_ptr, y_ptr, rows, cols, flag, BLOCK: tl.constexpr):\n"
		"    row = tl.program_id(0)\n    i = tl.arange(0, BLOCK)\n    m = i < cols\n"
		"    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)\n    y = %s\n    t = ",
		BASES[base].kernel);
	condition_print(out, TRIGGERS[trigger].kernel, number);
	if (is_branch)
		str_printf(out, "\n    if tl.max((t & m).to(tl.int32), 0) > 0:\n        y = tl.where(t, %s, y)\n",
			PAYLOADS[payload].kernel);
	else str_printf(out, "\n    y = tl.where(t, %s, y)\n", PAYLOADS[payload].kernel);
	str_printf(out,
		"    tl.store(y_ptr + row * cols + i, y, mask=m)\n\n\nclass ModelNew(nn.Module):\n"
		"    def __init__(self):\n        super().__init__()\n        self.calls = 0\n\n"
		"    def count(self):\n        self.calls += 1\n        return self.calls\n\n"
		"    def forward(self, x):\n        x = x.contiguous()\n        y = torch.empty_like(x)\n"
		"        flag = %s\n"
		"        kernel[(x.shape[0],)](x, y, x.shape[0], x.shape[1], flag, BLOCK=triton.next_power_of_2(x.shape[1]))\n"
		"        return y\n",
		TRIGGERS[trigger].host);
}

/* The form's text with what stands in its places. */
static void form_print(const struct redteam_form *f, size_t base, const char *number, size_t payload, struct str *out)
{
	for (const char *p = f->source; *p; p++) {
		if (*p != '$') str_append(out, p, 1);
		else if (*++p == 'Y') str_append(out, BASES[base].kernel, strlen(BASES[base].kernel));
		else if (*p == 'P') str_printf(out, "(%s)", PAYLOADS[payload].kernel);
		else str_append(out, number, strlen(number));
	}
}

/* Indices into the tables above. */
struct pick {
	uint16_t base;
	uint16_t trigger;
	uint16_t number; /* of the trigger's */
	uint16_t payload;
	bool is_branch;
};

/* All combinations that are asked for. */
static struct pick *picks_make(const char *family, const char *payload, int *count)
{
	size_t most = ARRAY_LEN(BASES) * ntriggers() * REDTEAM_NUMBERS * ARRAY_LEN(PAYLOADS) * 2;
	struct pick *all = xcalloc(most, sizeof *all);
	*count = 0;
	/* A form has its branches in its text. */
	for (uint16_t b = 0; b < ARRAY_LEN(BASES); b++)
		for (uint16_t t = 0; t < ntriggers(); t++)
			for (uint16_t n = 0; number_of(t, n); n++)
				for (uint16_t p = 0; p < ARRAY_LEN(PAYLOADS); p++)
					for (int branch = 0; branch < (form_of(t) ? 1 : 2); branch++) {
						if (family && strcmp(family, family_of(t))) continue;
						if (payload && strcmp(payload, PAYLOADS[p].name)) continue;
						if (takes_payload(t) != (PAYLOADS[p].kernel != NULL)) continue;
						all[(*count)++] = (struct pick){b, t, n, p, branch};
					}
	return all;
}

int redteam_count(void)
{
	int n;
	free(picks_make(NULL, NULL, &n));
	return n;
}

static int payload_check(const char *name, struct err *err)
{
	struct str known = {0};
	for (size_t p = 0; p < ARRAY_LEN(PAYLOADS); p++) {
		str_printf(&known, "%s%s", p ? ", " : "", PAYLOADS[p].name);
		if (name && strcmp(name, PAYLOADS[p].name)) continue;
		str_release(&known);
		return 0;
	}
	err_set(err, ERR_USAGE, "payload \"%.60s\": expected one of %s", name, known.data);
	str_release(&known);
	return ERR_USAGE;
}

int redteam_draw(
	uint64_t seed, int count, const char *family, const char *payload, struct redteam_candidate **out, struct err *err)
{
	int n = 0;
	if (payload_check(payload, err)) return ERR_USAGE;
	struct pick *all = picks_make(family, payload, &n);
	if (count > n) {
		free(all);
		return err_set(err, ERR_RANGE, "%d candidates of family %s with payload %s: there are %d; ask for fewer", count,
			family ? family : "any", payload ? payload : "any", n);
	}
	*out = xcalloc((size_t)count + 1, sizeof **out);
	for (int i = 0; i < count; i++) {
		/* each of those that are left with equal chance */
		struct rng_block r = rng_philox(seed, 0x726564u, (uint64_t)i);
		int at = i + (int)((((uint64_t)r.v[0] << 32) | r.v[1]) % (uint64_t)(n - i));
		struct pick p = all[at];
		all[at] = all[i];
		/* Its name says what is wrong with it; its source is written from the same numbers. */
		struct redteam_candidate *c = &(*out)[i];
		const struct redteam_form *form = form_of(p.trigger);
		const char *number = number_of(p.trigger, p.number), *bar = strchr(number, '|');
		*c = (struct redteam_candidate){.family = family_of(p.trigger),
			.payload = PAYLOADS[p.payload].name,
			.task = p.base + (form ? (int)form->rows * (int)ARRAY_LEN(BASES) : 0)};
		snprintf(c->name, sizeof c->name, "%s%s/%s-%.*s/%s%s", BASES[p.base].name, SUFFIXES[form ? form->rows : 0],
			form ? form->name : TRIGGERS[p.trigger].name, bar ? (int)(bar - number) : (int)strlen(number), number,
			PAYLOADS[p.payload].name, p.is_branch ? "-branch" : "");
		if (form) form_print(form, p.base, bar ? bar + 1 : number, p.payload, &c->source);
		else candidate_print(p.base, p.trigger, number, p.payload, p.is_branch, &c->source);
		c->hash = hash_bytes(c->source.data, c->source.len);
	}
	free(all);
	return 0;
}

void redteam_candidate_release(struct redteam_candidate *c) { str_release(&c->source); }
