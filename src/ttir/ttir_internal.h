/* What the parser's files share: tokens, and the state of one parse. */
#ifndef HONE_TTIR_INTERNAL_H
#define HONE_TTIR_INTERNAL_H
#include "base/base.h"
#include "ttir/ttir.h"

enum token {
	TOKEN_END,
	TOKEN_VALUE,
	TOKEN_LABEL,
	TOKEN_SYMBOL,
	TOKEN_HASH,
	TOKEN_BANG,
	TOKEN_WORD,
	TOKEN_NUMBER,
	TOKEN_STRING,
	TOKEN_ARROW,
	TOKEN_PUNCT,
	TOKEN_BAD
};
struct lexer {
	const char *text;
	const char *end;
	const char *at; /* after the current token */
	enum token kind;
	struct slice tok; /* without sigil or quotes */
	const char *tok_start;
	int value_index; /* %x#2: 2; -1 without */
	char punct;
	const char *counted_to; /* lexer_position's memory, as the next two */
	const char *line_start;
	int line; /* lexer_position's memory */
};
void lexer_next(struct lexer *lx);
void lexer_position(struct lexer *lx, const char *p, int *line, int *column);
bool lexer_starts_line(const struct lexer *lx); /* nothing but blanks before the token */

struct parser {
	struct lexer lx;
	struct ttir_module *m;
	struct err *err;
	int code; /* first error; everything unwinds on it */
	int depth;
	int nalias;
	struct slice *alias;
	int *alias_loc;
	int alias_cap;
};
int parse_fail(struct parser *p, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
bool parse_is(const struct parser *p, char punct);
bool parse_is_word(const struct parser *p, const char *word);
bool parse_accept(struct parser *p, char punct);
int parse_expect(struct parser *p, char punct);
int parse_count(struct parser *p, int *out); /* a number of at most nine digits */
int parse_enter(struct parser *p);           /* depth check; pair with p->depth-- */
int parse_type(struct parser *p);            /* id, or a negative code */
int parse_loc(struct parser *p);             /* after the word loc: ( ... ); id, or a negative code */
int parse_loc_optional(struct parser *p);    /* id, -1 when there is none, or an error code below -1 with p->code set */
void parse_loc_alias(struct parser *p, struct slice name, int loc);
int parse_loc_resolve(struct parser *p);
int parse_attr_value(struct parser *p, struct ttir_attr *a);
int parse_attr_dict(struct parser *p, struct ttir_op *op); /* { ... }; op NULL: discarded */
/* Makes room for one more item; NULL, with code set, when there are too many. */
void *parse_grow(struct parser *p, void *list, int count, size_t item_bytes);
#endif
