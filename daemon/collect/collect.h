/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the maps and makes snapshots. The one place that knows both the counters and the names.
 */
#ifndef COLLECT_COLLECT_H
#define COLLECT_COLLECT_H

#include "attach/threads.h"
#include "attach/tracer.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"
#include "target/process.h"

struct collector;

struct profiler;
struct stacks;
struct standing;

struct collector_opts {
	struct profiler *profiler; /* NULL: no profiles. Borrowed */
	struct stacks *stacks;	   /* NULL: no native stacks. Borrowed */
	struct standing *standing; /* NULL: no native stacks of who waits. Borrowed */
	const char *debug_file;	   /* the user's, or NULL */
	const char *version, *kernel, *exit_mode;
	double leak_after_s;	 /* see --leak-after */
	double budget;		 /* < 0: off */
	struct threads *threads; /* NULL: not watched */
	uint64_t stall_ns;
	bool no_progress; /* tell when no thread runs for that long */
};

/* All borrowed; they outlive the collector and its snapshots. NULL with errno on failure. */
struct collector *collector__new(const struct plan *plan, const struct target *target,
				 struct tracer *tracer, const struct collector_opts *opts);
void collector__free(struct collector *c);
/* When a tick is due at the latest. */
uint64_t collector__next_ns(const struct collector *c);

/* Opens the gate: the window begins. */
void collector__start(struct collector *c);
/* Shuts the gate: the window ends; the next snapshots are settled ones. */
void collector__stop(struct collector *c);
/* The target has ended. */
void collector__target_ended(struct collector *c);

/*
 * Looks for what hangs; call about each fifth of a second. What is new: *cnt of them, valid until
 * the next call.
 */
const struct snapshot_stall *collector__stalls(struct collector *c, uint64_t now_ns, size_t *cnt);

/* Snapshots without profiles from now on, until it has stopped: for who draws several a second. */
void collector__set_light(struct collector *c, bool light);
/* What must be looked at between snapshots; call it about ten times a second. */
void collector__tick(struct collector *c, uint64_t now_ns);

/* 0 or -errno. The caller frees with snapshot__free. */
int collector__snapshot(struct collector *c, struct snapshot **out);

#endif
