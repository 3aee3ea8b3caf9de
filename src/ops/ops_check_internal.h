/* ops_check_internal: what the files of the device "check" share: its context, and what every call
 * is held to. ops_check.c has the stages, ops_check_memory.c the entries that no region may hold
 * but zero: memory, weights, choices. Private to the room. */
#ifndef HONE_OPS_CHECK_INTERNAL_H
#define HONE_OPS_CHECK_INTERNAL_H
#include "ops/ops.h"
#include "ops/ops_check_record.h"

struct check_batch;
struct block { /* of alloc */
	char *begin;
	size_t bytes;
};

struct check {
	struct ops *inner;
	struct ops_context *ctx; /* the inner one's */
	struct block *blocks;
	int nblocks;
	int blocks_cap;
	struct check_record record;
	bool fetches[OPS_FETCHES]; /* under way */
	/* Stages that are given no batch are of the one last named, its rows or the wanted ones last
	 * gathered. */
	const struct check_batch *last;
	int chunk;      /* wanted rows that were last gathered, with the padding */
	int chunk_real; /* without it */
};

static inline struct check *check_of(struct ops_context *c) { return (struct check *)(void *)c; }
/* A call that no region may hold. */
static inline void check_outside(const struct check *c, const char *name) { record_outside(&c->record, name); }
/* values floats from p on lie in one allocation. */
void check_room(const struct check *c, const char *name, const void *p, int64_t values);
void check_rounded(float *x, int64_t n); /* to bf16 */
void check_memory_entries(struct ops *t);
#endif
