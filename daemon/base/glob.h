/* SPDX-License-Identifier: BSD-2-Clause */
/* The globs of the command line. */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the whole text matches: * any characters, ? one, all else is literal. */
bool glob__match(const char *glob, const char *text);
bool glob__match_any(const char *const *globs, size_t cnt, const char *text);

#endif
