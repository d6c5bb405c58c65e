/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sums decide. The *lasting* cost is that of the probes that stay: all hits of exact functions,
 * entries of sampled ones. It must stay below SHED_AT of the budget; what is over steps down until
 * the prediction is below KEEP. The rest of the budget, at least WINDOW_MIN of it, is spent on
 * windows: each one's measured cost says how long to wait until the next.
 *
 * All stay well below the budget, for prices are those of warm caches: in traffic a probe may cost
 * half as much again.
 *
 * A rate seen through probes is what the target managed to do with them. Where they took more than
 * SLOWED of a CPU it is a lower bound, and said to be one.
 */
#include "attach/governor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "attach/window.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "functions.skel.h"

#define CANARY_NS (8 * NS_PER_MS)
#define CANARY_POLL_US 1000

#define SHED_AT 0.75	 /* of the budget: steps down */
#define KEEP 0.65	 /* after steps down */
#define RAISE_TO 0.45	 /* after steps up */
#define FAR_ABOVE 5.0	 /* of the budget: one look is enough */
#define ENTRIES_MAX 0.60 /* of the budget, for the entries of one function */
#define WINDOW_MIN 0.10	 /* of the budget, for windows */
#define WINDOW_MAX 0.70	 /* of the budget, windows and lasting probes together */
#define SLOWED 0.10	 /* of a CPU */

#define TIMING_NS (20 * NS_PER_MS)
#define DRAIN_NS (40 * NS_PER_MS)
#define TIMING_GAP_NS (150 * NS_PER_MS)
#define TIMING_GAP_MAX_NS (10 * NS_PER_SEC)
#define COUNTING_NS (2 * NS_PER_MS)
#define COUNTING_GAP_NS (500 * NS_PER_MS)
#define COUNTING_SHARE 0.5 /* of what windows may cost, when there are both kinds */

#define WINDOW_FNS 64u	/* the longer attaching takes, the longer others are trapped */
#define LITTLE 0.05	/* of the budget: steps up even near the limit */
#define KNEES 2.0	/* slowed by so much */
#define LOGGED_STEPS 8u /* at one time */

#define LOOK_S 0.08	   /* a shorter time says little, however often we are called */
#define CLUSTERED_MAX 256u /* functions with a sample: 32 KB each */

#define CALM_NS (3 * NS_PER_SEC)
#define CALM_MAX_NS (60 * NS_PER_SEC)
#define STEPS_MAX 1000u

struct governed {
	rt_u8 mode; /* enum governor_mode */
	bool slowed, lifted, was_off;
	rt_u32 calm_looks;	    /* off: counting windows in a row that were affordable */
	uint64_t entries, exits_ns; /* at the last look: calls, cost of the exits */
	double rate;		    /* calls per second, smoothed */
	double exit_ns;		    /* what the exits of a call cost */
	uint64_t since_ns, wait_ns; /* in this mode since; before it may go up */
	/* past phases */
	uint64_t exact_ns, counted_ns, timed_ns, off_ns, off_seen_ns;
	uint64_t phase_calls, sampled_calls, off_calls;
	double off_estimate; /* calls in past phases without probes, beyond those counted */
	bool lower_bound;
	struct clusters *clusters;
};

struct governor {
	const struct plan *plan;
	struct object *obj;
	struct links *links;
	double budget;
	struct governed *fns;
	rt_u8 *modes;  /* scratch: enum links_mode */
	rt_u32 *order; /* scratch */
	uint64_t start_ns, last_ns;
	double lasting; /* cost of the probes that stay, of a CPU, smoothed */
	unsigned int over;
	size_t not_exact, unlogged, clustered;
	rt_u32 cursor[GOVERNOR_OFF + 1]; /* of windows: who is next */
	VEC(struct governor_step) steps;
	bool stopped;
	/* the open window */
	struct window *window;
	uint64_t *before_counts; /* per function of the window */
	struct rt_fn_stats *before;
	uint64_t next_timing_ns, next_counting_ns;
	uint64_t seed;
};

/* ---- prices ---- */

static uint64_t exits_cost_ns(const struct object *obj, const struct plan *plan, rt_u64 exits,
			      rt_u64 stepped)
{
	volatile struct rt_prices *p = &obj->skel->bss->prices;

	if (plan->exit == PLAN_EXIT_URETPROBE)
		return exits * p->uret_ns;
	return (exits - stepped) * p->exit_ns[RT_INSN_EMULATED] +
	       stepped * p->exit_ns[RT_INSN_STEPPED];
}

static uint64_t entry_ns(const struct governor *g, rt_u32 fn)
{
	return g->obj->skel->bss->prices.entry_ns[g->plan->fns[fn].entry_insn];
}

uint64_t governor__cost_ns(const struct object *obj, const struct plan *plan, rt_u32 fn,
			   uint64_t *hits)
{
	rt_u64 entries, exits, stepped;

	object__fn_hits(obj, fn, &entries, &exits, &stepped);
	*hits = entries + exits;
	return entries * obj->skel->bss->prices.entry_ns[plan->fns[fn].entry_insn] +
	       exits_cost_ns(obj, plan, exits, stepped);
}

/* Of one CPU: what is spent at a rate. */
static double entries_cost(const struct governor *g, rt_u32 fn)
{
	return g->fns[fn].rate * (double)entry_ns(g, fn) / 1e9;
}

static double full_cost(const struct governor *g, rt_u32 fn)
{
	return entries_cost(g, fn) + g->fns[fn].rate * g->fns[fn].exit_ns / 1e9;
}

static double lasting_cost(const struct governor *g, rt_u32 fn)
{
	switch (g->fns[fn].mode) {
	case GOVERNOR_EXACT:
		return full_cost(g, fn);
	case GOVERNOR_OFF:
		return 0;
	default:
		return entries_cost(g, fn);
	}
}

/* Until it is seen: the dearest exit of the function. */
static double planned_exit_ns(const struct governor *g, rt_u32 fn)
{
	const struct plan_fn *pf = &g->plan->fns[fn];

	return (double)exits_cost_ns(g->obj, g->plan, 1, pf->exit_insn == RT_INSN_STEPPED);
}

/* ---- life ---- */

struct governor *governor__new(const struct plan *plan, struct object *obj, struct links *links,
			       double budget)
{
	struct governor *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->plan = plan;
	g->obj = obj;
	g->links = links;
	g->budget = budget;
	g->seed = clock__unix_ns() | 1;
	g->fns = calloc(plan->fn_cnt + 1, sizeof(*g->fns));
	g->modes = calloc(plan->fn_cnt + 1, sizeof(*g->modes));
	g->order = calloc(plan->fn_cnt + 1, sizeof(*g->order));
	if (!g->fns || !g->modes || !g->order) {
		governor__free(g);
		return NULL;
	}
	for (rt_u32 fn = 0; fn < plan->fn_cnt; fn++) {
		g->fns[fn].exit_ns = planned_exit_ns(g, fn);
		g->fns[fn].wait_ns = CALM_NS;
	}
	return g;
}

static void forget_window(struct governor *g)
{
	window__free(g->window);
	free(g->before_counts);
	free(g->before);
	g->window = NULL;
	g->before_counts = NULL;
	g->before = NULL;
}

void governor__free(struct governor *g)
{
	if (!g)
		return;
	forget_window(g);
	for (size_t fn = 0; g->fns && fn < g->plan->fn_cnt; fn++)
		clusters__free(g->fns[fn].clusters);
	free(g->fns);
	free(g->modes);
	free(g->order);
	vec__free(&g->steps);
	free(g);
}

bool governor__idle(const struct governor *g)
{
	return !g->window;
}

/* xorshift64: windows must not beat with what the target does. 0.5 .. 1.5 */
static double jitter(struct governor *g)
{
	g->seed ^= g->seed << 13;
	g->seed ^= g->seed >> 7;
	g->seed ^= g->seed << 17;
	return 0.5 + (double)(g->seed >> 11) / (double)(1ull << 53);
}

static enum links_mode links_mode_of(rt_u8 mode)
{
	return mode == GOVERNOR_EXACT ? LINKS_TIMED
	       : mode == GOVERNOR_OFF ? LINKS_NONE
				      : LINKS_COUNTED;
}

/* ---- phases: what was watched how long ---- */

static uint64_t calls_of(const struct governor *g, rt_u32 fn)
{
	rt_u64 entries, exits, stepped;

	object__fn_hits(g->obj, fn, &entries, &exits, &stepped);
	return entries;
}

static double off_beyond(const struct governed *f, uint64_t off_ns)
{
	uint64_t unseen_ns = off_ns > f->off_seen_ns ? off_ns - f->off_seen_ns : 0;

	return f->off_seen_ns ? (double)f->off_calls / (double)f->off_seen_ns * (double)unseen_ns
			      : f->rate / 1e9 * (double)unseen_ns;
}

/* The phase that ends now goes into the sums. */
static void end_phase(struct governor *g, rt_u32 fn, uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];
	uint64_t took_ns = now_ns - f->since_ns, calls = calls_of(g, fn);

	switch (f->mode) {
	case GOVERNOR_EXACT:
		f->timed_ns += took_ns;
		break;
	case GOVERNOR_SAMPLED:
		f->sampled_calls += calls - f->phase_calls;
		break;
	case GOVERNOR_OFF:
		f->off_estimate += off_beyond(f, took_ns);
		f->lower_bound |= f->slowed;
		f->was_off = true;
		f->counted_ns += f->off_seen_ns;
		f->off_calls = f->off_seen_ns = 0;
		break;
	}
	if (f->mode != GOVERNOR_OFF)
		f->counted_ns += took_ns;
	f->phase_calls = calls;
	f->since_ns = now_ns;
}

void governor__row(const struct governor *g, rt_u32 fn, uint64_t now_ns, struct governor_row *out)
{
	struct governed f = g->fns[fn];
	uint64_t since_ns = f.since_ns ?: g->start_ns, calls = calls_of(g, fn);
	uint64_t took_ns = now_ns > since_ns ? now_ns - since_ns : 0;

	*out = (struct governor_row){
		.mode = f.mode,
		.always_exact = f.mode == GOVERNOR_EXACT && since_ns == g->start_ns,
		.always_counted = !f.was_off && f.mode != GOVERNOR_OFF,
		.timed_ns = f.timed_ns + (f.mode == GOVERNOR_EXACT ? took_ns : 0),
		.counted_ns = f.counted_ns + (f.mode == GOVERNOR_OFF ? f.off_seen_ns : took_ns),
		.sampled_calls =
			f.sampled_calls + (f.mode == GOVERNOR_SAMPLED ? calls - f.phase_calls : 0),
		.estimated_calls = (double)calls + f.off_estimate +
				   (f.mode == GOVERNOR_OFF ? off_beyond(&f, took_ns) : 0),
		.lower_bound = f.lower_bound || (f.mode == GOVERNOR_OFF && f.slowed),
		.clusters = f.clusters,
	};
}

/* ---- steps ---- */

const char *const governor_mode_names[] = { "exact", "sampled", "entries", "off" };

static void note_step(struct governor *g, rt_u32 fn, enum governor_mode to)
{
	struct governed *f = &g->fns[fn];
	struct governor_step step = { .fn = fn,
				      .from = (enum governor_mode)f->mode,
				      .to = to,
				      .unix_ns = clock__unix_ns(),
				      .calls_per_s = f->rate,
				      .cost_ratio = full_cost(g, fn) };
	struct governor_step *slot = g->steps.cnt < STEPS_MAX ? vec__push(&g->steps) : NULL;

	if (slot)
		*slot = step;
	if (g->unlogged++ < LOGGED_STEPS)
		log_info("budget: '%s' %s -> %s (%.0f calls/s, timing each costs %.3g %% of a CPU)",
			 g->plan->fns[fn].name, governor_mode_names[step.from],
			 governor_mode_names[to], step.calls_per_s, step.cost_ratio * 100);
}

static void end_log(struct governor *g)
{
	if (g->unlogged > LOGGED_STEPS)
		log_info("budget: and %zu more functions", g->unlogged - LOGGED_STEPS);
	g->unlogged = 0;
}

static void step_to(struct governor *g, rt_u32 fn, enum governor_mode to, uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];

	note_step(g, fn, to);
	end_phase(g, fn, now_ns);
	/* down again soon after it came up: it waits longer next time */
	if (to > f->mode && f->lifted)
		f->wait_ns = f->wait_ns * 2 < CALM_MAX_NS ? f->wait_ns * 2 : CALM_MAX_NS;
	f->lifted |= to < f->mode;
	g->not_exact += (to != GOVERNOR_EXACT) - (f->mode != GOVERNOR_EXACT);
	f->mode = (rt_u8)to;
	f->slowed = false;
	f->calm_looks = 0;
	g->modes[fn] = links_mode_of(f->mode);
}

/* The links follow the modes. */
static void apply(struct governor *g)
{
	int err = links__set(g->links, 0, (rt_u32)g->plan->fn_cnt, g->modes);

	end_log(g);
	/* a target that is gone has no probes to change */
	if (err && err != -ESRCH)
		log_error("attach: failed to change probes: %s", strerror(-err));
	/* a look across the change would mix both */
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		rt_u64 entries, exits, stepped;

		object__fn_hits(g->obj, fn, &entries, &exits, &stepped);
		g->fns[fn].entries = entries;
		g->fns[fn].exits_ns = exits_cost_ns(g->obj, g->plan, exits, stepped);
	}
	g->last_ns = clock__mono_ns();
	g->over = 0;
}

/* Single probes take too long to come and go: what is too dear is counted or off, for good. */
static bool has_windows(const struct governor *g)
{
	return !g->obj->mode.single_probes;
}

static enum governor_mode with_entries(const struct governor *g, rt_u32 fn)
{
	if (!has_windows(g))
		return GOVERNOR_ENTRIES;
	return g->fns[fn].clusters || g->clustered < CLUSTERED_MAX ? GOVERNOR_SAMPLED
								   : GOVERNOR_ENTRIES;
}

/* Where a function that is too dear as it is goes; slowed: how many more calls it wants to do. */
static enum governor_mode step_down(const struct governor *g, rt_u32 fn, double slowed)
{
	const struct governed *f = &g->fns[fn];

	/* with the target on its knees there is no time for half measures */
	if (f->mode != GOVERNOR_EXACT || slowed > KNEES ||
	    entries_cost(g, fn) * slowed > ENTRIES_MAX * g->budget)
		return GOVERNOR_OFF;
	return with_entries(g, fn);
}

/* By how much the target would go faster without what the probes take from it, at least. */
static double slowed_by(double spent)
{
	double part = spent / (double)sysconf(_SC_NPROCESSORS_ONLN);

	return part < 0.05 ? 1 : 1 / (1 - (part < 0.9 ? part : 0.9));
}

static int dearest_first(const void *a, const void *b, void *arg)
{
	const struct governor *g = arg;
	double x = lasting_cost(g, *(const rt_u32 *)a), y = lasting_cost(g, *(const rt_u32 *)b);

	return x < y ? 1 : x > y ? -1 : 0;
}

static void order_by_cost(struct governor *g)
{
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++)
		g->order[fn] = fn;
	qsort_r(g->order, g->plan->fn_cnt, sizeof(*g->order), dearest_first, g);
}

static void shed(struct governor *g, double lasting, uint64_t now_ns)
{
	double slowed = slowed_by(lasting);

	order_by_cost(g);
	for (size_t i = 0; i < g->plan->fn_cnt && lasting * slowed > KEEP * g->budget; i++) {
		rt_u32 fn = g->order[i];

		if (g->fns[fn].mode == GOVERNOR_OFF)
			continue;
		lasting -= lasting_cost(g, fn);
		step_to(g, fn, step_down(g, fn, slowed), now_ns);
		lasting += lasting_cost(g, fn);
	}
	g->lasting = lasting;
	apply(g);
}

/* Whether that much more lasting cost is well within the budget. */
static bool fits(const struct governor *g, double more)
{
	return g->lasting + more <= (more <= LITTLE * g->budget ? KEEP : RAISE_TO) * g->budget;
}

/* Where a function that has been calm may go. */
static enum governor_mode step_up(const struct governor *g, rt_u32 fn)
{
	const struct governed *f = &g->fns[fn];

	if (f->mode == GOVERNOR_OFF && f->calm_looks < 2)
		return GOVERNOR_OFF;
	if (fits(g, full_cost(g, fn) - lasting_cost(g, fn)))
		return GOVERNOR_EXACT;
	if (f->mode == GOVERNOR_OFF && fits(g, entries_cost(g, fn)))
		return with_entries(g, fn);
	return (enum governor_mode)f->mode;
}

static void lift(struct governor *g, uint64_t now_ns)
{
	bool any = false;

	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		struct governed *f = &g->fns[fn];
		enum governor_mode to;
		double was;

		if (f->mode == GOVERNOR_EXACT || now_ns - f->since_ns < f->wait_ns)
			continue;
		to = step_up(g, fn);
		if (to == f->mode)
			continue;
		was = lasting_cost(g, fn);
		step_to(g, fn, to, now_ns);
		g->lasting += lasting_cost(g, fn) - was;
		any = true;
	}
	if (any)
		apply(g);
}

/* ---- looks ---- */

/* Up at once, down by and by. */
static void smooth(double *v, double seen)
{
	*v = seen > *v ? seen : (*v * 3 + seen) / 4;
}

/* What a function spent since the last look on probes that stay. */
static double look_at(struct governor *g, rt_u32 fn, double elapsed_s)
{
	struct governed *f = &g->fns[fn];
	rt_u64 entries, exits, stepped, exits_ns, calls, spent_ns;

	object__fn_hits(g->obj, fn, &entries, &exits, &stepped);
	exits_ns = exits_cost_ns(g->obj, g->plan, exits, stepped);
	calls = entries - f->entries;
	spent_ns = calls * entry_ns(g, fn);
	if (f->mode == GOVERNOR_EXACT) {
		if (calls >= 100)
			f->exit_ns = (double)(exits_ns - f->exits_ns) / (double)calls;
		spent_ns += exits_ns - f->exits_ns;
	}
	f->entries = entries;
	f->exits_ns = exits_ns;
	if (f->mode == GOVERNOR_OFF)
		return 0;
	smooth(&f->rate, (double)calls / elapsed_s);
	return (double)spent_ns / 1e9 / elapsed_s;
}

static void look(struct governor *g, uint64_t now_ns)
{
	double elapsed_s = (double)(now_ns - g->last_ns) / 1e9, spent = 0;

	if (elapsed_s < LOOK_S)
		return;
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++)
		spent += look_at(g, fn, elapsed_s);
	g->last_ns = now_ns;
	smooth(&g->lasting, spent);
	if (spent <= SHED_AT * g->budget)
		g->over = 0;
	else if (++g->over >= 2 || spent > FAR_ABOVE * g->budget)
		return shed(g, spent, now_ns);
	if (g->not_exact && g->lasting < KEEP * g->budget)
		lift(g, now_ns);
}

/* ---- windows ---- */

static uint64_t spent_in_window(struct governor *g)
{
	uint64_t spent_ns = 0, hits;
	const rt_u32 *fns;
	size_t cnt;

	fns = window__fns(g->window, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		const struct rt_fn_stats *was = &g->before[i];
		uint64_t now_ns = governor__cost_ns(g->obj, g->plan, fns[i], &hits);
		uint64_t was_ns =
			exits_cost_ns(g->obj, g->plan, was->returned + was->misses, was->stepped) +
			(was->calls + was->unsampled) * entry_ns(g, fns[i]);

		spent_ns += now_ns - was_ns;
		/* entries of sampled functions are no part of the window's price */
		if (window__timing(g->window))
			spent_ns -= (calls_of(g, fns[i]) - was->calls - was->unsampled) *
				    entry_ns(g, fns[i]);
	}
	return spent_ns;
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
	f->timed_ns += open_ns;
	if (!f->clusters) {
		f->clusters = clusters__new(RT_HIST_BUCKETS);
		g->clustered++;
	}
	if (f->clusters)
		clusters__add(f->clusters, counts, st.zero_cnt - was->zero_cnt,
			      begun > ended ? begun - ended : 0);
}

static void book_counting(struct governor *g, rt_u32 fn, size_t i, uint64_t open_ns)
{
	struct governed *f = &g->fns[fn];
	uint64_t calls = calls_of(g, fn) - g->before[i].calls - g->before[i].unsampled;
	double rate = (double)calls * 1e9 / (double)open_ns;

	f->off_calls += calls;
	f->off_seen_ns += open_ns;
	f->rate = rate > f->rate || f->calm_looks ? rate : (f->rate + rate) / 2;
	f->slowed |= rate * (double)entry_ns(g, fn) / 1e9 > SLOWED;
	if (entries_cost(g, fn) <= ENTRIES_MAX * g->budget / 2)
		f->calm_looks++;
	else
		f->calm_looks = 0;
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
		double cost = full_cost(g, fns[i]);

		if (cost > most) {
			most = cost;
			dearest = i;
		}
	}
	step_to(g, fns[dearest], GOVERNOR_ENTRIES, now_ns);
}

static void end_window(struct governor *g, const struct window_result *res, uint64_t now_ns)
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
			book_counting(g, fns[i], i, res->open_ns);
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
	forget_window(g);
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
	if (!g->before || !g->before_counts)
		return forget_window(g);
	for (size_t i = 0; i < spec.cnt; i++) {
		object__fn_stats(g->obj, spec.fns[i], &g->before[i]);
		if (spec.timing)
			object__fn_hist(g->obj, spec.fns[i],
					&g->before_counts[i * RT_HIST_BUCKETS]);
	}
	err = window__open(g->links, g->obj, &spec, &g->window);
	if (err) {
		log_debug("attach: failed to open a window: %s", strerror(-err));
		forget_window(g);
	}
}

static void windows(struct governor *g, uint64_t now_ns)
{
	struct window_result res;

	if (g->window) {
		if (!window__over(g->window, false, &res))
			return;
		end_window(g, &res, now_ns);
	}
	if (!g->not_exact || !has_windows(g) || !links__settled(g->links))
		return;
	if (now_ns >= g->next_counting_ns)
		open_window(g, GOVERNOR_OFF);
	if (!g->window && now_ns >= g->next_timing_ns)
		open_window(g, GOVERNOR_SAMPLED);
}

/* ---- the canary ---- */

/* Whether full probes on the function alone would be a good part of the budget. */
static bool is_hot(const struct governor *g, rt_u32 fn)
{
	return full_cost(g, fn) > KEEP * g->budget;
}

static bool any_saturated(const struct governor *g, rt_u32 first, rt_u32 end, uint64_t elapsed_ns)
{
	double spent_ns = 0;

	for (rt_u32 fn = first; fn < end; fn++)
		spent_ns += (double)calls_of(g, fn) * (double)entry_ns(g, fn);
	return spent_ns > 0.5 * (double)elapsed_ns;
}

/* Counts entries of a batch for some ms; less when the target does nothing else any more. */
static void watch(struct governor *g, rt_u32 first, rt_u32 end)
{
	uint64_t start_ns = clock__mono_ns(), took_ns;

	g->obj->skel->bss->gate = 1;
	do {
		usleep(CANARY_POLL_US);
		took_ns = clock__mono_ns() - start_ns;
	} while (took_ns < CANARY_NS &&
		 (took_ns < CANARY_NS / 4 || !any_saturated(g, first, end, took_ns)));
	g->obj->skel->bss->gate = 0;
	for (rt_u32 fn = first; fn < end; fn++)
		g->fns[fn].rate = (double)calls_of(g, fn) * 1e9 / (double)took_ns;
}

static int canary(struct governor *g, rt_u32 first, rt_u32 end)
{
	bool any_hot = false;
	int err;

	memset(g->modes + first, LINKS_COUNTED, end - first);
	err = links__set(g->links, first, end, g->modes);
	if (err)
		return err;
	watch(g, first, end);
	for (rt_u32 fn = first; fn < end; fn++) {
		struct governed *f = &g->fns[fn];
		enum governor_mode to = GOVERNOR_EXACT;

		if (is_hot(g, fn)) {
			to = step_down(g, fn, 1);
			note_step(g, fn, to);
			g->not_exact++;
		}
		f->mode = (rt_u8)to;
		any_hot |= to == GOVERNOR_OFF;
		g->modes[fn] = to == GOVERNOR_OFF ? LINKS_NONE : LINKS_COUNTED;
	}
	/* what is hot is rid of its probes before anything else is done */
	return any_hot ? links__set(g->links, first, end, g->modes) : 0;
}

/* Calls of the canary are none of the window. */
static void forget_canary(struct governor *g)
{
	object__synchronize();
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++)
		object__reset_fn(g->obj, fn);
}

int governor__arm(struct governor *g)
{
	int err = 0;

	/* who is to act within a second must get a CPU when all are busy; it needs little of one */
	if (g->budget >= 0)
		setpriority(PRIO_PROCESS, 0, -10);
	/* all of them before any exit: while one batch is watched no other may time calls */
	for (size_t b = 0; g->budget >= 0 && b < links__batch_cnt(g->links) && !err; b++) {
		rt_u32 first, end;

		links__batch(g->links, b, &first, &end);
		err = canary(g, first, end);
	}
	end_log(g);
	if (err)
		return err;
	if (g->budget >= 0)
		forget_canary(g);
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++)
		g->modes[fn] = links_mode_of(g->fns[fn].mode);
	return links__set(g->links, 0, (rt_u32)g->plan->fn_cnt, g->modes);
}

void governor__start(struct governor *g, uint64_t now_ns)
{
	g->start_ns = g->last_ns = now_ns;
	g->next_timing_ns = now_ns;
	g->next_counting_ns = now_ns;
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		g->fns[fn].since_ns = now_ns;
		g->lasting += lasting_cost(g, fn);
	}
}

void governor__tick(struct governor *g, uint64_t now_ns)
{
	if (g->stopped)
		return;
	if (g->budget >= 0)
		windows(g, now_ns);
	if (g->window)
		return;
	links__tidy(g->links, false);
	if (g->budget >= 0)
		look(g, now_ns);
}

void governor__stop(struct governor *g)
{
	struct window_result res;

	g->stopped = true;
	if (!g->window)
		return;
	window__over(g->window, true, &res);
	end_window(g, &res, clock__mono_ns());
}

const struct governor_step *governor__steps(const struct governor *g, size_t *cnt)
{
	*cnt = g->steps.cnt;
	return g->steps.data;
}
