/* The update: rollouts become rows of (token, old log-probability, weight, normaliser), rows are
 * packed into micro-batches, and the trainer, which knows nothing about kernels, does the rest.
 * What the answers to a prompt have in common is passed through the model once (rl_pack.h); rows
 * stay one for each token of each answer.
 *
 * A batch of rollouts is cut into steps_per_generation mini-batches, one optimiser step each, and
 * passed over num_iterations times. Normalisers count all answers of a mini-batch that have a
 * verdict, also those that do not train: a batch with one informative group must not move the
 * weights as far as one with fifteen, and a tiny weight of the KL term must not change the scale.
 *
 * Of several ranks each makes the same plan, normalisers included, and keeps the sequences of its
 * share; the gradient of a step is the sum of all ranks' in rank order.
 *
 * old_logprob is the trainer's own recomputation, not the sampler's: with a single update it is the
 * very value of this pass, so the ratio is exactly 1 and no extra forward pass is run. The
 * sampler's values are compared with it, and the gap is published. */
#include "rl/rl_internal.h"
#include "rl/rl_pack.h"
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ranks/ranks.h"
#include "text/text.h"
#include "train/train.h"

#include <math.h>
#include <stdlib.h>

struct sequence {
	const struct rollout *r;
	const struct prompt_row *p;
	const struct ids *prompt; /* of a first turn p's, shared by all of its answers; of a later turn its own context */
	float normaliser;
	size_t row_begin;
};

/* The sequences that train, mini-batch by mini-batch. */
struct update_plan {
	struct sequence *s; /* of this rank */
	int *begin;         /* (parts + 1) into s */
	int *trains;        /* (parts) sequences of all ranks */
	int *first;         /* (parts) how many of them come before this rank's */
	int parts;
};

struct updater {
	struct model *model;
	struct model *reference; /* full training with beta > 0; with an adapter it is the model without it */
	struct adapter *adapter;
	struct optimizer *optimizer;
	struct updater_options o;
	struct pass *pass;
	struct pass *reference_pass;
	struct pack pack; /* one micro-batch */
	float *logprob;   /* (max_tokens) scratch, as the next */
	float *entropy;
	struct loss_row *rows;
	size_t nrows; /* of the whole batch, in sequence order */
	size_t rows_cap;
	float *sampler_logprob; /* (nrows) as the sampler recorded them */
	double norm_mean;       /* decaying mean of the norms of updates so far */
	int64_t norm_count;
	/* the micro-batch that the loss callback works on */
	size_t row_offset;
	bool needs_old;
	double fit_scale; /* supervised updates: 1 / tokens of the update */
	struct update_stats *stats;
};

int updater_create(struct model *m, struct adapter *a, struct optimizer *opt, const struct updater_options *o,
	struct updater **out, struct err *err)
{
	struct updater *u = xcalloc(1, sizeof *u);
	*u = (struct updater){.model = m, .adapter = a, .optimizer = opt, .o = *o};
	u->o.steps_per_generation = MAX(1, o->steps_per_generation);
	u->o.num_iterations = MAX(1, o->num_iterations);
	/* With one update for each batch this pass's values are the old ones. */
	u->needs_old = u->o.num_iterations * u->o.steps_per_generation > 1 || o->importance != IMPORTANCE_OFF;
	/* The pass that trains; with a reference of all weights, a second model
	 * with a pass of its own. */
	struct pass_options p = {.max_tokens = o->max_tokens,
		.head_rows = MIN(o->max_tokens, UPDATE_HEAD_ROWS),
		.backward = true,
		.recompute = o->recompute};
	int rc = pass_create(m, &p, &u->pass, err);
	if (!rc) pass_min_p(u->pass, o->min_p);
	if (!rc && o->full_reference) {
		rc = model_open(o->reference_model, model_ops(m), &u->reference, err);
		p.backward = p.recompute = false;
		if (!rc) rc = pass_create(u->reference, &p, &u->reference_pass, err);
		if (!rc) pass_min_p(u->reference_pass, o->min_p);
	}
	/* Buffers of one micro-batch, filled again and again. */
	size_t n = (size_t)o->max_tokens;
	pack_init(&u->pack, o->max_tokens, model_ops(m)->follows && !o->apart);
	u->logprob = xcalloc(n, sizeof *u->logprob);
	u->entropy = xcalloc(n, sizeof *u->entropy);
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
	pack_release(&u->pack);
	free(u->logprob);
	free(u->entropy);
	free(u->rows);
	free(u->sampler_logprob);
	free(u);
}

int updater_steps(const struct updater_options *o)
{
	return MAX(1, o->num_iterations) * MAX(1, o->steps_per_generation);
}

const struct loss_row *updater_rows(const struct updater *u, size_t *count)
{
	*count = u->nrows;
	return u->rows;
}

json_t *updater_state(const struct updater *u)
{
	return json_pack("{s:f, s:I}", "norm_mean", u->norm_mean, "norm_count", (json_int_t)u->norm_count);
}

void updater_state_set(struct updater *u, const json_t *state)
{
	u->norm_mean = json_number_value(json_object_get(state, "norm_mean"));
	u->norm_count = json_integer_value(json_object_get(state, "norm_count"));
}

/* ---- which answers count, and which train ---- */

static bool rollout_counts(const struct rollout *r) { return !r->is_dropped && r->completion.count > 0; }

/* DAPO's overlong filtering: an answer that was cut off says nothing about
 * what it would have been. */
static bool rollout_is_masked(const struct rollout *r, const struct updater_options *o)
{
	return o->mask_truncated_completions && r->completion.finish == FINISH_LENGTH;
}

static bool rollout_trains(const struct rollout *r, const struct updater_options *o)
{
	if (!rollout_counts(r) || rollout_is_masked(r, o)) return false;
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

/* One row per completion token; `at` is relative to the sequence's first
 * token until it is packed. */
static void sequence_rows(struct updater *u, struct sequence *s, const struct tokenizer *t, bool is_split)
{
	const struct completion *c = &s->r->completion;
	int nprompt = (int)s->prompt->count;
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
			.weight = 1,
			.sequence_ratio = 1,
		};
	}
	free(kinds);
}

/* All that count, in the order in which mini-batches take them: as they come, or where there are
 * several drawn anew for each batch, so that the answers to one prompt do not stay together. */
static int *counted_order(const struct updater *u, const struct rollout *r, int n, int *count)
{
	int *order = xcalloc((size_t)MAX(n, 1), sizeof *order), k = 0;
	for (int i = 0; i < n; i++)
		if (rollout_counts(&r[i])) order[k++] = i;
	struct rng rng = {.seed = u->o.seed, .stream = 0x6d696e6962617463 + (uint64_t)optimizer_steps(u->optimizer)};
	if (u->o.steps_per_generation > 1) rng_shuffle(&rng, order, (size_t)k, sizeof *order);
	*count = k;
	return order;
}

/* Answers to one prompt side by side, prompts in the order of their first answer: what is shared
 * has to lie in one micro-batch. */
static void prompts_gather(struct sequence *s, int count)
{
	struct sequence *from = xmalloc(size_mul((size_t)MAX(count, 1), sizeof *from));
	memcpy(from, s, (size_t)count * sizeof *s);
	for (int i = 0, n = 0; n < count; i++)
		for (int k = i; from[i].r && k < count; k++)
			if (from[k].r && from[k].prompt == from[i].prompt) {
				s[n++] = from[k];
				if (k > i) from[k].r = NULL; /* taken */
			}
	free(from);
}

/* One mini-batch: normalisers from all of it, sequences of those that train. */
static int part_make(struct updater *u, const struct rollout *r, const int *order, int count,
	const struct prompt_set *prompts, struct sequence *s)
{
	int *lengths = xcalloc((size_t)MAX(count, 1), sizeof *lengths), k = 0;
	float *normalisers = xcalloc((size_t)MAX(count, 1), sizeof *normalisers);
	for (int i = 0; i < count; i++)
		lengths[i] = rollout_is_masked(&r[order[i]], &u->o) ? 0 : r[order[i]].completion.count;
	loss_normalisers(u->o.loss.type, lengths, count, u->o.max_completion_length, normalisers);
	for (int i = 0; i < count; i++) {
		const struct rollout *x = &r[order[i]];
		u->stats->completion_tokens += x->completion.count;
		if (!rollout_trains(x, &u->o)) continue;
		const struct prompt_row *p = &prompts->rows[x->prompt];
		const struct ids *prompt = x->context.count ? &x->context : &p->ids;
		s[k++] = (struct sequence){.r = x, .p = p, .prompt = prompt, .normaliser = normalisers[i]};
	}
	prompts_gather(s, k);
	free(lengths);
	free(normalisers);
	return k;
}

static int sequence_tokens(const struct sequence *s) { return (int)s->prompt->count + s->r->completion.count; }

/* Of a mini-batch's sequences those that this rank passes through the model, at the front of s: a
 * run of them in which the middles of the sequences lie in its share of all tokens. Returns how
 * many; *first: how many come before. */
static int share_keep(const struct ranks *ranks, struct sequence *s, int count, int *first)
{
	int64_t total = 0, at = 0;
	int kept = 0, rank = ranks_rank(ranks), world = ranks_count(ranks);
	*first = 0;
	for (int i = 0; i < count; i++) total += 2 * sequence_tokens(&s[i]);
	for (int i = 0; i < count; i++) {
		int64_t tokens = sequence_tokens(&s[i]), owner = (at + tokens) * world / MAX(total, 1);
		at += 2 * tokens;
		*first += owner < rank;
		if (owner == rank) s[kept++] = s[i];
	}
	return kept;
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

static void plan_release(struct update_plan *p)
{
	free(p->s);
	free(p->begin);
	free(p->trains);
	free(p->first);
}

static int plan_make(struct updater *u, const struct rollout *r, int n, const struct prompt_set *prompts,
	const struct tokenizer *t, bool is_split, struct update_plan *out, struct err *err)
{
	int counted, rc = 0, parts = u->o.steps_per_generation, *order = counted_order(u, r, n, &counted);
	struct update_plan p = {.s = xcalloc((size_t)MAX(n, 1), sizeof *p.s),
		.begin = xcalloc((size_t)parts + 1, sizeof *p.begin),
		.trains = xcalloc((size_t)parts, sizeof *p.trains),
		.first = xcalloc((size_t)parts, sizeof *p.first),
		.parts = parts};
	/* What does not fit is found on all ranks, whoever's it would be. */
	for (int k = 0; k < parts && !rc; k++) {
		int from = (int)((int64_t)k * counted / parts), to = (int)((int64_t)(k + 1) * counted / parts);
		struct sequence *s = p.s + p.begin[k];
		p.trains[k] = part_make(u, r, order + from, to - from, prompts, s);
		rc = check_fits(u, s, p.trains[k], err);
		p.begin[k + 1] = p.begin[k] + share_keep(u->o.ranks, s, p.trains[k], &p.first[k]);
		u->stats->sequences += p.trains[k];
	}
	u->nrows = 0;
	for (int i = 0; !rc && i < p.begin[parts]; i++) sequence_rows(u, &p.s[i], t, is_split);
	u->stats->counted = counted;
	free(order);
	*out = p;
	return rc;
}

/* ---- micro-batches ---- */

/* Packs sequences from `begin` on; returns the first that did not fit. */
static int micro_pack(struct updater *u, const struct sequence *s, int begin, int count)
{
	int i = begin;
	pack_clear(&u->pack);
	for (; i < count; i++) {
		const struct completion *c = &s[i].r->completion;
		struct pack_sequence x = {.prompt = s[i].prompt->data,
			.nprompt = (int)s[i].prompt->count,
			.answer = c->tokens,
			.count = c->count,
			.temperature = c->temperatures};
		if (!pack_add(&u->pack, &x)) break;
	}
	CHECKF(i > begin, "a sequence of %d tokens", sequence_tokens(&s[begin]));
	pack_close(&u->pack);
	u->row_offset = s[begin].row_begin;
	return i;
}

static void gap_add(struct loss_stats *st, float trainer, float sampler)
{
	double d = fabs((double)trainer - (double)sampler);
	st->logprob_diff_sum += d;
	st->logprob_diff_max = fmax(st->logprob_diff_max, d);
}

/* What is measured once a row: under the policy that sampled it, before any update. */
static void row_measure(struct updater *u, size_t row, float logprob, float entropy)
{
	struct loss_stats *st = &u->stats->loss;
	const struct loss_row *r = &u->rows[row];
	gap_add(st, logprob, u->sampler_logprob[row]);
	st->entropy += entropy;
	if (u->o.loss.beta > 0) {
		/* KL(policy || reference) from one sampled token: unbiased, never
		 * negative (Schulman's k3). */
		double d = (double)r->ref_logprob - logprob;
		st->kl += exp(d) - d - 1;
	}
	st->rows++;
}

static void update_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct updater *u = ctx;
	struct loss_stats *st = &u->stats->loss;
	for (int i = 0; i < n; i++) {
		double sum = 0; /* over the answers that share this token and all before it */
		for (int k = u->pack.member_begin[begin + i]; k < u->pack.member_begin[begin + i + 1]; k++) {
			size_t row = u->row_offset + (size_t)u->pack.member[k];
			struct loss_row *r = &u->rows[row];
			float own;
			if (!u->needs_old) r->old_logprob = logprob[i];
			if (!u->needs_old) row_measure(u, row, logprob[i], entropy ? entropy[i] : 0);
			int clip = loss_row_clip(&u->o.loss, r, logprob[i]);
			st->clip_low += clip < 0;
			st->clip_high += clip > 0;
			st->ratio_max_dev = fmax(st->ratio_max_dev, fabs(exp((double)logprob[i] - r->old_logprob) - 1));
			st->loss += loss_row_value(&u->o.loss, r, logprob[i], &own);
			sum += own;
		}
		g[i] = (float)sum;
	}
}

/* Log-probabilities of all rows under one policy, before any update. */
static void rows_logprobs(
	struct updater *u, struct pass *pass, struct adapter *a, const struct sequence *s, int count, bool is_reference)
{
	for (int i = 0; i < count;) {
		i = micro_pack(u, s, i, count);
		pass_forward(pass, a, &u->pack.batch, 0);
		pass_logprobs(pass, u->pack.head, u->pack.nhead, u->o.temperature, u->logprob, u->entropy);
		for (int k = 0; k < u->pack.nloss; k++) {
			size_t row = u->row_offset + (size_t)k;
			int head = u->pack.head_of[k];
			if (is_reference) {
				u->rows[row].ref_logprob = u->logprob[head];
				continue;
			}
			u->rows[row].old_logprob = u->logprob[head];
			row_measure(u, row, u->logprob[head], u->entropy[head]);
		}
	}
}

/* ---- importance weights: the policy that trains against the one that sampled ---- */

/* TRL's modes: the weight of a token or of its whole sequence, cut at the cap
 * or dropped beyond it. */
static const struct {
	const char *name;
	bool is_sequence; /* one weight for the whole sequence; else one for each token */
	bool is_mask;     /* beyond the cap it is dropped; else it is cut there */
} importance_modes[IMPORTANCE_COUNT] = {
	[IMPORTANCE_OFF] = {"off", false, false},
	[IMPORTANCE_TOKEN_TRUNCATE] = {"token_truncate", false, false},
	[IMPORTANCE_TOKEN_MASK] = {"token_mask", false, true},
	[IMPORTANCE_SEQUENCE_TRUNCATE] = {"sequence_truncate", true, false},
	[IMPORTANCE_SEQUENCE_MASK] = {"sequence_mask", true, true},
};

int importance_mode_from_name(const char *name, enum importance_mode *out, struct err *err)
{
	for (int i = 0; i < IMPORTANCE_COUNT; i++)
		if (!strcmp(importance_modes[i].name, name)) {
			*out = (enum importance_mode)i;
			return 0;
		}
	return err_set(err, ERR_USAGE, "importance_sampling_mode \"%.40s\" is unknown", name);
}

static double capped(const struct updater_options *o, double weight)
{
	if (importance_modes[o->importance].is_mask) return weight <= o->importance_cap ? weight : 0;
	return fmin(weight, o->importance_cap);
}

static void importance_weights(struct updater *u, const struct sequence *s, int count)
{
	bool is_sequence = importance_modes[u->o.importance].is_sequence;
	u->stats->weight_min = INFINITY;
	for (int i = 0; i < count; i++) {
		double sum = 0;
		size_t begin = s[i].row_begin, n = (size_t)s[i].r->completion.count;
		for (size_t k = begin; k < begin + n; k++) sum += (double)u->rows[k].old_logprob - u->sampler_logprob[k];
		double total = 0;
		for (size_t k = begin; k < begin + n; k++) {
			double own = (double)u->rows[k].old_logprob - u->sampler_logprob[k];
			double weight = capped(&u->o, exp(is_sequence ? sum : own));
			u->rows[k].weight = (float)weight;
			total += weight;
			u->stats->weight_min = fmin(u->stats->weight_min, weight);
			u->stats->weight_max = fmax(u->stats->weight_max, weight);
		}
		u->stats->weight_sum += total;
		/* A ratio that is the sequence's moves with each of its tokens alike: what its tokens'
		 * weights multiply is their mean, the value and the slope by each token. */
		for (size_t k = begin; k < begin + n && loss_type_needs_sequence_ratio(u->o.loss.type); k++)
			u->rows[k].weight = (float)(total / (double)n);
	}
}

/* gspo: the ratio of each sequence of a micro-batch under the weights as they are now. */
static void sequence_ratios(struct updater *u, const struct sequence *s, int begin, int end)
{
	if (!loss_type_needs_sequence_ratio(u->o.loss.type) || !u->needs_old) return;
	pass_logprobs(u->pass, u->pack.head, u->pack.nhead, u->o.temperature, u->logprob, NULL);
	for (int i = begin; i < end; i++) {
		double sum = 0;
		size_t first = s[i].row_begin, n = (size_t)s[i].r->completion.count;
		for (size_t k = first; k < first + n; k++)
			sum += (double)u->logprob[u->pack.head_of[k - u->row_offset]] - u->rows[k].old_logprob;
		for (size_t k = first; k < first + n; k++) u->rows[k].sequence_ratio = (float)exp(sum / (double)n);
	}
}

/* ---- the steps ---- */

/* One step of the optimiser, held to max_grad_ratio times the mean norm of the steps before it: an
 * absolute limit never acts where a loss's normaliser makes all norms small. */
static int optimizer_advance(struct updater *u, struct err *err)
{
	enum { NORMS_BEFORE_LIMIT = 8 };
	double limit = u->o.max_grad_ratio > 0 && u->norm_count >= NORMS_BEFORE_LIMIT ? u->o.max_grad_ratio * u->norm_mean
																				  : 0;
	int rc = optimizer_gather(u->optimizer, u->o.ranks, err);
	if (rc) return rc;
	optimizer_next(u->optimizer, 1, limit);
	double norm = optimizer_step(u->optimizer);
	u->stats->updates++;
	u->stats->grad_norm += norm;
	if (!isfinite(norm)) {
		u->stats->not_finite++;
		return 0;
	}
	bool is_spike = limit > 0 && norm > limit;
	u->stats->spikes += is_spike;
	double kept = is_spike ? limit : norm, share = 1.0 / (double)MIN(u->norm_count + 1, 16);
	u->norm_mean += share * (kept - u->norm_mean);
	u->norm_count++;
	return 0;
}

/* One mini-batch: gradients of all its micro-batches, then a step. A mini-batch in which nothing
 * trains is a step of the schedule alone; where others train, a rank without a
 * share waits for them. */
static int part_run(struct updater *u, const struct update_plan *p, int part, struct err *err)
{
	uint64_t step = (uint64_t)optimizer_steps(u->optimizer) + 1;
	const struct sequence *s = p->s;
	int begin = p->begin[part], end = p->begin[part + 1], first = p->first[part];
	if (p->trains[part] == 0) {
		optimizer_skip(u->optimizer);
		return 0;
	}
	for (int i = begin, next; i < end; i = next) {
		next = micro_pack(u, s, i, end);
		pass_forward(u->pass, u->adapter, &u->pack.batch,
			u->o.dropout_seed ? u->o.dropout_seed + (step << 20) + (uint64_t)(first + i - begin) : 0);
		sequence_ratios(u, s, i, next);
		pass_backward(u->pass, u->pack.head, u->pack.nhead, u->o.temperature, update_loss, u);
		u->stats->tokens += u->pack.T;
		for (int k = i; k < next; k++) u->stats->tokens_apart += sequence_tokens(&s[k]);
	}
	return optimizer_advance(u, err);
}

int updater_run(struct updater *u, const struct rollout *r, int n, const struct prompt_set *prompts,
	const struct tokenizer *t, bool is_split, struct update_stats *stats, struct err *err)
{
	*stats = (struct update_stats){0};
	u->stats = stats;
	struct update_plan p;
	int rc = plan_make(u, r, n, prompts, t, is_split, &p, err), count = p.begin[p.parts];
	/* What the rows need of other policies, before the weights move. */
	if (!rc && count && u->o.loss.beta > 0)
		rows_logprobs(u, u->reference ? u->reference_pass : u->pass, NULL, p.s, count, true);
	if (!rc && count && u->needs_old) rows_logprobs(u, u->pass, u->adapter, p.s, count, false);
	if (!rc && u->o.importance != IMPORTANCE_OFF) importance_weights(u, p.s, count);
	for (int k = 0; !rc && k < u->o.num_iterations; k++)
		for (int part = 0; !rc && part < p.parts; part++) rc = part_run(u, &p, part, err);
	/* Sums over updates become means; a batch in which nothing trained has none. */
	if (stats->updates) {
		stats->loss.loss /= stats->updates;
		stats->grad_norm /= stats->updates;
	}
	plan_release(&p);
	return rc;
}

/* ---- supervised updates between those of reinforcement ---- */

static void fit_loss(void *ctx, int begin, int n, const float *logprob, const float *entropy, float *g)
{
	struct updater *u = ctx;
	const struct loss_options o = {.type = LOSS_SFT};
	for (int i = 0; i < n; i++) {
		int times = u->pack.member_begin[begin + i + 1] - u->pack.member_begin[begin + i];
		const struct loss_row row = {.normaliser = (float)(times * u->fit_scale), .weight = 1};
		u->stats->fit_loss += loss_row_value(&o, &row, logprob[i], &g[i]);
	}
}

/* The rank's share, equal examples side by side: one that was drawn again passes through the model
 * once. */
static const struct sft_example **fit_order(const struct sft_example *const *e, int from, int to)
{
	const struct sft_example **order = xcalloc((size_t)MAX(to - from, 1), sizeof *order);
	for (int i = from, n = 0; i < to; i++) {
		bool is_first = true;
		for (int k = from; k < i; k++) is_first &= e[k] != e[i];
		for (int k = i; is_first && k < to; k++)
			if (e[k] == e[i]) order[n++] = e[k];
	}
	return order;
}

/* Packs examples from `begin` on; returns the first that did not fit. */
static int fit_pack(struct updater *u, const struct sft_example *const *e, int begin, int count)
{
	int i = begin;
	pack_clear(&u->pack);
	for (; i < count; i++) {
		int nprompt = e[i]->completion_begin;
		struct pack_sequence x = {
			.prompt = e[i]->ids, .nprompt = nprompt, .answer = e[i]->ids + nprompt, .count = e[i]->count - nprompt};
		if (!pack_add(&u->pack, &x)) break;
	}
	pack_close(&u->pack);
	return i;
}

int updater_fit(struct updater *u, const struct sft_example *const *e, int count, double rate_scale, double weight,
	struct update_stats *stats, struct err *err)
{
	/* Nothing to learn from still counts as a step of the schedule. */
	uint64_t step = (uint64_t)optimizer_steps(u->optimizer) + 1;
	int64_t tokens = 0, from, to;
	if (count == 0) {
		optimizer_skip(u->optimizer);
		return 0;
	}
	/* The mean is over all completion tokens of the batch. */
	u->stats = stats;
	for (int i = 0; i < count; i++) {
		CHECKF(e[i]->completion_begin > 0 && e[i]->count <= u->o.max_tokens, "an example of %d tokens", e[i]->count);
		tokens += e[i]->count - e[i]->completion_begin;
	}
	u->fit_scale = weight / (double)tokens;
	pass_min_p(u->pass, 0); /* supervised updates are of the whole distribution */
	/* As many examples at a time as fit; their gradients add up. */
	ranks_share(u->o.ranks, count, &from, &to);
	const struct sft_example **order = fit_order(e, (int)from, (int)to);
	for (int i = 0, next; i < (int)(to - from); i = next) {
		next = fit_pack(u, order, i, (int)(to - from));
		pass_forward(u->pass, u->adapter, &u->pack.batch,
			u->o.dropout_seed ? u->o.dropout_seed + (step << 20) + (uint64_t)(from + i) : 0);
		pass_backward(u->pass, u->pack.head, u->pack.nhead, 1, fit_loss, u);
		stats->tokens += u->pack.T;
		stats->fit_tokens += u->pack.T;
	}
	free(order);
	pass_min_p(u->pass, u->o.min_p);
	int rc = optimizer_gather(u->optimizer, u->o.ranks, err);
	if (rc) return rc;
	/* Norms of these steps are of another loss: they do not enter the mean
	 * that limits the others. */
	optimizer_next(u->optimizer, rate_scale, 0);
	double norm = optimizer_step(u->optimizer);
	stats->fit_updates++;
	stats->fit_norm += norm;
	stats->not_finite += !isfinite(norm);
	stats->fit_examples += count;
	return 0;
}
