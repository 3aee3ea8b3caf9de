/* A kernel of IR text around a body, and what it is launched with: @k(%a, %b: pointers to f32, %c:
 * a pointer, %n: i32) over three buffers. A text that is refused fails the test; b.k is the
 * caller's to free. */
#ifndef BODY_KERNEL_H
#define BODY_KERNEL_H
#include "tape/tape.h"
#include "vm/vm.h"
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#define BODY_HEAD(c) "module {\n  tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %c: !tt.ptr<" c \
	">, %n: i32) {\n"
#define TAIL "    tt.return\n  } loc(\"k.py\":1:0)\n}\n"
#define AT(line) " loc(\"k.py\":" #line ":1)\n"   /* ends an operation */

struct body_kernel {
	struct vm_kernel *k;
	struct vm_buffer buffers[3];
	struct vm_arg args[4];
};

/* Buffer i is `bytes` at data + i * stride. */
static inline struct body_kernel body_kernel_make(
	const char *head, const char *body, void *data, size_t stride, int64_t bytes, int64_t n)
{
	struct body_kernel b = {.args[3].i = n};
	struct err err = {0};
	struct str text = {0};
	str_printf(&text, "%s%s%s", head, body, TAIL);
	if (vm_kernel_create(text.data, text.len, &b.k, &err)) fail_msg("%s", err.text);
	str_release(&text);
	for (int i = 0; i < 3; i++) {
		b.buffers[i] = (struct vm_buffer){
			.address = tape_buffer_address(i), .bytes = bytes, .data = (uint8_t *)data + (size_t)i * stride};
		b.args[i].i = (int64_t)tape_buffer_address(i);
	}
	return b;
}

#endif
