/* SPDX-License-Identifier: BSD-2-Clause */
/* "memory" of the snapshot file, and a function's "alloc". */
#include "export/json.h"
#include "snapshot/snapshot.h"

static void put_int(struct jsonw *w, const char *key, int64_t v)
{
	jsonw__key(w, key);
	jsonw__int(w, v);
}

static void put_string_or_null(struct jsonw *w, const char *key, const char *v)
{
	if (v)
		put_string(w, key, v);
	else
		put_null(w, key);
}

static void sums(struct jsonw *w, const struct snapshot_sums *s)
{
	put_int(w, "live_bytes", sums__live_bytes(s));
	put_int(w, "live_count", sums__live_count(s));
	put_uint(w, "alloc_bytes", s->alloc_bytes);
	put_uint(w, "alloc_count", s->alloc_count);
	put_uint(w, "freed_bytes", s->freed_bytes);
	put_uint(w, "freed_count", s->freed_count);
}

void json__estimated(struct jsonw *w, bool estimated, uint64_t live_error_bytes)
{
	if (!estimated)
		return;
	jsonw__key(w, "estimated");
	jsonw__bool(w, true);
	put_uint(w, "live_error_bytes", live_error_bytes);
}

void json__fn_alloc(struct jsonw *w, const struct snapshot_fn *fn)
{
	if (!fn->has_alloc)
		return;
	jsonw__key(w, "alloc");
	jsonw__open(w, '{');
	put_uint(w, "bytes", fn->alloc.alloc_bytes);
	put_uint(w, "count", fn->alloc.alloc_count);
	put_uint(w, "freed_bytes", fn->alloc.freed_bytes);
	put_uint(w, "freed_count", fn->alloc.freed_count);
	put_int(w, "live_bytes", sums__live_bytes(&fn->alloc));
	put_int(w, "live_count", sums__live_count(&fn->alloc));
	json__estimated(w, fn->alloc_estimated, fn->alloc_error_bytes);
	jsonw__close(w, '}');
}

static void classes(struct jsonw *w, const struct snapshot_allocator *a)
{
	jsonw__key(w, "classes");
	jsonw__open(w, '[');
	for (unsigned int i = 0; i < SNAPSHOT_SIZE_CLASSES; i++) {
		const struct snapshot_sums *s = &a->classes[i];

		if (!s->alloc_count && !s->freed_count)
			continue;
		jsonw__line(w);
		jsonw__open(w, '{');
		put_uint(w, "max_bytes", ((uint64_t)1 << i) - 1);
		put_uint(w, "alloc_count", s->alloc_count);
		put_uint(w, "alloc_bytes", s->alloc_bytes);
		put_uint(w, "freed_count", s->freed_count);
		put_uint(w, "freed_bytes", s->freed_bytes);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void allocator(struct jsonw *w, const struct snapshot_allocator *a, bool sampled)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	put_string(w, "source", a->source);
	put_string(w, "object", a->object);
	put_string(w, "size_basis", a->basis);
	jsonw__key(w, "traced");
	jsonw__bool(w, a->traced);
	jsonw__key(w, "in_totals");
	jsonw__bool(w, a->totals);
	put_string_or_null(w, "reason", a->why);
	put_uint_if(w, "since_unix_ns", a->since_unix_ns, a->since_unix_ns);
	if (a->classes) {
		sums(w, &a->sums);
		json__estimated(w, a->estimated, a->live_error_bytes);
		put_uint(w, "failed", a->failed);
		put_uint_if(w, "unknown_frees", !sampled, a->unknown_frees);
		put_uint(w, "unowned_bytes", a->unowned_bytes);
		put_uint(w, "unowned_count", a->unowned_count);
		classes(w, a);
	}
	jsonw__close(w, '}');
}

static void totals(struct jsonw *w, const struct snapshot_memory *m)
{
	sums(w, &m->sums);
	json__estimated(w, m->estimated, m->live_error_bytes);
	put_uint_if(w, "unknown_frees", !m->sampled, m->unknown_frees);
	put_uint(w, "failed", m->failed);
	put_uint(w, "unowned_bytes", m->unowned_bytes);
	put_uint(w, "unowned_count", m->unowned_count);
}

static void process(struct jsonw *w, const struct snapshot_memory *m)
{
	put_uint(w, "rss_bytes", m->rss_bytes);
	put_int(w, "rss_growth_bytes", (int64_t)(m->rss_bytes - m->rss_start_bytes));
	put_uint_if(w, "pss_bytes", m->pss_bytes, m->pss_bytes);
	put_uint(w, "anon_bytes", m->anon_bytes);
	put_uint(w, "file_bytes", m->file_bytes);
	put_uint(w, "shmem_bytes", m->shmem_bytes);
	put_uint(w, "swap_bytes", m->swap_bytes);
	put_uint(w, "data_bytes", m->data_bytes);
	put_uint(w, "mapped_bytes", m->mapped_bytes);
}

static void history(struct jsonw *w, const struct snapshot_memory *m)
{
	jsonw__key(w, "history");
	jsonw__open(w, '{');
	put_uint(w, "interval_ns", m->history_interval_ns);
	jsonw__key(w, "rss_bytes");
	jsonw__open(w, '[');
	for (uint32_t i = 0; i < m->history_cnt; i++)
		jsonw__uint(w, m->rss_history[i]);
	jsonw__close(w, ']');
	if (m->source) {
		jsonw__key(w, "live_bytes");
		jsonw__open(w, '[');
		for (uint32_t i = 0; i < m->history_cnt; i++)
			jsonw__int(w, m->live_history[i]);
		jsonw__close(w, ']');
	}
	jsonw__close(w, '}');
}

static void maps_or_null(struct jsonw *w, bool has, const char *const keys[3], uint64_t grown,
			 uint64_t shrunk, int64_t data)
{
	if (!has) {
		for (int i = 0; i < 3; i++)
			put_null(w, keys[i]);
		return;
	}
	put_uint(w, keys[0], grown);
	put_uint(w, keys[1], shrunk);
	put_int(w, keys[2], data);
}

static void growth(struct jsonw *w, const struct snapshot_memory *m)
{
	static const char *const of_all[] = { "map_grown_bytes", "map_shrunk_bytes",
					      "data_growth_bytes" };
	static const char *const of_row[] = { "mapped_bytes", "unmapped_bytes", "data_bytes" };

	put_uint(w, "page_faults", m->page_faults);
	maps_or_null(w, m->has_maps, of_all, m->map_grown_bytes, m->map_shrunk_bytes,
		     m->data_growth_bytes);
	put_string_or_null(w, "growth_reason", m->maps_why);
	jsonw__key(w, "growth");
	jsonw__open(w, '[');
	for (size_t i = 0; i < m->growth_cnt; i++) {
		const struct snapshot_growth *g = &m->growth[i];

		json__names(w, g->frames, g->depth);
		if (g->thread)
			put_string(w, "thread", g->thread);
		put_uint(w, "page_faults", g->page_faults);
		maps_or_null(w, m->has_maps, of_row, g->mapped_bytes, g->unmapped_bytes,
			     g->data_bytes);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

static void leaks(struct jsonw *w, const struct snapshot_memory *m)
{
	jsonw__key(w, "leaks");
	jsonw__open(w, '{');
	put_string_or_null(w, "verdict", memory_verdict_names[m->leaks]);
	put_string_or_null(w, "reason", m->leaks_why);
	jsonw__close(w, '}');
}

static void whole(struct jsonw *w, const struct snapshot_memory *m)
{
	put_string(w, "mode", memory_mode_names[m->mode]);
	put_string_or_null(w, "source", m->source);
	jsonw__key(w, "reliable");
	jsonw__bool(w, m->reliable);
	put_string_or_null(w, "reason", m->why);
	put_string_or_null(w, "size_basis", m->basis);
	put_uint(w, "since_unix_ns", m->since_unix_ns);
	if (m->source)
		totals(w, m);
	process(w, m);
	history(w, m);
	growth(w, m);
	jsonw__key(w, "allocators");
	jsonw__open(w, '[');
	for (size_t i = 0; i < m->allocator_cnt; i++)
		allocator(w, &m->allocators[i], m->sampled);
	jsonw__close(w, ']');
	if (m->mode == MEMORY_STACKS && m->source) {
		put_real(w, "leak_after_s", m->leak_after_s);
		put_uint_if(w, "sample_bytes", m->sample_bytes, m->sample_bytes);
		jsonw__key(w, "sampled");
		jsonw__bool(w, m->sampled);
		leaks(w, m);
	}
}

void json__memory(struct jsonw *w, const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;

	if (!m && !s->alloc_stack_cnt)
		return;
	section(w, "memory", '{');
	if (m)
		whole(w, m);
	if (s->alloc_stack_cnt || (m && m->mode == MEMORY_STACKS && m->source))
		json__alloc_stacks(w, s);
	if (m && m->native)
		json__native(w, s);
	if (m && m->native_growth)
		json__native_growth(w, s);
	jsonw__close(w, '}');
}
