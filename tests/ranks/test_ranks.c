/* Ranks: who is who, rounds among forked processes over loopback, sums in rank order, and what
 * everybody hears of a rank that is lost, fails, hangs or does something else. */
#include "rank_world.h"
#include "ops/ops.h"
#include "ranks/ranks_internal.h"
#include "../leaks.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <math.h>
#include <signal.h>
#include <sys/socket.h>

enum { WORLD = 3 };
static const struct ranks_options options = {.transport = "auto", .timeout_s = 60};

/* ---- who is who ---- */

static void variables_clear(void)
{
	static const char *const names[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT",
		"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST",
		"TORCHELASTIC_RUN_ID", "CUDA_VISIBLE_DEVICES"};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) unsetenv(names[i]);
}

static void test_place(void **state)
{
	struct place p;
	struct err err = {0};
	variables_clear();
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.is_alone && ranks_is_first(&options));
	/* torchrun: the port is the one above its own, or the one that was named. */
	rank_variables(2, 4, 29501);
	setenv("LOCAL_RANK", "0", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(
		!p.is_alone && p.rank == 2 && p.world == 4 && p.local == 0 && p.port == 29501 && !ranks_is_first(&options));
	struct ranks_options named = options;
	named.port = 1234;
	assert_int_equal(place_find(&named, &p, &err), 0);
	assert_int_equal(p.port, 1234);
	assert_int_equal(ranks_planned(&options), 4);
	setenv("WORLD_SIZE", "1", 1); /* as some images set it for all */
	unsetenv("RANK");
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.is_alone);
	/* What is wrong is named. */
	setenv("WORLD_SIZE", "4", 1);
	assert_int_equal(place_find(&options, &p, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "RANK="));
	assert_int_equal(ranks_planned(&options), 1);
	setenv("RANK", "4", 1);
	assert_int_equal(place_find(&options, &p, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "0 to 3"));
	setenv("RANK", "1", 1);
	unsetenv("MASTER_ADDR");
	assert_int_equal(place_find(&options, &p, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "MASTER_ADDR"));
	variables_clear();
}

static void test_slurm(void **state)
{
	struct place p;
	struct err err = {0};
	char first[64], little[6];
	static const char *const lists[][2] = {{"gpu[03-05,9],x1", "gpu03"}, {"n7", "n7"}, {"a,b", "a"},
		{"rack2-[9,11]", "rack2-9"}, {"node[01-03,7]", "node01"}, {"r[2-3]n[007,9-11]-ib,x", "r2n007-ib"},
		{"n[5]", "n5"}, {"n[08", "n08"}, {"", ""}};
	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		first_node(lists[i][0], first, sizeof first);
		assert_string_equal(first, lists[i][1]);
	}
	first_node("node[01-03]", little, sizeof little); /* no more than there is room for */
	assert_string_equal(little, "node");
	variables_clear();
	/* The script of a job has no step: a process there is alone. */
	setenv("SLURM_JOB_ID", "4711", 1);
	setenv("SLURM_PROCID", "0", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.is_alone);
	setenv("SLURM_STEP_ID", "3", 1);
	setenv("SLURM_STEP_NUM_TASKS", "8", 1);
	setenv("SLURM_PROCID", "5", 1);
	setenv("SLURM_LOCALID", "1", 1);
	setenv("SLURM_STEP_NODELIST", "gpu[03-04]", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(!p.is_alone && p.rank == 5 && p.world == 8 && p.local == 1);
	assert_int_equal(p.port, 20000 + (4711 * 7 + 3) % 20000); /* seven steps of one job have a port each */
	assert_string_equal(p.host, "gpu03");
	/* Sizes that a job's script sets for all tasks alike are not torchrun's. */
	setenv("WORLD_SIZE", "8", 1);
	setenv("MASTER_PORT", "29500", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.rank == 5 && p.world == 8 && p.local == 1 && !strcmp(p.host, "gpu03") && p.port >= 20000);
	/* torchrun within a step is. */
	setenv("MASTER_ADDR", "10.0.0.1", 1);
	setenv("RANK", "3", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.rank == 3 && p.port == 29501 && !strcmp(p.host, "10.0.0.1"));
	unsetenv("WORLD_SIZE");
	unsetenv("RANK");
	/* The user's word for where rank 0 is goes before the list of nodes. */
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_true(p.rank == 5 && !strcmp(p.host, "10.0.0.1"));
	unsetenv("MASTER_ADDR");
	assert_int_equal(place_find(&options, &p, &err), 0);
	int port = p.port;
	setenv("SLURM_STEP_ID", "4", 1);
	assert_int_equal(place_find(&options, &p, &err), 0);
	assert_int_not_equal(p.port, port); /* another step of the same job */
	variables_clear();
}

static void test_alone(void **state)
{
	struct str one = {0}, bytes = {0};
	struct err err = {0};
	int64_t begin, end;
	double values[2] = {1, 2};
	ranks_share(NULL, 7, &begin, &end);
	assert_true(ranks_count(NULL) == 1 && begin == 0 && end == 7);
	/* What was there before is gone. */
	for (int i = 0; i < 2; i++) assert_int_equal(ranks_gather(NULL, "abc", 3, &one, &err), 0);
	assert_int_equal(one.len, 3);
	assert_memory_equal(one.data, "abc", 3);
	assert_int_equal(ranks_add(NULL, values, 2, &err) || ranks_meet(NULL, &err) || ranks_watch(NULL, &err) ||
			ranks_broadcast(NULL, &bytes, &err) || ranks_agree(NULL, "x", "y", &err) ||
			ranks_sum(NULL, NULL, NULL, 5, &err),
		0);
	char *device = ranks_device(NULL, "cuda");
	assert_string_equal(device, "cuda");
	free(device);
	str_release(&one);
}

/* ---- rounds ---- */

static int rounds(int rank, void *ctx)
{
	struct ranks *r;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	NEED(ranks_rank(r) == rank && ranks_count(r) == WORLD, "of another job");
	for (int round = 0; round < 20; round++) {
		/* Everybody gets everybody's bytes, which differ in length, one of them empty. */
		struct str all[WORLD] = {{0}}, text = {0};
		char mine[64];
		memset(mine, 'a' + rank, sizeof mine);
		NEED(!ranks_gather(r, mine, (size_t)(rank * 7), all, &err), "%s", err.text);
		for (int k = 0; k < WORLD; k++) {
			NEED(all[k].len == (size_t)(k * 7), "rank %d gave %zu bytes", k, all[k].len);
			for (size_t i = 0; i < all[k].len; i++) NEED(all[k].data[i] == 'a' + k, "byte %zu of rank %d", i, k);
			str_release(&all[k]);
		}
		str_puts(&text, rank ? "mine" : "rank 0's");
		NEED(!ranks_broadcast(r, &text, &err) && !strcmp(text.data, "rank 0's"), "%s", text.data);
		str_release(&text);
		double values[2] = {1e16 * (rank == 0) + (rank == 1) - 1e16 * (rank == 2), rank};
		NEED(!ranks_add(r, values, 2, &err), "%s", err.text);
		/* (1e16 + 1) - 1e16 is 0 in fp64, in this order alone. */
		NEED(values[0] == 0 && values[1] == 3, "%g %g", values[0], values[1]);
		NEED(!ranks_watch(r, &err), "%s", err.text);
	}
	int64_t begin, end;
	ranks_share(r, 11, &begin, &end);
	double size = (double)(end - begin);
	NEED(size >= 3 && size <= 4 && !ranks_add(r, &size, 1, &err) && size == 11, "shares of %g", size);
	long blocks = 0;
	for (int again = 0; again < 4; again++) {
		if (again == 1) blocks = live_blocks;
		NEED(ranks_agree(r, "tables", "x = 12; y = 3", &err) == 0, "%s", err.text);
	}
	NEED(live_blocks == blocks, "agreeing leaves %ld blocks of the heap", live_blocks - blocks);
	ranks_close(r, NULL);
	return 0;
}

static void test_rounds(void **state)
{
	int status[WORLD];
	ranks_run(WORLD, rounds, NULL, status);
	for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
}

/* Each connection is asked whether the other side lives, and sends what is small at once. */
static int sockets_look(int rank, void *ctx)
{
	static const struct {
		int level;
		int name;
		int value;
	} options_expected[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, 20}, {IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 4},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, 60000}};
	struct ranks *r;
	struct err err = {0};
	int connected = 0;
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof peer;
		if (getpeername(fd, (struct sockaddr *)&peer, &len) ||
			(peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
			continue;
		connected++;
		for (size_t i = 0; i < ARRAY_LEN(options_expected); i++) {
			int value = -1;
			len = sizeof value;
			NEED(!getsockopt(fd, options_expected[i].level, options_expected[i].name, &value, &len), "option %zu", i);
			NEED(value == options_expected[i].value, "option %zu is %d", i, value);
		}
	}
	/* Of the first rank with every other, and of those with it. */
	NEED(connected == (rank ? 1 : WORLD - 1), "%d connections", connected);
	NEED(!ranks_meet(r, &err), "%s", err.text);
	ranks_close(r, NULL);
	return 0;
}

static void test_sockets(void **state)
{
	int status[WORLD];
	ranks_run(WORLD, sockets_look, NULL, status);
	for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
}

/* Bytes of several pieces, on both sides of a piece's end, and none at all. */
static int broadcasts(int rank, void *ctx)
{
	static const size_t piece = (size_t)32 << 20;
	const size_t sizes[] = {piece - 1, piece, 2 * piece + 77, 0, 3};
	struct ranks *r;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		struct str bytes = {0};
		str_puts(&bytes, "mine");
		uint64_t *words = xcalloc(sizes[k] / 8 + 1, 8);
		for (size_t i = 0; i < sizes[k] / 8 + 1; i++) words[i] = i * 0x9e3779b97f4a7c15u + k;
		if (!rank) str_clear(&bytes), str_append(&bytes, words, sizes[k]);
		NEED(!ranks_broadcast(r, &bytes, &err), "%s", err.text);
		NEED(bytes.len == sizes[k] && !memcmp(bytes.data, words, sizes[k]), "%zu bytes of %zu", bytes.len, sizes[k]);
		NEED(bytes.data[bytes.len] == 0, "no end behind %zu bytes", bytes.len);
		str_release(&bytes);
		free(words);
	}
	NEED(!ranks_meet(r, &err), "%s", err.text);
	ranks_close(r, NULL);
	return 0;
}

static void test_broadcast(void **state)
{
	int status[WORLD];
	ranks_run(WORLD, broadcasts, NULL, status);
	for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
}

/* Whoever says something else is named, rank 1 where rank 0 itself does; more of the same is not
 * the same. Nothing has ended by it. */
static int disagrees(int rank, void *ctx)
{
	static const char *const others[] = {"seed 1, rate 0.25", "seed 1, rate 0.5, more", "seed 1"};
	struct ranks *r;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		for (int who = 0; who < WORLD; who++) {
			const char *said = rank == who ? others[i] : "seed 1, rate 0.5";
			char names[64];
			snprintf(names, sizeof names, "settings of rank %d and of rank 0", who ? who : 1);
			NEED(ranks_agree(r, "settings", said, &err) == ERR_MISMATCH, "%zu", i);
			NEED(strstr(err.text, names) && strstr(err.text, others[i]), "%s", err.text);
			NEED(!ranks_agree(r, "settings", "seed 1, rate 0.5", &err), "%s", err.text);
		}
	ranks_close(r, NULL);
	return 0;
}

static void test_agree(void **state)
{
	int status[WORLD];
	ranks_run(WORLD, disagrees, NULL, status);
	for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
}

/* ---- sums of a device's values ---- */

/* More than a message holds, and an odd number. */
enum { VALUES = (1 << 20) + 77 };
static float value_of(int rank, int64_t i)
{
	return ldexpf(rng_normal(7, (uint64_t)rank, (uint64_t)(i % 5003)), (int)((i * 3 + rank * 11) % 30) - 15);
}

static int sums(int rank, void *ctx)
{
	struct ranks *r;
	struct ops *ops;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	NEED(!ops_open(ctx, &(struct ops_options){.threads = 1}, &ops, &err), "%s", err.text);
	NEED(!ranks_join(r, ops, &err) && !strcmp(ranks_way(r), "tcp"), "%s", err.text);
	float *host = xmalloc(VALUES * sizeof *host);
	struct f32 *values = ops->alloc(ops->ctx, VALUES * sizeof *host);
	for (int64_t i = 0; i < VALUES; i++) host[i] = value_of(rank, i);
	ops->put_f32(ops->ctx, values, host, VALUES);
	NEED(!ranks_sum(r, ops, values, VALUES, &err), "%s", err.text);
	ops->get_f32(ops->ctx, host, values, VALUES);
	/* One rounding an addition, ranks in order; another order would differ somewhere. */
	int64_t other = 0;
	for (int64_t i = 0; i < VALUES; i++) {
		float forward = value_of(0, i), backward = value_of(WORLD - 1, i);
		for (int k = 1; k < WORLD; k++) forward += value_of(k, i), backward += value_of(WORLD - 1 - k, i);
		NEED(
			!memcmp(&host[i], &forward, sizeof forward), "value %lld: %a, expected %a", (long long)i, host[i], forward);
		other += forward != backward;
	}
	NEED(other > VALUES / 100, "the order shows in %lld values alone", (long long)other);
	ops->release(ops->ctx, values);
	ops_free(ops);
	free(host);
	ranks_close(r, NULL);
	return 0;
}

static void test_sums(void **state)
{
	int status[WORLD];
	for (int i = 0; i < 2; i++) {
		ranks_run(WORLD, sums, (void *)(uintptr_t)(i ? "check" : "cpu"), status);
		for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
	}
}

/* ---- losses ---- */

enum loss { LOSS_EXIT, LOSS_KILL, LOSS_ERROR, LOSS_HANG, LOSS_OTHER, LOSS_WATCHED };

/* Rank 1 does something in the second round; the others find out what they are told. */
static int loses(int rank, void *ctx)
{
	enum loss how = *(enum loss *)ctx;
	struct ranks *r;
	struct err err = {0};
	struct ranks_options o = options;
	o.timeout_s = how == LOSS_HANG ? 1 : 60;
	NEED(!ranks_open(&o, &r, &err), "%s", err.text);
	NEED(!ranks_meet(r, &err), "%s", err.text);
	if (rank == 1) {
		struct err why = {ERR_LIMIT, "the disk is full of plums"};
		if (how == LOSS_EXIT || how == LOSS_WATCHED) _exit(0);
		if (how == LOSS_KILL) raise(SIGKILL);
		if (how == LOSS_ERROR) ranks_close(r, &why);
		if (how == LOSS_ERROR) _exit(0);
		if (how == LOSS_HANG) sleep_ms(4000);
		if (how == LOSS_HANG) _exit(0);
		/* A round ahead of the others. */
		r->round++;
		ranks_gather(r, "", 0, (struct str[WORLD]){{0}}, &err);
		_exit(0);
	}
	int rc = 0;
	if (how == LOSS_WATCHED)
		for (int i = 0; !rc && i < 1000; i++) {
			rc = ranks_watch(r, &err);
			sleep_ms(10);
		}
	else rc = ranks_meet(r, &err);
	static const struct {
		int code;
		const char *said;
	} expected[] = {
		[LOSS_EXIT] = {ERR_CHILD, "is gone: its connection closed"},
		[LOSS_KILL] = {ERR_CHILD, "is gone: its connection closed"},
		[LOSS_ERROR] = {ERR_CHILD, "ended with an error: the disk is full of plums"},
		[LOSS_HANG] = {ERR_TIMEOUT, "has said nothing"},
		[LOSS_OTHER] = {ERR_MISMATCH, "is at another point of the work"},
		[LOSS_WATCHED] = {ERR_CHILD, "is gone: its connection closed"},
	};
	NEED(rc == (rank ? ERR_CHILD : expected[how].code), "%d: %s", rc, err.text);
	NEED(strstr(err.text, "rank 1 of 3 (") && strstr(err.text, expected[how].said), "%s", err.text);
	NEED(strstr(err.text, "process ") && strstr(err.text, "start all ranks again"), "%s", err.text);
	/* No round is possible after it. */
	NEED(ranks_meet(r, &err) == ERR_CHILD, "%s", err.text);
	ranks_close(r, &err);
	return 0;
}

/* One rank is gone, and the others hear which, on which machine and as which process. */
static int names_the_lost(int rank, void *ctx)
{
	int gone = (int)(uintptr_t)ctx;
	struct ranks *r;
	struct err err = {0};
	struct str processes[WORLD] = {{0}};
	char own[32], host[64] = "", expected[160];
	gethostname(host, sizeof host - 1);
	int len = snprintf(own, sizeof own, "%d", (int)getpid());
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	NEED(!ranks_gather(r, own, (size_t)len, processes, &err), "%s", err.text);
	if (rank == gone) _exit(0);
	NEED(ranks_meet(r, &err) == ERR_CHILD, "%s", err.text);
	snprintf(expected, sizeof expected, "rank %d of 3 (%s, process %.*s) is gone: its connection closed", gone, host,
		(int)processes[gone].len, processes[gone].data);
	NEED(strstr(err.text, expected), "\"%s\" lacks \"%s\"", err.text, expected);
	for (int k = 0; k < WORLD; k++) str_release(&processes[k]);
	ranks_close(r, &err);
	return 0;
}

static void test_names_of_the_lost(void **state)
{
	for (int gone = 0; gone < WORLD; gone++) {
		int status[WORLD];
		ranks_run(WORLD, names_the_lost, (void *)(uintptr_t)gone, status);
		for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
	}
}

static void test_losses(void **state)
{
	for (enum loss how = LOSS_EXIT; how <= LOSS_WATCHED; how++) {
		int status[WORLD];
		ranks_run(WORLD, loses, &how, status);
		assert_int_equal(status[0], 0);
		assert_int_equal(status[1], how == LOSS_KILL ? 128 + SIGKILL : 0);
		assert_int_equal(status[2], 0);
	}
}

/* ---- devices that add by a way of their own ---- */

/* A device whose way never ends: it asks, as it has to, whether all are there. Rank 1 leaves inside
 * the call that is named, between the two calls, or nobody does. */
static struct {
	int rank;
	const char *ends_in;
} device;

static int device_id(struct ops_context *c, void *id, struct err *err) { return 0; }

static int device_wait(const char *call, bool (*is_lost)(void *, struct err *), void *ctx, struct err *err)
{
	if (device.rank == 1 && !strcmp(device.ends_in, call)) _exit(0);
	while (!is_lost(ctx, err)) sleep_ms(5);
	return err->code;
}
static int device_join(struct ops_context *c, const void *id, int rank, int count,
	bool (*is_lost)(void *, struct err *), void *ctx, struct err *err)
{
	return strstr(device.ends_in, "sum") ? 0 : device_wait("join", is_lost, ctx, err);
}
static int device_sum(struct ops_context *c, struct f32 *values, int64_t n, bool (*is_lost)(void *, struct err *),
	void *ctx, struct err *err)
{
	return device_wait("sum", is_lost, ctx, err);
}

static int loses_device(int rank, void *ctx)
{
	struct ranks *r;
	struct ops ops = {.ranks_id = device_id, .ranks_join = device_join, .ranks_sum = device_sum};
	struct err err = {0};
	struct ranks_options o = options;
	device.rank = rank, device.ends_in = ctx;
	bool is_hung = !strcmp(device.ends_in, "nothing"), is_sum = strstr(device.ends_in, "sum");
	if (is_hung) o.timeout_s = 1;
	NEED(!ranks_open(&o, &r, &err), "%s", err.text);
	int rc = ranks_join(r, &ops, &err);
	NEED(!is_sum || (!rc && !strcmp(ranks_way(r), "nccl")), "%s", err.text);
	if (rank == 1 && !strcmp(device.ends_in, "before the sum")) _exit(0);
	if (is_sum) rc = ranks_sum(r, &ops, NULL, 1, &err);
	/* Whose time is up first tells the others. */
	if (is_hung) NEED(rc == ERR_TIMEOUT || rc == ERR_CHILD, "%d: %s", rc, err.text);
	else NEED(rc == ERR_CHILD && strstr(err.text, "rank 1 of 3 ("), "%d: %s", rc, err.text);
	NEED(strstr(err.text, is_hung ? "waited 1 s for all to join their devices" : "is gone: its connection closed"),
		"%s", err.text);
	NEED(strstr(err.text, "start all ranks again") && ranks_meet(r, &err) == ERR_CHILD, "%s", err.text);
	ranks_close(r, &err);
	return 0;
}

static void test_devices(void **state)
{
	static const char *const ends[] = {"join", "before the sum", "sum", "nothing"};
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		int status[WORLD];
		ranks_run(WORLD, loses_device, (void *)(uintptr_t)ends[i], status);
		for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
	}
}

/* Rank 0 itself fails. */
static int first_fails(int rank, void *ctx)
{
	struct ranks *r;
	struct err err = {0}, why = {ERR_IO, "no such tasks"};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	if (rank == 0) {
		ranks_close(r, &why);
		return 0;
	}
	NEED(ranks_meet(r, &err) == ERR_CHILD && strstr(err.text, "rank 0 of 3") && strstr(err.text, "no such tasks"), "%s",
		err.text);
	ranks_close(r, &err);
	return 0;
}

static void test_first_fails(void **state)
{
	int status[WORLD];
	ranks_run(WORLD, first_fails, NULL, status);
	for (int k = 0; k < WORLD; k++) assert_int_equal(status[k], 0);
}

/* Rank 1 says its last word and stays to hear whether anything is still said to it: whoever has
 * left may read no more, and who tells it something would wait for that. */
static int last_word(int rank, void *ctx)
{
	static const char word[] = "rank 1 of 2 has had enough";
	struct ranks *r;
	struct err err = {0};
	NEED(!ranks_open(&options, &r, &err), "%s", err.text);
	if (rank == 0) {
		NEED(ranks_meet(r, &err) == ERR_CHILD && !strcmp(err.text, word), "%s", err.text);
		ranks_close(r, &err);
		return 0;
	}
	const struct {
		char magic[4];
		uint32_t kind;
		uint32_t round;
	} head = {{'R', 'N', 'K', '1'}, 1, r->round};
	int fd = r->peers[0].fd;
	NEED(!msg_send(fd, &head, sizeof head, NULL, 0, 0, &err) && !msg_send(fd, word, strlen(word), NULL, 0, 0, &err),
		"%s", err.text);
	int rc = msg_recv(fd, 4096, &r->in, NULL, NULL, clock_ns() + 60000000000u, &err);
	NEED(rc && rc != ERR_TIMEOUT, "%d, %zu bytes: %s", rc, r->in.len, err.text);
	ranks_close(r, NULL);
	return 0;
}

static void test_last_word(void **state)
{
	int status[2];
	ranks_run(2, last_word, NULL, status);
	for (int k = 0; k < 2; k++) assert_int_equal(status[k], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_slurm),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_rounds),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_broadcast),
		cmocka_unit_test(test_agree),
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_names_of_the_lost),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_first_fails),
		cmocka_unit_test(test_last_word),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
