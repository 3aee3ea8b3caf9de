/* Log lines and progress, both on stderr. One mutex keeps lines whole; while a progress bar stands
 * on the terminal's last line, a log line erases it first and the next update draws it again. Text
 * from candidates and models ends up here, so control bytes are shown as \xNN: nobody writes escape
 * sequences to the user's terminal through us. */
#include "base/base.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_NS 100000000u          /* on a terminal */
#define PLAIN_LINE_NS 10000000000u    /* elsewhere */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool bar_drawn;

/* Appends text with control bytes made visible; keeps tabs, and newlines as they are. C1 controls
 * are the UTF-8 pairs c2 80 .. c2 9f. */
static void put_visible(struct str *out, const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		bool control = (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f;
		bool c1 = *p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f;
		if (control) str_printf(out, "\\x%02x", *p);
		else if (c1) {
			str_printf(out, "\\x%02x", p[1]);
			p++;
		} else str_putc(out, (char)*p);
	}
}

static void write_all(const struct str *s)
{
	for (size_t at = 0; at < s->len;) {
		ssize_t n = write(STDERR_FILENO, s->data + at, s->len - at);
		if (n <= 0) return;
		at += (size_t)n;
	}
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	static const char *const names[] = {"info ", "warn "};
	CHECK((unsigned)level < ARRAY_LEN(names));
	/* The text is formatted before the lock is taken: no other thread waits for that. */
	struct str text = {0}, line = {0};
	va_list ap;
	va_start(ap, fmt);
	str_vprintf(&text, fmt, ap);
	va_end(ap);

	struct timespec now;
	struct tm day;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &day);
	pthread_mutex_lock(&log_lock);
	/* A progress bar stands in the last line of the terminal: the log line takes its place. */
	if (bar_drawn) str_puts(&line, "\r\033[K");
	bar_drawn = false;
	str_printf(&line, "%02d:%02d:%02d %s ", day.tm_hour, day.tm_min, day.tm_sec, names[level]);
	put_visible(&line, text.data);
	str_putc(&line, '\n');
	write_all(&line);
	pthread_mutex_unlock(&log_lock);
	str_release(&text);
	str_release(&line);
}

/* ---- progress ---- */

static void put_duration(struct str *out, double s)
{
	int64_t t = s < 0 || s > 1e9 ? 0 : (int64_t)(s + 0.5);
	if (t >= 3600) str_printf(out, "%lldh%02lldm", (long long)(t / 3600), (long long)(t / 60 % 60));
	else if (t >= 60) str_printf(out, "%lldm%02llds", (long long)(t / 60), (long long)(t % 60));
	else str_printf(out, "%llds", (long long)t);
}

/* "label  [######....]  12/40 tasks  3.1/s  9s left  note" */
static void put_status(struct str *out, const struct progress *p, const char *note, bool bar, uint64_t now)
{
	enum { BAR_CELLS = 24 };
	double seconds = (double)(now - p->start_ns) * 1e-9, rate = seconds > 0 ? (double)p->done / seconds : 0;
	put_visible(out, p->label);
	if (bar && p->total > 0) {
		int full = (int)(BAR_CELLS * (double)MIN(MAX(p->done, 0), p->total) / (double)p->total);
		str_puts(out, " [");
		for (int i = 0; i < BAR_CELLS; i++) str_putc(out, i < full ? '#' : '.');
		str_putc(out, ']');
	}
	str_printf(out, " %lld", (long long)p->done);
	if (p->total > 0) str_printf(out, "/%lld", (long long)p->total);
	str_printf(out, " %s", p->unit);
	if (rate > 0) str_printf(out, rate >= 0.95 ? "  %.1f/s" : "  %.2g/s", rate);
	if (rate > 0 && p->total > p->done) {
		str_puts(out, "  ");
		put_duration(out, (double)(p->total - p->done) / rate);
		str_puts(out, " left");
	}
	if (note && *note) {
		str_puts(out, "  ");
		put_visible(out, note);
	}
}

static void draw(const struct progress *p, const char *note, uint64_t now, bool last)
{
	struct str line = {0};
	if (p->is_tty) str_puts(&line, "\r\033[K");
	put_status(&line, p, note, p->is_tty, now);
	if (last) {
		str_puts(&line, "  in ");
		put_duration(&line, (double)(now - p->start_ns) * 1e-9);
	}
	if (!p->is_tty || last) str_putc(&line, '\n');
	pthread_mutex_lock(&log_lock);
	write_all(&line);
	bar_drawn = p->is_tty && !last;
	pthread_mutex_unlock(&log_lock);
	str_release(&line);
}

void progress_begin(struct progress *p, const char *label, const char *unit, int64_t total)
{
	uint64_t now = clock_ns();
	*p = (struct progress){.label = label,
		.unit = unit,
		.total = total,
		.start_ns = now,
		.last_ns = now,
		.is_tty = isatty(STDERR_FILENO) == 1};
}

void progress_update(struct progress *p, int64_t done, const char *note)
{
	p->done = done;
	uint64_t now = clock_ns();
	if (now - p->last_ns < (p->is_tty ? REDRAW_NS : PLAIN_LINE_NS)) return;
	p->last_ns = now;
	draw(p, note, now, false);
}

void progress_end(struct progress *p) { draw(p, NULL, clock_ns(), true); }
