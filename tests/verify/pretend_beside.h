/* For programs whose verifier is to have a GPU that is none (pretend_gpu.c). */
#ifndef HONE_TESTS_PRETEND_BESIDE_H
#define HONE_TESTS_PRETEND_BESIDE_H
#include "base/base.h"
#include <stdlib.h>
#include <unistd.h>
#include "warm.h"

/* The verifier takes the runner of its program's own folder, so this program runs from
 * beside the pretended one; with workers that are warm. */
static void move_beside(char **argv)
{
	char self[4096] = "", place[4200];
	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	char *slash = strrchr(self, '/');
	if (slash - self >= 8 && !strncmp(slash - 8, "/pretend", 8)) {
		run_warm(self, "--timer");
		return;
	}
	snprintf(place, sizeof place, "%.*s/pretend%s", (int)(slash - self), self, slash);
	/* There it is too deep to find Python by itself. */
	char *python = path_python();
	if (python) setenv("HONE_PYTHON", python, 0);
	free(python);
	unlink(place);
	if (link(self, place)) fail_msg("linking %s beside the pretended runner", self);
	execv(place, argv);
	fail_msg("starting %s", place);
}
#endif
