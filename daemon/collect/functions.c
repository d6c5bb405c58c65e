/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/governor.h"
#include "collect/collector.h"
#include "collect/sampled.h"
#include "collect/settle.h"
#include "functions.skel.h"

static int fill_hist(const struct object *obj, rt_u32 fn, const struct rt_fn_stats *st,
		     struct snapshot_hist *out)
{
	uint64_t places[RT_HIST_BUCKETS];

	out->zero_cnt = st->zero_cnt;
	if (!st->returned)
		return 0;
	object__fn_hist(obj, fn, places);
	return hist__from_places(places, RT_HIST_BUCKETS, out);
}

static void fill_prices(const struct collector *c, const struct plan_fn *pf,
			struct snapshot_fn *out)
{
	volatile struct rt_prices *p = &c->obj->skel->bss->prices;

	if (c->plan->exit == PLAN_EXIT_URETPROBE) {
		out->floor_ns = p->floor_uret_ns[pf->entry_insn];
		out->price_ns = p->entry_ns[pf->entry_insn] + p->uret_ns;
	} else {
		out->floor_ns = p->floor_ns[pf->entry_insn][pf->exit_insn];
		out->price_ns = p->entry_ns[pf->entry_insn] + p->exit_ns[pf->exit_insn];
	}
}

static uint64_t above_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static int fill_sampled(const struct collector *c, rt_u32 fn, uint64_t now_ns, struct snapshot *s)
{
	struct snapshot_fn *out = &s->fns[fn];
	struct governor_row row;

	governor__row(tracer__governor(c->tracer), fn, now_ns, &row);
	if (row.always_exact)
		return 0;
	s->overhead.shed_fns++;
	return sampled__fill(&row, out);
}

static int fill_fn(const struct collector *c, rt_u32 fn, const struct prices *prices,
		   struct snapshot *s, uint64_t *cost_ns)
{
	const struct plan_fn *pf = &c->plan->fns[fn];
	struct snapshot_fn *out = &s->fns[fn];
	struct rt_fn_stats st;
	rt_u64 given_up = settler__given_up(c->settler, fn);
	uint64_t hits, now_ns;
	int err;

	object__fn_stats(c->obj, fn, &st);
	*out = (struct snapshot_fn){
		.name = pf->name,
		.symbol = pf->symbol,
		.crate = pf->crate,
		.file = pf->file,
		.line = pf->line,
		.aliases = (const char *const *)pf->aliases,
		.alias_cnt = pf->alias_cnt,
		.sites = pf->addresses,
		.is_async = pf->kind == PLAN_ASYNC,
		.coverage = COVERAGE_EXACT,
		.exit = plan__exit_of(c->plan, pf),
		.observed_ns = s->window.duration_ns,
		.calls = st.calls + st.unsampled,
		.returned = st.returned,
		.unwound = st.unwound + settler__dead(c->settler, fn),
		.in_flight = settler__in_flight(c->settler, fn) + c->obj->confs[fn].ended,
		.in_flight_stale = settler__stale(c->settler, fn),
		.untimed = st.untimed + st.unsampled + given_up,
		.tail_exits = st.tail_exits,
		.sum_ns = st.sum_ns,
		.total_ns = above_zero(st.sum_ns, st.nested_ns),
		.self_ns = above_zero(st.sum_ns, st.inner_ns),
		.min_ns = st.returned ? ~st.min_inv_ns : 0,
		.max_ns = st.max_ns,
		.corrected_ns = st.corrected_ns,
		.clamped = st.clamped,
		.hist_lost = c->obj->confs[fn].hist_lost,
	};
	/* the threads went on while they were looked at: what is not known to have ended is in
	 * flight */
	if (!s->window.settled)
		out->in_flight =
			above_zero(out->calls, out->returned + out->unwound + out->untimed);
	fill_prices(c, pf, out);
	out->cost_ns = governor__cost_at(c->obj, c->plan, prices, fn, &hits);
	*cost_ns += out->cost_ns;
	s->overhead.hits += hits;
	s->overhead.corrected_ns += st.corrected_ns;
	s->overhead.clamped += st.clamped;
	err = fill_hist(c->obj, fn, &st, &out->hist);
	now_ns = c->start_mono_ns + s->window.duration_ns;
	return err ?: fill_sampled(c, fn, now_ns, s);
}

int functions__fill(const struct collector *c, struct snapshot *s)
{
	struct prices prices = overhead__prices(&c->overhead);
	uint64_t cost_ns = 0, floor = UINT64_MAX;

	s->fn_cnt = c->plan->fn_cnt;
	s->fns = calloc(s->fn_cnt + 1, sizeof(*s->fns));
	if (!s->fns)
		return -ENOMEM;
	for (rt_u32 fn = 0; fn < s->fn_cnt; fn++) {
		int err = fill_fn(c, fn, &prices, s, &cost_ns);

		if (err)
			return err;
		if (s->fns[fn].floor_ns < floor)
			floor = s->fns[fn].floor_ns;
	}
	s->overhead.floor_ns = s->fn_cnt ? floor : 0;
	overhead__fill(&c->overhead, &prices, cost_ns, s);
	s->overhead.budget_ratio = c->opts.budget;
	return 0;
}

/* ---- edges ---- */

static int by_ends(const void *a, const void *b)
{
	const struct snapshot_edge *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static int by_total(const void *a, const void *b)
{
	const struct snapshot_edge *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return by_ends(a, b);
}

int functions__edges(const struct collector *c, struct snapshot *s)
{
	size_t used = 0, n = 0;

	for (rt_u32 i = 0; i < c->obj->edge_cnt; i++)
		used += c->obj->edges[i].key != 0;
	s->edges = calloc(used + 1, sizeof(*s->edges));
	if (!s->edges)
		return -ENOMEM;
	for (rt_u32 i = 0; i < c->obj->edge_cnt && n < used; i++) {
		const volatile struct rt_edge *e = &c->obj->edges[i];

		if (e->key)
			s->edges[n++] = (struct snapshot_edge){ .caller = RT_EDGE_CALLER(e->key),
								.callee = RT_EDGE_CALLEE(e->key),
								.calls = e->calls,
								.total_ns = e->total_ns };
	}
	qsort(s->edges, n, sizeof(*s->edges), by_ends);
	used = 0;
	for (size_t i = 0; i < n; i++) {
		if (used && !by_ends(&s->edges[used - 1], &s->edges[i])) {
			s->edges[used - 1].calls += s->edges[i].calls;
			s->edges[used - 1].total_ns += s->edges[i].total_ns;
		} else {
			s->edges[used++] = s->edges[i];
		}
	}
	s->edge_cnt = used;
	qsort(s->edges, used, sizeof(*s->edges), by_total);
	return 0;
}

/* ---- without probes ---- */

/* What is left of a row whose function has no probes: what samples tell. */
static struct snapshot_fn as_unprobed(const struct collector *c, uint32_t fn,
				      const struct snapshot_fn *row)
{
	const struct plan_fn *pf = &c->plan->fns[fn];

	return (struct snapshot_fn){ .name = row->name,
				     .symbol = row->symbol,
				     .crate = row->crate,
				     .file = row->file,
				     .line = row->line,
				     .coverage = COVERAGE_SAMPLED,
				     .unprobed = true,
				     .origin = FRAME_OWN,
				     .module = c->plan->objects[pf->object].name,
				     .cpu_samples = row->cpu_samples,
				     .cpu_self_samples = row->cpu_self_samples,
				     .cpu_inlined_samples = row->cpu_inlined_samples };
}

/*
 * Rows of functions the kernel refused stand in skipped; they are rows only where samples hit them,
 * behind the others. Edges keep their ends.
 */
int functions__drop_refused(const struct collector *c, struct snapshot *s)
{
	uint32_t *to = calloc(s->fn_cnt + 1, sizeof(*to)), n = 0;
	struct snapshot_fn *unprobed = calloc(s->fn_cnt + 1, sizeof(*unprobed));
	size_t unprobed_cnt = 0;

	if (!to || !unprobed) {
		free(to);
		free(unprobed);
		return -ENOMEM;
	}
	for (uint32_t fn = 0; fn < s->fn_cnt; fn++) {
		to[fn] = n;
		if (!tracer__refused(c->tracer, fn))
			s->fns[n++] = s->fns[fn];
		else if (s->fns[fn].cpu_samples)
			unprobed[unprobed_cnt++] = as_unprobed(c, fn, &s->fns[fn]);
	}
	for (size_t i = 0; i < s->edge_cnt; i++) {
		s->edges[i].caller = to[s->edges[i].caller];
		s->edges[i].callee = to[s->edges[i].callee];
	}
	memcpy(&s->fns[n], unprobed, unprobed_cnt * sizeof(*unprobed));
	s->fn_cnt = n + unprobed_cnt;
	free(to);
	free(unprobed);
	return 0;
}
