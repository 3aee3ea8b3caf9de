/* Hostile kernels: whatever the text, vm_kernel_create returns, and what it accepts runs (with a
 * deadline) without touching memory that is not its own. Shared by the mutation test and the fuzz
 * program. */
#ifndef HOSTILE_KERNEL_H
#define HOSTILE_KERNEL_H
#include "tape/tape.h"
#include "vm/vm.h"
#include <stdlib.h>

#define HOSTILE_LAUNCH_NS 2000000

static inline void hostile_launch(struct vm_kernel *k)
{
	enum { BUFFER_BYTES = 4096 };
	static uint8_t data[3][BUFFER_BYTES];
	struct vm_buffer buffers[3];
	struct vm_arg args[64];
	int n = vm_kernel_nargs(k), b = 0;
	if (n > 64) return;
	/* Buffers of unlike sizes, pointers to each in turn, and plain values. */
	for (int i = 0; i < 3; i++)
		buffers[i] = (struct vm_buffer){
			.address = tape_buffer_address(i), .bytes = BUFFER_BYTES - 8 * i, .data = data[i]};
	for (int i = 0; i < n; i++) {
		args[i] = (struct vm_arg){
			.i = vm_kernel_arg_is_pointer(k, i) ? (int64_t)tape_buffer_address(b++ % 3) : 7, .f = 0.5};
		if (!strcmp(vm_kernel_arg_type(k, i), "i1")) args[i].i = 1;
	}
	struct vm_launch_options o = {.grid = {2, 1, 1},
		.args = args,
		.nargs = n,
		.buffers = buffers,
		.nbuffers = 3,
		.deadline_ns = clock_ns() + HOSTILE_LAUNCH_NS,
		.fma_contract = n & 1,
		.want_cost = n & 2};
	/* Once as it is, and once with every check. */
	struct vm_report r;
	struct err err;
	vm_launch(k, &o, &r, &err);
	vm_report_release(&r);
	o.checks = VM_CHECK_ALL;
	o.crosswise = true;
	o.findings_max = 8;
	o.deadline_ns = clock_ns() + HOSTILE_LAUNCH_NS;
	vm_launch(k, &o, &r, &err);
	vm_report_release(&r);
}

/* Whether the text is accepted; what is accepted is run. The text is copied to a block of its exact
 * size, so that a read past its end is seen. */
static inline bool hostile_kernel(const char *text, size_t len)
{
	char *exact = xmalloc(len ? len : 1);
	struct vm_kernel *k = NULL;
	struct err err = {0};
	if (len) memcpy(exact, text, len);
	int rc = vm_kernel_create(exact, len, &k, &err);
	free(exact);
	CHECK(rc == 0 ? k != NULL : rc < 0 && err.text[0]);
	if (rc) return false;
	hostile_launch(k);
	vm_kernel_free(k);
	return true;
}
#endif
