/* What a step asks for: which prompts, how many answers to each, and of which random stream each
 * answer is, over a policy outside that writes down its questions and has no answers. And which
 * kernels a mid-end may be asked about. */
#include "rl/rl_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROMPTS = 12, WANTED = 2, ROUNDS = 2, K = 4 };

static char folder[] = "/tmp/hone-test-collect-XXXXXX";
static struct prompt_row rows[PROMPTS];
static const struct prompt_set prompts = {.rows = rows, .count = PROMPTS};
static const struct history_options usual = {
	.seed = 5, .decay = 0.9, .floor = 0.01, .num_generations = K, .max_tokens = 64, .stop_id = 256, .vocab_size = 258};

static int setup(void **state)
{
	for (int i = 0; i < PROMPTS; i++) {
		rows[i] = (struct prompt_row){.body = xstrdup("?"), .task = {.name = xasprintf("task-%02d", i)}};
		rows[i].task.structure = xstrdup(rows[i].task.name);
	}
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	struct err err;
	for (int i = 0; i < PROMPTS; i++) {
		free(rows[i].body);
		free(rows[i].task.name);
		free(rows[i].task.structure);
	}
	return dir_remove(folder, &err);
}

static void add(struct history *h, int64_t step, int prompt, const char *verdict)
{
	struct err err = {0};
	json_t *row = json_pack(
		"{s:s, s:s, s:{s:s}}", "task", rows[prompt].task.name, "answer", "x", "verdict", "verdict", verdict);
	if (history_add(h, step, row, &err)) fail_msg("%s", err.text);
	json_decref(row);
}

/* The questions of one step over that history, in their order: an array. */
static json_t *questions(struct rl_options *o, struct history *h, int64_t step, const char *answer)
{
	char *asked = path_join(folder, "asked"),
		 *command = xasprintf("tee %s | sed -u 's/.*\"id\":\\([0-9]*\\).*/{\"id\":\\1,%s}/'", asked, answer);
	struct policy_options p = {.policy_command = command, .policy_timeout = 60, .policy_requests = 1};
	struct err err = {0};
	struct loop l = {.o = o, .prompts = prompts, .history = h, .step = step, .author.stage = "frontend"};
	struct step_batch b;
	l.advantage = (struct advantage_options){.rule = reward_rule_find("frontend"), .weight = 1, .negative_weight = 1};
	if (outside_open(&p, &l.author.outside, &err) || step_collect(&l, &b, &err)) fail_msg("%s", err.text);
	outside_close(l.author.outside);
	step_batch_release(&b);
	/* A question a line. */
	json_t *all = json_array();
	struct str text = {0};
	if (file_read(asked, (size_t)1 << 20, &text, &err)) fail_msg("%s", err.text);
	for (char *save = NULL, *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		assert_int_equal(json_array_append_new(all, json_loads(line, 0, NULL)), 0);
	str_release(&text);
	free(command);
	free(asked);
	return all;
}

static struct rl_options options(void)
{
	struct rl_options o;
	rl_options_default(&o);
	o.seed = 7;
	o.num_generations = K;
	o.generation_batch_size = K * WANTED;
	o.prompt_selection = "promise";
	return o;
}

static uint64_t drawn(uint64_t seed, int64_t number)
{
	struct rng_block b = rng_philox(seed, 0x72657175657374, (uint64_t)number);
	return (uint64_t)b.v[0] << 32 | b.v[1];
}

/* Steps count from 1 for what is drawn: prompts are those of the history's draw for the step and
 * round, and an answer's seed is that of step, group and sample, whatever was drawn before. */
static void test_prompts_and_seeds(void **state)
{
	struct rl_options o = options();
	struct history *h = history_create(&usual, &prompts, NULL);
	o.filter_groups = true;
	o.max_num_gen_batches = ROUNDS;
	for (int64_t step = 0; step < 3; step++) {
		int index[WANTED * ROUNDS];
		json_t *all = questions(&o, h, step, "\"error\":\"none\"");
		assert_int_equal(json_array_size(all), WANTED * ROUNDS * K);
		for (int round = 0; round < ROUNDS; round++)
			history_draw(h, step + 1, round, index, round * WANTED, WANTED, index + (ptrdiff_t)round * WANTED);
		for (int i = 0; i < WANTED * ROUNDS * K; i++) {
			const json_t *q = json_array_get(all, (size_t)i);
			assert_string_equal(json_string_value(json_object_get(q, "task")), rows[index[i / K]].task.name);
			assert_int_equal(json_integer_value(json_object_get(q, "sample")), i % K);
			uint64_t seed = drawn(drawn(7, (step + 1) * 1048576 + i / K), i % K);
			assert_true(json_integer_value(json_object_get(q, "seed")) == (json_int_t)(seed >> 1));
		}
		json_decref(all);
	}
	history_free(h);
}

/* Whether a group's rest is drawn is asked of the history as of the step that is made: what was
 * solved twenty times a step ago counts for 20 decay, and two steps ago for 20 decay^2. Behind that
 * many successes and two answers without a verdict the others differ with a chance of 0.21 where
 * 2 are left of the 20, and of 0.27 where 0.2 are. */
static void test_staged(void **state)
{
	static const struct {
		double decay;
		int64_t step;
		int asked; /* of each group */
	} cases[] = {{0.1, 1, 2}, {0.01, 1, K}, {0.1, 2, K}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rl_options o = options();
		struct history_options ho = usual;
		o.num_generations_first = 2;
		ho.decay = cases[i].decay;
		struct history *h = history_create(&ho, &prompts, NULL);
		for (int p = 0; p < PROMPTS; p++)
			for (int k = 0; k < 20; k++) add(h, 1, p, "genuine");
		json_t *all = questions(&o, h, cases[i].step, "\"error\":\"none\"");
		if ((int)json_array_size(all) != WANTED * cases[i].asked)
			fail_msg("case %zu: %zu questions", i, json_array_size(all));
		json_decref(all);
		history_free(h);
	}
}

/* A mid-end's kernels have their times of the run's card and at its sizes. */
static void test_times_of_kernels(void **state)
{
	static const struct {
		const char *gpu, *at;     /* of the kernel's time; "" at: at the judged sizes */
		const char *card, *sizes; /* of the run */
		const char *said;         /* NULL: they go together */
	} cases[] = {{"H200", "", "H200", "judged", NULL}, {"", "", "H200", "judged", NULL},
		{"H200", "stock", "H200", "stock", NULL}, {"H200", "65536", "H200", "stock", NULL},
		{"H200", "", "A100", "judged", "for H200 and this run's are for A100"},
		{"H200", "stock", "H200", "judged", "at other than the judged sizes and this run's at judged"},
		{"H200", "", "H200", "65536", "at the judged sizes and this run's at 65536"}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct prompt_row both[2] = {{.task.name = (char *)"plain", .profile = {.gpu = "none"}},
			{.task.name = (char *)"given", .kernel = (char *)"k"}};
		struct prompt_set set = {.rows = both, .count = 2};
		struct err err = {0};
		snprintf(both[1].profile.gpu, sizeof both[1].profile.gpu, "%s", cases[i].gpu);
		snprintf(both[1].profile.cost_size, sizeof both[1].profile.cost_size, "%s", cases[i].at);
		int rc = kernels_check_times(&set, cases[i].card, cases[i].sizes, &err);
		bool ok = cases[i].said ? rc == ERR_MISMATCH && strstr(err.text, cases[i].said) : rc == 0;
		if (!ok) fail_msg("case %zu: %d, %s", i, rc, err.text);
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_prompts_and_seeds), cmocka_unit_test(test_staged),
		cmocka_unit_test(test_times_of_kernels)};
	return cmocka_run_group_tests(tests, setup, teardown);
}
