/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the maps and makes snapshots. The one place that knows both the counters and the names.
 */
#ifndef COLLECT_COLLECT_H
#define COLLECT_COLLECT_H

#include "attach/tracer.h"
#include "plan/plan.h"
#include "snapshot/snapshot.h"
#include "target/process.h"

struct collector;

struct collector_opts {
	const char *version, *kernel, *exit_mode;
	double leak_after_s; /* see --leak-after */
	double budget;	     /* < 0: off */
};

/* All borrowed; they outlive the collector and its snapshots. NULL with errno on failure. */
struct collector *collector__new(const struct plan *plan, const struct target *target,
				 struct tracer *tracer, const struct collector_opts *opts);
void collector__free(struct collector *c);

/* Opens the gate: the window begins. */
void collector__start(struct collector *c);
/* Shuts the gate: the window ends; the next snapshots are settled ones. */
void collector__stop(struct collector *c);
/* The target has ended. */
void collector__target_ended(struct collector *c);

/* What must be looked at between snapshots; call it about ten times a second. */
void collector__tick(struct collector *c, uint64_t now_ns);

/* 0 or -errno. The caller frees with snapshot__free. */
int collector__snapshot(struct collector *c, struct snapshot **out);

#endif
