/* Policies outside: a command of JSON lines in every way in which it can answer, fall silent, break
 * the form or die; and sets of answers. The commands are a shell's own words, so nothing but sh and
 * sed is needed. */
#include "outside_case.h"
#include "policy/policy.h"
#include "base/base.h"
#include "text/text.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Answers each line with its id and a text, as soon as it has it. */
#define ECHO "sed -u 's/.*\"id\":\\(-*[0-9]*\\).*/{\"id\":\\1,\"answer\":\"a\\1\",\"tokens\":7}/'"

static struct outside *open_command(const char *command, int64_t requests)
{
	struct policy_options o = {.policy_command = command, .policy_timeout = 60, .policy_requests = requests};
	struct outside *x;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	return x;
}

/* The error of a command that is asked once. */
static int failure(const char *command, int64_t timeout_s, const char *expected)
{
	struct policy_options o = {.policy_command = command, .policy_timeout = timeout_s, .policy_requests = 4};
	struct outside *x;
	struct outside_answer a;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	ask(x, 3, "q");
	int rc = take(x, &a, &err);
	if (!rc || !strstr(err.text, expected)) fail_msg("%d: \"%s\" has no \"%s\"", rc, err.text, expected);
	outside_close(x);
	return rc;
}

/* What a model may write and a text may not hold marks the answer and does not end the run. */
static void test_broken_text(void **state)
{
	struct policy_options o = {
		.policy_command = "read -r l; printf '%s\\n' '{\"id\":3,\"answer\":\"a\\u0000b\\ud800\"}'; cat >/dev/null",
		.policy_timeout = 60,
		.policy_requests = 4};
	struct outside *x;
	struct outside_answer a;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	ask(x, 3, "q");
	assert_int_equal(take(x, &a, &err), 0);
	assert_true(a.is_broken && a.id == 3);
	assert_string_equal(a.text,
		"a\xef\xbf\xbd"
		"b\xef\xbf\xbd");
	free(a.text);
	outside_close(x);
}

/* A thread that has written to a command is as it was: the signal of a broken
 * pipe is not left blocked. */
static void expect_signals(void)
{
	sigset_t now;
	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &now), 0);
	assert_int_equal(sigismember(&now, SIGPIPE), 0);
}

static void test_command(void **state)
{
	struct outside *x = open_command(ECHO, 2);
	struct err err = {0};
	struct outside_answer a;
	bool seen[40] = {false};
	/* More text than a pipe holds, both ways, with two requests at once: nobody
	 * may wait for the other. */
	char *text = xmalloc(100001);
	memset(text, 'x', 100000);
	text[100000] = 0;
	for (int i = 0; i < 40; i++) ask(x, i, text);
	assert_int_equal(outside_waiting(x), 40);
	for (int i = 0; i < 40; i++) {
		char want[16];
		if (take(x, &a, &err)) fail_msg("%s", err.text);
		assert_true(a.id >= 0 && a.id < 40 && !seen[a.id]);
		seen[a.id] = true;
		snprintf(want, sizeof want, "a%d", (int)a.id);
		assert_string_equal(a.text, want);
		assert_true(a.tokens == 7 && a.len == strlen(want) && !a.is_cut);
		free(a.text);
	}
	assert_true(outside_waiting(x) == 0 && outside_counts_tokens(x));
	expect_signals(); /* requests go out while answers are waited for */
	outside_close(x);
	free(text);
}

/* An answer and the beginning of the next in one piece: what is left waits for its end. */
static void test_half_a_line(void **state)
{
	struct outside *x = open_command("read -r l; printf '{\"id\":1,\"answer\":\"a\"}\\n{\"id\":2,\"an'; read -r l; "
									 "printf 'swer\":\"b\"}\\n'; cat >/dev/null",
		1);
	struct err err = {0};
	struct outside_answer a;
	for (int i = 1; i <= 2; i++) ask(x, i, "q");
	for (int i = 1; i <= 2; i++) {
		if (take(x, &a, &err)) fail_msg("%s", err.text);
		assert_true(a.id == i && a.text);
		assert_string_equal(a.text, i == 1 ? "a" : "b");
		free(a.text);
	}
	outside_close(x);
}

/* A request goes out when there is room for it, though one before it is still open: here the first
 * of three is answered last. A command that goes on after its last request is waited for. */
static void test_order_and_end(void **state)
{
	char folder[] = "/tmp/hone-test-outside-XXXXXX";
	assert_non_null(mkdtemp(folder));
	char *ended = path_join(folder, "ended");
	char *command = xasprintf("read -r l; read -r l; echo '{\"id\":2,\"answer\":\"b\"}'; read -r l; "
							  "echo '{\"id\":3,\"answer\":\"c\"}'; echo '{\"id\":1,\"answer\":\"a\"}'; "
							  "cat >/dev/null; sleep 0.2; echo >%s",
		ended);
	struct outside *x = open_command(command, 2);
	struct err err = {0};
	struct outside_answer a;
	static const int order[] = {2, 3, 1};
	for (int i = 1; i <= 3; i++) ask(x, i, "q");
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (take(x, &a, &err)) fail_msg("%s", err.text);
		assert_int_equal(a.id, order[i]);
		free(a.text);
	}
	outside_close(x);
	assert_true(path_exists(ended));
	dir_remove(folder, NULL);
	free(command);
	free(ended);
}

/* What is asked arrives as it was said: quotes, newlines, text that is no ASCII. */
static void test_request(void **state)
{
	struct outside *x = open_command(
		"read -r l; printf '%s' \"$l\" | sed 's/.*\"messages\":\\(.*\\),\"sample\":.*/\\1/' "
		"| sed 's/[\\\"]/\\\\&/g; s/.*/{\"id\":5,\"answer\":\"&\",\"finish\":\"length\"}/'; "
		"echo; cat >/dev/null",
		1);
	struct err err = {0};
	struct outside_answer a;
	ask(x, 5, "say \"hi\"\n\xc3\xa9");
	if (take(x, &a, &err)) fail_msg("%s", err.text);
	assert_string_equal(a.text, "[{\"content\":\"say \\\"hi\\\"\\n\xc3\xa9\",\"role\":\"user\"}]");
	assert_true(a.is_cut && a.tokens == (int)a.len && !outside_counts_tokens(x)); /* bytes stand for tokens */
	free(a.text);
	outside_close(x);
}

static void test_failures(void **state)
{
	assert_int_equal(
		failure("exit 3", 60, "ended (exit 3) with 1 request unanswered, the first of them task t, sample 3"),
		ERR_CHILD);
	assert_int_equal(failure("kill -9 $$", 60, "signal 9"), ERR_CHILD);
	assert_int_equal(failure("/no/such/program", 60, "exit 127"), ERR_CHILD);
	assert_int_equal(failure("sleep 20", 1, "within 1 s"), ERR_TIMEOUT);
	assert_int_equal(failure("echo hello; cat >/dev/null", 60, "a line of --policy_command"), ERR_FORMAT);
	assert_int_equal(failure("echo '{\"id\":4,\"answer\":\"x\"}'; cat >/dev/null", 60, "id 4"), ERR_FORMAT);
	assert_int_equal(failure("read -r l; echo '{\"id\":3}'; cat >/dev/null", 60, "answer"), ERR_FORMAT);
	assert_int_equal(
		failure("read -r l; echo '{\"id\":3,\"answer\":\"x\",\"tokens\":-1}'; cat >/dev/null", 60, "tokens"),
		ERR_RANGE);
	assert_int_equal(
		failure("head -c 17000000 /dev/zero | tr '\\0' x; cat >/dev/null", 60, "a line of more than"), ERR_LIMIT);
	/* A broken text is marked in an answer alone: a list is none. */
	assert_int_equal(failure("printf '[\"\\377\"]\\n'; cat >/dev/null", 60, "0xff"), ERR_FORMAT);
	/* Zeros are no line of JSON. */
	assert_int_equal(
		failure("printf '{\"id\":3,\\0}\\n'; cat >/dev/null", 60, "a line of --policy_command"), ERR_FORMAT);
	/* Lines that say nothing come faster than they are read, and the deadline
	 * is seen all the same. */
	assert_int_equal(failure("yes ''", 1, "within 1 s"), ERR_TIMEOUT);
}

/* A text that cannot be sent is refused; the request does not go without it. */
static void test_no_utf8(void **state)
{
	struct outside *x = open_command("cat >/dev/null", 1);
	struct chat_message m = {"user", "caf\xe9"};
	struct outside_request r = {.id = 1, .task = "t", .stage = "backend", .messages = &m, .count = 1};
	struct err err = {0};
	assert_int_equal(outside_submit(x, &r, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "not UTF-8"));
	assert_int_equal(outside_waiting(x), 0);
	outside_close(x);
}

/* A policy may say that it has no answer; lengths in two units are refused. */
static void test_problem(void **state)
{
	struct outside *x = open_command(
		"read -r l; echo; printf ' \\t\\r\\n'; echo '{\"id\":1,\"error\":\"busy\"}'; read -r l; "
		"echo '{\"id\":2,\"answer\":\"x\",\"tokens\":1}'; read -r l; "
		"echo '{\"id\":3,\"answer\":\"x\"}'; cat >/dev/null",
		1);
	struct err err = {0};
	struct outside_answer a;
	for (int i = 1; i <= 3; i++) ask(x, i, "q");
	assert_int_equal(take(x, &a, &err), 0);
	assert_true(a.id == 1 && !a.text);
	assert_string_equal(a.problem, "busy");
	assert_int_equal(take(x, &a, &err), 0);
	assert_true(a.id == 2);
	free(a.text);
	assert_int_equal(take(x, &a, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "has no \"tokens\""));
	outside_close(x);
}

static char *file_make(const char *dir, const char *name, const char *text)
{
	struct err err = {0};
	char *path = path_join(dir, name);
	if (file_write_atomic(path, text, strlen(text), &err)) fail_msg("%s", err.text);
	return path;
}

static int set_ask(struct outside *x, const char *task, int sample, int turn, struct err *err)
{
	struct outside_request r = {.id = 9, .task = task, .sample = sample, .turn = turn, .stage = "frontend"};
	return outside_submit(x, &r, err);
}

static void test_sets(void **state)
{
	const char *build = getenv("BUILD");
	struct err err = {0};
	struct outside *x;
	struct outside_answer a;
	char *dir = path_join(build ? build : "build/release", "ref/outside"), *inside = path_join(dir, "level1");
	assert_int_equal(dir_remove(dir, &err), 0);
	assert_int_equal(dir_make(inside, &err), 0);
	free(file_make(inside, "19_ReLU.0.txt", "first"));
	free(file_make(inside, "19_ReLU.0.1.txt", ""));
	struct policy_options o = {.policy_answers = dir};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	assert_int_equal(set_ask(x, "level1/19_ReLU", 0, 0, &err), 0);
	assert_int_equal(take(x, &a, &err), 0);
	assert_true(a.id == 9 && a.tokens == 5);
	assert_string_equal(a.text, "first");
	free(a.text);
	assert_int_equal(set_ask(x, "level1/19_ReLU", 0, 1, &err), 0);
	assert_int_equal(take(x, &a, &err), 0);
	assert_string_equal(a.text, "");
	free(a.text);
	assert_int_equal(set_ask(x, "level1/19_ReLU", 1, 0, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "level1/19_ReLU.1.txt"));
	assert_int_equal(set_ask(x, "../outside/level1/19_ReLU", 0, 0, &err), ERR_USAGE);
	/* A pipe that nobody writes to is named, and not waited for. */
	char *fifo = path_join(inside, "19_ReLU.2.txt");
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(set_ask(x, "level1/19_ReLU", 2, 0, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "19_ReLU.2.txt is not a file"));
	free(fifo);
	outside_close(x);
	/* Rows, as `hone eval --out` writes them. */
	char *rows = file_make(dir, "rows.jsonl",
		"{\"task\":\"a\",\"sample\":1,\"answer\":\"x y\",\"tokens\":2}\n"
		"{\"task\":\"a\",\"sample\":1,\"answer\":\"z\",\"tokens\":1,\"stage\":\"midend\"}\n"
		"{\"task\":\"a\",\"sample\":1,\"stage\":\"final\"}\n"
		"{\"task\":\"b\",\"answer\":\"y\",\"tokens\":1,\"stage\":\"frontend\"}\n"
		"{\"task\":\"c\",\"answer\":\"y\",\"tokens\":1,\"stage\":\"midend\"}\n");
	o.policy_answers = rows;
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	assert_int_equal(set_ask(x, "a", 1, 0, &err), 0);
	assert_int_equal(take(x, &a, &err), 0);
	assert_true(a.tokens == 2 && outside_counts_tokens(x));
	assert_string_equal(a.text, "x y"); /* and not what a mid-end said of it */
	free(a.text);
	assert_int_equal(set_ask(x, "b", 0, 0, &err), 0);
	assert_int_equal(take(x, &a, &err), 0);
	free(a.text);
	assert_int_equal(set_ask(x, "c", 0, 0, &err), ERR_NOT_FOUND);
	assert_int_equal(set_ask(x, "a", 0, 0, &err), ERR_NOT_FOUND);
	outside_close(x);
	free(rows);
	rows = file_make(dir, "twice.jsonl", "{\"task\":\"a\",\"answer\":\"x\"}\n{\"task\":\"a\",\"answer\":\"y\"}\n");
	o.policy_answers = rows;
	assert_int_equal(outside_open(&o, &x, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "twice.jsonl:2"));
	o.policy_answers = "/no/such/folder";
	assert_int_equal(outside_open(&o, &x, &err), ERR_NOT_FOUND);
	o.policy_command = "cat";
	assert_int_equal(outside_open(&o, &x, &err), ERR_USAGE);
	o = (struct policy_options){.policy_command = "cat", .model = "m"};
	assert_int_equal(outside_open(&o, &x, &err), ERR_USAGE);
	free(rows);
	free(inside);
	free(dir);
}

/* Each field of a row that has a wrong kind or lies outside of its range is named with its row:
 * when the set is opened, or, what only an answer needs, when it is asked for. */
static void test_wrong_kinds(void **state)
{
	static const struct {
		const char *row, *field;
		bool opens;
	} rows[] = {{"{\"answer\":\"x\"}", "task", false}, {"{\"task\":3,\"answer\":\"x\"}", "task", false},
		{"{\"task\":\"a\"}", "answer", false}, {"{\"task\":\"a\",\"answer\":[]}", "answer", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"stage\":1}", "stage", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"sample\":\"0\"}", "sample", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"sample\":-1}", "sample", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"sample\":2147483648}", "sample", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"turn\":0.5}", "turn", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"turn\":-1}", "turn", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"turn\":2147483648}", "turn", false},
		{"{\"task\":\"a\",\"answer\":\"x\",\"tokens\":\"1\"}", "tokens", true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"tokens\":-1}", "tokens", true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"tokens\":2147483648}", "tokens", true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"finish\":1}", "finish", true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"error\":1}", "error", true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"sample\":0,\"turn\":0,\"tokens\":2147483647}", NULL, true},
		{"{\"task\":\"a\",\"answer\":\"x\",\"tokens\":0,\"finish\":\"stop\"}", NULL, true}};
	const char *build = getenv("BUILD");
	char *dir = path_join(build ? build : "build/release", "ref/outside_rows");
	struct err err = {0};
	assert_int_equal(dir_make(dir, &err), 0);
	/* A file of one row each, which is opened and asked for its answer. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *path = file_make(dir, "rows.jsonl", rows[i].row);
		struct policy_options o = {.policy_answers = path};
		struct outside *x = NULL;
		struct outside_answer a;
		int rc = outside_open(&o, &x, &err);
		if (!rc != rows[i].opens) fail_msg("%s: %d %s", rows[i].row, rc, err.text);
		if (!rc) rc = set_ask(x, "a", 0, 0, &err);
		if (!rc != !rows[i].field) fail_msg("%s: %d %s", rows[i].row, rc, err.text);
		if (rc && !strstr(err.text, rows[i].field)) fail_msg("%s: %s", rows[i].row, err.text);
		if (!rc) {
			assert_int_equal(take(x, &a, &err), 0);
			free(a.text);
		}
		if (rows[i].opens) outside_close(x);
		free(path);
	}
	free(dir);
}

/* Says its role and what it was told. The fields of a line are in alphabetical order. */
#define TELL \
	"sed -u 's/.*\"id\":\\([0-9]*\\).*\"content\":\"\\([^\"]*\\)\".*\"role\":\"\\([a-z]*\\)\".*/" \
	"{\"id\":\\1,\"answer\":\"\\3<\\2>\",\"tokens\":5}/'"

static void test_roles(void **state)
{
	/* No profiler; the coder is told the plan, which was told what the tester said. */
	static const char *const files[] = {
		"test", "T {{request}}\n", "plan", "P {{request}} {{test}}", "code", "C {{plan}} {{request}}{{test}}", NULL};
	char *folder = roles_folder(files);
	struct policy_options o = {
		.policy_command = TELL, .policy_roles = folder, .policy_timeout = 60, .policy_requests = 2};
	struct outside *x;
	struct outside_answer a;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < 5; i++) ask(x, i, i == 3 ? "r" : "q");
	for (int i = 0; i < 5; i++) {
		if (take(x, &a, &err)) fail_msg("%s", err.text);
		assert_string_equal(a.text,
			a.id == 3 ? "code<C plan<P r test<T r\n>> rtest<T r\n>>" : "code<C plan<P q test<T q\n>> qtest<T q\n>>");
		assert_int_equal(a.tokens, 15); /* of all roles */
		free(a.text);
	}
	assert_int_equal(outside_waiting(x), 0);
	outside_close(x);
	folder_remove(folder);
}

/* A role that has no answer ends its chain, and nothing is left over when
 * some are not collected. */
static void test_roles_without_answer(void **state)
{
	static const char *const files[] = {"plan", "{{request}}", "code", "{{request}} {{plan}}", NULL};
	char *folder = roles_folder(files);
	struct policy_options o = {.policy_command = "sed -u 's/.*\"id\":\\([0-9]*\\).*/{\"id\":\\1,\"error\":\"tired\"}/'",
		.policy_roles = folder,
		.policy_timeout = 60,
		.policy_requests = 1};
	struct outside *x;
	struct outside_answer a;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	ask(x, 1, "q");
	ask(x, 2, "q");
	if (take(x, &a, &err)) fail_msg("%s", err.text);
	assert_null(a.text);
	assert_string_equal(a.problem, "tired");
	outside_close(x);
	folder_remove(folder);
}

static void roles_refused(const char *const *files, const char *expected)
{
	char *folder = roles_folder(files);
	struct policy_options o = {.policy_command = "cat", .policy_roles = folder, .policy_requests = 1};
	struct outside *x;
	struct err err = {0};
	int rc = outside_open(&o, &x, &err);
	if (!rc || !strstr(err.text, expected)) fail_msg("%d: \"%s\" has no \"%s\"", rc, err.text, expected);
	folder_remove(folder);
}

static void test_roles_refused(void **state)
{
	roles_refused((const char *[]){"plan", "{{request}}", NULL}, "code.txt");
	roles_refused((const char *[]){"code", "{{request}} {{plan}}", NULL}, "hole {{plan}}");
	roles_refused((const char *[]){"test", "{{request}} {{code}}", "code", "{{request}}", NULL}, "hole {{code}}");
	roles_refused((const char *[]){"code", "{{request", NULL}, "hole {{}}");
	roles_refused((const char *[]){"code", "do it", NULL}, "has no {{request}}");
	/* Those that ship with hone are whole. */
	struct policy_options o = {.policy_command = "cat", .policy_roles = "recipes/prompts/roles", .policy_requests = 1};
	struct outside *x;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	outside_close(x);
}

/* What a plan says of whose memory it is, and which rank it plans with. */
static void test_words_of_options(void **state)
{
	struct ops host = {.host_memory = true}, device = {.host_memory = false};
	struct policy_options o = {.memory = "1GiB", .cuda_card = "a100"};
	struct ops_card card;
	struct err err = {0};
	const size_t little = (size_t)1 << 30;
	assert_int_equal(ops_card_find("a100", &card, &err), 0);
	const size_t has = (size_t)card.memory_bytes;
	assert_string_equal(policy_room_name(&o, &device, little), "--memory allows");
	/* What allows more than there is limits nothing. */
	o.memory = "1TiB";
	assert_string_equal(policy_room_name(&o, &device, has), "the card has");
	assert_string_equal(policy_room_name(&o, &device, has - 1), "the device has");
	assert_string_equal(policy_room_name(&o, &host, little), "this machine has");
	o.memory = NULL;
	assert_string_equal(policy_room_name(&o, &device, has), "the card has");
	o.cuda_card = NULL;
	assert_string_equal(policy_room_name(&o, &device, little), "the device has");
	assert_string_equal(policy_room_name(&o, &host, little), "this machine has");
	o.lora_r = 16;
	assert_int_equal(policy_rank(&o), 0);
	o.use_peft = true;
	assert_int_equal(policy_rank(&o), 16);
	/* An adapter that is there has its own. */
	char *folder = roles_folder((const char *[]){"code", "", NULL}), *path = path_join(folder, "adapter_config.json");
	o.adapter = folder;
	assert_int_equal(policy_rank(&o), 16);
	assert_int_equal(file_write_atomic(path, "{\"r\": 5}", 8, &err), 0);
	assert_int_equal(policy_rank(&o), 5);
	o.use_peft = false;
	assert_int_equal(policy_rank(&o), 5);
	assert_false(policy_is_outside(&o));
	o.policy_command = "cat";
	assert_true(policy_is_outside(&o));
	o = (struct policy_options){.policy_answers = "a"};
	assert_true(policy_is_outside(&o));
	free(path);
	folder_remove(folder);
}

static int open_descriptors(void)
{
	int bits = 0;
	for (int fd = 0; fd < 24; fd++) bits |= (fcntl(fd, F_GETFD) >= 0) << fd;
	return bits;
}

/* Room for so many descriptors beside the first three: 0 where the command ran, 1 where it was
 * refused with a word of why, more where either left something else open than before. */
static int open_within(int room)
{
	struct policy_options o = {.policy_command = ECHO, .policy_timeout = 60, .policy_requests = 1};
	struct outside *x = NULL;
	struct err err = {0};
	struct rlimit limit;
	if (close_range(3, ~0u, 0) || getrlimit(RLIMIT_NOFILE, &limit)) return 2;
	limit.rlim_cur = 3 + (rlim_t)room;
	if (setrlimit(RLIMIT_NOFILE, &limit)) return 3;
	int rc = outside_open(&o, &x, &err);
	if (rc)
		return (rc == ERR_INFRA || rc == ERR_CHILD) && strstr(err.text, "--policy_command") && open_descriptors() == 7
			? 1
			: 4;
	outside_close(x);
	return open_descriptors() == 7 ? 0 : 5;
}

/* Each pipe and process that cannot be made is told, and what was made before it is closed, and
 * nothing else: standard input is still there. */
static void test_no_descriptors(void **state)
{
	int refused = 0;
	for (int room = 0; room <= 12; room++) {
		int status = 0;
		pid_t pid = fork();
		if (!pid) _exit(open_within(room));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) fail_msg("room for %d: status %x", room, status);
		refused += WEXITSTATUS(status);
	}
	assert_true(refused > 4 && refused < 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_command), cmocka_unit_test(test_order_and_end),
		cmocka_unit_test(test_half_a_line), cmocka_unit_test(test_request), cmocka_unit_test(test_broken_text),
		cmocka_unit_test(test_failures), cmocka_unit_test(test_no_utf8), cmocka_unit_test(test_problem),
		cmocka_unit_test(test_sets), cmocka_unit_test(test_wrong_kinds), cmocka_unit_test(test_roles),
		cmocka_unit_test(test_roles_without_answer), cmocka_unit_test(test_roles_refused),
		cmocka_unit_test(test_words_of_options), cmocka_unit_test(test_no_descriptors)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
