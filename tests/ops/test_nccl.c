/* The group of a job's GPUs, over an NCCL without a GPU: it joins, gathers, and never waits for a
 * rank that is gone, in whichever of its calls that happens; whoever fails is named. */
#include "fake_nccl.h"
#include "base/base.h"
#include "ops/cuda/nccl.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"

enum { RANKS = 3, VALUES = 5 };
static char folder[4096];
static struct fake_nccl *fake;
static int entered; /* the device that was made the thread's */

static void enter(int device) { entered = device; }

/* ---- a rank that is gone after so many questions ---- */

struct lost {
	int after; /* -1: never */
	int asked;
};
static bool is_lost(void *ctx, struct err *err)
{
	struct lost *l = ctx;
	l->asked++;
	if (l->after < 0 || l->asked <= l->after) return false;
	err_set(err, ERR_CHILD, "rank 1 of 3 (there, process 7) is gone");
	return true;
}

/* What NCCL does unless a test says otherwise. */
static void fake_reset(void) { *fake = (struct fake_nccl){.version = 22809, .looks = 4, .blocking = -1}; }

static struct nccl *group_open(void)
{
	struct nccl *n = NULL;
	struct err err = {0};
	if (nccl_open(folder, enter, 5, &n, &err)) fail_msg("%s", err.text);
	n->named_ms = 100, n->abort_ms = 100;
	return n;
}

static int join(struct nccl *n, struct lost *l, struct err *err)
{
	char id[OPS_RANKS_ID];
	int rc = nccl_id_make(n, id, err);
	return rc ? rc : nccl_join(n, id, 1, RANKS, (struct nccl_watch){is_lost, l}, err);
}

static int gather(struct nccl *n, float *all, struct lost *l, struct err *err)
{
	static const float mine[VALUES] = {1, 2, 3, 4, 5};
	return nccl_gather(n, mine, all, VALUES, NULL, (struct nccl_watch){is_lost, l}, err);
}

/* ---- all are there ---- */

static void use_group(void *unused)
{
	float all[RANKS * VALUES] = {0};
	struct lost never = {.after = -1};
	struct err err = {0};
	fake_reset();
	struct nccl *n = group_open();
	assert_int_equal(join(n, &never, &err), 0);
	assert_true(fake->blocking == 0 && entered == 5);
	assert_int_equal(gather(n, all, &never, &err), 0);
	/* The call has been waited for: its values are there, and nobody asked for more before. */
	for (int i = 0; i < RANKS * VALUES; i++) assert_true(all[i] == (float)(i % VALUES + 1));
	assert_int_equal(nccl_look(n, (struct nccl_watch){is_lost, &never}, &err), 0);
	assert_true(never.asked >= 6 && fake->before == 0 && fake->aborts == 0);
	nccl_close(n);
	assert_int_equal(fake->aborts, 1);
}

static void test_group(void **state)
{
	leaves_nothing(use_group, NULL);
	nccl_close(NULL);
}

/* ---- one is gone ---- */

enum when { WHEN_JOINING, WHEN_GATHERING, WHEN_WAITING, WHENS };

/* Up to the call in question all goes well; that call's result. */
static int until(enum when when, struct nccl *n, struct lost *l, struct fake_nccl then, struct err *err)
{
	float all[RANKS * VALUES];
	struct lost never = {.after = -1};
	if (when == WHEN_JOINING) *fake = then;
	int rc = join(n, when == WHEN_JOINING ? l : &never, err);
	if (when == WHEN_JOINING) return rc;
	assert_int_equal(rc, 0);
	if (when == WHEN_GATHERING) *fake = then;
	rc = gather(n, all, when == WHEN_GATHERING ? l : &never, err);
	if (when == WHEN_GATHERING) return rc;
	assert_int_equal(rc, 0);
	*fake = then;
	/* What looks at the stream in between. */
	for (int i = 0; i < 100 && !rc; i++) rc = nccl_look(n, (struct nccl_watch){is_lost, l}, err);
	return rc;
}

/* NCCL itself would wait for ever, and says nothing of it. */
static void test_lost(void **state)
{
	for (enum when when = 0; when < WHENS; when++) {
		struct lost l = {.after = 3};
		struct err err = {0};
		fake_reset();
		struct nccl *n = group_open();
		struct fake_nccl then = *fake;
		then.looks = -1;
		assert_int_equal(until(when, n, &l, then, &err), ERR_CHILD);
		assert_string_equal(err.text, "rank 1 of 3 (there, process 7) is gone");
		assert_true(fake->aborts == 1 && !n->comm);
		nccl_close(n);
		assert_int_equal(fake->aborts, 1);
	}
}

/* NCCL says that something failed, in whichever way: who is gone is named where the connections
 * know it a little later, else what NCCL said of which call. */
static void test_failures(void **state)
{
	static const struct {
		enum when when;
		const char *fails;
		int state;
		const char *said;
	} cases[] = {
		{WHEN_JOINING, "GetUniqueId", 0, "NCCL's GetUniqueId gives \"remote process exited\""},
		{WHEN_JOINING, "CommInitRankConfig", 0, "NCCL's CommInitRankConfig gives \"remote process exited\""},
		{WHEN_JOINING, "CommGetAsyncError", 0, "NCCL's CommInitRankConfig gives \"remote process exited\""},
		{WHEN_JOINING, NULL, 6, "NCCL's CommInitRankConfig gives \"remote process exited\""},
		{WHEN_GATHERING, "AllGather", 0, "NCCL's AllGather gives \"remote process exited\""},
		{WHEN_GATHERING, NULL, 6, "NCCL's AllGather gives \"remote process exited\""},
		{WHEN_WAITING, "CommGetAsyncError", 0, "NCCL's AllGather gives \"remote process exited\""},
		{WHEN_WAITING, NULL, 6, "NCCL's AllGather gives \"remote process exited\""},
	};
	for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
		bool is_named = i % 2 && strcmp(cases[i / 2].said, cases[0].said);
		struct lost l = {.after = is_named ? 8 : -1};
		struct err err = {0};
		fake_reset();
		struct nccl *n = group_open();
		/* All goes well up to the call of the case, and that one fails. */
		struct fake_nccl then = *fake;
		then.fails = cases[i / 2].fails, then.status = 6, then.state = cases[i / 2].state;
		assert_int_equal(until(cases[i / 2].when, n, &l, then, &err), is_named ? ERR_CHILD : ERR_INFRA);
		assert_non_null(strstr(err.text, is_named ? "rank 1 of 3" : cases[i / 2].said));
		assert_non_null(strstr(err.text, is_named ? "is gone" : "--ranks_transport tcp"));
		assert_true(!n->comm);
		fake->fails = NULL;
		nccl_close(n);
		assert_true(fake->aborts <= 1);
	}
}

/* An abort that does not come back: a job whose rank is gone ends by message; one that is over is
 * over all the same. */
static void test_stuck(void **state)
{
	struct lost l = {.after = 3}, never = {.after = -1};
	struct err err = {0};
	int fds[2], status = 0;
	char said[2048] = "";
	fake_reset();
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		alarm(60);
		dup2(fds[1], STDERR_FILENO);
		struct nccl *n = group_open();
		fake->looks = -1, fake->abort_hangs = 1;
		join(n, &l, &err);
		_exit(0);
	}
	close(fds[1]);
	assert_true(read(fds[0], said, sizeof said - 1) > 0);
	close(fds[0]);
	assert_true(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_non_null(strstr(said, "rank 1 of 3 (there, process 7) is gone (NCCL did not let go of the device"));
	/* The thread that aborts stays where it is, to the end of this process. */
	struct nccl *n = group_open();
	assert_int_equal(join(n, &never, &err), 0);
	fake->abort_hangs = 1;
	nccl_close(n);
	assert_int_equal(fake->aborts, 1);
}

/* ---- opening ---- */

static void test_open(void **state)
{
	struct nccl *n = NULL;
	struct err err = {0};
	char *none = path_join(folder, "none");
	/* Where it was looked for is said, unless the machine's own is found. */
	setenv("HONE_PYTHON", "/nowhere/bin/python", 1);
	void *of_machine = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
	if (!of_machine) {
		assert_int_equal(nccl_open(none, enter, 0, &n, &err), ERR_NOT_FOUND);
		assert_true(!n && strstr(err.text, none) && strstr(err.text, "none/../../nccl/lib/libnccl.so.2") &&
			strstr(err.text, "--cuda_libs"));
	}
	free(none);
	/* Another version, on both sides of those that are known. */
	for (int i = 0; i < 4; i++) {
		static const int versions[] = {21304, 30000, 21400, 29999};
		fake_reset();
		fake->version = versions[i];
		int rc = nccl_open(folder, enter, 0, &n, &err);
		assert_int_equal(rc, i < 2 ? ERR_MISMATCH : 0);
		if (i == 0) assert_non_null(strstr(err.text, "has version 21304; expected 2.14 or later"));
		nccl_close(n);
	}
	/* A library of that name that is the C library. */
	Dl_info info;
	char other[] = "/tmp/hone-nccl-XXXXXX";
	assert_true(dladdr(dlsym(RTLD_DEFAULT, "getenv"), &info) && mkdtemp(other));
	char *path = path_join(other, "libnccl.so.2");
	assert_int_equal(symlink(info.dli_fname, path), 0);
	assert_int_equal(nccl_open(other, enter, 0, &n, &err), ERR_MISMATCH);
	assert_non_null(strstr(err.text, "has version 0 and no nccl"));
	unlink(path);
	rmdir(other);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_open),
	};
	char path[4200];
	const char *build = getenv("BUILD");
	snprintf(folder, sizeof folder, "%s/tests/ops", build ? build : "build/release");
	snprintf(path, sizeof path, "%s/libnccl.so.2", folder);
	void *library = dlopen(path, RTLD_NOW);
	CHECKF(library, "%s", dlerror());
	fake = ((fake_nccl_fn *)dlsym(library, "fake_nccl"))();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
