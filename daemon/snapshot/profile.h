/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Weighted stacks of a snapshot: sampled ones (profiles: CPU, off CPU), the exact call tree of the
 * traced functions (paths), and who allocated (alloc stacks). Frames go from the root (the thread's
 * start) to the leaf. A stack that could not be followed to its root says why and never looks like
 * a whole one; what could not be kept at all is in lost.
 *
 * A profile is built with the functions below, which copy what they are given:
 *
 *   p = profiles__new();
 *   p->of[PROFILE_CPU] = profile__new();
 *   at[i] = profiles__frame(p, &frame);  ...  profiles__stack(p, PROFILE_CPU, at, depth, &figures);
 *   s->profiles = p;
 */
#ifndef SNAPSHOT_PROFILE_H
#define SNAPSHOT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "snapshot/memory.h"

struct arena;
struct snapshot_lost;

/* Whose code a frame is: of the role, of a crate it depends on, std/core/alloc, a C library. */
enum frame_kind { FRAME_UNKNOWN, FRAME_OWN, FRAME_DEP, FRAME_STD, FRAME_LIB, FRAME_KERNEL };
#define FRAME_KIND_CNT (FRAME_KERNEL + 1)
extern const char *const frame_kind_names[FRAME_KIND_CNT];

struct snapshot_frame {
	const char *name;   /* demangled, without hash, as in functions; never NULL */
	const char *module; /* file name of its object, "[kernel]"; NULL: not known */
	enum frame_kind kind;
	bool inlined;	  /* into the frame before it */
	const char *file; /* where the function is defined; NULL: not known */
	uint32_t line;	  /* of the definition; 0: not known */
};

/* One stack with its frames in place, of one thread at one moment. */
struct snapshot_backtrace {
	const struct snapshot_frame *frames; /* roots first; NULL: none was taken */
	uint32_t depth;
	/* why it ends before its root, "running" why there is none; NULL: it is whole */
	const char *truncated;
};

struct snapshot_stack {
	uint32_t first, depth; /* frames are profile->refs.data[first .. first + depth) */
	uint64_t value;	       /* in the profile's unit */
	uint64_t count;	       /* off CPU: waits; else unused */
	uint64_t older; /* of count: had begun before the window, and are counted from there */
	const char *truncated; /* why it ends before its root; NULL: it is whole */
	const char *thread;    /* name of the thread; NULL: all threads */
};

enum thread_waker { WAKER_THREAD, WAKER_PROCESS, WAKER_INTERRUPT, WAKER_UNKNOWN, WAKER_CNT };
extern const char *const thread_waker_names[WAKER_CNT];

/* Waits that ended, by who waited and who ended them. */
struct snapshot_wake {
	uint32_t first, depth; /* the waiter's frames: in the profile's refs */
	uint32_t waker_first,
		waker_depth; /* the waker's; depth 0: it is no thread of the process */
	enum thread_waker by;
	const char *name;      /* of another process' thread; else NULL */
	uint64_t value, count; /* ns, waits */
	const char *truncated, *waker_truncated;
};

enum profile_kind { PROFILE_CPU, PROFILE_OFF_CPU };
#define PROFILE_CNT (PROFILE_OFF_CPU + 1)
extern const char *const profile_kind_names[PROFILE_CNT]; /* members of the document */
extern const char *const profile_units[PROFILE_CNT];	  /* "samples", "ns" */

struct snapshot_counts {
	struct snapshot_lost *data; /* names lie in the profiles' arena */
	size_t cnt, cap;
};

struct snapshot_profile {
	uint64_t hz;	    /* CPU: samples per second of running, per thread */
	uint64_t min_ns;    /* off CPU: shorter waits were not looked at */
	uint64_t count;	    /* samples or waits, those without a stack included */
	uint64_t older;	    /* off CPU: of count, had begun before the window */
	VEC(uint32_t) refs; /* indices into frames */
	VEC(struct snapshot_stack) stacks;
	struct snapshot_counts truncated; /* samples or waits by reason */
	struct snapshot_counts lost;
	/* CPU: of the functions that were seen, those without a row of their own, and the samples
	 * in which they are innermost; samples with frames that have no name yet */
	uint64_t unlisted_fns, unlisted_self, unnamed;
	bool has_wakes;			 /* off CPU: who ended the waits was asked for */
	VEC(struct snapshot_wake) wakes; /* most time first */
	uint64_t wakes_lost;		 /* waits that found no place there; they are in stacks */
};

struct snapshot_profiles {
	VEC(struct snapshot_frame) frames; /* no two the same */
	VEC(uint32_t) table; /* of profiles__frame: hash -> index + 1; cnt is unused */
	struct snapshot_profile *of[PROFILE_CNT]; /* NULL: not asked for */
	struct arena *arena;			  /* the strings */
};

/* A node of the exact call tree: what was called by exactly this chain of traced functions. */
struct snapshot_path {
	const char *const *frames; /* names in functions; the array lies in the snapshot's arena */
	uint32_t depth;
	uint64_t calls,
		sum_ns;	  /* sum_ns: of the returned calls of the last frame, callees included */
	uint64_t self_ns; /* of that, what was spent in no deeper path */
};

/* Who allocated: memory.stacks of the document. Figures since the attach. */
struct snapshot_alloc_stack {
	const char *const *frames; /* the array lies in the snapshot's arena */
	uint32_t depth;
	uint32_t path; /* of the trace: the call path's id */
	uint64_t live_bytes, live_count, alloc_bytes, alloc_count;
	/* only a sample of the blocks was remembered: what is live and old is an estimate;
	 * error: half the width of the 95 % interval */
	bool estimated;
	uint64_t live_error_bytes;
	uint64_t oldest_ns; /* age of the oldest live block; 0: not known */
	/* of the live ones: those that have lived longer than memory.leak_after_s */
	uint64_t old_bytes, old_count;
	/* how fast the live bytes grow, by a straight line through them; half the width of its 95 %
	 * interval; and how fast the old ones do, likewise */
	double slope, slope_error, old_slope, old_slope_error;
	enum memory_verdict verdict;
};

/* The native stack of blocks of the sample: memory.native of the document. All is estimated, unless
 * memory->sample_bytes is 1. Errors: half the width of the 95 % interval. */
struct snapshot_native {
	uint32_t first, depth; /* memory->native_refs.data[first ...]: frames of the profiles */
	const char *truncated; /* as of snapshot_stack; lies in the profiles' arena */
	uint32_t stack;	       /* index into alloc_stacks: the traced calls; SNAPSHOT_NO_STACK */
	uint64_t live_bytes, live_count, live_error_bytes;
	uint64_t alloc_bytes, alloc_count, alloc_error_bytes;
	uint64_t samples;   /* live blocks that this is from */
	uint64_t oldest_ns; /* age of the oldest of them; 0: none */
	uint64_t old_bytes, old_count, old_error_bytes;
	double old_slope, old_slope_error;
	enum memory_verdict verdict;
};
#define SNAPSHOT_NO_STACK UINT32_MAX

/* Who made the process larger, by native stack: memory.native_growth of the document. What the
 * events of the sample stand for; errors: half the width of the 95 % interval, 0 of what is exact.
 */
struct snapshot_growth_stack {
	uint32_t first, depth; /* memory->native_refs.data[first ...]: frames of the profiles */
	const char *truncated;
	uint64_t page_faults, page_faults_error;
	uint64_t changes; /* of the memory map */
	uint64_t mapped_bytes, mapped_error_bytes;
	uint64_t unmapped_bytes, unmapped_error_bytes;
	int64_t data_bytes; /* net change of private writable mappings */
	uint64_t data_error_bytes;
	uint64_t samples; /* events that this is from */
};

/* Empty; NULL: no memory. free takes NULL. */
struct snapshot_profiles *profiles__new(void);
void profiles__free(struct snapshot_profiles *p);
struct snapshot_profile *profile__new(void);

/* The index of this frame, added when there is none like it. UINT32_MAX: no memory. */
uint32_t profiles__frame(struct snapshot_profiles *p, const struct snapshot_frame *frame);

/*
 * Adds a stack: value, count, truncated and thread of figures count. It is not looked for among
 * those that are there: whoever merges equal stacks does so before. A truncated one is tallied in
 * profile->truncated. frames must be indices that profiles__frame gave; of[kind] must be there.
 * 0 or -ENOMEM.
 */
int profiles__stack(struct snapshot_profiles *p, enum profile_kind kind, const uint32_t *frames,
		    uint32_t depth, const struct snapshot_stack *figures);

/* How long what was hit by so many samples ran: right in 95 of 100 cases within low and high. */
struct profile_time {
	uint64_t ns, low_ns, high_ns;
};
struct profile_time profile__time(const struct snapshot_profile *cpu, uint64_t samples);
/* The same for who ended waits: first and depth of figures do not count. 0 or -ENOMEM. */
int profiles__wake(struct snapshot_profiles *p, const uint32_t *frames, uint32_t depth,
		   const uint32_t *waker, uint32_t waker_depth,
		   const struct snapshot_wake *figures);

/* Adds n to what is counted under name, zeros too. 0 or -ENOMEM. */
int profiles__count(struct snapshot_profiles *p, struct snapshot_counts *counts, const char *name,
		    uint64_t n);

#endif
