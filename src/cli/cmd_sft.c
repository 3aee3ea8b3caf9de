/* hone sft: supervised fine-tuning on pairs (their format: train.h's sft_data_load).
 *
 * The run folder holds checkpoint-N/ (to continue), best/ (lowest held-out loss, when asked for),
 * metrics.jsonl, hone.db and final/. Started by torchrun or srun several processes share each
 * step's micro-batches; rank 0 alone has the folder. */
#include "cli/sft.h"
#include "cli/cli.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "train/train.h"

#include <errno.h>
#include <stdlib.h>

#define S(field, help, choices) { #field, OPTION_STR, offsetof(struct sft_cmd, field), help, choices }
#define I(field, help, range) { #field, OPTION_INT, offsetof(struct sft_cmd, field), help, range }
#define F(field, help, range) { #field, OPTION_FLOAT, offsetof(struct sft_cmd, field), help, range }
#define B(field, help) { #field, OPTION_BOOL, offsetof(struct sft_cmd, field), help, NULL }
const struct option_def sft_option_defs[] = {
	POLICY_MODEL_OPTION(sft_cmd),
	POLICY_ADAPTER_OPTION(sft_cmd, "PEFT adapter folder to start from; default: a fresh adapter"),
	S(data, "pairs: .jsonl or .jsonl.gz with prompt, completion, optional split", NULL),
	S(output_dir, "run folder: checkpoints, metrics.jsonl, final/", NULL),
	S(store, "SQLite file for metrics; default: <output_dir>/hone.db", NULL),
	POLICY_LORA_OPTIONS(sft_cmd),
	I(max_tokens, "packed tokens per micro-batch; longer examples are refused", PASS_TOKENS_RANGE),
	I(gradient_accumulation_steps,
		"micro-batches per optimiser step, of all ranks together; a multiple of their number", "1 to 1048576"),
	OPTIMIZER_OPTIONS(sft_cmd),
	F(num_train_epochs, "passes over the data; 0: no limit", "0 to 100000"),
	I(max_steps, "optimiser steps; 0: no limit", "0 to 1000000000"),
	F(max_seconds, "stop after this wall time; 0: off", "0 or more"),
	I(save_steps, "checkpoint every N steps; 0: only at the end", "0 or more"),
	I(save_total_limit, "checkpoints kept; 0: all", "0 to 1048576"),
	I(eval_steps, "loss on dev rows every N steps; 0: only at the end", "0 or more"),
	I(logging_steps, "metrics every N steps", "1 to 1000000000"),
	B(stop_at_eval_minimum, "stop when the loss on dev rows turns, and keep the best weights"),
	I(patience, "evaluations without improvement before stopping", "1 to 1000000000"),
	I(seed, "of order, dropout and the adapter's first weights", NULL),
	POLICY_DEVICE_OPTIONS(sft_cmd),
	RANKS_OPTIONS(sft_cmd),
	B(dry_run, "print token counts, steps and the memory plan, and stop; needs neither weights nor the device"),
	OPTIONS_NEED("patience", "stop_at_eval_minimum"),
};
const size_t sft_option_count = ARRAY_LEN(sft_option_defs);

const struct sft_cmd sft_defaults = {
	.policy = {.device = "cpu", .use_peft = true, .lora_r = 16, .lora_alpha = 32},
	.max_tokens = 4096,
	.gradient_accumulation_steps = 1,
	.num_train_epochs = 3,
	.seed = 42,
	.optimizer = {.learning_rate = 2e-4,
		.lr_scheduler_type = "linear",
		.adam_beta1 = 0.9,
		.adam_beta2 = 0.999,
		.adam_epsilon = 1e-8,
		.max_grad_norm = 1},
	.ranks = RANKS_DEFAULTS,
	.save_steps = 500,
	.save_total_limit = 2,
	.eval_steps = 100,
	.patience = 3,
	.logging_steps = 10,
};

/* ---- metrics ---- */

struct run {
	const struct sft_cmd *o;
	struct ranks *ranks; /* NULL: this process is alone */
	struct policy policy;
	struct ops described;  /* in place of the policy's, of a dry run */
	const struct ops *ops; /* that the plan is of */
	size_t room;           /* bytes that it may count on; 0: not known */
	struct sft_data data;
	struct sft_options sft;
	struct store *store;
	int64_t store_run;
	char *metrics_path;
	struct progress progress;
	bool has_started;
	int64_t total_steps;
	struct err err; /* of the metrics callback */
};

/* A continued run does steps again that an earlier one had logged: their lines go. */
static int metrics_truncate(const char *path, int64_t first_step, struct err *err)
{
	struct str old = {0}, kept = {0};
	int rc = path_exists(path) ? file_read(path, 1 << 30, &old, err) : 0;
	for (const char *s = old.data, *end; !rc && s && *s && (end = strchr(s, '\n'));
		s = end + 1) { /* a last line without its end was cut by a kill */
		json_t *row = NULL;
		int64_t step = 0;
		if (!json_parse(s, (size_t)(end - s), path, &row, NULL) &&
			!json_get_int(row, path, "step", 0, INT64_MAX, &step, NULL) && step < first_step)
			str_append(&kept, s, (size_t)(end - s) + 1);
		json_decref(row);
	}
	if (!rc) rc = file_write_atomic(path, kept.data ? kept.data : "", kept.len, err);
	str_release(&old);
	str_release(&kept);
	return rc;
}

static int metrics_append(const char *path, int64_t step, const json_t *metrics, struct err *err)
{
	json_t *row = json_copy((json_t *)(uintptr_t)metrics);
	json_object_set_new(row, "step", json_integer(step));
	char *text = json_dumps(row, JSON_SORT_KEYS | JSON_COMPACT);
	FILE *f = fopen(path, "a");
	int rc = f && fprintf(f, "%s\n", text) > 0 ? 0
											   : err_set(err, ERR_IO, "%s: cannot append: %s", path, strerror(errno));
	if (f && fclose(f) && !rc) rc = err_set(err, ERR_IO, "%s: cannot append: %s", path, strerror(errno));
	free(text);
	json_decref(row);
	return rc;
}

static int run_begin(struct run *r, int64_t step, struct err *err)
{
	int rc = metrics_truncate(r->metrics_path, step, err);
	if (!rc) rc = store_run_truncate(r->store, r->store_run, step - 1, err);
	r->has_started = true;
	return rc;
}

static void note(const json_t *m, char *text, size_t len)
{
	const json_t *eval = json_object_get(m, "eval_loss");
	int n = snprintf(text, len, "loss %.4f  norm %.2f  lr %.2e", json_number_value(json_object_get(m, "loss")),
		json_number_value(json_object_get(m, "grad_norm")), json_number_value(json_object_get(m, "learning_rate")));
	if (eval) snprintf(text + n, len - (size_t)n, "  held-out %.4f", json_number_value(eval));
}

static int on_metrics(void *ctx, int64_t step, const json_t *m)
{
	struct run *r = ctx;
	char text[200];
	int rc = r->has_started ? 0 : run_begin(r, step, &r->err);
	if (!rc) rc = metrics_append(r->metrics_path, step, m, &r->err);
	if (!rc) rc = store_metrics_put(r->store, r->store_run, step, m, &r->err);
	note(m, text, sizeof text);
	progress_update(&r->progress, step, text);
	if (json_object_get(m, "eval_loss")) log_info("step %lld  %s", (long long)step, text);
	return rc;
}

/* ---- the run ---- */

static int options_check(const struct sft_cmd *o, struct err *err)
{
	if (!o->policy.model || !o->data || (!o->output_dir && !o->dry_run))
		return err_set(err, ERR_USAGE, "--model, --data and --output_dir are needed");
	if (o->policy.adapter && !o->policy.use_peft)
		return err_set(err, ERR_USAGE, "--adapter and --no-use_peft exclude each other");
	return 0;
}

static struct sft_options sft_options_of(const struct sft_cmd *o)
{
	/* The ranges in the option table let each of the narrowed numbers fit an int. */
	return (struct sft_options){
		.optimizer = o->optimizer,
		.max_tokens = (int)o->max_tokens,
		.gradient_accumulation_steps = (int)o->gradient_accumulation_steps,
		.max_steps = o->max_steps,
		.num_train_epochs = o->num_train_epochs,
		.max_seconds = o->max_seconds,
		.save_steps = o->save_steps,
		.save_total_limit = (int)o->save_total_limit,
		.eval_steps = o->eval_steps,
		.stop_at_eval_minimum = o->stop_at_eval_minimum,
		.patience = (int)o->patience,
		.logging_steps = (int)o->logging_steps,
		.seed = (uint64_t)o->seed,
		.output_dir = o->output_dir,
	};
}

static bool is_first(const struct run *r) { return ranks_is_first(&r->o->ranks); }

/* A dry run has config, tokenizer and sizes: neither weights nor the device are needed. */
static int describe_policy(struct run *r, struct err *err)
{
	struct policy_options p = r->o->policy;
	p.text_only = true;
	r->ops = &r->described;
	int rc = policy_describe(&p, &r->described, &r->room, err);
	if (!rc) rc = policy_open(&p, &r->policy, err);
	return rc ? rc : policy_check(&p, &r->policy.config, r->ops, err);
}

static int open_policy(struct run *r, struct err *err)
{
	struct policy_options p = r->o->policy;
	char *device = ranks_device(r->ranks, p.device);
	p.lora_seed = (uint64_t)r->o->seed;
	p.device = device;
	int rc = policy_open(&p, &r->policy, err);
	free(device);
	r->ops = r->policy.ops;
	r->room = r->policy.room;
	return rc ? rc : ranks_join(r->ranks, r->policy.ops, err);
}

static int open_all(struct run *r, struct err *err)
{
	struct sft_data *d = &r->data;
	int rc = r->o->dry_run ? describe_policy(r, err) : open_policy(r, err);
	if (!rc) rc = sft_data_load(r->o->data, &r->policy, (int)r->o->max_tokens, d, err);
	if (rc) return rc;
	if (d->too_long && is_first(r))
		log_warn("%lld %s longer than max_tokens %lld or the model's positions and %s refused", (long long)d->too_long,
			plural(d->too_long, "example is", "examples are"), (long long)r->o->max_tokens,
			plural(d->too_long, "was", "were"));
	if (d->other_splits && is_first(r))
		log_info("%lld %s left alone", (long long)d->other_splits,
			plural(d->other_splits, "row of other splits was", "rows of other splits were"));
	r->total_steps = sft_total_steps(d->train.v, d->train.count, &r->sft);
	return sft_check(
		d->train.v, d->train.count, d->heldout.v, d->heldout.count, &r->sft, ranks_planned(&r->o->ranks), err);
}

static struct training_plan training_plan_of(const struct run *r)
{
	return (struct training_plan){.adapter_rank = policy_rank(&r->o->policy),
		.target_modules = r->o->policy.lora_target_modules,
		.pass = {.max_tokens = r->sft.max_tokens, .backward = true, .recompute = r->sft.recompute}};
}

static struct device_plan device_plan_of(const struct run *r, const struct training_plan *t)
{
	return (struct device_plan){
		.pass = t->pass, .passes = 1, .adapter_rank = t->adapter_rank, .ranks = ranks_planned(&r->o->ranks)};
}

static void memory_plan(const struct run *r, struct memory_plan *out)
{
	const struct model_config *c = &r->policy.config;
	struct training_plan t = training_plan_of(r);
	struct device_plan d = device_plan_of(r, &t);
	*out = (struct memory_plan){0};
	plan_training(out, r->ops, c, &t);
	plan_device(out, r->ops, c, &d);
}

static int rows_check(const struct run *r, struct err *err)
{
	struct training_plan t = training_plan_of(r);
	struct device_plan d = device_plan_of(r, &t);
	return plan_rows_check(r->ops, &r->policy.config, &d, err);
}

static bool fits(void *ctx, int64_t max_tokens)
{
	struct run *r = ctx;
	struct memory_plan m;
	struct err quiet;
	r->sft.max_tokens = (int)max_tokens;
	memory_plan(r, &m);
	return plan_total(&m) <= r->room && !rows_check(r, &quiet);
}

/* At most, in a micro-batch; below 2: none fits. */
static int64_t tokens_fitting(struct run r) { return plan_largest(2, r.sft.max_tokens, fits, &r); }

/* What to change where the plan does not fit: shorter micro-batches, or what learns and its model
 * where nothing is short enough. */
static void advice_make(struct run r, char *text, size_t len)
{
	struct sft_cmd adapted = *r.o;
	struct run other = r;
	int64_t tokens = tokens_fitting(r);
	adapted.policy.use_peft = true;
	other.o = &adapted;
	if (tokens >= 2)
		snprintf(text, len, "with --max_tokens %lld it fits; longer examples are refused then", (long long)tokens);
	else if (policy_rank(&r.o->policy) || tokens_fitting(other) < 2)
		snprintf(text, len, "a lower --max_tokens does not help: take a smaller model or more memory");
	else
		snprintf(text, len,
			"a lower --max_tokens does not help, for all weights are trained: train an adapter (--use_peft), take a "
			"smaller model or more memory");
}

/* Prints what is trained on and the memory that it takes (to NULL: nothing); norms and gates are
 * computed again in backward where it would not fit otherwise. */
static int plan(struct run *r, FILE *to, struct err *err)
{
	const struct sft_cmd *o = r->o;
	const struct model_config *c = &r->policy.config;
	struct training_plan t = training_plan_of(r);
	struct memory_plan m;
	const char *room_of = policy_room_name(&o->policy, r->ops, r->room);
	char advice[200] = "";
	memory_plan(r, &m);
	r->sft.recompute = r->room && plan_total(&m) > r->room;
	if (r->sft.recompute) memory_plan(r, &m);
	if (r->room && plan_total(&m) > r->room) advice_make(*r, advice, sizeof advice);
	int rc = plan_check(&m, room_of, r->room, advice, err);
	if (!rc) rc = rows_check(r, err);
	if (!to) return rc;
	fprintf(to, "train %zu %s, %lld %s, %lld of completions; held-out %zu; refused %lld; other splits %lld\n",
		r->data.train.count, plural((int64_t)r->data.train.count, "example", "examples"),
		(long long)r->data.train.tokens, plural(r->data.train.tokens, "token", "tokens"),
		(long long)r->data.train.completion_tokens, r->data.heldout.count, (long long)r->data.too_long,
		(long long)r->data.other_splits);
	if (r->total_steps == INT64_MAX) fprintf(to, "steps: until max_seconds %g\n", o->max_seconds);
	else fprintf(to, "steps: %lld\n", (long long)r->total_steps);
	/* An adapter of a folder may leave projections out. */
	fprintf(to, "parameters: %lld, trained %s%lld\nmemory:\n", (long long)model_config_params(c),
		o->policy.adapter ? "at most " : "", (long long)plan_trained(r->ops, c, &t));
	plan_print(&m, room_of, r->room, to);
	return rc;
}

static int store_begin_run(struct run *r, struct err *err)
{
	char *path = r->o->store ? xstrdup(r->o->store) : path_join(r->o->output_dir, "hone.db");
	json_t *config = options_json(sft_option_defs, sft_option_count, r->o);
	int rc = dir_make(r->o->output_dir, err);
	if (!rc) rc = store_open(path, &r->store, err);
	/* A store that several runs share knows each by its folder, wherever hone was started. */
	char *name = path_real(r->o->output_dir);
	if (!rc) rc = store_run_open(r->store, name, config, &r->store_run, err);
	json_decref(config);
	free(name);
	free(path);
	return rc;
}

static int train_run(struct run *r, struct err *err)
{
	return sft_run(r->policy.model, r->policy.adapter, r->data.train.v, r->data.train.count, r->data.heldout.v,
		r->data.heldout.count, &r->sft, on_metrics, r, err);
}

/* The run of rank 0: the folder, the store and what is printed are its. */
static int train(struct run *r, struct err *err)
{
	char *final = path_join(r->o->output_dir, "final");
	r->metrics_path = path_join(r->o->output_dir, "metrics.jsonl");
	int rc = store_begin_run(r, err);
	if (!rc) rc = run_folder_claim(r->o->output_dir, err);
	if (!rc) {
		progress_begin(&r->progress, "sft", "steps", r->total_steps == INT64_MAX ? 0 : r->total_steps);
		rc = train_run(r, err);
		progress_end(&r->progress);
	}
	if (!rc && r->err.code) {
		*err = r->err;
		rc = err->code;
	}
	if (!rc) rc = policy_save(&r->policy, r->o->policy.model, final, err);
	if (!rc) printf("%s\n", final);
	free(final);
	free(r->metrics_path);
	return rc;
}

/* Settings that the checkpoint's weights do not show: they fit under other adapters, and on other
 * devices, whose bits are others. Which GPU it is does not matter here: algorithms.json tells. */
static json_t *fixed_settings(const struct policy_options *o)
{
	return json_pack("{s:b, s:I, s:f, s:f, s:s?, s:s}", "use_peft", o->use_peft, "lora_r", (json_int_t)o->lora_r,
		"lora_alpha", o->lora_alpha, "lora_dropout", o->lora_dropout, "lora_target_modules", o->lora_target_modules,
		"device", strncmp(o->device, "cuda", 4) ? o->device : "cuda");
}

int sft_command(const struct sft_cmd *o, struct err *err)
{
	struct run r = {.o = o};
	int rc = options_check(o, err);
	if (!rc && !o->dry_run) rc = ranks_open(&o->ranks, &r.ranks, err);
	r.sft = sft_options_of(o);
	r.sft.fixed = fixed_settings(&o->policy);
	r.sft.ranks = r.ranks;
	if (!rc) rc = open_all(&r, err);
	if (!rc) rc = plan(&r, !is_first(&r) ? NULL : o->dry_run ? stdout : stderr, err);
	if (!rc && !o->dry_run) rc = is_first(&r) ? train(&r, err) : train_run(&r, err);
	if (!rc) rc = ranks_meet(r.ranks, err);
	ranks_close(r.ranks, rc ? err : NULL);
	json_decref(r.sft.fixed);
	store_close(r.store);
	sft_data_release(&r.data);
	policy_close(&r.policy);
	return rc;
}

int cmd_sft(int argc, char **argv)
{
	struct sft_cmd o = sft_defaults;
	struct err err = {0};
	int npos;
	int rc = options_parse(
		"sft", "train on pairs of prompt and answer", sft_option_defs, sft_option_count, &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc) rc = sft_command(&o, &err);
	return rc ? cli_fail("sft", &err) : 0;
}
