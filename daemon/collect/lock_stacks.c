/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/lock_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/vec.h"

#define MOST_NOW 256 /* threads looked at */

static struct snapshot_lock *lock_at(const struct snapshot *s, uint64_t address)
{
	for (size_t i = 0; i < s->lock_cnt; i++)
		if (s->locks[i].address == address)
			return lock__is_lock(s->locks[i].kind) ? &s->locks[i] : NULL;
	return NULL;
}

/* A place for one more; NULL with *err 0: there are enough. */
static struct snapshot_lock_stack *push(struct snapshot *s, struct snapshot_lock *l, size_t most,
					int *err)
{
	if (l->stack_cnt >= most)
		return NULL;
	if (!s->arena && !(s->arena = arena__new())) {
		*err = -ENOMEM;
		return NULL;
	}
	if (!l->stacks)
		l->stacks = arena__alloc(s->arena, 2 * LOCK_STACKS * sizeof(*l->stacks));
	if (!l->stacks)
		*err = -ENOMEM;
	return l->stacks ? &l->stacks[l->stack_cnt++] : NULL;
}

/* ---- waiting now ---- */

static bool same(const struct snapshot_backtrace *a, const struct snapshot_backtrace *b)
{
	if (a->depth != b->depth || !a->frames != !b->frames)
		return false;
	for (uint32_t i = 0; i < a->depth; i++)
		if (strcmp(a->frames[i].name, b->frames[i].name) != 0)
			return false;
	return true;
}

static int add_now(struct snapshot *s, struct snapshot_lock *l, const struct snapshot_backtrace *b)
{
	struct snapshot_lock_stack *slot;
	int err = 0;

	for (size_t i = 0; i < l->stack_cnt; i++)
		if (same(&l->stacks[i].stack, b)) {
			l->stacks[i].waiters_now++;
			return 0;
		}
	slot = push(s, l, LOCK_STACKS, &err);
	if (!slot)
		return err;
	slot->waiters_now = 1;
	return backtrace__copy(b, s, &slot->stack);
}

int lock_stacks__now(struct waiting *w, const struct lock_waiter *waiters, size_t cnt,
		     struct snapshot *s)
{
	rt_u32 pids[MOST_NOW];
	size_t pid_cnt = 0;
	int err = 0;

	for (size_t i = 0; i < cnt && pid_cnt < MOST_NOW; i++)
		if (lock_at(s, waiters[i].address))
			pids[pid_cnt++] = waiters[i].pid;
	/* without them the snapshot is whole all the same */
	if (!pid_cnt || waiting__look(w, pids, pid_cnt))
		return 0;
	for (size_t i = 0; i < cnt && !err; i++) {
		struct snapshot_lock *l = lock_at(s, waiters[i].address);
		struct snapshot_backtrace b = {};

		if (l)
			err = waiting__stack(w, waiters[i].pid, &b);
		if (b.frames)
			err = add_now(s, l, &b);
		free((void *)b.frames);
	}
	return err;
}

/* ---- ended ---- */

struct ended {
	struct snapshot_lock *lock;
	struct named_stack stack;
	uint64_t waits, total_ns;
};

struct ended_list {
	struct snapshot *s;
	const struct named_stack *by_place;
	uint32_t place_cnt;
	const uint32_t *refs;
	VEC(struct ended) rows;
};

static void add_ended(void *arg, const void *key, const struct rt_waits *waits)
{
	const struct rt_lock_wait *where = key;
	struct ended_list *list = arg;
	struct snapshot_lock *lock = lock_at(list->s, where->futex);
	struct ended *e;

	if (!lock || !where->place || where->place > list->place_cnt ||
	    !list->by_place[where->place - 1].cnt || !(e = vec__push(&list->rows)))
		return;
	*e = (struct ended){ lock, list->by_place[where->place - 1], waits->cnt, waits->total_ns };
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct ended *x = a, *y = b;
	const struct ended_list *list = arg;

	if (x->lock != y->lock)
		return x->lock < y->lock ? -1 : 1;
	return named_stack__compare(&x->stack, &y->stack, list->refs);
}

static int by_lock_and_time(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;

	if (x->lock != y->lock)
		return x->lock < y->lock ? -1 : 1;
	return x->total_ns < y->total_ns ? 1 : x->total_ns > y->total_ns ? -1 : 0;
}

static void add_up(struct ended_list *list)
{
	struct ended *e = list->rows.data;
	size_t kept = 0;

	if (!list->rows.cnt)
		return;
	qsort_r(e, list->rows.cnt, sizeof(*e), compare, list);
	for (size_t i = 0; i < list->rows.cnt; i++) {
		if (kept && !compare(&e[kept - 1], &e[i], list)) {
			e[kept - 1].waits += e[i].waits;
			e[kept - 1].total_ns += e[i].total_ns;
		} else {
			e[kept++] = e[i];
		}
	}
	list->rows.cnt = kept;
	qsort(e, kept, sizeof(*e), by_lock_and_time);
}

/* The strings are the profiles' own. */
static int put(struct ended_list *list, const struct ended *e, size_t most)
{
	const struct snapshot_profiles *p = list->s->profiles;
	struct snapshot_lock_stack *slot;
	struct snapshot_frame *frames;
	int err = 0;

	slot = push(list->s, e->lock, most, &err);
	if (!slot)
		return err;
	frames = arena__alloc(list->s->arena, (e->stack.cnt + 1) * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->stack.cnt; i++)
		frames[i] = p->frames.data[list->refs[e->stack.first + i]];
	*slot = (struct snapshot_lock_stack){
		.stack = { frames, e->stack.cnt, e->stack.truncated },
		.waits = e->waits,
		.total_ns = e->total_ns,
	};
	return 0;
}

int lock_stacks__ended(const struct profiler *profiler, const struct named_stack *by_place,
		       uint32_t place_cnt, const uint32_t *refs, struct snapshot *s)
{
	struct ended_list list = {
		.s = s, .by_place = by_place, .place_cnt = place_cnt, .refs = refs
	};
	int err = s->lock_cnt ? profiler__futex_waits(profiler, add_ended, &list) : 0;
	size_t most = 0;

	add_up(&list);
	for (size_t i = 0; i < list.rows.cnt && !err; i++) {
		const struct ended *e = &list.rows.data[i];

		if (!i || e->lock != e[-1].lock)
			most = e->lock->stack_cnt + LOCK_STACKS;
		err = put(&list, e, most);
	}
	vec__free(&list.rows);
	return err;
}
