/* Planted bugs (tests/vm/bugs): each is found at its line and is the first error of its run; honest
 * kernels have none. Marked notes are there. The same is found whatever the number of threads, and
 * when the launch stops at its first error. Checks that are switched off find nothing of theirs.
 * timeout: 600 (Triton compiles the kernels first) */
#include "vm_case.h"
#include <setjmp.h>
#include <cmocka.h>

#define FINDINGS 64
static const char *build_dir(void)
{
	const char *b = getenv("BUILD");
	return b ? b : "build/release";
}
static char folder[256];
static struct pool *pool;

struct planted {
	struct vm_case c;
	json_t *json;
	char kind[32];
	int line;
}; /* kind: "" for an honest kernel */

static int planted_load(const char *name, struct planted *p, struct err *err)
{
	char path[512];
	*p = (struct planted){.line = 0};
	snprintf(path, sizeof path, "%s/%s.json", folder, name);
	int rc = vm_case_load(folder, name, &p->c, err);
	if (!rc) rc = json_load(path, (size_t)1 << 20, &p->json, err);
	json_t *bug = rc ? NULL : json_object_get(p->json, "bug");
	if (!json_is_object(bug)) return rc;
	snprintf(p->kind, sizeof p->kind, "%s", json_string_value(json_object_get(bug, "kind")));
	p->line = (int)json_integer_value(json_object_get(bug, "line"));
	return 0;
}

static void planted_release(struct planted *p)
{
	vm_case_free(&p->c);
	json_decref(p->json);
}

static int planted_run(
	const struct planted *p, unsigned checks, int findings_max, struct pool *with, struct vm_report *r, struct err *err)
{
	struct vm_kernel *k;
	struct vm_buffer buffers[CASE_BUFFERS_MAX];
	int rc = vm_kernel_create(p->c.ttir.data, p->c.ttir.len, &k, err);
	*r = (struct vm_report){.fault = VM_FAULT_NONE};
	if (rc) return rc;
	/* The case's buffers, each with its origin: what torch.empty gave counts as never written. */
	for (int i = 0; i < p->c.nbuffers; i++) {
		size_t bytes = (size_t)p->c.buffers[i].bytes;
		bool is_empty = json_is_true(json_array_get(json_object_get(p->json, "empty"), (size_t)i));
		buffers[i] = (struct vm_buffer){
			.address = tape_buffer_address(i),
			.bytes = p->c.buffers[i].bytes,
			.data = xmalloc(bytes + 1),
			.origin = xmalloc(bytes + 1),
			.is_read_only = !p->c.buffers[i].is_output,
		};
		memcpy(buffers[i].data, p->c.blob.data + p->c.buffers[i].in, bytes);
		memset(buffers[i].origin, is_empty ? TAPE_ORIGIN_NONE : TAPE_ORIGIN_GIVEN, bytes);
	}
	struct vm_launch_options o = {.grid = {p->c.grid[0], p->c.grid[1], p->c.grid[2]},
		.args = p->c.args,
		.nargs = p->c.nargs,
		.buffers = buffers,
		.nbuffers = p->c.nbuffers,
		.pool = with,
		.deadline_ns = clock_ns() + (uint64_t)20 * 1000000000u,
		.checks = checks,
		.findings_max = findings_max};
	rc = vm_launch(k, &o, r, err);
	for (int i = 0; i < p->c.nbuffers; i++) {
		free(buffers[i].data);
		free(buffers[i].origin);
	}
	vm_kernel_free(k);
	return rc;
}

static const struct vm_finding *first_error(const struct vm_report *r)
{
	for (int i = 0; i < r->nfindings; i++)
		if (r->findings[i].fault != VM_FAULT_NONE) return &r->findings[i];
	return NULL;
}

static bool has_note(const struct vm_report *r, const char *kind, int line)
{
	for (int i = 0; i < r->nfindings; i++)
		if (r->findings[i].note != VM_NOTE_NONE && r->findings[i].line == line &&
			!strcmp(vm_note_name(r->findings[i].note), kind))
			return true;
	return false;
}

static bool same_findings(const struct vm_report *a, const struct vm_report *b)
{
	if (a->nfindings != b->nfindings || a->fault != b->fault || strcmp(a->text, b->text)) return false;
	for (int i = 0; i < a->nfindings; i++)
		if (memcmp(&a->findings[i], &b->findings[i], sizeof a->findings[i])) return false;
	return true;
}

static int compare(const struct planted *p, int rc, const struct vm_report *r, struct err *err)
{
	const struct vm_finding *f = first_error(r);
	/* An honest kernel has no finding; a planted bug is the first one, with kind and line. */
	if (!p->kind[0]) {
		if (rc || f) return err_set(err, ERR_MISMATCH, "%s is honest: %s", p->c.name, f ? r->text : err->text);
	} else {
		if (rc != ERR_MISMATCH || !f)
			return err_set(err, ERR_MISMATCH, "%s: nothing found, expected %s at line %d", p->c.name, p->kind, p->line);
		if (strcmp(vm_fault_name(f->fault), p->kind) || f->line != p->line || r->line != p->line ||
			r->fault != f->fault)
			return err_set(err, ERR_MISMATCH, "%s: expected %s at line %d: %s", p->c.name, p->kind, p->line, r->text);
		/* The finding is complete enough to be a message. */
		if (!f->text[0] || !strstr(f->file, ".py") || f->times < 1 || f->programs < 1 || f->programs > f->times)
			return err_set(err, ERR_MISMATCH, "%s: file '%s', text '%s', %lld times in %lld programs", p->c.name,
				f->file, f->text, (long long)f->times, (long long)f->programs);
	}
	size_t i;
	/* The notes that the case expects. */
	json_t *note;
	json_array_foreach(json_object_get(p->json, "notes"), i, note)
	{
		const char *kind = json_string_value(json_object_get(note, "kind"));
		int line = (int)json_integer_value(json_object_get(note, "line"));
		if (!has_note(r, kind, line))
			return err_set(err, ERR_MISMATCH, "%s: no note %s at line %d", p->c.name, kind, line);
	}
	/* No atomic of these has a mask that its author wrote. */
	for (int k = 0; k < r->nfindings; k++) {
		enum vm_note kind = r->findings[k].note;
		bool is_mask = kind == VM_NOTE_MASK_ALWAYS || kind == VM_NOTE_MASK_NEVER;
		if (is_mask && strstr(r->findings[k].text, "atomic"))
			return err_set(err, ERR_MISMATCH, "%s: line %d: %s", p->c.name, r->findings[k].line, r->findings[k].text);
	}
	return 0;
}

/* A race is found where nothing else is looked for, too, as the verifier does it: other checks make
 * accesses take another way. */
static int races_alone(const struct planted *p, const struct vm_report *all, struct err *err)
{
	struct vm_report r;
	if (p->kind[0] && strcmp(p->kind, "race")) return 0;
	int rc = planted_run(p, VM_CHECK_RACE, 0, NULL, &r, err);
	vm_report_release(&r);
	if (rc == (p->kind[0] ? ERR_MISMATCH : 0) && !strcmp(r.text, all->text)) return 0;
	return err_set(err, ERR_MISMATCH, "%s: looking for races alone finds '%s', not '%s'", p->c.name, r.text, all->text);
}

static int check_planted(const struct planted *p, struct err *err)
{
	struct vm_report all, threads, first;
	int rc = planted_run(p, VM_CHECK_ALL, FINDINGS, NULL, &all, err);
	int rc_threads = planted_run(p, VM_CHECK_ALL, FINDINGS, pool, &threads, err),
		rc_first = planted_run(p, VM_CHECK_ALL, 0, NULL, &first, err);
	int bad = compare(p, rc, &all, err);
	if (!bad && (rc != rc_threads || !same_findings(&all, &threads)))
		bad = err_set(err, ERR_MISMATCH, "%s: other findings with two threads", p->c.name);
	if (!bad && (rc != rc_first || first.nfindings || strcmp(first.text, all.text)))
		bad = err_set(
			err, ERR_MISMATCH, "%s: stopping at the first error finds '%s', not '%s'", p->c.name, first.text, all.text);
	bad = bad ? bad : races_alone(p, &all, err);
	vm_report_release(&all);
	vm_report_release(&threads);
	vm_report_release(&first);
	return bad;
}

struct tally {
	int bugs, honest, failed;
};

static void each(const char *name, struct tally *t)
{
	struct planted p;
	struct err err = {0};
	int rc = planted_load(name, &p, &err);
	if (!rc) rc = check_planted(&p, &err);
	t->bugs += p.kind[0] != 0;
	t->honest += !p.kind[0];
	if (rc && t->failed++ < 40) print_message("# %s\n", err.text);
	planted_release(&p);
}

static void test_planted(void **state)
{
	char path[512], *save = NULL;
	struct str list = {0};
	struct err err = {0};
	struct tally t = {0};
	snprintf(path, sizeof path, "%s/cases.txt", folder);
	if (file_read(path, (size_t)1 << 20, &list, &err)) fail_msg("%s", err.text);
	for (char *name = strtok_r(list.data, "\n", &save); name; name = strtok_r(NULL, "\n", &save)) each(name, &t);
	str_release(&list);
	print_message("# %d planted bugs, %d honest kernels, %d failed\n", t.bugs, t.honest, t.failed);
	assert_true(t.bugs >= 95 && t.honest >= 95);
	assert_int_equal(t.failed, 0);
}

/* Each kind of bug is found by the check that is named for it, and by no other. */
static void test_checks_alone(void **state)
{
	static const struct {
		const char *name;
		unsigned check;
		enum vm_fault fault;
	} cases[] = {
		{"adds_without_atomic", VM_CHECK_RACE, VM_FAULT_RACE},
		{"lock_relaxed", VM_CHECK_RACE, VM_FAULT_RACE},
		{"wraps_into_the_buffer", VM_CHECK_OVERFLOW, VM_FAULT_INDEX_OVERFLOW},
		{"quotient_stored", VM_CHECK_DIVISION, VM_FAULT_DIVISION_BY_ZERO},
		{"takes_means_of_means", VM_CHECK_ORDER, VM_FAULT_ORDER},
		{"finds_a_positive_by_branch", VM_CHECK_ORDER, VM_FAULT_ORDER},
	};
	static const unsigned checks[] = {
		VM_CHECK_RACE, VM_CHECK_OVERFLOW, VM_CHECK_DIVISION, VM_CHECK_NOTES, VM_CHECK_ORDER};
	/* Each has a bit of its own. */
	unsigned all = 0;
	for (size_t k = 0; k < ARRAY_LEN(checks); k++) {
		assert_int_equal(all & checks[k], 0);
		all |= checks[k];
	}
	assert_int_equal(all, VM_CHECK_ALL);
	/* With that check alone, then with all but that one, and with each of the others. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct planted p;
		struct err err = {0};
		struct vm_report with, without;
		if (planted_load(cases[i].name, &p, &err)) fail_msg("%s", err.text);
		assert_int_equal(planted_run(&p, cases[i].check, FINDINGS, NULL, &with, &err), ERR_MISMATCH);
		assert_int_equal(with.fault, cases[i].fault);
		assert_int_equal(planted_run(&p, VM_CHECK_ALL & ~cases[i].check, FINDINGS, NULL, &without, &err), 0);
		assert_null(first_error(&without));
		vm_report_release(&with);
		vm_report_release(&without);
		for (size_t k = 0; k < ARRAY_LEN(checks); k++) {
			if (checks[k] == cases[i].check) continue;
			if (planted_run(&p, checks[k], FINDINGS, NULL, &with, &err))
				fail_msg("%s: check %u finds %s", cases[i].name, checks[k], with.text);
			vm_report_release(&with);
		}
		planted_release(&p);
	}
}

/* What a message is made of: both accesses of a race, buffer, argument, name, offset and bounds. */
static void test_details(void **state)
{
	struct planted p;
	struct err err = {0};
	struct vm_report r;
	if (planted_load("adds_rows_without_atomic", &p, &err)) fail_msg("%s", err.text);
	assert_int_equal(planted_run(&p, VM_CHECK_RACE, FINDINGS, NULL, &r, &err), ERR_MISMATCH);
	/* A race: who read, who wrote, what, and how often. */
	const struct vm_finding *f = first_error(&r);
	assert_int_equal(f->other_line, p.line + 1);
	assert_int_equal(f->program[0], 1);
	assert_int_equal(f->other_program[0], 0);
	assert_int_equal(f->buffer, 1);
	assert_int_equal(f->argument, 1);
	assert_string_equal(f->name, "o");
	assert_string_equal(f->expression, "old");
	assert_int_equal(f->offset, 0);
	assert_int_equal(f->bytes, 64);
	assert_int_equal(f->times, 3 * 16); /* three programs read sixteen elements that another stored */
	assert_int_equal(f->programs, 3);
	vm_report_release(&r);
	planted_release(&p);
	/* An access outside: which element, and how far outside of what. */
	if (planted_load("negative_neighbour", &p, &err)) fail_msg("%s", err.text);
	assert_int_equal(planted_run(&p, VM_CHECK_ALL, FINDINGS, NULL, &r, &err), ERR_MISMATCH);
	f = first_error(&r);
	assert_int_equal(f->element, 0);
	assert_int_equal(f->argument, 0);
	assert_int_equal(f->offset, -4);
	assert_int_equal(f->bytes, 400);
	assert_int_equal(f->times, 1);
	vm_report_release(&r);
	planted_release(&p);
}

/* A list of one place: the rest is counted. */
static void test_bounded(void **state)
{
	struct planted p;
	struct err err = {0};
	struct vm_report r;
	if (planted_load("rows_and_columns_swapped", &p, &err)) fail_msg("%s", err.text);
	planted_run(&p, VM_CHECK_ALL, FINDINGS, NULL, &r, &err);
	int places = r.nfindings;
	vm_report_release(&r);
	assert_true(places > 1);
	assert_int_equal(planted_run(&p, VM_CHECK_ALL, 1, NULL, &r, &err), ERR_MISMATCH);
	assert_int_equal(r.nfindings, 1);
	assert_true(r.findings_dropped >= places - 1);
	vm_report_release(&r);
	planted_release(&p);
}

static int make_fixtures(void **state)
{
	char command[1024];
	const char *b = build_dir();
	snprintf(folder, sizeof folder, "%s/ref/vm_bugs", b);
	snprintf(command, sizeof command,
		"test -s %s/cases.txt && test -z \"$(find tests/vm/bugs tests/ref/vm_corpus.py -name '*.py' -newer "
		"%s/cases.txt)\" || "
		"env LD_PRELOAD= build/venv/bin/python tests/vm/bugs/planted.py %s",
		folder, folder, folder);
	pool = pool_create(2);
	return system(command);
}

static int release(void **state)
{
	pool_free(pool);
	return 0;
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_planted), cmocka_unit_test(test_checks_alone),
		cmocka_unit_test(test_details), cmocka_unit_test(test_bounded)};
	return cmocka_run_group_tests(tests, make_fixtures, release);
}
