/* kernels: PTX of the launcher's own kernels (kernels.h). Offsets into the parameter of
 * hone_move and hone_cast are those of struct cuda_move, which the assertions below hold to. */
#include "runner/cuda/kernels.h"
#include "base/dtype.h"
#include <stddef.h>

#define AT(member, offset) _Static_assert(offsetof(struct cuda_move, member) == offset, "hone_move's parameter")
AT(src, 8);
AT(value, 16);
AT(count, 24);
AT(size, 28);
AT(ndim, 32);
AT(shape, 40);
AT(magic, 88);
AT(shift, 136);
AT(dst_step, 184);
AT(src_step, 280);
AT(from, 376);
AT(to, 380);
_Static_assert(sizeof(struct cuda_move) == 384, "hone_move's parameter");

/* The index of this thread in %i, and the number of threads of the grid in %step. */
#define THREAD_INDEX \
	"	mov.u32 %a, %ctaid.x;\n	mov.u32 %b, %ntid.x;\n	mov.u32 %c, %tid.x;\n	mov.u32 %e, %nctaid.x;\n" \
	"	mul.wide.u32 %i, %a, %b;\n	cvt.u64.u32 %t, %c;\n	add.u64 %i, %i, %t;\n	mul.wide.u32 %step, %e, %b;\n"

/* Element E of a thread: its index and addresses; whether there is one; a dimension; its bits,
 * which stand in a wider register. */
#define MOVE_BEGIN(E, apart) \
	"	add.u32 %i" E ", %i0, " apart ";\n	mov.u64 %d" E ", %d0;\n	mov.u64 %s" E ", %s0;\n" \
	"	mov.u64 %v" E ", %v0;\n"
#define MOVE_LIVE(E) "	setp.lt.u32 %live" E ", %i" E ", %n;\n	selp.u32 %i" E ", %i" E ", 0, %live" E ";\n"
#define MOVE_STEP(E) \
	"	mul.hi.u32 %q, %i" E ", %magic;\n	add.u32 %q, %q, %i" E ";\n	shr.u32 %q, %q, %shift;\n" \
	"	mul.lo.u32 %r, %q, %shape;\n	sub.u32 %r, %i" E ", %r;\n	mov.u32 %i" E ", %q;\n" \
	"	cvt.u64.u32 %at, %r;\n" \
	"	mad.lo.u64 %d" E ", %at, %step, %d" E ";\n	mad.lo.u64 %s" E ", %at, %from, %s" E ";\n"
/* From the parameter to the addresses of four elements a thread, 256 apart; the dimensions
 * are taken off their indices from the innermost one on. Those behind the last are element
 * 0, which is not moved. */
#define MOVE_PLACES \
	"	.reg .b32 %a, %c, %k, %n, %size, %shape, %magic, %shift, %q, %r, %i<4>;\n" \
	"	.reg .b64 %t, %at, %step, %from, %src, %d<4>, %s<4>, %v<4>;\n" \
	"	.reg .pred %is, %live<4>;\n" \
	"	ld.param.u64 %d0, [move];\n	ld.param.u64 %src, [move+8];\n	ld.param.u64 %v0, [move+16];\n" \
	"	ld.param.u32 %n, [move+24];\n	ld.param.u32 %size, [move+28];\n	ld.param.u32 %k, [move+32];\n" \
	"	mov.u64 %s0, %src;\n	mov.u32 %a, %ctaid.x;\n	mov.u32 %c, %tid.x;\n" \
	"	mad.lo.u32 %i0, %a, 1024, %c;\n" \
	MOVE_BEGIN("1", "256") MOVE_BEGIN("2", "512") MOVE_BEGIN("3", "768") \
	MOVE_LIVE("0") MOVE_LIVE("1") MOVE_LIVE("2") MOVE_LIVE("3") \
	"DIM:\n	sub.u32 %k, %k, 1;\n" \
	"	mul.wide.u32 %at, %k, 4;\n	mov.b64 %t, move;\n	add.u64 %at, %t, %at;\n" \
	"	ld.param.u32 %shape, [%at+40];\n	ld.param.u32 %magic, [%at+88];\n" \
	"	ld.param.u32 %shift, [%at+136];\n" \
	"	mul.wide.u32 %at, %k, 8;\n	add.u64 %at, %t, %at;\n" \
	"	ld.param.u64 %step, [%at+184];\n	ld.param.u64 %from, [%at+280];\n" \
	MOVE_STEP("0") MOVE_STEP("1") MOVE_STEP("2") MOVE_STEP("3") \
	"	setp.ne.u32 %is, %k, 0;\n	@%is bra DIM;\n"
#define MOVE_LOAD(E, type) "	@%live" E " ld.global." type " %v" E ", [%s" E "];\n"
#define MOVE_STORE(E, type) "	@%live" E " st.global." type " [%d" E "], %v" E ";\n"
#define MOVE_FOUR(move, type) move("0", type) move("1", type) move("2", type) move("3", type)
#define MOVE_SIZE(store, type) \
	"	@%is bra " store ";\n" MOVE_FOUR(MOVE_LOAD, type) store ":\n" MOVE_FOUR(MOVE_STORE, type) "	ret;\n"

/* hone_cast holds an element as a float (%f), a double (%g) or a whole number (%v), whichever has
 * room for each value of the type that it is read as, and goes on from there to the type that it is
 * written as. NaN is written as the card's own conversions write it. */
#define CAST_FOUR(cast) cast("0") cast("1") cast("2") cast("3")
#define CAST_BRANCH(which, code, label) "	setp.eq.u32 %is, " which ", " code ";\n	@%is bra " label ";\n"
#define CAST_IN(code, label) CAST_BRANCH("%in", code, label)
#define CAST_OUT(code, label) CAST_BRANCH("%out", code, label)
#define CAST_LOAD_WHOLE(label, type, next) label ":\n" MOVE_FOUR(MOVE_LOAD, type) "	bra " next ";\n"
#define CAST_STORE_WHOLE(label, type) label ":\n" MOVE_FOUR(MOVE_STORE, type) "	ret;\n"
#define CAST_LOAD_F32(E) "	@%live" E " ld.global.f32 %f" E ", [%s" E "];\n"
#define CAST_LOAD_F64(E) "	@%live" E " ld.global.f64 %g" E ", [%s" E "];\n"
#define CAST_LOAD_F16(E) "	@%live" E " ld.global.b16 %h" E ", [%s" E "];\n	cvt.f32.f16 %f" E ", %h" E ";\n"
#define CAST_LOAD_BF16(E) "	@%live" E " ld.global.b16 %h" E ", [%s" E "];\n	mov.b32 %f" E ", {0, %h" E "};\n"
#define CAST_IS_TRUE(E) "	setp.ne.s64 %is, %v" E ", 0;\n	selp.u64 %v" E ", 1, 0, %is;\n"
#define CAST_FLOAT_IS_TRUE(E) "	setp.neu.f32 %is, %f" E ", 0f00000000;\n	selp.u64 %v" E ", 1, 0, %is;\n"
#define CAST_DOUBLE_IS_TRUE(E) "	setp.neu.f64 %is, %g" E ", 0d0000000000000000;\n	selp.u64 %v" E ", 1, 0, %is;\n"
#define CAST_SIGNED_TO_F32(E) "	cvt.rn.f32.s64 %f" E ", %v" E ";\n"
#define CAST_SIGNED_TO_F64(E) "	cvt.rn.f64.s64 %g" E ", %v" E ";\n"
#define CAST_UNSIGNED_TO_F32(E) "	cvt.rn.f32.u64 %f" E ", %v" E ";\n"
#define CAST_UNSIGNED_TO_F64(E) "	cvt.rn.f64.u64 %g" E ", %v" E ";\n"
#define CAST_ZERO_IF(E) "	selp.s64 %v" E ", 0, %v" E ", %is;\n"
/* Whole numbers outside of 64 bits become the nearest end; NaN becomes 0. */
#define CAST_F32_TO_WHOLE(E) \
	"	cvt.rzi.s64.f32 %v" E ", %f" E ";\n	setp.nan.f32 %is, %f" E ", %f" E ";\n" CAST_ZERO_IF(E)
#define CAST_F64_TO_WHOLE(E) \
	"	cvt.rzi.s64.f64 %v" E ", %g" E ";\n	setp.nan.f64 %is, %g" E ", %g" E ";\n" CAST_ZERO_IF(E)
#define CAST_F64_TO_F32(E) "	cvt.rn.f32.f64 %f" E ", %g" E ";\n"
/* Rounded to odd, so that rounding once more to 16 bits is right (dtype.c). */
#define CAST_F64_TO_ODD(E) \
	"	cvt.rz.f32.f64 %f" E ", %g" E ";\n	cvt.f64.f32 %back, %f" E ";\n	setp.neu.f64 %is, %back, %g" E ";\n" \
	"	mov.b32 %a, %f" E ";\n	or.b32 %c, %a, 1;\n	selp.b32 %a, %c, %a, %is;\n	mov.b32 %f" E ", %a;\n"
#define CAST_F32_TO_F64(E) "	cvt.f64.f32 %g" E ", %f" E ";\n"
#define CAST_NAN_F32(E) "	setp.nan.f32 %is, %f" E ", %f" E ";\n	selp.f32 %f" E ", 0f7FFFFFFF, %f" E ", %is;\n"
#define CAST_NAN_F64(E) \
	"	setp.nan.f64 %is, %g" E ", %g" E ";\n	selp.f64 %g" E ", 0d7FFFFFFFFFFFFFFF, %g" E ", %is;\n"
#define CAST_STORE_F32(E) "	@%live" E " st.global.f32 [%d" E "], %f" E ";\n"
#define CAST_STORE_F64(E) "	@%live" E " st.global.f64 [%d" E "], %g" E ";\n"
#define CAST_STORE_F16(E) "	cvt.rn.f16.f32 %h" E ", %f" E ";\n	@%live" E " st.global.b16 [%d" E "], %h" E ";\n"
#define CAST_STORE_BF16(E) "	cvt.rn.bf16.f32 %h" E ", %f" E ";\n	@%live" E " st.global.b16 [%d" E "], %h" E ";\n"
#define CAST_F32 "1"
#define CAST_F64 "2"
#define CAST_F16 "3"
#define CAST_BF16 "4"
#define CAST_BOOL "5"
const uint8_t cuda_cast_codes[DTYPE_COUNT] = {[DTYPE_F32] = 1,
	[DTYPE_F64] = 2,
	[DTYPE_F16] = 3,
	[DTYPE_BF16] = 4,
	[DTYPE_BOOL] = 5,
	[DTYPE_I8] = 6,
	[DTYPE_I16] = 7,
	[DTYPE_I32] = 8,
	[DTYPE_I64] = 9,
	[DTYPE_U8] = 10,
	[DTYPE_U16] = 11,
	[DTYPE_U32] = 12,
	[DTYPE_U64] = 13};

const char cuda_own_ptx[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	/* Reads 16-byte words from `data`; the sum is written nowhere unless it is one in 2^32, so that
	 * the reads cannot be left out. */
	".visible .entry hone_read(.param .u64 data, .param .u64 words, .param .u64 sink)\n{\n"
	"	.reg .b32 %a, %b, %c, %e, %s, %x<4>;\n	.reg .b64 %i, %t, %step, %p, %n, %q;\n	.reg .pred %done;\n"
	"	ld.param.u64 %p, [data];\n	ld.param.u64 %n, [words];\n	ld.param.u64 %q, [sink];\n" THREAD_INDEX
	"	mov.u32 %s, 0;\n"
	"AGAIN:\n	setp.ge.u64 %done, %i, %n;\n	@%done bra END;\n"
	"	shl.b64 %t, %i, 4;\n	add.u64 %t, %p, %t;\n	ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%t];\n"
	"	add.u32 %s, %s, %x0;\n	xor.b32 %s, %s, %x1;\n	add.u32 %s, %s, %x2;\n	xor.b32 %s, %s, %x3;\n"
	"	add.u64 %i, %i, %step;\n	bra AGAIN;\n"
	"END:\n	setp.ne.u32 %done, %s, 0x9e3779b9;\n	@%done ret;\n	st.global.u32 [%q], %s;\n	ret;\n}\n"
	/* A chain of multiply-adds in each thread; the result is written as in hone_read. */
	".visible .entry hone_spin(.param .u64 steps, .param .u64 sink)\n{\n"
	"	.reg .b32 %a, %s;\n	.reg .b64 %n, %q;\n	.reg .f32 %x, %m;\n	.reg .pred %done;\n"
	"	ld.param.u64 %n, [steps];\n	ld.param.u64 %q, [sink];\n	mov.u32 %a, %tid.x;\n"
	"	cvt.rn.f32.u32 %x, %a;\n	mov.f32 %m, 0f3F7FFF58;\n"
	"AGAIN:\n"
	"	fma.rn.f32 %x, %x, %m, %m;\n	fma.rn.f32 %x, %x, %m, %m;\n	fma.rn.f32 %x, %x, %m, %m;\n"
	"	fma.rn.f32 %x, %x, %m, %m;\n	fma.rn.f32 %x, %x, %m, %m;\n	fma.rn.f32 %x, %x, %m, %m;\n"
	"	fma.rn.f32 %x, %x, %m, %m;\n	fma.rn.f32 %x, %x, %m, %m;\n"
	"	sub.u64 %n, %n, 1;\n	setp.ne.u64 %done, %n, 0;\n	@%done bra AGAIN;\n"
	"	mov.b32 %s, %x;\n	setp.ne.u32 %done, %s, 0x9e3779b9;\n"
	"	@%done ret;\n	st.global.u32 [%q], %s;\n	ret;\n}\n"
	/* Whether two pieces of memory differ, in words of 16 bytes: `flag` becomes 1. */
	".visible .entry hone_differ(.param .u64 one, .param .u64 other, .param .u64 words, .param .u64 flag)\n{\n"
	"	.reg .b32 %a, %b, %c, %e, %s, %x<4>, %y<4>;\n"
	"	.reg .b64 %i, %t, %step, %p, %o, %n, %q;\n	.reg .pred %done;\n"
	"	ld.param.u64 %p, [one];\n	ld.param.u64 %o, [other];\n	ld.param.u64 %n, [words];\n"
	"	ld.param.u64 %q, [flag];\n" THREAD_INDEX "	mov.u32 %s, 0;\n"
	"AGAIN:\n	setp.ge.u64 %done, %i, %n;\n	@%done bra END;\n"
	"	shl.b64 %t, %i, 4;\n	add.u64 %t, %p, %t;\n	ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%t];\n"
	"	shl.b64 %t, %i, 4;\n	add.u64 %t, %o, %t;\n	ld.global.v4.u32 {%y0, %y1, %y2, %y3}, [%t];\n"
	"	xor.b32 %x0, %x0, %y0;\n	xor.b32 %x1, %x1, %y1;\n	xor.b32 %x2, %x2, %y2;\n	xor.b32 %x3, %x3, %y3;\n"
	"	or.b32 %s, %s, %x0;\n	or.b32 %s, %s, %x1;\n	or.b32 %s, %s, %x2;\n	or.b32 %s, %s, %x3;\n"
	"	add.u64 %i, %i, %step;\n	bra AGAIN;\n"
	"END:\n	setp.eq.u32 %done, %s, 0;\n	@%done ret;\n"
	"	mov.u32 %s, 1;\n	st.global.u32 [%q], %s;\n	ret;\n}\n"
	/* clang-format off */
	".visible .entry hone_move(.param .align 8 .b8 move[384])\n{\n" MOVE_PLACES
	"	setp.eq.u32 %is, %size, 1;\n	@%is bra ONE;\n"
	"	setp.eq.u32 %is, %size, 2;\n	@%is bra TWO;\n"
	"	setp.eq.u32 %is, %size, 4;\n	@%is bra FOUR;\n"
	"	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("EIGHT", "u64")
	"ONE:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_ONE", "u8")
	"TWO:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_TWO", "u16")
	"FOUR:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_FOUR", "u32")
	"}\n"
	".visible .entry hone_cast(.param .align 8 .b8 move[384])\n{\n"
	"	.reg .b32 %in, %out;\n	.reg .b16 %h<4>;\n	.reg .f32 %f<4>;\n	.reg .f64 %g<4>, %back;\n" MOVE_PLACES
	"	ld.param.u32 %in, [move+376];\n	ld.param.u32 %out, [move+380];\n"
	CAST_IN(CAST_F32, "IN_F32") CAST_IN(CAST_F64, "IN_F64") CAST_IN(CAST_F16, "IN_F16") CAST_IN(CAST_BF16, "IN_BF16")
	CAST_IN(CAST_BOOL, "IN_BOOL") CAST_IN("6", "IN_I8") CAST_IN("7", "IN_I16") CAST_IN("8", "IN_I32")
	CAST_IN("9", "IN_I64") CAST_IN("10", "IN_U8") CAST_IN("11", "IN_U16") CAST_IN("12", "IN_U32")
	/* What is read. */
	CAST_LOAD_WHOLE("IN_U64", "u64", "UNSIGNED")
	CAST_LOAD_WHOLE("IN_I8", "s8", "WHOLE") CAST_LOAD_WHOLE("IN_I16", "s16", "WHOLE")
	CAST_LOAD_WHOLE("IN_I32", "s32", "WHOLE") CAST_LOAD_WHOLE("IN_I64", "s64", "WHOLE")
	CAST_LOAD_WHOLE("IN_U8", "u8", "WHOLE") CAST_LOAD_WHOLE("IN_U16", "u16", "WHOLE")
	CAST_LOAD_WHOLE("IN_U32", "u32", "WHOLE")
	"IN_BOOL:\n" MOVE_FOUR(MOVE_LOAD, "u8") CAST_FOUR(CAST_IS_TRUE) "	bra WHOLE;\n"
	"IN_F16:\n" CAST_FOUR(CAST_LOAD_F16) "	bra FLOAT;\n"
	"IN_BF16:\n" CAST_FOUR(CAST_LOAD_BF16) "	bra FLOAT;\n"
	"IN_F32:\n" CAST_FOUR(CAST_LOAD_F32) "	bra FLOAT;\n"
	"IN_F64:\n" CAST_FOUR(CAST_LOAD_F64)
	/* A double: to a float on its way to all floats, else to a whole number. */
	CAST_OUT(CAST_F32, "DOUBLE_NEAREST") CAST_OUT(CAST_F16, "DOUBLE_ODD") CAST_OUT(CAST_BF16, "DOUBLE_ODD")
	CAST_OUT(CAST_BOOL, "DOUBLE_TRUE")
	CAST_FOUR(CAST_F64_TO_WHOLE) "	bra OUT_WHOLE;\n"
	"DOUBLE_TRUE:\n" CAST_FOUR(CAST_DOUBLE_IS_TRUE) "	bra OUT_WHOLE;\n"
	"DOUBLE_NEAREST:\n" CAST_FOUR(CAST_F64_TO_F32) "	bra FLOAT;\n"
	"DOUBLE_ODD:\n" CAST_FOUR(CAST_F64_TO_ODD) "	bra FLOAT;\n"
	/* A whole number, without a sign or with one. */
	"UNSIGNED:\n"
	CAST_OUT(CAST_F32, "UNSIGNED_FLOAT") CAST_OUT(CAST_F16, "UNSIGNED_FLOAT") CAST_OUT(CAST_BF16, "UNSIGNED_FLOAT")
	CAST_OUT(CAST_F64, "UNSIGNED_DOUBLE") "	bra WHOLE;\n"
	"UNSIGNED_FLOAT:\n" CAST_FOUR(CAST_UNSIGNED_TO_F32) "	bra FLOAT;\n"
	"UNSIGNED_DOUBLE:\n" CAST_FOUR(CAST_UNSIGNED_TO_F64) "	bra OUT_F64;\n"
	"WHOLE:\n"
	CAST_OUT(CAST_F32, "SIGNED_FLOAT") CAST_OUT(CAST_F16, "SIGNED_FLOAT") CAST_OUT(CAST_BF16, "SIGNED_FLOAT")
	CAST_OUT(CAST_F64, "SIGNED_DOUBLE") CAST_OUT(CAST_BOOL, "WHOLE_TRUE") "	bra OUT_WHOLE;\n"
	"SIGNED_FLOAT:\n" CAST_FOUR(CAST_SIGNED_TO_F32) "	bra FLOAT;\n"
	"SIGNED_DOUBLE:\n" CAST_FOUR(CAST_SIGNED_TO_F64) "	bra OUT_F64;\n"
	"WHOLE_TRUE:\n" CAST_FOUR(CAST_IS_TRUE) "	bra OUT_WHOLE;\n"
	/* A float. */
	"FLOAT:\n" CAST_FOUR(CAST_NAN_F32)
	CAST_OUT(CAST_F32, "OUT_F32") CAST_OUT(CAST_F16, "OUT_F16") CAST_OUT(CAST_BF16, "OUT_BF16")
	CAST_OUT(CAST_F64, "FLOAT_DOUBLE") CAST_OUT(CAST_BOOL, "FLOAT_TRUE")
	CAST_FOUR(CAST_F32_TO_WHOLE) "	bra OUT_WHOLE;\n"
	"FLOAT_TRUE:\n" CAST_FOUR(CAST_FLOAT_IS_TRUE) "	bra OUT_WHOLE;\n"
	"FLOAT_DOUBLE:\n" CAST_FOUR(CAST_F32_TO_F64)
	/* What is written. */
	"OUT_F64:\n" CAST_FOUR(CAST_NAN_F64) CAST_FOUR(CAST_STORE_F64) "	ret;\n"
	"OUT_F32:\n" CAST_FOUR(CAST_STORE_F32) "	ret;\n"
	"OUT_F16:\n" CAST_FOUR(CAST_STORE_F16) "	ret;\n"
	"OUT_BF16:\n" CAST_FOUR(CAST_STORE_BF16) "	ret;\n"
	"OUT_WHOLE:\n"
	CAST_BRANCH("%size", "1", "OUT_1") CAST_BRANCH("%size", "2", "OUT_2") CAST_BRANCH("%size", "4", "OUT_4")
	CAST_STORE_WHOLE("OUT_8", "u64") CAST_STORE_WHOLE("OUT_1", "u8")
	CAST_STORE_WHOLE("OUT_2", "u16") CAST_STORE_WHOLE("OUT_4", "u32")
	"}\n";
/* clang-format on */
