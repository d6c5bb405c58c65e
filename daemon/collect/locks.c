/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/locks.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"

#define MAX_LISTED 200u
#define FORGET_NS (60 * NS_PER_SEC)

struct locks {
	struct threads *threads;
	const struct roster *roster;
	const struct target *target;
	struct lock_eye eye;
	VEC(struct lock_waiter) waiters; /* at the last filling */
	size_t used;			 /* places of futexes, when last looked at */
	uint64_t forgotten, unlisted;	 /* waits at futexes without a row */
};

struct locks *locks__new(struct threads *threads, const struct roster *roster,
			 const struct target *target)
{
	struct locks *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->threads = threads;
	l->roster = roster;
	l->target = target;
	l->eye = (struct lock_eye){ roster, -1 };
	return l;
}

void locks__free(struct locks *l)
{
	if (!l)
		return;
	vec__free(&l->waiters);
	free(l);
}

void locks__open(struct locks *l)
{
	l->eye.mem = target__open_mem(l->target);
}

void locks__close(struct locks *l)
{
	if (l->eye.mem >= 0)
		close(l->eye.mem);
	l->eye.mem = -1;
}

void locks__view(const struct locks *l, const struct rt_thread *t, struct lock_view *out)
{
	lock_view__thread(&l->eye, t, out);
}

bool locks__waits_for_lock(const struct locks *l, const struct rt_thread *t)
{
	return locks__is_wait(t) && lock_view__waits_for_lock(&l->eye, t);
}

bool locks__is_wait(const struct rt_thread *t)
{
	return (t->state == RT_STATE_FUTEX || t->state == RT_STATE_LOCK) && t->wait_addr;
}

bool locks__moved(const struct locks *l, const struct rt_thread *t)
{
	struct lock_view v;
	struct rt_futex f;

	locks__view(l, t, &v);
	for (rt_u32 slot = 0; slot < threads__futex_cnt(l->threads); slot++)
		if (threads__futex(l->threads, slot, &f) && f.addr == v.address &&
		    f.last_end_ns > t->since_ns)
			return true;
	return false;
}

/* ---- the snapshot's rows ---- */

typedef VEC(struct snapshot_lock) lock_vec;

static void add_waiters(struct locks *l, const struct rt_thread *t, lock_vec *out)
{
	struct snapshot_lock *row = NULL;
	struct lock_waiter *waiter;
	struct lock_view v;
	uint64_t ns;
	bool older;

	locks__view(l, t, &v);
	for (size_t i = 0; i < out->cnt && !row; i++)
		if (out->data[i].address == v.address || out->data[i].address == t->wait_addr)
			row = &out->data[i];
	row = row ?: vec__push(out);
	if (!row)
		return;
	waiter = vec__push(&l->waiters);
	if (waiter)
		*waiter = (struct lock_waiter){ t->pid, v.address };
	ns = roster__state_ns(l->roster, t, &older);
	row->kind = v.kind;
	row->address = v.address;
	row->waiters_now++;
	row->oldest_ns = ns > row->oldest_ns ? ns : row->oldest_ns;
	row->holder_tid = 0;
	if (v.kind != LOCK_JOIN && v.holder && roster__by_ns_tid(l->roster, v.holder))
		row->holder_tid = (int)roster__by_ns_tid(l->roster, v.holder)->tid;
}

static int add_waits(struct locks *l, const struct rt_futex *f, lock_vec *out)
{
	struct snapshot_lock *row;
	struct lock_view v;

	/* one address may stand twice: places are freed and taken again */
	for (size_t i = 0; i < out->cnt; i++)
		if (out->data[i].address == f->addr) {
			l->unlisted += f->wait.cnt;
			return 0;
		}
	row = vec__push(out);
	if (!row)
		return -ENOMEM;
	lock_view__futex(&l->eye, f, &v);
	row->kind = v.kind;
	row->address = f->addr;
	return roster__stats(l->roster, &f->wait, &row->wait);
}

static int by_waiting(const void *a, const void *b)
{
	const struct snapshot_lock *x = a, *y = b;
	bool x_lock = lock__is_lock(x->kind), y_lock = lock__is_lock(y->kind);

	if (x_lock != y_lock)
		return x_lock ? -1 : 1;
	if (x->wait.total_ns + x->oldest_ns != y->wait.total_ns + y->oldest_ns)
		return x->wait.total_ns + x->oldest_ns < y->wait.total_ns + y->oldest_ns ? 1 : -1;
	return (x->address > y->address) - (x->address < y->address);
}

/* A futex, before its memory is looked at: what is waited at as locks are comes first. */
struct candidate {
	rt_u32 slot;
	bool lock;
	rt_u64 waited_ns;
};
typedef VEC(struct candidate) candidate_vec;

static int by_promise(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->lock != y->lock)
		return x->lock ? -1 : 1;
	return (x->waited_ns < y->waited_ns) - (x->waited_ns > y->waited_ns);
}

/* All places in use; when they get few, those where nobody has waited for long are freed. */
static int find_candidates(struct locks *l, candidate_vec *out)
{
	rt_u32 cnt = threads__futex_cnt(l->threads);
	struct rt_futex f;

	for (rt_u32 slot = 0; slot < cnt; slot++) {
		struct candidate *c;

		if (!threads__futex(l->threads, slot, &f))
			continue;
		if (l->used > cnt / 4 * 3 &&
		    f.last_end_ns + FORGET_NS < roster__looked_ns(l->roster)) {
			l->forgotten += f.wait.cnt;
			threads__forget_futex(l->threads, slot);
			continue;
		}
		c = vec__push(out);
		if (!c)
			return -ENOMEM;
		*c = (struct candidate){ slot, f.lock, f.wait.sum_ns };
	}
	l->used = out->cnt;
	if (out->cnt)
		qsort(out->data, out->cnt, sizeof(*out->data), by_promise);
	return 0;
}

static int add_candidates(struct locks *l, const candidate_vec *candidates, lock_vec *out)
{
	struct rt_futex f;
	int err = 0;

	l->unlisted = 0;
	for (size_t i = 0; i < candidates->cnt && !err; i++) {
		if (!threads__futex(l->threads, candidates->data[i].slot, &f))
			continue;
		if (out->cnt < MAX_LISTED)
			err = add_waits(l, &f, out);
		else
			l->unlisted += f.wait.cnt;
	}
	return err;
}

const struct lock_waiter *locks__waiters(const struct locks *l, size_t *cnt)
{
	*cnt = l->waiters.cnt;
	return l->waiters.data;
}

int locks__fill(struct locks *l, struct snapshot *s)
{
	candidate_vec candidates = {};
	lock_vec found = {};
	size_t cnt;
	const struct rt_thread *rows = roster__rows(l->roster, &cnt);
	int err = find_candidates(l, &candidates);

	l->waiters.cnt = 0;
	locks__open(l);
	err = err ?: add_candidates(l, &candidates, &found);
	for (size_t i = 0; i < cnt && !err; i++)
		if (locks__is_wait(&rows[i]))
			add_waiters(l, &rows[i], &found);
	locks__close(l);
	vec__free(&candidates);
	if (found.cnt)
		qsort(found.data, found.cnt, sizeof(*found.data), by_waiting);
	s->locks = found.data;
	s->lock_cnt = found.cnt;
	s->unlisted_waits = l->forgotten + l->unlisted;
	return err;
}
