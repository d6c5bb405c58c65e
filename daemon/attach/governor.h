/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keeps what tracing costs the target under a budget. New probes go in through a canary: entries
 * only, for some ms, and what is hot there never gets exit probes. Afterwards it looks at the
 * counters each GOVERNOR_INTERVAL_NS (less often while little is called), and when the price of the
 * hits exceeds the budget for two looks in a row (far above: one), the dearest functions step down,
 * as far as they must:
 *
 *   exact     every call is timed
 *   sampled   every call is counted; those of random windows are timed
 *   entries   every call is counted, none is timed
 *   off       no probe; calls are counted in random windows, in between they are estimated
 *
 * A function goes up again when it has been affordable for a while; the while doubles with each
 * time that this was a mistake. Without a budget all are exact and nothing here ever acts.
 */
#ifndef ATTACH_GOVERNOR_H
#define ATTACH_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

#include "attach/links.h"
#include "attach/object.h"
#include "base/clusters.h"
#include "base/ratio.h"
#include "plan/plan.h"

struct governor;

#define GOVERNOR_INTERVAL_NS 100000000ull

enum governor_mode { GOVERNOR_EXACT, GOVERNOR_SAMPLED, GOVERNOR_ENTRIES, GOVERNOR_OFF };
extern const char *const governor_mode_names[]; /* "exact", "sampled", "entries", "off" */

/* A step up or down. */
struct governor_step {
	rt_u32 fn;
	enum governor_mode from, to;
	uint64_t unix_ns;
	double calls_per_s; /* as seen before the step */
	double cost_ratio;  /* what timing each call would cost, of a CPU */
};

/* Times of the calls of windows: all, outermost ones, own work. */
enum governor_time { GOVERNOR_SUM, GOVERNOR_TOTAL, GOVERNOR_SELF, GOVERNOR_TIMES };

/* How a function was watched since the gate was opened. */
struct governor_row {
	enum governor_mode mode;      /* now */
	bool always_exact;	      /* the rest says nothing new then */
	bool always_counted;	      /* it was never off */
	uint64_t timed_ns;	      /* of the time: begun calls were timed */
	uint64_t counted_ns;	      /* of the time: calls were counted */
	uint64_t exact_calls;	      /* counted while each was timed */
	uint64_t sampled_calls;	      /* counted while the function was sampled */
	double estimated_calls;	      /* in all, those in times without probes too */
	double low_calls, high_calls; /* right in 95 of 100; high INFINITY: no upper end */
	bool lower_bound; /* the windows themselves slowed the target: at least so many */
	/* Of the windows' calls: their times as measured; and per call, where one not seen to end
	 * counts for as long as it was waited for. Borrowed */
	uint64_t windows_ns[GOVERNOR_TIMES];
	const struct ratio *per_call;
	const struct clusters *clusters; /* of its windows; NULL: none yet. Borrowed */
};

/* pid: the target. budget: 0.02 = two percent of one CPU; < 0: none. Borrows all. */
struct governor *governor__new(const struct plan *plan, struct object *obj, struct links *links,
			       int pid, double budget);
/* Waits for a window that is open. */
void governor__free(struct governor *g);

/* Arms the functions: canary, then all that is affordable. The gate is shut before and after. */
int governor__arm(struct governor *g);
/* So much of the budget is taken by what are no probes of functions, of a CPU. */
void governor__reserve(struct governor *g, double ratio);
void governor__start(struct governor *g, uint64_t now_ns);
/* Call after each GOVERNOR_INTERVAL_NS; while it dozes, when the doorbell rings or after the time
 * that a step may take at most. */
void governor__tick(struct governor *g, uint64_t now_ns);
/* Whether nothing goes on: the first function that is hit more often rings the doorbell. */
bool governor__dozes(const struct governor *g);
/* Ends an open window; from now on nothing changes. */
void governor__stop(struct governor *g);
/* Whether links may be changed now: no window is open. */
bool governor__idle(const struct governor *g);

const struct governor_step *governor__steps(const struct governor *g, size_t *cnt);
void governor__row(const struct governor *g, rt_u32 fn, uint64_t now_ns, struct governor_row *out);

/*
 * What a function's hits so far have cost its process, ns; and how many they are: at some prices,
 * and at those of cold caches, which the budget goes by.
 */
uint64_t governor__cost_at(const struct object *obj, const struct plan *plan,
			   const struct prices *p, rt_u32 fn, uint64_t *hits);
uint64_t governor__cost_ns(const struct object *obj, const struct plan *plan, rt_u32 fn,
			   uint64_t *hits);

#endif
