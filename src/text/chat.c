/* Chat templates as rows of a table: a template is a handful of strings around each turn and two or
 * three switches, and an interpreter for Jinja would be more code than all of this room. Which
 * Jinja text is which row is found in chat_find.c; docs/tokenizers.md says what was compared with
 * what.
 *
 * What a message says is marked in the rendered text (struct chat_text): chat_encode lets no
 * control token be recognised there. So the text is what transformers renders, and the ids are
 * transformers' ids, unless a content spells a control token.
 *
 * Over several turns append ids, do not render again: qwen3 drops reasoning of past turns, so a
 * rendered conversation is no prefix of the longer one. */
#include "text/chat_internal.h"
#include "base/base.h"
#include "text/unicode.h"
#include <stdlib.h>

#define OPENING "<|im_start|>assistant\n"
#define CHATML(opening_text) \
	.before_role = "<|im_start|>", .after_role = "\n", .after_content = "<|im_end|>\n", .end_token = "<|im_end|>", \
	.opening = opening_text
#define LLAMA3 \
	.begin = "<|begin_of_text|>", .before_role = "<|start_header_id|>", .after_role = "<|end_header_id|>\n\n", \
	.after_content = "<|eot_id|>", .end_token = "<|eot_id|>", .trims = true, \
	.opening = "<|start_header_id|>assistant<|end_header_id|>\n\n"

static const struct chat_template templates[] = {
	{.name = "qwen3", CHATML(OPENING), .has_reasoning = true},
	{.name = "qwen3-nothink", CHATML(OPENING "<think>\n\n</think>\n\n"), .has_reasoning = true},
	{.name = "qwen2.5",
		CHATML(OPENING),
		.default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
	{.name = "smollm2",
		CHATML(OPENING),
		.default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
	{.name = "llama3", LLAMA3},
	{.name = "llama3.1",
		LLAMA3,
		.default_system = "",
		.system_begin = "Cutting Knowledge Date: December 2023\nToday Date: ",
		.date = "26 Jul 2024",
		.after_date = "\n\n"},
	{.name = "chatml", CHATML(OPENING)},
	{.name = "plain", .between = "\n", .end_token = "<|endoftext|>", .opening = "\n"},
};

const struct chat_template *chat_template_row(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(templates); i++)
		if (!strcmp(templates[i].name, name)) return &templates[i];
	return NULL;
}

/* As strftime's "%d %b %Y" writes it: the form of the templates' own dates, and nothing in it that
 * could be a control token. */
static bool is_date(const char *text)
{
	static const char months[] = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec ", digits[] = "0123456789";
	if (strlen(text) != 11 || strspn(text, digits) != 2 || text[2] != ' ' || text[6] != ' ' ||
		strspn(text + 7, digits) != 4)
		return false;
	char month[5] = {text[3], text[4], text[5], ' ', 0};
	int day = atoi(text);
	return day >= 1 && day <= 31 && strstr(months, month);
}

int chat_date_check(const struct chat_template *c, const char *date, struct err *err)
{
	if (!date) return 0;
	if (!c->date) return err_set(err, ERR_USAGE, "--chat_date \"%.60s\": chat template %s has no date", date, c->name);
	return is_date(date)
		? 0
		: err_set(err, ERR_USAGE, "--chat_date \"%.60s\": expected a date as in \"%s\"", date, c->date);
}

int chat_end_id(const struct chat_template *c, const struct tokenizer *t, int32_t *id, struct err *err)
{
	*id = tokenizer_id(t, c->end_token);
	if (*id >= 0) return 0;
	return err_set(err, ERR_MISMATCH,
		"the tokenizer has no %s, which ends an answer under chat template %s; choose the template that the model was "
		"trained with (--chat_template)",
		c->end_token, c->name);
}

/* ---- pieces ---- */

static void put_template(struct chat_text *out, const char *text)
{
	if (text) str_puts(&out->text, text);
}

static void put_content(struct chat_text *out, struct slice s)
{
	if (!s.len) return;
	if (out->ncontents == out->cap) {
		out->cap = out->cap ? 2 * out->cap : 16;
		out->contents = xrealloc(out->contents, size_mul(out->cap, sizeof(*out->contents)));
	}
	out->contents[out->ncontents++] = (struct text_range){out->text.len, out->text.len + s.len};
	str_append(&out->text, s.data, s.len);
}

void chat_text_release(struct chat_text *t)
{
	str_release(&t->text);
	free(t->contents);
	*t = (struct chat_text){0};
}

static struct slice slice_of(const char *text) { return (struct slice){text, strlen(text)}; }

static struct slice without_leading_newlines(struct slice s)
{
	size_t n = 0;
	while (n < s.len && s.data[n] == '\n') n++;
	return (struct slice){s.data + n, s.len - n};
}

static struct slice without_outer_newlines(struct slice s)
{
	s = without_leading_newlines(s);
	while (s.len && s.data[s.len - 1] == '\n') s.len--;
	return s;
}

/* Jinja's trim is Python's strip: white space, and the four separators U+001C to U+001F, which \s
 * leaves out. */
static bool is_python_space(const char *p)
{
	uint32_t c;
	utf8_next((const uint8_t *)p, &c);
	return (c >= 0x1c && c <= 0x1f) || unicode_class(c) & UNICODE_SPACE;
}

static struct slice trim(struct slice s)
{
	while (s.len && is_python_space(s.data + utf8_last(s.data, s.len))) s.len = utf8_last(s.data, s.len);
	for (uint32_t c; s.len && is_python_space(s.data);) {
		size_t n = utf8_next((const uint8_t *)s.data, &c);
		s = (struct slice){s.data + n, s.len - n};
	}
	return s;
}

/* ---- reasoning ---- */

#define THINK "<think>"
#define THINK_END "</think>"

static const char *find_last(struct slice s, const char *needle)
{
	size_t n = strlen(needle);
	for (size_t i = s.len; i >= n; i--)
		if (!memcmp(s.data + i - n, needle, n)) return s.data + i - n;
	return NULL;
}

/* Takes an assistant's content apart: reasoning is what stands before the first </think> (after the
 * last <think> in it), content what follows the last. */
static void split_reasoning(struct slice content, struct slice *reasoning, struct slice *rest)
{
	const char *first = strstr(content.data, THINK_END);
	*reasoning = (struct slice){content.data, 0};
	*rest = content;
	if (!first) return;
	*reasoning = (struct slice){content.data, (size_t)(first - content.data)};
	const char *open = find_last(*reasoning, THINK);
	if (open) *reasoning = (struct slice){open + strlen(THINK), (size_t)(first - open) - strlen(THINK)};
	*reasoning = without_outer_newlines(*reasoning);
	*rest = without_leading_newlines(slice_of(find_last(content, THINK_END) + strlen(THINK_END)));
}

static bool is_role(const struct chat_message *m, const char *role) { return !strcmp(m->role, role); }

/* Tool output comes as a user's turn; it is no query. */
static bool is_query(const struct chat_message *m)
{
	static const char begin[] = "<tool_response>";
	bool tool = !strncmp(m->content, begin, sizeof(begin) - 1) && text_ends_in(m->content, "</tool_response>");
	return is_role(m, "user") && !tool;
}

/* Index of the last query; reasoning is kept behind it alone. Without one nothing is behind. */
static size_t last_query(const struct chat_message *m, size_t count)
{
	for (size_t i = count; i-- > 0;)
		if (is_query(&m[i])) return i;
	return count - 1;
}

static void put_reasoned(struct chat_text *out, const struct chat_message *m, bool is_kept, bool is_last)
{
	struct slice reasoning, content;
	split_reasoning(slice_of(m->content), &reasoning, &content);
	if (is_kept && (is_last || reasoning.len)) {
		content = without_leading_newlines(content);
		put_template(out, THINK "\n");
		put_content(out, reasoning);
		put_template(out, "\n" THINK_END "\n\n");
	}
	put_content(out, content);
}

/* ---- the conversation ---- */

static void put_header(const struct chat_template *c, struct chat_text *out, const char *role)
{
	if (!c->before_role) return;
	put_template(out, c->before_role);
	put_template(out, role);
	put_template(out, c->after_role);
}

/* The system turn in front, up to its content. */
static void put_system(const struct chat_template *c, const char *date, struct chat_text *out)
{
	put_header(c, out, "system");
	put_template(out, c->system_begin);
	put_template(out, date ? date : c->date);
	put_template(out, c->after_date);
}

static void put_message(const struct chat_template *c, const char *date, const struct chat_message *m, size_t count,
	size_t i, size_t query, struct chat_text *out)
{
	struct slice content = slice_of(m[i].content);
	put_template(out, i ? c->between : NULL);
	if (i == 0 && is_role(&m[i], "system")) put_system(c, date, out);
	else put_header(c, out, m[i].role);
	if (c->has_reasoning && is_role(&m[i], "assistant")) put_reasoned(out, &m[i], i > query, i + 1 == count);
	else put_content(out, c->trims ? trim(content) : content);
	put_template(out, c->after_content);
}

static int check_message(const struct chat_message *m, size_t i, struct err *err)
{
	static const char *const roles[] = {"system", "user", "assistant"};
	size_t r = 0, len = strlen(m->content), valid = utf8_valid_prefix(m->content, len);
	while (r < ARRAY_LEN(roles) && strcmp(roles[r], m->role)) r++;
	if (r == ARRAY_LEN(roles))
		return err_set(err, ERR_UNSUPPORTED,
			"message %zu: expected role system, user or assistant, found \"%.60s\"; tools are not supported", i,
			m->role);
	if (valid < len)
		return err_set(err, ERR_FORMAT,
			"message %zu: not UTF-8: byte %zu is 0x%02x, which cannot stand there; convert the text to UTF-8", i, valid,
			(uint8_t)m->content[valid]);
	return 0;
}

int chat_render(const struct chat_template *c, const char *date, const struct chat_message *messages, size_t count,
	bool add_generation_prompt, struct chat_text *out, struct err *err)
{
	int rc = count ? 0 : err_set(err, ERR_USAGE, "a conversation without messages");
	if (!rc) rc = chat_date_check(c, date, err);
	for (size_t i = 0; i < count && !rc; i++) rc = check_message(&messages[i], i, err);
	if (rc) return rc;
	put_template(out, c->begin);
	if (c->default_system && !is_role(&messages[0], "system")) {
		put_system(c, date, out);
		put_template(out, c->default_system);
		put_template(out, c->after_content);
	}
	size_t query = last_query(messages, count);
	for (size_t i = 0; i < count; i++) put_message(c, date, messages, count, i, query, out);
	if (add_generation_prompt) put_template(out, c->opening);
	return 0;
}

int chat_render_turn(const struct chat_template *c, const char *content, struct chat_text *out, struct err *err)
{
	const struct chat_message m = {"user", content};
	const char *behind = c->after_content;
	int rc = check_message(&m, 0, err);
	if (rc) return rc;
	/* The answer brought the end token; what the form has behind it is still to come. */
	if (behind && !strncmp(behind, c->end_token, strlen(c->end_token))) behind += strlen(c->end_token);
	put_template(out, behind);
	put_template(out, c->between);
	put_header(c, out, m.role);
	put_content(out, c->trims ? trim(slice_of(content)) : slice_of(content));
	put_template(out, c->after_content);
	put_template(out, c->opening);
	return 0;
}

int chat_encode(const struct tokenizer *t, const struct chat_text *text, struct ids *out, struct err *err)
{
	return tokenizer_encode_except(
		t, text->text.data ? text->text.data : "", text->text.len, text->contents, text->ncontents, out, err);
}
