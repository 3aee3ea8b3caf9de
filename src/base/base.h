/* base: what every other room stands on, and nothing about kernels or models.
 *
 * Errors come in three kinds:
 *   our bug                      CHECK(): always on, prints where and what, aborts
 *   this process cannot go on    xmalloc() and friends: print what was attempted and how big, abort
 *   the world (files, children, model output) misbehaved
 *                                return a negative enum code, text in the caller's struct err
 * 0 is success everywhere. Predicates return bool and are named as questions.
 * A message names the thing, what was expected, what was found, and the next step.
 *
 * Threading: nothing here has hidden shared state except the log and the list of claimed folders
 * (dir_claim), each behind a mutex. */
#ifndef HONE_BASE_H
#define HONE_BASE_H
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

/* ---- errors ---- */

#define ERR_TABLE(X) \
	X(ERR_IO, -1, "input/output") X(ERR_FORMAT, -2, "malformed input") X(ERR_RANGE, -3, "value out of range") \
	X(ERR_LIMIT, -4, "limit exceeded") X(ERR_UNSUPPORTED, -5, "unsupported") X(ERR_NOT_FOUND, -6, "not found") \
	X(ERR_USAGE, -7, "wrong usage") X(ERR_TIMEOUT, -8, "deadline passed") X(ERR_CHILD, -9, "child process failed") \
	X(ERR_INFRA, -10, "infrastructure fault") X(ERR_MISMATCH, -11, "mismatch") \
	X(ERR_BUSY, -12, "in use by another process")
#define X(name, value, text) name = value,
enum err_code { ERR_OK = 0, ERR_TABLE(X) };
#undef X

struct err {
	int code;        /* enum err_code; 0: none was set */
	char text[1024]; /* cut where a message is longer */
};
/* Sets e (if not NULL) and returns code, so that `return err_set(e, ERR_IO, ...)` is the idiom. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the text that e already has; returns e's code, which is 0 without an e:
 * where e may be NULL the code at hand is returned instead. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *err_name(int code);

void check_failed(const char *file, int line, const char *cond, const char *fmt, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
#define CHECK(cond) do { if (!(cond)) check_failed(__FILE__, __LINE__, #cond, " "); } while (0)
#define CHECKF(cond, ...) do { if (!(cond)) check_failed(__FILE__, __LINE__, #cond, __VA_ARGS__); } while (0)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- memory ---- */

void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t len);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Multiplies sizes; aborts on overflow. */
size_t size_mul(size_t a, size_t b);

void doubles_sort(double *x, size_t n); /* rising; NaN behind all numbers */

/* Arena: many allocations, one free. Memory is 64-byte aligned and zeroed. HONE_POISON builds fill
 * it on reset. */
struct arena {
	struct arena_block *blocks;
	size_t used_bytes;
};
void *arena_alloc(struct arena *a, size_t bytes);
char *arena_strndup(struct arena *a, const char *s, size_t len);
void arena_reset(struct arena *a); /* keeps the largest block */
void arena_release(struct arena *a);

/* Growable byte string; data is always NUL-terminated once anything was appended. Zero-initialise
 * to start. */
struct str {
	char *data;
	size_t len;
	size_t cap; /* bytes of memory behind data */
};
void str_append(struct str *s, const void *data, size_t len);
void str_puts(struct str *s, const char *text);
void str_putc(struct str *s, char c);
/* The word that goes with a count: 1 launch, 2 launches. */
static inline const char *plural(int64_t n, const char *one, const char *many) { return n == 1 ? one : many; }
void str_printf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vprintf(struct str *s, const char *fmt, va_list ap);
void str_clear(struct str *s); /* len = 0, memory kept */
void str_release(struct str *s);

/* In place: what would move a terminal's cursor, change its colours, turn the direction of text or
 * not be seen becomes '?': control characters but line feed and tab, C1 controls, marks of
 * direction, characters without width, broken UTF-8. For text of strangers that people are to see.
 * Never longer than before, and UTF-8 afterwards. */
void text_make_printable(char *s);

/* A view of bytes that someone else owns. */
struct slice {
	const char *data;
	size_t len;
};
bool slice_is(struct slice s, const char *text);
bool text_ends_in(const char *text, const char *end);
bool slice_same(struct slice a, struct slice b);

/* ---- files ---- */

/* out is replaced. A missing file is ERR_NOT_FOUND, a larger one ERR_LIMIT. */
int file_read(const char *path, size_t bytes_max, struct str *out, struct err *err);
/* Writes beside, fsyncs, renames, fsyncs the folder: after kill -9 there is the old file or the new
 * one, whole. */
int file_write_atomic(const char *path, const void *data, size_t len, struct err *err);
/* The same for bytes that are not in memory as a whole: put writes them to fd; anything but 0 is a
 * failure, with errno. */
int file_write_atomic_by(const char *path, int (*put)(int fd, const void *ctx), const void *ctx, struct err *err);
/* All len bytes; -1 with errno where that fails. */
int fd_write(int fd, const void *data, size_t len);
/* Whether file_write_atomic has a place to write to: asked before long work whose result goes
 * there. */
int file_check_writable(const char *path, struct err *err);
/* The same for a folder that dir_make is to make, or that is there. */
int dir_check_writable(const char *path, struct err *err);
struct file_map {
	const uint8_t *data;
	size_t len;
};
int file_map_open(const char *path, struct file_map *out, struct err *err); /* read-only mapping */
void file_map_close(struct file_map *m);
int dir_make(const char *path, struct err *err);   /* with parents; existing is fine */
int dir_remove(const char *path, struct err *err); /* recursive, follows no link; absent is fine */
/* This process alone writes into the folder from now on: makes it, locks it until the process ends
 * (claiming again is fine) and removes the files that a kill left half-written beside others there:
 * NAME.PID.tmp and NAME.PID.N.tmp. ERR_BUSY when another process has claimed it. Where a file
 * system has no locks nothing is locked. */
int dir_claim(const char *path, struct err *err);
/* Removes all that ends in .tmp: for folders of hone's own, claimed. */
int dir_clean(const char *path, struct err *err);
/* Calls fn for each entry of a folder in byte order of names. Stops at the first non-zero return
 * and passes it on. */
int dir_each(const char *path, int (*fn)(const char *name, void *ctx), void *ctx, struct err *err);
/* Calls fn for each row of a JSONL file, plain or gzip; blank lines are skipped, anything but
 * an object is an error. where is "path:line"; line_max in bytes, and a file of more than 4 GiB is
 * ERR_LIMIT. Stops at the first error. */
#define JSONL_LINE_MAX ((size_t)16 << 20)   /* for rows of prompts and answers; task sets have their own */
typedef int jsonl_fn(void *ctx, const json_t *row, const char *where, struct err *err);
int jsonl_each(const char *path, size_t line_max, jsonl_fn *fn, void *ctx, struct err *err);
/* The same for lines as they stand in the file, blank ones among them. */
typedef int jsonl_line_fn(void *ctx, const char *line, size_t len, const char *where, struct err *err);
int jsonl_lines(const char *path, size_t line_max, jsonl_line_fn *fn, void *ctx, struct err *err);
void jsonl_put(struct str *text, const json_t *row); /* one line, sorted keys */
bool jsonl_is_name(const char *path);                /* whether it ends as such a file's: .jsonl or .jsonl.gz */
/* Atomic. gzip when the name ends in .gz, without a time stamp: equal rows are equal bytes. */
int jsonl_write(const char *path, const struct str *text, struct err *err);
bool path_exists(const char *path);
bool path_is_same(const char *a, const char *b); /* one file or folder, however it is spelled */
char *path_folder(const char *path);             /* where it lies, "." without a slash; caller frees */
char *path_join(const char *a, const char *b);   /* caller frees; b alone when it is absolute */
char *path_real(const char *path);               /* absolute, links followed; as it is where that cannot be told */
/* A file that ships with hone ("recipes/paper.yaml", "worker", "build/venv/bin/python"), looked for
 * in the program's folder and the ones above it, never in the current folder: that one may be a
 * stranger's. NULL when absent; caller frees. */
char *path_installed(const char *relative);
/* The Python with torch and triton: HONE_PYTHON's, absolute where it is a file here, else the one
 * of hone's own set-up. NULL when there is neither; caller frees. */
char *path_python(void);
/* The path itself where something is there, else the file of that name that ships with hone; the
 * caller frees. */
char *path_or_installed(const char *path);

/* ---- log and progress (stderr only; stdout belongs to results) ---- */

enum log_level { LOG_INFO, LOG_WARN };
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
/* One line with count, rate and time left: redrawn in place on a terminal, a plain line every 10 s
 * otherwise. */
struct progress {
	const char *label;
	const char *unit; /* of the counts: "tasks" */
	int64_t total;    /* 0: not known */
	int64_t done;
	uint64_t start_ns;
	uint64_t last_ns; /* when it was drawn last */
	bool is_tty;
};
void progress_begin(struct progress *p, const char *label, const char *unit, int64_t total);
void progress_update(struct progress *p, int64_t done, const char *note); /* note may be NULL */
void progress_end(struct progress *p);

/* ---- time ---- */

uint64_t clock_ns(void);             /* monotonic */
uint64_t deadline_in_ms(int64_t ms); /* clock_ns() of that much later; of a negative time: now */
void sleep_ms(int ms);

/* ---- random numbers: counter-based (Philox4x32-10, Salmon et al. 2011). The value is a pure
 * function of (seed, stream, index): no state, so a resumed run and a reordered run draw the same
 * numbers. ---- */

struct rng_block {
	uint32_t v[4];
};
struct rng_block rng_philox(uint64_t seed, uint64_t stream, uint64_t index);
uint32_t rng_u32(uint64_t seed, uint64_t stream, uint64_t index);
float rng_uniform(uint64_t seed, uint64_t stream, uint64_t index); /* [0, 1), 24 bits */
float rng_normal(uint64_t seed, uint64_t stream, uint64_t index);  /* Box-Muller on one block */
/* Sequential convenience over the same function: index advances. */
struct rng {
	uint64_t seed;
	uint64_t stream;
	uint64_t index; /* of the next number */
};
uint32_t rng_next(struct rng *r);
uint32_t rng_below(struct rng *r, uint32_t n); /* [0, n), unbiased; n > 0 */
/* An array of `count` items of `size` bytes in an order of which all are equally likely. */
void rng_shuffle(struct rng *r, void *items, size_t count, size_t size);
float rng_next_uniform(struct rng *r);

/* ---- hashing (SHA-256 by nettle) ---- */

struct sha256_hex {
	char text[65];
};
struct sha256_hex hash_bytes(const void *data, size_t len);
/* Hash of several parts, each preceded by its length, so that ("ab","c") and ("a","bc") differ. */
struct sha256_hex hash_parts(const struct slice *parts, size_t count);
/* A hash's place in a table of `count` places: its first 32 bits, modulo count. */
uint32_t hash_place(const struct sha256_hex *hash, uint32_t count);
/* The same 32 bits as a number in [0, 1): whether a thing belongs to a share of all. */
double hash_share(const struct sha256_hex *hash);

/* ---- threads ---- */

/* A fixed pool. pool_run splits [0, count) into chunks of `grain` and calls fn(ctx, begin, end,
 * thread) from the pool's threads and the caller's; it returns when all are done. Chunk boundaries
 * depend on count and grain alone, never on timing or on the number of threads. Not re-entrant: fn
 * must not call pool_run on the same pool. */
struct pool;
typedef void pool_fn(void *ctx, int64_t begin, int64_t end, int thread);
struct pool *pool_create(int threads); /* threads <= 0: the number of cores this process may use */
void pool_free(struct pool *p);
int pool_threads(const struct pool *p);
void pool_run(struct pool *p, int64_t count, int64_t grain, pool_fn *fn, void *ctx);
int cpu_count(void); /* cores in the affinity mask */

/* ---- child processes and messages ---- */

#define CHILD_FDS_MAX 8
struct child_options {
	char *const *argv;      /* argv[0] is a path; no shell */
	char *const *env;       /* NULL: a minimal environment (PATH, LANG=C.UTF-8), never ours */
	const char *cwd;        /* NULL: "/" */
	int fds[CHILD_FDS_MAX]; /* passed as 3, 4, 5, ... in the child */
	int nfds;
	int stdout_fd;        /* -1: /dev/null */
	int stderr_fd;        /* -1: /dev/null */
	bool die_with_parent; /* PR_SET_PDEATHSIG(SIGKILL) */
};
struct child {
	pid_t pid;
	int status;     /* waitpid's, once reaped */
	bool reaped;    /* it has ended and was waited for */
	int64_t cpu_us; /* processor time of it and of what it waited for, once reaped */
};
/* New session and process group; all other descriptors are closed in the child. */
int child_spawn(struct child *c, const struct child_options *o, struct err *err);
/* Waits up to timeout_ms (-1: for ever). ERR_TIMEOUT when it still runs; c->status is waitpid's on
 * success. When the child has ended, what is left of its process group is killed. die_with_parent
 * is bound to the thread that spawned: it must live as long as the child. */
int child_wait(struct child *c, int timeout_ms, struct err *err);
void child_kill(struct child *c); /* SIGKILL to the whole group, then reaps; legal on a reaped child */
/* "exit 3", "signal 11 (SIGSEGV)": a fact for verdicts and logs. */
void child_status_text(int status, char *text, size_t len);

/* Messages over a stream socket (SOCK_STREAM): u32 little-endian length, payload, and up to 8
 * descriptors (SCM_RIGHTS) with the first byte. deadline_ns is absolute on clock_ns()'s clock; 0
 * means none. After an error the stream is out of step: drop the peer. */
int msg_send(int fd, const void *data, size_t len, const int *fds, int nfds, uint64_t deadline_ns, struct err *err);
/* out is replaced. A length over bytes_max is ERR_LIMIT; a closed peer is ERR_CHILD. *nfds in:
 * room, out: received (CLOEXEC set). */
int msg_recv(int fd, size_t bytes_max, struct str *out, int *fds, int *nfds, uint64_t deadline_ns, struct err *err);
/* A descriptor, or a negative code. The memory is sealed: nobody can resize it. */
int memfd_make(const char *name, size_t bytes, struct err *err);

/* ---- JSON (jansson) and YAML (libyaml) ---- */

/* An error names `what`, the line and the column; of a text of one line, which mostly is a row of a
 * file that `what` has the line of, the column alone. */
int json_parse(const char *text, size_t len, const char *what, json_t **out, struct err *err);
int json_load(const char *path, size_t bytes_max, json_t **out, struct err *err);
/* Flag of json_dumps for what people read: 0.1, and not 0.10000000000000001. */
#define JSON_AS_WRITTEN JSON_REAL_PRECISION(15)
int json_save(const char *path, const json_t *value, struct err *err); /* atomic, indented, sorted keys */
/* A number, or `absent` for null, for what is there not, and for what is no number. */
double json_real_or(const json_t *v, double absent);
json_t *json_finite(double x); /* the other way: null for infinities and NaN, for which JSON has no number */
/* Field readers: error text names `what` and the field. `get` insists, `opt` leaves *out alone when
 * the field is absent or null. */
int json_get_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err);
int json_get_str(const json_t *o, const char *what, const char *field, const char **out, struct err *err);
int json_opt_int(
	const json_t *o, const char *what, const char *field, int64_t min, int64_t max, int64_t *out, struct err *err);
int json_opt_num(const json_t *o, const char *what, const char *field, double *out, struct err *err);
int json_opt_bool(const json_t *o, const char *what, const char *field, bool *out, struct err *err);
int json_opt_str(const json_t *o, const char *what, const char *field, const char **out, struct err *err);
/* A YAML mapping (scalars, lists, nested mappings; no anchors, no tags) as JSON; plain scalars
 * become null, bool, int, real or string. */
int yaml_load(const char *path, json_t **out, struct err *err);

/* ---- options: one table per command drives parsing, recipes, --help and what is recorded about a
 * run ---- */

enum option_type {
	OPTION_BOOL,
	OPTION_INT,
	OPTION_FLOAT,
	OPTION_STR,
	OPTION_LIST,
	OPTION_NEEDS /* no option: what others need (OPTIONS_NEED) */
}; /* fields: bool, int64_t, double, const char *, struct option_list */
/* Texts of an option that is given several times, or of a list in a recipe, which the first one on
 * the command line replaces. */
#define OPTION_LIST_MAX 32
struct option_list {
	const char *items[OPTION_LIST_MAX];
	int count;
	bool is_recipe;
};
struct option_def {
	const char *name; /* TRL's name where TRL has one; "--learning_rate" and "--learning-rate" are the same */
	enum option_type type;
	size_t offset;       /* of the field in the command's settings struct */
	const char *help;    /* one line, with unit */
	const char *choices; /* of a text "a|b|c", of a number "0 to 4096" or "0 or more" (ends belong to it); NULL: any */
};
/* A row of the table that is no option: those that `names` lists, with blanks between, do something
 * only where the condition holds, which is one or more of these with " | " between:
 *
 *   name        the option is set: a text, a list, a number other than 0, a switch that is on
 *   name>N      its number is above N
 *   name=TEXT   its text is this one; TEXT* begins so
 *   name!=TEXT  its text is another one
 *   @WORD       the first positional word is this one
 *   $NAME       the environment has this variable
 *   !name       the option is not set; where the first is so, all are, and all have to hold
 *   #WORDS      alone: never, and why
 *
 * One of them on the command line is refused where it does not, unless it is switched
 * off (false, 0, an empty text); a recipe's is named on stderr and stands idle. An
 * option may be in several rows. */
#define OPTIONS_NEED(names, condition) { names, OPTION_NEEDS, 0, condition, NULL }
/* Sets fields from a recipe (--recipe FILE, whose keys are option names) and then from argv;
 * --name=value and --name value both work, a bool takes no value or true/false, --no-name clears
 * it. Positional arguments are left in argv[1..*npos]. --help prints and returns 1. ERR_USAGE names
 * the option, what was expected, and the nearest known name. Strings live
 * as long as the process. */
int options_parse(const char *command, const char *summary, const struct option_def *defs, size_t count, void *settings,
	int argc, char **argv, int *npos, struct err *err);
/* Lays a recipe over settings, as --recipe does. option: where its name stood, for errors. */
int options_recipe(const char *command, const char *option, const struct option_def *defs, size_t count, void *settings,
	const char *recipe, struct err *err);
json_t *options_json(const struct option_def *defs, size_t count, const void *settings); /* new reference */
/* Edit distance between a (len bytes) and b, '-' and '_' alike; for "did you mean". */
int name_distance(const char *a, size_t len, const char *b);

#endif
