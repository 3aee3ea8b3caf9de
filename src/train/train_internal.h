/* What checkpoints see of an optimiser, and the supervised loop's plan. */
#ifndef HONE_TRAIN_INTERNAL_H
#define HONE_TRAIN_INTERNAL_H
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"
#include "train/train.h"

struct optimizer {
	struct ops *ops;
	struct param *params;
	int count;
	struct optimizer_options options;
	struct param *moments;      /* (2 count): exp_avg then exp_avg_sq, named after their parameter */
	struct f32 *block;          /* (2, values) */
	struct ops_weight *weights; /* (count) the parameters with their moments */
	struct ops_weight **list;   /* (count) pointers to them */
	uint64_t moment_changes;    /* what params write here means nothing to anybody */
	double next_rate_scale;     /* of the next step alone: optimizer_next */
	double next_max_norm;       /* of the next step alone */
	int64_t steps;              /* calls: drives the schedule */
	int64_t updates;            /* calls that changed weights: drives bias correction */
};

/* Moves folder tmp to final in one atomic step, replacing final when it exists. */
int folder_publish(const char *tmp, const char *final, struct err *err);

/* One epoch: examples in shuffled order, cut into micro-batches of at most max_tokens. */
struct epoch_plan {
	uint32_t *order; /* (n) */
	size_t n;
	size_t *micro; /* (nmicro + 1) into order */
	size_t nmicro;
};
/* A function of (seed, epoch, lengths, max_tokens). shuffle false: the given order. */
void epoch_plan_make(struct epoch_plan *p, const struct sft_example *examples, size_t n, int max_tokens, bool shuffle,
	uint64_t seed, int64_t epoch);
void epoch_plan_release(struct epoch_plan *p);

/* Buffers of one packed micro-batch. */
struct sft_batch {
	int32_t *ids;   /* (max_tokens) */
	int32_t *pos;   /* (max_tokens) */
	int32_t *start; /* (max_tokens + 1) */
	struct head_row *rows;
	int T;
	int S;
	int n; /* rows with loss */
};
void sft_batch_init(struct sft_batch *b, int max_tokens);
void sft_batch_release(struct sft_batch *b);
void sft_batch_pack(struct sft_batch *b, const struct sft_example *examples, const uint32_t *order, size_t count);
int sft_example_rows(const struct sft_example *e); /* tokens with loss */
/* Mean log-loss and accuracy of the completions' tokens, without dropout, by a pass of max_tokens.
 * With ranks a round: each looks at its share of the micro-batches. */
int sft_evaluate(struct pass *p, struct adapter *a, struct ranks *ranks, const struct sft_example *examples, size_t n,
	int max_tokens, double *loss, double *accuracy, struct err *err);
#endif
