/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closing links. Each waits for the kernel's grace periods, tens of ms when the machine is idle and
 * seconds when it is not, whatever the link holds: so they are gathered and closed side by side.
 */
#ifndef ATTACH_CLOSER_H
#define ATTACH_CLOSER_H

#include <stddef.h>

struct bpf_link;

struct closer {
	struct bpf_link **data;
	size_t cnt, cap;
};

/* Takes the link over (NULL is fine). Out of memory it is closed at once. */
void closer__add(struct closer *c, struct bpf_link *link);
/* Takes over all of another. */
void closer__move(struct closer *to, struct closer *from);
/* Closes them all, and leaves c empty. */
void closer__run(struct closer *c);

#endif
