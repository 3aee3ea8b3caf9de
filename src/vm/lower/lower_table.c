/* The operations of the IR that the machine knows: one row each. A name that has no row is refused
 * with ERR_UNSUPPORTED.
 *
 * Columns: name, lowering function, attributes and keywords it may have ("*": it reads its keywords
 * itself), least and most operands, results (-1: checked by the function), argument of the
 * function. */
#include "vm/lower/lower.h"
#include "base/base.h"
#include "ttir/ttir.h"
#include "vm/core/state.h"
#include "vm/map/map.h"

#define ANY TTIR_LIST_MAX
#define MEMORY_HINTS "cacheModifier evictionPolicy isVolatile boundaryCheck padding"
static const struct lower_row rows[] = {
	{"arith.constant", lower_constant, "", 0, 0, 1, 0},
	{"ub.poison", lower_poison, "", 0, 0, 1, 0},
	{"arith.cmpi", lower_cmp, "*", 2, 2, 1, 0},
	{"arith.cmpf", lower_cmp, "*", 2, 2, 1, 1},
	{"arith.select", lower_select, "", 3, 3, 1, 0},
	{"arith.extsi", lower_cast, "", 1, 1, 1, 0},
	{"arith.extui", lower_cast, "nneg", 1, 1, 1, 0},
	{"arith.trunci", lower_cast, "", 1, 1, 1, 0},
	{"arith.extf", lower_cast, "", 1, 1, 1, 0},
	{"arith.truncf", lower_cast, "*", 1, 1, 1, 0},
	{"arith.sitofp", lower_cast, "", 1, 1, 1, 0},
	{"arith.uitofp", lower_cast, "nneg", 1, 1, 1, 0},
	{"arith.fptosi", lower_cast, "", 1, 1, 1, 0},
	{"arith.fptoui", lower_cast, "", 1, 1, 1, 0},
	{"arith.index_cast", lower_cast, "", 1, 1, 1, 0},
	{"arith.index_castui", lower_cast, "nneg", 1, 1, 1, 0},
	{"arith.bitcast", lower_bitcast, "", 1, 1, 1, 0},
	{"tt.bitcast", lower_bitcast, "", 1, 1, 1, 0},
	{"arith.mulsi_extended", lower_extended, "", 2, 2, 2, MAP_MULHISI},
	{"arith.mului_extended", lower_extended, "", 2, 2, 2, MAP_MULHIUI},
	{"arith.addui_extended", lower_extended, "", 2, 2, 2, MAP_ADDI},
	{"math.fpowi", lower_fpowi, "", 2, 2, 1, 0},
	{"math.clampf", lower_map, "to", 3, 3, 1, MAP_CLAMPF},
	{"math.isnan", lower_class, "", 1, 1, 1, 0},
	{"math.isinf", lower_class, "", 1, 1, 1, 0},
	{"math.isfinite", lower_class, "", 1, 1, 1, 0},
	{"math.isnormal", lower_class, "", 1, 1, 1, 0},
	{"math.sincos", lower_sincos, "", 1, 1, 2, 0},
	{"tt.fp_to_fp", lower_fp_to_fp, "rounding", 1, 1, 1, 0},
	{"tt.ptr_to_int", lower_ptr_int, "", 1, 1, 1, 1},
	{"tt.int_to_ptr", lower_ptr_int, "", 1, 1, 1, 0},
	{"tt.clampf", lower_clamp, "propagateNan", 3, 3, 1, 0},
	{"tt.extern_elementwise", lower_extern, "libname libpath symbol pure", 1, 3, 1, 0},
	{"tt.elementwise_inline_asm", lower_inline_asm, "constraints packed_element pure", 0, 64, -1, 0},

	{"tt.splat", lower_splat, "", 1, 1, 1, 0},
	{"tt.unsplat", lower_unsplat, "", 1, 1, 1, 0},
	{"tt.make_range", lower_range, "start end", 0, 0, 1, 0},
	{"tt.expand_dims", lower_expand_dims, "axis", 1, 1, 1, 0},
	{"tt.broadcast", lower_broadcast, "", 1, 1, 1, 0},
	{"tt.reshape", lower_reshape, "allow_reorder efficient_layout", 1, 1, 1, 0},
	{"tt.trans", lower_trans, "order", 1, 1, 1, 0},
	{"tt.cat", lower_cat, "", 2, 2, 1, 0},
	{"tt.join", lower_join, "", 2, 2, 1, 0},
	{"tt.split", lower_split, "", 1, 1, 2, 0},
	{"tt.gather", lower_gather, "axis efficient_layout", 2, 2, 1, 0},
	{"tt.histogram", lower_histogram, "", 1, 2, 1, 0},

	{"tt.reduce", lower_reduce, "axis", 1, 64, -1, 0},
	{"tt.scan", lower_scan, "axis reverse", 1, 64, -1, 0},
	{"tt.map_elementwise", lower_map_elementwise, "pack", 1, 64, -1, 0},
	{"tt.dot", lower_dot, "inputPrecision maxNumImpreciseAcc", 3, 3, 1, 0},

	{"tt.dot_scaled", lower_dot_scaled, "scale lhs rhs fastMath lhs_k_pack rhs_k_pack", 3, 5, 1, 0},

	{"tt.get_program_id", lower_program_id, "*", 0, 0, 1, 0},
	{"tt.get_num_programs", lower_program_id, "*", 0, 0, 1, 1},
	{"tt.addptr", lower_addptr, "", 2, 2, 1, 0},
	{"tt.load", lower_load, MEMORY_HINTS, 1, 3, 1, 0},
	{"tt.store", lower_store, MEMORY_HINTS, 2, 3, 0, 0},
	{"tt.atomic_rmw", lower_atomic_rmw, "*", 2, 3, 1, 0},
	{"tt.atomic_cas", lower_atomic_cas, "*", 3, 3, 1, 0},
	{"tt.make_tensor_ptr", lower_make_tensor_ptr, "order", 1, 1 + 3 * VM_LAZY_DIMS, 1, 0},
	{"tt.advance", lower_advance, "", 1, 1 + VM_LAZY_DIMS, 1, 0},
	{"tt.make_tensor_descriptor", lower_make_descriptor, "padding", 1, 1 + 2 * VM_LAZY_DIMS, 1, 0},
	{"tt.descriptor_load", lower_descriptor_load, "cacheModifier evictionPolicy", 1, 1 + VM_LAZY_DIMS, 1, 0},
	{"tt.descriptor_store", lower_descriptor_store, "", 2, 2 + VM_LAZY_DIMS, 0, 0},
	{"tt.descriptor_gather", lower_descriptor_gather, "", 3, 3, 1, 0},
	{"tt.descriptor_scatter", lower_descriptor_scatter, "", 4, 4, 0, 0},
	{"tt.descriptor_reduce", lower_descriptor_reduce, "*", 2, 2 + VM_LAZY_DIMS, 0, 0},
	{"tt.assert", lower_assert, "", 1, 1, 0, 0},
	{"tt.print", lower_print, "hex isSigned", 0, ANY, 0, 0},
	{"llvm.intr.assume", lower_assume, "", 1, 1, 0, 0},
	{"gpu.barrier", lower_barrier, "", 0, 0, 0, 0},
	{"ttg.barrier", lower_barrier, "*", 0, 0, 0, 0},

	{"scf.for", lower_for, "", 3, ANY, -1, 0},
	{"scf.while", lower_while, "", 0, ANY, -1, 0},
	{"scf.if", lower_if, "", 1, 1, -1, 0},
	{"scf.execute_region", lower_execute_region, "no_inline", 0, 0, -1, 0},
	{"cf.assert", lower_assert, "", 1, 1, 0, 0},
	{"cf.switch", lower_switch, "", 1, 1, 0, 0},
	{"cf.br", lower_br, "", 0, 0, 0, 0},
	{"cf.cond_br", lower_cond_br, "", 1, 1, 0, 0},
	{"tt.call", lower_call, "", 0, ANY, -1, 0},
	{"tt.return", lower_return, "", 0, ANY, 0, 0},
};

/* Element-wise operations come from map.h; what has no dot in its name there exists only under a
 * libdevice symbol. */
const struct lower_row *lower_row_find(struct slice name)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (slice_is(name, rows[i].name)) return &rows[i];
#define X(id, text, nsrc, class, flops, special) {text, lower_map, "", nsrc, nsrc, 1, id},
	static const struct lower_row maps[] = {MAP_TABLE(X)};
#undef X
	for (size_t i = 0; i < ARRAY_LEN(maps); i++)
		if (strchr(maps[i].name, '.') && slice_is(name, maps[i].name)) return &maps[i];
	return NULL;
}
