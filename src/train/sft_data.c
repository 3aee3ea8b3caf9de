/* The rows of a file of pairs as examples: which split they are of, their tokens, and the end that
 * a completion needs. */
#include "train/train.h"
#include "base/base.h"
#include "model/model.h"
#include "policy/policy.h"
#include "task/task.h"
#include "text/text.h"

#include <stdlib.h>

struct reader {
	const struct policy *policy;
	size_t max_tokens; /* of an example */
	struct sft_data *data;
};

static void examples_push(struct sft_examples *e, struct ids *ids, size_t nprompt)
{
	if (e->count == e->cap) {
		e->cap = MAX(2 * e->cap, 256);
		e->v = xrealloc(e->v, size_mul(e->cap, sizeof *e->v));
	}
	e->v[e->count++] = (struct sft_example){
		.ids = ids->data, .count = (int)ids->count, .completion_begin = (int)nprompt};
	e->tokens += (int64_t)ids->count;
	e->completion_tokens += (int64_t)(ids->count - nprompt);
	*ids = (struct ids){0};
}

static int row_add(void *ctx, const json_t *row, const char *what, struct err *err)
{
	const struct reader *r = ctx;
	const char *prompt, *completion, *split = "", *structure = "";
	struct ids ids = {0};
	int rc = json_get_str(row, what, "prompt", &prompt, err);
	if (!rc) rc = json_get_str(row, what, "completion", &completion, err);
	if (!rc) rc = json_opt_str(row, what, "split", &split, err);
	if (!rc) rc = json_opt_str(row, what, "structure", &structure, err);
	if (!rc) rc = task_split_settle(structure, split, what, &split, err);
	if (rc) return rc;
	/* Dev rows are held out for evaluation; rows of the test split or any other are left alone. */
	bool is_heldout = !strcmp(split, task_split_name(TASK_DEV));
	if (!is_heldout && *split && strcmp(split, task_split_name(TASK_TRAIN))) {
		r->data->other_splits++;
		return 0;
	}
	/* Prompt and completion are encoded apart, so that no token spans the place where the loss
	 * begins. */
	rc = policy_encode(r->policy, what, prompt, strlen(prompt), &ids, err);
	size_t nprompt = ids.count;
	if (!rc) rc = policy_encode(r->policy, what, completion, strlen(completion), &ids, err);
	if (!rc && ids.count == nprompt) rc = err_set(err, ERR_FORMAT, "%s: the completion has no tokens", what);
	if (!rc) {
		/* The model has to learn where to stop: a completion without an end gets one. */
		const struct model_config *c = &r->policy->config;
		if (!model_config_is_eos(c, ids.data[ids.count - 1])) ids_push(&ids, c->eos_token_id);
		if (ids.count > r->max_tokens) r->data->too_long++;
		else examples_push(is_heldout ? &r->data->heldout : &r->data->train, &ids, nprompt);
	}
	ids_release(&ids);
	return rc;
}

int sft_data_load(const char *path, const struct policy *p, int max_tokens, struct sft_data *out, struct err *err)
{
	struct reader reader = {p, (size_t)MIN(max_tokens, p->config.max_position_embeddings), out};
	*out = (struct sft_data){0};
	if (p->config.eos_token_id < 0)
		return err_set(err, ERR_FORMAT, "the model's config.json has no eos_token_id; completions need an end");
	int rc = jsonl_each(path, JSONL_LINE_MAX, row_add, &reader, err);
	if (!rc && !out->train.count)
		rc = err_set(err, ERR_RANGE, "%s: no example to train on (%lld refused for their length)", path,
			(long long)out->too_long);
	if (rc) sft_data_release(out);
	return rc;
}

static void examples_release(struct sft_examples *e)
{
	for (size_t i = 0; i < e->count; i++) free((int32_t *)(uintptr_t)e->v[i].ids);
	free(e->v);
	*e = (struct sft_examples){0};
}

void sft_data_release(struct sft_data *d)
{
	examples_release(&d->train);
	examples_release(&d->heldout);
}
