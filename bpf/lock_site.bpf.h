/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whether a wait at a futex whose value is 2 is one for a mutex. Both glibc's and std's mutexes
 * sleep at 2, "locked, and somebody waits"; but so does a condition variable that was notified
 * twice, and a barrier in its second round. The code tells: a mutex waits with the constant 2 in
 * the register of the value, the others with what they have loaded.
 *
 * glibc's mutexes make the system call themselves: "mov $2,%edx" shortly before it. Rust calls
 * libc's syscall(), which ends in "mov 8(%rsp),%r9; syscall": then it is "mov $2,%ecx" shortly
 * before the return address. What was found is kept by address, for reading user memory is dear.
 */
#ifndef LOCK_SITE_BPF_H
#define LOCK_SITE_BPF_H

#include "threads_maps.bpf.h"

#define SITE_BYTES 32
#define SITE_CACHE 64u
#define MOV_EDX 0xba
#define MOV_ECX 0xb9

enum site_verdict { SITE_UNKNOWN, SITE_LOCK, SITE_OTHER, SITE_WRAPPER };

/* address << 2 | verdict */
rt_u64 site_cache[SITE_CACHE];

static __always_inline bool is_wrapper(const rt_u8 *code)
{
	const rt_u8 *tail = code + SITE_BYTES - 7;

	return tail[0] == 0x4c && tail[1] == 0x8b && tail[2] == 0x4c && tail[3] == 0x24 &&
	       tail[4] == 0x08;
}

/* What the code in front of the address does; opcode is that of the mov of the value. */
__noinline int site_verdict(rt_u64 address, rt_u32 opcode)
{
	rt_u64 *slot = &site_cache[(address >> 1) & (SITE_CACHE - 1)],
	       seen = *(volatile rt_u64 *)slot;
	rt_u8 code[SITE_BYTES] = {};
	int verdict = SITE_OTHER;

	if (seen >> 2 == address)
		return seen & 3;
	if (bpf_probe_read_user(code, sizeof(code), (void *)(address - SITE_BYTES)))
		return SITE_UNKNOWN;
	for (int i = 0; i <= SITE_BYTES - 5; i++)
		if (code[i] == opcode && code[i + 1] == 2 && !code[i + 2] && !code[i + 3] &&
		    !code[i + 4])
			verdict = SITE_LOCK;
	if (opcode == MOV_EDX && is_wrapper(code))
		verdict = SITE_WRAPPER;
	*(volatile rt_u64 *)slot = address << 2 | verdict;
	return verdict;
}

/* Of the current thread, which blocks with these registers. */
static __always_inline bool waits_for_mutex(const struct pt_regs *regs)
{
	int verdict = site_verdict(regs->ip, MOV_EDX);
	rt_u64 caller = 0;

	if (verdict != SITE_WRAPPER)
		return verdict == SITE_LOCK;
	return !bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp) &&
	       site_verdict(caller, MOV_ECX) == SITE_LOCK;
}

#endif
