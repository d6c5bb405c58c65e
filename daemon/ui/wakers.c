/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/wakers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/place.h"
#include "ui/text.h"

#define NAME_COLUMNS 19u /* a name has at least */
#define MEAN_FROM 70	 /* from so many columns on there is the mean */

struct wake_row {
	const char *waiter, *waker; /* places; NULL: none */
	const char *instead; /* of the waker's, where it has no stack: what it is; "": it has */
	const char *process; /* the name of another one's thread; else "" */
	uint64_t ns, waits;
};

/* What is no thread of the process, by what it is. */
static const char *foreign(const struct snapshot_wake *k)
{
	switch (k->by) {
	case WAKER_INTERRUPT:
		return "[interrupt]";
	case WAKER_PROCESS:
		return "[process]";
	case WAKER_THREAD:
		return k->waker_depth ? "" : "[stack not kept]";
	default:
		return "[unknown]";
	}
}

static int by_pair(const void *a, const void *b)
{
	const struct wake_row *x = a, *y = b;
	int diff = strcmp(x->waiter ?: "", y->waiter ?: "");

	diff = diff ?: strcmp(x->waker ?: "", y->waker ?: "");
	diff = diff ?: strcmp(x->instead, y->instead);
	return diff ?: strcmp(x->process, y->process);
}

static int by_time(const void *a, const void *b)
{
	const struct wake_row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return by_pair(a, b);
}

/* Equal pairs become one. */
static size_t merge(struct wake_row *rows, size_t all)
{
	size_t cnt = 0;

	qsort(rows, all, sizeof(*rows), by_pair);
	for (size_t i = 0; i < all; i++) {
		if (cnt && !by_pair(&rows[cnt - 1], &rows[i])) {
			rows[cnt - 1].ns += rows[i].ns;
			rows[cnt - 1].waits += rows[i].waits;
		} else {
			rows[cnt++] = rows[i];
		}
	}
	qsort(rows, cnt, sizeof(*rows), by_time);
	return cnt;
}

/* NULL: no memory. */
static struct wake_row *add_up(const struct snapshot_profiles *p, const struct snapshot_profile *of,
			       size_t *cnt, uint64_t *waits)
{
	struct wake_row *rows = calloc(of->wakes.cnt + 1, sizeof(*rows));

	*waits = 0;
	for (size_t i = 0; rows && i < of->wakes.cnt; i++) {
		const struct snapshot_wake *k = &of->wakes.data[i];

		rows[i].waiter = place__name(p, of->refs.data + k->first, k->depth);
		rows[i].waker = place__name(p, of->refs.data + k->waker_first, k->waker_depth);
		rows[i].instead = foreign(k);
		rows[i].process = k->name ?: "";
		rows[i].ns = k->value;
		rows[i].waits = k->count;
		*waits += k->count;
	}
	*cnt = rows ? merge(rows, of->wakes.cnt) : 0;
	return rows;
}

/* ---- text ---- */

static void put_waker(struct strbuf *out, const struct wake_row *row, size_t columns)
{
	struct strbuf name = STRBUF_INIT;

	if (*row->process)
		strbuf__addf(&name, "[process: %s]", row->process);
	if (*row->process)
		text__name(out, name.s, columns);
	else if (*row->instead)
		strbuf__adds(out, row->instead);
	else
		place__put(out, row->waker, columns);
	strbuf__free(&name);
}

/* How wide the waiters' column has to be; up to half of what there is for names. */
static size_t waiter_columns(const struct wake_row *rows, size_t cnt, size_t all)
{
	size_t most = all / 2 > NAME_COLUMNS ? all / 2 : NAME_COLUMNS, widest = NAME_COLUMNS;

	for (size_t i = 0; i < cnt; i++) {
		struct strbuf name = STRBUF_INIT;
		size_t width;

		place__put(&name, rows[i].waiter, most);
		width = utf8__width(name.s);
		widest = width > widest ? width : widest;
		strbuf__free(&name);
	}
	return widest;
}

static void head(const struct hot_view *v, size_t waiter, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__addf(&line, "%8s %8s%s  %-*s  %s", "Time", "Waits",
		     v->width >= MEAN_FROM ? "     Mean" : "", (int)waiter, "Waiting in",
		     "Woken by");
	text__cell(out, line.s, 0, STYLE_BOLD, v->colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}

static void put_figures(const struct wake_row *row, bool with_mean, struct strbuf *out)
{
	char cell[TEXT_CELL];

	text__duration(cell, row->ns);
	text__cell(out, cell, 8, STYLE_PLAIN, false);
	text__count(cell, row->waits, 8);
	text__cell(out, cell, 9, STYLE_PLAIN, false);
	if (!with_mean)
		return;
	text__duration(cell, row->waits ? row->ns / row->waits : 0);
	text__cell(out, cell, 9, STYLE_PLAIN, false);
}

static void put_row(const struct wake_row *row, const struct hot_view *v, size_t waiter,
		    size_t waker, struct strbuf *out)
{
	struct strbuf name = STRBUF_INIT;

	put_figures(row, v->width >= MEAN_FROM, out);
	strbuf__adds(out, "  ");
	place__put(&name, row->waiter, waiter);
	text__cell(out, name.s, -(int)waiter, STYLE_PLAIN, false);
	strbuf__adds(out, "  ");
	put_waker(out, row, waker);
	strbuf__addc(out, '\n');
	strbuf__free(&name);
}

static void table(const struct wake_row *rows, size_t cnt, const struct hot_view *v,
		  struct strbuf *out)
{
	size_t shown = cnt < v->wakers ? cnt : v->wakers;
	size_t cells = v->width >= MEAN_FROM ? 30 : 21; /* the figures, and between the names */
	size_t names = v->width > cells ? v->width - cells : 0;
	size_t waiter = waiter_columns(rows, shown, names);
	size_t waker = names > waiter + NAME_COLUMNS ? names - waiter : NAME_COLUMNS;

	head(v, waiter, out);
	for (size_t i = 0; i < shown; i++)
		put_row(&rows[i], v, waiter, waker, out);
	if (shown < cnt)
		strbuf__addf(out, "... and %zu more\n", cnt - shown);
}

void wakers__rows(const struct snapshot_profiles *p, const struct snapshot_profile *of,
		  const struct hot_view *v, struct strbuf *out)
{
	uint64_t waits;
	size_t cnt;
	struct wake_row *rows = of->has_wakes ? add_up(p, of, &cnt, &waits) : NULL;

	if (of->has_wakes && !rows)
		out->oom = true;
	if (rows && cnt) {
		text__gap(out);
		strbuf__addf(out, "Who ended %" PRIu64 " of these waits, by time\n", waits);
		table(rows, cnt, v, out);
	}
	if (of->wakes_lost)
		strbuf__addf(out,
			     "  %" PRIu64 " more waits ended: no space left for who ended them\n",
			     of->wakes_lost);
	free(rows);
}
