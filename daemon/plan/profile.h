/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Role profiles: what belongs to a family of programs, in a file NAME.conf. One word and one
 * value per line, # begins a comment:
 *
 *   exe GLOB        programs it applies to, by file name
 *   crate GLOB      crates to trace besides the program's own
 *   exclude GLOB    functions, by whole demangled name, that are not traced
 *
 * The value runs to the end of the line. GLOBs as in demangle.h.
 */
#ifndef PLAN_PROFILE_H
#define PLAN_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

struct profile {
	char *name;
	char **crates, **excludes;
	size_t crate_cnt, exclude_cnt;
};

/*
 * Loads the profile called name, or with NULL the first one (by file name) that applies to the
 * executable; none applying leaves *out NULL. dir NULL: PROFILE_DIR, then the profiles/ folder
 * beside the one this program runs from. -EINVAL with *reason "FILE:LINE: what is wrong", or
 * when a name given is not found.
 */
int profile__load(const char *name, const char *dir, const char *exe, struct profile **out,
		  char **reason);
void profile__free(struct profile *profile);

#endif
