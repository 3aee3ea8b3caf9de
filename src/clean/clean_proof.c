/* A proof, in the process where nothing can be hurt: the tape is the candidate's, the graph the
 * reference's, and both are parsed and evaluated here. */
#include "clean/clean.h"
#include "base/base.h"
#include "prove/prove.h"
#include "tape/tape.h"
#include <stdlib.h>
#include <sys/mman.h>

/* {"graphs": [...], "names": [parameter or null, for each buffer of the tape]} */
static int words_take(int fd, json_t **out, struct err *err)
{
	int64_t bytes;
	const uint8_t *text = clean_map(fd, PROT_READ, MAP_PRIVATE, &bytes);
	int rc = json_parse((const char *)text, (size_t)bytes, "the reference's graphs", out, err);
	clean_unmap(text, bytes);
	return rc;
}

static int tape_take(int fd, struct tape **out, struct err *err)
{
	int64_t bytes;
	const uint8_t *text = clean_map(fd, PROT_READ, MAP_PRIVATE, &bytes);
	int rc = tape_parse((const char *)text, (size_t)bytes, out, err);
	clean_unmap(text, bytes);
	return rc;
}

/* An error as the answer; its text may name what a candidate named, cut within a letter. */
static json_t *failed(struct err *err)
{
	text_make_printable(err->text);
	return json_pack("{s:s}", "failed", err->text);
}

json_t *clean_proof(const json_t *request, const int *fds, int nfds)
{
	struct err err = {0};
	struct tape *t = NULL;
	json_t *words = NULL;
	struct prove_draw draws[PROVE_DRAWS_MAX];
	struct prove_result result = {.answer = PROVE_OUTSIDE};
	int ndraws = (nfds - 2) / 2;
	int rc = words_take(fds[1], &words, &err);
	if (!rc) rc = tape_take(fds[0], &t, &err);
	const json_t *graphs = json_object_get(words, "graphs"), *names = json_object_get(words, "names");
	_Static_assert((CHILD_FDS_MAX - 2) / 2 <= PROVE_DRAWS_MAX, "a message has descriptors for more points");
	if (!rc && (size_t)ndraws != json_array_size(graphs))
		rc = err_set(&err, ERR_FORMAT, "%d pairs of descriptors for %zu graphs", ndraws, json_array_size(graphs));
	if (rc) {
		json_decref(words);
		return failed(&err);
	}
	/* Each graph with its memory, and the names of what the tape's constants stand for. */
	for (int i = 0; i < ndraws; i++) {
		draws[i] = (struct prove_draw){.graph = json_array_get(graphs, (size_t)i)};
		draws[i].given = clean_map(fds[2 + 2 * i], PROT_READ, MAP_PRIVATE, &draws[i].given_bytes);
		draws[i].tables = clean_map(fds[3 + 2 * i], PROT_READ, MAP_PRIVATE, &draws[i].table_bytes);
	}
	const char **const_names = xcalloc((size_t)t->nbuffers + 1, sizeof *const_names);
	for (int b = 0; b < t->nbuffers; b++) const_names[b] = json_string_value(json_array_get(names, (size_t)b));
	struct prove_options o = {.seed = (uint64_t)json_integer_value(json_object_get(request, "seed")),
		.deadline_ns = deadline_in_ms(json_integer_value(json_object_get(request, "ms"))),
		.const_names = const_names};
	rc = prove_run(t, draws, ndraws, &o, &result, &err);
	for (int i = 0; i < ndraws; i++) {
		clean_unmap(draws[i].given, draws[i].given_bytes);
		clean_unmap(draws[i].tables, draws[i].table_bytes);
	}
	free(const_names);
	json_decref(words);
	tape_free(t);
	return rc ? failed(&err) : prove_result_json(&result);
}
