/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process is traced: first, and with --follow, next. */
#ifndef CHOOSE_H
#define CHOOSE_H

struct session;

/* How the run before went. */
enum run_end {
	RUN_NONE,   /* there was none */
	RUN_LEFT,   /* we left: a signal, or the time is up */
	RUN_EXITED, /* the process ended */
	RUN_EXECED, /* it runs another program now */
	RUN_FAILED, /* it could not be traced */
};

struct last_run {
	int pid;
	enum run_end end;
};

/*
 * Starts it, takes the one that was named, or waits for it. The program's exit code; CODE_OK with
 * *pid 0 when no further one comes.
 */
int choose__process(struct session *s, const struct last_run *last, int *pid);

#endif
