/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of a process are called. Where one command line traces several processes, one
 * after the other (--follow) or at once (--pid twice), each has files of its own: the pid goes into
 * the name of -o. Only what a collector reads (prom) stays one file, of the process that runs.
 */
#ifndef NAMING_H
#define NAMING_H

#include <stdbool.h>
#include <stddef.h>

struct run_name {
	const char *comm;
	int pid;
	bool fresh; /* names no file that is there: "-2", "-3" ... are added */
};

/* Without -o: "json:./roletrace-COMM-PID.json", COMM made fit for a file's name. NULL: no memory.
 */
char *naming__default(const struct run_name *n);
/*
 * "json:a/b.json" to "json:a/b-PID.json"; path_at is where the path starts, suffix what it may end
 * in. Standard output and what is no regular file stay what they are. NULL: no memory.
 */
char *naming__of_run(const char *spec, size_t path_at, const char *suffix,
		     const struct run_name *n);

#endif
