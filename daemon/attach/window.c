/* SPDX-License-Identifier: BSD-2-Clause */
#include "attach/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "attach/hands.h"
#include "base/clock.h"

#define POLL_NS (NS_PER_MS / 2)

/* What the child leaves for us. */
struct board {
	volatile int over;
	int err;
	uint64_t attach_ns, open_ns, shut_ns, close_ns; /* when */
	uint64_t cpu_ns;
};

/* The states a function goes through. */
struct states {
	rt_u32 armed, drained, closed;
};

struct window {
	struct object *obj;
	rt_u32 *fns;
	size_t cnt;
	bool timing;
	uint64_t open_ns, open_most_ns, drain_ns, cpu_ns;
	clockid_t cpu_clock;
	struct links_requests reqs;
	struct states *states;
	struct board *board;
	pid_t child;
};

/* ---- the child ---- */

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / NS_PER_SEC), (long)(ns % NS_PER_SEC) };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static uint64_t calls_open(const struct window *w)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w->cnt; i++) {
		struct rt_fn_stats st;

		object__fn_stats(w->obj, w->fns[i], &st);
		n += st.calls - st.returned - st.unwound - st.untimed -
		     w->obj->confs[w->fns[i]].ended;
	}
	return n;
}

static void set_states(const struct window *w, size_t which)
{
	for (size_t i = 0; i < w->cnt; i++)
		*(volatile rt_u32 *)&w->obj->confs[w->fns[i]].state =
			((const rt_u32 *)&w->states[i])[which];
}

static int attach_all(const struct window *w, int *links, size_t *cnt)
{
	for (size_t i = 0; i < w->reqs.cnt; i++) {
		links[*cnt] = hands__create(&w->reqs.reqs[i]);
		if (links[*cnt] < 0)
			return links[*cnt];
		(*cnt)++;
	}
	return 0;
}

/* Calls left open by an earlier window are counted as untimed when something sweeps them. */
static void drain(const struct window *w, uint64_t before)
{
	uint64_t deadline = clock__mono_ns() + w->drain_ns;

	while (calls_open(w) > before && clock__mono_ns() < deadline)
		sleep_ns(POLL_NS);
}

static void stay_open(const struct window *w)
{
	struct board *b = w->board;
	uint64_t cpu_ns = clock__ns(w->cpu_clock), end_ns;

	sleep_ns(w->open_ns);
	while (clock__ns(w->cpu_clock) - cpu_ns < w->cpu_ns &&
	       clock__mono_ns() - b->open_ns < w->open_most_ns)
		sleep_ns(POLL_NS);
	end_ns = clock__ns(w->cpu_clock);
	b->cpu_ns = end_ns > cpu_ns ? end_ns - cpu_ns : 0;
}

static void child_main(const struct window *w)
{
	struct board *b = w->board;
	int links[w->reqs.cnt + 1];
	uint64_t before = 0;
	size_t cnt = 0;

	setsid();
	hands__hurry();
	b->attach_ns = clock__mono_ns();
	b->err = attach_all(w, links, &cnt);
	b->open_ns = clock__mono_ns();
	if (!b->err) {
		if (w->timing)
			before = calls_open(w);
		set_states(w, 0);
		stay_open(w);
		set_states(w, 1);
		b->shut_ns = clock__mono_ns();
		if (w->timing)
			drain(w, before);
		set_states(w, 2);
	}
	b->close_ns = clock__mono_ns();
	while (cnt)
		close(links[--cnt]);
	b->over = 1;
	_exit(0);
}

/* ---- the parent ---- */

static void choose_states(struct links *l, struct window *w)
{
	for (size_t i = 0; i < w->cnt; i++) {
		struct states *s = &w->states[i];
		rt_u32 base = links__state(l, w->fns[i]);

		if (w->timing) {
			links__raise_epoch(l, w->fns[i]);
			s->armed = base | RT_CONF(0, RT_GEN_WINDOW, 0) | RT_CONF_TIMED;
			s->drained = base | RT_CONF(0, RT_GEN_WINDOW, 0);
			s->closed = links__state(l, w->fns[i]);
		} else {
			s->armed = base | RT_CONF(RT_GEN_WINDOW, 0, 0);
			s->drained = s->closed = base;
		}
	}
}

int window__open(struct links *l, struct object *obj, const struct window_spec *spec,
		 struct window **out)
{
	struct window *w = calloc(1, sizeof(*w));
	int err = -ENOMEM;

	if (!w)
		return -ENOMEM;
	w->obj = obj;
	w->cnt = spec->cnt;
	w->timing = spec->timing;
	w->open_ns = spec->open_ns;
	w->drain_ns = spec->drain_ns;
	w->open_most_ns = spec->open_most_ns;
	w->cpu_ns = spec->cpu_ns;
	w->cpu_clock = spec->cpu_clock;
	w->fns = calloc(w->cnt, sizeof(*w->fns));
	w->states = calloc(w->cnt, sizeof(*w->states));
	w->board = mmap(NULL, sizeof(*w->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (!w->fns || !w->states || w->board == MAP_FAILED)
		goto fail;
	memcpy(w->fns, spec->fns, w->cnt * sizeof(*w->fns));
	err = links__requests(l, w->fns, w->cnt, w->timing, &w->reqs);
	if (err)
		goto fail;
	choose_states(l, w);
	w->child = fork();
	if (w->child < 0) {
		err = -errno;
		goto fail;
	}
	if (!w->child)
		child_main(w);
	*out = w;
	return 0;
fail:
	window__free(w);
	return err;
}

const rt_u32 *window__fns(const struct window *w, size_t *cnt)
{
	*cnt = w->cnt;
	return w->fns;
}

bool window__timing(const struct window *w)
{
	return w->timing;
}

bool window__over(struct window *w, bool wait, struct window_result *out)
{
	const struct board *b = w->board;

	if (w->child > 0 && !hands__close_done(w->child, wait))
		return false;
	w->child = 0;
	*out = (struct window_result){ .err = b->over ? b->err : -EIO };
	if (!out->err) {
		out->open_ns = b->shut_ns - b->open_ns;
		out->cpu_ns = b->cpu_ns;
		out->armed_ns = b->close_ns - b->attach_ns;
	}
	return true;
}

void window__free(struct window *w)
{
	if (!w)
		return;
	hands__close_done(w->child, true);
	if (w->board != MAP_FAILED)
		munmap(w->board, sizeof(*w->board));
	links__free_requests(&w->reqs);
	free(w->fns);
	free(w->states);
	free(w);
}
