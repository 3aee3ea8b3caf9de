/* policy: what gives an answer its probability, opened as one thing: where it computes, the model,
 * its adapters, the tokenizer, the chat form and the token that ends an answer.
 *
 * A command puts POLICY_..._OPTIONS into its table of options, which fill a struct policy_options
 * inside of its own settings, and opens it with one call:
 *
 *	struct settings { struct policy_options policy; ... } o = {.policy = {.device = "cpu"}};
 *	struct policy p;
 *	rc = policy_open(&o.policy, &p, err);
 *	...
 *	policy_close(&p);
 *
 * policy_open leaves nothing open when it fails, and policy_close does no harm to what was never
 * opened, or to a policy of zeros. A policy is used from one thread at a time; its tokenizer may be
 * used from several. */
#ifndef HONE_POLICY_H
#define HONE_POLICY_H
#include "base/base.h"
#include "model/model.h"
#include "ops/ops.h"
#include "text/text.h"

struct policy_options {
	const char *model;               /* folder with config.json, weights and tokenizer.json */
	const char *adapter;             /* PEFT folder; NULL: the base, or a fresh adapter (use_peft) */
	struct option_list adapters;     /* further PEFT folders, for a command that has several */
	const char *device;              /* cpu, cuda, cuda:N */
	const char *cuda_libs;           /* folder with CUDA's libraries; NULL: where they usually lie */
	const char *memory;              /* what the device may give, as "24GiB"; NULL: what it has */
	int64_t threads;                 /* of the engine on the CPU; 0: cores */
	bool batch_invariant;            /* values that do not depend on what else is computed with them */
	const char *chat_template;       /* a name, or auto; NULL: texts are taken as they are */
	const char *chat_date;           /* of templates that write one; NULL: their own */
	bool use_peft;                   /* an adapter is made where --adapter names none */
	int64_t lora_r;                  /* its rank */
	double lora_alpha;               /* its scaling is lora_alpha / lora_r */
	double lora_dropout;             /* share of its input's values that training drops */
	const char *lora_target_modules; /* comma list of projections; NULL: all seven */
	uint64_t lora_seed;              /* of its first weights */
	bool text_only;                  /* config, tokenizer and chat form alone: no device and no weights */
};

#define POLICY_OPTION(settings, type, field, help, choices) \
	{ #field, OPTION_##type, offsetof(struct settings, policy.field), help, choices }
#define POLICY_MODEL_OPTION(settings) POLICY_OPTION(settings, STR, model, "model folder (with tokenizer.json)", NULL)
#define POLICY_ADAPTER_OPTION(settings, help) POLICY_OPTION(settings, STR, adapter, help, NULL)
#define POLICY_DEVICE_OPTIONS(settings) \
	POLICY_OPTION(settings, STR, device, "where the model computes: cpu, cuda or cuda:N", NULL), \
		POLICY_OPTION(settings, STR, cuda_libs, \
			"folder with CUDA's libraries; default: where Python's or the system's lie", NULL), \
		POLICY_OPTION(settings, STR, memory, \
			"most memory that the device may give, as 24GiB; default: what it has", NULL), \
		POLICY_OPTION(settings, INT, threads, "threads of the engine on the CPU; 0: cores", "0 to 4096")
#define POLICY_INVARIANT_OPTION(settings) \
	POLICY_OPTION( \
		settings, BOOL, batch_invariant, "values that do not depend on what else is computed with them", NULL)
#define POLICY_CHAT_OPTIONS(settings) \
	POLICY_OPTION(settings, STR, chat_template, "form of the chat; auto: what the model's folder says", \
		"auto|" CHAT_TEMPLATE_NAMES), \
		POLICY_OPTION(settings, STR, chat_date, \
			"of chat templates that write the date into the prompt, as \"26 Jul 2024\", which is the default", NULL)
#define POLICY_LORA_OPTIONS(settings) \
	POLICY_OPTION(settings, BOOL, use_peft, "train a LoRA adapter; --no-use_peft trains all weights", NULL), \
		POLICY_OPTION(settings, INT, lora_r, "adapter rank", "1 to 256"), \
		POLICY_OPTION(settings, FLOAT, lora_alpha, "adapter scaling numerator", "1e-6 or more"), \
		POLICY_OPTION( \
			settings, FLOAT, lora_dropout, "dropout on the adapter's input in the gradient pass alone", "0 to 0.999"), \
		POLICY_OPTION(settings, STR, lora_target_modules, "comma list of projections; default: all seven", NULL)

struct policy {
	struct model_config config; /* of the model's folder */
	struct ops *ops;            /* NULL with text_only, as model and adapters */
	size_t room;                /* bytes that plans may count on, what this policy takes included */
	struct model *model;
	struct adapter *adapter;                   /* the named or the fresh one; NULL: the base */
	struct adapter *adapters[OPTION_LIST_MAX]; /* those of options.adapters, in their order */
	int nadapters;                             /* how many of them */
	struct tokenizer *tokenizer;
	const struct chat_template *chat; /* NULL: texts are taken as they are */
	const char *chat_date;
	int32_t stop_id; /* ends an assistant's turn; -1 without a chat form */
};
/* The device as policy_open would open it, as far as sizes go, and the bytes that a plan may count on: --memory, else
 * those of the device, 0 where it is not here. Nothing stays open. */
int policy_describe(const struct policy_options *o, struct ops *out, size_t *room, struct err *err);
/* Whose bytes these are, for plan_print: "this machine has". */
const char *policy_room_name(const struct policy_options *o, const struct ops *ops);
/* The rank of what is trained: that of --adapter, else of a fresh adapter; 0: all weights are. */
int policy_rank(const struct policy_options *o);
/* Opens all of it. Errors name the folder or the option and what was expected there. */
int policy_open(const struct policy_options *o, struct policy *out, struct err *err);
void policy_close(struct policy *p);
/* Appends the ids of a text as it is, control tokens that it spells included. ERR_MISMATCH when the
 * tokenizer gives one that the model has no row for; what: the text's name in messages. */
int policy_encode(
	const struct policy *p, const char *what, const char *text, size_t len, struct ids *out, struct err *err);
/* Saves what was trained: the adapter, or without one the model, and the tokenizer beside it. `base`: the folder
 * that the policy was opened from. */
int policy_save(const struct policy *p, const char *base, const char *dir, struct err *err);
#endif
