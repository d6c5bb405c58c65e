/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of a process are called. */
#ifndef NAMING_H
#define NAMING_H

/* Without -o: "json:./roletrace-COMM-PID.json", COMM made fit for a file's name. NULL: no memory.
 */
char *naming__default(const char *comm, int pid);

#endif
