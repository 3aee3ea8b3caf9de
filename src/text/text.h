/* text: between characters and token ids, and the shape of an answer.
 *
 * Tokenizer: byte-level BPE as Hugging Face's tokenizer.json describes it (GPT-2, Qwen2/3, SmolLM,
 * Llama-3 kinds): added tokens are cut out of the raw text, then normaliser (none or NFC),
 * pre-tokenizer split, bytes to the GPT-2 alphabet, merges by rank. What the file asks for and this
 * room does not know is refused by name. A tokenizer is immutable after open and may be used from
 * several threads.
 *
 * Chat: templates written in C, chosen by name or by what a model's folder says; unknown ones are
 * refused with what to do (docs/tokenizers.md). Answer: what the model writes = plan + code; code
 * is the last fenced Python block after the reasoning. One extractor for every stage. */
#ifndef HONE_TEXT_H
#define HONE_TEXT_H
#include "base/base.h"

struct tokenizer;
int tokenizer_open(const char *path /* tokenizer.json or its folder */, struct tokenizer **out, struct err *err);
void tokenizer_free(struct tokenizer *t);
int tokenizer_vocab_size(const struct tokenizer *t); /* 1 + the largest id */
/* A growing list; zero-initialise to start. */
struct ids {
	int32_t *data; /* (count) */
	size_t count;
	size_t cap; /* room in data */
};
void ids_push(struct ids *v, int32_t id);
void ids_release(struct ids *v);
/* Appends the ids of text (must be valid UTF-8: ERR_FORMAT names the byte). Added tokens in the
 * text are recognised when parse_special. No BOS/EOS is added. */
int tokenizer_encode(
	const struct tokenizer *t, const char *text, size_t len, bool parse_special, struct ids *out, struct err *err);
/* The same with parse_special, but no added token is recognised that has a byte inside one of the
 * ranges (ascending, apart, on character borders): a stranger's text there stays text. Everything
 * else is as if the ranges were not there: words still reach across their borders. */
struct text_range {
	size_t begin; /* bytes */
	size_t end;   /* behind the last */
};
int tokenizer_encode_except(const struct tokenizer *t, const char *text, size_t len, const struct text_range *plain,
	size_t nplain, struct ids *out, struct err *err);
/* What the file's post-processor puts before a text (BOS): appends those ids. With
 * tokenizer_encode's behind them they are transformers' tokenizer(text), less what the
 * post-processor puts behind a text (EOS): a prompt goes on. */
void tokenizer_push_prefix(const struct tokenizer *t, struct ids *out);
/* Appends bytes of ids; ids without a token (padding rows of the head) give nothing. skip_special
 * drops tokens marked special. Bytes may end mid-character. */
void tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool skip_special, struct str *out);
/* Of an added token or vocabulary entry, as text (" the", not "\u0120the"); -1 when absent. */
int32_t tokenizer_id(const struct tokenizer *t, const char *token);
/* Trains byte-level BPE on texts (Qwen's split, no normaliser unless nfc) and writes a
 * tokenizer.json that Hugging Face's tokenizers loads and encodes with to the same ids. Ids: 256
 * bytes, merges, special tokens, plain tokens; fewer than vocab_size when the texts have no more
 * pairs. Deterministic: ties go to the lower pair of ids. */
struct bpe_train_options {
	int vocab_size;
	const char *const *special_tokens;
	int nspecial;
	const char *const *plain_tokens; /* added tokens that decoding keeps although skip_special is set ("<think>") */
	int nplain;
	bool nfc;
};
int tokenizer_train(
	const struct slice *texts, size_t count, const struct bpe_train_options *o, const char *path, struct err *err);

/* Writes a tokenizer.json from the parts that other formats (GGUF) keep of one, and opens it to see
 * that all is known here; when not, no file is left. The pre-tokenizer is a kind by name: gpt-2,
 * qwen2, llama-bpe, smollm; others are refused by name. */
enum token_kind {
	TOKEN_KIND_TEXT,
	TOKEN_KIND_CONTROL, /* special: decoding drops it */
	TOKEN_KIND_ADDED,   /* decoding keeps it */
	TOKEN_KIND_UNUSED,  /* a row of the embedding without a token */
};
struct tokenizer_parts {
	const char *kind;
	const struct slice *tokens;   /* (ntokens) spelled as tokenizer.json does, the id is the index */
	const enum token_kind *kinds; /* (ntokens) */
	size_t ntokens;
	const struct slice *merges; /* (nmerges) "left right", by rank */
	size_t nmerges;
	int32_t bos_id; /* put before every text by Hugging Face's tokenizers (not by tokenizer_encode); -1: none */
};
int tokenizer_write(const struct tokenizer_parts *p, const char *path, struct err *err);

/* ---- chat (chat.c renders, chat_find.c chooses) ---- */

#define CHAT_TEMPLATE_NAMES "qwen3|qwen3-nothink|qwen2.5|smollm2|llama3|llama3.1|chatml|plain"
struct chat_template;
extern const char chat_plain_jinja[]; /* plain, as Jinja: what `hone init` writes into tokenizer_config.json */
struct chat_message {
	const char *role;    /* system, user or assistant */
	const char *content; /* UTF-8 */
};
/* A rendered conversation; zero-initialise to start. */
struct chat_text {
	struct str text;
	struct text_range *contents; /* (ncontents) of text: what came from messages */
	size_t ncontents;
	size_t cap; /* room in contents */
};
/* The template of that name; "auto": the one that the folder's chat_template.jinja, or
 * chat_template in its tokenizer_config.json, is. Unknown ones are refused with what to do. */
int chat_template_find(const char *name, const char *model_dir, const struct chat_template **out, struct err *err);
/* The id that ends an assistant's turn; ERR_MISMATCH when the tokenizer lacks it. */
int chat_end_id(const struct chat_template *c, const struct tokenizer *t, int32_t *id, struct err *err);
/* Whether a date can stand in the template's date line (ERR_USAGE); NULL always can. */
int chat_date_check(const struct chat_template *c, const char *date, struct err *err);
/* Appends a conversation to *out. add_generation_prompt opens the assistant's turn. date: of the
 * templates that write one, "26 Jul 2024"; NULL: their own. */
int chat_render(const struct chat_template *c, const char *date, const struct chat_message *messages, size_t count,
	bool add_generation_prompt, struct chat_text *out, struct err *err);
/* Appends what stands between the token that ended an assistant's turn and the next answer: the
 * user's next message and the opening. Turns grow by it, token behind token; a conversation is
 * never rendered again, because some templates drop the reasoning of past turns. */
int chat_render_turn(const struct chat_template *c, const char *content, struct chat_text *out, struct err *err);
void chat_text_release(struct chat_text *t);
/* Appends its ids: control tokens are the template's alone; a content that spells one gives the ids
 * of its letters. */
int chat_encode(const struct tokenizer *t, const struct chat_text *text, struct ids *out, struct err *err);

/* ---- answers (answer.c) ---- */

/* An answer taken apart; offsets are bytes into the text. */
struct answer {
	bool well_formed;    /* a closed block after the reasoning is the code */
	const char *problem; /* when not: "no-code-block", "unclosed-code-block", "unclosed-think", "empty-code"; of a
							policy outside also "not-text" */
	size_t plan_begin;   /* everything before the code's fence; all of the text when not well formed */
	size_t plan_end;
	size_t code_begin; /* inside the fence */
	size_t code_end;
};
/* The rules stand in answer.c: reasoning ends behind the last </think>; the code is
 * the last closed block marked python, python3, py or ttir, else the last unmarked one. */
struct answer answer_parse(const char *text, size_t len);
/* Splits tokens by the answer's byte ranges: kinds[i] is 0 plan, 1 code (the fence lines and what
 * follows the block count as code). A token that straddles belongs to where its first byte lies.
 * Without a well-formed answer all tokens are code: nothing in it is a plan, and it must not be
 * paid by a plan's smaller weight. The answer must have been parsed from these ids decoded with
 * skip_special. */
void answer_token_kinds(
	const struct tokenizer *t, const int32_t *ids, size_t count, const struct answer *a, uint8_t *kinds);
#endif
