/* hone prove: proves that a candidate computes its task's reference as a real function, or says
 * where the proof ends (docs/prove.md). Exit status: 0 proved, 1 another answer, 2 wrong usage, 3
 * infra. */
#include "cli/cli.h"
#include "base/base.h"
#include "prove/prove.h"
#include "task/task.h"
#include "verify/verdict.h"
#include "verify/verify.h"
#include <stdlib.h>

#define SOURCE_BYTES_MAX ((size_t)64 << 20)

/* Values of the options below, whose help says what each is. */
struct prove_settings {
	const char *task;
	const char *candidate;
	const char *sandbox;
	const char *root;
	int64_t seed;
	bool allow_unsandboxed;
	bool json;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct prove_settings, field), help, choices }
static const struct option_def DEFS[] = {
	O(OPTION_STR, task, "KernelBench-style file with Model, get_inputs, get_init_inputs", NULL),
	O(OPTION_STR, candidate, "file that defines ModelNew", NULL),
	O(OPTION_INT, seed, "of the points; 0: random", NULL),
	O(OPTION_STR, sandbox, "level; the strongest that works when empty", NULL),
	O(OPTION_BOOL, allow_unsandboxed, "accept level none", NULL),
	O(OPTION_STR, root, "folder with worker/ and build/venv; found from this program when empty", NULL),
	O(OPTION_BOOL, json, "print JSON", NULL),
};
static const char SUMMARY[] =
	"prove that a candidate kernel computes its task's reference over the real numbers\n"
	"It says nothing about range, precision and branches that no point took.\n"
	"Exit status: 0 when it is proved, 1 for another answer, 2 for wrong usage or a file that "
	"cannot be read,\n3 when nobody could be judged";

static void print_text(const char *path, const struct verify_proof *p)
{
	const struct prove_result *r = &p->result;
	printf("%s: %s\n  %s\n", path, prove_answer_name(r->answer), r->text);
	if (r->answer == PROVE_PROVED)
		printf("  %lld %s, %d %s; degree at most %.3g: another expression would agree with a chance below "
			   "%.2g (%s)\n",
			(long long)r->elements, plural(r->elements, "element", "elements"), r->rounds,
			plural(r->rounds, "point", "points"), r->degree, r->bound,
			r->is_theorem ? "theorem: Schwartz, Zippel"
						  : "conjecture: exponentials, roots or random functions take part");
	if (r->answer != p->alone) printf("  the proof alone: %s\n", prove_answer_name(p->alone));
	for (int i = 0; i < r->nsides && r->answer == PROVE_PROVED; i++)
		printf("  line %d: the left side was always: %s\n", r->sides[i].line, r->sides[i].text);
	printf("  %.3f s\n", r->seconds);
}

static void print_json(const struct verify_proof *p)
{
	json_t *o = prove_result_json(&p->result);
	json_object_set_new(o, "alone", json_string(prove_answer_name(p->alone)));
	char *text = json_dumps(o, JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
	puts(text);
	free(text);
	json_decref(o);
}

/* Negative: an error; else the exit status. */
static int run(const struct prove_settings *s, struct err *err)
{
	struct task_set tasks = {0};
	struct str source = {0};
	struct verifier *v = NULL;
	struct verdict verdict;
	struct verify_proof p;
	/* One task and one candidate. */
	int rc = task_set_load(s->task, &tasks, err);
	if (!rc && tasks.count != 1)
		rc = err_set(err, ERR_USAGE, "--task %s: expected one task, found %zu", s->task, tasks.count);
	if (!rc) rc = file_read(s->candidate, SOURCE_BYTES_MAX, &source, err);
	/* Kernels are not compiled: a proof is about what the IR says. */
	struct verify_options o = {.root = s->root,
		.sandbox = s->sandbox,
		.allow_unsandboxed = s->allow_unsandboxed,
		.threads = 1,
		.seed = (uint64_t)s->seed,
		.skip_compile = true};
	if (!rc) rc = verifier_create(&o, &v, err);
	if (!rc) rc = verifier_prove(v, &tasks.tasks[0], source.data, source.len, &verdict, &p, err);
	if (!rc && s->json) print_json(&p);
	else if (!rc) print_text(s->candidate, &p);
	verifier_free(v);
	str_release(&source);
	task_set_release(&tasks);
	/* Only what was proved is a success to a script. */
	return rc ? rc : p.result.answer == PROVE_PROVED ? 0 : 1;
}

int cmd_prove(int argc, char **argv)
{
	struct prove_settings s = {.task = NULL};
	struct err err = {0};
	int npos, rc = options_parse("prove", SUMMARY, DEFS, ARRAY_LEN(DEFS), &s, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos)
		rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"; the candidate is named with --candidate", argv[1]);
	if (!rc && (!s.task || !s.candidate))
		rc = err_set(&err, ERR_USAGE, "--%s is missing; expected a Python file", s.task ? "candidate" : "task");
	if (!rc) rc = run(&s, &err);
	return rc >= 0 ? rc : cli_fail_judging("prove", &err);
}
