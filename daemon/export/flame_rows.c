/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks by the texts of their frames: sorted, and those that read the same added up. */
#include "export/flame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/snapshot.h"

struct text {
	const char *s;
	uint32_t frame;
};

static int by_text(const void *a, const void *b)
{
	const struct text *x = a, *y = b;
	int order = strcmp(x->s, y->s);

	return order ?: (x->frame > y->frame) - (x->frame < y->frame);
}

static int by_ids(const void *a, const void *b)
{
	const struct flame_row *x = a, *y = b;
	uint32_t depth = x->depth < y->depth ? x->depth : y->depth;

	for (uint32_t i = 0; i < depth; i++)
		if (x->ids[i] != y->ids[i])
			return x->ids[i] < y->ids[i] ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

/* Fills texts and frames; id_of tells each frame's place among the texts. */
static bool rank_texts(const struct flames *f, enum flame_text text, struct flame_rows *out,
		       uint32_t *id_of)
{
	size_t cnt = f->pool->frames.cnt, n = 0;
	struct text *all = calloc(cnt + 1, sizeof(*all));

	out->texts = calloc(cnt + 1, sizeof(*out->texts));
	out->frames = calloc(cnt + 1, sizeof(*out->frames));
	for (uint32_t i = 0; all && i < cnt; i++)
		all[i] = (struct text){ text == FLAME_NAMES ? f->pool->frames.data[i].name
							    : f->frames[i].folded,
					i };
	if (!all || !out->texts || !out->frames) {
		free(all);
		return false;
	}
	qsort(all, cnt, sizeof(*all), by_text);
	for (size_t i = 0; i < cnt; i++) {
		if (!i || strcmp(all[i].s, all[i - 1].s) != 0) {
			out->texts[n] = all[i].s;
			out->frames[n++] = all[i].frame;
		}
		id_of[all[i].frame] = (uint32_t)n - 1;
	}
	free(all);
	return true;
}

static uint32_t *add_rows(const struct flame_graph *g, bool old, const uint32_t *id_of,
			  uint32_t *ids, struct flame_rows *out)
{
	for (size_t i = 0; i < g->stacks.cnt; i++) {
		const struct flame_stack *stack = &g->stacks.data[i];

		for (uint32_t at = 0; at < stack->depth; at++)
			ids[at] = id_of[g->refs.data[stack->first + at]];
		out->rows[out->cnt++] =
			(struct flame_row){ ids, stack->depth, old ? 0 : stack->value,
					    old ? stack->value : 0, old ? 0 : stack->count };
		ids += stack->depth;
	}
	return ids;
}

static void merge(struct flame_rows *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->cnt; i++) {
		struct flame_row *last = n ? &r->rows[n - 1] : NULL;

		if (last && !by_ids(last, &r->rows[i])) {
			last->value += r->rows[i].value;
			last->old += r->rows[i].old;
			last->count += r->rows[i].count;
		} else {
			r->rows[n++] = r->rows[i];
		}
	}
	r->cnt = n;
}

int flames__rows(const struct flames *f, enum flame_kind kind, enum flame_text text,
		 struct flame_rows *out)
{
	const struct flame_graph *now = &f->now[kind], *old = &f->old[kind];
	uint32_t *id_of = calloc(f->pool->frames.cnt + 1, sizeof(*id_of));

	memset(out, 0, sizeof(*out));
	out->ids = calloc(now->refs.cnt + old->refs.cnt + 1, sizeof(*out->ids));
	out->rows = calloc(now->stacks.cnt + old->stacks.cnt + 1, sizeof(*out->rows));
	if (!id_of || !out->ids || !out->rows || !rank_texts(f, text, out, id_of)) {
		free(id_of);
		flame_rows__free(out);
		return -ENOMEM;
	}
	add_rows(old, true, id_of, add_rows(now, false, id_of, out->ids, out), out);
	free(id_of);
	qsort(out->rows, out->cnt, sizeof(*out->rows), by_ids);
	merge(out);
	return 0;
}

void flame_rows__free(struct flame_rows *r)
{
	free(r->texts);
	free(r->frames);
	free(r->ids);
	free(r->rows);
	memset(r, 0, sizeof(*r));
}
