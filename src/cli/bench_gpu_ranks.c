/* The part ranks of `hone bench gpu`: a step of one process, then of several at once, each with a
 * GPU of its own and as many answers as the one had. The processes are this program again, with the
 * variables that torchrun would set; the share is the one's seconds over the several's. */
#include "base/base.h"
#include "cli/bench_gpu.h"
#include "ops/ops.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS_MOST 64
#define WAIT_MS (600 * 1000)
#define OUTPUT_MAX ((size_t)1 << 20)

/* ---- where and whether ---- */

/* A port of this machine that nobody listens at now, with a free number below it for
 * MASTER_PORT, which no one opens.
 */
static int free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof a) && !getsockname(fd, (struct sockaddr *)&a, &len))
		port = ntohs(a.sin_port);
	if (fd >= 0) close(fd);
	return port;
}

/* Whether there is a GPU for each; why not otherwise. The CPU serves any number. */
static bool has_devices(const struct gpu_options *o, char *why, size_t room)
{
	char name[32];
	struct ops *ops = NULL;
	struct err err = {0};
	if (!strncmp(o->device, "cuda:", 5)) {
		snprintf(
			why, room, "ranks: --device %.40s is one GPU for all of them; --device cuda gives each its own", o->device);
		return false;
	}
	if (strcmp(o->device, "cuda")) return true;
	snprintf(name, sizeof name, "cuda:%d", (int)o->ranks - 1);
	int rc = ops_open(name, &(struct ops_options){.cuda_libs = o->cuda_libs}, &ops, &err);
	if (rc) snprintf(why, room, "ranks: needs %d GPUs (%.300s)", (int)o->ranks, err.text);
	ops_free(ops);
	return !rc;
}

/* ---- processes ---- */

extern char **environ;

/* This process's variables without those of a launcher, and those of rank k of `world`. */
static char **variables(int k, int world, int port)
{
	static const char *const launcher[] = {
		"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "MASTER_ADDR=", "MASTER_PORT=", "SLURM_", "TORCHELASTIC_"};
	size_t n = 0, count = 0;
	while (environ[count]) count++;
	char **env = xcalloc(count + 6, sizeof *env);
	for (size_t i = 0; i < count; i++) {
		bool is_launcher = false;
		for (size_t j = 0; j < ARRAY_LEN(launcher); j++)
			is_launcher = is_launcher || !strncmp(environ[i], launcher[j], strlen(launcher[j]));
		if (!is_launcher) env[n++] = xstrdup(environ[i]);
	}
	if (world == 1) return env;
	env[n++] = xasprintf("RANK=%d", k);
	env[n++] = xasprintf("LOCAL_RANK=%d", k);
	env[n++] = xasprintf("WORLD_SIZE=%d", world);
	env[n++] = xstrdup("MASTER_ADDR=127.0.0.1");
	env[n++] = xasprintf("MASTER_PORT=%d", port - 1);
	return env;
}

static int process_start(
	const struct gpu_bench *b, int k, int world, int port, int out, struct child *c, struct err *err)
{
	const struct gpu_options *o = b->o;
	char program[4096], layers[24], tokens[24], answer[24], cwd[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
	program[MAX(n, 0)] = 0;
	if (!getcwd(cwd, sizeof cwd)) return err_set(err, ERR_IO, "the current folder: %s", strerror(errno));
	snprintf(layers, sizeof layers, "%lld", (long long)o->layers);
	snprintf(tokens, sizeof tokens, "%lld", (long long)o->tokens);
	snprintf(answer, sizeof answer, "%lld", (long long)o->answer);
	char *argv[24] = {program, "bench", "gpu", "--parts", "rollout", "--json", "--shapes",
		(char *)(uintptr_t)b->shape->name, "--device", (char *)(uintptr_t)o->device, "--layers", layers, "--tokens",
		tokens, "--answer", answer};
	int at = 16;
	if (o->cuda_libs) argv[at++] = "--cuda_libs", argv[at++] = (char *)(uintptr_t)o->cuda_libs;
	if (o->cuda_card) argv[at++] = "--cuda_card", argv[at++] = (char *)(uintptr_t)o->cuda_card;
	if (o->memory) argv[at++] = "--memory", argv[at++] = (char *)(uintptr_t)o->memory;
	char **env = variables(k, world, port);
	struct child_options co = {
		.argv = argv, .env = env, .cwd = cwd, .stdout_fd = out, .stderr_fd = STDERR_FILENO, .die_with_parent = true};
	int rc = child_spawn(c, &co, err);
	for (size_t i = 0; env[i]; i++) free(env[i]);
	free(env);
	return rc;
}

/* What rank 0 printed into the file: the seconds of its step. */
static int seconds_read(int fd, double *seconds, struct err *err)
{
	char *text = xcalloc(OUTPUT_MAX, 1);
	ssize_t n = pread(fd, text, OUTPUT_MAX - 1, 0);
	json_t *j = NULL;
	int rc = json_parse(text, (size_t)MAX(n, 0), "a rank's figures", &j, err);
	const json_t *figure = json_object_get(json_object_get(json_array_get(j, 0), "figures"), "rollout");
	*seconds = json_number_value(json_object_get(figure, "value"));
	if (!rc && *seconds <= 0) rc = err_set(err, ERR_FORMAT, "a rank printed no seconds");
	json_decref(j);
	free(text);
	return rc;
}

/* Seconds of a step of `world` processes at once. */
static int step_seconds(const struct gpu_bench *b, int world, double *seconds, struct err *err)
{
	struct child c[RANKS_MOST];
	FILE *file = tmpfile();
	int started = 0, port = free_port(), rc = 0;
	if (!file || !port) rc = err_set(err, ERR_IO, "starting %d ranks: %s", world, strerror(errno));
	/* The others print nothing; where one fails the rest hear of it from its connection. */
	for (int k = 0; k < world && !rc; k++) {
		rc = process_start(b, k, world, port, k ? -1 : fileno(file), &c[k], err);
		started += !rc;
	}
	for (int k = 0; k < started; k++) {
		char status[64];
		int waited = rc ? rc : child_wait(&c[k], WAIT_MS, err);
		if (waited) child_kill(&c[k]);
		else if (c[k].status) {
			child_status_text(c[k].status, status, sizeof status);
			waited = err_set(err, ERR_CHILD, "rank %d of %d ended with %s", k, world, status);
		}
		rc = rc ? rc : waited;
	}
	if (!rc) rc = seconds_read(fileno(file), seconds, err);
	if (file) fclose(file);
	return rc;
}

int gpu_ranks_run(struct gpu_bench *b, struct err *err)
{
	char why[GPU_SKIP_TEXT], title[80];
	double alone, together;
	int world = (int)b->o->ranks;
	if (!has_devices(b->o, why, sizeof why)) {
		gpu_skip(b, "%s", why);
		return 0;
	}
	/* The part rollout, where it ran, was the step of one process. */
	alone = 0;
	for (int i = 0; i < b->count; i++)
		if (!strcmp(b->figures[i].key, "rollout")) alone = b->figures[i].value;
	int rc = alone > 0 ? 0 : step_seconds(b, 1, &alone, err);
	if (!rc) rc = step_seconds(b, world, &together, err);
	if (rc) return rc;
	snprintf(title, sizeof title, "%d ranks, 64 x %d tokens each, one update", world, (int)b->o->answer);
	double tokens = 64.0 * (double)b->o->answer * world;
	gpu_figure_add(
		b, "ranks", title, tokens / together, "tok/s", 1, tokens / alone, "of as many processes without a sum");
	return 0;
}
