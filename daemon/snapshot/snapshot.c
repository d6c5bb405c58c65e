/* SPDX-License-Identifier: BSD-2-Clause */
#include "snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

const char *const snapshot_coverage_names[] = { [COVERAGE_EXACT] = "exact",
						[COVERAGE_SAMPLED] = "sampled",
						[COVERAGE_ENTRY_ONLY] = "entry-only" };
const char *const snapshot_end_names[] = {
	[END_EXIT] = "exit", [END_SIGNAL] = "signal", [END_EXEC] = "exec"
};

const char *const snapshot_basis_names[] = { [BASIS_EXACT] = "exact",
					     [BASIS_ESTIMATED] = "estimated",
					     [BASIS_LOWER_BOUND] = "lower-bound" };

const double snapshot_quantiles[] = { 0.50, 0.95, 0.99 };

struct snapshot *snapshot__new(void)
{
	return calloc(1, sizeof(struct snapshot));
}

void snapshot__free(struct snapshot *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->fns && i < s->fn_cnt; i++) {
		free(s->fns[i].hist.counts);
		snapshot_sampled__free(s->fns[i].sampled);
	}
	for (size_t i = 0; s->reasons && i < s->reason_cnt; i++)
		free((char *)s->reasons[i]);
	free(s->reasons);
	free(s->lost);
	free(s->overhead.shed);
	free(s->fns);
	free(s->edges);
	free(s->skipped);
	for (size_t i = 0; s->threads && i < s->thread_cnt; i++)
		free(s->threads[i].queue.hist.counts);
	free(s->threads);
	for (size_t i = 0; s->locks && i < s->lock_cnt; i++)
		free(s->locks[i].wait.hist.counts);
	free(s->locks);
	free(s->stalls);
	profiles__free(s->profiles);
	snapshot_memory__free(s->memory);
	free(s->paths);
	free(s->alloc_stacks);
	arena__free(s->arena);
	free(s);
}

struct snapshot_sampled *snapshot_sampled__state(const struct snapshot_sampled *s)
{
	struct snapshot_sampled *copy = s ? calloc(1, sizeof(*copy)) : NULL;

	if (copy) {
		*copy = *s;
		copy->hist = (struct snapshot_hist){};
		memset(copy->quantiles, 0, sizeof(copy->quantiles));
		copy->weight = 1;
	}
	return copy;
}

void snapshot_sampled__free(struct snapshot_sampled *s)
{
	if (s)
		free(s->hist.counts);
	free(s);
}

uint64_t snapshot__mean_ns(const struct snapshot_fn *fn)
{
	return fn->returned ? fn->sum_ns / fn->returned : 0;
}

uint64_t snapshot__mean_of_all_ns(const struct snapshot_fn *fn)
{
	const struct snapshot_sampled *a = fn->sampled;
	double extra = a && a->weight > 1 ? a->weight - 1 : 0, returned, sum_ns;

	returned = (double)fn->returned + (extra > 0 ? extra * (double)hist__count(&a->hist) : 0);
	sum_ns = (double)fn->sum_ns + (extra > 0 ? extra * (double)a->windows_ns[TIME_SUM] : 0);
	return returned > 0 ? (uint64_t)(sum_ns / returned) : 0;
}

uint64_t snapshot__all_calls(const struct snapshot_fn *fn)
{
	return fn->sampled ? fn->sampled->calls.value : fn->calls;
}

uint64_t snapshot__time_ns(const struct snapshot_fn *fn, enum snapshot_time which)
{
	if (fn->sampled)
		return fn->sampled->times[which].value;
	return which == TIME_SUM ? fn->sum_ns : which == TIME_TOTAL ? fn->total_ns : fn->self_ns;
}

enum snapshot_basis snapshot__calls_basis(const struct snapshot_fn *fn)
{
	return fn->sampled ? fn->sampled->count : BASIS_EXACT;
}

enum snapshot_basis snapshot__time_basis(const struct snapshot_fn *fn)
{
	return fn->sampled ? fn->sampled->time : BASIS_EXACT;
}

/* In traffic caches are colder than when the price was measured, and its probes as much dearer. */
#define PRICE_UNCERTAIN 0.3

bool snapshot__overcorrected(const struct snapshot_fn *fn)
{
	return fn->returned && PRICE_UNCERTAIN * (double)fn->corrected_ns > (double)fn->sum_ns;
}

bool snapshot__in_part(const struct snapshot_fn *fn)
{
	return fn->sampled && fn->sampled->exact_calls < fn->sampled->calls.value;
}

double snapshot__share(const struct snapshot *s, const struct snapshot_fn *fn)
{
	uint64_t window_ns = s->window.duration_ns;

	return window_ns ? (double)snapshot__time_ns(fn, TIME_TOTAL) / (double)window_ns : 0;
}

bool snapshot__timed(const struct snapshot_fn *fn)
{
	return fn->coverage != COVERAGE_ENTRY_ONLY && !fn->unprobed;
}

size_t snapshot__probed(const struct snapshot *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->fn_cnt; i++)
		n += !s->fns[i].unprobed;
	return n;
}

uint64_t snapshot__calls(const struct snapshot *s)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < s->fn_cnt; i++)
		calls += s->fns[i].calls;
	return calls;
}
