/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creates and closes probe links in child processes.
 *
 * The kernel writes breakpoints into the target, and takes them out again, in the context of the
 * task that creates or closes the link; and when a SIGKILL is pending for that task it fails half
 * way ("failed to unregister, leaking uprobe"): breakpoints stay in the target for good. So nobody
 * who may be killed does it. A child in a session of its own does, while this process only waits;
 * it finishes what it began whatever becomes of us.
 *
 * Closing takes tens of ms a link when the machine is idle and seconds when it is not, whatever the
 * link holds: the child closes them side by side.
 */
#ifndef ATTACH_HANDS_H
#define ATTACH_HANDS_H

#include <stdbool.h>
#include <stddef.h>

/* Links to close, as file descriptors. */
struct hands_pile {
	int *data;
	size_t cnt, cap;
};

struct hands_request {
	int prog_fd;
	const char *path;
	int pid; /* 0: any */
	const unsigned long *offsets;
	const unsigned long long *cookies;
	size_t cnt;
	bool retprobe;
	bool single;   /* no uprobe_multi: as singles.h has it */
	bool *refused; /* [cnt], single ones only: sites of functions the kernel said no to. NULL:
			* a refusal fails the whole, as it does with one link for all */
};

/* The new link's file descriptor, or -errno. */
int hands__attach(const struct hands_request *req);

/* Where in /proc/self/exe an address of ours is: for probes on ourselves. */
int hands__own_offset(const void *addr, unsigned long *out);

/* Takes the link over (a negative one is ignored). Out of memory it is closed at once. */
void hands__put(struct hands_pile *pile, int link_fd);
/* Takes over all of another. */
void hands__move(struct hands_pile *to, struct hands_pile *from);
/* Single probes only: has them closed while we go on; hands__close then waits for the end of it. */
void hands__begin_closing(const struct hands_pile *pile);
/* Closes them all and leaves the pile empty; back when the breakpoints are gone. */
void hands__close(struct hands_pile *pile);

#endif
