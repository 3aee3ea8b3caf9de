/* Losses over rows. A row is one token: its log-probability now, when it was sampled and under the
 * reference policy, its advantage, and the number its loss is multiplied by. Aggregation (mean over
 * sequences, over tokens, over a constant) is that number alone, so a loss type is a row of a
 * table: its name, its value, its normaliser.
 *
 *   rho = exp(lp - old)       policy  l = -min(rho A, clip(rho, 1 - eps, 1 + eps_high) A)
 *   dl/dlp = -rho A, or 0 where the clipped branch is taken
 *   d = ref - lp              KL k3   k = exp(d) - d - 1
 *   dk/dlp = 1 - exp(d)
 * Sources: GRPO arXiv 2402.03300 eq. 3 and 4, Dr. GRPO 2503.20783, DAPO 2503.14476, k3 from
 * Schulman 2020. All scalar work is in double. */
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

static double value_clipped(const struct loss_options *o, const struct loss_row *r, double logprob, double *g)
{
	double A = r->advantage, rho = exp(logprob - r->old_logprob);
	double clipped = fmin(fmax(rho, 1 - (double)o->epsilon), 1 + (double)o->epsilon_high);
	bool is_clipped = clipped * A < rho * A;
	double value = is_clipped ? -clipped * A : -rho * A;
	*g = is_clipped ? 0 : -rho * A;
	if (o->beta > 0) {
		double d = (double)r->ref_logprob - logprob, e = exp(d);
		value += o->beta * (e - d - 1);
		*g += o->beta * (1 - e);
	}
	return value;
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
} loss_types[LOSS_TYPE_COUNT] = {
	[LOSS_SFT] = {"sft", value_sft, per_token},
	[LOSS_GRPO] = {"grpo", value_clipped, per_sequence},
	[LOSS_DR_GRPO] = {"dr_grpo", value_clipped, per_constant},
	[LOSS_DAPO] = {"dapo", value_clipped, per_token},
	[LOSS_BNPO] = {"bnpo", value_clipped, per_token},
}; /* bnpo differs from dapo only where a batch is split: dapo counts all of its tokens, bnpo those of a micro-batch;
	  ours is never split */

const char *loss_type_name(enum loss_type t)
{
	CHECK(t >= 0 && t < LOSS_TYPE_COUNT);
	return loss_types[t].name;
}

int loss_type_from_name(const char *name, enum loss_type *out, struct err *err)
{
	for (enum loss_type t = 0; t < LOSS_TYPE_COUNT; t++) {
		if (strcmp(loss_types[t].name, name)) continue;
		*out = t;
		return 0;
	}
	return err_set(err, ERR_USAGE, "loss_type \"%.40s\" is unknown; known are sft, grpo, dr_grpo, dapo, bnpo", name);
}

float loss_row_value(const struct loss_options *o, const struct loss_row *r, float logprob, float *g)
{
	double slope, value = loss_types[o->type].value(o, r, logprob, &slope);
	*g = (float)(slope * r->normaliser);
	return (float)(value * r->normaliser);
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
