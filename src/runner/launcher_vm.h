/* launcher_vm: what the vm's launcher knows of its tape (launcher.h), and what its files ask of it:
 *
 *   launcher_vm.c            memory, launches and other rows, and their costs
 *   launcher_vm_missed.c     which elements of what was given its launches leave out
 *   launcher_vm_coverage.c   which sides of their comparisons its launches took */
#ifndef HONE_LAUNCHER_VM_H
#define HONE_LAUNCHER_VM_H
#include "runner/launcher.h"
#include "base/base.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include "vm/vm.h"

struct cached_kernel {
	struct sha256_hex hash;
	struct vm_kernel *kernel;
	struct vm_coverage *coverage; /* NULL until a trial asks for it */
};
struct launcher_vm {
	struct launcher base;
	const struct tape *tape;
	int nbuffers; /* of the tape: what blocks and origin hold */
	int64_t memory_bytes;
	int ncached;
	struct cached_kernel *cached;
	struct vm_kernel **kernels;   /* (tape->nkernels), owned by cached */
	int *cached_of;               /* (tape->nkernels): into cached */
	uint8_t **blocks;             /* (tape->nbuffers): canary, data, canary */
	uint8_t **origin;             /* (tape->nbuffers) */
	struct vm_buffer *memory;     /* (tape->nbuffers) */
	struct vm_followed *followed; /* (tape->nbuffers), in a trial that asks what launches do not use; else NULL */
	struct vm_held *held;         /* (tape->nbuffers): what launches alone leave there; NULL until a trial asks */
	int *held_at;                 /* (tape->nrows): held_changes when the row was looked at; 0: never */
	int held_changes;
	struct vm_compiled **compiled; /* (tape->nkernels), of the running trial, when it counts costs; else NULL */
	struct vm_progress progress;   /* of all launches so far */
	int trials;                    /* so far: each lays buffers out in another way */
	struct vm_range *ranges;       /* (tape->nbuffers, 2), where a launcher that samples is asked; else NULL */
	uint8_t *pattern;              /* of a launcher that samples: what all its buffers read; else NULL */
};

/* ---- launcher_vm_missed.c ---- */

/* From here to the end of the trial buffers that were given are followed, and small temporaries. */
void launcher_vm_follow(struct launcher_vm *v);
/* A row has moved memory. */
void launcher_vm_follow_move(struct launcher_vm *v, const struct tape_row *row);
void launcher_vm_follow_end(struct launcher_vm *v);
/* What one launch did not use, and the numbers next to nothing that it adds to data. */
void launcher_vm_missed_report(const struct vm_missed *missed, struct runner_coverage *out);
/* Elements that no launch has read, of buffers of which others were. */
void launcher_vm_unread_report(const struct launcher_vm *v, struct runner_coverage *out);

/* ---- launcher_vm_coverage.c ---- */

/* Where a kernel of the tape records its sides; made when it is first asked for. */
struct vm_coverage *launcher_vm_coverage(struct launcher_vm *v, int kernel);
/* Before the launch of a row that is recorded in c: what it may leave in the buffers behind its
 * arguments. address (n): where buffers ids[i] of the tape lie in this launch. */
void launcher_vm_hold(struct launcher_vm *v, int row, struct vm_coverage *c, const struct vm_arg *args, int nargs,
	const uint64_t *address, const int *ids, int n);
/* What the trial showed of the tape's kernels, each once; the next trial starts afresh. */
void launcher_vm_coverage_report(struct launcher_vm *v, struct runner_coverage *out);
/* As launcher.h has aim and turn. */
struct vm_aim *launcher_vm_aim(struct launcher *l, int site, enum vm_side side);
void launcher_vm_turn(struct launcher *l, enum vm_turn turn);
#endif
