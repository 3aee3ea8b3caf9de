/* Lineage: may the bytes that forward returned be called the kernels' own work?
 *
 * Before a replay only buffers are known, not which bytes a launch touches, so each launch counts
 * as reading and writing every buffer that it was given, also through an integer that has a
 * buffer's address in it. That marks too many rows rather than too few. After a replay each byte
 * has a tag. */
#include "tape/tape.h"
#include "base/dtype.h"

/* Calls fn for each buffer that a row may touch, with which of reading and writing it may do. */
typedef void touch_fn(void *ctx, int buffer, bool reads, bool writes);

static void each_touch(const struct tape *t, const struct tape_row *r, touch_fn *fn, void *ctx)
{
	switch (r->kind) {
	case TAPE_LAUNCH:
		for (int i = 0; i < r->nargs; i++) {
			const struct tape_arg *a = &r->args[i];
			int64_t high = (a->i >> TAPE_ADDRESS_SHIFT) - 1;
			if (tape_arg_has_buffer(a)) fn(ctx, a->buffer, true, true);
			else if (a->kind == TAPE_ARG_VALUE) fn(ctx, a->buffer, true, false);
			else if (a->kind == TAPE_ARG_INT && high >= 0 && high < t->nbuffers) fn(ctx, (int)high, true, true);
		}
		break;
	case TAPE_FILL: fn(ctx, r->dst.buffer, false, true); break;
	case TAPE_COPY:
		fn(ctx, r->src.buffer, true, false);
		fn(ctx, r->dst.buffer, false, true);
		break;
	case TAPE_RECORD:
	case TAPE_WAIT: break;
	default:
		for (int i = 0; i < r->nreads; i++) fn(ctx, r->reads[i].buffer, true, false);
		for (int i = 0; i < r->nwrites; i++) fn(ctx, r->writes[i].buffer, false, true);
	}
}

struct walk {
	bool live[TAPE_BUFFERS_MAX];
	bool hit;
};

static void find_hit(void *ctx, int buffer, bool reads, bool writes)
{
	struct walk *w = ctx;
	w->hit |= writes && w->live[buffer];
}

static void spread_live(void *ctx, int buffer, bool reads, bool writes)
{
	struct walk *w = ctx;
	w->live[buffer] |= reads;
}

void tape_data_path(const struct tape *t, bool *on_path)
{
	struct walk w = {0};
	for (int i = 0; i < t->noutputs; i++) w.live[t->outputs[i].buffer] = true;
	for (int r = t->nrows - 1; r >= 0; r--) {
		w.hit = false;
		each_touch(t, &t->rows[r], find_hit, &w);
		on_path[r] = w.hit;
		if (w.hit) each_touch(t, &t->rows[r], spread_live, &w);
	}
}

const char *tape_lineage_reason(enum tape_lineage l)
{
	static const char *const reasons[TAPE_LINEAGE_COUNT] = {
		"ok", "no-launch", "library-row", "output-not-from-kernel", "output-unwritten"};
	return reasons[l];
}

enum tape_lineage tape_lineage_static(const struct tape *t, int *row)
{
	bool on_path[TAPE_ROWS_MAX];
	int launches = 0, library = -1;
	tape_data_path(t, on_path);
	for (int r = 0; r < t->nrows; r++) {
		if (!on_path[r]) continue;
		launches += t->rows[r].kind == TAPE_LAUNCH;
		if (t->rows[r].kind == TAPE_LIBRARY && library < 0) library = r;
	}
	if (!launches) return TAPE_LINEAGE_NO_LAUNCH;
	if (library < 0) return TAPE_LINEAGE_OK;
	*row = library;
	return TAPE_LINEAGE_LIBRARY;
}

/* Which tags occur among the bytes of a view: one bit per tag. Also counts what nobody wrote. */
static unsigned tags_of_view(const struct tape_view *v, const uint8_t *origin, struct tape_place *place)
{
	int64_t index[TAPE_DIMS_MAX] = {0}, size = (int64_t)dtype_bytes(v->dtype), at = v->offset_bytes;
	int64_t count = tape_view_elements(v);
	/* Rows whose elements lie side by side are looked at as a whole: nearly all have one tag. */
	bool has_rows = v->ndim && v->stride[v->ndim - 1] == 1;
	int64_t row = has_rows ? v->shape[v->ndim - 1] : 1;
	unsigned tags = 0;
	place->unwritten = place->first = 0;
	for (int64_t element = 0; element < count; element += row) {
		const uint8_t *tag = origin + at;
		bool is_one = !memcmp(tag, tag + 1, (size_t)(row * size - 1));
		for (int64_t i = 0; i < (is_one ? 1 : row); i++) {
			unsigned own = 0;
			for (int64_t k = 0; k < size; k++) own |= 1u << tag[i * size + k];
			tags |= own;
			if (!(own & 1u << TAPE_ORIGIN_NONE)) continue;
			if (!place->unwritten) place->first = element + i;
			place->unwritten += is_one ? row : 1;
		}
		for (int d = v->ndim - 1 - has_rows; d >= 0; d--) {
			at += v->stride[d] * size;
			if (++index[d] < v->shape[d]) break;
			at -= v->stride[d] * size * v->shape[d];
			index[d] = 0;
		}
	}
	return tags;
}

enum tape_lineage tape_lineage_outputs(
	const struct tape *t, uint8_t *const *origin, uint64_t may_be_given, struct tape_place *place)
{
	/* Worse than an output without a kernel's byte is one that nobody wrote, or torch did. */
	int given = -1;
	for (int i = 0; i < t->noutputs; i++) {
		*place = (struct tape_place){.output = i};
		if (!tape_view_elements(&t->outputs[i])) continue;
		unsigned tags = tags_of_view(&t->outputs[i], origin[t->outputs[i].buffer], place);
		if (tags & 1u << TAPE_ORIGIN_NONE) return TAPE_LINEAGE_OUTPUT_UNWRITTEN;
		if (tags & 1u << TAPE_ORIGIN_LIBRARY) return TAPE_LINEAGE_LIBRARY;
		if (!(tags & 1u << TAPE_ORIGIN_KERNEL) && !(may_be_given >> i & 1) && given < 0) given = i;
	}
	if (given < 0) return TAPE_LINEAGE_OK;
	*place = (struct tape_place){.output = given};
	return TAPE_LINEAGE_OUTPUT_NOT_FROM_KERNEL;
}
