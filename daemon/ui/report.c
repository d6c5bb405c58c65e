/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/marks.h"
#include "ui/hot.h"
#include "ui/memory.h"
#include "ui/stalls.h"
#include "ui/table.h"
#include "ui/text.h"
#include "ui/threads.h"

#define EDGES_SHOWN 5
#define SKIPPED_SHOWN 3
#define UNCALLED_NAMED 3
#define SHED_SHOWN 10u
#define HOT_ROWS 10

struct report {
	const struct snapshot *s;
	const struct report_opts *opts;
	unsigned int width;
	bool colour;
	uint32_t *order; /* functions that were called, as asked for */
	size_t order_cnt;
	struct strbuf text;
};

static void say(struct report *r, enum text_style style, const char *line)
{
	struct strbuf safe = STRBUF_INIT;

	utf8__add_printable(&safe, line);
	text__cell(&r->text, safe.s, 0, style, r->colour);
	strbuf__addc(&r->text, '\n');
	strbuf__free(&safe);
}

static __attribute__((format(printf, 3, 4))) void sayf(struct report *r, enum text_style style,
						       const char *fmt, ...)
{
	va_list ap;
	char *line;

	va_start(ap, fmt);
	if (vasprintf(&line, fmt, ap) >= 0) {
		say(r, style, line);
		free(line);
	} else {
		r->text.oom = true;
	}
	va_end(ap);
}

static void gap(struct report *r)
{
	text__gap(&r->text);
}

/* ---- what was traced, and its price ---- */

static void local_time(char out[TEXT_CELL], uint64_t unix_ns)
{
	time_t t = (time_t)(unix_ns / NS_PER_SEC);
	struct tm tm;

	if (!localtime_r(&t, &tm) || !strftime(out, TEXT_CELL, "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(out, "?");
}

static void what(struct report *r)
{
	const struct snapshot *s = r->s;
	char when[TEXT_CELL], took[TEXT_CELL];

	local_time(when, s->window.start_unix_ns);
	text__duration(took, s->window.duration_ns);
	sayf(r, STYLE_BOLD, "%s (pid %d), %s from %s", s->target.comm, s->target.pid, took, when);
	if (s->target.exe)
		sayf(r, STYLE_PLAIN, "%s%s%.12s", s->target.exe,
		     s->target.build_id ? ", build " : "",
		     s->target.build_id ? s->target.build_id : "");
	sayf(r, STYLE_PLAIN, "roletrace %s, Linux %s, exits by %s%s%s",
	     s->tool.version ? s->tool.version : "?", s->tool.kernel ? s->tool.kernel : "?",
	     s->tool.exit_mode ? s->tool.exit_mode : "?", s->profile ? ", profile " : "",
	     s->profile ? s->profile : "");
}

static void price_parts(struct report *r)
{
	const struct snapshot *s = r->s;
	const struct {
		const char *name;
		double ratio;
	} parts[] = { { "threads", s->overhead.threads_ratio },
		      { "profile", s->overhead.profile_ratio },
		      { "growth", s->overhead.growth_ratio } };
	char hits[TEXT_CELL], each[TEXT_CELL], low[TEXT_CELL], high[TEXT_CELL], cpu[TEXT_CELL];
	struct strbuf line = {};

	text__count(hits, s->overhead.hits, 20);
	text__duration(each, s->overhead.ns_per_hit);
	text__duration(low, s->overhead.ns_per_hit_low);
	text__duration(high, s->overhead.ns_per_hit_high);
	text__percent(cpu, s->overhead.probes_ratio);
	if (s->overhead.hits)
		strbuf__addf(&line, "; probes %s: %s hits, %s each", cpu, hits, each);
	if (s->overhead.hits && s->overhead.ns_per_hit_high)
		strbuf__addf(&line, " (caches warm %s, cold %s)", low, high);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		text__percent(cpu, parts[i].ratio);
		if (parts[i].ratio > 0)
			strbuf__addf(&line, "; %s %s", parts[i].name, cpu);
	}
	if (line.len)
		sayf(r, STYLE_PLAIN, "  %s", line.s + 2);
	strbuf__free(&line);
}

static void price(struct report *r)
{
	const struct snapshot *s = r->s;
	char cpu[TEXT_CELL], budget[TEXT_CELL], own[TEXT_CELL] = "", floor[TEXT_CELL],
						off[TEXT_CELL];

	text__percent(cpu, s->overhead.cpu_ratio);
	/* prices are estimates: of a process that does little else they may be more than all */
	text__percent(own, fmin(s->overhead.process_ratio, 1));
	snprintf(budget, sizeof(budget), s->overhead.budget_ratio < 0 ? "no budget" : "budget %g%%",
		 s->overhead.budget_ratio * 100);
	if (!isnan(s->overhead.process_ratio))
		sayf(r, STYLE_PLAIN, "Overhead: %s of a CPU (%s), %s of what the process used", cpu,
		     budget, own);
	else
		sayf(r, STYLE_PLAIN, "Overhead: %s of a CPU (%s)", cpu, budget);
	price_parts(r);
	if (!s->overhead.floor_ns && !s->overhead.corrected_ns)
		return;
	text__duration(floor, s->overhead.floor_ns);
	text__duration(off, s->overhead.corrected_ns);
	if (s->overhead.corrected_ns)
		sayf(r, STYLE_PLAIN,
		     "Probe floor: an empty call shows %s; corrected for %s of nested probes",
		     floor, off);
	else
		sayf(r, STYLE_PLAIN, "Probe floor: an empty call shows %s", floor);
}

static void ending(struct report *r)
{
	const struct snapshot *s = r->s;
	const char *name;

	switch (s->target.end) {
	case END_NOT:
		break;
	case END_EXIT:
		sayf(r, STYLE_PLAIN, "The target exited with code %d.", s->target.end_code);
		break;
	case END_SIGNAL:
		name = sigabbrev_np(s->target.end_code);
		sayf(r, STYLE_WARM, "The target was killed by signal %d%s%s%s.", s->target.end_code,
		     name ? " (SIG" : "", name ? name : "", name ? ")" : "");
		break;
	case END_EXEC:
		say(r, STYLE_WARM, "The target exec'd another program: tracing ended there.");
		break;
	}
}

static void health(struct report *r)
{
	for (size_t i = 0; i < r->s->reason_cnt; i++)
		sayf(r, STYLE_HOT, "Degraded: %s", r->s->reasons[i]);
}

/* ---- the tables ---- */

static int find_called(struct report *r)
{
	size_t n = 0;

	r->order = snapshot__sorted(r->s, r->opts->sort);
	if (!r->order)
		return -ENOMEM;
	for (size_t i = 0; i < r->s->fn_cnt; i++)
		if (snapshot__all_calls(&r->s->fns[r->order[i]]) ||
		    r->s->fns[r->order[i]].in_flight)
			r->order[n++] = r->order[i];
	r->order_cnt = n;
	return 0;
}

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
		gap(r);
		if (async)
			say(r, STYLE_PLAIN,
			    "Async functions: each call is one poll (time on a thread, not until "
			    "ready)");
		table__layout(&t, r->s, async ? table_async_cols : table_fn_cols, r->width, rows,
			      shown);
		table__head(&t, async ? "Async function" : "Function", &r->text);
		for (size_t i = 0; i < shown; i++)
			table__row(&t, &r->s->fns[rows[i]], &r->text);
		if (shown < cnt)
			sayf(r, STYLE_DIM, "... and %zu more", cnt - shown);
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
	sayf(r, STYLE_PLAIN, "  ≈floor  at most twice what an empty call shows (%s%s%s)", from,
	     lo < hi ? " to " : "", lo < hi ? to : "");
	say(r, STYLE_PLAIN, "          and so no true latency; < is at most that");
}

static void legend(struct report *r, bool near_floor)
{
	gap(r);
	say(r, STYLE_PLAIN, "  % Total: 100% is one thread busy in it all the time");
	if (near_floor)
		floor_legend(r);
	marks__legend(r->s, r->order, r->order_cnt, r->width, &r->text);
}

static void edges(struct report *r)
{
	const struct snapshot *s = r->s;
	int side = r->width > 48 ? ((int)r->width - 22) / 2 : 13;
	size_t shown = 0, limit = r->opts->limit ? r->opts->limit : EDGES_SHOWN;
	bool in_part = false;
	char cell[TEXT_CELL];

	for (size_t i = 0; i < s->edge_cnt && shown < limit; i++) {
		const struct snapshot_edge *e = &s->edges[i];
		struct strbuf name = STRBUF_INIT;

		if (e->caller >= s->fn_cnt || e->callee >= s->fn_cnt)
			continue;
		if (!shown++) {
			gap(r);
			text__cell(&name, "Caller → callee", -(2 * side + 3), STYLE_PLAIN, false);
			strbuf__addf(&name, " %8s %7s", "Calls", "Total");
			say(r, STYLE_BOLD, name.s);
			strbuf__reset(&name);
		}
		text__name(&name, s->fns[e->caller].name, (size_t)side);
		strbuf__adds(&name, " → ");
		text__name(&name, s->fns[e->callee].name, (size_t)side);
		text__cell(&r->text, name.s, -(2 * side + 3), STYLE_PLAIN, false);
		text__count(cell, e->calls, 8);
		text__cell(&r->text, cell, 9, STYLE_PLAIN, false);
		if (e->total_ns)
			text__duration(cell, e->total_ns);
		else
			strcpy(cell, "-"); /* recursion: in the outermost call's time already */
		text__cell(&r->text, cell, 8, STYLE_PLAIN, false);
		if (snapshot__in_part(&s->fns[e->caller]) ||
		    snapshot__in_part(&s->fns[e->callee])) {
			strbuf__adds(&r->text, " s");
			in_part = true;
		}
		strbuf__addc(&r->text, '\n');
		strbuf__free(&name);
	}
	if (in_part)
		say(r, STYLE_PLAIN,
		    "  s  of the timed calls only: not all were, to keep to the budget");
}

/* ---- what is not in the tables ---- */

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
		sayf(r, STYLE_WARM, "Lost: %s %" PRIu64 "%s%s%s", l->name, l->count,
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

static void shed_line(struct report *r, const struct snapshot_shed *row)
{
	const struct snapshot_fn *fn = fn_called(r->s, row->name);
	char rate[TEXT_CELL], cost[TEXT_CELL], calls[TEXT_CELL], low[TEXT_CELL], high[TEXT_CELL];

	if (!row->from) {
		sayf(r, STYLE_WARM, "Taken off: %s: %s", row->name, row->reason);
		return;
	}
	text__count(rate, (uint64_t)row->calls_per_s, 12);
	text__percent(cost, row->cost_ratio);
	sayf(r, STYLE_WARM, "Budget: %s: %s -> %s, %s: %s calls/s, timing each costs %s of a CPU",
	     row->name, row->from, row->to, row->reason, rate, cost);
	if (!fn || snapshot__calls_basis(fn) == BASIS_EXACT)
		return;
	text__count(calls, snapshot__all_calls(fn), 12);
	text__count(low, fn->sampled->calls.low, 12);
	text__count(high, fn->sampled->calls.high, 12);
	if (fn->sampled->count == BASIS_LOWER_BOUND)
		sayf(r, STYLE_WARM, "  calls in all: at least %s", calls);
	else if (fn->sampled->calls.high == UINT64_MAX)
		sayf(r, STYLE_WARM, "  calls in all: about %s, no error known", calls);
	else
		sayf(r, STYLE_WARM, "  calls in all: about %s, within %s to %s", calls, low, high);
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
		sayf(r, STYLE_WARM, "  and %zu more functions", left);
}

static bool is_uncalled(const struct snapshot_fn *fn)
{
	return !fn->unprobed && !fn->calls && !fn->in_flight;
}

static void name_line(struct report *r, const char *name)
{
	struct strbuf line = STRBUF_INIT;

	text__name(&line, name, r->width > 24 ? r->width - 2 : 20);
	sayf(r, STYLE_PLAIN, "  %s", line.s ? line.s : "");
	strbuf__free(&line);
}

static void never_called(struct report *r)
{
	size_t cnt = snapshot__probed(r->s) - r->order_cnt;
	bool named = cnt <= UNCALLED_NAMED;

	if (!cnt || !r->order_cnt)
		return;
	sayf(r, STYLE_PLAIN, "%zu traced function%s never called%s", cnt,
	     cnt == 1 ? " was" : "s were", named ? ":" : ".");
	for (size_t i = 0; i < r->s->fn_cnt && named; i++)
		if (is_uncalled(&r->s->fns[i]))
			name_line(r, r->s->fns[i].name);
}

static void left_out(struct report *r)
{
	if (r->opts->left_out)
		sayf(r, STYLE_PLAIN, "Shown: %zu of %zu traced functions, as asked for.",
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
	sayf(r, STYLE_PLAIN, "  %s%s: %s", line.s, times, s->reason);
	strbuf__free(&line);
}

static void skipped(struct report *r)
{
	const struct snapshot *s = r->s;
	size_t same, i = 0;

	if (s->skip_cnt)
		sayf(r, STYLE_PLAIN, "%zu function%s not probed:", s->skip_cnt,
		     s->skip_cnt == 1 ? "" : "s");
	for (size_t shown = 0; i < s->skip_cnt && shown < SKIPPED_SHOWN; shown++, i += same) {
		same = copies_of(s, i);
		skip_line(r, &s->skipped[i], same);
	}
	if (i < s->skip_cnt)
		sayf(r, STYLE_PLAIN, "  and %zu more (`roletrace list` names all)",
		     s->skip_cnt - i);
}

static void nothing(struct report *r)
{
	size_t probed = snapshot__probed(r->s);

	gap(r);
	if (!probed && r->s->thread_cnt)
		say(r, STYLE_PLAIN, "No function was probed.");
	else if (!probed)
		say(r, STYLE_WARM, "Recording nothing: no function was probed.");
	else
		sayf(r, STYLE_WARM, "Recording nothing: none of %zu probed function%s was called.",
		     probed, probed == 1 ? "" : "s");
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
	sayf(r, STYLE_WARM, "Too hot to time within the budget: %s (%s %s calls)%s", hottest->name,
	     hottest->sampled->count == BASIS_LOWER_BOUND ? "at least" : "about", calls, name);
}

static void measured(struct report *r)
{
	bool near_floor = false;

	too_hot(r);

	table(r, false, &near_floor);
	table(r, true, &near_floor);
	legend(r, near_floor);
	edges(r);
	gap(r);
}

static void stalls(struct report *r)
{
	for (size_t i = 0; i < r->s->stall_cnt; i++)
		stalls__describe(&r->s->stalls[i], "Stall: ", r->width, r->colour, &r->text);
	if (r->s->more_stalls)
		sayf(r, STYLE_WARM, "and %zu more stalls", r->s->more_stalls);
}

static void memory(struct report *r)
{
	struct memory_view v = { .width = r->width, .limit = r->opts->limit, .colour = r->colour };

	memory__section(r->s, &v, &r->text);
}

static void hot(struct report *r)
{
	const struct hot_view v = { .width = r->width,
				    .rows = r->opts->limit ? r->opts->limit : HOT_ROWS,
				    .all = r->opts->chosen,
				    .colour = r->colour };

	hot__print(r->s, &v, &r->text);
}

static void compose(struct report *r)
{
	what(r);
	price(r);
	ending(r);
	health(r);
	stalls(r);
	if (r->order_cnt)
		measured(r);
	else if (snapshot__probed(r->s) || !r->s->profiles)
		nothing(r);
	if (r->s->memory)
		memory(r);
	threads__report(r->s, r->width, r->opts->limit, r->colour, &r->text);
	hot(r);
	gap(r);
	lost(r);
	shed(r);
	never_called(r);
	left_out(r);
	skipped(r);
	if (r->s->hint && !r->opts->hint_said)
		say(r, STYLE_BOLD, r->s->hint);
}

int report__print(const struct snapshot *s, const struct report_opts *opts, FILE *out)
{
	struct report r = { .s = s,
			    .opts = opts,
			    .width = opts->width ? opts->width : text__terminal_columns(out),
			    .colour = opts->colour,
			    .text = STRBUF_INIT };
	int err = find_called(&r);

	if (!err) {
		compose(&r);
		if (r.text.oom)
			err = -ENOMEM;
		else if (fwrite(r.text.s, 1, r.text.len, out) != r.text.len || fflush(out))
			err = errno ? -errno : -EIO;
	}
	strbuf__free(&r.text);
	free(r.order);
	return err;
}
