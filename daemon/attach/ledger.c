/* SPDX-License-Identifier: BSD-2-Clause */
/* What probes cost, and how long each function was watched in which way. */
#include <math.h>
#include <string.h>

#include "attach/governor_state.h"
#include "base/clock.h"

#define TRAPS_MUCH 0.04	  /* of the CPU time of windows */
#define TRAPS_SURELY 0.10 /* no doubt who it was that trapped */

static uint64_t exits_ns(const struct prices *p, const struct plan *plan, rt_u64 exits,
			 rt_u64 stepped)
{
	if (plan->exit == PLAN_EXIT_URETPROBE)
		return exits * p->uret_ns;
	return (exits - stepped) * p->exit_ns[RT_INSN_EMULATED] +
	       stepped * p->exit_ns[RT_INSN_STEPPED];
}

/* A budget holds when it holds with cold caches. */
uint64_t ledger__exits_ns(const struct object *obj, const struct plan *plan, rt_u64 exits,
			  rt_u64 stepped)
{
	return exits_ns(&obj->cold, plan, exits, stepped);
}

uint64_t ledger__entry_ns(const struct governor *g, rt_u32 fn)
{
	return g->obj->cold.entry_ns[g->plan->fns[fn].entry_insn];
}

uint64_t ledger__warm_entry_ns(const struct governor *g, rt_u32 fn)
{
	return g->obj->warm.entry_ns[g->plan->fns[fn].entry_insn];
}

uint64_t governor__cost_at(const struct object *obj, const struct plan *plan,
			   const struct prices *p, rt_u32 fn, uint64_t *hits)
{
	rt_u64 entries, exits, stepped;

	object__fn_hits(obj, fn, &entries, &exits, &stepped);
	*hits = entries + exits;
	return entries * p->entry_ns[plan->fns[fn].entry_insn] + exits_ns(p, plan, exits, stepped);
}

uint64_t governor__cost_ns(const struct object *obj, const struct plan *plan, rt_u32 fn,
			   uint64_t *hits)
{
	return governor__cost_at(obj, plan, &obj->cold, fn, hits);
}

/* Of one CPU: what is spent at a rate. */
double ledger__entries_cost(const struct governor *g, rt_u32 fn)
{
	return g->fns[fn].rate * (double)ledger__entry_ns(g, fn) / 1e9;
}

double ledger__full_cost(const struct governor *g, rt_u32 fn)
{
	return ledger__entries_cost(g, fn) + g->fns[fn].rate * g->fns[fn].exit_ns / 1e9;
}

double ledger__lasting_cost(const struct governor *g, rt_u32 fn)
{
	switch (g->fns[fn].mode) {
	case GOVERNOR_EXACT:
		return ledger__full_cost(g, fn);
	case GOVERNOR_OFF:
		return 0;
	default:
		return ledger__entries_cost(g, fn);
	}
}

/* Until it is seen: the dearest exit of the function. */
double ledger__planned_exit_ns(const struct governor *g, rt_u32 fn)
{
	const struct plan_fn *pf = &g->plan->fns[fn];

	return (double)ledger__exits_ns(g->obj, g->plan, 1, pf->exit_insn == RT_INSN_STEPPED);
}

/* ---- phases: what was watched how long ---- */

uint64_t ledger__cpu_ns(const struct governor *g)
{
	uint64_t ns = clock__ns(g->cpu_clock);

	return ns > g->cpu_ns ? ns : g->cpu_ns;
}

uint64_t ledger__read_cpu(struct governor *g)
{
	g->cpu_ns = ledger__cpu_ns(g);
	return g->cpu_ns;
}

uint64_t ledger__calls(const struct governor *g, rt_u32 fn)
{
	rt_u64 entries, exits, stepped;

	object__fn_hits(g->obj, fn, &entries, &exits, &stepped);
	return entries;
}

/* The phase that ends now goes into the sums. */
void ledger__end_phase(struct governor *g, rt_u32 fn, uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];
	uint64_t took_ns = now_ns - f->since_ns, calls = ledger__calls(g, fn);
	uint64_t cpu_ns = ledger__read_cpu(g);

	switch (f->mode) {
	case GOVERNOR_EXACT:
		f->timed_ns += took_ns;
		f->exact_calls += calls - f->phase_calls;
		break;
	case GOVERNOR_SAMPLED:
		f->sampled_calls += calls - f->phase_calls;
		break;
	case GOVERNOR_OFF:
		f->off_ns += took_ns;
		f->off_cpu_ns += cpu_ns - f->since_cpu_ns;
		f->was_off = true;
		break;
	}
	if (f->mode != GOVERNOR_OFF)
		f->counted_ns += took_ns;
	f->phase_calls = calls;
	f->since_ns = f->counted_at_ns = now_ns;
	f->since_cpu_ns = f->counted_at_cpu_ns = cpu_ns;
}

static double at_least(double v, double floor)
{
	return v > floor ? v : floor;
}

/*
 * Calls in all. A thread that traps all the time does not run as it would while probes come and go:
 * it is kept waiting, for the lock under which that is done, then behind others for a CPU. But in
 * the CPU time that it used, without that of traps, it did what it always does. So calls are
 * counted per CPU time of the process, times what that used while the function was off. Where a
 * window had hardly any traps, nobody waits: calls go by the clock. Where that is not sure, or
 * others trapped, the error spans both.
 */
static void estimate_calls(const struct governed *f, uint64_t calls, double off_ns,
			   double off_cpu_ns, struct governor_row *out)
{
	double counted = (double)(calls - f->off_calls), by_cpu, by_clock;
	double low, high, low_clock, high_clock, unused;

	out->estimated_calls = (double)calls;
	out->low_calls = (double)calls;
	out->high_calls = off_ns > 0 ? INFINITY : (double)calls;
	if (!f->per_cpu.windows)
		return;
	by_cpu = ratio__value(&f->per_cpu) * off_cpu_ns;
	by_clock = ratio__value(&f->per_time) * off_ns / 1e9;
	out->estimated_calls = at_least(
		counted + (f->all_trapped_ns > TRAPS_MUCH * f->window_cpu_ns ? by_cpu : by_clock),
		(double)calls);
	if (ratio__interval(&f->per_cpu_least, 0, &low, &unused) ||
	    ratio__interval(&f->per_cpu_most, f->most, &unused, &high) ||
	    ratio__interval(&f->per_time, 0, &low_clock, &high_clock))
		return;
	low *= off_cpu_ns;
	high *= off_cpu_ns;
	if (f->trapped_ns < TRAPS_SURELY * f->window_cpu_ns) {
		low = fmin(low, low_clock * off_ns / 1e9);
		high = fmax(high, high_clock * off_ns / 1e9);
	}
	out->low_calls = at_least(counted + low, (double)calls);
	if (!f->saturated)
		out->high_calls = at_least(counted + high, (double)calls);
}

void governor__row(const struct governor *g, rt_u32 fn, uint64_t now_ns, struct governor_row *out)
{
	const struct governed *f = &g->fns[fn];
	uint64_t since_ns = f->since_ns ?: g->start_ns, calls = ledger__calls(g, fn);
	uint64_t took_ns = now_ns > since_ns ? now_ns - since_ns : 0, in_phase;
	bool exact = f->mode == GOVERNOR_EXACT, off = f->mode == GOVERNOR_OFF;
	uint64_t off_cpu_ns = f->off_cpu_ns;
	double off_ns;

	if (off)
		off_cpu_ns += ledger__cpu_ns(g) - f->since_cpu_ns;
	in_phase = calls - f->phase_calls;
	off_ns = (double)(f->off_ns + (off ? took_ns : 0));
	*out = (struct governor_row){
		.mode = f->mode,
		.always_exact = exact && since_ns == g->start_ns,
		.always_counted = !f->was_off && !off,
		.timed_ns = f->timed_ns + (exact ? took_ns : 0),
		.counted_ns = f->counted_ns + f->off_seen_ns + (off ? 0 : took_ns),
		.exact_calls = f->exact_calls + (exact ? in_phase : 0),
		.sampled_calls = f->sampled_calls + (f->mode == GOVERNOR_SAMPLED ? in_phase : 0),
		.lower_bound = f->saturated || (off_ns > 0 && !f->per_cpu.windows),
		.per_call = f->per_call,
		.clusters = f->clusters,
	};
	memcpy(out->windows_ns, f->windows_ns, sizeof(out->windows_ns));
	estimate_calls(f, calls, off_ns, (double)off_cpu_ns, out);
}
