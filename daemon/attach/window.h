/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A short window: some functions get exit probes (or entry probes) for some ms, then they go again.
 * A child that nobody kills does all of it, ahead of what else runs on the machine, so that the
 * window is as short as it is meant to be and nothing stays behind.
 *
 * Timing: exits are armed, then entries get frames for open_ns, then no more; the exits stay until
 * the calls begun have ended, at most drain_ns. What is still open then is given up.
 *
 * Counting: entries are armed for open_ns, or until the target has run.
 */
#ifndef ATTACH_WINDOW_H
#define ATTACH_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "attach/links.h"
#include "attach/object.h"

struct window;

struct window_spec {
	const rt_u32 *fns; /* copied */
	size_t cnt;
	bool timing;
	uint64_t open_ns, drain_ns;
	/* open for longer, up to open_most_ns, until the target has used so much CPU time */
	clockid_t cpu_clock;
	uint64_t cpu_ns, open_most_ns;
};

struct window_result {
	int err;	   /* 0, or nothing was armed */
	uint64_t open_ns;  /* how long calls were counted or given frames */
	uint64_t cpu_ns;   /* what the target used meanwhile */
	uint64_t armed_ns; /* how long the breakpoints were there, about */
};

/*
 * 0 or -errno. While it is open nobody else may change the states of functions. The links' epochs
 * of timed functions are raised for the end of the window.
 */
int window__open(struct links *l, struct object *obj, const struct window_spec *spec,
		 struct window **out);
const rt_u32 *window__fns(const struct window *w, size_t *cnt);
bool window__timing(const struct window *w);
/* Whether it is over (wait: it is); then what came of it. */
bool window__over(struct window *w, bool wait, struct window_result *out);
/* Waits for its end. */
void window__free(struct window *w);

#endif
