/* vm: executes Triton's own IR (TTIR text, Triton 3.6) on the CPU; checks memory; counts cost.
 *
 * vm_kernel_create parses the text (hostile: anything malformed is an error with line and column, an operation that is not known is
 * ERR_UNSUPPORTED with its name, source line and kernel; nothing is guessed) and lowers it once to a compact typed instruction list over
 * block values. vm_launch runs a grid over buffers. Semantics are those of the GPU: integer arithmetic wraps, fp operations are IEEE single
 * operations (no contraction unless asked), tf32 dot truncates operands, bf16 and fp16 round to nearest even, masked-off loads without `other` are
 * undefined in Triton: here they are filled with NaN or a pattern.
 *
 * Every access is bounds-checked against the buffer that the pointer's high bits name (tape.h); the first fault stops the launch with
 * source location, program id, operand index and what was allowed.
 *
 * Threading: a kernel is immutable after create and may be launched from several threads; a launch uses the pool it is given. */
#ifndef HONE_VM_H
#define HONE_VM_H
#include "tape/tape.h"

struct vm_kernel;
int vm_kernel_create(const char *ttir, size_t len, struct vm_kernel **out, struct err *err);
void vm_kernel_free(struct vm_kernel *k);
const char *vm_kernel_name(const struct vm_kernel *k);
int vm_kernel_nargs(const struct vm_kernel *k);
/* Textual type of argument i as in the IR ("!tt.ptr<f32>", "i32"); whether it is a pointer. */
const char *vm_kernel_arg_type(const struct vm_kernel *k, int i);
bool vm_kernel_arg_is_pointer(const struct vm_kernel *k, int i);
/* tf32 use: true when some tt.dot on fp32 operands has inputPrecision tf32 (the strict precision rule needs it); *line is its source line. */
bool vm_kernel_uses_tf32(const struct vm_kernel *k, int *line);

/* Memory the launch may touch. address is tape_buffer_address(b); data has `bytes` bytes. origin (may be NULL) has one tag per byte
 * (enum tape_origin): a load of a byte tagged NONE is VM_FAULT_UNINITIALISED, a store tags KERNEL. is_read_only: a store is a fault. */
struct vm_buffer { uint64_t address; int64_t bytes; uint8_t *data; uint8_t *origin; bool is_read_only; };

enum vm_fault {
	VM_FAULT_NONE, VM_FAULT_OUT_OF_BOUNDS, VM_FAULT_MISALIGNED, VM_FAULT_UNINITIALISED, VM_FAULT_READ_ONLY, VM_FAULT_DIVISION_BY_ZERO, VM_FAULT_ASSERT,
	VM_FAULT_TIMEOUT, VM_FAULT_ARGUMENT, VM_FAULT_UNSUPPORTED, VM_FAULT_COUNT
};
const char *vm_fault_name(enum vm_fault f);   /* "out-of-bounds", ... : reason codes */

/* Counts of one launch. Sectors are 32 bytes; a load or store instruction of a program counts, per group of 32 consecutive elements of
 * its block (a warp's worth in blocked order), the distinct sectors that its active elements touch. */
struct vm_cost {
	int64_t programs, load_bytes, store_bytes, load_sectors, store_sectors, atomics;
	int64_t flops;            /* element-wise and reduction floating-point operations; fma 2; transcendental 1, also counted in `special` */
	int64_t special;          /* exp, log, sin, sqrt, division ... */
	int64_t dot_flops;        /* 2 M N K of tt.dot */
	int64_t footprint_bytes;  /* distinct bytes read plus distinct bytes written in this launch (32-byte granules); 0 unless want_cost */
};
struct vm_line_cost { int line; struct vm_cost cost; };   /* source line in the kernel's file */

struct vm_arg { int64_t i; double f; };   /* pointer: address in i; integers in i; floats in f */
struct vm_launch_options {
	uint32_t grid[3];
	const struct vm_arg *args; int nargs;
	struct vm_buffer *buffers; int nbuffers;   /* sorted by address */
	struct pool *pool;                         /* NULL: the calling thread alone */
	uint64_t deadline_ns;                      /* absolute; 0: none. Checked inside loops too. */
	bool want_cost;
	FILE *print;                               /* where tt.print writes, programs in order then; NULL: nowhere */
	bool undefined_is_zero;                    /* what a masked-off load without `other` gives is 0, as NVIDIA's code makes it, and no pattern */
	bool has_host_pointers;                    /* addresses that name no buffer are looked up among the buffers' data, which rise with their addresses then:
	                                              for kernels that read pointers from memory */
	bool fma_contract;                         /* contract mulf+addf with one use as ptxas does; default false */
};
struct vm_report {
	enum vm_fault fault;
	char text[512];                            /* "out-of-bounds store: kernel.py:12:5 ... program (3,0,0), element 17, offset 4096 of buffer 2 (4096 bytes)" */
	int line, column; uint32_t program[3]; int64_t element;
	const char *file;                          /* of line and column; lives as long as the kernel */
	const char *access;                        /* "load", "store", ...; NULL when the fault is no access. The four below are set with it. */
	int buffer;                                /* index into the launch's buffers; -1: the address is in none */
	int64_t offset, access_bytes, address;     /* offset of the access in the buffer, may be negative or beyond the end */
	struct vm_cost cost;
	int nlines; struct vm_line_cost *lines;    /* want_cost: heap, freed by vm_report_release */
};
/* 0 when it ran without fault; ERR_MISMATCH when a fault was found (report says which); ERR_RANGE for arguments that do not fit. */
int vm_launch(const struct vm_kernel *k, const struct vm_launch_options *o, struct vm_report *report, struct err *err);
void vm_report_release(struct vm_report *r);
#endif
