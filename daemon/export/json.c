/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshot file, schema roletrace.snapshot/1 (docs: "The snapshot file"). One row a line, for
 * grep and diff. What was not measured is null, never 0: durations of entry-only rows, and the
 * extremes and quantiles of functions that have not returned yet. Members may be added to a schema
 * version, never changed or taken away.
 */
#include "export/export.h"

#include <math.h>
#include <errno.h>
#include <string.h>

#include "export/json.h"
#include "export/json_stats.h"
#include "export/json_threads.h"
#include "export/jsonw.h"
#include "snapshot/snapshot.h"

static void tool(struct jsonw *w, const struct snapshot *s)
{
	section(w, "tool", '{');
	put_string(w, "version", s->tool.version);
	put_string(w, "kernel", s->tool.kernel);
	put_string(w, "exit_mode", s->tool.exit_mode);
	put_string(w, "profile", s->profile);
	put_string(w, "hint", s->hint);
	jsonw__close(w, '}');
}

static void ended(struct jsonw *w, const struct snapshot *s)
{
	jsonw__key(w, "ended");
	if (s->target.end == END_NOT) {
		jsonw__null(w);
		return;
	}
	jsonw__open(w, '{');
	put_string(w, "reason", snapshot_end_names[s->target.end]);
	jsonw__key(w, "code");
	if (s->target.end == END_EXEC)
		jsonw__null(w);
	else
		jsonw__int(w, s->target.end_code);
	put_uint(w, "unix_ns", s->target.end_unix_ns);
	jsonw__close(w, '}');
}

static void target(struct jsonw *w, const struct snapshot *s)
{
	section(w, "target", '{');
	jsonw__key(w, "pid");
	jsonw__int(w, s->target.pid);
	jsonw__key(w, "ns_pid");
	jsonw__int(w, s->target.ns_pid);
	put_string(w, "comm", s->target.comm);
	put_string(w, "exe", s->target.exe);
	put_string(w, "build_id", s->target.build_id);
	put_uint(w, "start_time", s->target.start_time_ns);
	ended(w, s);
	jsonw__close(w, '}');
}

static void window(struct jsonw *w, const struct snapshot *s)
{
	section(w, "window", '{');
	put_uint(w, "start_unix_ns", s->window.start_unix_ns);
	put_uint(w, "end_unix_ns", s->window.end_unix_ns);
	put_uint(w, "duration_ns", s->window.duration_ns);
	jsonw__key(w, "settled");
	jsonw__bool(w, s->window.settled);
	jsonw__close(w, '}');
}

static void health(struct jsonw *w, const struct snapshot *s)
{
	section(w, "health", '{');
	put_string(w, "status", s->reason_cnt ? "degraded" : "ok");
	jsonw__key(w, "reasons");
	jsonw__open(w, '[');
	for (size_t i = 0; i < s->reason_cnt; i++)
		jsonw__string(w, s->reasons[i]);
	jsonw__close(w, ']');
	jsonw__close(w, '}');
}

static void lost(struct jsonw *w, const struct snapshot *s)
{
	section(w, "lost", '{');
	for (size_t i = 0; i < s->lost_cnt; i++)
		put_uint(w, s->lost[i].name, s->lost[i].count);
	jsonw__close(w, '}');
}

static void shed(struct jsonw *w, const struct snapshot *s)
{
	jsonw__key(w, "shed");
	jsonw__open(w, '[');
	for (size_t i = 0; i < s->overhead.shed_cnt; i++) {
		const struct snapshot_shed *row = &s->overhead.shed[i];

		jsonw__open(w, '{');
		put_string(w, "name", row->name);
		put_string(w, "reason", row->reason);
		put_uint(w, "unix_ns", row->unix_ns);
		if (row->from) {
			put_string(w, "from", row->from);
			put_string(w, "to", row->to);
			put_real(w, "calls_per_s", row->calls_per_s);
			put_real(w, "cost_ratio", row->cost_ratio);
		}
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void overhead(struct jsonw *w, const struct snapshot *s)
{
	section(w, "overhead", '{');
	put_uint(w, "hits", s->overhead.hits);
	put_uint(w, "ns_per_hit", s->overhead.ns_per_hit);
	put_uint(w, "ns_per_hit_low", s->overhead.ns_per_hit_low);
	put_uint(w, "ns_per_hit_high", s->overhead.ns_per_hit_high);
	put_real(w, "cpu_ratio", s->overhead.cpu_ratio);
	put_real(w, "probes_ratio", s->overhead.probes_ratio);
	put_real(w, "threads_ratio", s->overhead.threads_ratio);
	put_real(w, "profile_ratio", s->overhead.profile_ratio);
	put_real(w, "growth_ratio", s->overhead.growth_ratio);
	put_real(w, "process_ratio", s->overhead.process_ratio);
	if (!isnan(s->overhead.tool_ratio)) {
		put_uint(w, "tool_cpu_ns", s->overhead.tool_cpu_ns);
		put_real(w, "tool_cpu_ratio", s->overhead.tool_ratio);
	}
	if (s->overhead.budget_ratio < 0)
		put_null(w, "budget_ratio");
	else
		put_real(w, "budget_ratio", s->overhead.budget_ratio);
	put_uint(w, "corrected_ns", s->overhead.corrected_ns);
	put_uint(w, "clamped", s->overhead.clamped);
	put_uint(w, "floor_ns", s->overhead.floor_ns);
	put_uint(w, "shed_functions", s->overhead.shed_fns);
	shed(w, s);
	jsonw__close(w, '}');
}

/* Of a function without probes nothing but samples is known: see unprobed_figures. */
static void fn_identity(struct jsonw *w, const struct snapshot_fn *fn)
{
	put_string(w, "name", fn->name);
	put_string(w, "symbol", fn->symbol);
	jsonw__key(w, "aliases");
	jsonw__open(w, '[');
	for (size_t i = 0; i < fn->alias_cnt; i++)
		jsonw__string(w, fn->aliases[i]);
	jsonw__close(w, ']');
	put_string(w, "crate", fn->crate);
	put_string(w, "kind", fn->unprobed ? NULL : fn->is_async ? "async" : "fn");
	if (fn->makes_future) {
		jsonw__key(w, "makes_future");
		jsonw__bool(w, true);
	}
	if (fn->unprobed) {
		put_string(w, "module", fn->module);
		put_string(w, "origin", frame_kind_names[fn->origin]);
	}
	if (fn->file)
		put_string(w, "file", fn->file);
	if (fn->file && fn->line)
		put_uint(w, "line", fn->line);
	put_uint_if(w, "sites", !fn->unprobed, fn->sites);
	put_string(w, "coverage", snapshot_coverage_names[fn->coverage]);
	put_string(w, "exit", fn->exit);
}

static void fn_durations(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn), some = timed && fn->returned;
	bool spread = some && hist__count(&fn->hist);

	put_uint_if(w, "sum_ns", timed, fn->sum_ns);
	put_uint_if(w, "total_ns", timed, fn->total_ns);
	put_uint_if(w, "self_ns", timed, fn->self_ns);
	put_uint_if(w, "min_ns", some, fn->min_ns);
	put_uint_if(w, "max_ns", some, fn->max_ns);
	put_uint_if(w, "mean_ns", some, snapshot__mean_ns(fn));
	put_uint_if(w, "p50_ns", spread, spread ? snapshot__quantile_ns(fn, 0.50) : 0);
	put_uint_if(w, "p95_ns", spread, spread ? snapshot__quantile_ns(fn, 0.95) : 0);
	put_uint_if(w, "p99_ns", spread, spread ? snapshot__quantile_ns(fn, 0.99) : 0);
	if (timed)
		put_real(w, "share", snapshot__share(s, fn));
	else
		put_null(w, "share");
	if (timed)
		put_histogram(w, &fn->hist);
	else
		put_null(w, "histogram");
}

static void interval(struct jsonw *w, const char *key, const struct snapshot_interval *i)
{
	if (!i->high_ns) {
		put_null(w, key);
		return;
	}
	jsonw__key(w, key);
	jsonw__open(w, '[');
	jsonw__uint(w, i->low_ns);
	if (i->high_ns == UINT64_MAX)
		jsonw__null(w);
	else
		jsonw__uint(w, i->high_ns);
	jsonw__close(w, ']');
}

static void estimate(struct jsonw *w, const char *key, const char *interval_key,
		     const struct snapshot_estimate *e)
{
	put_uint(w, key, e->value);
	jsonw__key(w, interval_key);
	jsonw__open(w, '[');
	jsonw__uint(w, e->low);
	if (e->high == UINT64_MAX)
		jsonw__null(w);
	else
		jsonw__uint(w, e->high);
	jsonw__close(w, ']');
}

static void times(struct jsonw *w, const struct snapshot_fn *fn)
{
	const struct snapshot_sampled *s = fn->sampled;

	put_string(w, "time", snapshot_basis_names[s->time]);
	estimate(w, "sum_ns_estimated", "sum_interval_ns", &s->times[TIME_SUM]);
	estimate(w, "total_ns_estimated", "total_interval_ns", &s->times[TIME_TOTAL]);
	estimate(w, "self_ns_estimated", "self_interval_ns", &s->times[TIME_SELF]);
	put_uint_if(w, "mean_ns_estimated", fn->returned, snapshot__mean_of_all_ns(fn));
	put_uint(w, "exact_calls", s->exact_calls);
	put_uint(w, "extrapolated_calls", s->extrapolated_calls);
	put_uint(w, "windows_sum_ns", s->windows_ns[TIME_SUM]);
	put_uint(w, "windows_total_ns", s->windows_ns[TIME_TOTAL]);
	put_uint(w, "windows_self_ns", s->windows_ns[TIME_SELF]);
}

static void sampled(struct jsonw *w, const struct snapshot_fn *fn, bool timed)
{
	const struct snapshot_sampled *s = fn->sampled;

	if (!s) {
		put_null(w, "sampled");
		return;
	}
	jsonw__key(w, "sampled");
	jsonw__open(w, '{');
	put_string(w, "mode", s->mode);
	put_uint(w, "counted_ns", s->counted_ns);
	estimate(w, "calls_estimated", "calls_interval", &s->calls);
	put_string(w, "count", snapshot_basis_names[s->count]);
	put_uint(w, "windows", s->windows);
	put_uint(w, "given_up", s->given_up);
	put_real(w, "weight", s->weight);
	interval(w, "p50_interval_ns", &s->quantiles[0]);
	interval(w, "p95_interval_ns", &s->quantiles[1]);
	interval(w, "p99_interval_ns", &s->quantiles[2]);
	put_histogram(w, &s->hist);
	if (timed)
		times(w, fn);
	jsonw__close(w, '}');
}

static void cpu_time(struct jsonw *w, const struct snapshot_profile *cpu, const char *key,
		     const char *interval_key, uint64_t samples)
{
	struct profile_time t = profile__time(cpu, samples);

	put_uint(w, key, t.ns);
	interval(w, interval_key, &(struct snapshot_interval){ t.low_ns, t.high_ns });
}

static void fn_cpu(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn)
{
	const struct snapshot_profile *cpu = s->profiles ? s->profiles->of[PROFILE_CPU] : NULL;

	if (!cpu)
		return;
	jsonw__key(w, "cpu");
	jsonw__open(w, '{');
	put_uint(w, "samples", fn->cpu_samples);
	put_uint(w, "self_samples", fn->cpu_self_samples);
	put_uint(w, "inlined_samples", fn->cpu_inlined_samples);
	cpu_time(w, cpu, "time_ns", "time_interval_ns", fn->cpu_samples);
	cpu_time(w, cpu, "self_time_ns", "self_time_interval_ns", fn->cpu_self_samples);
	jsonw__close(w, '}');
}

/* The members of a row that was probed, so that each row has them. */
static void unprobed_figures(struct jsonw *w)
{
	static const char *const keys[] = {
		"calls",	  "returned",	"unwound",   "in_flight",    "in_flight_stale",
		"untimed",	  "tail_exits", "sum_ns",    "total_ns",     "self_ns",
		"min_ns",	  "max_ns",	"mean_ns",   "p50_ns",	     "p95_ns",
		"p99_ns",	  "share",	"histogram", "observed_ns",  "sampled",
		"price_ns",	  "cost_ns",	"floor_ns",  "corrected_ns", "clamped",
		"histogram_lost",
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		put_null(w, keys[i]);
}

static void figures(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn);

	put_uint(w, "calls", fn->calls);
	put_uint_if(w, "returned", timed, fn->returned);
	put_uint_if(w, "unwound", timed, fn->unwound);
	put_uint_if(w, "in_flight", timed, fn->in_flight);
	put_uint_if(w, "in_flight_stale", timed, fn->in_flight_stale);
	put_uint_if(w, "untimed", timed, fn->untimed);
	put_uint_if(w, "tail_exits", timed, fn->tail_exits);
	fn_durations(w, s, fn);
	put_uint(w, "observed_ns", fn->observed_ns);
	sampled(w, fn, timed);
	put_uint(w, "price_ns", fn->price_ns);
	put_uint(w, "cost_ns", fn->cost_ns);
	put_uint_if(w, "floor_ns", timed, fn->floor_ns);
	put_uint_if(w, "corrected_ns", timed, fn->corrected_ns);
	put_uint_if(w, "clamped", timed, fn->clamped);
	put_uint_if(w, "histogram_lost", timed, fn->hist_lost);
}

/*
 * Most functions of a role are not called: their rows differ in nothing but who they are. The text
 * of a row's figures is used again as long as the next row has the same.
 */
struct last_figures {
	struct snapshot_fn of; /* without who it is */
	size_t begin, len;     /* in the text */
};

static void without_identity(const struct snapshot_fn *fn, struct snapshot_fn *out)
{
	memcpy(out, fn, sizeof(*out));
	out->name = out->symbol = out->crate = out->file = NULL;
	out->line = out->sites = 0;
	out->aliases = NULL;
	out->alias_cnt = 0;
}

static void copy_figures(struct strbuf *out, const struct last_figures *last)
{
	char *to = strbuf__room(out, last->len);

	if (!to)
		return;
	memcpy(to, out->s + last->begin, last->len);
	strbuf__took(out, last->len);
}

static void all_figures(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn)
{
	if (fn->unprobed)
		unprobed_figures(w);
	else
		figures(w, s, fn);
	fn_cpu(w, s, fn);
	json__fn_alloc(w, fn);
}

static void function(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn,
		     struct last_figures *last)
{
	struct snapshot_fn of;

	jsonw__line(w);
	jsonw__open(w, '{');
	fn_identity(w, fn);
	without_identity(fn, &of);
	if (last->len && !memcmp(&of, &last->of, sizeof(of))) {
		copy_figures(w->out, last);
	} else {
		last->begin = w->out->len;
		all_figures(w, s, fn);
		last->len = w->out->len - last->begin;
		memcpy(&last->of, &of, sizeof(of));
	}
	jsonw__close(w, '}');
}

static void edges(struct jsonw *w, const struct snapshot *s)
{
	section(w, "edges", '[');
	for (size_t i = 0; i < s->edge_cnt; i++) {
		const struct snapshot_edge *e = &s->edges[i];

		if (e->caller >= s->fn_cnt || e->callee >= s->fn_cnt)
			continue;
		jsonw__line(w);
		jsonw__open(w, '{');
		put_string(w, "caller", s->fns[e->caller].name);
		put_string(w, "callee", s->fns[e->callee].name);
		put_uint(w, "calls", e->calls);
		put_uint(w, "total_ns", e->total_ns);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void skipped(struct jsonw *w, const struct snapshot *s)
{
	section(w, "skipped", '[');
	for (size_t i = 0; i < s->skip_cnt; i++) {
		jsonw__line(w);
		jsonw__open(w, '{');
		put_string(w, "name", s->skipped[i].name);
		put_string(w, "reason", s->skipped[i].reason);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static int render(const struct snapshot *s, struct strbuf *out)
{
	struct jsonw w = { .out = out };
	struct last_figures last = {};

	jsonw__open(&w, '{');
	put_string(&w, "schema", SNAPSHOT_SCHEMA);
	tool(&w, s);
	target(&w, s);
	window(&w, s);
	health(&w, s);
	lost(&w, s);
	overhead(&w, s);
	section(&w, "functions", '[');
	for (size_t i = 0; i < s->fn_cnt; i++)
		function(&w, s, &s->fns[i], &last);
	jsonw__close(&w, ']');
	edges(&w, s);
	skipped(&w, s);
	json__threads(&w, s);
	json__paths(&w, s);
	json__profiles(&w, s);
	json__memory(&w, s);
	jsonw__close(&w, '}');
	strbuf__addc(out, '\n');
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_json = { .name = "json", .suffix = ".json", .render = render };
