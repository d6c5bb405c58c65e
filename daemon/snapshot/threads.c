/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/threads.h"

const char *const thread_state_names[THREAD_STATE_CNT] = {
	[THREAD_RUNNING] = "running",	  [THREAD_RUNNABLE] = "runnable",
	[THREAD_PREEMPTED] = "preempted", [THREAD_FUTEX] = "futex",
	[THREAD_LOCK] = "lock",		  [THREAD_EPOLL] = "epoll",
	[THREAD_SLEEP] = "sleep",	  [THREAD_IO] = "io",
	[THREAD_SOCKET] = "socket",	  [THREAD_PIPE] = "pipe",
	[THREAD_OTHER] = "other",	  [THREAD_STOPPED] = "stopped",
	[THREAD_EXITED] = "exited",
};

const char *const thread_waker_names[WAKER_CNT] = {
	[WAKER_THREAD] = "thread",
	[WAKER_PROCESS] = "process",
	[WAKER_INTERRUPT] = "interrupt",
	[WAKER_UNKNOWN] = "unknown",
};

const char *const lock_kind_names[LOCK_KIND_CNT] = {
	[LOCK_FUTEX] = "futex",
	[LOCK_PTHREAD] = "pthread_mutex",
	[LOCK_PI] = "pi_mutex",
	[LOCK_STD] = "std_mutex",
	[LOCK_RWLOCK] = "std_rwlock",
	[LOCK_PTHREAD_RWLOCK] = "pthread_rwlock",
	[LOCK_PARKING_LOT] = "parking_lot",
	[LOCK_PARK] = "park",
	[LOCK_JOIN] = "join",
};

const char *const stall_kind_names[STALL_KIND_CNT] = {
	[STALL_DEADLOCK] = "deadlock",	       [STALL_LOCK_WAIT] = "lock_wait",
	[STALL_BLOCKED_POLL] = "blocked_poll", [STALL_DISK] = "disk",
	[STALL_NO_PROGRESS] = "no_progress",
};

double thread__cpu_ratio(const struct snapshot_thread *t)
{
	return t->observed_ns ? (double)t->cpu_ns / (double)t->observed_ns : 0;
}

double thread__parked_ratio(const struct snapshot_thread *t)
{
	uint64_t ns = t->off_ns[0] + t->off_ns[THREAD_EPOLL - THREAD_FUTEX];

	return t->observed_ns ? (double)ns / (double)t->observed_ns : 0;
}

bool lock__is_lock(enum lock_kind kind)
{
	return kind == LOCK_PTHREAD || kind == LOCK_PI || kind == LOCK_STD || kind == LOCK_RWLOCK ||
	       kind == LOCK_PTHREAD_RWLOCK || kind == LOCK_PARKING_LOT;
}
