/* cpu: the CPU backend's context: thread pool, scratch, memory, and OpenBLAS.
 *
 * OpenBLAS is opened with dlopen, and not linked, because its choice of kernels is made while it loads: 0.3.21 takes recent Xeons for a Prescott and runs ten times slower,
 * so OPENBLAS_CORETYPE has to be in the environment before. It runs with one thread; this backend's pool splits the work, in chunks that depend on shapes alone,
 * so that results do not depend on the number of threads.
 *
 * The OpenMP build asks omp_get_max_threads() at each call, a setting that every thread has for itself: openblas_set_num_threads(1) reaches the calling thread alone, and a
 * pool thread would start a team of its own (slow, and it splits sums otherwise: found by the bit-for-bit comparison of thread counts). So each thread that calls
 * it says omp_set_num_threads(1) once. Concurrent calls with one BLAS thread each are safe: its table of buffers has a lock a slot. */
#include <dlfcn.h>
#include <stdlib.h>
#include "ops_cpu.h"

static const char *coretype_for_cpu(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("x86-64-v4")) return "SKYLAKEX";
	if (__builtin_cpu_is("amd")) return "ZEN";
	return "HASWELL";
}

static void blas_open(struct ops_context *c)
{
	snprintf(c->blas_name, sizeof c->blas_name, "built-in");
	setenv("OPENBLAS_CORETYPE", coretype_for_cpu(), 0);   /* 0: the user's own choice stays */
	setenv("OPENBLAS_NUM_THREADS", "1", 0);
	void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!lib) return;
	sgemm_fn *sgemm = (sgemm_fn *)dlsym(lib, "cblas_sgemm");
	void (*set_threads)(int) = (void (*)(int))dlsym(lib, "openblas_set_num_threads");
	char *(*config)(void) = (char *(*)(void))dlsym(lib, "openblas_get_config"), *(*corename)(void) = (char *(*)(void))dlsym(lib, "openblas_get_corename");
	if (!sgemm || !set_threads) return;   /* some other library under that name */
	set_threads(1);
	c->sgemm = sgemm;
	c->omp_set_num_threads = (void (*)(int))dlsym(lib, "omp_set_num_threads");   /* of its libgomp; absent in the pthread build, which needs nothing more */
	const char *text = config ? config() : "OpenBLAS";
	int words = 0, len = 0;
	while (text[len] && (text[len] != ' ' || ++words < 2)) len++;   /* "OpenBLAS 0.3.21" */
	snprintf(c->blas_name, sizeof c->blas_name, "%.*s %s", MIN(len, 60), text, corename ? corename() : "");
}

static void *cpu_alloc(struct ops_context *c, size_t bytes)
{
	size_t rounded = (MAX(bytes, 1) + 63) / 64 * 64;
	void *p = aligned_alloc(64, rounded);
	CHECKF(p, "out of memory: %zu bytes for a tensor", bytes);
	memset(p, 0, rounded);
	return p;
}
static void cpu_release(struct ops_context *c, void *p) { free(p); }
static void cpu_copy(struct ops_context *c, void *dst, const void *src, size_t bytes) { if (bytes) memmove(dst, src, bytes); }
static void cpu_zero(struct ops_context *c, void *p, size_t bytes) { if (bytes) memset(p, 0, bytes); }

int ops_cpu_create(const struct ops_options *o, struct ops **out, struct err *err)
{
	struct ops *t = xcalloc(1, sizeof *t);
	struct ops_context *c = xcalloc(1, sizeof *c);
	t->ctx = c;
	t->name = "cpu";
	c->pool = pool_create(o->threads);
	c->threads = pool_threads(c->pool);
	c->batch_invariant = o->batch_invariant;
	c->scratch = cpu_alloc(c, size_mul(size_mul((size_t)c->threads, SCRATCH_FLOATS), sizeof(float)));
	blas_open(c);
	t->alloc = cpu_alloc;
	t->release = cpu_release;
	t->upload = t->download = t->copy = cpu_copy;
	t->zero = cpu_zero;
	if (__builtin_cpu_supports("x86-64-v4") && !o->avx2_only) {
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
	pool_free(ops->ctx->pool);
	free(ops->ctx->scratch);
	free(ops->ctx);
	free(ops);
}

const char *ops_blas_name(const struct ops *ops) { return ops->ctx->blas_name; }

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
