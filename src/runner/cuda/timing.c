/* timing: how long a tape takes on the GPU, from the first row's start to the last one's end.
 *
 * Each replay is queued as a whole behind a gate (a word in the GPU's memory that the stream waits
 * for), so that the host's time is in none of it. Before the gate all buffers are made anew, and then
 * the L2 cache is filled with other memory, by writes first and reads last: the replay finds nothing
 * of its data there, and no dirty lines to write back. Two events stand around the rows on the first
 * stream; the other streams wait for the first and are waited for before the second. The same with no
 * rows between them is what the clock itself costs (empty_ns). */
#include "runner/cuda/gpu_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

#define WARM_UP 3
#define EMPTY_REPEATS 9
#define FLUSH_L2_TIMES 3
#define QUEUED_ROWS_MAX 400 /* a stream takes some thousand commands before the host has to wait */

struct clock {
	struct cuda *c;
	const bool *is_skipped;
	cu_stream gate_stream;
	cu_event first, last, joined[TAPE_STREAMS_MAX];
	cu_address gate, flush;
	size_t flush_bytes;
};

static int not_timed(struct runner_result *out, const char *why)
{
	snprintf(out->untimed, sizeof out->untimed, "%s", why);
	return 0;
}

/* Why this tape cannot be queued as a whole; NULL when it can. */
static const char *obstacle(struct cuda *c, const bool *is_skipped)
{
	int rows = 0;
	if (!c->cu.StreamWaitValue32 || !c->cu.StreamWriteValue32 || !cuda_own_load(c))
		return "the driver lacks what a gate needs";
	for (int i = 0; i < c->tape->nrows; i++) {
		const struct tape_row *row = &c->tape->rows[i];
		if (is_skipped[i]) continue;
		rows++;
		if (row->kind == TAPE_LAUNCH && c->tape->nstreams > 1 &&
			(c->kernels[row->kernel]->binary.global_scratch_bytes ||
				c->kernels[row->kernel]->binary.profile_scratch_bytes))
			return "launches on several streams share scratch memory";
		if ((row->kind == TAPE_FILL || row->kind == TAPE_COPY) && !cuda_move_can_queue(c, row))
			return "a copy that casts is done on the host";
	}
	return rows > QUEUED_ROWS_MAX ? "more rows than can wait behind a gate" : NULL;
}

static int clock_create(struct clock *k, struct cuda *c, const bool *is_skipped, struct runner_fault *fault)
{
	const struct cu *cu = &c->cu;
	*k = (struct clock){.c = c, .is_skipped = is_skipped, .flush_bytes = (size_t)c->l2_bytes * FLUSH_L2_TIMES};
	cu_result r = cu->StreamCreate(&k->gate_stream, CU_STREAM_ALONE);
	if (!r) r = cu->EventCreate(&k->first, CU_EVENT_TIMED);
	if (!r) r = cu->EventCreate(&k->last, CU_EVENT_TIMED);
	for (int s = 1; s < c->tape->nstreams && !r; s++) r = cu->EventCreate(&k->joined[s], CU_EVENT_UNTIMED);
	if (!r) r = cu->MemAlloc(&k->gate, 256);
	if (!r) r = cu->MemAlloc(&k->flush, k->flush_bytes + 256);
	return cuda_check(c, r, "preparing to time", -1, fault);
}

static void clock_free(struct clock *k)
{
	const struct cu *cu = &k->c->cu;
	if (k->c->is_spent) return;
	if (k->gate) cu->MemFree(k->gate);
	if (k->flush) cu->MemFree(k->flush);
	if (k->first) cu->EventDestroy(k->first);
	if (k->last) cu->EventDestroy(k->last);
	for (int s = 1; s < TAPE_STREAMS_MAX; s++)
		if (k->joined[s]) cu->EventDestroy(k->joined[s]);
	if (k->gate_stream) cu->StreamDestroy(k->gate_stream);
}

/* Everything that must be over before the clock starts. */
static int prepare(struct clock *k, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	cu_stream s = c->streams[0];
	uint64_t words = k->flush_bytes / 16;
	int rc = 0;
	for (int b = 0; b < c->nbuffers && !rc; b++) rc = cuda_buffer_fill(c, b, fault);
	if (!rc) rc = cuda_check(c, c->cu.MemsetD8Async(k->flush, 0x5a, k->flush_bytes, s), "a flush", -1, fault);
	if (!rc) {
		cu_address sink = k->flush + k->flush_bytes;
		rc = cuda_own_launch(c, c->read, words, (void *[]){&k->flush, &words, &sink}, s, -1, fault);
	}
	if (!rc) rc = cuda_check(c, c->cu.MemsetD32Async(k->gate, 0, 1, s), "closing the gate", -1, fault);
	return rc ? rc : cuda_wait(c, s, c->deadline_ns, -1, fault);
}

static int rows_queue(struct clock *k, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	int rc = 0;
	for (int i = 0; i < c->tape->nrows && !rc; i++)
		if (!k->is_skipped[i]) rc = cuda_row_queue(c, i, fault);
	return rc;
}

/* One replay, or none of its rows; *ns is the time between the two events. */
static int measure(struct clock *k, bool has_rows, int64_t *ns, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	const struct cu *cu = &c->cu;
	cu_stream s = c->streams[0];
	int rc = prepare(k, fault), nstreams = has_rows ? c->tape->nstreams : 1;
	if (rc) return rc;

	/* Queue: gate, first event, the other streams' start, the rows, the other streams' end. */
	cu_result r = cu->StreamWaitValue32(s, k->gate, 1, CU_WAIT_AT_LEAST);
	if (!r) r = cu->EventRecord(k->first, s);
	for (int i = 1; i < nstreams && !r; i++) r = cu->StreamWaitEvent(c->streams[i], k->first, 0);
	rc = cuda_check(c, r, "queueing", -1, fault);
	struct runner_fault row_fault = {0};
	int row_rc = !rc && has_rows ? rows_queue(k, &row_fault) : 0;
	for (int i = 1; i < nstreams && !r; i++) {
		r = cu->EventRecord(k->joined[i], c->streams[i]);
		if (!r) r = cu->StreamWaitEvent(s, k->joined[i], 0);
	}
	if (!r) r = cu->EventRecord(k->last, s);

	/* Open, whatever happened, so that nothing waits for ever; then the clock's word. */
	cu_result opened = cu->StreamWriteValue32(k->gate_stream, k->gate, 1, 0);
	if (!rc) rc = cuda_check(c, r ? r : opened, "opening the gate", -1, fault);
	if (!rc) rc = cuda_wait(c, s, c->deadline_ns, -1, fault);
	if (row_rc) {
		*fault = row_fault;
		return row_rc;
	}
	float ms = 0;
	if (!rc) rc = cuda_check(c, cu->EventElapsedTime(&ms, k->first, k->last), "reading the clock", -1, fault);
	*ns = (int64_t)(ms * 1e6f);
	return rc;
}

static int compare_ns(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

int cuda_time(struct launcher *l, const bool *is_skipped, int repeats, uint64_t deadline_ns, struct runner_result *out,
	struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	const char *why = obstacle(c, is_skipped);
	if (why) return not_timed(out, why);
	struct clock k;
	int64_t ns = 0, empty[EMPTY_REPEATS];
	c->deadline_ns = deadline_ns;
	int rc = clock_create(&k, c, is_skipped, fault);
	for (int i = 0; i < EMPTY_REPEATS && !rc; i++) rc = measure(&k, false, &empty[i], fault);
	for (int i = 0; i < WARM_UP && !rc; i++) rc = measure(&k, true, &ns, fault);
	out->times_ns = xcalloc((size_t)repeats + 1, sizeof *out->times_ns);
	for (int i = 0; i < repeats && !rc; i++) {
		rc = measure(&k, true, &ns, fault);
		if (!rc) out->times_ns[out->ntimes++] = ns;
	}
	clock_free(&k);
	if (rc) return rc;
	qsort(empty, EMPTY_REPEATS, sizeof *empty, compare_ns);
	out->empty_ns = empty[EMPTY_REPEATS / 2];
	return 0;
}
