/* prove: whether a candidate's tape computes its reference as a real function, by
 * evaluation at random points.
 *
 * Both sides are computed on exact values (field.h): the tape by the vm's exact engine, the
 * reference as a graph of a few kinds of steps (worker/oracle_proof.py makes it from the task's
 * operators). Where all residues of all outputs agree, at random points of fields with about 2^30
 * elements, the two are the same expression up to real identities, but for a chance that is stated.
 * What that does not say, and what is outside, is in docs/prove.md.
 *
 * Tape and graph are hostile: every index, size and operation is checked. A real point (a draw of
 * the task's own inputs) decides branches; where it does not, another is taken. Each round draws
 * primes and residues anew. Threading: one call runs on its thread alone. */
#ifndef HONE_PROVE_H
#define HONE_PROVE_H
#include "base/base.h"
#include "tape/tape.h"

#define PROVE_DRAWS_MAX 8
#define PROVE_SIDES_MAX 64

/* Where an input or a parameter lies. */
struct prove_memory {
	const char *name; /* of a parameter; NULL: an input */
	int64_t offset;   /* into the draw's `given` */
	int64_t bytes;
	const char *dtype; /* as torch names it */
};
/* One real point: the body of the exporter's message, and the memory that it points into. */
struct prove_draw {
	const json_t *graph;  /* nodes, outputs, inputs, params */
	const uint8_t *given; /* inputs and parameters */
	int64_t given_bytes;
	const uint8_t *tables;
	int64_t table_bytes;
};

#define PROVE_ANSWER_TABLE(X) \
	X(PROVE_PROVED, "proved") X(PROVE_NOT_PROVED, "not proved") X(PROVE_REFUTED, "refuted") X(PROVE_OUTSIDE, "outside")
#define X(e, ...) e,
enum prove_answer { PROVE_ANSWER_TABLE(X) PROVE_ANSWER_COUNT };
#undef X
const char *prove_answer_name(enum prove_answer a);

struct prove_side {
	int line;      /* of the candidate */
	char text[40]; /* which orders of its operands were met: "less, greater" */
};
struct prove_result {
	enum prove_answer answer;
	char text[1024];  /* proved: shapes; not proved: the first place; outside: the operation; refuted: the input */
	int line;         /* candidate's, or 0 */
	int rounds;       /* points at which residues were compared */
	int undecided;    /* points that did not decide a branch */
	int64_t elements; /* of all outputs */
	bool is_floating; /* the reference returns floats, among others */
	double degree;    /* of the two expressions together, at most */
	double bound;     /* chance that different expressions agree in all rounds that count, by degree / field size */
	bool is_theorem;  /* arithmetic alone (Schwartz, Zippel); else a conjecture */
	int nsides;
	struct prove_side sides[PROVE_SIDES_MAX]; /* comparisons that the points took one way alone */
	double seconds;
};
struct prove_options {
	uint64_t seed;
	uint64_t deadline_ns; /* absolute; 0: none */
	/* (buffers of the tape): the reference's parameter that a constant stands for, or NULL. */
	const char *const *const_names;
};
/* 0 with an answer (never REFUTED: that takes a replay); ERR_FORMAT, ERR_LIMIT or ERR_RANGE where
 * the graph makes no sense. */
int prove_run(const struct tape *t, const struct prove_draw *draws, int ndraws, const struct prove_options *o,
	struct prove_result *out, struct err *err);
json_t *prove_result_json(const struct prove_result *r);
/* Of what another process said: ERR_FORMAT where it makes no sense. is_floating is the caller's. */
int prove_result_parse(const json_t *o, struct prove_result *out, struct err *err);
#endif
