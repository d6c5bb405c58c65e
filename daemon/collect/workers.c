/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tokio's workers and its blocking threads have one name, and both run under a task's poll: the
 * blocking pool polls its jobs, of which a worker's whole life is one. So a poll counts when it is
 * inside the worker's loop. Of the functions of that loop some are inlined here and there, but not
 * all; the one that parks is inside it too, behind no poll of a task.
 *
 * Looking has its price the first time (tables of the whole program), and an idle worker waits for
 * hours: so what waits in epoll or at a condition variable, as idle workers do, is looked at only
 * when that costs little.
 */
#include "collect/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

struct seen {
	rt_u32 pid;
	rt_u64 since_ns; /* of its wait */
	enum worker_verdict verdict;
};

struct workers {
	const struct roster *roster;
	struct locks *locks;
	uint64_t stall_ns;
	VEC(struct seen) seen; /* waits that go on */
};

struct workers *workers__new(const struct roster *roster, struct locks *locks, uint64_t stall_ns)
{
	struct workers *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->roster = roster;
	w->locks = locks;
	w->stall_ns = stall_ns;
	return w;
}

void workers__free(struct workers *w)
{
	if (!w)
		return;
	vec__free(&w->seen);
	free(w);
}

/* ---- what a stack says ---- */

static bool is_of_loop(const char *name)
{
	return strstr(name, "::scheduler::multi_thread::worker::");
}

static bool is_poll(const char *name)
{
	return strstr(name, "::runtime::task::raw::poll") ||
	       strstr(name, "::runtime::task::harness::Harness") ||
	       strstr(name, "::runtime::task::core::Core<");
}

enum worker_verdict workers__judge(const struct snapshot_backtrace *b)
{
	bool named = false, loop = false, poll = false;

	for (uint32_t i = 0; i < b->depth; i++) {
		const char *name = b->frames[i].name;

		named |= strstr(name, "tokio::runtime::") != NULL;
		/* the worker has handed on its tasks: it may block */
		if (strstr(name, "block_in_place"))
			return WORKER_FREE;
		if (is_of_loop(name)) {
			loop = true;
			poll = strstr(name, "::run_task") != NULL;
		} else if (loop && is_poll(name)) {
			poll = true;
		}
	}
	if (poll)
		return WORKER_IN_POLL;
	return named && (loop || !b->truncated) ? WORKER_FREE : WORKER_UNCLEAR;
}

/* ---- who is looked at ---- */

static struct seen *find(const struct workers *w, const struct rt_thread *t)
{
	for (size_t i = 0; i < w->seen.cnt; i++)
		if (w->seen.data[i].pid == t->pid && w->seen.data[i].since_ns == t->since_ns)
			return &w->seen.data[i];
	return NULL;
}

/* Waits that are over. */
static void forget(struct workers *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->seen.cnt; i++) {
		const struct seen *s = &w->seen.data[i];
		const struct rt_thread *t = roster__by_pid(w->roster, s->pid);

		if (t && t->since_ns == s->since_ns)
			w->seen.data[kept++] = *s;
	}
	w->seen.cnt = kept;
}

/* A lock that is waited for is told as such. */
static bool may_block_a_poll(const struct workers *w, const struct rt_thread *t, bool cheap)
{
	struct lock_view v;

	switch (t->state) {
	case RT_STATE_SLEEP:
	case RT_STATE_IO:
	case RT_STATE_SOCKET:
	case RT_STATE_PIPE:
	case RT_STATE_OTHER:
		return true;
	case RT_STATE_EPOLL:
		return cheap;
	case RT_STATE_FUTEX:
		if (cheap)
			return true;
		locks__view(w->locks, t, &v);
		return v.kind == LOCK_PARK || v.kind == LOCK_JOIN;
	default:
		return false;
	}
}

size_t workers__unseen(struct workers *w, bool cheap, rt_u32 *pids, size_t most)
{
	size_t cnt, found = 0;
	const struct rt_thread *rows = roster__rows(w->roster, &cnt);
	bool older;

	forget(w);
	for (size_t i = 0; i < cnt && found < most; i++) {
		const struct rt_thread *t = &rows[i];

		if (roster__is_tokio(t) && roster__state_ns(w->roster, t, &older) >= w->stall_ns &&
		    !find(w, t) && may_block_a_poll(w, t, cheap))
			pids[found++] = t->pid;
	}
	return found;
}

static void note(struct workers *w, const struct rt_thread *t, enum worker_verdict verdict)
{
	struct seen *s = find(w, t) ?: vec__push(&w->seen);

	if (s)
		*s = (struct seen){ t->pid, t->since_ns, verdict };
}

void workers__see(struct workers *w, const struct waiting *waiting, const rt_u32 *pids, size_t cnt)
{
	bool older;

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = roster__by_pid(w->roster, pids[i]);
		struct snapshot_backtrace b = {};

		/* another wait by now: its stack may be of either */
		if (!t || roster__state_ns(w->roster, t, &older) < w->stall_ns)
			continue;
		if (!waiting)
			note(w, t, WORKER_UNCLEAR);
		else if (!waiting__stack(waiting, pids[i], &b) && b.frames)
			note(w, t, workers__judge(&b));
		free((void *)b.frames);
	}
}

enum worker_verdict workers__verdict(const struct workers *w, const struct rt_thread *t)
{
	const struct seen *s = find(w, t);

	return s ? s->verdict : WORKER_NOT_SEEN;
}
