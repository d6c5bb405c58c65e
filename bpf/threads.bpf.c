/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The scheduler's events: which state each thread of the target is in, and how long. Knows nothing
 * of functions or of stacks.
 *
 * Each event ends one state and begins another, so the times of a thread add up to its life by
 * construction:
 *
 *	runnable --in--> running --out--> blocked by what it waits in --waking--> runnable
 *	                    '------out, could go on----> preempted --in--> running
 *
 * What a thread waits in is read where it blocks, from the registers that its system call saved: a
 * few loads, where tracepoints at system calls would cost each call of each process.
 *
 * sched_waking is used, not sched_wakeup: it runs in the waker's own context, so "who woke it" is
 * known. It may come in the moment between the thread's decision to block and its switch-out; then
 * the thread is still running for us, and the event is left to the switch-in, which closes any
 * state.
 *
 * Every switch of the machine runs `sched_switch` here: foreign ones leave after two comparisons.
 */
#include "kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "syscalls.bpf.h"
#include "threads_maps.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TASK_STOPPED_OR_TRACED 0x0c /* include/linux/sched.h */
#define TASK_DEAD 0x80

#define KERNEL_STACK_BYTES 32768 /* with KASAN; else half of it */

/* ---- durations ---- */

/* The number of the chunk c of these durations; 0: none left. */
static __always_inline rt_u32 chunk_of(struct rt_times *t, rt_u32 c)
{
	rt_u32 *slot = &t->chunk[c & (RT_HIST_CHUNKS - 1)], n = *(volatile rt_u32 *)slot, old;

	if (n)
		return n;
	if (*(volatile rt_u32 *)&chunks_taken + 1 >= chunk_cnt)
		return 0;
	n = __sync_fetch_and_add(&chunks_taken, 1) + 1;
	if (n >= chunk_cnt)
		return 0;
	old = __sync_val_compare_and_swap(slot, 0, n);
	return old ? old : n;
}

static __always_inline void raise_to(rt_u64 *max, rt_u64 v)
{
	if (v > *(volatile rt_u64 *)max)
		*(volatile rt_u64 *)max = v;
}

static __always_inline void times_add(struct rt_times *t, rt_u64 ns)
{
	struct rt_hist_chunk *chunk;
	rt_u32 place, key;

	__sync_fetch_and_add(&t->cnt, 1);
	__sync_fetch_and_add(&t->sum_ns, ns);
	raise_to(&t->max_ns, ns);
	raise_to(&t->min_inv_ns, ~ns);
	if (!ns) {
		__sync_fetch_and_add(&t->zero_cnt, 1);
		return;
	}
	place = rt_hist_place(ns, (const rt_u64 *)hist_bounds);
	key = chunk_of(t, place / RT_HIST_CHUNK);
	chunk = key ? bpf_map_lookup_elem(&chunks, &key) : NULL;
	if (chunk) {
		__sync_fetch_and_add(&chunk->count[place % RT_HIST_CHUNK], 1);
		return;
	}
	__sync_fetch_and_add(&t->hist_lost, 1);
	lose(RT_THREAD_LOST_CHUNKS);
}

/* Of row's waits for a CPU. */
__noinline int queue_add(rt_u32 row, rt_u64 ns)
{
	struct rt_thread *r = bpf_map_lookup_elem(&threads, &row);

	if (r)
		times_add(&r->queue, ns);
	return 0;
}

__noinline int futex_add(rt_u64 addr, rt_u64 ip, rt_u32 op, rt_u32 val, rt_u64 ns)
{
	rt_u64 hash = addr * 0x9e3779b97f4a7c15ull, seen;
	rt_u32 at = hash >> 40;

	for (rt_u32 i = 0; i < RT_FUTEX_PROBES; i++) {
		rt_u32 slot = (at + i) & futex_mask;
		struct rt_futex *f = bpf_map_lookup_elem(&futexes, &slot);

		if (!f)
			break;
		seen = *(volatile rt_u64 *)&f->addr;
		if (!seen) {
			seen = __sync_val_compare_and_swap(&f->addr, 0, addr);
			if (!seen)
				seen = addr;
		}
		if (seen != addr)
			continue;
		f->ip = ip;
		f->op = op;
		f->val = val;
		f->last_end_ns = bpf_ktime_get_ns();
		times_add(&f->wait, ns);
		return 0;
	}
	lose(RT_THREAD_LOST_FUTEXES);
	return 0;
}

/* ---- why it blocks ---- */

static __always_inline rt_u32 state_of_file(struct task_struct *t, rt_u64 fd)
{
	struct fdtable *fdt = BPF_CORE_READ(t, files, fdt);
	struct file *file = NULL, **table;
	rt_u32 mode;

	if (!fdt || fd >= BPF_CORE_READ(fdt, max_fds))
		return RT_STATE_OTHER;
	table = BPF_CORE_READ(fdt, fd);
	bpf_probe_read_kernel(&file, sizeof(file), table + fd);
	if (!file)
		return RT_STATE_OTHER;
	mode = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	switch (mode) {
	case S_IFSOCK:
		return RT_STATE_SOCKET;
	case S_IFIFO:
		return RT_STATE_PIPE;
	case S_IFREG:
	case S_IFBLK:
		return RT_STATE_IO;
	default:
		return RT_STATE_OTHER;
	}
}

static __always_inline rt_u32 state_at_futex(struct rt_thread *r, const struct pt_regs *regs)
{
	rt_u32 op = regs->si, val = regs->dx, cmd = op & FUTEX_CMD_MASK;

	r->wait_addr = regs->di;
	r->wait_ip = regs->ip;
	r->wait_op = op;
	r->wait_val = val;
	if (cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2)
		return RT_STATE_LOCK;
	/* both glibc's and std's mutexes sleep at 2: "locked, and somebody waits" */
	return (cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET) && val == 2 ? RT_STATE_LOCK
									   : RT_STATE_FUTEX;
}

static __always_inline rt_u32 blocked_in(struct rt_thread *r, struct task_struct *t)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	rt_u32 nr, kind;

	r->syscall = 0;
	r->wait_addr = 0;
	if (!regs)
		return RT_STATE_OTHER;
	nr = regs->orig_ax; /* -1 in faults and interrupts */
	kind = nr < SYSCALLS_KNOWN && regs->cs == USER_CS_64 ? syscall_kinds[nr] : 0;
	if (nr < SYSCALLS_MAX)
		r->syscall = nr + 1;
	if (kind == SYSCALL_FUTEX)
		return state_at_futex(r, regs);
	if (kind && kind != SYSCALL_FILE)
		return kind;
	if (BPF_CORE_READ_BITFIELD(t, in_iowait))
		return RT_STATE_IO;
	return kind ? state_of_file(t, regs->di) : RT_STATE_OTHER;
}

/* ---- rows ---- */

static __always_inline struct rt_thread *row_at(rt_u32 row)
{
	return bpf_map_lookup_elem(&threads, &row);
}

static __always_inline rt_u32 row_number(rt_u32 pid)
{
	rt_u32 *row = bpf_map_lookup_elem(&row_of, &pid);

	return row ? *row : 0;
}

static __always_inline rt_u32 take_row(void)
{
	rt_u32 row = 0;

	if (!bpf_map_pop_elem(&free_rows, &row))
		return row;
	if (*(volatile rt_u32 *)&rows_taken + 1 >= thread_rows)
		return 0;
	row = __sync_fetch_and_add(&rows_taken, 1) + 1;
	return row < thread_rows ? row : 0;
}

/* The thread's id in its own pid namespace, or in the one that is that many above. */
static __always_inline rt_u32 id_of(const struct task_struct *t, rt_u32 above)
{
	struct pid *pid = BPF_CORE_READ(t, thread_pid);
	struct upid id = {};
	rt_u32 level;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&id, sizeof(id),
			      (void *)pid + bpf_core_field_offset(struct pid, numbers) +
				      (level - above) * sizeof(id));
	return id.nr;
}

/* The time in this state until now. */
static __always_inline void settle_to(struct rt_thread *r, rt_u64 now)
{
	rt_u64 since = r->since_ns;

	if (now > since) {
		r->ns[r->state & (RT_STATE_SLOTS - 1)] += now - since;
		r->since_ns = now;
	}
}

/*
 * A row for a thread that has none: the kernel's own accounts start with it. state is what it has
 * been doing since it was born or the gate opened, for this is its first event since.
 */
static __noinline rt_u32 new_row(struct task_struct *t, rt_u32 state, rt_u64 born)
{
	rt_u32 pid = t->pid, row = take_row();
	struct rt_thread *r;

	if (!row)
		goto full;
	r = row_at(row);
	if (!r)
		return 0;
	r->pid = pid;
	r->born_ns = r->since_ns = born;
	r->cpu = -1;
	r->exec_ns = t->se.sum_exec_runtime;
	r->tid = id_of(t, ns_below);
	r->ns_tid = id_of(t, 0);
	r->base_user_ns = r->user_ns = t->utime;
	r->base_system_ns = r->system_ns = t->stime;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), t->comm);
	r->state = state == RT_STATE_OTHER ? blocked_in(r, t) : state;
	if (!bpf_map_update_elem(&row_of, &pid, &row, BPF_NOEXIST))
		return row;
	/* somebody else was first (or the hash is full): the row goes back */
	r->state = RT_STATE_NONE;
	bpf_map_push_elem(&free_rows, &row, 0);
	row = row_number(pid);
	if (row)
		return row;
full:
	lose(RT_THREAD_LOST_ROWS);
	return 0;
}

static __always_inline rt_u32 row_for(struct task_struct *t, rt_u32 state)
{
	rt_u32 row = row_number(t->pid);

	if (row)
		return row;
	return new_row(t, state, t->start_time > start_ns ? t->start_time : start_ns);
}

/* ---- the dead ---- */

/* Buckets of one chunk of a dead thread's waits go to those of all the dead. */
static long bury_chunk(rt_u64 c, rt_u32 *row)
{
	struct rt_thread *from = row_at(*row), *to = row_at(RT_THREAD_EXITED);
	struct rt_hist_chunk *a, *b;
	rt_u32 key;

	if (!from || !to)
		return 1;
	key = from->queue.chunk[c & (RT_HIST_CHUNKS - 1)];
	if (!key)
		return 0;
	a = bpf_map_lookup_elem(&chunks, &key);
	key = chunk_of(&to->queue, c);
	b = key ? bpf_map_lookup_elem(&chunks, &key) : NULL;
	if (!a)
		return 0;
	for (int i = 0; b && i < (int)RT_HIST_CHUNK; i++) {
		if (a->count[i])
			__sync_fetch_and_add(&b->count[i], a->count[i]);
	}
	for (int i = 0; !b && i < (int)RT_HIST_CHUNK; i++)
		__sync_fetch_and_add(&to->queue.hist_lost, a->count[i]);
	__builtin_memset(a, 0, sizeof(*a));
	return 0;
}

#define MOVE(member)                                                                               \
	do {                                                                                       \
		__sync_fetch_and_add(&to->member, from->member);                                   \
		from->member = 0;                                                                  \
	} while (0)

/* The row is added to row 0, emptied (but for its chunks) and free. */
__noinline int bury(rt_u32 row)
{
	struct rt_thread *from = row_at(row), *to = row_at(RT_THREAD_EXITED);
	rt_u32 pid, at = row;

	if (!from || !to)
		return 0;
	pid = from->pid;
	for (int i = 0; i < (int)RT_STATE_SLOTS; i++)
		MOVE(ns[i]);
	for (int i = 0; i < RT_WOKEN_CNT; i++)
		MOVE(woken[i]);
	for (int i = 0; i < (int)RT_WAKERS; i++)
		from->wakers[i] = (struct rt_waker){};
	MOVE(stolen_ns);
	MOVE(voluntary);
	MOVE(involuntary);
	MOVE(migrations);
	/* what the kernel booked for it since its birth here */
	__sync_fetch_and_add(&to->user_ns, from->user_ns - from->base_user_ns);
	__sync_fetch_and_add(&to->system_ns, from->system_ns - from->base_system_ns);
	raise_to(&to->queue.max_ns, from->queue.max_ns);
	raise_to(&to->queue.min_inv_ns, from->queue.min_inv_ns);
	from->queue.max_ns = from->queue.min_inv_ns = 0;
	MOVE(queue.cnt);
	MOVE(queue.sum_ns);
	MOVE(queue.zero_cnt);
	MOVE(queue.hist_lost);
	bpf_loop(RT_HIST_CHUNKS, bury_chunk, &at, 0);
	__sync_fetch_and_add(&exited_cnt, 1);
	from->state = RT_STATE_NONE;
	bpf_map_delete_elem(&row_of, &pid);
	bpf_map_push_elem(&free_rows, &row, 0);
	return 0;
}

/* ---- events ---- */

static __always_inline bool is_blocked(rt_u32 state)
{
	return state >= RT_STATE_FUTEX && state < RT_STATE_EXITED;
}

/* A wait ends now. One from before the gate opened is of unknown length: in no histogram. */
static __always_inline void end_wait(struct rt_thread *r, rt_u32 row, rt_u64 now)
{
	rt_u64 since = r->since_ns, ns = now > since ? now - since : 0;
	rt_u32 state = r->state;

	settle_to(r, now);
	if (since <= start_ns)
		return;
	if (state == RT_STATE_RUNNABLE || state == RT_STATE_PREEMPTED)
		queue_add(row, ns);
	else if ((state == RT_STATE_FUTEX || state == RT_STATE_LOCK) && r->wait_addr)
		futex_add(r->wait_addr, r->wait_ip, r->wait_op, r->wait_val, ns);
}

static __always_inline void begin(struct rt_thread *r)
{
	__sync_fetch_and_add(&r->seq, 1);
}

static __always_inline void end(struct rt_thread *r)
{
	__sync_fetch_and_add(&r->seq, 1);
}

static __always_inline void switched_out(struct task_struct *t, bool preempt, rt_u32 task_state,
					 rt_u64 now)
{
	rt_u32 row = row_for(t, RT_STATE_RUNNING);
	struct rt_thread *r = row ? row_at(row) : NULL;

	if (!r)
		return;
	begin(r);
	r->stolen_ns += now - r->since_ns - (t->se.sum_exec_runtime - r->exec_ns);
	r->exec_ns = t->se.sum_exec_runtime;
	settle_to(r, now);
	r->user_ns = t->utime;
	r->system_ns = t->stime;
	if (task_state & TASK_DEAD) {
		r->state = RT_STATE_EXITED;
	} else if (preempt || !task_state || !t->__state) {
		/* a signal came between its decision to block and here: __state is 0 again */
		r->involuntary++;
		r->state = RT_STATE_PREEMPTED;
	} else {
		r->voluntary++;
		r->state =
			task_state & TASK_STOPPED_OR_TRACED ? RT_STATE_STOPPED : blocked_in(r, t);
	}
	end(r);
	/* with the whole process gone its threads stay to be seen */
	if (task_state & TASK_DEAD && !(t->signal->flags & SIGNAL_GROUP_EXIT))
		bury(row);
}

static __always_inline void switched_in(struct task_struct *t, rt_u64 now)
{
	rt_u32 row = row_for(t, RT_STATE_RUNNABLE), cpu = bpf_get_smp_processor_id();
	struct rt_thread *r = row ? row_at(row) : NULL;

	if (!r)
		return;
	begin(r);
	end_wait(r, row, now);
	r->migrations += r->cpu != cpu && r->cpu != (rt_u32)-1;
	r->cpu = cpu;
	r->state = RT_STATE_RUNNING;
	end(r);
}

/*
 * The kernel does not tell programs that they run in an interrupt. But that has a stack of its
 * own, which ctx lies on; unless it came in user mode: then the registers saved are no system
 * call's. (A page fault that wakes somebody is taken for an interrupt.)
 */
static __always_inline bool in_interrupt(struct task_struct *t, void *ctx)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	rt_u64 here = 0;

	bpf_probe_read_kernel(&here, sizeof(here), &ctx);
	if (here - (rt_u64)t->stack >= KERNEL_STACK_BYTES)
		return true;
	return t->mm && regs && (long)regs->orig_ax < 0;
}

static __always_inline enum rt_woken who_wakes(struct task_struct *waker, void *ctx)
{
	if (in_interrupt(waker, ctx))
		return RT_WOKEN_BY_INTERRUPT;
	return waker->tgid == (int)target_tgid ? RT_WOKEN_BY_THREAD : RT_WOKEN_BY_PROCESS;
}

static __always_inline void book_waker(struct rt_thread *r, void *ctx)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	rt_u32 who = who_wakes(waker, ctx), pid = waker->pid;

	r->woken[who & 3]++;
	if (who != RT_WOKEN_BY_THREAD)
		return;
	for (int i = 0; i < (int)RT_WAKERS; i++) {
		if (!r->wakers[i].pid)
			r->wakers[i].pid = pid;
		if (r->wakers[i].pid == pid) {
			r->wakers[i].cnt++;
			return;
		}
	}
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	rt_u64 now;

	if (prev->tgid != (int)target_tgid && next->tgid != (int)target_tgid)
		return 0;
	if (!gate)
		return 0;
	now = bpf_ktime_get_ns();
	if (prev->tgid == (int)target_tgid)
		switched_out(prev, preempt, prev_state, now);
	if (next->tgid == (int)target_tgid)
		switched_in(next, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *t)
{
	struct rt_thread *r;
	rt_u32 row;

	if (t->tgid != (int)target_tgid || !gate)
		return 0;
	/* with no row it has done nothing since the gate opened: it was blocked */
	row = row_for(t, t->on_cpu ? RT_STATE_RUNNING : RT_STATE_OTHER);
	r = row ? row_at(row) : NULL;
	if (!r || !is_blocked(r->state))
		return 0;
	begin(r);
	end_wait(r, row, bpf_ktime_get_ns());
	r->state = RT_STATE_RUNNABLE;
	book_waker(r, ctx);
	end(r);
	return 0;
}

/* A new thread, ready to run. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *t)
{
	if (t->tgid == (int)target_tgid && gate)
		new_row(t, RT_STATE_RUNNABLE, bpf_ktime_get_ns());
	return 0;
}

/* ---- looking at all ---- */

static __always_inline rt_u32 state_now(const struct task_struct *t)
{
	rt_u32 state = t->__state;

	if (t->on_cpu)
		return RT_STATE_RUNNING;
	if (!state)
		return RT_STATE_PREEMPTED;
	return state & TASK_STOPPED_OR_TRACED ? RT_STATE_STOPPED : RT_STATE_OTHER;
}

/* Gives a row to each thread that has had no event yet, and notes what only the task knows. */
SEC("iter/task")
int look_at(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct rt_thread *r;
	rt_u32 row;

	if (!t || t->tgid != (int)target_tgid || t->exit_state || t->__state & TASK_DEAD)
		return 0;
	row = row_for(t, state_now(t));
	r = row ? row_at(row) : NULL;
	if (!r)
		return 0;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), t->comm);
	r->user_ns = t->utime;
	r->system_ns = t->stime;
	r->look = look;
	return 0;
}
