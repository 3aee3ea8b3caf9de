/* timeout: 900. Hostile candidates: each gets its verdict, nothing else is hurt, and no process,
 * descriptor or file stays behind. */
#include "verify/verify.h"
#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define TRACE_TIMEOUT_MS 6000

static const char TASK[] =
	"import torch\nimport torch.nn as nn\nM = 16\nN = 256\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
	"        return torch.relu(x) * 2 + 1\n\n\n"
	"def get_inputs():\n    return [torch.randn(M, N)]\n\n\ndef get_init_inputs():\n    return []\n";

/* An honest candidate around hostile code: TOP runs at import, INIT in the constructor, BODY at the
 * start of forward. */
#define CANDIDATE(TOP, INIT, BODY) \
	"import ctypes, json, os, socket, struct, sys, time\nimport torch\nimport torch.nn as nn\nimport triton\n" \
	"import triton.language as tl\n\n\n" \
	"@triton.jit\ndef relu_kernel(x, y, n, BLOCK: tl.constexpr):\n" \
	"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n" \
	"    v = tl.load(x + i, mask=i < n)\n" \
	"    tl.store(y + i, tl.maximum(v, 0.0) * 2 + 1, mask=i < n)\n\n\n" \
	"def send(payload, length=None):\n    for fd in range(3, 40):\n        try:\n" \
	"            s = socket.socket(fileno=os.dup(fd))\n" \
	"            s.getpeername()\n        except OSError:\n" \
	"            continue\n" \
	"        s.sendall(struct.pack('<I', len(payload) if length is None else length) + payload)\n" \
	"        return s\n\n\n" \
	TOP "\n\n\nclass ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n" \
	"        " INIT "\n\n    def forward(self, x):\n        " BODY \
	"\n        y = torch.empty_like(x)\n        n = x.numel()\n" \
	"        relu_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)\n        return y\n"
#define IMPORT(code) CANDIDATE(code, "pass", "pass")
/* Each statement that is refused is fine; one that works ends the trace with a name of its own. */
#define ESCAPE(code) IMPORT("def attempt(f):\n    try:\n        f()\n" \
	"    except (OSError, PermissionError, RuntimeError, ImportError):\n        return\n" \
	"    raise SystemError('escaped')\n\n\n" code)

#define TTIR "module {\\n  tt.func public @k(%arg0: !tt.ptr<f32>) {\\n    tt.return\\n  }\\n}\\n"
#define TAPE_HEAD "t = {'version': 2, 'buffers': [{'kind': 'input', 'bytes': 16384, 'input': 0}, " \
	"{'kind': 'temp', 'bytes': 16384}], " \
	"'kernels': [{'name': 'k', 'ttir': '" TTIR \
	"', 'num_warps': 4, 'num_stages': 2, 'num_ctas': 1}], 'rows': [], 'outputs': [{'buffer': 1, 'offset': 0, " \
	"'dtype': 'float32', 'shape': [16, 256], " \
	"'stride': [256, 1]}], 'tuple': False}\n"
#define SEND_TAPE "send(json.dumps({'tape': json.dumps(t)}).encode()); time.sleep(60)"
#define COPY_ROW "{'op': 'copy', 'line': 1, 'dst': {'buffer': 1, 'offset': 0, 'dtype': 'float32', " \
	"'shape': [16, 256], 'stride': [256, 1]}, " \
	"'src': {'buffer': 0, 'offset': 0, 'dtype': 'float32', 'shape': [16, 256], 'stride': [256, 1]}}"

#define LAUNCH_ROW "{'op': 'launch', 'line': 1, 'kernel': 0, 'grid': [1, 1, 1], 'args': [{'buffer': 1, 'offset': 0}]}"
/* The honest tape, kernel and recipe included, taken from the tracer in whose process the candidate
 * is, and changed before it is sent: what only the replay can refuse gets there. */
#define FORGED(code) CANDIDATE("pass", "pass", "y = torch.empty_like(x)\n" \
	"        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n" \
	"        own = sys.modules['tracer_record']\n" \
	"        t = own.tape_json(sys.modules['tracer_driver'].RECORDER, [y.view_tuple()], False)\n" \
	"        " code "\n        " SEND_TAPE)

static const struct {
	const char *name, *source, *verdicts;
} CASES[] = {
	{"honest", IMPORT("pass"), "genuine/ok"},
	{"hang in import", IMPORT("while True: pass"), "invalid/timeout-import"},
	{"sleep in import", IMPORT("time.sleep(1000)"), "invalid/timeout-import"},
	{"hang in init", CANDIDATE("pass", "time.sleep(1000)", "pass"), "invalid/timeout-init"},
	{"hang in forward", CANDIDATE("pass", "pass", "time.sleep(1000)"), "invalid/timeout-forward"},
	{"a false phase and a hang", CANDIDATE("send(b'{\"phase\": \"forward\"}')\nwhile True: pass", "pass", "pass"),
		"invalid/timeout-forward"},
	{"fork bomb", IMPORT("while True:\n    os.fork()"), "invalid/import-error"},
	{"fork in C", IMPORT("libc = ctypes.CDLL(None)\nwhile libc.fork() >= 0: pass\nraise OSError('refused')"),
		"invalid/import-error"},
	{"100 GB of bytes", IMPORT("b = bytearray(100 << 30)"), "invalid/memory"},
	{"100 GB of tensor", IMPORT("b = torch.ones(25 << 30)"), "invalid/import-error invalid/memory"},
	{"memory in small pieces", IMPORT("b = []\nwhile True: b.append(bytearray(1 << 26))"),
		"invalid/memory invalid/timeout-import"},
	{"null pointer", IMPORT("ctypes.string_at(0)"), "invalid/crash"},
	{"stack overflow",
		IMPORT("sys.setrecursionlimit(1 << 30)\ndef f(x): return [f(x)]\nimport re\nclass A:\n    def __repr__(self): "
			   "return repr(self)\n"
			   "repr(A())"),
		"invalid/crash invalid/import-error invalid/memory"},
	{"abort", CANDIDATE("pass", "os.abort()", "pass"), "invalid/crash"},
	{"exit 0", IMPORT("os._exit(0)"), "invalid/exit"},
	{"exit 0 in forward", CANDIDATE("pass", "pass", "os._exit(0)"), "invalid/exit"},
	{"closed descriptors", IMPORT("os.closerange(0, 1000)"), "invalid/exit invalid/no-result invalid/import-error"},
	{"closed descriptors and a hang", IMPORT("os.closerange(0, 1000)\nwhile True: pass"), "invalid/no-result"},
	{"100 MB on stdout",
		IMPORT("for _ in range(100):\n    os.write(1, b'x' * (1 << 20))\nprint('{\"verdict\": \"genuine\"}')"),
		"genuine/ok"},
	{"signals",
		/* To end oneself is nobody's loss. */
		ESCAPE("import threading\nown = threading.get_native_id()\nattempt(lambda: os.kill(1 if own > 1 else 2, "
			   "9))\nattempt(lambda: os.kill(-1, 9))\nattempt(lambda: os.killpg(1, 9))"),
		"invalid/unsupported"},
	{"files",
		ESCAPE("attempt(lambda: open('/etc/passwd'))\nattempt(lambda: open('/tmp/hone-hostile', 'w'))\nattempt(lambda: "
			   "open('hone-hostile', 'w'))\n"
			   "attempt(lambda: os.listdir('/'))\nattempt(lambda: open('/proc/self/mem', 'rb'))\nattempt(lambda: "
			   "os.mkdir('/tmp/hone-hostile'))\n"
			   "attempt(lambda: open(os.path.expanduser('~/hone-hostile'), 'w'))"),
		"invalid/unsupported"},
	{"network",
		ESCAPE("attempt(lambda: socket.socket())\nattempt(lambda: socket.socketpair())\n"
			   "attempt(lambda: socket.create_connection(('127.0.0.1', 80), 1))"),
		"invalid/unsupported"},
	{"programs",
		ESCAPE("attempt(lambda: os.execv('/bin/sh', ['sh']))\nattempt(lambda: os.posix_spawn('/bin/sh', ['sh'], {}))"),
		"invalid/unsupported"},
	{"10 MB of source", NULL, "invalid/too-large"},
	{"an endless kernel",
		CANDIDATE("@triton.jit\ndef spin(x, y, n):\n    i = 0\n    while i < n:\n        i = i - 1\n    tl.store(y, "
				  "i.to(tl.float32))",
			"pass", "spin[(1,)](x, torch.empty_like(x), x.numel())"),
		"wrong/timeout-kernel"},
	{"one endless program of many",
		CANDIDATE("@triton.jit\ndef spin(x, y, n):\n    i = tl.where(tl.program_id(0) == 40, 0, n)\n    while i < n:\n"
				  "        i = i - 1\n    tl.store(y + tl.program_id(0), i.to(tl.float32))",
			"pass", "spin[(64,)](x, torch.empty_like(x), x.numel())"),
		"wrong/timeout-kernel"},
	{"programs that end, too many of them",
		CANDIDATE("@triton.jit\ndef slow(x, y, n):\n    v = tl.load(x)\n    for i in range(20000):\n"
				  "        v = v * 0.5 + 1.0\n    tl.store(y + tl.program_id(0), v)",
			"pass", "slow[(100000,)](x, torch.empty(100000, device='cuda'), x.numel())"),
		"invalid/too-slow"},
	{"a message of 4 GB", IMPORT("send(b'', 0xffffffff)\ntime.sleep(60)"), "invalid/no-result"},
	{"half a message", IMPORT("send(b'{\"ta', 1000)\ntime.sleep(60)"), "invalid/timeout-import"},
	{"half a character in an exception", IMPORT("raise ValueError('half \\ud800 of a pair')"), "invalid/import-error"},
	{"no JSON", IMPORT("send(b'\\xff\\x00garbage')\ntime.sleep(60)"), "invalid/bad-tape"},
	{"deep JSON", IMPORT("send(b'[' * (1 << 20))\ntime.sleep(60)"), "invalid/bad-tape"},
	{"phases without end", IMPORT("while True: send(b'{\"phase\": \"init\"}')"), "invalid/no-result"},
	{"an unknown fault",
		IMPORT("send(b'{\"fault\": {\"code\": \"genuine\", \"type\": 7, \"text\": [], \"line\": "
			   "-99999999999}}')\ntime.sleep(60)"),
		"invalid/error"},
	{"a verdict", IMPORT("send(b'{\"verdict\": \"genuine\", \"stage\": \"done\", \"correct\": true}')\ntime.sleep(60)"),
		"invalid/error"},
	{"a tape of 100,000 rows", IMPORT(TAPE_HEAD "t['rows'] = [" COPY_ROW "] * 100000\n" SEND_TAPE), "invalid/bad-tape"},
	{"a tape of a million rows",
		IMPORT("row = json.dumps(" COPY_ROW
			   ")\nsend(('{\"tape\": \"[' + (row + ',') * 1000000 + ']\"}').encode())\ntime.sleep(60)"),
		"invalid/no-result"},
	{"64 MB of numbers", IMPORT("send(b'{\"tape\": [' + b'0,' * (30 << 20) + b'0]}')\ntime.sleep(60)"),
		"invalid/bad-tape"},
	{"a view outside its buffer", IMPORT(TAPE_HEAD "t['outputs'][0]['offset'] = 1 << 20\n" SEND_TAPE),
		"invalid/bad-tape"},
	{"a negative offset", IMPORT(TAPE_HEAD "t['outputs'][0]['offset'] = -4096\n" SEND_TAPE), "invalid/bad-tape"},
	{"a buffer of 2^62 bytes", IMPORT(TAPE_HEAD "t['buffers'][1]['bytes'] = 1 << 62\n" SEND_TAPE), "invalid/bad-tape"},
	{"a tape that only copies", IMPORT(TAPE_HEAD "t['rows'] = [" COPY_ROW "]\n" SEND_TAPE), "cheat/no-launch"},
	{"a kernel without a recipe", IMPORT(TAPE_HEAD "t['rows'] = [" COPY_ROW ", " LAUNCH_ROW "]\n" SEND_TAPE),
		"cheat/ir-not-from-source"},
	{"an input that does not exist", FORGED("t['buffers'][0]['input'] = 3"), "invalid/bad-tape"},
	{"an input of another size", FORGED("t['buffers'][0]['bytes'] = 1 << 30"), "invalid/bad-tape"},
	{"more memory than the replay gives", FORGED("t['buffers'].append({'kind': 'temp', 'bytes': 1 << 34})"),
		"invalid/memory"},
	{"IR that is no IR",
		IMPORT(TAPE_HEAD "t['kernels'][0]['ttir'] = 'module { \\x00 %%%'\n"
						 "t['rows'] = [" LAUNCH_ROW "]\n" SEND_TAPE),
		"invalid/compile-error invalid/bad-tape invalid/compiler-crash"},
	{"honest again", IMPORT("import math"), "genuine/ok"},
};

static struct verdict verdicts[ARRAY_LEN(CASES)];

static char *big_source(size_t *len)
{
	struct str s = {0};
	str_puts(&s, CASES[0].source);
	while (s.len < (size_t)10 << 20)
		str_puts(&s, "x = 'a long line of nothing in particular that goes on and on, as if it had something to say'\n");
	*len = s.len;
	return s.data;
}

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int count = 0;
	for (struct dirent *e; d && (e = readdir(d));) count++;
	if (d) closedir(d);
	return count;
}

/* Processes whose command line names our workers and whose parent is this process or one that it
 * left behind. */
static int count_children(void)
{
	DIR *d = opendir("/proc");
	int count = 0;
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], text[512] = "";
		if (!isdigit((unsigned char)e->d_name[0])) continue;
		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		FILE *f = fopen(path, "r");
		if (!f) continue;
		size_t n = fread(text, 1, sizeof text - 1, f);
		fclose(f);
		text[n] = 0;
		char *after = strrchr(text, ')');
		int parent = 0;
		if (after && sscanf(after + 2, "%*c %d", &parent) == 1 && parent == getpid()) count++;
	}
	closedir(d);
	return count;
}

static int count_scratch(void)
{
	DIR *d = opendir("/tmp");
	int count = 0;
	for (struct dirent *e; d && (e = readdir(d));) count += !strncmp(e->d_name, "hone-hostile", 12);
	if (d) closedir(d);
	return count;
}

static int fds_before, fds_after, children_after, scratch_after;

static int grade_all(void **state)
{
	struct err err = {0};
	struct verify_options o = {
		.threads = 2, .seed = 1, .trace_timeout_ms = TRACE_TIMEOUT_MS, .replay_timeout_ms = 6000};
	struct verifier *v = NULL;
	struct task task = {
		.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	/* Descriptors, children and scratch folders are counted before and
	 * after: nothing may be left. */
	fds_before = count_entries("/proc/self/fd");
	int rc = verifier_create(&o, &v, &err);
	/* All at once, so that they meet each other; a case without a source is the one that is too
	 * big. */
	for (size_t i = 0; i < ARRAY_LEN(CASES) && !rc; i++) {
		size_t len = 0;
		char *big = CASES[i].source ? NULL : big_source(&len);
		struct verify_request r = {.task = &task,
			.source = big ? big : CASES[i].source,
			.source_len = big ? len : strlen(CASES[i].source),
			.id = (int64_t)i};
		rc = verifier_submit(v, &r, &err);
		free(big);
	}
	for (size_t i = 0; i < ARRAY_LEN(CASES) && !rc; i++) {
		struct verdict d;
		int64_t id = 0;
		rc = verifier_collect(v, 300000, &id, &d, &err);
		if (!rc) verdicts[id] = d;
	}
	verifier_free(v);
	if (rc) fprintf(stderr, "%s\n", err.text);
	fds_after = count_entries("/proc/self/fd");
	children_after = count_children();
	scratch_after = count_scratch();
	return rc;
}

static void check(void **state)
{
	size_t i = (size_t)(uintptr_t)*state;
	char found[128], *words = xstrdup(CASES[i].verdicts), *save = NULL;
	bool listed = false;
	snprintf(found, sizeof found, "%s/%s", verdict_class_name(verdicts[i].class), verdicts[i].reason);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		listed |= !strcmp(word, found);
	free(words);
	if (!listed) fail_msg("%s: %s (%s) is not one of: %s", CASES[i].name, found, verdicts[i].detail, CASES[i].verdicts);
}

static void check_nothing_stays(void **state)
{
	assert_int_equal(fds_after, fds_before);
	assert_int_equal(children_after, 0);
	assert_int_equal(scratch_after, 0);
}

/* A verifier that is freed with work under way stops at once and leaves nothing either. */
static void check_free_while_busy(void **state)
{
	struct err err = {0};
	struct verify_options o = {.threads = 2, .seed = 1, .skip_compile = true};
	struct task task = {
		.name = (char *)(uintptr_t)"t", .source = (char *)(uintptr_t)TASK, .hash = hash_bytes(TASK, strlen(TASK))};
	struct verifier *v = NULL;
	if (verifier_create(&o, &v, &err)) fail_msg("%s", err.text);
	for (int i = 0; i < 4; i++) {
		char *source = xasprintf("%s\n# %d\n", CASES[4].source, i);
		struct verify_request r = {.task = &task, .source = source, .source_len = strlen(source), .id = i};
		assert_int_equal(verifier_submit(v, &r, &err), 0);
		free(source);
	}
	struct verdict d;
	int64_t id = 0;
	assert_int_equal(verifier_collect(v, 0, &id, &d, &err), ERR_TIMEOUT);
	sleep_ms(1500);
	verifier_free(v);
	assert_int_equal(count_entries("/proc/self/fd"), fds_before);
	assert_int_equal(count_children(), 0);
}

int main(void)
{
	static struct CMUnitTest tests[ARRAY_LEN(CASES) + 2];
	cmocka_set_message_output(CM_OUTPUT_TAP);
	for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
		tests[i] = (struct CMUnitTest){CASES[i].name, check, NULL, NULL, (void *)(uintptr_t)i};
	tests[ARRAY_LEN(CASES)] = (struct CMUnitTest){
		"no process, descriptor or file stays", check_nothing_stays, NULL, NULL, NULL};
	tests[ARRAY_LEN(CASES) + 1] = (struct CMUnitTest){"freed while busy", check_free_while_busy, NULL, NULL, NULL};
	return _cmocka_run_group_tests("hostile", tests, ARRAY_LEN(tests), grade_all, NULL);
}
