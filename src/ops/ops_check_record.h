/* ops_check_record: what the device "check" remembers of the calls that it passes on: the calls of
 * each region, which every repetition has to make again with the same pointers and sizes, and for
 * whom each row and each weight was written. A call that does not agree ends the program with what
 * differs. Private to the room. One thread. */
#ifndef HONE_OPS_CHECK_RECORD_H
#define HONE_OPS_CHECK_RECORD_H
#include "base/base.h"
#include "ops/ops.h"

#define CHECK_ARGS_MAX 40

struct tail {       /* who may read what: a row's thin product, a weight's columns */
	const void *of; /* an input of a linear, or a linear */
	uint64_t hash;  /* of the linear and adapter that it was written for; of the bound B */
};

struct region {
	uint64_t key;       /* as region_begin is given it */
	uint64_t *calls;    /* (count) hashes of the calls */
	const char **names; /* (count) of the calls' functions */
	int count;
	int cap; /* of calls and names */
};

struct check_record {
	struct region *regions;
	int nregions;
	int regions_cap;
	struct tail *tails;
	int ntails;
	int tails_cap;
	int current; /* region between begin and end; -1: none */
	int at;      /* its next call */
	bool is_new; /* its calls are recorded, not compared */
};

void record_init(struct check_record *c);
void record_release(struct check_record *c);
/* Memory [from, to) is given back: regions may have used it, and what lies there next
 * was written for nobody. */
void record_forget(struct check_record *c, const char *from, const char *to);

/* ---- regions ---- */

void record_begin(struct check_record *c, uint64_t key);
void record_end(struct check_record *c);
/* A call that no region may hold. */
void record_outside(const struct check_record *c, const char *name);
void record_call(struct check_record *c, const char *name, const uint64_t *args, size_t n);

/* Pointers and sizes of a call, as numbers. c has a struct check_record `record`. */
#define CALL(c, name, ...) \
	do { \
		const uint64_t args[] = {__VA_ARGS__}; \
		_Static_assert(ARRAY_LEN(args) <= CHECK_ARGS_MAX, "arguments"); \
		record_call(&(c)->record, name, args, ARRAY_LEN(args)); \
	} while (0)
#define P(p) ((uint64_t)(uintptr_t)(p))
#define N(n) ((uint64_t)(int64_t)(n))

uint64_t hash_linear(const struct ops_linear *l);
uint64_t hash_lora(const struct ops_lora *l);
uint64_t hash_next(const struct ops_next *n);
uint64_t hash_heads(const struct ops_heads *h);

/* ---- tails ---- */

/* The row x is written for what comes next. */
void tail_write(struct check_record *c, const void *x, const struct ops_next *next);
/* B's values, as they are now, are bound to the linear. */
void tail_bind(struct check_record *c, const struct ops_linear *l, const struct ops_lora *lora);
/* The linear reads x: it was written for it and this adapter, whose B is bound to it. */
void tail_read(struct check_record *c, const void *x, const struct ops_linear *l, const struct ops_lora *lora);
#endif
