/* guided_report: what was reached and what no trial reached, for the record. */
#include "verify/guided_internal.h"
#include "base/base.h"
#include "runner/runner.h"
#include "vm/vm.h"
#include <math.h>

/* "math.exp never at 88 or above (highest 3.2)" */
static void side_text(const struct site_state *st, int side, char *text, size_t len)
{
	const struct runner_site *s = &st->site;
	const struct side_state *seen = &st->sides[side];
	char than[48] = "", best[48] = "";
	/* Kinds that have no distance to tell, or one of their own. */
	if (site_is_truth(s)) {
		snprintf(text, len, "%s never %s", vm_site_kind_name(s->kind), side == 0 ? "false" : "true");
		return;
	}
	if (s->kind == SITE_TERM) {
		snprintf(text, len, "%s: one operand never counts (at most %.3g of the other)", s->what,
			seen->is_seen ? VM_TERM * exp2(seen->best) : 0);
		return;
	}
	if (s->kind == SITE_STEP) {
		snprintf(text, len, "%s: never another whole number than the first", s->what);
		return;
	}
	if (s->kind == SITE_POLE) {
		snprintf(text, len, "%s: never where it gives no finite number", s->what);
		return;
	}
	if (s->kind == SITE_END) snprintf(than, sizeof than, " at %.4g", side == 0 ? s->low : s->high);
	else if (isfinite(s->constant)) snprintf(than, sizeof than, " %.6g", s->constant);
	if (seen->is_seen)
		snprintf(best, sizeof best, " (%s %.4g)", s->kind == SITE_END ? "nearest" : "nearest difference", seen->best);
	snprintf(text, len, "%s%s: never %s%s", s->what, than, side == 0 ? "below" : side == 1 ? "equal" : "above", best);
}

/* Whether an earlier line of the record says the same: a device function that is called
 * twice has its sites twice. */
void guided_unreached_add(struct verdict *v, int line, const char *text)
{
	for (int i = 0; i < v->nunreached; i++)
		if (v->unreached[i].line == line && !strcmp(v->unreached[i].text, text)) return;
	if (v->nunreached == VERDICT_SIDES_MAX) {
		v->unreached_more++;
		return;
	}
	struct verdict_side *to = &v->unreached[v->nunreached++];
	to->line = MAX(line, 0);
	snprintf(to->text, sizeof to->text, "%s", text);
	text_make_printable(to->text);
}

void guided_report(struct grading *g)
{
	const struct guided *s = g->guided;
	struct verdict *v = g->v;
	v->sides = v->sides_taken = v->nunreached = v->unreached_more = 0;
	for (int variant = 0; s && variant < ORACLE_VARIANTS_MAX; variant++)
		for (int i = 0; i < s->variants[variant].n; i++) {
			const struct site_state *st = &s->variants[variant].sites[i];
			if (st->is_known_before) continue;
			/* A pole that nothing was searched for is none, or was met. */
			if (st->site.kind == SITE_POLE && (!st->is_tried || st->is_met)) continue;
			bool is_side = !vm_site_is_quiet(st->site.kind);
			v->sides += is_side ? __builtin_popcount(st->site.wanted) : 0;
			v->sides_taken += is_side ? __builtin_popcount(st->site.wanted & st->site.taken) : 0;
			for (int side = 0; side < SIDES; side++) {
				char text[sizeof v->unreached[0].text];
				if (!site_is_open(&st->site, side)) continue;
				side_text(st, side, text, sizeof text);
				guided_unreached_add(v, st->site.line, text);
			}
		}
}
