/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random windows: who gets one, when, and what came of it. Their price comes out of the budget:
 * what a window cost says how long to wait for the next.
 */
#include <stdlib.h>
#include <string.h>

#include "attach/governor_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "functions.skel.h"

#define WINDOW_MIN 0.10 /* of the budget, for windows */
#define WINDOW_MAX 0.70 /* of the budget, windows and lasting probes together */
#define SATURATED 0.90	/* of a CPU: what is left says little of what would be */
#define PRICE_OFF 0.25	/* a trap may cost so much more or less than was measured */
#define TIMING_NS (20 * NS_PER_MS)
#define DRAIN_NS (40 * NS_PER_MS)
#define TIMING_GAP_NS (150 * NS_PER_MS)
#define TIMING_GAP_MAX_NS (10 * NS_PER_SEC)
#define COUNTING_NS (2 * NS_PER_MS)
#define COUNTING_GAP_NS (500 * NS_PER_MS)
#define COUNTING_SHARE 0.5 /* of what windows may cost, when there are both kinds */
#define WINDOW_FNS 64u	   /* the longer attaching takes, the longer others are trapped */

/* xorshift64: windows must not beat with what the target does. 0.5 .. 1.5 */
static double jitter(struct governor *g)
{
	g->seed ^= g->seed << 13;
	g->seed ^= g->seed >> 7;
	g->seed ^= g->seed << 17;
	return 0.5 + (double)(g->seed >> 11) / (double)(1ull << 53);
}

void sampler__forget(struct governor *g)
{
	window__free(g->window);
	free(g->before_counts);
	free(g->before);
	free(g->before_shards);
	g->window = NULL;
	g->before_counts = NULL;
	g->before = NULL;
	g->before_shards = NULL;
}

static uint64_t spent_in_window(struct governor *g)
{
	uint64_t spent_ns = 0, hits;
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		const struct rt_fn_stats *was = &g->before[i];
		uint64_t now_ns = governor__cost_ns(g->obj, g->plan, fns[i], &hits);
		uint64_t was_ns = ledger__exits_ns(g->obj, g->plan, was->returned + was->misses,
						   was->stepped) +
				  (was->calls + was->unsampled) * ledger__entry_ns(g, fns[i]);

		spent_ns += now_ns - was_ns;
		/* entries of sampled functions are no part of the window's price */
		if (window__timing(g->window))
			spent_ns -= (ledger__calls(g, fns[i]) - was->calls - was->unsampled) *
				    ledger__entry_ns(g, fns[i]);
	}
	return spent_ns;
}

static void book_times(struct governed *f, const struct rt_fn_stats *was,
		       const struct rt_fn_stats *now, uint64_t begun, uint64_t open)
{
	uint64_t sum_ns = now->sum_ns - was->sum_ns;
	uint64_t ns[GOVERNOR_TIMES] = {
		[GOVERNOR_SUM] = sum_ns,
		[GOVERNOR_TOTAL] = sum_ns - (now->nested_ns - was->nested_ns),
		[GOVERNOR_SELF] = sum_ns - (now->inner_ns - was->inner_ns),
	};

	for (int i = 0; i < GOVERNOR_TIMES; i++) {
		/* it may have waited in another function */
		uint64_t open_ns = i == GOVERNOR_SELF ? 0 : open * DRAIN_NS;

		f->windows_ns[i] += ns[i];
		ratio__add(&f->per_call[i], (double)(ns[i] + open_ns), (double)begun);
	}
}

static void book_timing(struct governor *g, rt_u32 fn, size_t i, uint64_t open_ns)
{
	struct governed *f = &g->fns[fn];
	const uint64_t *was_counts = &g->before_counts[i * RT_HIST_BUCKETS];
	const struct rt_fn_stats *was = &g->before[i];
	uint64_t counts[RT_HIST_BUCKETS], begun, ended;
	struct rt_fn_stats st;

	object__fn_stats(g->obj, fn, &st);
	object__fn_hist(g->obj, fn, counts);
	for (size_t p = 0; p < RT_HIST_BUCKETS; p++)
		counts[p] -= was_counts[p];
	begun = st.calls - was->calls;
	ended = st.returned + st.unwound - was->returned - was->unwound;
	book_times(f, was, &st, begun, begun > ended ? begun - ended : 0);
	f->timed_ns += open_ns;
	if (!f->clusters) {
		f->clusters = clusters__new(RT_HIST_BUCKETS);
		g->clustered++;
	}
	if (f->clusters)
		clusters__add(f->clusters, counts, st.zero_cnt - was->zero_cnt,
			      begun > ended ? begun - ended : 0);
}

static void shard_calls(const struct governor *g, rt_u32 fn, uint64_t out[RT_MAX_SHARDS])
{
	for (rt_u32 i = 0; i < g->obj->shards; i++) {
		const volatile struct rt_fn_stats *st = &g->obj->stats[fn * g->obj->shards + i];

		out[i] = st->calls + st->unsampled;
	}
}

/* Calls of a CPU that did nothing else, had it not spent trap_ns on each. */
static double without_traps(double calls, double open_ns, double trap_ns)
{
	double trapped = calls * trap_ns / open_ns;

	return calls / (1 - (trapped < SATURATED ? trapped : SATURATED));
}

/*
 * A window stands for the time since the one before: a dear one is followed by a longer gap, so
 * that there are fewer windows in busy times. Each CPU is looked at by itself: the time of one that
 * was trapped is not another's.
 */
static void book_counting(struct governor *g, rt_u32 fn, size_t i, uint64_t open_ns,
			  uint64_t now_ns)
{
	const uint64_t *was = &g->before_shards[i * RT_MAX_SHARDS];
	double price_ns = (double)ledger__entry_ns(g, fn), open = (double)open_ns;
	double calls = 0, unslowed = 0, most = 0, stands_for, rate;
	uint64_t now[RT_MAX_SHARDS];
	struct governed *f = &g->fns[fn];

	shard_calls(g, fn, now);
	for (rt_u32 s = 0; s < g->obj->shards; s++) {
		double n = (double)(now[s] - was[s]);
		bool full = n * price_ns * (1 + PRICE_OFF) > SATURATED * open;

		f->saturated |= full;
		calls += n;
		unslowed += without_traps(n, open, price_ns * (full ? 1 - PRICE_OFF : 1));
		most += without_traps(n, open, price_ns * (1 + PRICE_OFF));
	}
	stands_for = now_ns > f->counted_at_ns ? (double)(now_ns - f->counted_at_ns) : open;
	f->counted_at_ns = now_ns;
	ratio__add(&f->slowed, calls / open * stands_for, stands_for);
	ratio__add(&f->unslowed, unslowed / open * stands_for, stands_for);
	ratio__add(&f->unslowed_most, most / open * stands_for, stands_for);
	f->most = most / open > f->most ? most / open : f->most;
	f->off_calls += (uint64_t)calls;
	f->off_seen_ns += open_ns;
	rate = unslowed * 1e9 / open;
	f->rate = rate > f->rate || f->calm_looks ? rate : (f->rate + rate) / 2;
	if (ledger__entries_cost(g, fn) <= ENTRIES_MAX * g->budget / 2)
		f->calm_looks++;
	else
		f->calm_looks = 0;
	log_debug("attach: '%s': %.0f calls in %.3f ms, %.0f without traps, for %.0f ms",
		  g->plan->fns[fn].name, calls, open / 1e6, unslowed, stands_for / 1e6);
}

/* How long to wait after a window of that price. */
static uint64_t gap_after(struct governor *g, uint64_t spent_ns, enum governor_mode other,
			  uint64_t least_ns)
{
	double spare = WINDOW_MAX * g->budget - g->lasting, gap_ns, share = 1;

	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++)
		if (g->fns[fn].mode == other)
			share = COUNTING_SHARE;

	if (spare < WINDOW_MIN * g->budget)
		spare = WINDOW_MIN * g->budget;
	gap_ns = (double)spent_ns / (spare * share);
	return (uint64_t)((gap_ns > (double)least_ns ? gap_ns : (double)least_ns) * jitter(g));
}

/* Windows of all sampled functions together are too seldom: the dearest is only counted. */
static void thin_out(struct governor *g, uint64_t now_ns)
{
	const rt_u32 *fns;
	size_t cnt, dearest = 0;
	double most = -1;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		double cost = ledger__full_cost(g, fns[i]);

		if (cost > most) {
			most = cost;
			dearest = i;
		}
	}
	governor__step_to(g, fns[dearest], GOVERNOR_ENTRIES, now_ns);
}

void sampler__end(struct governor *g, const struct window_result *res, uint64_t now_ns)
{
	bool timing = window__timing(g->window);
	uint64_t spent_ns = spent_in_window(g), gap_ns;
	double unseen = res->open_ns ? (double)res->armed_ns / (double)res->open_ns : 1;
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt && !res->err; i++) {
		if (timing)
			book_timing(g, fns[i], i, res->open_ns);
		else
			book_counting(g, fns[i], i, res->open_ns, now_ns);
	}
	/* the hits while links come and go cost as much, and nobody counts them */
	spent_ns = (uint64_t)((double)spent_ns * (unseen > 1 ? unseen : 1));
	if (timing) {
		gap_ns = gap_after(g, spent_ns, GOVERNOR_OFF, TIMING_GAP_NS);
		if (gap_ns > TIMING_GAP_MAX_NS)
			thin_out(g, now_ns);
		g->next_timing_ns = now_ns + gap_ns;
	} else {
		gap_ns = gap_after(g, spent_ns, GOVERNOR_SAMPLED, COUNTING_GAP_NS);
		g->next_counting_ns = now_ns + gap_ns;
	}
	sampler__forget(g);
	if (res->err)
		log_debug("attach: a window did not open: %s", strerror(-res->err));
}

static void open_window(struct governor *g, enum governor_mode mode)
{
	struct window_spec spec = {
		.fns = g->order,
		.timing = mode == GOVERNOR_SAMPLED,
		.open_ns = mode == GOVERNOR_SAMPLED ? TIMING_NS : COUNTING_NS,
		.drain_ns = DRAIN_NS,
	};
	rt_u32 cnt = (rt_u32)g->plan->fn_cnt;
	int err;

	for (rt_u32 i = 0; i < cnt && spec.cnt < WINDOW_FNS; i++) {
		rt_u32 fn = (g->cursor[mode] + i) % cnt;

		if (g->fns[fn].mode == mode && !links__refused(g->links, fn))
			g->order[spec.cnt++] = fn;
	}
	if (!spec.cnt)
		return;
	g->cursor[mode] = (g->order[spec.cnt - 1] + 1) % cnt;
	g->before = calloc(spec.cnt, sizeof(*g->before));
	g->before_counts = calloc(spec.timing ? spec.cnt * RT_HIST_BUCKETS : 1, sizeof(uint64_t));
	g->before_shards = calloc(spec.cnt * RT_MAX_SHARDS, sizeof(uint64_t));
	if (!g->before || !g->before_counts || !g->before_shards)
		return sampler__forget(g);
	for (size_t i = 0; i < spec.cnt; i++) {
		object__fn_stats(g->obj, spec.fns[i], &g->before[i]);
		shard_calls(g, spec.fns[i], &g->before_shards[i * RT_MAX_SHARDS]);
		if (spec.timing)
			object__fn_hist(g->obj, spec.fns[i],
					&g->before_counts[i * RT_HIST_BUCKETS]);
	}
	err = window__open(g->links, g->obj, &spec, &g->window);
	if (err) {
		log_debug("attach: failed to open a window: %s", strerror(-err));
		sampler__forget(g);
	}
}

void sampler__tick(struct governor *g, uint64_t now_ns)
{
	struct window_result res;

	if (g->window) {
		if (!window__over(g->window, false, &res))
			return;
		sampler__end(g, &res, now_ns);
	}
	if (!g->not_exact || g->obj->mode.single_probes || !links__settled(g->links))
		return;
	if (now_ns >= g->next_counting_ns)
		open_window(g, GOVERNOR_OFF);
	if (!g->window && now_ns >= g->next_timing_ns)
		open_window(g, GOVERNOR_SAMPLED);
}
