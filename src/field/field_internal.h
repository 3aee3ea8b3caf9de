/* Residues in Montgomery's form: what the field's files share. */
#ifndef HONE_FIELD_INTERNAL_H
#define HONE_FIELD_INTERNAL_H
#include "field/field.h"

static inline uint32_t residue_mul(const struct field_modulus *m, uint32_t a, uint32_t b)
{
	uint64_t t = (uint64_t)a * b;
	uint32_t r = (uint32_t)((t + (uint64_t)((uint32_t)t * m->inverse) * m->m) >> 32);
	return r >= m->m ? r - m->m : r;
}
static inline uint32_t residue_add(const struct field_modulus *m, uint32_t a, uint32_t b)
{
	uint32_t r = a + b;
	return r >= m->m ? r - m->m : r;
}
static inline uint32_t residue_sub(const struct field_modulus *m, uint32_t a, uint32_t b)
{
	return a >= b ? a - b : a + m->m - b;
}
uint32_t residue_power(const struct field_modulus *m, uint32_t a, uint32_t e);
uint32_t residue_of(const struct field_modulus *m, uint64_t x); /* from a plain number */
bool residue_is_square(const struct field_modulus *m, uint32_t a);
uint32_t residue_exp(const struct field *f, uint32_t x_q); /* modulo q to modulo p */
uint32_t residue_exp2(const struct field *f, uint32_t x_q);
uint32_t residue_log2(struct field *f, uint32_t x_p); /* modulo p, not 0, to modulo q */
uint64_t field_mix(uint64_t x);
/* The value at x of the random function of this number. */
uint32_t residue_random(const struct field *f, const struct field_modulus *m, unsigned function, uint32_t x);
#endif
