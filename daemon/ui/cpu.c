/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/cpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/text.h"

#define CELLS 18 /* columns of the figures in front of a name */

/* ---- frames ---- */

/* What is said of one function: of all frames of its name and file. */
struct weight {
	uint32_t frame; /* one of them */
	uint64_t self, whole;
	size_t last; /* the stack that counted last, and 1 */
};

struct weights {
	struct weight *data;
	uint32_t *of; /* by frame: place in data */
	size_t cnt;
	uint64_t total;
};

static int by_self(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->whole != y->whole)
		return x->whole < y->whole ? 1 : -1;
	return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int by_name(const void *a, const void *b, void *arg)
{
	const struct snapshot_profiles *p = arg;
	const struct snapshot_frame *x = &p->frames.data[*(const uint32_t *)a],
				    *y = &p->frames.data[*(const uint32_t *)b];

	return strcmp(x->name, y->name) ?: strcmp(x->module ?: "", y->module ?: "");
}

/* Inlined or not, here or there in a file: a function is a function. */
static bool group(const struct snapshot_profiles *p, struct weights *w)
{
	uint32_t *order = calloc(p->frames.cnt + 1, sizeof(*order));

	for (size_t i = 0; order && i < p->frames.cnt; i++)
		order[i] = (uint32_t)i;
	if (order && p->frames.cnt)
		qsort_r(order, p->frames.cnt, sizeof(*order), by_name, (void *)p);
	for (size_t i = 0; order && i < p->frames.cnt; i++) {
		if (!i || by_name(&order[i - 1], &order[i], (void *)p))
			w->data[w->cnt++].frame = order[i];
		w->of[order[i]] = (uint32_t)w->cnt - 1;
	}
	free(order);
	return order != NULL;
}

/* A stack's own frame: the innermost that is not the kernel. */
static uint32_t own_of(const struct snapshot_profiles *p, const uint32_t *frames, uint32_t depth)
{
	while (depth > 1 && p->frames.data[frames[depth - 1]].kind == FRAME_KERNEL)
		depth--;
	return frames[depth - 1];
}

static void weigh_stack(const struct snapshot_profiles *p, const struct snapshot_stack *s,
			const uint32_t *frames, size_t nth, struct weights *w)
{
	const uint32_t leaf = s->depth ? frames[s->depth - 1] : 0;
	bool probe = s->depth && profiles__is_probe(&p->frames.data[leaf]);

	w->total += s->value;
	/* each stack counts once for a function, however often that is on it */
	for (uint32_t f = probe ? s->depth - 1 : 0; f < s->depth; f++) {
		struct weight *of = &w->data[w->of[frames[f]]];

		if (of->last != nth)
			of->whole += s->value;
		of->last = nth;
	}
	if (s->depth)
		w->data[w->of[probe ? leaf : own_of(p, frames, s->depth)]].self += s->value;
}

static bool weigh(const struct snapshot_profiles *p, struct weights *w)
{
	const struct snapshot_profile *of = p->of[PROFILE_CPU];

	w->data = calloc(p->frames.cnt + 1, sizeof(*w->data));
	w->of = calloc(p->frames.cnt + 1, sizeof(*w->of));
	if (!w->data || !w->of || !group(p, w))
		return false;
	for (size_t i = 0; i < of->stacks.cnt; i++)
		weigh_stack(p, &of->stacks.data[i], of->refs.data + of->stacks.data[i].first, i + 1,
			    w);
	return true;
}

/* Of two rows with one name the file tells which is which. */
static bool is_ambiguous(const struct snapshot_profiles *p, const struct weights *w, size_t rows,
			 size_t row)
{
	const char *name = p->frames.data[w->data[row].frame].name;

	for (size_t i = 0; i < rows && i < w->cnt && w->data[i].self; i++)
		if (i != row && !strcmp(p->frames.data[w->data[i].frame].name, name))
			return true;
	return false;
}

static void put_name(const struct snapshot_profiles *p, const struct weights *w, size_t row,
		     const struct hot_view *v, struct strbuf *out)
{
	const struct snapshot_frame *f = &p->frames.data[w->data[row].frame];
	size_t columns = v->width > CELLS + 20 ? v->width - CELLS - 1 : 20;
	struct strbuf where = STRBUF_INIT;

	if (profiles__is_probe(f)) {
		strbuf__adds(out, "[probes of roletrace]");
		return;
	}
	if (f->module && is_ambiguous(p, w, v->rows, row)) {
		bool has_brackets = *f->module == '[';

		strbuf__adds(&where, has_brackets ? " " : " [");
		utf8__add_printable(&where, f->module);
		strbuf__adds(&where, has_brackets ? "" : "]");
	}
	text__name(out, f->name,
		   columns > utf8__width(where.s) + 20 ? columns - utf8__width(where.s) : 20);
	strbuf__adds(out, where.s);
	strbuf__free(&where);
}

static void frame_rows(const struct snapshot_profiles *p, const struct weights *w,
		       const struct hot_view *v, struct strbuf *out)
{
	char self[TEXT_CELL], whole[TEXT_CELL];

	snprintf(self, sizeof(self), "%8s %8s  %s", "Self", "Total", "Function");
	text__cell(out, self, 0, STYLE_BOLD, v->colour);
	strbuf__addc(out, '\n');
	for (size_t i = 0; i < w->cnt && i < v->rows && w->data[i].self; i++) {
		text__percent(self, (double)w->data[i].self / (double)w->total);
		text__percent(whole, (double)w->data[i].whole / (double)w->total);
		strbuf__addf(out, "%8s %8s  ", self, whole);
		put_name(p, w, i, v, out);
		strbuf__addc(out, '\n');
	}
}

void cpu__frames(const struct snapshot_profiles *p, const struct hot_view *v, struct strbuf *out)
{
	struct weights w = {};

	if (!weigh(p, &w))
		out->oom = true;
	else if (w.total) {
		qsort(w.data, w.cnt, sizeof(*w.data), by_self);
		frame_rows(p, &w, v, out);
	}
	free(w.data);
	free(w.of);
}

/* ---- functions of the role ---- */

/* From so many columns on there are the second time, and its error. */
#define SELF_FROM 60
#define ERROR_FROM 80
/* Fewer samples say next to nothing. */
#define FEWEST_SAMPLES 3

static bool is_shown(const struct snapshot_fn *fn, const struct hot_view *v)
{
	return fn->cpu_samples && (!fn->unprobed || fn->origin == FRAME_OWN || v->all);
}

/* "1.23s ±45.6ms": the wider half of the interval; where that is more than the time itself, what
 * it is below: "20.4ms <116ms". */
static void put_time(struct strbuf *out, const struct snapshot_profile *cpu, uint64_t samples,
		     bool with_error)
{
	struct profile_time t = profile__time(cpu, samples);
	bool wide = t.high_ns - t.ns > t.ns;
	char cell[TEXT_CELL] = "0", error[TEXT_CELL];

	if (samples)
		text__duration(cell, t.ns);
	text__duration(error, wide ? t.high_ns : t.high_ns - t.ns);
	strbuf__addf(out, "%8s", cell);
	if (with_error)
		strbuf__addf(out, " %s%-7s", wide ? "<" : "±", error);
}

static void function_row(const struct snapshot *s, const struct snapshot_fn *fn,
			 const struct hot_view *v, struct strbuf *out)
{
	static const char inlined[] = " (inlined)";
	bool copies = fn->cpu_inlined_samples == fn->cpu_samples && v->width >= SELF_FROM;
	unsigned int taken = 20 + (copies ? sizeof(inlined) - 1 : 0);

	put_time(out, s->profiles->of[PROFILE_CPU], fn->cpu_samples, true);
	if (v->width >= SELF_FROM) {
		put_time(out, s->profiles->of[PROFILE_CPU], fn->cpu_self_samples,
			 v->width >= ERROR_FROM);
		taken += v->width >= ERROR_FROM ? 17 : 8;
	}
	strbuf__adds(out, fn->unprobed ? " ~ " : "   ");
	text__name(out, fn->name, v->width > taken + 20 ? v->width - taken : 20);
	strbuf__adds(out, copies ? inlined : "");
	strbuf__addc(out, '\n');
}

static void function_head(const struct hot_view *v, struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;

	strbuf__addf(&line, "%8s         ", "CPU");
	if (v->width >= SELF_FROM)
		strbuf__addf(&line, "%8s%s", "Self", v->width >= ERROR_FROM ? "         " : "");
	strbuf__addf(&line, "   %s", v->all ? "Function" : "Function of the role");
	text__cell(out, line.s, 0, STYLE_BOLD, v->colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}

static void rest(const struct snapshot *s, size_t left, size_t few, struct strbuf *out)
{
	const struct snapshot_profile *cpu = s->profiles->of[PROFILE_CPU];

	if (left)
		strbuf__addf(out, "... and %zu more\n", left);
	if (few)
		strbuf__addf(out, "... and %zu function%s with 1 or 2 samples\n", few,
			     few == 1 ? "" : "s");
	if (cpu->unlisted_fns)
		strbuf__addf(out,
			     "... and %" PRIu64 " functions with few samples, not in the file\n",
			     cpu->unlisted_fns);
}

void cpu__functions(const struct snapshot *s, const struct hot_view *v, struct strbuf *out)
{
	uint32_t *order = snapshot__sorted(s, SORT_CPU);
	size_t shown = 0, left = 0, few = 0;
	bool unprobed = false;

	for (size_t i = 0; order && i < s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[order[i]];

		if (!is_shown(fn, v))
			continue;
		if (fn->cpu_samples < FEWEST_SAMPLES || shown >= v->rows) {
			*(fn->cpu_samples < FEWEST_SAMPLES ? &few : &left) += 1;
			continue;
		}
		if (!shown++)
			function_head(v, out);
		function_row(s, fn, v, out);
		unprobed |= fn->unprobed;
	}
	rest(s, left, few, out);
	if (shown)
		strbuf__adds(out, "  ±, <  true in 95 of 100 cases\n");
	if (unprobed)
		strbuf__adds(out, "  ~  not probed: known by samples alone\n");
	free(order);
}
