/* libFuzzer entry of the answer's extractor: whatever the bytes, the bounds hold and a problem has
 * a name. */
#include "fuzz.h"
#include "text/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct answer a = answer_parse((const char *)data, len);
	CHECK(a.plan_begin <= a.plan_end && a.plan_end <= len && a.well_formed == !a.problem);
	if (a.well_formed)
		CHECK(
			a.plan_end < a.code_begin && a.code_begin < a.code_end && a.code_end < len && data[a.code_end - 1] == '\n');
	else CHECK(a.plan_end == len);
	return 0;
}
