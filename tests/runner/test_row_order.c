/* Which rows of a tape race, over rows written by hand: an order that is
 * there, the same without it. */
#include "runner/row_order.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "../leaks.h"

#define ROWS_MAX 8

static struct tape_view views[4] = {{.buffer = 0}, {.buffer = 1}, {.buffer = 2}, {.buffer = 3}};

#define FILL(s, to) {.kind = TAPE_FILL, .stream = s, .dst = {.buffer = to}}
#define COPY(s, to, from) {.kind = TAPE_COPY, .stream = s, .dst = {.buffer = to}, .src = {.buffer = from}}
#define READ(s, from) {.kind = TAPE_LIBRARY, .stream = s, .nreads = 1, .reads = &views[from]}
#define RECORD(s, e) {.kind = TAPE_RECORD, .stream = s, .event = e}
#define WAIT(s, e) {.kind = TAPE_WAIT, .stream = s, .event = e}

static struct row_race find(struct tape_row *rows, int n, int output, const bool *skipped)
{
	static const bool none[ROWS_MAX];
	struct tape_view out = {.buffer = output};
	struct tape t = {
		.nrows = n, .rows = rows, .nbuffers = 4, .noutputs = 1, .outputs = &out, .nstreams = 3, .nevents = 2};
	return row_race_find(&t, NULL, skipped ? skipped : none, NULL);
}

#define EXPECT(row_, other_, buffer_, output, ...) \
	do { \
		struct tape_row rows[] = {__VA_ARGS__}; \
		struct row_race r = find(rows, (int)ARRAY_LEN(rows), output, NULL); \
		if (r.row != (row_) || r.other != (other_) || r.buffer != (buffer_)) \
			fail_msg("line %d: row %d, other %d, buffer %d", __LINE__, r.row, r.other, r.buffer); \
	} while (0)
#define FREE(...) EXPECT(-1, -1, -1, 3, __VA_ARGS__)

static void test_streams_and_events(void **state)
{
	/* One stream is in order, whatever it does. */
	FREE(FILL(0, 1), COPY(0, 2, 1), FILL(0, 1), READ(0, 2));
	/* Two that share nothing, or only read the same. */
	FREE(FILL(0, 1), FILL(1, 2), READ(0, 0), READ(1, 0));
	/* A read after a write, a write after a read, a write after a write: on two
	 * streams each is a race. */
	EXPECT(1, 0, 1, 3, FILL(0, 1), READ(1, 1));
	EXPECT(1, 0, 1, 3, READ(0, 1), FILL(1, 1));
	EXPECT(1, 0, 1, 3, FILL(0, 1), FILL(1, 1));
	EXPECT(2, 0, 1, 3, COPY(0, 2, 1), FILL(0, 2), FILL(1, 1));
	/* An event orders what was done before it, and nothing later. */
	FREE(FILL(0, 1), RECORD(0, 0), WAIT(1, 0), READ(1, 1));
	FREE(READ(0, 1), RECORD(0, 0), WAIT(1, 0), FILL(1, 1));
	EXPECT(3, 1, 1, 3, RECORD(0, 0), FILL(0, 1), WAIT(1, 0), READ(1, 1));
	EXPECT(4, 2, 1, 3, FILL(0, 1), RECORD(0, 0), FILL(0, 1), WAIT(1, 0), READ(1, 1));
	EXPECT(4, 2, 1, 3, READ(0, 1), RECORD(0, 0), READ(0, 1), WAIT(1, 0), FILL(1, 1));
	EXPECT(3, 0, 1, 3, FILL(0, 1), RECORD(0, 0), WAIT(1, 1), READ(1, 1));
	/* Through a third stream. */
	FREE(FILL(0, 1), RECORD(0, 0), WAIT(1, 0), RECORD(1, 1), WAIT(2, 1), READ(2, 1));
}

/* The caller goes on with the outputs on the default stream. */
static void test_outputs(void **state)
{
	EXPECT(0, -1, 3, 3, FILL(1, 3));
	EXPECT(-1, -1, -1, 3, FILL(1, 3), RECORD(1, 0), WAIT(0, 0));
	EXPECT(2, -1, 3, 3, FILL(1, 3), RECORD(1, 0), FILL(1, 3), WAIT(0, 0));
	EXPECT(-1, -1, -1, 2, FILL(1, 3));
}

static void test_skipped(void **state)
{
	struct tape_row rows[] = {FILL(0, 1), FILL(1, 1)};
	static const bool skipped[ROWS_MAX] = {true, false};
	assert_int_equal(find(rows, 2, 3, skipped).row, -1);
	assert_int_equal(find(rows, 2, 3, NULL).row, 1);
}

/* A launch that may start before the one in front of it ended races with it, unless
 * it waits or is not let. */
static void test_dependent_launches(void **state)
{
	static const uint8_t late[2] = {0, ROW_WRITES}, early[2] = {ROW_READS_EARLY, ROW_WRITES | ROW_WRITES_EARLY};
	struct tape_arg first[2] = {{.kind = TAPE_ARG_POINTER, .buffer = 0}, {.kind = TAPE_ARG_POINTER, .buffer = 1}},
					second[2] = {{.kind = TAPE_ARG_POINTER, .buffer = 1}, {.kind = TAPE_ARG_POINTER, .buffer = 2}};
	struct tape_row rows[] = {{.kind = TAPE_LAUNCH, .nargs = 2, .args = first},
		{.kind = TAPE_LAUNCH, .kernel = 1, .nargs = 2, .args = second}};
	struct tape_view out = {.buffer = 2};
	/* All ways: dependent or not, let by the launch in front or not, waiting for it or not; and the
	 * same of a launch that writes over what the one in front of it wrote,
	 * in place of reading it. */
	for (int how = 0; how < 16; how++) {
		second[0].buffer = how & 8 ? 3 : 1;
		second[1].buffer = how & 8 ? 1 : 2;
		struct tape_kernel kernels[2] = {{.name = NULL}, {.is_pdl = how & 1}};
		struct row_kernel does[2] = {{.triggers = how & 2, .uses = late, .nargs = 2},
			{.may_skip_wait = !(how & 4), .uses = how & 4 ? late : early, .nargs = 2}};
		struct tape t = {.nrows = 2,
			.rows = rows,
			.nbuffers = 4,
			.nkernels = 2,
			.kernels = kernels,
			.noutputs = 1,
			.outputs = &out,
			.nstreams = 1};
		struct row_race r = row_race_find(&t, does, (const bool[2]){false, false}, NULL);
		bool is_race = (how & 7) == 3; /* dependent, let, and it does not wait */
		assert_int_equal(r.row, is_race ? 1 : -1);
		assert_int_equal(r.buffer, is_race ? 1 : -1);
	}
}

/* Three launches of one stream, the last two dependent: the first and the third have buffer 1, the
 * second `between`. skips: the second may end without having waited. */
static struct row_race three_launches(
	const uint8_t *first, const uint8_t *second, const uint8_t *third, int between, bool skips)
{
	struct tape_arg made = {.kind = TAPE_ARG_POINTER, .buffer = 1},
					other = {.kind = TAPE_ARG_POINTER, .buffer = between};
	struct tape_row rows[] = {{.kind = TAPE_LAUNCH, .nargs = 1, .args = &made},
		{.kind = TAPE_LAUNCH, .kernel = 1, .nargs = 1, .args = &other},
		{.kind = TAPE_LAUNCH, .kernel = 2, .nargs = 1, .args = &made}};
	struct tape_kernel kernels[3] = {{.name = NULL}, {.is_pdl = true}, {.is_pdl = true}};
	struct tape_view out = {.buffer = 3};
	struct tape t = {.nrows = 3,
		.rows = rows,
		.nbuffers = 4,
		.nkernels = 3,
		.kernels = kernels,
		.noutputs = 1,
		.outputs = &out,
		.nstreams = 1};
	struct row_kernel does[3] = {{.triggers = true, .uses = first, .nargs = 1},
		{.triggers = true, .may_skip_wait = skips, .uses = second, .nargs = 1}, {.uses = third, .nargs = 1}};
	return row_race_find(&t, does, (const bool[3]){false, false, false}, NULL);
}

/* A launch that waits for the one in front of it knows that this one ended; of the one before that
 * only where the one in front has waited itself. */
static void test_chains_of_dependent_launches(void **state)
{
	static const uint8_t writes[1] = {ROW_WRITES}, reads[1] = {0};
	for (int skips = 0; skips < 2; skips++) {
		struct row_race r = three_launches(writes, writes, reads, 2, skips);
		assert_int_equal(r.row, skips ? 2 : -1);
		assert_int_equal(r.other, skips ? 0 : -1);
		assert_int_equal(r.buffer, skips ? 1 : -1);
	}
}

/* Two launches read what a third one writes over; it waits for the second alone, which has not
 * waited for the first. */
static void test_earlier_readers(void **state)
{
	static const uint8_t writes[1] = {ROW_WRITES}, reads[1] = {ROW_READS_EARLY};
	for (int skips = 0; skips < 2; skips++) {
		struct row_race r = three_launches(reads, reads, writes, 1, skips);
		assert_int_equal(r.row, skips ? 2 : -1);
		assert_int_equal(r.other, skips ? 0 : -1);
	}
}

/* What a launch of the tests below does: it reads one buffer and writes another, before its wait or
 * behind it. */
struct does {
	int from, to;
	bool is_normal; /* not dependent: it begins when all in front of it has ended */
	bool is_early;  /* uses both before it waits */
	bool skips;     /* may end without having waited */
	bool triggers;  /* lets dependent launches begin, at once */
	bool is_late;   /* but not before it has waited */
};

/* Buffer 0 is an input, 3 an output of `bytes` bytes where the input has 64,
 * 1 and 2 are temporary. */
static struct row_race launches(const struct does *does, int n, int64_t bytes)
{
	static const bool none[ROWS_MAX];
	static const uint8_t late[2] = {0, ROW_WRITES}, early[2] = {ROW_READS_EARLY, ROW_WRITES | ROW_WRITES_EARLY};
	struct tape_arg args[ROWS_MAX][2];
	struct tape_row rows[ROWS_MAX] = {{.kind = TAPE_LAUNCH}};
	struct tape_kernel kernels[ROWS_MAX] = {{.name = NULL}};
	struct row_kernel order[ROWS_MAX];
	struct tape_buffer buffers[4] = {{.kind = TAPE_INPUT, .bytes = 64}, {.kind = TAPE_TEMP, .bytes = 64},
		{.kind = TAPE_TEMP, .bytes = 64}, {.kind = TAPE_TEMP, .bytes = bytes}};
	struct tape_view out = {.buffer = 3};
	/* A row and a kernel for each launch. */
	for (int i = 0; i < n; i++) {
		args[i][0] = (struct tape_arg){.kind = TAPE_ARG_POINTER, .buffer = does[i].from};
		args[i][1] = (struct tape_arg){.kind = TAPE_ARG_POINTER, .buffer = does[i].to};
		rows[i] = (struct tape_row){.kind = TAPE_LAUNCH, .kernel = i, .nargs = 2, .args = args[i]};
		kernels[i] = (struct tape_kernel){.is_pdl = !does[i].is_normal};
		order[i] = (struct row_kernel){.may_skip_wait = does[i].skips,
			.triggers = does[i].triggers,
			.triggers_early = does[i].triggers && !does[i].is_late,
			.uses = does[i].is_early ? early : late,
			.nargs = 2};
	}
	struct tape t = {.nrows = n,
		.rows = rows,
		.nbuffers = 4,
		.buffers = buffers,
		.nkernels = n,
		.kernels = kernels,
		.noutputs = 1,
		.outputs = &out,
		.nstreams = 1};
	return row_race_find(&t, order, none, NULL);
}

#define RACES(row_, other_, is_next, bytes, ...) \
	do { \
		struct does does[] = {__VA_ARGS__}; \
		struct row_race r = launches(does, (int)ARRAY_LEN(does), bytes); \
		if (r.row != (row_) || r.other != (other_) || r.is_next_call != (is_next)) \
			fail_msg("line %d: row %d, other %d, next call %d", __LINE__, r.row, r.other, r.is_next_call); \
	} while (0)

/* Who waits for a launch knows what that one waited for, and so on, and nothing else. */
static void test_waits_for_waits(void **state)
{
	/* The third waits for the second, which has waited for nobody; so does
	 * the fourth by the third. */
	for (int skips = 0; skips < 2; skips++)
		RACES(skips ? 3 : -1, skips ? 0 : -1, false, 64, {.from = 0, .to = 1, .is_normal = true, .triggers = true},
			{.from = 0, .to = 2, .is_early = skips, .skips = skips, .triggers = true},
			{.from = 2, .to = 2, .triggers = true}, {.from = 1, .to = 3});
	/* The second lets nobody begin, but may have ended before the first. */
	for (int skips = 0; skips < 2; skips++)
		RACES(skips ? 2 : -1, skips ? 0 : -1, false, 64, {.from = 0, .to = 1, .is_normal = true, .triggers = true},
			{.from = 0, .to = 2, .is_early = skips, .skips = skips}, {.from = 1, .to = 3, .is_early = true});
	/* Nor does who is behind that one and waits for nobody either. */
	RACES(3, 0, false, 64, {.from = 0, .to = 1, .is_normal = true, .triggers = true},
		{.from = 0, .to = 2, .is_early = true, .skips = true}, {.from = 0, .to = 3, .is_early = true, .skips = true},
		{.from = 1, .to = 3});
	/* The third begins when the second lets it: behind the first, or not. */
	for (int is_late = 0; is_late < 2; is_late++)
		RACES(is_late ? -1 : 2, is_late ? -1 : 0, false, 64, {.from = 0, .to = 1, .is_normal = true, .triggers = true},
			{.from = 0, .to = 2, .triggers = true, .is_late = is_late}, {.from = 1, .to = 3, .is_early = true});
}

/* Forward is called again on what it returned. */
static void test_next_call(void **state)
{
	/* A launch that reads before it waits, behind one that lets it begin:
	 * itself, in the call before. */
	RACES(0, 0, true, 64, {.from = 0, .to = 3, .is_early = true, .triggers = true});
	RACES(-1, -1, false, 64, {.from = 0, .to = 3, .triggers = true});
	RACES(-1, -1, false, 64, {.from = 0, .to = 3, .is_early = true});
	RACES(-1, -1, false, 64, {.from = 0, .to = 3, .is_early = true, .is_normal = true, .triggers = true});
	/* An output of another size is no input of the next call. */
	RACES(-1, -1, false, 128, {.from = 0, .to = 3, .is_early = true, .triggers = true});
	/* Memory that forward takes and lets go is the next call's. */
	RACES(0, 1, true, 128, {.from = 0, .to = 1, .is_early = true}, {.from = 1, .to = 3, .triggers = true});
	RACES(-1, -1, false, 128, {.from = 0, .to = 1}, {.from = 1, .to = 3, .triggers = true});
	/* The last launch ends without having waited: who waits for it knows nothing of the first. */
	RACES(0, 0, true, 64, {.from = 0, .to = 3, .triggers = true},
		{.from = 0, .to = 2, .is_early = true, .skips = true, .triggers = true});
	RACES(-1, -1, false, 64, {.from = 0, .to = 3, .triggers = true}, {.from = 0, .to = 2, .triggers = true});
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_streams_and_events(NULL);
	test_outputs(NULL);
	test_skipped(NULL);
	test_dependent_launches(NULL);
	test_chains_of_dependent_launches(NULL);
	test_earlier_readers(NULL);
	test_waits_for_waits(NULL);
	test_next_call(NULL);
}

static void test_leaves_nothing(void **state) { leaves_nothing(everything, NULL); }

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_streams_and_events), cmocka_unit_test(test_outputs),
		cmocka_unit_test(test_skipped), cmocka_unit_test(test_dependent_launches),
		cmocka_unit_test(test_chains_of_dependent_launches), cmocka_unit_test(test_earlier_readers),
		cmocka_unit_test(test_waits_for_waits), cmocka_unit_test(test_next_call),
		cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
