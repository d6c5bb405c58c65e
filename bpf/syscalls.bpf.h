/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a thread that blocks in a system call of x86-64 waits for. What is not here may block on a
 * disk (the kernel's iowait flag tells) or on anything else.
 */
#ifndef SYSCALLS_BPF_H
#define SYSCALLS_BPF_H

#include "roletrace/threads.h"

#define SYSCALLS_KNOWN 512u /* size of the table */
#define SYSCALLS_MAX 0xffffu
#define SYSCALL_FUTEX RT_STATE_FUTEX
#define SYSCALL_FILE 100u /* what the file is decides */
#define USER_CS_64 0x33

/* include/uapi/linux/futex.h */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
#define FUTEX_CMD_MASK (~(128u | 256u)) /* private, clock */

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFIFO 0010000

/* arch/x86/entry/syscalls/syscall_64.tbl */
const volatile rt_u8 syscall_kinds[SYSCALLS_KNOWN] = {
	[202] = SYSCALL_FUTEX, /* futex */

	[7] = RT_STATE_EPOLL,	/* poll */
	[23] = RT_STATE_EPOLL,	/* select */
	[208] = RT_STATE_EPOLL, /* io_getevents */
	[232] = RT_STATE_EPOLL, /* epoll_wait */
	[270] = RT_STATE_EPOLL, /* pselect6 */
	[271] = RT_STATE_EPOLL, /* ppoll */
	[281] = RT_STATE_EPOLL, /* epoll_pwait */
	[426] = RT_STATE_EPOLL, /* io_uring_enter */
	[441] = RT_STATE_EPOLL, /* epoll_pwait2 */

	[35] = RT_STATE_SLEEP,	/* nanosleep */
	[230] = RT_STATE_SLEEP, /* clock_nanosleep */

	[42] = RT_STATE_SOCKET,	 /* connect */
	[43] = RT_STATE_SOCKET,	 /* accept */
	[44] = RT_STATE_SOCKET,	 /* sendto */
	[45] = RT_STATE_SOCKET,	 /* recvfrom */
	[46] = RT_STATE_SOCKET,	 /* sendmsg */
	[47] = RT_STATE_SOCKET,	 /* recvmsg */
	[288] = RT_STATE_SOCKET, /* accept4 */
	[299] = RT_STATE_SOCKET, /* recvmmsg */
	[307] = RT_STATE_SOCKET, /* sendmmsg */

	[26] = RT_STATE_IO,  /* msync */
	[74] = RT_STATE_IO,  /* fsync */
	[75] = RT_STATE_IO,  /* fdatasync */
	[162] = RT_STATE_IO, /* sync */
	[277] = RT_STATE_IO, /* sync_file_range */
	[306] = RT_STATE_IO, /* syncfs */

	[0] = SYSCALL_FILE,   /* read */
	[1] = SYSCALL_FILE,   /* write */
	[17] = SYSCALL_FILE,  /* pread64 */
	[18] = SYSCALL_FILE,  /* pwrite64 */
	[19] = SYSCALL_FILE,  /* readv */
	[20] = SYSCALL_FILE,  /* writev */
	[40] = SYSCALL_FILE,  /* sendfile: to */
	[275] = SYSCALL_FILE, /* splice: from */
	[295] = SYSCALL_FILE, /* preadv */
	[296] = SYSCALL_FILE, /* pwritev */
	[327] = SYSCALL_FILE, /* preadv2 */
	[328] = SYSCALL_FILE, /* pwritev2 */
};

#endif
