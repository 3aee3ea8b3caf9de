/* Prompts: holes are filled, unknown and unclosed ones are refused by name; the shipped templates
 * render. Feedback shows the line it speaks of. */
#include "agent/agent.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include "../leaks.h"

static struct task task = {.name = "t", .source = "class Model:\n    pass\n\n\n", .structure = "", .split = ""};
static const struct verdict profile = {
	.class = VERDICT_GENUINE,
	.stage = STAGE_DONE,
	.launches = 3,
	.programs = 12,
	.bytes = 4096,
	.sectors = 128,
	.flops = 7,
	.cost_s = 2.5e-6,
	.limit = "dram",
	.nlines = 1,
	.lines = {{9, 4096, 128, 7}},
};

static void expect_render(const char *template_text, const struct prompt_input *in, const char *expected)
{
	struct str out = {0};
	struct err err = {0};
	assert_int_equal(prompt_render(template_text, "x.txt", in, &out, &err), 0);
	assert_string_equal(out.data, expected);
	str_release(&out);
}

static void expect_refusal(const char *template_text, const struct prompt_input *in, const char *part)
{
	struct str out = {0};
	struct err err = {0};
	assert_true(prompt_render(template_text, "x.txt", in, &out, &err) < 0);
	if (!strstr(err.text, part) || !strstr(err.text, "x.txt"))
		fail_msg("message \"%s\" lacks \"%s\" or the file", err.text, part);
	str_release(&out);
}

/* Each limit of the cost model is told in words of its own. */
static void test_limits(void **state)
{
	static const struct {
		const char *limit, *says;
	} rows[] = {{"launch", "launching"}, {"dram", "DRAM"}, {"l2", "L2 cache"}, {"l1", "L1 cache"},
		{"issue", "issuing instructions"}, {"special", "special function units"}, {"tensor", "tl.dot"},
		{"shared", "shared memory"}, {"atomic", "atomics"}, {"latency", "latency"}, {"other", "not known"}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct verdict v = profile;
		struct prompt_input in = {.task = &task, .profile = &v};
		struct str out = {0};
		struct err err = {0};
		snprintf(v.limit, sizeof v.limit, "%s", rows[i].limit);
		assert_int_equal(prompt_render("{{limit}}", "x.txt", &in, &out, &err), 0);
		for (size_t k = 0; k < ARRAY_LEN(rows); k++)
			if (!!strstr(out.data, rows[k].says) != (i == k)) fail_msg("%s: %s", rows[i].limit, out.data);
		str_release(&out);
	}
}

static void test_holes(void **state)
{
	struct prompt_input in = {.task = &task, .precision = "strict"};
	expect_render("<{{task}}>", &in, "<class Model:\n    pass>");
	expect_render("no hole", &in, "no hole");
	/* At which sizes values are checked is not for the model to know. */
	struct task judged = {.source = "N = 9\nclass Model:\n    pass\n# Judged at N=2\n"};
	struct prompt_input other = {.task = &judged};
	expect_render("<{{task}}>", &other, "<N = 9\nclass Model:\n    pass>");
	in.precision = "tf32";
	expect_render("{{precision}}", &in, "TF32 is allowed in tl.dot on fp32 tensors.");
}

static void test_midend_holes(void **state)
{
	struct prompt_input in = {.task = &task, .kernel = "k = 1\n", .profile = &profile};
	expect_render("{{kernel}}|{{cost}}", &in,
		"k = 1|line 9: 4096 bytes, 128 sectors, 7 flops\ntotal: 3 launches, 12 programs, 4096 bytes, 128 sectors, 2.50 "
		"us\n");
	/* One of a thing is named so. */
	struct verdict single = {.cost_s = 1e-6, .launches = 1, .programs = 1, .bytes = 1, .sectors = 1, .nlines = 1};
	single.lines[0] = (struct verdict_line){.line = 9, .bytes = 1, .sectors = 1, .flops = 1};
	in.profile = &single;
	expect_render(
		"{{cost}}", &in, "line 9: 1 byte, 1 sector, 1 flop\ntotal: 1 launch, 1 program, 1 byte, 1 sector, 1.00 us\n");
	in.profile = &profile;
	/* Where a GPU timed it, its time stands beside. */
	struct verdict timed = profile;
	timed.device.time_s = 3.25e-6;
	snprintf(timed.device.name, sizeof timed.device.name, "NVIDIA H200");
	struct str out = {0};
	prompt_cost_table(&timed, &out);
	assert_non_null(strstr(out.data, "2.50 us\nmeasured on NVIDIA H200: 3.25 us\n"));
	str_clear(&out);
	timed.device.time_s = NAN;
	prompt_cost_table(&timed, &out);
	assert_null(strstr(out.data, "measured"));
	str_release(&out);
}

/* One short launch: its counters are the means, whatever its time; each cause of waiting has its
 * word, and of two units that are as busy memory is named. */
static void test_measured_words(void **state)
{
	static const struct {
		enum verdict_counter counter;
		const char *text;
	} rows[] = {
		{COUNTER_STALL_MEMORY, "loads from global memory"},
		{COUNTER_STALL_SHARED, "shared memory and shuffles"},
		{COUNTER_STALL_BARRIER, "each other at barriers"},
		{COUNTER_STALL_MATH, "a busy arithmetic pipe"},
		{COUNTER_STALL_QUEUE, "room in the queue of loads and stores"},
		{COUNTER_STALL_WAIT, "their own last instruction"},
	};
	static const double times[] = {0.5, 1, 4000};
	struct verdict v = profile;
	struct prompt_input in = {.task = &task, .kernel = "k", .profile = &v};
	double *c = v.device.profiles[0].counters;
	snprintf(v.device.name, sizeof v.device.name, "NVIDIA H200");
	v.device.nprofiles = 1;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t t = 0; t < ARRAY_LEN(times); t++) {
			char expected[256];
			/* Of causes without a counter, and of one that is there and less. */
			for (int k = 0; k < COUNTER_COUNT; k++) c[k] = NAN;
			c[COUNTER_TIME] = times[t];
			c[COUNTER_DRAM_USE] = 60;
			c[COUNTER_SM_USE] = t ? 60 : 61;
			c[rows[(i + 1) % ARRAY_LEN(rows)].counter] = 0.25;
			c[rows[i].counter] = 0.5;
			snprintf(expected, sizeof expected,
				"%s (measured on NVIDIA H200: DRAM at 60 %% of its peak, the SMs at %d %%; warps wait most for %s, 0.5 "
				"cycles an instruction)",
				t ? "memory: bytes to and from DRAM" : "the units of the SMs", t ? 60 : 61, rows[i].text);
			expect_render("{{limit}}", &in, expected);
		}
}

/* By a GPU's counters: the busy unit, else what warps wait for; launches weigh by their times. A
 * kernel that nobody profiled has the cost model's limit. */
static void test_measured_limit(void **state)
{
	struct verdict v = profile;
	struct prompt_input in = {.task = &task, .kernel = "k", .profile = &v};
	struct verdict_device *d = &v.device;
	snprintf(d->name, sizeof d->name, "NVIDIA H200");
	expect_render("{{limit}}", &in, "memory: bytes to and from DRAM");
	d->nprofiles = 2;
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < COUNTER_COUNT; k++) d->profiles[i].counters[k] = NAN;
	expect_render("{{limit}}", &in, "memory: bytes to and from DRAM");
	/* 3 us at 20 % of DRAM and 1 us at 60 %: 30 %; the SMs at 50 and 90: 60, just busy. */
	static const double times[] = {3000, 1000}, dram[] = {20, 60}, sm[] = {50, 90}, loads[] = {2, 6}, shared[] = {5, 1};
	for (int i = 0; i < 2; i++) {
		double *c = d->profiles[i].counters;
		c[COUNTER_TIME] = times[i];
		c[COUNTER_DRAM_USE] = dram[i];
		c[COUNTER_SM_USE] = sm[i];
	}
	expect_render(
		"{{limit}}", &in, "the units of the SMs (measured on NVIDIA H200: DRAM at 30 % of its peak, the SMs at 60 %)");
	d->profiles[1].counters[COUNTER_SM_USE] = 80;
	for (int i = 0; i < 2; i++) {
		d->profiles[i].counters[COUNTER_STALL_MEMORY] = loads[i];
		d->profiles[i].counters[COUNTER_STALL_SHARED] = shared[i];
	}
	expect_render("{{limit}}", &in,
		"latency: no unit is busy (measured on NVIDIA H200: DRAM at 30 % of its peak, the SMs at 58 %; warps wait most "
		"for shared memory and shuffles, 4.0 cycles an instruction)");
	/* A launch without the counter, or without a time, says nothing of the mean. */
	d->nprofiles = 4;
	for (int i = 2; i < 4; i++)
		for (int k = 0; k < COUNTER_COUNT; k++) d->profiles[i].counters[k] = NAN;
	d->profiles[2].counters[COUNTER_TIME] = 5000;
	d->profiles[3].counters[COUNTER_DRAM_USE] = 90;
	expect_render("{{limit}}", &in,
		"latency: no unit is busy (measured on NVIDIA H200: DRAM at 30 % of its peak, the SMs at 58 %; warps wait most "
		"for shared memory and shuffles, 4.0 cycles an instruction)");
	d->nprofiles = 2; /* and what lies behind the last launch is none */
	d->profiles[2].counters[COUNTER_DRAM_USE] = 90;
	expect_render("{{limit}}", &in,
		"latency: no unit is busy (measured on NVIDIA H200: DRAM at 30 % of its peak, the SMs at 58 %; warps wait most "
		"for shared memory and shuffles, 4.0 cycles an instruction)");
	/* The same where the launches that say nothing come first; one unit alone is no limit. */
	d->nprofiles = 3;
	d->profiles[2] = d->profiles[0];
	d->profiles[0].counters[COUNTER_TIME] = 0;
	expect_render("{{limit}}", &in,
		"latency: no unit is busy (measured on NVIDIA H200: DRAM at 30 % of its peak, the SMs at 58 %; warps wait most "
		"for shared memory and shuffles, 4.0 cycles an instruction)");
	struct verdict half = v;
	half.device.nprofiles = 1;
	half.device.profiles[0] = half.device.profiles[2];
	half.device.profiles[0].counters[COUNTER_DRAM_USE] = NAN;
	in.profile = &half;
	expect_render("{{limit}}", &in, "memory: bytes to and from DRAM");
	half.device.profiles[0].counters[COUNTER_DRAM_USE] = 20;
	half.device.profiles[0].counters[COUNTER_SM_USE] = NAN;
	expect_render("{{limit}}", &in, "memory: bytes to and from DRAM");
	in.profile = &v;
	d->profiles[0] = d->profiles[2];
	d->nprofiles = 2;
	/* Bytes add up over the launches, where each has all of them. */
	struct str out = {0};
	for (int i = 0; i < 2; i++) {
		double *c = d->profiles[i].counters;
		c[COUNTER_DRAM_READ] = 1000 + i;
		c[COUNTER_DRAM_WRITE] = 200;
		c[COUNTER_L2] = 5000;
		c[COUNTER_OCCUPANCY] = i ? 80 : 40;
	}
	prompt_cost_table(&v, &out);
	assert_non_null(
		strstr(out.data, "counters: 2001 bytes read from DRAM, 400 written, 10000 through L2, occupancy 50 %\n"));
	static const enum verdict_counter needed[] = {COUNTER_DRAM_READ, COUNTER_DRAM_WRITE, COUNTER_L2, COUNTER_OCCUPANCY};
	for (size_t i = 0; i <= ARRAY_LEN(needed); i++) {
		half = v;
		/* Last of all a verdict whose kernels nobody profiled. */
		if (i == ARRAY_LEN(needed)) half.device.nprofiles = 0;
		else half.device.profiles[0].counters[needed[i]] = half.device.profiles[1].counters[needed[i]] = NAN;
		str_clear(&out);
		prompt_cost_table(&half, &out);
		if (strstr(out.data, "counters:")) fail_msg("%zu: %s", i, out.data);
	}
	str_release(&out);
}

/* The reference on one line: what a composed task is made of, else what forward returns at last. */
static void test_reference(void **state)
{
	struct task t = {.name = "t", .structure = "rows:softmax,mul_c"};
	struct prompt_input in = {.task = &t};
	expect_render("{{reference}}", &in, "softmax,mul_c");
	t.structure = "rows:x";
	expect_render("{{reference}}", &in, "x");
	t.structure = "";
	t.source = "def before():\n    return 0\nclass Model:\n    def forward(self, x):\n        if x is None:\n          "
			   "  return x\n"
			   "        return torch.relu(x) * 2\n\ndef get_inputs():\n    return []\n";
	expect_render("<{{reference}}>", &in, "<torch.relu(x) * 2>");
	t.source = "class Model:\n    pass\n";
	expect_refusal("{{reference}}", &in, "no forward");
	struct verdict v = profile;
	in = (struct prompt_input){.task = &t, .kernel = "k", .profile = &v};
	expect_render("{{limit}}", &in, "memory: bytes to and from DRAM");
	v.limit[0] = 0;
	expect_render("{{limit}}", &in, "not known");
}

/* Kernels that are shown are counted from 1, with a blank line between them. */
static void test_variants(void **state)
{
	const struct prompt_variant two[] = {
		{.source = (char *)"FIRST\n\n", .cost_s = 2.5e-6, .launches = 1, .bytes = 4096, .limit = "dram"},
		{.source = (char *)"SECOND", .cost_s = 1e-6, .launches = 2, .bytes = 8, .limit = "dram"}};
	struct prompt_input in = {.task = &task, .variants = two, .nvariants = 2};
	expect_render("{{variants}}", &in,
		"Variant 1: 2.50 us, 1 launch, 4096 bytes; waits for memory: bytes to and from "
		"DRAM.\n\n```python\nFIRST\n```\n\n"
		"Variant 2: 1.00 us, 2 launches, 8 bytes; waits for memory: bytes to and from DRAM.\n\n```python\nSECOND\n```");
}

/* A kernel in IR stands in a block that says so: a policy answers in the language it is shown. */
static void test_variants_in_ir(void **state)
{
	const struct prompt_variant one = {
		.source = (char *)"// memory a input 0\n", .cost_s = 1e-6, .launches = 1, .bytes = 8, .limit = "dram"};
	struct prompt_input in = {.task = &task, .variants = &one, .nvariants = 1};
	expect_render("{{variants}}", &in,
		"Variant 1: 1.00 us, 1 launch, 8 bytes; waits for memory: bytes to and from DRAM.\n\n"
		"```ttir\n// memory a input 0\n```");
}

static void test_refusals(void **state)
{
	struct prompt_input in = {.task = &task};
	expect_refusal("{{tusk}}", &in, "{{tusk}}");
	expect_refusal("a {{task", &in, "byte 2");
	expect_refusal("{{kernel}}", &in, "midend");
	expect_refusal("{{cost}}", &in, "midend");
	expect_refusal("{{variants}}", &in, "--variants_from");
	expect_refusal("{{limit}}", &in, "midend");
	expect_refusal("{{feedback}}", &in, "--turn_template");
}

/* Holes of the backend's template and of a turn's: the text between its blanks,
 * or who it belongs to. */
static void test_given_texts(void **state)
{
	static const struct {
		const char *hole, *refusal;
		size_t offset; /* of its text in the input */
	} rows[] = {
		{"{{card}}", "prompt template x.txt: {{card}} belongs to the backend's template (`hone tune`)",
			offsetof(struct prompt_input, card)},
		{"{{space}}", "prompt template x.txt: {{space}} belongs to the backend's template (`hone tune`)",
			offsetof(struct prompt_input, space)},
		{"{{tried}}", "prompt template x.txt: {{tried}} belongs to the backend's template (`hone tune`)",
			offsetof(struct prompt_input, tried)},
		{"{{feedback}}", "prompt template x.txt: {{feedback}} belongs into a --turn_template: there is no answer yet",
			offsetof(struct prompt_input, feedback)},
	};
	/* Without its text each is refused in words of its own; with it, it shows the text alone. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct prompt_input in = {.task = &task};
		struct str out = {0};
		struct err err = {0};
		assert_int_equal(prompt_render(rows[i].hole, "x.txt", &in, &out, &err), ERR_USAGE);
		assert_string_equal(err.text, rows[i].refusal);
		str_release(&out);
		const char *given = "two words\n\n";
		memcpy((char *)&in + rows[i].offset, &given, sizeof given);
		expect_render(rows[i].hole, &in, "two words");
	}
	struct prompt_input in = {.task = &task, .card = "", .precision = "tf32"};
	expect_render("[{{card}}]", &in, "[]");
	expect_render("{{precision}}", &in, "TF32 is allowed in tl.dot on fp32 tensors.");
	in.precision = "strict";
	expect_render("{{precision}}", &in,
		"Full fp32 precision is required: use input_precision=\"ieee\" in tl.dot on fp32 tensors.");
	expect_refusal("{{tasks}}", &in,
		"unknown hole {{tasks}}: expected task, kernel, cost, limit, reference, variants, precision, card, space, "
		"tried "
		"or feedback");
}

/* Which hole each stage's template has to show, with the whole message where it does not. */
static void test_template_needs(void **state)
{
	static const struct {
		const char *stage, *text, *says; /* says: behind the name of the file; NULL: it is taken */
	} rows[] = {
		{"frontend", "{{task}}", NULL},
		{"frontend", "{{kernel}}",
			"has no {{task}}, which --stage frontend is about; templates that ship with hone are in recipes/prompts/"},
		{"midend", "{{kernel}}", NULL},
		{"midend", "{{task}}",
			"has no {{kernel}}, which --stage midend is about; templates that ship with hone are in recipes/prompts/"},
		{"midend", "{{task}} {{kernel}}",
			"has {{task}}: --stage midend is shown a kernel, and what could be solved from the module alone is a "
			"frontend's prompt; {{reference}} says on one line what the module computes"},
		{AGENT_BACKEND, "{{task}} {{kernel}}", NULL},
		{AGENT_TURN, "{{task}} {{feedback}}", NULL},
		{AGENT_TURN, "{{task}}",
			"has no {{feedback}}: a further turn would not say what was wrong; one that ships with hone is "
			"recipes/prompts/turn.txt"},
		{AGENT_MIDEND_TURN, "{{feedback}}", NULL},
		{AGENT_MIDEND_TURN, "{{task}} {{feedback}}",
			"has {{task}}: --stage midend is shown a kernel, and what could be solved from the module alone is a "
			"frontend's prompt; {{reference}} says on one line what the module computes"},
	};
	char *path = xasprintf("%s/needs-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str text = {0};
		struct err err = {0};
		assert_int_equal(file_write_atomic(path, rows[i].text, strlen(rows[i].text), &err), 0);
		/* A turn's template is asked for by the stage that it is a turn of. */
		bool is_turn = strstr(rows[i].text, "{{feedback}}") || (rows[i].says && strstr(rows[i].says, "{{feedback}}"));
		int rc = agent_template_read(rows[i].stage, path, &text, &err);
		char *says = xasprintf(
			"%s %s: %s", is_turn ? "--turn_template" : "prompt template", path, rows[i].says ? rows[i].says : "");
		assert_int_equal(rc, rows[i].says ? ERR_MISMATCH : 0);
		if (rc) assert_string_equal(err.text, says);
		free(says);
		str_clear(&text);
		const char *stage = !strcmp(rows[i].stage, AGENT_MIDEND_TURN) ? "midend" : "frontend";
		if (is_turn) assert_int_equal(agent_turn_template_read(stage, path, &text, &err), rc);
		str_release(&text);
	}
	/* A mid-end's template is looked at before anything is asked: with its holes filled, too. */
	struct err err = {0};
	assert_int_equal(agent_midend_template_check("recipes/prompts/midend.txt", &err), 0);
	assert_int_equal(agent_midend_template_check("recipes/prompts/small-frontend.txt", &err), ERR_MISMATCH);
	static const char unknown[] = "{{kernel}} {{reference}} {{cost}} {{limit}} {{kernels}}";
	assert_int_equal(file_write_atomic(path, unknown, strlen(unknown), &err), 0);
	assert_int_equal(agent_midend_template_check(path, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "{{kernels}}"));
	close(fd);
	unlink(path);
	free(path);
}

static void test_shipped_templates(void **state)
{
	static const char *const files[] = {"recipes/prompts/frontend.txt", "recipes/prompts/frontend-oneshot.txt",
		"recipes/prompts/frontend-ir.txt", "recipes/prompts/midend.txt", "recipes/prompts/midend-ir.txt",
		"recipes/prompts/small-frontend.txt", "recipes/prompts/small-midend.txt", "recipes/prompts/contrast.txt"};
	struct task composed = task;
	composed.structure = "chain:exp,neg";
	const struct prompt_variant variant = {.source = (char *)"VARIANT", .limit = "l2"};
	struct prompt_input in = {.task = &composed,
		.kernel = "KERNEL",
		.profile = &profile,
		.precision = "strict",
		.variants = &variant,
		.nvariants = 1};
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct str text = {0}, out = {0};
		struct err err = {0};
		if (file_read(files[i], 1 << 20, &text, &err)) fail_msg("%s", err.text);
		if (prompt_render(text.data, files[i], &in, &out, &err)) fail_msg("%s", err.text);
		bool is_kernels = strstr(files[i], "midend") != NULL;
		/* What a mid-end answers cannot be found without the kernel: the module
		 * is not in its prompt. */
		assert_true((strstr(out.data, "class Model:") != NULL) == !is_kernels);
		assert_null(strstr(out.data, "{{"));
		if (is_kernels) assert_true(strstr(out.data, "KERNEL") && strstr(out.data, "memory: bytes to and from DRAM"));
		str_release(&text);
		str_release(&out);
	}
}

/* Of the module's code not a line is in a mid-end's prompt: what shows it is a frontend's
 * template, and is refused. */
static void test_midend_sees_no_module(void **state)
{
	static const char *const templates[] = {
		"recipes/prompts/midend.txt", "recipes/prompts/midend-ir.txt", "recipes/prompts/small-midend.txt"};
	static const char *const lines[] = {"class Model(", "x = torch.exp(x)", "return torch.neg(x)", "get_inputs"};
	struct task composed = {.name = "t",
		.source = "class Model(nn.Module):\n    def forward(self, x):\n        x = torch.exp(x)\n        return "
				  "torch.neg(x)\n\ndef get_inputs():\n    return []\n",
		.structure = "chain:exp,neg"};
	struct prompt_input in = {.task = &composed, .kernel = "KERNEL", .profile = &profile, .precision = "strict"};
	for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
		struct str text = {0}, out = {0};
		struct err err = {0};
		if (agent_template_read("midend", templates[i], &text, &err)) fail_msg("%s", err.text);
		if (prompt_render(text.data, templates[i], &in, &out, &err)) fail_msg("%s", err.text);
		assert_non_null(strstr(out.data, "KERNEL"));
		for (size_t k = 0; k < ARRAY_LEN(lines); k++)
			if (strstr(out.data, lines[k])) fail_msg("%s shows \"%s\"", templates[i], lines[k]);
		str_release(&text);
		str_release(&out);
	}
	/* Whoever writes a template of his own is told, whatever the template says beside it. */
	char *path = xasprintf("%s/midend-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	const char shows[] = "{{kernel}} {{cost}} {{reference}} {{task}}";
	struct str text = {0};
	struct err err = {0};
	int fd = mkstemp(path);
	assert_true(fd >= 0 && write(fd, shows, sizeof shows - 1) == sizeof shows - 1);
	assert_int_equal(agent_template_read("midend", path, &text, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "has {{task}}"));
	assert_int_equal(agent_template_read("frontend", path, &text, &err), 0);
	assert_int_equal(agent_template_read(AGENT_BACKEND, path, &text, &err), 0);
	close(fd);
	unlink(path);
	str_release(&text);
	free(path);
}

static void test_feedback(void **state)
{
	struct verdict v = {.class = VERDICT_WRONG,
		.stage = STAGE_CORRECTNESS,
		.reason = "out-of-bounds",
		.detail = "store past the end",
		.line = 2};
	const char *source = "first\nsecond\nthird\n";
	struct str out = {0};
	/* The verdict, its detail, and the line that it names. */
	feedback_render(&v, source, strlen(source), &out);
	assert_string_equal(
		out.data, "Verdict: wrong (stage correctness, out-of-bounds).\nstore past the end\n  2 | second\n");
	str_clear(&out);
	/* The reason's code: of one letter, and none at all, where it and its comma go. */
	v.reason[1] = 0; /* a code of one letter is a code */
	feedback_render(&v, source, strlen(source), &out);
	assert_non_null(strstr(out.data, "Verdict: wrong (stage correctness, o).\n"));
	str_clear(&out);
	v.reason[0] = 0;
	v.reason[1] = 'x';
	feedback_render(&v, source, strlen(source), &out);
	assert_non_null(strstr(out.data, "Verdict: wrong (stage correctness).\n"));
	str_clear(&out);
	v.line = 99; /* a line that is not there shows nothing */
	feedback_render(&v, source, strlen(source), &out);
	assert_null(strstr(out.data, "99 |"));
	str_release(&out);
}

static void test_stage_names(void **state)
{
	static const char *const names[AGENT_STAGE_COUNT] = {"frontend", "midend"};
	enum agent_stage s;
	struct err err = {0};
	for (int i = 0; i < AGENT_STAGE_COUNT; i++) {
		s = AGENT_STAGE_COUNT;
		assert_int_equal(agent_stage_from_name(names[i], &s, &err), 0);
		assert_int_equal(s, i);
	}
	assert_int_equal(agent_stage_from_name("backendd", &s, &err), ERR_USAGE);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_holes(NULL);
	test_midend_holes(NULL);
	test_measured_limit(NULL);
	test_measured_words(NULL);
	test_limits(NULL);
	test_reference(NULL);
	test_variants(NULL);
	test_variants_in_ir(NULL);
	test_refusals(NULL);
	test_given_texts(NULL);
	test_template_needs(NULL);
	test_shipped_templates(NULL);
	test_midend_sees_no_module(NULL);
	test_feedback(NULL);
	test_stage_names(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_holes),
		cmocka_unit_test(test_midend_holes),
		cmocka_unit_test(test_measured_limit),
		cmocka_unit_test(test_measured_words),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_variants),
		cmocka_unit_test(test_variants_in_ir),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_given_texts),
		cmocka_unit_test(test_template_needs),
		cmocka_unit_test(test_shipped_templates),
		cmocka_unit_test(test_midend_sees_no_module),
		cmocka_unit_test(test_feedback),
		cmocka_unit_test(test_stage_names),
		cmocka_unit_test(test_leaves_nothing),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
