/* Rewards of one group to advantages. NaN marks a sample that was dropped (its verdict never came):
 * it gets 0 and counts nowhere.
 *
 *   leave-one-out   r - mean of the others = n / (n - 1) (r - mean): unbiased, the sample's own
 *                   reward is not in its baseline (RLOO, TRLOO)
 *   mean_std        (r - mean) / (s + 1e-4), s with n - 1: TRL's default. Small spreads are blown
 *                   up to the size of large ones
 *   mean            r - mean (Dr. GRPO)
 *   batch           (r - mean) / (s + 1e-4) with s over all rewards of the batch, which is TRL's
 *                   scale_rewards "batch": spreads keep their sizes relative to each other
 *   maxrl           (r - mean) / mean (arXiv 2602.02710): a lone success among K failures weighs
 *                   K - 1, so the sum of gradients is that of the log-probability of success;
 *                   rewards must not be negative
 *   raw             r: no baseline, for rejection sampling (0 / 1 rewards); it needs no second
 *                   sample and no variance, only a reward that is not 0 */
#include "train/train.h"
#include "base/base.h"

#include <math.h>

static const char *const names[ADVANTAGE_TYPE_COUNT] = {[ADVANTAGE_LEAVE_ONE_OUT] = "loo",
	[ADVANTAGE_MEAN_STD] = "mean_std",
	[ADVANTAGE_MEAN] = "mean",
	[ADVANTAGE_BATCH] = "batch",
	[ADVANTAGE_MAXRL] = "maxrl",
	[ADVANTAGE_RAW] = "raw"};

int advantage_type_from_name(const char *name, enum advantage_type *out, struct err *err)
{
	for (enum advantage_type t = 0; t < ADVANTAGE_TYPE_COUNT; t++) {
		if (strcmp(names[t], name)) continue;
		*out = t;
		return 0;
	}
	return err_set(
		err, ERR_USAGE, "advantage \"%.40s\" is unknown; known are loo, mean_std, mean, batch, maxrl, raw", name);
}

static bool raw_advantages(const double *rewards, int K, double *advantages)
{
	bool any = false;
	for (int i = 0; i < K; i++) {
		advantages[i] = isnan(rewards[i]) ? 0 : rewards[i];
		any |= advantages[i] != 0;
	}
	return any;
}

bool group_advantages(enum advantage_type type, const double *rewards, int K, double *advantages)
{
	double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
	int n = 0;
	if (type == ADVANTAGE_RAW) return raw_advantages(rewards, K, advantages);
	/* Samples without a verdict keep 0 and are left out of the mean. */
	for (int i = 0; i < K; i++) {
		advantages[i] = 0;
		if (isnan(rewards[i])) continue;
		sum += rewards[i];
		low = fmin(low, rewards[i]);
		high = fmax(high, rewards[i]);
		n++;
	}
	if (n < 2 || !(low < high))
		return false; /* compared, not subtracted: the mean of equal values need not be equal to them */
	/* The types differ only in what the distance from the mean is multiplied by. The batch's spread
	 * is not known here, so its type is left as it is. */
	double mean = sum / n;
	for (int i = 0; i < K; i++)
		if (!isnan(rewards[i])) squares += (rewards[i] - mean) * (rewards[i] - mean);
	const double factor[ADVANTAGE_TYPE_COUNT] = {[ADVANTAGE_LEAVE_ONE_OUT] = (double)n / (n - 1),
		[ADVANTAGE_MEAN_STD] = 1 / (sqrt(squares / (n - 1)) + 1e-4),
		[ADVANTAGE_MEAN] = 1,
		[ADVANTAGE_BATCH] = 1,
		[ADVANTAGE_MAXRL] = 1 / mean};
	for (int i = 0; i < K; i++)
		if (!isnan(rewards[i])) advantages[i] = factor[type] * (rewards[i] - mean);
	return true;
}

double advantages_batch_scale(const double *rewards, int n)
{
	double sum = 0, squares = 0;
	int count = 0;
	for (int i = 0; i < n; i++) {
		if (isnan(rewards[i])) continue;
		sum += rewards[i];
		count++;
	}
	for (int i = 0; i < n; i++)
		if (!isnan(rewards[i])) squares += (rewards[i] - sum / count) * (rewards[i] - sum / count);
	return 1 / ((count > 1 ? sqrt(squares / (count - 1)) : 0) + 1e-4);
}
