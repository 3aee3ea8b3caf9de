/* calibrate: what this machine's GPU can do at most, measured (`hone doctor --calibrate`) and kept
 * in a file of the user's: bytes of a large copy, products of square matrices. What a kernel's
 * floor is computed from. */
#ifndef HONE_CALIBRATE_H
#define HONE_CALIBRATE_H
#include "base/base.h"

/* Which GPU, and what its figures depend on. */
struct gpu_identity {
	char name[64];        /* "NVIDIA H200" */
	char uuid[48];        /* "GPU-..." */
	int driver;           /* CUDA version that it knows: 13000 */
	int clock_khz;        /* limit of its multiprocessors' */
	int memory_clock_khz; /* limit of its memory's */
};
/* A second; 0: not measured. */
struct gpu_peaks {
	double copy_bytes; /* of a large copy, read and written together */
	double fp32_flops; /* of products of square matrices */
	double tf32_flops;
	double bf16_flops;
};
/* Where a GPU's figures lie: $XDG_CACHE_HOME/hone/ or $HOME/.cache/hone/. The caller
 * frees it; NULL: no home. */
char *gpu_peaks_path(const char *uuid);
/* ERR_NOT_FOUND: never measured; ERR_MISMATCH: with another driver, or other
 * limits of its clocks. */
int gpu_peaks_load(const struct gpu_identity *gpu, struct gpu_peaks *out, struct err *err);
int gpu_peaks_save(const struct gpu_identity *gpu, const struct gpu_peaks *peaks, struct err *err);
/* Measures them on the device that `device` names ("cuda", "cuda:N"), alone on it, and saves them.
 * root: as in struct verify_options. */
int gpu_peaks_measure(
	const char *root, const char *device, struct gpu_peaks *out, struct gpu_identity *gpu, struct err *err);
#endif
