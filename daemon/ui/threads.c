/* SPDX-License-Identifier: BSD-2-Clause */
#include "ui/threads.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/plural.h"
#include "base/rust_name.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "ui/text.h"

#define THREADS_SHOWN 20
#define LOCKS_SHOWN 8
#define NAME_COLUMNS 15

static void cell(struct strbuf *line, const char *s, int width)
{
	text__cell(line, s, width, STYLE_PLAIN, false);
}

static void put_line(struct strbuf *out, struct strbuf *line, unsigned int width,
		     enum text_style style, bool colour)
{
	struct strbuf clipped = STRBUF_INIT;

	text__clip(&clipped, line->s, line->len, width);
	text__cell(out, clipped.s, 0, style, colour);
	strbuf__addc(out, '\n');
	strbuf__reset(line);
	strbuf__free(&clipped);
}

static void add_name(struct strbuf *line, const char *name)
{
	struct strbuf safe = STRBUF_INIT;

	utf8__add_printable(&safe, name);
	cell(line, safe.s, -NAME_COLUMNS);
	strbuf__free(&safe);
}

static void add_percent(struct strbuf *line, double ratio, int width)
{
	char text[TEXT_CELL];

	if (ratio < 0)
		strcpy(text, "-");
	else
		text__percent(text, ratio);
	cell(line, text, width);
}

/* In what a thread was blocked longest. */
static void add_main_wait(struct strbuf *line, const struct snapshot_thread *t)
{
	int most = 0;
	char share[TEXT_CELL], text[2 * TEXT_CELL];

	for (int i = 1; i < THREAD_OFF_CNT; i++)
		if (t->off_ns[i] > t->off_ns[most])
			most = i;
	if (!t->observed_ns || !t->off_ns[most]) {
		cell(line, "-", 14);
		return;
	}
	text__percent(share, (double)t->off_ns[most] / (double)t->observed_ns);
	snprintf(text, sizeof(text), "%s %s", thread_state_names[THREAD_FUTEX + most], share);
	cell(line, text, 14);
}

static void add_rate(struct strbuf *line, const struct snapshot_thread *t)
{
	uint64_t switches = t->voluntary + t->involuntary;
	double per_s = t->observed_ns ? (double)switches * 1e9 / (double)t->observed_ns : 0;
	char text[TEXT_CELL];

	if (per_s > 0 && per_s < 9.95)
		snprintf(text, sizeof(text), "%.1f", per_s);
	else
		text__count(text, (uint64_t)(per_s + 0.5), 7);
	cell(line, text, 8);
}

static void add_queue(struct strbuf *line, const struct snapshot_thread *t, double q)
{
	char text[TEXT_CELL];

	if (hist__count(&t->queue.hist))
		text__duration(text, hist__quantile_ns(&t->queue.hist, t->queue.min_ns,
						       t->queue.max_ns, q));
	else
		strcpy(text, "-");
	cell(line, text, 8);
}

/* Of those that ended, of the window: some lived for a moment, and there may be thousands. */
static double cpu_ratio(const struct snapshot_thread *t, uint64_t window_ns)
{
	if (t->tid || !window_ns)
		return thread__cpu_ratio(t);
	return (double)t->cpu_ns / (double)window_ns;
}

static void thread_row(const struct snapshot_thread *t, uint64_t window_ns, struct strbuf *line)
{
	char id[TEXT_CELL];

	add_name(line, t->name);
	if (t->tid)
		snprintf(id, sizeof(id), "%d", t->tid);
	else
		snprintf(id, sizeof(id), "x%" PRIu64, t->count);
	cell(line, id, 9);
	cell(line, thread_state_names[t->state], 10);
	add_percent(line, cpu_ratio(t, window_ns), 8);
	add_percent(line, t->cpu_max, 8);
	add_main_wait(line, t);
	add_queue(line, t, 0.95);
	add_rate(line, t);
}

/* Of those that ended without a row for their name. */
static bool is_rest(const struct snapshot_thread *t)
{
	return !t->tid && !strcmp(t->name, thread_state_names[THREAD_EXITED]);
}

static int by_cpu(const void *a, const void *b)
{
	const struct snapshot_thread *x = *(const struct snapshot_thread *const *)a;
	const struct snapshot_thread *y = *(const struct snapshot_thread *const *)b;

	if (is_rest(x) != is_rest(y))
		return is_rest(x) ? 1 : -1;
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return (x > y) - (x < y);
}

/* The living and the dead, most CPU first. */
static void threads_table(const struct snapshot *s, unsigned int width, size_t limit, bool colour,
			  struct strbuf *out)
{
	const struct snapshot_thread **all = malloc(s->thread_cnt * sizeof(*all));
	size_t shown = s->thread_cnt < limit ? s->thread_cnt : limit;
	struct strbuf line = STRBUF_INIT;

	if (!all) {
		out->oom = true;
		return;
	}
	for (size_t i = 0; i < s->thread_cnt; i++)
		all[i] = &s->threads[i];
	qsort(all, s->thread_cnt, sizeof(*all), by_cpu);
	/* it is the last row, whatever the limit */
	if (shown && is_rest(all[s->thread_cnt - 1]))
		all[shown - 1] = all[s->thread_cnt - 1];
	strbuf__addf(&line, "%-15s%9s%10s%8s%8s%14s%8s%8s", "Thread", "TID", "State", "CPU",
		     "Max 1s", "Waits most in", "Queue95", "Swaps/s");
	put_line(out, &line, width, STYLE_BOLD, colour);
	for (size_t i = 0; i < shown; i++) {
		thread_row(all[i], s->window.duration_ns, &line);
		put_line(out, &line, width, STYLE_PLAIN, colour);
	}
	if (shown < s->thread_cnt) {
		strbuf__addf(&line, "... and %zu more", s->thread_cnt - shown);
		put_line(out, &line, width, STYLE_DIM, colour);
	}
	free(all);
	strbuf__free(&line);
}

/* Of a blocked poll, how long its thread has been blocked in the window. */
static uint64_t blocked_ns(const struct snapshot *s, const struct snapshot_stall *stall)
{
	uint64_t start = s->window.start_unix_ns, end = start + s->window.duration_ns,
		 since = stall->seen_unix_ns - stall->age_ns;

	if (stall->over_unix_ns && stall->over_unix_ns < end)
		end = stall->over_unix_ns;
	since = since > start ? since : start;
	return end > since ? end - since : 0;
}

static const struct snapshot_thread *thread_of(const struct snapshot *s, int tid)
{
	for (size_t i = 0; i < s->thread_cnt; i++)
		if (s->threads[i].tid == tid)
			return &s->threads[i];
	return NULL;
}

/*
 * The time that tokio's threads are known to have waited inside a poll; *idle: of it, what looks as
 * an idle worker's. A poll that runs or is suspected proves nothing.
 */
static uint64_t waited_in_polls(const struct snapshot *s, uint64_t *idle)
{
	uint64_t all = 0;

	*idle = 0;
	for (size_t i = 0; i < s->stall_cnt; i++) {
		const struct snapshot_stall *stall = &s->stalls[i];
		const struct stall_thread *at = &stall->threads[0];
		const struct snapshot_thread *t = stall->thread_cnt ? thread_of(s, at->tid) : NULL;
		uint64_t ns = blocked_ns(s, stall);

		if (stall->kind != STALL_BLOCKED_POLL || !stall->proven || !t || !t->tokio ||
		    at->state < THREAD_FUTEX || at->wait_ns < stall->age_ns / 10 * 9)
			continue;
		all += ns;
		if (at->state == THREAD_FUTEX || at->state == THREAD_EPOLL)
			*idle += ns;
	}
	return all;
}

static void add_share(struct strbuf *line, const char *what, double ns, uint64_t all)
{
	strbuf__adds(line, what);
	add_percent(line, ns / (double)all, 0);
}

/* Tokio's threads together. An idle worker waits in epoll or at a futex, but not it alone. */
static void tokio_line(const struct snapshot *s, unsigned int width, bool colour,
		       struct strbuf *out)
{
	uint64_t all = 0, busy = 0, queue = 0, idle, in_polls = waited_in_polls(s, &idle);
	double waited = 0;
	struct strbuf line = STRBUF_INIT;
	size_t cnt = 0;

	for (size_t i = 0; i < s->thread_cnt; i++) {
		const struct snapshot_thread *t = &s->threads[i];

		if (!t->tokio)
			continue;
		cnt++;
		all += t->observed_ns;
		busy += t->cpu_ns;
		queue += t->run_queue_ns;
		waited += thread__parked_ratio(t) * (double)t->observed_ns;
	}
	waited -= waited < (double)idle ? waited : (double)idle;
	if (cnt && all) {
		strbuf__addf(&line, "Tokio, %zu threads:", cnt);
		add_share(&line, " CPU ", (double)busy, all);
		add_share(&line, ", waiting for a CPU ", (double)queue, all);
		add_share(&line, ", in epoll or futex ", waited, all);
		put_line(out, &line, width, STYLE_PLAIN, false);
	}
	if (cnt && all && in_polls) {
		add_share(&line, "  blocked inside polls, which stop other tasks, ",
			  (double)in_polls, all);
		put_line(out, &line, width, STYLE_WARM, colour);
	}
	strbuf__free(&line);
}

/* ---- locks ---- */

static void lock_row(const struct snapshot_lock *l, struct strbuf *line)
{
	char text[TEXT_CELL];

	snprintf(text, sizeof(text), "0x%" PRIx64, l->address);
	cell(line, text, -15);
	cell(line, lock_kind_names[l->kind], -14);
	text__count(text, l->wait.count, 6);
	cell(line, text, 7);
	for (int i = 0; i < 3; i++) {
		uint64_t ns = i == 0   ? l->wait.total_ns / (l->wait.count ? l->wait.count : 1)
			      : i == 1 ? hist__quantile_ns(&l->wait.hist, l->wait.min_ns,
							   l->wait.max_ns, 0.95)
				       : l->wait.max_ns;

		if (l->wait.count)
			text__duration(text, ns);
		else
			strcpy(text, "-");
		cell(line, text, 8);
	}
	text__count(text, l->waiters_now, 4);
	cell(line, text, 5);
	if (l->waiters_now)
		text__duration(text, l->oldest_ns);
	else
		strcpy(text, "-");
	cell(line, text, 7);
	if (l->holder_tid)
		snprintf(text, sizeof(text), "%d", l->holder_tid);
	else
		strcpy(text, "-");
	cell(line, text, 8);
}

/* The innermost function of the role's own, or of its crates. */
static const char *own_of(const struct snapshot_backtrace *b)
{
	for (uint32_t i = b->depth; i--;)
		if (b->frames[i].kind == FRAME_OWN)
			return b->frames[i].name;
	for (uint32_t i = b->depth; i--;)
		if (b->frames[i].kind == FRAME_DEP && !rust_name__is_runtime(b->frames[i].name))
			return b->frames[i].name;
	return NULL;
}

/* Where in the code it is waited at: a line for each, those of now and those of most time. */
static void lock_places(const struct snapshot_lock *l, unsigned int width, bool colour,
			struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	char waited[TEXT_CELL];

	for (size_t i = 0; i < l->stack_cnt; i++) {
		const struct snapshot_lock_stack *s = &l->stacks[i];
		const char *name = own_of(&s->stack);

		if (!name)
			continue;
		text__duration(waited, s->total_ns);
		strbuf__adds(&line, "  in ");
		text__name(&line, name, width > 60 ? width - 40 : 40);
		if (s->waiters_now)
			strbuf__addf(&line, ": %" PRIu64 " now", s->waiters_now);
		else
			strbuf__addf(&line, ": %" PRIu64 " wait%s, %s", s->waits,
				     s->waits == 1 ? "" : "s", waited);
		put_line(out, &line, width, STYLE_DIM, colour);
	}
	strbuf__free(&line);
}

static void locks_table(const struct snapshot *s, unsigned int width, size_t limit, bool colour,
			struct strbuf *out)
{
	struct strbuf line = STRBUF_INIT;
	size_t cnt = 0;

	for (size_t i = 0; i < s->lock_cnt; i++) {
		if (!lock__is_lock(s->locks[i].kind))
			continue;
		if (!cnt++) {
			strbuf__addc(out, '\n');
			strbuf__addf(&line, "%-15s%-14s%7s%8s%8s%8s%5s%7s%8s", "Lock", "Kind",
				     "Waits", "Avg", "P95", "Max", "Now", "Oldest", "Holder");
			put_line(out, &line, width, STYLE_BOLD, colour);
		}
		if (cnt > limit)
			continue;
		lock_row(&s->locks[i], &line);
		put_line(out, &line, width, STYLE_PLAIN, colour);
		lock_places(&s->locks[i], width, colour, out);
	}
	if (cnt > limit) {
		strbuf__addf(&line, "... and %zu more", cnt - limit);
		put_line(out, &line, width, STYLE_DIM, colour);
	}
	strbuf__free(&line);
}

void threads__report(const struct snapshot *s, unsigned int width, size_t limit, bool colour,
		     struct strbuf *out)
{
	if (!s->thread_cnt)
		return;
	text__gap(out);
	threads_table(s, width, limit ? limit : THREADS_SHOWN, colour, out);
	tokio_line(s, width, colour, out);
	locks_table(s, width, limit ? limit : LOCKS_SHOWN, colour, out);
}

void threads__line(const struct snapshot *s, bool colour, struct strbuf *out)
{
	size_t cnt[THREAD_STATE_CNT] = {}, all = 0;
	uint64_t cpu_ns = 0;
	struct strbuf line = STRBUF_INIT;
	char cpu[TEXT_CELL];

	if (!s->thread_cnt)
		return;
	for (size_t i = 0; i < s->thread_cnt; i++) {
		cpu_ns += s->threads[i].cpu_ns;
		if (!s->threads[i].tid)
			continue;
		cnt[s->threads[i].state]++;
		all++;
	}
	text__percent(cpu,
		      s->window.duration_ns ? (double)cpu_ns / (double)s->window.duration_ns : 0);
	strbuf__addf(&line, "%zu thread%s, CPU %s:", all, plural__s(all), cpu);
	for (int i = 0; i < THREAD_STATE_CNT; i++)
		if (cnt[i])
			strbuf__addf(&line, " %s %zu", thread_state_names[i], cnt[i]);
	text__cell(out, line.s, 0, STYLE_PLAIN, colour);
	strbuf__addc(out, '\n');
	strbuf__free(&line);
}
