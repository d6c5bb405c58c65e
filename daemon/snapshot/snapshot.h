/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The snapshot: everything one interval knows, an immutable value. collect/ makes it, read.c makes
 * one of a file; export/ and ui/ see nothing else. Times in ns, sizes in bytes, ratios 1.0 = one
 * CPU (or one thread) whole. Strings are borrowed from the plan and the target, or lie in the
 * snapshot's own arena, unless said otherwise: either way they outlive it.
 */
#ifndef SNAPSHOT_SNAPSHOT_H
#define SNAPSHOT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "roletrace/hist.h"
#include "snapshot/stats.h"
#include "snapshot/threads.h"
#include "snapshot/profile.h"

#define SNAPSHOT_SCHEMA "roletrace.snapshot/1"

struct arena;

enum snapshot_coverage { COVERAGE_EXACT, COVERAGE_SAMPLED, COVERAGE_ENTRY_ONLY };
#define COVERAGE_CNT (COVERAGE_ENTRY_ONLY + 1)
extern const char *const snapshot_coverage_names[COVERAGE_CNT];

/* Where a quantile may be, right in 95 of 100 cases. Both 0: not known; high UINT64_MAX: no end. */
struct snapshot_interval {
	uint64_t low_ns, high_ns;
};
#define SNAPSHOT_QUANTILES 3
extern const double snapshot_quantiles[SNAPSHOT_QUANTILES]; /* 0.5, 0.95, 0.99 */

/* A figure of the whole window, and where it may be, right in 95 of 100 cases. */
struct snapshot_estimate {
	uint64_t value, low, high; /* high UINT64_MAX: no upper end is known */
};

/* What the times of a function are: of all calls, of outermost ones, its own. */
enum snapshot_time { TIME_SUM, TIME_TOTAL, TIME_SELF };
#define SNAPSHOT_TIMES (TIME_SELF + 1)

/* What an estimate of calls or times is. */
enum snapshot_basis { BASIS_EXACT, BASIS_ESTIMATED, BASIS_LOWER_BOUND };
#define BASIS_CNT (BASIS_LOWER_BOUND + 1)
extern const char *const snapshot_basis_names[BASIS_CNT];

/* How a function was watched that was not watched exactly all the time. */
struct snapshot_sampled {
	const char *mode;	   /* now: "exact", "sampled", "entries", "off" */
	enum snapshot_basis count; /* what calls is */
	enum snapshot_basis time;  /* what times are; LOWER_BOUND: of the timed calls alone */
	uint64_t counted_ns;	   /* for so long its calls were counted */
	struct snapshot_estimate calls;
	struct snapshot_estimate times[SNAPSHOT_TIMES];
	uint64_t exact_calls;		     /* of times when each was timed */
	uint64_t extrapolated_calls;	     /* of times without such windows: taken to be alike */
	uint64_t windows_ns[SNAPSHOT_TIMES]; /* of the calls of windows, as measured */
	double per_call_ns[SNAPSHOT_TIMES];  /* estimated, of those that are not exact_calls */
	uint64_t windows;		     /* in which calls were timed */
	uint64_t given_up;		     /* calls begun in them and not seen to end */
	/* each timed call of a window stands for so many; 1: all stand for themselves */
	double weight;
	struct snapshot_hist hist; /* of the windows alone; those calls are in the function's too */
	struct snapshot_interval quantiles[SNAPSHOT_QUANTILES];
};

struct snapshot_fn {
	const char *name, *symbol, *crate, *file; /* file NULL: unknown */
	const char *const *aliases;
	size_t alias_cnt;
	uint32_t line, sites;
	bool is_async;	   /* the figures are polls */
	bool makes_future; /* what that does is in a row of polls */
	/*
	 * Not probed: known from the CPU profile alone. Only name, symbol (NULL: not known), crate,
	 * file, line, module, origin and the samples mean something. These rows come last.
	 */
	bool unprobed;
	enum frame_kind origin; /* whose code; of probed rows always FRAME_OWN */
	const char *module;	/* unprobed: file name of its object; NULL: not known */
	enum snapshot_coverage coverage;
	const char *exit;     /* "sites", "uretprobe" */
	uint64_t observed_ns; /* < window when it was shed; the figures cover that time only */
	uint64_t calls, returned, unwound, in_flight, untimed, tail_exits;
	uint64_t in_flight_stale; /* of in_flight: perhaps dead */
	uint64_t sum_ns, total_ns, self_ns, min_ns, max_ns;
	uint64_t corrected_ns, clamped, floor_ns, price_ns; /* floor, price: of one call */
	uint64_t hist_lost;
	uint64_t cost_ns; /* what its probes took from the target in all */
	/* Of the CPU profile, when there is one: with it anywhere on the stack, innermost, and on
	 * it as an inlined copy. */
	uint64_t cpu_samples, cpu_self_samples, cpu_inlined_samples;
	struct snapshot_hist hist;
	struct snapshot_sampled *sampled; /* owned; NULL: exact all the time */
	/* by it while it was the innermost traced function (--memory stacks) */
	bool has_alloc;
	struct snapshot_sums alloc;
	/* what of it was freed and is live is an estimate (memory->sampled), with the error of live
	 * bytes: half the width of the 95 % interval */
	bool alloc_estimated;
	uint64_t alloc_error_bytes;
};

struct snapshot_edge {
	uint32_t caller, callee; /* indices into fns */
	uint64_t calls, total_ns;
};

struct snapshot_skip {
	const char *name, *reason;
};

struct snapshot_lost {
	const char *name;
	uint64_t count;
};

struct snapshot_shed {
	const char *name, *reason;
	uint64_t unix_ns;
	const char *from, *to; /* as the mode of snapshot_sampled; NULL: not known */
	double calls_per_s;    /* before */
	double cost_ratio;     /* what timing each call would cost then: of a CPU */
};

enum snapshot_end { END_NOT, END_EXIT, END_SIGNAL, END_EXEC };
#define END_CNT (END_EXEC + 1)
extern const char *const snapshot_end_names[END_CNT]; /* NULL for END_NOT */

struct snapshot {
	struct {
		const char *version, *kernel, *exit_mode;
	} tool;
	struct {
		int pid, ns_pid;
		const char *comm, *exe, *build_id; /* build_id NULL: none */
		uint64_t start_time_ns;		   /* unix */
		enum snapshot_end end;
		int end_code; /* exit status or signal */
		uint64_t end_unix_ns;
	} target;
	struct {
		uint64_t start_unix_ns, end_unix_ns, duration_ns;
		/* The gate was shut before reading: in_flight is counted from the threads' stacks.
		 * While it is open in_flight is what has begun and not ended, a difference. */
		bool settled;
	} window;
	const char **reasons; /* why health is degraded; empty: "ok". Array and strings owned */
	size_t reason_cnt;
	struct snapshot_lost *lost; /* every counter, zeros too; array owned */
	size_t lost_cnt;
	struct {
		uint64_t hits, ns_per_hit, corrected_ns, floor_ns, clamped;
		uint64_t ns_per_hit_low, ns_per_hit_high; /* with warm, with cold caches */
		/* cpu_ratio is the sum of the four below it; of a CPU */
		double cpu_ratio, budget_ratio; /* budget_ratio < 0: off */
		double probes_ratio, threads_ratio, profile_ratio, growth_ratio;
		double process_ratio; /* of the CPU time the process used; NAN: not known */
		/* roletrace itself, since the attach; in none of these. Ratio NAN: not known */
		uint64_t tool_cpu_ns;
		double tool_ratio;
		struct snapshot_shed *shed; /* array owned */
		size_t shed_cnt;
		size_t shed_fns; /* functions that were not watched exactly all the time */
	} overhead;
	struct snapshot_fn *fns; /* array owned, all planned functions, plan order; then unprobed */
	size_t fn_cnt;
	struct snapshot_edge *edges; /* array owned, most total first */
	size_t edge_cnt;
	struct snapshot_skip *skipped; /* array owned */
	size_t skip_cnt;
	bool threads_known;		 /* the scheduler was watched */
	struct snapshot_thread *threads; /* array owned, most CPU first, the dead last */
	size_t thread_cnt;
	struct snapshot_lock *locks; /* array owned, most waiting first */
	size_t lock_cnt;
	uint64_t unlisted_waits;       /* at futexes without a row */
	struct snapshot_stall *stalls; /* array owned, in the order they were seen */
	size_t stall_cnt, more_stalls;
	struct snapshot_profiles *profiles; /* owned; NULL: none was asked for */
	struct snapshot_memory *memory;	    /* owned; NULL: not traced */
	struct snapshot_path *paths;	    /* array owned */
	size_t path_cnt;
	struct snapshot_alloc_stack *alloc_stacks; /* array owned */
	size_t alloc_stack_cnt;
	const char *profile; /* role profile, or NULL */
	const char *hint;    /* one line for the reader, or NULL */
	struct arena *arena; /* owned: frames of paths, the strings of a snapshot that was read */
};

/* An empty one on the heap, or NULL. snapshot__free frees what is marked owned, and s itself. */
struct snapshot *snapshot__new(void);
void snapshot__free(struct snapshot *s);

/*
 * What happened between two snapshots of one plan, prev the older (NULL: nothing before now, a
 * copy). Counters, sums and histograms are differences; states stay those of now: in_flight,
 * coverage, prices, floor, target, health, shed. So with prev's in_flight P of a settled function:
 * P + calls == returned + unwound + in_flight. min and max of the interval are exact when it moved
 * the extreme, else the bounds of its outermost buckets. A counter that went backwards counts as
 * unmoved. Unprobed rows are matched by name and symbol; one that prev did not have starts from
 * nothing, but is left out where prev may have counted it unseen (no CPU profile, or rows folded).
 * It has no profiles, paths and alloc stacks. Its strings are those of now, which has to
 * outlive it. NULL with errno: EINVAL not of one plan, ENOMEM.
 */
struct snapshot *snapshot__delta(const struct snapshot *now, const struct snapshot *prev);

/*
 * The q-quantile (0..1) of a histogram in ns: linear within its bucket, clipped to [min, max].
 * 0 when empty. Of a sampled function an estimate for all its calls: those of windows are weighted.
 */
uint64_t snapshot__quantile_ns(const struct snapshot_fn *fn, double q);
uint64_t snapshot__mean_ns(const struct snapshot_fn *fn);	 /* of the timed calls */
uint64_t snapshot__mean_of_all_ns(const struct snapshot_fn *fn); /* those of windows weighted */
/* The best that is known of the whole window: what was counted and measured, or its estimate. */
uint64_t snapshot__all_calls(const struct snapshot_fn *fn);
uint64_t snapshot__time_ns(const struct snapshot_fn *fn, enum snapshot_time which);
enum snapshot_basis snapshot__calls_basis(const struct snapshot_fn *fn);
enum snapshot_basis snapshot__time_basis(const struct snapshot_fn *fn);
/*
 * Whether more was taken off its durations for the probes inside, give or take what the price of a
 * probe is uncertain by, than is left: then they are upper bounds.
 */
bool snapshot__overcorrected(const struct snapshot_fn *fn);
/* Whether its callers, callees and paths are those of some of its calls only. */
bool snapshot__in_part(const struct snapshot_fn *fn);
/* TIME_TOTAL over the window: 1.0 = one thread's whole time. */
double snapshot__share(const struct snapshot *s, const struct snapshot_fn *fn);

/* Whether durations mean anything: false for entry-only and unprobed rows. */
bool snapshot__timed(const struct snapshot_fn *fn);
uint64_t snapshot__calls(const struct snapshot *s);
size_t snapshot__probed(const struct snapshot *s); /* rows that are not unprobed */
/* Marks makes_future where there are rows of polls. 0 or -ENOMEM. */
int snapshot__find_futures(struct snapshot *s);

/* By which figure rows are put in order, the greatest first; names from A to Z. */
enum snapshot_sort {
	SORT_TOTAL,
	SORT_CALLS,
	SORT_MEAN,
	SORT_P95,
	SORT_MAX,
	SORT_SELF,
	SORT_CPU, /* samples */
	SORT_NAME,
};
/*
 * An index of fns (to be freed) in that order; what is equal by total_ns, calls, name. What was
 * not measured counts as 0. NULL: no memory.
 */
uint32_t *snapshot__sorted(const struct snapshot *s, enum snapshot_sort by);

/* Which functions: those that one of functions or crates matches (both empty: all), but none that
 * an exclude matches. Globs, on whole names. */
struct snapshot_filter {
	const char *const *functions, *const *crates, *const *excludes;
	size_t function_cnt, crate_cnt, exclude_cnt;
};
/*
 * Takes the other functions out, the edges that lose an end, and the paths to others. The figures
 * of the whole (window, overhead, lost, profiles) stay. 0 or -ENOMEM.
 */
int snapshot__keep(struct snapshot *s, const struct snapshot_filter *filter);

/* A copy without the histogram and the intervals of quantiles. NULL: nothing, or no memory. */
struct snapshot_sampled *snapshot_sampled__state(const struct snapshot_sampled *s);
void snapshot_sampled__free(struct snapshot_sampled *s);

#endif
