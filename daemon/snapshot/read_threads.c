/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads, locks and stalls of a document. All are missing when threads were not watched. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "snapshot/reader.h"
#include "snapshot/snapshot.h"

/* A name of the length that is kept; a longer one, of somebody else's file, is cut. */
static void get_comm(struct reader *r, json_t *o, const char *key, char *out, size_t bytes)
{
	json_t *v = get(r, o, key);

	if (!json_is_string(v))
		wrong(r, key, "is no string");
	else
		snprintf(out, bytes, "%s", json_string_value(v));
}

static uint64_t get_address(struct reader *r, json_t *o, const char *key)
{
	const char *text = is_null(o, key) ? NULL : get_string(r, o, key);
	char *end = NULL;
	unsigned long long v = text ? strtoull(text, &end, 16) : 0;

	if (text && (strncmp(text, "0x", 2) != 0 || end == text + 2 || *end))
		wrong(r, key, "is no address");
	return v;
}

static int get_tid(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? 0 : (int)get_int(r, o, key, 0, INT_MAX);
}

static double get_pace(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? -1 : get_ratio(r, o, key, -1);
}

static void read_stats(struct reader *r, json_t *o, const char *key, struct snapshot_stats *out)
{
	json_t *s = get_object(r, o, key);

	out->count = get_uint(r, s, "count");
	out->total_ns = get_uint(r, s, "total_ns");
	out->min_ns = get_uint_or_0(r, s, "min_ns");
	out->max_ns = get_uint_or_0(r, s, "max_ns");
	out->hist_lost = get_uint(r, s, "histogram_lost");
	read_histogram(r, get_object(r, s, "histogram"), &out->hist);
}

/* ---- threads ---- */

static void read_wakers(struct reader *r, json_t *o, struct snapshot_thread *t)
{
	json_t *woken = get_object(r, o, "wakeups"), *list = get_array(r, o, "wakers");

	for (int i = 0; i < WAKER_CNT; i++)
		t->woken[i] = get_uint(r, woken, thread_waker_names[i]);
	for (size_t i = 0; i < json_array_size(list) && i < THREAD_WAKERS && !r->err; i++) {
		json_t *w = json_array_get(list, i);

		t->wakers[i] =
			(struct snapshot_waker){ get_tid(r, w, "tid"), get_uint(r, w, "count") };
	}
}

static void read_times(struct reader *r, json_t *o, struct snapshot_thread *t)
{
	json_t *off = get_object(r, o, "off_cpu_ns");

	t->observed_ns = get_uint(r, o, "observed_ns");
	t->cpu_ns = get_uint(r, o, "cpu_ns");
	t->stolen_ns = get_uint(r, o, "stolen_ns");
	t->split_known = !is_null(o, "user_ns");
	t->user_ns = get_uint_or_0(r, o, "user_ns");
	t->system_ns = get_uint_or_0(r, o, "system_ns");
	t->cpu_now = get_pace(r, o, "cpu_now_ratio");
	t->cpu_max = get_pace(r, o, "cpu_max_ratio");
	t->run_queue_ns = get_uint(r, o, "run_queue_ns");
	t->preempted_ns = get_uint(r, o, "preempted_ns");
	for (int i = 0; i < THREAD_OFF_CNT; i++)
		t->off_ns[i] = get_uint(r, off, thread_state_names[THREAD_FUTEX + i]);
	t->voluntary = get_uint(r, o, "voluntary");
	t->involuntary = get_uint(r, o, "involuntary");
	t->migrations = get_uint(r, o, "migrations");
}

static void read_thread(struct reader *r, json_t *o, struct snapshot_thread *t)
{
	get_comm(r, o, "name", t->name, sizeof(t->name));
	t->tid = get_tid(r, o, "tid");
	t->ns_tid = get_tid(r, o, "ns_tid");
	t->count = get_uint(r, o, "count");
	t->state = (enum thread_state)get_name(r, o, "state", thread_state_names, THREAD_STATE_CNT);
	t->state_ns = get_uint_or_0(r, o, "state_ns");
	t->state_older = get_bool(r, o, "state_older");
	t->tokio = !is_null(o, "runtime");
	read_times(r, o, t);
	read_wakers(r, o, t);
	t->wait_address = get_address(r, o, "wait_address");
	read_stats(r, o, "run_queue", &t->queue);
}

/* ---- locks, stalls ---- */

static void read_lock_stacks(struct reader *r, json_t *o, struct snapshot_lock *l)
{
	json_t *list = is_null(o, "stacks") ? NULL : get_array(r, o, "stacks");
	size_t cnt = json_array_size(list);

	if (!cnt || r->err)
		return;
	l->stacks = arena__alloc(r->s->arena, cnt * sizeof(*l->stacks)) ?: nomem(r);
	for (size_t i = 0; i < cnt && !r->err; i++) {
		struct snapshot_lock_stack *s = &l->stacks[l->stack_cnt++];
		json_t *row = json_array_get(list, i);

		s->waits = get_uint(r, row, "waits");
		s->total_ns = get_uint(r, row, "total_ns");
		s->waiters_now = get_uint(r, row, "waiters_now");
		read_backtrace(r, row, &s->stack);
	}
}

static void read_lock(struct reader *r, json_t *o, struct snapshot_lock *l)
{
	l->kind = (enum lock_kind)get_name(r, o, "kind", lock_kind_names, LOCK_KIND_CNT);
	l->address = get_address(r, o, "address");
	l->waiters_now = get_uint(r, o, "waiters_now");
	l->oldest_ns = get_uint(r, o, "oldest_wait_ns");
	l->holder_tid = get_tid(r, o, "holder_tid");
	read_stats(r, o, "wait", &l->wait);
	read_lock_stacks(r, o, l);
}

static void read_stall_thread(struct reader *r, json_t *o, struct stall_thread *t)
{
	json_t *frames = get_array(r, o, "frames");

	get_comm(r, o, "name", t->name, sizeof(t->name));
	t->tid = get_tid(r, o, "tid");
	t->state = (enum thread_state)get_name(r, o, "state", thread_state_names, THREAD_STATE_CNT);
	t->wait_ns = get_uint(r, o, "wait_ns");
	t->wait_older = json_is_true(json_object_get(o, "wait_older"));
	t->address = get_address(r, o, "address");
	if (!is_null(o, "lock"))
		t->lock = (enum lock_kind)get_name(r, o, "lock", lock_kind_names, LOCK_KIND_CNT);
	t->holder_tid = get_tid(r, o, "holder_tid");
	t->holder_proven = get_bool(r, o, "holder_proven");
	t->syscall = is_null(o, "syscall") ? -1 : get_tid(r, o, "syscall");
	if (!is_null(o, "wchan"))
		get_comm(r, o, "wchan", t->wchan, sizeof(t->wchan));
	for (size_t i = 0; i < json_array_size(frames) && i < STALL_FRAMES && !r->err; i++) {
		json_t *f = json_array_get(frames, i);

		t->frames[t->frame_cnt++] =
			(struct stall_frame){ get_string(r, f, "name"), get_uint(r, f, "age_ns") };
	}
	read_backtrace(r, o, &t->stack);
}

static void read_stall(struct reader *r, json_t *o, struct snapshot_stall *s)
{
	static const char *const words[] = { "suspected", "proven" };
	json_t *threads = get_array(r, o, "threads");

	s->kind = (enum stall_kind)get_name(r, o, "kind", stall_kind_names, STALL_KIND_CNT);
	s->proven = get_name(r, o, "certainty", words, 2) == 1;
	s->seen_unix_ns = get_uint(r, o, "seen_unix_ns");
	s->over_unix_ns = get_uint_or_0(r, o, "over_unix_ns");
	s->age_ns = get_uint(r, o, "age_ns");
	s->more_threads = get_uint(r, o, "more_threads");
	for (size_t i = 0; i < json_array_size(threads) && i < STALL_THREADS && !r->err; i++)
		read_stall_thread(r, json_array_get(threads, i), &s->threads[s->thread_cnt++]);
}

void read_threads(struct reader *r, json_t *doc)
{
	struct snapshot *s = r->s;
	json_t *list;

	if (is_null(doc, "threads"))
		return;
	s->threads_known = true;
	list = enter(r, doc, "threads", get_array);
	s->threads = zeroed(r, json_array_size(list), sizeof(*s->threads));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_thread(r, get_row(r, list, i), &s->threads[s->thread_cnt++]);
	list = enter(r, doc, "locks", get_array);
	s->locks = zeroed(r, json_array_size(list), sizeof(*s->locks));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_lock(r, get_row(r, list, i), &s->locks[s->lock_cnt++]);
	list = enter(r, doc, "stalls", get_array);
	s->stalls = zeroed(r, json_array_size(list), sizeof(*s->stalls));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_stall(r, get_row(r, list, i), &s->stalls[s->stall_cnt++]);
	r->part = "";
	r->row = NO_ROW;
	s->unlisted_waits = get_uint(r, doc, "lock_waits_unlisted");
	s->more_stalls = get_uint(r, doc, "stalls_untold");
}
