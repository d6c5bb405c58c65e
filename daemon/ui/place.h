/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where in the role's code a stack is: its leaf is a function of libc that everybody waits in, and
 * what lies above that is std and the runtime.
 */
#ifndef UI_PLACE_H
#define UI_PLACE_H

#include <stddef.h>
#include <stdint.h>

struct snapshot_profiles;
struct strbuf;

/* How many frames of refs (indices into p->frames, root first) to the innermost one that is the
 * role's own, else of what it uses; 0: there is neither. */
uint32_t place__depth(const struct snapshot_profiles *p, const uint32_t *refs, uint32_t depth);
/* The name of that frame; NULL. */
const char *place__name(const struct snapshot_profiles *p, const uint32_t *refs, uint32_t depth);
/* Appends such a name, in so many columns (19 or more), or what is said where there is none. */
void place__put(struct strbuf *out, const char *name, size_t columns);

#endif
