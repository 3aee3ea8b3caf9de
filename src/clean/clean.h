/* clean: hone-runner's main and what it serves beside trials. The process in which a candidate's IR
 * runs: nothing of the candidate's host code was ever in it, and nothing but its socket is open to
 * it (runner.h has the messages). */
#ifndef HONE_CLEAN_H
#define HONE_CLEAN_H
#include <jansson.h>
#include <stdint.h>

/* A descriptor's bytes, mapped; NULL where there are none. Ends the process
 * where that does not work. */
const uint8_t *clean_map(int fd, int protection, int flags, int64_t *bytes);
void clean_unmap(const uint8_t *p, int64_t bytes);

/* The answer to {"proof"}: struct prove_result, or {"failed": text}. fds: memfds with the tape's
 * text, with the graphs as JSON, and for each graph with what it is given and with its tables. */
#define CLEAN_PROOF_FDS_MIN 4
json_t *clean_proof(const json_t *request, const int *fds, int nfds);
#endif
