/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Function calls: programs at entries, exits, the panic catch, thread exit and exec, and the
 * iterator that reads the open frames. Adapters only: the work is in shadow.bpf.h and stats.bpf.h.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "doorbell.bpf.h"
#include "maps.bpf.h"
#include "shadow.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline bool is_target(const struct task_struct *t)
{
	return gate && t->tgid == (int)target_tgid;
}

/* The state of the function if this event counts, else 0 (with no live link there is no state). */
static __always_inline rt_u32 event_state(const struct task_struct *t, rt_u64 cookie, bool exit)
{
	struct rt_fn_conf *conf = is_target(t) ? conf_of(RT_COOKIE_FN(cookie)) : 0;
	rt_u32 state, live, mark;

	if (!conf)
		return 0;
	state = *(volatile rt_u32 *)&conf->state;
	live = exit ? RT_CONF_EXIT_GEN(state) : RT_CONF_ENTRY_GEN(state);
	mark = state & (exit ? RT_CONF_MARK_EXIT : RT_CONF_MARK_ENTRY);
	if (mark ? !hand_over(cookie, live, exit) : live != RT_COOKIE_GEN(cookie))
		return 0;
	note_hit(conf);
	return state;
}

/* Whether a conditional jump with this condition (the low 4 bits of its opcode) is taken. */
static __always_inline bool cond_holds(rt_u32 cond, rt_u64 flags)
{
	bool cf = flags & 1, pf = flags & 4, zf = flags & 0x40, sf = flags & 0x80;
	bool of = flags & 0x800, holds;

	switch (cond >> 1) {
	case 0:
		holds = of;
		break;
	case 1:
		holds = cf;
		break;
	case 2:
		holds = zf;
		break;
	case 3:
		holds = cf || zf;
		break;
	case 4:
		holds = sf;
		break;
	case 5:
		holds = pf;
		break;
	case 6:
		holds = sf != of;
		break;
	default:
		holds = zf || sf != of;
		break;
	}
	return holds != (cond & 1);
}

static __always_inline void land(struct task_struct *t, const struct pt_regs *ctx, rt_u64 cookie)
{
	rt_u32 class = RT_COOKIE_CLASS(cookie);

	add(&landings[class], 1);
	if (RT_COOKIE_KIND(cookie) == RT_SITE_JUMP)
		shadow_jump(ctx->sp, ctx->di, class);
	else
		shadow_catch(t, ctx->sp + RT_COOKIE_SP_BYTES(cookie), class);
}

/* One program for every kind of site, so that a batch is one link. */
SEC("uprobe.multi")
int site(struct pt_regs *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	rt_u64 cookie = bpf_get_attach_cookie(ctx), now;
	rt_u32 kind = RT_COOKIE_KIND(cookie), fn = RT_COOKIE_FN(cookie), state;

	if (kind == RT_SITE_ENTRY) {
		state = event_state(t, cookie, false);
		if (state)
			shadow_enter(t, fn, ctx->sp + RT_COOKIE_SP_BYTES(cookie),
				     RT_COOKIE_CLASS(cookie), state, false);
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (kind == RT_SITE_CATCH || kind == RT_SITE_JUMP) {
		if (is_target(t) && RT_COOKIE_GEN(cookie) == catch_gen)
			land(t, ctx, cookie);
		return 0;
	}
	state = event_state(t, cookie, true);
	if (!state)
		return 0;
	if ((kind == RT_SITE_JCC || kind == RT_SITE_EDGE_JCC) &&
	    !cond_holds(RT_COOKIE_COND(cookie), ctx->flags))
		book_miss(fn, RT_COOKIE_CLASS(cookie));
	else
		shadow_leave(t, fn, ctx->sp + RT_COOKIE_SP_BYTES(cookie), now, kind,
			     RT_COOKIE_CLASS(cookie), state);
	return 0;
}

/* --exit uretprobe: the kernel replaces the return address after this, so it is not kept. */
SEC("uprobe.multi")
int uret_entry(struct pt_regs *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	rt_u64 cookie = bpf_get_attach_cookie(ctx);

	rt_u32 state = event_state(t, cookie, false);

	if (state)
		shadow_enter(t, RT_COOKIE_FN(cookie), ctx->sp, RT_COOKIE_CLASS(cookie), state,
			     true);
	return 0;
}

SEC("uretprobe.multi")
int uret_exit(struct pt_regs *ctx)
{
	rt_u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);
	struct task_struct *t = bpf_get_current_task_btf();

	rt_u32 state = event_state(t, cookie, true);

	if (state)
		shadow_leave(t, RT_COOKIE_FN(cookie), ctx->sp - 8, now, RT_SITE_URET, 0, state);
	return 0;
}

/* The floor of the benchmarks: the same sites, no work. */
SEC("uprobe.multi")
int empty(struct pt_regs *ctx)
{
	return 0;
}

SEC("uretprobe.multi")
int empty_ret(struct pt_regs *ctx)
{
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *p)
{
	struct signal_struct *sig = p->signal;
	struct rt_stack *s;
	bool ended;

	if (p->tgid != target_tgid)
		return 0;
	ended = sig->flags & SIGNAL_GROUP_EXIT || sig->group_exec_task;
	exit_code = sig->flags & SIGNAL_GROUP_EXIT ? sig->group_exit_code : p->exit_code;
	if (p->pid == p->tgid && !ended)
		leader_gone = 1;
	s = stack_of(p, p->pid);
	/* with the gate shut its frames were in flight when it shut, unless that was counted */
	if (s && !(s->flags & RT_STACK_SETTLED))
		shadow_end(s, ended || !gate);
	stack_drop(p->pid);
	return 0;
}

/* A thread that execs takes over the main thread's id: old_pid is what it was called until now. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *p, int old_pid)
{
	struct rt_stack *s;

	if (p->tgid != target_tgid)
		return 0;
	s = stack_of(p, old_pid);
	if (s && !(s->flags & RT_STACK_SETTLED))
		shadow_end(s, true);
	stack_drop(old_pid);
	gate = 0;
	exec_seen = 1;
	ring();
	return 0;
}

/* What the kernel calls the process that the iterator was made for (pids differ by namespace). */
SEC("iter/task")
int identify(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;

	if (t)
		found_tgid = t->tgid;
	return 0;
}

/* Hands out the open frames of each thread: a header, then the frames. */
SEC("iter/task")
int settle(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct rt_settled head = {};
	struct pt_regs *regs;
	struct rt_stack *s;
	rt_u32 depth;

	if (!t || t->tgid != target_tgid)
		return 0;
	s = stack_of(t, t->pid);
	if (!s)
		return 0;
	if (!gate)
		s->flags |= RT_STACK_SETTLED;
	depth = s->depth;
	if (!depth || depth > RT_STACK_DEPTH)
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(t);
	head.tid = t->pid;
	head.depth = depth;
	head.user_sp = regs ? regs->sp : 0;
	head.home_lo = s->home_lo;
	head.home_hi = s->home_hi;
	bpf_seq_write(ctx->meta->seq, &head, sizeof(head));
	bpf_seq_write(ctx->meta->seq, s->f, depth * sizeof(s->f[0]));
	return 0;
}
