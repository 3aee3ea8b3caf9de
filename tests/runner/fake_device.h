/* A GPU for tests: the launcher's driver is fake_cuda.c, which reads from a kernel's image what the
 * kernel does. Tapes of one kernel over sixteen floats, and questions to its clock. */
#ifndef HONE_TESTS_FAKE_DEVICE_H
#define HONE_TESTS_FAKE_DEVICE_H
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>
#include "base/base.h"
#include "runner/launcher_cuda.h"
#include "runner/replay.h"

#define MIB ((int64_t)1 << 20)
#define VIEW(b, n) "{\"buffer\": " #b ", \"offset\": 0, \"dtype\": \"float32\", \"shape\": [" #n "], \"stride\": [1]}"
#define KERNEL(more) "\"kernels\": [{\"name\": \"k\", \"ttir\": \"module {}\", \"num_warps\": 4, " \
	"\"num_stages\": 1, \"num_ctas\": 1" more "}]"
#define BUFFERS "\"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, {\"kind\": \"temp\", " \
	"\"bytes\": 64}, {\"kind\": \"temp\", \"bytes\": 512}]"
#define LAUNCH(args) "{\"op\": \"launch\", \"line\": 7, \"kernel\": 0, \"grid\": [2, 3, 4], \"args\": [" args "]}"
#define ADD LAUNCH("{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, \"offset\": 0}, {\"int\": 16}")
#define TAPE(more, rows, output) "{\"version\": 2, " BUFFERS ", " KERNEL(more) ", \"rows\": [" rows \
	"], \"outputs\": [" output "], \"tuple\": false}"

static void *library;
static float input[16];
static uint8_t output[1024];

static const char *const ADD_ARGS[] = {"*f32", "*f32", "i32"};

static inline struct runner_binary binary_of(const char *const *args, int n)
{
	struct runner_binary b = {.name = "k", .num_warps = 4, .nargs = n};
	for (int i = 0; i < n; i++) b.args[i] = args[i];
	return b;
}

static inline void fake_open(void)
{
	char path[4096];
	const char *build = getenv("BUILD");
	snprintf(path, sizeof path, "%s/tests/runner/libcuda.so.1", build ? build : "build/release");
	library = dlopen(path, RTLD_NOW);
	CHECKF(library, "%s", dlerror());
}

static inline int fake(const char *function)
{
	int (*f)(void) = (int (*)(void))dlsym(library, function);
	assert_non_null(f);
	return f();
}

/* One trial with questions of time. The driver's clock counts launches, so each answer says what
 * ran between its events: the tape's rows in a span, nothing in `empty`, the launcher's own
 * kernels in `control`. */
struct asked {
	const enum runner_clock *questions;
	int n;  /* of questions */
	int at; /* the next one */
	int64_t ns[32];
	int ungated[32]; /* launches that no gate held back, since the gate was closed */
};

static struct asked *asked; /* the one at work */
static inline enum runner_clock take_next(const struct launcher_clock *clock, int64_t ns)
{
	if (asked->at > 0) {
		asked->ns[asked->at - 1] = ns;
		asked->ungated[asked->at - 1] = fake("fake_ungated");
	}
	assert_int_equal(clock->deadline_ms, 300);
	return asked->at < asked->n ? asked->questions[asked->at++] : RUNNER_END;
}
#endif
