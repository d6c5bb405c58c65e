/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/wakes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "roletrace/threads.h"

struct pair {
	struct named_stack waiter, waker;
	enum thread_waker by;
	char name[sizeof(((struct rt_wake *)0)->comm) + 1];
	uint64_t cnt, total_ns;
};

struct gathering {
	const struct named_stack *by_place;
	uint32_t place_cnt;
	const uint32_t *refs;
	VEC(struct pair) pairs;
	bool oom;
};

static struct named_stack at_place(const struct gathering *g, rt_u32 place)
{
	return place && place <= g->place_cnt ? g->by_place[place - 1] : (struct named_stack){};
}

static enum thread_waker waker_of(rt_u32 who)
{
	static const enum thread_waker of[RT_WOKEN_CNT] = {
		[RT_WOKEN_BY_THREAD] = WAKER_THREAD,
		[RT_WOKEN_BY_PROCESS] = WAKER_PROCESS,
		[RT_WOKEN_BY_INTERRUPT] = WAKER_INTERRUPT,
		[RT_WOKEN_UNKNOWN] = WAKER_UNKNOWN,
	};

	return who && who <= RT_WOKEN_CNT ? of[who - 1] : WAKER_UNKNOWN;
}

static void add_pair(void *arg, const void *key, const struct rt_waits *waits)
{
	const struct rt_wake *who = key;
	struct gathering *g = arg;
	struct named_stack waiter = at_place(g, who->place);
	struct pair *p = waiter.cnt ? vec__push(&g->pairs) : NULL;

	if (!p) {
		g->oom |= waiter.cnt != 0;
		return;
	}
	p->waiter = waiter;
	p->waker = at_place(g, who->waker);
	p->by = waker_of(who->who);
	memcpy(p->name, who->comm, sizeof(who->comm));
	p->cnt = waits->cnt;
	p->total_ns = waits->total_ns;
}

int named_stack__compare(const struct named_stack *x, const struct named_stack *y,
			 const uint32_t *refs)
{
	const char *a = x->truncated ?: "", *b = y->truncated ?: "";

	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? -1 : 1;
	for (uint32_t i = 0; i < x->cnt; i++) {
		uint32_t p = refs[x->first + i], q = refs[y->first + i];

		if (p != q)
			return p < q ? -1 : 1;
	}
	return strcmp(a, b);
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct pair *x = a, *y = b;
	const struct gathering *g = arg;
	int d = named_stack__compare(&x->waiter, &y->waiter, g->refs);

	d = d ?: named_stack__compare(&x->waker, &y->waker, g->refs);
	d = d ?: (int)x->by - (int)y->by;
	return d ?: strcmp(x->name, y->name);
}

static int by_time(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return x->total_ns < y->total_ns ? 1 : x->total_ns > y->total_ns ? -1 : 0;
}

static void add_up(struct gathering *g)
{
	struct pair *p = g->pairs.data;
	size_t kept = 0;

	if (!g->pairs.cnt)
		return;
	qsort_r(p, g->pairs.cnt, sizeof(*p), compare, g);
	for (size_t i = 0; i < g->pairs.cnt; i++) {
		if (kept && !compare(&p[kept - 1], &p[i], g)) {
			p[kept - 1].cnt += p[i].cnt;
			p[kept - 1].total_ns += p[i].total_ns;
		} else {
			p[kept++] = p[i];
		}
	}
	g->pairs.cnt = kept;
	qsort(p, kept, sizeof(*p), by_time);
}

static int emit(const struct gathering *g, const struct pair *p, struct snapshot_profiles *out)
{
	struct snapshot_wake wake = {
		.by = p->by,
		.name = p->by == WAKER_PROCESS ? p->name : NULL,
		.value = p->total_ns,
		.count = p->cnt,
		.truncated = p->waiter.truncated,
		.waker_truncated = p->waker.truncated,
	};

	return profiles__wake(out, g->refs + p->waiter.first, p->waiter.cnt,
			      g->refs + p->waker.first, p->waker.cnt, &wake);
}

int wakes__fill(const struct profiler *profiler, const struct named_stack *by_place,
		uint32_t place_cnt, const uint32_t *refs, struct snapshot_profiles *out)
{
	struct gathering g = { .by_place = by_place, .place_cnt = place_cnt, .refs = refs };
	struct profiler_counts c;
	int err = profiler__wakes(profiler, add_pair, &g);

	if (!err && g.oom)
		err = -ENOMEM;
	add_up(&g);
	for (size_t i = 0; i < g.pairs.cnt && !err; i++)
		err = emit(&g, &g.pairs.data[i], out);
	profiler__counts(profiler, &c);
	out->of[PROFILE_OFF_CPU]->has_wakes = true;
	out->of[PROFILE_OFF_CPU]->wakes_lost = c.wakes_lost;
	vec__free(&g.pairs);
	return err;
}
