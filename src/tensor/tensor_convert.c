/* tensor_convert: any floating-point tensor as fp32. */
#include "tensor/tensor.h"
#include "base/base.h"
#include "base/dtype.h"

void tensor_to_f32(const struct tensor_info *t, float *out)
{
	size_t count = t->bytes / dtype_bytes(t->dtype);
	/* fp32 is copied as it is; every other format is converted element by element. */
	switch (t->dtype) {
	case DTYPE_F32:
		if (count) memcpy(out, t->data, t->bytes);
		return;
	case DTYPE_F64:
		for (size_t i = 0; i < count; i++) out[i] = (float)((const double *)t->data)[i];
		return;
	case DTYPE_F16:
		for (size_t i = 0; i < count; i++) out[i] = f16_to_f32(((const uint16_t *)t->data)[i]);
		return;
	case DTYPE_BF16:
		for (size_t i = 0; i < count; i++) out[i] = bf16_to_f32(((const uint16_t *)t->data)[i]);
		return;
	case DTYPE_F8E4M3:
		for (size_t i = 0; i < count; i++) out[i] = f8e4m3_to_f32(((const uint8_t *)t->data)[i]);
		return;
	case DTYPE_F8E5M2:
		for (size_t i = 0; i < count; i++) out[i] = f8e5m2_to_f32(((const uint8_t *)t->data)[i]);
		return;
	default:
		CHECKF(
			dtype_is_float(t->dtype), "tensor '%s' of dtype %s is not floating point", t->name, dtype_name(t->dtype));
	}
}
