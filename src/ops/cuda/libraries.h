/* libraries: where NVIDIA's libraries are looked for, which are opened at run time. Plain C that
 * knows nothing of CUDA: part of the CUDA library, and of tests. */
#ifndef HONE_CUDA_LIBRARIES_H
#define HONE_CUDA_LIBRARIES_H
#include "base/base.h"

struct library_places {
	const char *const *names; /* of the file, the first one that opens is taken; ends with NULL */
	const char *named;        /* --cuda_libs; NULL: none */
	const char *beside;       /* where the library may lie from there, too; NULL: nowhere else */
	bool only_named;          /* a folder that was named has it, or nobody */
	const char *own;          /* a folder that is looked into next; NULL: none */
	const char *packages;     /* its folder among a Python's packages: of the Python that runs candidates */
};
/* Behind these places comes the loader's own path. NULL: nowhere; tried says
 * where it was looked for. */
void *library_open(const struct library_places *, struct str *tried);
#endif
