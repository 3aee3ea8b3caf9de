#include "ops/ops_check.h"
int ops_check_create(const struct ops_options *o, struct ops **out, struct err *err)
{
	return ops_cpu_create(o, out, err);
}
