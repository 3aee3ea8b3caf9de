/* A step with several ranks (ranks.h). Each rank writes and grades the answers of its share of
 * the groups; then all have all of them, and what follows (advantages, order, history) is what
 * one process would do. Of the update each passes its share of the sequences through the model.
 * Which answers come out does not depend on who writes them: draws are functions of (seed,
 * request, sample, position). */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "infer/infer.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"
#include "verify/verify.h"

#include <stdlib.h>

/* ---- answers as bytes ---- */

struct record { /* before the arrays of an answer */
	int32_t prompt;
	int32_t sample;
	int32_t count;  /* tokens */
	int32_t finish; /* enum finish */
	int32_t is_dropped;
	int32_t has_temperatures; /* of each token */
	int64_t id;               /* of the request */
	int64_t text;             /* bytes, as the next */
	int64_t verdict;
};

static void rollout_put(struct str *out, const struct rollout *r)
{
	const struct completion *c = &r->completion;
	json_t *j = verdict_json(&r->verdict);
	char *verdict = json_dumps(j, JSON_COMPACT);
	struct record h = {.prompt = r->prompt,
		.sample = r->sample,
		.count = c->count,
		.finish = (int32_t)c->finish,
		.is_dropped = r->is_dropped,
		.has_temperatures = c->temperatures != NULL,
		.id = c->id,
		.text = (int64_t)r->text_len,
		.verdict = (int64_t)strlen(verdict)};
	size_t n = (size_t)c->count;
	str_append(out, &h, sizeof h);
	str_append(out, c->tokens, n * sizeof *c->tokens);
	str_append(out, c->logprobs, n * sizeof *c->logprobs);
	if (c->temperatures) str_append(out, c->temperatures, n * sizeof *c->temperatures);
	str_append(out, r->text, r->text_len);
	str_append(out, verdict, (size_t)h.verdict);
	free(verdict);
	json_decref(j);
}

struct cursor {
	const char *at;
	size_t left;
};

/* The next bytes; NULL when there are not so many. */
static const char *bytes_take(struct cursor *c, size_t n)
{
	if (n > c->left) return NULL;
	const char *from = c->at;
	c->at += n;
	c->left -= n;
	return from;
}

static void *copy_take(struct cursor *c, size_t n)
{
	const char *from = bytes_take(c, n);
	void *to = from ? xmalloc(MAX(n, 1)) : NULL;
	if (to) memcpy(to, from, n);
	return to;
}

static int rollout_take(struct cursor *c, const struct prompt_set *prompts, struct rollout *r, struct err *err)
{
	struct record h;
	const char *head = bytes_take(c, sizeof h), *verdict;
	json_t *j = NULL;
	if (head) memcpy(&h, head, sizeof h);
	bool is_whole = head && h.count >= 0 && h.text >= 0 && h.verdict >= 0 && h.prompt >= 0 &&
		(size_t)h.prompt < prompts->count && h.finish >= 0 && h.finish <= FINISH_NAN;
	if (!is_whole) return err_set(err, ERR_FORMAT, "answers of another rank are cut");
	/* The arrays in the order in which they were put. */
	*r = (struct rollout){.prompt = h.prompt, .sample = h.sample, .is_dropped = h.is_dropped};
	struct completion *a = &r->completion;
	*a = (struct completion){.id = h.id, .sample = h.sample, .count = h.count, .finish = (enum finish_reason)h.finish};
	size_t n = (size_t)h.count;
	a->tokens = copy_take(c, n * sizeof *a->tokens);
	a->logprobs = copy_take(c, n * sizeof *a->logprobs);
	if (h.has_temperatures) a->temperatures = copy_take(c, n * sizeof *a->temperatures);
	const char *text = bytes_take(c, (size_t)h.text);
	verdict = bytes_take(c, (size_t)h.verdict);
	if (!a->tokens || !a->logprobs || !text || !verdict)
		return err_set(err, ERR_FORMAT, "answers of another rank are cut");
	r->text = xcalloc((size_t)h.text + 1, 1); /* may hold NUL, as a model may write it */
	memcpy(r->text, text, (size_t)h.text);
	r->text_len = (size_t)h.text;
	r->answer = answer_parse(r->text, r->text_len);
	int rc = json_parse(verdict, (size_t)h.verdict, "a verdict of another rank", &j, err);
	if (!rc) rc = verdict_from_json(j, &r->verdict, err);
	json_decref(j);
	return rc;
}

/* ---- all ranks' answers ---- */

/* What another rank has of its groups [begin, end), into its places. */
static int groups_take(const struct str *bytes, const struct prompt_set *prompts, int64_t begin, int64_t end, int K,
	struct rollout *out, int *sizes, double *verify_s, struct err *err)
{
	struct cursor c = {bytes->data, bytes->len};
	const char *head = bytes_take(&c, sizeof *verify_s);
	int rc = head ? 0 : err_set(err, ERR_FORMAT, "answers of another rank are cut");
	double seconds = 0;
	if (head) memcpy(&seconds, head, sizeof seconds);
	*verify_s += seconds;
	for (int64_t g = begin; !rc && g < end; g++) {
		int32_t size = 0;
		const char *count = bytes_take(&c, sizeof size);
		if (count) memcpy(&size, count, sizeof size);
		if (!count || size < 0 || size > K)
			return err_set(err, ERR_FORMAT, "a group of %d answers, at most %d", size, K);
		sizes[g] = size;
		for (int k = 0; !rc && k < size; k++) rc = rollout_take(&c, prompts, &out[g * K + k], err);
	}
	return rc;
}

static int watch(void *ctx, struct err *err) { return ranks_watch(ctx, err); }

int rollouts_share(struct ranks *ranks, const struct author *a, struct verifier *v, const struct prompt_set *prompts,
	const int *index, int n, const struct rollout_options *o, struct rollout *out, int *sizes, struct err *err)
{
	if (!ranks) return rollouts_collect(a, v, prompts, index, n, o, out, sizes, err);
	int world = ranks_count(ranks), K = o->num_samples;
	int64_t begin, end;
	struct rollout_options mine = *o;
	struct rollout_times times = o->times ? *o->times : (struct rollout_times){0};
	double before = times.verify_s;
	ranks_share(ranks, n, &begin, &end);
	memset(out, 0, (size_t)n * (size_t)K * sizeof *out);
	memset(sizes, 0, (size_t)n * sizeof *sizes);
	mine.id_base += begin;
	mine.times = &times;
	mine.watch = watch;
	mine.watch_ctx = ranks;
	int rc = rollouts_collect(
		a, v, prompts, index + begin, (int)(end - begin), &mine, out + begin * K, sizes + begin, err);
	/* Mine to all, theirs to me. */
	struct str bytes = {0}, *all = xcalloc((size_t)world, sizeof *all);
	double verify_s = times.verify_s - before;
	str_append(&bytes, &verify_s, sizeof verify_s);
	for (int64_t g = begin; !rc && g < end; g++) {
		int32_t size = sizes[g];
		str_append(&bytes, &size, sizeof size);
		for (int k = 0; k < size; k++) rollout_put(&bytes, &out[g * K + k]);
	}
	if (!rc) rc = ranks_gather(ranks, bytes.data, bytes.len, all, err);
	for (int r = 0; !rc && r < world; r++) {
		if (r == ranks_rank(ranks)) continue;
		rc = groups_take(&all[r], prompts, (int64_t)n * r / world, (int64_t)n * (r + 1) / world, K, out, sizes,
			&times.verify_s, err);
		if (rc) err_prefix(err, "rank %d", r);
	}
	if (o->times) *o->times = times;
	str_release(&bytes);
	for (int r = 0; r < world; r++) str_release(&all[r]);
	free(all);
	return rc;
}

/* ---- an update's figures ---- */

int update_stats_join(struct ranks *ranks, struct update_stats *u, struct err *err)
{
	if (!ranks) return 0;
	struct loss_stats *l = &u->loss;
	double *const sums[] = {
		&l->loss, &l->clip_low, &l->clip_high, &l->kl, &l->entropy, &l->logprob_diff_sum, &u->weight_sum, &u->fit_loss};
	int64_t *const counts[] = {&l->rows, &u->tokens, &u->tokens_apart, &u->fit_tokens};
	struct {
		double sums[ARRAY_LEN(sums)];
		double ratio; /* ratio_max_dev */
		double gap;   /* logprob_diff_max */
		double weight_max;
		double weight_min;
		int64_t counts[ARRAY_LEN(counts)];
	} own = {.ratio = l->ratio_max_dev,
		.gap = l->logprob_diff_max,
		.weight_max = u->weight_max,
		.weight_min = u->weight_min},
	  part;
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) own.sums[i] = *sums[i];
	for (size_t i = 0; i < ARRAY_LEN(counts); i++) own.counts[i] = *counts[i];
	int world = ranks_count(ranks), rc = 0;
	struct str *all = xcalloc((size_t)world, sizeof *all);
	rc = ranks_gather(ranks, &own, sizeof own, all, err);
	/* Sums in rank order; of extremes the outermost. Counts of answers and of steps
	 * every rank has by itself. */
	for (int r = 0; !rc && r < world; r++) {
		if (all[r].len != sizeof part) rc = err_set(err, ERR_MISMATCH, "rank %d: figures of %zu bytes", r, all[r].len);
		if (rc) break;
		memcpy(&part, all[r].data, sizeof part);
		for (size_t i = 0; i < ARRAY_LEN(sums); i++) *sums[i] = r ? *sums[i] + part.sums[i] : part.sums[i];
		for (size_t i = 0; i < ARRAY_LEN(counts); i++) *counts[i] = r ? *counts[i] + part.counts[i] : part.counts[i];
		l->ratio_max_dev = MAX(l->ratio_max_dev, part.ratio);
		l->logprob_diff_max = MAX(l->logprob_diff_max, part.gap);
		u->weight_max = MAX(u->weight_max, part.weight_max);
		u->weight_min = MIN(u->weight_min, part.weight_min);
	}
	for (int r = 0; r < world; r++) str_release(&all[r]);
	free(all);
	return rc;
}

/* ---- what rank 0's store holds, to the others ---- */

#define CHUNK_BYTES ((size_t)4 << 20)

struct relay {
	struct ranks *ranks;
	struct str chunk;
	rl_row_fn *fn;
	void *ctx;
	struct err *err;
};

/* Lines of step, a blank and the row. */
static int relay_row(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct relay *s = ctx;
	int rc = s->fn(step, index, row, s->ctx);
	if (rc || !s->ranks) return rc;
	char *text = json_dumps(row, JSON_COMPACT);
	str_printf(&s->chunk, "%lld %lld ", (long long)step, (long long)index);
	str_puts(&s->chunk, text);
	str_putc(&s->chunk, '\n');
	free(text);
	if (s->chunk.len < CHUNK_BYTES) return 0;
	rc = ranks_broadcast(s->ranks, &s->chunk, s->err);
	str_clear(&s->chunk);
	return rc;
}

static int relay_lines(struct relay *s)
{
	int rc = 0;
	for (char *line = s->chunk.data, *end; !rc && line && *line && (end = strchr(line, '\n')); line = end + 1) {
		long long step, index;
		int at = 0;
		json_t *row = NULL;
		if (sscanf(line, "%lld %lld %n", &step, &index, &at) < 2 || !at)
			return err_set(s->err, ERR_FORMAT, "a row of rank 0's store that is none");
		rc = json_parse(line + at, (size_t)(end - line - at), "a row of rank 0's store", &row, s->err);
		if (!rc) rc = s->fn(step, index, row, s->ctx);
		json_decref(row);
	}
	return rc;
}

int samples_relay(struct ranks *ranks, struct store *store, int64_t run, rl_row_fn *fn, void *ctx, struct err *err)
{
	struct relay s = {.ranks = ranks, .fn = fn, .ctx = ctx, .err = err};
	int rc = 0;
	if (ranks_rank(ranks) == 0) {
		rc = store_samples_each(store, run, relay_row, &s, err);
		if (!rc && s.chunk.len) rc = ranks_broadcast(ranks, &s.chunk, err);
		str_clear(&s.chunk);
		if (!rc) rc = ranks_broadcast(ranks, &s.chunk, err); /* nothing: the end */
	} else {
		do {
			rc = ranks_broadcast(ranks, &s.chunk, err);
			if (!rc) rc = relay_lines(&s);
		} while (!rc && s.chunk.len);
	}
	str_release(&s.chunk);
	return rc;
}
