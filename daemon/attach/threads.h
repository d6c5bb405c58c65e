/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scheduler programs on one process: load, attach (nothing is counted yet) → start → look … →
 * stop → free. Rows are memory that the programs write; reading them takes no system call. Knows
 * nothing of what the figures mean, nor of functions.
 */
#ifndef ATTACH_THREADS_H
#define ATTACH_THREADS_H

#include <stdbool.h>
#include <stddef.h>

#include "roletrace/threads.h"
#include "target/process.h"

struct threads;

/* Loads the programs: before it is known what is traced. 0, or -errno with one line in *reason
 * (malloc'd). */
int threads__new(const struct target *target, struct threads **out, char **reason);
/* Attaches them; kernel_tgid is the process' id in the outermost pid namespace. As above. */
int threads__attach(struct threads *t, const struct target *target, rt_u32 kernel_tgid,
		    char **reason);
void threads__free(struct threads *t);

void threads__start(struct threads *t, uint64_t now_ns);
/* Shuts the gate; a program may still be running until object__synchronize. */
void threads__stop(struct threads *t);

/*
 * One pass over the threads that live: each has a row then, with its name and the kernel's
 * accounts. 0 or -errno. *pass is the number that their `look` has now.
 */
int threads__look(struct threads *t, rt_u64 *pass);

/* One consistent state of a row. False: no thread in it, or it changes too fast to be read. */
bool threads__row(const struct threads *t, rt_u32 row, struct rt_thread *out);
/* The wait that row is in is one for a lock, if it is still that wait. */
void threads__set_lock(struct threads *t, rt_u32 row, rt_u64 since_ns);
rt_u32 threads__row_cnt(const struct threads *t); /* so far; the first RT_THREAD_NAMES: the dead */

rt_u32 threads__futex_cnt(const struct threads *t);
/* False: nobody waited there. */
bool threads__futex(const struct threads *t, rt_u32 slot, struct rt_futex *out);
/* Frees a futex's place (an empty row, its chunks kept). */
void threads__forget_futex(struct threads *t, rt_u32 slot);

/* Adds the buckets of these durations to places. */
void threads__hist(const struct threads *t, const struct rt_times *times,
		   rt_u64 places[RT_HIST_BUCKETS]);

rt_u64 threads__lost(const struct threads *t, enum rt_thread_lost what);
/* Events for which the kernel did not run a program. */
rt_u64 threads__missed(const struct threads *t);
/* What its programs took so far, ns, by their own clocks; in so many runs. */
uint64_t threads__spent_ns(const struct threads *t, uint64_t *runs);

#endif
