/* attempt_judge: what the replay of a trial says of a candidate: faults, forms and values of its
 * outputs, and what the work cost. Each function settles the verdict at the first thing that is
 * wrong. */
#include "verify/attempt.h"
#include "base/base.h"
#include "base/dtype.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include "tape/tape.h"
#include "verify/compare.h"
#include <ctype.h>
#include <math.h>

/* Fault codes of the runner, and what they mean for a verdict. */
static const struct {
	const char *code;   /* the runner's */
	const char *reason; /* the verdict's */
	enum verdict_class class;
	enum verdict_stage stage;
} FAULTS[] = {
	{"out-of-bounds", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"misaligned", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"uninitialised", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"division-by-zero", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"assert", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"input-modified", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"param-modified", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"timeout", "timeout-kernel", VERDICT_WRONG, STAGE_CORRECTNESS},
	{RUNNER_SLOW, "too-slow", VERDICT_INVALID, STAGE_CORRECTNESS},
	{"race", NULL, VERDICT_WRONG, STAGE_CORRECTNESS},
	{"needs-co-residency", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"memory", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"unsupported", "unsupported-op", VERDICT_INVALID, STAGE_CORRECTNESS},
	{"unsupported-op", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"argument", "bad-argument", VERDICT_INVALID, STAGE_CORRECTNESS},
	{"bad-ir", NULL, VERDICT_INVALID, STAGE_CORRECTNESS},
	{"bad-tape", NULL, VERDICT_INVALID, STAGE_TRACE},
	{"library-row", NULL, VERDICT_PARTIAL, STAGE_LINEAGE},
};

const char *attempt_reason(const struct oracle_trial *t, const char *plain)
{
	if (t->is_guided) return plain;
	if (!t->is_stock) return "fragile";
	return t->is_random_params && t->nparams ? "stale-params" : plain;
}

void attempt_text(const struct grading *g, const struct oracle_trial *t, char *text, size_t len)
{
	const struct oracle_variant *v = oracle_variant_of(g->oracle, t);
	snprintf(text, len, "%s inputs%s%s%s%s", t->distribution,
		strcmp(v->kind, "strided") ? "" : " that are not contiguous",
		t->is_random_params && t->nparams ? " with other parameter values" : "", v->changed[0] ? " at sizes " : "",
		v->changed);
}

int attempt_fault_end(struct grading *g, const struct runner_fault *f, const struct oracle_trial *t)
{
	char trial[400] = "";
	bool hidden = t && !t->is_stock;
	if (hidden) attempt_text(g, t, trial, sizeof trial);
	for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
		if (strcmp(FAULTS[i].code, f->code)) continue;
		const char *reason = FAULTS[i].reason ? FAULTS[i].reason : FAULTS[i].code;
		bool is_late = hidden && FAULTS[i].class == VERDICT_WRONG;
		return grade_end(g, FAULTS[i].class, FAULTS[i].stage, is_late && !t->is_guided ? "fragile" : reason, f->line,
			"%s%s%s%.800s", is_late ? "only for hidden trials: " : "", trial, hidden ? ": " : "", f->text);
	}
	return grade_end(g, VERDICT_INVALID, STAGE_CORRECTNESS, "replay-crash", f->line,
		"the replay of this tape ends with %.60s: %.600s", f->code, f->text);
}

/* Reads a number at *at, if one begins there; false: none does. */
static bool form_number(const char **at, double *x)
{
	const char *digits = *at + (**at == '-');
	if (!isdigit((unsigned char)*digits)) return false;
	char *end;
	*x = strtod(*at, &end);
	*at = end;
	return true;
}

/* Whether two values of forward are put together alike (worker/output_form.py). A float counts by
 * its first six digits, since other ways to compute a constant end in other last digits; whole
 * numbers and texts count as they are. */
static bool form_equals(const char *a, const char *b)
{
	char quote = 0; /* of the text that a and b are in; 0: none */
	while (*a && *b) {
		/* Numbers outside of texts: a name's digits are no number. Equal
		 * letters need no reading. */
		const char *from_a = a, *from_b = b;
		double x, y;
		if (!quote && form_number(&a, &x) && form_number(&b, &y)) {
			size_t na = (size_t)(a - from_a), nb = (size_t)(b - from_b);
			bool is_same = na == nb && !memcmp(from_a, from_b, na);
			bool is_float = memchr(from_a, '.', na) || memchr(from_a, 'e', na) || memchr(from_b, '.', nb) ||
				memchr(from_b, 'e', nb);
			char s[32], t[32];
			snprintf(s, sizeof s, "%.6g", x);
			snprintf(t, sizeof t, "%.6g", y);
			if (!is_same && (!is_float || strcmp(s, t))) return false;
			continue;
		}
		a = from_a;
		b = from_b;
		/* Anything else, letter by letter; a backslash takes the next letter with it. */
		if (*a != *b) return false;
		if (quote && *a == '\\' && a[1] && a[1] == b[1]) a++, b++;
		else if (*a == quote) quote = 0;
		else if (!quote && (*a == '\'' || *a == '"')) quote = *a;
		a++;
		b++;
	}
	return *a == *b;
}

int outputs_check(struct grading *g, const struct tape *t, const struct oracle_trial *trial)
{
	const char *hidden = trial->is_stock ? "" : " at other sizes";
	if (t->noutputs != trial->noutputs)
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-count"), 0,
			"forward returned %d %s%s, the reference returns %d", t->noutputs, plural(t->noutputs, "tensor", "tensors"),
			hidden, trial->noutputs);
	/* One tensor is no tuple of one. An answer in IR has no such word. */
	bool is_tuple = json_is_true(json_object_get(t->json, "tuple"));
	const json_t *wanted = json_object_get(g->oracle->variants[0].job, "tuple");
	if (!g->ir && wanted && is_tuple != json_is_true(wanted))
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-count"), 0,
			"forward returned %s%s, the reference returns %s", is_tuple ? "several values" : "a tensor", hidden,
			is_tuple ? "a tensor" : "several values");
	/* Dicts, and what is beside the tensors. */
	const json_t *like = json_object_get(oracle_variant_of(g->oracle, trial)->job, "form");
	const char *form = json_string_value(json_object_get(t->json, "form")), *asked = json_string_value(like);
	if (!g->ir && like && !form_equals(form ? form : "", asked ? asked : ""))
		return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-form"), 0,
			"forward returned %.200s%s, the reference returns %.200s (t: a tensor)", form ? form : "tensors alone",
			hidden, asked ? asked : "tensors alone");
	for (int i = 0; i < t->noutputs; i++) {
		const struct tape_view *found = &t->outputs[i];
		const struct compare_output *want = &trial->outputs[i];
		char a[200], b[200];
		tape_dims_text(found->ndim, found->shape, a, sizeof a);
		tape_dims_text(want->ndim, want->shape, b, sizeof b);
		if (strcmp(a, b))
			return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-shape"), 0,
				"output %d has shape %s%s, the reference's has %s", i, a, hidden, b);
		if (found->dtype != want->dtype)
			return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(trial, "output-dtype"), 0,
				"output %d is %s%s, the reference's is %s", i, dtype_name(found->dtype), hidden,
				dtype_name(want->dtype));
	}
	return GRADE_ON;
}

void cost_none(struct grading *g, const char *text)
{
	struct verdict *v = g->v;
	snprintf(v->not_predicted, sizeof v->not_predicted, "%s", text);
	text_make_printable(v->not_predicted);
	v->cost_s = v->eager_cost_s = v->fused_cost_s = v->speedup_eager = v->speedup_fused = v->cost_error = NAN;
	v->launches = v->nlines = 0;
	v->programs = v->bytes = v->sectors = v->flops = 0;
	v->limit[0] = 0;
}

void cost_keep(struct grading *g, const json_t *reference, const struct runner_result *r)
{
	struct verdict *v = g->v;
	enum cost_dot dot = cost_dot_of(g->oracle->dtype, g->s->tf32);
	/* Of several trials the dearest counts. */
	double error, cost = cost_candidate_s(r->costs, r->ncosts, g->compiled, &g->s->gpu, &error);
	for (int i = 0; i < r->ncosts && !v->not_predicted[0]; i++) {
		const char *why = vm_cost_untimed(&r->costs[i].counts);
		if (why) cost_none(g, why);
	}
	if (v->not_predicted[0] || cost <= v->cost_s) return;
	v->cost_s = cost;
	v->cost_error = error;
	snprintf(v->limit, sizeof v->limit, "%s", cost_candidate_limit(r->costs, r->ncosts, g->compiled, &g->s->gpu));
	cost_reference_s(reference, dot, &g->s->gpu, &v->eager_cost_s, &v->fused_cost_s);
	v->speedup_eager = v->cost_s > 0 ? v->eager_cost_s / v->cost_s : NAN;
	v->speedup_fused = v->cost_s > 0 ? v->fused_cost_s / v->cost_s : NAN;
	/* Totals of that trial. */
	v->launches = v->nlines = 0;
	v->programs = v->bytes = v->sectors = v->flops = 0;
	for (int i = 0; i < r->ncosts; i++) {
		v->launches += r->costs[i].kind == TAPE_LAUNCH;
		v->programs += r->costs[i].programs;
		v->bytes += r->costs[i].bytes;
		v->sectors += r->costs[i].sectors;
		v->flops += r->costs[i].flops + r->costs[i].dot_flops;
	}
	/* The dearest lines by bytes, then in line order as they came. Lines that move and compute
	 * nothing (indices, masks) say nothing. */
	for (int i = 0; i < r->nlines; i++) {
		if (!r->lines[i].bytes && !r->lines[i].sectors && !r->lines[i].flops) continue;
		struct verdict_line line = {r->lines[i].line, r->lines[i].bytes, r->lines[i].sectors, r->lines[i].flops};
		int at = v->nlines;
		if (at == VERDICT_LINES_MAX)
			for (at = 0; at < VERDICT_LINES_MAX && v->lines[at].bytes >= line.bytes; at++) continue;
		if (at < VERDICT_LINES_MAX) v->lines[at] = line;
		v->nlines = MAX(v->nlines, MIN(at + 1, VERDICT_LINES_MAX));
	}
}

/* Compares all outputs of one trial; settles the verdict at the first that differs. */
static int outputs_compare(struct grading *g, const struct attempt *a, const struct attempt_result *found)
{
	const struct oracle_trial *t = a->trial;
	struct verdict *v = g->v;
	bool kernelbench = true;
	int rc = GRADE_ON;
	for (int i = 0; i < t->noutputs; i++) {
		struct compare_result r;
		compare_run(&t->outputs[i], &t->bounds[i], found->outputs + found->offset[i], &r);
		kernelbench &= r.kernelbench;
		/* The comparison is negated because error_max is NaN before the first output. */
		if (!(v->error_max >= r.error_max)) {
			v->error_max = r.error_max;
			v->tolerance = t->bounds[i].tolerance;
		}
		/* Errors and KernelBench's check go on; the first difference alone is the verdict. */
		if (r.is_equal || rc) continue;
		char trial[400];
		attempt_text(g, t, trial, sizeof trial);
		/* The first order gave the right result, so the order makes the difference. */
		if (a->is_crosswise)
			rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, "order-dependent", a->order_line,
				"candidate.py:%d: the result depends on an order that a GPU "
				"chooses for itself. The function of tl.reduce must be commutative and associative; what tl.cat, a "
				"reshape with can_reorder or packed inline assembly put where is open, and so is which program comes "
				"first at an atomic. Output %d for %s: %s",
				a->order_line, i, trial, r.text);
		else
			rc = grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, attempt_reason(t, "mismatch"), 0,
				"output %d for %s: %s", i, trial, r.text);
	}
	/* KernelBench checks stock inputs with the seed's own parameters; one failure stays. */
	if (!a->is_crosswise && t->is_stock && !(t->is_random_params && t->nparams))
		v->kernelbench = v->kernelbench != 0 && kernelbench;
	return rc;
}

/* What the candidate does with NaN, infinities and denormals is said and never judged: Triton
 * promises little about them. */
static int edge_note(struct grading *g, const struct oracle_trial *t, const struct attempt_result *found)
{
	struct verdict *v = g->v;
	snprintf(v->edge, sizeof v->edge, "as the reference");
	const struct runner_result *r = &found->result;
	if (r->has_fault) snprintf(v->edge, sizeof v->edge, "%.40s: %.190s", r->fault.code, r->fault.text);
	for (int i = 0; i < t->noutputs && !r->has_fault; i++) {
		struct compare_result c;
		compare_run(&t->outputs[i], &t->bounds[i], found->outputs + found->offset[i], &c);
		if (c.is_equal) continue;
		snprintf(v->edge, sizeof v->edge, "output %d: %.230s", i, c.text);
		break;
	}
	return GRADE_ON;
}

static int unwritten_end(struct grading *g, const struct oracle_trial *t, const struct tape_place *place,
	const char *reason, const char *trial)
{
	/* The place is the runner's word, and only a text is made of it. */
	int output = place->output >= 0 && place->output < t->noutputs ? place->output : 0;
	const struct compare_output *o = &t->outputs[output];
	char first[160] = "an unknown place";
	if (place->first < compare_elements(o)) tape_index_text(o->ndim, o->shape, place->first, first, sizeof first);
	return grade_end(g, VERDICT_WRONG, STAGE_CORRECTNESS, t->is_stock || t->is_guided ? reason : "fragile", 0,
		"%lld of the %lld elements of output %d were never written, the first at %s%s%s", (long long)place->unwritten,
		(long long)compare_elements(o), output, first, t->is_stock ? "" : ": ", t->is_stock ? "" : trial);
}

int attempt_judge(struct grading *g, const struct attempt *a, const struct attempt_result *r)
{
	const struct oracle_trial *t = a->trial;
	const struct runner_result *said = &r->result;
	if (t->is_edge) return edge_note(g, t, r);
	if (said->has_fault) return attempt_fault_end(g, &said->fault, t);
	const char *reason = tape_lineage_reason(said->lineage);
	char trial[400];
	attempt_text(g, t, trial, sizeof trial);
	if (said->lineage == TAPE_LINEAGE_OUTPUT_UNWRITTEN) return unwritten_end(g, t, &said->place, reason, trial);
	int rc = outputs_compare(g, a, r);
	if (said->lineage == TAPE_LINEAGE_LIBRARY && !g->is_partial) {
		g->is_partial = true;
		snprintf(g->library_op, sizeof g->library_op,
			"cast to output %d (float to integer or bool, or straight from what was given)", said->place.output);
	}
	if (rc || said->lineage == TAPE_LINEAGE_OK || said->lineage == TAPE_LINEAGE_LIBRARY) return rc;
	/* On hidden inputs an honest kernel may have nothing to store (a histogram of a range that no
	 * element is in): what was filled is right then. */
	if (!t->is_stock) return GRADE_ON;
	return grade_end(g, VERDICT_CHEAT, STAGE_LINEAGE, reason, 0,
		"output %d: its bytes come from inputs, constants or fills, not from a launched kernel", said->place.output);
}
