/* hone-runner's main: enters the sandbox, then serves loads and trials on descriptor 3 until the
 * stream ends (runner.h has the messages).
 *
 * At level `full` the first process only makes the namespaces, forks the one that works and mirrors
 * how it ended, so that the supervisor sees a signal as a signal. A message that does not make
 * sense ends the process: only our own supervisor writes to it. */
#include "runner/replay.h"
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
#define BYTES_BESIDE_BUFFERS ((int64_t)VM_SHADOW_BYTES_MAX + ((int64_t)1 << 30))   /* kernels, the tape's text and its parse; shadow memory for races */

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

static const uint8_t *map_fd(int fd, int protection, int flags, int64_t *bytes)
{
	struct stat st;
	CHECK(fstat(fd, &st) == 0);
	*bytes = st.st_size;
	if (st.st_size == 0) return NULL;
	void *p = mmap(NULL, (size_t)st.st_size, protection, flags, fd, 0);
	CHECKF(p != MAP_FAILED, "mapping a descriptor of %lld bytes", (long long)st.st_size);
	return p;
}

static void unmap(const uint8_t *p, int64_t bytes)
{
	if (p) munmap((void *)(uintptr_t)p, (size_t)bytes);
}

static void load(struct replay **r, int fd, int64_t memory_bytes)
{
	int64_t bytes = 0;
	const uint8_t *text = map_fd(fd, PROT_READ, MAP_PRIVATE, &bytes);
	struct tape *t = NULL;
	struct err err = {0};
	struct runner_fault fault = {.row = -1};
	int rc = tape_parse((const char *)text, (size_t)bytes, &t, &err);
	unmap(text, bytes);
	if (rc) {
		snprintf(fault.code, sizeof fault.code, "bad-tape");
		snprintf(fault.text, sizeof fault.text, "%.1000s", err.text);
	} else {
		rc = *r ? replay_reload(*r, t, &fault) : replay_create(t, memory_bytes, r, &fault);
	}
	if (rc) reply_fault(&fault);
	else
		reply(json_pack("{s:{s:i, s:i, s:i}}", "loaded", "tf32_line", replay_tf32_line(*r), "order_line",
			replay_order_line(*r), "narrow_line", replay_narrow_line(*r)));
}

static void trial(struct replay *r, const json_t *o, const int *fds)
{
	struct runner_trial t = {0};
	struct runner_result result = {0};
	struct err err = {0};
	CHECKF(r && replay_tape(r), "a trial before a tape");
	if (runner_trial_parse(o, replay_tape(r)->noutputs, &t, &err)) exit(3);
	int64_t given_bytes = 0, outputs_bytes = 0;
	const uint8_t *given = map_fd(fds[0], PROT_READ, MAP_PRIVATE, &given_bytes);
	uint8_t *outputs = (uint8_t *)(uintptr_t)map_fd(fds[1], PROT_READ | PROT_WRITE, MAP_SHARED, &outputs_bytes);
	for (int i = 0; i < t.ninputs + t.nparams; i++) {
		const struct runner_given *g = i < t.ninputs ? &t.inputs[i] : &t.params[i - t.ninputs];
		CHECKF(g->bytes <= given_bytes && g->offset <= given_bytes - g->bytes,
			"given data %d does not lie in its descriptor", i);
	}
	struct replay_given data = {given, given_bytes};
	replay_run(r, &t, &data, outputs, outputs_bytes, &result);
	unmap(given, given_bytes);
	unmap(outputs, outputs_bytes);
	reply(json_pack("{s:o}", "trial", runner_result_json(&result)));
	runner_result_release(&result);
	runner_trial_release(&t);
}

static int serve(int64_t memory_bytes)
{
	struct replay *r = NULL;
	struct str text = {0};
	struct err err = {0};
	for (;;) {
		int fds[2] = {-1, -1}, nfds = 2;
		if (msg_recv(CONTROL_FD, RUNNER_MESSAGE_BYTES_MAX, &text, fds, &nfds, 0, &err)) break;
		json_t *o = NULL;
		if (json_parse(text.data, text.len, "message", &o, &err)) return 3;
		if (json_object_get(o, "load") && nfds == 1) load(&r, fds[0], memory_bytes);
		else if (json_object_get(o, "trial") && nfds == 2) trial(r, json_object_get(o, "trial"), fds);
		else return 3;
		for (int i = 0; i < nfds; i++) close(fds[i]);
		json_decref(o);
	}
	replay_free(r);
	str_release(&text);
	return 0;
}

static int work(const struct sandbox_options *o, int64_t memory_bytes)
{
	char text[512] = "";
	if (sandbox_enter(o, text, sizeof text)) {
		reply(json_pack("{s:s}", "failed", text));
		return 3;
	}
	reply(json_pack("{s:b}", "ready", 1));
	return serve(memory_bytes);
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

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr,
			"hone-runner: started by hone verify as `hone-runner LEVEL MEMORY_BYTES` with a socket as descriptor 3; "
			"not for hands\n");
		return 2;
	}
	int level = SANDBOX_NONE;
	while (level <= SANDBOX_FULL && strcmp(sandbox_level_name(level), argv[1])) level++;
	int64_t memory_bytes = strtoll(argv[2], NULL, 10);
	if (level > SANDBOX_FULL || memory_bytes <= 0) return 2;
	static const char *const NO_PATHS[] = {NULL};
	struct sandbox_options o = {
		.level = level, .read_paths = NO_PATHS, .memory_bytes = memory_bytes + BYTES_BESIDE_BUFFERS};
	if (level != SANDBOX_FULL) return work(&o, memory_bytes);
	char text[512] = "";
	if (sandbox_unshare(&o, text, sizeof text)) {
		reply(json_pack("{s:s}", "failed", text));
		return 3;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* again: a change of user clears it */
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return work(&o, memory_bytes);
	}
	return pid < 0 ? 3 : mirror(pid);
}
