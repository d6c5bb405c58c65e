/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a wait that will not end is told from one that is merely long.
 *
 * A cycle of pthread mutexes is a proof: each thread waits for a mutex whose owner field names the
 * next one. It is believed once two looks, half a second apart, find the same waits.
 *
 * A lock that stores no owner proves nothing. Suspected are threads that have waited for --stall
 * seconds at what is waited at as a lock, while memory says that it is locked and no wait there
 * has ended since (so a lock that is merely fought for is not named). Two locks at once look like
 * a deadlock, one like a holder that does something slow. Parked threads are no suspects however
 * long they sleep: condition variables and parkers are not waited at as locks are.
 *
 * A worker of a runtime that polls must not block. That it does shows in a traced poll that has
 * been open for long; or, with nothing traced, in a thread that has been in the runtime's epoll
 * and now waits in something else than that or a futex. tokio's blocking threads have the same
 * name and may block: they never sit in epoll.
 */
#include "collect/stalls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "base/vec.h"

#define MAX_STALLS 32
#define PROOF_NS (NS_PER_SEC / 2)

/* What tells a wait from others. */
struct wait_id {
	rt_u32 pid;
	rt_u64 since_ns;
};

struct known_stall {
	struct snapshot_stall told;
	struct wait_id ids[STALL_THREADS]; /* of its threads */
};

struct stalls {
	const struct roster *roster;
	struct locks *locks;
	const struct settler *settler;
	const struct plan *plan;
	const struct target *target;
	struct stalls_opts opts;
	struct known_stall known[MAX_STALLS];
	size_t known_cnt, untold;
	struct snapshot_stall fresh[MAX_STALLS];
	size_t fresh_cnt;
	VEC(struct wait_id) seen; /* waits of cycles at the last look */
	uint64_t seen_ns;
	bool no_progress_told;
};

struct stalls *stalls__new(const struct roster *roster, struct locks *locks,
			   const struct settler *settler, const struct plan *plan,
			   const struct target *target, const struct stalls_opts *opts)
{
	struct stalls *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->roster = roster;
	s->locks = locks;
	s->settler = settler;
	s->plan = plan;
	s->target = target;
	s->opts = *opts;
	return s;
}

void stalls__free(struct stalls *s)
{
	if (!s)
		return;
	vec__free(&s->seen);
	free(s);
}

/* ---- what is known of a thread that hangs ---- */

static void read_line(const struct stalls *s, const struct rt_thread *t, const char *name,
		      struct strbuf *out)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/task/%u/%s", s->target->pid, t->tid, name);
	if (fs__read(path, out))
		strbuf__reset(out);
}

static void add_wchan(const struct stalls *s, const struct rt_thread *t, struct stall_thread *out)
{
	struct strbuf text = STRBUF_INIT;

	read_line(s, t, "wchan", &text);
	if (text.len && strcmp(text.s, "0") != 0)
		snprintf(out->wchan, sizeof(out->wchan), "%.*s", (int)strcspn(text.s, "\n"),
			 text.s);
	strbuf__free(&text);
}

static void add_frames(const struct stalls *s, const struct rt_thread *t, struct stall_thread *out)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(s->settler, &cnt);
	uint64_t now = roster__looked_ns(s->roster);

	for (size_t i = 0; i < cnt && out->frame_cnt < STALL_FRAMES; i++)
		if (f[i].tid == t->pid && !f[i].doubtful)
			out->frames[out->frame_cnt++] =
				(struct stall_frame){ s->plan->fns[f[i].fn].name,
						      now > f[i].start_ns ? now - f[i].start_ns
									  : 0 };
}

static void describe(const struct stalls *s, const struct rt_thread *t, struct stall_thread *out)
{
	struct lock_view v;
	bool older;

	*out = (struct stall_thread){
		.tid = (int)t->tid,
		.state = roster__state(t),
		.wait_ns = roster__state_ns(s->roster, t, &older),
		.syscall = t->state >= RT_STATE_FUTEX && t->syscall ? (int)t->syscall - 1 : -1,
	};
	memcpy(out->name, t->comm, sizeof(t->comm) - 1);
	if (locks__is_wait(t)) {
		locks__view(s->locks, t, &v);
		out->address = v.address;
		out->lock = v.kind;
		if (v.holder && roster__by_ns_tid(s->roster, v.holder)) {
			out->holder_tid = (int)roster__by_ns_tid(s->roster, v.holder)->tid;
			out->holder_proven = true;
		}
	}
	if (t->state >= RT_STATE_FUTEX)
		add_wchan(s, t, out);
	add_frames(s, t, out);
}

/* ---- what is told, and when it is over ---- */

static bool is_known(const struct stalls *s, enum stall_kind kind, const struct rt_thread *t)
{
	for (size_t i = 0; i < s->known_cnt; i++) {
		const struct known_stall *k = &s->known[i];

		/* a deadlock that was told says all about its threads */
		if (k->told.kind != kind && k->told.kind != STALL_DEADLOCK)
			continue;
		for (size_t n = 0; n < k->told.thread_cnt; n++)
			if (k->ids[n].pid == t->pid &&
			    (k->ids[n].since_ns == t->since_ns || kind == STALL_BLOCKED_POLL) &&
			    !k->told.over_unix_ns)
				return true;
	}
	return false;
}

static struct known_stall *new_stall(struct stalls *s, enum stall_kind kind, bool proven)
{
	struct known_stall *k;

	if (s->known_cnt == MAX_STALLS) {
		s->untold++;
		return NULL;
	}
	k = &s->known[s->known_cnt++];
	*k = (struct known_stall){
		.told = { .kind = kind, .proven = proven, .seen_unix_ns = clock__unix_ns() }
	};
	return k;
}

static void add_thread(const struct stalls *s, struct known_stall *k, const struct rt_thread *t)
{
	struct snapshot_stall *told = &k->told;

	for (size_t i = 0; i < told->thread_cnt; i++)
		if (k->ids[i].pid == t->pid)
			return;
	if (told->thread_cnt == STALL_THREADS) {
		told->more_threads++;
		return;
	}
	k->ids[told->thread_cnt] = (struct wait_id){ t->pid, t->since_ns };
	describe(s, t, &told->threads[told->thread_cnt]);
	if (!told->thread_cnt++)
		told->age_ns = told->threads[0].wait_ns;
}

static void tell(struct stalls *s, const struct known_stall *k)
{
	s->fresh[s->fresh_cnt++] = k->told;
}

static bool is_over(const struct stalls *s, const struct known_stall *k)
{
	const struct rt_thread *t = roster__by_pid(s->roster, k->ids[0].pid);

	/* a poll may go on while its thread sleeps and wakes: it is over when it is not open */
	if (t && k->told.kind == STALL_BLOCKED_POLL && k->told.threads[0].frame_cnt) {
		size_t cnt;
		const struct settled_frame *f = settler__frames(s->settler, &cnt);

		for (size_t i = 0; i < cnt; i++)
			if (f[i].tid == t->pid && f[i].start_ns == k->ids[0].since_ns)
				return false;
		return true;
	}
	return !t || t->since_ns != k->ids[0].since_ns;
}

static void end_those_over(struct stalls *s)
{
	for (size_t i = 0; i < s->known_cnt; i++)
		if (!s->known[i].told.over_unix_ns && is_over(s, &s->known[i]))
			s->known[i].told.over_unix_ns = clock__unix_ns();
}

/* ---- cycles ---- */

/* The thread whose mutex t waits for, by what the mutex itself says. */
static const struct rt_thread *proven_holder(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;

	if (!locks__is_wait(t))
		return NULL;
	locks__view(s->locks, t, &v);
	if ((v.kind != LOCK_PTHREAD && v.kind != LOCK_PI) || !v.held)
		return NULL;
	return roster__by_ns_tid(s->roster, v.holder);
}

/* Whether following the holders from t comes back to t. */
static bool in_cycle(const struct stalls *s, const struct rt_thread *t, size_t most)
{
	const struct rt_thread *at = proven_holder(s, t);

	for (size_t n = 0; at && n < most; n++) {
		if (at == t)
			return true;
		at = proven_holder(s, at);
	}
	return false;
}

/* Before memory is read: parked threads are many. */
static bool may_name_holder(const struct rt_thread *t)
{
	return t->state == RT_STATE_LOCK ||
	       (locks__is_wait(t) && t->wait_val >> 31 && t->wait_val != UINT32_MAX);
}

static bool was_seen(const struct stalls *s, const struct rt_thread *t)
{
	for (size_t i = 0; i < s->seen.cnt; i++)
		if (s->seen.data[i].pid == t->pid && s->seen.data[i].since_ns == t->since_ns)
			return true;
	return false;
}

static void tell_cycle(struct stalls *s, const struct rt_thread *first)
{
	struct known_stall *k = new_stall(s, STALL_DEADLOCK, true);
	const struct rt_thread *t = first;

	if (!k)
		return;
	do {
		add_thread(s, k, t);
		t = proven_holder(s, t);
	} while (t && t != first);
	tell(s, k);
}

static void find_cycles(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	VEC(struct wait_id) now = {};

	for (size_t i = 0; i < cnt; i++) {
		struct wait_id *slot;

		if (!may_name_holder(&rows[i]))
			continue;
		if (!in_cycle(s, &rows[i], cnt))
			continue;
		if (was_seen(s, &rows[i]) && !is_known(s, STALL_DEADLOCK, &rows[i]))
			tell_cycle(s, &rows[i]);
		slot = vec__push(&now);
		if (slot)
			*slot = (struct wait_id){ rows[i].pid, rows[i].since_ns };
	}
	vec__free(&s->seen);
	memcpy(&s->seen, &now, sizeof(now));
}

/* ---- suspects ---- */

static bool is_suspect(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;
	bool older;

	if (!locks__is_wait(t) || roster__state_ns(s->roster, t, &older) < s->opts.stall_ns)
		return false;
	locks__view(s->locks, t, &v);
	return lock__is_lock(v.kind) && v.held &&
	       !locks__moved_since(s->locks, t->wait_addr, t->since_ns) &&
	       !is_known(s, STALL_LOCK_WAIT, t);
}

static uint64_t lock_address(const struct stalls *s, const struct rt_thread *t)
{
	struct lock_view v;

	locks__view(s->locks, t, &v);
	return v.address;
}

/* A victim of what is known to hang already: it is added there, and not told again. */
static bool join_known(struct stalls *s, const struct rt_thread *t)
{
	uint64_t address = lock_address(s, t);

	for (size_t i = 0; i < s->known_cnt; i++) {
		struct known_stall *k = &s->known[i];

		if (k->told.over_unix_ns || k->told.kind > STALL_LOCK_WAIT)
			continue;
		for (size_t n = 0; n < k->told.thread_cnt; n++)
			if (k->told.threads[n].address == address) {
				add_thread(s, k, t);
				return true;
			}
	}
	return false;
}

/* Threads at more than one lock, none of which has a holder that does anything else. */
static bool looks_like_deadlock(const struct stalls *s, const size_t *suspects, size_t cnt,
				const struct rt_thread *rows)
{
	uint64_t first = cnt ? lock_address(s, &rows[suspects[0]]) : 0;
	bool two = false;

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *holder = proven_holder(s, &rows[suspects[i]]);

		two |= lock_address(s, &rows[suspects[i]]) != first;
		if (holder && !locks__is_wait(holder))
			return false;
	}
	return two;
}

static void find_suspects(struct stalls *s)
{
	size_t cnt, n = 0;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	size_t *suspects = calloc(cnt + 1, sizeof(*suspects));
	struct known_stall *k;

	for (size_t i = 0; suspects && i < cnt; i++)
		if (is_suspect(s, &rows[i]) && !join_known(s, &rows[i]))
			suspects[n++] = i;
	k = n ? new_stall(s,
			  looks_like_deadlock(s, suspects, n, rows) ? STALL_DEADLOCK
								    : STALL_LOCK_WAIT,
			  false)
	      : NULL;
	for (size_t i = 0; k && i < n; i++)
		add_thread(s, k, &rows[suspects[i]]);
	/* what a known holder does is half the answer */
	for (size_t i = 0; k && i < n; i++) {
		const struct rt_thread *holder = proven_holder(s, &rows[suspects[i]]);

		if (holder)
			add_thread(s, k, holder);
	}
	if (k)
		tell(s, k);
	free(suspects);
}

/* ---- blocked workers, disks, silence ---- */

static void tell_one(struct stalls *s, enum stall_kind kind, bool proven, const struct rt_thread *t,
		     uint64_t since_ns)
{
	struct known_stall *k = is_known(s, kind, t) ? NULL : new_stall(s, kind, proven);

	if (!k)
		return;
	add_thread(s, k, t);
	k->ids[0].since_ns = since_ns;
	k->told.age_ns = roster__looked_ns(s->roster) - since_ns;
	tell(s, k);
}

static void find_open_polls(struct stalls *s)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(s->settler, &cnt);
	uint64_t now = roster__looked_ns(s->roster);

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = roster__by_pid(s->roster, f[i].tid);

		if (t && s->plan->fns[f[i].fn].kind == PLAN_ASYNC && !f[i].doubtful &&
		    now >= f[i].start_ns + s->opts.stall_ns)
			tell_one(s, STALL_BLOCKED_POLL, true, t, f[i].start_ns);
	}
}

static bool blocks_a_worker(const struct rt_thread *t)
{
	return roster__is_tokio(t) && t->ns[RT_STATE_EPOLL] &&
	       (t->state == RT_STATE_SLEEP || t->state == RT_STATE_IO ||
		t->state == RT_STATE_SOCKET || t->state == RT_STATE_PIPE ||
		t->state == RT_STATE_OTHER);
}

static void find_blocked(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	bool older;

	for (size_t i = 0; i < cnt; i++) {
		const struct rt_thread *t = &rows[i];

		if (roster__state_ns(s->roster, t, &older) < s->opts.stall_ns)
			continue;
		if (blocks_a_worker(t))
			tell_one(s, STALL_BLOCKED_POLL, false, t, t->since_ns);
		else if (t->state == RT_STATE_IO)
			tell_one(s, STALL_DISK, true, t, t->since_ns);
	}
}

/* No thread has run since then. */
static uint64_t silent_since(const struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	uint64_t since = 0;

	for (size_t i = 0; i < cnt; i++) {
		if (rows[i].state < RT_STATE_FUTEX)
			return roster__looked_ns(s->roster);
		since = rows[i].since_ns > since ? rows[i].since_ns : since;
	}
	return since;
}

static void find_silence(struct stalls *s)
{
	size_t cnt;
	const struct rt_thread *rows = roster__rows(s->roster, &cnt);
	uint64_t since = silent_since(s), now = roster__looked_ns(s->roster);
	struct known_stall *k;

	if (!cnt || now < since + s->opts.stall_ns) {
		s->no_progress_told = false;
		return;
	}
	if (s->no_progress_told)
		return;
	s->no_progress_told = true;
	k = new_stall(s, STALL_NO_PROGRESS, true);
	for (size_t i = 0; k && i < cnt; i++)
		add_thread(s, k, &rows[i]);
	if (!k)
		return;
	k->told.age_ns = now - since;
	tell(s, k);
}

const struct snapshot_stall *stalls__find(struct stalls *s, size_t *cnt)
{
	uint64_t now = roster__looked_ns(s->roster);

	s->fresh_cnt = 0;
	end_those_over(s);
	locks__open(s->locks);
	if (now >= s->seen_ns + PROOF_NS) {
		s->seen_ns = now;
		find_cycles(s);
	}
	find_suspects(s);
	find_open_polls(s);
	find_blocked(s);
	if (s->opts.no_progress)
		find_silence(s);
	locks__close(s->locks);
	*cnt = s->fresh_cnt;
	return s->fresh;
}

int stalls__fill(const struct stalls *s, struct snapshot *snapshot)
{
	snapshot->stalls = calloc(s->known_cnt + 1, sizeof(*snapshot->stalls));
	if (!snapshot->stalls)
		return -ENOMEM;
	for (size_t i = 0; i < s->known_cnt; i++)
		snapshot->stalls[snapshot->stall_cnt++] = s->known[i].told;
	snapshot->more_stalls = s->untold;
	return 0;
}
