/* libFuzzer entry of the tape's parser: any bytes, and every accepted tape keeps its promises.
 * tests/tape/test_tape_corrupt.c runs the same checks without libFuzzer. */
#include "../tape/tape_invariants.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	invariant_parse((const char *)data, len);
	return 0;
}
