/* Median milliseconds of one launch of a case (tests/ref/vm_corpus.py's format) on one thread: used
 * by vm_bench.py. "check" runs it with all checks, "race" as the verifier's replay does.
 *
 *   vm_case_ms FOLDER CASE REPEATS [check | race] */
#include "vm_case.h"

int main(int argc, char **argv)
{
	struct vm_case c;
	struct vm_kernel *k;
	struct err err = {0};
	struct vm_buffer buffers[CASE_BUFFERS_MAX];
	if (argc < 4) return 2;
	int repeats = atoi(argv[3]);
	/* The case: a kernel, its buffers and arguments. */
	if (vm_case_load(argv[1], argv[2], &c, &err) || vm_kernel_create(c.ttir.data, c.ttir.len, &k, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (int i = 0; i < c.nbuffers; i++)
		buffers[i] = (struct vm_buffer){.address = tape_buffer_address(i),
			.bytes = c.buffers[i].bytes,
			.data = (uint8_t *)c.blob.data + c.buffers[i].in};
	struct vm_launch_options o = {.grid = {c.grid[0], c.grid[1], c.grid[2]},
		.args = c.args,
		.nargs = c.nargs,
		.buffers = buffers,
		.nbuffers = c.nbuffers};
	/* As it is, with all checks, or as the verifier replays. */
	if (argc > 4) o.checks = strcmp(argv[4], "race") ? VM_CHECK_ALL : VM_CHECK_RACE;
	if (argc > 4 && o.checks == VM_CHECK_ALL) o.findings_max = 64;
	/* One launch for the caches, then the repeats; their median. */
	double *ms = xcalloc((size_t)repeats + 1, sizeof *ms);
	for (int i = 0; i <= repeats; i++) {
		struct vm_report r;
		uint64_t start = clock_ns();
		if (vm_launch(k, &o, &r, &err)) {
			fprintf(stderr, "%s\n", err.text);
			return 1;
		}
		ms[i] = (double)(clock_ns() - start) * 1e-6;
		vm_report_release(&r);
	}
	doubles_sort(ms + 1, (size_t)repeats); /* without the first */
	printf("%.6f\n", ms[1 + repeats / 2]);
	free(ms);
	vm_case_free(&c);
	vm_kernel_free(k);
	return 0;
}
