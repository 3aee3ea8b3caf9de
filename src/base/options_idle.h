/* options_idle: options that would do nothing in the combination that was given (OPTIONS_NEED of
 * base.h). */
#ifndef HONE_OPTIONS_IDLE_H
#define HONE_OPTIONS_IDLE_H
#include "base/base.h"

enum option_given { GIVEN_NOT, GIVEN_RECIPE, GIVEN_LINE }; /* where it was said last */
/* Behind the parse. given: (count); word: the first positional one, NULL: none. ERR_USAGE names the
 * first option of the command line that does nothing and what it needs; the recipes' are logged. */
int options_idle(const char *command, const struct option_def *defs, size_t count, const void *settings,
	const uint8_t *given, const char *word, struct err *err);
/* For --help: which options need which. */
void options_needs_print(const char *command, const struct option_def *defs, size_t count);
#endif
