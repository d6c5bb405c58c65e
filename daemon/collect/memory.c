/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leak or not: the live blocks that are older than --leak-after are put into slices by when they
 * were allocated. A leak leaves some over in every slice. A cache that fills and is emptied, or
 * what is allocated once at the start, leaves slices empty; a queue leaves the old ones empty. No
 * line through the live bytes could tell a slow leak from the churn around it.
 */
#include "collect/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/memory.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/strbuf.h"
#include "collect/growth.h"
#include "collect/paths.h"
#include "collect/trend.h"

#define SLICES 8u
/* As many slices with something left over are a leak; one may be the start's, or by chance. */
#define LEAK_SLICES 7u
/* pagemap walks of large processes hold their memory lock. */
#define PSS_LIMIT_BYTES (1ull << 30)

struct process_memory {
	uint64_t rss_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes, data_bytes;
	uint64_t mapped_bytes, pss_bytes;
};

/* The live blocks of a call path. */
struct survivors {
	uint64_t oldest_ns; /* when it was born; 0: none */
	uint64_t bytes, count;
	uint64_t slice_bytes[SLICES];
};

struct memory_collector {
	const struct plan *plan;
	const struct target *target;
	struct memory *memory;	     /* NULL: no allocator is traced */
	const struct growth *growth; /* NULL: --memory off */
	const struct object *obj;
	struct trend *trend;
	bool stacks;
	double leak_after_s;
	uint64_t start_ns, start_unix_ns, rss_start_bytes;
	struct process_memory last; /* as long as it could be read */
	int64_t *live;		    /* scratch: by owner */
	struct survivors *survivors;
	uint32_t owner_cnt;
	uint64_t from_ns, to_ns; /* of the slices */
};

struct memory_collector *memory_collector__new(const struct plan *plan, const struct target *target,
					       struct tracer *tracer, double leak_after_s)
{
	struct memory_collector *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->plan = plan;
	c->target = target;
	c->memory = tracer__memory(tracer);
	c->growth = tracer__growth(tracer);
	c->obj = tracer__object(tracer);
	c->leak_after_s = leak_after_s;
	c->owner_cnt = c->obj->path_cnt + RT_PATH_FIRST;
	c->stacks = c->memory && plan->memory == PLAN_MEMORY_STACKS && !memory__why(c->memory);
	c->trend = trend__new(c->stacks ? c->owner_cnt : 0);
	c->live = calloc(c->owner_cnt, sizeof(*c->live));
	c->survivors = calloc(c->stacks ? c->owner_cnt : 1, sizeof(*c->survivors));
	if (!c->trend || !c->live || !c->survivors) {
		memory_collector__free(c);
		return NULL;
	}
	return c;
}

void memory_collector__free(struct memory_collector *c)
{
	if (!c)
		return;
	trend__free(c->trend);
	free(c->live);
	free(c->survivors);
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

static void add_class(struct snapshot_sums *to, const struct rt_mem_sums *s)
{
	to->alloc_bytes += s->alloc_bytes;
	to->alloc_count += s->alloc_cnt;
	to->freed_bytes += s->freed_bytes;
	to->freed_count += s->freed_cnt;
}

static int64_t live_bytes(const struct memory_collector *c)
{
	struct rt_mem_sums classes[RT_MEM_CLASSES];
	struct snapshot_sums sums = {};

	for (rt_u32 i = 0; c->memory && i < c->plan->allocator_cnt; i++) {
		if (!c->plan->allocators[i].totals || memory__why(c->memory))
			continue;
		memory__sums(c->memory, i, classes);
		for (size_t k = 0; k < RT_MEM_CLASSES; k++)
			add_class(&sums, &classes[k]);
	}
	return sums__live_bytes(&sums);
}

static bool is_used(const struct memory_collector *c, rt_u32 path)
{
	return path < RT_PATH_FIRST || c->obj->paths[path - RT_PATH_FIRST];
}

static void sample(struct memory_collector *c, uint64_t now_ns)
{
	struct rt_mem_sums sums;

	read_process(c);
	for (rt_u32 path = 0; c->stacks && path < c->owner_cnt; path++) {
		c->live[path] = 0;
		if (!is_used(c, path))
			continue;
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

/* ---- what survives ---- */

static void look_at_block(void *arg, const struct rt_mem_block *b)
{
	struct memory_collector *c = arg;
	struct survivors *s;
	uint64_t slice;

	if (b->owner >= c->owner_cnt)
		return;
	s = &c->survivors[b->owner];
	if (!s->oldest_ns || b->born_ns < s->oldest_ns)
		s->oldest_ns = b->born_ns;
	if (b->born_ns >= c->to_ns)
		return;
	s->bytes += b->bytes;
	s->count++;
	slice = b->born_ns > c->from_ns
			? (b->born_ns - c->from_ns) * SLICES / (c->to_ns - c->from_ns)
			: 0;
	s->slice_bytes[slice < SLICES ? slice : SLICES - 1] += b->bytes;
}

static int find_survivors(struct memory_collector *c, uint64_t now_ns)
{
	uint64_t after_ns = (uint64_t)(c->leak_after_s * 1e9);

	memset(c->survivors, 0, c->owner_cnt * sizeof(*c->survivors));
	c->from_ns = c->start_ns;
	c->to_ns = now_ns > c->start_ns + after_ns ? now_ns - after_ns : c->start_ns;
	return memory__blocks(c->memory, look_at_block, c);
}

/* A look shorter than the time after which a block counts as old cannot tell. */
static void judge(const struct memory_collector *c, const struct survivors *s,
		  struct snapshot_alloc_stack *out)
{
	double slice_s = (double)(c->to_ns - c->from_ns) / 1e9 / SLICES, values[SLICES];
	unsigned int filled = 0;
	struct trend_line line;

	for (unsigned int i = 0; i < SLICES; i++) {
		values[i] = (double)s->slice_bytes[i];
		filled += s->slice_bytes[i] != 0;
	}
	out->old_bytes = s->bytes;
	out->old_count = s->count;
	if ((double)(c->to_ns - c->from_ns) < c->leak_after_s * 1e9 || slice_s <= 0)
		return;
	trend__rate(values, SLICES, slice_s, &line);
	out->old_slope = line.slope;
	out->old_slope_error = line.error;
	out->verdict =
		filled >= LEAK_SLICES && line.slope > line.error ? VERDICT_GROWING : VERDICT_STEADY;
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

static int fill_stack(const struct memory_collector *c, struct snapshot *s, rt_u32 path,
		      const struct rt_mem_sums *sums, uint64_t now_ns)
{
	struct snapshot_alloc_stack *out = &s->alloc_stacks[s->alloc_stack_cnt];
	const struct survivors *old = &c->survivors[path];
	rt_u32 fn = paths__fn(c->obj, path);
	struct trend_line line;

	out->frames = paths__frames(c->obj, s, path, &out->depth);
	if (!out->frames)
		return -ENOMEM;
	s->alloc_stack_cnt++;
	out->alloc_bytes = sums->alloc_bytes;
	out->alloc_count = sums->alloc_cnt;
	out->live_bytes = above_zero(sums->alloc_bytes, sums->freed_bytes);
	out->live_count = above_zero(sums->alloc_cnt, sums->freed_cnt);
	out->oldest_ns = old->oldest_ns ? above_zero(now_ns, old->oldest_ns) : 0;
	if (trend__line(c->trend, path, &line)) {
		out->slope = line.slope;
		out->slope_error = line.error;
	}
	judge(c, old, out);
	if (fn < s->fn_cnt)
		add_class(&s->fns[fn].alloc, sums);
	return 0;
}

static int fill_owners(struct memory_collector *c, struct snapshot *s)
{
	uint64_t now_ns = clock__mono_ns();
	struct rt_mem_sums sums;
	size_t used = 0;
	int err;

	if (!c->stacks)
		return 0;
	err = find_survivors(c, now_ns);
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
	return err;
}

static int fill_allocator(const struct memory_collector *c, rt_u32 i,
			  struct snapshot_allocator *out)
{
	const struct plan_allocator *a = &c->plan->allocators[i];
	struct rt_mem_sums classes[RT_MEM_CLASSES];
	struct rt_mem_events events;

	_Static_assert(RT_MEM_CLASSES == SNAPSHOT_SIZE_CLASSES, "size classes");
	*out = (struct snapshot_allocator){ .source = a->source,
					    .object = c->plan->objects[a->object].name,
					    .basis = a->chunk ? "usable" : "requested",
					    .why = a->why,
					    .traced = a->chosen && !memory__why(c->memory),
					    .totals = a->totals,
					    .since_unix_ns = memory__since_unix_ns(c->memory, i) };
	if (!out->traced)
		return 0;
	memory__sums(c->memory, i, classes);
	memory__events(c->memory, i, &events);
	out->classes = calloc(SNAPSHOT_SIZE_CLASSES, sizeof(*out->classes));
	if (!out->classes)
		return -ENOMEM;
	for (size_t k = 0; k < SNAPSHOT_SIZE_CLASSES; k++) {
		add_class(&out->classes[k], &classes[k]);
		add_class(&out->sums, &classes[k]);
	}
	out->failed = events.failed;
	out->unknown_frees = events.unknown_frees;
	out->unowned_bytes = events.unowned_bytes;
	out->unowned_count = events.unowned_cnt;
	/* with the table full a block that is not found there may be one of those */
	if (events.unowned_cnt) {
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
		m->sums.alloc_bytes += a->sums.alloc_bytes;
		m->sums.alloc_count += a->sums.alloc_count;
		m->sums.freed_bytes += a->sums.freed_bytes;
		m->sums.freed_count += a->sums.freed_count;
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

int memory_collector__fill(struct memory_collector *c, struct snapshot *s)
{
	struct snapshot_memory *m;
	int err;

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
	m->leak_after_s = c->leak_after_s;
	read_process(c);
	if (s->window.settled)
		read_pss(c);
	fill_process(c, m);
	err = c->memory ? fill_allocators(c, m) : 0;
	err = err ?: growth_rows__fill(c->growth, c->obj, s);
	return err ?: fill_owners(c, s);
}
