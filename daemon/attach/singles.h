/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes for kernels without uprobe_multi links: one perf event and one link for each site.
 *
 * Attaching one is quick. Closing one makes the kernel wait, under a lock that all tracing shares,
 * until no CPU is in it: 40 to 150 ms, one after the other, so
 * there are few of them. They belong to a keeper: a process of its own that attaches them, holds
 * them, and closes them when the socket to it is closed, by us or by our death.
 */
#ifndef ATTACH_SINGLES_H
#define ATTACH_SINGLES_H

#include <stdbool.h>

/* More would take longer to close than roletrace may take to leave (5 s). */
#define SINGLES_MAX 32u

struct hands_request;

/* Whether this kernel has them; 0 or -errno. */
int singles__known(void);

/* As hands__attach; the descriptor is the socket to the keeper. */
int singles__attach(const struct hands_request *req);

/* Lets the keeper begin, whoever else has a copy of the socket. False: it is no such descriptor. */
bool singles__begin_closing(int fd);
/* Closes what singles__attach gave, back when the breakpoints are gone; or any other descriptor. */
void singles__close(int fd);

#endif
