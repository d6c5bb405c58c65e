/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/roster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "base/vec.h"

#define PACE_NS NS_PER_SEC

/* What the thread of a row used up to a moment. */
struct pace {
	rt_u32 pid;
	rt_u64 born_ns, at_ns, cpu_ns;
	double now, max; /* < 0: not known yet */
};

struct roster {
	struct threads *threads;
	struct pace *paces; /* by row */
	rt_u32 pace_cnt;
	VEC(struct rt_thread) live;
	VEC(rt_u32) rows; /* of live[] */
	uint64_t start_ns, stop_ns, looked_ns, next_pace_ns;
};

struct roster *roster__new(struct threads *threads)
{
	struct roster *r = calloc(1, sizeof(*r));

	if (r)
		r->threads = threads;
	return r;
}

void roster__free(struct roster *r)
{
	if (!r)
		return;
	vec__free(&r->live);
	vec__free(&r->rows);
	free(r->paces);
	free(r);
}

void roster__start(struct roster *r, uint64_t now_ns)
{
	r->start_ns = now_ns;
	r->next_pace_ns = now_ns + PACE_NS;
	threads__start(r->threads, now_ns);
}

void roster__stop(struct roster *r, uint64_t now_ns)
{
	r->stop_ns = now_ns;
	threads__stop(r->threads);
}

/* ---- CPU by the second ---- */

/* What of ns on a CPU was not its own. */
static rt_u64 stolen_of(const struct rt_thread *t, rt_u64 ns)
{
	return (int64_t)t->stolen_ns <= 0 ? 0 : t->stolen_ns < ns ? t->stolen_ns : ns;
}

static rt_u64 cpu_until(const struct rt_thread *t, uint64_t now_ns)
{
	rt_u64 ns = t->ns[RT_STATE_RUNNING] - stolen_of(t, t->ns[RT_STATE_RUNNING]);

	if (t->state == RT_STATE_RUNNING && now_ns > t->since_ns)
		ns += now_ns - t->since_ns;
	return ns;
}

static void note_pace(struct pace *p, const struct rt_thread *t, uint64_t now_ns)
{
	rt_u64 cpu_ns = cpu_until(t, now_ns);

	if (p->pid != t->pid || p->born_ns != t->born_ns)
		*p = (struct pace){ .pid = t->pid,
				    .born_ns = t->born_ns,
				    .at_ns = t->born_ns,
				    .now = -1,
				    .max = -1 };
	/* of one that was just born nothing can be said */
	if (now_ns < p->at_ns + PACE_NS / 2)
		return;
	p->now =
		cpu_ns < p->cpu_ns ? 0 : (double)(cpu_ns - p->cpu_ns) / (double)(now_ns - p->at_ns);
	p->max = p->now > p->max ? p->now : p->max;
	p->at_ns = now_ns;
	p->cpu_ns = cpu_ns;
}

static bool make_room(struct roster *r, rt_u32 cnt)
{
	struct pace *more;

	if (cnt <= r->pace_cnt)
		return true;
	more = realloc(r->paces, cnt * sizeof(*more));
	if (!more)
		return false;
	memset(more + r->pace_cnt, 0, (cnt - r->pace_cnt) * sizeof(*more));
	r->paces = more;
	r->pace_cnt = cnt;
	return true;
}

void roster__tick(struct roster *r, uint64_t now_ns)
{
	rt_u32 cnt = threads__row_cnt(r->threads);
	struct rt_thread t;

	if (now_ns < r->next_pace_ns || r->stop_ns)
		return;
	r->next_pace_ns = now_ns + PACE_NS;
	if (!make_room(r, cnt))
		return;
	for (rt_u32 row = RT_THREAD_NAMES; row < cnt; row++)
		if (threads__row(r->threads, row, &t))
			note_pace(&r->paces[row], &t, now_ns);
}

/* ---- looking ---- */

/* Row, thread and pass: whether the thread is one of the living, or ended with the process. */
static bool is_there(const struct rt_thread *t, rt_u64 pass, uint64_t begin_ns)
{
	return t->look == pass || t->state == RT_STATE_EXITED || t->born_ns >= begin_ns;
}

int roster__look(struct roster *r)
{
	uint64_t begin_ns = clock__mono_ns();
	rt_u32 cnt;
	rt_u64 pass;
	int err = threads__look(r->threads, &pass);

	/* a process that has ended has no threads to pass over; what they left is there */
	if (err && err != -ESRCH)
		return err;
	r->live.cnt = r->rows.cnt = 0;
	r->looked_ns = r->stop_ns ? r->stop_ns : clock__mono_ns();
	cnt = threads__row_cnt(r->threads);
	for (rt_u32 row = RT_THREAD_NAMES; row < cnt; row++) {
		struct rt_thread t, *slot;
		rt_u32 *number;

		if (!threads__row(r->threads, row, &t) || !is_there(&t, pass, begin_ns))
			continue;
		slot = vec__push(&r->live);
		number = vec__push(&r->rows);
		if (!slot || !number)
			return -ENOMEM;
		*slot = t;
		*number = row;
	}
	return 0;
}

const struct rt_thread *roster__rows(const struct roster *r, size_t *cnt)
{
	*cnt = r->live.cnt;
	return r->live.data;
}

void roster__set_lock(struct roster *r, size_t i)
{
	threads__set_lock(r->threads, r->rows.data[i], r->live.data[i].since_ns);
}

uint64_t roster__looked_ns(const struct roster *r)
{
	return r->looked_ns;
}

uint64_t roster__start_ns(const struct roster *r)
{
	return r->start_ns;
}

const struct rt_thread *roster__by_pid(const struct roster *r, rt_u32 pid)
{
	for (size_t i = 0; i < r->live.cnt; i++)
		if (r->live.data[i].pid == pid)
			return &r->live.data[i];
	return NULL;
}

const struct rt_thread *roster__by_ns_tid(const struct roster *r, rt_u32 ns_tid)
{
	for (size_t i = 0; i < r->live.cnt; i++)
		if (r->live.data[i].ns_tid == ns_tid)
			return &r->live.data[i];
	return NULL;
}

uint64_t roster__state_ns(const struct roster *r, const struct rt_thread *t, bool *older)
{
	*older = t->since_ns <= r->start_ns;
	return r->looked_ns > t->since_ns ? r->looked_ns - t->since_ns : 0;
}

enum thread_state roster__state(const struct rt_thread *t)
{
	static const enum thread_state states[RT_STATE_CNT] = {
		[RT_STATE_NONE] = THREAD_EXITED,
		[RT_STATE_RUNNING] = THREAD_RUNNING,
		[RT_STATE_RUNNABLE] = THREAD_RUNNABLE,
		[RT_STATE_PREEMPTED] = THREAD_PREEMPTED,
		[RT_STATE_FUTEX] = THREAD_FUTEX,
		[RT_STATE_LOCK] = THREAD_LOCK,
		[RT_STATE_EPOLL] = THREAD_EPOLL,
		[RT_STATE_SLEEP] = THREAD_SLEEP,
		[RT_STATE_IO] = THREAD_IO,
		[RT_STATE_SOCKET] = THREAD_SOCKET,
		[RT_STATE_PIPE] = THREAD_PIPE,
		[RT_STATE_OTHER] = THREAD_OTHER,
		[RT_STATE_STOPPED] = THREAD_STOPPED,
		[RT_STATE_EXITED] = THREAD_EXITED,
	};

	return t->state < RT_STATE_CNT ? states[t->state] : THREAD_OTHER;
}

bool roster__is_tokio(const struct rt_thread *t)
{
	return !strncmp(t->comm, "tokio-runtime-w", 15) || !strncmp(t->comm, "tokio-rt-worker", 15);
}

/* ---- the snapshot's rows ---- */

int roster__stats(const struct roster *r, const struct rt_times *times, struct snapshot_stats *out)
{
	rt_u64 places[RT_HIST_BUCKETS] = {};

	*out = (struct snapshot_stats){
		.count = times->cnt,
		.total_ns = times->sum_ns,
		.min_ns = times->cnt ? ~times->min_inv_ns : 0,
		.max_ns = times->max_ns,
		.hist_lost = times->hist_lost,
		.hist.zero_cnt = times->zero_cnt,
	};
	threads__hist(r->threads, times, places);
	return hist__from_places(places, RT_HIST_BUCKETS, &out->hist);
}

/* The kernel counts ticks in user and in system mode; their ratio divides the exact time. */
static void split_cpu(const struct rt_thread *t, struct snapshot_thread *out)
{
	rt_u64 user = t->user_ns - t->base_user_ns, system = t->system_ns - t->base_system_ns;

	out->split_known = user + system != 0;
	if (!out->split_known)
		return;
	out->user_ns = (uint64_t)((double)out->cpu_ns * (double)user / (double)(user + system));
	out->system_ns = out->cpu_ns - out->user_ns;
}

static void fill_wakers(const struct roster *r, const struct rt_thread *t,
			struct snapshot_thread *out)
{
	size_t n = 0;

	for (size_t i = 0; i < RT_WAKERS && t->wakers[i].pid; i++) {
		const struct rt_thread *waker = roster__by_pid(r, t->wakers[i].pid);

		/* one that has ended has no name any more */
		if (waker)
			out->wakers[n++] =
				(struct snapshot_waker){ (int)waker->tid, t->wakers[i].cnt };
	}
}

static void fill_times(const struct rt_thread *t, const rt_u64 ns[RT_STATE_SLOTS],
		       struct snapshot_thread *out)
{
	out->stolen_ns = stolen_of(t, ns[RT_STATE_RUNNING]);
	out->cpu_ns = ns[RT_STATE_RUNNING] - out->stolen_ns;
	out->preempted_ns = ns[RT_STATE_PREEMPTED];
	out->run_queue_ns = ns[RT_STATE_RUNNABLE] + ns[RT_STATE_PREEMPTED];
	for (int i = 0; i < THREAD_OFF_CNT; i++)
		out->off_ns[i] = ns[RT_STATE_FUTEX + i];
	for (int i = 0; i < RT_STATE_EXITED; i++)
		out->observed_ns += ns[i];
}

static int fill_counts(const struct roster *r, const struct rt_thread *t,
		       struct snapshot_thread *out)
{
	out->voluntary = t->voluntary;
	out->involuntary = t->involuntary;
	out->migrations = t->migrations;
	for (int i = 0; i < WAKER_CNT; i++)
		out->woken[i] = t->woken[i];
	split_cpu(t, out);
	return roster__stats(r, &t->queue, &out->queue);
}

static int fill_thread(const struct roster *r, size_t i, struct snapshot_thread *out)
{
	const struct rt_thread *t = &r->live.data[i];
	rt_u32 row = r->rows.data[i];
	const struct pace *pace = row < r->pace_cnt ? &r->paces[row] : NULL;
	rt_u64 ns[RT_STATE_SLOTS];

	memcpy(ns, t->ns, sizeof(ns));
	*out = (struct snapshot_thread){
		.tid = (int)t->tid,
		.ns_tid = (int)t->ns_tid,
		.count = 1,
		.state = roster__state(t),
		.tokio = roster__is_tokio(t),
		.cpu_now = -1,
		.cpu_max = -1,
	};
	memcpy(out->name, t->comm, sizeof(t->comm) - 1);
	if (t->state != RT_STATE_EXITED) {
		out->state_ns = roster__state_ns(r, t, &out->state_older);
		ns[t->state % RT_STATE_SLOTS] += out->state_ns;
	}
	if (t->state == RT_STATE_FUTEX || t->state == RT_STATE_LOCK)
		out->wait_address = t->wait_addr;
	if (pace && pace->pid == t->pid && pace->born_ns == t->born_ns) {
		out->cpu_now = pace->now;
		out->cpu_max = pace->max;
	}
	fill_times(t, ns, out);
	fill_wakers(r, t, out);
	return fill_counts(r, t, out);
}

static size_t dead_called(const struct snapshot *s, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < s->thread_cnt; i++)
		n += !s->threads[i].tid && !strcmp(s->threads[i].name, name);
	return n;
}

/*
 * The name is all that tells rows of the dead apart: as all formats can show it, and numbered where
 * that makes two alike, or one like the row of those without a row.
 */
static int name_dead(const char comm[RT_COMM_BYTES], const struct snapshot *s,
		     struct snapshot_thread *out)
{
	struct strbuf name = STRBUF_INIT;

	utf8__add_printable(&name, comm);
	snprintf(out->name, sizeof(out->name), "%s", name.s ? name.s : "");
	for (unsigned int n = 2; dead_called(s, out->name) > 1 || !strcmp(out->name, "exited"); n++)
		snprintf(out->name, sizeof(out->name), "%s %u", name.s ? name.s : "", n);
	strbuf__free(&name);
	return name.oom ? -ENOMEM : 0;
}

/* All that have ended with one name. */
static int fill_dead(const struct roster *r, rt_u32 row, struct snapshot *s)
{
	struct snapshot_thread *out = &s->threads[s->thread_cnt];
	struct rt_thread t;

	if (!threads__row(r->threads, row, &t) || !t.exited)
		return 0;
	s->thread_cnt++;
	*out = (struct snapshot_thread){ .name = "exited",
					 .count = t.exited,
					 .state = THREAD_EXITED,
					 .cpu_now = -1,
					 .cpu_max = -1 };
	if (row != RT_THREAD_EXITED && name_dead(t.comm, s, out))
		return -ENOMEM;
	fill_times(&t, t.ns, out);
	return fill_counts(r, &t, out);
}

static int by_cpu(const void *a, const void *b)
{
	const struct snapshot_thread *x = a, *y = b;

	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void sort(struct snapshot_thread *rows, size_t cnt)
{
	if (cnt)
		qsort(rows, cnt, sizeof(*rows), by_cpu);
}

/* Those without a name of their own come last. */
static int fill_all_dead(const struct roster *r, struct snapshot *s)
{
	size_t first = s->thread_cnt;
	int err = 0;

	for (rt_u32 row = RT_THREAD_EXITED + 1; row < RT_THREAD_NAMES && !err; row++)
		err = fill_dead(r, row, s);
	sort(s->threads + first, s->thread_cnt - first);
	return err ?: fill_dead(r, RT_THREAD_EXITED, s);
}

int roster__fill(const struct roster *r, struct snapshot *s)
{
	int err = 0;

	s->threads_known = true;
	s->threads = calloc(r->live.cnt + RT_THREAD_NAMES, sizeof(*s->threads));
	if (!s->threads)
		return -ENOMEM;
	for (size_t i = 0; i < r->live.cnt && !err; i++)
		err = fill_thread(r, i, &s->threads[s->thread_cnt++]);
	sort(s->threads, s->thread_cnt);
	return err ?: fill_all_dead(r, s);
}
