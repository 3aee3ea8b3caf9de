/* depend: what the counts of a launch depend on, read from the program without running it: whether
 * they follow from arguments, grid and program numbers alone. Private to the vm room. */
#ifndef HONE_VM_DEPEND_H
#define HONE_VM_DEPEND_H
#include "vm/core/program.h"

struct vm_dependence {
	int data_instr;     /* the first whose address, mask or branch depends on what some instruction read; -1: none */
	const char *what;   /* of data_instr: "the address of a load" */
	bool steered;       /* some branch or trip count depends on the program's number */
	bool *is_of_data;   // (ninstrs): some operand comes of what was read
	bool *is_control;   // (ninstrs): what has to run for branches and trip counts to be known
};
/* Whether a program may wait for another, or take its work from where others take theirs: some loop
 * has an atomic or a volatile load, and a branch that hangs on what is read there. */
bool vm_may_wait(const struct vm_program *p);
void vm_dependence_make(const struct vm_program *p, struct vm_dependence *out);
void vm_dependence_release(struct vm_dependence *d);
#endif
