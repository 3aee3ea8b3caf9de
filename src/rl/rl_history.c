/* The fold over samples: estimates, levels, buffer. */
#include "rl/rl_history.h"
#include "base/base.h"
#include "task/task.h"
#include "text/text.h"
#include "train/train.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

/* A structure that nothing is known of: half a success and half a failure (Jeffreys' prior). */
#define PRIOR 0.5
/* Below this chance that the rest of a staged group differs, the rest is not drawn. */
#define STAGE_PAYS 0.25

struct tally {
	double success; /* answers so far, those of old steps counting less; likewise failure */
	double failure;
	int64_t step; /* of the last answer: counts are as of then */
};

struct structure {
	struct tally tally;
	int level;
	int *prompts; /* (nprompts) in the set */
	int nprompts;
	int *kept; /* (nkept) answers in the buffer */
	int nkept;
};

struct kept {
	struct sft_example example;
	struct ids ids;
};

struct place { /* of a prompt by its task's name */
	const char *name;
	int prompt;
};

struct history {
	struct history_options o;
	const struct prompt_set *prompts;
	const struct tokenizer *tokenizer;
	int *structure_of; /* (prompts) */
	struct structure *structures;
	int nstructures;
	struct place *places; /* (prompts) in byte order of names */
	struct tally levels[LEVELS_MAX];
	struct kept *kept;
	int nkept;
	int kept_cap;
	int *filled; /* (nfilled) structures that have answers, in the order of their first one */
	int nfilled;
	json_t *seen; /* hash of task and answer -> true */
};

/* ---- tallies ---- */

static struct tally tally_at(const struct history *h, const struct tally *t, int64_t step)
{
	double left = pow(h->o.decay, (double)MAX(step - t->step, 0));
	return (struct tally){t->success * left, t->failure * left, step};
}

static void tally_add(const struct history *h, struct tally *t, int64_t step, bool is_success)
{
	*t = tally_at(h, t, step);
	*(is_success ? &t->success : &t->failure) += 1;
}

static double rate_of(const struct tally *t) { return (t->success + PRIOR) / (t->success + t->failure + 2 * PRIOR); }

/* Probability that K draws of Beta(a, b) are all successes: the product of
 * (a + i) / (a + b + i). */
static double all_of(double a, double b, int K)
{
	double p = 1;
	for (int i = 0; i < K; i++) p *= (a + i) / (a + b + i);
	return p;
}

double history_promise(const struct history *h, int64_t step, int prompt, int c, int tried, int K)
{
	struct tally t = tally_at(h, &h->structures[h->structure_of[prompt]].tally, step);
	double a = t.success + PRIOR + c, b = t.failure + PRIOR + tried - c;
	if (c > 0 && c < tried) return 1; /* they differ already */
	double all = all_of(a, b, K), none = all_of(b, a, K);
	return tried == 0 ? 1 - all - none : c ? 1 - all : 1 - none;
}

bool history_group_pays(const struct history *h, int64_t step, const struct rollout *first, int n, int rest)
{
	int success = 0, tried = 0;
	for (int i = 0; i < n; i++) {
		const struct verdict *v = &first[i].verdict;
		tried += !first[i].is_dropped;
		success += !first[i].is_dropped && (h->o.is_stock ? v->kernelbench == 1 : v->class == VERDICT_GENUINE);
	}
	return history_promise(h, step, first->prompt, success, tried, rest) >= STAGE_PAYS;
}

/* ---- making ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct place *)a)->name, ((const struct place *)b)->name);
}

static void list_push(int **list, int *n, int value)
{
	if ((*n & (*n - 1)) == 0) *list = xrealloc(*list, size_mul(*n ? 2 * (size_t)*n : 1, sizeof **list));
	(*list)[(*n)++] = value;
}

static int level_of(const struct task *t) { return MIN(MAX(t->level, 0), LEVELS_MAX - 1); }

struct history *history_create(
	const struct history_options *o, const struct prompt_set *prompts, const struct tokenizer *t)
{
	struct history *h = xcalloc(1, sizeof *h);
	int n = (int)prompts->count;
	const struct task **tasks = xcalloc((size_t)n + 1, sizeof *tasks);
	*h = (struct history){.o = *o, .prompts = prompts, .tokenizer = t, .seen = json_object()};
	h->structure_of = xcalloc((size_t)n + 1, sizeof *h->structure_of);
	h->places = xcalloc((size_t)n + 1, sizeof *h->places);
	for (int i = 0; i < n; i++) {
		tasks[i] = &prompts->rows[i].task;
		h->places[i] = (struct place){tasks[i]->name, i};
	}
	h->nstructures = tasks_clusters(tasks, n, h->structure_of);
	h->structures = xcalloc((size_t)h->nstructures + 1, sizeof *h->structures);
	for (int i = 0; i < n; i++) {
		struct structure *s = &h->structures[h->structure_of[i]];
		s->level = level_of(tasks[i]);
		list_push(&s->prompts, &s->nprompts, i);
	}
	qsort(h->places, (size_t)n, sizeof *h->places, by_name);
	free(tasks);
	return h;
}

void history_free(struct history *h)
{
	if (!h) return;
	for (int i = 0; i < h->nstructures; i++) {
		free(h->structures[i].prompts);
		free(h->structures[i].kept);
	}
	for (int i = 0; i < h->nkept; i++) ids_release(&h->kept[i].ids);
	free(h->structures);
	free(h->structure_of);
	free(h->places);
	free(h->kept);
	free(h->filled);
	json_decref(h->seen);
	free(h);
}

int level_weights_parse(const char *text, double weights[LEVELS_MAX], struct err *err)
{
	memset(weights, 0, LEVELS_MAX * sizeof *weights);
	for (const char *s = text; s && *s;) {
		int level, len = 0;
		double weight;
		if (sscanf(s, "%d:%lf%n", &level, &weight, &len) != 2 || level < 0 || level >= LEVELS_MAX || !(weight >= 0) ||
			!isfinite(weight) || (s[len] && s[len] != ','))
			return err_set(
				err, ERR_USAGE, "--level_weights \"%.60s\": expected LEVEL:WEIGHT,... as in 1:0.8,2:0.2", text);
		weights[level] = weight;
		s += len + (s[len] == ',');
	}
	return 0;
}

int level_weights_check(
	const char *text, const double weights[LEVELS_MAX], const struct prompt_set *prompts, struct err *err)
{
	size_t count[LEVELS_MAX] = {0};
	struct str there = {0};
	double sum = 0;
	int rc = 0;
	if (!text || !*text) return 0;
	for (size_t i = 0; i < prompts->count; i++) count[level_of(&prompts->rows[i].task)]++;
	for (int l = 0; l < LEVELS_MAX; l++) {
		if (count[l]) str_printf(&there, "%s%d: %zu", there.len ? ", " : "", l, count[l]);
		sum += weights[l];
	}
	/* A level without tasks would never be drawn, and hold up those above it for good. */
	for (int l = 0; !rc && l < LEVELS_MAX; l++)
		if (weights[l] > 0 && !count[l])
			rc = err_set(err, ERR_USAGE, "--level_weights \"%.60s\": no task is of level %d (tasks by level: %s)", text,
				l, there.data);
	if (!rc && !(sum > 0))
		rc = err_set(err, ERR_USAGE, "--level_weights \"%.60s\": expected a weight above 0 (tasks by level: %s)", text,
			there.data);
	str_release(&there);
	return rc;
}

/* ---- the fold ---- */

/* A successful answer that is new enters the buffer as prompt, its text in the tokenizer's
 * own cut, and the end. */
static int keep_answer(struct history *h, int prompt, const char *answer, struct err *err)
{
	const struct prompt_row *p = &h->prompts->rows[prompt];
	if (!h->tokenizer) return 0; /* a policy outside: nothing of it is replayed */
	const struct slice parts[2] = {{p->task.name, strlen(p->task.name)}, {answer, strlen(answer)}};
	struct sha256_hex key = hash_parts(parts, 2);
	/* Each answer once. Text that was no whole UTF-8 would be learned as its
	 * replacement characters. */
	if (strstr(answer, "\xef\xbf\xbd") || json_object_get(h->seen, key.text)) return 0;
	/* An example is the prompt's tokens, the answer's and the end; one that is
	 * too long is left out. */
	struct ids ids = {0};
	for (size_t i = 0; i < p->ids.count; i++) ids_push(&ids, p->ids.data[i]);
	int rc = tokenizer_encode(h->tokenizer, answer, strlen(answer), true, &ids, err);
	for (size_t i = p->ids.count; i < ids.count && !rc; i++)
		if (ids.data[i] >= h->o.vocab_size)
			rc = err_set(err, ERR_MISMATCH,
				"task %s: the tokenizer gives id %d to its answer, the model has %d; they do not belong together",
				p->task.name, ids.data[i], h->o.vocab_size);
	ids_push(&ids, h->o.stop_id);
	if (rc || ids.count > (size_t)h->o.max_tokens || p->ids.count == 0) {
		ids_release(&ids);
		return rc;
	}
	json_object_set_new(h->seen, key.text, json_true());
	if (h->nkept == h->kept_cap) {
		h->kept_cap = MAX(64, 2 * h->kept_cap);
		h->kept = xrealloc(h->kept, size_mul((size_t)h->kept_cap, sizeof *h->kept));
	}
	h->kept[h->nkept] = (struct kept){.example = {ids.data, (int)ids.count, (int)p->ids.count}, .ids = ids};
	/* Drawn by structure, so that one that is solved often does not fill the batches. */
	struct structure *s = &h->structures[h->structure_of[prompt]];
	if (s->nkept == 0) list_push(&h->filled, &h->nfilled, h->structure_of[prompt]);
	list_push(&s->kept, &s->nkept, h->nkept++);
	return 0;
}

/* Success is what the run pays for: a genuine answer, or one that
 * KernelBench's own check passes. */
static bool is_success(const struct history *h, const json_t *verdict, const char *class)
{
	if (!h->o.is_stock) return !strcmp(class, verdict_class_name(VERDICT_GENUINE));
	return json_is_true(json_object_get(json_object_get(verdict, "kernelbench"), "correctness"));
}

int history_add(struct history *h, int64_t step, const json_t *row, struct err *err)
{
	const char *task, *class, *answer;
	int rc = json_get_str(row, "sample", "task", &task, err);
	if (!rc) rc = json_get_str(row, "sample", "answer", &answer, err);
	if (!rc) rc = json_get_str(json_object_get(row, "verdict"), "sample", "verdict", &class, err);
	if (rc) return rc;
	const struct place key = {.name = task},
					   *at = bsearch(&key, h->places, h->prompts->count, sizeof *h->places, by_name);
	if (!at || !strcmp(class, verdict_class_name(VERDICT_INFRA))) return 0;
	struct structure *s = &h->structures[h->structure_of[at->prompt]];
	bool is_paid = is_success(h, json_object_get(row, "verdict"), class);
	/* A later turn is there because the first one failed: it says nothing of how hard the prompt
	 * is. What it found is kept all the same, as an answer to the prompt. */
	if (json_integer_value(json_object_get(row, "turn")) == 0) {
		tally_add(h, &s->tally, step, is_paid);
		tally_add(h, &h->levels[s->level], step, is_paid);
	}
	return is_paid ? keep_answer(h, at->prompt, answer, err) : 0;
}

/* ---- draws ---- */

/* The lowest level that there is, and every one above a level that is admitted and good enough. */
static bool level_is_admitted(const struct history *h, int64_t step, int level)
{
	if (h->o.level_admission <= 0) return true;
	for (int l = 0; l < level; l++) {
		struct tally t = tally_at(h, &h->levels[l], step);
		if (h->o.level_weights[l] <= 0) continue;
		if (t.success < h->o.level_admission * (t.success + t.failure) || t.success + t.failure < 1) return false;
	}
	return true;
}

static double uniform(const struct history *h, int64_t step, int round, int slot, int what)
{
	uint64_t index = (uint64_t)round << 40 | (uint64_t)slot << 8 | (uint64_t)what;
	return rng_uniform(h->o.seed, 0x70726f6d69736500 + ((uint64_t)step << 8), index);
}

/* Index drawn in proportion to weights; -1 when all are 0. */
static int draw_weighted(const double *weights, int n, double u)
{
	double total = 0;
	int last = -1;
	for (int i = 0; i < n; i++) total += weights[i];
	double left = u * total;
	for (int i = 0; i < n; i++) {
		if (weights[i] <= 0) continue;
		last = i;
		if (left < weights[i]) return i;
		left -= weights[i];
	}
	return last;
}

/* The level of a slot, or -1 where levels are not looked at or none that is admitted
 * has a structure left. */
static int draw_level(const struct history *h, int64_t step, const double *weights, double u)
{
	double shares[LEVELS_MAX] = {0};
	for (int i = 0; i < h->nstructures; i++) {
		int level = h->structures[i].level;
		if (weights[i] > 0 && level_is_admitted(h, step, level)) shares[level] = h->o.level_weights[level];
	}
	return draw_weighted(shares, LEVELS_MAX, u);
}

static bool has_level_weights(const struct history *h)
{
	for (int l = 0; l < LEVELS_MAX; l++)
		if (h->o.level_weights[l] > 0) return true;
	return false;
}

void history_draw(const struct history *h, int64_t step, int round, const int *taken, int ntaken, int n, int *index)
{
	double *weights = xcalloc((size_t)h->nstructures + 1, sizeof *weights),
		   *now = xcalloc((size_t)h->nstructures + 1, sizeof *now);
	/* A structure weighs what its first task promises, never less than the floor;
	 * nothing once it was taken. */
	for (int i = 0; i < h->nstructures; i++)
		weights[i] = fmax(
			h->o.floor, history_promise(h, step, h->structures[i].prompts[0], 0, 0, h->o.num_generations));
	for (int i = 0; i < ntaken; i++) weights[h->structure_of[taken[i]]] = 0;
	for (int slot = 0; slot < n; slot++) {
		/* Level first, then a structure of it by promise, then one of its tasks. */
		double u = uniform(h, step, round, slot, 0);
		int level = draw_level(h, step, weights, u);
		/* More prompts than the admitted levels have structures: theirs may come again, and
		 * those of a level that waits do not. */
		if (level < 0 && has_level_weights(h)) {
			for (int i = 0; i < h->nstructures; i++) weights[i] = 1;
			level = draw_level(h, step, weights, u);
		}
		for (int i = 0; i < h->nstructures; i++) now[i] = level < 0 || h->structures[i].level == level ? weights[i] : 0;
		int s = draw_weighted(now, h->nstructures, uniform(h, step, round, slot, 1));
		if (s < 0) { /* more prompts than structures: all may come again */
			for (int i = 0; i < h->nstructures; i++) weights[i] = 1;
			s = draw_weighted(weights, h->nstructures, uniform(h, step, round, slot, 1));
		}
		weights[s] = 0;
		const struct structure *x = &h->structures[s];
		index[slot] = x->prompts[MIN((int)(uniform(h, step, round, slot, 2) * x->nprompts), x->nprompts - 1)];
	}
	free(weights);
	free(now);
}

int history_replay(const struct history *h, int64_t step, int update, int n, const struct sft_example **out)
{
	int places = h->nfilled + h->o.npairs;
	if (!places) return 0;
	struct rng rng = {.seed = h->o.seed, .stream = 0x7265706c61790000 + ((uint64_t)step << 16) + (uint64_t)update};
	for (int i = 0; i < n; i++) {
		int place = (int)rng_below(&rng, (uint32_t)places);
		if (place >= h->nfilled) {
			out[i] = &h->o.pairs[place - h->nfilled];
			continue;
		}
		const struct structure *s = &h->structures[h->filled[place]];
		out[i] = &h->kept[s->kept[rng_below(&rng, (uint32_t)s->nkept)]].example;
	}
	return n;
}

int history_unique(const struct history *h) { return h->nkept; }

void history_metrics(const struct history *h, int64_t step, json_t *metrics)
{
	int tried = 0, solved = 0, hopeless = 0;
	double known = 0.5 * h->o.num_generations; /* answers that must still weigh for an estimate to mean something */
	/* Old answers weigh less at this step; a structure with too few of them is neither solved nor
	 * hopeless. */
	for (int i = 0; i < h->nstructures; i++) {
		struct tally t = tally_at(h, &h->structures[i].tally, step);
		tried += h->structures[i].tally.step > 0;
		if (t.success + t.failure < known) continue;
		solved += rate_of(&t) > 0.9;
		hopeless += rate_of(&t) < 0.1;
	}
	json_object_set_new(metrics, "prompts/structures", json_integer(h->nstructures));
	json_object_set_new(metrics, "prompts/tried", json_integer(tried));
	json_object_set_new(metrics, "prompts/solved", json_integer(solved));
	json_object_set_new(metrics, "prompts/hopeless", json_integer(hopeless));
	json_object_set_new(metrics, "replay/unique", json_integer(h->nkept));
	json_object_set_new(metrics, "replay/structures", json_integer(h->nfilled));
	/* Levels that are never drawn, having no weight, are left out. */
	for (int l = 0; l < LEVELS_MAX; l++) {
		char key[32];
		struct tally t = tally_at(h, &h->levels[l], step);
		if (h->o.level_weights[l] <= 0) continue;
		snprintf(key, sizeof key, "levels/%d/rate", l);
		json_object_set_new(metrics, key, json_real(rate_of(&t)));
		snprintf(key, sizeof key, "levels/%d/admitted", l);
		json_object_set_new(metrics, key, json_integer(level_is_admitted(h, step, l)));
	}
}
