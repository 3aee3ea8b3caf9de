/* ir_step: answers that are IR. A tape as JSON (docs/tape-format.md) is itself, for the judged
 * sizes alone. A text of a head and modules (tape_ir.h) is a tape at each of the sizes that it is
 * for: in place of a tracer its head says what is launched, and nothing of it runs as Python. Also
 * the other way: what a genuine candidate's tapes are as such a text. */
#include "verify/verify_internal.h"
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape.h"
#include "tape/tape_ir.h"
#include <stdlib.h>

/* A variant's tensors as tape_ir sees them; names stay the job's. */
struct sizes {
	struct tape_ir_sizes z;
	struct tape_ir_tensor *inputs;
	struct tape_ir_tensor *params;
};

static void sizes_release(struct sizes *s)
{
	free(s->inputs);
	free(s->params);
	*s = (struct sizes){0};
}

static bool tensor_read(const json_t *o, struct tape_ir_tensor *out)
{
	const char *dtype = json_string_value(json_object_get(o, "dtype"));
	const json_t *shape = json_object_get(o, "shape"), *stride = json_object_get(o, "stride");
	*out = (struct tape_ir_tensor){.ndim = (int)json_array_size(shape)};
	if (!dtype || dtype_from_name(dtype, &out->dtype) || json_array_size(shape) > TAPE_DIMS_MAX) return false;
	for (int d = 0; d < out->ndim; d++) {
		out->shape[d] = json_integer_value(json_array_get(shape, (size_t)d));
		out->stride[d] = json_integer_value(json_array_get(stride, (size_t)d));
	}
	return true;
}

/* Each tensor of a value of the tracer's job, in the order in which the tape numbers them. */
static bool inputs_add(const json_t *value, struct sizes *s)
{
	const json_t *tensor = json_object_get(value, "tensor"), *inner, *list;
	const char *key;
	bool good = true;
	if (tensor) {
		s->inputs = xrealloc(s->inputs, size_mul((size_t)s->z.ninputs + 1, sizeof *s->inputs));
		return tensor_read(tensor, &s->inputs[s->z.ninputs++]);
	}
	list = json_is_array(value) ? value : json_object_get(value, "tuple");
	for (size_t i = 0; i < json_array_size(list); i++) good &= inputs_add(json_array_get(list, i), s);
	json_object_foreach((json_t *)(uintptr_t)json_object_get(value, "dict"), key, inner) good &= inputs_add(inner, s);
	return good;
}

/* False: a tensor of a kind that no tape has. */
static bool sizes_read(const json_t *job, struct sizes *s)
{
	const char *name;
	json_t *value;
	*s = (struct sizes){0};
	bool good = inputs_add(json_object_get(job, "inputs"), s);
	json_object_foreach(json_object_get(job, "input_kwargs"), name, value) good &= inputs_add(value, s);
	/* What forward draws at random is given behind its arguments. */
	const json_t *draws = json_object_get(job, "draws");
	for (size_t i = 0; i < json_array_size(draws); i++) {
		s->inputs = xrealloc(s->inputs, size_mul((size_t)s->z.ninputs + 1, sizeof *s->inputs));
		good &= tensor_read(json_array_get(draws, i), &s->inputs[s->z.ninputs++]);
	}
	json_t *state = json_object_get(job, "state");
	s->params = xcalloc(json_object_size(state) + 1, sizeof *s->params);
	json_object_foreach(state, name, value)
	{
		good &= tensor_read(value, &s->params[s->z.nparams]);
		s->params[s->z.nparams++].name = name;
	}
	s->z.inputs = s->inputs;
	s->z.params = s->params;
	return good;
}

/* An answer that opens with a brace is a tape, one that opens with two slashes a head with modules.
 * No module of Python that defines anything begins so. */
enum ir_kind ir_kind_of(const char *source, size_t len)
{
	size_t at = 0;
	while (at < len && strchr(" \t\r\n", source[at])) at++;
	if (at < len && source[at] == '{') return IR_TAPE;
	return tape_ir_is(source, len) ? IR_TEXT : IR_NONE;
}

static int tape_take(struct grading *g, const char *text, size_t len, struct trace *out)
{
	struct err err = {0};
	int rc = tape_parse(text, len, &out->tape, &err);
	if (rc) return grade_end(g, VERDICT_INVALID, STAGE_TRACE, "bad-tape", 0, "%.900s", err.text);
	str_append(&out->text, text, len);
	return GRADE_ON;
}

static int text_take(struct grading *g, const json_t *job, struct trace *out)
{
	struct sizes sizes;
	struct str tape = {0};
	struct err err = {0};
	int line = 0, rc = GRADE_ON;
	if (!sizes_read(job, &sizes)) {
		rc = grade_end(g, VERDICT_INVALID, STAGE_TRACE, "unsupported", 0,
			"the task's inputs or parameters are of a kind that an answer in IR has no word for");
	} else {
		int said = tape_ir_read(g->source, g->source_len, &sizes.z, &tape, &line, &err);
		if (said)
			rc = grade_end(g, VERDICT_INVALID, STAGE_TRACE, said == ERR_RANGE ? "other-sizes" : "bad-ir", line,
				"%.900s", err.text);
		else rc = tape_take(g, tape.data, tape.len, out);
	}
	str_release(&tape);
	sizes_release(&sizes);
	return rc;
}

int ir_step(struct grading *g, struct trace *out)
{
	g->v->stage = STAGE_TRACE;
	g->next_other = 1;
	return g->ir == IR_TAPE ? tape_take(g, g->source, g->source_len, out)
							: text_take(g, g->oracle->variants[0].job, out);
}

int ir_other_step(struct grading *g, int variant, struct trace *out)
{
	const struct oracle_data *d = g->oracle;
	return text_take(g, variant < d->nvariants ? d->variants[variant].job : json_object_get(d->priced, "job"), out);
}

int ir_form(struct grading *g, const struct trace *stock, struct str *out, struct err *err)
{
	struct tape_ir_seen seen[ORACLE_VARIANTS_MAX];
	struct sizes sizes[ORACLE_VARIANTS_MAX] = {0};
	int count = 0, rc = 0;
	for (int i = 0; i < g->oracle->nvariants && !rc; i++) {
		const struct oracle_variant *v = &g->oracle->variants[i];
		const struct tape *tape = i ? g->others[i].tape : stock->tape;
		/* Strided inputs are copied in front of an answer in IR; how this candidate takes
		 * them is its own affair. */
		if (!tape || !strcmp(v->kind, "strided")) continue;
		if (!sizes_read(v->job, &sizes[i]))
			rc = err_set(err, ERR_MISMATCH, "inputs or parameters of another kind than tensors of a tape");
		seen[count++] = (struct tape_ir_seen){sizes[i].z, tape};
	}
	if (!rc) rc = tape_ir_write(seen, count, out, err);
	for (int i = 0; i < ORACLE_VARIANTS_MAX; i++) sizes_release(&sizes[i]);
	return rc;
}
