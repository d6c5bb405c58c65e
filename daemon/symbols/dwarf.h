/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What debug information says of functions, inlined ones included. Reads every entry of the file:
 * seconds on a large one, so only where somebody asks for it.
 */
#ifndef SYMBOLS_DWARF_H
#define SYMBOLS_DWARF_H

#include <stdbool.h>
#include <stdint.h>

struct dwarf_function {
	const char *symbol; /* mangled, or the plain name where there is no other */
	bool inlined;	    /* the common part of inlined copies */
	void *die;
};

/*
 * Calls each for every function described, some more than once, until it returns other than 0,
 * which is then returned. A file without (sound) debug information has none.
 */
int dwarf__functions(int fd, int (*each)(void *arg, const struct dwarf_function *fn), void *arg);

/* Where it is declared; only during the call of each. False when that is not known. */
bool dwarf__location(const struct dwarf_function *fn, const char **file, uint32_t *line);

#endif
