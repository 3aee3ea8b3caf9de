/* movement: the rows of a tape that move bytes and compute nothing: fill and strided copy with a
 * cast, as torch casts. */
#ifndef HONE_MOVEMENT_H
#define HONE_MOVEMENT_H
#include "tape/tape.h"

/* Memory of one buffer and the origin tag of each of its bytes. */
struct memory_view {
	uint8_t *data;   /* (bytes) */
	uint8_t *origin; /* (bytes) */
};

void movement_fill(const struct tape_view *dst, struct memory_view to, double value, int64_t value_int);
/* Same shapes. Source and destination may be one buffer and overlap: the source is read completely
 * first. */
void movement_copy(
	const struct tape_view *dst, struct memory_view to, const struct tape_view *src, struct memory_view from);
/* The view's elements in row-major order, dense. */
void movement_gather(const struct tape_view *src, const uint8_t *from, uint8_t *out);
/* The other way: dense elements in row-major order into the view, each byte
 * tagged as a library's. */
void movement_scatter(const struct tape_view *dst, struct memory_view to, const uint8_t *from);
#endif
