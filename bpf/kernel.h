/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The few kernel types the programs touch. CO-RE relocates the fields by name against the running
 * kernel's BTF, so nothing here depends on the kernel of the build machine (no vmlinux.h).
 * pt_regs is the one fixed layout: x86-64's user ABI.
 */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h, the values used */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_RB_FORCE_WAKEUP = 1U << 1,
};
enum { BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
		cs, flags, sp, ss;
};

/* include/uapi/linux/bpf_perf_event.h */
struct bpf_perf_event_data {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
};

/* A call whose return address a return probe has replaced; the newest first. */
struct return_instance {
	unsigned long stack; /* where the return address is */
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
	unsigned long vaddr;	 /* of the instruction that is single-stepped */
	unsigned long xol_vaddr; /* where its copy is */
};

struct xol_area {
	unsigned long vaddr; /* start of [uprobes]: the return trampoline */
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	unsigned long start_stack;
	unsigned long total_vm; /* pages */
	unsigned long data_vm;
	struct uprobes_state uprobes_state;
};

struct rlimit {
	unsigned long rlim_cur;
};

struct signal_struct {
	unsigned int flags;
	int group_exit_code;
	struct task_struct
		*group_exec_task; /* 5.17+, 60700c3f7c92 "signal: Replace group_exit_task" */
	struct rlimit rlim[16];
};

struct thread_struct {
	unsigned long fsbase;
};

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct pid_namespace;
struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	unsigned int __state; /* 5.14+, 2f064a59a11f "sched: Change task_struct::state" */
	void *stack;
	int on_cpu;
	struct sched_entity se;
	int pid;
	int tgid;
	int exit_state;
	int exit_code;
	unsigned in_iowait : 1;
	struct pid *thread_pid;
	__u64 utime;
	__u64 stime;
	unsigned long nvcsw;	 /* how often it blocked */
	unsigned long nivcsw;	 /* and was made to make room */
	unsigned long sas_ss_sp; /* sigaltstack */
	unsigned long sas_ss_size;
	__u64 start_time;
	char comm[16];
	struct files_struct *files;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct thread_struct thread;
	struct uprobe_task *utask;
	int pagefault_disabled;
};

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define SIGNAL_GROUP_EXIT 0x00000004 /* include/linux/sched/signal.h */
#define RLIMIT_STACK 3

#endif
