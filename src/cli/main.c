/* hone's main: finds the command in the table and runs it. */
#include "cli/cli.h"
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>

struct command {
	const char *name;
	const char *summary; /* one line of the list of commands */
	int (*run)(int argc, char **argv);
};

#define X(name, summary) {#name, summary, cmd_##name},
static const struct command commands[] = {COMMAND_TABLE(X)};
#undef X

static void print_help(FILE *to)
{
	fprintf(to,
		"hone trains language models to write GPU kernels that are correct, fast and honest.\n\nusage: hone COMMAND "
		"[OPTIONS]\n\n");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(to, "\n`hone COMMAND --help` lists a command's options.\n");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (!strcmp(name, commands[i].name)) return &commands[i];
	return NULL;
}

static int unknown_command(const char *name)
{
	const char *best = NULL;
	int best_distance = 1 + (int)strlen(name) / 2;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		int d = name_distance(name, strlen(name), commands[i].name);
		if (d < best_distance) {
			best_distance = d;
			best = commands[i].name;
		}
	}
	if (best) fprintf(stderr, "hone: unknown command \"%s\"; did you mean \"%s\"?\n", name, best);
	else fprintf(stderr, "hone: unknown command \"%s\"; `hone --help` lists the commands\n", name);
	return 2;
}

int cli_fail(const char *command, const struct err *err)
{
	/* Stores, model files and candidates are strangers', and errors cite them. */
	char text[sizeof err->text];
	memcpy(text, err->text, sizeof text);
	text_make_printable(text);
	fprintf(stderr, "hone %s: %s\n", command, text);
	return err->code == ERR_USAGE ? 2 : 1;
}

int cli_fail_judging(const char *command, const struct err *err)
{
	cli_fail(command, err);
	return err->code == ERR_USAGE || err->code == ERR_NOT_FOUND || err->code == ERR_IO || err->code == ERR_FORMAT ? 2
																												  : 3;
}

int cli_out_check(const char *out, enum cli_out kind, struct err *err)
{
	const char *what = kind == CLI_OUT_FOLDER ? "folder" : "file";
	if (!*out) return err_set(err, ERR_USAGE, "--out is empty: name a %s", what);
	if (path_is_same(out, "/"))
		return err_set(err, ERR_USAGE, "--out %s is the root of the file system; name a %s", out, what);
	return kind == CLI_OUT_FOLDER ? dir_check_writable(out, err) : file_check_writable(out, err);
}

int cli_save_json(const char *dir, const char *name, json_t *value, struct err *err)
{
	char *path = path_join(dir, name);
	int rc = json_save(path, value, err);
	json_decref(value);
	free(path);
	return rc;
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return 2;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (!strcmp(argv[1], "help") && argc == 2)) {
		print_help(stdout);
		return 0;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("hone " HONE_VERSION);
		return 0;
	}
	bool help = !strcmp(argv[1], "help");
	const char *name = argv[help ? 2 : 1];
	const struct command *c = find_command(name);
	if (!c) return unknown_command(name);
	char help_flag[] = "--help", *help_argv[] = {argv[1 + help], help_flag, NULL};
	return help ? c->run(2, help_argv) : c->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	if (!__builtin_cpu_supports("x86-64-v3")) {
		fprintf(stderr, "hone: this processor lacks x86-64-v3 (AVX2, FMA, BMI2), which hone is compiled for\n");
		return 1;
	}
	int rc = run(argc, argv);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "hone: cannot write the results to stdout: %s\n", strerror(errno));
		return 1;
	}
	return rc;
}
