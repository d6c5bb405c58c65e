/* SPDX-License-Identifier: BSD-2-Clause */
/* Sections that are compressed (SHF_COMPRESSED): by libelf, with the methods it was built with. */
#ifndef SYMBOLS_INFLATE_H
#define SYMBOLS_INFLATE_H

#include <stddef.h>
#include <stdint.h>

/* The section's bytes (malloc'd); or NULL, and *why in words (static). */
void *inflate__section(int fd, uint32_t index, size_t *len, const char **why);

/*
 * Why libdw would find no debug information in a file that has some, in words (static): the method
 * of compression is not known here. NULL when that is not so.
 */
const char *inflate__unreadable(int fd);

#endif
