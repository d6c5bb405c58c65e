/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads, the locks they wait at, and what hangs: parts of a snapshot. A thread's life within the
 * window is cpu + stolen + run queue + all of off_ns, by construction.
 */
#ifndef SNAPSHOT_THREADS_H
#define SNAPSHOT_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot/profile.h"
#include "snapshot/stats.h"

/* A name of 15 bytes may become 15 replacement characters, and get a number. */
#define SNAPSHOT_COMM_BYTES 52

enum thread_state {
	THREAD_RUNNING,
	THREAD_RUNNABLE,  /* woken, waits for a CPU */
	THREAD_PREEMPTED, /* lost the CPU, waits for one */
	/* blocked: in the order of off_ns */
	THREAD_FUTEX,
	THREAD_LOCK,
	THREAD_EPOLL,
	THREAD_SLEEP,
	THREAD_IO,
	THREAD_SOCKET,
	THREAD_PIPE,
	THREAD_OTHER,
	THREAD_STOPPED,
	THREAD_EXITED,
	THREAD_STATE_CNT,
};
#define THREAD_OFF_CNT (THREAD_EXITED - THREAD_FUTEX)
extern const char *const thread_state_names[THREAD_STATE_CNT];

#define THREAD_WAKERS 4
struct snapshot_waker {
	int tid; /* 0: no more */
	uint64_t count;
};

struct snapshot_thread {
	char name[SNAPSHOT_COMM_BYTES];
	int tid, ns_tid; /* 0: a row of those that have ended, by name */
	uint64_t count;	 /* threads in this row */
	enum thread_state state;
	uint64_t state_ns;	     /* for how long it has been in it */
	bool state_older;	     /* at least that: since before the window */
	bool tokio;		     /* named as tokio's workers and blocking threads are */
	uint64_t observed_ns;	     /* its life within the window */
	uint64_t cpu_ns;	     /* as the kernel accounts it */
	uint64_t stolen_ns;	     /* it had a CPU that the hypervisor or an interrupt took */
	uint64_t user_ns, system_ns; /* cpu_ns divided by the kernel's ticks */
	bool split_known;	     /* there were ticks */
	double cpu_now, cpu_max;     /* of one CPU, over about a second; < 0: not known */
	uint64_t run_queue_ns;
	uint64_t preempted_ns; /* of it, after losing the CPU */
	uint64_t off_ns[THREAD_OFF_CNT];
	struct snapshot_stats queue; /* waits for a CPU that ended */
	uint64_t voluntary, involuntary, migrations;
	uint64_t woken[WAKER_CNT];
	struct snapshot_waker wakers[THREAD_WAKERS]; /* of woken[WAKER_THREAD], the first ones */
	uint64_t wait_address;			     /* of the futex it is blocked at, or 0 */
};

enum lock_kind {
	LOCK_FUTEX,	     /* a condition variable, a semaphore, ... */
	LOCK_PTHREAD,	     /* pthread_mutex_t, whose owner is known */
	LOCK_PI,	     /* priority inheritance: the owner is in the futex */
	LOCK_STD,	     /* waited at as std::sync::Mutex does; no owner is stored */
	LOCK_RWLOCK,	     /* std::sync::RwLock */
	LOCK_PTHREAD_RWLOCK, /* pthread_rwlock_t, whose writer is known */
	LOCK_PARKING_LOT,
	LOCK_PARK, /* a parked thread: no lock */
	LOCK_JOIN, /* waits for a thread's end: no lock */
	LOCK_KIND_CNT,
};
extern const char *const lock_kind_names[LOCK_KIND_CNT];

/* Waits at a lock in one place of the code. */
struct snapshot_lock_stack {
	struct snapshot_backtrace stack;
	uint64_t waits, total_ns; /* that ended */
	uint64_t waiters_now;	  /* else: who waits now */
};
#define LOCK_STACKS 3 /* of either kind */

struct snapshot_lock {
	enum lock_kind kind;
	uint64_t address; /* the futex; of parking_lot, the lock where it is known */
	uint64_t waiters_now, oldest_ns;
	int holder_tid;		    /* now; 0: not known, or nobody */
	struct snapshot_stats wait; /* waits that ended */
	/* the most of them; the array lies in the snapshot's arena. None: no stacks were taken */
	struct snapshot_lock_stack *stacks;
	size_t stack_cnt;
};

enum stall_kind {
	STALL_DEADLOCK,
	STALL_LOCK_WAIT,
	STALL_BLOCKED_POLL,
	STALL_DISK,
	STALL_NO_PROGRESS,
	STALL_KIND_CNT,
};
extern const char *const stall_kind_names[STALL_KIND_CNT];

struct stall_frame {
	const char *name; /* outermost first */
	uint64_t age_ns;
};

#define STALL_FRAMES 16
struct stall_thread {
	char name[SNAPSHOT_COMM_BYTES];
	int tid;
	enum thread_state state;
	uint64_t wait_ns;
	bool wait_older;  /* at least that: since before the window */
	uint64_t address; /* it waits at; 0: at none */
	enum lock_kind lock;
	int holder_tid;				 /* 0: not known */
	bool holder_proven;			 /* else a candidate */
	int syscall;				 /* -1: none, or not known */
	char wchan[32];				 /* where in the kernel; "" unknown */
	struct stall_frame frames[STALL_FRAMES]; /* traced functions it is in */
	size_t frame_cnt;
	struct snapshot_backtrace stack; /* all of it, as it was when this was found */
};

#define STALL_THREADS 16
struct snapshot_stall {
	enum stall_kind kind;
	bool proven;			     /* else suspected */
	uint64_t seen_unix_ns, over_unix_ns; /* over 0: it still hangs */
	uint64_t age_ns;		     /* how long it had hung when it was seen */
	struct stall_thread threads[STALL_THREADS];
	size_t thread_cnt, more_threads;
};

double thread__cpu_ratio(const struct snapshot_thread *t);
/* Share of its life that a thread was blocked where an idle worker of a runtime is. */
double thread__parked_ratio(const struct snapshot_thread *t);
/* Whether a futex of that kind guards something, so that who waits there needs its holder. */
bool lock__is_lock(enum lock_kind kind);

#endif
