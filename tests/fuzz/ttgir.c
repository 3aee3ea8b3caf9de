/* libFuzzer entry of the cost room: any bytes as the TTGIR of a compile. What comes out
 * is laid over its blocks as the meter does, and every element that a lane is said to
 * hold is one of the block. */
#include "cost/cost.h"
#include "cost/cost_layout.h"
#include "fuzz.h"

static void lanes_check(const struct cost_site *site, const struct cost_lanes *l)
{
	int64_t count = 1;
	for (int d = 0; d < site->ndim; d++) count *= site->shape[d];
	CHECK(l->nreg >= 0 && l->nwarp >= 0 && l->nreg + l->nwarp <= LAYOUT_BITS && l->warp_copies >= 1);
	CHECK((int64_t)1 << (l->nreg + l->nwarp) <= count);
	for (int i = 0; i < 32; i++) {
		int64_t most = l->lane[i]; /* with all registers and warps that add to it */
		CHECK(l->lane[i] >= 0 && l->lane[i] < count);
		for (int b = 0; b < l->nreg; b++) most |= l->reg[b];
		for (int b = 0; b < l->nwarp; b++) most |= l->warp[b];
		CHECK(most < count);
	}
}

static void site_check(const struct vm_layouts *all, const struct cost_site *site, int warps)
{
	struct cost_lanes lanes;
	struct cost_reduce reduce;
	CHECK(site->kind < COST_SITE_KINDS && site->ndim >= 1 && site->ndim <= LAYOUT_DIMS && site->layout < all->nlayouts);
	CHECK(cost_site_find(all, site->kind, site->line, site->column, site->ndim, site->shape) != NULL);
	const struct cost_layout *layout = site->layout >= 0 ? &all->layouts[site->layout] : NULL;
	CHECK(!layout || layout->ndim == site->ndim);
	if (!cost_lanes_of(layout, site->ndim, site->shape, 4, warps, &lanes)) return; /* no block that a kernel can have */
	lanes_check(site, &lanes);
	for (int axis = 0; layout && axis < site->ndim; axis++)
		if (cost_reduce_of(layout, site->ndim, site->shape, axis, warps, &reduce))
			CHECK(reduce.results >= 1 && reduce.steps >= 0 && reduce.warps_along >= 1 && reduce.rounds >= 0 &&
				reduce.wavefronts >= 0);
}

/* Everything that was read of one text. */
static void layouts_check(const struct vm_layouts *all, int warps)
{
	for (int i = 0; i < all->nlayouts; i++) {
		const struct cost_layout *l = &all->layouts[i];
		CHECK(l->ndim >= 1 && l->ndim <= LAYOUT_DIMS);
		CHECK(l->reg.n <= LAYOUT_BITS && l->lane.n <= LAYOUT_BITS && l->warp.n <= LAYOUT_BITS);
	}
	for (int i = 0; i < all->nsites; i++) site_check(all, &all->sites[i], warps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = {0};
	struct vm_compiled *c;
	json_t *result = json_pack(
		"{s:i, s:s%}", "num_warps", len ? 1 << data[0] % 6 : 4, "ttgir", (const char *)data, len);
	if (result) { /* the way of a result of the compile worker, whose texts are UTF-8 */
		CHECK(vm_compiled_create(result, &vm_gpus[0], &c, &err) == 0 && c->layouts);
		layouts_check(c->layouts, c->binary.warps);
		vm_compiled_free(c);
		json_decref(result);
		return 0;
	}
	struct vm_layouts *layouts;
	CHECK(vm_layouts_create((const char *)data, len, &layouts, &err) == 0);
	layouts_check(layouts, 4);
	vm_layouts_free(layouts);
	return 0;
}
