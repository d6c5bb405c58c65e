/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random windows: who gets one, when, and what came of it. Their price comes out of the budget:
 * what a window cost says how long to wait for the next.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attach/governor_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "functions.skel.h"

#define WINDOW_MIN 0.10 /* of the budget, for windows */
#define WINDOW_MAX 0.70 /* of the budget, windows and lasting probes together */
#define SATURATED 0.90	/* of the time in traps: what is left says little of what would be */
#define LOUD 0.25	/* of the time in traps of one function: a window of its own */
#define DISTURBED 0.50	/* of the time in traps of others: it says nothing of this one */
#define MUCH_CPU_NS (NS_PER_MS / 10) /* of the target in a window, enough to say something */
#define LITTLE_CPU 0.01		     /* of a CPU: it is idle */
/* of a trap's price: in traffic it may cost half as much again */
#define PRICE_DEARER 0.50
#define PRICE_CHEAPER 0.25
#define TIMING_NS (20 * NS_PER_MS)
#define DRAIN_NS (40 * NS_PER_MS)
#define TIMING_GAP_NS (150 * NS_PER_MS)
#define TIMING_GAP_MAX_NS (10 * NS_PER_SEC)
#define COUNTING_NS (2 * NS_PER_MS)
#define COUNTING_MOST_NS (8 * NS_PER_MS)
#define COUNTING_GAP_NS (200 * NS_PER_MS)
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
	g->window = NULL;
	g->before_counts = NULL;
	g->before = NULL;
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

/* What is left of the CPU time of a window without its traps. */
static double own_time(double cpu_ns, double trapped_ns)
{
	double least = (1 - SATURATED) * cpu_ns, own = cpu_ns - trapped_ns;

	return own > least ? own : least;
}

/* A counting window: CPU time of the process, and what of it all traps took. */
struct counting {
	double open_ns, cpu_ns;
	double trapped_ns, cold_ns; /* at warm prices, and at those of cold caches */
};

static double calls_of(const struct governor *g, rt_u32 fn, size_t i)
{
	const struct rt_fn_stats *was = &g->before[i];

	return (double)(ledger__calls(g, fn) - was->calls - was->unsampled);
}

static struct counting sum_up(const struct governor *g, const struct window_result *res)
{
	struct counting c = { .open_ns = (double)res->open_ns, .cpu_ns = (double)res->cpu_ns + 1 };
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		double calls = calls_of(g, fns[i], i);

		/* where traps matter for the count, they follow each other closely */
		c.trapped_ns += calls * (double)ledger__warm_entry_ns(g, fns[i]);
		c.cold_ns += calls * (double)ledger__entry_ns(g, fns[i]);
	}
	return c;
}

/*
 * A window stands for the time since the one before: a dear one is followed by a longer gap, so
 * that there are fewer of them in busy times.
 */
static void add_window(struct governed *f, double calls, const struct counting *c,
		       double stands_for)
{
	double dear_ns = fmax(c->trapped_ns * (1 + PRICE_DEARER), c->cold_ns);
	double cheap_ns = c->trapped_ns * (1 - PRICE_CHEAPER);
	bool full = dear_ns > SATURATED * c->cpu_ns;
	double most = own_time(c->cpu_ns, dear_ns), least = own_time(c->cpu_ns, cheap_ns);

	f->saturated |= full && calls > 0;
	ratio__add(&f->per_cpu, calls * stands_for,
		   (full ? least : own_time(c->cpu_ns, c->trapped_ns)) * stands_for);
	ratio__add(&f->per_cpu_most, calls * stands_for, most * stands_for);
	ratio__add(&f->per_cpu_least, calls * stands_for, least * stands_for);
	if (c->cpu_ns > MUCH_CPU_NS && calls / most > f->most)
		f->most = calls / most;
}

/* Calls per second as the target would do them. A window it slept through says nothing of that. */
static void judge_rate(struct governor *g, rt_u32 fn, double per_cpu_ns, uint64_t now_ns,
		       uint64_t cpu_now_ns)
{
	struct governed *f = &g->fns[fn];
	double took_ns = (double)(now_ns - f->counted_at_ns) + 1, rate;

	rate = per_cpu_ns * 1e9 * (double)(cpu_now_ns - f->counted_at_cpu_ns) / took_ns;
	f->rate = rate > f->rate || f->calm_looks ? rate : (f->rate + rate) / 2;
	if (ledger__entries_cost(g, fn) <= ENTRIES_MAX * g->budget / 2)
		f->calm_looks++;
	else
		f->calm_looks = 0;
}

/*
 * What slows the thread that calls it slows it too. Where that was another function's traps, the
 * window says little of this one: it waits for the next, which the loud one will not be in.
 */
static void book_counting(struct governor *g, rt_u32 fn, size_t i, const struct counting *c,
			  uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];
	double calls = calls_of(g, fn, i), own_ns = own_time(c->cpu_ns, c->trapped_ns);
	double by_itself_ns = calls * (double)ledger__warm_entry_ns(g, fn);
	uint64_t cpu_now_ns = ledger__read_cpu(g);
	double stands_for = (double)(now_ns - f->counted_at_ns) / 1e9;
	double slept = (double)(now_ns - f->counted_at_ns) * LITTLE_CPU;
	bool idle;

	f->off_calls += (uint64_t)calls;
	f->off_seen_ns += (uint64_t)c->open_ns;
	f->loud = by_itself_ns > LOUD * c->cpu_ns;
	log_debug("attach: '%s': %.0f calls in %.3f ms of CPU time, %.3f without traps; %.0f of "
		  "%.0f ms used since the last window",
		  g->plan->fns[fn].name, calls, c->cpu_ns / 1e6, own_ns / 1e6,
		  (double)(cpu_now_ns - f->counted_at_cpu_ns) / 1e6,
		  (double)(now_ns - f->counted_at_ns) / 1e6);
	if (c->trapped_ns - by_itself_ns > DISTURBED * c->cpu_ns)
		return;
	add_window(f, calls, c, stands_for);
	f->trapped_ns += by_itself_ns;
	f->all_trapped_ns += c->trapped_ns;
	f->window_cpu_ns += c->cpu_ns;
	ratio__add(&f->per_time, calls * 1e9 / c->open_ns * stands_for, stands_for);
	idle = !calls && (double)(cpu_now_ns - f->counted_at_cpu_ns) < slept;
	if (c->cpu_ns > MUCH_CPU_NS || idle)
		judge_rate(g, fn, calls / own_ns, now_ns, cpu_now_ns);
	f->counted_at_ns = now_ns;
	f->counted_at_cpu_ns = cpu_now_ns;
}

/* The part of what windows may cost that those of a kind get, of the three kinds there are. */
static double share_of(const struct governor *g, enum governor_mode mode)
{
	bool timing = false, quiet = false, loud = false;

	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		timing |= g->fns[fn].mode == GOVERNOR_SAMPLED;
		loud |= g->fns[fn].mode == GOVERNOR_OFF && g->fns[fn].loud;
		quiet |= g->fns[fn].mode == GOVERNOR_OFF && !g->fns[fn].loud;
	}
	if (mode == GOVERNOR_SAMPLED)
		return quiet || loud ? 1 - COUNTING_SHARE : 1;
	return (timing ? COUNTING_SHARE : 1) * (quiet && loud ? 0.5 : 1);
}

/* How long to wait after a window of that price. */
static uint64_t gap_after(struct governor *g, uint64_t spent_ns, enum governor_mode mode,
			  uint64_t least_ns)
{
	double spare = WINDOW_MAX * g->budget - g->lasting, gap_ns;

	if (spare < WINDOW_MIN * g->budget)
		spare = WINDOW_MIN * g->budget;
	gap_ns = (double)spent_ns / (spare * share_of(g, mode));
	return (uint64_t)((gap_ns > (double)least_ns ? gap_ns : (double)least_ns) * jitter(g));
}

/* What made a window dear has its own from now on: the others need not wait as long. */
static void plan_counting(struct governor *g, uint64_t spent_ns, uint64_t now_ns)
{
	uint64_t gap_ns = gap_after(g, spent_ns, GOVERNOR_OFF, COUNTING_GAP_NS);
	bool loud = false;
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt; i++)
		loud |= g->fns[fns[i]].loud;
	if (loud)
		g->next_loud_ns = now_ns + gap_ns;
	else
		g->next_counting_ns = now_ns + gap_ns;
	if (loud && cnt > 1)
		g->next_counting_ns = now_ns + (uint64_t)(COUNTING_GAP_NS * jitter(g));
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
	const struct counting c = timing ? (struct counting){} : sum_up(g, res);
	double unseen = res->open_ns ? (double)res->armed_ns / (double)res->open_ns : 1;
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt && !res->err; i++) {
		if (timing)
			book_timing(g, fns[i], i, res->open_ns);
		else
			book_counting(g, fns[i], i, &c, now_ns);
	}
	/* the hits while links come and go cost as much, and nobody counts them */
	spent_ns = (uint64_t)((double)spent_ns * (unseen > 1 ? unseen : 1));
	if (timing) {
		gap_ns = gap_after(g, spent_ns, GOVERNOR_SAMPLED, TIMING_GAP_NS);
		if (gap_ns > TIMING_GAP_MAX_NS)
			thin_out(g, now_ns);
		g->next_timing_ns = now_ns + gap_ns;
	} else {
		plan_counting(g, spent_ns, now_ns);
	}
	sampler__forget(g);
	if (res->err)
		log_debug("attach: a window did not open: %s", strerror(-res->err));
}

/* Into g->order, those that are next; a loud one comes alone. How many. */
static size_t choose_fns(struct governor *g, enum governor_mode mode, bool loud)
{
	rt_u32 fn_cnt = (rt_u32)g->plan->fn_cnt,
	       *cursor = loud ? &g->loud_cursor : &g->cursor[mode];
	rt_u32 first = *cursor;
	size_t cnt = 0, most = loud ? 1 : WINDOW_FNS;

	for (rt_u32 i = 0; i < fn_cnt && cnt < most; i++) {
		rt_u32 fn = (first + i) % fn_cnt;

		if (g->fns[fn].mode != mode || links__refused(g->links, fn) ||
		    (mode == GOVERNOR_OFF && g->fns[fn].loud != loud))
			continue;
		g->order[cnt++] = fn;
		*cursor = (fn + 1) % fn_cnt;
	}
	return cnt;
}

static void open_window(struct governor *g, enum governor_mode mode, bool loud)
{
	struct window_spec spec = {
		.fns = g->order,
		.timing = mode == GOVERNOR_SAMPLED,
		.open_ns = mode == GOVERNOR_SAMPLED ? TIMING_NS : COUNTING_NS,
		.drain_ns = DRAIN_NS,
		.cpu_clock = g->cpu_clock,
		/* who waits for a CPU does not call */
		.cpu_ns = mode == GOVERNOR_SAMPLED ? 0 : COUNTING_NS / 2,
		.open_most_ns = mode == GOVERNOR_SAMPLED ? TIMING_NS : COUNTING_MOST_NS,
	};
	int err;

	spec.cnt = choose_fns(g, mode, loud);
	if (!spec.cnt)
		return;
	g->before = calloc(spec.cnt, sizeof(*g->before));
	g->before_counts = calloc(spec.timing ? spec.cnt * RT_HIST_BUCKETS : 1, sizeof(uint64_t));
	if (!g->before || !g->before_counts)
		return sampler__forget(g);
	for (size_t i = 0; i < spec.cnt; i++) {
		object__fn_stats(g->obj, spec.fns[i], &g->before[i]);
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
		open_window(g, GOVERNOR_OFF, false);
	if (!g->window && now_ns >= g->next_timing_ns)
		open_window(g, GOVERNOR_SAMPLED, false);
	if (!g->window && now_ns >= g->next_loud_ns)
		open_window(g, GOVERNOR_OFF, true);
}
