/* SPDX-License-Identifier: BSD-2-Clause */
#include "export/json_threads.h"

#include <stdio.h>

#include "export/json.h"
#include "export/json_stats.h"
#include "snapshot/snapshot.h"

static void put_int_if(struct jsonw *w, const char *key, bool known, int64_t v)
{
	jsonw__key(w, key);
	if (known)
		jsonw__int(w, v);
	else
		jsonw__null(w);
}

static void put_bool(struct jsonw *w, const char *key, bool v)
{
	jsonw__key(w, key);
	jsonw__bool(w, v);
}

/* Addresses as people and debuggers write them: readers' numbers may not hold 64 bits. */
static void put_address(struct jsonw *w, const char *key, uint64_t address)
{
	char hex[24];

	snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)address);
	put_string(w, key, address ? hex : NULL);
}

/* ---- threads ---- */

static void off_cpu(struct jsonw *w, const struct snapshot_thread *t)
{
	jsonw__key(w, "off_cpu_ns");
	jsonw__open(w, '{');
	for (int i = 0; i < THREAD_OFF_CNT; i++)
		put_uint(w, thread_state_names[THREAD_FUTEX + i], t->off_ns[i]);
	jsonw__close(w, '}');
}

static void wakeups(struct jsonw *w, const struct snapshot_thread *t)
{
	jsonw__key(w, "wakeups");
	jsonw__open(w, '{');
	for (int i = 0; i < WAKER_CNT; i++)
		put_uint(w, thread_waker_names[i], t->woken[i]);
	jsonw__close(w, '}');
	jsonw__key(w, "wakers");
	jsonw__open(w, '[');
	for (int i = 0; i < THREAD_WAKERS && t->wakers[i].tid; i++) {
		jsonw__open(w, '{');
		put_int_if(w, "tid", true, t->wakers[i].tid);
		put_uint(w, "count", t->wakers[i].count);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void thread(struct jsonw *w, const struct snapshot_thread *t)
{
	bool one = t->tid != 0;

	jsonw__line(w);
	jsonw__open(w, '{');
	put_int_if(w, "tid", one, t->tid);
	put_int_if(w, "ns_tid", one, t->ns_tid);
	put_string(w, "name", t->name);
	put_uint(w, "count", t->count);
	put_string(w, "state", thread_state_names[t->state]);
	put_uint_if(w, "state_ns", one, t->state_ns);
	put_bool(w, "state_older", t->state_older);
	put_string(w, "runtime", t->tokio ? "tokio" : NULL);
	put_uint(w, "observed_ns", t->observed_ns);
	put_uint(w, "cpu_ns", t->cpu_ns);
	put_uint(w, "stolen_ns", t->stolen_ns);
	put_uint_if(w, "user_ns", t->split_known, t->user_ns);
	put_uint_if(w, "system_ns", t->split_known, t->system_ns);
	put_real(w, "cpu_ratio", thread__cpu_ratio(t));
	put_real_if(w, "cpu_now_ratio", t->cpu_now >= 0, t->cpu_now);
	put_real_if(w, "cpu_max_ratio", t->cpu_max >= 0, t->cpu_max);
	put_real(w, "parked_ratio", thread__parked_ratio(t));
	put_uint(w, "run_queue_ns", t->run_queue_ns);
	put_uint(w, "preempted_ns", t->preempted_ns);
	off_cpu(w, t);
	put_uint(w, "switches", t->voluntary + t->involuntary);
	put_uint(w, "voluntary", t->voluntary);
	put_uint(w, "involuntary", t->involuntary);
	put_uint(w, "migrations", t->migrations);
	wakeups(w, t);
	put_address(w, "wait_address", t->wait_address);
	put_stats(w, "run_queue", &t->queue);
	jsonw__close(w, '}');
}

/* ---- locks ---- */

static void lock_stacks(struct jsonw *w, const struct snapshot_lock *l)
{
	jsonw__key(w, "stacks");
	jsonw__open(w, '[');
	for (size_t i = 0; i < l->stack_cnt; i++) {
		const struct snapshot_lock_stack *s = &l->stacks[i];

		jsonw__open(w, '{');
		put_uint(w, "waits", s->waits);
		put_uint(w, "total_ns", s->total_ns);
		put_uint(w, "waiters_now", s->waiters_now);
		json__backtrace(w, &s->stack);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void lock(struct jsonw *w, const struct snapshot_lock *l)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	put_string(w, "kind", lock_kind_names[l->kind]);
	put_address(w, "address", l->address);
	put_uint(w, "waiters_now", l->waiters_now);
	put_uint(w, "oldest_wait_ns", l->oldest_ns);
	put_int_if(w, "holder_tid", l->holder_tid != 0, l->holder_tid);
	put_uint(w, "waits", l->wait.count);
	put_stats(w, "wait", &l->wait);
	lock_stacks(w, l);
	jsonw__close(w, '}');
}

/* ---- stalls ---- */

static void frames(struct jsonw *w, const struct stall_thread *t)
{
	jsonw__key(w, "frames");
	jsonw__open(w, '[');
	for (size_t i = 0; i < t->frame_cnt; i++) {
		jsonw__open(w, '{');
		put_string(w, "name", t->frames[i].name);
		put_uint(w, "age_ns", t->frames[i].age_ns);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void stall_thread(struct jsonw *w, const struct stall_thread *t)
{
	jsonw__open(w, '{');
	put_int_if(w, "tid", true, t->tid);
	put_string(w, "name", t->name);
	put_string(w, "state", thread_state_names[t->state]);
	put_uint(w, "wait_ns", t->wait_ns);
	put_bool(w, "wait_older", t->wait_older);
	put_address(w, "address", t->address);
	put_string(w, "lock", t->address ? lock_kind_names[t->lock] : NULL);
	put_int_if(w, "holder_tid", t->holder_tid != 0, t->holder_tid);
	put_bool(w, "holder_proven", t->holder_proven);
	put_int_if(w, "syscall", t->syscall >= 0, t->syscall);
	put_string(w, "wchan", t->wchan[0] ? t->wchan : NULL);
	frames(w, t);
	json__backtrace(w, &t->stack);
	jsonw__close(w, '}');
}

static void stall(struct jsonw *w, const struct snapshot_stall *s)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	put_string(w, "kind", stall_kind_names[s->kind]);
	put_string(w, "certainty", s->proven ? "proven" : "suspected");
	put_uint(w, "seen_unix_ns", s->seen_unix_ns);
	put_uint_if(w, "over_unix_ns", s->over_unix_ns != 0, s->over_unix_ns);
	put_uint(w, "age_ns", s->age_ns);
	jsonw__key(w, "threads");
	jsonw__open(w, '[');
	for (size_t i = 0; i < s->thread_cnt; i++)
		stall_thread(w, &s->threads[i]);
	jsonw__close(w, ']');
	put_uint(w, "more_threads", s->more_threads);
	jsonw__close(w, '}');
}

void json__threads(struct jsonw *w, const struct snapshot *s)
{
	if (!s->threads_known)
		return;
	section(w, "threads", '[');
	for (size_t i = 0; i < s->thread_cnt; i++)
		thread(w, &s->threads[i]);
	jsonw__close(w, ']');
	section(w, "locks", '[');
	for (size_t i = 0; i < s->lock_cnt; i++)
		lock(w, &s->locks[i]);
	jsonw__close(w, ']');
	section(w, "stalls", '[');
	for (size_t i = 0; i < s->stall_cnt; i++)
		stall(w, &s->stalls[i]);
	jsonw__close(w, ']');
	put_uint(w, "lock_waits_unlisted", s->unlisted_waits);
	put_uint(w, "stalls_untold", s->more_stalls);
}
