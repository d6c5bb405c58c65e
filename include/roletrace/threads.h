/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the scheduler programs and the daemon share: the state of each thread, the time it spent in
 * each state, its waits at futexes. Fixed width, sizes asserted; times are ns of CLOCK_MONOTONIC.
 */
#ifndef ROLETRACE_THREADS_H
#define ROLETRACE_THREADS_H

#include "roletrace/abi.h"
#include "roletrace/hist.h"

/* What a thread does; each moment of its life is booked under exactly one. */
enum rt_state {
	RT_STATE_NONE, /* no thread in this row */
	RT_STATE_RUNNING,
	RT_STATE_RUNNABLE,  /* woken, waits for a CPU */
	RT_STATE_PREEMPTED, /* could go on, waits for a CPU */
	/* blocked, by what it waits in */
	RT_STATE_FUTEX, /* anything but a lock: parked, a condition variable, a join */
	RT_STATE_LOCK,	/* a futex that is waited at as mutexes are: see lock_site.bpf.h */
	RT_STATE_EPOLL, /* epoll, poll, select, io_uring: for events */
	RT_STATE_SLEEP,
	RT_STATE_IO, /* disk */
	RT_STATE_SOCKET,
	RT_STATE_PIPE,
	RT_STATE_OTHER,
	RT_STATE_STOPPED, /* by a signal or a debugger */
	RT_STATE_EXITED,
	RT_STATE_CNT,
};
#define RT_STATE_SLOTS 16u /* RT_STATE_CNT rounded up to a power of two */

/* The lock that is waited for in RT_STATE_LOCK, as far as its code or its memory tells. */
enum rt_lock {
	RT_LOCK_NONE,
	RT_LOCK_MUTEX, /* glibc's or std's, or one that inherits priority */
	RT_LOCK_PARKING_LOT,
	RT_LOCK_STD_RWLOCK,
	RT_LOCK_PTHREAD_RWLOCK,
};

/* Who ended a wait. */
enum rt_woken {
	RT_WOKEN_BY_THREAD,    /* of the same process */
	RT_WOKEN_BY_PROCESS,   /* another one, or the kernel's own threads */
	RT_WOKEN_BY_INTERRUPT, /* a timer or a device */
	RT_WOKEN_UNKNOWN,
	RT_WOKEN_CNT,
};

/* Durations: figures and the numbers of their bucket chunks (0: none yet), kept by the row. */
struct rt_times {
	rt_u64 cnt;
	rt_u64 sum_ns;
	rt_u64 min_inv_ns; /* ~minimum */
	rt_u64 max_ns;
	rt_u64 zero_cnt;
	rt_u64 hist_lost; /* found no chunk */
	rt_u32 chunk[RT_HIST_CHUNKS];
};

#define RT_WAKERS 4u
struct rt_waker {
	rt_u32 pid; /* of the kernel's outermost namespace, as all pids here */
	rt_u32 pad;
	rt_u64 cnt;
};

#define RT_COMM_BYTES 16u

/*
 * One thread. Its events come one after the other, from whatever CPU; seq is odd while one is
 * being booked, so a reader that saw the same even number before and after read one state of it.
 */
struct rt_thread {
	rt_u64 seq;
	rt_u64 since_ns; /* in this state */
	rt_u64 born_ns;	 /* what is before is not in ns[]: its birth, or the gate's opening */
	rt_u64 ns[RT_STATE_SLOTS];
	/* of ns[RT_STATE_RUNNING], what the kernel does not account to it: taken by the hypervisor,
	 * or by interrupts. Signed: the two clocks are read a little apart */
	rt_u64 stolen_ns;
	rt_u64 exec_ns; /* the kernel's account when it last left its CPU */
	rt_u64 voluntary;
	rt_u64 involuntary;
	rt_u64 migrations;		   /* went on on another CPU */
	rt_u64 woken[4];		   /* by enum rt_woken */
	struct rt_waker wakers[RT_WAKERS]; /* the first threads of the process that woke it */
	/* the wait of RT_STATE_FUTEX and RT_STATE_LOCK; of the last one otherwise */
	rt_u64 wait_addr;
	rt_u64 lock_addr; /* of the lock, where that is not the futex; else 0 */
	rt_u64 wait_ip;	  /* behind the system call */
	rt_u64 wait_sp;
	rt_u32 wait_op;
	rt_u32 wait_val;
	rt_u32 lock; /* enum rt_lock */
	rt_u32 pad;
	rt_u32 pid;
	rt_u32 state; /* enum rt_state */
	rt_u32 cpu;
	rt_u32 syscall; /* it is blocked in, + 1; 0: none */
	rt_u32 tid;	/* as the daemon's namespace has it */
	rt_u32 ns_tid;	/* as its own has it */
	rt_u64 look;	/* number of the iterator's pass that saw it */
	/* the kernel's own accounts, mostly of ticks; and where they stood at born_ns */
	rt_u64 user_ns;
	rt_u64 system_ns;
	rt_u64 base_user_ns;
	rt_u64 base_system_ns;
	char comm[RT_COMM_BYTES];
	rt_u64 exited;	       /* of a row of the dead: how many threads are added up in it */
	struct rt_times queue; /* waits for a CPU */
};

/* All waits at one futex, or for one lock that has others. Open addressing by address; 0 is free.
 */
struct rt_futex {
	rt_u64 addr;
	rt_u64 last_end_ns; /* when a wait ended last */
	rt_u64 ip;
	rt_u32 op;
	rt_u32 val;
	rt_u32 lock; /* enum rt_lock */
	rt_u32 pad;
	struct rt_times wait;
};
#define RT_FUTEX_PROBES 8u

/* The first rows are of threads that are gone, added up by name; row 0 of those whose name found no
 * other. */
#define RT_THREAD_EXITED 0u
#define RT_THREAD_NAMES 64u

enum rt_thread_lost {
	RT_THREAD_LOST_ROWS,	/* more threads at once than rows */
	RT_THREAD_LOST_FUTEXES, /* waits at futexes beyond the table */
	RT_THREAD_LOST_CHUNKS,	/* waits that found no bucket */
	RT_THREAD_LOST_CNT,
};
#define RT_THREAD_LOST_NAMES                                                                       \
	{                                                                                          \
		"threads_full", "futexes_full", "waits_histogram_full"                             \
	}

RT_ASSERT_SIZE(struct rt_times, 304);
RT_ASSERT_SIZE(struct rt_thread, 728);
RT_ASSERT_SIZE(struct rt_futex, 40 + 304);

#endif
