/* seats: a semaphore that may be overdrawn by those who come back. */
#include "verify/seats.h"

void seats_create(struct seats *s, int count)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->has_free, NULL);
	s->nfree = count;
}

void seats_destroy(struct seats *s)
{
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->has_free);
}

void seats_take(struct seats *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->nfree <= 0) pthread_cond_wait(&s->has_free, &s->lock);
	s->nfree--;
	pthread_mutex_unlock(&s->lock);
}

void seats_return(struct seats *s)
{
	pthread_mutex_lock(&s->lock);
	s->nfree--;
	pthread_mutex_unlock(&s->lock);
}

void seats_leave(struct seats *s)
{
	pthread_mutex_lock(&s->lock);
	/* One that pays back what was overdrawn frees nothing. */
	if (++s->nfree > 0) pthread_cond_signal(&s->has_free);
	pthread_mutex_unlock(&s->lock);
}
