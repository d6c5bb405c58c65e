/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The maps of the unwinder: tables, the stacks that were kept, scratch. One object owns them
 * (unwind.bpf.c), each that unwinds is loaded with the same ones: whoever takes a stack, there is
 * one table of files and one of stacks.
 */
#ifndef UNWIND_MAPS_BPF_H
#define UNWIND_MAPS_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/unwind.h"

#define BLOCK_WORDS 128u /* of a stack, read at once */

/* key: bank * RT_UNWIND_MAX_MAPS + i. Written by the daemon (the bank not in use), read here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * RT_UNWIND_MAX_MAPS);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_map);
} unwind_maps SEC(".maps");

/* key: 0. Which bank of mappings holds, and how many are in each. Written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_dir);
} unwind_dir SEC(".maps");

/* key: object. Written by the daemon before a mapping names it, then constant. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RT_UNWIND_MAX_OBJECTS);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_object);
} unwind_objects SEC(".maps");

/* The tables of all objects, one behind the other. Written by the daemon, only appended to. Bound:
 * set at load with room for libraries to come; one that does not fit has no rows (counted). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_page);
} unwind_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_rows);
} unwind_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_unwind_rule);
} unwind_rules SEC(".maps");

/* key: a hash of the stack + probe, open addressing. Written here, read by collect. Bound: set at
 * load. No free place within RT_STACK_PROBES, or no frames left: keep_stack gives 0. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_kept_stack);
} kept_stacks SEC(".maps");

/* The frames of kept stacks. Bound: set at load. Full: the stack is not kept. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_kept_frames);
} kept_frames SEC(".maps");

/* key: 0. Knobs of the daemon, fixed before anything runs, and what is counted of all. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct rt_kept_head);
} kept_head SEC(".maps");

/* What was found for an address of code: see unwind_rows.bpf.h. */
struct found_code {
	rt_u64 whose; /* the address, and the generation of the mappings it was found in */
	rt_u64 what;  /* its mapping and its rule, and a check of all */
};

#define FOUND_WAYS 4u
struct found_set {
	struct found_code way[FOUND_WAYS];
};

/* key: a hash of the address. Written and read here, by all at once. Bound: an entry that finds no
 * place replaces another. Up to 32 KiB the kernel takes a map from its linear mapping; in larger
 * ones each page is a TLB miss for whoever comes by but 49 times a second. */
#define FOUND_SETS 500u
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FOUND_SETS);
	__type(key, rt_u32);
	__type(value, struct found_set);
} unwind_found SEC(".maps");

/* One unwinding. */
struct unwind {
	rt_u64 reg[16]; /* by DWARF number; reg[7] is rsp */
	rt_u64 pc;
	rt_u64 hash;
	rt_u64 block[BLOCK_WORDS]; /* of the stack, at block_at */
	rt_u64 block_at;
	rt_u64 context[17];	  /* a signal's registers as the kernel laid them out */
	struct rt_unwind_map map; /* where the last one was that was searched for */
	rt_u64 code_frame;	  /* of the address that was looked up: RT_FRAME_PC */
	rt_u32 code_rule;	  /* index + 1; 0: none */
	rt_u32 way, victim;	  /* in the set where it is remembered */
	rt_u64 trampoline;	  /* what return probes put in place of a return address; 0: none */
	rt_u64 replaced;	  /* struct return_instance of the innermost that is still ahead */
	rt_u32 known;		  /* registers, a bit each */
	rt_u32 depth, start;	  /* frames are [start, depth) of frame[] */
	rt_u32 end;		  /* enum rt_unwind_end */
	rt_u32 guessed;
	rt_u32 caller; /* 1: pc is a return address */
	rt_u32 busy;
	rt_u32 map_gen, map_place;
	rt_u32 block_bytes;				  /* of block that hold something */
	rt_u64 frame[RT_UNWIND_FRAMES + RT_FRAMES_GROUP]; /* room to pad the last group */
};

/* key: CPU * RT_UNWIND_USES + use. Scratch, for 512 bytes of stack hold no stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, rt_u32);
	__type(value, struct unwind);
} unwind_scratch SEC(".maps");

static __always_inline struct rt_kept_head *kept_head_now(void)
{
	rt_u32 key = 0;

	return bpf_map_lookup_elem(&kept_head, &key);
}

#endif
