/* For programs that make several verifiers, and ask nothing of how their workers start. */
#ifndef HONE_TESTS_WARM_H
#define HONE_TESTS_WARM_H
#include "base/base.h"
#include <stdlib.h>
#include <unistd.h>

/* Starts this program, which is there, once more by tests/warm_python.py, unless that did. timer:
 * "--timer" where references are timed, or NULL. */
static void run_warm(const char *program, const char *timer)
{
	if (getenv("WARM_WORKERS")) return;
	char *python = path_python();
	if (!python) fail_msg("no Python");
	char *words[] = {python, (char *)(uintptr_t)"tests/warm_python.py", (char *)(uintptr_t)(timer ? timer : program),
		(char *)(uintptr_t)(timer ? program : NULL), NULL};
	execv(python, words);
	fail_msg("starting %s", python);
}
#endif
