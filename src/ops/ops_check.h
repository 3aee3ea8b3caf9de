/* ops_check: the backend of the device "check", for tests: the CPU's table,
 * wrapped (ops_check.c). */
#ifndef HONE_OPS_CHECK_H
#define HONE_OPS_CHECK_H
#include "base/base.h"
#include "ops/ops.h"

int ops_check_create(const struct ops_options *, struct ops **out, struct err *err);
#endif
