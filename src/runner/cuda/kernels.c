/* kernels: PTX of the launcher's own kernels (kernels.h). Offsets into hone_move's parameter are
 * those of struct cuda_move, which the assertions below hold to. */
#include "runner/cuda/kernels.h"
#include <stddef.h>

_Static_assert(
	offsetof(struct cuda_move, src) == 8 && offsetof(struct cuda_move, count) == 16, "hone_move's parameter");
_Static_assert(
	offsetof(struct cuda_move, value) == 24 && offsetof(struct cuda_move, size) == 32, "hone_move's parameter");
_Static_assert(
	offsetof(struct cuda_move, ndim) == 40 && offsetof(struct cuda_move, shape) == 48, "hone_move's parameter");
_Static_assert(offsetof(struct cuda_move, dst_step) == 144 && offsetof(struct cuda_move, src_step) == 240 &&
		sizeof(struct cuda_move) == 336,
	"hone_move's parameter");

/* The index of this thread in %i, and the number of threads of the grid in %step. */
#define THREAD_INDEX \
	"	mov.u32 %a, %ctaid.x;\n	mov.u32 %b, %ntid.x;\n	mov.u32 %c, %tid.x;\n	mov.u32 %e, %nctaid.x;\n" \
	"	mul.wide.u32 %i, %a, %b;\n	cvt.u64.u32 %t, %c;\n	add.u64 %i, %i, %t;\n	mul.wide.u32 %step, %e, %b;\n"

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
	/* One element a step: its index is taken apart from the innermost dimension outwards. */
	".visible .entry hone_move(.param .align 8 .b8 move[336])\n{\n"
	"	.reg .b32 %a, %b, %c, %e, %v32;\n	.reg .b16 %v16;\n"
	"	.reg .b64 %i, %t, %step, %dst, %src, %n, %value, %size, %ndim, %k;\n"
	"	.reg .b64 %rest, %shape, %quot, %r, %d, %s, %at, %v64;\n"
	"	.reg .pred %done, %fill, %one, %two, %four;\n"
	"	ld.param.u64 %dst, [move];\n	ld.param.u64 %src, [move+8];\n	ld.param.u64 %n, [move+16];\n"
	"	ld.param.u64 %value, [move+24];\n	ld.param.u64 %size, [move+32];\n	ld.param.u64 %ndim, [move+40];\n"
	"	setp.eq.u64 %fill, %src, 0;\n	setp.eq.u64 %one, %size, 1;\n	setp.eq.u64 %two, %size, 2;\n"
	"	setp.eq.u64 %four, %size, 4;\n" THREAD_INDEX "AGAIN:\n	setp.ge.u64 %done, %i, %n;\n	@%done ret;\n"
	"	mov.u64 %rest, %i;\n	mov.u64 %d, %dst;\n	mov.u64 %s, %src;\n	mov.u64 %k, %ndim;\n"
	"DIM:\n	setp.eq.u64 %done, %k, 0;\n	@%done bra PLACED;\n"
	"	sub.u64 %k, %k, 1;\n	shl.b64 %at, %k, 3;\n	mov.b64 %t, move;\n	add.u64 %at, %t, %at;\n"
	"	ld.param.u64 %shape, [%at+48];\n	div.u64 %quot, %rest, %shape;\n"
	"	mul.lo.u64 %r, %quot, %shape;\n	sub.u64 %r, %rest, %r;\n"
	"	mov.u64 %rest, %quot;\n"
	"	ld.param.u64 %t, [%at+144];\n	mad.lo.u64 %d, %r, %t, %d;\n"
	"	ld.param.u64 %t, [%at+240];\n	mad.lo.u64 %s, %r, %t, %s;\n	bra DIM;\n"
	"PLACED:\n	add.u64 %i, %i, %step;\n	mov.u64 %v64, %value;\n"
	"	@%one bra ONE;\n	@%two bra TWO;\n	@%four bra FOUR;\n"
	"	@!%fill ld.global.u64 %v64, [%s];\n	st.global.u64 [%d], %v64;\n	bra AGAIN;\n"
	"ONE:\n	cvt.u16.u64 %v16, %v64;\n	@!%fill ld.global.u8 %v16, [%s];\n"
	"	st.global.u8 [%d], %v16;\n	bra AGAIN;\n"
	"TWO:\n	cvt.u16.u64 %v16, %v64;\n	@!%fill ld.global.u16 %v16, [%s];\n"
	"	st.global.u16 [%d], %v16;\n	bra AGAIN;\n"
	"FOUR:\n	cvt.u32.u64 %v32, %v64;\n	@!%fill ld.global.u32 %v32, [%s];\n"
	"	st.global.u32 [%d], %v32;\n	bra AGAIN;\n}\n";
