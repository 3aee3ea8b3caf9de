/* Who this process is, from the variables of torchrun or Slurm. */
#include "ranks/ranks_internal.h"
#include "base/base.h"

#include <stdlib.h>

#define PORT_FIRST 20000 /* of those made from a Slurm job's number */
#define PORT_COUNT 20000

static int number_of(const char *name, int64_t least, int64_t most, int *out, struct err *err)
{
	const char *text = getenv(name);
	char *end = NULL;
	long long n = text ? strtoll(text, &end, 10) : 0;
	if (!text || end == text || *end || n < least || n > most)
		return err_set(err, ERR_USAGE, "%s=%.60s: expected a number of %lld to %lld, as torchrun or srun sets it", name,
			text ? text : "", (long long)least, (long long)most);
	*out = (int)n;
	return 0;
}

void first_node(const char *list, char *out, size_t room)
{
	size_t n = 0;
	for (const char *c = list; *c && *c != ','; c++) {
		size_t len = *c == '[' ? strcspn(c + 1, "-,]") : 1;
		const char *from = *c == '[' ? c + 1 : c;
		if (n + len >= room) break;
		memcpy(out + n, from, len);
		n += len;
		if (*c == '[') c += strcspn(c, "]");
		if (!*c) break; /* a bracket that does not end */
	}
	out[n] = 0;
}

static int torchrun_place(struct place *p, int64_t port, struct err *err)
{
	int master = 0, rc = number_of("WORLD_SIZE", 1, RANKS_MAX, &p->world, err);
	p->is_alone = p->world == 1;
	if (rc || p->is_alone) return rc;
	rc = number_of("RANK", 0, p->world - 1, &p->rank, err);
	p->local = p->rank;
	if (!rc && getenv("LOCAL_RANK")) rc = number_of("LOCAL_RANK", 0, RANKS_MAX, &p->local, err);
	/* The launcher itself listens at MASTER_PORT. */
	if (!rc && (!port || getenv("MASTER_PORT"))) rc = number_of("MASTER_PORT", 1, 65534, &master, err);
	p->port = port ? (int)port : master + 1;
	const char *host = getenv("MASTER_ADDR"), *run = getenv("TORCHELASTIC_RUN_ID");
	if (!rc && (!host || !*host))
		rc = err_set(err, ERR_USAGE,
			"WORLD_SIZE is %d and MASTER_ADDR is not set: expected the machine of rank 0, as torchrun sets it",
			p->world);
	if (rc) return rc;
	snprintf(p->host, sizeof p->host, "%s", host);
	snprintf(p->job, sizeof p->job, "%.60s %d", run ? run : "", master);
	return 0;
}

static int slurm_place(struct place *p, int64_t port, struct err *err)
{
	int job = 0, step = 0, rc = number_of("SLURM_STEP_NUM_TASKS", 1, RANKS_MAX, &p->world, err);
	p->is_alone = p->world == 1;
	if (rc || p->is_alone) return rc;
	rc = number_of("SLURM_PROCID", 0, p->world - 1, &p->rank, err);
	if (!rc) rc = number_of("SLURM_LOCALID", 0, RANKS_MAX, &p->local, err);
	if (!rc) rc = number_of("SLURM_JOB_ID", 0, INT32_MAX, &job, err);
	if (!rc) rc = number_of("SLURM_STEP_ID", 0, INT32_MAX, &step, err);
	/* Task 0 of a step runs on its first node, unless the user says where it is. */
	const char *named = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");
	if (!rc && !named && !nodes)
		rc = err_set(err, ERR_USAGE,
			"SLURM_STEP_NODELIST is not set: start the ranks with srun, or name the machine of rank 0 in MASTER_ADDR");
	if (rc) return rc;
	if (named) snprintf(p->host, sizeof p->host, "%s", named);
	else first_node(nodes, p->host, sizeof p->host);
	p->port = port ? (int)port : PORT_FIRST + (int)(((int64_t)job * 7 + step) % PORT_COUNT);
	snprintf(p->job, sizeof p->job, "slurm %d.%d", job, step);
	return 0;
}

int place_find(const struct ranks_options *o, struct place *out, struct err *err)
{
	/* SLURM_STEP_ID stands in the tasks of srun alone, not in the script around them. WORLD_SIZE is
	 * torchrun's, unless such a script sets it for all its tasks: torchrun gives a RANK too. */
	bool is_task = getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID");
	*out = (struct place){.world = 1, .is_alone = true};
	if (getenv("WORLD_SIZE") && (getenv("RANK") || !is_task)) return torchrun_place(out, o->port, err);
	return is_task ? slurm_place(out, o->port, err) : 0;
}

int ranks_planned(const struct ranks_options *o)
{
	struct place p;
	struct err said; /* as below */
	return place_find(o, &p, &said) ? 1 : p.world;
}

bool ranks_is_first(const struct ranks_options *o)
{
	struct place p;
	struct err said; /* where they are meant to be used */
	return place_find(o, &p, &said) || p.rank == 0;
}
