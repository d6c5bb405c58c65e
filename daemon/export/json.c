/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshot file, schema roletrace.snapshot/1 (docs: "The snapshot file"). One row a line, for
 * grep and diff. What was not measured is null, never 0: durations of entry-only rows, and the
 * extremes and quantiles of functions that have not returned yet. Members may be added to a schema
 * version, never changed or taken away.
 */
#include "export/export.h"

#include <errno.h>

#include "export/json.h"
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
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void overhead(struct jsonw *w, const struct snapshot *s)
{
	section(w, "overhead", '{');
	put_uint(w, "hits", s->overhead.hits);
	put_uint(w, "ns_per_hit", s->overhead.ns_per_hit);
	put_real(w, "cpu_ratio", s->overhead.cpu_ratio);
	if (s->overhead.budget_ratio < 0)
		put_null(w, "budget_ratio");
	else
		put_real(w, "budget_ratio", s->overhead.budget_ratio);
	put_uint(w, "corrected_ns", s->overhead.corrected_ns);
	put_uint(w, "clamped", s->overhead.clamped);
	put_uint(w, "floor_ns", s->overhead.floor_ns);
	shed(w, s);
	jsonw__close(w, '}');
}

/* offset is OpenTelemetry's: the index of counts[0], one less than its place. */
static void histogram(struct jsonw *w, const struct snapshot_hist *h)
{
	uint32_t lo = 0, hi = h->counts ? h->cnt : 0;

	while (lo < hi && !h->counts[lo])
		lo++;
	while (hi > lo && !h->counts[hi - 1])
		hi--;
	jsonw__key(w, "histogram");
	jsonw__open(w, '{');
	put_uint(w, "scale", RT_HIST_SCALE);
	put_uint(w, "zero_count", h->zero_cnt);
	jsonw__key(w, "offset");
	jsonw__int(w, lo < hi ? (int64_t)h->first + lo - 1 : 0);
	jsonw__key(w, "counts");
	jsonw__open(w, '[');
	for (; lo < hi; lo++)
		jsonw__uint(w, h->counts[lo]);
	jsonw__close(w, ']');
	jsonw__close(w, '}');
}

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
	put_string(w, "kind", fn->is_async ? "async" : "fn");
	if (fn->file)
		put_string(w, "file", fn->file);
	if (fn->file && fn->line)
		put_uint(w, "line", fn->line);
	put_uint(w, "sites", fn->sites);
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
		histogram(w, &fn->hist);
	else
		put_null(w, "histogram");
}

static void function(struct jsonw *w, const struct snapshot *s, const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn);

	jsonw__line(w);
	jsonw__open(w, '{');
	fn_identity(w, fn);
	put_uint(w, "calls", fn->calls);
	put_uint_if(w, "returned", timed, fn->returned);
	put_uint_if(w, "unwound", timed, fn->unwound);
	put_uint_if(w, "in_flight", timed, fn->in_flight);
	put_uint_if(w, "in_flight_stale", timed, fn->in_flight_stale);
	put_uint_if(w, "untimed", timed, fn->untimed);
	put_uint_if(w, "tail_exits", timed, fn->tail_exits);
	fn_durations(w, s, fn);
	put_uint(w, "observed_ns", fn->observed_ns);
	put_uint_if(w, "floor_ns", timed, fn->floor_ns);
	put_uint_if(w, "corrected_ns", timed, fn->corrected_ns);
	put_uint_if(w, "clamped", timed, fn->clamped);
	put_uint_if(w, "histogram_lost", timed, fn->hist_lost);
	json__fn_alloc(w, fn);
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
		function(&w, s, &s->fns[i]);
	jsonw__close(&w, ']');
	edges(&w, s);
	skipped(&w, s);
	json__paths(&w, s);
	json__profiles(&w, s);
	json__memory(&w, s);
	jsonw__close(&w, '}');
	strbuf__addc(out, '\n');
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_json = { .name = "json", .suffix = ".json", .render = render };
