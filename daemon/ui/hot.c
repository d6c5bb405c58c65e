/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/hot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/cpu.h"
#include "ui/off_cpu.h"
#include "ui/text.h"
#include "ui/wakers.h"

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
	cpu__frames(s->profiles, v, out);
	print_threads(of, out);
	print_doubts(of, "sample", out);
	text__gap(out);
	cpu__functions(s, v, out);
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
