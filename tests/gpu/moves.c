/* moves: rows that move bytes, drawn at random, on a GPU and on the vm: every byte of every
 * buffer is the same afterwards. Fills and copies of all types over strided views, casts, views
 * of one buffer that overlap.
 *
 *   moves DEVICE_NUMBER [TAPES] [SEED]
 */
#include "base/base.h"
#include "base/dtype.h"
#include "runner/launcher_cuda.h"
#include "runner/replay.h"
#include "tape/tape.h"
#include <stdlib.h>

#define BUFFERS 4
#define BYTES 8192
#define ROWS 12
#define DIMS 4

static struct rng rng = {.stream = 3};

/* A view inside a buffer: a dense one with its dimensions in any order and gaps behind some. */
static void view_add(struct str *s, enum dtype t, int ndim, const int *shape, bool may_repeat)
{
	int stride[DIMS], order[DIMS], step = 1;
	for (int i = 0; i < ndim; i++) order[i] = i;
	for (int i = ndim - 1; i > 0; i--) {
		int j = (int)rng_below(&rng, (uint32_t)i + 1), keep = order[i];
		order[i] = order[j];
		order[j] = keep;
	}
	for (int i = 0; i < ndim; i++) {
		stride[order[i]] = step;
		step *= shape[order[i]] + (rng_below(&rng, 4) == 0);
	}
	if (may_repeat && ndim && rng_below(&rng, 3) == 0) stride[rng_below(&rng, (uint32_t)ndim)] = 0;
	int size = (int)dtype_bytes(t), room = BYTES / size - step;
	str_printf(s, "{\"buffer\": %u, \"offset\": %d, \"dtype\": \"%s\", \"shape\": [", rng_below(&rng, BUFFERS),
		(int)rng_below(&rng, (uint32_t)room + 1) * size, dtype_name(t));
	for (int i = 0; i < ndim; i++) str_printf(s, "%s%d", i ? "," : "", shape[i]);
	str_puts(s, "], \"stride\": [");
	for (int i = 0; i < ndim; i++) str_printf(s, "%s%d", i ? "," : "", stride[i]);
	str_puts(s, "]}");
}

static void row_add(struct str *s)
{
	enum dtype to = (enum dtype)rng_below(&rng, DTYPE_COUNT), from = to;
	int shape[DIMS], ndim = (int)rng_below(&rng, DIMS + 1);
	for (int i = 0; i < ndim; i++) shape[i] = 1 + (int)rng_below(&rng, 5);
	bool is_copy = rng_below(&rng, 3) > 0;
	if (rng_below(&rng, 3) == 0) from = (enum dtype)rng_below(&rng, DTYPE_COUNT);
	str_printf(s, "{\"op\": \"%s\", \"line\": 1, \"dst\": ", is_copy ? "copy" : "fill");
	view_add(s, to, ndim, shape, false);
	if (is_copy) {
		str_puts(s, ", \"src\": ");
		view_add(s, from, ndim, shape, true);
	} else {
		static const char *const floats[] = {"0.0", "-1.5", "\"nan\"", "\"-inf\"", "3.0e38"};
		str_printf(s, ", \"value\": %s",
			dtype_is_float(to)       ? floats[rng_below(&rng, 5)]
				: rng_below(&rng, 2) ? "1"
									 : "0");
	}
	str_puts(s, "}");
}

static void tape_text(struct str *s)
{
	str_puts(s, "{\"version\": 2, \"kernels\": [], \"tuple\": true, \"buffers\": [");
	for (int b = 0; b < BUFFERS; b++)
		str_printf(s, "%s{\"kind\": \"input\", \"bytes\": %d, \"input\": %d}", b ? "," : "", BYTES, b);
	str_puts(s, "], \"rows\": [");
	for (int i = 0; i < ROWS; i++) {
		if (i) str_puts(s, ",");
		row_add(s);
	}
	str_puts(s, "], \"outputs\": [");
	for (int b = 0; b < BUFFERS; b++)
		str_printf(s, "%s{\"buffer\": %d, \"offset\": 0, \"dtype\": \"uint8\", \"shape\": [%d], \"stride\": [1]}",
			b ? "," : "", b, BYTES);
	str_puts(s, "]}");
}

/* All buffers after a replay of the text; the first call for *r makes it, with that launcher. */
static void replay_with(
	const struct str *text, struct replay **r, struct launcher *l, const uint8_t *data, uint8_t *out)
{
	struct tape *t = NULL;
	struct err err = {0};
	struct runner_fault fault = {0};
	struct runner_binaries none = {0};
	struct runner_given given[BUFFERS];
	struct runner_trial trial = {.ninputs = BUFFERS, .inputs = given, .deadline_ms = 60000};
	struct runner_result result;
	CHECKF(!tape_parse(text->data, text->len, &t, &err), "%s in %s", err.text, text->data);
	for (int b = 0; b < BUFFERS; b++) {
		given[b] = (struct runner_given){.offset = b * BYTES, .bytes = BYTES, .may_change = true};
		trial.output_offset[b] = b * BYTES;
	}
	int rc = *r ? replay_reload(*r, t, &none, &fault) : replay_create(t, l, &none, r, &fault);
	CHECKF(!rc, "%s: %s", fault.code, fault.text);
	replay_run(*r, &trial, &(struct replay_given){data, BUFFERS * BYTES, NULL, NULL, NULL, NULL}, out, BUFFERS * BYTES,
		&result);
	CHECKF(!result.has_fault, "%s: %s", result.fault.code, result.fault.text);
	runner_result_release(&result);
}

int main(int argc, char **argv)
{
	int device = argc > 1 ? atoi(argv[1]) : 0, tapes = argc > 2 ? atoi(argv[2]) : 100, differ = 0;
	static uint8_t data[BUFFERS * BYTES], on_vm[BUFFERS * BYTES], on_gpu[BUFFERS * BYTES];
	rng.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	struct launcher *l = NULL;
	struct runner_device facts;
	struct replay *gpu = NULL, *vm = NULL;
	char why[256] = "";
	if (launcher_cuda_create(device, (int64_t)1 << 30, &l, &facts, why, sizeof why)) {
		printf("Bail out! %s\n", why);
		return 1;
	}
	/* A random tape of fills and copies over random bytes, replayed on both. */
	for (int i = 0; i < tapes; i++) {
		struct str text = {0};
		tape_text(&text);
		for (size_t k = 0; k < sizeof data; k++) data[k] = (uint8_t)rng_below(&rng, 256);
		replay_with(&text, &vm, vm ? NULL : launcher_vm_create((int64_t)1 << 30), data, on_vm);
		replay_with(&text, &gpu, l, data, on_gpu);
		/* Every byte of every buffer is compared; the first three differences are told. */
		size_t at = 0;
		while (at < sizeof on_vm && on_vm[at] == on_gpu[at]) at++;
		if (at < sizeof on_vm && ++differ <= 3)
			printf("# tape %d: buffer %zu, byte %zu: %02x on the vm, %02x on the GPU\n# %.1500s\n", i, at / BYTES,
				at % BYTES, on_vm[at], on_gpu[at], text.data);
		str_release(&text);
	}
	replay_free(vm);
	replay_free(gpu);
	printf("%s 1 - %d rows in %d tapes move the same bytes on the vm and on the GPU\n1..1\n", differ ? "not ok" : "ok",
		tapes * ROWS, tapes);
	return differ != 0;
}
