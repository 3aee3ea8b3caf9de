/* Between the files of the ranks room: the connections of one process. */
#ifndef HONE_RANKS_INTERNAL_H
#define HONE_RANKS_INTERNAL_H
#include "base/base.h"
#include "ranks/ranks.h"

#define RANK_NAME 128 /* bytes of a rank's name: its machine and process */

struct place {      /* what the launcher says */
	int rank;       /* 0 to world - 1 */
	int world;      /* processes in all */
	int local;      /* number among those of this machine */
	bool is_alone;  /* the launcher speaks of no others */
	char host[256]; /* of rank 0 */
	int port;       /* at which it is to listen */
	char job[128];  /* the same for all ranks of a job, another for others */
};
int place_find(const struct ranks_options *o, struct place *out, struct err *err);
/* The first name of a Slurm list of nodes, of each bracket its first number:
 * "rack[2-3]n[07,9-11]-ib,x1" is rack2n07-ib. No more of it than there is room for. */
void first_node(const char *list, char *out, size_t room);

struct peer {
	int fd; /* -1: closed */
	int rank;
	char name[RANK_NAME];
};
struct ranks {
	struct place place;
	char *transport;
	uint64_t timeout_ns;
	struct peer *peers; /* (npeers) rank 0: the others in their order; another: rank 0 alone */
	int npeers;
	uint32_t round;
	bool is_lost;   /* a rank is gone, and all were told */
	bool is_joined; /* values travel by the device's own library */
	struct str in;  /* a message that was received */
};
/* Connects all ranks; r->peers is as above then. */
int peers_connect(struct ranks *r, struct err *err);
#endif
