/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Redrawing in place: the cursor rests on the line below the frame; a redraw goes up as many rows
 * as the old frame takes, rewrites line by line (clearing each to its end, so nothing flickers)
 * and clears what is left below. A frame is always lower than the screen, for rows that scrolled
 * away cannot be reached. A terminal made narrower wraps the old lines (xterm cuts them instead:
 * then a few rows above the frame are overwritten, once).
 */
#include "ui/live.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/memory.h"
#include "ui/off_cpu.h"
#include "ui/report.h"
#include "ui/table.h"
#include "ui/text.h"
#include "ui/threads.h"

#define MAX_LINES 40
#define MAX_FUNCTIONS 15
#define TOP_COLUMNS 30 /* of the name of what ran or waited most */

struct live {
	bool colour;
	enum snapshot_sort sort;
	unsigned int limit;
	unsigned int line_columns[MAX_LINES]; /* of the frame on the screen */
	unsigned int lines;
	struct strbuf frame; /* the last one, on the screen or not */
	bool progress;	     /* a progress line is on the screen, the cursor in it */
	unsigned int quarter;
};

struct live *live__new(const struct report_opts *opts)
{
	struct live *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->colour = opts->colour;
	l->sort = opts->sort;
	l->frame = (struct strbuf)STRBUF_INIT;
	l->limit = MAX_FUNCTIONS;
	if (opts->limit && opts->limit < MAX_FUNCTIONS)
		l->limit = (unsigned int)opts->limit;
	return l;
}

void live__free(struct live *l)
{
	if (l)
		strbuf__free(&l->frame);
	free(l);
}

static bool is_terminal(FILE *f)
{
	return fileno(f) >= 0 && isatty(fileno(f));
}

static bool takes_output(FILE *f)
{
	struct pollfd p = { .fd = fileno(f), .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && p.revents & POLLOUT;
}

static void put(FILE *f, struct strbuf *text)
{
	if (!text->oom)
		fwrite(text->s, 1, text->len, f);
	fflush(f);
}

/* ---- what the frame says ---- */

static void headline(const struct snapshot *now, const struct snapshot *d, struct strbuf *out,
		     bool colour)
{
	char rate[TEXT_CELL], cpu[TEXT_CELL];
	uint64_t s = now->window.duration_ns / NS_PER_SEC, window_ns = d->window.duration_ns;
	struct strbuf line = STRBUF_INIT;
	bool exact = true;
	double calls = 0;

	for (size_t i = 0; i < d->fn_cnt; i++) {
		calls += (double)snapshot__all_calls(&d->fns[i]);
		exact &= snapshot__calls_basis(&d->fns[i]) == BASIS_EXACT;
	}
	text__count(rate, window_ns ? (uint64_t)(calls * 1e9 / (double)window_ns) : 0, 9);
	text__percent(cpu, d->overhead.cpu_ratio);
	utf8__add_printable(&line, now->target.comm);
	strbuf__addf(&line, " (pid %d)  %02" PRIu64 ":%02" PRIu64 ":%02" PRIu64, now->target.pid,
		     s / 3600, s / 60 % 60, s % 60);
	strbuf__addf(&line, "  %s%s calls/s  overhead %s", exact ? "" : "~", rate, cpu);
	if (now->overhead.budget_ratio >= 0)
		strbuf__addf(&line, " (budget %g%%)", now->overhead.budget_ratio * 100);
	text__cell(out, line.s, 0, STYLE_BOLD, colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}

/* "NAME: N" says what is lost once more. */
static bool is_of_loss(const struct snapshot *s, const char *reason)
{
	for (size_t i = 0; i < s->lost_cnt; i++) {
		size_t len = strlen(s->lost[i].name);

		if (s->lost[i].count && !strncmp(reason, s->lost[i].name, len) &&
		    reason[len] == ':')
			return true;
	}
	return false;
}

/* Since the start, not of the interval: a loss must not be overlooked because it is over. */
static void trouble(const struct snapshot *now, struct strbuf *out, bool colour)
{
	struct strbuf line = STRBUF_INIT, safe = STRBUF_INIT;

	for (size_t i = 0; i < now->lost_cnt; i++)
		if (now->lost[i].count)
			strbuf__addf(&line, "%s%s %" PRIu64,
				     line.len ? ", " : "lost: ", now->lost[i].name,
				     now->lost[i].count);
	for (size_t i = 0; i < now->reason_cnt; i++)
		if (!is_of_loss(now, now->reasons[i]))
			strbuf__addf(&line, "%s%s", line.len ? "; " : "", now->reasons[i]);
	utf8__add_printable(&safe, line.s);
	if (line.len) {
		text__cell(out, safe.s, 0, STYLE_WARM, colour);
		strbuf__addc(out, '\n');
	}
	strbuf__free(&line);
	strbuf__free(&safe);
}

static void live_bytes(const struct snapshot_memory *m, struct strbuf *line)
{
	int64_t bytes = sums__live_bytes(&m->sums);
	char cell[TEXT_CELL];

	memory__bytes(cell, (double)(bytes < 0 ? -bytes : bytes));
	strbuf__addf(line, "live %s%c%s in %+" PRId64 " blocks", m->estimated ? "~" : "",
		     bytes < 0 ? '-' : '+', cell, sums__live_count(&m->sums));
}

/* In the interval. */
static void most_cpu(const struct snapshot *d, struct strbuf *line)
{
	const struct snapshot_fn *most = NULL;
	uint64_t all = 0;

	for (size_t i = 0; i < d->fn_cnt; i++) {
		const struct snapshot_fn *fn = &d->fns[i];
		bool own = !fn->unprobed || fn->origin == FRAME_OWN;

		all += fn->cpu_self_samples;
		if (own &&
		    (most ? fn->cpu_self_samples > most->cpu_self_samples : fn->cpu_self_samples))
			most = fn;
	}
	if (!most)
		return;
	strbuf__addf(line, "%sCPU most in ", line->len ? "  " : "");
	text__name(line, most->name, TOP_COLUMNS);
	strbuf__addf(line, " (%" PRIu64 " of %" PRIu64 " samples)", most->cpu_self_samples, all);
}

/* Since the start. */
static void most_waits(const struct snapshot *now, struct strbuf *line)
{
	char share[TEXT_CELL];
	double part;
	const char *where = off_cpu__top(now->profiles, &part);

	if (!where)
		return;
	text__percent(share, part);
	strbuf__addf(line, "%swaits most in ", line->len ? "  " : "");
	text__name(line, where, TOP_COLUMNS);
	strbuf__addf(line, " (%s)", share);
}

static void put_line(const struct strbuf *line, enum text_style style, bool colour,
		     struct strbuf *out)
{
	if (!line->len)
		return;
	text__cell(out, line->s, 0, style, colour);
	strbuf__addc(out, '\n');
}

/* A line each, at most, of what was asked for beside calls: it is all in the report at the end. */
static void asked_for(const struct snapshot *now, const struct snapshot *d, bool colour,
		      struct strbuf *out)
{
	const struct snapshot_profiles *p = now->profiles;
	struct strbuf line = STRBUF_INIT;
	size_t hanging = 0;

	for (size_t i = 0; i < now->stall_cnt; i++)
		hanging += !now->stalls[i].over_unix_ns;
	if (hanging)
		strbuf__addf(&line, "%zu stall%s: threads hang", hanging, hanging == 1 ? "" : "s");
	put_line(&line, STYLE_HOT, colour, out);
	strbuf__reset(&line);
	if (p && p->of[PROFILE_CPU])
		most_cpu(d, &line);
	if (p && p->of[PROFILE_OFF_CPU])
		most_waits(now, &line);
	put_line(&line, STYLE_PLAIN, colour, out);
	strbuf__reset(&line);
	if (now->memory && now->memory->mode >= MEMORY_LIVE && now->memory->source)
		live_bytes(now->memory, &line);
	put_line(&line, STYLE_PLAIN, colour, out);
	strbuf__free(&line);
}

static void functions(const struct live *l, const struct snapshot *d, unsigned int width,
		      unsigned int max, struct strbuf *out)
{
	struct table t = { .colour = l->colour, .sort = l->sort, .live = true };
	uint32_t *order = snapshot__sorted(d, l->sort);
	char took[TEXT_CELL];
	size_t n = 0;

	for (size_t i = 0; order && i < d->fn_cnt && n < max; i++)
		if (snapshot__all_calls(&d->fns[order[i]]) || d->fns[order[i]].returned)
			order[n++] = order[i];
	if (n) {
		table__layout(&t, d, table_live_cols, width, order, n);
		table__head(&t, "Function", out);
		for (size_t i = 0; i < n; i++)
			table__row(&t, &d->fns[order[i]], out);
	} else {
		text__duration(took, d->window.duration_ns);
		strbuf__addf(out, "no traced function was called in the last %s\n", took);
	}
	free(order);
}

/* ---- how it gets on the screen ---- */

static unsigned int rows_on_screen(const struct live *l, unsigned int columns, unsigned int height)
{
	unsigned int rows = 0;

	for (unsigned int i = 0; i < l->lines; i++)
		rows += l->line_columns[i] > columns ? (l->line_columns[i] + columns - 1) / columns
						     : 1;
	return rows < height ? rows : height - 1;
}

static void go_to_top(struct live *l, struct strbuf *out, unsigned int columns, unsigned int height)
{
	unsigned int up = rows_on_screen(l, columns, height);

	strbuf__addc(out, '\r');
	if (up)
		strbuf__addf(out, "\x1b[%uA", up);
}

/* The visible columns of a line that text__clip made. */
static unsigned int line_width(const char *s)
{
	unsigned int width = 0;
	size_t len = strlen(s), n;

	for (; len; s += n, len -= n) {
		const char *m = *s == '\x1b' ? strchr(s, 'm') : NULL;

		if (m)
			n = (size_t)(m + 1 - s);
		else
			width += utf8__columns(utf8__decode(s, len, &n));
	}
	return width;
}

static void show(struct live *l, const struct strbuf *frame, FILE *tty)
{
	unsigned int columns = text__terminal_columns(tty), height = text__terminal_rows(tty);
	struct strbuf out = STRBUF_INIT, line = STRBUF_INIT;
	unsigned int lines = 0;
	const char *end;

	go_to_top(l, &out, columns, height);
	for (const char *s = frame->s; *s && lines < MAX_LINES && lines + 1 < height; s = end + 1) {
		end = strchr(s, '\n');
		strbuf__reset(&line);
		text__clip(&line, s, (size_t)(end - s), columns);
		l->line_columns[lines++] = line_width(line.s);
		strbuf__add(&out, line.s, line.len);
		/* a full line leaves the cursor on its last column: clearing would eat that */
		if (l->line_columns[lines - 1] < columns)
			strbuf__adds(&out, "\x1b[K");
		strbuf__addc(&out, '\n');
	}
	strbuf__adds(&out, "\x1b[J");
	l->lines = lines;
	put(tty, &out);
	strbuf__free(&out);
	strbuf__free(&line);
}

void live__draw(struct live *l, const struct snapshot *now, const struct snapshot *prev, FILE *tty)
{
	struct strbuf *frame = &l->frame;
	unsigned int height, max;
	struct snapshot *d;

	if (!is_terminal(tty) || !takes_output(tty))
		return;
	d = snapshot__delta(now, prev);
	if (!d)
		return;
	height = text__terminal_rows(tty);
	max = height > 10 ? height - 9 : 1;
	strbuf__reset(frame);
	headline(now, d, frame, l->colour);
	trouble(now, frame, l->colour);
	threads__line(d, l->colour, frame);
	asked_for(now, d, l->colour, frame);
	functions(l, d, text__terminal_columns(tty), max < l->limit ? max : l->limit, frame);
	text__cell(frame, "Ctrl-C: stop tracing, print the report", 0, STYLE_DIM, l->colour);
	strbuf__addc(frame, '\n');
	if (!frame->oom)
		show(l, frame, tty);
	snapshot__free(d);
}

void live__draw_again(struct live *l, FILE *tty)
{
	if (!l->lines && l->frame.len && !l->frame.oom && is_terminal(tty) && takes_output(tty))
		show(l, &l->frame, tty);
}

void live__progress(struct live *l, FILE *out, uint64_t elapsed_ns, uint64_t total_ns,
		    uint64_t calls, double cpu_ratio)
{
	char elapsed[TEXT_CELL], total[TEXT_CELL], count[TEXT_CELL], cpu[TEXT_CELL];
	double done = total_ns && elapsed_ns < total_ns ? (double)elapsed_ns / (double)total_ns : 1;
	bool tty = is_terminal(out);
	struct strbuf line = STRBUF_INIT, clipped = STRBUF_INIT;

	if (tty ? !takes_output(out) : (unsigned int)(done * 4) <= l->quarter)
		return;
	l->quarter = (unsigned int)(done * 4);
	text__duration(elapsed, elapsed_ns < total_ns ? elapsed_ns : total_ns);
	text__duration(total, total_ns);
	text__count(count, calls, 12);
	text__percent(cpu, cpu_ratio);
	strbuf__addf(&line, "tracing: %.0f%%  %s of %s  %s calls  overhead %s of a CPU", done * 100,
		     elapsed, total, count, cpu);
	if (tty) {
		strbuf__addc(&clipped, '\r');
		text__clip(&clipped, line.s, line.len, text__terminal_columns(out) - 1);
		strbuf__adds(&clipped, "\x1b[K");
		l->progress = true;
	} else {
		strbuf__addf(&clipped, "roletrace: %s\n", line.s);
	}
	put(out, &clipped);
	strbuf__free(&line);
	strbuf__free(&clipped);
}

void live__clear(struct live *l, FILE *tty)
{
	struct strbuf out = STRBUF_INIT;

	if (!l->lines && !l->progress)
		return;
	go_to_top(l, &out, text__terminal_columns(tty), text__terminal_rows(tty));
	strbuf__adds(&out, "\x1b[J");
	put(tty, &out);
	l->lines = 0;
	l->progress = false;
	strbuf__free(&out);
}
