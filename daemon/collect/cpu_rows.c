/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/cpu_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/strbuf.h"

/* A function: all frames that are of it. */
struct row {
	const struct named_fn *fn;
	uint64_t samples, self, inlined;
	uint64_t on, inlined_on; /* the last stack that it was on: once a stack is enough */
};

struct cpu_rows {
	struct row *rows;
	size_t cnt;
	const struct named_fn *const *fns;
	uint32_t *of; /* by frame: place in rows, and 1; 0: of no function */
	size_t frame_cnt;
	uint64_t stacks; /* that were added */
};

/* ---- which frames are one function ---- */

struct place {
	const struct named_fn *fn;
	uint32_t frame;
};

static int by_text(const char *a, const char *b)
{
	return strcmp(a ?: "", b ?: "");
}

/* A row of the plan is a function, whatever its frames are called; else file and name tell. */
static int by_function(const void *a, const void *b)
{
	const struct named_fn *x = ((const struct place *)a)->fn;
	const struct named_fn *y = ((const struct place *)b)->fn;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->row != NAMED_NO_ROW)
		return 0;
	return by_text(x->f.module, y->f.module) ?: strcmp(x->f.name, y->f.name);
}

/* What is no copy tells more: where it is defined, its symbol. */
static bool tells_more(const struct named_fn *a, const struct named_fn *b)
{
	if (a->f.inlined != b->f.inlined)
		return !a->f.inlined;
	return a->symbol && (!b->symbol || strcmp(a->symbol, b->symbol) < 0);
}

static void group(struct cpu_rows *r, const struct place *places, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		struct row *row;

		if (!i || by_function(&places[i - 1], &places[i]))
			r->rows[r->cnt++] = (struct row){ .fn = places[i].fn };
		row = &r->rows[r->cnt - 1];
		if (tells_more(places[i].fn, row->fn))
			row->fn = places[i].fn;
		r->of[places[i].frame] = (uint32_t)r->cnt;
	}
}

struct cpu_rows *cpu_rows__new(const struct named_fn *const *fns, size_t cnt)
{
	struct cpu_rows *r = calloc(1, sizeof(*r));
	struct place *places = calloc(cnt + 1, sizeof(*places));
	size_t n = 0;

	if (r) {
		r->rows = calloc(cnt + 1, sizeof(*r->rows));
		r->of = calloc(cnt + 1, sizeof(*r->of));
		r->fns = fns;
		r->frame_cnt = cnt;
	}
	if (!r || !places || !r->rows || !r->of) {
		cpu_rows__free(r);
		free(places);
		return NULL;
	}
	for (size_t i = 0; i < cnt; i++)
		if (fns[i])
			places[n++] = (struct place){ fns[i], (uint32_t)i };
	qsort(places, n, sizeof(*places), by_function);
	group(r, places, n);
	free(places);
	return r;
}

void cpu_rows__free(struct cpu_rows *r)
{
	if (!r)
		return;
	free(r->rows);
	free(r->of);
	free(r);
}

/* ---- adding up ---- */

static struct row *row_of(struct cpu_rows *r, uint32_t frame)
{
	return frame < r->frame_cnt && r->of[frame] ? &r->rows[r->of[frame] - 1] : NULL;
}

static void hit(struct row *row, bool inlined, uint64_t stack, uint64_t samples)
{
	if (row->on != stack)
		row->samples += samples;
	row->on = stack;
	if (inlined && row->inlined_on != stack) {
		row->inlined += samples;
		row->inlined_on = stack;
	}
}

void cpu_rows__add(struct cpu_rows *r, const uint32_t *frames, uint32_t depth, uint64_t samples)
{
	struct row *row = NULL;

	r->stacks++;
	for (uint32_t i = 0; i < depth; i++) {
		row = row_of(r, frames[i]);
		if (row)
			hit(row, r->fns[frames[i]]->f.inlined, r->stacks, samples);
	}
	if (row)
		row->self += samples;
}

/* ---- rows ---- */

static void put_samples(const struct row *row, struct snapshot_fn *out)
{
	out->cpu_samples = row->samples;
	out->cpu_self_samples = row->self;
	out->cpu_inlined_samples = row->inlined;
}

void cpu_rows__book(const struct cpu_rows *r, struct snapshot *s)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (r->rows[i].fn->row < s->fn_cnt)
			put_samples(&r->rows[i], &s->fns[r->rows[i].fn->row]);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* As of probed functions of libraries: the file is part of the name. A place names its file. */
static const char *name_of(const struct named_fn *fn, const char *exe, struct arena *arena)
{
	struct strbuf sb = STRBUF_INIT;
	const char *copy;

	if (fn->symbol && strcmp(fn->f.module, exe) != 0)
		strbuf__addf(&sb, "%s:", fn->f.module);
	strbuf__adds(&sb, fn->f.name);
	copy = sb.oom ? NULL : arena__strdup(arena, sb.s);
	strbuf__free(&sb);
	return copy;
}

static int put_row(const struct row *row, const char *exe, struct arena *arena,
		   struct snapshot_fn *out)
{
	const struct named_fn *fn = row->fn;

	*out = (struct snapshot_fn){ .name = name_of(fn, exe, arena),
				     .crate = arena__strdup(arena, fn->crate ?: ""),
				     .symbol = fn->symbol ? arena__strdup(arena, fn->symbol) : NULL,
				     .module = arena__strdup(arena, fn->f.module),
				     .file = fn->f.file ? arena__strdup(arena, fn->f.file) : NULL,
				     .line = fn->f.line,
				     .coverage = COVERAGE_SAMPLED,
				     .unprobed = true,
				     .origin = fn->f.kind };
	put_samples(row, out);
	return out->name && out->crate && out->module && !fn->symbol == !out->symbol ? 0 : -ENOMEM;
}

/* Those of the plan last, then by samples: a name decides where these are the same. */
static int by_samples(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	bool x_has = x->fn->row != NAMED_NO_ROW, y_has = y->fn->row != NAMED_NO_ROW;

	if (x_has != y_has)
		return x_has ? 1 : -1;
	if (x->samples != y->samples)
		return x->samples < y->samples ? 1 : -1;
	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return strcmp(x->fn->f.name, y->fn->f.name) ?: by_text(x->fn->f.module, y->fn->f.module);
}

int cpu_rows__append(struct cpu_rows *r, struct snapshot *s)
{
	struct snapshot_profile *cpu = s->profiles->of[PROFILE_CPU];
	size_t room = r->cnt < CPU_ROWS_MAX ? r->cnt : CPU_ROWS_MAX;
	struct snapshot_fn *fns = realloc(s->fns, (s->fn_cnt + room + 1) * sizeof(*fns));
	const char *exe = base_name(s->target.exe ?: "");
	int err = 0;

	if (!fns)
		return -ENOMEM;
	s->fns = fns;
	if (!s->arena && !(s->arena = arena__new()))
		return -ENOMEM;
	qsort(r->rows, r->cnt, sizeof(*r->rows), by_samples);
	for (size_t i = 0; i < r->cnt && r->rows[i].fn->row == NAMED_NO_ROW && !err; i++) {
		/* what only waited is in the frames too */
		if (!r->rows[i].samples)
			break;
		if (i < CPU_ROWS_MAX) {
			err = put_row(&r->rows[i], exe, s->arena, &s->fns[s->fn_cnt++]);
			continue;
		}
		cpu->unlisted_fns++;
		cpu->unlisted_self += r->rows[i].self;
	}
	return err;
}
