/* aim_elements: what a search may touch: the elements of inputs and parameters that no row writes.
 *
 * Their values are searched as whole numbers. Of each format the bits become one that rises with
 * the value, so that halves, neighbours and bounds mean the same for floats and for integers. */
#include "runner/aim_internal.h"
#include "base/base.h"
#include "tape/tape.h"
#include "ttir/ttir.h"
#include <math.h>

/* ---- numbers in order ---- */

static const struct {
	enum elem elem;
	int exponent; /* bits; 0: a whole number */
	int fraction;
} FORMATS[] = {{ELEM_F16, 5, 10}, {ELEM_BF16, 8, 7}, {ELEM_F32, 8, 23}, {ELEM_F64, 11, 52}, {ELEM_I8, 0, 0},
	{ELEM_I16, 0, 0}, {ELEM_I32, 0, 0}, {ELEM_I64, 0, 0}};

static int format_of(enum elem e)
{
	for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++)
		if (FORMATS[i].elem == e) return (int)i;
	return -1;
}
bool aim_is_ordered(enum elem e) { return format_of(e) >= 0; }
int aim_width(enum elem e) { return 8 * (int)elem_bytes(e); }
static uint64_t mask_of(enum elem e) { return aim_width(e) == 64 ? UINT64_MAX : ((uint64_t)1 << aim_width(e)) - 1; }

/* Bits as a whole number that rises with the value, and back. */
uint64_t aim_order(enum elem e, uint64_t bits)
{
	uint64_t sign = (uint64_t)1 << (aim_width(e) - 1);
	return (bits & sign && elem_is_float(e) ? ~bits : bits ^ sign) & mask_of(e);
}
uint64_t aim_bits(enum elem e, uint64_t order)
{
	uint64_t sign = (uint64_t)1 << (aim_width(e) - 1);
	return (!(order & sign) && elem_is_float(e) ? ~order : order ^ sign) & mask_of(e);
}

/* The number next to x towards zero that the format has; within its normal range. */
uint64_t aim_order_near(enum elem e, double x)
{
	int f = format_of(e), exponent;
	if (!FORMATS[f].exponent) return aim_order(e, (uint64_t)(int64_t)x & mask_of(e));
	double part = frexp(fabs(x), &exponent) * 2 - 1; /* [0, 1) */
	int bias = (1 << (FORMATS[f].exponent - 1)) - 1, field = exponent - 1 + bias;
	uint64_t bits = 0;
	if (x != 0 && field > 0)
		bits = (uint64_t)MIN(field, 2 * bias) << FORMATS[f].fraction | (uint64_t)ldexp(part, FORMATS[f].fraction);
	if (x < 0) bits |= (uint64_t)1 << (aim_width(e) - 1);
	return aim_order(e, bits);
}

/* ---- elements ---- */

uint64_t aim_read(const struct search *s, const struct touched *t)
{
	uint64_t bits = 0; /* an element may be narrower */
	memcpy(&bits, s->at->launcher->bytes(s->at->launcher, t->buffer) + t->offset, t->size);
	return bits;
}
void aim_write(const struct search *s, const struct touched *t, uint64_t bits)
{
	memcpy(s->at->launcher->bytes(s->at->launcher, t->buffer) + t->offset, &bits, t->size);
}

/* The element at an address of the tape; -1: none that may be another. */
int aim_touch(struct search *s, uint64_t address, size_t size)
{
	int buffer = (int)(address >> TAPE_ADDRESS_SHIFT) - 1;
	int64_t offset = (int64_t)(address & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1));
	const struct tape *t = s->at->tape;
	if (buffer < 0 || buffer >= t->nbuffers || s->at->given[buffer] < 0 || !s->at->is_read_only[buffer] ||
		offset + (int64_t)size > t->buffers[buffer].bytes)
		return -1;
	for (int i = 0; i < s->ntouched; i++)
		if (s->touched[i].buffer == buffer && s->touched[i].offset == offset)
			return s->touched[i].size == size ? i : -1;
	if (s->ntouched == RUNNER_PLACED_MAX) return -1;
	struct touched *new = &s->touched[s->ntouched];
	*new = (struct touched){.buffer = buffer, .offset = offset, .size = size};
	new->original = new->kept = aim_read(s, new);
	return s->ntouched++;
}

/* What whole numbers of a buffer are seen to lie between. */
void aim_range(const struct search *s, const struct touched *t, enum elem e, uint64_t *low, uint64_t *high)
{
	const uint8_t *data = s->at->launcher->bytes(s->at->launcher, t->buffer);
	*low = UINT64_MAX;
	*high = 0;
	for (int64_t at = 0; at + (int64_t)t->size <= s->at->tape->buffers[t->buffer].bytes; at += (int64_t)t->size) {
		uint64_t bits = 0;
		memcpy(&bits, data + at, t->size);
		*low = MIN(*low, aim_order(e, bits));
		*high = MAX(*high, aim_order(e, bits));
	}
}
