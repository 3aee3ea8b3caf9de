/* policy: opened from the ground up (device, weights, adapters, tokenizer, chat form), closed in
 * reverse. */
#include "policy/policy.h"
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/text.h"

/* The backend is told of every adapter to come: a GPU lays out its weights for the largest rank. */
static struct device_options device_options_of(
	const struct policy_options *o, const char *folders[static 1 + OPTION_LIST_MAX])
{
	folders[0] = o->adapter;
	memcpy(folders + 1, o->adapters.items, (size_t)o->adapters.count * sizeof *folders);
	return (struct device_options){
		.device = o->device,
		.cuda_libs = o->cuda_libs,
		.memory = o->memory,
		.card = o->cuda_card,
		.threads = (int)o->threads,
		.batch_invariant = o->batch_invariant,
		.adapters = folders,
		.nadapters = 1 + o->adapters.count,
		.new_rank = o->use_peft ? (int)o->lora_r : 0,
	};
}

static int ops_make(const struct policy_options *o, struct ops **out, size_t *room, struct err *err)
{
	const char *folders[1 + OPTION_LIST_MAX];
	struct device_options d = device_options_of(o, folders);
	struct ops sizes;
	size_t cap = 0;
	int rc = device_describe(&d, &sizes, &cap, err);
	if (!rc) rc = device_open(&d, out, err);
	if (!rc) *room = cap ? MIN(cap, device_room(*out)) : device_room(*out);
	return rc;
}

int policy_describe(const struct policy_options *o, struct ops *out, size_t *room, struct err *err)
{
	const char *folders[1 + OPTION_LIST_MAX];
	struct device_options d = device_options_of(o, folders);
	struct ops *ops = NULL;
	struct err why = {0};
	int rc = device_describe(&d, out, room, err);
	if (rc || *room) return rc;
	rc = device_open(&d, &ops, &why);
	if (!rc) *room = device_room(ops);
	ops_free(ops);
	/* Plans are made for other machines too. But a device that is here and does not open, as one
	 * that others fill, would end the run. */
	if (rc && rc != ERR_NOT_FOUND && rc != ERR_RANGE)
		return err_set(err, rc, "%s; with --memory the plan is made without the device", why.text);
	if (rc) log_warn("the plan is compared with no device: %s", why.text);
	return 0;
}

int policy_check(
	const struct policy_options *o, const struct model_config *c, const struct ops *device, struct err *err)
{
	int rank, rc = model_limits_check(c, device, o->model, err);
	if (rc) return rc;
	if (o->adapter) return adapter_rank(o->adapter, &rank, err);
	return o->use_peft ? adapter_modules_check(o->lora_target_modules, err) : 0;
}

/* Bytes that --memory or the card allow, each alone; 0: it is not given. */
static size_t cap_of(const char *memory, const char *card)
{
	struct device_options d = {.device = "cpu", .memory = memory, .card = card};
	struct ops sizes;
	struct err said; /* where the device is described */
	size_t cap = 0;
	return device_describe(&d, &sizes, &cap, &said) ? 0 : cap;
}

const char *policy_room_name(const struct policy_options *o, const struct ops *ops, size_t room)
{
	return o->memory && cap_of(o->memory, NULL) == room      ? "--memory allows"
		: o->cuda_card && cap_of(NULL, o->cuda_card) == room ? "the card has"
		: ops->host_memory                                   ? "this machine has"
															 : "the device has";
}

int policy_rank(const struct policy_options *o)
{
	int rank = 0;
	struct err later; /* said when the adapter is opened */
	if (o->adapter && !adapter_rank(o->adapter, &rank, &later)) return rank;
	return o->use_peft ? (int)o->lora_r : 0;
}

static int adapters_open(const struct policy_options *o, struct policy *p, struct err *err)
{
	int rc = 0;
	/* What was trained before goes on; only without it a fresh adapter begins at zero. */
	if (o->adapter) {
		rc = adapter_open(p->model, o->adapter, &p->adapter, err);
	} else if (o->use_peft) {
		struct adapter_options a = {
			.r = (int)o->lora_r,
			.lora_alpha = o->lora_alpha,
			.lora_dropout = o->lora_dropout,
			.target_modules = o->lora_target_modules,
			.seed = o->lora_seed,
		};
		rc = adapter_create(p->model, &a, &p->adapter, err);
	}
	for (int i = 0; i < o->adapters.count && !rc; i++) {
		rc = adapter_open(p->model, o->adapters.items[i], &p->adapters[i], err);
		if (!rc) p->nadapters++;
	}
	return rc;
}

static int chat_open(const struct policy_options *o, struct policy *p, struct err *err)
{
	p->stop_id = -1;
	p->chat_date = o->chat_date;
	if (!o->chat_template) return 0;
	int rc = chat_template_find(o->chat_template, o->model, &p->chat, err);
	if (!rc) rc = chat_date_check(p->chat, o->chat_date, err);
	if (!rc && chat_end_id(p->chat, p->tokenizer, &p->stop_id, err)) rc = err_prefix(err, "%s", o->model);
	return rc;
}

int policy_open(const struct policy_options *o, struct policy *out, struct err *err)
{
	struct policy p = {0};
	int rc = 0;
	if (o->policy_roles)
		return err_set(err, ERR_USAGE, "--policy_roles asks a --policy_command role by role, and there is none");
	if (o->text_only) {
		rc = model_config_load(o->model, &p.config, err);
	} else {
		rc = ops_make(o, &p.ops, &p.room, err);
		if (!rc) rc = model_open(o->model, p.ops, &p.model, err);
		if (!rc) p.config = *model_config(p.model);
	}
	/* The tokenizer comes before the adapters: what is wrong with a folder is said
	 * of its own files first. */
	if (!rc) rc = tokenizer_open(o->model, &p.tokenizer, err);
	if (!rc && !o->text_only) rc = adapters_open(o, &p, err);
	if (!rc) rc = chat_open(o, &p, err);
	if (rc) {
		policy_close(&p);
		return rc;
	}
	*out = p;
	return 0;
}

void policy_close(struct policy *p)
{
	tokenizer_free(p->tokenizer);
	for (int i = 0; i < p->nadapters; i++) adapter_free(p->adapters[i]);
	adapter_free(p->adapter);
	model_free(p->model);
	ops_free(p->ops);
	*p = (struct policy){0};
}

int policy_encode(
	const struct policy *p, const char *what, const char *text, size_t len, struct ids *out, struct err *err)
{
	size_t before = out->count;
	int rc = len ? tokenizer_encode(p->tokenizer, text, len, true, out, err) : 0;
	for (size_t i = before; i < out->count && !rc; i++)
		if (out->data[i] >= p->config.vocab_size)
			rc = err_set(err, ERR_MISMATCH, "the tokenizer gives id %d, the model has %d; they do not belong together",
				out->data[i], p->config.vocab_size);
	return rc ? err_prefix(err, "%s", what) : 0;
}

int policy_save(const struct policy *p, const char *base, const char *dir, struct err *err)
{
	int rc = p->adapter ? adapter_save(p->adapter, dir, base, err) : model_save(p->model, dir, err);
	return rc ? rc : model_copy_tokenizer(base, dir, err);
}
