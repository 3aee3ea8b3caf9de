/* jsonl: rows of JSON Lines files, plain or gzip: zlib's reader passes plain files through, so one
 * loop reads both. */
#include "base/base.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#define FILE_BYTES_MAX ((size_t)4 << 30)   /* unpacked: a small gzip file may hold any amount */

struct rows {
	jsonl_fn *fn;
	void *ctx;
};

static int row_pass(void *ctx, const char *line, size_t len, const char *where, struct err *err)
{
	const struct rows *r = ctx;
	json_t *row = NULL;
	if (!len || !line[strspn(line, " \t\r\n")]) return 0;
	if (line[len - 1] == '\n') len--;
	int rc = json_parse(line, len, where, &row, err);
	if (!rc && !json_is_object(row)) rc = err_set(err, ERR_FORMAT, "%s: expected an object", where);
	if (!rc) rc = r->fn(r->ctx, row, where, err);
	json_decref(row);
	return rc;
}

/* Appends the rest of a line, or what of it fits into a chunk. Returns the bytes added; 0 at the
 * end. */
static size_t chunk_read(gzFile f, struct str *line)
{
	char chunk[1 << 14];
	z_off_t before = gztell(f);
	if (!gzgets(f, chunk, (int)sizeof chunk)) return 0;
	size_t n = (size_t)(gztell(f) - before); /* not strlen: a zero byte must reach the parser */
	str_append(line, chunk, n);
	return n;
}

/* Whether what was read ends because the file does. */
static int end_check(gzFile f, const char *where, struct err *err)
{
	int zrc = Z_OK;
	const char *text = gzerror(f, &zrc);
	if (zrc == Z_OK || zrc == Z_STREAM_END) return 0;
	return err_set(
		err, ERR_FORMAT, "%s: %s; the file is damaged or cut short", where, zrc == Z_ERRNO ? "cannot be read" : text);
}

static int lines_read(gzFile f, const char *path, size_t line_max, jsonl_line_fn *fn, void *ctx, struct err *err)
{
	struct str line = {0};
	char where[1024];
	size_t bytes = 0;
	int rc = 0, number = 1;
	for (bool at_end = false; !at_end && !rc;) {
		size_t n = chunk_read(f, &line);
		at_end = n == 0;
		bytes += n;
		snprintf(where, sizeof where, "%.900s:%d", path, number);
		if (line.len > line_max || bytes > FILE_BYTES_MAX)
			rc = err_set(err, ERR_LIMIT, "%s: at most %zu MiB a line and %zu MiB in all are read", where,
				line_max >> 20, FILE_BYTES_MAX >> 20);
		if (!rc && at_end) rc = end_check(f, where, err); /* before what may be the half of a row is read as one */
		if (rc || (!at_end && line.data[line.len - 1] != '\n')) continue;
		rc = fn(ctx, line.len ? line.data : "", line.len, where, err);
		number++;
		str_clear(&line);
	}
	str_release(&line);
	return rc;
}

int jsonl_lines(const char *path, size_t line_max, jsonl_line_fn *fn, void *ctx, struct err *err)
{
	struct stat st;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, ERR_IO, "%s: expected a file of JSON lines, found a folder", path);
	gzFile f = gzopen(path, "rb");
	if (!f) return err_set(err, ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
	gzbuffer(f, 1 << 17);
	int rc = lines_read(f, path, line_max, fn, ctx, err);
	gzclose_r(f);
	return rc;
}

int jsonl_each(const char *path, size_t line_max, jsonl_fn *fn, void *ctx, struct err *err)
{
	struct rows r = {fn, ctx};
	return jsonl_lines(path, line_max, row_pass, &r, err);
}

bool jsonl_is_name(const char *path) { return text_ends_in(path, ".jsonl") || text_ends_in(path, ".jsonl.gz"); }

/* ---- writing ---- */

void jsonl_put(struct str *text, const json_t *row)
{
	char *line = json_dumps(row, JSON_COMPACT | JSON_SORT_KEYS);
	CHECKF(line, "a row that is not JSON");
	str_puts(text, line);
	str_putc(text, '\n');
	free(line);
}

static int gzip(const struct str *in, struct str *out, struct err *err)
{
	z_stream z = {0};
	if (in->len > UINT32_MAX)
		return err_set(err, ERR_LIMIT, "%zu bytes of rows: at most 4 GiB are packed; write them without .gz", in->len);
	/* 15 + 16: a gzip header without time and name, so equal rows are equal files */
	if (deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
		return err_set(err, ERR_INFRA, "zlib could not start");
	size_t bound = deflateBound(&z, in->len);
	unsigned char *buffer = xmalloc(bound);
	z.next_in = (unsigned char *)in->data;
	z.avail_in = (unsigned)in->len;
	z.next_out = buffer;
	z.avail_out = (unsigned)bound;
	int rc = deflate(&z, Z_FINISH) == Z_STREAM_END
		? 0
		: err_set(err, ERR_INFRA, "zlib could not compress %zu bytes", in->len);
	str_append(out, buffer, z.total_out);
	deflateEnd(&z);
	free(buffer);
	return rc;
}

int jsonl_write(const char *path, const struct str *text, struct err *err)
{
	struct str packed = {0};
	bool is_packed = text_ends_in(path, ".gz");
	int rc = is_packed ? gzip(text, &packed, err) : 0;
	if (rc) err_prefix(err, "%s", path);
	const struct str *bytes = is_packed ? &packed : text;
	if (!rc) rc = file_write_atomic(path, bytes->data ? bytes->data : "", bytes->len, err);
	str_release(&packed);
	return rc;
}
