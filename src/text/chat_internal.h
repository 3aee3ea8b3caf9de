/* chat_internal: a chat template as both its files see it. */
#ifndef HONE_TEXT_CHAT_INTERNAL_H
#define HONE_TEXT_CHAT_INTERNAL_H
#include "text/text.h"

/* begin [turn between turn ...] opening, where a turn is before_role role after_role content
 * after_content. NULL: nothing. */
struct chat_template {
	const char *name;
	const char *begin;
	const char *before_role; /* NULL: roles are not shown */
	const char *after_role;
	const char *after_content;
	const char *between;
	const char *default_system; /* a system turn with this is put in front of a conversation that has none */
	const char *system_begin;   /* what a system turn in front starts with */
	const char *date;           /* behind it a date, unless the caller has one, and after_date; NULL: no date */
	const char *after_date;
	const char *opening;   /* of the assistant's turn */
	const char *end_token; /* what the model ends its turn with */
	bool trims;            /* contents lose white space at both ends */
	bool has_reasoning; /* Qwen3's rule: reasoning of an assistant's turn is dropped up to the last query, and set in a
						   think block behind it */
};
const struct chat_template *chat_template_row(const char *name); /* NULL when unknown */

/* A published Jinja text is told by lines of it. */
#define CHAT_FRAGMENTS_MAX 10
struct chat_known {
	const char *name;                          /* of the row */
	const char *fragments[CHAT_FRAGMENTS_MAX]; /* all have to be there */
	const char *absent[CHAT_FRAGMENTS_MAX];    /* none may be there */
};
extern const struct chat_known chat_known[];
extern const size_t chat_known_count;
#endif
