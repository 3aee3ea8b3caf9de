/* The vm beside a GPU: the corpus of tests/ref/vm_corpus.py, whose --gpu wrote CASE.gpu files on a
 * machine that has one. For each case that is not the same to the last bit: how many values differ
 * and by how many units in the last place at most; outside: further from the GPU than the case's
 * own tolerance allows twice (one share each).
 *
 *   build/release/tests/vm/vm_gpu FOLDER      FOLDER: cases.txt, CASE.json, .ttir, .bin, .gpu */
#include "vm_case.h"

struct count {
	int cases, exact, close, outside, missing;
	int64_t values, differ;
};

/* Distance in representable values; the sign-magnitude bits become a line of integers. */
static uint64_t ordered(const uint8_t *p, size_t size)
{
	uint64_t bits = 0, sign = (uint64_t)1 << (8 * size - 1);
	memcpy(&bits, p, size);
	return bits & sign ? sign - (bits & (sign - 1)) : sign + bits;
}

static uint64_t ulps_between(const uint8_t *a, const uint8_t *b, size_t size)
{
	uint64_t x = ordered(a, size), y = ordered(b, size);
	return x > y ? x - y : y - x;
}

struct difference {
	int64_t values, differ;
	uint64_t ulps;
	bool outside;
};

static void compare(const struct vm_case *c, const struct vm_case_buffer *b, const uint8_t *ours, const uint8_t *theirs,
	struct difference *d)
{
	size_t size = dtype_bytes(b->dtype);
	for (int64_t e = 0; e < b->bytes / (int64_t)size; e++) {
		const uint8_t *p = ours + (size_t)e * size, *q = theirs + (size_t)e * size;
		d->values++;
		if (!memcmp(p, q, size)) continue;
		bool is_float = dtype_is_float(b->dtype);
		double x = dtype_load(b->dtype, p, 0), y = dtype_load(b->dtype, q, 0);
		if (is_float && isnan(x) && isnan(y)) continue; /* which NaN it is means nothing */
		double tolerance = b->tolerance < 0 ? 0 : 2 * ((const double *)(c->blob.data + b->tolerance))[e];
		d->differ++;
		if (is_float) d->ulps = MAX(d->ulps, ulps_between(p, q, size));
		d->outside |= !is_float || !vm_case_close(x, y, tolerance);
	}
}

static int compare_case(const char *folder, const char *name, struct count *n, struct err *err)
{
	struct vm_case c;
	struct vm_report r;
	struct str gpu = {0};
	uint8_t *data[CASE_BUFFERS_MAX] = {NULL};
	struct difference d = {0};
	char path[512];
	size_t at = 0;
	/* The GPU's outputs were recorded by tests/ref; cases without them are counted. */
	snprintf(path, sizeof path, "%s/%s.gpu", folder, name);
	if (!path_exists(path)) return n->missing++, 0;
	/* The vm's outputs of the same case, buffer by buffer; each starts at a multiple of 8. */
	int rc = vm_case_load(folder, name, &c, err);
	if (!rc) rc = vm_case_run(&c, data, false, false, NULL, &r, err);
	if (!rc) rc = file_read(path, (size_t)64 << 20, &gpu, err);
	for (int i = 0; i < c.nbuffers && !rc; i++) {
		if (!c.buffers[i].is_output) continue;
		if (at + (size_t)c.buffers[i].bytes > gpu.len) rc = err_set(err, ERR_FORMAT, "%s is too short", path);
		else compare(&c, &c.buffers[i], data[i], (uint8_t *)gpu.data + at, &d);
		at += ((size_t)c.buffers[i].bytes + 7) / 8 * 8;
	}
	/* Exact, within the tolerance, or outside of it. */
	n->cases++;
	n->values += d.values;
	n->differ += d.differ;
	*(d.outside ? &n->outside : d.differ ? &n->close : &n->exact) += 1;
	if (d.differ)
		printf("%-8s %-48s %6lld of %lld values, up to %llu ulp\n", d.outside ? "outside" : "close", name,
			(long long)d.differ, (long long)d.values, (unsigned long long)d.ulps);
	for (int i = 0; i < c.nbuffers; i++) free(data[i]);
	str_release(&gpu);
	vm_case_free(&c);
	return rc;
}

int main(int argc, char **argv)
{
	char path[512];
	struct str list = {0};
	struct err err = {0};
	struct count n = {0};
	if (argc != 2) return fprintf(stderr, "usage: vm_gpu FOLDER\n"), 2;
	snprintf(path, sizeof path, "%s/cases.txt", argv[1]);
	if (file_read(path, (size_t)1 << 20, &list, &err)) return fprintf(stderr, "%s\n", err.text), 1;
	for (char *save = NULL, *name = strtok_r(list.data, "\n", &save); name; name = strtok_r(NULL, "\n", &save))
		if (compare_case(argv[1], name, &n, &err)) return fprintf(stderr, "%s: %s\n", name, err.text), 1;
	printf("%d cases: %d the same bits, %d within tolerance, %d outside; %d have no GPU file; %lld of %lld values "
		   "differ\n",
		n.cases, n.exact, n.close, n.outside, n.missing, (long long)n.differ, (long long)n.values);
	str_release(&list);
	return n.outside > 0;
}
