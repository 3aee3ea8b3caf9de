/* verdict: names, and the record as JSON and back.
 *
 * A record's members stand in tables, one row a member: what is written and what is read follow
 * from the same row, so a member that is written is read back, within the same bounds. */
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
#define X(e, t, m) m,
static const char *const COUNTER_METRICS[] = {VERDICT_COUNTER_TABLE(X)};
#undef X

static const char *name_of(const char *const *names, int count, int i, const char *what)
{
	CHECKF(i >= 0 && i < count, "%s %d", what, i);
	return names[i];
}

const char *verdict_class_name(enum verdict_class c)
{
	return name_of(CLASS_NAMES, VERDICT_CLASS_COUNT, (int)c, "verdict class");
}

const char *verdict_stage_name(enum verdict_stage s)
{
	return name_of(STAGE_NAMES, VERDICT_STAGE_COUNT, (int)s, "verdict stage");
}

const char *verdict_repeat_name(enum verdict_repeat r)
{
	return name_of(REPEAT_NAMES, VERDICT_REPEAT_COUNT, (int)r, "repeat class");
}

const char *verdict_reference_name(enum verdict_reference_kind k)
{
	return name_of(REFERENCE_NAMES, REFERENCE_COUNT, (int)k, "reference");
}

const char *verdict_sanitizer_name(enum verdict_sanitizer k)
{
	return name_of(SANITIZER_NAMES, SANITIZER_COUNT, (int)k, "sanitizer");
}

const char *verdict_counter_metric(enum verdict_counter k)
{
	return name_of(COUNTER_METRICS, COUNTER_COUNT, (int)k, "counter");
}

/* ---- fields ---- */

enum field_kind {
	FIELD_TEXT,    /* char[size] */
	FIELD_NAME,    /* an enum, as one of `names` */
	FIELD_INT,     /* int */
	FIELD_LONG,    /* int64_t */
	FIELD_REAL,    /* double; null is NaN, and what is not finite is written as null */
	FIELD_BOOL,    /* bool */
	FIELD_MEASURE, /* struct verdict_measure, as a list of its three numbers */
	FIELD_OBJECT,  /* members of their own, at `at` */
	FIELD_LIST,    /* an array of such, and beside it an int with their number */
	FIELD_OWN      /* written and read by functions of its own */
};
struct field {
	const char *name;
	enum field_kind kind;
	size_t at;                /* of the member in its struct */
	size_t size;              /* of a text: bytes; of names and lists: how many there are, or fit */
	bool is_needed;           /* a record without it is refused */
	int64_t least;            /* that an int or a long may be */
	const char *const *names; /* of FIELD_NAME */
	const struct fields *of;  /* members of an object, or of a list's elements */
	size_t stride;            /* of a list: bytes of an element */
	size_t count_at;          /* of a list: where its number stands in the struct */
	json_t *(*write)(const void *record);
	int (*read)(const json_t *value /* NULL: absent */, void *record, struct err *err);
};
struct fields {
	const char *where; /* for errors: "verdict.device" */
	size_t count;
	const struct field *list;
};
#define FIELDS(where, list) { where, ARRAY_LEN(list), list }

/* The rows' forms. Each table defines RECORD as the struct that its members are of. */
#define SIZE(member) sizeof(((RECORD *)NULL)->member)
#define FIELD(text, form, member) .name = text, .kind = form, .at = offsetof(RECORD, member)
#define TEXT(member) { FIELD(#member, FIELD_TEXT, member), .size = SIZE(member) }
#define NEEDED_TEXT(member) { FIELD(#member, FIELD_TEXT, member), .size = SIZE(member), .is_needed = true }
#define NAME(name, member, table) \
	{ FIELD(name, FIELD_NAME, member), .size = ARRAY_LEN(table), .names = table, .is_needed = true }
#define INT(member, min) INT_AS(#member, member, min)
#define INT_AS(name, member, min) { FIELD(name, FIELD_INT, member), .least = min }
#define LONG(member, min) { FIELD(#member, FIELD_LONG, member), .least = min }
#define REAL(member) { FIELD(#member, FIELD_REAL, member) }
#define BOOL(name, member) { FIELD(name, FIELD_BOOL, member) }
#define MEASURE(member) { FIELD(#member, FIELD_MEASURE, member) }
#define LIST(member, count, fields) \
	{ FIELD(#member, FIELD_LIST, member), .size = SIZE(member) / SIZE(member[0]), .of = fields, \
		.stride = SIZE(member[0]), .count_at = offsetof(RECORD, count) }
#define OWN(text, writer, reader) { .name = text, .kind = FIELD_OWN, .write = writer, .read = reader }

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

static json_t *measure_json(const struct verdict_measure *m)
{
	return json_pack("[o, o, o]", json_finite(m->value), json_finite(m->low), json_finite(m->high));
}

static json_t *fields_json(const struct fields *fields, const void *record);

static json_t *list_json(const struct field *f, const void *record)
{
	int count = *(const int *)((const char *)record + f->count_at);
	json_t *list = json_array();
	for (int i = 0; i < count; i++)
		json_array_append_new(list, fields_json(f->of, (const char *)record + f->at + (size_t)i * f->stride));
	return list;
}

static json_t *field_json(const struct field *f, const void *record)
{
	const void *member = (const char *)record + f->at;
	switch (f->kind) {
	case FIELD_TEXT: return text_json(member);
	case FIELD_NAME: return json_string(name_of(f->names, (int)f->size, *(const int *)member, f->name));
	case FIELD_INT: return json_integer(*(const int *)member);
	case FIELD_LONG: return json_integer(*(const int64_t *)member);
	case FIELD_REAL: return json_finite(*(const double *)member);
	case FIELD_BOOL: return json_boolean(*(const bool *)member);
	case FIELD_MEASURE: return measure_json(member);
	case FIELD_OBJECT: return fields_json(f->of, member);
	case FIELD_LIST: return list_json(f, record);
	case FIELD_OWN: break;
	}
	return f->write(record);
}

static json_t *fields_json(const struct fields *fields, const void *record)
{
	json_t *o = json_object();
	for (size_t i = 0; i < fields->count; i++)
		json_object_set_new(o, fields->list[i].name, field_json(&fields->list[i], record));
	return o;
}

static int text_from_json(const json_t *o, const char *where, const struct field *f, char *to, struct err *err)
{
	const char *text = "";
	int rc = (f->is_needed ? json_get_str : json_opt_str)(o, where, f->name, &text, err);
	snprintf(to, f->size, "%s", text);
	return rc;
}

static int name_from_json(const json_t *o, const char *where, const struct field *f, int *to, struct err *err)
{
	const char *name = "";
	int rc = json_get_str(o, where, f->name, &name, err);
	for (int i = 0; i < (int)f->size && !rc; i++)
		if (!strcmp(f->names[i], name)) {
			*to = i;
			return 0;
		}
	return rc ? rc : err_set(err, ERR_FORMAT, "%s.%s: \"%.60s\" is not a known name", where, f->name, name);
}

/* The reader knows 64 bits only, so an int goes through a wider variable in its range. */
static int int_from_json(const json_t *o, const char *where, const struct field *f, int *to, struct err *err)
{
	int64_t value = 0;
	int rc = json_opt_int(o, where, f->name, f->least, INT32_MAX, &value, err);
	*to = (int)value;
	return rc;
}

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

static int fields_from_json(const struct fields *fields, const json_t *o, void *record, struct err *err);

static int list_from_json(const struct field *f, const json_t *list, void *record, struct err *err)
{
	int *count = (int *)((char *)record + f->count_at), rc = 0;
	for (*count = 0; (size_t)*count < MIN(json_array_size(list), f->size) && !rc; ++*count) {
		size_t i = (size_t)*count;
		rc = fields_from_json(f->of, json_array_get(list, i), (char *)record + f->at + i * f->stride, err);
	}
	return rc;
}

static int field_from_json(const json_t *o, const char *where, const struct field *f, void *record, struct err *err)
{
	const json_t *value = json_object_get(o, f->name);
	void *member = (char *)record + f->at;
	switch (f->kind) {
	case FIELD_TEXT: return text_from_json(o, where, f, member, err);
	case FIELD_NAME: return name_from_json(o, where, f, member, err);
	case FIELD_INT: return int_from_json(o, where, f, member, err);
	case FIELD_LONG: return json_opt_int(o, where, f->name, f->least, INT64_MAX, member, err);
	case FIELD_REAL: return real_from_json(o, where, f->name, member, err);
	case FIELD_BOOL: return json_opt_bool(o, where, f->name, member, err);
	case FIELD_MEASURE: *(struct verdict_measure *)member = measure_from_json(value); return 0;
	case FIELD_OBJECT: return value ? fields_from_json(f->of, value, member, err) : 0;
	case FIELD_LIST: return list_from_json(f, value, record, err);
	case FIELD_OWN: break;
	}
	return f->read(value, record, err);
}

/* Into a record of zeros. It may come from a store that others have written, so every field is
 * checked; what is not needed may be absent. */
static int fields_from_json(const struct fields *fields, const json_t *o, void *record, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < fields->count && !rc; i++)
		rc = field_from_json(o, fields->where, &fields->list[i], record, err);
	return rc;
}

/* ---- references ---- */

#define RECORD struct verdict_reference
static const struct field REFERENCE_FIELDS[] = {
	BOOL("timed", is_timed),
	BOOL("agrees", agrees),
	BOOL("gated", is_gated),
	BOOL("cached", is_cached),
	INT(pairs, 0),
	LONG(memory_bytes, 0),
	REAL(error_max),
	MEASURE(time_s),
	MEASURE(speedup),
	REAL(wall_s),
	REAL(paper_s),
	REAL(speedup_wall),
	REAL(speedup_paper),
	TEXT(why),
};
#undef RECORD
static const struct fields reference_fields = FIELDS("verdict.device.references", REFERENCE_FIELDS);

json_t *verdict_reference_json(const struct verdict_reference *r) { return fields_json(&reference_fields, r); }

int verdict_reference_from_json(const json_t *o, struct verdict_reference *out, struct err *err)
{
	struct verdict_reference r = {0};
	int rc = fields_from_json(&reference_fields, o, &r, err);
	if (!rc) *out = r;
	return rc;
}

/* By name; those that nobody timed or tried to time are left out. */
static json_t *references_write(const void *record)
{
	const struct verdict_device *d = record;
	json_t *o = json_object();
	for (int i = 0; i < REFERENCE_COUNT; i++)
		if (d->references[i].is_timed || d->references[i].why[0])
			json_object_set_new(o, REFERENCE_NAMES[i], verdict_reference_json(&d->references[i]));
	return o;
}

static int references_read(const json_t *value, void *record, struct err *err)
{
	struct verdict_device *d = record;
	int rc = 0;
	for (int i = 0; i < REFERENCE_COUNT && !rc; i++) {
		const json_t *r = json_object_get(value, REFERENCE_NAMES[i]);
		if (r) rc = verdict_reference_from_json(r, &d->references[i], err);
	}
	return rc;
}

/* ---- the device ---- */

/* Errors by tool, null for a tool that did not run; and the text that goes with them. */
static json_t *sanitizer_write(const void *record)
{
	const struct verdict_device *d = record;
	json_t *o = json_object();
	for (int k = 0; k < SANITIZER_COUNT; k++)
		json_object_set_new(o, SANITIZER_NAMES[k], d->sanitized[k] < 0 ? json_null() : json_integer(d->sanitized[k]));
	json_object_set_new(o, "text", text_json(d->sanitizer));
	return o;
}

static int sanitizer_read(const json_t *value, void *record, struct err *err)
{
	static const char where[] = "verdict.device.sanitizer";
	struct verdict_device *d = record;
	const char *text = "";
	int rc = 0;
	for (int k = 0; k < SANITIZER_COUNT && !rc; k++) {
		int64_t errors = -1;
		rc = json_opt_int(value, where, SANITIZER_NAMES[k], -1, INT32_MAX, &errors, err);
		d->sanitized[k] = (int)errors;
	}
	if (!rc) rc = json_opt_str(value, where, "text", &text, err);
	snprintf(d->sanitizer, sizeof d->sanitizer, "%s", text);
	return rc;
}

#define RECORD struct verdict_tuned
static const struct field TUNED_FIELDS[] = {
	TEXT(label),
	INT(configs, 0),
	INT(chosen, 0),
	REAL(first_s),
	REAL(chosen_s),
	BOOL("kept", is_kept),
};
#undef RECORD
static const struct fields tuned_fields = FIELDS("verdict.device.tuned", TUNED_FIELDS);

#define RECORD struct verdict_profile
#define X(e, t, m) {FIELD(t, FIELD_REAL, counters[e])},
static const struct field PROFILE_FIELDS[] = {TEXT(kernel), VERDICT_COUNTER_TABLE(X)};
#undef X
#undef RECORD
static const struct fields profile_fields = FIELDS("verdict.device.profiles", PROFILE_FIELDS);

#define RECORD struct verdict_device
static const struct field DEVICE_FIELDS[] = {
	NEEDED_TEXT(name),
	INT(driver, 0),
	INT(trials, 0),
	INT(trials_failed, 0),
	INT(disagreements, 0),
	INT(contracted, 0),
	INT(subnormal, 0),
	REAL(error_max),
	NAME("repeat", repeat, REPEAT_NAMES),
	REAL(seconds),
	INT(timed, 0),
	REAL(time_s),
	REAL(time_low_s),
	REAL(time_high_s),
	REAL(empty_s),
	TEXT(untimed),
	INT(vm_trials, 0),
	INT(stock_trials, 0),
	REAL(stock_error_max),
	TEXT(stock_why),
	REAL(predicted_s),
	REAL(eager_predicted_s),
	REAL(wall_s),
	REAL(paper_s),
	REAL(control_s),
	LONG(memory_bytes, 0),
	INT(others, -1),
	REAL(floor_s),
	TEXT(floor_by),
	REAL(floor_rate),
	LIST(tuned, ntuned, &tuned_fields),
	TEXT(live),
	TEXT(live_why),
	OWN("sanitizer", sanitizer_write, sanitizer_read),
	LIST(profiles, nprofiles, &profile_fields),
	TEXT(unprofiled),
	OWN("references", references_write, references_read),
};
#undef RECORD
static const struct fields device_fields = FIELDS("verdict.device", DEVICE_FIELDS);

/* ---- the verdict ---- */

#define RECORD struct verdict_line
static const struct field LINE_FIELDS[] = {
	INT(line, INT32_MIN),
	LONG(bytes, INT64_MIN),
	LONG(sectors, INT64_MIN),
	LONG(flops, INT64_MIN),
};
#undef RECORD
static const struct fields line_fields = FIELDS("verdict.lines", LINE_FIELDS);

#define RECORD struct verdict_side
static const struct field SIDE_FIELDS[] = {INT(line, INT32_MIN), TEXT(text)};
#undef RECORD
static const struct fields side_fields = FIELDS("verdict.coverage.unreached", SIDE_FIELDS);

#define RECORD struct verdict
static const struct field COVERAGE_FIELDS[] = {
	INT(sides, 0),
	INT_AS("taken", sides_taken, 0),
	INT(guided, 0),
	INT(sized, 0),
	LIST(unreached, nunreached, &side_fields),
	INT_AS("more", unreached_more, 0),
};
#undef RECORD
static const struct fields coverage_fields = FIELDS("verdict.coverage", COVERAGE_FIELDS);

static json_t *params_write(const void *record)
{
	return json_string(((const struct verdict *)record)->params_seeded ? "seeded" : "matched");
}

static int params_read(const json_t *value, void *record, struct err *err)
{
	const char *text = json_string_value(value);
	if (value && !json_is_null(value) && !text) return err_set(err, ERR_FORMAT, "verdict.params: expected a string");
	((struct verdict *)record)->params_seeded = text && !strcmp(text, "seeded");
	return 0;
}

/* Where KernelBench's check could not be computed there is no answer, which null says. What passes
 * it was compiled, whatever ended our own judgement before a compilation. */
static json_t *kernelbench_write(const void *record)
{
	const struct verdict *v = record;
	return json_pack("{s:b, s:o, s:i}", "compiled", v->compiled || v->kernelbench > 0, "correctness",
		v->kernelbench < 0 ? json_null() : json_boolean(v->kernelbench), "trials", v->kernelbench_trials);
}

static int kernelbench_read(const json_t *value, void *record, struct err *err)
{
	struct verdict *v = record;
	const json_t *correctness = json_object_get(value, "correctness");
	int64_t trials = 0;
	v->kernelbench = json_is_boolean(correctness) ? json_is_true(correctness) : -1;
	int rc = json_opt_int(value, "verdict.kernelbench", "trials", 0, INT32_MAX, &trials, err);
	v->kernelbench_trials = (int)trials;
	return rc;
}

#define RECORD struct verdict
static const struct field VERDICT_FIELDS[] = {
	NAME("verdict", class, CLASS_NAMES),
	NAME("stage", stage, STAGE_NAMES),
	NEEDED_TEXT(reason),
	NEEDED_TEXT(detail),
	INT(line, INT32_MIN),
	BOOL("compiled", compiled),
	BOOL("correct", correct),
	TEXT(sizes),
	TEXT(edge),
	TEXT(state),
	INT(fp8_line, 0),
	OWN("params", params_write, params_read),
	/* predicted times, and the work that they follow from */
	REAL(speedup_eager),
	REAL(speedup_fused),
	REAL(cost_s),
	REAL(eager_cost_s),
	REAL(fused_cost_s),
	TEXT(cost_size),
	REAL(cost_error),
	TEXT(not_predicted),
	TEXT(limit),
	INT(launches, INT32_MIN),
	LONG(programs, INT64_MIN),
	LONG(bytes, INT64_MIN),
	LONG(sectors, INT64_MIN),
	LONG(flops, INT64_MIN),
	LIST(lines, nlines, &line_fields),
	/* how it was judged */
	INT(trials, INT32_MIN),
	INT(trials_failed, INT32_MIN),
	REAL(error_max),
	REAL(tolerance),
	{.name = "coverage", .kind = FIELD_OBJECT, .of = &coverage_fields},
	OWN("kernelbench", kernelbench_write, kernelbench_read),
	/* where, and for which GPU */
	TEXT(sandbox),
	TEXT(gpu),
	INT(gpu_arch, INT32_MIN),
	{FIELD("device", FIELD_OBJECT, device), .of = &device_fields},
	REAL(seconds),
	BOOL("cached", cached),
	TEXT(key),
};
#undef RECORD
static const struct fields verdict_fields = FIELDS("verdict", VERDICT_FIELDS);

json_t *verdict_json(const struct verdict *v) { return fields_json(&verdict_fields, v); }

int verdict_from_json(const json_t *o, struct verdict *out, struct err *err)
{
	struct verdict v = {0};
	if (!json_is_object(o)) return err_set(err, ERR_FORMAT, "verdict: expected a JSON object");
	int rc = fields_from_json(&verdict_fields, o, &v, err);
	if (!rc) *out = v;
	return rc;
}
