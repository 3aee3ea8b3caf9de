/* Smaller sizes for tasks that were made for a GPU's memory: integer literals where sizes stand
 * (assignments at the top of the module, and the bodies of get_inputs and get_init_inputs) are
 * halved until they are small enough. Halving keeps equal sizes equal and most divisors divisors.
 * Whether the smaller task still runs is for the verifier's audit to say. */
#include "task/task_graph.h"
#include "base/base.h"
#include "task/task_set.h"
#include <stdlib.h>

#define INTEGER_DIGITS_MAX 18

/* A plain decimal literal; underscores are allowed. -1 for any other number. */
static int64_t integer_of(struct slice s)
{
	int64_t v = 0;
	if (s.len > INTEGER_DIGITS_MAX || (s.len > 1 && s.data[0] == '0')) return -1;
	for (size_t i = 0; i < s.len; i++) {
		if (s.data[i] == '_' && i > 0) continue;
		if (s.data[i] < '0' || s.data[i] > '9') return -1;
		v = v * 10 + (s.data[i] - '0');
	}
	return v;
}

/* Where the scanner stands in a top-level statement. */
struct place {
	struct slice first; /* token of the statement */
	int tokens;         /* of it so far */
	bool is_target;     /* what was seen may be the names of an assignment */
	bool in_sizes;
};

/* Sizes begin behind the = of an assignment to names ("N", "height, width"), and behind the name of
 * one of the two functions. */
static void place_move(struct place *p, bool is_line_start, enum py_token k, struct slice text)
{
	if (is_line_start) *p = (struct place){.first = text, .is_target = true};
	if (p->is_target && slice_is(text, "=")) p->in_sizes = true;
	p->is_target = p->is_target && (k == PY_NAME || slice_is(text, ",") || slice_is(text, ":"));
	if (p->tokens++ == 1 && slice_is(p->first, "def"))
		p->in_sizes = slice_is(text, "get_inputs") || slice_is(text, "get_init_inputs");
}

bool task_shrink(struct task *t, int64_t size_max)
{
	struct py_scanner s;
	struct slice text;
	struct place place = {0};
	struct str out = {0};
	size_t copied = 0;
	bool at_start = true, changed = false;
	py_scanner_init(&s, t->source, strlen(t->source));
	for (enum py_token k = py_scanner_next(&s, &text); k != PY_END; k = py_scanner_next(&s, &text)) {
		if (k == PY_NEWLINE) {
			at_start = true;
			continue;
		}
		/* Only tokens at the top level begin a statement that can change whether sizes stand
		 * here. */
		if (s.indent == 0) place_move(&place, at_start, k, text);
		at_start = false;
		int64_t v = k == PY_NUMBER && place.in_sizes ? integer_of(text) : -1;
		if (v <= size_max) continue;
		/* The literal alone is replaced; the text before it is copied as it is, with its layout. */
		while (v > size_max) v = (v + 1) / 2;
		size_t begin = (size_t)(text.data - t->source);
		str_append(&out, t->source + copied, begin - copied);
		str_printf(&out, "%lld", (long long)v);
		copied = begin + text.len;
		changed = true;
	}
	str_puts(&out, t->source + copied);
	if (!changed) {
		str_release(&out);
		return false;
	}
	/* The source has changed, so that its hash has to be taken again. */
	free(t->source);
	t->source = xasprintf("# Sizes over %lld were halved until they fit.\n%s", (long long)size_max, out.data);
	t->hash = task_source_hash(t->source, strlen(t->source));
	str_release(&out);
	return true;
}
