/* Chat templates, written in C and chosen by name: a template is three functions' worth of string joining, and an interpreter for Jinja would be more
 * code than all of this room.
 *
 * qwen3           ChatML. Reasoning of assistant turns before the last user turn is dropped; that of later turns is kept in a think block, which the
 *                 last turn always has. So a rendered conversation is not a prefix of the longer one: over several turns append ids, do not render again.
 * qwen3-nothink   the same, and the generation prompt closes an empty think block.
 * plain           contents joined by newlines; for small models trained here. */
#include "text/text.h"

typedef void render_fn(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out);

static void render_qwen3(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out);
static void render_qwen3_nothink(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out);
static void render_plain(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out);

static const struct { const char *name; render_fn *render; const char *end_token; } templates[] = {
	{"qwen3", render_qwen3, "<|im_end|>"},
	{"qwen3-nothink", render_qwen3_nothink, "<|im_end|>"},
	{"plain", render_plain, "<|endoftext|>"},
};

#define THINK_END "</think>"

static struct slice trim_newlines(struct slice s)
{
	while (s.len && s.data[0] == '\n') {
		s.data++;
		s.len--;
	}
	while (s.len && s.data[s.len - 1] == '\n')
		s.len--;
	return s;
}

static struct slice trim_left(struct slice s)
{
	struct slice both = trim_newlines(s);
	return both.len ? (struct slice){both.data, s.len - (size_t)(both.data - s.data)} : both;
}

static const char *find_last(struct slice s, const char *needle)
{
	size_t n = strlen(needle);
	for (size_t i = s.len; i >= n; i--)
		if (!memcmp(s.data + i - n, needle, n))
			return s.data + i - n;
	return NULL;
}

/* Takes an assistant's content apart: reasoning is what stands before the first </think> (after the last <think> in it), content what follows the last. */
static void split_reasoning(const char *content, struct slice *reasoning, struct slice *rest)
{
	const char *first = strstr(content, THINK_END);
	*reasoning = (struct slice){content, 0};
	*rest = (struct slice){content, strlen(content)};
	if (!first)
		return;
	*reasoning = (struct slice){content, (size_t)(first - content)};
	const char *open = find_last(*reasoning, "<think>");
	if (open)
		*reasoning = (struct slice){open + 7, (size_t)(first - open) - 7};
	*reasoning = trim_newlines(*reasoning);
	const char *after = find_last(*rest, THINK_END) + strlen(THINK_END);
	*rest = trim_left((struct slice){after, strlen(after)});
}

static bool is_role(const struct chat_message *m, const char *role) { return !strcmp(m->role, role); }

/* Tool output comes as a user's turn; it is no query. */
static bool is_query(const struct chat_message *m)
{
	static const char begin[] = "<tool_response>", end[] = "</tool_response>";
	size_t len = strlen(m->content), end_len = sizeof(end) - 1;
	bool tool = !strncmp(m->content, begin, sizeof(begin) - 1) && len >= end_len && !strcmp(m->content + len - end_len, end);
	return is_role(m, "user") && !tool;
}

static void render_qwen3(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out)
{
	size_t last_query = count - 1;
	for (size_t i = count; i-- > 0;) {
		if (is_query(&m[i])) {
			last_query = i;
			break;
		}
	}
	for (size_t i = 0; i < count; i++) {
		struct slice reasoning, content = {m[i].content, strlen(m[i].content)};
		str_printf(out, "<|im_start|>%s\n", m[i].role);
		if (is_role(&m[i], "assistant")) {
			split_reasoning(m[i].content, &reasoning, &content);
			if (i > last_query && (i + 1 == count || reasoning.len)) {
				content = trim_left(content);
				str_puts(out, "<think>\n");
				str_append(out, reasoning.data, reasoning.len);
				str_puts(out, "\n</think>\n\n");
			}
		}
		str_append(out, content.data, content.len);
		str_puts(out, "<|im_end|>\n");
	}
	if (add_generation_prompt)
		str_puts(out, "<|im_start|>assistant\n");
}

static void render_qwen3_nothink(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out)
{
	render_qwen3(m, count, add_generation_prompt, out);
	if (add_generation_prompt)
		str_puts(out, "<think>\n\n</think>\n\n");
}

static void render_plain(const struct chat_message *m, size_t count, bool add_generation_prompt, struct str *out)
{
	for (size_t i = 0; i < count; i++)
		str_printf(out, "%s%s", i ? "\n" : "", m[i].content);
	if (add_generation_prompt)
		str_putc(out, '\n');
}

int chat_render(const char *template_name, const struct chat_message *messages, size_t count, bool add_generation_prompt, struct str *out, struct err *err)
{
	static const char *const roles[] = {"system", "user", "assistant"};
	size_t t = 0;
	while (t < ARRAY_LEN(templates) && strcmp(templates[t].name, template_name))
		t++;
	if (t == ARRAY_LEN(templates))
		return err_set(err, ERR_NOT_FOUND, "chat template \"%.60s\": expected qwen3, qwen3-nothink or plain; a model with another template needs one added to src/text/chat.c", template_name);
	if (!count)
		return err_set(err, ERR_USAGE, "a conversation without messages");
	for (size_t i = 0; i < count; i++) {
		size_t r = 0;
		while (r < ARRAY_LEN(roles) && strcmp(roles[r], messages[i].role))
			r++;
		if (r == ARRAY_LEN(roles))
			return err_set(err, ERR_UNSUPPORTED, "message %zu: expected role system, user or assistant, found \"%.60s\"", i, messages[i].role);
	}
	templates[t].render(messages, count, add_generation_prompt, out);
	return 0;
}

const char *chat_end_token(const char *template_name)
{
	for (size_t t = 0; t < ARRAY_LEN(templates); t++)
		if (!strcmp(templates[t].name, template_name))
			return templates[t].end_token;
	return NULL;
}
