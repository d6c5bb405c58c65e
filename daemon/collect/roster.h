/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The threads of the target: rows of the scheduler programs turned into rows of the snapshot, and
 * the CPU of each over the last second. Knows nothing of locks or of what hangs.
 */
#ifndef COLLECT_ROSTER_H
#define COLLECT_ROSTER_H

#include "attach/threads.h"
#include "snapshot/snapshot.h"

struct roster;

/* Borrowed. NULL with errno. */
struct roster *roster__new(struct threads *threads);
void roster__free(struct roster *r);

void roster__start(struct roster *r, uint64_t now_ns);
void roster__stop(struct roster *r, uint64_t now_ns);

/* Call about each fifth of a second: every second it notes what each thread used. */
void roster__tick(struct roster *r, uint64_t now_ns);

/* Reads all threads. 0 or -errno; the look of before stays when it fails. */
int roster__look(struct roster *r);
/* As of the last look: those that live, or that the process had when it ended. */
const struct rt_thread *roster__rows(const struct roster *r, size_t *cnt);
/* Of rows that wait at a futex since before the window: the wait is one for a lock. */
void roster__set_lock(struct roster *r, size_t i);
uint64_t roster__looked_ns(const struct roster *r);
uint64_t roster__start_ns(const struct roster *r);
/* NULL: no such thread. */
const struct rt_thread *roster__by_pid(const struct roster *r, rt_u32 pid);
const struct rt_thread *roster__by_ns_tid(const struct roster *r, rt_u32 ns_tid);

/* How long a thread has been in its state; *older: at least that. */
uint64_t roster__state_ns(const struct roster *r, const struct rt_thread *t, bool *older);
enum thread_state roster__state(const struct rt_thread *t);
bool roster__is_tokio(const struct rt_thread *t);

/* Figures of the kernel's side as the snapshot has them. 0 or -ENOMEM. */
int roster__stats(const struct roster *r, const struct rt_times *times, struct snapshot_stats *out);

/* Fills s->threads from the last look. 0 or -ENOMEM. */
int roster__fill(const struct roster *r, struct snapshot *s);

#endif
