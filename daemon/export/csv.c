/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables for spreadsheets and data frames (docs/formats.md): csv has one row per function,
 * csv-buckets one per histogram bucket, csv-threads one per thread. Quoting is RFC 4180's, lines
 * end in LF, text is UTF-8. An empty field was not measured, or is not known. Columns are added at
 * the end, never moved: the header names them with their units.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "snapshot/snapshot.h"

/* ---- fields ---- */

/* RFC 4180 has no control characters but line ends; a tab does no harm. */
static bool is_text(uint32_t c)
{
	return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0x7f) || c >= 0xa0;
}

static void put_string(struct strbuf *out, const char *s)
{
	bool quoted = s && strpbrk(s, ",\"\r\n");
	size_t len = s ? strlen(s) : 0, n;

	if (quoted)
		strbuf__addc(out, '"');
	for (; len; s += n, len -= n) {
		uint32_t c = utf8__decode(s, len, &n);

		if (c == '"')
			strbuf__addc(out, '"');
		utf8__encode(out, is_text(c) ? c : UTF8_BAD);
	}
	if (quoted)
		strbuf__addc(out, '"');
}

static void add_string(struct strbuf *out, const char *s)
{
	strbuf__addc(out, ',');
	put_string(out, s);
}

static void add_uint(struct strbuf *out, uint64_t v)
{
	strbuf__addf(out, ",%" PRIu64, v);
}

static void add_uint_if(struct strbuf *out, bool measured, uint64_t v)
{
	if (measured)
		add_uint(out, v);
	else
		strbuf__addc(out, ',');
}

/* ---- csv ---- */

#define FUNCTION_COLUMNS                                                                           \
	"function,symbol,crate,kind,file,line,sites,coverage,exit,"                                \
	"calls,returned,unwound,in_flight,in_flight_stale,untimed,tail_exits,"                     \
	"sum_ns,total_ns,self_ns,min_ns,max_ns,mean_ns,p50_ns,p95_ns,p99_ns,share_ratio,"          \
	"observed_ns,floor_ns,corrected_ns,clamped,histogram_lost,"                                \
	"comm,pid,window_start_unix_ns,window_end_unix_ns,window_ns,health,lost,"                  \
	"alloc_bytes,alloc_count,freed_bytes,freed_count,live_bytes,"                              \
	"live_bytes_estimate,live_bytes_error,"                                                    \
	"module,origin,cpu_samples,cpu_self_samples,cpu_inlined_samples,"                          \
	"cpu_ns,cpu_low_ns,cpu_high_ns,cpu_self_ns,cpu_self_low_ns,cpu_self_high_ns,"              \
	"calls_basis,calls_estimate,calls_low,calls_high,"                                         \
	"time_basis,sum_estimate_ns,sum_low_ns,sum_high_ns,"                                       \
	"total_estimate_ns,total_low_ns,total_high_ns,"                                            \
	"self_estimate_ns,self_low_ns,self_high_ns,makes_future\n"

static void add_identity(struct strbuf *out, const struct snapshot_fn *fn)
{
	put_string(out, fn->name);
	add_string(out, fn->symbol);
	add_string(out, fn->crate);
	add_string(out, fn->unprobed ? NULL : fn->is_async ? "async" : "fn");
	add_string(out, fn->file);
	add_uint_if(out, fn->file && fn->line, fn->line);
	add_uint_if(out, !fn->unprobed, fn->sites);
	add_string(out, snapshot_coverage_names[fn->coverage]);
	add_string(out, fn->exit);
}

static void add_counts(struct strbuf *out, const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn);

	add_uint_if(out, !fn->unprobed, fn->calls);
	add_uint_if(out, timed, fn->returned);
	add_uint_if(out, timed, fn->unwound);
	add_uint_if(out, timed, fn->in_flight);
	add_uint_if(out, timed, fn->in_flight_stale);
	add_uint_if(out, timed, fn->untimed);
	add_uint_if(out, timed, fn->tail_exits);
}

static void add_durations(struct strbuf *out, const struct snapshot *s,
			  const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn), some = timed && fn->returned;
	bool spread = some && hist__count(&fn->hist);

	add_uint_if(out, timed, fn->sum_ns);
	add_uint_if(out, timed, fn->total_ns);
	add_uint_if(out, timed, fn->self_ns);
	add_uint_if(out, some, fn->min_ns);
	add_uint_if(out, some, fn->max_ns);
	add_uint_if(out, some, snapshot__mean_ns(fn));
	add_uint_if(out, spread, spread ? snapshot__quantile_ns(fn, 0.50) : 0);
	add_uint_if(out, spread, spread ? snapshot__quantile_ns(fn, 0.95) : 0);
	add_uint_if(out, spread, spread ? snapshot__quantile_ns(fn, 0.99) : 0);
	strbuf__addc(out, ',');
	if (timed)
		strbuf__addf(out, "%.15g", snapshot__share(s, fn));
}

static void add_trust(struct strbuf *out, const struct snapshot_fn *fn)
{
	bool timed = snapshot__timed(fn);

	add_uint_if(out, !fn->unprobed, fn->observed_ns);
	add_uint_if(out, timed, fn->floor_ns);
	add_uint_if(out, timed, fn->corrected_ns);
	add_uint_if(out, timed, fn->clamped);
	add_uint_if(out, timed, fn->hist_lost);
}

/* The same in each row: so that rows of several files can be told apart once they are in one. */
static void add_origin(struct strbuf *out, const struct snapshot *s)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < s->lost_cnt; i++)
		lost += s->lost[i].count;
	add_string(out, s->target.comm);
	add_uint(out, (uint64_t)s->target.pid);
	add_uint(out, s->window.start_unix_ns);
	add_uint(out, s->window.end_unix_ns);
	add_uint(out, s->window.duration_ns);
	add_string(out, s->reason_cnt ? "degraded" : "ok");
	add_uint(out, lost);
}

/* Estimates have columns of their own. */
static void add_alloc(struct strbuf *out, const struct snapshot_fn *fn)
{
	bool exact = fn->has_alloc && !fn->alloc_estimated;

	add_uint_if(out, fn->has_alloc, fn->alloc.alloc_bytes);
	add_uint_if(out, fn->has_alloc, fn->alloc.alloc_count);
	add_uint_if(out, exact, fn->alloc.freed_bytes);
	add_uint_if(out, exact, fn->alloc.freed_count);
	strbuf__addc(out, ',');
	if (exact)
		strbuf__addf(out, "%" PRId64, sums__live_bytes(&fn->alloc));
	add_uint_if(out, fn->alloc_estimated, (uint64_t)sums__live_bytes(&fn->alloc));
	add_uint_if(out, fn->alloc_estimated, fn->alloc_error_bytes);
}

static void add_cpu_time(struct strbuf *out, const struct snapshot_profile *cpu, uint64_t samples)
{
	struct profile_time t = {};

	if (cpu)
		t = profile__time(cpu, samples);
	add_uint_if(out, cpu, t.ns);
	add_uint_if(out, cpu, t.low_ns);
	add_uint_if(out, cpu, t.high_ns);
}

static void add_cpu(struct strbuf *out, const struct snapshot *s, const struct snapshot_fn *fn)
{
	const struct snapshot_profile *cpu = s->profiles ? s->profiles->of[PROFILE_CPU] : NULL;

	add_string(out, fn->unprobed ? fn->module : NULL);
	add_string(out, fn->unprobed ? frame_kind_names[fn->origin] : NULL);
	add_uint_if(out, cpu, fn->cpu_samples);
	add_uint_if(out, cpu, fn->cpu_self_samples);
	add_uint_if(out, cpu, fn->cpu_inlined_samples);
	add_cpu_time(out, cpu, fn->cpu_samples);
	add_cpu_time(out, cpu, fn->cpu_self_samples);
}

static void add_estimate(struct strbuf *out, const struct snapshot_estimate *e)
{
	add_uint_if(out, e, e ? e->value : 0);
	add_uint_if(out, e, e ? e->low : 0);
	add_uint_if(out, e && e->high != UINT64_MAX, e ? e->high : 0);
}

/* Of the whole window; empty where nothing had to be estimated, or nothing can be. */
static void add_estimates(struct strbuf *out, const struct snapshot_fn *fn)
{
	const struct snapshot_sampled *a = fn->sampled, *timed = snapshot__timed(fn) ? a : NULL;

	add_string(out, fn->unprobed ? NULL : snapshot_basis_names[snapshot__calls_basis(fn)]);
	add_estimate(out, a ? &a->calls : NULL);
	add_string(out,
		   snapshot__timed(fn) ? snapshot_basis_names[snapshot__time_basis(fn)] : NULL);
	for (int i = 0; i < SNAPSHOT_TIMES; i++)
		add_estimate(out, timed ? &timed->times[i] : NULL);
}

static int render(const struct snapshot *s, struct strbuf *out)
{
	strbuf__adds(out, FUNCTION_COLUMNS);
	for (size_t i = 0; i < s->fn_cnt; i++) {
		add_identity(out, &s->fns[i]);
		add_counts(out, &s->fns[i]);
		add_durations(out, s, &s->fns[i]);
		add_trust(out, &s->fns[i]);
		add_origin(out, s);
		add_alloc(out, &s->fns[i]);
		add_cpu(out, s, &s->fns[i]);
		add_estimates(out, &s->fns[i]);
		add_uint_if(out, !s->fns[i].unprobed, s->fns[i].makes_future);
		strbuf__addc(out, '\n');
	}
	return out->oom ? -ENOMEM : 0;
}

/* ---- csv-buckets ---- */

#define BUCKET_COLUMNS "function,kind,gt_ns,le_ns,count\n"

static void add_bucket_of(struct strbuf *out, const struct snapshot_fn *fn)
{
	put_string(out, fn->name);
	add_string(out, fn->is_async ? "async" : "fn");
}

/* 17 digits: the double itself comes back. */
static void add_bucket(struct strbuf *out, const struct snapshot_fn *fn, uint32_t place,
		       uint64_t count)
{
	add_bucket_of(out, fn);
	strbuf__addf(out, ",%.17g,%.17g,%" PRIu64 "\n", hist__lower_ns(place),
		     hist__upper_ns(place), count);
}

static void add_buckets(struct strbuf *out, const struct snapshot_fn *fn)
{
	const struct snapshot_hist *h = &fn->hist;

	if (h->zero_cnt) {
		add_bucket_of(out, fn);
		strbuf__addf(out, ",,0,%" PRIu64 "\n", h->zero_cnt);
	}
	for (uint32_t i = 0; h->counts && i < h->cnt; i++)
		if (h->counts[i])
			add_bucket(out, fn, h->first + i, h->counts[i]);
	/* they took some time, which is not known */
	if (fn->hist_lost) {
		add_bucket_of(out, fn);
		strbuf__addf(out, ",,,%" PRIu64 "\n", fn->hist_lost);
	}
}

static int render_buckets(const struct snapshot *s, struct strbuf *out)
{
	strbuf__adds(out, BUCKET_COLUMNS);
	for (size_t i = 0; i < s->fn_cnt; i++)
		if (snapshot__timed(&s->fns[i]))
			add_buckets(out, &s->fns[i]);
	return out->oom ? -ENOMEM : 0;
}

/* ---- csv-threads ---- */

#define THREAD_COLUMNS                                                                             \
	"thread,tid,ns_tid,threads,state,state_ns,runtime,observed_ns,cpu_ns,stolen_ns,user_ns,"   \
	"system_ns,cpu_ratio,cpu_now_ratio,cpu_max_ratio,parked_ratio,run_queue_ns,preempted_ns,"  \
	"futex_ns,lock_ns,epoll_ns,sleep_ns,io_ns,socket_ns,pipe_ns,other_ns,stopped_ns,"          \
	"voluntary,involuntary,migrations,woken_by_thread,woken_by_process,woken_by_interrupt,"    \
	"woken_by_unknown,run_queue_waits,run_queue_p50_ns,run_queue_p95_ns,run_queue_p99_ns,"     \
	"run_queue_max_ns,"                                                                        \
	"comm,pid,window_start_unix_ns,window_end_unix_ns,window_ns,health,lost\n"

static void add_ratio_if(struct strbuf *out, bool known, double v)
{
	strbuf__addc(out, ',');
	if (known)
		strbuf__addf(out, "%.15g", v);
}

static void add_thread_times(struct strbuf *out, const struct snapshot_thread *t)
{
	add_uint(out, t->observed_ns);
	add_uint(out, t->cpu_ns);
	add_uint(out, t->stolen_ns);
	add_uint_if(out, t->split_known, t->user_ns);
	add_uint_if(out, t->split_known, t->system_ns);
	add_ratio_if(out, true, thread__cpu_ratio(t));
	add_ratio_if(out, t->cpu_now >= 0, t->cpu_now);
	add_ratio_if(out, t->cpu_max >= 0, t->cpu_max);
	add_ratio_if(out, true, thread__parked_ratio(t));
	add_uint(out, t->run_queue_ns);
	add_uint(out, t->preempted_ns);
	for (int i = 0; i < THREAD_OFF_CNT; i++)
		add_uint(out, t->off_ns[i]);
}

static void add_thread_counts(struct strbuf *out, const struct snapshot_thread *t)
{
	const struct snapshot_stats *q = &t->queue;
	bool spread = hist__count(&q->hist) != 0;
	static const double quantiles[] = { 0.50, 0.95, 0.99 };

	add_uint(out, t->voluntary);
	add_uint(out, t->involuntary);
	add_uint(out, t->migrations);
	for (int i = 0; i < WAKER_CNT; i++)
		add_uint(out, t->woken[i]);
	add_uint(out, q->count);
	for (int i = 0; i < 3; i++)
		add_uint_if(out, spread,
			    hist__quantile_ns(&q->hist, q->min_ns, q->max_ns, quantiles[i]));
	add_uint_if(out, q->count != 0, q->max_ns);
}

static int render_threads(const struct snapshot *s, struct strbuf *out)
{
	strbuf__adds(out, THREAD_COLUMNS);
	for (size_t i = 0; i < s->thread_cnt; i++) {
		const struct snapshot_thread *t = &s->threads[i];
		bool one = t->tid != 0;

		put_string(out, t->name);
		add_uint_if(out, one, (uint64_t)t->tid);
		add_uint_if(out, one, (uint64_t)t->ns_tid);
		add_uint(out, t->count);
		add_string(out, thread_state_names[t->state]);
		add_uint_if(out, one, t->state_ns);
		add_string(out, t->tokio ? "tokio" : NULL);
		add_thread_times(out, t);
		add_thread_counts(out, t);
		add_origin(out, s);
		strbuf__addc(out, '\n');
	}
	return out->oom ? -ENOMEM : 0;
}

const struct exporter export_csv = { .name = "csv", .suffix = ".csv", .render = render };
const struct exporter export_csv_buckets = { .name = "csv-buckets",
					     .suffix = ".buckets.csv",
					     .render = render_buckets };
const struct exporter export_csv_threads = { .name = "csv-threads",
					     .suffix = ".threads.csv",
					     .render = render_threads };
