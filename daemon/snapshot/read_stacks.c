/* SPDX-License-Identifier: BSD-2-Clause */
/* The weighted stacks of a document: profiles, paths, memory.stacks. All may be missing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "snapshot/reader.h"
#include "snapshot/snapshot.h"

/* ---- profiles ---- */

static void read_frame(struct reader *r, json_t *o, struct snapshot_frame *f)
{
	if (!f)
		return;
	f->name = get_string(r, o, "name");
	f->module = get_string_or_null(r, o, "module");
	f->kind = (enum frame_kind)get_name(r, o, "kind", frame_kind_names, FRAME_KIND_CNT);
	f->inlined = !is_null(o, "inlined") && get_bool(r, o, "inlined");
	f->file = get_string_or_null(r, o, "file");
	if (!is_null(o, "line"))
		f->line = (uint32_t)get_int(r, o, "line", 0, UINT32_MAX);
}

void read_backtrace(struct reader *r, json_t *o, struct snapshot_backtrace *out)
{
	struct snapshot_frame *frames;
	json_t *list;

	out->truncated = get_string_or_null(r, o, "stack_truncated");
	if (is_null(o, "stack"))
		return;
	list = get_array(r, o, "stack");
	if (r->err)
		return;
	frames = arena__alloc(r->s->arena, (json_array_size(list) + 1) * sizeof(*frames))
			 ?: nomem(r);
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_frame(r, json_array_get(list, i), &frames[out->depth++]);
	out->frames = frames;
}

static void read_counts(struct reader *r, json_t *profile, const char *key,
			struct snapshot_counts *out)
{
	json_t *o = get_object(r, profile, key), *v;
	const char *name;

	json_object_foreach(o, name, v)
	{
		struct snapshot_lost *row = r->err ? NULL : vec__push(out) ?: nomem(r);

		if (!row)
			return;
		*row = (struct snapshot_lost){ keep(r, name), to_uint(r, v, name) };
	}
}

static void read_refs(struct reader *r, json_t *o, const char *key,
		      const struct snapshot_profiles *p, struct snapshot_profile *to,
		      uint32_t *first, uint32_t *depth)
{
	json_t *list = get_array(r, o, key);

	*first = (uint32_t)to->refs.cnt;
	*depth = (uint32_t)json_array_size(list);
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		uint64_t ref = to_uint(r, json_array_get(list, i), key);
		uint32_t *slot = vec__push(&to->refs) ?: nomem(r);

		if (ref >= p->frames.cnt)
			wrong(r, key, "names a frame that is none");
		else if (slot)
			*slot = (uint32_t)ref;
	}
}

static void read_stack(struct reader *r, json_t *o, enum profile_kind kind,
		       const struct snapshot_profiles *p)
{
	struct snapshot_profile *to = p->of[kind];
	struct snapshot_stack *stack = vec__push(&to->stacks) ?: nomem(r);

	if (!stack)
		return;
	read_refs(r, o, "frames", p, to, &stack->first, &stack->depth);
	stack->value = get_uint(r, o, "value");
	if (kind == PROFILE_OFF_CPU)
		stack->count = get_uint(r, o, "count");
	stack->older = get_uint_or_0(r, o, "older");
	stack->truncated = get_string_or_null(r, o, "truncated");
	stack->thread = get_string_or_null(r, o, "thread");
}

static void read_wake(struct reader *r, json_t *o, const struct snapshot_profiles *p)
{
	struct snapshot_profile *to = p->of[PROFILE_OFF_CPU];
	struct snapshot_wake *k = vec__push(&to->wakes) ?: nomem(r);

	if (!k)
		return;
	read_refs(r, o, "frames", p, to, &k->first, &k->depth);
	read_refs(r, o, "waker", p, to, &k->waker_first, &k->waker_depth);
	k->by = (enum thread_waker)get_name(r, o, "by", thread_waker_names, WAKER_CNT);
	k->name = get_string_or_null(r, o, "name");
	k->value = get_uint(r, o, "value");
	k->count = get_uint(r, o, "count");
	k->truncated = get_string_or_null(r, o, "truncated");
	k->waker_truncated = get_string_or_null(r, o, "waker_truncated");
}

static void read_wakes(struct reader *r, json_t *o, const struct snapshot_profiles *p)
{
	struct snapshot_profile *to = p->of[PROFILE_OFF_CPU];
	json_t *list;

	if (is_null(o, "wakers"))
		return;
	to->has_wakes = true;
	r->row = NO_ROW;
	to->wakes_lost = get_uint(r, o, "wakers_lost");
	list = get_array(r, o, "wakers");
	r->part = "profiles.off_cpu.wakers";
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_wake(r, get_row(r, list, i), p);
}

static void read_profile(struct reader *r, json_t *profiles, enum profile_kind kind,
			 struct snapshot_profiles *p)
{
	static const char *const parts[] = { "profiles.cpu", "profiles.off_cpu" };
	static const char *const rows[] = { "profiles.cpu.stacks", "profiles.off_cpu.stacks" };
	struct snapshot_profile *to = p->of[kind] = profile__new() ?: nomem(r);
	json_t *o, *list;

	if (!to)
		return;
	r->part = "profiles";
	r->row = NO_ROW;
	o = get_object(r, profiles, profile_kind_names[kind]);
	r->part = parts[kind];
	get_name(r, o, "unit", &profile_units[kind], 1);
	if (kind == PROFILE_CPU)
		to->hz = get_uint(r, o, "hz");
	else
		to->min_ns = get_uint(r, o, "min_ns");
	to->count = get_uint(r, o, "count");
	to->older = get_uint_or_0(r, o, "older");
	read_counts(r, o, "truncated", &to->truncated);
	read_counts(r, o, "lost", &to->lost);
	/* missing in older files */
	to->unlisted_fns = get_uint_or_0(r, o, "unlisted_functions");
	to->unlisted_self = get_uint_or_0(r, o, "unlisted_self_samples");
	to->unnamed = get_uint_or_0(r, o, "unnamed_samples");
	to->in_probes = get_uint_or_0(r, o, "probe_samples");
	list = get_array(r, o, "stacks");
	r->part = rows[kind];
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_stack(r, get_row(r, list, i), kind, p);
	if (kind == PROFILE_OFF_CPU)
		read_wakes(r, o, p);
}

void read_profiles(struct reader *r, json_t *doc)
{
	struct snapshot_profiles *p;
	json_t *o, *list;

	if (is_null(doc, "profiles"))
		return;
	o = enter(r, doc, "profiles", get_object);
	p = r->s->profiles = profiles__new() ?: nomem(r);
	list = get_array(r, o, "frames");
	r->part = "profiles.frames";
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++)
		read_frame(r, get_row(r, list, i), vec__push(&p->frames) ?: nomem(r));
	for (int i = 0; i < PROFILE_CNT && !r->err; i++)
		if (!is_null(o, profile_kind_names[i]))
			read_profile(r, o, (enum profile_kind)i, p);
}

/* ---- stacks of names ---- */

const char *const *read_names(struct reader *r, json_t *o, uint32_t *depth)
{
	json_t *list = get_array(r, o, "frames");
	size_t cnt = json_array_size(list);
	const char **names;

	if (!cnt)
		wrong(r, "frames", "is empty");
	if (r->err)
		return NULL;
	names = arena__alloc(r->s->arena, cnt * sizeof(*names)) ?: nomem(r);
	for (size_t i = 0; i < cnt && !r->err; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (text)
			names[i] = keep(r, text);
		else
			wrong(r, "frames", "holds what is no string");
	}
	*depth = (uint32_t)cnt;
	return names;
}

void read_paths(struct reader *r, json_t *doc)
{
	json_t *list;

	if (is_null(doc, "paths"))
		return;
	list = enter(r, doc, "paths", get_array);
	r->s->paths = zeroed(r, json_array_size(list), sizeof(*r->s->paths));
	for (size_t i = 0; i < json_array_size(list) && !r->err; i++) {
		struct snapshot_path *path = &r->s->paths[r->s->path_cnt++];
		json_t *o = get_row(r, list, i);

		path->frames = read_names(r, o, &path->depth);
		path->calls = get_uint(r, o, "calls");
		path->sum_ns = get_uint(r, o, "sum_ns");
		path->self_ns = get_uint(r, o, "self_ns");
	}
}
