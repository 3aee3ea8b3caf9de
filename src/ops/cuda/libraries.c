/* libraries: a folder that was named, the program's, those of a Python's packages, the loader's. */
#include "ops/cuda/libraries.h"
#include "base/base.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#define MINOR_FIRST 9 /* of the Python 3 whose packages they may be */
#define MINOR_END 20

/* folder NULL: the loader's path. */
static void *folder_try(const struct library_places *p, const char *folder, struct str *tried)
{
	void *library = NULL;
	for (int i = 0; p->names[i] && !library; i++) {
		char *path = folder ? path_join(folder, p->names[i]) : xstrdup(p->names[i]);
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		/* One that is there and does not load is told in the loader's words. */
		const char *why = !library && folder && path_exists(path) ? dlerror() : NULL;
		if (!library) str_printf(tried, "%s%s", tried->len ? ", " : "", path);
		if (why) str_printf(tried, " (does not load: %s)", why);
		free(path);
	}
	return library;
}

/* ENVIRONMENT/bin/python has its packages in ENVIRONMENT/lib/python3.x/site-packages. */
static void *packages_try(const struct library_places *p, const char *python, struct str *tried)
{
	const char *slash = strrchr(python, '/');
	bool is_there = false;
	void *library = NULL;
	for (int minor = MINOR_FIRST; slash && !library && minor < MINOR_END; minor++) {
		char *folder = xasprintf(
			"%.*s/../lib/python3.%d/site-packages/%s", (int)(slash - python), python, minor, p->packages);
		if (path_exists(folder)) is_there = true, library = folder_try(p, folder, tried);
		free(folder);
	}
	if (!is_there)
		str_printf(tried, "%sthe packages of %s, which have no %s", tried->len ? ", " : "", python, p->packages);
	return library;
}

void *library_open(const struct library_places *p, struct str *tried)
{
	void *library = NULL;
	/* A folder that was named and is not right is told, not passed over. */
	if (p->named) {
		library = folder_try(p, p->named, tried);
		char *beside = p->beside ? path_join(p->named, p->beside) : NULL;
		if (!library && beside) library = folder_try(p, beside, tried);
		free(beside);
		if (p->only_named) return library;
	}
	if (!library && p->own) library = folder_try(p, p->own, tried);
	/* The Python of HONE_PYTHON, else the one that make setup made: as for candidates. */
	char *python = library ? NULL : path_python();
	if (python) library = packages_try(p, python, tried);
	free(python);
	return library ? library : folder_try(p, NULL, tried);
}
