/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which functions have series, and under which labels. The number is bounded and the rest counted;
 * names are whole where they are short, else both their ends and a hash. Distinct functions have
 * distinct labels, also where what tells them apart cannot be shown: of series that are there twice
 * the collector drops one, or all of the file.
 */
#include "export/prom.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "snapshot/snapshot.h"

#define MAX_NAME_BYTES 240u

/* ---- labels ---- */

/* FNV-1a over what tells rows apart in the snapshot, bytes that cannot be shown included. */
static uint32_t hash_of(const struct snapshot_fn *fn)
{
	const char *parts[] = { fn->name, fn->symbol ? fn->symbol : "" };
	uint32_t h = 2166136261u;

	for (int i = 0; i < 2; i++) {
		for (const char *c = parts[i]; *c; c++)
			h = (h ^ (uint8_t)*c) * 16777619u;
		h *= 16777619u;
	}
	return h;
}

static bool in_character(const char *s)
{
	return ((uint8_t)*s & 0xc0) == 0x80;
}

/* Of long names both ends are kept, whole characters, and a hash for what is left out. */
static void put_name(struct strbuf *out, const struct snapshot_fn *fn, bool with_hash)
{
	const char *name = fn->name, *tail;
	size_t len = strlen(name), n = MAX_NAME_BYTES / 2;

	strbuf__adds(out, "function=\"");
	if (len > MAX_NAME_BYTES) {
		tail = name + len - n;
		while (n && in_character(name + n))
			n--;
		while (*tail && in_character(tail))
			tail++;
		prom__value(out, name, n);
		strbuf__adds(out, "…");
		prom__value(out, tail, strlen(tail));
		with_hash = true;
	} else {
		prom__value(out, name, len);
	}
	if (with_hash)
		strbuf__addf(out, " #%08" PRIx32, hash_of(fn));
}

static char *labels_of(const char *origin, const struct snapshot_fn *fn, bool with_hash,
		       size_t ordinal)
{
	struct strbuf out = STRBUF_INIT;

	put_name(&out, fn, with_hash);
	if (ordinal)
		strbuf__addf(&out, ".%zu", ordinal);
	strbuf__adds(&out, "\",");
	prom__label(&out, "crate", fn->crate);
	strbuf__addf(&out, ",%s", origin);
	return strbuf__take(&out);
}

static bool is_taken(const struct prom_rows *rows, size_t row)
{
	const struct prom_row *r = &rows->of[row];

	for (size_t i = 0; i < rows->cnt; i++)
		if (i != row && rows->of[i].labels &&
		    (rows->mixed || rows->of[i].fn->is_async == r->fn->is_async) &&
		    !strcmp(rows->of[i].labels, r->labels))
			return true;
	return false;
}

/* Rows whose names show the same get a hash, all of them: one that changed place keeps its name. */
static int name_rows(struct prom_rows *rows, const char *origin)
{
	bool doubled[PROM_MAX_FUNCTIONS] = { false };

	for (size_t i = 0; i < rows->cnt; i++) {
		rows->of[i].labels = labels_of(origin, rows->of[i].fn, false, 0);
		if (!rows->of[i].labels)
			return -ENOMEM;
	}
	for (size_t i = 0; i < rows->cnt; i++)
		doubled[i] = is_taken(rows, i);
	for (size_t i = 0; i < rows->cnt; i++)
		for (size_t ordinal = 0; doubled[i] && (!ordinal || is_taken(rows, i)); ordinal++) {
			free(rows->of[i].labels);
			rows->of[i].labels = labels_of(origin, rows->of[i].fn, true, ordinal);
			if (!rows->of[i].labels)
				return -ENOMEM;
		}
	return 0;
}

/* ---- choice ---- */

static void add_called(struct prom_rows *rows, const struct snapshot_fn *fn)
{
	rows->all_cnt++;
	if (rows->cnt < PROM_MAX_FUNCTIONS)
		rows->of[rows->cnt++].fn = fn;
	else
		rows->unlisted_calls += fn->calls;
}

int prom_rows__called(struct prom_rows *rows, const struct snapshot *s, const char *origin)
{
	uint32_t *order = snapshot__sorted(s, SORT_TOTAL);

	if (!order)
		return -ENOMEM;
	for (size_t i = 0; i < s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[order[i]];

		if (fn->calls || fn->in_flight)
			add_called(rows, fn);
	}
	free(order);
	return name_rows(rows, origin);
}

/* The role's own: others' functions would push them out, and are in the JSON. */
int prom_rows__sampled(struct prom_rows *rows, const struct snapshot *s, const char *origin)
{
	uint32_t *order = snapshot__sorted(s, SORT_CPU);

	if (!order)
		return -ENOMEM;
	rows->mixed = true;
	for (size_t i = 0; i < s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[order[i]];

		if (!fn->cpu_samples || (fn->unprobed && fn->origin != FRAME_OWN))
			continue;
		rows->all_cnt++;
		if (rows->cnt < PROM_MAX_FUNCTIONS)
			rows->of[rows->cnt++].fn = fn;
	}
	free(order);
	return name_rows(rows, origin);
}

void prom_rows__free(struct prom_rows *rows)
{
	for (size_t i = 0; i < rows->cnt; i++)
		free(rows->of[i].labels);
}
