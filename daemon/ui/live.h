/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is shown while tracing: on a terminal a summary of the last interval, redrawn in place; or
 * a progress line. No terminal mode is ever changed (no hidden cursor, no raw mode, no alternate
 * screen), so there is nothing to restore: Ctrl-C or SIGKILL at any moment leaves a sane terminal.
 */
#ifndef UI_LIVE_H
#define UI_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct live;
struct report_opts;
struct snapshot;

/* Colour, order and number of rows as in the report; a screen's rows are the limit. NULL: no
 * memory. */
struct live *live__new(const struct report_opts *opts);
void live__free(struct live *l);

/*
 * Draws the functions of the interval prev..now (NULL prev: all up to now). Does
 * nothing when tty is no terminal, or takes no output just now (Ctrl-S must not stop the daemon).
 */
void live__draw(struct live *l, const struct snapshot *now, const struct snapshot *prev, FILE *tty);

/*
 * How far a run of total_ns is: one line, rewritten on a terminal; elsewhere a plain line each time
 * another quarter is done. cpu_ratio is the overhead so far.
 */
void live__progress(struct live *l, FILE *out, uint64_t elapsed_ns, uint64_t total_ns,
		    uint64_t calls, double cpu_ratio);

/* Takes away what was drawn, so that a report or a message can take its place. */
void live__clear(struct live *l, FILE *tty);
/* The last summary once more, when it was taken away. */
void live__draw_again(struct live *l, FILE *tty);

#endif
