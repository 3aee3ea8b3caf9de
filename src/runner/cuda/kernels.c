/* kernels: PTX of the launcher's own kernels (kernels.h). Offsets into hone_move's parameter are
 * those of struct cuda_move, which the assertions below hold to. */
#include "runner/cuda/kernels.h"
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
_Static_assert(sizeof(struct cuda_move) == 376, "hone_move's parameter");

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
#define MOVE_LOAD(E, type) "	@%live" E " ld.global." type " %v" E ", [%s" E "];\n"
#define MOVE_STORE(E, type) "	@%live" E " st.global." type " [%d" E "], %v" E ";\n"
#define MOVE_FOUR(move, type) move("0", type) move("1", type) move("2", type) move("3", type)
#define MOVE_SIZE(store, type) \
	"	@%is bra " store ";\n" MOVE_FOUR(MOVE_LOAD, type) store ":\n" MOVE_FOUR(MOVE_STORE, type) "	ret;\n"

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
	/* Four elements a thread, 256 apart; the dimensions are taken off their indices from the
	 * innermost one on. Those behind the last are element 0, which is not moved. */
	/* clang-format off */
	".visible .entry hone_move(.param .align 8 .b8 move[376])\n{\n"
	"	.reg .b32 %a, %c, %k, %n, %size, %shape, %magic, %shift, %q, %r, %i<4>;\n"
	"	.reg .b64 %t, %at, %step, %from, %src, %d<4>, %s<4>, %v<4>;\n"
	"	.reg .pred %is, %live<4>;\n"
	"	ld.param.u64 %d0, [move];\n	ld.param.u64 %src, [move+8];\n	ld.param.u64 %v0, [move+16];\n"
	"	ld.param.u32 %n, [move+24];\n	ld.param.u32 %size, [move+28];\n	ld.param.u32 %k, [move+32];\n"
	"	mov.u64 %s0, %src;\n	mov.u32 %a, %ctaid.x;\n	mov.u32 %c, %tid.x;\n"
	"	mad.lo.u32 %i0, %a, 1024, %c;\n"
	MOVE_BEGIN("1", "256") MOVE_BEGIN("2", "512") MOVE_BEGIN("3", "768")
	MOVE_LIVE("0") MOVE_LIVE("1") MOVE_LIVE("2") MOVE_LIVE("3")
	"DIM:\n	sub.u32 %k, %k, 1;\n"
	"	mul.wide.u32 %at, %k, 4;\n	mov.b64 %t, move;\n	add.u64 %at, %t, %at;\n"
	"	ld.param.u32 %shape, [%at+40];\n	ld.param.u32 %magic, [%at+88];\n"
	"	ld.param.u32 %shift, [%at+136];\n"
	"	mul.wide.u32 %at, %k, 8;\n	add.u64 %at, %t, %at;\n"
	"	ld.param.u64 %step, [%at+184];\n	ld.param.u64 %from, [%at+280];\n"
	MOVE_STEP("0") MOVE_STEP("1") MOVE_STEP("2") MOVE_STEP("3")
	"	setp.ne.u32 %is, %k, 0;\n	@%is bra DIM;\n"
	"	setp.eq.u32 %is, %size, 1;\n	@%is bra ONE;\n"
	"	setp.eq.u32 %is, %size, 2;\n	@%is bra TWO;\n"
	"	setp.eq.u32 %is, %size, 4;\n	@%is bra FOUR;\n"
	"	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("EIGHT", "u64")
	"ONE:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_ONE", "u8")
	"TWO:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_TWO", "u16")
	"FOUR:\n	setp.eq.u64 %is, %src, 0;\n" MOVE_SIZE("STORE_FOUR", "u32")
	"}\n";
/* clang-format on */
