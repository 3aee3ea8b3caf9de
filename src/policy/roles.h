/* roles: the questions that a policy outside is asked for one answer, in the order of the table
 * (private to the room; policy.h has the option). A struct roles is immutable once opened. */
#ifndef HONE_ROLES_H
#define HONE_ROLES_H
#include "base/base.h"

enum role { ROLE_TEST, ROLE_PROFILE, ROLE_PLAN, ROLE_CODE, ROLE_COUNT };
struct roles;
const char *role_name(int role);
/* Reads NAME.txt of each role from a folder, or from the one of that name that ships with hone. The
 * code has to be there; a hole that nobody fills is refused with its file. */
int roles_open(const char *folder, struct roles **out, struct err *err);
void roles_free(struct roles *r);
int roles_next(const struct roles *r, int role); /* behind `role`, -1: the first */
/* Appends the role's message. said: (ROLE_COUNT) what the roles before it answered. */
void roles_render(const struct roles *r, int role, const char *request, char *const *said, struct str *out);
#endif
