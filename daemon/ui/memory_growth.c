/* SPDX-License-Identifier: BSD-2-Clause */
/* Who makes the process larger: the part of the memory section for when no allocator is traced. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "snapshot/snapshot.h"
#include "ui/memory_parts.h"
#include "ui/text.h"

#define GROWTH_SHOWN 4
#define GROWTH_WIDTH 40 /* of a table's columns behind the name */

/* ---- by traced function, or thread ---- */

static void growth_head(struct strbuf *out, const struct memory_view *v,
			const struct snapshot_memory *m)
{
	struct strbuf row = STRBUF_INIT;

	text__cell(&row, "Grows in", -memory__name_width(v, GROWTH_WIDTH), STYLE_PLAIN, false);
	strbuf__addf(&row, " %9s", "Faults");
	if (m->has_maps)
		strbuf__addf(&row, " %9s %9s %9s", "Data", "Mapped", "Unmapped");
	strbuf__addc(out, '\n');
	memory__line(out, v, STYLE_BOLD, row.s);
	strbuf__free(&row);
}

static void growth_name(struct strbuf *out, const struct memory_view *v,
			const struct snapshot_growth *g)
{
	struct strbuf name = STRBUF_INIT, full = STRBUF_INIT;

	if (g->thread) {
		strbuf__adds(&full, "[thread ");
		utf8__add_printable(&full, g->thread);
		strbuf__addc(&full, ']');
	} else {
		strbuf__adds(&full, g->frames[g->depth - 1]);
	}
	text__name(&name, full.s ? full.s : "", (size_t)memory__name_width(v, GROWTH_WIDTH));
	memory__cell(out, v, name.s, -memory__name_width(v, GROWTH_WIDTH));
	strbuf__free(&name);
	strbuf__free(&full);
}

static void growth_row(struct strbuf *out, const struct memory_view *v,
		       const struct snapshot_memory *m, const struct snapshot_growth *g)
{
	char text[TEXT_CELL];

	growth_name(out, v, g);
	text__count(text, g->page_faults, 9);
	memory__cell(out, v, text, 10);
	if (m->has_maps) {
		memory__signed_bytes(text, (double)g->data_bytes);
		memory__cell(out, v, text, 10);
		memory__bytes(text, (double)g->mapped_bytes);
		memory__cell(out, v, text, 10);
		memory__bytes(text, (double)g->unmapped_bytes);
		memory__cell(out, v, text, 10);
	}
	strbuf__addc(out, '\n');
}

static bool is_same_growth(const struct snapshot_growth *a, const struct snapshot_growth *b)
{
	if (!a->thread != !b->thread)
		return false;
	if (a->thread)
		return !strcmp(a->thread, b->thread);
	return !strcmp(a->frames[a->depth - 1], b->frames[b->depth - 1]);
}

static void add_growth(struct snapshot_growth *to, const struct snapshot_growth *g)
{
	to->page_faults += g->page_faults;
	to->mapped_bytes += g->mapped_bytes;
	to->unmapped_bytes += g->unmapped_bytes;
	to->data_bytes += g->data_bytes;
}

static int by_growth(const void *a, const void *b)
{
	const struct snapshot_growth *x = a, *y = b;
	int64_t gx = snapshot__grown_bytes(x->data_bytes, x->page_faults);
	int64_t gy = snapshot__grown_bytes(y->data_bytes, y->page_faults);

	return gx < gy ? 1 : gx > gy ? -1 : 0;
}

/* By function: two paths to one would look alike here, the file has them apart. NULL: no memory. */
static struct snapshot_growth *merge_growth(const struct snapshot_memory *m, size_t *cnt)
{
	struct snapshot_growth *all = calloc(m->growth_cnt + 1, sizeof(*all));

	*cnt = 0;
	for (size_t i = 0; all && i < m->growth_cnt; i++) {
		size_t at = 0;

		while (at < *cnt && !is_same_growth(&all[at], &m->growth[i]))
			at++;
		if (at < *cnt)
			add_growth(&all[at], &m->growth[i]);
		else
			all[(*cnt)++] = m->growth[i];
	}
	if (*cnt)
		qsort(all, *cnt, sizeof(*all), by_growth);
	return all;
}

static void figure(struct strbuf *text, const char *value, const char *error, const char *what)
{
	strbuf__addf(text, "%s%s%s%s%s %s", text->len ? ", " : "", *error ? "~" : "", value,
		     *error ? " ± " : "", error, what);
}

static void bytes_figure(struct strbuf *text, double bytes, uint64_t error_bytes, bool is_signed,
			 const char *what)
{
	char value[TEXT_CELL], error[TEXT_CELL] = "";

	if (bytes == 0)
		return;
	if (is_signed)
		memory__signed_bytes(value, bytes);
	else
		memory__bytes(value, bytes);
	if (error_bytes)
		memory__bytes(error, (double)error_bytes);
	figure(text, value, error, what);
}

static void stack_figures(const struct snapshot_growth_stack *n, struct strbuf *text)
{
	char value[TEXT_CELL], error[TEXT_CELL] = "";

	text__count(value, n->page_faults, 9);
	if (n->page_faults_error)
		text__count(error, n->page_faults_error, 9);
	if (n->page_faults)
		figure(text, value, error, "faults");
	bytes_figure(text, (double)n->data_bytes, n->data_error_bytes, true, "of data");
	bytes_figure(text, (double)n->mapped_bytes, n->mapped_error_bytes, false, "mapped");
	bytes_figure(text, (double)n->unmapped_bytes, n->unmapped_error_bytes, false, "unmapped");
}

/* Whether traced functions say who it is of most of it. */
static bool is_told(const struct snapshot_memory *m)
{
	uint64_t told = 0, all = 0;

	for (size_t i = 0; i < m->growth_cnt; i++) {
		const struct snapshot_growth *g = &m->growth[i];
		uint64_t bytes = g->mapped_bytes + g->page_faults * 4096;

		all += bytes;
		told += g->thread ? 0 : bytes;
	}
	return told > all / 2;
}

/* A function maps, unmaps and touches by different calls of the system: its own frames are what
 * tells who it is. How many there are; all, where all is the system's. */
static uint32_t depth_without_system(const struct snapshot *s,
				     const struct snapshot_growth_stack *n)
{
	const uint32_t *refs = s->memory->native_refs.data + n->first;

	for (uint32_t depth = n->depth; depth; depth--) {
		enum frame_kind kind = s->profiles->frames.data[refs[depth - 1]].kind;

		if (kind != FRAME_KERNEL && kind != FRAME_LIB)
			return depth;
	}
	return n->depth;
}

static bool is_same_place(const struct snapshot *s, const struct snapshot_growth_stack *a,
			  const struct snapshot_growth_stack *b, uint32_t depth)
{
	const uint32_t *refs = s->memory->native_refs.data;

	return a->depth == depth && !a->truncated == !b->truncated &&
	       !memcmp(refs + a->first, refs + b->first, depth * sizeof(*refs));
}

static uint64_t add_errors(uint64_t a, uint64_t b)
{
	return (uint64_t)hypot((double)a, (double)b);
}

static void add_stack(struct snapshot_growth_stack *to, const struct snapshot_growth_stack *n)
{
	to->page_faults += n->page_faults;
	to->page_faults_error = add_errors(to->page_faults_error, n->page_faults_error);
	to->mapped_bytes += n->mapped_bytes;
	to->mapped_error_bytes = add_errors(to->mapped_error_bytes, n->mapped_error_bytes);
	to->unmapped_bytes += n->unmapped_bytes;
	to->unmapped_error_bytes = add_errors(to->unmapped_error_bytes, n->unmapped_error_bytes);
	to->data_bytes += n->data_bytes;
	to->data_error_bytes = add_errors(to->data_error_bytes, n->data_error_bytes);
}

static int by_stack_growth(const void *a, const void *b)
{
	const struct snapshot_growth_stack *x = a, *y = b;
	int64_t gx = snapshot__grown_bytes(x->data_bytes, x->page_faults);
	int64_t gy = snapshot__grown_bytes(y->data_bytes, y->page_faults);

	return gx < gy ? 1 : gx > gy ? -1 : 0;
}

/* By place, those that grow most first. NULL: no memory. */
static struct snapshot_growth_stack *merge_stacks(const struct snapshot *s, size_t *cnt)
{
	const struct snapshot_memory *m = s->memory;
	struct snapshot_growth_stack *all = calloc(m->native_growth_cnt + 1, sizeof(*all));

	*cnt = 0;
	for (size_t i = 0; all && i < m->native_growth_cnt; i++) {
		const struct snapshot_growth_stack *n = &m->native_growth[i];
		uint32_t depth = depth_without_system(s, n);
		size_t at = 0;

		while (at < *cnt && !is_same_place(s, &all[at], n, depth))
			at++;
		if (at < *cnt) {
			add_stack(&all[at], n);
		} else {
			all[*cnt] = *n;
			all[(*cnt)++].depth = depth;
		}
	}
	if (*cnt)
		qsort(all, *cnt, sizeof(*all), by_stack_growth);
	return all;
}

/* Where traced functions do not tell who it is. */
static void growth_stacks(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	size_t limit = v->limit ? v->limit : MEMORY_NATIVES_SHOWN, cnt;
	struct snapshot_growth_stack *all;

	if (!s->profiles || is_told(s->memory))
		return;
	all = merge_stacks(s, &cnt);
	if (!all)
		out->oom = true;
	for (size_t i = 0; i < cnt && i < limit; i++) {
		const struct snapshot_growth_stack *n = &all[i];
		struct strbuf figures = STRBUF_INIT, text = STRBUF_INIT;

		stack_figures(n, &figures);
		strbuf__addf(&text, "Grows by %s%s in", figures.s ? figures.s : "nothing",
			     n->truncated ? " (not followed to its root)" : "");
		strbuf__free(&figures);
		memory__lines(out, v, STYLE_PLAIN, &text);
		memory__native_path(out, v, s, n->first, n->depth);
	}
	free(all);
}

static void rows(struct strbuf *out, const struct memory_view *v, const struct snapshot_memory *m)
{
	size_t limit = v->limit ? v->limit : GROWTH_SHOWN, cnt;
	struct snapshot_growth *all = merge_growth(m, &cnt);
	struct strbuf more = STRBUF_INIT;

	if (!all)
		out->oom = true;
	if (cnt)
		growth_head(out, v, m);
	for (size_t i = 0; i < cnt && i < limit; i++)
		growth_row(out, v, m, &all[i]);
	if (cnt > limit) {
		strbuf__addf(&more, "... and %zu more", cnt - limit);
		memory__lines(out, v, STYLE_DIM, &more);
	}
	free(all);
	if (m->maps_why)
		memory__line(out, v, STYLE_DIM, m->maps_why);
}

void memory__growth(struct strbuf *out, const struct memory_view *v, const struct snapshot *s)
{
	rows(out, v, s->memory);
	growth_stacks(out, v, s);
}
