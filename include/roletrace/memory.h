/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the memory programs and the daemon both see. Like abi.h: fixed width, sizes asserted.
 */
#ifndef ROLETRACE_MEMORY_H
#define ROLETRACE_MEMORY_H

#include "abi.h"

/* What an allocator's function does, by where its arguments and its result are. */
enum rt_mem_op {
	RT_MEM_ALLOC,	     /* (bytes, ...) -> block: malloc, valloc, mallocx, mi_malloc_aligned */
	RT_MEM_CALLOC,	     /* (n, bytes, ...) -> block */
	RT_MEM_ALIGNED,	     /* (alignment, bytes) -> block: aligned_alloc, memalign */
	RT_MEM_POSIX,	     /* (&block, alignment, bytes) -> 0 or an error: posix_memalign */
	RT_MEM_REALLOC,	     /* (block, bytes, ...) -> block: realloc, rallocx */
	RT_MEM_XALLOC,	     /* (block, bytes, ...) -> bytes it has now: xallocx */
	RT_MEM_FREE,	     /* (block, ...): free, sdallocx, mi_free_size */
	RT_MEM_RUST_ALLOC,   /* (bytes, alignment): also __rust_alloc_zeroed; no exit is seen */
	RT_MEM_RUST_DEALLOC, /* (block, bytes, alignment) */
	RT_MEM_RUST_REALLOC, /* (block, old bytes, alignment, bytes) */
	RT_MEM_SKIP, /* a call of free by the allocator itself: of a block that is free already */
	RT_MEM_OPS,
};

#define RT_MEM_MAX_FAMILIES 8u
/* Size class of n bytes: 0 for 0, else 1 + the position of the top bit. */
#define RT_MEM_CLASSES 48u

/* Losses of the memory programs, by name: the order of RT_MEM_LOST_NAMES. */
enum rt_mem_lost {
	RT_MEM_LOST_NO_STORAGE, /* no memory for a thread's state: its call is not counted */
	RT_MEM_LOST_ORPHANS,	/* an end without its beginning: in flight when the gate opened */
	RT_MEM_LOST_UNREAD,	/* the size of a block could not be read: counted as 0 bytes */
	RT_MEM_LOST_NO_MEMORY,	/* the kernel had no memory for a block's entry: it is unowned */
	RT_MEM_LOST_STACKS,	/* native stacks of sampled blocks that were not kept */
	RT_MEM_LOST_CNT,
};

#define RT_MEM_LOST_NAMES                                                                          \
	{                                                                                          \
		"memory_no_storage", "memory_orphan_exits", "memory_unread_sizes",                 \
			"memory_no_entry", "memory_stacks_not_kept"                                \
	}

/* How the bytes of a block are known. */
#define RT_MEM_CHUNK 1u /* glibc: the word before it has the size of its chunk */
/* There is no entry program: the function calls no other of its family. */
#define RT_MEM_ALONE 2u

/* The cookie of an allocator's site: operation, family, flags. */
#define RT_MEM_COOKIE(op, family, flags)                                                           \
	((rt_u64)(op) | (rt_u64)(family) << 8 | (rt_u64)(flags) << 16)
#define RT_MEM_COOKIE_OP(c) ((rt_u32)((c)&0xffu))
#define RT_MEM_COOKIE_FAMILY(c) ((rt_u32)(((c) >> 8) & 0xffu))
#define RT_MEM_COOKIE_FLAGS(c) ((rt_u32)(((c) >> 16) & 0xffu))

/* Blocks of one size class of one family, one shard; or of one owner. All only grow. */
struct rt_mem_sums {
	rt_u64 alloc_cnt, alloc_bytes;
	rt_u64 freed_cnt, freed_bytes;
};

/* What else happened in a family, one shard. */
struct rt_mem_events {
	rt_u64 entries, returns; /* traps, for the price */
	rt_u64 failed;
	rt_u64 unknown_frees;		   /* of blocks that the table does not have */
	rt_u64 unknown_bytes;		   /* where chunks tell */
	rt_u64 unowned_cnt, unowned_bytes; /* allocated when the table was full */
};

/* A call of the allocator that has begun. Only the outermost one of a thread counts. */
struct rt_mem_call {
	rt_u64 sp; /* at its entry; 0: none */
	rt_u64 bytes;
	rt_u64 block; /* realloc's old one; of posix_memalign where the new one will be stored */
	rt_u64 old_bytes;
	rt_u64 old_born_ns;
	rt_u32 op;
	rt_u32 old_owner;
	rt_u32 had_block; /* old_* hold what the table had of the old block */
	rt_u32 skip;	  /* the next free is none */
	rt_u32 old_stack;
	rt_u32 pad;
};

/* A live block by its address. */
struct rt_mem_block {
	rt_u64 bytes;
	rt_u64 born_ns;
	rt_u32 owner; /* call path */
	rt_u32 family;
	rt_u32 stack; /* place + 1 of its native stack; 0: it was not sampled */
	rt_u32 pad;
};
#define RT_MEM_STACK_LOST (~0u) /* sampled, and its stack was not kept */

RT_ASSERT_SIZE(struct rt_mem_sums, 32);
RT_ASSERT_SIZE(struct rt_mem_events, 56);
RT_ASSERT_SIZE(struct rt_mem_call, 64);
RT_ASSERT_SIZE(struct rt_mem_block, 32);

#endif
