/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for a process: by its name (comm) or by its executable. Looks through /proc; between two
 * looks the caller sleeps.
 */
#ifndef TARGET_FIND_H
#define TARGET_FIND_H

struct find_request {
	const char *comm; /* or NULL */
	const char *exe; /* a path, compared by device and inode, or by text when it does not exist;
			    or NULL */
	int not_pid;	 /* not this one: the one that has just ended */
};

/*
 * The pid of the process that fits; the youngest when several do, *cnt of them. 0: none yet.
 * -errno when /proc cannot be read.
 */
int find__process(const struct find_request *req, unsigned int *cnt);

#endif
