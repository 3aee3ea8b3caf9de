/* launcher_cuda: the launcher's life on a GPU (launcher_cuda.h): context, memory, faults, order. */
#include "runner/launcher_cuda.h"
#include "runner/cuda/gpu_internal.h"
#include "runner/movement.h"
#include "tape/tape.h"
#include "base/dtype.h"
#include "base/base.h"
#include "base/gpu_uuid.h"
#include <stdlib.h>
#include <time.h>

#define SPIN_NS 200000  /* a wait looks all the time for so long, then now and then */
#define NAP_NS 20000
#define PROBE_BYTES 4096
#define RESET_NS 1000000000u /* for all that is still queued and for writing over what was used */

/* ---- faults ---- */

/* What the driver's results say about a candidate's kernel. All others are the machine's. */
static const struct {
	cu_result result;
	const char *code;
	bool is_spent; /* the context is lost */
} FAULTS[] = {
	{CU_INVALID_VALUE, "argument", false},
	{CU_OUT_OF_MEMORY, "no-room", false}, /* but of a launch: what the kernel itself needs */
	{CU_INVALID_IMAGE, "bad-binary", false},
	{CU_NO_BINARY_FOR_GPU, "bad-binary", false},
	{CU_INVALID_PTX, "bad-binary", false},
	{CU_NOT_FOUND, "bad-binary", false},
	{CU_LAUNCH_OUT_OF_RESOURCES, "out-of-resources", false},
	{CU_INVALID_CLUSTER_SIZE, "out-of-resources", false},
	{CU_COOPERATIVE_LAUNCH_TOO_LARGE, "needs-co-residency", false},
	{CU_ILLEGAL_ADDRESS, "out-of-bounds", true},
	{CU_MISALIGNED_ADDRESS, "misaligned", true},
	{CU_LAUNCH_TIMEOUT, "timeout", true},
	{CU_ASSERT, "assert", true},
	{CU_HARDWARE_STACK_ERROR, "gpu-fault", true},
	{CU_ILLEGAL_INSTRUCTION, "gpu-fault", true},
	{CU_INVALID_ADDRESS_SPACE, "gpu-fault", true},
	{CU_INVALID_PC, "gpu-fault", true},
	{CU_LAUNCH_FAILED, "gpu-fault", true},
};

int cuda_check(struct cuda *c, cu_result r, const char *what, int row, struct runner_fault *fault)
{
	if (r == CU_OK) return 0;
	const char *code = "gpu-lost";
	bool is_spent = true;
	for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++)
		if (FAULTS[i].result == r) {
			code = FAULTS[i].code;
			is_spent = FAULTS[i].is_spent;
		}
	c->is_spent |= is_spent;
	char text[256];
	int line = row >= 0 ? c->tape->rows[row].line : 0;
	const struct tape_row *tr = row >= 0 ? &c->tape->rows[row] : NULL;
	if (r == CU_OUT_OF_MEMORY && tr && tr->kind == TAPE_LAUNCH) code = "memory";
	snprintf(text, sizeof text, "on the GPU, %s%s%.100s: %s (%d)", what,
		tr && tr->kind == TAPE_LAUNCH ? ", kernel " : "",
		tr && tr->kind == TAPE_LAUNCH ? c->tape->kernels[tr->kernel].name : "", cu_name(&c->cu, r), r);
	return launcher_fault(fault, code, row, line, text);
}

int cuda_allocate(struct cuda *c, cu_address *p, size_t bytes, const char *what, int row, struct runner_fault *fault)
{
	char text[200];
	cu_result r = c->cu.MemAlloc(p, bytes);
	if (!r) return 0;
	*p = 0;
	if (r != CU_OUT_OF_MEMORY) return cuda_check(c, r, what, row, fault);
	snprintf(text, sizeof text, "on the GPU, %s: it has no room for %lld MiB more, others use its memory", what,
		(long long)(bytes >> 20) + 1);
	return launcher_fault(fault, "no-room", row, 0, text);
}

int cuda_wait(struct cuda *c, cu_stream s, uint64_t deadline_ns, int row, struct runner_fault *fault)
{
	uint64_t start = clock_ns();
	for (;;) {
		cu_result r = c->cu.StreamQuery(s);
		if (r != CU_NOT_READY) return cuda_check(c, r, "running", row, fault);
		uint64_t now = clock_ns();
		if (deadline_ns && now > deadline_ns) {
			c->is_spent = true; /* the kernel cannot be stopped; its process can */
			return launcher_fault(fault, "timeout", row, row >= 0 ? c->tape->rows[row].line : 0,
				"on the GPU the kernels did not finish in time");
		}
		if (now - start > SPIN_NS) nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	}
}

/* ---- tapes ---- */

/* Buffers and scratch memory, which somebody else may be given, written over.
 * Whatever still runs is over. */
static int memory_wipe(struct cuda *c, struct runner_fault *fault)
{
	int rc = 0;
	for (int b = 0; b < c->nbuffers && !rc; b++)
		if (c->buffers[b].block)
			rc = cuda_check(c,
				c->cu.MemsetD8Async(c->buffers[b].block, LAUNCHER_UNWRITTEN,
					MAX((size_t)c->buffers[b].bytes + 2 * c->canary_bytes, 1), c->streams[0]),
				"writing over a buffer", -1, fault);
	if (!rc && c->scratch)
		rc = cuda_check(c, c->cu.MemsetD8Async(c->scratch, LAUNCHER_UNWRITTEN, c->scratch_bytes, c->streams[0]),
			"writing over scratch memory", -1, fault);
	return rc;
}

static void release_tape(struct cuda *c)
{
	for (int b = 0; b < c->nbuffers && !c->is_spent; b++)
		if (c->buffers[b].block) c->cu.MemFree(c->buffers[b].block);
	for (int e = 0; e < c->nevents && !c->is_spent; e++)
		if (c->events[e]) c->cu.EventDestroy(c->events[e]);
	for (int b = 0; b < c->nbuffers; b++) free(c->buffers[b].host);
	free(c->buffers);
	free(c->events);
	free(c->kernels);
	c->buffers = NULL;
	c->events = NULL;
	c->kernels = NULL;
	c->nbuffers = c->nevents = 0;
	c->tape = NULL;
}

static int memory_prepare(struct cuda *c, struct runner_fault *fault)
{
	const struct tape *t = c->tape;
	int64_t total = 0, bound = c->facts.memory_bytes ? MIN(c->memory_bytes, c->facts.memory_bytes) : c->memory_bytes;
	for (int b = 0; b < t->nbuffers; b++) total += t->buffers[b].bytes + 2 * (int64_t)c->canary_bytes;
	if (total > bound) {
		char text[200];
		snprintf(text, sizeof text, "the tape's buffers need %lld MiB, the bound for one replay on the GPU is %lld MiB",
			(long long)(total >> 20), (long long)(bound >> 20));
		return launcher_fault(fault, "memory", -1, 0, text);
	}
	c->buffers = xcalloc((size_t)t->nbuffers + 1, sizeof *c->buffers);
	c->nbuffers = t->nbuffers;
	int rc = 0;
	for (int b = 0; b < t->nbuffers && !rc; b++) {
		c->buffers[b].bytes = t->buffers[b].bytes;
		size_t bytes = (size_t)t->buffers[b].bytes + 2 * c->canary_bytes;
		rc = cuda_allocate(c, &c->buffers[b].block, MAX(bytes, 1), "allocating a buffer", -1, fault);
	}
	return rc;
}

static int order_prepare(struct cuda *c, struct runner_fault *fault)
{
	const struct tape *t = c->tape;
	int rc = 0;
	while (c->nstreams < t->nstreams && !rc) {
		rc = cuda_check(c, c->cu.StreamCreate(&c->streams[c->nstreams], CU_STREAM_ALONE), "making a stream", -1, fault);
		c->nstreams += !rc;
	}
	c->events = xcalloc((size_t)t->nevents + 1, sizeof *c->events);
	c->nevents = t->nevents;
	for (int e = 0; e < t->nevents && !rc; e++)
		rc = cuda_check(c, c->cu.EventCreate(&c->events[e], CU_EVENT_UNTIMED), "making an event", -1, fault);
	return rc;
}

static int cuda_load(struct launcher *l, const struct tape *t, const bool *is_skipped,
	const struct runner_binaries *binaries, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	/* What the last tape had may become the next candidate's. */
	int rc = memory_wipe(c, fault);
	if (!rc) rc = cuda_wait(c, c->streams[0], clock_ns() + RESET_NS, -1, fault);
	release_tape(c);
	c->tape = t;
	if (!rc && binaries->count != t->nkernels)
		rc = launcher_fault(
			fault, "bad-binary", -1, 0, "the load has another number of binaries than the tape of kernels");
	c->kernels = xcalloc((size_t)t->nkernels + 1, sizeof *c->kernels);
	for (int k = 0; k < t->nkernels && !rc; k++) rc = cuda_kernel_load(c, k, binaries, fault);
	if (!rc) rc = memory_prepare(c, fault);
	if (!rc) rc = order_prepare(c, fault);
	if (rc) release_tape(c);
	return rc;
}

/* ---- trials ---- */

/* An output that is read back whole, with what lies between its elements. */
static bool is_read_with_gaps(const struct cuda *c, int b)
{
	for (int i = 0; i < c->tape->noutputs; i++)
		if (c->tape->outputs[i].buffer == b && !tape_view_is_contiguous(&c->tape->outputs[i])) return true;
	return false;
}

int cuda_buffer_fill(struct cuda *c, int b, struct runner_fault *fault)
{
	struct cuda_buffer *buffer = &c->buffers[b];
	const uint8_t *data = buffer->given;
	size_t bytes = (size_t)buffer->bytes;
	cu_stream s = c->streams[0];
	cu_result r = CU_OK;
	if (c->canary_bytes) r = c->cu.MemsetD8Async(buffer->block, LAUNCHER_CANARY, c->canary_bytes, s);
	if (!r && c->canary_bytes) r = c->cu.MemsetD8Async(cuda_data(c, b) + bytes, LAUNCHER_CANARY, c->canary_bytes, s);
	cu_address from = buffer->master ? buffer->master : buffer->shared;
	if (!r && bytes && from) r = c->cu.MemcpyDtoDAsync(cuda_data(c, b), from, bytes, s);
	else if (!r && bytes && data) r = c->cu.MemcpyHtoD(cuda_data(c, b), data, bytes);
	bool is_poisoned = c->canary_bytes || is_read_with_gaps(c, b);
	if (!r && bytes && !data && !from && is_poisoned)
		r = c->cu.MemsetD8Async(cuda_data(c, b), LAUNCHER_UNWRITTEN, bytes, s);
	int rc = cuda_check(c, r, "filling a buffer", -1, fault);
	/* Before the first row: its stream is another than the one that filled the memory. */
	if (!rc && b == c->nbuffers - 1) rc = cuda_wait(c, s, 0, -1, fault);
	if (!rc && b == c->nbuffers - 1) rc = cuda_wait(c, NULL, 0, -1, fault);
	return rc;
}

static int cuda_buffer_set(
	struct launcher *l, int b, const uint8_t *data, bool is_read_only, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	c->buffers[b].is_read_only = is_read_only;
	c->buffers[b].given = data;
	c->buffers[b].shared = 0;
	return cuda_buffer_fill(c, b, fault);
}

int cuda_row_queue(struct cuda *c, int index, struct runner_fault *fault)
{
	const struct tape_row *row = &c->tape->rows[index];
	cu_stream s = c->streams[row->stream];
	switch (row->kind) {
	case TAPE_LAUNCH: return cuda_launch(c, index, s, fault);
	case TAPE_RECORD:
		return cuda_check(c, c->cu.EventRecord(c->events[row->event], s), "recording an event", index, fault);
	case TAPE_WAIT:
		return cuda_check(c, c->cu.StreamWaitEvent(s, c->events[row->event], 0), "waiting for an event", index, fault);
	default: return cuda_move(c, index, s, fault);
	}
}

static int cuda_row_run(struct launcher *l, int index, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	const struct tape_row *row = &c->tape->rows[index];
	c->deadline_ns = trial->deadline_ns;
	int rc = cuda_row_queue(c, index, fault);
	/* One row after another, so that a fault has its row. */
	if (!rc && !trial->is_overlapped) rc = cuda_wait(c, c->streams[row->stream], trial->deadline_ns, index, fault);
	if (!rc && trial->want_cost && (row->kind == TAPE_FILL || row->kind == TAPE_COPY))
		launcher_cost_add(out, index, row, NULL);
	return rc;
}

static bool is_filled_with(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value) return false;
	return true;
}

/* Both canaries of a buffer, and the contents of one that must not change. */
static int buffer_check(struct cuda *c, int b, uint8_t *room, struct runner_fault *fault)
{
	const struct cuda_buffer *buffer = &c->buffers[b];
	size_t bytes = (size_t)buffer->bytes;
	cu_result r = CU_OK;
	/* Each block begins and ends with a canary, around the bytes that the tape knows. */
	if (c->canary_bytes) r = c->cu.MemcpyDtoH(room, buffer->block, c->canary_bytes);
	if (!r && c->canary_bytes) r = c->cu.MemcpyDtoH(room + c->canary_bytes, cuda_data(c, b) + bytes, c->canary_bytes);
	if (r) return cuda_check(c, r, "reading a canary", -1, fault);
	if (!is_filled_with(room, 2 * c->canary_bytes, LAUNCHER_CANARY)) {
		char text[160];
		snprintf(
			text, sizeof text, "on the GPU a kernel wrote beside buffer %d of %lld bytes", b, (long long)buffer->bytes);
		return launcher_fault(fault, "canary", -1, 0, text);
	}
	/* Memory that may not change is compared with what it was given, where it lies: here,
	 * or in another process. */
	if (!buffer->is_read_only || (!buffer->given && !buffer->shared) || !bytes) return 0;
	bool is_same = false;
	if (buffer->shared) {
		int rc = cuda_shared_check(c, b, &is_same, fault);
		if (rc) return rc;
	} else {
		uint8_t *now = xmalloc(bytes);
		r = c->cu.MemcpyDtoH(now, cuda_data(c, b), bytes);
		is_same = !r && !memcmp(now, buffer->given, bytes);
		free(now);
		if (r) return cuda_check(c, r, "reading a buffer", -1, fault);
	}
	bool is_input = c->tape->buffers[b].kind == TAPE_INPUT;
	return is_same ? 0
				   : launcher_fault(fault, is_input ? "input-modified" : "param-modified", -1, 0,
						 "on the GPU a kernel wrote to memory that the reference leaves alone");
}

static int cuda_finish(
	struct launcher *l, const struct launcher_trial *trial, struct runner_result *out, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	int rc = 0;
	for (int s = 0; s < c->tape->nstreams && !rc; s++) rc = cuda_wait(c, c->streams[s], trial->deadline_ns, -1, fault);
	uint8_t *room = xmalloc(2 * CUDA_CANARY_BYTES); /* at least as many as there are */
	for (int b = 0; b < c->nbuffers && !rc; b++) rc = buffer_check(c, b, room, fault);
	free(room);
	return rc;
}

static int cuda_output_read(struct launcher *l, int i, uint8_t *out, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	const struct tape_view *v = &c->tape->outputs[i];
	size_t bytes = (size_t)c->buffers[v->buffer].bytes;
	if (!tape_view_elements(v)) return 0;
	if (tape_view_is_contiguous(v))
		return cuda_check(c,
			c->cu.MemcpyDtoH(out, cuda_data(c, v->buffer) + (uint64_t)v->offset_bytes,
				(size_t)tape_view_elements(v) * dtype_bytes(v->dtype)),
			"reading an output", -1, fault);
	uint8_t *copy = xmalloc(bytes + 1);
	int rc = cuda_check(c, c->cu.MemcpyDtoH(copy, cuda_data(c, v->buffer), bytes), "reading an output", -1, fault);
	if (!rc) movement_gather(v, copy, out);
	free(copy);
	return rc;
}

static int cuda_line_of(const struct launcher *l, const bool *on_path, enum runner_question question) { return -1; }

static bool cuda_is_spent(const struct launcher *l) { return ((const struct cuda *)l)->is_spent; }

/* Health: the device remembers what is written to it, and the launcher's own kernel still
 * does what it did. A card that a fault left in a bad state shows here, before a
 * candidate is charged for it. */
static cu_result probe(struct cuda *c)
{
	cu_address p = 0;
	uint8_t back[PROBE_BYTES] = {0};
	struct runner_fault ignored;
	cu_result r = c->cu.MemAlloc(&p, sizeof back);
	if (!r) r = c->cu.MemsetD8Async(p, c->has_own ? 0 : LAUNCHER_CANARY, sizeof back, c->streams[0]);

	/* A fill by the own kernel, word by word, in the order of the stream. */
	struct cuda_strided fill = {.dst = p,
		.value = 0x01010101u * LAUNCHER_CANARY,
		.size = 4,
		.ndim = 1,
		.shape = {PROBE_BYTES / 4},
		.dst_step = {4}};
	if (!r && c->has_own && cuda_strided_run(c, &fill, c->streams[0], -1, &ignored)) r = CU_ECC_UNCORRECTABLE;
	uint64_t deadline = clock_ns() + RESET_NS;
	while (!r && (r = c->cu.StreamQuery(c->streams[0])) == CU_NOT_READY)
		r = clock_ns() < deadline ? CU_OK : CU_LAUNCH_TIMEOUT;
	if (!r) r = c->cu.MemcpyDtoH(back, p, sizeof back);
	if (!r && !is_filled_with(back, sizeof back, LAUNCHER_CANARY)) r = CU_ECC_UNCORRECTABLE;
	if (p) c->cu.MemFree(p);
	return r;
}

/* Memory that the next candidate is given may be this one's: what was in it is written
 * over before it is freed. */
static int cuda_reset(struct launcher *l, struct runner_fault *fault)
{
	struct cuda *c = (struct cuda *)l;
	uint64_t deadline = clock_ns() + RESET_NS;
	/* Whatever still runs is waited for, so that it writes nothing afterwards. */
	int rc = c->is_spent ? launcher_fault(fault, "gpu-lost", -1, 0, "the context was lost before") : 0;
	for (int s = 0; s < c->nstreams && !rc; s++) rc = cuda_wait(c, c->streams[s], deadline, -1, fault);
	if (!rc) rc = memory_wipe(c, fault);
	if (!rc) rc = cuda_wait(c, c->streams[0], deadline, -1, fault);
	if (rc) return rc;

	/* Then nothing of the candidate's is left: neither memory nor code. */
	release_tape(c);
	for (int i = 0; i < c->ncached; i++) cuda_kernel_release(c, &c->cached[i]);
	c->ncached = 0;
	if (c->scratch) c->cu.MemFree(c->scratch);
	c->scratch = 0;
	c->scratch_bytes = 0;
	return cuda_check(c, probe(c), "the health probe", -1, fault);
}

static void cuda_destroy(struct launcher *l)
{
	struct cuda *c = (struct cuda *)l;
	release_tape(c);
	for (int i = 0; i < c->ncached; i++) cuda_kernel_release(c, &c->cached[i]);
	if (c->scratch && !c->is_spent) c->cu.MemFree(c->scratch);
	for (int s = 0; s < c->nstreams && !c->is_spent; s++) c->cu.StreamDestroy(c->streams[s]);
	free(c->cached);
	free(c);
}

/* ---- the device ---- */

static cu_result facts_read(struct cuda *c)
{
	struct runner_device *d = &c->facts;
	const struct cu *cu = &c->cu;
	int major = 0, minor = 0, shared = 0, l2 = 0;
	size_t memory = 0;
	struct cu_uuid uuid = {{0}};
	cu_result r = cu->DeviceGetName(d->name, sizeof d->name, c->device);
	if (!r) r = cu->DeviceGetAttribute(&major, CU_DEVICE_CAPABILITY_MAJOR, c->device);
	if (!r) r = cu->DeviceGetAttribute(&minor, CU_DEVICE_CAPABILITY_MINOR, c->device);
	if (!r) r = cu->DeviceGetAttribute(&d->sms, CU_DEVICE_MULTIPROCESSOR_COUNT, c->device);
	if (!r) r = cu->DeviceGetAttribute(&shared, CU_DEVICE_SHARED_PER_BLOCK_OPTIN, c->device);
	if (!r) r = cu->DeviceGetAttribute(&l2, CU_DEVICE_L2_CACHE_SIZE, c->device);
	if (!r) r = cu->DeviceGetAttribute(&d->clock_khz, CU_DEVICE_CLOCK_RATE, c->device);
	if (!r) r = cu->DeviceGetAttribute(&d->memory_clock_khz, CU_DEVICE_MEMORY_CLOCK_RATE, c->device);
	if (!r) r = cu->DeviceTotalMem(&memory, c->device);
	if (!r) r = cu->DeviceGetUuid(&uuid, c->device);
	if (!r) r = cu->DriverGetVersion(&d->driver);
	d->capability = 10 * major + minor;
	d->shared_bytes = shared;
	gpu_uuid_text(uuid.bytes, d->name, d->uuid, sizeof d->uuid);
	c->l2_bytes = l2;
	d->memory_bytes = (int64_t)memory;
	return r;
}

static cu_result context_make(struct cuda *c, int ordinal)
{
	const struct cu *cu = &c->cu;
	cu_context context = NULL;
	/* Compiled code of the driver's own making is nobody's to share: no cache in a home that a
	 * sandbox closes anyway. */
	setenv("CUDA_CACHE_DISABLE", "1", 1);
	cu_result r = cu->Init(0);
	if (!r) r = cu->DeviceGet(&c->device, ordinal);
	if (!r) cu->DevicePrimaryCtxSetFlags(c->device, CU_CONTEXT_BLOCKING);
	if (!r) r = cu->DevicePrimaryCtxRetain(&context, c->device);
	if (!r) r = cu->CtxSetCurrent(context);
	if (!r) r = facts_read(c);
	if (!r) r = cu->StreamCreate(&c->streams[0], CU_STREAM_ALONE);
	if (!r) c->nstreams = 1;
	if (!r) r = cuda_own_load(c); /* compiled here, where nobody waits; without it the host moves what is strided */
	return r ? r : probe(c);
}

int launcher_cuda_create(
	int device, int64_t memory_bytes, struct launcher **out, struct runner_device *facts, char *text, size_t len)
{
	struct cuda *c = xcalloc(1, sizeof *c);
	c->base = (struct launcher){.name = "cuda",
		.load = cuda_load,
		.buffer_set = cuda_buffer_set,
		.row_run = cuda_row_run,
		.finish = cuda_finish,
		.output_read = cuda_output_read,
		.share = cuda_share,
		.unshare = cuda_unshare,
		.buffer_set_shared = cuda_buffer_set_shared,
		.output_share = cuda_output_share,
		.time = cuda_time,
		.line_of = cuda_line_of,
		.is_spent = cuda_is_spent,
		.reset = cuda_reset,
		.destroy = cuda_destroy};
	c->memory_bytes = memory_bytes;
	c->canary_bytes = CUDA_CANARY_BYTES;
	/* The room for kernels is made once and never moved, because a loaded tape points into it. */
	c->cached = xcalloc(2 * TAPE_KERNELS_MAX, sizeof *c->cached);
	if (cu_open(&c->cu, text, len)) {
		free(c->cached);
		free(c);
		return -1;
	}
	/* The context is made and probed now, so that a dead GPU is found before any tape comes. */
	cu_result r = context_make(c, device);
	if (r) {
		snprintf(text, len, "GPU %d does not answer: %s (%d); nvidia-smi tells whether it is there, and who holds it",
			device, cu_name(&c->cu, r), r);
		free(c->cached);
		free(c);
		return -1;
	}
	*facts = c->facts;
	*out = &c->base;
	return 0;
}

void launcher_cuda_make_exact(struct launcher *l) { ((struct cuda *)l)->canary_bytes = 0; }
