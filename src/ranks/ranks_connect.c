/* How the ranks of a job find each other: rank 0 listens, the others connect and say who they are.
 * Who says anything else, or nothing, is dropped. */
#include "ranks/ranks_internal.h"
#include "base/base.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HELLO_MAX 4096
#define HELLO_NS 3000000000u  /* within which a stranger has to say who it is */
#define NAP_MS 50             /* between tries to reach rank 0 */
#define SAY_NS 10000000000u   /* after which it is said who is waited for */

/* ---- sockets ---- */

/* A machine that falls silent is noticed by the kernel within a minute: probes while nothing is
 * sent, a limit on what is not acknowledged else. */
static void socket_prepare(int fd)
{
	static const struct {
		int level;
		int name;
		int value;
	} options[] = {{IPPROTO_TCP, TCP_NODELAY, 1}, {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 20},
		{IPPROTO_TCP, TCP_KEEPINTVL, 10}, {IPPROTO_TCP, TCP_KEEPCNT, 4}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 60000}};
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static int addresses_of(const struct place *p, bool listens, struct addrinfo **out, struct err *err)
{
	char port[16];
	struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	snprintf(port, sizeof port, "%d", p->port);
	int rc = getaddrinfo(p->host, port, &hints, out);
	if (rc && listens) {
		/* Rank 0 need not know its own name. */
		hints.ai_flags |= AI_PASSIVE;
		rc = getaddrinfo(NULL, port, &hints, out);
	}
	return rc ? err_set(err, ERR_NOT_FOUND, "the machine of rank 0, \"%s\", is not known here: %s; check MASTER_ADDR",
					p->host, gai_strerror(rc))
			  : 0;
}

/* A socket that listens at the first address that is this machine's. */
static int listen_at(const struct place *p, int *out, struct err *err)
{
	struct addrinfo *list = NULL;
	int rc = addresses_of(p, true, &list, err), fd = -1, e = 0, one = 1;
	if (rc) return rc;
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
		if (fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 64)) break;
		e = errno;
		if (fd >= 0) close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	*out = fd;
	if (fd >= 0) return 0;
	return err_set(err, ERR_IO,
		"rank 0 cannot listen at %s, port %d: %s; name a free port with --ranks_port on all ranks", p->host, p->port,
		strerror(e));
}

/* -1: nobody is there yet. */
static int connect_to(const struct place *p, struct err *err)
{
	struct addrinfo *list = NULL;
	if (addresses_of(p, false, &list, err)) return -1;
	int fd = -1;
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen)) break;
		err_set(err, ERR_IO, "%s, port %d: %s", p->host, p->port, strerror(errno));
		if (fd >= 0) close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	return fd;
}

/* ---- who is there ---- */

static void own_name(char name[RANK_NAME])
{
	char host[64] = "";
	gethostname(host, sizeof host - 1);
	snprintf(name, RANK_NAME, "%s, process %d", host, (int)getpid());
}

static int hello_send(int fd, const struct place *p, const char *refusal, struct err *err)
{
	char name[RANK_NAME];
	own_name(name);
	json_t *j = json_pack("{s:s, s:i, s:i, s:s, s:s, s:s?}", "program", "hone", "rank", p->rank, "ranks", p->world,
		"job", p->job, "name", name, "refusal", refusal);
	char *text = json_dumps(j, JSON_COMPACT);
	int rc = msg_send(fd, text, strlen(text), NULL, 0, clock_ns() + HELLO_NS, err);
	free(text);
	json_decref(j);
	return rc;
}

struct hello {
	int64_t rank;
	int64_t world; /* processes in all */
	char job[128];
	char name[RANK_NAME]; /* host and process, for messages */
	char refusal[512];    /* why the other side does not go on; "": it does */
};

static int hello_read(int fd, struct hello *out, struct err *err)
{
	struct str text = {0};
	json_t *j = NULL;
	const char *job = "", *name = "", *refusal = "";
	*out = (struct hello){0};
	int rc = msg_recv(fd, HELLO_MAX, &text, NULL, NULL, clock_ns() + HELLO_NS, err);
	if (!rc) rc = json_parse(text.data, text.len, "a greeting", &j, err);
	if (!rc) rc = json_get_int(j, "a greeting", "rank", 0, RANKS_MAX, &out->rank, err);
	if (!rc) rc = json_get_int(j, "a greeting", "ranks", 1, RANKS_MAX, &out->world, err);
	if (!rc) rc = json_get_str(j, "a greeting", "job", &job, err);
	if (!rc) rc = json_get_str(j, "a greeting", "name", &name, err);
	if (!rc) rc = json_opt_str(j, "a greeting", "refusal", &refusal, err);
	if (!rc) {
		snprintf(out->job, sizeof out->job, "%s", job);
		snprintf(out->name, sizeof out->name, "%s", name);
		snprintf(out->refusal, sizeof out->refusal, "%s", refusal);
		text_make_printable(out->name);
		text_make_printable(out->refusal);
	}
	json_decref(j);
	str_release(&text);
	return rc;
}

/* ---- rank 0 ---- */

/* Takes one connection in, or drops it. What is said of another job's ranks
 * is said to them alone. */
static int guest_take(struct ranks *r, int fd, struct err *err)
{
	struct hello h;
	struct err strange = {0};
	const struct place *p = &r->place;
	char refusal[400] = "";
	socket_prepare(fd);
	/* Who does not speak the form is no rank: a scanner of ports must not end a job. */
	if (hello_read(fd, &h, &strange)) {
		log_warn("a stranger at port %d was dropped: %s", p->port, strange.text);
		close(fd);
		return 0;
	}
	/* A rank of another job is sent away and this one waits on; one of this job that
	 * cannot be right ends it. */
	bool is_known = h.rank >= 1 && h.rank < p->world, is_ours = !strcmp(h.job, p->job);
	if (!is_ours)
		snprintf(refusal, sizeof refusal, "another job listens at %s, port %d; name another port with --ranks_port",
			p->host, p->port);
	else if (h.world != p->world || !is_known || r->peers[h.rank - 1].fd >= 0)
		snprintf(refusal, sizeof refusal, "rank 0 was started with %d ranks; rank %lld of %lld (%s) is %s", p->world,
			(long long)h.rank, (long long)h.world, h.name,
			h.world != p->world ? "of a job of another size"
				: is_known      ? "there already"
								: "none that it waits for");
	int rc = hello_send(fd, p, *refusal ? refusal : NULL, &strange);
	if (!*refusal && !rc) {
		r->peers[h.rank - 1].fd = fd;
		memcpy(r->peers[h.rank - 1].name, h.name, sizeof h.name);
		return 0;
	}
	close(fd);
	return *refusal && is_ours ? err_set(err, ERR_MISMATCH, "%s", refusal) : 0;
}

static int missing_count(const struct ranks *r, char *names, size_t room)
{
	int n = 0;
	size_t at = 0;
	*names = 0;
	for (int i = 0; i < r->npeers; i++)
		if (r->peers[i].fd < 0 && ++n <= 8)
			at += (size_t)snprintf(names + at, room - at, "%s%d", n > 1 ? ", " : "", i + 1);
	return n;
}

static int guests_await(struct ranks *r, struct err *err)
{
	int listener = -1, rc = listen_at(&r->place, &listener, err);
	uint64_t begin = clock_ns();
	bool is_said = false;
	char names[128];
	while (!rc && missing_count(r, names, sizeof names)) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		uint64_t waited = clock_ns() - begin;
		if (waited > r->timeout_ns)
			rc = err_set(err, ERR_TIMEOUT, "rank 0 waited %.0f s at %s, port %d, and rank %s of %d did not come",
				1e-9 * (double)waited, r->place.host, r->place.port, names, r->place.world);
		if (!is_said && waited > SAY_NS) {
			log_info("rank 0 waits at %s, port %d, for rank %s", r->place.host, r->place.port, names);
			is_said = true;
		}
		if (rc || poll(&p, 1, 200) <= 0) continue;
		/* Who cannot be taken in for want of a descriptor would stand at the door for ever. */
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0) rc = guest_take(r, fd, err);
		else if (errno == EMFILE || errno == ENFILE)
			rc = err_set(err, ERR_IO,
				"rank 0 can take nobody in at %s, port %d: %s; allow more open files, of which each rank needs one "
				"(ulimit -n)",
				r->place.host, r->place.port, strerror(errno));
	}
	if (listener >= 0) close(listener);
	return rc;
}

/* ---- the others ---- */

static int host_reach(struct ranks *r, struct err *err)
{
	struct hello h;
	struct err why = {0};
	const struct place *p = &r->place;
	uint64_t begin = clock_ns();
	bool is_said = false;
	for (;; sleep_ms(NAP_MS)) {
		uint64_t waited = clock_ns() - begin;
		if (waited > r->timeout_ns)
			return err_set(err, ERR_TIMEOUT, "rank %d waited %.0f s for rank 0 at %s, port %d: %s", p->rank,
				1e-9 * (double)waited, p->host, p->port, why.text);
		if (!is_said && waited > SAY_NS) {
			log_info("rank %d looks for rank 0 at %s, port %d (%s)", p->rank, p->host, p->port, why.text);
			is_said = true;
		}
		/* Rank 0 may come up later than this one, so all but its refusal is tried again. */
		int fd = connect_to(p, &why);
		if (fd < 0) continue;
		socket_prepare(fd);
		if (hello_send(fd, p, NULL, &why) || hello_read(fd, &h, &why)) {
			close(fd);
			continue;
		}
		if (*h.refusal) {
			close(fd);
			return err_set(
				err, ERR_MISMATCH, "rank %d was refused at %s, port %d: %s", p->rank, p->host, p->port, h.refusal);
		}
		r->peers[0].fd = fd;
		memcpy(r->peers[0].name, h.name, sizeof h.name);
		return 0;
	}
}

int peers_connect(struct ranks *r, struct err *err)
{
	bool is_first = r->place.rank == 0;
	r->npeers = is_first ? r->place.world - 1 : 1;
	r->peers = xcalloc((size_t)r->npeers, sizeof *r->peers);
	for (int i = 0; i < r->npeers; i++) r->peers[i] = (struct peer){.fd = -1, .rank = is_first ? i + 1 : 0};
	return is_first ? guests_await(r, err) : host_reach(r, err);
}
