/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starts a program and holds it behind its exec, before its first instruction, so that probes can
 * be there from the beginning. It is a child: its end is told by wait(2), its exit status passed
 * on.
 */
#ifndef TARGET_SPAWN_H
#define TARGET_SPAWN_H

#include <signal.h>
#include <sys/types.h>

/*
 * Starts argv (NULL at the end, looked up in PATH) with the given signal mask. 0, or -errno with
 * one line in *reason (malloc'd): the program cannot be started.
 */
int spawn__held(char *const argv[], const sigset_t *mask, pid_t *pid, char **reason);
/* Lets it run. */
int spawn__release(pid_t pid);
/* Ends one that was never released. */
void spawn__kill(pid_t pid);

#endif
