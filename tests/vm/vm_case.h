/* A case of tests/ref/vm_corpus.py in C: loaded, run on the vm, compared. */
#ifndef VM_CASE_H
#define VM_CASE_H
#include "base/dtype.h"
#include "tape/tape.h"
#include "vm/vm.h"
#include <math.h>
#include <stdlib.h>

#define CASE_BUFFERS_MAX 16
struct vm_case_buffer {
	char name[64];
	enum dtype dtype;
	int64_t bytes;
	int64_t in;
	int64_t expected;
	int64_t tolerance;
	int64_t exact;
	bool is_output;
};
struct vm_case {
	char name[128];
	struct str ttir;
	struct str blob;
	uint32_t grid[3];
	int nargs;
	struct vm_arg args[64];
	int nbuffers;
	struct vm_case_buffer buffers[CASE_BUFFERS_MAX];
	double interp_slack;
};

static inline void vm_case_free(struct vm_case *c)
{
	str_release(&c->ttir);
	str_release(&c->blob);
}

static inline int64_t vm_case_offset(const json_t *b, const char *key)
{
	const json_t *v = json_object_get(b, key);
	return v ? json_integer_value(v) : -1;
}

static inline int vm_case_load(const char *folder, const char *name, struct vm_case *c, struct err *err)
{
	char path[512];
	json_t *j;
	*c = (struct vm_case){.nargs = 0};
	snprintf(c->name, sizeof c->name, "%s", name);
	snprintf(path, sizeof path, "%s/%s.json", folder, name);
	int rc = json_load(path, (size_t)1 << 20, &j, err);
	if (rc) return rc;
	/* Beside the description: the kernel's IR, and the contents of all buffers in one file. */
	snprintf(path, sizeof path, "%s/%s.ttir", folder, name);
	rc = file_read(path, (size_t)16 << 20, &c->ttir, err);
	snprintf(path, sizeof path, "%s/%s.bin", folder, name);
	if (!rc) rc = file_read(path, (size_t)64 << 20, &c->blob, err);
	/* Arguments are a buffer's address or a number; buffers say where in that file their contents
	 * and what is expected of them begin. */
	size_t i;
	json_t *v;
	json_array_foreach(json_object_get(j, "grid"), i, v) c->grid[i] = (uint32_t)json_integer_value(v);
	json_array_foreach(json_object_get(j, "args"), i, v)
	{
		struct vm_arg *a = &c->args[c->nargs++];
		if (json_object_get(v, "buffer"))
			a->i = (int64_t)tape_buffer_address((int)json_integer_value(json_object_get(v, "buffer")));
		else if (json_object_get(v, "int")) a->i = json_integer_value(json_object_get(v, "int"));
		else a->f = json_number_value(json_object_get(v, "float"));
	}
	json_array_foreach(json_object_get(j, "buffers"), i, v)
	{
		struct vm_case_buffer *b = &c->buffers[c->nbuffers++];
		snprintf(b->name, sizeof b->name, "%s", json_string_value(json_object_get(v, "name")));
		if (dtype_from_name(json_string_value(json_object_get(v, "dtype")), &b->dtype))
			rc = err_set(err, ERR_FORMAT, "dtype of %s", b->name);
		b->bytes = json_integer_value(json_object_get(v, "bytes"));
		b->in = vm_case_offset(v, "data");
		b->expected = vm_case_offset(v, "expected");
		b->tolerance = vm_case_offset(v, "tolerance");
		b->exact = vm_case_offset(v, "exact");
		b->is_output = json_is_true(json_object_get(v, "output"));
	}
	c->interp_slack = json_number_value(json_object_get(j, "interp_slack"));
	json_decref(j);
	return rc;
}

/* Which bytes the launch used, of buffer i, is what others say who count it in another way: what is
 * written has the kernel's origin, and of what is read the meter knows the pieces of 32 bytes. */
static inline int vm_case_used(const struct vm_case *c, int i, const struct vm_buffer *b, const uint8_t *origin,
	const struct vm_report *r, struct err *err)
{
	int64_t read = 0;
	for (int64_t at = 0; at < b->bytes; at++)
		if (b->written[at] != (origin[at] == TAPE_ORIGIN_KERNEL))
			return err_set(err, ERR_MISMATCH, "%s: byte %lld of %s is%s among what is written", c->name, (long long)at,
				c->buffers[i].name, b->written[at] ? "" : " not");
	for (int64_t at = 0; at < b->bytes; at += 32)
		if (memchr(b->read + at, 1, (size_t)MIN(b->bytes - at, 32))) read += 32;
	if (r->touched && MIN(read, b->bytes) != r->touched[2 * i])
		return err_set(err, ERR_MISMATCH, "%s: %lld bytes of %s are among what is read, and the meter has %lld",
			c->name, (long long)MIN(read, b->bytes), c->buffers[i].name, (long long)r->touched[2 * i]);
	return 0;
}

/* Runs the case; data[i] becomes the contents of buffer i afterwards (caller frees), with 64 guard
 * bytes behind. Inputs are read-only. */
static inline int vm_case_run_checked(const struct vm_case *c, uint8_t **data, bool want_cost, bool fma,
	unsigned checks, struct pool *pool, struct vm_report *report, struct err *err)
{
	struct vm_kernel *k;
	struct vm_buffer buffers[CASE_BUFFERS_MAX];
	uint8_t *origin[CASE_BUFFERS_MAX];
	*report = (struct vm_report){.fault = VM_FAULT_NONE};
	int rc = vm_kernel_create(c->ttir.data, c->ttir.len, &k, err);
	/* Buffers with guards behind them; what is given counts as such. */
	for (int i = 0; i < c->nbuffers; i++) {
		size_t bytes = (size_t)c->buffers[i].bytes;
		data[i] = xmalloc(bytes + 64);
		memcpy(data[i], c->blob.data + c->buffers[i].in, bytes);
		memset(data[i] + bytes, 0xa5, 64);
		origin[i] = xmalloc(bytes + 1);
		memset(origin[i], TAPE_ORIGIN_GIVEN, bytes);
		buffers[i] = (struct vm_buffer){.address = tape_buffer_address(i),
			.bytes = c->buffers[i].bytes,
			.data = data[i],
			.origin = origin[i],
			.read = xcalloc(bytes + 1, 1),
			.written = xcalloc(bytes + 1, 1),
			.is_read_only = !c->buffers[i].is_output};
	}
	if (!rc) {
		struct vm_launch_options o = {
			.grid = {c->grid[0], c->grid[1], c->grid[2]},
			.args = c->args,
			.nargs = c->nargs,
			.buffers = buffers,
			.nbuffers = c->nbuffers,
			.pool = pool,
			.deadline_ns = clock_ns() + (uint64_t)60 * 1000000000u,
			.want_cost = want_cost,
			.fma_contract = fma,
			.checks = checks,
		};
		rc = vm_launch(k, &o, report, err);
		vm_kernel_free(k);
	}
	for (int i = 0; i < c->nbuffers; i++) {
		if (!rc) rc = vm_case_used(c, i, &buffers[i], origin[i], report, err);
		free(origin[i]);
		free(buffers[i].read);
		free(buffers[i].written);
	}
	return rc;
}

static inline int vm_case_run(const struct vm_case *c, uint8_t **data, bool want_cost, bool fma, struct pool *pool,
	struct vm_report *report, struct err *err)
{
	return vm_case_run_checked(c, data, want_cost, fma, 0, pool, report, err);
}

static inline bool vm_case_close(double got, double want, double tolerance)
{
	if (isnan(want)) return isnan(got);
	if (isinf(want) || isinf(got)) return got == want;
	return fabs(got - want) <= tolerance;
}

/* 0 when output i is as expected; err says the first difference. */
static inline int vm_case_compare(const struct vm_case *c, int i, const uint8_t *got, struct err *err)
{
	const struct vm_case_buffer *b = &c->buffers[i];
	int64_t n = b->bytes / (int64_t)dtype_bytes(b->dtype);
	/* Guards first: a store beyond the end would hide behind right values. */
	for (int g = 0; g < 64; g++)
		if (got[b->bytes + g] != 0xa5) return err_set(err, ERR_MISMATCH, "%s: guard behind %s", c->name, b->name);
	for (int64_t e = 0; e < n; e++) {
		double x = dtype_load(b->dtype, got, e);
		/* Bits where the reference has them, NaN for NaN; else a value and what rounding may move
		 * it by. */
		if (b->exact >= 0) {
			const uint8_t *want = (const uint8_t *)c->blob.data + b->exact;
			size_t size = dtype_bytes(b->dtype);
			double y = dtype_load(b->dtype, want, e);
			if (memcmp(want + (size_t)e * size, got + (size_t)e * size, size) &&
				!(dtype_is_float(b->dtype) && isnan(x) && isnan(y)))
				return err_set(err, ERR_MISMATCH, "%s: %s[%lld] is %.17g, expected exactly %.17g", c->name, b->name,
					(long long)e, x, y);
		} else if (b->expected >= 0) {
			double want = ((const double *)(c->blob.data + b->expected))[e],
				   tolerance = ((const double *)(c->blob.data + b->tolerance))[e];
			if (b->dtype == DTYPE_F32 && fabs(want) > 3.4028235677973366e38)
				want = copysign(INFINITY, want); /* rounds to infinity */
			if (!vm_case_close(x, want, tolerance))
				return err_set(err, ERR_MISMATCH, "%s: %s[%lld] is %.17g, expected %.17g +- %.3g", c->name, b->name,
					(long long)e, x, want, tolerance);
		}
	}
	return 0;
}
#endif
