/* The update: rollouts become rows of (token, old log-probability, weight, normaliser), rows are
 * packed into micro-batches, and the trainer, which knows nothing about kernels, does the rest.
 *
 * old_logprob is the trainer's own recomputation, not the sampler's: with one iteration (mu = 1) it
 * is the very value of this pass, so the ratio is exactly 1 and no extra forward pass is run. The
 * sampler's values are compared with it and the gap is published. */
#include "rl/rl.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "text/text.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>

struct sequence {
	const struct rollout *r;
	const struct prompt_row *p;
	float normaliser;
	size_t row_begin;
};

struct updater {
	struct model *model,
		*reference; /* reference: full training with beta > 0; with an adapter it is the model without it */
	struct adapter *adapter;
	struct optimizer *optimizer;
	struct updater_options o;
	struct pass *pass, *reference_pass;
	int32_t *ids, *pos, *start; /* one micro-batch: (max_tokens), (max_tokens), (max_tokens + 1) */
	struct head_row *head;      /* (max_tokens) */
	float *logprob;             /* (max_tokens) scratch */
	struct loss_row *rows;
	size_t nrows, rows_cap; /* of the whole batch, in sequence order */
	float *sampler_logprob;
	size_t sampler_cap; /* (nrows) */
	/* the micro-batch that the loss callback works on */
	size_t row_offset;
	bool is_first_iteration;
	struct update_stats *stats;
};

int updater_create(struct model *m, struct adapter *a, struct optimizer *opt, const struct updater_options *o,
	struct updater **out, struct err *err)
{
	struct updater *u = xcalloc(1, sizeof *u);
	*u = (struct updater){.model = m, .adapter = a, .optimizer = opt, .o = *o};
	struct pass_options p = {.max_tokens = o->max_tokens, .head_rows = MIN(o->max_tokens, 512), .backward = true};
	int rc = pass_create(m, &p, &u->pass, err);
	if (!rc && o->full_reference) {
		rc = model_open(o->reference_model, model_ops(m), &u->reference, err);
		p.backward = false;
		if (!rc) rc = pass_create(u->reference, &p, &u->reference_pass, err);
	}
	size_t n = (size_t)o->max_tokens;
	u->ids = xcalloc(n, sizeof *u->ids);
	u->pos = xcalloc(n, sizeof *u->pos);
	u->start = xcalloc(n + 1, sizeof *u->start);
	u->head = xcalloc(n, sizeof *u->head);
	u->logprob = xcalloc(n, sizeof *u->logprob);
	if (rc) updater_free(u);
	else *out = u;
	return rc;
}

void updater_free(struct updater *u)
{
	if (!u) return;
	pass_free(u->pass);
	pass_free(u->reference_pass);
	model_free(u->reference);
	free(u->ids);
	free(u->pos);
	free(u->start);
	free(u->head);
	free(u->logprob);
	free(u->rows);
	free(u->sampler_logprob);
	free(u);
}

static bool rollout_trains(const struct rollout *r, const struct updater_options *o)
{
	if (r->is_dropped || r->completion.count == 0) return false;
	return r->advantage_plan != 0 || r->advantage_code != 0 || o->loss.beta > 0;
}

/* ---- rows ---- */

static void rows_reserve(struct updater *u, size_t n)
{
	if (u->nrows + n <= u->rows_cap) return;
	u->rows_cap = MAX(2 * u->rows_cap, u->nrows + n);
	u->rows = xrealloc(u->rows, size_mul(u->rows_cap, sizeof *u->rows));
	u->sampler_logprob = xrealloc(u->sampler_logprob, size_mul(u->rows_cap, sizeof *u->sampler_logprob));
}

/* One row per completion token; `at` is relative to the sequence's first token until it is packed. */
static void sequence_rows(struct updater *u, struct sequence *s, const struct tokenizer *t, bool is_split)
{
	const struct completion *c = &s->r->completion;
	int nprompt = (int)s->p->ids.count;
	uint8_t *kinds = xcalloc((size_t)c->count, 1);
	if (is_split) answer_token_kinds(t, c->tokens, (size_t)c->count, &s->r->answer, kinds);
	rows_reserve(u, (size_t)c->count);
	s->row_begin = u->nrows;
	for (int i = 0; i < c->count; i++) {
		bool is_code = !is_split || kinds[i];
		u->sampler_logprob[u->nrows] = c->logprobs[i];
		u->rows[u->nrows++] = (struct loss_row){
			.at = nprompt + i - 1,
			.target = c->tokens[i],
			.advantage = (float)(is_code ? s->r->advantage_code : s->r->advantage_plan),
			.normaliser = s->normaliser,
		};
	}
	free(kinds);
}

static struct sequence *sequences_make(struct updater *u, const struct rollout *r, int n,
	const struct prompt_set *prompts, const struct tokenizer *t, bool is_split, int *count)
{
	struct sequence *s = xcalloc((size_t)MAX(n, 1), sizeof *s);
	int *lengths = xcalloc((size_t)MAX(n, 1), sizeof *lengths), k = 0;
	float *normalisers = xcalloc((size_t)MAX(n, 1), sizeof *normalisers);
	for (int i = 0; i < n; i++) {
		if (!rollout_trains(&r[i], &u->o)) continue;
		lengths[k] = r[i].completion.count;
		s[k++] = (struct sequence){.r = &r[i], .p = &prompts->rows[r[i].prompt]};
	}
	loss_normalisers(u->o.loss.type, lengths, k, u->o.max_completion_length, normalisers);
	u->nrows = 0;
	for (int i = 0; i < k; i++) {
		s[i].normaliser = normalisers[i];
		sequence_rows(u, &s[i], t, is_split);
	}
	free(lengths);
	free(normalisers);
	*count = k;
	return s;
}

/* ---- micro-batches ---- */

static int sequence_tokens(const struct sequence *s) { return (int)s->p->ids.count + s->r->completion.count; }

struct micro {
	struct batch batch;
	int nhead;
	int next;
}; /* next: first sequence that did not fit */

static struct micro micro_pack(struct updater *u, const struct sequence *s, int begin, int count)
{
	int T = 0, S = 0, nhead = 0, i = begin;
	for (; i < count && T + sequence_tokens(&s[i]) <= u->o.max_tokens; i++, S++) {
		int nprompt = (int)s[i].p->ids.count, n = sequence_tokens(&s[i]);
		u->start[S] = T;
		memcpy(u->ids + T, s[i].p->ids.data, (size_t)nprompt * sizeof *u->ids);
		memcpy(u->ids + T + nprompt, s[i].r->completion.tokens, (size_t)(n - nprompt) * sizeof *u->ids);
		for (int k = 0; k < n; k++) u->pos[T + k] = k;
		for (int k = 0; k < n - nprompt; k++, nhead++) {
			const struct loss_row *row = &u->rows[s[i].row_begin + (size_t)k];
			u->head[nhead] = (struct head_row){T + row->at, row->target};
		}
		T += n;
	}
	u->start[S] = T;
	u->row_offset = s[begin].row_begin;
	return (struct micro){.batch = {u->ids, {T, S, u->start, u->pos}}, .nhead = nhead, .next = i};
}

static void gap_add(struct loss_stats *st, float trainer, float sampler)
{
	double d = fabs((double)trainer - (double)sampler);
	st->logprob_diff_sum += d;
	st->logprob_diff_max = fmax(st->logprob_diff_max, d);
}

static void clip_count(struct loss_stats *st, const struct loss_options *o, const struct loss_row *r, float logprob)
{
	double rho = exp((double)logprob - r->old_logprob);
	st->ratio_max_dev = fmax(st->ratio_max_dev, fabs(rho - 1));
	st->clip_low += r->advantage < 0 && rho < 1 - o->epsilon;
	st->clip_high += r->advantage > 0 && rho > 1 + o->epsilon_high;
}

static void update_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct updater *u = ctx;
	struct loss_stats *st = &u->stats->loss;
	for (int i = 0; i < n; i++) {
		size_t row = u->row_offset + (size_t)(begin + i);
		struct loss_row *r = &u->rows[row];
		if (u->is_first_iteration) {
			if (u->o.num_iterations == 1) r->old_logprob = logprob[i];
			gap_add(st, logprob[i], u->sampler_logprob[row]);
			st->entropy += entropy ? entropy[i] : 0;
			if (u->o.loss.beta > 0)
				st->kl += exp((double)r->ref_logprob - logprob[i]) - ((double)r->ref_logprob - logprob[i]) - 1;
			st->rows++;
		}
		clip_count(st, &u->o.loss, r, logprob[i]);
		st->loss += loss_row_value(&u->o.loss, r, logprob[i], &g[i]);
	}
}

/* Log-probabilities of all rows under one policy, before any update. */
static void rows_logprobs(
	struct updater *u, struct pass *pass, struct adapter *a, const struct sequence *s, int count, bool is_reference)
{
	for (int i = 0; i < count;) {
		struct micro m = micro_pack(u, s, i, count);
		pass_forward(pass, a, &m.batch, 0);
		pass_logprobs(pass, u->head, m.nhead, u->o.temperature, u->logprob, NULL);
		for (int k = 0; k < m.nhead; k++) {
			struct loss_row *r = &u->rows[u->row_offset + (size_t)k];
			if (is_reference) r->ref_logprob = u->logprob[k];
			else r->old_logprob = u->logprob[k];
		}
		i = m.next;
	}
}

static int check_fits(const struct updater *u, const struct sequence *s, int count, struct err *err)
{
	for (int i = 0; i < count; i++)
		if (sequence_tokens(&s[i]) > u->o.max_tokens)
			return err_set(err, ERR_LIMIT,
				"task %s: %d tokens of prompt and answer, max_tokens is %d; raise --max_tokens or lower "
				"--max_completion_length",
				s[i].p->task.name, sequence_tokens(&s[i]), u->o.max_tokens);
	return 0;
}

static void iterate(struct updater *u, const struct sequence *s, int count, uint64_t dropout_seed)
{
	for (int i = 0; i < count;) {
		struct micro m = micro_pack(u, s, i, count);
		pass_forward(u->pass, u->adapter, &m.batch, dropout_seed ? dropout_seed + (uint64_t)i : 0);
		pass_backward(u->pass, u->head, m.nhead, u->o.temperature, update_loss, u);
		u->stats->tokens += m.batch.packed.T;
		i = m.next;
	}
	u->stats->grad_norm = optimizer_step(u->optimizer);
}

int updater_run(struct updater *u, const struct rollout *r, int n, const struct prompt_set *prompts,
	const struct tokenizer *t, bool is_split, struct update_stats *stats, struct err *err)
{
	int count;
	*stats = (struct update_stats){0};
	u->stats = stats;
	struct sequence *s = sequences_make(u, r, n, prompts, t, is_split, &count);
	int rc = check_fits(u, s, count, err);
	stats->sequences = count;
	if (!rc && count) {
		if (u->o.loss.beta > 0) rows_logprobs(u, u->reference ? u->reference_pass : u->pass, NULL, s, count, true);
		if (u->o.num_iterations > 1) rows_logprobs(u, u->pass, u->adapter, s, count, false);
		for (int k = 0; k < u->o.num_iterations; k++) {
			u->is_first_iteration = k == 0;
			uint64_t step = (uint64_t)optimizer_steps(u->optimizer) + 1;
			iterate(u, s, count, u->o.dropout_seed ? u->o.dropout_seed + (step << 20) : 0);
		}
	}
	free(s);
	return rc;
}
