#include "vm/vm_internal.h"
int lower_block_load(struct lowerer *lo, const struct ttir_op *op, int ptr) { return lower_fail(lo, ERR_UNSUPPORTED, "tt.load of a block pointer"); }
int lower_block_store(struct lowerer *lo, const struct ttir_op *op, const int *src) { return lower_fail(lo, ERR_UNSUPPORTED, "tt.store to a block pointer"); }
int exec_reduce(struct vm_ctx *c, const struct vm_instr *in) { return 0; }
int exec_scan(struct vm_ctx *c, const struct vm_instr *in) { return 0; }
int exec_map_region(struct vm_ctx *c, const struct vm_instr *in) { return 0; }
int exec_region_end(struct vm_ctx *c, const struct vm_instr *in) { return 0; }
