/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of a run share: prepare.c attaches, run.c is there while it lasts. */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/upkeep.h"
#include "outputs.h"
#include "target/process.h"

/* One process, from its opening to its report. */
struct run {
	struct session *session;
	const struct options *opts;
	const struct machine *machine;
	uint64_t begin_ns;
	struct target target;
	bool target_open;
	struct plan *plan;
	struct tracer *tracer;
	struct threads *threads;       /* NULL: not watched */
	bool threads_tried;	       /* to load them */
	struct stacks *stacks;	       /* NULL: nobody asks for native ones */
	struct profiler *profiler;     /* NULL: no profiles */
	struct standing *standing;     /* NULL: nobody asks for stacks of who waits */
	struct latecomers *latecomers; /* NULL: no allocators are traced */
	struct collector *collector;
	struct upkeep upkeep;
	struct outputs outputs;
	struct live *live;
	bool draws; /* a live view, or how much of the duration is over */
	uint64_t next_tick_ns;
	uint64_t next_late_ns; /* 0: no library is waited for */
	uint64_t next_draw_ns, next_write_ns, draw_ns, write_ns;
	struct snapshot *last; /* of the last drawing */
};

/* Opens the process, plans, attaches; nothing is counted yet. The program's exit code. */
int run__prepare(struct run *r, int pid);
/* Takes all probes and programs away. */
void run__let_go(struct run *r);

/* Messages take the live view away first. run: a struct run. */
void run__clear_screen(void *run);

#endif
