/* timing: how long a tape takes on the GPU. What is asked is the supervisor's to say (enum
 * runner_clock); here is how each question is answered.
 *
 * A span is queued as a whole behind a gate (a word in the GPU's memory that the stream waits for),
 * so that the host's time is in none of it. Before the gate all buffers are made anew, from copies
 * on the GPU where there is room for them, and then the L2 cache is filled with other memory, by
 * writes first and reads last: the replay finds nothing of its data there, and no dirty lines to
 * write back. Two events stand around the rows on the first stream; the other streams wait for the
 * first and are waited for before the second. */
#include "runner/cuda/gpu_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include <stdlib.h>

#define WARM_UP 3
#define FLUSH_L2_TIMES 3
#define FLUSH_BYTES_MIN ((int64_t)64 << 20)
#define QUEUED_ROWS_MAX 400 /* a stream takes some thousand commands before the host has to wait */
/* The control: about 0.1 ms on an H200, the half of it memory. */
#define CONTROL_READS 2
#define CONTROL_STEPS 512      /* of 8 multiply-adds in each thread */
#define CONTROL_BLOCKS_OF_SM 8

struct clock {
	struct cuda *c;
	const bool *is_skipped;
	uint64_t question_ns; /* time for each question; 0: any */
	cu_stream gate_stream;
	cu_event first;                    /* in front of the rows, on the first stream */
	cu_event last;                     /* behind them */
	cu_event joined[TAPE_STREAMS_MAX]; /* the end of each other stream's rows */
	cu_address gate;                   /* the word that the first stream waits for */
	cu_address flush;                  /* (flush_bytes) memory that fills the L2 cache */
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
	if (!c->cu.StreamWaitValue32 || !c->cu.StreamWriteValue32 || !c->has_own)
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
			return "a copy to or from an 8-bit float, or one that overlaps itself, is done on the host";
	}
	return rows > QUEUED_ROWS_MAX ? "more rows than can wait behind a gate" : NULL;
}

/* ---- what stays for all questions ---- */

/* Copies of what the buffers start with, so that making them anew does not wait for the host's
 * memory. A GPU without room for them does without. */
static int masters_make(struct cuda *c, struct runner_fault *fault)
{
	int rc = 0;
	for (int b = 0; b < c->nbuffers && !rc; b++) {
		struct cuda_buffer *buffer = &c->buffers[b];
		if (!buffer->given || !buffer->bytes) continue;
		if (c->cu.MemAlloc(&buffer->master, (size_t)buffer->bytes)) {
			buffer->master = 0;
			break;
		}
		rc = cuda_check(c, c->cu.MemcpyHtoD(buffer->master, buffer->given, (size_t)buffer->bytes),
			"copying what a buffer starts with", -1, fault);
	}
	return rc ? rc : cuda_wait(c, NULL, 0, -1, fault);
}

static int clock_create(struct clock *k, struct cuda *c, const bool *is_skipped, struct runner_fault *fault)
{
	const struct cu *cu = &c->cu;
	*k = (struct clock){
		.c = c, .is_skipped = is_skipped, .flush_bytes = (size_t)MAX(c->l2_bytes * FLUSH_L2_TIMES, FLUSH_BYTES_MIN)};
	cu_result r = cu->StreamCreate(&k->gate_stream, CU_STREAM_ALONE);
	if (!r) r = cu->EventCreate(&k->first, CU_EVENT_TIMED);
	if (!r) r = cu->EventCreate(&k->last, CU_EVENT_TIMED);
	for (int s = 1; s < c->tape->nstreams && !r; s++) r = cu->EventCreate(&k->joined[s], CU_EVENT_UNTIMED);
	int rc = cuda_check(c, r, "preparing to time", -1, fault);
	if (!rc) rc = cuda_allocate(c, &k->gate, 256, "preparing to time", -1, fault);
	if (!rc) rc = cuda_allocate(c, &k->flush, k->flush_bytes + 256, "preparing to time", -1, fault);
	return rc ? rc : masters_make(c, fault);
}

/* The copies hold what a candidate was given: they are written over, as all its memory is. */
static void clock_free(struct clock *k)
{
	struct cuda *c = k->c;
	const struct cu *cu = &c->cu;
	if (c->is_spent) return;
	for (int b = 0; b < c->nbuffers; b++) {
		if (!c->buffers[b].master) continue;
		cu->MemsetD8Async(c->buffers[b].master, LAUNCHER_UNWRITTEN, (size_t)c->buffers[b].bytes, c->streams[0]);
		cu->MemFree(c->buffers[b].master);
		c->buffers[b].master = 0;
	}
	if (k->gate) cu->MemFree(k->gate);
	if (k->flush) cu->MemFree(k->flush);
	if (k->first) cu->EventDestroy(k->first);
	if (k->last) cu->EventDestroy(k->last);
	for (int s = 1; s < TAPE_STREAMS_MAX; s++)
		if (k->joined[s]) cu->EventDestroy(k->joined[s]);
	if (k->gate_stream) cu->StreamDestroy(k->gate_stream);
}

/* ---- one replay ---- */

static int flush_read(struct clock *k, struct runner_fault *fault)
{
	uint64_t words = k->flush_bytes / 16;
	cu_address sink = k->flush + k->flush_bytes;
	return cuda_own_launch(k->c, k->c->read, words, (void *[]){&k->flush, &words, &sink}, k->c->streams[0], -1, fault);
}

/* Everything that must be over before the clock starts. */
static int prepare(struct clock *k, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	cu_stream s = c->streams[0];
	int rc = 0;
	for (int b = 0; b < c->nbuffers && !rc; b++) rc = cuda_buffer_fill(c, b, fault);
	if (!rc) rc = cuda_check(c, c->cu.MemsetD8Async(k->flush, 0x5a, k->flush_bytes, s), "a flush", -1, fault);
	if (!rc) rc = flush_read(k, fault);
	if (!rc) rc = cuda_check(c, c->cu.MemsetD32Async(k->gate, 0, 1, s), "closing the gate", -1, fault);
	return rc ? rc : cuda_wait(c, s, c->deadline_ns, -1, fault);
}

/* The launcher's own work: the same, whatever the tape. */
static int control_queue(struct clock *k, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	uint64_t steps = CONTROL_STEPS;
	cu_address sink = k->flush + k->flush_bytes;
	struct cu_launch_config config = {.grid = {(unsigned)(c->facts.sms * CONTROL_BLOCKS_OF_SM), 1, 1},
		.block = {CUDA_OWN_THREADS, 1, 1},
		.stream = c->streams[0]};
	int rc = 0;
	for (int i = 0; i < CONTROL_READS && !rc; i++) rc = flush_read(k, fault);
	if (rc) return rc;
	return cuda_check(
		c, c->cu.LaunchKernelEx(&config, c->spin, (void *[]){&steps, &sink}, NULL), "the control", -1, fault);
}

/* What lies between the two events. */
static int work_queue(struct clock *k, enum runner_clock what, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	int rc = 0;
	if (what == RUNNER_EMPTY) return 0;
	if (what == RUNNER_CONTROL) return control_queue(k, fault);
	for (int i = 0; i < c->tape->nrows && !rc; i++)
		if (!k->is_skipped[i]) rc = cuda_row_queue(c, i, fault);
	return rc;
}

/* First event, the other streams' start, the work, the other streams' end, last event. A fault of
 * the work keeps its own words, and the rest is queued all the same: somebody waits for it. */
static int between_events(struct clock *k, enum runner_clock what, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	const struct cu *cu = &c->cu;
	cu_stream s = c->streams[0];
	int nstreams = what == RUNNER_EMPTY || what == RUNNER_CONTROL ? 1 : c->tape->nstreams;
	cu_result r = cu->EventRecord(k->first, s);
	for (int i = 1; i < nstreams && !r; i++) r = cu->StreamWaitEvent(c->streams[i], k->first, 0);
	int rc = cuda_check(c, r, "queueing", -1, fault);
	if (!rc) rc = work_queue(k, what, fault);
	for (int i = 1; i < nstreams && !r; i++) {
		r = cu->EventRecord(k->joined[i], c->streams[i]);
		if (!r) r = cu->StreamWaitEvent(s, k->joined[i], 0);
	}
	if (!r) r = cu->EventRecord(k->last, s);
	return rc ? rc : cuda_check(c, r, "queueing", -1, fault);
}

/* Looks without a pause: what is waited for here is a figure. */
static int wait_closely(struct clock *k, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	while (c->cu.StreamQuery(c->streams[0]) == CU_NOT_READY)
		if (c->deadline_ns && clock_ns() > c->deadline_ns) break;
	return cuda_wait(c, c->streams[0], c->deadline_ns, -1, fault);
}

static int elapsed(struct clock *k, int64_t *ns, struct runner_fault *fault)
{
	float ms = 0;
	int rc = cuda_check(k->c, k->c->cu.EventElapsedTime(&ms, k->first, k->last), "reading the clock", -1, fault);
	*ns = (int64_t)(ms * 1e6f);
	return rc;
}

/* span, empty and control: behind the gate. */
static int measure_gated(struct clock *k, enum runner_clock what, int64_t *ns, struct runner_fault *fault)
{
	struct cuda *c = k->c;
	const struct cu *cu = &c->cu;
	int rc = prepare(k, fault);
	if (rc) return rc;
	rc = cuda_check(
		c, cu->StreamWaitValue32(c->streams[0], k->gate, 1, CU_WAIT_AT_LEAST), "closing the gate", -1, fault);
	if (!rc) rc = between_events(k, what, fault);

	/* Open, whatever happened, so that nothing waits for ever; then the clock's word. */
	struct runner_fault late = {0};
	int opened = cuda_check(
		c, cu->StreamWriteValue32(k->gate_stream, k->gate, 1, 0), "opening the gate", -1, rc ? &late : fault);
	/* A gate that nobody can open holds the stream for ever, and with it whatever frees
	 * memory or ends the context. */
	c->is_spent |= opened != 0;
	if (rc || opened) return rc ? rc : opened;
	rc = cuda_wait(c, c->streams[0], c->deadline_ns, -1, fault);
	return rc ? rc : elapsed(k, ns, fault);
}

static int measure_wall(struct clock *k, int64_t *ns, struct runner_fault *fault)
{
	int rc = prepare(k, fault);
	uint64_t start = clock_ns();
	if (!rc) rc = between_events(k, RUNNER_WALL, fault);
	if (!rc) rc = wait_closely(k, fault);
	*ns = (int64_t)(clock_ns() - start);
	return rc;
}

static int measure_paper(struct clock *k, int64_t *ns, struct runner_fault *fault)
{
	int64_t one = 0, sum = 0;
	int rc = 0;
	for (int i = 0; i < RUNNER_PAPER_WARM_UP + RUNNER_PAPER_REPEATS && !rc; i++) {
		rc = between_events(k, RUNNER_PAPER, fault);
		if (!rc) rc = wait_closely(k, fault);
		if (!rc) rc = elapsed(k, &one, fault);
		if (i >= RUNNER_PAPER_WARM_UP) sum += one;
	}
	*ns = sum / RUNNER_PAPER_REPEATS;
	return rc;
}

static int measure(struct clock *k, enum runner_clock what, int64_t *ns, struct runner_fault *fault)
{
	k->c->deadline_ns = k->question_ns ? clock_ns() + k->question_ns : 0;
	if (what == RUNNER_WALL) return measure_wall(k, ns, fault);
	if (what == RUNNER_PAPER) return measure_paper(k, ns, fault);
	return measure_gated(k, what, ns, fault);
}

int cuda_time(struct launcher *l, const bool *is_skipped, const struct launcher_clock *clock, struct runner_result *out,
	struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	for (int b = 0; b < c->nbuffers; b++) out->memory_bytes += c->buffers[b].bytes;
	out->memory_bytes += (int64_t)c->scratch_bytes;
	const char *why = obstacle(c, is_skipped);
	if (why) return not_timed(out, why);
	struct clock k;
	int64_t ns = 0;
	int rc = clock_create(&k, c, is_skipped, fault);
	k.question_ns = (uint64_t)clock->deadline_ms * 1000000u;
	for (int i = 0; i < WARM_UP && !rc; i++) rc = measure(&k, RUNNER_SPAN, &ns, fault);

	/* The last question that replays the tape leaves its outputs. After `paper` they are those of a
	 * replay on memory that earlier ones have written to: one more span makes them comparable. */
	bool is_stale = false;
	ns = 0;
	while (!rc) {
		enum runner_clock what = clock->next(clock, ns);
		if (what == RUNNER_END) break;
		rc = measure(&k, what, &ns, fault);
		is_stale = what == RUNNER_PAPER || what == RUNNER_EMPTY || what == RUNNER_CONTROL;
	}
	if (!rc && is_stale) rc = measure(&k, RUNNER_SPAN, &ns, fault);
	clock_free(&k);
	return rc;
}
