/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The difference of two snapshots of one plan: probed rows are matched by their place in the plan,
 * unprobed ones by name and symbol, edges by caller and callee, losses by name.
 */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t grown(uint64_t now, uint64_t prev)
{
	return now > prev ? now - prev : 0;
}

/* NULL with no elements is a fine copy; NULL with some is out of memory. */
static void *copy_array(const void *data, size_t cnt, size_t elem_bytes, bool *oom)
{
	void *p;

	if (!cnt)
		return NULL;
	p = malloc(cnt * elem_bytes);
	if (p)
		memcpy(p, data, cnt * elem_bytes);
	else
		*oom = true;
	return p;
}

static uint64_t hist_at(const struct snapshot_hist *h, uint32_t place)
{
	if (!h->counts || place < h->first || place - h->first >= h->cnt)
		return 0;
	return h->counts[place - h->first];
}

int hist__delta(const struct snapshot_hist *now, const struct snapshot_hist *prev,
		struct snapshot_hist *out)
{
	uint32_t lo, hi;

	*out = (struct snapshot_hist){ .zero_cnt = grown(now->zero_cnt, prev->zero_cnt) };
	if (!now->counts)
		return 0;
	lo = now->first;
	hi = now->first + now->cnt;
	while (lo < hi && hist_at(now, lo) <= hist_at(prev, lo))
		lo++;
	while (hi > lo && hist_at(now, hi - 1) <= hist_at(prev, hi - 1))
		hi--;
	if (lo == hi)
		return 0;
	out->counts = calloc(hi - lo, sizeof(*out->counts));
	if (!out->counts)
		return -ENOMEM;
	out->first = lo;
	out->cnt = hi - lo;
	for (uint32_t p = lo; p < hi; p++)
		out->counts[p - lo] = grown(hist_at(now, p), hist_at(prev, p));
	return 0;
}

/* Bounds of what the interval's histogram holds; now's and prev's own extremes where tighter. */
static void extremes_delta(const struct snapshot_fn *now, const struct snapshot_fn *prev,
			   struct snapshot_fn *out)
{
	const struct snapshot_hist *h = &out->hist;
	double low = 0, high = 0;

	if (!out->returned)
		out->min_ns = out->max_ns = 0;
	if (!hist__count(h))
		return;
	if (h->cnt) {
		low = h->zero_cnt ? 0 : ceil(hist__lower_ns(h->first));
		high = floor(hist__upper_ns(h->first + h->cnt - 1));
	}
	if (prev->returned && now->max_ns <= prev->max_ns && high < (double)now->max_ns)
		out->max_ns = (uint64_t)high;
	if (prev->returned && now->min_ns >= prev->min_ns && low > (double)now->min_ns)
		out->min_ns = (uint64_t)low;
}

static double exact_part(const struct snapshot_fn *fn, int which)
{
	uint64_t ns = which == TIME_SUM	    ? fn->sum_ns
		      : which == TIME_TOTAL ? fn->total_ns
					    : fn->self_ns;
	uint64_t of_windows = fn->sampled ? fn->sampled->windows_ns[which] : 0;

	return (double)grown(ns, of_windows);
}

static uint64_t exact_calls(const struct snapshot_fn *fn)
{
	return fn->sampled ? fn->sampled->exact_calls : fn->calls;
}

/* Few windows fall into an interval, or none: its calls are taken to be as those of all so far. */
static void sampled_delta(const struct snapshot_fn *now, const struct snapshot_fn *prev,
			  struct snapshot_fn *out)
{
	struct snapshot_sampled *a = out->sampled;
	uint64_t rest;

	a->calls.value = grown(snapshot__all_calls(now), snapshot__all_calls(prev));
	if (a->calls.value < out->calls)
		a->calls.value = out->calls;
	a->calls.low = out->calls;
	a->calls.high = UINT64_MAX;
	a->exact_calls = grown(exact_calls(now), exact_calls(prev));
	rest = grown(a->calls.value, a->exact_calls);
	for (int i = 0; i < SNAPSHOT_TIMES; i++) {
		double ns = exact_part(now, i) - exact_part(prev, i);

		ns += (double)rest * a->per_call_ns[i];
		a->times[i] =
			(struct snapshot_estimate){ ns > 0 ? (uint64_t)ns : 0, 0, UINT64_MAX };
		a->windows_ns[i] = grown(now->sampled->windows_ns[i],
					 prev->sampled ? prev->sampled->windows_ns[i] : 0);
	}
	if (!rest && a->time == BASIS_ESTIMATED)
		a->time = BASIS_EXACT;
	if (a->calls.value == out->calls)
		a->count = BASIS_EXACT;
}

static int fn_delta(const struct snapshot_fn *now, const struct snapshot_fn *prev,
		    struct snapshot_fn *out)
{
	*out = *now;
	out->sampled = snapshot_sampled__state(now->sampled);
	out->cost_ns = grown(now->cost_ns, prev->cost_ns);
	out->observed_ns = grown(now->observed_ns, prev->observed_ns);
	out->calls = grown(now->calls, prev->calls);
	out->returned = grown(now->returned, prev->returned);
	out->unwound = grown(now->unwound, prev->unwound);
	out->untimed = grown(now->untimed, prev->untimed);
	out->tail_exits = grown(now->tail_exits, prev->tail_exits);
	out->sum_ns = grown(now->sum_ns, prev->sum_ns);
	out->total_ns = grown(now->total_ns, prev->total_ns);
	out->self_ns = grown(now->self_ns, prev->self_ns);
	out->corrected_ns = grown(now->corrected_ns, prev->corrected_ns);
	out->clamped = grown(now->clamped, prev->clamped);
	out->hist_lost = grown(now->hist_lost, prev->hist_lost);
	out->cpu_samples = grown(now->cpu_samples, prev->cpu_samples);
	out->cpu_self_samples = grown(now->cpu_self_samples, prev->cpu_self_samples);
	out->cpu_inlined_samples = grown(now->cpu_inlined_samples, prev->cpu_inlined_samples);
	if (hist__delta(&now->hist, &prev->hist, &out->hist) || !out->sampled != !now->sampled)
		return -ENOMEM;
	extremes_delta(now, prev, out);
	if (out->sampled)
		sampled_delta(now, prev, out);
	return 0;
}

static int by_identity(const void *a, const void *b)
{
	const struct snapshot_fn *x = *(const struct snapshot_fn *const *)a;
	const struct snapshot_fn *y = *(const struct snapshot_fn *const *)b;

	return strcmp(x->name, y->name) ?: strcmp(x->symbol ?: "", y->symbol ?: "");
}

/* The unprobed rows in their order. NULL: no memory. */
static const struct snapshot_fn **index_unprobed(const struct snapshot *s, size_t *cnt)
{
	const struct snapshot_fn **rows = calloc(s->fn_cnt + 1, sizeof(*rows));

	*cnt = 0;
	for (size_t i = 0; rows && i < s->fn_cnt; i++)
		if (s->fns[i].unprobed)
			rows[(*cnt)++] = &s->fns[i];
	if (rows)
		qsort(rows, *cnt, sizeof(*rows), by_identity);
	return rows;
}

/* Whether a row that is not in s was without a sample then, as far as s can tell. */
static bool knows_all(const struct snapshot *s)
{
	const struct snapshot_profile *cpu = s->profiles ? s->profiles->of[PROFILE_CPU] : NULL;

	return cpu && !cpu->unlisted_fns;
}

static int unprobed_delta(const struct snapshot *now, const struct snapshot *prev, size_t first,
			  struct snapshot *out)
{
	static const struct snapshot_fn none;
	const struct snapshot_fn **old;
	size_t old_cnt;
	int err = 0;

	old = index_unprobed(prev ?: now, &old_cnt);
	if (!old)
		return -ENOMEM;
	for (size_t i = first; i < now->fn_cnt && !err; i++) {
		const struct snapshot_fn *fn = &now->fns[i], *const *was = NULL;

		if (prev)
			was = bsearch(&fn, old, old_cnt, sizeof(*old), by_identity);
		if (was || !prev || knows_all(prev))
			err = fn_delta(fn, was ? *was : &none, &out->fns[out->fn_cnt++]);
	}
	free(old);
	return err;
}

static int fns_delta(const struct snapshot *now, const struct snapshot *prev, struct snapshot *out)
{
	static const struct snapshot_fn none;
	size_t probed = snapshot__probed(now);
	int err = 0;

	out->fns = calloc(now->fn_cnt + 1, sizeof(*out->fns));
	if (!out->fns)
		return -ENOMEM;
	out->fn_cnt = probed;
	for (size_t i = 0; i < probed && !err; i++)
		err = fn_delta(&now->fns[i], prev ? &prev->fns[i] : &none, &out->fns[i]);
	return err ?: unprobed_delta(now, prev, probed, out);
}

static int by_pair(const void *a_, const void *b_)
{
	const struct snapshot_edge *a = a_, *b = b_;

	if (a->caller != b->caller)
		return a->caller < b->caller ? -1 : 1;
	return a->callee < b->callee ? -1 : a->callee > b->callee;
}

static int by_edge_total(const void *a_, const void *b_)
{
	const struct snapshot_edge *a = a_, *b = b_;

	if (a->total_ns != b->total_ns)
		return a->total_ns < b->total_ns ? 1 : -1;
	return by_pair(a, b);
}

static int edges_delta(const struct snapshot *now, const struct snapshot *prev,
		       struct snapshot *out)
{
	struct snapshot_edge *old = NULL;
	size_t old_cnt = prev ? prev->edge_cnt : 0;
	bool oom = false;

	out->edges = copy_array(now->edges, now->edge_cnt, sizeof(*now->edges), &oom);
	old = copy_array(prev ? prev->edges : NULL, old_cnt, sizeof(*old), &oom);
	if (oom) {
		free(old);
		return -ENOMEM;
	}
	if (old)
		qsort(old, old_cnt, sizeof(*old), by_pair);
	for (size_t i = 0; i < now->edge_cnt; i++) {
		struct snapshot_edge e = now->edges[i];
		const struct snapshot_edge *was =
			old ? bsearch(&e, old, old_cnt, sizeof(e), by_pair) : NULL;

		e.calls = grown(e.calls, was ? was->calls : 0);
		e.total_ns = grown(e.total_ns, was ? was->total_ns : 0);
		if (e.calls)
			out->edges[out->edge_cnt++] = e;
	}
	if (out->edges)
		qsort(out->edges, out->edge_cnt, sizeof(*out->edges), by_edge_total);
	free(old);
	return 0;
}

static int lost_delta(const struct snapshot *now, const struct snapshot *prev, struct snapshot *out)
{
	bool oom = false;

	out->lost = copy_array(now->lost, now->lost_cnt, sizeof(*now->lost), &oom);
	if (oom)
		return -ENOMEM;
	out->lost_cnt = now->lost_cnt;
	for (size_t i = 0; prev && i < out->lost_cnt; i++)
		for (size_t j = 0; j < prev->lost_cnt; j++)
			if (!strcmp(out->lost[i].name, prev->lost[j].name))
				out->lost[i].count = grown(out->lost[i].count, prev->lost[j].count);
	return 0;
}

static int reasons_copy(const struct snapshot *now, struct snapshot *out)
{
	out->reasons = calloc(now->reason_cnt + 1, sizeof(*out->reasons));
	if (!out->reasons)
		return -ENOMEM;
	for (; out->reason_cnt < now->reason_cnt; out->reason_cnt++) {
		out->reasons[out->reason_cnt] = strdup(now->reasons[out->reason_cnt]);
		if (!out->reasons[out->reason_cnt])
			return -ENOMEM;
	}
	return 0;
}

static int states_copy(const struct snapshot *now, struct snapshot *out)
{
	bool oom = false;

	out->overhead.shed = copy_array(now->overhead.shed, now->overhead.shed_cnt,
					sizeof(*now->overhead.shed), &oom);
	out->skipped = copy_array(now->skipped, now->skip_cnt, sizeof(*now->skipped), &oom);
	return oom ? -ENOMEM : reasons_copy(now, out);
}

/* Of a share of the time: what it was in the window between. */
static double ratio_between(const struct snapshot *now, const struct snapshot *prev, double ratio,
			    double before)
{
	uint64_t ns = grown(now->window.duration_ns, prev->window.duration_ns);
	double spent =
		ratio * (double)now->window.duration_ns - before * (double)prev->window.duration_ns;

	return ns && spent > 0 ? spent / (double)ns : 0;
}

static void window_delta(const struct snapshot *now, const struct snapshot *prev,
			 struct snapshot *out)
{
	out->window.start_unix_ns = prev->window.end_unix_ns;
	out->window.duration_ns = grown(now->window.duration_ns, prev->window.duration_ns);
	out->overhead.hits = grown(now->overhead.hits, prev->overhead.hits);
	out->overhead.corrected_ns = grown(now->overhead.corrected_ns, prev->overhead.corrected_ns);
	out->overhead.clamped = grown(now->overhead.clamped, prev->overhead.clamped);
	out->overhead.cpu_ratio =
		ratio_between(now, prev, now->overhead.cpu_ratio, prev->overhead.cpu_ratio);
	out->overhead.probes_ratio =
		ratio_between(now, prev, now->overhead.probes_ratio, prev->overhead.probes_ratio);
	out->overhead.threads_ratio =
		ratio_between(now, prev, now->overhead.threads_ratio, prev->overhead.threads_ratio);
	out->overhead.profile_ratio =
		ratio_between(now, prev, now->overhead.profile_ratio, prev->overhead.profile_ratio);
	out->overhead.growth_ratio =
		ratio_between(now, prev, now->overhead.growth_ratio, prev->overhead.growth_ratio);
	out->overhead.process_ratio = NAN;
	out->overhead.tool_cpu_ns = grown(now->overhead.tool_cpu_ns, prev->overhead.tool_cpu_ns);
	out->overhead.tool_ratio = isnan(now->overhead.tool_ratio)
					   ? NAN
					   : ratio_between(now, prev, now->overhead.tool_ratio,
							   prev->overhead.tool_ratio);
}

/* ---- threads ---- */

static int stats_delta(struct snapshot_stats *now, const struct snapshot_stats *prev)
{
	struct snapshot_hist hist = now->hist;

	now->count = grown(now->count, prev->count);
	now->total_ns = grown(now->total_ns, prev->total_ns);
	now->hist_lost = grown(now->hist_lost, prev->hist_lost);
	return hist__delta(&hist, &prev->hist, &now->hist);
}

static int thread_delta(struct snapshot_thread *now, const struct snapshot_thread *prev)
{
	now->observed_ns = grown(now->observed_ns, prev->observed_ns);
	now->cpu_ns = grown(now->cpu_ns, prev->cpu_ns);
	now->stolen_ns = grown(now->stolen_ns, prev->stolen_ns);
	now->user_ns = grown(now->user_ns, prev->user_ns);
	now->system_ns = grown(now->system_ns, prev->system_ns);
	now->run_queue_ns = grown(now->run_queue_ns, prev->run_queue_ns);
	now->preempted_ns = grown(now->preempted_ns, prev->preempted_ns);
	for (int i = 0; i < THREAD_OFF_CNT; i++)
		now->off_ns[i] = grown(now->off_ns[i], prev->off_ns[i]);
	now->voluntary = grown(now->voluntary, prev->voluntary);
	now->involuntary = grown(now->involuntary, prev->involuntary);
	now->migrations = grown(now->migrations, prev->migrations);
	for (int i = 0; i < WAKER_CNT; i++)
		now->woken[i] = grown(now->woken[i], prev->woken[i]);
	for (int i = 0; i < THREAD_WAKERS; i++)
		if (now->wakers[i].tid == prev->wakers[i].tid)
			now->wakers[i].count = grown(now->wakers[i].count, prev->wakers[i].count);
	return stats_delta(&now->queue, &prev->queue);
}

static const struct snapshot_thread *thread_of(const struct snapshot *s,
					       const struct snapshot_thread *t)
{
	for (size_t i = 0; s && i < s->thread_cnt; i++)
		if (s->threads[i].tid == t->tid && (t->tid || !strcmp(s->threads[i].name, t->name)))
			return &s->threads[i];
	return NULL;
}

/* Threads by tid, those that ended by name; one that is younger than prev was not there. */
static int threads_delta(const struct snapshot *now, const struct snapshot *prev,
			 struct snapshot *out)
{
	static const struct snapshot_thread none;
	bool oom = false;
	int err = 0;

	out->threads = copy_array(now->threads, now->thread_cnt, sizeof(*now->threads), &oom);
	out->stalls = copy_array(now->stalls, now->stall_cnt, sizeof(*now->stalls), &oom);
	if (oom)
		return -ENOMEM;
	out->stall_cnt = now->stall_cnt;
	for (; out->thread_cnt < now->thread_cnt && !err; out->thread_cnt++) {
		struct snapshot_thread *t = &out->threads[out->thread_cnt];
		const struct snapshot_thread *was = thread_of(prev, t);

		if (was && was->observed_ns > t->observed_ns)
			was = NULL;
		err = thread_delta(t, was ? was : &none);
	}
	return err;
}

static const struct snapshot_lock *lock_of(const struct snapshot *s, uint64_t address)
{
	for (size_t i = 0; s && i < s->lock_cnt; i++)
		if (s->locks[i].address == address)
			return &s->locks[i];
	return NULL;
}

static int locks_delta(const struct snapshot *now, const struct snapshot *prev,
		       struct snapshot *out)
{
	static const struct snapshot_lock none;
	bool oom = false;
	int err = 0;

	out->locks = copy_array(now->locks, now->lock_cnt, sizeof(*now->locks), &oom);
	if (oom)
		return -ENOMEM;
	for (; out->lock_cnt < now->lock_cnt && !err; out->lock_cnt++) {
		struct snapshot_lock *l = &out->locks[out->lock_cnt];
		const struct snapshot_lock *was = lock_of(prev, l->address);

		/* of the whole window */
		l->stacks = NULL;
		l->stack_cnt = 0;
		err = stats_delta(&l->wait, was ? &was->wait : &none.wait);
	}
	return err;
}

static bool same_plan(const struct snapshot *now, const struct snapshot *prev)
{
	size_t probed = snapshot__probed(now);

	if (probed != snapshot__probed(prev))
		return false;
	for (size_t i = 0; i < probed; i++)
		if (now->fns[i].name != prev->fns[i].name &&
		    strcmp(now->fns[i].name, prev->fns[i].name) != 0)
			return false;
	return true;
}

struct snapshot *snapshot__delta(const struct snapshot *now, const struct snapshot *prev)
{
	struct snapshot *out;

	if (prev && !same_plan(now, prev)) {
		errno = EINVAL;
		return NULL;
	}
	out = snapshot__new();
	if (!out)
		return NULL;
	*out = *now;
	out->arena = NULL;
	out->reasons = NULL;
	out->lost = NULL;
	out->overhead.shed = NULL;
	out->fns = NULL;
	out->edges = NULL;
	out->skipped = NULL;
	out->threads = NULL;
	out->locks = NULL;
	out->stalls = NULL;
	out->profiles = NULL;
	out->memory = NULL;
	out->paths = NULL;
	out->alloc_stacks = NULL;
	out->path_cnt = out->alloc_stack_cnt = 0;
	out->reason_cnt = out->lost_cnt = out->fn_cnt = out->edge_cnt = 0;
	out->thread_cnt = out->lock_cnt = out->stall_cnt = 0;
	if (prev)
		window_delta(now, prev, out);
	if (fns_delta(now, prev, out) || edges_delta(now, prev, out) ||
	    lost_delta(now, prev, out) || threads_delta(now, prev, out) ||
	    locks_delta(now, prev, out) || states_copy(now, out)) {
		snapshot__free(out);
		errno = ENOMEM;
		return NULL;
	}
	return out;
}
