/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/breaker.h"

#include <stdbool.h>
#include <stdlib.h>

#include "functions.skel.h"

/* After shedding, this share of the budget may stay in use: no shedding by drips. */
#define KEEP_RATIO 0.8

struct breaker {
	const struct plan *plan;
	double budget;
	uint64_t last_ns;
	unsigned int over; /* looks in a row */
	bool started;
	struct cost {
		uint64_t total_ns; /* at the last look */
		uint64_t recent_ns;
		bool shed;
	} * costs;
	rt_u32 *order;
};

struct breaker *breaker__new(const struct plan *plan, double budget)
{
	struct breaker *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->plan = plan;
	b->budget = budget;
	b->costs = calloc(plan->fn_cnt + 1, sizeof(*b->costs));
	b->order = calloc(plan->fn_cnt + 1, sizeof(*b->order));
	if (!b->costs || !b->order) {
		breaker__free(b);
		return NULL;
	}
	return b;
}

void breaker__free(struct breaker *b)
{
	if (!b)
		return;
	free(b->costs);
	free(b->order);
	free(b);
}

uint64_t breaker__cost_ns(const struct object *obj, const struct plan *plan, rt_u32 fn,
			  uint64_t *hits)
{
	volatile struct rt_prices *p = &obj->skel->bss->prices;
	const struct plan_fn *pf = &plan->fns[fn];
	uint64_t entries, exits, exit_ns;

	exit_ns = plan->exit == PLAN_EXIT_URETPROBE ? p->uret_ns : p->exit_ns[pf->exit_insn];
	object__fn_hits(obj, fn, &entries, &exits);
	*hits = entries + exits;
	return entries * p->entry_ns[pf->entry_insn] + exits * exit_ns;
}

static int dearest_first(const void *a, const void *b, void *arg)
{
	const struct cost *costs = arg;
	uint64_t x = costs[*(const rt_u32 *)a].recent_ns, y = costs[*(const rt_u32 *)b].recent_ns;

	return x < y ? 1 : x > y ? -1 : 0;
}

size_t breaker__look(struct breaker *b, const struct object *obj, uint64_t now_ns, rt_u32 *fns)
{
	uint64_t elapsed = now_ns - b->last_ns, spent = 0;
	size_t n = 0, cnt = b->plan->fn_cnt;

	for (rt_u32 fn = 0; fn < cnt; fn++) {
		struct cost *c = &b->costs[fn];
		uint64_t hits, total = breaker__cost_ns(obj, b->plan, fn, &hits);

		c->recent_ns = c->shed ? 0 : total - c->total_ns;
		c->total_ns = total;
		spent += c->recent_ns;
	}
	b->last_ns = now_ns;
	if (!b->started || (double)spent <= b->budget * (double)elapsed) {
		b->started = true;
		b->over = 0;
		return 0;
	}
	if (++b->over < 2)
		return 0;
	b->over = 0;
	for (rt_u32 fn = 0; fn < cnt; fn++)
		b->order[fn] = fn;
	qsort_r(b->order, cnt, sizeof(*b->order), dearest_first, b->costs);
	while (n < cnt && (double)spent > KEEP_RATIO * b->budget * (double)elapsed) {
		struct cost *c = &b->costs[b->order[n]];

		spent -= c->recent_ns;
		c->shed = true;
		fns[n] = b->order[n];
		n++;
	}
	return n;
}
