/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whose stack is unwound. Events unwind the current thread, where it is: nothing may sleep there,
 * and memory that is not present is not read. An object that defines UNWIND_OTHERS unwinds threads
 * that stand still, from outside, in programs that may sleep.
 *
 * The other thread is an argument then, of each function that reads. Such functions cannot be
 * global: the verifier looks at these alone, and believes no pointer to a task there. So it
 * follows them from their callers: dearer, for programs that are loaded when they are needed.
 */
#ifndef UNWIND_WHOSE_BPF_H
#define UNWIND_WHOSE_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#ifdef UNWIND_OTHERS
#define UNWIND_FN static __noinline
#define WHOSE , struct task_struct *whose
#define HIS , whose
#define WHOSE_IS(t) , t
#define read_user(to, bytes, at) bpf_copy_from_user_task(to, bytes, (void *)(at), whose, 0)
/* What such an object keeps of each step beside the frame. */
struct unwind;
static void note_step(struct unwind *u, bool last);
#define NOTE_STEP(u, last) note_step(u, last)
#else
#define UNWIND_FN __noinline
#define WHOSE
#define HIS
#define WHOSE_IS(t)
#define read_user(to, bytes, at) bpf_probe_read_user(to, bytes, (void *)(at))
#define NOTE_STEP(u, last) (void)0
#endif

#endif
