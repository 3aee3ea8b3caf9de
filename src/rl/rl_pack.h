/* rl_pack: sequences of prompt and answer become a packed batch in which every beginning that
 * several of them share stands once: the prompt of a group, equal answers, and the tokens before
 * answers part (the batch's sequences follow one another, model.h's struct packed). Tokens that are
 * to be predicted become head rows, one for each distinct (tokens before, token); a head row serves
 * all loss rows that ask for it, so their gradients add up before they flow back.
 *
 * Where the backend does not know sequences that follow, every sequence stands whole. */
#ifndef HONE_RL_PACK_H
#define HONE_RL_PACK_H
#include "model/model.h"

struct pack_sequence {
	const int32_t *prompt;
	int nprompt; /* sequences share with earlier ones that have the same prompt array */
	const int32_t *answer;
	int count;
	const float *temperature; /* (count) of each answer token; NULL: the pass's */
};
struct pack {
	int max_tokens;
	bool shares;
	/* the batch */
	struct batch batch;
	struct head_row *head; /* (nhead) */
	int nhead;
	/* loss rows: tokens of the answers, sequence behind sequence */
	int32_t *head_of; /* (nloss) */
	int nloss;
	int32_t *member_begin; /* (nhead + 1) where each head row's loss rows begin in member */
	int32_t *member;       /* (nloss) loss rows, in order */
	/* inside */
	int32_t *ids;     /* (max_tokens) */
	int32_t *pos;     /* (max_tokens) */
	int32_t *start;   /* (max_tokens + 1) */
	int32_t *follows; /* (max_tokens) */
	int T;
	int S;
	struct pack_place *places; /* of the sequences in the batch */
	int nplaces;
	int places_cap;
	int loss_cap;
	int32_t *rows; /* batch row of every position of every sequence */
	size_t nrows;
	size_t rows_cap;
};
void pack_init(struct pack *p, int max_tokens, bool shares);
void pack_release(struct pack *p);
void pack_clear(struct pack *p);
/* Adds a sequence; false, and nothing changes, when its own tokens do not fit any more. */
bool pack_add(struct pack *p, const struct pack_sequence *s);
/* Behind the last: batch and members are complete. */
void pack_close(struct pack *p);
#endif
