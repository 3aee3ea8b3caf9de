/* Errors of the world: a code and one line of text in a struct that the caller owns, so that
 * threads never share an error. The text is built in a local buffer first: callers may pass the
 * error's own text as an argument. */
#include "base/base.h"
#include <stdlib.h>
#include <unistd.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (!e) return code;
	char text[sizeof(e->text)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	e->code = code;
	memcpy(e->text, text, sizeof(text));
	return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	if (!e) return 0;
	char text[sizeof(e->text)];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	size_t len = strlen(text);
	snprintf(text + len, sizeof(text) - len, ": %s", e->text);
	memcpy(e->text, text, sizeof(text));
	return e->code;
}

const char *err_name(int code)
{
	switch (code) {
	case ERR_OK: return "ok";
#define X(name, value, text) case name: return text;
		ERR_TABLE(X)
#undef X
	default: return "unknown error";
	}
}

/* One write, straight to the descriptor: the heap or the log's lock may be what is broken. */
void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
{
	char text[2048];
	int len = snprintf(text, sizeof(text) / 2, "%s:%d: CHECK(%s) failed ", file, line, cond);
	len = MIN(MAX(len, 0), (int)sizeof(text) / 2 - 1);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text + len, sizeof(text) - (size_t)len - 1, fmt, ap);
	va_end(ap);
	len = (int)strlen(text);
	text[len++] = '\n';
	ssize_t written = write(STDERR_FILENO, text, (size_t)len);
	(void)written;
	abort();
}
