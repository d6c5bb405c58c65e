/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

struct snapshot *snapshot__new(void)
{
	return calloc(1, sizeof(struct snapshot));
}

void snapshot__free(struct snapshot *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->fns && i < s->fn_cnt; i++)
		free(s->fns[i].hist.counts);
	for (size_t i = 0; s->reasons && i < s->reason_cnt; i++)
		free((char *)s->reasons[i]);
	free(s->reasons);
	free(s->lost);
	free(s->overhead.shed);
	free(s->fns);
	free(s->edges);
	free(s->skipped);
	free(s);
}

uint64_t snapshot__mean_ns(const struct snapshot_fn *fn)
{
	return fn->returned ? fn->sum_ns / fn->returned : 0;
}

double snapshot__share(const struct snapshot *s, const struct snapshot_fn *fn)
{
	uint64_t window_ns = fn->observed_ns ? fn->observed_ns : s->window.duration_ns;

	return window_ns ? (double)fn->total_ns / (double)window_ns : 0;
}

bool snapshot__timed(const struct snapshot_fn *fn)
{
	return fn->coverage != COVERAGE_ENTRY_ONLY;
}

uint64_t snapshot__calls(const struct snapshot *s)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < s->fn_cnt; i++)
		calls += s->fns[i].calls;
	return calls;
}

static int by_total(const void *a, const void *b, void *fns_)
{
	const struct snapshot_fn *fns = fns_;
	const struct snapshot_fn *x = &fns[*(const uint32_t *)a], *y = &fns[*(const uint32_t *)b];

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return strcmp(x->name, y->name);
}

uint32_t *snapshot__by_total(const struct snapshot *s)
{
	uint32_t *order = malloc((s->fn_cnt + 1) * sizeof(*order));

	if (!order)
		return NULL;
	for (size_t i = 0; i < s->fn_cnt; i++)
		order[i] = (uint32_t)i;
	if (s->fn_cnt)
		qsort_r(order, s->fn_cnt, sizeof(*order), by_total, s->fns);
	return order;
}
