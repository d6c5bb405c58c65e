/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Series per function: what was counted and measured, what was estimated to keep to the budget, the
 * histograms of durations, and CPU samples. A figure is one row of a table; what is exact and what
 * is estimated have metrics of their own, so that nobody adds the two up. The same holds for calls
 * and for polls of async functions.
 *
 * Bucket bounds are powers of two of 1 ns, the same for all functions, so series can be added up;
 * they are bounds of the snapshot's own buckets too, so every count is exact.
 */
#include "export/prom.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/strbuf.h"
#include "snapshot/snapshot.h"

#define LOWEST_BOUND 10u  /* 2^10 ns = 1.024 µs: below it, all is the probes' own time */
#define HIGHEST_BOUND 35u /* 34.4 s */

/* ---- figures ---- */

enum figure_unit { IN_CALLS, IN_SECONDS };
/* Whose rows: all; only where each call was counted, or timed; only where allocations have owners;
 * and there only what is exact, or is not. */
enum figure_rows {
	ROWS_ALL,
	ROWS_COUNTED,
	ROWS_TIMED,
	ROWS_ALLOCATING,
	ROWS_EXACT,
	ROWS_ESTIMATED,
};

static const struct figure {
	const char *suffix, *type, *help[2]; /* of functions, of polls */
	size_t at;			     /* a uint64_t in struct snapshot_fn */
	enum figure_unit unit;
	bool untimed_too;
	enum figure_rows rows;
} figures[] = {
#define AT(member) offsetof(struct snapshot_fn, member)
	{ "calls_total",
	  "counter",
	  { "Calls, counted at the entry.", "Polls of async functions, counted at the entry." },
	  AT(calls),
	  IN_CALLS,
	  true,
	  ROWS_COUNTED },
	{ "unwound_total",
	  "counter",
	  { "Calls that ended by a panic, longjmp or the thread's end: not timed.",
	    "Polls that ended by a panic, longjmp or the thread's end: not timed." },
	  AT(unwound),
	  IN_CALLS,
	  false,
	  ROWS_ALL },
	{ "untimed_total",
	  "counter",
	  { "Calls that could not be followed to their end.",
	    "Polls that could not be followed to their end." },
	  AT(untimed),
	  IN_CALLS,
	  false,
	  ROWS_ALL },
	{ "in_flight",
	  "gauge",
	  { "Calls that have begun and not ended.", "Polls that have begun and not ended." },
	  AT(in_flight),
	  IN_CALLS,
	  false,
	  ROWS_ALL },
	{ "active_seconds_total",
	  "counter",
	  { "Time within the function, recursion counted once: its rate is the number of threads "
	    "in it.",
	    "Time within polls, recursion counted once: its rate is the number of threads in it." },
	  AT(total_ns),
	  IN_SECONDS,
	  false,
	  ROWS_TIMED },
	{ "self_seconds_total",
	  "counter",
	  { "Time within the function, without traced callees.",
	    "Time within polls, without traced callees." },
	  AT(self_ns),
	  IN_SECONDS,
	  false,
	  ROWS_TIMED },
	{ "observed_seconds_total",
	  "counter",
	  { "Time for which the function had probes: less than the window when it was shed.",
	    "Time for which the polls had probes: less than the window when they were shed." },
	  AT(observed_ns),
	  IN_SECONDS,
	  true,
	  ROWS_ALL },
	{ "allocated_bytes_total",
	  "counter",
	  { "Allocated while the function was the innermost traced one.",
	    "Allocated in polls, no traced function being called from them." },
	  AT(alloc.alloc_bytes),
	  IN_CALLS,
	  true,
	  ROWS_ALLOCATING },
	{ "allocations_total",
	  "counter",
	  { "Blocks allocated likewise.", "Blocks allocated likewise." },
	  AT(alloc.alloc_count),
	  IN_CALLS,
	  true,
	  ROWS_ALLOCATING },
	{ "freed_bytes_total",
	  "counter",
	  { "Of that, freed by now, wherever.", "Of that, freed by now, wherever." },
	  AT(alloc.freed_bytes),
	  IN_CALLS,
	  true,
	  ROWS_EXACT },
	{ "freed_bytes_estimate",
	  "gauge",
	  { "Of that, freed by now, estimated from a sample of the blocks.",
	    "Of that, freed by now, estimated from a sample of the blocks." },
	  AT(alloc.freed_bytes),
	  IN_CALLS,
	  true,
	  ROWS_ESTIMATED },
	{ "live_bytes_error",
	  "gauge",
	  { "Of what is allocated and, as estimated, not freed: half the width of the 95 % "
	    "interval.",
	    "Of what is allocated and, as estimated, not freed: half the width of the 95 % "
	    "interval." },
	  AT(alloc_error_bytes),
	  IN_CALLS,
	  true,
	  ROWS_ESTIMATED },
#undef AT
};

static const char *const subjects[] = { "function", "poll" };

static bool has_figure(const struct snapshot_fn *fn, const struct figure *f)
{
	if (!f->untimed_too && !snapshot__timed(fn))
		return false;
	switch (f->rows) {
	case ROWS_COUNTED:
		return snapshot__calls_basis(fn) == BASIS_EXACT;
	case ROWS_TIMED:
		return snapshot__time_basis(fn) == BASIS_EXACT;
	case ROWS_ALLOCATING:
		return fn->has_alloc;
	case ROWS_EXACT:
		return fn->has_alloc && !fn->alloc_estimated;
	case ROWS_ESTIMATED:
		return fn->alloc_estimated;
	default:
		return true;
	}
}

static void put_sample(struct strbuf *out, const char *metric, const struct prom_row *r,
		       enum figure_unit unit, uint64_t v)
{
	strbuf__addf(out, "%s{%s} ", metric, r->labels);
	if (unit == IN_SECONDS)
		prom__seconds(out, v);
	else
		strbuf__addf(out, "%" PRIu64, v);
	strbuf__addc(out, '\n');
}

static void add_figure(const struct prom_rows *called, struct strbuf *out, const struct figure *f,
		       bool async)
{
	bool headed = false;
	char metric[64];

	snprintf(metric, sizeof(metric), "roletrace_%s_%s", subjects[async], f->suffix);
	for (const struct prom_row *r = called->of; r < called->of + called->cnt; r++) {
		uint64_t v = *(const uint64_t *)((const char *)r->fn + f->at);

		if (r->fn->is_async != async || !has_figure(r->fn, f))
			continue;
		if (!headed)
			prom__head(out, metric, f->type, f->help[async]);
		headed = true;
		put_sample(out, metric, r, f->unit, v);
	}
}

/* ---- what was estimated, to keep to the budget ---- */

static const struct estimate {
	const char *suffix, *help;
	enum figure_unit unit;
	int time; /* -1: calls */
} estimates[] = {
	{ "calls", "Calls that were not all counted", IN_CALLS, -1 },
	{ "active_seconds", "Time in calls that were not all timed, recursion once", IN_SECONDS,
	  TIME_TOTAL },
	{ "self_seconds", "Own time in calls that were not all timed", IN_SECONDS, TIME_SELF },
};

static const struct snapshot_estimate *estimate_of(const struct snapshot_fn *fn,
						   const struct estimate *e)
{
	const struct snapshot_sampled *a = fn->sampled;

	if (!a)
		return NULL;
	if (e->time < 0)
		return a->count != BASIS_EXACT ? &a->calls : NULL;
	return snapshot__timed(fn) && a->time != BASIS_EXACT ? &a->times[e->time] : NULL;
}

/* end: of struct snapshot_estimate. An upper end that is not known has no sample. */
static void add_estimate(const struct prom_rows *called, struct strbuf *out,
			 const struct estimate *e, bool async, const char *end, const char *what,
			 size_t at)
{
	bool headed = false;
	char metric[64], help[160];

	snprintf(metric, sizeof(metric), "roletrace_%s_%s_%s", subjects[async], e->suffix, end);
	snprintf(help, sizeof(help), "%s: %s.", e->help, what);
	for (const struct prom_row *r = called->of; r < called->of + called->cnt; r++) {
		const struct snapshot_estimate *of = estimate_of(r->fn, e);
		uint64_t v = of ? *(const uint64_t *)((const char *)of + at) : UINT64_MAX;

		if (r->fn->is_async != async || v == UINT64_MAX)
			continue;
		if (!headed)
			prom__head(out, metric, "gauge", help);
		headed = true;
		put_sample(out, metric, r, e->unit, v);
	}
}

static void add_estimates(const struct prom_rows *called, struct strbuf *out, bool async)
{
	for (size_t i = 0; i < sizeof(estimates) / sizeof(estimates[0]); i++) {
		const struct estimate *e = &estimates[i];

		add_estimate(called, out, e, async, "estimate", "the estimate",
			     offsetof(struct snapshot_estimate, value));
		add_estimate(called, out, e, async, "low",
			     "the lower end of it, right in 95 of 100 cases",
			     offsetof(struct snapshot_estimate, low));
		add_estimate(called, out, e, async, "high",
			     "the upper end of it, where one is known",
			     offsetof(struct snapshot_estimate, high));
	}
}

/* ---- durations ---- */

/*
 * Returned calls that found no bucket are in +Inf, _count and _sum only: how long they took is not
 * known, and that it is under a bound is not claimed.
 */
static void add_buckets(struct strbuf *out, const char *metric, const struct prom_row *r)
{
	const struct snapshot_hist *h = &r->fn->hist;
	uint64_t below = h->zero_cnt, all = hist__count(h) + r->fn->hist_lost;
	uint32_t i = 0;

	for (uint32_t k = LOWEST_BOUND; k <= HIGHEST_BOUND; k++) {
		for (; h->counts && i < h->cnt && h->first + i <= k << RT_HIST_SCALE; i++)
			below += h->counts[i];
		/* as Go prints it, so that the label is the same everywhere */
		strbuf__addf(out, "%s_bucket{%s,le=\"%.12g\"} %" PRIu64 "\n", metric, r->labels,
			     (double)(1ull << k) / 1e9, below);
	}
	/* while tracing goes on the buckets are read a little later than the rest */
	all = all > r->fn->returned ? all : r->fn->returned;
	strbuf__addf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", metric, r->labels, all);
	strbuf__addf(out, "%s_sum{%s} ", metric, r->labels);
	prom__seconds(out, r->fn->sum_ns);
	strbuf__addf(out, "\n%s_count{%s} %" PRIu64 "\n", metric, r->labels, all);
}

static void add_histograms(const struct prom_rows *called, struct strbuf *out, bool async)
{
	static const char *const help[] = {
		"Duration of calls that returned, entry to exit on the thread.",
		"Duration of polls of async functions on a thread: not the latency of the future."
	};
	bool headed = false;
	char metric[64];

	snprintf(metric, sizeof(metric), "roletrace_%s_duration_seconds", subjects[async]);
	for (const struct prom_row *r = called->of; r < called->of + called->cnt; r++) {
		if (r->fn->is_async != async || !snapshot__timed(r->fn))
			continue;
		if (!headed)
			prom__head(out, metric, "histogram", help[async]);
		headed = true;
		add_buckets(out, metric, r);
	}
}

void prom__functions(const struct prom_rows *called, struct strbuf *out)
{
	for (int async = 0; async < 2; async++) {
		for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
			add_figure(called, out, &figures[i], async);
		add_estimates(called, out, async);
		add_histograms(called, out, async);
	}
}

/* ---- CPU samples: functions without probes have these alone ---- */

static void add_samples(const struct prom_rows *sampled, struct strbuf *out, const char *metric,
			size_t at, const char *help)
{
	if (sampled->cnt)
		prom__head(out, metric, "counter", help);
	for (const struct prom_row *r = sampled->of; r < sampled->of + sampled->cnt; r++)
		strbuf__addf(out, "%s{%s,probed=\"%s\"} %" PRIu64 "\n", metric, r->labels,
			     r->fn->unprobed ? "false" : "true",
			     *(const uint64_t *)((const char *)r->fn + at));
}

void prom__cpu(const struct snapshot *s, const char *origin, const struct prom_rows *sampled,
	       struct strbuf *out)
{
	const struct snapshot_profile *cpu = s->profiles ? s->profiles->of[PROFILE_CPU] : NULL;

	if (!cpu)
		return;
	prom__uint(
		out, origin, "roletrace_cpu_samples_per_second", "gauge", cpu->hz,
		"Samples that a running thread gets each second: samples over this are seconds.");
	prom__uint(out, origin, "roletrace_cpu_samples_total", "counter", cpu->count,
		   "Samples of all threads.");
	prom__uint(out, origin, "roletrace_cpu_functions_unlisted", "gauge",
		   cpu->unlisted_fns + sampled->all_cnt - sampled->cnt,
		   "Sampled functions without series of their own here.");
	add_samples(sampled, out, "roletrace_function_cpu_samples_total",
		    offsetof(struct snapshot_fn, cpu_samples),
		    "Samples with the function on the stack, of own functions, probed or not.");
	add_samples(sampled, out, "roletrace_function_cpu_self_samples_total",
		    offsetof(struct snapshot_fn, cpu_self_samples),
		    "Samples with the function innermost, of own functions, probed or not.");
}
