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
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
};
enum { BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip,
		cs, flags, sp, ss;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
};

struct xol_area {
	unsigned long vaddr; /* start of [uprobes]: the return trampoline */
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	unsigned long start_stack;
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

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct thread_struct thread;
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
