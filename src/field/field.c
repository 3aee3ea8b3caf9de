/* One draw: primes, the random elements, residues and their tables. */
#include "field/field.h"
#include "base/base.h"
#include "field/field_internal.h"
#include <stdlib.h>

/* ---- residues, in Montgomery's form: x stands as x 2^32 mod m ---- */

uint32_t residue_power(const struct field_modulus *m, uint32_t a, uint32_t e)
{
	uint32_t r = m->one;
	for (; e; e >>= 1, a = residue_mul(m, a, a))
		if (e & 1) r = residue_mul(m, r, a);
	return r;
}

uint32_t residue_of(const struct field_modulus *m, uint64_t x)
{
	return residue_mul(m, (uint32_t)(x % m->m), m->square);
}

/* Back to a plain number. */
static uint32_t residue_plain(const struct field_modulus *m, uint32_t a) { return residue_mul(m, a, 1); }

bool residue_is_square(const struct field_modulus *m, uint32_t a)
{
	return a == 0 || residue_power(m, a, (m->m - 1) / 2) == m->one;
}

static void modulus_set(struct field_modulus *out, uint32_t m)
{
	/* Newton's iteration doubles the bits of 1/m mod 2^32 that are right, from three. */
	uint32_t inverse = m;
	for (int i = 0; i < 5; i++) inverse *= 2 - m * inverse;
	uint64_t one = ((uint64_t)1 << 32) % m;
	*out = (struct field_modulus){m, -inverse, (uint32_t)(one * one % m), (uint32_t)one};
}

/* ---- primes ---- */

static uint32_t power_plain(uint32_t a, uint32_t e, uint32_t m)
{
	uint64_t r = 1, x = a % m;
	for (; e; e >>= 1, x = x * x % m)
		if (e & 1) r = r * x % m;
	return (uint32_t)r;
}

/* Miller and Rabin, for n = 3 mod 4: n - 1 is twice an odd number, so that one power answers. These
 * bases decide every number below 2^32 (Jaeschke 1993). */
static bool is_prime(uint32_t n)
{
	static const uint32_t bases[] = {2, 7, 61};
	for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
		uint32_t x = power_plain(bases[i], (n - 1) / 2, n);
		if (x != 1 && x != n - 1) return false;
	}
	return true;
}

/* q = 7 mod 8 and p = 2q + 1, both prime, at random: constants of a program cannot be multiples of
 * what is drawn after it was written. So 2 is a square in both fields, and the root of 4 is 2. */
static uint32_t prime_draw(struct rng *r)
{
	for (;;) {
		uint32_t q = (1u << 29) + rng_below(r, 1u << 29);
		q |= 7; /* so p = 15 mod 16 */
		if (is_prime(q) && is_prime(2 * q + 1)) return q;
	}
}

/* ---- a draw ---- */

static uint32_t residue_draw(const struct field_modulus *m, struct rng *r) { return 1 + rng_below(r, m->m - 1); }

void field_init(struct field *f, uint64_t seed)
{
	struct rng r = {.seed = seed, .stream = 0x9e37};
	*f = (struct field){.seed = ((uint64_t)rng_next(&r) << 32) | rng_next(&r)};
	uint32_t q = prime_draw(&r);
	modulus_set(&f->q, q);
	modulus_set(&f->p, 2 * q + 1);
	f->ln2_q = residue_draw(&f->q, &r);
	f->ln2_p = residue_draw(&f->p, &r);
	f->inverse_ln2_q = residue_power(&f->q, f->ln2_q, q - 2);
	f->pi_q = residue_draw(&f->q, &r);
	f->pi_p = residue_draw(&f->p, &r);
	/* Powers of 2, digit by digit of an exponent in base 256. */
	uint32_t base = residue_of(&f->p, 2);
	for (int w = 0; w < FIELD_POWER_WINDOWS; w++) {
		f->power[w][0] = f->p.one;
		for (int d = 1; d < 256; d++) f->power[w][d] = residue_mul(&f->p, f->power[w][d - 1], base);
		base = residue_mul(&f->p, f->power[w][255], base);
	}
}

/* ---- exponentials and logarithms of residues ---- */

/* 2 to the power e, a plain residue modulo q. */
static uint32_t power_of_two(const struct field *f, uint32_t e)
{
	uint32_t r = f->power[0][e & 255];
	for (int w = 1; w < FIELD_POWER_WINDOWS; w++) r = residue_mul(&f->p, r, f->power[w][e >> (8 * w) & 255]);
	return r;
}

uint32_t residue_exp2(const struct field *f, uint32_t x_q) { return power_of_two(f, residue_plain(&f->q, x_q)); }

uint32_t residue_exp(const struct field *f, uint32_t x_q)
{
	return residue_exp2(f, residue_mul(&f->q, x_q, f->inverse_ln2_q));
}

/* Baby steps and giant steps (Shanks 1971): 2^i for i below BABY_STEPS in an open table; then a
 * step of BABY_STEPS at a time until the table has it. Results are kept: a candidate takes the
 * logarithms that its reference took. */
#define BABY_STEPS (1u << 19)
#define TABLE_SLOTS (BABY_STEPS * 2)
#define KEPT_SLOTS (1u << 16)
struct field_log_table {
	struct {
		uint32_t power; /* 2^exponent; 0: free */
		uint32_t exponent;
	} slots[TABLE_SLOTS];
	struct {
		uint32_t argument; /* 2^exponent; 0: free */
		uint32_t exponent;
	} kept[KEPT_SLOTS];
	uint32_t giant; /* 2^-BABY_STEPS */
};

static uint32_t slot_of(uint32_t x, uint32_t slots) { return (uint32_t)((x * 0x9e3779b97f4a7c15u) >> 32) % slots; }

static void logs_make(struct field *f)
{
	struct field_log_table *t = f->logs = xcalloc(1, sizeof *t);
	uint32_t x = f->p.one, two = residue_of(&f->p, 2);
	for (uint32_t i = 0; i < BABY_STEPS; i++, x = residue_mul(&f->p, x, two)) {
		uint32_t at = slot_of(x, TABLE_SLOTS);
		while (t->slots[at].power) at = (at + 1) % TABLE_SLOTS;
		t->slots[at].power = x;
		t->slots[at].exponent = i;
	}
	t->giant = residue_power(&f->p, x, f->p.m - 2);
}

/* e with 2^e = x; x is a square. */
static uint32_t discrete_log(struct field *f, uint32_t x)
{
	if (!f->logs) logs_make(f);
	struct field_log_table *t = f->logs;
	uint32_t keep = slot_of(x, KEPT_SLOTS);
	if (t->kept[keep].argument == x) return t->kept[keep].exponent;
	uint32_t y = x;
	for (uint64_t steps = 0;; steps += BABY_STEPS, y = residue_mul(&f->p, y, t->giant)) {
		CHECKF(steps <= (uint64_t)f->q.m + BABY_STEPS, "no logarithm of %u modulo %u", x, f->p.m);
		uint32_t at = slot_of(y, TABLE_SLOTS);
		while (t->slots[at].power && t->slots[at].power != y) at = (at + 1) % TABLE_SLOTS;
		if (!t->slots[at].power) continue;
		uint32_t e = (uint32_t)((steps + t->slots[at].exponent) % f->q.m);
		t->kept[keep].argument = x;
		t->kept[keep].exponent = e;
		return e;
	}
}

uint32_t residue_log2(struct field *f, uint32_t x_p)
{
	uint32_t square = residue_is_square(&f->p, x_p) ? x_p : f->p.m - x_p;
	return residue_of(&f->q, discrete_log(f, square));
}

/* ---- random functions ---- */

uint64_t field_mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint32_t residue_random(const struct field *f, const struct field_modulus *m, unsigned function, uint32_t x)
{
	uint64_t h = field_mix(f->seed ^ field_mix(((uint64_t)function << 32) + x + 0x9e3779b97f4a7c15u));
	return (uint32_t)(field_mix(h + m->m) % m->m);
}

void field_release(struct field *f)
{
	free(f->logs);
	f->logs = NULL;
}
