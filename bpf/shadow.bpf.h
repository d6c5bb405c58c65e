/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The shadow stack: pairs entries with exits, per thread, without touching the target.
 *
 * An entry pushes a frame with the stack pointer it had: the address S of its return address. At
 * the exit (its `ret`, or a jump that leaves for good) the stack pointer is S again, so an exit
 * matches by (S, function) exactly; recursion needs nothing more.
 *
 * Frames that end without an exit (a panic unwinds them, longjmp jumps over them) stay behind and
 * must be swept. Four events tell:
 *   - an entry at stack pointer S: on one stack, every frame with sp <= S is dead, for its return
 *     address would lie in memory that the new call uses or that is free;
 *   - an exit that matches a frame: all frames above it are dead;
 *   - the runtime's catch (RT_SITE_CATCH): all frames with sp <= S;
 *   - longjmp (RT_SITE_JUMP): all frames below the stack pointer that it leads to.
 * A thread that exits sweeps them all.
 *
 * "On one stack" matters: coroutines and signal handlers run elsewhere, and a suspended coroutine's
 * frames are alive however the addresses compare. A thread's own stack is known: the area below
 * its thread control block (fs base), or the main thread's [stack]. Frames there are ordered by
 * address and swept by order. All others are "foreign": they are swept only on proof, when the
 * slot no longer holds the return address that was there at the entry (a live frame's always
 * does) or is used anew; else they stay until their own exit. A foreign call has no known caller,
 * it is counted in lost other_stack.
 *
 * Durations: the entry reads the clock last, the exit first. What is between is the call and the
 * floor (half an entry trap, half an exit trap). The probes of calls that ran inside are taken
 * off by their calibrated price, unless `raw`.
 */
#ifndef SHADOW_BPF_H
#define SHADOW_BPF_H

#include "maps.bpf.h"
#include "stacks.bpf.h"
#include "stats.bpf.h"

/* The main stack may grow down to its limit; the gap below it is kept free by the kernel. */
#define MAIN_STACK_MIN_BYTES (128ull << 20)
#define MAIN_STACK_MAX_BYTES (1ull << 30)
/* While the kernel cannot say where a thread's stack begins, this much of its top is known. */
#define SURE_STACK_BYTES (128ull << 10)
/* Calls closer than this are on one stack: coroutines have larger ones. */
#define SAME_STACK_BYTES (16ull << 10)

static __always_inline struct rt_frame *frame_at(struct rt_stack *s, rt_u32 i)
{
	return &s->f[i & (RT_STACK_DEPTH - 1)];
}

static long note_area(struct task_struct *task, struct vm_area_struct *vma, rt_u64 *start)
{
	*start = vma->vm_start;
	return 0;
}

/*
 * Learns where the thread's own stack is. The kernel may be too busy with the memory map to say
 * (threads being created): then only the top of the stack is known, until the next call.
 */
static __noinline int find_home(struct rt_stack *s, struct task_struct *t)
{
	rt_u64 hi, lo = 0, limit;

	if (t->pid == t->tgid) {
		hi = (t->mm->start_stack | 0xfff) + 1;
		limit = t->signal->rlim[RLIMIT_STACK].rlim_cur;
		if (limit < MAIN_STACK_MIN_BYTES)
			limit = MAIN_STACK_MIN_BYTES;
		if (limit > MAIN_STACK_MAX_BYTES)
			limit = MAIN_STACK_MAX_BYTES;
		lo = hi - limit;
	} else {
		hi = t->thread.fsbase;
		bpf_find_vma(t, hi, note_area, &lo, 0);
	}
	s->home_lo = lo ?: hi - SURE_STACK_BYTES;
	s->home_hi = hi;
	if (lo)
		s->flags |= RT_STACK_HOME;
	return 0;
}

static __always_inline bool is_foreign(const struct rt_stack *s, rt_u64 sp)
{
	return sp - s->home_lo >= s->home_hi - s->home_lo;
}

static __always_inline void deactivate(struct rt_stack *s, rt_u32 fn)
{
	s->active[fn & (RT_ACTIVE_SLOTS - 1)]--;
}

/* Exits of the function went unseen since: how this call ended is not known. */
static __always_inline bool is_given_up(const struct rt_frame *f, rt_u32 state)
{
	return RT_FRAME_EPOCH(f->flags) != RT_CONF_EPOCH(state);
}

/*
 * Links are replaced without losing or doubling an event, though both the old and the new one have
 * a program on the breakpoint and the switch may come between the two. The kernel runs the newest
 * first. So the new one decides, by the generation that is live when it looks, and leaves a mark
 * when it took the event; the old one takes just those without. Says whether this program, of the
 * cookie, is to take the event.
 */
__noinline int hand_over(rt_u64 cookie, rt_u32 live, rt_u32 exit)
{
	rt_u32 gen = RT_COOKIE_GEN(cookie), mark = RT_MARK(RT_COOKIE_FN(cookie), live, exit);
	struct rt_stack *s;

	if (gen != live && RT_GEN_NEXT(gen) != live)
		return 0;
	s = stack_make(bpf_get_current_task_btf());
	if (!s) {
		lose(RT_LOST_NO_STORAGE);
		return gen == live;
	}
	if (gen == live) {
		s->mark = mark;
		return 1;
	}
	if (s->mark != mark)
		return 1;
	s->mark = 0;
	return 0;
}

/* Books a frame that ended without an exit. */
static __always_inline void book_unwound(struct rt_stack *s, const struct rt_frame *f, bool ended)
{
	rt_u32 fn = f->fn;
	struct rt_fn_conf *conf = conf_of(fn);
	struct rt_fn_stats *st = stats_of(fn);

	deactivate(s, fn);
	if (!st || !conf)
		return;
	if (is_given_up(f, *(volatile rt_u32 *)&conf->state)) {
		add(&st->untimed, 1);
		lose(RT_LOST_SHED_IN_FLIGHT);
	} else if (ended) {
		add(&conf->ended, 1);
	} else {
		add(&st->unwound, 1);
	}
}

struct walk {
	struct rt_stack *s;
	rt_u64 sp;
	rt_u64 alt_lo, alt_bytes; /* a signal stack that is left with all that is on it */
	rt_u32 from;		  /* first frame looked at */
	rt_u32 kept;		  /* frames below `kept` stay */
	rt_u32 fn;
	rt_u32 found;	/* index + 1 */
	rt_u32 foreign; /* where the thread runs now: RT_FRAME_FOREIGN or 0 */
};

static __always_inline bool is_dead(const struct rt_frame *f, rt_u64 sp, bool foreign)
{
	rt_u64 now;

	if (f->sp == sp)
		return true;
	if (!foreign && !(f->flags & RT_FRAME_FOREIGN))
		return f->sp < sp;
	if (!f->ret_addr || bpf_probe_read_user(&now, sizeof(now), (void *)f->sp))
		return false;
	return now != f->ret_addr;
}

static long sweep_one(rt_u64 n, struct walk *w)
{
	rt_u32 i = w->from + n, below;
	struct rt_stack *s = w->s;
	struct rt_frame *f = frame_at(s, i);

	if (i >= s->depth)
		return 1;
	if (!is_dead(f, w->sp, w->foreign) && f->sp - w->alt_lo >= w->alt_bytes) {
		if (w->kept != i)
			*frame_at(s, w->kept) = *f;
		w->kept++;
		return 0;
	}
	/* its probes ran inside the nearest frame that lives on */
	below = w->kept - 1;
	if (w->kept)
		frame_at(s, below)->cost_ns +=
			f->cost_ns + prices.entry_ns[f->flags & RT_FRAME_STEPPED];
	book_unwound(s, f, false);
	return 0;
}

/* Drops the dead among the frames from `from` on, as seen by a thread at stack pointer sp. */
__noinline int sweep(struct rt_stack *s, rt_u64 sp, rt_u32 from)
{
	struct walk w = { .s = s, .sp = sp, .from = from, .kept = from };

	if (!s)
		return 0;
	w.foreign = is_foreign(s, sp) ? RT_FRAME_FOREIGN : 0;
	bpf_loop(RT_STACK_DEPTH, sweep_one, &w, 0);
	s->depth = w.kept;
	return 0;
}

static long find_call_one(rt_u64 n, struct walk *w)
{
	rt_u32 i = w->s->depth - 1 - n;
	struct rt_frame *f = frame_at(w->s, i);

	if (n >= w->s->depth)
		return 1;
	if (f->fn != w->fn || f->sp != w->sp)
		return 0;
	w->found = i + 1;
	return 1;
}

/* The newest frame of fn at stack pointer sp: its index + 1, or 0. */
__noinline int find_call(struct rt_stack *s, rt_u32 fn, rt_u64 sp)
{
	struct walk w = { .s = s, .sp = sp, .fn = fn };

	if (!s)
		return 0;
	bpf_loop(RT_STACK_DEPTH, find_call_one, &w, 0);
	return w.found;
}

static long find_active_one(rt_u64 n, struct walk *w)
{
	rt_u32 i = w->s->depth - 1 - n;
	struct rt_frame *f = frame_at(w->s, i);

	if (n >= w->s->depth)
		return 1;
	if (f->fn != w->fn || w->foreign != (f->flags & RT_FRAME_FOREIGN))
		return 0;
	w->found = !w->foreign || f->sp - w->sp < SAME_STACK_BYTES;
	return 1;
}

/*
 * Whether a call of fn at sp is made while another is active on the same stack. Stacks other than
 * the thread's own are told apart by distance: calls of one recursion lie close together.
 */
__noinline int is_active(struct rt_stack *s, rt_u32 fn, rt_u64 sp, rt_u32 foreign)
{
	struct walk w = { .s = s, .sp = sp, .fn = fn, .foreign = foreign };

	if (!s)
		return 0;
	bpf_loop(RT_STACK_DEPTH, find_active_one, &w, 0);
	return w.found;
}

static long find_caller_one(rt_u64 n, struct walk *w)
{
	rt_u32 i = w->from - 1 - n;

	if (n >= w->from)
		return 1;
	if (frame_at(w->s, i)->flags & RT_FRAME_FOREIGN)
		return 0;
	w->found = i + 1;
	return 1;
}

/* The caller of frame i: the nearest below it on the thread's own stack. Index + 1, or 0. */
__noinline int find_caller(struct rt_stack *s, rt_u32 i)
{
	struct walk w = { .s = s, .from = i };

	if (!s)
		return 0;
	bpf_loop(RT_STACK_DEPTH, find_caller_one, &w, 0);
	return w.found;
}

static __always_inline rt_u32 caller_of(struct rt_stack *s, rt_u32 i)
{
	if (!i || (frame_at(s, i)->flags & RT_FRAME_FOREIGN))
		return 0;
	if (!(frame_at(s, i - 1)->flags & RT_FRAME_FOREIGN))
		return i;
	return find_caller(s, i);
}

static long close_gap_one(rt_u64 n, struct walk *w)
{
	rt_u32 i = w->from + n;

	if (i + 1 >= w->s->depth)
		return 1;
	*frame_at(w->s, i) = *frame_at(w->s, i + 1);
	return 0;
}

/* Takes frame i out from under frames that live on another stack. */
__noinline int close_gap(struct rt_stack *s, rt_u32 i)
{
	struct walk w = { .s = s, .from = i };

	if (!s)
		return 0;
	bpf_loop(RT_STACK_DEPTH, close_gap_one, &w, 0);
	s->depth--;
	return 0;
}

/*
 * Under return probes a function that was jumped to, not called, finds the trampoline as its return
 * address: its caller by jump, at the same stack pointer, is alive and will be seen to return too.
 */
static __always_inline bool is_tail_called(struct task_struct *t, rt_u64 sp)
{
	struct xol_area *area = t->mm->uprobes_state.xol_area;
	rt_u64 slot;

	return area && !bpf_probe_read_user(&slot, sizeof(slot), (void *)sp) && slot == area->vaddr;
}

/* A call that is only counted: what is left of it is the price of its probe, in its caller. */
__noinline int enter_untimed(rt_u64 sp, rt_u32 class)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct rt_stack *s = stack_of(t, t->pid);

	if (!s || !s->depth)
		return 0;
	if (frame_at(s, s->depth - 1)->sp <= sp)
		sweep(s, sp, 0);
	if (s->depth)
		frame_at(s, s->depth - 1)->cost_ns += prices.entry_ns[class & RT_FRAME_STEPPED];
	return 0;
}

/* The path of frame i, which is of fn. */
static __always_inline rt_u16 path_of(struct rt_stack *s, rt_u32 i, rt_u32 fn)
{
	rt_u32 above = caller_of(s, i);

	return (rt_u16)path_step(above ? frame_at(s, above - 1)->path : RT_PATH_ROOT, fn);
}

/* A call begins at stack pointer sp. uret: by return probes, which replace the return address. */
static __always_inline void shadow_enter(struct task_struct *t, rt_u32 fn, rt_u64 sp, rt_u32 class,
					 rt_u32 state, bool uret)
{
	struct rt_fn_stats *st = stats_of(fn);
	rt_u32 d, flags = class | RT_CONF_EPOCH(state) << 8;
	struct rt_frame *f;
	struct rt_stack *s;
	rt_u16 *active;

	if (!st)
		return;
	if (!(state & RT_CONF_TIMED)) {
		add(&st->unsampled, 1);
		enter_untimed(sp, class);
		return;
	}
	add(&st->calls, 1);
	s = stack_make(t);
	if (!s) {
		lose(RT_LOST_NO_STORAGE);
		add(&st->untimed, 1);
		return;
	}
	if (!(s->flags & RT_STACK_HOME))
		find_home(s, t);
	if (is_foreign(s, sp)) {
		flags |= RT_FRAME_FOREIGN;
		lose(RT_LOST_OTHER_STACK);
	}
	d = s->depth;
	if (d) {
		f = frame_at(s, d - 1);
		if ((f->sp <= sp || ((f->flags ^ flags) & RT_FRAME_FOREIGN)) &&
		    !(uret && f->sp == sp && is_tail_called(t, sp))) {
			sweep(s, sp, 0);
			d = s->depth;
		}
	}
	if (d >= RT_STACK_DEPTH) {
		lose(RT_LOST_DEPTH_EXCEEDED);
		add(&st->untimed, 1);
		return;
	}
	active = &s->active[fn & (RT_ACTIVE_SLOTS - 1)];
	if (*active && is_active(s, fn, sp, flags & RT_FRAME_FOREIGN))
		flags |= RT_FRAME_NESTED;
	(*active)++;
	f = frame_at(s, d);
	f->sp = sp;
	f->ret_addr = 0;
	/* a read of user memory is dear (280 ns in a VM): only where it is the only proof */
	if (!uret && flags & RT_FRAME_FOREIGN)
		bpf_probe_read_user(&f->ret_addr, sizeof(f->ret_addr), (void *)sp);
	f->child_ns = 0;
	f->cost_ns = 0;
	f->fn = fn;
	f->flags = (rt_u16)flags;
	f->path = path_of(s, d, fn);
	s->depth = d + 1;
	f->start_ns = bpf_ktime_get_ns();
}

/* Books a finished call: dt is its raw duration, floor what an empty function would show. */
static __always_inline void book_returned(struct rt_stack *s, rt_u32 i, rt_u64 dt, rt_u64 floor,
					  rt_u64 pair_cost, rt_u32 flags)
{
	struct rt_frame *f = frame_at(s, i), *caller;
	rt_u32 fn = f->fn, above = caller_of(s, i);
	rt_u64 inside = raw ? 0 : f->cost_ns, net, inner;

	if (inside > dt) {
		inside = dt;
		flags |= BOOK_CLAMPED;
	}
	if (f->flags & RT_FRAME_NESTED)
		flags |= BOOK_NESTED;
	dt -= inside;
	/* what is no one's own work is in no one's self time: the floor neither */
	net = raw ? dt : dt > floor ? dt - floor : 0;
	inner = dt - net + f->child_ns;
	inner = inner < dt ? inner : dt;
	book_call(fn, dt, inner, inside, flags);
	path_add(f->path, dt, dt - inner);
	if (above) {
		caller = frame_at(s, above - 1);
		caller->cost_ns += f->cost_ns + pair_cost;
		caller->child_ns += net;
		edge_add(caller->fn, fn, flags & BOOK_NESTED ? 0 : dt);
	}
}

/* A probe of fn fired and it was no event: its price counts all the same. */
static __always_inline void book_miss(rt_u32 fn, rt_u32 class)
{
	struct rt_fn_stats *st = stats_of(fn);

	if (!st)
		return;
	add(&st->misses, 1);
	if (class & RT_FRAME_STEPPED)
		add(&st->stepped, 1);
}

/* An exit without an entry. Its price stays in whatever call is open. */
static __noinline int book_orphan(struct rt_stack *s, rt_u32 fn, rt_u32 class, rt_u32 gaps)
{
	if (!gaps)
		lose(RT_LOST_ORPHAN_EXITS);
	book_miss(fn, class);
	if (s && s->depth)
		frame_at(s, s->depth - 1)->cost_ns += prices.exit_ns[class & RT_FRAME_STEPPED];
	return 0;
}

/* The frame's exits were not watched all the time: this may be the exit of another call. */
static __noinline int book_given_up(rt_u32 fn, rt_u32 class)
{
	struct rt_fn_stats *st = stats_of(fn);

	lose(RT_LOST_SHED_IN_FLIGHT);
	if (st)
		add(&st->untimed, 1);
	book_miss(fn, class);
	return 0;
}

/* A call of fn ends with the stack pointer at sp. */
static __always_inline void shadow_leave(struct task_struct *t, rt_u32 fn, rt_u64 sp, rt_u64 now,
					 rt_u32 kind, rt_u32 class, rt_u32 state)
{
	struct rt_stack *s = stack_of(t, t->pid);
	rt_u32 d, entry, flags, gaps = state & RT_CONF_GAPS;
	rt_u64 floor, cost;
	struct rt_frame *f;

	if (!s || !s->depth) {
		book_orphan(s, fn, class, gaps);
		return;
	}
	d = s->depth;
	f = frame_at(s, d - 1);
	if (f->sp != sp || f->fn != fn) {
		/* beyond the last frame there is room for: its call is counted already */
		if (d >= RT_STACK_DEPTH && sp < f->sp) {
			book_miss(fn, class);
			return;
		}
		d = find_call(s, fn, sp);
		if (!d) {
			book_orphan(s, fn, class, gaps);
			return;
		}
		sweep(s, sp, d);
		f = frame_at(s, d - 1);
	}
	entry = f->flags & RT_FRAME_STEPPED;
	class &= RT_FRAME_STEPPED;
	if (kind == RT_SITE_URET) {
		floor = prices.floor_uret_ns[entry];
		cost = prices.entry_ns[entry] + prices.uret_ns;
	} else {
		floor = prices.floor_ns[entry][class];
		cost = prices.entry_ns[entry] + prices.exit_ns[class];
	}
	deactivate(s, fn);
	if (is_given_up(f, state)) {
		book_given_up(fn, class);
	} else if (now < f->start_ns) {
		struct rt_fn_stats *st = stats_of(fn);

		lose(RT_LOST_CLOCK);
		if (st)
			add(&st->untimed, 1);
	} else {
		flags = class ? BOOK_STEPPED : 0;
		if (kind == RT_SITE_TAIL || kind == RT_SITE_JCC)
			flags |= BOOK_TAIL;
		book_returned(s, d - 1, now - f->start_ns, floor, cost, flags);
	}
	/* frames above, on other stacks, outlive this one: close the gap */
	if (d != s->depth)
		close_gap(s, d - 1);
	else
		s->depth = d - 1;
}

/* The probe of a catch or a jump ran inside the innermost call that lives on. */
static __always_inline void charge_landing(struct rt_stack *s, rt_u32 class)
{
	if (s->depth)
		frame_at(s, s->depth - 1)->cost_ns += prices.entry_ns[class & RT_FRAME_STEPPED];
}

/* A panic was caught at stack pointer sp. */
static __always_inline void shadow_catch(struct task_struct *t, rt_u64 sp, rt_u32 class)
{
	struct rt_stack *s = stack_of(t, t->pid);

	if (!s || !s->depth)
		return;
	sweep(s, sp, 0);
	charge_landing(s, class);
}

/* jmp_buf on x86-64, in glibc and musl: rbx, rbp, r12 to r15, rsp, rip. */
#define JMP_BUF_SP 48
/* glibc mangles addresses there: xor with a secret of the thread control block, rotated left. */
#define POINTER_GUARD 0x30
#define MANGLE_ROTATE 17

/* Whether a jump at stack pointer sp may lead there: up on the thread's own stack, or back to it.
 */
static __always_inline bool may_land(const struct rt_stack *s, rt_u64 sp, rt_u64 to)
{
	return !(to & 7) && !is_foreign(s, to) && (is_foreign(s, sp) || to > sp);
}

/* The stack pointer that a jmp_buf holds; 0: none that is believed. */
static __always_inline rt_u64 landing_of(const struct rt_stack *s, struct task_struct *t, rt_u64 sp,
					 rt_u64 buf)
{
	rt_u64 kept, guard, to;

	if (bpf_probe_read_user(&kept, sizeof(kept), (void *)(buf + JMP_BUF_SP)))
		return 0;
	if (may_land(s, sp, kept))
		return kept;
	if (bpf_probe_read_user(&guard, sizeof(guard), (void *)(t->thread.fsbase + POINTER_GUARD)))
		return 0;
	to = (kept >> MANGLE_ROTATE | kept << (64 - MANGLE_ROTATE)) ^ guard;
	return may_land(s, sp, to) ? to : 0;
}

/*
 * longjmp at stack pointer sp. Only where it leads to the thread's own stack is it known what is
 * left behind; from a signal stack, that too.
 */
__noinline int shadow_jump(rt_u64 sp, rt_u64 buf, rt_u32 class)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct rt_stack *s = stack_of(t, t->pid);
	struct walk w = {};
	rt_u64 to;

	if (!s || !s->depth)
		return 0;
	to = landing_of(s, t, sp, buf);
	if (!to)
		return 0;
	w.s = s;
	w.sp = to - 8;
	if (sp - t->sas_ss_sp < t->sas_ss_size) {
		w.alt_lo = t->sas_ss_sp;
		w.alt_bytes = t->sas_ss_size;
	}
	bpf_loop(RT_STACK_DEPTH, sweep_one, &w, 0);
	s->depth = w.kept;
	charge_landing(s, class);
	return 0;
}

static long end_one(rt_u64 n, struct walk *w)
{
	if (n >= w->s->depth)
		return 1;
	book_unwound(w->s, frame_at(w->s, n), w->found);
	return 0;
}

/* The thread is gone: with the whole process (ended) or by itself. */
static __always_inline void shadow_end(struct rt_stack *s, bool ended)
{
	struct walk w = { .s = s, .found = ended };

	bpf_loop(RT_STACK_DEPTH, end_one, &w, 0);
	s->depth = 0;
}

#endif
