/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pprof's profile.proto, gzipped (proto/pprof.proto). Each frame is a function and a location of
 * its own: there are no addresses to tell more of them apart. Where there are two figures, samples
 * have both, the one that weighs last, which is what pprof shows.
 */
#include "export/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "export/flame.h"
#include "pprof.pb-c.h"
#include "snapshot/snapshot.h"

static const struct {
	const char *type, *unit;
} types[FLAME_CNT][2] = {
	[FLAME_CPU] = { { "samples", "count" }, { "cpu", "nanoseconds" } },
	[FLAME_CALLS] = { { "calls", "count" }, { "time", "nanoseconds" } },
	[FLAME_OFF_CPU] = { { "waits", "count" }, { "delay", "nanoseconds" } },
	[FLAME_WAKERS] = { { "waits", "count" }, { "delay", "nanoseconds" } },
	[FLAME_LIVE] = { { "inuse_objects", "count" }, { "inuse_space", "bytes" } },
	[FLAME_ALLOC] = { { "alloc_space", "bytes" }, { NULL, NULL } },
	[FLAME_LIVE_CALLS] = { { "inuse_objects", "count" }, { "inuse_space", "bytes" } },
	[FLAME_ALLOC_CALLS] = { { "alloc_space", "bytes" }, { NULL, NULL } },
	[FLAME_MAPPED] = { { "mapped_space", "bytes" }, { NULL, NULL } },
	[FLAME_FAULTS] = { { "page_faults", "count" }, { NULL, NULL } },
};

/* Everything lies in the arena; the first failed allocation is remembered. */
struct doc {
	Pprof__Profile pb;
	VEC(char *) strings;
	VEC(Pprof__Mapping *) mappings;
	VEC(const char *) modules; /* of mappings */
	struct flames *f;
	enum flame_kind kind;
	struct arena *arena;
	bool oom;
};

static void *alloc(struct doc *d, size_t bytes)
{
	void *p = arena__alloc(d->arena, bytes ?: 1);

	d->oom |= !p;
	return p;
}

static int64_t add_string(struct doc *d, const char *s)
{
	struct strbuf text = STRBUF_INIT;
	char **slot;

	if (!*s && d->strings.cnt)
		return 0;
	utf8__add_printable(&text, s);
	slot = vec__push(&d->strings);
	if (slot)
		*slot = text.oom ? NULL : arena__strdup(d->arena, text.s);
	d->oom |= !slot || !*slot;
	strbuf__free(&text);
	return (int64_t)d->strings.cnt - 1;
}

static Pprof__ValueType *add_type(struct doc *d, const char *type, const char *unit)
{
	Pprof__ValueType *t = alloc(d, sizeof(*t));

	if (!t)
		return NULL;
	pprof__value_type__init(t);
	t->type = add_string(d, type);
	t->unit = add_string(d, unit);
	return t;
}

/* ---- tables ---- */

static Pprof__Mapping *add_mapping(struct doc *d, const char *module)
{
	Pprof__Mapping *m, **slot;
	const char **name;

	for (size_t i = 0; i < d->mappings.cnt; i++)
		if (!strcmp(d->modules.data[i], module))
			return d->mappings.data[i];
	m = alloc(d, sizeof(*m));
	slot = vec__push(&d->mappings);
	name = vec__push(&d->modules);
	d->oom |= !slot || !name;
	if (d->oom)
		return NULL;
	pprof__mapping__init(m);
	m->id = d->mappings.cnt;
	m->filename = add_string(d, module);
	/* says that no symbols have to be looked for */
	m->has_functions = m->has_filenames = m->has_line_numbers = m->has_inline_frames = true;
	*slot = m;
	*name = module;
	return m;
}

/* The program itself is the first mapping. */
static void add_program(struct doc *d)
{
	const struct snapshot *s = d->f->ask.s;
	const char *exe = s->target.exe ?: s->target.comm ?: "?", *slash = strrchr(exe, '/');
	Pprof__Mapping *m = add_mapping(d, slash ? slash + 1 : exe);

	if (m && s->target.build_id)
		m->build_id = add_string(d, s->target.build_id);
}

static Pprof__Function *new_function(struct doc *d, const struct snapshot_frame *frame, size_t i)
{
	Pprof__Function *fn = alloc(d, sizeof(*fn));

	if (!fn)
		return NULL;
	pprof__function__init(fn);
	fn->id = i + 1;
	fn->name = fn->system_name = add_string(d, frame->name);
	fn->filename = add_string(d, frame->file ?: "");
	fn->start_line = frame->line;
	return fn;
}

static Pprof__Location *new_location(struct doc *d, const struct snapshot_frame *frame, size_t i)
{
	Pprof__Location *loc = alloc(d, sizeof(*loc));
	Pprof__Line **lines = alloc(d, sizeof(*lines)), *line = alloc(d, sizeof(*line));
	Pprof__Mapping *m = frame->module ? add_mapping(d, frame->module) : d->mappings.data[0];

	if (d->oom)
		return NULL;
	pprof__line__init(line);
	line->function_id = i + 1;
	line->line = frame->line;
	lines[0] = line;
	pprof__location__init(loc);
	loc->id = i + 1;
	loc->mapping_id = m->id;
	loc->n_line = 1;
	loc->line = lines;
	return loc;
}

static void add_frames(struct doc *d)
{
	size_t cnt = d->f->pool->frames.cnt;

	d->pb.function = alloc(d, cnt * sizeof(*d->pb.function));
	d->pb.location = alloc(d, cnt * sizeof(*d->pb.location));
	for (size_t i = 0; i < cnt && !d->oom; i++) {
		const struct snapshot_frame *frame = &d->f->pool->frames.data[i];

		d->pb.function[i] = new_function(d, frame, i);
		d->pb.location[i] = new_location(d, frame, i);
	}
	d->pb.n_function = d->pb.n_location = d->oom ? 0 : cnt;
}

/* ---- samples ---- */

static int64_t clip(uint64_t v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static uint64_t period_ns(const struct doc *d)
{
	const struct snapshot_profiles *p = d->f->ask.s->profiles;
	uint64_t hz = d->kind == FLAME_CPU && p && p->of[PROFILE_CPU] ? p->of[PROFILE_CPU]->hz : 0;

	return hz ? 1000000000 / hz : 0;
}

static Pprof__Sample *new_sample(struct doc *d, const struct flame_stack *stack)
{
	const uint32_t *refs = d->f->now[d->kind].refs.data + stack->first;
	Pprof__Sample *s = alloc(d, sizeof(*s));
	uint64_t *at = alloc(d, stack->depth * sizeof(*at));
	int64_t *values = alloc(d, 2 * sizeof(*values));
	uint64_t ns;

	if (d->oom)
		return NULL;
	pprof__sample__init(s);
	for (uint32_t i = 0; i < stack->depth; i++)
		at[i] = refs[stack->depth - 1 - i] + 1;
	s->n_location_id = stack->depth;
	s->location_id = at;
	if (d->kind == FLAME_CPU) {
		values[0] = clip(stack->value);
		values[1] = __builtin_mul_overflow(stack->value, period_ns(d), &ns) ? INT64_MAX
										    : clip(ns);
	} else if (d->pb.n_sample_type == 2) {
		values[0] = clip(stack->count);
		values[1] = clip(stack->value);
	} else {
		values[0] = clip(stack->value);
	}
	s->n_value = d->pb.n_sample_type;
	s->value = values;
	return s;
}

static void add_samples(struct doc *d)
{
	const struct flame_graph *g = &d->f->now[d->kind];

	d->pb.sample = alloc(d, g->stacks.cnt * sizeof(*d->pb.sample));
	for (size_t i = 0; i < g->stacks.cnt && !d->oom; i++) {
		d->pb.sample[i] = new_sample(d, &g->stacks.data[i]);
		d->pb.n_sample += d->pb.sample[i] != NULL;
	}
}

static void add_types(struct doc *d)
{
	d->pb.sample_type = alloc(d, 2 * sizeof(*d->pb.sample_type));
	for (int i = 0; i < 2 && !d->oom && types[d->kind][i].type; i++)
		d->pb.sample_type[d->pb.n_sample_type++] =
			add_type(d, types[d->kind][i].type, types[d->kind][i].unit);
	if (d->oom)
		return;
	d->pb.default_sample_type = d->pb.sample_type[d->pb.n_sample_type - 1]->type;
	if (period_ns(d)) {
		d->pb.period_type = add_type(d, "cpu", "nanoseconds");
		d->pb.period = (int64_t)period_ns(d);
	}
}

/* What makes the figures less than exact; pprof -comments shows it. */
static void add_comments(struct doc *d)
{
	struct strbuf notes = STRBUF_INIT;
	char *line, *rest;

	flames__notes(d->f, d->kind, &notes);
	d->oom |= notes.oom;
	d->pb.comment = alloc(d, (notes.len + 1) * sizeof(*d->pb.comment));
	rest = notes.s;
	while (!d->oom && (line = strsep(&rest, "\n")))
		if (*line)
			d->pb.comment[d->pb.n_comment++] = add_string(d, line);
	strbuf__free(&notes);
}

/* ---- the whole ---- */

static int add_gzipped(struct strbuf *out, const void *data, size_t len)
{
	z_stream z = {};
	size_t bound;
	void *packed = NULL;
	int err = -ENOMEM;

	/* 15 + 16: a gzip header; its time is left 0, so equal snapshots make equal files */
	if (len > UINT32_MAX || deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY))
		return err;
	bound = deflateBound(&z, len);
	packed = malloc(bound);
	if (packed) {
		z.next_in = (Bytef *)(uintptr_t)data;
		z.avail_in = (uInt)len;
		z.next_out = packed;
		z.avail_out = (uInt)bound;
		if (deflate(&z, Z_FINISH) == Z_STREAM_END) {
			strbuf__add(out, packed, z.total_out);
			err = out->oom ? -ENOMEM : 0;
		}
	}
	deflateEnd(&z);
	free(packed);
	return err;
}

static int pack(const Pprof__Profile *pb, struct strbuf *out)
{
	size_t len = pprof__profile__get_packed_size(pb);
	uint8_t *data = malloc(len ?: 1);
	int err = -ENOMEM;

	if (data) {
		pprof__profile__pack(pb, data);
		err = add_gzipped(out, data, len);
	}
	free(data);
	return err;
}

static int fill(struct doc *d, struct strbuf *out)
{
	const struct snapshot *s = d->f->ask.s;

	pprof__profile__init(&d->pb);
	add_string(d, "");
	add_types(d);
	add_program(d);
	if (!d->oom)
		add_frames(d);
	if (!d->oom)
		add_samples(d);
	add_comments(d);
	if (d->oom)
		return -ENOMEM;
	d->pb.time_nanos = clip(s->window.start_unix_ns);
	d->pb.duration_nanos = clip(s->window.duration_ns);
	d->pb.n_mapping = d->mappings.cnt;
	d->pb.mapping = d->mappings.data;
	d->pb.n_string_table = d->strings.cnt;
	d->pb.string_table = d->strings.data;
	return pack(&d->pb, out);
}

static int render(const struct flame_ask *ask, struct strbuf *out)
{
	struct doc d = { .f = flames__new(ask), .arena = arena__new() };
	int err = -ENOMEM;

	if (d.f && d.arena) {
		d.kind = d.f->ask.kind;
		err = fill(&d, out);
	}
	vec__free(&d.strings);
	vec__free(&d.mappings);
	vec__free(&d.modules);
	arena__free(d.arena);
	flames__free(d.f);
	return err;
}

const struct exporter export_pprof = {
	.name = "pprof", .suffix = ".pb.gz", .flame = render, .no_diff = true
};
