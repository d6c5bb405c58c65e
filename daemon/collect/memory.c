/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/memory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/memory.h"
#include "attach/stacks.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "collect/estimate.h"
#include "collect/growth.h"
#include "collect/growth_stacks.h"
#include "collect/leaks.h"
#include "collect/native.h"
#include "collect/paths.h"
#include "collect/survivors.h"
#include "collect/trend.h"

/* pagemap walks of large processes hold their memory lock. */
#define PSS_LIMIT_BYTES (1ull << 30)

struct process_memory {
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes, data_bytes;
	uint64_t mapped_bytes, pss_bytes;
};

struct memory_collector {
	const struct plan *plan;
	const struct target *target;
	struct memory *memory;	     /* NULL: no allocator is traced */
	const struct growth *growth; /* NULL: --memory off */
	const struct object *obj;
	struct trend *trend;
	bool stacks;
	bool estimated; /* of blocks only a sample is known */
	struct memory_collector_opts opts;
	uint64_t learn_due_ns;
	uint64_t start_ns, start_unix_ns, rss_start_bytes;
	struct process_memory last; /* as long as it could be read */
	int64_t *live;		    /* scratch: by owner */
	struct estimate *fn_live;   /* scratch: by function */
	uint32_t *stack_of_path;    /* scratch: by owner */
	struct survivors *survivors;
	uint32_t owner_cnt;
};

static int set_up_survivors(struct memory_collector *c)
{
	struct survivors_opts so = { .owner_cnt = c->owner_cnt,
				     .allocator_cnt = (rt_u32)c->plan->allocator_cnt,
				     .leak_after_s = c->opts.leak_after_s };

	if (!c->stacks)
		return 0;
	if (c->opts.stacks)
		so.stack_cnt = stacks__place_cnt(c->opts.stacks);
	c->survivors = survivors__new(c->memory, &so);
	return c->survivors ? 0 : -ENOMEM;
}

struct memory_collector *memory_collector__new(const struct plan *plan, const struct target *target,
					       struct tracer *tracer,
					       const struct memory_collector_opts *opts)
{
	struct memory_collector *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->plan = plan;
	c->target = target;
	c->memory = tracer__memory(tracer);
	c->growth = tracer__growth(tracer);
	c->obj = tracer__object(tracer);
	c->opts = *opts;
	c->owner_cnt = c->obj->path_cnt + RT_PATH_FIRST;
	c->stacks = c->memory && plan->memory == PLAN_MEMORY_STACKS && !memory__why(c->memory);
	c->estimated = c->stacks && memory__is_estimated(c->memory);
	c->trend = trend__new(c->stacks ? c->owner_cnt : 0);
	c->live = calloc(c->owner_cnt, sizeof(*c->live));
	c->fn_live = calloc(plan->fn_cnt + 1, sizeof(*c->fn_live));
	c->stack_of_path = calloc(c->owner_cnt, sizeof(*c->stack_of_path));
	if (!c->trend || !c->live || !c->fn_live || !c->stack_of_path || set_up_survivors(c)) {
		memory_collector__free(c);
		errno = ENOMEM;
		return NULL;
	}
	return c;
}

void memory_collector__free(struct memory_collector *c)
{
	if (!c)
		return;
	trend__free(c->trend);
	survivors__free(c->survivors);
	free(c->live);
	free(c->fn_live);
	free(c->stack_of_path);
	free(c);
}

/* ---- the process ---- */

static uint64_t kilobytes(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

static int read_proc(const struct target *t, const char *name, struct strbuf *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", t->pid, t->proc_tid, name);
	return fs__read(path, out);
}

static void read_process(struct memory_collector *c)
{
	struct strbuf sb = STRBUF_INIT;

	if (!read_proc(c->target, "status", &sb) && kilobytes(sb.s, "\nVmRSS:"))
		c->last = (struct process_memory){
			.rss_bytes = kilobytes(sb.s, "\nVmRSS:"),
			.anon_bytes = kilobytes(sb.s, "\nRssAnon:"),
			.file_bytes = kilobytes(sb.s, "\nRssFile:"),
			.shmem_bytes = kilobytes(sb.s, "\nRssShmem:"),
			.swap_bytes = kilobytes(sb.s, "\nVmSwap:"),
			.data_bytes = kilobytes(sb.s, "\nVmData:"),
			.mapped_bytes = kilobytes(sb.s, "\nVmSize:"),
			.pss_bytes = c->last.pss_bytes,
		};
	strbuf__free(&sb);
}

static void read_pss(struct memory_collector *c)
{
	struct strbuf sb = STRBUF_INIT;
	char path[64];

	if (c->last.mapped_bytes > PSS_LIMIT_BYTES && c->last.rss_bytes > PSS_LIMIT_BYTES)
		return;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", c->target->pid);
	if (!fs__read(path, &sb))
		c->last.pss_bytes = kilobytes(sb.s, "\nPss:");
	strbuf__free(&sb);
}

/* ---- samples ---- */

static void add_sums(struct snapshot_sums *to, const struct snapshot_sums *s)
{
	to->alloc_bytes += s->alloc_bytes;
	to->alloc_count += s->alloc_count;
	to->freed_bytes += s->freed_bytes;
	to->freed_count += s->freed_count;
}

static void add_class(struct snapshot_sums *to, const struct rt_mem_sums *s)
{
	to->alloc_bytes += s->alloc_bytes;
	to->alloc_count += s->alloc_cnt;
	to->freed_bytes += s->freed_bytes;
	to->freed_count += s->freed_cnt;
}

/* Its frees are only those of sampled blocks: what is live comes from them. */
static bool is_estimated(const struct memory_collector *c, rt_u32 allocator)
{
	return c->estimated && !c->plan->allocators[allocator].chunk;
}

/* What was handed out is exact; what of that is live is an estimate, and freed the rest. */
static void set_live(const struct estimate *live, struct snapshot_sums *s)
{
	double bytes = estimate__bytes(live, (double)s->alloc_bytes);

	s->freed_bytes = s->alloc_bytes - (uint64_t)llround(bytes);
	s->freed_count =
		s->alloc_count - (uint64_t)llround(fmin(live->count, (double)s->alloc_count));
}

static uint64_t error_of(const struct memory_collector *c, const struct estimate *live,
			 uint64_t most)
{
	return (uint64_t)llround(estimate__error(live, memory__sample(c->memory), (double)most));
}

/* All that an allocator did, by size class and in all. Classes are kept within what was handed out
 * of each, so estimated ones may be less than the whole. */
static void read_allocator(const struct memory_collector *c, rt_u32 allocator,
			   struct snapshot_sums *out, struct snapshot_sums *all, uint64_t *error)
{
	struct rt_mem_sums classes[RT_MEM_CLASSES];
	struct estimate live = {};

	_Static_assert(RT_MEM_CLASSES == SNAPSHOT_SIZE_CLASSES, "size classes");
	memory__sums(c->memory, allocator, classes);
	*all = (struct snapshot_sums){};
	for (unsigned int k = 0; k < RT_MEM_CLASSES; k++) {
		out[k] = (struct snapshot_sums){};
		add_class(&out[k], &classes[k]);
		add_sums(all, &out[k]);
		if (!is_estimated(c, allocator))
			continue;
		estimate__merge(&live, survivors__of_class(c->survivors, allocator, k));
		set_live(survivors__of_class(c->survivors, allocator, k), &out[k]);
	}
	*error = 0;
	if (!is_estimated(c, allocator))
		return;
	set_live(&live, all);
	*error = error_of(c, &live, all->alloc_bytes);
}

static int64_t live_bytes(const struct memory_collector *c)
{
	struct snapshot_sums classes[SNAPSHOT_SIZE_CLASSES], all;
	int64_t live = 0;
	uint64_t error;

	for (rt_u32 i = 0; c->memory && i < c->plan->allocator_cnt; i++) {
		if (!c->plan->allocators[i].totals || memory__why(c->memory))
			continue;
		read_allocator(c, i, classes, &all, &error);
		live += sums__live_bytes(&all);
	}
	return live;
}

static bool is_used(const struct memory_collector *c, rt_u32 path)
{
	return path < RT_PATH_FIRST || c->obj->paths[path - RT_PATH_FIRST];
}

/* Blocks are seen to be freed until then. */
static uint64_t seen_until(const struct memory_collector *c, uint64_t now_ns)
{
	uint64_t shed_ns = memory__shed_ns(c->memory);

	return shed_ns && shed_ns < now_ns ? shed_ns : now_ns;
}

static void sample(struct memory_collector *c, uint64_t now_ns)
{
	struct rt_mem_sums sums;

	read_process(c);
	/* a sample is small; without one the counters tell */
	if (c->estimated && survivors__look(c->survivors, c->start_ns, seen_until(c, now_ns)))
		return;
	for (rt_u32 path = 0; c->stacks && path < c->owner_cnt; path++) {
		c->live[path] = 0;
		if (!is_used(c, path))
			continue;
		if (c->estimated) {
			c->live[path] = llround(survivors__of_path(c->survivors, path)->live.bytes);
			continue;
		}
		memory__owner(c->memory, path, &sums);
		c->live[path] = (int64_t)(sums.alloc_bytes - sums.freed_bytes);
	}
	/* out of memory there is a gap */
	(void)trend__add(c->trend, now_ns, c->last.rss_bytes, live_bytes(c), c->live);
}

void memory_collector__start(struct memory_collector *c)
{
	read_process(c);
	c->rss_start_bytes = c->last.rss_bytes;
	c->start_ns = clock__mono_ns();
	c->start_unix_ns = clock__unix_ns();
	sample(c, c->start_ns);
}

void memory_collector__tick(struct memory_collector *c, uint64_t now_ns)
{
	if (trend__due(c->trend, now_ns))
		sample(c, now_ns);
}

uint64_t memory_collector__next_ns(const struct memory_collector *c)
{
	return trend__next_ns(c->trend);
}

/* ---- into the snapshot ---- */

static int by_live(const void *a, const void *b)
{
	const struct snapshot_alloc_stack *x = a, *y = b;

	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? 1 : -1;
	return x->alloc_bytes < y->alloc_bytes ? 1 : x->alloc_bytes > y->alloc_bytes ? -1 : 0;
}

static uint64_t above_zero(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* What was handed out is exact in any case. */
static void fill_live(const struct memory_collector *c, rt_u32 path, const struct rt_mem_sums *sums,
		      struct snapshot_alloc_stack *out)
{
	const struct estimate *live = &survivors__of_path(c->survivors, path)->live;
	struct snapshot_sums all = {};

	add_class(&all, sums);
	if (c->estimated) {
		set_live(live, &all);
		out->estimated = true;
		out->live_error_bytes = error_of(c, live, all.alloc_bytes);
	}
	out->alloc_bytes = all.alloc_bytes;
	out->alloc_count = all.alloc_count;
	out->live_bytes = above_zero(all.alloc_bytes, all.freed_bytes);
	out->live_count = above_zero(all.alloc_count, all.freed_count);
}

static int fill_stack(const struct memory_collector *c, struct snapshot *s, rt_u32 path,
		      const struct rt_mem_sums *sums, uint64_t now_ns)
{
	struct snapshot_alloc_stack *out = &s->alloc_stacks[s->alloc_stack_cnt];
	const struct survivor *of = survivors__of_path(c->survivors, path);
	rt_u32 fn = paths__fn(c->obj, path);
	struct survivor_verdict verdict;
	struct trend_line line;

	out->frames = paths__frames(c->obj, s, path, &out->depth);
	if (!out->frames)
		return -ENOMEM;
	out->path = path;
	s->alloc_stack_cnt++;
	fill_live(c, path, sums, out);
	out->oldest_ns = of->oldest_ns ? above_zero(now_ns, of->oldest_ns) : 0;
	if (trend__line(c->trend, path, &line)) {
		out->slope = line.slope;
		out->slope_error = line.error;
	}
	survivors__judge(c->survivors, of, c->estimated, &verdict);
	out->old_bytes = (uint64_t)llround(of->old.bytes);
	out->old_count = (uint64_t)llround(of->old.count);
	out->old_slope = verdict.rate;
	out->old_slope_error = verdict.error;
	out->verdict = verdict.verdict;
	if (fn < s->fn_cnt) {
		add_class(&s->fns[fn].alloc, sums);
		estimate__merge(&c->fn_live[fn], &of->live);
	}
	return 0;
}

/* All paths to a function together. */
static void estimate_fns(const struct memory_collector *c, struct snapshot *s)
{
	for (size_t i = 0; i < s->fn_cnt && c->estimated; i++) {
		struct snapshot_fn *fn = &s->fns[i];

		set_live(&c->fn_live[i], &fn->alloc);
		fn->alloc_estimated = true;
		fn->alloc_error_bytes = error_of(c, &c->fn_live[i], fn->alloc.alloc_bytes);
	}
}

/* The places of the call paths, now that the stacks have their order. */
static void index_paths(const struct memory_collector *c, const struct snapshot *s)
{
	for (rt_u32 path = 0; path < c->owner_cnt; path++)
		c->stack_of_path[path] = SNAPSHOT_NO_STACK;
	for (size_t i = 0; i < s->alloc_stack_cnt; i++)
		c->stack_of_path[s->alloc_stacks[i].path] = (uint32_t)i;
}

static int fill_native(struct memory_collector *c, struct snapshot *s, uint64_t now_ns)
{
	struct native_ask ask = { .memory = c->memory,
				  .stacks = c->opts.stacks,
				  .namer = c->opts.namer,
				  .survivors = c->survivors,
				  .now_ns = now_ns,
				  .final = s->window.settled,
				  .learn_due_ns = &c->learn_due_ns,
				  .stack_of_path = c->stack_of_path };

	if (!c->stacks || !ask.stacks || !s->profiles || !memory__sample(c->memory))
		return 0;
	index_paths(c, s);
	return native__fill(&ask, s);
}

static int fill_owners(struct memory_collector *c, struct snapshot *s, uint64_t now_ns)
{
	struct rt_mem_sums sums;
	size_t used = 0;
	int err = 0;

	if (!c->stacks)
		return 0;
	memset(c->fn_live, 0, s->fn_cnt * sizeof(*c->fn_live));
	for (rt_u32 path = 0; path < c->owner_cnt; path++)
		used += is_used(c, path);
	s->alloc_stacks = calloc(used + 1, sizeof(*s->alloc_stacks));
	if (!s->alloc_stacks)
		return -ENOMEM;
	for (size_t i = 0; i < s->fn_cnt; i++)
		s->fns[i].has_alloc = true;
	for (rt_u32 path = 0; path < c->owner_cnt && used && !err; path++) {
		if (!is_used(c, path))
			continue;
		used--; /* those that come up meanwhile wait for the next time */
		memory__owner(c->memory, path, &sums);
		if (sums.alloc_cnt)
			err = fill_stack(c, s, path, &sums, now_ns);
	}
	qsort(s->alloc_stacks, s->alloc_stack_cnt, sizeof(*s->alloc_stacks), by_live);
	if (err)
		return err;
	estimate_fns(c, s);
	return fill_native(c, s, now_ns);
}

static int fill_allocator(const struct memory_collector *c, rt_u32 i,
			  struct snapshot_allocator *out)
{
	const struct plan_allocator *a = &c->plan->allocators[i];
	struct rt_mem_events events;

	*out = (struct snapshot_allocator){ .source = a->source,
					    .object = c->plan->objects[a->object].name,
					    .basis = a->chunk ? "usable" : "requested",
					    .why = a->why,
					    .traced = a->chosen && !memory__why(c->memory),
					    .totals = a->totals,
					    .since_unix_ns = memory__since_unix_ns(c->memory, i) };
	if (!out->traced)
		return 0;
	memory__events(c->memory, i, &events);
	out->classes = calloc(SNAPSHOT_SIZE_CLASSES, sizeof(*out->classes));
	if (!out->classes)
		return -ENOMEM;
	read_allocator(c, i, out->classes, &out->sums, &out->live_error_bytes);
	out->estimated = is_estimated(c, i);
	out->failed = events.failed;
	out->unknown_frees = events.unknown_frees;
	out->unowned_bytes = events.unowned_bytes;
	out->unowned_count = events.unowned_cnt;
	/* with the table full a block that is not found there may be one of those */
	if (events.unowned_cnt && !c->estimated) {
		uint64_t n = events.unknown_frees, bytes = events.unknown_bytes;

		n = n < events.unowned_cnt ? n : events.unowned_cnt;
		bytes = bytes < events.unowned_bytes ? bytes : events.unowned_bytes;
		out->sums.freed_count += n;
		out->sums.freed_bytes += bytes;
		out->unknown_frees -= n;
	}
	return 0;
}

static void name_totals(struct snapshot_memory *m, const struct snapshot_allocator *a)
{
	m->source = m->source && strcmp(m->source, a->source) ? "several" : a->source;
	m->basis = m->basis && strcmp(m->basis, a->basis) ? "mixed" : a->basis;
}

/* An allocator that nobody calls (libc's, behind another) does not count for their name. */
static void add_up(struct snapshot_memory *m)
{
	const struct snapshot_allocator *idle = NULL;

	for (size_t i = 0; i < m->allocator_cnt; i++) {
		const struct snapshot_allocator *a = &m->allocators[i];

		if (!a->traced || !a->totals)
			continue;
		if (a->sums.alloc_count || a->sums.freed_count || a->unknown_frees)
			name_totals(m, a);
		else
			idle = a;
		add_sums(&m->sums, &a->sums);
		/* wider than need be when there are several: they do not err the same way */
		m->estimated |= a->estimated;
		m->live_error_bytes += a->live_error_bytes;
		m->failed += a->failed;
		m->unknown_frees += a->unknown_frees;
		m->unowned_bytes += a->unowned_bytes;
		m->unowned_count += a->unowned_count;
	}
	if (!m->source && idle)
		name_totals(m, idle);
}

static int fill_allocators(const struct memory_collector *c, struct snapshot_memory *m)
{
	int err = 0;

	m->allocators = calloc(c->plan->allocator_cnt + 1, sizeof(*m->allocators));
	if (!m->allocators)
		return -ENOMEM;
	for (rt_u32 i = 0; i < c->plan->allocator_cnt && !err; i++)
		err = fill_allocator(c, i, &m->allocators[m->allocator_cnt++]);
	add_up(m);
	return err;
}

static void fill_process(const struct memory_collector *c, struct snapshot_memory *m)
{
	m->rss_bytes = c->last.rss_bytes;
	m->rss_start_bytes = c->rss_start_bytes;
	m->anon_bytes = c->last.anon_bytes;
	m->file_bytes = c->last.file_bytes;
	m->shmem_bytes = c->last.shmem_bytes;
	m->swap_bytes = c->last.swap_bytes;
	m->data_bytes = c->last.data_bytes;
	m->mapped_bytes = c->last.mapped_bytes;
	m->pss_bytes = c->last.pss_bytes;
	trend__history(c->trend, m);
}

static enum memory_mode mode_of(const struct plan *plan)
{
	switch (plan->memory) {
	case PLAN_MEMORY_LIVE:
		return MEMORY_LIVE;
	case PLAN_MEMORY_STACKS:
		return MEMORY_STACKS;
	default:
		return MEMORY_GROWTH;
	}
}

static int fill_leaks(const struct memory_collector *c, struct snapshot *s, uint64_t now_ns)
{
	const struct leaks_seen seen = { .watched_ns = seen_until(c, now_ns) - c->start_ns,
					 .shed = memory__is_shed(c->memory) };

	return leaks__fill(&seen, s);
}

static int fill_growth(struct memory_collector *c, struct snapshot *s)
{
	const struct growth_ask ask = { .growth = c->growth,
					.namer = c->opts.namer,
					.final = s->window.settled,
					.learn_due_ns = &c->learn_due_ns };
	int err = 0;

	if (growth__stacks(c->growth) && s->profiles)
		err = growth_stacks__fill(&ask, s);
	return err ?: growth_rows__fill(c->growth, c->obj, s);
}

int memory_collector__fill(struct memory_collector *c, struct snapshot *s)
{
	uint64_t now_ns = clock__mono_ns();
	struct snapshot_memory *m;
	int err = 0;

	if (!c->growth)
		return 0;
	m = s->memory = snapshot_memory__new();
	if (!m)
		return -ENOMEM;
	m->mode = mode_of(c->plan);
	/* the words outlive what they are about */
	if (c->memory && memory__why(c->memory)) {
		if (!s->arena && !(s->arena = arena__new()))
			return -ENOMEM;
		m->why = arena__strdup(s->arena, memory__why(c->memory));
		if (!m->why)
			return -ENOMEM;
	}
	if (c->plan->late_why && !m->why) {
		if (!s->arena && !(s->arena = arena__new()))
			return -ENOMEM;
		m->why = arena__strdup(s->arena, c->plan->late_why);
		if (!m->why)
			return -ENOMEM;
	}
	if (c->memory && memory__is_shed(c->memory))
		m->why = "over budget: the allocator's probes were taken away, the figures are as "
			 "of then";
	m->reliable = !m->why;
	m->since_unix_ns = c->start_unix_ns;
	m->leak_after_s = c->opts.leak_after_s;
	m->sampled = c->estimated;
	if (c->stacks && memory__sample(c->memory))
		m->sample_bytes = memory__sample(c->memory)->interval;
	read_process(c);
	if (s->window.settled)
		read_pss(c);
	fill_process(c, m);
	if (c->stacks)
		err = survivors__look(c->survivors, c->start_ns, seen_until(c, now_ns));
	if (c->memory)
		err = err ?: fill_allocators(c, m);
	err = err ?: fill_growth(c, s);
	err = err ?: fill_owners(c, s, now_ns);
	return c->stacks ? err ?: fill_leaks(c, s, now_ns) : err;
}
