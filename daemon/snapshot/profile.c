/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/profile.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "snapshot/snapshot.h"

const char *const frame_kind_names[] = {
	[FRAME_UNKNOWN] = "unknown", [FRAME_OWN] = "own", [FRAME_DEP] = "dep",
	[FRAME_STD] = "std",	     [FRAME_LIB] = "lib", [FRAME_KERNEL] = "kernel",
};
const char *const profile_kind_names[] = { [PROFILE_CPU] = "cpu", [PROFILE_OFF_CPU] = "off_cpu" };
const char *const profile_units[] = { [PROFILE_CPU] = "samples", [PROFILE_OFF_CPU] = "ns" };

#define FIRST_TABLE_SIZE 64u

struct snapshot_profiles *profiles__new(void)
{
	struct snapshot_profiles *p = calloc(1, sizeof(*p));

	if (p && !(p->arena = arena__new())) {
		free(p);
		p = NULL;
	}
	return p;
}

struct snapshot_profile *profile__new(void)
{
	return calloc(1, sizeof(struct snapshot_profile));
}

static void profile__free(struct snapshot_profile *p)
{
	if (!p)
		return;
	vec__free(&p->refs);
	vec__free(&p->stacks);
	vec__free(&p->truncated);
	vec__free(&p->lost);
	vec__free(&p->wakes);
	free(p);
}

void profiles__free(struct snapshot_profiles *p)
{
	if (!p)
		return;
	for (int i = 0; i < PROFILE_CNT; i++)
		profile__free(p->of[i]);
	vec__free(&p->frames);
	vec__free(&p->table);
	arena__free(p->arena);
	free(p);
}

/* ---- frames ---- */

/* FNV-1a */
static uint64_t add_hash(uint64_t hash, const char *s)
{
	for (; s && *s; s++)
		hash = (hash ^ (unsigned char)*s) * 0x100000001b3ull;
	return hash * 0x100000001b3ull;
}

static uint64_t frame__hash(const struct snapshot_frame *f)
{
	uint64_t hash = add_hash(0xcbf29ce484222325ull, f->name);

	hash = add_hash(add_hash(hash, f->module), f->file);
	hash = (hash ^ f->line ^ (uint64_t)f->kind << 32 ^ (uint64_t)f->inlined << 40) *
	       0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_frame(const struct snapshot_frame *a, const struct snapshot_frame *b)
{
	return a->kind == b->kind && a->inlined == b->inlined && a->line == b->line &&
	       same_text(a->name, b->name) && same_text(a->module, b->module) &&
	       same_text(a->file, b->file);
}

/* The slot of f, or the empty one where it belongs. The table is never full. */
static uint32_t *find_slot(const struct snapshot_profiles *p, const struct snapshot_frame *f)
{
	size_t mask = p->table.cap - 1, at = frame__hash(f) & mask;

	while (p->table.data[at] && !same_frame(&p->frames.data[p->table.data[at] - 1], f))
		at = (at + 1) & mask;
	return &p->table.data[at];
}

/* Keeps a third of it empty. */
static bool grow_table(struct snapshot_profiles *p)
{
	size_t cap = p->table.cap ? p->table.cap * 2 : FIRST_TABLE_SIZE;
	uint32_t *data;

	if (p->frames.cnt * 3 < p->table.cap * 2)
		return true;
	data = calloc(cap, sizeof(*data));
	if (!data)
		return false;
	free(p->table.data);
	p->table.data = data;
	p->table.cap = cap;
	for (size_t i = 0; i < p->frames.cnt; i++)
		*find_slot(p, &p->frames.data[i]) = (uint32_t)i + 1;
	return true;
}

static bool keep_text(struct snapshot_profiles *p, const char **text)
{
	if (*text)
		*text = arena__strdup(p->arena, *text);
	return *text != NULL;
}

bool profiles__is_probe(const struct snapshot_frame *frame)
{
	static const char *const names[] = { "[kernel: breakpoint]", "[kernel: uretprobe]",
					     "[kernel: uprobe]" };

	for (size_t i = 0; frame->kind == FRAME_KERNEL && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(frame->name, names[i]))
			return true;
	return false;
}

uint32_t profiles__frame(struct snapshot_profiles *p, const struct snapshot_frame *frame)
{
	struct snapshot_frame copy = *frame, *added;
	uint32_t *slot;

	if (!grow_table(p))
		return UINT32_MAX;
	slot = find_slot(p, frame);
	if (*slot)
		return *slot - 1;
	if (!keep_text(p, &copy.name) || (copy.module && !keep_text(p, &copy.module)) ||
	    (copy.file && !keep_text(p, &copy.file)) || !(added = vec__push(&p->frames)))
		return UINT32_MAX;
	*added = copy;
	*slot = (uint32_t)p->frames.cnt;
	return *slot - 1;
}

/* ---- estimates ---- */

/*
 * Samples come one per period of running, wherever that falls: their number is taken for Poisson's.
 * The interval is that of the score test, n + z²/2 ± z sqrt(n + z²/4): honest for few samples, and
 * not empty for none.
 */
struct profile_time profile__time(const struct snapshot_profile *cpu, uint64_t samples)
{
	double period_ns = cpu->hz ? 1e9 / (double)cpu->hz : 0, n = (double)samples;
	double middle = n + 1.96 * 1.96 / 2, half = 1.96 * sqrt(n + 1.96 * 1.96 / 4);

	return (struct profile_time){
		.ns = (uint64_t)(n * period_ns),
		.low_ns = (uint64_t)(samples ? (middle - half) * period_ns : 0),
		.high_ns = (uint64_t)((middle + half) * period_ns),
	};
}

/* ---- stacks ---- */

static int add_refs(struct snapshot_profile *to, const uint32_t *frames, uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		uint32_t *ref = vec__push(&to->refs);

		if (!ref)
			return -ENOMEM;
		*ref = frames[i];
	}
	return 0;
}

int profiles__stack(struct snapshot_profiles *p, enum profile_kind kind, const uint32_t *frames,
		    uint32_t depth, const struct snapshot_stack *figures)
{
	struct snapshot_profile *to = p->of[kind];
	struct snapshot_stack stack = *figures, *added;
	uint64_t events = kind == PROFILE_OFF_CPU ? stack.count : stack.value;

	stack.first = (uint32_t)to->refs.cnt;
	stack.depth = depth;
	if ((stack.truncated && !keep_text(p, &stack.truncated)) ||
	    (stack.thread && !keep_text(p, &stack.thread)) || add_refs(to, frames, depth) ||
	    !(added = vec__push(&to->stacks)))
		return -ENOMEM;
	*added = stack;
	return stack.truncated ? profiles__count(p, &to->truncated, stack.truncated, events) : 0;
}

int profiles__wake(struct snapshot_profiles *p, const uint32_t *frames, uint32_t depth,
		   const uint32_t *waker, uint32_t waker_depth, const struct snapshot_wake *figures)
{
	struct snapshot_profile *to = p->of[PROFILE_OFF_CPU];
	struct snapshot_wake wake = *figures, *added;

	wake.first = (uint32_t)to->refs.cnt;
	wake.depth = depth;
	wake.waker_first = wake.first + depth;
	wake.waker_depth = waker_depth;
	if ((wake.truncated && !keep_text(p, &wake.truncated)) ||
	    (wake.waker_truncated && !keep_text(p, &wake.waker_truncated)) ||
	    (wake.name && !keep_text(p, &wake.name)) || add_refs(to, frames, depth) ||
	    add_refs(to, waker, waker_depth) || !(added = vec__push(&to->wakes)))
		return -ENOMEM;
	*added = wake;
	return 0;
}

int profiles__count(struct snapshot_profiles *p, struct snapshot_counts *counts, const char *name,
		    uint64_t n)
{
	struct snapshot_lost *row;

	for (size_t i = 0; i < counts->cnt; i++)
		if (!strcmp(counts->data[i].name, name)) {
			counts->data[i].count += n;
			return 0;
		}
	if (!keep_text(p, &name) || !(row = vec__push(counts)))
		return -ENOMEM;
	*row = (struct snapshot_lost){ name, n };
	return 0;
}
