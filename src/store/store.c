/* store: opening, schema, transactions and the key-value cache.
 *
 * Why SQLite in WAL mode with synchronous=FULL: a run is killed at any moment and must go on from
 * what a returned call promised; readers (report, dashboard) look at the file while a run writes
 * it; and several processes may share one cache of verdicts and compiled kernels.
 *
 * The schema has a number (PRAGMA user_version). A file with another number is refused by name of
 * both numbers and never converted silently: everything but runs is a cache, so deleting the file
 * is a fair next step. */
#include "store/store_internal.h"
#include "base/base.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STORE_SCHEMA 1
#define STORE_APPLICATION_ID 0x686f6e65   /* "hone" */
#define STORE_BUSY_MS 60000

static const char SCHEMA[] = "CREATE TABLE cache (kind TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY "
							 "KEY (kind, key)) WITHOUT ROWID;"
							 "CREATE TABLE runs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created TEXT NOT "
							 "NULL, config TEXT NOT NULL);"
							 "CREATE TABLE metrics (run INTEGER NOT NULL REFERENCES runs(id), step INTEGER NOT NULL, "
							 "row TEXT NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID;"
							 "CREATE TABLE samples (run INTEGER NOT NULL REFERENCES runs(id), step INTEGER NOT NULL, "
							 "idx INTEGER NOT NULL, row TEXT NOT NULL, "
							 "PRIMARY KEY (run, step, idx)) WITHOUT ROWID;";

void store_lock(struct store *s) { CHECK(pthread_mutex_lock(&s->lock) == 0); }

void store_unlock(struct store *s) { CHECK(pthread_mutex_unlock(&s->lock) == 0); }

int store_fail(struct store *s, const char *what, struct err *err)
{
	return err_set(err, ERR_IO, "store %s: %s: %s", s->path, what, s->db ? sqlite3_errmsg(s->db) : "not open");
}

static int prepare_list(
	struct store *s, sqlite3_stmt **st, struct err *err, const char *sql, const char *format, va_list ap)
{
	if (sqlite3_prepare_v2(s->db, sql, -1, st, NULL) != SQLITE_OK) return store_fail(s, sql, err);
	int n = 0, rc = SQLITE_OK;
	for (const char *f = format; *f && rc == SQLITE_OK; f++) {
		n++;
		if (*f == 'i') {
			rc = sqlite3_bind_int64(*st, n, va_arg(ap, int64_t));
		} else if (*f == 't') {
			rc = sqlite3_bind_text(*st, n, va_arg(ap, const char *), -1, SQLITE_STATIC);
		} else {
			CHECKF(*f == 'b', "unknown letter '%c' in a statement's format", *f);
			const void *data = va_arg(ap, const void *);
			size_t len = va_arg(ap, size_t);
			rc = sqlite3_bind_blob64(*st, n, data ? data : "", len, SQLITE_STATIC);
		}
	}
	if (rc == SQLITE_OK) return 0;
	store_fail(s, sql, err);
	sqlite3_finalize(*st);
	*st = NULL;
	return ERR_IO;
}

int store_prepare(struct store *s, sqlite3_stmt **st, struct err *err, const char *sql, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int rc = prepare_list(s, st, err, sql, format, ap);
	va_end(ap);
	return rc;
}

int store_exec(struct store *s, struct err *err, const char *sql, const char *format, ...)
{
	sqlite3_stmt *st = NULL;
	va_list ap;
	va_start(ap, format);
	int rc = prepare_list(s, &st, err, sql, format, ap);
	va_end(ap);
	if (rc) return rc;
	if (sqlite3_step(st) != SQLITE_DONE) rc = store_fail(s, sql, err);
	sqlite3_finalize(st);
	return rc;
}

static int pragma_get(struct store *s, const char *sql, int64_t *out, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(s, &st, err, sql, "");
	if (rc) return rc;
	if (sqlite3_step(st) == SQLITE_ROW) *out = sqlite3_column_int64(st, 0);
	else rc = store_fail(s, sql, err);
	sqlite3_finalize(st);
	return rc;
}

static int exec_plain(struct store *s, const char *sql, struct err *err)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : store_fail(s, sql, err);
}

/* Creates the tables of an empty file, or checks the version of another. Inside one IMMEDIATE
 * transaction, so that two processes that create the same file at once do not both try. */
static int schema_check(struct store *s, bool may_write, struct err *err)
{
	int64_t version = 0, application = 0, tables = 0;
	int rc = exec_plain(s, "BEGIN IMMEDIATE", err);
	if (rc) return rc;
	if (!rc) rc = pragma_get(s, "PRAGMA user_version", &version, err);
	if (!rc) rc = pragma_get(s, "PRAGMA application_id", &application, err);
	if (!rc) rc = pragma_get(s, "SELECT count(*) FROM sqlite_master", &tables, err);
	/* Only a file that holds nothing at all is new; its number marks it as a store of this
	 * version. */
	if (!rc && may_write && version == 0 && tables == 0) {
		char text[128];
		snprintf(text, sizeof text, "PRAGMA user_version = %d; PRAGMA application_id = %d", STORE_SCHEMA,
			STORE_APPLICATION_ID);
		rc = exec_plain(s, SCHEMA, err);
		if (!rc) rc = exec_plain(s, text, err);
	} else if (!rc && application != STORE_APPLICATION_ID) {
		rc = err_set(err, ERR_FORMAT,
			"store %s: this is another program's SQLite file (application id %lld, expected %d); name a new file",
			s->path, (long long)application, STORE_APPLICATION_ID);
	} else if (!rc && version != STORE_SCHEMA) {
		rc = err_set(err, ERR_FORMAT,
			"store %s: has schema version %lld, this program reads version %d; use the matching hone, or name a new "
			"file",
			s->path, (long long)version, STORE_SCHEMA);
	}
	/* On an error all is taken back, so that a file is never left with half of its tables. */
	if (!rc) return exec_plain(s, "COMMIT", err);
	sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}

/* Only one process at a time opens or closes a store. SQLite waits politely for writers, but not
 * while a new file becomes a WAL file: several processes that open it at that moment get "database
 * is locked" at once, whatever the busy timeout says. The lock is a file of its own: closing a
 * second descriptor of the database would drop SQLite's own locks, and its folder may be claimed
 * by a run. Returns the descriptor, or -1 with err set. */
static int door_lock(const char *path, struct err *err)
{
	struct str name = {0};
	str_printf(&name, "%s-lock", path);
	int fd = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	int failed = fd < 0;
	while (!failed && flock(fd, LOCK_EX)) failed = errno != EINTR;
	if (failed) {
		err_set(err, ERR_IO, "store %s: cannot lock %s: %s; name a store in a folder that can be written", path,
			name.data, strerror(errno));
		if (fd >= 0) close(fd);
		fd = -1;
	}
	str_release(&name);
	return fd;
}

/* Unlocks by name, since a child that was forked meanwhile still has the descriptor. */
static void door_unlock(int fd)
{
	if (fd < 0) return;
	flock(fd, LOCK_UN);
	close(fd);
}

/* A store where this process can write nothing. SQLite makes a file beside a database in WAL mode
 * even to read it, unless it is told that nobody writes; where a -wal is left somebody may. */
static int database_read(struct store *s, struct err *err)
{
	struct str wal = {0}, uri = {0};
	str_printf(&wal, "%s-wal", s->path);
	str_puts(&uri, "file:");
	/* What means something in a URI is written by its number. */
	for (const char *c = s->path; *c; c++) {
		if (isalnum((unsigned char)*c) || strchr("/._-", *c)) str_putc(&uri, *c);
		else str_printf(&uri, "%%%02x", (unsigned char)*c);
	}
	if (!path_exists(wal.data)) str_puts(&uri, "?immutable=1");
	int failed = sqlite3_open_v2(uri.data, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	str_release(&wal);
	str_release(&uri);
	if (failed) return store_fail(s, "cannot open", err);
	sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
	return schema_check(s, false, err);
}

static int database_open(struct store *s, struct err *err)
{
	if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
		SQLITE_OK)
		return store_fail(s, "cannot open", err);
	sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
	int rc = exec_plain(s, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF", err);
	if (!rc) rc = schema_check(s, true, err);
	/* This writes to the file, and stays: not before it is known to be ours. */
	return rc ? rc : exec_plain(s, "PRAGMA journal_mode = WAL", err);
}

/* What is no database is refused before anything is made beside it. */
static int place_check(const char *path, struct err *err)
{
	static const char magic[16] = "SQLite format 3";
	char head[sizeof magic];
	struct stat st;
	if (stat(path, &st)) return 0; /* to be made, or SQLite says why not */
	if (S_ISDIR(st.st_mode))
		return err_set(
			err, ERR_FORMAT, "store %s: expected an SQLite file, found a folder; a run's is hone.db in it", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
	if (fd >= 0) close(fd);
	if (n <= 0 || (n == sizeof head && !memcmp(head, magic, sizeof head))) return 0; /* an empty file is a new one */
	return err_set(err, ERR_FORMAT, "store %s: not an SQLite file; name a new file, or one that hone wrote", path);
}

static int open_as(const char *path, bool may_write, struct store **out, struct err *err)
{
	int rc = place_check(path, err);
	if (rc) return rc;
	struct store *s = xcalloc(1, sizeof *s);
	s->path = xstrdup(path);
	s->is_written = may_write;
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	/* Recursive: store_begin keeps the lock until store_commit, so that no other thread's write
	 * slips into the transaction. */
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&s->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	if (may_write) {
		int door = door_lock(path, err);
		rc = door < 0 ? ERR_IO : database_open(s, err);
		door_unlock(door);
	} else {
		rc = database_read(s, err);
	}
	if (rc) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

int store_open(const char *path, struct store **out, struct err *err) { return open_as(path, true, out, err); }

/* Whether the file and its folder can be written: both are where a store is open. */
static bool is_writable(const char *path)
{
	char *folder = xstrdup(path), *slash = strrchr(folder, '/');
	if (slash) slash[slash == folder] = 0;
	bool can = !access(path, W_OK) && !access(slash ? folder : ".", W_OK);
	free(folder);
	return can;
}

int store_open_existing(const char *from, struct store **out, struct err *err)
{
	struct stat st;
	char *inside = path_join(from, "hone.db");
	const char *path = path_exists(inside) ? inside : from;
	bool is_file = !stat(path, &st) && !S_ISDIR(st.st_mode);
	int rc = is_file ? open_as(path, is_writable(path), out, err) : ERR_NOT_FOUND;
	if (!is_file)
		err_set(err, ERR_NOT_FOUND,
			"%s: no store and no folder with hone.db; the stages of a pipeline share the one in the folder above them",
			from);
	free(inside);
	return rc;
}

void store_close(struct store *s)
{
	if (!s) return;
	/* The last to leave folds the WAL into the file and removes it: nobody may enter meanwhile. */
	int door = s->db && s->is_written ? door_lock(s->path, NULL) : -1;
	sqlite3_close(s->db);
	door_unlock(door);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

int store_begin(struct store *s, struct err *err)
{
	store_lock(s);
	int rc = exec_plain(s, "BEGIN IMMEDIATE", err);
	if (rc) store_unlock(s);
	return rc;
}

int store_commit(struct store *s, struct err *err)
{
	int rc = exec_plain(s, "COMMIT", err);
	if (rc) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	store_unlock(s);
	return rc;
}

int store_get(struct store *s, const char *kind, const char *key, struct str *out, struct err *err)
{
	store_lock(s);
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(s, &st, err, "SELECT value FROM cache WHERE kind = ? AND key = ?", "tt", kind, key);
	if (!rc) {
		int step = sqlite3_step(st);
		if (step == SQLITE_ROW) {
			str_clear(out);
			const void *data = sqlite3_column_blob(st, 0);
			str_append(out, data ? data : "", (size_t)sqlite3_column_bytes(st, 0));
		} else {
			rc = step == SQLITE_DONE ? err_set(err, ERR_NOT_FOUND, "store %s: no %s with key %s", s->path, kind, key)
									 : store_fail(s, "reading the cache", err);
		}
		sqlite3_finalize(st);
	}
	store_unlock(s);
	return rc;
}

int store_put(struct store *s, const char *kind, const char *key, const void *data, size_t len, struct err *err)
{
	store_lock(s);
	int rc = store_exec(s, err,
		"INSERT INTO cache (kind, key, value) VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET value = "
		"excluded.value",
		"ttb", kind, key, data, len);
	store_unlock(s);
	return rc;
}
