/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "collect/namer.h"
#include "roletrace/unwind.h"

/* Looking for names starts processes: at most one part of so many of the time. */
#define LEARN_SHARE 200

static const char *const end_names[] = RT_UNWIND_END_NAMES;

struct profile_reader {
	struct profiler *profiler;
	const struct stacks *stacks;
	struct namer *namer;
	uint64_t next_learn_ns;
};

/* A stack of one snapshot. */
struct read_stack {
	enum rt_stack_kind kind;
	enum rt_unwind_end end;
	uint32_t first, depth;	     /* in frames */
	uint32_t first_ref, ref_cnt; /* in refs: inlined functions are frames there */
	uint64_t cnt, total_ns;
};

struct reading {
	VEC(struct read_stack) stacks;
	VEC(uint64_t) frames;		/* innermost first, as kept */
	VEC(uint32_t) refs;		/* into the profiles' frames, roots first */
	uint64_t *waiting_ns, *waiting; /* by place: waits that go on */
	uint64_t now_ns, min_ns;
	uint64_t waits, lost_waits; /* that go on */
	struct snapshot_profiles *out;
};

struct profile_reader *profile_reader__new(const struct plan *plan, const struct target *target,
					   struct profiler *profiler, const struct stacks *stacks,
					   const char *debug_file)
{
	struct profile_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->profiler = profiler;
	r->stacks = stacks;
	r->namer = namer__new(plan, target, stacks__code(stacks), debug_file);
	if (!r->namer) {
		free(r);
		return NULL;
	}
	return r;
}

void profile_reader__free(struct profile_reader *r)
{
	if (!r)
		return;
	namer__free(r->namer);
	free(r);
}

/* ---- reading ---- */

static void add_wait(void *arg, uint32_t place, uint64_t since_ns)
{
	struct reading *rd = arg;
	uint64_t ns = rd->now_ns > since_ns ? rd->now_ns - since_ns : 0;

	if (ns < rd->min_ns)
		return;
	rd->waits++;
	if (!place) {
		rd->lost_waits++;
		return;
	}
	rd->waiting[place - 1]++;
	rd->waiting_ns[place - 1] += ns;
}

static int read_waits(const struct profile_reader *r, struct reading *rd)
{
	uint32_t places = stacks__place_cnt(r->stacks);
	int err;

	rd->waiting = calloc(places, sizeof(*rd->waiting));
	rd->waiting_ns = calloc(places, sizeof(*rd->waiting_ns));
	if (!rd->waiting || !rd->waiting_ns)
		return -ENOMEM;
	if (!profiler__opts(r->profiler)->off_cpu)
		return 0;
	err = profiler__waits(r->profiler, add_wait, rd);
	return err == -ESRCH ? 0 : err; /* a process that has ended waits for nothing */
}

static int read_stacks(const struct profile_reader *r, struct reading *rd)
{
	uint32_t places = stacks__place_cnt(r->stacks);
	struct kept_stack s;

	for (uint32_t i = 0; i < places; i++) {
		struct read_stack *out;

		if (!stacks__get(r->stacks, i, &s) || !(s.cnt + rd->waiting[i]))
			continue;
		out = vec__push(&rd->stacks);
		if (!out)
			return -ENOMEM;
		*out = (struct read_stack){ .kind = s.kind,
					    .end = s.end,
					    .first = (uint32_t)rd->frames.cnt,
					    .depth = s.depth,
					    .cnt = s.cnt + rd->waiting[i],
					    .total_ns = s.total + rd->waiting_ns[i] };
		for (uint32_t f = 0; f < s.depth; f++) {
			uint64_t *slot = vec__push(&rd->frames);

			if (!slot)
				return -ENOMEM;
			*slot = s.frames[f];
		}
	}
	return 0;
}

/* ---- naming ---- */

static int learn(struct profile_reader *r, const struct reading *rd, bool final)
{
	uint64_t begin = clock__mono_ns(), *copy;
	int err;

	if (!rd->frames.cnt || (!final && begin < r->next_learn_ns))
		return 0;
	copy = malloc(rd->frames.cnt * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	memcpy(copy, rd->frames.data, rd->frames.cnt * sizeof(*copy));
	err = namer__learn(r->namer, copy, rd->frames.cnt);
	free(copy);
	r->next_learn_ns = clock__mono_ns() + (clock__mono_ns() - begin) * LEARN_SHARE;
	return err;
}

static int push_ref(struct reading *rd, const struct snapshot_frame *frame)
{
	uint32_t *slot = vec__push(&rd->refs);

	if (!slot)
		return -ENOMEM;
	*slot = profiles__frame(rd->out, frame);
	return *slot == UINT32_MAX ? -ENOMEM : 0;
}

/* A frame, and the functions that are inlined in it. */
static int name_frame(const struct profile_reader *r, struct reading *rd, uint64_t frame)
{
	static const struct snapshot_frame unnamed = { .name = "[not named yet]" };
	const struct named *n = namer__get(r->namer, frame);
	int err = push_ref(rd, n ? &n->f : &unnamed);

	for (uint32_t i = 0; n && i < n->inlined_cnt && !err; i++)
		err = push_ref(rd, &n->inlined[i]);
	return err;
}

static int name_stacks(const struct profile_reader *r, struct reading *rd)
{
	int err = 0;

	for (size_t i = 0; i < rd->stacks.cnt && !err; i++) {
		struct read_stack *s = &rd->stacks.data[i];

		s->first_ref = (uint32_t)rd->refs.cnt;
		for (uint32_t f = s->depth; f-- && !err;)
			err = name_frame(r, rd, rd->frames.data[s->first + f]);
		s->ref_cnt = (uint32_t)rd->refs.cnt - s->first_ref;
	}
	return err;
}

/* ---- functions ---- */

/* A recursive function is inclusive of itself once. */
static bool seen_further_in(const struct profile_reader *r, const uint64_t *frames, uint32_t at,
			    uint32_t row)
{
	for (uint32_t i = 0; i < at; i++) {
		const struct named *n = namer__get(r->namer, frames[i]);

		if (n && n->row == row)
			return true;
	}
	return false;
}

/* The innermost frame has the sample to itself, the kernel's work for it included. */
static void count_functions(const struct profile_reader *r, const struct reading *rd,
			    struct snapshot *s)
{
	for (size_t i = 0; i < rd->stacks.cnt; i++) {
		const struct read_stack *st = &rd->stacks.data[i];
		const uint64_t *frames = rd->frames.data + st->first;
		uint32_t leaf = st->depth && RT_FRAME_OBJECT(frames[0]) == RT_OBJECT_KERNEL;

		for (uint32_t f = 0; f < st->depth && st->kind == RT_STACK_CPU; f++) {
			const struct named *n = namer__get(r->namer, frames[f]);

			if (!n || n->row >= s->fn_cnt || seen_further_in(r, frames, f, n->row))
				continue;
			s->fns[n->row].cpu_samples += st->cnt;
			if (f == leaf)
				s->fns[n->row].cpu_self_samples += st->cnt;
		}
	}
}

/* ---- adding up ---- */

static int compare(const void *a, const void *b, void *arg)
{
	const struct read_stack *x = a, *y = b;
	const struct reading *rd = arg;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	if (x->ref_cnt != y->ref_cnt)
		return x->ref_cnt < y->ref_cnt ? -1 : 1;
	for (uint32_t i = 0; i < x->ref_cnt; i++) {
		uint32_t p = rd->refs.data[x->first_ref + i], q = rd->refs.data[y->first_ref + i];

		if (p != q)
			return p < q ? -1 : 1;
	}
	return 0;
}

static int emit(struct reading *rd, const struct read_stack *s, uint64_t cnt, uint64_t total_ns)
{
	enum profile_kind kind = s->kind == RT_STACK_CPU ? PROFILE_CPU : PROFILE_OFF_CPU;
	struct snapshot_stack figures = {
		.value = kind == PROFILE_CPU ? cnt : total_ns,
		.count = kind == PROFILE_CPU ? 0 : cnt,
		.truncated = s->end < RT_END_CNT ? end_names[s->end] : "unknown",
	};

	return rd->out->of[kind] ? profiles__stack(rd->out, kind, rd->refs.data + s->first_ref,
						   s->ref_cnt, &figures)
				 : 0;
}

static int add_up(struct reading *rd)
{
	struct read_stack *s = rd->stacks.data;
	size_t end;
	int err = 0;

	if (rd->stacks.cnt)
		qsort_r(s, rd->stacks.cnt, sizeof(*s), compare, rd);
	for (size_t i = 0; i < rd->stacks.cnt && !err; i = end) {
		uint64_t cnt = 0, total_ns = 0;

		for (end = i; end < rd->stacks.cnt && !compare(&s[i], &s[end], rd); end++) {
			cnt += s[end].cnt;
			total_ns += s[end].total_ns;
		}
		err = emit(rd, &s[i], cnt, total_ns);
	}
	return err;
}

static int fill_head(const struct profile_reader *r, struct reading *rd)
{
	const struct profiler_opts *o = profiler__opts(r->profiler);
	struct snapshot_profiles *out = rd->out;
	struct snapshot_profile *cpu = NULL, *off = NULL;
	struct profiler_counts c;
	int err = 0;

	profiler__counts(r->profiler, &c);
	if (o->hz && !(cpu = out->of[PROFILE_CPU] = profile__new()))
		return -ENOMEM;
	if (o->off_cpu && !(off = out->of[PROFILE_OFF_CPU] = profile__new()))
		return -ENOMEM;
	if (cpu) {
		cpu->hz = o->hz;
		cpu->count = c.samples;
	}
	if (off) {
		off->min_ns = o->off_cpu_min_ns;
		off->count = c.waits - c.short_waits + rd->waits;
		err = profiles__count(out, &off->lost, "no_storage", c.no_storage);
		err = err
			      ?: profiles__count(out, &off->lost, "stack_not_kept",
						 c.waits_lost + rd->lost_waits);
	}
	if (cpu)
		err = err ?: profiles__count(out, &cpu->lost, "stack_not_kept", c.samples_lost);
	return err;
}

int profile_reader__fill(struct profile_reader *r, struct snapshot *s, uint64_t now_ns, bool final)
{
	struct reading rd = { .now_ns = now_ns,
			      .min_ns = profiler__opts(r->profiler)->off_cpu_min_ns };
	int err = (s->profiles = rd.out = profiles__new()) ? 0 : -ENOMEM;

	err = err ?: read_waits(r, &rd);
	err = err ?: read_stacks(r, &rd);
	/* behind the stacks: while it runs, there are never more in them than were counted */
	err = err ?: fill_head(r, &rd);
	err = err ?: learn(r, &rd, final);
	err = err ?: name_stacks(r, &rd);
	err = err ?: add_up(&rd);
	if (!err)
		count_functions(r, &rd, s);
	free(rd.waiting);
	free(rd.waiting_ns);
	vec__free(&rd.stacks);
	vec__free(&rd.frames);
	vec__free(&rd.refs);
	return err;
}
