/* Checkpoints: a folder checkpoint-<step> with weights (model or adapter, in Hugging Face's and
 * PEFT's formats), optimizer.safetensors and trainer_state.json. It is written under another name,
 * every file and the folder are synced, and then it is renamed: after kill -9 there is the whole
 * folder or none. Nothing in it depends on time or place, so equal runs have equal bytes. */
#include "train/train_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static const char prefix[] = "checkpoint-";

/* ---- folders ---- */

static int folder_sync(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd)) {
		int e = errno;
		if (fd >= 0) close(fd);
		return err_set(err, ERR_IO, "%s: cannot sync the folder: %s", path, strerror(e));
	}
	close(fd);
	return 0;
}

static int parent_sync(const char *path, struct err *err)
{
	char *parent = path_folder(path);
	int rc = folder_sync(parent, err);
	free(parent);
	return rc;
}

int folder_publish(const char *tmp, const char *final, struct err *err)
{
	bool replaces = path_exists(final);
	int rc = folder_sync(tmp, err);
	if (!rc && renameat2(AT_FDCWD, tmp, AT_FDCWD, final, replaces ? RENAME_EXCHANGE : 0))
		rc = err_set(err, ERR_IO, "%s: cannot rename to %s: %s", tmp, final, strerror(errno));
	if (!rc) rc = parent_sync(final, err);
	if (!rc && replaces) rc = dir_remove(tmp, err); /* now the old one */
	return rc;
}

int run_folder_claim(const char *run_dir, struct err *err)
{
	char *final = path_join(run_dir, "final");
	int rc = dir_claim(run_dir, err);
	if (!rc) rc = dir_clean(run_dir, err);
	if (!rc && path_exists(final)) rc = dir_clean(final, err);
	free(final);
	return rc;
}

/* ---- which there are ---- */

struct steps {
	int64_t *v;
	size_t n;
};

/* checkpoint-<digits> exactly: leftovers under other names are not checkpoints. */
static int steps_add(const char *name, void *ctx)
{
	struct steps *s = ctx;
	size_t digits = strspn(name + MIN(strlen(name), sizeof prefix - 1), "0123456789");
	if (strncmp(name, prefix, sizeof prefix - 1) || !digits || digits > 15 || name[sizeof prefix - 1 + digits])
		return 0;
	s->v = xrealloc(s->v, (s->n + 1) * sizeof *s->v);
	s->v[s->n++] = strtoll(name + sizeof prefix - 1, NULL, 10);
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x < y) - (x > y);
}

static int steps_list(const char *run_dir, struct steps *s, struct err *err)
{
	*s = (struct steps){0};
	int rc = path_exists(run_dir) ? dir_each(run_dir, steps_add, s, err) : 0;
	if (s->n) qsort(s->v, s->n, sizeof *s->v, newest_first);
	return rc;
}

int checkpoint_exists(const char *run_dir, bool *exists, struct err *err)
{
	struct steps s;
	int rc = steps_list(run_dir, &s, err);
	*exists = s.n > 0;
	free(s.v);
	return rc;
}

static char *step_path(const char *run_dir, int64_t step, const char *file)
{
	return xasprintf("%s/%s%lld%s%s", run_dir, prefix, (long long)step, file ? "/" : "", file ? file : "");
}

static int prune(const char *run_dir, int keep, struct err *err)
{
	struct steps s;
	int rc = steps_list(run_dir, &s, err);
	for (size_t i = (size_t)MAX(keep, 1); i < s.n && keep > 0 && !rc; i++) {
		char *path = step_path(run_dir, s.v[i], NULL);
		rc = dir_remove(path, err);
		free(path);
	}
	free(s.v);
	return rc;
}

/* ---- save ---- */

static int state_save(const char *dir, const struct optimizer *o, const struct checkpoint_state *s, struct err *err)
{
	char *path = path_join(dir, "trainer_state.json");
	json_t *j = json_pack("{s:I, s:I, s:I, s:O}", "global_step", (json_int_t)s->step, "optimizer_steps",
		(json_int_t)o->steps, "optimizer_updates", (json_int_t)o->updates, "extra", s->extra ? s->extra : json_null());
	int rc = json_save(path, j, err);
	json_decref(j);
	free(path);
	return rc;
}

/* What the device's libraries chose so far: a continued run shall compute with the same,
 * or know that it cannot. */
#define CHOICES_FILE "algorithms.json"

static int choices_save(const char *dir, struct ops *ops, struct err *err)
{
	json_t *j = ops->choices(ops->ctx);
	if (!j) return 0;
	char *path = path_join(dir, CHOICES_FILE);
	int rc = json_save(path, j, err);
	json_decref(j);
	free(path);
	return rc;
}

int checkpoint_save(const char *run_dir, struct model *m, struct adapter *a, const struct optimizer *o,
	const struct checkpoint_state *s, int keep, struct err *err)
{
	char *final = step_path(run_dir, s->step, NULL), *tmp = xasprintf("%s.tmp", final),
		 *moments = path_join(tmp, "optimizer.safetensors");
	int rc = path_exists(tmp) ? dir_remove(tmp, err) : 0;
	if (!rc) rc = dir_make(tmp, err);
	if (!rc) rc = a ? adapter_save(a, tmp, NULL, err) : model_save(m, tmp, err);
	if (!rc) rc = params_save(o->ops, o->moments, 2 * o->count, moments, err);
	if (!rc) rc = state_save(tmp, o, s, err);
	if (!rc) rc = choices_save(tmp, o->ops, err);
	if (!rc) rc = folder_publish(tmp, final, err);
	if (!rc) rc = prune(run_dir, keep, err);
	free(final);
	free(tmp);
	free(moments);
	return rc;
}

/* ---- load ---- */

static int state_load(const char *path, int64_t step, struct optimizer *o, struct checkpoint_state *s, struct err *err)
{
	json_t *j = NULL;
	int rc = json_load(path, 1 << 28, &j, err);
	if (!rc && !json_is_object(j)) rc = err_set(err, ERR_FORMAT, "%s: expected a JSON object", path);
	if (!rc) rc = json_get_int(j, path, "global_step", 0, INT64_MAX, &s->step, err);
	if (!rc && s->step != step)
		rc = err_set(err, ERR_FORMAT, "%s: global_step is %lld, its folder is of step %lld; take an earlier checkpoint",
			path, (long long)s->step, (long long)step);
	if (!rc) rc = json_get_int(j, path, "optimizer_steps", 0, INT64_MAX, &o->steps, err);
	if (!rc) rc = json_get_int(j, path, "optimizer_updates", 0, INT64_MAX, &o->updates, err);
	if (!rc) s->extra = json_incref(json_object_get(j, "extra"));
	json_decref(j);
	return rc;
}

static int choices_take(const char *checkpoint, const char *path, const json_t *j, struct ops *ops, struct err *err)
{
	int rc = j ? ops->choices_set(ops->ctx, j, err) : 0;
	if (!rc || rc != ERR_MISMATCH) return rc ? err_prefix(err, "%s", path) : 0;
	char why[sizeof err->text];
	snprintf(why, sizeof why, "%s", err->text);
	return err_set(err, ERR_MISMATCH,
		"%s cannot be continued here with the bits it would have had: %s; continue where it ran (--cuda_libs names the "
		"library's folder), or begin a new run from its weights with another --output_dir",
		checkpoint, why);
}

static int choices_load(const char *checkpoint, const char *path, struct ops *ops, json_t **choices, struct err *err)
{
	int rc = path_exists(path) ? json_load(path, 1 << 24, choices, err) : 0;
	return rc ? rc : choices_take(checkpoint, path, *choices, ops, err);
}

static int step_load(const char *run_dir, int64_t step, struct model *m, struct adapter *a, struct optimizer *o,
	struct checkpoint_state *s, json_t **chosen, struct err *err)
{
	int n;
	struct param *params = a ? adapter_params(a, &n) : model_params(m, &n);
	char *weights = step_path(run_dir, step, NULL);
	char *moments = step_path(run_dir, step, "optimizer.safetensors"),
		 *state = step_path(run_dir, step, "trainer_state.json"), *choices = step_path(run_dir, step, CHOICES_FILE);
	int rc = choices_load(weights, choices, o->ops, chosen, err);
	if (!rc) rc = params_load(o->ops, params, n, weights, err);
	if (!rc) rc = params_load(o->ops, o->moments, 2 * o->count, moments, err);
	if (!rc) rc = state_load(state, step, o, s, err);
	free(weights);
	free(moments);
	free(state);
	free(choices);
	return rc;
}

static int newest_load(const char *run_dir, struct model *m, struct adapter *a, struct optimizer *o,
	struct checkpoint_state *s, json_t **chosen, struct err *err)
{
	struct steps found;
	int rc = steps_list(run_dir, &found, err);
	if (!rc && !found.n) rc = err_set(err, ERR_NOT_FOUND, "%s holds no %s<step> folder", run_dir, prefix);
	if (!rc) rc = step_load(run_dir, found.v[0], m, a, o, s, chosen, err);
	/* A checkpoint that lacks something is no folder without one, from which a
	 * run would begin anew. */
	if (rc == ERR_NOT_FOUND && found.n) rc = err->code = ERR_FORMAT;
	free(found.v);
	return rc;
}

/* ---- what rank 0 has loaded, to the others ---- */

static int params_broadcast(struct ranks *ranks, struct ops *ops, struct param *params, int count, struct err *err)
{
	int rc = 0;
	struct str bytes = {0};
	for (int i = 0; !rc && i < count; i++) {
		size_t size = size_mul((size_t)params[i].count, sizeof(float));
		float *host = xmalloc(MAX(size, 1));
		if (ranks_rank(ranks) == 0) param_get(ops, &params[i], host);
		str_clear(&bytes);
		if (ranks_rank(ranks) == 0) str_append(&bytes, host, size);
		rc = ranks_broadcast(ranks, &bytes, err);
		if (!rc && bytes.len != size)
			rc = err_set(err, ERR_MISMATCH, "%s: %zu bytes from rank 0, expected %zu", params[i].name, bytes.len, size);
		if (!rc && ranks_rank(ranks)) {
			memcpy(host, bytes.data, size);
			param_put(ops, &params[i], host, DTYPE_F32);
		}
		free(host);
	}
	str_release(&bytes);
	return rc;
}

/* Counters, the loop's own state and the choices of libraries; without a checkpoint a null. */
static int state_broadcast(struct ranks *ranks, const char *run_dir, bool *is_there, struct optimizer *o,
	struct checkpoint_state *s, const json_t *chosen, struct err *err)
{
	struct str text = {0};
	json_t *j = !*is_there
		? json_null()
		: json_pack("{s:I, s:I, s:I, s:O?, s:O?}", "step", (json_int_t)s->step, "steps", (json_int_t)o->steps,
			  "updates", (json_int_t)o->updates, "extra", s->extra, "chosen", chosen);
	char *dump = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(j);
	str_puts(&text, dump);
	free(dump);
	/* Rank 0 has read the folder; the others take what it says, and null for no checkpoint. */
	int rc = ranks_broadcast(ranks, &text, err);
	if (!rc && ranks_rank(ranks)) {
		*is_there = strcmp(text.data, "null") != 0;
		rc = *is_there ? json_parse(text.data, text.len, "rank 0's checkpoint", &j, err) : 0;
		if (!rc && *is_there) {
			const json_t *choices = json_object_get(j, "chosen");
			s->step = json_integer_value(json_object_get(j, "step"));
			o->steps = json_integer_value(json_object_get(j, "steps"));
			o->updates = json_integer_value(json_object_get(j, "updates"));
			s->extra = json_incref(json_object_get(j, "extra"));
			rc = choices_take(run_dir, CHOICES_FILE, json_is_object(choices) ? choices : NULL, o->ops, err);
			json_decref(j);
		}
	}
	str_release(&text);
	return rc;
}

int checkpoint_load(const char *run_dir, struct model *m, struct adapter *a, struct optimizer *o, struct ranks *ranks,
	struct checkpoint_state *s, struct err *err)
{
	int n;
	json_t *chosen = NULL;
	struct param *params = a ? adapter_params(a, &n) : model_params(m, &n);
	int loaded = ranks_rank(ranks) ? 0 : newest_load(run_dir, m, a, o, s, &chosen, err), rc = 0;
	bool is_there = !loaded;
	/* A checkpoint that is there and cannot be read ends the job; that there is none is
	 * no error to the others. */
	if (ranks && (!loaded || loaded == ERR_NOT_FOUND)) {
		rc = state_broadcast(ranks, run_dir, &is_there, o, s, chosen, err);
		if (!rc && is_there) rc = params_broadcast(ranks, o->ops, params, n, err);
		if (!rc && is_there) rc = params_broadcast(ranks, o->ops, o->moments, 2 * o->count, err);
		if (!rc && !is_there && !loaded)
			loaded = err_set(err, ERR_NOT_FOUND, "rank 0 says: %s holds no %s<step> folder", run_dir, prefix);
	}
	json_decref(chosen);
	/* What was read before the error, or came from rank 0, is nobody's. */
	if (rc || loaded) {
		json_decref(s->extra);
		s->extra = NULL;
	}
	return rc ? rc : loaded;
}
