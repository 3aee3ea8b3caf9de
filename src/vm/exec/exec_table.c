/* Which function runs an instruction. */
#include "vm/exec/exec.h"
#include "vm/core/program.h"
#include "vm/map/map.h"

#define X(op, function) [op] = function,
vm_exec *const vm_exec_table[OP_COUNT] = {VM_OP_TABLE(X)};
#undef X
