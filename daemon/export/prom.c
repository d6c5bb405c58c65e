/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prometheus' text format, version 0.0.4, for the textfile collector of node_exporter
 * (docs/formats.md). Base units; no time stamps, which that collector refuses.
 *
 * That collector drops a whole file for one bad line; and of series that are there twice, in one
 * file or two, all but one, which only its log tells. So each series carries comm and pid, for
 * several roletraces may write there; label values are valid UTF-8, escaped, and different for
 * different functions even where what made the names differ could not be shown; and the number of
 * functions is bounded, the rest counted. HELP texts may not change: where two files differ in
 * one, the series of one of them are dropped.
 *
 * Polls of async functions have metrics of their own, so that nobody takes them for latencies.
 *
 * Here are the whole document and the series of the target; prom_rows.c chooses functions and names
 * them; prom_functions.c, prom_memory.c and prom_threads.c write their parts.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/strbuf.h"
#include "export/prom.h"
#include "snapshot/snapshot.h"

struct prom {
	const struct snapshot *s;
	struct strbuf *out;
	struct strbuf origin; /* 'comm="...",pid="..."' */
	struct prom_rows called, sampled;
};

/* ---- one series per target ---- */

static void add_series(struct prom *p, const char *metric, const char *type, const char *help)
{
	prom__head(p->out, metric, type, help);
	strbuf__addf(p->out, "%s{%s} ", metric, p->origin.s);
}

static void add_uint(struct prom *p, const char *metric, const char *type, uint64_t v,
		     const char *help)
{
	prom__uint(p->out, p->origin.s, metric, type, v, help);
}

static void add_seconds(struct prom *p, const char *metric, const char *type, uint64_t ns,
			const char *help)
{
	add_series(p, metric, type, help);
	prom__seconds(p->out, ns);
	strbuf__addc(p->out, '\n');
}

static void add_real(struct prom *p, const char *metric, double v, const char *help)
{
	add_series(p, metric, "gauge", help);
	if (isfinite(v))
		strbuf__addf(p->out, "%.15g\n", v);
	else
		strbuf__adds(p->out, "NaN\n");
}

static void add_target(struct prom *p)
{
	const struct snapshot *s = p->s;
	const struct {
		const char *name, *value;
	} labels[] = {
		{ "exe", s->target.exe },	    { "build_id", s->target.build_id },
		{ "version", s->tool.version },	    { "kernel", s->tool.kernel },
		{ "exit_mode", s->tool.exit_mode }, { "profile", s->profile },
	};

	prom__head(p->out, "roletrace_target_info", "gauge", "What is traced, by what; always 1.");
	strbuf__addf(p->out, "roletrace_target_info{%s", p->origin.s);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		strbuf__addc(p->out, ',');
		prom__label(p->out, labels[i].name, labels[i].value);
	}
	strbuf__adds(p->out, "} 1\n");
	add_uint(p, "roletrace_target_up", "gauge", s->target.end == END_NOT,
		 "1 while the target lives, 0 once it has ended.");
	add_seconds(p, "roletrace_target_start_time_seconds", "gauge", s->target.start_time_ns,
		    "When the target started, unix time.");
}

static void add_window(struct prom *p)
{
	const struct snapshot *s = p->s;

	add_uint(p, "roletrace_tracing", "gauge", !s->window.settled,
		 "1 while tracing goes on, 0 in the last file of a run.");
	add_seconds(p, "roletrace_window_start_time_seconds", "gauge", s->window.start_unix_ns,
		    "When counting began, unix time.");
	add_seconds(p, "roletrace_window_end_time_seconds", "gauge", s->window.end_unix_ns,
		    "When these figures were read, unix time: old when nobody writes any more.");
	add_seconds(p, "roletrace_window_seconds_total", "counter", s->window.duration_ns,
		    "Length of the window the figures are of.");
}

static void add_lost(struct prom *p)
{
	static const char metric[] = "roletrace_lost_total";

	add_uint(p, "roletrace_healthy", "gauge", p->s->reason_cnt == 0,
		 "0 when the figures are less than complete; why is in roletrace_lost_total and "
		 "roletrace_functions_shed.");
	if (p->s->lost_cnt)
		prom__head(p->out, metric, "counter",
			   "Events that were missed, by the way they were.");
	for (size_t i = 0; i < p->s->lost_cnt; i++) {
		strbuf__addf(p->out, "%s{", metric);
		prom__label(p->out, "reason", p->s->lost[i].name);
		strbuf__addf(p->out, ",%s} %" PRIu64 "\n", p->origin.s, p->s->lost[i].count);
	}
}

static void add_overhead(struct prom *p)
{
	const struct snapshot *s = p->s;
	double cpu_ns = s->overhead.cpu_ratio * (double)s->window.duration_ns;

	add_uint(p, "roletrace_overhead_hits_total", "counter", s->overhead.hits,
		 "Probes that fired.");
	add_seconds(p, "roletrace_overhead_cpu_seconds_total", "counter",
		    cpu_ns >= 0 && cpu_ns < 0x1p63 ? (uint64_t)cpu_ns : 0,
		    "CPU time that the probes took from the target, by measured prices.");
	add_real(p, "roletrace_overhead_cpu_ratio", s->overhead.cpu_ratio,
		 "The same over the whole window; 1 is one CPU.");
	if (s->overhead.budget_ratio >= 0)
		add_real(p, "roletrace_overhead_budget_ratio", s->overhead.budget_ratio,
			 "What it may be at most.");
	if (!isnan(s->overhead.tool_ratio)) {
		add_seconds(p, "roletrace_tool_cpu_seconds_total", "counter",
			    s->overhead.tool_cpu_ns,
			    "CPU time that roletrace itself used since the attach.");
		add_real(p, "roletrace_tool_cpu_ratio", s->overhead.tool_ratio,
			 "The same over that time; 1 is one CPU.");
	}
	add_seconds(p, "roletrace_overhead_corrected_seconds_total", "counter",
		    s->overhead.corrected_ns,
		    "Taken off all durations for probes that ran inside them.");
	add_seconds(p, "roletrace_probe_floor_seconds", "gauge", s->overhead.floor_ns,
		    "What an empty call shows: durations near it are no latencies.");
}

static void add_census(struct prom *p)
{
	add_uint(p, "roletrace_functions_traced", "gauge", snapshot__probed(p->s),
		 "Functions that have or had probes.");
	add_uint(p, "roletrace_functions_called", "gauge", p->called.all_cnt,
		 "Of these, functions that were called.");
	add_uint(p, "roletrace_functions_unlisted", "gauge", p->called.all_cnt - p->called.cnt,
		 "Of these, functions without series of their own here: only those with the most "
		 "time have some.");
	add_uint(p, "roletrace_functions_unlisted_calls", "gauge", p->called.unlisted_calls,
		 "Calls of the functions without series.");
	add_uint(p, "roletrace_functions_shed", "gauge", p->s->overhead.shed_fns,
		 "Functions that lost their probes to keep to the budget.");
	add_uint(p, "roletrace_functions_skipped", "gauge", p->s->skip_cnt,
		 "Functions that were chosen and could not be probed.");
}
static void compose(struct prom *p)
{
	add_target(p);
	add_window(p);
	add_lost(p);
	add_overhead(p);
	add_census(p);
	prom__memory(p->s, p->origin.s, p->out);
	prom__functions(&p->called, p->out);
	prom__cpu(p->s, p->origin.s, &p->sampled, p->out);
	prom__threads(p->s, p->origin.s, p->out);
}

static int render(const struct snapshot *s, struct strbuf *out)
{
	struct prom p = { .s = s, .out = out, .origin = STRBUF_INIT };
	int err;

	prom__label(&p.origin, "comm", s->target.comm);
	strbuf__addf(&p.origin, ",pid=\"%d\"", s->target.pid);
	err = prom_rows__called(&p.called, s, p.origin.s);
	err = err ?: prom_rows__sampled(&p.sampled, s, p.origin.s);
	if (!err)
		compose(&p);
	if (!err && (out->oom || p.origin.oom))
		err = -ENOMEM;
	prom_rows__free(&p.called);
	prom_rows__free(&p.sampled);
	strbuf__free(&p.origin);
	return err;
}

const struct exporter export_prom = { .name = "prom", .suffix = ".prom", .render = render };
