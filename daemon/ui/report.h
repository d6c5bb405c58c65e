/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The final report: a snapshot as text for people. Says what was traced and what that cost, the
 * functions by total time or another figure, and all that was not measured, lost or doubtful.
 */
#ifndef UI_REPORT_H
#define UI_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "snapshot/snapshot.h"

struct report_opts {
	unsigned int width; /* columns; 0: those of the terminal behind out, else 80 */
	size_t limit;	    /* rows per table; 0: all functions that were called */
	enum snapshot_sort sort;
	size_t left_out; /* functions that a filter took out of the snapshot */
	bool chosen;	 /* those left were asked for, whosever they are */
	bool hint_said;	 /* the snapshot's hint was told before */
	bool colour;
};

/* 0 or -errno of writing. */
int report__print(const struct snapshot *s, const struct report_opts *opts, FILE *out);

#endif
