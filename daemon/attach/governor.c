/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sums decide. The *lasting* cost is that of the probes that stay: all hits of exact functions,
 * entries of sampled ones. It must stay below SHED_AT of the budget; what is over steps down until
 * the prediction is below KEEP. The rest of the budget is spent on windows (sampler.c).
 *
 * Prices are those of cold caches; all stay below the budget, for traffic is never even.
 *
 * A rate seen through probes is what the target managed to do with them: where they took a good
 * part of a CPU it is a lower bound.
 */
#include "attach/governor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "attach/governor_state.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/plural.h"
#include "functions.skel.h"

#define CANARY_NS (8 * NS_PER_MS)
#define CANARY_POLL_US 1000

#define SHED_AT 0.85  /* of the budget: steps down */
#define KEEP 0.75     /* after steps down */
#define RAISE_TO 0.50 /* after steps up */
#define FAR_ABOVE 5.0 /* of the budget: one look is enough */

#define PROBES_LEAST 0.10 /* of the budget, whatever else takes of it */
#define NOTHING 0.01	  /* of the budget: what is not called any more comes back anyway */
#define LITTLE 0.05	  /* of the budget: steps up even near the limit */
#define KNEES 2.0	  /* slowed by so much */
#define LOGGED_STEPS 8u	  /* at one time */

#define LOOK_S 0.08		 /* a shorter time says little, however often we are called */
#define RATE_LEAST 0.1		 /* calls per second: as good as none */
#define BUSY 0.10		 /* of the budget: looks go on */
#define BUSY_NS (2 * NS_PER_SEC) /* after that, too: traffic comes in bursts */
#define CLUSTERED_MAX 256u	 /* functions with a sample: 32 KB each */

#define CALM_NS (3 * NS_PER_SEC)
#define CALM_MAX_NS (60 * NS_PER_SEC)
#define STEPS_MAX 1000u

/* ---- life ---- */

struct governor *governor__new(const struct plan *plan, struct object *obj, struct links *links,
			       int pid, double budget)
{
	struct governor *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->plan = plan;
	g->obj = obj;
	g->links = links;
	g->whole = g->budget = budget;
	/* without such a clock (never seen) calls are those of a time, not of a CPU's time */
	if (clock_getcpuclockid(pid, &g->cpu_clock))
		g->cpu_clock = CLOCK_MONOTONIC;
	g->seed = clock__unix_ns() | 1;
	g->fns = calloc(plan->fn_cnt + 1, sizeof(*g->fns));
	g->lively = calloc(plan->fn_cnt + 1, sizeof(*g->lively));
	g->modes = calloc(plan->fn_cnt + 1, sizeof(*g->modes));
	g->order = calloc(plan->fn_cnt + 1, sizeof(*g->order));
	if (!g->fns || !g->lively || !g->modes || !g->order) {
		governor__free(g);
		return NULL;
	}
	for (rt_u32 fn = 0; fn < plan->fn_cnt; fn++) {
		g->fns[fn].exit_ns = ledger__planned_exit_ns(g, fn);
		g->fns[fn].wait_ns = CALM_NS;
	}
	return g;
}

void governor__free(struct governor *g)
{
	if (!g)
		return;
	sampler__forget(g);
	for (size_t fn = 0; g->fns && fn < g->plan->fn_cnt; fn++)
		clusters__free(g->fns[fn].clusters);
	free(g->fns);
	free(g->lively);
	free(g->modes);
	free(g->order);
	vec__free(&g->steps);
	free(g);
}

bool governor__idle(const struct governor *g)
{
	return !g->window;
}

static enum links_mode links_mode_of(rt_u8 mode)
{
	return mode == GOVERNOR_EXACT ? LINKS_TIMED
	       : mode == GOVERNOR_OFF ? LINKS_NONE
				      : LINKS_COUNTED;
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
				      .cost_ratio = ledger__full_cost(g, fn) };
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
		log_info("budget: and %zu more function%s", g->unlogged - LOGGED_STEPS,
			 plural__s(g->unlogged - LOGGED_STEPS));
	g->unlogged = 0;
}

void governor__step_to(struct governor *g, rt_u32 fn, enum governor_mode to, uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];

	note_step(g, fn, to);
	ledger__end_phase(g, fn, now_ns);
	/* down again soon after it came up: it waits longer next time */
	if (to > f->mode && f->lifted)
		f->wait_ns = f->wait_ns * 2 < CALM_MAX_NS ? f->wait_ns * 2 : CALM_MAX_NS;
	f->lifted |= to < f->mode;
	g->not_exact += (to != GOVERNOR_EXACT) - (f->mode != GOVERNOR_EXACT);
	f->mode = (rt_u8)to;
	f->calm_looks = 0;
	g->lively[fn] = true;
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
		g->fns[fn].exits_ns = ledger__exits_ns(g->obj, g->plan, exits, stepped);
	}
	g->last_ns = clock__mono_ns();
	g->over = 0;
}

static enum governor_mode with_entries(const struct governor *g, rt_u32 fn)
{
	/* single probes take too long to come and go: no windows */
	if (g->obj->mode.single_probes)
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
	    ledger__entries_cost(g, fn) * slowed > ENTRIES_MAX * g->budget)
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
	double x = ledger__lasting_cost(g, *(const rt_u32 *)a),
	       y = ledger__lasting_cost(g, *(const rt_u32 *)b);

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

		/* from here on they cost nothing */
		if (ledger__lasting_cost(g, fn) <= 0 && g->fns[fn].mode == GOVERNOR_EXACT)
			break;
		if (g->fns[fn].mode == GOVERNOR_OFF)
			continue;
		lasting -= ledger__lasting_cost(g, fn);
		governor__step_to(g, fn, step_down(g, fn, slowed), now_ns);
		lasting += ledger__lasting_cost(g, fn);
	}
	g->lasting = lasting;
	apply(g);
}

/* Whether that much more lasting cost is well within the budget. */
static bool fits(const struct governor *g, double more)
{
	double limit = more <= NOTHING * g->budget  ? SHED_AT
		       : more <= LITTLE * g->budget ? KEEP
						    : RAISE_TO;

	return g->lasting + more <= limit * g->budget;
}

/* Where a function that has been calm may go. */
static enum governor_mode step_up(const struct governor *g, rt_u32 fn)
{
	const struct governed *f = &g->fns[fn];

	if (f->mode == GOVERNOR_OFF && f->calm_looks < 2)
		return GOVERNOR_OFF;
	if (fits(g, ledger__full_cost(g, fn) - ledger__lasting_cost(g, fn)))
		return GOVERNOR_EXACT;
	if (f->mode == GOVERNOR_OFF && fits(g, ledger__entries_cost(g, fn)))
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
		was = ledger__lasting_cost(g, fn);
		governor__step_to(g, fn, to, now_ns);
		g->lasting += ledger__lasting_cost(g, fn) - was;
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

/* Hits since the last look, no more than RT_HITS_MUCH. */
static rt_u32 take_hits(struct governor *g, rt_u32 fn)
{
	volatile rt_u32 *hits = &g->obj->confs[fn].hits;
	rt_u32 n = *hits;

	if (n)
		*hits = 0;
	return n;
}

/* What a function spent since the last look on probes that stay. */
static double look_at(struct governor *g, rt_u32 fn, double elapsed_s)
{
	struct governed *f = &g->fns[fn];
	rt_u64 entries, exits, stepped, exits_ns, calls, spent_ns;

	object__fn_hits(g->obj, fn, &entries, &exits, &stepped);
	exits_ns = ledger__exits_ns(g->obj, g->plan, exits, stepped);
	calls = entries - f->entries;
	spent_ns = calls * ledger__entry_ns(g, fn);
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

/*
 * The counters of each function are a cache line per shard, cold when we come: only those of
 * functions that were hit, or of which there is something to forget, are read. A hit shows before
 * it is counted, so there is always one look more.
 */
static double look_at_all(struct governor *g, double elapsed_s, bool *much)
{
	double spent = 0;

	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		struct governed *f = &g->fns[fn];
		rt_u32 hits = take_hits(g, fn);
		double cost;

		if (!hits && !g->lively[fn])
			continue;
		cost = look_at(g, fn, elapsed_s);
		spent += cost;
		*much |= hits >= RT_HITS_MUCH;
		g->lively[fn] = hits || cost > 0 || f->rate > RATE_LEAST;
		if (!g->lively[fn] && f->mode != GOVERNOR_OFF)
			f->rate = 0;
	}
	return spent;
}

static bool has_cause(const struct governor *g, uint64_t now_ns)
{
	return g->not_exact || g->over || now_ns < g->busy_ns + BUSY_NS;
}

static void set_dozing(const struct governor *g, bool dozing)
{
	*(volatile rt_u32 *)&g->obj->skel->bss->dozing = dozing;
}

bool governor__dozes(const struct governor *g)
{
	return g->budget < 0 || *(volatile rt_u32 *)&g->obj->skel->bss->dozing;
}

static void look(struct governor *g, uint64_t now_ns)
{
	double elapsed_s = (double)(now_ns - g->last_ns) / 1e9, spent;
	bool much = false;

	if (elapsed_s < LOOK_S)
		return;
	/* when it is gone, so is its clock: what was read last counts, of who is off */
	if (g->not_exact)
		(void)ledger__read_cpu(g);
	/* before the hits are taken: what is hit from now on rings */
	set_dozing(g, !has_cause(g, now_ns));
	spent = look_at_all(g, elapsed_s, &much);
	g->last_ns = now_ns;
	if (much || spent > BUSY * g->budget) {
		g->busy_ns = now_ns;
		set_dozing(g, false);
	}
	smooth(&g->lasting, spent);
	if (spent <= SHED_AT * g->budget)
		g->over = 0;
	else if (++g->over >= 2 || spent > FAR_ABOVE * g->budget)
		return shed(g, spent, now_ns);
	if (g->not_exact && g->lasting < SHED_AT * g->budget)
		lift(g, now_ns);
}

/* ---- the canary ---- */

/* Whether full probes on the function alone would be a good part of the budget. */
static bool is_hot(const struct governor *g, rt_u32 fn)
{
	return ledger__full_cost(g, fn) > KEEP * g->budget;
}

static bool any_saturated(const struct governor *g, rt_u32 first, rt_u32 end, uint64_t elapsed_ns)
{
	double spent_ns = 0;

	for (rt_u32 fn = first; fn < end; fn++)
		spent_ns += (double)ledger__calls(g, fn) * (double)ledger__entry_ns(g, fn);
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
		g->fns[fn].rate = (double)ledger__calls(g, fn) * 1e9 / (double)took_ns;
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

void governor__reserve(struct governor *g, double ratio)
{
	double left = g->whole - ratio, least = PROBES_LEAST * g->whole;

	if (g->whole >= 0)
		g->budget = left > least ? left : least;
}

void governor__start(struct governor *g, uint64_t now_ns)
{
	uint64_t cpu_ns = ledger__read_cpu(g);

	g->start_ns = g->last_ns = g->busy_ns = now_ns;
	g->next_timing_ns = now_ns;
	g->next_counting_ns = now_ns;
	for (rt_u32 fn = 0; fn < g->plan->fn_cnt; fn++) {
		g->fns[fn].since_ns = g->fns[fn].counted_at_ns = now_ns;
		g->fns[fn].since_cpu_ns = g->fns[fn].counted_at_cpu_ns = cpu_ns;
		g->lasting += ledger__lasting_cost(g, fn);
		g->lively[fn] = true;
	}
}

void governor__tick(struct governor *g, uint64_t now_ns)
{
	if (g->stopped)
		return;
	if (g->budget >= 0)
		sampler__tick(g, now_ns);
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
	sampler__end(g, &res, clock__mono_ns());
}

const struct governor_step *governor__steps(const struct governor *g, size_t *cnt)
{
	*cnt = g->steps.cnt;
	return g->steps.data;
}
