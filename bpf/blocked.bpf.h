/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The waits that go on. Owned by profile.bpf.c; standing.bpf.c is loaded with the same map and adds
 * those that had begun before anybody looked.
 */
#ifndef BLOCKED_BPF_H
#define BLOCKED_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/unwind.h"

/* key: thread. value: its wait. Written by switches (and, for waits from before, once at the
 * start), read by blocked_now. Bound: one per thread of the target, freed with it. No memory:
 * no_storage. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rt_blocked);
} blocked SEC(".maps");

#endif
