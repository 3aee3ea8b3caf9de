/* arenas: Python's memory for small objects lies in one piece, for the zygotes.
 *
 * Python takes it from the kernel a megabyte at a time, wherever there is room: between two
 * libraries' mappings as often as not. No large page fits there, and each fork copies 256 entries
 * for each. Here one arena lies behind the other. Part of libhone_sandbox.so, for the workers only:
 * the name of Python's that it calls is the interpreter's that loads it. */
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#define WEAK __attribute__((weak)) /* hone's own programs link these objects too, and have no Python */
#define HUGE_PAGE ((uintptr_t)2 << 20)
#define ARENA ((size_t)1 << 20)
#define LOWEST ((uintptr_t)1 << 44)  /* above a program and its heap, below libraries and stacks */
#define STARTS ((uintptr_t)1 << 16) /* how many places the first arena may have */

struct arena_allocator { /* Python's PyObjectArenaAllocator */
	void *context;
	void *(*take)(void *context, size_t size);
	void (*give)(void *context, void *arena, size_t size);
};
void PyObject_SetArenaAllocator(struct arena_allocator *allocator) WEAK;

void arenas_join(uint64_t place);

static uintptr_t next; /* where the next arena goes */

static void *arena_take(void *context, size_t size)
{
	const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
	void *arena = MAP_FAILED;
	/* Stacks of calls are smaller, come from here too and go again: they would leave holes. */
	if (size == ARENA) {
		arena = mmap((void *)next, size, access, kind | MAP_FIXED_NOREPLACE, -1, 0);
		next += size;
	}
	/* Where something else lies there, too. */
	if (arena == MAP_FAILED) arena = mmap(NULL, size, access, kind, -1, 0);
	return arena == MAP_FAILED ? NULL : arena;
}

static void arena_give(void *context, void *arena, size_t size) { munmap(arena, size); }

/* All arenas that Python takes from here on lie side by side, from a place on that a random number
 * chooses. */
void arenas_join(uint64_t place)
{
	struct arena_allocator allocator = {.take = arena_take, .give = arena_give};
	next = LOWEST + place % STARTS * HUGE_PAGE;
	PyObject_SetArenaAllocator(&allocator);
}
