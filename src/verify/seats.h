/* seats: how many candidates are at work at once. There are as many seats as processors that
 * grading may keep busy, and more threads than seats: a thread that waits for a GPU's lock needs no
 * processor, so it leaves its seat to another's candidate. When its wait is over it goes on at
 * once, whether or not a seat is free, since others wait for what it holds by then. */
#ifndef HONE_SEATS_H
#define HONE_SEATS_H
#include <pthread.h>

struct seats {
	pthread_mutex_t lock;
	pthread_cond_t has_free;
	int nfree; /* below 0: so many more are at work than there are seats */
};

void seats_create(struct seats *s, int count);
void seats_destroy(struct seats *s);
void seats_take(struct seats *s);   /* waits for one */
void seats_return(struct seats *s); /* takes one back that was left, without waiting */
void seats_leave(struct seats *s);
#endif
