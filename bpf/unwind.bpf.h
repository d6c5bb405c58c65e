/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unwinds user stacks without frame pointers.
 *
 * A frame is found in constant time: the mapping (binary search over at most 512), its object's
 * page of 64 KiB, the row in the page (binary search over at most 65,536), the row's rule. The
 * tables are plan/unwind's work; the daemon fills them in before a mapping names their object.
 *
 * Registers: of the interrupted frame all are known, of its callers only rsp, rip and rbp;
 * compilers need no more. A rule that asks for another ends the stack, with that reason. A signal's
 * frame gives all of them back. Where code has no rows (a JIT, hand-written assembly) frame
 * pointers are believed if they lead upwards into code; such frames are counted.
 *
 * Return addresses lie behind their call, which may be the last instruction of its function: a
 * caller is looked up, and kept, one byte earlier.
 */
#ifndef UNWIND_BPF_H
#define UNWIND_BPF_H

#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "unwind_maps.bpf.h"
#include "unwind_rows.bpf.h"
#include "unwind_whose.bpf.h"

#define DWARF_RBP 6
#define DWARF_RSP 7
#define KNOWN_ALL 0xffffu
#define KNOWN_SP (1u << DWARF_RSP)
#define KNOWN_BP (1u << DWARF_RBP)

#define MAX_FP_FRAME_BYTES (1u << 20)
#define XOL_SLOT_BYTES 128
#define INT3 0xcc
#define PAGE_BYTES 4096u
#define BELOW_CFA_BYTES 64u
#define MAX_REPLACED 64 /* return addresses: as deep as the kernel goes */

/* ---- one step ---- */

static __always_inline bool read_word(rt_u64 *out, rt_u64 at WHOSE)
{
	return !read_user(out, sizeof(*out), at);
}

static __always_inline long finish(struct unwind *u, enum rt_unwind_end why)
{
	u->end = why;
	return 1;
}

/* The frame of a signal: struct ucontext at rsp, its registers from byte 40 on. */
UNWIND_FN int leave_signal(struct unwind *u WHOSE)
{
	if (!u || read_user(u->context, sizeof(u->context), u->reg[DWARF_RSP] + 40))
		return 0;
	u->reg[8] = u->context[0];
	u->reg[9] = u->context[1];
	u->reg[10] = u->context[2];
	u->reg[11] = u->context[3];
	u->reg[12] = u->context[4];
	u->reg[13] = u->context[5];
	u->reg[14] = u->context[6];
	u->reg[15] = u->context[7];
	u->reg[5] = u->context[8];
	u->reg[4] = u->context[9];
	u->reg[6] = u->context[10];
	u->reg[3] = u->context[11];
	u->reg[1] = u->context[12];
	u->reg[0] = u->context[13];
	u->reg[2] = u->context[14];
	u->reg[7] = u->context[15];
	u->pc = u->context[16];
	u->known = KNOWN_ALL;
	u->caller = 0; /* it was interrupted there, it called nobody */
	return 1;
}

/* mov $15, %eax (or rax); syscall: the C library's way back from a handler, without rows in some.
 */
static __always_inline bool is_sigreturn(rt_u64 pc WHOSE)
{
	rt_u64 code[2] = {};

	if (read_user(code, 9, pc))
		return false;
	return (code[0] == 0x0f0000000fc0c748ull && code[1] == 0x05) ||
	       (code[0] & 0xffffffffffffffull) == 0x050f0000000fb8ull;
}

/* No rows: the frame pointer, if it leads to a frame above whose return address is in code. */
UNWIND_FN int follow_frame_pointer(struct unwind *u WHOSE)
{
	rt_u64 pair[2], bp, sp;

	if (!u)
		return 0;
	bp = u->reg[DWARF_RBP];
	sp = u->reg[DWARF_RSP];
	if (!(u->known & KNOWN_BP) || bp < sp || bp - sp > MAX_FP_FRAME_BYTES || bp & 7)
		return 0;
	if (read_user(pair, sizeof(pair), bp) || !search_code(u, pair[1] - 1))
		return 0;
	u->reg[DWARF_RBP] = pair[0];
	u->reg[DWARF_RSP] = bp + 16;
	u->pc = pair[1];
	u->known = KNOWN_SP | KNOWN_BP;
	u->caller = 1;
	u->guessed++;
	return 1;
}

struct replaced_walk {
	struct unwind *u;
	rt_u64 slot;
	rt_u32 found;
};

static long next_replaced(rt_u64 n, struct replaced_walk *w)
{
	struct return_instance *ri = (struct return_instance *)w->u->replaced;
	unsigned long stack = 0, pc = 0;

	if (!ri || bpf_core_read(&stack, sizeof(stack), &ri->stack) || stack > w->slot)
		return 1;
	if (stack == w->slot && !bpf_core_read(&pc, sizeof(pc), &ri->orig_ret_vaddr)) {
		w->u->pc = pc;
		w->found = 1;
		return 1;
	}
	return bpf_core_read(&w->u->replaced, sizeof(w->u->replaced), &ri->next) ? 1 : 0;
}

/*
 * The return address at slot is a return probe's: u->pc becomes what was there. Whoever's probe it
 * is: the kernel keeps what it replaced, and the calls there go up the stack as we do. 0: unknown.
 */
__noinline int find_replaced(struct unwind *u, rt_u64 slot)
{
	struct replaced_walk w = { .u = u, .slot = slot };

	if (!u)
		return 0;
	bpf_loop(MAX_REPLACED, next_replaced, &w, 0);
	return w.found;
}

/*
 * Reads the stack from some words below the CFA on (rbp is among the registers pushed first) and,
 * with the same call, what is likely to hold the next frames. Never across a page: the one below
 * may never have been touched, the one above may be another mapping's.
 */
UNWIND_FN int read_block(struct unwind *u, rt_u64 cfa WHOSE)
{
	rt_u64 page = (cfa - 8) & ~(rt_u64)(PAGE_BYTES - 1), at = cfa - BELOW_CFA_BYTES, bytes;

	if (!u)
		return 0;
	at = at < page ? page : at & ~7ull;
	bytes = page + PAGE_BYTES - at;
	if (bytes > sizeof(u->block))
		bytes = sizeof(u->block);
	u->block_at = at;
	u->block_bytes = read_user(u->block, bytes, at) ? 0 : bytes;
	return u->block_bytes;
}

static __always_inline bool in_block(const struct unwind *u, rt_u64 at)
{
	return at - u->block_at <= u->block_bytes - 8ull && u->block_bytes && !(at & 7);
}

/* A word of the stack, out of the block or by itself. */
static __always_inline bool read_saved(struct unwind *u, rt_u64 at, rt_u64 *out WHOSE)
{
	if (!in_block(u, at))
		return read_word(out, at HIS);
	*out = u->block[(at - u->block_at) / 8 & (BLOCK_WORDS - 1)];
	return true;
}

static __always_inline long apply(struct unwind *u, const struct rt_unwind_rule *r WHOSE)
{
	rt_u64 cfa, bp = u->reg[DWARF_RBP], ret = 0, saved = 0;
	rt_u32 reg = r->reg & 15, known = u->known & (KNOWN_BP | KNOWN_SP);

	if (!(u->known >> reg & 1))
		return finish(u, RT_END_REGISTER);
	cfa = u->reg[reg] + (rt_s64)r->cfa_offset;
	if (r->cfa == RT_CFA_DEREF) {
		if (!read_saved(u, cfa, &saved HIS))
			return finish(u, RT_END_MEMORY);
		cfa = saved + (rt_s64)r->cfa_add;
	} else if (r->cfa == RT_CFA_PLT) {
		cfa += (u->pc & 15) >= (rt_u32)r->cfa_add ? 8 : 0;
	}
	/* down only from one stack to another, which a base pointer can lead to */
	if (cfa == u->reg[DWARF_RSP] || (cfa < u->reg[DWARF_RSP] && reg == DWARF_RSP))
		return finish(u, RT_END_LOOP);
	if (!in_block(u, cfa - 8))
		read_block(u, cfa HIS);
	if (!read_saved(u, cfa - 8, &ret HIS))
		return finish(u, RT_END_MEMORY);
	if (r->rbp == RT_RBP_AT_CFA) {
		if (!read_saved(u, cfa + (rt_s64)r->rbp_offset, &saved HIS))
			return finish(u, RT_END_MEMORY);
		u->reg[DWARF_RBP] = saved;
		known |= KNOWN_BP;
	} else if (r->rbp == RT_RBP_AT_RBP) {
		if (!(known & KNOWN_BP))
			return finish(u, RT_END_REGISTER);
		if (!read_saved(u, bp + (rt_s64)r->rbp_offset, &saved HIS))
			return finish(u, RT_END_MEMORY);
		u->reg[DWARF_RBP] = saved;
	} else if (r->rbp == RT_RBP_LOST) {
		known &= ~KNOWN_BP;
	}
	u->pc = ret;
	u->reg[DWARF_RSP] = cfa;
	u->known = known;
	u->caller = 1;
	if (u->trampoline && u->pc == u->trampoline)
		find_replaced(u, cfa - 8);
	return u->pc ? 0 : finish(u, RT_END_ZERO);
}

static __always_inline void keep_frame(struct unwind *u, rt_u64 frame)
{
	u->frame[u->depth & (RT_UNWIND_FRAMES - 1)] = frame;
	u->depth++;
	u->hash = (u->hash ^ frame) * 0xff51afd7ed558ccdull;
	u->hash ^= u->hash >> 29;
}

/* The daemon looks at the mappings again. */
static __always_inline void count_unknown(void)
{
	struct rt_kept_head *h = kept_head_now();

	if (h)
		__sync_fetch_and_add(&h->unknown_pcs, 1);
}

/* Keeps the frame at pc and goes to its caller. 1: that was the last. */
static __always_inline int unwind_step(struct unwind *u WHOSE)
{
	rt_u32 key;
	struct rt_unwind_rule *r;
	rt_u64 pc;

	if (!u || u->depth >= RT_UNWIND_FRAMES) {
		if (u)
			u->end = RT_END_DEPTH;
		return 1;
	}
	pc = u->pc - u->caller;
	if (!find_code(u, pc)) {
		count_unknown();
		if (u->caller)
			return finish(u, RT_END_NOT_CODE);
		keep_frame(u, RT_FRAME_PC(0, pc));
		return follow_frame_pointer(u HIS) ? 0 : finish(u, RT_END_NO_ROWS);
	}
	keep_frame(u, u->code_frame);
	key = u->code_rule - 1;
	r = bpf_map_lookup_elem(&unwind_rules, &key);
	if (!r || r->cfa == RT_CFA_SIGNAL || r->cfa == RT_CFA_NONE) {
		if ((r && r->cfa == RT_CFA_SIGNAL) || is_sigreturn(u->pc HIS))
			return leave_signal(u HIS) ? 0 : finish(u, RT_END_MEMORY);
		/* the ABI's mark of the outermost frame, for where a thread begins without rows */
		if (RT_FRAME_OBJECT(u->code_frame) && u->known & KNOWN_BP && !u->reg[DWARF_RBP])
			return finish(u, RT_END_ROOT);
		return follow_frame_pointer(u HIS) ? 0 : finish(u, RT_END_NO_ROWS);
	}
	if (r->cfa == RT_CFA_END)
		return finish(u, RT_END_ROOT);
	return (int)apply(u, r HIS);
}

struct unwind_walk {
	struct unwind *u;
	struct task_struct *t;
};

static long unwind_one(rt_u64 n, struct unwind_walk *w)
{
	long last = unwind_step(w->u WHOSE_IS(w->t)) ? 1 : 0;

	NOTE_STEP(w->u, last);
	return last;
}

/* ---- the whole ---- */

/* Registers as the kernel saved them, of a thread in user mode or of one that left it. */
#define UNWIND_SET_REGS(u, r)                                                                      \
	do {                                                                                       \
		(u)->reg[0] = (r)->ax;                                                             \
		(u)->reg[1] = (r)->dx;                                                             \
		(u)->reg[2] = (r)->cx;                                                             \
		(u)->reg[3] = (r)->bx;                                                             \
		(u)->reg[4] = (r)->si;                                                             \
		(u)->reg[5] = (r)->di;                                                             \
		(u)->reg[6] = (r)->bp;                                                             \
		(u)->reg[7] = (r)->sp;                                                             \
		(u)->reg[8] = (r)->r8;                                                             \
		(u)->reg[9] = (r)->r9;                                                             \
		(u)->reg[10] = (r)->r10;                                                           \
		(u)->reg[11] = (r)->r11;                                                           \
		(u)->reg[12] = (r)->r12;                                                           \
		(u)->reg[13] = (r)->r13;                                                           \
		(u)->reg[14] = (r)->r14;                                                           \
		(u)->reg[15] = (r)->r15;                                                           \
		(u)->pc = (r)->ip;                                                                 \
	} while (0)

/* A scratch to unwind in; NULL when this CPU is at it already (a program interrupted another). */
static __always_inline struct unwind *unwind_begin(enum rt_unwind_use use)
{
	rt_u32 slot = bpf_get_smp_processor_id() * RT_UNWIND_USES + use;
	struct unwind *u = bpf_map_lookup_elem(&unwind_scratch, &slot);

	if (!u)
		return NULL;
	if (__sync_lock_test_and_set(&u->busy, 1))
		return NULL;
	u->depth = 0;
	u->end = RT_END_DEPTH;
	u->guessed = 0;
	u->known = KNOWN_ALL;
	u->caller = 0;
	u->hash = 0;
	return u;
}

/* Of a use that has two. */
static __always_inline struct unwind *unwind_begin_either(enum rt_unwind_use use)
{
	struct unwind *u = unwind_begin(use);

	if (!u)
		u = unwind_begin(use + 1);
	return u;
}

static __always_inline void unwind_end(struct unwind *u)
{
	(void)__sync_lock_test_and_set(&u->busy, 0);
}

/* A copied instruction that is single-stepped for a probe stands for the original. */
static __always_inline void leave_probe_slot(struct unwind *u, const struct uprobe_task *ut)
{
	rt_u64 off = u->pc - ut->xol_vaddr;

	if (ut->xol_vaddr && off < XOL_SLOT_BYTES)
		u->pc = ut->vaddr + off;
}

/*
 * Behind a breakpoint the instruction pointer is one byte too far, inside an instruction that has
 * not run: the rows are those of the breakpoint's own address, if it is code at all (padding
 * between functions looks the same, and has no rows). 1: it is at or behind a breakpoint.
 */
UNWIND_FN int leave_breakpoint(struct unwind *u WHOSE)
{
	rt_u8 code[2];
	rt_u64 pc;

	if (!u)
		return 0;
	pc = u->pc - 1;
	if (read_user(code, sizeof(code), pc))
		return 0;
	if (code[0] == INT3 && search_code(u, pc) && u->code_rule) {
		u->pc = pc;
		return 1;
	}
	return code[1] == INT3;
}

/* A thread that is in the kernel: what it asked for is its innermost frame. */
static __always_inline void begin_in_kernel(struct unwind *u, const struct pt_regs *regs WHOSE)
{
	rt_s64 call = (rt_s64)regs->orig_ax;
	rt_u64 what = call >= 0 ? (rt_u64)call + 1 : 0;

	UNWIND_SET_REGS(u, regs);
	if (call < 0 && leave_breakpoint(u HIS))
		what = RT_KERNEL_BREAKPOINT;
	keep_frame(u, RT_FRAME_PC(RT_OBJECT_KERNEL, what));
}

/* Fills in the frames of t from the registers set in u. */
static __always_inline void unwind_user(struct unwind *u, struct task_struct *t)
{
	struct unwind_walk w = { .u = u, .t = t };
	struct uprobe_task *ut = t->utask;
	struct mm_struct *mm = t->mm;
	struct xol_area *area = mm ? mm->uprobes_state.xol_area : NULL;

	u->trampoline = area ? area->vaddr : 0;
	u->replaced = ut ? (rt_u64)ut->return_instances : 0;
	if (ut)
		leave_probe_slot(u, ut);
	/* in the trampoline: back from a call, and on the way to where it came from */
	if (u->trampoline && u->pc - u->trampoline < 2)
		u->caller = find_replaced(u, u->reg[DWARF_RSP] - 8);
	u->block_bytes = 0;
	bpf_loop(RT_UNWIND_FRAMES + 1, unwind_one, &w, 0);
}

#endif
