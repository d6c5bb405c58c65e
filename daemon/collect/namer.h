/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the BPF unwinder to names, and remembers them. A name is looked for once, in processes
 * without rights (plan/names.h), for all new frames of a file together.
 */
#ifndef COLLECT_NAMER_H
#define COLLECT_NAMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/plan.h"
#include "roletrace/unwind.h"
#include "snapshot/profile.h"
#include "target/code.h"
#include "target/process.h"

struct namer;

/* A function. */
struct named_fn {
	struct snapshot_frame f;
	const char *symbol; /* NULL: no name was found, f.name says where it is */
	const char *crate;
	uint32_t row;	 /* in the plan's functions, or NAMED_NO_ROW */
	uint32_t object; /* in the plan's objects, or NAMED_NO_OBJECT */
	uint64_t start;	 /* as linked; 0: not known */
};

struct named {
	uint64_t frame; /* RT_FRAME_PC */
	struct named_fn fn;
	const struct named_fn *inlined; /* what is inlined there, the outermost first */
	uint32_t inlined_cnt;
};
#define NAMED_NO_ROW UINT32_MAX
#define NAMED_NO_OBJECT UINT32_MAX

/* All borrowed. debug_file: the user's for the executable, or NULL. NULL with errno. */
struct namer *namer__new(const struct plan *plan, const struct target *target,
			 const struct code *code, const char *debug_file);
void namer__free(struct namer *n);

/* Looks for the names of those that are not known yet. frames is sorted by it. 0 or -ENOMEM. */
int namer__learn(struct namer *n, uint64_t *frames, size_t cnt);

/* As above, frames left as they are. Starts processes: not before it is due again, a
 * two-hundredth of the time after the last, unless `final`. *due_ns: of the caller, 0 at first. */
int namer__look(struct namer *n, const uint64_t *frames, size_t cnt, bool final, uint64_t *due_ns);

/* NULL: it was never learned. Holds as long as the namer. */
const struct named *namer__get(const struct namer *n, uint64_t frame);

/* Why a stack ends, as snapshots have it; NULL: at the thread's start. */
const char *namer__end(enum rt_unwind_end end);

struct frame_refs {
	uint32_t *data;
	size_t cnt, cap;
};
/* What frames of a snapshot are of, by their refs; NULL: no function. */
struct frame_fns {
	const struct named_fn **data;
	size_t cnt, cap;
};
/* Adds a frame, and the functions that are inlined in it, to out's frames, to refs and, when not
 * NULL, to fns, which then must see all that is added to out. What has no name yet says so. 0 or
 * -ENOMEM. */
int namer__add(const struct namer *n, uint64_t frame, struct snapshot_profiles *out,
	       struct frame_refs *refs, struct frame_fns *fns);

#endif
