/* timeout: 900. Proofs of whole candidates: honest kernels, errors planted in them, and cheats
 * whose real function is the reference's. `make prove-corpus` has the rest. */
#include "base/base.h"
#include "prove/prove.h"
#include "sandbox/sandbox.h"
#include "task/task.h"
#include "verify/runner_pool.h"
#include "verify/verdict.h"
#include "verify/verify.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static struct verifier *verifier;

struct proof_case {
	const char *folder;    /* below tests */
	const char *from, *to; /* an error that is planted in the candidate, or NULL */
	enum prove_answer answer, alone;
};
static const struct proof_case cases[] = {
	{"known_good/softmax_rows", NULL, NULL, PROVE_PROVED, PROVE_PROVED},
	{"known_good/layernorm_affine", NULL, NULL, PROVE_PROVED, PROVE_PROVED},
	{"known_good/matmul_ieee", NULL, NULL, PROVE_PROVED, PROVE_PROVED},
	{"known_good/conv2d_direct", NULL, NULL, PROVE_PROVED, PROVE_PROVED},
	{"known_good/argmax_int64", NULL, NULL, PROVE_PROVED, PROVE_PROVED},
	/* a term dropped, an operator, an index, a mask, a constant: neither proved nor right */
	{"known_good/layernorm_affine", " + tl.load(b + c, mask=m)", "", PROVE_REFUTED, PROVE_NOT_PROVED},
	{"known_good/layernorm_affine", "/ N + eps", "/ (N - 1) + eps", PROVE_REFUTED, PROVE_NOT_PROVED},
	{"known_good/softmax_rows", "num / tl.sum", "num * tl.sum", PROVE_REFUTED, PROVE_NOT_PROVED},
	{"known_good/matmul_ieee", "rk[:, None] * sbk", "rk[:, None] * sbn", PROVE_REFUTED, PROVE_NOT_PROVED},
	{"known_good/matmul_ieee", "rk[None, :] < K", "rk[None, :] < K - 1", PROVE_REFUTED, PROVE_NOT_PROVED},
	/* the same real function, and wrong all the same: range is the replay's */
	{"exploits/omitted_max", NULL, NULL, PROVE_REFUTED, PROVE_PROVED},
	{"known_good/softmax_rows", "x - tl.max", "x + tl.max", PROVE_REFUTED, PROVE_PROVED},
	{"exploits/omitted_bias", NULL, NULL, PROVE_REFUTED, PROVE_NOT_PROVED},
};

/* The source with its error, which is found once. */
static void plant(const struct proof_case *c, struct str *source)
{
	if (!c->from) return;
	char *at = strstr(source->data, c->from);
	if (!at) fail_msg("%s: no '%s' to plant an error at", c->folder, c->from);
	struct str with = {0};
	str_printf(&with, "%.*s%s%s", (int)(at - source->data), source->data, c->to, at + strlen(c->from));
	str_release(source);
	*source = with;
}

static void proves(void **state)
{
	const struct proof_case *c = *state;
	struct task_set tasks = {0};
	struct str source = {0};
	struct err err = {0};
	struct verdict d;
	struct verify_proof p;
	char *task = xasprintf("tests/%s/task.py", c->folder), *path = xasprintf("tests/%s/candidate.py", c->folder);
	int rc = task_set_load(task, &tasks, &err);
	if (!rc) rc = file_read(path, (size_t)1 << 20, &source, &err);
	if (!rc) plant(c, &source);
	if (!rc) rc = verifier_prove(verifier, tasks.tasks, source.data, source.len, &d, &p, &err);
	if (rc) fail_msg("%s: %s", c->folder, err.text);
	if (p.result.answer != c->answer || p.alone != c->alone)
		fail_msg("%s: %s (alone %s): %s", c->folder, prove_answer_name(p.result.answer), prove_answer_name(p.alone),
			p.result.text);
	free(task);
	free(path);
	str_release(&source);
	task_set_release(&tasks);
}

/* The process of a proof alone: what it is told is a stranger's word, and its
 * end is nobody else's. */
static void a_process_of_its_own(void **state)
{
	static const struct {
		const char *tape, *words;
		int nfds;
	} bad[] = {{"no tape", "{\"graphs\": [{}], \"names\": []}", 2}, {"{}", "no graphs", 2},
		{"{}", "{\"graphs\": [], \"names\": []}", 2}, {"{}", "{\"graphs\": [{}, {}], \"names\": []}", 2}};
	const char *build = getenv("BUILD");
	char *path = xasprintf("%s/hone-runner", build ? build : "build/release"), *whole = realpath(path, NULL);
	assert_non_null(whole);
	struct runner_pool *pool = NULL;
	struct runner_pool_options o = {.path = whole, .memory_bytes = 1 << 28, .spare = 1, .level = SANDBOX_NONE};
	struct runner_device device;
	struct prove_result result;
	struct runner r;
	struct err err = {0};
	if (runner_pool_create(&o, &pool, &device, &err) || runner_pool_take(pool, &r, &err)) fail_msg("%s", err.text);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int fds[2] = {runner_text_fd("x", 1, &err), runner_text_fd("", 0, &err)};
		struct runner_proof p = {.ms = 1000,
			.words_fd = runner_text_fd(bad[i].words, strlen(bad[i].words), &err),
			.nfds = bad[i].nfds,
			.fds = fds};
		uint64_t deadline = clock_ns() + 20 * (uint64_t)1000000000;
		assert_int_equal(runner_prove(&r, bad[i].tape, strlen(bad[i].tape), &p, deadline, &result, &err), ERR_MISMATCH);
		close(p.words_fd);
		close(fds[0]);
		close(fds[1]);
	}
	/* Killed in the middle: the caller is told, and has the status. */
	struct runner_proof p = {.ms = 1000, .words_fd = runner_text_fd("{}", 2, &err)};
	char status[64] = "";
	kill(r.child.pid, SIGKILL);
	assert_int_not_equal(runner_prove(&r, "{}", 2, &p, clock_ns() + 20 * (uint64_t)1000000000, &result, &err), 0);
	close(p.words_fd);
	runner_end(pool, &r, status, sizeof status, NULL);
	if (!strstr(status, "SIGKILL")) fail_msg("%s", status);
	runner_pool_free(pool);
	free(whole);
	free(path);
}

int main(void)
{
	static struct CMUnitTest tests[ARRAY_LEN(cases) + 1];
	struct err err = {0};
	struct verify_options o = {.threads = 1, .num_correct_trials = 4, .seed = 20251122, .skip_compile = true};
	if (verifier_create(&o, &verifier, &err)) {
		fprintf(stderr, "test_proofs: %s\n", err.text);
		return 1;
	}
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		tests[i] = (struct CMUnitTest){cases[i].folder, proves, NULL, NULL, (void *)(uintptr_t)&cases[i]};
	tests[ARRAY_LEN(cases)] = (struct CMUnitTest)cmocka_unit_test(a_process_of_its_own);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	int failed = _cmocka_run_group_tests("proofs", tests, ARRAY_LEN(cases) + 1, NULL, NULL);
	verifier_free(verifier);
	return failed;
}
