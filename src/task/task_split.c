/* Splits. What is reported must not have been trained on nor chosen by, in any run, with any seed:
 * so the split of a structure is no setting but a function of its hash, and every reader of rows
 * asks it again. */
#include "task/task.h"
#include "base/base.h"

#include <stdlib.h>

static const char *const names[TASK_SPLIT_COUNT] = {[TASK_TRAIN] = "train", [TASK_DEV] = "dev", [TASK_TEST] = "test"};

const char *task_split_name(enum task_split s) { return names[s]; }

const char *task_cluster(const struct task *t) { return t->structure && *t->structure ? t->structure : t->name; }

static double place_of(const char *structure)
{
	struct sha256_hex h = hash_bytes(structure, strlen(structure));
	return hash_share(&h);
}

enum task_split task_split_of(const char *structure)
{
	double x = place_of(structure);
	return x < TASK_TEST_SHARE ? TASK_TEST : x < TASK_TEST_SHARE + TASK_DEV_SHARE ? TASK_DEV : TASK_TRAIN;
}

static bool is_known(const char *label)
{
	for (int i = 0; i < TASK_SPLIT_COUNT; i++)
		if (!strcmp(label, names[i])) return true;
	return !*label || !strcmp(label, "hand");
}

int task_split_settle(const char *structure, const char *label, const char *what, const char **out, struct err *err)
{
	*out = label;
	if (!is_known(label))
		return err_set(err, ERR_FORMAT, "%s: split \"%.64s\": expected train, dev, test, hand or nothing", what, label);
	if (!*structure) return 0;
	*out = names[task_split_of(structure)];
	if (!*label || !strcmp(label, *out)) return 0;
	return err_set(err, ERR_FORMAT,
		"%s: split \"%s\", but structure \"%.200s\" belongs to %s; leave the split out, or mend the row", what, label,
		structure, *out);
}
