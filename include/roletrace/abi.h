/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The only types that BPF programs and the daemon both see: fixed width, explicit padding, sizes
 * asserted. Times are ns of CLOCK_MONOTONIC, addresses are user-space virtual addresses.
 * Knows nothing of maps, libbpf or ELF.
 */
#ifndef ROLETRACE_ABI_H
#define ROLETRACE_ABI_H

#ifdef __bpf__
typedef unsigned char rt_u8;
typedef unsigned short rt_u16;
typedef unsigned int rt_u32;
typedef unsigned long long rt_u64;
typedef int rt_s32;
typedef long long rt_s64;
#else
#include <stdint.h>
typedef uint8_t rt_u8;
typedef uint16_t rt_u16;
typedef uint32_t rt_u32;
typedef uint64_t rt_u64;
typedef int32_t rt_s32;
typedef int64_t rt_s64;
#endif

/* Frames a thread's shadow stack holds. Calls nested deeper are counted, not timed (untimed). */
#define RT_STACK_DEPTH 256u
/* Threads that have a shadow stack at a time where these are kept in a hash (12.5 MB). */
#define RT_TID_STACKS 1024u
/* Hash of function ids per thread that tells "not active yet" without a search (a power of two). */
#define RT_ACTIVE_SLOTS 64u
/* Copies of each counter, by CPU, against contention: min(CPUs, this), a power of two. */
#define RT_MAX_SHARDS 8u
#define RT_MAX_FUNCTIONS (1u << 20)

/* What a probe site is. The first member of a cookie's kind field. */
enum rt_site_kind {
	RT_SITE_ENTRY = 0,    /* the function's entry (perhaps moved inside the entry block) */
	RT_SITE_RET = 1,      /* a ret */
	RT_SITE_TAIL = 2,     /* an unconditional jump out of the function */
	RT_SITE_JCC = 3,      /* a conditional jump out: an exit only when it is taken */
	RT_SITE_CATCH = 4,    /* a runtime has just caught a panic: deeper frames are dead */
	RT_SITE_URET = 5,     /* a return probe (the kernel swaps the return address) */
	RT_SITE_EDGE = 6,     /* before a ret, with nothing but the way out in between */
	RT_SITE_EDGE_JCC = 7, /* the same, one way of a conditional jump */
	RT_SITE_JUMP = 8,     /* longjmp begins: frames deeper than where it leads are dead */
	RT_SITE_KINDS = 9,
};

/* How the kernel executes the instruction under a breakpoint; it decides the price. */
enum rt_insn_class {
	RT_INSN_EMULATED = 0,
	RT_INSN_STEPPED = 1,
	RT_INSN_CLASSES = 2,
};

/*
 * The cookie of a site:
 *   bits  0-19 function id        bits 40-47 generation of the link (0 is never live)
 *   bits 20-23 enum rt_site_kind  bits 48-63 how many 8-byte words the stack pointer is below
 *   bits 24-27 condition of a jcc            its value at the function's entry
 *   bit  28    enum rt_insn_class
 */
#define RT_COOKIE_FN(c) ((rt_u32)((c)&0xfffffu))
#define RT_COOKIE_KIND(c) ((rt_u32)(((c) >> 20) & 0xfu))
#define RT_COOKIE_COND(c) ((rt_u32)(((c) >> 24) & 0xfu))
#define RT_COOKIE_CLASS(c) ((rt_u32)(((c) >> 28) & 1u))
#define RT_COOKIE_GEN(c) ((rt_u32)(((c) >> 40) & 0xffu))
#define RT_COOKIE_SP_BYTES(c) (((c) >> 48) * 8u)
#define RT_COOKIE(fn, kind, cond, class, gen, sp_words)                                            \
	((rt_u64)(fn) | (rt_u64)(kind) << 20 | (rt_u64)(cond) << 24 | (rt_u64)(class) << 28 |      \
	 (rt_u64)(gen) << 40 | (rt_u64)(sp_words) << 48)

/*
 * Generations of links. Lasting links count 1, 2, ... RT_GEN_LAST, 1, ...; that of a short window
 * has its own.
 */
#define RT_GEN_LAST 254u
#define RT_GEN_WINDOW 255u
#define RT_GEN_NEXT(gen) ((gen) == RT_GEN_LAST ? 1u : (gen) + 1u)

/* One call that has begun and not ended. */
struct rt_frame {
	rt_u64 sp;	 /* stack pointer at entry: the address of the return address */
	rt_u64 ret_addr; /* what was there; 0 when it was not read */
	rt_u64 start_ns;
	rt_u64 child_ns; /* time of traced callees, their own floor taken off */
	rt_u64 cost_ns;	 /* price of the probes that ran inside */
	rt_u32 fn;
	rt_u16 flags; /* RT_FRAME_* */
	rt_u16 path;  /* the call path that leads here */
};

#define RT_FRAME_STEPPED 1u /* its entry site is single-stepped */
#define RT_FRAME_NESTED 2u  /* the same function is already active on this thread */
#define RT_FRAME_FOREIGN 4u /* not on the thread's own stack: a coroutine, a signal stack */
/* The epoch of the function when the call began, in bits 8-15 of the flags. */
#define RT_FRAME_EPOCH(flags) (((flags) >> 8) & 0xffu)

#define RT_STACK_HOME 1u    /* home_lo and home_hi are known */
#define RT_STACK_SETTLED 2u /* the settling iterator has seen it: thread exit counts no more */

/* A thread's shadow stack. f[0] is the outermost call. */
struct rt_stack {
	rt_u32 depth;
	rt_u32 flags; /* RT_STACK_* */
	rt_u32 mark;  /* RT_MARK: the event a new link has just taken from the old one */
	rt_u32 pad;
	rt_u64 home_lo; /* the thread's own stack, [lo, hi) */
	rt_u64 home_hi;
	rt_u16 active[RT_ACTIVE_SLOTS]; /* open frames per hash of function id */
	struct rt_frame f[RT_STACK_DEPTH];
};

/* Counters of one function, one shard. All only grow. */
struct rt_fn_stats {
	/* all that a look at the price needs is in one cache line */
	rt_u64 calls;
	rt_u64 returned;
	rt_u64 misses;	   /* hits that were no event: a jump not taken, an exit without entry */
	rt_u64 unsampled;  /* more calls, counted and not timed on purpose */
	rt_u64 stepped;	   /* of returned and misses: at single-stepped exit sites */
	rt_u64 unwound;	   /* ended without passing an exit: panic, longjmp, thread exit */
	rt_u64 untimed;	   /* calls that got no frame, or whose frame was given up: see lost */
	rt_u64 tail_exits; /* returned calls that left by a tail jump */
	rt_u64 sum_ns;	   /* all returned calls */
	rt_u64 nested_ns;  /* of it in calls made while the function was active already */
	rt_u64 inner_ns;   /* of it in traced callees, and the floor */
	rt_u64 min_inv_ns; /* ~minimum, so that zero means none */
	rt_u64 max_ns;
	rt_u64 corrected_ns; /* taken off for the probes that ran inside */
	rt_u64 clamped;	     /* calls where that was more than the duration */
	rt_u64 zero_cnt;     /* returned calls of 0 ns (after correction) */
};

/* So many hits of one function wake a daemon that dozes. */
#define RT_HITS_MUCH 16u

/* What the daemon tells the programs about a function, and what happens too seldom for shards. */
struct rt_fn_conf {
	rt_u32 state;	  /* RT_CONF_*: one store changes all of it */
	rt_u32 hits;	  /* since the daemon looked, no further than RT_HITS_MUCH */
	rt_u64 ended;	  /* calls in flight when the process exited or exec'd */
	rt_u64 hist_lost; /* returned calls that found no bucket */
	rt_u64 pad2;
};

/*
 * The state of a function:
 *   bits  0-7  generation of the link whose entries count; 0: none
 *   bits  8-15 generation of the link whose exits count
 *   bits 16-23 epoch: another one each time exits go unseen; older frames are not to be timed
 *   bit  24    TIMED: entries get a frame
 *   bit  25    GAPS: its exits were not always armed, strays are expected
 *   bits 26-27 its link of entries, of exits is being replaced: RT_MARK says whose event it is
 */
#define RT_CONF_ENTRY_GEN(s) ((s)&0xffu)
#define RT_CONF_EXIT_GEN(s) (((s) >> 8) & 0xffu)
#define RT_CONF_EPOCH(s) (((s) >> 16) & 0xffu)
#define RT_CONF_TIMED (1u << 24)
#define RT_CONF_GAPS (1u << 25)
#define RT_CONF_MARK_ENTRY (1u << 26)
#define RT_CONF_MARK_EXIT (1u << 27)
#define RT_CONF(entry_gen, exit_gen, epoch)                                                        \
	((rt_u32)(entry_gen) | (rt_u32)(exit_gen) << 8 | (rt_u32)(epoch) << 16)
/* Of the function, the new link's generation, and whether it is an exit. */
#define RT_MARK(fn, gen, exit) (1u << 31 | (rt_u32)(exit) << 28 | (rt_u32)(gen) << 20 | (fn))

/* One caller -> callee edge, one shard. Open addressing by hash; key 0 is free. */
struct rt_edge {
	rt_u64 key; /* RT_EDGE_KEY */
	rt_u64 calls;
	rt_u64 total_ns; /* of calls made while the callee was not active already */
	rt_u64 pad;
};
#define RT_EDGE_KEY(caller, callee, shard)                                                         \
	(1ull << 63 | (rt_u64)(shard) << 48 | (rt_u64)(caller) << 24 | (rt_u64)(callee))
#define RT_EDGE_CALLER(key) ((rt_u32)(((key) >> 24) & 0xffffffu))
#define RT_EDGE_CALLEE(key) ((rt_u32)((key)&0xffffffu))
#define RT_EDGE_PROBES 8u

/*
 * Call paths: a path is the path of its caller and a function; its id is its place in the table
 * (open addressing by hash; key 0 is free). The first two ids are no places.
 */
#define RT_PATH_ROOT 0u /* no traced function is active */
#define RT_PATH_FULL 1u /* the table was full, here or further out */
#define RT_PATH_FIRST 2u
#define RT_MAX_PATHS 16384u /* a power of two; ids fit 16 bits */
#define RT_PATH_PROBES 8u
#define RT_PATH_KEY(parent, fn) (1ull << 63 | (rt_u64)(parent) << 32 | (rt_u64)(fn))
#define RT_PATH_PARENT(key) ((rt_u32)(((key) >> 32) & 0xffffu))
#define RT_PATH_FN(key) ((rt_u32)((key)&0xfffffu))

/* Returned calls of a path's last function, one shard. */
struct rt_path_stats {
	rt_u64 calls;
	rt_u64 sum_ns;
	rt_u64 self_ns;
	rt_u64 pad;
};

/* Prices measured on this machine, ns. */
struct rt_prices {
	rt_u64 entry_ns[RT_INSN_CLASSES];
	rt_u64 exit_ns[RT_INSN_CLASSES];
	rt_u64 uret_ns;					   /* exit by return probe */
	rt_u64 floor_ns[RT_INSN_CLASSES][RT_INSN_CLASSES]; /* [entry][exit] of an empty function */
	rt_u64 floor_uret_ns[RT_INSN_CLASSES];
};

/* Every way an event can be lost, by name: the order of rt_lost_names. */
enum rt_lost {
	RT_LOST_ORPHAN_EXITS,	/* an exit without its entry: in flight when the gate opened */
	RT_LOST_DEPTH_EXCEEDED, /* calls deeper than RT_STACK_DEPTH */
	RT_LOST_NO_STORAGE,	/* no memory for a thread's shadow stack */
	RT_LOST_CLOCK,		/* the clock went backwards */
	RT_LOST_HISTOGRAM_FULL, /* no bucket chunk left */
	RT_LOST_EDGES_FULL,	/* no place for a caller -> callee pair */
	RT_LOST_OTHER_STACK, /* calls on a coroutine or signal stack: no place in the call tree */
	RT_LOST_SHED_IN_FLIGHT, /* calls open when their function was shed */
	RT_LOST_PATHS_FULL,	/* calls whose path found no place: in none */
	RT_LOST_CNT,
};

#define RT_LOST_NAMES                                                                              \
	{                                                                                          \
		"orphan_exits", "depth_exceeded", "no_storage", "clock_backwards",                 \
			"histogram_full", "edges_full", "other_stack", "shed_in_flight",           \
			"paths_full"                                                               \
	}

/* What the settling iterator writes per thread, followed by depth frames. */
struct rt_settled {
	rt_u32 tid;
	rt_u32 depth;
	rt_u64 user_sp; /* as of the thread's last kernel entry */
	rt_u64 home_lo;
	rt_u64 home_hi;
};

#define RT_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
RT_ASSERT_SIZE(struct rt_frame, 48);
RT_ASSERT_SIZE(struct rt_stack, 32 + 128 + 48 * 256);
RT_ASSERT_SIZE(struct rt_fn_stats, 128);
RT_ASSERT_SIZE(struct rt_fn_conf, 32);
RT_ASSERT_SIZE(struct rt_edge, 32);
RT_ASSERT_SIZE(struct rt_path_stats, 32);
RT_ASSERT_SIZE(struct rt_settled, 32);

#endif
