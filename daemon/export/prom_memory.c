/* SPDX-License-Identifier: BSD-2-Clause */
/* A bounded number of series: the process, its allocators (eight at most), the leaks as a sum. */
#include "export/prom.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "snapshot/snapshot.h"

static void process(const struct snapshot_memory *m, const char *origin, struct strbuf *out)
{
	prom__uint(out, origin, "roletrace_memory_resident_bytes", "gauge", m->rss_bytes,
		   "Resident set size of the process.");
	prom__uint(out, origin, "roletrace_memory_anonymous_bytes", "gauge", m->anon_bytes,
		   "Of that, anonymous: heap, stacks.");
	prom__uint(out, origin, "roletrace_memory_swapped_bytes", "gauge", m->swap_bytes,
		   "Swapped out.");
	prom__uint(out, origin, "roletrace_memory_mapped_bytes", "gauge", m->mapped_bytes,
		   "Address space of the process.");
	prom__uint(out, origin, "roletrace_memory_page_faults_total", "counter", m->page_faults,
		   "Page faults of the process on its memory since the attach.");
	if (!m->has_maps)
		return;
	prom__uint(out, origin, "roletrace_memory_map_grown_bytes_total", "counter",
		   m->map_grown_bytes, "Address space that was mapped since the attach.");
	prom__uint(out, origin, "roletrace_memory_map_shrunk_bytes_total", "counter",
		   m->map_shrunk_bytes, "Address space that was unmapped.");
}

/* ---- by allocator ---- */

enum needs { NEEDS_NOTHING, NEEDS_ALL_FREES, NEEDS_ALL_BLOCKS };

static const struct figure {
	const char *metric, *type, *help;
	size_t at;	  /* a uint64_t in struct snapshot_allocator */
	enum needs needs; /* exact only without a sample */
} figures[] = {
#define AT(member) offsetof(struct snapshot_allocator, member)
	{ "roletrace_memory_allocated_bytes_total", "counter", "Bytes handed out.",
	  AT(sums.alloc_bytes), NEEDS_NOTHING },
	{ "roletrace_memory_allocations_total", "counter", "Blocks handed out.",
	  AT(sums.alloc_count), NEEDS_NOTHING },
	{ "roletrace_memory_freed_bytes_total", "counter", "Bytes taken back.",
	  AT(sums.freed_bytes), NEEDS_ALL_FREES },
	{ "roletrace_memory_frees_total", "counter", "Blocks taken back.", AT(sums.freed_count),
	  NEEDS_ALL_FREES },
	{ "roletrace_memory_failed_total", "counter", "Calls that returned no block.", AT(failed),
	  NEEDS_NOTHING },
	{ "roletrace_memory_unknown_frees_total", "counter",
	  "Blocks taken back that were not seen to be handed out.", AT(unknown_frees),
	  NEEDS_ALL_BLOCKS },
	{ "roletrace_memory_unowned_total", "counter",
	  "Blocks that found no place in the table of live ones.", AT(unowned_count),
	  NEEDS_NOTHING },
#undef AT
};

static void labels(const struct snapshot_allocator *a, const char *origin, struct strbuf *out)
{
	strbuf__addf(out, "{%s,allocator=\"%s\",size_basis=\"%s\",in_totals=\"%s\"} ", origin,
		     a->source, a->basis, a->totals ? "yes" : "no");
}

static void live_of(const struct snapshot_allocator *a, const char *metric, const char *origin,
		    int64_t v, struct strbuf *out)
{
	strbuf__adds(out, metric);
	labels(a, origin, out);
	strbuf__addf(out, "%" PRId64 "\n", v);
}

/* An estimate goes by another name, with its error. */
static void live(const struct snapshot_memory *m, const char *origin, struct strbuf *out)
{
	static const char exact[] = "roletrace_memory_live_bytes";
	static const char estimate[] = "roletrace_memory_live_bytes_estimate";
	static const char error[] = "roletrace_memory_live_bytes_error";
	const struct snapshot_allocator *a = m->allocators, *end = a + m->allocator_cnt;

	prom__head(
		out, exact, "gauge",
		"Handed out and not taken back since the attach; negative when older blocks were "
		"freed.");
	for (a = m->allocators; a < end; a++)
		if (a->traced && !a->estimated)
			live_of(a, exact, origin, sums__live_bytes(&a->sums), out);
	if (!m->sampled)
		return;
	prom__head(out, estimate, "gauge", "The same, estimated from a sample of the blocks.");
	for (a = m->allocators; a < end; a++)
		if (a->traced && a->estimated)
			live_of(a, estimate, origin, sums__live_bytes(&a->sums), out);
	prom__head(out, error, "gauge", "Of the estimate: half the width of its 95 % interval.");
	for (a = m->allocators; a < end; a++)
		if (a->traced && a->estimated)
			live_of(a, error, origin, (int64_t)a->live_error_bytes, out);
}

static bool is_known(const struct snapshot_memory *m, const struct snapshot_allocator *a,
		     enum needs needs)
{
	return a->traced && !(needs == NEEDS_ALL_FREES && a->estimated) &&
	       !(needs == NEEDS_ALL_BLOCKS && m->sampled);
}

static void allocators(const struct snapshot_memory *m, const char *origin, struct strbuf *out)
{
	live(m, origin, out);
	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		prom__head(out, figures[f].metric, figures[f].type, figures[f].help);
		for (size_t i = 0; i < m->allocator_cnt; i++) {
			const struct snapshot_allocator *a = &m->allocators[i];

			if (!is_known(m, a, figures[f].needs))
				continue;
			strbuf__adds(out, figures[f].metric);
			labels(a, origin, out);
			strbuf__addf(out, "%" PRIu64 "\n",
				     *(const uint64_t *)((const char *)a + figures[f].at));
		}
	}
}

static void suspects(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	uint64_t n = 0, bytes = 0;

	for (size_t i = 0; i < s->alloc_stack_cnt; i++) {
		if (s->alloc_stacks[i].verdict != VERDICT_GROWING)
			continue;
		n++;
		bytes += s->alloc_stacks[i].old_bytes;
	}
	prom__uint(out, origin, "roletrace_memory_suspects", "gauge", n,
		   "Call paths whose blocks of every age are left over: perhaps leaks.");
	prom__uint(out, origin, "roletrace_memory_suspect_bytes", "gauge", bytes,
		   "What they hold that is older than --leak-after.");
}

void prom__memory(const struct snapshot *s, const char *origin, struct strbuf *out)
{
	const struct snapshot_memory *m = s->memory;

	if (!m)
		return;
	process(m, origin, out);
	if (!m->source)
		return;
	prom__uint(out, origin, "roletrace_memory_reliable", "gauge", m->reliable,
		   "1: every allocation since the attach was seen.");
	allocators(m, origin, out);
	if (m->mode == MEMORY_STACKS)
		suspects(s, origin, out);
}
