/* What the two readers of task sets share: task_set.c (hone's own forms) and task_import.c (other
 * people's). Private to the room. */
#ifndef HONE_TASK_SET_H
#define HONE_TASK_SET_H
#include "base/base.h"
#include "task/task.h"

#define SET_TASKS_MAX ((size_t)2000000)

/* Parses one row (an object) and appends its task. what names the row in errors. */
int task_row_add(struct task_set *set, const json_t *row, const char *what, struct err *err);
/* Whether all names differ; ERR_FORMAT names the one that comes twice. */
int task_names_check(const struct task_set *s, const char *path, struct err *err);
#endif
