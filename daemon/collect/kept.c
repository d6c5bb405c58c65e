/* SPDX-License-Identifier: BSD-2-Clause */
#include "collect/kept.h"

#include <errno.h>
#include <stdlib.h>

static int read_stacks(struct kept_rows *r, const struct kept_ask *ask)
{
	for (uint32_t i = 0; i < stacks__place_cnt(ask->stacks); i++) {
		struct kept_stack kept;
		struct kept_row *row;

		if (!stacks__get(ask->stacks, i, &kept) || kept.kind != ask->kind || !kept.cnt)
			continue;
		row = vec__push(&r->rows);
		if (!row)
			return -ENOMEM;
		*row = (struct kept_row){ .kept = kept, .place = i };
	}
	return 0;
}

static int learn(const struct kept_rows *r, const struct kept_ask *ask)
{
	VEC(uint64_t) frames = {};
	int err = 0;

	for (size_t i = 0; i < r->rows.cnt && !err; i++) {
		const struct kept_stack *kept = &r->rows.data[i].kept;

		for (uint32_t at = 0; at < kept->depth && !err; at++) {
			uint64_t *slot = vec__push(&frames);

			if (slot)
				*slot = kept->frames[at];
			err = slot ? 0 : -ENOMEM;
		}
	}
	err = err
		      ?: namer__look(ask->namer, frames.data, frames.cnt, ask->final,
				     ask->learn_due_ns);
	vec__free(&frames);
	return err;
}

static int name_stacks(struct kept_rows *r, const struct kept_ask *ask, struct snapshot *s)
{
	int err = 0;

	for (size_t i = 0; i < r->rows.cnt && !err; i++) {
		struct kept_row *row = &r->rows.data[i];

		row->first = r->refs.cnt;
		for (uint32_t at = row->kept.depth; at-- && !err;)
			err = namer__add(ask->namer, row->kept.frames[at], s->profiles, &r->refs,
					 NULL);
		row->cnt = r->refs.cnt - row->first;
	}
	return err;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct kept_row *x = a, *y = b;
	const uint32_t *refs = ((const struct kept_rows *)arg)->refs.data;

	if (x->kept.end != y->kept.end)
		return x->kept.end < y->kept.end ? -1 : 1;
	if (x->cnt != y->cnt)
		return x->cnt < y->cnt ? -1 : 1;
	for (size_t i = 0; i < x->cnt; i++)
		if (refs[x->first + i] != refs[y->first + i])
			return refs[x->first + i] < refs[y->first + i] ? -1 : 1;
	return 0;
}

int kept_rows__read(struct kept_rows *r, const struct kept_ask *ask, struct snapshot *s)
{
	int err = read_stacks(r, ask);

	err = err ?: learn(r, ask);
	err = err ?: name_stacks(r, ask, s);
	if (!err && r->rows.cnt)
		qsort_r(r->rows.data, r->rows.cnt, sizeof(*r->rows.data), compare, r);
	return err;
}

void kept_rows__free(struct kept_rows *r)
{
	vec__free(&r->rows);
	vec__free(&r->refs);
}

size_t kept_rows__same(const struct kept_rows *r, size_t i)
{
	size_t end = i + 1;

	while (end < r->rows.cnt && !compare(&r->rows.data[i], &r->rows.data[end], (void *)r))
		end++;
	return end - i;
}

int kept_rows__emit(const struct kept_rows *r, size_t i, struct snapshot_memory *m, uint32_t *first)
{
	const struct kept_row *row = &r->rows.data[i];

	*first = (uint32_t)m->native_refs.cnt;
	for (size_t at = 0; at < row->cnt; at++) {
		uint32_t *slot = vec__push(&m->native_refs);

		if (!slot)
			return -ENOMEM;
		*slot = r->refs.data[row->first + at];
	}
	return 0;
}
