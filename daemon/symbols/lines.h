/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where functions are declared, by their addresses. Debug information can be hundreds of MB: only
 * the units that hold one of the addresses are read, and only until the time is up.
 */
#ifndef SYMBOLS_LINES_H
#define SYMBOLS_LINES_H

#include <stddef.h>
#include <stdint.h>

struct line_of {
	uint64_t vaddr; /* where the function begins, as linked */
	uint32_t id;	/* the caller's */
	uint32_t line;
	char *file; /* malloc'd; NULL: not found */
};

enum lines_end {
	LINES_DONE,
	LINES_NONE, /* no debug information that can be read */
	LINES_LATE, /* the time was up first */
};

/* Fills in file and line; sorts the array by address. fd is the file that has the information. */
enum lines_end lines__find(int fd, struct line_of *lines, size_t cnt, uint64_t limit_ns);

#endif
