/* SPDX-License-Identifier: BSD-2-Clause */
/* What probes cost, and how long each function was watched in which way. */
#include "attach/governor_state.h"

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

uint64_t ledger__calls(const struct governor *g, rt_u32 fn)
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
void ledger__end_phase(struct governor *g, rt_u32 fn, uint64_t now_ns)
{
	struct governed *f = &g->fns[fn];
	uint64_t took_ns = now_ns - f->since_ns, calls = ledger__calls(g, fn);

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
	uint64_t since_ns = f.since_ns ?: g->start_ns, calls = ledger__calls(g, fn);
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
