/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a wait that will not end is told from one that is merely long.
 *
 * A cycle of pthread mutexes is a proof: each thread waits for a mutex whose owner field names the
 * next one. It is believed once two looks, half a second apart, find the same waits.
 *
 * A lock that stores no owner proves nothing. Suspected are threads that have waited for --stall
 * seconds at what is waited at as a lock, while memory says that it is locked and no wait there
 * has ended since (so a lock that is merely fought for is not named). Two locks at once look like
 * a deadlock, one like a holder that does something slow. Parked threads are no suspects however
 * long they sleep: condition variables and parkers are not waited at as locks are.
 *
 * A worker of a runtime that polls must not block. That it does shows in a traced poll that has
 * been open for long; or in the native stack of a worker that has waited for long (workers.h).
 * Where there is no such stack, a thread is suspected that has been in the runtime's epoll and now
 * waits in something else than that or a futex: tokio's blocking threads have the same name and may
 * block, but seldom sit in epoll.
 */
#include "collect/stalls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "collect/stall_list.h"

#define PROOF_NS (NS_PER_SEC / 2)

struct stalls {
	struct stall_list list;
	const struct roster *roster;
	struct locks *locks;
	struct settler *settler;
	const struct workers *workers;
	const struct plan *plan;
	struct stalls_opts opts;
	VEC(struct wait_id) seen; /* waits of cycles at the last look */
	uint64_t seen_ns;
	bool no_progress_told;
};

struct stalls *stalls__new(const struct roster *roster, struct locks *locks,
			   struct settler *settler, const struct workers *workers,
			   const struct plan *plan, const struct target *target,
			   const struct stalls_opts *opts)
{
	struct stalls *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->roster = roster;
	s->locks = locks;
	s->settler = settler;
	s->workers = workers;
	s->plan = plan;
	s->opts = *opts;
	s->list.roster = roster;
	s->list.locks = locks;
	s->list.settler = settler;
	s->list.plan = plan;
	s->list.target = target;
	return s;
}

void stalls__free(struct stalls *s)
{
	if (!s)
		return;
	vec__free(&s->seen);
	stall_list__free(&s->list);
	free(s);
}

/* ---- cycles ---- */

/* The thread whose mutex t waits for, by what the mutex itself says. */
static const struct rt_thread *proven_holder(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;

	if (!locks__is_wait(t))
		return NULL;
	locks__view(s->locks, t, &v);
	if ((v.kind != LOCK_PTHREAD && v.kind != LOCK_PI && v.kind != LOCK_PTHREAD_RWLOCK) ||
	    !v.held)
		return NULL;
	return roster__by_ns_tid(s->roster, v.holder);
}

/* Whether following the holders from t comes back to t. */
static bool in_cycle(const struct stalls *s, const struct rt_thread *t, size_t most)
{
	const struct rt_thread *at = proven_holder(s, t);

	for (size_t n = 0; at && n < most; n++) {
		if (at == t)
			return true;
		at = proven_holder(s, at);
	}
	return false;
}

/* Before memory is read: parked threads are many. */
static bool may_name_holder(const struct rt_thread *t)
{
	return t->state == RT_STATE_LOCK ||
	       (locks__is_wait(t) && t->wait_val >> 31 && t->wait_val != UINT32_MAX);
}

static bool was_seen(const struct stalls *s, const struct rt_thread *t)
{
	for (size_t i = 0; i < s->seen.cnt; i++)
		if (s->seen.data[i].pid == t->pid && s->seen.data[i].since_ns == t->since_ns)
			return true;
	return false;
}

static void tell_cycle(struct stalls *s, const struct rt_thread *first)
{
	struct known_stall *k = stall_list__add(&s->list, STALL_DEADLOCK, true);
	const struct rt_thread *t = first;

	if (!k)
		return;
	do {
		stall_list__add_thread(&s->list, k, t);
		t = proven_holder(s, t);
	} while (t && t != first);
	stall_list__tell(&s->list, k);
}

static void find_cycles(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	VEC(struct wait_id) now = {};

	for (size_t i = 0; i < cnt; i++) {
		struct wait_id *slot;

		if (!may_name_holder(&rows[i]))
			continue;
		if (!in_cycle(s, &rows[i], cnt))
			continue;
		if (was_seen(s, &rows[i]) && !stall_list__knows(&s->list, STALL_DEADLOCK, &rows[i]))
			tell_cycle(s, &rows[i]);
		slot = vec__push(&now);
		if (slot)
			*slot = (struct wait_id){ rows[i].pid, rows[i].since_ns };
	}
	vec__free(&s->seen);
	memcpy(&s->seen, &now, sizeof(now));
}

/* ---- suspects ---- */

static bool has_waited(const struct stalls *s, const struct rt_thread *t, uint64_t ns)
{
	bool older;

	return roster__state_ns(s->roster, t, &older) >= ns;
}

/* Those who came a little later than the first one belong to it: a deadlock takes two. */
static bool is_suspect(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;

	if (!locks__is_wait(t) || !has_waited(s, t, s->opts.stall_ns / 4 * 3))
		return false;
	locks__view(s->locks, t, &v);
	return lock__is_lock(v.kind) && v.held && !locks__moved(s->locks, t);
}

static uint64_t lock_address(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;

	locks__view(s->locks, t, &v);
	return v.address;
}

typedef VEC(const struct rt_thread *) thread_vec;

/* Threads at more than one lock, none of which has a holder that does anything else. */
static bool looks_like_deadlock(const struct stalls *s, const thread_vec *suspects)
{
	bool two = false;

	for (size_t i = 0; i < suspects->cnt; i++) {
		const struct rt_thread *holder = proven_holder(s, suspects->data[i]);

		two |= lock_address(s, suspects->data[i]) != lock_address(s, suspects->data[0]);
		if (holder && !locks__is_wait(holder))
			return false;
	}
	return two;
}

/* Where two wait for two locks that store no holder, each may have what the other waits for. */
static void name_candidates(struct known_stall *k)
{
	struct stall_thread *t = k->told.threads;

	if (k->told.thread_cnt + k->told.more_threads != 2 || t[0].holder_tid || t[1].holder_tid ||
	    t[0].address == t[1].address)
		return;
	t[0].holder_tid = t[1].tid;
	t[1].holder_tid = t[0].tid;
}

static void tell_suspects(struct stalls *s, enum stall_kind kind, const thread_vec *threads)
{
	struct known_stall *k = stall_list__add(&s->list, kind, false);

	for (size_t i = 0; k && i < threads->cnt; i++)
		stall_list__add_thread(&s->list, k, threads->data[i]);
	/* what a known holder does is half the answer */
	for (size_t i = 0; k && i < threads->cnt; i++) {
		const struct rt_thread *holder = proven_holder(s, threads->data[i]);

		if (holder)
			stall_list__add_thread(&s->list, k, holder);
	}
	if (k && kind == STALL_DEADLOCK)
		name_candidates(k);
	if (k)
		stall_list__tell(&s->list, k);
}

/* Waits that are not told yet; with those that are, they may make a deadlock. */
static void find_suspects(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	thread_vec all = {}, fresh = {};

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread **slot;

		if (!is_suspect(s, &rows[i]) ||
		    stall_list__knows(&s->list, STALL_DEADLOCK, &rows[i]))
			continue;
		slot = vec__push(&all);
		if (slot)
			*slot = &rows[i];
		if (stall_list__knows(&s->list, STALL_LOCK_WAIT, &rows[i]) ||
		    !has_waited(s, &rows[i], s->opts.stall_ns) ||
		    stall_list__join(&s->list, &rows[i]))
			continue;
		slot = vec__push(&fresh);
		if (slot)
			*slot = &rows[i];
	}
	if (fresh.cnt && looks_like_deadlock(s, &all))
		tell_suspects(s, STALL_DEADLOCK, &all);
	else if (fresh.cnt)
		tell_suspects(s, STALL_LOCK_WAIT, &fresh);
	vec__free(&all);
	vec__free(&fresh);
}

/* ---- blocked workers, disks, silence ---- */

static void tell_one(struct stalls *s, enum stall_kind kind, bool proven, const struct rt_thread *t,
		     uint64_t since_ns)
{
	struct known_stall *k = stall_list__knows(&s->list, kind, t)
					? NULL
					: stall_list__add(&s->list, kind, proven);

	if (!k)
		return;
	stall_list__add_thread(&s->list, k, t);
	k->by_call = since_ns != t->since_ns;
	k->ids[0].since_ns = since_ns;
	k->told.age_ns = roster__looked_ns(s->roster) - since_ns;
	stall_list__tell(&s->list, k);
}

/* The thread of a poll that has been open for too long; NULL: it is none. */
static const struct rt_thread *stuck_in(const struct stalls *s, const struct settled_frame *f)
{
	if (s->plan->fns[f->fn].kind != PLAN_ASYNC || f->doubtful ||
	    roster__looked_ns(s->roster) < f->start_ns + s->opts.stall_ns)
		return NULL;
	return roster__by_pid(s->roster, f->tid);
}

bool stalls__has_unsettled(const struct stalls *s)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(s->settler, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = f[i].verdict ? NULL : stuck_in(s, &f[i]);

		if (t && !stall_list__knows(&s->list, STALL_BLOCKED_POLL, t))
			return true;
	}
	return false;
}

static void find_open_polls(struct stalls *s)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(s->settler, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = stuck_in(s, &f[i]);

		if (t)
			tell_one(s, STALL_BLOCKED_POLL, true, t, f[i].start_ns);
	}
}

static bool may_be_a_worker(const struct rt_thread *t)
{
	return roster__is_tokio(t) && t->ns[RT_STATE_EPOLL] &&
	       (t->state == RT_STATE_SLEEP || t->state == RT_STATE_IO ||
		t->state == RT_STATE_SOCKET || t->state == RT_STATE_PIPE ||
		t->state == RT_STATE_OTHER);
}

static void find_blocked(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	bool older;

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = &rows[i];
		enum worker_verdict verdict;

		if (roster__state_ns(s->roster, t, &older) < s->opts.stall_ns)
			continue;
		verdict = workers__verdict(s->workers, t);
		if (verdict == WORKER_IN_POLL)
			tell_one(s, STALL_BLOCKED_POLL, true, t, t->since_ns);
		else if (verdict == WORKER_UNCLEAR && may_be_a_worker(t))
			tell_one(s, STALL_BLOCKED_POLL, false, t, t->since_ns);
		else if (t->state == RT_STATE_IO)
			tell_one(s, STALL_DISK, true, t, t->since_ns);
	}
}

/* No thread has run since then. */
static uint64_t silent_since(const struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	uint64_t since = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (rows[i].state < RT_STATE_FUTEX)
			return roster__looked_ns(s->roster);
		since = rows[i].since_ns > since ? rows[i].since_ns : since;
	}
	return since;
}

static void find_silence(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	uint64_t since = silent_since(s), now = roster__looked_ns(s->roster);
	struct known_stall *k;

	if (!cnt || now < since + s->opts.stall_ns) {
		s->no_progress_told = false;
		return;
	}
	if (s->no_progress_told)
		return;
	s->no_progress_told = true;
	k = stall_list__add(&s->list, STALL_NO_PROGRESS, true);
	for (size_t i = 0; k && i < cnt; i++)
		stall_list__add_thread(&s->list, k, &rows[i]);
	if (!k)
		return;
	k->told.age_ns = now - since;
	stall_list__tell(&s->list, k);
}

void stalls__find(struct stalls *s)
{
	uint64_t now = roster__looked_ns(s->roster);

	stall_list__refresh(&s->list);
	locks__open(s->locks);
	if (now >= s->seen_ns + PROOF_NS) {
		s->seen_ns = now;
		find_cycles(s);
	}
	find_suspects(s);
	find_open_polls(s);
	find_blocked(s);
	if (s->opts.no_progress)
		find_silence(s);
	locks__close(s->locks);
}

size_t stalls__unseen(const struct stalls *s, rt_u32 *pids, size_t most)
{
	return stall_list__unseen(&s->list, pids, most);
}

int stalls__see(struct stalls *s, const struct waiting *w)
{
	return stall_list__see(&s->list, w);
}

const struct snapshot_stall *stalls__fresh(struct stalls *s, size_t *cnt)
{
	return stall_list__fresh(&s->list, cnt);
}

/* The snapshot outlives the names. */
static int copy_stacks(struct snapshot_stall *told, struct snapshot *snapshot)
{
	int err = 0;

	for (size_t i = 0; i < told->thread_cnt && !err; i++) {
		const struct snapshot_backtrace stack = told->threads[i].stack;

		err = backtrace__copy(&stack, snapshot, &told->threads[i].stack);
	}
	return err;
}

int stalls__fill(const struct stalls *s, struct snapshot *snapshot)
{
	const struct stall_list *l = &s->list;

	snapshot->stalls = calloc(l->known_cnt + 1, sizeof(*snapshot->stalls));
	if (!snapshot->stalls)
		return -ENOMEM;
	for (size_t i = 0; i < l->known_cnt; i++) {
		struct snapshot_stall *told = &snapshot->stalls[snapshot->stall_cnt++];
		int err;

		*told = l->known[i].told;
		err = copy_stacks(told, snapshot);
		if (err)
			return err;
	}
	snapshot->more_stalls = l->dropped + l->full;
	return 0;
}
