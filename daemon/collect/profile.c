/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "collect/cpu_rows.h"
#include "collect/lock_stacks.h"
#include "collect/namer.h"
#include "collect/wakes.h"
#include "roletrace/unwind.h"

struct profile_reader {
	struct profiler *profiler;
	const struct stacks *stacks;
	struct namer *namer;
	struct cpu_rows *rows; /* of the snapshot that is being made; NULL: no CPU profile */
	uint64_t learn_due_ns;
};

/* A stack of one snapshot. */
struct read_stack {
	enum rt_stack_kind kind;
	enum rt_unwind_end end;
	uint32_t place;
	uint32_t first, depth;	       /* in frames */
	uint32_t first_ref, ref_cnt;   /* in refs: inlined functions are frames there */
	uint64_t cnt, older, total_ns; /* older: of cnt, had begun before the window */
	char thread[16];	       /* empty: they are not told apart */
};

struct reading {
	VEC(struct read_stack) stacks;
	VEC(uint64_t) frames;		/* innermost first, as kept */
	struct frame_refs refs;		/* into the profiles' frames, roots first */
	struct frame_fns fns;		/* by profiles' frame */
	uint64_t *waiting_ns, *waiting; /* by place: waits that go on */
	uint64_t now_ns, min_ns;
	uint64_t waits, lost_waits; /* that go on */
	struct snapshot_profiles *out;
};

struct profile_reader *profile_reader__new(struct profiler *profiler, const struct stacks *stacks,
					   struct namer *namer)
{
	struct profile_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->profiler = profiler;
	r->stacks = stacks;
	r->namer = namer;
	return r;
}

void profile_reader__free(struct profile_reader *r)
{
	if (!r)
		return;
	cpu_rows__free(r->rows);
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

		if (!stacks__get(r->stacks, i, &s) || s.kind == RT_STACK_ALLOC ||
		    s.kind == RT_STACK_GROWTH ||
		    !(s.cnt + rd->waiting[i] || s.kind == RT_STACK_WAKER))
			continue;
		out = vec__push(&rd->stacks);
		if (!out)
			return -ENOMEM;
		*out = (struct read_stack){ .kind = s.kind,
					    .place = i,
					    .end = s.end,
					    .first = (uint32_t)rd->frames.cnt,
					    .depth = s.depth,
					    .cnt = s.cnt + rd->waiting[i],
					    .total_ns = s.total + rd->waiting_ns[i] };
		out->older = s.kind == RT_STACK_OFF_CPU_OLDER ? out->cnt : 0;
		memcpy(out->thread, s.thread, sizeof(out->thread));
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

static int name_stacks(const struct profile_reader *r, struct reading *rd)
{
	int err = 0;

	for (size_t i = 0; i < rd->stacks.cnt && !err; i++) {
		struct read_stack *s = &rd->stacks.data[i];

		s->first_ref = (uint32_t)rd->refs.cnt;
		for (uint32_t f = s->depth; f-- && !err;)
			err = namer__add(r->namer, rd->frames.data[s->first + f], rd->out,
					 &rd->refs, &rd->fns);
		s->ref_cnt = (uint32_t)rd->refs.cnt - s->first_ref;
	}
	return err;
}

/* ---- functions ---- */

static bool in_kernel(const struct reading *rd, uint32_t ref)
{
	return rd->out->frames.data[ref].kind == FRAME_KERNEL;
}

static bool has_unnamed(const struct profile_reader *r, const struct reading *rd,
			const struct read_stack *st)
{
	for (uint32_t i = 0; i < st->depth; i++)
		if (!namer__get(r->namer, rd->frames.data[st->first + i]))
			return true;
	return false;
}

static int count_functions(struct profile_reader *r, const struct reading *rd, struct snapshot *s)
{
	struct snapshot_profile *cpu = rd->out->of[PROFILE_CPU];

	cpu_rows__free(r->rows);
	r->rows = NULL;
	if (!cpu)
		return 0;
	r->rows = cpu_rows__new(rd->fns.data, rd->fns.cnt);
	if (!r->rows)
		return -ENOMEM;
	for (size_t i = 0; i < rd->stacks.cnt; i++) {
		const struct read_stack *st = &rd->stacks.data[i];
		const uint32_t *refs = rd->refs.data + st->first_ref;
		uint32_t depth = st->ref_cnt;

		if (st->kind != RT_STACK_CPU)
			continue;
		if (has_unnamed(r, rd, st))
			cpu->unnamed += st->cnt;
		while (depth && in_kernel(rd, refs[depth - 1]))
			depth--;
		cpu_rows__add(r->rows, refs, depth, st->cnt);
	}
	cpu_rows__book(r->rows, s);
	return 0;
}

/* ---- wakers, locks ---- */

static int fill_by_place(const struct profile_reader *r, const struct reading *rd,
			 struct snapshot *s)
{
	uint32_t places = stacks__place_cnt(r->stacks);
	struct named_stack *by_place = calloc(places, sizeof(*by_place));
	int err;

	if (!by_place)
		return -ENOMEM;
	for (size_t i = 0; i < rd->stacks.cnt; i++) {
		const struct read_stack *st = &rd->stacks.data[i];

		by_place[st->place] =
			(struct named_stack){ st->first_ref, st->ref_cnt, namer__end(st->end) };
	}
	err = lock_stacks__ended(r->profiler, by_place, places, rd->refs.data, s);
	if (profiler__opts(r->profiler)->wakers)
		err = err ?: wakes__fill(r->profiler, by_place, places, rd->refs.data, rd->out);
	free(by_place);
	return err;
}

/* ---- adding up ---- */

static enum profile_kind kind_of(const struct read_stack *s)
{
	return s->kind == RT_STACK_CPU ? PROFILE_CPU : PROFILE_OFF_CPU;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct read_stack *x = a, *y = b;
	const struct reading *rd = arg;

	if ((x->kind == RT_STACK_WAKER) != (y->kind == RT_STACK_WAKER))
		return y->kind == RT_STACK_WAKER ? -1 : 1;
	if (kind_of(x) != kind_of(y))
		return kind_of(x) < kind_of(y) ? -1 : 1;
	if (x->end != y->end)
		return x->end < y->end ? -1 : 1;
	if (strcmp(x->thread, y->thread) != 0)
		return strcmp(x->thread, y->thread);
	if (x->ref_cnt != y->ref_cnt)
		return x->ref_cnt < y->ref_cnt ? -1 : 1;
	for (uint32_t i = 0; i < x->ref_cnt; i++) {
		uint32_t p = rd->refs.data[x->first_ref + i], q = rd->refs.data[y->first_ref + i];

		if (p != q)
			return p < q ? -1 : 1;
	}
	return 0;
}

static int emit(const struct profile_reader *r, struct reading *rd, const struct read_stack *s,
		const struct read_stack *sum)
{
	enum profile_kind kind = kind_of(s);
	struct snapshot_stack figures = {
		.value = kind == PROFILE_CPU ? sum->cnt : sum->total_ns,
		.count = kind == PROFILE_CPU ? 0 : sum->cnt,
		.older = sum->older,
		.truncated = namer__end(s->end),
		.thread = s->thread[0] ? s->thread : NULL,
	};

	return rd->out->of[kind] && s->kind != RT_STACK_WAKER
		       ? profiles__stack(rd->out, kind, rd->refs.data + s->first_ref, s->ref_cnt,
					 &figures)
		       : 0;
}

static int add_up(const struct profile_reader *r, struct reading *rd)
{
	struct read_stack *s = rd->stacks.data;
	size_t end;
	int err = 0;

	if (rd->stacks.cnt)
		qsort_r(s, rd->stacks.cnt, sizeof(*s), compare, rd);
	for (size_t i = 0; i < rd->stacks.cnt && !err; i = end) {
		struct read_stack sum = {};

		for (end = i; end < rd->stacks.cnt && !compare(&s[i], &s[end], rd); end++) {
			sum.cnt += s[end].cnt;
			sum.older += s[end].older;
			sum.total_ns += s[end].total_ns;
		}
		err = emit(r, rd, &s[i], &sum);
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
		off->older = c.older_waits;
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
			      .min_ns = profiler__opts(r->profiler)->off_cpu_min_ns,
			      .out = s->profiles };
	int err = read_waits(r, &rd);

	err = err ?: read_stacks(r, &rd);
	/* behind the stacks: while it runs, there are never more in them than were counted */
	err = err ?: fill_head(r, &rd);
	err = err ?: namer__look(r->namer, rd.frames.data, rd.frames.cnt, final, &r->learn_due_ns);
	err = err ?: name_stacks(r, &rd);
	if (profiler__opts(r->profiler)->off_cpu)
		err = err ?: fill_by_place(r, &rd, s);
	err = err ?: count_functions(r, &rd, s);
	err = err ?: add_up(r, &rd);
	free(rd.waiting);
	free(rd.waiting_ns);
	vec__free(&rd.stacks);
	vec__free(&rd.frames);
	vec__free(&rd.refs);
	vec__free(&rd.fns);
	return err;
}

int profile_reader__add_rows(struct profile_reader *r, struct snapshot *s)
{
	int err = r->rows ? cpu_rows__append(r->rows, s) : 0;

	cpu_rows__free(r->rows);
	r->rows = NULL;
	return err;
}
