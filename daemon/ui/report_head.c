/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The head of the report: what was traced, what that cost the process, how it ended, and why the
 * figures are less than complete.
 */
#include "ui/report_parts.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"

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
	report__sayf(r, STYLE_BOLD, "%s (pid %d), %s from %s", s->target.comm, s->target.pid, took,
		     when);
	if (s->target.exe)
		report__sayf(r, STYLE_PLAIN, "%s%s%.12s", s->target.exe,
			     s->target.build_id ? ", build " : "",
			     s->target.build_id ? s->target.build_id : "");
	report__sayf(r, STYLE_PLAIN, "roletrace %s, Linux %s, exits by %s%s%s",
		     s->tool.version ? s->tool.version : "?", s->tool.kernel ? s->tool.kernel : "?",
		     s->tool.exit_mode ? s->tool.exit_mode : "?", s->profile ? ", profile " : "",
		     s->profile ? s->profile : "");
}

static void price_of_probes(const struct snapshot *s, struct strbuf *line)
{
	char hits[TEXT_CELL], each[TEXT_CELL], low[TEXT_CELL], high[TEXT_CELL], cpu[TEXT_CELL];

	text__count(hits, s->overhead.hits, 20);
	text__duration(each, s->overhead.ns_per_hit);
	text__duration(low, s->overhead.ns_per_hit_low);
	text__duration(high, s->overhead.ns_per_hit_high);
	text__percent(cpu, s->overhead.probes_ratio);
	if (s->overhead.hits)
		strbuf__addf(line, "; probes %s: %s hit%s, %s each", cpu, hits,
			     plural__s(s->overhead.hits), each);
	if (s->overhead.hits && s->overhead.ns_per_hit_high)
		strbuf__addf(line, " (caches warm %s, cold %s)", low, high);
}

static void price_of_rest(const struct snapshot *s, struct strbuf *line)
{
	const struct {
		const char *name;
		double ratio;
	} parts[] = { { "threads", s->overhead.threads_ratio },
		      { "profile", s->overhead.profile_ratio },
		      { "growth", s->overhead.growth_ratio } };
	char cpu[TEXT_CELL];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		text__percent(cpu, parts[i].ratio);
		if (parts[i].ratio > 0)
			strbuf__addf(line, "; %s %s", parts[i].name, cpu);
	}
	text__percent(cpu, s->overhead.tool_ratio);
	if (!isnan(s->overhead.tool_ratio))
		strbuf__addf(line, "; apart, roletrace itself %s", cpu);
}

/* In one line where there is room. */
static void price_parts(struct report *r)
{
	struct strbuf probes = STRBUF_INIT, rest = STRBUF_INIT;

	price_of_probes(r->s, &probes);
	price_of_rest(r->s, &rest);
	if (!probes.len || utf8__width(probes.s) + utf8__width(rest.s) <= r->width) {
		strbuf__adds(&probes, rest.s);
		strbuf__reset(&rest);
	}
	if (probes.len)
		report__sayf(r, STYLE_PLAIN, "  %s", probes.s + 2);
	if (rest.len)
		report__sayf(r, STYLE_PLAIN, "  %s", rest.s + 2);
	strbuf__free(&probes);
	strbuf__free(&rest);
}

/* A probe within n open calls is taken off each of them. */
static void corrections(struct report *r)
{
	const struct snapshot *s = r->s;
	double took_ns = (double)s->overhead.hits * (double)s->overhead.ns_per_hit;
	char floor[TEXT_CELL], off[TEXT_CELL];

	text__duration(floor, s->overhead.floor_ns);
	text__duration(off, s->overhead.corrected_ns);
	if (!s->overhead.corrected_ns) {
		report__sayf(r, STYLE_PLAIN, "Probe floor: an empty call shows %s", floor);
		return;
	}
	report__sayf(r, STYLE_PLAIN,
		     "Probe floor: an empty call shows %s; corrected for %s of nested probes",
		     floor, off);
	if ((double)s->overhead.corrected_ns > took_ns)
		report__say(
			r, STYLE_PLAIN,
			"  (more than they took: each counts once for every open call around it)");
}

static void price(struct report *r)
{
	const struct snapshot *s = r->s;
	char cpu[TEXT_CELL], budget[TEXT_CELL], own[TEXT_CELL] = "";

	text__percent(cpu, s->overhead.cpu_ratio);
	/* prices are estimates: of a process that does little else they may be more than all */
	text__percent(own, fmin(s->overhead.process_ratio, 1));
	snprintf(budget, sizeof(budget), s->overhead.budget_ratio < 0 ? "no budget" : "budget %g%%",
		 s->overhead.budget_ratio * 100);
	if (!isnan(s->overhead.process_ratio))
		report__sayf(r, STYLE_PLAIN,
			     "Overhead: %s of a CPU (%s), %s of what the process used", cpu, budget,
			     own);
	else
		report__sayf(r, STYLE_PLAIN, "Overhead: %s of a CPU (%s)", cpu, budget);
	price_parts(r);
	if (s->overhead.floor_ns || s->overhead.corrected_ns)
		corrections(r);
}

static void ending(struct report *r)
{
	const struct snapshot *s = r->s;
	const char *name;

	switch (s->target.end) {
	case END_NOT:
		break;
	case END_EXIT:
		report__sayf(r, STYLE_PLAIN, "The target exited with code %d.", s->target.end_code);
		break;
	case END_SIGNAL:
		name = sigabbrev_np(s->target.end_code);
		report__sayf(r, STYLE_WARM, "The target was killed by signal %d%s%s%s.",
			     s->target.end_code, name ? " (SIG" : "", name ? name : "",
			     name ? ")" : "");
		break;
	case END_EXEC:
		report__say(r, STYLE_WARM,
			    "The target exec'd another program: tracing ended there.");
		break;
	}
}

static void health(struct report *r)
{
	for (size_t i = 0; i < r->s->reason_cnt; i++)
		report__sayf(r, STYLE_HOT, "Degraded: %s", r->s->reasons[i]);
}

void report__head(struct report *r)
{
	what(r);
	price(r);
	ending(r);
	health(r);
}
