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
 * Bucket bounds are powers of two of 1 ns, the same for all functions, so series can be added up;
 * they are bounds of the snapshot's own buckets too, so every count is exact.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/prom.h"
#include "export/prom_memory.h"
#include "snapshot/snapshot.h"

#define MAX_FUNCTIONS 100u
#define MAX_NAME_BYTES 240u
#define LOWEST_BOUND 10u  /* 2^10 ns = 1.024 µs: below it, all is the probes' own time */
#define HIGHEST_BOUND 35u /* 34.4 s */

struct row {
	const struct snapshot_fn *fn;
	char *labels; /* 'function="...",crate="...",comm="...",pid="..."' */
};

struct rows {
	struct row of[MAX_FUNCTIONS];
	size_t cnt;
	bool mixed; /* functions and polls have one metric */
};

struct prom {
	const struct snapshot *s;
	struct strbuf *out;
	struct strbuf origin;	     /* 'comm="...",pid="..."' */
	struct rows called, sampled; /* the first of those that were */
	size_t called_cnt, sampled_cnt;
	uint64_t unlisted_calls;
};

/* ---- text ---- */

static bool is_shown(uint32_t c)
{
	return c == '\t' || c == '\n' || (c >= 0x20 && c < 0x7f) || c >= 0xa0;
}

static void put_value(struct strbuf *out, const char *s, size_t len)
{
	size_t n;

	for (; len; s += n, len -= n) {
		uint32_t c = utf8__decode(s, len, &n);

		if (c == '\n')
			strbuf__add(out, "\\n", 2);
		else if (c == '"' || c == '\\')
			strbuf__addf(out, "\\%c", (int)c);
		else
			utf8__encode(out, is_shown(c) ? c : UTF8_BAD);
	}
}

static void put_label(struct strbuf *out, const char *name, const char *value)
{
	strbuf__addf(out, "%s=\"", name);
	put_value(out, value ? value : "", value ? strlen(value) : 0);
	strbuf__addc(out, '"');
}

/* All digits: a double would drop some. */
static void put_seconds(struct strbuf *out, uint64_t ns)
{
	strbuf__addf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

static void put_real(struct strbuf *out, double v)
{
	if (isfinite(v))
		strbuf__addf(out, "%.15g", v);
	else
		strbuf__adds(out, "NaN");
}

void prom__label(struct strbuf *out, const char *name, const char *value)
{
	put_label(out, name, value);
}

void prom__seconds(struct strbuf *out, uint64_t ns)
{
	put_seconds(out, ns);
}

static void head(struct prom *p, const char *metric, const char *type, const char *help)
{
	strbuf__addf(p->out, "# HELP %s %s\n# TYPE %s %s\n", metric, help, metric, type);
}

/* ---- one series per target ---- */

static void add_series(struct prom *p, const char *metric, const char *type, const char *help)
{
	head(p, metric, type, help);
	strbuf__addf(p->out, "%s{%s} ", metric, p->origin.s);
}

static void add_uint(struct prom *p, const char *metric, const char *type, uint64_t v,
		     const char *help)
{
	add_series(p, metric, type, help);
	strbuf__addf(p->out, "%" PRIu64 "\n", v);
}

static void add_seconds(struct prom *p, const char *metric, const char *type, uint64_t ns,
			const char *help)
{
	add_series(p, metric, type, help);
	put_seconds(p->out, ns);
	strbuf__addc(p->out, '\n');
}

static void add_real(struct prom *p, const char *metric, double v, const char *help)
{
	add_series(p, metric, "gauge", help);
	put_real(p->out, v);
	strbuf__addc(p->out, '\n');
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

	head(p, "roletrace_target_info", "gauge", "What is traced, by what; always 1.");
	strbuf__addf(p->out, "roletrace_target_info{%s", p->origin.s);
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
		strbuf__addc(p->out, ',');
		put_label(p->out, labels[i].name, labels[i].value);
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
		head(p, metric, "counter", "Events that were missed, by the way they were.");
	for (size_t i = 0; i < p->s->lost_cnt; i++) {
		strbuf__addf(p->out, "%s{", metric);
		put_label(p->out, "reason", p->s->lost[i].name);
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
	add_uint(p, "roletrace_functions_called", "gauge", p->called_cnt,
		 "Of these, functions that were called.");
	add_uint(p, "roletrace_functions_unlisted", "gauge", p->called_cnt - p->called.cnt,
		 "Of these, functions without series of their own here: only those with the most "
		 "time have some.");
	add_uint(p, "roletrace_functions_unlisted_calls", "gauge", p->unlisted_calls,
		 "Calls of the functions without series.");
	add_uint(p, "roletrace_functions_shed", "gauge", p->s->overhead.shed_fns,
		 "Functions that lost their probes to keep to the budget.");
	add_uint(p, "roletrace_functions_skipped", "gauge", p->s->skip_cnt,
		 "Functions that were chosen and could not be probed.");
}

/* ---- series per function ---- */

/* FNV-1a over what tells rows apart in the snapshot, bytes that cannot be shown included. */
static uint32_t hash_of(const struct snapshot_fn *fn)
{
	const char *parts[] = { fn->name, fn->symbol ? fn->symbol : "" };
	uint32_t h = 2166136261u;

	for (int i = 0; i < 2; i++) {
		for (const char *c = parts[i]; *c; c++)
			h = (h ^ (uint8_t)*c) * 16777619u;
		h *= 16777619u;
	}
	return h;
}

static bool in_character(const char *s)
{
	return ((uint8_t)*s & 0xc0) == 0x80;
}

/* Of long names both ends are kept, whole characters, and a hash for what is left out. */
static void put_name(struct strbuf *out, const struct snapshot_fn *fn, bool with_hash)
{
	const char *name = fn->name, *tail;
	size_t len = strlen(name), n = MAX_NAME_BYTES / 2;

	strbuf__adds(out, "function=\"");
	if (len > MAX_NAME_BYTES) {
		tail = name + len - n;
		while (n && in_character(name + n))
			n--;
		while (*tail && in_character(tail))
			tail++;
		put_value(out, name, n);
		strbuf__adds(out, "…");
		put_value(out, tail, strlen(tail));
		with_hash = true;
	} else {
		put_value(out, name, len);
	}
	if (with_hash)
		strbuf__addf(out, " #%08" PRIx32, hash_of(fn));
}

static char *labels_of(const struct prom *p, const struct snapshot_fn *fn, bool with_hash,
		       size_t ordinal)
{
	struct strbuf out = STRBUF_INIT;

	put_name(&out, fn, with_hash);
	if (ordinal)
		strbuf__addf(&out, ".%zu", ordinal);
	strbuf__adds(&out, "\",");
	put_label(&out, "crate", fn->crate);
	strbuf__addf(&out, ",%s", p->origin.s);
	return strbuf__take(&out);
}

static bool is_taken(const struct rows *rows, size_t row)
{
	const struct row *r = &rows->of[row];

	for (size_t i = 0; i < rows->cnt; i++)
		if (i != row && rows->of[i].labels &&
		    (rows->mixed || rows->of[i].fn->is_async == r->fn->is_async) &&
		    !strcmp(rows->of[i].labels, r->labels))
			return true;
	return false;
}

/* Rows whose names show the same get a hash, all of them: one that changed place keeps its name. */
static int name_rows(const struct prom *p, struct rows *rows)
{
	bool doubled[MAX_FUNCTIONS] = { false };

	for (size_t i = 0; i < rows->cnt; i++) {
		rows->of[i].labels = labels_of(p, rows->of[i].fn, false, 0);
		if (!rows->of[i].labels)
			return -ENOMEM;
	}
	for (size_t i = 0; i < rows->cnt; i++)
		doubled[i] = is_taken(rows, i);
	for (size_t i = 0; i < rows->cnt; i++)
		for (size_t ordinal = 0; doubled[i] && (!ordinal || is_taken(rows, i)); ordinal++) {
			free(rows->of[i].labels);
			rows->of[i].labels = labels_of(p, rows->of[i].fn, true, ordinal);
			if (!rows->of[i].labels)
				return -ENOMEM;
		}
	return 0;
}

static void free_rows(struct rows *rows)
{
	for (size_t i = 0; i < rows->cnt; i++)
		free(rows->of[i].labels);
}

static int choose_called(struct prom *p)
{
	uint32_t *order = snapshot__sorted(p->s, SORT_TOTAL);

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < p->s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &p->s->fns[order[i]];

		if (!fn->calls && !fn->in_flight)
			continue;
		p->called_cnt++;
		if (p->called.cnt < MAX_FUNCTIONS)
			p->called.of[p->called.cnt++].fn = fn;
		else
			p->unlisted_calls += fn->calls;
	}
	free(order);
	return name_rows(p, &p->called);
}

/* The role's own: others' functions would push them out, and are in the JSON. */
static int choose_sampled(struct prom *p)
{
	uint32_t *order = snapshot__sorted(p->s, SORT_CPU);

	if (!order)
		return -ENOMEM;
	p->sampled.mixed = true;
	for (size_t i = 0; i < p->s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &p->s->fns[order[i]];

		if (!fn->cpu_samples || (fn->unprobed && fn->origin != FRAME_OWN))
			continue;
		p->sampled_cnt++;
		if (p->sampled.cnt < MAX_FUNCTIONS)
			p->sampled.of[p->sampled.cnt++].fn = fn;
	}
	free(order);
	return name_rows(p, &p->sampled);
}

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

static void add_figure(struct prom *p, const struct figure *f, bool async)
{
	bool headed = false;
	char metric[64];

	snprintf(metric, sizeof(metric), "roletrace_%s_%s", subjects[async], f->suffix);
	for (const struct row *r = p->called.of; r < p->called.of + p->called.cnt; r++) {
		uint64_t v = *(const uint64_t *)((const char *)r->fn + f->at);

		if (r->fn->is_async != async || !has_figure(r->fn, f))
			continue;
		if (!headed)
			head(p, metric, f->type, f->help[async]);
		headed = true;
		strbuf__addf(p->out, "%s{%s} ", metric, r->labels);
		if (f->unit == IN_SECONDS)
			put_seconds(p->out, v);
		else
			strbuf__addf(p->out, "%" PRIu64, v);
		strbuf__addc(p->out, '\n');
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
static void add_estimate(struct prom *p, const struct estimate *e, bool async, const char *end,
			 const char *what, size_t at)
{
	bool headed = false;
	char metric[64], help[160];

	snprintf(metric, sizeof(metric), "roletrace_%s_%s_%s", subjects[async], e->suffix, end);
	snprintf(help, sizeof(help), "%s: %s.", e->help, what);
	for (const struct row *r = p->called.of; r < p->called.of + p->called.cnt; r++) {
		const struct snapshot_estimate *of = estimate_of(r->fn, e);
		uint64_t v = of ? *(const uint64_t *)((const char *)of + at) : UINT64_MAX;

		if (r->fn->is_async != async || v == UINT64_MAX)
			continue;
		if (!headed)
			head(p, metric, "gauge", help);
		headed = true;
		strbuf__addf(p->out, "%s{%s} ", metric, r->labels);
		if (e->unit == IN_SECONDS)
			put_seconds(p->out, v);
		else
			strbuf__addf(p->out, "%" PRIu64, v);
		strbuf__addc(p->out, '\n');
	}
}

static void add_estimates(struct prom *p, bool async)
{
	for (size_t i = 0; i < sizeof(estimates) / sizeof(estimates[0]); i++) {
		const struct estimate *e = &estimates[i];

		add_estimate(p, e, async, "estimate", "the estimate",
			     offsetof(struct snapshot_estimate, value));
		add_estimate(p, e, async, "low", "the lower end of it, right in 95 of 100 cases",
			     offsetof(struct snapshot_estimate, low));
		add_estimate(p, e, async, "high", "the upper end of it, where one is known",
			     offsetof(struct snapshot_estimate, high));
	}
}

/*
 * Returned calls that found no bucket are in +Inf, _count and _sum only: how long they took is not
 * known, and that it is under a bound is not claimed.
 */
static void add_buckets(struct prom *p, const char *metric, const struct row *r)
{
	const struct snapshot_hist *h = &r->fn->hist;
	uint64_t below = h->zero_cnt, all = hist__count(h) + r->fn->hist_lost;
	uint32_t i = 0;

	for (uint32_t k = LOWEST_BOUND; k <= HIGHEST_BOUND; k++) {
		for (; h->counts && i < h->cnt && h->first + i <= k << RT_HIST_SCALE; i++)
			below += h->counts[i];
		/* as Go prints it, so that the label is the same everywhere */
		strbuf__addf(p->out, "%s_bucket{%s,le=\"%.12g\"} %" PRIu64 "\n", metric, r->labels,
			     (double)(1ull << k) / 1e9, below);
	}
	/* while tracing goes on the buckets are read a little later than the rest */
	all = all > r->fn->returned ? all : r->fn->returned;
	strbuf__addf(p->out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", metric, r->labels, all);
	strbuf__addf(p->out, "%s_sum{%s} ", metric, r->labels);
	put_seconds(p->out, r->fn->sum_ns);
	strbuf__addf(p->out, "\n%s_count{%s} %" PRIu64 "\n", metric, r->labels, all);
}

static void add_histograms(struct prom *p, bool async)
{
	static const char *const help[] = {
		"Duration of calls that returned, entry to exit on the thread.",
		"Duration of polls of async functions on a thread: not the latency of the future."
	};
	bool headed = false;
	char metric[64];

	snprintf(metric, sizeof(metric), "roletrace_%s_duration_seconds", subjects[async]);
	for (const struct row *r = p->called.of; r < p->called.of + p->called.cnt; r++) {
		if (r->fn->is_async != async || !snapshot__timed(r->fn))
			continue;
		if (!headed)
			head(p, metric, "histogram", help[async]);
		headed = true;
		add_buckets(p, metric, r);
	}
}

/* ---- CPU samples: functions without probes have these alone ---- */

static void add_samples(struct prom *p, const char *metric, size_t at, const char *help)
{
	if (p->sampled.cnt)
		head(p, metric, "counter", help);
	for (const struct row *r = p->sampled.of; r < p->sampled.of + p->sampled.cnt; r++)
		strbuf__addf(p->out, "%s{%s,probed=\"%s\"} %" PRIu64 "\n", metric, r->labels,
			     r->fn->unprobed ? "false" : "true",
			     *(const uint64_t *)((const char *)r->fn + at));
}

static void add_cpu(struct prom *p)
{
	const struct snapshot_profile *cpu =
		p->s->profiles ? p->s->profiles->of[PROFILE_CPU] : NULL;

	if (!cpu)
		return;
	add_uint(p, "roletrace_cpu_samples_per_second", "gauge", cpu->hz,
		 "Samples that a running thread gets each second: samples over this are seconds.");
	add_uint(p, "roletrace_cpu_samples_total", "counter", cpu->count,
		 "Samples of all threads.");
	add_uint(p, "roletrace_cpu_functions_unlisted", "gauge",
		 cpu->unlisted_fns + p->sampled_cnt - p->sampled.cnt,
		 "Sampled functions without series of their own here.");
	add_samples(p, "roletrace_function_cpu_samples_total",
		    offsetof(struct snapshot_fn, cpu_samples),
		    "Samples with the function on the stack, of own functions, probed or not.");
	add_samples(p, "roletrace_function_cpu_self_samples_total",
		    offsetof(struct snapshot_fn, cpu_self_samples),
		    "Samples with the function innermost, of own functions, probed or not.");
}

static void compose(struct prom *p)
{
	add_target(p);
	add_window(p);
	add_lost(p);
	add_overhead(p);
	add_census(p);
	prom_memory__add(p->s, p->origin.s, p->out);
	for (int async = 0; async < 2; async++) {
		for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
			add_figure(p, &figures[i], async);
		add_estimates(p, async);
		add_histograms(p, async);
	}
	add_cpu(p);
}

static int render(const struct snapshot *s, struct strbuf *out)
{
	struct prom p = { .s = s, .out = out, .origin = STRBUF_INIT };
	int err;

	put_label(&p.origin, "comm", s->target.comm);
	strbuf__addf(&p.origin, ",pid=\"%d\"", s->target.pid);
	err = choose_called(&p) ?: choose_sampled(&p);
	if (!err)
		compose(&p);
	if (!err)
		prom__threads(s, p.origin.s, out);
	if (!err && (out->oom || p.origin.oom))
		err = -ENOMEM;
	free_rows(&p.called);
	free_rows(&p.sampled);
	strbuf__free(&p.origin);
	return err;
}

const struct exporter export_prom = { .name = "prom", .suffix = ".prom", .render = render };
