/* gpu_lock: one lock for each GPU, between all threads and processes of hone on a machine. Replays
 * whose time nobody looks at hold it shared, a window in which something is timed alone. Whoever
 * waits for it alone goes before those who come later, so a timing does not starve.
 *
 * The lock is a file of the GPU's UUID in the folder for such files; a
 * process that dies lets go. */
#ifndef HONE_GPU_LOCK_H
#define HONE_GPU_LOCK_H
#include "base/base.h"

/* folder: NULL for the machine's own ($HONE_LOCKS, else /tmp). *fd holds the lock
 * until gpu_lock_release. ERR_TIMEOUT: somebody held it all the time; ERR_IO with what
 * is wrong with the file. */
int gpu_lock_take(const char *folder, const char *uuid, bool alone, int timeout_ms, int *fd, struct err *err);
void gpu_lock_release(int fd);
#endif
