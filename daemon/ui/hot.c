/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/hot.h"

#include <stdlib.h>

#include "base/strbuf.h"
#include "ui/text.h"

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
		       unsigned int width, size_t rows, struct strbuf *out)
{
	uint64_t total;
	struct weight *w = weigh(p, of, &total);
	char self[TEXT_CELL], whole[TEXT_CELL];

	if (!w || !total) {
		free(w);
		return;
	}
	qsort(w, p->frames.cnt, sizeof(*w), by_self);
	strbuf__addf(out, "%8s %8s  %s\n", "self", "total", "function");
	for (size_t i = 0; i < p->frames.cnt && i < rows && w[i].self; i++) {
		text__percent(self, (double)w[i].self / (double)total);
		text__percent(whole, (double)w[i].whole / (double)total);
		strbuf__addf(out, "%8s %8s  ", self, whole);
		text__name(out, p->frames.data[w[i].frame].name,
			   width > CELLS + 20 ? width - CELLS - 1 : 20);
		strbuf__addc(out, '\n');
	}
	free(w);
}

static void print_doubts(const struct snapshot_profile *of, const char *what, struct strbuf *out)
{
	for (size_t i = 0; i < of->truncated.cnt; i++)
		if (of->truncated.data[i].count)
			strbuf__addf(out, "  %llu %s are cut off before the thread's start: %s\n",
				     (unsigned long long)of->truncated.data[i].count, what,
				     of->truncated.data[i].name);
	for (size_t i = 0; i < of->lost.cnt; i++)
		if (of->lost.data[i].count)
			strbuf__addf(out, "  %llu %s were lost: %s\n",
				     (unsigned long long)of->lost.data[i].count, what,
				     of->lost.data[i].name);
}

static void print_cpu(const struct snapshot *s, unsigned int width, size_t rows, struct strbuf *out)
{
	const struct snapshot_profile *of = s->profiles->of[PROFILE_CPU];
	char ran[TEXT_CELL], share[TEXT_CELL];
	double seconds = of->hz ? (double)of->count / (double)of->hz : 0;

	text__duration(ran, (uint64_t)(seconds * 1e9));
	text__percent(share,
		      s->window.duration_ns ? seconds * 1e9 / (double)s->window.duration_ns : 0);
	text__gap(out);
	strbuf__addf(out,
		     "CPU, by %llu samples at %llu Hz (an estimate): ran for %s, %s of a CPU\n",
		     (unsigned long long)of->count, (unsigned long long)of->hz, ran, share);
	print_rows(s->profiles, of, width, rows, out);
	print_doubts(of, "samples", out);
}

static void print_off_cpu(const struct snapshot *s, unsigned int width, size_t rows,
			  struct strbuf *out)
{
	const struct snapshot_profile *of = s->profiles->of[PROFILE_OFF_CPU];
	char min[TEXT_CELL];

	text__duration(min, of->min_ns);
	text__gap(out);
	strbuf__addf(out, "Off CPU, %llu waits", (unsigned long long)of->count);
	if (of->min_ns)
		strbuf__addf(out, " of at least %s", min);
	strbuf__adds(out, " of all threads, by time\n");
	if (of->older)
		strbuf__addf(out,
			     "  %llu of them had begun before and are counted since the attach\n",
			     (unsigned long long)of->older);
	print_rows(s->profiles, of, width, rows, out);
	print_doubts(of, "waits", out);
}

void hot__print(const struct snapshot *s, unsigned int width, size_t rows, struct strbuf *out)
{
	if (!s->profiles)
		return;
	if (s->profiles->of[PROFILE_CPU])
		print_cpu(s, width, rows, out);
	if (s->profiles->of[PROFILE_OFF_CPU])
		print_off_cpu(s, width, rows, out);
}
