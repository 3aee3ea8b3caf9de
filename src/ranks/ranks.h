/* ranks: several processes that train one policy together. Each has the whole policy and
 * a device of its own, takes its share of every step's work, and after it all have the
 * same weights, bit for bit.
 *
 * A process that is alone has a struct ranks * of NULL, with which every function here works: it is
 * rank 0 of 1, what it gives comes back, and nothing is sent.
 *
 * Who is who comes from the launcher's variables: torchrun's RANK, WORLD_SIZE, LOCAL_RANK,
 * MASTER_ADDR and MASTER_PORT, or those that srun gives the tasks of a step. Rank 0 listens at a
 * port of its own; the others connect to it. Nothing else is shared: no folder, no store.
 *
 * Rounds. ranks_broadcast, ranks_gather, ranks_add, ranks_meet, ranks_agree, ranks_join and
 * ranks_sum are rounds: all ranks call the same ones in the same order, and wait for one another. A
 * sum over ranks has one order, that of the ranks, v0 + v1 + v2 ..., however values travel. So two
 * ranks with half a step each get the same bits as one process that adds the same halves.
 *
 * Values of a device travel by the device's own library where there is one (NCCL: every rank
 * gets all parts and adds them), else over the connections (rank 0 adds, and sends the sum
 * back). Both add in the same order.
 *
 * Loss. A rank that ends, fails, hangs for `timeout_s` or answers out of step ends the job:
 * every function then gives ERR_CHILD (ERR_TIMEOUT, ERR_MISMATCH) with a message that names
 * the rank, its machine and what to do, here and on all others. The struct is of no use after
 * that but to ranks_close.
 *
 * The connections carry no secret and are not encrypted: they belong on a machine, or on a network
 * of one's own. Whoever connects has to know rank, number of ranks and the job's name; others are
 * dropped, and every length is bounded. One thread. */
#ifndef HONE_RANKS_H
#define HONE_RANKS_H
#include "base/base.h"
#include "ops/ops.h"

#define RANKS_MAX 4096

struct ranks_options {
	const char *transport; /* of gradients: auto, nccl or tcp */
	int64_t port;          /* at which rank 0 listens; 0: one above MASTER_PORT, or made from the Slurm job's number */
	double timeout_s;      /* how long a rank may keep the others waiting */
};
/* Rows of a command's table of options, whose settings hold a struct ranks_options `ranks`. */
#define RANKS_OPTION(settings, type, name, field, help, choices) \
	{ name, OPTION_##type, offsetof(struct settings, ranks.field), help, choices }
#define RANKS_OPTIONS(settings) \
	RANKS_OPTION(settings, STR, "ranks_transport", transport, \
		"several processes (torchrun, srun): how gradients travel; auto: nccl between GPUs, else tcp", \
		"auto|nccl|tcp"), \
		RANKS_OPTION(settings, INT, "ranks_port", port, \
			"port at which rank 0 waits for the others; 0: MASTER_PORT + 1, or made from the Slurm job's number", \
			"0 to 65535"), \
		RANKS_OPTION(settings, FLOAT, "ranks_timeout", timeout_s, \
			"seconds that a rank may keep the others waiting before the job ends", "1 to 1000000"), \
		OPTIONS_NEED("ranks_transport ranks_port ranks_timeout", "$WORLD_SIZE | $SLURM_PROCID")
#define RANKS_DEFAULTS {.transport = "auto", .timeout_s = 1800}

/* ---- the job ---- */

struct ranks;
/* Reads the launcher's variables and meets the others; *out is NULL where there is one process.
 * Errors name the variable, or the address and who is missing. */
int ranks_open(const struct ranks_options *o, struct ranks **out, struct err *err);
/* why: what ended this rank's part, for the others to say; NULL or without a code: it is done. */
void ranks_close(struct ranks *r, const struct err *why);
/* Whether the variables make this process rank 0, or say nothing of others:
 * for who prints results. */
bool ranks_is_first(const struct ranks_options *o);
/* How many ranks the variables speak of, for plans; 1 where they are wrong. */
int ranks_planned(const struct ranks_options *o);
int ranks_rank(const struct ranks *r);
int ranks_count(const struct ranks *r);
/* "cuda" becomes "cuda:N" with the number of this rank's GPU among its machine's; any other name,
 * and that of a process alone, stays. Caller frees. */
char *ranks_device(const struct ranks *r, const char *device);
/* Of n things in a row, this rank's: [*begin, *end). Shares lie in rank order and
 * differ by one at most. */
void ranks_share(const struct ranks *r, int64_t n, int64_t *begin, int64_t *end);

/* ---- rounds ---- */

/* What rank 0 has in *bytes replaces what the others have. */
int ranks_broadcast(struct ranks *r, struct str *bytes, struct err *err);
/* all[i] becomes what rank i gave, on every rank. */
int ranks_gather(struct ranks *r, const void *mine, size_t len, struct str *all /* (count) */, struct err *err);
/* Sums over ranks, in their order. */
int ranks_add(struct ranks *r, double *values, int n, struct err *err);
/* All ranks have come here. */
int ranks_meet(struct ranks *r, struct err *err);
/* All ranks have the same text; else ERR_MISMATCH names `what`, a rank and how
 * both begin to differ. */
int ranks_agree(struct ranks *r, const char *what, const char *text, struct err *err);
/* Not a round: whether all others are still there. Takes microseconds, for loops
 * that go long without one. */
int ranks_watch(struct ranks *r, struct err *err);

/* ---- values of a device ---- */

/* Chooses the way of values, and joins the devices where it is their own. To be
 * called before ranks_sum. */
int ranks_join(struct ranks *r, struct ops *ops, struct err *err);
/* values become the sum of all ranks' values. */
int ranks_sum(struct ranks *r, struct ops *ops, struct f32 *values, int64_t n, struct err *err);
/* "nccl" or "tcp": what ranks_join chose. */
const char *ranks_way(const struct ranks *r);
#endif
