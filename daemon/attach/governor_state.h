/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the governor share: governor.c decides, ledger.c keeps the prices and what was
 * watched how long, sampler.c opens windows. Nobody else includes this.
 */
#ifndef ATTACH_GOVERNOR_STATE_H
#define ATTACH_GOVERNOR_STATE_H

#include "attach/governor.h"
#include "attach/window.h"
#include "base/vec.h"

#define ENTRIES_MAX 0.60 /* of the budget, for the entries of one function */

struct governed {
	rt_u8 mode; /* enum governor_mode */
	bool lifted, was_off;
	bool loud;		    /* off: its traps are a good part of a counting window */
	rt_u32 calm_looks;	    /* off: counting windows in a row that were affordable */
	uint64_t entries, exits_ns; /* at the last look: calls, cost of the exits */
	double rate;		    /* calls per second, smoothed */
	double exit_ns;		    /* what the exits of a call cost */
	uint64_t since_ns, wait_ns; /* in this mode since; before it may go up */
	/* past phases, and the calls at the start of this one */
	uint64_t counted_ns, timed_ns, off_ns, off_cpu_ns;
	uint64_t since_cpu_ns;
	uint64_t phase_calls, exact_calls, sampled_calls;
	/* what windows saw while it was off */
	uint64_t off_calls, off_seen_ns;
	/* the last such window, or the start of the phase */
	uint64_t counted_at_ns, counted_at_cpu_ns;
	/* calls per CPU time of the process; that, were traps as dear, or as cheap, as they may be
	 */
	struct ratio per_cpu, per_cpu_most, per_cpu_least;
	double most;	       /* the highest of a window */
	struct ratio per_time; /* calls per time by the clock on the wall */
	double trapped_ns, all_trapped_ns, window_cpu_ns; /* by itself, by all of the window */
	bool saturated; /* there was a window in which hardly anything but traps went on */
	/* what windows saw while it was sampled */
	uint64_t windows_ns[GOVERNOR_TIMES];
	struct ratio per_call[GOVERNOR_TIMES];
	struct clusters *clusters;
};

struct governor {
	const struct plan *plan;
	struct object *obj;
	struct links *links;
	double whole, budget; /* of a CPU; budget: what of it is for probes of functions */
	clockid_t cpu_clock;  /* of the target */
	uint64_t cpu_ns;      /* its last reading */
	struct governed *fns;
	bool *lively;  /* by function: hit lately, or its rate has not gone down yet */
	rt_u8 *modes;  /* scratch: enum links_mode */
	rt_u32 *order; /* scratch */
	uint64_t start_ns, last_ns, busy_ns; /* last: look; busy: when there was cause for one */
	double lasting;			     /* cost of the probes that stay, of a CPU, smoothed */
	unsigned int over;
	size_t not_exact, unlogged, clustered;
	rt_u32 cursor[GOVERNOR_OFF + 1], loud_cursor; /* of windows: who is next */
	VEC(struct governor_step) steps;
	bool stopped;
	/* the open window */
	struct window *window;
	uint64_t *before_counts; /* per function of the window */
	struct rt_fn_stats *before;
	uint64_t next_timing_ns, next_counting_ns, next_loud_ns;
	uint64_t seed;
};

/* ---- ledger.c ---- */

/* Price of an entry, and where entries follow each other closely; of exits, so many of them
 * single-stepped; of a call's exits before any was seen. */
uint64_t ledger__entry_ns(const struct governor *g, rt_u32 fn);
uint64_t ledger__warm_entry_ns(const struct governor *g, rt_u32 fn);
uint64_t ledger__exits_ns(const struct object *obj, const struct plan *plan, rt_u64 exits,
			  rt_u64 stepped);
double ledger__planned_exit_ns(const struct governor *g, rt_u32 fn);
/* At the function's rate, of one CPU: its entries, timing each call, and what it costs as it is. */
double ledger__entries_cost(const struct governor *g, rt_u32 fn);
double ledger__full_cost(const struct governor *g, rt_u32 fn);
double ledger__lasting_cost(const struct governor *g, rt_u32 fn);
/* Calls counted so far. */
uint64_t ledger__calls(const struct governor *g, rt_u32 fn);
/* CPU time of the target; of one that has ended, as it was last read. */
uint64_t ledger__cpu_ns(const struct governor *g);
uint64_t ledger__read_cpu(struct governor *g); /* that, noted */
/* The phase that ends now goes into the sums. */
void ledger__end_phase(struct governor *g, rt_u32 fn, uint64_t now_ns);

/* ---- sampler.c ---- */

/* Ends the window that is over, opens the next one when it is due. */
void sampler__tick(struct governor *g, uint64_t now_ns);
void sampler__end(struct governor *g, const struct window_result *res, uint64_t now_ns);
/* Waits for a window that is open; nothing comes of it. */
void sampler__forget(struct governor *g);

/* ---- governor.c ---- */

/* Notes it and ends the phase; the links follow later. */
void governor__step_to(struct governor *g, rt_u32 fn, enum governor_mode to, uint64_t now_ns);

#endif
