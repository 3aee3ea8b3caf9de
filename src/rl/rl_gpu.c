/* A GPU that generates and on which kernels are timed: by turns, through the lock that the
 * verifier's timings take alone (verify/gpu_lock.h). Who waits to be alone goes before those who
 * come later, so an engine that gives the lock back after every step waits behind a timing, and a
 * timing for one step at most: a go of decoding, or a chunk of a prompt. */
#include "rl/rl_internal.h"
#include "base/base.h"
#include "infer/infer.h"
#include "verify/gpu_lock.h"

#define LOCK_MS 600000 /* that timings of others may take */

int gpu_hold(const char *gpu, const char *what, int *lock, struct err *err)
{
	*lock = -1;
	if (!gpu || !*gpu) return 0;
	int rc = gpu_lock_take(NULL, gpu, false, LOCK_MS, lock, err);
	return rc ? err_prefix(err, "%s", what) : 0;
}

void gpu_let_go(int lock) { gpu_lock_release(lock); }

int engine_step_held(struct engine *e, const char *gpu, int *active, struct err *err)
{
	int lock, rc = gpu_hold(gpu, "generation", &lock, err);
	if (rc) return rc;
	engine_step(e, active);
	if (lock >= 0) engine_wait(e);
	gpu_let_go(lock);
	return 0;
}
