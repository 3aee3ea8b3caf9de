/* cli: the commands. Each lives in cmd_<name>.c as `int cmd_<name>(int argc, char **argv)` with
 * argv[0] = its name; it parses its options with options_parse, prints results to stdout and
 * everything else to stderr, and returns the exit status: 0 done, 1 failed, 2 wrong usage. To add a
 * command: its file and one row here. */
#ifndef HONE_CLI_H
#define HONE_CLI_H
#include "base/base.h"

#define HONE_VERSION "0.1.0"

/* In the order in which `hone --help` prints them. */
#define COMMAND_TABLE(X) \
	X(doctor, "what this machine offers, what is missing and how to get it") \
	X(init,   "make a random model and train its tokenizer") \
	X(import, "make a model folder of a GGUF file") \
	X(tasks,  "list, show, compose, import and audit task sets") \
	X(pairs,  "build pairs of prompt and answer for sft") \
	X(vm,     "run a Python script with its Triton kernels on the CPU, checked and costed") \
	X(verify, "grade a candidate kernel against its task") \
	X(prove,  "prove a candidate kernel equal to its task, over the real numbers") \
	X(tune,   "choose a kernel's launch parameters for a card") \
	X(sft,    "train on pairs of prompt and answer") \
	X(rl,     "train by reinforcement learning with verified rewards") \
	X(distill, "fit the genuine answers that runs have found") \
	X(redteam, "send a verifier kernels that are wrong by construction") \
	X(eval,   "score a model, or kernels of others, on tasks") \
	X(generate, "continue a prompt") \
	X(score,  "log-probabilities of a completion under a model") \
	X(merge,  "merge an adapter into its model's weights, for export") \
	X(report, "write one HTML file about the runs in a store") \
	X(bench,  "measure the engine on this machine")

#define X(name, summary) int cmd_##name(int argc, char **argv);
COMMAND_TABLE(X)
#undef X

/* Prints "hone <command>: <text>" to stderr; returns the exit status for the error: 2 for
 * ERR_USAGE, 1 for all others. */
int cli_fail(const char *command, const struct err *err);
/* The same for commands that answer by 0 and 1: 2 for wrong usage and for files that cannot be
 * read, 3 where this machine could not judge. */
int cli_fail_judging(const char *command, const struct err *err);
/* Whether a command's --out can be written, asked before the long part. A folder is one of its own:
 * not the root of the file system. */
enum cli_out { CLI_OUT_FILE, CLI_OUT_FOLDER };
int cli_out_check(const char *out, enum cli_out kind, struct err *err);
/* Writes DIR/NAME of a model's folder; `value` is released in any case. */
int cli_save_json(const char *dir, const char *name, json_t *value, struct err *err);
#endif
