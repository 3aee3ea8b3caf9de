/* What the files of aim share: one search, the elements that it may touch, and the lanes that hunt.
 * aim.c goes through the sides, aim_hunt.c lets lanes of one side hunt for values of their
 * elements, aim_elements.c knows the elements. */
#ifndef HONE_AIM_INTERNAL_H
#define HONE_AIM_INTERNAL_H
#include "runner/aim.h"
#include "runner/launcher.h"
#include "runner/runner.h"
#include "ttir/ttir.h"
#include "vm/vm.h"

#define POINTS_MAX 32
#define HUNTERS_MAX 64

/* How far a pass over one side's lanes goes. */
struct aim_pass {
	int lanes;         /* that search at once; at most HUNTERS_MAX */
	int exponent_low;  /* magnitudes that are tried: 2 to this, */
	int exponent_high; /* up to 2 to this, */
	int exponent_step; /* each so many exponents beyond the last */
	double bound;      /* no element is set beyond it, but where a constant is larger */
};
/* An element that some search may have changed. */
struct touched {
	int buffer;        /* of the tape */
	int64_t offset;    /* bytes from the buffer's start */
	size_t size;       /* bytes of the element */
	enum elem elem;    /* as who hunted with it read it */
	uint64_t original; /* bits, as the trial had them */
	uint64_t kept;     /* what it is when a search fails */
	int aim;           /* whose search found that */
};
/* A lane of the open site, with the one element that it searches the values of. */
struct hunter {
	int lane; /* of the aim's */
	enum elem elem;
	int touched;  /* the element: its index in the search */
	uint64_t low; /* allowed, in order; likewise the next five */
	uint64_t high;
	uint64_t start;
	uint64_t now;
	uint64_t best;
	double start_far; /* how far the lane was from the side at the start */
	double best_far;  /* and with its best */
	int npoints;
	uint64_t points[POINTS_MAX]; /* (npoints) that are tried first, rising */
	double fars[POINTS_MAX];     /* (npoints): how far the lane was with each */
	uint64_t from;               /* bracket of the golden section, and the best inside */
	uint64_t middle;
	uint64_t to;
};
/* The search over all sides of a trial. */
struct search {
	const struct aim_place *at;
	struct launcher_trial how; /* of each replay */
	struct vm_aim *aim;        /* the side that is searched for; NULL between sides */
	double constant;           /* that the site compares with; NaN: none */
	bool is_pole;              /* the site is an operation that gives no finite number there */
	bool has_avoided;          /* a pole was met by this number, and is searched for elsewhere */
	enum elem avoided_elem;
	uint64_t avoided_from; /* in order, with what lies next to it; likewise the next */
	uint64_t avoided_to;
	uint64_t lots;               /* drawn so far */
	const struct aim_pass *pass; /* that it is in */
	int replays;                 /* left */
	bool is_broken;              /* a replay ended with a fault: the search ends */
	int ntouched;
	struct touched touched[RUNNER_PLACED_MAX]; /* (ntouched), in the order in which they were met */
	int nhunters;
	struct hunter hunters[HUNTERS_MAX]; /* (nhunters), each with an element of its own */
};

/* ---- aim_elements.c ---- */

bool aim_is_ordered(enum elem e); /* whether values of that type have an order that is known here */
int aim_width(enum elem e);       /* in bits */
/* Bits as a whole number that rises with the value, and back. */
uint64_t aim_order(enum elem e, uint64_t bits);
uint64_t aim_bits(enum elem e, uint64_t order);
/* The number next to x towards zero that the format has; within its normal range. */
uint64_t aim_order_near(enum elem e, double x);
uint64_t aim_read(const struct search *s, const struct touched *t);
void aim_write(const struct search *s, const struct touched *t, uint64_t bits);
/* Where in s->touched the element at an address of the tape stands; -1:
 * none that may be another. */
int aim_touch(struct search *s, uint64_t address, size_t size);
/* What whole numbers of a buffer are seen to lie between, in order. */
void aim_range(const struct search *s, const struct touched *t, enum elem e, uint64_t *low, uint64_t *high);

/* ---- aim_hunt.c ---- */

uint32_t aim_lot(struct search *s);
/* Runs the rows with the elements as they stand; spends a replay. */
void aim_replay(struct search *s);
bool aim_is_met(const struct search *s); /* some lane of the last replay was on the side */
/* A hunter for what lane number `lane` hangs on; false: its element is none that may hunt. */
bool aim_hunter_make(struct search *s, int lane, const struct vm_aim_lane *at);
/* All hunters at once, until some lane reaches the side; false where none did. */
bool aim_hunt(struct search *s);
/* What each hunter found best stays; whether anything is better than before. */
bool aim_keep_best(struct search *s);
#endif
