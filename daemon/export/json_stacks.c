/* SPDX-License-Identifier: BSD-2-Clause */
/* The weighted stacks of the snapshot file, a stack a line. */
#include "export/json.h"
#include "snapshot/snapshot.h"

/* ---- profiles ---- */

static void frame(struct jsonw *w, const struct snapshot_frame *f)
{
	jsonw__open(w, '{');
	put_string(w, "name", f->name);
	put_string(w, "module", f->module);
	put_string(w, "kind", frame_kind_names[f->kind]);
	if (f->inlined) {
		jsonw__key(w, "inlined");
		jsonw__bool(w, true);
	}
	if (f->file)
		put_string(w, "file", f->file);
	if (f->file && f->line)
		put_uint(w, "line", f->line);
	jsonw__close(w, '}');
}

void json__backtrace(struct jsonw *w, const struct snapshot_backtrace *b)
{
	if (b->frames) {
		jsonw__key(w, "stack");
		jsonw__open(w, '[');
		for (uint32_t i = 0; i < b->depth; i++)
			frame(w, &b->frames[i]);
		jsonw__close(w, ']');
	} else {
		put_null(w, "stack");
	}
	if (b->truncated)
		put_string(w, "stack_truncated", b->truncated);
	else
		put_null(w, "stack_truncated");
}

static void counts(struct jsonw *w, const char *key, const struct snapshot_counts *c)
{
	jsonw__key(w, key);
	jsonw__open(w, '{');
	for (size_t i = 0; i < c->cnt; i++)
		put_uint(w, c->data[i].name, c->data[i].count);
	jsonw__close(w, '}');
}

static void refs(struct jsonw *w, const char *key, const uint32_t *frames, uint32_t depth)
{
	jsonw__key(w, key);
	jsonw__open(w, '[');
	for (uint32_t i = 0; i < depth; i++)
		jsonw__uint(w, frames[i]);
	jsonw__close(w, ']');
}

static void stack(struct jsonw *w, const struct snapshot_profile *p, enum profile_kind kind,
		  const struct snapshot_stack *s)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	refs(w, "frames", p->refs.data + s->first, s->depth);
	put_uint(w, "value", s->value);
	if (kind == PROFILE_OFF_CPU)
		put_uint(w, "count", s->count);
	if (s->older)
		put_uint(w, "older", s->older);
	if (s->truncated)
		put_string(w, "truncated", s->truncated);
	if (s->thread)
		put_string(w, "thread", s->thread);
	jsonw__close(w, '}');
}

static void wake(struct jsonw *w, const struct snapshot_profile *p, const struct snapshot_wake *k)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	refs(w, "frames", p->refs.data + k->first, k->depth);
	put_string(w, "by", thread_waker_names[k->by]);
	if (k->name)
		put_string(w, "name", k->name);
	refs(w, "waker", p->refs.data + k->waker_first, k->waker_depth);
	put_uint(w, "value", k->value);
	put_uint(w, "count", k->count);
	if (k->truncated)
		put_string(w, "truncated", k->truncated);
	if (k->waker_truncated)
		put_string(w, "waker_truncated", k->waker_truncated);
	jsonw__close(w, '}');
}

static void wakes(struct jsonw *w, const struct snapshot_profile *p)
{
	jsonw__key(w, "wakers");
	jsonw__open(w, '[');
	for (size_t i = 0; i < p->wakes.cnt; i++)
		wake(w, p, &p->wakes.data[i]);
	jsonw__close(w, ']');
	put_uint(w, "wakers_lost", p->wakes_lost);
}

static void profile(struct jsonw *w, const struct snapshot_profile *p, enum profile_kind kind)
{
	section(w, profile_kind_names[kind], '{');
	put_string(w, "unit", profile_units[kind]);
	if (kind == PROFILE_CPU)
		put_uint(w, "hz", p->hz);
	else
		put_uint(w, "min_ns", p->min_ns);
	put_uint(w, "count", p->count);
	if (kind == PROFILE_OFF_CPU)
		put_uint(w, "older", p->older);
	counts(w, "truncated", &p->truncated);
	counts(w, "lost", &p->lost);
	if (kind == PROFILE_CPU) {
		put_uint(w, "unlisted_functions", p->unlisted_fns);
		put_uint(w, "unlisted_self_samples", p->unlisted_self);
		put_uint(w, "unnamed_samples", p->unnamed);
	}
	jsonw__key(w, "stacks");
	jsonw__open(w, '[');
	for (size_t i = 0; i < p->stacks.cnt; i++)
		stack(w, p, kind, &p->stacks.data[i]);
	jsonw__close(w, ']');
	if (p->has_wakes)
		wakes(w, p);
	jsonw__close(w, '}');
}

void json__profiles(struct jsonw *w, const struct snapshot *s)
{
	const struct snapshot_profiles *p = s->profiles;

	if (!p)
		return;
	section(w, "profiles", '{');
	jsonw__key(w, "frames");
	jsonw__open(w, '[');
	for (size_t i = 0; i < p->frames.cnt; i++) {
		jsonw__line(w);
		frame(w, &p->frames.data[i]);
	}
	jsonw__close(w, ']');
	for (int i = 0; i < PROFILE_CNT; i++)
		if (p->of[i])
			profile(w, p->of[i], (enum profile_kind)i);
	jsonw__close(w, '}');
}

/* ---- stacks of names ---- */

void json__names(struct jsonw *w, const char *const *frames, uint32_t depth)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	jsonw__key(w, "frames");
	jsonw__open(w, '[');
	for (uint32_t i = 0; i < depth; i++)
		jsonw__string(w, frames[i]);
	jsonw__close(w, ']');
}

void json__paths(struct jsonw *w, const struct snapshot *s)
{
	if (!s->path_cnt)
		return;
	section(w, "paths", '[');
	for (size_t i = 0; i < s->path_cnt; i++) {
		const struct snapshot_path *p = &s->paths[i];

		json__names(w, p->frames, p->depth);
		put_uint(w, "calls", p->calls);
		put_uint(w, "sum_ns", p->sum_ns);
		put_uint(w, "self_ns", p->self_ns);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

/* What has lived longer than memory.leak_after_s, and what that is taken for: the same members by
 * traced calls and by native stacks. */
static void survivors(struct jsonw *w, uint64_t bytes, uint64_t count, double slope, double error,
		      enum memory_verdict verdict)
{
	put_uint(w, "old_bytes", bytes);
	put_uint(w, "old_count", count);
	put_real(w, "old_bytes_per_s", slope);
	put_real(w, "old_bytes_per_s_error", error);
	if (memory_verdict_names[verdict])
		put_string(w, "verdict", memory_verdict_names[verdict]);
	else
		put_null(w, "verdict");
}

void json__alloc_stacks(struct jsonw *w, const struct snapshot *s)
{
	jsonw__key(w, "stacks");
	jsonw__open(w, '[');
	for (size_t i = 0; i < s->alloc_stack_cnt; i++) {
		const struct snapshot_alloc_stack *a = &s->alloc_stacks[i];

		json__names(w, a->frames, a->depth);
		put_uint(w, "live_bytes", a->live_bytes);
		put_uint(w, "live_count", a->live_count);
		json__estimated(w, a->estimated, a->live_error_bytes);
		put_uint(w, "alloc_bytes", a->alloc_bytes);
		put_uint(w, "alloc_count", a->alloc_count);
		put_uint(w, "oldest_ns", a->oldest_ns);
		put_real(w, "slope_bytes_per_s", a->slope);
		put_real(w, "slope_error", a->slope_error);
		survivors(w, a->old_bytes, a->old_count, a->old_slope, a->old_slope_error,
			  a->verdict);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
}

/* ---- native stacks of blocks ---- */

static void native(struct jsonw *w, const struct snapshot_memory *m,
		   const struct snapshot_native *n)
{
	jsonw__line(w);
	jsonw__open(w, '{');
	refs(w, "frames", m->native_refs.data + n->first, n->depth);
	if (n->truncated)
		put_string(w, "truncated", n->truncated);
	put_uint_if(w, "stack", n->stack != SNAPSHOT_NO_STACK, n->stack);
	put_uint(w, "live_bytes", n->live_bytes);
	put_uint(w, "live_error_bytes", n->live_error_bytes);
	put_uint(w, "live_count", n->live_count);
	put_uint(w, "alloc_bytes", n->alloc_bytes);
	put_uint(w, "alloc_error_bytes", n->alloc_error_bytes);
	put_uint(w, "alloc_count", n->alloc_count);
	put_uint(w, "samples", n->samples);
	put_uint(w, "oldest_ns", n->oldest_ns);
	put_uint(w, "old_error_bytes", n->old_error_bytes);
	survivors(w, n->old_bytes, n->old_count, n->old_slope, n->old_slope_error, n->verdict);
	jsonw__close(w, '}');
}

void json__native(struct jsonw *w, const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;

	jsonw__key(w, "native");
	jsonw__open(w, '[');
	for (size_t i = 0; i < m->native_cnt; i++)
		native(w, m, &m->native[i]);
	jsonw__close(w, ']');
	section(w, "native_lost", '{');
	put_uint(w, "live_bytes", m->native_lost_live_bytes);
	put_uint(w, "live_count", m->native_lost_live_count);
	put_uint(w, "alloc_bytes", m->native_lost.alloc_bytes);
	put_uint(w, "alloc_count", m->native_lost.alloc_count);
	jsonw__close(w, '}');
}

/* ---- native stacks of what makes the process larger ---- */

static void growth_figures(struct jsonw *w, const struct snapshot_growth_stack *g, bool has_maps)
{
	put_uint(w, "page_faults", g->page_faults);
	put_uint(w, "page_faults_error", g->page_faults_error);
	put_uint_if(w, "changes", has_maps, g->changes);
	put_uint_if(w, "mapped_bytes", has_maps, g->mapped_bytes);
	put_uint_if(w, "mapped_error_bytes", has_maps, g->mapped_error_bytes);
	put_uint_if(w, "unmapped_bytes", has_maps, g->unmapped_bytes);
	put_uint_if(w, "unmapped_error_bytes", has_maps, g->unmapped_error_bytes);
	if (has_maps) {
		jsonw__key(w, "data_bytes");
		jsonw__int(w, g->data_bytes);
	} else {
		put_null(w, "data_bytes");
	}
	put_uint_if(w, "data_error_bytes", has_maps, g->data_error_bytes);
	put_uint(w, "samples", g->samples);
}

static void intervals(struct jsonw *w, const char *key, const struct snapshot_intervals *i)
{
	jsonw__key(w, key);
	jsonw__open(w, '{');
	put_uint(w, "low_bytes", i->low_bytes);
	put_uint(w, "high_bytes", i->high_bytes);
	jsonw__close(w, '}');
}

void json__native_growth(struct jsonw *w, const struct snapshot *s)
{
	const struct snapshot_memory *m = s->memory;

	jsonw__key(w, "native_growth");
	jsonw__open(w, '[');
	for (size_t i = 0; i < m->native_growth_cnt; i++) {
		const struct snapshot_growth_stack *g = &m->native_growth[i];

		jsonw__line(w);
		jsonw__open(w, '{');
		refs(w, "frames", m->native_refs.data + g->first, g->depth);
		if (g->truncated)
			put_string(w, "truncated", g->truncated);
		growth_figures(w, g, m->has_maps);
		jsonw__close(w, '}');
	}
	jsonw__close(w, ']');
	section(w, "native_growth_lost", '{');
	growth_figures(w, m->native_growth_lost, m->has_maps);
	jsonw__close(w, '}');
	section(w, "native_growth_sample", '{');
	intervals(w, "maps", &m->map_sample);
	intervals(w, "faults", &m->fault_sample);
	jsonw__close(w, '}');
}
