/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which inlined functions an address lies in, by debug information. That can be hundreds of MB:
 * only units that hold one of the addresses are read, only where they do, and only until the time
 * is up.
 */
#ifndef SYMBOLS_INLINES_H
#define SYMBOLS_INLINES_H

#include <stddef.h>
#include <stdint.h>

#include "symbols/lines.h"

#define INLINES_MAX 32 /* per address; deeper ones are left out */

struct inlines_of {
	uint64_t vaddr;
	uint32_t id; /* the caller's */
	uint32_t cnt;
	char *symbols[INLINES_MAX]; /* malloc'd, the outermost first; mangled, or the plain name */
};

/* Fills in cnt and symbols; sorts the array by address. fd is the file that has the information. */
enum lines_end inlines__find(int fd, struct inlines_of *of, size_t cnt, uint64_t limit_ns);
void inlines__free(struct inlines_of *of, size_t cnt);

#endif
