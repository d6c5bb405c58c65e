/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prices: what a probe of each kind costs on this machine now, and the floor, what an empty
 * function shows as its duration. Measured with the very programs and maps that will trace, on
 * functions of our own in a child of ours, in some 40 ms.
 */
#ifndef ATTACH_CALIBRATE_H
#define ATTACH_CALIBRATE_H

#include <stdbool.h>

#include "attach/object.h"

struct hands_pile;

/* The prices alone, for who will not trace. 0 or -errno. */
int calibrate__prices(const struct attach_mode *mode, bool uretprobes, struct rt_prices *out);

/*
 * uretprobes: measure return probes too. Leaves the prices in the object, and all counters zero.
 * The links it used (on a process that is gone) are left to the closer.
 */
int calibrate__run(struct object *obj, bool uretprobes, struct hands_pile *to);

/* One of those functions: where it is in /proc/self/exe (0 or -errno), and a call of it. */
int calibrate__offset(unsigned long *out);
void calibrate__call(void);

#endif
