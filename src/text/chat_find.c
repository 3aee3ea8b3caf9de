/* Which template is a model's: transformers keeps the Jinja text in chat_template.jinja, or in
 * tokenizer_config.json. That text is not run but recognised, by lines that only it has: those that
 * decide what a conversation without tools looks like. A text that changes one of them is another
 * template and is refused, since a form that is nearly right costs a model
 * quality without a sign. */
#include "text/chat_internal.h"
#include "base/base.h"
#include <stdlib.h>

#define TEMPLATE_BYTES_MAX ((size_t)1 << 20)
#define CONFIG_BYTES_MAX ((size_t)64 << 20)   /* tokenizer_config.json lists added tokens too */
#define ADVICE "--chat_template " CHAT_TEMPLATE_NAMES
#define ROLE_RULE "(message.role == \"user\") or (message.role == \"system\" and not loop.first)"
#define CHATML_TURN(content) "'<|im_start|>' + message.role + '\\n' + " content " + '<|im_end|>' + '\\n'"
#define CHATML_OPENING "{{- '<|im_start|>assistant\\n' }}"
#define LLAMA3_TURN "'<|start_header_id|>' + message['role'] + '<|end_header_id|>"
#define LLAMA31_LINES \
	"{{- bos_token }}", "set date_string = \"26 Jul 2024\"", "set system_message = messages[0]['content']|trim", \
	"{{- \"Cutting Knowledge Date: December 2023\\n\" }}", "{{- \"Today Date: \" + date_string + \"\\n\\n\" }}", \
	LLAMA3_TURN "\\n\\n'+ message['content'] | trim + '<|eot_id|>'"
#define TRAINING "generation %}"   /* TRL's variants for training: some render another text */

const char chat_plain_jinja[] = "{% for m in messages %}{{ '' if loop.first else '\n' }}{{ m['content'] }}{% endfor "
								"%}{{ '\n' if add_generation_prompt else '' }}";

const struct chat_known chat_known[] = {
	{"qwen3",
		{ROLE_RULE, "last_query_index=messages|length - 1", "message.content.startswith('<tool_response>')",
			"loop.index0 > ns.last_query_index", "loop.last or (not loop.last and reasoning_content)",
			".split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')",
			"'\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n')",
			"enable_thinking is defined and enable_thinking is false", "{{- '<think>\\n\\n</think>\\n\\n' }}"},
		{"preserve_thinking", TRAINING}},
	{"qwen2.5",
		{ROLE_RULE, CHATML_TURN("message.content"), CHATML_OPENING,
			"{{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
			"assistant.<|im_end|>\\n' }}"},
		{"<think>", TRAINING, "<|vision_start|>"}},
	{"smollm2",
		{"loop.first and messages[0]['role'] != 'system'", "{{ '<|im_start|>assistant\n' }}",
			"<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n",
			"{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"},
		{"<think>", TRAINING}},
	{"llama3",
		{"set content = " LLAMA3_TURN "\n\n'+ message['content'] | trim + '<|eot_id|>'", "loop.index0 == 0",
			"set content = bos_token + content", "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"},
		{"Cutting Knowledge", TRAINING, "strftime", "system_message"}},
	{"llama3.1", {LLAMA31_LINES}, {"strftime_now", TRAINING}},
	/* Llama 3.2's asks for the day's date where there is a clock, else it takes the same fixed one.
	 */
	{"llama3.1",
		{LLAMA31_LINES, "if not date_string is defined", "if strftime_now is defined",
			"set date_string = strftime_now(\"%d %b %Y\")"},
		{TRAINING}},
	{"chatml",
		{ROLE_RULE, "{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}",
			"{{- " CHATML_TURN("content") " }}", "{{- '<|im_start|>' + message.role + '\\n' + content }}",
			CHATML_OPENING},
		{"<think>", TRAINING, "<|vision_start|>"}},
	{"plain", {chat_plain_jinja}, {"<|"}},
};
const size_t chat_known_count = ARRAY_LEN(chat_known);

/* A template is one that we know by what its text has, and by what texts like it
 * have and it does not. */
static bool is_known(const struct chat_known *k, const char *text)
{
	for (size_t i = 0; i < CHAT_FRAGMENTS_MAX && k->fragments[i]; i++)
		if (!strstr(text, k->fragments[i])) return false;
	for (size_t i = 0; i < CHAT_FRAGMENTS_MAX && k->absent[i]; i++)
		if (strstr(text, k->absent[i])) return false;
	return true;
}

static int recognise(const char *text, const char *where, const struct chat_template **out, struct err *err)
{
	for (size_t i = 0; i < chat_known_count; i++) {
		if (!is_known(&chat_known[i], text)) continue;
		*out = chat_template_row(chat_known[i].name);
		CHECKF(*out, "no chat template is named %s", chat_known[i].name);
		return 0;
	}
	return err_set(err, ERR_UNSUPPORTED,
		"%s: this chat template is none of those that hone knows; if the model was trained with one of them, name "
		"it: " ADVICE,
		where);
}

/* The template of a list of {name, template}: "default". */
static const char *default_of(const json_t *list)
{
	size_t i;
	json_t *v;
	json_array_foreach(list, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));
		if (name && !strcmp(name, "default")) return json_string_value(json_object_get(v, "template"));
	}
	return NULL;
}

static int from_config(const char *path, const struct chat_template **out, struct err *err)
{
	json_t *config = NULL;
	int rc = json_load(path, CONFIG_BYTES_MAX, &config, err);
	if (rc) return rc;
	const json_t *v = json_object_get(config, "chat_template");
	const char *text = json_is_array(v) ? default_of(v) : json_string_value(v);
	if (text) rc = recognise(text, path, out, err);
	else
		rc = err_set(err, ERR_NOT_FOUND,
			"%s: has no chat_template, and there is no chat_template.jinja beside it; name the form: " ADVICE, path);
	json_decref(config);
	return rc;
}

static int from_folder(const char *dir, const struct chat_template **out, struct err *err)
{
	char *jinja = path_join(dir, "chat_template.jinja"), *config = path_join(dir, "tokenizer_config.json");
	struct str text = {0};
	int rc;
	if (path_exists(jinja)) { /* transformers prefers it too */
		rc = file_read(jinja, TEMPLATE_BYTES_MAX, &text, err);
		if (!rc) rc = recognise(text.data ? text.data : "", jinja, out, err);
	} else if (path_exists(config)) {
		rc = from_config(config, out, err);
	} else {
		rc = err_set(err, ERR_NOT_FOUND,
			"%s: has neither chat_template.jinja nor tokenizer_config.json, so its chat template is unknown; name "
			"it: " ADVICE,
			dir);
	}
	str_release(&text);
	free(jinja);
	free(config);
	return rc;
}

int chat_template_find(const char *name, const char *model_dir, const struct chat_template **out, struct err *err)
{
	*out = NULL;
	if (!strcmp(name, "auto")) return from_folder(model_dir, out, err);
	*out = chat_template_row(name);
	return *out
		? 0
		: err_set(err, ERR_NOT_FOUND, "chat template \"%.60s\": expected auto or one of " CHAT_TEMPLATE_NAMES, name);
}
