/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a uprobe_multi link with a pid counts in all threads of that process. From Linux 6.6
 * until 46ba0e49b642 (6.10, and in later stable releases) it did so in the one thread only. Tried
 * out: the second thread of a child of ours runs over a probe.
 */
#ifndef ATTACH_PIDFILTER_H
#define ATTACH_PIDFILTER_H

#include <stdbool.h>

/*
 * 1 by process, 0 by thread, or -errno. Takes as long as closing a link (some 50 ms). fail: for
 * tests, the probe is set on another process, so that the thread is not counted.
 */
int pidfilter__is_by_process(bool fail);

#endif
