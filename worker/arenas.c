/* arenas: Python's memory for small objects lies in one piece, for the zygotes.
 *
 * Python takes it from the kernel a megabyte at a time, wherever there is room: between two
 * libraries' mappings as often as not. No large page fits there, and each fork copies 256 entries
 * for each. Here one arena lies behind the other. Part of libhone_sandbox.so, for the workers only:
 * the name of Python's that it calls is the interpreter's that loads it. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WEAK __attribute__((weak)) /* hone's own programs link these objects too, and have no Python */
#define HUGE_PAGE ((uintptr_t)2 << 20)
#define ARENA ((size_t)1 << 20)
#define POOL ((uintptr_t)1 << 14) /* of an arena; its pieces are of one size */
#define LARGEST ((size_t)512)    /* piece of a pool, and the step between two sizes */
#define STEP ((size_t)16)
#define FILL_MAX ((size_t)64 << 20) /* bytes of a size that are free at most, or Python's memory is not known here */
#define FRESH (2 * HUGE_PAGE)
#define LOWEST ((uintptr_t)1 << 44)  /* above a program and its heap, below libraries and stacks */
#define STARTS ((uintptr_t)1 << 16) /* how many places the first arena may have */

struct arena_allocator { /* Python's PyObjectArenaAllocator */
	void *context;
	void *(*take)(void *context, size_t size);
	void (*give)(void *context, void *arena, size_t size);
};
void PyObject_SetArenaAllocator(struct arena_allocator *allocator) WEAK;
void *PyObject_Malloc(size_t size) WEAK;

void arenas_join(uint64_t place);
void arenas_fill(void);
int memory_aside(void *memory, size_t size, int access, int file, int64_t place);
int memory_text(void *memory);

static uintptr_t next;  /* where the next arena goes */
static uintptr_t fresh; /* up to where memory is mapped for arenas to come */
static uintptr_t last;  /* the arena that was taken last */

static void *arena_take(void *context, size_t size)
{
	const int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
	void *arena = MAP_FAILED;
	/* Stacks of calls are smaller, come from here too and go again: they would leave holes. */
	if (size == ARENA) {
		arena = next < fresh ? (void *)next : mmap((void *)next, size, access, kind | MAP_FIXED_NOREPLACE, -1, 0);
		next += size;
	}
	/* Where something else lies there, too. */
	if (arena == MAP_FAILED) arena = mmap(NULL, size, access, kind, -1, 0);
	if (size == ARENA && arena != MAP_FAILED) last = (uintptr_t)arena;
	return arena == MAP_FAILED ? NULL : arena;
}

static void arena_give(void *context, void *arena, size_t size) { munmap(arena, size); }

/* All arenas that Python takes from here on lie side by side, from a place on that a random number
 * chooses. */
void arenas_join(uint64_t place)
{
	struct arena_allocator allocator = {.take = arena_take, .give = arena_give};
	next = fresh = LOWEST + place % STARTS * HUGE_PAGE;
	PyObject_SetArenaAllocator(&allocator);
}

/* Takes pieces of a size until the only room for another one is in arenas behind
 * `full`, and none in the pool of the last piece there, which lies `least` bytes or
 * more behind its arena's begin. */
static void fill(size_t size, uintptr_t full, uintptr_t least)
{
	for (size_t left = FILL_MAX / size; left; left--) {
		uintptr_t piece = (uintptr_t)PyObject_Malloc(size);
		bool is_behind = last != full && piece >= last + least && piece < last + ARENA;
		/* Behind the number of pieces in use a pool keeps its first free one. */
		if (!piece || (is_behind && !((void *const *)(piece & -POOL))[1])) return;
	}
}

/* Takes what is free in all arenas, and maps memory for the next ones, where none is yet, as large
 * pages. What a process that is forked then makes lies there: it would copy a page for each few
 * pieces that are free between what was made before. */
void arenas_fill(void)
{
	uintptr_t full = last;
	for (size_t size = LARGEST; size; size -= STEP) fill(size, full, 0);
	fill(LARGEST, full, ARENA - POOL);
	next = (next + HUGE_PAGE - 1) & -HUGE_PAGE;
	void *room = mmap(
		(void *)next, FRESH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (room != (void *)next) return;
	madvise(room, FRESH, MADV_HUGEPAGE);
	fresh = next + FRESH;
}

/* Puts whole pages into a file at a place, and maps that where they are, for this process alone. In
 * one go: what lies behind a library's data may be Python's own, which changes with each step that
 * Python does. 0 or -errno. */
int memory_aside(void *memory, size_t size, int access, int file, int64_t place)
{
	ssize_t written = pwrite(file, memory, size, place);
	if (written != (ssize_t)size) return written < 0 ? -errno : -ENOSPC;
	return mmap(memory, size, access, MAP_PRIVATE | MAP_FIXED, file, place) == memory ? 0 : -errno;
}

/* Puts a copy of a piece of text, of a large page's size and at a multiple of it, in its place: one
 * large page of this process's own. The step that exchanges them may run in the piece itself. 0 or
 * -errno. */
int memory_text(void *memory)
{
	char *room = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED) return -errno;
	char *copy = (char *)(((uintptr_t)room + HUGE_PAGE - 1) & -HUGE_PAGE);
	madvise(copy, HUGE_PAGE, MADV_HUGEPAGE);
	memcpy(copy, memory, HUGE_PAGE);
	bool is_done = !mprotect(copy, HUGE_PAGE, PROT_READ | PROT_EXEC) &&
		mremap(copy, HUGE_PAGE, HUGE_PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, memory) == memory;
	int rc = is_done ? 0 : -errno;
	/* What lies around the copy, and the copy where it could not be moved. */
	munmap(room, (size_t)(copy - room));
	munmap(is_done ? copy + HUGE_PAGE : copy, (size_t)(room + 2 * HUGE_PAGE - copy) - (is_done ? HUGE_PAGE : 0));
	return rc;
}
