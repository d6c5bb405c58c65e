/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Leak or not: the live blocks that are older than --leak-after are put into slices by when they
 * were allocated. A leak leaves some over in every slice. A cache that fills and is emptied, or
 * what is allocated once at the start, leaves slices empty; a queue leaves the old ones empty. No
 * line through the live bytes could tell a slow leak from the churn around it.
 */
#include "collect/survivors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/trend.h"
#include "roletrace/hist.h"

/* As many slices with something left over are a leak; one may be the start's, or by chance. */
#define LEAK_SLICES 7u
/* Old blocks in a sample from which on an empty slice means something. */
#define ENOUGH_SAMPLES 32u

struct survivors {
	const struct memory *memory;
	struct survivors_opts opts;
	const struct blocksample *of_paths, *of_stacks; /* NULL: a block stands for itself */
	struct survivor *paths, *stacks;
	struct estimate *classes; /* [allocator * RT_MEM_CLASSES + class], of a sample */
	struct survivor lost;
	uint64_t from_ns, to_ns; /* of the slices */
};

struct survivors *survivors__new(const struct memory *memory, const struct survivors_opts *opts)
{
	struct survivors *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->memory = memory;
	s->opts = *opts;
	s->of_stacks = memory__sample(memory);
	s->of_paths = memory__is_estimated(memory) ? s->of_stacks : NULL;
	s->paths = calloc(opts->owner_cnt, sizeof(*s->paths));
	s->stacks = calloc(opts->stack_cnt + 1, sizeof(*s->stacks));
	s->classes = calloc((opts->allocator_cnt + 1) * RT_MEM_CLASSES, sizeof(*s->classes));
	if (s->paths && s->stacks && s->classes)
		return s;
	survivors__free(s);
	return NULL;
}

void survivors__free(struct survivors *s)
{
	if (!s)
		return;
	free(s->paths);
	free(s->stacks);
	free(s->classes);
	free(s);
}

/* ---- looking ---- */

static unsigned int slice_of(const struct survivors *s, uint64_t born_ns)
{
	uint64_t slice = born_ns > s->from_ns ? (born_ns - s->from_ns) * SURVIVOR_SLICES /
							(s->to_ns - s->from_ns)
					      : 0;

	return slice < SURVIVOR_SLICES ? (unsigned int)slice : SURVIVOR_SLICES - 1;
}

static void add_block(const struct survivors *s, struct survivor *to,
		      const struct blocksample *sample, const struct rt_mem_block *b)
{
	double weight = sample ? blocksample__weight(sample, b->bytes) : 1;

	estimate__add(&to->live, sample, b->bytes);
	if (!to->oldest_ns || b->born_ns < to->oldest_ns)
		to->oldest_ns = b->born_ns;
	if (b->born_ns >= s->to_ns)
		return;
	estimate__add(&to->old, sample, b->bytes);
	to->slice_bytes[slice_of(s, b->born_ns)] += weight * (double)b->bytes;
}

static unsigned int class_of(uint64_t bytes)
{
	unsigned int class = bytes ? 1 + rt_hist_log2(bytes) : 0;

	return class < RT_MEM_CLASSES ? class : RT_MEM_CLASSES - 1;
}

static void look_at_block(void *arg, const struct rt_mem_block *b)
{
	struct survivors *s = arg;

	if (b->owner >= s->opts.owner_cnt || b->family >= s->opts.allocator_cnt)
		return;
	add_block(s, &s->paths[b->owner], s->of_paths, b);
	if (s->of_paths)
		estimate__add(&s->classes[b->family * RT_MEM_CLASSES + class_of(b->bytes)],
			      s->of_paths, b->bytes);
	if (b->stack == RT_MEM_STACK_LOST) {
		add_block(s, &s->lost, s->of_stacks, b);
	} else if (b->stack && b->stack <= s->opts.stack_cnt) {
		add_block(s, &s->stacks[b->stack - 1], s->of_stacks, b);
		s->stacks[b->stack - 1].path = b->owner;
	}
}

/* Most rows were never used: their pages are not touched either. */
static void forget(struct survivor *rows, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++)
		if (rows[i].live.seen)
			rows[i] = (struct survivor){};
}

int survivors__look(struct survivors *s, uint64_t start_ns, uint64_t now_ns)
{
	uint64_t after_ns = (uint64_t)(s->opts.leak_after_s * 1e9);

	forget(s->paths, s->opts.owner_cnt);
	forget(s->stacks, s->opts.stack_cnt);
	memset(s->classes, 0, s->opts.allocator_cnt * RT_MEM_CLASSES * sizeof(*s->classes));
	memset(&s->lost, 0, sizeof(s->lost));
	s->from_ns = start_ns;
	s->to_ns = now_ns > start_ns + after_ns ? now_ns - after_ns : start_ns;
	return memory__blocks(s->memory, look_at_block, s);
}

const struct survivor *survivors__of_path(const struct survivors *s, rt_u32 path)
{
	return &s->paths[path];
}

const struct survivor *survivors__of_stack(const struct survivors *s, uint32_t place)
{
	return &s->stacks[place];
}

const struct survivor *survivors__of_lost(const struct survivors *s)
{
	return &s->lost;
}

const struct estimate *survivors__of_class(const struct survivors *s, rt_u32 allocator,
					   unsigned int class)
{
	return &s->classes[allocator * RT_MEM_CLASSES + class];
}

void survivor__merge(struct survivor *to, const struct survivor *other)
{
	estimate__merge(&to->live, &other->live);
	estimate__merge(&to->old, &other->old);
	if (!to->oldest_ns || (other->oldest_ns && other->oldest_ns < to->oldest_ns))
		to->oldest_ns = other->oldest_ns;
	for (unsigned int i = 0; i < SURVIVOR_SLICES; i++)
		to->slice_bytes[i] += other->slice_bytes[i];
}

/* ---- judging ---- */

/* A look shorter than the time after which a block counts as old cannot tell. */
void survivors__judge(const struct survivors *s, const struct survivor *of, bool sampled,
		      struct survivor_verdict *out)
{
	double slice_s = (double)(s->to_ns - s->from_ns) / 1e9 / SURVIVOR_SLICES;
	unsigned int filled = 0;
	struct trend_line line;

	*out = (struct survivor_verdict){};
	for (unsigned int i = 0; i < SURVIVOR_SLICES; i++)
		filled += of->slice_bytes[i] > 0;
	if (slice_s * SURVIVOR_SLICES < s->opts.leak_after_s || slice_s <= 0)
		return;
	trend__rate(of->slice_bytes, SURVIVOR_SLICES, slice_s, &line);
	out->rate = line.slope;
	out->error = line.error;
	if (filled >= LEAK_SLICES && line.slope > line.error)
		out->verdict = VERDICT_GROWING;
	else if (!sampled || of->old.seen >= ENOUGH_SAMPLES)
		out->verdict = VERDICT_STEADY;
}
