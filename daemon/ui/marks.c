/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/marks.h"

#include <string.h>

#include "base/strbuf.h"
#include "snapshot/snapshot.h"
#include "ui/text.h"

static uint64_t entry_only(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->coverage == COVERAGE_ENTRY_ONLY;
}

static uint64_t windows(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->sampled && fn->sampled->windows;
}

/* A thousandth less than the window is the time between two clock readings. */
static uint64_t shed(const struct snapshot *s, const struct snapshot_fn *fn)
{
	uint64_t window_ns = s->window.duration_ns;

	return !windows(s, fn) && snapshot__timed(fn) && fn->observed_ns &&
	       fn->observed_ns < window_ns - window_ns / 1000;
}

static uint64_t sampled(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return windows(s, fn) || (fn->coverage == COVERAGE_SAMPLED && !shed(s, fn));
}

static uint64_t partly_counted(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return snapshot__calls_basis(fn) != BASIS_EXACT;
}

static uint64_t overcorrected(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return snapshot__overcorrected(fn);
}

static uint64_t unwound(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->unwound;
}

static uint64_t makes_future(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->makes_future;
}

static uint64_t in_flight(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->in_flight > fn->in_flight_stale ? fn->in_flight - fn->in_flight_stale : 0;
}

static uint64_t stale(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->in_flight_stale;
}

static uint64_t tail_exits(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->tail_exits;
}

static uint64_t untimed(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->untimed;
}

/* A few clamped calls are jitter of the probes' price; more than one in 20 is a wrong price. */
static uint64_t clamped(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->clamped > fn->returned / 20 ? fn->clamped : 0;
}

static uint64_t hist_lost(const struct snapshot *s, const struct snapshot_fn *fn)
{
	return fn->hist_lost;
}

static const struct mark {
	char letter;
	bool counts; /* name the functions with how many */
	uint64_t (*weight)(const struct snapshot *s, const struct snapshot_fn *fn);
	const char *text;
} marks[] = {
	{ 'x', false, shed,
	  "not timed all the time, to keep to the budget: > is at least, times are of then" },
	{ 's', false, sampled, "timed in random windows, to keep to the budget: ~ is about" },
	{ 'e', false, entry_only, "entries only: calls are counted, durations not measured" },
	{ 'o', false, partly_counted,
	  "calls not counted all the time, to keep to the budget: ~ is about, > at least" },
	{ 't', false, tail_exits, "ends in a tail jump: what it jumps to is not its time" },
	{ 'a', false, makes_future, "makes a future; what that does is in the row of its polls" },
	{ 'u', true, unwound,
	  "left without returning (a panic, longjmp, a thread's exit), not timed" },
	{ 'i', true, in_flight, "still running at the end, not timed" },
	{ '?', true, stale, "running, or left unseen: no stack tells" },
	{ 'n', true, untimed, "counted, but not timed: see lost" },
	{ 'h', true, hist_lost, "missing in P50 to P99: no histogram space left" },
	{ 'p', false, overcorrected,
	  "the probes inside cost more than is left, and not exactly known: at most that" },
	{ 'c', true, clamped, "shorter than the probes inside cost: counted as 0" },
};

#define MARK_CNT (sizeof(marks) / sizeof(marks[0]))
_Static_assert(MARK_CNT < MARKS_MAX, "marks");

void marks__of(const struct snapshot *s, const struct snapshot_fn *fn, char out[MARKS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < MARK_CNT; i++)
		if (marks[i].weight(s, fn))
			out[n++] = marks[i].letter;
	out[n] = '\0';
}

/* The heaviest row lighter than the one at before (a position in rows; row_cnt: none yet). */
static size_t next_heaviest(const struct snapshot *s, const struct mark *m, const uint32_t *rows,
			    size_t row_cnt, size_t before)
{
	uint64_t limit = before < row_cnt ? m->weight(s, &s->fns[rows[before]]) : UINT64_MAX;
	uint64_t best = 0;
	size_t at = row_cnt;

	for (size_t i = 0; i < row_cnt; i++) {
		uint64_t w = m->weight(s, &s->fns[rows[i]]);
		bool lighter = w < limit || (w == limit && (before >= row_cnt || i > before));

		if (lighter && w > best) {
			best = w;
			at = i;
		}
	}
	return at;
}

static void legend_counts(const struct snapshot *s, const struct mark *m, const uint32_t *rows,
			  size_t row_cnt, unsigned int width, struct strbuf *out)
{
	size_t at = row_cnt, left = 0;
	char count[TEXT_CELL];

	for (size_t i = 0; i < row_cnt; i++)
		left += m->weight(s, &s->fns[rows[i]]) != 0;
	for (int shown = 0; shown < 3 && left; shown++, left--) {
		at = next_heaviest(s, m, rows, row_cnt, at);
		text__count(count, m->weight(s, &s->fns[rows[at]]), 12);
		strbuf__addf(out, "     %s in ", count);
		text__name(out, s->fns[rows[at]].name, width - 8 - (unsigned int)strlen(count) - 1);
		strbuf__addc(out, '\n');
	}
	if (left)
		strbuf__addf(out, "     and in %zu more\n", left);
}

void marks__legend(const struct snapshot *s, const uint32_t *rows, size_t row_cnt,
		   unsigned int width, struct strbuf *out)
{
	for (const struct mark *m = marks; m < marks + MARK_CNT; m++) {
		size_t i = 0;

		while (i < row_cnt && !m->weight(s, &s->fns[rows[i]]))
			i++;
		if (i == row_cnt)
			continue;
		strbuf__addf(out, "  %c  %s\n", m->letter, m->text);
		if (m->counts)
			legend_counts(s, m, rows, row_cnt, width < 60 ? 60 : width, out);
	}
}
