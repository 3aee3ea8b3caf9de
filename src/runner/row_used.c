/* A row's bytes are marked in two maps a buffer, one byte each, which are read into pieces as the
 * row ends and are empty again for the next. */
#include "runner/row_used.h"
#include "base/base.h"
#include "base/dtype.h"
#include "runner/launcher.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <stdlib.h>

struct row_used *row_used_create(int nrows)
{
	struct row_used *u = xcalloc(1, sizeof *u);
	u->nrows = nrows;
	u->nbytes = xcalloc((size_t)nrows + 1, sizeof *u->nbytes);
	u->bytes = xcalloc((size_t)nrows + 1, sizeof *u->bytes);
	return u;
}

void row_used_clear(struct row_used *u)
{
	for (int i = 0; i < u->nrows; i++) {
		for (int k = 0; k < u->nbytes[i]; k++) free(u->bytes[i][k].pieces);
		free(u->bytes[i]);
		u->bytes[i] = NULL;
		u->nbytes[i] = 0;
	}
	u->npieces = 0;
	u->is_full = false;
}

void row_used_free(struct row_used *u)
{
	if (!u) return;
	row_used_clear(u);
	free(u->nbytes);
	free(u->bytes);
	free(u);
}

static void bytes_add(struct row_used *u, int row, const struct row_bytes *b)
{
	u->bytes[row] = xrealloc(u->bytes[row], size_mul((size_t)u->nbytes[row] + 1, sizeof *u->bytes[row]));
	u->bytes[row][u->nbytes[row]++] = *b;
}

/* Reads a map into pieces and empties it. */
static void take_map(struct row_used *u, int row, int buffer, bool is_write, uint8_t *map, int64_t bytes)
{
	struct row_bytes b = {.buffer = buffer, .is_write = is_write};
	int64_t room = 0;
	for (int64_t at = 0; at < bytes;) {
		uint8_t *first = memchr(map + at, 1, (size_t)(bytes - at));
		if (!first) break;
		int64_t from = first - map;
		uint8_t *end = memchr(first, 0, (size_t)(bytes - from));
		at = end ? end - map : bytes;
		memset(first, 0, (size_t)(at - from));
		/* The map is emptied to its end also where there is no room. */
		u->is_full |= u->npieces >= ROW_PIECES_MAX;
		if (u->is_full) continue;
		if (b.n == room) {
			room = MAX(2 * room, 4);
			b.pieces = xrealloc(b.pieces, size_mul((size_t)room, sizeof *b.pieces));
		}
		b.pieces[b.n++] = (struct row_piece){from, at};
		u->npieces++;
	}
	if (b.n) bytes_add(u, row, &b);
}

/* A range is one piece. */
static void take_range(struct row_used *u, int row, int buffer, bool is_write, struct vm_range *r)
{
	struct row_bytes b = {.buffer = buffer, .is_write = is_write, .n = 1};
	if (r->from < r->to) {
		b.pieces = xmalloc(sizeof *b.pieces);
		b.pieces[0] = (struct row_piece){r->from, r->to};
		bytes_add(u, row, &b);
	}
	*r = (struct vm_range){INT64_MAX, 0};
}

static void take_buffer(struct row_used *u, const struct tape *t, int row, int buffer, struct launcher *l)
{
	struct launcher_used used = l->used(l, buffer);
	for (int is_write = 0; is_write < 2; is_write++)
		if (used.range) take_range(u, row, buffer, is_write, &used.range[is_write]);
		else take_map(u, row, buffer, is_write, is_write ? used.written : used.read, t->buffers[buffer].bytes);
}

/* Marks the view's elements; a view of nothing marks none. */
static void mark_view(uint8_t *map, const struct tape_view *v)
{
	size_t size = dtype_bytes(v->dtype);
	int64_t index[TAPE_DIMS_MAX] = {0}, n = tape_view_elements(v), at = v->offset_bytes;
	for (int64_t i = 0; i < n; i++) {
		memset(map + at, 1, size);
		/* to the next element, the last dimension first */
		for (int d = v->ndim - 1; d >= 0; d--) {
			at += v->stride[d] * (int64_t)size;
			if (++index[d] < v->shape[d]) break;
			at -= v->stride[d] * v->shape[d] * (int64_t)size;
			index[d] = 0;
		}
	}
}

/* From the view's lowest byte to its highest. */
static void range_view(struct vm_range *r, const struct tape_view *v)
{
	int64_t size = (int64_t)dtype_bytes(v->dtype), low = v->offset_bytes, high = low;
	if (!tape_view_elements(v)) return;
	for (int d = 0; d < v->ndim; d++) {
		int64_t reach = (v->shape[d] - 1) * v->stride[d] * size;
		if (reach < 0) low += reach;
		else high += reach;
	}
	*r = (struct vm_range){low, high + size};
}

static void take_view(
	struct row_used *u, const struct tape *t, int row, const struct tape_view *v, bool is_write, struct launcher *l)
{
	struct launcher_used used = l->used(l, v->buffer);
	if (used.range) range_view(&used.range[is_write], v);
	else mark_view(is_write ? used.written : used.read, v);
	take_buffer(u, t, row, v->buffer, l);
}

void row_used_take(struct row_used *u, const struct tape *t, int row, struct launcher *l)
{
	const struct tape_row *r = &t->rows[row];
	/* A buffer that several arguments name is empty from the second time on. */
	for (int a = 0; r->kind == TAPE_LAUNCH && a < r->nargs; a++)
		if (tape_arg_has_buffer(&r->args[a])) take_buffer(u, t, row, r->args[a].buffer, l);
	for (int i = 0; r->kind == TAPE_LIBRARY && i < r->nreads; i++) take_view(u, t, row, &r->reads[i], false, l);
	for (int i = 0; r->kind == TAPE_LIBRARY && i < r->nwrites; i++) take_view(u, t, row, &r->writes[i], true, l);
	if (r->kind == TAPE_COPY) take_view(u, t, row, &r->src, false, l);
	if (r->kind == TAPE_COPY || r->kind == TAPE_FILL) take_view(u, t, row, &r->dst, true, l);
}

/* The first byte that both have. */
static int64_t bytes_meet(const struct row_bytes *a, const struct row_bytes *b)
{
	for (int64_t i = 0, j = 0; i < a->n && j < b->n;) {
		const struct row_piece *p = &a->pieces[i], *q = &b->pieces[j];
		if (p->from < q->to && q->from < p->to) return MAX(p->from, q->from);
		if (p->to <= q->from) i++;
		else j++;
	}
	return -1;
}

int64_t row_used_meet(const struct row_used *u, int row, int other, int buffer)
{
	int64_t first = -1;
	for (int i = 0; i < u->nbytes[row]; i++) {
		const struct row_bytes *a = &u->bytes[row][i];
		for (int k = 0; a->buffer == buffer && k < u->nbytes[other]; k++) {
			const struct row_bytes *b = &u->bytes[other][k];
			if (b->buffer != buffer || (!a->is_write && !b->is_write)) continue;
			int64_t at = bytes_meet(a, b);
			if (at >= 0 && (first < 0 || at < first)) first = at;
		}
	}
	return first;
}
