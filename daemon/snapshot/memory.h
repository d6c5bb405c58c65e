/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the snapshot says of memory: the process as the kernel sees it, and with --memory live or
 * stacks what its allocators handed out and took back since the attach. Sizes in bytes.
 */
#ifndef SNAPSHOT_MEMORY_H
#define SNAPSHOT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handed out and taken back. Blocks from before the attach may be among the freed. */
struct snapshot_sums {
	uint64_t alloc_bytes, alloc_count;
	uint64_t freed_bytes, freed_count;
};
static inline int64_t sums__live_bytes(const struct snapshot_sums *s)
{
	return (int64_t)(s->alloc_bytes - s->freed_bytes);
}
static inline int64_t sums__live_count(const struct snapshot_sums *s)
{
	return (int64_t)(s->alloc_count - s->freed_count);
}

struct snapshot_native;
struct snapshot_growth_stack;

/* Class 0 are blocks of 0 bytes, class n those of 2^(n-1) to 2^n - 1. */
#define SNAPSHOT_SIZE_CLASSES 48

struct snapshot_allocator {
	const char *source;	/* "rust", "glibc", ... */
	const char *object;	/* the file it is in */
	const char *basis;	/* what a byte is: "requested", "usable" */
	const char *why;	/* not traced: why; else NULL */
	uint64_t since_unix_ns; /* counted from then on; 0: as long as all */
	bool traced, totals;	/* totals: its figures are part of those of the whole */
	struct snapshot_sums sums;
	uint64_t failed;	/* calls that returned no block; not seen with rust */
	uint64_t unknown_frees; /* of blocks that were not seen to be allocated */
	uint64_t unowned_bytes, unowned_count; /* allocated when the table was full */
	bool estimated;			       /* what was freed and is live, from a sample */
	uint64_t live_error_bytes;	       /* then: half the width of the 95 % interval */
	struct snapshot_sums *classes; /* [SNAPSHOT_SIZE_CLASSES], owned; NULL: not traced */
};

enum memory_mode { MEMORY_GROWTH, MEMORY_LIVE, MEMORY_STACKS };
#define MEMORY_MODE_CNT (MEMORY_STACKS + 1)
extern const char *const memory_mode_names[MEMORY_MODE_CNT];

enum memory_verdict {
	VERDICT_NONE,	 /* too short a look, or nothing old enough */
	VERDICT_STEADY,	 /* what is allocated is freed in time */
	VERDICT_GROWING, /* blocks of every age are left over: perhaps a leak */
};
#define VERDICT_CNT (VERDICT_GROWING + 1)
extern const char *const memory_verdict_names[VERDICT_CNT]; /* NULL for VERDICT_NONE */

/* Who made the process larger. */
struct snapshot_growth {
	const char *const *frames; /* names; the array lies in the snapshot's arena */
	uint32_t depth;
	const char *thread; /* outside traced functions: in threads of this name; else NULL */
	uint64_t page_faults;
	uint64_t mapped_bytes, unmapped_bytes; /* of address space */
	int64_t data_bytes;		       /* net change of private writable mappings */
};

/* A sample of one of so many bytes; it may have been changed meanwhile. 1: each event is in it. */
struct snapshot_intervals {
	uint64_t low_bytes, high_bytes;
};

#define SNAPSHOT_HISTORY 64u

struct snapshot_memory {
	enum memory_mode mode;
	bool reliable;
	const char *why; /* not reliable, or no totals: why; else NULL */
	const char
		*source; /* whose figures the totals are: "rust", "glibc", "several"; NULL: none */
	const char *basis; /* "requested", "usable", "mixed"; NULL: none */
	uint64_t since_unix_ns;
	struct snapshot_sums sums; /* of the allocators with totals; zero without */
	uint64_t failed, unknown_frees, unowned_bytes, unowned_count;
	double leak_after_s;
	/* a block of so many bytes is in the sample with 63 %; 1: each; 0: there is no sample */
	uint64_t sample_bytes;
	bool sampled; /* only those blocks are remembered; unknown_frees is not known */
	/* of all call paths; why it is not known, or what may be missing; NULL: nothing is */
	enum memory_verdict leaks;
	const char *leaks_why;
	bool estimated;		   /* of the totals too what was freed and is live is an estimate */
	uint64_t live_error_bytes; /* then */
	struct snapshot_native *native; /* owned, most live first; needs the profiles' frames */
	size_t native_cnt;
	struct {
		uint32_t *data;
		size_t cnt, cap;
	} native_refs;
	/* of blocks whose native stack was not kept */
	struct snapshot_sums native_lost; /* freed: not used */
	uint64_t native_lost_live_bytes, native_lost_live_count;
	/* of the process; 0: not known */
	uint64_t rss_bytes, rss_start_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes;
	uint64_t data_bytes, mapped_bytes, pss_bytes;
	/* while it was traced, all of growth added up */
	uint64_t page_faults, map_grown_bytes, map_shrunk_bytes;
	int64_t data_growth_bytes;
	bool has_maps;			       /* changes of mappings were seen */
	const char *maps_why;		       /* they were not: why; else NULL */
	struct snapshot_allocator *allocators; /* owned */
	size_t allocator_cnt;
	struct snapshot_growth *growth; /* owned, most first */
	size_t growth_cnt;
	struct snapshot_growth_stack *native_growth; /* owned, most first; NULL: not kept */
	size_t native_growth_cnt;
	struct snapshot_growth_stack *native_growth_lost; /* owned: all whose stack was not kept */
	struct snapshot_intervals map_sample, fault_sample;
	/* now and then, at equal distances */
	uint64_t history_interval_ns;
	uint32_t history_cnt;
	uint64_t rss_history[SNAPSHOT_HISTORY];
	int64_t live_history[SNAPSHOT_HISTORY];
};

/* By how much something made the process larger, as far as that is known: private data, and touches
 * of new memory, each of a page at least. */
static inline int64_t snapshot__grown_bytes(int64_t data_bytes, uint64_t page_faults)
{
	return data_bytes + (int64_t)page_faults * 4096;
}

struct snapshot_memory *snapshot_memory__new(void);
void snapshot_memory__free(struct snapshot_memory *m);

#endif
