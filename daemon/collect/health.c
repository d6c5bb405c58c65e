/* SPDX-License-Identifier: BSD-2-Clause */
/* What was lost, refused and shed, and whether that makes figures incomplete. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/growth.h"
#include "attach/memory.h"
#include "collect/collector.h"
#include "collect/settle.h"
#include "collect/threadwatch.h"
#include "functions.skel.h"

static const char *const lost_names[] = RT_LOST_NAMES;
static const char *const memory_lost_names[] = RT_MEM_LOST_NAMES;

/* Losses that make figures of a row incomplete; the others are told, and no fault. */
static bool is_fault(enum rt_lost what)
{
	return what != RT_LOST_ORPHAN_EXITS && what != RT_LOST_OTHER_STACK;
}

/* Events for which the kernel did not run a program (it was running on that CPU already). */
static uint64_t recursion_misses(const struct collector *c)
{
	struct functions_bpf *skel = c->obj->skel;
	const struct bpf_program *progs[] = { skel->progs.site, skel->progs.uret_entry,
					      skel->progs.uret_exit };
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		struct bpf_prog_info info = {};
		__u32 len = sizeof(info);

		if (!bpf_prog_get_info_by_fd(bpf_program__fd(progs[i]), &info, &len))
			n += info.recursion_misses;
	}
	return n + (tracer__growth(c->tracer) ? growth__missed(tracer__growth(c->tracer)) : 0);
}

/* Calls that were counted and, to keep to the budget, not timed. */
static uint64_t not_sampled(const struct collector *c)
{
	uint64_t n = 0;

	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++) {
		struct rt_fn_stats st;

		object__fn_stats(c->obj, fn, &st);
		n += st.unsampled;
	}
	return n;
}

static int fill_lost(const struct collector *c, struct snapshot *s)
{
	const struct memory *memory = tracer__memory(c->tracer);
	const struct growth *growth = tracer__growth(c->tracer);
	struct rt_growth_taken taken;

	s->lost = calloc(RT_LOST_CNT + RT_MEM_LOST_CNT + 4 + THREADWATCH_LOST, sizeof(*s->lost));
	if (!s->lost)
		return -ENOMEM;
	for (int i = 0; i < RT_LOST_CNT; i++)
		s->lost[s->lost_cnt++] = (struct snapshot_lost){
			.name = lost_names[i],
			.count = *(volatile rt_u64 *)&c->obj->skel->bss->lost[i],
		};
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		s->lost[RT_LOST_SHED_IN_FLIGHT].count += settler__given_up(c->settler, fn);
	for (int i = 0; i < RT_MEM_LOST_CNT && memory; i++)
		s->lost[s->lost_cnt++] = (struct snapshot_lost){
			.name = memory_lost_names[i],
			.count = memory__lost(memory, (enum rt_mem_lost)i),
		};
	if (growth && growth__stacks(growth)) {
		growth__taken(growth, &taken);
		s->lost[s->lost_cnt++] =
			(struct snapshot_lost){ "growth_stacks_not_kept", taken.lost };
	}
	s->lost[s->lost_cnt++] =
		(struct snapshot_lost){ "sites_disarmed", tracer__disarmed(c->tracer) };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "programs_skipped", recursion_misses(c) };
	s->lost[s->lost_cnt++] = (struct snapshot_lost){ "not_sampled", not_sampled(c) };
	if (c->watch)
		s->lost_cnt += threadwatch__lost(c->watch, &s->lost[s->lost_cnt]);
	return 0;
}

static int fill_skipped(const struct collector *c, struct snapshot *s)
{
	s->skipped = calloc(c->plan->skip_cnt + c->plan->fn_cnt + 1, sizeof(*s->skipped));
	if (!s->skipped)
		return -ENOMEM;
	for (size_t i = 0; i < c->plan->skip_cnt; i++)
		s->skipped[s->skip_cnt++] =
			(struct snapshot_skip){ c->plan->skipped[i].name,
						plan_refusal_text(c->plan->skipped[i].why) };
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		if (tracer__refused(c->tracer, fn))
			s->skipped[s->skip_cnt++] =
				(struct snapshot_skip){ c->plan->fns[fn].name,
							plan_refusal_text(PLAN_REFUSED_BY_KERNEL) };
	return 0;
}

static int fill_shed(const struct collector *c, struct snapshot *s)
{
	size_t cnt;
	const struct governor_step *steps = governor__steps(tracer__governor(c->tracer), &cnt);

	s->overhead.shed = calloc(cnt + 1, sizeof(*s->overhead.shed));
	if (!s->overhead.shed)
		return -ENOMEM;
	s->overhead.shed_cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		s->overhead.shed[i] = (struct snapshot_shed){
			.name = s->fns[steps[i].fn].name,
			.reason = steps[i].to > steps[i].from ? "over budget" : "calm again",
			.unix_ns = steps[i].unix_ns,
			.from = governor_mode_names[steps[i].from],
			.to = governor_mode_names[steps[i].to],
			.calls_per_s = steps[i].calls_per_s,
			.cost_ratio = steps[i].cost_ratio,
		};
	return 0;
}

static int add_reason(struct snapshot *s, const char *what, uint64_t count)
{
	char *text;

	if (!count)
		return 0;
	if (asprintf(&text, "%s: %llu", what, (unsigned long long)count) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

static int add_text(struct snapshot *s, const char *before, const char *words)
{
	char *text;

	if (asprintf(&text, "%s%s", before, words) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

/* A debugger took breakpoints away with its own: until they were back calls went by unseen. */
static int fill_gaps(const struct collector *c, struct snapshot *s)
{
	const char *first = NULL;
	size_t cnt = 0;
	char *text;

	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++) {
		if (!tracer__has_gap(c->tracer, fn))
			continue;
		s->fns[fn].coverage = COVERAGE_SAMPLED;
		first = first ?: s->fns[fn].name;
		cnt++;
	}
	if (!cnt)
		return 0;
	if (asprintf(&text,
		     "calls missed in %zu function%s, first '%s': breakpoints overwritten "
		     "(a debugger?)",
		     cnt, cnt == 1 ? "" : "s", first) < 0)
		return -ENOMEM;
	s->reasons[s->reason_cnt++] = text;
	return 0;
}

/* Of a library that never came nothing can have been called. */
static int fill_late(const struct collector *c, struct snapshot *s)
{
	for (size_t i = 0; i < c->plan->object_cnt; i++) {
		uint32_t source = c->plan->objects[i].source;
		char *text;

		if (!source || !c->target->objects[source - 1].late)
			continue;
		if (asprintf(&text, "not mapped by the process so far: '%s'",
			     c->target->objects[source - 1].path) < 0)
			return -ENOMEM;
		s->reasons[s->reason_cnt++] = text;
	}
	return 0;
}

/* Without any probe over the budget. */
static bool is_dear(const struct collector *c, const struct snapshot *s)
{
	return s->overhead.threads_ratio + s->overhead.profile_ratio + s->overhead.growth_ratio >
	       c->opts.budget;
}

static int fill_health(const struct collector *c, struct snapshot *s)
{
	size_t refused = 0;
	int err = 0;

	s->reasons = calloc(s->lost_cnt + c->plan->object_cnt + 7, sizeof(*s->reasons));
	if (!s->reasons)
		return -ENOMEM;
	for (size_t i = 0; i < s->lost_cnt && !err; i++)
		if (strcmp(s->lost[i].name, "memory_orphan_exits") &&
		    (i >= RT_LOST_CNT || is_fault((enum rt_lost)i)))
			err = add_reason(s, s->lost[i].name, s->lost[i].count);
	for (rt_u32 fn = 0; fn < c->plan->fn_cnt; fn++)
		refused += tracer__refused(c->tracer, fn);
	err = err ?: add_reason(s, "functions refused by the kernel", refused);
	err = err ?: add_reason(s, "functions shed over budget", s->overhead.shed_fns);
	if (c->opts.profiler && profiler__wakers_dropped(c->opts.profiler) && !err)
		err = add_text(s, "over budget: ", "who ends waits was not noted all the time");
	if (c->opts.budget >= 0 && !err && is_dear(c, s))
		err = add_text(s, "over budget: ",
			       "what is no probe alone takes more (overhead: threads, profile, "
			       "growth)");
	if (s->memory && !err)
		err = add_reason(s, "live blocks without an owner: --max-blocks was reached",
				 s->memory->unowned_count);
	if (s->memory && s->memory->why && !err)
		err = add_text(s, "memory: ", s->memory->why);
	return err;
}

int health__fill(const struct collector *c, struct snapshot *s)
{
	int err = fill_lost(c, s);

	err = err ?: fill_skipped(c, s);
	err = err ?: fill_shed(c, s);
	err = err ?: fill_health(c, s);
	err = err ?: fill_gaps(c, s);
	return err ?: fill_late(c, s);
}
