/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a native stack proves about calls. Knows addresses, no names and no functions.
 *
 * A call is alive exactly when the return address it was entered with is that of a frame of some
 * stack. A walk finds the frames of the stack that the thread is on, and of those that it left for
 * signal handlers. So it proves for some addresses that no living call returns through them:
 *   - on the thread's own stack, and on that of its signal handlers while it is there, whatever
 *     lies below the stack pointer;
 *   - between the stack pointers before and after a step, unless the step may lead from one stack
 *     to another or was guessed;
 *   - on the stack for signal handlers, all of it, when the walk is whole and never was there.
 * It proves nothing about other stacks: the calls of a suspended coroutine are alive without being
 * on any stack that can be found.
 */
#ifndef COLLECT_ONSTACK_H
#define COLLECT_ONSTACK_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/standing.h"

/* Addresses [lo, hi). */
struct area {
	uint64_t lo, hi;
};

#define ONSTACK_NONE UINT32_MAX

/* The frame of t that returns through slot; ONSTACK_NONE: none that was found. */
uint32_t onstack__find(const struct standing_thread *t, uint64_t slot);

/* Whether a living call that returns through slot would have been found. home: t's own stack. */
bool onstack__covers(const struct standing_thread *t, const struct area *home, uint64_t slot);

#endif
