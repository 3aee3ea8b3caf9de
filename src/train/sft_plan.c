/* Which example goes where: the order of an epoch and its packing into micro-batches, functions of
 * (seed, epoch) and the examples' lengths alone, so that a resumed run finds its place from the
 * step number.
 *
 * Packing is greedy in shuffled order: an example that does not fit opens the next micro-batch. No
 * padding is computed and no sequence sees another. */
#include "train/train_internal.h"
#include "base/base.h"
#include "model/model.h"

#include <stdlib.h>

void epoch_plan_make(struct epoch_plan *p, const struct sft_example *examples, size_t n, int max_tokens, bool shuffle,
	uint64_t seed, int64_t epoch)
{
	struct rng rng = {.seed = seed, .stream = (uint64_t)epoch};
	int used = 0;
	CHECK(n <= UINT32_MAX);
	p->order = xrealloc(p->order, MAX(n, 1) * sizeof *p->order);
	p->micro = xrealloc(p->micro, (n + 1) * sizeof *p->micro);
	p->n = n;
	p->nmicro = 0;
	for (size_t i = 0; i < n; i++) p->order[i] = (uint32_t)i;
	if (shuffle) rng_shuffle(&rng, p->order, n, sizeof *p->order);
	for (size_t i = 0; i < n; i++) {
		int count = examples[p->order[i]].count;
		if (i == 0 || used + count > max_tokens || i - p->micro[p->nmicro - 1] == PASS_SEQUENCES_MAX) {
			p->micro[p->nmicro++] = i;
			used = 0;
		}
		used += count;
	}
	p->micro[p->nmicro] = n;
}

void epoch_plan_release(struct epoch_plan *p)
{
	free(p->order);
	free(p->micro);
	*p = (struct epoch_plan){0};
}

/* ---- one micro-batch ---- */

void sft_batch_init(struct sft_batch *b, int max_tokens)
{
	size_t n = (size_t)max_tokens;
	*b = (struct sft_batch){0};
	b->ids = xcalloc(n, sizeof *b->ids);
	b->pos = xcalloc(n, sizeof *b->pos);
	b->start = xcalloc(n + 1, sizeof *b->start);
	b->rows = xcalloc(n, sizeof *b->rows);
}

void sft_batch_release(struct sft_batch *b)
{
	free(b->ids);
	free(b->pos);
	free(b->start);
	free(b->rows);
}

/* The first token of a sequence has no context to be predicted from. */
static int first_row(const struct sft_example *e) { return MAX(e->completion_begin, 1); }
int sft_example_rows(const struct sft_example *e) { return e->count - first_row(e); }

void sft_batch_pack(struct sft_batch *b, const struct sft_example *examples, const uint32_t *order, size_t count)
{
	b->T = b->S = b->n = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sft_example *e = &examples[order[i]];
		b->start[b->S++] = b->T;
		memcpy(b->ids + b->T, e->ids, (size_t)e->count * sizeof *e->ids);
		for (int k = 0; k < e->count; k++) b->pos[b->T + k] = k;
		for (int k = first_row(e); k < e->count; k++)
			b->rows[b->n++] = (struct head_row){.at = b->T + k - 1, .target = e->ids[k]};
		b->T += e->count;
	}
	b->start[b->S] = b->T;
}
