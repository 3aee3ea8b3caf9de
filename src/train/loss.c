/* Losses over rows. A row is one token: its log-probability now, when it was sampled and under the
 * reference policy, its advantage, and the number its loss is multiplied by. Aggregation (mean over
 * sequences, over tokens, over a constant) is that number alone, so a loss type is a row of a
 * table: its name, its value, its normaliser.
 *
 * The policy's loss, with rho = exp(lp - old):
 *   l = -w min(min(rho, delta) A, clip(rho, 1 - eps, 1 + eps_high) A)
 *   dl/dlp = -w rho A, or 0 where the clipped branch is taken or rho is above delta
 * gspo has s = exp(mean over the sequence of lp - old) in rho's place, the same for all of its
 * tokens. With grpo's normaliser 1 / (S L), dl/dlp = -w s A / (S L): the derivative of the
 * sequence's -min(s A, clip(s) A) / S.
 * cispo has l = -w min(rho, eps_high) A lp with the factor held constant: every token has a
 * gradient, and eps_high is the cap itself.
 * The divergence from the reference is k3, with d = ref - lp:
 *   k = exp(d) - d - 1
 *   dk/dlp = 1 - exp(d)
 *
 * Sources: GRPO arXiv 2402.03300 eq. 3 and 4, Dr. GRPO 2503.20783, DAPO 2503.14476, GSPO
 * 2507.18071, CISPO 2506.13585, delta as in INTELLECT-2 2505.07291, k3 from Schulman 2020. All
 * scalar work is in double. */
#include "train/train.h"
#include "base/base.h"

#include <math.h>

typedef double value_fn(const struct loss_options *o, const struct loss_row *r, double logprob, double *g);
/* Weight of each token of a sequence of `length` in a batch of S sequences and `tokens` tokens. */
typedef double normaliser_fn(int length, int S, int64_t tokens, int max_completion_length);

static double value_sft(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	*g = -1;
	return -logprob;
}

static double kl_add(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	if (!(o->beta > 0)) return 0;
	double d = (double)r->ref_logprob - logprob, e = exp(d);
	*g += o->beta * (1 - e);
	return o->beta * (e - d - 1);
}

static double ratio_of(const struct loss_row *r, double logprob) { return exp(logprob - r->old_logprob); }
static double sequence_ratio_of(const struct loss_row *r, double logprob) { return r->sequence_ratio; }

/* The clipped term for one ratio; *clip says which clip decided (loss_row_clip). */
static double clipped_term(const struct loss_options *o, double A, double rho, double *g, int *clip)
{
	double bounded = o->delta > 0 ? fmin(rho, (double)o->delta) : rho;
	double clipped = fmin(fmax(rho, 1 - (double)o->epsilon), 1 + (double)o->epsilon_high);
	bool is_clipped = clipped * A < bounded * A;
	*clip = !is_clipped ? 0 : A < 0 ? -1 : 1;
	*g = is_clipped || bounded < rho ? 0 : -rho * A;
	return is_clipped ? -clipped * A : -bounded * A;
}

static double value_clipped(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	int clip;
	double value = r->weight * clipped_term(o, r->advantage, ratio_of(r, logprob), g, &clip);
	*g *= r->weight;
	return value + kl_add(o, r, logprob, g);
}

static double value_gspo(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	int clip;
	double value = r->weight * clipped_term(o, r->advantage, r->sequence_ratio, g, &clip);
	*g *= r->weight;
	return value + kl_add(o, r, logprob, g);
}

static double value_cispo(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	double factor = fmin(ratio_of(r, logprob), (double)o->epsilon_high) * r->advantage * r->weight;
	*g = -factor;
	return -factor * logprob + kl_add(o, r, logprob, g);
}

static double per_sequence(int length, int S, int64_t tokens, int max_completion_length)
{
	return 1.0 / ((double)S * length);
}
static double per_token(int length, int S, int64_t tokens, int max_completion_length) { return 1.0 / (double)tokens; }
static double per_constant(int length, int S, int64_t tokens, int max_completion_length)
{
	return 1.0 / ((double)S * max_completion_length);
}

static const struct {
	const char *name;
	value_fn *value;
	normaliser_fn *normaliser;
	double (*ratio)(const struct loss_row *r, double logprob); /* what the clips look at; NULL: nothing is clipped */
} loss_types[LOSS_TYPE_COUNT] = {
	[LOSS_SFT] = {"sft", value_sft, per_token, NULL},
	[LOSS_GRPO] = {"grpo", value_clipped, per_sequence, ratio_of},
	[LOSS_DR_GRPO] = {"dr_grpo", value_clipped, per_constant, ratio_of},
	[LOSS_DAPO] = {"dapo", value_clipped, per_token, ratio_of},
	[LOSS_BNPO] = {"bnpo", value_clipped, per_token, ratio_of},
	[LOSS_GSPO] = {"gspo", value_gspo, per_sequence, sequence_ratio_of},
	[LOSS_CISPO] = {"cispo", value_cispo, per_token, NULL},
}; /* bnpo differs from dapo only where an update is split: dapo counts all of its tokens, bnpo those of a micro-batch;
	  ours is never split */

bool loss_type_needs_sequence_ratio(enum loss_type t) { return loss_types[t].ratio == sequence_ratio_of; }

int loss_type_from_name(const char *name, enum loss_type *out, struct err *err)
{
	struct str known = {0};
	for (enum loss_type t = 0; t < LOSS_TYPE_COUNT; t++) {
		str_printf(&known, "%s%s", t ? ", " : "", loss_types[t].name);
		if (strcmp(loss_types[t].name, name)) continue;
		*out = t;
		str_release(&known);
		return 0;
	}
	err_set(err, ERR_USAGE, "loss_type \"%.40s\" is unknown; known are %s", name, known.data);
	str_release(&known);
	return ERR_USAGE;
}

float loss_row_value(const struct loss_options *o, const struct loss_row *r, float logprob, float *g)
{
	double slope, value = loss_types[o->type].value(o, r, logprob, &slope);
	*g = (float)(slope * r->normaliser);
	return (float)(value * r->normaliser);
}

int loss_row_clip(const struct loss_options *o, const struct loss_row *r, float logprob)
{
	double g;
	int clip = 0;
	if (loss_types[o->type].ratio) clipped_term(o, r->advantage, loss_types[o->type].ratio(r, logprob), &g, &clip);
	return clip;
}

void loss_normalisers(
	enum loss_type type, const int *lengths, int S, int max_completion_length, float *per_sequence_out)
{
	int64_t tokens = 0;
	for (int s = 0; s < S; s++) tokens += lengths[s];
	for (int s = 0; s < S; s++)
		per_sequence_out[s] = lengths[s] > 0
			? (float)loss_types[type].normaliser(lengths[s], S, tokens, max_completion_length)
			: 0;
}
