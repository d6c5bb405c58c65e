/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/threadwatch.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collect/locks.h"
#include "collect/roster.h"
#include "collect/stalls.h"
#include "collect/waiting.h"
#include "collect/witness.h"
#include "collect/workers.h"

#define LOOK_NS (NS_PER_SEC / 2)
#define SEE_SHARE 100 /* at most one part of so many of the time */
#define MOST_SEEN 256 /* threads whose stacks are taken at once */

struct threadwatch {
	struct threads *threads;
	struct roster *roster;
	struct locks *locks;
	struct workers *workers;
	struct stalls *stalls;
	struct settler *settler;
	const struct plan *plan;
	struct waiting *waiting;
	bool traced; /* functions: their open calls are looked at too */
	uint64_t next_look_ns, next_see_ns, next_workers_ns;
};

struct threadwatch *threadwatch__new(struct threads *threads, const struct plan *plan,
				     const struct target *target, struct settler *settler,
				     const struct threadwatch_opts *opts)
{
	struct stalls_opts so = { .stall_ns = opts->stall_ns, .no_progress = opts->no_progress };
	struct threadwatch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->threads = threads;
	w->settler = settler;
	w->plan = plan;
	w->waiting = opts->waiting;
	w->traced = plan->fn_cnt != 0;
	w->roster = roster__new(threads);
	w->locks = w->roster ? locks__new(threads, w->roster, target) : NULL;
	w->workers = w->locks ? workers__new(w->roster, w->locks, opts->stall_ns) : NULL;
	if (w->workers)
		w->stalls =
			stalls__new(w->roster, w->locks, settler, w->workers, plan, target, &so);
	if (!w->stalls) {
		threadwatch__free(w);
		errno = ENOMEM;
		return NULL;
	}
	return w;
}

void threadwatch__free(struct threadwatch *w)
{
	if (!w)
		return;
	stalls__free(w->stalls);
	workers__free(w->workers);
	locks__free(w->locks);
	roster__free(w->roster);
	free(w);
}

/* Waits from before the window. */
static void tell_old_locks(struct threadwatch *w)
{
	const struct rt_thread *rows;
	size_t cnt;

	if (roster__look(w->roster))
		return;
	rows = roster__rows(w->roster, &cnt);
	locks__open(w->locks);
	for (size_t i = 0; i < cnt; i++)
		if (rows[i].state == RT_STATE_FUTEX && locks__waits_for_lock(w->locks, &rows[i]))
			roster__set_lock(w->roster, i);
	locks__close(w->locks);
}

void threadwatch__start(struct threadwatch *w, uint64_t now_ns)
{
	w->next_look_ns = now_ns + LOOK_NS;
	roster__start(w->roster, now_ns);
	tell_old_locks(w);
}

void threadwatch__stop(struct threadwatch *w, uint64_t now_ns)
{
	w->next_see_ns = 0; /* the last file has all there is */
	roster__stop(w->roster, now_ns);
}

/* What the last look says of the open calls. */
static void settle_calls(struct threadwatch *w)
{
	if (witness__recall(w->settler, w->waiting) >= 0 &&
	    !witness__name(w->settler, w->waiting, w->plan))
		(void)settler__pass(w->settler);
}

/* A poll is not said to be stuck in a call that may have been left long ago. */
static void settle_polls(struct threadwatch *w)
{
	if (!w->waiting || !stalls__has_unsettled(w->stalls) || waiting__look(w->waiting, NULL, 0))
		return;
	settle_calls(w);
	(void)roster__look(w->roster);
}

static size_t find_workers(struct threadwatch *w, rt_u32 *pids)
{
	size_t cnt;

	locks__open(w->locks);
	cnt = workers__unseen(w->workers, w->waiting && waiting__is_ready(w->waiting), pids,
			      MOST_SEEN);
	locks__close(w->locks);
	return cnt;
}

/* What a runtime's threads do that have waited for long. */
static void see_workers(struct threadwatch *w, uint64_t now_ns)
{
	rt_u32 pids[MOST_SEEN];
	size_t cnt = now_ns < w->next_workers_ns ? 0 : find_workers(w, pids);
	bool ready = cnt && w->waiting && waiting__is_ready(w->waiting);
	uint64_t begin = clock__mono_ns();

	if (!cnt)
		return;
	if (!w->waiting || waiting__look(w->waiting, pids, cnt)) {
		workers__see(w->workers, NULL, pids, cnt);
		return;
	}
	if (!roster__look(w->roster))
		workers__see(w->workers, w->waiting, pids, cnt);
	/* the tables are made once */
	if (ready)
		w->next_workers_ns = now_ns + (clock__mono_ns() - begin) * SEE_SHARE;
}

/*
 * The stacks of what hangs. Making the tables takes its time, so the threads are looked at once
 * more: a stack of another wait than that which is told of would mislead.
 */
static void see_stalls(struct threadwatch *w)
{
	rt_u32 pids[MOST_SEEN];
	size_t cnt = w->waiting ? stalls__unseen(w->stalls, pids, MOST_SEEN) : 0;

	if (!cnt || waiting__look(w->waiting, pids, cnt) || roster__look(w->roster))
		return;
	if (w->traced)
		settle_calls(w);
	(void)stalls__see(w->stalls, w->waiting);
}

const struct snapshot_stall *threadwatch__tick(struct threadwatch *w, uint64_t now_ns, size_t *cnt)
{
	*cnt = 0;
	roster__tick(w->roster, now_ns);
	if (now_ns < w->next_look_ns || roster__look(w->roster))
		return NULL;
	w->next_look_ns = now_ns + LOOK_NS;
	if (w->traced)
		(void)settler__pass(w->settler);
	settle_polls(w);
	see_workers(w, now_ns);
	stalls__find(w->stalls);
	see_stalls(w);
	return stalls__fresh(w->stalls, cnt);
}

/* At locks; when looking is cheap, and for a small part of the time: files may be written often. */
static int see_waiters(struct threadwatch *w, struct snapshot *s)
{
	uint64_t begin = clock__mono_ns();
	const struct lock_waiter *waiters;
	size_t cnt;
	int err;

	if (!w->waiting || !waiting__is_ready(w->waiting))
		return 0;
	waiters = locks__waiters(w->locks, &cnt);
	if (!cnt || begin < w->next_see_ns)
		return 0;
	err = lock_stacks__now(w->waiting, waiters, cnt, s);
	w->next_see_ns = clock__mono_ns() + (clock__mono_ns() - begin) * SEE_SHARE;
	return err;
}

int threadwatch__fill(struct threadwatch *w, struct snapshot *s, bool light)
{
	int err = roster__look(w->roster);

	err = err ?: roster__fill(w->roster, s);
	err = err ?: locks__fill(w->locks, s);
	if (!light)
		err = err ?: see_waiters(w, s);
	return err ?: stalls__fill(w->stalls, s);
}

size_t threadwatch__lost(const struct threadwatch *w, struct snapshot_lost *out)
{
	static const char *const names[] = RT_THREAD_LOST_NAMES;
	size_t n = 0;

	for (; n < RT_THREAD_LOST_CNT; n++)
		out[n] = (struct snapshot_lost){ names[n], threads__lost(w->threads,
									 (enum rt_thread_lost)n) };
	out[n] = (struct snapshot_lost){ "switches_skipped", threads__missed(w->threads) };
	return n + 1;
}
