/* bench: what the subjects of `hone bench` share. cpu and text have a peer in Python, which is run
 * in turns with hone and prints one JSON object; rl has hone's own long way beside it. */
#ifndef HONE_CLI_BENCH_H
#define HONE_CLI_BENCH_H
#include "base/base.h"
#include "cli/cli.h"

int bench_text(int argc, char **argv);   /* bench_text.c */
int bench_rl(int argc, char **argv);     /* bench_rl.c */
int bench_gpu(int argc, char **argv);    /* bench_gpu.c */
int bench_verify(int argc, char **argv); /* bench_verify.c */
/* Runs a program (argv ends with NULL) in the current folder and parses what it prints; the first
 * two of argv, Python and script, may be those that ship with hone. Its stderr is ours. */
int bench_peer_run(char *const *argv, json_t **out, struct err *err);
/* A temporary folder for files that hone and its peer share; whoever makes one takes away those of
 * processes that were killed. The caller removes it. */
int bench_folder_make(char *path, size_t len, struct err *err);
/* Of the wall clock, or with cpu_time of this process's processor time. */
double bench_seconds(bool cpu_time);
#endif
