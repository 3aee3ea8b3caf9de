/* cpu: the CPU backend's context: thread pool, scratch and memory, and the choice between the two
 * copies of the operations. */
#include <stdlib.h>
#include "ops_cpu.h"

static void *cpu_alloc(struct ops_context *c, size_t bytes)
{
	size_t rounded = (MAX(bytes, 1) + 63) / 64 * 64;
	void *p = aligned_alloc(64, rounded);
	CHECKF(p, "out of memory: %zu bytes for a tensor", bytes);
	memset(p, 0, rounded);
	return p;
}
static void cpu_release(struct ops_context *c, void *p) { free(p); }
static void cpu_copy(struct ops_context *c, void *dst, const void *src, size_t bytes)
{
	if (bytes) memmove(dst, src, bytes);
}
static void cpu_zero(struct ops_context *c, void *p, size_t bytes)
{
	if (bytes) memset(p, 0, bytes);
}

/* x86-64-v4 by its parts: clang knows the level's name since 16 only. */
static bool has_v4(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		__builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

int ops_cpu_create(const struct ops_options *o, struct ops **out, struct err *err)
{
	struct ops *t = xcalloc(1, sizeof *t);
	struct ops_context *c = xcalloc(1, sizeof *c);
	t->ctx = c;
	t->name = "cpu";
	c->pool = pool_create(o->threads);
	c->threads = pool_threads(c->pool);
	c->scratch = cpu_alloc(c, size_mul(size_mul((size_t)c->threads, SCRATCH_FLOATS), sizeof(float)));
	t->alloc = cpu_alloc;
	t->release = cpu_release;
	t->upload = t->download = t->copy = cpu_copy;
	t->zero = cpu_zero;
	c->avx512 = has_v4() && !o->avx2_only;
	if (c->avx512) {
#define X(family) family##_entries_avx512(t);
		FAMILIES(X)
#undef X
	} else {
#define X(family) family##_entries_avx2(t);
		FAMILIES(X)
#undef X
	}
	*out = t;
	return 0;
}

void ops_free(struct ops *ops)
{
	if (!ops) return;
	while (ops->ctx->nprepared) ops->forget(ops->ctx, ops->ctx->prepared[0].b);
	free(ops->ctx->prepared);
	pool_free(ops->ctx->pool);
	free(ops->ctx->scratch);
	free(ops->ctx);
	free(ops);
}

size_t ops_prepared_bytes(const struct ops *ops) { return ops->ctx->prepared_bytes; }

const char *ops_gemm_name(const struct ops *ops) { return ops->ctx->avx512 ? "AVX-512" : "AVX2"; }

double ops_gemm_gflops(struct ops *ops)
{
	enum { SIDE = 1024, REPEATS = 4 };
	size_t bytes = sizeof(float) * SIDE * SIDE;
	float *a = ops->alloc(ops->ctx, bytes), *b = ops->alloc(ops->ctx, bytes), *c = ops->alloc(ops->ctx, bytes);
	double best = 0;
	for (int i = 0; i < REPEATS; i++) {
		uint64_t start = clock_ns();
		ops->matmul(ops->ctx, c, a, b, SIDE, SIDE, SIDE, false, true, 1.0f, OPS_SET);
		double gflops = 2.0 * SIDE * SIDE * SIDE / (double)MAX(clock_ns() - start, 1);
		best = MAX(best, gflops);
	}
	ops->release(ops->ctx, a);
	ops->release(ops->ctx, b);
	ops->release(ops->ctx, c);
	return best;
}
