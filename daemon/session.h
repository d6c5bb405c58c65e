/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lasts as long as roletrace itself, over the runs of --follow: the signals as a file
 * descriptor, the child that a command line started, the end of --duration.
 */
#ifndef SESSION_H
#define SESSION_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct options;

struct session {
	const struct options *opts;
	sigset_t old_mask;
	int signal_fd;
	pid_t child;	   /* started by us; 0: none */
	bool held;	   /* it has not been let run yet */
	bool stopped;	   /* a signal said so */
	bool stdout_taken; /* by an output: a child must not write there */
	uint64_t start_ns; /* the first attach; 0: not yet */
	uint64_t stop_ns;  /* 0: no limit, or not attached yet */
};

/* Blocks the signals that end us. The program's exit code. */
int session__open(struct session *s, const struct options *opts);
/* Kills a child that was never let run. */
void session__close(struct session *s);

/* The first attach: from here on --duration counts. */
void session__start(struct session *s, uint64_t now_ns);
/* Nothing more is to be traced. */
bool session__is_over(const struct session *s);

/* Reads one signal: ours to stop at, or the child's to be passed on. */
void session__take_signal(struct session *s);
int session__release_child(struct session *s); /* if it is held; 0 or -errno */
/* The child goes on without us until it ends; its exit code, 128 + N after signal N. */
int session__wait_child(struct session *s);

#endif
