/* libFuzzer entry of the messages between supervisor and runner, each side of which may have been
 * taken over. The first byte says which message the rest is; what is accepted keeps its bounds, and
 * is written out and read back as the same message. */
#include "fuzz.h"
#include "runner/runner.h"

#define BYTES 4096 /* of binaries */
#define OUTPUTS 2  /* of the tape */

/* Written again: the same text. */
static void again_check(json_t *one, json_t *two)
{
	CHECK(one && two);
	char *a = json_dumps(one, JSON_COMPACT), *b = json_dumps(two, JSON_COMPACT);
	CHECKF(a && b && !strcmp(a, b), "%s beside %s", a, b);
	free(a);
	free(b);
	json_decref(one);
	json_decref(two);
}

static void costs_check(const struct runner_result *r)
{
	for (int i = 0; i < r->ncosts; i++) {
		const struct runner_row_cost *c = &r->costs[i];
		CHECK(c->row >= 0 && c->row <= TAPE_ROWS_MAX && c->kind >= 0 && c->kind < TAPE_ROW_KIND_COUNT);
		CHECK(c->kernel >= 0 && c->bytes >= 0 && c->sampled >= 0 && c->error >= 0 && (!c->reached || *c->reached));
	}
	for (int i = 0; i < r->coverage.nsites; i++) {
		const struct runner_site *s = &r->coverage.sites[i];
		CHECK(s->id >= 0 && s->kernel >= 0 && s->kernel < TAPE_KERNELS_MAX && s->kind < SITE_KIND_COUNT);
		CHECK(s->wanted <= 7 && s->taken <= 7 && strlen(s->what) < sizeof s->what);
	}
	for (int i = 0; i < r->coverage.nplaced; i++) {
		const struct runner_placed *p = &r->coverage.placed[i];
		CHECK(p->input >= -1 && p->element >= 0 && p->size >= 0 && p->size <= 8);
	}
	for (int i = 0; i < r->coverage.nmissed; i++) {
		const struct runner_missed *m = &r->coverage.missed[i];
		CHECK(m->input >= -1 && m->element >= 0 && m->size >= 0 && m->size <= 8 && m->line >= 0);
	}
	for (int i = 0; i < r->coverage.nsmall; i++) CHECK(r->coverage.small[i] > 0);
	CHECK(r->coverage.nmissed <= RUNNER_MISSED_MAX && r->coverage.nsmall <= VM_SMALL_MAX);
	CHECK(r->ncosts <= TAPE_ROWS_MAX && r->ntouched <= TAPE_BUFFERS_MAX && r->coverage.nplaced <= RUNNER_PLACED_MAX);
}

static int result(const json_t *o, struct err *err)
{
	struct runner_result r, back;
	struct err ignored = {0};
	const struct tape t = {.nrows = 4, .nkernels = 2, .nbuffers = 3, .noutputs = OUTPUTS};
	int rc = runner_result_parse(o, &r, err);
	if (rc) return rc;
	CHECK(r.lineage >= 0 && r.lineage < TAPE_LINEAGE_COUNT && r.place.output >= -1 && r.run_ns >= 0);
	costs_check(&r);
	if (!runner_result_check(&r, &t, &ignored)) {
		for (int i = 0; i < r.ncosts; i++) CHECK(r.costs[i].row < t.nrows);
		CHECK(r.ntouched <= t.nbuffers && r.place.output < t.noutputs);
	}
	json_t *written = runner_result_json(&r);
	CHECKF(!runner_result_parse(written, &back, &ignored), "%s", ignored.text);
	again_check(json_incref(written), runner_result_json(&back));
	json_decref(written);
	runner_result_release(&r);
	runner_result_release(&back);
	return 0;
}

static int fault(const json_t *o, struct err *err)
{
	struct runner_fault f, back;
	int rc = runner_fault_parse(o, &f, err);
	if (rc) return rc;
	json_t *written = runner_fault_json(&f);
	CHECK(!runner_fault_parse(written, &back, err));
	again_check(written, runner_fault_json(&back));
	return 0;
}

static int device(const json_t *o, struct err *err)
{
	struct runner_device d, back;
	int rc = runner_device_parse(o, &d, err);
	if (rc) return rc;
	CHECK(d.sms >= 0 && d.shared_bytes >= 0 && d.memory_bytes >= 0);
	json_t *written = runner_device_json(&d);
	CHECK(!runner_device_parse(written, &back, err));
	again_check(written, runner_device_json(&back));
	return 0;
}

static int binaries(const json_t *o, struct err *err)
{
	struct runner_binaries b = {0}, back = {0};
	const json_t *list = json_object_get(o, "binaries");
	int rc = runner_binaries_parse(list, BYTES, &b, err);
	if (rc) return rc;
	for (int i = 0; i < b.count; i++) {
		const struct runner_binary *one = &b.binaries[i];
		CHECK(one->offset >= 0 && one->bytes > 0 && one->offset + one->bytes <= BYTES && one->name);
		CHECK(one->nargs <= TAPE_ARGS_MAX && one->nmaps <= (int)ARRAY_LEN(one->maps));
		for (int a = 0; a < one->nargs; a++) CHECK(one->args[a]);
		for (int m = 0; m < one->nmaps; m++)
			CHECK(one->maps[m].ndim >= 1 && one->maps[m].ndim <= TAPE_DESCRIPTOR_DIMS_MAX);
	}
	json_t *written = runner_binaries_json(b.binaries, b.count);
	CHECK(!runner_binaries_parse(written, BYTES, &back, err));
	again_check(json_incref(written), runner_binaries_json(back.binaries, back.count));
	json_decref(written);
	free(b.binaries);
	free(back.binaries);
	return 0;
}

static int trial(const json_t *o, struct err *err)
{
	struct runner_trial t, back;
	int rc = runner_trial_parse(o, OUTPUTS, &t, err);
	if (rc) return rc;
	for (int i = 0; i < t.ninputs; i++) CHECK(t.inputs[i].offset >= 0 && t.inputs[i].bytes >= 0 && t.inputs[i].name);
	CHECK(t.naims >= 0 && t.naims <= RUNNER_AIMS_MAX && t.deadline_ms >= 0);
	json_t *written = runner_trial_json(&t, OUTPUTS);
	CHECK(written && !runner_trial_parse(written, OUTPUTS, &back, err));
	again_check(json_incref(written), runner_trial_json(&back, OUTPUTS));
	json_decref(written);
	runner_trial_release(&t);
	runner_trial_release(&back);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static int (*const messages[])(const json_t *, struct err *) = {result, fault, device, binaries, trial};
	struct err err = {0};
	json_t *o = NULL;
	if (!len || json_parse((const char *)data + 1, len - 1, "fuzz", &o, &err)) return 0;
	int rc = json_is_object(o) ? messages[data[0] % ARRAY_LEN(messages)](o, &err) : 0;
	if (rc) refusal_check(rc, &err);
	json_decref(o);
	return 0;
}
