/* What the two sides of a proof share. */
#ifndef HONE_PROVE_INTERNAL_H
#define HONE_PROVE_INTERNAL_H
#include "base/base.h"
#include "field/field.h"
#include "prove/prove.h"
#include "tape/tape.h"

#define PROVE_BYTES_MAX ((int64_t)4 << 30) /* of exact values on either side */

/* How one side of one round ended, when it did not run through. */
enum prove_end { PROVE_DONE, PROVE_UNDECIDED, PROVE_LEFT /* outside */, PROVE_FAULT };
struct prove_stop {
	enum prove_end end;
	char text[640];
	int line;
};
int prove_stop_at(struct prove_stop *s, enum prove_end end, int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The exact values of one memory image: an input (by index) or a parameter (by name). */
struct prove_leaf {
	struct prove_memory memory;
	int64_t count;
	bool is_float;
	struct field_value *values; /* (count): of floats */
};
struct prove_leaves {
	int ninputs;
	int nparams;
	struct prove_leaf *inputs; /* (ninputs) */
	struct prove_leaf *params; /* (nparams) */
};

struct prove_output {
	bool is_float;
	int64_t count;
	struct field_value *values; /* (count) */
	int64_t *ints;              /* (count) */
	char dtype[24];
	int ndim;
	int64_t shape[TAPE_DIMS_MAX];
};
struct prove_outputs {
	int n;
	struct prove_output outputs[TAPE_OUTPUTS_MAX];
};

/* The reference: 0, 1 with *stop set, or a negative code. */
int graph_run(const struct prove_draw *d, struct field *f, const struct prove_leaves *leaves, uint64_t deadline_ns,
	struct prove_outputs *out, struct prove_stop *stop, struct err *err);

/* The tape, over several rounds. */
struct tape_side;
int tape_side_create(const struct tape *t, struct tape_side **out, struct prove_stop *stop);
void tape_side_free(struct tape_side *s);
int tape_side_run(struct tape_side *s, const struct prove_draw *d, struct field *f, const struct prove_leaves *leaves,
	const struct prove_options *o, struct prove_outputs *out, struct prove_stop *stop);
struct vm_exact_report;
const struct vm_exact_report *tape_side_report(const struct tape_side *s); /* sides, gathered over all launches */
#endif
