/* infer: generation. An engine holds a model, KV pages and a batch; requests come and go, each step
 * advances every running sequence by a token and prefills waiting prompts (continuous batching).
 *
 * Equal prefixes are run once. Samples of a request with equal tokens so far are one row of decode:
 * a token is drawn for each of them from the row's logits, and where the tokens differ the row
 * splits, the new rows sharing its whole pages and copying the partly filled one. K samples begin
 * as one row, and those whose whole text is equal stay one to the end.
 *
 * Sampling is a pure function of (logits, seed, sample, position): u = rng_uniform(seed, sample,
 * position of the new token), never of the row in which a sample stands. Results do not depend on
 * batch composition beyond the logits themselves, so where a row's logits do not depend on the
 * other rows (the CPU; a GPU with batch_invariant) they have the bits of samples that are run
 * apart. Requests with one seed share their random numbers, so give each prompt a seed of its own.
 * Log-probabilities are recorded for the sampled token under the full vocabulary at the request's
 * temperature (before top-k/top-p), because that is what training needs; with min_p under what was
 * left, renormalised.
 *
 * Everything is allocated at create; what does not fit is refused with the sum. One thread drives
 * an engine. */
#ifndef HONE_INFER_H
#define HONE_INFER_H
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"

/* The least temperature: logits are divided by it, and below it quotients leave the range of fp32
 * in the end. */
#define SAMPLING_TEMPERATURE_MIN 1e-3f
struct sampling {
	float temperature; /* 0: greedy; else SAMPLING_TEMPERATURE_MIN or more */
	int top_k;         /* 0: off */
	float top_p;       /* 1: off */
	float min_p;       /* 0: off */
	uint64_t seed;
};
struct engine;
struct engine_options {
	int max_sequences; /* rows decoded at once */
	int max_context;   /* prompt + completion tokens of one sequence */
	int kv_pages;      /* 0: enough for max_sequences full contexts without sharing */
	int prefill_rows;  /* prompt tokens per step; 0: default */
	int fused_steps;   /* steps of decoding that the backend makes in one go, at most; 0: engine_fused_steps */
	bool rows_apart;   /* every sample has a row of its own from its second token on: to measure what sharing saves */
};
int engine_create(struct model *m, const struct engine_options *o, struct engine **out, struct err *err);
void engine_free(struct engine *e);
/* Steps of decoding in one go: where the host would be waited for (a device, a small model), as
 * many as take less than 5 ms together, so that the device is soon free for who asks for it. 1 on
 * the CPU and for large models. A function of the sizes alone: on a device a step's bits may depend
 * on the rows beside, and a row that is over stays to the end of the go. */
#define ENGINE_FUSED_MAX 16
int engine_fused_steps(const struct ops *ops, const struct model_config *c, int max_sequences, int max_context);
size_t engine_bytes(
	const struct ops *ops /* NULL: as on the CPU */, const struct model_config *c, const struct engine_options *o);
/* What it takes of a device beside these: batches, rotary angles, and what stages need beyond what
 * they hold already. 0 on the CPU. */
size_t engine_device_bytes(const struct ops *ops, const struct model_config *c, const struct engine_options *o);
void engine_device_plan(const struct engine_options *o, struct device_plan *d); /* its part of plan_device's figures */

enum finish_reason {
	FINISH_EOS,
	FINISH_STOP,
	FINISH_LENGTH,
	FINISH_NAN /* the model's values are no numbers: there is nothing to draw from */
};
const char *finish_reason_name(enum finish_reason r); /* "eos", "stop", "length", "nan" */
struct request {
	int64_t id;
	const int32_t *prompt; /* (nprompt) copied */
	int nprompt;
	int num_samples;  /* K */
	int first_sample; /* sample index of the first one: enters the seed */
	struct sampling sampling;
	int max_new_tokens;
	const int32_t *stop_ids; /* (nstop) that end a sample besides the model's eos ids, and are kept as its last token */
	int nstop;
	/* Optional: called after each token that does not end the sequence itself; true ends it (stop
	 * strings live in the caller, which has the tokenizer). */
	bool (*should_stop)(void *ctx, int64_t id, int sample, const int32_t *tokens, int count);
	void *stop_ctx;
	/* Optional: the temperature at which the next token is drawn, from the tokens so far; in place
	 * of sampling.temperature, and recorded with each token. */
	float (*temperature_at)(void *ctx, int64_t id, int sample, const int32_t *tokens, int count);
	void *temperature_ctx;
	struct adapter *adapter; /* NULL: base */
};
struct completion {
	int64_t id;          /* the request's */
	int sample;          /* first_sample and up */
	int32_t *tokens;     /* (count) the one that ended it included */
	float *logprobs;     /* (count) of each token */
	float *temperatures; /* (count) at which each token was drawn; NULL: all at the request's */
	int count;
	enum finish_reason finish;
};
/* Queues, with copies of prompt and stop ids. ERR_LIMIT where prompt + max_new_tokens exceed
 * max_context or the engine's pages (nothing is ever truncated), or there are too many stop ids;
 * ERR_RANGE for a token or a setting out of range. */
int engine_submit(struct engine *e, const struct request *r, struct err *err);
/* Ends the request's samples that are not finished; they give no completion. Those that are
 * finished can be taken still. Returns how many were ended: 0 for an id that is not known. Not from
 * should_stop. */
int engine_cancel(struct engine *e, int64_t id);
/* One step: *active is the number of samples that still run or wait. */
void engine_step(struct engine *e, int *active);
/* Waits until the device has done all that it was asked for. After that, and until the next step,
 * it is free for other work. */
void engine_wait(struct engine *e);
/* Takes a finished completion; false when none. Caller releases. Completion order does not matter
 * to any result. */
bool engine_take(struct engine *e, struct completion *out);
int completion_check(const struct completion *c, struct err *err); /* an error for FINISH_NAN */
void completion_release(struct completion *c);
int64_t engine_tokens_generated(const struct engine *e); /* of all samples */
#endif
