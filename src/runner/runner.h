/* runner: hone-runner, the clean C process that replays tapes, and the words that it and the verify
 * room exchange.
 *
 *   hone-runner LEVEL MEMORY_BYTES, socket as descriptor 3, messages in base's framing, one JSON
 *   object each:
 *     runner      {"ready": true}  or  {"failed": text}                     once, after it entered
 *     the sandbox; before that it reads nothing
 *     supervisor  {"load": {"bytes": N}}                                    + descriptor: memfd
 *     with the tape's text
 *     runner      {"loaded": {"tf32_line": L, "order_line": L, "narrow_line": L}}  or  {"fault": {...}}   of a tf32
 *     dot on fp32 operands, of a reduction that may depend
 *                                                                          on the order; -1 when
 *                                                                          there is none
 *     supervisor  {"trial": {...struct runner_trial...}}                    + descriptors: memfd
 *     with the given data, memfd for the outputs
 *     runner      {"trial": {...struct runner_result...}}
 * Any number of loads and trials, all of one candidate; the end of the stream ends the process. A
 * load replaces the tape; kernels that were seen before are not parsed again.
 *
 * The runner never sees expected values. Whoever controls it could fake outputs but not know what
 * to fake: the supervisor treats its messages as untrusted data. */
#ifndef HONE_RUNNER_H
#define HONE_RUNNER_H
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"

#define RUNNER_MESSAGE_BYTES_MAX ((size_t)8 << 20)
#define RUNNER_NAME_BYTES_MAX 512

/* Where one input or parameter lies in the given memfd. name: parameters only. may_change: the
 * reference itself modifies it, so a kernel may too. for_const: the values of the tape's *constant*
 * of this name (a parameter that the candidate calls otherwise). */
struct runner_given {
	const char *name;
	int64_t offset, bytes;
	bool may_change, for_const;
};
struct runner_trial {
	int ninputs;
	struct runner_given *inputs;
	int nparams;
	struct runner_given *params;
	int64_t output_offset[TAPE_OUTPUTS_MAX]; /* of each output in the outputs memfd, dense row-major */
	bool want_cost, crosswise;               /* crosswise: reductions combine in the vm's second order */
	int deadline_ms;                         /* for the whole replay */
};

/* code: a vm fault's name, or one of
 *   bad-tape     the tape does not parse, or does not fit the given data (sizes, names)
 *   bad-ir       a kernel's IR does not parse          unsupported-op  it has an operation the vm
 *   does not know
 *   memory       buffers over the bound                library-row     a torch operator stands on
 *   the data path
 *   input-modified, param-modified                     a movement row or kernel wrote to what the
 *   reference leaves alone
 *   canary       memory around a buffer changed: our own bug, never the candidate's */
struct runner_fault {
	char code[32], text[1024];
	int line, row;
};

struct runner_row_cost {
	int row;
	enum tape_row_kind kind;
	int64_t programs, bytes, sectors, flops, special, dot_flops, footprint_bytes;
	int kernel;            /* of a launch: into the tape's kernels */
	struct vm_cost counts; /* of a launch: what the predicted time is made from */
};
struct runner_line_cost {
	int line;
	int64_t bytes, sectors, flops;
};
struct runner_result {
	bool has_fault;
	struct runner_fault fault;
	enum tape_lineage lineage;
	int lineage_output;
	int ncosts;
	struct runner_row_cost *costs; /* want_cost: one for each row that ran; heap */
	int nlines;
	struct runner_line_cost *lines; /* want_cost: heap */
	int64_t run_ns;
};
void runner_result_release(struct runner_result *r);

json_t *runner_trial_json(const struct runner_trial *t, int noutputs);
/* out's strings point into o; release with runner_trial_release. */
int runner_trial_parse(const json_t *o, int noutputs, struct runner_trial *out, struct err *err);
void runner_trial_release(struct runner_trial *t);
json_t *runner_result_json(const struct runner_result *r);
int runner_result_parse(const json_t *o, struct runner_result *out, struct err *err);
json_t *runner_fault_json(const struct runner_fault *f);
int runner_fault_parse(const json_t *o, struct runner_fault *out, struct err *err);

/* Bytes that an output takes in the outputs memfd: dense, rounded up to 64. */
int64_t runner_output_bytes(const struct tape_view *v);
#endif
