/* Rounds over a star of connections: the others send to rank 0, and rank 0 sends to all. A
 * message is its kind and the number of its round, and then what it carries; who is at
 * another round says so by it. */
#include "ranks/ranks_internal.h"
#include "base/base.h"
#include "ops/ops.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define MESSAGE_MAX ((size_t)1 << 30)
#define GONE_MAX 900 /* bytes of a last word */
#define GONE_NS 2000000000u
#define SUM_VALUES (1 << 20) /* of a message of ranks_sum */
#define SLOW_BYTE_NS 100 /* of a device's values on their way, 10 MB/s */
#define BROADCAST_PIECE ((size_t)32 << 20) /* bytes of one of ranks_broadcast */

enum kind { KIND_DATA, KIND_GONE };
struct head {
	char magic[4];
	uint32_t kind;  /* enum kind */
	uint32_t round; /* number of the collective call that it belongs to: both sides must agree */
};
static const char magic[4] = {'R', 'N', 'K', '1'};

int ranks_rank(const struct ranks *r) { return r ? r->place.rank : 0; }
int ranks_count(const struct ranks *r) { return r ? r->place.world : 1; }

void ranks_share(const struct ranks *r, int64_t n, int64_t *begin, int64_t *end)
{
	int64_t rank = ranks_rank(r), world = ranks_count(r);
	*begin = n * rank / world;
	*end = n * (rank + 1) / world;
}

char *ranks_device(const struct ranks *r, const char *device)
{
	/* A launcher that shows each process its own GPU alone gives all of them the number 0. */
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	bool is_shown_one = visible && *visible && !strchr(visible, ',');
	if (!r || strcmp(device, "cuda") || is_shown_one) return xstrdup(device);
	return xasprintf("cuda:%d", r->place.local);
}

/* ---- the end of a job ---- */

static void peer_drop(struct peer *p)
{
	if (p->fd >= 0) close(p->fd);
	p->fd = -1;
}

static int message_send(
	struct ranks *r, struct peer *p, enum kind kind, const void *data, size_t len, uint64_t deadline, struct err *err)
{
	struct head h = {.kind = kind, .round = r->round};
	memcpy(h.magic, magic, sizeof magic);
	int rc = msg_send(p->fd, &h, sizeof h, NULL, 0, deadline, err);
	return rc ? rc : msg_send(p->fd, data, len, NULL, 0, deadline, err);
}

/* A rank's last word to all whom it can reach. Whose messages were cut by what happened is told by
 * the closed connection. */
static void gone_tell(struct ranks *r, const char *text)
{
	struct err unheard = {0};
	for (int i = 0; i < r->npeers; i++)
		if (r->peers[i].fd >= 0)
			message_send(r, &r->peers[i], KIND_GONE, text, strnlen(text, GONE_MAX), clock_ns() + GONE_NS, &unheard);
	for (int i = 0; i < r->npeers; i++) peer_drop(&r->peers[i]);
	r->is_lost = true;
}

static const char advice[] = "the job ends here. Checkpoints that were saved are whole: start all ranks again and "
							 "they go on after the newest one";

/* A peer is gone: the others hear of it, and the caller. */
static int lost(struct ranks *r, struct peer *p, int code, const char *why, struct err *err)
{
	char name[RANK_NAME];
	snprintf(name, sizeof name, "%s", p->name);
	peer_drop(p);
	err_set(err, code, "rank %d of %d (%s) %s; %s", p->rank, r->place.world, name, why, advice);
	gone_tell(r, err->text);
	return code;
}

/* What a peer said last: of itself, or of a third one. */
static int heard(struct ranks *r, struct peer *p, struct err *err)
{
	if (r->in.len > GONE_MAX) r->in.len = GONE_MAX;
	r->in.data[r->in.len] = 0;
	text_make_printable(r->in.data);
	err_set(err, ERR_CHILD, "%s", r->in.data);
	peer_drop(p);
	gone_tell(r, err->text);
	return ERR_CHILD;
}

void ranks_close(struct ranks *r, const struct err *why)
{
	if (!r) return;
	char name[64] = "", text[GONE_MAX];
	gethostname(name, sizeof name - 1);
	snprintf(text, sizeof text, "rank %d of %d (%s, process %d) ended with an error: %.500s; %s", r->place.rank,
		r->place.world, name, (int)getpid(), why ? why->text : "", advice);
	if (why && why->code && !r->is_lost) gone_tell(r, text);
	for (int i = 0; i < r->npeers; i++) peer_drop(&r->peers[i]);
	free(r->peers);
	free(r->transport);
	str_release(&r->in);
	free(r);
}

int ranks_open(const struct ranks_options *o, struct ranks **out, struct err *err)
{
	struct place place;
	*out = NULL;
	int rc = place_find(o, &place, err);
	if (rc || place.is_alone) return rc;
	struct ranks *r = xcalloc(1, sizeof *r);
	*r = (struct ranks){
		.place = place, .transport = xstrdup(o->transport), .timeout_ns = (uint64_t)(o->timeout_s * 1e9)};
	rc = peers_connect(r, err);
	if (rc) ranks_close(r, err);
	else *out = r;
	return rc;
}

/* ---- messages ---- */

static int is_usable(const struct ranks *r, struct err *err)
{
	return r->is_lost ? err_set(err, ERR_CHILD, "the job of %d ranks has ended", r->place.world) : 0;
}

static int peer_send(struct ranks *r, struct peer *p, const void *data, size_t len, struct err *err)
{
	struct err why = {0};
	int rc = message_send(r, p, KIND_DATA, data, len, clock_ns() + r->timeout_ns, &why);
	if (!rc) return 0;
	/* It may have said why it leaves before its end of the connection closed. */
	struct head h;
	if (!msg_recv(p->fd, sizeof h, &r->in, NULL, NULL, clock_ns() + 1, &why) && r->in.len == sizeof h) {
		memcpy(&h, r->in.data, sizeof h);
		if (h.kind == KIND_GONE && !msg_recv(p->fd, MESSAGE_MAX, &r->in, NULL, NULL, clock_ns() + GONE_NS, &why))
			return heard(r, p, err);
	}
	if (rc == ERR_TIMEOUT) return lost(r, p, rc, "took nothing for as long as --ranks_timeout allows", err);
	return lost(r, p, ERR_CHILD, "is gone: its connection closed", err);
}

/* What peer sends next into r->in. */
static int peer_take(struct ranks *r, struct peer *p, struct err *err)
{
	struct err why = {0};
	struct head h;
	/* Rank 0 may be waiting for a third one, and is to say so before it is given up itself. */
	uint64_t deadline = clock_ns() + r->timeout_ns + (r->place.rank ? 60000000000u : 0);
	int rc = msg_recv(p->fd, sizeof h, &r->in, NULL, NULL, deadline, &why);
	if (!rc && r->in.len == sizeof h) memcpy(&h, r->in.data, sizeof h);
	else if (!rc) rc = ERR_FORMAT;
	if (!rc && (memcmp(h.magic, magic, sizeof magic) || h.kind > KIND_GONE)) rc = ERR_FORMAT;
	if (!rc) rc = msg_recv(p->fd, MESSAGE_MAX, &r->in, NULL, NULL, deadline, &why);
	if (!rc && h.kind == KIND_GONE) return heard(r, p, err);
	if (!rc && h.round == r->round) return 0;
	if (!rc || rc == ERR_FORMAT || rc == ERR_LIMIT)
		return lost(r, p, ERR_MISMATCH, "is at another point of the work than this one", err);
	if (rc == ERR_TIMEOUT) return lost(r, p, rc, "has said nothing for as long as --ranks_timeout allows", err);
	return lost(r, p, ERR_CHILD, "is gone: its connection closed", err);
}

/* Waits for whoever of those that are awaited says something first; the others' ends
 * are noticed meanwhile. */
static int peer_await(struct ranks *r, const bool *awaited, struct peer **out, struct err *err)
{
	uint64_t deadline = clock_ns() + r->timeout_ns;
	struct pollfd *fds = xcalloc((size_t)r->npeers, sizeof *fds);
	int first = -1;
	*out = NULL;
	for (int i = 0; i < r->npeers; i++) {
		fds[i] = (struct pollfd){.fd = awaited[i] ? r->peers[i].fd : -1, .events = POLLIN | POLLRDHUP};
		if (awaited[i] && first < 0) first = i;
	}
	while (!*out && clock_ns() < deadline) {
		if (poll(fds, (nfds_t)r->npeers, 1000) < 0 && errno != EINTR) break;
		for (int i = 0; i < r->npeers && !*out; i++)
			if (fds[i].fd >= 0 && fds[i].revents) *out = &r->peers[i];
	}
	free(fds);
	if (*out) return 0;
	return lost(r, &r->peers[first], ERR_TIMEOUT, "has said nothing for as long as --ranks_timeout allows", err);
}

int ranks_watch(struct ranks *r, struct err *err)
{
	int rc = r ? is_usable(r, err) : 0;
	for (int i = 0; r && !rc && i < r->npeers; i++) {
		struct pollfd p = {.fd = r->peers[i].fd, .events = POLLIN | POLLRDHUP};
		if (poll(&p, 1, 0) <= 0) continue;
		/* Data alone is a rank that is ahead. The first bytes of what lies there tell
		 * its last word from data. */
		char bytes[4 + sizeof(struct head)];
		struct head h = {0};
		ssize_t n = recv(p.fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
		if (n == (ssize_t)sizeof bytes) memcpy(&h, bytes + 4, sizeof h);
		bool is_word = h.kind == KIND_GONE, is_end = (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) || n == 0;
		if (is_word) rc = peer_take(r, &r->peers[i], err);
		else if (is_end) rc = lost(r, &r->peers[i], ERR_CHILD, "is gone: its connection closed", err);
	}
	return rc;
}

/* ---- rounds ---- */

/* Another rank's half of a broadcast: how much there is, then its pieces. */
static int broadcast_take(struct ranks *r, struct str *bytes, struct err *err)
{
	uint64_t total = 0;
	int rc = peer_take(r, &r->peers[0], err);
	if (!rc && r->in.len == sizeof total) memcpy(&total, r->in.data, sizeof total);
	else if (!rc) rc = lost(r, &r->peers[0], ERR_MISMATCH, "does not say how much it sends", err);
	str_clear(bytes);
	if (!rc && !total) str_append(bytes, "", 0);
	while (!rc && bytes->len < total) {
		rc = peer_take(r, &r->peers[0], err);
		if (!rc && (!r->in.len || r->in.len > total - bytes->len))
			rc = lost(r, &r->peers[0], ERR_MISMATCH, "sends another amount than it said", err);
		if (!rc) str_append(bytes, r->in.data, r->in.len);
	}
	return rc;
}

int ranks_broadcast(struct ranks *r, struct str *bytes, struct err *err)
{
	if (!r) return 0;
	int rc = is_usable(r, err);
	if (!rc && r->place.rank) rc = broadcast_take(r, bytes, err);
	/* In pieces, since a message has an end, and the values of a large matrix lie behind it. */
	uint64_t total = bytes->len;
	bool is_first = r->place.rank == 0;
	for (int i = 0; !rc && is_first && i < r->npeers; i++) rc = peer_send(r, &r->peers[i], &total, sizeof total, err);
	for (uint64_t at = 0; !rc && is_first && at < total; at += BROADCAST_PIECE)
		for (int i = 0; !rc && i < r->npeers; i++)
			rc = peer_send(r, &r->peers[i], bytes->data + at, MIN(BROADCAST_PIECE, total - at), err);
	r->round++;
	return rc;
}

/* Rank 0: what every other rank sends, each into its place. */
static int collect(struct ranks *r, struct str *all, struct err *err)
{
	bool *awaited = xcalloc((size_t)r->npeers, sizeof *awaited);
	int rc = 0;
	for (int i = 0; i < r->npeers; i++) awaited[i] = true;
	for (int left = r->npeers; !rc && left > 0; left--) {
		struct peer *p;
		rc = peer_await(r, awaited, &p, err);
		if (!rc) rc = peer_take(r, p, err);
		if (rc) break;
		awaited[p - r->peers] = false;
		str_clear(&all[p->rank]);
		str_append(&all[p->rank], r->in.data, r->in.len);
	}
	free(awaited);
	return rc;
}

int ranks_gather(struct ranks *r, const void *mine, size_t len, struct str *all, struct err *err)
{
	int world = ranks_count(r), rank = ranks_rank(r), rc = r ? is_usable(r, err) : 0;
	str_clear(&all[rank]);
	str_append(&all[rank], mine, len);
	if (!r || rc) return rc;
	/* All to rank 0, which has the whole then and sends everybody the parts of the others. */
	if (rank == 0) rc = collect(r, all, err);
	else rc = peer_send(r, &r->peers[0], mine, len, err);
	for (int i = 0; !rc && rank == 0 && i < r->npeers; i++)
		for (int k = 0; !rc && k < world; k++)
			if (k != r->peers[i].rank) rc = peer_send(r, &r->peers[i], all[k].data ? all[k].data : "", all[k].len, err);
	for (int k = 0; !rc && rank && k < world; k++) {
		if (k == rank) continue;
		rc = peer_take(r, &r->peers[0], err);
		if (rc) break;
		str_clear(&all[k]);
		str_append(&all[k], r->in.data, r->in.len);
	}
	r->round++;
	return rc;
}

static struct str *parts_make(const struct ranks *r) { return xcalloc((size_t)ranks_count(r), sizeof(struct str)); }

static void parts_free(const struct ranks *r, struct str *all)
{
	for (int i = 0; i < ranks_count(r); i++) str_release(&all[i]);
	free(all);
}

int ranks_add(struct ranks *r, double *values, int n, struct err *err)
{
	if (!r) return 0;
	struct str *all = parts_make(r);
	size_t bytes = (size_t)n * sizeof *values;
	int rc = ranks_gather(r, values, bytes, all, err);
	for (int k = 0; !rc && k < ranks_count(r); k++)
		if (all[k].len != bytes)
			rc = err_set(err, ERR_MISMATCH, "rank %d adds %zu bytes, expected %zu", k, all[k].len, bytes);
	for (int i = 0; !rc && i < n; i++) {
		double sum = 0, part;
		for (int k = 0; k < ranks_count(r); k++) {
			memcpy(&part, all[k].data + (size_t)i * sizeof part, sizeof part);
			sum = k ? sum + part : part;
		}
		values[i] = sum;
	}
	parts_free(r, all);
	return rc;
}

int ranks_meet(struct ranks *r, struct err *err)
{
	double nothing = 0;
	return ranks_add(r, &nothing, 1, err);
}

int ranks_agree(struct ranks *r, const char *what, const char *text, struct err *err)
{
	if (!r) return 0;
	struct str *all = parts_make(r);
	int rc = ranks_gather(r, text, strlen(text), all, err);
	for (int k = 1; !rc && k < r->place.world; k++) {
		size_t at = 0, most = MIN(all[0].len, all[k].len);
		if (all[0].len == all[k].len && !memcmp(all[0].data, all[k].data, most)) continue;
		/* A little of what comes before the first difference tells where it is. */
		while (at < most && all[0].data[at] == all[k].data[at]) at++;
		size_t from = at > 40 ? at - 40 : 0;
		char first[121], other[121];
		snprintf(first, sizeof first, "%.120s", all[0].data + from);
		snprintf(other, sizeof other, "%.120s", all[k].data + from);
		text_make_printable(first);
		text_make_printable(other);
		rc = err_set(err, ERR_MISMATCH,
			"%s of rank %d and of rank 0 are not the same: \"%s\" beside \"%s\"; start all ranks with the same "
			"options, files and program",
			what, k, other, first);
	}
	parts_free(r, all);
	return rc;
}

/* ---- values of a device ---- */

const char *ranks_way(const struct ranks *r) { return r && r->is_joined ? "nccl" : "tcp"; }

struct watch { /* over ranks that wait for one another on their devices */
	struct ranks *r;
	const char *what;     /* is waited for */
	uint64_t begin;       /* in clock_ns */
	uint64_t patience_ns; /* for all of it */
};

/* Whether a rank is gone; one that is there and does not come on ends the job after
 * --ranks_timeout, as it does everywhere else. */
static bool is_broken(void *ctx, struct err *err)
{
	const struct watch *w = ctx;
	uint64_t waited = clock_ns() - w->begin;
	if (ranks_watch(w->r, err)) return true;
	if (waited < w->patience_ns) return false;
	err_set(err, ERR_TIMEOUT,
		"rank %d of %d waited %.0f s for %s, as long as --ranks_timeout allows, and all ranks are still connected; "
		"NCCL_DEBUG=INFO says who does not answer, --ranks_transport tcp does without NCCL; %s",
		w->r->place.rank, w->r->place.world, 1e-9 * (double)waited, w->what, advice);
	gone_tell(w->r, err->text);
	return true;
}

int ranks_join(struct ranks *r, struct ops *ops, struct err *err)
{
	char id[OPS_RANKS_ID] = {0};
	struct err absent = {0};
	if (!r) return 0;
	bool wants = strcmp(r->transport, "tcp") != 0, must = !strcmp(r->transport, "nccl");
	if (must && !ops->ranks_join)
		return err_set(err, ERR_UNSUPPORTED,
			"--ranks_transport nccl: device %s has no library of that kind; leave it out, or take tcp", ops->name);
	/* The library has to be there on every rank before the first one waits
	 * inside it for the others. */
	if (wants && ops->ranks_join) ops->ranks_id(ops->ctx, r->place.rank ? NULL : id, &absent);
	double missing = wants && ops->ranks_join ? absent.code != 0 : 1;
	int rc = ranks_add(r, &missing, 1, err);
	if (!rc && absent.code) {
		*err = absent;
		return absent.code;
	}
	if (rc || missing > 0) return rc;
	struct str bytes = {0};
	str_append(&bytes, id, sizeof id);
	rc = ranks_broadcast(r, &bytes, err);
	if (!rc && bytes.len != sizeof id)
		rc = err_set(err, ERR_MISMATCH, "rank 0 sends a group's id of %zu bytes, expected %zu; is it the same program?",
			bytes.len, sizeof id);
	struct watch watch = {r, "all to join their devices", clock_ns(), r->timeout_ns};
	if (!rc) rc = ops->ranks_join(ops->ctx, bytes.data, r->place.rank, r->place.world, is_broken, &watch, err);
	str_release(&bytes);
	r->is_joined = !rc;
	return rc;
}

/* Rank 0 has its own values in sum, adds those of the others in their order, and
 * sends the result to all. */
static int sum_at_first(struct ranks *r, float *sum, int64_t n, struct err *err)
{
	size_t bytes = (size_t)n * sizeof *sum;
	int rc = 0;
	for (int i = 0; !rc && i < r->npeers; i++) {
		bool *awaited = xcalloc((size_t)r->npeers, sizeof *awaited);
		struct peer *p;
		awaited[i] = true;
		rc = peer_await(r, awaited, &p, err);
		free(awaited);
		if (!rc) rc = peer_take(r, &r->peers[i], err);
		if (!rc && r->in.len != bytes)
			rc = lost(r, &r->peers[i], ERR_MISMATCH, "sends another number of values than this one", err);
		for (int64_t k = 0; !rc && k < n; k++) {
			float part;
			memcpy(&part, r->in.data + (size_t)k * sizeof part, sizeof part);
			sum[k] += part;
		}
	}
	for (int i = 0; !rc && i < r->npeers; i++) rc = peer_send(r, &r->peers[i], sum, bytes, err);
	return rc;
}

static int sum_at_others(struct ranks *r, float *sum, int64_t n, struct err *err)
{
	size_t bytes = (size_t)n * sizeof *sum;
	int rc = peer_send(r, &r->peers[0], sum, bytes, err);
	if (!rc) rc = peer_take(r, &r->peers[0], err);
	if (!rc && r->in.len != bytes)
		rc = lost(r, &r->peers[0], ERR_MISMATCH, "sends another number of values than this one", err);
	if (!rc) memcpy(sum, r->in.data, bytes);
	return rc;
}

int ranks_sum(struct ranks *r, struct ops *ops, struct f32 *values, int64_t n, struct err *err)
{
	if (!r) return 0;
	int rc = is_usable(r, err);
	if (rc) return rc;
	if (r->is_joined) {
		/* Ranks come here at different times; nobody waits on its device for one that is gone. */
		rc = ranks_meet(r, err);
		/* A slow network is no rank that hangs: the values' own time comes on top. */
		uint64_t travel_ns = (uint64_t)n * sizeof(float) * (uint64_t)r->place.world * SLOW_BYTE_NS;
		struct watch watch = {r, "a sum over the devices", clock_ns(), r->timeout_ns + travel_ns};
		return rc ? rc : ops->ranks_sum(ops->ctx, values, n, is_broken, &watch, err);
	}
	float *host = xmalloc((size_t)MIN(n, SUM_VALUES) * sizeof *host);
	for (int64_t at = 0; !rc && at < n; at += SUM_VALUES, r->round++) {
		int64_t count = MIN(n - at, SUM_VALUES);
		struct f32 *part = (struct f32 *)((uintptr_t)values + (uintptr_t)at * sizeof(float));
		ops->get_f32(ops->ctx, host, part, count);
		rc = r->place.rank ? sum_at_others(r, host, count, err) : sum_at_first(r, host, count, err);
		if (!rc) ops->put_f32(ops->ctx, part, host, count);
	}
	free(host);
	return rc;
}
