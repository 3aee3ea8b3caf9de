/* libFuzzer entry of the reader of answers in IR: any bytes at fixed sizes, and a tape that comes
 * of them either is refused by the tape's parser or keeps its promises. */
#include "tape/tape_ir.h"
#include "../tape/tape_invariants.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tape_ir_tensor inputs[2] = {{.dtype = DTYPE_F32, .ndim = 2, .shape = {3, 5}, .stride = {8, 1}},
		{.dtype = DTYPE_I64, .ndim = 1, .shape = {5}, .stride = {1}}};
	struct tape_ir_tensor param = {.name = "fc.weight", .dtype = DTYPE_F32, .ndim = 1, .shape = {5}, .stride = {1}};
	struct tape_ir_sizes sizes = {2, inputs, 1, &param};
	struct str tape = {0};
	struct err err = {0};
	int line = 0;
	if (!tape_ir_read((const char *)data, len, &sizes, &tape, &line, &err)) invariant_parse(tape.data, tape.len);
	else CHECK(line >= 1 && !strncmp(err.text, "line ", 5));
	str_release(&tape);
	return 0;
}
