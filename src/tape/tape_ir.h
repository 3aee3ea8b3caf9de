/* tape_ir: an answer in IR as a model writes it, to a tape and back
 * (docs/tape-format.md, Answers in IR).
 *
 *	// input x f32[M, N]
 *	// output y f32[M, N]
 *	// launch relu[cdiv(M * N, 256)](x, y, M * N)
 *	module {
 *	  tt.func public @relu(%x: !tt.ptr<f32>, ...) attributes {noinline = false} {
 *	  ...
 *
 * The head is lines that open with two slashes: the memory there is, and what is launched with
 * which grid and arguments, as expressions of the inputs' sizes, so that one answer is a tape for
 * each sizes that it is for. Behind it stand the kernels' modules as Triton prints them, without
 * locations: those are the answer's own lines, and so verdicts and costs speak of them.
 *
 * Both directions are functions without state. What is read is hostile. */
#ifndef HONE_TAPE_IR_H
#define HONE_TAPE_IR_H
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"

/* One of forward's tensors, or a parameter. */
struct tape_ir_tensor {
	const char *name; /* of a parameter, as in state_dict; else NULL */
	enum dtype dtype;
	int ndim;
	int64_t shape[TAPE_DIMS_MAX];
	int64_t stride[TAPE_DIMS_MAX]; /* in elements; of an input */
};
struct tape_ir_sizes {
	int ninputs;
	const struct tape_ir_tensor *inputs; /* (ninputs) forward's tensor arguments, flattened */
	int nparams;
	const struct tape_ir_tensor *params; /* (nparams) that the reference has, dense */
};

/* Whether a candidate's text is an answer in this form. No module of Python begins so. */
bool tape_ir_is(const char *text, size_t len);
/* Appends the tape's text at these sizes. ERR_RANGE: it says that it is for others. ERR_FORMAT: it
 * is no such answer. err names the line, and so does *line. */
int tape_ir_read(
	const char *text, size_t len, const struct tape_ir_sizes *sizes, struct str *tape, int *line, struct err *err);

/* One program at one set of sizes. */
struct tape_ir_seen {
	struct tape_ir_sizes sizes;
	const struct tape *tape;
};
/* Appends the answer in IR whose tapes these are, without lines and divisors of integers. The
 * first one's sizes have to be right; the others say how numbers follow from sizes, and where
 * they do not agree the answer is for the first sizes alone. ERR_MISMATCH: the form cannot
 * say it, err names what. */
int tape_ir_write(const struct tape_ir_seen *seen, int count, struct str *out, struct err *err);
#endif
