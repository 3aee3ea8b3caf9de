/* hone vm: runs a Python script with its Triton kernels on the vm. This process becomes the Python
 * that runs it (worker/vm_main.py), so exit status, signals and terminal are the script's. No
 * sandbox: it is the user's own script. */
#include "cli/cli.h"
#include "base/base.h"
#include "cost/cost.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Values of the options below, whose help says what each is. */
struct vm_settings {
	bool check;
	bool cost;
	bool json;
	bool cuda_shim;
	bool fma_contract;
	const char *gpu;
	int64_t threads;
	int64_t configs;
};

#define O(type, field, help, choices) { #field, type, offsetof(struct vm_settings, field), help, choices }
static const struct option_def DEFS[] = {
	O(OPTION_BOOL, check, "all checks, and device_assert; memory accesses are always checked", NULL),
	O(OPTION_BOOL, cost, "after the script, what each kernel and line moved and computed, with predicted times", NULL),
	O(OPTION_BOOL, json, "with --cost: one JSON object, the last line of stdout", NULL),
	O(OPTION_BOOL, cuda_shim,
		"for scripts written for CUDA: device=\"cuda\" is the CPU, torch.cuda answers as the card would", NULL),
	O(OPTION_STR, gpu, "card that kernels are compiled for, whose limits hold and whose time is predicted", NULL),
	O(OPTION_BOOL, fma_contract,
		"join a product and the sum that is its only use into one fma, as NVIDIA's compiler does; default: round both",
		NULL),
	O(OPTION_INT, configs, "configurations that an autotuner compares, by predicted time", "1 to 100000"),
	O(OPTION_INT, threads, "threads that a launch may use; 0: cores", "0 to 4096"),
};
static const char SUMMARY[] =
	"run a Python script with its Triton kernels on the CPU: hone vm [OPTIONS] script.py [ARGS]\n"
	"The Python is $HONE_PYTHON's, else the active virtual environment's, else hone's own. The script runs "
	"unsandboxed, with your rights.\n"
	"Exit status: the script's; 1 when a kernel did what it must not";

/* Whether the word behind this one is its value. */
static bool takes_value(const char *arg)
{
	bool takes = !strcmp(arg, "--recipe");
	for (size_t i = 0; i < ARRAY_LEN(DEFS); i++)
		takes |= DEFS[i].type != OPTION_BOOL && !strncmp(arg, "--", 2) && !strcmp(arg + 2, DEFS[i].name);
	return takes;
}

/* Options end at the script's name; what follows is the script's. */
static int script_index(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] != '-') return i;
		i += takes_value(argv[i]);
	}
	return argc;
}

static char *find_python(void)
{
	const char *named = getenv("HONE_PYTHON"), *venv = getenv("VIRTUAL_ENV");
	bool is_active = venv && *venv && !(named && *named);
	return is_active ? path_join(venv, "bin/python") : path_python();
}

/* Beside this program: the library of the same build. */
static char *find_library(void)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0) return NULL;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	char *path = path_join(self, "libhone_vm.so");
	if (path_exists(path)) return path;
	free(path);
	return NULL;
}

static int become_python(
	const struct vm_settings *s, const struct vm_gpu *gpu, char **script, int nscript, struct err *err)
{
	char *python = find_python(), *library = find_library(), *program = path_installed("worker/vm_main.py");
	if (!python)
		return err_set(err, ERR_NOT_FOUND,
			"no Python: HONE_PYTHON and VIRTUAL_ENV are not set and hone's own (build/venv) is not there; `make setup` "
			"makes it");
	if (!library || !program)
		return err_set(err, ERR_NOT_FOUND, "%s is not installed with this program; `make all` builds it",
			library ? "worker/vm_main.py" : "libhone_vm.so");
	json_t *o = json_pack("{s:s, s:o, s:b, s:b, s:b, s:b, s:b, s:I, s:I}", "library", library, "gpu", vm_gpu_json(gpu),
		"check", s->check, "cost", s->cost, "json", s->json, "cuda_shim", s->cuda_shim, "fma_contract", s->fma_contract,
		"threads", (json_int_t)s->threads, "configs", (json_int_t)s->configs);
	char *settings = json_dumps(o, JSON_COMPACT);
	char **argv = xcalloc((size_t)nscript + 4, sizeof *argv);
	argv[0] = python;
	argv[1] = program;
	argv[2] = settings;
	memcpy(argv + 3, script, (size_t)nscript * sizeof *argv);
	execvp(python, argv);
	return err_set(err, ERR_IO, "cannot start the Python %s: %s; HONE_PYTHON names another", python, strerror(errno));
}

static int settings_check(const struct vm_settings *s, bool has_script, struct err *err)
{
	if (!has_script) return err_set(err, ERR_USAGE, "no script: hone vm [OPTIONS] script.py [ARGS]");
	if (s->json && !s->cost) return err_set(err, ERR_USAGE, "--json without --cost: there is nothing to print");
	return 0;
}

/* Python runs a folder with a __main__.py too. */
static int script_check(const char *path, struct err *err)
{
	struct stat st;
	if (stat(path, &st)) return err_set(err, ERR_USAGE, "%s: no such script", path);
	char *inside = path_join(path, "__main__.py");
	int rc = !S_ISDIR(st.st_mode) || path_exists(inside)
		? 0
		: err_set(err, ERR_USAGE, "%s: expected a Python script, found a folder", path);
	free(inside);
	return rc;
}

int cmd_vm(int argc, char **argv)
{
	struct vm_settings s = {.configs = 24, .gpu = VM_GPU_DEFAULT};
	const struct vm_gpu *gpu = NULL;
	struct err err = {0};
	int npos, at = script_index(argc, argv);
	/* Options alone: the parser would take the script's for its own. */
	char **own = xcalloc((size_t)at + 1, sizeof *own);
	memcpy(own, argv, (size_t)at * sizeof *own);
	int rc = options_parse("vm", SUMMARY, DEFS, ARRAY_LEN(DEFS), &s, at, own, &npos, &err);
	free(own);
	if (rc == 1) return 0;
	if (!rc) rc = settings_check(&s, at < argc, &err);
	if (!rc) rc = vm_gpu_named(s.gpu, &gpu, &err);
	if (!rc) rc = script_check(argv[at], &err);
	if (!rc) rc = become_python(&s, gpu, argv + at, argc - at, &err);
	return cli_fail("vm", &err);
}
