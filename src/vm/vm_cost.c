/* Counting for the cost model: only called when a launch asks for it. */
#include "vm/vm_internal.h"

#define SECTOR_BYTES 32
#define WARP 32

struct vm_cost *vm_cost_row(struct vm_ctx *c, const struct vm_instr *in) { return &c->cost[in->line_row]; }

void vm_cost_map(struct vm_ctx *c, const struct vm_instr *in, int64_t n)
{
	struct vm_cost *cost = vm_cost_row(c, in);
	cost->flops += in->flops * n;
	cost->special += in->special * n;
}

/* Distinct sectors of one warp's worth of elements. Addresses mostly rise, so a sector is compared with the last one first. */
static int64_t distinct_sectors(const int64_t *address, const uint8_t *mask, int n, size_t size)
{
	int64_t seen[2 * WARP];
	int count = 0;
	for (int i = 0; i < n; i++) {
		if (mask && !mask[i]) continue;
		int64_t s = address[i] / SECTOR_BYTES;
		bool is_new = true;
		for (int k = count - 1; k >= 0 && is_new; k--) is_new = seen[k] != s;
		if (is_new) seen[count++] = s;
	}
	return count;   /* an aligned element of at most 8 bytes never straddles a sector */
}

void vm_cost_access(struct vm_ctx *c, const struct vm_instr *in, const int64_t *address, const uint8_t *mask, int64_t n, size_t size, bool is_store)
{
	struct vm_cost *cost = vm_cost_row(c, in);
	int64_t sectors = 0, active = 0;
	for (int64_t at = 0; at < n; at += WARP) sectors += distinct_sectors(address + at, mask ? mask + at : NULL, (int)MIN(n - at, WARP), size);
	uint8_t *const *map = is_store ? c->write_map : c->read_map;
	for (int64_t i = 0; i < n; i++) {
		if (mask && !mask[i]) continue;
		uint64_t index = (uint64_t)address[i] >> TAPE_ADDRESS_SHIFT;
		active++;
		if (index > c->memory->index_max || !map[index]) continue;   /* a host pointer: counted, but in no footprint */
		map[index][((uint64_t)address[i] & (((uint64_t)1 << TAPE_ADDRESS_SHIFT) - 1)) / SECTOR_BYTES] = 1;
	}
	if (is_store) {
		cost->store_sectors += sectors;
		cost->store_bytes += active * (int64_t)size;
	} else {
		cost->load_sectors += sectors;
		cost->load_bytes += active * (int64_t)size;
	}
}
