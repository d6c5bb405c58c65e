/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Whether a wait at a futex is one for a lock, and for which. The code tells, for what is waited
 * with says little: 2 is "locked, and somebody waits" of glibc's and of std's mutexes, but also
 * what a condition variable waits with that was notified twice, and a barrier in its second round.
 *
 * glibc's mutexes make the system call themselves, with the constant 2: "mov $2,%edx" shortly
 * before it. Rust calls libc's syscall(), which ends in "mov 8(%rsp),%r9; syscall": then it is
 * "mov $2,%ecx" shortly before the return address. std's RwLock waits with what it has loaded;
 * behind its wait it looks at the state again, less the bits of who waits: the constant 0x3fffffff.
 * What was found is kept by address, for reading user memory is dear.
 *
 * parking_lot's threads sleep each at a word of its own, with the constant 1, for locks and for
 * condition variables. What they are parked for lies in front of that word: a lock shows by its
 * state, "locked, threads are parked", where a condition variable has the address of its mutex.
 *
 * glibc's read-write locks share their system call with its condition variables, semaphores and
 * barriers: there the memory around the futex tells.
 */
#ifndef LOCK_SITE_BPF_H
#define LOCK_SITE_BPF_H

#include "kernel.h"

#include <bpf/bpf_helpers.h>

#include "roletrace/parking_lot.h"
#include "roletrace/pthread_rwlock.h"
#include "roletrace/threads.h"

#define SITE_BEFORE 32
#define SITE_BEHIND 64
#define SITE_CACHE 64u
#define MOV_EDX 0xba
#define MOV_ECX 0xb9
#define RWLOCK_MASK 0x3fffffffu /* std's; its readers wait with the bit above */
#define RWLOCK_READER 0x40000000u

enum site_verdict {
	SITE_UNKNOWN,
	SITE_OTHER,
	SITE_WRAPPER, /* syscall() */
	SITE_WAITS_1,
	SITE_WAITS_2,
	SITE_RWLOCK,
};

/* address << 3 | verdict */
rt_u64 site_cache[SITE_CACHE];

static __always_inline bool is_wrapper(const rt_u8 *code)
{
	const rt_u8 *tail = code + SITE_BEFORE - 7;

	return tail[0] == 0x4c && tail[1] == 0x8b && tail[2] == 0x4c && tail[3] == 0x24 &&
	       tail[4] == 0x08;
}

/* 1 for 0, else 0; of what has less than 64 bits. No branch, which the verifier would follow. */
static __always_inline rt_u64 is_zero(rt_u64 v)
{
	return (v - 1) >> 63;
}

/* What the code in front of the address waits with; opcode is that of the mov of the value. */
static __always_inline int verdict_before(const rt_u8 *code, rt_u32 opcode)
{
	rt_u64 word = 0, one = 0, two = 0;

	for (int i = 0; i < SITE_BEFORE; i++) {
		word = word >> 8 | (rt_u64)code[i] << 32;
		one |= is_zero(word ^ (opcode | 1u << 8));
		two |= is_zero(word ^ (opcode | 2u << 8));
	}
	return two ? SITE_WAITS_2 : one ? SITE_WAITS_1 : SITE_OTHER;
}

static __always_inline bool has_mask(const rt_u8 *code)
{
	rt_u64 found = 0;
	rt_u32 word = 0;

	for (int i = 0; i < SITE_BEHIND; i++) {
		word = word >> 8 | (rt_u32)code[i] << 24;
		found |= is_zero((rt_u64)(word ^ RWLOCK_MASK));
	}
	return found;
}

__noinline int site_verdict(rt_u64 address, rt_u32 opcode)
{
	rt_u64 *slot = &site_cache[(address >> 1) & (SITE_CACHE - 1)],
	       seen = *(volatile rt_u64 *)slot;
	rt_u8 code[SITE_BEHIND] = {};
	int verdict;

	if (seen >> 3 == address)
		return seen & 7;
	if (bpf_probe_read_user(code, SITE_BEFORE, (void *)(address - SITE_BEFORE)))
		return SITE_UNKNOWN;
	verdict = verdict_before(code, opcode);
	if (opcode == MOV_EDX && is_wrapper(code))
		verdict = SITE_WRAPPER;
	if (opcode == MOV_ECX && verdict == SITE_OTHER &&
	    !bpf_probe_read_user(code, sizeof(code), (void *)address) && has_mask(code))
		verdict = SITE_RWLOCK;
	*(volatile rt_u64 *)slot = address << 3 | verdict;
	return verdict;
}

#define PL_RWLOCK_TOKENS 0x18u

static __always_inline bool is_readable(rt_u64 address)
{
	rt_u8 byte;

	return address >> 47 == 0 && !bpf_probe_read_user(&byte, 1, (void *)address);
}

/* The lock of parking_lot that the current thread parks for, at this futex; 0: no lock. */
__noinline rt_u64 parking_lot_of(rt_u64 futex)
{
	struct rt_parked p;
	rt_u64 state;

	if (bpf_probe_read_user(&p, sizeof(p),
				(void *)(futex - offsetof(struct rt_parked, futex))) ||
	    p.futex != 1 || p.unpark_token > 1 || p.park_token > PL_RWLOCK_TOKENS ||
	    p.with_timeout > 1)
		return 0;
	if (p.park_token) /* a RwLock: a word, whose writer waits for readers at the next byte */
		p.key &= ~7ull;
	if (bpf_probe_read_user(&state, sizeof(state), (void *)p.key) || is_readable(state))
		return 0;
	if (p.park_token ? !(state >> 3) : (state & 0xff) != RT_PL_MUTEX_PARKED)
		return 0;
	return p.key;
}

static __always_inline bool is_rwlock_at(rt_u64 address, enum rt_rwlock_place place, rt_u32 val)
{
	struct rt_pthread_rwlock l;

	return !bpf_probe_read_user(&l, sizeof(l), (void *)address) &&
	       rt_is_pthread_rwlock(&l, place, val);
}

/* The read-write lock of glibc that is waited for at this futex with that value; 0: none. */
__noinline rt_u64 pthread_rwlock_of(rt_u64 futex, rt_u32 val)
{
	if (val >> 3)
		return val & RT_RWLOCK_READERS_WAIT && is_rwlock_at(futex, RT_RWLOCK_STATE, val)
			       ? futex
			       : 0;
	if ((val & ~1u) != RT_RWLOCK_FUTEX_USED)
		return 0;
	if (is_rwlock_at(futex - RT_RWLOCK_PHASE, RT_RWLOCK_PHASE, val))
		return futex - RT_RWLOCK_PHASE;
	if (is_rwlock_at(futex - RT_RWLOCK_TURN, RT_RWLOCK_TURN, val))
		return futex - RT_RWLOCK_TURN;
	return 0;
}

/* Through libc's syscall(): the lock's kind. */
static __always_inline rt_u32 rust_lock(const struct pt_regs *regs, rt_u64 *address)
{
	rt_u32 val = regs->dx;
	rt_u64 caller = 0;

	if (bpf_probe_read_user(&caller, sizeof(caller), (void *)regs->sp))
		return RT_LOCK_NONE;
	switch (site_verdict(caller, MOV_ECX)) {
	case SITE_WAITS_1:
		*address = val == 1 ? parking_lot_of(regs->di) : 0;
		return *address ? RT_LOCK_PARKING_LOT : RT_LOCK_NONE;
	case SITE_WAITS_2:
		return val == 2 ? RT_LOCK_MUTEX : RT_LOCK_NONE;
	case SITE_RWLOCK: /* its writers wait at a counter behind the state */
		*address = val & RWLOCK_READER ? regs->di : regs->di - 4;
		return RT_LOCK_STD_RWLOCK;
	default:
		return RT_LOCK_NONE;
	}
}

/*
 * What the current thread waits for, which blocks with these registers in FUTEX_WAIT: enum rt_lock.
 * *address is that of the lock, where it is not the futex; else 0.
 */
static __always_inline rt_u32 lock_waited_for(const struct pt_regs *regs, rt_u64 *address)
{
	*address = 0;
	switch (site_verdict(regs->ip, MOV_EDX)) {
	case SITE_WRAPPER:
		return rust_lock(regs, address);
	case SITE_WAITS_2:
		return (rt_u32)regs->dx == 2 ? RT_LOCK_MUTEX : RT_LOCK_NONE;
	default:
		*address = pthread_rwlock_of(regs->di, regs->dx);
		return *address ? RT_LOCK_PTHREAD_RWLOCK : RT_LOCK_NONE;
	}
}

#endif
