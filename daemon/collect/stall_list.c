/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/stall_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/strbuf.h"

/* ---- what is known of a thread that hangs ---- */

static void read_line(const struct stall_list *l, const struct rt_thread *t, const char *name,
		      struct strbuf *out)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/task/%u/%s", l->target->pid, t->tid, name);
	if (fs__read(path, out))
		strbuf__reset(out);
}

static void add_wchan(const struct stall_list *l, const struct rt_thread *t,
		      struct stall_thread *out)
{
	struct strbuf text = STRBUF_INIT;

	read_line(l, t, "wchan", &text);
	if (text.len && strcmp(text.s, "0") != 0)
		snprintf(out->wchan, sizeof(out->wchan), "%.*s", (int)strcspn(text.s, "\n"),
			 text.s);
	strbuf__free(&text);
}

static void set_frames(const struct stall_list *l, rt_u32 pid, struct stall_thread *out)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(l->settler, &cnt);
	uint64_t now = roster__looked_ns(l->roster);

	out->frame_cnt = 0;
	for (size_t i = 0; i < cnt && out->frame_cnt < STALL_FRAMES; i++)
		if (f[i].tid == pid && !f[i].doubtful)
			out->frames[out->frame_cnt++] =
				(struct stall_frame){ l->plan->fns[f[i].fn].name,
						      now > f[i].start_ns ? now - f[i].start_ns
									  : 0 };
}

static void describe(const struct stall_list *l, const struct rt_thread *t,
		     struct stall_thread *out)
{
	struct lock_view v;
	bool older;

	*out = (struct stall_thread){
		.tid = (int)t->tid,
		.state = roster__state(t),
		.wait_ns = roster__state_ns(l->roster, t, &older),
		.syscall = t->state >= RT_STATE_FUTEX && t->syscall ? (int)t->syscall - 1 : -1,
	};
	out->wait_older = older;
	memcpy(out->name, t->comm, sizeof(t->comm) - 1);
	if (locks__is_wait(t)) {
		locks__view(l->locks, t, &v);
		out->address = v.address;
		out->lock = v.kind;
		if (v.holder && roster__by_ns_tid(l->roster, v.holder)) {
			out->holder_tid = (int)roster__by_ns_tid(l->roster, v.holder)->tid;
			out->holder_proven = true;
		}
	}
	if (t->state >= RT_STATE_FUTEX)
		add_wchan(l, t, out);
	set_frames(l, t->pid, out);
}

/* ---- the list ---- */

static const struct wait_id *find_id(const struct known_stall *k, rt_u32 pid)
{
	for (size_t i = 0; i < k->id_cnt; i++)
		if (k->ids[i].pid == pid)
			return &k->ids[i];
	return NULL;
}

bool stall_list__knows(const struct stall_list *l, enum stall_kind kind, const struct rt_thread *t)
{
	for (size_t i = 0; i < l->known_cnt; i++) {
		const struct known_stall *k = &l->known[i];
		const struct wait_id *id = find_id(k, t->pid);

		if (!id || k->told.over_unix_ns)
			continue;
		/* a deadlock that was told says all about its threads */
		if ((k->told.kind == kind || k->told.kind == STALL_DEADLOCK) &&
		    (id->since_ns == t->since_ns || kind == STALL_BLOCKED_POLL))
			return true;
	}
	return false;
}

static void drop_stacks(struct known_stall *k)
{
	for (size_t i = 0; i < k->told.thread_cnt; i++)
		free((void *)k->told.threads[i].stack.frames);
}

void stall_list__free(struct stall_list *l)
{
	for (size_t i = 0; i < l->known_cnt; i++)
		drop_stacks(&l->known[i]);
}

/* Room is made by the one that has been over for longest. */
static bool make_room(struct stall_list *l)
{
	for (size_t i = 0; i < l->known_cnt; i++) {
		if (!l->known[i].told.over_unix_ns)
			continue;
		drop_stacks(&l->known[i]);
		memmove(&l->known[i], &l->known[i + 1], (l->known_cnt - i - 1) * sizeof(*l->known));
		l->known_cnt--;
		l->dropped++;
		return true;
	}
	l->full = true;
	return false;
}

struct known_stall *stall_list__add(struct stall_list *l, enum stall_kind kind, bool proven)
{
	struct known_stall *k;

	if (l->known_cnt == MAX_STALLS && !make_room(l))
		return NULL;
	k = &l->known[l->known_cnt++];
	memset(k, 0, sizeof(*k));
	k->told.kind = kind;
	k->told.proven = proven;
	k->told.seen_unix_ns = clock__unix_ns();
	return k;
}

void stall_list__add_thread(const struct stall_list *l, struct known_stall *k,
			    const struct rt_thread *t)
{
	struct snapshot_stall *told = &k->told;

	if (find_id(k, t->pid) || k->id_cnt == MAX_STALL_IDS)
		return;
	k->ids[k->id_cnt++] = (struct wait_id){ t->pid, t->since_ns };
	if (told->thread_cnt == STALL_THREADS) {
		told->more_threads++;
		return;
	}
	describe(l, t, &told->threads[told->thread_cnt]);
	if (!told->thread_cnt++)
		told->age_ns = told->threads[0].wait_ns;
}

void stall_list__tell(struct stall_list *l, struct known_stall *k)
{
	k->fresh = true;
}

const struct snapshot_stall *stall_list__fresh(struct stall_list *l, size_t *cnt)
{
	*cnt = 0;
	for (size_t i = 0; i < l->known_cnt; i++) {
		if (l->known[i].fresh || l->known[i].ended)
			l->fresh[(*cnt)++] = l->known[i].told;
		l->known[i].fresh = l->known[i].ended = false;
	}
	return l->fresh;
}

bool stall_list__join(struct stall_list *l, const struct rt_thread *t)
{
	struct lock_view v;

	locks__view(l->locks, t, &v);
	for (size_t i = 0; i < l->known_cnt; i++) {
		struct known_stall *k = &l->known[i];

		if (k->told.over_unix_ns || k->told.kind > STALL_LOCK_WAIT)
			continue;
		for (size_t n = 0; n < k->told.thread_cnt; n++)
			if (k->told.threads[n].address == v.address) {
				stall_list__add_thread(l, k, t);
				return true;
			}
	}
	return false;
}

/* ---- stacks ---- */

size_t stall_list__unseen(const struct stall_list *l, rt_u32 *pids, size_t most)
{
	size_t cnt = 0;

	for (size_t i = 0; i < l->known_cnt; i++)
		for (size_t n = 0; n < l->known[i].told.thread_cnt && cnt < most; n++)
			if (!l->known[i].told.over_unix_ns && !l->known[i].seen[n])
				pids[cnt++] = l->known[i].ids[n].pid;
	return cnt;
}

/* A poll that is open may sleep and wake in between. */
static bool waits_on(const struct stall_list *l, const struct known_stall *k, size_t n)
{
	const struct rt_thread *t = roster__by_pid(l->roster, k->ids[n].pid);

	return t && (k->told.kind == STALL_BLOCKED_POLL || t->since_ns == k->ids[n].since_ns);
}

static int see_one(const struct stall_list *l, const struct waiting *w, struct known_stall *k)
{
	int err = 0;

	for (size_t n = 0; n < k->told.thread_cnt && !err; n++) {
		struct stall_thread *t = &k->told.threads[n];

		if (k->seen[n])
			continue;
		k->seen[n] = true;
		if (waits_on(l, k, n)) {
			set_frames(l, k->ids[n].pid, t); /* settled by that stack */
			err = waiting__stack(w, k->ids[n].pid, &t->stack);
		} else
			t->stack.truncated = "running";
	}
	return err;
}

int stall_list__see(struct stall_list *l, const struct waiting *w)
{
	int err = 0;

	for (size_t i = 0; i < l->known_cnt && !err; i++)
		if (!l->known[i].told.over_unix_ns)
			err = see_one(l, w, &l->known[i]);
	return err;
}

/* ---- its end ---- */

static bool is_open(const struct stall_list *l, const struct wait_id *call)
{
	size_t cnt;
	const struct settled_frame *f = settler__frames(l->settler, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (f[i].tid == call->pid && f[i].start_ns == call->since_ns)
			return true;
	return false;
}

static bool is_over(const struct stall_list *l, const struct known_stall *k)
{
	const struct rt_thread *t = roster__by_pid(l->roster, k->ids[0].pid);

	/* a poll may go on while its thread sleeps and wakes */
	if (t && k->by_call)
		return !is_open(l, &k->ids[0]);
	if (k->told.kind == STALL_NO_PROGRESS)
		return !t || t->since_ns > k->ids[0].since_ns;
	return !t || t->since_ns != k->ids[0].since_ns;
}

void stall_list__refresh(struct stall_list *l)
{
	for (size_t i = 0; i < l->known_cnt; i++) {
		struct known_stall *k = &l->known[i];

		if (k->told.over_unix_ns || !is_over(l, k))
			continue;
		k->told.over_unix_ns = clock__unix_ns();
		k->ended = true;
	}
}
