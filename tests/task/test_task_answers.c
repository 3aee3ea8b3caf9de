/* Composed tasks and their reference answers, as text. What the answers compute is checked by test_answers.py, which has this program print them
 * (`test_task_answers --dump SEED COUNT LEVEL_MIN LEVEL_MAX`: one JSON object a line with the task and every answer in every style). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "task/task.h"
#include "task/task_graph.h"

static int dump(int argc, char **argv)
{
	struct err err = {0};
	struct task_set set;
	struct task_synth_options o = {.seed = (uint64_t)strtoull(argv[2], NULL, 10), .count_train = atoi(argv[3]), .count_heldout = atoi(argv[3]) / 8,
		.level_min = atoi(argv[4]), .level_max = atoi(argv[5]), .heldout_fraction = 0.15};
	if (task_synth(&o, &set, &err)) { fprintf(stderr, "%s\n", err.text); return 1; }
	for (size_t i = 0; i < set.count; i++)
		for (int k = 0; k < 2 * task_answer_styles(); k++) {
			const struct task *t = &set.tasks[i];
			struct str plan = {0}, code = {0};
			bool is_slow = k >= task_answer_styles();
			int style = k % task_answer_styles(), rc = (is_slow ? task_answer_slow : task_answer)(t, style, &plan, &code, &err);
			if (rc) { fprintf(stderr, "%s\n", err.text); return 1; }
			json_t *row = json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:b, s:s, s:s}", "name", t->name, "level", t->level, "structure", t->structure,
				"split", t->split, "source", t->source, "style", style, "slow", is_slow, "plan", plan.data, "code", code.data);
			json_dumpf(row, stdout, JSON_COMPACT);
			putchar('\n');
			json_decref(row);
			str_release(&plan);
			str_release(&code);
		}
	task_set_release(&set);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "--dump")) return dump(argc, argv);
	return 0;
}
