/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts a program and holds it behind its exec, before its first instruction, so that probes can
 * be there from the beginning. It is a child: its end is told by wait(2), its exit status passed
 * on.
 */
#ifndef TARGET_SPAWN_H
#define TARGET_SPAWN_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct spawn_opts {
	const sigset_t *mask; /* signals */
	bool no_stdout; /* it is somebody else's: what the program says there goes to stderr */
};

/*
 * Starts argv (NULL at the end, looked up in PATH). 0 or -errno; with one line in *reason
 * (malloc'd) it is the program that cannot be started.
 */
int spawn__held(char *const argv[], const struct spawn_opts *opts, pid_t *pid, char **reason);
/* Lets it run. */
int spawn__release(pid_t pid);
/* Ends one that was never released. */
void spawn__kill(pid_t pid);

#endif
