/* runner_wire: the messages of runner.h as JSON and back. Both sides use these functions, so the
 * two cannot drift apart; each side bounds what it reads, since the other may have been taken over.
 */
#include "runner/runner.h"
#include "vm/vm.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "tape/tape.h"
#include <math.h>
#include <stdlib.h>

#define GIVEN_MAX 65536

int64_t runner_output_bytes(const struct tape_view *v)
{
	return (tape_view_elements(v) * (int64_t)dtype_bytes(v->dtype) + 63) / 64 * 64;
}

/* What was not seen, or never is, has no number. */

static json_t *given_json(const struct runner_given *g, int count)
{
	json_t *a = json_array();
	for (int i = 0; i < count; i++)
		json_array_append_new(a,
			json_pack("{s:s, s:I, s:I, s:b, s:b, s:I}", "name", g[i].name ? g[i].name : "", "offset",
				(json_int_t)g[i].offset, "bytes", (json_int_t)g[i].bytes, "may_change", g[i].may_change, "for_const",
				g[i].for_const, "read_offset", (json_int_t)g[i].read_offset));
	return a;
}

static json_t *aims_json(const struct runner_trial *t)
{
	json_t *sides = json_array();
	for (int i = 0; i < t->naims; i++)
		json_array_append_new(sides,
			json_pack("[i, i, o, b]", t->aims[i].site, (int)t->aims[i].side, json_finite(t->aims[i].constant),
				t->aims[i].is_pole));
	return json_pack(
		"{s:o, s:i, s:I}", "sides", sides, "replays", t->aim_replays, "programs", (json_int_t)t->aim_programs);
}

json_t *runner_trial_json(const struct runner_trial *t, int noutputs)
{
	json_t *offsets = json_array();
	for (int i = 0; i < noutputs; i++) json_array_append_new(offsets, json_integer(t->output_offset[i]));
	json_t *o = json_pack("{s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:b, s:i}", "inputs", given_json(t->inputs, t->ninputs),
		"params", given_json(t->params, t->nparams), "output_offsets", offsets, "want_cost", t->want_cost, "crosswise",
		t->crosswise, "unchecked", t->is_unchecked, "overlapped", t->is_overlapped, "timed", t->is_timed, "deadline_ms",
		t->deadline_ms);
	if (t->compiled) json_object_set(o, "compiled", (json_t *)(uintptr_t)t->compiled);
	if (t->gpu) json_object_set_new(o, "gpu", json_string(t->gpu));
	if (t->shared_given_bytes)
		json_object_set_new(
			o, "shared", json_pack("[I, I]", (json_int_t)t->shared_given_bytes, (json_int_t)t->shared_outputs_bytes));
	if (t->want_coverage) json_object_set_new(o, "want_coverage", json_true());
	if (t->naims) json_object_set_new(o, "aim", aims_json(t));
	if (t->want_turned) json_object_set_new(o, "want_turned", json_true());
	if (t->is_search) json_object_set_new(o, "is_search", json_true());
	if (t->want_missed) json_object_set_new(o, "want_missed", json_true());
	if (t->may_be_given) json_object_set_new(o, "may_be_given", json_integer((json_int_t)t->may_be_given));
	if (t->seed) json_object_set_new(o, "seed", json_integer((json_int_t)t->seed));
	return o;
}

static int given_parse(const json_t *o, const char *field, struct runner_given **out, int *count, struct err *err)
{
	json_t *a = json_object_get(o, field);
	size_t n = json_array_size(a);
	if (!json_is_array(a) || n > GIVEN_MAX)
		return err_set(err, ERR_FORMAT, "trial.%s: expected an array of at most %d entries", field, GIVEN_MAX);
	*out = xcalloc(n + 1, sizeof **out);
	for (size_t i = 0; i < n; i++) {
		const json_t *e = json_array_get(a, i);
		struct runner_given *g = &(*out)[i];
		int rc = json_get_str(e, field, "name", &g->name, err);
		if (!rc) rc = json_get_int(e, field, "offset", 0, INT64_MAX / 4, &g->offset, err);
		if (!rc) rc = json_get_int(e, field, "bytes", 0, INT64_MAX / 4, &g->bytes, err);
		if (!rc) rc = json_opt_bool(e, field, "may_change", &g->may_change, err);
		g->read_offset = -1;
		if (!rc) rc = json_opt_int(e, field, "read_offset", -1, INT64_MAX / 4, &g->read_offset, err);
		if (!rc) rc = json_opt_bool(e, field, "for_const", &g->for_const, err);
		if (rc) return rc;
	}
	*count = (int)n;
	return 0;
}

static void aims_parse(const json_t *o, struct runner_trial *out)
{
	const json_t *sides = json_object_get(o, "sides");
	for (; out->naims < RUNNER_AIMS_MAX && out->naims < (int)json_array_size(sides); out->naims++) {
		const json_t *side = json_array_get(sides, (size_t)out->naims);
		out->aims[out->naims] = (struct runner_aim){.site = (int)json_integer_value(json_array_get(side, 0)),
			.side = (enum vm_side)json_integer_value(json_array_get(side, 1)),
			.constant = json_real_or(json_array_get(side, 2), NAN),
			.is_pole = json_is_true(json_array_get(side, 3))};
	}
	out->aim_replays = (int)json_integer_value(json_object_get(o, "replays"));
	out->aim_programs = json_integer_value(json_object_get(o, "programs"));
}

int runner_trial_parse(const json_t *o, int noutputs, struct runner_trial *out, struct err *err)
{
	struct runner_trial t = {0};
	int64_t deadline = 0;
	/* The fields are read in turn, and rc keeps the first one that is wrong. */
	int rc = given_parse(o, "inputs", &t.inputs, &t.ninputs, err);
	if (!rc) rc = given_parse(o, "params", &t.params, &t.nparams, err);
	if (!rc) rc = json_opt_bool(o, "trial", "want_cost", &t.want_cost, err);
	if (!rc) rc = json_opt_bool(o, "trial", "crosswise", &t.crosswise, err);
	if (!rc) rc = json_opt_bool(o, "trial", "unchecked", &t.is_unchecked, err);
	if (!rc) rc = json_opt_bool(o, "trial", "overlapped", &t.is_overlapped, err);
	if (!rc) rc = json_opt_bool(o, "trial", "want_coverage", &t.want_coverage, err);
	if (!rc) rc = json_opt_bool(o, "trial", "want_turned", &t.want_turned, err);
	if (!rc) rc = json_opt_bool(o, "trial", "is_search", &t.is_search, err);
	if (!rc) rc = json_opt_bool(o, "trial", "want_missed", &t.want_missed, err);
	if (!rc) rc = json_get_int(o, "trial", "deadline_ms", 0, INT32_MAX, &deadline, err);
	if (!rc) rc = json_opt_bool(o, "trial", "timed", &t.is_timed, err);
	if (!rc) rc = json_opt_str(o, "trial", "gpu", &t.gpu, err);
	t.compiled = json_object_get(o, "compiled");
	aims_parse(json_object_get(o, "aim"), &t);
	const json_t *shared = json_object_get(o, "shared");
	t.shared_given_bytes = json_integer_value(json_array_get(shared, 0));
	t.shared_outputs_bytes = json_integer_value(json_array_get(shared, 1));
	/* Each output of the tape needs its place in the outputs memfd, so the count must agree. */
	const json_t *offsets = json_object_get(o, "output_offsets");
	if (!rc && (noutputs > TAPE_OUTPUTS_MAX || json_array_size(offsets) != (size_t)noutputs))
		rc = err_set(err, ERR_FORMAT, "trial.output_offsets: expected %d entries, found %zu", noutputs,
			json_array_size(offsets));
	for (int i = 0; !rc && i < noutputs; i++)
		t.output_offset[i] = json_integer_value(json_array_get(offsets, (size_t)i));
	t.deadline_ms = (int)deadline;
	t.may_be_given = (uint64_t)json_integer_value(json_object_get(o, "may_be_given"));
	t.seed = (uint64_t)json_integer_value(json_object_get(o, "seed"));
	/* On a fault the caller gets nothing, so what was read until then is released here. */
	if (rc) runner_trial_release(&t);
	else *out = t;
	return rc;
}

void runner_trial_release(struct runner_trial *t)
{
	free(t->inputs);
	free(t->params);
	*t = (struct runner_trial){0};
}

/* A text may name what a candidate named, and end within a letter where its room ended: what is no
 * UTF-8 is no JSON either. */
json_t *runner_fault_json(const struct runner_fault *f)
{
	struct runner_fault said = *f;
	text_make_printable(said.text);
	return json_pack("{s:s, s:s, s:i, s:i}", "code", f->code, "text", said.text, "line", f->line, "row", f->row);
}

int runner_fault_parse(const json_t *o, struct runner_fault *out, struct err *err)
{
	const char *code = "", *text = "";
	int64_t line = 0, row = -1;
	int rc = json_get_str(o, "fault", "code", &code, err);
	if (!rc) rc = json_get_str(o, "fault", "text", &text, err);
	if (!rc) rc = json_get_int(o, "fault", "line", -1, INT32_MAX, &line, err);
	if (!rc) rc = json_get_int(o, "fault", "row", -1, INT32_MAX, &row, err);
	if (rc) return rc;
	*out = (struct runner_fault){.line = (int)line, .row = (int)row};
	snprintf(out->code, sizeof out->code, "%s", code);
	snprintf(out->text, sizeof out->text, "%s", text);
	text_make_printable(out->code);
	text_make_printable(out->text);
	return 0;
}

/* ---- devices and binaries ---- */

#define X(e, t) [e] = t,
static const char *const CLOCK_NAMES[] = {RUNNER_CLOCK_TABLE(X)};
#undef X

const char *runner_clock_name(enum runner_clock c) { return CLOCK_NAMES[c]; }

int runner_clock_find(const char *name, enum runner_clock *out)
{
	for (int i = 0; name && i < RUNNER_CLOCK_COUNT; i++)
		if (!strcmp(CLOCK_NAMES[i], name)) {
			*out = (enum runner_clock)i;
			return 0;
		}
	return ERR_NOT_FOUND;
}

json_t *runner_device_json(const struct runner_device *d)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:I, s:I, s:i, s:i, s:i}", "name", d->name, "uuid", d->uuid, "capability",
		d->capability, "sms", d->sms, "shared_bytes", (json_int_t)d->shared_bytes, "memory_bytes",
		(json_int_t)d->memory_bytes, "driver", d->driver, "clock_khz", d->clock_khz, "memory_clock_khz",
		d->memory_clock_khz);
}

int runner_device_parse(const json_t *o, struct runner_device *out, struct err *err)
{
	struct runner_device d = {0};
	const char *name = "", *uuid = "";
	int64_t capability = 0, sms = 0, driver = 0, clock = 0, memory_clock = 0;
	int rc = json_get_str(o, "device", "name", &name, err);
	if (!rc) rc = json_get_str(o, "device", "uuid", &uuid, err);
	if (!rc) rc = json_get_int(o, "device", "clock_khz", 0, INT32_MAX, &clock, err);
	if (!rc) rc = json_get_int(o, "device", "memory_clock_khz", 0, INT32_MAX, &memory_clock, err);
	if (!rc) rc = json_get_int(o, "device", "capability", 0, 999, &capability, err);
	if (!rc) rc = json_get_int(o, "device", "sms", 0, 65536, &sms, err);
	if (!rc) rc = json_get_int(o, "device", "shared_bytes", 0, INT32_MAX, &d.shared_bytes, err);
	if (!rc) rc = json_get_int(o, "device", "memory_bytes", 0, INT64_MAX / 4, &d.memory_bytes, err);
	if (!rc) rc = json_get_int(o, "device", "driver", 0, INT32_MAX, &driver, err);
	if (rc) return rc;
	d.capability = (int)capability;
	d.sms = (int)sms;
	d.driver = (int)driver;
	d.clock_khz = (int)clock;
	d.memory_clock_khz = (int)memory_clock;
	snprintf(d.name, sizeof d.name, "%s", name);
	snprintf(d.uuid, sizeof d.uuid, "%s", uuid);
	*out = d;
	return 0;
}

static json_t *map_json(const struct runner_tensor_map *m)
{
	json_t *block = json_array();
	for (int i = 0; i < m->ndim; i++) json_array_append_new(block, json_integer(m->block[i]));
	return json_pack("{s:i, s:i, s:i, s:o, s:b}", "swizzle", m->swizzle, "elem_size", m->element_bytes, "elem_type",
		m->element_type, "block_size", block, "fp4_padded", m->is_fp4_padded);
}

json_t *runner_binaries_json(const struct runner_binary *b, int count)
{
	json_t *list = json_array();
	for (int i = 0; i < count; i++, b++) {
		json_t *args = json_array(), *maps = json_array();
		for (int a = 0; a < b->nargs; a++) json_array_append_new(args, json_string(b->args[a]));
		for (int m = 0; m < b->nmaps; m++) json_array_append_new(maps, map_json(&b->maps[m]));
		json_array_append_new(list,
			json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:o, s:o}", "name", b->name, "offset", (json_int_t)b->offset,
				"bytes", (json_int_t)b->bytes, "num_warps", b->num_warps, "shared_bytes", (json_int_t)b->shared_bytes,
				"global_scratch_bytes", (json_int_t)b->global_scratch_bytes, "profile_scratch_bytes",
				(json_int_t)b->profile_scratch_bytes, "args", args, "tensor_maps", maps));
	}
	return list;
}

static int map_parse(const json_t *o, struct runner_tensor_map *m, struct err *err)
{
	int64_t swizzle = 0, bytes = 0, type = 0;
	const json_t *block = json_object_get(o, "block_size");
	int rc = json_get_int(o, "tensor_maps", "swizzle", 0, 16, &swizzle, err);
	if (!rc) rc = json_get_int(o, "tensor_maps", "elem_size", 1, 16, &bytes, err);
	if (!rc) rc = json_get_int(o, "tensor_maps", "elem_type", 0, 63, &type, err);
	if (!rc) rc = json_opt_bool(o, "tensor_maps", "fp4_padded", &m->is_fp4_padded, err);
	if (!rc && (json_array_size(block) < 1 || json_array_size(block) > TAPE_DESCRIPTOR_DIMS_MAX))
		rc = err_set(err, ERR_FORMAT, "tensor_maps.block_size: expected 1 to %d sizes", TAPE_DESCRIPTOR_DIMS_MAX);
	if (rc) return rc;
	m->swizzle = (int)swizzle;
	m->element_bytes = (int)bytes;
	m->element_type = (int)type;
	m->ndim = (int)json_array_size(block);
	for (int i = 0; i < m->ndim; i++) {
		json_int_t n = json_integer_value(json_array_get(block, (size_t)i));
		if (n < 1 || n > 65536) return err_set(err, ERR_RANGE, "tensor_maps.block_size[%d]: expected 1 to 65536", i);
		m->block[i] = (int)n;
	}
	return 0;
}

static int binary_parse(const json_t *o, int64_t bytes, struct runner_binary *b, struct err *err)
{
	const json_t *args = json_object_get(o, "args"), *maps = json_object_get(o, "tensor_maps");
	int64_t warps = 0;
	int rc = json_get_str(o, "binary", "name", &b->name, err);
	if (!rc) rc = json_get_int(o, "binary", "offset", 0, bytes, &b->offset, err);
	if (!rc) rc = json_get_int(o, "binary", "bytes", 1, bytes - b->offset, &b->bytes, err);
	if (!rc) rc = json_get_int(o, "binary", "num_warps", 1, 64, &warps, err);
	if (!rc) rc = json_get_int(o, "binary", "shared_bytes", 0, INT32_MAX, &b->shared_bytes, err);
	if (!rc) rc = json_get_int(o, "binary", "global_scratch_bytes", 0, INT32_MAX, &b->global_scratch_bytes, err);
	if (!rc) rc = json_get_int(o, "binary", "profile_scratch_bytes", 0, INT32_MAX, &b->profile_scratch_bytes, err);
	if (!rc && (json_array_size(args) > TAPE_ARGS_MAX || json_array_size(maps) > ARRAY_LEN(b->maps)))
		rc = err_set(
			err, ERR_LIMIT, "binary: %zu arguments, %zu tensor maps", json_array_size(args), json_array_size(maps));
	if (rc) return rc;
	b->num_warps = (int)warps;
	b->nargs = (int)json_array_size(args);
	for (int i = 0; i < b->nargs; i++)
		if (!(b->args[i] = json_string_value(json_array_get(args, (size_t)i))))
			return err_set(err, ERR_FORMAT, "binary.args[%d]: expected a string", i);
	b->nmaps = (int)json_array_size(maps);
	for (int i = 0; i < b->nmaps && !rc; i++) rc = map_parse(json_array_get(maps, (size_t)i), &b->maps[i], err);
	return rc;
}

int runner_binaries_parse(const json_t *list, int64_t bytes, struct runner_binaries *out, struct err *err)
{
	size_t n = json_array_size(list);
	if (n > TAPE_KERNELS_MAX) return err_set(err, ERR_LIMIT, "binaries: at most %d, found %zu", TAPE_KERNELS_MAX, n);
	struct runner_binary *b = xcalloc(n + 1, sizeof *b);
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) rc = binary_parse(json_array_get(list, i), bytes, &b[i], err);
	if (rc) free(b);
	else {
		out->count = (int)n;
		out->binaries = b;
	}
	return rc;
}

/* ---- results ---- */

/* Costs and lines travel as rows of numbers: a tape may have thousands. */
#define COST_FIELDS(X, c) \
	X(c->programs) X(c->bytes) X(c->sectors) X(c->flops) X(c->special) X(c->dot_flops) X(c->footprint_bytes)

static json_t *coverage_json(const struct runner_coverage *c)
{
	json_t *open = json_array();
	for (int i = 0; i < c->nsites; i++) {
		const struct runner_site *s = &c->sites[i];
		json_t *fixed = json_array();
		for (int k = 0; k < s->nfixed; k++) json_array_append_new(fixed, json_finite(s->fixed[k]));
		json_array_append_new(open,
			json_pack("[i, i, i, i, i, i, i, o, o, o, o, o, o, s, b, o, b]", s->id, s->kernel, s->line, s->column,
				(int)s->kind, s->wanted, s->taken, json_finite(s->low), json_finite(s->high), json_finite(s->constant),
				json_finite(s->least), json_finite(s->most), json_finite(s->nearest), s->what, s->is_equality, fixed,
				s->is_one_value));
	}
	json_t *placed = json_array();
	for (int i = 0; i < c->nplaced; i++)
		json_array_append_new(placed,
			json_pack("[i, I, i, I, I, i]", c->placed[i].input, (json_int_t)c->placed[i].element, c->placed[i].size,
				(json_int_t)c->placed[i].bits, (json_int_t)c->placed[i].param_offset, c->placed[i].aim));
	/* What launches do not use, and the small numbers that they add. */
	json_t *missed = json_array();
	for (int i = 0; i < c->nmissed; i++)
		json_array_append_new(missed,
			json_pack("[i, I, i, i, I]", c->missed[i].input, (json_int_t)c->missed[i].element, c->missed[i].size,
				c->missed[i].line, (json_int_t)c->missed[i].param_offset));
	json_t *small = json_array();
	for (int i = 0; i < c->nsmall; i++) json_array_append_new(small, json_real(c->small[i]));
	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:i, s:b}", "sides", c->sides, "taken", c->taken, "sites", open,
		"placed", placed, "missed", missed, "small", small, "gate_line", c->gate_line, "gate_matters", c->gate_matters);
}

static int int_at(const json_t *row, size_t i, int max)
{
	json_int_t v = json_integer_value(json_array_get(row, i));
	return (int)MIN(MAX(v, 0), max);
}

static void coverage_parse(const json_t *o, struct runner_coverage *out)
{
	/* The runner has run hostile kernels, so nothing it says is taken as it is: counts are held
	 * within the room that there is, and a field that is absent or of the wrong kind reads as 0. */
	const json_t *open = json_object_get(o, "sites");
	size_t n = MIN(json_array_size(open), (size_t)RUNNER_SITES_MAX);
	out->sides = (int)MIN(MAX(json_integer_value(json_object_get(o, "sides")), 0), INT32_MAX);
	out->taken = (int)MIN(MAX(json_integer_value(json_object_get(o, "taken")), 0), out->sides);
	out->gate_line = (int)MIN(MAX(json_integer_value(json_object_get(o, "gate_line")), 0), INT32_MAX);
	out->gate_matters = json_is_true(json_object_get(o, "gate_matters"));
	out->sites = xcalloc(n + 1, sizeof *out->sites);
	/* A site is an array, in the order in which coverage_json wrote it. */
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(open, i);
		struct runner_site *s = &out->sites[out->nsites++];
		const char *what = json_string_value(json_array_get(row, 13));
		*s = (struct runner_site){.id = int_at(row, 0, INT32_MAX),
			.kernel = int_at(row, 1, TAPE_KERNELS_MAX - 1),
			.line = int_at(row, 2, INT32_MAX),
			.column = int_at(row, 3, INT32_MAX),
			.kind = (enum vm_site_kind)int_at(row, 4, SITE_KIND_COUNT - 1),
			.is_equality = json_is_true(json_array_get(row, 14)),
			.is_one_value = json_is_true(json_array_get(row, 16)),
			.wanted = (uint8_t)int_at(row, 5, 7),
			.taken = (uint8_t)int_at(row, 6, 7),
			.low = json_real_or(json_array_get(row, 7), NAN),
			.high = json_real_or(json_array_get(row, 8), NAN),
			.constant = json_real_or(json_array_get(row, 9), NAN),
			.least = json_real_or(json_array_get(row, 10), NAN),
			.most = json_real_or(json_array_get(row, 11), NAN),
			.nearest = json_real_or(json_array_get(row, 12), NAN)};
		const json_t *fixed = json_array_get(row, 15);
		for (size_t k = 0; k < json_array_size(fixed) && s->nfixed < VM_FIXED_MAX; k++)
			s->fixed[s->nfixed++] = json_real_or(json_array_get(fixed, k), NAN);
		snprintf(s->what, sizeof s->what, "%s", what ? what : "");
		text_make_printable(s->what);
	}
	const json_t *placed = json_object_get(o, "placed");
	n = MIN(json_array_size(placed), (size_t)RUNNER_PLACED_MAX);
	out->placed = xcalloc(n + 1, sizeof *out->placed);
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(placed, i);
		out->placed[out->nplaced++] = (struct runner_placed){
			.input = json_integer_value(json_array_get(row, 0)) < 0 ? -1 : int_at(row, 0, INT32_MAX),
			.element = MAX(json_integer_value(json_array_get(row, 1)), 0),
			.size = int_at(row, 2, 8),
			.bits = (uint64_t)json_integer_value(json_array_get(row, 3)),
			.param_offset = json_integer_value(json_array_get(row, 4)),
			.aim = int_at(row, 5, 2 * RUNNER_AIMS_MAX - 1)};
	}
	const json_t *small = json_object_get(o, "small");
	for (size_t i = 0; i < json_array_size(small) && out->nsmall < VM_SMALL_MAX; i++) {
		double x = json_real_or(json_array_get(small, i), NAN);
		if (isfinite(x) && x > 0) out->small[out->nsmall++] = x;
	}
	const json_t *missed = json_object_get(o, "missed");
	n = MIN(json_array_size(missed), (size_t)RUNNER_MISSED_MAX);
	out->missed = xcalloc(n + 1, sizeof *out->missed);
	for (size_t i = 0; i < n; i++) {
		const json_t *row = json_array_get(missed, i);
		out->missed[out->nmissed++] = (struct runner_missed){
			.input = json_integer_value(json_array_get(row, 0)) < 0 ? -1 : int_at(row, 0, INT32_MAX),
			.element = MAX(json_integer_value(json_array_get(row, 1)), 0),
			.size = int_at(row, 2, 8),
			.line = int_at(row, 3, INT32_MAX),
			.param_offset = json_integer_value(json_array_get(row, 4))};
	}
}

json_t *runner_result_json(const struct runner_result *r)
{
	json_t *costs = json_array(), *lines = json_array(), *touched = json_array();
	/* Rows are arrays rather than objects: there are thousands, and costs_parse reads the same
	 * order. */
	for (int i = 0; i < r->ncosts; i++) {
		const struct runner_row_cost *c = &r->costs[i];
		json_t *row = json_array();
		json_array_append_new(row, json_integer(c->row));
		json_array_append_new(row, json_integer(c->kind));
#define X(value) json_array_append_new(row, json_integer(value));
		COST_FIELDS(X, c)
#undef X
		json_array_append_new(row, json_integer(c->kernel));
		json_array_append_new(row, vm_counts_json(&c->counts));
		json_array_append_new(row, json_integer(c->sampled));
		json_array_append_new(row, json_real(c->error));
		json_array_append_new(row, json_string(c->reached ? c->reached : ""));
		json_array_append_new(costs, row);
	}
	/* Bytes of each buffer, and of each source line. */
	for (int i = 0; i < r->ntouched; i++)
		json_array_append_new(
			touched, json_pack("[I, I]", (json_int_t)r->touched[i].read, (json_int_t)r->touched[i].written));
	for (int i = 0; i < r->nlines; i++)
		json_array_append_new(lines,
			json_pack("[i, I, I, I]", r->lines[i].line, (json_int_t)r->lines[i].bytes, (json_int_t)r->lines[i].sectors,
				(json_int_t)r->lines[i].flops));
	/* Coverage is there only where it was asked for. */
	json_t *coverage = r->coverage.sites ? coverage_json(&r->coverage) : json_null();
	return json_pack("{s:o, s:o, s:b, s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:s}", "coverage", coverage, "fault",
		r->has_fault ? runner_fault_json(&r->fault) : json_null(), "has_lineage", r->has_lineage, "lineage",
		(int)r->lineage, "lineage_output", r->place.output, "unwritten", (json_int_t)r->place.unwritten,
		"first_unwritten", (json_int_t)r->place.first, "costs", costs, "lines", lines, "touched", touched, "run_ns",
		(json_int_t)r->run_ns, "memory_bytes", (json_int_t)r->memory_bytes, "untimed", r->untimed);
}

static int64_t count_at(const json_t *row, size_t i)
{
	json_int_t v = json_integer_value(json_array_get(row, i));
	return MAX(v, 0);
}

static void costs_parse(const json_t *o, struct runner_result *r)
{
	/* As in coverage_parse, every count is held within its limit. */
	const json_t *costs = json_object_get(o, "costs"), *lines = json_object_get(o, "lines");
	size_t ncosts = MIN(json_array_size(costs), (size_t)TAPE_ROWS_MAX),
		   nlines = MIN(json_array_size(lines), (size_t)GIVEN_MAX);
	r->costs = xcalloc(ncosts + 1, sizeof *r->costs);
	r->lines = xcalloc(nlines + 1, sizeof *r->lines);
	/* Costs, a row of the tape each. A predicted time multiplies them, so an error that is no
	 * number is none. */
	for (size_t i = 0; i < ncosts; i++) {
		const json_t *row = json_array_get(costs, i);
		struct runner_row_cost *c = &r->costs[r->ncosts++];
		size_t f = 2;
		c->row = (int)MIN(count_at(row, 0), TAPE_ROWS_MAX);
		c->kind = (enum tape_row_kind)MIN(count_at(row, 1), TAPE_ROW_KIND_COUNT - 1);
#define X(value) value = count_at(row, f++);
		COST_FIELDS(X, c)
#undef X
		c->kernel = (int)MIN(count_at(row, f), INT32_MAX);
		vm_counts_parse(json_array_get(row, f + 1), &c->counts);
		c->sampled = count_at(row, f + 2);
		double error = json_number_value(json_array_get(row, f + 3));
		c->error = isfinite(error) && error > 0 ? error : 0;
		const char *reached = json_string_value(json_array_get(row, f + 4));
		c->reached = reached && *reached ? xstrdup(reached) : NULL;
	}
	/* Bytes of each buffer that were read and written. */
	const json_t *touched = json_object_get(o, "touched");
	size_t ntouched = MIN(json_array_size(touched), (size_t)TAPE_BUFFERS_MAX);
	r->touched = xcalloc(ntouched + 1, sizeof *r->touched);
	for (size_t i = 0; i < ntouched; i++) {
		const json_t *pair = json_array_get(touched, i);
		r->touched[r->ntouched++] = (struct runner_touched){count_at(pair, 0), count_at(pair, 1)};
	}
	/* Counts by line of the candidate. */
	for (size_t i = 0; i < nlines; i++) {
		const json_t *row = json_array_get(lines, i);
		r->lines[r->nlines++] = (struct runner_line_cost){
			(int)MIN(count_at(row, 0), INT32_MAX), count_at(row, 1), count_at(row, 2), count_at(row, 3)};
	}
}

int runner_result_parse(const json_t *o, struct runner_result *out, struct err *err)
{
	struct runner_result r = {0};
	int64_t lineage = 0, output = 0;
	const json_t *fault = json_object_get(o, "fault");
	/* What the verdict rests on must be there and in range, or the answer is refused. */
	int rc = json_opt_bool(o, "result", "has_lineage", &r.has_lineage, err);
	if (!rc) rc = json_get_int(o, "result", "lineage", 0, TAPE_LINEAGE_COUNT - 1, &lineage, err);
	if (!rc) rc = json_get_int(o, "result", "lineage_output", -1, TAPE_OUTPUTS_MAX, &output, err);
	if (!rc) rc = json_get_int(o, "result", "unwritten", 0, INT64_MAX / 2, &r.place.unwritten, err);
	if (!rc) rc = json_get_int(o, "result", "first_unwritten", 0, INT64_MAX / 2, &r.place.first, err);
	if (!rc) rc = json_get_int(o, "result", "run_ns", 0, INT64_MAX / 2, &r.run_ns, err);
	const char *untimed = "";
	if (!rc) rc = json_get_int(o, "result", "memory_bytes", 0, INT64_MAX / 2, &r.memory_bytes, err);
	if (!rc) rc = json_get_str(o, "result", "untimed", &untimed, err);
	snprintf(r.untimed, sizeof r.untimed, "%s", untimed);
	text_make_printable(r.untimed);
	/* A fault is an answer too. */
	if (!rc && json_is_object(fault)) {
		r.has_fault = true;
		rc = runner_fault_parse(fault, &r.fault, err);
	}
	if (rc) return rc;
	/* The lists behind it are read leniently; nothing is allocated before this point, so an early
	 * return leaks nothing. */
	r.lineage = (enum tape_lineage)lineage;
	r.place.output = (int)output;
	costs_parse(o, &r);
	if (json_is_object(json_object_get(o, "coverage"))) coverage_parse(json_object_get(o, "coverage"), &r.coverage);
	*out = r;
	return 0;
}

static int place_check(const char *what, int64_t place, int64_t least, int64_t most, struct err *err)
{
	if (place >= least && place <= most) return 0;
	return err_set(err, ERR_FORMAT, "the runner's answer speaks of %s %lld, of its tape there are %lld to %lld", what,
		(long long)place, (long long)least, (long long)most);
}

int runner_result_check(const struct runner_result *r, const struct tape *t, struct err *err)
{
	int rc = place_check("output", r->place.output, -1, t->noutputs - 1, err);
	if (!rc) rc = place_check("buffers up to", r->ntouched, 0, t->nbuffers, err);
	if (!rc && r->has_fault) rc = place_check("a fault in row", r->fault.row, -1, t->nrows - 1, err);
	for (int i = 0; i < r->ncosts && !rc; i++) {
		const struct runner_row_cost *c = &r->costs[i];
		rc = place_check("what costs in row", c->row, 0, t->nrows - 1, err);
		if (!rc && c->kind == TAPE_LAUNCH) rc = place_check("kernel", c->kernel, 0, t->nkernels - 1, err);
	}
	for (int i = 0; i < r->coverage.nsites && !rc; i++)
		rc = place_check("a place in kernel", r->coverage.sites[i].kernel, 0, t->nkernels - 1, err);
	return rc;
}

void runner_result_release(struct runner_result *r)
{
	for (int i = 0; i < r->ncosts; i++) free(r->costs[i].reached);
	free(r->costs);
	free(r->touched);
	free(r->lines);
	free(r->coverage.sites);
	free(r->coverage.placed);
	free(r->coverage.missed);
	*r = (struct runner_result){0};
}
