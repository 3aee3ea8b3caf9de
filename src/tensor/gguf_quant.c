/* gguf_quant: GGUF's packings of values, as fp32.
 *
 * A value is scale * q or scale * q + offset with q of 4, 5, 6 or 8 bits. Blocks of 32 have one
 * fp16 scale (and offset); blocks of 256 ("K") have an fp16 scale of 8 or 16 small scales. Each
 * expression below has the order of operations, and rounds as often, as gguf-py's quants.py, which
 * tests compare with bit for bit. */
#include "tensor/gguf_internal.h"
#include "base/base.h"
#include "base/dtype.h"

static float half_at(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, sizeof h);
	return f16_to_f32(h);
}

static uint32_t u32_at(const uint8_t *p)
{
	uint32_t u;
	memcpy(&u, p, sizeof u);
	return u;
}

static void unpack_f32(const uint8_t *src, size_t blocks, float *out) { memcpy(out, src, blocks * sizeof *out); }

static void unpack_f16(const uint8_t *src, size_t blocks, float *out)
{
	for (size_t i = 0; i < blocks; i++) out[i] = half_at(src + 2 * i);
}

static void unpack_bf16(const uint8_t *src, size_t blocks, float *out)
{
	for (size_t i = 0; i < blocks; i++) out[i] = bf16_to_f32((uint16_t)(src[2 * i] | src[2 * i + 1] << 8));
}

/* ---- blocks of 32 ---- */

/* 16 bytes of two 4-bit values each: value i is the low half of byte i, value 16 + i the high half.
 */
static int nibble(const uint8_t *qs, int i) { return i < 16 ? qs[i] & 15 : qs[i - 16] >> 4; }

static void unpack_q8_0(const uint8_t *p, size_t blocks, float *out) /* fp16 d, int8 q[32] */
{
	for (; blocks--; p += 34, out += 32) {
		float d = half_at(p);
		for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)p[2 + i] * d;
	}
}

static void unpack_q4_0(const uint8_t *p, size_t blocks, float *out) /* fp16 d, nibbles */
{
	for (; blocks--; p += 18, out += 32) {
		float d = half_at(p);
		for (int i = 0; i < 32; i++) out[i] = d * (float)(nibble(p + 2, i) - 8);
	}
}

static void unpack_q4_1(const uint8_t *p, size_t blocks, float *out) /* fp16 d, fp16 m, nibbles */
{
	for (; blocks--; p += 20, out += 32) {
		float d = half_at(p), m = half_at(p + 2);
		for (int i = 0; i < 32; i++) out[i] = d * (float)nibble(p + 4, i) + m;
	}
}

static void unpack_q5_0(const uint8_t *p, size_t blocks, float *out) /* fp16 d, fifth bits, nibbles */
{
	for (; blocks--; p += 22, out += 32) {
		float d = half_at(p);
		uint32_t fifth = u32_at(p + 2);
		for (int i = 0; i < 32; i++) out[i] = d * (float)((nibble(p + 6, i) | (int)(fifth >> i & 1) << 4) - 16);
	}
}

static void unpack_q5_1(const uint8_t *p, size_t blocks, float *out) /* fp16 d, fp16 m, fifth bits, nibbles */
{
	for (; blocks--; p += 24, out += 32) {
		float d = half_at(p), m = half_at(p + 2);
		uint32_t fifth = u32_at(p + 4);
		for (int i = 0; i < 32; i++) out[i] = d * (float)(nibble(p + 8, i) | (int)(fifth >> i & 1) << 4) + m;
	}
}

/* ---- blocks of 256 ---- */

/* 8 scales and 8 offsets of 6 bits in 12 bytes: the first four of each lie whole in bytes 0-3 and
 * 4-7, whose top two bits are those of the last four; the low four bits of
 * these share bytes 8-11. */
static void scales_k4(const uint8_t *p, int j, int *scale, int *offset)
{
	if (j < 4) {
		*scale = p[j] & 63;
		*offset = p[4 + j] & 63;
	} else {
		*scale = (p[4 + j] & 15) | (p[j - 4] >> 6) << 4;
		*offset = p[4 + j] >> 4 | (p[j] >> 6) << 4;
	}
}

/* fifth: 32 bytes whose bit j belongs to group j of 32 values; NULL: values of 4 bits. Group 2k has
 * the low halves of 32 bytes, 2k + 1 the high ones. */
static void unpack_k4(const uint8_t *p, const uint8_t *fifth, const uint8_t *qs, float *out)
{
	float d = half_at(p), dmin = half_at(p + 2);
	for (int j = 0; j < 8; j++) {
		int scale, offset;
		scales_k4(p + 4, j, &scale, &offset);
		float step = d * (float)scale, low = dmin * (float)offset;
		for (int i = 0; i < 32; i++) {
			int q = qs[j / 2 * 32 + i] >> j % 2 * 4 & 15;
			if (fifth) q |= (fifth[i] >> j & 1) << 4;
			out[j * 32 + i] = step * (float)q - low;
		}
	}
}

static void unpack_q4_k(const uint8_t *p, size_t blocks, float *out) /* fp16 d, fp16 dmin, scales[12], qs[128] */
{
	for (; blocks--; p += 144, out += 256) unpack_k4(p, NULL, p + 16, out);
}

static void unpack_q5_k(
	const uint8_t *p, size_t blocks, float *out) /* fp16 d, fp16 dmin, scales[12], fifth[32], qs[128] */
{
	for (; blocks--; p += 176, out += 256) unpack_k4(p, p + 16, p + 48, out);
}

/* low[128], high[64], int8 scales[16], fp16 d. Each half of the block has four groups of 32: groups
 * 0 and 1 are the low nibbles of its 64 bytes, 2 and 3 the high ones; group r's top two bits are
 * bits 2r of its 32 bytes of high. */
static void unpack_q6_k(const uint8_t *p, size_t blocks, float *out)
{
	for (; blocks--; p += 210, out += 256) {
		const uint8_t *low = p, *high = p + 128, *scales = p + 192;
		float d = half_at(p + 208);
		for (int i = 0; i < 256; i++) {
			int half = i / 128, r = i / 32 % 4, k = i % 32;
			int q = (low[half * 64 + r % 2 * 32 + k] >> r / 2 * 4 & 15) | (high[half * 32 + k] >> 2 * r & 3) << 4;
			out[i] = d * (float)(int8_t)scales[i / 16] * (float)(q - 32);
		}
	}
}

/* ---- the table, by the file's numbers ---- */

static const struct gguf_quant quants[] = {
	[0] = {"F32", 1, 4, unpack_f32},
	[1] = {"F16", 1, 2, unpack_f16},
	[30] = {"BF16", 1, 2, unpack_bf16},
	[2] = {"Q4_0", 32, 18, unpack_q4_0},
	[3] = {"Q4_1", 32, 20, unpack_q4_1},
	[6] = {"Q5_0", 32, 22, unpack_q5_0},
	[7] = {"Q5_1", 32, 24, unpack_q5_1},
	[8] = {"Q8_0", 32, 34, unpack_q8_0},
	[12] = {"Q4_K", 256, 144, unpack_q4_k},
	[13] = {"Q5_K", 256, 176, unpack_q5_k},
	[14] = {"Q6_K", 256, 210, unpack_q6_k},
	[4] = {.name = "Q4_2"},
	[5] = {.name = "Q4_3"},
	[9] = {.name = "Q8_1"},
	[10] = {.name = "Q2_K"},
	[11] = {.name = "Q3_K"},
	[15] = {.name = "Q8_K"},
	[16] = {.name = "IQ2_XXS"},
	[17] = {.name = "IQ2_XS"},
	[18] = {.name = "IQ3_XXS"},
	[19] = {.name = "IQ1_S"},
	[20] = {.name = "IQ4_NL"},
	[21] = {.name = "IQ3_S"},
	[22] = {.name = "IQ2_S"},
	[23] = {.name = "IQ4_XS"},
	[24] = {.name = "I8"},
	[25] = {.name = "I16"},
	[26] = {.name = "I32"},
	[27] = {.name = "I64"},
	[28] = {.name = "F64"},
	[29] = {.name = "IQ1_M"},
	[34] = {.name = "TQ1_0"},
	[35] = {.name = "TQ2_0"},
	[39] = {.name = "MXFP4"},
	[40] = {.name = "NVFP4"},
	[41] = {.name = "Q1_0"},
};

const struct gguf_quant *gguf_quant_find(uint32_t type)
{
	return type < ARRAY_LEN(quants) && quants[type].name ? &quants[type] : NULL;
}

void gguf_to_f32(const struct gguf_tensor *t, float *out)
{
	t->quant->unpack(t->data, t->bytes / (size_t)t->quant->bytes, out);
}
