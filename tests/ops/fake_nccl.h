/* What the NCCL without a GPU (fake_nccl.c) is told to do, and tells that it did. */
#ifndef HONE_TESTS_FAKE_NCCL_H
#define HONE_TESTS_FAKE_NCCL_H

struct fake_nccl {
	int version;
	const char *fails; /* the call that gives `status` at once; NULL: none */
	int status;
	int looks;       /* at the state until what was begun is done; -1: never */
	int state;       /* what the state is then; 0: all is well */
	int abort_hangs; /* 1: CommAbort does not come back */
	/* what it did */
	int blocking; /* of the configuration it was given */
	int aborts;
	int before; /* calls while another was under way, which NCCL does not allow */
};
typedef struct fake_nccl *fake_nccl_fn(void);
#endif
