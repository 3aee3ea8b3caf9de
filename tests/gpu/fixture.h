/* fixture: what the programs of this folder do alike: a folder of fixtures (make_fixtures.py), a
 * pool of runners on a GPU, as the verifier has one, and one fixture loaded into a runner of it.
 * What cannot be had ends the program with TAP's "Bail out!". */
#ifndef HONE_TESTS_GPU_FIXTURE_H
#define HONE_TESTS_GPU_FIXTURE_H
#include "base/base.h"
#include "sandbox/sandbox.h"
#include "verify/runner_pool.h"
#include <stdlib.h>
#include <unistd.h>

#define FIXTURES_MAX 256
#define FIXTURE_BYTES_MAX ((size_t)64 << 20)   /* of one of its files */
#define OUTPUT_OFFSET 64                       /* of a trial's one output in its memory file */

struct fixtures {
	const char *folder;
	char *names[FIXTURES_MAX]; /* (count) sorted */
	int count;
};

static int fixture_name_add(const char *name, void *ctx)
{
	struct fixtures *f = ctx;
	if (f->count < FIXTURES_MAX) f->names[f->count++] = xstrdup(name);
	return 0;
}

static int fixture_name_compare(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* argv: PROGRAM RUNNER LEVEL DEVICE FOLDER, as every program here is called. */
static void fixtures_open(char **argv, int64_t memory_bytes, int spare, struct fixtures *out, struct runner_pool **pool,
	struct runner_device *device)
{
	struct err err = {0};
	struct runner_pool_options o = {
		.path = argv[1], .device = argv[3], .memory_bytes = memory_bytes, .spare = spare, .level = SANDBOX_NONE};
	while (o.level < SANDBOX_FULL && strcmp(sandbox_level_name(o.level), argv[2])) o.level++;
	*out = (struct fixtures){.folder = argv[4]};
	if (runner_pool_create(&o, pool, device, &err) || dir_each(out->folder, fixture_name_add, out, &err)) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	qsort(out->names, (size_t)out->count, sizeof *out->names, fixture_name_compare);
	CHECKF(out->count > 0, "no fixture in %s", out->folder);
}

static void fixture_read(const struct fixtures *f, const char *name, const char *file, struct str *out)
{
	struct err err = {0};
	char *path = xasprintf("%s/%s/%s", f->folder, name, file);
	if (file_read(path, FIXTURE_BYTES_MAX, out, &err)) {
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	free(path);
}

static int memory_of(const void *data, size_t bytes)
{
	struct err err = {0};
	int fd = memfd_make("data", bytes, &err);
	CHECKF(fd >= 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes, "a memory file of %zu bytes", bytes);
	return fd;
}

/* A tape of one input and one output, with its kernels' binaries. */
struct fixture {
	struct str tape; /* its text */
	struct runner_binaries binaries;
	int image;               /* memory file of the binaries */
	int outputs;             /* memory file of the output, at OUTPUT_OFFSET */
	struct runner_load load; /* of all that, for a runner */
	json_t *list;            /* that binaries points into */
};

static void fixture_open(const struct fixtures *all, const char *name, int64_t output_bytes, struct fixture *out)
{
	struct str list = {0}, data = {0};
	struct err err = {0};
	*out = (struct fixture){0};
	fixture_read(all, name, "tape.json", &out->tape);
	fixture_read(all, name, "binaries.json", &list);
	fixture_read(all, name, "binaries.bin", &data);
	CHECK(!json_parse(list.data, list.len, "binaries", &out->list, &err));
	CHECK(!runner_binaries_parse(out->list, (int64_t)data.len, &out->binaries, &err));
	out->image = memory_of(data.data, data.len);
	out->outputs = memfd_make("outputs", OUTPUT_OFFSET + (size_t)output_bytes, &err);
	CHECKF(out->outputs >= 0, "%s", err.text);
	out->load = (struct runner_load){.tape = out->tape.data,
		.len = out->tape.len,
		.count = 1,
		.binaries = out->binaries.binaries,
		.binaries_fd = out->image};
	str_release(&list);
	str_release(&data);
}

static void fixture_close(struct fixture *f)
{
	free(f->binaries.binaries);
	json_decref(f->list);
	str_release(&f->tape);
	close(f->image);
	close(f->outputs);
}
#endif
