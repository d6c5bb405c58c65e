/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/paths.h"

#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"

#define OUTSIDE "[outside traced functions]"
#define NO_PLACE "[call path table full]"

/* 0 when the id names no place that is used. */
static rt_u64 key_of(const struct object *obj, rt_u32 path)
{
	if (path < RT_PATH_FIRST || path - RT_PATH_FIRST >= obj->path_cnt)
		return 0;
	return *(volatile rt_u64 *)&obj->paths[path - RT_PATH_FIRST];
}

rt_u32 paths__fn(const struct object *obj, rt_u32 path)
{
	rt_u64 key = key_of(obj, path);

	return key ? RT_PATH_FN(key) : UINT32_MAX;
}

const char *const *paths__frames(const struct object *obj, struct snapshot *s, rt_u32 path,
				 uint32_t *depth)
{
	uint32_t n = 0, at;
	const char **frames;
	rt_u64 key;

	if (!s->arena && !(s->arena = arena__new()))
		return NULL;
	for (rt_u32 p = path; (key = key_of(obj, p)) && n < RT_STACK_DEPTH; n++)
		p = RT_PATH_PARENT(key);
	frames = arena__alloc(s->arena, (n + 1) * sizeof(*frames));
	if (!frames)
		return NULL;
	*depth = n ? n : 1;
	frames[0] = path == RT_PATH_FULL ? NO_PLACE : OUTSIDE;
	for (at = n; at && (key = key_of(obj, path)); path = RT_PATH_PARENT(key))
		frames[--at] = RT_PATH_FN(key) < s->fn_cnt ? s->fns[RT_PATH_FN(key)].name : "?";
	return frames;
}

static int by_sum(const void *a, const void *b)
{
	const struct snapshot_path *x = a, *y = b;

	return x->sum_ns < y->sum_ns ? 1 : x->sum_ns > y->sum_ns ? -1 : 0;
}

static int fill_one(const struct object *obj, struct snapshot *s, rt_u32 path)
{
	struct snapshot_path *out = &s->paths[s->path_cnt];

	for (rt_u32 i = 0; i < obj->shards; i++) {
		const volatile struct rt_path_stats *st = &obj->path_stats[path * obj->shards + i];

		out->calls += st->calls;
		out->sum_ns += st->sum_ns;
		out->self_ns += st->self_ns;
	}
	if (!out->calls)
		return 0;
	out->frames = paths__frames(obj, s, path, &out->depth);
	s->path_cnt++;
	return out->frames ? 0 : -ENOMEM;
}

int paths__fill(const struct object *obj, struct snapshot *s)
{
	size_t used = 0;
	int err = 0;

	for (rt_u32 i = 0; i < obj->path_cnt; i++)
		used += obj->paths[i] != 0;
	s->paths = calloc(used + 1, sizeof(*s->paths));
	if (!s->paths)
		return -ENOMEM;
	/* used + 1: new ones may come meanwhile, they wait for the next time */
	for (rt_u32 i = 0; i < obj->path_cnt && s->path_cnt < used && !err; i++)
		if (obj->paths[i])
			err = fill_one(obj, s, i + RT_PATH_FIRST);
	qsort(s->paths, s->path_cnt, sizeof(*s->paths), by_sum);
	return err;
}
