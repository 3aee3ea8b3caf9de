/* hone rl: reinforcement learning. Settings are rl's own table; a recipe has the same keys. */
#include "cli/cli.h"
#include "base/base.h"
#include "policy/policy.h"
#include "ranks/ranks.h"
#include "rl/rl.h"

#include <stdlib.h>

static double number(const json_t *m, const char *key) { return json_number_value(json_object_get(m, key)); }

static int print_metrics(void *ctx, int64_t step, const json_t *m)
{
	const struct rl_options *o = ctx;
	char most[24] = ""; /* of a pipeline each stage has its own */
	if (!o->pipeline) snprintf(most, sizeof most, "/%lld", (long long)o->max_steps);
	fprintf(stderr,
		"step %lld%s  reward %.3f  genuine %.3f  loss %.4f  entropy %.3f  length %.0f  no-variance %.2f  gap %.1e  "
		"%.1fs+%.1fs\n",
		(long long)step, most, number(m, "reward"), number(m, "genuine"), number(m, "loss"), number(m, "entropy"),
		number(m, "completions/mean_length"), number(m, "frac_reward_zero_std"),
		number(m, "sampling/trained_logp_difference/mean"), number(m, "timing_s/generate_and_verify"),
		number(m, "timing_s/update"));
	return 0;
}

int cmd_rl(int argc, char **argv)
{
	struct rl_options o;
	struct err err = {0};
	int npos;
	rl_options_default(&o);
	int rc = options_parse("rl", "train by reinforcement learning with verified rewards", rl_option_defs,
		rl_option_count, &o, argc, argv, &npos, &err);
	if (rc == 1) return 0;
	if (!rc && npos > 0) rc = err_set(&err, ERR_USAGE, "unexpected argument \"%s\"", argv[1]);
	if (!rc && o.pipeline) rc = rl_pipeline(&o, print_metrics, &o, &err);
	else if (!rc) rc = o.dry_run ? rl_dry_run(&o, stdout, &err) : rl_run(&o, print_metrics, &o, &err);
	const char *final = policy_is_outside(&o.policy) ? "" : "/final";
	bool is_said = !rc && !o.dry_run && ranks_is_first(&o.ranks);
	if (is_said && o.pipeline) printf("%s/frontend%s\n%s/midend%s\n", o.output_dir, final, o.output_dir, final);
	else if (is_said) printf("%s%s\n", o.output_dir, final);
	return rc ? cli_fail("rl", &err) : 0;
}
