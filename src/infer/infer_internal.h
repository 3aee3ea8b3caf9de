/* infer_internal: the engine's state, shared by infer_engine.c (lifetime, queue) and infer_step.c
 * (one step).
 *
 * A group is one submitted request; a slot is one running sequence. The group's first sample fills
 * the prompt's pages (all of the prompt but its last token), the others take them over: whole pages
 * are shared, the partly filled one is copied. Every sequence then begins by running the prompt's
 * last token, so that a first token is sampled like every other and samples may start late.
 *
 * Pages: a sequence that starts is promised all pages it can ever need, so that nothing has to be
 * evicted later; nfree >= promised always holds. Only the head of the queue may have samples
 * without a slot, and what it holds is its prompt's pages alone, so when all slots are empty it can
 * go on: there is no deadlock. */
#ifndef HONE_INFER_INTERNAL_H
#define HONE_INFER_INTERNAL_H
#include "infer.h"

#define STOP_IDS_MAX 64

struct group {
	struct group *next;
	struct request r; /* r.prompt is our copy */
	int32_t stop[STOP_IDS_MAX];
	struct completion *results; /* (num_samples) with their buffers */
	int started, forked, live;  /* samples that got a slot; that have their prompt's pages; that are not finished */
	int32_t *prompt_pages; /* pages of positions 0..nprompt - 2; the group holds a reference until all have forked */
	int nprompt_pages;
	bool prefilled;
};

enum slot_state { SLOT_FREE, SLOT_PREFILL, SLOT_WAIT /* for the first sample to fill the prompt's pages */, SLOT_RUN };
struct slot {
	enum slot_state state;
	struct group *group;
	struct completion *c;
	int32_t *pages;
	int npages;   /* (pages_per_sequence) */
	int promised; /* pages this sequence may still take */
	int cached;   /* positions whose keys and values are stored or are in the batch being built */
};

struct rows {                      /* one call of step_run */
	int32_t *ids, *pos, *sequence; /* (max_sequences + prefill_rows) */
	int32_t *table;                /* (max_sequences, pages_per_sequence): page lists of the sequences in it */
	int32_t *at;                   /* (max_sequences) */
	struct ops_draw *draw;         /* (max_sequences) */
	int *owner;                    /* (max_sequences) slot index of each row of logits */
	int T, S, n;
};

struct forks {          /* of one step: (max_sequences) each */
	int32_t *dst, *src; /* pages to copy */
	int *slots;         /* those that took over their prompt's pages */
	int ncopies, nslots;
};

struct engine {
	struct model *m;
	struct kv *kv;
	struct step *step;
	struct engine_options o;
	const struct model_config *config;
	int pages_per_sequence;
	int32_t *page_refs; /* (kv_pages) */
	int32_t *free_pages;
	int nfree;                        /* stack */
	int promised;                     /* sum over the slots */
	struct slot *slots;               /* (max_sequences) */
	int32_t *page_lists;              /* (max_sequences, pages_per_sequence) */
	struct group *queue, **queue_end; /* samples without a slot */
	int live;                         /* sequences not finished, queued ones included */
	int64_t generated;
	struct rows rows;
	struct forks forks;
	bool *slot_done; /* (max_sequences) handled in this step */
	int32_t *drawn;
	float *logprobs; /* (max_sequences) this step's tokens */
	struct completion *ready;
	int ready_begin, ready_end, ready_cap; /* finished, not taken; room for every live sequence */
};

static inline int pages_for(int positions) { return (positions + OPS_PAGE - 1) / OPS_PAGE; }
/* Positions that one sequence of the group stores: the last sampled token is never run. */
static inline int group_positions(const struct group *g) { return g->r.nprompt + g->r.max_new_tokens - 1; }
void group_free(struct group *g);
void page_drop(struct engine *e, int32_t p);
/* The slot's sequence is over: gives back its pages and what it was promised. */
void slot_clear(struct engine *e, struct slot *s);
#endif
