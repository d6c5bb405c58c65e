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
 *
 * parking_lot's threads sleep each at a word of its own, with the constant 1, for locks and for
 * condition variables. What they are parked for lies in front of that word: a lock shows by its
 * state, "locked, threads are parked", where a condition variable has the address of its mutex.
 */
#ifndef LOCK_SITE_BPF_H
#define LOCK_SITE_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/abi.h"

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

/* What the code in front of the address does; opcode is that of the mov of val. */
__noinline int site_verdict(rt_u64 address, rt_u32 opcode, rt_u32 val)
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
		if (code[i] == opcode && code[i + 1] == val && !code[i + 2] && !code[i + 3] &&
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
	int verdict = site_verdict(regs->ip, MOV_EDX, 2);
	rt_u64 caller = 0;

	if (verdict != SITE_WRAPPER)
		return verdict == SITE_LOCK;
	return !bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp) &&
	       site_verdict(caller, MOV_ECX, 2) == SITE_LOCK;
}

/* parking_lot_core 0.9's ThreadData, as it lies around the futex of a parked thread. */
struct parked {
	rt_u64 key; /* the address of what it is parked for */
	rt_u64 next;
	rt_u64 unpark_token; /* of the last time it was unparked: 1, it was given the lock */
	rt_u64 park_token;
	rt_u32 futex;
	rt_u8 with_timeout;
	rt_u8 pad[3];
};
#define PL_MUTEX_PARKED 3u /* a byte: locked, threads are parked */
#define PL_RWLOCK_TOKENS 0x18u

static __always_inline bool is_readable(rt_u64 address)
{
	rt_u8 byte;

	return address >> 47 == 0 && !bpf_probe_read_user(&byte, 1, (void *)address);
}

/* The lock of parking_lot that the current thread parks for, at this futex; 0: no lock. */
__noinline rt_u64 parking_lot_of(rt_u64 futex)
{
	struct parked p;
	rt_u64 state;

	if (bpf_probe_read_user(&p, sizeof(p), (void *)(futex - offsetof(struct parked, futex))) ||
	    p.futex != 1 || p.unpark_token > 1 || p.park_token > PL_RWLOCK_TOKENS ||
	    p.with_timeout > 1)
		return 0;
	if (p.park_token) /* a RwLock: a word, whose writer waits for readers at the next byte */
		p.key &= ~7ull;
	if (bpf_probe_read_user(&state, sizeof(state), (void *)p.key) || is_readable(state))
		return 0;
	if (p.park_token ? !(state >> 3) : (state & 0xff) != PL_MUTEX_PARKED)
		return 0;
	return p.key;
}

/* Of the current thread, which blocks with these registers in a futex whose value is 1. */
static __always_inline rt_u64 waits_for_parking_lot(const struct pt_regs *regs)
{
	rt_u64 caller = 0;

	if (site_verdict(regs->ip, MOV_EDX, 2) != SITE_WRAPPER ||
	    bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp) ||
	    site_verdict(caller, MOV_ECX, 1) != SITE_LOCK)
		return 0;
	return parking_lot_of(regs->di);
}

#endif
