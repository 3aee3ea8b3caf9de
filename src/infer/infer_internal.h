/* infer_internal: the engine's state, shared by infer_engine.c (lifetime, queue) and infer_step.c
 * (one step).
 *
 * A group is one submitted request; a slot is one running row: samples of a group (its members)
 * whose tokens so far are equal. Members are a list through group.next; each has its own
 * completion, so a split copies no tokens. The group's first slot fills the prompt's pages (all of
 * the prompt but its last token); samples that start later take them over: whole pages are shared,
 * the partly filled one is copied. Every row then begins by running the prompt's last token, so
 * that a first token is sampled like every other.
 *
 * Who starts: as many samples as fit, of a group that fits whole; of one that does not, only while
 * few samples run, since those that start one by one share no rows.
 *
 * Pages: a slot is promised all pages that its members can ever need, were they to split at once,
 * so that nothing has to be evicted later; nfree >= promised always holds, and a promise never
 * grows. Slots likewise: a running sample has the right to one, so a split always finds one. Only
 * the head of the queue may have samples without a slot, and what it holds is its prompt's pages
 * alone, so when all slots are empty it can go on: there is no deadlock. */
#ifndef HONE_INFER_INTERNAL_H
#define HONE_INFER_INTERNAL_H
#include "infer.h"

#define STOP_IDS_MAX 64
#define SAMPLES_PER_ROW 4   /* samples that may run for each row of a step: most share one */

struct group {
	struct group *next_queued;
	struct request r; /* r.prompt is our copy */
	int32_t stop[STOP_IDS_MAX];
	struct completion *results; /* (num_samples) with their buffers */
	int32_t *next;              /* (num_samples) the next member of a sample's row; -1: it is the last */
	int started;                /* samples that run */
	int forked;                 /* that have their prompt's pages */
	int live;                   /* that are not finished */
	int32_t *prompt_pages; /* pages of positions 0..nprompt - 2; the group holds a reference until all have forked */
	int nprompt_pages;
	bool prefilled;
};

enum slot_state { SLOT_FREE, SLOT_PREFILL, SLOT_WAIT /* for the first slot to fill the prompt's pages */, SLOT_RUN };
struct slot {
	enum slot_state state;
	struct group *group;
	int first; /* samples of the row: a list from first */
	int last;  /* to last */
	int members;
	int32_t *pages; /* (pages_per_sequence) */
	int npages;
	int promised; /* pages that its members may still take */
	int cached;   /* positions whose keys and values are stored or are in the batch being built */
};

struct rows {     /* one call of step_run */
	int32_t *ids; /* (max_sequences + prefill_rows), as the next two */
	int32_t *pos;
	int32_t *sequence;
	int32_t *table;        /* (max_sequences, pages_per_sequence): page lists of the sequences in it */
	int32_t *at;           /* (max_sequences) */
	int *owner;            /* (max_sequences) slot index of each row of logits */
	int32_t *left;         /* (max_sequences) tokens that each row may still draw: of fused steps */
	struct ops_draw *draw; /* (slots) one for each member of the rows, row by row */
	int32_t *from;         /* (slots) row of logits that each is from */
	int T;                 /* rows */
	int S;                 /* sequences */
	int n;                 /* rows of logits */
	int draws;
};

struct copies {   /* pages to copy, of one call */
	int32_t *dst; /* (slots) */
	int32_t *src; /* (slots) */
	int n;
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
	int nfree;          /* stack */
	int promised;       /* sum over the slots */
	struct slot *slots; /* (nslots) */
	int nslots;
	int members;  /* of all slots: at most nslots */
	int *running; /* (nslots) slots in use, by age of their groups; then the free ones */
	int nrunning;
	int *parts;               /* (nslots) slots that the row being taken has split off */
	int32_t *page_lists;      /* (nslots, pages_per_sequence) */
	struct group *queue;      /* samples without a slot */
	struct group **queue_end; /* where the next one is hung */
	int live;                 /* sequences not finished, queued ones included */
	int64_t generated;        /* tokens of all samples */
	int64_t run;              /* rows of decode */
	struct rows rows;
	struct copies copies;
	bool *slot_done; /* (nslots) handled in this step */
	int32_t *drawn;  /* (nslots) this step's tokens, or (steps, rows) of fused ones */
	float *logprobs; /* as drawn */
	struct completion *ready;
	int ready_begin; /* finished, not taken: from here */
	int ready_end;   /* to here */
	int ready_cap;   /* room for every live sequence */
};

static inline int pages_for(int positions) { return (positions + OPS_PAGE - 1) / OPS_PAGE; }
/* Positions that one sequence of the group stores: the last sampled token is never run. */
static inline int group_positions(const struct group *g) { return g->r.nprompt + g->r.max_new_tokens - 1; }
static inline struct completion *member(const struct slot *s, int sample) { return &s->group->results[sample]; }
/* One go of fused steps, where all that runs can take part; false, and
 * nothing happens, where not. */
bool fused_run(struct engine *e);
/* From infer_step.c. */
bool is_finished(const struct engine *e, const struct group *g, struct completion *c);
void finish(struct engine *e, struct group *g, struct completion *c);
void slot_settle(struct engine *e, struct slot *s);
void row_push(struct engine *e, struct slot *s, int32_t id);
void sequence_close(struct engine *e, struct slot *s, int first_row);
struct ops_draw draw_of(const struct group *g, struct completion *c);
struct ops_rows rows_of(const struct engine *e); /* what was gathered, as the backend takes it */
int32_t page_take(struct engine *e);
void group_free(struct group *g);
void page_drop(struct engine *e, int32_t p);
/* The slot is over: gives back its pages and what it was promised. Its members, if any, are over
 * too. */
void slot_clear(struct engine *e, struct slot *s);
#endif
