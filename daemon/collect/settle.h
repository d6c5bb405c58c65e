/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls in flight, read from the threads' shadow stacks: counted, not computed.
 *
 * A frame may be dead and not swept yet (a stack that was left for good). It is proven dead when
 * the thread's stack pointer is above it, or its return slot no longer holds its return address
 * (where that was kept) or any address of code. A running thread changes while we look, so the
 * proof counts only for a frame that was found dead in one pass and is still there in a later one:
 * a call that merely returned is gone by then. What that leaves in doubt, a witness may decide
 * between two passes (witness.h).
 */
#ifndef COLLECT_SETTLE_H
#define COLLECT_SETTLE_H

#include "attach/object.h"
#include "plan/plan.h"
#include "target/process.h"

struct settler;

struct settler *settler__new(const struct object *obj, const struct plan *plan,
			     const struct target *target);
void settler__free(struct settler *s);

/* One pass. 0 or -errno; the counts of the pass before stay when it fails. */
int settler__pass(struct settler *s);
/* Of the last pass. */
rt_u64 settler__in_flight(const struct settler *s, rt_u32 fn); /* the dead left out */
/*
 * Of those: perhaps dead, for all that is known. Their return address follows a call of some other
 * function, so the slot was used anew, or they were reached by a tail jump; or calls may be left
 * unseen, and no stack tells of this one.
 */
rt_u64 settler__stale(const struct settler *s, rt_u32 fn);
/* Begun before its exits went unseen: how they end nobody will know. Not in flight. */
rt_u64 settler__given_up(const struct settler *s, rt_u32 fn);
rt_u64 settler__dead(const struct settler *s, rt_u32 fn); /* ended without an exit */

enum call_verdict {
	CALL_UNDECIDED,
	CALL_ALIVE, /* when it was looked at */
	CALL_DEAD,  /* for good: it ended without an exit */
};

/* A call that is open, as of the last pass; a thread's frames follow each other, outermost first.
 */
struct settled_frame {
	rt_u32 tid; /* of the outermost pid namespace */
	rt_u32 fn;
	rt_u64 start_ns;
	rt_u64 sp;		 /* where its return address is */
	rt_u64 home_lo, home_hi; /* the thread's own stack */
	bool doubtful;		 /* perhaps it has ended unseen, or certainly */
	bool looks_dead, looks_stale;
	/* the witness's, between two passes; what it says stays with the call */
	enum call_verdict verdict;
	bool untold; /* it was asked at last and could not tell */
	rt_u64 seen; /* the native frame found at its place (RT_FRAME_PC) */
};
struct settled_frame *settler__frames(struct settler *s, size_t *cnt);

/* From now on calls that the pass before had not found are in doubt: no witness has seen them. */
void settler__doubt_unseen(struct settler *s);

/* How many frames look stale and are not proven dead. */
size_t settler__doubts(const struct settler *s);

#endif
