/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An allocator's functions that return a block have a return probe: libc's allocators and their
 * kind are C, do not unwind and do not switch stacks, and a `ret` would be single-stepped. Where a
 * kernel lets seccomp filters kill the target for the system call behind a return probe, there is
 * none.
 */
#include "attach/memory.h"
#include "attach/mapped.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/blocksample.h"
#include "attach/hands.h"
#include "attach/spent.h"
#include "attach/stacks.h"
#include "base/clock.h"
#include "base/fail.h"
#include "functions.skel.h"
#include "memory.skel.h"
#include "roletrace/spent.h"

#define BLOCKS_PER_READ 4096u
#define LATE_BLOCKS (1u << 18)

struct memory {
	struct memory_bpf *skel;
	const struct object *functions;
	const struct plan *plan;
	const struct target *target;
	const char *const *paths, *late_path; /* late_path: of the object that is being added */
	uint64_t late_unix_ns[RT_MEM_MAX_FAMILIES];
	char *why;
	bool traced;
	uint64_t shed_ns;		    /* 0: not */
	bool sampled, sample_table, native; /* native: stacks are taken */
	struct blocksample sample;
	rt_u32 shards, owner_cnt;
	struct bpf_link *exec_link;
	struct hands_pile links;
	size_t probe_cnt;
	/* mapped maps */
	struct rt_mem_sums *sums, *owners;
	struct rt_mem_events *events;
};

/* ---- what can be traced ---- */

static bool wanted(const struct memory *m, const struct plan_mem_site *s)
{
	return m->plan->allocators[s->allocator].chosen;
}

static int find_why(struct memory *m, const struct memory_opts *opts)
{
	bool returns = false;

	if (m->plan->memory_why) {
		m->why = strdup(m->plan->memory_why);
		return m->why ? 0 : -ENOMEM;
	}
	if (opts->no_kernel && m->plan->memory) {
		m->why = strdup("it takes uprobe_multi links by process and task storage "
				"(Linux 6.6)");
		return m->why ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < m->plan->mem_site_cnt; i++)
		returns |= wanted(m, &m->plan->mem_sites[i]) && m->plan->mem_sites[i].returns;
	if (!returns || !opts->no_returns)
		return 0;
	m->why = strdup("the target is under a seccomp filter, and on this kernel a return probe "
			"would kill it");
	return m->why ? 0 : -ENOMEM;
}

/* ---- loading ---- */

static bool has_table(const struct memory *m)
{
	if (m->plan->memory == PLAN_MEMORY_STACKS)
		return true;
	for (size_t i = 0; i < m->plan->allocator_cnt; i++)
		if (m->plan->allocators[i].chosen && !m->plan->allocators[i].chunk &&
		    !m->plan->allocators[i].rust)
			return true;
	return false;
}

static bool is_rust(const struct memory *m)
{
	for (size_t i = 0; i < m->plan->allocator_cnt; i++)
		if (m->plan->allocators[i].chosen && !m->plan->allocators[i].rust)
			return false;
	return true;
}

/* Without need a small one, for allocators that may come. */
static rt_u32 table_size(const struct memory *m, const struct memory_opts *opts)
{
	if (!m->traced || (is_rust(m) && !has_table(m)))
		return 1;
	if (has_table(m) || opts->max_blocks < LATE_BLOCKS)
		return opts->max_blocks;
	return LATE_BLOCKS;
}

static void choose_sample(struct memory *m, const struct memory_opts *opts)
{
	m->sampled = m->traced && m->plan->memory == PLAN_MEMORY_STACKS && opts->sample_bytes;
	if (!m->sampled)
		return;
	m->sample_table = opts->sample_table && opts->sample_bytes > 1;
	m->native = opts->stacks != NULL;
	blocksample__init(&m->sample, opts->sample_bytes);
}

static int set_up_sample(struct memory *m, const struct memory_opts *opts)
{
	struct memory_bpf *skel = m->skel;

	bpf_program__set_autoload(skel->progs.mem_return, m->traced && !m->native);
	bpf_program__set_autoload(skel->progs.mem_return_native, m->native);
	skel->rodata->sample_table = m->sample_table;
	if (m->sampled)
		memcpy((void *)skel->rodata->sample_thresholds, m->sample.thresholds,
		       sizeof(m->sample.thresholds));
	return stacks__share(m->native ? opts->stacks : NULL, skel->obj);
}

static int load(struct memory *m, const struct memory_opts *opts)
{
	struct memory_bpf *skel = memory_bpf__open();
	rt_u32 families = RT_MEM_MAX_FAMILIES; /* some may come later */
	int err;

	if (!skel)
		return -errno;
	m->skel = skel;
	skel->rodata->shard_mask = m->shards - 1;
	skel->rodata->stacks_mode = m->plan->memory == PLAN_MEMORY_STACKS;
	skel->bss->target_tgid = opts->tgid;
	bpf_program__set_autoload(skel->progs.mem_enter, m->traced);
	bpf_program__set_autoload(skel->progs.mem_entry, m->traced);
	if (m->traced)
		err = bpf_map__reuse_fd(skel->maps.stacks,
					bpf_map__fd(m->functions->skel->maps.stacks));
	else
		err = bpf_map__set_autocreate(skel->maps.stacks, false);
	err = err ?: bpf_map__set_autocreate(skel->maps.calls, m->traced);
	err = err ?: set_up_sample(m, opts);
	err = err
		      ?: bpf_map__set_max_entries(skel->maps.sums,
						  families * RT_MEM_CLASSES * m->shards);
	err = err ?: bpf_map__set_max_entries(skel->maps.events, families * m->shards);
	err = err ?: bpf_map__set_max_entries(skel->maps.owners, m->owner_cnt * m->shards);
	err = err ?: bpf_map__set_max_entries(skel->maps.blocks, table_size(m, opts));
	err = err ?: memory_bpf__load(skel);
	err = err ?: mapped__new_readonly(skel->maps.sums, &m->sums);
	err = err ?: mapped__new_readonly(skel->maps.events, &m->events);
	return err ?: mapped__new_readonly(skel->maps.owners, &m->owners);
}

/* ---- links ---- */

struct batch {
	unsigned long *offsets;
	unsigned long long *cookies;
	size_t cnt;
};

static bool is_alone(const struct memory *m, const struct plan_mem_site *s)
{
	return m->plan->allocators[s->allocator].chunk &&
	       (s->op == RT_MEM_ALLOC || s->op == RT_MEM_CALLOC);
}

enum part { PART_ENTER, PART_RETURN, PART_ENTRY, PART_CNT };

static bool in_part(const struct memory *m, const struct plan_mem_site *s, enum part part)
{
	switch (part) {
	case PART_ENTER:
		return s->returns && !is_alone(m, s);
	case PART_RETURN:
		return s->returns;
	default:
		return !s->returns;
	}
}

static void gather(const struct memory *m, rt_u32 object, enum part part, struct batch *b)
{
	b->cnt = 0;
	for (size_t i = 0; i < m->plan->mem_site_cnt; i++) {
		const struct plan_mem_site *s = &m->plan->mem_sites[i];
		const struct plan_allocator *a = &m->plan->allocators[s->allocator];
		rt_u32 flags = (a->chunk ? RT_MEM_CHUNK : 0) | (is_alone(m, s) ? RT_MEM_ALONE : 0);

		if (!wanted(m, s) || a->object != object || !in_part(m, s, part))
			continue;
		b->offsets[b->cnt] = s->offset;
		b->cookies[b->cnt++] = RT_MEM_COOKIE(s->op, s->allocator, flags);
	}
}

static int attach_part(struct memory *m, rt_u32 object, enum part part, struct batch *b)
{
	const struct bpf_program *progs[] = { [PART_ENTER] = m->skel->progs.mem_enter,
					      [PART_RETURN] =
						      m->native ? m->skel->progs.mem_return_native
								: m->skel->progs.mem_return,
					      [PART_ENTRY] = m->skel->progs.mem_entry };
	struct hands_request req = { .prog_fd = bpf_program__fd(progs[part]),
				     .path = m->late_path ?: m->paths[object],
				     .pid = m->target->leader_gone ? 0 : m->target->pid,
				     .offsets = b->offsets,
				     .cookies = b->cookies,
				     .retprobe = part == PART_RETURN };
	int fd;

	gather(m, object, part, b);
	if (!b->cnt)
		return 0;
	req.cnt = b->cnt;
	fd = hands__attach(&req);
	hands__put(&m->links, fd);
	m->probe_cnt += b->cnt;
	return fd < 0 ? fd : 0;
}

static int attach_allocators(struct memory *m)
{
	struct batch b = { .offsets = calloc(m->plan->mem_site_cnt + 1, sizeof(*b.offsets)),
			   .cookies = calloc(m->plan->mem_site_cnt + 1, sizeof(*b.cookies)) };
	int err = b.offsets && b.cookies ? 0 : -ENOMEM;

	for (rt_u32 object = 0; object < m->plan->object_cnt; object++)
		for (int part = 0; part < PART_CNT && !err; part++)
			err = attach_part(m, object, (enum part)part, &b);
	free(b.offsets);
	free(b.cookies);
	return err;
}

static int attach_tracepoint(const struct bpf_program *prog, struct bpf_link **out)
{
	*out = bpf_program__attach(prog);
	return *out ? 0 : -errno;
}

static int attach(struct memory *m)
{
	int err = attach_tracepoint(m->skel->progs.mem_exec, &m->exec_link);

	return err ?: m->traced ? attach_allocators(m) : 0;
}

int memory__adopt(struct memory *m, size_t first, const char *path)
{
	rt_u32 object = m->plan->allocators[first].object;
	struct batch b = { .offsets = calloc(m->plan->mem_site_cnt + 1, sizeof(*b.offsets)),
			   .cookies = calloc(m->plan->mem_site_cnt + 1, sizeof(*b.cookies)) };
	int err = b.offsets && b.cookies ? 0 : -ENOMEM;

	m->late_path = path;
	for (int part = 0; part < PART_CNT && !err && m->traced && !m->shed_ns; part++)
		err = attach_part(m, object, (enum part)part, &b);
	m->late_path = NULL;
	for (size_t i = first; i < m->plan->allocator_cnt; i++)
		m->late_unix_ns[i] = clock__unix_ns();
	free(b.offsets);
	free(b.cookies);
	return err;
}

uint64_t memory__since_unix_ns(const struct memory *m, rt_u32 allocator)
{
	return m->late_unix_ns[allocator];
}

int memory__new(const struct object *functions, const struct plan *plan,
		const struct target *target, const struct memory_opts *opts, struct memory **out,
		char **reason)
{
	struct memory *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	m->functions = functions;
	m->plan = plan;
	m->target = target;
	m->paths = opts->paths;
	m->shards = functions->shards;
	m->owner_cnt = functions->path_cnt + RT_PATH_FIRST;
	err = find_why(m, opts);
	m->traced = plan->memory && !m->why;
	choose_sample(m, opts);
	if (!err && (err = load(m, opts)))
		fail(reason, err, "cannot load the memory programs: %s", strerror(-err));
	if (!err && (err = attach(m)))
		fail(reason, err, "cannot attach to the allocator: %s", strerror(-err));
	if (err) {
		memory__free(m, NULL);
		return err;
	}
	*out = m;
	return 0;
}

void memory__start(struct memory *m)
{
	m->skel->bss->gate = 1;
}

void memory__stop(struct memory *m)
{
	m->skel->bss->gate = 0;
}

void memory__shed(struct memory *m)
{
	hands__close(&m->links);
	m->shed_ns = clock__mono_ns();
}

void memory__free(struct memory *m, struct hands_pile *to)
{
	if (!m)
		return;
	if (to)
		hands__move(to, &m->links);
	else
		hands__close(&m->links);
	bpf_link__destroy(m->exec_link);
	if (m->skel) {
		mapped__free(m->skel->maps.sums, m->sums);
		mapped__free(m->skel->maps.events, m->events);
		mapped__free(m->skel->maps.owners, m->owners);
		memory_bpf__destroy(m->skel);
	}
	free(m->why);
	free(m);
}

const char *memory__why(const struct memory *m)
{
	return m->why;
}

bool memory__is_shed(const struct memory *m)
{
	return m->shed_ns != 0;
}

uint64_t memory__shed_ns(const struct memory *m)
{
	return m->shed_ns;
}

size_t memory__probe_cnt(const struct memory *m)
{
	return m->probe_cnt;
}

/* ---- reading ---- */

static void add_sums(struct rt_mem_sums *to, const volatile struct rt_mem_sums *s)
{
	/* what was freed first: an event between is a live block, never one freed too many */
	to->freed_cnt += s->freed_cnt;
	to->freed_bytes += s->freed_bytes;
	to->alloc_cnt += s->alloc_cnt;
	to->alloc_bytes += s->alloc_bytes;
}

void memory__sums(const struct memory *m, rt_u32 allocator, struct rt_mem_sums *classes)
{
	memset(classes, 0, RT_MEM_CLASSES * sizeof(*classes));
	for (rt_u32 c = 0; c < RT_MEM_CLASSES; c++)
		for (rt_u32 i = 0; i < m->shards; i++)
			add_sums(&classes[c],
				 &m->sums[(allocator * RT_MEM_CLASSES + c) * m->shards + i]);
}

void memory__events(const struct memory *m, rt_u32 allocator, struct rt_mem_events *out)
{
	memset(out, 0, sizeof(*out));
	for (rt_u32 i = 0; i < m->shards; i++) {
		const volatile struct rt_mem_events *e = &m->events[allocator * m->shards + i];

		out->entries += e->entries;
		out->returns += e->returns;
		out->failed += e->failed;
		out->unknown_frees += e->unknown_frees;
		out->unknown_bytes += e->unknown_bytes;
		out->unowned_cnt += e->unowned_cnt;
		out->unowned_bytes += e->unowned_bytes;
	}
}

void memory__owner(const struct memory *m, rt_u32 path, struct rt_mem_sums *out)
{
	memset(out, 0, sizeof(*out));
	for (rt_u32 i = 0; i < m->shards; i++)
		add_sums(out, &m->owners[path * m->shards + i]);
}

const struct blocksample *memory__sample(const struct memory *m)
{
	return m->sampled ? &m->sample : NULL;
}

bool memory__is_estimated(const struct memory *m)
{
	return m->sample_table;
}

void memory__native(const struct memory *m, struct memory_native *out)
{
	const volatile struct memory_bpf__bss *b = m->skel->bss;

	*out = (struct memory_native){ b->native_cnt, b->native_ns, b->native_lost_cnt,
				       b->native_lost_bytes };
}

rt_u64 memory__lost(const struct memory *m, enum rt_mem_lost what)
{
	return *(volatile rt_u64 *)&m->skel->bss->lost[what];
}

/* The traps by their price; the programs, and the stacks they take, by their own clocks. */
rt_u64 memory__cost_ns(const struct memory *m, const struct prices *p, rt_u64 *hits)
{
	rt_u64 cost = spent__ns(m->skel->maps.spent, RT_SPENT_RETURN + 1, NULL);

	*hits = 0;
	for (rt_u32 a = 0; a < m->plan->allocator_cnt; a++) {
		struct rt_mem_events e;

		memory__events(m, a, &e);
		*hits += e.entries + e.returns;
		cost += e.entries * p->trap_entry_ns + e.returns * p->trap_uret_ns;
	}
	return cost;
}

int memory__blocks(const struct memory *m,
		   void (*each)(void *arg, const struct rt_mem_block *block), void *arg)
{
	struct rt_mem_block *values = malloc(BLOCKS_PER_READ * sizeof(*values));
	rt_u64 *keys = malloc(BLOCKS_PER_READ * sizeof(*keys));
	__u32 position = 0, cnt;
	int err = keys && values ? 0 : -ENOMEM;
	bool more = false;

	while (!err) {
		cnt = BLOCKS_PER_READ;
		err = bpf_map_lookup_batch(bpf_map__fd(m->skel->maps.blocks),
					   more ? &position : NULL, &position, keys, values, &cnt,
					   NULL);
		if (err && err != -ENOENT)
			break;
		for (__u32 i = 0; i < cnt; i++)
			each(arg, &values[i]);
		more = true;
	}
	free(keys);
	free(values);
	return err == -ENOENT ? 0 : err;
}
