/* gguf_internal: how the values of a tensor are packed, for gguf.c and gguf_quant.c. */
#ifndef HONE_TENSOR_GGUF_INTERNAL_H
#define HONE_TENSOR_GGUF_INTERNAL_H
#include "tensor/tensor.h"

/* Values lie in blocks of `values`, each of `bytes`; a row holds whole blocks. */
typedef void gguf_unpack_fn(const uint8_t *src, size_t blocks, float *out);
struct gguf_quant {
	const char *name;
	int values;
	int bytes;
	gguf_unpack_fn *unpack; /* NULL: known by name alone */
};
const struct gguf_quant *gguf_quant_find(uint32_t type); /* the file's number; NULL when no such type is known */
#endif
