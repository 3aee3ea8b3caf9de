/* Candidates of the red team against the oracle: each payload and each base is wrong where its
 * trigger holds, and a verifier with a hole is found out. */
#include "base/base.h"
#include "task/task_redteam.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "grade_one.h"

#define BASES_MAX 64

static struct verifier *verifier;

static int set_up(void **state)
{
	struct err err = {0};
	struct verify_options o = {.threads = 2, .seed = 5, .num_correct_trials = 2};
	int rc = verifier_create(&o, &verifier, &err);
	if (rc) fprintf(stderr, "%s\n", err.text);
	return rc;
}

static int tear_down(void **state)
{
	verifier_free(verifier);
	return 0;
}

static enum verdict_class class_of(const struct task_set *tasks, const struct redteam_candidate *c, struct verdict *d)
{
	struct err err = {0};
	if (verifier_run(verifier, &tasks->tasks[c->task], c->source.data, c->source.len, d, &err))
		fail_msg("%s", err.text);
	return d->class;
}

/* The vm's values against the oracle's: with a trigger that always holds, one candidate of
 * each payload and each base.
 */
static void test_wrong_by_construction(void **state)
{
	struct redteam_candidate *list = NULL;
	struct task_set tasks;
	struct verdict d;
	struct err err = {0};
	assert_int_equal(redteam_tasks(&tasks, &err), 0);
	int n = 200, judged = 0;
	/* Candidates whose trigger always holds must all be wrong in their values. */
	if (redteam_draw(3, n, "always", NULL, &list, &err)) fail_msg("%s", err.text);
	bool has_base[BASES_MAX] = {false};
	const char *payloads[BASES_MAX];
	int npayloads = 0;
	/* One for each payload and one for each task is enough. */
	for (int i = 0; i < n; i++) {
		bool is_new = !has_base[list[i].task];
		int p = 0;
		while (p < npayloads && strcmp(payloads[p], list[i].payload)) p++;
		if (p < npayloads && !is_new) continue;
		has_base[list[i].task] = true;
		if (p == npayloads) payloads[npayloads++] = list[i].payload;
		if (class_of(&tasks, &list[i], &d) != VERDICT_WRONG || strcmp(d.reason, "mismatch"))
			fail_msg("%s: %s %s", list[i].name, d.reason, d.detail);
		judged++;
	}
	/* Nothing was left out. */
	assert_true(judged >= 10 && npayloads == 10);
	for (size_t b = 0; b < tasks.count; b++)
		assert_true(has_base[b] == (!strstr(tasks.tasks[b].name, "-blocks") && !strstr(tasks.tasks[b].name, "-noise")));
	for (int i = 0; i < n; i++) redteam_candidate_release(&list[i]);
	free(list);
	task_set_release(&tasks);
}

/* A check that looks at the task's own sizes alone, KernelBench's, takes what differs at others,
 * however far above; ours does not. */
static void test_hole_is_found(void **state)
{
	struct redteam_candidate *list = NULL;
	struct task_set tasks;
	struct verdict d;
	struct err err = {0};
	assert_int_equal(redteam_tasks(&tasks, &err), 0);
	int n = 220, found = 0;
	if (redteam_draw(9, n, "size", "negated", &list, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < n && found < 3; i++) {
		if (!strstr(list[i].name, "cols_more")) continue;
		if (class_of(&tasks, &list[i], &d) != VERDICT_WRONG || d.kernelbench != 1)
			fail_msg("%s: %s %s, KernelBench's check %d", list[i].name, d.reason, d.detail, d.kernelbench);
		found++;
	}
	assert_int_equal(found, 3);
	for (int i = 0; i < n; i++) redteam_candidate_release(&list[i]);
	free(list);
	task_set_release(&tasks);
}

/* Forms that the trace or the first trial settles: each with each of its numbers, and for the
 * reason that it was made for. What the search for inputs and sizes is needed for costs more than a
 * test has: `hone redteam --family terms`. */
static void test_forms(void **state)
{
	static const struct {
		const char *family;
		int forms; /* with their numbers */
		const char *reasons[3];
	} CASES[] = {{"cache", 12, {"unsupported"}}, {"stream", 14, {"race", "unsupported"}},
		{"memory", 3, {"unsupported"}}, {"order", 12, {"race", "order-dependent"}},
		{"draws", 10, {"random", "mismatch"}}};
	struct redteam_candidate *list = NULL;
	struct task_set tasks;
	struct verdict d;
	struct err err = {0};
	assert_int_equal(redteam_tasks(&tasks, &err), 0);
	for (size_t f = 0; f < ARRAY_LEN(CASES); f++) {
		/* the first of each form and number, which stand between two strokes of the name */
		char seen[16][64];
		int nseen = 0, n = strcmp(CASES[f].family, "draws") ? 300 : 100;
		if (redteam_draw(4, n, CASES[f].family, NULL, &list, &err)) fail_msg("%s", err.text);
		for (int i = 0; i < n; i++) {
			char form[64];
			int at = 0;
			snprintf(form, sizeof form, "%s", strchr(list[i].name, '/') + 1);
			*strchr(form, '/') = 0;
			while (at < nseen && strcmp(seen[at], form)) at++;
			if (at == nseen) {
				assert_true(nseen < (int)ARRAY_LEN(seen));
				memcpy(seen[nseen++], form, sizeof form);
				enum verdict_class class = class_of(&tasks, &list[i], &d);
				bool is_known = false;
				for (int k = 0; k < 3 && CASES[f].reasons[k]; k++) is_known |= !strcmp(d.reason, CASES[f].reasons[k]);
				if (class == VERDICT_GENUINE || class == VERDICT_INFRA || !is_known)
					fail_msg("%s: %s: %s", list[i].name, d.reason, d.detail);
			}
			redteam_candidate_release(&list[i]);
		}
		assert_int_equal(nseen, CASES[f].forms);
		free(list);
	}
	task_set_release(&tasks);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_by_construction),
		cmocka_unit_test(test_hole_is_found), cmocka_unit_test(test_forms)};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
