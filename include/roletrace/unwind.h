/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unwind tables and stacks, as BPF programs and the daemon both see them: fixed width, sizes
 * asserted. Knows nothing of maps, libbpf or ELF.
 *
 * Code is looked up in four steps: the mapping that holds the address gives an object and an
 * address as linked; its 64 KiB page gives a range of rows; the last row at or below the address
 * names a rule; the rule tells where the caller's frame is.
 */
#ifndef ROLETRACE_UNWIND_H
#define ROLETRACE_UNWIND_H

#include "roletrace/abi.h"

#define RT_UNWIND_PAGE_BITS 16u
#define RT_UNWIND_PAGE (1u << RT_UNWIND_PAGE_BITS)

/* A row: the low 16 bits of its first address, and a rule of the object. Rule 0: nothing known. */
#define RT_ROW(vaddr, rule) ((rt_u32)((vaddr)&0xffffu) | (rt_u32)(rule) << 16)
#define RT_ROW_LOW(row) ((row)&0xffffu)
#define RT_ROW_RULE(row) ((row) >> 16)

/* How the canonical frame address (CFA) is found. The return address lies 8 below it. */
enum rt_cfa {
	RT_CFA_NONE = 0,
	RT_CFA_REG = 1,	   /* reg + offset */
	RT_CFA_DEREF = 2,  /* what lies at reg + offset, + add */
	RT_CFA_PLT = 3,	   /* rsp + 8, 8 more from byte `add` of each 16 on */
	RT_CFA_SIGNAL = 4, /* a signal's frame: the registers lie at rsp */
	RT_CFA_END = 5,	   /* the outermost frame */
};

enum rt_rbp {
	RT_RBP_SAME = 0,
	RT_RBP_AT_CFA = 1, /* at CFA + offset */
	RT_RBP_AT_RBP = 2, /* at rbp + offset */
	RT_RBP_LOST = 3,
};

struct rt_unwind_rule {
	rt_s32 cfa_offset;
	rt_s32 rbp_offset;
	rt_s32 cfa_add;
	rt_u8 cfa; /* enum rt_cfa */
	rt_u8 reg; /* DWARF number */
	rt_u8 rbp; /* enum rt_rbp */
	rt_u8 pad;
};

/* Two rows: elements of an array map are 8 bytes at least. */
struct rt_unwind_rows {
	rt_u32 row[2];
};

struct rt_unwind_page {
	rt_u32 first;
	rt_u16 last; /* rows - 1 */
	rt_u16 step; /* the highest power of two that is not above last: where a search begins */
};

struct rt_unwind_object {
	rt_u64 base;	   /* address as linked of its first page */
	rt_u32 first_page; /* in the map of pages */
	rt_u32 page_cnt;   /* 0: no rows */
	rt_u32 first_rule;
	rt_u32 rule_cnt;
};

#define RT_UNWIND_MAX_OBJECTS 512u /* object 0 is none */
#define RT_UNWIND_MAX_MAPS 512u	   /* in each of two banks */

/* A mapping of code. In a bank they are ordered by address. */
struct rt_unwind_map {
	rt_u64 start, end;
	rt_u64 vaddr; /* of start, as linked */
	rt_u32 object;
	rt_u32 pad;
};

/* Which bank holds: that of the generation's lowest bit. The other is filled, then they change
 * places. Whatever the programs remember of code is of one generation. */
struct rt_unwind_dir {
	rt_u32 gen;
	rt_u32 cnt[2];
	rt_u32 pad;
};

/* A frame: object and address as linked. Of a caller it is a byte of its call instruction. */
#define RT_FRAME_PC(object, vaddr) ((rt_u64)(object) << 48 | ((vaddr)&0xffffffffffffull))
#define RT_FRAME_OBJECT(f) ((rt_u32)((f) >> 48))
#define RT_FRAME_VADDR(f) ((f)&0xffffffffffffull)
/* The kernel: the "address" is the system call's number + 1, 0 when it is none. */
#define RT_OBJECT_KERNEL 0xffffu
#define RT_KERNEL_BREAKPOINT 0xffffu /* instead: a breakpoint was hit, of a probe or a debugger */

/* The name of the thread, 16 bytes, in three frames of 6 innermost of all (the first one lowest).
 */
#define RT_OBJECT_NAME 0xfffeu
#define RT_NAME_FRAMES 3u
#define RT_NAME_FRAME_BYTES 6u

#define RT_UNWIND_FRAMES 128u

/* Why the unwinding ended; the order of RT_UNWIND_END_NAMES. */
enum rt_unwind_end {
	RT_END_ROOT = 0, /* the thread's start */
	RT_END_NO_ROWS,	 /* code without rows, and frame pointers lead nowhere */
	RT_END_MEMORY,	 /* the stack could not be read */
	RT_END_DEPTH,	 /* more than RT_UNWIND_FRAMES */
	RT_END_LOOP,	 /* frames that do not go up */
	RT_END_REGISTER, /* a rule needs a register that is not known any more */
	RT_END_ZERO,	 /* a return address of 0 where a caller should be */
	RT_END_NOT_CODE, /* a return address in no code: there is no such caller */
	RT_END_CNT,
};

#define RT_UNWIND_END_NAMES                                                                        \
	{                                                                                          \
		NULL, "no_unwind_rows", "unreadable_stack", "too_deep", "no_progress",             \
			"register_lost", "no_return_address", "return_address_not_code"            \
	}

enum rt_stack_kind {
	RT_STACK_CPU = 1,
	RT_STACK_OFF_CPU = 2,
	RT_STACK_OFF_CPU_OLDER = 3, /* the wait had begun before the gate opened */
	RT_STACK_WAKER = 4,	    /* who ended a wait; not counted by itself */
	RT_STACK_ALLOC = 5,
	RT_STACK_GROWTH = 6, /* figures: struct rt_growth_stack, at the same place */
};

/* A distinct stack. Open addressing by hash; hash 0 is free. */
struct rt_kept_stack {
	rt_u64 hash;
	rt_u64 cnt;   /* how often it was taken; ALLOC: in RT_SAMPLE_COUNT_BITS */
	rt_u64 total; /* OFF_CPU: ns; ALLOC: RT_SAMPLE_BYTES_BITS */
	rt_u32 first; /* in the map of frames, where a group begins; innermost first */
	rt_u32 ready; /* RT_STACK_* below */
	rt_u16 depth;
	rt_u8 kind;
	rt_u8 end;	/* enum rt_unwind_end */
	rt_u32 guessed; /* frames that frame pointers gave */
};

/* Frames of kept stacks lie in groups, the last one's rest is 0: they are compared group by group.
 */
#define RT_FRAMES_GROUP 8u
struct rt_kept_frames {
	rt_u64 frame[RT_FRAMES_GROUP];
};

#define RT_STACK_PENDING 0u
#define RT_STACK_READY 1u
#define RT_STACK_NO_ROOM 2u
#define RT_STACK_PROBES 16u

/* Of all kept stacks. */
struct rt_kept_head {
	rt_u64 seed;	    /* nobody can choose stacks that fall on one place */
	rt_u64 unknown_pcs; /* addresses in no known mapping */
	rt_u32 mask;	    /* places - 1 */
	rt_u32 frame_cnt;   /* there is room for, whole groups */
	rt_u32 frames_taken;
	rt_u32 by_thread; /* stacks of threads of different names are different ones */
};

/* Who unwinds: a program may interrupt another, so each has scratch of its own on each CPU. Those
 * that may be preempted in their midst by a thread that begins the same (at allocators; where
 * tracepoints do not forbid it) have two. */
enum rt_unwind_use {
	RT_UNWIND_CPU,
	RT_UNWIND_OFF_CPU,
	RT_UNWIND_STANDING,
	RT_UNWIND_WAKER,
	RT_UNWIND_MEMORY,
	RT_UNWIND_MEMORY_TOO,
	RT_UNWIND_GROWTH,
	RT_UNWIND_GROWTH_TOO,
	RT_UNWIND_USES,
};

/* Who ended a wait; also the key of what is counted by waiter and waker. */
struct rt_wake {
	rt_u32 place; /* of the waiter's stack, + 1 */
	rt_u32 waker; /* of the waker's, + 1; 0: it is none of the target's threads, or lost */
	rt_u32 who;   /* enum rt_woken + 1; 0: not seen */
	rt_u32 pad;
	char comm[16]; /* of another process */
};

struct rt_waits {
	rt_u64 cnt;
	rt_u64 total_ns;
};

/* Key of the waits at a futex, by stack. */
struct rt_lock_wait {
	rt_u64 futex;
	rt_u32 place; /* of the stack, + 1 */
	rt_u32 pad;
};

/* A thread's wait. */
struct rt_blocked {
	rt_u64 since_ns;     /* 0: it runs */
	rt_u32 place;	     /* its stack's place + 1; 0: lost */
	rt_u32 older_place;  /* the same of the wait that had begun before the gate opened */
	struct rt_wake wake; /* its end, when it is woken; place is filled in then */
	rt_u64 futex;	     /* it is at; 0: none, or not known */
};

/* A thread as it stands; depth frames follow, innermost first, then depth steps. */
struct rt_standing {
	rt_u32 pid; /* of the kernel's outermost namespace */
	rt_u16 depth;
	rt_u8 end;	       /* enum rt_unwind_end */
	rt_u8 moves;	       /* it does not wait: frames only if it was kept from running */
	rt_u64 sp;	       /* user stack pointer */
	rt_u64 alt_lo, alt_hi; /* the stack of its own for signal handlers; both 0: none */
};

/*
 * The step from a frame to its caller: the frame's CFA (its return address lies 8 below), which is
 * the stack pointer behind the call. 0: there was none. The low bits say how it was found.
 */
#define RT_STEP_GUESSED 1u /* by the frame pointer: frames may have been missed below it */
#define RT_STEP_SIGNAL 2u  /* no call: the stack pointer of what a signal interrupted */
#define RT_STEP_SP(step) ((step) & ~7ull)

RT_ASSERT_SIZE(struct rt_standing, 32);
RT_ASSERT_SIZE(struct rt_kept_head, 32);
RT_ASSERT_SIZE(struct rt_wake, 32);
RT_ASSERT_SIZE(struct rt_lock_wait, 16);
RT_ASSERT_SIZE(struct rt_blocked, 56);
RT_ASSERT_SIZE(struct rt_unwind_rule, 16);
RT_ASSERT_SIZE(struct rt_unwind_object, 24);
RT_ASSERT_SIZE(struct rt_unwind_map, 32);
RT_ASSERT_SIZE(struct rt_kept_stack, 40);

#endif
