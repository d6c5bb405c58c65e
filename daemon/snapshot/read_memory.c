/* SPDX-License-Identifier: BSD-2-Clause */
/* "memory" of a document, and "alloc" of a function. Both may be missing. */
#include <stdlib.h>

#include "base/vec.h"
#include "snapshot/reader.h"
#include "snapshot/snapshot.h"

static void read_sums(struct reader *r, json_t *o, struct snapshot_sums *out)
{
	out->alloc_bytes = get_uint(r, o, "alloc_bytes");
	out->alloc_count = get_uint(r, o, "alloc_count");
	out->freed_bytes = get_uint(r, o, "freed_bytes");
	out->freed_count = get_uint(r, o, "freed_count");
}

static uint64_t read_estimated(struct reader *r, json_t *o, bool *estimated)
{
	*estimated = !is_null(o, "estimated") && get_bool(r, o, "estimated");
	return *estimated ? get_uint(r, o, "live_error_bytes") : 0;
}

void read_fn_alloc(struct reader *r, json_t *o, struct snapshot_fn *fn)
{
	json_t *alloc;

	if (is_null(o, "alloc"))
		return;
	alloc = get_object(r, o, "alloc");
	fn->has_alloc = true;
	fn->alloc.alloc_bytes = get_uint(r, alloc, "bytes");
	fn->alloc.alloc_count = get_uint(r, alloc, "count");
	fn->alloc.freed_bytes = get_uint(r, alloc, "freed_bytes");
	fn->alloc.freed_count = get_uint(r, alloc, "freed_count");
	fn->alloc_error_bytes = read_estimated(r, alloc, &fn->alloc_estimated);
}

/* ---- allocators ---- */

static void read_class(struct reader *r, json_t *o, struct snapshot_allocator *a)
{
	uint64_t max = get_uint(r, o, "max_bytes");
	unsigned int i = 0;

	while (i < SNAPSHOT_SIZE_CLASSES && ((uint64_t)1 << i) - 1 != max)
		i++;
	if (i == SNAPSHOT_SIZE_CLASSES)
		wrong(r, "max_bytes", "is not one less than a power of two");
	else if (!r->err)
		read_sums(r, o, &a->classes[i]);
}

static void read_allocator(struct reader *r, json_t *o, struct snapshot_allocator *a)
{
	json_t *list;

	a->source = get_string(r, o, "source");
	a->object = get_string(r, o, "object");
	a->basis = get_string(r, o, "size_basis");
	a->traced = get_bool(r, o, "traced");
	a->totals = get_bool(r, o, "in_totals");
	a->why = get_string_or_null(r, o, "reason");
	a->since_unix_ns = get_uint_or_0(r, o, "since_unix_ns");
	if (is_null(o, "classes"))
		return;
	read_sums(r, o, &a->sums);
	a->failed = get_uint(r, o, "failed");
	a->unknown_frees = get_uint_or_0(r, o, "unknown_frees");
	a->live_error_bytes = read_estimated(r, o, &a->estimated);
	a->unowned_bytes = get_uint(r, o, "unowned_bytes");
	a->unowned_count = get_uint(r, o, "unowned_count");
	a->classes = zeroed(r, SNAPSHOT_SIZE_CLASSES, sizeof(*a->classes));
	list = get_array(r, o, "classes");
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_class(r, json_array_get(list, i), a);
}

static void read_allocators(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *list = get_array(r, memory, "allocators");

	r->part = "memory.allocators";
	m->allocators = zeroed(r, json_array_size(list), sizeof(*m->allocators));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_allocator(r, get_row(r, list, i), &m->allocators[m->allocator_cnt++]);
	r->part = "memory";
	r->row = NO_ROW;
}

/* ---- the process ---- */

static void read_history(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *o = get_object(r, memory, "history");
	json_t *rss = get_array(r, o, "rss_bytes");
	json_t *live = is_null(o, "live_bytes") ? NULL : get_array(r, o, "live_bytes");

	m->history_interval_ns = get_uint(r, o, "interval_ns");
	if (json_array_size(rss) > SNAPSHOT_HISTORY ||
	    (live && json_array_size(live) != json_array_size(rss)))
		wrong(r, "history", "has too many values, or not as many of each");
	for (size_t i = 0; i < json_array_size(rss) && !r->err; i++) {
		m->rss_history[i] = to_uint(r, json_array_get(rss, i), "rss_bytes");
		m->live_history[i] = json_integer_value(json_array_get(live, i));
		m->history_cnt++;
	}
}

static int64_t int_or_0(struct reader *r, json_t *o, const char *key)
{
	return is_null(o, key) ? 0 : get_int(r, o, key, INT64_MIN, INT64_MAX);
}

static void read_growth_row(struct reader *r, json_t *o, struct snapshot_growth *g)
{
	g->frames = read_names(r, o, &g->depth);
	g->thread = is_null(o, "thread") ? NULL : get_string(r, o, "thread");
	g->page_faults = get_uint(r, o, "page_faults");
	g->mapped_bytes = get_uint_or_0(r, o, "mapped_bytes");
	g->unmapped_bytes = get_uint_or_0(r, o, "unmapped_bytes");
	g->data_bytes = int_or_0(r, o, "data_bytes");
}

/* Older files have faults alone. */
static void read_growth(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *list = get_array(r, memory, "growth");

	m->page_faults = get_uint(r, memory, "page_faults");
	m->has_maps = !is_null(memory, "map_grown_bytes");
	m->map_grown_bytes = get_uint_or_0(r, memory, "map_grown_bytes");
	m->map_shrunk_bytes = get_uint_or_0(r, memory, "map_shrunk_bytes");
	m->data_growth_bytes = int_or_0(r, memory, "data_growth_bytes");
	m->maps_why =
		is_null(memory, "growth_reason") ? NULL : get_string(r, memory, "growth_reason");
	r->part = "memory.growth";
	m->growth = zeroed(r, json_array_size(list), sizeof(*m->growth));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_growth_row(r, get_row(r, list, i), &m->growth[m->growth_cnt++]);
	r->part = "memory";
	r->row = NO_ROW;
}

static void read_process(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	m->rss_bytes = get_uint(r, memory, "rss_bytes");
	m->rss_start_bytes = m->rss_bytes -
			     (uint64_t)get_int(r, memory, "rss_growth_bytes", INT64_MIN, INT64_MAX);
	m->pss_bytes = get_uint_or_0(r, memory, "pss_bytes");
	m->anon_bytes = get_uint(r, memory, "anon_bytes");
	m->file_bytes = get_uint(r, memory, "file_bytes");
	m->shmem_bytes = get_uint(r, memory, "shmem_bytes");
	m->swap_bytes = get_uint(r, memory, "swap_bytes");
	m->data_bytes = get_uint(r, memory, "data_bytes");
	m->mapped_bytes = get_uint(r, memory, "mapped_bytes");
}

/* ---- stacks ---- */

static enum memory_verdict read_verdict(struct reader *r, json_t *o)
{
	if (is_null(o, "verdict"))
		return VERDICT_NONE;
	return (enum memory_verdict)get_name(r, o, "verdict", memory_verdict_names, VERDICT_CNT);
}

static double real_or_0(struct reader *r, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		return 0;
	if (!json_is_number(v))
		wrong(r, key, "is no number");
	return json_number_value(v);
}

static void read_stack(struct reader *r, json_t *o, struct snapshot_alloc_stack *a)
{
	a->frames = read_names(r, o, &a->depth);
	a->live_bytes = get_uint(r, o, "live_bytes");
	a->live_count = get_uint(r, o, "live_count");
	a->alloc_bytes = get_uint(r, o, "alloc_bytes");
	a->alloc_count = get_uint_or_0(r, o, "alloc_count");
	a->oldest_ns = get_uint_or_0(r, o, "oldest_ns");
	a->slope = real_or_0(r, o, "slope_bytes_per_s");
	a->slope_error = real_or_0(r, o, "slope_error");
	a->old_bytes = get_uint_or_0(r, o, "old_bytes");
	a->old_count = get_uint_or_0(r, o, "old_count");
	a->old_slope = real_or_0(r, o, "old_bytes_per_s");
	a->old_slope_error = real_or_0(r, o, "old_bytes_per_s_error");
	a->verdict = read_verdict(r, o);
	a->live_error_bytes = read_estimated(r, o, &a->estimated);
}

static void read_stacks(struct reader *r, json_t *memory)
{
	json_t *list;

	if (is_null(memory, "stacks"))
		return;
	list = get_array(r, memory, "stacks");
	r->part = "memory.stacks";
	r->s->alloc_stacks = zeroed(r, json_array_size(list), sizeof(*r->s->alloc_stacks));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_stack(r, get_row(r, list, i), &r->s->alloc_stacks[r->s->alloc_stack_cnt++]);
}

/* Older files do not say. */
static void read_leaks(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *o = is_null(memory, "leaks") ? NULL : get_object(r, memory, "leaks");

	if (!o)
		return;
	m->leaks = read_verdict(r, o);
	m->leaks_why = get_string_or_null(r, o, "reason");
}

static void read_whole(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	m->mode = (enum memory_mode)get_name(r, memory, "mode", memory_mode_names, MEMORY_MODE_CNT);
	m->source = get_string_or_null(r, memory, "source");
	m->reliable = get_bool(r, memory, "reliable");
	m->why = get_string_or_null(r, memory, "reason");
	m->basis = get_string_or_null(r, memory, "size_basis");
	m->since_unix_ns = get_uint(r, memory, "since_unix_ns");
	if (m->source) {
		read_sums(r, memory, &m->sums);
		m->unknown_frees = get_uint_or_0(r, memory, "unknown_frees");
		m->live_error_bytes = read_estimated(r, memory, &m->estimated);
		m->failed = get_uint(r, memory, "failed");
		m->unowned_bytes = get_uint(r, memory, "unowned_bytes");
		m->unowned_count = get_uint(r, memory, "unowned_count");
	}
	m->leak_after_s = real_or_0(r, memory, "leak_after_s");
	m->sample_bytes = get_uint_or_0(r, memory, "sample_bytes");
	m->sampled = !is_null(memory, "sampled") && get_bool(r, memory, "sampled");
	read_leaks(r, memory, m);
	read_process(r, memory, m);
	read_history(r, memory, m);
	read_growth(r, memory, m);
	read_allocators(r, memory, m);
}

/* ---- native stacks ---- */

static void read_native_figures(struct reader *r, json_t *o, struct snapshot_native *n)
{
	n->live_bytes = get_uint(r, o, "live_bytes");
	n->live_error_bytes = get_uint(r, o, "live_error_bytes");
	n->live_count = get_uint(r, o, "live_count");
	n->alloc_bytes = get_uint(r, o, "alloc_bytes");
	n->alloc_error_bytes = get_uint(r, o, "alloc_error_bytes");
	n->alloc_count = get_uint(r, o, "alloc_count");
	n->samples = get_uint(r, o, "samples");
	n->oldest_ns = get_uint(r, o, "oldest_ns");
	n->old_bytes = get_uint(r, o, "old_bytes");
	n->old_count = get_uint(r, o, "old_count");
	n->old_error_bytes = get_uint_or_0(r, o, "old_error_bytes"); /* older files: not known */
	n->old_slope = real_or_0(r, o, "old_bytes_per_s");
	n->old_slope_error = real_or_0(r, o, "old_bytes_per_s_error");
	n->verdict = read_verdict(r, o);
}

static void read_native_frames(struct reader *r, json_t *o, struct snapshot_memory *m,
			       uint32_t *first, uint32_t *depth)
{
	json_t *list = get_array(r, o, "frames");
	size_t frame_cnt = r->s->profiles ? r->s->profiles->frames.cnt : 0;

	*first = (uint32_t)m->native_refs.cnt;
	*depth = (uint32_t)json_array_size(list);
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		uint64_t ref = to_uint(r, json_array_get(list, i), "frames");
		uint32_t *slot = vec__push(&m->native_refs) ?: nomem(r);

		if (ref >= frame_cnt)
			wrong(r, "frames", "names a frame that is none");
		else if (slot)
			*slot = (uint32_t)ref;
	}
}

static void read_native(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *list, *lost;

	r->part = "memory";
	r->row = NO_ROW;
	if (is_null(memory, "native"))
		return;
	list = get_array(r, memory, "native");
	lost = get_object(r, memory, "native_lost");
	m->native_lost_live_bytes = get_uint(r, lost, "live_bytes");
	m->native_lost_live_count = get_uint(r, lost, "live_count");
	m->native_lost.alloc_bytes = get_uint(r, lost, "alloc_bytes");
	m->native_lost.alloc_count = get_uint(r, lost, "alloc_count");
	r->part = "memory.native";
	m->native = zeroed(r, json_array_size(list) + 1, sizeof(*m->native));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		struct snapshot_native *n = &m->native[m->native_cnt++];
		json_t *o = get_row(r, list, i);

		read_native_frames(r, o, m, &n->first, &n->depth);
		n->truncated = get_string_or_null(r, o, "truncated");
		n->stack = SNAPSHOT_NO_STACK;
		if (!is_null(o, "stack"))
			n->stack = (uint32_t)get_int(r, o, "stack", 0, UINT32_MAX - 1);
		if (n->stack != SNAPSHOT_NO_STACK && n->stack >= r->s->alloc_stack_cnt)
			wrong(r, "stack", "is no place in memory.stacks");
		read_native_figures(r, o, n);
	}
}

static void read_growth_figures(struct reader *r, json_t *o, struct snapshot_growth_stack *g)
{
	g->page_faults = get_uint(r, o, "page_faults");
	g->page_faults_error = get_uint(r, o, "page_faults_error");
	g->changes = get_uint_or_0(r, o, "changes");
	g->mapped_bytes = get_uint_or_0(r, o, "mapped_bytes");
	g->mapped_error_bytes = get_uint_or_0(r, o, "mapped_error_bytes");
	g->unmapped_bytes = get_uint_or_0(r, o, "unmapped_bytes");
	g->unmapped_error_bytes = get_uint_or_0(r, o, "unmapped_error_bytes");
	g->data_bytes = int_or_0(r, o, "data_bytes");
	g->data_error_bytes = get_uint_or_0(r, o, "data_error_bytes");
	g->samples = get_uint(r, o, "samples");
}

static void read_intervals(struct reader *r, json_t *o, const char *key,
			   struct snapshot_intervals *out)
{
	json_t *i = get_object(r, o, key);

	out->low_bytes = get_uint(r, i, "low_bytes");
	out->high_bytes = get_uint(r, i, "high_bytes");
}

static void read_native_growth(struct reader *r, json_t *memory, struct snapshot_memory *m)
{
	json_t *list, *sample;

	r->part = "memory";
	r->row = NO_ROW;
	if (is_null(memory, "native_growth"))
		return;
	list = get_array(r, memory, "native_growth");
	sample = get_object(r, memory, "native_growth_sample");
	read_intervals(r, sample, "maps", &m->map_sample);
	read_intervals(r, sample, "faults", &m->fault_sample);
	m->native_growth_lost = zeroed(r, 1, sizeof(*m->native_growth_lost));
	m->native_growth = zeroed(r, json_array_size(list) + 1, sizeof(*m->native_growth));
	if (r->err)
		return;
	read_growth_figures(r, get_object(r, memory, "native_growth_lost"), m->native_growth_lost);
	r->part = "memory.native_growth";
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		struct snapshot_growth_stack *g = &m->native_growth[m->native_growth_cnt++];
		json_t *o = get_row(r, list, i);

		read_native_frames(r, o, m, &g->first, &g->depth);
		g->truncated = get_string_or_null(r, o, "truncated");
		read_growth_figures(r, o, g);
	}
}

void read_memory(struct reader *r, json_t *doc)
{
	json_t *memory;

	if (is_null(doc, "memory"))
		return;
	memory = enter(r, doc, "memory", get_object);
	if (!is_null(memory, "mode")) {
		r->s->memory = snapshot_memory__new() ?: nomem(r);
		if (r->s->memory)
			read_whole(r, memory, r->s->memory);
	}
	read_stacks(r, memory);
	if (r->s->memory) {
		read_native(r, memory, r->s->memory);
		read_native_growth(r, memory, r->s->memory);
	}
}
