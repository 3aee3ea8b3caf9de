/* Between the files of the rl room: what a run folder remembers beside its checkpoints. */
#ifndef HONE_RL_INTERNAL_H
#define HONE_RL_INTERNAL_H
#include "agent/agent.h"
#include "base/base.h"
#include "model/model.h"
#include "rl/rl.h"
#include "store/store.h"

/* Everything that a step's result depends on: the options but for places, ends, saves
 * and threads; hashes of the weights at the start and of the prompts. New reference. */
json_t *rl_settings_json(
	const struct rl_options *o, struct model *m, struct adapter *a, const struct prompt_set *prompts);
/* A folder with checkpoints must have been written with the same settings (ERR_MISMATCH names
 * option and both values); any other folder gets settings.json. */
int rl_settings_settle(const char *output_dir, json_t *settings, struct err *err);
/* The store is the source; metrics.jsonl is a copy for people, written anew at every
 * start. Fails when the store lacks steps that the checkpoint has behind it. */
int rl_metrics_open(
	const char *output_dir, struct store *s, int64_t run, int64_t last_step, FILE **out, struct err *err);
void rl_metrics_put(FILE *f, const json_t *row);
/* What --dry_run prints. Needs no weights. */
void rl_plan_print(const struct rl_options *o, const struct model_config *c, const struct prompt_set *prompts,
	const struct reward_rule *rule, FILE *out);
#endif
