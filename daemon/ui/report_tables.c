/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of functions: calls, polls of async functions, who calls whom. Which columns there is
 * room for and what a cell says is table.c's, what a letter means marks.c's.
 */
#include "ui/report_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/marks.h"
#include "ui/table.h"

#define EDGES_SHOWN 5

static void table(struct report *r, bool async, bool *near_floor)
{
	struct table t = { .colour = r->colour, .sort = r->opts->sort };
	size_t cnt = 0, shown;
	uint32_t *rows;

	rows = malloc((r->order_cnt + 1) * sizeof(*rows));
	if (!rows) {
		r->text.oom = true;
		return;
	}
	for (size_t i = 0; i < r->order_cnt; i++)
		if (r->s->fns[r->order[i]].is_async == async)
			rows[cnt++] = r->order[i];
	shown = r->opts->limit && r->opts->limit < cnt ? r->opts->limit : cnt;
	if (cnt) {
		text__gap(&r->text);
		if (async)
			report__say(r, STYLE_PLAIN,
				    "Async functions: each call is one poll (time on a thread, not "
				    "until "
				    "ready)");
		table__layout(&t, r->s, async ? table_async_cols : table_fn_cols, r->width, rows,
			      shown);
		table__head(&t, async ? "Async function" : "Function", &r->text);
		for (size_t i = 0; i < shown; i++)
			table__row(&t, &r->s->fns[rows[i]], &r->text);
		if (shown < cnt)
			report__sayf(r, STYLE_DIM, "... and %zu more", cnt - shown);
		*near_floor |= t.near_floor;
	}
	free(rows);
}

static void floor_legend(struct report *r)
{
	uint64_t lo = UINT64_MAX, hi = 0;
	char from[TEXT_CELL], to[TEXT_CELL];

	for (size_t i = 0; i < r->order_cnt; i++) {
		uint64_t ns = r->s->fns[r->order[i]].floor_ns;

		lo = ns && ns < lo ? ns : lo;
		hi = ns > hi ? ns : hi;
	}
	text__duration(from, lo);
	text__duration(to, hi);
	report__sayf(r, STYLE_PLAIN, "  ≈floor  at most twice what an empty call shows (%s%s%s)",
		     from, lo < hi ? " to " : "", lo < hi ? to : "");
	report__say(r, STYLE_PLAIN, "          and so no true latency; < is at most that");
}

static void legend(struct report *r, bool near_floor)
{
	text__gap(&r->text);
	report__say(r, STYLE_PLAIN, "  % Total: 100% is one thread busy in it all the time");
	if (near_floor)
		floor_legend(r);
	marks__legend(r->s, r->order, r->order_cnt, r->width, &r->text);
}

/* side: columns of a name at most. */
static void edge_names(const struct report *r, const struct snapshot_edge *e, size_t side,
		       struct strbuf *out)
{
	text__name(out, r->s->fns[e->caller].name, side);
	strbuf__adds(out, " → ");
	text__name(out, r->s->fns[e->callee].name, side);
}

static const char edges_title[] = "Caller → callee";

static size_t widest_edge(const struct report *r, const uint32_t *rows, size_t cnt, size_t side)
{
	size_t widest = utf8__width(edges_title);

	for (size_t i = 0; i < cnt; i++) {
		struct strbuf names = STRBUF_INIT;
		size_t width;

		edge_names(r, &r->s->edges[rows[i]], side, &names);
		width = utf8__width(names.s);
		widest = width > widest ? width : widest;
		strbuf__free(&names);
	}
	return widest;
}

static void edges_head(struct report *r, size_t columns)
{
	struct strbuf line = STRBUF_INIT;

	text__gap(&r->text);
	text__cell(&line, edges_title, -(int)columns, STYLE_PLAIN, false);
	strbuf__addf(&line, " %8s %7s", "Calls", "Total");
	report__say(r, STYLE_BOLD, line.s);
	strbuf__free(&line);
}

/* Whether it is known of some of the calls only. */
static bool edge(struct report *r, const struct snapshot_edge *e, size_t side, size_t columns)
{
	bool in_part = snapshot__in_part(&r->s->fns[e->caller]) ||
		       snapshot__in_part(&r->s->fns[e->callee]);
	struct strbuf names = STRBUF_INIT;
	char cell[TEXT_CELL];

	edge_names(r, e, side, &names);
	text__cell(&r->text, names.s, -(int)columns, STYLE_PLAIN, false);
	strbuf__free(&names);
	text__count(cell, e->calls, 8);
	text__cell(&r->text, cell, 9, STYLE_PLAIN, false);
	if (e->total_ns)
		text__duration(cell, e->total_ns);
	else
		strcpy(cell, "-"); /* recursion: in the outermost call's time already */
	text__cell(&r->text, cell, 8, STYLE_PLAIN, false);
	strbuf__adds(&r->text, in_part ? " s\n" : "\n");
	return in_part;
}

static void edges(struct report *r)
{
	const struct snapshot *s = r->s;
	size_t side = r->width > 48 ? (r->width - 22) / 2 : 13, columns, cnt = 0;
	size_t limit = r->opts->limit ? r->opts->limit : EDGES_SHOWN;
	uint32_t *rows = calloc(s->edge_cnt + 1, sizeof(*rows));
	bool in_part = false;

	if (!rows) {
		r->text.oom = true;
		return;
	}
	for (size_t i = 0; i < s->edge_cnt && cnt < limit; i++)
		if (s->edges[i].caller < s->fn_cnt && s->edges[i].callee < s->fn_cnt)
			rows[cnt++] = (uint32_t)i;
	columns = widest_edge(r, rows, cnt, side);
	if (cnt)
		edges_head(r, columns);
	for (size_t i = 0; i < cnt; i++)
		in_part |= edge(r, &s->edges[rows[i]], side, columns);
	if (in_part)
		report__say(r, STYLE_PLAIN,
			    "  s  of the timed calls only: not all were, to keep to the budget");
	free(rows);
}

/* Hardly any of its calls was timed, and none stands for the others. */
static bool is_too_hot(const struct snapshot_fn *fn)
{
	return fn->sampled && snapshot__calls_basis(fn) != BASIS_EXACT &&
	       (!snapshot__timed(fn) || snapshot__time_basis(fn) == BASIS_LOWER_BOUND);
}

/* The sort by time knows nothing of it: said first. */
static void too_hot(struct report *r)
{
	const struct snapshot_fn *hottest = NULL;
	char calls[TEXT_CELL], name[TEXT_CELL * 4];
	size_t more = 0;

	for (size_t i = 0; i < r->order_cnt; i++) {
		const struct snapshot_fn *fn = &r->s->fns[r->order[i]];

		if (!is_too_hot(fn))
			continue;
		more++;
		if (!hottest || snapshot__all_calls(fn) > snapshot__all_calls(hottest))
			hottest = fn;
	}
	if (!hottest)
		return;
	text__count(calls, snapshot__all_calls(hottest), 12);
	snprintf(name, sizeof(name), more > 1 ? " and %zu more" : "", more - 1);
	report__sayf(r, STYLE_WARM, "Too hot to time within the budget: %s (%s %s calls)%s",
		     hottest->name,
		     hottest->sampled->count == BASIS_LOWER_BOUND ? "at least" : "about", calls,
		     name);
}

void report__tables(struct report *r)
{
	bool near_floor = false;

	too_hot(r);
	table(r, false, &near_floor);
	table(r, true, &near_floor);
	legend(r, near_floor);
	edges(r);
	text__gap(&r->text);
}
