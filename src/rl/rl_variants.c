/* Variants: kernels that were found for a task before, shown beside one another with their costs,
 * so that a policy can see what makes the difference. */
#include "rl/rl.h"
#include "agent/agent.h"
#include "base/base.h"
#include "store/store.h"
#include "text/text.h"
#include "verify/verdict.h"

#include <math.h>
#include <stdlib.h>

/* ---- which ones ---- */

/* Times closer than this are one time: the cost model's own granularity. */
#define SAME_TIME 1.02

static int by_cost(const void *a, const void *b)
{
	const struct prompt_variant *x = a, *y = b;
	if (x->cost_s != y->cost_s) return (x->cost_s > y->cost_s) - (x->cost_s < y->cost_s);
	return strcmp(x->source, y->source);
}

static void swap(struct prompt_variant *a, struct prompt_variant *b)
{
	struct prompt_variant t = *a;
	*a = *b;
	*b = t;
}

int variants_choose(struct prompt_variant *v, int n, int most)
{
	int apart = 0;
	if (n == 0 || most < 1) return 0;
	qsort(v, (size_t)n, sizeof *v, by_cost);
	/* Those whose times differ, fastest first. */
	for (int i = 0; i < n; i++)
		if (apart == 0 || v[i].cost_s > SAME_TIME * v[apart - 1].cost_s) swap(&v[apart++], &v[i]);
	/* Evenly spread ranks; a rank never lies below its place, so none is
	 * overwritten before it is taken. */
	int count = MIN(apart, most);
	for (int k = 0; k < count && apart > most; k++) {
		int rank = most == 1 ? 0 : (int)(((int64_t)k * (apart - 1) + (most - 1) / 2) / (most - 1));
		swap(&v[k], &v[rank]);
	}
	for (int i = 0; i < count / 2; i++) swap(&v[i], &v[count - 1 - i]);
	return count;
}

/* ---- where from ---- */

struct gather {
	struct prompt_set *set;
	json_t *places; /* task name -> row */
	json_t *timed;  /* task name -> sizes and card of its first kernel's time */
	json_t *seen;   /* hash of task and kernel -> true */
	struct err err; /* of the store's callback */
};

/* Times of other sizes, or of another card, put no kernel before another: a task's are those that
 * are timed as its first one is. */
static bool is_timed_alike(struct gather *g, const char *task, const struct verdict *v)
{
	char here[sizeof v->cost_size + sizeof v->gpu];
	snprintf(here, sizeof here, "%s\n%s", v->cost_size, v->gpu);
	const char *first = json_string_value(json_object_get(g->timed, task));
	if (!first) json_object_set_new(g->timed, task, json_string(here));
	return !first || !strcmp(first, here);
}

static int row_take(struct gather *g, const json_t *row, struct err *err)
{
	const char *task, *answer, *stage = "";
	struct verdict v;
	int rc = json_opt_str(row, "sample", "stage", &stage, err);
	if (!rc && !strcmp(stage, "final")) return 0; /* a best kernel's verdict once more: its answer stands above */
	if (!rc) rc = json_get_str(row, "sample", "task", &task, err);
	if (!rc) rc = json_get_str(row, "sample", "answer", &answer, err);
	const json_t *place = rc ? NULL : json_object_get(g->places, task);
	if (!place) return rc;
	if ((rc = verdict_from_json(json_object_get(row, "verdict"), &v, err))) return rc;
	struct answer a = answer_parse(answer, strlen(answer));
	if (v.class != VERDICT_GENUINE || !(v.cost_s > 0) || !a.well_formed || strstr(answer, "\xef\xbf\xbd")) return 0;
	if (!is_timed_alike(g, task, &v)) return 0;
	/* One kernel once. */
	const struct slice parts[2] = {{task, strlen(task)}, {answer + a.code_begin, a.code_end - a.code_begin}};
	struct sha256_hex hash = hash_parts(parts, 2);
	if (json_object_get(g->seen, hash.text)) return 0;
	json_object_set_new(g->seen, hash.text, json_true());
	struct prompt_row *p = &g->set->rows[json_integer_value(place)];
	if ((p->nvariants & (p->nvariants - 1)) == 0)
		p->variants = xrealloc(p->variants, size_mul((size_t)MAX(1, 2 * p->nvariants), sizeof *p->variants));
	struct prompt_variant *out = &p->variants[p->nvariants++];
	*out = (struct prompt_variant){.cost_s = v.cost_s, .launches = v.launches, .bytes = v.bytes};
	snprintf(out->limit, sizeof out->limit, "%s", v.limit);
	out->source = xmalloc(parts[1].len + 1);
	memcpy(out->source, parts[1].data, parts[1].len);
	out->source[parts[1].len] = 0;
	return 0;
}

static int file_row(void *ctx, const json_t *row, const char *where, struct err *err)
{
	int rc = row_take(ctx, row, err);
	return rc ? err_prefix(err, "%s", where) : 0;
}

static int store_row(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct gather *g = ctx;
	int rc = row_take(g, row, &g->err);
	return rc ? err_prefix(&g->err, "step %lld, answer %lld", (long long)step, (long long)index) : 0;
}

static int store_take(struct gather *g, const char *path, struct err *err)
{
	struct store *s = NULL;
	json_t *runs = NULL, *run;
	size_t i;
	int rc = store_open_existing(path, &s, err);
	if (!rc) rc = store_runs(s, &runs, err);
	json_array_foreach(runs, i, run)
	{
		if (!rc) rc = store_samples_each(s, json_integer_value(json_object_get(run, "id")), store_row, g, err);
		if (rc && g->err.code) *err = g->err;
	}
	json_decref(runs);
	store_close(s);
	return rc;
}

/* A run folder or a store, else a file of rows. */
static int from_take(struct gather *g, const char *from, struct err *err)
{
	int rc = jsonl_is_name(from) ? jsonl_each(from, JSONL_LINE_MAX, file_row, g, err) : store_take(g, from, err);
	return rc ? err_prefix(err, "--variants_from") : 0;
}

void variants_release(struct prompt_row *r)
{
	for (int i = 0; i < r->nvariants; i++) free(r->variants[i].source);
	free(r->variants);
	r->variants = NULL;
	r->nvariants = 0;
}

int variants_attach(struct prompt_set *s, const struct option_list *from, int most, struct err *err)
{
	struct gather g = {.set = s, .places = json_object(), .timed = json_object(), .seen = json_object()};
	int rc = from && from->count ? 0 : err_set(err, ERR_USAGE, "--variants: name runs or rows with --variants_from");
	for (size_t i = 0; i < s->count; i++)
		json_object_set_new(g.places, s->rows[i].task.name, json_integer((json_int_t)i));
	for (int i = 0; !rc && i < from->count; i++) rc = from_take(&g, from->items[i], err);
	/* What is not shown goes. */
	for (size_t i = 0; i < s->count; i++) {
		struct prompt_row *r = &s->rows[i];
		int kept = variants_choose(r->variants, r->nvariants, most);
		for (int k = kept; k < r->nvariants; k++) free(r->variants[k].source);
		r->nvariants = kept;
	}
	json_decref(g.places);
	json_decref(g.timed);
	json_decref(g.seen);
	return rc;
}
