/* panels: second operands packed once for many products (ops->prepare), in the smallest form that
 * gives back the same bits.
 *
 * With few rows, as in generation, a product is the reading of its weights, so their size is its
 * time. A row of the table of forms says how NR columns of B lie in memory: as floats; as bf16 or
 * fp16, where every weight is one (checkpoints are published in these types); as integers of 8 or 4
 * bits with a factor for 32 of a column, where every weight is such a product (models out of GGUF
 * files: Q8_0, Q5_0, Q4_0; Q4_1). Each weight's bits are compared when it is packed: what a form
 * cannot give back exactly is kept in the next. Products therefore do not depend on the form. */
#ifndef HONE_PANELS_H
#define HONE_PANELS_H
#include "ops_cpu.h"
#include "gemm_kernel.h"

/* The rows of a tile with small forms read integers and halves straight into registers, once for
 * each MR rows; more rows share what was unpacked. */
struct panel_form {
	const char *name;
	size_t (*bytes)(int K); /* of one panel; (k0) also where row k0 begins */
	/* Of b (columns, K), columns <= NR. False: the panel cannot hold these values exactly. */
	bool (*pack)(uint8_t *panel, const float *b, int K, int columns);
	void (*unpack)(float *out, const uint8_t *rows, int K); /* K rows as (K, NR); NULL: they lie so */
	void (*tile)(const struct tile *t, int rows);           /* tile_run with t->packed in place of b */
};

const struct prepared *ISA(prepared_find)(const struct ops_context *c, const float *b);
#endif
