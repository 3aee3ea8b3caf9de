/* guided: inputs on which a candidate's own comparisons take sides that the
 * ordinary trials left out.
 *
 * While ordinary trials run, the vm records for each comparison, minimum, clamp, select, mask and
 * function end on data which sides were taken (vm.h, struct vm_site). Where all were, nothing more
 * is done. For the others inputs are searched: the oracle makes them by recipe and computes what is
 * expected, so that each of them is a trial that counts. What no input reached is in the record. */
#ifndef HONE_VERIFY_GUIDED_H
#define HONE_VERIFY_GUIDED_H
#include "base/base.h"
#include "runner/runner.h"
#include "verify/verify_internal.h"

struct guided;
void guided_free(struct guided *s);
/* After each trial in order on the vm: what it showed. */
void guided_note(struct grading *g, int variant, const struct runner_coverage *c);
/* The line at which values lost digits on their way to memory in nearly all lanes
 * of all trials; 0: none. */
int guided_lost_line(const struct grading *g);
/* Whether some side of a variant's tape is worth a search: it was approached, and no bound showed.
 * Sides that an earlier variant's tape has at the same place of the source are that one's. */
bool guided_wants(const struct grading *g, int variant);
/* The search, with the variant's tape loaded in g->runner. GRADE_ON, or GRADE_END when the
 * candidate is wrong on what was found. */
int guided_search(struct grading *g, const struct trace *tr, int variant, struct err *err);
/* Whether the kernels look at data at a place of the source (line from 1, column from 0). */
bool guided_has_site(const struct grading *g, int line, int column);
/* A line of the record about what no trial reached. */
void guided_unreached_add(struct verdict *v, int line, const char *text);
/* Writes into the verdict what was reached and what was not. */
void guided_report(struct grading *g);
#endif
