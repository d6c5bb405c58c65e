/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/hot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/off_cpu.h"
#include "ui/text.h"
#include "ui/wakers.h"

#define CELLS 18 /* columns of the figures in front of a name */

/* What is said of one frame, or of one stack's end. */
struct weight {
	uint32_t frame;
	uint64_t self, whole;
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

/* A stack's own frame: the innermost that is not the kernel. */
static uint32_t own_of(const struct snapshot_profiles *p, const uint32_t *frames, uint32_t depth)
{
	while (depth > 1 && p->frames.data[frames[depth - 1]].kind == FRAME_KERNEL)
		depth--;
	return frames[depth - 1];
}

/* By frame; each stack counts once for a frame, however often it is on it. NULL: no memory. */
static struct weight *weigh(const struct snapshot_profiles *p, const struct snapshot_profile *of,
			    uint64_t *total)
{
	struct weight *w = calloc(p->frames.cnt + 1, sizeof(*w));
	size_t *last = calloc(p->frames.cnt + 1, sizeof(*last));

	*total = 0;
	for (size_t i = 0; w && last && i < p->frames.cnt; i++)
		w[i].frame = (uint32_t)i;
	for (size_t i = 0; w && last && i < of->stacks.cnt; i++) {
		const struct snapshot_stack *s = &of->stacks.data[i];
		const uint32_t *frames = of->refs.data + s->first;

		*total += s->value;
		for (uint32_t f = 0; f < s->depth; f++) {
			if (last[frames[f]] == i + 1)
				continue;
			last[frames[f]] = i + 1;
			w[frames[f]].whole += s->value;
		}
		if (s->depth)
			w[own_of(p, frames, s->depth)].self += s->value;
	}
	if (!last) {
		free(w);
		w = NULL;
	}
	free(last);
	return w;
}

static void print_rows(const struct snapshot_profiles *p, const struct snapshot_profile *of,
		       const struct hot_view *v, struct strbuf *out)
{
	uint64_t total;
	struct weight *w = weigh(p, of, &total);
	char self[TEXT_CELL], whole[TEXT_CELL];

	if (!w || !total) {
		free(w);
		return;
	}
	qsort(w, p->frames.cnt, sizeof(*w), by_self);
	snprintf(self, sizeof(self), "%8s %8s  %s", "Self", "Total", "Function");
	text__cell(out, self, 0, STYLE_BOLD, v->colour);
	strbuf__addc(out, '\n');
	for (size_t i = 0; i < p->frames.cnt && i < v->rows && w[i].self; i++) {
		text__percent(self, (double)w[i].self / (double)total);
		text__percent(whole, (double)w[i].whole / (double)total);
		strbuf__addf(out, "%8s %8s  ", self, whole);
		text__name(out, p->frames.data[w[i].frame].name,
			   v->width > CELLS + 20 ? v->width - CELLS - 1 : 20);
		strbuf__addc(out, '\n');
	}
	free(w);
}

/* ---- by thread ---- */

#define THREADS_SHOWN 5

struct thread_weight {
	const char *name;
	uint64_t value;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct thread_weight *)a)->name,
		      ((const struct thread_weight *)b)->name);
}

static int by_value(const void *a, const void *b)
{
	const struct thread_weight *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* One per name, most first. NULL: no memory. */
static struct thread_weight *weigh_threads(const struct snapshot_profile *of, size_t *cnt,
					   uint64_t *total)
{
	struct thread_weight *w = calloc(of->stacks.cnt + 1, sizeof(*w));
	size_t all = 0;

	*cnt = 0;
	*total = 0;
	for (size_t i = 0; w && i < of->stacks.cnt; i++) {
		const struct snapshot_stack *s = &of->stacks.data[i];

		*total += s->value;
		if (s->thread)
			w[all++] = (struct thread_weight){ s->thread, s->value };
	}
	if (all)
		qsort(w, all, sizeof(*w), by_name);
	for (size_t i = 0; i < all; i++) {
		if (*cnt && !strcmp(w[*cnt - 1].name, w[i].name))
			w[*cnt - 1].value += w[i].value;
		else
			w[(*cnt)++] = w[i];
	}
	if (*cnt)
		qsort(w, *cnt, sizeof(*w), by_value);
	return w;
}

static void print_threads(const struct snapshot_profile *of, struct strbuf *out)
{
	uint64_t total;
	size_t cnt;
	struct thread_weight *w = weigh_threads(of, &cnt, &total);
	char share[TEXT_CELL];

	for (size_t i = 0; w && i < cnt && i < THREADS_SHOWN; i++) {
		text__percent(share, total ? (double)w[i].value / (double)total : 0);
		strbuf__addf(out, "%8s  thread ", share);
		utf8__add_printable(out, w[i].name);
		strbuf__addc(out, '\n');
	}
	if (cnt > THREADS_SHOWN)
		strbuf__addf(out, "%8s  and %zu more thread name%s\n", "", cnt - THREADS_SHOWN,
			     plural__s(cnt - THREADS_SHOWN));
	free(w);
}

static void doubt(const struct snapshot_lost *c, const char *what, const char *one,
		  const char *more, const char *words, struct strbuf *out)
{
	strbuf__addf(out, "  %llu %s%s %s %s: %s\n", (unsigned long long)c->count, what,
		     plural__s(c->count), plural__verb(c->count, one, more), words, c->name);
}

/* what: one of them. */
static void print_doubts(const struct snapshot_profile *of, const char *what, struct strbuf *out)
{
	for (size_t i = 0; i < of->truncated.cnt; i++)
		if (of->truncated.data[i].count)
			doubt(&of->truncated.data[i], what, "is", "are",
			      "cut off before the thread's start", out);
	for (size_t i = 0; i < of->lost.cnt; i++)
		if (of->lost.data[i].count)
			doubt(&of->lost.data[i], what, "was", "were", "lost", out);
}

/* ---- functions of the role, by CPU ---- */

/* From so many columns on there are the second time, and its error. */
#define SELF_FROM 60
#define ERROR_FROM 80

static bool is_shown(const struct snapshot_fn *fn, const struct hot_view *v)
{
	return fn->cpu_samples && (!fn->unprobed || fn->origin == FRAME_OWN || v->all);
}

/* "1.23s ±45.6ms": the wider half of the interval. */
static void put_time(struct strbuf *out, const struct snapshot_profile *cpu, uint64_t samples,
		     bool with_error)
{
	struct profile_time t = profile__time(cpu, samples);
	char cell[TEXT_CELL] = "0", error[TEXT_CELL];

	if (samples)
		text__duration(cell, t.ns);
	text__duration(error, t.high_ns - t.ns);
	strbuf__addf(out, "%8s", cell);
	if (with_error)
		strbuf__addf(out, " ±%-7s", error);
}

static void own_row(const struct snapshot *s, const struct snapshot_fn *fn,
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

static void own_head(const struct hot_view *v, struct strbuf *out)
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

/* What a profile adds to functions that have probes, and those that have none. */
static void print_own(const struct snapshot *s, const struct hot_view *v, struct strbuf *out)
{
	const struct snapshot_profile *cpu = s->profiles->of[PROFILE_CPU];
	uint32_t *order = snapshot__sorted(s, SORT_CPU);
	size_t shown = 0, left = 0;
	bool unprobed = false;

	for (size_t i = 0; order && i < s->fn_cnt; i++) {
		const struct snapshot_fn *fn = &s->fns[order[i]];

		if (!is_shown(fn, v))
			continue;
		if (shown >= v->rows) {
			left++;
			continue;
		}
		if (!shown++)
			own_head(v, out);
		own_row(s, fn, v, out);
		unprobed |= fn->unprobed;
	}
	if (left)
		strbuf__addf(out, "... and %zu more\n", left);
	if (cpu->unlisted_fns)
		strbuf__addf(out, "... and %llu functions with few samples, not in the file\n",
			     (unsigned long long)cpu->unlisted_fns);
	if (shown)
		strbuf__adds(out, "  ±  true in 95 of 100 cases\n");
	if (unprobed)
		strbuf__adds(out, "  ~  not probed: known by samples alone\n");
	free(order);
}

static void print_cpu(const struct snapshot *s, const struct hot_view *v, struct strbuf *out)
{
	const struct snapshot_profile *of = s->profiles->of[PROFILE_CPU];
	char ran[TEXT_CELL], share[TEXT_CELL];
	double seconds = of->hz ? (double)of->count / (double)of->hz : 0;

	text__duration(ran, (uint64_t)(seconds * 1e9));
	text__percent(share,
		      s->window.duration_ns ? seconds * 1e9 / (double)s->window.duration_ns : 0);
	text__gap(out);
	strbuf__addf(out,
		     "CPU, by %llu sample%s at %llu Hz (an estimate): ran for %s, %s of a CPU\n",
		     (unsigned long long)of->count, plural__s(of->count),
		     (unsigned long long)of->hz, ran, share);
	print_rows(s->profiles, of, v, out);
	print_threads(of, out);
	print_doubts(of, "sample", out);
	text__gap(out);
	print_own(s, v, out);
}

static void print_off_cpu(const struct snapshot *s, const struct hot_view *v, struct strbuf *out)
{
	const struct snapshot_profile *of = s->profiles->of[PROFILE_OFF_CPU];
	char min[TEXT_CELL];

	text__duration(min, of->min_ns);
	text__gap(out);
	strbuf__addf(out, "Off CPU, %llu wait%s", (unsigned long long)of->count,
		     plural__s(of->count));
	if (of->min_ns)
		strbuf__addf(out, " of at least %s", min);
	strbuf__adds(out, " of all threads, by time\n");
	if (of->older)
		strbuf__addf(out,
			     "  %llu of them had begun before and %s counted since the attach\n",
			     (unsigned long long)of->older, plural__verb(of->older, "is", "are"));
	off_cpu__rows(s->profiles, of, v, out);
	print_threads(of, out);
	print_doubts(of, "wait", out);
	wakers__rows(s->profiles, of, v, out);
}

void hot__print(const struct snapshot *s, const struct hot_view *v, struct strbuf *out)
{
	if (!s->profiles)
		return;
	if (s->profiles->of[PROFILE_CPU])
		print_cpu(s, v, out);
	if (s->profiles->of[PROFILE_OFF_CPU])
		print_off_cpu(s, v, out);
}
