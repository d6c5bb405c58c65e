/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The growth programs: no probes, only tracepoints of the kernel. They borrow the shadow stacks of
 * the function programs where there are any, and do without on any kernel. Nothing is counted until
 * the gate opens.
 */
#ifndef ATTACH_GROWTH_H
#define ATTACH_GROWTH_H

#include "attach/object.h"
#include "roletrace/growth.h"
#include "target/process.h"

struct btf;
struct growth;
struct stacks;

struct growth_opts {
	const struct stacks *stacks; /* for native stacks, or NULL */
	uint64_t sample_bytes; /* of first touches one stack for so many bytes; changes of the map
				  have one each, both as long as the budget allows it */
	double budget;	       /* of a CPU; < 0: none */
};

/* Whether the kernel of these types tells of changes of memory maps, at no cost to others. */
bool growth__has_map_events(const struct btf *btf);

/* 0 or -errno with one line in *reason (malloc'd). functions and target are borrowed; tgid: of the
 * target, for the kernel. What this kernel does not tell is no error: see growth__why. */
int growth__new(const struct object *functions, const struct target *target, rt_u32 tgid,
		const struct growth_opts *opts, struct growth **out, char **reason);
void growth__start(struct growth *g);
/* Looks whether there may be more native stacks again; about 5 times a second. took_ns: since the
 * last time. */
void growth__tick(struct growth *g, uint64_t took_ns);
void growth__stop(struct growth *g);
void growth__free(struct growth *g);

/* Why changes of the memory map are not seen; NULL: they are. */
const char *growth__why(const struct growth *g);

/* What happened at a call path (its id). */
void growth__path(const struct growth *g, rt_u32 path, struct rt_growth *out);
/* The same for threads outside traced functions, by name: calls each for every one. */
void growth__threads(const struct growth *g,
		     void (*each)(void *arg, const char comm[RT_COMM_BYTES],
				  const struct rt_growth *row),
		     void *arg);
/* The native stacks. NULL: none are kept. */
const struct stacks *growth__stacks(const struct growth *g);
/* What happened at the stack at a place; behind the last one: at those that were not kept. */
void growth__stack(const struct growth *g, rt_u32 place, struct rt_growth_stack *out);
/* The intervals of the sample so far, bytes; 1: each event. */
void growth__sampled(const struct growth *g, enum rt_growth_event event, uint64_t *low,
		     uint64_t *high);
/* Stacks that were taken of all events, and how long that took in all. */
void growth__taken(const struct growth *g, struct rt_growth_taken *out);

/* Events that the programs could not look at. */
rt_u64 growth__missed(const struct growth *g);
/* What its programs took so far, ns, by their own clocks; in so many runs. */
uint64_t growth__spent_ns(const struct growth *g, uint64_t *runs);

#endif
