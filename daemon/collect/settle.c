/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/settle.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/iter.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "functions.skel.h"

typedef VEC(struct settled_frame) frame_vec;

struct settler {
	const struct object *obj;
	const struct plan *plan;
	const struct target *target;
	struct bpf_link *link;
	rt_u64 *in_flight, *stale, *dead, *given_up;
	frame_vec frames, before; /* of the last pass; of the one before it, by call */
	bool unseen_is_untold;
};

struct settler *settler__new(const struct object *obj, const struct plan *plan,
			     const struct target *target)
{
	struct settler *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->obj = obj;
	s->plan = plan;
	s->target = target;
	s->in_flight = calloc(obj->fn_cnt + 1, sizeof(*s->in_flight));
	s->stale = calloc(obj->fn_cnt + 1, sizeof(*s->stale));
	s->dead = calloc(obj->fn_cnt + 1, sizeof(*s->dead));
	s->given_up = calloc(obj->fn_cnt + 1, sizeof(*s->given_up));
	if (!s->in_flight || !s->stale || !s->dead || !s->given_up) {
		settler__free(s);
		errno = ENOMEM;
		return NULL;
	}
	s->link = iter__attach(obj->skel->progs.settle, target->pid);
	if (!s->link) {
		int err = errno;

		settler__free(s);
		errno = err;
		return NULL;
	}
	return s;
}

void settler__free(struct settler *s)
{
	if (!s)
		return;
	bpf_link__destroy(s->link);
	vec__free(&s->before);
	vec__free(&s->frames);
	free(s->in_flight);
	free(s->stale);
	free(s->dead);
	free(s->given_up);
	free(s);
}

static bool at_home(const struct rt_settled *thread, rt_u64 sp)
{
	return sp >= thread->home_lo && sp < thread->home_hi;
}

/* The target's memory, as far as it can be read: without it fewer frames are proven dead. */
struct memory {
	int fd;
	struct target_map *code, *exe;
	size_t code_cnt, exe_cnt;
};

static bool looks_dead(const struct rt_settled *thread, const struct rt_frame *f,
		       const struct memory *mem)
{
	rt_u64 slot;

	if (!(f->flags & RT_FRAME_FOREIGN) && at_home(thread, thread->user_sp) &&
	    f->sp < thread->user_sp)
		return true;
	if (mem->fd < 0 || pread(mem->fd, &slot, sizeof(slot), (off_t)f->sp) != sizeof(slot))
		return false;
	if (f->ret_addr)
		return slot != f->ret_addr;
	return mem->code_cnt && !target__is_code(mem->code, mem->code_cnt, slot);
}

/* The first site of a function; sites are sorted by function. */
static size_t first_site(const struct plan *plan, rt_u32 fn)
{
	size_t lo = 0, hi = plan->site_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (plan->sites[mid].fn < fn)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool is_entry_of(const struct settler *s, rt_u32 fn, rt_u64 address,
			const struct memory *mem)
{
	const struct plan *p = s->plan;

	for (size_t i = first_site(p, fn); i < p->site_cnt && p->sites[i].fn == fn; i++) {
		rt_u64 entry = target__address(mem->exe, mem->exe_cnt, p->sites[i].offset);

		if (p->sites[i].kind == RT_SITE_ENTRY && entry - address < PLAN_ENTRY_BLOCK_BYTES)
			return true;
	}
	return false;
}

/* Whether the call in front of the return address is a direct one, of another function. */
static bool looks_stale(const struct settler *s, const struct rt_frame *f, const struct memory *mem)
{
	unsigned char call[5];
	int32_t distance;
	rt_u64 slot;

	/* a library's function is called through stubs and pointers: nothing follows from the call
	 */
	if (mem->fd < 0 || f->ret_addr || s->plan->fns[f->fn].object ||
	    pread(mem->fd, &slot, sizeof(slot), (off_t)f->sp) != sizeof(slot) ||
	    pread(mem->fd, call, sizeof(call), (off_t)(slot - sizeof(call))) != sizeof(call) ||
	    call[0] != 0xe8)
		return false;
	memcpy(&distance, call + 1, sizeof(distance));
	return !is_entry_of(s, f->fn, slot + (rt_u64)(int64_t)distance, mem);
}

static int compare(rt_u64 a, rt_u64 b)
{
	return a < b ? -1 : a > b;
}

/* What tells one call from another. */
static int by_call(const void *a, const void *b)
{
	const struct settled_frame *x = a, *y = b;

	return compare(x->start_ns, y->start_ns)
		       ?: compare(x->sp, y->sp) ?: compare(x->tid, y->tid) ?: compare(x->fn, y->fn);
}

static const struct settled_frame *find_before(const struct settler *s,
					       const struct settled_frame *f)
{
	return s->before.cnt ? bsearch(f, s->before.data, s->before.cnt, sizeof(*f), by_call)
			     : NULL;
}

/* A witness that found it alive is believed until memory looks otherwise than then. */
static enum call_verdict verdict_from(const struct settled_frame *was,
				      const struct settled_frame *now)
{
	if (was->verdict == CALL_ALIVE && now->looks_stale && !was->looks_stale)
		return CALL_UNDECIDED;
	return was->verdict;
}

static void count_frame(struct settler *s, struct settled_frame *f)
{
	const struct settled_frame *was = find_before(s, f);
	bool decided, untold;

	f->verdict = was ? verdict_from(was, f) : CALL_UNDECIDED;
	decided = f->verdict != CALL_UNDECIDED;
	f->doubtful = f->looks_dead || f->verdict == CALL_DEAD || (f->looks_stale && !decided);
	if (f->verdict == CALL_DEAD || (f->looks_dead && was && was->looks_dead)) {
		s->dead[f->fn]++;
		return;
	}
	s->in_flight[f->fn]++;
	untold = was ? was->untold : s->unseen_is_untold;
	s->stale[f->fn] += !decided && (f->looks_stale || untold);
}

static int count_thread(struct settler *s, const struct rt_settled *thread,
			const struct rt_frame *frames, const struct memory *mem)
{
	for (rt_u32 i = 0; i < thread->depth; i++) {
		const struct rt_frame *f = &frames[i];
		struct settled_frame *open;

		if (f->fn >= s->obj->fn_cnt)
			continue;
		if (RT_FRAME_EPOCH(f->flags) != RT_CONF_EPOCH(s->obj->confs[f->fn].state)) {
			s->given_up[f->fn]++;
			continue;
		}
		open = vec__push(&s->frames);
		if (!open)
			return -ENOMEM;
		*open = (struct settled_frame){ .tid = thread->tid,
						.fn = f->fn,
						.start_ns = f->start_ns,
						.sp = f->sp,
						.home_lo = thread->home_lo,
						.home_hi = thread->home_hi };
		open->looks_dead = looks_dead(thread, f, mem);
		open->looks_stale = !open->looks_dead && looks_stale(s, f, mem);
		count_frame(s, open);
	}
	return 0;
}

/* The frames of the last pass become those before. */
static void turn_over(struct settler *s)
{
	frame_vec last;

	memcpy(&last, &s->frames, sizeof(last));
	memcpy(&s->frames, &s->before, sizeof(last));
	memcpy(&s->before, &last, sizeof(last));
	s->frames.cnt = 0;
	if (s->before.cnt)
		qsort(s->before.data, s->before.cnt, sizeof(*s->before.data), by_call);
}

int settler__pass(struct settler *s)
{
	struct strbuf records = STRBUF_INIT;
	struct memory mem = { .fd = -1 };
	int err;

	err = iter__read(s->link, &records);
	if (err)
		goto out;
	if (records.len) {
		mem.fd = target__open_mem(s->target);
		(void)target__code_maps(s->target, &mem.code, &mem.code_cnt);
		(void)target__exe_maps(s->target, &mem.exe, &mem.exe_cnt);
	}
	turn_over(s);
	memset(s->in_flight, 0, s->obj->fn_cnt * sizeof(*s->in_flight));
	memset(s->stale, 0, s->obj->fn_cnt * sizeof(*s->stale));
	memset(s->dead, 0, s->obj->fn_cnt * sizeof(*s->dead));
	memset(s->given_up, 0, s->obj->fn_cnt * sizeof(*s->given_up));
	for (size_t at = 0; !err && at + sizeof(struct rt_settled) <= records.len;) {
		struct rt_settled thread;
		struct rt_frame frames[RT_STACK_DEPTH];
		size_t bytes;

		memcpy(&thread, records.s + at, sizeof(thread));
		at += sizeof(thread);
		bytes = thread.depth * sizeof(*frames);
		if (thread.depth > RT_STACK_DEPTH || at + bytes > records.len) {
			err = -EPROTO;
			break;
		}
		memcpy(frames, records.s + at, bytes);
		at += bytes;
		err = count_thread(s, &thread, frames, &mem);
	}
	if (mem.fd >= 0)
		close(mem.fd);
	free(mem.code);
	free(mem.exe);
out:
	strbuf__free(&records);
	return err;
}

rt_u64 settler__in_flight(const struct settler *s, rt_u32 fn)
{
	return s->in_flight[fn];
}

rt_u64 settler__stale(const struct settler *s, rt_u32 fn)
{
	return s->stale[fn];
}

rt_u64 settler__given_up(const struct settler *s, rt_u32 fn)
{
	return s->given_up[fn];
}

rt_u64 settler__dead(const struct settler *s, rt_u32 fn)
{
	return s->dead[fn];
}

void settler__doubt_unseen(struct settler *s)
{
	s->unseen_is_untold = true;
}

size_t settler__doubts(const struct settler *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->frames.cnt; i++)
		n += s->frames.data[i].looks_stale && s->frames.data[i].verdict != CALL_DEAD;
	return n;
}

struct settled_frame *settler__frames(struct settler *s, size_t *cnt)
{
	*cnt = s->frames.cnt;
	return s->frames.data;
}
