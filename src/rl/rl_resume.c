/* What a run folder remembers. A second start with other settings would mix two runs in one folder
 * and call the result a continuation, so settings.json is compared before any checkpoint is loaded.
 * Paths are the same as they are written or where they lead to the same place, contents by hashes:
 * the prompts and pairs in full, the weights by their fingerprint. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "train/train.h"

#include <stdlib.h>

/* A run may be continued in another place, for longer, saving more often, on more threads: none of
 * these changes what a step computes. */
static const char *const free_options[] = {"output_dir", "store", "max_steps", "max_seconds", "save_steps",
	"save_total_limit", "threads", "cuda_libs", "memory", "verify_threads", "dry_run", "policy_timeout",
	"policy_requests", "ranks_port", "ranks_timeout", "ranks_transport"};

static json_t *prompts_hash(const struct prompt_set *s)
{
	struct str bytes = {0};
	for (size_t i = 0; i < s->count; i++) {
		const struct prompt_row *r = &s->rows[i];
		str_append(&bytes, r->task.name, strlen(r->task.name) + 1);
		str_append(&bytes, r->task.source, strlen(r->task.source) + 1);
		str_append(&bytes, &r->ids.count, sizeof r->ids.count);
		str_append(&bytes, r->ids.data, r->ids.count * sizeof *r->ids.data);
		if (!r->ids.count) str_append(&bytes, r->text, strlen(r->text) + 1);
	}
	struct sha256_hex h = hash_bytes(bytes.data ? bytes.data : "", bytes.len);
	str_release(&bytes);
	return json_string(h.text);
}

static json_t *pairs_hash(const struct sft_examples *e)
{
	struct str bytes = {0};
	for (size_t i = 0; i < e->count; i++) {
		const struct sft_example *x = &e->v[i];
		str_append(&bytes, &x->count, sizeof x->count);
		str_append(&bytes, &x->completion_begin, sizeof x->completion_begin);
		str_append(&bytes, x->ids, (size_t)x->count * sizeof *x->ids);
	}
	struct sha256_hex h = hash_bytes(bytes.data ? bytes.data : "", bytes.len);
	str_release(&bytes);
	return json_string(h.text);
}

json_t *rl_settings_json(const struct loop *l)
{
	const struct rl_options *o = l->o;
	json_t *j = options_json(rl_option_defs, rl_option_count, o),
		   *max_steps = json_incref(json_object_get(j, "max_steps"));
	for (size_t i = 0; i < ARRAY_LEN(free_options); i++) json_object_del(j, free_options[i]);
	if (strncmp(o->optimizer.lr_scheduler_type, "constant", 8))
		json_object_set(j, "max_steps", max_steps); /* a schedule that ends depends on its end */
	json_decref(max_steps);
	json_object_set_new(j, "ranks", json_integer(ranks_count(l->ranks))); /* sums have their order */
	/* What stands in the files that options name, as far as a step or the choice of the
	 * best one depends on it. */
	json_object_set_new(j, "prompts", prompts_hash(&l->prompts));
	if (o->eval_steps > 0) json_object_set_new(j, "dev", prompts_hash(&l->dev));
	if (o->num_turns > 1)
		json_object_set_new(j, "turns", json_string(hash_bytes(l->turn_template.data, l->turn_template.len).text));
	if (o->replay_pairs) json_object_set_new(j, "pairs", pairs_hash(&l->pairs.train));
	if (l->policy.model)
		json_object_set_new(j, "weights", json_string(weights_fingerprint(l->policy.model, l->policy.adapter).text));
	return j;
}

static int mismatch(const char *dir, const char *key, const json_t *was, const json_t *is, struct err *err)
{
	const size_t form = JSON_ENCODE_ANY | JSON_AS_WRITTEN;
	char *old = was ? json_dumps(was, form) : NULL, *now = is ? json_dumps(is, form) : NULL;
	const char *what = !strcmp(key, "prompts") ? "prompts (hash of the rendered tasks)"
		: !strcmp(key, "dev")                  ? "dev (hash of the rendered dev tasks)"
		: !strcmp(key, "turns")                ? "turns (hash of the text of turn_template)"
		: !strcmp(key, "weights")              ? "weights (hash of the model and adapter at the start)"
		: !strcmp(key, "pairs")                ? "pairs (hash of the rows of replay_pairs)"
		: !strcmp(key, "ranks")                ? "ranks (processes of the job)"
											   : key;
	err_set(err, ERR_MISMATCH,
		"%s holds a run that was started with %s %s, now it is %s; continue with the recorded value or choose another "
		"--output_dir",
		dir, what, old ? old : "absent", now ? now : "absent");
	free(old);
	free(now);
	return ERR_MISMATCH;
}

/* The same value, or two ways to write the path of one file or folder: what is in it is compared by
 * its hash. */
static bool is_same(const json_t *was, const json_t *is)
{
	if (json_equal(was, is)) return true;
	if (json_is_array(was) && json_is_array(is) && json_array_size(was) == json_array_size(is)) {
		bool same = true;
		for (size_t i = 0; i < json_array_size(is); i++)
			same = same && is_same(json_array_get(was, i), json_array_get(is, i));
		return same;
	}
	const char *a = json_string_value(was), *b = json_string_value(is);
	if (!a || !b || !path_exists(a) || !path_exists(b)) return false;
	char *from = path_real(a), *to = path_real(b);
	bool same = !strcmp(from, to);
	free(from);
	free(to);
	return same;
}

static int settings_compare(const char *dir, const json_t *was, json_t *is, struct err *err)
{
	static const char *const hashes[] = {"prompts", "dev", "turns", "pairs",
		"weights"}; /* after the options: a changed path says more than a changed hash */
	const char *key;
	json_t *v;
	json_object_foreach(is, key, v)
	{
		bool is_hash = false;
		for (size_t i = 0; i < ARRAY_LEN(hashes); i++) is_hash = is_hash || !strcmp(key, hashes[i]);
		const json_t *old = json_object_get(was, key);
		bool is_newer = !old && json_is_null(v); /* an option that the run did not know, and that is not set */
		if (!is_hash && !is_newer && !is_same(old, v)) return mismatch(dir, key, old, v, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(hashes); i++) {
		json_t *a = json_object_get(was, hashes[i]), *b = json_object_get(is, hashes[i]);
		if ((a || b) && !json_equal(a, b)) return mismatch(dir, hashes[i], a, b, err);
	}
	return 0;
}

int rl_settings_settle(const char *output_dir, int64_t steps, json_t *settings, struct err *err)
{
	char *path = path_join(output_dir, "settings.json");
	bool has_checkpoint = steps > 0 && path_exists(path);
	json_t *recorded = NULL;
	int rc = steps >= 0 ? 0 : checkpoint_exists(output_dir, &has_checkpoint, err);
	if (!rc && !has_checkpoint) rc = json_save(path, settings, err);
	else if (!rc && !path_exists(path))
		rc = err_set(err, ERR_MISMATCH,
			"%s has checkpoints but no settings.json: they are not of `hone rl`; choose another --output_dir",
			output_dir);
	else if (!rc) {
		rc = json_load(path, 1 << 20, &recorded, err);
		if (!rc) rc = settings_compare(output_dir, recorded, settings, err);
	}
	json_decref(recorded);
	free(path);
	return rc;
}

/* ---- metrics.jsonl ---- */

static void put_row(struct str *out, const json_t *row)
{
	char *line = json_dumps(row, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9));
	str_puts(out, line);
	str_putc(out, '\n');
	free(line);
}

struct copy {
	struct str text;
	int64_t rows;
};

static int copy_row(int64_t step, int64_t index, const json_t *row, void *ctx)
{
	struct copy *c = ctx;
	put_row(&c->text, row);
	c->rows++;
	return 0;
}

int rl_metrics_open(
	const char *output_dir, struct store *s, int64_t run, int64_t last_step, FILE **out, struct err *err)
{
	char *path = path_join(output_dir, "metrics.jsonl");
	struct copy c = {0};
	int rc = store_metrics_each(s, run, copy_row, &c, err);
	if (!rc && c.rows != last_step)
		rc = err_set(err, ERR_MISMATCH,
			"%s: the checkpoint is at step %lld, the store has %lld steps of a run of this name; give the --output_dir "
			"and --store "
			"that the run was started with",
			output_dir, (long long)last_step, (long long)c.rows);
	if (!rc) rc = file_write_atomic(path, c.text.data ? c.text.data : "", c.text.len, err);
	if (!rc && !(*out = fopen(path, "a"))) rc = err_set(err, ERR_IO, "%s: cannot be opened for appending", path);
	str_release(&c.text);
	free(path);
	return rc;
}

void rl_metrics_put(FILE *f, const json_t *row)
{
	struct str line = {0};
	put_row(&line, row);
	fputs(line.data, f); /* a line that is lost here is in the store, and written at the next start */
	fflush(f);
	str_release(&line);
}
