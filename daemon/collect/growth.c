/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/growth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "collect/paths.h"

struct filling {
	const struct object *obj;
	struct snapshot *s;
	size_t capacity;
	uint64_t page;
	int err;
};

static bool is_empty(const struct rt_growth *r)
{
	return !r->faults && !r->mapped_pages && !r->unmapped_pages && !r->data_pages;
}

/* A row of a call path, or (comm) of a thread's name. Rows that come up while we read wait. */
static void add_row(struct filling *f, rt_u32 path, const char *comm, const struct rt_growth *r)
{
	struct snapshot_memory *m = f->s->memory;
	struct snapshot_growth *out = &m->growth[m->growth_cnt];

	if (f->err || is_empty(r) || m->growth_cnt == f->capacity)
		return;
	out->page_faults = r->faults;
	out->mapped_bytes = r->mapped_pages * f->page;
	out->unmapped_bytes = r->unmapped_pages * f->page;
	out->data_bytes = (int64_t)r->data_pages * (int64_t)f->page;
	out->frames = paths__frames(f->obj, f->s, path, &out->depth);
	out->thread = comm && out->frames ? arena__strdup(f->s->arena, comm) : NULL;
	if (!out->frames || (comm && !out->thread)) {
		f->err = -ENOMEM;
		return;
	}
	m->growth_cnt++;
	m->page_faults += out->page_faults;
	m->map_grown_bytes += out->mapped_bytes;
	m->map_shrunk_bytes += out->unmapped_bytes;
	m->data_growth_bytes += out->data_bytes;
}

static void add_thread(void *arg, const char comm[RT_COMM_BYTES], const struct rt_growth *row)
{
	char name[RT_COMM_BYTES + 1] = {};

	memcpy(name, comm, RT_COMM_BYTES);
	add_row(arg, RT_PATH_ROOT, name, row);
}

static int by_growth(const void *a, const void *b)
{
	const struct snapshot_growth *x = a, *y = b;
	int64_t gx = snapshot__grown_bytes(x->data_bytes, x->page_faults);
	int64_t gy = snapshot__grown_bytes(y->data_bytes, y->page_faults);

	return gx < gy ? 1 : gx > gy ? -1 : 0;
}

static bool is_used(const struct object *obj, rt_u32 path)
{
	return path < RT_PATH_FIRST || obj->paths[path - RT_PATH_FIRST];
}

int growth_rows__fill(const struct growth *g, const struct object *obj, struct snapshot *s)
{
	struct filling f = { .obj = obj, .s = s, .page = (uint64_t)sysconf(_SC_PAGESIZE) };
	rt_u32 path_cnt = obj->path_cnt + RT_PATH_FIRST;
	struct rt_growth row;

	f.capacity = RT_GROWTH_THREADS;
	for (rt_u32 path = 0; path < path_cnt; path++)
		f.capacity += is_used(obj, path);
	s->memory->growth = calloc(f.capacity, sizeof(*s->memory->growth));
	if (!s->memory->growth)
		return -ENOMEM;
	s->memory->maps_why = growth__why(g);
	s->memory->has_maps = !s->memory->maps_why;
	for (rt_u32 path = 0; path < path_cnt && !f.err; path++) {
		if (!is_used(obj, path))
			continue;
		growth__path(g, path, &row);
		add_row(&f, path, NULL, &row);
	}
	growth__threads(g, add_thread, &f);
	qsort(s->memory->growth, s->memory->growth_cnt, sizeof(*s->memory->growth), by_growth);
	return f.err;
}
