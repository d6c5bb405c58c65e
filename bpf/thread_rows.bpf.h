/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Rows of threads: taken at the first event, added to the dead and given back at the last; and what
 * a thread that blocks is waiting for.
 */
#ifndef THREAD_ROWS_BPF_H
#define THREAD_ROWS_BPF_H

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "lock_site.bpf.h"
#include "syscalls.bpf.h"
#include "thread_times.bpf.h"

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

static __always_inline rt_u32 state_at_futex(struct rt_thread *r, const struct pt_regs *regs,
					     bool own)
{
	rt_u32 op = regs->si, cmd = op & FUTEX_CMD_MASK;

	r->wait_addr = regs->di;
	r->wait_ip = regs->ip;
	r->wait_sp = regs->sp;
	r->wait_op = op;
	r->wait_val = regs->dx;
	r->lock = RT_LOCK_NONE;
	if (cmd == FUTEX_LOCK_PI || cmd == FUTEX_LOCK_PI2)
		r->lock = RT_LOCK_MUTEX;
	else if (own && (cmd == FUTEX_WAIT || cmd == FUTEX_WAIT_BITSET))
		r->lock = lock_waited_for(regs, &r->lock_addr);
	/* of another thread's memory nothing can be read here: the daemon looks at it */
	return r->lock ? RT_STATE_LOCK : RT_STATE_FUTEX;
}

/* own: t is the current thread. */
static __always_inline rt_u32 blocked_in(struct rt_thread *r, struct task_struct *t, bool own)
{
	const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	rt_u32 nr, kind;

	r->syscall = 0;
	r->wait_addr = r->lock_addr = 0;
	if (!regs)
		return RT_STATE_OTHER;
	nr = regs->orig_ax; /* -1 in faults and interrupts */
	kind = nr < SYSCALLS_KNOWN && regs->cs == USER_CS_64 ? syscall_kinds[nr] : 0;
	if (nr < SYSCALLS_MAX)
		r->syscall = nr + 1;
	if (kind == SYSCALL_FUTEX)
		return state_at_futex(r, regs, own);
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
	if (*(volatile rt_u32 *)&rows_taken + RT_THREAD_NAMES >= thread_rows)
		return 0;
	row = __sync_fetch_and_add(&rows_taken, 1) + RT_THREAD_NAMES;
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
	/* one that has run since then has run all the time: so much is known */
	r->exec_ns = t->se.sum_exec_runtime;
	if (state == RT_STATE_RUNNING)
		r->exec_ns -= bpf_ktime_get_ns() - born;
	r->tid = id_of(t, ns_below);
	r->ns_tid = id_of(t, 0);
	r->base_user_ns = r->user_ns = t->utime;
	r->base_system_ns = r->system_ns = t->stime;
	bpf_probe_read_kernel(r->comm, sizeof(r->comm), t->comm);
	r->state = state == RT_STATE_OTHER ? blocked_in(r, t, false) : state;
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

/* The row for the dead of this name. */
static __noinline rt_u32 grave_of(const struct rt_thread *r)
{
	char comm[RT_COMM_BYTES] = {};
	rt_u32 row, *known;
	struct rt_thread *grave;

	if (!r)
		return RT_THREAD_EXITED;
	/* without what older kernels leave of a longer name behind the end of this one */
	bpf_probe_read_kernel_str(comm, sizeof(comm), r->comm);
	known = bpf_map_lookup_elem(&row_of_dead, comm);
	if (known)
		return *known;
	if (*(volatile rt_u32 *)&names_taken + 1 >= RT_THREAD_NAMES)
		return RT_THREAD_EXITED;
	row = __sync_fetch_and_add(&names_taken, 1) + 1;
	grave = row < RT_THREAD_NAMES ? row_at(row) : NULL;
	if (!grave)
		return RT_THREAD_EXITED;
	__builtin_memcpy(grave->comm, comm, sizeof(comm));
	if (!bpf_map_update_elem(&row_of_dead, comm, &row, BPF_NOEXIST))
		return row;
	/* somebody else was first: that row stays empty */
	known = bpf_map_lookup_elem(&row_of_dead, comm);
	return known ? *known : RT_THREAD_EXITED;
}

struct burial {
	rt_u32 row, grave;
};

/* Buckets of one chunk of a dead thread's waits go to those of all the dead of its name. */
static long bury_chunk(rt_u64 c, struct burial *b)
{
	struct rt_thread *from = row_at(b->row), *to = row_at(b->grave);
	struct rt_hist_chunk *a, *sum;
	rt_u32 key;

	if (!from || !to)
		return 1;
	key = from->queue.chunk[c & (RT_HIST_CHUNKS - 1)];
	if (!key)
		return 0;
	a = bpf_map_lookup_elem(&chunks, &key);
	key = chunk_of(&to->queue, c);
	sum = key ? bpf_map_lookup_elem(&chunks, &key) : NULL;
	if (!a)
		return 0;
	for (int i = 0; sum && i < (int)RT_HIST_CHUNK; i++) {
		if (a->count[i])
			__sync_fetch_and_add(&sum->count[i], a->count[i]);
	}
	for (int i = 0; !sum && i < (int)RT_HIST_CHUNK; i++)
		__sync_fetch_and_add(&to->queue.hist_lost, a->count[i]);
	__builtin_memset(a, 0, sizeof(*a));
	return 0;
}

#define MOVE(member)                                                                               \
	do {                                                                                       \
		__sync_fetch_and_add(&to->member, from->member);                                   \
		from->member = 0;                                                                  \
	} while (0)

/* The row is added to that of its name, emptied (but for its chunks) and free. */
__noinline int bury(rt_u32 row)
{
	struct rt_thread *from = row_at(row), *to;
	struct burial b = { .row = row, .grave = grave_of(from) };
	rt_u32 pid;

	to = row_at(b.grave);
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
	bpf_loop(RT_HIST_CHUNKS, bury_chunk, &b, 0);
	__sync_fetch_and_add(&to->exited, 1);
	from->state = RT_STATE_NONE;
	bpf_map_delete_elem(&row_of, &pid);
	bpf_map_push_elem(&free_rows, &row, 0);
	return 0;
}

#endif
