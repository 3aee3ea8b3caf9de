/* On the CPU elem and f32 are float in host memory: tests read and change
 * parameters where they lie. */
#ifndef HONE_TESTS_HOST_VALUES_H
#define HONE_TESTS_HOST_VALUES_H
#include "model/model.h"

static inline float *host_values(const struct param *p) { return (float *)p->w.w; }
/* A copy of the gradients, (p->count), from any device. */
static inline void grads_get(struct ops *ops, const struct param *p, float *host)
{
	ops->get_f32(ops->ctx, host, p->w.grad, p->count);
}
static inline float *host_grads(const struct param *p) { return (float *)p->w.grad; }
#endif
