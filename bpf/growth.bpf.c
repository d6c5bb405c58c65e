/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Who makes the process larger: programs where its memory map changes, and at its page faults.
 *
 * Changes are not taken from the arguments of mmap, brk and their kind (they fail, they lie over
 * older mappings, the kernel rounds), but from what the kernel itself says the process has mapped:
 * whatever it differs by since the last look was done by the thread that holds the map now. The
 * tracepoint for that is where the map's lock is let go, just before it is: nobody else can change
 * it in between. So the sum over all call paths is what the process grew by, to the page.
 *
 * The lock is also let go by those who only read the map. They are told by `write`; but an munmap
 * that has become a reader before it is done counts too. Page faults that find no room extend the
 * stack as writers.
 *
 * Other processes leave after one comparison.
 */
#include "kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "growth.bpf.h"
#include "growth_stack.bpf.h"
#include "spent.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_MUNMAP 11
#define NR_BRK 12
#define NR_MREMAP 25
#define NR_SHMDT 67
#define NR_EXECVE 59
#define NR_EXECVEAT 322

static __always_inline bool is_target(const struct task_struct *t)
{
	return t->tgid == (int)target_tgid;
}

/* Outside traced functions the name of the thread is all there is. */
static __always_inline struct rt_growth *row_of_thread(struct task_struct *t)
{
	struct rt_growth none = {}, *row;
	struct thread_name key;

	bpf_probe_read_kernel(key.comm, sizeof(key.comm), t->comm);
	row = bpf_map_lookup_elem(&by_thread, &key);
	if (row)
		return row;
	bpf_map_update_elem(&by_thread, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&by_thread, &key);
}

static __always_inline struct rt_growth *growth_row(struct task_struct *t, rt_u64 sp)
{
	rt_u32 path = with_paths ? owner_at(t, sp) : RT_PATH_ROOT;
	struct rt_growth *row = path == RT_PATH_ROOT ? row_of_thread(t) : 0;
	rt_u32 key = path * (shard_mask + 1) + (bpf_get_smp_processor_id() & shard_mask);

	return row ?: bpf_map_lookup_elem(&grown, &key);
}

static __always_inline rt_u64 change(rt_u64 *last_pages, rt_u64 now)
{
	rt_u64 was = __sync_lock_test_and_set(last_pages, now + 1);

	return was ? now + 1 - was : 0;
}

/* A reader that may have shrunk the map before it became one. */
static __always_inline bool may_unmap(rt_u64 nr)
{
	return nr == NR_MUNMAP || nr == NR_BRK || nr == NR_MREMAP || nr == NR_SHMDT;
}

/* native: with a stack, if it is in the sample. */
static __always_inline void compare(struct task_struct *t, struct mm_struct *mm, bool write,
				    bool native)
{
	struct pt_regs *regs;
	rt_u64 pages, data;
	struct rt_growth *row;

	regs = (struct pt_regs *)bpf_task_pt_regs(t);
	if (!write && !may_unmap(regs->orig_ax))
		return;
	/* the map of the program to come */
	if (regs->orig_ax == NR_EXECVE || regs->orig_ax == NR_EXECVEAT)
		return;
	pages = change(&last.total_pages, mm->total_vm);
	data = change(&last.data_pages, mm->data_vm);
	if (!gate || (!pages && !data))
		return;
	row = growth_row(t, regs->sp);
	if (!row)
		return;
	add((rt_s64)pages > 0 ? &row->mapped_pages : &row->unmapped_pages,
	    (rt_s64)pages > 0 ? pages : -pages);
	add(&row->data_pages, data);
	if (native)
		map_stack(regs, t, (rt_s64)pages, (rt_s64)data);
}

static __always_inline int on_change(struct mm_struct *mm, bool write, bool native)
{
	struct task_struct *t = bpf_get_current_task_btf();
	struct spending cost;

	if (!is_target(t) || t->mm != mm)
		return 0;
	spending_begins(RT_SPENT_MAP, &cost);
	compare(t, mm, write, native);
	spending_ends(&cost);
	return 0;
}

SEC("tp_btf/mmap_lock_released")
int BPF_PROG(map_changed, struct mm_struct *mm, bool write)
{
	return on_change(mm, write, false);
}

SEC("tp_btf/mmap_lock_released")
int BPF_PROG(map_changed_native, struct mm_struct *mm, bool write)
{
	return on_change(mm, write, true);
}

/* ---- first touches, mostly ---- */

static __always_inline int count_fault(struct task_struct *t, bool native)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(t);
	struct spending cost;
	struct rt_growth *row;

	spending_begins(RT_SPENT_FAULT, &cost);
	row = growth_row(t, regs->sp);
	if (row)
		add(&row->faults, 1);
	if (row && native)
		fault_stack(regs, t);
	spending_ends(&cost);
	return 0;
}

static __always_inline int on_fault(bool native)
{
	struct task_struct *t = bpf_get_current_task_btf();

	return is_target(t) && gate ? count_fault(t, native) : 0;
}

/* The kernel itself touches the program's memory: a read into a new buffer. What it only tries
 * (among others our own reading of stacks) is not waited for, and touches nothing. */
static __always_inline int on_kernel_fault(unsigned long address, bool native)
{
	struct task_struct *t = bpf_get_current_task_btf();

	if ((rt_s64)address < 0 || !is_target(t) || !gate || t->pagefault_disabled)
		return 0;
	return count_fault(t, native);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs)
{
	return on_fault(false);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user_native, unsigned long address, struct pt_regs *regs)
{
	return on_fault(true);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address)
{
	return on_kernel_fault(address, false);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel_native, unsigned long address)
{
	return on_kernel_fault(address, true);
}

/* What the new program does is not the old one's growth. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(growth_exec, struct task_struct *p)
{
	if (is_target(p))
		gate = 0;
	return 0;
}
