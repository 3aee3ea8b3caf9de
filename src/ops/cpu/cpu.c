/* cpu: the CPU backend's context: thread pool and scratch, the choice between the two copies of the
 * small operations, and its figures for doctor and bench. */
#include <stdlib.h>
#include "ops/cpu_figures.h"
#include "base/base.h"
#include "base/dtype.h"
#include "ops_cpu.h"

/* x86-64-v4 by its parts: clang knows the level's name since 16 only. */
static bool has_v4(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static void cpu_close(struct ops *ops)
{
	struct ops_context *c = ops->ctx;
	while (c->nprepared) c->f.forget(c, c->prepared[0].b);
	free(c->prepared);
	thin_release(c);
	for (int i = 0; i < c->threads; i++) arena_release(&c->samplers[i]);
	free(c->samplers);
	for (int i = 0; i < OPS_FETCHES; i++) free(c->fetched[i]);
	pool_free(c->pool);
	free(c->scratch);
	free(c);
	free(ops);
}

static void stages_fill(struct ops *t)
{
	stage_memory_entries(t);
	stage_batch_entries(t);
	stage_forward_entries(t);
	stage_backward_entries(t);
	stage_head_entries(t);
	stage_optim_entries(t);
}

static const struct ops_limits limits = CPU_LIMITS;

int ops_cpu_create(const struct ops_options *o, struct ops **out, struct err *err)
{
	struct ops *t = xcalloc(1, sizeof *t);
	struct ops_context *c = xcalloc(1, sizeof *c);
	*t = (struct ops){.name = "cpu",
		.ctx = c,
		.elem_bytes = sizeof(float),
		.host_memory = true,
		.follows = true,
		.batch_invariant = true,
		.limits = &limits,
		.close = cpu_close};
	c->pool = pool_create(o->threads);
	c->threads = pool_threads(c->pool);
	c->scratch = cpu_alloc(c, size_mul(size_mul((size_t)c->threads, SCRATCH_FLOATS), sizeof(float)));
	c->samplers = xcalloc((size_t)c->threads, sizeof *c->samplers);
	c->avx512 = has_v4() && !o->avx2_only;
	c->memory_cap = o->memory_cap;
	c->f.ctx = c;
	stages_fill(t);
	/* The families are compiled twice; those of this processor enter their functions. */
	if (c->avx512) {
#define X(family) family##_entries_avx512(&c->f);
		FAMILIES(X)
#undef X
	} else {
#define X(family) family##_entries_avx2(&c->f);
		FAMILIES(X)
#undef X
	}
	*out = t;
	return 0;
}

/* ---- figures ---- */

size_t ops_prepared_bytes(const struct ops *ops) { return ops->ctx->prepared_bytes; }

const char *ops_gemm_name(const struct ops *ops) { return ops->ctx->avx512 ? "AVX-512" : "AVX2"; }

double ops_gemm_gflops(struct ops *ops)
{
	enum { SIDE = 1024, REPEATS = 4 };
	struct ops_context *ctx = ops->ctx;
	size_t bytes = sizeof(float) * SIDE * SIDE;
	float *a = cpu_alloc(ctx, bytes), *b = cpu_alloc(ctx, bytes), *c = cpu_alloc(ctx, bytes);
	double best = 0;
	for (int i = 0; i < REPEATS; i++) {
		uint64_t start = clock_ns();
		ctx->f.matmul(ctx, c, a, b, SIDE, SIDE, SIDE, false, true, 1.0f, OPS_SET);
		double gflops = 2.0 * SIDE * SIDE * SIDE / (double)MAX(clock_ns() - start, 1);
		best = MAX(best, gflops);
	}
	free(a);
	free(b);
	free(c);
	return best;
}
