/* What must hold for every tape that tape_parse accepts, checked without its code: whoever
 * replays a tape relies on it. Shared by the corruption test and the fuzz program. */
#ifndef TAPE_INVARIANTS_H
#define TAPE_INVARIANTS_H
#include "tape/tape.h"
#include <stdlib.h>

static void invariant_view(const struct tape *t, const struct tape_view *v)
{
	CHECK(v->buffer >= 0 && v->buffer < t->nbuffers && v->ndim >= 0 && v->ndim <= TAPE_DIMS_MAX &&
		v->dtype < DTYPE_COUNT);
	__int128 size = (__int128)dtype_bytes(v->dtype), last = 0, count = 1;
	for (int i = 0; i < v->ndim; i++) {
		CHECK(v->shape[i] >= 0 && v->stride[i] >= 0);
		if (v->shape[i] == 0) return;
		last += (__int128)(v->shape[i] - 1) * v->stride[i];
		count *= v->shape[i];
		CHECK(count * size <= TAPE_BUFFER_BYTES_MAX);
	}
	CHECK(v->offset_bytes >= 0 && v->offset_bytes % size == 0 &&
		v->offset_bytes + (last + 1) * size <= t->buffers[v->buffer].bytes);
	CHECK(tape_view_elements(v) == (int64_t)count);
}

static void invariant_target(const struct tape *t, const struct tape_view *v)
{
	invariant_view(t, v);
	CHECK(tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype) <= t->buffers[v->buffer].bytes);
}

static void invariant_launch(const struct tape *t, const struct tape_row *r)
{
	CHECK(r->kernel >= 0 && r->kernel < t->nkernels && r->nargs >= 0 && r->nargs <= TAPE_ARGS_MAX);
	for (int i = 0; i < 3; i++) CHECK(r->grid[i] >= 1 && r->grid[i] <= (i ? 65535u : 2147483647u));
	for (int i = 0; i < r->nargs; i++) {
		const struct tape_arg *a = &r->args[i];
		if (a->kind == TAPE_ARG_DESCRIPTOR) {
			const struct tape_view *v = &a->descriptor->view;
			invariant_view(t, v);
			CHECK(v->ndim >= 1 && v->ndim <= 5 && v->stride[v->ndim - 1] == 1 && v->offset_bytes % 16 == 0);
			CHECK(a->buffer == v->buffer && a->offset_bytes == v->offset_bytes);
			for (int d = 0; d < v->ndim; d++) CHECK(a->descriptor->block[d] >= 1 && v->shape[d] <= INT32_MAX);
			continue;
		}
		if (a->kind != TAPE_ARG_POINTER) continue;
		CHECK(a->buffer >= 0 && a->buffer < t->nbuffers && a->offset_bytes >= 0 &&
			a->offset_bytes <= t->buffers[a->buffer].bytes);
	}
}

static void invariant_row(const struct tape *t, const struct tape_row *r)
{
	CHECK(r->line >= 0 && r->stream >= 0 && r->stream < t->nstreams && t->nstreams <= TAPE_STREAMS_MAX);
	switch (r->kind) {
	case TAPE_LAUNCH: invariant_launch(t, r); break;
	case TAPE_FILL: invariant_target(t, &r->dst); break;
	case TAPE_COPY:
		invariant_target(t, &r->dst);
		invariant_view(t, &r->src);
		CHECK(tape_view_elements(&r->dst) == tape_view_elements(&r->src));
		break;
	case TAPE_RECORD:
	case TAPE_WAIT: CHECK(r->event >= 0 && r->event < t->nevents && t->nevents <= TAPE_EVENTS_MAX); break;
	default:
		CHECK(r->kind == TAPE_LIBRARY && r->op && r->op_args);
		for (int i = 0; i < r->nreads; i++) invariant_view(t, &r->reads[i]);
		for (int i = 0; i < r->nwrites; i++) invariant_view(t, &r->writes[i]);
	}
}

static void invariant_tape(const struct tape *t)
{
	int64_t total = 0;
	bool *on_path = calloc((size_t)t->nrows + 1, sizeof(*on_path));
	int row = -1;
	CHECK(t->nbuffers <= TAPE_BUFFERS_MAX && t->nrows <= TAPE_ROWS_MAX && t->nkernels <= TAPE_KERNELS_MAX);
	CHECK(t->noutputs >= 1 && t->noutputs <= TAPE_OUTPUTS_MAX);
	for (int i = 0; i < t->nbuffers; i++) {
		const struct tape_buffer *b = &t->buffers[i];
		CHECK(b->bytes >= 0 && (total += b->bytes) <= TAPE_TOTAL_BYTES_MAX && (b->kind != TAPE_PARAM || b->name) &&
			(b->kind != TAPE_CONST || b->data));
	}
	for (int i = 0; i < t->nkernels; i++)
		CHECK(t->kernels[i].ttir_len > 0 && strlen(t->kernels[i].ttir) == t->kernels[i].ttir_len &&
			t->kernels[i].num_warps >= 1);
	for (int i = 0; i < t->nrows; i++) invariant_row(t, &t->rows[i]);
	for (int i = 0; i < t->noutputs; i++) invariant_view(t, &t->outputs[i]);
	tape_data_path(t, on_path);
	enum tape_lineage l = tape_lineage_static(t, &row);
	CHECK(
		l != TAPE_LINEAGE_LIBRARY || (row >= 0 && row < t->nrows && on_path[row] && t->rows[row].kind == TAPE_LIBRARY));
	free(on_path);
}

/* Parses anything; what is accepted must keep the promises, what is refused must say why. Returns
 * tape_parse's result. */
static inline int invariant_parse(const char *text, size_t len)
{
	struct tape *t = NULL;
	struct err err = {0};
	int rc = tape_parse(text, len, &t, &err);
	CHECK(rc == 0 ? t != NULL : t == NULL && err.code == rc && err.text[0]);
	if (t) invariant_tape(t);
	tape_free(t);
	return rc;
}
#endif
