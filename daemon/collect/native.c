/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/native.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "collect/kept.h"

/* A stack of the table, or some that read the same. */
struct row {
	uint64_t cnt, total; /* as kept */
	uint32_t stack;	     /* of alloc_stacks */
	struct survivor live;
};

static void add(const struct native_ask *ask, const struct kept_row *kept, struct row *to)
{
	const struct survivor *live = survivors__of_stack(ask->survivors, kept->place);

	to->cnt += kept->kept.cnt;
	to->total += kept->kept.total;
	if (to->stack == SNAPSHOT_NO_STACK && live->live.seen)
		to->stack = ask->stack_of_path[live->path];
	survivor__merge(&to->live, live);
}

static uint64_t whole(double v)
{
	return v > 0 ? (uint64_t)llround(v) : 0;
}

static void fill(const struct native_ask *ask, const struct row *row, struct snapshot_native *out)
{
	const struct blocksample *sample = memory__sample(ask->memory);
	struct estimate made = { .bytes = ldexp((double)row->total, -(int)RT_SAMPLE_BYTES_BITS) };
	struct survivor_verdict v;

	/* no stack's variance is larger: a block that stands for B bytes adds at most N B */
	made.variance = sample->interval > 1 ? (double)sample->interval * made.bytes : 0;
	survivors__judge(ask->survivors, &row->live, sample->interval > 1, &v);
	*out = (struct snapshot_native){
		.stack = row->stack,
		.live_bytes = whole(row->live.live.bytes),
		.live_count = whole(row->live.live.count),
		.live_error_bytes = whole(estimate__error(&row->live.live, sample, INFINITY)),
		.alloc_bytes = whole(made.bytes),
		.alloc_count = whole(ldexp((double)row->cnt, -(int)RT_SAMPLE_COUNT_BITS)),
		.alloc_error_bytes = whole(estimate__error(&made, sample, INFINITY)),
		.samples = row->live.live.seen,
		.old_bytes = whole(row->live.old.bytes),
		.old_error_bytes = whole(estimate__error(&row->live.old, sample, INFINITY)),
		.old_count = whole(row->live.old.count),
		.old_slope = v.rate,
		.old_slope_error = v.error,
		.verdict = v.verdict,
	};
	if (row->live.oldest_ns && ask->now_ns > row->live.oldest_ns)
		out->oldest_ns = ask->now_ns - row->live.oldest_ns;
}

static int add_up(const struct native_ask *ask, const struct kept_rows *rows,
		  struct snapshot_memory *m)
{
	int err = 0;

	m->native = calloc(rows->rows.cnt + 1, sizeof(*m->native));
	if (!m->native)
		return -ENOMEM;
	for (size_t i = 0, cnt; i < rows->rows.cnt && !err; i += cnt) {
		struct snapshot_native *out = &m->native[m->native_cnt++];
		struct row row = { .stack = SNAPSHOT_NO_STACK };

		cnt = kept_rows__same(rows, i);
		for (size_t at = i; at < i + cnt; at++)
			add(ask, &rows->rows.data[at], &row);
		fill(ask, &row, out);
		out->depth = (uint32_t)rows->rows.data[i].cnt;
		out->truncated = namer__end(rows->rows.data[i].kept.end);
		err = kept_rows__emit(rows, i, m, &out->first);
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
	const struct kept_ask what = { .stacks = ask->stacks,
				       .kind = RT_STACK_ALLOC,
				       .namer = ask->namer,
				       .final = ask->final,
				       .learn_due_ns = ask->learn_due_ns };
	struct kept_rows rows = {};
	int err = kept_rows__read(&rows, &what, s);

	err = err ?: add_up(ask, &rows, s->memory);
	if (!err)
		qsort(s->memory->native, s->memory->native_cnt, sizeof(*s->memory->native),
		      by_live);
	fill_lost(ask, s->memory);
	kept_rows__free(&rows);
	return err;
}
