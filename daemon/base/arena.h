/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is given back all at once: the strings and small arrays that belong to one value.
 * NULL is out of memory; nothing is freed alone.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena__new(void);
void arena__free(struct arena *a);

/* Zeroed, aligned for any type. */
void *arena__alloc(struct arena *a, size_t bytes);
char *arena__strdup(struct arena *a, const char *s);

#endif
