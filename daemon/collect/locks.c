/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A futex is an address; what it belongs to shows in three things:
 *
 *   - the value that the waiter expected: 2 is "locked, somebody waits" of glibc's normal mutex
 *     and of std::sync::Mutex alike, 2^32-1 a parked std::thread, a thread id with the top bit
 *     set a robust or inheriting mutex (of musl: any);
 *   - the instruction that waited: Rust goes through libc's syscall(), whose last instructions
 *     are these bytes; glibc's own mutexes have the system call inlined;
 *   - what lies around it: pthread_mutex_t has its owner 8 bytes on, parking_lot's parked thread
 *     the address of the lock 32 bytes in front of its futex.
 *
 * A kind is given only when all that can be looked at agrees; else it is a plain futex.
 */
#include "collect/locks.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vec.h"

#define MAX_LISTED 200u
#define FORGET_NS (60 * NS_PER_SEC)
#define WAITERS 0x80000000u
#define TID_MASK 0x3fffffffu
#define FUTEX_PRIVATE 128u

struct locks {
	struct threads *threads;
	const struct roster *roster;
	const struct target *target;
	int mem;
	size_t used;		      /* places of futexes, when last looked at */
	uint64_t forgotten, unlisted; /* waits at futexes without a row */
};

struct locks *locks__new(struct threads *threads, const struct roster *roster,
			 const struct target *target)
{
	struct locks *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->threads = threads;
	l->roster = roster;
	l->target = target;
	l->mem = -1;
	return l;
}

void locks__free(struct locks *l)
{
	free(l);
}

void locks__open(struct locks *l)
{
	l->mem = target__open_mem(l->target);
}

void locks__close(struct locks *l)
{
	if (l->mem >= 0)
		close(l->mem);
	l->mem = -1;
}

/* ---- telling them apart ---- */

static bool read_at(const struct locks *l, uint64_t address, void *out, size_t bytes)
{
	return l->mem >= 0 && pread(l->mem, out, bytes, (off_t)address) == (ssize_t)bytes;
}

/* Whether the waiter's system call is the one of libc's syscall(): mov 8(%rsp),%r9; syscall */
static bool by_wrapper(const struct locks *l, uint64_t ip)
{
	static const unsigned char tail[] = { 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05 };
	unsigned char code[sizeof(tail)];

	return read_at(l, ip - sizeof(code), code, sizeof(code)) &&
	       !memcmp(code, tail, sizeof(tail));
}

static rt_u32 living(const struct locks *l, rt_u32 ns_tid)
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

static bool view_pthread(const struct locks *l, uint64_t futex, struct lock_view *out)
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

/* parking_lot_core 0.9's ThreadData, as it lies around the futex of a parked thread. */
struct parked {
	uint64_t key; /* the address of what it is parked for */
	uint64_t next, unpark_token, park_token;
	uint32_t futex;
	uint8_t with_timeout;
	uint8_t pad[3];
};
#define PARKED_FUTEX offsetof(struct parked, futex)
#define PL_MUTEX_PARKED 3u /* a byte: locked, threads are parked */
#define PL_RWLOCK_TOKENS 0x18u

static bool is_address(const struct locks *l, uint64_t v)
{
	unsigned char byte;

	return v >= 4096 && v >> 47 == 0 && read_at(l, v, &byte, 1);
}

static bool view_parking_lot(const struct locks *l, uint64_t futex, struct lock_view *out)
{
	struct parked p;
	uint64_t state;

	if (!read_at(l, futex - PARKED_FUTEX, &p, sizeof(p)) || p.futex != 1 || p.unpark_token ||
	    p.park_token > PL_RWLOCK_TOKENS || p.with_timeout > 1 ||
	    (p.next && !is_address(l, p.next)))
		return false;
	if (p.park_token) /* a RwLock: a word, whose writer waits for readers at the next byte */
		p.key &= ~7ull;
	if (!is_address(l, p.key) || !read_at(l, p.key, &state, sizeof(state)))
		return false;
	/* a condition variable holds the address of its mutex */
	if (p.park_token ? !(state >> 3) || is_address(l, state)
			 : (state & 0xff) != PL_MUTEX_PARKED || is_address(l, state))
		return false;
	out->kind = LOCK_PARKING_LOT;
	out->address = p.key;
	out->held = !p.with_timeout;
	return true;
}

/* std's RwLock: "writer" or a number of readers, and bits for those who wait. */
static bool is_held_rwlock(uint32_t state, uint32_t waiting_bits)
{
	uint32_t holders = state & TID_MASK;

	return state & waiting_bits && (holders == TID_MASK || (holders && holders <= 4096));
}

/* Readers wait at the state itself, writers at a counter behind it. */
static bool view_rwlock(const struct locks *l, uint64_t futex, rt_u32 val, struct lock_view *out)
{
	uint32_t words[2];

	if (is_held_rwlock(val, 0xc0000000u)) {
		out->held = read_at(l, futex, words, 4) && words[0] == val;
	} else {
		if (!read_at(l, futex - 4, words, sizeof(words)) || words[1] != val ||
		    !is_held_rwlock(words[0], WAITERS))
			return false;
		out->address = futex - 4;
		out->held = true;
	}
	out->kind = LOCK_RWLOCK;
	return true;
}

static void view_rust(const struct locks *l, uint64_t futex, rt_u32 val, struct lock_view *out)
{
	uint32_t word = 0;

	if (val == UINT32_MAX) {
		out->kind = LOCK_PARK;
	} else if (val == 2) {
		out->kind = LOCK_STD;
		out->held = read_at(l, futex, &word, sizeof(word)) && word == 2;
	} else if (val != 1 || !view_parking_lot(l, futex, out)) {
		(void)view_rwlock(l, futex, val, out);
	}
}

static void view_native(const struct locks *l, uint64_t futex, rt_u32 op, rt_u32 val,
			struct lock_view *out)
{
	uint32_t word = 0;

	if (val == 2 && view_pthread(l, futex, out))
		return;
	if (val == 2) {
		out->kind = LOCK_MUTEX;
		out->held = read_at(l, futex, &word, sizeof(word)) && word == 2;
		return;
	}
	if (val & WAITERS && living(l, val & TID_MASK)) {
		(void)read_at(l, futex, &word, sizeof(word));
		out->kind = LOCK_PI;
		out->holder = living(l, word & TID_MASK);
		out->held = word & WAITERS && out->holder;
	} else if (!(op & FUTEX_PRIVATE) && living(l, val)) {
		out->kind = LOCK_JOIN;
		out->holder = val;
	}
}

static void view(const struct locks *l, uint64_t futex, rt_u32 op, rt_u32 val, uint64_t ip,
		 struct lock_view *out)
{
	rt_u32 cmd = op & 0x7f, word = 0;

	*out = (struct lock_view){ .kind = LOCK_FUTEX, .address = futex };
	if (cmd == 6 || cmd == 13) { /* FUTEX_LOCK_PI, FUTEX_LOCK_PI2 */
		(void)read_at(l, futex, &word, sizeof(word));
		out->kind = LOCK_PI;
		out->holder = living(l, word & TID_MASK);
		out->held = out->holder != 0;
	} else if (by_wrapper(l, ip)) {
		view_rust(l, futex, val, out);
	} else {
		view_native(l, futex, op, val, out);
	}
}

void locks__view(const struct locks *l, const struct rt_thread *t, struct lock_view *out)
{
	view(l, t->wait_addr, t->wait_op, t->wait_val, t->wait_ip, out);
}

bool locks__is_wait(const struct rt_thread *t)
{
	return (t->state == RT_STATE_FUTEX || t->state == RT_STATE_LOCK) && t->wait_addr;
}

bool locks__moved_since(const struct locks *l, uint64_t futex, uint64_t since_ns)
{
	struct rt_futex f;

	for (rt_u32 slot = 0; slot < threads__futex_cnt(l->threads); slot++)
		if (threads__futex(l->threads, slot, &f) && f.addr == futex &&
		    f.last_end_ns > since_ns)
			return true;
	return false;
}

/* ---- the snapshot's rows ---- */

typedef VEC(struct snapshot_lock) lock_vec;

static void add_waiters(const struct locks *l, const struct rt_thread *t, lock_vec *out)
{
	struct snapshot_lock *row = NULL;
	struct lock_view v;
	uint64_t ns;
	bool older;

	locks__view(l, t, &v);
	for (size_t i = 0; i < out->cnt && !row; i++)
		if (out->data[i].address == v.address || out->data[i].address == t->wait_addr)
			row = &out->data[i];
	row = row ?: vec__push(out);
	if (!row)
		return;
	ns = roster__state_ns(l->roster, t, &older);
	row->kind = v.kind;
	row->address = v.address;
	row->waiters_now++;
	row->oldest_ns = ns > row->oldest_ns ? ns : row->oldest_ns;
	row->holder_tid = 0;
	if (v.kind != LOCK_JOIN && v.holder && roster__by_ns_tid(l->roster, v.holder))
		row->holder_tid = (int)roster__by_ns_tid(l->roster, v.holder)->tid;
}

static int add_waits(struct locks *l, const struct rt_futex *f, lock_vec *out)
{
	struct snapshot_lock *row;
	struct lock_view v;

	/* one address may stand twice: places are freed and taken again */
	for (size_t i = 0; i < out->cnt; i++)
		if (out->data[i].address == f->addr) {
			l->unlisted += f->wait.cnt;
			return 0;
		}
	row = vec__push(out);
	if (!row)
		return -ENOMEM;
	view(l, f->addr, f->op, f->val, f->ip, &v);
	row->kind = v.kind;
	row->address = f->addr;
	return roster__stats(l->roster, &f->wait, &row->wait);
}

static int by_waiting(const void *a, const void *b)
{
	const struct snapshot_lock *x = a, *y = b;
	bool x_lock = lock__is_lock(x->kind), y_lock = lock__is_lock(y->kind);

	if (x_lock != y_lock)
		return x_lock ? -1 : 1;
	if (x->wait.total_ns + x->oldest_ns != y->wait.total_ns + y->oldest_ns)
		return x->wait.total_ns + x->oldest_ns < y->wait.total_ns + y->oldest_ns ? 1 : -1;
	return (x->address > y->address) - (x->address < y->address);
}

/* A futex, before its memory is looked at: what is waited at as locks are comes first. */
struct candidate {
	rt_u32 slot;
	bool lock;
	rt_u64 waited_ns;
};
typedef VEC(struct candidate) candidate_vec;

static int by_promise(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->lock != y->lock)
		return x->lock ? -1 : 1;
	return (x->waited_ns < y->waited_ns) - (x->waited_ns > y->waited_ns);
}

/* All places in use; when they get few, those where nobody has waited for long are freed. */
static int find_candidates(struct locks *l, candidate_vec *out)
{
	rt_u32 cnt = threads__futex_cnt(l->threads);
	struct rt_futex f;

	for (rt_u32 slot = 0; slot < cnt; slot++) {
		struct candidate *c;

		if (!threads__futex(l->threads, slot, &f))
			continue;
		if (l->used > cnt / 4 * 3 &&
		    f.last_end_ns + FORGET_NS < roster__looked_ns(l->roster)) {
			l->forgotten += f.wait.cnt;
			threads__forget_futex(l->threads, slot);
			continue;
		}
		c = vec__push(out);
		if (!c)
			return -ENOMEM;
		*c = (struct candidate){ slot, f.val == 2, f.wait.sum_ns };
	}
	l->used = out->cnt;
	if (out->cnt)
		qsort(out->data, out->cnt, sizeof(*out->data), by_promise);
	return 0;
}

static int add_candidates(struct locks *l, const candidate_vec *candidates, lock_vec *out)
{
	struct rt_futex f;
	int err = 0;

	l->unlisted = 0;
	for (size_t i = 0; i < candidates->cnt && !err; i++) {
		if (!threads__futex(l->threads, candidates->data[i].slot, &f))
			continue;
		if (out->cnt < MAX_LISTED)
			err = add_waits(l, &f, out);
		else
			l->unlisted += f.wait.cnt;
	}
	return err;
}

int locks__fill(struct locks *l, struct snapshot *s)
{
	candidate_vec candidates = {};
	lock_vec found = {};
	size_t cnt;
	const struct rt_thread *rows = roster__rows(l->roster, &cnt);
	int err = find_candidates(l, &candidates);

	locks__open(l);
	err = err ?: add_candidates(l, &candidates, &found);
	for (size_t i = 0; i < cnt && !err; i++)
		if (locks__is_wait(&rows[i]))
			add_waiters(l, &rows[i], &found);
	locks__close(l);
	vec__free(&candidates);
	if (found.cnt)
		qsort(found.data, found.cnt, sizeof(*found.data), by_waiting);
	s->locks = found.data;
	s->lock_cnt = found.cnt;
	s->unlisted_waits = l->forgotten + l->unlisted;
	return err;
}
