/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a snapshot goes: the files of -o, and the report. What is wrong is said here; functions
 * return the program's exit code.
 */
#ifndef OUTPUTS_H
#define OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "export/flame.h"
#include "ui/report.h"

struct options;
struct output;
struct snapshot;

struct outputs {
	struct output *data;
	size_t cnt, cap;
	bool on_stdout;	   /* one of them: the report makes way */
	bool write_failed; /* the last time */
};

/* Adds each -o: it must be known to work before anything else is done. */
int outputs__open(struct outputs *o, const struct options *opts);
/* Whether they will do, for as many processes as there are; whether standard output is taken. */
int outputs__check(const struct options *opts, bool *on_stdout);
/* Those of one process: without -o, ./roletrace-COMM-PID.json. */
int outputs__open_run(struct outputs *o, const struct options *opts, const char *comm, int pid);
void outputs__free(struct outputs *o);

/* Writes all, but what is no file to be replaced (a pipe, say) only when this is the last time. */
int outputs__write(struct outputs *o, const struct snapshot *s, bool last);
/*
 * The same for flame: that all formats are of stacks (and can show a difference), of which kind
 * (asked, where an output does not say), and writing. old: NULL for no difference.
 */
int outputs__check_flames(struct outputs *o, bool diff, enum flame_kind asked);
int outputs__write_flames(struct outputs *o, const struct snapshot *s, const struct snapshot *old);
/* That the snapshot, of that file, has the stacks the outputs name; any: has some for each. */
int outputs__check_kinds(const struct outputs *o, const struct snapshot *s, const char *path,
			 bool any);
/* One line for each file. */
void outputs__say_written(const struct outputs *o);

/* The report as the options want it; for standard output. */
struct report_opts outputs__report_opts(const struct options *opts);

#endif
