/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/table.h"

#include <stdio.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/marks.h"

bool table__near_floor(const struct snapshot_fn *fn, uint64_t ns)
{
	return ns <= 2 * fn->floor_ns && fn->floor_ns;
}

#define DURATION_COLUMNS 6

static void none(char out[TEXT_CELL], enum text_style *style)
{
	strcpy(out, "-");
	*style = STYLE_DIM;
}

/* "~": an estimate; ">": at least that. */
static char basis_mark(enum snapshot_basis basis)
{
	return basis == BASIS_EXACT ? '\0' : basis == BASIS_ESTIMATED ? '~' : '>';
}

static void put_before(char mark, char out[TEXT_CELL])
{
	if (mark && out[0] != mark) {
		memmove(out + 1, out, strlen(out) + 1);
		out[0] = mark;
	}
}

/* Takes a decimal off what a mark made too wide. */
static void shorten(char out[TEXT_CELL], unsigned int columns)
{
	char *dot = strchr(out, '.'), *at = dot ? dot + 1 + strspn(dot + 1, "0123456789") : NULL;

	if (!dot || utf8__width(out) <= columns)
		return;
	at = at - dot > 2 ? at - 1 : dot;
	memmove(at, at == dot ? dot + 2 : at + 1, strlen(at == dot ? dot + 2 : at + 1) + 1);
}

static void latency(const struct snapshot_fn *fn, uint64_t ns, char out[TEXT_CELL],
		    enum text_style *style)
{
	if (!snapshot__timed(fn) || !fn->returned) {
		none(out, style);
	} else if (table__near_floor(fn, ns)) {
		strcpy(out, "≈floor");
		*style = STYLE_FLOOR;
	} else {
		text__duration(out, ns);
		if (snapshot__overcorrected(fn)) {
			put_before('<', out);
			shorten(out, DURATION_COLUMNS);
			*style = STYLE_FLOOR;
		}
	}
}

static void quantile(const struct snapshot_fn *fn, double q, char out[TEXT_CELL],
		     enum text_style *style)
{
	if (!hist__count(&fn->hist))
		none(out, style);
	else
		latency(fn, snapshot__quantile_ns(fn, q), out, style);
}

/*
 * What stands before a sum. Of calls about as short as the floor it is mostly the probes', and
 * where more was taken off than can be trusted it may be that: at most, not about. Of calls that
 * were not all timed it is an estimate. At least some of what is at most says nothing.
 */
static bool mark_sum(const struct snapshot_fn *fn, uint64_t mean_ns, char out[TEXT_CELL],
		     enum text_style *style)
{
	enum snapshot_basis basis = snapshot__time_basis(fn);
	bool at_most = table__near_floor(fn, mean_ns) || snapshot__overcorrected(fn);

	if (at_most && basis == BASIS_LOWER_BOUND) {
		none(out, style);
		return false;
	}
	put_before(at_most ? '<' : basis_mark(basis), out);
	if (at_most)
		*style = STYLE_FLOOR;
	return true;
}

static void sum(const struct snapshot_fn *fn, enum snapshot_time which, uint64_t seen_ns,
		char out[TEXT_CELL], enum text_style *style)
{
	if (!snapshot__timed(fn) || !fn->returned) {
		none(out, style);
		return;
	}
	text__duration(out, snapshot__time_ns(fn, which));
	mark_sum(fn, seen_ns / fn->returned, out, style);
}

static void marked_count(char out[TEXT_CELL], uint64_t n, enum snapshot_basis basis,
			 unsigned int columns)
{
	text__count(out, n, columns - (basis != BASIS_EXACT));
	put_before(basis_mark(basis), out);
}

static void cell_calls(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		       enum text_style *style)
{
	marked_count(out, snapshot__all_calls(fn), snapshot__calls_basis(fn), 8);
}

static void cell_rate(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		      enum text_style *style)
{
	double calls = (double)snapshot__all_calls(fn),
	       per_s = s->window.duration_ns ? calls * 1e9 / (double)s->window.duration_ns : 0;
	enum snapshot_basis basis = snapshot__calls_basis(fn);

	if (per_s > 0 && per_s < 9.995)
		snprintf(out, TEXT_CELL, "%.*s%.2f", basis != BASIS_EXACT,
			 (char[]){ basis_mark(basis), '\0' }, per_s);
	else
		marked_count(out, (uint64_t)(per_s + 0.5), basis, 7);
}

static void cell_mean(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		      enum text_style *style)
{
	latency(fn, snapshot__mean_of_all_ns(fn), out, style);
}

static void cell_p50(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style)
{
	quantile(fn, 0.50, out, style);
}

static void cell_p95(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style)
{
	quantile(fn, 0.95, out, style);
}

static void cell_p99(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style)
{
	quantile(fn, 0.99, out, style);
}

static void cell_min(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style)
{
	latency(fn, fn->min_ns, out, style);
}

static void cell_max(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		     enum text_style *style)
{
	latency(fn, fn->max_ns, out, style);
}

static void cell_total(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		       enum text_style *style)
{
	sum(fn, TIME_TOTAL, fn->total_ns, out, style);
}

static void cell_self(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		      enum text_style *style)
{
	sum(fn, TIME_SELF, fn->self_ns, out, style);
}

static void cell_share(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		       enum text_style *style)
{
	double share = snapshot__share(s, fn);

	if (!snapshot__timed(fn) || !fn->returned) {
		none(out, style);
		return;
	}
	text__percent(out, share);
	*style = share >= 0.5 ? STYLE_HOT : share >= 0.1 ? STYLE_WARM : STYLE_PLAIN;
	mark_sum(fn, fn->total_ns / fn->returned, out, style);
}

static void cell_unwound(const struct snapshot *s, const struct snapshot_fn *fn,
			 char out[TEXT_CELL], enum text_style *style)
{
	if (snapshot__timed(fn) && fn->unwound)
		text__count(out, fn->unwound, 7);
	else
		none(out, style);
}

static void cell_in_flight(const struct snapshot *s, const struct snapshot_fn *fn,
			   char out[TEXT_CELL], enum text_style *style)
{
	if (snapshot__timed(fn) && fn->in_flight)
		text__count(out, fn->in_flight, 9);
	else
		none(out, style);
}

/* What its probes took from the target. */
static void cell_cost(const struct snapshot *s, const struct snapshot_fn *fn, char out[TEXT_CELL],
		      enum text_style *style)
{
	if (fn->cost_ns && s->window.duration_ns)
		text__percent(out, (double)fn->cost_ns / (double)s->window.duration_ns);
	else
		none(out, style);
}

#define NO_SORT SORT_NAME
#define REPORT_COLS(calls)                                                                         \
	{ calls, 8, 0, SORT_CALLS, cell_calls }, { "Avg", 6, 60, SORT_MEAN, cell_mean },           \
		{ "P50", 6, 0, NO_SORT, cell_p50 }, { "P95", 6, 52, SORT_P95, cell_p95 },          \
		{ "P99", 6, 72, NO_SORT, cell_p99 }, { "Max", 6, 100, SORT_MAX, cell_max },        \
		{ "Min", 6, 124, NO_SORT, cell_min }, { "Total", 7, 0, SORT_TOTAL, cell_total },   \
		{ "% Total", 7, 66, NO_SORT, cell_share },                                         \
		{ "Self", 7, 92, SORT_SELF, cell_self },                                           \
		{ "Unwound", 7, 144, NO_SORT, cell_unwound },                                      \
		{ "In flight", 9, 144, NO_SORT, cell_in_flight },                                  \
		{ "Price", 7, 112, NO_SORT, cell_cost }, { NULL, 0, 0, NO_SORT, NULL },

const struct table_col table_fn_cols[] = { REPORT_COLS("Calls") };
const struct table_col table_async_cols[] = { REPORT_COLS("Polls") };

const struct table_col table_live_cols[] = {
	{ "Calls/s", 7, 0, SORT_CALLS, cell_rate },
	{ "Avg", 6, 0, SORT_MEAN, cell_mean },
	{ "P95", 6, 50, SORT_P95, cell_p95 },
	{ "P99", 6, 100, NO_SORT, cell_p99 },
	{ "Max", 6, 90, SORT_MAX, cell_max },
	{ "% Time", 7, 64, SORT_TOTAL, cell_share },
	{ "Unwound", 7, 110, NO_SORT, cell_unwound },
	{ "In flight", 9, 120, NO_SORT, cell_in_flight },
	{ NULL, 0, 0, NO_SORT, NULL },
};

static unsigned int columns_taken(const struct table *t)
{
	unsigned int taken = t->mark_columns ? t->mark_columns + 1 : 0;

	for (size_t i = 0; i < t->col_cnt; i++)
		taken += t->gap + t->cols[i]->columns;
	return taken;
}

/* A poll function's own name is "f::{{closure}}"; in a list of polls f says as much. */
static void add_name(const struct table *t, const struct snapshot_fn *fn, size_t columns,
		     struct strbuf *out)
{
	static const char closure[] = "::{{closure}}", tag[] = "poll ";
	size_t len = strlen(fn->name), tail = sizeof(closure) - 1;
	struct strbuf name = STRBUF_INIT;

	if (fn->is_async && len > tail && !strcmp(fn->name + len - tail, closure))
		strbuf__add(&name, fn->name, len - tail);
	else
		strbuf__adds(&name, fn->name);
	if (fn->is_async && t->live) {
		strbuf__adds(out, tag);
		columns -= sizeof(tag) - 1;
	}
	text__name(out, name.s, columns);
	strbuf__free(&name);
}

void table__layout(struct table *t, const struct snapshot *s, const struct table_col *cols,
		   unsigned int width, const uint32_t *rows, size_t row_cnt)
{
	struct strbuf name = STRBUF_INIT;
	unsigned int longest = 8, taken;
	char marks[MARKS_MAX];

	t->s = s;
	t->col_cnt = t->mark_columns = 0;
	t->gap = width < 100 ? 1 : 2;
	for (const struct table_col *c = cols; c->title && t->col_cnt < TABLE_MAX_COLS; c++)
		if (width >= c->from || (c->sort == t->sort && c->sort != NO_SORT))
			t->cols[t->col_cnt++] = c;
	for (size_t i = 0; i < row_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[rows[i]];

		marks__of(s, fn, marks);
		if (strlen(marks) > t->mark_columns)
			t->mark_columns = (unsigned int)strlen(marks);
		strbuf__reset(&name);
		add_name(t, fn, 1000, &name);
		if (utf8__width(name.s) > longest)
			longest = (unsigned int)utf8__width(name.s);
	}
	strbuf__free(&name);
	taken = columns_taken(t);
	t->name_columns = width > taken + 12 ? width - taken : 12;
	if (t->name_columns > longest)
		t->name_columns = longest;
}

void table__head(struct table *t, const char *title, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	int first = (int)(t->name_columns + (t->mark_columns ? t->mark_columns + 1 : 0));

	text__cell(&line, title, -first, STYLE_PLAIN, false);
	for (size_t i = 0; i < t->col_cnt; i++)
		text__cell(&line, t->cols[i]->title, (int)(t->gap + t->cols[i]->columns),
			   STYLE_PLAIN, false);
	text__cell(out, line.s, 0, STYLE_BOLD, t->colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}

void table__row(struct table *t, const struct snapshot_fn *fn, struct strbuf *out)
{
	struct strbuf name = STRBUF_INIT;
	char marks[MARKS_MAX];

	add_name(t, fn, t->name_columns, &name);
	text__cell(out, name.s, -(int)t->name_columns, STYLE_PLAIN, t->colour);
	strbuf__free(&name);
	if (t->mark_columns) {
		marks__of(t->s, fn, marks);
		strbuf__addc(out, ' ');
		text__cell(out, marks, -(int)t->mark_columns, STYLE_WARM, t->colour && marks[0]);
	}
	for (size_t i = 0; i < t->col_cnt; i++) {
		enum text_style style = STYLE_PLAIN;
		char cell[TEXT_CELL];

		t->cols[i]->cell(t->s, fn, cell, &style);
		t->near_floor |= style == STYLE_FLOOR;
		text__cell(out, cell, (int)(t->gap + t->cols[i]->columns), style, t->colour);
	}
	strbuf__addc(out, '\n');
}
