/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A futex is an address; what it belongs to shows in three things:
 *
 *   - the value that the waiter expected: 2^32-1 is a parked std::thread, a thread id with the top
 *     bit set a robust or inheriting mutex (of musl: any); a constant 2 in its code is glibc's
 *     normal mutex or std's (bpf/lock_site.bpf.h);
 *   - the instruction that waited: Rust goes through libc's syscall(), whose last instructions
 *     are these bytes; glibc's own mutexes have the system call inlined;
 *   - what lies around it: pthread_mutex_t has its owner 8 bytes on, parking_lot's parked thread
 *     the address of the lock 32 bytes in front of its futex.
 *
 * A kind is given only when all that can be looked at agrees; else it is a plain futex. Where the
 * memory of a lock tells it only while somebody waits, the program that saw the wait begin has
 * noted the kind (enum rt_lock); here the same is found out of waits from before.
 */
#include "collect/lock_view.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "roletrace/parking_lot.h"
#include "roletrace/pthread_rwlock.h"

#define WAITERS 0x80000000u
#define TID_MASK 0x3fffffffu
#define FUTEX_PRIVATE 128u

static bool read_at(const struct lock_eye *l, uint64_t address, void *out, size_t bytes)
{
	return l->mem >= 0 && pread(l->mem, out, bytes, (off_t)address) == (ssize_t)bytes;
}

/* A wait, as far as it is known: of one that has ended there is no stack any more (sp 0). */
struct wait_at {
	uint64_t futex, ip, sp;
	uint64_t lock_address; /* where that is not the futex; else 0 */
	rt_u32 op, val;
	enum rt_lock lock; /* as it was seen when the wait began */
};

/* Whether the waiter's system call is the one of libc's syscall(): mov 8(%rsp),%r9; syscall */
static bool by_wrapper(const struct lock_eye *l, uint64_t ip)
{
	static const unsigned char tail[] = { 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05 };
	unsigned char code[sizeof(tail)];

	return read_at(l, ip - sizeof(code), code, sizeof(code)) &&
	       !memcmp(code, tail, sizeof(tail));
}

/* Whether these bytes are in the code around an address. */
static bool code_has(const struct lock_eye *l, uint64_t address, unsigned int before,
		     unsigned int after, const void *bytes, size_t cnt)
{
	unsigned char code[256];

	return address && read_at(l, address - before, code, before + after) &&
	       memmem(code, before + after, bytes, cnt);
}

/* The return address of syscall(), which is on top of the stack in it. */
static uint64_t caller_of(const struct lock_eye *l, const struct wait_at *w)
{
	uint64_t caller = 0;

	return w->sp && read_at(l, w->sp, &caller, sizeof(caller)) ? caller : 0;
}

/* bpf/lock_site.bpf.h says what this is. */
static bool has_value(const struct lock_eye *l, uint64_t address, unsigned char opcode, rt_u32 val)
{
	unsigned char mov[5] = { opcode };

	memcpy(mov + 1, &val, sizeof(val));
	return code_has(l, address, 32, 0, mov, sizeof(mov));
}

static rt_u32 living(const struct lock_eye *l, rt_u32 ns_tid)
{
	return ns_tid && roster__by_ns_tid(l->roster, ns_tid) ? ns_tid : 0;
}

/* glibc's pthread_mutex_t on x86-64, nptl/bits/struct_mutex.h */
struct pthread_mutex {
	uint32_t lock, count;
	int32_t owner;
	uint32_t nusers;
	int32_t kind;
};

static bool view_pthread(const struct lock_eye *l, uint64_t futex, struct lock_view *out)
{
	struct pthread_mutex m;

	if (!read_at(l, futex, &m, sizeof(m)) || m.lock > 2 || m.kind & ~0x3ff || m.owner < 0 ||
	    m.nusers > 0xffff || (m.owner ? !living(l, (rt_u32)m.owner) : m.lock == 2))
		return false;
	out->kind = LOCK_PTHREAD;
	out->holder = m.lock ? (rt_u32)m.owner : 0;
	out->held = m.lock == 2;
	return true;
}

#define PL_RWLOCK_TOKENS 0x18u

static bool is_address(const struct lock_eye *l, uint64_t v)
{
	unsigned char byte;

	return v >= 4096 && v >> 47 == 0 && read_at(l, v, &byte, 1);
}

static bool view_parking_lot(const struct lock_eye *l, const struct wait_at *w,
			     struct lock_view *out)
{
	struct rt_parked p;
	uint64_t state;

	if (!has_value(l, caller_of(l, w), 0xb9, 1) ||
	    !read_at(l, w->futex - offsetof(struct rt_parked, futex), &p, sizeof(p)) ||
	    p.futex != 1 || p.unpark_token > 1 || p.park_token > PL_RWLOCK_TOKENS ||
	    p.with_timeout > 1 || (p.next && !is_address(l, p.next)))
		return false;
	if (p.park_token) /* a RwLock: a word, whose writer waits for readers at the next byte */
		p.key &= ~7ull;
	if (!is_address(l, p.key) || !read_at(l, p.key, &state, sizeof(state)))
		return false;
	/* a condition variable holds the address of its mutex */
	if (p.park_token ? !(state >> 3) || is_address(l, state)
			 : (state & 0xff) != RT_PL_MUTEX_PARKED || is_address(l, state))
		return false;
	out->kind = LOCK_PARKING_LOT;
	out->address = p.key;
	out->held = !p.with_timeout;
	return true;
}

/* ---- read-write locks ---- */

/* std's RwLock: "writer" or a number of readers, and bits for those who wait. */
static bool is_held_rwlock(uint32_t state, uint32_t waiting_bits)
{
	uint32_t holders = state & TID_MASK;

	return state & waiting_bits && (holders == TID_MASK || (holders && holders <= 4096));
}

/* Readers wait at the state itself, writers at a counter behind it; their code has the mask. */
static bool view_rwlock(const struct lock_eye *l, const struct wait_at *w, struct lock_view *out)
{
	static const unsigned char mask[] = { 0xff, 0xff, 0xff, 0x3f };
	uint32_t words[2];

	if (!code_has(l, caller_of(l, w), 96, 64, mask, sizeof(mask)))
		return false;
	if (is_held_rwlock(w->val, 0xc0000000u)) {
		out->held = read_at(l, w->futex, words, 4) && words[0] == w->val;
	} else {
		if (!read_at(l, w->futex - 4, words, sizeof(words)) || words[1] != w->val ||
		    !is_held_rwlock(words[0], WAITERS))
			return false;
		out->address = w->futex - 4;
		out->held = true;
	}
	out->kind = LOCK_RWLOCK;
	return true;
}

/* Who writes is stored, who reads is not. */
static void view_pthread_rwlock(const struct lock_eye *l, uint64_t address, struct lock_view *out)
{
	struct rt_pthread_rwlock rw;

	out->kind = LOCK_PTHREAD_RWLOCK;
	out->address = address;
	if (!read_at(l, address, &rw, sizeof(rw)))
		return;
	out->holder = living(l, (rt_u32)rw.cur_writer);
	out->held = rw.readers & RT_RWLOCK_WRITE_LOCKED || rw.readers >> 3;
}

static bool find_pthread_rwlock(const struct lock_eye *l, const struct wait_at *w,
				struct lock_view *out)
{
	static const enum rt_rwlock_place places[] = { RT_RWLOCK_PHASE, RT_RWLOCK_TURN,
						       RT_RWLOCK_STATE };
	struct rt_pthread_rwlock rw;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (read_at(l, w->futex - places[i], &rw, sizeof(rw)) &&
		    rt_is_pthread_rwlock(&rw, places[i], w->val)) {
			view_pthread_rwlock(l, w->futex - places[i], out);
			return true;
		}
	return false;
}

/* What was known when the wait began; its memory may have changed since. false: not enough. */
static bool view_known(const struct lock_eye *l, const struct wait_at *w, struct lock_view *out)
{
	uint32_t state = 0;

	switch (w->lock) {
	case RT_LOCK_PARKING_LOT:
		if (!view_parking_lot(l, w, out)) {
			out->kind = LOCK_PARKING_LOT;
			out->address = w->lock_address;
		}
		return true;
	case RT_LOCK_STD_RWLOCK:
		out->kind = LOCK_RWLOCK;
		out->address = w->lock_address;
		out->held = read_at(l, w->lock_address, &state, sizeof(state)) &&
			    is_held_rwlock(state, 0xc0000000u);
		return true;
	case RT_LOCK_PTHREAD_RWLOCK:
		view_pthread_rwlock(l, w->lock_address, out);
		return true;
	default:
		return false;
	}
}

/* ---- all of them ---- */

static void view_rust(const struct lock_eye *l, const struct wait_at *w, struct lock_view *out)
{
	uint32_t word = 0;

	if (w->lock && w->val == 2) {
		out->kind = LOCK_STD;
		out->held = read_at(l, w->futex, &word, sizeof(word)) && word == 2;
	} else if ((w->val != 1 || !view_parking_lot(l, w, out)) && !view_rwlock(l, w, out) &&
		   w->val == UINT32_MAX) {
		out->kind = LOCK_PARK;
	}
}

static void view_native(const struct lock_eye *l, const struct wait_at *w, struct lock_view *out)
{
	uint32_t word = 0;

	if (w->lock && view_pthread(l, w->futex, out))
		return;
	if (w->val & WAITERS && living(l, w->val & TID_MASK)) {
		(void)read_at(l, w->futex, &word, sizeof(word));
		out->kind = LOCK_PI;
		out->holder = living(l, word & TID_MASK);
		out->held = word & WAITERS && out->holder;
	} else if (!(w->op & FUTEX_PRIVATE) && living(l, w->val)) {
		out->kind = LOCK_JOIN;
		out->holder = w->val;
	} else if (w->sp) {
		(void)find_pthread_rwlock(l, w, out);
	}
}

static void view(const struct lock_eye *l, const struct wait_at *w, struct lock_view *out)
{
	rt_u32 cmd = w->op & 0x7f, word = 0;

	*out = (struct lock_view){ .kind = LOCK_FUTEX, .address = w->futex };
	if (view_known(l, w, out))
		return;
	if (cmd == 6 || cmd == 13) { /* FUTEX_LOCK_PI, FUTEX_LOCK_PI2 */
		(void)read_at(l, w->futex, &word, sizeof(word));
		out->kind = LOCK_PI;
		out->holder = living(l, word & TID_MASK);
		out->held = out->holder != 0;
	} else if (by_wrapper(l, w->ip)) {
		view_rust(l, w, out);
	} else {
		view_native(l, w, out);
	}
}

void lock_view__thread(const struct lock_eye *l, const struct rt_thread *t, struct lock_view *out)
{
	struct wait_at w = { .futex = t->wait_addr,
			     .ip = t->wait_ip,
			     .sp = t->wait_sp,
			     .lock_address = t->lock_addr,
			     .op = t->wait_op,
			     .val = t->wait_val,
			     .lock = (enum rt_lock)t->lock };

	/* one from before the window, of which the daemon has found out */
	if (t->state == RT_STATE_LOCK && !w.lock)
		w.lock = RT_LOCK_MUTEX;
	view(l, &w, out);
}

void lock_view__futex(const struct lock_eye *l, const struct rt_futex *f, struct lock_view *out)
{
	struct wait_at w = { .futex = f->addr,
			     .ip = f->ip,
			     .lock_address = f->addr,
			     .op = f->op,
			     .val = f->val,
			     .lock = (enum rt_lock)f->lock };

	view(l, &w, out);
}

/* Its value is a constant of the code. */
static bool waits_for_mutex(const struct lock_eye *l, const struct rt_thread *t)
{
	struct wait_at w = { .sp = t->wait_sp };

	if (t->wait_val != 2)
		return false;
	if (by_wrapper(l, t->wait_ip))
		return has_value(l, caller_of(l, &w), 0xb9, 2);
	return has_value(l, t->wait_ip, 0xba, 2);
}

bool lock_view__waits_for_lock(const struct lock_eye *l, const struct rt_thread *t)
{
	struct lock_view v;

	if (waits_for_mutex(l, t))
		return true;
	lock_view__thread(l, t, &v);
	return v.kind == LOCK_RWLOCK || v.kind == LOCK_PTHREAD_RWLOCK;
}
