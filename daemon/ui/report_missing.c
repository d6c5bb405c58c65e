/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is not in the tables, said at the report's end: what was lost, and by which way; what lost
 * its probes to keep to the budget; what was never called, left out on request, or not probed.
 */
#include "ui/report_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/plural.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"

#define SKIPPED_SHOWN 3
#define UNCALLED_NAMED 3
#define SHED_SHOWN 10u

static void lost(struct report *r)
{
	static const struct {
		const char *name, *words;
	} known[] = {
		{ "orphan_exits", "calls already running when tracing began: not counted" },
		{ "depth_exceeded", "calls nested too deep to be timed" },
		{ "no_storage", "calls not timed: no memory for a thread's stack" },
		{ "clock_backwards", "calls not timed: the clock went backwards" },
		{ "histogram_full", "calls missing in the quantiles: no space left" },
		{ "edges_full", "calls whose caller is not in the list: no space left" },
		{ "other_stack", "calls on coroutine or signal stacks: no place in the call tree" },
		{ "shed_in_flight", "calls running when their probes were taken away" },
		{ "not_sampled", "calls counted, not timed, to keep to the budget" },
		{ "paths_full", "calls in no call path: no space left" },
		{ "memory_no_storage", "allocator calls not counted: no memory" },
		{ "memory_orphan_exits", "allocator calls already running when tracing began" },
		{ "memory_unread_sizes", "blocks whose size could not be read" },
		{ "memory_no_entry", "blocks without an owner: no kernel memory" },
		{ "sites_disarmed", "probe sites whose breakpoint was overwritten" },
		{ "programs_skipped", "hits the kernel dropped: a probe inside a probe" },
		{ "threads_full", "events of threads beyond those there is space for" },
		{ "futexes_full", "waits at futexes that are not listed: no space left" },
		{ "waits_histogram_full", "waits missing in the quantiles: no space left" },
		{ "switches_skipped", "scheduler events the kernel dropped" },
	};

	for (size_t i = 0; i < r->s->lost_cnt; i++) {
		const struct snapshot_lost *l = &r->s->lost[i];
		const char *words = "";

		if (!l->count)
			continue;
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (!strcmp(known[k].name, l->name))
				words = known[k].words;
		report__sayf(r, STYLE_WARM, "Lost: %s %" PRIu64 "%s%s%s", l->name, l->count,
			     *words ? " (" : "", words, *words ? ")" : "");
	}
}

/* A later line says where the function is now. */
static bool is_superseded(const struct snapshot *s, size_t i)
{
	for (size_t j = i + 1; j < s->overhead.shed_cnt; j++)
		if (!strcmp(s->overhead.shed[j].name, s->overhead.shed[i].name))
			return true;
	return false;
}

static const struct snapshot_fn *fn_called(const struct snapshot *s, const char *name)
{
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (!strcmp(s->fns[i].name, name))
			return &s->fns[i];
	return NULL;
}

static void calls_line(struct report *r, const struct snapshot_fn *fn)
{
	char calls[TEXT_CELL], low[TEXT_CELL], high[TEXT_CELL];

	text__count(calls, snapshot__all_calls(fn), 12);
	text__count(low, fn->sampled->calls.low, 12);
	text__count(high, fn->sampled->calls.high, 12);
	if (fn->sampled->count == BASIS_LOWER_BOUND)
		report__sayf(r, STYLE_WARM, "  calls in all: at least %s", calls);
	else if (fn->sampled->calls.high == UINT64_MAX)
		report__sayf(r, STYLE_WARM, "  calls in all: about %s, no error known", calls);
	else
		report__sayf(r, STYLE_WARM, "  calls in all: about %s, within %s to %s", calls, low,
			     high);
}

static void total_line(struct report *r, const struct snapshot_fn *fn)
{
	const struct snapshot_estimate *t = &fn->sampled->times[TIME_TOTAL];
	char total[TEXT_CELL], low[TEXT_CELL], high[TEXT_CELL];

	text__duration(total, t->value);
	text__duration(low, t->low);
	text__duration(high, t->high);
	if (t->high == UINT64_MAX)
		report__sayf(r, STYLE_WARM, "  total: about %s, no error known", total);
	else
		report__sayf(r, STYLE_WARM, "  total: about %s, within %s to %s", total, low, high);
}

static void shed_line(struct report *r, const struct snapshot_shed *row)
{
	const struct snapshot_fn *fn = fn_called(r->s, row->name);
	char rate[TEXT_CELL], cost[TEXT_CELL];

	if (!row->from) {
		report__sayf(r, STYLE_WARM, "Taken off: %s: %s", row->name, row->reason);
		return;
	}
	text__count(rate, (uint64_t)row->calls_per_s, 12);
	text__percent(cost, row->cost_ratio);
	report__sayf(r, STYLE_WARM,
		     "Budget: %s: %s -> %s, %s: %s calls/s, timing each costs %s of a CPU",
		     row->name, row->from, row->to, row->reason, rate, cost);
	if (fn && snapshot__calls_basis(fn) != BASIS_EXACT)
		calls_line(r, fn);
	if (fn && fn->sampled && snapshot__time_basis(fn) == BASIS_ESTIMATED)
		total_line(r, fn);
}

static void shed(struct report *r)
{
	const struct snapshot *s = r->s;
	size_t shown = 0, left = 0;

	for (size_t i = s->overhead.shed_cnt; i-- > 0;) {
		const struct snapshot_fn *fn = fn_called(s, s->overhead.shed[i].name);

		if (is_superseded(s, i) || (fn && !snapshot__all_calls(fn) && !fn->in_flight))
			continue;
		if (shown++ < SHED_SHOWN)
			shed_line(r, &s->overhead.shed[i]);
		else
			left++;
	}
	if (left)
		report__sayf(r, STYLE_WARM, "  and %zu more function%s", left, plural__s(left));
}

static bool is_uncalled(const struct snapshot_fn *fn)
{
	return !fn->unprobed && !fn->calls && !fn->in_flight;
}

static void name_line(struct report *r, const char *name)
{
	struct strbuf line = STRBUF_INIT;

	text__name(&line, name, r->width > 24 ? r->width - 2 : 20);
	report__sayf(r, STYLE_PLAIN, "  %s", line.s ? line.s : "");
	strbuf__free(&line);
}

static void never_called(struct report *r)
{
	size_t cnt = snapshot__probed(r->s) - r->order_cnt;
	bool named = cnt <= UNCALLED_NAMED;

	if (!cnt || !r->order_cnt)
		return;
	report__sayf(r, STYLE_PLAIN, "%zu traced function%s not called since the attach%s", cnt,
		     cnt == 1 ? " was" : "s were", named ? ":" : ".");
	for (size_t i = 0; i < r->s->fn_cnt && named; i++)
		if (is_uncalled(&r->s->fns[i]))
			name_line(r, r->s->fns[i].name);
}

static void left_out(struct report *r)
{
	if (r->opts->left_out)
		report__sayf(r, STYLE_PLAIN, "Shown: %zu of %zu traced functions, as asked for.",
			     snapshot__probed(r->s), snapshot__probed(r->s) + r->opts->left_out);
}

/* Copies of one function stand one behind the other. */
static size_t copies_of(const struct snapshot *s, size_t i)
{
	size_t cnt = 1;

	while (i + cnt < s->skip_cnt && !strcmp(s->skipped[i + cnt].name, s->skipped[i].name) &&
	       !strcmp(s->skipped[i + cnt].reason, s->skipped[i].reason))
		cnt++;
	return cnt;
}

static void skip_line(struct report *r, const struct snapshot_skip *s, size_t copies)
{
	size_t reason = utf8__width(s->reason);
	struct strbuf line = STRBUF_INIT;
	char times[TEXT_CELL] = "";

	if (copies > 1)
		snprintf(times, sizeof(times), " (x%zu)", copies);
	reason += strlen(times);
	text__name(&line, s->name, r->width > reason + 24 ? r->width - reason - 4 : 20);
	report__sayf(r, STYLE_PLAIN, "  %s%s: %s", line.s, times, s->reason);
	strbuf__free(&line);
}

static void skipped(struct report *r)
{
	const struct snapshot *s = r->s;
	size_t same, i = 0;

	if (s->skip_cnt)
		report__sayf(r, STYLE_PLAIN, "%zu function%s not probed:", s->skip_cnt,
			     s->skip_cnt == 1 ? "" : "s");
	for (size_t shown = 0; i < s->skip_cnt && shown < SKIPPED_SHOWN; shown++, i += same) {
		same = copies_of(s, i);
		skip_line(r, &s->skipped[i], same);
	}
	if (i < s->skip_cnt)
		report__sayf(r, STYLE_PLAIN, "  and %zu more (`roletrace list` names all)",
			     s->skip_cnt - i);
}

void report__missing(struct report *r)
{
	lost(r);
	shed(r);
	never_called(r);
	left_out(r);
	skipped(r);
}
