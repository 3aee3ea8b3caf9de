/* Reads the text of the families (task_template.h has its form). The text is compiled in, so what
 * is wrong with it is a mistake of ours: it is told with its line and ends the program. */
#include "task/task_template.h"
#include "base/base.h"

static const char TEXT[] =
#include "task_templates.inc"
	;

struct reader {
	struct family *families;
	size_t count;
	struct slice *body; /* where lines of Python go; NULL: none are expected */
	int line;
};

static struct slice trimmed(struct slice s)
{
	while (s.len && (*s.data == ' ' || *s.data == '\n')) s = (struct slice){s.data + 1, s.len - 1};
	while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\n')) s.len--;
	return s;
}

struct slice template_word(struct slice *rest, const char *ends)
{
	*rest = trimmed(*rest);
	size_t n = 0;
	while (n < rest->len && !strchr(ends, rest->data[n])) n++;
	struct slice word = trimmed((struct slice){rest->data, n});
	size_t used = n < rest->len ? n + 1 : n;
	*rest = trimmed((struct slice){rest->data + used, rest->len - used});
	return word;
}

static int number(struct slice s)
{
	char text[24];
	snprintf(text, sizeof text, "%.*s", (int)s.len, s.data);
	return atoi(text);
}

/* "3..7" or "3". */
static void range(struct slice s, int *low, int *high)
{
	struct slice first = template_word(&s, ".");
	*low = number(first);
	*high = s.len ? number((struct slice){s.data + 1, s.len - 1}) : *low;
}

static struct family *family_now(struct reader *r)
{
	CHECKF(r->count > 0, "templates line %d: no family yet", r->line);
	return &r->families[r->count - 1];
}

static struct family_answer *answer_now(struct reader *r)
{
	struct family *f = family_now(r);
	CHECKF(f->nanswers > 0, "templates line %d: no answer yet", r->line);
	return &f->answers[f->nanswers - 1];
}

/* The index of a new element of an array of so many. */
static int take(struct reader *r, int *count, size_t limit)
{
	CHECKF((size_t)*count < limit, "templates line %d: at most %zu of these", r->line, limit);
	return (*count)++;
}
#define ROOM(array, count) take(r, &(count), ARRAY_LEN(array))

static void read_family(struct reader *r, struct slice rest)
{
	r->families = xrealloc(r->families, size_mul(r->count + 1, sizeof *r->families));
	struct family *f = &r->families[r->count++];
	*f = (struct family){.name = template_word(&rest, " "), .rung = template_word(&rest, " ")};
	f->words = rest;
}

static void read_dim(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	struct family_dim *d = &f->dims[ROOM(f->dims, f->ndims)];
	d->name = template_word(&rest, " ");
	struct slice span = template_word(&rest, " ");
	if (!slice_is(span, "fill")) range(span, &d->low, &d->high);
	d->judged = number(rest);
	CHECKF(d->judged > 0, "templates line %d: a size at which values are checked is missing", r->line);
}

static void read_pick(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	struct family_pick *p = &f->picks[ROOM(f->picks, f->npicks)];
	p->name = template_word(&rest, " ");
	while (rest.len) p->fields[ROOM(p->fields, p->nfields)] = template_word(&rest, "|");
}

static void read_row(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	CHECKF(f->npicks > 0, "templates line %d: a row without %%pick", r->line);
	struct family_pick *p = &f->picks[f->npicks - 1];
	p->rows[ROOM(p->rows, p->nrows)] = rest;
}

static void read_const(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	struct family_list *l = &f->consts[ROOM(f->consts, f->nconsts)];
	l->name = template_word(&rest, " ");
	l->values = rest;
}

static void read_tune(struct reader *r, struct slice rest)
{
	struct family_answer *a = answer_now(r);
	struct family_list *l = &a->tunes[ROOM(a->tunes, a->ntunes)];
	l->name = template_word(&rest, " ");
	l->values = rest;
}

static void read_chain(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	struct family_chain *c = &f->chains[ROOM(f->chains, f->nchains)];
	c->name = template_word(&rest, " ");
	c->variable = template_word(&rest, " ");
	range(template_word(&rest, " "), &c->low, &c->high);
	c->class = rest;
}

static void read_rows(struct reader *r, struct slice rest)
{
	(void)rest;
	family_now(r)->has_rows = true;
}

static void read_inputs(struct reader *r, struct slice rest) { family_now(r)->inputs = rest; }

static void read_init(struct reader *r, struct slice rest)
{
	family_now(r)->init = rest;
	r->body = &family_now(r)->params;
}

static void read_forward(struct reader *r, struct slice rest)
{
	family_now(r)->args = rest;
	r->body = &family_now(r)->forward;
}

static void read_answer(struct reader *r, struct slice rest)
{
	struct family *f = family_now(r);
	struct family_answer *a = &f->answers[ROOM(f->answers, f->nanswers)];
	a->name = template_word(&rest, " ");
	if (rest.len) template_word(&rest, " "); /* "when" */
	a->when = rest;
}

static void read_plan(struct reader *r, struct slice rest) { answer_now(r)->plan = rest; }
static void read_because(struct reader *r, struct slice rest) { answer_now(r)->because = rest; }
static void read_code(struct reader *r, struct slice rest) { r->body = &answer_now(r)->code; }

static const struct {
	const char *name;
	void (*read)(struct reader *r, struct slice rest);
} DIRECTIVES[] = {
	{"family", read_family},
	{"dim", read_dim},
	{"pick", read_pick},
	{"-", read_row},
	{"const", read_const},
	{"chain", read_chain},
	{"rows", read_rows},
	{"inputs", read_inputs},
	{"init", read_init},
	{"forward", read_forward},
	{"answer", read_answer},
	{"tune", read_tune},
	{"plan", read_plan},
	{"because", read_because},
	{"code", read_code},
};

static void read_line(struct reader *r, const char *line, size_t len)
{
	/* Python: the text of a body is one slice, from its first line to its last. */
	if (len == 0 || *line != '%') {
		if (r->body && !r->body->data) r->body->data = line;
		if (r->body) r->body->len = (size_t)(line - r->body->data) + len + 1;
		CHECKF(r->body || len == 0 || *line == '#', "templates line %d: text outside of a body", r->line);
		return;
	}
	r->body = NULL;
	struct slice rest = {line + 1, len - 1};
	struct slice name = template_word(&rest, " ");
	for (size_t i = 0; i < ARRAY_LEN(DIRECTIVES); i++)
		if (slice_is(name, DIRECTIVES[i].name)) {
			DIRECTIVES[i].read(r, rest);
			return;
		}
	CHECKF(false, "templates line %d: unknown directive %.*s", r->line, (int)name.len, name.data);
}

void families_read(struct family **out, size_t *count)
{
	struct reader r = {0};
	for (const char *p = TEXT; *p;) {
		size_t len = strcspn(p, "\n");
		r.line++;
		read_line(&r, p, len);
		p += len + (p[len] == '\n');
	}
	*out = r.families;
	*count = r.count;
}
