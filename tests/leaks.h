/* What repeated use leaves behind, in the ordinary build: blocks of the heap and open
 * descriptors. (make test-asan finds leaks too, but is not run for every change.) The first
 * uses may fill caches; after them nothing may grow. For one source of a program: it takes
 * malloc's place there. */
#ifndef HONE_TESTS_LEAKS_H
#define HONE_TESTS_LEAKS_H
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_long live_blocks;

/* Under the address sanitizer the heap is its own, and its report at the end tells of leaks. */
#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static inline void *counted(void *p)
{
	if (p) live_blocks++;
	return p;
}
void *malloc(size_t n) { return counted(__libc_malloc(n)); }
void *calloc(size_t count, size_t n) { return counted(__libc_calloc(count, n)); }
void *aligned_alloc(size_t alignment, size_t n) { return counted(__libc_memalign(alignment, n)); }
int posix_memalign(void **p, size_t alignment, size_t n) { return (*p = aligned_alloc(alignment, n)) ? 0 : ENOMEM; }
void *realloc(void *p, size_t n)
{
	void *q = __libc_realloc(p, n);
	live_blocks += !p && q ? 1 : p && !n && !q ? -1 : 0;
	return q;
}
void free(void *p)
{
	if (p) live_blocks--;
	__libc_free(p);
}
#endif

static inline int descriptors_held(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	for (struct dirent *e; d && (e = readdir(d));) n++;
	if (d) closedir(d);
	return n;
}

static inline void leaves_nothing(void (*use)(void *), void *ctx)
{
	for (int i = 0; i < 2; i++) use(ctx);
	int descriptors = descriptors_held();
	long blocks = live_blocks;
	for (int i = 0; i < 3; i++) use(ctx);
	if (live_blocks != blocks) fail_msg("3 uses left %ld blocks of the heap", live_blocks - blocks);
	if (descriptors_held() != descriptors) fail_msg("3 uses left %d descriptors", descriptors_held() - descriptors);
}
#endif
