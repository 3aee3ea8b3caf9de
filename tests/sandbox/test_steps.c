/* Every step of the way into the sandbox, made to fail: the way ends there, and says which step it
 * was. A fence that cannot be raised is never passed over. A filter of the test's own refuses one
 * system call with an error that the kernel does not give for it. */
#include "sandbox/sandbox.h"
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define REFUSED EXDEV

enum way { WAY_UNSHARE, WAY_ENTER, WAY_TOOL, WAY_DROP };
struct step {
	const char *says; /* a part of the message */
	enum way way;
	int level;
	int call;
	int at; /* the argument that has to be `value`; -1: every call */
	unsigned long value;
	bool for_root; /* a step of root's alone */
};
#define EVERY -1, 0, false
static const struct step STEPS[] = {
	{"setgroups", WAY_DROP, SANDBOX_LSM, SCMP_SYS(setgroups), -1, 0, true},
	{"setresgid", WAY_DROP, SANDBOX_LSM, SCMP_SYS(setresgid), -1, 0, true},
	{"setresuid", WAY_DROP, SANDBOX_LSM, SCMP_SYS(setresuid), -1, 0, true},
	{"capset", WAY_DROP, SANDBOX_LSM, SCMP_SYS(capset), -1, 0, true},
	{"setgroups", WAY_UNSHARE, SANDBOX_FULL, SCMP_SYS(setgroups), -1, 0, true},
	{"setgroups", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(setgroups), -1, 0, true},
	{"unshare", WAY_UNSHARE, SANDBOX_FULL, SCMP_SYS(unshare), EVERY},
	{"uid and gid maps", WAY_UNSHARE, SANDBOX_FULL, SCMP_SYS(openat), EVERY},
	{"uid and gid maps", WAY_UNSHARE, SANDBOX_FULL, SCMP_SYS(write), EVERY},
	{"private mounts", WAY_UNSHARE, SANDBOX_FULL, SCMP_SYS(mount), EVERY},
	{"resource limits", WAY_ENTER, SANDBOX_NONE, SCMP_SYS(prlimit64), 1, RLIMIT_CORE, false},
	{"resource limits", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prlimit64), 1, RLIMIT_CORE, false},
	{"resource limits", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prlimit64), 1, RLIMIT_DATA, false},
	{"resource limits", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prlimit64), 1, RLIMIT_AS, false},
	{"resource limits", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prlimit64), 1, RLIMIT_CPU, false},
	{"resource limits", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prlimit64), 1, RLIMIT_NOFILE, false},
	{"capset", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(capset), EVERY},
	{"no_new_privs", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prctl), 0, PR_SET_NO_NEW_PRIVS, false},
	{"non-dumpable", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(prctl), 0, PR_SET_DUMPABLE, false},
	{"andlock", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(landlock_create_ruleset), EVERY},
	/* Each without flags. */
	{"andlock", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(landlock_create_ruleset), 2, 0, false},
	{"andlock", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(landlock_add_rule), 3, 0, false},
	{"andlock", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(landlock_restrict_self), 1, 0, false},
	{"seccomp", WAY_ENTER, SANDBOX_LSM, SCMP_SYS(seccomp), EVERY},
	{"mounting /proc", WAY_ENTER, SANDBOX_FULL, SCMP_SYS(mount), EVERY},
	{"mounting /proc", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(mount), 3, MS_NOSUID | MS_NODEV | MS_NOEXEC, false},
	{"/dev/shm", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(mount), 3, MS_NOSUID | MS_NODEV, false},
	{"loopback", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(socket), EVERY},
	{"loopback", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(ioctl), 1, SIOCGIFFLAGS, false},
	{"loopback", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(ioctl), 1, SIOCSIFFLAGS, false},
	{"", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(prlimit64), EVERY},
	{"capset", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(capset), EVERY},
	{"no_new_privs", WAY_TOOL, SANDBOX_FULL, SCMP_SYS(prctl), 0, PR_SET_NO_NEW_PRIVS, false},
};

static int refuse(const struct step *s)
{
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ALLOW);
	struct scmp_arg_cmp only = {.arg = (unsigned)s->at, .op = SCMP_CMP_EQ, .datum_a = s->value};
	int rc = seccomp_rule_add_array(c, SCMP_ACT_ERRNO(REFUSED), s->call, s->at >= 0, &only);
	if (!rc) rc = seccomp_load(c);
	seccomp_release(c);
	return rc;
}

/* Goes the way of the row in this process, which it may spoil; a new pid namespace begins with the
 * next child. Exits 0 when the step was refused and named. */
static void go(const struct step *s)
{
	static const char *const read_paths[] = {"/usr", NULL}, *const devices[] = {"/dev/null", NULL};
	struct sandbox_options o = {.level = s->level,
		.read_paths = read_paths,
		.memory_bytes = (int64_t)256 << 20,
		.cpu_s = 60,
		.device_paths = s->level == SANDBOX_FULL ? devices : NULL};
	char text[256] = "";
	if (s->way == WAY_UNSHARE && refuse(s)) _exit(2);
	int rc = sandbox_unshare(&o, text, sizeof text), status = 0;
	if (s->way != WAY_UNSHARE) {
		if (rc) _exit(3);
		pid_t inner = fork();
		if (inner) _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 4);
		if (refuse(s)) _exit(2);
		rc = s->way == WAY_DROP  ? sandbox_drop_root(text, sizeof text)
			: s->way == WAY_TOOL ? sandbox_enter_tool(&o, text, sizeof text)
								 : sandbox_enter(&o, text, sizeof text);
	}
	_exit(rc < 0 && text[0] && strstr(text, s->says) ? 0 : rc ? 5 : 6);
}

static void test_each_step(void **state)
{
	char text[256];
	int best = sandbox_level_probe(text, sizeof text), bad = 0;
	for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
		const struct step *s = &STEPS[i];
		if (s->level > best || (s->for_root && geteuid() != 0)) continue;
		int status = 0;
		pid_t pid = fork();
		assert_return_code(pid, errno);
		if (pid == 0) go(s);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status == 0) continue;
		bad++;
		print_message("# row %zu (%s): %s\n", i, s->says,
			status == 6 << 8       ? "was passed over"
				: status == 5 << 8 ? "failed otherwise"
								   : "could not be tried");
	}
	if (best < SANDBOX_FULL) print_message("# level %s is the strongest here\n", sandbox_level_name(best));
	assert_int_equal(bad, 0);
}

/* On a machine that lacks a step the probe names the strongest level without it, and what is
 * missing for the others. */
static void test_probe_where_a_step_is_missing(void **state)
{
	static const struct {
		int call;
		int level;
		const char *says;
	} rows[] = {{SCMP_SYS(unshare), SANDBOX_LSM, "full: unshare"},
		{SCMP_SYS(mount), SANDBOX_LSM, "full: private mounts"},
		{SCMP_SYS(landlock_create_ruleset), SANDBOX_NONE, "lsm: Landlock"},
		{SCMP_SYS(capset), SANDBOX_NONE, "lsm: capset"}};
	char text[512];
	if (sandbox_level_probe(text, sizeof text) < SANDBOX_FULL) skip();
	assert_string_equal(text, "");
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		/* A child that lacks the step looks for its own level. */
		int status = 0;
		pid_t pid = fork();
		assert_return_code(pid, errno);
		if (pid == 0) {
			const struct step s = {.call = rows[i].call, .at = -1};
			if (refuse(&s)) _exit(2);
			int level = sandbox_level_probe(text, sizeof text);
			_exit(level == rows[i].level && strstr(text, rows[i].says) ? 0 : 10 + level);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status) fail_msg("%s: status %x", rows[i].says, (unsigned)status);
	}
}

/* The filter that is prepared before the child is there needs a file in memory; where there is
 * none, or none can be read, the child makes its own, and is fenced in as well. */
static void test_without_a_prepared_filter(void **state)
{
	static const int calls[] = {SCMP_SYS(memfd_create), SCMP_SYS(lseek), SCMP_SYS(pread64)};
	char text[256];
	if (sandbox_level_probe(text, sizeof text) < SANDBOX_FULL) skip();
	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		int status = 0;
		pid_t pid = fork();
		assert_return_code(pid, errno);
		if (pid == 0) {
			static const char *const read_paths[] = {"/usr", NULL};
			const struct step s = {.call = calls[i], .at = -1};
			struct sandbox_options o = {
				.level = SANDBOX_FULL, .read_paths = read_paths, .memory_bytes = (int64_t)256 << 20, .cpu_s = 60};
			if (refuse(&s) || sandbox_drop_root(text, sizeof text)) _exit(2);
			int inner = sandbox_fork(&o, text, sizeof text);
			if (inner) _exit(waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
			if (*text || sandbox_enter(&o, text, sizeof text)) _exit(4);
			/* The filter is there: without it a new network would have such a socket. */
			_exit(socket(AF_INET, SOCK_STREAM, 0) == -1 && errno == EPERM ? 0 : 5);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (status) fail_msg("call %zu: status %x", i, (unsigned)status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_step),
		cmocka_unit_test(test_probe_where_a_step_is_missing), cmocka_unit_test(test_without_a_prepared_filter)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
