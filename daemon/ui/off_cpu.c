/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/off_cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/place.h"
#include "ui/text.h"

#define HOW_COLUMNS 12
#define ITSELF "itself"
#define SHARE_FROM 60 /* from so many columns on there is the share */

struct wait_row {
	const char *where; /* NULL: no code but that of std, the runtime and libraries */
	const char *how;
	uint64_t ns, waits;
};

/* A wait without a call into libc, by the call that the code itself made: "[kernel: read]". */
static const char *bare_call(const struct snapshot_frame *leaf)
{
	bool call = leaf->kind == FRAME_KERNEL && strcmp(leaf->name, "[kernel]") != 0;

	if (profiles__is_probe(leaf))
		return "in a probe";
	return call ? leaf->name : ITSELF;
}

/* The ways that have many names: what is behind them; else the leaf's name says it. */
static const char *how_of(const struct snapshot_profiles *p, const uint32_t *refs, uint32_t depth,
			  uint32_t place)
{
	static const struct {
		const char *part, *how;
	} known[] = { { "futex", "futex" },
		      { "lll_lock", "futex" },
		      { "epoll", "epoll" },
		      { "nanosleep", "sleep" },
		      { "thread::sleep", "sleep" } };
	uint32_t leaf = depth;

	for (uint32_t i = depth; i > place; i--)
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (strstr(p->frames.data[refs[i - 1]].name, known[k].part))
				return known[k].how;
	while (leaf > 1 && p->frames.data[refs[leaf - 1]].kind == FRAME_KERNEL)
		leaf--;
	return leaf > place ? p->frames.data[refs[leaf - 1]].name
			    : bare_call(&p->frames.data[refs[depth - 1]]);
}

static int by_place(const void *a, const void *b)
{
	const struct wait_row *x = a, *y = b;
	int diff = strcmp(x->where ? x->where : "", y->where ? y->where : "");

	return diff ? diff : strcmp(x->how, y->how);
}

static int by_time(const void *a, const void *b)
{
	const struct wait_row *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? 1 : -1;
	return by_place(a, b);
}

/* One per place and way, most time first. NULL: no memory. */
static struct wait_row *add_up(const struct snapshot_profiles *p, const struct snapshot_profile *of,
			       size_t *cnt, uint64_t *total)
{
	struct wait_row *rows = calloc(of->stacks.cnt + 1, sizeof(*rows));

	*cnt = 0;
	*total = 0;
	for (size_t i = 0; rows && i < of->stacks.cnt; i++) {
		const struct snapshot_stack *s = &of->stacks.data[i];
		const uint32_t *refs = of->refs.data + s->first;
		uint32_t place = place__depth(p, refs, s->depth);

		*total += s->value;
		rows[i].where = place ? p->frames.data[refs[place - 1]].name : NULL;
		rows[i].how = s->depth ? how_of(p, refs, s->depth, place) : "unknown";
		rows[i].ns = s->value;
		rows[i].waits = s->count;
	}
	if (!rows || !of->stacks.cnt)
		return rows;
	qsort(rows, of->stacks.cnt, sizeof(*rows), by_place);
	for (size_t i = 0; i < of->stacks.cnt; i++) {
		if (*cnt && !by_place(&rows[*cnt - 1], &rows[i])) {
			rows[*cnt - 1].ns += rows[i].ns;
			rows[*cnt - 1].waits += rows[i].waits;
		} else {
			rows[(*cnt)++] = rows[i];
		}
	}
	qsort(rows, *cnt, sizeof(*rows), by_time);
	return rows;
}

static void head(const struct hot_view *v, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__addf(&line, "%8s %s%8s %8s  %-*s %s", "Time",
		     v->width >= SHARE_FROM ? "   Share " : "", "Waits", "Mean", HOW_COLUMNS, "How",
		     "Waiting in");
	text__cell(out, line.s, 0, STYLE_BOLD, v->colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}

static void put_how(struct strbuf *out, const char *how)
{
	static const char kernel[] = "[kernel: ";
	struct strbuf call = STRBUF_INIT;

	if (!strncmp(how, kernel, sizeof(kernel) - 1)) {
		strbuf__adds(&call, how + sizeof(kernel) - 1);
		how = call.len ? call.s : how;
		if (call.len)
			call.s[call.len - 1] = '\0';
	}
	text__name(out, how, HOW_COLUMNS);
	strbuf__free(&call);
}

static void put_row(const struct wait_row *row, uint64_t total, const struct hot_view *v,
		    struct strbuf *out)
{
	unsigned int taken = 29 + HOW_COLUMNS + (v->width >= SHARE_FROM ? 9 : 0);
	struct strbuf how = STRBUF_INIT;
	char cell[TEXT_CELL];

	text__duration(cell, row->ns);
	strbuf__addf(out, "%8s ", cell);
	text__percent(cell, (double)row->ns / (double)total);
	if (v->width >= SHARE_FROM)
		strbuf__addf(out, "%8s ", cell);
	text__count(cell, row->waits, 8);
	strbuf__addf(out, "%8s ", cell);
	strcpy(cell, "-");
	if (row->waits)
		text__duration(cell, row->ns / row->waits);
	strbuf__addf(out, "%8s  ", cell);
	put_how(&how, row->how);
	text__cell(out, how.s, -HOW_COLUMNS, STYLE_PLAIN, false);
	strbuf__addc(out, ' ');
	place__put(out, row->where, v->width > taken + 20 ? v->width - taken : 20);
	strbuf__addc(out, '\n');
	strbuf__free(&how);
}

/* The one word of the table that is no name. */
static void explain(const struct wait_row *rows, size_t cnt, struct strbuf *out)
{
	for (size_t i = 0; i < cnt; i++) {
		if (strcmp(rows[i].how, ITSELF) != 0)
			continue;
		strbuf__adds(out,
			     "  " ITSELF "  without a call: it waited for a page of its memory, or "
			     "was stopped\n");
		return;
	}
}

void off_cpu__rows(const struct snapshot_profiles *p, const struct snapshot_profile *of,
		   const struct hot_view *v, struct strbuf *out)
{
	uint64_t total;
	size_t cnt;
	struct wait_row *rows = add_up(p, of, &cnt, &total);

	if (!rows)
		out->oom = true;
	if (rows && total)
		head(v, out);
	for (size_t i = 0; rows && total && i < cnt && i < v->rows; i++)
		put_row(&rows[i], total, v, out);
	if (rows && total && cnt > v->rows)
		strbuf__addf(out, "... and %zu more\n", cnt - v->rows);
	if (rows && total)
		explain(rows, cnt < v->rows ? cnt : v->rows, out);
	free(rows);
}

const char *off_cpu__top(const struct snapshot_profiles *p, double *share)
{
	uint64_t total;
	size_t cnt;
	struct wait_row *rows = add_up(p, p->of[PROFILE_OFF_CPU], &cnt, &total);
	const char *where = NULL;

	for (size_t i = 0; rows && total && i < cnt && !where; i++) {
		where = rows[i].where;
		*share = (double)rows[i].ns / (double)total;
	}
	free(rows);
	return where;
}
