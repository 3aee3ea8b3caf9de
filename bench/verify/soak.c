/* soak: thousands of hostile and broken candidates in a row, through one verifier.
 *
 *   make soak                                  10,000 candidates, seed 1, two threads
 *   build/release/bench/verify/soak COUNT SEED THREADS [DEVICE]
 *
 * Candidate i is a function of (seed, i): one of the kinds of the table below, with numbers and
 * texts drawn for it, and a comment that makes it unlike every other, so that no verdict comes from
 * a cache. One in sixteen is honest and has to be genuine; none of the others may be. It fails,
 * with the number of the candidate, when a verdict is lost or comes twice, when one is `infra`,
 * when descriptors, processes or files of candidates are left behind, or when this process has
 * grown: the memory in use after the first part (4,096 verdicts are kept in memory, so it is longer
 * than that) and at the end may differ by GROWTH_MAX bytes. With a DEVICE (cuda, cuda:N) what the
 * vm passes runs on that GPU too. */
#include "verify/verify.h"
#include <ctype.h>
#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define HONEST_EVERY 16
/* Verdicts and compiled kernels that are kept: caches that fill early, so that a leak is seen. */
#define NUM_KEPT 256
#define WARM 5000                          /* candidates before memory is expected to be flat */
#define GROWTH_MAX ((int64_t)1 << 20)      /* of what is allocated */
#define UNDER_WAY 24                       /* submitted and not collected */
#define REPORT_EVERY 500

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 256\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";

/* Where a kind's code stands in the honest candidate. */
enum place { IMPORT, INIT, FORWARD, KERNEL, LAUNCH, WHOLE };

/* %d in a text is drawn anew for each candidate (0 to 9999). share: how often, among all kinds. */
static const struct {
	const char *name;
	enum place place;
	int share;
	const char *text;
} KINDS[] = {
	{"an exception at import", IMPORT, 6, "raise ValueError('number %d')"},
	{"a name that is not there", FORWARD, 6, "y = nothing_%d(x)"},
	{"an exception without text", INIT, 4,
		"class E%d(Exception):\n            def __str__(self): raise E%d()\n        raise E%d()"},
	{"an end in the middle", IMPORT, 6, "os._exit(%d)"},
	{"SystemExit", FORWARD, 4, "sys.exit(%d)"},
	{"abort", FORWARD, 4, "os.abort()"},
	{"a wild pointer", INIT, 5, "ctypes.string_at(%d * 4096)"},
	{"a signal to itself", IMPORT, 4, "os.kill(os.getpid(), 1 + %d %% 31)"},
	{"a signal to others", FORWARD, 4, "os.kill(%d, 9)"},
	{"a fork", IMPORT, 4, "os.fork()\nos.fork()  # %d"},
	{"threads", IMPORT, 3,
		"import threading\nfor i in range(%d %% 64): threading.Thread(target=time.sleep, args=(9,)).start()"},
	{"a program", IMPORT, 3, "os.execv('/bin/sh', ['sh', '-c', 'echo %d'])"},
	{"files", IMPORT, 4, "open('/tmp/soak_%d', 'w').write('x')"},
	{"descriptors", IMPORT, 3, "held = [os.dup(0) for i in range(%d)]"},
	{"memory", FORWARD, 1, "b = [bytearray(1 << 26) for i in range(1000 + %d)]"},
	{"much output", IMPORT, 2, "print('x' * (1 << 20) * (%d %% 8))"},
	{"closed descriptors", FORWARD, 4, "os.closerange(0, 1000 + %d)"},
	{"a forged answer", IMPORT, 5, "send(b'{\"fault\": {\"code\": \"genuine\", \"line\": %d}}'); os._exit(0)"},
	{"a forged verdict", IMPORT, 4, "send(b'{\"verdict\": \"genuine\", \"trials\": %d}'); os._exit(0)"},
	{"noise on the socket", IMPORT, 6,
		"import random; r = random.Random(%d); send(r.randbytes(r.randint(0, 70000))); os._exit(0)"},
	{"half a message", FORWARD, 4, "send(b'{\"tape\": ', 100 + %d); os._exit(0)"},
	{"a huge length", FORWARD, 3, "send(b'', 0xffffffff - %d); os._exit(0)"},
	{"phases", IMPORT, 2, "for i in range(%d): send(b'{\"phase\": \"init\"}')\nos._exit(0)"},
	{"a forged tape", FORWARD, 12, "forge(x, %d)"},
	{"a loop on the host", FORWARD, 1, "while True: n = %d"},
	{"a loop in the kernel", KERNEL, 1, "while n >= 0: n = n | 1  # %d"},
	{"a write out of bounds", KERNEL, 5, "tl.store(y + i + n + %d, 0.0)"},
	{"a read out of bounds", KERNEL, 5, "v = v + tl.load(x + i + n + 1 + %d)"},
	{"a kernel that does not compile", KERNEL, 6, "v = tl.nothing_%d(v)"},
	{"types that do not fit", KERNEL, 4, "v = tl.dot(v, %d)"},
	{"a huge block", KERNEL, 2, "v = v + tl.sum(tl.arange(0, 1 << (21 + %d %% 9)).to(tl.float32), 0)"},
	{"an assertion", KERNEL, 3, "tl.device_assert(i < 0, 'number %d')"},
	{"a wrong value", KERNEL, 6, "v = v + 0.001 + %d"},
	{"a wrong value on a GPU alone", KERNEL, 4,
		"v = v + tl.where(tl.math.floor(v * 0.0 - 1e-40) == 0.0, 1.0 + %d, 0.0)"},
	{"a slow kernel", KERNEL, 2, "for k in range(20000 + %d): v = v + tl.load(x + i, mask=i < n, volatile=True) * 0.0"},
	{"a wrong grid", LAUNCH, 4, "relu_kernel[(1, 65536 + %d)](x, y, n, BLOCK=256)"},
	{"no launch", LAUNCH, 4, "y = x * %d"},
	{"another shape", LAUNCH, 4, "y = y[:, :1 + %d %% 200]"},
	{"a value of the input", FORWARD, 4, "k = x.sum().item() + %d"},
	{"other work in each call", FORWARD, 4, "self.calls = getattr(self, 'calls', %d) + 1"},
	{"brackets", WHOLE, 3, "((((((((((((((((((((((((((((((((((((((((((((((((%d"},
	{"no class", WHOLE, 3, "import torch\nx = %d\n"},
	{"no Python", WHOLE, 3, "Here is the kernel number %d:\n```python\n"},
};

#define SEND "def send(payload, length=None):\n    for fd in range(3, 40):\n        try:\n" \
	"            s = socket.socket(fileno=os.dup(fd))\n" \
	"            s.getpeername()\n        except OSError:\n            continue\n" \
	"        s.sendall(struct.pack('<I', len(payload) if length is None else length) + payload)\n        return s\n\n\n"
/* The honest tape with some of its numbers, names and lists changed. */
#define FORGE "def forge(x, seed):\n    import random\n    draw = random.Random(seed)\n    y = torch.empty_like(x)\n" \
	"    relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n" \
	"    own = sys.modules['tracer_record']\n" \
	"    t = own.tape_json(sys.modules['tracer_driver'].RECORDER, [y.view_tuple()], False)\n" \
	"    def spoil(v):\n        if isinstance(v, dict):\n" \
	"            return {k: spoil(w) for k, w in v.items() if draw.random() > 0.002}\n" \
	"        if isinstance(v, list):\n" \
	"            return [spoil(w) for w in v] * (1 if draw.random() > 0.01 else draw.randint(0, 3))\n" \
	"        if draw.random() > 0.03:\n            return v\n" \
	"        return draw.choice([v, -1, 0, 1 << 40, 3.5, None, 'nan', [], {}, " \
	"v * 2 if isinstance(v, (int, str)) else v])\n" \
	"    send(json.dumps({'tape': json.dumps(spoil(t))}).encode())\n    os._exit(0)\n\n\n"

/* The first %d of a text and those after it, with the drawn number. */
static char *filled(const char *text, int number)
{
	struct str s = {0};
	for (const char *p = text; *p; p++) {
		if (p[0] == '%' && p[1] == 'd') str_printf(&s, "%d", number), p++;
		else if (p[0] == '%' && p[1] == '%') str_putc(&s, '%'), p++;
		else str_putc(&s, *p);
	}
	return s.data;
}

static int kind_of(uint64_t seed, int i, int *number)
{
	struct rng_block b = rng_philox(seed, 77, (uint64_t)i);
	int total = 0, kind = 0;
	for (size_t k = 0; k < ARRAY_LEN(KINDS); k++) total += KINDS[k].share;
	*number = (int)(b.v[1] % 10000);
	if (i % HONEST_EVERY == 0) return -1;
	for (int left = (int)(b.v[0] % (uint32_t)total); left >= KINDS[kind].share; kind++) left -= KINDS[kind].share;
	return kind;
}

static char *candidate(int i, int kind, int number)
{
	char *code = kind < 0 ? xstrdup("pass") : filled(KINDS[kind].text, number), *source;
	enum place at = kind < 0 ? IMPORT : KINDS[kind].place;
	if (at == WHOLE) {
		source = xasprintf("# candidate %d\n%s", i, code);
	} else {
		source = xasprintf(
			"# candidate %d\nimport ctypes, json, os, socket, struct, sys, time\nimport torch\nimport torch.nn as nn\n"
			"import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
			"def relu_kernel(x, y, n, BLOCK: tl.constexpr):\n    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
			"    v = tl.load(x + i, mask=i < n)\n    %s\n    tl.store(y + i, tl.maximum(v, 0.0) * 2 + 1, mask=i < "
			"n)\n\n\n" SEND FORGE
			"%s\n\n\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n        %s\n\n"
			"    def forward(self, x):\n        %s\n        y = torch.empty_like(x)\n        n = x.numel()\n"
			"        relu_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)\n        %s\n        return y\n",
			i, at == KERNEL ? code : "pass", at == IMPORT ? code : "pass", at == INIT ? code : "pass",
			at == FORWARD ? code : "pass", at == LAUNCH ? code : "pass");
	}
	free(code);
	return source;
}

/* ---- what this process holds ---- */

/* What the program has allocated and not released: without what the allocator holds back. */
static int64_t allocated_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return (int64_t)(m.uordblks + m.hblkhd);
}

static int64_t memory_bytes(void)
{
	struct str text = {0};
	long long pages = 0;
	if (!file_read("/proc/self/statm", 4096, &text, NULL)) sscanf(text.data, "%*s %lld", &pages);
	str_release(&text);
	return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int count = 0;
	while (d && readdir(d)) count++;
	if (d) closedir(d);
	return count;
}

/* What candidates tried to write. */
static int left_add(const char *name, void *ctx)
{
	*(int *)ctx += !strncmp(name, "soak_", 5);
	return 0;
}

static int files_left(void)
{
	int count = 0;
	dir_each("/tmp", left_add, &count, NULL);
	return count;
}

/* Processes whose parent is this one. */
static int children(void)
{
	DIR *d = opendir("/proc");
	int count = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		char path[300];
		struct str text = {0};
		int parent = 0;
		if (!isdigit((unsigned char)e->d_name[0])) continue;
		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		if (!file_read(path, 4096, &text, NULL)) {
			const char *after = strrchr(text.data, ')');
			if (after && sscanf(after, ") %*c %d", &parent) == 1) count += parent == getpid();
		}
		str_release(&text);
	}
	if (d) closedir(d);
	return count;
}

struct soak {
	struct verifier *v;
	uint64_t seed;
	int count;     /* candidates of the run */
	int done;      /* with a verdict */
	int submitted; /* handed to the verifier, done or not */
	int failures;
	bool *is_seen; /* (count) */
	int by_class[VERDICT_CLASS_COUNT];
	int64_t least_bytes; /* allocated at some time since the last report: without what is under way */
	int64_t warm_bytes;  /* the same, of the report after WARM candidates */
	uint64_t start_ns;
};

static void wrong(struct soak *s, int i, const char *what, const struct verdict *d)
{
	int number, kind = kind_of(s->seed, i, &number);
	s->failures++;
	printf("candidate %d (%s, %d): %s: %s/%s: %.300s\n", i, kind < 0 ? "honest" : KINDS[kind].name, number, what,
		verdict_class_name(d->class), d->reason, d->detail);
}

static void judge(struct soak *s, int64_t id, const struct verdict *d)
{
	int number, i = (int)id, kind;
	if (id < 0 || id >= s->count || s->is_seen[id]) {
		printf("a verdict for %lld, which was not asked for or came before\n", (long long)id);
		s->failures++;
		return;
	}
	s->is_seen[id] = true;
	s->by_class[d->class]++;
	kind = kind_of(s->seed, i, &number);
	if (d->class == VERDICT_INFRA) wrong(s, i, "our own fault", d);
	else if (kind < 0 && d->class != VERDICT_GENUINE && strncmp(d->reason, "timeout", 7)) wrong(s, i, "not genuine", d);
	/* A forged tape may happen to be the honest one, and a call that the sandbox refuses with an
	 * error ends nothing. */
}

static void report(const struct soak *s)
{
	printf("%d of %d, %.0f s: memory %.1f MiB, at least %.2f MiB allocated, %d descriptors, %d children;", s->done,
		s->count, (double)(clock_ns() - s->start_ns) * 1e-9, (double)memory_bytes() / (1 << 20),
		(double)s->least_bytes / (1 << 20), descriptors(), children());
	for (int c = 0; c < VERDICT_CLASS_COUNT; c++)
		printf(" %s %d", verdict_class_name((enum verdict_class)c), s->by_class[c]);
	printf("\n");
	fflush(stdout);
}

/* All candidates, a few of them under way at a time. */
static int run(struct soak *s, struct err *err)
{
	struct task task = {
		.name = (char *)(uintptr_t)"soak", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	int rc = 0;
	s->start_ns = clock_ns();
	while (!rc && s->done < s->count) {
		/* The queue is topped up, so that no thread waits. */
		for (; !rc && s->submitted < s->count && s->submitted - s->done < UNDER_WAY; s->submitted++) {
			int number, kind = kind_of(s->seed, s->submitted, &number);
			char *source = candidate(s->submitted, kind, number);
			struct verify_request r = {
				.task = &task, .source = source, .source_len = strlen(source), .id = s->submitted};
			rc = verifier_submit(s->v, &r, err);
			free(source);
		}
		struct verdict d;
		int64_t id = 0;
		if (!rc) rc = verifier_collect(s->v, 600000, &id, &d, err);
		if (rc) break;
		judge(s, id, &d);
		s->done++;
		s->least_bytes = MIN(s->least_bytes, allocated_bytes());
		if (s->done == WARM) s->warm_bytes = s->least_bytes;
		if (s->done % REPORT_EVERY) continue;
		report(s);
		if (s->done < s->count) s->least_bytes = INT64_MAX;
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct soak s = {.least_bytes = INT64_MAX,
		.count = argc > 1 ? atoi(argv[1]) : 10000,
		.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
	struct verify_options o = {.threads = argc > 3 ? atoi(argv[3]) : 2,
		.seed = 1,
		.trace_timeout_ms = 10000,
		.replay_timeout_ms = 10000,
		.device = argc > 4 ? argv[4] : NULL,
		.skip_timing = true,
		.num_kept = NUM_KEPT};
	struct err err = {0};
	int before = descriptors();
	if (s.count < 1 || s.count > 1000000 || !s.seed || o.threads < 1) {
		fprintf(stderr, "soak: usage: soak [COUNT 1 to 1000000] [SEED from 1] [THREADS from 1] [DEVICE]\n");
		return 2;
	}
	s.is_seen = xcalloc((size_t)s.count, sizeof *s.is_seen);
	int rc = verifier_create(&o, &s.v, &err);
	if (!rc) rc = run(&s, &err);
	if (rc) fprintf(stderr, "soak: after %d candidates: %s\n", s.done, err.text);
	report(&s);
	verifier_free(s.v);
	/* Nothing may be left of anybody. */
	if (descriptors() != before || children()) {
		printf("left behind: %d descriptors (before: %d), %d children\n", descriptors(), before, children());
		s.failures++;
	}
	if (files_left()) {
		printf("left behind: %d files in /tmp\n", files_left());
		s.failures++;
	}
	if (s.warm_bytes && s.least_bytes > s.warm_bytes + GROWTH_MAX) {
		printf("what is allocated grew from %.1f MiB after %d candidates to %.1f MiB\n",
			(double)s.warm_bytes / (1 << 20), WARM, (double)s.least_bytes / (1 << 20));
		s.failures++;
	}
	int lost = s.count;
	for (int i = 0; i < s.count; i++) lost -= s.is_seen[i];
	printf("%d candidates, seed %llu: %d lost, %d failures\n", s.count, (unsigned long long)s.seed, lost, s.failures);
	free(s.is_seen);
	return rc || lost || s.failures ? 1 : 0;
}
