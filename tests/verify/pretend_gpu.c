/* A GPU that is none: linked into hone-runner in the place of the CUDA launcher it runs tapes on
 * the vm, says that it is an H200, and goes wrong where the tape's first kernel is named so. What
 * the verifier makes of a GPU that disagrees with the vm, and of tools that watch it, is tested
 * with it on a machine without one (test_gpu_verdicts.c).
 *
 *   flush_...    subnormal inputs are taken for zero
 *   fused_...    outputs are off where an input reaches 2^20, until the kernel comes in
 *                another binary than the first
 *   coarse_...   the same from 2^6 on
 *   near_...     outputs are a little off where all inputs are near one, until the kernel comes in
 *                another binary than the first
 *   apart_...    the same by much
 *   large_...    outputs are off where an input reaches 2^20, whatever the binary
 *   value_...    outputs are off where an input is 1234.5
 *   off_...      outputs are always off
 *   late_...     outputs are off where rows are queued without a wait between them
 *   wild_...     the driver reports an illegal address
 *   tail_...     the last output's last element is off, in memory that is shared
 *   below_...    likewise the first one, where an input lies below -2
 *   closed_...   shared memory cannot be mapped
 *   full_...     others use its memory
 *   lost_...     it does not answer any more
 *   kept_...     it does not clear its memory behind the candidate
 *   clear_...    it does not clear its memory in time when a tape is loaded
 *   stuck_...    nor does its runner, which never comes to the first row
 *   hang_...     nor does its runner, in the first row
 *   timed_...    takes a microsecond for each of its warps; no other kind has times
 * Where CUDA_VISIBLE_DEVICES is "cpu" its name is too: what another process shares with it are
 * memfds (worker/stock.py). Where CUDA_DEVICE_ORDER is a path, the file there is the GPU: contexts,
 * loads, rows and resets hold a lock on it together, and take some time; timings hold it alone.
 * Where one meets the other a file of that name with ".met" behind it appears. */
#include "base/base.h"
#include "base/dtype.h"
#include "runner/launcher.h"
#include "runner/launcher_cuda.h"
#include "tape/tape.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LARGE 1048576.0
#define COARSE 64.0
#define VALUE 1234.5f
#define SEEN_MAX 64

struct pretend {
	struct launcher base;
	struct launcher *vm;
	int64_t memory_bytes;
	const struct tape *tape;
	struct {
		struct sha256_hex ir, binary; /* of the first kernel, and what it came as first */
	} seen[SEEN_MAX];
	int nseen;
	bool is_as_written; /* this load's is another one */
	double largest;     /* magnitude among the trial's float inputs */
	double smallest;
	bool has_value;
	bool is_overlapped;
	bool is_spent;
	bool is_kept; /* a reset finds no tape any more */
	double least; /* among the inputs that are shared */
	struct launcher_shared shared;
	uint8_t *given, *outputs; /* mapped while they are shared */
};

static struct pretend *pretend_of(struct launcher *l) { return (struct pretend *)l; }

/* The GPU at work for `us` and what is done until use_end; -1 where nobody looks. */
static int use_begin(bool is_timing, unsigned us)
{
	const char *path = getenv("CUDA_DEVICE_ORDER");
	if (!path || path[0] != '/') return -1;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct flock l = {.l_type = is_timing ? F_WRLCK : F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
	char *met = xasprintf("%s.met", path);
	CHECKF(fd >= 0, "%s cannot be opened", path);
	if (fcntl(fd, F_OFD_SETLK, &l)) close(open(met, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	free(met);
	usleep(us);
	return fd;
}

static void use_end(int fd)
{
	if (fd >= 0) close(fd);
}

/* Whether the tape's first kernel begins so. */
static bool is_kind(const struct pretend *p, const char *kind)
{
	return p->tape && p->tape->nkernels && !strncmp(p->tape->kernels[0].name, kind, strlen(kind));
}

static int p_load(struct launcher *l, const struct tape *t, const bool *is_skipped, const struct runner_binaries *b,
	struct runner_fault *fault)
{
	static const struct runner_binaries none = {0};
	struct pretend *p = pretend_of(l);
	struct sha256_hex ir = hash_bytes(t->kernels[0].ttir, strlen(t->kernels[0].ttir)),
					  binary = hash_bytes(b->data, (size_t)b->bytes);
	int k = 0;
	while (k < p->nseen && strcmp(p->seen[k].ir.text, ir.text)) k++;
	if (k == p->nseen && k < SEEN_MAX) {
		p->seen[k].ir = ir;
		p->seen[k].binary = binary;
		p->nseen++;
	}
	p->is_as_written = k < SEEN_MAX && strcmp(p->seen[k].binary.text, binary.text) != 0;
	p->tape = t;
	p->is_kept = is_kind(p, "kept_");
	if (is_kind(p, "full_")) return launcher_fault(fault, "no-room", -1, 0, "others use its memory");
	if (is_kind(p, "clear_")) return launcher_fault(fault, "timeout", -1, 0, "its memory was not cleared in time");
	int used = use_begin(false, 10000), rc = p->vm->load(p->vm, t, is_skipped, &none, fault);
	use_end(used);
	return rc;
}

static void sleep_for_ever(void)
{
	for (;;) usleep(100000);
}

static int p_buffer_set(
	struct launcher *l, int buffer, const uint8_t *data, bool is_read_only, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	const struct tape_buffer *b = &p->tape->buffers[buffer];
	if (is_kind(p, "stuck_")) sleep_for_ever();
	if (buffer == 0) {
		p->largest = 0;
		p->smallest = INFINITY;
		p->has_value = false;
	}
	if (b->kind != TAPE_INPUT || !data) return p->vm->buffer_set(p->vm, buffer, data, is_read_only, fault);

	/* The candidates of the test have inputs of fp32 alone. */
	int64_t n = b->bytes / 4;
	float *own = xmalloc((size_t)b->bytes + 4);
	memcpy(own, data, (size_t)b->bytes);
	for (int64_t i = 0; i < n; i++) {
		if (isfinite(own[i])) p->largest = fmax(p->largest, fabs((double)own[i]));
		p->smallest = fmin(p->smallest, fabs((double)own[i]));
		p->has_value |= own[i] == VALUE;
		if (is_kind(p, "flush_") && fpclassify(own[i]) == FP_SUBNORMAL) own[i] = copysignf(0, own[i]);
	}
	int rc = p->vm->buffer_set(p->vm, buffer, (const uint8_t *)own, is_read_only, fault);
	free(own);
	return rc;
}

static int p_row_run(struct launcher *l, int row, const struct launcher_trial *trial, struct runner_result *out,
	struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	p->is_overlapped = trial->is_overlapped;
	if (is_kind(p, "hang_")) sleep_for_ever();
	int used = use_begin(false, 1000), rc = p->vm->row_run(p->vm, row, trial, out, fault);
	use_end(used);
	return rc;
}

static int p_finish(
	struct launcher *l, const struct launcher_trial *trial, struct runner_result *out, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	int rc = p->vm->finish(p->vm, trial, out, fault);
	bool is_lost = is_kind(p, "lost_");
	p->is_spent = is_kind(p, "wild_") || is_lost;
	if (!rc && p->is_spent)
		rc = is_lost ? launcher_fault(fault, "gpu-lost", -1, 0, "it fell off the bus")
					 : launcher_fault(fault, "out-of-bounds", -1, 0, "an illegal address");
	return rc;
}

static bool is_near_one(const struct pretend *p) { return p->smallest > 0.5 && p->largest < 2 && !p->is_as_written; }

static bool is_off(const struct pretend *p)
{
	if (is_kind(p, "near_") || is_kind(p, "apart_")) return is_near_one(p);
	return is_kind(p, "off_") || (is_kind(p, "fused_") && p->largest >= LARGE && !p->is_as_written) ||
		(is_kind(p, "coarse_") && p->largest >= COARSE && !p->is_as_written) ||
		(is_kind(p, "large_") && p->largest >= LARGE) || (is_kind(p, "value_") && p->has_value) ||
		(is_kind(p, "late_") && p->is_overlapped);
}

static int p_time(struct launcher *l, const bool *is_skipped, const struct launcher_clock *clock,
	struct runner_result *out, struct runner_fault *fault)
{
	const struct pretend *p = pretend_of(l);
	if (!is_kind(p, "timed_")) return 0;
	int used = use_begin(true, 100000);
	for (int64_t ns = 0; clock->next(clock, ns) != RUNNER_END;) ns = 1000 * p->tape->kernels[0].num_warps;
	use_end(used);
	return 0;
}

static int p_output_read(struct launcher *l, int i, uint8_t *out, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	int rc = p->vm->output_read(p->vm, i, out, fault);
	float first;
	if (rc || !is_off(p)) return rc;
	memcpy(&first, out, sizeof first);
	first = is_kind(p, "near_") ? first * 1.0004f : first * 1.5f + 1;
	memcpy(out, &first, sizeof first);
	return 0;
}

static int p_share(struct launcher *l, const struct launcher_shared *s, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	if (is_kind(p, "closed_")) return launcher_fault(fault, "unshared", -1, 0, "it cannot be mapped");
	p->shared = *s;
	p->least = 0;
	p->given = mmap(NULL, (size_t)s->given_bytes, PROT_READ, MAP_SHARED, s->given_fd, 0);
	p->outputs = mmap(NULL, (size_t)s->outputs_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->outputs_fd, 0);
	CHECK(p->given != MAP_FAILED && p->outputs != MAP_FAILED);
	return 0;
}

static void p_unshare(struct launcher *l)
{
	struct pretend *p = pretend_of(l);
	if (p->given) munmap(p->given, (size_t)p->shared.given_bytes);
	if (p->outputs) munmap(p->outputs, (size_t)p->shared.outputs_bytes);
	p->given = p->outputs = NULL;
}

static int p_buffer_set_shared(
	struct launcher *l, int buffer, int64_t offset, bool is_read_only, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	const struct tape_buffer *b = &p->tape->buffers[buffer];
	const float *values = (const float *)(const void *)(p->given + offset);
	for (int64_t i = 0; b->kind == TAPE_INPUT && i < b->bytes / 4; i++) p->least = fmin(p->least, values[i]);
	return p_buffer_set(l, buffer, p->given + offset, is_read_only, fault);
}

static int p_output_share(struct launcher *l, int i, int64_t offset, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	float *to = (float *)(void *)(p->outputs + offset);
	int64_t n = tape_view_elements(&p->tape->outputs[i]);
	int rc = p_output_read(l, i, p->outputs + offset, fault);
	if (is_kind(p, "tail_")) to[n - 1] += 0.25f;
	if (is_kind(p, "below_") && p->least < -2) to[0] += 0.25f;
	return rc;
}

static int p_line_of(const struct launcher *l, const bool *on_path, enum runner_question question) { return -1; }

static bool p_is_spent(const struct launcher *l)
{
	const struct pretend *p = (const struct pretend *)l;
	return p->is_spent || p->vm->is_spent(p->vm);
}

static int p_reset(struct launcher *l, struct runner_fault *fault)
{
	struct pretend *p = pretend_of(l);
	if (p->is_kept) return launcher_fault(fault, "timeout", -1, 0, "its memory was not cleared behind it");
	int used = use_begin(false, 10000);
	p->vm->destroy(p->vm);
	p->vm = launcher_vm_create(p->memory_bytes);
	use_end(used);
	p->tape = NULL;
	p->nseen = 0;
	return 0;
}

static void p_destroy(struct launcher *l)
{
	pretend_of(l)->vm->destroy(pretend_of(l)->vm);
	free(l);
}

int launcher_cuda_create(
	int device, int64_t memory_bytes, struct launcher **out, struct runner_device *facts, char *text, size_t len)
{
	struct pretend *p = xcalloc(1, sizeof *p);
	use_end(use_begin(false, 100000));
	/* The launcher's table; what it computes the vm computes. */
	p->base = (struct launcher){.name = "pretended",
		.load = p_load,
		.buffer_set = p_buffer_set,
		.row_run = p_row_run,
		.finish = p_finish,
		.output_read = p_output_read,
		.share = p_share,
		.unshare = p_unshare,
		.buffer_set_shared = p_buffer_set_shared,
		.output_share = p_output_share,
		.time = p_time,
		.line_of = p_line_of,
		.is_spent = p_is_spent,
		.reset = p_reset,
		.destroy = p_destroy};
	p->memory_bytes = memory_bytes;
	p->vm = launcher_vm_create(memory_bytes);
	/* An H200's facts, and the UUID that the head of this file speaks of. */
	*facts = (struct runner_device){.name = "NVIDIA H200",
		.capability = 90,
		.sms = 132,
		.shared_bytes = 232448,
		.memory_bytes = (int64_t)140 << 30,
		.driver = 13000};
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	bool is_cpu = visible && !strcmp(visible, "cpu");
	snprintf(facts->uuid, sizeof facts->uuid, is_cpu ? "cpu" : "GPU-pretended-%d", device);
	*out = &p->base;
	return 0;
}

void launcher_cuda_make_exact(struct launcher *l) {}
