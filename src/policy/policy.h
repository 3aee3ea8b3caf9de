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
 * used from several.
 *
 * Where text in and text out is enough, a policy may also be a program of the user's or a set of
 * answers (struct outside, at the end): nothing is opened then, and nothing can be trained. */
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
	const char *cuda_card;           /* what a GPU is held to, as "a100"; NULL: what it is */
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
	const char *policy_command;      /* in place of a model: a shell's command line that answers (struct outside) */
	const char *policy_answers;      /* in place of a model: a folder or a .jsonl file of answers */
	const char *policy_roles;        /* folder of templates: policy_command is asked role by role; NULL: once */
	int64_t policy_timeout;          /* seconds that an answer of policy_command may take */
	int64_t policy_requests;         /* requests that policy_command is given at once, at most */
};

#define POLICY_OPTION(settings, type, field, help, choices) \
	{ #field, OPTION_##type, offsetof(struct settings, policy.field), help, choices }
/* Options of a model: a policy outside has none of it. */
#define POLICY_NOT_OUTSIDE(names) OPTIONS_NEED(names, "!policy_command | !policy_answers")
#define POLICY_MODEL_OPTION(settings) POLICY_OPTION(settings, STR, model, "model folder (with tokenizer.json)", NULL)
#define POLICY_ADAPTER_OPTION(settings, help) POLICY_OPTION(settings, STR, adapter, help, NULL)
#define POLICY_DEVICE_OPTIONS(settings) \
	POLICY_OPTION(settings, STR, device, "where the model computes: cpu, cuda or cuda:N", NULL), \
		POLICY_OPTION(settings, STR, cuda_libs, \
			"folder with CUDA's libraries; default: where Python's or the system's lie", NULL), \
		POLICY_OPTION(settings, STR, memory, \
			"most memory that the device may give, as 24GiB; default: what it has", NULL), \
		POLICY_OPTION(settings, STR, cuda_card, \
			"hold the GPU to what this card has (a100, rtx4090, ...): kernels, shared memory and memory", NULL), \
		POLICY_OPTION(settings, INT, threads, "threads of the engine on the CPU; 0: cores", "0 to 4096"), \
		OPTIONS_NEED("cuda_libs cuda_card", "device=cuda*"), \
		POLICY_NOT_OUTSIDE("device cuda_libs cuda_card memory threads")
#define POLICY_INVARIANT_OPTION(settings) \
	POLICY_OPTION( \
		settings, BOOL, batch_invariant, "values that do not depend on what else is computed with them", NULL), \
		POLICY_NOT_OUTSIDE("batch_invariant")
#define POLICY_CHAT_OPTIONS(settings) \
	POLICY_OPTION(settings, STR, chat_template, "form of the chat; auto: what the model's folder says", \
		"auto|" CHAT_TEMPLATE_NAMES), \
		POLICY_OPTION(settings, STR, chat_date, \
			"of chat templates that write the date into the prompt, as \"26 Jul 2024\", which is the default", NULL), \
		POLICY_NOT_OUTSIDE("chat_template chat_date")
#define POLICY_OUTSIDE_OPTIONS(settings) \
	POLICY_OPTION(settings, STR, policy_command, \
		"in place of a model: a command of yours, which hone trusts; JSON lines in and out (docs/agents.md)", NULL), \
		POLICY_OPTION(settings, STR, policy_answers, \
			"in place of a model: folder with TASK.SAMPLE.txt, or a .jsonl file with task, sample, answer", NULL), \
		POLICY_OPTION(settings, STR, policy_roles, \
			"ask policy_command for each answer role by role: folder with test.txt, profile.txt, plan.txt, code.txt", \
			NULL), \
		POLICY_OPTION( \
			settings, INT, policy_timeout, "seconds that an answer of policy_command may take", "1 to 86400"), \
		POLICY_OPTION(settings, INT, policy_requests, "requests that policy_command has at once", "1 to 4096"), \
		OPTIONS_NEED("policy_roles policy_timeout policy_requests", "policy_command")
#define POLICY_OUTSIDE_DEFAULTS .policy_timeout = 600, .policy_requests = 8
#define POLICY_LORA_OPTIONS(settings) \
	POLICY_OPTION(settings, BOOL, use_peft, "train a LoRA adapter; --no-use_peft trains all weights", NULL), \
		POLICY_OPTION(settings, INT, lora_r, "adapter rank", "1 to 256"), \
		POLICY_OPTION(settings, FLOAT, lora_alpha, "adapter scaling numerator", "1e-6 or more"), \
		POLICY_OPTION( \
			settings, FLOAT, lora_dropout, "dropout on the adapter's input in the gradient pass alone", "0 to 0.999"), \
		POLICY_OPTION(settings, STR, lora_target_modules, "comma list of projections; default: all seven", NULL), \
		OPTIONS_NEED("lora_r lora_alpha lora_dropout lora_target_modules", "use_peft"), \
		OPTIONS_NEED("lora_r lora_alpha lora_target_modules", "!adapter"), \
		POLICY_NOT_OUTSIDE("use_peft lora_r lora_alpha lora_dropout lora_target_modules")

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
/* The device as policy_open would open it, as far as sizes go, and the bytes that a plan may count
 * on: --memory, else those of the device, 0 with a warning that says why where it is not here; one
 * that is here and does not open is an error. Nothing stays open. */
int policy_describe(const struct policy_options *o, struct ops *out, size_t *room, struct err *err);
/* Refuses by config.json and the options what policy_open would refuse beside them: a shape
 * that the device (of policy_describe) has no kernels for, an adapter that is not there,
 * projections that nobody knows. */
int policy_check(
	const struct policy_options *o, const struct model_config *c, const struct ops *device, struct err *err);
/* Whose bytes the room is, for plan_print: "this machine has" where neither --memory nor the
 * card is what limits it. */
const char *policy_room_name(const struct policy_options *o, const struct ops *ops, size_t room);
/* The rank of what is trained: that of --adapter, else of a fresh adapter; 0: all weights are. */
int policy_rank(const struct policy_options *o);
/* Opens all of it. Errors name the folder or the option and what was expected there. */
int policy_open(const struct policy_options *o, struct policy *out, struct err *err);
void policy_close(struct policy *p);
/* Appends the ids of a text as it is, control tokens that it spells included. ERR_MISMATCH when the
 * tokenizer gives one that the model has no row for; what: the text's name in messages. */
int policy_encode(
	const struct policy *p, const char *what, const char *text, size_t len, struct ids *out, struct err *err);
/* Saves what was trained: the adapter, or without one the model, and the tokenizer beside it.
 * `base`: the folder that the policy was opened from. */
int policy_save(const struct policy *p, const char *base, const char *dir, struct err *err);

/* ---- a policy outside of this program: text in, text out ---- */

/* A command or a set of answers that stands where a model would, so that another model runs the
 * same stages (docs/agents.md has the lines). The command is the user's own and trusted program: it
 * runs with the user's environment and rights, outside of every sandbox, as one process until
 * outside_close. What it writes is judged like any model's answer. Used from one thread. */
struct outside;
struct outside_request {
	int64_t id; /* the caller's, not in use by another request */
	const char *task;
	const char *stage;
	int sample;
	int turn;                            /* 0: the first */
	const struct chat_message *messages; /* (count) the conversation; the last one is to be answered */
	size_t count;
	double temperature;
	int64_t max_tokens;
	uint64_t seed; /* of this answer alone */
};
struct outside_answer {
	int64_t id;
	char *text; /* NULL: the policy says that it has none, `problem` why; caller frees */
	size_t len;
	int tokens;     /* as the policy counts them; where it does not, bytes of the text */
	bool is_cut;    /* by its length */
	bool is_broken; /* held what no text does (NUL, half of a surrogate pair, bytes that are no UTF-8), now U+FFFD */
	char problem[200];
};
bool policy_is_outside(const struct policy_options *o);
/* Options of a model beside those of an outside policy, or both kinds of the
 * latter, are ERR_USAGE. */
int outside_open(const struct policy_options *o, struct outside **out, struct err *err);
/* From now on the answers of a command are kept in this file as they come, and a request that it
 * has an answer to, from an earlier run that ended before it was done, is not asked again: the same
 * command, roles and request. A set of answers keeps none. */
int outside_keep(struct outside *x, const char *path, struct err *err);
/* What was kept is needed no more: the file is emptied. */
int outside_forget(struct outside *x, struct err *err);
void outside_close(struct outside *x);
/* Queues: a command is written to as fast as it reads. Of a set the answer must be there:
 * ERR_NOT_FOUND names it. */
int outside_submit(struct outside *x, const struct outside_request *r, struct err *err);
/* Waits for the next answer, in any order, or until wake_fd (-1: none) is readable: *is_there says
 * which. A command that ended, broke the form or missed a deadline is an error that says so,
 * with its command line. */
int outside_take(struct outside *x, int wake_fd, bool *is_there, struct outside_answer *out, struct err *err);
int outside_waiting(const struct outside *x);        /* requests without an answer */
bool outside_counts_tokens(const struct outside *x); /* false: bytes stand for them, or nothing was answered yet */
#endif
