/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/native.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/vec.h"

/* A stack of the table; its frames are where it is kept, or in refs. */
struct row {
	struct kept_stack kept;
	size_t first, cnt; /* of refs */
	uint32_t stack;	   /* of alloc_stacks */
	struct survivor live;
};

struct filling {
	const struct native_ask *ask;
	struct snapshot *s;
	struct frame_refs refs;
	VEC(struct row) rows;
};

static int read_stacks(struct filling *f)
{
	for (uint32_t i = 0; i < stacks__place_cnt(f->ask->stacks); i++) {
		struct kept_stack kept;
		struct row *row;

		if (!stacks__get(f->ask->stacks, i, &kept) || kept.kind != RT_STACK_ALLOC ||
		    !kept.cnt)
			continue;
		row = vec__push(&f->rows);
		if (!row)
			return -ENOMEM;
		row->kept = kept;
		row->live = *survivors__of_stack(f->ask->survivors, i);
		row->stack = row->live.live.seen ? f->ask->stack_of_path[row->live.path]
						 : SNAPSHOT_NO_STACK;
	}
	return 0;
}

static int learn(const struct filling *f)
{
	VEC(uint64_t) frames = {};
	int err = 0;

	for (size_t i = 0; i < f->rows.cnt && !err; i++) {
		const struct kept_stack *kept = &f->rows.data[i].kept;

		for (uint32_t at = 0; at < kept->depth && !err; at++) {
			uint64_t *slot = vec__push(&frames);

			if (slot)
				*slot = kept->frames[at];
			err = slot ? 0 : -ENOMEM;
		}
	}
	err = err
		      ?: namer__look(f->ask->namer, frames.data, frames.cnt, f->ask->final,
				     f->ask->learn_due_ns);
	vec__free(&frames);
	return err;
}

static int name_stacks(struct filling *f)
{
	int err = 0;

	for (size_t i = 0; i < f->rows.cnt && !err; i++) {
		struct row *row = &f->rows.data[i];

		row->first = f->refs.cnt;
		for (uint32_t at = row->kept.depth; at-- && !err;)
			err = namer__add(f->ask->namer, row->kept.frames[at], f->s->profiles,
					 &f->refs, NULL);
		row->cnt = f->refs.cnt - row->first;
	}
	return err;
}

/* ---- adding up ---- */

static int compare(const void *a, const void *b, void *arg)
{
	const struct row *x = a, *y = b;
	const uint32_t *refs = ((const struct filling *)arg)->refs.data;

	if (x->kept.end != y->kept.end)
		return x->kept.end < y->kept.end ? -1 : 1;
	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? -1 : 1;
	for (size_t i = 0; i < x->cnt; i++)
		if (refs[x->first + i] != refs[y->first + i])
			return refs[x->first + i] < refs[y->first + i] ? -1 : 1;
	return 0;
}

static void merge(struct row *to, const struct row *other)
{
	to->kept.cnt += other->kept.cnt;
	to->kept.total += other->kept.total;
	survivor__merge(&to->live, &other->live);
	if (to->stack == SNAPSHOT_NO_STACK)
		to->stack = other->stack;
}

static uint64_t whole(double v)
{
	return v > 0 ? (uint64_t)llround(v) : 0;
}

static int emit(struct filling *f, const struct row *row)
{
	const struct blocksample *sample = memory__sample(f->ask->memory);
	struct snapshot_memory *m = f->s->memory;
	struct snapshot_native *out = &m->native[m->native_cnt];
	struct estimate made = { .bytes = ldexp((double)row->kept.total,
						-(int)RT_SAMPLE_BYTES_BITS) };
	struct survivor_verdict v;

	/* no stack's variance is larger: a block that stands for B bytes adds at most N B */
	made.variance = sample->interval > 1 ? (double)sample->interval * made.bytes : 0;
	survivors__judge(f->ask->survivors, &row->live, sample->interval > 1, &v);
	*out = (struct snapshot_native){
		.first = (uint32_t)m->native_refs.cnt,
		.depth = (uint32_t)row->cnt,
		.truncated = namer__end(row->kept.end),
		.stack = row->stack,
		.live_bytes = whole(row->live.live.bytes),
		.live_count = whole(row->live.live.count),
		.live_error_bytes = whole(estimate__error(&row->live.live, sample, INFINITY)),
		.alloc_bytes = whole(made.bytes),
		.alloc_count = whole(ldexp((double)row->kept.cnt, -(int)RT_SAMPLE_COUNT_BITS)),
		.alloc_error_bytes = whole(estimate__error(&made, sample, INFINITY)),
		.samples = row->live.live.seen,
		.old_bytes = whole(row->live.old.bytes),
		.old_error_bytes = whole(estimate__error(&row->live.old, sample, INFINITY)),
		.old_count = whole(row->live.old.count),
		.old_slope = v.rate,
		.old_slope_error = v.error,
		.verdict = v.verdict,
	};
	if (row->live.oldest_ns && f->ask->now_ns > row->live.oldest_ns)
		out->oldest_ns = f->ask->now_ns - row->live.oldest_ns;
	m->native_cnt++;
	for (size_t i = 0; i < row->cnt; i++) {
		uint32_t *slot = vec__push(&m->native_refs);

		if (!slot)
			return -ENOMEM;
		*slot = f->refs.data[row->first + i];
	}
	return 0;
}

static int add_up(struct filling *f)
{
	struct row *rows = f->rows.data;
	int err = 0;

	f->s->memory->native = calloc(f->rows.cnt + 1, sizeof(*f->s->memory->native));
	if (!f->s->memory->native)
		return -ENOMEM;
	if (f->rows.cnt)
		qsort_r(rows, f->rows.cnt, sizeof(*rows), compare, f);
	for (size_t i = 0, end; i < f->rows.cnt && !err; i = end) {
		for (end = i + 1; end < f->rows.cnt && !compare(&rows[i], &rows[end], f); end++)
			merge(&rows[i], &rows[end]);
		err = emit(f, &rows[i]);
	}
	return err;
}

static int by_live(const void *a, const void *b)
{
	const struct snapshot_native *x = a, *y = b;

	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? 1 : -1;
	return x->alloc_bytes < y->alloc_bytes ? 1 : x->alloc_bytes > y->alloc_bytes ? -1 : 0;
}

static void fill_lost(const struct native_ask *ask, struct snapshot_memory *m)
{
	const struct survivor *lost = survivors__of_lost(ask->survivors);
	struct memory_native n;

	memory__native(ask->memory, &n);
	m->native_lost.alloc_bytes = n.lost_bytes >> RT_SAMPLE_BYTES_BITS;
	m->native_lost.alloc_count = n.lost_cnt >> RT_SAMPLE_COUNT_BITS;
	m->native_lost_live_bytes = whole(lost->live.bytes);
	m->native_lost_live_count = whole(lost->live.count);
}

int native__fill(const struct native_ask *ask, struct snapshot *s)
{
	struct filling f = { .ask = ask, .s = s };
	int err = read_stacks(&f);

	err = err ?: learn(&f);
	err = err ?: name_stacks(&f);
	err = err ?: add_up(&f);
	if (!err)
		qsort(s->memory->native, s->memory->native_cnt, sizeof(*s->memory->native),
		      by_live);
	fill_lost(ask, s->memory);
	free(f.rows.data);
	vec__free(&f.refs);
	return err;
}
