/* Child processes: what they inherit, how they end, and that nothing of theirs stays behind. */
#include "base_test.h"
#include <errno.h>

static struct child_options shell(char **argv, const char *script)
{
	argv[0] = (char *)(uintptr_t)"/bin/sh";
	argv[1] = (char *)(uintptr_t)"-c";
	argv[2] = (char *)(uintptr_t)script;
	argv[3] = NULL;
	return (struct child_options){.argv = argv, .stdout_fd = -1, .stderr_fd = -1};
}

/* Runs a script with stdout in a pipe; returns the wait status. */
static int run_shell(const char *script, struct child_options *extra, struct str *out)
{
	char *argv[4];
	struct child_options o = shell(argv, script);
	struct child c;
	struct err err = {0};
	int p[2];
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	if (extra) {
		o.env = extra->env;
		o.cwd = extra->cwd;
		o.nfds = extra->nfds;
		memcpy(o.fds, extra->fds, sizeof(o.fds));
	}
	o.stdout_fd = p[1];
	assert_int_equal(child_spawn(&c, &o, &err), 0);
	close(p[1]);
	char chunk[512];
	str_clear(out);
	for (ssize_t n; (n = read(p[0], chunk, sizeof(chunk))) > 0;) str_append(out, chunk, (size_t)n);
	str_append(out, "", 0);
	close(p[0]);
	assert_int_equal(child_wait(&c, 20000, &err), 0);
	return c.status;
}

static void status_is_reported(void **state)
{
	struct str out = {0};
	char text[64], tiny[4];
	child_status_text(run_shell("exit 3", NULL, &out), text, sizeof(text));
	assert_string_equal(text, "exit 3");
	child_status_text(run_shell("kill -SEGV $$", NULL, &out), text, sizeof(text));
	assert_string_equal(text, "signal 11 (SIGSEGV)");
	child_status_text(run_shell("kill -KILL $$", NULL, &out), text, sizeof(text));
	assert_string_equal(text, "signal 9 (SIGKILL)");
	child_status_text(34 + 3, text, sizeof(text)); /* a real-time signal has no name */
	assert_string_equal(text, "signal 37");
	child_status_text(0x0300, tiny, sizeof(tiny));
	assert_string_equal(tiny, "exi");
	str_release(&out);
}

static void environment_and_folder_are_minimal(void **state)
{
	struct str out = {0};
	setenv("HONE_SECRET", "leak", 1);
	run_shell("env | sort | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD; pwd", NULL, &out);
	assert_string_equal(out.data, "LANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin\n/\n");
	char *env[] = {(char *)(uintptr_t)"A=1", (char *)(uintptr_t)"PATH=/bin", NULL};
	run_shell("echo $A $HONE_SECRET; pwd", &(struct child_options){.env = env, .cwd = "/proc"}, &out);
	assert_string_equal(out.data, "1\n/proc\n");
	str_release(&out);
}

/* The child sees 0, 1, 2 and what it was given, in order, whatever the numbers were here; fd 63
 * below is a leak that must not pass. */
static void descriptors_are_exactly_those_given(void **state)
{
	struct str out = {0};
	char *dir = scratch_make();
	struct child_options o = {.nfds = CHILD_FDS_MAX};
	for (int i = 0; i < CHILD_FDS_MAX; i++) {
		char *path = xasprintf("%s/%d", dir, i), text[8];
		snprintf(text, sizeof(text), "f%d\n", i);
		write_text(path, text);
		int fd = open(path, O_RDONLY);
		assert_true(fd >= 0);
		/* In reverse, so that sources and targets overlap crosswise. */
		o.fds[CHILD_FDS_MAX - 1 - i] = fd;
		free(path);
	}
	assert_int_equal(dup2(0, 63), 63);
	run_shell("cat <&3; cat <&4; cat <&9; cat /proc/self/fd/10;"
			  "for f in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 63; do [ -e /proc/$$/fd/$f ] && echo -n $f,; done; read x "
			  "|| echo eof",
		&o, &out);
	assert_string_equal(out.data, "f7\nf6\nf1\nf0\n0,1,2,3,4,5,6,7,8,9,10,eof\n");
	for (int i = 0; i < CHILD_FDS_MAX; i++) assert_int_equal(close(o.fds[i]), 0);
	close(63);
	str_release(&out);
	scratch_remove(dir);
}

static void signals_are_reset(void **state)
{
	struct str out = {0};
	signal(SIGPIPE, SIG_IGN);
	sigset_t set, old;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &old);
	run_shell("grep -E '^Sig(Blk|Ign)' /proc/self/status", NULL, &out);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_string_equal(out.data, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
	str_release(&out);
}

static void failures_before_exec_are_told(void **state)
{
	char *missing[] = {(char *)(uintptr_t)"/nonexistent/program", NULL}, *folder[] = {(char *)(uintptr_t)"/tmp", NULL},
		 *argv[4];
	struct child c;
	struct err err = {0};
	int before = open_descriptors();
	assert_int_equal(child_spawn(&c, &(struct child_options){.argv = missing, .stdout_fd = -1, .stderr_fd = -1}, &err),
		ERR_NOT_FOUND);
	assert_string_equal(err.text, "/nonexistent/program: exec: No such file or directory");
	assert_int_equal(
		child_spawn(&c, &(struct child_options){.argv = folder, .stdout_fd = -1, .stderr_fd = -1}, &err), ERR_CHILD);
	struct child_options o = shell(argv, "exit 0");
	o.cwd = "/nonexistent";
	assert_int_equal(child_spawn(&c, &o, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "chdir"));
	child_kill(&c); /* legal after a failed spawn */
	assert_int_equal(child_wait(&c, 0, &err), ERR_CHILD);
	assert_int_equal(open_descriptors(), before);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void a_hanging_child_times_out_and_is_killed(void **state)
{
	char *argv[4];
	struct child_options o = shell(argv, "trap '' TERM INT HUP; while :; do sleep 60; done");
	struct child c;
	struct err err = {0};
	assert_int_equal(child_spawn(&c, &o, &err), 0);
	assert_int_equal(child_wait(&c, 0, &err), ERR_TIMEOUT);
	assert_int_equal(child_wait(&c, 50, &err), ERR_TIMEOUT);
	assert_false(c.reaped);
	child_kill(&c);
	assert_true(c.reaped);
	assert_true(WIFSIGNALED(c.status) && WTERMSIG(c.status) == SIGKILL);
	child_kill(&c);
	assert_int_equal(child_wait(&c, 0, &err), 0);
}

/* The read end of a pipe gives end of file once nobody holds the other: the grandchildren are gone.
 */
static void no_grandchild_survives(const char *script, bool kill_it)
{
	char *argv[4], chunk[64];
	struct child_options o = shell(argv, script);
	struct child c;
	struct err err = {0};
	int p[2];
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	o.stdout_fd = p[1];
	assert_int_equal(child_spawn(&c, &o, &err), 0);
	close(p[1]);
	assert_int_equal(read(p[0], chunk, 1), 1); /* the grandchild runs */
	if (kill_it) child_kill(&c);
	else assert_int_equal(child_wait(&c, 20000, &err), 0);
	alarm(20);
	while (read(p[0], chunk, sizeof(chunk)) > 0) {}
	alarm(0);
	close(p[0]);
}

static void grandchildren_die_with_a_killed_child(void **state)
{
	no_grandchild_survives("(echo x; exec sleep 600) & (exec sleep 600) & wait", true);
}
static void grandchildren_die_with_an_ended_child(void **state)
{
	no_grandchild_survives("(echo x; exec sleep 600) & sleep 0.05; exit 0", false);
}

/* A middle process spawns a child with die_with_parent and is killed; the grandchild's end of the
 * pipe must close. */
static void a_child_dies_with_its_parent(void **state)
{
	int p[2];
	char chunk[8];
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	fflush(NULL);
	/* The middle process holds the grandchild, which keeps the write end of the pipe open. */
	pid_t middle = fork();
	if (middle == 0) {
		char *argv[4];
		struct child_options o = shell(argv, "echo x; exec sleep 600");
		struct child c;
		o.stdout_fd = p[1];
		o.die_with_parent = true;
		if (child_spawn(&c, &o, NULL)) _exit(1);
		close(p[1]);
		sleep(600);
		_exit(0);
	}
	close(p[1]);
	assert_int_equal(read(p[0], chunk, 1), 1);
	/* Nobody is left to end the grandchild by hand: the pipe closes, or the alarm ends the test. */
	kill(middle, SIGKILL);
	waitpid(middle, NULL, 0);
	alarm(20);
	while (read(p[0], chunk, sizeof(chunk)) > 0) {}
	alarm(0);
	close(p[0]);
}

static void a_session_of_its_own(void **state)
{
	struct str out = {0};
	run_shell("set -- $(cat /proc/$$/stat); echo $(( $5 == $$ )) $(( $6 == $$ ))", NULL, &out);
	assert_string_equal(out.data, "1 1\n");
	str_release(&out);
}

static void zeroed_child_is_harmless(void **state)
{
	struct child c = {0};
	child_kill(&c); /* pid 0 would be our own group */
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(status_is_reported),
	cmocka_unit_test(environment_and_folder_are_minimal),
	cmocka_unit_test(descriptors_are_exactly_those_given),
	cmocka_unit_test(signals_are_reset),
	cmocka_unit_test(failures_before_exec_are_told),
	cmocka_unit_test(a_hanging_child_times_out_and_is_killed),
	cmocka_unit_test(grandchildren_die_with_a_killed_child),
	cmocka_unit_test(grandchildren_die_with_an_ended_child),
	cmocka_unit_test(a_child_dies_with_its_parent),
	cmocka_unit_test(a_session_of_its_own),
	cmocka_unit_test(zeroed_child_is_harmless),
};
TAP_MAIN(tests)
