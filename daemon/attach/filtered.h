/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Return probes and seccomp: since Linux 6.11 the trampoline that a return probe puts in the
 * caller's place makes a system call, uretprobe(2), and until 6.14 ("seccomp: passthrough uretprobe
 * systemcall without filtering", in stable kernels too) a filter that does not know it kills. The
 * version tells nothing certain, so a child of ours is put under such a filter, with a return
 * probe, and either lives or not.
 */
#ifndef ATTACH_FILTERED_H
#define ATTACH_FILTERED_H

#include <stdbool.h>

#include "attach/hands.h"
#include "attach/object.h"
#include "target/process.h"

/*
 * 0: return probes do not harm this target. -EPERM with *reason: one of its threads is under a
 * filter, and here that kills. assume_kills: as if the child had died (for tests).
 */
int filtered__check(const struct object *obj, const struct target *t, bool assume_kills,
		    struct hands_pile *to, char **reason);

#endif
