/* SHA-256 by nettle, as lower-case hexadecimal. Lengths go in as 8 little-endian bytes, so a cache
 * key made of parts cannot collide by moving a byte from one part to the next. */
#include "base/base.h"
#include <nettle/sha2.h>

static struct sha256_hex digest_hex(struct sha256_ctx *ctx)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t raw[SHA256_DIGEST_SIZE];
	sha256_digest(ctx, sizeof(raw), raw);
	struct sha256_hex out;
	for (size_t i = 0; i < sizeof(raw); i++) {
		out.text[2 * i] = digits[raw[i] >> 4];
		out.text[2 * i + 1] = digits[raw[i] & 15];
	}
	out.text[64] = 0;
	return out;
}

struct sha256_hex hash_bytes(const void *data, size_t len)
{
	struct sha256_ctx ctx;
	sha256_init(&ctx);
	if (len) sha256_update(&ctx, len, data);
	return digest_hex(&ctx);
}

struct sha256_hex hash_parts(const struct slice *parts, size_t count)
{
	struct sha256_ctx ctx;
	sha256_init(&ctx);
	for (size_t i = 0; i < count; i++) {
		uint8_t len[8];
		for (int b = 0; b < 8; b++) len[b] = (uint8_t)((uint64_t)parts[i].len >> (8 * b));
		sha256_update(&ctx, sizeof(len), len);
		if (parts[i].len) sha256_update(&ctx, parts[i].len, (const uint8_t *)parts[i].data);
	}
	return digest_hex(&ctx);
}

static uint32_t first_bits(const struct sha256_hex *hash)
{
	uint32_t bits = 0;
	for (int i = 0; i < 8; i++) {
		char c = hash->text[i];
		bits = bits * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	return bits;
}

uint32_t hash_place(const struct sha256_hex *hash, uint32_t count) { return first_bits(hash) % count; }

double hash_share(const struct sha256_hex *hash) { return first_bits(hash) / 4294967296.0; }
