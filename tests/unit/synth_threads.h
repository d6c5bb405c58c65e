/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads, locks and stalls for a made-up snapshot, with all that is odd about their names. */
#ifndef SYNTH_THREADS_H
#define SYNTH_THREADS_H

#include <stdlib.h>
#include <string.h>

#include "snapshot/snapshot.h"

static const char *const synth_thread_names[] = {
	"tokio-rt-worker",
	"tokio-rt-worker",
	"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\xe6\x97\xa5\xe6",
	"say \"hi\"\\n, yes",
	"evil\x1b[31m\xff",
	"exited",
};
#define SYNTH_THREADS (sizeof(synth_thread_names) / sizeof(synth_thread_names[0]))

static inline void synth__stats(struct snapshot_stats *s, uint64_t ns)
{
	static const uint64_t counts[] = { 5, 0, 3, 1 };

	*s = (struct snapshot_stats){ .count = 10,
				      .total_ns = 10 * ns,
				      .min_ns = 1,
				      .max_ns = ns * 2,
				      .hist_lost = 1,
				      .hist = { .first = 200, .cnt = 4 } };
	s->hist.counts = malloc(sizeof(counts));
	memcpy(s->hist.counts, counts, sizeof(counts));
}

static inline void synth__thread(struct snapshot_thread *t, size_t i)
{
	bool dead = i + 1 == SYNTH_THREADS;

	*t = (struct snapshot_thread){ .tid = dead ? 0 : 4242 + (int)i,
				       .ns_tid = dead ? 0 : 7 + (int)i,
				       .count = dead ? 1234 : 1,
				       .state = dead ? THREAD_EXITED : (enum thread_state)(i * 3),
				       .state_ns = dead ? 0 : 1000000 * i,
				       .state_older = i == 2,
				       .tokio = i < 2,
				       .cpu_ns = 5000000000 / (i + 1),
				       .stolen_ns = i,
				       .split_known = i != 1,
				       .cpu_now = i ? 0.25 : -1,
				       .cpu_max = i ? 0.5 : -1,
				       .run_queue_ns = 1000,
				       .preempted_ns = 10,
				       .voluntary = 100 * i,
				       .involuntary = i,
				       .migrations = 3,
				       .wait_address = i == 1 ? 0x7ffd12345678 : 0 };
	strcpy(t->name, synth_thread_names[i]);
	t->user_ns = t->split_known ? t->cpu_ns / 2 : 0;
	t->system_ns = t->split_known ? t->cpu_ns - t->user_ns : 0;
	for (int r = 0; r < THREAD_OFF_CNT; r++)
		t->off_ns[r] = (uint64_t)r * 111111111;
	t->observed_ns = t->cpu_ns + t->stolen_ns + t->run_queue_ns + 36 * 111111111ull;
	for (int w = 0; w < WAKER_CNT; w++)
		t->woken[w] = (uint64_t)w + i;
	t->wakers[0] = (struct snapshot_waker){ dead ? 0 : 4242, dead ? 0 : 17 };
	synth__stats(&t->queue, 5000);
}

static const struct snapshot_frame synth_backtrace[] = {
	{ "clone3", "libc.so.6", FRAME_LIB, false, NULL, 0 },
	{ "tokio::runtime::task::raw::poll", "role", FRAME_DEP, false, NULL, 0 },
	{ "role::Pool::submit", "role", FRAME_OWN, false, "src/pool.rs", 77 },
	{ "role::Ledger::add", "role", FRAME_OWN, true, NULL, 0 },
	{ "std::sys::sync::mutex::futex::Mutex::lock_contended", "role", FRAME_STD, false, NULL,
	  0 },
	{ "evil\x1b[31m\"\\", NULL, FRAME_KERNEL, false, NULL, 0 },
};
static struct snapshot_lock_stack synth_lock_stacks[] = {
	{ { synth_backtrace, 6, NULL }, .waiters_now = 2 },
	{ { synth_backtrace, 4, "no_unwind_rows" }, .waits = 9, .total_ns = 8000000000 },
};

static inline void synth__stall(struct snapshot_stall *s)
{
	*s = (struct snapshot_stall){ .kind = STALL_DEADLOCK,
				      .proven = true,
				      .seen_unix_ns = 1764471597300000000ull,
				      .age_ns = 1100000000,
				      .thread_cnt = 2,
				      .more_threads = 3 };
	for (int i = 0; i < 2; i++) {
		struct stall_thread *t = &s->threads[i];

		*t = (struct stall_thread){ .tid = 4242 + i,
					    .state = i ? THREAD_SLEEP : THREAD_LOCK,
					    .wait_ns = 1100000000,
					    .wait_older = i,
					    .address = i ? 0 : 0xfffffffffffff000,
					    .lock = i ? LOCK_FUTEX : LOCK_PTHREAD,
					    .holder_tid = i ? 0 : 4243,
					    .holder_proven = !i,
					    .syscall = i ? -1 : 202,
					    .frame_cnt = 1 };
		strcpy(t->name, synth_thread_names[4 - i]);
		strcpy(t->wchan, i ? "" : "futex_wait_queue");
		t->frames[0] = (struct stall_frame){ "translator_sv2::main", 1200000000 };
		t->stack = i ? (struct snapshot_backtrace){ .truncated = "running" }
			     : (struct snapshot_backtrace){ synth_backtrace, 6, NULL };
	}
}

static inline void synth__add_threads(struct snapshot *s)
{
	s->threads_known = true;
	s->threads = calloc(SYNTH_THREADS, sizeof(*s->threads));
	for (; s->thread_cnt < SYNTH_THREADS; s->thread_cnt++)
		synth__thread(&s->threads[s->thread_cnt], s->thread_cnt);
	s->locks = calloc(LOCK_KIND_CNT, sizeof(*s->locks));
	for (; s->lock_cnt < LOCK_KIND_CNT; s->lock_cnt++) {
		struct snapshot_lock *l = &s->locks[s->lock_cnt];

		*l = (struct snapshot_lock){ .kind = (enum lock_kind)s->lock_cnt,
					     .address = 0x7f0000000000 + s->lock_cnt,
					     .waiters_now = s->lock_cnt,
					     .oldest_ns = 100,
					     .holder_tid = s->lock_cnt == LOCK_PTHREAD ? 4242 : 0 };
		synth__stats(&l->wait, 70000);
		if (l->kind == LOCK_STD) {
			l->stacks = synth_lock_stacks;
			l->stack_cnt = 2;
		}
	}
	s->stalls = calloc(2, sizeof(*s->stalls));
	s->stall_cnt = 2;
	synth__stall(&s->stalls[0]);
	s->stalls[1] = (struct snapshot_stall){ .kind = STALL_NO_PROGRESS, .over_unix_ns = 9 };
	s->more_stalls = 1;
	s->unlisted_waits = 77;
}

#endif
