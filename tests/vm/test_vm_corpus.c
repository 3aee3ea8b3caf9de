/* Every case of tests/ref/vm_corpus.py on the vm: against exact or float64 expectations with a
 * tolerance for each element, and, where Triton's own interpreter can run the case, against that
 * too. Each case also runs with cost counting and all checks, which must find no error, and on two
 * threads; neither may change a bit. timeout: 900 (Triton compiles and interprets the corpus first)
 */
#include "vm_case.h"
#include <setjmp.h>
#include <cmocka.h>

static const char *build_dir(void)
{
	const char *b = getenv("BUILD");
	return b ? b : "build/release";
}
static struct pool *pool;
static int ninterp;

static void free_all(uint8_t **data, int n)
{
	for (int i = 0; i < n; i++) free(data[i]);
}

/* The interpreter's outputs, in buffer order. Its own error allows interp_slack times the tolerance
 * beside the vm's. */
static int compare_interp(const struct vm_case *c, const char *folder, uint8_t **got, struct err *err)
{
	char path[512];
	struct str s = {0};
	/* The interpreter cannot run every case; one that it ran has a file. */
	snprintf(path, sizeof path, "%s/%s.interp", folder, c->name);
	if (!path_exists(path)) return 0;
	int rc = file_read(path, (size_t)64 << 20, &s, err);
	size_t at = 0;
	ninterp++;
	for (int i = 0; i < c->nbuffers && !rc; i++) {
		const struct vm_case_buffer *b = &c->buffers[i];
		if (!b->is_output) continue;
		if (at + (size_t)b->bytes > s.len) {
			rc = err_set(err, ERR_FORMAT, "%s is too short", path);
			break;
		}
		/* Integers to the bit; floats to the bit or within the case's tolerance. */
		for (int64_t e = 0; e < b->bytes / (int64_t)dtype_bytes(b->dtype) && !rc; e++) {
			double x = dtype_load(b->dtype, got[i], e), y = dtype_load(b->dtype, s.data + at, e);
			double tolerance = b->tolerance < 0
				? 0
				: (1 + c->interp_slack) * ((const double *)(c->blob.data + b->tolerance))[e];
			size_t size = dtype_bytes(b->dtype);
			bool same_bits = !memcmp(got[i] + (size_t)e * size, s.data + at + (size_t)e * size, size);
			if (!same_bits && (!dtype_is_float(b->dtype) || !vm_case_close(x, y, tolerance)))
				rc = err_set(err, ERR_MISMATCH, "%s: %s[%lld] is %.17g, the interpreter has %.17g (tolerance %.3g)",
					c->name, b->name, (long long)e, x, y, tolerance);
		}
		at += ((size_t)b->bytes + 7) / 8 * 8;
	}
	str_release(&s);
	return rc;
}

/* scan_pairs reduces a recurrence, which no GPU does in order: the check says so, rightly. */
static unsigned checks_of(const struct vm_case *c)
{
	return strncmp(c->name, "scan_pairs", 10) ? VM_CHECK_ALL : VM_CHECK_ALL & ~VM_CHECK_ORDER;
}

static int run_variants(const struct vm_case *c, uint8_t **plain, struct err *err)
{
	for (int variant = 0; variant < 2; variant++) {
		uint8_t *other[CASE_BUFFERS_MAX] = {NULL};
		struct vm_report r;
		int rc = vm_case_run_checked(
			c, other, variant == 0, false, variant == 0 ? checks_of(c) : 0, variant == 1 ? pool : NULL, &r, err);
		for (int i = 0; i < c->nbuffers && !rc; i++)
			if (memcmp(plain[i], other[i], (size_t)c->buffers[i].bytes))
				rc = err_set(err, ERR_MISMATCH, "%s: %s differs %s", c->name, c->buffers[i].name,
					variant ? "on two threads" : "when cost is counted and all is checked");
		if (!rc && variant == 0 && r.cost.programs != (int64_t)c->grid[0] * c->grid[1] * c->grid[2])
			rc = err_set(err, ERR_MISMATCH, "%s: programs", c->name);
		vm_report_release(&r);
		free_all(other, c->nbuffers);
		if (rc) return rc;
	}
	return 0;
}

static int check_case(const char *folder, const char *name, struct err *err)
{
	struct vm_case c;
	struct vm_report r;
	uint8_t *data[CASE_BUFFERS_MAX] = {NULL};
	int rc = vm_case_load(folder, name, &c, err);
	if (!rc) rc = vm_case_run(&c, data, false, false, NULL, &r, err);
	if (rc) err_prefix(err, "%s", name);
	for (int i = 0; i < c.nbuffers && !rc; i++)
		if (c.buffers[i].is_output) rc = vm_case_compare(&c, i, data[i], err);
	if (!rc) rc = compare_interp(&c, folder, data, err);
	if (!rc) rc = run_variants(&c, data, err);
	free_all(data, c.nbuffers);
	vm_case_free(&c);
	return rc;
}

static void run_folder(const char *folder, int *ncases)
{
	char path[512];
	struct str list = {0};
	struct err err = {0};
	int failed = 0;
	snprintf(path, sizeof path, "%s/cases.txt", folder);
	if (file_read(path, (size_t)1 << 20, &list, &err)) fail_msg("%s", err.text);
	for (char *save = NULL, *name = strtok_r(list.data, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) {
		++*ncases;
		if (check_case(folder, name, &err) && failed++ < 40) print_message("# %s\n", err.text);
	}
	str_release(&list);
	print_message("# %d cases, %d compared with the interpreter, %d failed\n", *ncases, ninterp, failed);
	assert_int_equal(failed, 0);
}

/* Fixtures are made once for each build folder, and again when the oracle's sources are newer. Both
 * folders come from one run of each process. */
static void make_fixtures(void)
{
	char command[1024];
	const char *b = build_dir();
	snprintf(command, sizeof command,
		"test -s %s/ref/vm_random/interp.done && test -z \"$(find tests/ref -name 'vm_*.py' -newer "
		"%s/ref/vm_random/interp.done)\" || "
		"for how in '' --interpret; do "
		"env LD_PRELOAD= build/venv/bin/python tests/ref/vm_corpus.py %s/ref/vm --random 200 7 %s/ref/vm_random $how "
		"|| exit 1; done",
		b, b, b, b);
	if (system(command)) fail_msg("the oracle failed: %s", command);
}

static void test_corpus(void **state)
{
	char folder[256];
	int n = 0;
	make_fixtures();
	snprintf(folder, sizeof folder, "%s/ref/vm", build_dir());
	run_folder(folder, &n);
	assert_true(n > 1000);
}

/* Random kernels: the interpreter's values are the expectation, bit for bit. */
static void test_random(void **state)
{
	char folder[256];
	int n = 0;
	snprintf(folder, sizeof folder, "%s/ref/vm_random", build_dir());
	ninterp = 0;
	run_folder(folder, &n);
	assert_int_equal(n, 200);
	assert_int_equal(ninterp, 200);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	pool = pool_create(2);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus), cmocka_unit_test(test_random)};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	pool_free(pool);
	return rc;
}
