/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probe sites to uprobe_multi links. Sites of a function stay together in a batch, and a batch in
 * one file; a batch is one
 * link (more when the kernel refuses a site: then the batch is halved until the culprit stands
 * alone and is named). A batch is changed without losing an event: the new links come first, the
 * batch's generation is switched, the old links go.
 */
#ifndef ATTACH_LINKS_H
#define ATTACH_LINKS_H

#include <stdbool.h>
#include <stddef.h>

#include "attach/object.h"
#include "plan/plan.h"

struct hands_pile;
struct links;

/* Which programs sit on the sites; the empty ones are the floor of the benchmarks. */
enum links_programs { LINKS_SITES, LINKS_URETPROBE, LINKS_EMPTY_SITES, LINKS_EMPTY_URETPROBE };

/*
 * paths open the files to probe, one per object of the plan; pid limits the links to a process (0:
 * any that maps the file).
 */
struct links_opts {
	const char *const *paths; /* borrowed for the links' life */
	int pid;
	enum links_programs programs;
};
int links__attach(struct object *obj, const struct plan *plan, const struct links_opts *opts,
		  struct links **out);

/* Functions the kernel refused; refused[fn] true. */
bool links__refused(const struct links *l, rt_u32 fn);
size_t links__site_cnt(const struct links *l);

/* Takes the probes of functions away (shed[fn] true stays true). */
int links__shed(struct links *l, const rt_u32 *fns, size_t cnt);
/* Of later links: the process they are limited to, 0 for none. */
void links__limit(struct links *l, int pid);
/* Attaches everything anew, e.g. after a debugger wrote over breakpoints. */
int links__rearm(struct links *l);

/* Frees it; the open links go to the closer. */
void links__free(struct links *l, struct hands_pile *to);

#endif
