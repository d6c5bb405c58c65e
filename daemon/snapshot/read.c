/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * jansson makes a tree, this makes a snapshot of it. The first thing wrong is remembered with its
 * place ("functions[3].calls: ...") and ends the reading; until then the getters below return what
 * does no harm, so that the code reads like the document.
 */
#include "snapshot/read.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/reader.h"
#include "snapshot/snapshot.h"

/* ---- the document, part by part ---- */

static void read_tool(struct reader *r, json_t *doc)
{
	json_t *o = enter(r, doc, "tool", get_object);

	r->s->tool.version = get_string_or_null(r, o, "version");
	r->s->tool.kernel = get_string_or_null(r, o, "kernel");
	r->s->tool.exit_mode = get_string_or_null(r, o, "exit_mode");
	r->s->profile = get_string_or_null(r, o, "profile");
	r->s->hint = get_string_or_null(r, o, "hint");
}

static void read_ended(struct reader *r, json_t *o)
{
	r->part = "target.ended";
	r->s->target.end = get_name(r, o, "reason", snapshot_end_names, END_CNT);
	if (r->s->target.end != END_EXEC)
		r->s->target.end_code = (int)get_int(r, o, "code", INT_MIN, INT_MAX);
	r->s->target.end_unix_ns = get_uint(r, o, "unix_ns");
}

static void read_target(struct reader *r, json_t *doc)
{
	json_t *o = enter(r, doc, "target", get_object);

	r->s->target.pid = (int)get_int(r, o, "pid", 0, INT_MAX);
	r->s->target.ns_pid = (int)get_int(r, o, "ns_pid", 0, INT_MAX);
	r->s->target.comm = get_string_or_null(r, o, "comm");
	r->s->target.exe = get_string_or_null(r, o, "exe");
	r->s->target.build_id = get_string_or_null(r, o, "build_id");
	r->s->target.start_time_ns = get_uint(r, o, "start_time");
	if (!is_null(o, "ended"))
		read_ended(r, get_object(r, o, "ended"));
}

static void read_window(struct reader *r, json_t *doc)
{
	json_t *o = enter(r, doc, "window", get_object);

	r->s->window.start_unix_ns = get_uint(r, o, "start_unix_ns");
	r->s->window.end_unix_ns = get_uint(r, o, "end_unix_ns");
	r->s->window.duration_ns = get_uint(r, o, "duration_ns");
	r->s->window.settled = get_bool(r, o, "settled");
}

static void read_health(struct reader *r, json_t *doc)
{
	static const char *const words[] = { "ok", "degraded" };
	json_t *o = enter(r, doc, "health", get_object), *list = get_array(r, o, "reasons");
	size_t cnt = json_array_size(list);
	int degraded = get_name(r, o, "status", words, 2);

	if (degraded != (cnt != 0))
		wrong(r, "status", "and reasons contradict each other");
	r->s->reasons = zeroed(r, cnt, sizeof(*r->s->reasons));
	for (size_t i = 0; i < cnt && !r->err; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (!text)
			wrong(r, "reasons", "holds what is no string");
		else if (!(r->s->reasons[r->s->reason_cnt++] = strdup(text)))
			nomem(r);
	}
}

static void read_lost(struct reader *r, json_t *doc)
{
	json_t *o = enter(r, doc, "lost", get_object), *v;
	const char *name;

	r->s->lost = zeroed(r, json_object_size(o), sizeof(*r->s->lost));
	json_object_foreach(o, name, v)
	{
		if (r->err)
			return;
		r->s->lost[r->s->lost_cnt++] =
			(struct snapshot_lost){ keep(r, name), to_uint(r, v, name) };
	}
}

static void read_overhead(struct reader *r, json_t *doc)
{
	json_t *o = enter(r, doc, "overhead", get_object), *list;

	r->s->overhead.hits = get_uint(r, o, "hits");
	r->s->overhead.ns_per_hit = get_uint(r, o, "ns_per_hit");
	r->s->overhead.cpu_ratio = get_ratio(r, o, "cpu_ratio", NAN);
	r->s->overhead.ns_per_hit_low = get_uint_or_0(r, o, "ns_per_hit_low");
	r->s->overhead.ns_per_hit_high = get_uint_or_0(r, o, "ns_per_hit_high");
	/* older files know of nothing else that costs */
	r->s->overhead.probes_ratio = json_object_get(o, "probes_ratio")
					      ? get_ratio_or_0(r, o, "probes_ratio")
					      : r->s->overhead.cpu_ratio;
	r->s->overhead.threads_ratio = get_ratio_or_0(r, o, "threads_ratio");
	r->s->overhead.profile_ratio = get_ratio_or_0(r, o, "profile_ratio");
	r->s->overhead.growth_ratio = get_ratio_or_0(r, o, "growth_ratio");
	r->s->overhead.process_ratio =
		is_null(o, "process_ratio") ? NAN : get_ratio(r, o, "process_ratio", NAN);
	r->s->overhead.tool_cpu_ns = get_uint_or_0(r, o, "tool_cpu_ns");
	r->s->overhead.tool_ratio =
		is_null(o, "tool_cpu_ratio") ? NAN : get_ratio(r, o, "tool_cpu_ratio", NAN);
	r->s->overhead.budget_ratio = get_ratio(r, o, "budget_ratio", -1);
	r->s->overhead.corrected_ns = get_uint(r, o, "corrected_ns");
	r->s->overhead.clamped = get_uint(r, o, "clamped");
	r->s->overhead.floor_ns = get_uint(r, o, "floor_ns");
	list = get_array(r, o, "shed");
	r->s->overhead.shed = zeroed(r, json_array_size(list), sizeof(*r->s->overhead.shed));
	r->part = "overhead.shed";
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		json_t *row = get_row(r, list, i);

		r->s->overhead.shed[r->s->overhead.shed_cnt++] = (struct snapshot_shed){
			get_string(r, row, "name"),	     get_string(r, row, "reason"),
			get_uint(r, row, "unix_ns"),	     get_string_or_null(r, row, "from"),
			get_string_or_null(r, row, "to"),    get_ratio_or_0(r, row, "calls_per_s"),
			get_ratio_or_0(r, row, "cost_ratio")
		};
	}
	r->s->overhead.shed_fns = is_null(o, "shed_functions") ? r->s->overhead.shed_cnt
							       : get_uint(r, o, "shed_functions");
}

/* The highest place is that of 2^63 ns. */
#define MAX_PLACES (63u * 16u + 1u)

void read_histogram(struct reader *r, json_t *h, struct snapshot_hist *out)
{
	json_t *counts = get_array(r, h, "counts");
	size_t cnt = json_array_size(counts);
	int64_t offset = get_int(r, h, "offset", -1, MAX_PLACES - 2);
	uint64_t sum;

	if (get_uint(r, h, "scale") != RT_HIST_SCALE)
		wrong(r, "histogram.scale", "is not 4");
	if (cnt > MAX_PLACES || (size_t)(offset + 1) + cnt > MAX_PLACES)
		wrong(r, "histogram.counts", "goes beyond 2^63 ns");
	out->zero_cnt = sum = get_uint(r, h, "zero_count");
	if (!cnt || r->err)
		return;
	out->counts = zeroed(r, cnt, sizeof(*out->counts));
	for (size_t i = 0; i < cnt && !r->err; i++) {
		out->counts[i] = to_uint(r, json_array_get(counts, i), "histogram.counts");
		if (__builtin_add_overflow(sum, out->counts[i], &sum))
			wrong(r, "histogram.counts", "are more than 2^64 calls");
	}
	out->first = (uint32_t)(offset + 1);
	out->cnt = (uint32_t)cnt;
}

static void read_aliases(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	json_t *list = get_array(r, o, "aliases");
	size_t cnt = json_array_size(list);
	const char **aliases;

	if (!cnt || r->err)
		return;
	aliases = arena__alloc(r->s->arena, cnt * sizeof(*aliases)) ?: nomem(r);
	for (size_t i = 0; i < cnt && !r->err; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text)
			aliases[i] = keep(r, text);
		else
			wrong(r, "aliases", "holds what is no string");
	}
	fn->aliases = aliases;
	fn->alias_cnt = cnt;
}

static void read_identity(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	static const char *const kinds[] = { "fn", "async" };

	fn->name = get_string(r, o, "name");
	fn->unprobed = is_null(o, "calls") && !is_null(o, "origin");
	read_aliases(r, o, fn);
	fn->crate = get_string(r, o, "crate");
	fn->file = get_string_or_null(r, o, "file");
	if (!is_null(o, "line"))
		fn->line = (uint32_t)get_int(r, o, "line", 0, UINT32_MAX);
	fn->coverage = get_name(r, o, "coverage", snapshot_coverage_names, COVERAGE_CNT);
	if (fn->unprobed) {
		fn->symbol = get_string_or_null(r, o, "symbol");
		fn->module = get_string_or_null(r, o, "module");
		fn->origin =
			(enum frame_kind)get_name(r, o, "origin", frame_kind_names, FRAME_KIND_CNT);
		return;
	}
	fn->symbol = get_string(r, o, "symbol");
	fn->is_async = get_name(r, o, "kind", kinds, 2) == 1;
	fn->makes_future = !is_null(o, "makes_future") && get_bool(r, o, "makes_future");
	fn->sites = (uint32_t)get_int(r, o, "sites", 0, UINT32_MAX);
	fn->exit = get_string(r, o, "exit");
	read_fn_alloc(r, o, fn);
}

static void read_figures(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	fn->returned = get_uint(r, o, "returned");
	fn->unwound = get_uint(r, o, "unwound");
	fn->in_flight = get_uint(r, o, "in_flight");
	fn->in_flight_stale = get_uint(r, o, "in_flight_stale");
	fn->untimed = get_uint(r, o, "untimed");
	fn->tail_exits = get_uint(r, o, "tail_exits");
	fn->sum_ns = get_uint(r, o, "sum_ns");
	fn->total_ns = get_uint(r, o, "total_ns");
	fn->self_ns = get_uint(r, o, "self_ns");
	/* null when none returned */
	fn->min_ns = get_uint_or_0(r, o, "min_ns");
	fn->max_ns = get_uint_or_0(r, o, "max_ns");
	fn->floor_ns = get_uint(r, o, "floor_ns");
	fn->corrected_ns = get_uint(r, o, "corrected_ns");
	fn->clamped = get_uint(r, o, "clamped");
	fn->hist_lost = get_uint(r, o, "histogram_lost");
	read_histogram(r, get_object(r, o, "histogram"), &fn->hist);
}

static struct snapshot_interval get_interval(struct reader *r, json_t *o, const char *key)
{
	json_t *ends = is_null(o, key) ? NULL : get_array(r, o, key);
	struct snapshot_interval i = {};

	if (!ends || r->err)
		return i;
	if (json_array_size(ends) != 2)
		wrong(r, key, "has not two ends");
	i.low_ns = to_uint(r, json_array_get(ends, 0), key);
	i.high_ns = json_is_null(json_array_get(ends, 1))
			    ? UINT64_MAX
			    : to_uint(r, json_array_get(ends, 1), key);
	return i;
}

static enum snapshot_basis get_basis(struct reader *r, json_t *o, const char *key)
{
	const char *name = get_string(r, o, key);

	for (int i = 0; i < BASIS_CNT; i++)
		if (name && !strcmp(name, snapshot_basis_names[i]))
			return (enum snapshot_basis)i;
	wrong(r, key, "is none of the known words");
	return BASIS_EXACT;
}

static struct snapshot_estimate get_estimate(struct reader *r, json_t *o, const char *key,
					     const char *interval_key)
{
	struct snapshot_interval i = get_interval(r, o, interval_key);

	return (struct snapshot_estimate){ get_uint(r, o, key), i.low_ns, i.high_ns };
}

/* Older files know what was timed, not what that stands for. */
static void read_times(struct reader *r, json_t *o, const struct snapshot_fn *fn)
{
	struct snapshot_sampled *s = fn->sampled;

	if (!json_object_get(o, "time")) {
		s->time = BASIS_LOWER_BOUND;
		s->times[TIME_SUM] =
			(struct snapshot_estimate){ fn->sum_ns, fn->sum_ns, UINT64_MAX };
		s->times[TIME_TOTAL] =
			(struct snapshot_estimate){ fn->total_ns, fn->total_ns, UINT64_MAX };
		s->times[TIME_SELF] =
			(struct snapshot_estimate){ fn->self_ns, fn->self_ns, UINT64_MAX };
		s->weight = 1;
		return;
	}
	s->time = get_basis(r, o, "time");
	s->times[TIME_SUM] = get_estimate(r, o, "sum_ns_estimated", "sum_interval_ns");
	s->times[TIME_TOTAL] = get_estimate(r, o, "total_ns_estimated", "total_interval_ns");
	s->times[TIME_SELF] = get_estimate(r, o, "self_ns_estimated", "self_interval_ns");
	s->exact_calls = get_uint(r, o, "exact_calls");
	s->extrapolated_calls = get_uint(r, o, "extrapolated_calls");
	s->windows_ns[TIME_SUM] = get_uint(r, o, "windows_sum_ns");
	s->windows_ns[TIME_TOTAL] = get_uint(r, o, "windows_total_ns");
	s->windows_ns[TIME_SELF] = get_uint(r, o, "windows_self_ns");
}

/* Missing in older files: all was exact then, or is said by observed_ns. */
static void read_sampled(struct reader *r, json_t *fn_o, struct snapshot_fn *fn)
{
	json_t *o = is_null(fn_o, "sampled") ? NULL : get_object(r, fn_o, "sampled");
	struct snapshot_sampled *s;

	if (!o || r->err)
		return;
	s = fn->sampled = zeroed(r, 1, sizeof(*s));
	if (!s)
		return;
	s->mode = get_string(r, o, "mode");
	s->count = get_basis(r, o, "count");
	s->counted_ns = get_uint(r, o, "counted_ns");
	s->calls = (struct snapshot_estimate){ get_uint(r, o, "calls_estimated"), fn->calls,
					       UINT64_MAX };
	if (json_object_get(o, "calls_interval"))
		s->calls = get_estimate(r, o, "calls_estimated", "calls_interval");
	s->windows = get_uint(r, o, "windows");
	s->given_up = get_uint(r, o, "given_up");
	s->weight = get_ratio(r, o, "weight", 1);
	s->quantiles[0] = get_interval(r, o, "p50_interval_ns");
	s->quantiles[1] = get_interval(r, o, "p95_interval_ns");
	s->quantiles[2] = get_interval(r, o, "p99_interval_ns");
	read_histogram(r, get_object(r, o, "histogram"), &s->hist);
}

static void read_cpu(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	fn->cpu_samples = get_uint(r, o, "samples");
	fn->cpu_self_samples = get_uint(r, o, "self_samples");
	fn->cpu_inlined_samples = get_uint_or_0(r, o, "inlined_samples");
}

static void read_measured(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	fn->calls = get_uint(r, o, "calls");
	fn->observed_ns = get_uint(r, o, "observed_ns");
	fn->price_ns = get_uint_or_0(r, o, "price_ns");
	fn->cost_ns = get_uint_or_0(r, o, "cost_ns");
	read_sampled(r, o, fn);
	if (!snapshot__timed(fn))
		return;
	read_figures(r, o, fn);
	if (fn->sampled)
		read_times(r, get_object(r, o, "sampled"), fn);
}

static void read_functions(struct reader *r, json_t *doc)
{
	json_t *list = enter(r, doc, "functions", get_array);

	r->s->fns = zeroed(r, json_array_size(list), sizeof(*r->s->fns));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		struct snapshot_fn *fn = &r->s->fns[r->s->fn_cnt++];
		json_t *o = get_row(r, list, i);

		read_identity(r, o, fn);
		if (!fn->unprobed)
			read_measured(r, o, fn);
		/* those without probes come last, as others rely on */
		if (!fn->unprobed && r->s->fn_cnt > 1 && fn[-1].unprobed)
			wrong(r, "calls", "are known behind functions whose calls are not");
		if (!is_null(o, "cpu"))
			read_cpu(r, get_object(r, o, "cpu"), fn);
	}
	/* older files do not say it */
	if (!r->err)
		r->err = snapshot__find_futures(r->s);
}

static uint32_t get_end(struct reader *r, json_t *o, const char *key, const uint32_t *by_name)
{
	const char *name = json_string_value(get(r, o, key));
	size_t lo = 0, hi = r->s->fn_cnt;

	while (name && lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (strcmp(r->s->fns[by_name[mid]].name, name) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (name && lo < r->s->fn_cnt && !strcmp(r->s->fns[by_name[lo]].name, name))
		return by_name[lo];
	wrong(r, key, "is none of the functions");
	return 0;
}

static void read_edges(struct reader *r, json_t *doc)
{
	json_t *list = enter(r, doc, "edges", get_array);
	uint32_t *by_name = r->err ? NULL : snapshot__sorted(r->s, SORT_NAME) ?: nomem(r);

	r->s->edges = zeroed(r, json_array_size(list), sizeof(*r->s->edges));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		json_t *o = get_row(r, list, i);

		r->s->edges[r->s->edge_cnt++] = (struct snapshot_edge){
			get_end(r, o, "caller", by_name), get_end(r, o, "callee", by_name),
			get_uint(r, o, "calls"), get_uint(r, o, "total_ns")
		};
	}
	free(by_name);
}

static void read_skipped(struct reader *r, json_t *doc)
{
	json_t *list = enter(r, doc, "skipped", get_array);

	r->s->skipped = zeroed(r, json_array_size(list), sizeof(*r->s->skipped));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		json_t *o = get_row(r, list, i);

		r->s->skipped[r->s->skip_cnt++] =
			(struct snapshot_skip){ get_string(r, o, "name"),
						get_string(r, o, "reason") };
	}
}

/* ---- the whole ---- */

static int refuse_text(const json_error_t *e, struct strbuf *reason)
{
	if (json_error_code(e) == json_error_out_of_memory || !*e->text)
		return -ENOMEM;
	strbuf__addf(reason, "line %d: ", e->line);
	utf8__add_printable(reason, e->text);
	return -EINVAL;
}

static void check_schema(struct reader *r, json_t *doc)
{
	const char *schema = json_string_value(json_object_get(doc, "schema"));
	struct strbuf what = STRBUF_INIT;

	r->part = "";
	if (!schema) {
		wrong(r, NULL, "it has no \"schema\"");
	} else if (strcmp(schema, SNAPSHOT_SCHEMA) != 0) {
		strbuf__adds(&what, "its schema is \"");
		utf8__add_printable(&what, schema);
		strbuf__adds(&what, "\", not \"" SNAPSHOT_SCHEMA "\"");
		wrong(r, NULL, what.s);
	}
	strbuf__free(&what);
}

int snapshot__read(const char *text, size_t len, struct snapshot **out, struct strbuf *reason)
{
	static void (*const parts[])(struct reader *, json_t *) = {
		check_schema,  read_tool,     read_target,    read_window,  read_health,
		read_lost,     read_overhead, read_functions, read_edges,   read_skipped,
		read_profiles, read_paths,    read_memory,    read_threads,
	};
	struct reader r = { .s = snapshot__new(), .reason = reason, .row = NO_ROW };
	json_error_t e;
	json_t *doc = NULL;

	if (!r.s || !(r.s->arena = arena__new())) {
		nomem(&r);
	} else {
		doc = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
		if (!doc)
			r.err = refuse_text(&e, reason);
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !r.err; i++)
		parts[i](&r, doc);
	json_decref(doc);
	if (!r.err && reason->oom)
		r.err = -ENOMEM;
	if (r.err)
		snapshot__free(r.s);
	else
		*out = r.s;
	return r.err;
}
