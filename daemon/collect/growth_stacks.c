/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/growth_stacks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "collect/estimate.h"
#include "collect/kept.h"
#include "roletrace/sample.h"

#define PAGE_BYTES ((double)(1u << RT_GROWTH_PAGE_BITS))

/* Of a sum over the sample; in integers, for what is exact is so to the byte. */
static uint64_t whole(uint64_t sum, unsigned int bits)
{
	return (sum + (1ull << (bits - 1))) >> bits;
}

static void add(struct rt_growth_stack *to, const struct rt_growth_stack *s)
{
	to->changes += s->changes;
	to->mapped += s->mapped;
	to->unmapped += s->unmapped;
	to->data_up += s->data_up;
	to->data_down += s->data_down;
	to->faults += s->faults;
	to->map_squares += s->map_squares;
	to->fault_squares += s->fault_squares;
}

/*
 * Half the width of an interval, in pages. What is missing may have been there when the interval of
 * the sample was the largest. That nothing was seen of a figure is no figure: it has no error.
 */
static double error_of(const struct snapshot_intervals *sample, double pages, uint64_t squares)
{
	const struct blocksample interval = { .interval =
						      sample->high_bytes >> RT_GROWTH_PAGE_BITS };
	const struct estimate e = { .bytes = pages, .variance = (double)squares };

	return pages > 0 && sample->high_bytes > 1 ? ceil(estimate__error(&e, &interval, INFINITY))
						   : 0;
}

static uint64_t bytes_error(const struct snapshot_memory *m, uint64_t bytes, uint64_t squares)
{
	return (uint64_t)(error_of(&m->map_sample, (double)bytes / PAGE_BYTES, squares) *
			  PAGE_BYTES);
}

static void figures(const struct snapshot_memory *m, const struct rt_growth_stack *s,
		    struct snapshot_growth_stack *out)
{
	uint64_t up = whole(s->data_up, RT_SAMPLE_BYTES_BITS);
	uint64_t down = whole(s->data_down, RT_SAMPLE_BYTES_BITS);

	out->page_faults = whole(s->faults, RT_SAMPLE_COUNT_BITS);
	out->changes = whole(s->changes, RT_SAMPLE_COUNT_BITS);
	out->mapped_bytes = whole(s->mapped, RT_SAMPLE_BYTES_BITS);
	out->unmapped_bytes = whole(s->unmapped, RT_SAMPLE_BYTES_BITS);
	out->data_bytes = (int64_t)(up - down);
	out->page_faults_error =
		(uint64_t)error_of(&m->fault_sample, (double)out->page_faults, s->fault_squares);
	out->mapped_error_bytes = bytes_error(m, out->mapped_bytes, s->map_squares);
	out->unmapped_error_bytes = bytes_error(m, out->unmapped_bytes, s->map_squares);
	out->data_error_bytes = bytes_error(m, up + down, s->map_squares);
}

static int add_up(const struct growth *g, const struct kept_rows *rows, struct snapshot_memory *m)
{
	int err = 0;

	m->native_growth = calloc(rows->rows.cnt + 1, sizeof(*m->native_growth));
	if (!m->native_growth)
		return -ENOMEM;
	for (size_t i = 0, cnt; i < rows->rows.cnt && !err; i += cnt) {
		struct snapshot_growth_stack *out = &m->native_growth[m->native_growth_cnt++];
		struct rt_growth_stack sum = {}, one;

		cnt = kept_rows__same(rows, i);
		for (size_t at = i; at < i + cnt; at++) {
			growth__stack(g, rows->rows.data[at].place, &one);
			add(&sum, &one);
			out->samples += rows->rows.data[at].kept.cnt;
		}
		figures(m, &sum, out);
		out->depth = (uint32_t)rows->rows.data[i].cnt;
		out->truncated = namer__end(rows->rows.data[i].kept.end);
		err = kept_rows__emit(rows, i, m, &out->first);
	}
	return err;
}

static int by_growth(const void *a, const void *b)
{
	const struct snapshot_growth_stack *x = a, *y = b;
	int64_t gx = snapshot__grown_bytes(x->data_bytes, x->page_faults);
	int64_t gy = snapshot__grown_bytes(y->data_bytes, y->page_faults);

	if (gx != gy)
		return gx < gy ? 1 : -1;
	return x->mapped_bytes < y->mapped_bytes ? 1 : x->mapped_bytes > y->mapped_bytes ? -1 : 0;
}

static int fill_lost(const struct growth *g, struct snapshot_memory *m)
{
	struct rt_growth_stack lost;
	struct rt_growth_taken taken;

	m->native_growth_lost = calloc(1, sizeof(*m->native_growth_lost));
	if (!m->native_growth_lost)
		return -ENOMEM;
	growth__stack(g, stacks__place_cnt(growth__stacks(g)), &lost);
	growth__taken(g, &taken);
	figures(m, &lost, m->native_growth_lost);
	m->native_growth_lost->samples = taken.lost;
	return 0;
}

int growth_stacks__fill(const struct growth_ask *ask, struct snapshot *s)
{
	const struct kept_ask what = { .stacks = growth__stacks(ask->growth),
				       .kind = RT_STACK_GROWTH,
				       .namer = ask->namer,
				       .final = ask->final,
				       .learn_due_ns = ask->learn_due_ns };
	struct snapshot_memory *m = s->memory;
	struct kept_rows rows = {};
	int err = kept_rows__read(&rows, &what, s);

	growth__sampled(ask->growth, RT_GROWTH_MAP, &m->map_sample.low_bytes,
			&m->map_sample.high_bytes);
	growth__sampled(ask->growth, RT_GROWTH_FAULT, &m->fault_sample.low_bytes,
			&m->fault_sample.high_bytes);
	err = err ?: add_up(ask->growth, &rows, m);
	err = err ?: fill_lost(ask->growth, m);
	if (!err)
		qsort(m->native_growth, m->native_growth_cnt, sizeof(*m->native_growth), by_growth);
	kept_rows__free(&rows);
	return err;
}
