/* What a cubin's ELF says about its kernel: registers and stack of the first function. Sections
 * .nv.info.<kernel> and .nv.info hold attributes of four bytes: format, id and a size or value;
 * format 4 is followed by `size` bytes. Ids as NVIDIA's cuobjdump names them. Every offset is
 * checked: the file comes from a compiler that ran on a stranger's IR. */
#include "cost/cost.h"
#include "base/base.h"

#define CUBIN_BYTES_MAX ((size_t)256 << 20)
#define SECTIONS_MAX 65535
#define FORMAT_SIZED 4
enum { ATTR_FRAME_SIZE = 0x11, ATTR_MIN_STACK_SIZE = 0x12, ATTR_REGCOUNT = 0x2f };

struct elf {
	const uint8_t *data;
	size_t len;
	uint64_t sections, names;
	unsigned nsections, section_size;
};
struct section {
	uint64_t name, offset, size;
	uint32_t type, info;
};
#define SECTION_NOBITS 8

static bool get(const struct elf *e, uint64_t at, size_t bytes, uint64_t *out)
{
	*out = 0;
	if (at > e->len || bytes > e->len - at) return false;
	memcpy(out, e->data + at, bytes);
	return true;
}

static bool section_at(const struct elf *e, unsigned i, struct section *s)
{
	uint64_t at = e->sections + (uint64_t)i * e->section_size, type, info, name;
	if (!get(e, at, 4, &name) || !get(e, at + 4, 4, &type) || !get(e, at + 24, 8, &s->offset) ||
		!get(e, at + 32, 8, &s->size) || !get(e, at + 44, 4, &info))
		return false;
	s->name = name;
	s->type = (uint32_t)type;
	s->info = (uint32_t)info;
	return s->type == SECTION_NOBITS || (s->offset <= e->len && s->size <= e->len - s->offset);
}

static bool name_starts(const struct elf *e, const struct section *s, const char *prefix)
{
	uint64_t at = e->names + s->name;
	size_t n = strlen(prefix);
	return at >= e->names && at <= e->len && n <= e->len - at && !memcmp(e->data + at, prefix, n);
}

static int elf_open(const void *cubin, size_t len, struct elf *e, struct err *err)
{
	uint64_t word, table, size, count, names;
	*e = (struct elf){.data = cubin, .len = len};
	if (len > CUBIN_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "the cubin has %zu bytes, at most %zu are read", len, CUBIN_BYTES_MAX);
	if (!get(e, 0, 8, &word) || memcmp(e->data, "\177ELF\2\1", 6))
		return err_set(err, ERR_FORMAT, "the cubin is no 64-bit little-endian ELF file");
	if (!get(e, 40, 8, &table) || !get(e, 58, 2, &size) || !get(e, 60, 2, &count) || !get(e, 62, 2, &names) ||
		size < 64 || names >= count)
		return err_set(err, ERR_FORMAT, "the cubin's ELF header is cut short or names no sections");
	e->sections = table;
	e->section_size = (unsigned)size;
	e->nsections = (unsigned)MIN(count, SECTIONS_MAX);
	struct section s;
	if (table > len || !section_at(e, (unsigned)names, &s))
		return err_set(err, ERR_FORMAT, "the cubin's section table lies outside the file");
	e->names = s.offset;
	return 0;
}

/* Attributes of one .nv.info section; the largest value of each kind wins. A value is
 * the last word of the attribute: those of .nv.info begin with a symbol's number. */
static void read_info(const struct elf *e, const struct section *s, struct vm_binary *out)
{
	uint64_t end = s->offset + s->size, value;
	for (uint64_t at = s->offset; at + 4 <= end;) {
		uint64_t format = e->data[at], id = e->data[at + 1], size;
		get(e, at + 2, 2, &size);
		at += 4;
		if (format != FORMAT_SIZED) continue;
		if (size > end - at) return;
		if (size >= 4 && get(e, at + size - 4, 4, &value)) {
			int v = (int)MIN(value, INT32_MAX / 2);
			if (id == ATTR_REGCOUNT && v <= 255) out->registers = MAX(out->registers, v);
			if (id == ATTR_FRAME_SIZE || id == ATTR_MIN_STACK_SIZE) out->stack_bytes = MAX(out->stack_bytes, v);
		}
		at += size;
	}
}

/* Instructions are 16 bytes: the low 12 bits are the opcode, bits 73 to 75 the width of a memory
 * access. Those of local memory are what spilling costs. */
#define INSTR_BYTES 16
#define OP_LOAD_LOCAL 0x983
#define OP_STORE_LOCAL 0x387
static int64_t local_bytes(const struct elf *e, const struct section *s)
{
	static const uint8_t widths[8] = {1, 1, 2, 2, 4, 8, 16, 16};
	int64_t bytes = 0;
	for (uint64_t at = s->offset; at + INSTR_BYTES <= s->offset + s->size; at += INSTR_BYTES) {
		uint64_t low, high;
		if (!get(e, at, 8, &low) || !get(e, at + 8, 8, &high)) break;
		if ((low & 0xfff) == OP_LOAD_LOCAL || (low & 0xfff) == OP_STORE_LOCAL) bytes += widths[high >> 9 & 7];
	}
	return bytes;
}

struct vm_binary vm_binary_default(int warps)
{
	return (struct vm_binary){.warps = MAX(MIN(warps, 32), 1), .registers = 32};
}

int vm_binary_read(const void *cubin, size_t len, struct vm_binary *out, struct err *err)
{
	struct elf e;
	struct vm_binary found = {.warps = out->warps, .shared_bytes = out->shared_bytes};
	int rc = elf_open(cubin, len, &e, err);
	bool has_text = false;
	for (unsigned i = 0; i < e.nsections && !rc; i++) {
		struct section s;
		if (!section_at(&e, i, &s)) return err_set(err, ERR_FORMAT, "section %u of the cubin lies outside the file", i);
		if (name_starts(&e, &s, ".text.")) {
			has_text = true;
			if (s.type != SECTION_NOBITS) found.local_bytes = MAX(found.local_bytes, local_bytes(&e, &s));
		}
		if (name_starts(&e, &s, ".nv.info") && s.type != SECTION_NOBITS) read_info(&e, &s, &found);
		if (name_starts(&e, &s, ".nv.shared."))
			found.shared_bytes = MAX(found.shared_bytes, (int64_t)MIN(s.size, (uint64_t)1 << 30));
	}
	if (rc) return rc;
	if (!has_text) return err_set(err, ERR_FORMAT, "the cubin has no .text section: no kernel");
	*out = found;
	return 0;
}
