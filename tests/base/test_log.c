/* The log and progress: levels, whole lines, no control bytes from strangers, and time. */
#include "base_test.h"
#include <pthread.h>

/* Runs fn with stderr in a file and returns what it wrote; the caller releases it. */
static struct str captured(void (*fn)(void))
{
	char *dir = scratch_make(), *path = path_join(dir, "err");
	fflush(stderr);
	int saved = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	dup2(fd, 2);
	fn();
	dup2(saved, 2);
	close(saved);
	close(fd);
	struct str out = {0};
	assert_int_equal(file_read(path, 1 << 20, &out, NULL), 0);
	free(path);
	scratch_remove(dir);
	return out;
}

/* The same of what shows times: again where the machine held it up for long enough to be seen. */
static struct str captured_at_once(void (*fn)(void))
{
	for (;;) {
		uint64_t begin = clock_ns();
		struct str out = captured(fn);
		if (clock_ns() - begin < 50000000u) return out;
		str_release(&out);
	}
}

static void say_levels(void)
{
	log_info("shown %d", 1);
	log_warn("shown %d", 2);
}

static void levels(void **state)
{
	struct str s = captured(say_levels);
	assert_non_null(strstr(s.data, " info  shown 1\n"));
	assert_non_null(strstr(s.data, " warn  shown 2\n"));
	str_release(&s);
}

static void say_controls(void)
{
	log_info("a\033[2Jb\rc\bd\x7f"
			 "e\tf\xc2\x9b"
			 "g\xc3\xa9\xc2\xa9 %s",
		"\a");
}

static void control_bytes_are_shown(void **state)
{
	struct str s = captured(say_controls);
	assert_non_null(strstr(s.data, " info  a\\x1b[2Jb\\x0dc\\x08d\\x7fe\tf\\x9bg\xc3\xa9\xc2\xa9 \\x07\n"));
	str_release(&s);
}

static void *say_many(void *arg)
{
	char text[200];
	memset(text, *(char *)arg, sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (int i = 0; i < 200; i++) log_info("%s", text);
	return NULL;
}

static void say_from_threads(void)
{
	pthread_t t[2];
	char names[] = "xy";
	for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, say_many, &names[i]);
	for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

static void lines_stay_whole(void **state)
{
	struct str s = captured(say_from_threads);
	int lines = 0;
	for (char *p = s.data; *p; p = strchr(p, '\n') + 1, lines++) {
		char *text = strstr(p, "info  ") + 6;
		assert_int_equal(strspn(text, *text == 'x' ? "x" : "y"), 199);
		assert_int_equal(text[199], '\n');
	}
	assert_int_equal(lines, 400);
	str_release(&s);
}

static void show_progress(void)
{
	struct progress p;
	progress_begin(&p, "tasks", "task", 40);
	progress_update(&p, 10, "early"); /* not a terminal and not 10 s later: no line */
	p.last_ns = 0;
	p.start_ns -= 2000000000u;
	progress_update(&p, 20, "note\033");
	progress_update(&p, 40, NULL);
	progress_end(&p);
}

static void plain_progress(void **state)
{
	struct str s = captured(show_progress);
	assert_null(strstr(s.data, "early"));
	assert_null(strchr(s.data, '\r'));
	assert_non_null(strstr(s.data, "tasks 20/40 task  "));
	assert_non_null(strstr(s.data, "/s  2s left  note\\x1b\n"));
	assert_non_null(strstr(s.data, "tasks 40/40 task  "));
	assert_non_null(strstr(s.data, "  in 2s\n"));
	str_release(&s);
}

/* On a terminal: one line that is drawn over, with a bar of 24 cells. */
static void show_bars(void)
{
	static const int64_t done[] = {-3, 0, 9, 20, 40, 45};
	struct progress p;
	progress_begin(&p, "tasks", "task", 40);
	p.is_tty = true;
	for (size_t i = 0; i < ARRAY_LEN(done); i++) {
		p.last_ns = 0;
		progress_update(&p, done[i], NULL);
	}
	progress_update(&p, 11, "early"); /* sooner than a tenth of a second later */
	/* Words of the log begin a line of their own. */
	log_info("between");
	progress_end(&p);
	progress_begin(&p, "open", "row", 0);
	p.is_tty = true;
	p.last_ns = 0;
	progress_update(&p, 7, NULL);
}

static void bars(void **state)
{
	struct str s = captured_at_once(show_bars);
	static const char *const lines[] = {"tasks [........................] -3/40 task",
		"tasks [........................] 0/40 task", "tasks [#####...................] 9/40 task",
		"tasks [############............] 20/40 task", "tasks [########################] 40/40 task",
		"tasks [########################] 45/40 task"};
	const char *at = s.data;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		assert_memory_equal(at, "\r\033[K", 4);
		assert_memory_equal(at + 4, lines[i], strlen(lines[i]));
		at = strpbrk(at + 4, "\r\n");
	}
	assert_null(strstr(s.data, "early"));
	/* The last line of a bar stays and ends; without a total there is no bar. */
	assert_non_null(strstr(at, " info  between\n\r\033[Ktasks [######"));
	assert_non_null(strstr(at, "  in 0s\n\r\033[Kopen 7 row"));
	assert_int_not_equal(s.data[s.len - 1], '\n');
	str_release(&s);
}

/* The time that is left, and a rate below one: of 100 in so many seconds one is done. */
static void show_long(void)
{
	static const struct {
		int64_t done;
		uint64_t seconds;
	} rows[] = {{1, 1}, {10, 11}, {1, 60}, {50, 60}, {50, 59}, {50, 3600}, {50, 3660}, {50, 3599}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct progress p;
		progress_begin(&p, "x", "u", 100);
		p.last_ns = 0;
		p.start_ns -= rows[i].seconds * 1000000000u;
		progress_update(&p, rows[i].done, NULL);
	}
}

static void times_left(void **state)
{
	struct str s = captured_at_once(show_long);
	assert_string_equal(s.data,
		"x 1/100 u  1.0/s  1m39s left\nx 10/100 u  0.91/s  1m39s left\nx 1/100 u  0.017/s  1h39m left\n"
		"x 50/100 u  0.83/s  1m00s left\nx 50/100 u  0.85/s  59s left\n"
		"x 50/100 u  0.014/s  1h00m left\nx 50/100 u  0.014/s  1h01m left\n"
		"x 50/100 u  0.014/s  59m59s left\n");
	str_release(&s);
}

static void clocks(void **state)
{
	uint64_t a = clock_ns();
	sleep_ms(5);
	uint64_t b = clock_ns();
	assert_true(b - a >= 5000000u);
	sleep_ms(0);
	sleep_ms(-5);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(levels),
	cmocka_unit_test(control_bytes_are_shown),
	cmocka_unit_test(lines_stay_whole),
	cmocka_unit_test(plain_progress),
	cmocka_unit_test(bars),
	cmocka_unit_test(times_left),
	cmocka_unit_test(clocks),
};
TAP_MAIN(tests)
