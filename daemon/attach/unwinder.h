/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of the BPF unwinder (bpf/unwind.bpf.h): made of the files that the target maps, put
 * into the maps of a loaded object, kept in step with what the target maps later. Life: new →
 * size (before the object is loaded) → fill (after) → look … → free.
 *
 * Room for libraries that come later is set aside at load; one that does not fit has no rows:
 * stacks through it fall back on frame pointers, and say so when that fails.
 */
#ifndef ATTACH_UNWINDER_H
#define ATTACH_UNWINDER_H

#include <stdint.h>

#include "target/code.h"

struct bpf_map;
struct target;
struct unwinder;

struct unwinder_maps {
	struct bpf_map *maps, *dir, *objects, *pages, *rows, *rules;
};

/* 0 or -errno with one line in *reason (malloc'd). target is borrowed. */
int unwinder__new(const struct target *target, struct unwinder **out, char **reason);
int unwinder__size(struct unwinder *u, const struct unwinder_maps *maps);
int unwinder__fill(struct unwinder *u);
/* Looks at the mappings again when it is time to, at once when `unknown` grew since last. */
void unwinder__look(struct unwinder *u, uint64_t now_ns, uint64_t unknown);
/* Readable when the target maps something: look then. -1: none. */
int unwinder__fd(const struct unwinder *u);
void unwinder__free(struct unwinder *u);

/* Object n of a frame is file n of it. */
const struct code *unwinder__code(const struct unwinder *u);

#endif
