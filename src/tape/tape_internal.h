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

/* Readers of hostile JSON (tape_fields.c). `what` is the path of the object ("rows[3].dst", "" for
 * the whole), for messages; each fails with a code and a message that names the place, and what was
 * expected there. */
struct tape_path {
	char text[96]; /* cut where a path is longer */
};
/* what.field, or what.field[index] where index is not negative */
struct tape_path tape_path_at(const char *what, const char *field, int index);
/* An object with no key beside `keys`, which end with NULL. */
int tape_check_object(const json_t *o, const char *what, const char *const *keys, struct err *err);
int tape_get_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err);
/* A list of min to max entries. */
int tape_get_array(
	const json_t *o, const char *what, const char *field, size_t min, size_t max, const json_t **out, struct err *err);
/* A string of 1 to 256 bytes without control characters; it belongs to the JSON. */
int tape_get_name(const json_t *o, const char *what, const char *field, const char **out, struct err *err);
int tape_read_double(const json_t *v, const char *what, double *out, struct err *err);
/* Views: every element lies in its buffer. The buffers are read already. */
int tape_read_view(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err);
int tape_read_target(const struct tape *t, const json_t *o, const char *what, struct tape_view *v, struct err *err);
int tape_read_views(struct tape *t, const json_t *list, const char *what, const char *field, int *count,
	struct tape_view **out, struct err *err);

/* Rows (tape_rows.c), when buffers and kernels are read. */
int tape_read_row(struct tape *t, const json_t *o, const char *what, struct tape_row *r, struct err *err);
/* Streams and events of all rows; sets nstreams and nevents. */
int tape_check_order(struct tape *t, struct err *err);

#endif
