/* verdict: names, and the record as JSON and back. */
#include "verify/verdict.h"
#include "base/base.h"
#include <math.h>

#define X(e, t) [e] = t,
static const char *const CLASS_NAMES[] = {VERDICT_CLASS_TABLE(X)};
static const char *const STAGE_NAMES[] = {VERDICT_STAGE_TABLE(X)};
static const char *const REPEAT_NAMES[] = {VERDICT_REPEAT_TABLE(X)};
static const char *const REFERENCE_NAMES[] = {VERDICT_REFERENCE_TABLE(X)};
static const char *const SANITIZER_NAMES[] = {VERDICT_SANITIZER_TABLE(X)};
#undef X
#define X(e, t, m) t,
static const char *const COUNTER_NAMES[] = {VERDICT_COUNTER_TABLE(X)};
#undef X
#define X(e, t, m) m,
static const char *const COUNTER_METRICS[] = {VERDICT_COUNTER_TABLE(X)};
#undef X

const char *verdict_class_name(enum verdict_class c)
{
	CHECKF(c >= 0 && c < VERDICT_CLASS_COUNT, "verdict class %d", (int)c);
	return CLASS_NAMES[c];
}

const char *verdict_stage_name(enum verdict_stage s)
{
	CHECKF(s >= 0 && s < VERDICT_STAGE_COUNT, "verdict stage %d", (int)s);
	return STAGE_NAMES[s];
}

const char *verdict_repeat_name(enum verdict_repeat r)
{
	CHECKF(r >= 0 && r < VERDICT_REPEAT_COUNT, "repeat class %d", (int)r);
	return REPEAT_NAMES[r];
}

const char *verdict_reference_name(enum verdict_reference_kind k)
{
	CHECKF(k >= 0 && k < REFERENCE_COUNT, "reference %d", (int)k);
	return REFERENCE_NAMES[k];
}

const char *verdict_sanitizer_name(enum verdict_sanitizer k)
{
	CHECKF(k >= 0 && k < SANITIZER_COUNT, "sanitizer %d", (int)k);
	return SANITIZER_NAMES[k];
}

const char *verdict_counter_metric(enum verdict_counter k)
{
	CHECKF(k >= 0 && k < COUNTER_COUNT, "counter %d", (int)k);
	return COUNTER_METRICS[k];
}

/* Text that came from a candidate may hold bytes that are no UTF-8; JSON cannot. */
static json_t *text_json(const char *text)
{
	json_t *s = json_string(text);
	if (s) return s;
	struct str clean = {0};
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) str_putc(&clean, *p < 0x80 ? (char)*p : '?');
	s = json_stringn(clean.data ? clean.data : "", clean.len);
	str_release(&clean);
	return s;
}

static json_t *number_json(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *measure_json(const struct verdict_measure *m)
{
	return json_pack("[o, o, o]", number_json(m->value), number_json(m->low), number_json(m->high));
}

json_t *verdict_reference_json(const struct verdict_reference *r)
{
	return json_pack("{s:b, s:b, s:b, s:b, s:i, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "timed", r->is_timed,
		"agrees", r->agrees, "gated", r->is_gated, "cached", r->is_cached, "pairs", r->pairs, "memory_bytes",
		(json_int_t)r->memory_bytes, "error_max", number_json(r->error_max), "time_s", measure_json(&r->time_s),
		"speedup", measure_json(&r->speedup), "wall_s", number_json(r->wall_s), "paper_s", number_json(r->paper_s),
		"speedup_wall", number_json(r->speedup_wall), "speedup_paper", number_json(r->speedup_paper), "why",
		text_json(r->why));
}

/* null: not run. */
static json_t *sanitized_json(const struct verdict_device *d)
{
	json_t *o = json_object();
	for (int k = 0; k < SANITIZER_COUNT; k++)
		json_object_set_new(o, SANITIZER_NAMES[k], d->sanitized[k] < 0 ? json_null() : json_integer(d->sanitized[k]));
	json_object_set_new(o, "text", text_json(d->sanitizer));
	return o;
}

static json_t *profiles_json(const struct verdict_device *d)
{
	json_t *list = json_array();
	for (int i = 0; i < d->nprofiles; i++) {
		json_t *o = json_pack("{s:o}", "kernel", text_json(d->profiles[i].kernel));
		for (int k = 0; k < COUNTER_COUNT; k++)
			json_object_set_new(o, COUNTER_NAMES[k], number_json(d->profiles[i].counters[k]));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *device_json(const struct verdict_device *d)
{
	json_t *references = json_object();
	/* Those that nobody timed or tried to time are left out. */
	for (int i = 0; i < REFERENCE_COUNT; i++)
		if (d->references[i].is_timed || d->references[i].why[0])
			json_object_set_new(references, REFERENCE_NAMES[i], verdict_reference_json(&d->references[i]));
	json_t *o = json_pack("{s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:s, s:o, s:i, s:o, s:o, s:o, s:o, s:o}", "name",
		text_json(d->name), "driver", d->driver, "trials", d->trials, "trials_failed", d->trials_failed,
		"disagreements", d->disagreements, "contracted", d->contracted, "subnormal", d->subnormal, "error_max",
		number_json(d->error_max), "repeat", verdict_repeat_name(d->repeat), "seconds", number_json(d->seconds),
		"timed", d->timed, "time_s", number_json(d->time_s), "time_low_s", number_json(d->time_low_s), "time_high_s",
		number_json(d->time_high_s), "empty_s", number_json(d->empty_s), "untimed", text_json(d->untimed));
	json_object_set_new(o, "vm_trials", json_integer(d->vm_trials));
	json_object_set_new(o, "stock_trials", json_integer(d->stock_trials));
	json_object_set_new(o, "stock_error_max", number_json(d->stock_error_max));
	json_object_set_new(o, "stock_why", text_json(d->stock_why));
	json_object_set_new(o, "predicted_s", number_json(d->predicted_s));
	json_object_set_new(o, "eager_predicted_s", number_json(d->eager_predicted_s));
	json_object_set_new(o, "wall_s", number_json(d->wall_s));
	json_object_set_new(o, "paper_s", number_json(d->paper_s));
	json_object_set_new(o, "control_s", number_json(d->control_s));
	json_object_set_new(o, "memory_bytes", json_integer(d->memory_bytes));
	json_object_set_new(o, "others", json_integer(d->others));
	json_object_set_new(o, "floor_s", number_json(d->floor_s));
	json_object_set_new(o, "floor_by", text_json(d->floor_by));
	json_object_set_new(o, "floor_rate", number_json(d->floor_rate));
	json_t *tuned = json_array();
	for (int i = 0; i < d->ntuned; i++)
		json_array_append_new(tuned,
			json_pack("{s:o, s:i, s:i, s:o, s:o, s:b}", "label", text_json(d->tuned[i].label), "configs",
				d->tuned[i].configs, "chosen", d->tuned[i].chosen, "first_s", number_json(d->tuned[i].first_s),
				"chosen_s", number_json(d->tuned[i].chosen_s), "kept", d->tuned[i].is_kept));
	json_object_set_new(o, "tuned", tuned);
	json_object_set_new(o, "live", text_json(d->live));
	json_object_set_new(o, "live_why", text_json(d->live_why));
	json_object_set_new(o, "sanitizer", sanitized_json(d));
	json_object_set_new(o, "profiles", profiles_json(d));
	json_object_set_new(o, "unprofiled", text_json(d->unprofiled));
	json_object_set_new(o, "references", references);
	return o;
}

static json_t *coverage_json(const struct verdict *v)
{
	json_t *list = json_array();
	for (int i = 0; i < v->nunreached; i++)
		json_array_append_new(
			list, json_pack("{s:i, s:o}", "line", v->unreached[i].line, "text", text_json(v->unreached[i].text)));
	return json_pack("{s:i, s:i, s:i, s:i, s:o, s:i}", "sides", v->sides, "taken", v->sides_taken, "guided", v->guided,
		"sized", v->sized, "unreached", list, "more", v->unreached_more);
}

json_t *verdict_json(const struct verdict *v)
{
	json_t *o = json_object(), *lines = json_array();
	/* Text that may hold a candidate's bytes goes through text_json, and numbers that may be NaN
	 * through number_json, since JSON has neither. */
	json_object_set_new(o, "verdict", json_string(verdict_class_name(v->class)));
	json_object_set_new(o, "stage", json_string(verdict_stage_name(v->stage)));
	json_object_set_new(o, "reason", text_json(v->reason));
	json_object_set_new(o, "detail", text_json(v->detail));
	json_object_set_new(o, "line", json_integer(v->line));
	json_object_set_new(o, "compiled", json_boolean(v->compiled));
	json_object_set_new(o, "correct", json_boolean(v->correct));
	json_object_set_new(o, "sizes", json_string(v->sizes));
	json_object_set_new(o, "edge", json_string(v->edge));
	json_object_set_new(o, "state", json_string(v->state));
	json_object_set_new(o, "fp8_line", json_integer(v->fp8_line));
	json_object_set_new(o, "params", json_string(v->params_seeded ? "seeded" : "matched"));
	/* Predicted times, and the work that they follow from. */
	json_object_set_new(o, "speedup_eager", number_json(v->speedup_eager));
	json_object_set_new(o, "speedup_fused", number_json(v->speedup_fused));
	json_object_set_new(o, "cost_s", number_json(v->cost_s));
	json_object_set_new(o, "eager_cost_s", number_json(v->eager_cost_s));
	json_object_set_new(o, "fused_cost_s", number_json(v->fused_cost_s));
	json_object_set_new(o, "cost_size", text_json(v->cost_size));
	json_object_set_new(o, "cost_error", number_json(v->cost_error));
	json_object_set_new(o, "not_predicted", text_json(v->not_predicted));
	json_object_set_new(o, "limit", text_json(v->limit));
	json_object_set_new(o, "launches", json_integer(v->launches));
	json_object_set_new(o, "programs", json_integer(v->programs));
	json_object_set_new(o, "bytes", json_integer(v->bytes));
	json_object_set_new(o, "sectors", json_integer(v->sectors));
	json_object_set_new(o, "flops", json_integer(v->flops));
	for (int i = 0; i < v->nlines; i++)
		json_array_append_new(lines,
			json_pack("{s:i, s:I, s:I, s:I}", "line", v->lines[i].line, "bytes", (json_int_t)v->lines[i].bytes,
				"sectors", (json_int_t)v->lines[i].sectors, "flops", (json_int_t)v->lines[i].flops));
	json_object_set_new(o, "lines", lines);
	/* How it was judged. */
	json_object_set_new(o, "trials", json_integer(v->trials));
	json_object_set_new(o, "trials_failed", json_integer(v->trials_failed));
	json_object_set_new(o, "error_max", number_json(v->error_max));
	json_object_set_new(o, "tolerance", number_json(v->tolerance));
	json_object_set_new(o, "coverage", coverage_json(v));
	/* Where KernelBench's check could not be computed there is no answer, which null says. What
	 * passes it was compiled, whatever ended our own judgement before a compilation. */
	json_object_set_new(o, "kernelbench",
		json_pack("{s:b, s:o, s:i}", "compiled", v->compiled || v->kernelbench > 0, "correctness",
			v->kernelbench < 0 ? json_null() : json_boolean(v->kernelbench), "trials", v->kernelbench_trials));
	/* Where, and for which GPU. */
	json_object_set_new(o, "sandbox", json_string(v->sandbox));
	json_object_set_new(o, "gpu", text_json(v->gpu));
	json_object_set_new(o, "gpu_arch", json_integer(v->gpu_arch));
	json_object_set_new(o, "device", device_json(&v->device));
	json_object_set_new(o, "seconds", number_json(v->seconds));
	json_object_set_new(o, "cached", json_boolean(v->cached));
	json_object_set_new(o, "key", json_string(v->key.text));
	return o;
}

static int name_find(const char *const *names, int count, const char *name, const char *what, int *out, struct err *err)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name)) {
			*out = i;
			return 0;
		}
	return err_set(err, ERR_FORMAT, "verdict.%s: \"%.60s\" is not a known name", what, name);
}

static void text_copy(char *to, size_t len, const char *from) { snprintf(to, len, "%s", from); }

/* What was not finite was written as null, and reads back as NaN. */
static int real_from_json(const json_t *o, const char *where, const char *field, double *to, struct err *err)
{
	*to = NAN;
	return json_is_null(json_object_get(o, field)) ? 0 : json_opt_num(o, where, field, to, err);
}

static struct verdict_measure measure_from_json(const json_t *list)
{
	return (struct verdict_measure){json_real_or(json_array_get(list, 0), NAN),
		json_real_or(json_array_get(list, 1), NAN), json_real_or(json_array_get(list, 2), NAN)};
}

int verdict_reference_from_json(const json_t *o, struct verdict_reference *out, struct err *err)
{
	static const char where[] = "verdict.device.references";
	struct verdict_reference r = {0};
	const char *why = "";
	int64_t pairs = 0;
	/* A record is read back from stores that others may have written: every field is checked,
	 * none has to be there. */
	int rc = json_opt_bool(o, where, "timed", &r.is_timed, err);
	if (!rc) rc = json_opt_bool(o, where, "agrees", &r.agrees, err);
	if (!rc) rc = json_opt_bool(o, where, "gated", &r.is_gated, err);
	if (!rc) rc = json_opt_bool(o, where, "cached", &r.is_cached, err);
	if (!rc) rc = json_opt_int(o, where, "pairs", 0, INT32_MAX, &pairs, err);
	if (!rc) rc = json_opt_int(o, where, "memory_bytes", 0, INT64_MAX, &r.memory_bytes, err);
	if (!rc) rc = real_from_json(o, where, "error_max", &r.error_max, err);
	if (!rc) rc = real_from_json(o, where, "wall_s", &r.wall_s, err);
	if (!rc) rc = real_from_json(o, where, "paper_s", &r.paper_s, err);
	if (!rc) rc = real_from_json(o, where, "speedup_wall", &r.speedup_wall, err);
	if (!rc) rc = real_from_json(o, where, "speedup_paper", &r.speedup_paper, err);
	if (!rc) rc = json_opt_str(o, where, "why", &why, err);
	if (rc) return rc;
	r.pairs = (int)pairs;
	r.time_s = measure_from_json(json_object_get(o, "time_s"));
	r.speedup = measure_from_json(json_object_get(o, "speedup"));
	text_copy(r.why, sizeof r.why, why);
	*out = r;
	return 0;
}

static int tools_from_json(const json_t *o, struct verdict_device *d, struct err *err)
{
	static const char where[] = "verdict.device.sanitizer";
	const json_t *s = json_object_get(o, "sanitizer"), *list = json_object_get(o, "profiles");
	const char *text = "", *unprofiled = "", *kernel = "";
	int rc = 0;
	/* null is a tool that did not run. */
	for (int k = 0; k < SANITIZER_COUNT && !rc; k++) {
		int64_t errors = -1;
		if (!json_is_null(json_object_get(s, SANITIZER_NAMES[k])))
			rc = json_opt_int(s, where, SANITIZER_NAMES[k], -1, INT32_MAX, &errors, err);
		d->sanitized[k] = (int)errors;
	}
	if (!rc) rc = json_opt_str(s, where, "text", &text, err);
	if (!rc) rc = json_opt_str(o, "verdict.device", "unprofiled", &unprofiled, err);
	text_copy(d->sanitizer, sizeof d->sanitizer, text);
	text_copy(d->unprofiled, sizeof d->unprofiled, unprofiled);
	/* Launches, in order. */
	d->nprofiles = (int)MIN(json_array_size(list), (size_t)VERDICT_PROFILE_MAX);
	for (int i = 0; i < d->nprofiles && !rc; i++) {
		const json_t *p = json_array_get(list, (size_t)i);
		rc = json_opt_str(p, "verdict.device.profiles", "kernel", &kernel, err);
		text_copy(d->profiles[i].kernel, sizeof d->profiles[i].kernel, kernel);
		for (int k = 0; k < COUNTER_COUNT && !rc; k++)
			rc = real_from_json(p, "verdict.device.profiles", COUNTER_NAMES[k], &d->profiles[i].counters[k], err);
	}
	return rc;
}

static int tuned_from_json(const json_t *list, struct verdict_device *d, struct err *err)
{
	static const char where[] = "verdict.device.tuned";
	int rc = 0;
	d->ntuned = (int)MIN(json_array_size(list), (size_t)VERDICT_TUNED_MAX);
	for (int i = 0; i < d->ntuned && !rc; i++) {
		const json_t *o = json_array_get(list, (size_t)i);
		struct verdict_tuned *t = &d->tuned[i];
		const char *label = "";
		int64_t configs = 0, chosen = 0;
		rc = json_opt_str(o, where, "label", &label, err);
		if (!rc) rc = json_opt_int(o, where, "configs", 0, INT32_MAX, &configs, err);
		if (!rc) rc = json_opt_int(o, where, "chosen", 0, INT32_MAX, &chosen, err);
		if (!rc) rc = real_from_json(o, where, "first_s", &t->first_s, err);
		if (!rc) rc = real_from_json(o, where, "chosen_s", &t->chosen_s, err);
		if (!rc) rc = json_opt_bool(o, where, "kept", &t->is_kept, err);
		text_copy(t->label, sizeof t->label, label);
		t->configs = (int)configs;
		t->chosen = (int)chosen;
	}
	return rc;
}

static int device_from_json(const json_t *o, struct verdict_device *d, struct err *err)
{
	static const char where[] = "verdict.device";
	const struct {
		const char *field;
		int *to;
		int least; /* that the field may be */
	} ints[] = {{"driver", &d->driver, 0}, {"trials", &d->trials, 0}, {"trials_failed", &d->trials_failed, 0},
		{"disagreements", &d->disagreements, 0}, {"contracted", &d->contracted, 0}, {"subnormal", &d->subnormal, 0},
		{"timed", &d->timed, 0}, {"others", &d->others, -1}, {"stock_trials", &d->stock_trials, 0},
		{"vm_trials", &d->vm_trials, 0}};
	const struct {
		const char *field;
		double *to;
	} reals[] = {{"error_max", &d->error_max}, {"stock_error_max", &d->stock_error_max}, {"time_s", &d->time_s},
		{"time_low_s", &d->time_low_s}, {"time_high_s", &d->time_high_s}, {"predicted_s", &d->predicted_s},
		{"eager_predicted_s", &d->eager_predicted_s}, {"seconds", &d->seconds}, {"empty_s", &d->empty_s},
		{"wall_s", &d->wall_s}, {"paper_s", &d->paper_s}, {"control_s", &d->control_s}, {"floor_s", &d->floor_s},
		{"floor_rate", &d->floor_rate}};
	const char *name = "", *repeat = "", *untimed = "", *floor_by = "", *live = "", *live_why = "", *stock_why = "";
	int rc = json_get_str(o, where, "name", &name, err), index = 0;
	if (!rc) rc = json_get_str(o, where, "repeat", &repeat, err);
	if (!rc) rc = name_find(REPEAT_NAMES, VERDICT_REPEAT_COUNT, repeat, "device.repeat", &index, err);
	for (size_t i = 0; i < ARRAY_LEN(ints) && !rc; i++) {
		int64_t value = 0;
		rc = json_opt_int(o, where, ints[i].field, ints[i].least, INT32_MAX, &value, err);
		*ints[i].to = (int)value;
	}
	for (size_t i = 0; i < ARRAY_LEN(reals) && !rc; i++)
		rc = real_from_json(o, where, reals[i].field, reals[i].to, err);
	if (!rc) rc = json_opt_int(o, where, "memory_bytes", 0, INT64_MAX, &d->memory_bytes, err);
	if (!rc) rc = json_opt_str(o, where, "untimed", &untimed, err);
	if (!rc) rc = tuned_from_json(json_object_get(o, "tuned"), d, err);
	if (!rc) rc = json_opt_str(o, where, "floor_by", &floor_by, err);
	if (!rc) rc = json_opt_str(o, where, "live", &live, err);
	if (!rc) rc = json_opt_str(o, where, "live_why", &live_why, err);
	if (!rc) rc = json_opt_str(o, where, "stock_why", &stock_why, err);
	for (int i = 0; i < REFERENCE_COUNT && !rc; i++) {
		const json_t *r = json_object_get(json_object_get(o, "references"), REFERENCE_NAMES[i]);
		if (r) rc = verdict_reference_from_json(r, &d->references[i], err);
	}
	if (!rc) rc = tools_from_json(o, d, err);
	/* The texts are the JSON object's, so the record keeps copies. */
	text_copy(d->untimed, sizeof d->untimed, untimed);
	text_copy(d->floor_by, sizeof d->floor_by, floor_by);
	text_copy(d->live, sizeof d->live, live);
	text_copy(d->live_why, sizeof d->live_why, live_why);
	text_copy(d->stock_why, sizeof d->stock_why, stock_why);
	text_copy(d->name, sizeof d->name, name);
	d->repeat = (enum verdict_repeat)index;
	return rc;
}

static int strings_from_json(const json_t *o, struct verdict *v, struct err *err)
{
	/* What every verdict has. */
	const char *class = "", *stage = "", *reason = "", *detail = "", *params = "", *sandbox = "", *key = "", *gpu = "",
			   *cost_size = "", *not_predicted = "", *limit = "", *sizes = "", *edge = "", *state = "";
	int64_t fp8_line = 0;
	int index = 0, rc = json_get_str(o, "verdict", "verdict", &class, err);
	if (!rc) rc = name_find(CLASS_NAMES, VERDICT_CLASS_COUNT, class, "verdict", &index, err);
	v->class = (enum verdict_class)index;
	if (!rc) rc = json_get_str(o, "verdict", "stage", &stage, err);
	if (!rc) rc = name_find(STAGE_NAMES, VERDICT_STAGE_COUNT, stage, "stage", &index, err);
	v->stage = (enum verdict_stage)index;
	if (!rc) rc = json_get_str(o, "verdict", "reason", &reason, err);
	if (!rc) rc = json_get_str(o, "verdict", "detail", &detail, err);
	/* What a verdict has that came so far. */
	if (!rc) rc = json_opt_str(o, "verdict", "params", &params, err);
	if (!rc) rc = json_opt_str(o, "verdict", "sandbox", &sandbox, err);
	if (!rc) rc = json_opt_str(o, "verdict", "key", &key, err);
	if (!rc) rc = json_opt_str(o, "verdict", "gpu", &gpu, err);
	if (!rc) rc = json_opt_str(o, "verdict", "cost_size", &cost_size, err);
	if (!rc) rc = json_opt_str(o, "verdict", "not_predicted", &not_predicted, err);
	if (!rc) rc = json_opt_str(o, "verdict", "limit", &limit, err);
	if (!rc) rc = json_opt_str(o, "verdict", "sizes", &sizes, err);
	if (!rc) rc = json_opt_str(o, "verdict", "edge", &edge, err);
	if (!rc) rc = json_opt_str(o, "verdict", "state", &state, err);
	if (!rc) rc = json_opt_int(o, "verdict", "fp8_line", 0, INT32_MAX, &fp8_line, err);
	if (!rc && json_object_get(o, "device")) rc = device_from_json(json_object_get(o, "device"), &v->device, err);
	/* Copied even after an error: an absent text reads as "", and the caller drops the verdict
	 * then. */
	text_copy(v->reason, sizeof v->reason, reason);
	text_copy(v->detail, sizeof v->detail, detail);
	text_copy(v->sandbox, sizeof v->sandbox, sandbox);
	text_copy(v->key.text, sizeof v->key.text, key);
	text_copy(v->gpu, sizeof v->gpu, gpu);
	text_copy(v->cost_size, sizeof v->cost_size, cost_size);
	text_copy(v->not_predicted, sizeof v->not_predicted, not_predicted);
	text_copy(v->limit, sizeof v->limit, limit);
	text_copy(v->sizes, sizeof v->sizes, sizes);
	text_copy(v->edge, sizeof v->edge, edge);
	text_copy(v->state, sizeof v->state, state);
	v->fp8_line = (int)fp8_line;
	v->params_seeded = !strcmp(params, "seeded");
	return rc;
}

static int numbers_from_json(const json_t *o, struct verdict *v, struct err *err)
{
	const struct {
		const char *field;
		int *to;
	} ints[] = {
		{"line", &v->line},
		{"launches", &v->launches},
		{"trials", &v->trials},
		{"trials_failed", &v->trials_failed},
		{"gpu_arch", &v->gpu_arch},
	};
	const struct {
		const char *field;
		int64_t *to;
	} longs[] = {
		{"programs", &v->programs},
		{"bytes", &v->bytes},
		{"sectors", &v->sectors},
		{"flops", &v->flops},
	};
	const struct {
		const char *field;
		double *to;
	} reals[] = {
		{"speedup_eager", &v->speedup_eager},
		{"speedup_fused", &v->speedup_fused},
		{"cost_s", &v->cost_s},
		{"cost_error", &v->cost_error},
		{"eager_cost_s", &v->eager_cost_s},
		{"fused_cost_s", &v->fused_cost_s},
		{"error_max", &v->error_max},
		{"tolerance", &v->tolerance},
		{"seconds", &v->seconds},
	};
	const struct {
		const char *field;
		bool *to;
	} bools[] = {{"compiled", &v->compiled}, {"correct", &v->correct}, {"cached", &v->cached}};
	int rc = 0;
	/* The reader knows 64 bits only, so an int goes through a wider variable in its range. */
	for (size_t i = 0; i < ARRAY_LEN(ints) && !rc; i++) {
		int64_t value = 0;
		rc = json_opt_int(o, "verdict", ints[i].field, INT32_MIN, INT32_MAX, &value, err);
		*ints[i].to = (int)value;
	}
	for (size_t i = 0; i < ARRAY_LEN(longs) && !rc; i++)
		rc = json_opt_int(o, "verdict", longs[i].field, INT64_MIN, INT64_MAX, longs[i].to, err);
	/* What was not finite was written as null, and reads back as NaN. */
	for (size_t i = 0; i < ARRAY_LEN(reals) && !rc; i++) {
		*reals[i].to = NAN;
		if (!json_is_null(json_object_get(o, reals[i].field)))
			rc = json_opt_num(o, "verdict", reals[i].field, reals[i].to, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(bools) && !rc; i++)
		rc = json_opt_bool(o, "verdict", bools[i].field, bools[i].to, err);
	return rc;
}

static void lines_from_json(const json_t *o, struct verdict *v)
{
	const json_t *lines = json_object_get(o, "lines");
	for (size_t i = 0; i < json_array_size(lines) && v->nlines < VERDICT_LINES_MAX; i++) {
		const json_t *l = json_array_get(lines, i);
		v->lines[v->nlines++] = (struct verdict_line){(int)json_integer_value(json_object_get(l, "line")),
			json_integer_value(json_object_get(l, "bytes")), json_integer_value(json_object_get(l, "sectors")),
			json_integer_value(json_object_get(l, "flops"))};
	}
}

static int coverage_from_json(const json_t *o, struct verdict *v, struct err *err)
{
	const json_t *c = json_object_get(o, "coverage"), *list = json_object_get(c, "unreached");
	const struct {
		const char *field;
		int *to;
	} ints[] = {{"sides", &v->sides}, {"taken", &v->sides_taken}, {"guided", &v->guided}, {"sized", &v->sized},
		{"more", &v->unreached_more}};
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(ints) && c && !rc; i++) {
		int64_t value = 0;
		rc = json_opt_int(c, "verdict.coverage", ints[i].field, 0, INT32_MAX, &value, err);
		*ints[i].to = (int)value;
	}
	for (size_t i = 0; i < json_array_size(list) && v->nunreached < VERDICT_SIDES_MAX; i++) {
		const json_t *e = json_array_get(list, i);
		const char *text = json_string_value(json_object_get(e, "text"));
		struct verdict_side *to = &v->unreached[v->nunreached++];
		to->line = (int)json_integer_value(json_object_get(e, "line"));
		text_copy(to->text, sizeof to->text, text ? text : "");
	}
	return rc;
}

int verdict_from_json(const json_t *o, struct verdict *out, struct err *err)
{
	struct verdict v = {0};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "verdict: expected a JSON object");
	int rc = strings_from_json(o, &v, err);
	if (!rc) rc = numbers_from_json(o, &v, err);
	if (!rc) rc = coverage_from_json(o, &v, err);
	if (rc) return rc;
	lines_from_json(o, &v);
	const json_t *check = json_object_get(o, "kernelbench"), *correctness = json_object_get(check, "correctness");
	v.kernelbench = json_is_boolean(correctness) ? json_is_true(correctness) : -1;
	v.kernelbench_trials = (int)json_integer_value(json_object_get(check, "trials"));
	*out = v;
	return 0;
}
