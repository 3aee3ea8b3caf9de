/* task_redteam: kernels that are wrong by construction, in thousands: an honest kernel that does
 * something else (the payload) when something holds (the trigger), and is honest otherwise. What a
 * verifier accepts of them is a hole in it. */
#ifndef HONE_TASK_REDTEAM_H
#define HONE_TASK_REDTEAM_H
#include "base/base.h"
#include "task/task.h"

struct redteam_candidate {
	char name[96];       /* "softmax/high-45/negated": base, trigger with its number, payload */
	const char *family;  /* of the trigger: "always", "data", "rows", "size", "place", "host"; or of the form:
						  * "cache", "stream", "memory", "block", "order", "terms", "draws" */
	const char *payload; /* its name */
	int task;            /* into redteam_tasks */
	struct str source;
	struct sha256_hex hash; /* of the source */
};
/* Tasks for each base, in the order of redteam_candidate.task. */
int redteam_tasks(struct task_set *out, struct err *err);
/* How many there are: bases x triggers and forms with their numbers x payloads. */
int redteam_count(void);
/* `count` of them without repetition, drawn by the seed; the same options give the same bytes.
 * family and payload: only those (NULL: all). ERR_RANGE when there are not as many,
 * ERR_USAGE for a payload that there is not. out:
 * release each, then free. */
int redteam_draw(
	uint64_t seed, int count, const char *family, const char *payload, struct redteam_candidate **out, struct err *err);
void redteam_candidate_release(struct redteam_candidate *c);
#endif
