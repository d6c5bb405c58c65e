/* SPDX-License-Identifier: BSD-2-Clause */
/* Which functions of a snapshot are shown, and in which order. */
#include "snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/glob.h"

struct row {
	const struct snapshot_fn *fn;
	uint64_t key; /* quantiles are too dear to be found at each comparison */
	uint64_t total_ns, calls;
};

static uint64_t key_of(const struct snapshot_fn *fn, enum snapshot_sort by)
{
	if (by == SORT_CALLS)
		return snapshot__all_calls(fn);
	if (by == SORT_CPU)
		return fn->cpu_samples;
	if (!snapshot__timed(fn))
		return 0;
	switch (by) {
	case SORT_TOTAL:
		return snapshot__time_ns(fn, TIME_TOTAL);
	case SORT_MEAN:
		return snapshot__mean_of_all_ns(fn);
	case SORT_P95:
		return snapshot__quantile_ns(fn, 0.95);
	case SORT_MAX:
		return fn->returned ? fn->max_ns : 0;
	case SORT_SELF:
		return snapshot__time_ns(fn, TIME_SELF);
	default:
		return 0;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->fn->name, y->fn->name);

	return order ?: (x->fn > y->fn) - (x->fn < y->fn);
}

static int by_key(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	return by_name(a, b);
}

uint32_t *snapshot__sorted(const struct snapshot *s, enum snapshot_sort by)
{
	uint32_t *order = malloc((s->fn_cnt + 1) * sizeof(*order));
	struct row *rows = malloc((s->fn_cnt + 1) * sizeof(*rows));

	if (!order || !rows) {
		free(order);
		free(rows);
		return NULL;
	}
	for (size_t i = 0; i < s->fn_cnt; i++)
		rows[i] = (struct row){ &s->fns[i], key_of(&s->fns[i], by),
					snapshot__time_ns(&s->fns[i], TIME_TOTAL),
					snapshot__all_calls(&s->fns[i]) };
	qsort(rows, s->fn_cnt, sizeof(*rows), by == SORT_NAME ? by_name : by_key);
	for (size_t i = 0; i < s->fn_cnt; i++)
		order[i] = (uint32_t)(rows[i].fn - s->fns);
	free(rows);
	return order;
}

static bool is_kept(const struct snapshot_filter *f, const struct snapshot_fn *fn)
{
	bool all = !f->function_cnt && !f->crate_cnt;

	return (all || glob__match_any(f->functions, f->function_cnt, fn->name) ||
		glob__match_any(f->crates, f->crate_cnt, fn->crate)) &&
	       !glob__match_any(f->excludes, f->exclude_cnt, fn->name);
}

static void keep_edges(struct snapshot *s, const uint32_t *to)
{
	size_t n = 0;

	for (size_t i = 0; i < s->edge_cnt; i++) {
		struct snapshot_edge e = s->edges[i];

		e.caller = to[e.caller];
		e.callee = to[e.callee];
		if (e.caller != UINT32_MAX && e.callee != UINT32_MAX)
			s->edges[n++] = e;
	}
	s->edge_cnt = n;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* By the name of the function that a path leads to: its callers are needed to tell where it is. */
static int keep_paths(struct snapshot *s)
{
	const char **names = malloc((s->fn_cnt + 1) * sizeof(*names));
	size_t n = 0;

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < s->fn_cnt; i++)
		names[i] = s->fns[i].name;
	qsort(names, s->fn_cnt, sizeof(*names), by_text);
	for (size_t i = 0; i < s->path_cnt; i++) {
		const struct snapshot_path *p = &s->paths[i];

		if (bsearch(&p->frames[p->depth - 1], names, s->fn_cnt, sizeof(*names), by_text))
			s->paths[n++] = *p;
	}
	s->path_cnt = n;
	free(names);
	return 0;
}

int snapshot__keep(struct snapshot *s, const struct snapshot_filter *filter)
{
	uint32_t *to = malloc((s->fn_cnt + 1) * sizeof(*to)), n = 0;

	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < s->fn_cnt; i++) {
		if (is_kept(filter, &s->fns[i])) {
			to[i] = n;
			s->fns[n++] = s->fns[i];
		} else {
			to[i] = UINT32_MAX;
			free(s->fns[i].hist.counts);
			snapshot_sampled__free(s->fns[i].sampled);
		}
	}
	s->fn_cnt = n;
	keep_edges(s, to);
	free(to);
	return keep_paths(s);
}
