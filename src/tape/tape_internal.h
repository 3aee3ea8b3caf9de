/* What the files of the tape room share, and nobody else sees. */
#ifndef HONE_TAPE_INTERNAL_H
#define HONE_TAPE_INTERNAL_H
#include "base/base.h"
#include "tape/tape.h"

/* Counts what a JSON parser would have to build, before it builds it: nesting and number of values.
 */
int tape_text_check(const char *text, size_t len, struct err *err);
/* Exactly `bytes` bytes of canonical base64 (with padding) to out. False when the text is anything
 * else. */
bool tape_base64_decode(const char *text, size_t len, uint8_t *out, size_t bytes);

#endif
