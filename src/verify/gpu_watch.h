/* gpu_watch: who else is on a GPU, by NVIDIA's management library (opened at run time; where there
 * is none, nothing is known). Other processes that only hold memory there, a desktop say, are a
 * fact for the record; one that computes while something is timed spoils the time.
 *
 * Ours are the processes that descend from this one, or from another of hone's (which keeps to the
 * GPU's lock). In a container the library may name processes by numbers of another namespace: those
 * that cannot be found here are counted against our own that are not on its list, and only what is
 * left over is another's. */
#ifndef HONE_GPU_WATCH_H
#define HONE_GPU_WATCH_H
#include <stddef.h>

struct gpu_watch;
struct gpu_seen {
	int others;    /* processes of others on the GPU; -1: not known */
	int activity;  /* of those, how many computed in the window, or up to a sample behind it; -1: not known */
	char text[96]; /* one that computed, for people */
};
/* One window. Each thread has its own: the next one's begins while the last one's
 * end is still looked at. */
struct gpu_window {
	unsigned long long since_us; /* time of the newest sample before it, since 1970 */
};
/* library: NULL for the system's. NULL when there is none, or it does not know
 * this GPU; text says why. */
struct gpu_watch *gpu_watch_open(const char *library, const char *uuid, char *text, size_t len);
void gpu_watch_close(struct gpu_watch *w);
/* A window opens, and ends. nown: our own processes with a context on the GPU. w may
 * be NULL. Where others are there the end takes up to 0.3 s, until the driver has looked at them
 * once more. Thread-safe. */
void gpu_watch_begin(struct gpu_watch *w, struct gpu_window *out);
void gpu_watch_end(struct gpu_watch *w, const struct gpu_window *window, int nown, struct gpu_seen *out);
#endif
