/* hone-runner's main: enters the sandbox, then serves loads and trials on descriptor 3 until the
 * stream ends (runner.h has the messages).
 *
 * At level `full` the first process only makes the namespaces, forks the one that works and mirrors
 * how it ended, so that the supervisor sees a signal as a signal. A template's runners are the
 * supervisor's own children. A message that does not make
 * sense ends the process: only our own supervisor writes to it. */
#include "clean/clean.h"
#include "runner/launcher_cuda.h"
#include "runner/launcher.h"
#include "runner/replay.h"
#include "runner/runner.h"
#include "base/base.h"
#include "sandbox/sandbox.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTROL_FD 3
/* Kernels, the tape's text and its parse; shadow memory for races. */
#define BYTES_BESIDE_BUFFERS ((int64_t)VM_SHADOW_BYTES_MAX + ((int64_t)1 << 30))

static void reply(json_t *o)
{
	char *text = json_dumps(o, JSON_COMPACT);
	struct err err = {0};
	CHECKF(text, "a reply that is not JSON");
	if (msg_send(CONTROL_FD, text, strlen(text), NULL, 0, 0, &err)) exit(3);
	free(text);
	json_decref(o);
}

static void reply_fault(const struct runner_fault *f) { reply(json_pack("{s:o}", "fault", runner_fault_json(f))); }

const uint8_t *clean_map(int fd, int protection, int flags, int64_t *bytes)
{
	struct stat st;
	CHECK(fstat(fd, &st) == 0);
	*bytes = st.st_size;
	if (st.st_size == 0) return NULL;
	void *p = mmap(NULL, (size_t)st.st_size, protection, flags, fd, 0);
	CHECKF(p != MAP_FAILED, "mapping a descriptor of %lld bytes", (long long)st.st_size);
	return p;
}

void clean_unmap(const uint8_t *p, int64_t bytes)
{
	if (p) munmap((void *)(uintptr_t)p, (size_t)bytes);
}

/* What this process was started for. */
struct runner_options {
	struct sandbox_options sandbox;
	int64_t memory_bytes;
	bool is_cuda;
	int device; /* of CUDA */
	bool is_exact;
	char **tool; /* words of a tool that starts the runner proper; NULL: this is it */
};
static struct replay *replay;           /* NULL before the first load */
static struct launcher *spare_launcher; /* made, and not yet in a replay */
static struct runner_device device = {.name = "vm"};

/* The launcher before the first load is made when the process is ready: a GPU's context takes its
 * time. */
static int launcher_make(const struct runner_options *o, char *text, size_t len)
{
	if (!o->is_cuda) {
		spare_launcher = launcher_vm_create(o->memory_bytes);
		return 0;
	}
	int rc = launcher_cuda_create(o->device, o->memory_bytes, &spare_launcher, &device, text, len);
	if (!rc && o->is_exact) launcher_cuda_make_exact(spare_launcher);
	return rc;
}

static int replay_set(struct tape *t, const struct runner_binaries *b, struct runner_fault *fault)
{
	if (replay) return replay_reload(replay, t, b, fault);
	struct launcher *l = spare_launcher;
	spare_launcher = NULL;
	return replay_create(t, l, b, &replay, fault);
}

/* A first load that failed took the launcher with it. */
static int load_again_ready(const struct runner_options *o)
{
	char text[256] = "";
	return replay || spare_launcher ? 0 : launcher_make(o, text, sizeof text);
}

static void load(const struct runner_options *o, const json_t *request, const int *fds, int nfds)
{
	int64_t bytes = 0, binary_bytes = 0;
	const uint8_t *text = clean_map(fds[0], PROT_READ, MAP_PRIVATE, &bytes);
	struct tape *t = NULL;
	struct err err = {0};
	struct runner_fault fault = {.row = -1};
	struct runner_binaries binaries = {0};
	if (nfds > 1) binaries.data = clean_map(fds[1], PROT_READ, MAP_PRIVATE, &binary_bytes);
	binaries.bytes = binary_bytes;
	if (runner_binaries_parse(json_object_get(request, "binaries"), binary_bytes, &binaries, &err)) exit(3);

	/* The text is hostile: what does not parse is an answer like any other. */
	int rc = tape_parse((const char *)text, (size_t)bytes, &t, &err);
	clean_unmap(text, bytes);
	if (rc) {
		snprintf(fault.code, sizeof fault.code, "bad-tape");
		snprintf(fault.text, sizeof fault.text, "%.1000s", err.text);
	} else {
		rc = replay_set(t, &binaries, &fault);
	}
	free(binaries.binaries);
	clean_unmap(binaries.data, binary_bytes);
	if (rc) reply_fault(&fault);
	else
		reply(json_pack("{s:{s:i, s:i, s:i, s:i, s:i}}", "loaded", "tf32_line", replay_line(replay, RUNNER_TF32),
			"order_line", replay_line(replay, RUNNER_ORDER), "narrow_line", replay_line(replay, RUNNER_NARROW),
			"data_line", replay_line(replay, RUNNER_DATA), "fp8_line", replay_line(replay, RUNNER_FP8)));
	if (load_again_ready(o)) exit(3);
}

/* One library row: the supervisor has it computed and says when its writes lie in the memory. */
static int library_ask(const struct launcher_library *l, int row, struct runner_fault *fault)
{
	struct str text = {0};
	struct err err = {0};
	json_t *answer = NULL;
	reply(json_pack("{s:i}", "library", row));
	if (msg_recv(CONTROL_FD, RUNNER_MESSAGE_BYTES_MAX, &text, NULL, NULL, 0, &err)) exit(3);
	if (json_parse(text.data, text.len, "answer", &answer, &err)) exit(3);
	const char *failed = json_string_value(json_object_get(answer, "failed"));
	int line = replay_tape(replay)->rows[row].line, rc = 0;
	if (failed) rc = launcher_fault(fault, "library-row", row, line, failed);
	json_decref(answer);
	str_release(&text);
	return rc;
}

/* The next question of time, by the supervisor. */
static enum runner_clock clock_ask(const struct launcher_clock *c, int64_t ns)
{
	struct str text = {0};
	struct err err = {0};
	json_t *answer = NULL;
	enum runner_clock what = RUNNER_END;
	reply(json_pack("{s:{s:I}}", "clock", "ns", (json_int_t)ns));
	if (msg_recv(CONTROL_FD, RUNNER_MESSAGE_BYTES_MAX, &text, NULL, NULL, 0, &err)) exit(3);
	if (json_parse(text.data, text.len, "question", &answer, &err)) exit(3);
	if (runner_clock_find(json_string_value(json_object_get(answer, "clock")), &what)) exit(3);
	json_decref(answer);
	str_release(&text);
	return what;
}

/* From here on the time is the candidate's. */
static void begun(void) { reply(json_pack("{s:b}", "begun", 1)); }

static void trial(const json_t *o, const int *fds, int nfds)
{
	struct runner_trial t = {0};
	struct runner_result result = {0};
	struct err err = {0};
	/* The request and its two pieces of memory: what is given, which may only be read, and the
	 * outputs, which the supervisor maps as well. Whoever breaks the protocol here is the
	 * supervisor, so the process ends. */
	CHECKF(replay && replay_tape(replay), "a trial before a tape");
	if (runner_trial_parse(o, replay_tape(replay)->noutputs, &t, &err)) exit(3);
	int64_t given_bytes = t.shared_given_bytes, outputs_bytes = t.shared_outputs_bytes;
	struct launcher_shared shared = {fds[0], given_bytes, fds[1], outputs_bytes};
	const uint8_t *given = NULL;
	uint8_t *outputs = NULL;
	if (!shared.given_bytes) {
		given = clean_map(fds[0], PROT_READ, MAP_PRIVATE, &given_bytes);
		outputs = (uint8_t *)(uintptr_t)clean_map(fds[1], PROT_READ | PROT_WRITE, MAP_SHARED, &outputs_bytes);
	}
	for (int i = 0; i < t.ninputs + t.nparams; i++) {
		const struct runner_given *g = i < t.ninputs ? &t.inputs[i] : &t.params[i - t.ninputs];
		CHECKF(g->bytes <= given_bytes && g->offset <= given_bytes - g->bytes,
			"given data %d does not lie in its descriptor", i);
	}
	/* Library rows are computed by the supervisor, in memory of both, while the replay waits. */
	struct launcher_library library = {.ask = library_ask};
	if (nfds > 2)
		library.memory = (uint8_t *)(uintptr_t)clean_map(fds[2], PROT_READ | PROT_WRITE, MAP_SHARED, &library.bytes);
	struct launcher_clock clock = {clock_ask, t.deadline_ms};
	struct replay_given data = {
		given, given_bytes, nfds > 2 ? &library : NULL, &clock, shared.given_bytes ? &shared : NULL, begun};
	/* The replay; whatever happened in it is part of the answer. */
	replay_run(replay, &t, &data, outputs, outputs_bytes, &result);
	clean_unmap(given, given_bytes);
	clean_unmap(outputs, outputs_bytes);
	clean_unmap(library.memory, library.bytes);
	reply(json_pack("{s:o}", "trial", runner_result_json(&result)));
	runner_result_release(&result);
	runner_trial_release(&t);
}

/* Costs of another tape, whose buffers may be larger than any memory. */
static void price(const json_t *o, const int *fds)
{
	static const struct runner_binaries none = {0};
	struct runner_trial t = {0};
	struct runner_result result = {.place = {.output = -1}};
	struct tape *tape = NULL;
	struct replay *pricing = NULL;
	struct err err = {0};
	int64_t bytes = 0;
	if (runner_trial_parse(o, 0, &t, &err)) exit(3);
	const uint8_t *text = clean_map(fds[0], PROT_READ, MAP_PRIVATE, &bytes);
	int rc = tape_parse((const char *)text, (size_t)bytes, &tape, &err);
	clean_unmap(text, bytes);
	if (rc) launcher_fault(&result.fault, "bad-tape", -1, 0, err.text);
	else rc = replay_create(tape, launcher_vm_create_sampling(), &none, &pricing, &result.fault);
	if (rc) result.has_fault = true;
	else replay_price(pricing, &t, &result);
	replay_free(pricing);
	reply(json_pack("{s:o}", "trial", runner_result_json(&result)));
	runner_result_release(&result);
	runner_trial_release(&t);
}

/* Between two candidates. A runner that is not as good as new is not used again. */
static void reset(void)
{
	struct runner_fault fault = {.row = -1};
	if (replay && replay_reset(replay, &fault)) {
		reply_fault(&fault);
		_exit(0);
	}
	reply(json_pack("{s:b}", "ready", 1));
}

static int serve(const struct runner_options *options)
{
	struct str text = {0};
	struct err err = {0};
	for (;;) {
		int fds[CHILD_FDS_MAX], nfds = CHILD_FDS_MAX;
		memset(fds, 0xff, sizeof fds); /* what is not sent is no descriptor, and not the standard input */
		if (msg_recv(CONTROL_FD, RUNNER_MESSAGE_BYTES_MAX, &text, fds, &nfds, 0, &err)) break;
		json_t *o = NULL;
		if (json_parse(text.data, text.len, "message", &o, &err)) return 3;
		const json_t *request = json_object_get(o, "load");
		if (request && nfds == (options->is_cuda ? 2 : 1)) load(options, request, fds, nfds);
		else if (json_object_get(o, "trial") && nfds >= 2) trial(json_object_get(o, "trial"), fds, nfds);
		else if (json_object_get(o, "price") && !options->is_cuda && nfds == 1) price(json_object_get(o, "price"), fds);
		else if (json_object_get(o, "proof") && !options->is_cuda && nfds >= CLEAN_PROOF_FDS_MIN)
			reply(json_pack("{s:o}", "proof", clean_proof(json_object_get(o, "proof"), fds, nfds)));
		else if (json_object_get(o, "reset") && options->is_cuda && nfds == 0) reset();
		else return 3;
		for (int i = 0; i < nfds; i++) close(fds[i]);
		json_decref(o);
		/* Nothing that follows could be believed; _exit, because a GPU's driver may wait for work
		 * that never ends. */
		if (replay && replay_is_spent(replay)) _exit(0);
	}
	replay_free(replay);
	str_release(&text);
	return 0;
}

static int work(const struct runner_options *o)
{
	char text[512] = "";
	if (sandbox_enter(&o->sandbox, text, sizeof text) || launcher_make(o, text, sizeof text)) {
		reply(json_pack("{s:s}", "failed", text));
		return 3;
	}
	reply(json_pack("{s:b, s:o}", "ready", 1, "device", runner_device_json(&device)));
	return serve(o);
}

/* The namespaces, the filter for system calls and what the loader does are made once, before the
 * first order. Returns in each runner's process alone. */
static int template_work(struct runner_options *o)
{
	char text[512] = "";
	int fds[SANDBOX_ORDER_FDS];
	if (o->sandbox.level == SANDBOX_FULL && sandbox_drop_root(text, sizeof text)) return 3;
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: a change of user clears it */
	sandbox_template_serve(CONTROL_FD, &o->sandbox, fds, NULL, NULL, text, sizeof text);
	/* A group of its own, as of every child of the supervisor's. */
	setsid();
	int control = fcntl(fds[0], F_DUPFD, CONTROL_FD + SANDBOX_ORDER_FDS + 1);
	for (int i = 0; i < SANDBOX_ORDER_FDS; i++) close(fds[i]);
	if (control < 0 || dup2(control, CONTROL_FD) < 0) return 3;
	close(control);
	if (*text) reply(json_pack("{s:s}", "failed", text));
	return *text ? 3 : work(o);
}

#define TOOL_WORDS_MAX 64
/* Becomes the tool, which starts this program again, to be watched: without a sandbox of its own,
 * inside the tool's namespaces. */
static int tool_become(const struct runner_options *o, const char *memory, const char *place)
{
	char text[512] = "", self[4096] = "", *words[TOOL_WORDS_MAX + 6];
	char *env[8] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=/dev/shm", "HOME=/dev/shm", "CUDA_CACHE_DISABLE=1"};
	static const char *const GPU_WORDS[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"};
	int n = 0, nenv = 5;
	/* The supervisor's own words on which GPU a number means. */
	for (size_t i = 0; i < ARRAY_LEN(GPU_WORDS); i++)
		if (getenv(GPU_WORDS[i])) env[nenv++] = xasprintf("%s=%s", GPU_WORDS[i], getenv(GPU_WORDS[i]));
	bool fails = o->sandbox.level != SANDBOX_NONE && sandbox_enter_tool(&o->sandbox, text, sizeof text);
	if (!fails && readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
		snprintf(text, sizeof text, "/proc/self/exe cannot be read");
		fails = true;
	}
	for (; !fails && o->tool[n] && n < TOOL_WORDS_MAX; n++) words[n] = o->tool[n];
	char *rest[] = {self, "none", (char *)(uintptr_t)memory, (char *)(uintptr_t)place, "exact", NULL};
	memcpy(words + n, rest, sizeof rest);
	if (!fails) execve(words[0], words, env);
	if (!fails) snprintf(text, sizeof text, "%.300s cannot be started", words[0]);
	reply(json_pack("{s:s}", "failed", text));
	return 3;
}

static int tool_or_work(const struct runner_options *o, char **argv)
{
	return o->tool ? tool_become(o, argv[2], argv[3]) : work(o);
}

/* Ends as the child ended. */
static int mirror(pid_t pid)
{
	int status = 0;
	close(CONTROL_FD);
	while (waitpid(pid, &status, 0) < 0) continue;
	if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 3;
}

/* "cuda:N" */
static bool device_read(const char *text, struct runner_options *o)
{
	char *end = NULL;
	if (strncmp(text, "cuda:", 5) || text[5] < '0' || text[5] > '9') return false;
	o->device = (int)strtol(text + 5, &end, 10);
	o->is_cuda = true;
	return *end == 0 && o->device < 1024;
}

/* "exact", or "under" and a tool's words. */
static bool words_read(char **words, struct runner_options *o)
{
	o->is_exact = !strcmp(words[0], "exact") && !words[1];
	if (!strcmp(words[0], "under") && words[1]) o->tool = words + 1;
	return o->is_exact || o->tool;
}

int main(int argc, char **argv)
{
	struct runner_options o = {0};
	bool is_template = argc == 4 && !strcmp(argv[3], "template");
	if (argc < 3 || (argc > 3 && !is_template && !device_read(argv[3], &o)) ||
		(argc > 4 && !words_read(argv + 4, &o))) {
		fprintf(stderr,
			"hone-runner: started by hone verify as `hone-runner LEVEL MEMORY_BYTES [template | cuda:N [exact | "
			"under TOOL WORD...]]` with a socket as descriptor 3; not for hands\n");
		return 2;
	}
	/* A name that is no level leaves the loop behind the last one and is refused below. */
	int level = SANDBOX_NONE;
	while (level <= SANDBOX_FULL && strcmp(sandbox_level_name(level), argv[1])) level++;
	o.memory_bytes = strtoll(argv[2], NULL, 10);
	if (level > SANDBOX_FULL || o.memory_bytes <= 0) return 2;
	/* The vm reads no files, so no path is open to it; a GPU's driver brings a list of its own. */
	static const char *const NO_PATHS[] = {NULL};
	o.sandbox = (struct sandbox_options){
		.level = level, .read_paths = NO_PATHS, .memory_bytes = o.memory_bytes + BYTES_BESIDE_BUFFERS};
	if (o.is_cuda) sandbox_allow_gpu(&o.sandbox);
	char text[512] = "";
	if (is_template) return template_work(&o);
	/* Only the full level has namespaces, which are made before the fork: the child does the work
	 * in them, and this process ends as the child ended. */
	if (level != SANDBOX_FULL) return tool_or_work(&o, argv);
	if (sandbox_unshare(&o.sandbox, text, sizeof text)) {
		reply(json_pack("{s:s}", "failed", text));
		return 3;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: a change of user clears it */
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return tool_or_work(&o, argv);
	}
	return pid < 0 ? 3 : mirror(pid);
}
