/* Who connects to rank 0, and who answers a rank: strangers, ranks of other jobs, and nobody. */
#include "rank_world.h"
#include "ranks/ranks_internal.h"
#include "ops/ops.h"

#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WORLD = 3 };
static const struct ranks_options options = {.transport = "auto", .timeout_s = 60};

static int meets(int rank, void *ctx)
{
	struct ranks *r;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	NEED(!ranks_meet(r, &err), "%s", err.text);
	ranks_close(r, NULL);
	return 0;
}

static int stranger_connect(int port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
	for (int i = 0; i < 500; i++, sleep_ms(10)) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		if (!connect(fd, (struct sockaddr *)&a, sizeof a)) return fd;
		close(fd);
	}
	return -1;
}

/* Bytes of all kinds before the ranks come: a length of 4 GiB, half a greeting,
 * another program's, nothing. */
static void test_strangers(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
	} said[] = {{"\xff\xff\xff\xff", 4}, {"\x20\0\0\0{\"rank\": 1", 14}, {"GET / HTTP/1.1\r\n\r\n", 18},
		{"\x02\0\0\0{}", 6}, {"", 0}};
	int port = free_port();
	pid_t first = rank_start(0, WORLD, port, meets, NULL);
	for (size_t i = 0; i < ARRAY_LEN(said); i++) {
		int fd = stranger_connect(port);
		assert_true(fd >= 0);
		assert_true(send(fd, said[i].bytes, said[i].len, MSG_NOSIGNAL) == (ssize_t)said[i].len);
		close(fd);
	}
	pid_t others[] = {rank_start(1, WORLD, port, meets, NULL), rank_start(2, WORLD, port, meets, NULL)};
	assert_int_equal(rank_end(first) | rank_end(others[0]) | rank_end(others[1]), 0);
}

static int is_refused(int rank, void *ctx)
{
	struct ranks *r = NULL;
	struct err err = {0};
	NEED(ranks_open(&options, &r, &err) == ERR_MISMATCH && strstr(err.text, ctx) && !r, "%s", err.text);
	return 0;
}

/* A rank of a job of another size, and of another job. */
static void test_refused(void **state)
{
	int port = free_port();
	pid_t first = rank_start(0, 2, port, is_refused, (void *)(uintptr_t)"rank 2 of 4"),
		  other = rank_start(2, 4, port, is_refused, (void *)(uintptr_t)"rank 0 was started with 2 ranks");
	assert_int_equal(rank_end(first) | rank_end(other), 0);
	first = rank_start(0, 2, port, meets, NULL);
	setenv("TORCHELASTIC_RUN_ID", "another", 1);
	other = rank_start(1, 2, port, is_refused, (void *)(uintptr_t)"another job listens");
	unsetenv("TORCHELASTIC_RUN_ID");
	assert_int_equal(rank_end(other), 0);
	pid_t second = rank_start(1, 2, port, meets, NULL);
	assert_int_equal(rank_end(first) | rank_end(second), 0);
}

/* With a descriptor for the listener and none for who comes. */
static int has_no_descriptor(int rank, void *ctx)
{
	struct ranks *r = NULL;
	struct err err = {0};
	struct rlimit most;
	int next = dup(0);
	close(next);
	getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = (rlim_t)next + 1;
	setrlimit(RLIMIT_NOFILE, &most);
	NEED(ranks_open(&options, &r, &err) == ERR_IO && !r, "%s", err.text);
	NEED(strstr(err.text, "rank 0 can take nobody in at 127.0.0.1, port ") && strstr(err.text, "(ulimit -n)"), "%s",
		err.text);
	return 0;
}

/* Rank 0 says so at once, and does not wait for a rank that it cannot hear. */
static void test_descriptors(void **state)
{
	int port = free_port();
	pid_t first = rank_start(0, WORLD, port, has_no_descriptor, NULL);
	int fd = stranger_connect(port);
	assert_true(fd >= 0);
	uint64_t begin = clock_ns();
	assert_int_equal(rank_end(first), 0);
	assert_true(clock_ns() - begin < 30000000000u);
	close(fd);
}

/* A greeting that no rank of hone sends, in its framing; the answer, NULL: the connection was
 * closed without one. A new reference. */
static json_t *greet(int fd, const char *job, const char *fields)
{
	struct err err = {0};
	struct str text = {0};
	json_t *answer = NULL;
	str_printf(&text, "{\"program\": \"hone\", \"job\": \"%s\", %s}", job, fields);
	if (msg_send(fd, text.data, text.len, NULL, 0, clock_ns() + 5000000000u, &err)) fail_msg("%s", err.text);
	if (!msg_recv(fd, 4096, &text, NULL, NULL, clock_ns() + 5000000000u, &err) &&
		json_parse(text.data, text.len, "an answer", &answer, &err))
		fail_msg("%s", err.text);
	str_release(&text);
	return answer;
}

/* Which job listens: the answer to a rank of another one says it, beside the refusal. */
static void job_of(int port, char *job, size_t room)
{
	int fd = stranger_connect(port);
	json_t *answer = greet(fd, "another", "\"rank\": 1, \"ranks\": 2, \"name\": \"n\"");
	assert_non_null(strstr(json_string_value(json_object_get(answer, "refusal")), "another job listens at 127.0.0.1"));
	assert_int_equal(json_integer_value(json_object_get(answer, "rank")), 0);
	snprintf(job, room, "%s", json_string_value(json_object_get(answer, "job")));
	json_decref(answer);
	close(fd);
}

/* Each word of a greeting on both sides of its bounds. What is no greeting is dropped; a rank of
 * this job that cannot be right is told why, and ends it. */
static void test_greetings(void **state)
{
	static const struct {
		const char *fields;
		const char *refusal; /* NULL: dropped */
	} rows[] = {
		{"\"rank\": -1, \"ranks\": 2, \"name\": \"n\"", NULL},
		{"\"rank\": 4097, \"ranks\": 2, \"name\": \"n\"", NULL},
		{"\"rank\": 1, \"ranks\": 0, \"name\": \"n\"", NULL},
		{"\"rank\": 1, \"ranks\": 4097, \"name\": \"n\"", NULL},
		{"\"rank\": 1, \"ranks\": 2", NULL},
		{"\"rank\": 1, \"name\": \"n\"", NULL},
		{"\"ranks\": 2, \"name\": \"n\"", NULL},
		{"\"rank\": 1, \"ranks\": 2, \"name\": \"n\", \"refusal\": 1", NULL},
		{"\"rank\": 0, \"ranks\": 2, \"name\": \"a\\u001bb\"",
			"rank 0 was started with 2 ranks; rank 0 of 2 (a?b) is none that it waits for"},
		{"\"rank\": 2, \"ranks\": 2, \"name\": \"n\"", "rank 2 of 2 (n) is none that it waits for"},
		{"\"rank\": 4096, \"ranks\": 2, \"name\": \"n\"", "rank 4096 of 2 (n) is none that it waits for"},
		{"\"rank\": 1, \"ranks\": 1, \"name\": \"n\"", "rank 1 of 1 (n) is of a job of another size"},
		{"\"rank\": 1, \"ranks\": 4096, \"name\": \"n\"", "rank 1 of 4096 (n) is of a job of another size"},
	};
	char job[128] = "";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int port = free_port();
		pid_t first = rank_start(0, 2, port, rows[i].refusal ? is_refused : meets, (void *)(uintptr_t)rows[i].refusal);
		job_of(port, job, sizeof job);
		int fd = stranger_connect(port);
		json_t *answer = greet(fd, job, rows[i].fields);
		const char *refusal = json_string_value(json_object_get(answer, "refusal"));
		if (!answer != !rows[i].refusal || (answer && (!refusal || !strstr(refusal, rows[i].refusal))))
			fail_msg("%s: %s", rows[i].fields, refusal ? refusal : "dropped, or taken");
		json_decref(answer);
		close(fd);
		pid_t other = rows[i].refusal ? 0 : rank_start(1, 2, port, meets, NULL);
		assert_int_equal(rank_end(first), 0);
		if (other) assert_int_equal(rank_end(other), 0);
	}
	/* One that is there is not there twice. */
	int port = free_port(), fds[2];
	pid_t first = rank_start(0, 3, port, is_refused, (void *)(uintptr_t)"rank 2 of 3 (b) is there already");
	job_of(port, job, sizeof job);
	for (int i = 0; i < 2; i++) {
		fds[i] = stranger_connect(port);
		json_t *answer = greet(fds[i], job,
			i ? "\"rank\": 2, \"ranks\": 3, \"name\": \"b\"" : "\"rank\": 2, \"ranks\": 3, \"name\": \"a\"");
		assert_int_equal(json_is_string(json_object_get(answer, "refusal")), i);
		json_decref(answer);
	}
	assert_int_equal(rank_end(first), 0);
	for (int i = 0; i < 2; i++) close(fds[i]);
}

/* A message as a rank sends it: magic, kind (1: a last word) and round, then what it carries. */
static void message(int fd, uint32_t kind, uint32_t round, const char *text)
{
	struct err err = {0};
	uint32_t head[3] = {0, kind, round};
	memcpy(head, "RNK1", 4);
	if (msg_send(fd, head, sizeof head, NULL, 0, clock_ns() + 5000000000u, &err) ||
		msg_send(fd, text, strlen(text), NULL, 0, clock_ns() + 5000000000u, &err))
		fail_msg("%s", err.text);
}

/* Rank 0 of two: hears a long message and then the last word, which is `ctx` and no byte more.
 * Nothing goes on after it. */
static int hears(int rank, void *ctx)
{
	struct ranks *r;
	struct err err = {0}, later = {0};
	struct str all[2] = {{0}}, bytes = {0};
	struct ops none = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	NEED(!ranks_gather(r, "a", 1, all, &err) && all[1].len == 2000, "%s", err.text);
	NEED(ranks_meet(r, &err) == ERR_CHILD && !strcmp(err.text, ctx), "\"%s\", expected \"%s\"", err.text,
		(const char *)ctx);
	NEED(ranks_meet(r, &later) == ERR_CHILD, "%s", later.text);
	NEED(ranks_sum(r, &none, NULL, 0, &later) == ERR_CHILD, "%s", later.text);
	NEED(ranks_broadcast(r, &bytes, &later) == ERR_CHILD, "%s", later.text);
	NEED(ranks_watch(r, &later) == ERR_CHILD, "%s", later.text);
	NEED(ranks_gather(r, "a", 1, all, &later) == ERR_CHILD, "%s", later.text);
	NEED(!strcmp(later.text, "the job of 2 ranks has ended"), "%s", later.text);
	for (int k = 0; k < 2; k++) str_release(&all[k]);
	ranks_close(r, &err);
	return 0;
}

/* A last word is heard as it was said, after a longer message too; of one that has no end the
 * first 900 bytes, without what would move a terminal's cursor. */
static void test_last_words(void **state)
{
	char before[2001] = "", cut[901] = "", long_word[2001] = "";
	memset(before, 'x', 2000);
	memset(long_word, 'y', 2000);
	memset(cut, 'y', 900);
	const struct {
		const char *said;
		const char *heard;
	} rows[] = {{"rank 1 left\a", "rank 1 left?"}, {"", ""}, {long_word, cut}};
	char job[128] = "";
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int port = free_port();
		pid_t first = rank_start(0, 2, port, hears, (void *)(uintptr_t)rows[i].heard);
		job_of(port, job, sizeof job);
		int fd = stranger_connect(port);
		json_t *answer = greet(fd, job, "\"rank\": 1, \"ranks\": 2, \"name\": \"n\"");
		assert_true(answer && !json_is_string(json_object_get(answer, "refusal")));
		json_decref(answer);
		message(fd, 0, 0, before);
		message(fd, 1, 1, rows[i].said);
		assert_int_equal(rank_end(first), 0);
		close(fd);
	}
}

/* A rank tries again where rank 0's answer is none, and shows its refusal without what would move
 * a terminal's cursor. */
static void test_answers(void **state)
{
	int port = free_port(), listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a) | listen(listener, 8), 0);
	pid_t rank = rank_start(1, 2, port, is_refused, (void *)(uintptr_t)"no?");
	const char *const answers[] = {"", "{}", "{\"rank\": 0, \"ranks\": 2, \"job\": \"j\"}",
		"{\"rank\": 0, \"ranks\": 2, \"job\": \"j\", \"name\": \"n\", \"refusal\": \"no\\u0007\"}"};
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct err err = {0};
		struct str text = {0};
		int fd = accept(listener, NULL, NULL);
		assert_true(fd >= 0);
		if (msg_recv(fd, 4096, &text, NULL, NULL, clock_ns() + 5000000000u, &err)) fail_msg("%s", err.text);
		assert_non_null(strstr(text.data, "\"rank\":1,\"ranks\":2"));
		if (*answers[i]) msg_send(fd, answers[i], strlen(answers[i]), NULL, 0, clock_ns() + 5000000000u, &err);
		close(fd);
		str_release(&text);
	}
	close(listener);
	assert_int_equal(rank_end(rank), 0);
}

/* Rank 0 waits in spans of 0.2 s: whoever comes after several of them is let in. */
static int comes_late(int rank, void *ctx)
{
	struct ranks *r = NULL;
	struct err err = {0};
	struct ranks_options o = {.transport = "auto", .timeout_s = 30};
	sleep_ms(rank * 700);
	NEED(!ranks_open(&o, &r, &err), "%s", err.text);
	NEED(!ranks_meet(r, &err), "%s", err.text);
	ranks_close(r, NULL);
	return 0;
}

static void test_late(void **state)
{
	int port = free_port();
	pid_t first = rank_start(0, 2, port, comes_late, NULL), other = rank_start(1, 2, port, comes_late, NULL);
	assert_int_equal(rank_end(first) | rank_end(other), 0);
}

static int waits_for_nobody(int rank, void *ctx)
{
	struct ranks *r = NULL;
	struct err err = {0};
	struct ranks_options o = {.transport = "auto", .timeout_s = 1};
	NEED(ranks_open(&o, &r, &err) == ERR_TIMEOUT, "%s", err.text);
	NEED(strstr(err.text, ctx), "%s", err.text);
	/* It has slept meanwhile. */
	NEED(clock() < CLOCKS_PER_SEC / 10, "%.2f s of work", (double)clock() / CLOCKS_PER_SEC);
	return 0;
}

static void test_missing(void **state)
{
	/* Of many that did not come the first eight are named. */
	pid_t first = rank_start(0, WORLD, free_port(), waits_for_nobody, (void *)(uintptr_t)"rank 1, 2 of 3 did not come"),
		  other = rank_start(
			  1, WORLD, free_port(), waits_for_nobody, (void *)(uintptr_t)"waited 1 s for rank 0 at 127.0.0.1"),
		  many = rank_start(0, 12, free_port(), waits_for_nobody,
			  (void *)(uintptr_t)"rank 1, 2, 3, 4, 5, 6, 7, 8 of 12 did not come");
	assert_int_equal(rank_end(first) | rank_end(other) | rank_end(many), 0);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_greetings),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_missing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
