/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kept stacks of one kind, read and named for a snapshot, those that read the same next to each
 * other: they are one row there. Figures that lie elsewhere are found by place.
 */
#ifndef COLLECT_KEPT_H
#define COLLECT_KEPT_H

#include "attach/stacks.h"
#include "base/vec.h"
#include "collect/namer.h"
#include "snapshot/snapshot.h"

struct kept_row {
	struct kept_stack kept;
	uint32_t place;
	size_t first, cnt; /* of refs: root first, inlined functions are frames there */
};

struct kept_rows {
	VEC(struct kept_row) rows;
	struct frame_refs refs; /* into the profiles' frames */
};

struct kept_ask {
	const struct stacks *stacks;
	enum rt_stack_kind kind;
	struct namer *namer;
	bool final;		/* look for names though it is not due */
	uint64_t *learn_due_ns; /* as of namer__look */
};

/* Into rows, which is empty; frames are added to s->profiles. 0 or -ENOMEM; free in any case. */
int kept_rows__read(struct kept_rows *rows, const struct kept_ask *ask, struct snapshot *s);
void kept_rows__free(struct kept_rows *rows);

/* How many from the i-th on read the same, 1 at least. */
size_t kept_rows__same(const struct kept_rows *rows, size_t i);
/* Adds the frames of the i-th to the snapshot's; *first is where. 0 or -ENOMEM. */
int kept_rows__emit(const struct kept_rows *rows, size_t i, struct snapshot_memory *m,
		    uint32_t *first);

#endif
